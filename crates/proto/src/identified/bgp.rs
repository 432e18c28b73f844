//! BGP-4 (RFC 4271 4.1): a marker of 16 bytes, the length and the type of a message.

use super::{Frame, agrees, identified, one_frame};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "bgp",
    "Border Gateway Protocol 4 (RFC 4271); it is identified but not parsed.",
    Transport::Tcp,
    &[179],
    probe,
);

const MARKER: [u8; 16] = [0xff; 16];
/// Length of the header, and the maximum length of a message.
const HEADER: usize = 19;
const MAX: usize = 4096;

/// The header decides, before the message is whole.
fn probe(heads: &Heads<'_>) -> Probe {
    let answer = one_frame(heads, |bytes| match frame(bytes) {
        Frame::Whole(length) => Frame::Whole(length.min(bytes.len())),
        other => other,
    });
    match answer {
        // Bytes of the marker alone are too few.
        Probe::Maybe if heads.both().all(|head| head.len() < 2) => Probe::Reject,
        answer => answer,
    }
}

fn frame(bytes: &[u8]) -> Frame {
    if !agrees(bytes, &MARKER) {
        return Frame::No;
    }
    match bytes.get(MARKER.len()..HEADER) {
        None => Frame::Cut,
        // From an open to a route refresh (RFC 2918).
        Some([high, low, 1..=5]) => match usize::from(u16::from_be_bytes([*high, *low])) {
            length @ HEADER..=MAX => Frame::Whole(length),
            _ => Frame::No,
        },
        Some(_) => Frame::No,
    }
}
