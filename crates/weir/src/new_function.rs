//! A function with columns that nothing else knows, and that emits events: it is written in this file alone, and is found in
//! every output, the store, the answers of the pages and the manual.

use crate::events::Events;
use crate::{database, manual};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use weir_api::event::PORT_SCAN;
use weir_api::{
    Answer, AnswerId, AnswerLabel, Datum, DistinctValues, Event, Fold, Folded, FunctionCall, Interval,
    KeyColumn, Level, Reading, SampledValues, Schema, Shown, Sketch, Snapshot, Subject, Table, TableColumn,
    TableRow,
};
use weir_engine::{Function, FunctionSpec, InputKind, Item, Judge, Memory, Tally};
use weir_output::metrics::Metrics;
use weir_output::{OUTPUTS, OutputContext};
use weir_store::TimeRange;
use weir_store::query::{Asking, Question};

static NETS: FunctionSpec = FunctionSpec {
    name: "nets",
    help: "Traffic by the first byte of the lower address.",
    arguments: &[],
    levels: &[Level::Packet],
    input: InputKind::Tallies,
    memory: |_| Ok(Memory { state: 1 << 20, reading: 1 << 20 }),
    judge: Some(|_, _| Ok(Box::new(Odd))),
    delivers: None,
    identifies: false,
    build: |_| Ok(Box::new(Nets::default())),
};

static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("nets"),
    keys: Cow::Borrowed(&[KeyColumn::new("net", "", "The network.")]),
    columns: Cow::Borrowed(&[
        TableColumn::new("volume", Fold::Sum, "bytes", "Bytes of the network."),
        TableColumn::new("peers", Fold::Distinct, "", "Other addresses."),
        TableColumn::new("weight", Fold::Sketch, "bytes", "Bytes of a tally."),
        TableColumn::new("smallest", Fold::Min, "bytes", "Bytes of the smallest tally."),
        TableColumn::new("newest", Fold::Last, "", "Port of the last tally."),
        TableColumn::new("some_ports", Fold::Sample, "tallies", "Ports of tallies."),
    ]),
    shown: Shown::Heaviest(5),
};

/// The names under which a user meets these columns: a sketch has one for each quantile.
const COLUMNS: [&str; 10] = [
    "net",
    "volume",
    "peers",
    "weight_p50",
    "weight_p90",
    "weight_p99",
    "weight_max",
    "smallest",
    "newest",
    "some_ports",
];

#[derive(Default)]
struct Nets {
    rows: BTreeMap<String, Vec<Folded>>,
}

impl Function for Nets {
    fn item(&mut self, item: &Item<'_>) {
        let Item::Tally(tally) = item else { return };
        let [lower, upper] = tally.key.addr;
        let mut peers = DistinctValues::default();
        peers.add(u128::from_be_bytes(upper));
        let mut weight = Sketch::default();
        weight.add(tally.bytes as f64);
        let mut ports = SampledValues::default();
        ports.add(tally.key.port[1].into(), tally.packets);
        let values = [
            Folded::Sum(tally.bytes),
            Folded::Distinct(peers),
            Folded::Sketch(weight),
            Folded::Min(Some(tally.bytes)),
            Folded::Last(Some((tally.bytes, Datum::Number(tally.key.port[1].into())))),
            Folded::Sample(ports),
        ];
        let folds = SCHEMA.columns.iter().map(|column| column.fold);
        let empty = || folds.map(Folded::new).collect::<Vec<_>>();
        let row = self.rows.entry(format!("{}.0.0.0/8", lower[12])).or_insert_with(empty);
        row.iter_mut().zip(&values).for_each(|(sum, value)| sum.merge(value));
    }

    fn take(&mut self) -> Reading {
        let row = |(net, values): (String, Vec<Folded>)| TableRow {
            key: vec![Datum::Text(net.into())],
            values,
            error: 0,
        };
        let rows = std::mem::take(&mut self.rows).into_iter().map(row).collect();
        Reading::Table(Table::new(&SCHEMA, 100, rows, 3))
    }
}

/// Finds an event in each row: what the first host of the network sends to one other host.
struct Odd;

impl Judge for Odd {
    fn judge(
        &mut self,
        reading: &Reading,
        _: Interval,
        _: Interval,
        _: &dyn Fn(&Event) -> bool,
    ) -> Vec<Event> {
        let Reading::Table(table) = reading else { return Vec::new() };
        let event = |row: &TableRow| {
            let ([Datum::Text(net)], [_, _, Folded::Sketch(tallies), ..]) = (&*row.key, &*row.values) else {
                return None;
            };
            let (source, target) = (net.strip_suffix("0/8")?, "203.0.113.1");
            let subject =
                Subject::Pair { source: format!("{source}1").parse().ok()?, target: target.parse().ok()? };
            let tallies = tallies.count();
            let event = Event::at(&PORT_SCAN, subject, START);
            Some(Event { count: tallies, ..event.with("odd_tallies", "tallies", Folded::Sum(tallies)) })
        };
        table.rows.iter().filter_map(event).collect()
    }
}

