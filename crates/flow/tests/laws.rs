//! Invariants for every capture and any bytes: the worker count changes nothing, counts add up, memory is fixed.

#![allow(clippy::print_stdout, reason = "tests report what they ran")]

mod captures;

use captures::{Kept, data, every_capture, read};
use std::collections::HashSet;
use std::net::Ipv4Addr;
use weir_flow::defrag::{Defrag, DefragConfig};
use weir_flow::{EndReason, FlowConfig, FlowRecord, FlowStats, FlowTable, VerifiedChecksums};
use weir_wire::build::{self, flags};
use weir_wire::{Layers, LinkType, Packet, PacketBuf, Slot, Time, Tunnel, decode, steer_hash};

const SECOND: u64 = 1_000_000_000;

/// Runs packets through `tables` tables, each packet through the table of its addresses, with a tick and a roll-up
/// every `interval`. Returns the records in an order that does not depend on the tables.
fn spread(
    chunk: &PacketBuf,
    tables: usize,
    interval: u64,
    config: &FlowConfig,
) -> (Vec<FlowRecord>, Kept, FlowStats) {
    let mut workers: Vec<FlowTable> = (0..tables).map(|_| FlowTable::new(config)).collect();
    let mut kept = Kept::default();
    let mut next = None;
    for packet in chunk.batch().packets() {
        let end = *next.get_or_insert(packet.time.0 / interval * interval + interval);
        if packet.time.0 >= end {
            for table in &mut workers {
                table.tick(Time(end), &mut kept);
                table.roll_up(&mut kept);
            }
            next = Some(packet.time.0 / interval * interval + interval);
        }
        let layers = decode(&packet);
        let worker = steer_hash(&packet, &layers) as usize % tables;
        workers[worker].packet(&packet, &layers, &mut kept);
    }
    let mut sum = FlowStats::default();
    for table in &mut workers {
        drain(table, &mut kept);
        let stats = table.stats();
        assert_eq!(stats.created, stats.ended + stats.active);
        assert_eq!(stats.active, 0);
        assert_eq!(
            stats.ended + stats.by_reason[EndReason::Active as usize],
            stats.by_reason.iter().sum::<u64>()
        );
        sum.packets += stats.packets;
        sum.created += stats.created;
        sum.followed += stats.followed;
        sum.closed_shed += stats.closed_shed;
        sum.evicted += stats.evicted;
        sum.fragments_shed += stats.fragments_shed;
    }
    let mut records = std::mem::take(&mut kept.records);
    records.sort_by_key(|flow| (flow.first, flow.key, flow.last, flow.id));
    (records, kept, sum)
}

/// Ends all flows of a table. The records of open flows are those with which the flows end, apart from the reason.
fn drain(table: &mut FlowTable, kept: &mut Kept) {
    let mut open = Vec::new();
    table.open(Time(0), |_, record| open.push(*record));
    let (before, waiting) = (kept.records.len(), table.stats().fragments_unmatched);
    table.drain(kept);
    if table.stats().fragments_unmatched > waiting {
        // Fragments that waited for their packet's first one were added to flows now.
        return;
    }
    let ended = kept.records[before..].iter().map(|record| FlowRecord { end: EndReason::Open, ..*record });
    assert_eq!(open, ended.collect::<Vec<_>>());
}

