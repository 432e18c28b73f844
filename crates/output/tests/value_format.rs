//! The format of values in conn.log: the header, and how addresses, numbers, durations and unset values are written.
//!
//! Each row of Zeek's log is converted to a flow and written again. This tests the format of values, and not what a flow
//! is, which is tested by `weir/tests/truth/zeek.rs`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests report what they ran, and end where they fail"
)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use weir_engine::{ConnState, EndReason, FlowRecord, History, Side};
use weir_output::{OutputContext, OutputSpec};
use weir_wire::{FlowKey, Time, Tunnel, mapped};

/// Minimum number of rows with equally formatted values.
const REQUIRED: usize = 310;

/// Columns of Zeek's scripts policy/protocols/conn/vlan-logging and community-id-logging.
const MORE_FIELDS: &str = "\tvlan\tinner_vlan\tcommunity_id";
const MORE_TYPES: &str = "\tint\tint\tstring";

/// Columns that are not compared: masked in the baseline, or not in a flow.
const OTHERS: [&str; 6] = ["ts", "uid", "service", "history", "tunnel_parents", "missed_bytes"];

fn baseline() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/zeek/Baseline");
    if !folder.is_dir() {
        println!("skipped: ../shared/data is absent");
        return None;
    }
    Some(folder)
}

/// conn.log of the given flows.
fn written(flows: &[FlowRecord]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let context = OutputContext { directory: directory.path().to_owned(), ..OutputContext::default() };
    let mut output = (OutputSpec::find("zeek").unwrap().open)(&context).unwrap();
    for flow in flows {
        output.flow(flow).unwrap();
    }
    output.finish().unwrap();
    let text = std::fs::read_to_string(directory.path().join("conn.log")).unwrap();
    text.lines().map(str::to_owned).collect()
}

type Row = HashMap<String, String>;

fn rows(lines: &[String]) -> Vec<Row> {
    let fields = lines.iter().find_map(|line| line.strip_prefix("#fields\t")).unwrap_or_default();
    let fields: Vec<&str> = fields.split('\t').collect();
    let rows = lines.iter().filter(|line| !line.starts_with('#'));
    rows.map(|line| fields.iter().map(|f| (*f).to_owned()).zip(line.split('\t').map(str::to_owned)).collect())
        .collect()
}

/// The flow of a row.
fn flow(row: &Row) -> Option<FlowRecord> {
    let number = |name: &str| row.get(name).and_then(|text| text.parse::<u64>().ok());
    let address = |name: &str| {
        row.get(name)?.parse::<IpAddr>().ok().map(|address| match address {
            IpAddr::V4(v4) => mapped(v4.octets()),
            IpAddr::V6(v6) => v6.octets(),
        })
    };
    let orig = (address("id.orig_h")?, number("id.orig_p")? as u16);
    let resp = (address("id.resp_h")?, number("id.resp_p")? as u16);
    let initiator_is_lower = orig <= resp;
    let (low, high) = if initiator_is_lower { (orig, resp) } else { (resp, orig) };
    let proto = number("ip_proto")? as u8;
    let duration: f64 = row.get("duration")?.parse().unwrap_or(0.0);
    let side = |bytes: &str, packets: &str, ip: &str| {
        Some(Side {
            packets: number(packets)?,
            ip_bytes: number(ip)?,
            payload_bytes: number(bytes).unwrap_or(0),
            ..Side::default()
        })
    };
    let states = [
        ConnState::S0,
        ConnState::S1,
        ConnState::S2,
        ConnState::S3,
        ConnState::SF,
        ConnState::Rej,
        ConnState::RstO,
        ConnState::RstR,
        ConnState::RstOS0,
        ConnState::RstRH,
        ConnState::SH,
        ConnState::ShR,
        ConnState::Oth,
    ];
    let mut flow = FlowRecord {
        key: FlowKey { addr: [low.0, high.0], port: [low.1, high.1], proto, ..FlowKey::default() },
        initiator_is_lower,
        id: 1,
        first: Time(0),
        last: Time((duration * 1e6).round() as u64 * 1000),
        forward: side("orig_bytes", "orig_pkts", "orig_ip_bytes")?,
        reverse: side("resp_bytes", "resp_pkts", "resp_ip_bytes")?,
        tcp: None,
        state: states.into_iter().find(|state| state.name() == row["conn_state"])?,
        history: History::default(),
        end: EndReason::Shutdown,
        vlan: ["vlan", "inner_vlan"].map(|name| number(name).unwrap_or(0) as u16),
        tunnel: Tunnel::None,
        parent: 0,
        other_parent: 0,
        follows: 0,
        carrier: false,
        carries: Tunnel::None,
        interface: 0,
        services: [0; 4],
        is_unidentified: false,
        own_apps: 0,
        alerted: false,
        verdict: None,
    };
    if proto == 6 {
        let tcp = flow.tcp.insert(Default::default());
        tcp.stream_bytes = ["orig_bytes", "resp_bytes"].map(|name| number(name).unwrap_or(0));
    }
    Some(flow)
}

