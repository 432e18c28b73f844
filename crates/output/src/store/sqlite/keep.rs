//! How much is kept, and what goes first.

use super::schema::{self, MAIN};
use super::tiers::{LISTS, SERIES, Tier};
use super::writer::remove;
use crate::store::StoreError;
use std::path::Path;

const DAY: u64 = 24 * 3_600_000_000_000;
/// A limit is kept by dropping whole partitions, so one must be a small part of it.
const PARTS: u64 = 20;
/// What a partition comes to at least: a file for each minute helps nobody.
const MIN_SIZE: u64 = 4 << 20;

/// How much is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Keep {
    /// Nanoseconds that flows and records are kept.
    pub age: u64,
    /// Bytes that the store may take; when it has more, flows and records are dropped.
    pub bytes: u64,
    /// Bytes that stay free on the disk; when there are fewer, flows and records are dropped.
    pub free: u64,
    /// Nanoseconds that each tier of [`SERIES`] keeps its cells.
    pub series: [u64; SERIES.len()],
    /// Nanoseconds that each tier of [`LISTS`] keeps its cells.
    pub lists: [u64; LISTS.len()],
}

impl Default for Keep {
    fn default() -> Self {
        let (series, lists) = (SERIES.map(|tier| tier.keep), LISTS.map(|tier| tier.keep));
        Self { age: 30 * DAY, bytes: 10 << 30, free: 1 << 30, series, lists }
    }
}

impl Keep {
    /// Each limit with the name under which a store remembers it, for those who only read it.
    pub(super) fn limits(&mut self) -> impl Iterator<Item = (String, &mut u64)> {
        let own = [("age", &mut self.age), ("bytes", &mut self.bytes), ("free", &mut self.free)];
        let own = own.into_iter().map(|(name, limit)| (format!("keep {name}"), limit));
        let named = |kind: &'static str| move |tier: &Tier| format!("keep {kind} {}", tier.name);
        let series = SERIES.iter().map(named("series")).zip(&mut self.series);
        let lists = LISTS.iter().map(named("lists")).zip(&mut self.lists);
        own.chain(series).chain(lists)
    }

    /// The oldest time that a tier keeps at a time.
    pub(super) fn before(keep: &[u64], tier: usize, now: u64) -> u64 {
        now.saturating_sub(keep.get(tier).copied().unwrap_or(u64::MAX))
    }

    /// Whether a partition that was begun then, and is so large, takes more rows.
    pub fn has_room(&self, begun: u64, now: u64, size: u64) -> bool {
        size < (self.bytes / PARTS).max(MIN_SIZE) && now.saturating_sub(begun) < (self.age / PARTS).min(DAY)
    }

    /// Drops the partitions that are too old, then the oldest while there is too much; each in words.
    pub fn drop_partitions(
        &self,
        folder: &Path,
        current: Option<&Path>,
        now: u64,
    ) -> Result<Vec<String>, StoreError> {
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
            } else if sizes > self.bytes {
                "size limit"
            } else if free(folder) < self.free {
                "free space limit"
            } else {
                break;
            };
            remove(path).map_err(|error| StoreError::File { path: path.clone(), error })?;
            sizes = sizes.saturating_sub(size);
            dropped.push(format!("{} dropped: {why}", path.display()));
        }
        Ok(dropped)
    }
}

/// Bytes that are free on the disk of a folder; as many as there can be where it does not say.
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
    fn the_oldest_go_first_and_the_last_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let day = 86_400;
        for at in 0..5 {
            partition(folder.path(), at * day, 1000);
        }
        let keep = Keep { age: 2 * DAY, bytes: 1 << 30, free: 0, ..Keep::default() };
        let dropped = keep.drop_partitions(folder.path(), None, 4 * DAY).unwrap();
        assert_eq!(dropped.len(), 1, "{dropped:?}");
        let keep = Keep { bytes: 2500, ..keep };
        let dropped = keep.drop_partitions(folder.path(), None, 4 * DAY).unwrap();
        assert_eq!(dropped.len(), 2, "{dropped:?}");
        let keep = Keep { bytes: 0, ..keep };
        keep.drop_partitions(folder.path(), None, 4 * DAY).unwrap();
        assert_eq!(schema::partitions(folder.path()).len(), 1);
    }
}
