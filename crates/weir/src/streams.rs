//! `weir streams`: writes each direction of each TCP stream into a separate file.

use crate::anon::of_run;
use crate::applies::{Links, Misfits};
use crate::drive::WholeRun;
use crate::exit::{Exit, complain};
use crate::inputs::{filter_options, inputs, report_read_errors};
use crate::offline::{self, Input};
use crate::run::by_record::{self, Captures};
use crate::signals::Signals;
use crate::{cli, config, times};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_anon::{Anonymiser, Lines};
use weir_api::{FunctionCall, Level, SessionCount, SubscriptionSpec};
use weir_capture::{Files, ReadOptions};
use weir_engine::{
    ChecksumMode, ChosenFlows, Emitted, EndReason, FlowConfig, FlowIdentity, Plan, SessionConfig, Settings,
    Sink, Worker,
};
use weir_flow::stream::Overlap;
use weir_output::figures;
use weir_wire::Direction;
use weir_wire::stream::Chunk as Piece;

/// Maximum number of open files. Beyond it, the least recently used file is closed, and reopened when its stream
/// continues.
const OPEN: usize = 256;
/// Interval at which idle streams end, in nanoseconds of packet time.
const TICK: u64 = 10_000_000_000;

/// The seed of hashes: fixed, so that equal files give equal results.
pub const SEED: u64 = 0x7765_6972;

/// Writes the streams of captures into a folder.
pub fn streams(options: &cli::Streams) -> Exit {
    let anonymiser = match of_run(&options.anon, &config::Anon::default()) {
        Ok(anonymiser) => anonymiser,
        Err(error) => return complain(Exit::Usage, format!("streams: {error}")),
    };
    let overlap = match options.overlap.parse::<Overlap>() {
        Ok(overlap) => overlap,
        Err(error) => return complain(Exit::Usage, format!("--overlap: {error}")),
    };
    let (files, expression) = crate::inputs::words(&options.words, &options.after_dashes);
    if files.is_empty() {
        return complain(Exit::Usage, "streams: no capture file");
    }
    let checksum = if options.verify_checksums { ChecksumMode::On } else { ChecksumMode::Off };
    let times = match times::of_files(&options.times, &files) {
        Ok(times) => times,
        Err(exit) => return exit,
    };
    let inputs = inputs(&files);
    let scope = match Scope::of(expression, &inputs, times, options.memory, options.times.tz.as_deref()) {
        Ok(scope) => scope,
        Err((exit, error)) => return complain(exit, error),
    };
    let settings = Settings {
        filter: filter_options(options.strict_bpf, options.inner, 0),
        checksum,
        seeds: SEED.into(),
        chosen: scope.chosen,
        own_apps: Default::default(),
        rules: None,
    };
    let whole = SubscriptionSpec::delivering("streams", Level::Stream, vec![FunctionCall::new("stream")]);
    let plan = match Plan::new(&scope.expression, vec![whole], settings) {
        Ok(plan) => Arc::new(plan),
        Err(error) => return complain(Exit::Usage, error),
    };
    // A signal ends the streams with the bytes read so far.
    let signals = Signals::default();
    if let Err(error) = signals.take(false, false) {
        return complain(Exit::Usage, error);
    }
    let reading = ReadOptions { stop: Some(Arc::clone(&signals.stop)), times, ..ReadOptions::default() };
    let files = match Files::open(&inputs, &reading) {
        Ok(files) => files,
        Err(error) => return report_read_errors(std::slice::from_ref(&error)),
    };
    let misfits = Misfits::of_scope(&Links::ahead(&files), &plan);
    let misfit = misfits.complaints.iter().fold(Exit::Good, |exit, c| exit.or(complain(Exit::Unreadable, c)));
    if !misfits.nowhere.is_empty() {
        return misfit;
    }
    let is_console = options.output.as_os_str() == "-";
    if is_console && anonymiser.is_some() {
        // The anonymisation of a stream depends on its earlier bytes, so that streams cannot be mixed.
        return complain(Exit::Usage, "streams: --anon needs files: --output DIR in place of -");
    }
    if !is_console && let Err(error) = weir_files::make_folders(&options.output) {
        return complain(Exit::Output, format!("{}: {error}", options.output.display()));
    }
    let flows =
        FlowConfig { memory: options.memory / 2, checksums: checksum.verified(), ..FlowConfig::default() };
    let sessions = SessionConfig {
        memory: options.memory / 2,
        overlap,
        urgent_apart: options.urgent_apart,
        ..SessionConfig::default()
    };
    let worker = Worker::with(Arc::clone(&plan), &flows, &sessions);
    if is_console {
        let console = Console { out: BufWriter::with_capacity(BUFFER, io::stdout().lock()), failure: None };
        let (exit, WholeRun { sink: mut console, .. }) = read(files, &plan, worker, console, &signals);
        let flushed = console.out.flush();
        return misfit.or(exit).or(match console.failure.or(flushed.err()) {
            Some(error) => complain(Exit::Output, format!("standard output: {error}")),
            None => Exit::Good,
        });
    }
    let folder = Folder::new(&options.output, options.both, anonymiser);
    let (exit, WholeRun { sink: mut folder, sessions, .. }) = read(files, &plan, worker, folder, &signals);
    folder.write_held();
    let exit = misfit.or(exit).or(match &folder.failure {
        Some(error) => complain(Exit::Output, error),
        None => Exit::Good,
    });
    if !options.quiet {
        print!("{}", summary(&folder, &sessions));
    }
    exit
}

