//! A filter set against libpcap's `bpf_filter()`, called for each expression and packet.

use crate::clock::{median, timed};
use crate::libpcap::Program;
use crate::ours::Ours;
use crate::{Packets, Result};
use serde_json::{Value, json};
use weir_bench::random::Random;
use weir_bench::traffic::{FLOWS, Flow, Pool, Shape, Streams, frame};
use weir_filter::Total;
use weir_wire::build::packet;
use weir_wire::{Batch, FlowKey, LinkType, Slot, Time, decode};

/// Number of packets that are counted together, and that stay in the cache.
const TOGETHER: usize = 1024;
/// Bytes from one packet in memory to the next, and maximum captured length of a packet.
const STRIDE: usize = 128;
const SNAPLEN: usize = 96;
/// Number of calls of `bpf_filter()` for a reliable time.
const CALLS: usize = 8 << 20;

/// Counts a packet.
#[inline]
fn add(total: &mut Total, wire_len: u32) {
    total.packets += 1;
    total.bytes += u64::from(wire_len);
}

/// Packets in memory, one after the other.
struct Traffic {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

impl Traffic {
    fn new(which: Packets, packets: usize, pool: &Pool, random: &mut Random) -> Self {
        let mut traffic = Self { bytes: vec![0; packets * STRIDE], slots: Vec::with_capacity(packets) };
        let (mut bytes, mut streams) = (Vec::new(), Streams::new());
        for (n, place) in traffic.bytes.chunks_exact_mut(STRIDE).enumerate() {
            let (flow, shape) = match which {
                Packets::Zipf => {
                    let (at, mut shape) = (pool.draw(random), Shape::any(random));
                    streams.number(at, &pool.flows[at], &mut shape);
                    (pool.flows[at], shape)
                }
                Packets::Flood => (Flow::random(random), Shape::syn()),
            };
            let wire_len = frame(&flow, &shape, SNAPLEN, &mut bytes);
            place[..bytes.len()].copy_from_slice(&bytes);
            traffic.slots.push(Slot {
                time: Time(n as u64 * 1000),
                offset: (n * STRIDE) as u32,
                len: bytes.len() as u32,
                wire_len,
                link: LinkType::ETHERNET,
                ..Slot::default()
            });
        }
        traffic
    }

    /// The first packets.
    fn first(&self, packets: usize) -> Batch<'_> {
        Batch { bytes: &self.bytes, slots: &self.slots[..packets.min(self.slots.len())] }
    }

    fn batches(&self) -> impl Iterator<Item = Batch<'_>> {
        pieces(self.first(usize::MAX))
    }
}

fn pieces(batch: Batch<'_>) -> impl Iterator<Item = Batch<'_>> {
    batch.slots.chunks(TOGETHER).map(move |slots| Batch { bytes: batch.bytes, slots })
}

/// Counts packets for every expression with libpcap, one program after the other.
fn baseline(programs: &[Program], batch: Batch<'_>, totals: &mut [Total]) {
    for packet in batch.packets() {
        for (program, total) in programs.iter().zip(totals.iter_mut()) {
            if program.matches(&packet) {
                add(total, packet.wire_len);
            }
        }
    }
}

/// Measures sets of these sizes and prints their rows. Returns the number of results that differ from libpcap's.
pub fn measure(which: Packets, packets: usize, sizes: &[usize], rounds: u32, seed: u64) -> Result<usize> {
    let packets = packets.next_multiple_of(TOGETHER);
    let mut random = Random(seed);
    let pool = Pool::new(&mut random);
    let traffic = Traffic::new(which, packets, &pool, &mut random);
    let flows = keys(which, &pool, &mut random);
    let mut wrong = 0;
    for &n in sizes {
        let expressions = pool.expressions(n, &mut Random(seed));
        wrong += set(which, &traffic, &flows, &expressions, rounds)?;
        // For few expressions the time is negligible, and it does not depend on the packets.
        if n >= 1000 && which == Packets::Zipf {
            changes(&expressions, rounds)?;
        }
    }
    Ok(wrong)
}

/// Keys of the flows in a pool, and whether the client is the lower endpoint.
fn keys(which: Packets, pool: &Pool, random: &mut Random) -> Vec<(FlowKey, bool)> {
    let mut bytes = Vec::new();
    let mut key = |flow: &Flow| {
        frame(flow, &Shape::syn(), SNAPLEN, &mut bytes);
        let packet = packet(&bytes, LinkType::ETHERNET);
        FlowKey::of(&packet, &decode(&packet))
    };
    match which {
        Packets::Zipf => pool.flows.iter().filter_map(&mut key).collect(),
        Packets::Flood => (0..FLOWS).filter_map(|_| key(&Flow::random(random))).collect(),
    }
}

/// Measures building a set, and building another one from it with one expression more or less.
fn changes(expressions: &[String], rounds: u32) -> Result<()> {
    let n = expressions.len();
    let mut taken = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        let mut made = Err("no set was built".into());
        taken[0].push(timed(|| made = Ours::compile(expressions)) as f64);
        let made = made?;
        let mut sizes = (Ok(0), 0);
        taken[1].push(timed(|| sizes.0 = made.with("net 192.0.2.0/24 and tcp port 4711")) as f64);
        taken[2].push(timed(|| sizes.1 = made.without(n / 2)) as f64);
        let sizes = (sizes.0?, sizes.1);
        if sizes != (n + 1, n - 1) {
            return Err(format!("{n} expressions, one more or less: {sizes:?}").into());
        }
    }
    for (what, taken) in ["compile", "add", "remove"].into_iter().zip(taken) {
        println!("{}", json!({"what": what, "expressions": n, "ms": median(taken) / 1e6}));
    }
    Ok(())
}

