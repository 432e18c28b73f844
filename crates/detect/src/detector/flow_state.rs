//! What is kept of a flow while rules look at it.

use super::renumbering::Renumbering;
use crate::header::Action;
use crate::judging::{Judging, Midstream};
use crate::state::{BitAction, Comparison, FlowInt, IntAction, IntValue};
use std::ops::Range;
use weir_wire::Direction;
use weir_wire::build::flags::{ACK, FIN, RST, SYN};
use weir_wire::header::Tcp;

/// Maximum number of bits, of numbers and of parts that hold, for a flow.
const MOST: usize = 1_000;

/// What rules know of a flow.
#[derive(Debug, Default)]
pub struct FlowState {
    /// How many programs its detector had when its numbers were those of the detector's program.
    pub(super) of_program: u32,
    /// What was seen of the handshake of TCP, as bits.
    handshake: u8,
    /// Packets and bytes of payload of each side.
    pub(super) sent: [Sent; 2],
    /// The extent of each side's stream of TCP.
    extents: [Extent; 2],
    /// Whether a side has reset the connection of TCP.
    is_reset: bool,
    /// The sizes of the streams when what is looked at came, if it waited.
    pub(super) sizes_then: Option<[u64; 2]>,
    /// Bits that are set, in order.
    bits: Vec<u32>,
    ints: Vec<(Box<str>, u32)>,
    /// Parts that hold of rules with several, each with its transaction.
    held: Vec<(Option<u64>, u32)>,
    /// Rules that match once for a side, and have.
    done: Vec<(u32, Direction)>,
    /// Parts about packets alone that fit each side, once they were looked for.
    pub(super) fitting: [Option<Box<[u32]>>; 2],
    /// The number of the group of rules that payload of each side has. The outer value is absent until it is looked for, the inner one where no rule searches.
    pub(super) groups: [Option<Option<u32>>; 2],
    /// The messages of each side in its present transaction.
    pub(super) messages: [Option<Box<Messages>>; 2],
    /// The numbers of the transactions that the sides are in.
    pub(super) transactions: [u64; 2],
    pub(super) windows: [Option<Box<Window>>; 2],
    /// Whether a rule lets the rest of the flow pass.
    pub(super) is_passed: bool,
    /// The packet at which a rule has dropped the flow; the inner value is absent where none was read.
    pub(super) dropped: Option<Option<u32>>,
}

/// Packets and bytes of a side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub packets: u64,
    pub bytes: u64,
    /// Bytes of its SYN that were looked at as those of a packet.
    pub shown: usize,
}

/// The sequence numbers of a side of TCP. Its first segment begins it: a SYN, or in a stream whose handshake was not seen, one
/// with data after a SYN that is assumed.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// The sequence number after the last byte, once a segment was seen.
    next: Option<u32>,
    /// How far it is from the first one.
    size: u64,
    /// The latest number that the other side has acknowledged.
    acknowledged: Option<u32>,
    /// The number of its FIN.
    end: Option<u32>,
}

impl Extent {
    /// Takes a segment. One whose end is before the last byte, by the arithmetic of RFC 9293 3.4, adds nothing.
    fn add(&mut self, sequence: u32, is_syn: bool, bytes: u32) {
        let end = sequence.wrapping_add(bytes).wrapping_add(u32::from(is_syn));
        let added = match self.next {
            Some(next) => end.wrapping_sub(next),
            None => bytes.saturating_add(1),
        };
        if added < 1 << 31 {
            self.size += u64::from(added);
            self.next = Some(end);
        }
    }

    /// Takes an acknowledgement of the other side.
    fn acknowledge(&mut self, number: u32) {
        if self.acknowledged.is_none_or(|before| number.wrapping_sub(before) < 1 << 31) {
            self.acknowledged = Some(number);
        }
    }

    /// Takes a FIN after the bytes of its segment.
    fn finish(&mut self, sequence: u32, bytes: u32) {
        self.end = Some(sequence.wrapping_add(bytes));
    }

    /// Number of bytes that were seen.
    fn bytes(&self) -> u64 {
        // SYN and FIN have a number each.
        let has_end = self.end.is_some_and(|end| self.next == Some(end.wrapping_add(1)));
        self.size.saturating_sub(1 + u64::from(has_end))
    }

