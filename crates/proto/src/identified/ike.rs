//! IKE: ISAKMP with IKE version 1 (RFC 2408 3.1) and version 2 (RFC 7296 3.1), also after the marker that tells it from ESP
//! on port 4500 (RFC 3948 2.2).

use super::{Frame, identified, one_frame};
use crate::{Heads, Probe, Protocol, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "ike",
    "Internet Key Exchange (RFC 2408, RFC 7296); it is identified but not parsed.",
    Transport::Udp,
    &[500, 4500],
    probe,
);

/// What precedes a message on port 4500.
const MARKER: &[u8] = &[0; 4];
/// Length of the header.
const HEADER: usize = 28;

fn probe(heads: &Heads<'_>) -> Probe {
    one_frame(heads, |bytes| {
        let message = bytes.strip_prefix(MARKER).unwrap_or(bytes);
        match length(message) {
            Some(length) => Frame::of(length + bytes.len() - message.len(), bytes),
            None => Frame::No,
        }
    })
}

/// The length of a message whose header is sound.
fn length(message: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(message);
    let (initiator, responder) = (reader.u64()?, reader.u64()?);
    let [payload, version, exchange, flags] = *reader.take(4)?.first_chunk()?;
    let (id, length) = (reader.u32()?, reader.u32()? as usize);
    let fits = match version {
        0x10 => {
            // The exchanges of phase 1 have no identifier.
            let is_first = matches!(exchange, 1..=4);
            let is_known = is_first || matches!(exchange, 5 | 6 | 32 | 33);
            is_known && flags & !7 == 0 && (!is_first || id == 0) && matches!(payload, 1..=24 | 128..)
        }
        0x20 => {
            let is_first = exchange == 34;
            let is_known = matches!(exchange, 34..=41 | 43 | 44);
            let is_payload = matches!(payload, 0 | 33..=54 | 128..);
            is_known && is_payload && flags & !0x38 == 0 && (!is_first || id == 0)
        }
        _ => false,
    };
    let begins = responder != 0 || id == 0 || version == 0x10;
    (fits && begins && initiator != 0 && length >= HEADER).then_some(length)
}
