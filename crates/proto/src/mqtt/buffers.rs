//! The texts of a message that rules search, and the numbers that they test.

use super::fields::{self, BEGIN, TOPICS};
use super::{
    Exchange, KIND_AUTH, KIND_CONNACK, KIND_CONNECT, KIND_DISCONNECT, KIND_PUBACK, KIND_PUBCOMP,
    KIND_PUBLISH, KIND_PUBREC, KIND_SUBACK, KIND_SUBSCRIBE, KIND_UNSUBACK, KIND_UNSUBSCRIBE, Message,
};
use crate::{Buffer, Out, Value};
use weir_wire::Direction;

static CLIENT_ID: Buffer = Buffer::whole("mqtt.connect.clientid", "Client identifier in CONNECT.");
static USERNAME: Buffer = Buffer::whole("mqtt.connect.username", "User name in CONNECT.");
static PASSWORD: Buffer = Buffer::whole("mqtt.connect.password", "Password in CONNECT.");
static PROTOCOL_STRING: Buffer =
    Buffer::whole("mqtt.connect.protocol_string", "Name of the protocol in CONNECT.");
static WILL_TOPIC: Buffer = Buffer::whole("mqtt.connect.willtopic", "Topic of the will in CONNECT.");
static WILL_MESSAGE: Buffer = Buffer::whole("mqtt.connect.willmessage", "Message of the will in CONNECT.");
static TOPIC: Buffer = Buffer::whole("mqtt.publish.topic", "Topic of a published message.");
static MESSAGE: Buffer = Buffer::whole(
    "mqtt.publish.message",
    "Payload of a published message; of a PUBLISH longer than 64 KiB, what its first 64 KiB have of it.",
);
static SUBSCRIBED: Buffer =
    Buffer::whole("mqtt.subscribe.topic", "Topic in SUBSCRIBE; each alone, up to 64 of a message.");
static UNSUBSCRIBED: Buffer =
    Buffer::whole("mqtt.unsubscribe.topic", "Topic in UNSUBSCRIBE; each alone, up to 64 of a message.");

static TYPE: Buffer = Buffer::number("mqtt.type", "Type of a message, 1 to 15.");
static QOS: Buffer = Buffer::number(
    "mqtt.qos",
    "Quality of service in the fixed header of a message; acknowledgements have none.",
);
static FLAGS: Buffer = Buffer::number(
    "mqtt.flags",
    "Flags in the fixed header of a message, 8 for DUP and 1 for RETAIN; acknowledgements have none.",
);
static CONNECT_FLAGS: Buffer = Buffer::number(
    "mqtt.connect.flags",
    "Flags of CONNECT: 128 user name, 64 password, 32 retained will, 4 will, 2 clean session.",
);
static SESSION_PRESENT: Buffer = Buffer::number(
    "mqtt.connack.session_present",
    "Whether CONNACK says that the session is known: 1, else 0.",
);
static VERSION: Buffer = Buffer::number(
    "mqtt.protocol_version",
    "Version in CONNECT, and of each message after it: 3, 4 (3.1.1) or 5.",
);
static REASON_CODE: Buffer = Buffer::number(
    "mqtt.reason_code",
    "Reason or return code of CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT and AUTH; each alone.",
);

pub(super) static ALL: &[&Buffer] = &[
    &CLIENT_ID,
    &USERNAME,
    &PASSWORD,
    &PROTOCOL_STRING,
    &WILL_TOPIC,
    &WILL_MESSAGE,
    &TOPIC,
    &MESSAGE,
    &SUBSCRIBED,
    &UNSUBSCRIBED,
    &TYPE,
    &QOS,
    &FLAGS,
    &CONNECT_FLAGS,
    &SESSION_PRESENT,
    &VERSION,
    &REASON_CODE,
];

/// Fields of CONNECT whose value a buffer has.
static OF_CONNECT: [(&Buffer, usize); 5] = [
    (&PROTOCOL_STRING, fields::CONNECT_PROTOCOL_STRING),
    (&CLIENT_ID, fields::CONNECT_CLIENT_ID),
    (&WILL_TOPIC, fields::CONNECT_WILL_TOPIC),
    (&USERNAME, fields::CONNECT_USERNAME),
    (&PASSWORD, fields::CONNECT_PASSWORD),
];

/// The flags of CONNECT, each with its bit (MQTT 5, section 3.1.2.3).
const FLAGS_OF_CONNECT: [(usize, u64); 5] = [
    (fields::CONNECT_HAS_USERNAME, 0x80),
    (fields::CONNECT_HAS_PASSWORD, 0x40),
    (fields::CONNECT_WILL_RETAIN, 0x20),
    (fields::CONNECT_HAS_WILL, 4),
    (fields::CONNECT_CLEAN_SESSION, 2),
];

