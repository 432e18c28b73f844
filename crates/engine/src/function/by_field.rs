//! Functions over records: lists, distinct counts and quantiles by any fields.
//!
//! A list is exact while its keys fit. Then a new key displaces the lightest of eight rows. Each row has an upper bound
//! of its undercount, and the list has one for keys without a row.

use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::fields::{self, RecordView};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv6Addr;
use weir_api::{
    Datum, Distinct, Fold, Folded, FunctionCall, KeyColumn, Level, Reading, Schema, Shown, Sketch, Table,
    TableColumn, TableRow,
};
use weir_filter::RecordRow;
use weir_filter::fields::{FieldInfo, FieldKind, FieldValue, Number};

/// Maximum number of parts of a key.
const PARTS: usize = 4;
/// Maximum number of keys of one record: a field can have several values.
const KEYS: usize = 64;
/// Maximum bytes of a text in a key. Longer ones are cut.
const TEXT: usize = 256;
/// Rows of which the lightest is displaced.
const CANDIDATES: usize = 8;
/// Bytes of a row that is as large as it can be, with its place in the index.
const ROW: usize = 2 * size_of::<TableRow>() + PARTS * (size_of::<Datum>() + TEXT) + size_of::<Folded>() + 32;

/// Maximum bytes of a sketch.
const SKETCH: usize = 2 * Sketch::MAX_BUCKETS * size_of::<(i32, u64)>();

/// A part of a key, or the measured value.
#[derive(Clone, Copy, Debug)]
enum Part {
    Field(FieldInfo),
    /// The initiator of the record's flow.
    Source,
    /// The responder of the record's flow.
    Destination,
    /// The responder's port.
    Port,
}

impl Part {
    /// Parses the name of a part: a field with its table, or one of the flow's.
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "source" | "client" => Part::Source,
            "destination" | "server" => Part::Destination,
            "port" => Part::Port,
            _ => {
                let (table, field) = name.split_once('.').ok_or_else(|| {
                    format!("`{name}` is no field of a record: table.field, source, destination or port")
                })?;
                match fields::find(table, field) {
                    Some((info, _)) => Part::Field(info),
                    None if fields::names(table).is_empty() => {
                        return Err(format!(
                            "no table `{table}`: tables are {}",
                            fields::tables().join(", ")
                        ));
                    }
                    None => {
                        let names = fields::names(table).join(", ");
                        return Err(format!("table `{table}` has no field `{field}`; it has {names}"));
                    }
                }
            }
        })
    }

    fn name(&self) -> String {
        match self {
            Part::Field(info) => format!("{}_{}", info.table, info.name),
            Part::Source => "source".to_owned(),
            Part::Destination => "destination".to_owned(),
            Part::Port => "port".to_owned(),
        }
    }

    /// Calls `each` with every value of the part in a record.
    fn values(&self, record: &RecordView<'_>, each: &mut dyn FnMut(FieldValue<'_>)) {
        let ends = &record.endpoints;
        let address = |bytes: [u8; 16]| FieldValue::Address(u128::from_be_bytes(bytes));
        match self {
            Part::Field(info) if info.table == record.table() => record.values(info, each),
            Part::Field(_) => {}
            Part::Source => each(address(ends.address[0])),
            Part::Destination => each(address(ends.address[1])),
            Part::Port => each(FieldValue::Number(Number::Whole(ends.port[1].into()))),
        }
    }
}

fn datum(value: FieldValue<'_>) -> Datum {
    match value {
        FieldValue::Bool(value) => Datum::Text(if value { "true" } else { "false" }.into()),
        FieldValue::Number(Number::Whole(number)) => match u64::try_from(number) {
            Ok(number) => Datum::Number(number),
            Err(_) => Datum::Text(number.to_string().into()),
        },
        FieldValue::Number(Number::Real(number)) => Datum::Text(number.to_string().into()),
        FieldValue::Address(address) => Datum::Address(Ipv6Addr::from_bits(address).to_canonical()),
        FieldValue::Text(text) => {
            let text = String::from_utf8_lossy(text.get(..TEXT).unwrap_or(text));
            Datum::Text(text.into())
        }
    }
}

