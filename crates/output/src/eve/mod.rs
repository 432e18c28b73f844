//! eve.json: events in Suricata 8's format.
//!
//! The keys are those of its EVE JSON format (docs.suricata.io, "Eve JSON Format"). Facts that only a parser or a rule
//! has (app_proto, alerted flows) are omitted or false where nothing is parsed or no rules are given. Every event is valid by Suricata's schema, which allows no other
//! members than its own: what is only Weir's is in `metadata.flowvars` (`push_ours`).

mod alert;
mod event;
mod held;
mod records;
mod transaction;

use crate::file::{Frame, LineFile};
use crate::format::{push_hex, push_number};
use crate::json::{Object, push_list};
use crate::row::Endpoints;
use crate::zone::Zone;
use crate::{Existing, Output, OutputSpec, Takes, ports};
use held::Held;
use records::Events;
use serde::Serialize;
use std::io;
use weir_api::{Event, FlowCount, Interval, Ledger, Snapshot};
use weir_engine::{ConnState, EndReason, FlowIdentity, FlowRecord, FlowVerdict};
use weir_proto::Record;

pub(crate) static EVE: OutputSpec = OutputSpec {
    name: "eve",
    help: "Events in Suricata's eve.json: flow, stats, anomaly, alert, engine, and http, dns, tls and other protocols if records are parsed.",
    files: &["eve.json"],
    is_stream: true,
    flows: true,
    events: "anomaly",
    has: |table| !table.eve.is_empty(),
    shows: |field| !field.eve.is_empty(),
    takes: Takes::Known,
    open: |context| {
        let file = LineFile::framed(context, "eve.json", Frame::default())?;
        let zone = context.zone.clone();
        // Suricata keeps closed flows until their timeout; over a file it ends them with the file.
        let closed = if context.existing == Existing::Replace { "shutdown" } else { "timeout" };
        let (ledger, flows, held) = (Ledger::default(), FlowCount::default(), Held::default());
        Ok(Box::new(Eve { file, zone, closed, events: Events::default(), held, began: None, ledger, flows }))
    },
};

struct Eve {
    file: LineFile,
    zone: Zone,
    /// The reason for the end of closed flows.
    closed: &'static str,
    events: Events,
    held: Held,
    /// Beginning of the first interval.
    began: Option<u64>,
    /// Sums since the beginning: Suricata's counters are totals.
    ledger: Ledger,
    flows: FlowCount,
}

#[derive(Serialize)]
struct StatsEvent {
    timestamp: String,
    event_type: &'static str,
    stats: Stats,
}

#[derive(Serialize)]
struct Stats {
    uptime: u64,
    capture: CaptureMembers,
    decoder: DecoderMembers,
    flow: FlowMembers,
}

#[derive(Serialize)]
struct CaptureMembers {
    kernel_packets: u64,
    kernel_drops: u64,
    kernel_ifdrops: u64,
}

#[derive(Serialize)]
struct DecoderMembers {
    pkts: u64,
    bytes: u64,
    invalid: u64,
}

#[derive(Serialize)]
struct FlowMembers {
    total: u64,
    active: u64,
    /// Connections whose event did not wait for late segments, because too many waited.
    memcap: u64,
    emerg_mode_entered: u64,
}

/// Writes the members with which every event of a flow begins. `packet` is the number of the packet that caused the
/// event; 0 if the end of the flow or of the input caused it.
pub(crate) fn push_common(
    event: &mut Object<'_>,
    zone: &Zone,
    time: u64,
    flow: u64,
    packet: u32,
    kind: &str,
    vlan: [u16; 2],
) {
    event.ours("timestamp", |out| zone.push_eve(out, time));
    // 51 bits, as in Suricata, so that JavaScript can represent it.
    event.number("flow_id", flow & ((1 << 51) - 1));
    if packet != 0 {
        event.number("pcap_cnt", packet);
    }
    event.word("event_type", kind);
    let tags = vlan.into_iter().filter(|id| *id != 0);
    if tags.clone().next().is_some() {
        push_list(event.member("vlan"), tags, |out, tag| push_number(out, tag.into()));
    }
}

/// Writes what Suricata has no member for: an object in `metadata.flowvars`, its list of named values that are not its own
/// (those of rules), whose names and contents its schema leaves open.
pub(crate) fn push_ours(event: &mut Object<'_>, members: impl FnOnce(&mut Object<'_>)) {
    event.object("metadata", |metadata| {
        push_list(metadata.member("flowvars"), [members], |out, members| Object::write(out, members));
    });
}

