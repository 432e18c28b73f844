//! Malformed messages, exceeded limits, and segments and packets that TCP, UDP, ICMP and IP do not allow.

use crate::dce_rpc::{DCE_RPC, is_in_pipe, is_in_zeeks_log};
use crate::kerberos::is_between;
use crate::mysql::{MYSQL, has_command};
use crate::odd_packet::{OddPacket, Words, ZeekEnds, zeek_ends};
use crate::{Kind, Out, Privacy, Protocol, Record, Table, Value, field, record};
use weir_wire::{Direction, Time};

/// An error in a message.
#[derive(Clone, Copy, Debug)]
pub struct Anomaly<'a> {
    /// Its name, in lower case with underscores; each protocol has a fixed set of names.
    pub name: &'static str,
    /// The sending side.
    pub direction: Direction,
    /// The bytes concerned, or other detail of the error; truncated to [`Anomaly::DETAIL`] bytes.
    pub detail: &'a [u8],
    /// Number of the flow's transaction that has the error, from 0; none if the parser does not number them.
    pub transaction: Option<u64>,
}

/// Malformed messages, exceeded limits, and other violations of a protocol, TCP among them.
pub static ANOMALY: Table = Table {
    name: "anomaly",
    help: "A message that is malformed or exceeds a limit, or a segment or packet that TCP, UDP, ICMP or IP does not allow.",
    zeek: "weird",
    eve: "anomaly",
    fields: &[
        field("protocol", Kind::Word, "Protocol of the flow, by our name.").eve("anomaly.app_proto"),
        field("source", Kind::Word, "Protocol of the flow, by the name of Zeek's parser.").zeek("source"),
        field("name", Kind::Word, "Name of the error.").zeek("name"),
        field("event", Kind::Word, "Name of the error in Suricata's words, where it has one.")
            .eve("anomaly.event"),
        field(
            "type",
            Kind::Word,
            "Stage that found the error, in Suricata's words: applayer, stream for TCP, or decode for a single packet.",
        )
        .eve("anomaly.type"),
        field("layer", Kind::Word, "Part of that stage, in Suricata's words: proto_parser; none for TCP and for single packets.")
            .eve("anomaly.layer"),
        field("reverse", Kind::Bool, "Whether the responder sent the message."),
        field("transaction", Kind::Uint, "Number of the transaction in the flow, from 0, where it is known.")
            .eve("tx_id"),
        field("detail", Kind::Text, "Bytes that caused the error, at most 256; of a packet the numbers that do not agree.")
            .zeek("addl")
            .privacy(Privacy::Content),
    ],
};

impl<'a> Anomaly<'a> {
    /// Maximum length of a detail in bytes.
    pub const DETAIL: usize = 256;

