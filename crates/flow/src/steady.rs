//! The way of nearly every packet: of a flow that is under way, in order, it changes counters and little else.

use crate::index::same;
use crate::row::{Cold, Hot, mark};
use crate::sighting::{Whose, segment};
use crate::tcp::steady::{BLIND, DATA, EMPTY, FIRST_DATA, FIRST_EMPTY};
use crate::tcp::{self, Segment};
use crate::timers::Timers;
use weir_wire::build::flags::{ACK, FIN, RST, SYN};
use weir_wire::{Layers, Packet};

/// Counts a packet to a row where that is all there is to do. `false`: nothing was done, since the row is not that of its
/// flow, or the packet may begin, change or end something. What it does is what the long way does with such a packet.
#[inline(always)]
pub(crate) fn count(
    row: &mut Hot,
    whose: &Whose,
    packet: &Packet<'_>,
    layers: &Layers,
    timers: &Timers,
    active: u64,
) -> bool {
    let [me, you] = if whose.sender == 0 { [0, 1] } else { [1, 0] };
    let kind = if layers.payload_len == 0 { EMPTY } else { DATA };
    let time = packet.time;
    let is_counted = row.steady[me] & kind != 0
        && same(&row.key, &whose.key)
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
    row.deadline = timers.idle_after(time, row.class);
    true
}

/// The same for the first segment of its sender with payload, or the first without, which is noted in the history
/// besides.
#[inline(never)]
pub(crate) fn count_first(
    row: &mut Hot,
    cold: &mut Cold,
    whose: &Whose,
    packet: &Packet<'_>,
    layers: &Layers,
    timers: &Timers,
    active: u64,
) -> bool {
    let me = usize::from(whose.sender & 1);
    let with_payload = layers.payload_len != 0;
    let (first, known) = if with_payload { (FIRST_DATA, DATA) } else { (FIRST_EMPTY, EMPTY) };
    let before = row.steady[me];
    if before & first == 0 {
        return false;
    }
    row.steady[me] = before & !first | known;
    let is_counted = count(row, whose, packet, layers, timers, active);
    if is_counted {
        tcp::saw_first(cold, me, with_payload);
    } else {
        row.steady[me] = before;
    }
    is_counted
}

/// Moves the numbers of both streams on, where a segment does no more than that. Numbers that wrap are counted, but not
/// here.
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

/// The same where the segment is not the next one, or acknowledges nothing new.
#[inline(never)]
fn follow_out_of_order(row: &mut Hot, me: usize, you: usize, segment: &Segment) -> bool {
    let (mut mine, mut other) = (row.numbers[me], row.numbers[you]);
    let [is_blind, other_is_blind] = [row.steady[me], row.steady[you]].map(|bits| bits & BLIND != 0);
    let past = segment.seq.wrapping_add(segment.len);
    let ahead = past.wrapping_sub(mine.last) as i32;
    // Payload is new, and leaves no hole where they are followed.
    let is_next = segment.len == 0
        || ahead > 0
            && (is_blind
                || segment.captured
                    && segment.seq.wrapping_sub(mine.last) as i32 >= 0
                    && segment.seq.wrapping_sub(mine.next) as i32 <= 0
                    && past.wrapping_sub(mine.next) as i32 > 0);
    // What is acknowledged was sent, and seen where that is followed.
    let known = if other_is_blind { other.last } else { other.next };
    let acks = segment.ack.wrapping_sub(other.ack) as i32 > 0;
    let is_known = segment.ack.wrapping_sub(known) as i32 <= 0 || (other_is_blind && !acks);
    let wraps = (ahead > 0 && past < mine.last) || (acks && segment.ack < other.ack);
    if !is_next || !is_known || wraps {
        return false;
    }
    if segment.len != 0 && !is_blind {
        mine.next = past;
    }
    if ahead > 0 {
        mine.last = past;
    }
    if acks {
        other.ack = segment.ack;
    }
    row.numbers[me] = mine;
    row.numbers[you] = other;
    row.flags[me] |= segment.flags;
    true
}
