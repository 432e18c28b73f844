//! Rows of values by key, in bounded memory: any function's own columns.
//!
//! The first column ranks the rows. Each row has a bound: the true value of its first column is at most the shown one
//! plus `error`. A key without a row has at most [`Table::absent`]. A full table may have lost a key that another table
//! has a row for; if only one of two tables has a row, the row of the sum is therefore uncertain by the other table's
//! `absent`.
//!
//! Merging is commutative. It is associative while the rows of the sum fit into `capacity`. Beyond that the lightest
//! rows are left out, which depends on the order; the bounds hold in every order.

use crate::rows::{Keyed, Limit, Rows};
use crate::{DistinctValues, Key, SampledValues, Sketch};
use serde::Serialize;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

/// How the values of a column add up.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Number of distinct ones.
    Distinct,
    /// The one with the latest time.
    Last,
    /// Their quantiles.
    Sketch,
    /// Some of them, with the exact count of each.
    Sample,
}

impl Fold {
    /// All folds, in the order of the binary form.
    pub const ALL: [Fold; 7] =
        [Fold::Sum, Fold::Min, Fold::Max, Fold::Distinct, Fold::Last, Fold::Sketch, Fold::Sample];
}

/// Rewrites the values of a table, for example to anonymise them.
pub trait Rewrite {
    /// A part of a key, or the value of a column; `field` is the field of records that it comes from, or "".
    fn rewrite_datum(&mut self, datum: &Datum, field: &str) -> Datum;
    /// The number that stands for a counted value.
    fn rewrite_number(&mut self, number: u128) -> u128;
    /// A time in nanoseconds since the epoch.
    fn rewrite_time(&mut self, time: u64) -> u64;
}

/// The columns of a table. Tables with equal schemas are merged.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Schema {
    /// Name of the rows together: a word of lower-case letters and underscores.
    pub name: Cow<'static, str>,
    /// The parts of a key.
    pub keys: Cow<'static, [KeyColumn]>,
    /// The values.
    pub columns: Cow<'static, [TableColumn]>,
    /// The rows that are shown.
    pub shown: Shown,
}

/// A part of a table's keys.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct KeyColumn {
    /// Name: a word of lower-case letters and underscores.
    pub name: Cow<'static, str>,
    /// The field of records that its values come from, as `table.field`; "" if they come from no record. [`OWN_WORDS`] and
    /// [`NETWORK_NAMES`] are other sources. It decides how texts are anonymised.
    pub field: Cow<'static, str>,
    /// Meaning.
    pub help: Cow<'static, str>,
}

impl KeyColumn {
    /// A part of a schema that is known when the program is compiled.
    pub const fn new(name: &'static str, field: &'static str, help: &'static str) -> Self {
        KeyColumn { name: Cow::Borrowed(name), field: Cow::Borrowed(field), help: Cow::Borrowed(help) }
    }
}

/// The source of texts that the program chooses itself, such as names of protocols. They reveal no name.
pub const OWN_WORDS: &str = "own words";
/// The source of texts that name a network, such as a wireless one. They are names.
pub const NETWORK_NAMES: &str = "network names";
/// The unit of a column with lines of a file of the user's, by maximum. The file says which address or name is meant, so that
/// a line is left out where these are anonymised.
pub const LINE: &str = "line";
/// The unit of a column of distinct names, each as the number that [`name_number`] gives. They are words of the program or of the
/// configuration, so that they are never anonymised.
pub const NAMES: &str = "names";

/// The number of a name in a column of [`NAMES`]: its bytes, of which the first 16 count.
pub fn name_number(name: &str) -> u128 {
    name.bytes().take(16).fold(0, |number, byte| number << 8 | u128::from(byte))
}

