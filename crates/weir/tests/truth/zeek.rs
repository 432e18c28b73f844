//! Zeek's logs of its own tests, all of them.
//!
//! A row is right if every field that both have is equal. Rows and fields are counted whole: a row that Weir does not
//! write counts with all its fields. What is outside (a script of the test made it, or no parser here reads the
//! protocol) is printed beside the figures with its reason. Captures that are set aside are measured, and nothing of
//! them is printed: see `support/aside.rs`.

use crate::support::aside::{Figure, is_aside};
use crate::{data, is_emitted, json, logs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Rows of each log that are to be right: of the captures that are looked at, and of those that are set aside.
const REQUIRED: &[(&str, [usize; 2])] = &[
    ("conn", [380, 18]),
    ("dhcp", [0, 2]),
    ("dns", [20, 3]),
    ("files", [3, 0]),
    ("ftp", [18, 0]),
    ("http", [70, 3]),
    ("kerberos", [15, 0]),
    ("ldap", [11, 0]),
    ("mysql", [44, 4]),
    ("ntp", [62, 0]),
    ("quic", [5, 1]),
    ("radius", [0, 1]),
    ("sip", [1, 0]),
    ("smb_files", [3, 8]),
    ("smb_mapping", [2, 0]),
    ("smtp", [7, 10]),
    ("ssh", [1, 1]),
    ("ssl", [12, 8]),
    ("syslog", [5, 0]),
    ("tunnel", [31, 10]),
    ("weird", [11, 3]),
    ("x509", [13, 15]),
];

/// Names that each program makes itself: only how many there are is compared.
const MADE: [&str; 11] = [
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
    "tunnel_parents",
];

/// Columns that say nothing here: masked in the baselines.
const MASKED: [&str; 3] = ["ts", "uid", "uids"];

/// Columns that are sets: their members have no order.
const SETS: [&str; 3] = ["rcptto", "service", "to"];

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
    // It switches the counting of packets off.
    ("analyzer.request-analyzer", &["orig_pkts", "orig_ip_bytes", "resp_pkts", "resp_ip_bytes"]),
    // It looks at packets in tunnels, and not at the tunnels.
    ("core.skip_analyzer", &["tunnel_parents"]),
];

/// Rows that no packet tells of: test and log, a column and its value if only some rows of the log are meant, reason.
const OUTSIDE: &[(&str, (&str, &str), &str)] = &[
    (
        "spicy.protocol-analyzer-data-in-from-tcp-to-udp/http.log",
        ALL,
        "the test's script hands the bytes of a DNS packet to the parser of HTTP",
    ),
    ("file-analysis.logging-input-analysis/files.log", ALL, "the test's script makes a file"),
    ("plugins.file/weird.log", ALL, "the test's plugin makes the row"),
    ("core.local-flip/conn.log", ALL, "the test's script turns connections round by its local networks"),
    ("core.pcap.dynamic-filter/conn.log", ALL, "the test's script changes the filter while it runs"),
    (
        "frameworks.logging.",
        ("id.resp_p", "6705"),
        "Zeek ran without its scripts (-b), which know the ports of servers",
    ),
    ("signatures.eval-condition/conn.log", ("service", "ftp,blah"), "the test's signature names a service"),
    ("/ftp.log", ("command", "USER"), "the test's script logs more commands than Zeek does"),
    ("/ftp.log", ("command", "SYST"), "the test's script logs more commands than Zeek does"),
    ("/weird.log", ("name", "FTP_user_too_long"), "a limit that the test's script sets"),
    ("/weird.log", ("name", "FTP_password_too_long"), "a limit that the test's script sets"),
    ("/weird.log", ("name", "FTP_reply_msg_too_long"), "a limit that the test's script sets"),
    ("/weird.log", ("name", "FTP_arg_too_long"), "a limit that the test's script sets"),
    ("/weird.log", ("name", "SMB_discarded_messages_state"), "a limit that the test's script sets"),
    ("/weird.log", ("name", "exceeded_tunnel_max_depth_in_tunnel"), "a limit that the test's script sets"),
    ("/weird.log", ("name", "exceeded_gnutella_max_line_length"), "no parser here reads the protocol"),
    ("/weird.log", ("name", "too_many_analyzer_violations"), "a step of Zeek's, not of the packets"),
];

/// Every row of a log.
const ALL: (&str, &str) = ("", "");

pub type Row = BTreeMap<String, String>;

/// The rows of a log. A protocol that no host speaks leaves no log.
pub fn rows(path: &Path) -> Vec<Row> {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let (mut names, mut rows) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(fields) = line.strip_prefix("#fields\t") {
            names = fields.split('\t').map(canonical).collect();
        } else if !line.starts_with('#') {
            rows.push(names.iter().cloned().zip(line.split('\t').map(str::to_owned)).collect());
        }
    }
    rows
}

