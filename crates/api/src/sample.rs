//! A sample of values with exact counts: of the values that were seen, the ten with the smallest hash.
//!
//! The ten smallest hashes of a whole are among the ten smallest of each part that has them, and a value that has left a sample never
//! returns, since the tenth hash only becomes smaller. Merging therefore takes all values of both samples, adds the counts of equal ones,
//! and keeps the ten with the smallest hash: each count is exact, however the values were divided. Samples of the first ten
//! values, or of the ten that are seen most often, have no such sum.
//!
//! The hash is that of [`crate::DistinctValues`]. It has no key, so that samples of any two runs and machines can be merged. Who knows it
//! can choose which of the values that he sends are in the sample, but neither their counts nor the sum of all.

use crate::Hashed;
use crate::bits::growth;
use serde::Serialize;

/// Some of the values that were seen, with the exact count of each; ports, or addresses as IPv6 numbers (IPv4 mapped).
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct SampledValues {
    /// Values and their counts, in the order of their hashes.
    kept: Vec<(u128, u64)>,
    /// The counts of all values, with those that are not in the sample.
    added: u64,
}

/// The order in which values are kept. The value decides between equal hashes.
fn rank(value: u128) -> (u64, u128) {
    (value.hash(), value)
}

impl SampledValues {
    /// Maximum number of values in a sample.
    pub const MAX: usize = 10;
    /// Maximum bytes of heap memory.
    pub const MEMORY: usize = Self::MAX * size_of::<(u128, u64)>();

    /// Counts a value that was seen a number of times.
    pub fn add(&mut self, value: u128, times: u64) {
        if times == 0 {
            return;
        }
        self.added = self.added.saturating_add(times);
        // Most values are those of before.
        if let Some((_, count)) = self.kept.iter_mut().find(|(kept, _)| *kept == value) {
            *count = count.saturating_add(times);
            return;
        }
        let rank_of = rank(value);
        if self.kept.len() < Self::MAX {
            self.kept.reserve_exact(growth(&self.kept, Self::MAX) / size_of::<(u128, u64)>());
        } else if self.kept.last().is_some_and(|(last, _)| rank_of < rank(*last)) {
            self.kept.pop();
        } else {
            return;
        }
        let at = self.kept.partition_point(|(kept, _)| rank(*kept) < rank_of);
        self.kept.insert(at, (value, times));
    }

    /// Counts further values that are not in the sample, and whose hashes are greater than those of ten values in it.
    pub fn add_others(&mut self, times: u64) {
        self.added = self.added.saturating_add(times);
    }

    /// The values of the sample and their counts, sorted by value.
    pub fn values(&self) -> Vec<(u128, u64)> {
        let mut values = self.kept.clone();
        values.sort_unstable();
        values
    }

    /// The sum of the counts of the values in the sample.
    pub fn sampled(&self) -> u64 {
        self.kept.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The sum of the counts of all values.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        self.kept.capacity() * size_of::<(u128, u64)>()
    }

    /// Adds the counts of another part.
    pub fn merge(&mut self, other: &SampledValues) {
        let added = self.added.saturating_add(other.added);
        other.kept.iter().for_each(|(value, count)| self.add(*value, *count));
        self.added = added;
    }

    /// Replaces each value by another name, and adds the counts of equal names. A sum of samples whose values have other names than
    /// they were chosen by may lack a part of a count.
    pub fn rename(&mut self, name: &mut impl FnMut(u128) -> u128) {
        let added = self.added;
        for (value, count) in std::mem::take(&mut self.kept) {
            self.add(name(value), count);
        }
        self.added = added;
    }

    /// The values in the order of their hashes, and the sum of all counts.
    pub(crate) fn parts(&self) -> (&Vec<(u128, u64)>, u64) {
        (&self.kept, self.added)
    }

