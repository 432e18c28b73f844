//! The fast path: a packet in order of an established flow changes counters and little more. Nearly all packets take
//! it.

use crate::index::same;
use crate::parsed_packet::{FlowRef, segment};
use crate::row::{Cold, Hot, mark};
use crate::tcp::{self, Segment};
use crate::tcp_end::steady::{BLIND, DATA, EMPTY, FIRST_DATA, FIRST_EMPTY};
use crate::timers::Timers;
use weir_wire::build::flags::{ACK, FIN, RST, SYN};
use weir_wire::{Layers, Packet};

/// Counts a packet to a row if nothing else needs to be done. Returns `false` without any change if the row belongs to
/// another flow, or if the packet may begin, change or end something. The effect equals that of the slow path.
#[inline(always)]
pub(crate) fn count(
    row: &mut Hot,
    flow_ref: &FlowRef,
    packet: &Packet<'_>,
    layers: &Layers,
    timers: &Timers,
    active: u64,
) -> bool {
    let [me, you] = if flow_ref.sender == 0 { [0, 1] } else { [1, 0] };
    let kind = if layers.payload_len == 0 { EMPTY } else { DATA };
    let time = packet.time;
    let is_counted = row.steady[me] & kind != 0
        && same(&row.key, &flow_ref.key)
        && time >= row.last
        && time < row.deadline
        && time.0 - row.first.0 < active;
    if !is_counted {
        return false;
    }
    let counts = &row.counts[me];
    let (packets, o1) = counts.packets.overflowing_add(1);
    let (frame_bytes, o2) = counts.frame_bytes.overflowing_add(packet.wire_len);
    let (ip_bytes, o3) = counts.ip_bytes.overflowing_add(layers.network_len);
    let (payload_bytes, o4) = counts.payload_bytes.overflowing_add(layers.payload_len);
    if o1 | o2 | o3 | o4 {
        return false;
    }
    if layers.ip_proto == 6 {
        let Some(segment) = segment(packet, layers) else { return false };
        if !follow(row, me, you, &segment) {
            return false;
        }
    }
    let counts = &mut row.counts[me];
    counts.packets = packets;
    counts.frame_bytes = frame_bytes;
    counts.ip_bytes = ip_bytes;
    counts.payload_bytes = payload_bytes;
    row.marks |= mark::DIRTY | mark::USED;
    row.last = time;
    row.deadline = timers.idle_after(time, row.class());
    true
}

/// Counts the first segment of a sender with payload, or the first without, which also enters the history.
#[inline(never)]
pub(crate) fn count_first(
    row: &mut Hot,
    cold: &mut Cold,
    flow_ref: &FlowRef,
    packet: &Packet<'_>,
    layers: &Layers,
    timers: &Timers,
    active: u64,
) -> bool {
    let me = usize::from(flow_ref.sender & 1);
    let with_payload = layers.payload_len != 0;
    let (first, known) = if with_payload { (FIRST_DATA, DATA) } else { (FIRST_EMPTY, EMPTY) };
    let before = row.steady[me];
    if before & first == 0 {
        return false;
    }
    row.steady[me] = before & !first | known;
    let is_counted = count(row, flow_ref, packet, layers, timers, active);
    if is_counted {
        tcp::saw_first(cold, me, with_payload);
    } else {
        row.steady[me] = before;
    }
    is_counted
}

/// Advances the numbers of both streams if the segment has no other effect. A segment that wraps a number is left to
/// the slow path.
#[inline(always)]
fn follow(row: &mut Hot, me: usize, you: usize, segment: &Segment) -> bool {
    if segment.flags & (SYN | FIN | RST | ACK) != ACK || segment.window == 0 {
        return false;
    }
    let (mine, other) = (row.numbers[me], row.numbers[you]);
    let last = segment.seq.wrapping_add(segment.len);
    let is_next = segment.captured
        && segment.seq == mine.last
        && segment.seq == mine.next
        && (segment.ack.wrapping_sub(other.ack) as i32) >= 0
        && (segment.ack.wrapping_sub(other.next) as i32) <= 0
        && last >= mine.last
        && segment.ack >= other.ack;
    if is_next {
        row.numbers[me].last = last;
        row.numbers[me].next = last;
        row.numbers[you].ack = segment.ack;
        row.flags[me] |= segment.flags;
        return true;
    }
    follow_out_of_order(row, me, you, segment)
}

