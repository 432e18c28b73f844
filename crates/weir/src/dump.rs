//! Matching packets into a file: `-w`, on a separate thread.

pub mod index;

use crate::cli;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use index::{DumpIndex, FileReporter};
use jiff::tz::TimeZone;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_capture::{
    InterfaceInfo, PacketWriter, Patience, Repair, Rotate, Target, WriteError, WriteOptions, Written,
    salvage_leftovers,
};
use weir_output::anon::Anonymiser;
use weir_output::figures::count;
use weir_wire::{PacketBuf, Slot, Time};

/// Batches of packets that wait to be written in a run over files: together a few megabytes.
const QUEUE: usize = 64;
/// Batches that wait in a live run, where they may be of one packet; their bytes are bounded besides.
const LIVE_QUEUE: usize = 16_384;
/// Interval at which the writer checks the clock when no packet comes.
const TICK: Duration = Duration::from_millis(500);
/// How long a reader of packets may take nothing at the end of a run before the rest is given up.
pub const GRACE: Duration = Duration::from_secs(3);

/// For what kind of run packets are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum For {
    /// One over files: it waits for a slow reader.
    Files,
    /// A live one: what a pipe's reader is too slow for is shed.
    Link,
    /// A live run with a full screen: nothing goes to standard error.
    Screen,
}

/// What a packet file is written for, and with.
pub struct DumpOptions<'r> {
    /// The command line.
    pub options: &'r cli::Run,
    /// How files follow each other.
    pub rotate: Rotate,
    /// The kind of run.
    pub purpose: For,
    /// Where packets are anonymised.
    pub anonymiser: Option<Anonymiser>,
    /// Bytes of packets that may wait to be written in a live run.
    pub room: usize,
    /// Set to end the run: the reader of a pipe has gone.
    pub stop: Arc<AtomicBool>,
    /// Set when a signal has asked for the end of the run.
    pub interrupted: Arc<AtomicBool>,
}

/// The way into a packet file: a queue that is bounded.
#[derive(Clone)]
pub struct Intake {
    to: Sender<PacketBuf>,
    /// Bytes that wait.
    waiting: Arc<AtomicUsize>,
    room: usize,
}

impl Intake {
    fn new(capacity: usize, room: usize) -> (Intake, Receiver<PacketBuf>) {
        let (to, from) = crossbeam_channel::bounded(capacity);
        (Intake { to, waiting: Arc::default(), room }, from)
    }

    /// Hands packets over, and waits for room.
    pub fn send(&self, packets: PacketBuf) {
        self.waiting.fetch_add(memory(&packets), Ordering::Relaxed);
        // A writer that has ended has reported why.
        let _ = self.to.send(packets);
    }

    /// Hands packets over if there is room; else how many are shed.
    pub fn offer(&self, packets: PacketBuf) -> u64 {
        let (bytes, count) = (memory(&packets), packets.slots.len() as u64);
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) < self.room {
            match self.to.try_send(packets) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return 0,
                Err(TrySendError::Full(_)) => {}
            }
        }
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        count
    }
}

/// Bytes that packets take while they wait.
fn memory(packets: &PacketBuf) -> usize {
    packets.bytes.capacity() + packets.slots.capacity() * size_of::<Slot>()
}

/// What became of a packet file.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was written.
    pub written: Written,
    /// The first thing that went wrong.
    pub trouble: Option<WriteError>,
    /// The reader of the pipe has gone, as head(1) does when it has enough: that is no trouble.
    pub reader_gone: bool,
}

/// A packet file being written.
pub struct Dump {
    intake: Intake,
    dump_index: DumpIndex,
    purpose: For,
    /// Set when the run is to end.
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Outcome>,
}

