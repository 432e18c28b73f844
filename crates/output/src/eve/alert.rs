//! Alerts as events of Suricata: the members that an event of type `alert` has after those of every event.

use super::{app_proto, push_proto, transaction};
use crate::alert::icmp;
use crate::format::push_number;
use crate::json::{Object, push_list, push_text};
use crate::zone::Zone;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::IpAddr;
use weir_engine::FlowIdentity;
use weir_proto::{Record, TCP, Value};
use weir_wire::LinkType;

/// Suricata's word for a packet of a link or a file that no tunnel carried.
const FROM_LINK: &str = "wire/pcap";
/// Its word for what was looked at when the flow had ended.
const AT_END: &str = "stream (flow timeout)";

/// Writes the members. The references of a rule are not among them, as in Suricata's default configuration.
pub(super) fn write(event: &mut Object<'_>, flow: &FlowIdentity, record: &Record<'_>, zone: &Zone) {
    event.word("pkt_src", packet_source(record));
    write_tunnel(event, record);
    if let Some([kind, code]) = icmp(flow, record) {
        event.number("icmp_type", kind);
        event.number("icmp_code", code);
    }
    number(event, "tx_id", record, "tx_id");
    event.object("alert", |alert| {
        text(alert, "action", record, "action");
        number(alert, "gid", record, "gid");
        number(alert, "signature_id", record, "sid");
        number(alert, "rev", record, "rev");
        text(alert, "signature", record, "signature");
        // Suricata writes an empty text for a rule without a class.
        push_text(alert.member("category"), bytes(record, "category").unwrap_or_default());
        number(alert, "severity", record, "severity");
        write_metadata(alert, record);
    });
    if let Some(name) = bytes(record, "app_proto") {
        let name = std::str::from_utf8(name).map_or(name, |name| app_proto(name).as_bytes());
        push_text(event.member("app_proto"), name);
    }
    text(event, "direction", record, "direction");
    transaction::write(event, record);
    event.object("flow", |counts| {
        number(counts, "pkts_toserver", record, "orig_pkts");
        number(counts, "pkts_toclient", record, "resp_pkts");
        number(counts, "bytes_toserver", record, "orig_bytes");
        number(counts, "bytes_toclient", record, "resp_bytes");
        counts.ours("start", |out| zone.push_eve(out, flow.first.0));
    });
    write_payload(event, flow, record);
}

/// Suricata's word for where a packet comes from.
fn packet_source(record: &Record<'_>) -> &'static str {
    if *record.get("at_end") == Value::Bool(true) {
        return AT_END;
    }
    match bytes(record, "tunnel") {
        None => FROM_LINK,
        Some(b"gre" | b"gre-ethernet" | b"erspan") => "gre tunnel",
        Some(b"vxlan") => "vxlan encapsulation",
        Some(b"geneve") => "geneve encapsulation",
        Some(b"teredo") => "teredo tunnel",
        Some(_) => match record.get("tunnel_src") {
            Value::Address(IpAddr::V6(_)) => "ipv6 tunnel",
            _ => "ipv4 tunnel",
        },
    }
}

/// Writes the ends of the tunnel, if there is one.
fn write_tunnel(event: &mut Object<'_>, record: &Record<'_>) {
    let Value::Uint(proto) = record.get("tunnel_proto") else { return };
    event.object("tunnel", |tunnel| {
        for (name, field, port) in
            [("src", "tunnel_src", "tunnel_src_port"), ("dest", "tunnel_dst", "tunnel_dst_port")]
        {
            if let Value::Address(address) = record.get(field) {
                tunnel.full_address(&format!("{name}_ip"), *address);
            }
            number(tunnel, &format!("{name}_port"), record, port);
        }
        let mut name = Vec::new();
        push_proto(&mut name, u8::try_from(*proto).unwrap_or_default());
        push_text(tunnel.member("proto"), &name);
    });
}

/// Writes the payload and the packet, which are there if they were asked for.
fn write_payload(event: &mut Object<'_>, flow: &FlowIdentity, record: &Record<'_>) {
    if let Some(payload) = bytes(record, "payload") {
        base64(event, "payload", payload);
        event.number("payload_length", payload.len() as u64);
        push_text(event.member("payload_printable"), &printable(payload));
        // Transactions over UDP are found in packets.
        let is_stream = flow.key.proto == TCP && bytes(record, "found_in") != Some(b"packet");
        event.number("stream", u8::from(is_stream));
    }
    if let Some(packet) = bytes(record, "packet") {
        base64(event, "packet", packet);
    }
    if let Value::Uint(link) = *record.get("link") {
        let link = LinkType(u16::try_from(link).unwrap_or(u16::MAX));
        event.object("packet_info", |info| {
            info.number("linktype", number_of(link));
            info.word("linktype_name", name_of(link));
        });
    }
}

/// The number of a link type for libpcap, as it is on Linux: that of files but for raw IP.
fn number_of(link: LinkType) -> u16 {
    match link {
        LinkType::RAW => 12,
        LinkType(number) => number,
    }
}

/// The name of a link type for libpcap; Suricata's word for one without a name.
fn name_of(link: LinkType) -> &'static str {
    match link {
        LinkType::ETHERNET => "EN10MB",
        LinkType::PPP_HDLC => "PPP_SERIAL",
        link => link.name().unwrap_or("n/a"),
    }
}

