//! Top lists, distinct counts and tables: their storage, and their sums over time.

use super::connection::describe;
use super::earlier_lists;
use crate::StoreError;
use crate::listed::is_list;
use crate::tiers::{LISTS, Tier};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use weir_api::Reading;
use zstd::bulk::Compressor;

/// Compression level of zstd: an interval's lists are compressed several times.
const LEVEL: i32 = 3;
/// Maximum decompressed size of a list in bytes.
const MAX: usize = 64 << 20;

/// The kinds of readings that are stored.
const TOP: &str = "top";
const DISTINCT: &str = "distinct";
const TABLE: &str = "table";

/// The kind of a reading, if it is stored.
pub fn kind(reading: &Reading) -> Option<&'static str> {
    match reading {
        reading if !is_list(reading) => None,
        Reading::Top(_) => Some(TOP),
        Reading::Distinct(_) => Some(DISTINCT),
        Reading::Table(_) => Some(TABLE),
        _ => None,
    }
}

/// Whether a reading is stored: its kind is stored, and it is not empty.
pub fn is_kept(reading: &Reading) -> bool {
    match reading {
        Reading::Top(top) => !top.rows.is_empty() || top.inserts > 0 || top.absent > 0,
        Reading::Table(table) if table.rows.is_empty() && table.absent == 0 => false,
        reading => kind(reading).is_some(),
    }
}

fn pack(compressor: &mut Compressor<'_>, reading: &Reading) -> io::Result<Vec<u8>> {
    compressor.compress(&reading.encode())
}

fn unpack(kind: &str, body: &[u8]) -> io::Result<Reading> {
    let body = zstd::bulk::decompress(body, MAX)?;
    let reading = match kind {
        TOP if earlier_lists::is_earlier(&body) => earlier_lists::top(&body)?,
        DISTINCT if earlier_lists::is_earlier(&body) => earlier_lists::distinct(&body)?,
        _ => Reading::decode(&body).map_err(io::Error::other)?,
    };
    if self::kind(&reading) != Some(kind) {
        return Err(io::Error::other(format!("a reading of another kind than {kind:?}")));
    }
    // Tiers have different numbers of rows; a sum has room for the maximum.
    Ok(match reading {
        Reading::Top(top) => Reading::Top(top.within(max_rows())),
        Reading::Table(table) => Reading::Table(table.within(max_rows())),
        other => other,
    })
}

/// Reduces a list to the rows that a tier keeps.
fn cut(reading: Reading, tier: &Tier) -> Reading {
    match reading {
        Reading::Top(top) => Reading::Top(top.within(tier.rows)),
        Reading::Table(table) => Reading::Table(table.within(tier.rows)),
        other => other,
    }
}

/// Approximate memory of a reading in bytes.
pub fn memory(reading: &Reading) -> usize {
    reading.memory()
}

/// The open cells: adding to them needs no reading from the database.
#[derive(Default)]
pub struct Open {
    cells: HashMap<(usize, String), Cell>,
    /// Reused for all cells: to set one up takes longer than to compress a short list.
    compressor: Option<Compressor<'static>>,
}

/// A cell of a tier.
struct Cell {
    from: u64,
    until: u64,
    kind: &'static str,
    sum: Reading,
    /// Whether it has changes that the database lacks.
    is_changed: bool,
}

impl Open {
    /// Removes all cells: they may not have been written.
    pub fn clear(&mut self) {
        self.cells.clear();
    }

