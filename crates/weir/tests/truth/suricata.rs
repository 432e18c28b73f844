//! The checks of suricata-verify that need neither rules nor a special configuration of Suricata.

use crate::{data, is_emitted, json, logs, support};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Required number of passed checks of each type of event.
const REQUIRED: &[(&str, usize)] = &[
    ("dhcp", 1),
    ("dns", 169),
    ("fileinfo", 12),
    ("flow", 18),
    ("ftp", 9),
    ("ftp_data", 0),
    ("http", 17),
    ("ike", 0),
    ("mdns", 0),
    ("mqtt", 46),
    ("pop3", 6),
    ("quic", 12),
    ("sip", 0),
    ("smb", 22),
    ("smtp", 17),
    ("snmp", 3),
    ("ssh", 0),
    ("tftp", 0),
    ("tls", 11),
];

/// The version that the checks were made with.
const REFERENCE: [u64; 3] = [8, 0, 7];

/// Keys for Suricata's internal numbering: the packet at which it wrote the event, and the transaction.
const ITS_OWN: [&str; 2] = ["pcap_cnt", "tx_id"];

fn version(of: &Value) -> [u64; 3] {
    let text = match of {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// Whether the reference version meets the requirements of a test or check.
fn is_met(requires: &Value) -> bool {
    let at_least = requires.get("min-version").is_none_or(|min| version(min) <= REFERENCE);
    let below = requires.get("lt-version").is_none_or(|bound| version(bound) > REFERENCE);
    let same = requires.get("version").is_none_or(|one| version(one)[0] == REFERENCE[0]);
    at_least && below && same
}

/// The value of a key such as `a.b[0].c`; the whole text may also be one key.
fn find<'v>(event: &'v Value, key: &str) -> Option<&'v Value> {
    if let Some(value) = event.get(key) {
        return Some(value);
    }
    let (head, rest) = key.split_once('.').map_or((key, None), |(head, rest)| (head, Some(rest)));
    let value = match head.split_once('[') {
        Some((name, at)) => at
            .trim_end_matches(']')
            .split("][")
            .try_fold(event.get(name)?, |value, at| value.get(at.parse::<usize>().ok()?))?,
        None => event.get(head)?,
    };
    rest.map_or(Some(value), |rest| find(value, rest))
}

/// Whether an event meets a condition.
fn holds(event: &Value, key: &str, wanted: &Value) -> bool {
    if ITS_OWN.iter().any(|own| key == *own || key.ends_with(&format!(".{own}"))) {
        return true;
    }
    let named = || wanted.as_str().unwrap_or_default();
    if key == "has-key" {
        return find(event, named()).is_some();
    }
    if key == "not-has-key" {
        return find(event, named()).is_none();
    }
    for (suffix, test) in [
        ("__len", len as fn(&Value, &Value) -> bool),
        ("__find", contains),
        ("__contains", contains),
        ("__startswith", starts),
        ("__endswith", ends),
    ] {
        if let Some(key) = key.strip_suffix(suffix).map(|key| key.trim_end_matches('.')) {
            return find(event, key).is_some_and(|value| test(value, wanted));
        }
    }
    find(event, key).is_some_and(|value| equal(value, wanted))
}

fn len(value: &Value, wanted: &Value) -> bool {
    let length = match value {
        Value::Array(values) => values.len(),
        Value::String(text) => text.chars().count(),
        Value::Object(members) => members.len(),
        _ => return false,
    };
    wanted.as_u64() == Some(length as u64)
}

fn contains(value: &Value, wanted: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| equal(value, wanted)),
        Value::String(text) => wanted.as_str().is_some_and(|wanted| text.contains(wanted)),
        _ => false,
    }
}

fn starts(value: &Value, wanted: &Value) -> bool {
    value.as_str().zip(wanted.as_str()).is_some_and(|(text, wanted)| text.starts_with(wanted))
}

fn ends(value: &Value, wanted: &Value) -> bool {
    value.as_str().zip(wanted.as_str()).is_some_and(|(text, wanted)| text.ends_with(wanted))
}

/// Equality as in Python for values of JSON and YAML: 1, 1.0 and true are equal.
fn equal(value: &Value, wanted: &Value) -> bool {
    let number =
        |value: &Value| value.as_f64().or_else(|| value.as_bool().map(|yes| f64::from(u8::from(yes))));
    if let (Some(one), Some(other)) = (number(value), number(wanted)) {
        return (one - other).abs() < 1e-9;
    }
    match (value, wanted) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(one, other)| equal(one, other))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && theirs.iter().all(|(key, other)| ours.get(key).is_some_and(|one| equal(one, other)))
        }
        _ => value == wanted,
    }
}

/// Settings of Suricata that are off by default and that checks depend on.
const SWITCHES: [&str; 7] =
    ["force-hash", "force-filestore", "force-magic", "ethernet:", "community-id-seed", "md5:", "http2"];