    /// The anomaly as a record.
    pub fn record(&self, time: Time, protocol: &'static Protocol) -> Record<'a> {
        let detail = self.detail.get(..Self::DETAIL).unwrap_or(self.detail);
        let detail = if detail.is_empty() { Value::None } else { detail.into() };
        let reverse = self.direction == Direction::Reverse;
        record!(
            ANOMALY,
            time,
            protocol = protocol.name,
            source = parser(protocol.name, self.name),
            name = self.name,
            event = event(protocol.name, self.name, self.direction),
            type = "applayer",
            layer = "proto_parser",
            reverse = reverse,
            transaction = self.transaction,
            detail = detail,
        )
    }
}

/// The record of a segment that is odd, by a name of `weir_flow::Oddities`. The name is Zeek's, and the event is it in lower
/// case: Suricata has no names for these.
pub fn odd_segment(name: &'static str, direction: Direction, time: Time) -> Record<'static> {
    // Zeek names no source for what it notes about the connection as a whole.
    let source = if OF_CONNECTION.contains(&name) { Value::None } else { "TCP".into() };
    record!(
        ANOMALY,
        time,
        protocol = "tcp",
        source = source,
        name = name,
        event = name.to_ascii_lowercase(),
        type = "stream",
        layer = Value::None,
        reverse = direction == Direction::Reverse,
        transaction = Value::None,
        detail = Value::None,
    )
}

/// The record of a packet that is odd. `protocol`: IP protocol of the packet; `detail`: numbers in Zeek's words, "" for none.
pub fn odd_packet(
    odd: OddPacket,
    protocol: u8,
    in_tunnel: bool,
    detail: String,
    direction: Direction,
    time: Time,
) -> Record<'static> {
    let Words { source, name, event } = odd.words(protocol, in_tunnel);
    record!(
        ANOMALY,
        time,
        protocol = source.unwrap_or("IP").to_ascii_lowercase(),
        source = source.map_or(Value::None, Value::from),
        name = name,
        event = event,
        type = "decode",
        layer = Value::None,
        reverse = direction == Direction::Reverse,
        transaction = Value::None,
        detail = if detail.is_empty() { Value::None } else { detail.into() },
    )
}

/// Names of [`odd_segment`] without a source in Zeek's weird.log.
const OF_CONNECTION: [&str; 4] =
    ["SYN_inside_connection", "SYN_seq_jump", "possible_split_routing", "window_recision"];

impl Protocol {
    /// Emits a record about a malformed or excessive message, with the name, the side and the bytes of an [`Anomaly`].
    pub fn emit_anomaly(
        &'static self,
        name: &'static str,
        direction: Direction,
        detail: &[u8],
        time: Time,
        out: &mut dyn Out,
    ) {
        out.record(Anomaly { name, direction, detail, transaction: None }.record(time, self));
    }
}

/// Names that Zeek has for the same: these rows are in its weird.log. `true`: with the bytes in question in `addl`.
const ZEEKS: [(&str, bool); 58] = [
    ("DNS_Conn_count_too_large", false),
    ("DNS_NAME_too_long", false),
    ("DNS_RR_bad_length", false),
    ("DNS_RR_length_mismatch", false),
    ("DNS_RR_unknown_type", true),
    ("DNS_label_forward_compress_offset", false),
    ("DNS_label_len_gt_pkt", false),
    ("DNS_label_too_long", false),
    ("DNS_truncated_RR_rdlength_lt_len", false),
    ("DNS_truncated_ans_too_short", false),
    ("DNS_truncated_len_lt_hdr_len", false),
    ("DNS_truncated_quest_too_short", false),
    ("FTP_too_many_pending_commands", true),
    ("HTTP_bad_chunk_size", true),
    ("HTTP_bad_content_length", true),
    ("HTTP_chunked_multi", true),
    ("HTTP_chunked_transfer_for_multipart_message", false),
    ("HTTP_content_length_0_and_expect_100_cont", false),
    ("HTTP_content_length_and_chunked", false),
    ("HTTP_content_length_leading_zeros", true),
    ("HTTP_content_range_cannot_parse", true),
    ("HTTP_content_range_invalid_instance", true),
    ("HTTP_content_range_unknown_byte_unit", false),
    ("HTTP_expect_not_100_continue", true),
    ("HTTP_non_positive_content_range", true),
    ("HTTP_range_not_matching_len", false),
    ("HTTP_version_mismatch", false),
    ("SSL_many_server_names", true),
    ("bad_HTTP_reply", false),
    ("bad_HTTP_request", false),
    ("bad_HTTP_request_with_version", false),
    ("contentline_size_exceeded", false),
    ("double_%_in_URI", false),
    ("empty_http_request", false),
    ("exceeded_mime_max_depth", false),
    ("illegal_%_at_end_of_URI", false),
    ("invalid_http_09_request_method", true),
    ("irc_invalid_command", false),
    ("irc_invalid_dcc_message_format", false),
    ("irc_line_size_exceeded", false),
    ("irc_line_too_short", false),
    ("lowercase_HTTP_keyword", false),
    ("missing_HTTP_uri", false),
    ("partial_escape_at_end_of_URI", false),
    ("pop3_client_command_unknown", false),
    ("pop3_client_sending_server_commands", false),
    ("pop3_server_command_unknown", false),
    ("pop3_server_sending_client_commands", false),
    ("sip_junk_before_request", true),
    ("smtp_excessive_invalid_mail_transactions", true),
    ("smtp_huge_bdat_chunk", true),
    ("smtp_invalid_bdat_command", true),
    ("smtp_mail_transaction_invalid", true),
    ("smtp_unmatched_end_of_data", true),
    ("unescaped_%_in_URI", false),
    ("unexpected_multiple_HTTP_requests", false),
    ("unknown_HTTP_method", true),
    ("unmatched_HTTP_reply", false),
];

/// Suricata's names of what Zeek has other names for: of what the initiator and of what the responder sends.
const SURICATAS: [(&str, [&str; 2]); 7] = [
    (
        "HTTP_bad_content_length",
        ["INVALID_CONTENT_LENGTH_FIELD_IN_REQUEST", "INVALID_CONTENT_LENGTH_FIELD_IN_RESPONSE"],
    ),
    ("HTTP_bad_chunk_size", ["INVALID_REQUEST_CHUNK_LEN", "INVALID_RESPONSE_CHUNK_LEN"]),
    ("HTTP_content_length_and_chunked", ["REQUEST_SMUGGLING", "RESPONSE_SMUGGLING"]),
    ("HTTP_content_range_cannot_parse", ["RANGE_INVALID"; 2]),
    ("bad_HTTP_request", ["REQUEST_LINE_INVALID"; 2]),
    ("bad_HTTP_request_with_version", ["REQUEST_LINE_INVALID"; 2]),
    ("unmatched_HTTP_reply", ["UNABLE_TO_MATCH_RESPONSE_TO_REQUEST"; 2]),
];

/// The name of an error in Suricata's events. Its names for HTTP are in capitals.
fn event(protocol: &str, name: &'static str, direction: Direction) -> String {
    match SURICATAS.iter().find(|(known, _)| *known == name) {
        Some((_, [of_initiator, of_responder])) => {
            let event = if direction == Direction::Forward { of_initiator } else { of_responder };
            (*event).to_owned()
        }
        None if protocol == "http" && ZEEKS.iter().all(|(known, _)| *known != name) => {
            name.to_ascii_uppercase()
        }
        None => name.to_owned(),
    }
}

/// Whether Suricata has no event of a record: it is of what another protocol carries, or is no error but a type of DNS that Zeek
/// does not read.
pub fn is_no_event(record: &Record<'_>) -> bool {
    let is_type = *record.table == ANOMALY && *record.get("name") == "DNS_RR_unknown_type".into();
    is_in_pipe(record) || is_between(record) || is_type
}

/// Zeek's log of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ZeekLog {
    /// Its name without `.log`; "" if Zeek has no such row.
    pub name: &'static str,
    /// Whether the record's row has `addl`, where the log has this column.
    pub has_addl: bool,
    /// What the record's row names.
    pub ends: ZeekEnds,
}

