//! Packets of the connection-oriented protocol (C706, 12.6; MS-RPCE, 2.2.2).

use std::fmt;

/// Length of the header that all packets have, in bytes.
pub(crate) const HEADER: usize = 16;
/// Maximum number of contexts of one bind, or of their results, that are read.
pub(crate) const MAX_CONTEXTS: usize = 32;

/// Types of packets (C706, 12.6.4.1).
pub(crate) mod kind {
    pub const REQUEST: u8 = 0;
    pub const RESPONSE: u8 = 2;
    pub const FAULT: u8 = 3;
    pub const BIND: u8 = 11;
    pub const BIND_ACK: u8 = 12;
    pub const BIND_NAK: u8 = 13;
    pub const ALTER_CONTEXT: u8 = 14;
    pub const ALTER_CONTEXT_RESPONSE: u8 = 15;
    pub const AUTH3: u8 = 16;
    pub const CANCEL: u8 = 18;
    pub const ORPHANED: u8 = 19;
}

/// Flags of a packet (C706, 12.6.3.1): the first and the last one of a call, a reserved bit, an identifier of an object.
const FIRST: u8 = 1;
const LAST: u8 = 2;
const RESERVED: u8 = 8;
const OBJECT: u8 = 0x80;

/// Length of an authentication verifier without its token (MS-RPCE, 2.2.2.11).
const VERIFIER: usize = 8;

/// The name of a type, in Suricata's words.
pub(crate) fn name(kind: u8) -> String {
    const NAMES: [&str; 20] = [
        "REQUEST",
        "PING",
        "RESPONSE",
        "FAULT",
        "WORKING",
        "NOCALL",
        "REJECT",
        "ACK",
        "CL_CANCEL",
        "FACK",
        "CANCEL_ACK",
        "BIND",
        "BINDACK",
        "BINDNACK",
        "ALTER_CONTEXT",
        "ALTER_CONTEXT_RESP",
        "AUTH3",
        "SHUTDOWN",
        "CO_CANCEL",
        "ORPHANED",
    ];
    NAMES.get(usize::from(kind)).map_or_else(|| format!("UNKNOWN-{kind}"), |name| (*name).to_owned())
}

/// An identifier of an interface (C706, appendix A), as a number in the order of its text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Uuid(pub u128);

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |bits: u32, digits: u32| self.0 >> bits & ((1 << (4 * digits)) - 1);
        let [low, middle, high, sequence] = [part(96, 8), part(80, 4), part(64, 4), part(48, 4)];
        write!(out, "{low:08x}-{middle:04x}-{high:04x}-{sequence:04x}-{:012x}", part(0, 12))
    }
}

/// Numbers in the order of bytes that the sender chose.
#[derive(Clone, Copy)]
struct Numbers<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

impl Numbers<'_> {
    fn u16(&self, at: usize) -> Option<u16> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn uuid(&self, at: usize) -> Option<Uuid> {
        let (low, middle, high) = (self.u32(at)?, self.u16(at + 4)?, self.u16(at + 6)?);
        let rest = u64::from_be_bytes(*self.bytes.get(at + 8..)?.first_chunk()?);
        let begin = u128::from(low) << 96 | u128::from(middle) << 80 | u128::from(high) << 64;
        Some(Uuid(begin | u128::from(rest)))
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Lower version number; the higher one is 5.
    pub minor: u8,
    /// Type of the packet: see [`kind`].
    pub kind: u8,
    flags: u8,
    /// Whether the least significant byte of a number comes first.
    pub is_little: bool,
    /// Length of the packet in bytes.
    pub length: usize,
    /// Length of the verifier's token in bytes; 0 without a verifier.
    token: usize,
    /// Number of the call, equal in request and response.
    pub call: u32,
}

impl Header {
    /// Reads a header; `None` if bytes begin no packet, or are too few.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [5, minor, kind, flags, order, _, _, _, ..] = *bytes else { return None };
        may_begin(bytes).then_some(())?;
        let numbers = Numbers { bytes, is_little: order & 0x10 != 0 };
        let (length, token) = (usize::from(numbers.u16(8)?), usize::from(numbers.u16(10)?));
        let verifier = if token > 0 { VERIFIER + token } else { 0 };
        let is_whole = length >= shortest(kind) + verifier;
        let call = numbers.u32(12)?;
        is_whole.then_some(Self { minor, kind, flags, is_little: numbers.is_little, length, token, call })
    }

    /// Whether the packet is the first one of its call.
    pub fn is_first(&self) -> bool {
        self.flags & FIRST != 0
    }

    /// Whether the packet is the last one of its call.
    pub fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }

    /// Whether a client sends such packets.
    pub fn is_asking(&self) -> bool {
        use kind::*;
        matches!(self.kind, REQUEST | BIND | ALTER_CONTEXT | AUTH3 | CANCEL | ORPHANED)
    }
}

