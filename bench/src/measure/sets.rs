//! A filter set against libpcap's `bpf_filter()`, called for each expression and packet.

use crate::clock::{median, timed};
use crate::libpcap::Program;
use crate::ours::Ours;
use crate::{Packets, Result};
use serde_json::{Value, json};
use weir_bench::random::Random;
use weir_bench::traffic::{Flow, Pool, Shape, frame};
use weir_wire::{Batch, LinkType, Slot, Time};

/// Packets that are counted together; those that stay in the cache.
const TOGETHER: usize = 1024;
/// Octets from one packet in memory to the next, and the most of one that is captured.
const STRIDE: usize = 128;
const SNAPLEN: usize = 96;
/// Calls of `bpf_filter()` that are enough to time it.
const CALLS: usize = 8 << 20;

/// Packets and octets that matched.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Total {
    /// Packets.
    pub packets: u64,
    /// Octets on the wire.
    pub bytes: u64,
}

impl Total {
    /// Counts a packet.
    #[inline]
    pub fn add(&mut self, wire_len: u32) {
        self.packets += 1;
        self.bytes += u64::from(wire_len);
    }
}

/// Packets in memory, one after the other.
struct Traffic {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

impl Traffic {
    fn new(which: Packets, packets: usize, pool: &Pool, random: &mut Random) -> Self {
        let mut traffic = Self { bytes: vec![0; packets * STRIDE], slots: Vec::with_capacity(packets) };
        let mut octets = Vec::new();
        for (n, place) in traffic.bytes.chunks_exact_mut(STRIDE).enumerate() {
            let (flow, shape) = match which {
                Packets::Zipf => (pool.draw(random), Shape::any(random)),
                Packets::Flood => (Flow::random(random), Shape::syn()),
            };
            let wire_len = frame(&flow, &shape, SNAPLEN, &mut octets);
            place[..octets.len()].copy_from_slice(&octets);
            traffic.slots.push(Slot {
                time: Time(n as u64 * 1000),
                offset: (n * STRIDE) as u32,
                len: octets.len() as u32,
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

/// Counts packets for every expression as libpcap has them, one program after the other.
fn baseline(programs: &[Program], batch: Batch<'_>, totals: &mut [Total]) {
    for packet in batch.packets() {
        for (program, total) in programs.iter().zip(totals.iter_mut()) {
            if program.matches(&packet) {
                total.add(packet.wire_len);
            }
        }
    }
}

/// Measures sets of so many expressions, and prints their rows.
pub fn measure(which: Packets, packets: usize, sizes: &[usize], rounds: u32, seed: u64) -> Result<()> {
    let packets = packets.next_multiple_of(TOGETHER);
    let mut random = Random(seed);
    let pool = Pool::new(&mut random);
    let traffic = Traffic::new(which, packets, &pool, &mut random);
    for &n in sizes {
        let expressions = pool.expressions(n, &mut Random(seed));
        set(which, &traffic, &expressions, rounds)?;
    }
    Ok(())
}

fn set(which: Packets, traffic: &Traffic, expressions: &[String], rounds: u32) -> Result<()> {
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
    let matches = check(&programs, &mut ours, traffic.first(checked), expressions)?;
    row("equal", json!({"packets": checked, "matches": matches}));

    let cached = traffic.first(TOGETHER);
    let repeated = (CALLS / n / TOGETHER).max(1);
    let streamed = traffic.first((CALLS / n).clamp(TOGETHER, all));
    let mut totals = vec![Total::default(); n];
    let mut taken = [const { Vec::new() }; 5];
    let mut seen = 0;
    for _ in 0..rounds {
        let per = |nanos: u64, packets: usize| nanos as f64 / packets as f64;
        let nanos = timed(|| (0..repeated).for_each(|_| baseline(&programs, cached, &mut totals)));
        taken[0].push(per(nanos, repeated * TOGETHER));
        // As many packets as there are in memory, then the totals, as at the end of an interval.
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
                ours.matches(batch, &mut |_, matching| seen += matching.len());
            }
        });
        taken[4].push(per(nanos, all));
    }
    let [theirs_cached, cached, theirs_memory, memory, sets] = taken.map(median);
    row("cache", json!({"ours": cached, "theirs": theirs_cached}));
    row("memory", json!({"ours": memory, "theirs": theirs_memory}));
    let each = seen as f64 / all as f64 / f64::from(rounds);
    row("match sets", json!({"ours": sets, "theirs": theirs_memory, "matches": each}));
    Ok(())
}

/// Counts and match sets of both on the same packets. Returns how many expressions a packet matches.
fn check(programs: &[Program], ours: &mut Ours, batch: Batch<'_>, expressions: &[String]) -> Result<f64> {
    let mut theirs = vec![Total::default(); expressions.len()];
    baseline(programs, batch, &mut theirs);
    ours.take();
    pieces(batch).for_each(|batch| ours.count(batch));
    equal("counts", expressions, &theirs, &ours.take())?;
    let mut sets = vec![Total::default(); expressions.len()];
    for batch in pieces(batch) {
        ours.matches(batch, &mut |packet, matching| {
            for &expression in matching {
                if let (Some(total), Some(slot)) =
                    (sets.get_mut(expression as usize), batch.slots.get(packet))
                {
                    total.add(slot.wire_len);
                }
            }
        });
    }
    equal("match sets", expressions, &theirs, &sets)?;
    let matches: u64 = theirs.iter().map(|total| total.packets).sum();
    Ok(matches as f64 / batch.len() as f64)
}

fn equal(what: &str, expressions: &[String], theirs: &[Total], ours: &[Total]) -> Result<()> {
    let differs = |((_, theirs), ours): &((&String, &Total), &Total)| theirs != ours;
    let mut differing = expressions.iter().zip(theirs).zip(ours).filter(differs);
    match differing.next() {
        _ if theirs.len() != ours.len() => {
            Err(format!("{what}: {} of {} expressions", ours.len(), theirs.len()).into())
        }
        Some(((expression, theirs), ours)) => {
            let more = differing.count();
            Err(format!("{what}: `{expression}`: libpcap {theirs:?}, ours {ours:?}; and {more} others")
                .into())
        }
        None => Ok(()),
    }
}
