//! Rows with unique keys, in no particular order: what top lists and tables consist of.
//!
//! No row is moved to keep an order. Rows of two lists are merged by the hash of their keys, rows that leave and rows that
//! are shown are selected, and only what lists all rows for a reader puts them in the order of their keys.
//!
//! The index of the keys is made when rows are first merged into the list, and stays: a short list that is merged into a
//! long one costs as much as it is long. Senders of packets choose the keys, so the hash has a random state. The order of
//! the rows does not depend on it.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use serde::{Serialize, Serializer};
use std::borrow::Borrow;
use std::cmp::Reverse;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;

/// A row with a key.
pub trait Keyed: Clone + PartialEq {
    /// What rows differ by.
    type Key: Hash + Ord;

    /// The key.
    fn key(&self) -> &Self::Key;
    /// The first bits of the order of keys: of two keys with other prefixes the one with the lower prefix is lower.
    fn prefix(&self) -> u64;
    /// Adds a row of an equal key.
    fn merge(&mut self, other: &Self);
    /// Adds to the bound of the row's error what a list without a row for its key may have lost of it.
    fn add_error(&mut self, absent: u64);
}

/// Rows with unique keys; see the module.
///
/// Equality does not depend on the order, and rows are serialised in the order of their keys.
pub struct Rows<R> {
    rows: Vec<R>,
    /// Made by the first merge that needs it.
    index: Option<Index>,
}

/// The places of rows by the hash of their keys.
struct Index {
    hash: RandomState,
    places: HashTable<u32>,
}

impl Index {
    /// An index of no rows, with room for some.
    fn new(room: usize) -> Self {
        Self { hash: RandomState::default(), places: HashTable::with_capacity(room) }
    }

    fn of<R: Keyed>(rows: &[R]) -> Self {
        let mut index = Self::new(rows.len());
        for (row, at) in rows.iter().zip(0..) {
            index.insert(rows, index.hash_of(row.key()), at);
        }
        index
    }

    fn hash_of<K: Hash>(&self, key: &K) -> u64 {
        self.hash.hash_one(key)
    }

    fn find<R: Keyed>(&self, rows: &[R], hash: u64, key: &R::Key) -> Option<usize> {
        let is_it = |at: &u32| rows.get(*at as usize).is_some_and(|row| row.key() == key);
        self.places.find(hash, is_it).map(|at| *at as usize)
    }

    /// Adds the place of a row whose key has no place.
    fn insert<R: Keyed>(&mut self, rows: &[R], hash: u64, at: u32) {
        let Self { hash: state, places } = self;
        let again = |at: &u32| rows.get(*at as usize).map_or(0, |row| state.hash_one(row.key()));
        places.insert_unique(hash, at, again);
    }

    /// Gives the place of a row another number, or none.
    fn renumber<R: Keyed>(&mut self, row: &R, from: usize, to: Option<usize>) {
        let hash = self.hash_of(row.key());
        if let Ok(mut entry) = self.places.find_entry(hash, |place| *place as usize == from) {
            match to {
                Some(to) => *entry.get_mut() = to as u32,
                None => {
                    entry.remove();
                }
            }
        }
    }
}

impl<R: Keyed> Rows<R> {
    /// Rows of which those with equal keys are merged.
    pub fn merged(rows: impl IntoIterator<Item = R>) -> Self {
        let mut merged = Self::default();
        let mut index = Index::new(0);
        for row in rows {
            let hash = index.hash_of(row.key());
            match index.find(&merged.rows, hash, row.key()).and_then(|at| merged.rows.get_mut(at)) {
                Some(known) => known.merge(&row),
                None => {
                    index.insert(&merged.rows, hash, merged.rows.len() as u32);
                    merged.rows.push(row);
                }
            }
        }
        merged.index = Some(index);
        merged
    }

