//! MQTT 3.1, 3.1.1 and 5: connections, publications and subscriptions, each message with its answers.

mod buffers;
mod fields;
mod resync;

use crate::early::begin_transaction;
use crate::frames::{Frames, Size};
use crate::sought::{Found, Sought};
use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Span, Step, Table, Transport, Value, field,
    record, values,
};
use fields::{BEGIN, MQTT, PROPERTIES, USER_PROPERTY, WIDTH};
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "mqtt",
    help: "MQTT 3.1, 3.1.1 and 5 (OASIS).",
    transport: Transport::Tcp,
    ports: &[1883],
    probe,
    parser: |_| Box::new(Mqtt::default()),
    tables: &[&MQTT, &CONNECT, &PUBLISH, &SUBSCRIBE],
    buffers: buffers::ALL,
};

static CONNECT: Table = Table {
    name: "mqtt_connect",
    help: "A client's connection (CONNECT).",
    zeek: "mqtt_connect",
    eve: "",
    fields: &[
        field("proto_name", Kind::Text, "Protocol name in CONNECT.").zeek("proto_name"),
        field("proto_version", Kind::Word, "Protocol version in CONNECT.").zeek("proto_version"),
        field("client_id", Kind::Text, "Client identifier in CONNECT.")
            .zeek("client_id")
            .privacy(Privacy::User),
        field("connect_status", Kind::Word, "Return code of the server's CONNACK, by name.")
            .zeek("connect_status"),
        field("will_topic", Kind::Text, "Will topic in CONNECT.")
            .zeek("will_topic")
            .privacy(Privacy::Content),
        field("will_payload", Kind::Text, "Payload of the will in CONNECT.")
            .zeek("will_payload")
            .privacy(Privacy::Content),
    ],
};

static PUBLISH: Table = Table {
    name: "mqtt_publish",
    help: "A published message (PUBLISH).",
    zeek: "mqtt_publish",
    eve: "",
    fields: &[
        field("from_client", Kind::Bool, "Whether the client sent the message.").zeek("from_client"),
        field(
            "retain",
            Kind::Bool,
            "Whether the server keeps the message for later subscribers (retain flag).",
        )
        .zeek("retain"),
        field("qos", Kind::Word, "Quality of service: at most once, at least once or exactly once.")
            .zeek("qos"),
        field("status", Kind::Word, "State of the delivery: the last acknowledgement seen.").zeek("status"),
        field("topic", Kind::Text, "Topic of the message.").zeek("topic").privacy(Privacy::Content),
        field("payload", Kind::Text, "Payload of the message, up to 4,096 bytes.")
            .zeek("payload")
            .privacy(Privacy::Content),
        field("payload_len", Kind::Uint, "Length of the payload in bytes.").zeek("payload_len"),
    ],
};

static SUBSCRIBE: Table = Table {
    name: "mqtt_subscribe",
    help: "A subscription to topics, or its end (SUBSCRIBE, UNSUBSCRIBE).",
    zeek: "mqtt_subscribe",
    eve: "",
    fields: &[
        field("action", Kind::Word, "Whether the topics are subscribed to or unsubscribed from.")
            .zeek("action"),
        field("topics", Kind::List(&Kind::Text), "Topics of the message.")
            .zeek("topics")
            .privacy(Privacy::Content),
        field("qos_levels", Kind::List(&Kind::Uint), "Quality of service requested for each topic.")
            .zeek("qos_levels"),
        field("granted_qos_level", Kind::Uint, "Quality of service granted for the first topic.")
            .zeek("granted_qos_level"),
        field("ack", Kind::Bool, "Whether the server acknowledged the message.").zeek("ack"),
    ],
};

/// Maximum number of bytes of one message that are kept. The rest of a longer message, which can have 256 MB, is
/// skipped.
const MAX_HELD: usize = 65_536;
/// Maximum number of published bytes in a record.
const MAX_PAYLOAD: usize = 4096;
/// Maximum number of topics of one subscription, and of properties.
const MAX_LIST: usize = 64;
/// Maximum number of incomplete exchanges.
const MAX_WAITING: usize = 64;

const KIND_CONNECT: u8 = 1;
const KIND_CONNACK: u8 = 2;
const KIND_PUBLISH: u8 = 3;
const KIND_PUBACK: u8 = 4;
const KIND_PUBREC: u8 = 5;
const KIND_PUBREL: u8 = 6;
const KIND_PUBCOMP: u8 = 7;
const KIND_SUBSCRIBE: u8 = 8;
const KIND_SUBACK: u8 = 9;
const KIND_UNSUBSCRIBE: u8 = 10;
const KIND_UNSUBACK: u8 = 11;
const KIND_DISCONNECT: u8 = 14;
const KIND_AUTH: u8 = 15;

