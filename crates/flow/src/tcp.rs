//! TCP state of a connection: Zeek's states of both endpoints, its history and its stream sizes.
//!
//! The rules are Zeek's (docs.zeek.org, `conn_state` and `history` of `base/protocols/conn/main.zeek`, and its
//! behaviour on the traces of the conformance test). Sequence numbers are compared modulo 2^32. Wraps are counted, so
//! that sizes are right beyond 4 GiB.

use crate::holes::Pool;
use crate::oddity::{Oddities, Oddity};
use crate::row::{Cold, Row, mark};
use crate::tcp_end::{End, Repeated, State, TOO_FAR, bit, seen};
use weir_wire::build::flags::{ACK, FIN, RST, SYN, URG};

/// If a stream has this many bytes after a hole and no acknowledgement, its other direction is not captured, and its
/// holes are not counted.
const AHEAD_WITHOUT_ACK: u32 = 16_384;

/// A SYN on the ports of a closed connection is early for this time, in nanoseconds.
const LINGER: u64 = 5_000_000_000;

/// A TCP header and the length of its payload.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    pub seq: u32,
    pub ack: u32,
    /// Bytes of payload, as the headers claim.
    pub len: u32,
    pub window: u16,
    pub flags: u8,
    /// Whether all payload was captured.
    pub captured: bool,
}

