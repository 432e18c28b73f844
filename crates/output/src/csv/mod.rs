//! flows.csv, counts.csv, values.csv and events.csv: RFC 4180, with a header, safe to open in a spreadsheet.
//!
//! counts.csv has the packets, bytes and flows of each row of a reading. A reading without such columns has its number of
//! values in the column of packets: the values in a bin, or distinct values. Further columns are in values.csv, one line
//! for each value.

pub(crate) mod records;

use crate::Existing;
use crate::file::{Frame, LineFile};
use crate::format::push_uids;
use crate::records::Files;
use crate::row::{COLUMNS, Endpoints, Value};
use crate::summary::{Naming, key, label};
use crate::zone::{push_rfc3339, push_seconds};
use crate::{Output, OutputContext, OutputSpec, Takes, event, figures, zone};
use records::Csvs;
use std::io;
use weir_api::{Cell, Cells, Column, ColumnKind, Count, Event, Interval, Layout, Row, Snapshot};
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::Record;

pub(crate) static CSV: OutputSpec = OutputSpec {
    name: "csv",
    help: "Flows as flows.csv, readings as counts.csv and values.csv, events as events.csv: RFC 4180 with a header.",
    files: &["flows.csv", "counts.csv", "values.csv"],
    is_stream: false,
    flows: true,
    events: "events",
    has: |_| true,
    shows: |_| true,
    takes: Takes::Own,
    open: |context| Ok(Box::new(Csv::open(context)?)),
};

/// The columns of counts.csv and values.csv that say what a line is about.
const SUBJECT: [&str; 6] = ["start", "end", "subscription", "chart", "function", "label"];
/// Further columns of counts.csv. `error` is the upper bound of the undercount, in the unit of the list. The row `no row`
/// of a list has the counts of keys without a row; each such key had at most the error.
const COUNTS: [&str; 4] = ["packets", "bytes", "flows", "error"];
/// Further columns of values.csv.
const VALUES: [&str; 4] = ["column", "unit", "value", "error"];

struct Csv {
    records: Csvs,
    flows: LineFile,
    counts: LineFile,
    /// values.csv, if a reading has such columns, and events.csv, if there are events.
    more: Files,
    /// The end of the interval that is counted.
    counted: u64,
}

impl Csv {
    fn open(context: &OutputContext) -> io::Result<Self> {
        Ok(Self {
            records: Csvs::new(context),
            flows: open(context, "flows.csv", &flow_header())?,
            counts: open(context, "counts.csv", &[&SUBJECT[..], &COUNTS].concat().join(","))?,
            more: Files::new(context),
            counted: context.start,
        })
    }

    fn reading(&mut self, subject: &[String; 5], cells: &Cells<'_>) {
        let columns = Places::of(cells);
        for row in cells.rows.iter().chain(&cells.rest) {
            let [packets, bytes, flows] = columns.counts(row);
            let counts = [packets.or(Some(0)), bytes.or(Some(0)), flows, row.error];
            // Most bins are empty.
            if cells.layout == Layout::Bins && counts.iter().flatten().all(|count| *count == 0) {
                continue;
            }
            let label = label(&row.label, Naming::numeric());
            self.counts.line(self.counted, |out| {
                begin(out, subject, &label);
                let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
                out.extend_from_slice(counts.map(number).join(",").as_bytes());
                out.push(b'\r');
            });
            for (column, value) in columns.further(cells, row) {
                let header = || [&SUBJECT[..], &VALUES].concat().join(",");
                let Some(file) = with_header(&mut self.more, "values.csv", header) else { break };
                file.line(self.counted, |out| {
                    begin(out, subject, &label);
                    for text in [&column.name, &column.unit] {
                        cell(out, text);
                        out.push(b',');
                    }
                    cell(out, &value_text(value));
                    out.push(b',');
                    if let Some(error) = row.error {
                        out.extend_from_slice(error.to_string().as_bytes());
                    }
                    out.push(b'\r');
                });
            }
        }
    }
}

/// Writes the cells that say what a line is about.
fn begin(out: &mut Vec<u8>, subject: &[String; 5], label: &str) {
    for text in subject.iter().map(String::as_str).chain([label]) {
        cell(out, text);
        out.push(b',');
    }
}

