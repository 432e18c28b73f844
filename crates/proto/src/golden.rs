//! The records of every conversation under `testdata/`, field by field with the name of the field.
//!
//! The laws hold for a parser that gives the value of one field to another; these files do not.
//! `testdata/<protocol>/records.txt` is written anew with `WEIR_BLESS=1 cargo test -p weir-proto golden`: read the
//! difference before it is committed.

use crate::laws::{Collected, all_talks, testdata};
use crate::{Field, Kind, PROTOCOLS, Record, Table, Value, tables};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Bytes of a text that are shown.
const SHOWN: usize = 96;

/// Pairs of fields of one kind in one table that no conversation tells apart: each pair has equal values in every
/// record, mostly because neither field has any. This number only falls.
const ALIKE: usize = 511;

fn emitted() -> impl Iterator<Item = (std::path::PathBuf, Collected)> {
    all_talks().map(|(path, talk)| {
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        (path, emitted)
    })
}

fn show(value: &Value<'_>, kind: &Kind) -> String {
    let list = |values: &[Value<'_>], kind: &Kind| -> String {
        let shown: Vec<_> = values.iter().map(|value| show(value, kind)).collect();
        format!("[{}]", shown.join(", "))
    };
    match (value, kind) {
        (Value::Text(text), _) => match text.get(..SHOWN) {
            Some(head) => format!("\"{}\" and {} bytes", head.escape_ascii(), text.len() - SHOWN),
            None => format!("\"{}\"", text.escape_ascii()),
        },
        (Value::List(values), Kind::List(kind) | Kind::Set(kind)) => list(values, kind),
        (Value::Rows(rows), Kind::Rows(fields)) => {
            let shown = |row: &Vec<Value<'_>>| {
                let present = fields.iter().zip(row).filter(|(_, value)| !value.is_none());
                let shown: Vec<_> = present
                    .map(|(field, value)| format!("{}={}", field.name, show(value, &field.kind)))
                    .collect();
                format!("{{{}}}", shown.join(" "))
            };
            format!("[{}]", rows.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        (Value::Bool(is), _) => is.to_string(),
        (Value::Uint(number), _) => number.to_string(),
        (Value::Int(number), _) => number.to_string(),
        (Value::Real(number), _) => format!("{number:?}"),
        (Value::Time(time), _) => format!("time {}", time.0),
        (Value::Duration(span), _) => format!("{span} ns"),
        (Value::Address(address), _) => address.to_string(),
        other => format!("{other:?}"),
    }
}

fn shown(record: &Record<'_>) -> String {
    let mut text = format!("{} {}\n", record.table.name, record.time.0 - 1_700_000_000_000_000_000);
    for (field, value) in record.table.fields.iter().zip(&record.values).filter(|(_, value)| !value.is_none())
    {
        let _ = writeln!(text, "  {} = {}", field.name, show(value, &field.kind));
    }
    text
}

#[test]
fn every_field_has_its_own_value() {
    let mut texts = BTreeMap::<&str, String>::new();
    for (path, emitted) in emitted() {
        let folder =
            path.parent().and_then(|folder| folder.file_name()).and_then(|name| name.to_str()).unwrap();
        let protocol = PROTOCOLS.iter().find(|protocol| protocol.name == folder).unwrap();
        let text = texts.entry(protocol.name).or_default();
        let _ = writeln!(text, "== {}", path.file_name().unwrap().display());
        emitted.records.iter().for_each(|record| text.push_str(&shown(record)));
    }
    for (protocol, text) in texts {
        let path = testdata().join(protocol).join("records.txt");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        let mut differing =
            known.lines().zip(text.lines()).enumerate().filter(|(_, (known, now))| known != now);
        if let Some((at, (known, now))) = differing.next() {
            panic!("{}:{}: {known} is now {now}", path.display(), at + 1);
        }
        assert_eq!(known.len(), text.len(), "{}", path.display());
    }
}

/// Fields that could be swapped without a change of any record that the conversations give.
#[test]
fn swapped_fields_are_found() {
    /// Fields of a table or of its rows, by their names: sections of a message have rows of equal fields.
    type Seen<'a> = BTreeMap<Vec<&'static str>, (&'static [Field], BTreeSet<(usize, usize)>)>;
    fn names(fields: &'static [Field]) -> Vec<&'static str> {
        fields.iter().map(|field| field.name).collect()
    }
    fn is_one_kind(one: &Kind, other: &Kind) -> bool {
        match (one, other) {
            (Kind::List(one) | Kind::Set(one), Kind::List(other) | Kind::Set(other)) => {
                is_one_kind(one, other)
            }
            (Kind::Rows(one), Kind::Rows(other)) => std::ptr::eq(*one, *other),
            _ => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
    fn register(fields: &'static [Field], seen: &mut Seen<'_>) {
        let pairs = (0..fields.len()).flat_map(|one| (one + 1..fields.len()).map(move |other| (one, other)));
        let pairs =
            pairs.filter(|(one, other)| is_one_kind(&fields[*one].kind, &fields[*other].kind)).collect();
        if seen.insert(names(fields), (fields, pairs)).is_none() {
            for field in fields {
                if let Kind::Rows(fields) = field.kind {
                    register(fields, seen);
                }
            }
        }
    }
    fn look(fields: &'static [Field], values: &[Value<'_>], seen: &mut Seen<'_>) {
        if let Some((_, pairs)) = seen.get_mut(&names(fields)) {
            pairs.retain(|(one, other)| values[*one] == values[*other]);
        }
        for (field, value) in fields.iter().zip(values) {
            if let (Kind::Rows(fields), Value::Rows(rows)) = (&field.kind, value) {
                rows.iter().for_each(|row| look(fields, row, seen));
            }
        }
    }
    // The engine fills these tables.
    let is_filled_here = |table: &&Table| !["alert", "stream", "stream_sample"].contains(&table.name);
    let mut seen = Seen::new();
    tables().filter(is_filled_here).for_each(|table| register(table.fields, &mut seen));
    for (_, emitted) in emitted() {
        emitted.records.iter().for_each(|record| look(record.table.fields, &record.values, &mut seen));
    }
    let alike: Vec<_> = seen
        .values()
        .flat_map(|(fields, pairs)| {
            pairs.iter().map(|(one, other)| format!("{} {}", fields[*one].name, fields[*other].name))
        })
        .collect();
    assert!(alike.len() <= ALIKE, "{} pairs: {alike:#?}", alike.len());
}
