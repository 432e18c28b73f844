//! The contract between a stream and its parser.

use crate::{ALONE, ANOMALY, Asked, Buffer, Columns, Field, Inflation, Protocol, Record, Span, Table, Value};
use std::net::IpAddr;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Takes the chunks of one flow and emits records.
///
/// Records do not depend on how a stream is cut into chunks. State is bounded: a parser has a limit for everything
/// that a peer can make longer, and emits an [`Anomaly`](crate::anomaly::Anomaly) when one is reached.
pub trait Parser: Send {
    /// Takes the next chunk of either direction.
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step;

    /// Ends the flow: incomplete transactions are emitted as they are.
    fn end(&mut self, time: Time, out: &mut dyn Out);

    /// Approximate heap memory in bytes.
    fn memory(&self) -> usize;

    /// Takes note of the protocol that the flow had before this one, before the first chunk: see [`Step::SwitchTo`].
    fn follows(&mut self, _protocol: &'static Protocol) {}

    /// Prefetches the memory that the next chunk needs. The returned value only keeps the compiler from removing the
    /// reads.
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
    /// The payload does not belong to this protocol, or cannot be parsed any more. The parser's flow ends.
    GiveUp,
}

/// The facts about a flow that a new parser gets.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The flow's identifier, from which identifiers of files are made.
    pub flow: u64,
    /// The initiator's address and port.
    pub initiator: (IpAddr, u16),
    /// The responder's address and port.
    pub responder: (IpAddr, u16),
    /// IP protocol number: TCP or UDP.
    pub ip_proto: u8,
    /// The requested results.
    pub wants: Wants,
}

/// Results that are expensive and therefore only computed on request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wants {
    /// Checksums of files.
    pub hashes: Hashes,
    /// The content of files, by [`Out::content`].
    pub content: bool,
    /// Whether mails are skipped, both headers and parts.
    pub passes_mails: bool,
    /// Whether the bodies of messages with a head, as in HTTP, are skipped: their bytes are only counted.
    pub passes_bodies: bool,
    /// Maximum size in bytes of a file with checksums.
    pub max: u64,
    /// Limit of decompressed content.
    pub inflation: Inflation,
    /// Protocols that are identified and not parsed, as bits by their position in [`crate::ALONE`].
    pub unread: u8,
    /// Whether protocols are only identified: those that announce no flows are not parsed.
    pub identifies: bool,
}

/// Maximum number of files of a flow whose content is kept, and number of bytes read of the flow for each further one. A few
/// bytes of a stream are enough to begin a file, and a file costs much more than its bytes.
pub const MAX_FILES: (u64, u64) = (1_000, 512);

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
            identifies: false,
        }
    }
}

impl Wants {
    /// Sets the protocols of [`crate::ALONE`] that emit none of these tables to unparsed.
    pub fn leave_unread(&mut self, tables: &[&Table]) {
        let is_wanted = |table: &Table| tables.iter().any(|wanted| **wanted == *table);
        let is_unread = |protocol: &Protocol| {
            !is_wanted(&ANOMALY) && !protocol.tables.iter().any(|table| is_wanted(table))
        };
        let places = ALONE.iter().zip(0..u8::BITS).filter(|(protocol, _)| is_unread(protocol));
        self.unread = places.fold(0, |unread, (_, at)| unread | 1 << at);
    }
}

impl Wants {
    /// Whether any protocol that shares its ports with others is read.
    pub(crate) fn reads_sharing(&self) -> bool {
        let is_shared = |protocol: &Protocol| crate::home::Kind::of_protocol(protocol).is_some();
        let shared = ALONE.iter().zip(0..u8::BITS).filter(|(protocol, _)| is_shared(protocol));
        shared.map(|(_, at)| at).any(|at| self.unread >> at & 1 == 0)
    }
}

impl Hashes {
    /// All checksums.
    pub const ALL: Self = Self { md5: true, sha1: true, sha256: true };

    /// Whether any checksum is requested.
    pub fn any(self) -> bool {
        self.md5 || self.sha1 || self.sha256
    }
}

