//! Packets of MySQL: their parts, in the terms of MySQL's own documentation ("Client/Server Protocol").

use weir_wire::Reader;

/// Bytes of a packet's header: three of its length, one of its number.
pub const HEADER: usize = 4;
/// Length in bytes of a packet that the next one continues.
pub const MAX_LENGTH: usize = 0x00ff_ffff;

/// Capabilities of both sides.
pub mod capability {
    pub const CONNECT_WITH_DATABASE: u32 = 0x08;
    pub const COMPRESS: u32 = 0x20;
    pub const PROTOCOL_41: u32 = 0x200;
    pub const TLS: u32 = 0x800;
    pub const SECURE_CONNECTION: u32 = 0x8000;
    pub const LONG_ANSWERS: u32 = 0x0020_0000;
    pub const ZSTD: u32 = 0x0400_0000;
}

/// Bits of a server's status.
pub mod status {
    /// Another result follows.
    pub const MORE: u16 = 0x08;
    /// The rows of a result are fetched by further commands.
    pub const CURSOR: u16 = 0x40;
}

/// The length of a packet without its header, and its number.
pub fn header(head: &[u8]) -> Option<(usize, u8)> {
    let [low, middle, high, number] = *head.first_chunk()?;
    Some((u32::from_le_bytes([low, middle, high, 0]) as usize, number))
}

fn u16(reader: &mut Reader<'_>) -> Option<u16> {
    reader.take(2)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32(reader: &mut Reader<'_>) -> Option<u32> {
    reader.take(4)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// A number of variable length; `None` also for the mark of NULL.
pub fn number(reader: &mut Reader<'_>) -> Option<u64> {
    match reader.u8()? {
        small @ ..=0xfa => Some(small.into()),
        0xfc => u16(reader).map(u64::from),
        0xfd => {
            let [low, middle, high] = *reader.take(3)?.first_chunk()?;
            Some(u32::from_le_bytes([low, middle, high, 0]).into())
        }
        0xfe => reader.take(8)?.first_chunk().copied().map(u64::from_le_bytes),
        _ => None,
    }
}

/// Bytes with their length before them.
fn counted<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = number(reader)?;
    reader.take(usize::try_from(length).ok()?)
}

/// Bytes up to a zero, or to the end of the packet.
fn text<'a>(reader: &mut Reader<'a>) -> &'a [u8] {
    let rest = reader.rest();
    match rest.iter().position(|byte| *byte == 0) {
        Some(end) => {
            reader.take(end + 1);
            rest.get(..end).unwrap_or_default()
        }
        None => reader.take(rest.len()).unwrap_or_default(),
    }
}

/// The server's first packet.
pub struct Greeting<'a> {
    pub version: &'a [u8],
    pub capabilities: u32,
}

impl<'a> Greeting<'a> {
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let protocol = reader.u8()?;
        let ended = reader.rest().contains(&0);
        let version = text(&mut reader);
        let is_text = version.iter().all(|byte| matches!(byte, b' '..=b'~'));
        if !ended || version.is_empty() || !is_text {
            return None;
        }
        // The number of the connection.
        u32(&mut reader)?;
        if protocol == 9 {
            return Some(Self { version, capabilities: 0 });
        }
        // The first part of a challenge.
        reader.take(8)?;
        if protocol != 10 || reader.u8()? != 0 {
            return None;
        }
        let low = u32::from(u16(&mut reader)?);
        // Character set and status.
        let high = reader.take(3).and_then(|_| u16(&mut reader)).map_or(0, u32::from);
        Some(Self { version, capabilities: high << 16 | low })
    }
}

/// The client's first packet, which may also be cut off before the name of the user to begin TLS.
pub struct Login<'a> {
    pub capabilities: u32,
    pub user: &'a [u8],
    pub database: Option<&'a [u8]>,
    /// Maximum number of bytes of a packet that the client takes.
    pub max_packet: u32,
    /// Whether this is the whole packet, after which TLS begins.
    pub begins_tls: bool,
}

impl<'a> Login<'a> {
    pub fn read(body: &'a [u8]) -> Option<Self> {
        use capability::*;
        let mut reader = Reader::new(body);
        let is_new = u32::from(u16(&mut reader)?) & PROTOCOL_41 != 0;
        let mut reader = Reader::new(body);
        let (capabilities, max_packet) = if is_new {
            let (capabilities, max_packet) = (u32(&mut reader)?, u32(&mut reader)?);
            // The character set, and 19 zeros before four bytes that MariaDB uses.
            reader.u8()?;
            if reader.take(19)?.iter().any(|byte| *byte != 0) {
                return None;
            }
            reader.take(4)?;
            (capabilities, max_packet)
        } else {
            let capabilities = u16(&mut reader)?;
            let [low, middle, high] = *reader.take(3)?.first_chunk()?;
            (capabilities.into(), u32::from_le_bytes([low, middle, high, 0]))
        };
        let has = |capability| capabilities & capability != 0;
        if has(TLS) && reader.rest().is_empty() {
            return Some(Self { capabilities, user: &[], database: None, max_packet, begins_tls: true });
        }
        let user = text(&mut reader);
        if user.iter().any(u8::is_ascii_control) {
            return None;
        }
        let answer = match (has(LONG_ANSWERS), has(SECURE_CONNECTION)) {
            (true, _) => counted(&mut reader),
            (false, true) => reader.u8().and_then(|length| reader.take(length.into())),
            (false, false) => Some(text(&mut reader)),
        };
        let has_database = has(CONNECT_WITH_DATABASE) && answer.is_some() && !reader.rest().is_empty();
        let database = has_database.then(|| text(&mut reader)).filter(|database| !database.is_empty());
        Some(Self { capabilities, user, database, max_packet, begins_tls: false })
    }