/// The packets of a command that reads streams.
pub struct Scope {
    /// The expression over packets.
    pub expression: String,
    /// The flows of an expression over records or flows, in the place of it.
    pub chosen: Option<Arc<ChosenFlows>>,
}

impl Scope {
    /// Finds the flows of an expression that tests fields of records or flows, in a first pass over the captures.
    ///
    /// # Errors
    ///
    /// Such an expression is invalid, or the captures cannot be read, or not twice.
    pub fn of(
        expression: String,
        inputs: &[weir_capture::Input],
        times: Option<weir_capture::TimeRange>,
        memory: usize,
        tz: Option<&str>,
    ) -> Result<Scope, (Exit, String)> {
        // Streams are read whatever their checksums are, unless it is asked for otherwise.
        let captures = Captures { memory, times, ..Captures::of(inputs, ChecksumMode::Off) };
        Ok(match by_record::chosen(&captures, &expression, tz)? {
            Some(chosen) => Scope { expression: String::new(), chosen: Some(chosen.flows) },
            None => Scope { expression, chosen: None },
        })
    }
}

/// Reads captures to their end, or until a signal, ends their flows, and reports inputs that could not be read.
pub fn read<S: Sink>(
    files: Files,
    plan: &Plan,
    worker: Worker,
    sink: S,
    signals: &Signals,
) -> (Exit, WholeRun<S>) {
    let input = Input::whole(files, plan, TICK, &signals.stop);
    let (outcome, whole) = offline::run_one(input, worker, sink);
    times::report_outside(&outcome.files);
    let mut exit = report_read_errors(&outcome.errors);
    if signals.has_interrupted() {
        exit = exit.or(complain(Exit::Interrupted, "interrupted: the rest of the captures was not read"));
    }
    (exit, whole)
}

fn summary(folder: &Folder, sessions: &SessionCount) -> String {
    let mut text = format!(
        "{} files, {} of {} streams\n",
        figures::count(folder.begun),
        figures::bytes(sessions.stream_bytes),
        figures::count(sessions.streams)
    );
    let mut row = |n: u64, what: &str| {
        if n > 0 {
            text += &format!("  {} {what}\n", figures::count(n));
        }
    };
    row(sessions.missing, "bytes missing, left as holes in the files");
    row(sessions.retransmitted, "bytes retransmitted");
    row(sessions.overlap_conflict, "bytes retransmitted with other content");
    row(sessions.reordered, "segments out of order");
    row(sessions.abandoned, "gaps abandoned because memory was full");
    text
}

/// Bytes buffered for standard output.
const BUFFER: usize = 256 << 10;

/// Streams on standard output, in the order of their data; gaps are omitted.
struct Console<'o> {
    out: BufWriter<io::StdoutLock<'o>>,
    /// The first error.
    failure: Option<io::Error>,
}

impl Sink for Console<'_> {
    fn take(&mut self, emitted: Emitted<'_>) {
        if let Emitted::Chunk(flow, chunk, _) = emitted
            && flow.key.proto == 6
            && self.failure.is_none()
        {
            self.failure = self.out.write_all(chunk.data).err();
        }
    }
}

/// Maximum bytes of a stream that are held before they are written. Most streams are shorter: their file costs one write.
const HELD_EACH: usize = 16 << 10;
/// Maximum bytes held of all streams.
const HELD: usize = 8 << 20;

/// The output file of a stream.
struct Written {
    path: PathBuf,
    /// Whether the file was created.
    exists: bool,
    /// The open file, and the place in it at which the next write would begin.
    file: Option<(File, u64)>,
    /// Length in bytes, including holes, without the held bytes.
    length: u64,
    /// The bytes that follow, which are not in the file yet.
    held: Vec<u8>,
    /// Time of the last use, counted in chunks.
    used: u64,
    /// State of the lines of each direction, for the anonymiser.
    lines: [Lines; 2],
}

