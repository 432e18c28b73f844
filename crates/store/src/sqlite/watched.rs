//! Watched time, stored as runs with a start and a stop. A missing cell within a run means silence, whose value is zero;
//! outside of the runs nothing is known. A run takes one row whatever its length, so that silence takes no space.

use super::connection::{self, describe};
use super::counter_id;
use crate::StoreError;
use crate::tiers::{Cell, SERIES};
use rusqlite::{Connection, Transaction, params};
use std::path::Path;

/// The first version of the database of series with runs.
pub const SINCE: i64 = 4;
/// Maximum number of runs that a query reads; the gaps between further runs count as watched.
const MAX_RUNS: usize = 100_000;

/// Runs in time order, with a gap between each two.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Watched(Vec<(u64, u64)>);

impl Watched {
    /// Adds a run, and joins it with the runs that it touches.
    pub fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let first = self.0.partition_point(|(_, end)| *end < from);
        let last = self.0.partition_point(|(start, _)| *start <= to);
        let joined = self.0.get(first..last).unwrap_or_default();
        let from = joined.first().map_or(from, |(start, _)| from.min(*start));
        let to = joined.last().map_or(to, |(_, end)| to.max(*end));
        self.0.splice(first..last, [(from, to)]);
    }

    /// Removes all runs.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Removes what is before `from` and after `to`.
    pub fn cut(&mut self, from: u64, to: u64) {
        for run in &mut self.0 {
            *run = (run.0.max(from), run.1.min(to));
        }
        self.0.retain(|(from, to)| from < to);
    }

    /// Begin of the first run and end of the last.
    pub fn extent(&self) -> Option<(u64, u64)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    /// Watched nanoseconds of a time range.
    pub fn within(&self, from: u64, to: u64) -> u64 {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let runs = self.0.iter().skip(first).take_while(|(start, _)| *start < to);
        runs.map(|(start, end)| end.min(&to) - start.max(&from)).sum()
    }

    /// Reads the runs that overlap a time range.
    pub fn read(of: &Connection, path: &Path, from: u64, to: u64) -> Result<Self, StoreError> {
        let describe = describe(path);
        let mut query = of
            .prepare_cached("SELECT start, stop FROM watched WHERE stop > ?1 AND start < ?2 ORDER BY start")
            .map_err(describe)?;
        let bound = |time: u64| time.min(i64::MAX as u64) as i64;
        let rows = query
            .query_map([bound(from), bound(to)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
            .map_err(describe)?;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for row in rows {
            let (start, end) = row.map_err(describe)?;
            let run = (start as u64, end as u64);
            let is_full = runs.len() >= MAX_RUNS;
            match runs.last_mut().filter(|_| is_full) {
                Some(last) => last.1 = run.1,
                None => runs.push(run),
            }
        }
        Ok(Self(runs))
    }

    /// Adds the runs to those of the database.
    pub fn write(&self, to: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut touching =
            to.prepare_cached("DELETE FROM watched WHERE start <= ?2 AND stop >= ?1 RETURNING start, stop")?;
        let mut add = to.prepare_cached("INSERT INTO watched VALUES (?1, ?2)")?;
        for (from, until) in &self.0 {
            let (mut start, mut stop) = (*from as i64, (*until).min(i64::MAX as u64) as i64);
            let mut rows = touching.query([start, stop])?;
            while let Some(row) = rows.next()? {
                (start, stop) = (start.min(row.get(0)?), stop.max(row.get(1)?));
            }
            add.execute([start, stop])?;
        }
        Ok(())
    }
}

/// Removes the runs that ended before `before`: no cell of that time is stored.
pub fn sweep(of: &Transaction<'_>, before: u64) -> rusqlite::Result<()> {
    of.execute("DELETE FROM watched WHERE stop < ?1", [before as i64])?;
    Ok(())
}

/// The time from which a tier of a table (`points`, `readings`; `rows` for flows and records, tier 0) is complete; 0 if
/// nothing was removed.
pub fn since(of: &Connection, path: &Path, table: &str, tier: usize) -> Result<u64, StoreError> {
    super::connection::number(of, path, &since_name(table, tier))
}

/// The time from which each tier of a table is complete; see [`since`].
pub fn since_all<const N: usize>(of: &Connection, path: &Path, table: &str) -> Result<[u64; N], StoreError> {
    let mut all = [0; N];
    for (tier, time) in all.iter_mut().enumerate() {
        *time = since(of, path, table, tier)?;
    }
    Ok(all)
}

/// Records that the cells of a tier that begin before `before` are removed.
pub fn drop_before(
    of: &Connection,
    table: &str,
    tier: usize,
    cell: Cell,
    before: u64,
) -> rusqlite::Result<()> {
    // The last removed cell may end after `before`.
    let whole = match (cell, before.checked_sub(1)) {
        (Cell::Interval, _) | (_, None) => before,
        (cell, Some(last)) => cell.of(last, last).1,
    };
    of.prepare_cached(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
    )?
    .execute(params![since_name(table, tier), whole.min(i64::MAX as u64) as i64])?;
    Ok(())
}

fn since_name(table: &str, tier: usize) -> String {
    format!("since {table} {tier}")
}

/// Whether the store has runs. A store of an earlier version that is opened for reading has none.
pub fn are_there(of: &Connection, path: &Path) -> Result<bool, StoreError> {
    connection::has(of, path, SINCE)
}

/// Creates the runs of a store of an earlier version, which has a cell for each interval. A cell that is longer than an
/// interval began with a silence, and its packets are in its last interval. Whether the silence was watched is unknown.
pub fn migrate(to: &Transaction<'_>) -> rusqlite::Result<()> {
    to.execute_batch("CREATE TABLE watched (start INTEGER PRIMARY KEY, stop INTEGER NOT NULL) STRICT")?;
    let number = |name: &str| {
        let text = "SELECT ifnull((SELECT value FROM meta WHERE name = ?1), 0)";
        to.query_row(text, [name], |row| row.get::<_, i64>(0))
    };
    let interval = number("interval")?;
    if interval <= 0 {
        return Ok(());
    }
    let longest = interval + interval / 2;
    let is_stretched = 0 < to.execute(
        "UPDATE OR IGNORE points SET time = time + CAST(seconds * 1e9 AS INTEGER) - ?1, seconds = ?1 / 1e9
         WHERE tier = 0 AND seconds * 1e9 > ?2",
        [interval, longest],
    )?;
    to.execute(
        "UPDATE OR IGNORE readings SET time = until - ?1 WHERE tier = 0 AND until - time > ?2",
        [interval, longest],
    )?;
    let mut watched = Watched::default();
    // A coarser cell counts as watched only where finer cells are no longer stored.
    let mut finer_from = u64::MAX;
    for (at, tier) in SERIES.iter().enumerate() {
        let length = if at == 0 { interval as u64 } else { tier.cell.length() };
        let mut cells = to.prepare(
            "SELECT time, seconds FROM points WHERE tier = ?1 AND time < ?3
             AND series = (SELECT id FROM series WHERE name = ?2) ORDER BY time",
        )?;
        let before = finer_from.min(i64::MAX as u64) as i64;
        let mut rows = cells.query(params![at as i64, counter_id("caught"), before])?;
        let mut first = None;
        while let Some(row) = rows.next()? {
            let (time, seconds): (i64, f64) = (row.get(0)?, row.get(1)?);
            let (from, long) = (time as u64, (seconds * 1e9).round() as u64);
            first.get_or_insert(from);
            watched.add(from, (from + long.min(length)).min(finer_from.max(from)));
        }
        if let Some(first) = first {
            if at == 0 && is_stretched {
                rebuild(to, first)?;
            }
            finer_from = finer_from.min(first);
            // Cells before the first one were removed, or never existed.
            for table in ["points", "readings"] {
                if at < crate::tiers::LISTS.len() && (table == "points" || at == 0) {
                    drop_before(to, table, at, tier.cell, first)?;
                }
            }
        }
    }
    for (at, tier) in crate::tiers::LISTS.iter().enumerate().skip(1) {
        let first: Option<i64> =
            to.query_row("SELECT min(time) FROM readings WHERE tier = ?1", [at as i64], |row| row.get(0))?;
        if let Some(first) = first {
            drop_before(to, "readings", at, tier.cell, first as u64)?;
        }
    }
    watched.write(to)
}

/// Recomputes the coarser cells of series from intervals, beginning with the first cell that starts at or after `first`.
/// Earlier versions added an interval to the cell in which the silence before it began.
fn rebuild(to: &Transaction<'_>, first: u64) -> rusqlite::Result<()> {
    for (at, tier) in SERIES.iter().enumerate().skip(1) {
        let length = tier.cell.length() as i64;
        let from = first.next_multiple_of(length.unsigned_abs()) as i64;
        to.execute("DELETE FROM points WHERE tier = ?1 AND time >= ?2", [at as i64, from])?;
        to.execute(
            "INSERT INTO points SELECT ?1, series, time - time % ?3, sum(seconds), sum(sum),
             min(ifnull(least, sum / seconds)), max(ifnull(most, sum / seconds))
             FROM points WHERE tier = 0 AND time >= ?2 GROUP BY series, time - time % ?3",
            [at as i64, from, length],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_touch_are_one() {
        let mut watched = Watched::default();
        for (from, to) in [(10, 20), (40, 50), (20, 30), (60, 70), (5, 5)] {
            watched.add(from, to);
        }
        assert_eq!(watched.0, [(10, 30), (40, 50), (60, 70)]);
        assert_eq!(watched.within(0, 100), 40);
        assert_eq!((watched.within(15, 45), watched.within(30, 40), watched.within(29, 29)), (20, 0, 0));
        watched.add(25, 65);
        assert_eq!(watched.0, [(10, 70)]);
        watched.add(0, 100);
        assert_eq!(watched.0, [(0, 100)]);
    }
}
