//! Quantiles of values in bounded memory, with a relative error that holds for any values.
//!
//! A value falls into a bucket by its sign, its binary exponent and the first six bits of its mantissa, so that each
//! power of two has 64 buckets. This is the log-linear form of DDSketch ("DDSketch: a fast and fully-mergeable quantile
//! sketch with relative-error guarantees", Masson et al., VLDB 2019): it needs no logarithm, and gives equal results on
//! every machine. A quantile is within 0.78 % of the exact one.
//!
//! When there are more buckets than a sketch may have, every two neighbours become one ("UDDSketch: accurate
//! tracking of quantiles in data streams", Epicoco et al., 2020). This about doubles the error, which
//! [`Sketch::error`] returns. With [`Sketch::MAX_BUCKETS`] it needs values over more than 64 powers of two: whole numbers
//! of 64 bits never do it.
//!
//! The buckets depend only on the set of the values and on their maximum number, so that merging is exact, commutative
//! and associative.

use serde::Serialize;

/// A summary of numbers that answers for their quantiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sketch {
    /// Maximum number of buckets.
    #[serde(skip)]
    pub(crate) max: u16,
    /// How many times neighbours became one.
    pub(crate) merged: u32,
    /// Bucket and number of values, sorted by bucket. Buckets have the order of their values: negative numbers for
    /// negative values, 0 for zero.
    pub(crate) buckets: Vec<(i32, u64)>,
    /// The smallest and the largest value; `None` if there is no value.
    pub(crate) range: Option<(f64, f64)>,
}

/// The place of a quantile among `count` sorted values by nearest rank: of the smallest value that at least the share `part` of
/// them does not exceed. 0 is the first place; 0 and not a number give the first, 1 gives the last. `count` is at most 2^53,
/// beyond which places are near.
///
/// This is the definition for lists, queries, summaries and pages.
pub fn nearest_rank(part: f64, count: u64) -> u64 {
    let exact = part.clamp(0.0, 1.0) * count as f64;
    // 0.07 * 100 is greater than 7 by rounding.
    let whole = exact.round();
    let rank = if (exact - whole).abs() <= exact * (4.0 * f64::EPSILON) { whole } else { exact.ceil() };
    (rank as u64).clamp(1, count.max(1)) - 1
}

/// Bits of a mantissa that do not affect the bucket.
const REST: u32 = f64::MANTISSA_DIGITS - 1 - 6;

impl Default for Sketch {
    fn default() -> Self {
        Self::with_buckets(Self::MAX_BUCKETS as u16)
    }
}

impl Sketch {
    /// Maximum number of buckets, unless a sketch has fewer.
    pub const MAX_BUCKETS: usize = 4096;
    /// Bytes of a bucket.
    pub const BUCKET: usize = size_of::<(i32, u64)>();
    /// Maximum number of times that neighbours become one: each sign then has one bucket.
    pub(crate) const MAX_MERGED: u32 = 17;

    /// A sketch of at most this number of buckets, at least 64 and at most [`Sketch::MAX_BUCKETS`].
    pub fn with_buckets(max: u16) -> Self {
        let max = max.clamp(64, Self::MAX_BUCKETS as u16);
        Self { max, merged: 0, buckets: Vec::new(), range: None }
    }

