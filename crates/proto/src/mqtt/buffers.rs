//! The texts of a message that rules search.

use super::fields::{self, TOPICS};
use super::{Exchange, KIND_CONNECT, KIND_PUBLISH, KIND_SUBSCRIBE, KIND_UNSUBSCRIBE, Message};
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
];

/// Fields of CONNECT whose value a buffer has.
static OF_CONNECT: [(&Buffer, usize); 5] = [
    (&PROTOCOL_STRING, fields::CONNECT_PROTOCOL_STRING),
    (&CLIENT_ID, fields::CONNECT_CLIENT_ID),
    (&WILL_TOPIC, fields::CONNECT_WILL_TOPIC),
    (&USERNAME, fields::CONNECT_USERNAME),
    (&PASSWORD, fields::CONNECT_PASSWORD),
];

/// Hands on the texts of a message that `side` sent, as far as it was read. Payloads are those of the message: its fields have
/// only their first bytes.
pub(super) fn hand_on(message: &Message<'_>, own: &Exchange, side: Direction, out: &mut dyn Out) {
    if !out.asked().has_buffers() {
        return;
    }
    let mut give = |buffer: &'static Buffer, bytes: Option<&[u8]>| {
        if let Some(bytes) = bytes {
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