/// A folder of streams.
struct Folder<'o> {
    path: &'o Path,
    /// Whether both directions of a flow go into one file.
    both: bool,
    /// Files of flows that have not ended, by the flow's identifier and direction.
    files: HashMap<(u64, bool), Written>,
    /// Number of flows with equal endpoints so far, by the name of their file.
    names: HashMap<String, u32>,
    open: usize,
    /// Bytes held of all streams.
    held: usize,
    /// Number of streams, each of which has a file.
    begun: u64,
    chunks: u64,
    /// The anonymiser of names and bytes, if requested.
    anonymiser: Option<Anonymiser>,
    /// The first error.
    failure: Option<String>,
}

impl Written {
    /// Writes what is held, and bytes after a gap. A gap is a hole in the file.
    fn write(&mut self, gap: u64, bytes: &[u8]) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        let (file, at) = match &mut self.file {
            Some(open) => open,
            None => {
                let open = if self.exists { weir_files::open } else { weir_files::create };
                let opened = open(&self.path)?;
                self.exists = true;
                self.file.insert((opened, 0))
            }
        };
        if *at != self.length {
            file.seek(SeekFrom::Start(self.length))?;
        }
        let end = self.length + held.len() as u64 + gap + bytes.len() as u64;
        if gap == 0 {
            weir_files::write_both(file, &held, bytes)?;
        } else {
            file.write_all(&held)?;
            file.seek(SeekFrom::Start(end - bytes.len() as u64))?;
            file.write_all(bytes)?;
            if bytes.is_empty() {
                file.set_len(end)?;
            }
        }
        (*at, self.length) = (end, end);
        Ok(())
    }
}

impl<'o> Folder<'o> {
    fn new(path: &'o Path, both: bool, anonymiser: Option<Anonymiser>) -> Self {
        let (files, names) = (HashMap::new(), HashMap::new());
        Self { path, both, files, names, open: 0, held: 0, begun: 0, chunks: 0, anonymiser, failure: None }
    }

    fn write(&mut self, flow: &FlowIdentity, chunk: &Piece<'_>) -> io::Result<()> {
        let is_reverse = chunk.direction == Direction::Reverse && !self.both;
        let key = (flow.id(), is_reverse);
        self.chunks += 1;
        let Self { files, names, path, held, begun, chunks, anonymiser, .. } = self;
        let written = files.entry(key).or_insert_with(|| {
            let name = match anonymiser {
                Some(anonymiser) => {
                    let mut image = *flow;
                    anonymiser.identity(&mut image);
                    name(&image, is_reverse)
                }
                None => name(flow, is_reverse),
            };
            let before = names.entry(name.clone()).or_default();
            *before += 1;
            *begun += 1;
            // As in tcpflow: the file of the second connection between two endpoints has c1 appended to its name.
            let name = if *before > 1 { format!("{name}c{}", *before - 1) } else { name };
            Written {
                path: path.join(name),
                exists: false,
                file: None,
                length: 0,
                held: Vec::new(),
                used: 0,
                lines: [Lines::unknown(), Lines::unknown()],
            }
        });
        written.used = *chunks;
        let mut bytes = Cow::Borrowed(chunk.data);
        if let Some(anonymiser) = anonymiser {
            let [forward, reverse] = &mut written.lines;
            let lines = if chunk.direction == Direction::Reverse { reverse } else { forward };
            if chunk.gap > 0 {
                *lines = Lines::unknown();
            }
            // Where nothing may be shown, the file stays empty.
            let Some(scrubbed) = anonymiser.scrub(lines, chunk.data) else { return Ok(()) };
            bytes = scrubbed.into();
        }
        if chunk.gap == 0 && written.held.len() + bytes.len() <= HELD_EACH {
            written.held.extend_from_slice(&bytes);
            *held += bytes.len();
            if *held > HELD {
                self.write_held();
            }
            return Ok(());
        }
        self.write_out(&key, chunk.gap, &bytes)
    }

    /// Writes what is held of a stream, and bytes after a gap. Closes the least recently used file if there is no room to open that of
    /// the stream.
    fn write_out(&mut self, key: &(u64, bool), gap: u64, bytes: &[u8]) -> io::Result<()> {
        if self.open >= OPEN && self.files.get(key).is_some_and(|written| written.file.is_none()) {
            self.close_oldest();
        }
        let Some(written) = self.files.get_mut(key) else { return Ok(()) };
        self.held -= written.held.len();
        let was_open = written.file.is_some();
        let done = written.write(gap, bytes);
        self.open += usize::from(!was_open && written.file.is_some());
        done
    }

    /// Writes what is held of all streams.
    fn write_held(&mut self) {
        let held: Vec<(u64, bool)> =
            self.files.iter().filter(|(_, written)| !written.held.is_empty()).map(|(key, _)| *key).collect();
        for key in held {
            let done = self.write_out(&key, 0, &[]);
            self.note(done);
        }
    }

