//! Rows by key for functions over records, in fixed memory: exact while the keys fit. Then a new key displaces the
//! lightest of eight rows. Each row has an upper bound of its undercount, and there is one for keys without a row.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use weir_api::Folded;

/// Rows of which the lightest is displaced.
const CANDIDATES: usize = 8;

/// What a row counts.
pub(super) trait Weighed {
    /// The number by which rows are ranked.
    fn weight(&self) -> u64;
}

impl Weighed for Folded {
    fn weight(&self) -> u64 {
        Folded::weight(self)
    }
}

/// The present rows, and the way to them.
pub(super) struct KeyedRows<V> {
    capacity: usize,
    hasher: FixedState,
    rows: Vec<Row<V>>,
    /// Positions in `rows`, by the hash of their keys.
    index: HashTable<u32>,
    /// Upper bound for a key without a row.
    absent: u64,
}

/// A row.
pub(super) struct Row<V> {
    hash: u64,
    pub key: Box<[u8]>,
    pub value: V,
    /// Upper bound of the undercount of its weight.
    pub error: u64,
}

impl<V: Weighed> KeyedRows<V> {
    /// No rows, at most `capacity`. `seed` keys the hash.
    pub fn new(capacity: usize, seed: u64) -> Self {
        Self {
            capacity,
            hasher: FixedState::with_seed(seed),
            rows: Vec::new(),
            index: HashTable::new(),
            absent: 0,
        }
    }

    /// Maximum number of rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The value of a key, which is a new one if the key has no row.
    pub fn value(&mut self, key: &[u8], new: impl FnOnce() -> V) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        let rows = &self.rows;
        let is_it = |at: &u32| rows.get(*at as usize).is_some_and(|row| *row.key == *key);
        let at = match self.index.find(hash, is_it) {
            Some(at) => *at as usize,
            None => self.insert(Row { hash, key: key.into(), value: new(), error: self.absent }),
        };
        self.rows.get_mut(at).map(|row| &mut row.value)
    }

    fn insert(&mut self, row: Row<V>) -> usize {
        let hash = row.hash;
        let at = if self.rows.len() < self.capacity {
            self.rows.push(row);
            self.rows.len() - 1
        } else {
            self.displace(row)
        };
        let Self { index, rows, .. } = self;
        index.insert_unique(hash, at as u32, |at| rows.get(*at as usize).map_or(0, |row| row.hash));
        at
    }

    /// Puts a row into the place of the lightest of a few. Returns the place.
    fn displace(&mut self, row: Row<V>) -> usize {
        let start = row.hash as usize % self.rows.len();
        let places = (start..self.rows.len()).chain(0..start).take(CANDIDATES);
        let weight = |at: &usize| self.rows.get(*at).map_or(0, |row| row.value.weight());
        let at = places.min_by_key(weight).unwrap_or_default();
        if let Some(old) = self.rows.get_mut(at) {
            self.absent = self.absent.max(old.value.weight() + old.error);
            if let Ok(entry) = self.index.find_entry(old.hash, |known| *known as usize == at) {
                entry.remove();
            }
            *old = Row { error: self.absent, ..row };
        }
        at
    }

    /// Takes the rows, with the upper bound for a key without a row.
    pub fn take(&mut self) -> (Vec<Row<V>>, u64) {
        self.index.clear();
        (std::mem::take(&mut self.rows), std::mem::take(&mut self.absent))
    }
}
