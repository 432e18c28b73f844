//! Chains of functions that select and measure: each alone gives what it gives among others, whatever the batches and the
//! number of workers, and whatever functions it shares with others that come and go.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, Pass, RecordFields, settings};
use std::sync::Arc;
use support::random::Random;
use support::*;
use weir_api::{
    Answer, Count, FigureValue, FunctionCall, Level, Owner, Reading, Snapshot, Subscription, SubscriptionId,
    SubscriptionSpec,
};
use weir_engine::{FlowConfig, Plan, Settings, Worker};
use weir_filter::Options;
use weir_wire::{Batch, PacketBuf, Slot, Time, decode, steer_hash};

/// Number of chains, and of those that are in one plan.
const CHAINS: usize = 2_000;
const TOGETHER: usize = 100;
/// Packets of the largest capture.
const MAX_PACKETS: u64 = 3_000;

/// The content of each file that is a list.
const LISTS: &RecordFields = &RecordFields(b"10.0.0.0/8\n192.168.0.0/16\n2001:db8::/32\nexample.org\ncom\n");

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
        (Level::Record | Level::Flow, 7) => call("watch", &[("file", "bad.txt"), rows]),
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

/// A random chain, with an expression in front or none. Half of them begin as one of those `before`, or are equal to it.
fn chain(number: usize, before: &[SubscriptionSpec], random: &mut Random) -> SubscriptionSpec {
    let name = format!("chain {number}");
    let other = (!before.is_empty() && random.below(2) == 0).then(|| &before[random.below(before.len())]);
    let level = match other {
        Some(other) => other.level,
        None => random.of(&[Level::Packet, Level::Packet, Level::Stream, Level::Flow, Level::Record]),
    };
    let expressions = match level {
        Level::Record => OF_RECORDS,
        Level::Stream | Level::Flow => OF_FLOWS,
        Level::Packet => OF_PACKETS,
    };
    let (expression, mut functions) = match other {
        Some(other) => {
            let first = 1 + random.below(other.functions.len());
            (other.expression.clone(), other.functions[..first].to_vec())
        }
        None if random.below(2) == 0 => (String::new(), Vec::new()),
        None => (random.of(expressions).to_owned(), Vec::new()),
    };
    if other.is_none_or(|other| functions.len() < other.functions.len() || random.below(2) == 0) {
        functions.extend((0..random.below(4)).map(|_| match random.below(4) {
            0 => FunctionCall::new("sample").with("one_in", 1 + random.below(5)),
            1 => FunctionCall::new("where").with("expression", random.of(expressions)),
            _ => measure(level, random),
        }));
        functions.push(measure(level, random));
    }
    SubscriptionSpec { level, ..SubscriptionSpec::new(&name, &expression, functions) }
}