fn set(
    which: Packets,
    traffic: &Traffic,
    flows: &[(FlowKey, bool)],
    expressions: &[String],
    rounds: u32,
) -> Result<usize> {
    let n = expressions.len();
    let name = format!("{which:?}").to_lowercase();
    let row = |what: &str, more: Value| {
        let mut row = json!({"what": what, "traffic": name, "expressions": n});
        if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
            row.extend(more);
        }
        println!("{row}");
    };
    let programs = Program::compile(expressions)?;
    let mut ours = Ours::compile(expressions)?;

    let all = traffic.slots.len();
    let checked = (CALLS * 8 / n).clamp(TOGETHER, all);
    let (matches, wrong) = check(&programs, &mut ours, traffic.first(checked), expressions);
    for difference in &wrong {
        row("wrong", json!({"found": difference}));
    }
    if wrong.is_empty() {
        row("equal", json!({"packets": checked, "matches": matches}));
    }

    let cached = traffic.first(TOGETHER);
    let repeated = (CALLS / n / TOGETHER).max(1);
    let streamed = traffic.first((CALLS / n).clamp(TOGETHER, all));
    let mut totals = vec![Total::default(); n];
    let mut taken = [const { Vec::new() }; 7];
    let mut seen = 0;
    for _ in 0..rounds {
        let per = |nanos: u64, packets: usize| nanos as f64 / packets as f64;
        let nanos = timed(|| (0..repeated).for_each(|_| baseline(&programs, cached, &mut totals)));
        taken[0].push(per(nanos, repeated * TOGETHER));
        // All packets in memory, then the totals, as at the end of an interval.
        let nanos = timed(|| {
            (0..all / TOGETHER).for_each(|_| ours.count(cached));
            totals = ours.take();
        });
        taken[1].push(per(nanos, all));
        let nanos = timed(|| pieces(streamed).for_each(|batch| baseline(&programs, batch, &mut totals)));
        taken[2].push(per(nanos, streamed.len()));
        let nanos = timed(|| {
            traffic.batches().for_each(|batch| ours.count(batch));
            totals = ours.take();
        });
        taken[3].push(per(nanos, all));
        let nanos = timed(|| {
            for batch in traffic.batches() {
                ours.match_sets(batch, &mut |_, matching| seen += matching.len());
            }
        });
        taken[4].push(per(nanos, all));
        let nanos = timed(|| {
            let each = Total { packets: 10, bytes: 1000 };
            flows.iter().for_each(|(key, source_is_lower)| ours.flow(key, *source_is_lower, each));
            totals = ours.take();
        });
        taken[5].push(per(nanos, flows.len()));
        let nanos = timed(|| {
            traffic.batches().for_each(|batch| ours.count_by_flow(batch));
            totals = ours.take_flows();
        });
        ours.end_flows();
        taken[6].push(per(nanos, all));
    }
    let [theirs_cached, cached, theirs_memory, memory, sets, flow, by_flow] = taken.map(median);
    row("cache", json!({"ours": cached, "theirs": theirs_cached}));
    row("memory", json!({"ours": memory, "theirs": theirs_memory}));
    row("by flow", json!({"ours": by_flow, "theirs": theirs_memory}));
    row("each flow", json!({"ours": flow}));
    let each = seen as f64 / all as f64 / f64::from(rounds);
    row("match sets", json!({"ours": sets, "theirs": theirs_memory, "matches": each}));
    Ok(wrong.len())
}

