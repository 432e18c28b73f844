//! weir.ndjson: one JSON object per line, one fact per line. `v` is the version of the format, `kind` the kind of
//! fact. Times are RFC 3339 in UTC.

use crate::event::words;
use crate::file::{Frame, LineFile};
use crate::row::{COLUMNS, Endpoints, Times, write_members};
use crate::summary::{Facts, Naming, label};
use crate::{Output, OutputContext, OutputSpec, Takes, zone};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::io::{self, Write};
use weir_api::{
    Answer, Cell, Cells, Column, Event, FlowCount, Interval, Layout, Ledger, Reading, Row, SessionCount,
    Snapshot,
};
use weir_engine::FlowRecord;

pub(crate) static NDJSON: OutputSpec = OutputSpec {
    name: "ndjson",
    help: "All results as JSON, one fact per line.",
    files: &["weir.ndjson"],
    is_stream: true,
    flows: true,
    events: "event",
    has: |_| false,
    shows: |_| false,
    takes: Takes::Own,
    open: |context| Ok(Box::new(Ndjson::open(context)?)),
};

/// Version of the lines. It increases when a reader of the old format would misread the new one.
pub const VERSION: u8 = 1;

/// A line.
#[derive(Serialize)]
struct Line<'a, T> {
    v: u8,
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    #[serde(flatten)]
    body: &'a T,
}

fn line<T: Serialize>(kind: &str, interval: Option<Interval>, body: &T) -> Vec<u8> {
    let start = interval.map(|interval| zone::rfc3339(interval.start));
    let end = interval.map(|interval| zone::rfc3339(interval.end));
    // Writing into memory does not fail, and every key is text.
    serde_json::to_vec(&Line { v: VERSION, kind, start, end, body }).unwrap_or_default()
}

/// A fact with only the interval.
#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct RunBody<'a> {
    command: &'a str,
}

/// An answer with its subscription and function.
#[derive(Serialize)]
struct To<'a, T> {
    subscription: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    chart: Option<&'a str>,
    function: &'a str,
    #[serde(flatten)]
    body: T,
}

/// A reading as it stands in a line of weir.ndjson, without the names of its subscription.
pub fn reading(reading: &Reading) -> serde_json::Value {
    // Every key is text.
    serde_json::to_value(Body(reading.cells())).unwrap_or_default()
}

/// A reading: its facts, its rows, and its notes. Bins have an array for each column.
struct Body<'r>(Cells<'r>);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Body(cells) = self;
        let mut members = to.serialize_map(None)?;
        write_members_of(&mut members, cells.facts.iter().map(|(column, value)| (column, value)))?;
        match cells.layout {
            Layout::Single => {
                for row in &cells.rows {
                    write_members_of(&mut members, cells.columns.iter().zip(&row.values))?;
                }
            }
            Layout::Keyed(rows) => {
                let of = |row| RowBody { columns: &cells.columns, row };
                members.serialize_entry(rows, &cells.rows.iter().map(of).collect::<Vec<_>>())?;
            }
            Layout::Bins => {
                for (at, column) in cells.columns.iter().enumerate() {
                    let values = cells.rows.iter().filter_map(|row| row.values.get(at)).map(Value);
                    members.serialize_entry(&column.name, &values.collect::<Vec<_>>())?;
                }
            }
        }
        write_members_of(&mut members, cells.notes.iter().map(|(column, value)| (column, value)))?;
        members.end()
    }
}

fn write_members_of<'c, M: SerializeMap>(
    to: &mut M,
    values: impl Iterator<Item = (&'c Column<'c>, &'c Cell<'c>)>,
) -> Result<(), M::Error> {
    for (column, value) in values.filter(|(_, value)| **value != Cell::Nothing) {
        to.serialize_entry(&column.name, &Value(value))?;
    }
    Ok(())
}

struct RowBody<'c> {
    columns: &'c [Column<'c>],
    row: &'c Row<'c>,
}

