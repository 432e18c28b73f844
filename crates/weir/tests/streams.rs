//! `weir streams`: streams equal byte for byte those that other programs reassemble from the captures. Records stand for bytes
//! of these streams.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, settings};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::*;
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_engine::{Emitted, FlowConfig, FlowIdentity, Plan, Sink, Worker};
use weir_proto::{Expected, Out, Record, Session, Setup, Value, Wants};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// The files that `weir streams` writes for a capture.
fn streams(capture: &Path, options: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("streams");
    let ran = weir(["streams", text(capture), "-q", "-o", text(&out)].iter().chain(options));
    assert_eq!(ran.code, Some(0), "{}: {}", capture.display(), ran.stderr);
    let files = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// The name without leading zeros in numbers, as another program writes it.
fn plain(name: &str) -> String {
    let end = |end: &str| {
        let numbers = end.split('.').map(|number| number.parse::<u32>().unwrap().to_string());
        numbers.collect::<Vec<_>>().join(".")
    };
    let (from, to) = name.split_once('-').unwrap();
    format!("{}-{}.txt", end(from), end(to))
}

#[test]
fn streams_equal_those_of_other_programs() {
    const REQUIRED: usize = 4;
    let data = root().join("../shared/data/pcapplusplus");
    if !data.exists() {
        println!("skipped {REQUIRED} streams: ../shared/data is absent");
        return;
    }
    let capture = data.join("pcap_examples/tcp-reassembly.pcap");
    let mut passed = 0;
    for (folder, options) in [("tcpreassembly_sides", &[][..]), ("tcpreassembly_sanity", &["--both"])] {
        let files = streams(&capture, options);
        for (name, bytes) in &files {
            let expected = fs::read(data.join("expected_output").join(folder).join(plain(name))).unwrap();
            passed += usize::from(*bytes == expected);
        }
        assert_eq!(files.len(), if options.is_empty() { 2 } else { 1 });
    }
    // A request in IP fragments equals the request in one packet.
    let [parts, whole] = ["frag_http_req", "http_req"]
        .map(|name| streams(&data.join(format!("pcap_examples/{name}.pcap")), &[]));
    for (name, bytes) in &whole {
        passed += usize::from(parts.get(name) == Some(bytes) && !bytes.is_empty());
    }
    println!("streams: passed {passed} of {}, required {REQUIRED}", 3 + whole.len());
    assert!(passed >= REQUIRED, "{:?} {:?}", parts.keys(), whole.keys());
}

#[test]
fn a_bad_policy_and_a_missing_capture_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let out: PathBuf = folder.path().join("out");
    let ran = weir(["streams", "/nowhere.pcap", "-o", text(&out)]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let capture = sample();
    let ran = weir(["streams", text(&capture), "-o", text(&out), "--overlap", "amiga"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("no overlap policy \"amiga\"") && ran.stderr.contains("windows"),
        "{}",
        ran.stderr
    );
}

#[test]
fn streams_on_standard_output_equal_the_files() {
    let capture = sample();
    let files = streams(&capture, &["--both"]);
    let ran = weir(["streams", text(&capture), "-o", "-"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout.len(), files.values().map(Vec::len).sum::<usize>());
    // The output for one flow equals its file.
    let (name, bytes) = files.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let port = name.split('-').next().unwrap().rsplit('.').next().unwrap().trim_start_matches('0');
    let one = streams(&capture, &["--both", "--", "tcp", "port", port]);
    let ran = weir(["streams", text(&capture), "-o", "-", "--", "tcp", "port", port]);
    assert!(one.len() == 1 && !bytes.is_empty() && ran.stdout == *bytes);
    assert!(!Path::new("-").exists());
    let ran = weir(["streams", text(&capture), "-o", "-", "--anon", "table"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("--output DIR"), "{}", ran.stderr);
}

/// A chunk of a stream, or a datagram.
#[derive(Clone)]
struct Piece(Time, Direction, u64, Vec<u8>);

/// What a worker emits of one flow.
struct Kept {
    flow: FlowIdentity,
    pieces: Vec<Piece>,
    records: Vec<Record<'static>>,
}

/// What a worker emits of each flow.
#[derive(Default)]
struct Flows(BTreeMap<u64, Kept>);

impl Flows {
    fn of(&mut self, flow: &FlowIdentity) -> &mut Kept {
        let empty = || Kept { flow: *flow, pieces: Vec::new(), records: Vec::new() };
        self.0.entry(flow.id()).or_insert_with(empty)
    }
}

impl Sink for Flows {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Chunk(flow, chunk, _) => {
                let piece = Piece(chunk.time, chunk.direction, chunk.gap, chunk.data.to_vec());
                self.of(flow).pieces.push(piece);
            }
            Emitted::Record(flow, record, _) => self.of(flow).records.push(record.into_owned()),
            _ => {}
        }
    }
}

/// The records of a session.
#[derive(Default)]
struct Records(Vec<Record<'static>>);

impl Out for Records {
    fn record(&mut self, record: Record<'_>) {
        self.0.push(record.into_owned());
    }

    fn expect(&mut self, _: Expected) {}

    fn content(&mut self, _: u64, _: u64, _: &[u8]) -> bool {
        true
    }
}

/// The first bytes of the streams of a flow that are read byte by byte.
const CUT: usize = 60_000;

impl Kept {
    /// The records of a session that gets pieces of at most `max` bytes.
    fn records_of(&self, max: usize) -> Vec<Record<'static>> {
        let setup = || Setup {
            flow: self.flow.id(),
            initiator: self.flow.initiator(),
            responder: self.flow.responder(),
            ip_proto: self.flow.key.proto,
            wants: Wants::default(),
        };
        let (mut session, mut records, mut left) = (Session::new(), Records::default(), CUT);
        for Piece(time, direction, gap, data) in &self.pieces {
            if data.len() > left {
                break;
            }
            left -= data.len();
            let mut gap = *gap;
            let pieces: Vec<&[u8]> = match data.is_empty() {
                true => vec![&[]],
                false => data.chunks(max).collect(),
            };
            for data in pieces {
                let chunk = Chunk { time: *time, direction: *direction, gap: std::mem::take(&mut gap), data };
                session.chunk(&chunk, &setup, &mut records);
            }
        }
        session.end(Time(0), &setup, &mut records);
        records.0
    }

    /// The bytes of a direction, with a zero for each missing one.
    fn stream(&self, side: Direction) -> Vec<u8> {
        let mut stream = Vec::new();
        for Piece(_, _, gap, data) in self.pieces.iter().filter(|Piece(_, direction, ..)| *direction == side)
        {
            stream.resize(stream.len() + *gap as usize, 0);
            stream.extend_from_slice(data);
        }
        stream
    }
}

/// Records stand for bytes within the streams of their flow, those of an HTTP record are its request and response, and
/// neither they nor the records depend on how the streams are cut.
#[test]
fn records_stand_for_bytes_of_their_streams() {
    let log = SubscriptionSpec::delivering("log", Level::Record, vec![FunctionCall::new("rows")]);
    let chunks = SubscriptionSpec::delivering("chunks", Level::Stream, vec![FunctionCall::new("stream")]);
    let plan = Arc::new(Plan::new("", vec![log, chunks], settings()).unwrap());
    let (mut records, mut placed, mut requests, mut cut) = (0, 0, 0, 0);
    let (mut answers, mut begun) = (0, 0);
    for path in diverse(2_000).into_iter().filter(|path| !support::aside::is_aside(text(path))) {
        let capture = Loaded::read(&path);
        if !(2..=20_000).contains(&capture.len()) {
            continue;
        }
        let config = FlowConfig { memory: capture.ample_memory(), ..FlowConfig::default() };
        let (mut worker, mut flows) = (Worker::new(Arc::clone(&plan), &config), Flows::default());
        for chunk in &capture.chunks {
            worker.batch(chunk.batch(), &mut flows);
        }
        worker.finish(&mut flows);
        for kept in flows.0.values() {
            let name = || path.display();
            let streams = [Direction::Forward, Direction::Reverse].map(|side| kept.stream(side));
            for record in &kept.records {
                records += 1;
                placed += usize::from(!record.at.is_empty());
                let [request, response] = [Direction::Forward, Direction::Reverse].map(|side| {
                    let (at, stream) = (record.at.of(side), &streams[side as usize]);
                    let bytes = stream.get(at.start as usize..at.end as usize);
                    let table = record.table.name;
                    bytes.unwrap_or_else(|| panic!("{}: {table} {at:?} of {}", name(), stream.len()))
                });
                if record.table.name != "http" || request.is_empty() {
                    continue;
                }
                // A response without a request has no method.
                if let (Value::Text(method), Value::Text(url)) = (record.get("method"), record.get("url")) {
                    let line = [method.trim_ascii(), b" ", url.trim_ascii()].concat();
                    let words = |text: &[u8]| -> Vec<Vec<u8>> {
                        let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                        words.take(2).map(<[u8]>::to_vec).collect()
                    };
                    assert_eq!(words(request), words(&line), "{}: {:?}", name(), record.at);
                    requests += 1;
                }
                if !record.get("status_code").is_none() {
                    // Some servers send other bytes before the status line, which browsers skip.
                    let begins = response.trim_ascii_start().starts_with(b"HTTP/");
                    (answers, begun) = (answers + 1, begun + usize::from(begins));
                    assert!(!response.is_empty(), "{}: {:?}", name(), record.at);
                }
            }
            if kept.flow.key.proto == 6 {
                let (whole, bytes) = (kept.records_of(usize::MAX), kept.records_of(1));
                for (whole, byte) in whole.iter().zip(&bytes) {
                    let table = whole.table.name;
                    assert_eq!((table, whole.at), (byte.table.name, byte.at), "{}", name());
                    assert!(whole == byte, "{}: {table} {:?} or {:?}", name(), whole.values, byte.values);
                }
                assert_eq!(whole.len(), bytes.len(), "{}", name());
                cut += whole.len();
            }
        }
    }
    println!(
        "{placed} of {records} records stand for bytes; {requests} requests; {cut} records of cut streams"
    );
    assert!(placed * 10 > records * 9 && placed > 0);
}
