//! RADIUS (RFC 2865, 2866, 2869, 5176, 5997): logins, accounting and changes of sessions, over UDP.
//!
//! A row is a request with its answer; requests of a login that the server answers by challenges are one row, up to the
//! answer that accepts or refuses it.

mod facts;
mod message;
mod words;

use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Span, Step, Table, Transport, Value, field, record,
};
use facts::Facts;
use message::{Message, attribute, code};
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "radius",
    help: "Remote Authentication Dial In User Service (RFC 2865).",
    transport: Transport::Udp,
    ports: &[1812, 1813, 1645, 1646, 3799],
    probe,
    parser: |_| Box::new(Radius::default()),
    tables: &[&RADIUS],
    buffers: &[],
};

static RADIUS: Table = Table {
    name: "radius",
    help: "A login with all its challenges, a message of accounting, or a change of a session, with the answer.",
    zeek: "radius",
    eve: "",
    fields: &[
        field("username", Kind::Text, "Name of the user.").zeek("username").privacy(Privacy::User),
        field(
            "mac",
            Kind::Text,
            "Hardware address of the user, if the calling station is one; empty if not.",
        )
        .zeek("mac")
        .privacy(Privacy::Address),
        field("framed_addr", Kind::Address, "Address of the user in a challenge.").zeek("framed_addr"),
        field("tunnel_client", Kind::Text, "Address of the user's end of a tunnel.")
            .zeek("tunnel_client")
            .privacy(Privacy::Address),
        field("connect_info", Kind::Text, "Kind and speed of the user's connection.")
            .zeek("connect_info")
            .privacy(Privacy::Content),
        field("reply_msg", Kind::Text, "Text for the user in a challenge.")
            .zeek("reply_msg")
            .privacy(Privacy::Content),
        field(
            "result",
            Kind::Word,
            "success, failed, or unknown without an answer that accepts or refuses the request.",
        )
        .zeek("result"),
        field("ttl", Kind::Duration, "Time from the first request to the last answer, in seconds.")
            .zeek("ttl"),
        field("request", Kind::Word, "Code of the first request."),
        field("answer", Kind::Word, "Code of the last answer."),
        field("requests", Kind::Uint, "Number of requests; each challenge is followed by one."),
        field("retransmissions", Kind::Uint, "Number of requests that were sent again."),
        field("nas_address", Kind::Address, "Address that the network access server gives as its own."),
        field("nas_identifier", Kind::Text, "Name of the network access server.").privacy(Privacy::Name),
        field("nas_port", Kind::Uint, "Port of the network access server that the user is at."),
        field(
            "called_station",
            Kind::Text,
            "What the user called: a number, or an access point with its network.",
        )
        .privacy(Privacy::Name),
        field("calling_station", Kind::Text, "What the user calls from: a number or a hardware address.")
            .privacy(Privacy::Address),
        field("assigned_address", Kind::Address, "IPv4 address of the user's session, assigned or in use."),
        field("assigned_address6", Kind::Address, "IPv6 address of the user's session, assigned or in use."),
        field("message", Kind::Text, "Text for the user in the last answer.").privacy(Privacy::Content),
        field("eap_identity", Kind::Text, "Identity of the user in EAP.").privacy(Privacy::User),
        field("eap_method", Kind::Word, "Last method of EAP that was proposed or used."),
        field("status", Kind::Word, "Event that accounting is about: Start, Stop, Interim-Update."),
        field("session", Kind::Text, "Identifier of the session in accounting.")
            .privacy(Privacy::Fingerprint),
        field("session_time", Kind::Duration, "Time for which the session has lasted, in seconds."),
        field("input_bytes", Kind::Uint, "Number of bytes from the user in the session."),
        field("output_bytes", Kind::Uint, "Number of bytes to the user in the session."),
        field("input_packets", Kind::Uint, "Number of packets from the user in the session."),
        field("output_packets", Kind::Uint, "Number of packets to the user in the session."),
        field("terminate_cause", Kind::Word, "Reason for the end of the session."),
        field("error_cause", Kind::Word, "Reason for which a change of a session is refused."),
    ],
};

/// Maximum number of requests and logins that wait: a client has 256 identifiers.
const MAX_WAITING: usize = 256;
/// Maximum number of answered requests that are known again when they are repeated.
const MAX_ANSWERED: usize = 32;
/// Time in nanoseconds after which a login without a next message is over: a person may look for the code that a challenge asks for.
const PATIENCE: u64 = 300_000_000_000;

