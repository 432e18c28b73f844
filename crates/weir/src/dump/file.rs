//! One packet file of a writer.

use super::index::{DumpIndex, FileReporter};
use super::{For, Outcome};
use crate::delivered::Delivered;
use crate::failures::Failures;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use weir_anon::Anonymiser;
use weir_capture::{
    InterfaceInfo, PacketWriter, Patience, Repair, Rotate, Target, WriteError, WriteOptions, Written,
    salvage_leftovers,
};
use weir_output::figures::count;
use weir_wire::{Batch, Time};

/// A packet file, as it is opened.
#[derive(Debug)]
pub struct FileSpec {
    /// Its number within the run.
    pub number: u32,
    /// Where it is.
    target: Target,
    /// When the next file of a sequence begins.
    rotate: Rotate,
    /// Number of files by time that are kept; older ones are removed.
    kept: Option<usize>,
    /// Maximum bytes of a packet that are written; 0 for all.
    snaplen: u32,
    /// Whether only a regular file is opened, and no link is followed.
    is_plain: bool,
    /// The name in the request.
    pub name: Box<str>,
    /// What packets it has.
    pub has: Has,
    /// The index of its files, if others read them while they are written.
    index: DumpIndex,
    /// What is counted of it.
    pub delivered: Arc<Delivered>,
}

/// The packets that a file has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Has {
    /// All that match the expression of the run.
    Matching,
    /// All of unidentified flows.
    Unidentified,
    /// Those that functions select.
    Selected,
}

/// The number of the next file.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl FileSpec {
    /// A file of an option, where `-` is standard output. A name stands for one file unless `rotate` is set. `snaplen` is the
    /// maximum number of bytes of a packet that are written; 0 for all.
    pub fn of_option(name: &str, rotate: Rotate, snaplen: u32, delivered: Arc<Delivered>) -> Self {
        let target = if name == "-" { Target::Stdout } else { Target::Path(PathBuf::from(name)) };
        Self {
            number: number(),
            target,
            rotate,
            kept: None,
            snaplen,
            is_plain: false,
            name: name.into(),
            has: Has::Selected,
            index: DumpIndex::default(),
            delivered,
        }
    }

    /// A regular file, of whose sequence by time at most `kept` files are kept. `path` is a pattern where `rotate` is by time.
    pub fn plain(
        path: PathBuf,
        rotate: Rotate,
        kept: Option<usize>,
        snaplen: u32,
        delivered: Arc<Delivered>,
    ) -> Self {
        let name = path.to_string_lossy().into();
        Self {
            number: number(),
            name,
            has: Has::Selected,
            index: DumpIndex::default(),
            target: Target::Path(path),
            rotate,
            kept,
            snaplen,
            is_plain: true,
            delivered,
        }
    }
}

impl FileSpec {
    /// The file with what it has, and the index of its files.
    pub fn having(self, has: Has, index: DumpIndex) -> Self {
        Self { has, index, ..self }
    }

    /// Whether it is opened before its first packet: the user who started the program named it.
    pub fn opens_early(&self) -> bool {
        !self.is_plain
    }
}

#[cfg(test)]
impl FileSpec {
    /// The file with that number.
    pub fn numbered(self, number: u32) -> Self {
        Self { number, ..self }
    }
}

fn number() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Bytes of packets after which they are counted; a tick counts all.
const UNCOUNTED: u64 = 64 << 10;

/// What the files of a writer have in common.
pub struct Common {
    /// Whether each packet is written at once.
    pub unbuffered: bool,
    /// How long the reader of a pipe is waited for.
    pub patience: Patience,
    /// The interfaces of the run.
    pub interfaces: Vec<InterfaceInfo>,
    /// The kind of run.
    pub purpose: For,
    /// Anonymiser of the packets, if any.
    pub anonymiser: Option<Anonymiser>,
    /// Set to end the run, because the reader of a pipe has closed it.
    pub stop: Arc<AtomicBool>,
    /// Failures of the files.
    pub failures: Failures,
}

