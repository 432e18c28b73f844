//! Lightweight Directory Access Protocol (RFC 4511), over TCP, and without connections over UDP (MS-ADTS, 6.3.3).
//!
//! A request and what answers it are a row. After a login whose mechanism has a security layer, messages are in buffers: those
//! that Kerberos only signs (RFC 4121) are read, encrypted ones are skipped.

mod buffers;
mod filter;
mod message;

use crate::early::begin_transaction;
use crate::messages::{Length, Reads, Rules, Sides};
use crate::sought::Begun;
use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Span, Step, TCP, Table, Transport, Value, field,
    gssapi, kerberos, lossless, messages, record, tls,
};
use message::{Login, Message, Outcome, START_TLS, Said, Search, op};
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "ldap",
    help: "Lightweight Directory Access Protocol (RFC 4511).",
    transport: Transport::Both,
    ports: &[389, 3268],
    probe,
    parser: |setup| Box::new(Ldap { is_stream: setup.ip_proto == TCP, ..Ldap::default() }),
    tables: &[&LDAP, &SEARCH],
    buffers: buffers::ALL,
};

static LDAP: Table = Table {
    name: "ldap",
    help: "An operation other than a search, with its result.",
    zeek: "ldap",
    eve: "",
    fields: &[
        field("message_id", Kind::Uint, "Message identifier, equal in request and response.")
            .zeek("message_id"),
        field("version", Kind::Uint, "Version that a bind requests.").zeek("version"),
        field("opcode", Kind::Word, "Operation; for a bind, with its method of authentication.")
            .zeek("opcode"),
        field("result", Kind::Word, "Result code of the server, by name (RFC 4511, 4.1.9).").zeek("result"),
        field("diagnostic_message", Kind::Text, "The server's message about the result.")
            .zeek("diagnostic_message")
            .privacy(Privacy::Content),
        field("object", Kind::Text, "Name of the entry, or identifier of the extended operation.")
            .zeek("object")
            .privacy(Privacy::User),
        field("argument", Kind::Text, "Authentication mechanism; REDACTED in place of a password.")
            .zeek("argument"),
    ],
};

static SEARCH: Table = Table {
    name: "ldap_search",
    help: "A search with the number of its results.",
    zeek: "ldap_search",
    eve: "",
    fields: &[
        field("message_id", Kind::Uint, "Message identifier, equal in request and responses.")
            .zeek("message_id"),
        field("scope", Kind::Word, "Part of the tree that is searched: base, single (one level) or tree.")
            .zeek("scope"),
        field(
            "deref_aliases",
            Kind::Word,
            "Where aliases are followed: never, searching, finding or always.",
        )
        .zeek("deref_aliases"),
        field("base_object", Kind::Text, "Name of the entry at which the search begins.")
            .zeek("base_object")
            .privacy(Privacy::User),
        field("result_count", Kind::Uint, "Number of entries that were returned.").zeek("result_count"),
        field("result", Kind::Word, "Result code of the server, by name (RFC 4511, 4.1.9).").zeek("result"),
        field("diagnostic_message", Kind::Text, "The server's message about the result.")
            .zeek("diagnostic_message")
            .privacy(Privacy::Content),
        field("filter", Kind::Text, "Filter in the notation of RFC 4515, at most 4,096 bytes.")
            .zeek("filter")
            .privacy(Privacy::Content),
        field("attributes", Kind::List(&Kind::Text), "Names of the requested attributes, at most 64.")
            .zeek("attributes"),
    ],
};

/// Maximum number of requests without a response. OpenLDAP takes 100 (`conn_max_pending`), 1,000 of authenticated clients.
const MAX_WAITING: usize = 128;

fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let sides = [(Direction::Forward, heads.forward), (Direction::Reverse, heads.reverse)];
    let mut answer = Probe::Reject;
    for (side, head) in sides.into_iter().filter(|(_, head)| !head.is_empty()) {
        match message::begun(side, head, false) {
            // Other protocols have buffers of security layers, too.
            Begun::Yes(_) if is_home || head.first() != Some(&0) => return Probe::Match,
            Begun::Unknown => answer = Probe::Maybe,
            _ => {}
        }
    }
    // Over UDP all of the first datagram is here.
    if heads.ip_proto == TCP { answer } else { Probe::Reject }
}

/// How messages begin.
#[derive(Clone, Copy)]
struct Begins {
    /// Whether there may be a security layer.
    is_layered: bool,
}

impl Rules for Begins {
    fn length(self, _: Direction, head: &[u8]) -> Length {
        message::length(head, self.is_layered)
    }

