//! What subscriptions deliver: each log has the rows of the whole log that its condition selects, with any number of workers
//! and beside any other logs.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use support::*;

/// A subscription with a log, and the rows that it must have.
struct Case {
    text: &'static str,
    /// The file, and the file of the whole log.
    files: &'static [(&'static str, &'static str)],
    /// Whether a row of the whole log is in it.
    has: fn(&Cell<'_>) -> bool,
}

/// The cell of a column in a row; `absent` without the column.
type Cell<'c> = dyn Fn(&str) -> String + 'c;

const CASES: [Case; 5] = [
    Case {
        text: "name = \"no such name\"\nlevel = \"record\"\nwhere = 'dns.rcode_name = NXDOMAIN'\nchain = [\"log nx format csv\"]",
        files: &[("nx.dns.csv", "dns.csv")],
        has: |cell| cell("rcode_name") == "NXDOMAIN",
    },
    Case {
        text: "name = \"clients\"\nlevel = \"record\"\nwhere = 'ftp or http.status_code >= 300'\nchain = [\"top source\", \"log odd format csv\", \"records\"]",
        files: &[("odd.ftp.csv", "ftp.csv"), ("odd.http.csv", "http.csv")],
        // Cells of FTP have no status.
        has: |cell| {
            cell("status_code").parse().map_or(cell("status_code") == "absent", |code: u32| code >= 300)
        },
    },
    Case {
        text: "name = \"by the chain\"\nlevel = \"record\"\nchain = [\"where dns.qtype_name = AAAA\", \"log six format csv\"]",
        files: &[("six.dns.csv", "dns.csv")],
        has: |cell| cell("type_name") == "AAAA",
    },
    Case {
        text: "name = \"flows\"\nlevel = \"flow\"\nwhere = 'udp and port 53'\nchain = [\"log asked format csv\", \"top destination\"]",
        files: &[("asked.csv", "flows.csv")],
        has: |cell| {
            cell("protocol") == "udp" && (cell("source_port") == "53" || cell("destination_port") == "53")
        },
    },
    Case {
        text: "name = \"all flows\"\nlevel = \"flow\"\nchain = [\"log all format csv\"]",
        files: &[("all.csv", "flows.csv")],
        has: |_| true,
    },
];

fn configuration(cases: &[Case], logs: &str, folder: &Path) -> String {
    let tables: String = cases.iter().map(|case| format!("\n[[subscription]]\n{}\n", case.text)).collect();
    format!("[output]\ndir = \"{}\"\nlog = [{logs}]\n{tables}", text(folder))
}

/// The files that a run over captures writes into a directory.
fn written(captures: &[PathBuf], configuration: &str, out: &Path, more: &[&str]) -> BTreeMap<String, String> {
    let file = put(out.parent().unwrap(), "weir.toml", configuration.as_bytes());
    let captures = captures.iter().map(|path| text(path));
    weir(captures.chain(["-q", "--config", text(&file)]).chain(more.iter().copied())).exits(0);
    let files = fs::read_dir(out).unwrap().flatten();
    files
        .map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap()))
        .collect()
}

/// The header and the rows that a case selects of the file of a whole log; nothing if no row is selected.
fn selected(case: &Case, whole: &str) -> String {
    let mut lines = whole.split_inclusive("\r\n");
    let header = lines.next().unwrap_or_default();
    let rows: String = lines
        .filter(|line| {
            let cells = cells(line);
            (case.has)(&|column| {
                let at = header.trim_end().split(',').position(|name| name == column);
                at.map_or("absent".to_owned(), |at| cells[at].clone())
            })
        })
        .collect();
    if rows.is_empty() { rows } else { format!("{header}{rows}") }
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for letter in line.trim_end().chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cells.last_mut().unwrap().push(letter),
        }
    }
    cells
}