/// Late segments of a closed connection follow it while their flow is open, too.
#[test]
fn an_open_flow_of_late_segments_follows_its_connection() {
    let segment = |from_client: bool, flag: u8| {
        let ([from, to], [a, b]) = match from_client {
            true => ([[10, 0, 0, 1], [192, 0, 2, 1]], [4000, 80]),
            false => ([[192, 0, 2, 1], [10, 0, 0, 1]], [80, 4000]),
        };
        build::ethernet().ipv4(from, to).tcp(a, b, flag).payload(&[])
    };
    let mut table = FlowTable::new(&FlowConfig::default());
    let mut kept = Kept::default();
    let mut take = |table: &mut FlowTable, seconds: u64, data: &[u8]| {
        let packet = Packet { time: Time(seconds * SECOND), ..build::packet(data, LinkType::ETHERNET) };
        table.packet(&packet, &decode(&packet), &mut kept);
    };
    take(&mut table, 10, &segment(true, flags::SYN));
    take(&mut table, 10, &segment(false, flags::SYN | flags::ACK));
    take(&mut table, 11, &segment(false, flags::RST | flags::ACK));
    table.tick(Time(30 * SECOND), &mut Kept::default());
    take(&mut table, 40, &segment(false, flags::RST | flags::ACK));
    take(&mut table, 41, &segment(false, flags::RST | flags::ACK));
    let mut open = Vec::new();
    table.open(Time(0), |_, record| open.push(*record));
    assert_eq!(open.len(), 1);
    assert_ne!(open[0].follows, 0);
    assert_eq!((open[0].forward.packets + open[0].reverse.packets, open[0].end), (2, EndReason::Open));
    drain(&mut table, &mut kept);
    assert_eq!(kept.records.last().map(|record| record.follows), Some(open[0].follows));
}

#[test]
fn the_number_of_tables_changes_nothing_and_counts_add_up() {
    let Some(folder) = data("") else { return };
    let mut captures = Vec::new();
    every_capture(&folder, &mut captures);
    every_capture(&folder.with_file_name("breadth"), &mut captures);
    captures.sort();
    let (mut files, mut full, mut packets, mut flows) = (0, 0, 0, 0);
    let config = FlowConfig { memory: 4 << 20, ..FlowConfig::default() };
    for path in captures {
        let chunk = read(&path);
        if chunk.slots.is_empty() {
            continue;
        }
        let (one, kept, stats) = spread(&chunk, 1, 30 * SECOND, &config);
        let counted = |records: &[FlowRecord]| {
            let inner = records.iter().filter(|flow| !flow.carrier);
            inner.fold((0, 0), |(packets, bytes), flow| {
                let sides = [flow.forward, flow.reverse];
                (
                    packets + sides.iter().map(|side| side.packets).sum::<u64>(),
                    bytes + sides.iter().map(|side| side.frame_bytes).sum::<u64>(),
                )
            })
        };
        // A flow whose first packets carry none is in tallies until it carries one: CAPWAP begins with a keep-alive.
        let carriers: HashSet<_> = one.iter().filter(|flow| flow.carrier).map(|flow| flow.key).collect();
        let others: Vec<_> = one.iter().filter(|flow| !carriers.contains(&flow.key)).copied().collect();
        let of_carriers = carriers.iter().filter_map(|key| kept.tallied_by_key.get(key));
        let of_carriers = of_carriers.fold((0, 0), |sum, tallied| (sum.0 + tallied.0, sum.1 + tallied.1));
        let tallied = (kept.tallied.0 - of_carriers.0, kept.tallied.1 - of_carriers.1);
        assert_eq!(counted(&others), tallied, "{}: tallies equal the records", path.display());
        assert_eq!(kept.begun, stats.created - stats.followed, "{}", path.display());
        if one.iter().all(|flow| !flow.carrier) {
            assert_eq!(kept.tallied.0, stats.packets, "{}", path.display());
        }
        // Evictions depend on the other flows in a table.
        let is_full = stats.evicted + stats.fragments_shed + stats.closed_shed > 0;
        full += usize::from(is_full);
        for tables in [2, 3, 8].into_iter().filter(|_| !is_full) {
            let (many, again, _) = spread(&chunk, tables, 30 * SECOND, &config);
            let differs = one.iter().zip(&many).find(|(a, b)| a != b);
            assert_eq!(differs, None, "{}: {tables} tables", path.display());
            assert_eq!(one.len(), many.len(), "{}: {tables} tables", path.display());
            assert_eq!(kept.tallied, again.tallied);
        }
        files += 1;
        packets += stats.packets;
        flows += stats.created;
    }
    println!(
        "{files} captures, {packets} packets, {flows} flows; equal over 2, 3 and 8 tables, except {full} that fill a table"
    );
    assert!(files > 1000 && full < 5);
}

