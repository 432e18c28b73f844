//! The state of one endpoint of a TCP connection, and what Zeek's `conn_state` and `history` need of it. The segments that
//! change it are in [`crate::tcp`].

use crate::ConnState;

/// A SYN or RST whose number is further away is ignored.
pub(crate) const TOO_FAR: i32 = 1 << 20;

/// The state of one endpoint.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum State {
    #[default]
    Inactive,
    SynSent,
    SynAckSent,
    /// The endpoint sent something, but no SYN was seen.
    Partial,
    Established,
    Closed,
    Reset,
}

impl State {
    pub fn is_handshake(self) -> bool {
        matches!(self, State::Inactive | State::SynSent | State::SynAckSent)
    }
}

/// The values of one endpoint that a packet of an established connection advances.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub(crate) struct Numbers {
    /// The highest number sent, plus 1.
    pub last: u32,
    /// The highest sequence number that the peer acknowledged.
    pub ack: u32,
    /// Up to this number, every byte was seen or abandoned; equal to `last` if holes are not tracked.
    pub next: u32,
}

/// The other values of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub(crate) struct Progress {
    /// Sequence number of the SYN, or the one that it would have had.
    pub start: u32,
    /// Sequence number after the FIN, if `bits` has FINISHED.
    pub fin: u32,
    /// Number of wraps of `last` and `ack`.
    pub last_wraps: u16,
    pub ack_wraps: u16,
    pub bits: u8,
    /// Letters of this endpoint in the history.
    pub seen: u8,
    pub state: State,
    pub before: State,
}

/// The whole state of one endpoint of a connection. Other protocols use `bits` and `seen`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct End {
    pub last: u32,
    pub ack: u32,
    pub next: u32,
    pub start: u32,
    pub fin: u32,
    pub last_wraps: u16,
    pub ack_wraps: u16,
    pub bits: u8,
    pub seen: u8,
    pub state: State,
    pub before: State,
}

/// Packets of an endpoint that change nothing but counts and numbers: bits of [`crate::row::Hot::steady`].
pub(crate) mod steady {
    /// Without payload.
    pub const EMPTY: u8 = 1;
    /// With payload.
    pub const DATA: u8 = 2;
    pub const ALL: u8 = EMPTY | DATA;
    /// A segment without further effect, in a stream whose holes are not tracked, so that it need not be in order.
    pub const BLIND: u8 = 4;
    /// Without payload: the first of its kind, which is noted in the history.
    pub const FIRST_EMPTY: u8 = 8;
    /// With payload, in a stream whose holes are not tracked: the first of its kind, which is noted in the history.
    pub const FIRST_DATA: u8 = 16;
}

/// Bits of an endpoint.
pub(crate) mod bit {
    pub const INITIATOR: u8 = 1;
    /// The endpoint counts as closed.
    pub const CLOSED: u8 = 2;
    /// The endpoint sent a FIN.
    pub const FINISHED: u8 = 4;
    /// Its holes are not tracked.
    pub const BLIND: u8 = 8;
    /// The endpoint sent something.
    pub const SPOKE: u8 = 16;
    /// The endpoint has holes in the pool.
    pub const HOLES: u8 = 32;
}

/// Bits of `seen`.
pub(crate) mod seen {
    pub const SYN: u8 = 1;
    pub const FIN: u8 = 2;
    pub const RST: u8 = 4;
    pub const FIN_RST: u8 = 8;
    pub const DATA: u8 = 16;
    pub const ACK: u8 = 32;
    pub const MULTI: u8 = 64;
}

impl End {
    #[inline]
    pub fn new(numbers: &Numbers, progress: &Progress) -> Self {
        let &Numbers { last, ack, next } = numbers;
        let &Progress { start, fin, last_wraps, ack_wraps, bits, seen, state, before } = progress;
        Self { last, ack, next, start, fin, last_wraps, ack_wraps, bits, seen, state, before }
    }

    #[inline]
    pub fn numbers(&self) -> Numbers {
        let next = if self.is(bit::BLIND) { self.last } else { self.next };
        Numbers { last: self.last, ack: self.ack, next }
    }

    #[inline]
    pub fn progress(&self) -> Progress {
        let &Self { start, fin, last_wraps, ack_wraps, bits, seen, state, before, .. } = self;
        Progress { start, fin, last_wraps, ack_wraps, bits, seen, state, before }
    }

    /// The kinds of segment of this endpoint that only advance both streams if they come in order. Holes in its stream
    /// affect only segments with payload.
    #[inline]
    pub fn steady(&self, peer: &End) -> u8 {
        let under_way = |state: State| matches!(state, State::Established | State::Partial);
        if !(under_way(self.state) && under_way(peer.state)) {
            return 0;
        }
        let blind = if self.is(bit::BLIND) { steady::BLIND } else { 0 };
        if !self.is(bit::SPOKE) {
            return blind;
        }
        let is_whole = self.bits & (bit::HOLES | bit::BLIND) != bit::HOLES;
        let empty = if self.seen & seen::ACK != 0 { steady::EMPTY } else { steady::FIRST_EMPTY };
        let data = match self.seen & seen::DATA != 0 {
            _ if !is_whole => 0,
            true => steady::DATA,
            false => steady::FIRST_DATA,
        };
        empty | data | blind
    }

