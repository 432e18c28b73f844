//! The next message behind a gap.
//!
//! Messages have no mark, so that several things must agree: the first byte is one that this side sends, the length fits the kind, and the
//! content is read to its last byte. Away from the first byte behind the gap, a second message must follow the first.

use super::{
    Exchange, KIND_PUBLISH, KIND_SUBSCRIBE, KIND_UNSUBSCRIBE, Length, Message, has_good_flags, length,
};
use super::{KIND_AUTH, KIND_CONNACK, KIND_CONNECT, KIND_SUBACK, KIND_UNSUBACK};
use crate::Span;
use crate::work::looked_at;
use weir_wire::{Direction, Reader, Time};

/// Number of bytes behind a gap of which each may begin the message that is sought.
const MAX_SKIPPED: usize = 2048;
/// Maximum length in bytes of a message that shows where messages begin.
const MAX_MESSAGE: usize = 2048;
/// Number of bytes that show whether there is such a message.
const MAX_SOUGHT: usize = MAX_SKIPPED + 2 * MAX_MESSAGE;
const KIND_PINGREQ: u8 = 12;
const KIND_PINGRESP: u8 = 13;

/// The bytes behind a gap, up to the next message.
#[derive(Debug, Default)]
pub(super) struct Sought {
    held: Vec<u8>,
    /// Number of the first bytes that were tried.
    tried: usize,
    /// Those of them of which more bytes show whether they begin a message.
    open: Vec<usize>,
}

/// What is known of the next message.
pub(super) enum Found {
    /// The bytes from its first one on.
    Bytes(Vec<u8>),
    /// More bytes will show it.
    Later(Sought),
    /// There is none near.
    Nothing,
}

/// Whether a message begins with some bytes.
enum Begun {
    /// With this length.
    Yes(usize),
    No,
    /// More bytes show it.
    Unknown,
}

impl Sought {
    /// Takes the next bytes of a side. Of several places, the one that is certain after the fewest bytes is taken, so that the result
    /// does not depend on how the stream is cut.
    pub fn next(mut self, data: &[u8], version: Option<u8>, side: Direction) -> Found {
        self.held.extend_from_slice(data);
        looked_at(data.len());
        let new = self.tried..self.held.len().min(MAX_SKIPPED);
        self.tried = new.end.max(new.start);
        let tried = std::mem::take(&mut self.open).into_iter().chain(new);
        let mut certain: Option<(usize, usize)> = None;
        for at in tried {
            match self.end(at, version, side) {
                Begun::Yes(end) if certain.is_none_or(|(first, _)| end < first) => certain = Some((end, at)),
                Begun::Unknown => self.open.push(at),
                _ => {}
            }
        }
        match certain {
            Some((_, at)) => Found::Bytes(self.held.split_off(at)),
            None if self.tried == MAX_SKIPPED && self.open.is_empty() || self.held.len() > MAX_SOUGHT => {
                Found::Nothing
            }
            None => Found::Later(self),
        }
    }

    /// The end of the bytes that show that a message begins at a place.
    fn end(&self, at: usize, version: Option<u8>, side: Direction) -> Begun {
        let bytes = self.held.get(at..).unwrap_or_default();
        let first = match begun(bytes, version, side) {
            Begun::Yes(first) => first,
            other => return other,
        };
        if at == 0 {
            return Begun::Yes(first);
        }
        match begun(bytes.get(first..).unwrap_or_default(), version, side) {
            Begun::Yes(second) => Begun::Yes(at + first + second),
            other => other,
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.held.capacity() + self.open.capacity() * size_of::<usize>()
    }
}

/// Whether a side sends messages of this kind: clients begin connections.
fn sends(side: Direction, kind: u8) -> bool {
    match kind {
        KIND_CONNECT | KIND_SUBSCRIBE | KIND_UNSUBSCRIBE | KIND_PINGREQ => side == Direction::Forward,
        KIND_CONNACK | KIND_SUBACK | KIND_UNSUBACK | KIND_PINGRESP => side == Direction::Reverse,
        _ => true,
    }
}

fn begun(bytes: &[u8], version: Option<u8>, side: Direction) -> Begun {
    let Some(first) = bytes.first().copied() else { return Begun::Unknown };
    let (kind, qos) = (first >> 4, first >> 1 & 3);
    let is_known = has_good_flags(first) && sends(side, kind) && (kind != KIND_AUTH || version == Some(5));
    // Only a publication is sent twice with a flag that says so, and only one that is acknowledged.
    let is_again = first & 8 != 0;
    if !is_known || is_again && (kind != KIND_PUBLISH || qos == 0) {
        return Begun::No;
    }
    let (header, body) = match length(bytes) {
        Length::Is { header, body } if header + body <= MAX_MESSAGE => (header, body),
        Length::Unknown => return Begun::Unknown,
        _ => return Begun::No,
    };
    let Some(variable) = bytes.get(header..).and_then(|rest| rest.get(..body)) else { return Begun::Unknown };
    looked_at(body);
    let mut own = Exchange::new(Time(0), Span::default(), side, kind);
    let mut message =
        Message { kind, qos, is_5: version == Some(5), id: None, reader: Reader::new(variable) };
    let is_read = message.read(&mut own, body).is_some();
    let is_good = match kind {
        KIND_PUBLISH => is_read && has_topic(variable),
        KIND_SUBSCRIBE | KIND_UNSUBSCRIBE => is_read && body > 4,
        KIND_SUBACK | KIND_UNSUBACK => is_read,
        _ => is_read && message.reader.rest().is_empty(),
    };
    if is_good { Begun::Yes(header + body) } else { Begun::No }
}

/// Whether a publication has the name of a topic: text without wildcards.
fn has_topic(variable: &[u8]) -> bool {
    let mut reader = Reader::new(variable);
    let topic = reader.u16().and_then(|length| reader.take(length.into())).unwrap_or_default();
    let is_name = |text: &str| !text.chars().any(|c| c.is_control() || matches!(c, '#' | '+'));
    !topic.is_empty() && std::str::from_utf8(topic).is_ok_and(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes from which on messages are found, when they arrive in pieces of this length.
    fn found(bytes: &[u8], piece: usize) -> Option<Vec<u8>> {
        let mut sought = Sought::default();
        let mut pieces = bytes.chunks(piece);
        while let Some(data) = pieces.next() {
            match sought.next(data, Some(4), Direction::Forward) {
                Found::Bytes(mut found) => {
                    pieces.for_each(|rest| found.extend_from_slice(rest));
                    return Some(found);
                }
                Found::Later(later) => sought = later,
                Found::Nothing => return None,
            }
        }
        None
    }

    #[test]
    fn a_message_is_found_where_it_begins() {
        let publish = b"\x30\x06\0\x03a/bx";
        for piece in [1, 2, 3, 100] {
            assert_eq!(found(publish, piece).as_deref(), Some(&publish[..]));
            let behind = [b"rest of one", &publish[..], b"\xc0\0"].concat();
            assert_eq!(found(&behind, piece).as_deref(), behind.get(11..));
        }
    }

    #[test]
    fn no_message_is_invented() {
        // Of a single message within other bytes, and of a topic that is none.
        assert_eq!(found(b"rest of one\xc0\0no other", 100), None);
        assert_eq!(found(b"\x30\x06\0\x03a/#x\x40", 1), None);
        let noise: Vec<u8> = (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(found(&noise, 1000), None);
    }
}
