//! Flows of one packet, kept in the two cache lines of [`Hot`] alone.
//!
//! Scans and floods of random addresses consist of such flows. All facts of the packet are in the hot part: values
//! that change are in their usual place, and values that are written once (hardware address, VLAN ...) use the
//! counters and numbers of the direction without packets. The second packet, or the end of the flow, converts the row
//! into the normal form. The result equals a row that had the normal form from the beginning.

use crate::oddity::Oddities;
use crate::parsed_packet::{Facts, FlowRef};
use crate::row::{Cold, Counts, Hot, Origin, Row, mark};
use crate::tcp::{self, Segment};
use crate::tcp_end::{End, Numbers, steady};
use crate::{ConnState, EndReason, FlowIdentity, FlowRecord, History, Side, TcpSummary, hash};
use weir_wire::Tunnel;
use weir_wire::build::flags::{ACK, SYN};

/// Whether a flow that begins with this packet can be kept in the short form.
#[inline]
pub(crate) fn is_simple(flow_ref: &FlowRef, s: &Facts) -> bool {
    let is_short = |bytes: u64| bytes <= u64::from(u32::MAX);
    let has_state = match &s.segment {
        Some(segment) => flow_ref.key.proto == 6 && tcp::is_simple(segment),
        None => flow_ref.key.proto != 6,
    };
    has_state
        && (s.packets, s.later_fragments) == (1, 0)
        && s.earliest == s.time
        && !(s.bad_checksum | s.carrier | s.carried)
        && s.tunnel == Tunnel::None
        && is_short(s.frame_bytes | s.ip_bytes | s.payload_bytes)
}

/// Hardware address and time to live in one number.
#[inline]
fn stow(mac: [u8; 6], ttl: u8) -> u64 {
    let [m0, m1, m2, m3, m4, m5] = mac;
    u64::from_le_bytes([m0, m1, m2, m3, m4, m5, ttl, 0])
}

#[inline]
fn unstow(counts: &Counts<u32>) -> ([u8; 6], u8) {
    let number = u64::from(counts.packets) | u64::from(counts.frame_bytes) << 32;
    let mac = number.to_le_bytes().first_chunk().copied().unwrap_or_default();
    (mac, (number >> 48) as u8)
}

impl Hot {
    /// Initialises the row for a flow that begins with a simple packet. `flips`: the sender is the responder; `place`:
    /// the row's slot in the index.
    #[inline]
    pub fn begin(&mut self, flow_ref: &FlowRef, s: &Facts, flips: bool, place: u32) {
        let me = usize::from(flow_ref.sender & 1);
        let you = 1 - me;
        let card = stow(s.mac, s.ttl);
        self.key = flow_ref.key;
        self.first = s.time;
        self.last = s.time;
        self.counts[me] = Counts {
            packets: 1,
            frame_bytes: s.frame_bytes as u32,
            ip_bytes: s.ip_bytes as u32,
            payload_bytes: s.payload_bytes as u32,
        };
        self.counts[you] = Counts {
            packets: card as u32,
            frame_bytes: (card >> 32) as u32,
            ip_bytes: u32::from(s.vlan[0]) << 16 | u32::from(s.vlan[1]),
            payload_bytes: s.interface,
        };
        let mut marks = mark::FRESH | mark::DIRTY;
        marks |= mark::FROM_HIGHER * u16::from(flow_ref.sender & 1);
        marks |= mark::FLIPPED * u16::from(flips);
        self.numbers = [Numbers::default(); 2];
        self.numbers[you].next = place;
        self.flags = [0; 2];
        if let Some(segment) = &s.segment {
            marks |= mark::SEGMENT;
            marks |= mark::PARTIAL * u16::from(tcp::is_partial(segment, !flips));
            marks |= mark::CAPTURED * u16::from(segment.captured);
            self.numbers[me] = Numbers { last: segment.seq, ack: segment.ack, next: 0 };
            self.flags[me] = segment.flags;
        }
        self.marks = marks;
        self.set_tag(s.tag);
        self.steady = [0; 2];
    }