/// Several of them.
fn chains(numbers: std::ops::Range<usize>, random: &mut Random) -> Vec<SubscriptionSpec> {
    numbers.fold(Vec::new(), |mut chains, number| {
        chains.push(chain(number, &chains, random));
        chains
    })
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

fn with_fields() -> Settings {
    Settings { filter: Options { fields: Some(LISTS), ..Options::default() }, ..settings() }
}

fn answers(specs: Vec<SubscriptionSpec>, capture: &Loaded, workers: usize) -> Vec<Vec<Answer>> {
    let plan = Plan::new("", specs, with_fields()).unwrap_or_else(|error| panic!("{error}"));
    let outcome =
        Pass::new(&Arc::new(plan), workers, capture.ample_memory()).run(capture, capture.interval(3), |_| ());
    outcome.snapshots.into_iter().map(|snapshot| snapshot.answers).collect()
}

/// A number of captures with some packets, but not many.
fn captures_of(number: usize) -> Vec<Loaded> {
    let captures = diverse(160).into_iter().map(|path| Loaded::read(&path));
    let captures: Vec<Loaded> =
        captures.filter(|capture| (20..MAX_PACKETS).contains(&capture.len())).take(number).collect();
    assert!(!captures.is_empty());
    captures
}

#[test]
fn a_chain_alone_gives_what_it_gives_among_others() {
    let captures = captures_of(CHAINS / TOGETHER);
    let mut random = Random(0x5eed);
    let (mut with_records, mut filled) = (0, 0);
    for group in 0..CHAINS / TOGETHER {
        let capture = &captures[group % captures.len()];
        let specs = chains(group * TOGETHER..(group + 1) * TOGETHER, &mut random);
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

/// A subscription that is in some of the plans of a run.
struct Lived {
    one: Subscription,
    plans: std::ops::Range<usize>,
}

/// The subscriptions of a run with this number of plans: some from the start, some that come together, some that go.
fn lives(plans: usize, random: &mut Random) -> Vec<Lived> {
    let mut lives: Vec<Lived> = Vec::new();
    let mut specs: Vec<SubscriptionSpec> = Vec::new();
    for plan in 0..plans {
        // Several come together.
        let coming = if plan == 0 { 8 } else { random.below(3) * 2 };
        for _ in 0..coming {
            let mut spec = chain(specs.len(), &specs[specs.len().saturating_sub(6)..], random);
            // What was reassembled of a stream before it came depends on the others.
            if plan > 0 && spec.level == Level::Stream {
                spec.level = Level::Packet;
            }
            specs.push(spec.clone());
            let id = SubscriptionId(specs.len() as u32);
            lives.push(Lived {
                one: Subscription { id, owner: Owner::Client(1), spec: Arc::new(spec) },
                plans: plan..plan + 1 + random.below(plans),
            });
        }
    }
    lives
}

/// The readings of a run whose plan changes at these packets, with the subscriptions of which `is_in` is true.
fn run_changes(
    capture: &Loaded,
    changes: &[usize],
    lives: &[Lived],
    workers: usize,
    is_in: impl Fn(&Lived) -> bool,
) -> Snapshot {
    // Records of all tables are read in every run, so that a subscription finds the parsers of its flows in one state. No other
    // chain has this call.
    let call = FunctionCall::new("top").with("by", "port").with("show", 7);
    let reader = SubscriptionSpec { level: Level::Record, ..SubscriptionSpec::new("reader", "", vec![call]) };
    let reader = Subscription { id: SubscriptionId(0), owner: Owner::Run, spec: Arc::new(reader) };
    let plan = |before: Option<&Arc<Plan>>, number: usize| {
        let present = lives.iter().filter(|lived| lived.plans.contains(&number) && is_in(lived));
        let mut all: Vec<Subscription> = present.map(|lived| lived.one.clone()).collect();
        // The order of the plan is not the order of the numbers.
        let middle = all.len() / 2;
        all.rotate_left(middle);
        all.push(reader.clone());
        let before = before.map(|plan| &**plan);
        Arc::new(Plan::of(before, number as u64 + 1, "", &all, with_fields()).unwrap())
    };
    let mut present = plan(None, 0);
    let config = FlowConfig { memory: capture.ample_memory(), ..FlowConfig::default() };
    let mut all: Vec<Worker> = (0..workers).map(|_| Worker::new(Arc::clone(&present), &config)).collect();
    let mut total = Snapshot::default();
    let packets: Vec<(&[u8], Slot)> = capture
        .chunks
        .iter()
        .flat_map(|chunk| chunk.slots.iter().map(|slot| (chunk.bytes.as_slice(), *slot)))
        .collect();
    let mut from = 0;
    for (number, to) in changes.iter().copied().chain([packets.len()]).enumerate() {
        for (bytes, slot) in &packets[from..to] {
            let batch = Batch { bytes, slots: std::slice::from_ref(slot) };
            let owner =
                batch.packets().map(|packet| steer_hash(&packet, &decode(&packet)) as usize % workers);
            owner.for_each(|owner| all[owner].batch(batch, &mut ()));
        }
        from = to;
        if number == changes.len() {
            break;
        }
        // Some intervals have several changes.
        if number % 3 == 2 {
            let last = packets[..to].last().map_or(0, |(_, slot)| slot.time.0);
            all.iter_mut().for_each(|worker| total.merge(&worker.tick(Time(last), &mut ())));
        }
        present = plan(Some(&present), number + 1);
        all.iter_mut().for_each(|worker| worker.change_plan(Arc::clone(&present), &mut ()));
    }
    all.iter_mut().for_each(|worker| total.merge(&worker.finish(&mut ())));
    total
}

#[test]
fn chains_that_come_and_go_give_what_each_gives_alone() {
    let mut random = Random(0xc0de);
    let (mut compared, mut filled, mut shared, mut joined) = (0, 0, 0, 0);
    for capture in captures_of(30) {
        let mut changes: Vec<usize> = (0..8).map(|_| random.below(capture.len() as usize + 1)).collect();
        changes.sort_unstable();
        let lives = lives(changes.len() + 1, &mut random);
        let of = |total: &Snapshot, id: SubscriptionId| -> Vec<(u16, Reading)> {
            let answers = total.answers.iter().filter(|answer| answer.id.subscription == id);
            answers.map(|answer| (answer.id.place, answer.reading.clone())).collect()
        };
        let together = run_changes(&capture, &changes, &lives, 1, |_| true);
        let workers = 2 + random.below(3);
        let divided = run_changes(&capture, &changes, &lives, workers, |_| true);
        for (at, lived) in lives.iter().enumerate() {
            let id = lived.one.id;
            let alone = run_changes(&capture, &changes, &lives, 1, |other| other.one.id == id);
            assert_eq!(of(&together, id), of(&alone, id), "{:?} in {:?}", lived.one.spec, lived.plans);
            assert_eq!(of(&together, id), of(&divided, id), "{workers} workers: {:?}", lived.one.spec);
            compared += 1;
            filled += usize::from(!of(&alone, id).is_empty());
            // Those that live at one time over one source, with one first call.
            let key = |lived: &Lived| {
                let SubscriptionSpec { level, expression, functions, .. } = &*lived.one.spec;
                (*level, expression.clone(), functions[0].clone())
            };
            let before =
                |other: &&Lived| other.plans.contains(&lived.plans.start) && key(other) == key(lived);
            if let Some(other) = lives[..at].iter().find(before) {
                shared += 1;
                joined += usize::from(other.plans.start < lived.plans.start);
            }
        }
    }
    println!(
        "{compared} subscriptions, {shared} share a function, {joined} of them with one that began before, {filled} with answers"
    );
    assert!(shared > compared / 8 && joined > compared / 20 && filled > compared / 2);
}
