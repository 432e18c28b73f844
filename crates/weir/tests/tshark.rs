//! A second opinion: what tshark finds in a sample of captures, against the program's JSON records.
//!
//! Both are asked for the same things of each capture, and what they find is compared as multisets. Where tshark or the
//! captures are absent the test says so and passes.

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

/// Of the captures that are no larger than this, in the order of their paths, each so many-th of these projects is taken,
/// and of all of those whose file's or test's name has that of a protocol that few others speak.
const MAX: u64 = 512 << 10;
const SAMPLED: [&str; 3] = ["wireshark", "zeek", "suricata-verify"];
const EVERY: usize = 4;
const OTHERS: [&str; 2] = ["nDPI", "tcpdump"];
const NAMED: [&str; 4] = ["dtls", "sip", "ssh", "tftp"];

/// What is compared, and how many of what tshark finds the program must find.
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

/// Fields that tshark is asked for, in this order.
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

/// Between the values of a field.
const UNIT: char = '\u{1f}';

/// What was found, by what it is, with how often.
type Found = BTreeMap<(&'static str, String), usize>;

fn add(found: &mut Found, what: &'static str, value: &str) {
    // Whether a name is written in capitals, and bytes that are no text, is each program's own affair.
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

/// What tshark finds; `None` where it cannot read the capture whole.
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
        // Of a message with several names each is a question of its own.
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
        // 1 and 2 are requests; what follows them names the file again.
        match tftp.as_slice() {
            ["1"] => each("tftp file", read),
            ["2"] => each("tftp file", written),
            _ => {}
        }
        each("tls server name", name);
    }
    Some(found)
}

/// What the program finds.
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
        // A row of an answer alone has no question that anybody could have seen; others ask by other means.
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

/// What tshark and the program find in each capture; none where tshark cannot read it. As many captures at once as there
/// are cores, since tshark uses one alone.
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
fn tshark_finds_the_same() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !data.is_dir() {
        println!("skipped: ../shared/data is absent");
        return;
    }
    if Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: there is no tshark");
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
