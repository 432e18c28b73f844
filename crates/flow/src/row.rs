//! The memory of one flow: two cache lines that a packet of an established flow touches, and three for the rest.
//!
//! The two lines are in an array of their own, so that the busy flows are in few pages. A flow of one packet uses only
//! them ([`crate::first_packet`]): a flood of new flows touches these lines and the index.

use crate::holes::HolesAt;
use crate::oddity::Oddities;
use crate::tcp_end::{End, Letters, Numbers, Progress, state};
use crate::{ConnState, EndReason, FlowIdentity, FlowRecord, History, Side, TcpSummary, hash};
use weir_wire::{FlowKey, Tag, Time, Tunnel};

/// The values that each packet of a flow reads and writes. Arrays of two are in the order of the key's endpoints,
/// lower first.
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(C, align(128))]
pub(crate) struct Hot {
    // Line 0.
    pub key: FlowKey,
    /// Start of the current part, if the active timeout cut one off before. In a free row: the next free row.
    pub first: Time,
    pub last: Time,
    /// From this time on, a packet or a tick ends the flow. 0: the row is free.
    pub deadline: Time,
    // Line 1.
    /// Modulo 2^32, see [`Rare::carried`].
    pub counts: [Counts<u32>; 2],
    pub numbers: [Numbers; 2],
    /// See [`mark`].
    pub marks: u16,
    /// Every TCP flag that was set.
    pub flags: [u8; 2],
    /// The kinds of packet that change only this struct: bits of [`crate::tcp_end::steady`].
    pub steady: [u8; 2],
    /// Class of the idle timeout in the lowest bits; VLAN tag of the first packet in the others.
    class_and_tag: u16,
}

/// Classes of flows by idle timeout.
pub(crate) const CLASSES: usize = 6;

/// Bits of a row for its class.
const CLASS_BITS: u32 = u16::BITS - 13;

const _: () = assert!(Tag::MAX < 1 << 13 && CLASSES <= 1 << CLASS_BITS);

/// One direction's counters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub(crate) struct Counts<N> {
    pub packets: N,
    pub frame_bytes: N,
    pub ip_bytes: N,
    pub payload_bytes: N,
}

/// The other values of a flow; undefined if `marks` has FRESH.
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(C)]
pub(crate) struct Cold {
    // Line 0: written once for most flows.
    pub origin: Origin,
    // Line 1.
    pub progress: [Progress; 2],
    /// Packets and frame bytes that tallies have reported.
    pub tallied: [[u64; 2]; 2],
    // Line 2: undefined until `marks` has RARE.
    rare: Rare,
}

/// The flow's beginning and its events.
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Origin {
    pub parent: u64,
    pub interface: u32,
    pub holes: HolesAt,
    /// The row's slot in the index.
    pub place: u32,
    pub vlan: [u16; 2],
    pub ttl: [u8; 2],
    pub mac: [[u8; 6]; 2],
    pub tunnel: Tunnel,
    pub history: History,
}

/// What a direction's counters do not hold.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
struct Carried {
    /// The upper parts of the counters, beyond 32 bits.
    packets: u16,
    /// See [`Side::later_fragments`].
    later_fragments: u16,
    frame_bytes: u32,
    ip_bytes: u32,
    payload_bytes: u32,
}

/// Values that most flows never need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Rare {
    carried: [Carried; 2],
    /// Time of the flow's first packet, if `marks` has CUT.
    born: Time,
    pub letters: Letters,
}

/// Bits of a flow's `marks`.
pub(crate) mod mark {
    /// The flow had a packet since the last roll-up.
    pub const DIRTY: u16 = 1;
    /// The flow had a packet since the search for flows to evict passed its row.
    pub const USED: u16 = 2;
    /// `rare` is in use.
    pub const RARE: u16 = 4;
    /// A tally was emitted.
    pub const BEGUN: u16 = 8;
    /// The active timeout has cut the flow.
    pub const CUT: u16 = 16;
    /// The flow carries other flows.
    pub const CARRIER: u16 = 32;
    /// TCP: the flow ends soon, at a fixed time.
    pub const CLOSING: u16 = 64;
    /// TCP: the beginning was not seen.
    pub const PARTIAL: u16 = 128;
    /// TCP: a segment with a whole header was seen, so that there is a state.
    pub const SEGMENT: u16 = 256;
    /// One packet was seen, and all of it is in the hot part; see [`crate::first_packet`]. The next three bits are for
    /// such rows, but for FOLLOWS.
    pub const FRESH: u16 = 512;
    /// The higher endpoint sent the packet.
    pub const FROM_HIGHER: u16 = 1024;
    /// The sender is the responder.
    pub const FLIPPED: u16 = 2048;
    /// All payload was captured.
    pub const CAPTURED: u16 = 4096;
    /// Three bits: the kind of tunnel over UDP, as its position in [`super::OVER_UDP`] plus 1.
    pub const CARRIES: u16 = 0b111 << 13;
    /// Of rows that are not fresh: the flow has the late segments of a closed connection. The bit is that of FROM_HIGHER.
    pub const FOLLOWS: u16 = FROM_HIGHER;
}