/// Suricata's names of IP protocols, or three digits for other protocols.
pub(crate) fn push_proto(out: &mut Vec<u8>, number: u8) {
    match number {
        6 => out.extend_from_slice(b"TCP"),
        17 => out.extend_from_slice(b"UDP"),
        58 => out.extend_from_slice(b"IPv6-ICMP"),
        41 => out.extend_from_slice(b"IPv6"),
        4 => out.extend_from_slice(b"IP-in-IP"),
        number => match ports::known_protocol(number) {
            Some(name) => out.extend(name.bytes().map(|byte| byte.to_ascii_uppercase())),
            None => out.extend_from_slice(format!("{number:03}").as_bytes()),
        },
    }
}

/// Writes the event of a flow that has ended.
fn push_flow(out: &mut Vec<u8>, flow: &FlowRecord, zone: &Zone, closed: &'static str) {
    let ends = Endpoints::of(flow);
    let with_ports = ports::has_ports(flow.key.proto);
    let answered = flow.reverse.packets > 0;
    Object::write(out, |event| {
        push_common(event, zone, flow.last.0, flow.id, 0, "flow", flow.vlan);
        event.full_address("src_ip", ends.source);
        if with_ports {
            event.number("src_port", ends.source_port);
        }
        event.full_address("dest_ip", ends.destination);
        if with_ports {
            event.number("dest_port", ends.destination_port);
        }
        event.number("ip_v", if ends.source.is_ipv4() { 4_u8 } else { 6 });
        event.ours("proto", |out| push_proto(out, flow.key.proto));
        push_app_protos(event, flow);
        push_icmp(event, flow, &ends, answered);
        event.object("flow", |counts| {
            counts.number("pkts_toserver", flow.forward.packets);
            counts.number("pkts_toclient", flow.reverse.packets);
            counts.number("bytes_toserver", flow.forward.frame_bytes);
            counts.number("bytes_toclient", flow.reverse.frame_bytes);
            counts.ours("start", |out| zone.push_eve(out, flow.first.0));
            counts.ours("end", |out| zone.push_eve(out, flow.last.0));
            counts.number("age", flow.last.secs().saturating_sub(flow.first.secs()));
            counts.word("state", state(flow, answered));
            counts.word("reason", reason(flow.end, closed));
            counts.flag("alerted", flow.alerted);
            match flow.verdict {
                Some(FlowVerdict::Drop) => counts.word("action", "drop"),
                Some(FlowVerdict::Pass) => counts.word("action", "pass"),
                None => {}
            }
        });
        event.ours("community_id", |out| out.extend_from_slice(&flow.community_id(0).text()));
        push_tcp(event, flow);
    });
}

/// Writes the protocol that the flow has at its end, and the one that it changed from (STARTTLS, CONNECT, an upgrade). Datagrams
/// of one flow may be of several protocols, of which none follows the other: there the first is written. What a protocol carries
/// within its messages is not written.
fn push_app_protos(event: &mut Object<'_>, flow: &FlowRecord) {
    const CARRIED: [&str; 4] = ["dce_rpc", "gssapi", "kerberos", "ntlm"];
    let found = crate::row::services(flow).enumerate();
    let found = found.filter(|(at, name)| *at == 0 || !CARRIED.contains(name));
    let found: Vec<&str> = found.map(|(_, name)| app_proto(name)).collect();
    match found.as_slice() {
        [.., before, last] if flow.tcp.is_some() => {
            event.word("app_proto", last);
            event.word("app_proto_orig", before);
        }
        [first, ..] => event.word("app_proto", first),
        [] => {}
    }
}

/// Suricata's name of a protocol; most names are equal.
fn app_proto(name: &str) -> &str {
    match name {
        "dce_rpc" => "dcerpc",
        "kerberos" => "krb5",
        "ftp_data" => "ftp-data",
        name => name,
    }
}

/// Requests and their replies have code 0: another code belongs to a flow of one direction.
fn push_icmp(event: &mut Object<'_>, flow: &FlowRecord, ends: &Endpoints, answered: bool) {
    if !matches!(flow.key.proto, 1 | 58) {
        return;
    }
    let one_way = flow.key.is_one_way();
    event.number("icmp_type", ends.source_port);
    event.number("icmp_code", if one_way { ends.destination_port } else { 0 });
    if answered && !one_way {
        event.number("response_icmp_type", ends.destination_port);
        event.number("response_icmp_code", 0_u8);
    }
}

fn state(flow: &FlowRecord, answered: bool) -> &'static str {
    let both = if answered { "established" } else { "new" };
    if flow.tcp.is_none() {
        return both;
    }
    match flow.state {
        ConnState::S0 | ConnState::SH | ConnState::ShR => "new",
        ConnState::S1 | ConnState::S2 | ConnState::S3 => "established",
        ConnState::SF
        | ConnState::Rej
        | ConnState::RstO
        | ConnState::RstR
        | ConnState::RstOS0
        | ConnState::RstRH => "closed",
        ConnState::Oth => both,
    }
}

