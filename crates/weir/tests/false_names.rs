//! Captures of protocols that are not parsed: their flows have no name of another protocol. Those that are identified have their own.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests end where they fail")]

mod support;

use std::fs;
use support::*;

/// Protocols as the list of captures names them, and their ports.
const OTHERS: [(&str, &[u16]); 17] = [
    ("ams", &[48_898]),
    ("bacnet", &[47_808]),
    ("bvlc", &[47_808]),
    ("cip", &[44_818, 2222]),
    ("coap", &[5683]),
    ("cotp", &[102]),
    ("cql", &[9042]),
    ("dnp3", &[20_000]),
    ("drda", &[446, 50_000]),
    ("enip", &[44_818, 2222]),
    ("iec60870_104", &[2404]),
    ("mms", &[102]),
    ("omron", &[9600]),
    ("opcua", &[4840]),
    ("s7comm", &[102]),
    ("synphasor", &[4712, 4713]),
    ("tpkt", &[102]),
];

/// The names of those that are identified, in Zeek's words. CIP is within
/// EtherNet/IP, and S7 is within COTP.
const OWN: [(&str, &str); 12] = [
    ("bacnet", "bacnet"),
    ("bvlc", "bacnet"),
    ("cip", "enip"),
    ("coap", "coap"),
    ("dnp3", "dnp3_tcp"),
    ("dnp3", "dnp3_udp"),
    ("enip", "enip"),
    ("iec60870_104", "iec104"),
    ("opcua", "opcua"),
    ("s7comm", "s7comm"),
    ("tpkt", "s7comm"),
    ("cotp", "s7comm"),
];

#[test]
fn flows_of_other_protocols_have_no_name() {
    let folder = root().join("../shared/breadth");
    let Ok(index) = fs::read(folder.join("index.json")) else {
        println!("skipped: ../shared/breadth is absent");
        return;
    };
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let (mut flows, mut own, mut wrong) = (0, 0, Vec::new());
    for entry in index.as_array().unwrap() {
        let named: Vec<&str> =
            entry["protocols"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
        let ports: Vec<u16> = OTHERS
            .iter()
            .filter(|(name, _)| named.contains(name))
            .flat_map(|(_, ports)| ports.iter().copied())
            .collect();
        if ports.is_empty() {
            continue;
        }
        let (file, out) = (folder.join(entry["file"].as_str().unwrap()), tempfile::tempdir().unwrap());
        weir([text(&file), "-o", text(out.path()), "--log", "zeek"]).exits(0);
        // Captures without IP have none.
        let Ok(log) = fs::read_to_string(out.path().join("conn.log")) else { continue };
        for line in log.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            let port = |at: usize| columns[at].parse::<u16>().unwrap_or(0);
            if !ports.contains(&port(3)) && !ports.contains(&port(5)) {
                continue;
            }
            flows += 1;
            // Any protocol can be spoken within TLS.
            let is_own = |(of, name): &(&str, &str)| *name == columns[7] && named.contains(of);
            if OWN.iter().any(is_own) {
                own += 1;
            } else if !["-", "ssl"].contains(&columns[7]) {
                wrong.push(format!("{}: {line}", file.display()));
            }
        }
    }
    println!("{flows} flows of other protocols, {own} with their own name, {} with a wrong one", wrong.len());
    assert!(flows > own);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