    /// Whether all bytes that were seen are acknowledged.
    fn is_acknowledged(&self) -> bool {
        let both = self.acknowledged.zip(self.next);
        both.is_some_and(|(acknowledged, next)| acknowledged.wrapping_sub(next) < 1 << 31)
    }
}

/// The place of a side in an array of two.
pub(super) fn at(direction: Direction) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::Reverse => 1,
    }
}

impl FlowState {
    /// SYN of the initiator, SYN and ACK of the responder, ACK of the initiator.
    const WHOLE: u8 = 7;
    /// ACK of the initiator after its SYN, without an answer.
    const ONESIDE: u8 = 8;
    /// A SYN of either side.
    const BEGUN: u8 = 16;

    /// Takes note of a packet.
    pub(super) fn sees(&mut self, direction: Direction, flags: Option<u8>, bytes: u64) {
        if let Some(sent) = self.sent.get_mut(at(direction)) {
            sent.packets += 1;
            sent.bytes += bytes;
        }
        let Some(flags) = flags else { return };
        if flags & SYN != 0 {
            self.handshake |= Self::BEGUN;
        }
        self.handshake |= match (direction, flags & SYN != 0, flags & ACK != 0) {
            (Direction::Forward, true, false) => 1,
            (Direction::Reverse, true, true) if self.handshake & 1 != 0 => 2,
            (Direction::Forward, false, true) if self.handshake & 2 != 0 => 4,
            (Direction::Forward, false, true) if self.handshake & 1 != 0 => Self::ONESIDE,
            _ => 0,
        };
    }

    /// Takes note of a segment of TCP with these bytes of payload.
    pub(super) fn sees_segment(&mut self, direction: Direction, tcp: &Tcp<'_>, bytes: u32) {
        let [forward, reverse] = &mut self.extents;
        let (mine, other) = match direction {
            Direction::Forward => (forward, reverse),
            Direction::Reverse => (reverse, forward),
        };
        // A RST may have any number.
        match tcp.flags & RST == 0 {
            true => mine.add(tcp.seq, tcp.flags & SYN != 0, bytes),
            false => self.is_reset = true,
        }
        if tcp.flags & ACK != 0 {
            other.acknowledge(tcp.ack);
        }
        if tcp.flags & FIN != 0 {
            mine.finish(tcp.seq, bytes);
        }
    }

    /// Takes note that the bytes of a side's SYN are looked at as those of a packet.
    pub(super) fn shows_syn(&mut self, direction: Direction, bytes: usize) {
        if let Some(sent) = self.sent.get_mut(at(direction)) {
            sent.shown = bytes;
        }
    }

    /// Whether all that waits of a side are the bytes of its SYN, which were looked at as those of a packet, and nothing has followed
    /// it.
    pub(super) fn is_shown_syn(&self, side: usize, window: &Window) -> bool {
        let is_whole = |sent: &Sent| window.offset == 0 && window.bytes.len() == sent.shown;
        self.handshake & !(1 | Self::BEGUN) == 0
            && self.is_oneside()
            && self.sent.get(side).is_some_and(is_whole)
    }

    /// Whether the connection has ended for a side: all bytes of it that were seen are read and acknowledged, and it is reset or
    /// the initiator has sent its FIN. After a FIN of the responder alone the initiator goes on.
    pub(super) fn is_at_end(&self, direction: Direction) -> bool {
        let window = self.windows.get(at(direction)).and_then(Option::as_deref);
        let extent = self.extents.get(at(direction));
        let [initiator, _] = &self.extents;
        let is_read = |(window, extent): (&Window, &Extent)| {
            window.offset.saturating_add(window.bytes.len() as u64) == extent.bytes()
                && extent.is_acknowledged()
        };
        (self.is_reset || initiator.end.is_some()) && window.zip(extent).is_some_and(is_read)
    }

    /// The sizes of both streams of TCP now.
    pub(super) fn sizes_now(&self) -> [u64; 2] {
        self.extents.map(|extent| extent.size)
    }

    /// The sizes of both streams of TCP when what is looked at came.
    pub(super) fn sizes(&self) -> [u64; 2] {
        self.sizes_then.unwrap_or_else(|| self.sizes_now())
    }

    /// Whether a SYN of the initiator was seen.
    fn has_syn(&self) -> bool {
        self.handshake & 1 != 0
    }

