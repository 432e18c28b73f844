//! Events as Zeek's notice.log, with its columns and types (scripts/base/frameworks/notice).
//!
//! Zeek writes a notice when it is raised, and nothing when it ends. An event therefore has one row, when it begins. An alert of a rule
//! is the notice that Zeek raises when a signature matches (scripts/base/frameworks/signatures).

use super::transport;
use crate::alert::ends;
use crate::event::words;
use crate::row::Value;
use weir_api::{Event, EventState};
use weir_engine::FlowIdentity;
use weir_proto::{Record, Value as Field, lossless};

/// A column of notice.log.
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub value: fn(&Event) -> Value,
}

macro_rules! columns {
    ($($name:literal $kind:literal => $value:expr,)*) => {
        &[$(Column { name: $name, kind: $kind, value: $value }),*]
    };
}

pub static COLUMNS: &[Column] = columns![
    "ts" "time" => |e| Value::Time(e.last),
    "uid" "string" => unset,
    "id.orig_h" "addr" => unset,
    "id.orig_p" "port" => unset,
    "id.resp_h" "addr" => unset,
    "id.resp_p" "port" => unset,
    "fuid" "string" => unset,
    "file_mime_type" "string" => unset,
    "file_desc" "string" => unset,
    "proto" "enum" => |e| e.subject.port().map_or(Value::Unset, |(protocol, _)| Value::Word(transport(protocol))),
    "note" "enum" => |e| Value::Word(e.kind.notice),
    "msg" "string" => |e| Value::Text(words(e, usize::MAX)),
    "sub" "string" => |e| e.expression().map_or(Value::Unset, Value::Text),
    "src" "addr" => |e| e.subject.source().map_or(Value::Unset, Value::Address),
    "dst" "addr" => |e| e.subject.target().map_or(Value::Unset, Value::Address),
    "p" "port" => |e| e.subject.port().map_or(Value::Unset, |(_, port)| Value::Count(port.into())),
    "n" "count" => |e| Value::Count(e.count),
    "peer_descr" "string" => unset,
    "actions" "set[enum]" => |_| Value::OnlyWord("Notice::ACTION_LOG"),
    "email_dest" "set[string]" => unset,
    "suppress_for" "interval" => |e| e.kind.quiet.map_or(Value::Unset, Value::Interval),
    "remote_location.country_code" "string" => unset,
    "remote_location.region" "string" => unset,
    "remote_location.city" "string" => unset,
    "remote_location.latitude" "double" => unset,
    "remote_location.longitude" "double" => unset,
];

/// The columns of the row of an alert, with their values.
pub fn of_alert(flow: &FlowIdentity, record: &Record<'_>) -> impl Iterator<Item = (&'static str, Value)> {
    let text = |name: &str| match record.get(name) {
        Field::Text(text) => Value::Text(lossless(text).into_owned()),
        _ => Value::Unset,
    };
    let number = |name: &str| if let Field::Uint(number) = record.get(name) { *number } else { 0 };
    let has_ports = matches!(flow.key.proto, 6 | 17 | 132);
    let port = move |port: u16| if has_ports { Value::Count(port.into()) } else { Value::Unset };
    let ((initiator, from), (responder, to)) = (flow.initiator(), flow.responder());
    let [(source, _), (destination, at)] = ends(flow, record);
    COLUMNS.iter().map(move |column| {
        let value = match column.name {
            "ts" => Value::Time(record.time.0),
            "uid" => Value::Uid(flow.id()),
            "id.orig_h" => Value::Address(initiator),
            "id.orig_p" => port(from),
            "id.resp_h" => Value::Address(responder),
            "id.resp_p" => port(to),
            "proto" => Value::Word(transport(flow.key.proto)),
            "note" => Value::Word("Signatures::Sensitive_Signature"),
            "msg" => text("signature"),
            "sub" => Value::Text(format!("{}:{}:{}", number("gid"), number("sid"), number("rev"))),
            "src" => Value::Address(source),
            "dst" => Value::Address(destination),
            "p" => port(at),
            "actions" => Value::OnlyWord("Notice::ACTION_LOG"),
            _ => Value::Unset,
        };
        (column.name, value)
    })
}

fn unset(_: &Event) -> Value {
    Value::Unset
}

/// Whether an event has a row in its state.
pub fn has(event: &Event) -> bool {
    event.state == EventState::Begin
}
