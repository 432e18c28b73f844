//! Reading capture files.
//!
//! One read(2) puts a block of the file where the packets then stay. A [`weir_wire::PacketBuf`] is filled with bytes,
//! and a walk over them records the position of each packet. No packet is copied, and the buffer is small enough to
//! stay in the L2 cache. Mapping the file took twice the time in measurements.

mod ahead;
mod bytes;
mod capture;
mod describe;
mod error;
mod idle;
mod input;
mod interfaces;
mod merge;
mod pcap;
mod pcapng;
mod read;
mod times;
mod walk;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_wire::{Batch, PacketBuf, Time};

pub use ahead::ReadAhead;
pub(crate) use bytes::ByteSource;
pub use bytes::Compression;
pub use describe::{Blocks, Format, InputInfo, InterfaceInfo, LATEST, Progress};
pub use error::{ReadError, Severity};
pub use input::{Input, Kept};
pub use interfaces::MAX_INTERFACES;
pub use pcapng::Comment;
pub use times::{Outside, TimeRange, latest};

use crate::{CaptureStats, Source};
use capture::{Capture, Opening};
use input::Origin;
use interfaces::Interfaces;
use merge::{Merge, Read};
use walk::Limits;

/// Order in which several inputs are read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// By the packets' times, all inputs merged into one stream. Only inputs that overlap in time are open together.
    #[default]
    Time,
    /// One input after another, in the given order.
    Listed,
}

/// Options of reading.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Approximate number of bytes per buffer; a longer packet enlarges it.
    pub chunk_bytes: usize,
    /// Order in which several inputs are read.
    pub order: Order,
    /// Maximum number of packets to read.
    pub packets: Option<u64>,
    /// The time range of the packets to read; `None` for all.
    pub times: Option<TimeRange>,
    /// Maximum number of bytes to keep of each packet.
    pub snaplen: Option<u32>,
    /// After a corrupt record, look for the next plausible one instead of ending the input.
    pub recover: bool,
    /// Set, possibly by another thread, to end reading. Standard input or an idle fifo then ends as if its writer had
    /// closed it between two packets.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: 256 << 10,
            order: Order::default(),
            packets: None,
            times: None,
            snaplen: None,
            recover: false,
            stop: None,
        }
    }
}

/// Bytes per buffer of an input that overlaps with others in time.
const MERGED_CHUNK: usize = 64 << 10;

/// Reads capture files one after another, or several merged in time order.
pub struct Files {
    options: ReadOptions,
    sources: Vec<Origin>,
    /// Inputs that have not been opened, with the time of their first packet; the next one is last.
    waiting: Vec<(Time, usize)>,
    merge: Merge,
    /// Errors of inputs whose earlier packets have not been returned yet.
    failures: VecDeque<ReadError>,
    infos: Vec<InputInfo>,
    interfaces: Interfaces,
    comments: Vec<Comment>,
    /// See [`Files::starts`].
    starts: Vec<usize>,
    /// Whether the next packet belongs to [`Files::starts`].
    starts_next: bool,
    outside: Outside,
    packets: u64,
    bytes: u64,
    walked: u64,
    total: Option<u64>,
    /// The packets that [`Source::next_batch`] lends.
    lent: PacketBuf,
    is_drained: bool,
}

impl Files {
    /// Lists the inputs, directories by their capture files in name order.
    ///
    /// # Errors
    ///
    /// There is nothing to read, or the only input is unreadable or not a capture. Of several inputs, each bad one
    /// returns its error in its turn from [`Files::fill`].
    pub fn open(inputs: &[Input], options: &ReadOptions) -> Result<Files, ReadError> {
        let sources = input::expand(inputs)?;
        let total = sources.iter().map(|source| source.size).sum();
        let infos = sources
            .iter()
            .map(|source| InputInfo { name: source.name.clone(), ..InputInfo::default() })
            .collect();
        let options =
            ReadOptions { chunk_bytes: options.chunk_bytes.clamp(4 << 10, 64 << 20), ..options.clone() };
        let mut files = Files {
            waiting: (0..sources.len()).rev().map(|input| (Time(0), input)).collect(),
            options,
            sources,
            merge: Merge::default(),
            failures: VecDeque::new(),
            infos,
            interfaces: Interfaces::default(),
            comments: Vec::new(),
            starts: Vec::new(),
            starts_next: true,
            outside: Outside::default(),
            packets: 0,
            bytes: 0,
            walked: 0,
            total,
            lent: PacketBuf::default(),
            is_drained: false,
        };
        if files.sources.len() == 1 {
            files.open_next()?;
        } else if files.options.order == Order::Time {
            for (start, input) in &mut files.waiting {
                *start = files.sources.get(*input).and_then(first_time).unwrap_or_default();
            }
            files.waiting.sort_by_key(|key| Reverse(*key));
        }
        Ok(files)
    }