/// Names of the kinds.
const NAMES: [&str; 16] = [
    "will",
    "connect",
    "connack",
    "publish",
    "puback",
    "pubrec",
    "pubrel",
    "pubcomp",
    "subscribe",
    "suback",
    "unsubscribe",
    "unsuback",
    "pingreq",
    "pingresp",
    "disconnect",
    "auth",
];

fn probe(heads: &Heads<'_>) -> Probe {
    match is_connect(heads.forward) {
        Probe::Reject => {}
        answer => return answer,
    }
    // A message within a connection is unspecific: the port must decide.
    let is_message = |head: &[u8]| match head {
        [first, ..] => has_good_flags(*first) && length(head) != Length::Bad,
        [] => true,
    };
    let is_home = heads.ports.contains(&1883);
    if is_home && heads.both().all(is_message) { Probe::Maybe } else { Probe::Reject }
}

/// Whether this is a client's first message.
fn is_connect(head: &[u8]) -> Probe {
    match head.first() {
        Some(0x10) => {}
        // The server never sends first.
        _ => return Probe::Reject,
    }
    let rest = match length(head) {
        Length::Bad => return Probe::Reject,
        Length::Unknown => return Probe::Maybe,
        Length::Is { header, .. } => head.get(header..).unwrap_or_default(),
    };
    for (name, versions) in [(&b"\0\x04MQTT"[..], 4..=5), (b"\0\x06MQIsdp", 3..=3)] {
        let max = rest.len().min(name.len());
        if rest.get(..max) == name.get(..max) {
            return match rest.get(name.len()) {
                None => Probe::Maybe,
                // A bridge sets the highest bit.
                Some(version) if versions.contains(&(version & 0x7f)) => Probe::Match,
                Some(_) => Probe::Reject,
            };
        }
    }
    Probe::Reject
}

/// Whether the flags of a first byte are valid for its kind.
fn has_good_flags(first: u8) -> bool {
    match (first >> 4, first & 0x0f) {
        (0, _) => false,
        (KIND_PUBLISH, flags) => flags & 0b0110 != 0b0110,
        (KIND_PUBREL | KIND_SUBSCRIBE | KIND_UNSUBSCRIBE, flags) => flags & !0b1000 == 0b0010,
        (_, flags) => flags & !0b1000 == 0,
    }
}

/// Length of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Length {
    Is { header: usize, body: usize },
    Unknown,
    Bad,
}

fn length(head: &[u8]) -> Length {
    let mut body = 0;
    for (at, byte) in head.iter().skip(1).take(4).enumerate() {
        body |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Length::Is { header: at + 2, body };
        }
    }
    if head.len() > 4 { Length::Bad } else { Length::Unknown }
}

/// Column of a property of a message type; type 0 is a will.
fn column(kind: u8, property: u8) -> Option<usize> {
    let place = PROPERTIES.iter().find(|(of, id, _)| (*of, *id) == (kind, property));
    place.map(|(_, _, at)| *at)
}

/// A request and its acknowledgements.
struct Exchange {
    time: Time,
    /// The bytes of its messages.
    at: Span,
    direction: Direction,
    kind: u8,
    id: Option<u16>,
    qos: u8,
    last: u8,
    values: Vec<Value<'static>>,
    pairs: Vec<Vec<Value<'static>>>,
}

impl Exchange {
    fn new(time: Time, at: Span, direction: Direction, kind: u8) -> Self {
        let values = Value::absent(WIDTH);
        Self { time, at, direction, kind, id: None, qos: 0, last: kind, values, pairs: Vec::new() }
    }

    fn set(&mut self, at: usize, value: impl Into<Value<'static>>) {
        if let Some(place) = self.values.get_mut(at) {
            *place = value.into();
        }
    }

