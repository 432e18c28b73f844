//! What is read of payload follows from what is asked: only the flows that a subscription can cover are reassembled and parsed.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use support::*;

/// The flows that were inspected, and the TCP streams that were reassembled.
fn inspected(ran: &Ran) -> [u64; 2] {
    let lines = ran.json();
    let sessions = lines.iter().find(|line| line["kind"] == "sessions");
    ["sessions", "streams"].map(|name| sessions.map_or(0, |line| line[name].as_u64().unwrap()))
}

/// A hundred subscriptions over networks that do not occur read nothing, and one over a host reads its flows.
#[test]
fn only_flows_that_a_subscription_can_cover_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let sample = sample();
    let of = |subscriptions: &str| {
        let file = put(folder.path(), "weir.toml", subscriptions.as_bytes());
        inspected(&weir([text(&sample), "-n", "-j", "--config", text(&file)]).exits(0))
    };
    let subscription = |level: &str, condition: &str, chain: &str| {
        format!(
            "[[subscription]]\nname = \"{condition}\"\nlevel = \"{level}\"\nwhere = '{condition}'\nchain = [\"{chain}\"]\n"
        )
    };
    let nowhere: String = (0..100)
        .map(|n| subscription("record", &format!("net 198.51.{n}.0/24 and dns.query"), "records"))
        .collect();
    assert_eq!(of(&nowhere), [0, 0]);
    let all = of(&subscription("record", "dns.query or http.host", "records"));
    let one =
        of(&(nowhere.clone() + &subscription("record", "http.host and host 10.99.0.104", "top http.host")));
    let flows = fs::read_to_string({
        let out = folder.path().join("out");
        weir([text(&sample), "-q", "-n", "-o", text(&out), "--log", "zeek-json:flow=host 10.99.0.104"])
            .exits(0);
        out.join("conn.json")
    });
    let of_host = objects(&flows.unwrap()).len() as u64;
    println!("{one:?} of {all:?} flows and streams were read; the host has {of_host} flows");
    assert!(one[0] > 0 && one[0] <= of_host && one[0] < all[0] / 2, "{one:?} {all:?} {of_host}");
    // Records of files may be of flows that others announce: all flows are identified for them, and few are parsed.
    let files = of(&subscription("record", "files.mime_type and host 10.99.0.104", "records"));
    assert_eq!(files[0], all[0]);
}

/// The rows of the logs of a directory, by file.
fn rows(folder: &Path) -> BTreeMap<String, Vec<Value>> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |file: fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        (name, objects(&String::from_utf8_lossy(&fs::read(file.path()).unwrap())))
    };
    files.map(of).collect()
}

/// Logs of one host, alone in their run, have the rows of that host in the logs of all, also of the flows that flows of others
/// have announced.
#[test]
fn logs_of_one_host_are_its_part_of_the_whole_logs() {
    let folder = tempfile::tempdir().unwrap();
    let (all, out) = (folder.path().join("all"), folder.path().join("out"));
    let (mut compared, mut runs) = (0, 0);
    let announcing = ["ftp", "sip", "tftp", "irc"];
    let announcing: Vec<_> = captures()
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().to_lowercase();
            announcing.iter().any(|word| name.contains(word)) && fs::metadata(path).unwrap().len() < 1 << 20
        })
        .step_by(4)
        .take(24)
        .collect();
    for capture in [sample()].into_iter().chain(diverse(14)).chain(announcing) {
        let _ = fs::remove_dir_all(&all);
        weir([text(&capture), "-q", "-n", "-o", text(&all), "--log", "zeek-json"]);
        let whole = rows(&all);
        let hosts: BTreeSet<&str> =
            whole.values().flatten().filter_map(|row| row["id.resp_h"].as_str()).collect();
        // The first, the last, and one between.
        let hosts: Vec<&str> = hosts.into_iter().collect();
        let picked: BTreeSet<&str> = [0, hosts.len() / 2, hosts.len().saturating_sub(1)]
            .iter()
            .filter_map(|at| hosts.get(*at))
            .copied()
            .collect();
        for host in picked {
            let tables = ["flow", "dns+http", "tls+x509", "files", "ftp+sip", "ssh+smtp"];
            for tables in tables {
                let _ = fs::remove_dir_all(&out);
                let log = format!("zeek-json:{tables}=host {host}");
                let ran = weir([text(&capture), "-q", "-n", "-o", text(&out), "--log", &log]);
                assert!(!ran.stderr.contains("--log"), "{}", ran.stderr);
                runs += 1;
                for (name, found) in rows(&out) {
                    let is_of_host = |row: &&Value| row["id.orig_h"] == host || row["id.resp_h"] == host;
                    if name == "conn.json" && tables != "flow" {
                        assert!(found.is_empty(), "{log}");
                        continue;
                    }
                    let expected: Vec<&Value> = whole[&name].iter().filter(is_of_host).collect();
                    // One protocol may have a row of two tables in one file.
                    let found: Vec<&Value> = found.iter().collect();
                    let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
                    assert!(
                        found.len() == expected.len() && differs.is_none(),
                        "{name} of {}, {log}: {} rows, not {}; {differs:?}",
                        capture.display(),
                        found.len(),
                        expected.len()
                    );
                    compared += found.len();
                }
            }
        }
    }
    println!("{compared} rows of single hosts in {runs} runs are those of the whole logs");
    assert!(compared > 1_000, "{compared}");
}
