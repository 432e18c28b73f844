//! BACnet/IP (ASHRAE 135, Annex J): the virtual link's header, and after it the version of the network layer (6.2).

use super::{Frame, identified, one_frame};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "bacnet",
    "BACnet/IP (ASHRAE 135, Annex J); it is identified but not parsed.",
    Transport::Udp,
    &[47808],
    probe,
);

/// Bits of the network layer's control that are always zero (6.2.2).
const RESERVED: u8 = 0x50;

fn probe(heads: &Heads<'_>) -> Probe {
    one_frame(heads, frame)
}

fn frame(bytes: &[u8]) -> Frame {
    let [0x81, function, high, low, rest @ ..] = bytes else { return Frame::No };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let is_network = |at: usize| match rest.get(at..) {
        Some([1, control, _, ..]) => control & RESERVED == 0,
        _ => false,
    };
    let is_sound = match function {
        // A result, and the registration of a foreign device.
        0 => length == 6 && matches!(rest, [0, code, ..] if code & 0x0f == 0),
        5 => length == 6,
        // Requests for the tables.
        2 | 6 => length == 4,
        // Forwarded, with the address that it came from.
        4 => length > 12 && is_network(6),
        9..=11 => length > 6 && is_network(0),
        _ => false,
    };
    if is_sound { Frame::of(length, bytes) } else { Frame::No }
}