/// The names of the numbers, in order: letters side by side, longer ones with spaces between them.
pub(crate) fn names_text(numbers: &[u128]) -> String {
    let name = |number: &u128| {
        let bytes: Vec<u8> = number.to_be_bytes().into_iter().filter(|byte| *byte > 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let mut names: Vec<String> = numbers.iter().map(name).collect();
    names.sort_unstable();
    names.join(if names.iter().all(|name| name.chars().count() == 1) { "" } else { " " })
}

/// A column of values.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct TableColumn {
    /// Name: a word of lower-case letters and underscores.
    pub name: Cow<'static, str>,
    /// How its values add up.
    pub fold: Fold,
    /// Unit of the values, "" without one. `time`: nanoseconds since the epoch.
    pub unit: Cow<'static, str>,
    /// Meaning.
    pub help: Cow<'static, str>,
}

impl TableColumn {
    /// A column of a schema that is known when the program is compiled.
    pub const fn new(name: &'static str, fold: Fold, unit: &'static str, help: &'static str) -> Self {
        TableColumn { name: Cow::Borrowed(name), fold, unit: Cow::Borrowed(unit), help: Cow::Borrowed(help) }
    }
}

/// The rows of a table that are shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// The given number of rows, heaviest first.
    Heaviest(u32),
    /// The rows that are scans: see [`crate::Trials::is_scan`].
    Scans,
    /// The given number of hosts over UDP, by their weight: see [`crate::UdpHost::weight`].
    Udp(u32),
    /// The given number of hosts over TCP, heaviest first, with what follows from their sums: see [`crate::SynCounts`].
    Syn(u32),
}

impl Shown {
    /// As many rows, by what these are shown by.
    #[must_use]
    pub fn limited(self, rows: u32) -> Self {
        match self {
            Self::Udp(_) => Self::Udp(rows),
            Self::Syn(_) => Self::Syn(rows),
            Self::Heaviest(_) | Self::Scans => Self::Heaviest(rows),
        }
    }
}

/// A part of a key, or a value that is not added up.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Datum {
    /// No value.
    Nothing,
    /// An address.
    Address(IpAddr),
    /// A number, such as a port.
    Number(u64),
    /// Text, which can come from packets.
    Text(Box<str>),
    /// A hardware address (EUI-48).
    Mac([u8; 6]),
}

impl Datum {
    /// A part of the order of values: of two values with other prefixes the one with the lower prefix is lower.
    fn prefix(&self) -> u64 {
        let (kind, order) = match self {
            Datum::Nothing => (0, 0),
            Datum::Address(address) => (1, Key::Address(*address).prefix()),
            Datum::Number(number) => (2, *number),
            Datum::Text(text) => {
                let first = text.as_bytes().iter().chain(std::iter::repeat(&0)).take(8);
                (3, first.fold(0, |order, byte| order << 8 | u64::from(*byte)))
            }
            Datum::Mac([a, b, c, d, e, f]) => (4, u64::from_be_bytes([*a, *b, *c, *d, *e, *f, 0, 0])),
        };
        // The kind is decided first, in three bits.
        kind << 61 | order >> 3
    }
}

