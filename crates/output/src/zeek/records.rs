//! Records as Zeek's logs: `http.log`, `dns.log` and all others that a table names.

use super::leases::Leases;
use crate::OutputContext;
use crate::file::{Frame, LineFile};
use crate::format::{push_address, push_number, push_uid};
use crate::json::Object;
use crate::records::Files;
use crate::records::json::push_value;
use crate::row::Times;
use crate::zone::{Zone, push_epoch_micros};
use std::io::{self, Write};
use std::net::IpAddr;
use weir_engine::FlowIdentity;
use weir_proto::{Field, Kind, Record, Table, Value, ZeekEnds, ZeekLog, is_of_proxy, zeek_log};

/// Columns before those of a table.
const FLOW: [(&str, &str); 6] = [
    ("ts", "time"),
    ("uid", "string"),
    ("id.orig_h", "addr"),
    ("id.orig_p", "port"),
    ("id.resp_h", "addr"),
    ("id.resp_p", "port"),
];

/// The log whose rows are of sessions, which can be of several flows.
const DHCP: &str = "dhcp";

/// The column of weird.log that Zeek fills for some names only.
const ADDL: &str = "addl";

/// The column after them.
const COMMUNITY: (&str, &str) = ("community_id", "string");

/// Zeek's logs of records.
pub struct Logs {
    files: Files,
    zone: Zone,
    leases: Leases,
}

impl Logs {
    /// Logs in the directory of a run.
    pub fn new(context: &OutputContext) -> Self {
        Self { files: Files::new(context), zone: context.zone.clone(), leases: Leases::default() }
    }

    /// Adds a record to the log that has such rows, if there is one.
    pub fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        if record.table.zeek != DHCP {
            return self.write(flow, record);
        }
        if let Some((flow, record)) = self.leases.add(flow, record.clone().into_owned()) {
            self.write(&flow, &record);
        }
    }

    fn write(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        let table = record.table;
        if table.zeek.is_empty() {
            return;
        }
        let zone = &self.zone;
        let ZeekLog { name: log, has_addl, ends: named } = zeek_log(record);
        if log.is_empty() {
            return;
        }
        let frame = || {
            closed(
                zone,
                Frame::head({
                    let zone = zone.clone();
                    move |time| header(table, log, &zone.dashed(time)).map(|line| line + "\n").concat()
                }),
            )
        };
        let Some(file) = self.files.of(log, |log| format!("{log}.log"), frame) else { return };
        file.line(record.time.0, |out| {
            push_epoch_micros(out, record.time.0);
            out.push(b'\t');
            match named {
                ZeekEnds::Connection => push_uid(out, flow.id()),
                ZeekEnds::Hosts | ZeekEnds::None => out.push(b'-'),
            }
            match ends(flow, record, named) {
                Some(ends) => {
                    for (address, port) in ends {
                        out.push(b'\t');
                        push_address(out, address);
                        out.push(b'\t');
                        push_number(out, port.into());
                    }
                }
                None => out.extend_from_slice(b"\t-\t-\t-\t-"),
            }
            for (field, value) in columns(record) {
                out.push(b'\t');
                let is_written = has_addl || field.zeek != ADDL;
                write_value(out, if is_written { value } else { &Value::None }, false);
            }
            out.push(b'\t');
            match named {
                ZeekEnds::Connection => out.extend_from_slice(&flow.community_id(0).text()),
                ZeekEnds::Hosts | ZeekEnds::None => out.push(b'-'),
            }
        });
    }

    /// Writes the sessions that have ended by then, in nanoseconds since 1970.
    pub fn reach(&mut self, now: u64) {
        for (flow, record) in self.leases.ended(now) {
            self.write(&flow, &record);
        }
    }

    /// Writes the waiting lines.
    pub fn flush(&mut self) -> io::Result<()> {
        self.files.flush()
    }

    /// Ends the logs.
    pub fn finish(&mut self) -> io::Result<()> {
        for (flow, record) in self.leases.all() {
            self.write(&flow, &record);
        }
        self.files.each(LineFile::finish)
    }

    /// Finishes the files, and begins new ones under the same names; `now` is in nanoseconds since 1970.
    pub fn roll(&mut self, now: u64) -> io::Result<()> {
        self.files.roll(now)
    }
}

