//! Compares with Zeek's conn.log row by row: addresses, ports, duration, bytes, packets, state and history, as the flow
//! table has them. `weir/tests/truth/zeek.rs` compares the log that the program writes.
//!
//! `WEIR_ZEEK_TABLE=1` prints the rows that differ; docs/zeek-differences.md explains them.

#![allow(clippy::print_stdout, reason = "tests report what they ran")]

#[allow(dead_code, reason = "each test uses a part")]
#[path = "../../weir/tests/support/aside.rs"]
mod aside;
mod captures;

use aside::{Figure, is_aside};
use captures::{address, data, read, run};
use std::collections::HashMap;
use std::path::Path;
use weir_flow::{FlowConfig, FlowRecord, VerifiedChecksums};
use weir_wire::{Direction, Layers, Packet};

/// Minimum number of equal rows in all logs together: of visible captures, and of those set aside.
const REQUIRED: [usize; 2] = [410, 21];

/// Maximum number of rows that Zeek does not have: packets that a filter of its tests left out, and IPv6 without a
/// next header.
const MAX_MORE: usize = 25;

/// The columns that are compared, in order.
const COLUMNS: [&str; 12] = [
    "id.orig_h",
    "id.orig_p",
    "id.resp_h",
    "id.resp_p",
    "duration",
    "orig_bytes",
    "resp_bytes",
    "conn_state",
    "history",
    "orig_pkts+ip_bytes",
    "resp_pkts+ip_bytes",
    "ip_proto",
];

type Row = Vec<String>;

#[test]
fn conn_log_rows_are_equal() {
    let Some(folder) = data("zeek") else { return };
    let index = std::fs::read_to_string(folder.join("index.json")).expect("the index");
    let index: serde_json::Value = serde_json::from_str(&index).expect("JSON");
    let (mut figure, mut more) = (Figure::default(), 0);
    for entry in index.as_array().expect("a list").iter().filter(|entry| entry["log"] == "conn.log") {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let theirs = theirs(&folder.join(text("baseline")));
        // Without its scripts, Zeek has no list of server ports.
        let knows_servers = !text("baseline").contains("frameworks.logging");
        let mut ours = ours(&folder.join("traces").join(text("trace")), text("cmd"), knows_servers);
        let all = theirs.len();
        let mut missing = Vec::new();
        for row in theirs {
            match ours.iter().position(|our| same(&row, our)) {
                Some(at) => {
                    ours.swap_remove(at);
                }
                None => missing.push(row),
            }
        }
        more += ours.len().saturating_sub(missing.len());
        figure.add(text("trace"), all - missing.len(), all);
        if !is_aside(text("trace")) {
            report(text("trace"), text("cmd"), missing, ours);
        }
    }
    println!("conn.log rows: passed {} in all; {figure}; required {REQUIRED:?}", figure.whole());
    println!("{more} rows that Zeek does not have");
    assert!(figure.reaches(REQUIRED), "passed {figure}, required {REQUIRED:?}");
    assert!(more <= MAX_MORE, "{more} rows that Zeek does not have");
}

/// Compares two rows. Rows with only a `uid` show only that a row exists.
fn same(theirs: &Row, ours: &Row) -> bool {
    theirs.iter().zip(ours).all(|(their, our)| their == our || their == "*")
}

fn report(trace: &str, cmd: &str, missing: Vec<Row>, mut ours: Vec<Row>) {
    if std::env::var_os("WEIR_ZEEK_TABLE").is_none() {
        return;
    }
    let flags = if cmd.contains(" -b") { "-b " } else { "" };
    for row in missing {
        let near = |our: &Row| our.iter().zip(&row).filter(|(a, b)| a == b).count();
        let best = (0..ours.len()).max_by_key(|&at| near(&ours[at])).filter(|&at| near(&ours[at]) > 5);
        let Some(our) = best.map(|at| ours.swap_remove(at)) else {
            println!("| {trace} {flags}| {} | all | {} | - |", row[..4].join(" "), row[4..].join(" "));
            continue;
        };
        for (column, (their, our)) in COLUMNS.iter().zip(row.iter().zip(&our)) {
            if their != our {
                println!("| {trace} {flags}| {} | {column} | {their} | {our} |", row[..4].join(" "));
            }
        }
    }
    for our in ours {
        println!("| {trace} {flags}| {} | all | - | {} |", our[..4].join(" "), our[4..].join(" "));
    }
}

