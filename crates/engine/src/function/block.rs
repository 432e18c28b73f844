//! Items that functions take together.

use super::Share;
use crate::{Item, Tally};
use weir_filter::PacketMask;
use weir_wire::{Batch, FlowKey, Layers, Tag};

/// Items of one kind, which functions take together, in their order. A function sees those of a [`PacketMask`]: a bit for each
/// item, the lowest of the first word first.
pub enum Block<'a> {
    /// Packets, and the layers of each.
    Packets(Batch<'a>, &'a [Layers]),
    /// Tallies, and each in the form for lists.
    Tallies(&'a [OwnedTally], &'a [Share]),
}

impl Block<'_> {
    /// Calls `f` with each item of the mask.
    pub fn each(&self, mask: &PacketMask, mut f: impl FnMut(&Item<'_>)) {
        self.items(mask, |_, item| f(item));
    }

    /// Clears the items of the mask that `keeps` refuses.
    pub fn retain(&self, mask: &mut PacketMask, keeps: impl Fn(&Item<'_>) -> bool) {
        let seen = *mask;
        self.items(&seen, |at, item| {
            if let Some(word) = mask.get_mut(at / 64).filter(|_| !keeps(item)) {
                *word &= !(1 << (at % 64));
            }
        });
    }

    /// Calls `f` with each item of the mask and its position.
    #[inline]
    fn items(&self, mask: &PacketMask, mut f: impl FnMut(usize, &Item<'_>)) {
        match self {
            Block::Packets(batch, layers) => each(batch.slots, mask, |at, slot| {
                if let Some(layers) = layers.get(at) {
                    f(at, &Item::Packet(&batch.packet(slot), layers));
                }
            }),
            Block::Tallies(tallies, _) => {
                each(tallies, mask, |at, tally| f(at, &Item::Tally(&tally.tally())));
            }
        }
    }
}

/// Calls `f` with each element whose bit is set in a mask, and its position.
#[inline]
pub(crate) fn each<T>(all: &[T], mask: &PacketMask, mut f: impl FnMut(usize, &T)) {
    for ((word, bits), elements) in (0..).zip(mask).zip(all.chunks(64)) {
        let mut bits = *bits;
        if bits == first_bits(elements.len()) {
            // Mostly all are set.
            elements.iter().enumerate().for_each(|(at, one)| f(word * 64 + at, one));
            continue;
        }
        while bits != 0 {
            let at = bits.trailing_zeros() as usize;
            if let Some(one) = elements.get(at) {
                f(word * 64 + at, one);
            }
            bits &= bits - 1;
        }
    }
}

/// A mask of the first `n` items.
pub(crate) fn first(n: usize) -> PacketMask {
    std::array::from_fn(|word| first_bits(n.saturating_sub(word * 64)))
}

/// The lowest `n` bits of a word.
fn first_bits(n: usize) -> u64 {
    if n < 64 { (1 << n) - 1 } else { u64::MAX }
}

/// A tally that does not borrow its flow.
pub struct OwnedTally {
    key: FlowKey,
    source_is_lower: bool,
    initiator_is_lower: bool,
    vlan: u16,
    tag: Tag,
    packets: u64,
    bytes: u64,
    begins: bool,
    carrier: bool,
    unasked: bool,
}

impl OwnedTally {
    pub(crate) fn of(tally: &Tally<'_>) -> Self {
        let Tally {
            key,
            source_is_lower,
            initiator_is_lower,
            vlan,
            tag,
            packets,
            bytes,
            begins,
            carrier,
            unasked,
        } = *tally;
        Self {
            key: *key,
            source_is_lower,
            initiator_is_lower,
            vlan,
            tag,
            packets,
            bytes,
            begins,
            carrier,
            unasked,
        }
    }

    /// The tally.
    pub fn tally(&self) -> Tally<'_> {
        let Self {
            ref key,
            source_is_lower,
            initiator_is_lower,
            vlan,
            tag,
            packets,
            bytes,
            begins,
            carrier,
            unasked,
        } = *self;
        Tally {
            key,
            source_is_lower,
            initiator_is_lower,
            vlan,
            tag,
            packets,
            bytes,
            begins,
            carrier,
            unasked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bits_of_a_mask() {
        assert_eq!(first(0), [0; 8]);
        assert_eq!(first(65), [u64::MAX, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(first(512), [u64::MAX; 8]);
    }

    #[test]
    fn the_elements_of_a_mask_are_visited_in_order() {
        let all: Vec<usize> = (0..150).collect();
        let seen = |mask: &PacketMask| {
            let mut seen = Vec::new();
            each(&all, mask, |at, one| seen.extend([at, *one]));
            seen.chunks(2).map(|pair| (pair[0] == pair[1]).then_some(pair[0]).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(seen(&first(150)), all);
        // Bits beyond the last element stand for nothing.
        assert_eq!(seen(&first(512)), all);
        assert_eq!(seen(&[1 << 63 | 5, 0, 1 << 21 | 1 << 40, 9, 0, 0, 0, 0]), [0, 2, 63, 149]);
    }
}
