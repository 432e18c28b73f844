//! Changes of the plan in the midst of a run (law 7): a subscription counts what it would count over the packets of its
//! time alone.

use super::pass::{Loaded, settings};
use super::support::{diverse, sample};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use weir_api::{
    Count, FunctionCall, Owner, Reading, Snapshot, Subscription, SubscriptionId, SubscriptionSpec,
};
use weir_engine::{FlowConfig, Plan, Worker};
use weir_filter::Filter;
use weir_wire::{Batch, Slot, Time, decode};

/// Expressions that a flow's key decides, that each packet decides, and of all packets.
const EXPRESSIONS: &[&str] = &[
    "",
    "tcp",
    "udp or icmp",
    "port 53",
    "net 10.0.0.0/8",
    "tcp[13] & 2 != 0",
    "greater 200",
    "ip6",
    "not tcp and less 100",
    "tcp port 80 and greater 100",
];

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

/// A subscription, and the packets of its time.
struct Lived {
    expression: String,
    time: Range<usize>,
}

/// A subscription with one of a few expressions, or with one of thousands.
fn subscription(number: u32, random: &mut Random) -> Subscription {
    let expression = match random.below(2) {
        0 => EXPRESSIONS[random.below(EXPRESSIONS.len())].to_owned(),
        _ => match random.below(3) {
            0 => format!("port {}", random.below(1 << 16)),
            1 => format!("net 10.{}.{}.0/24 and tcp", random.below(256), random.below(256)),
            _ => format!("greater {} and not host 10.0.0.{}", random.below(1500), random.below(256)),
        },
    };
    // Sums, and functions with a state.
    let function = if random.below(2) == 0 { "packets" } else { "size" };
    let spec = SubscriptionSpec::new("equal names", &expression, vec![FunctionCall::new(function)]);
    Subscription { id: SubscriptionId(number), owner: Owner::Client(1), spec: Arc::new(spec) }
}

fn packets(reading: &Reading) -> u64 {
    match reading {
        Reading::Count(count) => count.packets,
        Reading::Classes { classes, .. } => classes.iter().map(|class| class.count.packets).sum(),
        reading => panic!("{reading:?}"),
    }
}

/// Runs a capture with random changes of that many subscriptions. Returns the sum of each subscription, and its time.
fn run(
    capture: &Loaded,
    subscriptions: u32,
    changes: usize,
    random: &mut Random,
) -> (Snapshot, BTreeMap<u32, Lived>) {
    let all: Vec<(&[u8], Slot)> = capture
        .chunks
        .iter()
        .flat_map(|chunk| chunk.slots.iter().map(|slot| (chunk.bytes.as_slice(), *slot)))
        .collect();
    let mut at: Vec<usize> = (0..changes).map(|_| random.below(all.len() + 1)).collect();
    at.sort_unstable();
    let mut present: Vec<Subscription> =
        (1..=subscriptions).map(|number| subscription(number, random)).collect();
    let lived = |one: &Subscription, from: usize| {
        (one.id.0, Lived { expression: one.spec.expression.clone(), time: from..all.len() })
    };
    let mut lives: BTreeMap<u32, Lived> = present.iter().map(|one| lived(one, 0)).collect();
    let mut plan = Arc::new(Plan::of(None, 1, "", &present, settings()).unwrap());
    let flows = FlowConfig { memory: 1 << 20, ..FlowConfig::default() };
    let mut worker = Worker::new(Arc::clone(&plan), &flows);
    let mut total = Snapshot::default();
    let mut from = 0;
    let mut next = subscriptions + 1;
    for to in at.into_iter().chain([all.len()]) {
        for (bytes, slot) in &all[from..to] {
            worker.batch(Batch { bytes, slots: std::slice::from_ref(slot) }, &mut ());
        }
        from = to;
        if random.below(3) == 0 {
            let last = all[..to].last().map_or(0, |(_, slot)| slot.time.0);
            total.merge(&worker.tick(Time(last), &mut ()));
        }
        if random.below(2) == 0 && !present.is_empty() {
            let removed = present.remove(random.below(present.len()));
            lives.get_mut(&removed.id.0).unwrap().time.end = to;
        } else {
            let new = subscription(next, random);
            next += 1;
            lives.extend([lived(&new, to)]);
            // The order of the plan is not the order of the numbers.
            present.insert(random.below(present.len() + 1), new);
        }
        plan = Arc::new(Plan::of(Some(&plan), plan.number() + 1, "", &present, settings()).unwrap());
        worker.change_plan(Arc::clone(&plan), &mut ());
    }
    total.merge(&worker.finish(&mut ()));
    (total, lives)
}