/// The places of a reading's columns in the files.
struct Places {
    /// For each column of the reading, its place among packets, bytes and flows of counts.csv.
    counts: Vec<Option<usize>>,
}

impl Places {
    fn of(cells: &Cells<'_>) -> Self {
        let place = |column: &Column<'_>| {
            let place = ["packets", "bytes", "flows"].iter().position(|unit| *unit == column.unit);
            place.filter(|_| column.kind == ColumnKind::Sum)
        };
        let mut counts: Vec<Option<usize>> = cells.columns.iter().map(place).collect();
        if counts.iter().all(Option::is_none) {
            let number = |column: &Column<'_>| matches!(column.kind, ColumnKind::Sum | ColumnKind::Distinct);
            if let Some(at) = cells.columns.iter().position(number) {
                counts[at] = Some(0);
            }
        }
        Self { counts }
    }

    /// Packets, bytes and flows of a row.
    fn counts(&self, row: &Row<'_>) -> [Option<u64>; 3] {
        let mut sums = [None; 3];
        for (place, value) in self.counts.iter().zip(&row.values) {
            if let (Some(sum), Cell::Whole(value)) = (place.and_then(|at| sums.get_mut(at)), value) {
                *sum = Some(sum.unwrap_or(0) + value);
            }
        }
        sums
    }

    /// The values of a row that are in values.csv.
    fn further<'c, 'r>(&self, cells: &'c Cells<'r>, row: &'c Row<'r>) -> Vec<(&'c Column<'r>, &'c Cell<'r>)> {
        if !matches!(cells.layout, Layout::Keyed(_)) {
            return Vec::new();
        }
        let values = cells.columns.iter().zip(&row.values).zip(&self.counts);
        let is_further = |column: &Column<'_>, value: &Cell<'_>| {
            !matches!(column.kind, ColumnKind::Key | ColumnKind::Error) && *value != Cell::Nothing
        };
        // A column with a place in counts.csv has no name there.
        let is_unnamed =
            |column: &Column<'_>, place: &Option<usize>| place.is_none() || column.name != column.unit;
        values
            .filter(|((column, value), place)| is_unnamed(column, place) && is_further(column, value))
            .map(|(value, _)| value)
            .collect()
    }
}

/// A value as text.
fn value_text(value: &Cell<'_>) -> String {
    match value {
        Cell::Nothing => String::new(),
        Cell::Flag(yes) => yes.to_string(),
        Cell::Whole(number) => number.to_string(),
        Cell::Wide(number) => number.to_string(),
        Cell::Number(number) => number.to_string(),
        Cell::Time(time) => zone::rfc3339(*time),
        Cell::Text(text) => text.to_string(),
        Cell::Address(address) => address.to_string(),
        Cell::Key(one) => key(one, Naming::numeric()),
        Cell::Count(Count { packets, bytes }) => format!("{packets} packets, {bytes} bytes"),
        Cell::Sample(sample) => weir_api::sample_text(sample),
    }
}

/// The header of a file of flows.
pub(crate) fn flow_header() -> String {
    COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>().join(",")
}

/// Writes the row of a flow, with the name of its responder.
pub(crate) fn push_flow(out: &mut Vec<u8>, flow: &FlowRecord, name: Option<&str>) {
    let ends = Endpoints::named(flow, name);
    for (at, column) in COLUMNS.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_value(out, &(column.value)(flow, &ends));
    }
    out.push(b'\r');
}

/// The file of that name, which begins with this header: an existing one has it. `None` as from [`Files::get`].
pub(crate) fn with_header<'f>(
    files: &'f mut Files,
    name: &str,
    header: impl FnOnce() -> String,
) -> Option<&'f mut LineFile> {
    files.get(name, || begins_with(header())).map(after_header)
}

/// The frame of a file that begins with this header.
fn begins_with(header: String) -> Frame {
    let line = header + "\r\n";
    Frame::head(move |_| line.clone())
}

/// Continues an existing file, which has its header.
fn after_header(file: &mut LineFile) -> &mut LineFile {
    if !file.is_empty() {
        file.go_on();
    }
    file
}

