//! The packets that match, into a file: `-w`, from a thread of its own.

pub mod index;

use crate::cli;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use index::{DumpIndex, FileReporter};
use jiff::tz::TimeZone;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_capture::{InterfaceInfo, PacketWriter, Rotate, Target, WriteError, WriteOptions, Written};
use weir_output::anon::Anonymiser;
use weir_wire::{PacketBuf, Time};

/// Chunks that wait to be written: together a few megabytes.
const QUEUE: usize = 64;
/// How often the writer looks at the clock when no packet comes.
const TICK: Duration = Duration::from_millis(500);

/// For what kind of run packets are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum For {
    /// One over files: it waits for a slow reader.
    Files,
    /// A live one: what a pipe's reader is too slow for is shed.
    Link,
    /// A live one with a full screen: it says nothing on standard error.
    Screen,
}

/// A packet file being written.
pub struct Dump {
    to: Sender<PacketBuf>,
    dump_index: DumpIndex,
    thread: JoinHandle<(Written, Option<WriteError>)>,
}

impl Dump {
    /// Begins the file. A name alone is one file; `rotate` says otherwise.
    pub fn start(
        name: &str,
        options: &cli::Run,
        rotate: Rotate,
        interfaces: &[InterfaceInfo],
        purpose: For,
        anonymiser: Option<Anonymiser>,
    ) -> Result<Dump, WriteError> {
        let target = if name == "-" { Target::Stdout } else { Target::Path(PathBuf::from(name)) };
        let write = WriteOptions {
            snaplen: options.snaplen,
            unbuffered: options.unbuffered,
            shed: purpose != For::Files,
            rotate,
            application: concat!("weir ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..WriteOptions::default()
        };
        let writer = PacketWriter::create(target, write, interfaces, now())?;
        let (to, from) = crossbeam_channel::bounded(QUEUE);
        let dump_index = DumpIndex::default();
        let mut reporter = dump_index.reporter();
        reporter.look(&writer, Time(0));
        let thread = std::thread::spawn(move || write_all(writer, &from, purpose, anonymiser, reporter));
        Ok(Dump { to, dump_index, thread })
    }

    /// How the command line wants the files of -w to follow each other.
    pub fn rotation(options: &cli::Run, zone: TimeZone) -> Rotate {
        Rotate {
            seconds: options.rotate_seconds,
            bytes: options.rotate_size.map(|megabytes| megabytes.saturating_mul(1_000_000)),
            files: options.rotate_files,
            zone,
        }
    }

    /// Where packets go.
    pub fn sender(&self) -> Sender<PacketBuf> {
        self.to.clone()
    }

    /// The files that it has begun.
    pub fn files(&self) -> DumpIndex {
        self.dump_index.clone()
    }

    /// Writes the rest. What was written, and the first thing that went wrong.
    pub fn finish(self) -> (Written, Option<WriteError>) {
        drop(self.to);
        self.thread.join().unwrap_or_default()
    }
}

fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64)
}

fn write_all(
    mut writer: PacketWriter,
    from: &Receiver<PacketBuf>,
    purpose: For,
    mut anonymiser: Option<Anonymiser>,
    mut reporter: FileReporter,
) -> (Written, Option<WriteError>) {
    let mut first = None;
    let mut out = Vec::new();
    let mut note = |result: Result<(), WriteError>| {
        if let Err(error) = result
            && first.is_none()
        {
            if purpose != For::Screen {
                eprintln!("weir: {error}");
            }
            first = Some(error);
        }
    };
    let mut last = Time(0);
    let mut next_tick = now().0 + TICK.as_nanos() as u64;
    loop {
        match from.recv_timeout(TICK) {
            Ok(chunk) => {
                for packet in chunk.batch().packets() {
                    let packet = match &mut anonymiser {
                        Some(anonymiser) => anonymiser.packet(&packet, &mut out),
                        None => packet,
                    };
                    note(writer.write(&packet));
                    last = packet.time;
                    reporter.look(&writer, last);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let now = now();
        if now.0 >= next_tick {
            note(writer.tick(now));
            reporter.look(&writer, last);
            next_tick = now.0 + TICK.as_nanos() as u64;
        }
    }
    let (written, closed) = writer.close();
    note(closed);
    (written, first)
}