    /// The reverse of [`SampledValues::parts`]; `None` if no sample has these values.
    pub(crate) fn from_parts(kept: Vec<(u128, u64)>, added: u64) -> Option<Self> {
        let sample = Self { kept, added };
        let is_sorted = sample.kept.is_sorted_by(|(one, _), (next, _)| rank(*one) < rank(*next));
        let has_counts = sample.kept.iter().all(|(_, count)| *count > 0) && sample.sampled() <= added;
        (sample.kept.len() <= Self::MAX && is_sorted && has_counts).then_some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn of(values: impl IntoIterator<Item = u128>) -> SampledValues {
        let mut sample = SampledValues::default();
        values.into_iter().for_each(|value| sample.add(value, 1));
        sample
    }

    /// All values are counted, and the ten with the smallest hash are kept at the end.
    fn reference(values: &[u128]) -> (Vec<(u128, u64)>, u64) {
        let mut counts: BTreeMap<u128, u64> = BTreeMap::new();
        values.iter().for_each(|value| *counts.entry(*value).or_default() += 1);
        let mut all: Vec<(u128, u64)> = counts.into_iter().collect();
        all.sort_by_key(|(value, _)| value.hash());
        all.truncate(10);
        all.sort_unstable();
        (all, values.len() as u64)
    }

    #[test]
    fn few_values_are_all_in_the_sample() {
        let sample = of([443, 80, 443, 22]);
        assert_eq!(sample.values(), [(22, 1), (80, 1), (443, 2)]);
        assert_eq!((sample.sampled(), sample.added()), (4, 4));
        assert_eq!(SampledValues::default().values(), []);
        let mut sample = of(0..1000);
        assert_eq!((sample.values().len(), sample.sampled(), sample.added()), (10, 10, 1000));
        sample.add(7, 0);
        assert_eq!(sample, of(0..1000));
        sample.add(sample.values()[0].0, u64::MAX);
        assert_eq!((sample.sampled(), sample.added()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_sample_has_little_memory() {
        let mut sample = SampledValues::default();
        for value in 0..100 {
            sample.add(value, 1);
            assert!(sample.memory() <= SampledValues::MEMORY);
        }
        let mut other = SampledValues::default();
        sample.values().iter().for_each(|(value, count)| other.add(*value, *count));
        other.add_others(90);
        assert_eq!(other, sample);
    }

    #[test]
    fn renamed_values_keep_their_counts() {
        let mut sample = of([1, 2, 2, 3, 3, 3]);
        sample.rename(&mut |value| value / 2 + 100);
        assert_eq!((sample.values(), sample.added()), (vec![(100, 1), (101, 5)], 6));
        let mut ports = of(0..300);
        ports.rename(&mut |value| value);
        assert_eq!(ports, of(0..300));
    }

    /// Many of few values, and few of many.
    fn any_values() -> impl Strategy<Value = Vec<u128>> {
        prop_oneof![
            prop::collection::vec(0_u128..14, 0..200),
            prop::collection::vec(any::<u16>().prop_map(u128::from), 0..200),
            prop::collection::vec((0_u128..40).prop_map(|n| 0xffff_0a00_0000 + n), 0..200),
        ]
    }

    proptest! {
        #[test]
        fn a_sum_has_the_exact_counts_however_the_values_were_divided(
            one in any_values(), other in any_values(), parts in 1_usize..6, turn in 0_usize..6
        ) {
            let values = [one, other].concat();
            let whole = of(values.iter().copied());
            prop_assert_eq!((whole.values(), whole.added()), reference(&values));
            let part = |n: usize| of(values.iter().copied().skip(n).step_by(parts));
            let mut order: Vec<usize> = (0..parts).collect();
            order.rotate_left(turn % parts);
            for order in [order.clone(), order.into_iter().rev().collect()] {
                let mut sum = SampledValues::default();
                order.iter().for_each(|n| sum.merge(&part(*n)));
                prop_assert_eq!(&sum, &whole);
            }
            let (mut left, mut right) = (SampledValues::default(), SampledValues::default());
            (0..parts / 2).for_each(|n| left.merge(&part(n)));
            (parts / 2..parts).for_each(|n| right.merge(&part(n)));
            right.merge(&left);
            prop_assert_eq!(&right, &whole);
            let (kept, added) = whole.parts();
            prop_assert_eq!(SampledValues::from_parts(kept.clone(), added), Some(whole));
        }
    }
}