/// A packet file, its anonymiser and its errors.
pub struct PacketFile {
    /// `None` if it could not be opened: its packets are lost.
    writer: Option<PacketWriter>,
    purpose: For,
    anonymiser: Option<Anonymiser>,
    reporter: FileReporter,
    stop: Arc<AtomicBool>,
    failures: Failures,
    outcome: Outcome,
    /// Memory for the anonymised image of a packet.
    image: Vec<u8>,
    /// Time of the last packet.
    last: Time,
    rotation: Rotation,
    /// Maximum bytes of a packet that are written.
    snaplen: usize,
    delivered: Arc<Delivered>,
    /// Bytes of the packets given to the writer, and its results, that are not counted yet.
    bytes: u64,
    counted: Written,
}

/// The sequence of files by packet time: those of targets.
#[derive(Default)]
struct Rotation {
    /// Nanoseconds of a file; 0 for none.
    every: u64,
    /// The time at which the next file begins, in nanoseconds since the epoch.
    next: u64,
    /// Number of files that are kept.
    kept: Option<usize>,
    /// The files, oldest first, and the number of files of the writer that they contain.
    files: VecDeque<PathBuf>,
    seen: u64,
}

impl PacketFile {
    /// Opens a file. `now` is the time from which its period counts.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn start(spec: &FileSpec, common: &Common, now: Time) -> Result<Self, WriteError> {
        let mut file = Self::closed(spec, common, now);
        let writer = create(spec, common, now)?;
        file.reporter.look(&writer, Time(0));
        file.writer = Some(writer);
        file.rotation.look(file.writer.as_ref());
        Ok(file)
    }

    /// Opens a file during the run. The packets of one that cannot be opened are lost, and counted.
    pub fn start_later(spec: &FileSpec, common: &Common, now: Time) -> Self {
        Self::start(spec, common, now).unwrap_or_else(|error| {
            let mut file = Self::closed(spec, common, now);
            file.note(error);
            file
        })
    }

    fn closed(spec: &FileSpec, common: &Common, now: Time) -> Self {
        let every = spec.rotate.seconds.filter(|_| spec.is_plain).unwrap_or_default();
        let every = every.saturating_mul(1_000_000_000);
        Self {
            writer: None,
            purpose: common.purpose,
            anonymiser: common.anonymiser.clone(),
            reporter: spec.index.reporter(),
            stop: Arc::clone(&common.stop),
            failures: common.failures.clone(),
            outcome: Outcome::default(),
            image: Vec::new(),
            last: Time(0),
            snaplen: if spec.snaplen == 0 { usize::MAX } else { spec.snaplen as usize },
            delivered: Arc::clone(&spec.delivered),
            bytes: 0,
            counted: Written::default(),
            rotation: Rotation {
                every,
                next: now.0.saturating_add(every),
                kept: spec.kept,
                ..Rotation::default()
            },
        }
    }

    /// Whether it is read by a process, and not a file.
    pub fn is_pipe(&self) -> bool {
        self.writer.as_ref().is_some_and(PacketWriter::is_pipe)
    }

    /// Writes packets.
    pub fn write(&mut self, packets: Batch<'_>) {
        for packet in packets.packets() {
            if self.rotation.is_due(packet.time) {
                self.advance(packet.time);
            }
            let Some(writer) = &mut self.writer else {
                self.outcome.written.lost += 1;
                self.delivered.lose(1);
                continue;
            };
            self.bytes += packet.data.len().min(self.snaplen) as u64;
            let packet = match &mut self.anonymiser {
                Some(anonymiser) => anonymiser.packet(&packet, &mut self.image),
                None => packet,
            };
            let (time, written) = (packet.time, writer.write(&packet));
            self.last = time;
            self.reporter.look(writer, self.last);
            if let Err(error) = written {
                self.note(error);
            }
        }
        self.rotation.look(self.writer.as_ref());
        // Others read the counts: they are not touched for each packet.
        if self.bytes > UNCOUNTED {
            self.count();
        }
    }

    /// Counts what was written since the last call.
    fn count(&mut self) {
        if let Some(written) = self.writer.as_ref().map(PacketWriter::written) {
            self.count_up_to(written);
        }
    }

    fn count_up_to(&mut self, written: Written) {
        let packets = written.packets.wrapping_sub(self.counted.packets);
        self.delivered.write(packets, std::mem::take(&mut self.bytes));
        self.delivered.lose(written.lost.wrapping_sub(self.counted.lost));
        self.counted = written;
    }

    /// The clock has advanced. Files by packet time of a run over files have no other clock than their packets.
    pub fn tick(&mut self, now: Time) {
        if self.rotation.every == 0 || self.purpose != For::Files {
            self.advance(now);
        }
        self.count();
    }

    fn advance(&mut self, now: Time) {
        let Some(writer) = &mut self.writer else { return };
        let ticked = writer.tick(now);
        self.reporter.look(writer, self.last);
        if let Err(error) = ticked {
            self.note(error);
        }
        self.rotation.pass(now);
        self.rotation.look(self.writer.as_ref());
    }

    fn note(&mut self, error: WriteError) {
        self.outcome.note(error, self.purpose, &self.stop, &self.failures);
    }

    /// Writes what is left.
    pub fn close(mut self) -> Outcome {
        let Some(writer) = self.writer.take() else { return self.outcome };
        let (written, closed) = writer.close();
        self.count_up_to(written);
        let Self { purpose, stop, failures, mut outcome, .. } = self;
        if let Err(error) = closed {
            outcome.note(error, purpose, &stop, &failures);
        }
        // In a live run the summary includes the packets that were shed before.
        if purpose == For::Files && written.lost > 0 && outcome.trouble.is_none() && !outcome.reader_gone {
            eprintln!("weir: {} packets were not written: the reader stopped reading", count(written.lost));
        }
        outcome.written = written;
        outcome
    }
}

