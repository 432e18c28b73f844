//! A set of numbers of 16 bits.

use serde::{Serialize, Serializer};
use std::mem::take;

/// A set of numbers of 16 bits, such as ports: a sorted list while they are few, else one bit for each number.
///
/// The form depends only on the numbers, so that merging, which is union, is commutative and associative.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bits(Form);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Form {
    /// At most [`Bits::FEW`] numbers, sorted.
    Few(Vec<u16>),
    /// More numbers: bit `n % 64` of word `n / 64` is number `n`. The second value is how many they are.
    Many(Box<[u64; Bits::WORDS]>, u32),
}

impl Default for Bits {
    fn default() -> Self {
        Self(Form::Few(Vec::new()))
    }
}

impl Bits {
    /// Maximum of numbers in a list.
    pub const FEW: usize = 512;
    /// Maximum bytes of heap memory.
    pub const MEMORY: usize = Self::WORDS * size_of::<u64>();
    /// Words of 64 bits for all numbers.
    pub(crate) const WORDS: usize = 1 << 10;

    /// Adds a number. Returns whether it is new.
    pub fn add(&mut self, number: u16) -> bool {
        match &mut self.0 {
            Form::Few(list) => match list.binary_search(&number) {
                Ok(_) => false,
                Err(at) if list.len() < Self::FEW => {
                    list.reserve_exact(growth(list, Self::FEW) / size_of::<u16>());
                    list.insert(at, number);
                    true
                }
                Err(_) => {
                    self.spread();
                    self.add(number)
                }
            },
            Form::Many(words, count) => words.get_mut(usize::from(number / 64)).is_some_and(|word| {
                let bit = 1 << (number % 64);
                let is_new = *word & bit == 0;
                *word |= bit;
                *count += u32::from(is_new);
                is_new
            }),
        }
    }

    /// Whether the number was added.
    pub fn has(&self, number: u16) -> bool {
        match &self.0 {
            Form::Few(list) => list.binary_search(&number).is_ok(),
            Form::Many(words, _) => {
                words.get(usize::from(number / 64)).is_some_and(|word| word & (1 << (number % 64)) != 0)
            }
        }
    }

    /// How many numbers were added.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Few(list) => list.len(),
            Form::Many(_, count) => *count as usize,
        }
    }

    /// Whether no number was added.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Few(list) if list.is_empty())
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let (few, many): (&[u16], &[u64]) = match &self.0 {
            Form::Few(list) => (list, &[]),
            Form::Many(words, _) => (&[], words.as_slice()),
        };
        let of_word = |(at, word): (usize, &u64)| {
            let word = *word;
            (0..64_u16).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at as u16 * 64 + bit)
        };
        few.iter().copied().chain(many.iter().enumerate().flat_map(of_word))
    }

    /// Adds the numbers of another set.
    pub fn merge(&mut self, other: &Bits) {
        match &other.0 {
            Form::Few(list) => list.iter().for_each(|number| {
                self.add(*number);
            }),
            Form::Many(theirs, _) => {
                self.spread();
                if let Form::Many(mine, count) = &mut self.0 {
                    mine.iter_mut().zip(theirs.iter()).for_each(|(mine, theirs)| *mine |= theirs);
                    *count = mine.iter().map(|word| word.count_ones()).sum();
                }
            }
        }
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        match &self.0 {
            Form::Few(list) => list.capacity() * size_of::<u16>(),
            Form::Many(words, _) => size_of_val(words.as_slice()),
        }
    }

    /// Bytes of heap memory that a number needs beyond those of before.
    pub(crate) fn further(&self, number: u16) -> usize {
        match &self.0 {
            Form::Few(list) if list.binary_search(&number).is_ok() => 0,
            Form::Few(list) if list.len() < Self::FEW => growth(list, Self::FEW),
            Form::Few(_) => Self::MEMORY.saturating_sub(self.memory()),
            Form::Many(..) => 0,
        }
    }

    /// One bit for each number, if there are more than [`Bits::FEW`].
    pub(crate) fn words(&self) -> Option<&[u64; Self::WORDS]> {
        match &self.0 {
            Form::Few(_) => None,
            Form::Many(words, _) => Some(words),
        }
    }

    /// The set of these bits, in the form that their number asks for.
    pub(crate) fn of_words(words: Box<[u64; Self::WORDS]>) -> Self {
        let count = words.iter().map(|word| word.count_ones()).sum();
        let all = Self(Form::Many(words, count));
        if all.len() > Self::FEW { all } else { all.iter().collect() }
    }

    fn spread(&mut self) {
        if let Form::Few(list) = &mut self.0 {
            let list = take(list);
            self.0 = Form::Many(Box::new([0; Self::WORDS]), 0);
            list.into_iter().for_each(|number| {
                self.add(number);
            });
        }
    }
}

/// Bytes by which a list of at most `max` values grows for one more: it doubles when it is full, so that its memory is known
/// before.
pub(crate) fn growth<T>(list: &Vec<T>, max: usize) -> usize {
    let capacity = list.capacity();
    let more = if list.len() < capacity { 0 } else { capacity.max(4).min(max.saturating_sub(capacity)) };
    more * size_of::<T>()
}

impl FromIterator<u16> for Bits {
    fn from_iter<T: IntoIterator<Item = u16>>(numbers: T) -> Self {
        let mut bits = Self::default();
        numbers.into_iter().for_each(|number| {
            bits.add(number);
        });
        bits
    }
}

/// The numbers in ascending order.
impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_has_what_was_added_in_any_order(
            one in prop::collection::vec(any::<u16>(), 0..1_000),
            other in prop::collection::vec(0_u16..700, 0..1_000)
        ) {
            let (a, b): (Bits, Bits) = (one.iter().copied().collect(), other.iter().copied().collect());
            let expected: BTreeSet<u16> = one.iter().chain(&other).copied().collect();
            let (mut sum, mut reverse) = (a.clone(), b.clone());
            sum.merge(&b);
            reverse.merge(&a);
            prop_assert_eq!(&sum, &reverse);
            prop_assert_eq!(&sum, &one.iter().rev().chain(&other).copied().collect::<Bits>());
            prop_assert_eq!(sum.len(), expected.len());
            prop_assert_eq!(sum.words().is_some(), expected.len() > Bits::FEW);
            prop_assert!(sum.iter().eq(expected.iter().copied()));
            prop_assert!((0..=u16::MAX).all(|number| sum.has(number) == expected.contains(&number)));
            prop_assert!(sum.memory() <= Bits::MEMORY);
        }
    }

    #[test]
    fn only_the_first_addition_of_a_number_is_new() {
        let mut bits = Bits::default();
        for number in 0..=u16::MAX {
            assert!(bits.add(number) && !bits.add(number));
        }
        assert_eq!(bits.len(), 65_536);
        let few = Box::new(std::array::from_fn(|at| u64::from(at == 3)));
        assert_eq!(Bits::of_words(few), Bits::from_iter([192]));
    }
}
