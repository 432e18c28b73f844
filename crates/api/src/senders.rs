//! Which senders leave checksums to their network cards.
//!
//! A capture on the sending host has its packets before the card completes them: every checksum of that host is wrong, and
//! those of all others, which came over the wire, are right. What is there in place of the checksum depends on the
//! system, so that the values alone do not tell.

use crate::{Bits, Hashed};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Evidence by sender and IP protocol: cards complete the checksums of some protocols only.
///
/// It merges over workers and intervals. Its memory is bounded: senders of right packets and receivers are bits, which two
/// hosts share at random in one case of 65,536; two that do can hide an offload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChecksumSenders {
    /// Packets with a wrong checksum by sender: those with the lowest hashes, at most [`ChecksumSenders::MAX`].
    wrong: BTreeMap<Sender, u64>,
    /// Senders of packets with a right checksum.
    right: Bits,
    /// Receivers of packets with a right, and of packets with a wrong checksum.
    received: [Bits; 2],
}

/// A host as the sender or receiver of a protocol, in the order of its hash.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Sender {
    hash: u64,
    pub(crate) address: IpAddr,
    pub(crate) protocol: u8,
}

impl Sender {
    pub(crate) fn new(address: IpAddr, protocol: u8) -> Self {
        Self {
            hash: crate::mapped(address).rotate_left(8).wrapping_add(protocol.into()).hash(),
            address,
            protocol,
        }
    }

    fn bit(self) -> u16 {
        self.hash as u16
    }
}

impl ChecksumSenders {
    /// Maximum number of senders of wrong checksums.
    pub const MAX: usize = 128;
    /// Minimum of wrong checksums of a sender: one can be an accident.
    pub const MIN: u64 = 2;

    /// Counts a packet whose checksums were verified.
    pub fn add(&mut self, source: IpAddr, destination: IpAddr, protocol: u8, is_right: bool) {
        let (sender, receiver) = (Sender::new(source, protocol), Sender::new(destination, protocol));
        let [right, wrong] = &mut self.received;
        if is_right {
            self.right.add(sender.bit());
            right.add(receiver.bit());
        } else {
            *self.wrong.entry(sender).or_default() += 1;
            wrong.add(receiver.bit());
            self.limit();
        }
    }

    /// Adds the evidence of another worker or interval.
    pub fn merge(&mut self, other: &ChecksumSenders) {
        for (sender, packets) in &other.wrong {
            let sum = self.wrong.entry(*sender).or_default();
            *sum = sum.saturating_add(*packets);
        }
        self.limit();
        self.right.merge(&other.right);
        self.received.iter_mut().zip(&other.received).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// The hosts that leave checksums to their cards, with a protocol and the number of its packets: all of them were
    /// wrong, packets of others were right, and so were packets that it received, if it received any. Where both
    /// directions are wrong, addresses were replaced or the packets damaged.
    pub fn offloaded(&self) -> impl Iterator<Item = (IpAddr, u8, u64)> + '_ {
        let [right, wrong] = &self.received;
        self.wrong
            .iter()
            .filter(|(sender, packets)| {
                let bit = sender.bit();
                **packets >= Self::MIN
                    && !self.right.is_empty()
                    && !self.right.has(bit)
                    && (right.has(bit) || !wrong.has(bit))
            })
            .map(|(sender, packets)| (sender.address, sender.protocol, *packets))
    }

    /// Replaces the addresses. Hosts that are known by a bit only are forgotten, except that there was one.
    pub fn rename(&mut self, mut name: impl FnMut(IpAddr) -> IpAddr) {
        let before = std::mem::take(self);
        if !before.right.is_empty() {
            // No host: its hash is the only one that does not come from an address.
            self.right.add(0);
        }
        for (sender, packets) in &before.wrong {
            let after = Sender::new(name(sender.address), sender.protocol);
            *self.wrong.entry(after).or_default() += packets;
            let [right, wrong] = &mut self.received;
            let [was_right, was_wrong] = &before.received;
            for (set, was) in [(&mut self.right, &before.right), (right, was_right), (wrong, was_wrong)] {
                if was.has(sender.bit()) {
                    set.add(after.bit());
                }
            }
        }
        self.limit();
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        let sets = self.received.iter().chain([&self.right]).map(Bits::memory).sum::<usize>();
        self.wrong.len() * size_of::<(Sender, u64)>() + sets
    }

    /// The senders of wrong checksums, and the sets.
    pub(crate) fn parts(&self) -> (&BTreeMap<Sender, u64>, &Bits, &[Bits; 2]) {
        (&self.wrong, &self.right, &self.received)
    }

