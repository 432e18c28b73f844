//! eDonkey over TCP, between peers and to servers: a client begins with a message that has its hash, and a peer answers with one.
//!
//! A message has a byte for the dialect, its length and its kind. The byte and a length that fits are not enough, since other
//! protocols have frames of that form: the fields of the first message decide. Messages over UDP have no length and no
//! other constant, so that they are not identified.

use super::{Frame, identified};
use crate::{Heads, Probe, Protocol, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "edonkey",
    "eDonkey and eMule over TCP, from its first message; it is identified but not parsed.",
    Transport::Tcp,
    &[],
    probe,
);

/// The dialects of messages: eDonkey, extensions of eMule, and compressed ones.
const DIALECTS: [u8; 3] = [0xe3, 0xc5, 0xd4];
/// Kinds of first messages: a greeting to a peer or a server, and a peer's answer.
const HELLO: u8 = 0x01;
const ANSWER: u8 = 0x4c;
/// Bytes of a client's hash.
const HASH: usize = 16;
/// Minimum length of a first message: its kind, the hash, an address, a port and the number of tags.
const SHORTEST: usize = 1 + HASH + 4 + 2 + 4;
/// Maximum length of a first message, and maximum number of its tags.
const LONGEST: usize = 800;
const TAGS: u32 = 32;
/// Maximum length of any message.
const MESSAGE: usize = 1 << 24;

fn probe(heads: &Heads<'_>) -> Probe {
    let mut sides = heads.both().map(first);
    let all = sides.try_fold(Probe::Maybe, |all, side| match side {
        Frame::No => None,
        Frame::Whole(_) => Some(Probe::Match),
        Frame::Cut => Some(all),
    });
    all.unwrap_or(Probe::Reject)
}

/// The first message of a side. A server answers with messages of other kinds, of which only the dialect is looked at.
fn first(head: &[u8]) -> Frame {
    let mut reader = Reader::new(head);
    let Some(dialect) = reader.u8() else { return Frame::Cut };
    if !DIALECTS.contains(&dialect) {
        return Frame::No;
    }
    let Some(length) = reader.take(4).and_then(|bytes| bytes.first_chunk()) else { return Frame::Cut };
    let length = u32::from_le_bytes(*length) as usize;
    if !(1..=MESSAGE).contains(&length) {
        return Frame::No;
    }
    let Some(kind) = reader.u8() else { return Frame::Cut };
    if dialect != 0xe3 || !matches!(kind, HELLO | ANSWER) {
        return Frame::Cut;
    }
    if !(SHORTEST..=LONGEST).contains(&length) {
        return Frame::No;
    }
    let message = head.get(5..).map_or(&[][..], |rest| rest.get(..length).unwrap_or(rest));
    // A peer's greeting has the length of the hash before it; a server's and an answer have not.
    let is_sound = match kind {
        HELLO => has_tags(message, 1) || has_size(message) && has_tags(message, 2),
        _ => has_tags(message, 1),
    };
    match is_sound {
        false => Frame::No,
        true => Frame::of(5 + length, head),
    }
}

/// Whether the length of the hash stands before it.
fn has_size(message: &[u8]) -> bool {
    message.get(1).is_none_or(|size| usize::from(*size) == HASH)
}

/// Whether few tags follow the hash that begins at a place, and the first of them has a type and a name, as far as
/// the message goes.
fn has_tags(message: &[u8], hash: usize) -> bool {
    let mut reader = Reader::new(message);
    if reader.take(hash + HASH + 4 + 2).is_none() {
        return true;
    }
    let Some(count) = reader.take(4).and_then(|bytes| bytes.first_chunk()) else { return true };
    let (count, first) = (u32::from_le_bytes(*count), reader.u8());
    // Types of values; the highest bit says that the name is one byte without a length.
    (1..=TAGS).contains(&count) && first.is_none_or(|kind| (1..=0x20).contains(&(kind & 0x7f)))
}
