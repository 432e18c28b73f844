//! Number of distinct values in fixed memory: HyperLogLog (Flajolet et al., AofA 2007) with Ertl's estimator ("New
//! cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6), which needs no correction table
//! and is unbiased over the whole range. Exact for few values.
//!
//! A merge keeps the maximum of each register, so a value seen by two workers, intervals or machines counts once. This
//! holds only for equal hashes: readings are merged by the name of their hash. Readings of other hashes are kept side
//! by side and never added: the number of values is then between that of the greatest and the sum of all.

use crate::Bits;
use crate::bits::growth;
use serde::{Deserialize, Serialize};

/// The kind of value that is counted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DistinctOf {
    /// Source addresses.
    Sources,
    /// Destination addresses.
    Destinations,
    /// Addresses on either side.
    Hosts,
    /// Two addresses that exchanged packets, in either direction.
    Pairs,
    /// Protocol and port, on either side.
    Ports,
    /// Five-tuples, in either direction.
    Flows,
}

impl DistinctOf {
    /// All kinds, with their names.
    pub const ALL: [(&'static str, DistinctOf); 6] = [
        ("sources", DistinctOf::Sources),
        ("destinations", DistinctOf::Destinations),
        ("hosts", DistinctOf::Hosts),
        ("pairs", DistinctOf::Pairs),
        ("ports", DistinctOf::Ports),
        ("flows", DistinctOf::Flows),
    ];

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, of)| *of == self).map_or("", |(name, _)| name)
    }
}

/// A distinct count.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DistinctCount {
    /// The kind of value that is counted.
    pub of: DistinctOf,
    /// One counter for each name of a hash, sorted by name.
    #[serde(rename = "sketches")]
    counters: Vec<(u64, Distinct)>,
}

impl DistinctCount {
    /// Approximate size in bytes.
    pub fn memory(&self) -> usize {
        self.counters.iter().map(|(_, counter)| size_of::<(u64, Distinct)>() + counter.memory()).sum()
    }

    /// The reading of one worker. `hash` names the hash: equal names mean equal hashes.
    pub fn new(of: DistinctOf, hash: u64, counter: Distinct) -> Self {
        Self { of, counters: vec![(hash, counter)] }
    }

    /// The counters, sorted by the names of their hashes.
    pub(crate) fn counters(&self) -> &[(u64, Distinct)] {
        &self.counters
    }

    /// A reading of counters that are sorted by the names of their hashes.
    pub(crate) fn from_counters(of: DistinctOf, counters: Vec<(u64, Distinct)>) -> Self {
        Self { of, counters }
    }

    /// Estimated number of distinct values; of several hashes, the least that it can be.
    pub fn estimate(&self) -> u64 {
        self.counters.iter().map(|(_, counter)| counter.estimate()).max().unwrap_or_default()
    }

    /// The most that the number of distinct values can be: as [`DistinctCount::estimate`] for one hash, and the sum of the counters
    /// of several, which may have no value in common.
    pub fn most(&self) -> u64 {
        self.counters.iter().map(|(_, counter)| counter.estimate()).fold(0, u64::saturating_add)
    }

    /// The standard error of [`DistinctCount::estimate`] and of [`DistinctCount::most`], relative to the true number; 0 when the
    /// counters are exact.
    pub fn relative_error(&self) -> f64 {
        match self.counters.iter().all(|(_, counter)| counter.is_exact()) {
            true => 0.0,
            false => Distinct::STANDARD_ERROR,
        }
    }

    /// Whether the number is exact: no value is counted by two hashes, and no counter estimates.
    pub fn is_exact(&self) -> bool {
        self.relative_error() == 0.0 && self.most() == self.estimate()
    }

    pub(crate) fn merge(&mut self, other: &DistinctCount) {
        for (hash, theirs) in &other.counters {
            match self.counters.binary_search_by_key(hash, |(hash, _)| *hash) {
                Ok(at) => self.counters[at].1.merge(theirs),
                Err(at) => self.counters.insert(at, (*hash, theirs.clone())),
            }
        }
    }
}

/// A type whose values are counted.
pub trait Hashed: Copy + Ord {
    /// A uniform hash of the value.
    fn hash(self) -> u64;
}

