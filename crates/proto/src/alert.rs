//! Alerts: what the rules of Suricata found in packets, streams and transactions. The engine emits them.

use crate::{Kind, Privacy, Record, Table, Value, field, record};
use std::borrow::Cow;
use std::net::IpAddr;
use weir_wire::{Direction, LinkType, Time};

/// Rules that matched in a packet, a stream or a transaction.
pub static ALERT: Table = Table {
    name: "alert",
    help: "A rule matched in a packet, a stream or a transaction.",
    zeek: "alert",
    eve: "alert",
    fields: &[
        field("action", Kind::Word, "What was done with the packet: allowed, or blocked by a rule that drops or rejects.")
            .zeek("action")
            .eve("alert.action"),
        field("gid", Kind::Uint, "Group of the rule.").zeek("gid").eve("alert.gid"),
        field("sid", Kind::Uint, "Number of the rule in its group.").zeek("sid").eve("alert.signature_id"),
        field("rev", Kind::Uint, "Revision of the rule.").zeek("rev").eve("alert.rev"),
        field("signature", Kind::Text, "Message of the rule, at most 1,024 bytes.")
            .zeek("signature")
            .eve("alert.signature"),
        field("category", Kind::Text, "Description of the rule's class, at most 1,024 bytes; none for a rule without a class.")
            .zeek("category")
            .eve("alert.category"),
        field("severity", Kind::Uint, "Priority of the rule: 1 is the most important.")
            .zeek("severity")
            .eve("alert.severity"),
        field(
            "reference",
            Kind::List(&Kind::Text),
            "References of the rule, each a system and an identifier joined by a comma (cve,2021-44228); at most 64 of 1,024 bytes.",
        )
        .zeek("reference"),
        // Suricata's events have an object here, which the log of events writes of these texts.
        field(
            "metadata",
            Kind::List(&Kind::Text),
            "Metadata of the rule, each a key and a value with a blank between them; at most 64 of 1,024 bytes.",
        )
        .zeek("metadata"),
        field("direction", Kind::Word, "Direction of the packet in which the rule matched: to_server or to_client.")
            .zeek("direction")
            .eve("direction"),
        field("app_proto", Kind::Word, "Protocol of the flow, by our name; none if it was not identified.")
            .zeek("app_proto")
            .eve("app_proto"),
        field("tx_id", Kind::Uint, "Number of the transaction in the flow, from 0, if the rule matched in one.")
            .zeek("tx_id")
            .eve("tx_id"),
        // Suricata's events have an object of the protocol here, which the log of events writes of these texts.
        field(
            "buffers",
            Kind::List(&Kind::Text),
            "What was known of the transaction: each a side (to_server or to_client), a buffer of rules and its value with blanks \
             between them; at most 64 with values of 1,024 bytes.",
        )
        .zeek("buffers")
        .privacy(Privacy::Content),
        field("found_in", Kind::Word, "Where the rule matched: packet, stream or transaction.").zeek("found_in"),
        // Suricata's events have a text here, which the log of events writes of it.
        field("at_end", Kind::Bool, "Whether the end of the flow or of the input caused the match, and no packet.")
            .zeek("at_end"),
        field("orig_pkts", Kind::Uint, "Packets of the initiator up to the match.")
            .zeek("orig_pkts")
            .eve("flow.pkts_toserver"),
        field("resp_pkts", Kind::Uint, "Packets of the responder up to the match.")
            .zeek("resp_pkts")
            .eve("flow.pkts_toclient"),
        field("orig_bytes", Kind::Uint, "Bytes of the initiator's packets on the wire up to the match.")
            .zeek("orig_bytes")
            .eve("flow.bytes_toserver"),
        field("resp_bytes", Kind::Uint, "Bytes of the responder's packets on the wire up to the match.")
            .zeek("resp_bytes")
            .eve("flow.bytes_toclient"),
        // Suricata's events have an object here, which the log of events writes of these values.
        field("tunnel", Kind::Word, "Kind of the tunnel that carried the packets of the side that sent it; none outside of tunnels.")
            .zeek("tunnel"),
        field("tunnel_src", Kind::Address, "Source of the outermost packet of this tunnel.").zeek("tunnel_src"),
        field("tunnel_src_port", Kind::Uint, "Its port, if it has ports.").zeek("tunnel_src_port"),
        field("tunnel_dst", Kind::Address, "Destination of the outermost packet of this tunnel.").zeek("tunnel_dst"),
        field("tunnel_dst_port", Kind::Uint, "Its port, if it has ports.").zeek("tunnel_dst_port"),
        field("tunnel_proto", Kind::Uint, "Number of the protocol that the outermost packet carries.")
            .zeek("tunnel_proto"),
        field(
            "payload",
            Kind::Text,
            "Only if asked for: the payload of the packet in which the rule matched, its first 4,096 bytes, or the latest 4,096 bytes \
             of the stream, with a text such as [4 bytes missing] in place of a gap; none if there are none.",
        )
        .zeek("payload")
        .eve("payload")
        .privacy(Privacy::Content),
        field("packet", Kind::Text, "Only if asked for: the packet at which the rule matched, its first 65,535 bytes.")
            .zeek("packet")
            .eve("packet")
            .privacy(Privacy::Content),
        field("link", Kind::Uint, "Number of the link type of that packet.")
            .zeek("link")
            .eve("packet_info.linktype"),
    ],
};

