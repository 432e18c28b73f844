//! Zeek's conn.log, as tab-separated text and as JSON.
//!
//! Columns, types and formats of values are those of Zeek 8 (scripts/base/protocols/conn, the ASCII writer), whose
//! baselines the tests compare with. Unknown values are unset (`-`), never 0.

mod leases;
mod notice;
mod records;

use crate::file::{Frame, LineFile};
use crate::format::push_uids;
use crate::records::Files;
use crate::row::{Endpoints, Times, Value, write_members};
use crate::zone::{Zone, push_epoch_micros};
use crate::{Home, Output, OutputContext, OutputSpec, Takes};
use records::{JsonLogs, Logs, closed, write_text};
use std::io;
use std::net::IpAddr;
use weir_api::{Event, Snapshot};
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::{ALERT, Record};
use weir_wire::{Direction, Tunnel};

pub(crate) static ZEEK: OutputSpec = OutputSpec {
    name: "zeek",
    help: "Zeek's logs: conn.log, tunnel.log, notice.log, and http.log, dns.log, ssl.log and others if records are parsed.",
    files: &["conn.log"],
    is_stream: false,
    flows: true,
    events: "notice",
    has: |table| !table.zeek.is_empty(),
    shows: |field| !field.zeek.is_empty(),
    takes: Takes::Known,
    open: |context| Ok(Box::new(Tsv::open(context)?)),
};

pub(crate) static ZEEK_JSON: OutputSpec = OutputSpec {
    name: "zeek-json",
    help: "Zeek's logs as JSON, one object per line.",
    files: &["conn.json"],
    is_stream: false,
    flows: true,
    events: "notice",
    has: |table| !table.zeek.is_empty(),
    shows: |field| !field.zeek.is_empty(),
    takes: Takes::Known,
    open: |context| {
        let file = LineFile::framed(context, "conn.json", Frame::default())?;
        let (records, notices) = (JsonLogs::new(context), Files::new(context));
        Ok(Box::new(Json { records, file, notices, local: context.home.clone() }))
    },
};

/// A column of conn.log.
struct Column {
    name: &'static str,
    kind: &'static str,
    value: fn(&FlowRecord, &Ends) -> Value,
}

/// The ends of a flow.
struct Ends<'h> {
    at: Endpoints,
    /// The networks that are local; those that are private without them.
    local: Option<&'h Home>,
}

impl<'h> Ends<'h> {
    fn of(flow: &FlowRecord, local: Option<&'h Home>) -> Self {
        Self { at: Endpoints::of(flow), local }
    }
}

/// Whether an address is local. Zeek leaves it out if no local network is known.
fn locality(local: Option<&Home>, address: IpAddr) -> Value {
    match local {
        None => Value::Bool(is_private(address)),
        Some(home) if home.nets.is_empty() => Value::Unset,
        Some(home) => Value::Bool(home.has(address)),
    }
}

/// Zeek gives neither size nor duration for a connection without duration.
fn stream_bytes(flow: &FlowRecord, direction: Direction) -> Value {
    if flow.duration() > 0 { Value::Count(flow.zeek_bytes(direction)) } else { Value::Unset }
}