/// A conversation that is captured on its way through tunnels of several pairs of hosts and outside of them, in whole
/// packets and in fragments, has the same flows in any number of tables.
#[test]
fn one_conversation_on_several_ways_is_the_same_in_any_number_of_tables() {
    let (client, server) = ([10, 0, 0, 1], [192, 0, 2, 1]);
    let mut chunk = PacketBuf::default();
    let mut time = SECOND;
    for n in 0..40_u32 {
        let (from, to, ports) =
            if n % 2 == 0 { (client, server, [4000, 80]) } else { (server, client, [80, 4000]) };
        let flag = [flags::SYN, flags::SYN | flags::ACK, flags::ACK, flags::FIN | flags::ACK]
            [(n as usize / 2).min(3)];
        let tcp = build::ip().ipv4(from, to).tcp(ports[0], ports[1], flag).seq(n).payload(b"content");
        let udp = build::ip().ipv4(from, to).udp(ports[0], ports[1]).payload(&[n as u8; 48]);
        let (header, body) = udp.split_at(20);
        let pieces = [(0, &body[..32]), (32, &body[32..])].map(|(offset, part): (u32, &[u8])| {
            let mut data = [header, part].concat();
            data[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            data[4..8].copy_from_slice(
                &((n << 16) | (offset / 8) | if offset == 0 { 0x2000 } else { 0 }).to_be_bytes(),
            );
            data
        });
        for inner in [tcp, pieces[0].clone(), pieces[1].clone()] {
            let outside = Packet { time: Time(time), ..build::packet(&inner, LinkType::RAW) };
            chunk.push(&outside);
            for way in 1..=9 {
                time += 1_000;
                // GTP-U (3GPP TS 29.281 5.1), and IP in IP for every third pair of hosts.
                let outer = build::ip().ipv4([172, 16, 0, way], [172, 16, 1, way / 2]);
                let gtp =
                    [&[0x30, 0xff][..], &(inner.len() as u16).to_be_bytes(), &[0, 0, 0, 7], &inner].concat();
                let data = match way % 3 {
                    0 => outer.proto(4).payload(&inner),
                    _ => outer.udp(2152, 2152).payload(&gtp),
                };
                push(&mut chunk, time, &data, LinkType::RAW);
            }
        }
    }
    let config = FlowConfig::default();
    let (one, _, _) = spread(&chunk, 1, SECOND, &config);
    let in_tunnels = one.iter().filter(|flow| flow.tunnel != Tunnel::None).count();
    assert!(in_tunnels >= 18, "flows of each way: {in_tunnels}");
    for tables in [2, 3, 7, 8, 250] {
        let (many, _, _) = spread(&chunk, tables, SECOND, &config);
        assert_eq!(one.len(), many.len(), "{tables} tables");
        assert_eq!(one.iter().zip(&many).find(|(a, b)| a != b), None, "{tables} tables");
    }
    // Packets to a first hop and packets that come back from the last one are one flow, and have one owner.
    let (a, via, b) = ([1; 16], [2; 16], [3; 16]);
    let routing = [&[17, 2, 0, 1, 0, 0, 0, 0][..], &b].concat();
    let mut datagram = build::ip().ipv6(b, a).udp(1, 2).payload(b"x");
    let back = datagram.clone();
    datagram.splice(..40, []);
    let there = build::ip().ipv6(a, via).proto(43).raw(&routing).payload(&datagram);
    let of = |data: &[u8]| {
        let packet = build::packet(data, LinkType::RAW);
        let layers = decode(&packet);
        (layers.source_routed, steer_hash(&packet, &layers))
    };
    assert_eq!((of(&there).0, of(&there).1), (true, of(&back).1));
}

/// A batch gives the results of its packets one by one.
#[test]
fn batches_equal_single_packets() {
    let chunk = mixed(5_000, 300, 1);
    let config = FlowConfig { memory: 256 << 10, ..FlowConfig::default() };
    let layers: Vec<Layers> = chunk.batch().packets().map(|packet| decode(&packet)).collect();
    let run = |whole: bool| {
        let mut table = FlowTable::new(&config);
        let mut kept = Kept::default();
        if whole {
            table.batch(chunk.batch(), &layers, &mut kept);
        } else {
            for (packet, layers) in chunk.batch().packets().zip(&layers) {
                table.packet(&packet, layers, &mut kept);
            }
        }
        table.drain(&mut kept);
        (kept.records, kept.tallied, table.stats())
    };
    assert!(run(true).2.evicted > 0, "the table was full");
    assert_eq!(run(true), run(false));
}

fn push(chunk: &mut PacketBuf, time: u64, data: &[u8], link: LinkType) {
    chunk.push(&Packet { time: Time(time), ..build::packet(data, link) });
}

/// Packets of `hosts` hosts that open, use and close connections, in a pseudorandom order.
fn mixed(packets: u32, hosts: u32, seed: u32) -> PacketBuf {
    let mut chunk = PacketBuf::default();
    let mut state = seed | 1;
    for n in 0..packets {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let host = (state >> 8) % hosts;
        let (client, server) = ([10, 0, (host >> 8) as u8, host as u8], [192, 0, 2, (host % 7) as u8]);
        let flag = [flags::SYN, flags::ACK, flags::ACK | flags::PSH, flags::FIN | flags::ACK, flags::RST]
            [(state >> 5) as usize % 5];
        let tcp = |from: [u8; 4], to: [u8; 4], a: u16, b: u16| {
            build::ethernet().ipv4(from, to).tcp(a, b, flag).seq(state >> 3).ack(state >> 7).payload(&[0; 9])
        };
        let data = match state % 4 {
            0 => tcp(client, server, 40_000 + host as u16, 80),
            1 => tcp(server, client, 80, 40_000 + host as u16),
            2 => build::ethernet().ipv4(client, server).udp(5000 + host as u16, 53).payload(b"query"),
            _ => build::ethernet().ipv4(client, server).icmp(8, 0, [0; 4]).payload(b"ping"),
        };
        push(&mut chunk, u64::from(n) * 1_000_000, &data, LinkType::ETHERNET);
    }
    chunk
}

#[test]
fn a_flood_is_shed_and_counted_and_active_flows_stay() {
    let config = FlowConfig { memory: 1 << 20, ..FlowConfig::default() };
    let mut table = FlowTable::new(&config);
    let mut kept = Kept::default();
    let capacity = table.stats().capacity;
    assert!(table.stats().memory <= 1 << 20);
    let live = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(b"alive");
    let flood = 20 * capacity as u32;
    for n in 0..flood {
        let [_, a, b, c] = n.to_be_bytes();
        let data =
            build::ethernet().ipv4([172, a, b, c], [10, 9, 9, 9]).tcp(n as u16, 80, flags::SYN).payload(&[]);
        let packet = Packet { time: Time(u64::from(n) * 1000), ..build::packet(&data, LinkType::ETHERNET) };
        table.packet(&packet, &decode(&packet), &mut kept);
        if n % 500 == 0 {
            let packet = Packet { data: &live, wire_len: live.len() as u32, ..packet };
            table.packet(&packet, &decode(&packet), &mut kept);
        }
        assert!(table.stats().active <= capacity);
    }
    let stats = table.stats();
    assert_eq!(stats.created, stats.ended + stats.active);
    assert_eq!(stats.evicted, stats.ended);
    assert_eq!(stats.created, u64::from(flood) + 1, "the active flow was never evicted");
    let early = stats.capacity - stats.active;
    assert!(early * 100 <= capacity, "{early} rows of {capacity} unused when full");
    table.drain(&mut kept);
    assert_eq!(kept.records.len() as u64, stats.created);
    assert_eq!(kept.tallied.0, stats.packets);
}

/// Random bytes at random times.
#[test]
fn random_bytes_do_not_panic() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let config = FlowConfig {
        memory: 128 << 10,
        active: 5 * SECOND,
        checksums: VerifiedChecksums::All,
        ..FlowConfig::default()
    };
    let mut table = FlowTable::new(&config);
    let mut kept = Kept::default();
    for n in 0..60_000_u64 {
        let mut data = match random() % 3 {
            0 => build::ethernet().ipv4([10, 0, 0, random() as u8 & 3], [10, 0, 0, 9]).tcp(
                random() as u16 & 3,
                80,
                random() as u8,
            ),
            1 => build::ethernet().ipv6([random() as u8 & 1; 16], [2; 16]).udp(4789, 4789),
            _ => build::ethernet()
                .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
                .fragment(random() as u16 & 7, (random() as u16 & 3) * 8, random() & 1 == 0)
                .udp(1, 2),
        }
        .seq(random() as u32)
        .ack(random() as u32)
        .payload(&vec![random() as u8; random() as usize % 80]);
        for _ in 0..random() % 4 {
            let at = random() as usize % data.len();
            data[at] = random() as u8;
        }
        data.truncate(random() as usize % (data.len() + 40));
        let time = if random() % 50 == 0 { random() } else { n * 3_000_000 };
        let packet = Packet { time: Time(time), ..build::packet(&data, LinkType::ETHERNET) };
        table.packet(&packet, &decode(&packet), &mut kept);
        if random() % 1000 == 0 {
            table.tick(Time(random()), &mut kept);
            table.roll_up(&mut kept);
        }
    }
    table.drain(&mut kept);
    let stats = table.stats();
    assert_eq!((stats.active, stats.created), (0, stats.ended));
    assert_eq!(kept.records.len() as u64, stats.by_reason.iter().sum::<u64>());
    assert_eq!(stats.capacity, FlowTable::new(&config).stats().capacity);
}

