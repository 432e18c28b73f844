//! Counts of a filter that decides by the flow key are exact: the tallies, minus the irregular and plus the uncounted
//! packets, equal the packets whose own headers show the key.

#![allow(clippy::print_stdout, reason = "tests report what they ran")]

mod captures;

use captures::{data, every_capture, read};
use std::collections::HashMap;
use weir_flow::{FlowConfig, FlowRecord, FlowSink, FlowTable, Tally, VerifiedChecksums};
use weir_wire::build::{self, flags};
use weir_wire::{FlowKey, Layers, LinkType, Packet, PacketBuf, Time, decode, mapped, shows_its_key};

const SECOND: u64 = 1_000_000_000;

/// Packets and bytes by key and whether the sender is the lower endpoint.
type Sums = HashMap<(FlowKey, bool), [i64; 2]>;

/// The output of a table, added up as a filter by keys does it.
#[derive(Default)]
struct Filter {
    sums: Sums,
    irregular: i64,
    uncounted: i64,
}

impl Filter {
    fn add(&mut self, tally: &Tally<'_>, sign: i64) {
        let sum = self.sums.entry((*tally.key, tally.source_is_lower)).or_default();
        sum[0] += sign * tally.packets as i64;
        sum[1] += sign * tally.bytes as i64;
    }
}

impl FlowSink for Filter {
    fn end(&mut self, _: &FlowRecord) {}

    fn tally(&mut self, tally: &Tally<'_>) {
        self.add(tally, 1);
    }

    fn irregular(&mut self, irregular: &Tally<'_>) {
        assert!(irregular.packets > 0 && !irregular.begins);
        self.irregular += irregular.packets as i64;
        self.add(irregular, -1);
    }

    fn uncounted(&mut self, uncounted: &Tally<'_>) {
        self.uncounted += uncounted.packets as i64;
        self.add(uncounted, 1);
    }
}

/// Runs a capture through a table and compares the sums with the regular packets. For every second block the table
/// gets the list of regular packets.
fn compare(name: &str, chunk: &PacketBuf, config: &FlowConfig) -> (Filter, u64) {
    let mut table = FlowTable::new(config);
    let mut filter = Filter::default();
    let mut truth = Sums::new();
    let mut regular = 0;
    let batch = chunk.batch();
    let mut layers: Vec<Layers> = Vec::new();
    for (n, slots) in batch.slots.chunks(256).enumerate() {
        let block = weir_wire::Batch { bytes: batch.bytes, slots };
        layers.clear();
        layers.extend(block.packets().map(|packet| decode(&packet)));
        let mut known = [0_u64; 4];
        for (at, (packet, layers)) in block.packets().zip(&layers).enumerate() {
            if !shows_its_key(&packet, layers) {
                continue;
            }
            known[at / 64] |= 1 << (at % 64);
            let (mut key, is_lower) = FlowKey::of(&packet, layers).expect("a plain packet has a key");
            if config.vlan {
                key.space = key.space.in_vlans(layers.vlan);
            }
            let sum = truth.entry((key, is_lower)).or_default();
            sum[0] += 1;
            sum[1] += i64::from(packet.wire_len);
            regular += 1;
        }
        match n % 2 {
            0 => table.batch_known(block, &layers, &known, &mut filter),
            _ => table.batch(block, &layers, &mut filter),
        }
        if n % 7 == 6 {
            table.roll_up(&mut filter);
        }
        if n % 31 == 30 {
            table.tick(slots.last().map_or(Time(0), |slot| slot.time), &mut filter);
        }
    }
    table.drain(&mut filter);
    filter.sums.retain(|_, sum| *sum != [0, 0]);
    assert_eq!(filter.sums.len(), truth.len(), "{name}");
    for (key, sum) in &truth {
        assert_eq!(filter.sums.get(key), Some(sum), "{name}: {key:?}");
    }
    (filter, regular)
}

#[test]
fn key_decisions_are_exact_on_every_capture() {
    let Some(folder) = data("") else { return };
    let mut captures = Vec::new();
    every_capture(&folder, &mut captures);
    let (mut files, mut regular, mut irregular, mut uncounted) = (0, 0, 0, 0);
    for (n, path) in captures.iter().enumerate() {
        let chunk = read(path);
        // Each way of parsing packets runs on a part of the captures; a table that evicts runs on others.
        let config = FlowConfig {
            memory: [128 << 10, 4 << 20][n % 2],
            vlan: n % 3 == 0,
            checksums: [VerifiedChecksums::All, VerifiedChecksums::Tcp, VerifiedChecksums::None]
                [(n % 5).min(2)],
            active: if n % 7 == 0 { SECOND } else { u64::MAX },
            ..FlowConfig::default()
        };
        let (filter, these) = compare(&path.display().to_string(), &chunk, &config);
        files += 1;
        regular += these;
        irregular += filter.irregular;
        uncounted += filter.uncounted;
    }
    println!("{files} captures: {regular} regular packets; {irregular} odd, {uncounted} missed");
    assert!(files > 1000 && regular > 50_000 && irregular > 5_000 && uncounted > 1_000);
}

