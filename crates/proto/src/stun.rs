//! Session Traversal Utilities for NAT (RFC 8489, and its predecessors RFC 5389 and RFC 3489) with Traversal Using
//! Relays around NAT (TURN, RFC 8656): transactions, indications, and the channels of a relay.

use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Setup, Step, TCP, Table, Transport, Value, field,
    record,
};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "stun",
    help: "Session Traversal Utilities for NAT (RFC 8489), and TURN (RFC 8656).",
    transport: Transport::Both,
    ports: &[3478, 3479, 19302],
    probe,
    parser: |setup| Box::new(Stun::new(setup)),
    tables: &[&STUN, &CHANNEL],
    buffers: &[],
};

static STUN: Table = Table {
    name: "stun",
    help: "A request with its response, or an indication.",
    zeek: "",
    eve: "",
    fields: &[
        field("method", Kind::Word, "Method: binding, allocate, refresh, send, data, or its number."),
        field("class", Kind::Word, "Class of the message: request or indication."),
        field("result", Kind::Word, "Result of a request: success, error or unanswered."),
        field(
            "transaction",
            Kind::Text,
            "Transaction identifier in hexadecimal digits, without the magic cookie.",
        ),
        field("classic", Kind::Bool, "Whether the messages have no magic cookie (RFC 3489)."),
        field("reverse", Kind::Bool, "Whether the responder of the flow sent the request or indication."),
        field("retransmissions", Kind::Uint, "Number of times that the request was retransmitted."),
        field("rtt", Kind::Duration, "Time from the first request to the response, in seconds."),
        field("mapped_address", Kind::Address, "Address of the client as the server sees it."),
        field("mapped_port", Kind::Port, "Port of the client as the server sees it."),
        field("xor_mapped", Kind::Bool, "Whether the mapped address was obfuscated (XOR-MAPPED-ADDRESS)."),
        field("relayed_address", Kind::Address, "Address that a relay allocated for the client."),
        field("relayed_port", Kind::Port, "Port that a relay allocated for the client."),
        field(
            "peer_address",
            Kind::Address,
            "Address of the first peer of the message, with which the relay exchanges data.",
        ),
        field("peer_port", Kind::Port, "Port of the first peer of the message."),
        field("alternate_server", Kind::Address, "Address of the server that the client is referred to."),
        field(
            "lifetime",
            Kind::Duration,
            "Lifetime of an allocation, in seconds: granted, or else requested.",
        ),
        field("channel", Kind::Uint, "Number of the channel that is bound."),
        field("data_bytes", Kind::Uint, "Bytes of data in an indication."),
        field("software", Kind::Text, "Software of the server, or else of the client."),
        field("username", Kind::Text, "User name of the client; in ICE, the fragments of both sides.")
            .privacy(Privacy::User),
        field("realm", Kind::Text, "Realm of long-term credentials.").privacy(Privacy::Name),
        field("nonce", Kind::Text, "Nonce of long-term credentials.").privacy(Privacy::Secret),
        field("error_code", Kind::Uint, "Error code, 300 to 699 (RFC 8489, 14.8)."),
        field("error_reason", Kind::Text, "Reason phrase of the error."),
        field("priority", Kind::Uint, "Priority of a candidate pair (ICE, RFC 8445)."),
        field("role", Kind::Word, "Role of the client in ICE: controlling or controlled."),
        field("nominated", Kind::Bool, "Whether the client nominates the candidate pair (USE-CANDIDATE)."),
    ],
};

static CHANNEL: Table = Table {
    name: "stun_channel",
    help: "A channel of a relay that carried data (RFC 8656, 12), when its flow ends.",
    zeek: "",
    eve: "",
    fields: &[
        field("channel", Kind::Uint, "Number of the channel."),
        field("messages_forward", Kind::Uint, "Number of messages from the initiator."),
        field("messages_reverse", Kind::Uint, "Number of messages from the responder."),
        field("bytes_forward", Kind::Uint, "Bytes of data from the initiator."),
        field("bytes_reverse", Kind::Uint, "Bytes of data from the responder."),
        field("duration", Kind::Duration, "Time from the first message to the last, in seconds."),
    ],
};

