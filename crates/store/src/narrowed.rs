//! Lists of subscriptions, computed from the stored flows and records that an expression matches.
//!
//! A function counts while packets pass, and what it has counted cannot be divided afterwards. For functions over records, and top
//! lists by keys that a flow has, the rows of the store give the list that the function would have made of the matching ones alone.

use super::tally::{Cell, Dimension, GroupBy, Measure, Subject, Tally, TallyWanted};
use super::{Store, StoreError, TimeRange, fields};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use weir_api::{
    Count, Datum, Fold, Folded, Key, KeyColumn, KeyKind, Reading, Rows, Schema, Sketch, Table, TableRow, Top,
    TopRow, Unit,
};
use weir_filter::FlowTest;
use weir_filter::fields::{FieldInfo, FieldKind};
use weir_output::ports::has_ports;
use weir_proto::SITE;

/// Most rows of a list. Lists of functions have at most as many unless they are told to.
const ROWS: usize = 10_000;
/// Bytes of a text in a key, as functions have it.
const TEXT: usize = 256;

/// Whether the list of a reading can be computed from what is stored.
pub fn is_possible(reading: &Reading) -> bool {
    match reading {
        Reading::Table(table) => columns(&table.schema).is_some(),
        Reading::Top(top) => group(top.key).is_some(),
        _ => false,
    }
}

/// Whether the rows of a reading's list are records, and not flows.
pub fn is_of_records(reading: &Reading) -> bool {
    matches!(reading, Reading::Table(_))
}

/// The list of the columns of `like`, of the stored flows or records that match; `None` if the values are not stored, or no record
/// that has them. What the store leaves out is the text beside it.
///
/// # Errors
///
/// Those of the store.
pub fn list(
    store: &dyn Store,
    like: &Reading,
    test: &FlowTest,
    span: TimeRange,
) -> Result<Option<(Reading, Option<String>)>, StoreError> {
    match like {
        Reading::Table(table) => {
            let Some(columns) = columns(&table.schema) else { return Ok(None) };
            of_records(store, &table.schema, &columns, test, span)
        }
        Reading::Top(top) => {
            let Some(by) = group(top.key) else { return Ok(None) };
            of_flows(store, top, by, test, span).map(Some)
        }
        _ => Ok(None),
    }
}

/// A part of a key, or the measured value.
#[derive(Clone, Copy)]
enum Part {
    Field(FieldInfo),
    Client,
    Server,
    Port,
    Site,
}

impl Part {
    fn of(name: &str, field: &str) -> Option<Self> {
        Some(match name {
            "source" => Part::Client,
            "destination" => Part::Server,
            "port" => Part::Port,
            "site" => Part::Site,
            _ => {
                let (table, name) = field.split_once('.')?;
                Part::Field(weir_output::fields::find(table, name)?.0)
            }
        })
    }

    /// The column of a table's records that has its values; `None` if they have none.
    fn dimension(self, table: &str) -> Option<Dimension> {
        match self {
            Part::Field(info) => (info.table == table).then_some(Dimension::Field(info)),
            Part::Client => Some(Dimension::Key(GroupBy::Client)),
            Part::Server => Some(Dimension::Key(GroupBy::Server)),
            Part::Port => Some(Dimension::Key(GroupBy::Service)),
            Part::Site => {
                let (_, name) = SITE.iter().find(|(of, _)| *of == table)?;
                Some(Dimension::Field(weir_output::fields::find(table, name)?.0))
            }
        }
    }