    /// Counts a value. Values nearer to zero than [`f64::MIN_POSITIVE`] count as zero, infinite ones as the largest or
    /// smallest number. What is not a number is not counted.
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        let value = value.clamp(f64::MIN, f64::MAX);
        let value = if value.abs() < f64::MIN_POSITIVE { 0.0 } else { value };
        self.widen((value, value));
        self.put(bucket(value, self.merged), 1);
        self.limit();
    }

    /// Adds the values of another sketch. The sum has the fewer buckets of the two.
    pub fn merge(&mut self, other: &Sketch) {
        self.max = self.max.min(other.max);
        if let Some(range) = other.range {
            self.widen(range);
        }
        while self.merged < other.merged {
            self.pair();
        }
        let further = self.merged - other.merged;
        for (bucket, values) in &other.buckets {
            self.put((0..further).fold(*bucket, |bucket, _| paired(bucket)), *values);
        }
        self.limit();
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, values)| sum.saturating_add(*values))
    }

    /// The quantile by [`nearest_rank`]: 0 gives the first value, 0.5 the median, 1 the last. Its error relative to the exact value is at most [`Sketch::error`]; the first and the
    /// last value are exact. `None` without values.
    pub fn quantile(&self, place: f64) -> Option<f64> {
        let (min, max) = self.range?;
        let last = self.count().saturating_sub(1);
        let rank = nearest_rank(place, self.count());
        if rank == 0 {
            return Some(min);
        }
        if rank >= last {
            return Some(max);
        }
        let mut below = 0_u64;
        for (bucket, values) in &self.buckets {
            below = below.saturating_add(*values);
            if below > rank {
                return Some(middle(*bucket, self.merged).clamp(min, max));
            }
        }
        Some(max)
    }

    /// The smallest value, exact; `None` without values.
    pub fn min(&self) -> Option<f64> {
        self.range.map(|(min, _)| min)
    }

    /// The largest value, exact; `None` without values.
    pub fn max(&self) -> Option<f64> {
        self.range.map(|(_, max)| max)
    }

    /// Upper bound of the error of a quantile, relative to the exact value.
    pub fn error(&self) -> f64 {
        let ratio = match 6_u32.checked_sub(self.merged) {
            Some(bits) => 1.0 + 1.0 / f64::from(1_u32 << bits),
            None => 2_f64.powi(1 << (self.merged - 6).min(10)),
        };
        if ratio.is_finite() { (ratio - 1.0) / (ratio + 1.0) } else { 1.0 }
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        self.buckets.capacity() * Self::BUCKET
    }

    /// Whether the parts can be those of a sketch in which no bucket has more than `max` values.
    pub(crate) fn is_valid(&self, max: u64) -> bool {
        let last = bucket(f64::MAX, self.merged.min(Self::MAX_MERGED));
        let is_range = |(low, high): (f64, f64)| low <= high && low.is_finite() && high.is_finite();
        self.merged <= Self::MAX_MERGED
            && (64..=Self::MAX_BUCKETS).contains(&usize::from(self.max))
            && self.buckets.len() <= usize::from(self.max)
            && self.buckets.is_sorted_by(|one, next| one.0 < next.0)
            && self
                .buckets
                .iter()
                .all(|(bucket, values)| (-last..=last).contains(bucket) && (1..=max).contains(values))
            && self.range.is_some() != self.buckets.is_empty()
            && self.range.is_none_or(is_range)
    }

    fn widen(&mut self, (low, high): (f64, f64)) {
        self.range = Some(self.range.map_or((low, high), |(min, max)| (min.min(low), max.max(high))));
    }

    fn put(&mut self, bucket: i32, values: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => {
                if let Some((_, known)) = self.buckets.get_mut(at) {
                    *known = known.saturating_add(values);
                }
            }
            Err(at) => {
                // The room never exceeds what the maximum number of buckets needs.
                if self.buckets.len() == self.buckets.capacity() {
                    let more = (self.buckets.len() / 2).max(8);
                    let most = usize::from(self.max) + 1;
                    self.buckets.reserve_exact(more.min(most.saturating_sub(self.buckets.len()).max(1)));
                }
                self.buckets.insert(at, (bucket, values));
            }
        }
    }

    fn limit(&mut self) {
        while self.buckets.len() > usize::from(self.max) {
            self.pair();
        }
    }

    /// Makes one bucket of every two neighbours.
    fn pair(&mut self) {
        self.merged += 1;
        self.buckets.iter_mut().for_each(|(bucket, _)| *bucket = paired(*bucket));
        self.buckets.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
    }
}