/// Opens a file and writes its header, or checks the existing one.
fn open(context: &OutputContext, name: &str, header: &str) -> io::Result<LineFile> {
    let line = format!("{header}\r\n");
    let mut file = LineFile::framed(context, name, Frame::head(move |_| line.clone()))?;
    if file.is_empty() {
        file.begin(0);
    } else if context.existing == Existing::Continue
        && file.first_line()?.trim_ascii_end() != header.as_bytes()
    {
        let path = context.directory.join(name);
        let text = format!("{}: its columns differ from the current ones; move it away", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    } else {
        file.go_on();
    }
    Ok(file)
}

impl Output for Csv {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let Interval { start, end } = snapshot.interval;
        self.counted = end;
        for answer in &snapshot.answers {
            let subject = [
                zone::rfc3339(start),
                zone::rfc3339(end),
                answer.label.subscription.clone(),
                answer.label.chart.clone().unwrap_or_default(),
                answer.label.function.clone(),
            ];
            self.reading(&subject, &answer.reading.cells());
        }
        self.flush()
    }

    fn readings(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        self.interval(snapshot)
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.named_flow(flow, None)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        self.flows.line(flow.last.0, |out| push_flow(out, flow, name));
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        self.records.record(flow, record);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let header = || event::COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>().join(",");
        let Some(file) = with_header(&mut self.more, "events.csv", header) else { return Ok(()) };
        file.line(event.last, |out| {
            for (at, column) in event::COLUMNS.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(out, &(column.value)(event));
            }
            out.push(b'\r');
        });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flows.flush().and(self.counts.flush()).and(self.more.flush()).and(self.records.flush())
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        let flows = self.flows.roll(now);
        let counts = self.counts.roll(now);
        let values = self.more.roll(now);
        flows.and(counts).and(values).and(self.records.roll(now))
    }

    fn finish(&mut self) -> io::Result<()> {
        // A file without rows has its header.
        let now = self.counted;
        [&mut self.flows, &mut self.counts].into_iter().for_each(|file| file.begin(now));
        let flows = self.flows.finish();
        let counts = self.counts.finish();
        let values = self.more.each(LineFile::finish);
        let records = self.records.finish();
        flows.and(counts).and(values).and(records)
    }
}

/// Only text can contain characters that a cell must escape.
fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Unset => {}
        Value::Time(time) => push_rfc3339(out, *time),
        Value::Interval(time) => push_seconds(out, *time),
        Value::Bool(yes) => out.extend_from_slice(if *yes { b"true" } else { b"false" }),
        Value::Text(text) => cell(out, text),
        Value::Uids(ids) => push_uids(out, *ids, b","),
        // The base64 digest of a Community ID has characters that `cell` checks, but none that it changes.
        value => {
            value.push(out);
        }
    }
}