    pub fn is(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    pub fn set_initiator(&mut self) {
        self.bits |= bit::INITIATOR;
    }

    /// Sets the state of a UDP endpoint after its first datagram.
    pub fn set_seen_data(&mut self) {
        self.seen |= seen::DATA;
    }

    pub fn is_initiator(&self) -> bool {
        self.is(bit::INITIATOR)
    }

    /// Resets counts and letters; the connection continues.
    pub fn restart(&mut self) {
        self.seen = 0;
        self.start = self.last.wrapping_sub(1);
        self.last_wraps = u16::from(self.last < self.start);
        self.ack_wraps = u16::from(self.ack < self.start);
        if (self.ack.wrapping_sub(self.start) as i32) < 0 {
            self.ack = self.start;
            self.ack_wraps = 0;
        }
    }

    pub fn full(seq: u32, wraps: u16) -> u64 {
        u64::from(wraps) << 32 | u64::from(seq)
    }

    /// Bytes of the stream.
    pub fn size(&self, peer: &End) -> u64 {
        let half_open = self.before == State::SynSent && self.state == State::Reset;
        if half_open && peer.state == State::Inactive && !self.nothing_acked() {
            // The numbers are invalid when a half-open connection is found and aborted.
            return 0;
        }
        let end = Self::full(self.last, self.last_wraps).max(Self::full(self.ack, self.ack_wraps));
        let space = end.saturating_sub(u64::from(self.start));
        space.saturating_sub(1 + u64::from(self.is(bit::FINISHED)))
    }

    pub fn nothing_acked(&self) -> bool {
        let ack = Self::full(self.ack, self.ack_wraps);
        ack == u64::from(self.start) || ack == u64::from(self.start) + 1
    }

    pub fn start_at(&mut self, seq: u32) {
        self.start = seq;
        self.ack = seq;
        self.next = seq.wrapping_add(1);
    }

    /// `seq` relative to the start, given the position `last` and `wraps`; negative before the start.
    pub fn relative(&self, seq: u32, last: u32, wraps: u16) -> i64 {
        let delta = seq.wrapping_sub(last) as i32;
        let wraps = if delta < 0 && seq > last {
            wraps.saturating_sub(1)
        } else if delta > 0 && seq < last {
            wraps.saturating_add(1)
        } else {
            wraps
        };
        if wraps == 0 {
            i64::from(seq.wrapping_sub(self.start) as i32)
        } else {
            Self::full(seq, wraps) as i64 - i64::from(self.start)
        }
    }

    pub fn set_last(&mut self, seq: u32) {
        if seq < self.last {
            self.last_wraps = self.last_wraps.saturating_add(1);
        }
        self.last = seq;
    }

    pub fn acked(&mut self, ack: u32) {
        let delta = ack.wrapping_sub(self.ack) as i32;
        // An acknowledgement of 0 is more likely an error than part of a large stream. Whether it advances cannot be
        // predicted, so there is no branch.
        let moves = (delta > 0) & !((ack == 0) & (delta > TOO_FAR));
        let wraps = moves & (ack < self.ack);
        self.ack_wraps = self.ack_wraps.saturating_add(u16::from(wraps));
        self.ack = if moves { ack } else { self.ack };
    }

    pub fn enter(&mut self, state: State) {
        if state != self.state {
            self.before = self.state;
            self.state = state;
        }
    }

    pub fn is_clean(&self) -> bool {
        self.state == State::Established || (self.state == State::Closed && self.before == State::Established)
    }
}

/// Number of occurrences of the repeatable events of the history, per endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Letters([[u16; 4]; 2], [u32; 2]);

/// The events that the history repeats with each power of ten.
#[derive(Clone, Copy)]
pub(crate) enum Repeated {
    Checksum,
    Gap,
    Retransmission,
    ZeroWindow,
}

impl Letters {
    pub fn retransmitted(&self) -> [u16; 2] {
        self.0.map(|counts| counts[Repeated::Retransmission as usize])
    }

    pub fn bad_checksums(&self) -> [u16; 2] {
        self.0.map(|counts| counts[Repeated::Checksum as usize])
    }

    /// Number of the last RST.
    pub fn last_rst(&mut self, side: usize) -> &mut u32 {
        &mut self.1[side & 1]
    }

    /// Counts one more event. Returns whether the history gets a letter for it.
    pub fn count(&mut self, what: Repeated, side: usize) -> bool {
        let count = &mut self.0[side & 1][what as usize & 3];
        let before = *count;
        *count = before.saturating_add(1);
        before != *count && matches!(*count, 1 | 10 | 100 | 1_000 | 10_000)
    }
}

/// The state of a connection (Zeek's `conn_state`).
pub(crate) fn state(ends: &[End; 2], initiator: usize) -> ConnState {
    use State::{Closed, Established, Inactive, Partial, Reset, SynAckSent, SynSent};
    let (orig, resp) = (&ends[initiator & 1], &ends[1 - (initiator & 1)]);
    let silent = |state: State| matches!(state, Inactive | Partial);
    match (orig.state, resp.state) {
        (SynSent | SynAckSent, Reset) => ConnState::Rej,
        (Reset, Reset) if orig.size(resp) == 0 && resp.size(orig) == 0 => ConnState::Rej,
        (o, Reset) if silent(o) => ConnState::RstRH,
        (_, Reset) => ConnState::RstR,
        (Reset, r) if silent(r) => ConnState::RstOS0,
        (Reset, _) => ConnState::RstO,
        (Closed, Closed) => ConnState::SF,
        (Closed, r) if silent(r) => ConnState::SH,
        (Closed, _) => ConnState::S2,
        (o, Closed) if silent(o) => ConnState::ShR,
        (_, Closed) => ConnState::S3,
        (SynSent, Inactive) => ConnState::S0,
        (Established, Established) => ConnState::S1,
        _ => ConnState::Oth,
    }
}