/// Bytes of a header.
const HEADER: usize = 20;
/// Second word of a header since RFC 5389.
const COOKIE: u32 = 0x2112_a442;
/// Maximum number of requests without a response: an ICE agent checks a hundred pairs at most (RFC 8445, 6.1.2.5).
const MAX_WAITING: usize = 256;
/// Number of transactions that are remembered, so that what is sent again makes no second row.
const MAX_RECENT: usize = 64;
/// Time after which a request stays without a response, in nanoseconds: a client gives up after 39.5 s (RFC 8489, 6.2.1).
const PATIENCE: u64 = 60_000_000_000;
/// Maximum number of channels; a relay has 16,384 numbers (RFC 8656, 12).
const MAX_CHANNELS: usize = 64;
/// Maximum number of attributes of a message that are read.
const MAX_ATTRIBUTES: usize = 64;
/// Maximum length of a kept text in bytes: a user name has at most 508 (RFC 8489, 14.3).
const MAX_TEXT: usize = 513;

/// Types of attributes.
mod attribute {
    pub const MAPPED_ADDRESS: u16 = 0x0001;
    pub const USERNAME: u16 = 0x0006;
    pub const ERROR_CODE: u16 = 0x0009;
    pub const CHANNEL_NUMBER: u16 = 0x000c;
    pub const LIFETIME: u16 = 0x000d;
    pub const XOR_PEER_ADDRESS: u16 = 0x0012;
    pub const DATA: u16 = 0x0013;
    pub const REALM: u16 = 0x0014;
    pub const NONCE: u16 = 0x0015;
    pub const XOR_RELAYED_ADDRESS: u16 = 0x0016;
    pub const XOR_MAPPED_ADDRESS: u16 = 0x0020;
    pub const PRIORITY: u16 = 0x0024;
    pub const USE_CANDIDATE: u16 = 0x0025;
    /// The number that drafts before RFC 5389 gave it.
    pub const XOR_MAPPED_DRAFT: u16 = 0x8020;
    pub const SOFTWARE: u16 = 0x8022;
    pub const ALTERNATE_SERVER: u16 = 0x8023;
    pub const CONTROLLED: u16 = 0x8029;
    pub const CONTROLLING: u16 = 0x802a;
}

/// The class of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Class {
    Request,
    Indication,
    Success,
    Error,
}

/// A message's header.
#[derive(Clone, Copy, Debug)]
struct Header {
    method: u16,
    class: Class,
    /// Bytes of the attributes.
    length: usize,
    /// Transaction identifier, with the magic cookie or what stands in its place.
    id: [u8; 16],
}

impl Header {
    fn read(head: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(head);
        let (kind, length) = (reader.u16()?, reader.u16()?);
        let id = *reader.take(16)?.first_chunk::<16>()?;
        if kind >> 14 != 0 {
            return None;
        }
        // The bits of the class are between those of the method (RFC 8489, 5).
        let class = match (kind >> 8 & 1, kind >> 4 & 1) {
            (0, 0) => Class::Request,
            (0, _) => Class::Indication,
            (_, 0) => Class::Success,
            _ => Class::Error,
        };
        let method = kind & 0x0f | kind >> 1 & 0x70 | kind >> 2 & 0xf80;
        Some(Self { method, class, length: length.into(), id })
    }

    fn has_cookie(&self) -> bool {
        self.id.first_chunk() == Some(&COOKIE.to_be_bytes())
    }
}

/// Length of the message that begins here, if the magic cookie shows that it is one.
fn begins(head: &[u8]) -> Option<usize> {
    let header = Header::read(head)?;
    (header.has_cookie() && header.length.is_multiple_of(4)).then_some(HEADER + header.length)
}

/// Whether a datagram is a message beyond doubt: it has the magic cookie and its length.
pub(crate) fn is_message(datagram: &[u8]) -> bool {
    begins(datagram).is_some_and(|length| length <= datagram.len())
}

/// Whether a datagram can be one: it has the magic cookie, or a length of any version that is its own.
pub(crate) fn can_be(datagram: &[u8]) -> bool {
    begins(datagram).is_some()
        || Header::read(datagram).is_some_and(|header| HEADER + header.length == datagram.len())
}