    fn begun(self, side: Direction, _: usize, bytes: &[u8]) -> Begun {
        message::begun(side, bytes, self.is_layered)
    }
}

/// A request without a final response, or responses whose request was not seen.
struct Waiting {
    id: u64,
    time: Time,
    at: Span,
    asked: Asked,
}

enum Asked {
    Search(Box<Searched>),
    Other(Other),
}

#[derive(Default)]
struct Searched {
    /// The request, if it was seen.
    request: Option<Query>,
    entries: u64,
    references: u64,
}

struct Query {
    base: Vec<u8>,
    scope: &'static str,
    aliases: &'static str,
    filter: Option<String>,
    attributes: Vec<Vec<u8>>,
}

impl Query {
    fn memory(&self) -> usize {
        let names = self.attributes.iter().map(|name| name.capacity() + size_of::<Vec<u8>>());
        self.base.capacity() + self.filter.as_ref().map_or(0, String::capacity) + names.sum::<usize>()
    }
}

#[derive(Default)]
struct Other {
    opcode: &'static str,
    version: Option<u64>,
    object: Vec<u8>,
    argument: Vec<u8>,
}

impl Waiting {
    fn memory(&self) -> usize {
        size_of::<Self>()
            + match &self.asked {
                Asked::Search(search) => {
                    size_of::<Searched>() + search.request.as_ref().map_or(0, Query::memory)
                }
                Asked::Other(other) => other.object.capacity() + other.argument.capacity(),
            }
    }

    /// Emits the row, with its result if there is one.
    fn emit(self, outcome: Option<&Outcome<'_>>, out: &mut dyn Out) {
        let result = outcome.map(|outcome| message::result(outcome.code));
        let diagnostic = outcome.map(|outcome| outcome.diagnostic).filter(|text| !text.is_empty());
        let some = |text: Vec<u8>| (!text.is_empty()).then_some(text);
        let record = match self.asked {
            Asked::Other(other) => record!(
                LDAP,
                self.time,
                message_id = self.id,
                version = other.version,
                opcode = other.opcode,
                result = result,
                diagnostic_message = diagnostic,
                object = some(other.object),
                argument = some(other.argument),
            ),
            Asked::Search(search) => {
                let (request, entries) = (search.request, search.entries);
                let (scope, aliases) = request.as_ref().map(|query| (query.scope, query.aliases)).unzip();
                let (base, rest) =
                    request.map(|query| (query.base, (query.filter, Value::list(query.attributes)))).unzip();
                let (filter, attributes) = rest.unwrap_or_default();
                record!(
                    SEARCH,
                    self.time,
                    message_id = self.id,
                    scope = scope,
                    deref_aliases = aliases,
                    base_object = base.and_then(some),
                    result_count = entries,
                    result = result,
                    diagnostic_message = diagnostic,
                    filter = filter,
                    attributes = attributes,
                )
            }
        };
        out.record(record.over(self.at));
    }
}