/// The bucket of a value after neighbours became one `merged` times.
fn bucket(value: f64, merged: u32) -> i32 {
    if value == 0.0 {
        return 0;
    }
    // The bits of a positive number have its order. The sum is at most 2^17.
    let place = (value.abs().to_bits() >> REST) as i32;
    let place = (place >> merged) + 1;
    if value < 0.0 { -place } else { place }
}

/// The bucket that a bucket becomes a part of.
fn paired(bucket: i32) -> i32 {
    match bucket {
        0 => 0,
        bucket => (((bucket.abs() - 1) >> 1) + 1) * bucket.signum(),
    }
}

/// The number whose relative distance to both ends of a bucket is equal.
fn middle(bucket: i32, merged: u32) -> f64 {
    if bucket == 0 {
        return 0.0;
    }
    let place = u64::from(bucket.unsigned_abs() - 1);
    let begin = |place: u64| {
        let number = f64::from_bits((place << merged).min(f64::INFINITY.to_bits() >> REST) << REST);
        number.clamp(f64::MIN_POSITIVE, f64::MAX)
    };
    let (low, high) = (begin(place), begin(place + 1));
    let middle = low * (2.0 / (1.0 + low / high));
    if bucket < 0 { -middle } else { middle }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sketch(values: &[f64]) -> Sketch {
        let mut sketch = Sketch::default();
        values.iter().for_each(|value| sketch.add(*value));
        sketch
    }

    fn exact(sorted: &[f64], place: f64) -> f64 {
        // The smallest of the values that at least this share of them does not exceed; shares are in hundredths.
        let percent = (place * 100.0).round() as usize;
        sorted[(percent * sorted.len()).div_ceil(100).saturating_sub(1)]
    }

    /// Whether all percentiles are within the sketch's error of the exact ones.
    fn is_right(sketch: &Sketch, values: &[f64]) -> Result<(), TestCaseError> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        for place in (0..=100).map(|percent| f64::from(percent) / 100.0) {
            let (found, exact) = (sketch.quantile(place).unwrap(), exact(&sorted, place));
            let off = (found - exact).abs();
            prop_assert!(off <= sketch.error() * exact.abs() * (1.0 + 1e-12), "{place}: {found} {exact}");
        }
        Ok(())
    }

    #[test]
    fn quantiles_of_latencies_are_within_one_percent() {
        // Microseconds to minutes, with many equal values: the logarithms are uniform.
        let mut state = 1_u64;
        let values: Vec<f64> = (0..100_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (1e-6 * 1e8_f64.powf((state >> 40) as f64 / (1 << 24) as f64) * 1e7).round() / 1e7
            })
            .collect();
        let sketch = sketch(&values);
        assert!(sketch.error() < 0.01);
        is_right(&sketch, &values).unwrap();
        assert!(sketch.buckets.len() < 64 * 28, "{} buckets", sketch.buckets.len());
    }

    #[test]
    fn a_rank_is_the_first_with_enough_values() {
        for count in 1..=2_000_u64 {
            for percent in 0..=100_u64 {
                let enough = (0..count).find(|place| (place + 1) * 100 >= percent * count);
                assert_eq!(
                    Some(nearest_rank(percent as f64 / 100.0, count)),
                    enough,
                    "{percent} % of {count}"
                );
            }
        }
        assert_eq!((nearest_rank(f64::NAN, 9), nearest_rank(2.0, 9), nearest_rank(0.5, 0)), (0, 8, 0));
        assert_eq!(nearest_rank(1.0, u64::MAX), u64::MAX - 1);
    }

    #[test]
    fn whole_numbers_of_64_bits_keep_their_error() {
        let mut sketch = Sketch::default();
        for shift in 0..64 {
            (0..128_u64).for_each(|n| sketch.add(((1_u64 << shift) | (n << shift >> 7)) as f64));
        }
        assert_eq!((sketch.merged, sketch.count()), (0, 64 * 128));
        assert!(sketch.buckets.len() <= Sketch::MAX_BUCKETS && sketch.error() < 0.008);
    }

    #[test]
    fn special_values_are_defined() {
        let mut sketch = Sketch::default();
        assert_eq!((sketch.quantile(0.5), sketch.count(), sketch.min()), (None, 0, None));
        sketch.add(f64::NAN);
        assert_eq!(sketch, Sketch::default());
        for value in [0.0, -0.0, 1e-310, -3.0, f64::INFINITY, f64::NEG_INFINITY] {
            sketch.add(value);
        }
        assert_eq!(sketch.count(), 6);
        assert_eq!((sketch.min(), sketch.max()), (Some(f64::MIN), Some(f64::MAX)));
        assert_eq!((sketch.quantile(0.5), sketch.quantile(f64::NAN)), (Some(0.0), Some(f64::MIN)));
        assert!((sketch.quantile(0.2).unwrap() + 3.0).abs() < 0.03);
    }

    #[test]
    fn buckets_are_bounded_for_any_numbers() {
        let mut sketch = Sketch::default();
        let mut state = 7_u64;
        for _ in 0..300_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sketch.add(f64::from_bits(state ^ state >> 29));
            assert!(sketch.buckets.len() <= Sketch::MAX_BUCKETS);
        }
        // All powers of two of both signs.
        assert!((0.3..0.4).contains(&sketch.error()), "{}", sketch.error());
        let mut all = Sketch { merged: Sketch::MAX_MERGED, ..Sketch::default() };
        all.merge(&sketch);
        assert!(all.buckets.len() <= 3 && all.error() <= 1.0);
        assert_eq!(all.count(), sketch.count());
    }

    #[test]
    fn few_buckets_take_little_memory_and_state_their_error() {
        let mut few = Sketch::with_buckets(256);
        let values: Vec<f64> = (1..=100_000_u32).map(f64::from).collect();
        values.iter().for_each(|value| few.add(*value));
        assert!(few.memory() <= 257 * Sketch::BUCKET && few.error() < 0.06, "{}", few.error());
        is_right(&few, &values).unwrap();
        let mut sum = sketch(&values);
        sum.merge(&few);
        let mut other = few.clone();
        other.merge(&sketch(&values));
        assert_eq!(sum, other);
    }

    /// Numbers of all kinds: near to each other, and over all powers of two, so that buckets become few.
    fn numbers() -> impl Strategy<Value = Vec<f64>> {
        let near = prop::collection::vec(-1e3..1e6_f64, 0..300);
        let whole = prop::collection::vec((0_u64..5_000).prop_map(|n| n as f64), 0..300);
        let far = prop::collection::vec(any::<u64>().prop_map(f64::from_bits), 0..9_000)
            .prop_map(|values| values.into_iter().filter(|value| value.is_normal()).collect());
        prop_oneof![near, whole, far]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn quantiles_are_within_the_error_of_the_exact_ones(values in numbers()) {
            if !values.is_empty() {
                is_right(&sketch(&values), &values)?;
            }
        }

        #[test]
        fn merging_parts_in_any_order_gives_the_whole(
            values in numbers(), more in numbers(), parts in 1_usize..6, turn in 0_usize..6
        ) {
            let values = [values, more].concat();
            let whole = sketch(&values);
            let part = |n: usize| sketch(&values.iter().copied().skip(n).step_by(parts).collect::<Vec<_>>());
            let mut order: Vec<usize> = (0..parts).collect();
            order.rotate_left(turn % parts);
            for order in [order.clone(), order.into_iter().rev().collect()] {
                let mut sum = Sketch::default();
                order.iter().for_each(|n| sum.merge(&part(*n)));
                prop_assert_eq!(&sum, &whole);
            }
            // As a tree, into the last part.
            let (mut left, mut right) = (Sketch::default(), Sketch::default());
            (0..parts / 2).for_each(|n| left.merge(&part(n)));
            (parts / 2..parts).for_each(|n| right.merge(&part(n)));
            right.merge(&left);
            prop_assert_eq!(&right, &whole);
        }
    }
}