/// On the protocol's ports one message decides, elsewhere a request with all that it requires, or one with its answer.
fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let sides = [heads.forward, heads.reverse].map(|head| (head, Message::read(head)));
    let is_other = |(head, message): &(&[u8], Option<Message<'_>>)| !head.is_empty() && message.is_none();
    if sides.iter().any(is_other) {
        return Probe::Reject;
    }
    let messages = || sides.iter().filter_map(|(_, message)| message.as_ref());
    if is_home {
        let is_any_whole = messages().any(Message::is_well_formed);
        return if is_any_whole { Probe::Match } else { Probe::Maybe };
    }
    if messages().any(|message| message.behind > 0 || !message.is_well_formed()) {
        return Probe::Reject;
    }
    let is_answer = |one: &Message<'_>| {
        messages().any(|other| one.identifier == other.identifier && one.answers(other.code))
    };
    if messages().any(Message::is_complete_request) || messages().any(is_answer) {
        Probe::Match
    } else {
        Probe::Maybe
    }
}

/// What a login or another request waits for.
enum Waits {
    /// The answer to the request with this identifier and authenticator.
    Answer(u8, [u8; 16]),
    /// The next request after a challenge, which repeats the state that the challenge has; and the request that it answered.
    Request(Option<Vec<u8>>, u8, [u8; 16]),
}

/// A request, or the requests of a login, with their answers so far.
struct Exchange {
    time: Time,
    last: Time,
    at: Span,
    /// The side of the requests.
    side: Direction,
    waits: Waits,
    request: Option<u8>,
    requests: u64,
    retransmissions: u64,
    facts: Facts,
}

impl Exchange {
    fn new(message: &Message<'_>, side: Direction, time: Time, at: Span) -> Self {
        Self {
            time,
            last: time,
            at,
            side,
            waits: Waits::Answer(message.identifier, message.authenticator),
            request: None,
            requests: 0,
            retransmissions: 0,
            facts: Facts::default(),
        }
    }

    /// The identifier and authenticator of the last request.
    fn key(&self) -> (u8, [u8; 16]) {
        match self.waits {
            Waits::Answer(identifier, authenticator) | Waits::Request(_, identifier, authenticator) => {
                (identifier, authenticator)
            }
        }
    }

    /// Whether a request continues the login after a challenge: it has the challenge's state (RFC 2865, 5.24), or, after one without a
    /// state, the user's name.
    fn is_continued_by(&self, side: Direction, request: &Message<'_>) -> bool {
        let Waits::Request(state, ..) = &self.waits else { return false };
        self.side == side
            && match state {
                Some(state) => request.first(attribute::STATE) == Some(state.as_slice()),
                None => {
                    let name = request.first(attribute::USER_NAME);
                    name.is_some() && name == self.facts.username.as_deref()
                }
            }
    }

    /// Whether a message of a side answers the last request.
    fn is_answered_by(&self, side: Direction, message: &Message<'_>) -> bool {
        let Waits::Answer(identifier, _) = self.waits else { return false };
        self.side != side
            && identifier == message.identifier
            && self.request.is_none_or(|request| message.answers(request))
    }

    fn take_request(&mut self, message: &Message<'_>, time: Time) {
        self.last = time;
        self.waits = Waits::Answer(message.identifier, message.authenticator);
        self.request = self.request.or(Some(message.code));
        self.requests += 1;
        self.facts.take_request(message);
    }

    /// Takes a challenge, after which the next request is waited for.
    fn take_challenge(&mut self, message: &Message<'_>, time: Time) {
        let (identifier, authenticator) = self.key();
        self.last = time;
        let state = message.first(attribute::STATE).map(<[u8]>::to_vec);
        self.waits = Waits::Request(state, identifier, authenticator);
        self.facts.take_answer(message);
    }

    fn memory(&self) -> usize {
        let state = match &self.waits {
            Waits::Request(Some(state), ..) => state.capacity(),
            _ => 0,
        };
        size_of::<Self>() + state + self.facts.memory()
    }

