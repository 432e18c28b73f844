//! Writes packets that leave a run to files on a separate thread.

mod file;
pub mod index;
mod lanes;
mod order;

use crate::cli;
use crate::failures::{Failures, FileTrouble};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use file::{Common, PacketFile};
pub use file::{FileSpec, Has};
pub use lanes::Lanes;
use order::{Merge, Reorder, Round};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_anon::Anonymiser;
use weir_api::Level;
use weir_capture::{InterfaceInfo, Patience, WriteError, Written};
use weir_wire::{PacketBuf, Slot, Time};

/// Maximum number of batches in the queue in a run over files, together a few megabytes.
const QUEUE: usize = 64;
/// Maximum number of batches in the queue in a live run, where a batch may have one packet; their bytes are limited
/// too.
const LIVE_QUEUE: usize = 16_384;
/// Interval at which the writer checks the clock while no packets arrive.
const TICK: Duration = Duration::from_millis(500);
/// Nanoseconds after which a packet of a live run is written even if a worker has not reached its time.
const LATE: u64 = 1_000_000_000;
/// Time for which a reader of packets may take nothing at the end of a run, before the remaining packets are
/// abandoned.
pub const GRACE: Duration = Duration::from_secs(3);

/// The kind of run that packets are written in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum For {
    /// A run over files: it waits for a slow reader.
    Files,
    /// A live run: packets that the reader of a pipe is too slow for are shed.
    Link,
    /// A live run with a full screen: nothing goes to standard error.
    Screen,
}

/// The options of a writer of packet files.
pub struct DumpOptions<'r> {
    /// The command line.
    pub options: &'r cli::RunOptions,
    /// The level at which it is decided whether a packet leaves.
    pub level: Level,
    /// Number of workers.
    pub workers: usize,
    /// The kind of run.
    pub purpose: For,
    /// Anonymiser of the packets, if any.
    pub anonymiser: Option<Anonymiser>,
    /// Maximum bytes of packets in the queue in a live run.
    pub room: usize,
    /// In a run over files, bytes within which packets that leave late are put in order.
    pub reorder: usize,
    /// Set to end the run, because the reader of a pipe has closed it.
    pub stop: Arc<AtomicBool>,
    /// Set after a signal has requested the end of the run.
    pub interrupted: Arc<AtomicBool>,
    /// Failures of the file.
    pub failures: Failures,
}

/// Packets of one worker.
pub struct Parcel {
    /// Index of the worker.
    pub worker: usize,
    /// The packets of each file, in order.
    pub packets: Vec<ForFile>,
    /// The packets that follow.
    pub mark: Mark,
}

/// Packets for a file.
pub struct ForFile {
    /// The file, which is written as long as this lives.
    pub file: Arc<FileSpec>,
    /// The packets, in order.
    pub packets: PacketBuf,
}

impl Parcel {
    /// Bytes that its packets occupy.
    fn memory(&self) -> usize {
        self.packets.iter().map(|one| memory(&one.packets)).sum()
    }
}

/// What a parcel tells about the later packets of its worker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mark {
    /// Nothing.
    More,
    /// They are of the next round of a run over files: see [`Merge`].
    EndsRound,
    /// They are later than this time: see [`Lanes`].
    UpTo(Time),
}

/// A bounded queue to the writer of a packet file.
#[derive(Clone)]
pub struct Intake {
    to: Sender<Parcel>,
    /// Bytes in the queue.
    waiting: Arc<AtomicUsize>,
    room: usize,
    /// Whether the workers of a live run send the times that they have reached.
    by_time: bool,
}

impl Intake {
    fn new(capacity: usize, room: usize, by_time: bool) -> (Intake, Receiver<Parcel>) {
        let (to, from) = crossbeam_channel::bounded(capacity);
        (Intake { to, waiting: Arc::default(), room, by_time }, from)
    }

    /// Whether the workers of a live run send the times that they have reached.
    pub fn is_by_time(&self) -> bool {
        self.by_time
    }

    /// Sends packets, and waits while the queue is full.
    pub fn send(&self, parcel: Parcel) {
        self.waiting.fetch_add(parcel.memory(), Ordering::Relaxed);
        // A writer that has ended has reported the reason.
        let _ = self.to.send(parcel);
    }

    /// Sends packets if the queue has room. Returns the parcel if it has not: its packets are shed.
    pub fn offer(&self, parcel: Parcel) -> Option<Parcel> {
        let bytes = parcel.memory();
        let mut shed = Some(parcel);
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) < self.room {
            shed = match shed.map(|parcel| self.to.try_send(parcel)) {
                Some(Err(TrySendError::Full(parcel))) => Some(parcel),
                _ => return None,
            };
        }
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        shed
    }
}

/// Bytes of memory that packets occupy, with what their vectors have in reserve.
pub fn memory(packets: &PacketBuf) -> usize {
    packets.bytes.capacity() + packets.slots.capacity() * size_of::<Slot>()
}

/// The result of a packet file.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Results of the writer.
    pub written: Written,
    /// The first error.
    pub trouble: Option<WriteError>,
    /// Whether the reader closed the pipe, as head(1) does after enough lines. This is not an error.
    pub reader_gone: bool,
}