fn reason(end: EndReason, closed: &'static str) -> &'static str {
    match end {
        EndReason::Idle | EndReason::Active => "timeout",
        EndReason::Fin | EndReason::Rst => closed,
        EndReason::Reused => "tcp_reuse",
        EndReason::Evicted => "forced",
        EndReason::Shutdown | EndReason::Open => "shutdown",
    }
}

/// Only set flags are present.
fn push_tcp(event: &mut Object<'_>, flow: &FlowRecord) {
    let Some(summary) = flow.tcp else { return };
    let (to_server, to_client) = (flow.forward.tcp_flags, flow.reverse.tcp_flags);
    let all = to_server | to_client;
    let state = match flow.state {
        ConnState::S0 | ConnState::SH => "syn_sent",
        ConnState::ShR => "syn_recv",
        ConnState::S1 => "established",
        ConnState::S2 => "close_wait",
        ConnState::S3 => "fin_wait1",
        // Taken up in its midst.
        ConnState::Oth if flow.reverse.packets > 0 => "established",
        ConnState::Oth => "none",
        _ => "closed",
    };
    event.object("tcp", |tcp| {
        tcp.ours("tcp_flags", |out| push_hex(out, all));
        tcp.ours("tcp_flags_ts", |out| push_hex(out, to_server));
        tcp.ours("tcp_flags_tc", |out| push_hex(out, to_client));
        for (bit, name) in
            [(1, "syn"), (0, "fin"), (2, "rst"), (3, "psh"), (4, "ack"), (5, "urg"), (6, "ecn"), (7, "cwr")]
        {
            if all >> bit & 1 == 1 {
                tcp.flag(name, true);
            }
        }
        tcp.word("state", state);
        for (uncounted, name) in summary.missed_bytes.into_iter().zip(["ts_gap", "tc_gap"]) {
            if uncounted > 0 {
                tcp.flag(name, true);
            }
        }
    });
}

impl Eve {
    fn write_flow(&mut self, flow: &FlowRecord) {
        let Self { file, zone, closed, .. } = self;
        file.line(flow.last.0, |out| push_flow(out, flow, zone, closed));
    }

    fn event(&mut self, time: u64, event: &impl Serialize) {
        self.file.line(time, |out| {
            // Writing into memory does not fail, and every key is text.
            let _ = serde_json::to_writer(out, event);
        });
    }
}

impl Output for Eve {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.ledger.add(&snapshot.ledger);
        self.flows.add(&snapshot.flows);
        self.held.begin(snapshot.flows.followed);
        let (ledger, flows) = (self.ledger, self.flows);
        let Interval { start, end } = snapshot.interval;
        // The last interval of a link may end after the run.
        let end = snapshot.watched.map_or(end, |watched| watched.end.clamp(start, end));
        while let Some(flow) = self.held.leave(end) {
            self.write_flow(&flow);
        }
        let began = *self.began.get_or_insert(snapshot.times().start);
        let event = StatsEvent {
            timestamp: self.zone.eve(end),
            event_type: "stats",
            stats: Stats {
                uptime: end.saturating_sub(began) / 1_000_000_000,
                capture: CaptureMembers {
                    kernel_packets: ledger.caught + ledger.capture.dropped,
                    kernel_drops: ledger.capture.dropped,
                    kernel_ifdrops: ledger.capture.interface_dropped,
                },
                decoder: DecoderMembers {
                    pkts: ledger.caught,
                    bytes: ledger.bytes,
                    invalid: ledger.errors.total(),
                },
                flow: FlowMembers {
                    total: flows.begun(),
                    active: flows.active(),
                    memcap: self.held.shed,
                    emerg_mode_entered: flows.evicted,
                },
            },
        };
        self.event(end, &event);
        self.file.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        if let Some(flow) = self.held.take(flow) {
            self.write_flow(&flow);
        }
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        let Self { file, zone, events, .. } = self;
        if Events::has(record) {
            file.line(record.time.0, |out| events.write(out, flow, record, zone));
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let Self { file, zone, .. } = self;
        file.line(event.last, |out| event::push_event(out, event, zone));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.file.roll(now)
    }

    fn finish(&mut self) -> io::Result<()> {
        while let Some(flow) = self.held.pop() {
            self.write_flow(&flow);
        }
        self.file.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OutputContext, fixtures};
    use serde_json::{Value, json};

    fn event(flow: &FlowRecord) -> Value {
        let mut out = Vec::new();
        push_flow(&mut out, flow, &Zone::utc(), "timeout");
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_tcp_flow() {
        assert_eq!(
            event(&fixtures::flow()),
            json!({
                "timestamp": "2026-11-21T01:46:09.196484+0000",
                "flow_id": 0x3_4567_89ab_cdef_u64,
                "event_type": "flow",
                "src_ip": "10.0.0.5", "src_port": 40000,
                "dest_ip": "192.0.2.1", "dest_port": 443,
                "ip_v": 4, "proto": "TCP",
                "flow": {
                    "pkts_toserver": 7, "pkts_toclient": 7, "bytes_toserver": 610, "bytes_toclient": 5477,
                    "start": "2026-11-21T01:46:08.985000+0000", "end": "2026-11-21T01:46:09.196484+0000",
                    "age": 1, "state": "closed", "reason": "timeout", "alerted": false,
                },
                "community_id": fixtures::flow().community_id(0).to_string(),
                "tcp": {
                    "tcp_flags": "1b", "tcp_flags_ts": "1b", "tcp_flags_tc": "1b",
                    "syn": true, "fin": true, "psh": true, "ack": true, "state": "closed",
                },
            })
        );
    }

    #[test]
    fn a_flow_says_what_rules_have_made_of_it() {
        for (alerted, verdict, action) in [
            (false, None, None),
            (true, None, None),
            (true, Some(FlowVerdict::Drop), Some(json!("drop"))),
            (false, Some(FlowVerdict::Pass), Some(json!("pass"))),
        ] {
            let event = event(&FlowRecord { alerted, verdict, ..fixtures::flow() });
            assert_eq!(
                (&event["flow"]["alerted"], event["flow"].get("action")),
                (&json!(alerted), action.as_ref())
            );
        }
    }

    #[test]
    fn a_flow_that_changed_its_protocol_has_both() {
        let place = |name: &str| weir_proto::PROTOCOLS.iter().position(|p| p.name == name).unwrap() as u8 + 1;
        let protos = |flow: &FlowRecord| {
            let event = event(flow);
            ["app_proto", "app_proto_orig"].map(|key| event.get(key).cloned())
        };
        let of = |names: [&str; 3]| {
            let [first, second, third] = names.map(|name| if name.is_empty() { 0 } else { place(name) });
            FlowRecord { services: [first, second, third, 0], ..fixtures::flow() }
        };
        assert_eq!(protos(&of(["", "", ""])), [None, None]);
        assert_eq!(protos(&of(["smtp", "", ""])), [Some(json!("smtp")), None]);
        assert_eq!(protos(&of(["smtp", "tls", ""])), [Some(json!("tls")), Some(json!("smtp"))]);
        assert_eq!(protos(&of(["socks", "http", "tls"])), [Some(json!("tls")), Some(json!("http"))]);
        assert_eq!(protos(&of(["ldap", "gssapi", "kerberos"])), [Some(json!("ldap")), None]);
        assert_eq!(protos(&of(["dce_rpc", "ntlm", ""])), [Some(json!("dcerpc")), None]);
        // Datagrams: both protocols are spoken at once.
        let shared = FlowRecord { tcp: None, ..of(["stun", "dtls", ""]) };
        assert_eq!(protos(&shared), [Some(json!("stun")), None]);
    }

    #[test]
    fn a_ping_in_vlans() {
        let event = event(&fixtures::ping());
        assert_eq!(event["vlan"], json!([12, 34]));
        assert_eq!((&event["proto"], &event["ip_v"]), (&json!("IPv6-ICMP"), &json!(6)));
        assert_eq!((&event["icmp_type"], &event["icmp_code"]), (&json!(128), &json!(0)));
        assert_eq!(event["flow"]["state"], "new");
        for absent in ["src_port", "dest_port", "tcp", "response_icmp_type"] {
            assert!(event.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn stats_are_totals() {
        let directory = tempfile::tempdir().unwrap();
        let context = OutputContext { directory: directory.path().to_owned(), ..OutputContext::default() };
        let mut eve = (EVE.open)(&context).unwrap();
        let mut snapshot = fixtures::snapshot();
        snapshot.ledger.capture.dropped = 4;
        eve.interval(&snapshot).unwrap();
        snapshot.interval.end += 10_000_000_000;
        eve.interval(&snapshot).unwrap();
        eve.finish().unwrap();
        let text = std::fs::read_to_string(directory.path().join("eve.json")).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(last["event_type"], "stats");
        assert_eq!(last["stats"]["capture"]["kernel_packets"], 2 * (906 + 4));
        assert_eq!(last["stats"]["capture"]["kernel_drops"], 8);
        assert_eq!(last["stats"]["decoder"]["pkts"], 2 * 906);
        assert_eq!(last["stats"]["uptime"], 10);
    }
}