/// A keyed hash of a value: senders of packets cannot choose values that bias the estimate, and the values stay unknown.
impl Hashed for u64 {
    fn hash(self) -> u64 {
        self
    }
}

/// The value itself, such as an address or a port. Its hash has no key, so that counters of any two runs can be merged.
/// It is the finalizer of SplitMix64 over both halves: every bit of the value affects every bit of the hash.
impl Hashed for u128 {
    fn hash(self) -> u64 {
        let step = |mut hash: u64| {
            hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            hash ^ (hash >> 31)
        };
        step(step((self >> 64) as u64 ^ 0x9e37_79b9_7f4a_7c15) ^ self as u64)
    }
}

/// The values that were seen: the values themselves while they are few, else registers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Distinct<T = u64> {
    /// All values, sorted.
    Few(Vec<T>),
    /// For each value of the first [`Distinct::PRECISION`] bits of a hash, the greatest position of the first 1 in the
    /// other bits; 0 if no hash had that value.
    Registers(Vec<u8>),
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Distinct::Few(Vec::new())
    }
}

impl Distinct {
    /// Bits of a hash that choose a register.
    pub const PRECISION: u32 = 12;
    /// Number of registers, of one byte each.
    pub const SIZE: usize = 1 << Self::PRECISION;
    /// 1.04 / sqrt(registers).
    pub const STANDARD_ERROR: f64 = 0.016_25;
    /// Bits of a hash after those that choose the register.
    const REST: u32 = 64 - Self::PRECISION;
    /// The greatest value of a register.
    pub(crate) const MAX_REGISTER: u8 = Self::REST as u8 + 1;
}

impl<T: Hashed> Distinct<T> {
    /// Number of values up to which the count is exact: they take as much memory as the registers.
    pub const EXACT: usize = Distinct::SIZE / size_of::<T>();

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        match self {
            Distinct::Few(few) => few.capacity() * size_of::<T>(),
            Distinct::Registers(registers) => registers.len(),
        }
    }

    /// Bytes of heap memory that a new value needs beyond those of before.
    fn further(&self) -> usize {
        match self {
            Distinct::Few(few) if few.len() < Self::EXACT => growth(few, Self::EXACT),
            Distinct::Few(few) => Distinct::SIZE.saturating_sub(few.capacity() * size_of::<T>()),
            Distinct::Registers(_) => 0,
        }
    }

    /// Counts a value, unless it was counted before.
    pub fn add(&mut self, value: T) {
        match self {
            Distinct::Registers(registers) => {
                let hash = value.hash();
                // The 1 after the last bit ends the search.
                let rest = hash << Distinct::PRECISION | 1 << (Distinct::PRECISION - 1);
                if let Some(register) = registers.get_mut((hash >> Distinct::REST) as usize) {
                    *register = (*register).max(rest.leading_zeros() as u8 + 1);
                }
            }
            Distinct::Few(values) => {
                let Err(at) = values.binary_search(&value) else { return };
                if values.len() < Self::EXACT {
                    values.reserve_exact(growth(values, Self::EXACT) / size_of::<T>());
                    values.insert(at, value);
                } else {
                    self.spread();
                    self.add(value);
                }
            }
        }
    }

    fn spread(&mut self) {
        if let Distinct::Few(values) = self {
            let values = std::mem::take(values);
            *self = Distinct::Registers(vec![0; Distinct::SIZE]);
            values.into_iter().for_each(|value| self.add(value));
        }
    }

    /// Whether the count is exact.
    pub fn is_exact(&self) -> bool {
        matches!(self, Distinct::Few(_))
    }

    /// Estimated number of distinct values.
    pub fn estimate(&self) -> u64 {
        let registers = match self {
            Distinct::Few(values) => return values.len() as u64,
            Distinct::Registers(registers) => registers,
        };
        ertl::<{ Distinct::REST as usize + 2 }>(registers)
    }

    /// Adds the values of another counter with the same hash function.
    pub fn merge(&mut self, other: &Distinct<T>) {
        match other {
            Distinct::Few(values) => values.iter().for_each(|value| self.add(*value)),
            Distinct::Registers(theirs) => {
                self.spread();
                if let Distinct::Registers(mine) = self {
                    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
                }
            }
        }
    }
}

