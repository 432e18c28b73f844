//! Weir's values of a capture: the records in a store.

use crate::fields::{Fields, Pair};
use crate::values::{Flow, flow, form};
use crate::{Found, add, support};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// The values of all records that the program stores; `None` if it cannot read the capture.
pub fn values(capture: &Path, fields: &Fields) -> Option<Found> {
    // A store waits for the disk; what is read once and removed needs none.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let directory = folder.path().to_str().unwrap();
    let arguments = [capture.to_str().unwrap(), "-q", "--checksum", "off", "--log", "store", "-o", directory];
    let ran = support::weir(arguments);
    if ran.code == Some(2) {
        return None;
    }
    assert!(matches!(ran.code, Some(0 | 3)), "{}: {:?} {}", capture.display(), ran.code, ran.stderr);
    let mut found = Found::new();
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("rows-") {
            partition(&entry.path(), fields, &mut found);
        }
    }
    Some(found)
}

fn partition(path: &Path, fields: &Fields, found: &mut Found) {
    let store = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut select = store
        .prepare(
            "SELECT tbl, src, sport, dst, dport, body FROM records
             UNION ALL SELECT 'flow', src, sport, dst, dport, coalesce(service, '') FROM flows WHERE proto IN (6, 17)",
        )
        .unwrap();
    let mut rows = select.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let address = |at: usize| {
            let bytes: [u8; 16] = row.get::<_, Vec<u8>>(at).unwrap().try_into().unwrap();
            let address = Ipv6Addr::from(bytes);
            address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
        };
        let port = |at: usize| row.get::<_, u16>(at).unwrap();
        let flow = flow((address(1), port(2)), (address(3), port(4)));
        let table: String = row.get(0).unwrap();
        let body: String = row.get(5).unwrap();
        let body = match table.as_str() {
            "flow" => services(&body),
            _ => serde_json::from_str(&body).unwrap(),
        };
        for (at, pair) in fields.pairs.iter().enumerate() {
            let of_table = pair.tables.iter().filter(|(name, _)| *name == table);
            of_table.for_each(|(_, paths)| record(&body, at, pair, paths, flow, found));
        }
    }
}

/// A flow's services, as a record.
fn services(service: &str) -> Value {
    serde_json::json!({ "service": service.split(' ').collect::<Vec<_>>() })
}

fn record(body: &Value, at: usize, pair: &Pair, paths: &[Vec<&str>], flow: Flow, found: &mut Found) {
    if let Some((field, values)) = &pair.records {
        let value = text(&body[*field]).unwrap_or_default();
        if !(values.contains(&value.as_str()) || values.is_empty() && value.is_empty()) {
            return;
        }
    }
    let mut all = Vec::new();
    paths.iter().for_each(|path| leaves(body, path, &mut all));
    let is_compared = |value: &str| match pair.words.get(value) {
        Some(word) => !word.is_empty(),
        None => !pair.listed || pair.words.values().any(|word| *word == value),
    };
    all.retain(|value| is_compared(value));
    for value in all {
        form(pair.kind, &value).into_iter().for_each(|value| add(found, at, pair, flow, value));
    }
}

/// The values at a path, of every row and every member of a list.
fn leaves(value: &Value, path: &[&str], all: &mut Vec<String>) {
    match (value, path) {
        (Value::Array(values), _) => values.iter().for_each(|value| leaves(value, path, all)),
        (_, [key, rest @ ..]) => leaves(&value[*key], rest, all),
        (value, []) => all.extend(text(value)),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
