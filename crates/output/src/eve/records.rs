//! Records as events of Suricata's eve.json.

use super::{alert, push_common, push_ours, push_proto};
use crate::json::Object;
use crate::ports;
use crate::records::json::{Shapes, Style};
use crate::row::Times;
use crate::zone::Zone;
use weir_engine::FlowIdentity;
use weir_proto::{Record, Value};

const EVE: Style = Style { times: Times::Rfc3339, name: |field| field.eve, skips_empty: true };

/// The types of events that Suricata does not have. Their objects are where [`push_ours`] puts them.
const OURS: &[&str] = &["llmnr"];

/// Records as events.
pub struct Events {
    shapes: Shapes,
}

impl Default for Events {
    fn default() -> Self {
        Self { shapes: Shapes::new(EVE) }
    }
}

impl Events {
    /// Whether eve.json has an event for a record. Suricata's files have a name: the text of a mail and the field of a form are
    /// none. What another protocol carries is in the event of its command, or in none.
    pub fn has(record: &Record<'_>) -> bool {
        let is_nameless = *record.table == weir_proto::FILES && record.get("name_or_path").is_none();
        !record.table.eve.is_empty() && !is_nameless && !weir_proto::is_no_event(record)
    }

    /// Writes a record as an event.
    pub fn write(&mut self, out: &mut Vec<u8>, flow: &FlowIdentity, record: &Record<'_>, zone: &Zone) {
        let (mut from, mut to) = (flow.initiator(), flow.responder());
        if is_reverse(record) != is_found_late(record, flow.key.proto) {
            std::mem::swap(&mut from, &mut to);
        }
        let ((source, source_port), (destination, destination_port)) = (from, to);
        let has_ports = ports::has_ports(flow.key.proto);
        // What is odd about fragments is of two hosts.
        let is_of_hosts = has_ports && source_port == 0 && destination_port == 0;
        Object::write(out, |event| {
            push_common(event, zone, record.time.0, flow.id(), record.packet, record.table.eve, flow.vlan);
            event.full_address("src_ip", source);
            if has_ports && !is_of_hosts {
                event.number("src_port", source_port);
            }
            event.full_address("dest_ip", destination);
            if has_ports && !is_of_hosts {
                event.number("dest_port", destination_port);
            }
            event.number("ip_v", if source.is_ipv4() { 4_u8 } else { 6 });
            event.ours("proto", |out| push_proto(out, flow.key.proto));
            if !is_of_hosts {
                event.ours("community_id", |out| out.extend_from_slice(&flow.community_id(0).text()));
            }
            if *record.table == weir_proto::ALERT {
                return alert::write(event, flow, record, zone);
            }
            let mut write = |object: &mut Object<'_>| self.shapes.write(object, record.table, &record.values);
            if OURS.contains(&record.table.eve) {
                push_ours(event, write);
            } else {
                write(event);
            }
        });
    }
}

/// Whether the responder sent the event's message: in Suricata's events of one side, such as a DNS answer or a sent
/// file, that side is the source.
fn is_reverse(record: &Record<'_>) -> bool {
    let is = |name: &str, value: &Value<'_>| record.get(name) == value;
    is("reverse", &Value::Bool(true))
        || is("direction", &"to_client".into())
        || is("is_orig", &Value::Bool(false))
        // A record of a whole exchange also has such a field; in a record of one message it gives the side.
        || is("type", &"response".into())
}

