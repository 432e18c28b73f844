//! The effect of a packet on the counters and on the end of its flow.

// Times are at most 2^64 - 1 nanoseconds, whatever a capture or a query has: arithmetic on them saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::FlowConfig;
use crate::holes::Pool;
use crate::parsed_packet::{Facts, FlowRef};
use crate::row::{CLASSES, Counts, Hot, Origin, Row, mark};
use crate::tcp::{self, Segment};
use crate::tcp_end::{Repeated, steady};
use weir_wire::Time;
use weir_wire::build::flags::{ACK, SYN};

// The classes of flows by idle timeout; there are [`CLASSES`].
const TCP: u8 = 0;
const INTERACTIVE: u8 = 1;
const HANDSHAKE: u8 = 2;
const UDP: u8 = 3;
const ICMP: u8 = 4;
const OTHER: u8 = 5;

/// Timeouts of flows.
pub(crate) struct Timers {
    /// By class.
    idle: [u64; CLASSES],
    attempt: u64,
    close: u64,
}

impl Timers {
    pub fn new(config: &FlowConfig) -> Self {
        let mut idle = [0; CLASSES];
        for (class, time) in [
            (TCP, config.idle_tcp),
            (INTERACTIVE, config.idle_interactive),
            (HANDSHAKE, config.idle_handshake),
            (UDP, config.idle_udp),
            (ICMP, config.idle_icmp),
            (OTHER, config.idle_other),
        ] {
            idle[usize::from(class) % CLASSES] = time;
        }
        Self { idle, attempt: config.attempt, close: config.close }
    }

    /// The idle timeout of a class.
    #[inline]
    pub fn of_class(&self, class: u8) -> u64 {
        self.idle[usize::from(class) % CLASSES]
    }

    /// The time at which a flow of a class ends after a packet at `time`, if no packet follows.
    #[inline]
    pub fn idle_after(&self, time: Time, class: u8) -> Time {
        after(time, self.of_class(class))
    }

    /// Begins a flow with a packet that has not been counted yet. `flips`: the sender is the responder.
    pub fn begin(&self, row: &mut Row<'_>, flow_ref: &FlowRef, s: &Facts, flips: bool) {
        let sender = usize::from(flow_ref.sender & 1);
        row.begin(flow_ref.key, s.earliest, if flips { sender ^ 1 } else { sender });
        row.cold.origin =
            Origin { interface: s.interface, vlan: s.vlan, tunnel: s.tunnel, ..Origin::default() };
        if flips {
            row.cold.origin.history.push(b'^', true);
        }
        row.hot.set_tag(s.tag);
        row.hot.set_class(class(row));
        row.hot.deadline = after(row.hot.first, self.of_class(row.hot.class()));
    }

    /// The class and the end of a fresh row.
    #[inline]
    pub fn set_fresh(&self, hot: &mut Hot) {
        let is_attempt = match hot.flags[hot.sender() & 1] & (SYN | ACK) {
            SYN => true,
            flags => flags & SYN != 0 && !hot.has(mark::FLIPPED),
        };
        let responder_port = hot.key.port[(hot.fresh_initiator() & 1) ^ 1];
        let class = match hot.key.proto {
            6 if is_attempt => HANDSHAKE,
            6 => connected(responder_port),
            proto => connectionless(proto),
        };
        hot.set_class(class);
        let time = if class == HANDSHAKE { self.attempt } else { self.of_class(class) };
        hot.deadline = after(hot.first, time);
    }

    /// Counts a packet of `side` to a flow. Returns `false` if its checksum is wrong, so that it is not counted.
    pub fn count(&self, row: &mut Row<'_>, pool: &mut Pool, side: usize, s: &Facts) -> bool {
        let side = side & 1;
        let proto = row.hot.key.proto;
        let before = row.counts(side).packets;
        let is_used = before | row.counts(side ^ 1).packets != 0;
        row.mark(if is_used { mark::DIRTY | mark::USED } else { mark::DIRTY });
        if s.carrier {
            row.mark(mark::CARRIER);
            row.hot.set_carries(s.carries);
        }
        if s.bad_checksum {
            if matches!(proto, 6 | 17) {
                tcp::repeat(row, side, Repeated::Checksum);
            }
            return false;
        }
        if before == 0 {
            row.cold.origin.ttl[side] = s.ttl;
            row.cold.origin.mac[side] = s.mac;
        }
        let (packets, frame_bytes) = (u64::from(s.packets), s.frame_bytes);
        row.count(
            side,
            &Counts { packets, frame_bytes, ip_bytes: s.ip_bytes, payload_bytes: s.payload_bytes },
        );
        if s.later_fragments != 0 {
            row.count_later_fragments(side, s.later_fragments);
        }
        let time = s.time.max(row.hot.last);
        if let Some(segment) = &s.segment {
            row.hot.flags[side] |= segment.flags;
            if !tcp::is_closed(row) {
                row.hot.last = time;
            }
            self.transition(row, pool, side, segment);
            return true;
        }
        row.hot.last = time;
        if proto == 17 {
            tcp::saw_data(row, side);
        }
        if proto != 6 {
            row.hot.steady[side] = steady::ALL;
        }
        if !row.has(mark::CLOSING) {
            row.hot.deadline = after(row.hot.last, self.of_class(row.hot.class()));
        }
        true
    }

    /// Takes a segment that may change the state of its connection, and with it the time of its end.
    fn transition(&self, row: &mut Row<'_>, pool: &mut Pool, side: usize, segment: &Segment) {
        if tcp::segment(row, pool, side, segment) {
            row.mark(mark::CLOSING);
            row.hot.deadline = after(row.hot.last, self.close);
        } else if !row.has(mark::CLOSING) {
            row.hot.set_class(class(row));
            row.hot.deadline = match tcp::is_attempt(row) {
                true => after(row.hot.first, self.attempt),
                false => after(row.hot.last, self.of_class(row.hot.class())),
            };
        }
    }
}

/// The current class of a flow.
fn class(row: &Row<'_>) -> u8 {
    match row.hot.key.proto {
        6 if tcp::is_handshake(row) => HANDSHAKE,
        6 => connected(row.hot.key.port[(row.initiator() & 1) ^ 1]),
        proto => connectionless(proto),
    }
}

/// The class of a TCP flow that is past its handshake.
#[inline]
fn connected(responder_port: u16) -> u8 {
    if matches!(responder_port, 21 | 22 | 23 | 513) { INTERACTIVE } else { TCP }
}

#[inline]
fn connectionless(proto: u8) -> u8 {
    match proto {
        17 => UDP,
        1 | 58 => ICMP,
        _ => OTHER,
    }
}

/// `time` plus the nanoseconds; never 0, which marks a free row.
#[inline]
fn after(time: Time, nanoseconds: u64) -> Time {
    Time(time.0.saturating_add(nanoseconds).max(1))
}
