//! The bytes of its two streams that a record stands for.
//!
//! Positions count bytes of one direction from the first payload byte of the flow, missing ones included. A session counts
//! what arrives. Its parser notes where messages end, because only the parser knows that, and the session sets the bytes of
//! each record that the parser does not set itself. Positions are of bytes, not of chunks: they do not depend on how a
//! stream was cut.

use crate::names::Names;
use crate::{Asked, Buffer, Columns, Expected, Field, Out, Protocol, Record, Table, Value};
use std::ops::Range;
use weir_wire::Direction;

/// Bytes of the two streams of a flow: one range for each direction.
///
/// Positions count bytes of a direction from the first payload byte of the flow. In a stream, missing bytes count too;
/// datagrams count by their payload.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Span {
    /// Position of the first byte of each direction, by [`Direction`].
    begin: [u64; 2],
    /// Position after the last byte of each direction.
    end: [u64; 2],
}

impl Span {
    /// These positions of the two sides, by [`Direction`].
    pub fn new([forward, reverse]: [Range<u64>; 2]) -> Self {
        Self { begin: [forward.start, reverse.start], end: [forward.end, reverse.end] }
    }

    /// The positions of the bytes that this side sent; empty if there are none.
    pub fn of(&self, side: Direction) -> Range<u64> {
        let at = side as usize & 1;
        self.begin.get(at).copied().unwrap_or_default()..self.end.get(at).copied().unwrap_or_default()
    }

    /// The positions after the last bytes of both sides, added.
    pub(crate) fn reached(&self) -> u64 {
        self.end.iter().fold(0, |sum, end| sum.saturating_add(*end))
    }

    /// Whether it has no bytes of either side.
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Adds later bytes. Bytes of one side between the two spans are within the sum.
    pub(crate) fn add(&mut self, later: Self) {
        let sides = self.begin.iter_mut().zip(&mut self.end).zip(later.begin.into_iter().zip(later.end));
        for ((begin, end), (first, last)) in sides.filter(|(_, (first, last))| first < last) {
            *begin = if begin == end { first } else { first.min(*begin) };
            *end = last.max(*end);
        }
    }

    /// The place with its sides exchanged.
    pub(crate) fn turned(self) -> Self {
        let ([one, other], [end, other_end]) = (self.begin, self.end);
        Self { begin: [other, one], end: [other_end, end] }
    }

    /// The bytes of one side alone.
    pub(crate) fn only(self, side: Direction) -> Self {
        let mut only = Self::default();
        let kept =
            self.begin.into_iter().zip(self.end).enumerate().filter(|(at, _)| *at == side as usize & 1);
        for (at, (begin, end)) in kept {
            if let (Some(place), Some(last)) = (only.begin.get_mut(at), only.end.get_mut(at)) {
                (*place, *last) = (begin, end);
            }
        }
        only
    }
}

/// The positions of a session in both streams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    sides: [Place; 2],
}

/// The position in one stream.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Number of bytes that have arrived.
    arrived: u64,
    /// Number of the last of them that the parser has not noted yet.
    unread: u64,
    /// Number of the bytes before those that belong to the current message.
    message: u64,
}

impl Place {
    /// Position after the last byte that was noted.
    fn read(&self) -> u64 {
        self.arrived.saturating_sub(self.unread)
    }

    /// Position of the first byte of the current message.
    fn begin(&self) -> u64 {
        self.read().saturating_sub(self.message)
    }

    /// Takes note of the bytes up to `unread` bytes before the last one.
    fn note(&mut self, unread: usize, is_next: bool) {
        let unread = (unread as u64).min(self.unread);
        let noted = self.unread - unread;
        self.message = if is_next { noted } else { self.message + noted };
        self.unread = unread;
    }
}