    /// What is looked at of the flow, if it is a flow of TCP that may have begun without a SYN.
    pub(super) fn scope(&self, is_tcp: bool, judging: &Judging) -> Midstream {
        if !is_tcp || self.has_syn() { Midstream::Whole } else { judging.midstream }
    }

    /// Whether nothing more of the flow is looked at. What is dropped is looked at until the end of its packet.
    pub(super) fn is_over(&self, packet: Option<u32>) -> bool {
        self.is_passed || self.dropped.is_some_and(|at| at.is_none() || at != packet)
    }

    /// The action that rules have decided on for the rest of the flow: [`Action::Drop`] or [`Action::Pass`]. What drops the flow first
    /// stays, as in Suricata.
    pub fn verdict(&self) -> Option<Action> {
        let passes = || self.is_passed.then_some(Action::Pass);
        self.dropped.map(|_| Action::Drop).or_else(passes)
    }

    /// Whether one side alone has sent.
    pub(super) fn is_oneside(&self) -> bool {
        self.sent.iter().any(|sent| sent.packets == 0)
    }

    /// Takes note that a rule drops the flow.
    pub(super) fn drop_at(&mut self, packet: Option<u32>) {
        self.dropped.get_or_insert(packet);
    }

    /// Whether the handshake was seen, or over other protocols than TCP, whether both sides have sent.
    pub(super) fn is_established(&self, is_tcp: bool, judging: &Judging) -> bool {
        match is_tcp {
            true => {
                self.handshake & Self::WHOLE == Self::WHOLE
                    || judging.is_oneside && self.handshake & Self::ONESIDE != 0
                    || judging.midstream == Midstream::Established && !self.has_syn()
            }
            false => self.sent.iter().all(|sent| sent.packets > 0),
        }
    }

    /// Whether the tests of bits hold.
    pub(super) fn bits_hold(&self, tests: &[(BitAction, Box<[u32]>)]) -> bool {
        tests.iter().all(|(action, bits)| {
            let is_set = |bit: &u32| self.bits.binary_search(bit).is_ok();
            match action {
                BitAction::IsSet => bits.iter().any(is_set),
                BitAction::IsNotSet => !bits.iter().all(is_set),
                BitAction::Set | BitAction::Unset | BitAction::Toggle => true,
            }
        })
    }

    /// Changes bits. Returns whether there was room.
    pub(super) fn change_bits(&mut self, changes: &[(BitAction, Box<[u32]>)]) -> bool {
        let mut has_room = true;
        for (action, bits) in changes {
            for bit in bits {
                match (self.bits.binary_search(bit), action) {
                    (Err(place), BitAction::Set | BitAction::Toggle) => {
                        has_room &= self.bits.len() < MOST;
                        if self.bits.len() < MOST {
                            self.bits.insert(place, *bit);
                        }
                    }
                    (Ok(place), BitAction::Unset | BitAction::Toggle) => {
                        self.bits.remove(place);
                    }
                    _ => {}
                }
            }
        }
        has_room
    }

    fn int(&self, name: &str) -> Option<u32> {
        self.ints.iter().find(|(known, _)| **known == *name).map(|(_, value)| *value)
    }

    fn value(&self, value: &IntValue) -> Option<u32> {
        match value {
            IntValue::Is(is) => Some(*is),
            IntValue::Of(name) => self.int(name),
        }
    }

    /// Whether the tests of numbers hold.
    pub(super) fn ints_hold(&self, tests: &[FlowInt]) -> bool {
        tests.iter().all(|test| match &test.action {
            IntAction::IsSet => self.int(&test.name).is_some(),
            IntAction::IsNotSet => self.int(&test.name).is_none(),
            IntAction::Compare(comparison, with) => {
                let both = self.int(&test.name).zip(self.value(with));
                both.is_some_and(|(is, with)| match comparison {
                    Comparison::Below => is < with,
                    Comparison::AtMost => is <= with,
                    Comparison::Is => is == with,
                    Comparison::Not => is != with,
                    Comparison::AtLeast => is >= with,
                    Comparison::Above => is > with,
                })
            }
            IntAction::Set(_) | IntAction::Add(_) | IntAction::Subtract(_) => true,
        })
    }