static COLUMNS: &[Column] = &[
    Column { name: "ts", kind: "time", value: |f, _| Value::Time(f.first.0) },
    Column { name: "uid", kind: "string", value: |f, _| Value::Uid(f.id) },
    Column { name: "id.orig_h", kind: "addr", value: |_, e| Value::Address(e.at.source) },
    Column { name: "id.orig_p", kind: "port", value: |f, e| port(f, e.at.source_port) },
    Column { name: "id.resp_h", kind: "addr", value: |_, e| Value::Address(e.at.destination) },
    Column { name: "id.resp_p", kind: "port", value: |f, e| port(f, e.at.destination_port) },
    Column { name: "proto", kind: "enum", value: |f, _| Value::Word(transport(f.key.proto)) },
    Column { name: "service", kind: "string", value: |f, _| service(f) },
    Column {
        name: "duration",
        kind: "interval",
        value: |f, _| match f.duration() {
            0 => Value::Unset,
            time => Value::Interval(time),
        },
    },
    Column { name: "orig_bytes", kind: "count", value: |f, _| stream_bytes(f, Direction::Forward) },
    Column { name: "resp_bytes", kind: "count", value: |f, _| stream_bytes(f, Direction::Reverse) },
    Column { name: "conn_state", kind: "string", value: |f, _| Value::Word(f.state.name()) },
    Column { name: "local_orig", kind: "bool", value: |_, e| locality(e.local, e.at.source) },
    Column { name: "local_resp", kind: "bool", value: |_, e| locality(e.local, e.at.destination) },
    Column {
        name: "missed_bytes",
        kind: "count",
        value: |f, _| Value::Count(f.tcp.map_or(0, |tcp| tcp.missed_bytes.iter().sum())),
    },
    Column {
        name: "history",
        kind: "string",
        value: |f, _| match f.history.as_str() {
            "" => Value::Unset,
            letters => Value::Text(letters.to_owned()),
        },
    },
    Column { name: "orig_pkts", kind: "count", value: |f, _| Value::Count(f.forward.packets) },
    Column { name: "orig_ip_bytes", kind: "count", value: |f, _| Value::Count(f.forward.ip_bytes) },
    Column { name: "resp_pkts", kind: "count", value: |f, _| Value::Count(f.reverse.packets) },
    Column { name: "resp_ip_bytes", kind: "count", value: |f, _| Value::Count(f.reverse.ip_bytes) },
    Column {
        name: "tunnel_parents",
        kind: "set[string]",
        value: |f, _| match [f.parent, f.other_parent] {
            [0, _] => Value::Unset,
            ids => Value::Uids(ids),
        },
    },
    Column { name: "ip_proto", kind: "count", value: |f, _| Value::Count(f.key.proto.into()) },
    // Those of policy/protocols/conn/vlan-logging, with its types.
    Column { name: "vlan", kind: "int", value: |f, _| vlan(f.vlan[0]) },
    Column { name: "inner_vlan", kind: "int", value: |f, _| vlan(f.vlan[1]) },
    // That of policy/protocols/conn/community-id-logging.
    Column { name: "community_id", kind: "string", value: |f, _| Value::Community(f.community_id(0)) },
];

/// The protocols that were found and the tunnel that the flow carries, in Zeek's words, each once.
fn service(flow: &FlowRecord) -> Value {
    let mut names: Vec<&str> = Vec::new();
    let carries_tokens = crate::row::services(flow).any(|name| name == "gssapi");
    let found =
        crate::row::services(flow).map(|name| zeek_service(name, flow.key.proto == 6, carries_tokens));
    // The handshake in QUIC's first packets is read by Zeek's parser of TLS.
    let inside = crate::row::services(flow).filter(|name| *name == "quic").map(|_| "ssl");
    for name in found.chain(inside).chain(carried(flow.carries)).chain(bubbles(flow)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { Value::Unset } else { Value::Text(names.join(",")) }
}

/// Zeek's name of a protocol; most names are equal. Kerberos within the tokens of another protocol has the name that it has over
/// UDP.
fn zeek_service(name: &'static str, is_tcp: bool, carries_tokens: bool) -> &'static str {
    match name {
        "ldap" if is_tcp => "ldap_tcp",
        "ldap" => "ldap_udp",
        "dnp3" if is_tcp => "dnp3_tcp",
        "dnp3" => "dnp3_udp",
        "kerberos" if is_tcp && !carries_tokens => "krb_tcp",
        "kerberos" => "krb",
        "tls" => "ssl",
        "ftp_data" => "ftp-data",
        "irc_dcc" => "irc-dcc-data",
        // One parser of Zeek's reads all of them.
        "mdns" | "llmnr" | "nbns" => "dns",
        name => name,
    }
}

/// Zeek's name of a tunnel over UDP, which is a service of the flow that carries it.
fn carried(tunnel: Tunnel) -> Option<&'static str> {
    match tunnel {
        Tunnel::Vxlan => Some("vxlan"),
        Tunnel::Geneve => Some("geneve"),
        Tunnel::GtpU => Some("gtpv1"),
        Tunnel::Teredo => Some("teredo"),
        Tunnel::Ayiya => Some("ayiya"),
        _ => None,
    }
}

/// The service of a carrier of Teredo's bubbles alone, which are no flows: Zeek names it once both sides have sent some.
fn bubbles(flow: &FlowRecord) -> Option<&'static str> {
    /// Port of Teredo's servers and relays (RFC 4380 2.7).
    const TEREDO: u16 = 3544;
    let is_bare = flow.carrier && flow.carries == Tunnel::None && flow.reverse.packets > 0;
    (is_bare && flow.key.port.contains(&TEREDO)).then_some("teredo")
}