/// Whether the first bytes, however few, are those of a packet: version 5.0 or 5.1, a type of this protocol, no reserved flag, ASCII,
/// and numbers in either order with those of IEEE.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    use kind::*;
    let fits = |(at, byte): (usize, &u8)| match at {
        0 => *byte == 5,
        1 => *byte <= 1,
        2 => matches!(*byte, REQUEST | RESPONSE | FAULT | BIND..=ORPHANED),
        3 => byte & RESERVED == 0,
        4 => matches!(*byte, 0 | 0x10),
        _ => *byte == 0,
    };
    bytes.iter().take(8).enumerate().all(fits)
}

/// The type of a packet, of which only the first eight bytes need to be good.
pub(crate) fn kind_of(bytes: &[u8]) -> Option<u8> {
    bytes.get(2).copied().filter(|_| bytes.len() >= 8 && may_begin(bytes))
}

/// The minimum length of a packet in bytes, without a verifier.
fn shortest(kind: u8) -> usize {
    use kind::*;
    match kind {
        REQUEST | RESPONSE | FAULT => HEADER + 8,
        // A bind has at least one context with one transfer syntax.
        BIND | ALTER_CONTEXT => HEADER + 12 + 44,
        BIND_ACK | ALTER_CONTEXT_RESPONSE => HEADER + 10,
        BIND_NAK => HEADER + 2,
        _ => HEADER,
    }
}

/// A packet, or its beginning.
pub(crate) struct Pdu<'a> {
    pub header: Header,
    /// What follows the header.
    all: &'a [u8],
    /// What follows the header, without the verifier.
    body: Numbers<'a>,
    /// The verifier, if all of it is here.
    pub verifier: Option<Verifier<'a>>,
}

/// An authentication verifier (MS-RPCE, 2.2.2.11).
#[derive(Clone, Copy)]
pub(crate) struct Verifier<'a> {
    /// Number of the mechanism.
    pub kind: u8,
    /// Number of the level of protection.
    pub level: u8,
    /// Number of bytes before the verifier that fill up the packet.
    padding: usize,
    /// The mechanism's token.
    pub token: &'a [u8],
}

/// An interface that a bind asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// Number by which requests name it.
    pub number: u16,
    pub uuid: Uuid,
    /// Higher and lower version number of the interface.
    pub version: [u16; 2],
}

/// What an acknowledgement says of an interface: the result, 0 for acceptance, and the reason of a rejection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub result: u16,
    pub reason: u16,
}

/// What a request says besides the data of the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub context: u16,
    /// Number of the operation.
    pub operation: u16,
}

