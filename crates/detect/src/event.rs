//! The events that rules name, and the anomalies of Weir that stand for them.

use crate::buffer::Sides;

/// What an event is about: each has a keyword of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EventOf {
    /// A message of an application protocol.
    Message,
    /// A packet.
    Packet,
    /// A stream of TCP.
    Stream,
}

impl EventOf {
    /// Its keyword.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Message => "app-layer-event",
            Self::Packet => "decode-event",
            Self::Stream => "stream-event",
        }
    }
}

/// An event of rules.
#[derive(Debug)]
pub struct EventRow {
    /// What it is about.
    pub of: EventOf,
    /// Its name in rules. Upper and lower case are equal.
    pub name: &'static str,
    /// The protocol of the anomalies, by Weir's name: the field `protocol` of the table `anomaly`.
    pub protocol: &'static str,
    /// The anomalies that stand for it, by the field `event` of the table `anomaly`, in lower case. Each is enough.
    pub anomalies: &'static [&'static str],
    /// Whose message or packet has it.
    pub sides: Sides,
}

const fn row(
    of: EventOf,
    name: &'static str,
    protocol: &'static str,
    anomalies: &'static [&'static str],
) -> EventRow {
    EventRow { of, name, protocol, anomalies, sides: Sides::Both }
}

const fn message(name: &'static str, protocol: &'static str, anomalies: &'static [&'static str]) -> EventRow {
    row(EventOf::Message, name, protocol, anomalies)
}

const fn packet(name: &'static str, protocol: &'static str, anomalies: &'static [&'static str]) -> EventRow {
    row(EventOf::Packet, name, protocol, anomalies)
}

/// An event of one side, whose anomaly may be of either.
const fn sided(
    sides: Sides,
    name: &'static str,
    protocol: &'static str,
    anomalies: &'static [&'static str],
) -> EventRow {
    EventRow { sides, ..message(name, protocol, anomalies) }
}

/// Fragments that overlap, with equal and with different bytes.
const OVERLAPS: &[&str] = &["fragment_overlap", "fragment_inconsistency"];
/// IP packets that are shorter than the header after them, and such of which less was captured.
const TOO_SMALL: &[&str] = &["truncated_header", "internally_truncated_header"];
/// Messages of DNS that cannot be read to their end.
const DNS_MALFORMED: &[&str] = &[
    "dns_label_len_gt_pkt",
    "dns_label_too_long",
    "dns_truncated_ans_too_short",
    "dns_truncated_len_lt_hdr_len",
    "dns_truncated_quest_too_short",
    "dns_truncated_rr_rdlength_lt_len",
];