/// Where a rule matched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AlertPlace {
    /// In one packet.
    Packet,
    /// In the reassembled stream of one direction.
    Stream,
    /// In the buffers of a transaction.
    Transaction,
}

impl AlertPlace {
    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Stream => "stream",
            Self::Transaction => "transaction",
        }
    }
}

/// What a side has sent up to a match.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AlertSide {
    /// Packets.
    pub packets: u64,
    /// Bytes of these packets on the wire.
    pub bytes: u64,
}

/// A tunnel that carries packets of a side, by its outermost packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AlertTunnel {
    /// Its kind in a word.
    pub kind: &'static str,
    /// Source and port of the outermost packets; port 0 if they have none.
    pub source: (IpAddr, u16),
    /// Their destination and port.
    pub destination: (IpAddr, u16),
    /// Number of the protocol that they carry.
    pub ip_proto: u8,
}

/// The value of a buffer of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct AlertValue<'a> {
    /// The side that sent it.
    pub side: Direction,
    /// The name of the buffer.
    pub buffer: &'static str,
    /// The value; truncated to [`Alert::TEXT`] bytes.
    pub value: &'a [u8],
}

/// A match of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Alert<'a> {
    /// `allowed` or `blocked`.
    pub action: &'a str,
    /// Group of the rule.
    pub gid: u32,
    /// Number of the rule in its group.
    pub sid: u32,
    /// Revision of the rule.
    pub rev: u32,
    /// Message of the rule; truncated to [`Alert::TEXT`] bytes.
    pub message: &'a str,
    /// Description of the rule's class, "" for none; truncated to [`Alert::TEXT`] bytes.
    pub category: &'a str,
    /// Priority of the rule: 1 is the most important.
    pub severity: u8,
    /// Systems and identifiers; the first [`Alert::PAIRS`] are in the record.
    pub references: &'a [(Box<str>, Box<str>)],
    /// Keys and values; the first [`Alert::PAIRS`] are in the record.
    pub metadata: &'a [(Box<str>, Box<str>)],
    /// Direction of the packet: forward is to the server.
    pub direction: Direction,
    /// Protocol of the flow, by our name.
    pub app_proto: Option<&'a str>,
    /// Number of the transaction in the flow, from 0.
    pub transaction: Option<u64>,
    /// What is known of that transaction; the first [`Alert::PAIRS`] values are in the record.
    pub buffers: &'a [AlertValue<'a>],
    /// Where the rule matched.
    pub place: AlertPlace,
    /// Whether the end of the flow or of the input caused the match, and no packet.
    pub at_end: bool,
    /// What the initiator and the responder have sent.
    pub sides: [AlertSide; 2],
    /// The tunnel that carries packets of the side that sent what matched.
    pub tunnel: Option<AlertTunnel>,
    /// The bytes in which it matched; truncated to [`Alert::PAYLOAD`] bytes. Empty if they are not asked for.
    pub payload: &'a [u8],
    /// The packet at which it matched, from the link-layer header on, and its link type; truncated to [`Alert::PACKET`] bytes. `None`
    /// if it is not asked for or no packet caused the match.
    pub packet: Option<(LinkType, &'a [u8])>,
}

