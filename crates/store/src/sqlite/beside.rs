//! Values beside a flow that a query asks for: of its own fields, and of the fields of its records.

use super::condition::detail;
use super::connection::describe;
use super::partition::Part;
use crate::StoreError;
use crate::body::{self, Leaf};
use crate::fields::{FlowField, FlowSource};
use rusqlite::types::ValueRef;
use serde_json::{Map, Number, Value, json};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use weir_filter::FLOW;
use weir_filter::fields::FieldInfo;

/// Records of a flow whose values are read, of each table.
const RECORDS: usize = 64;
/// Different values of a field that are given.
const VALUES: usize = 8;

/// The values of `fields` for a flow of a partition, by `table.field`: of the flow with these numbers, times and details. A field
/// without a value has none; one with several different values has a list of the first ones.
///
/// # Errors
///
/// The database cannot be read.
pub fn values(
    parts: &[Part],
    part: &Part,
    (id, uid): (i64, u64),
    times: (u64, u64),
    of_flow: &str,
    fields: &[FieldInfo],
) -> Result<Map<String, Value>, StoreError> {
    let mut found = Map::new();
    // The records of a table are read once for all of its fields.
    let mut tables: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
    for field in fields {
        match FlowField::find(field.name).filter(|_| field.table == FLOW) {
            Some(known) => {
                let value = own(part, id, of_flow, known)?;
                found.insert(format!("{FLOW}.{}", field.name), value);
            }
            None => tables.entry(field.table).or_default().push(field.name),
        }
    }
    for (table, names) in tables {
        let values = of_records(parts, uid, times, table, &names)?;
        found.extend(names.iter().zip(values).map(|(name, value)| (format!("{table}.{name}"), value)));
    }
    Ok(found)
}

/// A value of the flow itself.
fn own(part: &Part, id: i64, of_flow: &str, field: &FlowField) -> Result<Value, StoreError> {
    match field.source {
        FlowSource::Detail(members) => Ok(detail(of_flow, members).map_or(Value::Null, |leaf| value(&leaf))),
        FlowSource::Column(text) | FlowSource::Words(text) => {
            let describe = describe(&part.path);
            let text = format!("SELECT {text} FROM flows WHERE id = ?");
            let mut query = part.connection.prepare_cached(&text).map_err(describe)?;
            query.query_row([id], |row| Ok(column(row.get_ref(0)?))).map_err(describe)
        }
    }
}

/// The values of each of the fields of a table in the records of a flow, which can be in other partitions.
fn of_records(
    parts: &[Part],
    uid: u64,
    (first, last): (u64, u64),
    table: &str,
    names: &[&str],
) -> Result<Vec<Value>, StoreError> {
    let mut found: Vec<Vec<Value>> = vec![Vec::new(); names.len()];
    for part in parts.iter().filter(|part| part.extent.0 <= last && part.extent.1 >= first) {
        let describe = describe(&part.path);
        let text = "SELECT body FROM records WHERE uid = ?1 AND tbl = ?2 ORDER BY time, id LIMIT ?3";
        let mut query = part.connection.prepare_cached(text).map_err(describe)?;
        let mut rows = query.query((uid as i64, table, RECORDS as i64)).map_err(describe)?;
        while let Some(row) = rows.next().map_err(describe)? {
            let body: String = row.get(0).map_err(describe)?;
            for (name, found) in names.iter().zip(&mut found) {
                let Some(written) = body::member(&body, name) else { continue };
                body::leaves(written, &mut |leaf| {
                    let value = value(&leaf);
                    if found.len() < VALUES && !found.contains(&value) {
                        found.push(value);
                    }
                });
            }
        }
    }
    let one = |mut values: Vec<Value>| match values.len() {
        0 => Value::Null,
        1 => values.pop().unwrap_or_default(),
        _ => Value::Array(values),
    };
    Ok(found.into_iter().map(one).collect())
}

fn value(leaf: &Leaf<'_>) -> Value {
    match leaf {
        Leaf::Bool(yes) => json!(yes),
        Leaf::Text(text) => json!(text),
        Leaf::Sum(sum) => json!(sum),
        Leaf::Number(digits) => digits.parse::<Number>().map_or_else(|_| json!(digits), Value::Number),
    }
}

fn column(found: ValueRef<'_>) -> Value {
    match found {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => json!(Ipv6Addr::from(bytes).to_canonical()),
            Err(_) => Value::Null,
        },
    }
}
