//! The checks of suricata-verify: conditions that events of `eve.json` meet.

use serde_json::Value;

/// The version that the checks were made with.
const REFERENCE: [u64; 3] = [8, 0, 7];

fn version(of: &Value) -> [u64; 3] {
    let text = match of {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// Whether the reference version meets the requirements of a test or check.
pub fn is_met(requires: &Value) -> bool {
    let at_least = requires.get("min-version").is_none_or(|min| version(min) <= REFERENCE);
    let below = requires.get("lt-version").is_none_or(|bound| version(bound) > REFERENCE);
    let same = requires.get("version").is_none_or(|one| version(one)[0] == REFERENCE[0]);
    at_least && below && same
}

/// The value of a key such as `a.b[0].c`; the whole text may also be one key.
pub fn find<'v>(event: &'v Value, key: &str) -> Option<&'v Value> {
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
pub fn holds(event: &Value, key: &str, wanted: &Value) -> bool {
    let named = || match wanted {
        Value::Array(keys) => keys.iter().filter_map(Value::as_str).collect(),
        one => Vec::from_iter(one.as_str()),
    };
    if key == "has-key" {
        return named().iter().all(|key| find(event, key).is_some());
    }
    if key == "not-has-key" {
        return named().iter().all(|key| find(event, key).is_none());
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
    // A condition without a value holds where the key is absent.
    find(event, key).map_or(wanted.is_null(), |value| equal(value, wanted))
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

/// The value of `--checksum` for the arguments of a test: Suricata verifies the checksums of TCP if its arguments do not switch it off.
pub fn verification(test: &Value) -> &'static str {
    const OFF: [&str; 2] = ["-k none", "stream.checksum-validation=no"];
    let mut arguments = test["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if arguments.any(|argument| OFF.iter().any(|off| argument.contains(off))) { "off" } else { "tcp" }
}

/// The name that decides whether a capture is set aside: hundreds of files have the name `input.pcap`, which are known by
/// their folders here.
pub fn known_as(capture: &str) -> &str {
    capture.strip_suffix("/input.pcap").unwrap_or(capture)
}
