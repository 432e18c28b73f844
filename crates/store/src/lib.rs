//! The data that a monitor keeps: series, top lists, distinct counts, events, flows and records, in one folder.
//!
//! [`Store`] answers queries. SQLite databases implement it, and a distributed engine can be the second
//! implementation. Data is written by an [`weir_output::Output`].
//!
//! Everything is kept in tiers. A finished interval is added to one cell of each tier, because tiers need only
//! addition (`Reading::merge` for lists; sum, minimum and maximum for series): after a crash nothing has to be
//! recomputed, and a clock jump only writes into other cells.

#![forbid(unsafe_code)]

pub mod alerts;
pub mod basis;
pub mod beacons;
mod body;
pub mod changes;
pub mod export;
pub mod fields;
pub mod findings;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../output/src/fixtures.rs"]
mod fixtures;
mod flow_series;
pub mod fresh;
mod health;
mod keep;
pub mod label;
pub mod listed;
mod loan;
pub mod marks;
mod median;
pub mod moment;
pub mod muted_alerts;
pub mod narrowed;
mod news;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod paths;
pub mod payload;
pub mod period;
pub mod query;
pub mod reported;
pub mod seed;
mod share;
pub mod signatures;
pub mod sqlite;
mod stored;
#[cfg(test)]
mod suite;
pub mod tally;
mod tiers;

pub use health::Health;
pub use keep::Keep;
pub use loan::{Lender, Loan};
pub use marks::Marks;
pub use reported::Reported;
pub use signatures::{KnownSignature, Signatures};
pub use sqlite::{Point, cached, class_id, counter_id, line_id, points};
pub use stored::{StoredFlow, StoredRecord};
pub use tally::GroupBy;
pub use tiers::{LISTS, SERIES, Tier};

use basis::Moved;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use tally::{Tally, TallyWanted};
use thiserror::Error;
use weir_api::web::{
    Band, Distincts, Events, FilterTry, Flow, FlowDetail, Flows, Lists, News, RecordRow, Records, SeriesData,
    SeriesInfo, StoreState, TopList,
};
use weir_api::{Key, Top, Unit};
use weir_filter::FlowTest;
use weir_filter::fields::FieldInfo;
use weir_output::zone::Zone;

/// The reason why a store does not answer, or cannot be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A newer version of the program has written the store.
    #[error(
        "{path}: store version {found} is newer than this program supports ({known}): a newer Weir can read it"
    )]
    Newer {
        /// Path of its database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The last known version.
        known: i64,
    },
    /// There is no store.
    #[error("{0}: no store; create one with `weir -i INTERFACE -o DIR --log store`")]
    NotThere(PathBuf),
    /// No object of that name.
    #[error("{0}")]
    Unknown(String),
    /// An error of the database.
    #[error("{path}: {error}")]
    Database {
        /// Its file.
        path: PathBuf,
        /// Its message.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An error of a file.
    #[error("{path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Its message.
        error: io::Error,
    },
}

/// A time range in nanoseconds since the epoch; an absent bound means all stored data.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TimeRange {
    /// Its beginning.
    pub from: Option<u64>,
    /// Its end, excluded.
    pub to: Option<u64>,
}

/// The points of a curve over a time range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Steps {
    /// About this number of them, each of a length that stored cells add up to.
    About(usize),
    /// Points of exactly this length. The first one contains the beginning of the range.
    Exact {
        /// A time at which a point begins, in nanoseconds since the epoch.
        base: u64,
        /// The length of a point in nanoseconds.
        step: u64,
    },
}

/// A query for flows.
#[derive(Clone, Debug)]
pub struct FlowsWanted {
    /// Test of the flows.
    pub test: FlowTest,
    /// Time range of the flows.
    pub span: TimeRange,
    /// Order of the rows.
    pub order: FlowOrder,
    /// Whether the order is descending.
    pub descending: bool,
    /// Maximum number of rows.
    pub limit: usize,
    /// Number of rows to skip.
    pub offset: usize,
    /// Fields whose values each row has beside it.
    pub fields: Vec<FieldInfo>,
}

/// The order of flows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum FlowOrder {
    #[default]
    First,
    Last,
    Duration,
    Bytes,
    Packets,
    Source,
    Destination,
    Service,
    State,
}