    /// Adds the readings of intervals to one cell of each tier. Cells that have ended are written, the others with
    /// [`Open::write`].
    pub fn add<'r>(
        &mut self,
        to: &Transaction<'_>,
        path: &Path,
        readings: impl Iterator<Item = (&'r str, (u64, u64), &'r Reading)>,
    ) -> Result<(), StoreError> {
        // Coarser cells are long lists: the sum of the intervals of an hour is added to them once.
        let mut sums: HashMap<&str, ((u64, u64), Reading)> = HashMap::new();
        let hour = |start: u64| LISTS.get(1).map(|tier| tier.cell.of(start, start));
        for (name, span, reading) in readings {
            self.add_to(to, path, name, span, reading, 0..1)?;
            if let Some((sum_span, sum)) = sums.get_mut(name)
                && hour(sum_span.0) == hour(span.0)
                && is_alike(sum, reading)
            {
                sum_span.1 = sum_span.1.max(span.1);
                sum.merge(reading);
            } else if let Some((span, sum)) = sums.insert(name, (span, reading.clone())) {
                self.add_to(to, path, name, span, &sum, 1..LISTS.len())?;
            }
        }
        for (name, (span, sum)) in sums {
            self.add_to(to, path, name, span, &sum, 1..LISTS.len())?;
        }
        Ok(())
    }

    /// Adds a reading to one cell of each of some tiers.
    fn add_to(
        &mut self,
        to: &Transaction<'_>,
        path: &Path,
        name: &str,
        (start, end): (u64, u64),
        reading: &Reading,
        tiers: Range<usize>,
    ) -> Result<(), StoreError> {
        let Some(kind) = kind(reading) else { return Ok(()) };
        for (at, tier) in LISTS.iter().enumerate().take(tiers.end).skip(tiers.start) {
            let (from, until) = tier.cell.of(start, end);
            let key = (at, name.to_owned());
            let mut cell = match self.cells.remove(&key) {
                Some(cell) if cell.from == from && cell.kind == kind => cell,
                other => {
                    if let Some(over) = other {
                        over.write(to, path, at, name, &mut self.compressor)?;
                    }
                    let known =
                        one(to, path, at, name, from)?.filter(|known| self::kind(known) == Some(kind));
                    let is_changed = known.is_none();
                    let sum = known.unwrap_or_else(|| reading.clone());
                    let cell = Cell { from, until, kind, sum, is_changed };
                    if is_changed {
                        // The cell contains the reading already.
                        self.cells.insert(key, cell.cut(tier));
                        continue;
                    }
                    cell
                }
            };
            // A list with another key now begins anew.
            if is_alike(&cell.sum, reading) {
                cell.sum.merge(reading);
            } else {
                cell.sum = reading.clone();
            }
            cell.until = cell.until.max(until);
            cell.is_changed = true;
            self.cells.insert(key, cell.cut(tier));
        }
        Ok(())
    }

    /// Writes the cells that have changed.
    pub fn write(&mut self, to: &Transaction<'_>, path: &Path) -> Result<(), StoreError> {
        for ((at, name), cell) in &mut self.cells {
            cell.write(to, path, *at, name, &mut self.compressor)?;
            cell.is_changed = false;
        }
        // Nothing is added to an interval again.
        self.cells.retain(|(at, _), _| *at > 0);
        Ok(())
    }
}

impl Cell {
    fn cut(mut self, tier: &Tier) -> Self {
        self.sum = cut(self.sum, tier);
        self
    }

    fn write(
        &self,
        to: &Transaction<'_>,
        path: &Path,
        tier: usize,
        name: &str,
        compressor: &mut Option<Compressor<'static>>,
    ) -> Result<(), StoreError> {
        if !self.is_changed {
            return Ok(());
        }
        let file = |error| StoreError::File { path: path.to_owned(), error };
        let compressor = match compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(LEVEL).map_err(file)?),
        };
        let body = pack(compressor, &self.sum).map_err(file)?;
        let (from, until) = (self.from as i64, self.until as i64);
        to.prepare_cached(
            "INSERT INTO readings VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (tier, name, time)
             DO UPDATE SET until = max(until, ?4), kind = ?5, body = ?6",
        )
        .and_then(|mut add| add.execute(params![tier as i64, name, from, until, self.kind, body]))
        .map_err(describe(path))?;
        Ok(())
    }
}

fn is_alike(a: &Reading, b: &Reading) -> bool {
    kind(a).is_some() && a.is_like(b)
}

