//! Comparison with tshark on a sample of captures, by the program's JSON records.
//!
//! Both extract the same fields of each capture, which are compared as multisets. If tshark or the captures are
//! absent, the test is skipped with a message.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests say what they ran, and end where they fail"
)]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// Captures up to this size are sampled, in the order of their paths. Of these projects every `EVERY`th capture is
/// taken, and from all of them those whose name contains one of the rare protocols in `NAMED`.
const MAX: u64 = 512 << 10;
const SAMPLED: [&str; 3] = ["wireshark", "zeek", "suricata-verify"];
const EVERY: usize = 4;
const OTHERS: [&str; 2] = ["nDPI", "tcpdump"];
const NAMED: [&str; 4] = ["dtls", "sip", "ssh", "tftp"];

/// Compared fields, with the required number of tshark's values that the program finds.
const REQUIRED: &[(&str, usize)] = &[
    ("dns query", 47),
    ("ftp command", 29),
    ("http host", 185),
    ("http method", 193),
    ("http uri", 190),
    ("sip method", 9),
    ("smtp sender", 10),
    ("ssh banner", 10),
    ("tftp file", 1),
    ("tls server name", 10),
];

/// Fields requested from tshark, in this order.
const FIELDS: [&str; 15] = [
    "frame.protocols",
    "dns.flags.response",
    "dns.qry.name",
    "ftp.request.command",
    "http.host",
    "http.request.method",
    "http.request.uri",
    "sip.Method",
    "smtp.req.command",
    "smtp.req.parameter",
    "ssh.protocol",
    "tftp.opcode",
    "tftp.source_file",
    "tftp.destination_file",
    "tls.handshake.extensions_server_name",
];

/// Separator of the values of a field.
const UNIT: char = '\u{1f}';

/// Number of occurrences of each value, by field and value.
type Found = BTreeMap<(&'static str, String), usize>;

fn add(found: &mut Found, what: &'static str, value: &str) {
    // Programs differ in the case of names and in bytes that are not text.
    let value: String = value.to_lowercase().chars().filter(char::is_ascii_graphic).collect();
    if !value.is_empty() {
        *found.entry((what, value)).or_default() += 1;
    }
}

fn captures(data: &Path) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|end| end.to_string_lossy().contains("cap"))
                && entry.metadata().is_ok_and(|about| about.len() <= MAX)
            {
                found.push(path);
            }
        }
    }
    let of = |projects: &[&str]| {
        let mut found = Vec::new();
        projects.iter().for_each(|project| walk(&data.join(project), &mut found));
        found.sort();
        found
    };
    let is_named = |path: &Path| {
        let path = path.strip_prefix(data).unwrap_or(path).to_string_lossy();
        NAMED.iter().any(|name| path.contains(name))
    };
    let sample = of(&SAMPLED).into_iter().enumerate().filter(|(at, path)| at % EVERY == 0 || is_named(path));
    let others = of(&OTHERS).into_iter().filter(|path| is_named(path));
    sample.map(|(_, path)| path).chain(others).collect()
}

/// tshark's values; `None` if it cannot read the whole capture.
fn theirs(capture: &Path) -> Option<Found> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(capture).args(["-T", "fields", "-E"]).arg(format!("aggregator={UNIT}"));
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let ran = command.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    if !ran.status.success() {
        return None;
    }
    let mut found = Found::new();
    for line in String::from_utf8_lossy(&ran.stdout).lines() {
        let values: Vec<Vec<&str>> = line.split('\t').map(|field| field.split(UNIT).collect()).collect();
        let [
            protocols,
            response,
            query,
            ftp,
            host,
            method,
            uri,
            sip,
            smtp,
            parameter,
            ssh,
            tftp,
            read,
            written,
            name,
        ] = values.as_slice()
        else {
            continue;
        };
        let speaks = |protocol: &str| protocols.iter().any(|all| all.split(':').any(|one| one == protocol));
        let mut each = |what, values: &[&str]| values.iter().for_each(|value| add(&mut found, what, value));
        // A message with several names has a query for each.
        if speaks("dns") && !speaks("icmp") && !speaks("icmpv6") && matches!(response[0], "0" | "False") {
            each("dns query", query);
        }
        each("ftp command", ftp);
        if speaks("http") {
            each("http host", host);
            each("http method", method);
            each("http uri", uri);
        }
        each("sip method", sip);
        for (command, parameter) in smtp.iter().zip(parameter) {
            if command.eq_ignore_ascii_case("MAIL") {
                let sender = parameter.split_once(':').map_or("", |(_, sender)| sender.trim());
                each("smtp sender", &[sender.split(' ').next().unwrap_or_default()]);
            }
        }
        each("ssh banner", ssh);
        // 1 and 2 are requests; later packets repeat the file's name.
        match tftp.as_slice() {
            ["1"] => each("tftp file", read),
            ["2"] => each("tftp file", written),
            _ => {}
        }
        each("tls server name", name);
    }
    Some(found)
}