impl<'a> Pdu<'a> {
    /// Reads a packet, of which the end may be missing.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let header = Header::read(bytes)?;
        let bytes = bytes.get(..header.length).unwrap_or(bytes);
        let all = bytes.get(HEADER..)?;
        let verifier = if header.token > 0 { header.length - header.token - VERIFIER } else { header.length };
        let body = all.get(..verifier - HEADER).unwrap_or(all);
        let verifier = match bytes.get(verifier..) {
            Some([kind, level, padding, _, _, _, _, _, token @ ..]) if token.len() == header.token => {
                Some(Verifier { kind: *kind, level: *level, padding: usize::from(*padding), token })
            }
            _ => None,
        };
        Some(Self { header, all, body: Numbers { bytes: body, is_little: header.is_little }, verifier })
    }

    /// What a request says (C706, 12.6.4.9).
    pub fn asked(&self) -> Option<Asked> {
        Some(Asked { context: self.body.u16(4)?, operation: self.body.u16(6)? })
    }

    /// The context of a response or a fault (C706, 12.6.4.10 and 12.6.4.7).
    pub fn answered_context(&self) -> Option<u16> {
        self.body.u16(4)
    }

    /// Length of the data of a call in the packet, in bytes.
    pub fn data(&self) -> usize {
        let object =
            if self.header.flags & OBJECT != 0 && self.header.kind == kind::REQUEST { 16 } else { 0 };
        let verifier = if self.header.token > 0 { self.header.token + VERIFIER } else { 0 };
        let padding = self.verifier.map_or(0, |verifier| verifier.padding);
        self.header.length.saturating_sub(HEADER + 8 + object + verifier + padding)
    }

    /// What follows the numbers of a call or response, with an identifier of an object, padding and verifier.
    pub fn after_numbers(&self) -> &'a [u8] {
        self.all.get(8..).unwrap_or_default()
    }

    /// What follows the header, with the numbers of a call or response.
    pub fn after_header(&self) -> &'a [u8] {
        self.all
    }

    /// The status of a fault (C706, 12.6.4.7).
    pub fn fault(&self) -> Option<u32> {
        self.body.u32(8)
    }

    /// The reason for which a bind is rejected (C706, 12.6.4.5).
    pub fn refusal(&self) -> Option<u16> {
        self.body.u16(0)
    }

    /// The interfaces of a bind or a change of contexts (C706, 12.6.4.3). Fewer than the packet announces if it is malformed or has more
    /// than [`MAX_CONTEXTS`].
    pub fn contexts(&self) -> impl Iterator<Item = Context> {
        const SYNTAX: usize = 20;
        let count = usize::from(self.body.bytes.get(8).copied().unwrap_or(0)).min(MAX_CONTEXTS);
        let (body, mut at) = (self.body, 12);
        std::iter::from_fn(move || {
            let (number, syntaxes) = (body.u16(at)?, *body.bytes.get(at + 2)?);
            let (uuid, version) = (body.uuid(at + 4)?, body.u32(at + SYNTAX)?);
            at += 4 + SYNTAX + SYNTAX * usize::from(syntaxes);
            let [high, low] = [version as u16, (version >> 16) as u16];
            Some(Context { number, uuid, version: [high, low] })
        })
        .take(count)
    }

    /// The number of interfaces that a bind announces.
    pub fn announced_contexts(&self) -> usize {
        usize::from(self.body.bytes.get(8).copied().unwrap_or(0))
    }

    /// The secondary address of an acknowledgement (C706, 12.6.4.4): the pipe, or the port.
    pub fn address(&self) -> Option<&'a [u8]> {
        let length = usize::from(self.body.u16(8)?);
        let address = self.body.bytes.get(10..)?.get(..length)?;
        let text = address.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        address.get(..text)
    }

    /// The results of an acknowledgement, in the order of the interfaces.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        const RESULT: usize = 24;
        let length = self.body.u16(8).map_or(0, usize::from);
        // They begin at a multiple of four.
        let begin = (10 + length).next_multiple_of(4);
        let count = usize::from(self.body.bytes.get(begin).copied().unwrap_or(0)).min(MAX_CONTEXTS);
        let body = self.body;
        (0..count).map_while(move |at| {
            let at = begin + 4 + at * RESULT;
            Some(Outcome { result: body.u16(at)?, reason: body.u16(at + 2)? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_its_usual_text() {
        let uuid = Uuid(0x12345778_1234_abcd_ef00_0123456789ac);
        assert_eq!(uuid.to_string(), "12345778-1234-abcd-ef00-0123456789ac");
    }

    /// Both orders of bytes give equal packets.
    #[test]
    fn a_bind_is_read_in_either_order_of_bytes() {
        let little = b"\x05\0\x0b\x03\x10\0\0\0H\0\0\0\x07\0\0\0\xb8\x10\xb8\x10\0\0\0\0\x01\0\0\0\
            \x02\0\x01\0\x08\x83\xaf\xe1\x1f\x5d\xc9\x11\x91\xa4\x08\0+\x14\xa0\xfa\x03\0\x01\0\
            \x04]\x88\x8a\xeb\x1c\xc9\x11\x9f\xe8\x08\0+\x10H`\x02\0\0\0";
        let big = b"\x05\0\x0b\x03\0\0\0\0\0H\0\0\0\0\0\x07\x10\xb8\x10\xb8\0\0\0\0\x01\0\0\0\
            \0\x02\x01\0\xe1\xaf\x83\x08\x5d\x1f\x11\xc9\x91\xa4\x08\0+\x14\xa0\xfa\0\x01\0\x03\
            \x8a\x88]\x04\x1c\xeb\x11\xc9\x9f\xe8\x08\0+\x10H`\0\0\0\x02";
        for bytes in [&little[..], big] {
            let pdu = Pdu::read(bytes).unwrap();
            assert_eq!((pdu.header.call, pdu.header.length, pdu.header.is_asking()), (7, 72, true));
            let contexts: Vec<_> = pdu.contexts().collect();
            let [context] = contexts.as_slice() else { panic!("{contexts:?}") };
            assert_eq!((context.number, context.version), (2, [3, 1]));
            assert_eq!(context.uuid.to_string(), "e1af8308-5d1f-11c9-91a4-08002b14a0fa");
        }
    }

    #[test]
    fn the_data_of_a_call_have_neither_object_nor_verifier() {
        let head = |flags: u8, length: u16, token: u8| {
            let [low, high] = length.to_le_bytes();
            let begin = [5, 0, 0, flags, 0x10, 0, 0, 0, low, high, token, 0, 1, 0, 0, 0];
            let mut packet = [&begin[..], &[0; 8]].concat();
            packet.resize(length.into(), 0);
            packet
        };
        assert_eq!(Pdu::read(&head(3, 30, 0)).map(|pdu| pdu.data()), Some(6));
        assert_eq!(Pdu::read(&head(0x83, 46, 0)).map(|pdu| pdu.data()), Some(6));
        let mut signed = head(3, 24 + 8 + 8 + 16, 16);
        signed[32..40].copy_from_slice(&[10, 5, 2, 0, 0, 0, 0, 0]);
        let pdu = Pdu::read(&signed).unwrap();
        assert_eq!(
            (pdu.data(), pdu.verifier.map(|verifier| (verifier.kind, verifier.level))),
            (6, Some((10, 5)))
        );
        // A verifier that does not fit.
        assert!(Pdu::read(&head(3, 40, 30)).is_none());
    }
}
