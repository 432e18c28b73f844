//! Values of ASN.1 in their Basic Encoding Rules (X.690), as SNMP, LDAP and Kerberos have them.

use std::fmt::Write;
use weir_wire::Reader;

/// Maximum number of parts of an object identifier (RFC 2578, 3.5).
const MAX_PARTS: usize = 128;

/// Universal tags.
pub(crate) mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BYTES: u8 = 0x04;
    pub const NULL: u8 = 0x05;
    pub const OBJECT: u8 = 0x06;
    pub const ENUMERATED: u8 = 0x0a;
    pub const SEQUENCE: u8 = 0x30;
}

/// A value of BER with its tag. Only definite lengths are accepted, as in these protocols.
pub(crate) fn value<'a>(reader: &mut Reader<'a>) -> Option<(u8, &'a [u8])> {
    let (tag, length) = header(reader)?;
    Some((tag, reader.take(length)?))
}

/// A value with its tag, as far as there are bytes of it.
pub(crate) fn opened<'a>(reader: &mut Reader<'a>) -> Option<(u8, &'a [u8])> {
    let (tag, length) = header(reader)?;
    Some((tag, reader.take(length.min(reader.rest().len()))?))
}

/// The tag and the length in bytes of the next value.
pub(crate) fn header(reader: &mut Reader<'_>) -> Option<(u8, usize)> {
    let tag = tag(reader)?;
    let length = match reader.u8()? {
        length @ ..=0x7f => usize::from(length),
        0x81 => usize::from(reader.u8()?),
        0x82 => usize::from(reader.u16()?),
        0x83 => usize::from(reader.u8()?) << 16 | usize::from(reader.u16()?),
        0x84 => usize::try_from(reader.u32()?).ok()?,
        _ => return None,
    };
    Some((tag, length))
}

/// Number of bytes of a header with a tag of one byte, of which the first two are given; `None` if its length is not definite.
pub(crate) fn header_size(second: u8) -> Option<usize> {
    match second {
        ..=0x7f => Some(2),
        0x81..=0x84 => Some(2 + usize::from(second & 0x7f)),
        _ => None,
    }
}

/// A tag whose number fits into one byte, also in the long form (X.690, 8.1.2.4), which other decoders accept.
fn tag(reader: &mut Reader<'_>) -> Option<u8> {
    const LONG: u8 = 0x1f;
    let first = reader.u8()?;
    if first & LONG != LONG {
        return Some(first);
    }
    let mut number = 0;
    loop {
        let byte = reader.u8()?;
        number |= byte & 0x7f;
        match byte & 0x80 {
            0 if number < LONG => return Some(first & !LONG | number),
            0x80 if number == 0 => {}
            _ => return None,
        }
    }
}

/// The content of the next value, if it has this tag.
pub(crate) fn expect<'a>(reader: &mut Reader<'a>, wanted: u8) -> Option<&'a [u8]> {
    value(reader).filter(|(tag, _)| *tag == wanted).map(|(_, bytes)| bytes)
}

/// A signed number of at most eight bytes.
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    let first = bytes.first().filter(|_| bytes.len() <= 8)?;
    let start = if first & 0x80 != 0 { -1 } else { 0 };
    Some(bytes.iter().fold(start, |number, byte| number << 8 | i64::from(*byte)))
}

/// An unsigned number, with a leading zero byte if the highest bit is set.
pub(crate) fn unsigned(bytes: &[u8]) -> Option<u64> {
    let bytes = bytes.strip_prefix(&[0]).unwrap_or(bytes);
    (bytes.len() <= 8).then(|| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// An object identifier, with dots between its parts.
pub(crate) fn object(bytes: &[u8]) -> Option<String> {
    let (mut text, mut part, mut parts) = (String::new(), 0_u64, 0);
    for byte in bytes {
        part = part.checked_mul(128)? | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if parts == 0 {
            let first = (part / 40).min(2);
            let _ = write!(text, "{first}.{}", part - first * 40);
        } else {
            let _ = write!(text, ".{part}");
        }
        parts += 1;
        if parts > MAX_PARTS {
            return None;
        }
        part = 0;
    }
    bytes.last().is_none_or(|last| last & 0x80 == 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_parsed() {
        assert_eq!(integer(&[0xff, 0x7f]), Some(-129));
        assert_eq!(integer(&[0x80]), Some(-128));
        assert_eq!(integer(&[]), None);
        assert_eq!(unsigned(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Some(u64::MAX));
        assert_eq!(object(&[0x2b, 6, 1, 0x84, 0x80, 0]).as_deref(), Some("1.3.6.1.65536"));
        assert_eq!(object(&[0x88, 0x37]).as_deref(), Some("2.999"));
        assert_eq!(object(&[1]).as_deref(), Some("0.1"));
        assert_eq!(object(&[0x2b, 0x86]), None);
        assert_eq!(object(&[0xff; 40]), None);
    }

    #[test]
    fn tags_in_the_long_form_are_tags() {
        let of = |bytes: &[u8]| tag(&mut Reader::new(bytes));
        assert_eq!(of(&[0xa4]), Some(0xa4));
        assert_eq!(of(&[0xbf, 0x04]), Some(0xa4));
        assert_eq!(of(&[0xbf, 0x80, 0x80, 0x04]), Some(0xa4));
        assert_eq!(of(&[0xbf, 0x81, 0x00]), None);
        assert_eq!(of(&[0xbf, 0x1f]), None);
        assert_eq!(of(&[0xbf, 0x80]), None);
    }
}
