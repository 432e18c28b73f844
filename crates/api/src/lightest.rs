//! The rows that leave a list with more rows than it may have.

use std::cmp::Reverse;

/// Up to this number of rows are found in one walk and removed one by one. A list that is full gains about as many rows in an
/// interval.
const FEW: usize = 16;

/// Removes the `count` lightest rows, of equal weight the last ones, and shows each removed row with its weight. The other rows
/// keep their order. With fewer than `count` rows nothing is removed.
pub(crate) fn remove<T>(
    rows: &mut Vec<T>,
    count: usize,
    weight: impl Fn(&T) -> u64,
    mut removed: impl FnMut(&T, u64),
) {
    if count == 0 || count > rows.len() {
        return;
    }
    if count > FEW {
        let mut ranks: Vec<(u64, Reverse<usize>)> =
            rows.iter().zip(0..).map(|(row, at)| (weight(row), Reverse(at))).collect();
        let weights: Vec<u64> = ranks.iter().map(|(weight, _)| *weight).collect();
        let heaviest = *ranks.select_nth_unstable(count - 1).1;
        let mut ranked = weights.into_iter().zip((0..).map(Reverse));
        rows.retain(|row| {
            let rank = ranked.next().unwrap_or(heaviest);
            if rank <= heaviest {
                removed(row, rank.0);
            }
            rank > heaviest
        });
        return;
    }
    let mut lightest = few_lightest(rows.iter().map(weight), count);
    // From the end, so that the places of the others stay.
    lightest.sort_unstable_by_key(|(_, at)| Reverse(*at));
    for (weight, at) in lightest {
        removed(&rows.remove(at), weight);
    }
}

/// Weights and places of the `count` lightest, of equal weight the last ones.
fn few_lightest(
    weights: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator,
    count: usize,
) -> Vec<(u64, usize)> {
    // From the end, so that of equal weight those that leave are seen first.
    let mut ranks = weights.enumerate().rev();
    // In ascending order of weight.
    let mut lightest: Vec<(u64, usize)> =
        ranks.by_ref().take(count).map(|(at, weight)| (weight, at)).collect();
    lightest.sort_by_key(|(weight, _)| *weight);
    let mut heaviest = lightest.last().map_or(0, |(weight, _)| *weight);
    for (at, weight) in ranks {
        if weight < heaviest {
            lightest.pop();
            lightest.insert(lightest.partition_point(|(lighter, _)| *lighter <= weight), (weight, at));
            heaviest = lightest.last().map_or(0, |(weight, _)| *weight);
        }
    }
    lightest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_rows_that_sorting_puts_first_leave(
            weights in prop::collection::vec(0_u64..20, 0..60),
            count in 0_usize..70,
        ) {
            let mut ranks: Vec<(u64, Reverse<usize>)> = weights.iter().copied().zip((0..).map(Reverse)).collect();
            ranks.sort_unstable();
            let leaving = ranks.get(..count).unwrap_or_default();
            let mut rows: Vec<(usize, u64)> = weights.iter().copied().enumerate().collect();
            let kept: Vec<(usize, u64)> =
                rows.iter().copied().filter(|(at, weight)| !leaving.contains(&(*weight, Reverse(*at)))).collect();
            let mut removed = Vec::new();
            remove(&mut rows, count, |(_, weight)| *weight, |(at, of), weight| {
                assert_eq!(*of, weight);
                removed.push((weight, Reverse(*at)));
            });
            removed.sort_unstable();
            prop_assert_eq!(rows, kept);
            prop_assert_eq!(removed, leaving.to_vec());
        }
    }
}