    /// A stored value as functions have it; `None` if the record has none, so that it is in no list by it.
    fn datum(self, cell: &Cell) -> Option<Datum> {
        let cut = |text: &str| {
            let bytes = text.as_bytes();
            let cut = String::from_utf8_lossy(bytes.get(..TEXT).unwrap_or(bytes));
            Datum::Text(match self {
                Part::Site => cut.to_ascii_lowercase().into(),
                _ => cut.into(),
            })
        };
        Some(match (cell, self) {
            (Cell::None, _) => return None,
            (Cell::Key(Key::Port { protocol, port }), _) if has_ports(*protocol) => {
                Datum::Number((*port).into())
            }
            (Cell::Key(Key::Address(address)), _) => Datum::Address(*address),
            (Cell::Key(_), _) => return None,
            (Cell::Text(text), Part::Field(FieldInfo { kind: FieldKind::Address, .. })) => {
                text.parse().map_or_else(|_| cut(text), Datum::Address)
            }
            (Cell::Text(text), _) => cut(text),
            (Cell::Number(digits), _) => digits.parse().map_or_else(|_| cut(digits), Datum::Number),
            (Cell::Bool(yes), _) => cut(if *yes { "true" } else { "false" }),
        })
    }
}

/// The columns of a list over records.
struct Columns {
    keys: Vec<Part>,
    fold: Fold,
    /// The measured value; `None` counts records.
    of: Option<Part>,
}

/// The columns of a schema; `None` if it is not that of a function over records.
fn columns(schema: &Schema) -> Option<Columns> {
    let [column] = schema.columns.as_ref() else { return None };
    let keys: Option<Vec<Part>> =
        schema.keys.iter().map(|KeyColumn { name, field, .. }| Part::of(name, field)).collect();
    let measured = || Part::of(&column.name, &fields::of_column(&column.name).unwrap_or_default());
    let of = match column.fold {
        Fold::Sum if column.name == "records" => None,
        Fold::Distinct if schema.keys.is_empty() => Some(measured()?),
        Fold::Sketch => Some(measured().filter(|part| matches!(part, Part::Field(_)))?),
        _ => return None,
    };
    Some(Columns { keys: keys?, fold: column.fold, of })
}

/// A list over records.
fn of_records(
    store: &dyn Store,
    schema: &Arc<Schema>,
    columns: &Columns,
    test: &FlowTest,
    span: TimeRange,
) -> Result<Option<(Reading, Option<String>)>, StoreError> {
    let mut is_stored = false;
    let mut sum = Table::counting(Arc::clone(schema), ROWS, Vec::new(), 0, vec![0]);
    let mut partial = None;
    for (table, rows) in store.record_counts()? {
        let known = fields::tables(&table).next().map(|table| table.name);
        let Some(table) = known.filter(|_| rows > 0) else { continue };
        let Some(by) = columns.keys.iter().map(|part| part.dimension(table)).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        let mut wanted = TallyWanted {
            subject: Subject::Records(table),
            by,
            measure: Measure::Rows,
            test: test.clone(),
            span,
            limit: ROWS,
            steps: 0,
            grid: None,
            values: None,
        };
        match (columns.fold, columns.of) {
            (Fold::Distinct, Some(of)) => match of.dimension(table) {
                Some(dimension) => wanted.by = vec![dimension],
                None => continue,
            },
            (_, Some(Part::Field(info))) if info.table == table => wanted.values = Some(info),
            (_, Some(_)) => continue,
            (_, None) => {}
        }
        is_stored = true;
        let tally = store.tally(&wanted)?;
        sum.merge(&table_of(schema, columns, &tally));
        partial = partial.or(tally.partial);
    }
    Ok(is_stored.then_some((Reading::Table(sum), partial)))
}