/// Runs packets of one flow and returns the output of the table.
fn one_flow(packets: &[(u64, Vec<u8>)], config: &FlowConfig) -> (Vec<FlowRecord>, FlowStats) {
    let mut table = FlowTable::new(config);
    let mut kept = Kept::default();
    for (time, data) in packets {
        let packet = Packet { time: Time(*time), ..build::packet(data, LinkType::ETHERNET) };
        table.packet(&packet, &decode(&packet), &mut kept);
    }
    table.drain(&mut kept);
    (kept.records, table.stats())
}

#[test]
fn a_gap_splits_a_flow_and_small_backward_steps_do_not() {
    let udp = || build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(b"x");
    let at = |seconds: u64| (1_000_000 * SECOND + seconds * SECOND, udp());
    let config = FlowConfig::default();
    let (records, _) = one_flow(&[at(0), at(59), at(118), at(178)], &config);
    let packets: Vec<u64> = records.iter().map(|flow| flow.forward.packets).collect();
    assert_eq!(packets, [3, 1], "60 s without a packet end it");
    assert_eq!((records[0].end, records[1].end), (EndReason::Idle, EndReason::Shutdown));
    let (records, stats) = one_flow(&[at(100), at(90), at(101)], &config);
    assert_eq!((records.len(), records[0].duration(), stats.time_jumps), (1, SECOND, 0));
    // One packet with a time of another year: it is a flow by itself, and later packets are not affected.
    let (records, stats) = one_flow(&[at(100), at(40_000_000), at(101), at(102)], &config);
    let packets: Vec<u64> = records.iter().map(|flow| flow.forward.packets).collect();
    assert_eq!((packets.as_slice(), stats.time_jumps), ([1, 1, 2].as_slice(), 1));
}

