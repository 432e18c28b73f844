//! What is new and what is gone between two lists that have the rest in common, in one order.

use std::ops::Range;

/// The places at which two lists differ.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Edits(Vec<Edit>);

/// Places of the list before that are gone, and those of the list after it that are new between the same neighbours.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Edit {
    gone: Range<usize>,
    new: Range<usize>,
}

impl Edits {
    /// The differences to a list of a length. `origins` has the place there of each element of the new list, if it was there.
    /// `None` if what both have is in another order.
    pub fn of(length: usize, origins: &[Option<u32>]) -> Option<Self> {
        let (mut edits, mut gone, mut new) = (Vec::new(), 0, 0);
        let ends = std::iter::once((origins.len(), length));
        let kept = (0..).zip(origins).filter_map(|(at, was)| Some((at, (*was)? as usize)));
        for (at, was) in kept.chain(ends) {
            if was < gone {
                return None;
            }
            if was > gone || at > new {
                edits.push(Edit { gone: gone..was, new: new..at });
            }
            (gone, new) = (was + 1, at + 1);
        }
        Some(Self(edits))
    }

    /// Makes a list the new one: what is gone is dropped, and `make` gives the element at each new place.
    pub fn apply<T>(&self, list: &mut Vec<T>, mut make: impl FnMut(usize) -> T) {
        // From the end, so that places before keep their numbers.
        for Edit { gone, new } in self.0.iter().rev() {
            list.splice(gone.clone(), new.clone().map(&mut make));
        }
    }

    /// The places of the list before that are gone, in order.
    pub fn gone(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|edit| edit.gone.clone())
    }

    /// The new places, in order.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|edit| edit.new.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_the_other_one() {
        for (before, after) in [
            (&[][..], &[][..]),
            (&[], &[1, 2]),
            (&[1, 2], &[]),
            (&[1, 2, 3], &[1, 2, 3]),
            (&[1, 2, 3], &[1, 2, 3, 4]),
            (&[1, 2, 3], &[0, 1, 3, 5, 6]),
            (&[1, 2, 3, 4, 5, 6], &[2, 7, 8, 4, 9, 6]),
            (&[1, 2, 3], &[7, 8, 9]),
        ] {
            let place = |of: &u32| before.iter().position(|one| one == of).map(|at| at as u32);
            let origins: Vec<Option<u32>> = after.iter().map(place).collect();
            let edits = Edits::of(before.len(), &origins).unwrap();
            let mut list = before.to_vec();
            let mut made = 0;
            edits.apply(&mut list, |at| {
                made += 1;
                after[at]
            });
            assert_eq!(list, after, "{before:?}");
            assert_eq!(edits.places().count(), made, "{before:?}");
            assert_eq!(edits.gone().count(), before.len() + made - after.len(), "{before:?}");
            assert_eq!(made, origins.iter().filter(|origin| origin.is_none()).count(), "{before:?}");
        }
        assert_eq!(Edits::of(3, &[Some(1), Some(0)]), None);
        assert_eq!(Edits::of(2, &[Some(0), Some(0)]), None);
    }
}