/// A port as Zeek has it: 0 of transports that it does not read. Our own formats have the ports of SCTP and DCCP.
fn port(flow: &FlowRecord, port: u16) -> Value {
    Value::Count(if transport(flow.key.proto) == UNKNOWN { 0 } else { port.into() })
}

fn vlan(id: u16) -> Value {
    if id == 0 { Value::Unset } else { Value::Count(id.into()) }
}

/// Zeek's name of a transport; all protocols but three share one name.
fn transport(protocol: u8) -> &'static str {
    match protocol {
        6 => "tcp",
        17 => "udp",
        1 | 58 => "icmp",
        _ => UNKNOWN,
    }
}

/// Zeek's word for transports that it does not read.
const UNKNOWN: &str = "unknown_transport";

/// Whether an address is local by Zeek's default: it is in a block that IANA does not route globally.
fn is_private(address: IpAddr) -> bool {
    let (address, nets) = match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, PRIVATE_V4),
        // 6to4 (RFC 3056): the IPv4 address in it decides.
        IpAddr::V6(v6) => match v6.segments() {
            [0x2002, high, low, ..] => (u128::from(high) << 112 | u128::from(low) << 96, PRIVATE_V4),
            _ => (u128::from(v6), PRIVATE_V6),
        },
    };
    nets.iter().any(|(net, prefix)| (net ^ address) >> (128 - prefix) == 0)
}

/// Networks of the IANA special-purpose registries, on the left of 128 bits, with their prefix lengths.
const PRIVATE_V4: &[(u128, u32)] = &[
    (v4(0, 0, 0), 8),
    (v4(10, 0, 0), 8),
    (v4(100, 64, 0), 10),
    (v4(127, 0, 0), 8),
    (v4(169, 254, 0), 16),
    (v4(172, 16, 0), 12),
    (v4(192, 0, 0), 24),
    (v4(192, 0, 2), 24),
    (v4(192, 168, 0), 16),
    (v4(198, 18, 0), 15),
    (v4(198, 51, 100), 24),
    (v4(203, 0, 113), 24),
    // Multicast within the link (RFC 5771) or the organisation (RFC 2365).
    (v4(224, 0, 0), 24),
    (v4(239, 0, 0), 8),
    (v4(240, 0, 0), 4),
];

const PRIVATE_V6: &[(u128, u32)] = &[
    (0, 128),
    (1, 128),
    (v6(0x64, 0xff9b, 1), 48),
    (v6(0x100, 0, 0), 64),
    (v6(0x2001, 0, 0), 23),
    (v6(0x2001, 0xdb8, 0), 32),
    (v6(0xfc00, 0, 0), 7),
    (v6(0xfe80, 0, 0), 10),
];

const fn v4(a: u8, b: u8, c: u8) -> u128 {
    u32::from_be_bytes([a, b, c, 0]) as u128 * (1 << 96)
}

const fn v6(a: u16, b: u16, c: u16) -> u128 {
    (a as u128) << 112 | (b as u128) << 96 | (c as u128) << 80
}

/// conn.log.
struct Tsv {
    records: Logs,
    /// Its header has the time of the first flow, or of the first interval. Readers of Zeek's logs accept a header
    /// anywhere, so that a continued file gets another one.
    file: LineFile,
    /// notice.log, if there are events or alerts.
    notices: Files,
    zone: Zone,
    /// The networks that are local, if they are set.
    local: Option<Home>,
    /// Start of the run.
    start: u64,
}

/// The lines of a head, each with its end.
fn lines(head: &[String]) -> String {
    head.iter().map(|line| format!("{line}\n")).collect()
}