/// Random packets of all kinds with few addresses, so that plain and irregular packets meet in the same flows.
fn mixed(packets: u32, hosts: u32, seed: u64) -> PacketBuf {
    let mut state = seed;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as u32
    };
    let mut chunk = PacketBuf::default();
    for n in 0..packets {
        let host = random() % hosts;
        let (a, b) = ([10, 0, (host >> 8) as u8, host as u8], [192, 0, 2, (host % 5) as u8]);
        let (from, to) = if random() % 2 == 0 { (a, b) } else { (b, a) };
        let (x, y) = if from == a { (1000, 4789) } else { (4789, 1000) };
        let flag = [flags::SYN, flags::ACK, flags::FIN | flags::ACK, flags::RST][random() as usize % 4];
        let mut v6 = [0; 16];
        v6[15] = host as u8;
        let ethernet = build::ethernet;
        let mut data = match random() % 10 {
            0 => ethernet().ipv4(from, to).tcp(x, y, flag).seq(random()).payload(&[1; 5]),
            1 => ethernet().vlan(random() as u16 & 3).ipv4(from, to).udp(x, y).payload(b"plain"),
            2 => {
                let inner = ethernet().ipv4(from, to).udp(x, y).payload(b"carried");
                let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat();
                ethernet().ipv4(from, to).udp(x, 4789).payload(&vxlan)
            }
            3 => {
                let (id, at) = (random() as u16 & 3, random() as u16 % 3 * 8);
                ethernet().ipv4(from, to).fragment(id, at, random() % 2 == 0).udp(x, y).payload(&[0; 16])
            }
            4 => ethernet().ipv4(from, to).gre().ipv4(to, from).tcp(x, y, flag).payload(b"in gre"),
            5 => ethernet().mpls(17).ipv4(from, to).tcp(x, y, flag).payload(b"labelled"),
            6 => ethernet().ipv6(v6, [2; 16]).extension(60, &[0; 7]).udp(x, y).payload(b"options"),
            7 => ethernet().ipv6(v6, [2; 16]).udp(x, y).payload(b"six"),
            8 => ethernet().ipv4(from, to).icmp([0, 3, 8][host as usize % 3], 0, [0; 4]).payload(b"echo"),
            _ => ethernet().ipv4(from, to).tcp(x, y, flag).seq(random()).payload(&[2; 400]),
        };
        if random() % 16 == 0 {
            let at = random() as usize % data.len();
            data[at] ^= 1 << (random() % 8);
        }
        let wire_len = data.len() as u32;
        if random() % 16 == 0 {
            data.truncate(random() as usize % data.len());
        }
        let time = Time(u64::from(n) * 1_000_000 + if random() % 1000 == 0 { 1000 * SECOND } else { 0 });
        chunk.push(&Packet { time, wire_len, ..build::packet(&data, LinkType::ETHERNET) });
    }
    chunk
}

#[test]
fn key_decisions_are_exact_in_small_tables() {
    for seed in 1..=12_u64 {
        let hosts = [3, 40, 900, 60_000][seed as usize % 4];
        let chunk = mixed(20_000, hosts, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let checksums = [VerifiedChecksums::All, VerifiedChecksums::Tcp, VerifiedChecksums::None];
        let checksums = checksums[seed as usize % 3];
        let config = FlowConfig {
            memory: 0,
            checksums,
            vlan: seed % 2 == 0,
            active: if seed > 8 { SECOND } else { u64::MAX },
            ..FlowConfig::default()
        };
        let (filter, regular) = compare(&format!("seed {seed}"), &chunk, &config);
        assert!(regular > 5_000 && filter.irregular > 5_000, "{regular} {}", filter.irregular);
        assert_eq!(filter.uncounted > 0, checksums != VerifiedChecksums::None, "{} missed", filter.uncounted);
    }
}

/// An IPv6 packet between mapped addresses belongs to the flow of the IPv4 packets between these addresses, but its
/// headers do not show that key.
#[test]
fn packets_between_mapped_addresses_are_irregular() {
    let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (v4, v6) = (build::ip().ipv4(a, b), build::ip().ipv6(mapped(a), mapped(b)));
    let half = build::ip().ipv6(mapped(a), [2; 16]);
    let mut chunk = PacketBuf::default();
    for round in 0..3_u64 {
        for (at, ip) in [&v6, &v4, &half, &v6].into_iter().enumerate() {
            let time = Time(SECOND + round * 10 + at as u64);
            let data = ip.clone().udp(1, 2).payload(b"x");
            chunk.push(&Packet { time, ..build::packet(&data, LinkType::RAW) });
        }
    }
    let (filter, regular) = compare("mapped", &chunk, &FlowConfig::default());
    assert_eq!((filter.irregular, regular, filter.sums.len()), (6, 6, 2));
}
