//! Measures the flow table: nanoseconds per packet on a mix of long and short flows, and on a flood in which every
//! packet is a new flow. Decoding is measured separately.
//!
//! `cargo run --release -p weir-flow --example flood [MiB [millions of packets [mix|SYN|UDP]]]`

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};
use weir_flow::{FlowConfig, FlowRecord, FlowSink, FlowTable, Tally};
use weir_wire::build::{self, flags};
use weir_wire::{Layers, LinkType, Packet, PacketBuf, Time, decode};

const BLOCK: usize = 256;

/// Adds up its input, as a counter would.
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

fn main() {
    let argument = |at: usize, otherwise: usize| {
        std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let config = FlowConfig { memory: argument(1, 256) << 20, ..FlowConfig::default() };
    let blocks = argument(2, 10) * 1_000_000 / BLOCK;
    let mut random = Random(88_172_645_463_325_252);
    let template =
        build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2, flags::ACK).payload(&[0; 10]);

    for flows in [1_000, 65_536, 500_000] {
        let mut sent = vec![[0_u32; 2]; flows];
        measure(
            &format!("mix, {flows} flows"),
            &config,
            blocks,
            |data| {
                // A quarter of the packets belongs to few flows; the rest is spread evenly over all flows.
                let n = random.next();
                let flow =
                    if n & 3 == 0 { (n >> 8) as usize % (flows / 64) } else { (n >> 8) as usize % flows };
                let reverse = n & 4 != 0;
                let (a, b) = if reverse { (30, 26) } else { (26, 30) };
                data[a..a + 4].copy_from_slice(&(0x0a00_0000 + flow as u32).to_be_bytes());
                data[b..b + 4].copy_from_slice(&[192, 0, 2, flow as u8]);
                let (a, b) = if reverse { (36, 34) } else { (34, 36) };
                data[a..a + 2].copy_from_slice(&(1024 + flow as u16 % 50_000).to_be_bytes());
                data[b..b + 2].copy_from_slice(&443_u16.to_be_bytes());
                let side = usize::from(reverse);
                let [seq, ack] = [sent[flow][side], sent[flow][1 - side]];
                sent[flow][side] = seq.wrapping_add(10);
                data[38..42].copy_from_slice(&seq.to_be_bytes());
                data[42..46].copy_from_slice(&ack.to_be_bytes());
                data[47] = flags::ACK;
            },
            &template,
        );
    }
    for (name, proto) in [("SYN flood, all new", 6), ("UDP flood, all new", 17)] {
        measure(
            name,
            &config,
            blocks,
            |data| {
                data[23] = proto;
                data[26..34].copy_from_slice(&random.next().to_ne_bytes());
                data[34..38].copy_from_slice(&(random.next() as u32).to_ne_bytes());
                // The length of UDP, the sequence number of TCP.
                data[38..40].copy_from_slice(&30_u16.to_be_bytes());
                data[47] = flags::SYN;
            },
            &template,
        );
    }
}

/// Runs blocks of packets that `make` writes into copies of `template` through a table.
fn measure(name: &str, config: &FlowConfig, blocks: usize, mut make: impl FnMut(&mut [u8]), template: &[u8]) {
    if std::env::args().nth(3).is_some_and(|only| !name.starts_with(&only)) {
        return;
    }
    let mut table = FlowTable::new(config);
    let mut sums = Sums::default();
    let mut chunk = PacketBuf::default();
    let mut layers: Vec<Layers> = Vec::with_capacity(BLOCK);
    let (mut times, mut decodes) = (Vec::with_capacity(blocks), Vec::with_capacity(blocks));
    let mut data = template.to_vec();
    for block in 0..blocks {
        chunk.clear();
        for n in 0..BLOCK {
            make(&mut data);
            let time = Time(1_700_000_000_000_000_000 + ((block * BLOCK + n) * 100) as u64);
            chunk.push(&Packet { time, ..build::packet(&data, LinkType::ETHERNET) });
        }
        layers.clear();
        let start = Instant::now();
        layers.extend(chunk.batch().packets().map(|packet| decode(&packet)));
        decodes.push(start.elapsed());
        let start = Instant::now();
        table.batch(chunk.batch(), &layers, &mut sums);
        times.push(start.elapsed());
    }
    // The first third fills the table.
    let steady = &mut times[blocks / 3..];
    let mean = steady.iter().sum::<Duration>().as_nanos() as f64 / (steady.len() * BLOCK) as f64;
    steady.sort_unstable();
    let median = steady[steady.len() / 2].as_nanos() as f64 / BLOCK as f64;
    decodes.sort_unstable();
    let decode = decodes[blocks / 2].as_nanos() as f64 / BLOCK as f64;
    let start = Instant::now();
    table.roll_up(&mut sums);
    let roll_up = start.elapsed();
    let start = Instant::now();
    table.tick(Time(1_700_000_000_000_000_000), &mut sums);
    let tick = start.elapsed();
    let stats = table.stats();
    println!(
        "{name}: median {median:.1} ns/packet, mean {mean:.1} (decode {decode:.1}); {} flows of {} ({} MiB), {} evicted; \
         roll-up {roll_up:.1?}, tick {tick:.1?}",
        stats.active,
        stats.capacity,
        stats.memory >> 20,
        stats.evicted,
    );
    table.drain(&mut sums);
    assert_eq!((sums.packets, sums.records), (stats.packets, stats.created));
}
