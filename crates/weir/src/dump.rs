//! Writes the packets of an outlet to a file on a separate thread.

pub mod index;
mod lanes;
mod order;

use crate::cli;
use crate::failures::Failures;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use index::{DumpIndex, FileReporter};
use lanes::Lanes;
use order::{Merge, Reorder};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_anon::Anonymiser;
use weir_api::Level;
use weir_capture::{
    InterfaceInfo, PacketWriter, Patience, Repair, Rotate, Target, WriteError, WriteOptions, Written,
    salvage_leftovers,
};
use weir_output::figures::count;
use weir_wire::{Batch, PacketBuf, Slot, Time};

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

/// The options of a packet file.
pub struct DumpOptions<'r> {
    /// The command line.
    pub options: &'r cli::RunOptions,
    /// The level at which it is decided whether a packet leaves.
    pub level: Level,
    /// Number of workers.
    pub workers: usize,
    /// Rotation of the files.
    pub rotate: Rotate,
    /// The kind of run.
    pub purpose: For,
    /// Anonymiser of the packets, if any.
    pub anonymiser: Option<Anonymiser>,
    /// Maximum bytes of packets in the queue in a live run.
    pub room: usize,
    /// In a run over files, bytes within which packets that leave late are put in order.
    pub reorder: usize,
    /// The index of its files.
    pub dump_index: DumpIndex,
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
    /// The packets, in order.
    pub packets: PacketBuf,
    /// The packets that follow.
    pub mark: Mark,
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
        self.waiting.fetch_add(memory(&parcel.packets), Ordering::Relaxed);
        // A writer that has ended has reported the reason.
        let _ = self.to.send(parcel);
    }

    /// Sends packets if the queue has room. Returns the number of packets shed.
    pub fn offer(&self, parcel: Parcel) -> u64 {
        let (bytes, count) = (memory(&parcel.packets), parcel.packets.slots.len() as u64);
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) < self.room {
            match self.to.try_send(parcel) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return 0,
                Err(TrySendError::Full(_)) => {}
            }
        }
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        count
    }
}

