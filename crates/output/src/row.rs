//! The facts about a flow that every format of flow rows needs.

use crate::format::{push_address, push_hex, push_number, push_uid, push_uids};
use crate::json::push_text;
use crate::zone::{push_epoch_micros, push_rfc3339, push_seconds};
use crate::{ports, zone};
use std::net::{IpAddr, Ipv6Addr};
use weir_engine::flow_fields::flag_letters;
pub use weir_engine::flow_fields::{services, tunnel};
use weir_engine::{CommunityId, FlowRecord, Side};
use weir_wire::Direction;

/// The endpoints of a flow for display.
pub struct Endpoints {
    /// The initiator's address.
    pub source: IpAddr,
    /// Its port; for ICMP the type.
    pub source_port: u16,
    /// The responder's address.
    pub destination: IpAddr,
    /// The responder's port; for ICMP the type of the reply, or the code without one.
    pub destination_port: u16,
    /// The name that the initiator had resolved for the responder's address.
    pub destination_name: Option<String>,
}

impl Endpoints {
    /// The endpoints of a flow.
    pub fn of(flow: &FlowRecord) -> Self {
        let ((source, source_port), (destination, destination_port)) = (flow.initiator(), flow.responder());
        let (source, destination) = (ip(source), ip(destination));
        Self { source, source_port, destination, destination_port, destination_name: None }
    }

    /// The endpoints with a name.
    pub fn named(flow: &FlowRecord, name: Option<&str>) -> Self {
        Self { destination_name: name.map(str::to_owned), ..Self::of(flow) }
    }
}

/// An address for display: mapped IPv4 as IPv4.
pub fn ip(address: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(address).to_canonical()
}

/// Zeek's form of a flow's identifier: `C` and a fixed number of base-62 digits.
pub fn uid(id: u64) -> String {
    let mut text = Vec::with_capacity(12);
    push_uid(&mut text, id);
    String::from_utf8(text).unwrap_or_default()
}

