//! A list of the heaviest keys in fixed memory.
//!
//! Set-associative: a key may stand in one of two sets of eight, so that the list is exact until about three
//! quarters of it are taken. When both sets are full, the newcomer displaces the lightest of the first set with
//! probability weight / (lightest + weight) and inherits its weight as an upper bound ("Randomized admission
//! policy for efficient top-k, frequency, and volume estimation", Ben Basat et al., INFOCOM 2017): a flood of
//! random keys, each seen once, almost never displaces a key that is worth showing.

use std::hash::{BuildHasher, Hash};
use weir_api::Count;

const WAYS: usize = 8;

/// A row as it is handed over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<K> {
    /// Its key.
    pub key: K,
    /// What was counted for it.
    pub count: Count,
    /// Flows that began with it.
    pub flows: u64,
    /// By how much `count` may be too high, in the unit that the list weighs by.
    pub error: u64,
}

/// What a lookup touches of a set: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set {
    /// Upper halves of the hashes, 0 for an empty place.
    tags: [u32; WAYS],
    /// What rows are ranked by, in units of `1 << shift`, saturating: enough to find the lightest.
    weights: [u32; WAYS],
}

impl Set {
    /// A bit for each place with that tag. Without a branch, so that it becomes two vector compares.
    #[inline]
    fn with_tag(&self, tag: u32) -> u32 {
        let mut mask = 0;
        for (way, found) in self.tags.iter().enumerate() {
            mask |= u32::from(*found == tag) << way;
        }
        mask
    }
}

/// The table; see the module's text.
#[derive(Debug)]
pub struct Bounded<K> {
    sets: Vec<Set>,
    /// The rows of a set stand at `set * WAYS`.
    rows: Vec<Row<K>>,
    mask: usize,
    shift: u32,
    hasher: foldhash::fast::FixedState,
    random: u64,
    len: usize,
    inserts: u64,
    /// All that was counted, with room or without.
    added: Count,
}

impl<K: Copy + Default + Eq + Hash> Bounded<K> {
    /// A list of at least `rows` places, its hash keyed by `seed`. Weights below `1 << shift` are not told apart
    /// when the lightest row is looked for; those above `2^(32 + shift)` neither.
    pub fn new(rows: usize, shift: u32, seed: u64) -> Self {
        let sets = rows.div_ceil(WAYS).next_power_of_two().max(2);
        Self {
            sets: vec![Set::default(); sets],
            rows: vec![Row::default(); sets * WAYS],
            mask: sets - 1,
            shift,
            hasher: foldhash::fast::FixedState::with_seed(seed),
            random: seed | 1,
            len: 0,
            inserts: 0,
            added: Count::default(),
        }
    }

    /// Places in the list.
    pub fn capacity(&self) -> usize {
        self.rows.len()
    }

    /// Counts for a key. `weight` is the part of `count` that the list ranks by.
    #[inline]
    pub fn add(&mut self, key: K, count: Count, flows: u64, weight: u64) {
        let hash = self.hasher.hash_one(key);
        let tag = (hash >> 32) as u32 | 1;
        let first = hash as usize & self.mask;
        // The second set depends on the tag alone besides the first, and is another one than it.
        let second = (first ^ (((tag as usize).wrapping_mul(0x9e37_79b1) >> 7) | 1)) & self.mask;
        let weight = self.scaled(weight);
        self.added.add(&count);
        for set in [first, second] {
            if let Some(way) = self.find(set, tag, &key) {
                let total = &mut self.sets[set].weights[way];
                *total = total.saturating_add(weight);
                let row = &mut self.rows[set * WAYS + way];
                row.count.add(&count);
                row.flows += flows;
                return;
            }
        }
        self.inserts += 1;
        self.insert([first, second], tag, key, count, flows, weight);
    }

    fn scaled(&self, weight: u64) -> u32 {
        u32::try_from(weight.div_ceil(1 << self.shift)).unwrap_or(u32::MAX)
    }

    #[inline]
    fn find(&self, set: usize, tag: u32, key: &K) -> Option<usize> {
        let mut candidates = self.sets[set].with_tag(tag);
        while candidates != 0 {
            let way = candidates.trailing_zeros() as usize;
            if self.rows[set * WAYS + way].key == *key {
                return Some(way);
            }
            candidates &= candidates - 1;
        }
        None
    }

