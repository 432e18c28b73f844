//! Datagram Transport Layer Security 1.0 to 1.3 (RFC 4347, RFC 6347, RFC 9147): the unencrypted part of the handshake,
//! reassembled from fragments. On ports that it shares with others (RFC 7983) it gets its own datagrams: `home.rs`.

use crate::tls::handshake::Handshake;
use crate::tls::message::{MAX_MESSAGE, Message};
use crate::tls::over::Over;
use crate::work::looked_at;
use crate::{Heads, Out, Parser, Probe, Protocol, Step, Transport};
use std::collections::BTreeMap;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "dtls",
    help: "Datagram Transport Layer Security (RFC 6347, RFC 9147).",
    transport: Transport::Udp,
    ports: &[684, 853, 5061, 5684],
    probe,
    parser: |_| Box::new(Dtls::default()),
    // Its rows are in the tables of TLS.
    tables: &[],
    buffers: &[],
};

/// Maximum number of messages of one side that wait for earlier ones; with more, one is considered lost.
const MAX_WAITING: usize = 8;
/// Maximum number of records of a datagram.
const MAX_RECORDS: usize = 64;
/// Maximum number of datagrams of a handshake: retransmissions end after some dozens.
const MAX_DATAGRAMS: u32 = 4096;

const CHANGE_CIPHER: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// A record's header and content.
#[derive(Clone, Copy)]
struct DtlsRecord<'a> {
    kind: u8,
    is_encrypted: bool,
    content: &'a [u8],
}

impl<'a> DtlsRecord<'a> {
    /// The next record of a datagram.
    fn next(reader: &mut Reader<'a>) -> Option<Self> {
        let first = reader.u8()?;
        if first >> 5 == 1 {
            // The short header of DTLS 1.3 (RFC 9147, 4): the length of a connection identifier is known only to the
            // endpoints.
            let content = reader.rest();
            *reader = Reader::new(&[]);
            return Some(Self { kind: DATA, is_encrypted: true, content });
        }
        let version = reader.u16()?;
        let epoch = reader.u16()?;
        reader.take(6)?;
        let length = reader.u16()?;
        let content = reader.take(length.into())?;
        let is_one = matches!(first, CHANGE_CIPHER..=25) && matches!(version, 0xfeff | 0xfefd | 0x0100);
        is_one.then_some(Self { kind: first, is_encrypted: epoch > 0, content })
    }
}

/// A fragment of a message.
struct Fragment<'a> {
    kind: u8,
    length: usize,
    number: u16,
    offset: usize,
    data: &'a [u8],
}

impl<'a> Fragment<'a> {
    fn next(reader: &mut Reader<'a>) -> Option<Self> {
        let kind = reader.u8()?;
        let mut three = || Some(usize::from(reader.u8()?) << 16 | usize::from(reader.u16()?));
        let length = three()?;
        let number = reader.u16()?;
        let mut three = || Some(usize::from(reader.u8()?) << 16 | usize::from(reader.u16()?));
        let (offset, size) = (three()?, three()?);
        let data = reader.take(size)?;
        (offset + size <= length).then_some(Self { kind, length, number, offset, data })
    }
}

fn probe(heads: &Heads<'_>) -> Probe {
    if heads.both().any(begins) { Probe::Match } else { Probe::Reject }
}

/// Whether a handshake begins here: with a hello that fits its record.
fn begins(head: &[u8]) -> bool {
    let Some(record) = DtlsRecord::next(&mut Reader::new(head)) else { return false };
    let is_hello = |part: Fragment<'_>| matches!(part.kind, 1..=3) && part.number <= 1 && part.offset == 0;
    record.kind == HANDSHAKE
        && !record.is_encrypted
        && Fragment::next(&mut Reader::new(record.content)).is_some_and(is_hello)
}

/// An incomplete message.
#[derive(Default)]
struct Part {
    kind: u8,
    length: usize,
    held: Vec<u8>,
    /// Whether the message exceeds the limit.
    is_too_long: bool,
}

/// State of one side.
#[derive(Default)]
struct Side {
    /// Number of the next message, set by the first one seen.
    next: Option<u16>,
    waiting: BTreeMap<u16, Part>,
}

struct Dtls {
    sides: [Side; 2],
    handshake: Handshake,
    datagrams: u32,
}

impl Default for Dtls {
    fn default() -> Self {
        let handshake = Handshake::new(Over::Datagrams, &PROTOCOL);
        Self { sides: Default::default(), handshake, datagrams: 0 }
    }
}

