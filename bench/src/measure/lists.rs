//! Measures the recall of a top list of bounded memory when five packets of six are random.

use crate::Result;
use crate::clock::timed;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use weir_api::{FunctionCall, Key, Reading};
use weir_bench::random::Random;
use weir_engine::{FunctionSpec, Item, Tally};
use weir_wire::{FlowKey, Space};

/// Number of keys of the skewed load.
const KEYS: usize = 1_000_000;
/// One item in this number belongs to the load, the others to the flood.
const ONE_OF: usize = 6;
/// Numbers of heaviest keys for which recall is measured.
const SHOWN: [usize; 2] = [100, 1000];

/// The keys of the lists, and the number of rows in 256 KB for each.
const LISTS: [(&str, usize); 2] = [("source", 3200), ("flow", 2640)];

/// The flow of an item.
type Endpoints = (Ipv4Addr, Ipv4Addr, [u16; 2]);

fn random_ends(random: &mut Random) -> Endpoints {
    let (addresses, ports) = (random.bits(), random.bits());
    ((addresses as u32).into(), ((addresses >> 32) as u32).into(), [ports as u16, (ports >> 16) as u16])
}

/// Items in order, equal for every list.
fn items(count: usize, seed: u64) -> impl Iterator<Item = Endpoints> {
    let mut random = Random(seed);
    let load: Vec<Endpoints> = (0..KEYS).map(|_| random_ends(&mut random)).collect();
    (0..count).map(move |n| match n % ONE_OF {
        0 => load[random.rank(KEYS)],
        _ => random_ends(&mut random),
    })
}

fn key_of(by: &str, (source, destination, ports): Endpoints) -> Key {
    match by {
        "source" => Key::Address(IpAddr::V4(source)),
        _ => Key::Flow {
            source: IpAddr::V4(source),
            source_port: ports[0],
            destination: IpAddr::V4(destination),
            destination_port: ports[1],
            protocol: 6,
        },
    }
}

/// The keys of six lists, as the summary has.
const SIX: [&str; 6] = ["source", "destination", "pair", "flow", "service", "talker"];
/// Rows of each of the six.
const FULL: usize = 8192;
/// Intervals that are measured.
const INTERVALS: usize = 15;

/// Measures what the end of an interval takes with six full lists of two workers: taken, merged, and ranked to be shown.
/// Prints the median time of each.
pub fn interval(seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let make = || -> Result<Vec<_>> {
        let mut lists = Vec::new();
        for by in SIX {
            let call = FunctionCall::new("top").with("by", by).with("rows", FULL);
            lists.push(FunctionSpec::find("top")?.call(&call, seed)?);
        }
        Ok(lists)
    };
    let mut workers = [make()?, make()?];
    let mut nanos = [const { Vec::new() }; 3];
    let mut rows = 0;
    for _ in 0..INTERVALS {
        for list in workers.iter_mut().flatten() {
            for _ in 0..4 * FULL {
                let (key, source_is_lower) = flow_key(random_ends(&mut random));
                list.item(&Item::Tally(&tally(&key, source_is_lower)));
            }
        }
        let mut readings: Vec<Vec<Reading>> = Vec::new();
        nanos[0].push(timed(|| {
            readings
                .extend(workers.iter_mut().map(|lists| lists.iter_mut().map(|list| list.take()).collect()));
        }));
        let (mut whole, other) = (readings.remove(0), readings.remove(0));
        nanos[1].push(timed(|| whole.iter_mut().zip(&other).for_each(|(list, more)| list.merge(more))));
        let mut shown = 0;
        nanos[2].push(timed(|| {
            for list in &whole {
                if let Reading::Top(top) = list {
                    shown += top.ranked().len();
                }
            }
        }));
        rows = other.iter().map(|list| if let Reading::Top(top) = list { top.rows.len() } else { 0 }).sum();
        assert_eq!(shown, SIX.len() * 10, "each list shows ten rows");
    }
    let [taken, merged, ranked] = nanos.map(|mut each| {
        each.sort_unstable();
        each[INTERVALS / 2]
    });
    println!(
        "{}",
        json!({ "what": "interval", "rows": rows, "taken": taken, "merged": merged, "ranked": ranked })
    );
    Ok(())
}

fn tally(key: &FlowKey, source_is_lower: bool) -> Tally<'_> {
    Tally {
        key,
        source_is_lower,
        initiator_is_lower: source_is_lower,
        vlan: 0,
        tag: weir_wire::Tag::NONE,
        packets: 1,
        bytes: 64,
        begins: true,
        carrier: false,
        unasked: true,
    }
}

/// Measures and prints the rows.
pub fn measure(count: usize, seed: u64) -> Result<()> {
    for (by, rows) in LISTS {
        let mut truth: HashMap<Key, u64> = HashMap::new();
        for ends in items(count, seed) {
            *truth.entry(key_of(by, ends)).or_default() += 1;
        }
        let mut heaviest: Vec<u64> = truth.values().copied().collect();
        heaviest.sort_unstable_by(|a, b| b.cmp(a));

        let call = FunctionCall::new("top").with("by", by).with("show", SHOWN[1]).with("unit", "packets");
        let mut list = FunctionSpec::find("top")?.call(&call.with("rows", rows), seed)?;
        let mut nanos = 0;
        let mut items = items(count, seed);
        let mut together = Vec::with_capacity(1024);
        loop {
            together.clear();
            together.extend(items.by_ref().take(1024).map(flow_key));
            if together.is_empty() {
                break;
            }
            nanos += timed(|| {
                for (key, source_is_lower) in &together {
                    list.item(&Item::Tally(&tally(key, *source_is_lower)));
                }
            });
        }
        let Reading::Top(top) = list.take() else { return Err("top gives another reading".into()) };
        let shown = top.ranked();
        let recall = |n: usize| {
            // Equal counts are equivalent: a row counts as found if it is as heavy as the last of the true ones.
            let min = heaviest.get(n - 1).copied().unwrap_or(1);
            let rows: BTreeSet<Key> = shown.iter().take(n).map(|row| row.key).collect();
            let found = rows.iter().filter(|key| truth.get(key).is_some_and(|count| *count >= min));
            found.count() as f64 / n as f64
        };
        let within = shown.iter().all(|row| {
            let truth = truth.get(&row.key).copied().unwrap_or(0);
            (row.count.packets..=row.count.packets + row.error).contains(&truth)
        });
        println!(
            "{}",
            json!({
                "what": "list", "by": by, "rows": top.capacity, "items": count, "keys": truth.len(),
                "recall": SHOWN.map(recall), "at": SHOWN.map(|n| heaviest.get(n - 1)), "within": within,
                "inserts": top.inserts, "ours": nanos as f64 / count as f64,
            })
        );
    }
    Ok(())
}

fn flow_key((source, destination, ports): Endpoints) -> (FlowKey, bool) {
    let lower = source <= destination;
    let addr = [source, destination].map(|address| address.to_ipv6_mapped().octets());
    let [source, destination] = addr;
    let (addr, port) = if lower { (addr, ports) } else { ([destination, source], [ports[1], ports[0]]) };
    (FlowKey { addr, port, space: Space::default(), proto: 6 }, lower)
}