/// Tunnels over UDP that a row has a number for: all but GRE, of which only the carried flows have the kind.
pub(crate) const OVER_UDP: [Tunnel; 7] = [
    Tunnel::Vxlan,
    Tunnel::Geneve,
    Tunnel::GtpU,
    Tunnel::L2tp,
    Tunnel::Teredo,
    Tunnel::Ayiya,
    Tunnel::Capwap,
];

impl Hot {
    /// Sets the kind of tunnel over UDP, if it is not set.
    pub fn set_carries(&mut self, tunnel: Tunnel) {
        if !self.has(mark::CARRIES)
            && let Some(at) = OVER_UDP.iter().position(|known| *known == tunnel)
        {
            self.mark((at as u16 + 1) << mark::CARRIES.trailing_zeros());
        }
    }

    /// The kind of tunnel over UDP.
    pub fn carries(&self) -> Tunnel {
        let at = usize::from((self.marks & mark::CARRIES) >> mark::CARRIES.trailing_zeros());
        at.checked_sub(1).and_then(|at| OVER_UDP.get(at).copied()).unwrap_or(Tunnel::None)
    }

    /// The class of the idle timeout.
    #[inline]
    pub fn class(&self) -> u8 {
        (self.class_and_tag & ((1 << CLASS_BITS) - 1)) as u8
    }

    #[inline]
    pub fn set_class(&mut self, class: u8) {
        self.class_and_tag = self.class_and_tag >> CLASS_BITS << CLASS_BITS | u16::from(class);
    }

    /// The VLAN tag of its first packet.
    #[inline]
    pub fn tag(&self) -> Tag {
        Tag::numbered(self.class_and_tag >> CLASS_BITS)
    }

    #[inline]
    pub fn set_tag(&mut self, tag: Tag) {
        self.class_and_tag = u16::from(self.class()) | tag.number() << CLASS_BITS;
    }

    #[inline]
    pub fn is_free(&self) -> bool {
        self.deadline == Time(0)
    }

    #[inline]
    pub fn mark(&mut self, bits: u16) {
        self.marks |= bits;
    }

    #[inline]
    pub fn unmark(&mut self, bits: u16) {
        self.marks &= !bits;
    }

    #[inline]
    pub fn has(&self, bits: u16) -> bool {
        self.marks & bits != 0
    }

    /// Reads a word of each line.
    #[inline]
    pub fn touch(&self) -> u64 {
        self.deadline.0 ^ u64::from(self.marks)
    }
}

impl Cold {
    /// Reads a word of each line. A packet that may change a state is often a retransmission, which is counted in the
    /// rare part.
    #[inline]
    pub fn touch(&self) -> u64 {
        self.origin.parent ^ self.tallied[0][0] ^ self.rare.born.0
    }
}

/// Both parts of a flow together, for all uses other than the fast path. Changes of `ends` are written back by
/// [`Row::save`].
pub(crate) struct Row<'a> {
    pub hot: &'a mut Hot,
    pub cold: &'a mut Cold,
    pub ends: [End; 2],
    /// What is odd about the segment that is being counted.
    pub odd: Oddities,
}

impl<'a> Row<'a> {
    /// The flow of a row that is not fresh.
    #[inline]
    pub fn new(hot: &'a mut Hot, cold: &'a mut Cold) -> Self {
        let end = |side: usize| End::new(&hot.numbers[side & 1], &cold.progress[side & 1]);
        let ends = [end(0), end(1)];
        Self { hot, cold, ends, odd: Oddities::default() }
    }

    /// The row `at` of two arrays.
    #[inline]
    pub fn at(hot: &'a mut [Hot], cold: &'a mut [Cold], at: u32) -> Option<Self> {
        Some(Self::new(hot.get_mut(at as usize)?, cold.get_mut(at as usize)?))
    }

    /// Initialises the row for a flow of `initiator` (0: lower), without counts. Fields that are not set here are set
    /// before they are read.
    pub fn begin(&mut self, key: FlowKey, first: Time, initiator: usize) {
        *self.hot = Hot { key, first, last: first, ..Hot::default() };
        self.cold.tallied = [[0; 2]; 2];
        self.ends = [End::default(); 2];
        self.ends[initiator & 1].set_initiator();
    }

