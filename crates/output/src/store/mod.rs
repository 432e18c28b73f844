//! What is kept: series, top lists, distinct counts, events, flows and records, in one folder beside the program.
//!
//! [`Store`] is what is asked of it. SQLite databases answer it, and a distributed engine can be the
//! second to answer. What is written goes the way of every [`crate::Output`].
//!
//! Everything is kept in tiers. An interval is added to one cell of each tier as soon as it is over, because adding is
//! all that tiers need (`Reading::merge` for lists, sums, least and most for series): there is nothing to catch up after
//! a crash, and a clock that leaps only writes into other cells.

pub mod label;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod payload;
pub mod query;
pub mod sqlite;

use crate::zone::Zone;
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use weir_api::Unit;
use weir_api::web::{
    Band, Distincts, Events, FilterTry, FlowDetail, Flows, Lists, News, Records, SeriesData, SeriesInfo,
    StoreState, TopList,
};
use weir_filter::FlowTest;

/// Why a store does not answer, or cannot be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A newer version of the program has written it.
    #[error(
        "{path}: store version {found} is newer than this program supports ({known}): a newer Weir can read it"
    )]
    Newer {
        /// Its database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The last that is known.
        known: i64,
    },
    /// There is nothing there.
    #[error("{0}: no store; create one with `weir -i INTERFACE -o DIR --log store`")]
    NotThere(PathBuf),
    /// There is none of that name.
    #[error("{0}")]
    Unknown(String),
    /// The database says no.
    #[error("{path}: {error}")]
    Database {
        /// Its file.
        path: PathBuf,
        /// What it says.
        error: rusqlite::Error,
    },
    /// A file says no.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
}

/// A stretch of time in nanoseconds since the epoch; what is left out is all that is kept.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TimeRange {
    /// Its beginning.
    pub from: Option<u64>,
    /// Its end, not included.
    pub to: Option<u64>,
}

/// Which flows.
#[derive(Clone, Debug)]
pub struct FlowsWanted {
    /// What holds for them.
    pub test: FlowTest,
    /// When they were.
    pub span: TimeRange,
    /// What they are ordered by.
    pub order: FlowOrder,
    /// The greatest first.
    pub descending: bool,
    /// Most rows of the answer.
    pub limit: usize,
    /// Rows before them.
    pub offset: usize,
}

/// What flows are ordered by.
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
    /// Every one, with its name.
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

    /// What a name says, and whether it has a `-` before it: the greatest first.
    ///
    /// # Errors
    /// The names there are.
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

/// Which records.
#[derive(Clone, Debug)]
pub struct RecordsWanted {
    /// The table.
    pub table: String,
    /// What holds for their flows.
    pub test: FlowTest,
    /// What stands in one of their values; "" for anything.
    pub text: String,
    /// Whether values of fields that hold payload are shown and searched.
    pub payload: bool,
    /// When they were.
    pub span: TimeRange,
    /// Most rows of the answer.
    pub limit: usize,
    /// Rows before them.
    pub offset: usize,
}

/// What flows are added up by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum GroupBy {
    Source,
    Destination,
    Pair,
    /// Who was asked, at which port, and who asked.
    Talker,
    Flow,
    /// The port of who was asked, with the protocol.
    Service,
    Protocol,
    Vlan,
    State,
    /// The protocol that was found.
    Application,
    /// The name that was asked for.
    Name,
}

/// What is asked of a store. Each answer is complete or says what it leaves out.
pub trait Store: Send + Sync {
    /// The beginning and the end of what is kept, in nanoseconds since the epoch.
    ///
    /// # Errors
    /// As all of these: when the engine says no.
    fn extent(&self) -> Result<Option<(u64, u64)>, StoreError>;

    /// Every series.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn series(&self) -> Result<Vec<SeriesInfo>, StoreError>;

    /// About so many points of each of some series; unknown ones are left out.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn points(&self, ids: &[String], span: TimeRange, points: usize) -> Result<SeriesData, StoreError>;

    /// The heaviest `top` of many series, the sum of the others, and what each of them comes to. Of thousands there are
    /// fewer points than were asked for.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn heaviest(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        top: usize,
    ) -> Result<SeriesData, StoreError>;

    /// Least, median and most that the same hours had in so many weeks before, by the clocks of a zone.
    ///
    /// # Errors
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
    /// As [`Store::extent`].
    fn lists(&self) -> Result<Lists, StoreError>;

    /// The rows of a list, added up over the span; ranked by its own unit, where no other is said.
    ///
    /// # Errors
    /// As [`Store::extent`]; when there is no such list.
    fn top(
        &self,
        list: &str,
        span: TimeRange,
        by: Option<RankBy>,
        limit: usize,
    ) -> Result<TopList, StoreError> {
        self.top_over_time(list, span, by, limit, 0)
    }

    /// The same, and of each row what it had in each of so many parts of the span: about that, where what is kept of the
    /// span are cells that are longer.
    ///
    /// # Errors
    /// As [`Store::top`].
    fn top_over_time(
        &self,
        list: &str,
        span: TimeRange,
        by: Option<RankBy>,
        limit: usize,
        parts: usize,
    ) -> Result<TopList, StoreError>;

    /// The same of flows, each of which was kept.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn group(
        &self,
        by: GroupBy,
        test: &FlowTest,
        span: TimeRange,
        rank: RankBy,
        limit: usize,
    ) -> Result<TopList, StoreError>;

    /// Distinct counts over the span.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn distinct(&self, span: TimeRange) -> Result<Distincts, StoreError>;

    /// What was seen in the span and not in the seven days before.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn news(&self, span: TimeRange) -> Result<News, StoreError>;

    /// Flows.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn flows(&self, wanted: &FlowsWanted) -> Result<Flows, StoreError>;

    /// A flow and what was said in it; `None` where there is none of that name.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn flow(&self, id: &str) -> Result<Option<FlowDetail>, StoreError>;

    /// Flows for which a test holds beside all.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn trial(&self, test: &FlowTest, span: TimeRange) -> Result<FilterTry, StoreError>;

    /// Records, the latest first.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn records(&self, wanted: &RecordsWanted) -> Result<Records, StoreError>;

    /// How many records of each table are kept.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn record_counts(&self) -> Result<Vec<(String, u64)>, StoreError>;

    /// What has happened to the sensor, the latest first.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn events(&self, span: TimeRange, limit: usize) -> Result<Events, StoreError>;

    /// How it is.
    ///
    /// # Errors
    /// As [`Store::extent`].
    fn state(&self) -> Result<StoreState, StoreError>;
}

/// What a list is ranked by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RankBy {
    /// Packets or bytes.
    Unit(Unit),
    /// Flows.
    Flows,
}

impl RankBy {
    /// What a name says.
    ///
    /// # Errors
    /// The names there are.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        Ok(match text {
            "bytes" => RankBy::Unit(Unit::Bytes),
            "packets" => RankBy::Unit(Unit::Packets),
            "flows" => RankBy::Flows,
            _ => return Err("`bytes`, `packets` or `flows`"),
        })
    }
}
