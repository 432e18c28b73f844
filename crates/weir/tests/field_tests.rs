//! Tests of fields, decided three times over the records of all captures: by [`RecordTest`] on records as parsers emit them, by the
//! store's SQL on the stored rows, and by a Python script on their JSON (`tests/field-tests.py`).

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use support::*;
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_capture::{Files, Input, ReadOptions};
use weir_engine::fields::{RecordView, endpoints};
use weir_engine::{ChecksumMode, Emitted, FlowConfig, FlowIdentity, Plan, Settings, Sink, Worker};
use weir_filter::{Matches, Options, RecordSet, RecordTest};
use weir_output::{Existing, OutputContext, Rolling};
use weir_proto::Record;
use weir_store::fields::{Lists, StoreFields, described};
use weir_store::moment::Moments;
use weir_store::sqlite::{STORE, SqliteStore};
use weir_store::{Store, StoredRecord, TimeRange};
use weir_wire::PacketBuf;

/// Records of one table that are taken of one capture, and in all.
const OF_CAPTURE: usize = 12;
const OF_TABLE: usize = 400;

/// Expressions that are decided.
const EXPRESSIONS: usize = 1_500;

/// Records, a few of each table of each capture.
#[derive(Default)]
struct Records {
    kept: Vec<(FlowIdentity, Record<'static>)>,
    /// Records of each table: of this capture, and in all.
    counts: BTreeMap<&'static str, [usize; 2]>,
}

impl Sink for Records {
    fn take(&mut self, emitted: Emitted<'_>) {
        let Emitted::Record(flow, record, _) = emitted else { return };
        let [of_capture, in_all] = self.counts.entry(record.table.name).or_default();
        if *of_capture < OF_CAPTURE && *in_all < OF_TABLE {
            (*of_capture, *in_all) = (*of_capture + 1, *in_all + 1);
            // Each record is found again by the number of its flow.
            let alias = self.kept.len() as u64 + 1;
            self.kept.push((FlowIdentity { alias, ..*flow }, record.into_owned()));
        }
    }
}

fn records() -> (Records, usize) {
    let settings = Settings {
        filter: Options::default(),
        checksum: ChecksumMode::Off,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: None,
    };
    let all = SubscriptionSpec::delivering("records", Level::Record, vec![FunctionCall::new("rows")]);
    let plan = Arc::new(Plan::new("", vec![all], settings).unwrap());
    let (mut records, captures) = (Records::default(), captures());
    for path in &captures {
        records.counts.values_mut().for_each(|[of_capture, _]| *of_capture = 0);
        let options = ReadOptions::default();
        let Ok(mut files) = Files::open(&[Input::Path(path.clone())], &options) else { continue };
        let mut worker = Worker::new(Arc::clone(&plan), &FlowConfig::default());
        let mut chunk = PacketBuf::default();
        loop {
            match files.fill(&mut chunk) {
                Ok(true) => worker.batch(chunk.batch(), &mut records),
                Ok(false) => break,
                // The packets before an error count.
                Err(_) => {}
            }
        }
        worker.finish(&mut records);
    }
    (records, captures.len())
}

/// Random expressions of the values of rows.
struct Maker<'r> {
    state: u64,
    rows: &'r [Row],
    kinds: &'r BTreeMap<String, BTreeMap<String, String>>,
    list: &'r str,
}

/// A stored record.
struct Row {
    table: &'static str,
    body: Map<String, Value>,
}

fn leaves(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().flat_map(leaves).collect(),
        Value::Object(members) => members.values().flat_map(leaves).collect(),
        value => vec![value],
    }
}

