//! Alerts in the two forms of Snort 2.9: a paragraph of text (`alert_full`) and a line of CSV (`alert_csv`), with its default columns
//! ("Snort Users Manual" 2.9.16, 2.6.3 and 2.6.8).
//!
//! What Snort has of the packet is there if alerts have their packet; else those lines and cells are left out.

use crate::alert::{ends, icmp};
use crate::figures::printable;
use crate::format::{push_address, push_number};
use crate::zone::Zone;
use crate::{OutputSpec, Takes, alert_text};
use std::fmt::Write;
use weir_engine::FlowIdentity;
use weir_proto::{ALERT, Record, Value, lossless};
use weir_wire::header::{Ethernet, Header, Icmp, Ipv4, Ipv6, Tcp};
use weir_wire::{Layers, LinkType, Network, build, decode};

const FULL_FILE: &str = "alert_full.txt";
const CSV_FILE: &str = "alert_csv.txt";

pub(crate) static SNORT_FULL: OutputSpec = OutputSpec {
    name: "snort-full",
    help: "Alerts as paragraphs of text in the form of Snort's alert_full.",
    files: &[FULL_FILE],
    is_stream: false,
    flows: false,
    events: "",
    has: |table| *table == ALERT,
    shows: |_| true,
    takes: Takes::Known,
    open: |context| {
        alert_text::open(context, FULL_FILE, |out, flow, record, zone| {
            full(out, &Alert::new(flow, record, zone))
        })
    },
};

pub(crate) static SNORT_CSV: OutputSpec = OutputSpec {
    name: "snort-csv",
    help: "Alerts as lines of CSV in the form of Snort's alert_csv, with its default columns and no head.",
    files: &[CSV_FILE],
    is_stream: false,
    flows: false,
    events: "",
    has: |table| *table == ALERT,
    shows: |_| true,
    takes: Takes::Known,
    open: |context| {
        alert_text::open(context, CSV_FILE, |out, flow, record, zone| {
            csv(out, &Alert::new(flow, record, zone))
        })
    },
};

/// An alert, with its packet if it has one.
struct Alert<'a> {
    flow: &'a FlowIdentity,
    record: &'a Record<'a>,
    zone: &'a Zone,
    seen: Option<Seen<'a>>,
}

impl<'a> Alert<'a> {
    fn new(flow: &'a FlowIdentity, record: &'a Record<'a>, zone: &'a Zone) -> Self {
        Self { flow, record, zone, seen: Seen::of(record) }
    }

    fn number(&self, field: &str) -> u64 {
        if let Value::Uint(number) = self.record.get(field) { *number } else { 0 }
    }

    fn words(&self, field: &str) -> Option<String> {
        match self.record.get(field) {
            Value::Text(text) => Some(printable(&lossless(text))),
            _ => None,
        }
    }

    /// `11/21-02:46:08.992000`.
    fn push_time(&self, out: &mut Vec<u8>) {
        let mut text = Vec::new();
        self.zone.push_fast(&mut text, self.record.time.0);
        // Snort leaves out the year.
        let (day, rest) = text.split_at(text.len().min("11/21".len()));
        out.extend_from_slice(day);
        out.extend_from_slice(rest.get("/2026".len()..).unwrap_or_default());
    }

    /// The name of the protocol.
    fn protocol(&self) -> String {
        match self.flow.key.proto {
            1 => "ICMP".to_owned(),
            6 => "TCP".to_owned(),
            17 => "UDP".to_owned(),
            58 => "IPV6-ICMP".to_owned(),
            number => format!("PROTO:{number:03}"),
        }
    }

    fn has_ports(&self) -> bool {
        matches!(self.flow.key.proto, 6 | 17)
    }
}

/// The headers of the packet of an alert.
struct Seen<'a> {
    data: &'a [u8],
    link: LinkType,
    layers: Layers,
}

/// What both versions of IP say of a packet.
struct Datagram {
    ttl: u8,
    tos: u8,
    id: u32,
    /// Bytes of the header, and of the whole.
    header: usize,
    whole: usize,
    /// Bits of the field of fragments, and the offset in units of eight bytes.
    fragment: u16,
}

