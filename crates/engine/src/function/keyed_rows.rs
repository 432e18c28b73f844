//! Rows by key for functions over records, in fixed memory: exact while the keys fit, with an error bound for each row
//! that holds for any keys.
//!
//! When all rows are taken, a new key displaces the lightest of eight by the rules of [`Bounded`](crate::bounded): at once
//! if it alone is heavier, or by chance if it was refused recently. Most keys of a flood occur once and never touch a row. What
//! is refused and displaced is added to a counter that several keys share, which is at least the loss of each of them. A key's
//! row has the counter's value at its admission as the upper bound of its undercount.
//!
//! Keys and values are of any size here, and every key is found in its row before another is refused. That is why this list is
//! not a `Bounded`, whose keys and amounts lie side by side in cache lines.

use crate::keyed::{KeyHash, next};
use hashbrown::HashTable;
use weir_api::Folded;

/// Rows of which the lightest is displaced.
const CANDIDATES: usize = 8;
/// Doors for each [`CANDIDATES`] rows.
const DOORS: usize = 3;
/// Factor by which a key that returns is admitted more often than its weight alone would admit it.
const AGAIN: u64 = 4;

/// What a row counts.
pub(super) trait Weighed {
    /// The number by which rows are ranked.
    fn weight(&self) -> u64;
    /// Bytes of heap memory of the value, where the function limits them.
    fn memory(&self) -> usize {
        0
    }
}

impl Weighed for Folded {
    fn weight(&self) -> u64 {
        Folded::weight(self)
    }
}

/// The present rows, and the way to them.
pub(super) struct KeyedRows<V> {
    capacity: usize,
    hash: KeyHash,
    rows: Vec<Row<V>>,
    /// Positions in `rows`, by the hash of their keys.
    index: HashTable<u32>,
    /// What keys without a row have lost; none while all keys have rows.
    doors: Vec<Door>,
    random: u64,
    /// Bytes of heap memory of displaced values.
    freed: usize,
}

/// State of keys without a row.
#[derive(Clone, Copy, Default)]
struct Door {
    /// Parts of the hashes of the keys refused last, newest first; 0 for an empty entry.
    recent: [u16; 16],
    /// Upper bound of the loss of any key of each counter.
    lost: [u64; 8],
}

/// The counter of a key without a row.
struct Place {
    door: usize,
    counter: usize,
    /// The part of its hash that the door knows.
    tag: u16,
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
        let mut state = !seed;
        Self {
            capacity,
            hash: KeyHash::new(seed),
            rows: Vec::new(),
            index: HashTable::new(),
            doors: Vec::new(),
            random: next(&mut state),
            freed: 0,
        }
    }

    /// Maximum number of rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether there are no rows. The first key gets one, so that no key was refused either.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of what keys without a row have, for lists of this number of rows.
    pub const fn doors_of(capacity: usize) -> usize {
        doors_for(capacity) * size_of::<Door>()
    }

    /// The value of a key, to which a weight of at most `gain` is added. It is a new one if the key has no row; `None` if the
    /// key is refused.
    pub fn value(&mut self, key: &[u8], gain: u64, new: impl FnOnce() -> V) -> Option<&mut V> {
        let hash = self.hash.bytes(key);
        let rows = &self.rows;
        let is_it = |at: &u32| rows.get(*at as usize).is_some_and(|row| *row.key == *key);
        let at = match self.index.find(hash, is_it) {
            Some(at) => *at as usize,
            None if self.rows.len() < self.capacity => {
                self.rows.push(Row { hash, key: key.into(), value: new(), error: 0 });
                self.enter(hash, self.rows.len() - 1)
            }
            None => {
                let at = self.displaced_by(hash, gain)?;
                let error = self.lost(hash);
                let row = self.rows.get_mut(at)?;
                self.freed += row.value.memory();
                *row = Row { hash, key: key.into(), value: new(), error };
                self.enter(hash, at)
            }
        };
        self.rows.get_mut(at).map(|row| &mut row.value)
    }

    /// Notes the place of a new row. Returns it.
    fn enter(&mut self, hash: u64, at: usize) -> usize {
        let Self { index, rows, .. } = self;
        index.insert_unique(hash, at as u32, |at| rows.get(*at as usize).map_or(0, |row| row.hash));
        at
    }

    /// Removes the row that a new key displaces. Returns its place; `None` if the key is refused.
    fn displaced_by(&mut self, hash: u64, gain: u64) -> Option<usize> {
        if self.doors.is_empty() {
            self.doors = vec![Door::default(); doors_for(self.capacity)];
        }
        let start = hash as usize % self.rows.len();
        let places = (start..self.rows.len()).chain(0..start).take(CANDIDATES);
        let weight = |at: &usize| self.rows.get(*at).map_or(0, |row| row.value.weight());
        let at = places.min_by_key(weight)?;
        let (lightest, gain) = (weight(&at), gain.max(1));
        let Place { door, counter, tag } = self.place(hash);
        let odds = gain.saturating_mul(AGAIN);
        let draw = next(&mut self.random);
        let door = self.doors.get_mut(door)?;
        let by_chance = || door.recent.contains(&tag) && draw % lightest.saturating_add(odds).max(1) < odds;
        if gain <= lightest && !by_chance() {
            door.recent.rotate_right(1);
            if let Some(newest) = door.recent.first_mut() {
                *newest = tag;
            }
            if let Some(lost) = door.lost.get_mut(counter) {
                *lost = lost.saturating_add(gain);
            }
            return None;
        }
        let old = self.rows.get(at).map(|row| row.hash)?;
        if let Ok(entry) = self.index.find_entry(old, |known| *known as usize == at) {
            entry.remove();
        }
        let Place { door, counter, .. } = self.place(old);
        if let Some(lost) = self.doors.get_mut(door).and_then(|door| door.lost.get_mut(counter)) {
            *lost = lost.saturating_add(lightest);
        }
        Some(at)
    }

    /// The counter of a key. The index and the rows take the lower bits of the hash.
    fn place(&self, hash: u64) -> Place {
        let door = (((hash >> 32) * self.doors.len() as u64) >> 32) as usize;
        Place { door, counter: (hash >> 16 & 7) as usize, tag: (hash >> 19) as u16 | 1 }
    }

    /// Upper bound of the loss of a key without a row.
    fn lost(&self, hash: u64) -> u64 {
        let Place { door, counter, .. } = self.place(hash);
        self.doors.get(door).and_then(|door| door.lost.get(counter)).copied().unwrap_or_default()
    }

    /// Bytes of heap memory of the values that were displaced since the rows were taken last: see [`Weighed::memory`].
    pub fn freed(&self) -> usize {
        self.freed
    }

    /// Takes the rows, with the upper bound for a key without a row.
    pub fn take(&mut self) -> (Vec<Row<V>>, u64) {
        self.index.clear();
        let absent = self.doors.iter().flat_map(|door| door.lost).max().unwrap_or_default();
        self.doors.clear();
        self.freed = 0;
        (std::mem::take(&mut self.rows), absent)
    }
}

