//! Functions over records: lists, distinct counts and quantiles by any fields.

use super::keyed_rows::{KeyedRows, Row};
use super::record_key::{self, KEYS, Keys, TEXT};
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::fields::{self, RecordView};
use crate::{Item, Seeds};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};
use weir_api::{
    Bits, Datum, Fold, Folded, FunctionCall, KeyColumn, Level, NETWORK_NAMES, Reading, Schema, Shown, Sketch,
    Table, TableColumn, TableRow,
};
use weir_filter::RecordRow;
use weir_filter::fields::{FieldInfo, FieldKind, FieldValue, Number};
use weir_proto::SITE;
use weir_wire::has_ports;

/// Maximum number of parts of a key.
const PARTS: usize = 4;
/// Bytes of a row without its key, with its place in the index.
const ROW: usize = 2 * size_of::<TableRow>() + size_of::<Folded>() + 32;
/// Maximum number of buckets of a sketch of one key: values over 16 powers of two keep their resolution.
const BUCKETS: u16 = 1024;

/// A part of a key, or the measured value.
#[derive(Clone, Copy, Debug)]
enum Part {
    Field(FieldInfo),
    /// The initiator of the record's flow.
    Source,
    /// The responder of the record's flow.
    Destination,
    /// The responder's port; of protocols with ports.
    Port,
    /// The name of the site that a client asks for: of [`SITE`], the field of the record's table.
    Site,
    /// The registered domain of the name that DNS was asked for: of [`NAME`].
    Domain,
}

/// The field of names that DNS was asked for, in lower case.
const NAME: (&str, &str) = ("dns", "query");

/// The field of [`NAME`].
static NAMES: LazyLock<Option<FieldInfo>> =
    LazyLock::new(|| fields::find(NAME.0, NAME.1).map(|(info, _)| info));

/// The fields of [`SITE`].
static SITES: LazyLock<Vec<FieldInfo>> = LazyLock::new(|| {
    let found = SITE.iter().filter_map(|(table, field)| fields::find(table, field));
    found.map(|(info, _)| info).collect()
});

impl Part {
    /// Parses the name of a part: a field with its table, or one of the flow's.
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "source" | "client" => Part::Source,
            "destination" | "server" => Part::Destination,
            "port" => Part::Port,
            "site" => Part::Site,
            "domain" => Part::Domain,
            _ => {
                let (table, field) = name.split_once('.').ok_or_else(|| {
                    format!(
                        "`{name}` is not a field of a record; expected table.field, source, destination, port, site or domain"
                    )
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
            Part::Site => "site".to_owned(),
            Part::Domain => "domain".to_owned(),
        }
    }

    /// The tables whose records have the part; `None` if every record has it.
    fn tables(&self) -> Option<Vec<&'static str>> {
        match self {
            Part::Field(info) => Some(vec![info.table]),
            Part::Site => Some(SITE.iter().map(|(table, _)| *table).collect()),
            Part::Domain => Some(vec![NAME.0]),
            Part::Source | Part::Destination | Part::Port => None,
        }
    }

    /// Maximum bytes of a value.
    fn size(&self) -> usize {
        let is_text = match self {
            Part::Field(info) => info.kind == FieldKind::Text,
            Part::Site | Part::Domain => true,
            Part::Source | Part::Destination | Part::Port => false,
        };
        // Numbers with a fraction and truth values are texts of a few bytes.
        size_of::<Datum>() + if is_text { TEXT } else { 32 }
    }

    /// The field that its values come from, or one of equal meaning.
    fn field(&self) -> String {
        match self {
            Part::Field(info) => format!("{}.{}", info.table, info.name),
            Part::Site => format!("{}.{}", SITE[0].0, SITE[0].1),
            // A test of the field would compare whole names.
            Part::Domain => NETWORK_NAMES.to_owned(),
            Part::Source | Part::Destination | Part::Port => String::new(),
        }
    }