/// Counts a segment that is not next in order, or that acknowledges nothing new.
#[inline(never)]
fn follow_out_of_order(row: &mut Hot, me: usize, you: usize, segment: &Segment) -> bool {
    let (mut mine, mut other) = (row.numbers[me], row.numbers[you]);
    let [is_blind, other_is_blind] = [row.steady[me], row.steady[you]].map(|bits| bits & BLIND != 0);
    let past = segment.seq.wrapping_add(segment.len);
    let ahead = past.wrapping_sub(mine.last) as i32;
    // The payload is new, and leaves no hole if holes are tracked.
    let is_next = segment.len == 0
        || ahead > 0
            && (is_blind
                || segment.captured
                    && segment.seq.wrapping_sub(mine.last) as i32 >= 0
                    && segment.seq.wrapping_sub(mine.next) as i32 <= 0
                    && past.wrapping_sub(mine.next) as i32 > 0);
    // Acknowledged data was sent, and was seen if holes are tracked.
    let acks = segment.ack.wrapping_sub(other.ack) as i32 > 0;
    let is_known = segment.ack.wrapping_sub(other.next) as i32 <= 0 || (other_is_blind && !acks);
    let wraps = (ahead > 0 && past < mine.last) || (acks && segment.ack < other.ack);
    // It may be from before the beginning.
    let is_old =
        (segment.seq.wrapping_sub(mine.last) as i32) < 0 || (segment.ack.wrapping_sub(other.ack) as i32) < 0;
    if !is_next || !is_known || wraps || is_old {
        return false;
    }
    if ahead > 0 {
        mine.last = past;
    }
    if segment.len != 0 || is_blind {
        mine.next = mine.last;
    }
    if acks {
        other.ack = segment.ack;
    }
    row.numbers[me] = mine;
    row.numbers[you] = other;
    row.flags[me] |= segment.flags;
    true
}

#[cfg(test)]
mod tests {
    use crate::{Control, FlowConfig, FlowRecord, FlowSink, FlowStats, FlowTable, Tally};
    use weir_wire::build::{self, flags};
    use weir_wire::{Layers, LinkType, Packet, PacketBuf, Tag, Time, decode};

    /// All calls that a table makes, in order.
    #[derive(Default)]
    struct Calls(Vec<String>);

    impl FlowSink for Calls {
        fn end(&mut self, record: &FlowRecord) {
            self.0.push(format!("{record:?}"));
        }
        fn tally(&mut self, tally: &Tally<'_>) {
            self.0.push(format!("{tally:?}"));
        }
        fn irregular(&mut self, irregular: &Tally<'_>) {
            self.0.push(format!("odd {irregular:?}"));
        }
        fn uncounted(&mut self, uncounted: &Tally<'_>) {
            self.0.push(format!("missed {uncounted:?}"));
        }
        fn asks_tags(&self) -> bool {
            true
        }
        fn asks_control(&self) -> bool {
            true
        }
        fn control(&mut self, control: &Control<'_>) {
            self.0.push(format!("{control:?}"));
        }
        fn vlan_changed(&mut self, vlan_changed: &Tally<'_>, tag: Tag) {
            self.0.push(format!("strayed {vlan_changed:?} {tag:?}"));
        }
    }