/// Suricata's arguments as Weir's; `None` if an argument, the environment or the configuration has no counterpart in
/// Weir.
fn options(test: &Value, folder: &Path) -> Option<Vec<&'static str>> {
    let configuration = std::fs::read_to_string(folder.join("suricata.yaml")).unwrap_or_default();
    let is_set = |line: &str| !line.trim_start().starts_with('#') && !line.trim_end().ends_with("no");
    let is_switch = |line: &str| is_set(line) && SWITCHES.iter().any(|switch| line.contains(switch));
    if !test["env"].is_null() || configuration.lines().any(is_switch) {
        return None;
    }
    let mut checksum = "on";
    for argument in test["args"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        for argument in argument.split("--set").map(str::trim).filter(|argument| !argument.is_empty()) {
            match argument {
                "-k none" => checksum = "off",
                // Always true in Weir: streams without a start, one direction alone, up to the end.
                "stream.midstream=true"
                | "stream.async-oneside=true"
                | "stream.reassembly.depth=0"
                | "stream.bypass=false"
                | "runmode=single"
                | "--runmode=single"
                | "stream.inline=true"
                | "app-layer.protocols.mqtt.enabled=yes" => {}
                _ => return None,
            }
        }
    }
    Some(vec!["--checksum", checksum])
}

/// Protocols that are not parsed here.
const OTHERS: [&str; 6] = ["bittorrent-dht", "dcerpc", "dnp3", "http2", "pgsql", "rfb"];

/// Whether a check is about a protocol that is not parsed here.
fn is_of_others(conditions: &serde_json::Map<String, Value>) -> bool {
    conditions.iter().any(|(key, wanted)| {
        key.starts_with("http.http2")
            || key == "http.version" && wanted == "2"
            || key.starts_with("app_proto") && OTHERS.iter().any(|other| wanted == other)
    })
}

/// The number of events that a check requires. Checks of one test that differ only in Suricata's internal numbers are
/// added up, because Weir cannot distinguish them.
fn wanted(test: &Value, conditions: &serde_json::Map<String, Value>, filter: &Value) -> u64 {
    let count = |filter: &Value| filter["count"].as_u64().unwrap_or(0);
    let bare = |conditions: &serde_json::Map<String, Value>| {
        let mut bare = conditions.clone();
        bare.retain(|key, _| !ITS_OWN.contains(&key.as_str()));
        bare
    };
    let mine = bare(conditions);
    if mine.len() == conditions.len() {
        return count(filter);
    }
    let all = test["checks"].as_array().into_iter().flatten().map(|check| &check["filter"]);
    let same = all.filter(|other| {
        is_met(&other["requires"]) && other["match"].as_object().map(bare).as_ref() == Some(&mine)
    });
    same.map(count).sum()
}

#[derive(Default)]
struct Score {
    passed: usize,
    total: usize,
}

#[test]
fn events_equal_those_of_suricata() {
    let Some(folder) = data("suricata-verify") else { return };
    let tests = folder.join("tests");
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let (mut read, mut switched, mut newer, mut with_rules, mut other) = (0, 0, 0, 0, 0);
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
        let Some(options) = options(&test, &tests.join(name)) else {
            switched += 1;
            continue;
        };
        read += 1;
        let run = logs(&tests.join(entry["pcap"].as_str().unwrap()), &options);
        let events = events(&run.path().join("eve.json"));
        for check in test["checks"].as_array().into_iter().flatten() {
            let filter = &check["filter"];
            let Some(conditions) = filter["match"].as_object() else {
                continue;
            };
            if !is_met(&filter["requires"]) || !filter["filename"].is_null() {
                continue;
            }
            let kind = conditions.get("event_type").and_then(Value::as_str).unwrap_or("?").to_owned();
            if !REQUIRED.iter().any(|(known, _)| *known == kind) || is_of_others(conditions) {
                other += 1;
                continue;
            }
            // The absence of a second transaction cannot be checked without its number.
            let is_numbered = conditions.keys().any(|key| ITS_OWN.contains(&key.as_str()));
            if is_numbered && filter["count"] == 0 {
                other += 1;
                continue;
            }
            let found = events
                .iter()
                .filter(|event| conditions.iter().all(|(key, wanted)| holds(event, key, wanted)))
                .count();
            let score = scores.entry(kind.clone()).or_default();
            score.total += 1;
            if wanted(&test, conditions, filter) == found as u64 {
                score.passed += 1;
            } else if is_emitted() {
                emit(name, &kind, found, filter, &events);
            }
        }
    }
    println!(
        "suricata-verify: {read} tests read; omitted: {with_rules} with rules, {switched} with switches of \
         Suricata, {newer} for other versions, {other} checks of events that Weir does not have"
    );
    let (mut passed, mut total) = (0, 0);
    let mut short = Vec::new();
    for (kind, required) in REQUIRED {
        let score = scores.remove(*kind).unwrap_or_default();
        println!("{kind}: passed {} of {}, required {required}", score.passed, score.total);
        if score.passed < *required {
            short.push(*kind);
        }
        passed += score.passed;
        total += score.total;
    }
    println!("Suricata's checks: passed {passed} of {total}");
    assert!(short.is_empty(), "fewer checks than required: {short:?}");
}

fn events(path: &Path) -> Vec<Value> {
    support::objects(&std::fs::read_to_string(path).unwrap())
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
