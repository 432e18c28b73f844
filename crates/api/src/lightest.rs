//! The rows that leave a list with more rows than it may have.

use std::cmp::Reverse;

/// The order in which rows leave: ascending weight, and of equal weight the last row first.
pub(crate) type Rank = (u64, Reverse<usize>);

/// Up to this number of rows are found in one walk. A list that is full gains about as many rows in an interval.
const FEW: usize = 16;

/// Of the rows with these weights, the rank of the heaviest one of the `count` that leave first. `None` if `count` is 0 or
/// greater than the number of rows.
pub(crate) fn heaviest_of_lightest(
    weights: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator,
    count: usize,
) -> Option<Rank> {
    let last = count.checked_sub(1)?;
    // From the end, so that of many rows of one weight the first seen are the first to leave.
    let mut ranks = weights.enumerate().rev().map(|(at, weight)| (weight, Reverse(at)));
    if count > FEW {
        let mut ranks: Vec<Rank> = ranks.collect();
        return (last < ranks.len()).then(|| *ranks.select_nth_unstable(last).1);
    }
    // The lightest so far, in ascending order.
    let mut lightest: Vec<Rank> = ranks.by_ref().take(count).collect();
    lightest.sort_unstable();
    let mut heaviest = *lightest.get(last)?;
    for rank in ranks {
        if rank < heaviest {
            lightest.pop();
            lightest.insert(lightest.partition_point(|lighter| *lighter < rank), rank);
            heaviest = *lightest.last()?;
        }
    }
    Some(heaviest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_walk_finds_what_sorting_finds(weights in prop::collection::vec(0_u64..20, 0..60), count in 0_usize..70) {
            let mut ranks: Vec<Rank> = weights.iter().copied().zip((0..).map(Reverse)).collect();
            ranks.sort_unstable();
            let expected = count.checked_sub(1).and_then(|last| ranks.get(last).copied());
            prop_assert_eq!(heaviest_of_lightest(weights.into_iter(), count), expected);
        }
    }
}