    /// The rows in the order of their keys.
    pub fn by_key(&self) -> Vec<&R> {
        let mut rows: Vec<(u64, &R)> = self.rows.iter().map(|row| (row.prefix(), row)).collect();
        rows.sort_unstable_by(|(prefix, row), (other, next)| {
            prefix.cmp(other).then_with(|| row.key().cmp(next.key()))
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// The row of a key. It visits all rows unless they have been merged.
    pub fn find(&self, key: &R::Key) -> Option<&R> {
        match &self.index {
            Some(index) => self.rows.get(index.find(&self.rows, index.hash_of(key), key)?),
            None => self.rows.iter().find(|row| row.key() == key),
        }
    }

    /// The `count` heaviest rows, heaviest first; rows of equal weight in the order of their keys, also where only some of
    /// them are among the heaviest.
    pub fn heaviest<W: Copy + Ord>(&self, count: usize, weight: impl Fn(&R) -> W) -> Vec<&R> {
        let first = least(&self.rows, count, |row| Reverse(weight(row)), Ties::FirstKeys);
        let rows = first.into_iter().filter_map(|at| self.rows.get(at as usize));
        let mut heaviest: Vec<(Reverse<W>, &R)> = rows.map(|row| (Reverse(weight(row)), row)).collect();
        heaviest.sort_unstable_by(|(weight, row), (other, next)| {
            weight.cmp(other).then_with(|| row.key().cmp(next.key()))
        });
        heaviest.into_iter().map(|(_, row)| row).collect()
    }

    /// The rows, to be changed. Their keys must stay unique. The next merge makes the index anew.
    pub fn edit(&mut self) -> &mut Vec<R> {
        self.index = None;
        &mut self.rows
    }

    /// Bytes of the rows and their index, without heap memory of the rows.
    pub fn memory(&self) -> usize {
        size_of_val(self.rows.as_slice())
            + self.index.as_ref().map_or(0, |index| index.places.allocation_size())
    }

    /// Merges other rows, and keeps the heaviest. A row that only these rows have may have lost `absent.1` in the other
    /// list, and a row that only the other list has `absent.0` in this one. Returns the number of keys that both have.
    pub(crate) fn merge<W: Fn(&R) -> u64>(
        &mut self,
        other: &Self,
        absent: (u64, u64),
        limit: Limit<W, impl FnMut(&R, u64)>,
    ) -> usize {
        if self.rows.is_empty() {
            self.edit().clone_from(&other.rows);
            self.add_errors(absent.0, |_| true);
            self.trim(limit);
            return 0;
        }
        let mut is_in_both = vec![false; if absent.1 > 0 { self.rows.len() } else { 0 }];
        let mut new: Vec<(u64, &R)> = Vec::new();
        if !other.rows.is_empty() {
            let index = self.index.get_or_insert_with(|| Index::of(&self.rows));
            for row in &other.rows {
                let hash = index.hash_of(row.key());
                let Some(at) = index.find(&self.rows, hash, row.key()) else {
                    new.push((hash, row));
                    continue;
                };
                self.rows.get_mut(at).into_iter().for_each(|mine| mine.merge(row));
                is_in_both.get_mut(at).into_iter().for_each(|is_in_both| *is_in_both = true);
            }
        }
        self.add_errors(absent.1, |at| is_in_both.get(at).is_some_and(|is_in_both| !is_in_both));
        let both = other.rows.len() - new.len();
        self.admit(new, absent.0, limit);
        both
    }

    /// Keeps the heaviest rows.
    pub(crate) fn trim<W: Fn(&R) -> u64>(&mut self, limit: Limit<W, impl FnMut(&R, u64)>) {
        self.admit(Vec::new(), 0, limit);
    }

    /// Adds rows of new keys, with their hashes, that may have lost `absent` before, and keeps the heaviest: a new row is
    /// copied to the place of one that leaves.
    fn admit<W: Fn(&R) -> u64>(
        &mut self,
        new: Vec<(u64, &R)>,
        absent: u64,
        mut limit: Limit<W, impl FnMut(&R, u64)>,
    ) {
        let known = self.rows.len();
        let mut leaves = Vec::new();
        if known + new.len() > limit.capacity {
            let all: Vec<&R> = self.rows.iter().chain(new.iter().map(|(_, row)| *row)).collect();
            leaves.resize(all.len(), false);
            for at in least(&all, all.len() - limit.capacity, &limit.weight, Ties::LastKeys) {
                leaves.get_mut(at as usize).into_iter().for_each(|leaves| *leaves = true);
            }
        }
        // No row is visited if none leaves.
        let places: Vec<usize> =
            leaves.iter().take(known).enumerate().filter(|(_, leaves)| **leaves).map(|(at, _)| at).collect();
        // To make an index is cheaper than to follow many changes.
        if places.len() * 4 > known {
            self.index = None;
        }
        let mut free = places.into_iter();
        for ((hash, row), at) in new.into_iter().zip(known..) {
            let mut row = row.clone();
            row.add_error(absent);
            if leaves.get(at) == Some(&true) {
                (limit.removed)(&row, (limit.weight)(&row));
                continue;
            }
            match free.next() {
                Some(place) => self.replace(place, hash, row, &mut limit),
                None => self.push(hash, row),
            }
        }
        // From the end, so that the row that takes a place stays.
        for place in free.rev() {
            if let (Some(index), Some(row), Some(last)) =
                (&mut self.index, self.rows.get(place), self.rows.last())
            {
                index.renumber(row, place, None);
                index.renumber(last, self.rows.len() - 1, Some(place));
            }
            let row = self.rows.swap_remove(place);
            (limit.removed)(&row, (limit.weight)(&row));
        }
    }

    fn push(&mut self, hash: u64, row: R) {
        if let Some(index) = &mut self.index {
            index.insert(&self.rows, hash, self.rows.len() as u32);
        }
        self.rows.push(row);
    }

    /// Gives the place of a row that leaves to a new one.
    fn replace<W: Fn(&R) -> u64>(
        &mut self,
        place: usize,
        hash: u64,
        row: R,
        limit: &mut Limit<W, impl FnMut(&R, u64)>,
    ) {
        let Some(old) = self.rows.get_mut(place) else { return };
        let old = std::mem::replace(old, row);
        (limit.removed)(&old, (limit.weight)(&old));
        if let Some(index) = &mut self.index {
            index.renumber(&old, place, None);
            index.insert(&self.rows, hash, place as u32);
        }
    }

    /// Adds to the errors of the rows at some places.
    fn add_errors(&mut self, absent: u64, is_one: impl Fn(usize) -> bool) {
        if absent > 0 {
            let places = self.rows.iter_mut().enumerate();
            places.filter(|(at, _)| is_one(*at)).for_each(|(_, row)| row.add_error(absent));
        }
    }
}

/// The rows that a list keeps: the heaviest ones. Of equal weight those with the last keys leave.
pub(crate) struct Limit<W, F> {
    /// Maximum number of rows.
    pub capacity: usize,
    /// The weight of a row.
    pub weight: W,
    /// Is called with each row that leaves and its weight.
    pub removed: F,
}

/// Which rows of equal rank are taken first.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Ties {
    FirstKeys,
    LastKeys,
}

/// The places of the `count` rows of the lowest ranks, in no particular order; all places if there are fewer rows.
fn least<R: Keyed, B: Borrow<R>, N: Copy + Ord>(
    rows: &[B],
    count: usize,
    rank: impl Fn(&R) -> N,
    ties: Ties,
) -> Vec<u32> {
    if count <= FEW {
        return few(rows, count, rank, ties);
    }
    let ranks: Vec<N> = rows.iter().map(|row| rank(row.borrow())).collect();
    let (mut least, equal) = lowest((0..rows.len() as u32).collect(), &ranks, count);
    let missing = |least: &[u32]| count.saturating_sub(least.len());
    if equal.len() <= missing(&least) {
        least.extend(equal);
        return least;
    }
    // Of the rows of the last rank some are taken. Numbers are compared sooner than keys.
    let row = |at: &u32| rows.get(*at as usize).map(B::borrow);
    let flip = if ties == Ties::LastKeys { u64::MAX } else { 0 };
    let prefixes: Vec<u64> = equal.iter().map(|at| row(at).map_or(0, Keyed::prefix) ^ flip).collect();
    let (more, mut equal) = lowest(equal, &prefixes, missing(&least));
    least.extend(more);
    let missing = missing(&least);
    if 0 < missing && missing < equal.len() {
        equal.select_nth_unstable_by(missing - 1, |one, other| {
            let order = row(one).map(Keyed::key).cmp(&row(other).map(Keyed::key));
            if ties == Ties::LastKeys { order.reverse() } else { order }
        });
    }
    least.extend(equal.into_iter().take(missing));
    least
}

/// Number of rows that are found in one visit of all rows, without memory of their ranks: a short list that is merged into a full
/// one removes as many as it has.
const FEW: usize = 8;

/// As [`least`], for few rows.
fn few<R: Keyed, B: Borrow<R>, N: Copy + Ord>(
    rows: &[B],
    count: usize,
    rank: impl Fn(&R) -> N,
    ties: Ties,
) -> Vec<u32> {
    let flip = if ties == Ties::LastKeys { u64::MAX } else { 0 };
    // In order, the first to be taken first.
    let mut least: Vec<(N, u64, u32)> = Vec::with_capacity(count + 1);
    let row = |at: u32| rows.get(at as usize).map(B::borrow);
    let order = |one: &(N, u64, u32), other: &(N, u64, u32)| {
        (one.0, one.1).cmp(&(other.0, other.1)).then_with(|| {
            let order = row(one.2).map(Keyed::key).cmp(&row(other.2).map(Keyed::key));
            if ties == Ties::LastKeys { order.reverse() } else { order }
        })
    };
    for (each, at) in rows.iter().zip(0..) {
        let rank = rank(each.borrow());
        let last = least.last().filter(|_| least.len() == count);
        // Most rows are refused by their rank.
        if last.is_some_and(|last| rank > last.0) || count == 0 {
            continue;
        }
        let this = (rank, each.borrow().prefix() ^ flip, at);
        if last.is_none_or(|last| order(&this, last).is_lt()) {
            let place = least.partition_point(|known| order(known, &this).is_lt());
            least.insert(place, this);
            least.truncate(count);
        }
    }
    least.into_iter().map(|(.., at)| at).collect()
}

/// Of some places with their numbers those whose number is below the `count`-th lowest one, and those that have it; all and
/// none if there are fewer places.
fn lowest<N: Copy + Ord>(places: Vec<u32>, numbers: &[N], count: usize) -> (Vec<u32>, Vec<u32>) {
    if count > places.len() {
        return (places, Vec::new());
    }
    let Some(last) = count.checked_sub(1) else { return (Vec::new(), Vec::new()) };
    let limit = *numbers.to_vec().select_nth_unstable(last).1;
    let with = |is_it: fn(&N, &N) -> bool| {
        let all = places.iter().zip(numbers);
        all.filter(|(_, number)| is_it(number, &limit)).map(|(at, _)| *at).collect()
    };
    (with(N::lt), with(N::eq))
}

impl<R> Default for Rows<R> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: None }
    }
}