    /// Changes numbers. Returns whether there was room.
    pub(super) fn change_ints(&mut self, changes: &[FlowInt]) -> bool {
        let mut has_room = true;
        for change in changes {
            let before = self.int(&change.name);
            let new = match &change.action {
                IntAction::Set(value) => self.value(value),
                // A number without a value begins with 0.
                IntAction::Add(value) => {
                    self.value(value).map(|value| before.unwrap_or(0).saturating_add(value))
                }
                IntAction::Subtract(value) => {
                    self.value(value).map(|value| before.unwrap_or(0).saturating_sub(value))
                }
                IntAction::IsSet | IntAction::IsNotSet | IntAction::Compare(..) => None,
            };
            let Some(new) = new else { continue };
            let is_full = self.ints.len() >= MOST;
            match self.ints.iter_mut().find(|(known, _)| *known == change.name) {
                Some((_, value)) => *value = new,
                None if is_full => has_room = false,
                None => self.ints.push((change.name.clone(), new)),
            }
        }
        has_room
    }

    /// Notes that a part holds. Returns whether there was room.
    pub(super) fn hold(&mut self, transaction: Option<u64>, part: u32) -> bool {
        if self.holds(transaction, part) {
            return true;
        }
        if self.held.len() >= MOST {
            // Neither side comes back to a transaction before those that both are in.
            let oldest = self.transactions.iter().min().copied();
            self.held.retain(|(of, _)| of.is_none() || *of >= oldest);
        }
        let has_room = self.held.len() < MOST;
        if has_room {
            self.held.push((transaction, part));
        }
        has_room
    }

    pub(super) fn holds(&self, transaction: Option<u64>, part: u32) -> bool {
        self.held.contains(&(transaction, part))
    }

    /// The transactions in which a part holds.
    pub(super) fn transactions_of(&self, part: u32) -> Vec<Option<u64>> {
        self.held.iter().filter(|(_, held)| *held == part).map(|(transaction, _)| *transaction).collect()
    }

    /// Forgets what holds of a transaction of these parts, whose rule has matched.
    pub(super) fn forget(&mut self, transaction: Option<u64>, parts: Range<u32>) {
        self.held.retain(|(of, part)| *of != transaction || !parts.contains(part));
    }

    /// Takes note that a rule that matches once for a side does. Returns whether there was room.
    pub(super) fn finish(&mut self, rule: u32, direction: Direction) -> bool {
        let has_room = self.done.len() < MOST;
        if has_room {
            self.done.push((rule, direction));
        }
        has_room
    }

    /// Whether a rule that matches once for a side has.
    pub(super) fn is_done(&self, rule: u32, direction: Direction) -> bool {
        self.done.contains(&(rule, direction))
    }

    /// Whether a SYN of either side was seen, which says who the client is.
    pub fn has_begun(&self) -> bool {
        self.handshake & Self::BEGUN != 0
    }

    /// Exchanges the sides: the client is not the one that it was taken for. What was seen of the handshake stays.
    pub fn turn(&mut self) {
        self.sent.reverse();
        self.extents.reverse();
        self.messages.reverse();
        self.transactions.reverse();
        self.windows.reverse();
        if let Some(sizes) = &mut self.sizes_then {
            sizes.reverse();
        }
        self.done.iter_mut().for_each(|(_, side)| *side = side.opposite());
        // The headers of rules fit the sides otherwise.
        self.fitting = [None, None];
        self.groups = [None, None];
    }

    /// Forgets what is known of rules.
    pub(super) fn forget_rules(&mut self) {
        self.renumber(&Renumbering::default());
    }

    /// Gives rules, their parts and bits the numbers of another program.
    pub(super) fn renumber(&mut self, to: &Renumbering) {
        self.bits = self.bits.iter().filter_map(|bit| to.bit(*bit)).collect();
        self.bits.sort_unstable();
        let held = std::mem::take(&mut self.held);
        self.held = held.into_iter().filter_map(|(of, part)| Some((of, to.part(part)?))).collect();
        let done = std::mem::take(&mut self.done);
        self.done = done.into_iter().filter_map(|(rule, side)| Some((to.rule(rule)?, side))).collect();
        self.fitting = [None, None];
        self.groups = [None, None];
        for messages in self.messages.iter_mut().flatten() {
            let candidates = std::mem::take(&mut messages.candidates).into_iter();
            let renumbered = candidates.filter_map(|one| Some(Candidate { part: to.part(one.part)?, ..one }));
            messages.candidates = renumbered.collect();
            messages.candidates.sort_unstable();
        }
    }