impl Segment {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sequence numbers that the segment takes. Payload of a RST is not part of the stream.
    fn space(&self) -> u32 {
        let payload = if self.has(RST) { 0 } else { self.len };
        payload + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
}

/// Notes in the history that `side` did something for the first, tenth, hundredth ... time.
pub(crate) fn repeat(row: &mut Row<'_>, side: usize, what: Repeated) {
    let letter = match what {
        Repeated::Checksum => b'C',
        Repeated::Gap => b'G',
        Repeated::Retransmission => b'T',
        Repeated::ZeroWindow => b'W',
    };
    if row.rare().letters.count(what, side) {
        let initiator = row.ends[side & 1].is_initiator();
        row.cold.origin.history.push(letter, initiator);
    }
}

/// Notes in the history that `side` sent data, once.
pub(crate) fn saw_data(row: &mut Row<'_>, side: usize) {
    first(row, side, seen::DATA, b'D');
}

/// Notes the first segment of `me` with payload, or the first without, of a row that is not converted.
pub(crate) fn saw_first(cold: &mut Cold, me: usize, with_payload: bool) {
    let (seen, letter) = if with_payload { (seen::DATA, b'D') } else { (seen::ACK, b'A') };
    let progress = &mut cold.progress[me & 1];
    progress.seen |= seen;
    cold.origin.history.push(letter, progress.bits & bit::INITIATOR != 0);
}

/// Notes a letter once. Returns whether it was noted before.
#[inline]
fn first(row: &mut Row<'_>, side: usize, bit: u8, letter: u8) -> bool {
    let end = &mut row.ends[side & 1];
    if end.seen & bit != 0 {
        return true;
    }
    end.seen |= bit;
    let initiator = end.is_initiator();
    row.cold.origin.history.push(letter, initiator);
    false
}

/// Swaps initiator and responder.
pub(crate) fn flip(row: &mut Row<'_>) {
    for end in &mut row.ends {
        end.bits ^= bit::INITIATOR;
    }
    row.unmark(mark::PARTIAL);
    row.cold.origin.history.push(b'^', true);
}

/// Whether a SYN begins another connection between the ports of this one.
pub(crate) fn is_reuse(row: &Row<'_>, segment: &Segment) -> bool {
    let initiator = row.initiator();
    let (orig, resp) = (&row.ends[initiator & 1], &row.ends[1 - (initiator & 1)]);
    let with_ack = segment.has(ACK);
    if !segment.has(SYN) || (with_ack && orig.state != State::Inactive) {
        return false;
    }
    if orig.is(bit::CLOSED) || resp.is(bit::CLOSED) {
        return true;
    }
    let sender = if with_ack { resp } else { orig };
    // A SYN after its SYN-ACK belongs to it: the two were reordered on the way to the sensor.
    let swapped = !with_ack
        && orig.state == State::SynAckSent
        && resp.state == State::Inactive
        && segment.seq == resp.start;
    segment.seq != sender.start && !swapped
}

/// Whether only a handshake was seen.
pub(crate) fn is_handshake(row: &Row<'_>) -> bool {
    row.ends.iter().all(|end| end.state.is_handshake())
}

/// Whether the flow is a SYN without an answer.
pub(crate) fn is_attempt(row: &Row<'_>) -> bool {
    let initiator = row.initiator();
    matches!(row.ends[initiator & 1].state, State::SynSent | State::SynAckSent)
        && row.ends[1 - (initiator & 1)].state == State::Inactive
}

/// Whether one side reset the connection.
pub(crate) fn is_reset(row: &Row<'_>) -> bool {
    row.ends.iter().any(|end| end.state == State::Reset)
}

/// Whether both sides are counted as closed.
pub(crate) fn is_closed(row: &Row<'_>) -> bool {
    row.ends.iter().all(|end| end.is(bit::CLOSED))
}

/// Takes a segment that `me` sent. Returns whether it closed the connection, so that the flow ends soon.
pub(crate) fn segment(row: &mut Row<'_>, pool: &mut Pool, me: usize, segment: &Segment) -> bool {
    let (me, you) = (me & 1, 1 - (me & 1));
    row.mark(mark::SEGMENT);
    let is_initiator = row.ends[me].is_initiator();
    let spoke = row.ends[me].is(bit::SPOKE);
    if !spoke && (is_initiator || !row.has(mark::PARTIAL)) {
        row.unmark(mark::PARTIAL);
        if !segment.has(SYN) || (is_initiator && segment.has(ACK)) {
            row.mark(mark::PARTIAL);
        }
    }
    let past = segment.seq.wrapping_add(segment.space());
    row.odd = oddity_of_syn(segment);
    if segment.has(SYN) {
        note_syn(row, me, segment);
    }
    begin(&mut row.ends[me], segment);
    let end = &row.ends[me];
    let at = end.relative(segment.seq, end.last, end.last_wraps);
    row.odd.note(Oddity::SeqUnderflow, at < 0 && !segment.has(RST) && !row.has(mark::CUT));
    note(row, me, segment, at);
    // A window of 0 after a FIN of the peer, or with a RST, is not a closed window.
    if segment.window == 0
        && !segment.has(RST)
        && row.ends[you].state != State::Closed
        && row.ends[me].state != State::Reset
    {
        repeat(row, me, Repeated::ZeroWindow);
    }
    if segment.has(FIN) {
        row.ends[me].bits |= bit::FINISHED;
        row.ends[me].fin = past;
    }
    let acked = if segment.has(ACK) { acknowledge(row, me, segment) } else { None };
    let advances = past.wrapping_sub(row.ends[me].last) as i32 > 0;
    if follow(&mut row.ends[me], segment, past) {
        repeat(row, me, Repeated::Retransmission);
    }
    note_state(row, me, segment, advances);
    let closes = advance(row, me, segment);
    if let Some(acked) = acked {
        give_up(row, pool, you, acked);
    }
    row.ends[me].bits |= bit::SPOKE;
    if segment.len > 0 && !segment.has(RST) && at >= 0 {
        let seq = segment.seq.wrapping_add(u32::from(segment.has(SYN)));
        if segment.captured {
            arrived(row, pool, me, seq, segment.len);
        }
    }
    closes && close(row, me)
}

/// Whether [`after_first`] gives the state of a connection after this first segment.
#[inline]
pub(crate) fn is_simple(segment: &Segment) -> bool {
    segment.flags & (FIN | RST) == 0 && segment.window != 0 && segment.len < TOO_FAR as u32
}

/// Whether the connection of this first segment began before the capture.
#[inline]
pub(crate) fn is_partial(segment: &Segment, from_initiator: bool) -> bool {
    !segment.has(SYN) || (from_initiator && segment.has(ACK))
}

/// The values of a connection with one simple segment: the letter of its history, and the size of its stream in bytes
/// ([`End::size`]).
#[inline]
pub(crate) fn first_reported(segment: &Segment) -> (Option<u8>, u64) {
    let (seq, with_ack) = (segment.seq, segment.has(ACK));
    let (start, first, letter) = if segment.has(SYN) {
        (seq, seq.wrapping_add(1), Some(if with_ack { b'H' } else { b'S' }))
    } else {
        let letter = if segment.len > 0 { Some(b'D') } else { with_ack.then_some(b'A') };
        (seq.wrapping_sub(1), seq, letter)
    };
    let last = first.wrapping_add(segment.len);
    let past = End::full(last, u16::from(last < first)).max(u64::from(start));
    (letter, (past - u64::from(start)).saturating_sub(1))
}

/// The result of [`segment`] for a simple first segment: the sending endpoint, the other one, and the letter of the
/// history.
#[inline]
pub(crate) fn after_first(segment: &Segment, from_initiator: bool) -> (End, End, Option<u8>) {
    let (seq, ack) = (segment.seq, segment.ack);
    let (mut me, mut you) = (End { bits: bit::SPOKE, ..End::default() }, End::default());
    let letter;
    if segment.has(SYN) {
        me.start_at(seq);
        me.last = seq.wrapping_add(1);
        me.set_last(me.last.wrapping_add(segment.len));
        if segment.captured {
            me.next = me.last;
        }
        me.seen = seen::SYN;
        me.state = match (from_initiator, segment.has(ACK)) {
            (true, true) => State::SynAckSent,
            (true, false) => State::SynSent,
            (false, _) => State::Established,
        };
        letter = Some(if segment.has(ACK) { b'H' } else { b'S' });
    } else {
        me.start_at(seq.wrapping_sub(1));
        me.last = seq;
        me.set_last(seq.wrapping_add(segment.len));
        if segment.captured {
            me.next = me.last;
        }
        me.state = State::Partial;
        (me.seen, letter) = match (segment.len > 0, segment.has(ACK)) {
            (true, _) => (seen::DATA, Some(b'D')),
            (false, true) => (seen::ACK, Some(b'A')),
            (false, false) => (0, None),
        };
    }
    if segment.has(ACK) {
        you.start_at(ack.wrapping_sub(1));
        you.last = you.start;
    }
    (me, you, letter)
}

/// Notes whether a SYN is odd after those of the same endpoint.
fn note_syn(row: &mut Row<'_>, me: usize, segment: &Segment) {
    let [end, peer] = [row.ends[me & 1], row.ends[1 - (me & 1)]];
    let is_under_way = matches!(end.state, State::Established | State::Partial);
    let jumps =
        segment.seq != end.start && (is_under_way || matches!(end.state, State::SynSent | State::SynAckSent));
    row.odd.note(Oddity::SynSeqJump, jumps);
    row.odd.note(Oddity::SynInsideConnection, is_under_way && end.size(&peer) > 0);
}

/// Notes whether a segment is odd in the state of its endpoint, before the state advances. `advances`: it ends beyond all
/// segments before.
fn note_state(row: &mut Row<'_>, me: usize, segment: &Segment, advances: bool) {
    let [end, peer] = [row.ends[me & 1], row.ends[1 - (me & 1)]];
    let (syn, ack) = (segment.has(SYN), segment.has(ACK));
    let odd = &mut row.odd;
    match end.state {
        State::Inactive if syn && end.is_initiator() => odd.note(Oddity::ConnectionOriginatorSynAck, ack),
        State::Inactive if syn && ack => {
            let has_syn = !matches!(peer.state, State::Inactive | State::Partial);
            let acked = segment.ack.wrapping_sub(peer.start);
            odd.note(Oddity::BadSynAck, has_syn && acked > peer.last.wrapping_sub(peer.start));
        }
        State::Inactive if syn => {
            let is_swapped = peer.state == State::SynAckSent && segment.seq == end.start;
            odd.note(Oddity::SimultaneousOpen, !is_swapped);
        }
        State::Inactive => {}
        State::SynSent | State::SynAckSent => {
            let is_initiator = end.is_initiator();
            let repeats = syn && ack && !segment.has(FIN) && !segment.has(RST);
            odd.note(Oddity::RepeatedSynWithAck, is_initiator && repeats && end.state != State::SynAckSent);
            let replies = syn && !ack && end.state != State::SynSent;
            odd.note(Oddity::RepeatedSynReplyWithoutAck, !is_initiator && replies);
            let is_alone = matches!(peer.state, State::Inactive | State::SynSent);
            odd.note(Oddity::InappropriateFin, segment.has(FIN) && is_alone);
            odd.note(Oddity::DataBeforeEstablished, segment.len > 0 && !segment.has(RST));
        }
        State::Established | State::Partial => {
            let begins = syn && !ack && end.state == State::Partial && peer.state == State::Inactive;
            odd.note(Oddity::SynAfterPartial, begins);
        }
        State::Closed => {
            odd.note(Oddity::SynAfterClose, syn);
            odd.note(Oddity::FinAdvancedLastSeq, segment.has(FIN) && advances);
        }
        State::Reset => {
            odd.note(Oddity::SynAfterReset, syn);
            odd.note(Oddity::DataAfterReset, segment.len > 0 && !segment.has(RST));
        }
    }
}

/// What is odd about a segment with SYN, whatever was seen before.
fn oddity_of_syn(segment: &Segment) -> Oddities {
    let mut odd = Oddities::default();
    if segment.has(SYN) {
        odd.note(Oddity::TcpChristmas, segment.has(RST));
        odd.note(Oddity::BaroqueSyn, segment.has(URG));
        odd.note(Oddity::SynWithData, segment.len > 0);
    }
    odd
}

/// What is odd about the first segment of a flow that is kept in the short form ([`crate::first_packet`]).
#[inline]
pub(crate) fn oddity_of_first(segment: &Segment, from_initiator: bool) -> Oddities {
    let mut odd = oddity_of_syn(segment);
    let is_answer = segment.flags & (SYN | ACK) == SYN | ACK;
    odd.note(Oddity::ConnectionOriginatorSynAck, from_initiator && is_answer);
    odd
}

/// What is odd about a SYN that begins another connection ([`is_reuse`]). `since`: nanoseconds since the last packet.
pub(crate) fn oddity_of_reuse(row: &Row<'_>, segment: &Segment, since: u64) -> Oddities {
    let initiator = row.initiator();
    let (orig, resp) = (&row.ends[initiator & 1], &row.ends[1 - (initiator & 1)]);
    let sender = if segment.has(ACK) { resp } else { orig };
    let is_active = |end: &End| !matches!(end.state, State::Inactive | State::Closed | State::Reset);
    let mut odd = Oddities::default();
    if !(orig.is(bit::CLOSED) || resp.is(bit::CLOSED)) {
        let jumps = sender.state == State::SynSent;
        odd.note(if jumps { Oddity::SynSeqJump } else { Oddity::ActiveConnectionReuse }, true);
    } else if orig.state != State::Reset && resp.state != State::Reset {
        let is_open = is_active(orig) || is_active(resp);
        odd.note(Oddity::ActiveConnectionReuse, is_open);
        odd.note(Oddity::PrematureConnectionReuse, !is_open && since < LINGER);
    }
    odd
}

/// Sets the numbers of an endpoint that sends for the first time, or starts anew.
fn begin(end: &mut End, segment: &Segment) {
    let is_new = match end.state {
        State::SynSent | State::SynAckSent => segment.seq != end.start,
        State::Inactive | State::Established | State::Partial => true,
        State::Reset => end.before == State::Inactive,
        State::Closed => false,
    };
    if segment.has(SYN) && is_new {
        end.start_at(segment.seq);
        end.last = segment.seq.wrapping_add(1);
    } else if end.state == State::Inactive {
        // The numbers are the ones that a preceding SYN would have given.
        end.start_at(segment.seq.wrapping_sub(1));
        end.last = segment.seq;
    }
}

/// Notes the letters of flags, data and acknowledgements. `at`: the segment's sequence number, relative to the start.
fn note(row: &mut Row<'_>, me: usize, segment: &Segment, at: i64) {
    match segment.flags & (SYN | FIN | RST) {
        0 if segment.len > 0 => {
            first(row, me, seen::DATA, b'D');
        }
        0 if segment.has(ACK) => {
            first(row, me, seen::ACK, b'A');
        }
        0 => {}
        SYN => {
            let letter = if segment.has(ACK) { b'H' } else { b'S' };
            // The start moves with every accepted SYN, so that a repeated one is at 0.
            if first(row, me, seen::SYN, letter) && at != 0 {
                let initiator = row.ends[me & 1].is_initiator();
                row.cold.origin.history.push(letter, initiator);
            }
        }
        FIN => {
            let end = row.ends[me & 1];
            let past = segment.seq.wrapping_add(segment.len).wrapping_add(1);
            if first(row, me, seen::FIN, b'F') && past != end.fin {
                row.cold.origin.history.push(b'F', end.is_initiator());
            }
        }
        RST => {
            let known = first(row, me, seen::RST, b'R');
            let last = row.rare().letters.last_rst(me);
            let other = std::mem::replace(last, at as u32) != at as u32;
            if known && other {
                let initiator = row.ends[me & 1].is_initiator();
                row.cold.origin.history.push(b'R', initiator);
            }
        }
        both if both & (FIN | RST) == FIN | RST => {
            first(row, me, seen::FIN_RST, b'I');
        }
        _ => {
            first(row, me, seen::MULTI, b'Q');
        }
    }
}

/// Takes an acknowledgement. Returns the number up to which the peer's stream is acknowledged, for [`give_up`].
fn acknowledge(row: &mut Row<'_>, me: usize, segment: &Segment) -> Option<u32> {
    let sends = matches!(row.ends[me & 1].state, State::SynSent | State::SynAckSent | State::Established);
    let peer = &mut row.ends[1 - (me & 1)];
    if peer.state == State::Inactive {
        row.odd.note(Oddity::PossibleSplitRouting, sends && segment.flags & (SYN | FIN | RST) == 0);
        peer.start_at(segment.ack.wrapping_sub(1));
        peer.last = peer.start;
        return Some(peer.start.wrapping_add(1));
    }
    let at = peer.relative(segment.ack, peer.ack, peer.ack_wraps);
    if at < 0 {
        row.odd.note(Oddity::AckUnderflow, !row.hot.has(mark::CUT));
        return None;
    }
    // Acknowledgements of a RST are not to be trusted.
    if !segment.has(RST) {
        peer.acked(segment.ack);
    }
    Some(segment.ack)
}

/// Advances the highest number. Returns whether the payload was sent before.
fn follow(end: &mut End, segment: &Segment, past: u32) -> bool {
    let delta = past.wrapping_sub(end.last) as i32;
    if segment.flags & (SYN | RST) != 0 && !(-TOO_FAR..=TOO_FAR).contains(&delta) {
        return false;
    }
    // Of a stream of more than 2 GiB of which only SYN and FIN were seen, the FIN is right.
    if segment.has(FIN) && end.last == end.start.wrapping_add(1) {
        end.set_last(past);
        return false;
    }
    if end.state == State::Reset {
        return false;
    }
    if delta > 0 {
        end.set_last(past);
    }
    delta <= 0 && segment.len > 0
}

/// Advances the endpoint's state. Returns whether the endpoint closes.
fn advance(row: &mut Row<'_>, me: usize, segment: &Segment) -> bool {
    let (me, you) = (me & 1, 1 - (me & 1));
    match row.ends[me].state {
        State::Inactive => wake(row, me, segment),
        State::SynSent | State::SynAckSent => {
            let end = &mut row.ends[me];
            if segment.has(FIN) {
                end.enter(State::Closed);
            }
            if segment.has(RST) {
                end.enter(State::Reset);
            }
            segment.flags & (FIN | RST) != 0
        }
        State::Established | State::Partial => {
            let peer = row.ends[you];
            if segment.has(SYN)
                && !segment.has(ACK)
                && row.ends[me].state == State::Partial
                && peer.state == State::Inactive
            {
                row.ends[me].enter(State::SynSent);
            }
            if segment.has(FIN) && !segment.has(RST) {
                row.ends[me].enter(State::Closed);
                // A RST of the peer after its FIN was a regular close.
                if peer.state == State::Reset && peer.before == State::Closed {
                    row.ends[you].enter(State::Closed);
                }
            }
            if segment.has(RST) {
                row.ends[me].enter(State::Reset);
            }
            segment.flags & (FIN | RST) != 0
        }
        State::Closed => {
            if segment.has(RST) && row.ends[you].state != State::Closed {
                row.ends[me].enter(State::Reset);
                return !row.ends[me].is(bit::CLOSED);
            }
            false
        }
        State::Reset => false,
    }
}

/// Takes the first segment of an endpoint.
fn wake(row: &mut Row<'_>, me: usize, segment: &Segment) -> bool {
    let (me, you) = (me & 1, 1 - (me & 1));
    let with_ack = segment.has(ACK);
    if segment.has(SYN) {
        if row.ends[me].is_initiator() {
            row.ends[me].enter(if with_ack { State::SynAckSent } else { State::SynSent });
        } else {
            if !with_ack && row.ends[you].state == State::SynAckSent && segment.seq == row.ends[me].start {
                // SYN-ACK and SYN were reordered on the way to the sensor.
                flip(row);
                row.ends[you].enter(State::Established);
            }
            if row.ends[you].state == State::SynSent {
                row.ends[you].enter(State::Established);
            }
            row.ends[me].enter(State::Established);
        }
    }
    if segment.has(FIN) {
        row.ends[me].enter(State::Closed);
    }
    if segment.has(RST) {
        row.ends[me].enter(State::Reset);
    }
    if row.ends[me].state == State::Inactive {
        let peer = row.ends[you].state;
        if !row.ends[me].is_initiator() && segment.len == 0 && peer == State::SynSent {
            // Some hosts acknowledge a SYN before they answer it.
        } else if with_ack && peer == State::Established {
            // The SYN was not captured.
            row.ends[me].enter(State::Established);
            row.unmark(mark::PARTIAL);
        } else {
            row.ends[me].enter(State::Partial);
        }
    }
    segment.flags & (FIN | RST) != 0
}

/// Counts an endpoint as closed. Returns whether that ends the connection.
fn close(row: &mut Row<'_>, me: usize) -> bool {
    let (me, you) = (me & 1, 1 - (me & 1));
    if row.ends[me].is(bit::CLOSED) {
        return false;
    }
    row.ends[me].bits |= bit::CLOSED;
    row.ends[me].state == State::Reset
        || row.ends[you].is(bit::CLOSED)
        || row.ends[you].state == State::Inactive
}

/// Takes payload of `me`.
#[inline]
fn arrived(row: &mut Row<'_>, pool: &mut Pool, me: usize, seq: u32, len: u32) {
    let end = &mut row.ends[me & 1];
    if end.is(bit::BLIND) {
        return;
    }
    let past = seq.wrapping_add(len);
    if !end.is(bit::HOLES) && (seq.wrapping_sub(end.next) as i32) <= 0 {
        if past.wrapping_sub(end.next) as i32 > 0 {
            end.next = past;
        }
        return;
    }
    out_of_order(row, pool, me, seq, past);
}

#[cold]
fn out_of_order(row: &mut Row<'_>, pool: &mut Pool, me: usize, seq: u32, past: u32) {
    let me = me & 1;
    // Acknowledged data was abandoned before.
    let ack = row.ends[me].ack;
    let seq = if (seq.wrapping_sub(ack) as i32) < 0 { ack } else { seq };
    if past.wrapping_sub(seq) as i32 <= 0 {
        return;
    }
    let mut next = row.ends[me].next;
    let Some(holes) = pool.get(&mut row.cold.origin.holes) else {
        row.ends[me].bits |= bit::BLIND;
        return;
    };
    let ranges = holes.side(me);
    let mut blind = false;
    if (seq.wrapping_sub(next) as i32) <= 0 {
        if past.wrapping_sub(next) as i32 > 0 {
            next = past;
        }
    } else if !ranges.add(next, seq, past) {
        // More holes than are tracked: the oldest hole is abandoned without being noted.
        blind = true;
    }
    while let Some((start, end)) = ranges.first().filter(|(start, _)| start.wrapping_sub(next) as i32 <= 0) {
        debug_assert!(start.wrapping_sub(next) as i32 <= 0);
        if end.wrapping_sub(next) as i32 > 0 {
            next = end;
        }
        ranges.pop();
    }
    let ahead = ranges.end().map_or(0, |end| end.wrapping_sub(next));
    let more = ranges.first().is_some();
    let end = &mut row.ends[me];
    end.next = next;
    end.bits = if more { end.bits | bit::HOLES } else { end.bits & !bit::HOLES };
    let is_unacked = end.nothing_acked() && ahead > AHEAD_WITHOUT_ACK;
    row.odd.note(Oddity::AboveHoleDataWithoutAnyAcks, is_unacked);
    if blind || is_unacked {
        end.bits |= bit::BLIND;
        end.bits &= !bit::HOLES;
    }
}

/// The stream of `side` is acknowledged up to `ack`: data that was not seen was lost on the way to the sensor.
#[inline]
fn give_up(row: &mut Row<'_>, pool: &mut Pool, side: usize, ack: u32) {
    let end = &row.ends[side & 1];
    if end.is(bit::BLIND) {
        return;
    }
    let ack = match end.is(bit::FINISHED) && ack.wrapping_sub(end.fin) as i32 >= 0 {
        true => end.fin.wrapping_sub(1),
        false => ack,
    };
    if ack.wrapping_sub(end.next) as i32 > 0 {
        lost(row, pool, side, ack);
    }
}

#[cold]
fn lost(row: &mut Row<'_>, pool: &mut Pool, side: usize, ack: u32) {
    let side = side & 1;
    let end = row.ends[side];
    // The numbers of a stream without an observed beginning start with an estimate.
    if ack.wrapping_sub(end.start) <= 2 && row.has(mark::PARTIAL) {
        return;
    }
    let mut next = end.next;
    let mut gaps = [0_u32; 8];
    let mut count = 0;
    let mut gap = |len: u32| {
        if let Some(place) = gaps.get_mut(count) {
            *place = len;
            count += 1;
        }
    };
    if end.is(bit::HOLES)
        && let Some(holes) = pool.known(row.cold.origin.holes)
    {
        let ranges = holes.side(side);
        while let Some((start, past)) = ranges.first().filter(|(s, _)| (s.wrapping_sub(ack) as i32) < 0) {
            if start.wrapping_sub(next) as i32 > 0 {
                gap(start.wrapping_sub(next));
            }
            next = past;
            ranges.pop();
        }
        if ranges.first().is_none() {
            row.ends[side].bits &= !bit::HOLES;
        }
    }
    if ack.wrapping_sub(next) as i32 > 0 {
        gap(ack.wrapping_sub(next));
        next = ack;
    }
    if row.ends.iter().all(End::is_clean) && count > 0 {
        let total = gaps.iter().map(|&len| u64::from(len)).sum::<u64>();
        for _ in 0..count {
            repeat(row, side, Repeated::Gap);
        }
        if let Some(holes) = pool.get(&mut row.cold.origin.holes) {
            holes.uncounted[side] += total;
        }
    }
    row.ends[side].next = next;
}