impl Maker<'_> {
    fn below(&mut self, n: usize) -> usize {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % n.max(1) as u64) as usize
    }

    fn pick<'p>(&mut self, all: &[&'p str]) -> &'p str {
        all[self.below(all.len())]
    }

    fn expression(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 2 } else { 7 }) {
            0 | 1 => self.leaf(),
            2 => format!("not ({})", self.expression(depth - 1)),
            3 | 4 => format!("({}) and ({})", self.expression(depth - 1), self.expression(depth - 1)),
            _ => format!("({}) or ({})", self.expression(depth - 1), self.expression(depth - 1)),
        }
    }

    fn leaf(&mut self) -> String {
        match self.below(12) {
            0 => self.pick(&["tcp", "udp"]).to_owned(),
            1 => format!("port {}", self.pick(&["53", "80", "443", "5060"])),
            2 => self
                .pick(&["flow.client = 10.0.0.0/8", "flow.server = 192.168.0.0/16", "net fe80::/10"])
                .to_owned(),
            _ => self.field(),
        }
    }

    /// A test of a field with the value of a record, or with a value close to it.
    fn field(&mut self) -> String {
        loop {
            let row = &self.rows[self.below(self.rows.len())];
            let Some((name, value)) = row.body.iter().nth(self.below(row.body.len())) else { continue };
            let found = leaves(value);
            let Some(leaf) = found.get(self.below(found.len())).copied().cloned() else { continue };
            let kind = self.kinds[row.table][name].as_str();
            let field = format!("{}.{name}", row.table);
            let text = match &leaf {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            // An expression is a line.
            if text.chars().any(char::is_control) || text.len() > 200 {
                continue;
            }
            let order = ["=", "!=", "<", "<=", ">", ">="];
            let operation = match kind {
                "bool" => format!("{} {text}", self.pick(&["=", "!="])),
                "number" | "duration" | "time" => {
                    if self.below(5) == 0 {
                        format!("in ({text}, 44300, 1750000000.5)")
                    } else {
                        format!("{} {text}", self.pick(&order))
                    }
                }
                "address" => {
                    let net = if text.contains(':') { "/48" } else { "/12" };
                    match self.below(4) {
                        0 => format!("{} {text}", self.pick(&order)),
                        1 => format!("{} {text}{net}", self.pick(&order)),
                        2 => format!("in ({text}, 10.0.0.0/8, ::1)"),
                        _ => format!("begins \"{}\"", text.chars().take(4).collect::<String>()),
                    }
                }
                _ => self.text(&text),
            };
            return if self.below(15) == 0 { field } else { format!("{field} {operation}") };
        }
    }

    fn text(&mut self, text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        let (from, length) = (self.below(chars.len()), 1 + self.below(6));
        let (front, back) =
            (chars.iter().take(length), chars.iter().skip(chars.len().saturating_sub(length)));
        let within: String = chars.iter().skip(from).take(length).collect();
        let labels: Vec<&str> = text.split('.').collect();
        let domain = labels[labels.len().saturating_sub(1 + self.below(3))..].join(".");
        match self.below(12) {
            0 => format!("contains {}", self.quoted(&within)),
            1 => format!("begins {}", self.quoted(&front.collect::<String>())),
            2 => format!("ends {}", self.quoted(&back.collect::<String>())),
            3 => format!("under {}", self.quoted(&domain)),
            4 if !domain.is_empty()
                && domain.len() < 200
                && !domain.contains(char::is_whitespace)
                && domain != "." =>
            {
                format!("under (a.example, {})", self.quoted(&domain))
            }
            5 => format!("in (a, {}, b)", self.quoted(text)),
            6 => format!("{} @{}", self.pick(&["in", "under"]), self.list),
            7 | 8 => {
                let escape = |c: char| {
                    if c.is_ascii_alphanumeric() || !c.is_ascii() { c.to_string() } else { ".".to_owned() }
                };
                let pattern: String = within.chars().map(escape).collect();
                let (open, close) = (self.pick(&["", "^", "^.*"]), self.pick(&["", "$", "[a-z0-9]+$"]));
                format!("~ {}{open}{pattern}{close}\"", '"')
            }
            _ => {
                let operator = self.pick(&["=", "=", "!=", "<", "<=", ">", ">="]);
                format!("{operator} {}", self.quoted(text))
            }
        }
    }

    fn quoted(&mut self, text: &str) -> String {
        // Letters in another case are equal only in double quotes.
        let text = if self.below(3) == 0 { text.to_ascii_uppercase() } else { text.to_owned() };
        let quote = self.pick(&["\"", "'"]);
        let escaped = text.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
        format!("{quote}{escaped}{quote}")
    }
}