#[test]
fn one_wrong_tick_ends_no_flow() {
    let config = FlowConfig::default();
    let mut table = FlowTable::new(&config);
    let mut kept = Kept::default();
    let start = 1_000_000 * SECOND;
    let data = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(b"x");
    let send = |table: &mut FlowTable, kept: &mut Kept, time: u64| {
        let packet = Packet { time: Time(time), ..build::packet(&data, LinkType::ETHERNET) };
        table.packet(&packet, &decode(&packet), kept);
    };
    send(&mut table, &mut kept, start);
    table.tick(Time(start + 30 * SECOND), &mut kept);
    table.tick(Time(start + 40_000_000 * SECOND), &mut kept);
    assert_eq!((kept.records.len(), table.stats().time_jumps), (0, 1));
    // What is due exactly where an interval ends belongs to the next one.
    table.tick(Time(start + 60 * SECOND), &mut kept);
    assert_eq!((kept.records.len(), table.next_due()), (0, Some(Time(start + 60 * SECOND))));
    table.tick(Time(start + 60 * SECOND + 1), &mut kept);
    assert_eq!((kept.records.len(), kept.records[0].end), (1, EndReason::Idle));
    // More than a day without packets: the second tick confirms the time.
    send(&mut table, &mut kept, start + 61 * SECOND);
    table.tick(Time(start + 100_000 * SECOND), &mut kept);
    assert_eq!(kept.records.len(), 1);
    table.tick(Time(start + 100_030 * SECOND), &mut kept);
    assert_eq!(kept.records.len(), 2);
}

