//! Tests that the cost of a stream is linear in its bytes for any input. Each conversation under `testdata/` is
//! extended as an attacker would, to make a parser read its state again and again, and is parsed with n bytes and with
//! a multiple of n. The gate counts steps; `bench/run --only growth` measures the time of these cases.

use crate::laws::{all_talks, testdata};
use crate::talk::{Talk, Turn};
use crate::{Expected, Out, Record, TCP, Value, work};
use std::collections::{BTreeMap, BTreeSet};

/// Length of the shorter input in bytes: above the limits of what parsers keep, beyond which some are faster.
const BYTES: usize = 192 << 10;

/// Ratio of the longer input to the shorter one.
const TIMES: usize = 4;

/// Maximum ratio of the steps: 4 is linear, 16 quadratic. The range above 4 allows for bounded lists that fill up on
/// the way, such as SMB's requests; the highest ratio is 7.9.
const MAX_STEPS: u64 = 10;

/// Minimum number of steps per byte, in hundredths: fewer show that the parser does not read the input to its end.
const MIN_STEPS: u64 = 50;

/// Maximum ratio of the times in nanoseconds; the range above 4 allows for the noise of the machine.
const MAX_TIMES: u64 = 8;

/// Minimum time in nanoseconds: shorter runs give no reliable ratio.
const MIN_NANOSECONDS: u64 = 300_000;

struct NullSink;