impl<'a> Alert<'a> {
    /// Maximum length in bytes of a message, of a category, and of a pair with the sign between its parts.
    pub const TEXT: usize = 1024;
    /// Maximum number of references, and of pairs of metadata.
    pub const PAIRS: usize = 64;
    /// Maximum length of the payload in bytes.
    pub const PAYLOAD: usize = 4096;
    /// Maximum length of the packet in bytes.
    pub const PACKET: usize = 65_535;

    /// The buffers that alerts have of their transaction: those by which its request and its answer are known.
    pub const BUFFERS: [&'static str; 27] = [
        "dns.queries.rrname",
        "dns.answers.rrname",
        "email.from",
        "email.to",
        "email.cc",
        "ftp.command",
        "http.method",
        "http.host",
        "http.uri.raw",
        "http.user_agent",
        "http.referer",
        "http.protocol",
        "http.stat_code",
        "ntp.version",
        "ntp.mode",
        "ntp.stratum",
        "ntp.reference_id",
        "smtp.helo",
        "smtp.mail_from",
        "smtp.rcpt_to",
        "ssh.proto",
        "ssh.software",
        "tls.sni",
        "tls.cert_subject",
        "tls.cert_issuer",
        "tls.cert_serial",
        "tls.cert_fingerprint",
    ];

    /// The alert as a record.
    pub fn record(&self, time: Time) -> Record<'a> {
        let [initiator, responder] = self.sides;
        let tunnel = self.tunnel.as_ref();
        let port = |(_, port): (IpAddr, u16)| Some(port).filter(|port| *port > 0);
        record!(
            ALERT,
            time,
            action = self.action,
            gid = self.gid,
            sid = self.sid,
            rev = self.rev,
            signature = truncated(self.message),
            category = Some(truncated(self.category)).filter(|text| !text.is_empty()),
            severity = self.severity,
            reference = pairs(self.references, ','),
            metadata = pairs(self.metadata, ' '),
            direction = to(self.direction),
            app_proto = self.app_proto,
            tx_id = self.transaction,
            buffers = Value::list(self.buffers.iter().take(Self::PAIRS).map(AlertValue::text)),
            found_in = self.place.word(),
            at_end = self.at_end,
            orig_pkts = initiator.packets,
            resp_pkts = responder.packets,
            orig_bytes = initiator.bytes,
            resp_bytes = responder.bytes,
            tunnel = tunnel.map(|tunnel| tunnel.kind),
            tunnel_src = tunnel.map(|tunnel| tunnel.source.0),
            tunnel_src_port = tunnel.and_then(|tunnel| port(tunnel.source)),
            tunnel_dst = tunnel.map(|tunnel| tunnel.destination.0),
            tunnel_dst_port = tunnel.and_then(|tunnel| port(tunnel.destination)),
            tunnel_proto = tunnel.map(|tunnel| tunnel.ip_proto),
            payload = Some(self.payload.get(..Self::PAYLOAD).unwrap_or(self.payload))
                .filter(|bytes| !bytes.is_empty()),
            packet = self.packet.map(|(_, bytes)| bytes.get(..Self::PACKET).unwrap_or(bytes)),
            link = self.packet.map(|(link, _)| u64::from(link.0)),
        )
    }
}

