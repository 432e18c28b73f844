//! Expressions over records as parsers emit them, one at a time.
//!
//! Tests of addresses, nets, ports, protocols and VLAN are about the record's flow, in which `src` is the initiator; tests of
//! fields ([`crate::fields`]) about the record. A field of another table has no value in it, so that no operator holds: for a
//! record of `dns`, `http.host = a` is false and `not http.host = a` is true. Stored rows are different in this one point: there a
//! test of another table is about the records of the same flow ([`FlowTest::over`]), which are not all known when a record is
//! emitted.

mod set;

pub use set::{Matches, RecordSet};

use crate::ast::{Expr, Primitive};
use crate::error::{ErrorKind, FilterError};
use crate::fields::{FLOW, FieldInfo, FieldTest, FieldValue, needs_end};
use crate::filter::Options;
use crate::flowtest::{FlowEndpoints, FlowRow, FlowTest, first_word, of_end, refuse_directions, tree};

/// A record, as tests see it.
pub trait RecordRow {
    /// Addresses, ports, protocol and VLAN of its flow, the initiator first.
    fn endpoints(&self) -> &FlowEndpoints;

    /// Its table.
    fn table(&self) -> &'static str;

    /// Calls `each` with every value of a field of its table: none, one, or those of a list.
    fn values(&self, field: &FieldInfo, each: &mut dyn FnMut(FieldValue<'_>));
}

/// The tables whose records may satisfy a test.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Tables {
    /// Any table.
    All,
    /// These, in alphabetical order.
    Only(Vec<&'static str>),
}

impl Tables {
    /// Whether a table is among them.
    pub fn have(&self, table: &str) -> bool {
        match self {
            Tables::All => true,
            Tables::Only(tables) => tables.contains(&table),
        }
    }
}

/// A test of records.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordTest {
    /// The test for records of each table that it names, without fields of other tables.
    pub(crate) tables: Vec<(&'static str, FlowTest)>,
    /// The test for records of all other tables.
    pub(crate) others: FlowTest,
}

impl RecordTest {
    /// Parses an expression; the empty one holds for every record. [`Options::fields`] has the fields.
    ///
    /// # Errors
    ///
    /// The expression is invalid, tests a property that records do not have, or joins tests of two tables so that no record
    /// satisfies it. The error has the position.
    pub fn compile(text: &str, options: &Options<'_>) -> Result<Self, FilterError> {
        let expr = tree(text, options)?;
        let mut fields = Vec::new();
        if let Some(expr) = &expr {
            refuse_directions(text, expr)?;
            fields = places(text, expr)?;
        }
        let test = FlowTest::over_tree(text, expr.as_ref(), options)?;
        let mut names: Vec<&'static str> = fields.iter().map(|(table, _)| *table).collect();
        names.sort_unstable();
        names.dedup();
        let tables: Vec<(&'static str, FlowTest)> =
            names.iter().map(|table| (*table, of_table(&test, Some(table)))).collect();
        let found = Self { tables, others: of_table(&test, None) };
        let can_hold = !found.others.is_never() || found.tables.iter().any(|(_, test)| !test.is_never());
        match fields.as_slice() {
            [(table, _), rest @ ..] if !can_hold => {
                let other = rest.iter().find(|(other, _)| other != table);
                let span = other.map_or(0..text.len(), |(_, span)| span.clone());
                let message = match other {
                    Some((other, _)) => format!(
                        "no record satisfies this: a record of `{table}` has no fields of `{other}`; `or` joins tests of several tables"
                    ),
                    None => "no record satisfies this".to_owned(),
                };
                Err(FilterError::new(ErrorKind::RejectsAll, span, message).within(text))
            }
            _ => Ok(found),
        }
    }

    /// The tables whose records may satisfy it.
    pub fn tables(&self) -> Tables {
        if !self.others.is_never() {
            return Tables::All;
        }
        let named = self.tables.iter().filter(|(_, test)| !test.is_never());
        Tables::Only(named.map(|(table, _)| *table).collect())
    }

    /// The test for records of a table, which tests no field of another.
    pub fn of(&self, table: &str) -> &FlowTest {
        self.tables.iter().find(|(known, _)| *known == table).map_or(&self.others, |(_, test)| test)
    }

    /// A test of the key of a flow that holds for every flow of which a record can satisfy this one: see
    /// [`FlowTest::possible`].
    pub fn possible(&self) -> FlowTest {
        let tests = self.tables.iter().map(|(_, test)| test).chain([&self.others]);
        FlowTest::any(tests.map(FlowTest::possible))
    }

    /// Calls `visit` with every test of a field.
    pub fn fields<'t>(&'t self, visit: &mut dyn FnMut(&'t FieldTest)) {
        self.tables.iter().for_each(|(_, test)| test.fields(visit));
    }

    /// The lines that were left out of the files of its lists, one text for each file.
    pub fn notes(&self) -> Vec<&str> {
        let mut notes = Vec::new();
        self.fields(&mut |test| {
            if let Some(note) = test.note()
                && !notes.contains(&note)
            {
                notes.push(note);
            }
        });
        notes
    }

    /// Bytes of heap memory that its lists take. Two tests of one compiled expression share them.
    pub fn memory(&self) -> usize {
        let mut bytes = 0;
        self.fields(&mut |test| bytes += test.list().map_or(0, |list| list.memory()));
        bytes
    }

    /// Whether it holds for a record.
    pub fn holds<R: RecordRow + ?Sized>(&self, row: &R) -> bool {
        self.of(row.table()).holds(&Row(row))
    }
}

/// The table and the place of every test of a field.
///
/// # Errors
///
/// It is a field of finished flows.
fn places(text: &str, expr: &Expr) -> Result<Vec<(&'static str, std::ops::Range<usize>)>, FilterError> {
    let (mut found, mut wrong) = (Vec::new(), None);
    expr.visit(&mut |test| {
        let Primitive::Field(field) = &test.primitive else { return };
        if of_end(field).is_some() {
            return;
        }
        if field.field.table == FLOW && wrong.is_none() {
            wrong = Some(test.span.clone());
        }
        found.push((field.field.table, test.span.clone()));
    });
    let Some(span) = wrong else { return Ok(found) };
    let field = first_word(text.get(span.clone()).unwrap_or_default());
    let span = span.start..span.start + field.len();
    Err(FilterError::new(ErrorKind::Level, span, needs_end(field)).within(text))
}

/// A test for records of one table, or of tables that it does not name; fields of others have no value.
fn of_table(test: &FlowTest, table: Option<&str>) -> FlowTest {
    match test {
        FlowTest::Field(test) if Some(test.field.table) == table && test.is_of_record() => FlowTest::ALWAYS,
        FlowTest::Field(test) if Some(test.field.table) == table => FlowTest::Field(test.clone()),
        FlowTest::Field(_) | FlowTest::Row(..) => FlowTest::NEVER,
        FlowTest::Not(test) => FlowTest::not(of_table(test, table)),
        FlowTest::All(tests) => FlowTest::all(tests.iter().map(|test| of_table(test, table))),
        FlowTest::Any(tests) => FlowTest::any(tests.iter().map(|test| of_table(test, table))),
        key => key.clone(),
    }
}

/// A record as a row of its own table.
struct Row<'r, R: ?Sized>(&'r R);

impl<R: RecordRow + ?Sized> FlowRow for Row<'_, R> {
    fn endpoints(&self) -> &FlowEndpoints {
        self.0.endpoints()
    }

    fn field(&self, test: &FieldTest) -> bool {
        let mut verdict = Default::default();
        self.0.values(&test.field, &mut |value| test.see(&mut verdict, &value));
        test.verdict(verdict)
    }

    fn has_row(&self, _table: &str, _test: &FlowTest) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
