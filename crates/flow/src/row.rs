//! What is kept of one flow: five cache lines, of which a packet of an established flow touches three.
//!
//! The lines of a flow lie together, not in arrays of their own: without huge pages a line in another array costs a
//! page walk besides.

use crate::holes::HolesAt;
use crate::tcp::{End, Letters};
use crate::{ConnState, EndReason, FlowRecord, History, Side, TcpSummary, hash};
use weir_wire::{FlowKey, Time, Tunnel};

/// One flow. Arrays of two are in the order of the key's endpoints, lower first.
#[derive(Clone, Default)]
#[repr(C, align(64))]
pub(crate) struct Row {
    // Line 0: what a lookup reads.
    pub key: FlowKey,
    /// Of the part that goes on, where the active timeout cut one off before.
    pub first: Time,
    pub last: Time,
    /// From this time on, a packet or a tick ends the flow. 0: the row is free.
    pub deadline: Time,
    // Line 1.
    pub counts: [Counts; 2],
    // Line 2.
    pub ends: [End; 2],
    // Line 3: written once for most flows.
    pub origin: Origin,
    // Line 4: touched at roll-ups and for what is rare; garbage until `marks` has RARE.
    rare: Rare,
}

/// One direction's counters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub(crate) struct Counts {
    pub packets: u64,
    pub frame_bytes: u64,
    pub ip_bytes: u64,
    pub payload_bytes: u64,
}

/// How the flow began, and what happened in it.
#[derive(Clone, Default)]
#[repr(C, align(64))]
pub(crate) struct Origin {
    pub parent: u64,
    pub interface: u32,
    pub holes: HolesAt,
    /// Where the index has the row.
    pub set: u32,
    pub vlan: [u16; 2],
    pub ttl: [u8; 2],
    pub mac: [[u8; 6]; 2],
    pub tunnel: Tunnel,
    pub history: History,
}

/// What most flows never need.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Rare {
    /// Packets and frame octets that tallies have been given for.
    tallied: [[u64; 2]; 2],
    /// First packet of the flow, where `marks` has CUT.
    born: Time,
    pub letters: Letters,
}

/// Bits of a flow's `marks`.
pub(crate) mod mark {
    /// It had a packet since the last roll-up.
    pub const DIRTY: u16 = 1;
    /// It had a packet since the hand that looks for flows to evict passed.
    pub const USED: u16 = 2;
    /// `rare` is in use.
    pub const RARE: u16 = 4;
    /// A tally was given.
    pub const BEGUN: u16 = 8;
    /// The active timeout has cut it.
    pub const CUT: u16 = 16;
    /// It carries other flows.
    pub const CARRIER: u16 = 32;
    /// TCP: it is about to end, at a fixed time.
    pub const CLOSING: u16 = 64;
    /// TCP: its beginning was not seen.
    pub const PARTIAL: u16 = 128;
    /// TCP: a segment was seen whole, so that there is a state.
    pub const SEGMENT: u16 = 256;
}

impl Row {
    /// Makes the row that of a flow which `sender` (0: lower) began, without counts. What is not set here is set
    /// before it is read.
    pub fn begin(&mut self, key: FlowKey, first: Time, initiator: usize) {
        self.key = key;
        self.first = first;
        self.last = first;
        self.counts = [Counts::default(); 2];
        self.ends = [End::default(); 2];
        self.ends[initiator & 1].set_initiator();
    }

    #[inline]
    pub fn is_free(&self) -> bool {
        self.deadline == Time(0)
    }

    #[inline]
    pub fn marks(&self) -> u16 {
        self.ends[0].marks
    }

    #[inline]
    pub fn mark(&mut self, bits: u16) {
        self.ends[0].marks |= bits;
    }

    #[inline]
    pub fn unmark(&mut self, bits: u16) {
        self.ends[0].marks &= !bits;
    }

    #[inline]
    pub fn has(&self, bits: u16) -> bool {
        self.marks() & bits != 0
    }

    /// Reads a word of each line that most packets use.
    #[inline]
    pub fn touch(&self) -> u64 {
        self.deadline.0 ^ self.counts[0].packets ^ u64::from(self.ends[0].marks)
    }

    /// Which idle timeout it has.
    #[inline]
    pub fn idle_class(&self) -> u16 {
        self.ends[1].marks
    }

    #[inline]
    pub fn set_idle_class(&mut self, class: u16) {
        self.ends[1].marks = class;
    }

    /// Index of the initiator in arrays of two.
    #[inline]
    pub fn initiator(&self) -> usize {
        usize::from(!self.ends[0].is_initiator())
    }