/// Whether a datagram is one of RFC 3489, without a magic cookie: with a method of that document, and with attributes
/// of it that fill its length.
fn is_classic(datagram: &[u8], is_home: bool) -> bool {
    let Some(header) = Header::read(datagram) else { return false };
    let is_known = matches!(header.method, 1 | 2) && header.class != Class::Indication;
    let attributes = datagram.get(HEADER..).unwrap_or_default();
    if !is_known || header.length != attributes.len() {
        return false;
    }
    let mut all = Attributes(Reader::new(attributes));
    let is_of_it = |(kind, value): (u16, &[u8])| match kind {
        1 | 2 | 4 | 5 | 0x0b => value.len() == 8 || value.len() == 20,
        3 => value.len() == 4,
        6..=0x0a => true,
        kind => kind >= 0x8000,
    };
    let is_one = all.by_ref().take(MAX_ATTRIBUTES).all(is_of_it);
    is_one && all.0.rest().is_empty() && (!attributes.is_empty() || is_home)
}

fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let mut best = Probe::Reject;
    for head in heads.both() {
        let is_stream = heads.ip_proto == TCP;
        if begins(head).is_some() || !is_stream && is_classic(head, is_home) {
            return Probe::Match;
        }
        let could_be = match is_stream {
            true => could_begin(head),
            // The allocation of a channel was perhaps made before the capture began.
            false => is_home && Channel::read(head).is_some(),
        };
        match could_be {
            true => best = Probe::Maybe,
            false if is_stream => return Probe::Reject,
            false => {}
        }
    }
    best
}

/// Whether a stream that is shorter than a header can become a message.
fn could_begin(head: &[u8]) -> bool {
    let cookie = COOKIE.to_be_bytes();
    head.len() < HEADER
        && head.first().is_some_and(|first| *first < 2)
        && head.get(3).is_none_or(|length| length % 4 == 0)
        && head.iter().skip(4).zip(cookie).all(|(byte, known)| *byte == known)
}

/// The attributes of a message: type and value.
struct Attributes<'a>(Reader<'a>);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.0;
        let (kind, length) = (reader.u16()?, reader.u16()?);
        let value = reader.take(length.into())?;
        // The last one may lack its padding.
        let padding = usize::from(length).next_multiple_of(4) - usize::from(length);
        let _ = reader.take(padding.min(reader.rest().len()));
        self.0 = reader;
        Some((kind, value))
    }
}

/// An address and port. `key`: the magic cookie and transaction identifier, if the value is obfuscated.
fn address(value: &[u8], key: Option<&[u8; 16]>) -> Option<(IpAddr, u16)> {
    let mut reader = Reader::new(value);
    let (_, family, port) = (reader.u8()?, reader.u8()?, reader.u16()?);
    let mask = key.copied().unwrap_or_default();
    let [high, low, ..] = mask;
    let port = port ^ u16::from_be_bytes([high, low]);
    let address = match family {
        1 => {
            let bytes = reader.take(4)?.first_chunk::<4>()?;
            Ipv4Addr::from(u32::from_be_bytes(*bytes) ^ u32::from_be_bytes(*mask.first_chunk()?)).into()
        }
        2 => {
            let bytes = reader.take(16)?.first_chunk::<16>()?;
            Ipv6Addr::from(u128::from_be_bytes(*bytes) ^ u128::from_be_bytes(mask)).into()
        }
        _ => return None,
    };
    Some((address, port))
}

/// What the messages of a transaction state.
#[derive(Clone, Default)]
struct Stated {
    mapped: Option<(IpAddr, u16)>,
    is_xor: bool,
    relayed: Option<(IpAddr, u16)>,
    peer: Option<(IpAddr, u16)>,
    alternate: Option<IpAddr>,
    lifetime: Option<u32>,
    channel: Option<u16>,
    data: Option<u64>,
    software: Option<Vec<u8>>,
    username: Option<Vec<u8>>,
    realm: Option<Vec<u8>>,
    nonce: Option<Vec<u8>>,
    error: Option<u16>,
    reason: Option<Vec<u8>>,
    priority: Option<u32>,
    role: Option<&'static str>,
    nominated: bool,
}

impl Stated {
    /// Reads the attributes of a message. Returns whether they fill its length.
    fn read(&mut self, body: &[u8], id: &[u8; 16]) -> bool {
        let mut all = Attributes(Reader::new(body));
        let mut count = 0;
        for (kind, value) in all.by_ref() {
            count += 1;
            if count > MAX_ATTRIBUTES {
                return false;
            }
            self.attribute(kind, value, id);
        }
        all.0.rest().is_empty()
    }

