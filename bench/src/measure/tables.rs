//! The flow table against the standard library's `HashMap`, under a flood of new flows and under a link's traffic.

use crate::clock::{median, resident, timed};
use crate::{Packets, Result};
use serde_json::json;
use std::collections::HashMap;
use weir_bench::random::Random;
use weir_bench::traffic::{Flow, Pool, Shape, Streams, frame};
use weir_flow::{FlowConfig, FlowRecord, FlowSink, FlowTable, Tally};
use weir_wire::build::flags::ACK;
use weir_wire::build::packet;
use weir_wire::{FlowKey, Layers, LinkType, PacketBuf, Time, decode};

/// Number of packets that are generated, decoded and then counted together.
const TOGETHER: usize = 1024;

/// Generates packets; equal ones each time it is created.
pub struct Source<'p> {
    which: Packets,
    pool: &'p Pool,
    streams: Streams,
    random: Random,
    made: u64,
    bytes: Vec<u8>,
    chunk: PacketBuf,
    layers: Vec<Layers>,
}

impl<'p> Source<'p> {
    /// Packets from a seed.
    pub fn new(which: Packets, pool: &'p Pool, seed: u64) -> Self {
        Self {
            which,
            pool,
            streams: Streams::new(),
            random: Random(seed ^ 0x7ab1e),
            made: 0,
            bytes: Vec::new(),
            chunk: PacketBuf::default(),
            layers: Vec::new(),
        }
    }

    /// The next packets and their layers, to keep.
    pub fn take(&mut self) -> (PacketBuf, Vec<Layers>) {
        self.fill();
        (std::mem::take(&mut self.chunk), std::mem::take(&mut self.layers))
    }

    /// The time of the next packet.
    pub fn now(&self) -> Time {
        Time(1_700_000_000_000_000_000 + self.made * 1000)
    }

    /// Generates the next packets, a microsecond apart, and their layers: the input of a table.
    fn fill(&mut self) {
        self.chunk.clear();
        self.layers.clear();
        for _ in 0..TOGETHER {
            let now = self.now();
            let random = &mut self.random;
            let (flow, shape) = match self.which {
                Packets::Flood => (Flow::random(random), Shape::syn()),
                Packets::Zipf => {
                    let at = self.pool.draw(random);
                    let reverse = random.chance(0.5);
                    let mut under_way = Shape { reverse, flags: ACK, len: 64, ..Shape::default() };
                    self.streams.number(at, &self.pool.flows[at], &mut under_way);
                    (self.pool.flows[at], under_way)
                }
            };
            frame(&flow, &shape, usize::MAX, &mut self.bytes);
            let mut packet = packet(&self.bytes, LinkType::ETHERNET);
            packet.time = now;
            self.layers.push(decode(&packet));
            self.chunk.push(&packet);
            self.made += 1;
        }
    }
}

/// Adds up the output of a table.
#[derive(Default)]
struct Sum {
    flows: u64,
    packets: u64,
    tallied: u64,
}

impl FlowSink for Sum {
    fn end(&mut self, record: &FlowRecord) {
        self.flows += 1;
        self.packets += record.forward.packets + record.reverse.packets;
    }

    fn tally(&mut self, tally: &Tally<'_>) {
        self.tallied += tally.packets;
    }
}

/// Measurements of one pass.
struct Pass {
    /// Nanoseconds per packet.
    each: f64,
    flows: u64,
    /// MiB in use after a fifth of the packets, and at the end.
    memory: [f64; 2],
}

/// Runs packets through the flow table and drains it.
fn table(mut source: Source<'_>, packets: usize, seed: u64) -> Result<Pass> {
    let config = FlowConfig { seed: [seed, !seed], ..FlowConfig::default() };
    let mut table = FlowTable::new(&config);
    let promised = table.stats().memory;
    let mut sum = Sum::default();
    let (mut nanos, mut early) = (0, 0.0);
    let batches = packets / TOGETHER;
    for n in 0..batches {
        if n == batches / 5 {
            early = resident()?;
        }
        source.fill();
        nanos += timed(|| table.batch(source.chunk.batch(), &source.layers, &mut sum));
    }
    let late = resident()?;
    nanos += timed(|| table.drain(&mut sum));
    let (made, stats) = (source.made, table.stats());
    if (sum.packets, sum.tallied, stats.ended) != (made, made, sum.flows) || stats.memory != promised {
        return Err(format!(
            "of {made} packets {} are in {} flows and {} in tallies; {stats:?}",
            sum.packets, sum.flows, sum.tallied
        )
        .into());
    }
    Ok(Pass { each: nanos as f64 / made as f64, flows: sum.flows, memory: [early, late] })
}

/// Runs packets through a `HashMap` with equal keys, packets and bytes in each entry.
fn map(mut source: Source<'_>, packets: usize) -> Result<Pass> {
    let mut map: HashMap<FlowKey, (u64, u64)> = HashMap::new();
    let (mut nanos, mut early) = (0, 0.0);
    let batches = packets / TOGETHER;
    for n in 0..batches {
        if n == batches / 5 {
            early = resident()?;
        }
        source.fill();
        nanos += timed(|| {
            for (packet, layers) in source.chunk.batch().packets().zip(&source.layers) {
                if let Some((key, _)) = FlowKey::of(&packet, layers) {
                    let entry = map.entry(key).or_default();
                    entry.0 += 1;
                    entry.1 += u64::from(packet.wire_len);
                }
            }
        });
    }
    let memory = [early, resident()?];
    Ok(Pass { each: nanos as f64 / source.made as f64, flows: map.len() as u64, memory })
}

/// Measures and prints the rows.
pub fn measure(packets: usize, rounds: u32, seed: u64) -> Result<()> {
    let pool = Pool::new(&mut Random(seed));
    let memory = FlowTable::new(&FlowConfig::default()).stats().memory;
    for which in [Packets::Zipf, Packets::Flood] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut last = None;
        for _ in 0..rounds {
            let a = table(Source::new(which, &pool, seed), packets, seed)?;
            let b = map(Source::new(which, &pool, seed), packets)?;
            ours.push(a.each);
            theirs.push(b.each);
            last = Some((a, b));
        }
        let Some((a, b)) = last else { continue };
        let row = json!({
            "what": "table", "traffic": format!("{which:?}").to_lowercase(), "packets": packets,
            "ours": median(ours), "theirs": median(theirs), "flows": [a.flows, b.flows],
            "memory": memory, "resident": a.memory, "resident_theirs": b.memory,
        });
        println!("{row}");
    }
    Ok(())
}
