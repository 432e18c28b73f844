//! Kerberos (RFC 4120): requests for tickets with their replies, over UDP and TCP.

mod message;
mod words;

use crate::early::begin_transaction;
use crate::messages::{Length, Reads, Rules, Sides};
use crate::sought::Begun;
use crate::work::looked_at;
use crate::{
    Buffer, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Span, Step, TCP, Table, Transport,
    field, messages, record,
};
use message::{Message, Name, kind};
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "kerberos",
    help: "Kerberos (RFC 4120).",
    transport: Transport::Both,
    ports: &[88],
    probe,
    parser: |setup| Box::new(Kerberos { is_stream: setup.ip_proto == TCP, ..Kerberos::default() }),
    tables: &[&KERBEROS],
    buffers: &[&MESSAGE_TYPE, &ERROR_CODE, &WEAK_ENCRYPTION, &TICKET_ENCRYPTION, &CLIENT, &SERVICE],
};

static MESSAGE_TYPE: Buffer = Buffer::number(
    "krb5.msg_type",
    "Type of a message: 10 and 12 are requests, 11 and 13 replies, 30 errors.",
);

static ERROR_CODE: Buffer = Buffer::number("krb5.err_code", "Code of an error (RFC 4120, 7.5.9).");
static WEAK_ENCRYPTION: Buffer = Buffer::number(
    "krb5.weak_encryption",
    "Whether the encryption type of a reply is deprecated (RFC 6649, RFC 8429): 1, else 0.",
);
static TICKET_ENCRYPTION: Buffer = Buffer::number(
    "krb5.ticket_encryption",
    "Encryption type of the ticket in a reply; of a number below zero its 16 bits.",
);

static CLIENT: Buffer = Buffer::whole(
    "krb5.cname",
    "Component of the client's name in a reply or error; each alone, at most 8 of at most 512 bytes.",
);
static SERVICE: Buffer = Buffer::whole(
    "krb5.sname",
    "Component of the service's name in the ticket of a reply, or in an error; each alone, at most 8 of at most 512 bytes.",
);

static KERBEROS: Table = Table {
    name: "kerberos",
    help: "A request for a ticket with its reply.",
    zeek: "kerberos",
    eve: "krb5",
    fields: &[
        field(
            "request_type",
            Kind::Word,
            "AS for a login, TGS for a ticket of a service, AP for its use within another protocol.",
        )
        .zeek("request_type"),
        field("client", Kind::Text, "Name of the client with its realm.")
            .zeek("client")
            .privacy(Privacy::User),
        field("service", Kind::Text, "Name of the service.").zeek("service").privacy(Privacy::Name),
        field("success", Kind::Bool, "Whether the server granted the request: its reply is not an error.")
            .zeek("success"),
        field("error_msg", Kind::Word, "Error, by the name of its code.").zeek("error_msg"),
        field("from", Kind::Time, "Requested start of the ticket.").zeek("from"),
        field("till", Kind::Time, "Requested end of the ticket.").zeek("till"),
        field("cipher", Kind::Word, "Encryption type of the ticket.").zeek("cipher"),
        field("forwardable", Kind::Bool, "Whether the client requests a forwardable ticket.")
            .zeek("forwardable"),
        field("renewable", Kind::Bool, "Whether the client requests a renewable ticket.").zeek("renewable"),
        field("msg_type", Kind::Word, "Type of the reply.").eve("krb5.msg_type"),
        field("cname", Kind::Text, "Name of the client.").eve("krb5.cname").privacy(Privacy::User),
        field("realm", Kind::Text, "Realm of the client.").eve("krb5.realm").privacy(Privacy::Name),
        field("sname", Kind::Text, "Name of the service in the reply.")
            .eve("krb5.sname")
            .privacy(Privacy::Name),
        field("encryption", Kind::Word, "Encryption type of the reply.").eve("krb5.encryption"),
        field("weak_encryption", Kind::Bool, "Whether the encryption type is deprecated.")
            .eve("krb5.weak_encryption"),
        field("ticket_encryption", Kind::Word, "Encryption type of the ticket in the reply.")
            .eve("krb5.ticket_encryption"),
        field("ticket_weak_encryption", Kind::Bool, "Whether the encryption type is deprecated.")
            .eve("krb5.ticket_weak_encryption"),
        field("error_code", Kind::Word, "Error of the reply, by the name of its code.")
            .eve("krb5.error_code"),
        field("failed_request", Kind::Word, "Type of the request that the error answers.")
            .eve("krb5.failed_request"),
    ],
};