    /// Clears `chunk` and fills it with the next packets, of about `chunk_bytes` bytes; `false` at the end of all
    /// inputs. With [`ReadOptions::times`] a chunk may be empty before the end.
    ///
    /// # Errors
    ///
    /// Each input that ends with an error returns it once, after the packets before it. The next call continues with
    /// the remaining inputs: call until it returns `false`.
    pub fn fill(&mut self, chunk: &mut PacketBuf) -> Result<bool, ReadError> {
        chunk.clear();
        self.comments.clear();
        self.starts.clear();
        self.starts.extend(std::mem::take(&mut self.starts_next).then_some(0));
        let left = self.options.packets.map_or(u64::MAX, |max| max.saturating_sub(self.packets));
        self.gather(chunk, usize::try_from(left).unwrap_or(usize::MAX));
        let has_read = !chunk.slots.is_empty();
        if let Some(times) = self.options.times {
            self.outside.add(times.select(chunk, &mut self.comments, &mut self.starts));
        }
        self.packets += chunk.slots.len() as u64;
        while self.starts.pop_if(|at| *at >= chunk.slots.len()).is_some() {
            self.starts_next = true;
        }
        if left > 0
            && !has_read
            && let Some(error) = self.failures.pop_front()
        {
            return Err(error);
        }
        self.is_drained = !has_read;
        Ok(has_read)
    }

    fn gather(&mut self, chunk: &mut PacketBuf, left: usize) {
        let snaplen = self.options.snaplen.unwrap_or(u32::MAX);
        let in_time = self.options.order == Order::Time;
        // An error comes before the packets after it.
        while self.failures.is_empty()
            && chunk.slots.len() < left
            && chunk.bytes.len() < self.options.chunk_bytes
        {
            let front = self.merge.front();
            let due = self.waiting.last().map(|(start, _)| *start);
            let until = due.filter(|_| in_time);
            if due.is_some()
                && (self.merge.is_empty() || front.is_some_and(|at| until.is_some_and(|due| due <= at)))
            {
                if self.merge.is_empty() && self.starts.last() != Some(&chunk.slots.len()) {
                    self.starts.push(chunk.slots.len());
                }
                if let Err(error) = self.open_next() {
                    self.failures.push_back(error);
                }
            } else if let Some(input) = self.merge.drained() {
                let alone = self.merge.len() == 1;
                if alone && !chunk.slots.is_empty() {
                    return;
                }
                let limits = Limits { snaplen, packets: if alone { left } else { usize::MAX } };
                let read = if alone {
                    self.merge.fill(input, chunk, &limits, until, &mut self.interfaces, &mut self.comments)
                } else {
                    self.merge.refill(input, &limits, &mut self.interfaces)
                };
                match read {
                    Read::Handed => return,
                    Read::Held => {}
                    Read::Ended(capture, error) => self.close(input, *capture, error),
                }
            } else if front.is_some() {
                let bytes = self.options.chunk_bytes;
                self.merge.take(chunk, &mut self.comments, bytes, left, until);
            } else {
                return;
            }
        }
    }