/// The events that Weir has an anomaly for, by keyword and name ("Suricata User Guide", chapters "Decode, stream and
/// app-layer events", and the rule files of events of Suricata 8).
pub static EVENTS: &[EventRow] = &[
    message("dhcp.truncated_options", "dhcp", &["truncated_options"]),
    message("dnp3.bad_link_crc", "dnp3", &["bad_link_crc"]),
    message("dnp3.bad_transport_crc", "dnp3", &["bad_transport_crc"]),
    message("dnp3.len_too_small", "dnp3", &["len_too_small"]),
    message("dnp3.too_long_reassembly", "dnp3", &["too_long_reassembly"]),
    message("dns.invalid_opcode", "dns", &["invalid_opcode"]),
    message("dns.malformed_data", "dns", DNS_MALFORMED),
    message("dns.name_too_long", "dns", &["dns_name_too_long"]),
    message("dns.z_flag_set", "dns", &["z_flag_set"]),
    message("ftp.request_command_too_long", "ftp", &["request_command_too_long"]),
    message("ftp.response_command_too_long", "ftp", &["response_command_too_long"]),
    message(
        "http.duplicate_content_length_field_in_request",
        "http",
        &["duplicate_content_length_field_in_request"],
    ),
    message(
        "http.duplicate_content_length_field_in_response",
        "http",
        &["duplicate_content_length_field_in_response"],
    ),
    message("http.gzip_decompression_failed", "http", &["inflate_failed"]),
    message(
        "http.invalid_content_length_field_in_request",
        "http",
        &["invalid_content_length_field_in_request"],
    ),
    message(
        "http.invalid_content_length_field_in_response",
        "http",
        &["invalid_content_length_field_in_response"],
    ),
    message("http.invalid_request_chunk_len", "http", &["invalid_request_chunk_len"]),
    message("http.invalid_response_chunk_len", "http", &["invalid_response_chunk_len"]),
    message("http.range_invalid", "http", &["range_invalid"]),
    sided(Sides::ToServer, "http.request_field_missing_colon", "http", &["field_missing_colon"]),
    message("http.request_field_too_long", "http", &["request_field_too_long"]),
    message("http.request_line_invalid", "http", &["request_line_invalid"]),
    sided(Sides::ToServer, "http.request_too_many_headers", "http", &["too_many_headers"]),
    sided(Sides::ToClient, "http.response_field_missing_colon", "http", &["field_missing_colon"]),
    message("http.response_field_too_long", "http", &["response_field_too_long"]),
    sided(Sides::ToClient, "http.response_too_many_headers", "http", &["too_many_headers"]),
    message("http.unable_to_match_response_to_request", "http", &["unable_to_match_response_to_request"]),
    message("krb5.malformed_data", "kerberos", &["malformed_data"]),
    message("ldap.invalid_data", "ldap", &["malformed_data"]),
    message("ldap.too_many_transactions", "ldap", &["too_many_requests"]),
    message("mqtt.double_connect", "mqtt", &["double_connect"]),
    message("mqtt.invalid_qos_level", "mqtt", &["invalid_qos_level"]),
    message("mqtt.malformed_traffic", "mqtt", &["malformed_traffic"]),
    message("mqtt.missing_connect", "mqtt", &["missing_connect"]),
    message("mqtt.missing_publish", "mqtt", &["missing_publish"]),
    message("mqtt.missing_subscribe", "mqtt", &["missing_subscribe"]),
    message("mqtt.missing_unsubscribe", "mqtt", &["missing_unsubscribe"]),
    message("mqtt.too_many_transactions", "mqtt", &["too_many_transactions"]),
    message("mqtt.unassigned_msg_type", "mqtt", &["unassigned_msgtype"]),
    message("mqtt.unintroduced_message", "mqtt", &["unintroduced_message"]),
    message("ntp.malformed_data", "ntp", &["truncated_message"]),
    sided(Sides::ToServer, "pgsql.malformed_request", "postgresql", &["malformed_data"]),
    sided(Sides::ToClient, "pgsql.malformed_response", "postgresql", &["malformed_data"]),
    message("pgsql.too_many_transactions", "postgresql", &["too_many_commands"]),
    sided(Sides::ToServer, "pop3.request_too_long", "pop3", &["line_too_long"]),
    message("pop3.too_many_transactions", "pop3", &["too_many_commands"]),
    sided(Sides::ToServer, "pop3.unknown_command", "pop3", &["pop3_client_command_unknown"]),
    message("quic.crypto_frag_too_long", "quic", &["hello_too_long"]),
    message("quic.error_on_data", "quic", &["invalid_frame"]),
    message("quic.failed_decrypt", "quic", &["decryption_failed"]),
    message("rfb.malformed_message", "rfb", &["malformed_data"]),
    message("sip.invalid_data", "sip", &["no_first_line"]),
    message("smb.malformed_data", "smb", &["malformed_data"]),
    message("smtp.data_command_rejected", "smtp", &["data_command_rejected"]),
    message("smtp.duplicate_fields", "smtp", &["duplicate_fields"]),
    message("smtp.invalid_reply", "smtp", &["invalid_reply"]),
    message("smtp.max_command_line_len_exceeded", "smtp", &["max_command_line_len_exceeded"]),
    message("smtp.max_reply_line_len_exceeded", "smtp", &["max_reply_line_len_exceeded"]),
    message("smtp.tls_rejected", "smtp", &["tls_rejected"]),
    message("smtp.unable_to_match_reply_with_request", "smtp", &["unable_to_match_reply_with_request"]),
    message("snmp.malformed_data", "snmp", &["malformed_data"]),
    message("ssh.invalid_banner", "ssh", &["invalid_banner"]),
    message("ssh.invalid_record", "ssh", &["invalid_record"]),
    message("ssh.long_banner", "ssh", &["long_banner"]),
    message("ssh.long_kex_record", "ssh", &["long_kex_record"]),
    message("tls.invalid_certificate", "tls", &["invalid_certificate"]),
    message("tls.invalid_handshake_message", "tls", &["invalid_handshake_message"]),
    message("tls.invalid_ssl_record", "tls", &["invalid_tls_record"]),
    message("tls.invalid_tls_header", "tls", &["invalid_tls_header"]),
    packet("gre.pkt_too_small", "gre", &["truncated_gre"]),
    packet("gre.version1_wrong_protocol", "gre", &["egre_protocol_type"]),
    packet("gre.wrong_version", "gre", &["unknown_gre_version"]),
    packet("icmpv4.pkt_too_small", "icmp", TOO_SMALL),
    packet("icmpv6.pkt_too_small", "icmp", TOO_SMALL),
    packet("ipv4.frag_overlap", "ip", OVERLAPS),
    packet("ipv4.iplen_smaller_than_hlen", "ip", &["ip_hdr_len_zero"]),
    packet("ipv4.trunc_pkt", "ip", &["truncated_ip_len"]),
    packet("ipv6.exthdr_dupl_fh", "ip", &["exthdr_dupl_fh"]),
    packet("ipv6.exthdr_useless_fh", "ip", &["exthdr_useless_fh"]),
    packet("ipv6.frag_invalid_length", "ip", &["frag_invalid_length"]),
    packet("ipv6.frag_overlap", "ip", OVERLAPS),
    packet("ipv6.rh_type_0", "ip", &["routing0_hdr"]),
    packet("ipv6.trunc_pkt", "ip", &["truncated_ip_len"]),
    packet("tcp.hlen_too_small", "tcp", &["truncated_tcp_header"]),
    packet("tcp.invalid_optlen", "tcp", &["bad_tcp_header_len"]),
    packet("tcp.pkt_too_small", "tcp", TOO_SMALL),
    packet("udp.hlen_invalid", "udp", &["udp_datagram_length_mismatch"]),
    packet("udp.hlen_too_small", "udp", TOO_SMALL),
    row(EventOf::Stream, "3whs_synack_with_wrong_ack", "tcp", &["bad_syn_ack"]),
];