fn one(
    from: &Connection,
    path: &Path,
    tier: usize,
    name: &str,
    time: u64,
) -> Result<Option<Reading>, StoreError> {
    let describe = describe(path);
    let mut query = from
        .prepare_cached("SELECT kind, body FROM readings WHERE tier = ?1 AND name = ?2 AND time = ?3")
        .map_err(describe)?;
    let row: Option<(String, Vec<u8>)> = query
        .query_row(params![tier as i64, name, time as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(describe)?;
    // An unreadable cell is begun anew.
    Ok(row.and_then(|(kind, body)| unpack(&kind, &body).ok()))
}

/// A sum of readings, and a note about its time range.
#[derive(Debug, Default)]
pub struct Sum {
    /// The sum; `None` if no data of the range is stored.
    pub reading: Option<Reading>,
    /// The answered time range: wider than requested where only coarser cells are stored.
    pub span: (u64, u64),
    /// Note about rounding.
    pub partial: Option<String>,
}

impl Sum {
    fn add(&mut self, reading: Reading) {
        match &mut self.reading {
            Some(whole) if is_alike(whole, &reading) => {
                whole.merge(&reading);
            }
            Some(_) => {
                self.partial = Some("the list had another key at an earlier time".to_owned());
                self.reading = Some(reading);
            }
            None => self.reading = Some(reading),
        }
    }
}

/// Adds up the stored data of a list from `from` to `to`, from as few cells as possible. `since` has the time from which
/// each tier is complete.
pub fn sum(
    of: &Connection,
    path: &Path,
    name: &str,
    (from, to): (u64, u64),
    since: &[u64; LISTS.len()],
) -> Result<Sum, StoreError> {
    let mut sum = Sum { span: (from, to), ..Sum::default() };
    let mut pieces = vec![(from, to)];
    for (at, tier) in LISTS.iter().enumerate().rev() {
        let finer_since = at.checked_sub(1).and_then(|finer| since.get(finer)).copied().unwrap_or(0);
        let mut rest = Vec::new();
        for (from, to) in pieces {
            // Where the next finer tier lacks older data, cells of this tier are used whole.
            let split = match finer_since > from {
                true => tier.cell.of(finer_since - 1, finer_since).1,
                false => from,
            };
            let (coarse, fine) = ((from, split.min(to)), (split.max(from), to));
            if coarse.0 < coarse.1 {
                for (begin, end, reading) in cells(of, path, at, name, coarse, true)? {
                    if begin < coarse.0 || end > coarse.1 {
                        sum.span = (sum.span.0.min(begin), sum.span.1.max(end));
                        let text = format!(
                            "the time range is rounded to {}: finer data is no longer stored",
                            tier.name
                        );
                        sum.partial = Some(text);
                    }
                    sum.add(reading);
                }
            }
            if fine.0 >= fine.1 {
                continue;
            }
            let cells = cells(of, path, at, name, fine, at == 0)?;
            let ends = cells.first().zip(cells.last()).map(|(first, last)| (first.0, last.1));
            cells.into_iter().for_each(|(.., reading)| sum.add(reading));
            match ends {
                _ if at == 0 => {}
                Some((begin, end)) => {
                    rest.extend([(fine.0, begin), (end, fine.1)].into_iter().filter(|(from, to)| from < to));
                }
                None => rest.push(fine),
            }
        }
        pieces = rest;
    }
    Ok(sum)
}

fn max_rows() -> usize {
    LISTS.iter().map(|tier| tier.rows).max().unwrap_or(0)
}

/// The cells of a tier within a time range, or with `overlapping` those that overlap it.
pub(super) fn cells(
    of: &Connection,
    path: &Path,
    tier: usize,
    name: &str,
    span: (u64, u64),
    overlapping: bool,
) -> Result<Vec<(u64, u64, Reading)>, StoreError> {
    let mut found = Vec::new();
    let mut each = |from, until, reading| found.push((from, until, reading));
    pass_cells(of, path, tier, name, span, overlapping, &mut each)?;
    Ok(found)
}

/// Passes the cells of [`cells`] to `each`, in the order of time: begin, end and reading.
pub(super) fn pass_cells(
    of: &Connection,
    path: &Path,
    tier: usize,
    name: &str,
    (from, to): (u64, u64),
    overlapping: bool,
    each: &mut dyn FnMut(u64, u64, Reading),
) -> Result<(), StoreError> {
    let describe = describe(path);
    let text = match (overlapping, tier) {
        // An interval belongs to the time of its start.
        (true, 0) => "time >= ?3 AND time < ?4",
        (true, _) => "until > ?3 AND time < ?4",
        (false, _) => "time >= ?3 AND until <= ?4",
    };
    let mut query = of
        .prepare_cached(&format!(
            "SELECT time, until, kind, body FROM readings WHERE tier = ?1 AND name = ?2 AND {text} ORDER BY time"
        ))
        .map_err(describe)?;
    let bound = |time: u64| time.min(i64::MAX as u64) as i64;
    let mut rows = query.query(params![tier as i64, name, bound(from), bound(to)]).map_err(describe)?;
    while let Some(row) = rows.next().map_err(describe)? {
        let read = || -> rusqlite::Result<(i64, i64, String, Vec<u8>)> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        };
        let (time, until, kind, body) = read().map_err(describe)?;
        if let Ok(reading) = unpack(&kind, &body) {
            each(time as u64, until as u64, reading);
        }
    }
    Ok(())
}

/// The names of all lists, with the last reading of each.
pub fn names(of: &Connection, path: &Path) -> Result<Vec<(String, Reading)>, StoreError> {
    let describe = describe(path);
    let last = LISTS.len() as i64 - 1;
    let mut query = of
        .prepare_cached(
            "SELECT name, kind, body, max(time) FROM readings WHERE tier = ?1 GROUP BY name ORDER BY min(rowid)",
        )
        .map_err(describe)?;
    let rows = query
        .query_map([last], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?)))
        .map_err(describe)?;
    let mut found = Vec::new();
    for row in rows {
        let (name, kind, body) = row.map_err(describe)?;
        if let Ok(reading) = unpack(&kind, &body) {
            found.push((name, reading));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_api::{Count, Key, KeyKind, Top, TopRow, Unit};

    fn list(rows: &[(u16, u64)], shed: u64) -> Reading {
        let mut rows: Vec<TopRow> = rows
            .iter()
            .map(|(port, packets)| TopRow {
                key: Key::Port { protocol: 6, port: *port },
                count: Count { packets: *packets, bytes: packets * 100 },
                flows: 1,
                error: packets / 10,
            })
            .collect();
        rows.sort_unstable_by_key(|row| row.key);
        rows.dedup_by_key(|row| row.key);
        let (show, unit) = (10, Unit::Bytes);
        let shed = Count { packets: shed, bytes: shed };
        Reading::Top(Top {
            key: KeyKind::Port,
            show,
            unit,
            capacity: max_rows(),
            rows: rows.into(),
            absent: shed.packets,
            inserts: 7,
            shed,
        })
    }

    proptest! {
        #[test]
        fn a_stored_list_is_read_in_both_forms(rows: Vec<(u16, u32)>, shed: u32) {
            let rows: Vec<(u16, u64)> = rows.into_iter().map(|(port, packets)| (port, packets.into())).collect();
            let list = list(&rows, shed.into());
            let mut compressor = Compressor::new(LEVEL).unwrap();
            let now = pack(&mut compressor, &list).unwrap();
            let earlier = compressor.compress(&earlier_lists::of(&list)).unwrap();
            prop_assert_eq!(&unpack(TOP, &now).unwrap(), &list);
            prop_assert_eq!(&unpack(TOP, &earlier).unwrap(), &list);
            prop_assert!(unpack(DISTINCT, &now).is_err() && unpack(TABLE, &now).is_err());
            prop_assert!(unpack(DISTINCT, &earlier).is_err() && unpack(TABLE, &earlier).is_err());
        }

        #[test]
        fn any_bytes_are_a_reading_or_an_error(bytes: Vec<u8>) {
            let mut compressor = Compressor::new(LEVEL).unwrap();
            let body = compressor.compress(&bytes).unwrap();
            for kind in [TOP, DISTINCT, TABLE, "other"] {
                let _ = unpack(kind, &bytes);
                let _ = unpack(kind, &body);
            }
        }
    }
}