    fn help(&self) -> &'static str {
        match self {
            Part::Field(info) => fields::find(info.table, info.name).map_or("", |(_, field)| field.help),
            Part::Source => "The initiator of the flow.",
            Part::Destination => "The responder of the flow.",
            Part::Port => "The responder's port; protocols without ports have none.",
            Part::Site => "Name of the site that the client requests over HTTP, TLS or QUIC, in lower case.",
            Part::Domain => {
                "Registered domain of the queried DNS name, by the public suffix list; the suffix itself if the name has no more labels."
            }
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
            Part::Port if has_ports(ends.protocol) => {
                each(FieldValue::Number(Number::Whole(ends.port[1].into())));
            }
            // No value: the record is in no list by port.
            Part::Port => {}
            Part::Domain => {
                if let Some(info) = NAMES.as_ref().filter(|info| info.table == record.table()) {
                    record.values(info, &mut |value| match value {
                        FieldValue::Text(name) => each(FieldValue::Text(registered(name))),
                        other => each(other),
                    });
                }
            }
            Part::Site => {
                let table = record.table();
                if let Some(info) = SITES.iter().find(|info| info.table == table) {
                    record.values(info, &mut |value| match value {
                        FieldValue::Text(text) => {
                            let mut lower = [0; TEXT];
                            let text = text.get(..TEXT).unwrap_or(text);
                            let lower = lower.get_mut(..text.len()).unwrap_or_default();
                            lower.copy_from_slice(text);
                            lower.make_ascii_lowercase();
                            each(FieldValue::Text(lower));
                        }
                        other => each(other),
                    });
                }
            }
        }
    }
}

/// The registered domain of a name in lower case: the public suffix and one label more. The whole name if it has only one
/// label, or is a suffix.
fn registered(name: &[u8]) -> &[u8] {
    let name = name.strip_suffix(b".").unwrap_or(name);
    psl::domain(name).map_or(name, |domain| domain.as_bytes())
}

/// The parts that an argument names, joined by commas.
fn parts(text: &str) -> Result<Vec<Part>, String> {
    let parts: Vec<Part> = text.split(',').map(|name| Part::parse(name.trim())).collect::<Result<_, _>>()?;
    if parts.len() > PARTS {
        return Err(format!("`{text}` has {} fields; expected at most {PARTS}", parts.len()));
    }
    common(&parts).map_err(|error| format!("`{text}`: {error}"))?;
    Ok(parts)
}

/// The tables whose records have all parts; `None` if every record has them.
///
/// # Errors
/// No record has all of them; the text names the tables.
fn common<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Result<Option<Vec<&'static str>>, String> {
    let mut common: Option<Vec<&'static str>> = None;
    let mut named = Vec::new();
    for tables in parts.into_iter().filter_map(Part::tables) {
        named.push(tables.join(" or "));
        match &mut common {
            Some(common) => common.retain(|table| tables.contains(table)),
            None => common = Some(tables),
        }
    }
    named.sort_unstable();
    named.dedup();
    match common {
        Some(tables) if tables.is_empty() => {
            Err(format!("the fields are of {}, but a record is of one table", named.join(" and ")))
        }
        common => Ok(common),
    }
}

/// The tables whose records a call reads; `None` if every record has its parts.
pub fn tables(call: &FunctionCall) -> Option<Vec<&'static str>> {
    let fields = call.arguments.iter().filter(|(name, _)| name == "by" || name == "of");
    let found: Vec<Part> = fields.flat_map(|(_, text)| parts(text).unwrap_or_default()).collect();
    // The arguments were checked when the function was built.
    common(&found).unwrap_or_default()
}

/// The fields of a table that a call reads; `None` if it names no field of a record.
pub fn fields(call: &FunctionCall, table: &str) -> Option<Vec<&'static str>> {
    let named = call.arguments.iter().filter(|(name, _)| name == "by" || name == "of");
    let found: Vec<Part> = named.flat_map(|(_, text)| parts(text).unwrap_or_default()).collect();
    let of_table = |part: &Part| match part {
        Part::Field(info) if info.table == table => Some(info.name),
        Part::Site => SITE.iter().find(|(of, _)| *of == table).map(|(_, field)| *field),
        Part::Domain if table == NAME.0 => Some(NAME.1),
        _ => None,
    };
    found.iter().any(|part| part.tables().is_some()).then(|| found.iter().filter_map(of_table).collect())
}

/// Arguments of lists.
const BY: Argument =
    Argument { name: "by", help: "The key, as in top; none for all records together.", default: Some("") };
const SHOW: Argument =
    Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") };

pub(super) static RECORDS: FunctionSpec = FunctionSpec {
    name: "records",
    help: "Number of records.",
    arguments: &[],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |_| Ok(memory(1, &[], 0)),
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| Ok(Box::new(ByField::new(Vec::new(), None, Fold::Sum, 1, 1, arguments.seeds))),
};