impl Tsv {
    fn open(context: &OutputContext) -> io::Result<Self> {
        let zone = context.zone.clone();
        let columns = || COLUMNS.iter().map(|column| (column.name, column.kind));
        let head = Frame::head(move |time| lines(&header("conn", columns(), &zone.dashed(time))));
        let file = LineFile::framed(context, "conn.log", closed(&context.zone, head))?;
        Ok(Self {
            records: Logs::new(context),
            file,
            notices: Files::new(context),
            zone: context.zone.clone(),
            local: context.home.clone(),
            start: context.start,
        })
    }

    /// Writes a row of notice.log at a time.
    fn notice(&mut self, time: u64, values: impl Iterator<Item = Value>) {
        let zone = self.zone.clone();
        let columns = || notice::COLUMNS.iter().map(|column| (column.name, column.kind));
        let frame = || {
            let opened = zone.clone();
            closed(&zone, Frame::head(move |time| lines(&header("notice", columns(), &opened.dashed(time)))))
        };
        if let Some(file) = self.notices.get("notice.log", frame) {
            file.line(time, |out| write_row(out, values));
        }
    }
}

/// The head of a log with these columns: names and types.
fn header(
    path: &str,
    columns: impl Iterator<Item = (&'static str, &'static str)>,
    opened: &str,
) -> [String; 8] {
    let (names, kinds): (Vec<&str>, Vec<&str>) = columns.unzip();
    [
        "#separator \\x09".to_owned(),
        "#set_separator\t,".to_owned(),
        "#empty_field\t(empty)".to_owned(),
        "#unset_field\t-".to_owned(),
        format!("#path\t{path}"),
        format!("#open\t{opened}"),
        format!("#fields\t{}", names.join("\t")),
        format!("#types\t{}", kinds.join("\t")),
    ]
}

impl Output for Tsv {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.file.begin(snapshot.times().start);
        self.file.reach(snapshot.times().end);
        self.records.reach(snapshot.times().end);
        self.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        let ends = Ends::of(flow, self.local.as_ref());
        let values = COLUMNS.iter().map(|column| (column.value)(flow, &ends));
        self.file.line(flow.first.0, |out| write_row(out, values));
        self.file.reach(flow.last.0);
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        self.records.record(flow, record);
        if *record.table == ALERT {
            self.notice(record.time.0, notice::of_alert(flow, record).map(|(_, value)| value));
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if notice::has(event) {
            self.notice(event.last, notice::COLUMNS.iter().map(|column| (column.value)(event)));
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().and(self.records.flush()).and(self.notices.flush())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.begin(self.start);
        let notices = self.notices.each(LineFile::finish);
        self.file.finish().and(self.records.finish()).and(notices)
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.file.roll(now).and(self.records.roll(now)).and(self.notices.roll(now))
    }
}

/// A line of values, without its end.
fn write_row(out: &mut Vec<u8>, values: impl Iterator<Item = Value>) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b'\t');
        }
        write_tsv(out, &value);
    }
}

fn write_object(out: &mut Vec<u8>, members: impl Iterator<Item = (&'static str, Value)>) {
    out.push(b'{');
    write_members(out, members, Times::Epoch, true);
    out.push(b'}');
}

fn write_tsv(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Unset => out.push(b'-'),
        Value::Time(time) | Value::Interval(time) => push_epoch_micros(out, *time),
        Value::Bool(yes) => out.push(if *yes { b'T' } else { b'F' }),
        Value::Text(text) => write_text(out, text.as_bytes(), false),
        Value::Uids(ids) => push_uids(out, *ids, b","),
        value => {
            value.push(out);
        }
    }
}

/// conn.json.
struct Json {
    records: JsonLogs,
    file: LineFile,
    /// notice.json, if there are events or alerts.
    notices: Files,
    /// The networks that are local, if they are set.
    local: Option<Home>,
}

