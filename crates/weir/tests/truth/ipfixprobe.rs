//! Comparison with rows of the exporter ipfixprobe, from its plugins for DNS, HTTP, NTP, SMTP and TLS.

use crate::arkime::values;
use crate::support::aside::{Figure, is_aside};
use crate::zeek::rows;
use crate::{data, is_emitted, logs, support};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Plugins, with the capture of each and the required number of equal rows.
const REQUIRED: &[(&str, usize)] = &[("dns", 16), ("http", 9), ("ntp", 56), ("smtp", 1), ("tls", 28)];

/// Fields that both have: ipfixprobe's, and Weir's in eve.json. TLS_JA4 is excluded: ipfixprobe counts GREASE in it,
/// which JA4's definition excludes.
const FIELDS: [(&str, &str); 12] = [
    ("DNS_ID", "dns.id"),
    ("DNS_NAME", "dns.queries.rrname"),
    ("HTTP_REQUEST_AGENT", "http.http_user_agent"),
    ("HTTP_REQUEST_HOST", "http.hostname"),
    ("HTTP_REQUEST_METHOD", "http.http_method"),
    ("HTTP_REQUEST_URL", "http.url"),
    ("HTTP_RESPONSE_STATUS_CODE", "http.status"),
    ("SMTP_DOMAIN", "smtp.helo"),
    ("SMTP_FIRST_RECIPIENT", "smtp.rcpt_to"),
    ("SMTP_FIRST_SENDER", "smtp.mail_from"),
    ("TLS_JA3", "tls.ja3.hash"),
    ("TLS_SNI", "tls.sni"),
];

/// Fields compared with Zeek's ntp.log, because EVE lacks them.
const NTP: [(&str, &str); 4] =
    [("NTP_VERSION", "version"), ("NTP_MODE", "mode"), ("NTP_STRATUM", "stratum"), ("NTP_POLL", "poll")];

type Row = BTreeMap<String, String>;

/// The columns of a line; quoted ones may contain commas.
fn columns(line: &str) -> Vec<String> {
    let (mut columns, mut is_quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => columns.push(String::new()),
            c => columns.last_mut().unwrap().push(c),
        }
    }
    columns
}

fn theirs(text: &str) -> Vec<Row> {
    let is_template = |line: &&str| line.starts_with("ipaddr ");
    let template = columns(text.lines().find(is_template).unwrap());
    let names: Vec<String> = template.iter().map(|name| name.split(' ').nth(1).unwrap().to_owned()).collect();
    let lines = text.lines().filter(|line| !is_template(line));
    lines.map(|line| names.iter().cloned().zip(columns(line)).collect()).collect()
}

/// Addresses and ports without regard to the direction.
fn ends(ends: [[&str; 2]; 2]) -> BTreeSet<String> {
    ends.map(|end| end.join(" ")).into_iter().collect()
}

/// The reason why a row is not found; `None` if it is found.
fn missing(row: &Row, events: &[Value], ntp: &mut Vec<Row>) -> Option<String> {
    let get = |name: &str| row.get(name).map_or("", String::as_str);
    let pair = ends([[get("SRC_IP"), get("SRC_PORT")], [get("DST_IP"), get("DST_PORT")]]);
    if row.contains_key("NTP_MODE") {
        let is_it = |ours: &Row| {
            let of = |name: &str| ours.get(name).map_or("", String::as_str);
            // ipfixprobe has the exponent; Zeek has seconds.
            let poll = |theirs: &str| theirs.parse::<i32>().map(|at| format!("{:.6}", f64::from(at).exp2()));
            let same = |(theirs, name): &(&str, &str)| {
                of(name) == get(theirs)
                    || *name == "poll" && poll(get(theirs)).is_ok_and(|poll| poll == of(name))
            };
            ends([[of("id.orig_h"), of("id.orig_p")], [of("id.resp_h"), of("id.resp_p")]]) == pair
                && NTP.iter().all(same)
        };
        return match ntp.iter().position(is_it) {
            Some(at) => {
                ntp.swap_remove(at);
                None
            }
            None => Some("no such message".to_owned()),
        };
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let of_pair = |event: &&Value| {
        let end = |ip: &str, port: &str| [text(&event[ip]), text(&event[port])];
        let (source, destination) = (end("src_ip", "src_port"), end("dest_ip", "dest_port"));
        ends([[&source[0], &source[1]], [&destination[0], &destination[1]]]) == pair
    };
    let ours: Vec<&Value> = events.iter().filter(of_pair).collect();
    let differs = |(theirs, path): &(&str, &str)| {
        let value = get(theirs).trim().to_lowercase();
        let mut found = BTreeSet::new();
        ours.iter().for_each(|event| values(event, path, &mut found));
        // A status of 0 means that there was no answer.
        let is_there = value.is_empty() || value == "0" || found.contains(&value);
        (!is_there).then(|| format!("{theirs}: {value} | {found:?}"))
    };
    let differences: Vec<String> =
        FIELDS.iter().filter(|(theirs, _)| row.contains_key(*theirs)).filter_map(differs).collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}

#[test]
fn rows_equal_those_of_ipfixprobe() {
    let Some(folder) = data("ipfixprobe") else { return };
    let (mut whole, mut short) = (Figure::default(), Vec::new());
    for (plugin, required) in REQUIRED {
        let capture = folder.join(format!("inputs/{plugin}.pcap"));
        let file = capture.to_string_lossy();
        let run = logs(&capture, &["--checksum", "off"]);
        let events = support::objects(&std::fs::read_to_string(run.path().join("eve.json")).unwrap());
        let mut ntp = rows(&run.path().join("ntp.log"));
        let text = std::fs::read_to_string(folder.join("outputs").join(plugin)).unwrap();
        let mut figure = Figure::default();
        for row in theirs(&text) {
            let why = missing(&row, &events, &mut ntp);
            figure.add(&file, usize::from(why.is_none()), 1);
            if let Some(why) = why.filter(|_| is_emitted() && !is_aside(&file)) {
                println!("{plugin}: {}: {why}", row["SRC_IP"]);
            }
        }
        println!("{plugin}: passed {figure}, required {required}");
        if figure.whole().right < *required {
            short.push(plugin);
        }
        whole.join(&figure);
    }
    println!("ipfixprobe's rows: passed {} in all; {whole}", whole.whole());
    assert!(short.is_empty(), "fewer rows than required: {short:?}");
}