    fn attribute(&mut self, kind: u16, value: &[u8], id: &[u8; 16]) {
        let text = || Some(value.get(..MAX_TEXT).unwrap_or(value).to_vec());
        let number = || value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        match kind {
            attribute::MAPPED_ADDRESS if !self.is_xor => {
                self.mapped = address(value, None).or(self.mapped);
            }
            attribute::XOR_MAPPED_ADDRESS | attribute::XOR_MAPPED_DRAFT => {
                if let Some(mapped) = address(value, Some(id)) {
                    (self.mapped, self.is_xor) = (Some(mapped), true);
                }
            }
            attribute::XOR_RELAYED_ADDRESS => self.relayed = address(value, Some(id)),
            attribute::XOR_PEER_ADDRESS => self.peer = self.peer.or_else(|| address(value, Some(id))),
            attribute::ALTERNATE_SERVER => self.alternate = address(value, None).map(|(address, _)| address),
            attribute::LIFETIME => self.lifetime = number(),
            attribute::CHANNEL_NUMBER => {
                self.channel = value.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
            }
            attribute::DATA => self.data = Some(value.len() as u64),
            attribute::SOFTWARE => self.software = text(),
            attribute::USERNAME => self.username = text(),
            attribute::REALM => self.realm = text(),
            attribute::NONCE => self.nonce = text(),
            attribute::ERROR_CODE => {
                if let [_, _, class, number, reason @ ..] = value {
                    self.error = Some(u16::from(class & 7) * 100 + u16::from(*number));
                    self.reason = Some(reason.get(..MAX_TEXT).unwrap_or(reason).to_vec());
                }
            }
            attribute::PRIORITY => self.priority = number(),
            attribute::USE_CANDIDATE => self.nominated = true,
            attribute::CONTROLLED => self.role = Some("controlled"),
            attribute::CONTROLLING => self.role = Some("controlling"),
            _ => {}
        }
    }

    fn memory(&self) -> usize {
        let texts = [&self.software, &self.username, &self.realm, &self.nonce, &self.reason];
        texts.into_iter().flatten().map(Vec::capacity).sum()
    }
}

/// A request that waits for its response.
struct Request {
    time: Time,
    direction: Direction,
    method: u16,
    id: [u8; 16],
    retransmissions: u64,
    stated: Stated,
}

/// A row's facts beside what the messages state.
struct Row<'a> {
    time: Time,
    direction: Direction,
    method: u16,
    id: &'a [u8; 16],
    class: &'static str,
    result: Option<&'static str>,
    retransmissions: Option<u64>,
    rtt: Option<u64>,
}

impl Row<'_> {
    fn emit(&self, stated: Stated, out: &mut dyn Out) {
        let is_classic = self.id.first_chunk() != Some(&COOKIE.to_be_bytes());
        let id = if is_classic { self.id.as_slice() } else { self.id.get(4..).unwrap_or_default() };
        out.record(record!(
            STUN,
            self.time,
            method = name(self.method),
            class = self.class,
            result = self.result,
            transaction = id.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
            classic = is_classic,
            reverse = self.direction == Direction::Reverse,
            retransmissions = self.retransmissions,
            rtt = self.rtt.map_or(Value::None, Value::Duration),
            mapped_address = stated.mapped.map(|(address, _)| address),
            mapped_port = stated.mapped.map(|(_, port)| port),
            xor_mapped = stated.mapped.map(|_| stated.is_xor),
            relayed_address = stated.relayed.map(|(address, _)| address),
            relayed_port = stated.relayed.map(|(_, port)| port),
            peer_address = stated.peer.map(|(address, _)| address),
            peer_port = stated.peer.map(|(_, port)| port),
            alternate_server = stated.alternate,
            lifetime = stated
                .lifetime
                .map_or(Value::None, |seconds| Value::Duration(u64::from(seconds) * 1_000_000_000)),
            channel = stated.channel,
            data_bytes = stated.data,
            software = stated.software,
            username = stated.username,
            realm = stated.realm,
            nonce = stated.nonce,
            error_code = stated.error,
            error_reason = stated.reason.filter(|reason| !reason.is_empty()),
            priority = stated.priority,
            role = stated.role,
            nominated = stated.nominated.then_some(true),
        ));
    }
}