/// The word of a number.
fn word(number: u64, words: &[&'static str]) -> &'static str {
    usize::try_from(number).ok().and_then(|at| words.get(at)).copied().unwrap_or("unknown")
}

/// Zeek's name of an operation.
fn opcode(op: u8) -> &'static str {
    match op {
        op::BIND | op::BIND_RESPONSE => "bind",
        op::UNBIND => "unbind",
        op::MODIFY | op::MODIFY_RESPONSE | op::MODIFY_NAME | op::MODIFY_NAME_RESPONSE => "modify",
        op::ADD | op::ADD_RESPONSE => "add",
        op::DELETE | op::DELETE_RESPONSE => "delete",
        op::COMPARE | op::COMPARE_RESPONSE => "compare",
        op::ABANDON => "abandon",
        op::EXTENDED | op::EXTENDED_RESPONSE => "extended",
        _ => "unknown",
    }
}

#[derive(Default)]
struct Ldap {
    is_stream: bool,
    sides: Sides,
    state: State,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Whether there may be a security layer: the client has chosen a mechanism that may have one, or there was a message in it.
    is_layered: bool,
    /// Identifier of the request that begins TLS.
    starts_tls: Option<u64>,
    login: kerberos::Login,
    /// Number of messages of both sides.
    messages: u64,
}

impl Reads for State {
    type Rules = Begins;
    const MAX_HELD: usize = 65_536;

    fn rules(&self) -> Begins {
        Begins { is_layered: self.is_layered }
    }

    fn message(&mut self, message: messages::Message<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if message.bytes.first() != Some(&0) {
            return self.take(message.bytes, chunk, out);
        }
        self.is_layered = true;
        let mut rest = signed(message.bytes, message.length).unwrap_or_default();
        while let Length::Is(length) = message::length(rest, false) {
            let (bytes, more) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            if bytes.first() == Some(&0) {
                break;
            }
            self.take(bytes, chunk, out);
            rest = more;
        }
        Step::Next
    }

    fn malformed(&mut self, bytes: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        PROTOCOL.emit_anomaly("malformed_data", chunk.direction, bytes, chunk.time, out);
    }
}

/// The messages in a buffer with a token of Kerberos that is signed and not encrypted (RFC 4121, 4.2.4 and 4.2.6.2); the buffer
/// may be cut, and `length` is that of all of it.
fn signed(buffer: &[u8], length: usize) -> Option<&[u8]> {
    const SEALED: u8 = 2;
    /// Length of the token's header in bytes.
    const HEADER: usize = 16;
    let token = buffer.get(4..)?;
    let ([5, 4, flags, 0xff, extra @ .., _, _, _, _, _, _, _, _], rest) =
        token.split_first_chunk::<HEADER>()?
    else {
        return None;
    };
    let [first, second, third, fourth] = extra;
    let checksum = usize::from(u16::from_be_bytes([*first, *second]));
    // The content and the checksum after it, rotated to the right by this number of bytes.
    let rotated = usize::from(u16::from_be_bytes([*third, *fourth]));
    let content = length.checked_sub(4 + HEADER + checksum)?;
    (flags & SEALED == 0 && rotated <= checksum).then_some(())?;
    let rest = rest.get(rotated..)?;
    Some(rest.get(..content).unwrap_or(rest))
}

impl State {
    /// Takes a message that is not encrypted.
    fn take(&mut self, bytes: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let Some(message) = Message::read(bytes) else {
            self.malformed(bytes, chunk, out);
            return Step::Next;
        };
        self.hand_on(&message, chunk.direction, out);
        let Message { id, op, said, .. } = message;
        let other = |object: Vec<u8>| Other { opcode: opcode(op), object, ..Other::default() };
        let asked = match said {
            Said::Result(outcome) => return self.answer(id, op, &outcome, chunk, out),
            Said::Nothing if op == op::ENTRY => {
                self.entry(id, chunk, out);
                return Step::Next;
            }
            Said::Nothing if op == op::REFERENCE => {
                self.reference(id);
                return Step::Next;
            }
            Said::Nothing if op != op::UNBIND => return Step::Next,
            Said::Nothing => Asked::Other(other(Vec::new())),
            Said::Bind { version, name, login } => {
                let other = Other { version: Some(version), ..other(name.to_vec()) };
                Asked::Other(self.bind(other, &login, chunk.time, out))
            }
            Said::About(entry) => Asked::Other(other(entry.to_vec())),
            Said::Abandon(abandoned) => Asked::Other(other(abandoned.to_string().into_bytes())),
            Said::Extended(name) => {
                if name == START_TLS {
                    self.starts_tls = Some(id);
                }
                Asked::Other(other(message::extension(name).into_bytes()))
            }
            Said::Search(search) => Asked::Search(Box::new(Searched::of(*search))),
        };
        let waiting = Waiting { id, time: chunk.time, at: out.here(), asked };
        match op {
            // Nothing answers them.
            op::UNBIND | op::ABANDON => waiting.emit(None, out),
            _ => self.wait(waiting, chunk, out),
        }
        Step::Next
    }

    /// Emits the texts and the numbers of a message.
    fn hand_on(&mut self, message: &Message<'_>, side: Direction, out: &mut dyn Out) {
        begin_transaction(side, self.messages, out);
        self.messages += 1;
        if out.asked().has_buffers() {
            let before = if matches!(message.said, Said::Result(_)) { self.before(message) } else { 0 };
            buffers::hand_on(message, before, side, out);
        }
        out.side_is_complete(side);
    }

    /// Number of responses before the one that ends an operation.
    fn before(&mut self, last: &Message<'_>) -> u64 {
        let place = self.asked(last.id, last.op == op::SEARCH_DONE);
        match place.and_then(|at| self.waiting.get(at)) {
            Some(Waiting { asked: Asked::Search(search), .. }) => search.entries + search.references,
            _ => 0,
        }
    }

    fn wait(&mut self, waiting: Waiting, chunk: &Chunk<'_>, out: &mut dyn Out) {
        if self.waiting.len() == MAX_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            PROTOCOL.emit_anomaly("too_many_requests", chunk.direction, &[], chunk.time, out);
            oldest.emit(None, out);
        }
        self.waiting.push_back(waiting);
    }

    /// Takes the token of a login, of either side.
    fn token(&mut self, token: &[u8], time: Time, out: &mut dyn Out) {
        if let Some(message) = gssapi::carried(token, out) {
            self.login.take(message, time, out);
        }
    }

    /// Takes over how a client wants to be authenticated.
    fn bind(&mut self, other: Other, login: &Login<'_>, time: Time, out: &mut dyn Out) -> Other {
        let (opcode, argument) = match login {
            Login::Simple(has_password) => {
                ("bind simple", if *has_password { &b"REDACTED"[..] } else { &[] })
            }
            Login::Sasl { mechanism, credentials } => {
                self.is_layered = true;
                self.token(credentials, time, out);
                ("bind SASL", *mechanism)
            }
            Login::Sicily(kind, message) => {
                self.token(message, time, out);
                let steps =
                    ["bind SICILY_PACKAGE_DISCOVERY", "bind SICILY_NEGOTIATE", "bind SICILY_RESPONSE"];
                (word(u64::from(kind - 0x89), &steps), &[][..])
            }
            Login::Unknown => ("bind", &[][..]),
        };
        Other { opcode, argument: argument.to_vec(), ..other }
    }

    /// The request that a response belongs to.
    fn asked(&mut self, id: u64, is_search: bool) -> Option<usize> {
        looked_at(self.waiting.len());
        let is_it =
            |waiting: &Waiting| waiting.id == id && matches!(waiting.asked, Asked::Search(_)) == is_search;
        self.waiting.iter().position(is_it)
    }

    /// Counts an entry that a search has found.
    fn entry(&mut self, id: u64, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let at = match self.asked(id, true) {
            Some(at) => at,
            None => {
                let asked = Asked::Search(Box::default());
                self.wait(Waiting { id, time: chunk.time, at: Span::default(), asked }, chunk, out);
                self.waiting.len() - 1
            }
        };
        if let Some(Waiting { at, asked: Asked::Search(search), .. }) = self.waiting.get_mut(at) {
            search.entries += 1;
            at.add(out.here());
        }
    }

    /// Counts a reference to another server that continues a search.
    fn reference(&mut self, id: u64) {
        let at = self.asked(id, true);
        if let Some(Waiting { asked: Asked::Search(search), .. }) = at.and_then(|at| self.waiting.get_mut(at))
        {
            search.references += 1;
        }
    }

    /// Emits the row that a response completes.
    fn answer(
        &mut self,
        id: u64,
        op: u8,
        outcome: &Outcome<'_>,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Step {
        let is_search = op == op::SEARCH_DONE;
        let asked = self.asked(id, is_search).and_then(|at| self.waiting.remove(at));
        let mut asked = asked.unwrap_or_else(|| {
            let asked = match is_search {
                true => Asked::Search(Box::default()),
                false => Asked::Other(Other {
                    opcode: opcode(op),
                    object: lossless(outcome.name).into_owned().into_bytes(),
                    ..Other::default()
                }),
            };
            Waiting { id, time: chunk.time, at: Span::default(), asked }
        });
        asked.at.add(out.here());
        asked.emit(Some(outcome), out);
        if op == op::BIND_RESPONSE {
            self.token(outcome.credentials, chunk.time, out);
        }
        let is_tls = op == op::EXTENDED_RESPONSE && self.starts_tls == Some(id);
        match is_tls && outcome.code == 0 {
            true => Step::SwitchTo { protocol: Some(&tls::PROTOCOL), unread: 0 },
            false => Step::Next,
        }
    }
}

impl Searched {
    fn of(search: Search<'_>) -> Self {
        let query = Query {
            base: search.base.to_vec(),
            scope: word(search.scope, &["base", "single", "tree"]),
            aliases: word(search.aliases, &["never", "searching", "finding", "always"]),
            filter: search.filter,
            attributes: search.attributes.iter().map(|name| name.to_vec()).collect(),
        };
        Self { request: Some(query), ..Self::default() }
    }
}

impl Parser for Ldap {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let Self { is_stream, sides, state } = self;
        if *is_stream {
            return sides.read(chunk, out, state);
        }
        let mut rest = chunk.data;
        while !rest.is_empty() {
            let length = match message::length(rest, false) {
                Length::Is(length) => length.min(rest.len()),
                _ => rest.len(),
            };
            let (bytes, more) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            state.take(bytes, chunk, out);
            rest = more;
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        std::mem::take(&mut self.state.waiting).into_iter().for_each(|waiting| waiting.emit(None, out));
        self.state.login.end(out);
    }

    fn memory(&self) -> usize {
        let waiting = self.state.waiting.iter().map(Waiting::memory);
        self.sides.memory() + self.state.login.memory() + waiting.sum::<usize>()
    }
}