    /// Emits the row, with the time of the last answer if there is one.
    fn emit(self, ended: Option<Time>, out: &mut dyn Out) {
        let Self { time, at, request, requests, retransmissions, facts, .. } = self;
        let result = facts.answer.filter(|_| ended.is_some()).map_or("unknown", words::result);
        let ttl = ended.map(|ended| ended.since(time)).filter(|ttl| *ttl > 0);
        let record = record!(
            RADIUS,
            time,
            username = facts.username,
            mac = facts.mac,
            framed_addr = facts.framed_addr,
            tunnel_client = facts.tunnel_client,
            connect_info = facts.connect_info,
            reply_msg = facts.reply_msg,
            result = result,
            ttl = ttl.map(Value::Duration),
            request = request.map(words::code),
            answer = facts.answer.map(words::code),
            requests = requests,
            retransmissions = retransmissions,
            nas_address = facts.nas_address,
            nas_identifier = facts.nas_identifier,
            nas_port = facts.nas_port,
            called_station = facts.called_station,
            calling_station = facts.calling_station,
            assigned_address = facts.assigned_address,
            assigned_address6 = facts.assigned_address6,
            message = facts.message,
            eap_identity = facts.eap_identity,
            eap_method = facts.eap_method.map(words::method),
            status = facts.status.map(words::status),
            session = facts.session,
            session_time =
                facts.session_time.map(|seconds| Value::Duration(u64::from(seconds) * 1_000_000_000)),
            input_bytes = facts.input.bytes(),
            output_bytes = facts.output.bytes(),
            input_packets = facts.input.packets,
            output_packets = facts.output.packets,
            terminate_cause = facts.terminate_cause.map(words::terminate_cause),
            error_cause = facts.error_cause.map(words::error_cause),
        );
        out.record(record.over(at));
    }
}

/// An answered request: the side and the identifier, and its authenticator if it was seen.
type Answered = (Direction, u8, Option<[u8; 16]>);

#[derive(Default)]
struct Radius {
    /// In the order of their first messages.
    waiting: VecDeque<Exchange>,
    answered: VecDeque<Answered>,
}

impl Radius {
    fn request(&mut self, message: &Message<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let (side, time, at) = (chunk.direction, chunk.time, out.here());
        let key = (message.identifier, message.authenticator);
        looked_at(self.waiting.len() + self.answered.len());
        let is_repeated = |exchange: &&mut Exchange| exchange.side == side && exchange.key() == key;
        if let Some(exchange) = self.waiting.iter_mut().find(is_repeated) {
            exchange.retransmissions += 1;
            exchange.at.add(at);
            exchange.last = time;
            return;
        }
        if self.answered.contains(&(side, message.identifier, Some(message.authenticator))) {
            return;
        }
        let place = match message.code {
            code::ACCESS_REQUEST => {
                self.waiting.iter().position(|exchange| exchange.is_continued_by(side, message))
            }
            _ => None,
        };
        if let Some(exchange) = place.and_then(|place| self.waiting.get_mut(place)) {
            exchange.at.add(at);
            exchange.take_request(message, time);
            return;
        }
        // Another request with an identifier: the client does not wait for the answer to the former.
        let is_replaced = |exchange: &Exchange| {
            exchange.side == side
                && matches!(exchange.waits, Waits::Answer(id, _) if id == message.identifier)
        };
        let replaced = self.waiting.iter().position(is_replaced);
        if let Some(replaced) = replaced.and_then(|place| self.waiting.remove(place)) {
            replaced.emit(None, out);
        }
        let mut exchange = Exchange::new(message, side, time, at);
        exchange.take_request(message, time);
        self.push(exchange, chunk, out);
    }

    fn push(&mut self, exchange: Exchange, chunk: &Chunk<'_>, out: &mut dyn Out) {
        if self.waiting.len() == MAX_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            PROTOCOL.emit_anomaly("too_many_requests", chunk.direction, &[], chunk.time, out);
            oldest.emit(None, out);
        }
        self.waiting.push_back(exchange);
    }

    fn answer(&mut self, message: &Message<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let (side, time, at) = (chunk.direction, chunk.time, out.here());
        looked_at(self.waiting.len() + self.answered.len());
        let place = self.waiting.iter().position(|exchange| exchange.is_answered_by(side, message));
        let mut exchange = match place.and_then(|place| self.waiting.remove(place)) {
            Some(exchange) => exchange,
            None if self.is_repeated(side, message) => return,
            None => Exchange::new(message, other(side), time, Span::default()),
        };
        exchange.at.add(at);
        if message.code == code::ACCESS_CHALLENGE {
            exchange.take_challenge(message, time);
            self.push(exchange, chunk, out);
            return;
        }
        if self.answered.len() == MAX_ANSWERED {
            self.answered.pop_front();
        }
        let authenticator = exchange.request.map(|_| exchange.key().1);
        self.answered.push_back((exchange.side, message.identifier, authenticator));
        exchange.facts.take_answer(message);
        exchange.emit(Some(time), out);
    }

    /// Whether an answer without a request is one that was sent again.
    fn is_repeated(&self, side: Direction, message: &Message<'_>) -> bool {
        let is_of_challenge = |exchange: &Exchange| {
            exchange.side != side
                && matches!(exchange.waits, Waits::Request(_, id, _) if id == message.identifier)
        };
        self.waiting.iter().any(is_of_challenge)
            || self.answered.iter().any(|(asked, id, _)| *asked != side && *id == message.identifier)
    }

    /// Emits the logins that are over because no message of them has come for long.
    fn expire(&mut self, now: Time, out: &mut dyn Out) {
        while self.waiting.front().is_some_and(|oldest| now.since(oldest.last) > PATIENCE) {
            if let Some(oldest) = self.waiting.pop_front() {
                oldest.emit(None, out);
            }
        }
    }
}