impl Side {
    /// Takes a fragment. Messages that it completes go to `work`, in order.
    fn fragment(&mut self, part: &Fragment<'_>, mut work: impl FnMut(&Message<'_>)) {
        let next = *self.next.get_or_insert(part.number);
        if part.number < next {
            return;
        }
        let message = self.waiting.entry(part.number).or_insert_with(|| Part {
            kind: part.kind,
            length: part.length,
            is_too_long: part.length > MAX_MESSAGE,
            ..Part::default()
        });
        // Fragments come in order, or are retransmitted; an early one will be retransmitted too.
        if !message.is_too_long
            && (message.kind, message.length) == (part.kind, part.length)
            && let Some(known) = message.held.len().checked_sub(part.offset)
        {
            looked_at(part.data.len());
            message.held.extend_from_slice(part.data.get(known..).unwrap_or_default());
        }
        if self.waiting.len() > MAX_WAITING {
            self.next = self.waiting.keys().next().copied();
        }
        while let Some(number) = self.next
            && let Some(part) = self.waiting.get(&number)
            && (part.is_too_long || part.held.len() >= part.length)
        {
            work(&Message {
                kind: part.kind,
                body: part.held.get(..part.length).unwrap_or_default(),
                is_whole: !part.is_too_long,
                is_too_long: part.is_too_long,
                unread: 0,
            });
            self.waiting.remove(&number);
            self.next = Some(number.wrapping_add(1));
        }
        if self.waiting.len() > MAX_WAITING {
            // The first message has a hole that was never filled.
            self.waiting.pop_first();
            self.next = self.waiting.keys().next().copied();
        }
    }

    fn memory(&self) -> usize {
        self.waiting.values().map(|part| size_of::<Part>() + part.held.capacity()).sum()
    }
}

impl Parser for Dtls {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if self.handshake.is_emitted() {
            return Step::Next;
        }
        self.datagrams += 1;
        if self.datagrams > MAX_DATAGRAMS {
            return Step::GiveUp;
        }
        let Chunk { time, direction, data, .. } = *chunk;
        let Self { sides: [forward, reverse], handshake, .. } = self;
        handshake.datagram(out.here());
        let side = if direction == Direction::Forward { forward } else { reverse };
        let mut reader = Reader::new(data);
        for _ in 0..MAX_RECORDS {
            let Some(record) = DtlsRecord::next(&mut reader) else { break };
            match record.kind {
                _ if record.is_encrypted => {
                    handshake.ciphertext(time, direction, record.kind == DATA, out);
                }
                HANDSHAKE => {
                    let mut parts = Reader::new(record.content);
                    while let Some(part) = Fragment::next(&mut parts) {
                        side.fragment(&part, |message| handshake.message(time, direction, message, out));
                    }
                }
                CHANGE_CIPHER => handshake.change_cipher(time, direction),
                ALERT => {
                    if let [_, description] = record.content {
                        handshake.alert(time, direction, *description);
                    }
                }
                _ => {}
            }
            if handshake.is_emitted() {
                self.sides = Default::default();
                break;
            }
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.handshake.emit(out);
    }

    fn memory(&self) -> usize {
        self.handshake.memory() + self.sides.iter().map(Side::memory).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use crate::Value;
    use crate::laws::{Collected, talks};
    use crate::talk::{Talk, Turn};
    use crate::tls::{TLS, X509};

    fn case(name: &str) -> Talk {
        let talks = talks("dtls", 684);
        let (_, talk) =
            talks.iter().find(|(path, _)| path.file_stem().is_some_and(|stem| stem == name)).unwrap();
        talk.clone()
    }

    fn value(emitted: &Collected, name: &str) -> Value<'static> {
        emitted.records.iter().find(|record| *record.table == TLS).unwrap().get(name).clone().into_owned()
    }

    #[test]
    fn a_handshake_is_emitted_with_its_certificate() {
        let emitted = case("session").emitted(|data| vec![data.to_vec()]);
        assert_eq!(value(&emitted, "version"), "DTLSv12".into());
        assert_eq!(value(&emitted, "server_name"), "weir.test".into());
        assert_eq!(value(&emitted, "established"), true.into());
        let certificates = emitted.records.iter().filter(|record| *record.table == X509);
        assert_eq!(certificates.count(), 1);
    }

    /// Retransmitted datagrams and fragments change nothing.
    #[test]
    fn retransmissions_change_nothing() {
        let mut talk = case("session");
        let once = talk.emitted(|data| vec![data.to_vec()]);
        let again = talk.turns.iter().flat_map(|turn| [turn.clone(), turn.clone()]).collect::<Vec<Turn>>();
        talk.turns = again;
        let twice = talk.emitted(|data| vec![data.to_vec()]);
        for name in ["version", "cipher", "server_name", "chain", "established", "ja4"] {
            assert_eq!(value(&once, name), value(&twice, name), "{name}");
        }
        assert_eq!(once.records.len(), twice.records.len());
    }

    /// The fragmentation of messages, and retransmissions, do not change the handshake's record.
    #[test]
    fn fragments_are_reassembled() {
        let [whole, cut] =
            ["session", "fragments"].map(|name| case(name).emitted(|data| vec![data.to_vec()]));
        for name in ["version", "cipher", "server_name", "chain", "history", "established", "ja4"] {
            assert_eq!(value(&whole, name), value(&cut, name), "{name}");
        }
    }

    /// A handshake after STUN messages is identified.
    #[test]
    fn stun_is_skipped() {
        let emitted = case("behind-stun").emitted(|data| vec![data.to_vec()]);
        assert_eq!(value(&emitted, "established"), true.into());
    }
}
