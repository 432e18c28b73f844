//! Packets that are more, less, or other than an IP packet in a frame.

use crate::Count;
use std::collections::BTreeMap;

/// Maximum number of parts: the lowest are kept, so that the result does not depend on the order of merging.
const MAX_PARTS: usize = 512;

/// A kind of packets.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// Packets in a tunnel, by its kind and the identifier of its network; of nested tunnels the outermost counts.
    Tunnel(&'static str, Option<u32>),
    /// Frames of IEEE 802.11 without a network header.
    Wifi(WifiFrame),
    /// Packets without IP, by their EtherType.
    EtherType(u16),
    /// Frames with a type of Cisco's.
    Cisco(u16),
    /// Frames without EtherType, by the destination's service access point (IEEE 802.2).
    Llc(u8),
}

/// Frames of IEEE 802.11, from the most to the least interesting.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum WifiFrame {
    /// Encrypted data.
    Encrypted,
    /// Data that is not decoded: later fragments, and frames without content.
    Data,
    /// Management, such as beacons.
    Management,
    /// Control, such as acknowledgements.
    Control,
}

impl Part {
    /// The names of tunnels.
    pub const TUNNELS: [&str; 11] = [
        "IP in IP", "GRE", "ERSPAN", "VXLAN", "GENEVE", "GTP-U", "L2TP", "Teredo", "AYIYA", "EtherIP",
        "CAPWAP",
    ];
}

/// Packets and bytes by [`Part`]. Plain IP packets are not included.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Composition {
    parts: BTreeMap<Part, Count>,
}

impl Composition {
    /// Adds packets of a part.
    pub fn add(&mut self, part: Part, count: &Count) {
        self.parts.entry(part).or_default().add(count);
        if self.parts.len() > MAX_PARTS {
            self.parts.pop_last();
        }
    }

    /// The count of each part.
    pub(crate) fn parts(&self) -> &BTreeMap<Part, Count> {
        &self.parts
    }

    /// The counts of some parts.
    pub(crate) fn from_parts(parts: BTreeMap<Part, Count>) -> Self {
        let mut composition = Self { parts };
        while composition.parts.len() > MAX_PARTS {
            composition.parts.pop_last();
        }
        composition
    }

    /// Adds the packets of another worker or interval.
    pub fn merge(&mut self, other: &Composition) {
        other.parts.iter().for_each(|(part, count)| self.add(*part, count));
    }

    /// The parts of a kind with their counts, those with the most packets first.
    pub fn ranked(&self, is_meant: impl Fn(&Part) -> bool) -> Vec<(Part, Count)> {
        let mut parts: Vec<(Part, Count)> = self
            .parts
            .iter()
            .filter(|(part, _)| is_meant(part))
            .map(|(part, count)| (*part, *count))
            .collect();
        parts.sort_by_key(|(_, count)| std::cmp::Reverse(count.packets));
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_merging_does_not_matter_when_parts_are_too_many() {
        let one = Count { packets: 1, bytes: 60 };
        let part = |from: u32, to: u32| {
            let mut part = Composition::default();
            (from..to).for_each(|id| part.add(Part::Tunnel("VXLAN", Some(id)), &one));
            part
        };
        let (low, high) = (part(0, 500), part(300, 900));
        let (mut forward, mut backward) = (low.clone(), high.clone());
        forward.merge(&high);
        backward.merge(&low);
        assert_eq!(forward, backward);
        let ranked = forward.ranked(|_| true);
        assert_eq!(ranked.len(), MAX_PARTS);
        assert_eq!(
            ranked.first(),
            Some(&(Part::Tunnel("VXLAN", Some(300)), Count { packets: 2, bytes: 120 }))
        );
    }
}