impl Out for NullSink {
    fn record(&mut self, _: Record<'_>) {}
    fn expect(&mut self, _: Expected) {}
    fn content(&mut self, _: u64, _: u64, _: &[u8]) -> bool {
        true
    }
}

/// How a conversation is extended.
#[derive(Clone, Copy, Debug)]
enum Longer {
    /// The whole conversation, repeated.
    Again,
    /// The initiator's payload, repeated, without an answer.
    Asked,
    /// The responder's payload, repeated, without a request.
    Answered,
    /// The longest block without an end: its first half, and then one byte repeated.
    Endless(u8),
}

const WAYS: [Longer; 7] = [
    Longer::Again,
    Longer::Asked,
    Longer::Answered,
    Longer::Endless(b'a'),
    Longer::Endless(b' '),
    Longer::Endless(b'\n'),
    Longer::Endless(0),
];

impl Longer {
    fn make(self, talk: &Talk, bytes: usize) -> Talk {
        let len = |turn: &Turn| if let Turn::Data(_, data) = turn { data.len() } else { 0 };
        let is_of = |turn: &&Turn, wanted| matches!(turn, Turn::Data(side, _) if *side == wanted);
        let repeated: Vec<Turn> = match self {
            Self::Again => talk.turns.clone(),
            Self::Asked => {
                talk.turns.iter().filter(|s| is_of(s, weir_wire::Direction::Forward)).cloned().collect()
            }
            Self::Answered => {
                talk.turns.iter().filter(|s| is_of(s, weir_wire::Direction::Reverse)).cloned().collect()
            }
            Self::Endless(byte) => {
                let longest = (0..talk.turns.len()).max_by_key(|at| len(&talk.turns[*at]));
                let Some(Turn::Data(side, data)) = longest.and_then(|at| talk.turns.get(at)) else {
                    return talk.clone();
                };
                let mut data = data[..data.len() / 2].to_vec();
                // The length of a datagram is limited.
                data.resize(if talk.ip_proto == TCP { bytes } else { bytes / 4 }, byte);
                let before = talk.turns.iter().take(longest.unwrap_or(0)).cloned();
                let turns = before.chain([Turn::Data(*side, data)]).collect();
                return Talk { turns, ..talk.clone() };
            }
        };
        let once: usize = repeated.iter().map(len).sum();
        let times = bytes.div_ceil(once.max(1));
        let turns = repeated.iter().cycle().take(repeated.len() * times).cloned().collect();
        Talk { turns, ..talk.clone() }
    }
}

/// CPU time of this thread in nanoseconds.
fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn read(talk: &Talk, piece: usize) {
    talk.emit(|data, see| data.chunks(piece).for_each(see), &mut NullSink);
}

/// Number of steps to parse a conversation in pieces of `piece` bytes.
fn steps(talk: &Talk, piece: usize) -> u64 {
    work::take();
    read(talk, piece);
    work::take()
}

/// Nanoseconds to parse a conversation in pieces of `piece` bytes.
fn time(talk: &Talk, piece: usize) -> u64 {
    let before = cpu_time();
    read(talk, piece);
    cpu_time() - before
}

/// Calls `of` with each conversation extended in each way: its name, the shorter and the longer input, and the sizes
/// of the pieces.
fn cases(mut of: impl FnMut(&str, &[Talk; 2], usize)) {
    for (path, talk) in all_talks() {
        let path = path.strip_prefix(testdata()).unwrap_or(&path).display().to_string();
        for way in WAYS {
            let both = [BYTES, TIMES * BYTES].map(|bytes| way.make(&talk, bytes));
            for piece in if talk.ip_proto == TCP { &[1448, 11][..] } else { &[usize::MAX][..] } {
                of(&format!("{path} {way:?} in pieces of {piece}"), &both, *piece);
            }
        }
    }
}

#[test]
fn steps_per_byte_do_not_rise_with_size() {
    let (mut all, mut read, mut rising) = (0, 0, Vec::new());
    cases(|name, [one, two], piece| {
        let [one, two] = [one, two].map(|talk| steps(talk, piece));
        all += 1;
        read += u32::from(two * 100 >= (TIMES * BYTES) as u64 * MIN_STEPS);
        // If only one of the two inputs is read to its end, they cannot be compared: the limits of parsers are below
        // the shorter length.
        if two > one.max(BYTES as u64) * MAX_STEPS {
            rising.push(format!("{name}: {one} steps, {TIMES} times as many bytes {two}"));
        }
    });
    println!("{all} cases, {read} of them read to the end");
    assert!(rising.is_empty(), "{}", rising.join("\n"));
    assert!(read > 400, "{read} of {all} cases are read to the end");
}

/// The size of the largest record so far of each table.
#[derive(Default)]
struct Largest(BTreeMap<&'static str, usize>);

impl Out for Largest {
    fn record(&mut self, record: Record<'_>) {
        let size: usize = record.values.iter().map(size_of_value).sum();
        let largest = self.0.entry(record.table.name).or_default();
        *largest = size.max(*largest);
    }

    fn expect(&mut self, _: Expected) {}

    fn content(&mut self, _: u64, _: u64, _: &[u8]) -> bool {
        true
    }
}

/// About the bytes of a value where it is written.
fn size_of_value(value: &Value<'_>) -> usize {
    const SCALAR: usize = 8;
    match value {
        Value::Text(text) => SCALAR + text.len(),
        Value::List(values) => values.iter().map(size_of_value).sum::<usize>() + SCALAR,
        Value::Rows(rows) => rows.iter().flatten().map(size_of_value).sum::<usize>() + SCALAR,
        _ => SCALAR,
    }
}

/// What is joined in one record has a limit: the largest record of a table is not larger where there is more traffic.
#[test]
fn no_record_grows_with_its_traffic() {
    /// Differences of a few values, such as digits of numbers in text.
    const NEAR: usize = 64;
    let (mut tables, mut growing) = (BTreeSet::new(), Vec::new());
    cases(|name, talks, piece| {
        // Records do not depend on the size of pieces, and a datagram has a limit of its own.
        if piece < 1448 || talks[0].ip_proto != TCP && name.contains("Endless") {
            return;
        }
        let [one, two] = [0, 1].map(|at| {
            let mut largest = Largest::default();
            talks[at].emit(|data, see| data.chunks(piece).for_each(see), &mut largest);
            largest.0
        });
        for (table, size) in two {
            tables.insert(table);
            let shorter = one.get(table).copied().unwrap_or(0);
            if size > shorter + NEAR {
                growing.push(format!("{name}: {table} {shorter} bytes, then {size}"));
            }
        }
    });
    assert!(growing.is_empty(), "{}", growing.join("\n"));
    assert!(tables.len() > 40, "{} tables have records: {tables:?}", tables.len());
}

/// For the benchmark: the time also covers loops that count no steps.
#[test]
#[ignore = "measures time: bench/run --only growth"]
fn time_per_byte_does_not_rise_with_size() {
    let (mut all, mut long, mut worst, mut rising) = (0, 0, 0.0_f64, Vec::new());
    cases(|name, [one, two], piece| {
        let (mut min, mut rounds) = ([u64::MAX; 2], 0);
        all += 1;
        while rounds < 12 && (rounds == 0 || min[1] > min[0] * MAX_TIMES && min[1] >= MIN_NANOSECONDS) {
            min = [min[0].min(time(one, piece)), min[1].min(time(two, piece))];
            rounds += 1;
        }
        let [one, two] = min;
        if two >= MIN_NANOSECONDS {
            long += 1;
            worst = worst.max(two as f64 / one as f64);
            if two > one * MAX_TIMES {
                rising.push(format!("{name}: {one} ns, {TIMES} times as many bytes {two} ns"));
            }
        }
    });
    println!("growth: {all} {long} {worst:.2} {}", rising.len());
    assert!(rising.is_empty(), "{}", rising.join("\n"));
}