/// The parts that an argument names, joined by commas.
fn parts(text: &str) -> Result<Vec<Part>, String> {
    let parts: Vec<Part> = text.split(',').map(|name| Part::parse(name.trim())).collect::<Result<_, _>>()?;
    if parts.len() > PARTS {
        return Err(format!("`{text}`: {} fields, at most {PARTS}", parts.len()));
    }
    are_of_one_table(&parts).map_err(|error| format!("`{text}`: {error}"))?;
    Ok(parts)
}

/// Checks that a record can have all parts.
fn are_of_one_table<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Result<(), String> {
    let mut tables: Vec<&str> = parts.into_iter().filter_map(table_of).collect();
    tables.sort_unstable();
    tables.dedup();
    match tables.as_slice() {
        [] | [_] => Ok(()),
        tables => Err(format!("a record is of one table, and these are fields of {}", tables.join(" and "))),
    }
}

fn table_of(part: &Part) -> Option<&'static str> {
    match part {
        Part::Field(info) => Some(info.table),
        _ => None,
    }
}

/// The tables whose records a call reads; `None` if every record has its parts.
pub fn tables(call: &FunctionCall) -> Option<Vec<&'static str>> {
    let fields = call.arguments.iter().filter(|(name, _)| name == "by" || name == "of");
    let found = fields.flat_map(|(_, text)| parts(text).unwrap_or_default());
    let mut tables: Vec<&'static str> = found.filter_map(|part| table_of(&part)).collect();
    tables.dedup();
    (!tables.is_empty()).then_some(tables)
}

/// Arguments of lists.
const SHOW: Argument =
    Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") };

pub(super) static RECORDS: FunctionSpec = FunctionSpec {
    name: "records",
    help: "Number of records.",
    arguments: &[],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |_| Ok(memory(1, 0)),
    build: |arguments| Ok(Box::new(ByField::new(Vec::new(), None, Fold::Sum, 1, 1, arguments.seed))),
};

pub(super) static TOP: FunctionSpec = FunctionSpec {
    name: "top",
    help: "Most frequent values of fields, in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row.",
    arguments: &[
        Argument {
            name: "by",
            help: "The key: up to four of table.field, source (the initiator), destination (the responder) and port, joined by commas.",
            default: Some("source"),
        },
        SHOW,
        Argument { name: "rows", help: "Number of keys to keep, 16 to 1048576.", default: Some("1024") },
    ],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |arguments| top(arguments).map(|(_, _, rows)| memory(rows, 0)),
    build: |arguments| {
        let (keys, show, rows) = top(arguments)?;
        Ok(Box::new(ByField::new(keys, None, Fold::Sum, show, rows, arguments.seed)))
    },
};

pub(super) static DISTINCT: FunctionSpec = FunctionSpec {
    name: "distinct",
    help: "Number of distinct values of a field, in fixed memory: exact up to 512, above that with a standard error of 1.6%.",
    arguments: &[Argument {
        name: "of",
        help: "The field: table.field, source (the initiator), destination (the responder) or port.",
        default: Some("source"),
    }],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |_| Ok(memory(1, Distinct::SIZE)),
    build: |arguments| {
        let of = one(arguments, "distinct")?;
        Ok(Box::new(ByField::new(Vec::new(), Some(of), Fold::Distinct, 1, 1, arguments.seed)))
    },
};

pub(super) static QUANTILES: FunctionSpec = FunctionSpec {
    name: "quantiles",
    help: "Quantiles of a number, of all records or by fields, within 1% of the exact ones.",
    arguments: &[
        Argument { name: "of", help: "The field: table.field.", default: None },
        Argument {
            name: "by",
            help: "The key, as in top; none for all records together.",
            default: Some(""),
        },
        SHOW,
        Argument { name: "rows", help: "Number of keys to keep, 16 to 65536.", default: Some("256") },
    ],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |arguments| quantiles(arguments).map(|(.., rows)| memory(rows, SKETCH)),
    build: |arguments| {
        let (of, keys, show, rows) = quantiles(arguments)?;
        Ok(Box::new(ByField::new(keys, Some(of), Fold::Sketch, show, rows, arguments.seed)))
    },
};

