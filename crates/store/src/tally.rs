//! Counting over anything that a store has: flows or the records of a table, by any of their keys and fields, over time.

use super::TimeRange;
use crate::loan::Loan;
use std::sync::Arc;
use weir_api::web::Crossing;
use weir_api::{Count, Key};
use weir_filter::FlowTest;
use weir_filter::fields::FieldInfo;

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
    /// Number of groups, with and without a row.
    pub groups: u64,
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
