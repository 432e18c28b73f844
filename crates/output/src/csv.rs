//! flows.csv and counts.csv: RFC 4180, with a header, safe to open in a spreadsheet.

use crate::file::{Existing, Frame, LineFile};
use crate::format::push_uid;
use crate::records::csv::Csvs;
use crate::row::{COLUMNS, Endpoints, Value};
use crate::summary::{Naming, key};
use crate::zone::{push_rfc3339, push_seconds};
use crate::{Output, OutputContext, OutputSpec, figures, zone};
use std::io;
use weir_api::{Count, Interval, Reading, Snapshot};
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::Record;

pub(crate) static CSV: OutputSpec = OutputSpec {
    name: "csv",
    help: "Flows as flows.csv, readings as counts.csv: RFC 4180 with a header.",
    files: &["flows.csv", "counts.csv"],
    flows: true,
    has: |_| true,
    shows: |_| true,
    open: |context| Ok(Box::new(Csv::open(context)?)),
};

/// Columns of counts.csv. `error` is the upper bound of the undercount, in the unit of the list. The row `no row` of a
/// list has the counts of keys without a row; each such key had at most the error.
const COUNTS: [&str; 10] =
    ["start", "end", "subscription", "chart", "function", "label", "packets", "bytes", "flows", "error"];

struct Csv {
    records: Csvs,
    flows: LineFile,
    counts: LineFile,
    /// The end of the interval that is counted.
    counted: u64,
}

impl Csv {
    fn open(context: &OutputContext) -> io::Result<Self> {
        let flows: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        Ok(Self {
            records: Csvs::new(context),
            flows: open(context, "flows.csv", &flows)?,
            counts: open(context, "counts.csv", &COUNTS)?,
            counted: context.start,
        })
    }

    fn count(
        &mut self,
        context: &[String; 5],
        label: &str,
        count: &Count,
        flows: Option<u64>,
        error: Option<u64>,
    ) {
        let time = self.counted;
        self.counts.line(time, |out| {
            for text in context {
                cell(out, text);
                out.push(b',');
            }
            cell(out, label);
            let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
            let rest = [Some(count.packets), Some(count.bytes), flows, error].map(number).join(",");
            out.push(b',');
            out.extend_from_slice(rest.as_bytes());
            out.push(b'\r');
        });
    }

    fn reading(&mut self, context: &[String; 5], reading: &Reading) {
        match reading {
            Reading::Count(count) => self.count(context, "", count, None, None),
            Reading::Top(top) => {
                for row in top.ranked() {
                    self.count(
                        context,
                        &key(&row.key, Naming::numeric()),
                        &row.count,
                        Some(row.flows),
                        Some(row.error),
                    );
                }
                if !top.is_exact() {
                    // Counts outside all rows; any single key had at most the error.
                    self.count(context, "no row", &top.shed, None, Some(top.absent));
                }
            }
            Reading::Classes { classes, .. } => {
                for class in classes {
                    self.count(context, &class.label, &class.count, None, None);
                }
            }
            // Number of values in a bin, in the columns of packets.
            Reading::Histogram(histogram) => {
                for (edge, n) in histogram.edges.iter().zip(&histogram.counts).filter(|(_, n)| **n > 0) {
                    let label = format!("{} from {edge}", histogram.of);
                    self.count(context, &label, &Count { packets: *n, bytes: 0 }, None, None);
                }
            }
            // Only failed flows are counted; a reading of scans has no packets.
            Reading::Scans(scans) => {
                for row in scans.found() {
                    let failed = Some(row.refused + row.unanswered);
                    self.count(context, &crate::summary::scan(row), &Count::default(), failed, None);
                }
            }
            // In the columns of packets, as with histograms; the error is one standard error.
            Reading::Distinct(count) => {
                let n = count.estimate();
                let error = (count.relative_error() * n as f64).ceil() as u64;
                let of = format!("distinct {}", count.of.name());
                self.count(context, &of, &Count { packets: n, bytes: 0 }, None, Some(error));
            }
            Reading::Series(series) => {
                for (at, cell) in series.cells.iter().enumerate().filter(|(_, cell)| cell.packets > 0) {
                    let time = series.first.saturating_add(at as u64).saturating_mul(series.step);
                    self.count(context, &zone::rfc3339(time), cell, None, None);
                }
            }
        }
    }
}

/// Opens a file and writes its header, or checks the existing one.
fn open(context: &OutputContext, name: &str, header: &[&str]) -> io::Result<LineFile> {
    let header = header.join(",");
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
            let context = [
                zone::rfc3339(start),
                zone::rfc3339(end),
                answer.label.subscription.clone(),
                answer.label.chart.clone().unwrap_or_default(),
                answer.label.function.clone(),
            ];
            self.reading(&context, &answer.reading);
        }
        self.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.named_flow(flow, None)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        let ends = Endpoints::named(flow, name);
        self.flows.line(flow.last.0, |out| {
            for (at, column) in COLUMNS.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(out, &(column.value)(flow, &ends));
            }
            out.push(b'\r');
        });
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        self.records.record(flow, record);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flows.flush().and(self.counts.flush()).and(self.records.flush())
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        let flows = self.flows.roll(now);
        let counts = self.counts.roll(now);
        flows.and(counts).and(self.records.roll(now))
    }

    fn finish(&mut self) -> io::Result<()> {
        // A file without rows has its header.
        let now = self.counted;
        [&mut self.flows, &mut self.counts].into_iter().for_each(|file| file.begin(now));
        let flows = self.flows.finish();
        let counts = self.counts.finish();
        let records = self.records.finish();
        flows.and(counts).and(records)
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
        Value::Only(id) => push_uid(out, *id),
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
        assert_eq!(record[2], "'=cmd|' /C calc'!A0\\u{d}\\u{a}\"x\",y");
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