    fn get(&self, at: usize) -> Value<'static> {
        self.values.get(at).cloned().unwrap_or_default()
    }

    /// Adds a user property to those of its message.
    fn name(&mut self, at: usize, pair: Vec<Value<'static>>) {
        match self.values.get_mut(at) {
            Some(Value::Rows(rows)) if rows.len() < MAX_LIST => rows.push(pair),
            Some(place @ Value::None) => *place = Value::Rows(vec![pair]),
            _ => {}
        }
    }

    fn memory(&self) -> usize {
        let cell = |value: &Value<'_>| {
            size_of::<Value<'_>>() + if let Value::Text(text) = value { text.len() } else { 0 }
        };
        let texts = self.values.iter().map(|value| match value {
            Value::Text(text) => text.len(),
            Value::List(list) => list.len() * size_of::<Value<'_>>(),
            Value::Rows(rows) => rows.iter().flatten().map(cell).sum(),
            _ => 0,
        });
        WIDTH * size_of::<Value<'_>>() + texts.sum::<usize>() + self.pairs.len() * 128
    }

    fn emit(mut self, out: &mut dyn Out) {
        self.zeek(out);
        if !self.pairs.is_empty() {
            let pairs = std::mem::take(&mut self.pairs);
            self.set(fields::USER_PROPERTIES, Value::Rows(pairs));
        }
        out.record(Record::new(&MQTT, self.time, self.values).over(self.at));
    }

    /// Emits the rows of Zeek's logs.
    fn zeek(&self, out: &mut dyn Out) {
        match self.kind {
            KIND_CONNECT => {
                let version = match self.get(fields::CONNECT_PROTOCOL_VERSION) {
                    Value::Uint(3) => "3.1",
                    Value::Uint(4) => "3.1.1",
                    _ => "5.0",
                };
                let status: Option<&str> = match self.get(fields::CONNACK_RETURN_CODE) {
                    Value::Uint(0) => Some("Connection Accepted"),
                    Value::Uint(1) => Some("Refused: unacceptable protocol version"),
                    Value::Uint(2) => Some("Refused: identifier rejected"),
                    Value::Uint(3) => Some("Refused: server unavailable"),
                    Value::Uint(4) => Some("Refused: bad user name or password"),
                    Value::Uint(5) => Some("Refused: not authorized"),
                    Value::Uint(_) => Some("Refused"),
                    _ => None,
                };
                let record = record!(
                    CONNECT,
                    self.time,
                    proto_name = self.get(fields::CONNECT_PROTOCOL_STRING),
                    proto_version = version,
                    client_id = self.get(fields::CONNECT_CLIENT_ID),
                    connect_status = status,
                    will_topic = self.get(fields::CONNECT_WILL_TOPIC),
                    will_payload = self.get(fields::CONNECT_WILL_MESSAGE),
                );
                out.record(record.over(self.at));
            }
            KIND_PUBLISH => {
                let qos = match self.qos {
                    0 => "at most once",
                    1 => "at least once",
                    2 => "exactly once",
                    _ => "unknown",
                };
                let is_over = self.is_over();
                let record = record!(
                    PUBLISH,
                    self.time,
                    from_client = self.direction == Direction::Forward,
                    retain = self.get(fields::PUBLISH_RETAIN),
                    qos = qos,
                    status = if is_over { "ok" } else { "incomplete" },
                    topic = self.get(fields::PUBLISH_TOPIC),
                    payload = self.get(fields::PUBLISH_MESSAGE),
                    payload_len = self.get(fields::PUBLISH_BYTES),
                );
                out.record(record.over(self.at));
            }
            KIND_SUBSCRIBE | KIND_UNSUBSCRIBE => {
                let is_wanted = self.kind == KIND_SUBSCRIBE;
                let (topics, levels) = match self.get(fields::SUBSCRIBE_TOPICS) {
                    Value::Rows(rows) => {
                        let column = |at: usize| -> Value<'static> {
                            rows.iter().filter_map(|row| row.get(at).cloned()).collect()
                        };
                        (column(0), column(1))
                    }
                    _ => (self.get(fields::UNSUBSCRIBE_TOPICS), Value::None),
                };
                let granted = match self.get(fields::SUBACK_QOS_GRANTED) {
                    Value::List(list) => list.into_iter().next().unwrap_or_default(),
                    _ => Value::None,
                };
                let action = if is_wanted { "MQTT::SUBSCRIBE" } else { "MQTT::UNSUBSCRIBE" };
                let record = record!(
                    SUBSCRIBE,
                    self.time,
                    action = action,
                    topics = topics,
                    qos_levels = levels,
                    granted_qos_level = granted,
                    ack = self.is_over(),
                );
                out.record(record.over(self.at));
            }
            _ => {}
        }
    }

    /// Whether the exchange is complete.
    fn is_over(&self) -> bool {
        match self.kind {
            KIND_CONNECT => self.last == KIND_CONNACK,
            KIND_SUBSCRIBE => self.last == KIND_SUBACK,
            KIND_UNSUBSCRIBE => self.last == KIND_UNSUBACK,
            KIND_PUBLISH => match self.qos {
                0 => true,
                1 => self.last == KIND_PUBACK,
                _ => self.last == KIND_PUBCOMP,
            },
            _ => true,
        }
    }
}

