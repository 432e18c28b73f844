//! The way of nearly every packet: of a flow that is under way, in order, it changes counters and little else.

use crate::index::same;
use crate::row::{Hot, mark};
use crate::sighting::{Whose, segment};
use crate::tcp::steady::{DATA, EMPTY};
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
        let [mine, other] = [row.numbers[me], row.numbers[you]];
        let last = segment.seq.wrapping_add(segment.len);
        let is_next = segment.flags & (SYN | FIN | RST | ACK) == ACK
            && segment.window != 0
            && segment.captured
            && segment.seq == mine.last
            && segment.seq == mine.next
            && (segment.ack.wrapping_sub(other.ack) as i32) >= 0
            && (segment.ack.wrapping_sub(other.next) as i32) <= 0
            // Numbers that wrap are counted, but not here.
            && last >= mine.last
            && segment.ack >= other.ack;
        if !is_next {
            return false;
        }
        row.numbers[me].last = last;
        row.numbers[me].next = last;
        row.numbers[you].ack = segment.ack;
        row.flags[me] |= segment.flags;
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