const START: u64 = 1_795_225_560_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// An interval in which 10.0.0.0/8 has 6,000 bytes with two peers, and 192.0.0.0/8 has 50 bytes.
fn snapshot(interval: u64) -> Snapshot {
    let mut function = NETS.call(&FunctionCall::new("nets"), 1_u64).unwrap();
    for (net, peer, bytes) in [(10, 1, 1_000), (10, 2, 2_000), (10, 1, 3_000), (192, 1, 50)] {
        let key = weir_wire::FlowKey {
            addr: [[net, 0, 0, 1], [203, 0, 113, peer]].map(weir_wire::mapped),
            port: [4_000, 443],
            proto: 6,
            ..weir_wire::FlowKey::default()
        };
        function.item(&Item::Tally(&Tally {
            key: &key,
            source_is_lower: true,
            initiator_is_lower: true,
            vlan: 0,
            tag: weir_wire::Tag::NONE,
            packets: 1,
            bytes,
            begins: true,
            carrier: false,
            unasked: false,
        }));
    }
    let start = START + interval * 30 * SECOND;
    let mut snapshot = Snapshot {
        interval: Interval { start, end: start + 30 * SECOND },
        answers: vec![Answer {
            id: AnswerId::default(),
            label: Arc::new(AnswerLabel {
                subscription: "networks".to_owned(),
                chart: None,
                function: NETS.name.to_owned(),
                ..AnswerLabel::default()
            }),
            reading: function.take(),
            nanoseconds: 0,
        }],
        ..Snapshot::default()
    };
    snapshot.ledger.caught = 4;
    let mut judge = NETS.judge(&FunctionCall::new("nets"), 30 * SECOND).unwrap().unwrap();
    let found = judge.judge(&snapshot.answers[0].reading, snapshot.interval, snapshot.interval, &|_| false);
    snapshot.add_events(&found);
    snapshot
}

fn written(folder: &Path, spec: &weir_output::OutputSpec, intervals: u64) {
    let context = OutputContext { directory: folder.to_owned(), ..OutputContext::default() };
    let mut output = (spec.open)(&context).unwrap();
    let mut events = Events::new(1 << 20, Default::default(), 30 * SECOND);
    let mut total = Snapshot::default();
    for n in 0..intervals {
        let mut snapshot = snapshot(n);
        events.interval(&mut snapshot).iter().for_each(|row| output.event(&row.event).unwrap());
        output.interval(&snapshot).unwrap();
        total.merge(&snapshot);
    }
    events.finish(&mut total).iter().for_each(|row| output.event(&row.event).unwrap());
    output.finish().unwrap();
}

/// Logs of flows and records have no readings.
const WITHOUT_READINGS: [&str; 9] =
    ["zeek", "zeek-json", "eve", "fast", "snort-full", "snort-csv", "text", "events", "parquet"];

#[test]
fn its_columns_are_in_every_output() {
    for spec in OUTPUTS {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), spec, 1);
        let mut text = String::new();
        for name in spec.files {
            text += &fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        }
        let is_counter = spec.name == "prometheus";
        // Counters have no key: it comes from packets, as the values of a sample do, and a last value can be text. A key is the label of a line of
        // values.csv.
        let needless: &[&str] = match spec.name {
            "prometheus" => &["net", "newest", "some_ports"],
            "csv" => &["net"],
            _ => &[],
        };
        let is_absent = |name: &&str| !needless.contains(name) && !text.contains(name);
        let absent: Vec<&str> = COLUMNS.into_iter().filter(is_absent).collect();
        // Ourmon's logs have only the functions of Ourmon.
        let is_expected = !spec.name.starts_with("mon") && !WITHOUT_READINGS.contains(&spec.name);
        assert_eq!(absent.is_empty(), is_expected, "{}: {absent:?} in\n{text}", spec.name);
        if is_expected {
            let values = if is_counter { ["6050", "3000"] } else { ["6000", "10.0.0.0/8"] };
            assert!(values.iter().all(|value| text.contains(value)), "{values:?} in\n{text}");
            let sample = if spec.name == "ndjson" { "[[443,3]]" } else { "443:3" };
            assert!(is_counter || text.contains(sample), "{sample} in\n{text}");
        }
    }
}

