//! Counting over anything that a store has: flows or the records of a table, by any of their keys and fields, over time.

use super::TimeRange;
use crate::loan::Loan;
use std::sync::Arc;
use weir_api::web::Crossing;
use weir_api::{Count, Key};
use weir_filter::FlowTest;
use weir_filter::fields::{FieldInfo, FieldKind};

/// The rows that are counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subject {
    /// Flows.
    Flows,
    /// The records of a table.
    Records(&'static str),
}

/// A column by which rows are grouped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dimension {
    /// A key of the row's flow.
    Key(GroupBy),
    /// A field; a row with a list counts for each of its values.
    Field(FieldInfo),
}

/// A key by which flows, or records by their flow, are added up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GroupBy {
    /// The initiator, with both directions.
    Client,
    /// The responder, with both directions.
    Server,
    /// Each endpoint, with the traffic that it sent.
    Sender,
    /// Each endpoint, with the traffic that was sent to it.
    Receiver,
    /// Each endpoint, with both directions.
    Host,
    /// Client and server.
    Pair,
    /// Server, its port, and client.
    Talker,
    /// A flow.
    Flow,
    /// The server's port, with the protocol.
    Service,
    /// The IP protocol.
    Protocol,
    /// The outer VLAN identifier.
    Vlan,
    /// The state of the connection.
    State,
    /// The identified protocols.
    Application,
    /// The name that the initiator resolved.
    Name,
}

/// The value by which rows are ranked, and which is given over time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Measure {
    /// Rows: flows, or records.
    Rows,
    /// Flows; of records those that have one.
    Flows,
    /// Packets of these flows.
    Packets,
    /// Bytes of these flows.
    Bytes,
    /// Sum of a field.
    Sum(FieldInfo),
    /// Number of distinct values of a key or field.
    Distinct(Dimension),
}

impl Measure {
    /// The unit of its values; empty for a number.
    pub fn unit(self, subject: Subject) -> &'static str {
        match (self, subject) {
            (Self::Bytes, _) => "bytes",
            (Self::Packets, _) => "packets",
            (Self::Flows, _) | (Self::Rows, Subject::Flows) => "flows",
            (Self::Rows, Subject::Records(_)) => "records",
            (Self::Sum(field), _) => unit_of(field),
            (Self::Distinct(_), _) => "values",
        }
    }
}

/// The unit of a field's values; empty for a number.
pub fn unit_of(field: FieldInfo) -> &'static str {
    match (field.kind, field.name) {
        (FieldKind::Duration, _) => "s",
        (_, name) if name.ends_with("bytes") || name.ends_with("_len") => "bytes",
        (_, name) if name.ends_with("packets") => "packets",
        _ => "",
    }
}

/// A query that counts.
#[derive(Clone, Debug)]
pub struct TallyWanted {
    /// The rows that are counted.
    pub subject: Subject,
    /// The columns by which rows are grouped; empty for one sum.
    pub by: Vec<Dimension>,
    /// The ranking.
    pub measure: Measure,
    /// The test of rows.
    pub test: FlowTest,
    /// The time range.
    pub span: TimeRange,
    /// Most rows of the answer.
    pub limit: usize,
    /// Number of parts of the time, each with a value of every row; 0 for none.
    pub steps: usize,
    /// Begin of the first part, which may be before the range, and length of each, in nanoseconds. Without it the parts have
    /// equal lengths and begin with the range.
    pub grid: Option<(u64, u64)>,
    /// A field whose values are kept, for quantiles.
    pub values: Option<FieldInfo>,
}

/// Sums over rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Flows or records.
    pub rows: u64,
    /// Flows; of records those that have one of them.
    pub flows: u64,
    /// Packets and bytes of these flows. Of a flow that crosses an end of the time its share by time.
    pub count: Count,
    /// Bytes of these that the client sent.
    pub sent: u64,
    /// Sum of the field of [`Measure::Sum`], or number of values of [`Measure::Distinct`]. Of several rows together the
    /// latter is not their sum, and not a number where it is not known.
    pub sum: f64,
    /// Maximum error of `count`, because flows cross an end of the range.
    pub error: Count,
}

