//! Zeek's logs of its own tests.

use crate::{data, is_emitted, json, logs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Logs that are compared, and rows of each that are to be equal.
const REQUIRED: &[(&str, usize)] = &[
    ("dhcp", 2),
    ("dns", 22),
    ("files", 3),
    ("ftp", 18),
    ("http", 72),
    ("ntp", 62),
    ("quic", 6),
    ("sip", 1),
    ("smb_files", 11),
    ("smb_mapping", 2),
    ("smtp", 16),
    ("ssh", 2),
    ("ssl", 20),
    ("syslog", 5),
    ("tunnel", 40),
    ("weird", 3),
    ("x509", 28),
];

/// Names that each program makes itself: only how many there are is compared.
const MADE: [&str; 10] = [
    "fuid",
    "fuids",
    "parent_fuid",
    "orig_fuids",
    "resp_fuids",
    "cert_chain_fuids",
    "client_cert_chain_fuids",
    "server_cert_fuid",
    "client_cert_fuid",
    "conn_uids",
];

/// Columns that say nothing here: masked in the baselines.
const MASKED: [&str; 3] = ["ts", "uid", "uids"];

/// What a script of Zeek's own test changes in the log, by the test's name: not in the packets, so not compared.
const CHANGED: &[(&str, &[&str])] = &[
    // It masks the client's address.
    ("language.init-in-anon-function", &["id.orig_h"]),
    // They set limits of 4, 9, 13 and 17 bytes on what is kept.
    ("ftp.ftp-max-user-length", &["user", "password"]),
    ("ftp.ftp-max-arg-length", &["arg", "reply_msg"]),
    // They ask for checksums and extraction.
    ("file-analysis.logging", &["analyzers", "md5", "sha1", "sha256", "extracted", "extracted_cutoff"]),
    ("file-analysis.big-bof-buffer", &["analyzers", "md5", "sha1", "sha256"]),
    ("file-analysis.bifs.register_mime_type", &["analyzers", "md5"]),
];

/// Logs of tests whose scripts make what is in them.
const MADE_BY_SCRIPT: &[&str] = &[
    // It hands the bytes of a DNS packet to the parser of HTTP.
    "spicy.protocol-analyzer-data-in-from-tcp-to-udp/http.log",
    // It makes a file that no packet carries.
    "file-analysis.logging-input-analysis/files.log",
    "plugins.file/weird.log",
];

pub type Row = BTreeMap<String, String>;

pub fn rows(path: &Path) -> Vec<Row> {
    // A protocol that nobody speaks leaves no log.
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(fields) = line.strip_prefix("#fields\t") {
            names = fields.split('\t').map(str::to_owned).collect();
        } else if !line.starts_with('#') {
            rows.push(names.iter().cloned().zip(line.split('\t').map(str::to_owned)).collect());
        }
    }
    rows
}

/// How the fields that both have are equal.
fn field<'r>(name: &str, theirs: &'r str, ours: &'r str) -> bool {
    if MADE.contains(&name) {
        let count = |text: &str| if text == "-" || text == "(empty)" { 0 } else { text.split(',').count() };
        return count(theirs) == count(ours);
    }
    // Members of a set have no order.
    let sorted = |text: &str| {
        let mut members: Vec<String> = text.split(',').map(str::to_owned).collect();
        members.sort();
        members
    };
    theirs == ours || name == "rcptto" && sorted(theirs) == sorted(ours)
}

/// The fields that both have and that differ.
fn differences<'r>(theirs: &'r Row, ours: &'r Row) -> Vec<(&'r str, &'r str, &'r str)> {
    let both =
        theirs.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str(), ours.get(name)?)));
    both.filter(|(name, theirs, ours)| !MASKED.contains(name) && !field(name, theirs, ours))
        .map(|(name, theirs, ours)| (name, theirs, ours.as_str()))
        .collect()
}

/// What Zeek's command line says of the packets that it looks at.
fn options(command: &str) -> Vec<&'static str> {
    let mut options = vec!["--checksum", if command.contains(" -C") { "off" } else { "on" }];
    if command.contains("'port 53 or port 80'") {
        options.push("port 53 or port 80");
    } else if command.contains("'src port not 445") {
        options.push("src port not 445 or tcp[tcpflags] & tcp-syn != 0");
    }
    options
}

#[derive(Default)]
struct Score {
    passed: usize,
    total: usize,
    /// Rows that Zeek does not have.
    more: usize,
    /// Rows that are not compared: a script makes them.
    script: usize,
    /// Rows that differ in a field, or have it in common.
    fields: BTreeMap<String, (usize, usize)>,
}