/// The initiator's and the responder's address and port as Zeek has them: of a tunnel through a proxy the initiator has
/// no port, as many connections are one tunnel. A row of two hosts has the sender first.
fn ends(flow: &FlowIdentity, record: &Record<'_>, named: ZeekEnds) -> Option<[(IpAddr, u16); 2]> {
    let ((source, source_port), (destination, destination_port)) = (flow.initiator(), flow.responder());
    match named {
        ZeekEnds::Connection => {
            let source_port = if is_of_proxy(record) { 0 } else { source_port };
            Some([(source, source_port), (destination, destination_port)])
        }
        ZeekEnds::Hosts if *record.get("reverse") == true.into() => Some([(destination, 0), (source, 0)]),
        ZeekEnds::Hosts => Some([(source, 0), (destination, 0)]),
        ZeekEnds::None => None,
    }
}

/// A frame with the last line of Zeek's logs.
pub(crate) fn closed(zone: &Zone, frame: Frame) -> Frame {
    let zone = zone.clone();
    frame.foot(move |time| format!("#close\t{}\n", zone.dashed(time)))
}

/// The fields of a record in Zeek's log, with their values.
fn columns<'r, 'v>(record: &'r Record<'v>) -> impl Iterator<Item = (&'static Field, &'r Value<'v>)> {
    record.table.fields.iter().zip(&record.values).filter(|(field, _)| is_column(field))
}

/// Whether a field is a column: rows are not.
fn is_column(field: &Field) -> bool {
    !field.zeek.is_empty() && !matches!(field.kind, Kind::Rows(_))
}

fn header(table: &Table, log: &str, opened: &str) -> [String; 8] {
    let own = table.fields.iter().filter(|field| is_column(field));
    let own = own.map(|field| (field.zeek, kind(&field.kind)));
    let all = FLOW.iter().map(|(name, kind)| (*name, (*kind).to_owned())).chain(own);
    let all: Vec<(&str, String)> = all.chain([(COMMUNITY.0, COMMUNITY.1.to_owned())]).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let kinds: Vec<&str> = all.iter().map(|(_, kind)| kind.as_str()).collect();
    [
        "#separator \\x09".to_owned(),
        "#set_separator\t,".to_owned(),
        "#empty_field\t(empty)".to_owned(),
        "#unset_field\t-".to_owned(),
        format!("#path\t{log}"),
        format!("#open\t{opened}"),
        format!("#fields\t{}", names.join("\t")),
        format!("#types\t{}", kinds.join("\t")),
    ]
}

/// Zeek's name of a kind.
fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "bool".to_owned(),
        Kind::Uint => "count".to_owned(),
        Kind::Int => "int".to_owned(),
        Kind::Real => "double".to_owned(),
        Kind::Time => "time".to_owned(),
        Kind::Duration => "interval".to_owned(),
        Kind::Text | Kind::Word | Kind::Rows(_) => "string".to_owned(),
        Kind::Address => "addr".to_owned(),
        Kind::Port => "port".to_owned(),
        Kind::List(of) => format!("vector[{}]", self::kind(of)),
        Kind::Set(of) => format!("set[{}]", self::kind(of)),
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value<'_>, in_set: bool) {
    // Writing into memory does not fail.
    let _ = match value {
        Value::None | Value::Rows(_) => out.write_all(b"-"),
        Value::Bool(yes) => out.write_all(if *yes { b"T" } else { b"F" }),
        Value::Uint(number) => {
            push_number(out, *number);
            Ok(())
        }
        Value::Int(number) => write!(out, "{number}"),
        Value::Real(number) => write!(out, "{number}"),
        Value::Time(time) => write_time(out, time.0),
        Value::Duration(span) => write_time(out, *span),
        Value::Text(text) => {
            write_text(out, text, in_set);
            Ok(())
        }
        Value::Address(address) => {
            push_address(out, *address);
            Ok(())
        }
        Value::List(values) if values.is_empty() => out.write_all(b"(empty)"),
        Value::List(values) => {
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(out, value, true);
            }
            Ok(())
        }
    };
}

/// Zeek prints times with double precision: values of protocols such as NTP are finer than microseconds, and rounding
/// depends on it.
fn write_time(out: &mut Vec<u8>, nanoseconds: u64) -> io::Result<()> {
    let seconds = (nanoseconds / 1_000_000_000) as f64 + (nanoseconds % 1_000_000_000) as f64 / 1e9;
    write!(out, "{seconds:.6}")
}