impl EventRow {
    /// The version of IP whose packets have it: 4 or 6. `None`: any.
    pub fn ip_version(&self) -> Option<u8> {
        let (of, _) = self.name.split_once('.')?;
        match of {
            "ipv4" | "icmpv4" => Some(4),
            "ipv6" | "icmpv6" => Some(6),
            _ => None,
        }
    }
}

/// The event with this name after the keyword of `of`, if Weir has an anomaly for it. `decoder.` and `stream.` before the name
/// are left out, as in Suricata's own names.
pub fn event(of: EventOf, name: &str) -> Option<&'static EventRow> {
    let prefix = match of {
        EventOf::Message => "",
        EventOf::Packet => "decoder.",
        EventOf::Stream => "stream.",
    };
    let name = name.strip_prefix(prefix).unwrap_or(name);
    EVENTS.iter().find(|row| row.of == of && row.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_proto::PROTOCOLS;

    #[test]
    fn rows_are_in_order_and_unique_and_in_lower_case() {
        let keys: Vec<_> = EVENTS.iter().map(|row| (row.of as u8, row.name)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
        for row in EVENTS {
            let names = || row.anomalies.iter().chain([&row.name]);
            assert!(names().all(|name| **name == name.to_ascii_lowercase()), "{}", row.name);
            assert!(!row.anomalies.is_empty());
            let is_protocol = PROTOCOLS.iter().any(|protocol| protocol.name == row.protocol);
            assert_eq!(is_protocol, row.of == EventOf::Message, "{}", row.name);
            assert!(row.ip_version().is_none() || row.of == EventOf::Packet);
        }
    }

    #[test]
    fn the_documentation_has_each_row() {
        let text = include_str!("../../../docs/rule-events.md");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        let documented = |row: &EventRow| {
            let anomalies: Vec<String> = row.anomalies.iter().map(|name| format!("`{name}`")).collect();
            format!("| `{}` | {} | {} |", row.name, row.protocol, anomalies.join(", "))
        };
        assert_eq!(rows, EVENTS.iter().map(documented).collect::<Vec<_>>());
    }

    #[test]
    fn names_are_found_in_any_case_and_with_suricatas_prefix() {
        let name = |of, name: &str| event(of, name).map(|row| row.name);
        assert_eq!(name(EventOf::Message, "HTTP.range_INVALID"), Some("http.range_invalid"));
        assert_eq!(name(EventOf::Packet, "decoder.tcp.pkt_too_small"), Some("tcp.pkt_too_small"));
        assert_eq!(
            name(EventOf::Stream, "stream.3whs_synack_with_wrong_ack"),
            Some("3whs_synack_with_wrong_ack")
        );
        assert_eq!(name(EventOf::Message, "tcp.pkt_too_small"), None);
        assert_eq!(event(EventOf::Packet, "ipv6.trunc_pkt").and_then(EventRow::ip_version), Some(6));
    }
}
