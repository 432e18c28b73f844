//! Messages of Kerberos (RFC 4120, 5), as far as they are not encrypted.

use crate::ber::{self, expect, integer, opened, tag, value};
use crate::messages::Length;
use crate::sought::Begun;
use weir_wire::{Direction, Reader, Time};

/// Maximum length of a message in bytes: requests hold tickets with the groups of a user, at most 65,535 bytes (MS-KILE, 3.1.1.4).
const MAX_MESSAGE: usize = 1 << 20;
/// Maximum number of components of a name.
const MAX_COMPONENTS: usize = 8;
/// Maximum length of a name in bytes.
const MAX_NAME: usize = 512;

/// Types of messages, which are the numbers of their tags (RFC 4120, 5.10).
pub(super) mod kind {
    pub const AS_REQUEST: u8 = 10;
    pub const AS_REPLY: u8 = 11;
    pub const TGS_REQUEST: u8 = 12;
    pub const TGS_REPLY: u8 = 13;
    pub const AP_REQUEST: u8 = 14;
    pub const AP_REPLY: u8 = 15;
    pub const ERROR: u8 = 30;
}

/// The name of a principal (RFC 4120, 5.2.2): its components as sent, at most 8 of at most 512 bytes.
pub(super) struct Name(pub Vec<Vec<u8>>);

impl Name {
    /// Reads a name. Of components and bytes beyond the limits nothing is kept.
    fn read(content: &[u8]) -> Option<Self> {
        let (_, list) = Members::of(content)?.find(|(number, _)| *number == 1)?;
        let mut list = Reader::new(expect(&mut Reader::new(list), tag::SEQUENCE)?);
        let mut parts = Vec::new();
        while let Some((_, part)) = value(&mut list).filter(|_| parts.len() < MAX_COMPONENTS) {
            parts.push(part.get(..MAX_NAME).unwrap_or(part).to_vec());
        }
        Some(Self(parts))
    }

    /// The components with a slash between them.
    pub fn text(&self) -> String {
        let parts: Vec<_> = self.0.iter().map(|part| crate::lossless(part)).collect();
        parts.join("/")
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.0.iter().map(|part| size_of::<Vec<u8>>() + part.capacity()).sum()
    }
}

/// A message.
#[derive(Default)]
pub(super) struct Message {
    pub kind: u8,
    /// Of the client.
    pub client: Option<Name>,
    pub realm: Option<String>,
    pub service: Option<Name>,
    /// Bits of the KDC's options in the order of RFC 4120, 5.4.1: the first one is the highest.
    pub options: Option<u32>,
    pub from: Option<Time>,
    pub till: Option<Time>,
    pub nonce: Option<i64>,
    /// Encryption types of the part for the client, and of the ticket.
    pub encryption: Option<i64>,
    pub ticket: Option<i64>,
    pub error: Option<i64>,
}

/// The values of a sequence with the numbers of their tags.
struct Members<'a>(Reader<'a>);

impl<'a> Members<'a> {
    fn of(sequence: &'a [u8]) -> Option<Self> {
        let (_, content) = opened(&mut Reader::new(sequence)).filter(|(kind, _)| *kind == tag::SEQUENCE)?;
        Some(Self(Reader::new(content)))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, content) = opened(&mut self.0)?;
        (kind & 0xe0 == 0xa0).then_some((kind & 0x1f, content))
    }
}

fn number(content: &[u8]) -> Option<i64> {
    integer(expect(&mut Reader::new(content), tag::INTEGER)?)
}

/// A string, also of a kind that is not allowed here.
fn text(content: &[u8]) -> Option<String> {
    let (_, bytes) = value(&mut Reader::new(content))?;
    Some(crate::lossless(bytes.get(..MAX_NAME).unwrap_or(bytes)).into_owned())
}

/// The encryption type of encrypted data (RFC 4120, 5.2.9).
fn encryption(content: &[u8]) -> Option<i64> {
    Members::of(content)?.find(|(kind, _)| *kind == 0).and_then(|(_, content)| number(content))
}

