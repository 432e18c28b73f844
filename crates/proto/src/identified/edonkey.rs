//! eDonkey, between peers and to servers. Over TCP a client begins with a message that has its hash, and a peer answers with one.
//!
//! A message has a byte for the dialect, its length and its kind. The byte and a length that fits are not enough, since other
//! protocols have frames of that form: the fields of the first message decide.
//!
//! A message over UDP has the dialect and its kind, and no length: two bytes are not enough. A question and its answer decide, of which
//! either the answer repeats what was asked, or both have the length that their fields state. Of all questions, only that for the
//! state of a server has more constant bytes, and decides alone.

use super::{Frame, identified};
use crate::{Heads, Probe, Protocol, Transport, UDP};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "edonkey",
    "eDonkey, eMule and Kad, over TCP from the first message, over UDP from questions and their answers; it is identified but not parsed.",
    Transport::Both,
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
    if heads.ip_proto == UDP {
        return datagrams(heads);
    }
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

/// The upper half of the number in a question for the state of a server, in the order of its bytes.
const CHALLENGE: [u8; 2] = [0xaa, 0x55];
/// Bytes of a contact of Kad: its identifier, address, two ports and version.
const CONTACT: usize = 25;
/// Maximum number of contacts in an answer, and greatest version of Kad.
const CONTACTS: usize = 50;
const KAD: u8 = 0x0f;

/// Whether the first datagrams of both sides are a question and its answer.
fn datagrams(heads: &Heads<'_>) -> Probe {
    let Some((kind, question)) = heads.forward.split_first_chunk::<2>() else { return Probe::Reject };
    let Some(answers) = answers_of(*kind, question) else { return Probe::Reject };
    match heads.reverse.split_first_chunk::<2>() {
        Some((kind, answer)) if answers(*kind, question, answer) => Probe::Match,
        None if heads.reverse.is_empty() => match *kind {
            [0xe3, 0x96] if question.ends_with(&CHALLENGE) => Probe::Match,
            _ => Probe::Maybe,
        },
        _ => Probe::Reject,
    }
}

/// Whether a message of a kind answers a question.
type Answers = fn([u8; 2], &[u8], &[u8]) -> bool;

/// What answers a question of a kind; `None` if it is no question that could have an answer.
fn answers_of(kind: [u8; 2], question: &[u8]) -> Option<Answers> {
    let (is_sound, answers): (bool, Answers) = match kind {
        // The state of a server: the number comes back, then users and files.
        [0xe3, 0x96] => (question.len() == 4, |kind, question, answer| {
            kind == [0xe3, 0x97] && answer.len() >= 12 && answer.starts_with(question)
        }),
        // Sources of files, in two versions: the answer begins with the hash of one of them.
        [0xe3, 0x94 | 0x9a] => (question.len() >= HASH, |kind, question, answer| {
            let asked = |hash: &[u8; HASH]| question.windows(HASH).any(|window| window == hash);
            kind == [0xe3, 0x9b] && answer.len() > HASH && answer.first_chunk().is_some_and(asked)
        }),
        // A place in the queue of a peer: the place, or that the file is not known, or that the queue is full.
        [0xc5, 0x90] => (question.len() >= HASH, |kind, _, answer| match kind {
            [0xc5, 0x91] => answer.len() >= 2,
            [0xc5, 0x92 | 0x93] => answer.is_empty(),
            _ => false,
        }),
        // Kad: contacts for a beginning.
        [0xe4, 0x01] => (question.is_empty(), |kind, _, answer| {
            kind == [0xe4, 0x09] && is_known(answer, HASH + 2) && has_contacts(answer, HASH + 3)
        }),
        // A greeting.
        [0xe4, 0x11] => (greets(question), |kind, _, answer| kind == [0xe4, 0x19] && greets(answer)),
        // Contacts near an identifier, for one of three purposes: the identifier comes back.
        [0xe4, 0x21] => {
            let has_purpose = question.first().is_some_and(|purpose| matches!(purpose, 0x02 | 0x04 | 0x0b));
            (has_purpose && question.len() == 1 + 2 * HASH, |kind, question, answer| {
                let target = question.get(1..=HASH);
                kind == [0xe4, 0x29]
                    && target.is_some_and(|target| answer.starts_with(target))
                    && answer.get(HASH).is_some_and(|count| {
                        usize::from(*count) <= CONTACTS
                            && answer.len() == HASH + 1 + usize::from(*count) * CONTACT
                    })
            })
        }
        _ => return None,
    };
    is_sound.then_some(answers)
}

/// Whether a greeting of Kad has an identifier, a port, a version and few tags.
fn greets(message: &[u8]) -> bool {
    is_known(message, HASH + 2) && message.get(HASH + 3).is_some_and(|tags| *tags <= 8)
}

/// Whether the version of Kad at a place is one of the second.
fn is_known(message: &[u8], at: usize) -> bool {
    message.get(at).is_some_and(|version| (2..=KAD).contains(version))
}

/// Whether a message ends with contacts, whose number is at a place.
fn has_contacts(message: &[u8], at: usize) -> bool {
    let count = message.get(at..).and_then(|rest| rest.first_chunk::<2>());
    count.is_some_and(|count| {
        let count = usize::from(u16::from_le_bytes(*count));
        count <= CONTACTS && message.len() == at + 2 + count * CONTACT
    })
}