/// Receives a parser's results.
pub trait Out {
    /// Takes a record.
    fn record(&mut self, record: Record<'_>);

    /// Whether records of the table are taken. Where not, a parser need not make them; one that emits them nevertheless does no harm.
    fn takes(&self, table: &Table) -> bool {
        let _ = table;
        true
    }

    /// The fields of records of the table that anything reads. A parser need not make the values of others.
    fn reads(&self, table: &'static Table) -> Columns {
        if self.takes(table) { Columns::ALL } else { Columns::NONE }
    }

    /// What is asked for before the records: see [`Asked`]. It may change between two calls of a parser.
    fn asked(&self) -> Asked {
        Asked::NONE
    }

    /// Takes the value of a field that is known before the transaction ends, if the table is [asked
    /// for](Out::asked). The record of the transaction, if one follows, has an equal value.
    fn field(&mut self, _table: &'static Table, _field: &'static Field, _value: Value<'_>) {}

    /// Takes bytes of a buffer that `side` sent, if the buffer is [asked for](Out::asked): a whole value or the next
    /// piece, see [`Buffer::is_stream`].
    fn buffer(&mut self, _buffer: &'static Buffer, _side: Direction, _bytes: &[u8]) {}

    /// Takes bytes of a buffer of a file once more, at the end of the file, for receivers that look at size, checksums, name, kind
    /// and first bytes together. They were passed to [`Out::buffer`] before.
    fn buffer_again(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
        self.buffer(buffer, side, bytes);
    }

    /// Takes note that the buffers of `side` belong to the transaction with this number, until the next call for the side.
    /// Without a call they belong to transaction 0. Each protocol of a flow numbers its transactions from 0 in order of
    /// arrival; a request and its response share a number where the protocol joins them. A parser calls it before the first
    /// buffer of a message, if any buffer is [asked for](Out::asked), perhaps again with an equal number.
    fn transaction(&mut self, _side: Direction, _number: u64) {}

    /// Takes note that all buffers of `side` in its [transaction](Out::transaction) were emitted, apart from those of
    /// [files and mails](crate::SHARED_BUFFERS) and the pieces of a body, which an empty piece ends. It is called for each complete message, or head of one, also if the message has no
    /// buffer that is asked for; not for one that a gap or the end of the flow cuts off. In TLS, QUIC and SSH, whose buffers
    /// all belong to transaction 0, it is called after each message that has buffers. A reply of FTP to no command comes
    /// after it. A server of SMTP has no buffers, and is never complete. A mail is also complete after its header and after its
    /// URLs.
    fn side_is_complete(&mut self, _side: Direction) {}

    /// Emits bytes of a buffer if it is [asked for](Out::asked): for parsers that have the bytes at hand. Where bytes must be
    /// made, a parser asks first.
    fn emit(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
        if self.asked().has(buffer) {
            self.buffer(buffer, side, bytes);
        }
    }

    /// Emits a number if it is [asked for](Out::asked).
    fn emit_number(&mut self, buffer: &'static Buffer, side: Direction, number: u64) {
        self.emit(buffer, side, &number.to_be_bytes());
    }

    /// Takes an expected flow, such as FTP's data channel: a flow to its responder goes to its parser, from whichever
    /// host it comes if no initiator is given.
    fn expect(&mut self, expected: Expected);

    /// Takes note that messages of the flow carry another protocol, which names the flow beside its own.
    fn carries(&mut self, _protocol: &'static Protocol) {}

    /// Takes note that the flow is named by this protocol, before its parser reads anything.
    fn is_named(&mut self, _protocol: &'static Protocol) {}

    /// Takes note that the client of the flow is its responder, before its parser reads anything.
    fn is_turned(&mut self) {}

    /// Takes note of a file whose content follows by [`Out::content`], after `read` bytes of both directions of its flow were
    /// read. A receiver may then keep nothing of it: see [`MAX_FILES`].
    fn file(&mut self, _file: u64, _read: u64) {}

    /// Takes the next bytes of a file, if [`Wants::content`] is set. `file` is the file's identifier in records,
    /// `offset` the position of the bytes: after the previous ones, or further on if some are missing. Returns whether
    /// all of the bytes were kept: a file that is not kept whole has no checksum.
    fn content(&mut self, file: u64, offset: u64, bytes: &[u8]) -> bool;

    /// Whether more may be decompressed: all flows share an allowance, [`Inflation::total`]. Asked before each piece of
    /// a body; a body that is refused is not decompressed any further.
    fn may_inflate(&mut self) -> bool {
        true
    }

    /// Takes bytes that decompression has made from the allowance.
    fn inflated(&mut self, _bytes: u64) {}

    /// Takes note that the next message of the side that sends ends `unread` bytes before the end of the chunk; it begins
    /// where the message before it ended. Returns the bytes of the message.
    ///
    /// This and the following four are for the parser of a stream, at places that do not depend on how the stream is cut:
    /// the end of a line, a header or a body, and before the records are emitted. The [`Session`](crate::Session) has the
    /// positions; other receivers have none. A datagram is a message, without any note.
    fn message(&mut self, _unread: usize) -> Span {
        Span::default()
    }

    /// Takes note that the current message of the side that sends goes on, up to `unread` bytes before the end of the
    /// chunk. Returns the bytes of the message so far.
    fn more(&mut self, _unread: usize) -> Span {
        Span::default()
    }

    /// Takes note that the current message of a side has all further bytes that have arrived. Returns its bytes.
    fn rest(&mut self, _side: Direction) -> Span {
        Span::default()
    }

    /// The bytes of the current message of the side that sends; empty at the end of the flow.
    fn here(&self) -> Span {
        Span::default()
    }

    /// The bytes of the current messages of both sides: of all that the parser has read, if it never noted a second message.
    fn both(&self) -> Span {
        Span::default()
    }
}

/// An expected flow.
pub struct Expected {
    /// Identifier of the flow that announced it: [`Setup::flow`].
    pub flow: u64,
    /// The responder.
    pub responder: (IpAddr, u16),
    /// The initiator, if it is known.
    pub initiator: Option<IpAddr>,
    /// IP protocol number: TCP or UDP.
    pub ip_proto: u8,
    /// Time of the announcement.
    pub from: Time,
    /// Time at which the expectation expires.
    pub until: Time,
    /// Protocol of the flow.
    pub protocol: &'static Protocol,
    /// Parser of the flow.
    pub parser: Box<dyn Parser>,
}

/// The first payload of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Heads<'a> {
    /// The first bytes of the initiator; over UDP its first datagram.
    pub forward: &'a [u8],
    /// The first bytes of the responder; over UDP its first datagram.
    pub reverse: &'a [u8],
    /// The initiator's and the responder's port.
    pub ports: [u16; 2],
    /// IP protocol number: TCP or UDP.
    pub ip_proto: u8,
}

impl<'a> Heads<'a> {
    /// The payload of each side that has sent some, the initiator first: for protocols whose sides begin alike.
    pub fn both(&self) -> impl Iterator<Item = &'a [u8]> {
        [self.forward, self.reverse].into_iter().filter(|head| !head.is_empty())
    }

    /// Whether the flow has one of these ports.
    pub fn is_home(&self, ports: &[u16]) -> bool {
        self.ports.iter().any(|port| ports.contains(port))
    }

    /// The answer about a message with which each side begins: one decides, and none may be something else.
    pub(crate) fn one_message(&self, begun: impl Fn(&[u8]) -> Probe) -> Probe {
        let mut answer = Probe::Reject;
        for head in self.both() {
            match begun(head) {
                Probe::Match => return Probe::Match,
                Probe::Maybe => answer = Probe::Maybe,
                Probe::Reject => return Probe::Reject,
            }
        }
        answer
    }
}

/// The answer of a probe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Probe {
    /// The payload very likely belongs to this protocol.
    Match,
    /// More bytes would decide. If none arrive, the port decides.
    Maybe,
    /// The payload belongs to another protocol.
    Reject,
}

impl Probe {
    /// The answer to whether payload fits; `None` if more bytes are needed.
    pub(crate) fn of(fits: Option<bool>) -> Self {
        match fits {
            Some(true) => Self::Match,
            Some(false) => Self::Reject,
            None => Self::Maybe,
        }
    }
}