impl Sums {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.flows += other.flows;
        self.count.add(&other.count);
        self.sent += other.sent;
        self.sum += other.sum;
        self.error.add(&other.error);
    }

    /// The difference to other sums.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let less = |a: Count, b: Count| Count {
            packets: a.packets.saturating_sub(b.packets),
            bytes: a.bytes.saturating_sub(b.bytes),
        };
        Self {
            rows: self.rows.saturating_sub(other.rows),
            flows: self.flows.saturating_sub(other.flows),
            count: less(self.count, other.count),
            sent: self.sent.saturating_sub(other.sent),
            sum: self.sum - other.sum,
            error: less(self.error, other.error),
        }
    }

    /// The value of a measure.
    pub fn of(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Rows => self.rows as f64,
            Measure::Flows => self.flows as f64,
            Measure::Packets => self.count.packets as f64,
            Measure::Bytes => self.count.bytes as f64,
            Measure::Sum(_) | Measure::Distinct(_) => self.sum,
        }
    }
}

impl Tally {
    /// The most by which the measure of a row, or of a value without one, is too low because there was no room for all groups.
    /// What is not known is not in it.
    pub fn missing(&self) -> f64 {
        let rows = self.rows.iter().map(|row| row.missing);
        rows.chain(self.lost.filter(|lost| lost.is_finite())).fold(0.0, f64::max)
    }

    /// Whether something has no row.
    pub fn has_other(&self) -> bool {
        let Sums { rows, flows, count, .. } = self.other;
        self.groups > self.rows.len() as u64
            || self.lost.is_some()
            || rows > 0
            || flows > 0
            || count != Count::default()
    }
}

/// The value of a dimension.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Cell {
    /// The field has none.
    None,
    /// A key as in lists.
    Key(Key),
    /// Text.
    Text(String),
    /// The digits of a number.
    Number(String),
    /// Yes or no.
    Bool(bool),
}

/// Rows with equal values.
#[derive(Clone, Debug)]
pub struct TallyRow {
    /// Their values, in the order of the dimensions.
    pub cells: Vec<Cell>,
    /// Their sums.
    pub sums: Sums,
    /// The most by which the measure in `sums` is too low, in its unit, because earlier rows of these values had no room; the
    /// other sums lack what belongs to it. It is 0 where all rows are in `sums`.
    pub missing: f64,
    /// The measure in each part of the time.
    pub over: Vec<f64>,
    /// Values of [`TallyWanted::values`], in ascending order.
    pub values: Vec<f64>,
}

/// An answer that counts.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The rows, the heaviest first.
    pub rows: Vec<TallyRow>,
    /// Number of groups, with and without a row. Where `lost` is set, there were more.
    pub groups: u64,
    /// Set if there was no room for a group of every value: the most that a value without a row has of the measure, in its unit.
    /// It is infinite where that is not known, because groups are first come.
    pub lost: Option<f64>,
    /// Sums over the groups without a row.
    pub other: Sums,
    /// The measure of it, in each part of the time.
    pub other_over: Vec<f64>,
    /// Everything that matched, each flow or record counted once.
    pub total: Sums,
    /// The sum of all groups, with and without a row. A flow or record with several values is in several groups, as a flow is in
    /// those of both its hosts, so that this can be more than `total`.
    pub listed: Sums,
    /// Beginning and end of the time, as far as it is stored.
    pub span: (u64, u64),
    /// Begin of the first part of the time, and length of each.
    pub grid: (u64, u64),
    /// Flows that cross an end of the time.
    pub crossing: Option<Crossing>,
    /// Note about what is left out.
    pub partial: Option<String>,
    /// The memory that it takes.
    pub memory: Arc<Loan>,
}