/// Compares counts and match sets on equal packets. Returns the number of expressions that a packet matches, and the
/// differences.
fn check(
    programs: &[Program],
    ours: &mut Ours,
    batch: Batch<'_>,
    expressions: &[String],
) -> (f64, Vec<String>) {
    let mut theirs = vec![Total::default(); expressions.len()];
    baseline(programs, batch, &mut theirs);
    ours.take();
    pieces(batch).for_each(|batch| ours.count(batch));
    let counts = ours.take();
    pieces(batch).for_each(|batch| ours.count_by_flow(batch));
    let by_flow = ours.take_flows();
    ours.end_flows();
    let mut sets = vec![Total::default(); expressions.len()];
    for batch in pieces(batch) {
        ours.match_sets(batch, &mut |packet, matching| {
            for &expression in matching {
                if let (Some(total), Some(slot)) =
                    (sets.get_mut(expression as usize), batch.slots.get(packet))
                {
                    add(total, slot.wire_len);
                }
            }
        });
    }
    let ways = [("counts", &counts), ("counts by flow", &by_flow), ("match sets", &sets)];
    let wrong = ways
        .iter()
        .filter_map(|(way, ours)| Some(format!("{way}: {}", difference(expressions, &theirs, ours)?)));
    let matches: u64 = theirs.iter().map(|total| total.packets).sum();
    (matches as f64 / batch.len() as f64, wrong.collect())
}

fn difference(expressions: &[String], theirs: &[Total], ours: &[Total]) -> Option<String> {
    if theirs.len() != ours.len() {
        return Some(format!("{} of {} expressions", ours.len(), theirs.len()));
    }
    let differs = |((_, theirs), ours): &((&String, &Total), &Total)| theirs != ours;
    let mut differing = expressions.iter().zip(theirs).zip(ours).filter(differs);
    let ((expression, theirs), ours) = differing.next()?;
    let more = differing.count();
    Some(format!("`{expression}`: libpcap {theirs:?}, ours {ours:?}; and {more} others"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_one_packet_or_byte_is_found() {
        let expressions = ["tcp".to_owned(), "udp".to_owned()];
        let theirs = [Total { packets: 3, bytes: 300 }, Total { packets: 1, bytes: 64 }];
        assert_eq!(difference(&expressions, &theirs, &theirs), None);
        for other in [Total { packets: 2, bytes: 64 }, Total { packets: 1, bytes: 65 }] {
            let found = difference(&expressions, &theirs, &[theirs[0], other]).unwrap();
            assert!(found.starts_with("`udp`") && found.ends_with("and 0 others"), "{found}");
        }
        assert!(difference(&expressions, &theirs, &theirs[..1]).is_some());
    }

    /// The baseline uses the length on the wire and the captured bytes only.
    #[test]
    fn the_baseline_agrees_with_libpcap() {
        let mut random = Random(9);
        let pool = Pool::new(&mut random);
        let traffic = Traffic::new(Packets::Zipf, 2 * TOGETHER, &pool, &mut random);
        let expressions = ["", "len > 96", "len[0] = 0", "tcp", "not tcp"].map(str::to_owned);
        assert!(Program::compile(&expressions).is_err());
        let expressions =
            ["", "len > 96", "tcp or udp or icmp or icmp6", "tcp", "not tcp"].map(str::to_owned);
        let programs = Program::compile(&expressions).unwrap();
        let mut totals = [Total::default(); 5];
        baseline(&programs, traffic.first(usize::MAX), &mut totals);
        let [all, long, known, tcp, other] = totals.map(|total| total.packets);
        let truth = traffic.slots.iter().filter(|slot| slot.wire_len > 96).count() as u64;
        assert_eq!((all, long), (2 * TOGETHER as u64, truth));
        assert_eq!((known, tcp + other), (all, all));
        assert!(tcp > other && other > 0);
    }
}