impl Dump {
    /// Begins the file. A name alone is one file, unless `rotate` is set.
    pub fn start(
        name: &str,
        with: DumpOptions<'_>,
        interfaces: &[InterfaceInfo],
    ) -> Result<Dump, WriteError> {
        let DumpOptions { options, rotate, purpose, anonymiser, room, stop, interrupted } = with;
        let target = if name == "-" { Target::Stdout } else { Target::Path(PathBuf::from(name)) };
        if let Target::Path(path) = &target {
            for saved in salvage_leftovers(path, &rotate) {
                match saved {
                    Ok((path, Repair { packets, .. })) => eprintln!(
                        "weir: {}: {} packets that a run which was killed had written",
                        path.display(),
                        count(packets)
                    ),
                    Err(error) => eprintln!("weir: what a run which was killed had written stays: {error}"),
                }
            }
        }
        // When the reader of a pipe is no longer waited for without end.
        let (ends, capacity) = match purpose {
            For::Files => (interrupted, QUEUE),
            For::Link | For::Screen => (Arc::clone(&stop), LIVE_QUEUE),
        };
        let write = WriteOptions {
            snaplen: options.snaplen,
            unbuffered: options.unbuffered,
            patience: Some(Patience { ends: Arc::clone(&ends), grace: GRACE }),
            rotate,
            application: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..WriteOptions::default()
        };
        let writer = PacketWriter::create(target, write, interfaces, now())?;
        let (intake, from) = Intake::new(capacity, room);
        let dump_index = DumpIndex::default();
        let mut reporter = dump_index.reporter();
        reporter.look(&writer, Time(0));
        let waiting = Arc::clone(&intake.waiting);
        let work = Work { writer, waiting, purpose, anonymiser, reporter, stop, outcome: Outcome::default() };
        let thread = std::thread::spawn(move || work.write_all(&from));
        Ok(Dump { intake, dump_index, purpose, ends, thread })
    }

    /// The rotation of -w in the options.
    pub fn rotation(options: &cli::Run, zone: TimeZone) -> Rotate {
        Rotate {
            seconds: options.rotate_seconds,
            bytes: options.rotate_size.map(|megabytes| megabytes.saturating_mul(1_000_000)),
            files: options.rotate_files,
            zone,
        }
    }

    /// The sender for packets.
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// The files that it has begun.
    pub fn files(&self) -> DumpIndex {
        self.dump_index.clone()
    }

    /// Writes the rest. A live run gives the reader of a pipe a few seconds; one over files waits until it is interrupted.
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

/// The thread that writes.
struct Work {
    writer: PacketWriter,
    /// Bytes that wait for it.
    waiting: Arc<AtomicUsize>,
    purpose: For,
    anonymiser: Option<Anonymiser>,
    reporter: FileReporter,
    stop: Arc<AtomicBool>,
    outcome: Outcome,
}

impl Work {
    fn write_all(mut self, from: &Receiver<PacketBuf>) -> Outcome {
        let mut out = Vec::new();
        let mut last = Time(0);
        let mut next_tick = 0;
        loop {
            match from.recv_timeout(TICK) {
                Ok(packets) => {
                    for packet in packets.batch().packets() {
                        let packet = match &mut self.anonymiser {
                            Some(anonymiser) => anonymiser.packet(&packet, &mut out),
                            None => packet,
                        };
                        let written = self.writer.write(&packet);
                        self.note(written);
                        last = packet.time;
                        self.reporter.look(&self.writer, last);
                    }
                    self.waiting.fetch_sub(memory(&packets), Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = now();
            // The reader of a pipe sees packets as soon as nothing more waits behind them.
            if now.0 >= next_tick || self.writer.is_pipe() && from.is_empty() {
                let ticked = self.writer.tick(now);
                self.note(ticked);
                self.reporter.look(&self.writer, last);
                next_tick = now.0 + TICK.as_nanos() as u64;
            }
        }
        let (written, closed) = self.writer.close();
        let mut outcome = self.outcome;
        if let Err(error) = closed {
            outcome.note(error, self.purpose, &self.stop);
        }
        // In a live run the summary adds what was shed before.
        if self.purpose == For::Files && written.lost > 0 && outcome.trouble.is_none() && !outcome.reader_gone
        {
            eprintln!(
                "weir: {} packets were not written: the reader does not take them",
                count(written.lost)
            );
        }
        outcome.written = written;
        outcome
    }

    fn note(&mut self, result: Result<(), WriteError>) {
        if let Err(error) = result {
            self.outcome.note(error, self.purpose, &self.stop);
        }
    }
}

impl Outcome {
    /// Whether packets are missing that the reader or the disk should have.
    pub fn is_trouble(&self) -> bool {
        self.trouble.is_some() || self.written.lost > 0 && !self.reader_gone
    }

    /// Notes what goes wrong. A reader that has gone ends the run, without a word.
    fn note(&mut self, error: WriteError, purpose: For, stop: &AtomicBool) {
        if matches!(error, WriteError::Closed { .. }) {
            self.reader_gone = true;
            stop.store(true, Ordering::Relaxed);
        } else if self.trouble.is_none() && !self.reader_gone {
            if purpose != For::Screen {
                eprintln!("weir: {error}");
            }
            self.trouble = Some(error);
        }
    }
}