/// Distinct values that can be renamed: ports, or addresses as IPv6 numbers (IPv4 mapped).
///
/// Values of 16 bits, such as ports, are counted exactly, however many they are. The number of others is an estimate
/// beyond [`Distinct::EXACT`], which never exceeds the number of additions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DistinctValues {
    seen: Seen,
    /// The estimate from before the values were renamed, if they are no longer known: registers cannot be renamed.
    floor: u64,
    /// How often a value was added: an upper bound of the number of distinct ones. At most [`DistinctValues::UNKNOWN`].
    added: u64,
}

/// The form depends only on the values.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Seen {
    /// At most [`Distinct::EXACT`] values, or registers if one of them has more than 16 bits.
    Values(Distinct<u128>),
    /// More than [`Distinct::EXACT`] values, none of which has more than 16 bits.
    Numbers(Bits),
}

impl Default for Seen {
    fn default() -> Self {
        Seen::Values(Distinct::default())
    }
}

impl Seen {
    /// Adds a value. Returns whether it may be new.
    fn add(&mut self, value: u128) -> bool {
        match self {
            Seen::Numbers(numbers) => match u16::try_from(value) {
                Ok(number) => numbers.add(number),
                Err(_) => {
                    let mut all = Distinct::default();
                    numbers.iter().for_each(|number| all.add(u128::from(number)));
                    all.add(value);
                    *self = Seen::Values(all);
                    true
                }
            },
            Seen::Values(all) => {
                let Distinct::Few(few) = &*all else {
                    all.add(value);
                    return true;
                };
                if few.binary_search(&value).is_ok() {
                    return false;
                }
                let numbers = || few.iter().chain([&value]).map(|value| u16::try_from(*value));
                match few.len() < Distinct::<u128>::EXACT {
                    true => all.add(value),
                    false => match numbers().collect::<Result<Bits, _>>() {
                        Ok(numbers) => *self = Seen::Numbers(numbers),
                        Err(_) => all.add(value),
                    },
                }
                true
            }
        }
    }

    /// Bytes of heap memory.
    fn memory(&self) -> usize {
        match self {
            Seen::Values(values) => values.memory(),
            Seen::Numbers(numbers) => numbers.memory(),
        }
    }

    /// Upper bound of the bytes of heap memory that a value needs beyond those of before.
    fn further(&self, value: u128) -> usize {
        match self {
            Seen::Values(all) => match all {
                Distinct::Few(few) if few.binary_search(&value).is_ok() => 0,
                _ => all.further(),
            },
            Seen::Numbers(numbers) => match u16::try_from(value) {
                Ok(number) => numbers.further(number),
                Err(_) => Distinct::SIZE.saturating_sub(numbers.memory()),
            },
        }
    }

    fn merge(&mut self, other: &Seen) {
        match (&mut *self, other) {
            (Seen::Numbers(mine), Seen::Numbers(theirs)) => mine.merge(theirs),
            (_, Seen::Numbers(theirs)) => theirs.iter().for_each(|number| {
                self.add(u128::from(number));
            }),
            (_, Seen::Values(Distinct::Few(few))) => few.iter().for_each(|value| {
                self.add(*value);
            }),
            (Seen::Values(mine), Seen::Values(registers)) => mine.merge(registers),
            (Seen::Numbers(mine), Seen::Values(registers)) => {
                let mut all = registers.clone();
                mine.iter().for_each(|number| all.add(u128::from(number)));
                *self = Seen::Values(all);
            }
        }
    }
}

impl DistinctValues {
    /// The number of additions where it is not known, and of more: sums of a few do not overflow.
    pub(crate) const UNKNOWN: u64 = 1 << 62;

    /// Counts a value, unless it was counted before. Returns whether it may be new.
    pub fn add(&mut self, value: u128) -> bool {
        self.added = (self.added + 1).min(Self::UNKNOWN);
        self.seen.add(value)
    }

    /// Counts a value as [`DistinctValues::add`] does, if it needs at most `room` bytes of heap memory beyond those of before.
    /// Returns whether the value may be new; `None` if it was not counted.
    pub fn add_within(&mut self, value: u128, room: usize) -> Option<bool> {
        (self.seen.further(value) <= room).then(|| self.add(value))
    }