/// A hardware address as text: `02:00:5e:10:00:01`.
pub fn mac_text(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The value of a column in a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Folded {
    /// See [`Fold::Sum`].
    Sum(u64),
    /// See [`Fold::Min`]; `None` without a value.
    Min(Option<u64>),
    /// See [`Fold::Max`]; `None` without a value.
    Max(Option<u64>),
    /// See [`Fold::Distinct`].
    Distinct(DistinctValues),
    /// See [`Fold::Last`]: time in nanoseconds since the epoch, and value; of equal times the greater value.
    Last(Option<(u64, Datum)>),
    /// See [`Fold::Sketch`].
    Sketch(Sketch),
    /// See [`Fold::Sample`].
    Sample(SampledValues),
}

/// Rows of values by key; see the module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The columns, shared by the tables of a subscription.
    pub schema: Arc<Schema>,
    /// Maximum number of rows.
    pub capacity: usize,
    /// The rows.
    pub rows: Rows<TableRow>,
    /// Upper bound for the first column of a key without a row; 0 when no key is missing.
    pub absent: u64,
    /// What keys without a row have in each column that is a sum, and 0 for the other columns; `None` if that is not counted.
    pub shed: Option<Vec<u64>>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableRow {
    /// The key: a value for each part.
    pub key: Vec<Datum>,
    /// A value for each column.
    pub values: Vec<Folded>,
    /// Upper bound of the undercount of the first column; 0 when the row is exact.
    pub error: u64,
}

impl Folded {
    /// The value of nothing.
    pub fn new(fold: Fold) -> Self {
        match fold {
            Fold::Sum => Folded::Sum(0),
            Fold::Min => Folded::Min(None),
            Fold::Max => Folded::Max(None),
            Fold::Distinct => Folded::Distinct(DistinctValues::default()),
            Fold::Last => Folded::Last(None),
            Fold::Sketch => Folded::Sketch(Sketch::default()),
            Fold::Sample => Folded::Sample(SampledValues::default()),
        }
    }

    /// How the value adds up.
    pub fn fold(&self) -> Fold {
        match self {
            Folded::Sum(_) => Fold::Sum,
            Folded::Min(_) => Fold::Min,
            Folded::Max(_) => Fold::Max,
            Folded::Distinct(_) => Fold::Distinct,
            Folded::Last(_) => Fold::Last,
            Folded::Sketch(_) => Fold::Sketch,
            Folded::Sample(_) => Fold::Sample,
        }
    }

    /// The number by which rows are ranked.
    pub fn weight(&self) -> u64 {
        match self {
            Folded::Sum(sum) => *sum,
            Folded::Min(value) | Folded::Max(value) => value.unwrap_or(0),
            Folded::Distinct(values) => values.estimate(),
            Folded::Last(value) => u64::from(value.is_some()),
            Folded::Sketch(sketch) => sketch.count(),
            Folded::Sample(sample) => sample.added(),
        }
    }

    /// The number of a sum, 0 for other values.
    fn sum(&self) -> u64 {
        if let Folded::Sum(sum) = self { *sum } else { 0 }
    }

    /// Adds the value of another part. Values of different folds are never merged.
    pub fn merge(&mut self, other: &Folded) {
        match (self, other) {
            (Folded::Sum(a), Folded::Sum(b)) => *a = a.saturating_add(*b),
            (Folded::Min(a), Folded::Min(b)) => *a = [*a, *b].into_iter().flatten().min(),
            (Folded::Max(a), Folded::Max(b)) => *a = (*a).max(*b),
            (Folded::Distinct(a), Folded::Distinct(b)) => a.merge(b),
            (Folded::Last(a), Folded::Last(b)) => {
                if *b > *a {
                    a.clone_from(b);
                }
            }
            (Folded::Sketch(a), Folded::Sketch(b)) => a.merge(b),
            (Folded::Sample(a), Folded::Sample(b)) => a.merge(b),
            _ => debug_assert!(false, "values of two columns were merged"),
        }
    }

    /// Bytes of heap memory.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Folded::Distinct(values) => values.memory(),
            Folded::Last(Some((_, Datum::Text(text)))) => text.len(),
            Folded::Sketch(sketch) => sketch.memory(),
            Folded::Sample(sample) => sample.memory(),
            _ => 0,
        }
    }
}

impl TableRow {
    /// The number by which the row is ranked.
    pub fn weight(&self) -> u64 {
        self.values.first().map_or(0, Folded::weight)
    }

    fn memory(&self) -> usize {
        let text = |part: &Datum| if let Datum::Text(text) = part { text.len() } else { 0 };
        size_of::<Self>()
            + self.key.iter().map(|part| size_of::<Datum>() + text(part)).sum::<usize>()
            + self.values.iter().map(|value| size_of::<Folded>() + value.memory()).sum::<usize>()
    }
}

impl Table {
    /// A table with the heaviest of some rows, at most `capacity`. Keys without a row have at most `absent`.
    pub fn new(schema: impl Into<Arc<Schema>>, capacity: usize, rows: Vec<TableRow>, absent: u64) -> Self {
        Self::of_parts(schema.into(), capacity, rows, absent, None)
    }

    /// A table that counts what it leaves out: `shed` is what keys without a row have in each column.
    pub fn counting(
        schema: impl Into<Arc<Schema>>,
        capacity: usize,
        rows: Vec<TableRow>,
        absent: u64,
        shed: Vec<u64>,
    ) -> Self {
        Self::of_parts(schema.into(), capacity, rows, absent, Some(shed))
    }