pub(super) static TOP: FunctionSpec = FunctionSpec {
    name: "top",
    help: "Most frequent values of fields, in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row.",
    arguments: &[
        Argument {
            name: "by",
            help: "The key: up to four of table.field, source (the initiator), destination (the responder), port, site and domain (the registered domain of dns.query), joined by commas.",
            default: Some("source"),
        },
        SHOW,
        Argument { name: "rows", help: "Number of keys to keep, 16 to 1048576.", default: Some("1024") },
    ],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |arguments| top(arguments).map(|(keys, _, rows)| memory(rows, &keys, 0)),
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (keys, show, rows) = top(arguments)?;
        Ok(Box::new(ByField::new(keys, None, Fold::Sum, show, rows, arguments.seeds)))
    },
};

pub(super) static DISTINCT: FunctionSpec = FunctionSpec {
    name: "distinct",
    help: "Number of distinct values of a field, of all records or by fields, in fixed memory: exact up to 256 values and for whole numbers below 65536, else with a standard error of 1.6%.",
    arguments: &[
        Argument {
            name: "of",
            help: "The field: table.field, source (the initiator), destination (the responder), port, site or domain.",
            default: Some("source"),
        },
        BY,
        SHOW,
        Argument {
            name: "rows",
            help: "Number of keys to keep, 4 to 65536, each with up to 8 KiB.",
            default: Some("256"),
        },
    ],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |arguments| {
        let (_, keys, _, rows) = valued(arguments, "distinct")?;
        Ok(memory(rows, &keys, Bits::MEMORY))
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (of, keys, show, rows) = valued(arguments, "distinct")?;
        Ok(Box::new(ByField::new(keys, Some(of), Fold::Distinct, show, rows, arguments.seeds)))
    },
};

pub(super) static QUANTILES: FunctionSpec = FunctionSpec {
    name: "quantiles",
    help: "Quantiles of a number, of all records or by fields, within 1% of the exact ones; by fields, within 2% if the values of a key differ by a factor of more than 65536.",
    arguments: &[
        Argument { name: "of", help: "The field: table.field.", default: None },
        BY,
        SHOW,
        Argument { name: "rows", help: "Number of keys to keep, 4 to 65536.", default: Some("256") },
    ],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |arguments| {
        let (_, keys, _, rows) = valued(arguments, "quantiles")?;
        Ok(memory(rows, &keys, (usize::from(buckets(keys.is_empty())) + 1) * Sketch::BUCKET))
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (of, keys, show, rows) = valued(arguments, "quantiles")?;
        Ok(Box::new(ByField::new(keys, Some(of), Fold::Sketch, show, rows, arguments.seeds)))
    },
};

/// Keys, rows to show and rows to keep of a list.
fn top(arguments: &Arguments<'_>) -> Result<(Vec<Part>, u32, usize), String> {
    let (show, rows): (u32, usize) = (arguments.parse("show")?, arguments.parse("rows")?);
    check(&[("show", show as usize, 1..=1000), ("rows", rows, 16..=1 << 20)])?;
    Ok((parts(arguments.text("by")?)?, show, rows))
}

/// The measured field, keys, rows to show and rows to keep of a function of values.
fn valued(arguments: &Arguments<'_>, function: &str) -> Result<(Part, Vec<Part>, u32, usize), String> {
    let (show, rows): (u32, usize) = (arguments.parse("show")?, arguments.parse("rows")?);
    check(&[("show", show as usize, 1..=1000), ("rows", rows, 4..=1 << 16)])?;
    let of = one(arguments, function)?;
    let by = arguments.text("by")?;
    let keys = if by.is_empty() { Vec::new() } else { parts(by)? };
    common(keys.iter().chain([&of]))?;
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
            Err(format!("{name} = {value} is not between {} and {}", range.start(), range.end()))
        }
        None => Ok(()),
    }
}

/// Memory of a list of this number of rows, each with a key of these parts and a value of this number of bytes.
fn memory(rows: usize, keys: &[Part], value: usize) -> Memory {
    let bytes = 1024 + rows * (ROW + value + keys.iter().map(Part::size).sum::<usize>());
    Memory { state: bytes + KeyedRows::<Folded>::doors_of(rows), reading: bytes }
}

/// Maximum number of buckets of the sketches of a list; `is_whole`: it has one row for all records.
fn buckets(is_whole: bool) -> u16 {
    if is_whole { Sketch::MAX_BUCKETS as u16 } else { BUCKETS }
}

/// The present rows, and what they are by.
struct ByField {
    keys: Vec<Part>,
    /// The measured part; `None` counts records.
    of: Option<Part>,
    schema: Arc<Schema>,
    fold: Fold,
    seeds: Seeds,
    rows: KeyedRows<Folded>,
    scratch: Scratch,
}

