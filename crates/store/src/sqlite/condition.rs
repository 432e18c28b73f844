//! Tests of flows and records as conditions of SQL.
//!
//! Addresses, ports, protocol and VLAN are columns. Fields are not: their values are in JSON, or come from several columns, so
//! that a function of this program, `weir_test`, decides them row by row within the query. For tests of other rows of the flow
//! (`flows where dns.query = ...`) the set of matching flows is found before.

use super::partition::Part;
use crate::body::{self, Leaf};
use crate::fields::{FlowField, FlowSource};
use crate::muted_alerts::TIME;
use crate::{StoreError, TimeRange};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, params_from_iter};
use std::collections::HashSet;
use std::sync::Arc;
use weir_filter::fields::{FieldTest, FieldValue, Number};
use weir_filter::{Endpoints, FLOW, FlowEndpoints, FlowRow, FlowTest};

/// Maximum number of tests of addresses and ports in SQL. More are decided by the function, because SQLite limits the number of
/// values and the depth of a condition.
const MAX_WRITTEN: usize = 200;
/// Flows that a test of other rows may find.
const MAX_FLOWS: usize = 4_000_000;

/// The table of flows, and its columns beside packets and bytes.
const FLOWS: &str = "flows";
const KEPT: &str = "id, uid, first, last, proto, src, sport, dst, dport, vlan, state, service, name, detail";

/// A condition in SQL with its values and functions.
#[derive(Clone, Default)]
pub struct Condition {
    /// The table of the query.
    pub from: String,
    /// The text after `WHERE`.
    pub text: String,
    /// Its values, in order.
    pub values: Vec<Sql>,
    /// Tests of the forward and of the reverse direction of a flow, if the condition tells a sender from a receiver.
    sides: Option<[String; 2]>,
    functions: Arc<Vec<Function>>,
    /// Note that flows are missing because the time limit was reached, or they were too many.
    pub partial: Option<String>,
}

/// A call of `weir_test`.
enum Function {
    /// A test of a record's own fields.
    Body(FlowTest),
    /// A test of a value of SQL.
    Value(FieldTest),
    /// As of a value, and of its words.
    Words(FieldTest),
    /// A test of the sum of members of a flow's detail.
    Detail(FieldTest, &'static [&'static str]),
    /// A test of addresses, ports, protocol and VLAN.
    Key(FlowTest),
    /// Whether a flow is one of these.
    Flows(HashSet<i64>),
}

/// Finds the flows that have a row of a table for which a test holds; a note where not all were found.
pub type FindFlows<'f> = &'f dyn Fn(&str, &FlowTest) -> Result<(HashSet<i64>, Option<String>), StoreError>;

/// Writes a condition.
struct Writer<'f> {
    condition: Condition,
    functions: Vec<Function>,
    /// Tests of other rows, each with its function.
    found: Vec<(&'static str, FlowTest, usize)>,
    table: &'f str,
    find: FindFlows<'f>,
    /// Whether tests of addresses and ports go into a function.
    has_many: bool,
}

impl Condition {
    /// A test of flows (table [`FLOW`]) or of the records of a table.
    pub fn of(test: &FlowTest, table: &str, find: FindFlows<'_>) -> Result<Self, StoreError> {
        let has_many = leaves(test) > MAX_WRITTEN;
        let from = if table == FLOW { FLOWS } else { "records" }.to_owned();
        let condition = Self { from, ..Self::default() };
        let mut writer =
            Writer { condition, functions: Vec::new(), found: Vec::new(), table, find, has_many };
        let test = test.clone().over(table);
        if table == FLOW && test.is_directed() {
            let mut side = |test: &FlowTest| {
                writer.push(test)?;
                Ok::<_, StoreError>(std::mem::take(&mut writer.condition.text))
            };
            let [forward, reverse] = [side(&test)?, side(&test.reversed())?];
            writer.condition.text = format!("(({forward}) AND fpackets > 0 OR ({reverse}) AND rpackets > 0)");
            writer.condition.sides = Some([forward, reverse]);
        } else {
            writer.push(&test)?;
        }
        Ok(Self { functions: Arc::new(writer.functions), ..writer.condition })
    }