impl FlowOrder {
    /// Every order with its name.
    pub const ALL: [(&'static str, FlowOrder); 9] = [
        ("first", FlowOrder::First),
        ("last", FlowOrder::Last),
        ("duration", FlowOrder::Duration),
        ("bytes", FlowOrder::Bytes),
        ("packets", FlowOrder::Packets),
        ("source", FlowOrder::Source),
        ("destination", FlowOrder::Destination),
        ("service", FlowOrder::Service),
        ("state", FlowOrder::State),
    ];

    /// Parses an order; a leading `-` means descending.
    ///
    /// # Errors
    ///
    /// The known names.
    pub fn parse(text: &str) -> Result<(Self, bool), String> {
        let (name, descending) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        match Self::ALL.into_iter().find(|(known, _)| *known == name) {
            Some((_, order)) => Ok((order, descending)),
            None => {
                let names = Self::ALL.map(|(name, _)| name).join(", ");
                Err(format!("one of {names}, with a leading `-` for descending order"))
            }
        }
    }
}

/// A query for records.
#[derive(Clone, Debug)]
pub struct RecordsWanted {
    /// The table.
    pub table: String,
    /// Test of the records' flows.
    pub test: FlowTest,
    /// Text within one of the values; "" for any.
    pub text: String,
    /// Whether values of fields that hold payload are shown and searched.
    pub payload: bool,
    /// Time range of the records.
    pub span: TimeRange,
    /// Order of the rows.
    pub order: RecordOrder,
    /// Whether the order is descending. Records without a value come last in either.
    pub descending: bool,
    /// Maximum number of rows.
    pub limit: usize,
    /// Number of rows to skip.
    pub offset: usize,
}

/// The order of records.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RecordOrder {
    /// Time.
    #[default]
    Time,
    /// Address of the client.
    Client,
    /// Address of the server.
    Server,
    /// A field: numbers by value, text by its first 128 bytes in any case of ASCII letters, a list by its first value.
    Field(&'static str),
}

/// A table over a time range.
#[derive(Clone, Debug, Default)]
pub struct KeptTable {
    /// The table; `None` if no data of the range is stored.
    pub table: Option<weir_api::Table>,
    /// The answered time range, in nanoseconds since the epoch.
    pub span: (u64, u64),
    /// What it leaves out, and why.
    pub partial: Option<String>,
}

/// A stored list of any kind over a time range.
#[derive(Clone, Debug, Default)]
pub struct KeptReading {
    /// The list; `None` if no data of the range is stored.
    pub reading: Option<weir_api::Reading>,
    /// What it leaves out, and why.
    pub partial: Option<String>,
}

/// A stored list over a time range.
pub struct KeptList {
    /// The list; `None` if no data of the range is stored.
    pub top: Option<Top>,
    /// The answered time range.
    pub span: (u64, u64),
    /// What the list leaves out, and why.
    pub partial: Option<String>,
}

/// All stored points of a series.
pub struct Archive {
    /// Length of the finest points in seconds; all others are multiples of it.
    pub step: u64,
    /// End of the last point, in seconds since the epoch.
    pub update: u64,
    /// For each tier the length of its points in seconds, and average, minimum and maximum of each, up to the last
    /// multiple of the length.
    pub tiers: Vec<(u64, Vec<Option<[f64; 3]>>)>,
}

/// All rows that a query passes, and the rest of its answer.
fn gathered<R, A>(
    pass: impl FnOnce(&mut dyn FnMut(R) -> bool) -> Result<A, StoreError>,
) -> Result<(Vec<R>, A), StoreError> {
    let mut rows = Vec::new();
    let rest = pass(&mut |row| {
        rows.push(row);
        true
    })?;
    Ok((rows, rest))
}

/// The queries of a store. Each answer is complete or contains a note of what it leaves out.
pub trait Store: Send + Sync {
    /// Begin and end of the stored data, in nanoseconds since the epoch.
    ///
    /// # Errors
    ///
    /// The engine fails. This applies to all queries.
    fn extent(&self) -> Result<Option<(u64, u64)>, StoreError>;

    /// Begin and end of the time that was watched, in nanoseconds since the epoch: of captures the times of their first and their last
    /// packet. The first and the last interval stick out of it.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn watched_extent(&self) -> Result<Option<(u64, u64)>, StoreError>;

    /// Moves a range outwards to the cells that are stored there. Every answer over a range asks for the moved one; see
    /// [`basis::over`].
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn moved(&self, span: TimeRange) -> Result<Moved, StoreError>;

    /// Every series.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn series(&self) -> Result<Vec<SeriesInfo>, StoreError>;