impl<'a> Seen<'a> {
    fn of(record: &'a Record<'_>) -> Option<Self> {
        let Value::Text(data) = record.get("packet") else { return None };
        let Value::Uint(link) = record.get("link") else { return None };
        let link = LinkType(u16::try_from(*link).ok()?);
        Some(Self { data, link, layers: decode(&build::packet(data, link)) })
    }

    fn from(&self, at: u32) -> &'a [u8] {
        self.data.get(at as usize..).unwrap_or_default()
    }

    fn ethernet(&self) -> Option<Ethernet> {
        (self.link == LinkType::ETHERNET).then(|| Ethernet::parse(self.data))?.map(|(header, _)| header)
    }

    fn datagram(&self) -> Option<Datagram> {
        let bytes = self.from(self.layers.network);
        match self.layers.network_kind {
            Network::Ipv4 => Ipv4::parse(bytes).map(|(ip, _)| Datagram {
                ttl: ip.ttl,
                tos: ip.tos,
                id: ip.id.into(),
                header: 20 + ip.options.len(),
                whole: ip.len.into(),
                fragment: ip.fragment,
            }),
            Network::Ipv6 => Ipv6::parse(bytes).map(|(ip, _)| Datagram {
                ttl: ip.hops,
                tos: (ip.class_and_flow >> 20) as u8,
                id: 0,
                header: 40,
                whole: 40 + usize::from(ip.len),
                fragment: 0,
            }),
            _ => None,
        }
    }

    fn tcp(&self) -> Option<Tcp<'a>> {
        let is_tcp = self.layers.ip_proto == 6 && self.layers.has_transport();
        is_tcp.then(|| Tcp::parse(self.from(self.layers.transport)))?.map(|(header, _)| header)
    }

    fn icmp(&self) -> Option<Icmp> {
        let is_icmp = [1, 58].contains(&self.layers.ip_proto) && self.layers.has_transport();
        is_icmp.then(|| Icmp::parse(self.from(self.layers.transport)))?.map(|(header, _)| header)
    }
}

/// The flags of TCP as Snort writes them: `***A**S*`, the reserved ones as 1 and 2.
fn flags(tcp: &Tcp<'_>) -> String {
    let letters = "12UAPRSF".chars().enumerate();
    letters.map(|(at, letter)| if tcp.flags & (0x80 >> at) == 0 { '*' } else { letter }).collect()
}

/// The identifier and the sequence number of an echo.
fn echo(icmp: &Icmp) -> Option<(u16, u16)> {
    let [a, b, c, d] = icmp.rest;
    let is_echo = [0, 8, 128, 129].contains(&icmp.kind);
    is_echo.then_some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Writes a paragraph, which an empty line ends.
fn full(out: &mut Vec<u8>, alert: &Alert<'_>) {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "[**] [{}:{}:{}] {} [**]\n[Classification: {}] [Priority: {}] \n",
        alert.number("gid"),
        alert.number("sid"),
        alert.number("rev"),
        alert.words("signature").unwrap_or_default(),
        alert.words("category").unwrap_or_default(),
        alert.number("severity")
    );
    out.extend_from_slice(text.as_bytes());
    alert.push_time(out);
    let [(source, source_port), (destination, destination_port)] = ends(alert.flow, alert.record);
    let push_end = |out: &mut Vec<u8>, address, port: u16| {
        push_address(out, address);
        if alert.has_ports() {
            out.push(b':');
            push_number(out, port.into());
        }
    };
    out.push(b' ');
    push_end(out, source, source_port);
    out.extend_from_slice(b" -> ");
    push_end(out, destination, destination_port);
    out.push(b'\n');
    if let Some(seen) = &alert.seen {
        out.extend_from_slice(headers(alert, seen).as_bytes());
    }
    let references = match alert.record.get("reference") {
        Value::List(values) => values.iter().map(reference).collect(),
        _ => Vec::new(),
    };
    if !references.is_empty() {
        out.extend_from_slice(references.concat().as_bytes());
        out.push(b'\n');
    }
}