/// The program's values.
fn ours(capture: &Path) -> Found {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    let arguments =
        [capture.to_str().unwrap(), "-q", "--checksum", "off", "--log", "eve,zeek-json", "-o", directory];
    let ran = support::weir(arguments);
    assert!(matches!(ran.code, Some(0 | 3)), "{}: {:?} {}", capture.display(), ran.code, ran.stderr);
    let rows = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let mut found = Found::new();
    let mut each = |what, value: &Value| {
        if let Some(text) = value.as_str() {
            add(&mut found, what, text);
        }
    };
    for row in rows("dns.json") {
        // A row of an answer without its query, or over another transport, has no query that tshark could find.
        if row["id.resp_p"] == 53 || row["id.orig_p"] == 53 {
            each("dns query", &row["query"]);
        }
    }
    for row in rows("http.json") {
        each("http host", &row["host"]);
        each("http method", &row["method"]);
    }
    for row in rows("sip.json") {
        each("sip method", &row["method"]);
    }
    for row in rows("ssh.json") {
        each("ssh banner", &row["client"]);
        each("ssh banner", &row["server"]);
    }
    for row in rows("ssl.json") {
        each("tls server name", &row["server_name"]);
    }
    for row in rows("eve.json") {
        match row["event_type"].as_str().unwrap_or_default() {
            "http" => each("http uri", &row["http"]["url"]),
            "ftp" => each("ftp command", &row["ftp"]["command"]),
            "smtp" => each("smtp sender", &row["smtp"]["mail_from"]),
            "tftp" => each("tftp file", &row["tftp"]["file"]),
            _ => {}
        }
    }
    found
}

/// The values of both for each capture; `None` if tshark cannot read it. As many captures in parallel as cores,
/// because tshark uses one core.
fn both(captures: &[PathBuf]) -> Vec<Option<(Found, Found)>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = captures.len().div_ceil(cores).max(1);
    thread::scope(|scope| {
        let look = |capture: &PathBuf| theirs(capture).map(|theirs| (theirs, ours(capture)));
        let parts: Vec<_> = captures
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(look).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

#[test]
fn values_agree_with_tshark() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !data.is_dir() {
        println!("skipped: ../shared/data is absent");
        return;
    }
    if Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: tshark is not installed");
        return;
    }
    let (mut sums, mut unread) = (BTreeMap::<&str, [usize; 3]>::new(), 0);
    let captures = captures(&data);
    for (capture, found) in captures.iter().zip(both(&captures)) {
        let Some((theirs, ours)) = found else {
            unread += 1;
            continue;
        };
        for key in theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key))) {
            let [of_them, of_us] = [&theirs, &ours].map(|found| found.get(key).copied().unwrap_or(0));
            let sum = sums.entry(key.0).or_default();
            sum[0] += of_them.min(of_us);
            sum[1] += of_them;
            sum[2] += of_us.saturating_sub(of_them);
            if of_them != of_us && std::env::var_os("WEIR_TRUTH").is_some() {
                println!("{}: {}: {}: {of_them} | {of_us}", capture.display(), key.0, key.1);
            }
        }
    }
    println!("tshark: {} captures, {unread} of which it cannot read whole", captures.len());
    let mut short = Vec::new();
    for (what, required) in REQUIRED {
        let [both, all, more] = sums.remove(what).unwrap_or_default();
        println!("{what}: agrees {both} of {all}, required {required}; {more} that tshark does not find");
        if both < *required {
            short.push(*what);
        }
    }
    assert!(short.is_empty(), "fewer than required: {short:?}");
}
