//! A packet file of a trigger.

use super::kept::stamp;
use super::{DumpSpec, Opened, Outcome};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_api::Ledger;
use weir_capture::{InterfaceInfo, PacketWriter, Statistics, Target, WriteError, WriteOptions};
use weir_filter::{Filter, Options};
use weir_output::zone::rfc3339;
use weir_wire::{Layers, Packet, Time};

/// The packets that a file is to have.
#[derive(Debug)]
pub struct Wanted {
    /// The expression; empty for all packets.
    text: String,
    filter: Option<Filter>,
    /// Time of the first and after the last packet, in nanoseconds since the epoch.
    pub from: u64,
    /// See `from`.
    pub until: u64,
}

impl Wanted {
    /// The packets for an event that has begun.
    ///
    /// # Errors
    /// The subject of the event lacks what the expression of the trigger has.
    pub fn of(opened: &Opened, options: &Options<'_>) -> Result<Self, String> {
        let Opened { trigger, event, .. } = opened;
        let text = trigger.expression(event)?;
        let filter = match &*text {
            "" => None,
            text => Some(Filter::compile(text, options).map_err(|error| error.to_string())?),
        };
        let from = event.begin.saturating_sub(trigger.dump.before);
        Ok(Self { text, filter, from, until: event.begin.saturating_add(trigger.dump.after) })
    }

    /// Whether packets of a time may be among them.
    pub fn has_time(&self, time: Time) -> bool {
        (self.from..self.until).contains(&time.0)
    }

    /// Whether the expression selects a packet.
    pub fn selects(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(packet, layers))
    }
}

/// Bytes of a packet's block beside its data, at most: the fields, padding and the option with the direction.
const BLOCK: u64 = 48;

/// Bytes of a file beside its packets, at most: its comments, interfaces and their statistics.
const FRAME: u64 = 8 << 10;

impl DumpSpec {
    /// Bytes of disk that a file of a link may take, if all files of the trigger have a limit: blocks count as packets do.
    pub fn most(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.min(self.bytes.saturating_add(FRAME)))
    }
}

/// A file, which is created with its first packet.
pub struct DumpFile {
    opened: Opened,
    /// The expression of its packets.
    text: String,
    from: u64,
    until: u64,
    path: PathBuf,
    /// Bytes of disk that are left for it, and for others that share them.
    room: Arc<AtomicU64>,
    writer: Option<PacketWriter>,
    /// Time of its last packet.
    last: Time,
    /// Number of interfaces that the writer knows.
    interfaces: usize,
    packets: u64,
    bytes: u64,
    /// Packets that were lost on the way to the file.
    lost: u64,
    is_full: bool,
    failed: Option<WriteError>,
}

impl DumpFile {
    /// A file without packets, of a name that is not taken, with this many bytes of disk.
    pub fn new(
        opened: &Opened,
        wanted: &Wanted,
        room: Arc<AtomicU64>,
        is_taken: impl Fn(&Path) -> bool,
    ) -> Self {
        let Opened { trigger, event, .. } = opened;
        let stem = format!("{}.{}", trigger.name, stamp(event.begin));
        let first = trigger.dump.to.join(format!("{stem}.pcapng"));
        let others = (2_u64..).map(|number| trigger.dump.to.join(format!("{stem}-{number}.pcapng")));
        let path = std::iter::once(first.clone()).chain(others).find(|path| !is_taken(path));
        Self {
            opened: opened.clone(),
            text: wanted.text.clone(),
            from: wanted.from,
            until: wanted.until,
            path: path.unwrap_or(first),
            room,
            writer: None,
            last: Time(0),
            interfaces: 0,
            packets: 0,
            bytes: 0,
            lost: 0,
            is_full: false,
            failed: None,
        }
    }

    /// Whether it takes further packets.
    pub fn is_open(&self) -> bool {
        !self.is_full && self.failed.is_none()
    }

    /// Whether it has reached a limit of its own.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether it is being written without an error.
    pub fn is_written(&self) -> bool {
        self.writer.is_some() && self.failed.is_none()
    }

    /// The path at which it is written, which is not its own until it ends; `None` without packets.
    pub fn place(&self) -> Option<&Path> {
        self.writer.as_ref()?.place().map(|place| place.written.as_path())
    }