/// The rows of one table's records.
fn table_of(schema: &Arc<Schema>, columns: &Columns, tally: &Tally) -> Table {
    let mut rows: BTreeMap<Vec<Datum>, (Folded, u64)> = BTreeMap::new();
    if columns.fold == Fold::Distinct {
        let value = rows.entry(Vec::new()).or_insert_with(|| (Folded::new(Fold::Distinct), 0));
        for datum in tally.rows.iter().filter_map(|row| columns.of?.datum(row.cells.first()?)) {
            let mut hasher = DefaultHasher::new();
            datum.hash(&mut hasher);
            if let Folded::Distinct(values) = &mut value.0 {
                values.add(hasher.finish().into());
            }
        }
    } else if columns.keys.is_empty() && columns.fold == Fold::Sum {
        rows.insert(Vec::new(), (Folded::Sum(tally.total.rows), 0));
    } else {
        for row in &tally.rows {
            let key: Option<Vec<Datum>> =
                columns.keys.iter().zip(&row.cells).map(|(part, cell)| part.datum(cell)).collect();
            let Some(key) = key else { continue };
            let value = match columns.fold {
                Fold::Sketch if row.values.is_empty() => continue,
                Fold::Sketch => {
                    let mut sketch = Sketch::default();
                    row.values.iter().for_each(|value| sketch.add(*value));
                    Folded::Sketch(sketch)
                }
                _ => Folded::Sum(row.sums.rows),
            };
            let missing = row.missing.ceil() as u64;
            rows.entry(key)
                .and_modify(|(sum, error)| {
                    sum.merge(&value);
                    *error = error.saturating_add(missing);
                })
                .or_insert((value, missing));
        }
    }
    let rows: Vec<TableRow> =
        rows.into_iter().map(|(key, (value, error))| TableRow { key, values: vec![value], error }).collect();
    let shed = if columns.fold == Fold::Sum && !columns.keys.is_empty() { tally.other.rows } else { 0 };
    Table::counting(Arc::clone(schema), ROWS, rows, bound(tally), vec![shed])
}

/// The most that a key without a row has of the measure.
fn bound(tally: &Tally) -> u64 {
    let lightest = || tally.rows.last().map_or(0.0, |row| row.sums.rows as f64 + row.missing);
    let cut = if tally.groups > tally.rows.len() as u64 { lightest() } else { 0.0 };
    let lost = tally.lost.map_or(0.0, |lost| if lost.is_finite() { lost } else { tally.total.rows as f64 });
    cut.max(lost).ceil() as u64
}

/// The key of flows that is that of a list of packets; `None` if flows do not have it.
fn group(kind: KeyKind) -> Option<GroupBy> {
    Some(match kind {
        KeyKind::Source => GroupBy::Sender,
        KeyKind::Destination => GroupBy::Receiver,
        KeyKind::Protocol => GroupBy::Protocol,
        KeyKind::Vlan => GroupBy::Vlan,
        KeyKind::Talker => GroupBy::Talker,
        KeyKind::Service => GroupBy::Service,
        KeyKind::Pair | KeyKind::Flow | KeyKind::Port => return None,
    })
}

/// A top list of flows.
fn of_flows(
    store: &dyn Store,
    top: &Top,
    by: GroupBy,
    test: &FlowTest,
    span: TimeRange,
) -> Result<(Reading, Option<String>), StoreError> {
    let wanted = TallyWanted {
        subject: Subject::Flows,
        by: vec![Dimension::Key(by)],
        measure: match top.unit {
            Unit::Packets => Measure::Packets,
            Unit::Bytes => Measure::Bytes,
        },
        test: test.clone(),
        span,
        limit: ROWS,
        steps: 0,
        grid: None,
        values: None,
    };
    let tally = store.tally(&wanted)?;
    let in_unit = |count: Count| count.in_unit(top.unit);
    let rows: Rows<TopRow> = tally
        .rows
        .iter()
        .filter_map(|row| match row.cells.first() {
            Some(Cell::Key(key)) => Some(TopRow {
                key: *key,
                count: row.sums.count,
                flows: row.sums.flows,
                error: in_unit(row.sums.error).saturating_add(row.missing.ceil() as u64),
            }),
            _ => None,
        })
        .collect();
    let absent = match tally.groups > rows.len() as u64 {
        true => rows.last().map_or(0, |row| in_unit(row.count).saturating_add(row.error)),
        false => 0,
    };
    let inserts = tally.groups;
    let list = Top { capacity: ROWS, rows, absent, inserts, shed: tally.other.count, ..top.clone() };
    Ok((Reading::Top(list), tally.partial))
}