/// A value of a column, before it is formatted.
pub enum Value {
    /// Absent or unknown.
    Unset,
    /// Nanoseconds since the epoch.
    Time(u64),
    /// Nanoseconds.
    Interval(u64),
    /// A number.
    Count(u64),
    /// Yes or no.
    Bool(bool),
    /// An address.
    Address(IpAddr),
    /// A flow's identifier, see [`push_uid`].
    Uid(u64),
    /// A Community ID.
    Community(CommunityId),
    /// The address of a network card.
    Mac([u8; 6]),
    /// TCP's flags.
    Flags(u8),
    /// A fixed word, which needs no escaping.
    Word(&'static str),
    /// Text.
    Text(String),
    /// A set with the identifiers of one or two flows; the second is 0 if there is one.
    Uids([u64; 2]),
    /// A set with one fixed word.
    OnlyWord(&'static str),
}

impl Value {
    /// Writes a value whose form is equal in every format; else returns `false` and writes nothing. The written text
    /// needs no escaping, and only numbers go without quotes in JSON.
    pub fn push(&self, out: &mut Vec<u8>) -> bool {
        match self {
            Value::Count(count) => push_number(out, *count),
            Value::Address(address) => push_address(out, *address),
            Value::Uid(id) => push_uid(out, *id),
            Value::Community(id) => out.extend_from_slice(&id.text()),
            Value::Mac(mac) => {
                for (at, byte) in mac.iter().enumerate() {
                    if at > 0 {
                        out.push(b':');
                    }
                    push_hex(out, *byte);
                }
            }
            Value::Flags(flags) => out.extend_from_slice(&flag_letters(*flags)),
            Value::Word(word) | Value::OnlyWord(word) => out.extend_from_slice(word.as_bytes()),
            _ => return false,
        }
        true
    }
}

/// How a format writes times.
#[derive(Clone, Copy)]
pub enum Times {
    /// Seconds since the epoch with six decimals.
    Epoch,
    /// RFC 3339 in UTC, with nanoseconds.
    Rfc3339,
}

impl Times {
    /// The time in this form.
    pub fn text(self, nanoseconds: u64) -> String {
        match self {
            Times::Epoch => zone::epoch_micros(nanoseconds),
            Times::Rfc3339 => zone::rfc3339(nanoseconds),
        }
    }
}

/// Writes the names and values of a flow's columns as members of a JSON object, each after a comma; unset values are
/// left out.
pub fn write_members<'a>(
    out: &mut Vec<u8>,
    columns: impl Iterator<Item = (&'a str, Value)>,
    times: Times,
    mut first: bool,
) {
    for (name, value) in columns {
        if !matches!(value, Value::Unset) {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            out.push(b'"');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            write_json(out, &value, times);
        }
    }
}

fn write_json(out: &mut Vec<u8>, value: &Value, times: Times) {
    match (value, times) {
        (Value::Unset, _) => out.extend_from_slice(b"null"),
        (Value::Time(time), Times::Epoch) | (Value::Interval(time), Times::Epoch) => {
            push_epoch_micros(out, *time);
        }
        (Value::Interval(time), Times::Rfc3339) => push_seconds(out, *time),
        (Value::Count(count), _) => push_number(out, *count),
        (Value::Bool(yes), _) => out.extend_from_slice(if *yes { b"true" } else { b"false" }),
        (Value::Text(text), _) => push_text(out, text.as_bytes()),
        (Value::Uids(ids), _) => {
            out.extend_from_slice(b"[\"");
            push_uids(out, *ids, b"\",\"");
            out.extend_from_slice(b"\"]");
        }
        (Value::OnlyWord(word), _) => {
            out.extend_from_slice(b"[\"");
            out.extend_from_slice(word.as_bytes());
            out.extend_from_slice(b"\"]");
        }
        (value, _) => {
            out.push(b'"');
            match value {
                Value::Time(time) => push_rfc3339(out, *time),
                value => {
                    value.push(out);
                }
            }
            out.push(b'"');
        }
    }
}

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ColumnKind {
    /// [`Value::Time`].
    Time,
    /// [`Value::Interval`].
    Interval,
    /// [`Value::Count`].
    Count,
    /// Any other, as text.
    Text,
}

/// A column of our own flow rows, in CSV and NDJSON.
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The kind of its values.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only Parquet has types"))]
    pub kind: ColumnKind,
    /// The value of a flow.
    pub value: fn(&FlowRecord, &Endpoints) -> Value,
}

macro_rules! columns {
    ($($name:literal $kind:ident => $value:expr,)*) => {
        &[$(Column { name: $name, kind: ColumnKind::$kind, value: $value }),*]
    };
}

/// All facts about a flow. Forward is the initiator's direction.
pub static COLUMNS: &[Column] = columns![
    "start" Time => |f, _| Value::Time(f.first.0),
    "end" Time => |f, _| Value::Time(f.last.0),
    "duration" Interval => |f, _| Value::Interval(f.duration()),
    "uid" Text => |f, _| Value::Uid(f.id),
    "community_id" Text => |f, _| Value::Community(f.community_id(0)),
    "protocol" Text => |f, _| match ports::known_protocol(f.key.proto) {
        Some(name) => Value::Word(name),
        None => Value::Text(f.key.proto.to_string()),
    },
    "ip_proto" Count => |f, _| Value::Count(f.key.proto.into()),
    "services" Text => |f, _| match services(f).collect::<Vec<_>>().as_slice() {
        [] => Value::Unset,
        names => Value::Text(names.join(" ")),
    },
    "source" Text => |_, e| Value::Address(e.source),
    "source_port" Count => |f, e| port(f, e.source_port),
    "destination" Text => |_, e| Value::Address(e.destination),
    "destination_port" Count => |f, e| port(f, e.destination_port),
    "icmp_type" Count => |f, e| if is_icmp(f) { Value::Count(e.source_port.into()) } else { Value::Unset },
    "icmp_code" Count => |f, e| if f.key.is_one_way() { Value::Count(e.destination_port.into()) } else { Value::Unset },
    "vlan" Count => |f, _| nonzero(f.vlan[0].into()),
    "inner_vlan" Count => |f, _| nonzero(f.vlan[1].into()),
    "tunnel" Text => |f, _| tunnel(f.tunnel).map_or(Value::Unset, Value::Word),
    "parent" Text => |f, _| if f.parent == 0 { Value::Unset } else { Value::Uid(f.parent) },
    "packets" Count => |f, _| Value::Count(f.forward.packets),
    "reverse_packets" Count => |f, _| Value::Count(f.reverse.packets),
    "frame_bytes" Count => |f, _| Value::Count(f.forward.frame_bytes),
    "reverse_frame_bytes" Count => |f, _| Value::Count(f.reverse.frame_bytes),
    "ip_bytes" Count => |f, _| Value::Count(f.forward.ip_bytes),
    "reverse_ip_bytes" Count => |f, _| Value::Count(f.reverse.ip_bytes),
    "payload_bytes" Count => |f, _| Value::Count(f.forward.payload_bytes),
    "reverse_payload_bytes" Count => |f, _| Value::Count(f.reverse.payload_bytes),
    "stream_bytes" Count => |f, _| f.tcp.map_or(Value::Unset, |tcp| Value::Count(tcp.stream_bytes[0])),
    "reverse_stream_bytes" Count => |f, _| f.tcp.map_or(Value::Unset, |tcp| Value::Count(tcp.stream_bytes[1])),
    "missed_bytes" Count => |f, _| f.tcp.map_or(Value::Unset, |tcp| Value::Count(tcp.missed_bytes[0])),
    "reverse_missed_bytes" Count => |f, _| f.tcp.map_or(Value::Unset, |tcp| Value::Count(tcp.missed_bytes[1])),
    "retransmitted" Count => |f, _| f.tcp.map_or(Value::Unset, |tcp| Value::Count(tcp.retransmitted[0].into())),
    "reverse_retransmitted" Count => |f, _| f.tcp.map_or(Value::Unset, |tcp| Value::Count(tcp.retransmitted[1].into())),
    "tcp_flags" Text => |f, _| tcp_flags(f, Direction::Forward),
    "reverse_tcp_flags" Text => |f, _| tcp_flags(f, Direction::Reverse),
    "bad_checksums" Count => |f, _| Value::Count(f.forward.bad_checksums.into()),
    "reverse_bad_checksums" Count => |f, _| Value::Count(f.reverse.bad_checksums.into()),
    "later_fragments" Count => |f, _| later_fragments(&f.forward),
    "reverse_later_fragments" Count => |f, _| later_fragments(&f.reverse),
    "ttl" Count => |f, _| ttl(&f.forward),
    "reverse_ttl" Count => |f, _| ttl(&f.reverse),
    "mac" Text => |f, _| mac(&f.forward),
    "reverse_mac" Text => |f, _| mac(&f.reverse),
    "state" Text => |f, _| Value::Word(f.state.name()),
    "state_words" Text => |f, _| Value::Word(weir_api::state_words(f.state.name())),
    "history" Text => |f, _| if f.history.is_empty() { Value::Unset } else { Value::Text(f.history.to_string()) },
    "reason" Text => |f, _| Value::Word(f.end.name()),
    "interface" Count => |f, _| Value::Count(f.interface.into()),
    "destination_name" Text => |_, e| e.destination_name.clone().map_or(Value::Unset, Value::Text),
];

/// Packets without the ports; unset if there are none, as in nearly all flows.
fn later_fragments(side: &Side) -> Value {
    match side.later_fragments {
        0 => Value::Unset,
        more => Value::Count(more.into()),
    }
}

fn is_icmp(flow: &FlowRecord) -> bool {
    matches!(flow.key.proto, 1 | 58)
}

fn port(flow: &FlowRecord, port: u16) -> Value {
    if ports::has_ports(flow.key.proto) { Value::Count(port.into()) } else { Value::Unset }
}

fn nonzero(n: u64) -> Value {
    if n == 0 { Value::Unset } else { Value::Count(n) }
}

fn ttl(side: &Side) -> Value {
    if side.packets == 0 { Value::Unset } else { Value::Count(side.ttl.into()) }
}

fn tcp_flags(flow: &FlowRecord, direction: Direction) -> Value {
    flow.tcp.map_or(Value::Unset, |_| Value::Flags(flow.side(direction).tcp_flags))
}

fn mac(side: &Side) -> Value {
    if side.mac == [0; 6] { Value::Unset } else { Value::Mac(side.mac) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn identifiers_are_unique() {
        assert_eq!(uid(0), "C00000000000");
        assert_eq!(uid(61), "C0000000000z");
        assert_eq!(uid(62), "C00000000010");
        let ids: BTreeSet<String> = (0..64).map(|bit| uid(1 << bit)).chain([uid(u64::MAX)]).collect();
        assert_eq!(ids.len(), 65);
    }
}