/// A packet file that has ended.
pub struct Ended {
    /// The file.
    pub file: Arc<FileSpec>,
    /// Its result.
    pub outcome: Outcome,
}

/// Packet files that are being written.
pub struct Dump {
    intake: Intake,
    purpose: For,
    /// Set when the run is to end.
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Ended>>,
}

impl Dump {
    /// Starts a writer of files. `first` is opened at once; others are opened with their first packet.
    ///
    /// # Errors
    /// The first file cannot be opened.
    pub fn start(
        first: &[Arc<FileSpec>],
        with: DumpOptions<'_>,
        interfaces: &[InterfaceInfo],
    ) -> Result<Dump, WriteError> {
        let DumpOptions {
            options,
            level,
            workers,
            purpose,
            anonymiser,
            room,
            reorder,
            stop,
            interrupted,
            failures,
        } = with;
        // Set when the wait for the reader of a pipe is limited from now on.
        let (ends, capacity) = match purpose {
            For::Files => (interrupted, QUEUE),
            For::Link | For::Screen => (Arc::clone(&stop), LIVE_QUEUE),
        };
        let common = Common {
            unbuffered: options.packets.unbuffered,
            patience: Patience { ends: Arc::clone(&ends), grace: GRACE },
            interfaces: interfaces.to_vec(),
            purpose,
            anonymiser,
            stop,
            failures,
        };
        let is_file = purpose == For::Files;
        let by_time = !is_file && workers > 1;
        let (intake, from) = Intake::new(capacity, room, by_time);
        let mut work = Work {
            merge: is_file.then(|| Merge::new(workers)),
            reached: if by_time { vec![Time(0); workers] } else { Vec::new() },
            room,
            reorder: (is_file && level != Level::Packet).then_some(reorder),
            waiting: Arc::clone(&intake.waiting),
            common,
            files: BTreeMap::new(),
            ended: Vec::new(),
        };
        for first in first {
            let file = PacketFile::start(first, &work.common, now())?;
            work.begin(first, file);
        }
        let thread = std::thread::spawn(move || work.write_all(&from));
        Ok(Dump { intake, purpose, ends, thread })
    }

    /// A sender of packets to the writer.
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// Opens a file during a live run, before its first packet.
    pub fn open(&self, file: Arc<FileSpec>) {
        let packets = vec![ForFile { file, packets: PacketBuf::default() }];
        // Without room its first packet opens it.
        let _ = self.intake.offer(Parcel { worker: 0, packets, mark: Mark::More });
    }

    /// Writes the remaining packets. A live run waits a few seconds for the reader of a pipe; a run over files waits
    /// until it is interrupted.
    pub fn finish(self) -> Vec<Ended> {
        drop(self.intake);
        if self.purpose == For::Link {
            self.ends.store(true, Ordering::Relaxed);
        }
        self.thread.join().unwrap_or_default()
    }
}

fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64)
}

/// The state of the writing thread.
struct Work {
    /// Puts the packets of the workers of a run over files in order.
    merge: Option<Merge>,
    /// The time that each worker of a live run has reached, if there are several: see [`Lanes`].
    reached: Vec<Time>,
    /// Maximum bytes in the queue of a live run, and of packets that wait for other workers.
    room: usize,
    /// Maximum bytes of packets that leave late in which they are put in order; `None` if none leave late.
    reorder: Option<usize>,
    /// Bytes in the queue.
    waiting: Arc<AtomicUsize>,
    common: Common,
    /// The open files, by number.
    files: BTreeMap<u32, Open>,
    /// The results of those that ended.
    ended: Vec<Ended>,
}

/// An open file, and its packets that wait.
struct Open {
    spec: Arc<FileSpec>,
    /// Puts the packets of several workers of a live run in order.
    lanes: Option<Lanes>,
    /// Puts packets in order that leave late.
    reorder: Option<Reorder>,
    file: PacketFile,
}