/// The other side.
fn other(side: Direction) -> Direction {
    match side {
        Direction::Forward => Direction::Reverse,
        Direction::Reverse => Direction::Forward,
    }
}

impl Parser for Radius {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.data.is_empty() {
            return Step::Next;
        }
        let Some(message) = Message::read(chunk.data) else {
            PROTOCOL.emit_anomaly("malformed_data", chunk.direction, chunk.data, chunk.time, out);
            return Step::Next;
        };
        if !message.is_well_formed() {
            PROTOCOL.emit_anomaly("malformed_attribute", chunk.direction, chunk.data, chunk.time, out);
        }
        self.expire(chunk.time, out);
        if message.is_request() {
            self.request(&message, chunk, out);
        } else {
            self.answer(&message, chunk, out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        std::mem::take(&mut self.waiting).into_iter().for_each(|exchange| exchange.emit(None, out));
    }

    fn memory(&self) -> usize {
        let waiting = self.waiting.iter().map(Exchange::memory);
        waiting.sum::<usize>() + self.answered.capacity() * size_of::<Answered>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::laws::Collected;

    /// A message with an identifier and a user.
    fn message(code: u8, identifier: u8, user: &[u8]) -> Vec<u8> {
        let length = 22 + user.len() as u8;
        let head = [&[code, identifier, 0, length][..], &[identifier; 16], &[1, length - 20]];
        [&head.concat(), user].concat()
    }

    /// Usernames and results of the rows.
    fn results(records: &[Record<'_>]) -> Vec<(String, String)> {
        let text = |record: &Record<'_>, field| match record.get(field) {
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let rows = records.iter().filter(|record| *record.table == RADIUS);
        rows.map(|record| (text(record, "username"), text(record, "result"))).collect()
    }

    fn send(radius: &mut Radius, out: &mut Collected, seconds: u64, direction: Direction, data: &[u8]) {
        let time = Time(seconds * 1_000_000_000);
        radius.chunk(&Chunk { time, direction, gap: 0, data }, out);
    }

    #[test]
    fn a_login_without_a_next_message_ends_after_minutes() {
        let (mut radius, mut out) = (Radius::default(), Collected::default());
        send(&mut radius, &mut out, 0, Direction::Forward, &message(code::ACCESS_REQUEST, 1, b"ann"));
        send(&mut radius, &mut out, 300, Direction::Forward, &message(code::ACCESS_REQUEST, 2, b"bob"));
        assert!(out.records.is_empty());
        send(&mut radius, &mut out, 301, Direction::Reverse, &message(code::ACCESS_ACCEPT, 2, b""));
        let row = |user: &str, result: &str| (user.to_owned(), result.to_owned());
        assert_eq!(results(&out.records), [row("ann", "unknown"), row("bob", "success")]);
    }

    #[test]
    fn requests_that_wait_are_limited() {
        let (mut radius, mut out) = (Radius::default(), Collected::default());
        for side in [Direction::Forward, Direction::Reverse] {
            for identifier in 0..=255 {
                let request = message(code::ACCOUNTING_REQUEST, identifier, b"ann");
                send(&mut radius, &mut out, 1, side, &request);
            }
        }
        assert_eq!(radius.waiting.len(), MAX_WAITING);
        assert_eq!(results(&out.records).len(), 256);
        let is_limit = |record: &&Record<'_>| *record.get("name") == "too_many_requests".into();
        assert_eq!(out.records.iter().filter(is_limit).count(), 256);
    }
}