#[test]
fn a_log_has_the_rows_of_the_whole_log_that_its_condition_selects() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = [0; CASES.len()];
    let mut captures: Vec<PathBuf> = diverse(40);
    for protocol in ["dns", "ftp", "http", "sample"] {
        let made = fs::read_dir(root().join("testdata").join(protocol)).unwrap().flatten();
        captures.extend(
            made.map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "pcap")),
        );
    }
    for (at, capture) in captures.iter().enumerate() {
        let out = folder.path().join(format!("logs{at}"));
        let run = |more: &[&str]| {
            let _ = fs::remove_dir_all(&out);
            let file = put(folder.path(), "weir.toml", configuration(&CASES, "\"csv\"", &out).as_bytes());
            let arguments = [text(capture), "-q", "--config", text(&file)];
            // A capture that is cut off has results, too.
            weir(arguments.iter().chain(more));
            let files = fs::read_dir(&out).into_iter().flatten().flatten();
            files
                .map(|file| {
                    (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap())
                })
                .collect::<BTreeMap<_, _>>()
        };
        let one = run(&["--workers", "1"]);
        for (case, rows) in CASES.iter().zip(&mut rows) {
            for (file, whole) in case.files {
                let of = |name: &str| one.get(name).map_or("", String::as_str);
                let expected = selected(case, of(whole));
                let rows_of = |text: &str| text.lines().count();
                assert!(
                    of(file) == expected,
                    "{file} of {}: {} rows, {} expected",
                    capture.display(),
                    rows_of(of(file)),
                    rows_of(&expected)
                );
                *rows += of(file).lines().count().saturating_sub(1);
            }
        }
        if at % 4 == 0 {
            for workers in ["2", "3", "7"] {
                let mut many = run(&["--workers", workers]);
                let mut one = one.clone();
                // They have costs in time.
                for name in ["counts.csv", "values.csv"] {
                    many.remove(name);
                    one.remove(name);
                }
                let differ: Vec<&String> =
                    one.keys().filter(|name| many.get(*name) != one.get(*name)).collect();
                assert!(many == one, "{workers} workers, {}: {differ:?}", capture.display());
            }
        }
    }
    println!("rows of each log: {rows:?} of {} captures", captures.len());
    assert!(rows.iter().all(|rows| *rows > 0), "{rows:?}");
}

#[test]
fn a_log_is_what_it_is_alone_and_lines_are_objects() {
    let folder = tempfile::tempdir().unwrap();
    let captures = [sample(), root().join("testdata/ftp/ftp.pcap")].map(|path| path);
    let captures: Vec<PathBuf> = captures.into_iter().filter(|path| path.exists()).collect();
    let together = folder.path().join("together");
    let all = written(&captures, &configuration(&CASES, "", &together), &together, &[]);
    assert!(all.keys().all(|name| CASES.iter().any(|case| case.files.iter().any(|(file, _)| file == name))));
    for (at, case) in CASES.iter().enumerate() {
        let out = folder.path().join(format!("alone{at}"));
        let alone = written(&captures, &configuration(std::slice::from_ref(case), "", &out), &out, &[]);
        for (file, _) in case.files {
            assert_eq!(alone.get(*file), all.get(*file), "{file}");
        }
        assert!(
            alone.keys().all(|name| case.files.iter().any(|(file, _)| file == name)),
            "{:?}",
            alone.keys()
        );
    }
    let out = folder.path().join("lines");
    let lines = "\n[[subscription]]\nname = \"l\"\nlevel = \"record\"\nwhere = 'dns'\nchain = [\"log l\"]\n\
                 \n[[subscription]]\nname = \"f\"\nlevel = \"flow\"\nchain = [\"log f\"]\n";
    let mut written = written(&captures, &(configuration(&[], "\"csv\"", &out) + lines), &out, &[]);
    let flows = objects(&written.remove("f.ndjson").unwrap());
    assert_eq!(flows.len(), written["flows.csv"].lines().count() - 1);
    assert!(flows.iter().all(|line| line["kind"] == "flow" && line["uid"].is_string()));
    let records = objects(&written.remove("l.ndjson").unwrap());
    assert_eq!(records.len(), written["dns.csv"].lines().count() - 1);
    assert!(records.iter().all(|line| line["kind"] == "record" && line["dns"].is_object()));
}

