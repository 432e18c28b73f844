//! Chains of functions that select and measure: each alone gives what it gives among others, whatever the batches and the
//! number of workers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, Pass, settings};
use std::sync::Arc;
use support::*;
use weir_api::{Answer, Count, FigureValue, FunctionCall, Level, Reading, Snapshot, SubscriptionSpec};
use weir_engine::{Plan, Settings, fields};
use weir_filter::Options;
use weir_filter::fields::{FieldInfo, Fields};
use weir_wire::PacketBuf;

/// Number of chains, and of those that are in one plan.
const CHAINS: usize = 2_000;
const TOGETHER: usize = 100;
/// Packets of the largest capture.
const MAX_PACKETS: u64 = 3_000;

struct All;

impl Fields for All {
    fn tables(&self) -> Vec<&'static str> {
        fields::tables()
    }

    fn names(&self, table: &str) -> Vec<&'static str> {
        fields::names(table)
    }

    fn find(&self, table: &str, name: &str) -> Result<Option<FieldInfo>, String> {
        Ok(fields::find(table, name).map(|(info, _)| info))
    }

    fn time(&self, _text: &str) -> Result<f64, String> {
        Err("a time".to_owned())
    }

    fn list(&self, _path: &str) -> Result<Vec<u8>, String> {
        Err("no file".to_owned())
    }
}

/// A generator of numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const OF_PACKETS: &[&str] = &[
    "tcp",
    "udp or icmp",
    "net 10.0.0.0/8",
    "port 53",
    "dst portrange 0-1023",
    "greater 200",
    "ip6",
    "not tcp[13] & 2 != 0",
];
const OF_FLOWS: &[&str] =
    &["tcp", "udp", "net 10.0.0.0/8", "port 53 or port 80", "dst portrange 0-1023", "ip6", "not tcp"];
const OF_RECORDS: &[&str] = &[
    "dns.query",
    "dns.rcode_name = NOERROR or http.status_code >= 400",
    "http.host contains a",
    "not dns.qtype_name = A",
    "net 10.0.0.0/8",
    "tls.version or http.method = GET",
    "udp",
];

/// A function that measures at a level.
fn measure(level: Level, random: &mut Random) -> FunctionCall {
    let call = |name: &str, arguments: &[(&str, &str)]| {
        arguments.iter().fold(FunctionCall::new(name), |call, (name, value)| call.with(name, value))
    };
    // Enough rows for every key of these captures.
    let rows = ("rows", "16384");
    match (level, random.below(8)) {
        (Level::Record, 0) => call("records", &[]),
        (Level::Record, 1) => call("distinct", &[("of", random.of(&["source", "dns.query", "site"]))]),
        (Level::Record, 2) => call("quantiles", &[("of", random.of(&["dns.rtt", "http.duration"]))]),
        (Level::Record, 3) => call("quantiles", &[("of", "dns.rtt"), ("by", "destination"), rows]),
        (Level::Record, _) => {
            let by =
                ["dns.query", "source", "site", "tls.version", "dns.qtype_name,source", "http.status_code"];
            call("top", &[("by", random.of(&by)), rows])
        }
        (_, 0 | 1) => call(random.of(&["packets", "bytes"]), &[]),
        (Level::Flow, 2 | 3) => call("distribution", &[("of", random.of(&["packets", "bytes", "duration"]))]),
        (Level::Stream, 2) => call("ipproto", &[]),
        (_, 2) => call("distribution", &[("of", random.of(&["size", "payload", "ttl"]))]),
        (Level::Packet, 3) => call(random.of(&["cast", "size", "ipproto", "rate"]), &[]),
        (Level::Packet | Level::Stream, 4 | 5) => {
            call("distinct", &[("of", random.of(&["hosts", "flows", "sources", "pairs", "ports"]))])
        }
        (_, _) => call("top", &[("by", random.of(&["source", "port"])), rows]),
    }
}

