//! Compares the flow table with `std::collections::HashMap<FlowKey, _>` (SipHash, growing): 64-byte TCP packets of
//! 65,536 flows by Zipf's law, and packets each of which is a new flow. CPU time of the thread, both in one run,
//! alternating.
//!
//! `cargo bench -p weir-flow [-- MILLIONS [zipf|SYN|ACK|UDP]]`, 10 million packets by default. The map gets keys that
//! were computed before; the table computes its keys.

#![allow(clippy::print_stdout)]

use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::hint::black_box;
use weir_flow::{FlowConfig, FlowRecord, FlowSink, FlowTable, Tally};
use weir_wire::build::{self, flags};
use weir_wire::{Batch, FlowKey, LinkType, Packet, PacketBuf, Time, decode};

/// Number of packets that are built at a time, before the clock runs.
const MADE: usize = 32_768;
/// Number of packets that are decoded and counted at a time.
const BLOCK: usize = 256;
const FLOWS: usize = 65_536;
/// Time of the first packet, nanoseconds.
const START: u64 = 1_700_000_000_000_000_000;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|text| text != "--bench");
    let millions: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10);
    let only = arguments.next();
    for kind in Kind::ALL {
        if only.as_ref().is_none_or(|only| only == kind.name()) {
            measure(kind, millions * 1_000_000);
        }
    }
}

/// The kind of packets to build.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Zipf,
    Syn,
    Ack,
    Udp,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Zipf, Self::Syn, Self::Ack, Self::Udp];

    fn name(self) -> &'static str {
        match self {
            Self::Zipf => "zipf",
            Self::Syn => "SYN",
            Self::Ack => "ACK",
            Self::Udp => "UDP",
        }
    }
}

/// Adds up the results of a table, as a counter would.
#[derive(Default)]
struct Sums {
    records: u64,
    packets: u64,
    bytes: u64,
}

impl FlowSink for Sums {
    fn end(&mut self, record: &FlowRecord) {
        self.records += u64::from(black_box(record).id != 0);
    }

    fn tally(&mut self, tally: &Tally<'_>) {
        self.packets += tally.packets;
        self.bytes += tally.bytes;
    }
}

/// A table under test, and its times in nanoseconds for the packets after the first third, which fills the table.
struct Table {
    mebibytes: usize,
    table: FlowTable,
    sums: Sums,
    blocks: Vec<u64>,
}

fn measure(kind: Kind, packets: usize) {
    let mut source = Source::new(kind);
    let mut tables = [64, 512].map(|mebibytes| Table {
        mebibytes,
        table: FlowTable::new(&FlowConfig { memory: mebibytes << 20, ..FlowConfig::default() }),
        sums: Sums::default(),
        blocks: Vec::new(),
    });
    let mut map: HashMap<FlowKey, [u64; 4]> = HashMap::new();
    let (mut in_map, mut decoding) = (0, 0);
    let (mut chunk, mut layers, mut keys) = (PacketBuf::default(), Vec::new(), Vec::new());
    let rounds = packets.div_ceil(MADE);
    for _ in 0..rounds {
        source.fill(&mut chunk);
        for (at, one) in tables.iter_mut().enumerate() {
            for slots in chunk.slots.chunks(BLOCK) {
                let block = Batch { bytes: &chunk.bytes, slots };
                layers.clear();
                let before = cpu();
                layers.extend(block.packets().map(|packet| decode(&packet)));
                let middle = cpu();
                one.table.batch(block, black_box(&layers), &mut one.sums);
                one.blocks.push(cpu() - middle);
                decoding += if at == 0 { middle - before } else { 0 };
            }
        }
        layers.clear();
        layers.extend(chunk.batch().packets().map(|packet| decode(&packet)));
        keys.clear();
        keys.extend(chunk.batch().packets().zip(&layers).filter_map(|(packet, l)| FlowKey::of(&packet, l)));
        let before = cpu();
        for ((key, is_lower), layers) in keys.iter().zip(&layers) {
            let counts = map.entry(*key).or_default();
            let side = 2 * usize::from(!is_lower);
            counts[side] += 1;
            counts[side + 1] += u64::from(layers.network_len);
        }
        in_map += cpu() - before;
    }
    let overhead = clock_overhead();
    let total = (rounds * MADE) as f64;
    let map_each = in_map as f64 / total;
    println!(
        "{}: HashMap {map_each:.1} ns/packet ({} keys); decode {:.1}",
        kind.name(),
        map.len(),
        (decoding as f64 - overhead * total / BLOCK as f64) / total,
    );
    drop(map);
    for one in &mut tables {
        let blocks = &mut one.blocks;
        let each = |sum: f64, count: usize| (sum / count as f64 - overhead) / BLOCK as f64;
        let all = each(blocks.iter().sum::<u64>() as f64, blocks.len());
        let full = blocks.len() / 3;
        let steady = &mut blocks[full..];
        let mean = each(steady.iter().sum::<u64>() as f64, steady.len());
        steady.sort_unstable();
        let median = each(steady[steady.len() / 2] as f64, 1);
        let stats = one.table.stats();
        println!(
            "  table of {} MiB: {all:.1} ns/packet ({:.1}x of HashMap); after the first third mean {mean:.1}, median \
             {median:.1}; {} flows of {} in {} MiB, {} evicted",
            one.mebibytes,
            map_each / all,
            stats.active,
            stats.capacity,
            stats.memory >> 20,
            stats.evicted,
        );
        one.table.drain(&mut one.sums);
        assert_eq!((one.sums.packets, one.sums.records), (stats.packets, stats.created));
    }
}