#[test]
fn the_active_timeout_cuts_flows_and_the_parts_add_up() {
    let config = FlowConfig { active: 10 * SECOND, ..FlowConfig::default() };
    let segment = |n: u64, flag: u8, len: usize| {
        let seq = if n == 0 { 100 } else { 101 + (n as u32 - 1) * 10 };
        let data = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(40_000, 80, flag).seq(seq).ack(1);
        (1_000_000 * SECOND + n * SECOND, data.payload(&vec![0; len]))
    };
    let mut packets = vec![segment(0, flags::SYN, 0)];
    packets.extend((1..35).map(|n| segment(n, flags::ACK, 10)));
    let whole =
        one_flow(&packets, &FlowConfig { active: u64::MAX, attempt: 3600 * SECOND, ..config.clone() }).0;
    let parts = one_flow(&packets, &FlowConfig { attempt: 3600 * SECOND, ..config }).0;
    assert_eq!((whole.len(), parts.len()), (1, 4));
    assert!(parts.iter().all(|part| part.id == whole[0].id), "the parts share one identifier");
    assert!(parts[..3].iter().all(|part| part.end == EndReason::Active));
    assert_eq!(parts.iter().map(|part| part.forward.payload_bytes).sum::<u64>(), 340);
    let stream = |flow: &FlowRecord| flow.tcp.expect("TCP").stream_bytes[0];
    assert_eq!(stream(&whole[0]), 340);
    assert_eq!(parts.iter().map(stream).sum::<u64>(), 340);
}