    /// Opens the next waiting input.
    fn open_next(&mut self) -> Result<(), ReadError> {
        let Some((_, input)) = self.waiting.pop() else { return Ok(()) };
        let (Some(source), Some(info)) = (self.sources.get(input), self.infos.get_mut(input)) else {
            return Ok(());
        };
        // Overlapping inputs have many buffers, and packets are copied out of them: small buffers suffice.
        let chunk_bytes = self.options.chunk_bytes;
        let opening = Opening {
            name: &source.name,
            input,
            chunk_bytes: if self.merge.is_empty() { chunk_bytes } else { chunk_bytes.min(MERGED_CHUNK) },
            recover: self.options.recover,
            stop: self.options.stop.as_ref(),
        };
        let result = source
            .file(opening.stop)
            .and_then(|file| Capture::open(file, &opening, &mut self.interfaces, info));
        match result {
            Ok(capture) => {
                self.merge.add(input, capture);
                Ok(())
            }
            // Reading has been ended by the user.
            Err(error) if error.is_stop() => Ok(()),
            Err(error) => {
                info.problem = Some(error.clone());
                Err(error)
            }
        }
    }

    fn close(&mut self, input: usize, capture: Capture, error: Option<ReadError>) {
        self.merge.ahead().clear();
        self.bytes += capture.taken();
        self.walked += capture.position();
        if let Some(info) = self.infos.get_mut(input) {
            *info = capture.info;
        }
        self.failures.extend(error);
    }

    /// Comments on the packets of the last filled buffer.
    pub fn comments(&self) -> &[Comment] {
        &self.comments
    }

    /// Positions in the last chunk of packets that are the first of an input while no other input is open. No input covers
    /// the time between such a packet and the one before it.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The packets so far outside of [`ReadOptions::times`], which were not returned.
    pub fn outside(&self) -> Outside {
        self.outside
    }

    /// Whether [`Files::fill`] may wait for a writer: an input is not a regular file.
    pub fn may_wait(&self) -> bool {
        self.total.is_none()
    }

    /// The blocks that follow in the input that is read alone. Several threads may read them at once, before they call
    /// [`Files::fill`] in turn.
    pub fn ahead(&self) -> ReadAhead {
        self.merge.ahead()
    }

    /// Progress of reading.
    pub fn progress(&self) -> Progress {
        let open: u64 = self.merge.captures().map(Capture::taken).sum();
        Progress { bytes: self.bytes + open, total: self.total, packets: self.packets }
    }

    /// Bytes parsed in the inputs that are open or finished, after decompression.
    pub(crate) fn position(&self) -> u64 {
        self.walked + self.merge.captures().map(Capture::position).sum::<u64>()
    }

    /// The facts found so far about the inputs, in the given order.
    pub fn describe(&self) -> impl Iterator<Item = &InputInfo> {
        self.infos.iter().enumerate().map(|(input, info)| self.merge.info(input).unwrap_or(info))
    }

    /// The interfaces found so far; [`weir_wire::Packet::interface`] is an index into this slice. All interfaces from
    /// index [`MAX_INTERFACES`] on share one entry.
    pub fn interfaces(&self) -> &[InterfaceInfo] {
        &self.interfaces.list
    }

    /// Number of interfaces that share the entry with index [`MAX_INTERFACES`].
    pub fn interfaces_beyond(&self) -> u64 {
        self.interfaces.beyond
    }
}

impl Source for Files {
    type Error = ReadError;

    /// Waits as long as reading takes: `timeout` has no effect.
    fn next_batch(&mut self, _timeout: Duration) -> Result<Batch<'_>, ReadError> {
        let mut lent = std::mem::take(&mut self.lent);
        let filled = self.fill(&mut lent);
        self.lent = lent;
        filled.map(|_| self.lent.batch())
    }

    fn is_drained(&self) -> bool {
        self.is_drained
    }

    fn stats(&mut self) -> Result<CaptureStats, ReadError> {
        Ok(CaptureStats { received: self.packets, delivered: self.packets, ..CaptureStats::default() })
    }
}

/// The time of an input's first packet. 0 if the input has no packet, if the time cannot be found, and if the input
/// can be read only once: such an input is opened first.
fn first_time(source: &Origin) -> Option<Time> {
    source.size?;
    let opening = Opening { name: &source.name, input: 0, chunk_bytes: 16 << 10, recover: false, stop: None };
    let (mut interfaces, mut chunk) = (Interfaces::default(), PacketBuf::default());
    let mut capture =
        Capture::open(source.file(None).ok()?, &opening, &mut interfaces, &mut InputInfo::default()).ok()?;
    capture.fill(&mut chunk, &Limits { snaplen: 0, packets: 1 }, &mut interfaces, None).ok()?;
    chunk.slots.first().map(|slot| slot.time)
}