/// Whether a message acknowledges another one. What stands for a quality of service in its header is reserved.
fn is_acknowledgement(kind: u8) -> bool {
    matches!(kind, KIND_CONNACK | KIND_PUBACK | KIND_PUBREC | KIND_PUBCOMP | KIND_SUBACK | KIND_UNSUBACK)
}

/// Hands on the numbers of a message that `side` sent, as far as it was read. `version` is that of CONNECT, if it was seen.
pub(super) fn numbers(own: &Exchange, version: Option<u8>, side: Direction, out: &mut dyn Out) {
    if !out.asked().has_buffers() {
        return;
    }
    out.emit_number(&TYPE, side, own.kind.into());
    if !is_acknowledgement(own.kind) {
        out.emit_number(&QOS, side, own.qos.into());
        let begin = BEGIN.get(usize::from(own.kind)).copied().unwrap_or_default();
        out.emit_number(&FLAGS, side, flags(own, [(begin + 2, 8), (begin + 1, 1)]));
    }
    if own.kind == KIND_CONNECT
        && own.values.get(fields::CONNECT_HAS_USERNAME).is_some_and(|is| !is.is_none())
    {
        out.emit_number(&CONNECT_FLAGS, side, flags(own, FLAGS_OF_CONNECT));
    }
    if let Some(Value::Bool(is_present)) = own.values.get(fields::CONNACK_SESSION_PRESENT) {
        out.emit_number(&SESSION_PRESENT, side, (*is_present).into());
    }
    let stated = own.values.get(fields::CONNECT_PROTOCOL_VERSION).and_then(number);
    if let Some(version) = stated.or(version.map(u64::from)) {
        out.emit_number(&VERSION, side, version);
    }
    let place = match own.kind {
        KIND_CONNACK => fields::CONNACK_RETURN_CODE,
        // After the three bits of the fixed header and the identifier.
        KIND_PUBACK..=KIND_PUBCOMP => BEGIN.get(usize::from(own.kind)).map_or(usize::MAX, |begin| begin + 4),
        // What is granted and reasons of a refusal share their numbers.
        KIND_SUBACK => fields::SUBACK_QOS_GRANTED,
        KIND_UNSUBACK => fields::UNSUBACK_REASON_CODES,
        KIND_DISCONNECT => fields::DISCONNECT_REASON_CODE,
        KIND_AUTH => fields::AUTH_REASON_CODE,
        _ => return,
    };
    let codes = match own.values.get(place) {
        Some(Value::List(codes)) => codes.as_slice(),
        Some(code) => std::slice::from_ref(code),
        None => &[],
    };
    codes.iter().filter_map(number).for_each(|code| out.emit_number(&REASON_CODE, side, code));
}

/// The bits of fields that are true.
fn flags<const N: usize>(own: &Exchange, places: [(usize, u64); N]) -> u64 {
    let is_set = |at: usize| own.values.get(at) == Some(&Value::Bool(true));
    places.into_iter().filter(|(at, _)| is_set(*at)).map(|(_, bit)| bit).sum()
}

fn number(value: &Value<'_>) -> Option<u64> {
    if let Value::Uint(number) = value { Some(*number) } else { None }
}

/// Emits the texts of a message that `side` sent, as far as it was read. Empty ones are left out, as in Suricata. Payloads
/// are those of the message: its fields have only their first bytes.
pub(super) fn hand_on(message: &Message<'_>, own: &Exchange, side: Direction, out: &mut dyn Out) {
    if !out.asked().has_buffers() {
        return;
    }
    let mut give = |buffer: &'static Buffer, bytes: Option<&[u8]>| {
        if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
            out.emit(buffer, side, bytes);
        }
    };
    let text = |at: usize| own.values.get(at).and_then(bytes);
    match own.kind {
        KIND_CONNECT => {
            for (buffer, at) in &OF_CONNECT {
                give(buffer, text(*at));
            }
            give(&WILL_MESSAGE, message.payload);
        }
        KIND_PUBLISH => {
            give(&TOPIC, text(fields::PUBLISH_TOPIC));
            give(&MESSAGE, message.payload);
        }
        KIND_SUBSCRIBE => {
            const PLACE: usize = crate::record::at(&TOPICS, "topic");
            if let Some(Value::Rows(rows)) = own.values.get(fields::SUBSCRIBE_TOPICS) {
                rows.iter().for_each(|row| give(&SUBSCRIBED, row.get(PLACE).and_then(bytes)));
            }
        }
        KIND_UNSUBSCRIBE => {
            if let Some(Value::List(topics)) = own.values.get(fields::UNSUBSCRIBE_TOPICS) {
                topics.iter().for_each(|topic| give(&UNSUBSCRIBED, bytes(topic)));
            }
        }
        _ => {}
    }
}

fn bytes<'a>(value: &'a Value<'_>) -> Option<&'a [u8]> {
    if let Value::Text(text) = value { Some(&**text) } else { None }
}