    fn of_parts(
        schema: Arc<Schema>,
        capacity: usize,
        rows: Vec<TableRow>,
        absent: u64,
        shed: Option<Vec<u64>>,
    ) -> Self {
        let mut table = Self { schema, capacity, rows: rows.into(), absent, shed };
        table.trim();
        table
    }

    /// Whether the other table has equal columns, so that the two can be merged.
    pub fn is_like(&self, other: &Table) -> bool {
        Arc::ptr_eq(&self.schema, &other.schema) || self.schema == other.schema
    }

    /// Whether the other table, of the same function, has equal rows. The schemas are long texts and are not compared.
    pub(crate) fn has_equal_rows(&self, other: &Table) -> bool {
        (&self.rows, self.absent, &self.shed) == (&other.rows, other.absent, &other.shed)
    }

    /// Whether every row is exact and no key is missing.
    pub fn is_exact(&self) -> bool {
        self.absent == 0 && self.rows.iter().all(|row| row.error == 0)
    }

    /// The most by which the first column of a row may be off, or of a key without a row; 0 if every number is exact. `None` if a
    /// column has estimates.
    pub(crate) fn bound(&self) -> Option<u64> {
        let is_estimate = |value: &Folded| match value {
            Folded::Distinct(values) => !values.is_exact(),
            Folded::Sketch(sketch) => sketch.max().is_some(),
            _ => false,
        };
        let has_estimates = self.rows.iter().flat_map(|row| &row.values).any(is_estimate);
        let errors = self.rows.iter().map(|row| row.error).max().unwrap_or(0);
        (!has_estimates).then_some(errors.max(self.absent))
    }

    /// Approximate size in bytes.
    pub fn memory(&self) -> usize {
        self.rows.iter().map(TableRow::memory).sum()
    }

    /// The rows that are shown, heaviest first; rows of equal weight in the order of their keys. A table is never cut
    /// before it is merged.
    pub fn shown(&self) -> Vec<&TableRow> {
        match self.schema.shown {
            Shown::Heaviest(rows) | Shown::Syn(rows) => self.rows.heaviest(rows as usize, TableRow::weight),
            Shown::Scans => crate::scans::ranked(self),
            Shown::Udp(rows) => crate::udp::ranked(self, rows as usize),
        }
    }

    /// The sum of all rows in each column.
    pub fn whole(&self) -> Vec<Folded> {
        let mut whole: Vec<Folded> =
            self.schema.columns.iter().map(|column| Folded::new(column.fold)).collect();
        for row in &self.rows {
            whole.iter_mut().zip(&row.values).for_each(|(whole, value)| whole.merge(value));
        }
        whole
    }

    /// Merges another table; see the module for the bounds of the sum.
    pub fn merge(&mut self, other: &Table) {
        let absent = (self.absent, other.absent);
        self.absent = self.absent.saturating_add(other.absent);
        self.shed = match (self.shed.take(), &other.shed) {
            (Some(mut shed), Some(more)) => {
                add_to(&mut shed, more.iter().copied());
                Some(shed)
            }
            _ => None,
        };
        self.capacity = self.capacity.max(other.capacity);
        self.rows.merge(&other.rows, absent, limit(self.capacity, &mut self.shed, &mut self.absent));
    }

    /// Reduces the table to the heaviest `capacity` rows.
    #[must_use]
    pub fn within(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self.trim();
        self
    }

    /// Rewrites every key and every value that is not a number. Rows that become equal are merged.
    pub fn rewrite(&mut self, by: &mut dyn Rewrite) {
        let mut rows = std::mem::take(self.rows.edit());
        for row in &mut rows {
            for (datum, column) in row.key.iter_mut().zip(self.schema.keys.iter()) {
                *datum = by.rewrite_datum(datum, &column.field);
            }
            for (folded, column) in row.values.iter_mut().zip(self.schema.columns.iter()) {
                match folded {
                    Folded::Distinct(_) if column.unit == NAMES => {}
                    Folded::Distinct(values) => values.rename(&mut |value| by.rewrite_number(value)),
                    Folded::Sample(sample) => sample.rename(&mut |value| by.rewrite_number(value)),
                    Folded::Last(Some((at, datum))) => {
                        (*at, *datum) = (by.rewrite_time(*at), by.rewrite_datum(datum, ""))
                    }
                    Folded::Min(Some(at)) | Folded::Max(Some(at)) if column.unit == "time" => {
                        *at = by.rewrite_time(*at);
                    }
                    Folded::Max(line) if column.unit == LINE => *line = None,
                    _ => {}
                }
            }
        }
        self.rows = Rows::merged(rows);
    }

