//! Whether the bytes after a gap begin a message.
//!
//! Messages have no mark, so that several things must agree: the first byte is one that this side sends, the length fits the kind, and the
//! content is read to its last byte. Away from the first byte after the gap, a second message must follow the first.

use super::{
    Exchange, KIND_PUBLISH, KIND_SUBSCRIBE, KIND_UNSUBSCRIBE, Length, Message, has_good_flags, length,
};
use super::{KIND_AUTH, KIND_CONNACK, KIND_CONNECT, KIND_SUBACK, KIND_UNSUBACK};
use crate::Span;
use crate::sought::{Begun, MAX_MESSAGE};
use crate::work::looked_at;
use weir_wire::{Direction, Reader, Time};

const KIND_PINGREQ: u8 = 12;
const KIND_PINGRESP: u8 = 13;

/// Whether messages begin with the bytes `at` bytes after a gap.
pub(super) fn begin(at: usize, bytes: &[u8], version: Option<u8>, side: Direction) -> Begun {
    let first = match begun(bytes, version, side) {
        Begun::Yes(first) if at > 0 => first,
        other => return other,
    };
    match begun(bytes.get(first..).unwrap_or_default(), version, side) {
        Begun::Yes(second) => Begun::Yes(first + second),
        other => other,
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
    let mut message = Message {
        kind,
        qos,
        is_5: version == Some(5),
        id: None,
        payload: None,
        reader: Reader::new(variable),
    };
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
    use crate::sought::{Found, Sought};

    /// The bytes from which on messages are found, when they arrive in pieces of this length.
    fn found(bytes: &[u8], piece: usize) -> Option<Vec<u8>> {
        let mut sought = Sought::default();
        let mut pieces = bytes.chunks(piece);
        while let Some(data) = pieces.next() {
            match sought.next(data, Time(0), |at, bytes| begin(at, bytes, Some(4), Direction::Forward)) {
                Found::Bytes(found) => {
                    let mut found = found.bytes().to_vec();
                    pieces.for_each(|rest| found.extend_from_slice(rest));
                    return Some(found);
                }
                Found::Later(later) => sought = later,
                Found::Nothing(_) => return None,
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