/// Bytes that packets occupy in the queue.
fn memory(packets: &PacketBuf) -> usize {
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

/// A packet file that is being written.
pub struct Dump {
    intake: Intake,
    dump_index: DumpIndex,
    purpose: For,
    /// Set when the run is to end.
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
}

impl Dump {
    /// Starts the file. A name stands for one file unless `rotate` is set.
    pub fn start(
        name: &str,
        with: DumpOptions<'_>,
        interfaces: &[InterfaceInfo],
    ) -> Result<Dump, WriteError> {
        let DumpOptions {
            options,
            level,
            workers,
            rotate,
            purpose,
            anonymiser,
            room,
            reorder,
            dump_index,
            stop,
            interrupted,
            failures,
        } = with;
        let target = if name == "-" { Target::Stdout } else { Target::Path(PathBuf::from(name)) };
        if let Target::Path(path) = &target {
            for saved in salvage_leftovers(path, &rotate) {
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
        // Set when the wait for the reader of a pipe is limited from now on.
        let (ends, capacity) = match purpose {
            For::Files => (interrupted, QUEUE),
            For::Link | For::Screen => (Arc::clone(&stop), LIVE_QUEUE),
        };
        let write = WriteOptions {
            snaplen: options.snaplen,
            unbuffered: options.packets.unbuffered,
            patience: Some(Patience { ends: Arc::clone(&ends), grace: GRACE }),
            rotate,
            application: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..WriteOptions::default()
        };
        let writer = PacketWriter::create(target, write, interfaces, now())?;
        let is_file = purpose == For::Files;
        let by_time = !is_file && workers > 1;
        let (intake, from) = Intake::new(capacity, room, by_time);
        let mut reporter = dump_index.reporter();
        reporter.look(&writer, Time(0));
        let waiting = Arc::clone(&intake.waiting);
        let work = Work {
            merge: is_file.then(|| Merge::new(workers)),
            lanes: by_time.then(|| Lanes::new(workers, room / 2)),
            room,
            reorder: (is_file && level != Level::Packet).then(|| Reorder::new(reorder)),
            waiting,
            file: PacketFile {
                writer,
                purpose,
                anonymiser,
                reporter,
                stop,
                failures,
                outcome: Outcome::default(),
                image: Vec::new(),
                last: Time(0),
            },
        };
        let thread = std::thread::spawn(move || work.write_all(&from));
        Ok(Dump { intake, dump_index, purpose, ends, thread })
    }

    /// A sender of packets to the writer.
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// The index of the files that it has started.
    pub fn files(&self) -> DumpIndex {
        self.dump_index.clone()
    }

    /// Ends the file while the run continues. The thread ends after the last packet that a worker sends.
    pub fn end(self) -> JoinHandle<Outcome> {
        self.thread
    }

    /// Writes the remaining packets. A live run waits a few seconds for the reader of a pipe; a run over files waits
    /// until it is interrupted.
    pub fn finish(self) -> Outcome {
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
    /// Puts the packets of several workers of a live run in order.
    lanes: Option<Lanes>,
    /// Maximum bytes in the queue of a live run, and of packets that wait for other workers.
    room: usize,
    /// Puts packets in order that leave late.
    reorder: Option<Reorder>,
    /// Bytes in the queue.
    waiting: Arc<AtomicUsize>,
    file: PacketFile,
}

impl Work {
    fn write_all(mut self, from: &Receiver<Parcel>) -> Outcome {
        let mut next_tick = 0;
        loop {
            match from.recv_timeout(TICK) {
                Ok(parcel) => self.take(parcel),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = now();
            // The reader of a pipe gets packets as soon as the queue is empty.
            if now.0 >= next_tick || self.file.writer.is_pipe() && from.is_empty() {
                self.write_until(Time(now.0.saturating_sub(LATE)));
                self.file.tick(now);
                next_tick = now.0 + TICK.as_nanos() as u64;
            }
        }
        if let Some(rest) = self.merge.as_mut().map(Merge::rest) {
            self.write(rest.packets());
        }
        self.write_until(Time(u64::MAX));
        if let Some(reorder) = &mut self.reorder {
            reorder.finish(|packets| self.file.write(packets));
        }
        self.file.close()
    }

    fn take(&mut self, parcel: Parcel) {
        if let Some(lanes) = &mut self.lanes {
            // Where the writer is too slow, packets are written in the order of arrival before any are shed.
            let queued = self.waiting.load(Ordering::Relaxed).saturating_sub(lanes.bytes());
            lanes.set_limit((self.room / 2).saturating_sub(queued));
            let freed = lanes.take(parcel, |packets| self.file.write(packets));
            self.waiting.fetch_sub(freed, Ordering::Relaxed);
            return;
        }
        let Some(merge) = &mut self.merge else {
            let bytes = memory(&parcel.packets);
            self.file.write(parcel.packets.batch());
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return;
        };
        if let Some(round) = merge.take(parcel) {
            self.write(round.packets());
            self.waiting.fetch_sub(round.memory(), Ordering::Relaxed);
        }
    }

    /// Writes packets up to a time that wait for other workers.
    fn write_until(&mut self, until: Time) {
        if let Some(lanes) = &mut self.lanes {
            let freed = lanes.write_until(until, |packets| self.file.write(packets));
            self.waiting.fetch_sub(freed, Ordering::Relaxed);
        }
    }

    fn write<'p>(&mut self, packets: impl Iterator<Item = Batch<'p>>) {
        let Self { file, reorder, .. } = self;
        for packets in packets {
            match reorder {
                Some(reorder) => reorder.take(packets, |packets| file.write(packets)),
                None => file.write(packets),
            }
        }
    }
}

/// A packet file, its anonymiser and its errors.
struct PacketFile {
    writer: PacketWriter,
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
}

impl PacketFile {
    fn write(&mut self, packets: Batch<'_>) {
        for packet in packets.packets() {
            let packet = match &mut self.anonymiser {
                Some(anonymiser) => anonymiser.packet(&packet, &mut self.image),
                None => packet,
            };
            let (time, written) = (packet.time, self.writer.write(&packet));
            if let Err(error) = written {
                self.note(error);
            }
            self.last = time;
            self.reporter.look(&self.writer, self.last);
        }
    }

    fn tick(&mut self, now: Time) {
        if let Err(error) = self.writer.tick(now) {
            self.note(error);
        }
        self.reporter.look(&self.writer, self.last);
    }

    fn note(&mut self, error: WriteError) {
        self.outcome.note(error, self.purpose, &self.stop, &self.failures);
    }

    fn close(self) -> Outcome {
        let Self { writer, purpose, stop, failures, mut outcome, .. } = self;
        let (written, closed) = writer.close();
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
        failures.note(error.path(), error.is_full());
        if self.trouble.is_none() && !self.reader_gone {
            if purpose != For::Screen {
                eprintln!("weir: {error}");
            }
            self.trouble = Some(error);
        }
    }
}