#[derive(Default)]
struct Side {
    frames: Frames,
    /// Remaining bytes of a long message that are skipped.
    skip: usize,
    /// Whether the missing CONNECT was reported.
    stranger: bool,
    /// After a gap: the bytes up to the next message.
    sought: Option<Sought>,
}

#[derive(Default)]
struct Mqtt {
    /// Number of messages of both sides.
    messages: u64,
    version: Option<u8>,
    client: Side,
    server: Side,
    waiting: VecDeque<Exchange>,
}

impl Parser for Mqtt {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let mut side = std::mem::take(self.side(chunk.direction));
        let step = self.read(&mut side, chunk, out);
        *self.side(chunk.direction) = side;
        step
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        for exchange in std::mem::take(&mut self.waiting) {
            exchange.emit(out);
        }
    }

    fn memory(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(Exchange::memory).sum();
        let side = |side: &Side| side.frames.memory() + side.sought.as_ref().map_or(0, Sought::memory);
        side(&self.client) + side(&self.server) + waiting
    }
}

impl Mqtt {
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Forward => &mut self.client,
            Direction::Reverse => &mut self.server,
        }
    }

    fn read(&mut self, side: &mut Side, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            match usize::try_from(chunk.gap).ok().filter(|gap| *gap <= side.skip) {
                Some(gap) => side.skip -= gap,
                None => {
                    side.frames.forget();
                    (side.skip, side.sought) = (0, Some(Sought::default()));
                }
            }
        }
        let Some(sought) = side.sought.take() else { return self.messages(side, chunk.data, chunk, out) };
        let (version, side_of) = (self.version, chunk.direction);
        let begun = |at: usize, bytes: &[u8]| resync::begin(at, bytes, version, side_of);
        match sought.next(chunk.data, chunk.time, begun) {
            Found::Bytes(found) => {
                let found = found.bytes();
                // The bytes before it belong to no message that is known.
                out.message(found.len());
                self.messages(side, found, chunk, out)
            }
            Found::Later(sought) => {
                side.sought = Some(sought);
                Step::Next
            }
            Found::Nothing(_) => Step::GiveUp,
        }
    }

    /// Takes the messages of one side, in bytes that end with the chunk.
    fn messages(&mut self, side: &mut Side, mut data: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        while !data.is_empty() {
            if side.skip > 0 {
                let fit = side.skip.min(data.len());
                side.skip -= fit;
                data = data.get(fit..).unwrap_or_default();
                if side.skip == 0 {
                    out.more(data.len());
                }
                continue;
            }
            let size = |head: &[u8]| match length(head) {
                Length::Is { header, body } => Size::Bytes((header + body).min(MAX_HELD)),
                Length::Unknown => Size::Within(head.len() + 1),
                Length::Bad => Size::Bytes(5),
            };
            let mut name = None;
            let mut emitted = Vec::new();
            let Some(skip) = side.frames.next(&mut data, size, |message, unread| {
                out.message(unread);
                let Length::Is { header, body } = length(message) else {
                    name = Some("malformed_traffic");
                    return None;
                };
                let first = message.first().copied().unwrap_or_default();
                if first >> 4 == 0 || (first >> 4 == KIND_AUTH && self.version.is_some_and(|v| v < 5)) {
                    name = Some("unassigned_msgtype");
                    return None;
                }
                let variable = message.get(header..).unwrap_or_default();
                let size = header + body;
                emitted = self.message(first, variable, [size, body], chunk, out);
                Some(size.saturating_sub(message.len()))
            }) else {
                break;
            };
            if first_without_connect(self.version, side) {
                emitted.push("unintroduced_message");
            }
            for name in emitted.into_iter().chain(name) {
                PROTOCOL.emit_anomaly(name, chunk.direction, b"", chunk.time, out);
            }
            match skip {
                Some(skip) => side.skip = skip,
                None => return Step::GiveUp,
            }
        }
        Step::Next
    }

    /// Parses a message, whose length is given with and without its fixed header. Returns its errors.
    fn message(
        &mut self,
        first: u8,
        variable: &[u8],
        [size, bytes]: [usize; 2],
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Vec<&'static str> {
        let kind = first >> 4;
        let qos = first >> 1 & 3;
        let mut emitted = Vec::new();
        if qos == 3 {
            emitted.push("invalid_qos_level");
        }
        if kind == KIND_CONNECT && self.version.is_some() {
            emitted.push("double_connect");
        }
        let (is_5, reader) = (self.version == Some(5), Reader::new(variable));
        let mut message = Message { kind, qos, is_5, id: None, payload: None, reader };
        let mut own = Exchange::new(chunk.time, out.here(), chunk.direction, kind);
        let begin = BEGIN.get(usize::from(kind)).copied().unwrap_or_default();
        own.set(begin, qos);
        own.set(begin + 1, first & 1 != 0);
        own.set(begin + 2, first & 8 != 0);
        own.qos = qos;
        if message.read(&mut own, bytes).is_none() {
            emitted.push("malformed_traffic");
        }
        begin_transaction(chunk.direction, self.messages, out);
        self.messages += 1;
        buffers::hand_on(&message, &own, chunk.direction, out);
        buffers::numbers(&own, self.version, chunk.direction, out);
        out.side_is_complete(chunk.direction);
        own.id = message.id;
        if kind == KIND_PUBLISH && variable.len() < bytes {
            own.set(fields::PUBLISH_TRUNCATED, true);
            own.set(fields::PUBLISH_SIZE, size);
        }
        if kind == KIND_CONNECT
            && let Value::Uint(version) = own.get(fields::CONNECT_PROTOCOL_VERSION)
        {
            self.version = Some(version as u8 & 0x7f);
        }
        let at = self.asked(kind, own.id, chunk.direction);
        let exchange = match at.and_then(|at| self.waiting.remove(at)) {
            Some(mut asked) => {
                for (place, value) in asked.values.iter_mut().zip(own.values) {
                    if !value.is_none() {
                        *place = value;
                    }
                }
                asked.pairs.extend(own.pairs);
                asked.pairs.truncate(MAX_LIST);
                asked.last = kind;
                asked.at.add(own.at);
                asked
            }
            None => {
                emitted.extend(match kind {
                    KIND_CONNACK if self.version.is_some() => Some("missing_connect"),
                    KIND_PUBACK..=KIND_PUBCOMP => Some("missing_publish"),
                    KIND_SUBACK => Some("missing_subscribe"),
                    KIND_UNSUBACK => Some("missing_unsubscribe"),
                    _ => None,
                });
                own
            }
        };
        if exchange.is_over() {
            exchange.emit(out);
        } else {
            if self.waiting.len() == MAX_WAITING
                && let Some(oldest) = self.waiting.pop_front()
            {
                emitted.push("too_many_transactions");
                oldest.emit(out);
            }
            self.waiting.push_back(exchange);
        }
        emitted
    }

    /// The exchange that a message belongs to.
    fn asked(&self, kind: u8, id: Option<u16>, direction: Direction) -> Option<usize> {
        let (asked, is_back) = match kind {
            KIND_CONNACK => (KIND_CONNECT, true),
            KIND_PUBACK | KIND_PUBREC | KIND_PUBCOMP => (KIND_PUBLISH, true),
            KIND_PUBREL => (KIND_PUBLISH, false),
            KIND_SUBACK => (KIND_SUBSCRIBE, true),
            KIND_UNSUBACK => (KIND_UNSUBSCRIBE, true),
            _ => return None,
        };
        looked_at(self.waiting.len());
        self.waiting.iter().position(|exchange| {
            exchange.kind == asked
                && (kind == KIND_CONNACK || exchange.id == id)
                && (exchange.direction != direction) == is_back
        })
    }
}

