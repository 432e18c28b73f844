//! Sets of numbers as sorted ranges: the ports and addresses that an expression tests.

/// A number that ranges are made of.
pub(super) trait Point: Copy + Ord {
    /// The smallest and the largest number.
    const LIMITS: (Self, Self);
    /// The next number; `None` after the largest.
    fn after(self) -> Option<Self>;
    /// The previous number; `None` before the smallest.
    fn before(self) -> Option<Self>;
}

macro_rules! points {
    ($($number:ty),*) => {$(
        impl Point for $number {
            const LIMITS: (Self, Self) = (<$number>::MIN, <$number>::MAX);
            fn after(self) -> Option<Self> {
                self.checked_add(1)
            }
            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }
        }
    )*};
}
points!(u16, u32, u128);

/// A set of numbers: ranges with both ends included, sorted, with a gap between any two.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Ranges<T>(Vec<(T, T)>);

impl<T: Point> Ranges<T> {
    pub fn empty() -> Self {
        Self(Vec::new())
    }

    /// The numbers from `low` to `high`.
    pub fn one(low: T, high: T) -> Self {
        if low <= high { Self(vec![(low, high)]) } else { Self::empty() }
    }

    pub fn as_slice(&self) -> &[(T, T)] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, point: T) -> bool {
        let next = self.0.partition_point(|(low, _)| *low <= point);
        next.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, high)| point <= *high)
    }

    pub fn union(&self, other: &Self) -> Self {
        let mut all: Vec<(T, T)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut out: Vec<(T, T)> = Vec::with_capacity(all.len());
        for (low, high) in all {
            match out.last_mut() {
                Some((_, end)) if end.after().is_none_or(|next| low <= next) => *end = high.max(*end),
                _ => out.push((low, high)),
            }
        }
        Self(out)
    }

    pub fn complement(&self) -> Self {
        let (smallest, largest) = T::LIMITS;
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(smallest);
        for (low, high) in &self.0 {
            if let (Some(from), Some(to)) = (next, low.before())
                && from <= to
            {
                out.push((from, to));
            }
            next = high.after();
        }
        if let Some(from) = next {
            out.push((from, largest));
        }
        Self(out)
    }

    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Vec::new();
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some((low_a, high_a)), Some((low_b, high_b))) = (a.peek(), b.peek()) {
            let (low, high) = (*low_a.max(low_b), *high_a.min(high_b));
            if low <= high {
                out.push((low, high));
            }
            if high_a < high_b {
                a.next();
            } else {
                b.next();
            }
        }
        Self(out)
    }
}

/// A set of addresses of both IP versions, and whether it includes packets without an address.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Addresses {
    pub v4: Ranges<u32>,
    pub v6: Ranges<u128>,
    pub none: bool,
}

impl Addresses {
    pub fn v4(low: u32, high: u32) -> Self {
        Self { v4: Ranges::one(low, high), ..Self::default() }
    }

    pub fn v6(low: u128, high: u128) -> Self {
        Self { v6: Ranges::one(low, high), ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty() && !self.none
    }

    pub fn union(&self, other: &Self) -> Self {
        Self { v4: self.v4.union(&other.v4), v6: self.v6.union(&other.v6), none: self.none || other.none }
    }

    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.intersection(&other.v4),
            v6: self.v6.intersection(&other.v6),
            none: self.none && other.none,
        }
    }

    pub fn complement(&self) -> Self {
        Self { v4: self.v4.complement(), v6: self.v6.complement(), none: !self.none }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(parts: &[(u16, u16)]) -> Ranges<u16> {
        parts.iter().fold(Ranges::empty(), |sum, (a, b)| sum.union(&Ranges::one(*a.min(b), *a.max(b))))
    }

    fn part() -> impl Strategy<Value = (u16, u16)> {
        prop_oneof![(0u16..40, 0u16..40), (65_500u16..=65_535, 65_500u16..=65_535), any::<(u16, u16)>()]
    }

    proptest! {
        #[test]
        fn ranges_behave_as_sets(
            a in prop::collection::vec(part(), 0..6),
            b in prop::collection::vec(part(), 0..6),
            points in prop::collection::vec(prop_oneof![0u16..45, 65_490u16..=65_535, any::<u16>()], 50),
        ) {
            let (a, b) = (of(&a), of(&b));
            let (union, both, not) = (a.union(&b), a.intersection(&b), a.complement());
            for p in points {
                prop_assert_eq!(union.contains(p), a.contains(p) || b.contains(p));
                prop_assert_eq!(both.contains(p), a.contains(p) && b.contains(p));
                prop_assert_eq!(not.contains(p), !a.contains(p));
            }
            prop_assert_eq!(not.complement(), a);
        }
    }
}
