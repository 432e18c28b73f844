//! IEC 60870-5-104 (5): frames with a length and four bytes of control, of three kinds.

use super::{Frame, frames, identified};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "iec104",
    "Telecontrol over TCP (IEC 60870-5-104); it is identified but not parsed.",
    Transport::Tcp,
    &[2404],
    probe,
);

/// Lengths of the control bytes, and of the identifier of a unit of data after them.
const CONTROL: usize = 4;
const UNIT: usize = 6;
const MAX: usize = 253;

/// A frame by its kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Data, by the numbers of frames that were sent and received.
    Data(u16, u16),
    /// An acknowledgement, or a function such as the start of the transfer.
    Control,
}

/// A frame without data has four fixed bytes at least, and decides. Of frames with data two in sequence do, or one that
/// acknowledges that of the other side; on the port one frame.
fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    // Of a connection whose beginning was not seen, the first byte may be that of TCP's keep-alive.
    let keep_alive: &[u8] = if is_home { &[0] } else { &[] };
    let sides = [heads.forward, heads.reverse].map(|head| head.strip_prefix(keep_alive).unwrap_or(head));
    let [Some(one), Some(other)] = sides.map(|head| frames(heads, head, frame)) else { return Probe::Reject };
    if one + other == 0 {
        return Probe::Maybe;
    }
    let kinds = sides.map(kinds);
    let is_control = kinds.iter().flatten().any(|kind| *kind == Kind::Control);
    let follows = |of: &[Kind]| {
        of.array_windows().any(|pair| match pair {
            [Kind::Data(one, _), Kind::Data(next, _)] => one.wrapping_add(1) & 0x7fff == *next,
            _ => false,
        })
    };
    let is_answered = match kinds.each_ref().map(|kinds| kinds.first()) {
        [Some(Kind::Data(sent, _)), Some(Kind::Data(_, received))] => {
            sent.wrapping_add(1) & 0x7fff == *received
        }
        _ => false,
    };
    let is_found = is_control || kinds.iter().any(|of| follows(of)) || is_answered;
    if is_found || is_home { Probe::Match } else { Probe::Maybe }
}

/// The kinds of the whole frames of a side.
fn kinds(mut head: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while let Frame::Whole(length) = frame(head) {
        kinds.extend(kind(head));
        head = head.get(length..).unwrap_or_default();
    }
    kinds
}

fn frame(bytes: &[u8]) -> Frame {
    match bytes {
        [0x68] => Frame::Cut,
        [0x68, length, ..] if !(CONTROL..=MAX).contains(&usize::from(*length)) => Frame::No,
        [0x68, length, rest @ ..] if rest.len() < CONTROL + UNIT && rest.len() < usize::from(*length) => {
            Frame::Cut
        }
        [0x68, length, ..] if kind(bytes).is_some() => Frame::of(usize::from(*length) + 2, bytes),
        _ => Frame::No,
    }
}

/// The kind of a frame (5.1).
fn kind(bytes: &[u8]) -> Option<Kind> {
    let [0x68, length, one, two, three, four, unit @ ..] = bytes else { return None };
    let number = |low: u8, high: u8| u16::from_le_bytes([low, high]) >> 1;
    match (one & 3, length) {
        (0 | 2, _) if usize::from(*length) > CONTROL + UNIT && three & 1 == 0 => {
            let [kind, objects, cause, ..] = unit else { return None };
            let is_unit =
                (1..=127).contains(kind) && objects & 0x7f != 0 && (1..=47).contains(&(cause & 0x3f));
            is_unit.then(|| Kind::Data(number(*one, *two), number(*three, *four)))
        }
        (1, 4) => ((one, two) == (&1, &0) && three & 1 == 0).then_some(Kind::Control),
        (3, 4) if [*two, *three, *four] == [0; 3] => {
            matches!(one, 0x07 | 0x0b | 0x13 | 0x23 | 0x43 | 0x83).then_some(Kind::Control)
        }
        _ => None,
    }
}
