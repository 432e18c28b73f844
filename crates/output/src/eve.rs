//! eve.json: events in the form of Suricata 8.
//!
//! The keys are those of its EVE JSON format (docs.suricata.io, "Eve JSON Format"). What only a parser or a rule
//! can know (app_proto, alerted flows) is left out or false.

use crate::file::{Frame, LineFile};
use crate::row::Ends;
use crate::zone::Zone;
use crate::{Existing, Output, OutputSpec, ports, records};
use serde::Serialize;
use std::io;
use std::net::IpAddr;
use weir_api::{FlowCount, Interval, Ledger, Snapshot};
use weir_engine::{ConnState, EndReason, FlowIdentity, FlowRecord};
use weir_proto::Record;

pub(crate) static EVE: OutputSpec = OutputSpec {
    name: "eve",
    help: "Events as Suricata's eve.json: flow, stats, and http, dns, tls and so on where records are read.",
    files: &["eve.json"],
    flows: true,
    records: true,
    open: |context| {
        let file = LineFile::framed(context, "eve.json", Frame::default())?;
        let zone = context.zone.clone();
        // Suricata keeps what has closed until its time is up, and over a file ends it with the file.
        let closed = if context.existing == Existing::Replace { "shutdown" } else { "timeout" };
        let (ledger, flows) = (Ledger::default(), FlowCount::default());
        Ok(Box::new(Eve { file, zone, closed, began: None, ledger, flows }))
    },
};

struct Eve {
    file: LineFile,
    zone: Zone,
    /// Why flows end that have closed.
    closed: &'static str,
    /// The beginning of the first interval.
    began: Option<u64>,
    /// Since the beginning: Suricata's counters are totals.
    ledger: Ledger,
    flows: FlowCount,
}

#[derive(Serialize)]
struct FlowEvent {
    timestamp: String,
    flow_id: u64,
    event_type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vlan: Vec<u16>,
    src_ip: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    dest_ip: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_port: Option<u16>,
    ip_v: u8,
    proto: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_proto: Option<&'static str>,
    #[serde(flatten)]
    icmp: Option<Icmp>,
    flow: Flow,
    community_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<Tcp>,
}

#[derive(Serialize)]
struct Icmp {
    icmp_type: u16,
    icmp_code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_icmp_type: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_icmp_code: Option<u16>,
}

#[derive(Serialize)]
struct Flow {
    pkts_toserver: u64,
    pkts_toclient: u64,
    bytes_toserver: u64,
    bytes_toclient: u64,
    start: String,
    end: String,
    age: u64,
    state: &'static str,
    reason: &'static str,
    alerted: bool,
}

#[derive(Serialize)]
struct Tcp {
    tcp_flags: String,
    tcp_flags_ts: String,
    tcp_flags_tc: String,
    #[serde(flatten)]
    flags: Flags,
    state: &'static str,
    #[serde(skip_serializing_if = "is_false")]
    ts_gap: bool,
    #[serde(skip_serializing_if = "is_false")]
    tc_gap: bool,
}

/// Only those that were set are there.
#[derive(Serialize)]
struct Flags {
    #[serde(skip_serializing_if = "is_false")]
    syn: bool,
    #[serde(skip_serializing_if = "is_false")]
    fin: bool,
    #[serde(skip_serializing_if = "is_false")]
    rst: bool,
    #[serde(skip_serializing_if = "is_false")]
    psh: bool,
    #[serde(skip_serializing_if = "is_false")]
    ack: bool,
    #[serde(skip_serializing_if = "is_false")]
    urg: bool,
    #[serde(skip_serializing_if = "is_false")]
    ecn: bool,
    #[serde(skip_serializing_if = "is_false")]
    cwr: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
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
    capture: CaptureStats,
    decoder: DecoderStats,
    flow: FlowStats,
}

#[derive(Serialize)]
struct CaptureStats {
    kernel_packets: u64,
    kernel_drops: u64,
    kernel_ifdrops: u64,
}

#[derive(Serialize)]
struct DecoderStats {
    pkts: u64,
    bytes: u64,
    invalid: u64,
}

#[derive(Serialize)]
struct FlowStats {
    total: u64,
    active: u64,
    emerg_mode_entered: u64,
}

impl FlowEvent {
    fn of(flow: &FlowRecord, zone: &Zone, closed: &'static str) -> Self {
        let ends = Ends::of(flow);
        let with_ports = ports::has_ports(flow.key.proto);
        let answered = flow.reverse.packets > 0;
        Self {
            timestamp: zone.eve(flow.last.0),
            // 51 bits, as Suricata's, so that JavaScript reads it.
            flow_id: flow.id & ((1 << 51) - 1),
            event_type: "flow",
            vlan: flow.vlan.into_iter().filter(|id| *id != 0).collect(),
            src_ip: ends.source,
            src_port: with_ports.then_some(ends.source_port),
            dest_ip: ends.destination,
            dest_port: with_ports.then_some(ends.destination_port),
            ip_v: if ends.source.is_ipv4() { 4 } else { 6 },
            proto: proto(flow.key.proto),
            app_proto: crate::row::services(flow).next(),
            icmp: icmp(flow, &ends, answered),
            flow: Flow {
                pkts_toserver: flow.forward.packets,
                pkts_toclient: flow.reverse.packets,
                bytes_toserver: flow.forward.frame_bytes,
                bytes_toclient: flow.reverse.frame_bytes,
                start: zone.eve(flow.first.0),
                end: zone.eve(flow.last.0),
                age: flow.last.secs().saturating_sub(flow.first.secs()),
                state: state(flow, answered),
                reason: reason(flow.end, closed),
                alerted: false,
            },
            community_id: flow.community_id(0).to_string(),
            tcp: tcp(flow),
        }
    }
}

