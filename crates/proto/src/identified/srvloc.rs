//! The Service Location Protocol, version 2 (RFC 2608 8) and version 1 (RFC 2165 4).

use super::{Frame, identified, one_frame};
use crate::{Heads, Probe, Protocol, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "srvloc",
    "Service Location Protocol (RFC 2165, RFC 2608); it is identified but not parsed.",
    Transport::Udp,
    &[427],
    probe,
);

fn probe(heads: &Heads<'_>) -> Probe {
    one_frame(heads, |bytes| length(bytes).map_or(Frame::No, |length| Frame::of(length, bytes)))
}

/// The length of a message whose header is sound.
fn length(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(bytes);
    let (version, function) = (reader.u8()?, reader.u8()?);
    match version {
        2 if (1..=11).contains(&function) => {
            let [a, b, c, flags, flags_low] = *reader.take(5)?.first_chunk()?;
            let extension = reader.take(3)?;
            reader.u16()?;
            let language = usize::from(reader.u16()?);
            let tag = reader.take(language).filter(|_| (2..=8).contains(&language))?;
            let is_tag = tag.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
            let is_sound = flags & 0x1f == 0 && flags_low == 0 && extension.first() == Some(&0) && is_tag;
            is_sound.then_some(u32::from_be_bytes([0, a, b, c]) as usize)
        }
        1 if (1..=10).contains(&function) => {
            let length = usize::from(reader.u16()?);
            let (flags, dialect) = (reader.u8()?, reader.u8()?);
            let is_language = reader.take(2)?.iter().all(u8::is_ascii_lowercase);
            // Character sets by their numbers (IANA): ASCII, Latin 1, UTF-8 and UTF-16.
            let is_encoding = matches!(reader.u16()?, 3 | 4 | 106 | 1000..=1015);
            (flags & 7 == 0 && dialect == 0 && is_language && is_encoding).then_some(length)
        }
        _ => None,
    }
}