    /// The condition over flows that have only the packets and bytes of the directions for which the test holds. A test that tells
    /// no sender from a receiver holds for both.
    pub fn by_direction(mut self) -> Self {
        if let Some([forward, reverse]) = self.sides.take() {
            self.from = format!(
                "(SELECT {KEPT}, forward * fpackets AS fpackets, reverse * rpackets AS rpackets, forward * fbytes AS fbytes,
                 reverse * rbytes AS rbytes FROM (SELECT *, ({forward}) AS forward, ({reverse}) AS reverse FROM {FLOWS}))"
            );
            "(fpackets + rpackets > 0)".clone_into(&mut self.text);
        }
        self
    }

    /// Adds a condition.
    pub fn and(mut self, text: &str, values: impl IntoIterator<Item = Sql>) -> Self {
        self.text.push_str(" AND ");
        self.text.push_str(text);
        self.values.extend(values);
        self
    }

    /// Of flows that have a part of a time.
    pub fn during(self, span: TimeRange) -> Self {
        let (from, to) = bounds(span);
        self.and("last >= ? AND first < ?", [from, to].map(Sql::Integer))
    }

    /// Makes its functions known to a connection.
    pub fn register(&self, connection: &Connection) -> rusqlite::Result<()> {
        if self.functions.is_empty() {
            return Ok(());
        }
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_DIRECTONLY;
        let functions = Arc::clone(&self.functions);
        connection.create_scalar_function("weir_test", -1, flags, move |context| {
            let at = context.get::<i64>(0)?;
            let function = usize::try_from(at).ok().and_then(|at| functions.get(at));
            Ok(function.is_some_and(|function| function.decide(context)))
        })
    }
}

/// Beginning and end as SQLite has them.
pub fn bounds(span: TimeRange) -> (i64, i64) {
    let bound = |time: u64| time.min(i64::MAX as u64) as i64;
    (bound(span.from.unwrap_or(0)), bound(span.to.unwrap_or(u64::MAX)))
}

/// Tests of addresses, ports and protocols.
fn leaves(test: &FlowTest) -> usize {
    match test {
        FlowTest::All(tests) | FlowTest::Any(tests) => tests.iter().map(leaves).sum(),
        FlowTest::Not(test) => leaves(test),
        FlowTest::Field(_) | FlowTest::Row(..) => 0,
        _ => 1,
    }
}

/// Whether each test within a test is of some kind.
fn only(test: &FlowTest, is: &dyn Fn(&FlowTest) -> bool) -> bool {
    match test {
        FlowTest::All(tests) | FlowTest::Any(tests) => tests.iter().all(|test| only(test, is)),
        FlowTest::Not(test) => only(test, is),
        test => is(test),
    }
}