/// Keys, rows to show and rows to keep of a list.
fn top(arguments: &Arguments<'_>) -> Result<(Vec<Part>, u32, usize), String> {
    let (show, rows): (u32, usize) = (arguments.parse("show")?, arguments.parse("rows")?);
    check(&[("show", show as usize, 1..=1000), ("rows", rows, 16..=1 << 20)])?;
    Ok((parts(arguments.text("by")?)?, show, rows))
}

/// The measured field, keys, rows to show and rows to keep of quantiles.
fn quantiles(arguments: &Arguments<'_>) -> Result<(Part, Vec<Part>, u32, usize), String> {
    let (show, rows): (u32, usize) = (arguments.parse("show")?, arguments.parse("rows")?);
    check(&[("show", show as usize, 1..=1000), ("rows", rows, 16..=1 << 16)])?;
    let of = one(arguments, "quantiles")?;
    let by = arguments.text("by")?;
    let keys = if by.is_empty() { Vec::new() } else { parts(by)? };
    are_of_one_table(keys.iter().chain([&of]))?;
    let rows = if keys.is_empty() { 1 } else { rows };
    Ok((of, keys, show, rows))
}

/// The one field of the argument `of`.
fn one(arguments: &Arguments<'_>, function: &str) -> Result<Part, String> {
    match parts(arguments.text("of")?)?.as_slice() {
        [one] => Ok(*one),
        _ => Err(format!("`{function}`: of = `{}` is more than one field", arguments.text("of")?)),
    }
}

/// The unit of a field's values.
fn unit(info: &FieldInfo) -> &'static str {
    match info.kind {
        FieldKind::Time | FieldKind::Duration => "seconds",
        _ => "",
    }
}

fn check(limits: &[(&str, usize, std::ops::RangeInclusive<usize>)]) -> Result<(), String> {
    match limits.iter().find(|(_, value, range)| !range.contains(value)) {
        Some((name, value, range)) => {
            Err(format!("{name} = {value} is not {} to {}", range.start(), range.end()))
        }
        None => Ok(()),
    }
}

/// Memory of a list of this number of rows, each with a value of this number of bytes.
fn memory(rows: usize, value: usize) -> Memory {
    Memory { state: 1024 + rows * (ROW + value), reading: 1024 + rows * (ROW + value) }
}

/// The present rows, and the way to them.
struct ByField {
    keys: Vec<Part>,
    /// The measured part; `None` counts records.
    of: Option<Part>,
    schema: Cow<'static, Schema>,
    fold: Fold,
    capacity: usize,
    seed: u64,
    rows: Vec<Row>,
    /// Positions in `rows`, by the hash of their keys.
    index: HashMap<u64, u32>,
    /// Upper bound for a key without a row.
    absent: u64,
}

struct Row {
    hash: u64,
    key: Vec<Datum>,
    value: Folded,
    error: u64,
}

impl ByField {
    fn new(keys: Vec<Part>, of: Option<Part>, fold: Fold, show: u32, rows: usize, seed: u64) -> Self {
        let key = |part: &Part| KeyColumn {
            name: part.name().into(),
            help: match part {
                Part::Field(info) => {
                    let found = fields::find(info.table, info.name);
                    found.map_or(Cow::Borrowed(""), |(_, field)| Cow::Borrowed(field.help))
                }
                Part::Source => Cow::Borrowed("The initiator of the flow."),
                Part::Destination => Cow::Borrowed("The responder of the flow."),
                Part::Port => Cow::Borrowed("The responder's port."),
            },
        };
        let (name, unit, help) = match (fold, &of) {
            (Fold::Distinct, Some(of)) => (of.name(), "", "Number of distinct values."),
            (Fold::Sketch, Some(Part::Field(info))) => {
                (of.as_ref().map(Part::name).unwrap_or_default(), unit(info), "Quantiles.")
            }
            _ => ("records".to_owned(), "records", "Number of records."),
        };
        let column = TableColumn { name: name.into(), fold, unit: unit.into(), help: help.into() };
        let schema = Schema {
            name: "records".into(),
            keys: keys.iter().map(key).collect(),
            columns: vec![column].into(),
            shown: Shown::Heaviest(show),
        };
        Self {
            keys,
            of,
            schema: Cow::Owned(schema),
            fold,
            capacity: rows,
            seed,
            rows: Vec::new(),
            index: HashMap::new(),
            absent: 0,
        }
    }