/// Number of doors for a list of this number of rows.
const fn doors_for(capacity: usize) -> usize {
    (capacity.div_ceil(CANDIDATES) + 1) * DOORS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Counts one of a key.
    fn count(list: &mut KeyedRows<Folded>, key: &str) {
        if let Some(Folded::Sum(sum)) = list.value(key.as_bytes(), 1, || Folded::Sum(0)) {
            *sum += 1;
        }
    }

    fn sum(row: &Row<Folded>) -> u64 {
        row.value.weight()
    }

    #[test]
    fn keys_that_fit_are_exact() {
        let mut list = KeyedRows::new(100, 1);
        (0..1000).for_each(|n| count(&mut list, &format!("k{}", n % 100)));
        let (rows, absent) = list.take();
        assert!(rows.iter().all(|row| (sum(row), row.error) == (10, 0)));
        assert_eq!((rows.len(), absent), (100, 0));
    }

    #[test]
    fn a_flood_of_random_keys_leaves_the_heavy_ones_their_rows() {
        const ROWS: usize = 1024;
        for seed in 1..6 {
            let mut list = KeyedRows::new(ROWS, seed);
            let mut truth: HashMap<String, u64> = HashMap::new();
            let mut state = seed;
            for n in 0..100_000_u64 {
                // Each tenth name is one of fifty that occur 200 times.
                let name = match n % 10 {
                    0 => format!("heavy{}", n / 10 % 50),
                    _ => format!("{:x}.flood.test", next(&mut state)),
                };
                count(&mut list, &name);
                *truth.entry(name).or_default() += 1;
            }
            let (rows, absent) = list.take();
            assert_eq!(rows.len(), ROWS);
            // The mean loss of a counter is 30.
            assert!(absent < 120, "seed {seed}: absent {absent}");
            let mut left = truth.clone();
            for row in &rows {
                let key = std::str::from_utf8(&row.key).unwrap();
                let all = left.remove(key).unwrap();
                assert!(sum(row) <= all && all <= sum(row) + row.error, "{key}: {} {all}", sum(row));
            }
            assert!(left.values().all(|count| *count <= absent));
            let heavy = rows.iter().filter(|row| row.key.starts_with(b"heavy")).count();
            assert_eq!(heavy, 50, "seed {seed}");
        }
    }

    #[test]
    fn bounds_hold_when_heavy_keys_come_last_and_in_turns() {
        for seed in 1..20 {
            let mut list = KeyedRows::new(16, seed);
            let mut truth: HashMap<String, u64> = HashMap::new();
            let mut state = seed;
            for n in 0..5000_u64 {
                let name = format!("k{}", next(&mut state) % (20 + n / 100) + n / 1000 * 7);
                count(&mut list, &name);
                *truth.entry(name).or_default() += 1;
            }
            let (rows, absent) = list.take();
            for row in &rows {
                let all = truth.remove(std::str::from_utf8(&row.key).unwrap()).unwrap();
                assert!(sum(row) <= all && all <= sum(row) + row.error);
            }
            assert!(truth.values().all(|count| *count <= absent), "seed {seed}");
        }
    }
}