/// A point in time as text, `20370913024805Z` (RFC 4120, 5.2.3).
fn time(content: &[u8]) -> Option<Time> {
    let (_, text) = value(&mut Reader::new(content))?;
    let digits = text.strip_suffix(b"Z").filter(|digits| digits.len() == 14)?;
    let part = |range: std::ops::Range<usize>| -> Option<i64> {
        digits.get(range)?.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
    let (hour, minute, second) = (part(8..10)?, part(10..12)?, part(12..14)?);
    let is_good =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    let seconds = u64::try_from(seconds).ok().filter(|_| is_good)?;
    Some(Time(seconds.checked_mul(1_000_000_000)?))
}

impl Message {
    /// Reads a message, of which the end may be missing.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (tag, content) = opened(&mut Reader::new(bytes))?;
        let mut message = Self { kind: tag & 0x1f, ..Self::default() };
        let members = Members::of(content)?;
        match message.kind {
            kind::AS_REQUEST | kind::TGS_REQUEST => {
                for (number, content) in members.filter(|(number, _)| *number == 4) {
                    let _: u8 = number;
                    message.body(content);
                }
            }
            kind::AS_REPLY | kind::TGS_REPLY => message.reply(members),
            kind::ERROR => message.error(members),
            kind::AP_REQUEST => {
                for (_, content) in members.filter(|(number, _)| *number == 3) {
                    message.ticket(content);
                }
            }
            kind::AP_REPLY => {}
            _ => return None,
        }
        Some(message)
    }

    /// Reads the body of a request (RFC 4120, 5.4.1).
    fn body(&mut self, content: &[u8]) {
        for (kind, content) in Members::of(content).into_iter().flatten() {
            match kind {
                // A string of bits: the first byte is the number of unused ones.
                0 => {
                    let bits = value(&mut Reader::new(content)).and_then(|(_, bits)| bits.get(1..5));
                    self.options = bits.and_then(|bits| Reader::new(bits).u32());
                }
                1 => self.client = Name::read(content),
                2 => self.realm = text(content),
                3 => self.service = Name::read(content),
                4 => self.from = time(content),
                5 => self.till = time(content),
                7 => self.nonce = number(content),
                _ => {}
            }
        }
    }

    fn reply(&mut self, members: Members<'_>) {
        for (kind, content) in members {
            match kind {
                3 => self.realm = text(content),
                4 => self.client = Name::read(content),
                5 => self.ticket(content),
                6 => self.encryption = encryption(content),
                _ => {}
            }
        }
    }

    /// Reads a ticket (RFC 4120, 5.3): its realm is that of the service.
    fn ticket(&mut self, content: &[u8]) {
        const TICKET: u8 = 0x61;
        let ticket = opened(&mut Reader::new(content)).filter(|(kind, _)| *kind == TICKET);
        for (kind, content) in ticket.and_then(|(_, content)| Members::of(content)).into_iter().flatten() {
            match kind {
                1 if self.kind == kind::AP_REQUEST => self.realm = text(content),
                2 => self.service = Name::read(content),
                3 => self.ticket = encryption(content),
                _ => {}
            }
        }
    }

    /// Reads an error (RFC 4120, 5.9.1).
    fn error(&mut self, members: Members<'_>) {
        for (kind, content) in members {
            match kind {
                6 => self.error = number(content),
                7 => self.realm = text(content),
                8 => self.client = Name::read(content),
                10 => self.service = Name::read(content),
                _ => {}
            }
        }
    }
}

/// Length of a message in a stream, which its first four bytes have (RFC 4120, 7.2.2).
pub(super) fn length(head: &[u8]) -> Length {
    match head.first_chunk::<5>() {
        None => Length::Within(5),
        Some([a, b, c, d, tag]) => match u32::from_be_bytes([*a, *b, *c, *d]) as usize {
            size @ 1..=MAX_MESSAGE if is_kind(*tag) => Length::Is(4 + size),
            _ => Length::Bad(5),
        },
    }
}

/// Whether a tag is that of a message of a KDC's protocol.
fn is_kind(tag: u8) -> bool {
    matches!(tag, 0x6a..=0x6d | 0x7e)
}

/// Whether a message of a side begins here, without the length that it has in a stream. `size` is what that length is.
pub(super) fn begun(side: Direction, bytes: &[u8], size: Option<usize>) -> Begun {
    match begins(side, bytes, size) {
        Some(Some(read)) => Begun::Yes(read),
        Some(None) => Begun::No,
        None => Begun::Unknown,
    }
}

/// Number of bytes that show it; `None` if more would.
fn begins(side: Direction, bytes: &[u8], size: Option<usize>) -> Option<Option<usize>> {
    let mut reader = Reader::new(bytes);
    let first = *reader.rest().first()?;
    let is_of_side = match side {
        Direction::Forward => matches!(first, 0x6a | 0x6c),
        Direction::Reverse => matches!(first, 0x6b | 0x6d | 0x7e),
    };
    if !is_of_side {
        return Some(None);
    }
    let mut before = size;
    for wanted in [first, tag::SEQUENCE] {
        let head = match ber::header_size(*reader.rest().get(1)?) {
            Some(size) => reader.rest().get(..size)?,
            None => return Some(None),
        };
        let (kind, length) = match ber::header(&mut reader) {
            Some(header) => header,
            None => return Some(None),
        };
        if kind != wanted || before.is_some_and(|before| before != head.len() + length) {
            return Some(None);
        }
        before = Some(length);
    }
    // The version, then the type of the message, which is that of its tag.
    let (version, kind) = if side == Direction::Forward { (0xa1, 0xa2) } else { (0xa0, 0xa1) };
    let shown = [version, 3, tag::INTEGER, 1, 5, kind, 3, tag::INTEGER, 1, first & 0x1f];
    let found = reader.rest().get(..shown.len());
    match found {
        Some(found) => Some((found == shown).then(|| bytes.len() - reader.rest().len() + shown.len())),
        None if shown.starts_with(reader.rest()) => None,
        None => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let of = |text: &[u8]| time(&[&[0x18, text.len() as u8], text].concat());
        assert_eq!(of(b"20370913024805Z"), Some(Time(2_136_422_885_000_000_000)));
        assert_eq!(of(b"19700101000000Z"), Some(Time(0)));
        assert_eq!(of(b"20000229235959Z"), Some(Time(951_868_799_000_000_000)));
        assert_eq!(of(b"20001301000000Z"), None);
        assert_eq!(of(b"19691231235959Z"), None);
        assert_eq!(of(b"2000010100000aZ"), None);
        assert_eq!(of(b"20000101000000"), None);
    }
}