impl Message {
    /// Shows rules the error or the encryption of a reply, and the names in it. Those of requests are not shown, as in Suricata.
    fn show(&self, side: Direction, out: &mut dyn Out) {
        if let Some(code) = self.error.and_then(|code| u64::try_from(code).ok()) {
            out.emit_number(&ERROR_CODE, side, code);
        }
        if let Some(encryption) = self.encryption {
            out.emit_number(&WEAK_ENCRYPTION, side, words::is_weak(encryption).into());
        }
        let ticket = self.ticket.filter(|_| self.kind != kind::AP_REQUEST);
        if let Some(number) = ticket.and_then(|number| i16::try_from(number).ok()) {
            out.emit_number(&TICKET_ENCRYPTION, side, (number as u16).into());
        }
        if matches!(self.kind, kind::AS_REPLY | kind::TGS_REPLY | kind::ERROR) {
            for (buffer, name) in [(&CLIENT, &self.client), (&SERVICE, &self.service)] {
                name.iter().flat_map(|name| &name.0).for_each(|part| out.emit(buffer, side, part));
            }
        }
    }
}

/// The type of the exchange between a client and a service.
const BETWEEN: &str = "AP";

/// Whether a record is of an exchange between client and service, which Suricata has no event of.
pub(crate) fn is_between(record: &Record<'_>) -> bool {
    *record.table == KERBEROS && *record.get("request_type") == BETWEEN.into()
}

/// A client that shows its ticket to a service, within the tokens of another protocol (RFC 4120, 3.2).
#[derive(Default)]
pub(crate) struct Login(Option<Waiting>);

impl Login {
    /// Takes a message of a token, which is in the present message of the other protocol.
    pub fn take(&mut self, bytes: &[u8], time: Time, out: &mut dyn Out) {
        let Some(message) = Message::read(bytes) else { return };
        match message.kind {
            kind::AP_REQUEST => {
                self.end(out);
                self.0 = Some(Waiting { time, at: out.here(), request: message });
            }
            kind::AP_REPLY | kind::ERROR => {
                if let Some(mut waiting) = self.0.take() {
                    waiting.at.add(out.here());
                    waiting.emit(Some(&message), out);
                }
            }
            _ => {}
        }
    }

    /// Emits a request without a reply.
    pub fn end(&mut self, out: &mut dyn Out) {
        if let Some(waiting) = self.0.take() {
            waiting.emit(None, out);
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, Waiting::memory)
    }
}

/// Maximum number of requests without a reply: a client waits for a reply before its next request.
const MAX_WAITING: usize = 32;

fn probe(heads: &Heads<'_>) -> Probe {
    let is_stream = heads.ip_proto == TCP;
    let sides = [(Direction::Forward, heads.forward), (Direction::Reverse, heads.reverse)];
    let mut answer = Probe::Reject;
    for (side, head) in sides.into_iter().filter(|(_, head)| !head.is_empty()) {
        let begun = match is_stream {
            true => stream_begun(side, head),
            false => message::begun(side, head, Some(head.len())),
        };
        match begun {
            Begun::Yes(_) => return Probe::Match,
            Begun::Unknown if is_stream => answer = Probe::Maybe,
            _ => {}
        }
    }
    answer
}

/// Whether a message of a side begins here in a stream.
fn stream_begun(side: Direction, bytes: &[u8]) -> Begun {
    match message::length(bytes) {
        Length::Bad(_) => Begun::No,
        Length::Within(_) => Begun::Unknown,
        Length::Is(length) => {
            match message::begun(side, bytes.get(4..).unwrap_or_default(), Some(length - 4)) {
                Begun::Yes(read) => Begun::Yes(4 + read),
                other => other,
            }
        }
    }
}

/// How messages begin.
#[derive(Clone, Copy)]
struct Begins;

impl Rules for Begins {
    fn length(self, _: Direction, head: &[u8]) -> Length {
        message::length(head)
    }

    fn begun(self, side: Direction, _: usize, bytes: &[u8]) -> Begun {
        stream_begun(side, bytes)
    }
}

/// A request that waits for its reply.
struct Waiting {
    time: Time,
    at: Span,
    request: Message,
}

impl Waiting {
    fn memory(&self) -> usize {
        let names = [&self.request.client, &self.request.service].into_iter().flatten();
        let realm = self.request.realm.as_ref().map_or(0, String::capacity);
        size_of::<Self>() + realm + names.map(Name::memory).sum::<usize>()
    }