/// Escapes text as Zeek's ASCII writer does: a backslash is doubled; unprintable or non-UTF-8 bytes, and separators,
/// become `\x09`, and so does the first character of a text that would be read as unset or empty.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &[u8], in_set: bool) {
    if text.is_empty() {
        out.extend_from_slice(b"(empty)");
        return;
    }
    let is_ambiguous = text == b"-" || text == b"(empty)";
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\' && !(in_set && *byte == b',');
    if !is_ambiguous && text.iter().all(is_plain) {
        out.extend_from_slice(text);
        return;
    }
    let escape = |out: &mut Vec<u8>, bytes: &[u8]| {
        for byte in bytes {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    };
    let mut is_first = true;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            let is_special = c.is_control() || in_set && c == ',' || is_first && is_ambiguous;
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            if is_special {
                escape(out, bytes);
            } else if c == '\\' {
                out.extend_from_slice(br"\\");
            } else {
                out.extend_from_slice(bytes);
            }
            is_first = false;
        }
        escape(out, chunk.invalid());
        is_first = false;
    }
}

/// Zeek's logs as JSON.
pub struct JsonLogs {
    files: Files,
    leases: Leases,
}

impl JsonLogs {
    /// Logs in the directory of a run.
    pub fn new(context: &OutputContext) -> Self {
        Self { files: Files::new(context), leases: Leases::default() }
    }