    fn insert(
        &mut self,
        [first, second]: [usize; 2],
        tag: u32,
        key: K,
        count: Count,
        flows: u64,
        weight: u32,
    ) {
        let (in_first, in_second) = (self.sets[first].with_tag(0), self.sets[second].with_tag(0));
        if in_first | in_second == 0 {
            self.admit(first, tag, key, count, flows, weight);
            return;
        }
        let (set, free) = match in_second.count_ones() > in_first.count_ones() {
            true => (second, in_second),
            false => (first, in_first),
        };
        self.len += 1;
        self.put(set, free.trailing_zeros() as usize, tag, Row { key, count, flows, error: 0 }, weight);
    }

    fn put(&mut self, set: usize, way: usize, tag: u32, row: Row<K>, weight: u32) {
        self.sets[set].tags[way] = tag;
        self.sets[set].weights[way] = weight;
        self.rows[set * WAYS + way] = row;
    }

    /// Lets a newcomer into a full set, or not. The row that goes is not looked at: it is seldom in the cache, and
    /// what it had counted is what the sum of the rows lacks in the end.
    fn admit(&mut self, set: usize, tag: u32, key: K, count: Count, flows: u64, weight: u32) {
        let weights = &self.sets[set].weights;
        let lightest = weights.iter().copied().min().unwrap_or_default();
        // xorshift64*: quality matters little here, and the sequence must not depend on anything outside.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let draw = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        let sum = u64::from(lightest) + u64::from(weight);
        if (draw * sum) >> 32 >= u64::from(weight) {
            return;
        }
        let way = weights.iter().position(|weight| *weight == lightest).unwrap_or_default();
        let error = u64::from(lightest) << self.shift;
        self.put(set, way, tag, Row { key, count, flows, error }, lightest.saturating_add(weight));
    }

    /// Hands over the rows in no order, what had no room, and the number of inserts; the list is empty then.
    pub fn take(&mut self) -> (Vec<Row<K>>, Count, u64) {
        let mut out = Vec::with_capacity(self.len);
        for (set, rows) in self.sets.iter_mut().zip(self.rows.chunks(WAYS)) {
            out.extend(set.tags.iter().zip(rows).filter(|(tag, _)| **tag != 0).map(|(_, row)| *row));
            *set = Set::default();
        }
        self.len = 0;
        let mut shed = std::mem::take(&mut self.added);
        for row in &out {
            shed.packets -= row.count.packets;
            shed.bytes -= row.count.bytes;
        }
        (out, shed, std::mem::take(&mut self.inserts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn exact_while_three_quarters_are_taken() {
        for seed in 0..20 {
            let mut list = Bounded::<u64>::new(1024, 0, seed);
            let mut truth = HashMap::new();
            for i in 0..100_000_u64 {
                let key = i * i % 769;
                list.add(key, Count { packets: 1, bytes: i }, 0, i);
                *truth.entry(key).or_insert(0) += i;
            }
            assert_eq!(list.capacity(), 1024);
            let (rows, shed, inserts) = list.take();
            assert_eq!(shed, Count::default());
            assert_eq!(inserts as usize, truth.len());
            assert_eq!(rows.len(), truth.len());
            assert!(rows.iter().all(|row| row.error == 0 && truth[&row.key] == row.count.bytes));
        }
    }

    /// The question that Ourmon's paper ends on: random addresses must not wash out the talkers.
    #[test]
    fn a_random_flood_does_not_wash_out_the_heavy_keys() {
        let mut list = Bounded::<u64>::new(2048, 0, 7);
        let mut x = 1_u64;
        let mut truth = HashMap::new();
        for i in 0..600_000_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // One packet in six belongs to 300 talkers of unequal weight; five are never seen again.
            let key = if i % 6 == 0 { ((x >> 33) % 300) * ((x >> 13) % 300) / 300 } else { x };
            *truth.entry(key).or_insert(0_u64) += 1;
            list.add(key, Count { packets: 1, bytes: 1 }, 0, 1);
        }
        let mut heavy: Vec<_> = truth.iter().map(|(key, n)| (*n, *key)).collect();
        heavy.sort_unstable_by(|a, b| b.cmp(a));
        let (mut rows, shed, _) = list.take();
        assert!(shed.packets > 0);
        rows.sort_by_key(|row| std::cmp::Reverse(row.count.packets + row.error));
        let shown: Vec<u64> = rows.iter().take(100).map(|row| row.key).collect();
        let found = heavy[..100].iter().filter(|(_, key)| shown.contains(key)).count();
        assert!(found >= 98, "{found} of the 100 heaviest keys");
        for row in &rows {
            let true_count = truth[&row.key];
            assert!(row.count.packets <= true_count, "never above the truth without its error");
        }
    }
}