    /// The values of buffers that are known of a transaction, each with its side and its buffer.
    pub fn values(&self, transaction: u64) -> impl Iterator<Item = (Direction, &'static str, &[u8])> {
        let sides = [Direction::Forward, Direction::Reverse].into_iter().zip(&self.messages);
        let of_it = sides.filter_map(move |(side, messages)| {
            let messages = messages.as_deref().filter(|messages| messages.number == transaction)?;
            Some(messages.values().map(move |(name, value)| (side, name, value)))
        });
        of_it.flatten()
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        let messages = self.messages.iter().flatten().map(|one| one.memory());
        let windows = self.windows.iter().flatten().map(|one| size_of::<Window>() + one.bytes.capacity());
        let fitting = self.fitting.iter().flatten().map(|fitting| fitting.len() * 4);
        self.bits.capacity() * size_of::<u32>()
            + self.ints.capacity() * size_of::<(Box<str>, u32)>()
            + self.held.capacity() * size_of::<(Option<u64>, u32)>()
            + self.done.capacity() * size_of::<(u32, Direction)>()
            + messages.chain(windows).chain(fitting).sum::<usize>()
    }
}

/// The buffer with the bytes of a file.
pub(super) const DATA_OF_FILE: &str = "file.data";
/// The last buffer of a file without bytes.
pub(super) const KIND_OF_FILE: &str = "file.magic";
/// The first buffer of the end of a file: those of its beginning follow once more.
pub(super) const END_OF_FILE: &str = "file.least_size";
/// The buffers of a file that are known at its end, in the order in which they come.
pub(super) const AT_END_OF_FILE: [&str; 5] =
    [END_OF_FILE, "file.size", "file.md5", "file.sha1", "file.sha256"];
/// The buffers of a file, in the order in which they come.
pub(super) const OF_FILE: [&str; 8] = {
    let [least_size, size, md5, sha1, sha256] = AT_END_OF_FILE;
    [least_size, size, md5, sha1, sha256, "file.name", KIND_OF_FILE, DATA_OF_FILE]
};

/// Bytes of messages of a side that are kept, without what comes in pieces.
const MESSAGES: usize = 64 << 10;
/// The buffers of a side in a transaction.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The number of the transaction.
    pub number: u64,
    bytes: Vec<u8>,
    /// How many of the bytes came in pieces.
    of_bodies: usize,
    /// Bytes of a body, or of another buffer that comes in pieces, that are looked at: the latest limit.
    limit: usize,
    values: Vec<(&'static str, Range<usize>)>,
    /// The number of values that were looked at.
    looked_at: usize,
    /// The bodies that are not whole yet.
    bodies: Vec<Body>,
    /// Parts that were found, in order: other buffers may still come.
    pub candidates: Vec<Candidate>,
}

/// A part that was found in messages.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Candidate {
    pub part: u32,
    pub tried: Tried,
}

/// What came of the tests of a part.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Tried {
    /// They held. A part holds once in a transaction.
    Holds,
    /// They did not hold for the values so far.
    Fails,
    /// They were not tried.
    NotYet,
}