impl ZeekLog {
    /// The log of that name, with rows of connections.
    const fn of(name: &'static str, has_addl: bool) -> Self {
        Self { name, has_addl, ends: ZeekEnds::Connection }
    }
}

/// Zeek's log that has a record. Anomalies that Zeek has no name for are in `weir.log`, which has the columns of
/// weird.log.
pub fn zeek_log(record: &Record<'_>) -> ZeekLog {
    let is_left_out = *record.table == DCE_RPC && !is_in_zeeks_log(record)
        || *record.table == MYSQL && !has_command(record);
    if is_left_out {
        return ZeekLog::of("", false);
    }
    if *record.table != ANOMALY {
        return ZeekLog::of(record.table.zeek, true);
    }
    if *record.get("type") == "stream".into() {
        return ZeekLog::of("weird", true);
    }
    if *record.get("type") == "decode".into() {
        let ends = match record.get("event") {
            Value::Text(event) => zeek_ends(event),
            _ => Some(ZeekEnds::Connection),
        };
        let log = if ends.is_some() { "weird" } else { "weir" };
        return ZeekLog { ends: ends.unwrap_or(ZeekEnds::Hosts), ..ZeekLog::of(log, true) };
    }
    let known = match record.get("name") {
        Value::Text(name) => ZEEKS.iter().find(|(known, _)| known.as_bytes() == &**name),
        _ => None,
    };
    match known {
        Some((_, has_addl)) => ZeekLog::of("weird", *has_addl),
        None => ZeekLog::of("weir", true),
    }
}

/// Zeek's name for its parser of a protocol; most names are equal. Lines have one of their own.
fn parser(protocol: &str, anomaly: &str) -> String {
    match (protocol, anomaly) {
        (_, "contentline_size_exceeded") => "CONTENTLINE".to_owned(),
        ("tls", _) => "SSL".to_owned(),
        // Zeek reads them with one parser.
        ("mdns" | "llmnr" | "nbns", _) => "DNS".to_owned(),
        (protocol, _) => protocol.to_ascii_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_zeeks_words_and_names_the_tunnel() {
        let record = |odd: OddPacket, protocol, in_tunnel| {
            odd_packet(odd, protocol, in_tunnel, "9 != 8".to_owned(), Direction::Reverse, Time(7))
        };
        let mismatch = record(OddPacket::UdpLen, 17, true);
        for (field, value) in [
            ("name", "UDP_datagram_length_mismatch"),
            ("event", "udp_datagram_length_mismatch"),
            ("source", "UDP"),
            ("protocol", "udp"),
            ("type", "decode"),
            ("detail", "9 != 8"),
        ] {
            assert_eq!(*mismatch.get(field), value.into(), "{field}");
        }
        let short = record(OddPacket::ShortHeader, 6, true);
        assert_eq!(*short.get("name"), "truncated_header_in_tunnel".into());
        assert_eq!(*short.get("source"), "TCP".into());
        let overlap = record(OddPacket::FragmentOverlap, 6, true);
        assert_eq!(
            (overlap.get("source"), overlap.get("protocol"), overlap.get("name")),
            (&Value::None, &"ip".into(), &"fragment_overlap".into())
        );
        let cut = record(OddPacket::TcpHeaderCut, 6, false);
        let ends = [&mismatch, &short, &overlap, &cut].map(|record| zeek_log(record).ends);
        assert_eq!(ends, [ZeekEnds::Connection, ZeekEnds::Hosts, ZeekEnds::Hosts, ZeekEnds::Connection]);
        assert_eq!(zeek_log(&record(OddPacket::RedirectCut, 58, true)).ends, ZeekEnds::None);
        let logs =
            [OddPacket::FragmentOverlap, OddPacket::FragmentLen].map(|odd| zeek_log(&record(odd, 58, false)));
        assert_eq!(
            logs.map(|log| (log.name, log.ends)),
            [("weird", ZeekEnds::Hosts), ("weir", ZeekEnds::Hosts)]
        );
        assert_eq!(
            (cut.get("name"), short.get("event")),
            (&"truncated_header".into(), &"truncated_header_in_tunnel".into())
        );
    }
}