impl Writer<'_> {
    fn function(&mut self, function: Function, arguments: &str) {
        let text = format!("weir_test({}, {arguments})", self.functions.len());
        self.condition.text.push_str(&text);
        self.functions.push(function);
    }

    fn push(&mut self, test: &FlowTest) -> Result<(), StoreError> {
        let is_field =
            |test: &FlowTest| matches!(test, FlowTest::Field(test) if test.field.name != TIME.name);
        let is_key = |test: &FlowTest| !matches!(test, FlowTest::Field(_) | FlowTest::Row(..));
        // A chain without operands is a constant, and is written as one.
        let is_empty = matches!(test, FlowTest::All(tests) | FlowTest::Any(tests) if tests.is_empty());
        if self.table != FLOW && !is_empty && only(test, &is_field) {
            self.function(Function::Body(test.clone()), "body");
            return Ok(());
        }
        if self.has_many && !is_empty && only(test, &is_key) {
            self.function(Function::Key(test.clone()), "proto, src, sport, dst, dport, vlan");
            return Ok(());
        }
        match test {
            FlowTest::All(all) => self.join(all, " AND ", "1")?,
            FlowTest::Any(any) => self.join(any, " OR ", "0")?,
            FlowTest::Not(test) => {
                self.condition.text.push_str("NOT ");
                self.push(test)?;
            }
            FlowTest::Field(test) => self.field(test),
            FlowTest::Row(table, test) => {
                // Both directions of a flow have the rows of the flow.
                let known = self.found.iter().find(|(of, known, _)| of == table && *known == **test);
                if let Some((.., at)) = known {
                    self.condition.text.push_str(&format!("weir_test({at}, uid)"));
                    return Ok(());
                }
                let (flows, partial) = (self.find)(table, test)?;
                self.condition.partial = self.condition.partial.take().or(partial);
                self.found.push((*table, (**test).clone(), self.functions.len()));
                self.function(Function::Flows(flows), "uid");
            }
            FlowTest::IsV4(wanted) => {
                let ends = [0xffff_0000_0000_u128, 0xffff_ffff_ffff];
                self.condition.text.push_str(if *wanted {
                    "(src BETWEEN ? AND ?)"
                } else {
                    "(src NOT BETWEEN ? AND ?)"
                });
                self.condition.values.extend(ends.map(|end| Sql::Blob(end.to_be_bytes().into())));
            }
            FlowTest::Protocol(protocol) => self.equal("proto", i64::from(*protocol)),
            FlowTest::Vlan(None) => self.condition.text.push_str("(vlan <> 0)"),
            FlowTest::Vlan(Some(vlan)) => self.equal("vlan", i64::from(*vlan)),
            FlowTest::Address(ends, low, high) => {
                let bounds = [low, high].map(|end| Sql::Blob(end.to_be_bytes().into()));
                self.ends(*ends, ["src", "dst"], bounds);
            }
            FlowTest::Port(ends, low, high) => {
                let bounds = [low, high].map(|end| Sql::Integer(i64::from(*end)));
                self.ends(*ends, ["sport", "dport"], bounds);
            }
        }
        Ok(())
    }

    /// A field of a flow, or the time of a record: other fields of records are decided on their body.
    fn field(&mut self, test: &FieldTest) {
        if self.table != FLOW {
            self.function(Function::Value(test.clone()), "time");
            return;
        }
        match FlowField::find(test.field.name).map(|field| field.source) {
            Some(FlowSource::Column(text)) => self.function(Function::Value(test.clone()), text),
            Some(FlowSource::Words(text)) => self.function(Function::Words(test.clone()), text),
            Some(FlowSource::Detail(members)) => {
                self.function(Function::Detail(test.clone(), members), "detail");
            }
            None => self.condition.text.push('0'),
        }
    }

    /// Operands in parentheses that are nested as flat as may be: SQLite limits the depth of a condition.
    fn join(&mut self, tests: &[FlowTest], word: &str, of_none: &str) -> Result<(), StoreError> {
        match tests {
            [] => self.condition.text.push_str(of_none),
            [one] => self.push(one)?,
            many => {
                let (front, back) = many.split_at(many.len() / 2);
                self.condition.text.push('(');
                self.join(front, word, of_none)?;
                self.condition.text.push_str(word);
                self.join(back, word, of_none)?;
                self.condition.text.push(')');
            }
        }
        Ok(())
    }

    fn equal(&mut self, column: &str, value: i64) {
        self.condition.text.push_str(&format!("({column} = ?)"));
        self.condition.values.push(Sql::Integer(value));
    }

    fn ends(&mut self, ends: Endpoints, [source, destination]: [&str; 2], bounds: [Sql; 2]) {
        let (columns, word) = match ends {
            Endpoints::Source | Endpoints::Client => (vec![source], ""),
            Endpoints::Destination | Endpoints::Server => (vec![destination], ""),
            Endpoints::Either => (vec![source, destination], " OR "),
            Endpoints::Both => (vec![source, destination], " AND "),
        };
        let [low, high] = &bounds;
        // An equality is easier to read.
        let texts: Vec<String> = columns
            .iter()
            .map(
                |column| {
                    if low == high { format!("{column} = ?") } else { format!("{column} BETWEEN ? AND ?") }
                },
            )
            .collect();
        self.condition.text.push_str(&format!("({})", texts.join(word)));
        for _ in columns {
            self.condition.values.push(low.clone());
            if low != high {
                self.condition.values.push(high.clone());
            }
        }
    }
}

impl Function {
    fn decide(&self, context: &Context<'_>) -> bool {
        let argument = || context.get_raw(1);
        match self {
            Function::Body(test) => holds(test, argument().as_str().unwrap_or_default()),
            Function::Value(test) => test.holds(value(argument())),
            Function::Words(test) => {
                let text = argument().as_str().unwrap_or_default();
                let words = text.split(' ').filter(|_| text.contains(' '));
                let all = std::iter::once(text).filter(|text| !text.is_empty()).chain(words);
                test.holds(all.map(|text| FieldValue::Text(text.as_bytes())))
            }
            Function::Detail(test, members) => {
                let found = detail(argument().as_str().unwrap_or_default(), members);
                test.holds(found.as_ref().map(field_value))
            }
            Function::Key(test) => endpoints(context).is_some_and(|flow| test.holds(&flow)),
            Function::Flows(flows) => argument().as_i64().is_ok_and(|flow| flows.contains(&flow)),
        }
    }
}