impl AlertValue<'_> {
    fn text(&self) -> Vec<u8> {
        let value: Cow<'_, [u8]> = match (self.buffer, self.value.first_chunk()) {
            // Numbers are eight bytes as buffers.
            ("ntp.version" | "ntp.mode" | "ntp.stratum", Some(number)) => {
                u64::from_be_bytes(*number).to_string().into_bytes().into()
            }
            ("ntp.reference_id", _) => {
                let pairs: Vec<String> = self.value.iter().map(|byte| format!("{byte:02x}")).collect();
                pairs.join(":").into_bytes().into()
            }
            _ => Cow::Borrowed(self.value.get(..Alert::TEXT).unwrap_or(self.value)),
        };
        [to(self.side).as_bytes(), self.buffer.as_bytes(), &value].join(&b' ')
    }
}

/// The word for a direction.
fn to(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "to_server",
        Direction::Reverse => "to_client",
    }
}

/// The first [`Alert::TEXT`] bytes of a text, in whole characters.
fn truncated(text: &str) -> &str {
    text.get(..text.floor_char_boundary(Alert::TEXT)).unwrap_or(text)
}

/// The first [`Alert::PAIRS`] pairs as texts, each joined by a sign.
fn pairs(pairs: &[(Box<str>, Box<str>)], sign: char) -> Value<'static> {
    let joined = |(key, value): &(Box<str>, Box<str>)| {
        let mut text = format!("{key}{sign}{value}");
        text.truncate(truncated(&text).len());
        text
    };
    Value::list(pairs.iter().take(Alert::PAIRS).map(joined))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (Box<str>, Box<str>) {
        (key.into(), value.into())
    }

    const PLAIN: Alert<'_> = Alert {
        action: "allowed",
        gid: 1,
        sid: 2_009_187,
        rev: 4,
        message: "a message",
        category: "",
        severity: 3,
        references: &[],
        metadata: &[],
        direction: Direction::Reverse,
        app_proto: None,
        transaction: None,
        buffers: &[],
        place: AlertPlace::Packet,
        at_end: false,
        sides: [AlertSide { packets: 0, bytes: 0 }; 2],
        tunnel: None,
        payload: b"",
        packet: None,
    };

    #[test]
    fn a_record_has_the_values_of_the_rule_and_of_the_place() {
        let references = [pair("cve", "2021-44228"), pair("url", "example.org/a,b")];
        let metadata = [pair("created_at", "2021_12_10"), pair("policy", "balanced-ips drop")];
        let alert = Alert {
            category: "Attempted User Privilege Gain",
            references: &references,
            metadata: &metadata,
            app_proto: Some("http"),
            transaction: Some(0),
            buffers: &[
                AlertValue { side: Direction::Forward, buffer: "http.host", value: b"a b" },
                AlertValue { side: Direction::Reverse, buffer: "http.stat_code", value: &[b'2'; 2_000] },
            ],
            place: AlertPlace::Transaction,
            at_end: true,
            sides: [AlertSide { packets: 3, bytes: 400 }, AlertSide { packets: 2, bytes: 150 }],
            tunnel: Some(AlertTunnel {
                kind: "vxlan",
                source: (IpAddr::from([192, 0, 2, 7]), 4789),
                destination: (IpAddr::from([192, 0, 2, 8]), 0),
                ip_proto: 17,
            }),
            payload: b"\0\xff",
            packet: Some((LinkType::C_HDLC, b"\x0f\0")),
            ..PLAIN
        };
        let record = alert.record(Time(7));
        assert_eq!((record.table.name, record.time), ("alert", Time(7)));
        let list = |texts: [&'static str; 2]| Value::list(texts);
        let known = format!("to_client http.stat_code {}", "2".repeat(Alert::TEXT));
        for (field, value) in [
            ("action", "allowed".into()),
            ("gid", Value::Uint(1)),
            ("sid", Value::Uint(2_009_187)),
            ("rev", Value::Uint(4)),
            ("signature", "a message".into()),
            ("category", "Attempted User Privilege Gain".into()),
            ("severity", Value::Uint(3)),
            ("reference", list(["cve,2021-44228", "url,example.org/a,b"])),
            ("metadata", list(["created_at 2021_12_10", "policy balanced-ips drop"])),
            ("direction", "to_client".into()),
            ("app_proto", "http".into()),
            ("tx_id", Value::Uint(0)),
            ("buffers", Value::list(["to_server http.host a b", &*known])),
            ("found_in", "transaction".into()),
            ("at_end", Value::Bool(true)),
            ("orig_pkts", Value::Uint(3)),
            ("resp_pkts", Value::Uint(2)),
            ("orig_bytes", Value::Uint(400)),
            ("resp_bytes", Value::Uint(150)),
            ("tunnel", "vxlan".into()),
            ("tunnel_src", Value::Address(IpAddr::from([192, 0, 2, 7]))),
            ("tunnel_src_port", Value::Uint(4789)),
            ("tunnel_dst", Value::Address(IpAddr::from([192, 0, 2, 8]))),
            ("tunnel_dst_port", Value::None),
            ("tunnel_proto", Value::Uint(17)),
            ("payload", Value::from(&b"\0\xff"[..])),
            ("packet", Value::from(&b"\x0f\0"[..])),
            ("link", Value::Uint(104)),
        ] {
            assert_eq!(*record.get(field), value, "{field}");
        }
    }

    #[test]
    fn what_an_alert_lacks_has_no_value() {
        let record = PLAIN.record(Time(0));
        for field in [
            "category",
            "reference",
            "metadata",
            "app_proto",
            "tx_id",
            "buffers",
            "tunnel",
            "tunnel_src",
            "tunnel_proto",
            "payload",
            "packet",
            "link",
        ] {
            assert!(record.get(field).is_none(), "{field}");
        }
        let forward = Alert { direction: Direction::Forward, place: AlertPlace::Stream, ..PLAIN };
        let record = forward.record(Time(0));
        assert_eq!(
            (record.get("direction"), record.get("found_in")),
            (&"to_server".into(), &"stream".into())
        );
    }

    #[test]
    fn the_buffers_of_transactions_are_buffers_of_parsers() {
        for name in Alert::BUFFERS {
            let mut known = crate::buffers().chain(crate::numbers());
            assert!(known.any(|buffer| buffer.name == name && !buffer.is_stream), "{name}");
        }
    }

    #[test]
    fn texts_lists_and_payload_are_truncated_in_whole_characters() {
        // The limit is within the last of these characters of two bytes.
        let message = format!("a{}", "é".repeat(4_000));
        let many = vec![pair("key", &message); 200];
        let (payload, packet) = ([7; 5_000], [7; 70_000]);
        let alert = Alert {
            message: &message,
            category: &message,
            references: &many,
            metadata: &many,
            payload: &payload,
            packet: Some((LinkType::ETHERNET, &packet)),
            ..PLAIN
        };
        let record = alert.record(Time(0));
        let text = |field: &str| match record.get(field) {
            Value::Text(text) => text.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!([text("signature"), text("category")], [1_023; 2]);
        assert_eq!([text("payload"), text("packet")], [4_096, 65_535]);
        for field in ["reference", "metadata"] {
            let Value::List(values) = record.get(field) else { panic!("{field}") };
            assert_eq!(values.len(), Alert::PAIRS);
            assert!(values.iter().all(|value| *value == many_text(field, &message).into()), "{field}");
        }
    }

    fn many_text(field: &str, message: &str) -> String {
        let sign = if field == "reference" { ',' } else { ' ' };
        let text = format!("key{sign}{message}");
        // `key`, the sign and `a` are five bytes: a character begins at each odd place from there.
        text[..1_023].to_owned()
    }
}
