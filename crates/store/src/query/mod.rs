//! The query language: one query on one line, or as a JSON object.
//!
//! ```text
//! top client by bytes since 24h where dst net 10.0.0.0/8
//! top tls.server_name by flows since 1d where host 10.0.0.7
//! count http by status_code, host since yesterday
//! top client by distinct dns.query
//! top service points 24 since 7d
//! top dns.query since 1d compare 1w where dns.rcode_name = NXDOMAIN
//! quantiles stream.first_byte by server since 1d
//! quantiles series ledger/bytes in 2026-03
//! flows order -bytes since 3 days ago 14:05 limit 20 where tcp port 443
//! records x509 show subject, not_after where x509.not_after < now
//! series ledger/caught since 7d points 100
//! events since 7d limit 50
//! ```
//!
//! The subject comes first, then clauses in any order; `where` takes the rest of the line, an expression of
//! pcap-filter(7) with tests of fields ([`weir_filter::fields`]). `src` is the sender: a flow adds the packets of the directions that
//! match. A stored list
//! is read as it was counted, with its error; everything else is computed from stored flows and records. [`super::moment`] has
//! the forms of times.

mod answer;
mod fragments;
mod kept;
mod keys;
mod parse;
#[cfg(test)]
mod tests;
mod words;

pub use answer::states;
pub use keys::{kept_list, list_of_flows, lists_kept, lists_of_flows};

use super::basis;
use super::fields::{Lists, StoreFields};
use super::moment::Moments;
use super::tally::{Dimension, Measure, Subject};
use super::{FlowOrder, GroupBy, RankBy, Store, StoreError, TimeRange};
use std::fmt;
use std::time::Instant;
use weir_api::web::Answered;
use weir_filter::fields::FieldInfo;
use weir_filter::{FilterError, FlowTest, Options};

/// Default number of rows of an answer.
const ROWS: usize = 20;
/// Maximum number of rows of an answer.
const MAX_ROWS: usize = 10_000;
/// Rows of an answer without a limit: more than groups that are counted.
const UNLIMITED: usize = 1_000_000;
/// Default number of points of a series.
const POINTS: usize = 600;
/// The most parts of a time in which rows are counted.
const MAX_STEPS: usize = 2_000;
/// The most keys of a question.
const MAX_KEYS: usize = 4;

/// An error in a query, and its position.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueryError {
    /// The error, and the accepted values.
    pub message: String,
    /// Position in the text, in bytes.
    pub offset: usize,
    /// Length of the erroneous part, in bytes.
    pub length: usize,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for QueryError {}

/// The context of a query: options of expressions, times and rights.
#[derive(Clone, Debug, Default)]
pub struct Asking<'r> {
    /// Options of expressions.
    pub options: Options<'r>,
    /// Zone and `now` of times; `now` is the end of the stored data.
    pub moments: Moments,
    /// The time range of a query that names none.
    pub span: TimeRange,
    /// Whether fields that hold payload are withheld.
    pub without_payload: bool,
    /// The files that lists may be read from.
    pub lists: Lists<'r>,
}

impl Asking<'_> {
    /// The fields that it may name.
    pub fn fields(&self) -> StoreFields<'_> {
        StoreFields { payload: !self.without_payload, lists: self.lists, moments: &self.moments }
    }

    /// Parses an expression over flows and records.
    ///
    /// # Errors
    ///
    /// The error in the query, and its position.
    pub fn test(&self, text: &str) -> Result<FlowTest, FilterError> {
        FlowTest::parse(text, &Options { fields: Some(&self.fields()), ..self.options })
    }

    /// Parses an expression over records, which have no direction.
    ///
    /// # Errors
    ///
    /// As [`Asking::test`]; also if it tests a sender or a receiver.
    pub fn test_of_records(&self, text: &str) -> Result<FlowTest, FilterError> {
        FlowTest::parse_of_records(text, &Options { fields: Some(&self.fields()), ..self.options })
    }
}