#[test]
fn fragments_join_their_flow_in_any_order() {
    let udp = build::ip().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(&[7; 92]);
    let (header, body) = udp.split_at(20);
    let piece = |id: u16, offset: usize, len: usize| {
        let part = &body[offset..offset + len];
        let mut data = header.to_vec();
        data[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
        data[4..6].copy_from_slice(&id.to_be_bytes());
        let more = offset + len < body.len();
        data[6..8].copy_from_slice(&((offset as u16 / 8) | if more { 0x2000 } else { 0 }).to_be_bytes());
        data.extend_from_slice(part);
        data
    };
    let pieces = [piece(1, 0, 40), piece(1, 40, 40), piece(1, 80, 20)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut table = FlowTable::new(&FlowConfig::default());
        let mut kept = Kept::default();
        for (n, at) in order.into_iter().enumerate() {
            let packet =
                Packet { time: Time(5 * SECOND + n as u64), ..build::packet(&pieces[at], LinkType::RAW) };
            table.packet(&packet, &decode(&packet), &mut kept);
        }
        table.drain(&mut kept);
        let stats = table.stats();
        assert_eq!((kept.records.len(), stats.fragments_joined, stats.packets), (1, 2, 3), "{order:?}");
        let flow = &kept.records[0];
        assert_eq!((flow.key.port, flow.first), ([1000, 2000], Time(5 * SECOND)), "{order:?}");
        let side = flow.forward;
        assert_eq!((side.packets, side.ip_bytes, side.payload_bytes), (3, 160, 92), "{order:?}");
    }
    // The first fragment never arrives: a flow without ports.
    let mut table = FlowTable::new(&FlowConfig::default());
    let mut kept = Kept::default();
    for at in [1, 2] {
        let packet = Packet { time: Time(5 * SECOND), ..build::packet(&pieces[at], LinkType::RAW) };
        table.packet(&packet, &decode(&packet), &mut kept);
    }
    table.drain(&mut kept);
    assert_eq!((kept.records[0].key.port, kept.records[0].forward.packets), ([0, 0], 2));
    assert_eq!(table.stats().fragments_unmatched, 2);
}

#[test]
fn slots_of_a_batch_are_counted() {
    // A slot outside of the bytes is a packet without bytes: no flow, no panic.
    let slots = [Slot { offset: 5, len: 9, wire_len: 9, link: LinkType::ETHERNET, ..Slot::default() }];
    let batch = weir_wire::Batch { bytes: &[], slots: &slots };
    let layers = [decode(&batch.packet(&slots[0]))];
    let mut table = FlowTable::new(&FlowConfig::default());
    table.batch(batch, &layers, &mut Kept::default());
    assert_eq!(table.stats().packets, 0);
}

#[test]
fn memory_stays_within_its_limit() {
    for memory in [0, 128 << 10, 200 << 10, 1 << 20, 77 << 20, 1 << 30] {
        let stats = FlowTable::new(&FlowConfig { memory, ..FlowConfig::default() }).stats();
        assert!(stats.memory <= memory.max(128 << 10) as u64, "{memory}: {stats:?}");
        assert!(stats.memory >= memory as u64 * 9 / 10, "{memory}: {stats:?}");
        assert!(stats.capacity >= 64);
    }
}

/// A tunnel whose packets are in fragments has the flows that it has in whole packets.
#[test]
fn tunnels_in_fragments_have_their_flows() {
    let inner = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(&[7; 60]);
    let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat();
    let over_udp = build::ip().ipv4([172, 16, 0, 1], [172, 16, 0, 2]).udp(50_000, 4789).payload(&vxlan);
    let over_ip = build::ip().ipv4([172, 16, 0, 1], [172, 16, 0, 2]).gre().frame();
    let over_ip = over_ip.ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(&[7; 60]);
    for (whole, tunnel, has_carrier) in
        [(over_udp, Tunnel::Vxlan, true), (over_ip, Tunnel::GreEthernet, true)]
    {
        let (header, body) = whole.split_at(20);
        let mut table = FlowTable::new(&FlowConfig::default());
        let (mut kept, mut defrag) = (Kept::default(), Defrag::new(DefragConfig::default()));
        for (at, part) in body.chunks(64).enumerate() {
            let mut data = [header, part].concat();
            let more = if (at + 1) * 64 < body.len() { 0x2000 } else { 0 };
            data[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            data[4..8].copy_from_slice(&(9 << 16 | (at as u32 * 8) | more).to_be_bytes());
            let packet = Packet { time: Time(SECOND), ..build::packet(&data, LinkType::RAW) };
            let layers = decode(&packet);
            table.packet(&packet, &layers, &mut kept);
            if let Some((packet, layers)) = defrag.fragment(&packet, &layers) {
                table.attend(&packet, &layers, &mut kept);
            }
        }
        table.drain(&mut kept);
        assert_eq!(table.stats().packets, 2);
        let carried: Vec<_> = kept.records.iter().filter(|flow| flow.tunnel == tunnel).collect();
        let [carried] = carried.as_slice() else { panic!("{:?}", kept.records) };
        assert_eq!((carried.key.port, carried.forward.packets), ([1000, 2000], 1));
        assert_eq!((carried.forward.payload_bytes, carried.carrier), (60, false));
        let carrier = kept.records.iter().find(|flow| flow.tunnel == Tunnel::None).unwrap();
        assert_eq!((carrier.carrier, carrier.forward.packets), (has_carrier, 2));
    }
}

/// A tunnel over UDP has a flow for each direction if each sender chooses its port: both carry the flow inside.
#[test]
fn a_flow_names_what_carries_each_side() {
    let vxlan = |from: u8, port: u16| {
        let to = 3 - from;
        let (source, destination) = ([10, 0, 0, from], [10, 0, 0, to]);
        let ports = if from == 1 { (1000, 2000) } else { (2000, 1000) };
        let inner = build::ethernet().ipv4(source, destination).udp(ports.0, ports.1).payload(b"x");
        let data = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat();
        build::ethernet().ipv4([172, 16, 0, from], [172, 16, 0, to]).udp(port, 4789).payload(&data)
    };
    let seen = |packets: &[Vec<u8>]| {
        let mut table = FlowTable::new(&FlowConfig::default());
        let mut kept = Kept::default();
        for data in packets {
            let packet = Packet { time: Time(SECOND), ..build::packet(data, LinkType::ETHERNET) };
            table.packet(&packet, &decode(&packet), &mut kept);
        }
        table.drain(&mut kept);
        let carrier = |port: u16| kept.records.iter().find(|flow| flow.key.port.contains(&port)).unwrap().id;
        let inside = *kept.records.iter().find(|flow| flow.key.port.contains(&1000)).unwrap();
        let names = [50_000, 60_000].map(|port| if packets.len() > 1 { carrier(port) } else { 0 });
        (inside.parent, inside.other_parent, names)
    };
    // A third flow that carries packets is not named.
    let (parent, other, names) =
        seen(&[vxlan(1, 50_000), vxlan(2, 60_000), vxlan(2, 60_001), vxlan(1, 60_002)]);
    assert_eq!([parent, other], names);
    let (parent, other, _) = seen(&[vxlan(1, 50_000)]);
    assert!(parent != 0 && other == 0);
}

/// The content of a tunnel over UDP is a flow, and so is the tunnel. GRE is no flow and is reported separately.
#[test]
fn tunnels_are_parents_of_their_flows() {
    let inner = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(b"query");
    let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat();
    let outer = build::ethernet().ipv4([172, 16, 0, 1], [172, 16, 0, 2]).udp(50_000, 4789).payload(&vxlan);
    let gre = build::ethernet()
        .ipv4([172, 16, 0, 3], [172, 16, 0, 4])
        .gre()
        .ipv4([10, 0, 0, 5], [10, 0, 0, 6])
        .udp(1, 2)
        .payload(b"x");
    let mut table = FlowTable::new(&FlowConfig::default());
    let mut kept = Kept::default();
    for data in [&outer, &gre, &outer] {
        let packet = Packet { time: Time(SECOND), ..build::packet(data, LinkType::ETHERNET) };
        table.packet(&packet, &decode(&packet), &mut kept);
    }
    table.drain(&mut kept);
    assert_eq!(table.stats().packets, 3);
    kept.records.sort_by_key(|flow| flow.key.port);
    let [in_gre, in_vxlan, carrier] = kept.records.as_slice() else { panic!("{:?}", kept.records) };
    let [tunnel] = kept.tunnels.as_slice() else { panic!("{:?}", kept.tunnels) };
    let parent = tunnel.identity.id();
    assert_eq!((in_gre.tunnel, in_gre.parent, in_gre.forward.packets), (Tunnel::Gre, parent, 1));
    assert_eq!((tunnel.tunnel, tunnel.is_over), (Tunnel::Gre, false));
    assert_eq!(tunnel.identity.initiator().0, Ipv4Addr::new(172, 16, 0, 3));
    assert_eq!((in_vxlan.tunnel, in_vxlan.parent, in_vxlan.forward.packets), (Tunnel::Vxlan, carrier.id, 2));
    assert!(carrier.carrier && !in_vxlan.carrier && carrier.parent == 0);
    assert_eq!((carrier.forward.packets, in_vxlan.forward.payload_bytes), (2, 10));
    assert_eq!(kept.tallied.0, 3, "each packet is in one tally of a flow that is no carrier");
}

/// A packet with a wrong checksum makes a flow that times out like any other, and counts only as a wrong checksum.
#[test]
fn wrong_checksums_are_noted_and_not_counted() {
    let good = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(b"x");
    let mut bad = good.clone();
    bad[42] ^= 1;
    let config = FlowConfig { checksums: VerifiedChecksums::All, ..FlowConfig::default() };
    let at = |seconds: u64, data: &[u8]| (1_000_000 * SECOND + seconds * SECOND, data.to_vec());
    let (records, stats) = one_flow(&[at(0, &bad), at(1, &good), at(2, &bad), at(62, &good)], &config);
    assert_eq!((records.len(), stats.packets), (2, 4));
    let flow = &records[0];
    assert_eq!((flow.history.as_str(), flow.forward.packets, flow.forward.bad_checksums), ("CD", 1, 2));
    let (records, _) = one_flow(&[at(0, &bad), at(1, &good)], &FlowConfig::default());
    assert_eq!((records[0].history.as_str(), records[0].forward.packets), ("D", 2));
}