    /// Fails if it is no longer in its directory.
    pub fn look(&mut self) {
        if self.is_written() && self.place().is_some_and(|path| !path.exists()) {
            let source =
                Arc::new(io::Error::new(io::ErrorKind::NotFound, "it was removed while it was written"));
            self.failed = Some(WriteError::Write {
                path: self.path.display().to_string(),
                packets: self.packets,
                source,
            });
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was not written because its disk is full.
    pub fn has_full_disk(&self) -> bool {
        self.failed.as_ref().is_some_and(WriteError::is_full)
    }

    /// Counts packets that were lost on the way here.
    pub fn lose(&mut self, packets: u64) {
        self.lost += packets;
    }

    /// Writes a packet, unless a limit is reached. `interfaces` are those that packets may be of.
    pub fn write(&mut self, packet: &Packet<'_>, interfaces: &[InterfaceInfo]) {
        if !self.is_open() {
            return;
        }
        let spec = &self.opened.trigger.dump;
        let length = if spec.snaplen > 0 { spec.snaplen as usize } else { usize::MAX };
        let data = packet.data.get(..length).unwrap_or(packet.data);
        let bytes = data.len() as u64;
        let frame = if self.writer.is_none() { FRAME } else { 0 };
        if self.packets >= spec.packets
            || self.bytes + bytes > spec.bytes
            || !self.takes(bytes + BLOCK + frame)
        {
            self.is_full = true;
            return;
        }
        if self.writer.is_none() {
            match self.start(packet.time, interfaces) {
                Ok(writer) => {
                    self.writer = Some(writer);
                    self.interfaces = interfaces.len();
                }
                Err(error) => return self.failed = Some(error),
            }
        }
        let Some(writer) = &mut self.writer else { return };
        // A capture may describe an interface after packets of others.
        for (number, interface) in (0..).zip(interfaces).skip(self.interfaces) {
            writer.describe(number, interface.clone());
        }
        self.interfaces = interfaces.len();
        if let Err(error) = writer.write(&Packet { data, ..*packet }) {
            self.failed = Some(error);
        }
        self.last = packet.time;
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Takes bytes of its room. Returns whether they were left.
    fn takes(&self, bytes: u64) -> bool {
        let take = |room: u64| room.checked_sub(bytes);
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn start(&self, first: Time, interfaces: &[InterfaceInfo]) -> Result<PacketWriter, WriteError> {
        let options = WriteOptions {
            application: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
            comments: self.comments(first),
            snaplen: self.opened.trigger.dump.snaplen,
            ..WriteOptions::default()
        };
        PacketWriter::create(Target::Path(self.path.clone()), options, interfaces, first)
    }

    /// What the file says of itself: who decided, by which formula and number, and which packets it has.
    fn comments(&self, first: Time) -> Vec<String> {
        let Self { opened: Opened { trigger, event, .. }, text, from, until, .. } = self;
        let numbers: Vec<String> =
            event.evidence.iter().map(|one| format!("{} {}", one.name, one.number())).collect();
        let before = |time: u64| event.begin.saturating_sub(time) as f64 / 1e9;
        let lost = self.opened.ledger.as_ref().map(lost);
        let own = [
            format!("trigger {}: {}", trigger.name, trigger.formula()),
            format!("event {} of {}, {}", event.name(), event.subject, rfc3339(event.begin)),
            format!("numbers: {}", if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }),
            format!("packets: {}", if text.is_empty() { "all" } else { text }),
            format!("before the event: {:.3} s wanted, {:.3} s written", before(*from), before(first.0)),
            format!("after its beginning: {:.3} s wanted", until.saturating_sub(event.begin) as f64 / 1e9),
        ];
        own.into_iter().chain(lost).collect()
    }

    /// Notes what its only interface received and lost in the run until now.
    pub fn count(&mut self, ledger: &Ledger) {
        let dropped = ledger.capture.lost();
        let statistics = Statistics { received: ledger.caught + dropped, dropped };
        let Some(writer) = &mut self.writer else { return };
        writer.statistics(0, statistics);
        // The statistics have the time of the last packet.
        if let Err(error) = writer.tick(self.last) {
            self.failed = self.failed.take().or(Some(error));
        }
    }

    /// Closes the file and adds it to the outcome. Returns what failed, in words.
    pub fn finish(self, outcome: &mut Outcome) -> Option<String> {
        let Self { opened: Opened { trigger, .. }, path, writer, mut failed, is_full, lost, .. } = self;
        outcome.lost += lost;
        match writer {
            Some(writer) => {
                let (written, closed) = writer.close();
                failed = failed.or(closed.err());
                outcome.files += 1;
                outcome.packets += written.packets;
                outcome.full += u64::from(is_full);
                outcome.directories.insert(trigger.dump.to.clone());
            }
            // There was room for no packet.
            None if is_full => outcome.refused += 1,
            None if failed.is_none() => outcome.empty += 1,
            None => {}
        }
        failed.map(|error| format!("trigger {}: {}: {error}", trigger.name, path.display()))
    }
}

/// What a run has lost until its event, in words.
fn lost(ledger: &Ledger) -> String {
    let (caught, capture) = (ledger.caught, &ledger.capture);
    format!(
        "ledger of the run at the event: {caught} packets caught, {} dropped by the kernel, {} by the interface: \
         those are not in this file",
        capture.dropped, capture.interface_dropped
    )
}