/// The lines about the headers of a packet.
fn headers(alert: &Alert<'_>, seen: &Seen<'_>) -> String {
    let mut text = String::new();
    let Some(ip) = seen.datagram() else { return text };
    let Datagram { ttl, tos, id, header, whole, fragment } = ip;
    let protocol = alert.protocol();
    let _ = write!(text, "{protocol} TTL:{ttl} TOS:0x{tos:X} ID:{id} IpLen:{header} DgmLen:{whole}");
    for (bit, name) in [(0x8000, " RB"), (0x4000, " DF"), (0x2000, " MF")] {
        text.push_str(if fragment & bit == 0 { "" } else { name });
    }
    text.push('\n');
    if let Some(tcp) = seen.tcp() {
        let length = 20 + tcp.options.len();
        let _ = writeln!(
            text,
            "{} Seq: 0x{:X}  Ack: 0x{:X}  Win: 0x{:X}  TcpLen: {length}",
            flags(&tcp),
            tcp.seq,
            tcp.ack,
            tcp.window
        );
    } else if let Some(icmp) = seen.icmp() {
        let _ = write!(text, "Type:{}  Code:{}", icmp.kind, icmp.code);
        if let Some((id, sequence)) = echo(&icmp) {
            let _ = write!(text, "  ID:{id}   Seq:{sequence}");
        }
        text.push('\n');
    } else if seen.layers.ip_proto == 17 && seen.layers.has_transport() {
        let _ = writeln!(text, "Len: {}", seen.layers.payload_len);
    }
    text
}

/// A document about the rule; an address of the web is whole.
fn reference(value: &Value<'_>) -> String {
    let Value::Text(text) = value else { return String::new() };
    let text = printable(&lossless(text));
    match text.split_once(',') {
        Some(("url", address)) => format!("[Xref => http://{address}]"),
        Some((system, name)) => format!("[Xref => {system} {name}]"),
        None => format!("[Xref => {text}]"),
    }
}

