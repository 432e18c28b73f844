//! S7 communication of Siemens controllers, in packets of ISO transport over TCP (RFC 1006, ISO 8073 13): the protocol of S7-300
//! and S7-400, and that of S7-1200 and S7-1500 (S7comm Plus). Their formats are not published; Wireshark's documentation of S7comm
//! describes the fields that are read here.

use super::{Frame, identified};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "s7comm",
    "S7 communication of Siemens controllers (over RFC 1006); it is identified but not parsed.",
    Transport::Tcp,
    &[102],
    probe,
);

/// Length of the header of a packet (RFC 1006 6).
const HEADER: usize = 4;

/// What a packet is.
enum Packet {
    /// A message of S7.
    Message,
    /// A request or a confirmation of a transport connection, or data that go on in another packet.
    Transport,
    /// Something else.
    Other,
}

/// A message decides. The request of a connection may be another protocol's.
fn probe(heads: &Heads<'_>) -> Probe {
    let mut answer = Probe::Reject;
    for mut head in heads.both() {
        loop {
            match packet(head) {
                (Packet::Message, _) => return Probe::Match,
                (Packet::Other, _) => return Probe::Reject,
                (Packet::Transport, Frame::Whole(length)) if length < head.len() => {
                    head = head.get(length..).unwrap_or_default();
                }
                (Packet::Transport, _) => break,
            }
        }
        answer = Probe::Maybe;
    }
    answer
}

fn packet(bytes: &[u8]) -> (Packet, Frame) {
    let (length, body) = match bytes {
        [3] | [3, 0] | [3, 0, _] => return (Packet::Transport, Frame::Cut),
        [3, 0, high, low, body @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), body),
        _ => return (Packet::Other, Frame::No),
    };
    let body = body.get(..length.saturating_sub(HEADER)).unwrap_or(body);
    let is_cut = body.len() + HEADER < length;
    let kind = match body {
        _ if length < 7 => Packet::Other,
        // After the header of data follows the mark of the protocol, with a kind and lengths, or with a version and a length.
        [2, 0xf0, _, 0x32, kind, 0, 0, _, _, lengths @ ..] if matches!(kind, 1..=3 | 7) => {
            let fixed = HEADER + 3 + if matches!(kind, 2 | 3) { 12 } else { 10 };
            match lengths {
                [one, two, three, four, ..] => {
                    let [parameters, data] =
                        [[*one, *two], [*three, *four]].map(u16::from_be_bytes).map(usize::from);
                    if fixed + parameters + data == length { Packet::Message } else { Packet::Other }
                }
                _ if is_cut => Packet::Transport,
                _ => Packet::Other,
            }
        }
        [2, 0xf0, 0x80, 0x72, 1..=3 | 0xfe, high, low, ..] => {
            let data = usize::from(u16::from_be_bytes([*high, *low]));
            if data + HEADER + 7 <= length { Packet::Message } else { Packet::Other }
        }
        [2, 0xf0, 0 | 0x80] => Packet::Transport,
        [2, 0xf0, 0x80, 0x32 | 0x72, ..] | [] | [2] | [2, 0xf0] if is_cut => Packet::Transport,
        [rest, 0xe0 | 0xd0, ..]
            if usize::from(*rest) + 1 + HEADER == length && (is_cut || is_of_s7(body)) =>
        {
            Packet::Transport
        }
        [_] if is_cut => Packet::Transport,
        _ => Packet::Other,
    };
    (kind, Frame::of(length, bytes))
}

/// Whether the selectors of a connection are those of S7: a kind of connection with a rack and a slot, or a name.
fn is_of_s7(body: &[u8]) -> bool {
    let mut rest = body.get(7..).unwrap_or_default();
    let mut called = None;
    while let [kind, length, more @ ..] = rest {
        let Some((value, after)) = more.split_at_checked(usize::from(*length)) else { return false };
        if *kind == 0xc2 {
            called = Some(value);
        }
        rest = after;
    }
    match called {
        Some([kind, _]) => *kind != 0,
        Some(name) => name.starts_with(b"SIMATIC") || name.starts_with(b"ES-") || name.starts_with(b"HMI"),
        // A confirmation may repeat none.
        None => matches!(body, [_, 0xd0, ..]),
    }
}