impl Places {
    /// Takes note of the bytes of a chunk, after `gap` missing ones.
    pub fn arrive(&mut self, side: Direction, gap: u64, bytes: usize) {
        let Some(place) = self.sides.get_mut(side as usize & 1) else { return };
        place.arrived += gap + bytes as u64;
        if gap > 0 && place.message + place.unread > 0 {
            // An incomplete message ends with the gap, unless the parser goes on with it. Missing bytes before the first
            // byte of a message are none of its bytes.
            place.message += place.unread + gap;
            place.unread = 0;
        }
        place.unread += bytes as u64;
    }

    /// Takes back the bytes of a chunk that will be read once more.
    pub fn take_back(&mut self, side: Direction, bytes: u64) {
        if let Some(place) = self.sides.get_mut(side as usize & 1) {
            place.arrived = place.arrived.saturating_sub(bytes);
            place.unread = place.unread.saturating_sub(bytes);
        }
    }

    /// Takes note that all bytes before the present chunk, of `bytes` bytes, belong to another parser.
    pub fn begin(&mut self, side: Direction, bytes: usize) {
        for (at, place) in self.sides.iter_mut().enumerate() {
            place.unread = if at == side as usize & 1 { bytes as u64 } else { 0 };
            place.message = 0;
        }
    }

    /// Takes note that the next message of a side has these bytes, up to `unread` bytes before the last one.
    pub fn message(&mut self, side: Direction, unread: usize) {
        if let Some(place) = self.sides.get_mut(side as usize & 1) {
            place.note(unread, true);
        }
    }

    fn more(&mut self, side: Direction, unread: usize) {
        if let Some(place) = self.sides.get_mut(side as usize & 1) {
            place.note(unread, false);
        }
    }

    fn rest(&mut self, side: Direction) {
        self.more(side, 0);
    }

    /// The number of bytes of a side that have arrived.
    pub fn arrived(&self, side: Direction) -> u64 {
        self.sides.get(side as usize & 1).map_or(0, |place| place.arrived)
    }

    /// The numbers of bytes that had arrived before a chunk did.
    pub fn before(&self, side: Direction, bytes: usize) -> [u64; 2] {
        let mut before = self.sides.each_ref().map(|place| place.arrived);
        if let Some(arrived) = before.get_mut(side as usize & 1) {
            *arrived = arrived.saturating_sub(bytes as u64);
        }
        before
    }

    /// Goes to the place before a datagram.
    pub fn go_to(&mut self, before: [u64; 2]) {
        self.sides = before.map(|arrived| Place { arrived, unread: 0, message: 0 });
    }

    /// The current messages of both sides, as far as they were read.
    fn both(&self) -> Span {
        Span { begin: self.sides.each_ref().map(Place::begin), end: self.sides.each_ref().map(Place::read) }
    }
}

/// Sets the bytes that records of a parser stand for.
pub(crate) struct Placing<'a> {
    pub out: &'a mut dyn Out,
    pub places: &'a mut Places,
    /// The side of the chunk that is read; `None` at the end of the flow.
    pub side: Option<Direction>,
    /// The protocols of the flow.
    pub found: &'a mut Names,
}

/// Passes on what a parser within another one emits: its messages are parts of a message of the other.
pub(crate) struct Nested<'a>(pub &'a mut dyn Out);

/// Methods that pass everything on.
macro_rules! pass_on {
    (|$self:ident| $out:expr) => {
        fn takes(&self, table: &Table) -> bool {
            let $self = self;
            $out.takes(table)
        }

        fn reads(&self, table: &'static Table) -> Columns {
            let $self = self;
            $out.reads(table)
        }

        fn asked(&self) -> Asked {
            let $self = self;
            $out.asked()
        }

        fn field(&mut self, table: &'static Table, field: &'static Field, value: Value<'_>) {
            let $self = self;
            $out.field(table, field, value);
        }

        fn buffer(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
            let $self = self;
            $out.buffer(buffer, side, bytes);
        }

        fn buffer_again(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
            let $self = self;
            $out.buffer_again(buffer, side, bytes);
        }

        fn transaction(&mut self, side: Direction, number: u64) {
            let $self = self;
            $out.transaction(side, number);
        }

        fn side_is_complete(&mut self, side: Direction) {
            let $self = self;
            $out.side_is_complete(side);
        }

        fn expect(&mut self, expected: Expected) {
            let $self = self;
            $out.expect(expected);
        }

        fn file(&mut self, file: u64, read: u64) {
            let $self = self;
            $out.file(file, read);
        }

        fn content(&mut self, file: u64, offset: u64, bytes: &[u8]) -> bool {
            let $self = self;
            $out.content(file, offset, bytes)
        }

        fn may_inflate(&mut self) -> bool {
            let $self = self;
            $out.may_inflate()
        }

        fn inflated(&mut self, bytes: u64) {
            let $self = self;
            $out.inflated(bytes);
        }
    };
}