/// Writes a line of Snort's default columns: timestamp, sig_generator, sig_id, sig_rev, msg, proto, src, srcport, dst, dstport, ethsrc,
/// ethdst, ethlen, tcpflags, tcpseq, tcpack, tcplen, tcpwindow, ttl, tos, id, dgmlen, iplen, icmptype, icmpcode, icmpid, icmpseq.
fn csv(out: &mut Vec<u8>, alert: &Alert<'_>) {
    alert.push_time(out);
    // Snort writes a space after a time.
    out.push(b' ');
    let mut cell = |text: &str| {
        out.push(b',');
        out.extend_from_slice(text.as_bytes());
    };
    for field in ["gid", "sid", "rev"] {
        cell(&alert.number(field).to_string());
    }
    let message = alert.words("signature").unwrap_or_default();
    cell(&format!("\"{}\"", message.replace('"', "\"\"")));
    cell(&alert.protocol());
    for (address, port) in ends(alert.flow, alert.record) {
        cell(&address.to_string());
        cell(&if alert.has_ports() { port.to_string() } else { String::new() });
    }
    let seen = alert.seen.as_ref();
    let ethernet = seen.and_then(Seen::ethernet);
    let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02X}")).join(":");
    cell(&ethernet.map(|ethernet| mac(ethernet.src)).unwrap_or_default());
    cell(&ethernet.map(|ethernet| mac(ethernet.dst)).unwrap_or_default());
    let length = seen.filter(|_| ethernet.is_some()).map(|seen| format!("0x{:X}", seen.data.len()));
    cell(&length.unwrap_or_default());
    let of_tcp = seen.and_then(Seen::tcp).map(|tcp| {
        let length = (20 + tcp.options.len()).to_string();
        let hex = |number: u32| format!("0x{number:X}");
        [flags(&tcp), hex(tcp.seq), hex(tcp.ack), length, hex(tcp.window.into())]
    });
    of_tcp.unwrap_or_default().iter().for_each(|text| cell(text));
    let of_ip = seen.and_then(Seen::datagram).map(|ip| {
        let Datagram { ttl, tos, id, header, whole, .. } = ip;
        [ttl.to_string(), tos.to_string(), id.to_string(), whole.to_string(), header.to_string()]
    });
    of_ip.unwrap_or_default().iter().for_each(|text| cell(text));
    let of_packet = seen.and_then(Seen::icmp).map(|icmp| {
        let (id, sequence) = echo(&icmp).unzip();
        let shown = |number: Option<u16>| number.map(|number| number.to_string()).unwrap_or_default();
        [icmp.kind.to_string(), icmp.code.to_string(), shown(id), shown(sequence)]
    });
    let of_flow = || {
        let numbers = icmp(alert.flow, alert.record).map(|numbers| numbers.map(|number| number.to_string()));
        let [kind, code] = numbers.unwrap_or_default();
        [kind, code, String::new(), String::new()]
    };
    of_packet.unwrap_or_else(of_flow).iter().for_each(|text| cell(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn written(form: fn(&mut Vec<u8>, &Alert<'_>), flow: &FlowIdentity, record: &Record<'_>) -> String {
        let zone = Zone::utc();
        let mut out = Vec::new();
        form(&mut out, &Alert::new(flow, record, &zone));
        String::from_utf8(out).unwrap()
    }

    fn with_packet(packet: Vec<u8>) -> Record<'static> {
        let mut record = fixtures::alert("a \"b\"\n");
        record.set("packet", Value::Text(packet.into()));
        record.set("link", Value::Uint(u64::from(LinkType::ETHERNET.0)));
        record.set("direction", "to_server".into());
        record
    }

    #[test]
    fn an_alert_without_packet_has_its_rule_and_its_ends() {
        let (flow, record) = (fixtures::identity(), fixtures::alert("MESSAGE"));
        assert_eq!(
            written(full, &flow, &record),
            "[**] [1:2009187:4] MESSAGE [**]\n[Classification: Web Application Attack] [Priority: 3] \n\
             11/21-01:46:08.992000 192.0.2.1:443 -> 10.0.0.5:40000\n\
             [Xref => http://example.org][Xref => cve 2021-44228]\n"
        );
        assert_eq!(
            written(csv, &flow, &record),
            "11/21-01:46:08.992000 ,1,2009187,4,\"MESSAGE\",TCP,192.0.2.1,443,10.0.0.5,40000,,,,,,,,,,,,,,,,,"
        );
    }

    #[test]
    fn a_packet_gives_its_headers() {
        let flow = fixtures::identity();
        let packet = build::ethernet()
            .mac([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0xab])
            .ipv4([10, 0, 0, 5], [192, 0, 2, 1])
            .ttl(63)
            .tcp(40_000, 443, 0x18)
            .seq(0x0102_0304)
            .ack(5)
            .window(512)
            .payload(b"abc");
        let record = with_packet(packet);
        let text = written(full, &flow, &record);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            &lines[2..5],
            [
                "11/21-01:46:08.992000 10.0.0.5:40000 -> 192.0.2.1:443",
                "TCP TTL:63 TOS:0x0 ID:0 IpLen:20 DgmLen:43",
                "***AP*** Seq: 0x1020304  Ack: 0x5  Win: 0x200  TcpLen: 20",
            ]
        );
        assert_eq!(
            written(csv, &flow, &record),
            "11/21-01:46:08.992000 ,1,2009187,4,\"a \"\"b\"\"\\x0a\",TCP,10.0.0.5,40000,192.0.2.1,443,02:00:00:00:00:01,\
             02:00:00:00:00:AB,0x39,***AP***,0x1020304,0x5,20,0x200,63,0,0,43,20,,,,"
        );
    }

    #[test]
    fn an_echo_has_its_numbers() {
        let ping = fixtures::ping();
        let (key, initiator_is_lower, first) = (ping.key, ping.initiator_is_lower, ping.first);
        let flow = FlowIdentity { key, initiator_is_lower, first, vlan: [0, 0], alias: 0 };
        let packet = build::ethernet().ipv6([1; 16], [2; 16]).icmp(128, 0, [0, 7, 0, 9]).payload(b"");
        let record = with_packet(packet);
        let text = written(full, &flow, &record);
        assert!(text.contains("\nType:128  Code:0  ID:7   Seq:9\n"), "{text}");
        assert!(written(csv, &flow, &record).ends_with(",128,0,7,9"));
        // Without the packet the flow has type and code.
        assert!(written(csv, &flow, &fixtures::alert("x")).ends_with(",129,0,,"));
    }
}