#[test]
fn subscriptions_that_name_one_log_write_each_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logs");
    let one = |name: &str, condition: &str| {
        format!(
            "\n[[subscription]]\nname = \"{name}\"\nlevel = \"flow\"\nwhere = '{condition}'\nchain = [\"log shared format csv\"]\n"
        )
    };
    let tables = one("tcp", "tcp") + &one("web", "port 80") + &one("tcp again", "tcp");
    let files = written(&[sample()], &(configuration(&[], "\"csv\"", &out) + &tables), &out, &[]);
    let header = files["flows.csv"].lines().next().unwrap();
    let at = |name: &str| header.split(',').position(|cell| cell == name).unwrap();
    let (protocol, ports) = (at("protocol"), [at("source_port"), at("destination_port")]);
    let is_in = |line: &&str| {
        let cells = cells(line);
        cells[protocol] == "tcp" || ports.iter().any(|port| cells[*port] == "80")
    };
    let expected: Vec<&str> = files["flows.csv"].lines().skip(1).filter(is_in).collect();
    let rows: Vec<&str> = files["shared.csv"].lines().skip(1).collect();
    assert!(rows == expected && rows.len() > 100, "{} rows, {} expected", rows.len(), expected.len());
}

#[test]
fn logs_that_cannot_be_written_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logs");
    let refused = |chain: &str, more: &str, logs: &[&str], reason: &str| {
        let head =
            if logs.is_empty() { format!("[output]\ndir = \"{}\"\n", text(&out)) } else { String::new() };
        let table =
            format!("{head}\n[[subscription]]\nname = \"s\"\nlevel = \"flow\"\nchain = [{chain}]\n{more}");
        let file = put(folder.path(), "weir.toml", table.as_bytes());
        let sample = sample();
        let arguments = [text(&sample), "-q", "--config", text(&file)];
        let ran = weir(arguments.iter().chain(logs.iter().filter(|word| !word.is_empty())));
        assert_eq!(ran.code, Some(1), "{chain}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{chain}: {}", ran.stderr);
        assert!(!out.exists(), "{chain}");
    };
    for name in ["../x", "a/b", "", ".", "a.b", "\\u0000"] {
        refused(&format!("{{ log = \"{name}\" }}"), "", &[], "letters, digits, hyphens and underscores");
    }
    refused("\"log\"", "", &[], "log");
    refused("\"log x format xml\"", "", &[], "csv");
    refused("\"log flows format csv\"", "", &[], "flows.csv is a file of another log");
    refused("\"log dns format csv\"", "", &[], "dns.csv is a file of another log");
    refused("\"log weir\"", "", &[], "weir.ndjson is a file of another log");
    let second = "[[subscription]]\nname = \"t\"\nlevel = \"flow\"\nchain = [\"log x format csv\"]\n";
    refused("\"log x\"", second, &[], "x.ndjson in the subscription");
    refused("\"log x\"", "", &[""], "needs a directory: give it with --output DIR");
    refused("\"log x\"", "", &["-o", "-"], "--output - is standard output");
    let packets = "[[subscription]]\nname = \"t\"\nchain = [\"log y\"]\n";
    refused("\"log x\"", packets, &[], "log does not work on level = \"packet\"");
}