    /// Connections with every kind of event for segments, including sequence numbers near 0 and 2^32, with some
    /// datagrams between. All numbers stay within 2 GiB of their beginning.
    fn disorder(packets: u32, flows: u32, calm: u32, seed: u64) -> PacketBuf {
        let mut state = seed;
        let mut random = |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u32 % below
        };
        let mut next: Vec<[u32; 2]> = (0..flows)
            .map(|flow| [[u32::MAX - 900, 5, 1 << 29][flow as usize % 3], random(1 << 20)])
            .collect();
        let mut chunk = PacketBuf::default();
        let mut time = 1_000_000_000;
        for _ in 0..packets {
            let flow = random(flows);
            let me = random(2) as usize;
            let ([seq, ack], len) = ([next[flow as usize][me], next[flow as usize][1 - me]], random(3) * 40);
            let (a, b) = ([10, 0, 0, flow as u8], [192, 0, 2, 1]);
            let (from, to, x, y) =
                if me == 0 { (a, b, 4000 + flow as u16, 80) } else { (b, a, 80, 4000 + flow as u16) };
            let frame = match random(12) {
                0 | 1 => build::ethernet().vlan(5),
                2 => build::ethernet().vlan(0),
                _ => build::ethernet(),
            };
            let ip = frame.ipv4(from, to);
            let payload = vec![b'x'; len as usize];
            let mut moves = len;
            let tcp = |flag: u8, seq: u32, ack: u32| ip.clone().tcp(x, y, flag).seq(seq).ack(ack);
            let what = if random(calm) == 0 { random(16) } else { 99 };
            let data = match what {
                0 => tcp(flags::SYN | if me == 1 { flags::ACK } else { 0 }, seq.wrapping_sub(1), ack)
                    .payload(&[]),
                1 => tcp(flags::SYN | if me == 1 { flags::ACK } else { 0 }, 4, ack).payload(&payload),
                2 => tcp(flags::FIN | flags::ACK, seq, ack).payload(&payload),
                3 => tcp(flags::RST, seq, ack).payload(&[]),
                // Lost before the sensor, so that a hole follows; retransmitted in whole or in part; early.
                4 | 5 => {
                    next[flow as usize][me] = seq.wrapping_add(100);
                    continue;
                }
                6 | 7 => tcp(flags::ACK, seq.wrapping_sub(random(120)), ack).payload(&payload),
                8 => tcp(flags::ACK, seq.wrapping_add(random(40_000)), ack).payload(&payload),
                // Payload that was not sent, and payload that was sent long ago.
                9 => tcp(flags::ACK, seq, ack.wrapping_add(random(200))).payload(&payload),
                10 => tcp(flags::ACK, seq, ack.wrapping_sub(random(300))).payload(&payload),
                11 => tcp(flags::ACK, seq, ack).window(0).payload(&payload),
                12 => tcp(0, seq, ack).payload(&payload),
                13 => ip.clone().udp(x, y).payload(&payload),
                14 => {
                    let far = [random(1 << 28), random(1 << 28)];
                    tcp(flags::ACK, seq.wrapping_add(far[0]), ack.wrapping_add(far[1])).payload(&payload)
                }
                _ => tcp(flags::ACK | flags::PSH, seq, ack).payload(&payload),
            };
            if what != 99 && (6..15).contains(&what) {
                moves = 0;
            }
            next[flow as usize][me] = seq.wrapping_add(moves);
            let wire_len = data.len() as u32;
            let captured = if random(30) == 0 { 60.min(data.len()) } else { data.len() };
            time += [1_000, 1_000_000, 50_000_000][random(3) as usize];
            chunk.push(&Packet {
                time: Time(time - u64::from(random(20) == 0) * 2_000_000),
                wire_len,
                ..build::packet(&data[..captured], LinkType::ETHERNET)
            });
        }
        chunk
    }

    /// The calls of a table for some packets.
    fn run(chunk: &PacketBuf, config: &FlowConfig, is_thorough: bool) -> (Vec<String>, FlowStats) {
        let mut table = FlowTable::new(config);
        table.is_thorough = is_thorough;
        let mut calls = Calls::default();
        let batch = chunk.batch();
        for (n, slots) in batch.slots.chunks(200).enumerate() {
            let part = weir_wire::Batch { bytes: batch.bytes, slots };
            let layers: Vec<Layers> = part.packets().map(|packet| decode(&packet)).collect();
            table.batch(part, &layers, &mut calls);
            if n % 5 == 0 {
                table.roll_up(&mut calls);
            }
        }
        table.drain(&mut calls);
        (calls.0, table.stats())
    }

    /// A table with the fast path makes the same calls as a table without it.
    #[test]
    fn the_fast_path_equals_the_slow_path() {
        let (mut evicted, mut vlan_changed) = (0, 0);
        for seed in 0..16_u64 {
            // From one irregularity in two segments to one in 60; full tables; cuts by the active timeout.
            let calm = [2, 6, 20, 60][seed as usize / 4 % 4];
            let config = FlowConfig {
                active: if seed % 3 == 0 { 400_000_000 } else { u64::MAX },
                memory: if seed % 4 == 0 { 0 } else { 4 << 20 },
                ..FlowConfig::default()
            };
            let flows = [900, 7, 60, 200][seed as usize % 4];
            let chunk = disorder(10_000, flows, calm, (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (short, long) = (run(&chunk, &config, false), run(&chunk, &config, true));
            let differs = short.0.iter().zip(&long.0).find(|(a, b)| a != b);
            assert_eq!(differs, None, "seed {seed}");
            assert_eq!((short.0.len(), short.1), (long.0.len(), long.1), "seed {seed}");
            evicted += short.1.evicted;
            vlan_changed += short.0.iter().filter(|calls| calls.starts_with("strayed")).count();
        }
        assert!(vlan_changed > 1000, "{vlan_changed} strayed");
        assert!(evicted > 1000, "{evicted} evicted");
    }
}