    /// Adds a value, or a record, to the row of a key.
    fn add(&mut self, key: &[Datum], value: Option<&Datum>, number: Option<f64>) {
        let mut hasher = DefaultHasher::new();
        self.seed.hash(&mut hasher);
        key.hash(&mut hasher);
        let mut hash = hasher.finish();
        let at = loop {
            match self.index.get(&hash).map(|at| *at as usize) {
                Some(at) if self.rows.get(at).is_some_and(|row| row.key == key) => break at,
                // Two keys with one hash: the next number is free or another key's.
                Some(_) => hash = hash.wrapping_add(1),
                None => break self.insert(hash, key),
            }
        };
        let seed = self.seed;
        let Some(row) = self.rows.get_mut(at) else { return };
        match (&mut row.value, value, number) {
            (Folded::Sum(records), ..) => *records += 1,
            (Folded::Distinct(values), Some(value), _) => {
                values.add(number_of(value, seed));
            }
            (Folded::Sketch(sketch), _, Some(number)) => sketch.add(number),
            _ => {}
        }
    }

    fn insert(&mut self, hash: u64, key: &[Datum]) -> usize {
        let row = Row { hash, key: key.to_vec(), value: Folded::new(self.fold), error: self.absent };
        if self.rows.len() < self.capacity {
            self.rows.push(row);
            let at = self.rows.len() - 1;
            self.index.insert(hash, at as u32);
            return at;
        }
        let start = hash as usize % self.rows.len();
        let places = (start..self.rows.len()).chain(0..start).take(CANDIDATES);
        let weight = |at: &usize| self.rows.get(*at).map_or(0, |row| row.value.weight());
        let at = places.min_by_key(weight).unwrap_or_default();
        if let Some(old) = self.rows.get_mut(at) {
            self.absent = self.absent.max(old.value.weight() + old.error);
            self.index.remove(&old.hash);
            *old = Row { error: self.absent, ..row };
        }
        self.index.insert(hash, at as u32);
        at
    }
}

/// A number that stands for a value: addresses and numbers for themselves, text by its hash.
fn number_of(value: &Datum, seed: u64) -> u128 {
    match value {
        Datum::Number(number) => u128::from(*number),
        other => {
            let hash = |part: u64| {
                let mut hasher = DefaultHasher::new();
                (seed, part, other).hash(&mut hasher);
                u128::from(hasher.finish())
            };
            hash(0) << 64 | hash(1)
        }
    }
}

/// A value as a number; of times and lengths of time, seconds.
fn real(value: &FieldValue<'_>) -> Option<f64> {
    match value {
        FieldValue::Number(Number::Whole(number)) => Some(*number as f64),
        FieldValue::Number(Number::Real(number)) => Some(*number),
        _ => None,
    }
}

impl Function for ByField {
    fn item(&mut self, item: &Item<'_>) {
        let Item::Record(record) = item else { return };
        // Every combination of the values of the parts is a key.
        let mut keys: Vec<Vec<Datum>> = vec![Vec::new()];
        for part in &self.keys {
            let mut values = Vec::new();
            part.values(record, &mut |value| values.push(datum(value)));
            let with = |key: &Vec<Datum>| {
                let key = key.clone();
                values.iter().map(move |value| key.iter().chain([value]).cloned().collect())
            };
            keys = keys.iter().flat_map(with).take(KEYS).collect();
        }
        match self.of {
            None => keys.iter().for_each(|key| self.add(key, None, None)),
            Some(part) => {
                let mut values = Vec::new();
                part.values(record, &mut |value| values.push((datum(value), real(&value))));
                for (value, number) in values.iter().take(KEYS) {
                    keys.iter().for_each(|key| self.add(key, Some(value), *number));
                }
            }
        }
    }

    fn take(&mut self) -> Reading {
        self.index.clear();
        let rows = std::mem::take(&mut self.rows).into_iter();
        let rows = rows.map(|Row { key, value, error, .. }| TableRow { key, values: vec![value], error });
        let absent = std::mem::take(&mut self.absent);
        Reading::Table(Table::new(self.schema.clone(), self.capacity, rows.collect(), absent))
    }
}