    fn trim(&mut self) {
        self.rows.trim(limit(self.capacity, &mut self.shed, &mut self.absent));
    }
}

/// The heaviest `capacity` rows; rows that leave are counted as shed, if that is counted.
fn limit<'t>(
    capacity: usize,
    shed: &'t mut Option<Vec<u64>>,
    absent: &'t mut u64,
) -> Limit<impl Fn(&TableRow) -> u64, impl FnMut(&TableRow, u64) + 't> {
    let removed = |row: &TableRow, weight: u64| {
        *absent = (*absent).max(weight.saturating_add(row.error));
        if let Some(shed) = shed.as_mut() {
            add_to(shed, row.values.iter().map(Folded::sum));
        }
    };
    Limit { capacity, weight: TableRow::weight, removed }
}

impl Keyed for TableRow {
    type Key = Vec<Datum>;

    fn key(&self) -> &Vec<Datum> {
        &self.key
    }

    fn prefix(&self) -> u64 {
        self.key.first().map_or(0, Datum::prefix)
    }

    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            mine.merge(theirs);
        }
        self.add_error(other.error);
    }

    fn add_error(&mut self, absent: u64) {
        self.error = self.error.saturating_add(absent);
    }
}

/// Adds numbers column by column.
fn add_to(sums: &mut [u64], more: impl Iterator<Item = u64>) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
}