impl Messages {
    /// Those of the transaction with this number.
    pub fn of(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// Adds a value. Returns whether there was room: without, the value is cut or left out.
    pub fn add(&mut self, buffer: &'static str, value: &[u8]) -> bool {
        let room = MESSAGES.saturating_sub(self.bytes.len() - self.of_bodies);
        self.push(buffer, value, room)
    }

    /// Adds as much of a value as there is room for. Returns whether that is the whole value.
    fn push(&mut self, buffer: &'static str, value: &[u8], room: usize) -> bool {
        let kept = value.get(..room).unwrap_or(value);
        let is_left_out = self.values.len() >= MOST || kept.is_empty() && !value.is_empty();
        if !is_left_out {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(kept);
            self.values.push((buffer, from..from + kept.len()));
        }
        !is_left_out && kept.len() == value.len()
    }

    /// Adds the next piece of a body; an empty one ends it. Returns whether the body is ready to be looked at: it is whole, or as
    /// long as bodies are looked at, which is `limit` in bytes.
    pub fn add_piece(&mut self, buffer: &'static str, piece: &[u8], limit: usize) -> bool {
        self.limit = limit;
        let place = self.bodies.iter().position(|body| body.buffer == buffer).unwrap_or(self.bodies.len());
        if place == self.bodies.len() {
            self.bodies.push(Body { buffer, bytes: Vec::new(), is_ready: false });
        }
        let Some(body) = self.bodies.get_mut(place) else { return false };
        let mut is_ready = false;
        if !body.is_ready {
            let room = limit.saturating_sub(body.bytes.len());
            body.bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
            is_ready = body.bytes.len() >= limit || piece.is_empty() && !body.bytes.is_empty();
        }
        if is_ready {
            body.is_ready = true;
            let bytes = std::mem::take(&mut body.bytes);
            self.push_body(buffer, &bytes);
        }
        if piece.is_empty() {
            self.bodies.swap_remove(place);
        }
        is_ready
    }

    fn push_body(&mut self, buffer: &'static str, bytes: &[u8]) {
        let before = self.bytes.len();
        // A head and a body.
        self.push(buffer, bytes, (2 * self.limit).saturating_sub(self.of_bodies));
        self.of_bodies += self.bytes.len() - before;
    }

    /// Makes values of the bodies whose ends did not come.
    pub fn end_bodies(&mut self) {
        for body in std::mem::take(&mut self.bodies) {
            if !body.bytes.is_empty() {
                self.push_body(body.buffer, &body.bytes);
            }
        }
    }

    fn memory(&self) -> usize {
        let bodies = self.bodies.iter().map(|body| size_of::<Body>() + body.bytes.capacity());
        let values = self.values.capacity() * size_of::<(&str, Range<usize>)>();
        let candidates = self.candidates.capacity() * size_of::<Candidate>();
        size_of::<Self>() + self.bytes.capacity() + values + candidates + bodies.sum::<usize>()
    }

    /// Whether a value of a protocol is there, whose buffers have names that begin so.
    pub fn is_of(&self, protocol: &str) -> bool {
        self.values.iter().any(|(name, _)| name.starts_with(protocol))
    }

    /// Whether there are values that were not looked at.
    pub fn has_new(&self) -> bool {
        self.values.len() > self.looked_at
    }

    /// The values that were not looked at, each with its buffer.
    pub fn new_values(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        self.values().skip(self.looked_at)
    }

    /// Whether a value of a buffer of [`OF_FILE`] begins another file than that of the last values.
    pub fn begins_file(&self, buffer: &str) -> bool {
        let place = |name: &str| OF_FILE.iter().position(|of| *of == name);
        let known = self.values.last().and_then(|(name, _)| place(name));
        buffer == END_OF_FILE || place(buffer).zip(known).is_some_and(|(new, known)| known >= new)
    }

    /// Forgets the values of the last file, which were looked at: what is asked of files is asked of one file.
    pub fn forget_file(&mut self) {
        while let Some((name, range)) = self.values.pop_if(|(name, _)| OF_FILE.contains(name)) {
            self.bytes.truncate(range.start);
            if name == DATA_OF_FILE {
                self.of_bodies -= range.len();
            }
        }
        // Other values may have come after those of the file; their bytes stay where they are.
        let looked_at = self.values.iter().take(self.looked_at);
        self.looked_at = looked_at.filter(|(name, _)| !OF_FILE.contains(name)).count();
        self.values.retain(|(name, _)| !OF_FILE.contains(name));
    }

    /// Whether the values of the last file are those of its end.
    pub fn ends_file(&self) -> bool {
        self.values.iter().any(|(name, _)| *name == END_OF_FILE)
    }

    /// Takes note that all values so far were looked at.
    pub fn are_looked_at(&mut self) {
        self.looked_at = self.values.len();
    }

    /// The values, each with its buffer.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        self.values.iter().map(|(name, range)| (*name, self.bytes.get(range.clone()).unwrap_or_default()))
    }
}

/// A body whose pieces come.
#[derive(Debug)]
struct Body {
    buffer: &'static str,
    bytes: Vec<u8>,
    /// Whether it was as long as bodies are looked at: further pieces are left out.
    is_ready: bool,
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub bytes: Vec<u8>,
    /// Number of the first bytes that were looked at.
    pub old: usize,
    /// The place of the first byte in the stream.
    pub offset: u64,
    /// The sizes of both streams when its last bytes came.
    pub sizes: [u64; 2],
}
