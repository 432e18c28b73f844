//! Sets of numbers as ordered ranges: ports and addresses of rules, with union, difference and complement.

/// A number whose ranges make a set.
pub trait Number: Copy + Ord {
    /// The least.
    const LEAST: Self;
    /// The greatest.
    const GREATEST: Self;

    /// The next lower one, if any.
    fn before(self) -> Option<Self>;

    /// The next higher one, if any.
    fn after(self) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;

            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }

            fn after(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    )*};
}

numbers!(u16, u32, u128);

/// A set of numbers: ranges with both ends included, in ascending order, with a gap between each two.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Ranges<T>(Vec<(T, T)>);

impl<T: Number> Ranges<T> {
    /// No number.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Every number.
    pub fn all() -> Self {
        Self(vec![(T::LEAST, T::GREATEST)])
    }

    /// The numbers of ranges, which may overlap and have any order. A range whose end precedes its beginning is empty.
    pub fn of(mut ranges: Vec<(T, T)>) -> Self {
        ranges.retain(|(from, to)| from <= to);
        ranges.sort_unstable();
        let mut merged: Vec<(T, T)> = Vec::with_capacity(ranges.len());
        for (from, to) in ranges {
            match merged.last_mut() {
                // The last range reaches this one, or ends directly before it.
                Some(last) if last.1.after().is_none_or(|next| from <= next) => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self(merged)
    }

    /// The numbers of both sets.
    pub fn union(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        Self::of(self.0)
    }

    /// The numbers that are not in the set.
    pub fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        let mut from = Some(T::LEAST);
        for (first, last) in &self.0 {
            if let (Some(from), Some(to)) = (from, first.before()) {
                ranges.push((from, to));
            }
            from = last.after();
        }
        ranges.extend(from.map(|from| (from, T::GREATEST)));
        Self::of(ranges)
    }

    /// The numbers that both sets have.
    pub fn intersection(&self, other: &Self) -> Self {
        self.complement().union(other.complement()).complement()
    }

    /// The numbers that only this set has.
    pub fn without(&self, other: &Self) -> Self {
        self.complement().union(other.clone()).complement()
    }

    /// Whether a number is in the set.
    pub fn has(&self, number: T) -> bool {
        let at = self.0.partition_point(|(_, to)| *to < number);
        self.0.get(at).is_some_and(|(from, _)| *from <= number)
    }

    /// Whether the set has no number.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set has every number.
    pub fn is_all(&self) -> bool {
        self.0.as_slice() == [(T::LEAST, T::GREATEST)]
    }

    /// The ranges, in ascending order.
    pub fn as_slice(&self) -> &[(T, T)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set() -> impl Strategy<Value = (Ranges<u16>, Vec<(u16, u16)>)> {
        proptest::collection::vec((0..40_u16, 0..40_u16), 0..6)
            .prop_map(|ranges| (Ranges::of(ranges.clone()), ranges))
    }

    fn plainly_has(ranges: &[(u16, u16)], number: u16) -> bool {
        ranges.iter().any(|(from, to)| *from <= number && number <= *to)
    }

    proptest! {
        #[test]
        fn sets_are_what_their_members_are((a, plain_a) in set(), (b, plain_b) in set()) {
            for number in (0..=42).chain([u16::MAX]) {
                let (in_a, in_b) = (plainly_has(&plain_a, number), plainly_has(&plain_b, number));
                prop_assert_eq!(a.has(number), in_a);
                prop_assert_eq!(a.complement().has(number), !in_a);
                prop_assert_eq!(a.clone().union(b.clone()).has(number), in_a || in_b);
                prop_assert_eq!(a.intersection(&b).has(number), in_a && in_b);
                prop_assert_eq!(a.without(&b).has(number), in_a && !in_b);
            }
            prop_assert_eq!(a.complement().complement(), a);
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_ranges_too() {
        assert!(Ranges::<u16>::all().complement().is_none());
        assert!(Ranges::<u16>::none().complement().is_all());
        assert!(Ranges::of(vec![(0_u16, 9), (10, u16::MAX)]).is_all());
    }
}