fn base64(object: &mut Object<'_>, key: &'static str, bytes: &[u8]) {
    object.ours(key, |out| out.extend_from_slice(STANDARD.encode(bytes).as_bytes()));
}

/// Writes the metadata of the rule: each key once, with the list of its values.
fn write_metadata(alert: &mut Object<'_>, record: &Record<'_>) {
    let Value::List(all) = record.get("metadata") else { return };
    let mut keys: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
    for pair in all {
        let Value::Text(pair) = pair else { continue };
        let mut parts = pair.splitn(2, |byte| *byte == b' ');
        let (key, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => keys.push((key, vec![value])),
        }
    }
    alert.object("metadata", |metadata| {
        for (key, values) in keys {
            push_list(metadata.named(key), values, push_text);
        }
    });
}

/// The bytes as Suricata prints them: line ends and printable characters of ASCII, and a point for each other byte.
fn printable(payload: &[u8]) -> Vec<u8> {
    let is_printed = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r');
    payload.iter().map(|byte| if is_printed(byte) { *byte } else { b'.' }).collect()
}

fn bytes<'r>(record: &'r Record<'_>, field: &str) -> Option<&'r [u8]> {
    match record.get(field) {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn text(object: &mut Object<'_>, key: &str, record: &Record<'_>, field: &str) {
    if let Some(text) = bytes(record, field) {
        push_text(object.member(key), text);
    }
}

fn number(object: &mut Object<'_>, key: &str, record: &Record<'_>, field: &str) {
    if let Value::Uint(number) = record.get(field) {
        push_number(object.member(key), *number);
    }
}

#[cfg(test)]
mod tests {
    use crate::eve::records::Events;
    use crate::fixtures;
    use crate::zone::Zone;
    use serde_json::{Value, json};
    use weir_engine::FlowIdentity;
    use weir_proto::Record;
    use weir_wire::FlowKey;

    fn event(flow: &FlowIdentity, record: &Record<'_>) -> Value {
        let mut out = Vec::new();
        Events::default().write(&mut out, flow, record, &Zone::utc());
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_alert_has_the_members_of_suricatas_event() {
        let (flow, mut record) = (fixtures::identity(), fixtures::alert("a \"message\""));
        record.packet = 12;
        assert_eq!(
            event(&flow, &record),
            json!({
                "timestamp": "2026-11-21T01:46:08.992000+0000",
                "flow_id": flow.id() & ((1 << 51) - 1),
                "pcap_cnt": 12,
                "event_type": "alert",
                "src_ip": "192.0.2.1", "src_port": 443,
                "dest_ip": "10.0.0.5", "dest_port": 40000,
                "ip_v": 4, "proto": "TCP",
                "community_id": flow.community_id(0).to_string(),
                "pkt_src": "wire/pcap",
                "tx_id": 2,
                "alert": {
                    "action": "allowed", "gid": 1, "signature_id": 2_009_187, "rev": 4,
                    "signature": "a \"message\"", "category": "Web Application Attack", "severity": 3,
                    "metadata": {"created_at": ["2010_07_30"], "tag": ["one two", "three"]},
                },
                "app_proto": "dcerpc",
                "direction": "to_client",
                "flow": {
                    "pkts_toserver": 3, "pkts_toclient": 2, "bytes_toserver": 400, "bytes_toclient": 150,
                    "start": "2026-11-21T01:46:08.985000+0000",
                },
                "payload": "YSJiDQoA/w==", "payload_length": 7, "payload_printable": "a\"b\r\n..", "stream": 1,
                "packet": "DwAIAA==", "packet_info": {"linktype": 104, "linktype_name": "C_HDLC"},
            })
        );
    }

    #[test]
    fn an_alert_says_what_its_packet_is_of() {
        let (flow, mut record) = (fixtures::identity(), fixtures::alert("x"));
        for (link, number, name) in
            [(1, 1, "EN10MB"), (101, 12, "RAW"), (228, 228, "IPV4"), (900, 900, "n/a")]
        {
            record.set("link", weir_proto::Value::Uint(link));
            assert_eq!(
                event(&flow, &record)["packet_info"],
                json!({"linktype": number, "linktype_name": name})
            );
        }
        record.set("at_end", true.into());
        assert_eq!(event(&flow, &record)["pkt_src"], "stream (flow timeout)");
    }

    #[test]
    fn an_alert_in_a_tunnel_has_its_ends() {
        let (flow, mut record) = (fixtures::identity(), fixtures::alert("x"));
        assert!(event(&flow, &record).get("tunnel").is_none());
        record.set("tunnel_src", weir_proto::Value::Address("192.0.2.7".parse().unwrap()));
        record.set("tunnel_dst", weir_proto::Value::Address("192.0.2.8".parse().unwrap()));
        for (kind, proto, source, name) in [
            ("ip-in-ip", 4, "ipv4 tunnel", "IP-in-IP"),
            ("gre", 47, "gre tunnel", "GRE"),
            ("vxlan", 17, "vxlan encapsulation", "UDP"),
        ] {
            record.set("tunnel", kind.into());
            record.set("tunnel_proto", weir_proto::Value::Uint(proto));
            let event = event(&flow, &record);
            assert_eq!(event["pkt_src"], source);
            assert_eq!(
                event["tunnel"],
                json!({"src_ip": "192.0.2.7", "dest_ip": "192.0.2.8", "proto": name})
            );
        }
        record.set("tunnel_src_port", weir_proto::Value::Uint(40_000));
        assert_eq!(event(&flow, &record)["tunnel"]["src_port"], 40_000);
        record.set("tunnel", "ip-in-ip".into());
        record.set("tunnel_src", weir_proto::Value::Address("2001:db8::1".parse().unwrap()));
        assert_eq!(event(&flow, &record)["pkt_src"], "ipv6 tunnel");
    }

    #[test]
    fn an_alert_without_payload_class_or_transaction_has_no_such_members() {
        let (flow, mut record) = (fixtures::identity(), fixtures::alert("x"));
        for field in ["category", "metadata", "app_proto", "tx_id", "payload", "packet", "link"] {
            record.set(field, weir_proto::Value::None);
        }
        record.set("direction", "to_server".into());
        let event = event(&flow, &record);
        assert_eq!((&event["src_ip"], &event["dest_port"]), (&json!("10.0.0.5"), &json!(443)));
        assert_eq!(event["alert"]["category"], "");
        assert!(event["alert"].get("metadata").is_none());
        let of_payload =
            ["payload", "payload_length", "payload_printable", "stream", "packet", "packet_info"];
        for absent in of_payload.into_iter().chain(["app_proto", "tx_id", "pcap_cnt", "icmp_type"]) {
            assert!(event.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn only_tcp_has_streams_and_icmp_has_types() {
        let (flow, mut record) = (fixtures::identity(), fixtures::alert("x"));
        let of =
            |proto: u8, port: [u16; 2]| FlowIdentity { key: FlowKey { proto, port, ..flow.key }, ..flow };
        assert_eq!(event(&of(17, [40_000, 53]), &record)["stream"], 0);
        record.set("found_in", "packet".into());
        assert_eq!(event(&flow, &record)["stream"], 0);
        let pong = event(&of(1, [8, 0]), &record);
        assert_eq!((&pong["icmp_type"], &pong["icmp_code"]), (&json!(0), &json!(0)));
        assert_eq!((&pong["src_ip"], pong.get("src_port")), (&json!("192.0.2.1"), None));
    }
}