/// A random chain, with an expression in front or none.
fn chain(number: usize, random: &mut Random) -> SubscriptionSpec {
    let level = random.of(&[Level::Packet, Level::Packet, Level::Stream, Level::Flow, Level::Record]);
    let expressions = match level {
        Level::Record => OF_RECORDS,
        Level::Stream | Level::Flow => OF_FLOWS,
        Level::Packet => OF_PACKETS,
    };
    let mut functions: Vec<FunctionCall> = (0..random.below(4))
        .map(|_| match random.below(4) {
            0 => FunctionCall::new("sample").with("one_in", 1 + random.below(5)),
            1 => FunctionCall::new("where").with("expression", random.of(expressions)),
            _ => measure(level, random),
        })
        .collect();
    functions.push(measure(level, random));
    let expression = if random.below(2) == 0 { "" } else { random.of(expressions) };
    SubscriptionSpec { level, ..SubscriptionSpec::new(&format!("chain {number}"), expression, functions) }
}

/// The capture in buffers of random sizes.
fn divided(capture: &Loaded, random: &mut Random) -> Loaded {
    let mut chunks = vec![PacketBuf::default()];
    for packet in capture.packets() {
        if random.below(7) == 0 {
            chunks.push(PacketBuf::default());
        }
        chunks.last_mut().unwrap().push(&packet);
    }
    Loaded { chunks, interfaces: capture.interfaces.clone() }
}

fn answers(specs: Vec<SubscriptionSpec>, capture: &Loaded, workers: usize) -> Vec<Vec<Answer>> {
    let options = Options { fields: Some(&All), ..Options::default() };
    let plan = Plan::new("", specs, Settings { filter: options, ..settings() })
        .unwrap_or_else(|error| panic!("{error}"));
    let outcome =
        Pass::new(&Arc::new(plan), workers, capture.ample_memory()).run(capture, capture.interval(3), |_| ());
    outcome.snapshots.into_iter().map(|snapshot| snapshot.answers).collect()
}

#[test]
fn a_chain_alone_gives_what_it_gives_among_others() {
    let mut captures: Vec<Loaded> = diverse(160)
        .iter()
        .map(|path| Loaded::read(path))
        .filter(|capture| (20..MAX_PACKETS).contains(&capture.len()))
        .collect();
    captures.truncate(CHAINS / TOGETHER);
    assert!(!captures.is_empty());
    let mut random = Random(0x5eed);
    let (mut with_records, mut filled) = (0, 0);
    for group in 0..CHAINS / TOGETHER {
        let capture = &captures[group % captures.len()];
        let specs: Vec<SubscriptionSpec> =
            (0..TOGETHER).map(|at| chain(group * TOGETHER + at, &mut random)).collect();
        let together = answers(specs.clone(), capture, 1);
        let nothing = Loaded { chunks: Vec::new(), interfaces: Vec::new() };
        let empty = answers(specs.clone(), &nothing, 1).remove(0);
        let again = divided(capture, &mut random);
        let workers = 1 + random.below(7);
        assert_eq!(together, answers(specs.clone(), &again, workers), "{workers} workers and other batches");
        for spec in specs {
            let name = spec.name.clone();
            with_records += usize::from(spec.level == Level::Record);
            let alone = answers(vec![spec.clone()], capture, 1);
            for (alone, together) in alone.iter().zip(&together) {
                let readings = |answers: &[Answer]| -> Vec<(u16, Reading)> {
                    let mine = answers.iter().filter(|answer| answer.label.subscription == name);
                    mine.map(|answer| (answer.id.place, answer.reading.clone())).collect()
                };
                let (alone, together) = (readings(alone), readings(together));
                filled += usize::from(alone != readings(&empty));
                assert_eq!(alone, together, "{spec:?}");
            }
        }
    }
    println!(
        "{CHAINS} chains, {with_records} over records, on {} captures: {filled} answers hold something",
        captures.len()
    );
    assert!(filled > CHAINS);
}

/// The settings of these tests, with the fields of records.
fn with_fields() -> Settings {
    Settings { filter: Options { fields: Some(&All), ..Options::default() }, ..settings() }
}