/// The packets that an expression matches in a part of a capture, one by one.
fn truth(capture: &Loaded, lived: &Lived) -> u64 {
    let filter = (!lived.expression.is_empty())
        .then(|| Filter::compile(&lived.expression, &settings().filter).unwrap());
    let part = capture.packets().skip(lived.time.start).take(lived.time.len());
    let matches = part.filter(|packet| {
        let layers = decode(packet);
        filter.as_ref().is_none_or(|filter| filter.matches(packet, &layers))
    });
    matches.count() as u64
}

/// Runs a capture with random changes, and compares each subscription with a count over the packets of its time. Returns the
/// number of subscriptions.
fn compare(path: &Path, capture: &Loaded, subscriptions: u32, changes: usize, random: &mut Random) -> usize {
    let (mut total, lives) = run(capture, subscriptions, changes, random);
    for (number, lived) in &lives {
        let found = total.reading_of(SubscriptionId(*number)).map_or(0, packets);
        let expected = truth(capture, lived);
        assert_eq!(found, expected, "{}: `{}` {:?}", path.display(), lived.expression, lived.time);
    }
    assert_eq!(total.ledger.caught, capture.len());
    total.ledger.capture.offered = total.ledger.caught;
    assert_eq!(total.ledger.imbalance(), None);
    lives.len()
}

#[test]
fn what_a_subscription_counts_is_a_count_over_the_packets_of_its_time() {
    let (mut changes, mut compared, mut random) = (0, 0, Random(7));
    for path in diverse(60) {
        let capture = Loaded::read(&path);
        if capture.len() == 0 || capture.len() > 20_000 {
            continue;
        }
        compared += compare(&path, &capture, 4, 40, &mut random);
        changes += 40;
    }
    println!("{changes} changes of plan, {compared} subscriptions counted what is there in their time");
}

/// So many that changes are compiled beside the expressions before them, and that both are joined in the run.
#[test]
fn the_same_holds_among_many_subscriptions() {
    let path = sample();
    let compared = compare(&path, &Loaded::read(&path), 3_000, 2_600, &mut Random(11));
    println!("2600 changes of plan among 3000 subscriptions, {compared} counted what is there in their time");
}

#[test]
fn an_unchanged_subscription_keeps_its_state() {
    let top = |number: u32, by: &str| Subscription {
        id: SubscriptionId(number),
        owner: Owner::Run,
        spec: Arc::new(SubscriptionSpec::new("list", "", vec![FunctionCall::new("top").with("by", by)])),
    };
    let capture = Loaded::read(&sample());
    let run = |is_changed: bool| {
        let mut plan = Arc::new(Plan::of(None, 1, "", &[top(1, "source")], settings()).unwrap());
        let mut worker = Worker::new(Arc::clone(&plan), &FlowConfig::default());
        for (n, chunk) in capture.chunks.iter().enumerate() {
            for slots in chunk.slots.chunks(100) {
                worker.batch(Batch { bytes: &chunk.bytes, slots }, &mut ());
                if is_changed {
                    let other = top(2 + n as u32, "port");
                    let now = [other, top(1, "source")];
                    let number = plan.number() + 1;
                    plan = Arc::new(Plan::of(Some(&plan), number, "", &now, settings()).unwrap());
                    worker.change_plan(Arc::clone(&plan), &mut ());
                }
            }
        }
        worker.finish(&mut ()).reading_of(SubscriptionId(1)).cloned()
    };
    let (Some(Reading::Top(one)), Some(Reading::Top(other))) = (run(false), run(true)) else {
        panic!("a list")
    };
    let sums = |top: &weir_api::Top| top.rows.iter().map(|row| (row.key, row.count)).collect::<Vec<_>>();
    assert_eq!(sums(&one), sums(&other));
    assert_ne!(one.rows.iter().fold(0, |sum, row| sum + row.count.packets), 0);
    assert_ne!(one.rows[0].count, Count::default());
}