/// Expressions over flows that have ended; every field that one has is in one of them.
const ENDED: [&str; 39] = [
    "flow.bytes > 1000",
    "flow.sent_bytes < 500 and tcp",
    "flow.received_bytes",
    "flow.packets in (1, 2, 3)",
    "flow.sent_packets >= 4 or udp",
    "not flow.received_packets > 0",
    "flow.duration > 0.01",
    "flow.first >= 2000-01-01",
    "flow.last < 2020-01-01",
    "flow.state != SF",
    "flow.service",
    "flow.service = dns or flow.service contains ssl",
    "flow.client = 10.0.0.0/8",
    "flow.client_port > 1024",
    "flow.server in (10.0.0.0/8, 192.168.0.0/16)",
    "flow.server_port < 1024 and not flow.service",
    "flow.ip_proto = 6",
    "flow.vlan > 0",
    "flow.inner_vlan",
    "flow.tunnel",
    "flow.community_id begins 1:a",
    "flow.history contains D",
    "flow.reason = fin or flow.reason = shutdown",
    "flow.interface = 0",
    "flow.payload_bytes = 0",
    "flow.sent_payload_bytes > 100",
    "flow.received_payload_bytes <= 100",
    "flow.retransmitted > 0",
    "flow.sent_retransmitted = 0",
    "flow.received_retransmitted",
    "flow.missed_bytes > 0",
    "flow.bad_checksums > 0",
    "flow.later_fragments > 0",
    "flow.sent_tcp_flags contains S",
    "flow.received_tcp_flags",
    "flow.sent_ttl > 60 and src net 0.0.0.0/1",
    "flow.received_ttl < 65",
    "flow.client_mac",
    "flow.server_mac begins 00",
];

/// What a test of a field selects when a flow ends is what it selects of the stored flows.
#[test]
fn fields_of_flows_are_tested_when_they_end_as_in_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let tests = ENDED;
    let (mut compared, mut skipped, mut found) = (0, 0, vec![0; tests.len()]);
    for (at, capture) in diverse(24).into_iter().chain([sample()]).enumerate() {
        let out = folder.path().join(format!("logs{at}"));
        let tables: String = (0..)
            .zip(&tests)
            .map(|(n, test)| {
                format!("\n[[subscription]]\nname = \"s{n}\"\nlevel = \"flow\"\nwhere = '{test}'\nchain = [\"log s{n} format csv\"]\n")
            })
            .collect();
        let written = {
            let file = put(
                folder.path(),
                "weir.toml",
                (configuration(&[], "\"store\", \"csv:flow\"", &out) + &tables).as_bytes(),
            );
            weir([text(&capture), "-q", "--config", text(&file)]);
            |name: &str| fs::read_to_string(out.join(name)).unwrap_or_default()
        };
        let column = |csv: &str, name: &str| -> Vec<String> {
            let at = csv.lines().next().and_then(|header| header.split(',').position(|cell| cell == name));
            at.map_or(Vec::new(), |at| csv.lines().skip(1).map(|line| cells(line)[at].clone()).collect())
        };
        let stored = |test: &str| -> Vec<String> {
            let condition = if test.is_empty() { String::new() } else { format!(" where {test}") };
            let query = format!("flows limit 10000{condition}");
            let ran = weir(["query", &query, "--csv", "-d", text(&out)]);
            let mut found = column(&ran.text(), "uid");
            found.sort();
            found
        };
        let all = stored("");
        if all.len() != column(&written("flows.csv"), "uid").len() {
            // Late segments of a connection are a row of the log and no flow of a store.
            skipped += 1;
            continue;
        }
        for ((n, test), found) in tests.iter().enumerate().zip(&mut found) {
            let mut live = column(&written(&format!("s{n}.csv")), "uid");
            live.sort();
            let stored = stored(test);
            assert!(
                live == stored,
                "{test} of {}: {} flows, {} in the store",
                capture.display(),
                live.len(),
                stored.len()
            );
            *found += live.len();
        }
        compared += 1;
    }
    println!("{compared} captures compared, {skipped} with late segments skipped; flows: {found:?}");
    let decided = found.iter().filter(|found| **found > 0).count();
    assert!(compared >= 12 && decided >= tests.len() - 8, "{compared} {found:?}");
}
