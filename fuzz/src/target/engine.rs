use super::{Digest, HEADERS};
use crate::{Target, seeds, sequence};
use std::sync::Arc;
use weir_api::{FunctionCall, Ledger, Level, Reading, Snapshot, SubscriptionSpec};
use weir_engine::{
    ChecksumMode, Emitted, FUNCTIONS, FlowConfig, FunctionSpec, IntervalClock, Plan, Settings, Sink, Worker,
};
use weir_filter::Options;
use weir_filter::fields::{FieldInfo, Fields};
use weir_wire::{Batch, PacketBuf, Slot, Time, decode, steer_hash};

pub const TARGET: Target = Target {
    name: "engine",
    about: "a byte that chooses the plan, and a sequence of packets through every function, with one worker and with two: the ledgers add up and agree",
    seeds: seeds::chosen_sequences,
    words: HEADERS,
    run,
};

/// Output of a worker apart from snapshots.
#[derive(Default)]
struct Rows {
    flows: u64,
    kept: u64,
}

impl Sink for Rows {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Flow(..) => self.flows += 1,
            Emitted::Matching(packets) => self.kept += packets.len() as u64,
            _ => {}
        }
    }
}

fn run(input: &[u8]) -> u64 {
    let Some((&kind, input)) = input.split_first() else { return 0 };
    let plan = Arc::new(plan(kind));
    let chunk = sequence::decode(input);
    let one = pass(&plan, &chunk, 1);
    let two = pass(&plan, &chunk, 2);
    // The packets whose checksums are verified depend on the worker, unless all are.
    let same = |ledger: &Ledger| {
        (ledger.caught, ledger.bytes, ledger.filtered, ledger.analysed, ledger.flowed, ledger.errors)
    };
    assert_eq!(same(&one.ledger), same(&two.ledger));
    assert_eq!(one.ledger.caught, chunk.slots.len() as u64);
    assert_eq!(counts(&one), counts(&two), "the number of workers changes the counts");
    let mut digest = Digest::default();
    one.ledger.errors.0.iter().flatten().for_each(|n| digest.size(*n));
    digest.size(one.flows.created);
    digest.size(one.ledger.flowed);
    one.answers.iter().for_each(|answer| digest.size(format!("{:?}", answer.reading).len() as u64));
    digest.0
}

/// The readings that are counts, with the names of their subscriptions.
fn counts(snapshot: &Snapshot) -> Vec<(&str, &str, u64, u64)> {
    let of = |answer| match answer {
        &Reading::Count(count) => Some((count.packets, count.bytes)),
        _ => None,
    };
    let answers = snapshot.answers.iter().filter_map(|answer| {
        let (packets, bytes) = of(&answer.reading)?;
        Some((answer.label.subscription.as_str(), answer.label.function.as_str(), packets, bytes))
    });
    answers.collect()
}

/// No fields of records; each file is a list with hosts and names.
struct Watched;

impl Fields for Watched {
    fn tables(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn names(&self, _table: &str) -> Vec<&'static str> {
        Vec::new()
    }

    fn find(&self, _table: &str, _name: &str) -> Result<Option<FieldInfo>, String> {
        Ok(None)
    }

    fn time(&self, _text: &str) -> Result<f64, String> {
        Err("no time".to_owned())
    }

    fn list(&self, _path: &str) -> Result<Vec<u8>, String> {
        Ok(b"0.0.0.0/1\n10.0.0.0/8\n::/2\nexample.org\n".to_vec())
    }
}