    /// Adds a record to the log that has such rows, if there is one.
    pub fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        if record.table.zeek != DHCP {
            return self.write(flow, record);
        }
        if let Some((flow, record)) = self.leases.add(flow, record.clone().into_owned()) {
            self.write(&flow, &record);
        }
    }

    /// Writes the sessions that have ended by then, in nanoseconds since 1970.
    pub fn reach(&mut self, now: u64) {
        for (flow, record) in self.leases.ended(now) {
            self.write(&flow, &record);
        }
    }

    fn write(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        let table = record.table;
        if table.zeek.is_empty() {
            return;
        }
        let log = zeek_log(record);
        if log.name.is_empty() {
            return;
        }
        let name = |log: &str| format!("{log}.json");
        let Some(file) = self.files.of(log.name, name, Frame::default) else { return };
        let is_of_connection = log.ends == ZeekEnds::Connection;
        file.line(record.time.0, |out| {
            Object::write(out, |object| {
                push_epoch_micros(object.member("ts"), record.time.0);
                if is_of_connection {
                    object.ours("uid", |out| push_uid(out, flow.id()));
                }
                if let Some([(source, source_port), (destination, destination_port)]) =
                    ends(flow, record, log.ends)
                {
                    object.address("id.orig_h", source);
                    object.number("id.orig_p", source_port);
                    object.address("id.resp_h", destination);
                    object.number("id.resp_p", destination_port);
                }
                // Dots in names of columns make no nested objects.
                let is_written = |field: &Field| log.has_addl || field.zeek != ADDL;
                let columns = columns(record).filter(|(_, value)| !value.is_none());
                for (field, value) in columns.filter(|(field, _)| is_written(field)) {
                    push_value(object.member(field.zeek), value, &field.kind, None, Times::Epoch);
                }
                if is_of_connection {
                    object.ours(COMMUNITY.0, |out| out.extend_from_slice(&flow.community_id(0).text()));
                }
            });
        });
    }

    /// Writes the waiting lines.
    pub fn flush(&mut self) -> io::Result<()> {
        self.files.flush()
    }

    /// Finishes the files, and begins new ones under the same names; `now` is in nanoseconds since 1970.
    pub fn roll(&mut self, now: u64) -> io::Result<()> {
        self.files.roll(now)
    }

    /// Ends the logs.
    pub fn finish(&mut self) -> io::Result<()> {
        for (flow, record) in self.leases.all() {
            self.write(&flow, &record);
        }
        self.files.each(LineFile::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::row::uid;
    use serde_json::Value as Json;
    use weir_proto::{OddPacket, odd_packet};
    use weir_wire::Direction;

    fn escaped(text: &str, in_set: bool) -> String {
        let mut out = Vec::new();
        write_text(&mut out, text.as_bytes(), in_set);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_record_is_a_row_of_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let context = OutputContext { directory: directory.path().to_owned(), ..OutputContext::default() };
        let (mut logs, mut json) = (Logs::new(&context), JsonLogs::new(&context));
        let (flow, record) = (fixtures::identity(), fixtures::record());
        logs.record(&flow, &record);
        json.record(&flow, &record);
        logs.finish().unwrap();
        json.finish().unwrap();
        let text = std::fs::read_to_string(directory.path().join("weir.log")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[6],
            "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tsource\tname\taddl\tcommunity_id"
        );
        assert_eq!(lines[7], "#types\ttime\tstring\taddr\tport\taddr\tport\tstring\tstring\tstring\tstring");
        let expected = format!(
            "1795225568.992000\t{}\t10.0.0.5\t40000\t192.0.2.1\t443\t{}\tline_too_long\ta\\x09b, \"c\" \\xff\\x1b[0m\t{}",
            uid(flow.id()),
            weir_proto::PROTOCOLS[0].name.to_ascii_uppercase(),
            flow.community_id(0)
        );
        assert_eq!(lines[8], expected);
        assert!(lines[9].starts_with("#close\t2026-11-21-"));
        let text = std::fs::read_to_string(directory.path().join("weir.json")).unwrap();
        let row: Json = serde_json::from_str(&text).unwrap();
        assert_eq!((&row["ts"], &row["name"]), (&serde_json::json!(1795225568.992), &"line_too_long".into()));
        assert_eq!(row["addl"], "a\tb, \"c\" \\xff\u{1b}[0m");
    }

    #[test]
    fn a_row_of_a_packet_names_its_hosts_or_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let context = OutputContext { directory: directory.path().to_owned(), ..OutputContext::default() };
        let (mut logs, mut json) = (Logs::new(&context), JsonLogs::new(&context));
        let (flow, time) = (fixtures::identity(), fixtures::record().time);
        for (odd, direction) in [
            (OddPacket::UdpLen, Direction::Reverse),
            (OddPacket::ShortHeader, Direction::Forward),
            (OddPacket::ShortHeader, Direction::Reverse),
            (OddPacket::RedirectCut, Direction::Forward),
        ] {
            let record = odd_packet(odd, 17, false, "9 != 8".to_owned(), direction, time);
            logs.record(&flow, &record);
            json.record(&flow, &record);
        }
        logs.finish().unwrap();
        json.finish().unwrap();
        let text = std::fs::read_to_string(directory.path().join("weird.log")).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let (uid, community) = (uid(flow.id()), flow.community_id(0));
        for (row, expected) in rows.iter().zip([
            format!("{uid}\t10.0.0.5\t40000\t192.0.2.1\t443\tUDP\tUDP_datagram_length_mismatch\t9 != 8\t{community}"),
            "-\t10.0.0.5\t0\t192.0.2.1\t0\tUDP\ttruncated_header\t9 != 8\t-".to_owned(),
            "-\t192.0.2.1\t0\t10.0.0.5\t0\tUDP\ttruncated_header\t9 != 8\t-".to_owned(),
            "-\t-\t-\t-\t-\tUDP\ticmp6_redirect_bad_opt_offset\t9 != 8\t-".to_owned(),
        ]) {
            assert_eq!(row.split_once('\t').unwrap().1, expected);
        }
        let text = std::fs::read_to_string(directory.path().join("weird.json")).unwrap();
        let rows: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((rows.len(), &rows[0]["uid"]), (4, &uid.as_str().into()));
        assert_eq!((&rows[2]["id.orig_h"], &rows[2]["id.orig_p"]), (&"192.0.2.1".into(), &0.into()));
        assert_eq!(
            (&rows[2]["uid"], &rows[2]["community_id"], &rows[3]["id.orig_h"]),
            (&Json::Null, &Json::Null, &Json::Null)
        );
    }

    #[test]
    fn no_text_from_outside_separates_fields() {
        assert_eq!(escaped("a\tb\nc\\d", false), "a\\x09b\\x0ac\\\\d");
        assert_eq!(escaped("a,b", true), "a\\x2cb");
        assert_eq!(escaped("a,b", false), "a,b");
        assert_eq!([escaped("", false), escaped("-", false)], ["(empty)", "\\x2d"]);
        assert_eq!(escaped("(empty)", false), "\\x28empty)");
        let mut out = Vec::new();
        write_text(&mut out, b"\xc3\xa9\xff", false);
        assert_eq!(out, "é\\xff".as_bytes());
    }
}