/// The counts of a subscription with this name.
fn counted(snapshot: &Snapshot, name: &str) -> Count {
    let answers = snapshot.answers.iter().filter(|answer| answer.label.subscription == name);
    answers.fold(Count::default(), |mut sum, answer| {
        if let Reading::Count(count) = &answer.reading {
            sum.add(count);
        }
        sum
    })
}

/// The number of records of a subscription with this name.
fn records_of(snapshot: &Snapshot, name: &str) -> u64 {
    let answers = snapshot.answers.iter().filter(|answer| answer.label.subscription == name);
    let mut sum = 0;
    for answer in answers {
        answer.reading.figures(&mut |figure| match figure.value {
            FigureValue::Sum(records) => sum += records,
            // Numbers of rows.
            FigureValue::Gauge(_) | FigureValue::Histogram(_) => {}
        });
    }
    sum
}

/// A search sees each request once, when its head is complete: as often as there are records of requests with that method, apart
/// from requests that are cut off. Its result does not depend on workers, and it covers flows as all functions over streams do.
#[test]
fn a_search_finds_what_records_have() {
    let count_of = FunctionCall::new("packets");
    let search = |place: &str, text: &str| FunctionCall::new("search").with("in", place).with("for", text);
    let over = |name: &str, expression: &str, search: FunctionCall| SubscriptionSpec {
        level: Level::Stream,
        ..SubscriptionSpec::new(name, expression, vec![search, count_of.clone()])
    };
    let records = |name: &str, expression: &str| SubscriptionSpec {
        level: Level::Record,
        ..SubscriptionSpec::new(name, expression, vec![FunctionCall::new("records")])
    };
    let searches = [
        over("get", "", search("http.method", "get")),
        over("get of 80", "tcp port 80", search("http.method", "G|45|t")),
        over("get of others", "not tcp port 80", search("http.method", "get")),
        over("names", "", search("dns.query_name", "|2e|")),
        over("agents", "", search("http.request_content_type", "form")),
    ];
    assert!(Plan::new("", searches.to_vec(), with_fields()).err().unwrap().to_string().contains("dns.query"));
    let searches = searches.into_iter().filter(|spec| spec.name != "names").collect::<Vec<_>>();
    let alone = Arc::new(Plan::new("", searches.clone(), with_fields()).unwrap());
    assert!(alone.needs().iter().any(|line| line == "buffers: http.method"), "{:?}", alone.needs());
    assert!(!alone.needs().iter().any(|line| line.starts_with("records for functions")));
    let tests = [
        records("get records", "http.method contains get"),
        records("form records", "http.request_content_type contains form"),
    ];
    let with_records = Plan::new("", searches.into_iter().chain(tests).collect(), with_fields());
    let with_records = Arc::new(with_records.unwrap());
    let (mut found, mut known, mut forms, mut known_forms) = (0, 0, 0, 0);
    for path in diverse(400) {
        let capture = Loaded::read(&path);
        if !(2..=MAX_PACKETS).contains(&capture.len()) {
            continue;
        }
        let run = |plan, workers| {
            let pass = Pass::new(plan, workers, capture.ample_memory());
            pass.run(&capture, capture.interval(3), |_| ()).total()
        };
        let (one, all) = (run(&alone, 1), run(&with_records, 1));
        for name in ["get", "get of 80", "get of others", "agents"] {
            let expected = counted(&one, name);
            for workers in [2, 3, 7] {
                assert_eq!(counted(&run(&alone, workers), name), expected, "{}: {name}", path.display());
            }
            assert_eq!(counted(&all, name), expected, "{}: {name}", path.display());
        }
        let get = counted(&one, "get").packets;
        let parts = counted(&one, "get of 80").packets + counted(&one, "get of others").packets;
        assert_eq!(get, parts, "{}", path.display());
        (found, forms) = (found + get, forms + counted(&one, "agents").packets);
        known += records_of(&all, "get records");
        known_forms += records_of(&all, "form records");
    }
    println!(
        "{found} of {known} GET requests and {forms} of {known_forms} forms were found before their records"
    );
    assert!(found <= known && found * 20 >= known * 19 && found > 0);
    assert!(forms <= known_forms && forms * 20 >= known_forms * 19 && forms > 0);
}
