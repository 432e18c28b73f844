//! The checks of suricata-verify that need no rules.
//!
//! All checks of events of a type that Weir writes are compared. What is outside is printed with its reason: events that
//! no parser here makes, and checks that a key of the test's configuration changes (see [`SWITCHES`]). Captures that are
//! set aside are measured, and nothing of them is printed: see `support/aside.rs`.

use crate::support::aside::{Figure, is_aside};
use crate::support::checks::{self, find, is_met, known_as};
use crate::{data, is_emitted, json, logs, support};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Required number of passed checks of each type of event: of the captures that are looked at, and of those that are
/// set aside.
const REQUIRED: &[(&str, [usize; 2])] = &[
    ("anomaly", [11, 5]),
    ("dcerpc", [2, 7]),
    ("dhcp", [1, 0]),
    ("dns", [168, 1]),
    ("fileinfo", [14, 2]),
    ("flow", [21, 4]),
    ("ftp", [0, 9]),
    ("http", [12, 9]),
    ("mqtt", [42, 7]),
    ("pop3", [7, 0]),
    ("quic", [4, 8]),
    ("smb", [22, 0]),
    ("smtp", [21, 7]),
    ("snmp", [3, 0]),
    ("tls", [6, 5]),
];

/// Whether an event meets a condition.
fn holds(event: &Value, key: &str, wanted: &Value) -> bool {
    // Suricata reads a segment of TCP when it is acknowledged, Weir when it is captured: the packet is another one.
    if key == "pcap_cnt" && event["proto"] == "TCP" {
        return event["pcap_cnt"].is_u64();
    }
    checks::holds(event, key, wanted)
}

/// A key of Suricata's configuration that changes events, and that Weir has no counterpart of.
struct Switch {
    /// The end of the key, from `suricata.yaml`, from an argument (`--set`) or, after `env.`, from the environment.
    key: &'static str,
    /// The value with which nothing changes; none if any value is a change.
    neutral: &'static [&'static str],
    /// The checks that it changes: those with a key that begins like this, or of this type of event.
    affects: &'static [&'static str],
}

const SWITCHES: &[Switch] = &[
    Switch { key: "eve-log.ethernet", neutral: &["no", "false"], affects: &["ether"] },
    Switch { key: "eve-log.community-id-seed", neutral: &["0"], affects: &["community_id"] },
    Switch { key: "smtp.md5", neutral: &[], affects: &["email.body_md5", "email.subject_md5"] },
    Switch { key: "mime.log-url-scheme", neutral: &["no", "false"], affects: &["email.url"] },
    Switch {
        key: "files.force-hash",
        neutral: &[],
        affects: &["fileinfo.md5", "fileinfo.sha1", "fileinfo.sha256"],
    },
    Switch {
        key: "file-store.force-filestore",
        neutral: &["no", "false"],
        affects: &["fileinfo.stored", "fileinfo.file_id", "fileinfo.sha256"],
    },
    Switch { key: "snmp.enabled", neutral: &["yes", "true"], affects: &["app_proto=snmp"] },
    Switch { key: "env.SURICATA_EVE_DNS_VERSION", neutral: &["3"], affects: &["event_type=dns"] },
    Switch { key: "ftp.memcap", neutral: &[], affects: &["event_type=ftp"] },
    Switch { key: "smb.max-write-size", neutral: &[], affects: &["event_type=fileinfo", "event_type=smb"] },
];

/// The settings of a test as pairs of key and value: of its configuration, its arguments and its environment.
fn settings(test: &Value, folder: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let text = std::fs::read_to_string(folder.join("suricata.yaml")).unwrap_or_default();
    let text = text.split_once("\n---").map_or(text.as_str(), |(_, body)| body);
    flatten(&serde_yaml_ng::from_str(text).unwrap_or_default(), "", &mut all);
    flatten(&test["env"], "env", &mut all);
    let arguments = test["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for argument in arguments.flat_map(|argument| argument.split("--set")) {
        all.extend(argument.trim().split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
    all
}

/// The leaves of a document, their keys joined by dots; a list is no key.
fn flatten(value: &Value, key: &str, all: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            flatten(value, &key, all);
        }),
        Value::Array(values) => values.iter().for_each(|value| flatten(value, key, all)),
        Value::Null => {}
        Value::String(text) => all.push((key.to_owned(), text.clone())),
        leaf => all.push((key.to_owned(), leaf.to_string())),
    }
}

/// The key of the switch that changes what a check asks for.
fn switch(
    settings: &[(String, String)],
    conditions: &serde_json::Map<String, Value>,
) -> Option<&'static str> {
    let is_on = |switch: &&Switch| {
        settings.iter().any(|(key, value)| {
            key.ends_with(switch.key) && !switch.neutral.contains(&value.to_ascii_lowercase().as_str())
        })
    };
    let depends = |switch: &&Switch| {
        switch.affects.iter().any(|affected| match affected.split_once('=') {
            Some((key, value)) => conditions.get(key).is_some_and(|wanted| wanted == value),
            None => conditions.iter().any(|(key, wanted)| {
                key.starts_with(affected)
                    || key == "has-key" && wanted.as_str().is_some_and(|key| key.starts_with(affected))
            }),
        })
    };
    SWITCHES.iter().filter(is_on).find(depends).map(|switch| switch.key)
}

/// Suricata's way with checksums and VLANs (`vlan.use-for-tracking` is on by default) as Weir's. Other arguments have a switch, or change nothing: streams without a
/// beginning, one direction alone and whole streams are always read.
fn options(test: &Value) -> Vec<&'static str> {
    vec!["--vlan", "--checksum", checks::verification(test)]
}