impl Request {
    /// Emits the transaction; without a response, as unanswered.
    fn emit(self, answer: Option<(Class, Time)>, out: &mut dyn Out) {
        let result = match answer {
            Some((Class::Error, _)) => "error",
            Some(_) => "success",
            None => "unanswered",
        };
        let row = Row {
            time: self.time,
            direction: self.direction,
            method: self.method,
            id: &self.id,
            class: "request",
            result: Some(result),
            retransmissions: Some(self.retransmissions),
            rtt: answer.map(|(_, time)| time.since(self.time)),
        };
        row.emit(self.stated, out);
    }
}

/// The name of a method.
fn name(method: u16) -> String {
    match method {
        1 => "binding",
        2 => "shared_secret",
        3 => "allocate",
        4 => "refresh",
        6 => "send",
        7 => "data",
        8 => "create_permission",
        9 => "channel_bind",
        10 => "connect",
        11 => "connection_bind",
        12 => "connection_attempt",
        number => return format!("0x{number:03x}"),
    }
    .to_owned()
}

/// Data of a channel.
struct Channel {
    number: u16,
    begun: Time,
    last: Time,
    messages: [u64; 2],
    bytes: [u64; 2],
}

impl Channel {
    /// Number and length of a message of a channel (RFC 8656, 12.4).
    fn read(data: &[u8]) -> Option<(u16, usize)> {
        let mut reader = Reader::new(data);
        let (number, length) = (reader.u16()?, usize::from(reader.u16()?));
        ((0x4000..0x5000).contains(&number) && length <= reader.rest().len()).then_some((number, length))
    }

    fn emit(&self, out: &mut dyn Out) {
        let ([messages_forward, messages_reverse], [bytes_forward, bytes_reverse]) =
            (self.messages, self.bytes);
        out.record(record!(
            CHANNEL,
            self.begun,
            channel = self.number,
            messages_forward = messages_forward,
            messages_reverse = messages_reverse,
            bytes_forward = bytes_forward,
            bytes_reverse = bytes_reverse,
            duration = Value::Duration(self.last.since(self.begun)),
        ));
    }
}

struct Stun {
    is_stream: bool,
    /// Incomplete messages of the sides of a stream.
    held: [Vec<u8>; 2],
    waiting: VecDeque<Request>,
    /// Identifiers of the last transactions and indications that were emitted.
    recent: VecDeque<[u8; 16]>,
    channels: Vec<Channel>,
}

impl Stun {
    fn new(setup: &Setup) -> Self {
        Self {
            is_stream: setup.ip_proto == TCP,
            held: Default::default(),
            waiting: VecDeque::new(),
            recent: VecDeque::new(),
            channels: Vec::new(),
        }
    }

    /// Takes a message or data of a channel.
    fn message(&mut self, data: &[u8], direction: Direction, time: Time, out: &mut dyn Out) {
        looked_at(data.len());
        if let Some((number, length)) = Channel::read(data) {
            return self.data(number, length, direction, time);
        }
        let header = Header::read(data);
        let body = header.and_then(|header| data.get(HEADER..HEADER + header.length));
        let (Some(header), Some(body)) = (header, body) else {
            return PROTOCOL.emit_anomaly("malformed_message", direction, data, time, out);
        };
        self.expire(time, out);
        looked_at(self.waiting.len() + self.recent.len());
        let is_response = matches!(header.class, Class::Success | Class::Error);
        // A response comes from the other side.
        let is_of =
            |request: &Request| request.id == header.id && (request.direction == direction) != is_response;
        let asked = self.waiting.iter().position(is_of);
        if let (Class::Request, Some(request)) = (header.class, asked.and_then(|at| self.waiting.get_mut(at)))
        {
            request.retransmissions += 1;
            return;
        }
        let mut request = asked.filter(|_| is_response).and_then(|at| self.waiting.remove(at));
        let mut stated =
            request.as_mut().map(|request| std::mem::take(&mut request.stated)).unwrap_or_default();
        if request.is_none() && self.recent.contains(&header.id) {
            return;
        }
        if !stated.read(body, &header.id) {
            PROTOCOL.emit_anomaly("malformed_attribute", direction, data, time, out);
        }
        if header.class == Class::Request {
            let (method, id) = (header.method, header.id);
            return self.wait(Request { time, direction, method, id, retransmissions: 0, stated }, out);
        }
        self.remember(header.id);
        match (request, header.class) {
            (Some(request), class) => Request { stated, ..request }.emit(Some((class, time)), out),
            (None, Class::Indication) => {
                let row = Row {
                    time,
                    direction,
                    method: header.method,
                    id: &header.id,
                    class: "indication",
                    result: None,
                    retransmissions: None,
                    rtt: None,
                };
                row.emit(stated, out);
            }
            (None, class) => {
                // The request was not captured: the other side sent it.
                let asker =
                    if direction == Direction::Forward { Direction::Reverse } else { Direction::Forward };
                let row = Row {
                    time,
                    direction: asker,
                    method: header.method,
                    id: &header.id,
                    class: "request",
                    result: Some(if class == Class::Error { "error" } else { "success" }),
                    retransmissions: None,
                    rtt: None,
                };
                row.emit(stated, out);
            }
        }
    }