    /// Counts a number of further additions of a value that was counted.
    pub fn add_again(&mut self, times: u64) {
        self.added = self.added.saturating_add(times).min(Self::UNKNOWN);
    }

    /// Number of distinct values, an estimate unless [`DistinctValues::is_exact`]; at most the number of additions.
    pub fn estimate(&self) -> u64 {
        let seen = match &self.seen {
            Seen::Values(values) => values.estimate(),
            Seen::Numbers(numbers) => numbers.len() as u64,
        };
        seen.max(self.floor).min(self.added)
    }

    /// Whether [`DistinctValues::estimate`] is exact.
    pub fn is_exact(&self) -> bool {
        self.floor == 0
            && match &self.seen {
                Seen::Values(values) => values.is_exact(),
                Seen::Numbers(_) => true,
            }
    }

    /// The values, sorted; `None` if they are no longer known.
    pub fn values(&self) -> Option<Vec<u128>> {
        match &self.seen {
            Seen::Values(Distinct::Few(values)) => Some(values.clone()),
            Seen::Values(Distinct::Registers(_)) => None,
            Seen::Numbers(numbers) => Some(numbers.iter().map(u128::from).collect()),
        }
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        self.seen.memory()
    }

    /// The values, the estimate from before they were renamed, and how often one was added.
    pub(crate) fn parts(&self) -> (&Seen, u64, u64) {
        (&self.seen, self.floor, self.added)
    }

    /// The reverse of [`DistinctValues::parts`]. The values are put into the form that they ask for.
    pub(crate) fn from_parts(seen: Seen, floor: u64, added: u64) -> Self {
        let mut all = Self { seen: Seen::default(), floor, added: added.min(Self::UNKNOWN) };
        all.seen.merge(&seen);
        all
    }

    /// Replaces each value by another name. If the values are no longer known, the estimate of a merged reading is that
    /// of its largest part, a lower bound.
    pub fn rename(&mut self, name: &mut impl FnMut(u128) -> u128) {
        let known = self.values();
        if known.is_none() {
            self.floor = self.floor.max(self.estimate());
        }
        self.seen = match known {
            None => Seen::Values(Distinct::Registers(vec![0; Distinct::SIZE])),
            Some(_) => Seen::default(),
        };
        for value in known.into_iter().flatten() {
            self.seen.add(name(value));
        }
    }

    /// Adds the values of another part.
    pub fn merge(&mut self, other: &DistinctValues) {
        self.floor = self.floor.max(other.floor);
        self.added = self.added.saturating_add(other.added).min(Self::UNKNOWN);
        self.seen.merge(&other.seen);
    }
}