/// Writes a cell: quoted if necessary, after an apostrophe if a spreadsheet would take it for a formula (OWASP, CSV
/// injection), and without control characters, so that a record is a line.
pub fn cell(out: &mut Vec<u8>, text: &str) {
    // Most cells need no escaping.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:/_ ".contains(&byte);
    if text.bytes().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let text = figures::printable(text);
    let formula = text.starts_with(['=', '+', '-', '@']);
    if !formula && !text.contains([',', '"', '\'']) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    if formula {
        out.push(b'\'');
    }
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use std::sync::Arc;

    /// RFC 4180, section 2.
    fn parse(line: &str) -> Vec<String> {
        let mut cells = vec![String::new()];
        let mut rest = line.chars().peekable();
        let mut quoted = false;
        while let Some(c) = rest.next() {
            let last = cells.last_mut().unwrap();
            match (c, quoted) {
                ('"', true) if rest.peek() == Some(&'"') => last.push(rest.next().unwrap()),
                ('"', _) => quoted = !quoted,
                (',', false) => cells.push(String::new()),
                (c, _) => last.push(c),
            }
        }
        assert!(!quoted, "{line}");
        cells
    }

    fn written(existing: Existing, directory: &std::path::Path) -> (String, String) {
        let context = OutputContext { directory: directory.to_owned(), existing, ..OutputContext::default() };
        let mut csv = (CSV.open)(&context).unwrap();
        csv.flow(&fixtures::flow()).unwrap();
        csv.flow(&fixtures::ping()).unwrap();
        let mut snapshot = fixtures::snapshot();
        Arc::make_mut(&mut snapshot.answers[0].label).subscription =
            "=cmd|' /C calc'!A0\r\n\"x\",y".to_owned();
        csv.interval(&snapshot).unwrap();
        csv.finish().unwrap();
        let read = |name| std::fs::read_to_string(directory.join(name)).unwrap();
        (read("flows.csv"), read("counts.csv"))
    }

    #[test]
    fn every_record_has_the_columns_of_the_header() {
        let directory = tempfile::tempdir().unwrap();
        let (flows, counts) = written(Existing::Replace, directory.path());
        assert_eq!(flows.matches("\r\n").count(), 3);
        for table in [&flows, &counts] {
            let records: Vec<Vec<String>> =
                table.split("\r\n").filter(|l| !l.is_empty()).map(parse).collect();
            assert!(records.len() > 2 && records.iter().all(|record| record.len() == records[0].len()));
        }
        let record = parse(flows.lines().nth(1).unwrap());
        let named = |name| &record[COLUMNS.iter().position(|column| column.name == name).unwrap()];
        assert_eq!(named("start"), "2026-11-21T01:46:08.985000000Z");
        assert_eq!(named("duration"), "0.211484000");
        assert_eq!((named("source").as_str(), named("source_port").as_str()), ("10.0.0.5", "40000"));
        assert_eq!((named("destination").as_str(), named("destination_port").as_str()), ("192.0.2.1", "443"));
        assert_eq!((named("tcp_flags").as_str(), named("reverse_ip_bytes").as_str()), ("...AP.SF", "5379"));
        assert_eq!((named("vlan").as_str(), named("tunnel").as_str()), ("", ""));
    }

    #[test]
    fn a_formula_in_input_becomes_text() {
        let directory = tempfile::tempdir().unwrap();
        let (_, counts) = written(Existing::Replace, directory.path());
        let record = parse(counts.lines().nth(1).unwrap());
        assert_eq!(record[2], "'=cmd|' /C calc'!A0\\x0d\\x0a\"x\",y");
        assert_eq!(&record[3..], ["", "top", "10.99.0.2:8000 <-> 10.99.0.1 tcp", "500", "261000", "6", "0"]);
    }

    #[test]
    fn inexact_rows_have_error_bounds() {
        let directory = tempfile::tempdir().unwrap();
        let context = OutputContext { directory: directory.path().to_owned(), ..OutputContext::default() };
        let mut csv = (CSV.open)(&context).unwrap();
        let mut snapshot = fixtures::snapshot();
        snapshot.answers = vec![
            fixtures::answer("talkers", None, "top", fixtures::flooded(&snapshot)),
            fixtures::answer("hosts", None, "distinct", fixtures::distinct(3)),
        ];
        csv.interval(&snapshot).unwrap();
        csv.finish().unwrap();
        let text = std::fs::read_to_string(directory.path().join("counts.csv")).unwrap();
        let tails: Vec<&str> = text.lines().skip(1).filter_map(|line| line.splitn(6, ',').nth(5)).collect();
        assert_eq!(tails[0], "10.99.0.2:8000 <-> 10.99.0.1 tcp,500,261000,6,13050");
        assert_eq!(tails[3..], ["no row,98301,9000000,,4000", "distinct hosts,3,0,,0"]);
    }

    #[test]
    fn a_continued_file_repeats_no_header_and_mixes_no_columns() {
        let directory = tempfile::tempdir().unwrap();
        let once = written(Existing::Replace, directory.path()).0;
        let twice = written(Existing::Continue, directory.path()).0;
        assert_eq!(twice.lines().count(), once.lines().count() * 2 - 1);
        std::fs::write(directory.path().join("flows.csv"), "other,columns\r\n1,2\r\n").unwrap();
        let context = OutputContext {
            directory: directory.path().to_owned(),
            existing: Existing::Continue,
            ..OutputContext::default()
        };
        let error = (CSV.open)(&context).err().unwrap().to_string();
        assert!(error.contains("flows.csv: its columns differ"), "{error}");
    }
}