    /// The rare part, in use from now on.
    pub fn rare(&mut self) -> &mut Rare {
        if !self.has(mark::RARE) {
            self.mark(mark::RARE);
            self.rare = Rare::default();
        }
        &mut self.rare
    }

    /// The rare part, if it is in use.
    pub fn rare_if_used(&self) -> Option<&Rare> {
        self.has(mark::RARE).then_some(&self.rare)
    }

    /// What direction `side` had since its last tally, in packets and frame octets; none from now on.
    pub fn take_tally(&mut self, side: usize) -> (u64, u64) {
        let counts = self.counts[side & 1];
        let now = [counts.packets, counts.frame_bytes];
        if now == [0; 2] {
            return (0, 0);
        }
        let before = std::mem::replace(&mut self.rare().tallied[side & 1], now);
        (now[0] - before[0], now[1] - before[1])
    }

    /// The same without remembering it, for a flow that ends.
    pub fn last_tally(&self, side: usize) -> (u64, u64) {
        let counts = self.counts[side & 1];
        let before = self.rare_if_used().map_or([0; 2], |rare| rare.tallied[side & 1]);
        (counts.packets - before[0], counts.frame_bytes - before[1])
    }

    /// Empties the counters of a flow that goes on after its record was given at `now`.
    pub fn cut(&mut self, now: Time) {
        let born = self.born();
        let rare = self.rare();
        rare.born = born;
        rare.tallied = [[0; 2]; 2];
        rare.letters = Letters::default();
        self.mark(mark::CUT);
        self.first = now;
        self.last = now;
        self.counts = [Counts::default(); 2];
        for end in &mut self.ends {
            end.flags = 0;
            end.restart();
        }
        self.origin.history = History::default();
    }

    /// Time of the flow's first packet, cut or not.
    fn born(&self) -> Time {
        match self.rare_if_used() {
            Some(rare) if self.has(mark::CUT) => rare.born,
            _ => self.first,
        }
    }

    /// See [`FlowRecord::id`].
    pub fn id(&self) -> u64 {
        hash::name(&self.key, self.born())
    }

    /// What the flow was.
    pub fn record(&self, missed: [u64; 2], end: EndReason) -> FlowRecord {
        let (orig, resp) = (self.initiator() & 1, 1 - (self.initiator() & 1));
        let letters = self.rare_if_used().map_or(Letters::default(), |rare| rare.letters);
        FlowRecord {
            key: self.key,
            initiator_is_lower: orig == 0,
            id: self.id(),
            first: self.first,
            last: self.last,
            forward: self.side(orig, letters.bad_checksums()),
            reverse: self.side(resp, letters.bad_checksums()),
            tcp: (self.key.proto == 6 && self.has(mark::SEGMENT)).then(|| TcpSummary {
                stream_bytes: [
                    self.ends[orig].size(&self.ends[resp]),
                    self.ends[resp].size(&self.ends[orig]),
                ],
                missed_bytes: [missed[orig], missed[resp]],
                retransmitted: [letters.retransmitted()[orig], letters.retransmitted()[resp]],
            }),
            state: self.state(orig),
            history: self.origin.history,
            end,
            vlan: self.origin.vlan,
            tunnel: self.origin.tunnel,
            parent: self.origin.parent,
            carrier: self.has(mark::CARRIER),
            interface: self.origin.interface,
        }
    }

    fn side(&self, at: usize, bad_checksums: [u16; 2]) -> Side {
        let counts = self.counts[at & 1];
        Side {
            packets: counts.packets,
            frame_bytes: counts.frame_bytes,
            ip_bytes: counts.ip_bytes,
            payload_bytes: counts.payload_bytes,
            tcp_flags: self.ends[at & 1].flags,
            ttl: self.origin.ttl[at & 1],
            mac: self.origin.mac[at & 1],
            bad_checksums: bad_checksums[at & 1],
        }
    }

    fn state(&self, initiator: usize) -> ConnState {
        let active = |at: usize| self.counts[at & 1].packets != 0;
        match self.key.proto {
            6 => crate::tcp::state(&self.ends, initiator),
            17 => match (active(initiator), active(1 - initiator)) {
                (true, true) => ConnState::SF,
                (true, false) => ConnState::S0,
                (false, true) => ConnState::ShR,
                (false, false) => ConnState::Oth,
            },
            _ => ConnState::Oth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn parts_are_cache_lines() {
        assert_eq!(size_of::<Row>(), 320);
        assert_eq!(offset_of!(Row, counts), 64);
        assert_eq!(offset_of!(Row, ends), 128);
        assert_eq!(offset_of!(Row, origin), 192);
        assert_eq!(offset_of!(Row, rare), 256);
    }
}
