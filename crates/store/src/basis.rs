//! The time of an answer: a range that is asked for is moved outwards once, to the cells that are stored there.
//!
//! Sums are stored by cells: of an interval for some days, of hours and days after that. A range whose ends are within cells is
//! moved to the ends of these cells, so that every answer over it is of one time. Where only cells are stored that are much
//! longer than the range, but flows still are, the range stays and the answer is computed from flows.

// Times are at most 2^64 - 1 nanoseconds, whatever a capture or a query has: arithmetic on them saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::tiers::{Cell, LISTS, SERIES, Tier};
use crate::{Store, StoreError, TimeRange};
use weir_api::basis::{Basis, Source};
use weir_api::web::{
    Band, Distincts, FilterTry, Findings, Flows, News, Paths, PortSignatures, Records, RuleAlerts,
    SeriesData, TopList,
};

const SECOND: u64 = 1_000_000_000;
/// A range may grow by one part of this number of parts before flows are preferred.
const PARTS: u64 = 20;

/// A range that was moved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moved {
    /// The range that was asked for, in nanoseconds since the epoch.
    pub asked: (u64, u64),
    /// The range to answer.
    pub range: (u64, u64),
    /// Where sums of the range come from: cells or flows.
    pub source: Source,
    /// The bounds that were given.
    given: TimeRange,
}

impl Moved {
    /// The range to answer, for a query of a store.
    pub fn span(&self) -> TimeRange {
        // Without a bound rows count that are beyond the stored intervals, too.
        TimeRange { from: self.given.from.map(|_| self.range.0), to: self.given.to.map(|_| self.range.1) }
    }
}

/// What a store has of a time, as far as it decides to where a range is moved.
pub struct Kept<'a> {
    /// Begin and end of all that is stored.
    pub extent: (u64, u64),
    /// Length of the most recent intervals.
    pub interval: u64,
    /// The time from which each tier of lists is complete.
    pub lists: [u64; LISTS.len()],
    /// The time from which each tier of series is complete.
    pub series: [u64; SERIES.len()],
    /// The time from which flows are stored; `None` if there are none.
    pub flows: Option<u64>,
    /// The stored interval that contains a time: its begin and its end.
    pub interval_of: &'a dyn Fn(u64) -> Result<Option<(u64, u64)>, StoreError>,
}

impl Kept<'_> {
    /// Moves a range.
    ///
    /// # Errors
    ///
    /// Those of `interval_of`.
    pub fn moved(&self, span: TimeRange) -> Result<Moved, StoreError> {
        let (first, last) = self.extent;
        let from = span.from.unwrap_or(first);
        let to = span.to.unwrap_or(last).max(from.saturating_add(1));
        let asked = (from, to);
        let (begin, is_fine_from) = self.cell(from)?;
        let (end, is_fine_to) = self.cell(to.saturating_sub(1))?;
        let range = (begin.0, end.1);
        let length = to.saturating_sub(from);
        let growth = range.1.saturating_sub(range.0).saturating_sub(length);
        let has_flows = self.flows.is_some_and(|since| since <= from);
        if !(is_fine_from && is_fine_to) && has_flows && growth > length / PARTS {
            let whole = (from.saturating_sub(from % SECOND), to.div_ceil(SECOND).saturating_mul(SECOND));
            return Ok(Moved { asked, range: self.within(whole), source: Source::Flows, given: span });
        }
        Ok(Moved { asked, range: self.within(range), source: Source::Cells, given: span })
    }

    /// The part of a range that is stored; the range itself if nothing of it is.
    fn within(&self, (from, to): (u64, u64)) -> (u64, u64) {
        let (first, last) = self.extent;
        let (begin, end) = (from.max(first), to.min(last));
        if begin < end { (begin, end) } else { (from, to) }
    }

    /// The cell of a time that is a whole cell of lists and of series, and whether it is an interval.
    fn cell(&self, time: u64) -> Result<((u64, u64), bool), StoreError> {
        let of_lists = finest(&LISTS, &self.lists, time);
        let of_series = finest(&SERIES, &self.series, time);
        let is_fine = of_lists == Cell::Interval && of_series == Cell::Interval;
        let mut cell = (time, time.saturating_add(1));
        for one in [of_lists, of_series] {
            let (begin, end) = match one {
                Cell::Interval => self.interval(time)?,
                one => one.of(time, time),
            };
            cell = (cell.0.min(begin), cell.1.max(end));
        }
        Ok((cell, is_fine))
    }

    /// The interval of a time. Intervals begin at multiples of their length; those from before a change of the length are known by
    /// what is stored of them.
    fn interval(&self, time: u64) -> Result<(u64, u64), StoreError> {
        let (begin, end) = Cell::Fixed(self.interval.max(1)).of(time, time);
        Ok(match (self.interval_of)(time)? {
            Some((from, to)) => (begin.min(from), end.max(to)),
            None => (begin, end),
        })
    }
}

/// The cell of the finest tier that is complete at a time.
fn finest<const N: usize>(tiers: &[Tier; N], since: &[u64; N], time: u64) -> Cell {
    let complete = tiers.iter().zip(since).find(|(_, since)| **since <= time);
    complete.map(|(tier, _)| tier).or(tiers.last()).map_or(Cell::Interval, |tier| tier.cell)
}

/// An answer with numbers over a time.
pub trait Numbers {
    /// Its basis.
    fn basis(&mut self) -> &mut Basis;
}

macro_rules! numbers {
    ($($of:ty),*) => { $(impl Numbers for $of {
        fn basis(&mut self) -> &mut Basis {
            &mut self.basis
        }
    })* };
}

numbers!(
    Band,
    Distincts,
    FilterTry,
    Findings,
    Flows,
    News,
    Paths,
    PortSignatures,
    Records,
    RuleAlerts,
    SeriesData,
    TopList
);

/// Asks for the answer over a range, moved to the cells that are stored there, and completes its basis. An answer that has only
/// longer cells for the range has set its own range.
///
/// # Errors
///
/// Those of the store and of `ask`.
pub fn over<T: Numbers, E: From<StoreError>>(
    store: &dyn Store,
    span: TimeRange,
    ask: impl FnOnce(TimeRange) -> Result<T, E>,
) -> Result<T, E> {
    let moved = store.moved(span)?;
    let mut answer = ask(moved.span())?;
    complete(store, &moved, answer.basis())?;
    Ok(answer)
}

/// Completes the basis of an answer over a moved range.
///
/// # Errors
///
/// Those of the store.
pub fn complete(store: &dyn Store, moved: &Moved, basis: &mut Basis) -> Result<(), StoreError> {
    let seconds = |time: u64| time as f64 / SECOND as f64;
    let (from, to) = moved.range;
    basis.asked = [seconds(moved.asked.0), seconds(moved.asked.1)];
    let mut range = (from, to);
    if basis.range != [0.0, 0.0] {
        // Times of a present date are exact to a quarter of a microsecond as numbers of seconds.
        let own = basis.range.map(|time| ((time * 1e6).round() as u64).saturating_mul(1000));
        range = (range.0.min(own[0]), range.1.max(own[1]));
    }
    basis.range = [seconds(range.0), seconds(range.1)];
    basis.watched = store.watched_within(&[range])?.first().copied().unwrap_or(0.0);
    Ok(())
}
