//! The order in which data beyond the limits is removed.

use super::connection::describe;
use super::schema::{self, MAIN};
use super::watched;
use super::writer::remove;
use crate::tiers::{LISTS, SERIES, Tier};
use crate::{Keep, StoreError};
use rusqlite::Connection;
use std::path::Path;

const DAY: u64 = 24 * 3_600_000_000_000;
/// Number of partitions within the size limit: whole partitions are dropped, so each must be a small part of it.
const PARTS: u64 = 20;
/// Minimum size of a partition in bytes, unless that is more than one part in [`SMALL_PARTS`] of the store: many small
/// files cost more than they save.
const MIN_SIZE: u64 = 4 << 20;
/// Minimum number of partitions of a small store.
const SMALL_PARTS: u64 = 8;
/// Maximum and minimum number of pages in a write-ahead log before they are moved into the database.
const LOG_PAGES: (u64, u64) = (1000, 32);
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Finer tiers first: their data is in coarser ones too.
const THINNED: [(&str, i64); 9] = [
    ("points", 0),
    ("readings", 0),
    ("points", 1),
    ("readings", 1),
    ("points", 2),
    ("readings", 2),
    ("points", 3),
    ("readings", 3),
    ("readings", 4),
];

impl Keep {
    /// The oldest time that a tier keeps.
    pub(super) fn before(keep: &[u64], tier: usize, now: u64) -> u64 {
        now.saturating_sub(keep.get(tier).copied().unwrap_or(u64::MAX))
    }

    /// Size of a partition in bytes.
    fn part(&self) -> u64 {
        (self.bytes / PARTS).max(MIN_SIZE.min(self.bytes / SMALL_PARTS))
    }

    /// Whether a partition of that start time and size takes more rows.
    pub fn has_room(&self, begun: u64, now: u64, size: u64) -> bool {
        size < self.part() && now.saturating_sub(begun) < (self.age / PARTS).min(DAY)
    }

    /// Bytes of rows that are written together: `max`, or less in a small store, whose limit one batch must not
    /// exceed.
    pub fn batch(&self, max: usize) -> usize {
        usize::try_from(self.part() / 4).unwrap_or(max).min(max)
    }

    /// Bytes that may be written before the size is checked again.
    fn reserve(&self) -> u64 {
        (2 * self.part()).min(2 * MIN_SIZE)
    }

    /// Limits the write-ahead log of a database to a part of the store's size.
    pub fn bound_log(&self, connection: &Connection) -> rusqlite::Result<()> {
        let pages = (self.part() / 2 / PAGE).clamp(LOG_PAGES.1, LOG_PAGES.0);
        connection.pragma_update(None, "wal_autocheckpoint", pages as i64)?;
        connection.pragma_update(None, "journal_size_limit", (pages * PAGE) as i64)
    }

    /// Drops the older half of the finest cells, tier by tier, while series and lists take more than half of the
    /// store's size. Returns a description of the dropped cells.
    pub fn thin(&self, folder: &Path, main: &Connection) -> Result<Option<String>, StoreError> {
        let path = folder.join(MAIN);
        let describe = describe(&path);
        let room = self.bytes / 2;
        if schema::size(&path) <= room {
            return Ok(None);
        }
        let number = |pragma: &str| {
            main.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0)).map_err(describe)
        };
        let used = || -> Result<u64, StoreError> {
            Ok((number("page_count")? - number("freelist_count")?).unsigned_abs() * PAGE)
        };
        let mut has_dropped = false;
        for (table, tier) in THINNED {
            while used()? > room {
                let text = format!("SELECT min(time), max(time) FROM {table} WHERE tier = ?1");
                let ends = main.query_row(&text, [tier], |row| Ok((row.get(0)?, row.get(1)?)));
                let (Some(first), Some(last)): (Option<i64>, Option<i64>) = ends.map_err(describe)? else {
                    break;
                };
                if first == last {
                    break;
                }
                let before = first + (last - first) / 2 + 1;
                let text = format!("DELETE FROM {table} WHERE tier = ?1 AND time < ?2");
                main.execute(&text, [tier, before]).map_err(describe)?;
                let tiers: &[Tier] = if table == "points" { &SERIES } else { &LISTS };
                if let Some(cell) = tiers.get(tier as usize).map(|tier| tier.cell) {
                    let before = before.unsigned_abs();
                    watched::drop_before(main, table, tier as usize, cell, before).map_err(describe)?;
                }
                has_dropped = true;
            }
        }
        if !has_dropped {
            return Ok(None);
        }
        // Each row that this returns is a page that was released.
        let mut vacuum = main.prepare("PRAGMA incremental_vacuum").map_err(describe)?;
        let mut pages = vacuum.query([]).map_err(describe)?;
        while pages.next().map_err(describe)?.is_some() {}
        Ok(Some(format!(
            "finest cells of series and lists dropped: size limit of {}",
            weir_output::figures::bytes(self.bytes)
        )))
    }

    /// Drops the partitions that are too old, then the oldest while the store is too large. Returns the end and a
    /// description of each.
    pub fn drop_partitions(
        &self,
        folder: &Path,
        current: Option<&Path>,
        now: u64,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        let partitions = schema::partitions(folder);
        // The end of a partition is the beginning of the next.
        let ends: Vec<u64> = partitions.iter().skip(1).map(|(second, _)| second * 1_000_000_000).collect();
        let mut sizes: u64 = partitions.iter().map(|(_, path)| schema::size(path)).sum();
        sizes += schema::size(&folder.join(MAIN));
        let mut dropped = Vec::new();
        for ((_, path), end) in partitions.iter().zip(ends) {
            if Some(path.as_path()) == current {
                continue;
            }
            let size = schema::size(path);
            let why = if now.saturating_sub(end) > self.age {
                "age limit"
            } else if sizes > self.bytes.saturating_sub(self.reserve()) {
                "size limit"
            } else if free(folder) < self.free {
                "free space limit"
            } else {
                break;
            };
            remove(path).map_err(|error| StoreError::File { path: path.clone(), error })?;
            sizes = sizes.saturating_sub(size);
            dropped.push((end, format!("{} dropped: {why}", path.display())));
        }
        Ok(dropped)
    }
}

/// Free bytes on the disk of a folder; the maximum if unknown.
pub fn free(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(folder: &Path, second: u64, size: usize) {
        std::fs::write(folder.join(format!("rows-{second:012}.db")), vec![0; size]).unwrap();
    }

    #[test]
    fn the_oldest_partitions_are_dropped_first_and_the_last_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let day = 86_400;
        for at in 0..5 {
            partition(folder.path(), at * day, 1000);
        }
        let keep = Keep { age: 2 * DAY, bytes: 1 << 30, free: 0, ..Keep::default() };
        let dropped = keep.drop_partitions(folder.path(), None, 4 * DAY).unwrap();
        assert_eq!(dropped.len(), 1, "{dropped:?}");
        // A part of the limit is reserved for rows written before the next check.
        let keep = Keep { bytes: 3300, ..keep };
        let dropped = keep.drop_partitions(folder.path(), None, 4 * DAY).unwrap();
        assert_eq!(dropped.len(), 2, "{dropped:?}");
        let keep = Keep { bytes: 0, ..keep };
        keep.drop_partitions(folder.path(), None, 4 * DAY).unwrap();
        assert_eq!(schema::partitions(folder.path()).len(), 1);
    }
}