/// A column under its usual name: some logs are of tests that rename columns.
fn canonical(name: &str) -> String {
    match name {
        "src" => "id.orig_h".to_owned(),
        "src_port" => "id.orig_p".to_owned(),
        "dst" => "id.resp_h".to_owned(),
        "dst_port" => "id.resp_p".to_owned(),
        _ => match name.strip_prefix("id_").or(name.strip_prefix("id*")) {
            Some(end) => format!("id.{end}"),
            None => name.to_owned(),
        },
    }
}

/// Whether the values of a field are equal.
fn is_equal(name: &str, theirs: &str, ours: &str) -> bool {
    if MADE.contains(&name) {
        let count = |text: &str| if text == "-" || text == "(empty)" { 0 } else { text.split(',').count() };
        return count(theirs) == count(ours);
    }
    let sorted = |text: &str| {
        // A minus stands before the name of a parser of Zeek's that gave up.
        let members = text.split(',').filter(|member| name != "service" || !member.starts_with('-'));
        let mut members: Vec<String> = members.map(str::to_owned).collect();
        members.sort();
        members
    };
    theirs == ours || SETS.contains(&name) && sorted(theirs) == sorted(ours)
}

/// The fields that both have and that differ.
fn differences<'r>(theirs: &'r Row, ours: &'r Row) -> Vec<(&'r str, &'r str, &'r str)> {
    let both =
        theirs.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str(), ours.get(name)?)));
    both.filter(|(name, theirs, ours)| !is_equal(name, theirs, ours))
        .map(|(name, theirs, ours)| (name, theirs, ours.as_str()))
        .collect()
}

/// What Zeek's command line says of the packets that it looks at.
fn options(command: &str) -> Vec<&'static str> {
    let mut options = vec!["--checksum", if command.contains(" -C") { "off" } else { "on" }];
    if command.contains("'port 53 or port 80'") {
        options.push("port 53 or port 80");
    } else if command.contains("\"port 50000\"") {
        options.push("port 50000");
    } else if command.contains("'src port not 445") {
        options.push("src port not 445 or tcp[tcpflags] & tcp-syn != 0");
    }
    options
}

/// A log of Zeek's, and what it is of.
struct Log<'i> {
    /// Its name, without `.log`.
    name: String,
    trace: &'i str,
    command: &'i str,
    baseline: &'i str,
}

impl<'i> Log<'i> {
    fn of(entry: &'i Value) -> Self {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let name = text("log").trim_end_matches(".log").to_owned();
        Self { name, trace: text("trace"), command: text("cmd"), baseline: text("baseline") }
    }

    /// The reason why a row is not compared.
    fn outside(&self, row: &Row) -> Option<&'static str> {
        let is_it = |(log, (column, value), _): &&(&str, (&str, &str), &str)| {
            self.baseline.contains(log)
                && (column.is_empty() || row.get(*column).is_some_and(|is| is == value))
        };
        OUTSIDE.iter().find(is_it).map(|(.., reason)| *reason)
    }

    /// Leaves what can be compared. Returns the number of services that are not.
    fn trim(&self, row: &mut Row, columns: &BTreeSet<String>) -> usize {
        let changed = CHANGED.iter().find(|(test, _)| self.baseline.contains(&format!("{test}/")));
        let is_changed = |name: &str| changed.is_some_and(|(_, fields)| fields.contains(&name));
        let bare = self.command.contains(" -b") && row.get("service").is_some_and(|service| service == "-");
        row.retain(|name, _| {
            let is_compared = !MASKED.contains(&name.as_str()) && !is_changed(name);
            is_compared && columns.contains(name) && !(bare && name == "service")
        });
        usize::from(bare)
    }
}

#[derive(Default)]
struct Score {
    rows: Figure,
    fields: Figure,
    /// Rows that Zeek does not have.
    more: usize,
    /// Rows that are not compared, by reason.
    outside: BTreeMap<&'static str, usize>,
    /// Zeek's columns that are not ours.
    theirs: BTreeSet<String>,
    /// Rows without Zeek's parsers, whose services are not compared.
    bare: usize,
    /// Rows that differ in a field, or have it in common: of captures that are looked at.
    by_field: BTreeMap<String, (usize, usize)>,
}