/// Reused memory.
#[derive(Default)]
struct Scratch {
    /// The keys of a record.
    keys: Keys,
    /// The values of a part.
    values: Keys,
    spare: Keys,
    measured: Vec<Measured>,
}

/// A measured value.
#[derive(Clone, Copy)]
enum Measured {
    /// It stands for the value among others.
    Distinct(u128),
    Number(f64),
}

impl ByField {
    fn new(keys: Vec<Part>, of: Option<Part>, fold: Fold, show: u32, rows: usize, seeds: Seeds) -> Self {
        let key = |part: &Part| KeyColumn {
            name: part.name().into(),
            field: part.field().into(),
            help: part.help().into(),
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
            schema: Arc::new(schema),
            fold,
            seeds,
            rows: KeyedRows::new(rows, seeds.run),
            scratch: Scratch::default(),
        }
    }

    /// Adds a value, or a record, to the row of a key.
    fn add(&mut self, key: &[u8], measured: Option<Measured>) {
        let (fold, is_whole) = (self.fold, self.keys.is_empty());
        let new = || match fold {
            Fold::Sketch => Folded::Sketch(Sketch::with_buckets(buckets(is_whole))),
            fold => Folded::new(fold),
        };
        // A record or a value adds one to what its key is ranked by, at most.
        match (self.rows.value(key, 1, new), measured) {
            (Some(Folded::Sum(records)), _) => *records += 1,
            (Some(Folded::Distinct(values)), Some(Measured::Distinct(value))) => _ = values.add(value),
            (Some(Folded::Sketch(sketch)), Some(Measured::Number(number))) => sketch.add(number),
            _ => {}
        }
    }
}

/// A number that stands for a value: numbers for themselves, others by a hash.
fn number_of(value: &FieldValue<'_>, key: &[u8], seed: u128) -> u128 {
    match value {
        FieldValue::Number(Number::Whole(number)) if u64::try_from(*number).is_ok() => number.unsigned_abs(),
        _ => {
            let hash = |part: u64| {
                let mut hasher = DefaultHasher::new();
                (seed, part, key).hash(&mut hasher);
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
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn item(&mut self, item: &Item<'_>) {
        let Item::Record(record) = item else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        let Scratch { keys, values, spare, measured } = &mut scratch;
        measured.clear();
        if let Some(part) = self.of {
            let (fold, seed) = (self.fold, self.seeds.distinct);
            part.values(record, &mut |value| {
                if measured.len() == KEYS {
                    return;
                }
                measured.extend(match fold {
                    Fold::Distinct => {
                        values.clear();
                        values.push(&value);
                        let key = values.iter().next().unwrap_or_default();
                        Some(Measured::Distinct(number_of(&value, key, seed)))
                    }
                    _ => real(&value).map(Measured::Number),
                });
            });
        }
        // A record without the measured value is in no row: its keys are not made.
        if self.of.is_none() || !measured.is_empty() {
            // Every combination of the values of the parts is a key.
            keys.clear();
            keys.push_empty();
            for part in &self.keys {
                values.clear();
                part.values(record, &mut |value| values.push(&value));
                keys.multiply(values, spare);
            }
        }
        match self.of {
            None => keys.iter().for_each(|key| self.add(key, None)),
            Some(_) => {
                for measured in &*measured {
                    keys.iter().for_each(|key| self.add(key, Some(*measured)));
                }
            }
        }
        self.scratch = scratch;
    }

    fn take(&mut self) -> Reading {
        let (rows, absent) = self.rows.take();
        let rows = rows.into_iter().map(|Row { key, value, error, .. }| TableRow {
            key: record_key::parts(&key),
            values: vec![value],
            error,
        });
        Reading::Table(Table::new(Arc::clone(&self.schema), self.rows.capacity(), rows.collect(), absent))
    }
}

#[cfg(test)]
mod tests {
    use super::registered;

    #[test]
    fn registered_domains_are_a_label_below_a_public_suffix() {
        for (name, domain) in [
            ("a.b.example.com", "example.com"),
            ("www.example.co.uk.", "example.co.uk"),
            ("x.dnscat.example", "dnscat.example"),
            ("7.2.0.10.in-addr.arpa", "10.in-addr.arpa"),
            ("localhost", "localhost"),
            ("co.uk", "co.uk"),
            ("", ""),
        ] {
            let found = registered(name.as_bytes());
            assert_eq!(found, domain.as_bytes(), "{name}");
        }
        assert_eq!(registered(b"\xff\x00.a\xfe.example"), b"a\xfe.example");
    }
}