/// The rows of a log.
fn theirs(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).expect("a log");
    let mut names: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(fields) = line.strip_prefix("#fields\t") {
            names = fields.split('\t').map(canonical).collect();
        } else if !line.starts_with('#') {
            let values: HashMap<&str, &str> =
                names.iter().map(String::as_str).zip(line.split('\t')).collect();
            let get = |name: &str| (*values.get(name).unwrap_or(&"*")).to_owned();
            let pair = |a: &str, b: &str| match (get(a).as_str(), get(b).as_str()) {
                // The log has no such column, or the test switched the counting off.
                ("*", "*") | ("-", "-") => "*".to_owned(),
                (a, b) => format!("{a}/{b}"),
            };
            rows.push(vec![
                get("id.orig_h"),
                get("id.orig_p"),
                get("id.resp_h"),
                get("id.resp_p"),
                get("duration"),
                get("orig_bytes"),
                get("resp_bytes"),
                get("conn_state"),
                get("history"),
                pair("orig_pkts", "orig_ip_bytes"),
                pair("resp_pkts", "resp_ip_bytes"),
                get("ip_proto"),
            ]);
        }
    }
    rows
}

/// Zeek's name of a column that a test renamed.
fn canonical(name: &str) -> String {
    match name {
        "src" => "id.orig_h".to_owned(),
        "src_port" => "id.orig_p".to_owned(),
        "dst" => "id.resp_h".to_owned(),
        "dst_port" => "id.resp_p".to_owned(),
        _ => name.replace("id_", "id.").replace('*', "."),
    }
}

/// Our rows of a trace, with the options and filter of Zeek's command line.
fn ours(trace: &Path, cmd: &str, knows_servers: bool) -> Vec<Row> {
    let chunk = read(trace);
    assert!(!chunk.slots.is_empty(), "{}: no packets", trace.display());
    let config = FlowConfig {
        checksums: if cmd.contains(" -C") { VerifiedChecksums::None } else { VerifiedChecksums::All },
        guess_initiator: knows_servers,
        ..FlowConfig::default()
    };
    let has_port = |layers: &Layers, ports: &[u16]| layers.ports.iter().any(|port| ports.contains(port));
    let keep = |_: &Packet<'_>, layers: &Layers| match cmd {
        cmd if cmd.contains("'port 53 or port 80'") => has_port(layers, &[53, 80]),
        cmd if cmd.contains("\"port 50000\"") => has_port(layers, &[50000]),
        _ => true,
    };
    let (kept, _) = run(&chunk, &config, keep);
    kept.records.iter().map(row).collect()
}

/// A record in the form of conn.log: no duration and bytes if the duration is 0; ports of TCP, UDP and ICMP only.
fn row(record: &FlowRecord) -> Row {
    let has_ports = matches!(record.key.proto, 1 | 6 | 17 | 58);
    let port = |port: u16| if has_ports { port.to_string() } else { "0".to_owned() };
    let micros = (record.last.0 + 500) / 1000 - (record.first.0 + 500) / 1000;
    let when_long = |text: String| if record.duration() == 0 { "-".to_owned() } else { text };
    let (initiator, responder) = (record.initiator(), record.responder());
    let history = record.history.as_str();
    vec![
        address(initiator.0).to_string(),
        port(initiator.1),
        address(responder.0).to_string(),
        port(responder.1),
        when_long(format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)),
        when_long(record.zeek_bytes(Direction::Forward).to_string()),
        when_long(record.zeek_bytes(Direction::Reverse).to_string()),
        record.state.name().to_owned(),
        if history.is_empty() { "-".to_owned() } else { history.to_owned() },
        format!("{}/{}", record.forward.packets, record.forward.ip_bytes),
        format!("{}/{}", record.reverse.packets, record.reverse.ip_bytes),
        record.key.proto.to_string(),
    ]
}