/// The number of values of which these are the registers, by Ertl's algorithm 6. A register has less than `RANKS` values.
pub(crate) fn ertl<const RANKS: usize>(registers: &[u8]) -> u64 {
    let mut with = [0.0; RANKS];
    for register in registers {
        if let Some(count) = with.get_mut(usize::from(*register)) {
            *count += 1.0;
        }
    }
    let [none, between @ .., all] = with.as_slice() else { return 0 };
    let m = registers.len() as f64;
    // From the highest register value down to 1; each step halves the sum of the values above.
    let sum = between.iter().rev().fold(m * tau(1.0 - all / m), |sum, count| 0.5 * (sum + count));
    let sum = sum + m * sigma(none / m);
    (m * m / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
}

/// The share of registers that are 0, corrected (Ertl's sigma): x + the sum of x^(2^k) 2^(k-1).
fn sigma(x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (x, 1.0, x);
    loop {
        power *= power;
        let next = sum + power * weight;
        if next == sum {
            return sum;
        }
        (sum, weight) = (next, weight + weight);
    }
}

/// The share of registers that are not full, corrected (Ertl's tau).
fn tau(x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (x, 1.0, 1.0 - x);
    loop {
        root = root.sqrt();
        weight *= 0.5;
        let next = sum - (1.0 - root) * (1.0 - root) * weight;
        if next == sum {
            return sum / 3.0;
        }
        sum = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SplitMix64.
    fn hash(n: u64) -> u64 {
        let z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn counter(hashes: impl IntoIterator<Item = u64>) -> Distinct {
        let mut counter = Distinct::default();
        hashes.into_iter().for_each(|hash| counter.add(hash));
        counter
    }

    /// In 20 runs with other keys each, no estimate is off by more than four standard errors, at most one by more than
    /// three, and the mean has no bias.
    #[test]
    fn estimates_are_within_their_error_from_one_to_a_million() {
        let sizes =
            [1, 2, 10, 100, 511, 512, 513, 600, 1_000, 3_000, 10_000, 20_000, 50_000, 200_000, 1_000_000];
        let (mut far, mut runs) = (0, 0);
        for n in sizes {
            let mut sum = 0.0;
            let repeat = if n > 100_000 { 5 } else { 20 };
            for run in 0..repeat {
                let counter = counter((0..n).map(|key| hash(key + (run << 32))));
                let off = counter.estimate() as f64 / n as f64 - 1.0;
                assert_eq!(counter.is_exact(), n <= Distinct::<u64>::EXACT as u64);
                if counter.is_exact() {
                    assert_eq!(counter.estimate(), n);
                }
                assert!(off.abs() < 4.0 * Distinct::STANDARD_ERROR, "{n}: {}", counter.estimate());
                far += usize::from(off.abs() > 3.0 * Distinct::STANDARD_ERROR);
                runs += 1;
                sum += off;
            }
            let mean = sum / repeat as f64;
            assert!(mean.abs() < 4.0 * Distinct::STANDARD_ERROR / (repeat as f64).sqrt(), "{n}: {mean}");
        }
        assert!(far <= 1, "{far} of {runs} beyond three standard errors");
    }

    #[test]
    fn estimates_at_the_ends_of_the_range_do_not_overflow() {
        assert_eq!(Distinct::<u64>::default().estimate(), 0);
        assert_eq!(Distinct::<u64>::Registers(vec![0; Distinct::SIZE]).estimate(), 0);
        assert_eq!(Distinct::<u64>::Registers(vec![53; Distinct::SIZE]).estimate(), u64::MAX);
        let mut all = Distinct::<u64>::Registers(vec![0; Distinct::SIZE]);
        all.add(0);
        all.add(u64::MAX);
        assert_eq!(all.estimate(), 2);
        let Distinct::Registers(registers) = all else { panic!("the counter changed") };
        assert_eq!((registers[0], registers[Distinct::SIZE - 1]), (53, 1));
    }

    #[test]
    fn readings_of_other_hashes_are_kept_side_by_side() {
        let of = |name, keys: std::ops::Range<u64>| {
            DistinctCount::new(DistinctOf::Hosts, name, counter(keys.map(|key| hash(key ^ name << 40))))
        };
        let sum = |parts: &[&DistinctCount]| {
            let mut sum = parts[0].clone();
            parts[1..].iter().for_each(|part| sum.merge(part));
            sum
        };
        let (a, b, c) = (of(1, 0..100), of(2, 50..150), of(1, 90..200));
        assert_eq!((a.estimate(), a.relative_error()), (100, 0.0));
        assert_eq!(sum(&[&a, &b, &c]), sum(&[&c, &b, &a]));
        assert_eq!(sum(&[&a, &sum(&[&b, &c])]), sum(&[&sum(&[&a, &b]), &c]));
        assert_eq!((sum(&[&a, &c]).estimate(), sum(&[&a, &c]).most()), (200, 200));
        let all = sum(&[&a, &b, &c]);
        assert_eq!((all.estimate(), all.most(), all.relative_error()), (200, 300, 0.0));
    }

    #[test]
    fn values_are_counted_once_and_estimated_when_many() {
        let mut values = DistinctValues::default();
        let new = (0..200).filter(|n| values.add(n % 100)).count();
        assert_eq!((new, values.estimate(), values.is_exact()), (100, 100, true));
        let mut again = DistinctValues::default();
        (0..100).for_each(|n| _ = again.add(n));
        again.add_again(100);
        assert_eq!(again, values);
        assert_eq!(values.values().unwrap(), (0..100).collect::<Vec<u128>>());
        for many in [300_u64, 5_000, 65_536, 1_000_000] {
            let of = |first: u64| {
                let mut values = DistinctValues::default();
                (first..first + many).for_each(|n| {
                    values.add(u128::from(n));
                });
                values
            };
            let far = of(1 << 40);
            let off = far.estimate() as f64 / many as f64 - 1.0;
            assert!(off.abs() < 4.0 * Distinct::STANDARD_ERROR, "{many}: {}", far.estimate());
            assert!(far.estimate() <= many, "{many}: {}", far.estimate());
            assert_eq!((far.values(), far.is_exact()), (None, false));
            // Ports.
            if many <= 65_536 {
                let near = of(0);
                assert_eq!((near.estimate(), near.is_exact()), (many, true));
                assert_eq!(near.values().map(|values| values.len() as u64), Some(many));
                assert!(near.memory() <= Bits::MEMORY);
            }
        }
    }

    #[test]
    fn values_need_no_more_room_than_they_may() {
        for (first, step) in [(0, 1), (1 << 40, 1), (0, 300), (65_000, 7)] {
            for room in [0, 63, 64, 1_000, 4_096, 8_192] {
                let mut values = DistinctValues::default();
                let mut counted = 0;
                for n in 0..3_000 {
                    let left = room - values.memory();
                    counted += u64::from(values.add_within(first + n * step, left) == Some(true));
                    assert!(values.memory() <= room, "{first} {step} {room}");
                }
                match room {
                    0 | 63 => assert_eq!((counted, values.estimate()), (0, 0)),
                    64 => assert_eq!((counted, values.estimate()), (4, 4)),
                    8_192 => assert_eq!(counted, 3_000),
                    _ => assert!(counted >= 32, "{counted}"),
                }
                // A value that is known needs no room.
                if counted > 0 && values.values().is_some() {
                    assert_eq!(values.add_within(first, 0), Some(false));
                }
            }
        }
    }

    /// Values of 16 bits and others, so that a sum has every form.
    fn any_values() -> impl Strategy<Value = Vec<u128>> {
        let port = any::<u16>().prop_map(u128::from);
        let host = (0_u128..600).prop_map(|n| 0xffff_0a00_0000 + n);
        prop_oneof![
            prop::collection::vec(port.clone(), 0..900),
            prop::collection::vec(host.clone(), 0..900),
            prop::collection::vec(prop_oneof![9 => port, 1 => host], 0..400),
        ]
    }

    proptest! {
        #[test]
        fn a_sum_of_values_does_not_depend_on_how_they_were_divided(
            one in any_values(), other in any_values(), parts in 1_usize..6
        ) {
            let values = [one, other].concat();
            let of = |values: &mut dyn Iterator<Item = u128>| {
                let mut sum = DistinctValues::default();
                values.for_each(|value| {
                    sum.add(value);
                });
                sum
            };
            let whole = of(&mut values.iter().copied());
            for order in [(0..parts).collect::<Vec<_>>(), (0..parts).rev().collect()] {
                let mut sum = DistinctValues::default();
                order.iter().for_each(|n| sum.merge(&of(&mut values.iter().copied().skip(*n).step_by(parts))));
                prop_assert_eq!(&sum, &whole);
            }
            let exact = values.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
            prop_assert!(whole.estimate() <= values.len() as u64);
            if values.iter().all(|value| *value < 1 << 16) || exact <= Distinct::<u128>::EXACT as u64 {
                prop_assert_eq!((whole.estimate(), whole.is_exact()), (exact, true));
            }
        }
    }

    proptest! {
        #[test]
        fn a_sum_does_not_depend_on_how_the_keys_were_divided(
            first in 0_u64..1_000_000, n in 0_u64..3_000, parts in 1_usize..6, salt in any::<u64>()
        ) {
            let keys: Vec<u64> = (first..first + n).map(hash).collect();
            let whole = counter(keys.iter().copied());
            // Both parts see some of the values.
            let mine = |part: usize| {
                let of = move |key: &u64| {
                    let other = hash(*key ^ salt);
                    other as usize % parts == part || other >> 40 & 7 == 0 && (other >> 32) as usize % parts == part
                };
                counter(keys.iter().copied().filter(of))
            };
            let mut sum = Distinct::default();
            (0..parts).for_each(|part| sum.merge(&mine(part)));
            prop_assert_eq!(&sum, &whole);
            let mut sum = Distinct::default();
            (0..parts).rev().for_each(|part| sum.merge(&mine(part)));
            prop_assert_eq!(&sum, &whole);
            sum.merge(&whole);
            prop_assert_eq!(&sum, &whole);
        }
    }
}