impl Score {
    /// Compares the rows of one log with ours.
    fn compare(&mut self, log: &Log<'_>, all: Vec<Row>, mut ours: Vec<Row>, columns: &BTreeSet<String>) {
        let mut missing = Vec::new();
        for mut theirs in all {
            if let Some(reason) = log.outside(&theirs) {
                *self.outside.entry(reason).or_default() += 1;
                continue;
            }
            let of_zeek = theirs.keys().filter(|name| !columns.contains(*name) && !name.starts_with('_'));
            self.theirs.extend(of_zeek.cloned());
            self.bare += log.trim(&mut theirs, columns);
            match ours.iter().position(|ours| differences(&theirs, ours).is_empty()) {
                Some(at) => {
                    ours.swap_remove(at);
                    self.row(log, &theirs, &[]);
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
            let Some(our) = best.map(|at| ours.swap_remove(at)) else {
                let names: Vec<&str> = theirs.keys().map(String::as_str).collect();
                self.row(log, &theirs, &names);
                emit(log, &theirs, "no row");
                continue;
            };
            let different = differences(&theirs, &our);
            let names: Vec<&str> = different.iter().map(|(name, ..)| *name).collect();
            self.row(log, &theirs, &names);
            let what: Vec<String> =
                different.iter().map(|(name, theirs, ours)| format!("{name}: {theirs} | {ours}")).collect();
            emit(log, &theirs, &what.join("; "));
        }
        self.more += ours.len();
    }

    /// Counts a row with the names of the fields that are wrong in it.
    fn row(&mut self, log: &Log<'_>, theirs: &Row, wrong: &[&str]) {
        self.rows.add(log.trace, usize::from(wrong.is_empty()), 1);
        self.fields.add(log.trace, theirs.len() - wrong.len(), theirs.len());
        if !is_aside(log.trace) {
            for name in theirs.keys() {
                let (different, of) = self.by_field.entry(name.clone()).or_default();
                *different += usize::from(wrong.contains(&name.as_str()));
                *of += 1;
            }
        }
    }

    fn print(&self, log: &str, required: [usize; 2]) {
        println!(
            "{log:12} {:>12} {:>12} {:>14} {:>14} {:>5}, {:>3}  {}",
            self.rows.seen,
            self.rows.aside,
            self.fields.seen,
            self.fields.aside,
            required[0],
            required[1],
            self.more
        );
    }

    fn print_outside(&self, log: &str) {
        for (reason, rows) in &self.outside {
            println!("{log}: outside {rows} rows: {reason}");
        }
        if self.bare > 0 {
            println!("{log}: outside {} services: Zeek ran without the parsers (-b)", self.bare);
        }
        let different = self.by_field.iter().filter(|(_, (different, _))| *different > 0);
        for (name, (different, of)) in different {
            println!("{log}.{name}: {} of {of} seen", of - different);
        }
        if !self.theirs.is_empty() {
            let names: Vec<&str> = self.theirs.iter().map(String::as_str).collect();
            println!("{log}: columns of Zeek's that are not ours: {}", names.join(" "));
        }
    }
}

/// The columns of each log of ours.
fn columns() -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for table in weir_proto::tables().filter(|table| !table.zeek.is_empty()) {
        let columns = all.entry(table.zeek).or_default();
        columns.extend(["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"].map(str::to_owned));
        let fields = table.fields.iter().map(|field| field.zeek).filter(|name| !name.is_empty());
        columns.extend(fields.map(str::to_owned));
    }
    all
}

#[test]
fn logs_are_zeeks() {
    let Some(folder) = data("zeek") else { return };
    let index = json(&folder.join("index.json"));
    let all: Vec<Log<'_>> = index.as_array().unwrap().iter().map(Log::of).collect();
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    let mut unread: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut runs, mut columns) = (HashMap::new(), columns());
    for log in &all {
        let theirs = rows(&folder.join(log.baseline));
        if !REQUIRED.iter().any(|(name, _)| *name == log.name) {
            assert!(!columns.contains_key(log.name.as_str()), "{}.log is not compared", log.name);
            *unread.entry(&log.name).or_default() += theirs.len();
            continue;
        }
        let run = runs
            .entry((log.trace, options(log.command)))
            .or_insert_with_key(|(trace, options)| logs(&folder.join("traces").join(trace), options));
        let ours = rows(&run.path().join(format!("{}.log", log.name)));
        if let ("conn", Some(row)) = (log.name.as_str(), ours.first()) {
            columns.entry("conn").or_insert_with(|| row.keys().cloned().collect());
        }
        let columns = &columns[log.name.as_str()];
        scores.entry(&log.name).or_default().compare(log, theirs, ours, columns);
    }
    println!("log             rows seen    set aside    fields seen      set aside   required  more");
    let (mut whole, mut short) = (Score::default(), Vec::new());
    for (log, required) in REQUIRED {
        let score = scores.entry(log).or_default();
        score.print(log, *required);
        whole.rows.join(&score.rows);
        whole.fields.join(&score.fields);
        whole.more += score.more;
        if !score.rows.reaches(*required) {
            short.push(*log);
        }
    }
    whole.print("all", [0, 1].map(|part| REQUIRED.iter().map(|(_, required)| required[part]).sum()));
    for (log, score) in &scores {
        score.print_outside(log);
    }
    for (log, rows) in unread {
        println!("{log}: outside {rows} rows: no parser here reads the protocol");
    }
    println!("Zeek's rows: passed {} in all; {}", whole.rows.whole(), whole.rows);
    println!("Zeek's fields: passed {} in all; {}", whole.fields.whole(), whole.fields);
    assert!(short.is_empty(), "fewer rows than required: {short:?}");
}

fn emit(log: &Log<'_>, theirs: &Row, what: &str) {
    if is_emitted() && !is_aside(log.trace) {
        let get = |name: &str| theirs.get(name).map_or("-", String::as_str);
        println!(
            "{}: {}:{} {}:{}: {what}",
            log.baseline.trim_start_matches("Baseline/"),
            get("id.orig_h"),
            get("id.orig_p"),
            get("id.resp_h"),
            get("id.resp_p")
        );
    }
}