impl Serialize for RowBody<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut members = to.serialize_map(None)?;
        members.serialize_entry("label", &label(&self.row.label, Naming::numeric()))?;
        write_members_of(&mut members, self.columns.iter().zip(&self.row.values))?;
        if let Some(error) = self.row.error {
            members.serialize_entry("error", &error)?;
        }
        members.end()
    }
}

/// A value of a reading.
struct Value<'c>(&'c Cell<'c>);

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Cell::Nothing => to.serialize_none(),
            Cell::Flag(yes) => to.serialize_bool(*yes),
            Cell::Whole(number) => to.serialize_u64(*number),
            Cell::Wide(number) => to.serialize_u128(*number),
            Cell::Number(number) => to.serialize_f64(*number),
            Cell::Time(time) => to.serialize_str(&zone::rfc3339(*time)),
            Cell::Text(text) => to.serialize_str(text),
            Cell::Address(address) => address.serialize(to),
            Cell::Key(key) => key.serialize(to),
            Cell::Count(count) => count.serialize(to),
            Cell::Sample(sample) => sample.serialize(to),
        }
    }
}

#[derive(Serialize)]
struct LedgerBody {
    offered: u64,
    dropped: u64,
    interface_dropped: u64,
    outside: u64,
    caught: u64,
    bytes: u64,
    captured_bytes: u64,
    filtered: u64,
    analysed: u64,
    flowed: u64,
    unflowed: u64,
    errors: Vec<ErrorBody>,
    checksums_verified: u64,
    checksums_bad: u64,
    checksums_offloaded: u64,
    time_jumps: u64,
    late: u64,
    rows_shed: u64,
    packets_unwritten: u64,
    loss_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    imbalance: Option<String>,
}

#[derive(Serialize)]
struct ErrorBody {
    layer: &'static str,
    error: &'static str,
    packets: u64,
}

impl From<&Ledger> for LedgerBody {
    fn from(ledger: &Ledger) -> Self {
        let errors = ledger.errors.named();
        Self {
            offered: ledger.capture.offered,
            dropped: ledger.capture.dropped,
            interface_dropped: ledger.capture.interface_dropped,
            outside: ledger.capture.outside,
            caught: ledger.caught,
            bytes: ledger.bytes,
            captured_bytes: ledger.captured_bytes,
            filtered: ledger.filtered,
            analysed: ledger.analysed,
            flowed: ledger.flowed,
            unflowed: ledger.unflowed,
            errors: errors.map(|(layer, error, packets)| ErrorBody { layer, error, packets }).collect(),
            checksums_verified: ledger.checksums_verified,
            checksums_bad: ledger.checksums_bad,
            checksums_offloaded: ledger.checksums_offloaded,
            time_jumps: ledger.time_jumps,
            late: ledger.late,
            rows_shed: ledger.rows_shed,
            packets_unwritten: ledger.packets_unwritten,
            loss_percent: ledger.loss_percent(),
            imbalance: ledger.imbalance(),
        }
    }
}

#[derive(Serialize)]
struct FlowsBody<'a> {
    #[serde(flatten)]
    count: &'a FlowCount,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    states: Vec<StateBody<'a>>,
}

#[derive(Serialize)]
struct StateBody<'a> {
    state: &'a str,
    flows: u64,
}

#[derive(Serialize)]
struct InputBody<'a> {
    name: &'a str,
    format: &'a str,
    links: &'a [String],
    packets: u64,
    bytes: u64,
    live: bool,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_order: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_before: Option<u64>,
}

#[derive(Serialize)]
struct SummaryBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    expression: Option<&'a str>,
    interrupted: bool,
    offloaders: Vec<std::net::IpAddr>,
    notes: &'a [String],
    failures: &'a [String],
}