impl Work {
    fn write_all(mut self, from: &Receiver<Parcel>) -> Vec<Ended> {
        let mut next_tick = 0;
        loop {
            match from.recv_timeout(TICK) {
                Ok(parcel) => self.take(parcel),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = now();
            // The reader of a pipe gets packets as soon as the queue is empty.
            let has_pipe = || self.files.values().any(|open| open.file.is_pipe());
            if now.0 >= next_tick || from.is_empty() && has_pipe() {
                self.write_until(Time(now.0.saturating_sub(LATE)));
                self.files.values_mut().for_each(|open| open.file.tick(now));
                self.end_unused();
                next_tick = now.0 + TICK.as_nanos() as u64;
            }
        }
        if let Some(rest) = self.merge.as_mut().map(Merge::rest) {
            self.write(rest);
        }
        self.write_until(Time(u64::MAX));
        let ended =
            std::mem::take(&mut self.files).into_values().map(|open| self.end(open)).collect::<Vec<_>>();
        self.ended.extend(ended);
        self.ended
    }

    /// The file of a specification, opened if it is not open. `first` is the time of its first packet.
    fn open(&mut self, spec: &Arc<FileSpec>, first: Time) -> Option<&mut Open> {
        if !self.files.contains_key(&spec.number) {
            let start = if self.common.purpose == For::Files { first } else { now() };
            let file = PacketFile::start_later(spec, &self.common, start);
            self.begin(spec, file);
        }
        self.files.get_mut(&spec.number)
    }

    fn begin(&mut self, spec: &Arc<FileSpec>, file: PacketFile) {
        let workers = self.reached.len();
        let open = Open {
            spec: Arc::clone(spec),
            lanes: (workers > 0).then(|| Lanes::new(workers)),
            reorder: self.reorder.map(Reorder::new),
            file,
        };
        self.files.insert(spec.number, open);
    }

    fn take(&mut self, parcel: Parcel) {
        if let Some(merge) = &mut self.merge {
            if let Some(round) = merge.take(parcel) {
                let bytes = round.iter().map(|(_, round)| round.memory()).sum();
                self.write(round);
                self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            }
            return;
        }
        let Parcel { worker, packets, mark } = parcel;
        if self.reached.is_empty() {
            for ForFile { file, packets } in packets {
                let first = packets.slots.first().map_or(Time(0), |slot| slot.time);
                if let Some(open) = self.open(&file, first) {
                    open.file.write(packets.batch());
                }
                self.waiting.fetch_sub(memory(&packets), Ordering::Relaxed);
            }
            return;
        }
        if let (Mark::UpTo(time), Some(reached)) = (mark, self.reached.get_mut(worker)) {
            *reached = time.max(*reached);
        }
        for ForFile { file, packets } in packets {
            if let (Some(last), Some(reached)) = (packets.slots.last(), self.reached.get_mut(worker)) {
                *reached = last.time.max(*reached);
            }
            let first = packets.slots.first().map_or(Time(0), |slot| slot.time);
            let lanes = self.open(&file, first).and_then(|open| open.lanes.as_mut());
            if let Some(lanes) = lanes.filter(|_| !packets.slots.is_empty()) {
                lanes.push(worker, packets);
            }
        }
        self.write_until(Time(0));
    }

    /// Writes packets up to a time that wait for other workers, and those that need not wait any more.
    fn write_until(&mut self, until: Time) {
        let Self { files, reached, waiting, room, .. } = self;
        for Open { lanes, file, .. } in files.values_mut() {
            let Some(lanes) = lanes.as_mut().filter(|lanes| lanes.bytes() > 0) else { continue };
            // Where the writer is too slow, packets are written in the order of arrival before any are shed.
            let queued = waiting.load(Ordering::Relaxed).saturating_sub(lanes.bytes());
            let limit = (*room / 2).saturating_sub(queued);
            let freed = lanes.write_until(reached, until, limit, |packets| file.write(packets));
            waiting.fetch_sub(freed, Ordering::Relaxed);
        }
    }

    /// Writes the packets of a round of all workers.
    fn write(&mut self, round: Vec<(Arc<FileSpec>, Round)>) {
        for (spec, round) in &round {
            let Some(first) = round.packets().next().and_then(|batch| Some(batch.slots.first()?.time)) else {
                continue;
            };
            let Some(Open { file, reorder, .. }) = self.open(spec, first) else { continue };
            for packets in round.packets() {
                match reorder {
                    Some(reorder) => reorder.take(packets, |packets| file.write(packets)),
                    None => file.write(packets),
                }
            }
        }
    }

    /// Ends the files that no worker writes to any more.
    fn end_unused(&mut self) {
        let is_unused = |open: &Open| {
            Arc::strong_count(&open.spec) == 1 && open.lanes.as_ref().is_none_or(|lanes| lanes.bytes() == 0)
        };
        let unused: Vec<Open> =
            self.files.extract_if(.., |_, open| is_unused(open)).map(|(_, open)| open).collect();
        let ended: Vec<Ended> = unused.into_iter().map(|open| self.end(open)).collect();
        self.ended.extend(ended);
    }

    fn end(&self, open: Open) -> Ended {
        let Open { spec, reorder, mut file, .. } = open;
        if let Some(mut reorder) = reorder {
            reorder.finish(|packets| file.write(packets));
        }
        Ended { file: spec, outcome: file.close() }
    }
}

impl Outcome {
    /// Whether packets are missing because of an error other than a closed pipe.
    pub fn is_trouble(&self) -> bool {
        self.trouble.is_some() || self.written.lost > 0 && !self.reader_gone
    }

    /// Records an error. A reader that closes the pipe ends the run without a message.
    fn note(&mut self, error: WriteError, purpose: For, stop: &AtomicBool, failures: &Failures) {
        if matches!(error, WriteError::Closed { .. }) {
            self.reader_gone = true;
            stop.store(true, Ordering::Relaxed);
            return;
        }
        failures.note(error.path(), FileTrouble::of(error.is_full()));
        if self.trouble.is_none() && !self.reader_gone {
            if purpose != For::Screen {
                eprintln!("weir: {error}");
            }
            self.trouble = Some(error);
        }
    }
}
