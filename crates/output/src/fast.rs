//! fast.log: alerts as lines of text in Suricata's format.

use crate::alert::{ends, icmp};
use crate::eve::push_proto;
use crate::figures::printable;
use crate::format::{push_full_address, push_number};
use crate::zone::Zone;
use crate::{OutputSpec, Takes, alert_text, ports};
use weir_engine::FlowIdentity;
use weir_proto::{ALERT, Record, Value, lossless};

pub(crate) static FAST: OutputSpec = OutputSpec {
    name: "fast",
    help: "Alerts as lines of text in Suricata's fast.log.",
    files: &["fast.log"],
    is_stream: false,
    flows: false,
    events: "",
    has: |table| *table == ALERT,
    shows: |_| true,
    takes: Takes::Known,
    open: |context| alert_text::open(context, "fast.log", write),
};

/// Writes `TIME  [**] [GID:SID:REV] MESSAGE [**] [Classification: CLASS] [Priority: N] {PROTOCOL} SOURCE -> DESTINATION`.
fn write(out: &mut Vec<u8>, flow: &FlowIdentity, record: &Record<'_>, zone: &Zone) {
    zone.push_fast(out, record.time.0);
    out.extend_from_slice(b"  ");
    if *record.get("action") == "blocked".into() {
        out.extend_from_slice(b"[Drop] ");
    }
    out.extend_from_slice(b"[**] [");
    for (at, field) in ["gid", "sid", "rev"].into_iter().enumerate() {
        if at > 0 {
            out.push(b':');
        }
        push_uint(out, record.get(field));
    }
    out.extend_from_slice(b"] ");
    push_words(out, record.get("signature"));
    out.extend_from_slice(b" [**] [Classification: ");
    push_words(out, record.get("category"));
    out.extend_from_slice(b"] [Priority: ");
    push_uint(out, record.get("severity"));
    out.extend_from_slice(b"] {");
    if ports::known_protocol(flow.key.proto).is_none() {
        out.extend_from_slice(b"PROTO:");
    }
    push_proto(out, flow.key.proto);
    out.extend_from_slice(b"} ");
    let [(source, source_port), (destination, destination_port)] = ends(flow, record);
    let [first, second] = icmp(flow, record).unwrap_or([source_port, destination_port]);
    push_end(out, source, first);
    out.extend_from_slice(b" -> ");
    push_end(out, destination, second);
}

fn push_end(out: &mut Vec<u8>, address: std::net::IpAddr, number: u16) {
    push_full_address(out, address);
    out.push(b':');
    push_number(out, number.into());
}

fn push_uint(out: &mut Vec<u8>, value: &Value<'_>) {
    push_number(out, if let Value::Uint(number) = value { *number } else { 0 });
}

/// Writes a text of the rule without control characters; Suricata's word if there is none.
fn push_words(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Text(text) => out.extend_from_slice(printable(&lossless(text)).as_bytes()),
        _ => out.extend_from_slice(b"(null)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use weir_wire::FlowKey;

    fn line(flow: &FlowIdentity, record: &Record<'_>, zone: &Zone) -> String {
        let mut out = Vec::new();
        write(&mut out, flow, record, zone);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_suricatas_form() {
        let (flow, mut record) = (fixtures::identity(), fixtures::alert("MESSAGE\n\u{1b}[0m"));
        let zone = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(
            line(&flow, &record, &zone),
            "11/21/2026-02:46:08.992000  [**] [1:2009187:4] MESSAGE\\x0a\\x1b[0m [**] \
             [Classification: Web Application Attack] [Priority: 3] {TCP} 192.0.2.1:443 -> 10.0.0.5:40000"
        );
        record.set("category", Value::None);
        record.set("action", "blocked".into());
        record.set("direction", "to_server".into());
        assert_eq!(
            line(&flow, &record, &Zone::utc()),
            "11/21/2026-01:46:08.992000  [Drop] [**] [1:2009187:4] MESSAGE\\x0a\\x1b[0m [**] [Classification: (null)] \
             [Priority: 3] {TCP} 10.0.0.5:40000 -> 192.0.2.1:443"
        );
    }

    #[test]
    fn icmp_has_its_type_and_code_for_ports_and_ipv6_no_brackets() {
        let (flow, record) = (fixtures::ping(), fixtures::alert("x"));
        let (key, initiator_is_lower, first) = (flow.key, flow.initiator_is_lower, flow.first);
        let flow = FlowIdentity { key, initiator_is_lower, first, vlan: [0, 0], alias: 0 };
        // The alert is of the answer, type 129.
        let ends = |flow: &FlowIdentity, record: &Record<'_>| {
            let line = line(flow, record, &Zone::utc());
            line.split_once("[Priority: 3] ").unwrap().1.to_owned()
        };
        assert_eq!(
            ends(&flow, &record),
            "{IPv6-ICMP} 2001:0db8:0000:0000:0000:0000:0000:0001:129 -> 2001:0db8:0000:0000:0000:0000:0000:0002:0"
        );
        let identity = fixtures::identity();
        let other = FlowIdentity { key: FlowKey { proto: 200, port: [0, 0], ..identity.key }, ..identity };
        assert_eq!(ends(&other, &record), "{PROTO:200} 192.0.2.1:0 -> 10.0.0.5:0");
    }
}