    fn wait(&mut self, request: Request, out: &mut dyn Out) {
        if self.waiting.len() == MAX_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            PROTOCOL.emit_anomaly("too_many_requests", request.direction, &[], request.time, out);
            oldest.emit(None, out);
        }
        self.waiting.push_back(request);
    }

    fn remember(&mut self, id: [u8; 16]) {
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(id);
    }

    /// Emits requests that stay without a response.
    fn expire(&mut self, now: Time, out: &mut dyn Out) {
        while self.waiting.front().is_some_and(|request| now.since(request.time) > PATIENCE) {
            if let Some(request) = self.waiting.pop_front() {
                self.remember(request.id);
                request.emit(None, out);
            }
        }
    }

    /// Counts data of a channel.
    fn data(&mut self, number: u16, length: usize, direction: Direction, time: Time) {
        looked_at(self.channels.len());
        let known = self.channels.iter().position(|channel| channel.number == number);
        if known.is_none() && self.channels.len() < MAX_CHANNELS {
            self.channels.push(Channel { number, begun: time, last: time, messages: [0; 2], bytes: [0; 2] });
        }
        let at = known.unwrap_or(self.channels.len() - 1);
        let Some(channel) = self.channels.get_mut(at).filter(|channel| channel.number == number) else {
            return;
        };
        channel.last = time;
        let side = direction as usize & 1;
        if let (Some(messages), Some(bytes)) = (channel.messages.get_mut(side), channel.bytes.get_mut(side)) {
            *messages += 1;
            *bytes += length as u64;
        }
    }

    /// Takes bytes of a stream: messages one after the other. Returns whether they are still messages.
    fn stream(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> bool {
        let side = chunk.direction as usize & 1;
        let mut data = chunk.data;
        while !data.is_empty() {
            let Some(held) = self.held.get_mut(side) else { return false };
            // The length of a message, as soon as its first four bytes are there.
            let missing = 4_usize.saturating_sub(held.len()).min(data.len());
            let (head, rest) = data.split_at_checked(missing).unwrap_or((data, &[]));
            held.extend_from_slice(head);
            data = rest;
            let [first, _, high, low] = *held.as_slice().first_chunk::<4>().unwrap_or(&[0; 4]);
            if held.len() < 4 {
                return true;
            }
            let said = usize::from(u16::from_be_bytes([high, low]));
            let whole = match first >> 6 {
                0 => HEADER + said,
                // Data of a channel is padded in a stream.
                1 => (4 + said).next_multiple_of(4),
                _ => return false,
            };
            let missing = whole.saturating_sub(held.len()).min(data.len());
            let (body, rest) = data.split_at_checked(missing).unwrap_or((data, &[]));
            held.extend_from_slice(body);
            data = rest;
            if held.len() < whole {
                return true;
            }
            let message = std::mem::take(held);
            self.message(&message, chunk.direction, chunk.time, out);
        }
        true
    }
}