    /// Fills `record` from a row of one packet: equal to [`Row::record`] after [`Hot::settle`].
    #[inline]
    pub fn fresh_record(&self, end: EndReason, record: &mut FlowRecord) {
        let me = self.sender() & 1;
        let (counts, stowed) = (&self.counts[me], &self.counts[1 - me]);
        let flipped = self.has(mark::FLIPPED);
        let (mac, ttl) = unstow(stowed);
        let mine = Side {
            packets: 1,
            frame_bytes: u64::from(counts.frame_bytes),
            ip_bytes: u64::from(counts.ip_bytes),
            payload_bytes: u64::from(counts.payload_bytes),
            tcp_flags: self.flags[me],
            ttl,
            mac,
            bad_checksums: 0,
            later_fragments: 0,
        };
        let (mut tcp, mut state, mut letter) = (None, ConnState::Oth, None);
        match self.key.proto {
            6 => {
                let segment = self.fresh_segment();
                let size;
                (letter, size) = tcp::first_reported(&segment);
                if segment.flags & (SYN | ACK) == SYN {
                    state = ConnState::S0;
                }
                let stream_bytes = if flipped { [0, size] } else { [size, 0] };
                tcp = Some(TcpSummary { stream_bytes, ..TcpSummary::default() });
            }
            17 => {
                letter = Some(b'D');
                state = if flipped { ConnState::ShR } else { ConnState::S0 };
            }
            _ => {}
        }
        record.key = self.key;
        record.initiator_is_lower = self.fresh_initiator() == 0;
        record.id = hash::name(&self.key, self.first);
        record.first = self.first;
        record.last = self.last;
        let FlowRecord { forward, reverse, .. } = record;
        let (to_mine, to_other) = if flipped { (reverse, forward) } else { (forward, reverse) };
        *to_mine = mine;
        *to_other = Side::default();
        record.tcp = tcp;
        record.state = state;
        record.history = History::of_one(letter, flipped);
        record.end = end;
        record.vlan = [(stowed.ip_bytes >> 16) as u16, stowed.ip_bytes as u16];
        record.tunnel = Tunnel::None;
        record.parent = 0;
        record.follows = 0;
        record.carrier = false;
        record.carries = Tunnel::None;
        record.interface = stowed.payload_bytes;
    }

    /// The relevant part of the TCP header of a fresh row's packet.
    #[inline]
    fn fresh_segment(&self) -> Segment {
        let me = self.sender() & 1;
        Segment {
            seq: self.numbers[me].last,
            ack: self.numbers[me].ack,
            len: self.counts[me].payload_bytes,
            window: 1,
            flags: self.flags[me],
            captured: self.has(mark::CAPTURED),
        }
    }

    /// Index of the sender in arrays of two, of a fresh row.
    #[inline]
    pub fn sender(&self) -> usize {
        usize::from(self.has(mark::FROM_HIGHER))
    }

    /// Index of the initiator in arrays of two, of a fresh row.
    #[inline]
    pub fn fresh_initiator(&self) -> usize {
        self.sender() ^ usize::from(self.has(mark::FLIPPED))
    }

    /// Outer VLAN identifier, of a fresh row.
    #[inline]
    pub fn fresh_vlan(&self) -> u16 {
        (self.counts[1 - (self.sender() & 1)].ip_bytes >> 16) as u16
    }

    /// Both VLAN identifiers, of a fresh row.
    pub fn fresh_vlans(&self) -> [u16; 2] {
        let stowed = self.counts[1 - (self.sender() & 1)].ip_bytes;
        [(stowed >> 16) as u16, stowed as u16]
    }

    /// The facts about the flow, of a fresh row.
    pub fn fresh_identity(&self) -> FlowIdentity {
        FlowIdentity {
            key: self.key,
            initiator_is_lower: self.fresh_initiator() == 0,
            first: self.first,
            vlan: self.fresh_vlans(),
            alias: 0,
        }
    }

    /// The index slot of a row of one packet.
    #[inline]
    pub fn fresh_place(&self) -> u32 {
        self.numbers[1 - (self.sender() & 1)].next
    }

    /// Sets the index slot of a row of one packet.
    pub fn set_fresh_place(&mut self, place: u32) {
        let you = 1 - (self.sender() & 1);
        self.numbers[you].next = place;
    }

    /// Converts a fresh row into the normal form, with its cold part in `cold`.
    #[inline(never)]
    pub fn settle<'a>(&'a mut self, cold: &'a mut Cold) -> Row<'a> {
        let me = self.sender() & 1;
        let you = 1 - me;
        let initiator = self.fresh_initiator() & 1;
        let is_initiator = initiator == me;
        let stowed = std::mem::take(&mut self.counts[you]);
        let counts = self.counts[me];
        let (mac, ttl) = unstow(&stowed);
        let mut history = History::default();
        if !is_initiator {
            history.push(b'^', true);
        }
        let mut ends = [End::default(); 2];
        let mut letter = None;
        match self.key.proto {
            6 => {
                let segment = self.fresh_segment();
                (ends[me], ends[you], letter) = tcp::after_first(&segment, is_initiator);
            }
            17 => {
                ends[me].set_seen_data();
                letter = Some(b'D');
            }
            _ => {}
        }
        ends[initiator].set_initiator();
        if let Some(letter) = letter {
            history.push(letter, is_initiator);
        }
        let origin = &mut cold.origin;
        *origin = Origin {
            parent: 0,
            interface: stowed.payload_bytes,
            place: self.numbers[you].next,
            vlan: [(stowed.ip_bytes >> 16) as u16, stowed.ip_bytes as u16],
            tunnel: Tunnel::None,
            history,
            ..Origin::default()
        };
        origin.ttl[me] = ttl;
        origin.mac[me] = mac;
        cold.tallied = [[0; 2]; 2];
        if self.has(mark::BEGUN) {
            cold.tallied[me] = [1, u64::from(counts.frame_bytes)];
        }
        self.numbers = [Numbers::default(); 2];
        if self.key.proto != 6 {
            self.steady[me] = steady::ALL;
        }
        self.unmark(mark::FRESH | mark::FROM_HIGHER | mark::FLIPPED | mark::CAPTURED);
        Row { hot: self, cold, ends, odd: Oddities::default() }
    }
}