/// Emits the line of each fact of a snapshot: its ledger, then as [`further_lines`].
fn snapshot_lines(
    snapshot: &Snapshot,
    interval: Interval,
    states: &[(String, u64)],
    mut put: impl FnMut(Vec<u8>),
) {
    put(line("ledger", Some(interval), &LedgerBody::from(&snapshot.ledger)));
    further_lines(snapshot, interval, states, put);
}

/// Emits the line of each fact of a snapshot but its ledger: flows, sessions, then the answers in order. Each line has the
/// time range `interval`.
fn further_lines(
    snapshot: &Snapshot,
    interval: Interval,
    states: &[(String, u64)],
    mut put: impl FnMut(Vec<u8>),
) {
    let when = Some(interval);
    let states = states.iter().map(|(state, flows)| StateBody { state, flows: *flows }).collect();
    put(line("flows", when, &FlowsBody { count: &snapshot.flows, states }));
    if snapshot.sessions != SessionCount::default() {
        put(line("sessions", when, &snapshot.sessions));
    }
    for answer in &snapshot.answers {
        put(answer_line(interval, answer));
    }
}

fn answer_line(interval: Interval, answer: &Answer) -> Vec<u8> {
    let cells = answer.reading.cells();
    line(cells.shape, Some(interval), &to(answer, Body(cells)))
}

fn to<T>(answer: &Answer, body: T) -> To<'_, T> {
    To {
        subscription: &answer.label.subscription,
        chart: answer.label.chart.as_deref(),
        function: &answer.label.function,
        body,
    }
}

/// An event and its text.
#[derive(Serialize)]
struct EventBody<'e> {
    #[serde(flatten)]
    event: &'e Event,
    text: String,
}

/// An event as its line of weir.ndjson, without the line's end.
pub fn event_line(event: &Event) -> Vec<u8> {
    line("event", Some(event.times()), &EventBody { event, text: words(event, usize::MAX) })
}

/// The summary's facts, one per line: the summary itself, the inputs, then as in weir.ndjson.
pub fn summary(facts: &Facts) -> String {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let body = SummaryBody {
        expression: facts.expression.as_deref(),
        interrupted: facts.interrupted,
        offloaders: facts.total.offloading(),
        notes: &facts.notes,
        failures: &facts.failures,
    };
    lines.push(line("summary", Some(facts.total.times()), &body));
    for input in &facts.inputs {
        let body = InputBody {
            name: &input.name,
            format: &input.format,
            links: &input.links,
            packets: input.packets,
            bytes: input.bytes,
            live: input.live,
            complete: input.problem.is_none() && !facts.interrupted,
            problem: input.problem.as_deref(),
            in_order: input.in_order,
            lost_before: input.lost_before,
        };
        lines.push(line("input", None, &body));
    }
    let times = facts.total.times();
    // The whole run tells who leaves checksums to a card.
    lines.push(line("ledger", Some(times), &LedgerBody::from(&facts.total.settled_ledger())));
    further_lines(&facts.total, times, &facts.states, |out| lines.push(out));
    lines.extend(facts.total.events.iter().map(event_line));
    let mut text = String::new();
    for line in lines {
        text.push_str(&String::from_utf8_lossy(&line));
        text.push('\n');
    }
    text
}

/// Writes the line of a flow, with the name of its responder.
pub(crate) fn push_flow(out: &mut Vec<u8>, flow: &FlowRecord, name: Option<&str>) {
    let ends = Endpoints::named(flow, name);
    let members = COLUMNS.iter().map(|column| (column.name, (column.value)(flow, &ends)));
    // Writing into memory does not fail.
    let _ = write!(out, "{{\"v\":{VERSION},\"kind\":\"flow\"");
    write_members(out, members, Times::Rfc3339, false);
    out.push(b'}');
}

struct Ndjson {
    file: LineFile,
}