/// The types of events that Weir writes.
fn kinds() -> BTreeSet<&'static str> {
    let tables = weir_proto::tables().map(|table| table.eve).filter(|eve| !eve.is_empty());
    tables.chain(["flow"]).collect()
}

/// The protocol of a check that no parser here reads.
fn unread(conditions: &serde_json::Map<String, Value>) -> Option<String> {
    // Others are identified and not read; these are Suricata's words.
    let is_read =
        |protocol: &weir_proto::Protocol| !protocol.help.ends_with("it is identified but not parsed.");
    let known = |name: &str| {
        matches!(name, "failed" | "ftp-data" | "dcerpc" | "krb5")
            || weir_proto::PROTOCOLS.iter().any(|protocol| protocol.name == name && is_read(protocol))
    };
    let of_http2 = |(key, wanted): (&String, &Value)| {
        key.starts_with("http.http2") || key == "http.version" && wanted == "2"
    };
    if conditions.iter().any(of_http2) {
        return Some("http2".to_owned());
    }
    let named = conditions.iter().filter(|(key, _)| key.contains("app_proto")).map(|(_, wanted)| wanted);
    named.filter_map(Value::as_str).find(|name| !known(name)).map(str::to_owned)
}

#[test]
fn events_equal_those_of_suricata() {
    let Some(folder) = data("suricata-verify") else { return };
    let tests = folder.join("tests");
    let kinds = kinds();
    let mut scores: BTreeMap<String, Figure> = BTreeMap::new();
    let mut outside: BTreeMap<String, usize> = BTreeMap::new();
    let (mut read, mut newer, mut with_rules) = (0, 0, 0);
    for entry in json(&folder.join("index.json")).as_array().unwrap() {
        if !entry["rules"].as_array().unwrap().is_empty() {
            with_rules += 1;
            continue;
        }
        let name = entry["test"].as_str().unwrap();
        let text = std::fs::read_to_string(tests.join(name).join("test.yaml")).unwrap();
        let test: Value = serde_yaml_ng::from_str(&text).unwrap();
        if !is_met(&test["requires"]) {
            newer += 1;
            continue;
        }
        read += 1;
        let capture = entry["pcap"].as_str().unwrap();
        let settings = settings(&test, &tests.join(name));
        let run = logs(&tests.join(capture), &options(&test));
        let events = events(&run.path().join("eve.json"));
        for check in test["checks"].as_array().into_iter().flatten() {
            let filter = &check["filter"];
            let Some(conditions) = filter["match"].as_object() else {
                *outside.entry("checks of other files than eve.json".to_owned()).or_default() += 1;
                continue;
            };
            if !is_met(&filter["requires"]) {
                *outside.entry("checks of other versions".to_owned()).or_default() += 1;
                continue;
            }
            let kind = conditions.get("event_type").and_then(Value::as_str).unwrap_or("any").to_owned();
            let reason = match (filter["filename"].is_null(), kinds.contains(kind.as_str())) {
                (false, _) => Some("checks of other files than eve.json".to_owned()),
                (_, false) => Some(format!("checks of events of type {kind}, which no parser here makes")),
                _ => unread(conditions)
                    .map(|protocol| format!("checks of {protocol}, which no parser here reads"))
                    .or_else(|| {
                        switch(&settings, conditions).map(|key| format!("checks that the key {key} changes"))
                    }),
            };
            if let Some(reason) = reason {
                *outside.entry(reason).or_default() += 1;
                continue;
            }
            let is_it = |event: &&Value| conditions.iter().all(|(key, wanted)| holds(event, key, wanted));
            let found = events.iter().filter(is_it).count();
            let is_passed = filter["count"].as_u64() == Some(found as u64);
            scores.entry(kind.clone()).or_default().add(known_as(capture), usize::from(is_passed), 1);
            if !is_passed && is_emitted() && !is_aside(known_as(capture)) {
                emit(name, &kind, found, filter, &events);
            }
        }
    }
    println!(
        "suricata-verify: {read} tests read; outside: {with_rules} with rules, {newer} of other versions"
    );
    for (reason, checks) in &outside {
        println!("suricata-verify: outside {checks} {reason}");
    }
    let mut whole = Figure::default();
    let mut short = Vec::new();
    for (kind, figure) in &scores {
        let required =
            REQUIRED.iter().find(|(known, _)| known == kind).map_or([0, 0], |(_, required)| *required);
        println!("{kind}: passed {figure}, required {required:?}");
        if !figure.reaches(required) {
            short.push(kind);
        }
        whole.join(figure);
    }
    println!("Suricata's checks: passed {} in all; {whole}", whole.whole());
    assert!(short.is_empty(), "fewer checks than required: {short:?}");
}

/// The events that Suricata could have: scans are anomalies of a type of ours.
fn events(path: &Path) -> Vec<Value> {
    let all = support::objects(&std::fs::read_to_string(path).unwrap());
    all.into_iter().filter(|event| event["anomaly"]["type"] != "weir").collect()
}

/// Prints the conditions in which the nearest event differs.
fn emit(test: &str, kind: &str, found: usize, filter: &Value, events: &[Value]) {
    let conditions = filter["match"].as_object().unwrap();
    let failing = |event: &Value| -> Vec<String> {
        let failing = conditions.iter().filter(|(key, wanted)| !holds(event, key, wanted));
        failing
            .map(|(key, wanted)| {
                let ours = find(event, key).map_or("-".to_owned(), Value::to_string);
                format!("{key}: {wanted} | {ours}")
            })
            .collect()
    };
    let nearest = events.iter().filter(|event| event["event_type"] == kind).map(failing).min_by_key(Vec::len);
    println!(
        "{test}: {kind}: {} events, not {}: {}",
        found,
        filter["count"],
        nearest.map_or("no event of that type".to_owned(), |failing| failing.join("; "))
    );
}