#[test]
fn logs_are_zeeks() {
    let Some(folder) = data("zeek") else { return };
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    let mut runs = HashMap::new();
    let index = json(&folder.join("index.json"));
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let of = |entry: &Value| {
        REQUIRED.iter().map(|(log, _)| *log).find(|log| text(entry, "log") == format!("{log}.log"))
    };
    let compared: Vec<(&str, &Value)> =
        index.as_array().unwrap().iter().filter_map(|entry| Some((of(entry)?, entry))).collect();
    let mut names = BTreeSet::new();
    for (_, entry) in &compared {
        let trace = text(entry, "trace");
        let options = options(&text(entry, "cmd"));
        let run = runs
            .entry((trace.clone(), options.clone()))
            .or_insert_with(|| logs(&folder.join("traces").join(trace), &options));
        names
            .extend(rows(&run.path().join("weird.log")).into_iter().filter_map(|mut row| row.remove("name")));
    }
    let mut nameless = 0;
    for (log, entry) in compared {
        let text = |name: &str| text(entry, name);
        let run = &runs[&(text("trace"), options(&text("cmd")))];
        let mut ours = rows(&run.path().join(text("log")));
        let score = scores.entry(log).or_default();
        let mut missing = Vec::new();
        let all = rows(&folder.join(text("baseline")));
        if MADE_BY_SCRIPT.iter().any(|made| text("baseline").contains(made)) {
            score.script += all.len();
            continue;
        }
        let changed = CHANGED.iter().find(|(test, _)| text("baseline").contains(&format!("{test}/")));
        for mut theirs in all {
            if log == "weird" && theirs.get("name").is_some_and(|name| !names.contains(name)) {
                nameless += 1;
                continue;
            }
            theirs.retain(|name, _| changed.is_none_or(|(_, fields)| !fields.contains(&name.as_str())));
            score.total += 1;
            match ours.iter().position(|ours| differences(&theirs, ours).is_empty()) {
                Some(at) => {
                    for name in ours.swap_remove(at).keys().filter(|name| theirs.contains_key(*name)) {
                        score.fields.entry(name.clone()).or_default().1 += 1;
                    }
                    score.passed += 1;
                }
                None => missing.push(theirs),
            }
        }
        for theirs in missing {
            let near = |at: &usize| differences(&theirs, &ours[*at]).len();
            let is_of_flow = |at: &usize| {
                differences(&theirs, &ours[*at]).iter().all(|(name, ..)| !name.starts_with("id."))
            };
            let best = (0..ours.len()).filter(is_of_flow).min_by_key(near);
            let name = text("baseline");
            let Some(our) = best.map(|at| ours.swap_remove(at)) else {
                emit(&name, &theirs, "no row");
                continue;
            };
            let different = differences(&theirs, &our);
            for name in our.keys().filter(|name| theirs.contains_key(*name)) {
                score.fields.entry(name.clone()).or_default().1 += 1;
            }
            for (name, ..) in &different {
                score.fields.entry((*name).to_owned()).or_default().0 += 1;
            }
            let said: Vec<String> =
                different.iter().map(|(name, theirs, ours)| format!("{name}: {theirs} | {ours}")).collect();
            emit(&name, &theirs, &said.join("; "));
        }
        score.more += ours.len();
    }
    let (mut passed, mut total) = (0, 0);
    println!("weird.log: {nameless} rows are of names that are not ours");
    let mut short = Vec::new();
    for (log, required) in REQUIRED {
        let score = scores.remove(log).unwrap_or_default();
        println!(
            "{log}.log: passed {} of {}, required {required}; {} rows that Zeek does not have, {} that a script makes",
            score.passed, score.total, score.more, score.script
        );
        let different = score.fields.iter().filter(|(_, (different, _))| *different > 0);
        for (name, (different, of)) in different {
            println!("    {name}: {} of {of}", of - different);
        }
        if score.passed < *required {
            short.push(*log);
        }
        passed += score.passed;
        total += score.total;
    }
    println!("Zeek's rows: passed {passed} of {total}");
    assert!(short.is_empty(), "fewer rows than required: {short:?}");
}

fn emit(baseline: &str, theirs: &Row, what: &str) {
    if is_emitted() {
        let get = |name: &str| theirs.get(name).map_or("-", String::as_str);
        println!(
            "{}: {}:{} {}:{}: {what}",
            baseline.trim_start_matches("Baseline/"),
            get("id.orig_h"),
            get("id.orig_p"),
            get("id.resp_h"),
            get("id.resp_p")
        );
    }
}