impl Out for Placing<'_> {
    fn record(&mut self, record: Record<'_>) {
        let at = match self.side {
            _ if !record.at.is_empty() => record.at,
            Some(side) => self.places.both().only(side),
            None => self.places.both(),
        };
        self.out.record(Record { at, ..record });
    }

    fn message(&mut self, unread: usize) -> Span {
        let Some(side) = self.side else { return Span::default() };
        self.places.message(side, unread);
        self.places.both().only(side)
    }

    fn more(&mut self, unread: usize) -> Span {
        let Some(side) = self.side else { return Span::default() };
        self.places.more(side, unread);
        self.places.both().only(side)
    }

    fn rest(&mut self, side: Direction) -> Span {
        self.places.rest(side);
        self.places.both().only(side)
    }

    fn here(&self) -> Span {
        self.side.map(|side| self.places.both().only(side)).unwrap_or_default()
    }

    fn both(&self) -> Span {
        self.places.both()
    }

    fn carries(&mut self, protocol: &'static Protocol) {
        self.found.add(protocol);
    }

    pass_on!(|this| this.out);
}

impl Out for Nested<'_> {
    fn record(&mut self, record: Record<'_>) {
        self.0.record(record);
    }

    fn carries(&mut self, protocol: &'static Protocol) {
        self.0.carries(protocol);
    }

    pass_on!(|this| this.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: [Direction; 2] = [Direction::Forward, Direction::Reverse];

    #[test]
    fn messages_follow_each_other_and_gaps_count() {
        let mut places = Places::default();
        let [client, server] = SIDES;
        places.arrive(client, 0, 10);
        places.message(client, 4);
        assert_eq!(places.both().of(client), 0..6);
        places.arrive(client, 0, 5);
        places.more(client, 7);
        places.message(client, 1);
        assert_eq!(places.both().of(client), 8..14);
        places.arrive(server, 100, 3);
        places.message(server, 0);
        assert_eq!((places.both().of(client), places.both().of(server)), (8..14, 100..103));
        // What waits before a gap belongs to the message before it, which ends there.
        places.arrive(client, 5, 10);
        places.message(client, 0);
        assert_eq!(places.both().of(client), 20..30);
    }

    #[test]
    fn missing_bytes_before_the_first_message_are_not_in_it() {
        let mut places = Places::default();
        let [client, _] = SIDES;
        places.arrive(client, 127, 1);
        places.arrive(client, 0, 4);
        places.more(client, 0);
        assert_eq!(places.both().of(client), 127..132);
    }

    #[test]
    fn spans_add_up_by_side() {
        let span = |begin, end| Span { begin, end };
        let mut sum = span([5, 0], [9, 0]);
        sum.add(span([0, 20], [0, 30]));
        assert_eq!(sum, span([5, 20], [9, 30]));
        sum.add(span([12, 25], [14, 26]));
        assert_eq!(sum, span([5, 20], [14, 30]));
        assert_eq!(sum.only(Direction::Reverse), span([0, 20], [0, 30]));
        assert!(sum.only(Direction::Reverse).of(Direction::Forward).is_empty() && !sum.is_empty());
    }
}
