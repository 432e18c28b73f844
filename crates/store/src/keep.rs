//! Limits of the store.

use crate::tiers::{LISTS, SERIES, Tier};

const DAY: u64 = 24 * 3_600_000_000_000;

/// Limits of the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Keep {
    /// Nanoseconds for which flows and records are kept.
    pub age: u64,
    /// Maximum size of the store in bytes; beyond it, flows and records are dropped.
    pub bytes: u64,
    /// Bytes to leave free on the disk; below that, flows and records are dropped.
    pub free: u64,
    /// Nanoseconds for which each tier of [`SERIES`] keeps its cells.
    pub series: [u64; SERIES.len()],
    /// Nanoseconds for which each tier of [`LISTS`] keeps its cells.
    pub lists: [u64; LISTS.len()],
}

impl Default for Keep {
    fn default() -> Self {
        let (series, lists) = (SERIES.map(|tier| tier.keep), LISTS.map(|tier| tier.keep));
        Self { age: 30 * DAY, bytes: 10 << 30, free: 1 << 30, series, lists }
    }
}

impl Keep {
    /// Each limit with its name in the store, for readers.
    pub(crate) fn limits(&mut self) -> impl Iterator<Item = (String, &mut u64)> {
        let own = [("age", &mut self.age), ("bytes", &mut self.bytes), ("free", &mut self.free)];
        let own = own.into_iter().map(|(name, limit)| (format!("keep {name}"), limit));
        let named = |kind: &'static str| move |tier: &Tier| format!("keep {kind} {}", tier.name);
        let series = SERIES.iter().map(named("series")).zip(&mut self.series);
        let lists = LISTS.iter().map(named("lists")).zip(&mut self.lists);
        own.chain(series).chain(lists)
    }
}