/// Suricata's names of IP protocols; numbers in three digits for the rest.
fn proto(number: u8) -> String {
    match number {
        58 => "IPv6-ICMP".to_owned(),
        41 => "IPv6".to_owned(),
        4 => "IPIP".to_owned(),
        number => {
            ports::known_protocol(number).map_or_else(|| format!("{number:03}"), str::to_ascii_uppercase)
        }
    }
}

/// Requests and their answers have code 0: what has another is a flow of one direction.
fn icmp(flow: &FlowRecord, ends: &Ends, answered: bool) -> Option<Icmp> {
    if !matches!(flow.key.proto, 1 | 58) {
        return None;
    }
    let one_way = flow.key.is_one_way();
    Some(Icmp {
        icmp_type: ends.source_port,
        icmp_code: if one_way { ends.destination_port } else { 0 },
        response_icmp_type: (answered && !one_way).then_some(ends.destination_port),
        response_icmp_code: (answered && !one_way).then_some(0),
    })
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
        EndReason::Shutdown => "shutdown",
    }
}

fn tcp(flow: &FlowRecord) -> Option<Tcp> {
    let summary = flow.tcp?;
    let (to_server, to_client) = (flow.forward.tcp_flags, flow.reverse.tcp_flags);
    let all = to_server | to_client;
    Some(Tcp {
        tcp_flags: format!("{all:02x}"),
        tcp_flags_ts: format!("{to_server:02x}"),
        tcp_flags_tc: format!("{to_client:02x}"),
        flags: Flags {
            fin: all & 0x01 != 0,
            syn: all & 0x02 != 0,
            rst: all & 0x04 != 0,
            psh: all & 0x08 != 0,
            ack: all & 0x10 != 0,
            urg: all & 0x20 != 0,
            ecn: all & 0x40 != 0,
            cwr: all & 0x80 != 0,
        },
        state: match flow.state {
            ConnState::S0 | ConnState::SH => "syn_sent",
            ConnState::ShR => "syn_recv",
            ConnState::S1 => "established",
            ConnState::S2 => "close_wait",
            ConnState::S3 => "fin_wait1",
            ConnState::Oth => "none",
            _ => "closed",
        },
        ts_gap: summary.missed_bytes[0] > 0,
        tc_gap: summary.missed_bytes[1] > 0,
    })
}

impl Eve {
    fn event(&mut self, time: u64, event: &impl Serialize) {
        self.file.line(time, |out| {
            // Memory does not fail, and none of the events has a key that is not text.
            let _ = serde_json::to_writer(out, event);
        });
    }
}

impl Output for Eve {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.ledger.add(&snapshot.ledger);
        self.flows.add(&snapshot.flows);
        let (ledger, flows) = (self.ledger, self.flows);
        let Interval { start, end } = snapshot.interval;
        let began = *self.began.get_or_insert(start);
        let event = StatsEvent {
            timestamp: self.zone.eve(end),
            event_type: "stats",
            stats: Stats {
                uptime: end.saturating_sub(began) / 1_000_000_000,
                capture: CaptureStats {
                    kernel_packets: ledger.caught + ledger.capture.dropped,
                    kernel_drops: ledger.capture.dropped,
                    kernel_ifdrops: ledger.capture.interface_dropped,
                },
                decoder: DecoderStats {
                    pkts: ledger.caught,
                    bytes: ledger.bytes,
                    invalid: ledger.errors.total(),
                },
                flow: FlowStats {
                    total: flows.created,
                    active: flows.active(),
                    emerg_mode_entered: flows.evicted,
                },
            },
        };
        self.event(end, &event);
        self.file.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        let event = FlowEvent::of(flow, &self.zone, self.closed);
        self.event(flow.last.0, &event);
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        if let Some(event) = records::eve::event(flow, record, &self.zone) {
            self.event(record.time.0, &event);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.file.roll(now)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OutputContext, sample};
    use serde_json::{Value, json};

    fn event(flow: &FlowRecord) -> Value {
        serde_json::to_value(FlowEvent::of(flow, &Zone::utc(), "timeout")).unwrap()
    }

    #[test]
    fn a_tcp_flow() {
        assert_eq!(
            event(&sample::flow()),
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
                "community_id": sample::flow().community_id(0).to_string(),
                "tcp": {
                    "tcp_flags": "1b", "tcp_flags_ts": "1b", "tcp_flags_tc": "1b",
                    "syn": true, "fin": true, "psh": true, "ack": true, "state": "closed",
                },
            })
        );
    }

    #[test]
    fn a_ping_in_vlans() {
        let event = event(&sample::ping());
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
        let mut snapshot = sample::snapshot();
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