/// The keys of the rows must be unique.
impl<R> From<Vec<R>> for Rows<R> {
    fn from(rows: Vec<R>) -> Self {
        Self { rows, index: None }
    }
}

/// The keys of the rows must be unique.
impl<R> FromIterator<R> for Rows<R> {
    fn from_iter<I: IntoIterator<Item = R>>(rows: I) -> Self {
        Self::from(Vec::from_iter(rows))
    }
}

/// The clone makes its own index when it needs one: most clones are only shown.
impl<R: Clone> Clone for Rows<R> {
    fn clone(&self) -> Self {
        Self::from(self.rows.clone())
    }
}

impl<R> Deref for Rows<R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        &self.rows
    }
}

impl<'r, R> IntoIterator for &'r Rows<R> {
    type Item = &'r R;
    type IntoIter = std::slice::Iter<'r, R>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

impl<R> IntoIterator for Rows<R> {
    type Item = R;
    type IntoIter = std::vec::IntoIter<R>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

impl<R: Keyed> PartialEq for Rows<R> {
    fn eq(&self, other: &Self) -> bool {
        if self.rows.len() != other.rows.len() {
            return false;
        }
        let mut index = None;
        // Rows that lie in one order are compared without an index.
        self.rows.iter().zip(&other.rows).all(|(mine, theirs)| {
            mine == theirs || {
                let index = index.get_or_insert_with(|| Index::of(&self.rows));
                let at = index.find(&self.rows, index.hash_of(theirs.key()), theirs.key());
                at.and_then(|at| self.rows.get(at)) == Some(theirs)
            }
        })
    }
}

impl<R: Keyed + fmt::Debug> fmt::Debug for Rows<R> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_list().entries(self.by_key()).finish()
    }
}