impl Rotation {
    fn is_due(&self, time: Time) -> bool {
        self.every > 0 && time.0 >= self.next
    }

    /// Notes that the clock has passed a time.
    fn pass(&mut self, now: Time) {
        if self.is_due(now) {
            self.next = now.0.saturating_add(self.every);
        }
    }

    /// Removes the oldest files where there are too many after a new one has begun.
    fn look(&mut self, writer: Option<&PacketWriter>) {
        let (Some(kept), Some(writer)) = (self.kept, writer) else { return };
        let files = writer.written().files;
        if files == self.seen {
            return;
        }
        self.seen = files;
        if let Some(place) = writer.place()
            && self.files.back() != Some(&place.path)
        {
            self.files.push_back(place.path.clone());
        }
        while self.files.len() > kept.max(1) {
            // A file that was removed by another program is not there.
            let _ = self.files.pop_front().map(fs::remove_file);
        }
    }
}

/// Opens the file, after the packets of a run that was killed were saved.
fn create(spec: &FileSpec, common: &Common, now: Time) -> Result<PacketWriter, WriteError> {
    if let Target::Path(path) = &spec.target {
        if spec.is_plain
            && let Ok(found) = fs::symlink_metadata(path)
            && !found.is_file()
        {
            let source = io::Error::other("not a regular file");
            return Err(WriteError::Create { path: path.display().to_string(), source: source.into() });
        }
        for saved in salvage_leftovers(path, &spec.rotate) {
            match saved {
                Ok((path, Repair { packets, .. })) => eprintln!(
                    "weir: {}: {} packets salvaged from a run that was killed",
                    path.display(),
                    count(packets)
                ),
                Err(error) => {
                    eprintln!("weir: cannot salvage the packets of a run that was killed: {error}")
                }
            }
        }
    }
    let write = WriteOptions {
        snaplen: spec.snaplen,
        unbuffered: common.unbuffered,
        patience: Some(common.patience.clone()),
        rotate: spec.rotate.clone(),
        application: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..WriteOptions::default()
    };
    PacketWriter::create(spec.target.clone(), write, &common.interfaces, now)
}