/// Whether the event is of the packet that acknowledges the message, which its receiver sends. Suricata reads a segment of TCP
/// when it is acknowledged, and an anomaly has the ends of the packet that is read then. An event of any other type has the ends of
/// the message, and an anomaly of a single packet those of the packet.
fn is_found_late(record: &Record<'_>, protocol: u8) -> bool {
    *record.table == weir_proto::ANOMALY && protocol == 6 && *record.get("type") != "decode".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use serde_json::json;
    use weir_proto::Table;
    use weir_proto::{Anomaly, OddPacket, PROTOCOLS, odd_packet};
    use weir_wire::FlowKey;
    use weir_wire::{Direction, Time};

    fn object(table: &'static Table, values: &[Value<'_>]) -> serde_json::Value {
        let mut out = Vec::new();
        Object::write(&mut out, |object| Shapes::new(EVE).write(object, table, values));
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_event_has_the_object_of_its_type_even_without_values() {
        for table in weir_proto::tables().filter(|table| !table.eve.is_empty()) {
            let event = object(table, &vec![Value::None; table.fields.len()]);
            assert_eq!(event, json!({ table.eve: {} }), "{}", table.name);
        }
    }

    #[test]
    fn an_anomaly_of_a_packet_has_the_ends_of_the_packet_and_no_types_for_ports() {
        let event = |proto: u8, port: [u16; 2]| {
            let identity = fixtures::identity();
            let flow = FlowIdentity { key: FlowKey { proto, port, ..identity.key }, ..identity };
            let mut out = Vec::new();
            let record =
                odd_packet(OddPacket::ShortHeader, proto, false, String::new(), Direction::Forward, Time(0));
            Events::default().write(&mut out, &flow, &record, &Zone::utc());
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        };
        let of_flow = event(6, [40000, 443]);
        assert_eq!((&of_flow["src_ip"], &of_flow["src_port"]), (&json!("10.0.0.5"), &json!(40000)));
        assert!(of_flow.get("community_id").is_some());
        assert_eq!(
            of_flow["anomaly"],
            json!({"type": "decode", "event": "truncated_header", "app_proto": "tcp"})
        );
        for event in [event(6, [0, 0]), event(58, [134, 0])] {
            assert_eq!(
                (&event["src_ip"], event.get("src_port"), event.get("dest_port")),
                (&json!("10.0.0.5"), None, None)
            );
        }
        assert!(event(6, [0, 0]).get("community_id").is_none());
    }

    #[test]
    fn an_anomaly_has_the_ends_of_the_packet_that_is_read() {
        let event = |protocol: u8, direction: Direction, transaction: Option<u64>| {
            let identity = fixtures::identity();
            let flow = FlowIdentity { key: FlowKey { proto: protocol, ..identity.key }, ..identity };
            let found = Anomaly { name: "x", direction, detail: b"", transaction };
            let mut out = Vec::new();
            Events::default().write(&mut out, &flow, &found.record(Time(0), PROTOCOLS[0]), &Zone::utc());
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        };
        let ports =
            |event: serde_json::Value| [&event["src_port"], &event["dest_port"]].map(|p| p.as_u64().unwrap());
        // The receiver acknowledges segments of TCP; a datagram is read as it comes.
        assert_eq!(ports(event(6, Direction::Forward, None)), [443, 40000]);
        assert_eq!(ports(event(6, Direction::Reverse, None)), [40000, 443]);
        assert_eq!(ports(event(17, Direction::Forward, None)), [40000, 443]);
        assert_eq!(ports(event(17, Direction::Reverse, None)), [443, 40000]);
        assert_eq!(event(6, Direction::Forward, Some(3))["tx_id"], 3);
        assert!(event(6, Direction::Forward, None).get("tx_id").is_none());
    }

    #[test]
    fn a_file_without_a_name_has_no_event() {
        let file = |name: Value<'static>| {
            let mut values = vec![Value::None; weir_proto::FILES.fields.len()];
            values[weir_proto::FILES.fields.iter().position(|f| f.name == "name_or_path").unwrap()] = name;
            Events::has(&Record::new(&weir_proto::FILES, weir_wire::Time(0), values))
        };
        assert!(file("a.txt".into()) && file("/".into()) && !file(Value::None));
        let other = weir_proto::tables().find(|table| table.name == "anomaly").unwrap();
        let values = vec![Value::None; other.fields.len()];
        assert!(Events::has(&Record::new(other, weir_wire::Time(0), values)));
    }

    #[test]
    fn names_from_the_network_replace_no_key_and_occur_once() {
        let table = weir_proto::tables().find(|table| table.name == "mqtt").unwrap();
        let mut values = vec![Value::None; table.fields.len()];
        let mut set = |name: &str, value: Value<'static>| {
            values[table.fields.iter().position(|field| field.name == name).unwrap()] = value;
        };
        let pair = |name: &'static [u8], value: &'static str| vec![Value::Text(name.into()), value.into()];
        set("connect_receive_maximum", 20_u8.into());
        let rows = [
            pair(b"site", "a"),
            pair(b"receive_maximum", "7"),
            pair(b"site", "b"),
            pair(b"q\"\xff", "x"),
            pair(b"", "e"),
        ];
        set("connect_user_properties", Value::Rows(rows.into()));
        set("will_user_properties", Value::Rows(vec![pair(b"w", "v")]));
        let mut out = Vec::new();
        Object::write(&mut out, |object| Shapes::new(EVE).write(object, table, &values));
        let properties = r#""properties":{"receive_maximum":20,"site":"b","q\"\\xff":"x","":"e"}"#;
        assert!(String::from_utf8(out).unwrap().contains(properties));
        assert_eq!(object(table, &values)["mqtt"]["connect"]["will"]["properties"], json!({"w": "v"}));
    }
}