impl Json {
    /// Writes a row of notice.json at a time.
    fn notice(&mut self, time: u64, members: impl Iterator<Item = (&'static str, Value)>) {
        if let Some(file) = self.notices.get("notice.json", Frame::default) {
            file.line(time, |out| write_object(out, members));
        }
    }
}

impl Output for Json {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.records.reach(snapshot.interval.end);
        self.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        let ends = Ends::of(flow, self.local.as_ref());
        let members = COLUMNS.iter().map(|column| (column.name, (column.value)(flow, &ends)));
        self.file.line(flow.last.0, |out| write_object(out, members));
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        self.records.record(flow, record);
        if *record.table == ALERT {
            self.notice(record.time.0, notice::of_alert(flow, record));
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if notice::has(event) {
            self.notice(
                event.last,
                notice::COLUMNS.iter().map(|column| (column.name, (column.value)(event))),
            );
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().and(self.records.flush()).and(self.notices.flush())
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.file.roll(now).and(self.records.roll(now)).and(self.notices.roll(now))
    }

    fn finish(&mut self) -> io::Result<()> {
        let notices = self.notices.each(LineFile::finish);
        self.file.finish().and(self.records.finish()).and(notices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::row::uid;

    #[test]
    fn rows_have_zeeks_format() {
        let directory = tempfile::tempdir().unwrap();
        let context = OutputContext { directory: directory.path().to_owned(), ..OutputContext::default() };
        let mut log = (ZEEK.open)(&context).unwrap();
        let mut json = (ZEEK_JSON.open)(&context).unwrap();
        for output in [&mut log, &mut json] {
            output.flow(&fixtures::flow()).unwrap();
            output.flow(&fixtures::ping()).unwrap();
            output.finish().unwrap();
        }
        let text = std::fs::read_to_string(directory.path().join("conn.log")).unwrap();
        let rows: Vec<&str> = text.lines().skip(8).collect();
        let id = fixtures::flow().community_id(0);
        assert_eq!(
            rows[0],
            format!(
                "1795225568.985000\t{}\t10.0.0.5\t40000\t192.0.2.1\t443\ttcp\t-\t0.211484\t136\t5007\tSF\tT\tT\t0\t-\t7\t512\t7\t5379\t-\t6\t-\t-\t{id}",
                uid(fixtures::flow().id)
            )
        );
        assert!(
            rows[1].contains("\t2001:db8::2\t128\t2001:db8::1\t129\ticmp\t-\t-\t-\t-\tOTH\t"),
            "{}",
            rows[1]
        );
        assert!(rows[1].contains(&format!("\t{}\t58\t12\t34\t1:", uid(61))), "{}", rows[1]);
        assert_eq!(rows[2], "#close\t2026-11-21-01-46-09");
        assert!(text.contains("\n#open\t2026-11-21-01-46-08\n"));

        let text = std::fs::read_to_string(directory.path().join("conn.json")).unwrap();
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&rows[0]["id.orig_h"], &rows[0]["local_orig"]), (&"10.0.0.5".into(), &true.into()));
        assert_eq!(rows[0]["duration"], 0.211484);
        assert_eq!(rows[1]["tunnel_parents"], serde_json::json!([uid(61)]));
        assert!(rows[1].get("duration").is_none());
    }

    /// The networks that are set decide in place of the private ones. Without any, as after an anonymiser, nothing is known.
    #[test]
    fn home_is_local_where_it_is_set() {
        let net = |text: &str| text.parse::<weir_api::Net>().unwrap();
        let home = |nets: &[&str]| Some(Home { nets: nets.iter().map(|text| net(text)).collect() });
        for (home, [cells, members]) in [
            (None, ["\tT\tT\t", r#""local_orig":true,"local_resp":true"#]),
            (
                home(&["192.0.2.0/24", "2001:db8::/32"]),
                ["\tF\tT\t", r#""local_orig":false,"local_resp":true"#],
            ),
            (home(&["10.0.0.5"]), ["\tT\tF\t", r#""local_orig":true,"local_resp":false"#]),
            (Some(Home::unknown()), ["\t-\t-\t", r#""conn_state":"SF","missed_bytes""#]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let context =
                OutputContext { directory: directory.path().to_owned(), home, ..OutputContext::default() };
            for (spec, name, says) in [(&ZEEK, "conn.log", cells), (&ZEEK_JSON, "conn.json", members)] {
                let mut output = (spec.open)(&context).unwrap();
                output.flow(&fixtures::flow()).unwrap();
                output.finish().unwrap();
                let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
                assert!(text.contains(says), "{says} in {text}");
            }
        }
    }

    #[test]
    fn services_have_zeeks_words() {
        let place = |name: &str| weir_proto::PROTOCOLS.iter().position(|p| p.name == name).unwrap() as u8 + 1;
        let of = |name: &str, carries: Tunnel| {
            let flow = FlowRecord { services: [place(name), 0, 0, 0], carries, ..fixtures::flow() };
            match service(&flow) {
                Value::Text(text) => text,
                _ => panic!("{name}"),
            }
        };
        for (name, word) in [
            ("irc", "irc"),
            ("irc_dcc", "irc-dcc-data"),
            ("ftp_data", "ftp-data"),
            ("tls", "ssl"),
            ("mdns", "dns"),
            ("quic", "quic,ssl"),
            ("ldap", "ldap_tcp"),
            ("kerberos", "krb_tcp"),
            ("dnp3", "dnp3_tcp"),
        ] {
            assert_eq!(of(name, Tunnel::None), word);
        }
        let [ldap, gssapi, kerberos] = ["ldap", "gssapi", "kerberos"].map(place);
        let tokens = [ldap, gssapi, kerberos, 0];
        match service(&FlowRecord { services: tokens, ..fixtures::flow() }) {
            Value::Text(text) => assert_eq!(text, "ldap_tcp,gssapi,krb"),
            _ => panic!("tokens within LDAP"),
        }
        for (tunnel, word) in [
            (Tunnel::Vxlan, "dns,vxlan"),
            (Tunnel::Geneve, "dns,geneve"),
            (Tunnel::GtpU, "dns,gtpv1"),
            (Tunnel::Teredo, "dns,teredo"),
            (Tunnel::Gre, "dns"),
        ] {
            assert_eq!(of("dns", tunnel), word);
        }
    }

    #[test]
    fn events_have_the_format_of_notices() {
        let directory = tempfile::tempdir().unwrap();
        let context = OutputContext { directory: directory.path().to_owned(), ..OutputContext::default() };
        for spec in [&ZEEK, &ZEEK_JSON] {
            let mut output = (spec.open)(&context).unwrap();
            for event in fixtures::events() {
                output.event(&event).unwrap();
                output.event(&Event { state: weir_api::EventState::End, ..event }).unwrap();
            }
            output.finish().unwrap();
        }
        let text = std::fs::read_to_string(directory.path().join("notice.log")).unwrap();
        let rows: Vec<&str> = text.lines().skip(8).collect();
        assert_eq!(
            rows[..2],
            [
                "1795225569.198000\t-\t-\t-\t-\t-\t-\t-\t-\t-\tScan::Port_Scan\t10.99.0.102 -> 10.99.0.1  41 ports (1-40, 443) in \
                 0.213 s, refused\tsrc host 10.99.0.102 and dst host 10.99.0.1 and tcp\t10.99.0.102\t10.99.0.1\t-\t41\t-\t\
                 Notice::ACTION_LOG\t-\t300.000000\t-\t-\t-\t-\t-",
                "1795225571.985000\t-\t-\t-\t-\t-\t-\t-\t-\ttcp\tScan::Address_Scan\t10.99.0.102 -> 30 hosts, tcp/445 in 3.000 s, 13% of \
                 flows refused\tsrc host 10.99.0.102 and tcp dst port 445\t10.99.0.102\t-\t445\t30\t-\tNotice::ACTION_LOG\t-\t\
                 300.000000\t-\t-\t-\t-\t-",
            ]
        );
        assert!(rows[2].starts_with("#close\t"), "an event has one row: {text}");
        assert!(text.contains("\n#path\tnotice\n") && text.contains("\tset[enum]\tset[string]\tinterval\t"));
        let text = std::fs::read_to_string(directory.path().join("notice.json")).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((&first["note"], &first["n"]), (&"Scan::Port_Scan".into(), &41.into()));
        assert_eq!(first["actions"], serde_json::json!(["Notice::ACTION_LOG"]));
    }
}