/// A record's own fields.
struct Body<'b>(&'b str);

impl FlowRow for Body<'_> {
    fn endpoints(&self) -> &FlowEndpoints {
        // Tests of them are never asked of a body.
        static NONE: FlowEndpoints =
            FlowEndpoints { address: [[0; 16]; 2], port: [0; 2], protocol: 0, vlan: 0 };
        &NONE
    }

    fn field(&self, test: &FieldTest) -> bool {
        let mut verdict = Default::default();
        if let Some(written) = body::member(self.0, test.field.name) {
            body::leaves(written, &mut |leaf| test.see(&mut verdict, &field_value(&leaf)));
        }
        test.verdict(verdict)
    }

    fn has_row(&self, _table: &str, _test: &FlowTest) -> bool {
        false
    }
}

fn holds(test: &FlowTest, body: &str) -> bool {
    test.holds(&Body(body))
}

/// A value of a body as tests take it.
fn field_value<'l>(leaf: &'l Leaf<'_>) -> FieldValue<'l> {
    match leaf {
        Leaf::Bool(yes) => FieldValue::Bool(*yes),
        Leaf::Text(text) => FieldValue::Text(text.as_bytes()),
        Leaf::Sum(sum) => FieldValue::Number(Number::Whole((*sum).into())),
        Leaf::Number(digits) => match Number::parse(digits) {
            Some(number) => FieldValue::Number(number),
            None => FieldValue::Text(digits.as_bytes()),
        },
    }
}

/// The sum of members of a flow's detail; of texts the first one.
pub fn detail<'d>(detail: &'d str, members: &[&str]) -> Option<Leaf<'d>> {
    let mut found: Option<Leaf<'d>> = None;
    for name in members {
        let Some(written) = body::member(detail, name) else { continue };
        body::leaves(written, &mut |leaf| {
            found = Some(match found.take() {
                None => leaf,
                Some(before) => match (before.whole(), leaf.whole()) {
                    (Some(a), Some(b)) => Leaf::Sum(a.saturating_add(b)),
                    _ => before,
                },
            });
        });
    }
    found
}

/// A value of SQL as tests take it; none for NULL.
fn value(found: ValueRef<'_>) -> Option<FieldValue<'_>> {
    match found {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(FieldValue::Number(Number::Whole(number.into()))),
        ValueRef::Real(number) => Some(FieldValue::Number(Number::Real(number))),
        ValueRef::Text(text) => Some(FieldValue::Text(text)),
        ValueRef::Blob(bytes) => {
            let bytes: [u8; 16] = bytes.try_into().ok()?;
            Some(FieldValue::Address(u128::from_be_bytes(bytes)))
        }
    }
}

fn endpoints(context: &Context<'_>) -> Option<FlowEndpoints> {
    let address = |at: usize| context.get::<[u8; 16]>(at).ok();
    let number = |at: usize| context.get::<u16>(at).ok();
    Some(FlowEndpoints {
        protocol: context.get::<u8>(1).ok()?,
        address: [address(2)?, address(4)?],
        port: [number(3)?, number(5)?],
        vlan: number(6)?,
    })
}

/// Adds the flows of a partition that have a row of a table for which a condition holds; `false` where there are too many.
pub fn flows_with(
    part: &Part,
    table: &str,
    condition: &Condition,
    span: TimeRange,
    into: &mut HashSet<i64>,
) -> rusqlite::Result<bool> {
    condition.register(&part.connection)?;
    let (from, to) = bounds(span);
    let text = match table {
        FLOW => format!("SELECT uid FROM flows WHERE {} AND last >= ? AND first < ?", condition.text),
        _ => {
            format!("SELECT uid FROM records WHERE {} AND time >= ? AND time < ? AND tbl = ?", condition.text)
        }
    };
    let mut values = condition.values.clone();
    values.extend([from, to].map(Sql::Integer));
    if table != FLOW {
        values.push(Sql::Text(table.to_owned()));
    }
    let mut query = part.connection.prepare(&text)?;
    let mut rows = query.query(params_from_iter(&values))?;
    while let Some(row) = rows.next()? {
        into.insert(row.get(0)?);
        if into.len() > MAX_FLOWS {
            return Ok(false);
        }
    }
    Ok(true)
}
