//! Messages of PostgreSQL: their parts, as "Message Formats" of PostgreSQL's documentation has them.

use weir_wire::{Direction, Reader};

/// Bytes of the kind and the length of a message, which counts itself and not the kind.
pub const HEADER: usize = 5;
/// Bytes of the length and the code that a client's first messages begin with.
pub const FIRST: usize = 8;
/// Maximum length in bytes of a client's first message, which servers set too.
const MAX_FIRST: usize = 10_000;
/// Maximum length in bytes of a message: servers of no version send or take longer ones.
const MAX_LENGTH: usize = 0x3fff_ffff;

/// Codes of a client's first messages.
mod code {
    pub const CANCEL: u32 = 1234 << 16 | 5678;
    pub const TLS: u32 = 1234 << 16 | 5679;
    pub const GSS: u32 = 1234 << 16 | 5680;
}

/// The number of bytes of a message with its kind, if its first bytes can begin one of this side.
pub fn length(side: Direction, head: &[u8]) -> Option<usize> {
    let [kind, length @ ..] = *head.first_chunk::<HEADER>()?;
    let length = u32::from_be_bytes(length) as usize;
    let fits = match side {
        Direction::Forward => fits_client(kind, length),
        Direction::Reverse => fits_server(kind, length),
    };
    (fits && length <= MAX_LENGTH).then_some(1 + length)
}

fn fits_client(kind: u8, length: usize) -> bool {
    match kind {
        // CopyDone, Flush, Sync, Terminate.
        b'c' | b'H' | b'S' | b'X' => length == 4,
        b'Q' | b'f' => length >= 5,
        b'C' | b'D' => length >= 6,
        b'P' => length >= 8,
        b'B' => length >= 12,
        b'E' => length >= 9,
        b'F' => length >= 14,
        b'd' | b'p' => length >= 4,
        _ => false,
    }
}

fn fits_server(kind: u8, length: usize) -> bool {
    match kind {
        // Those that confirm a step, and those that stand for no data.
        b'1' | b'2' | b'3' | b'c' | b'I' | b'n' | b's' => length == 4,
        b'Z' => length == 5,
        b'R' => (8..=4 + MAX_FIRST).contains(&length),
        b'K' => (12..=4 + 4 + 256).contains(&length),
        b'E' | b'N' => length >= 5,
        b'C' => (5..=4 + 256).contains(&length),
        b'S' => length >= 6,
        b'A' => length >= 10,
        b'D' | b'T' | b't' => length >= 6,
        b'G' | b'H' | b'W' => length >= 7,
        b'V' | b'v' => length >= 8,
        b'd' => length >= 4,
        _ => false,
    }
}

/// Number of bytes of a message that are read: what is only counted, and passwords, are skipped.
pub fn read_of(side: Direction, kind: u8) -> Option<usize> {
    match (side, kind) {
        (_, b'd') | (Direction::Forward, b'p' | b'F' | b'f') => Some(HEADER),
        (Direction::Reverse, b'D' | b'T' | b't' | b'V' | b'W' | b'G' | b'H' | b'K' | b'A') => Some(HEADER),
        (Direction::Forward, b'B') => Some(HEADER + 256),
        (Direction::Reverse, b'R') => Some(HEADER + 4),
        _ => None,
    }
}

/// A client's first message.
#[derive(Debug, Eq, PartialEq)]
pub enum First<'a> {
    /// A request for TLS.
    Tls,
    /// A request for encryption by GSS-API.
    Gss,
    /// A request to cancel what another connection does, by the number of its process.
    Cancel(u32),
    /// The parameters of a session, without the zero at their end.
    Startup(&'a [u8]),
}

/// The length of a client's first message, by its first eight bytes.
pub fn first_length(head: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(head);
    let (length, code) = (reader.u32()? as usize, reader.u32()?);
    let fits = match code {
        code::TLS | code::GSS => length == FIRST,
        code::CANCEL => (FIRST + 8..=FIRST + 4 + 256).contains(&length),
        _ => code >> 16 == 3 && code & 0xffff < 10_000 && (FIRST + 1..=MAX_FIRST).contains(&length),
    };
    fits.then_some(length)
}