#[test]
fn records_the_store_and_a_script_agree_on_every_test() {
    let (records, captures) = records();
    let folder = tempfile::tempdir().unwrap();
    let stored = folder.path().join("store");
    fs::create_dir(&stored).unwrap();
    let mut store = (STORE.open)(&OutputContext {
        is_stream: false,
        directory: stored.clone(),
        existing: Existing::Continue,
        rolling: Rolling::default(),
        memory: 0,
        distinct_seed: None,
        zone: Default::default(),
        command: String::new(),
        start: 0,
        interval: 0,
        clock: None,
        stop: None,
        worms: weir_output::Worms::default(),
        home: None,
        triggers: Vec::new(),
        sysname: String::new(),
    })
    .unwrap();
    for (flow, record) in &records.kept {
        store.record(flow, record).unwrap();
    }
    store.finish().unwrap();
    drop(store);
    let store = SqliteStore::open(&stored, None).unwrap().patient();

    // The rows as they were stored.
    let everything = RecordTest::compile("", &Options::default()).unwrap();
    let mut bodies: BTreeMap<u64, String> = BTreeMap::new();
    for table in records.counts.keys() {
        let test = everything.of(table);
        let each = &mut |row: &StoredRecord<'_>| drop(bodies.insert(row.uid, row.body.to_owned()));
        assert_eq!(store.each_record(table, test, "", TimeRange::default(), each).unwrap(), None);
    }
    assert_eq!(bodies.len(), records.kept.len());
    let rows: Vec<Row> = records
        .kept
        .iter()
        .map(|(flow, record)| Row {
            table: record.table.name,
            body: serde_json::from_str(&bodies[&flow.id()]).unwrap(),
        })
        .collect();
    assert!(rows.len() > 300, "{}", rows.len());

    let kinds: BTreeMap<String, BTreeMap<String, String>> = described()
        .into_iter()
        .map(|table| (table.name, table.fields.into_iter().map(|field| (field.name, field.kind)).collect()))
        .collect();
    let list = folder.path().join("names");
    let words =
        ["example.org", "A.example", "com", "local", "GET", "NOERROR", "in-addr.arpa", "TLSv12", "10.0.0.1"];
    fs::write(&list, words.join("\n")).unwrap();
    let moments = Moments::default();
    let fields = StoreFields { payload: true, lists: Lists::All(Path::new("")), moments: &moments };
    let options = Options { fields: Some(&fields), ..Options::default() };

    // Expressions that join two tables by `and` hold for no record, and are refused.
    let mut maker = Maker { state: 16, rows: &rows, kinds: &kinds, list: text(&list) };
    let mut tests: Vec<(String, RecordTest)> = Vec::new();
    let mut refused = 0;
    while tests.len() < EXPRESSIONS {
        let expression = maker.expression(2);
        match RecordTest::compile(&expression, &options) {
            Ok(test) => tests.push((expression, test)),
            Err(error) => {
                assert!(error.message.starts_with("no record satisfies"), "{error}");
                refused += 1;
            }
        }
    }

    // On records as they are emitted, alone and all together.
    let set = RecordSet::new(tests.iter().map(|(_, test)| test));
    let (mut matches, mut live) = (Matches::default(), vec![Vec::new(); tests.len()]);
    for (number, (flow, record)) in records.kept.iter().enumerate() {
        let view = RecordView { endpoints: endpoints(flow), record };
        for at in set.matches(&view, &mut matches) {
            live[*at as usize].push(number);
        }
        for (at, (expression, test)) in tests.iter().enumerate() {
            assert_eq!(
                test.holds(&view),
                live[at].last() == Some(&number),
                "{expression} in a set: {record:?}"
            );
        }
    }

    // In SQL.
    for ((expression, test), live) in tests.iter().zip(&live) {
        let mut found = Vec::new();
        for table in records.counts.keys().filter(|table| test.tables().have(table)) {
            let each = &mut |row: &StoredRecord<'_>| found.push(row.uid as usize - 1);
            store.each_record(table, test.of(table), "", TimeRange::default(), each).unwrap();
        }
        found.sort_unstable();
        assert_eq!(&found, live, "{expression} in the store");
    }

    // In Python.
    let (mut lines, mut asked) = (String::new(), String::new());
    for (row, (flow, _)) in rows.iter().zip(&records.kept) {
        let ends = [flow.initiator(), flow.responder()];
        let row = json!({"table": row.table, "proto": flow.key.proto, "ends": ends, "body": row.body});
        writeln!(lines, "{row}").unwrap();
    }
    tests.iter().for_each(|(expression, _)| writeln!(asked, "{expression}").unwrap());
    let paths = ["kinds", "rows", "expressions"].map(|name| folder.path().join(name));
    fs::write(&paths[0], serde_json::to_string(&kinds).unwrap()).unwrap();
    fs::write(&paths[1], lines).unwrap();
    fs::write(&paths[2], asked).unwrap();
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let ran = run(Command::new(python).arg(root().join("tests/field-tests.py")).args(&paths)).exits(0);
    let mut decided = 0;
    for (line, ((expression, _), live)) in ran.text().lines().zip(tests.iter().zip(&live)) {
        let script: Vec<usize> = serde_json::from_str(line).unwrap();
        let differs =
            script.iter().find(|at| !live.contains(at)).or(live.iter().find(|at| !script.contains(at)));
        assert_eq!(differs.map(|at| row_text(&rows, *at)), None, "{expression} in Python");
        decided += 1;
    }
    assert_eq!(decided, tests.len());
    let held = live.iter().filter(|rows| !rows.is_empty()).count();
    let part = live.iter().filter(|rows| !rows.is_empty() && rows.len() < records.kept.len() / 2).count();
    println!(
        "{} expressions over {} records of {} tables in {captures} captures: {held} hold for some, {refused} were refused",
        tests.len(),
        rows.len(),
        records.counts.len()
    );
    assert!(part > EXPRESSIONS / 3, "{part} expressions hold for a part of the records");
}

/// A row, for a message.
fn row_text(rows: &[Row], at: usize) -> String {
    rows.get(at).map_or_else(String::new, |row| format!("{} {}", row.table, Value::Object(row.body.clone())))
}
