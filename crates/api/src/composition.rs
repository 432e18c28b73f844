//! Packets that are more, less, or other than an IP packet in a frame.

use crate::Count;
use std::borrow::Cow;
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
    /// Control, such as acknowledgements, and extensions.
    Control,
}

impl Part {
    /// The names of tunnels.
    pub const TUNNELS: [&str; 11] = [
        "IP in IP", "GRE", "ERSPAN", "VXLAN", "GENEVE", "GTP-U", "L2TP", "Teredo", "AYIYA", "EtherIP",
        "CAPWAP",
    ];

    /// The common name of the packets: `ARP`, `STP`, `type 0x1234`.
    pub fn name(&self) -> Cow<'static, str> {
        let name = match *self {
            Part::Tunnel(name, _) => return Cow::Borrowed(name),
            Part::Wifi(WifiFrame::Encrypted) => return Cow::Borrowed("encrypted Wi-Fi"),
            Part::Wifi(WifiFrame::Data) => return Cow::Borrowed("Wi-Fi data"),
            Part::Wifi(WifiFrame::Management) => return Cow::Borrowed("Wi-Fi management"),
            Part::Wifi(WifiFrame::Control) => return Cow::Borrowed("Wi-Fi control"),
            Part::EtherType(kind) => ether_type(kind).ok_or_else(|| format!("type 0x{kind:04x}")),
            Part::Cisco(kind) => cisco(kind).ok_or_else(|| format!("Cisco 0x{kind:04x}")),
            Part::Llc(service) => llc(service).ok_or_else(|| format!("LLC 0x{service:02x}")),
        };
        name.map_or_else(Cow::Owned, Cow::Borrowed)
    }
}

/// The name of a type of Cisco's.
fn cisco(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x010b => "PVST+",
        0x2000 => "CDP",
        0x2003 => "VTP",
        0x2004 => "DTP",
        _ => return None,
    })
}

/// The name of an EtherType, as registered by IEEE.
fn ether_type(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x0800 => "IPv4",
        0x0806 => "ARP",
        0x2000 => "CDP",
        0x22ea => "SRP",
        0x22f0 => "AVTP",
        0x6002 => "DEC MOP",
        0x8035 => "RARP",
        0x809b => "AppleTalk",
        0x80f3 => "AARP",
        0x8137 => "IPX",
        0x86dd => "IPv6",
        0x8808 => "Ethernet flow control",
        0x8809 => "LACP",
        0x8847 | 0x8848 => "MPLS",
        0x8863 => "PPPoE discovery",
        0x8864 => "PPPoE",
        0x886d => "Intel ANS",
        0x888e => "EAPOL",
        0x8892 => "PROFINET",
        0x88a2 => "ATA over Ethernet",
        0x88a4 => "EtherCAT",
        0x88b8 => "GOOSE",
        0x88ba => "IEC 61850 sampled values",
        0x88cc => "LLDP",
        0x88e1 => "HomePlug",
        0x88e5 => "MACsec",
        0x88f5 => "MVRP",
        0x88f7 => "PTP",
        0x8902 => "CFM",
        0x8906 => "FCoE",
        0x8914 => "FIP",
        0x9000 => "loopback test",
        _ => return None,
    })
}

/// The name of a service access point of IEEE 802.2.
fn llc(service: u8) -> Option<&'static str> {
    Some(match service {
        0x42 => "STP",
        0xaa => "SNAP",
        0xe0 => "IPX",
        0xf0 => "NetBIOS",
        0xfe => "IS-IS or CLNP",
        _ => return None,
    })
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