    /// Whether the packet is as clients of the last 20 years send it.
    pub fn is_usual(&self) -> bool {
        let has_41 = self.capabilities & capability::PROTOCOL_41 != 0;
        has_41 && self.max_packet >= 1024 && (self.begins_tls || !self.user.is_empty())
    }

    /// User and database of COM_CHANGE_USER. All clients that have it send the answer with its length.
    pub fn change(body: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let mut reader = Reader::new(body);
        let user = text(&mut reader);
        let answer = reader.u8().and_then(|length| reader.take(length.into()));
        (user, if answer.is_some() { text(&mut reader) } else { &[] })
    }
}

/// A good answer: OK or EOF.
pub struct Good {
    /// Number of rows that a command has changed.
    pub affected: u64,
    pub status: u16,
}

impl Good {
    /// Reads OK, without its first byte.
    pub fn ok(body: &[u8]) -> Self {
        let mut reader = Reader::new(body);
        let affected = number(&mut reader).unwrap_or_default();
        let status = number(&mut reader).and_then(|_| u16(&mut reader));
        Self { affected, status: status.unwrap_or_default() }
    }

    /// Reads EOF, or OK in its place, without the first byte: EOF has four bytes.
    pub fn eof(body: &[u8]) -> Self {
        if body.len() > 4 {
            return Self::ok(body);
        }
        let mut reader = Reader::new(body);
        let status = u16(&mut reader).and_then(|_| u16(&mut reader));
        Self { affected: 0, status: status.unwrap_or_default() }
    }
}

/// An error.
pub struct Bad<'a> {
    pub code: u16,
    pub state: Option<&'a [u8]>,
    pub message: &'a [u8],
}

impl<'a> Bad<'a> {
    /// Reads an error, without its first byte.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let code = u16(&mut reader)?;
        let mut state = None;
        if reader.rest().first() == Some(&b'#') {
            state = reader.take(6).and_then(|state| state.get(1..));
        }
        Some(Self { code, state, message: reader.rest() })
    }
}

/// The text of a query: after its attributes, if it has some. Their number, and the 1 after it, begin no text.
pub fn query(body: &[u8]) -> &[u8] {
    match body {
        [0, 1, query @ ..] => query,
        [1..=0x1f, 1, ..] => behind_attributes(body).unwrap_or(body),
        query => query,
    }
}

fn behind_attributes(body: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(body);
    let count = usize::from(reader.u8()?);
    reader.u8()?;
    let nulls = reader.take(count.div_ceil(8))?;
    let has_types = reader.u8()? == 1;
    if !has_types {
        return None;
    }
    let mut kinds = [0; 0x1f];
    for kind in kinds.iter_mut().take(count) {
        *kind = u16(&mut reader)? as u8;
        counted(&mut reader)?;
    }
    for (at, kind) in kinds.into_iter().take(count).enumerate() {
        if nulls.get(at / 8)? >> (at % 8) & 1 == 1 {
            continue;
        }
        match kind {
            1 => reader.take(1)?,
            2 | 13 => reader.take(2)?,
            3 | 4 | 9 => reader.take(4)?,
            5 | 8 => reader.take(8)?,
            6 => &[],
            // Times have a length of one byte, all others that of texts.
            _ => counted(&mut reader)?,
        };
    }
    Some(reader.rest())
}

/// The rest of a packet that counts columns.
pub fn columns(body: &[u8]) -> Option<u64> {
    let mut reader = Reader::new(body);
    let count = number(&mut reader)?;
    // Of some servers a byte follows, which says whether they describe the columns.
    (count > 0 && reader.rest().len() <= 1).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_found_behind_attributes() {
        assert_eq!(query(b"select 1"), b"select 1");
        assert_eq!(query(b"\0\x01select 1"), b"select 1");
        // A number of two bytes, NULL, a text, and a time.
        let types = b"\x02\0\x01a\x03\0\x01b\xfe\0\x01c\x0b\0\x01d";
        let body =
            [&b"\x04\x01\x02\x01"[..], types, b"\x05\0\x02xy\x08\0\0\0\0\0\x01\x02\x03select 2"].concat();
        assert_eq!(query(&body), b"select 2");
        assert_eq!(query(&body[..20]), &body[..20]);
    }

    #[test]
    fn logins_of_old_clients_are_read() {
        // Without the capabilities of version 4.1.
        let old = Login::read(b"\x0d\0\0\0\xffann\0AAAAAAAA\0shop\0").unwrap();
        assert_eq!((old.user, old.database, old.is_usual()), (&b"ann"[..], Some(&b"shop"[..]), false));
    }
}