    /// The reverse of [`ChecksumSenders::parts`].
    pub(crate) fn from_parts(wrong: BTreeMap<Sender, u64>, right: Bits, received: [Bits; 2]) -> Self {
        let mut all = Self { wrong, right, received };
        all.limit();
        all
    }

    fn limit(&mut self) {
        while self.wrong.len() > Self::MAX {
            self.wrong.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    /// The offloading hosts with their protocols and packets, in order.
    fn found(senders: &ChecksumSenders) -> Vec<(IpAddr, u8, u64)> {
        let mut found: Vec<_> = senders.offloaded().collect();
        found.sort_unstable();
        found
    }

    fn of(packets: &[(u8, u8, u8, bool)]) -> ChecksumSenders {
        let mut senders = ChecksumSenders::default();
        packets.iter().for_each(|(from, to, protocol, right)| {
            senders.add(ip(*from), ip(*to), *protocol, *right);
        });
        senders
    }

    #[test]
    fn a_host_offloads_if_all_its_packets_are_wrong_and_those_of_others_right() {
        let capture = [(1, 2, 6, false), (2, 1, 6, true), (1, 3, 6, false), (3, 1, 6, true)];
        assert_eq!(found(&of(&capture)), [(ip(1), 6, 2)]);
        // Another protocol of the host is completed by its system.
        assert_eq!(found(&of(&[&capture[..], &[(1, 2, 1, true)]].concat())), [(ip(1), 6, 2)]);
        // A damaged packet of another host is no offload, and hides none.
        let damaged = [&capture[..], &[(3, 1, 6, false)]].concat();
        assert_eq!(found(&of(&damaged)), [(ip(1), 6, 2)]);
        // A host that only sends.
        assert_eq!(found(&of(&[(1, 9, 17, false), (1, 9, 17, false), (2, 3, 6, true)])), [(ip(1), 17, 2)]);
    }

    #[test]
    fn other_wrong_checksums_are_no_offload() {
        let none: [(IpAddr, u8, u64); 0] = [];
        // One packet.
        assert_eq!(found(&of(&[(1, 2, 6, false), (2, 1, 6, true)])), none);
        // Some of a host's packets.
        assert_eq!(found(&of(&[(1, 2, 6, false), (1, 2, 6, false), (1, 2, 6, true), (2, 1, 6, true)])), none);
        // Replaced addresses: both directions are wrong, whatever others are.
        let both = [(1, 2, 6, false), (2, 1, 6, false), (1, 2, 6, false), (2, 1, 6, false)];
        assert_eq!(found(&of(&both)), none);
        assert_eq!(found(&of(&[&both[..], &[(3, 4, 6, true)]].concat())), none);
    }

    #[test]
    fn renamed_senders_still_offload() {
        let mut senders = of(&[(1, 2, 6, false), (1, 2, 6, false), (2, 1, 6, true), (3, 1, 6, false)]);
        senders.rename(|address| if address == ip(1) { ip(77) } else { ip(78) });
        assert_eq!(found(&senders), [(ip(77), 6, 2)]);
        let later = of(&[(77, 2, 6, false)]);
        senders.merge(&later);
        assert_eq!(found(&senders), [(ip(77), 6, 3)]);
        // Renamed twice to one name, of which one part was right.
        let mut mixed = of(&[(1, 2, 6, false), (1, 2, 6, false), (4, 2, 6, false), (4, 2, 6, true)]);
        mixed.rename(|_| ip(99));
        assert_eq!(found(&mixed), []);
    }

    proptest! {
        #[test]
        fn a_sum_does_not_depend_on_how_the_packets_were_divided(
            packets in prop::collection::vec(
                (any::<u8>(), any::<u8>(), prop_oneof![Just(6_u8), Just(17)], any::<bool>()), 0..600
            ),
            parts in 1_usize..6
        ) {
            let whole = of(&packets);
            let part = |n| of(&packets.iter().copied().skip(n).step_by(parts).collect::<Vec<_>>());
            for order in [(0..parts).collect::<Vec<_>>(), (0..parts).rev().collect()] {
                let mut sum = ChecksumSenders::default();
                order.iter().for_each(|n| sum.merge(&part(*n)));
                prop_assert_eq!(&sum, &whole);
            }
            prop_assert!(whole.wrong.len() <= ChecksumSenders::MAX && whole.memory() < 32 << 10);
        }
    }
}