impl Parser for Stun {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if !self.is_stream {
            if !chunk.data.is_empty() {
                self.message(chunk.data, chunk.direction, chunk.time, out);
            }
            return Step::Next;
        }
        if chunk.gap > 0 || !self.stream(chunk, out) {
            return Step::GiveUp;
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        for request in std::mem::take(&mut self.waiting) {
            request.emit(None, out);
        }
        std::mem::take(&mut self.channels).iter().for_each(|channel| channel.emit(out));
    }

    fn memory(&self) -> usize {
        let waiting = self.waiting.iter().map(|request| request.stated.memory());
        self.held.iter().map(Vec::capacity).sum::<usize>()
            + self.waiting.capacity() * size_of::<Request>()
            + waiting.sum::<usize>()
            + self.recent.capacity() * 16
            + self.channels.capacity() * size_of::<Channel>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::laws::talks;

    fn rows(case: &str, table: &Table) -> Vec<Record<'static>> {
        let (_, talk) = talks("stun", 3478).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        emitted.records.into_iter().filter(|record| record.table == table).collect()
    }

    fn column(rows: &[Record<'static>], name: &str) -> Vec<Value<'static>> {
        rows.iter().map(|record| record.get(name).clone().into_owned()).collect()
    }

    #[test]
    fn a_transaction_is_one_row_however_often_it_is_sent() {
        let rows = rows("binding.talk", &STUN);
        assert_eq!(column(&rows, "result"), ["success", "success", "unanswered"].map(Value::from));
        assert_eq!(column(&rows, "retransmissions"), [0_u64, 0, 2].map(Value::from));
        let mapped: [IpAddr; 2] = ["198.51.100.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        assert_eq!(column(&rows, "mapped_address"), [mapped[0].into(), mapped[1].into(), Value::None]);
        assert_eq!(column(&rows, "mapped_port"), [61234_u64.into(), 4660_u64.into(), Value::None]);
        assert_eq!(column(&rows, "software")[0], Value::from("weir server"));
        assert_eq!(rows[0].get("rtt"), &Value::Duration(1_000_000));
    }

    #[test]
    fn a_relay_is_read_over_datagrams_and_streams() {
        let [datagrams, stream] =
            ["turn.talk", "stream.talk"].map(|case| (rows(case, &STUN), rows(case, &CHANNEL)));
        for (rows, channels) in [&datagrams, &stream] {
            let methods =
                ["allocate", "allocate", "create_permission", "send", "data", "channel_bind", "refresh"];
            assert_eq!(column(rows, "method"), methods.map(Value::from));
            assert_eq!(rows[0].get("error_code"), &Value::Uint(401));
            assert_eq!(rows[0].get("error_reason"), &"Unauthorized".into());
            assert_eq!(rows[1].get("username"), &"ann".into());
            assert_eq!(rows[1].get("relayed_port"), &Value::Uint(50000));
            assert_eq!(rows[1].get("lifetime"), &Value::Duration(600_000_000_000));
            assert_eq!(rows[2].get("peer_port"), &Value::Uint(7000));
            assert_eq!(rows[4].get("data_bytes"), &Value::Uint(14));
            assert_eq!(rows[5].get("channel"), &Value::Uint(0x4001));
            assert_eq!(column(channels, "bytes_forward"), [Value::Uint(8)]);
            assert_eq!(column(channels, "bytes_reverse"), [Value::Uint(10)]);
        }
    }

    #[test]
    fn protocols_that_share_ports_keep_their_state() {
        let (_, talk) =
            talks("stun", 3478).into_iter().find(|(path, _)| path.ends_with("shared.talk")).unwrap();
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        let count = |table: &str| emitted.records.iter().filter(|record| record.table.name == table).count();
        let counts = ["stun", "stun_channel", "tls", "rtp", "rtcp"].map(count);
        assert_eq!(counts, [3, 1, 1, 1, 1]);
        let media = emitted.records.iter().find(|record| record.table.name == "rtp").unwrap();
        assert_eq!(media.get("packets"), &Value::Uint(8));
    }

    #[test]
    fn messages_without_a_cookie_are_read() {
        let rows = rows("classic.talk", &STUN);
        assert_eq!(column(&rows, "classic"), [true, true].map(Value::from));
        assert_eq!(column(&rows, "result"), ["success", "unanswered"].map(Value::from));
        assert_eq!(rows[0].get("transaction"), &"01020304010101010101010101010101".into());
    }
}