    /// Notes the first error.
    fn note(&mut self, done: io::Result<()>) {
        if let Err(error) = done
            && self.failure.is_none()
        {
            self.failure = Some(format!("{}: {error}", self.path.display()));
        }
    }

    /// Ends a stream: writes what is held of it, and closes its file.
    fn end(&mut self, key: &(u64, bool)) {
        let Some(mut written) = self.files.remove(key) else { return };
        self.open -= usize::from(written.file.is_some());
        self.held -= written.held.len();
        if !written.held.is_empty() || !written.exists {
            let done = written.write(0, &[]);
            self.note(done);
        }
    }

    fn close_oldest(&mut self) {
        let open = self.files.values_mut().filter(|written| written.file.is_some());
        if let Some(written) = open.min_by_key(|written| written.used) {
            written.file = None;
            self.open -= 1;
        }
    }
}

impl Sink for Folder<'_> {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Flow(flow, _) if flow.end != EndReason::Active => {
                for is_reverse in [false, true] {
                    self.end(&(flow.id, is_reverse));
                }
            }
            Emitted::Chunk(flow, chunk, _) if flow.key.proto == 6 => {
                let done = self.write(flow, chunk);
                self.note(done);
            }
            _ => {}
        }
    }
}

/// The name that tcpflow gives to a file: sender, then receiver. IPv4 addresses and ports are padded with zeros, so
/// that names can be sorted.
pub fn name(flow: &FlowIdentity, is_reverse: bool) -> String {
    let end = |(address, port): (IpAddr, u16)| match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{a:03}.{b:03}.{c:03}.{d:03}.{port:05}")
        }
        IpAddr::V6(v6) => format!("{v6}.{port:05}"),
    };
    let (from, to) =
        if is_reverse { (flow.responder(), flow.initiator()) } else { (flow.initiator(), flow.responder()) };
    format!("{}-{}", end(from), end(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{FlowKey, Space, Time};

    /// The chunks of more streams than files may be open, of sizes about those that are held, and some after gaps.
    fn chunks() -> impl Iterator<Item = (usize, u64, Vec<u8>)> {
        const SIZES: [usize; 7] = [1, 10, 1448, 1448, HELD_EACH - 1448, HELD_EACH, HELD_EACH + 1];
        const GAPS: [u64; 8] = [0, 0, 0, 0, 0, 0, 7, 5000];
        let mut random = 1_u64;
        (0..6000).map(move |at| {
            let mut draw = |below: usize| {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (random >> 33) as usize % below
            };
            let (stream, gap, size) = (draw(OPEN * 3), GAPS[draw(GAPS.len())], SIZES[draw(SIZES.len())]);
            (stream, gap, (0..size).map(|byte| (byte + at) as u8).collect())
        })
    }

    fn flow(stream: usize) -> FlowIdentity {
        let addr = [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1]; 2];
        let key = FlowKey { addr, port: [stream as u16, 80], space: Space::default(), proto: 6 };
        FlowIdentity { key, initiator_is_lower: true, first: Time(1), vlan: [0; 2], alias: 0 }
    }

    #[test]
    fn a_file_has_the_bytes_of_its_stream_with_holes_for_gaps() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::new(place.path(), false, None);
        let mut expected: HashMap<usize, Vec<u8>> = HashMap::new();
        for (stream, gap, bytes) in chunks() {
            let chunk = Piece { time: Time(1), direction: Direction::Forward, gap, data: &bytes };
            folder.write(&flow(stream), &chunk).unwrap();
            let file = expected.entry(stream).or_default();
            file.resize(file.len() + gap as usize, 0);
            file.extend_from_slice(&bytes);
            let held: usize = folder.files.values().map(|written| written.held.len()).sum();
            assert!(held == folder.held && held <= HELD && folder.open <= OPEN, "{held}, {}", folder.open);
        }
        // A gap at the end, for half of the streams: some of these have held bytes.
        for stream in (0..OPEN * 3).step_by(2) {
            let chunk = Piece { time: Time(1), direction: Direction::Forward, gap: 3, data: &[] };
            folder.write(&flow(stream), &chunk).unwrap();
            let file = expected.entry(stream).or_default();
            file.resize(file.len() + 3, 0);
        }
        // Some end, and the run ends while the others are open.
        (0..100).for_each(|stream| folder.end(&(flow(stream).id(), false)));
        folder.write_held();
        assert!(folder.failure.is_none() && folder.held == 0);
        for (stream, bytes) in &expected {
            let file = std::fs::read(place.path().join(name(&flow(*stream), false))).unwrap();
            assert!(file == *bytes, "{stream}: {} of {} bytes", file.len(), bytes.len());
        }
    }
}