impl<R: Keyed + Serialize> Serialize for Rows<R> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.by_key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Key, weight and error. Two keys have each prefix.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Row(u32, u64, u64);

    impl Keyed for Row {
        type Key = u32;

        fn key(&self) -> &u32 {
            &self.0
        }

        fn prefix(&self) -> u64 {
            u64::from(self.0 / 2)
        }

        fn merge(&mut self, other: &Self) {
            self.1 += other.1;
            self.2 += other.2;
        }

        fn add_error(&mut self, absent: u64) {
            self.2 += absent;
        }
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let row = (0..60_u32, 0..6_u64, 0..9_u64).prop_map(|(key, weight, error)| Row(key, weight, error));
        prop::collection::vec(row, 0..70).prop_map(|mut rows| {
            let mut known = std::collections::BTreeSet::new();
            rows.retain(|row| known.insert(row.0));
            rows
        })
    }

    fn listed(rows: &Rows<Row>) -> Vec<Row> {
        rows.by_key().into_iter().copied().collect()
    }

    /// Every row is found, and only by its key.
    fn is_whole(rows: &Rows<Row>) -> bool {
        (0..60).all(|key| rows.find(&key) == rows.iter().find(|row| row.0 == key))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn merged_rows_are_those_of_a_map(
            lists in prop::collection::vec((rows(), 0..3_u64), 1..6), capacity in 0..70_usize
        ) {
            let mut truth: BTreeMap<u32, Row> = BTreeMap::new();
            let (mut sum, mut absent) = (Rows::default(), 0);
            for (list, theirs) in lists {
                let other = Rows::from(list.clone());
                let both = list.iter().filter(|row| truth.contains_key(&row.0)).count();
                let mut left = Vec::new();
                let limit = Limit {
                    capacity,
                    weight: |row: &Row| row.1,
                    removed: |row: &Row, weight| {
                        assert_eq!(row.1, weight);
                        left.push(*row);
                    },
                };
                prop_assert_eq!(sum.merge(&other, (absent, theirs), limit), both);
                for row in truth.values_mut() {
                    match list.iter().find(|new| new.0 == row.0) {
                        Some(new) => row.merge(new),
                        None => row.add_error(theirs),
                    }
                }
                for row in list {
                    truth.entry(row.0).or_insert(Row(row.0, row.1, row.2 + absent));
                }
                absent += theirs;
                // The lightest leave, of equal weight the last.
                let mut ranked: Vec<Row> = truth.values().copied().collect();
                ranked.sort_by_key(|row| (Reverse(row.1), row.0));
                let leaving = ranked.split_off(capacity.min(ranked.len()));
                left.sort_by_key(|row| (Reverse(row.1), row.0));
                prop_assert_eq!(&left, &leaving);
                leaving.iter().for_each(|row| { truth.remove(&row.0); });
                prop_assert_eq!(listed(&sum), truth.values().copied().collect::<Vec<_>>());
                prop_assert!(is_whole(&sum) && is_whole(&sum.clone()));
            }
        }

        #[test]
        fn a_trimmed_list_keeps_the_first_of_all_ranked_rows(list in rows(), more in rows(), capacity in 0..70_usize) {
            let mut ranked = list.clone();
            ranked.sort_by_key(|row| (Reverse(row.1), row.0));
            ranked.truncate(capacity);
            let mut sum = Rows::from(list);
            // With an index and without one.
            for _ in 0..2 {
                let mut left = 0;
                let before = sum.len();
                sum.trim(Limit { capacity, weight: |row: &Row| row.1, removed: |_: &Row, _| left += 1 });
                prop_assert_eq!(&sum, &Rows::from(ranked.clone()));
                prop_assert_eq!(before - sum.len(), left);
                prop_assert!(is_whole(&sum));
                sum.merge(&Rows::from(more.clone()), (0, 0), Limit { capacity: 70, weight: |row: &Row| row.1, removed: |_: &Row, _| () });
                prop_assert!(is_whole(&sum));
                ranked = sum.to_vec();
                ranked.sort_by_key(|row| (Reverse(row.1), row.0));
                ranked.truncate(capacity);
            }
        }

        #[test]
        fn the_heaviest_are_the_first_of_all_ranked_rows(list in rows(), count in 0..70_usize) {
            let mut ranked = list.clone();
            ranked.sort_by_key(|row| (Reverse(row.1), row.0));
            ranked.truncate(count);
            let heaviest: Vec<Row> = Rows::from(list).heaviest(count, |row| row.1).into_iter().copied().collect();
            prop_assert_eq!(heaviest, ranked);
        }

        #[test]
        fn the_order_of_rows_is_not_compared(list in rows(), turn in 0..70_usize, change in 0..70_usize) {
            let mut turned = list.clone();
            turned.rotate_left(turn % list.len().max(1));
            let (one, mut other) = (Rows::from(list), Rows::from(turned));
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
            if let Some(row) = other.edit().get_mut(change) {
                row.2 += 1;
                prop_assert!(one != other);
            }
        }

        #[test]
        fn equal_keys_are_merged(keys in prop::collection::vec(0..9_u32, 0..30)) {
            let merged = Rows::merged(keys.iter().map(|key| Row(*key, 1, 0)));
            let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
            keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
            let expected: Vec<Row> = counts.into_iter().map(|(key, count)| Row(key, count, 0)).collect();
            prop_assert_eq!(listed(&merged), expected);
            prop_assert!(is_whole(&merged));
        }
    }
}