/// A plan with every function at every level that it supports, over all packets, over some, and over the rest.
fn plan(kind: u8) -> Plan {
    let mut specs = Vec::new();
    for function in FUNCTIONS {
        // `event` needs a function before it where items have no hosts.
        let stands_alone =
            |level: &&Level| function.name != "event" || matches!(level, Level::Flow | Level::Record);
        for level in function.levels.iter().filter(stands_alone) {
            let parts = [("", false), ("tcp or vlan", false), ("", true)];
            // At flow level every flow is seen.
            let parts = if *level == Level::Packet { &parts[..] } else { &parts[..1] };
            for &(expression, remainder) in parts {
                specs.push(SubscriptionSpec {
                    name: format!("{} {level:?} {expression} {remainder}", function.name),
                    chart: (*level == Level::Packet).then(|| function.name.to_owned()),
                    remainder: remainder && *level == Level::Packet,
                    level: *level,
                    ..SubscriptionSpec::new("", expression, vec![call(function, *level)])
                });
            }
        }
    }
    let settings = Settings {
        filter: Options { inner: kind & 1 != 0, fields: Some(&Watched), ..Options::default() },
        checksum: [ChecksumMode::Auto, ChecksumMode::On, ChecksumMode::Off][usize::from(kind >> 1) % 3],
        seeds: 7_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: None,
    };
    let scope = if kind & 8 == 0 { "" } else { "not udp" };
    Plan::new(scope, specs, settings).expect("a plan of every function")
}

/// A call of a function at a level, with the arguments that it needs.
fn call(function: &FunctionSpec, level: Level) -> FunctionCall {
    let needed = function.arguments.iter().filter(|argument| argument.default.is_none());
    needed.fold(FunctionCall::new(function.name), |call, argument| match (function.name, argument.name) {
        // A file has the packets of one level.
        ("write", "to") => call.with("to", format!("{level:?}.pcap")),
        ("watch", "file") => call.with("file", "bad.txt"),
        (_, name) => call.with(name, if name.starts_with("net") { "10.0.0.0/8" } else { "80" }),
    })
}

/// The total of a run with this number of workers.
fn pass(plan: &Arc<Plan>, chunk: &PacketBuf, workers: usize) -> Snapshot {
    let config = FlowConfig { memory: 1 << 20, ..FlowConfig::default() };
    let mut pool: Vec<Worker> = (0..workers).map(|_| Worker::new(Arc::clone(plan), &config)).collect();
    let mut clock = IntervalClock::new(30_000_000_000);
    let mut rows = Rows::default();
    let mut total: Option<Snapshot> = None;
    for slots in chunk.slots.chunks(16) {
        let mut shares: Vec<Vec<Slot>> = vec![Vec::new(); workers];
        for slot in slots {
            let packet = chunk.batch().packet(slot);
            if let Some(stretch) = clock.observe(slot.time) {
                feed(&mut pool, &mut shares, chunk, &mut rows);
                let mut end = |worker: &mut Worker| match stretch.is_later {
                    true => worker.tick(Time(stretch.interval.start), &mut rows),
                    false => worker.hand_over(&mut rows),
                };
                pool.iter_mut().for_each(|worker| add(&mut total, end(worker)));
            }
            shares[steer_hash(&packet, &decode(&packet)) as usize % workers].push(*slot);
        }
        feed(&mut pool, &mut shares, chunk, &mut rows);
    }
    pool.iter_mut().for_each(|worker| add(&mut total, worker.finish(&mut rows)));
    let mut total = total.expect("a worker");
    total.fill();
    total.ledger.capture.offered = total.ledger.caught;
    assert_eq!(total.ledger.imbalance(), None);
    assert_eq!(rows.kept, total.ledger.analysed);
    assert_eq!((rows.flows, total.flows.ended), (total.flows.created, total.flows.created));
    total
}

fn feed(pool: &mut [Worker], shares: &mut [Vec<Slot>], chunk: &PacketBuf, rows: &mut Rows) {
    for (worker, share) in pool.iter_mut().zip(shares) {
        worker.batch(Batch { bytes: &chunk.bytes, slots: share }, rows);
        share.clear();
    }
}

fn add(total: &mut Option<Snapshot>, snapshot: Snapshot) {
    match total {
        Some(total) => total.merge(&snapshot),
        None => *total = Some(snapshot),
    }
}