impl Ndjson {
    fn open(context: &OutputContext) -> io::Result<Self> {
        let head = line("run", None, &RunBody { command: &context.command });
        let head = String::from_utf8_lossy(&head).into_owned() + "\n";
        let mut file = LineFile::framed(context, "weir.ndjson", Frame::head(move |_| head.clone()))?;
        file.begin(0);
        Ok(Self { file })
    }
}

impl Output for Ndjson {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let file = &mut self.file;
        let mut put = |line: Vec<u8>| file.line(snapshot.interval.end, |out| out.extend_from_slice(&line));
        put(line("interval", Some(snapshot.interval), &Nothing {}));
        snapshot_lines(snapshot, snapshot.interval, &[], put);
        self.file.flush()
    }

    fn readings(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        for answer in &snapshot.answers {
            let line = answer_line(snapshot.interval, answer);
            self.file.line(snapshot.interval.end, |out| out.extend_from_slice(&line));
        }
        self.file.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.named_flow(flow, None)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        self.file.line(flow.last.0, |out| push_flow(out, flow, name));
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let line = event_line(event);
        self.file.line(event.last, |out| out.extend_from_slice(&line));
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
    use crate::fixtures;
    use crate::summary::InputFacts;
    use serde_json::{Value, json};
    use weir_api::Reading;

    fn values(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn the_facts_of_a_summary_are_lines() {
        let nasty = "a\"b\\c\n\u{1b}[31m\u{2028}".to_owned();
        let mut facts = Facts {
            total: fixtures::snapshot(),
            states: vec![("SF".to_owned(), 6)],
            inputs: vec![InputFacts { name: nasty.clone(), lost_before: Some(3), ..InputFacts::default() }],
            expression: Some(nasty.clone()),
            ..Facts::default()
        };
        facts.total.ledger.errors.0[1][0] = 5;
        let text = summary(&facts);
        assert_eq!(text.lines().count(), text.split('\n').count() - 1, "a fact is a line");
        let lines = values(&text);
        assert!(lines.iter().all(|line| line["v"] == VERSION));
        let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds[..4], ["summary", "input", "ledger", "flows"]);
        assert_eq!(
            kinds[4..],
            ["top", "top", "top", "top", "series", "classes", "histogram", "count", "distinct"]
        );
        assert_eq!((&lines[0]["expression"], &lines[1]["name"]), (&json!(nasty), &json!(nasty)));
        assert_eq!(lines[1]["lost_before"], 3);
        assert_eq!(lines[2]["errors"], json!([{"layer": "network", "error": "truncated", "packets": 5}]));
        assert_eq!(lines[3]["states"], json!([{"state": "SF", "flows": 6}]));
        assert_eq!(lines[4]["rows"][0]["label"], "10.99.0.2:8000 <-> 10.99.0.1 tcp");
        assert_eq!(lines[4]["rows"][0]["key"]["talker"]["port"], 8000);
        assert_eq!(lines[4]["start"], "2026-11-21T01:46:08.985000000Z");
        assert_eq!(lines[10]["min"], 60);
        assert_eq!(lines[11]["packets"], 906);
        assert_eq!(
            (&lines[4]["inserts"], &lines[4]["absent"], &lines[4]["exact"]),
            (&json!(3), &json!(0), &json!(true))
        );
        assert_eq!(
            (&lines[12]["of"], &lines[12]["estimate"], &lines[12]["exact"]),
            (&json!("hosts"), &json!(3), &json!(true))
        );
    }

    #[test]
    fn inexact_rows_have_error_bounds() {
        let mut lines = Vec::new();
        let mut snapshot = fixtures::snapshot();
        snapshot.answers = vec![
            fixtures::answer("talkers", None, "top", fixtures::flooded(&snapshot)),
            fixtures::answer("hosts", None, "distinct", fixtures::distinct(100_000)),
        ];
        snapshot_lines(&snapshot, snapshot.interval, &[], |line| {
            lines.push(String::from_utf8(line).unwrap())
        });
        let list: Value = serde_json::from_str(&lines[2]).unwrap();
        assert_eq!(
            (&list["exact"], &list["inserts"], &list["absent"]),
            (&json!(false), &json!(98_304), &json!(4_000))
        );
        assert_eq!((&list["shed"]["bytes"], &list["rows"][0]["error"]), (&json!(9_000_000), &json!(13_050)));
        let distinct: Value = serde_json::from_str(&lines[3]).unwrap();
        assert_eq!((&distinct["exact"], &distinct["relative_error"]), (&json!(false), &json!(0.01625)));
        let off = distinct["estimate"].as_f64().unwrap() / 100_000.0 - 1.0;
        assert!(off.abs() < 0.05, "{off}");
    }

    #[test]
    fn large_numbers_and_empty_histograms_are_written_in_full() {
        let mut snapshot = fixtures::snapshot();
        let mut histogram = weir_api::Histogram::new("bytes", vec![0]);
        snapshot.answers =
            vec![fixtures::answer("d", Some("c"), "distribution", Reading::Histogram(histogram.clone()))];
        histogram.n = 2;
        histogram.sum = u128::from(u64::MAX) * 2;
        snapshot.answers.push(fixtures::answer("d", None, "distribution", Reading::Histogram(histogram)));
        let mut lines = Vec::new();
        snapshot_lines(&snapshot, snapshot.interval, &[], |line| {
            lines.push(String::from_utf8(line).unwrap())
        });
        assert!(!lines[2].contains("\"min\"") && lines[2].contains("\"chart\":\"c\""), "{}", lines[2]);
        assert!(lines[3].contains("\"sum\":36893488147419103230,"), "{}", lines[3]);
    }

    #[test]
    fn a_scan_is_written_with_its_parts() {
        let mut lines = Vec::new();
        let mut snapshot = fixtures::snapshot();
        snapshot.answers = vec![fixtures::answer("scans", None, "scans", fixtures::scans())];
        snapshot_lines(&snapshot, snapshot.interval, &[], |line| {
            lines.push(String::from_utf8(line).unwrap())
        });
        let line: Value = serde_json::from_str(&lines[2]).unwrap();
        assert_eq!((&line["kind"], line["scans"].as_array().unwrap().len()), (&json!("scans"), 2));
        let ports = &line["scans"][0];
        assert_eq!((&ports["source"], &ports["target"]), (&json!("10.99.0.102"), &json!("10.99.0.1")));
        assert_eq!((&ports["failed"], &ports["refused_flows"]), (&json!(41), &json!(41)));
        assert_eq!((&ports["first"], ports.get("port")), (&json!("2026-11-21T01:46:08.985000000Z"), None));
        assert_eq!((&line["scans"][1]["port"], line["scans"][1].get("target")), (&json!(445), None));
    }

    #[test]
    fn a_flow_is_a_flat_object() {
        let directory = tempfile::tempdir().unwrap();
        let context = OutputContext {
            directory: directory.path().to_owned(),
            command: "weir \"x\" y".to_owned(),
            ..OutputContext::default()
        };
        let mut output = (NDJSON.open)(&context).unwrap();
        output.flow(&fixtures::flow()).unwrap();
        output.finish().unwrap();
        let lines = values(&std::fs::read_to_string(directory.path().join("weir.ndjson")).unwrap());
        assert_eq!(lines[0], json!({"v": 1, "kind": "run", "command": "weir \"x\" y"}));
        let flow = &lines[1];
        assert_eq!(
            (&flow["kind"], &flow["source"], &flow["source_port"]),
            (&json!("flow"), &json!("10.0.0.5"), &json!(40000))
        );
        assert_eq!((&flow["duration"], &flow["reverse_stream_bytes"]), (&json!(0.211484), &json!(5007)));
        assert!(flow.get("vlan").is_none() && flow.get("tunnel").is_none());
    }
}
