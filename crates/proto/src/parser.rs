//! The contract between a stream and those who read it.

use crate::{ALONE, ANOMALY, Anomaly, Inflation, Protocol, Record, Table};
use std::net::IpAddr;
use weir_wire::Time;
use weir_wire::stream::Chunk;

/// Takes the chunks of one flow and says what was in them.
///
/// Records do not depend on how a stream was cut into chunks. State is bounded, whatever comes: a parser has a limit
/// for everything that a peer can make longer, and says by an [`Anomaly`] that it was met.
pub trait Parser: Send {
    /// Takes the next chunk of either direction.
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step;

    /// The flow has ended: what was begun is told as it is.
    fn end(&mut self, time: Time, out: &mut dyn Out);

    /// Bytes of heap memory that are held, roughly.
    fn memory(&self) -> usize;

    /// Reads something of each piece of memory that the next chunk needs, so that it is near then; what it returns only
    /// keeps the reads.
    fn touch(&self) -> u64 {
        0
    }
}

/// What is to become of the flow after a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The parser goes on.
    Next,
    /// Something else is spoken from here on (`STARTTLS`, `CONNECT`, an upgrade): the last `unread` bytes of the chunk
    /// and all that follows in both directions is for `protocol`, or for whatever it turns out to be. The parser is
    /// told that its flow ended.
    SwitchTo {
        /// What it is, where that is known.
        protocol: Option<&'static Protocol>,
        /// Bytes at the chunk's end that were not read.
        unread: usize,
    },
    /// It is not this protocol after all, or can no longer be followed. The parser is told that its flow ended.
    GiveUp,
}

/// What a parser knows of its flow when it is made.
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
    /// What the user wants to know.
    pub wants: Wants,
}

/// What costs enough to be asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wants {
    /// Which checksums of files.
    pub hashes: Hashes,
    /// The content of files, by [`Out::content`].
    pub content: bool,
    /// Nothing of what is in mails, neither their headers nor their parts: they are passed over.
    pub passes_mails: bool,
    /// Nothing of what is in bodies of messages that have a head of their own, as HTTP's: their bytes are only counted.
    pub passes_bodies: bool,
    /// Bytes of the largest file of which checksums are made.
    pub max: u64,
    /// How much compressed content may grow.
    pub inflation: Inflation,
    /// Protocols that are found and not read, as bits by their place among [`crate::ALONE`].
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
    /// Leaves all of [`crate::ALONE`] unread that tell of none of these tables.
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
    /// All of them.
    pub const ALL: Self = Self { md5: true, sha1: true, sha256: true };

    /// Whether there is one.
    pub fn any(self) -> bool {
        self.md5 || self.sha1 || self.sha256
    }
}

/// Where a parser's results go.
pub trait Out {
    /// Takes a record.
    fn record(&mut self, record: Record<'_>);

    /// Takes a flow that is about to come, such as FTP's data: whoever it is, it is for that parser.
    fn expect(&mut self, expected: Expected);

    /// Takes the next bytes of a file, where [`Wants::content`] asks for them. `file` is the file's name in records,
    /// `offset` where they belong: behind the ones before, or further on where some are missing. Whether they were kept,
    /// all of them: a file that is not kept whole has no checksum.
    fn content(&mut self, file: u64, offset: u64, bytes: &[u8]) -> bool;
}

/// A flow that is about to come.
pub struct Expected {
    /// Who will listen.
    pub responder: (IpAddr, u16),
    /// Who will call, where that is known.
    pub initiator: Option<IpAddr>,
    /// IP protocol number: TCP or UDP.
    pub ip_proto: u8,
    /// From when, and until when it is waited for.
    pub from: Time,
    /// The end of waiting.
    pub until: Time,
    /// What will be spoken.
    pub protocol: &'static Protocol,
    /// Who will read it.
    pub parser: Box<dyn Parser>,
}

/// What was said at the beginning of a flow.
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
    /// What has been said by whoever spoke, the initiator first: for protocols whose two sides begin alike.
    pub fn both(&self) -> impl Iterator<Item = &'a [u8]> {
        [self.forward, self.reverse].into_iter().filter(|head| !head.is_empty())
    }
}

/// The answer of a probe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Probe {
    /// It is: what was said is said in this protocol and hardly in another.
    Match,
    /// It may be, and more bytes would tell. Where no more come, the port decides.
    Maybe,
    /// It is not.
    Reject,
}

/// Says that a message was not as it should be.
pub fn anomaly(out: &mut dyn Out, time: Time, protocol: &'static Protocol, anomaly: &Anomaly<'_>) {
    out.record(anomaly.record(time, protocol));
}