/// A query.
#[derive(Clone, Debug)]
pub struct Question {
    text: String,
    matter: Matter,
    moments: Moments,
    span: TimeRange,
    order: Option<(FlowOrder, bool)>,
    limit: usize,
    /// Whether the query has a limit.
    is_limited: bool,
    /// Points of a series, or parts of the time in which rows are counted.
    points: Option<usize>,
    /// Nanoseconds of a part.
    every: Option<u64>,
    compare: Option<Compare>,
    words: String,
    test: Option<FlowTest>,
    /// Whether records show payload.
    payload: bool,
}

/// All flows or records that a query asks for.
#[derive(Clone, Debug)]
pub enum Rows {
    /// Flows.
    Flows {
        /// Their test.
        test: FlowTest,
        /// Their time range.
        span: TimeRange,
    },
    /// Records.
    Records {
        /// Their table.
        table: String,
        /// Their test.
        test: FlowTest,
        /// Text within one of their values; "" for any.
        text: String,
        /// Their time range.
        span: TimeRange,
    },
}

/// The subject of a query.
#[derive(Clone, Debug, PartialEq)]
enum Matter {
    /// Rows with equal values, the heaviest first.
    Count(Counting),
    /// A list by its own name.
    List(String, Option<RankBy>),
    Flows,
    /// A flow and its records.
    Flow(String),
    Records(String, Vec<FieldInfo>),
    Series(String),
    Distinct,
    /// Keys that were not seen before.
    New,
    Events,
    /// Quantiles of a field.
    Quantiles(Counting, FieldInfo),
    /// Quantiles of a series' points.
    SeriesQuantiles(String),
}

/// Rows to count, columns to group them by, and the ranking.
#[derive(Clone, Debug, PartialEq)]
struct Counting {
    subject: Subject,
    by: Vec<Dimension>,
    names: Vec<String>,
    measure: Measure,
    /// The kept list of the key.
    list: Option<(&'static str, GroupBy)>,
}

/// The range of a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Compare {
    /// The range of equal length directly before.
    Before,
    /// The range moved back by this number of nanoseconds.
    Earlier(u64),
}

impl Question {
    /// Parses a query.
    ///
    /// # Errors
    ///
    /// The error in the query, and its position.
    pub fn parse(text: &str, asking: &Asking<'_>) -> Result<Self, QueryError> {
        parse::question(text, asking)
    }

    /// The rows that a query for flows or records without limit and order asks for; `None` for other queries.
    pub fn rows(&self) -> Option<Rows> {
        if self.is_limited || self.order.is_some() {
            return None;
        }
        let test = self.test.clone().unwrap_or(FlowTest::All(Vec::new()));
        match &self.matter {
            Matter::Flows => Some(Rows::Flows { test, span: self.span }),
            Matter::Records(table, shown) if shown.is_empty() => {
                Some(Rows::Records { table: table.clone(), test, text: self.words.clone(), span: self.span })
            }
            _ => None,
        }
    }

    /// Most rows of the answer.
    pub fn row_limit(&self) -> usize {
        self.limit
    }

    /// Answers with as many rows as there are, if the query has no limit.
    pub fn unlimited(&mut self) {
        if !self.is_limited {
            self.limit = UNLIMITED;
        }
    }

    /// Queries a store.
    ///
    /// # Errors
    ///
    /// Those of [`Store`].
    pub fn ask(&self, store: &dyn Store) -> Result<Answered, StoreError> {
        let begun = Instant::now();
        let moved = store.moved(self.span)?;
        let of_cells = Self { span: moved.span(), ..self.clone() };
        let mut answered = answer::of(&of_cells, store)?;
        answered.notes.extend(fragments::note(&of_cells, store)?);
        if let Some(basis) = &mut answered.basis {
            basis::complete(store, &moved, basis)?;
            answered.notes.extend(answer::range_note(self, &moved, basis));
        }
        answered.q.clone_from(&self.text);
        answered.milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        Ok(answered)
    }
}