impl<'a> First<'a> {
    pub fn read(message: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        let (_, code) = (reader.u32()?, reader.u32()?);
        match code {
            code::TLS => Some(Self::Tls),
            code::GSS => Some(Self::Gss),
            code::CANCEL => reader.u32().map(Self::Cancel),
            _ => reader.rest().strip_suffix(b"\0").map(Self::Startup),
        }
    }
}

/// The names and values of a session's parameters.
pub fn parameters(body: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (name, behind) = text(rest)?;
        let (value, behind) = text(behind)?;
        rest = behind;
        (!name.is_empty()).then_some((name, value))
    })
}

/// Bytes up to a zero, and those after it.
pub fn text(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = body.iter().position(|byte| *byte == 0)?;
    Some((body.get(..end)?, body.get(end + 1..)?))
}

/// The fields of an error or of a notice.
pub fn fields(body: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (kind, behind) = rest.split_first().filter(|(kind, _)| **kind != 0)?;
        // The last one may be cut off.
        let (value, behind) = text(behind).unwrap_or((behind, &[]));
        rest = behind;
        Some((*kind, value))
    })
}

/// Zeek's name of a field of an error; `None` for one that has none.
pub fn field_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'S' => "SeverityLocalized",
        b'V' => "Severity",
        b'C' => "Code",
        b'M' => "Message",
        b'D' => "Detail",
        b'H' => "Hint",
        b'P' => "Position",
        b'p' => "InternalPosition",
        b'q' => "InternalQuery",
        b'W' => "Where",
        b's' => "Schema",
        b't' => "Table",
        b'c' => "Column",
        b'd' => "Data",
        b'n' => "Constraint",
        b'F' => "File",
        b'L' => "Line",
        b'R' => "Routine",
        _ => return None,
    })
}

/// Zeek's name of a method of authentication; `None` for one that has none.
pub fn method(number: u32) -> Option<&'static str> {
    Some(match number {
        2 => "KerberosV5",
        3 => "CleartextPassword",
        5 => "MD5Password",
        7 => "GSSAPI",
        8 => "GSSAPIContinue",
        9 => "SSPI",
        10 => "SASL",
        11 => "SASLContinue",
        12 => "SASLFinal",
        _ => return None,
    })
}

/// The number of rows that a command has changed or copied, by its tag; `None` for a command that only reads.
pub fn changed(tag: &[u8]) -> Option<u64> {
    let changes: [&[u8]; 5] = [b"INSERT ", b"UPDATE ", b"DELETE ", b"MERGE ", b"COPY "];
    if !changes.iter().any(|word| tag.starts_with(word)) {
        return None;
    }
    let number = tag.rsplit(|byte| *byte == b' ').next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_messages_are_read() {
        let tls = b"\0\0\0\x08\x04\xd2\x16\x2f";
        assert_eq!((first_length(tls), First::read(tls)), (Some(8), Some(First::Tls)));
        let cancel = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\x01\x02secr";
        assert_eq!((first_length(cancel), First::read(cancel)), (Some(16), Some(First::Cancel(258))));
        let startup = b"\0\0\0\x17\0\x03\0\0user\0ann\0x\0\0\0\0";
        let Some(First::Startup(body)) = First::read(startup) else { panic!("no startup") };
        let found: Vec<_> = parameters(body).collect();
        assert_eq!(found, [(&b"user"[..], &b"ann"[..]), (&b"x"[..], &b""[..])]);
        // Version 2, and lengths that no message of its kind has.
        assert_eq!(first_length(b"\0\0\0\x17\0\x02\0\0"), None);
        assert_eq!(first_length(b"\0\0\0\x09\x04\xd2\x16\x2f"), None);
        assert_eq!(first_length(b"\0\0\x80\x09\0\x03\0\0"), None);
    }

    #[test]
    fn rows_of_tags_are_read() {
        assert_eq!(changed(b"INSERT 0 12"), Some(12));
        assert_eq!(changed(b"COPY 3"), Some(3));
        assert_eq!(changed(b"SELECT 3"), None);
        assert_eq!(changed(b"CREATE TABLE"), None);
        assert_eq!(changed(b"DELETE all"), None);
    }
}