    /// Writes `ends` back, and sets which kinds of packet may follow without a change of state.
    #[inline]
    pub fn save(&mut self) {
        for (side, end) in self.ends.iter().enumerate() {
            self.hot.numbers[side & 1] = end.numbers();
            self.cold.progress[side & 1] = end.progress();
        }
        if self.hot.key.proto == 6 {
            let [low, high] = &self.ends;
            self.hot.steady = match self.has(mark::CLOSING) {
                true => [0; 2],
                false => [low.steady(high), high.steady(low)],
            };
        }
    }

    #[inline]
    pub fn mark(&mut self, bits: u16) {
        self.hot.mark(bits);
    }

    #[inline]
    pub fn unmark(&mut self, bits: u16) {
        self.hot.unmark(bits);
    }

    #[inline]
    pub fn has(&self, bits: u16) -> bool {
        self.hot.has(bits)
    }

    /// Index of the initiator in arrays of two.
    #[inline]
    pub fn initiator(&self) -> usize {
        usize::from(!self.ends[0].is_initiator())
    }

    /// Index of the initiator in arrays of two, of a row that is not fresh.
    pub fn initiator_of(hot: &Hot, cold: &Cold) -> usize {
        usize::from(!End::new(&hot.numbers[0], &cold.progress[0]).is_initiator())
    }

    /// The facts about the flow of a row that is not fresh.
    pub fn identity_of(hot: &Hot, cold: &Cold) -> FlowIdentity {
        FlowIdentity {
            key: hot.key,
            initiator_is_lower: Self::initiator_of(hot, cold) == 0,
            first: Self::born_of(hot, cold),
            vlan: cold.origin.vlan,
            alias: 0,
        }
    }

    /// Time of the flow's first packet, cut or not, of a row that is not fresh.
    pub fn born_of(hot: &Hot, cold: &Cold) -> Time {
        if hot.has(mark::RARE) && hot.has(mark::CUT) { cold.rare.born } else { hot.first }
    }

    /// The rare part, in use from now on.
    pub fn rare(&mut self) -> &mut Rare {
        if !self.has(mark::RARE) {
            self.mark(mark::RARE);
            self.cold.rare = Rare::default();
        }
        &mut self.cold.rare
    }

    /// The rare part, if it is in use.
    pub fn rare_if_used(&self) -> Option<&Rare> {
        self.has(mark::RARE).then_some(&self.cold.rare)
    }

    /// The counters of a direction.
    #[inline]
    pub fn counts(&self, side: usize) -> Counts<u64> {
        let low = self.hot.counts[side & 1];
        let high = self.rare_if_used().map_or(Carried::default(), |rare| rare.carried[side & 1]);
        let whole = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        Counts {
            packets: whole(high.packets.into(), low.packets),
            frame_bytes: whole(high.frame_bytes, low.frame_bytes),
            ip_bytes: whole(high.ip_bytes, low.ip_bytes),
            payload_bytes: whole(high.payload_bytes, low.payload_bytes),
        }
    }

    /// Adds to the counters of a direction.
    #[inline]
    pub fn count(&mut self, side: usize, more: &Counts<u64>) {
        let side = side & 1;
        let mut carry = Counts::default();
        let add = |low: &mut u32, high: &mut u32, more: u64| {
            let sum = u64::from(*low) + more;
            (*low, *high) = (sum as u32, (sum >> 32) as u32);
            *high != 0
        };
        let low = &mut self.hot.counts[side];
        let carries = add(&mut low.packets, &mut carry.packets, more.packets)
            | add(&mut low.frame_bytes, &mut carry.frame_bytes, more.frame_bytes)
            | add(&mut low.ip_bytes, &mut carry.ip_bytes, more.ip_bytes)
            | add(&mut low.payload_bytes, &mut carry.payload_bytes, more.payload_bytes);
        if carries {
            self.carry(side, &carry);
        }
    }

    #[cold]
    fn carry(&mut self, side: usize, carry: &Counts<u32>) {
        let high = &mut self.rare().carried[side & 1];
        high.packets = high.packets.saturating_add(u16::try_from(carry.packets).unwrap_or(u16::MAX));
        high.frame_bytes = high.frame_bytes.saturating_add(carry.frame_bytes);
        high.ip_bytes = high.ip_bytes.saturating_add(carry.ip_bytes);
        high.payload_bytes = high.payload_bytes.saturating_add(carry.payload_bytes);
    }