/// Builds packets of a kind and replaces the previous ones.
struct Source {
    kind: Kind,
    random: Random,
    template: Vec<u8>,
    made: u64,
    /// Bytes that each side of each flow has sent.
    sent: Vec<[u32; 2]>,
    /// Cumulative shares of the flows.
    shares: Vec<f64>,
}

impl Source {
    fn new(kind: Kind) -> Self {
        let frame = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
        let template = match kind {
            Kind::Udp => frame.udp(1, 2).payload(&[0; 22]),
            Kind::Syn => frame.tcp(1, 2, flags::SYN).payload(&[]),
            _ => frame.tcp(1, 2, flags::ACK).payload(&[0; 10]),
        };
        let mut sum = 0.0;
        let shares = (1..=FLOWS).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let shares = shares.collect();
        let random = Random(88_172_645_463_325_252);
        Self { kind, random, template, made: 0, sent: vec![[1; 2]; FLOWS], shares }
    }

    fn fill(&mut self, chunk: &mut PacketBuf) {
        chunk.clear();
        for _ in 0..MADE {
            if self.kind == Kind::Zipf {
                self.zipf();
            } else {
                self.template[26..34].copy_from_slice(&self.random.next().to_ne_bytes());
                self.template[34..38].copy_from_slice(&(self.random.next() as u32).to_ne_bytes());
            }
            let time = Time(START + self.made * 100);
            chunk.push(&Packet { time, ..build::packet(&self.template, LinkType::ETHERNET) });
            self.made += 1;
        }
    }

    /// A packet in order of an established connection; each side sends half of the packets.
    fn zipf(&mut self) {
        let last = self.shares.last().copied().unwrap_or(1.0);
        let at = self.random.next() as f64 / u64::MAX as f64 * last;
        let flow = self.shares.partition_point(|&share| share < at).min(FLOWS - 1);
        let reverse = self.random.next() & 4 != 0;
        let data = &mut self.template;
        let (a, b) = if reverse { (30, 26) } else { (26, 30) };
        // The position of a flow is independent of its rank.
        let name = (flow as u32).wrapping_mul(0x9e37_79b1);
        data[a..a + 4].copy_from_slice(&(0x0a00_0000 | name >> 12).to_be_bytes());
        data[b..b + 4].copy_from_slice(&[192, 0, 2, name as u8]);
        let (a, b) = if reverse { (36, 34) } else { (34, 36) };
        data[a..a + 2].copy_from_slice(&(1024 + flow as u16 % 50_000).to_be_bytes());
        data[b..b + 2].copy_from_slice(&443_u16.to_be_bytes());
        let side = usize::from(reverse);
        let [seq, ack] = [self.sent[flow][side], self.sent[flow][1 - side]];
        self.sent[flow][side] = seq.wrapping_add(10);
        data[38..42].copy_from_slice(&seq.to_be_bytes());
        data[42..46].copy_from_slice(&ack.to_be_bytes());
    }
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// CPU time of this thread, in nanoseconds.
fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The cost of reading the clock, in nanoseconds.
fn clock_overhead() -> f64 {
    const LOOKS: u32 = 20_000;
    let before = cpu();
    for _ in 0..LOOKS {
        black_box(cpu());
    }
    (cpu() - before) as f64 / f64::from(LOOKS)
}
