//! The contract between a stream and its parser.

use crate::{ALONE, ANOMALY, Anomaly, Inflation, Protocol, Record, Table};
use std::net::IpAddr;
use weir_wire::Time;
use weir_wire::stream::Chunk;

/// Takes the chunks of one flow and emits records.
///
/// Records do not depend on how a stream is cut into chunks. State is bounded: a parser has a limit for everything
/// that a peer can make longer, and emits an [`Anomaly`] when one is reached.
pub trait Parser: Send {
    /// Takes the next chunk of either direction.
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step;

    /// Ends the flow: incomplete transactions are emitted as they are.
    fn end(&mut self, time: Time, out: &mut dyn Out);

    /// Bytes of heap memory that are held, roughly.
    fn memory(&self) -> usize;

    /// Reads something of each piece of memory that the next chunk needs, so that it is near then; what it returns only
    /// keeps the reads.
    fn touch(&self) -> u64 {
        0
    }
}

/// The next step of the flow after a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The parser continues.
    Next,
    /// Another protocol follows (`STARTTLS`, `CONNECT`, an upgrade): the last `unread` bytes of the chunk and all
    /// later bytes of both directions go to `protocol`, or to the protocol that is then identified. The parser's flow
    /// ends.
    SwitchTo {
        /// The protocol, if it is known.
        protocol: Option<&'static Protocol>,
        /// Bytes at the chunk's end that were not read.
        unread: usize,
    },
    /// It is not this protocol after all, or cannot be followed any more. The parser's flow ends.
    GiveUp,
}

/// The facts about a flow that a new parser gets.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The flow's name, from which names of what is in it are made.
    pub flow: u64,
    /// The initiator's address and port.
    pub initiator: (IpAddr, u16),
    /// The responder's address and port.
    pub responder: (IpAddr, u16),
    /// IP protocol number: TCP or UDP.
    pub ip_proto: u8,
    /// The wanted results.
    pub wants: Wants,
}

/// Results that are expensive enough to be requested.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wants {
    /// Checksums of files.
    pub hashes: Hashes,
    /// The content of files, by [`Out::content`].
    pub content: bool,
    /// Whether mails are skipped, both headers and parts.
    pub passes_mails: bool,
    /// Whether bodies of messages with a head, as HTTP's, are skipped: their bytes are only counted.
    pub passes_bodies: bool,
    /// Bytes of the largest file of which checksums are made.
    pub max: u64,
    /// How much compressed content may grow.
    pub inflation: Inflation,
    /// Protocols that are identified and not parsed, as bits by their position in [`crate::ALONE`].
    pub unread: u8,
}

/// Checksums of files, each of which costs time for every byte.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hashes {
    /// MD5 (RFC 1321).
    pub md5: bool,
    /// SHA-1 (RFC 3174).
    pub sha1: bool,
    /// SHA-256 (RFC 6234).
    pub sha256: bool,
}

impl Default for Wants {
    fn default() -> Self {
        Self {
            hashes: Hashes::default(),
            content: false,
            passes_mails: false,
            passes_bodies: false,
            max: u64::MAX,
            inflation: Inflation::default(),
            unread: 0,
        }
    }
}

impl Wants {
    /// Leaves those of [`crate::ALONE`] unparsed that emit none of these tables.
    pub fn leave_unread(&mut self, tables: &[&Table]) {
        let is_wanted = |table: &Table| tables.iter().any(|wanted| **wanted == *table);
        let is_unread = |protocol: &Protocol| {
            !is_wanted(&ANOMALY) && !protocol.tables.iter().any(|table| is_wanted(table))
        };
        let places = ALONE.iter().zip(0..u8::BITS).filter(|(protocol, _)| is_unread(protocol));
        self.unread = places.fold(0, |unread, (_, at)| unread | 1 << at);
    }
}

impl Hashes {
    /// Everything.
    pub const ALL: Self = Self { md5: true, sha1: true, sha256: true };

    /// Whether there is one.
    pub fn any(self) -> bool {
        self.md5 || self.sha1 || self.sha256
    }
}

/// Receives a parser's results.
pub trait Out {
    /// Takes a record.
    fn record(&mut self, record: Record<'_>);

    /// Takes an announced flow, such as FTP's data: from whichever host it comes, it is for that parser.
    fn expect(&mut self, expected: Expected);

    /// Takes the next bytes of a file, where [`Wants::content`] asks for them. `file` is the file's name in records,
    /// `offset` where they belong: behind the ones before, or further on where some are missing. Whether they were kept,
    /// all of them: a file that is not kept whole has no checksum.
    fn content(&mut self, file: u64, offset: u64, bytes: &[u8]) -> bool;
}

/// An announced flow.
pub struct Expected {
    /// The responder.
    pub responder: (IpAddr, u16),
    /// The initiator, if it is known.
    pub initiator: Option<IpAddr>,
    /// IP protocol number: TCP or UDP.
    pub ip_proto: u8,
    /// From when, and until when it is waited for.
    pub from: Time,
    /// The end of waiting.
    pub until: Time,
    /// The protocol.
    pub protocol: &'static Protocol,
    /// Its parser.
    pub parser: Box<dyn Parser>,
}

/// The first payload of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a> {
    /// The first bytes of the initiator; of UDP its first datagram.
    pub forward: &'a [u8],
    /// The first bytes of the responder; of UDP its first datagram.
    pub reverse: &'a [u8],
    /// The initiator's and the responder's port.
    pub ports: [u16; 2],
    /// IP protocol number: TCP or UDP.
    pub ip_proto: u8,
}

impl<'a> Heads<'a> {
    /// The payload of each side that has sent some, the initiator first: for protocols whose two sides begin alike.
    pub fn both(&self) -> impl Iterator<Item = &'a [u8]> {
        [self.forward, self.reverse].into_iter().filter(|head| !head.is_empty())
    }
}

/// The answer of a probe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Probe {
    /// The payload belongs to this protocol and hardly to another.
    Match,
    /// More bytes would decide. If none come, the port decides.
    Maybe,
    /// It is not.
    Reject,
}

/// Reports a malformed message.
pub fn anomaly(out: &mut dyn Out, time: Time, protocol: &'static Protocol, anomaly: &Anomaly<'_>) {
    out.record(anomaly.record(time, protocol));
}