impl From<&'static Schema> for Arc<Schema> {
    fn from(schema: &'static Schema) -> Self {
        Arc::new(schema.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const fn of(name: &'static str, fold: Fold) -> TableColumn {
        TableColumn::new(name, fold, "", "A column.")
    }

    #[test]
    fn names_are_shown_in_order_and_keep_their_numbers() {
        let text =
            |names: &[&str]| names_text(&names.iter().map(|name| name_number(name)).collect::<Vec<_>>());
        assert_eq!(text(&["G", "B", "I"]), "BGI");
        assert_eq!(text(&["tls", "bt_dht", "http"]), "bt_dht http tls");
        assert_eq!((text(&["a", "tls"]), text(&[])), ("a tls".to_owned(), String::new()));
        assert_eq!(text(&["portmapper_and_more"]), "portmapper_and_m");
        let mut names = DistinctValues::default();
        names.add(name_number("B"));
        let schema = Arc::new(Schema {
            name: Cow::Borrowed("hosts"),
            keys: Cow::Borrowed(&[]),
            columns: Cow::Owned(vec![TableColumn::new("flags", Fold::Distinct, NAMES, "Letters.")]),
            shown: Shown::Heaviest(1),
        });
        let row = TableRow { key: Vec::new(), values: vec![Folded::Distinct(names)], error: 0 };
        let mut table = Table::new(schema, 1, vec![row], 0);
        let before = table.clone();
        table.rewrite(&mut Renamed);
        assert_eq!(table, before);
        let reading = crate::Reading::Table(table);
        let cells = reading.cells();
        assert_eq!(cells.rows[0].values, [crate::Cell::Text("B".into())]);
        assert_eq!(cells.columns[0].kind, crate::ColumnKind::Names);
    }

    static SCHEMA: Schema = Schema {
        name: Cow::Borrowed("names"),
        keys: Cow::Borrowed(&[
            KeyColumn::new("name", "dns.query", "A name."),
            KeyColumn::new("client", "", "An address."),
        ]),
        columns: Cow::Borrowed(&[
            of("sum", Fold::Sum),
            of("min", Fold::Min),
            of("max", Fold::Max),
            of("distinct", Fold::Distinct),
            of("last", Fold::Last),
            of("sketch", Fold::Sketch),
            of("sample", Fold::Sample),
        ]),
        shown: Shown::Heaviest(3),
    };

    /// Key, weight and time.
    type Item = (u8, u64, u64);

    fn row(&(key, weight, time): &Item) -> TableRow {
        let mut values = DistinctValues::default();
        values.add(weight.into());
        let mut sketch = Sketch::default();
        sketch.add(weight as f64);
        let mut sample = SampledValues::default();
        sample.add(weight.into(), time);
        let last = Some((time, Datum::Text(weight.to_string().into())));
        TableRow {
            key: vec![Datum::Text(format!("{}.example", key / 3).into()), Datum::Number(u64::from(key % 3))],
            values: vec![
                Folded::Sum(weight),
                Folded::Min(Some(weight)),
                Folded::Max(Some(weight)),
                Folded::Distinct(values),
                Folded::Last(last),
                Folded::Sketch(sketch),
                Folded::Sample(sample),
            ],
            error: 0,
        }
    }

    fn table(items: &[Item], capacity: usize) -> Table {
        let mut whole = Table::new(&SCHEMA, capacity, Vec::new(), 0);
        items.iter().for_each(|item| whole.merge(&Table::new(&SCHEMA, capacity, vec![row(item)], 0)));
        whole
    }

    #[test]
    fn rows_are_shown_by_the_first_column_and_columns_add_up() {
        let table = table(&[(1, 10, 5), (2, 30, 1), (1, 25, 4), (9, 1, 0), (4, 2, 0)], 100);
        let shown: Vec<(u64, &Datum)> = table.shown().iter().map(|row| (row.weight(), &row.key[1])).collect();
        assert_eq!(shown, [(35, &Datum::Number(1)), (30, &Datum::Number(2)), (2, &Datum::Number(1))]);
        let heaviest = &table.shown()[0].values;
        assert_eq!(heaviest[..3], [Folded::Sum(35), Folded::Min(Some(10)), Folded::Max(Some(25))]);
        assert_eq!(heaviest[4], Folded::Last(Some((5, Datum::Text("10".into())))));
        assert_eq!(heaviest[3].weight(), 2);
        assert_eq!(table.whole()[..3], [Folded::Sum(68), Folded::Min(Some(1)), Folded::Max(Some(30))]);
        assert!(table.is_exact() && table.memory() > 0);
    }

    #[test]
    fn a_key_missing_in_one_table_is_uncertain_by_its_absent_bound() {
        let mut one = Table { absent: 7, ..table(&[(1, 10, 0), (2, 50, 0)], 9) };
        one.merge(&Table { absent: 100, ..table(&[(1, 5, 0), (3, 70, 0)], 9) });
        let errors: Vec<u64> = one.rows.by_key().iter().map(|row| row.error).collect();
        assert_eq!((errors, one.absent), (vec![0, 100, 7], 107));
    }

    /// Whatever is left out, rows and what is shed add up to all.
    #[test]
    fn a_table_that_counts_what_it_leaves_out_loses_nothing() {
        let items: Vec<Item> = (1..40).map(|n| (n as u8 % 23, n * 7, n)).collect();
        let all: u64 = items.iter().map(|(_, weight, _)| weight).sum();
        for capacity in [1, 3, 8, 100] {
            let of = |item: &Item| Table::counting(&SCHEMA, capacity, vec![row(item)], 0, vec![0; 7]);
            let mut whole = Table::counting(&SCHEMA, capacity, Vec::new(), 0, vec![0; 7]);
            items.iter().for_each(|item| whole.merge(&of(item)));
            let shed = whole.shed.clone().unwrap();
            assert_eq!(whole.whole()[0].weight() + shed[0], all, "{capacity}");
            assert_eq!((shed[0] == 0, &shed[1..]), (capacity == 100, &[0; 6][..]), "{capacity}");
            let cut = whole.clone().within(1);
            assert_eq!(cut.whole()[0].weight() + cut.shed.unwrap()[0], all, "{capacity}");
            // Of a sum with a table that does not count it, it is unknown.
            whole.merge(&Table::new(&SCHEMA, capacity, Vec::new(), 0));
            assert_eq!(whole.shed, None);
        }
    }

    struct Renamed;

    impl Rewrite for Renamed {
        fn rewrite_datum(&mut self, datum: &Datum, _: &str) -> Datum {
            if let Datum::Number(_) = datum { Datum::Nothing } else { datum.clone() }
        }

        fn rewrite_number(&mut self, number: u128) -> u128 {
            number + 1_000_000
        }

        fn rewrite_time(&mut self, time: u64) -> u64 {
            time + 1
        }
    }

    #[test]
    fn renamed_keys_are_merged() {
        let mut table = table(&[(1, 10, 5), (2, 30, 1), (4, 2, 0)], 100);
        table.rewrite(&mut Renamed);
        let rows = table.rows.by_key();
        assert_eq!(rows.iter().map(|row| row.weight()).collect::<Vec<_>>(), [40, 2]);
        assert_eq!(rows[0].values[4], Folded::Last(Some((6, Datum::Text("10".into())))));
        let Folded::Sample(sample) = &rows[0].values[6] else { panic!("a sample") };
        assert_eq!(sample.values(), [(1_000_010, 5), (1_000_030, 1)]);
    }

    fn datum() -> impl Strategy<Value = Datum> {
        prop_oneof![
            Just(Datum::Nothing),
            any::<IpAddr>().prop_map(Datum::Address),
            any::<u64>().prop_map(Datum::Number),
            "[a\0é]{0,9}".prop_map(|text| Datum::Text(text.into())),
            any::<[u8; 6]>().prop_map(Datum::Mac),
        ]
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        prop::collection::vec((0_u8..60, 1_u64..500, 0_u64..9), 0..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn prefixes_of_values_have_the_order_of_the_values(one in datum(), other in datum()) {
            prop_assert!(one.prefix() == other.prefix() || one.prefix().cmp(&other.prefix()) == one.cmp(&other));
        }

        #[test]
        fn merging_parts_in_any_order_gives_the_whole(
            items in items(), parts in 1_usize..5, turn in 0_usize..5
        ) {
            let whole = table(&items, 1000);
            let part = |n: usize| table(&items.iter().copied().skip(n).step_by(parts).collect::<Vec<_>>(), 1000);
            let mut order: Vec<usize> = (0..parts).collect();
            order.rotate_left(turn % parts);
            for order in [order.clone(), order.into_iter().rev().collect()] {
                let mut sum = Table::new(&SCHEMA, 1000, Vec::new(), 0);
                order.iter().for_each(|n| sum.merge(&part(*n)));
                prop_assert_eq!(&sum, &whole);
            }
            let (mut left, mut right) = (table(&[], 1000), table(&[], 1000));
            (0..parts / 2).for_each(|n| left.merge(&part(n)));
            (parts / 2..parts).for_each(|n| right.merge(&part(n)));
            right.merge(&left);
            prop_assert_eq!(&right, &whole);
        }

        #[test]
        fn bounds_hold_in_every_order_when_rows_are_left_out(
            parts in prop::collection::vec(items(), 1..6), capacity in 0_usize..12, turn in 0_usize..6
        ) {
            let mut truth: BTreeMap<Vec<Datum>, u64> = BTreeMap::new();
            for item in parts.iter().flatten() {
                *truth.entry(row(item).key).or_insert(0) += item.1;
            }
            let mut tables: Vec<Table> = parts.iter().map(|part| table(part, capacity)).collect();
            let n = tables.len();
            tables.rotate_left(turn % n);
            let mut sum = table(&[], capacity);
            tables.iter().for_each(|part| sum.merge(part));
            prop_assert!(sum.rows.len() <= capacity);
            for (key, true_sum) in truth {
                match sum.rows.iter().find(|row| row.key == key) {
                    Some(row) => prop_assert!(row.weight() <= true_sum && true_sum <= row.weight() + row.error),
                    None => prop_assert!(true_sum <= sum.absent, "{key:?}: {true_sum} > {}", sum.absent),
                }
            }
        }
    }
}
