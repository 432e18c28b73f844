//! Work for each byte of hostile input is bounded: bytes that parsers look at, records that they emit, and bytes that
//! decompression makes, over all flows. Time is measured by `bench/run --only hostile`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_bench::hostile::{Capture, Way, cases, of_talk, talks};
use weir_engine::{
    ChecksumMode, Emitted, FlowConfig, FlowIdentity, Plan, SessionConfig, SessionStats, Settings, Sink,
    Worker,
};
use weir_filter::Options;
use weir_proto::{Inflation, work};
use weir_wire::build::packet;
use weir_wire::{Batch, LinkType, Packet, PacketBuf, Time};

/// Bytes of frames of each capture.
const BYTES: usize = 100_000;
/// The most steps for a byte of frames, and for one that decompression makes: see [`work`]. 539 are taken, where IMAP's
/// longest line is put together of literals of one byte.
const MAX_STEPS: u64 = 600;
/// Bytes that decompression may make beyond its limit: what a piece of a body makes, which is in brotli a window of
/// 16 MiB.
const LAST_PIECE: u64 = (16 << 20) + (16 << 20) / 32 + 100 * 2048;
/// Fewest bytes of frames for a record.
const MIN_BYTES: u64 = 2;

/// Counts what comes out of a worker.
#[derive(Default)]
struct Counted {
    records: u64,
    content: u64,
}

impl Sink for Counted {
    fn take(&mut self, emitted: Emitted<'_>) {
        self.records += u64::from(matches!(emitted, Emitted::Record(..)));
    }

    fn content(&mut self, _: &FlowIdentity, _: u32, _: u64, _: u64, bytes: &[u8]) -> bool {
        self.content += bytes.len() as u64;
        true
    }
}

/// The work that a capture is.
struct Work {
    bytes: u64,
    steps: u64,
    counted: Counted,
    stats: SessionStats,
}

fn pass(capture: &Capture, inflation: Inflation) -> Work {
    let mut packets = PacketBuf::default();
    for (at, frame) in (0..).zip(&capture.frames) {
        packets.push(&Packet { time: Time(at * capture.step * 1000), ..packet(frame, LinkType::ETHERNET) });
    }
    let settings = Settings {
        filter: Options::default(),
        checksum: ChecksumMode::Off,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: None,
    };
    // Nothing is written: the content reaches the sink.
    let extract = [("to", "files"), ("each", "64000000"), ("files", "100000"), ("total", "4000000000")];
    let extract =
        extract.iter().fold(FunctionCall::new("extractall"), |call, (name, value)| call.with(name, value));
    let asked = [
        (Level::Record, FunctionCall::new("rows")),
        (Level::Stream, extract),
        (Level::Stream, FunctionCall::new("hash").with("of", "md5+sha1+sha256")),
    ];
    let specs = asked.map(|(level, call)| SubscriptionSpec::delivering("all", level, vec![call]));
    let plan = Plan::new("", specs.into(), settings).unwrap();
    let sessions = SessionConfig { inflation, ..SessionConfig::default() };
    let mut worker = Worker::with(Arc::new(plan), &FlowConfig::default(), &sessions);
    let mut counted = Counted::default();
    work::take();
    for slots in packets.slots.chunks(512) {
        worker.batch(Batch { bytes: &packets.bytes, slots }, &mut counted);
    }
    worker.finish(&mut counted);
    Work { bytes: capture.bytes as u64, steps: work::take(), counted, stats: worker.sessions().unwrap() }
}

/// Each hostile capture, with its name.
fn captures(mut of: impl FnMut(&str, &Capture)) {
    for case in cases() {
        of(case.name, &case.capture(BYTES));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    for (name, talk) in talks(&folder).unwrap() {
        for (word, way) in Way::ALL {
            if let Some(capture) = of_talk(&talk, way, BYTES) {
                of(&format!("{name} {word}"), &capture);
            }
        }
    }
}

#[test]
fn work_for_a_byte_of_hostile_input_is_bounded() {
    let inflation = Inflation { total: 1 << 20, total_ratio: 16, ..Inflation::default() };
    let (mut all, mut beyond, mut worst, mut densest) =
        (0, Vec::new(), (0, String::new()), (0, String::new()));
    captures(|name, capture| {
        let Work { bytes, steps, counted, stats } = pass(capture, inflation);
        all += 1;
        let limit = u64::from(inflation.total) + 16 * bytes + LAST_PIECE;
        if stats.inflated > limit {
            beyond.push(format!("{name}: {} bytes were decompressed, {limit} are allowed", stats.inflated));
        }
        // What comes out of decompression is looked at a few times, as the rest.
        let steps = steps / (bytes + stats.inflated);
        let records = counted.records * 1000 / bytes;
        if steps > MAX_STEPS {
            beyond.push(format!("{name}: {steps} steps for a byte"));
        }
        if counted.records * MIN_BYTES > bytes {
            beyond.push(format!("{name}: {} records of {bytes} bytes", counted.records));
        }
        worst = worst.clone().max((steps, name.to_owned()));
        densest = densest.clone().max((records, name.to_owned()));
    });
    println!(
        "{all} captures; the most steps for a byte: {worst:?}; the most records of 1,000 bytes: {densest:?}"
    );
    assert!(beyond.is_empty(), "{}", beyond.join("\n"));
}

#[test]
fn many_small_bombs_are_refused_and_counted() {
    let bombs = cases().find(|case| case.name == "gzip-flows").unwrap().capture(BYTES);
    let inflation = Inflation { total: 4 << 20, total_ratio: 1, ..Inflation::default() };
    let bounded = pass(&bombs, inflation);
    let limit = (4 << 20) + bounded.bytes + LAST_PIECE;
    println!(
        "{} bytes decompressed of {limit}, {} bodies refused",
        bounded.stats.inflated, bounded.stats.inflation_refused
    );
    assert!(bounded.stats.inflated <= limit);
    assert!(bounded.stats.inflation_refused > 50);
    // Those that are refused are anomalies.
    let free = pass(&bombs, Inflation { total: 1 << 30, total_ratio: 2000, ..inflation });
    assert_eq!(free.stats.inflation_refused, 0);
    assert!(free.stats.inflated > 10 * bounded.stats.inflated, "{}", free.stats.inflated);
    assert!(free.counted.content > 10 * bounded.counted.content);
}