/// Reports a missing CONNECT, once for each side.
fn first_without_connect(version: Option<u8>, side: &mut Side) -> bool {
    version.is_none() && !std::mem::replace(&mut side.stranger, true)
}

/// A message that is being parsed.
struct Message<'a> {
    kind: u8,
    qos: u8,
    is_5: bool,
    id: Option<u16>,
    /// What is published, or the message of a will.
    payload: Option<&'a [u8]>,
    reader: Reader<'a>,
}

impl<'a> Message<'a> {
    fn text(&mut self) -> Option<&'a [u8]> {
        let bytes = self.reader.u16()?;
        self.reader.take(bytes.into())
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for at in 0..4 {
            let byte = self.reader.u8()?;
            number |= u32::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads the packet identifier of the message.
    fn id(&mut self, own: &mut Exchange, at: usize) -> Option<()> {
        let id = self.reader.u16()?;
        self.id = Some(id);
        own.set(at, id);
        Some(())
    }

    fn read(&mut self, own: &mut Exchange, bytes: usize) -> Option<()> {
        match self.kind {
            KIND_CONNECT => self.connect(own),
            KIND_CONNACK => {
                own.set(fields::CONNACK_SESSION_PRESENT, self.reader.u8()? & 1 != 0);
                own.set(fields::CONNACK_RETURN_CODE, self.reader.u8()?);
                self.properties(own, self.kind)
            }
            KIND_PUBLISH => {
                let kept = self.reader.rest().len();
                own.set(fields::PUBLISH_TOPIC, self.text()?.to_vec());
                if self.qos > 0 {
                    self.id(own, fields::PUBLISH_MESSAGE_ID)?;
                }
                self.properties(own, self.kind)?;
                let payload = self.reader.rest();
                self.payload = Some(payload);
                own.set(fields::PUBLISH_BYTES, bytes.saturating_sub(kept - payload.len()));
                own.set(fields::PUBLISH_MESSAGE, payload.get(..MAX_PAYLOAD).unwrap_or(payload).to_vec());
                Some(())
            }
            KIND_PUBACK | KIND_PUBREC | KIND_PUBREL | KIND_PUBCOMP => {
                let begin = BEGIN.get(usize::from(self.kind))? + 3;
                self.id(own, begin)?;
                self.reason(own, begin + 1)
            }
            KIND_SUBSCRIBE => {
                self.id(own, fields::SUBSCRIBE_MESSAGE_ID)?;
                self.properties(own, self.kind)?;
                let mut topics = Vec::new();
                while !self.reader.rest().is_empty() {
                    let (topic, qos) = (self.text()?, self.reader.u8()? & 3);
                    if topics.len() < MAX_LIST {
                        topics.push(values!(fields::TOPICS, topic = topic.to_vec(), qos = qos));
                    }
                }
                own.set(fields::SUBSCRIBE_TOPICS, Value::Rows(topics));
                Some(())
            }
            KIND_UNSUBSCRIBE => {
                self.id(own, fields::UNSUBSCRIBE_MESSAGE_ID)?;
                self.properties(own, self.kind)?;
                let mut topics: Vec<Value<'static>> = Vec::new();
                while !self.reader.rest().is_empty() {
                    let topic = self.text()?;
                    if topics.len() < MAX_LIST {
                        topics.push(topic.to_vec().into());
                    }
                }
                own.set(fields::UNSUBSCRIBE_TOPICS, Value::List(topics));
                Some(())
            }
            KIND_SUBACK | KIND_UNSUBACK => {
                let (id, codes) = match self.kind {
                    KIND_SUBACK => (fields::SUBACK_MESSAGE_ID, fields::SUBACK_QOS_GRANTED),
                    _ => (fields::UNSUBACK_MESSAGE_ID, fields::UNSUBACK_REASON_CODES),
                };
                self.id(own, id)?;
                self.properties(own, self.kind)?;
                let rest = self.reader.rest();
                if self.kind == KIND_SUBACK || self.is_5 {
                    own.set(codes, rest.iter().take(MAX_LIST).copied().collect::<Value<'static>>());
                }
                Some(())
            }
            KIND_DISCONNECT => self.reason(own, fields::DISCONNECT_REASON_CODE),
            KIND_AUTH => self.reason(own, fields::AUTH_REASON_CODE),
            _ => Some(()),
        }
    }

    /// Reads a reason code and properties, which version 5 may omit on success.
    fn reason(&mut self, own: &mut Exchange, at: usize) -> Option<()> {
        if !self.is_5 {
            return Some(());
        }
        if self.reader.rest().is_empty() {
            own.set(at, 0_u8);
            return Some(());
        }
        own.set(at, self.reader.u8()?);
        if self.reader.rest().is_empty() {
            return Some(());
        }
        self.properties(own, self.kind)
    }

    fn connect(&mut self, own: &mut Exchange) -> Option<()> {
        own.set(fields::CONNECT_PROTOCOL_STRING, self.text()?.to_vec());
        let version = self.reader.u8()? & 0x7f;
        own.set(fields::CONNECT_PROTOCOL_VERSION, version);
        self.is_5 = version == 5;
        let flags = self.reader.u8()?;
        let has = |bit: u8| flags & (1 << bit) != 0;
        own.set(fields::CONNECT_HAS_USERNAME, has(7));
        own.set(fields::CONNECT_HAS_PASSWORD, has(6));
        own.set(fields::CONNECT_WILL_RETAIN, has(5));
        own.set(fields::CONNECT_HAS_WILL, has(2));
        own.set(fields::CONNECT_CLEAN_SESSION, has(1));
        own.set(fields::CONNECT_KEEP_ALIVE, self.reader.u16()?);
        self.properties(own, KIND_CONNECT)?;
        own.set(fields::CONNECT_CLIENT_ID, self.text()?.to_vec());
        if has(2) {
            self.properties(own, 0)?;
            own.set(fields::CONNECT_WILL_TOPIC, self.text()?.to_vec());
            let will = self.text()?;
            self.payload = Some(will);
            own.set(fields::CONNECT_WILL_MESSAGE, will.get(..MAX_PAYLOAD).unwrap_or(will).to_vec());
        }
        if has(7) {
            own.set(fields::CONNECT_USERNAME, self.text()?.to_vec());
        }
        if has(6) {
            own.set(fields::CONNECT_PASSWORD, self.text()?.to_vec());
        }
        Some(())
    }

    /// The properties of version 5.
    fn properties(&mut self, own: &mut Exchange, kind: u8) -> Option<()> {
        if !self.is_5 {
            return Some(());
        }
        let bytes = self.number()? as usize;
        let mut inner = Message { reader: Reader::new(self.reader.take(bytes)?), ..*self };
        while !inner.reader.rest().is_empty() {
            let id = inner.number()?;
            let value: Value<'static> = match id {
                1 | 23 | 25 | 36 | 37 | 40 | 41 | 42 => inner.reader.u8()?.into(),
                19 | 33 | 34 | 35 => inner.reader.u16()?.into(),
                2 | 17 | 24 | 39 => inner.reader.u32()?.into(),
                11 => inner.number()?.into(),
                3 | 8 | 9 | 18 | 21 | 22 | 26 | 28 | 31 => inner.text()?.to_vec().into(),
                38 => {
                    let (name, value) = (inner.text()?.to_vec(), inner.text()?.to_vec());
                    if let Some(at) = column(kind, USER_PROPERTY) {
                        own.name(at, values!(fields::NAMED, name = name, value = value));
                    } else if own.pairs.len() < MAX_LIST {
                        let kind = NAMES.get(usize::from(kind)).copied().unwrap_or_default();
                        own.pairs.push(values!(fields::PAIRS, message = kind, name = name, value = value));
                    }
                    continue;
                }
                _ => return None,
            };
            if let Some(at) = u8::try_from(id).ok().and_then(|id| column(kind, id)) {
                own.set(at, value);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::laws::talks;
    use crate::talk::{Talk, Turn};
    use crate::{Record, Value};
    use weir_wire::Direction;

    fn emitted(case: &str, table: &str) -> Vec<Record<'static>> {
        let (_, talk) = talks("mqtt", 1883).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
        let records = talk.emitted(|data| vec![data.to_vec()]).records;
        records.into_iter().filter(|record| record.table.name == table).collect()
    }

    /// Payloads are whole where the fields have their first bytes.
    #[test]
    fn texts_are_buffers() {
        let name = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
        let message = |first: u8, parts: &[&[u8]]| {
            let body = parts.concat();
            let length = [(body.len() & 0x7f) as u8 | 0x80, (body.len() >> 7 & 0x7f) as u8 | 0x80];
            [&[first], &length[..], &[(body.len() >> 14) as u8], &body].concat()
        };
        let (will, published) = ("w".repeat(5_000), "p".repeat(6_000));
        let about = [name("MQTT"), vec![4, 0xc6, 0, 60], name("me"), name("wt"), name(&will)].concat();
        let connect = message(0x10, &[&about, &name("ann"), &name("secret")]);
        let publish = message(0x30, &[&name("a/b"), published.as_bytes()]);
        let subscribe = message(0x82, &[&[0, 1], &name("x/#"), &[0], &name("y"), &[1]]);
        let unsubscribe = message(0xa2, &[&[0, 2], &name("y")]);
        let data = [connect, publish, subscribe, unsubscribe].concat();
        let talk = Talk {
            ip_proto: crate::TCP,
            ports: [40_000, 1883],
            turns: vec![Turn::Data(Direction::Forward, data)],
        };
        let emitted = talk.asked(|data| data.chunks(100).map(<[u8]>::to_vec).collect());
        let texts = emitted.buffers.iter().filter(|(buffer, ..)| !buffer.is_number);
        let found = texts.map(|(buffer, side, bytes)| {
            assert_eq!(*side, Direction::Forward);
            (buffer.name.strip_prefix("mqtt.").unwrap(), std::str::from_utf8(bytes).unwrap())
        });
        let expected = [
            ("connect.protocol_string", "MQTT"),
            ("connect.clientid", "me"),
            ("connect.willtopic", "wt"),
            ("connect.username", "ann"),
            ("connect.password", "secret"),
            ("connect.willmessage", &will),
            ("publish.topic", "a/b"),
            ("publish.message", &published),
            ("subscribe.topic", "x/#"),
            ("subscribe.topic", "y"),
            ("unsubscribe.topic", "y"),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn exchanges_are_joined_from_messages() {
        let records = emitted("exactly-once.talk", "mqtt");
        let [connect, subscribe, twice, server, ping, pong, un, last, bye, never] = records.as_slice() else {
            panic!("{}", records.len());
        };
        assert_eq!(connect.get("connack_return_code"), &Value::Uint(0));
        assert_eq!(connect.get("connect_will_message"), &"bye".into());
        assert_eq!(subscribe.get("suback_qos_granted"), &[1_u8, 0x80].into_iter().collect());
        for kind in ["publish", "pubrec", "pubrel", "pubcomp"] {
            assert_eq!(twice.get(&format!("{kind}_message_id")), &Value::Uint(2), "{kind}");
        }
        assert_eq!(server.get("puback_message_id"), &Value::Uint(9));
        assert_eq!(ping.get("pingreq_qos"), &Value::Uint(0));
        assert_eq!(pong.get("pingresp_qos"), &Value::Uint(0));
        assert_eq!(un.get("unsuback_message_id"), &Value::Uint(3));
        assert_eq!(last.get("publish_message"), &"words".into());
        assert_eq!(bye.get("disconnect_retain"), &Value::Bool(false));
        assert_eq!(never.get("publish_message"), &"answered".into());
    }

    #[test]
    fn properties_are_parsed() {
        let records = emitted("properties.talk", "mqtt");
        let connect = records.iter().find(|record| !record.get("connack_return_code").is_none()).unwrap();
        assert_eq!(connect.get("connect_receive_maximum"), &Value::Uint(20));
        assert_eq!(connect.get("will_will_delay_interval"), &Value::Uint(5));
        assert_eq!(connect.get("connack_assigned_client_identifier"), &"given".into());
        let pair = |name: &'static str, value: &'static str| vec![name.into(), Value::from(value)];
        assert_eq!(connect.get("connect_user_properties"), &Value::Rows(vec![pair("k", "v")]));
        assert_eq!(connect.get("will_user_properties"), &Value::Rows(vec![pair("wk", "wv")]));
        assert_eq!(connect.get("user_properties"), &Value::None);
        let subscribe = records.iter().find(|record| !record.get("subscribe_qos").is_none()).unwrap();
        let other = vec![vec!["subscribe".into(), "sk".into(), Value::from("sv")]];
        assert_eq!(subscribe.get("user_properties"), &Value::Rows(other));
    }

    #[test]
    fn long_messages_are_skipped() {
        let records = emitted("long.talk", "mqtt_publish");
        let [record] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!(record.get("payload_len"), &Value::Uint(66_000));
        let messages = emitted("long.talk", "mqtt");
        let of = |name: &str| messages.iter().map(|record| record.get(name).clone()).collect::<Vec<_>>();
        let published = messages.iter().position(|record| !record.get("publish_qos").is_none()).unwrap();
        for (at, message) in messages.iter().enumerate() {
            let is_it = at == published;
            let truncated = if is_it { Value::Bool(true) } else { Value::None };
            assert_eq!(message.get("publish_truncated"), &truncated, "{at}");
        }
        // The size is that of the whole message: its fixed header of four bytes, its topic and its payload.
        let Value::Text(topic) = &of("publish_topic")[published] else { panic!() };
        let whole = 4 + 2 + topic.len() as u64 + 66_000;
        assert_eq!(of("publish_size")[published], Value::Uint(whole));
        assert_eq!(emitted("long.talk", "mqtt").len(), 3);
    }

    #[test]
    fn malformed_messages_are_reported() {
        let records = emitted("midstream.talk", "anomaly");
        let names: Vec<_> = records.iter().map(|record| record.get("name").clone()).collect();
        let expected = [
            "unintroduced_message",
            "unintroduced_message",
            "missing_publish",
            "missing_subscribe",
            "missing_unsubscribe",
            "invalid_qos_level",
            "malformed_traffic",
            "malformed_traffic",
            "unassigned_msgtype",
        ];
        assert_eq!(names, expected.map(Value::from));
    }
}
