//! Subscriptions over records: their lists are the counts of the values in the logs of the same run, and a subscription that is
//! added in mid-run sees what one from the start sees.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, settings};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use support::*;
use weir_api::{FunctionCall, Level, Owner, Subscription, SubscriptionId, SubscriptionSpec};
use weir_engine::{Emitted, FlowConfig, Plan, Sink, Worker};
use weir_wire::{Batch, Time};

/// Tables, and fields of theirs with one value.
const FIELDS: &[(&str, &str)] = &[
    ("dns", "query"),
    ("dns", "rcode_name"),
    ("http", "host"),
    ("http", "status_code"),
    ("http", "user_agent"),
    ("tls", "server_name"),
    ("tls", "version"),
    ("ssh", "client"),
    ("ftp_command", "command"),
    ("smtp", "helo"),
];

/// The cells of a line of CSV (RFC 4180).
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

/// How often each pair of a field's value and the source occurs in a log. `None` if a row is of several lines.
fn counted(log: &Path, field: &str) -> Option<BTreeMap<(String, String), u64>> {
    let mut counts = BTreeMap::new();
    let Ok(text) = fs::read_to_string(log) else { return Some(counts) };
    let mut lines = text.lines();
    let head = cells(lines.next().unwrap_or_default());
    let place = |name: &str| head.iter().position(|column| column == name).unwrap();
    let (field, source) = (place(field), place("source"));
    for line in lines {
        let cells = cells(line);
        if cells.len() != head.len() {
            return None;
        }
        // A text that could be a formula has a quote in front, and long ones are cut in lists.
        let value = &cells[field];
        if value.starts_with('\'') || value.len() > 200 || value.contains('\\') {
            return None;
        }
        if !value.is_empty() {
            *counts.entry((value.clone(), cells[source].clone())).or_insert(0) += 1;
        }
    }
    Some(counts)
}

#[test]
fn lists_by_field_are_the_counts_of_the_logs() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = String::new();
    for (table, field) in FIELDS {
        config += &format!(
            "[[subscription]]\nname = \"{table} {field}\"\nlevel = \"record\"\n\
             chain = [\"top {table}.{field},source show 1000 rows 8192\"]\n"
        );
    }
    let config = put(folder.path(), "weir.toml", config.as_bytes());
    let (mut lists, mut rows, mut left_out) = (0, 0, 0);
    for (n, path) in diverse(80).iter().enumerate() {
        let out = folder.path().join(n.to_string());
        let arguments =
            [text(path), "-c", text(&config), "-j", "-o", text(&out), "--log", "csv", "--memory", "2G"];
        let ran = weir(arguments);
        assert!(matches!(ran.code, Some(0 | 2 | 3)), "{}: {}", path.display(), ran.stderr);
        let lines = ran.json();
        // A file that is no capture has no lines.
        if ran.code == Some(2) && lines.is_empty() {
            left_out += FIELDS.len();
            continue;
        }
        for (table, field) in FIELDS {
            let name = format!("{table} {field}");
            let Some(expected) = counted(&out.join(format!("{table}.csv")), field) else {
                left_out += 1;
                continue;
            };
            if expected.len() > 1000 {
                left_out += 1;
                continue;
            }
            let line = lines.iter().find(|line| line["subscription"] == name.as_str()).unwrap();
            assert_eq!(line["exact"], true, "{name}");
            let found: BTreeMap<(String, String), u64> = line["records"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| {
                    let value = &row[format!("{table}_{field}")];
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let source = row["source"].as_str().unwrap().to_owned();
                    ((value, source), row["records"].as_u64().unwrap())
                })
                .collect();
            assert_eq!(found, expected, "{}: {name}", path.display());
            rows += found.len();
            lists += usize::from(!found.is_empty());
        }
    }
    println!("{lists} lists with {rows} rows are the counts of the logs, {left_out} were not compared");
    assert!(lists > 20);
}

/// Records by the beginning of their flow.
#[derive(Default)]
struct Records(Vec<(Time, String)>);

impl Sink for Records {
    fn take(&mut self, emitted: Emitted<'_>) {
        let Emitted::Record(flow, record, _) = emitted else { return };
        self.0.push((flow.first, format!("{:?} {:?} {:?}", flow.key, record.table.name, record.values)));
    }
}

#[test]
fn a_log_that_is_added_in_mid_run_has_the_records_of_flows_that_begin_later() {
    let log = Subscription {
        id: SubscriptionId(1),
        owner: Owner::Client(1),
        spec: Arc::new(SubscriptionSpec::delivering("log", Level::Record, vec![FunctionCall::new("rows")])),
    };
    let with = Arc::new(Plan::of(None, 1, "", std::slice::from_ref(&log), settings()).unwrap());
    let bytes = SubscriptionSpec::new("bytes", "", vec![FunctionCall::new("bytes")]);
    let streams = Subscription {
        id: SubscriptionId(2),
        owner: Owner::Client(1),
        spec: Arc::new(SubscriptionSpec { level: Level::Stream, ..bytes }),
    };
    let nothing_read = Arc::new(Plan::of(None, 1, "", &[], settings()).unwrap());
    let streams_read = Arc::new(Plan::of(None, 1, "", &[streams], settings()).unwrap());
    let (mut captures, mut compared) = (0, 0);
    for (n, path) in diverse(60).into_iter().enumerate() {
        let without = if n % 2 == 0 { &nothing_read } else { &streams_read };
        let capture = Loaded::read(&path);
        let packets = capture.len();
        if !(10..=20_000).contains(&packets) {
            continue;
        }
        // Added after a part of the packets, and removed before the last ones.
        let (added, removed) = (packets / 3, packets - packets / 5);
        let run = |is_changed: bool| {
            let flows = FlowConfig { memory: 16 << 20, ..FlowConfig::default() };
            let plan = if is_changed { without } else { &with };
            let (mut worker, mut records) = (Worker::new(Arc::clone(plan), &flows), Records::default());
            let (mut n, mut at, mut until, mut latest) = (0, Time(0), None, Time(0));
            for chunk in &capture.chunks {
                for slot in &chunk.slots {
                    if n == added {
                        at = latest;
                    }
                    if n == added && is_changed {
                        worker.change_plan(Arc::clone(&with), &mut records);
                    }
                    if n == removed {
                        until = Some(records.0.len());
                        if is_changed {
                            worker.change_plan(Arc::clone(without), &mut records);
                        }
                    }
                    n += 1;
                    latest = latest.max(slot.time);
                    worker.batch(
                        Batch { bytes: &chunk.bytes, slots: std::slice::from_ref(slot) },
                        &mut records,
                    );
                }
            }
            worker.finish(&mut records);
            (records.0, at, until.unwrap())
        };
        let ((whole, at, until), (changed, _, until_changed)) = (run(false), run(true));
        let later = |records: &[(Time, String)]| {
            let mut later: Vec<String> =
                records.iter().filter(|(first, _)| *first > at).map(|(_, text)| text.clone()).collect();
            later.sort_unstable();
            later
        };
        let expected = later(&whole[..until]);
        assert_eq!(later(&changed[..until_changed]), expected, "{}", path.display());
        assert_eq!(changed.len(), until_changed, "{}: records after the log was removed", path.display());
        captures += 1;
        compared += expected.len();
    }
    println!("{captures} captures, {compared} records of flows that began after the change");
    assert!(compared > 0);
}