#[test]
fn the_header_is_zeeks_with_three_more_columns() {
    let Some(folder) = baseline() else { return };
    let theirs = std::fs::read_to_string(folder.join("core.q-in-q/conn.log")).unwrap();
    let ours = written(&[]);
    let mut compared = 0;
    for (ours, theirs) in ours.iter().zip(theirs.lines().skip_while(|line| !line.starts_with("#separator"))) {
        let tag = theirs.split(['\t', ' ']).next().unwrap_or_default();
        match tag {
            "#open" | "#close" => assert!(ours.starts_with(&format!("{tag}\t")), "{ours}"),
            "#fields" => assert_eq!(ours, &format!("{theirs}{MORE_FIELDS}")),
            "#types" => assert_eq!(ours, &format!("{theirs}{MORE_TYPES}")),
            _ => assert_eq!(ours, theirs),
        }
        compared += 1;
        if tag == "#types" {
            break;
        }
    }
    assert_eq!(compared, 8);
    let with_vlans = folder.join("scripts.policy.protocols.conn.vlan-logging/conn.log");
    let with_vlans = std::fs::read_to_string(with_vlans).unwrap();
    let fields = with_vlans.lines().find(|line| line.starts_with("#fields")).unwrap();
    assert!(ours.iter().any(|line| line.strip_suffix("\tcommunity_id") == Some(fields)), "{fields}");
}

#[test]
fn values_are_formatted_as_in_zeek() {
    let Some(folder) = baseline() else { return };
    let (mut passed, mut total) = (0, 0);
    let mut logs: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().join("conn.log")).collect();
    logs.sort();
    for log in logs.iter().filter(|log| log.is_file()) {
        let text = std::fs::read_to_string(log).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for theirs in rows(&lines) {
            let Some(flow) = flow(&theirs) else { continue };
            total += 1;
            let ours = rows(&written(&[flow])).remove(0);
            let differs: Vec<String> = theirs
                .iter()
                .filter(|(name, value)| {
                    ours.get(*name).is_some_and(|ours| ours != *value) && !OTHERS.contains(&name.as_str())
                })
                .map(|(name, value)| format!("{name}: Zeek {value}, Weir {}", ours[name]))
                .collect();
            if differs.is_empty() {
                passed += 1;
            } else {
                println!(
                    "{}: {} {}: {}",
                    log.display(),
                    theirs["id.orig_h"],
                    theirs["id.resp_h"],
                    differs.join("; ")
                );
            }
        }
    }
    println!("formatted as in Zeek's conn.log: {passed} of {total} rows, required {REQUIRED}");
    assert!(passed >= REQUIRED, "passed {passed} of {total}, required {REQUIRED}");
}