    /// Points of each of some series, from stored cells; unknown series are left out.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`]; also if the steps are exact and stored cells do not add up to them.
    fn kept_points(&self, ids: &[String], span: TimeRange, steps: Steps) -> Result<SeriesData, StoreError>;

    /// The heaviest `top` of many series, the sum of the others, and the total of each, from stored cells. Thousands of
    /// series get fewer points than requested.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn kept_heaviest(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        top: usize,
    ) -> Result<SeriesData, StoreError>;

    /// Watched seconds of each time range.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn watched_within(&self, ranges: &[(u64, u64)]) -> Result<Vec<f64>, StoreError>;

    /// All stored points of a series.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`]; also if the series does not exist.
    fn archive(&self, id: &str) -> Result<Archive, StoreError>;

    /// As [`Store::kept_points`]. If the stored cells are too long for the range, the points of all traffic are computed
    /// from stored flows.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn points(&self, ids: &[String], span: TimeRange, points: usize) -> Result<SeriesData, StoreError> {
        let kept = self.kept_points(ids, span, Steps::About(points))?;
        flow_series::replace(self, kept, ids, span, points)
    }

    /// Bytes and packets of the flows that match a test, in about `points` points, computed from stored flows.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn points_of_flows(
        &self,
        test: &FlowTest,
        span: TimeRange,
        points: usize,
    ) -> Result<SeriesData, StoreError> {
        flow_series::points(self, test, span, points)
    }

    /// As [`Store::kept_heaviest`], or computed from stored flows as in [`Store::points`].
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn heaviest(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        top: usize,
    ) -> Result<SeriesData, StoreError> {
        let kept = self.kept_heaviest(ids, span, points, top)?;
        flow_series::replace(self, kept, ids, span, points)
    }

    /// Minimum, median and maximum of the same hours in earlier weeks, in local time of a zone.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn band(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        weeks: usize,
        zone: &Zone,
    ) -> Result<Band, StoreError>;

    /// Every list and distinct count.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn lists(&self) -> Result<Lists, StoreError>;

    /// A stored list, added up over the range.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn kept_list(&self, name: &str, span: TimeRange) -> Result<KeptList, StoreError>;

    /// The rows of a list, added up over the range; ranked by its own unit by default.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`]; also if the list does not exist.
    fn top(
        &self,
        list: &str,
        span: TimeRange,
        by: Option<RankBy>,
        limit: usize,
    ) -> Result<TopList, StoreError> {
        self.top_over_time(list, span, by, limit, 0)
    }

    /// A stored list of any kind, added up over the range.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn reading(&self, name: &str, span: TimeRange) -> Result<KeptReading, StoreError>;

    /// Passes the stored cells of a list to `each`, in the order of time: begin and end in nanoseconds since the epoch, and the
    /// reading. They are cells of the finest tier that still has all of the range, and those that overlap it: an interval belongs to
    /// the time of its begin. A cell without a row is not stored. Returns the name of the tier: `interval`, `1h`, `1d`, `1w` or
    /// `1mo`.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`]; cells may have been passed before it.
    fn each_cell(
        &self,
        name: &str,
        span: (u64, u64),
        each: &mut dyn FnMut(u64, u64, weir_api::Reading),
    ) -> Result<&'static str, StoreError>;

    /// The table of a function with its own columns, added up over the range; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn table(&self, name: &str, span: TimeRange) -> Result<Option<KeptTable>, StoreError>;

    /// The rows of a list, each with its values in a number of parts of the range. The values are approximate if the
    /// stored cells are longer than a part.
    ///
    /// # Errors
    ///
    /// As [`Store::top`].
    fn top_over_time(
        &self,
        list: &str,
        span: TimeRange,
        by: Option<RankBy>,
        limit: usize,
        parts: usize,
    ) -> Result<TopList, StoreError>;

    /// The rows of a list computed from stored flows, each with its values in a number of parts of the range.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn group(
        &self,
        by: GroupBy,
        test: &FlowTest,
        span: TimeRange,
        rank: RankBy,
        limit: usize,
        parts: usize,
    ) -> Result<TopList, StoreError>;

    /// The rows of a stored list. If the stored cells are too coarse for the range and flows are stored, the rows are computed
    /// from flows.
    ///
    /// # Errors
    ///
    /// As [`Store::top`].
    fn ranked(
        &self,
        list: &str,
        by: GroupBy,
        span: TimeRange,
        rank: Option<RankBy>,
        limit: usize,
        parts: usize,
    ) -> Result<TopList, StoreError> {
        let kept = self.top_over_time(list, span, rank, limit, parts)?;
        if kept.partial.is_none() {
            return Ok(kept);
        }
        let all = FlowTest::All(Vec::new());
        let rank = rank.or(RankBy::parse(&kept.unit).ok()).unwrap_or(RankBy::Unit(Unit::Bytes));
        let flows = self.group(by, &all, span, rank, limit, parts)?;
        let is_better = flows.partial.is_none() && !flows.rows.is_empty();
        Ok(if is_better { TopList { list: kept.list, ..flows } } else { kept })
    }

    /// The names that clients resolved to the hosts of keys.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn names(&self, keys: &[Key]) -> Result<HashMap<Key, String>, StoreError>;

    /// Counts flows or records.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn tally(&self, wanted: &TallyWanted) -> Result<Tally, StoreError>;

    /// Distinct counts over the span.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn distinct(&self, span: TimeRange) -> Result<Distincts, StoreError>;

    /// Hosts and services seen in the range and not in the seven days before.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn news(&self, span: TimeRange) -> Result<News, StoreError> {
        news::of(self, span)
    }

    /// Calls `each` with the flows of a range that match a test, in the order in which they were stored. Returns a
    /// note about what is left out.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn each_flow(
        &self,
        test: &FlowTest,
        span: TimeRange,
        each: &mut dyn FnMut(&StoredFlow<'_>),
    ) -> Result<Option<String>, StoreError>;

    /// Calls `each` with the records of a table in a range that match a test and contain a text, in the order in which they
    /// were stored. Returns a note about what is left out.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn each_record(
        &self,
        table: &str,
        test: &FlowTest,
        text: &str,
        span: TimeRange,
        each: &mut dyn FnMut(&StoredRecord<'_>),
    ) -> Result<Option<String>, StoreError>;

    /// Passes the rows of a query for flows to `each`, in order, until it returns false, and returns the rest of the answer. A row is
    /// read when it is passed, so that an answer of many rows needs little memory.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`]; rows may have been passed before it.
    fn pass_flows(
        &self,
        wanted: &FlowsWanted,
        each: &mut dyn FnMut(Flow) -> bool,
    ) -> Result<Flows, StoreError>;

    /// Flows, with their rows.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn flows(&self, wanted: &FlowsWanted) -> Result<Flows, StoreError> {
        let (rows, rest) = gathered(|each| self.pass_flows(wanted, each))?;
        Ok(Flows { rows, ..rest })
    }

    /// A flow and its records; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn flow(&self, id: &str) -> Result<Option<FlowDetail>, StoreError>;

    /// Flows that match a test, compared with all flows.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn trial(&self, test: &FlowTest, span: TimeRange) -> Result<FilterTry, StoreError>;

    /// Passes the rows of a query for records to `each`, as [`Store::pass_flows`] does.
    ///
    /// # Errors
    ///
    /// As [`Store::pass_flows`].
    fn pass_records(
        &self,
        wanted: &RecordsWanted,
        each: &mut dyn FnMut(RecordRow) -> bool,
    ) -> Result<Records, StoreError>;

    /// Records, with their rows.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn records(&self, wanted: &RecordsWanted) -> Result<Records, StoreError> {
        let (rows, rest) = gathered(|each| self.pass_records(wanted, each))?;
        Ok(Records { rows, ..rest })
    }

    /// Number of stored records of each table.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn record_counts(&self) -> Result<Vec<(String, u64)>, StoreError>;

    /// Events, the latest first, without those that a mute hides.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn events(&self, span: TimeRange, limit: usize) -> Result<Events, StoreError>;

    /// Events that a mute hides, the latest first.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn muted_events(&self, span: TimeRange, limit: usize) -> Result<Events, StoreError>;

    /// Number of stored events that each mute hides, by its number.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn hidden(&self) -> Result<HashMap<u64, u64>, StoreError>;

    /// State of the store.
    ///
    /// # Errors
    ///
    /// As [`Store::extent`].
    fn state(&self) -> Result<StoreState, StoreError>;
}

/// The ranking of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RankBy {
    /// Packets or bytes.
    Unit(Unit),
    /// Flows.
    Flows,
}

impl RankBy {
    /// Parses a ranking.
    ///
    /// # Errors
    ///
    /// The known names.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        Ok(match text {
            "bytes" => RankBy::Unit(Unit::Bytes),
            "packets" => RankBy::Unit(Unit::Packets),
            "flows" => RankBy::Flows,
            _ => return Err("`bytes`, `packets` or `flows`"),
        })
    }
}