    /// Counts fragments without ports, which are in the other counters too.
    #[cold]
    pub fn count_later_fragments(&mut self, side: usize, more: u32) {
        let high = &mut self.rare().carried[side & 1];
        high.later_fragments = high.later_fragments.saturating_add(more.try_into().unwrap_or(u16::MAX));
    }

    /// Takes the packets and frame bytes of direction `side` since its last tally, and resets them.
    #[inline]
    pub fn take_tally(&mut self, side: usize) -> (u64, u64) {
        let counts = self.counts(side);
        let now = [counts.packets, counts.frame_bytes];
        let before = std::mem::replace(&mut self.cold.tallied[side & 1], now);
        (now[0] - before[0], now[1] - before[1])
    }

    /// Resets the counters of a flow that continues after its record was emitted at `now`.
    pub fn cut(&mut self, now: Time) {
        let born = self.born();
        let rare = self.rare();
        *rare = Rare { born, ..Rare::default() };
        self.cold.tallied = [[0; 2]; 2];
        self.mark(mark::CUT);
        self.hot.first = now;
        self.hot.last = now;
        self.hot.counts = [Counts::default(); 2];
        self.hot.flags = [0; 2];
        self.hot.steady = [0; 2];
        for end in &mut self.ends {
            end.restart();
        }
        self.cold.origin.history = History::default();
    }

    /// Time of the flow's first packet, cut or not.
    pub fn born(&self) -> Time {
        Self::born_of(self.hot, self.cold)
    }

    /// See [`FlowRecord::id`].
    pub fn id(&self) -> u64 {
        hash::name(&self.hot.key, self.born())
    }

    /// The record of the flow.
    #[inline]
    pub fn record(&self, uncounted: [u64; 2], end: EndReason) -> FlowRecord {
        let (orig, resp) = (self.initiator() & 1, 1 - (self.initiator() & 1));
        let letters = self.rare_if_used().map_or(Letters::default(), |rare| rare.letters);
        let origin = &self.cold.origin;
        let is_tcp = self.hot.key.proto == 6;
        let counts = [self.counts(0), self.counts(1)];
        let fragments = self.rare_if_used().map_or([0; 2], |rare| rare.carried.map(|of| of.later_fragments));
        FlowRecord {
            key: self.hot.key,
            initiator_is_lower: orig == 0,
            id: self.id(),
            first: self.hot.first,
            last: self.hot.last,
            forward: self.side(orig, &counts[orig], letters.bad_checksums(), fragments),
            reverse: self.side(resp, &counts[resp], letters.bad_checksums(), fragments),
            tcp: (is_tcp && self.has(mark::SEGMENT)).then(|| TcpSummary {
                stream_bytes: [
                    self.ends[orig].size(&self.ends[resp]),
                    self.ends[resp].size(&self.ends[orig]),
                ],
                missed_bytes: [uncounted[orig], uncounted[resp]],
                retransmitted: [letters.retransmitted()[orig], letters.retransmitted()[resp]],
            }),
            state: self.state(orig, &counts),
            history: origin.history,
            end,
            vlan: origin.vlan,
            tunnel: origin.tunnel,
            parent: origin.parent,
            other_parent: 0,
            follows: 0,
            carrier: self.has(mark::CARRIER),
            carries: self.hot.carries(),
            interface: origin.interface,
            services: [0; 4],
            is_unidentified: false,
            own_apps: 0,
            alerted: false,
            verdict: None,
        }
    }

    #[inline]
    fn side(
        &self,
        at: usize,
        counts: &Counts<u64>,
        bad_checksums: [u16; 2],
        later_fragments: [u16; 2],
    ) -> Side {
        Side {
            packets: counts.packets,
            frame_bytes: counts.frame_bytes,
            ip_bytes: counts.ip_bytes,
            payload_bytes: counts.payload_bytes,
            tcp_flags: self.hot.flags[at & 1],
            ttl: self.cold.origin.ttl[at & 1],
            mac: self.cold.origin.mac[at & 1],
            bad_checksums: bad_checksums[at & 1],
            later_fragments: later_fragments[at & 1],
        }
    }

    fn state(&self, initiator: usize, counts: &[Counts<u64>; 2]) -> ConnState {
        let active = |at: usize| counts[at & 1].packets != 0;
        match self.hot.key.proto {
            6 => state(&self.ends, initiator),
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
        assert_eq!(size_of::<Hot>(), 128);
        assert_eq!(offset_of!(Hot, counts), 64);
        assert_eq!(size_of::<Cold>(), 192);
        assert_eq!(offset_of!(Cold, progress), 64);
        assert_eq!(offset_of!(Cold, rare), 128);
    }
}