    /// Emits the row, with the reply if there is one.
    fn emit(self, reply: Option<&Message>, out: &mut dyn Out) {
        /// Bits of the options (RFC 4120, 5.4.1).
        const FORWARDABLE: u32 = 0x4000_0000;
        const RENEWABLE: u32 = 0x0080_0000;
        let Self { time, at, request } = self;
        // A request for a ticket of a service has only the realm, its reply the name.
        let is_named = |message: &&Message| message.client.is_some() && message.realm.is_some();
        let named = Some(&request).filter(is_named).or(reply.filter(is_named));
        let named =
            named.or(Some(&request).filter(|request| request.realm.is_some())).or(reply).unwrap_or(&request);
        let client = named.realm.as_ref().map(|realm| {
            let name = named.client.as_ref().map(Name::text).unwrap_or_default();
            format!("{name}/{realm}")
        });
        let service = reply.and_then(|reply| reply.service.as_ref()).or(request.service.as_ref());
        let service = service.map(Name::text);
        let error = reply.and_then(|reply| reply.error).map(words::error);
        let ticket = reply.and_then(|reply| reply.ticket);
        let encryption = reply.and_then(|reply| reply.encryption);
        let ticket = ticket.or(request.ticket);
        let (kind, failed) = match request.kind {
            kind::AS_REQUEST | kind::AS_REPLY => (Some("AS"), Some("KRB_AS_REQ")),
            kind::TGS_REQUEST | kind::TGS_REPLY => (Some("TGS"), Some("KRB_TGS_REQ")),
            kind::AP_REQUEST => (Some(BETWEEN), None),
            _ => (None, None),
        };
        let record = record!(
            KERBEROS,
            time,
            request_type = kind,
            client = client,
            service = service,
            success = reply.map(|reply| reply.kind != kind::ERROR),
            error_msg = error.clone(),
            from = request.from,
            till = request.till,
            cipher = ticket.map(words::cipher),
            forwardable = request.options.map(|options| options & FORWARDABLE != 0),
            renewable = request.options.map(|options| options & RENEWABLE != 0),
            msg_type = reply.map(|reply| word(reply.kind)),
            cname = reply.and_then(|reply| reply.client.as_ref()).map(Name::text),
            realm = reply.and_then(|reply| reply.realm.as_ref()),
            sname = reply.and_then(|reply| reply.service.as_ref()).map(Name::text),
            encryption = encryption.map(words::cipher),
            weak_encryption = encryption.map(words::is_weak),
            ticket_encryption = ticket.map(words::cipher),
            ticket_weak_encryption = ticket.map(words::is_weak),
            error_code = error,
            failed_request = reply.filter(|reply| reply.kind == kind::ERROR).and(failed),
        );
        out.record(record.over(at));
    }
}

/// Suricata's word for the type of a reply.
fn word(kind: u8) -> &'static str {
    match kind {
        kind::AS_REPLY => "KRB_AS_REP",
        kind::TGS_REPLY => "KRB_TGS_REP",
        kind::AP_REPLY => "KRB_AP_REP",
        _ => "KRB_ERROR",
    }
}

#[derive(Default)]
struct Kerberos {
    is_stream: bool,
    sides: Sides,
    state: State,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Number of messages of both sides.
    messages: u64,
}

impl Reads for State {
    type Rules = Begins;
    const MAX_HELD: usize = 65_536;

    fn rules(&self) -> Begins {
        Begins
    }

    fn message(&mut self, message: messages::Message<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        self.take(message.bytes.get(4..).unwrap_or_default(), chunk, out);
        Step::Next
    }

    fn malformed(&mut self, bytes: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        PROTOCOL.emit_anomaly("malformed_data", chunk.direction, bytes, chunk.time, out);
    }
}

impl State {
    fn take(&mut self, bytes: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        let Some(message) = Message::read(bytes) else {
            return self.malformed(bytes, chunk, out);
        };
        let (time, at) = (chunk.time, out.here());
        begin_transaction(chunk.direction, self.messages, out);
        self.messages += 1;
        out.emit_number(&MESSAGE_TYPE, chunk.direction, message.kind.into());
        message.show(chunk.direction, out);
        out.side_is_complete(chunk.direction);
        match message.kind {
            kind::AS_REQUEST | kind::TGS_REQUEST => {
                looked_at(self.waiting.len());
                // A client repeats a datagram whose reply does not come.
                let is_equal = |waiting: &Waiting| {
                    waiting.request.kind == message.kind && waiting.request.nonce == message.nonce
                };
                if message.nonce.is_some() && self.waiting.iter().any(is_equal) {
                    return;
                }
                if self.waiting.len() == MAX_WAITING
                    && let Some(oldest) = self.waiting.pop_front()
                {
                    PROTOCOL.emit_anomaly("too_many_requests", chunk.direction, &[], time, out);
                    oldest.emit(None, out);
                }
                self.waiting.push_back(Waiting { time, at, request: message });
            }
            kind::AS_REPLY | kind::TGS_REPLY | kind::ERROR => {
                looked_at(self.waiting.len());
                let is_asked = |waiting: &Waiting| {
                    message.kind == kind::ERROR || waiting.request.kind + 1 == message.kind
                };
                // A client waits for its reply, so that replies that are missing were those to earlier requests.
                let place = self.waiting.iter().rposition(is_asked);
                let waiting = place.and_then(|place| self.waiting.remove(place));
                let mut waiting = waiting.unwrap_or_else(|| Waiting {
                    time,
                    at: Span::default(),
                    request: Message { kind: message.kind, ..Message::default() },
                });
                waiting.at.add(at);
                waiting.emit(Some(&message), out);
            }
            _ => {}
        }
    }
}

impl Parser for Kerberos {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let Self { is_stream, sides, state } = self;
        if *is_stream {
            return sides.read(chunk, out, state);
        }
        if !chunk.data.is_empty() {
            state.take(chunk.data, chunk, out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        std::mem::take(&mut self.state.waiting).into_iter().for_each(|waiting| waiting.emit(None, out));
    }

    fn memory(&self) -> usize {
        let waiting = self.state.waiting.iter().map(Waiting::memory);
        self.sides.memory() + waiting.sum::<usize>()
    }
}
