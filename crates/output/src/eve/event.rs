//! Events as Suricata's events: of type `anomaly` if they are about traffic, and `engine` if they are about the monitor.
//!
//! Suricata's members of an anomaly are its name and who found it, and those of `engine` a text and its source. Everything
//! else about an event is in the object `weir` of [`push_ours`].

use super::{push_ours, push_proto};
use crate::event::words;
use crate::format::push_number;
use crate::json::{Object, push_text};
use crate::zone::Zone;
use std::net::IpAddr;
use weir_api::{Event, Severity, Subject};

/// Writes an event. Its time is that of the last finding.
pub fn push_event(out: &mut Vec<u8>, event: &Event, zone: &Zone) {
    let text = words(event, usize::MAX);
    Object::write(out, |object| {
        object.ours("timestamp", |out| zone.push_eve(out, event.last));
        match (event.subject.source(), event.subject.target()) {
            (None, None) => push_engine(object, event, &text),
            ends => push_anomaly(object, event, ends),
        }
        push_ours(object, |ours| ours.object("weir", |weir| push_facts(weir, event, &text, zone)));
    });
}

/// What a host did, or what was done to it.
fn push_anomaly(object: &mut Object<'_>, event: &Event, (source, target): (Option<IpAddr>, Option<IpAddr>)) {
    object.word("event_type", "anomaly");
    let port = event.subject.port().map(|(_, port)| port);
    let is_of_source = matches!(event.subject, Subject::Target { of_sender: true, .. });
    let (source_port, target_port) = if is_of_source { (port, None) } else { (None, port) };
    if let Some(source) = source {
        object.full_address("src_ip", source);
    }
    if let Some(port) = source_port {
        object.number("src_port", port);
    }
    if let Some(target) = target {
        object.full_address("dest_ip", target);
    }
    if let Some(port) = target_port {
        object.number("dest_port", port);
    }
    let protocol = match event.subject {
        Subject::Port { protocol, .. }
        | Subject::Called { protocol, .. }
        | Subject::Target { protocol, .. } => Some(protocol),
        _ => None,
    };
    if let Some(protocol) = protocol {
        object.ours("proto", |out| push_proto(out, protocol));
    }
    object.object("anomaly", |anomaly| {
        anomaly.word("type", "weir");
        anomaly.word("event", event.name());
    });
}

/// What happened to the monitor: a line of Suricata's own log, which its eve.json can have too.
fn push_engine(object: &mut Object<'_>, event: &Event, text: &str) {
    object.word("log_level", level(event.severity()));
    object.word("event_type", "engine");
    object.object("engine", |engine| {
        push_text(engine.member("message"), text.as_bytes());
        engine.word("module", "weir");
    });
}

/// Suricata's word for a severity.
fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Notice => "Notice",
        Severity::Warning => "Warning",
        Severity::Error => "Error",
    }
}

fn push_facts(weir: &mut Object<'_>, event: &Event, text: &str, zone: &Zone) {
    weir.ours("id", |out| out.extend_from_slice(format!("{:016x}", event.id).as_bytes()));
    weir.word("event", event.name());
    weir.word("state", event.state.name());
    weir.word("severity", event.severity().name());
    push_text(weir.member("subject"), event.subject.to_string().as_bytes());
    push_text(weir.member("text"), text.as_bytes());
    weir.ours("begin", |out| zone.push_eve(out, event.begin));
    weir.ours("last", |out| zone.push_eve(out, event.last));
    weir.number("count", event.count);
    weir.object("evidence", |evidence| {
        for one in &event.evidence {
            push_number(evidence.member(&one.name), one.number());
        }
    });
    if let Some(expression) = event.expression() {
        push_text(weir.member("expression"), expression.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use serde_json::{Value, json};

    #[test]
    fn a_scan_is_an_anomaly_with_its_numbers() {
        let events = fixtures::events();
        let of = |at: usize| {
            let mut out = Vec::new();
            push_event(&mut out, &events[at], &Zone::utc());
            serde_json::from_slice::<Value>(&out).unwrap()
        };
        assert_eq!(
            of(0),
            json!({
                "timestamp": "2026-11-21T01:46:09.198000+0000",
                "event_type": "anomaly",
                "src_ip": "10.99.0.102", "dest_ip": "10.99.0.1",
                "anomaly": {"type": "weir", "event": "port_scan"},
                "metadata": {"flowvars": [{"weir": {
                    "id": format!("{:016x}", events[0].id), "event": "port_scan", "state": "begin", "severity": "warning",
                    "subject": "10.99.0.102 -> 10.99.0.1",
                    "text": "10.99.0.102 -> 10.99.0.1  41 ports (1-40, 443) in 0.213 s, refused",
                    "begin": "2026-11-21T01:46:08.985000+0000", "last": "2026-11-21T01:46:09.198000+0000",
                    "count": 41,
                    "evidence": {"answered": 0, "failed": 41, "refused_flows": 41, "unanswered_flows": 0},
                    "expression": "src host 10.99.0.102 and dst host 10.99.0.1 and tcp",
                }}]},
            })
        );
        let hosts = of(1);
        assert_eq!(
            (&hosts["dest_port"], &hosts["proto"], hosts.get("dest_ip")),
            (&json!(445), &json!("TCP"), None)
        );
    }

    #[test]
    fn what_is_done_to_a_host_is_an_anomaly_of_its_side() {
        let of = |kind, protocol, port, of_sender| {
            let target = fixtures::ip("10.0.0.9");
            let event = Event::at(kind, Subject::Target { target, protocol, port, of_sender }, 5);
            let mut out = Vec::new();
            push_event(&mut out, &event, &Zone::utc());
            let mut object: Value = serde_json::from_slice(&out).unwrap();
            object["metadata"].take();
            object["timestamp"].take();
            object
        };
        let none = Value::Null;
        assert_eq!(
            of(&weir_api::event::SYN_FLOOD, 6, Some(80), false),
            json!({"timestamp": none, "event_type": "anomaly", "dest_ip": "10.0.0.9", "dest_port": 80, "proto": "TCP",
                "anomaly": {"type": "weir", "event": "syn_flood"}, "metadata": none})
        );
        let reflection = of(&weir_api::event::REFLECTION, 17, Some(53), true);
        assert_eq!((&reflection["src_port"], &reflection["dest_ip"]), (&json!(53), &json!("10.0.0.9")));
        assert_eq!(of(&weir_api::event::ICMP_FLOOD, 1, None, false)["proto"], "ICMP");
    }

    #[test]
    fn what_happens_to_the_monitor_is_a_line_of_the_engine() {
        let event = fixtures::full_disk();
        let mut out = Vec::new();
        push_event(&mut out, &event, &Zone::utc());
        let full: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(full["event_type"], "engine");
        assert_eq!(full["log_level"], "Error");
        assert_eq!(
            full["engine"],
            json!({"message": "conn.log was not written: the disk is full", "module": "weir"})
        );
        let ours = &full["metadata"]["flowvars"][0]["weir"];
        assert_eq!((&ours["event"], &ours["subject"]), (&json!("disk_full"), &json!("conn.log")));
        for absent in ["src_ip", "anomaly", "weir"] {
            assert!(full.get(absent).is_none(), "{absent}");
        }
    }
}