#[test]
fn its_sums_grow_in_the_counters() {
    let mut metrics = Metrics::default();
    (0..2).for_each(|n| metrics.add(&snapshot(n)));
    let text = metrics.text();
    let labels = "chart=\"\",subscription=\"networks\",function=\"nets\"";
    for line in [
        format!("weir_table_sum_total{{{labels},column=\"volume\"}} 12100"),
        format!("weir_table_value{{{labels},column=\"peers\"}} 2.0"),
        format!("weir_table_value{{{labels},column=\"weight_max\"}} 3000.0"),
        format!("weir_table_rows{{{labels}}} 2.0"),
    ] {
        assert!(text.contains(&line), "{line} in\n{text}");
    }
}

#[test]
fn its_rows_and_series_are_in_the_store_and_in_answers_of_the_pages() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), database::OUTPUT, 3);
    let store = database::read(folder.path(), None).unwrap();
    let tables = store.lists().unwrap().tables;
    assert_eq!((tables.len(), tables[0].name.as_str()), (1, "networks"));
    assert!(COLUMNS.iter().all(|name| tables[0].columns.iter().any(|known| known == name)), "{tables:?}");
    let series: Vec<String> = store.series().unwrap().into_iter().map(|info| info.id).collect();
    for id in
        ["value/networks/rows", "sum/networks/volume", "value/networks/peers", "value/networks/weight_p99"]
    {
        assert!(series.iter().any(|known| known == id), "{id} in {series:?}");
    }
    let kept = store.table("networks", TimeRange::default()).unwrap().unwrap();
    let table = kept.table.unwrap();
    assert_eq!((table.rows.len(), table.shown()[0].weight(), table.absent), (2, 18_000, 9));
    assert!(store.table("nowhere", TimeRange::default()).unwrap().is_none());
    // GET /api/v1/query?q=list+networks
    let question = Question::parse("list networks", &Asking::default()).unwrap();
    let answer = question.ask(&*store).unwrap();
    let names: Vec<&str> = answer.columns.iter().map(|column| column.name.as_str()).collect();
    assert!(COLUMNS.iter().all(|name| names.contains(name)), "{names:?}");
    let cell = |name: &str| answer.rows[0][names.iter().position(|known| *known == name).unwrap()].clone();
    assert_eq!(
        (cell("label"), cell("volume"), cell("peers")),
        ("10.0.0.0/8".into(), 18_000.into(), 2.into())
    );
    assert_eq!(
        (cell("weight_max"), cell("smallest"), cell("newest")),
        (3_000.0.into(), 1_000.into(), 443.into())
    );
    assert_eq!(cell("some_ports"), "443:9");
    let half = cell("weight_p50").as_f64().unwrap();
    assert!((half / 2_000.0 - 1.0).abs() < 0.01, "{half}");
}

/// Logs that have the events of triggers alone.
const OF_TRIGGERS: [&str; 2] = ["mon", "mon-paper"];

#[test]
fn its_events_are_in_every_log_with_events_the_store_and_the_counters() {
    let expression = "src host 10.0.0.1 and dst host 203.0.113.1 and tcp";
    for spec in OUTPUTS.iter().filter(|spec| !spec.events.is_empty() && !OF_TRIGGERS.contains(&spec.name)) {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), spec, 2);
        let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let text: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
        assert!(text.contains(expression), "{}: {text}", spec.name);
    }
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), database::OUTPUT, 2);
    let store = database::read(folder.path(), None).unwrap();
    let events = store.events(TimeRange::default(), 10).unwrap().events;
    let event = events.iter().find(|event| event.filter.as_deref() == Some(expression)).unwrap();
    // Three tallies of this network in each of two intervals are one event.
    assert_eq!((event.count, event.evidence["odd_tallies"], event.open), (6, 6, false));
    assert_eq!(events.len(), 2);
    let mut metrics = Metrics::default();
    metrics.add(&snapshot(0));
    assert!(metrics.text().contains("weir_event_findings_total{kind=\"port_scan\"} 4"), "{}", metrics.text());
}

#[test]
fn its_columns_are_in_the_manual() {
    let page = manual::functions(&[&NETS], &[]);
    assert!(page.contains(".SH NETS") && page.contains("Bytes of a tally."), "{page}");
    for name in COLUMNS {
        assert!(page.contains(&format!(".B {name}\n")), "{name} in\n{page}");
    }
}

#[test]
fn its_reading_has_a_binary_form() {
    let reading = &snapshot(0).answers[0].reading;
    let mut sum = Reading::decode(&reading.encode()).unwrap();
    assert_eq!(&sum, reading);
    sum.merge_encoded(&reading.encode()).unwrap();
    let Reading::Table(table) = sum else { panic!("another shape") };
    assert_eq!(table.shown()[0].weight(), 12_000);
}
