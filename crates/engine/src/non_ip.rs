//! Packets without IP, and what they are.

use std::borrow::Cow;
use weir_wire::{Layers, Network, Packet, WifiKind, link_ends};

/// Maximum bytes of a name.
pub(crate) const MAX_NAME: usize = 24;

/// What a packet without IP is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NonIp {
    /// A frame of IEEE 802.11 without a network header.
    Wifi(WifiFrame),
    /// By its EtherType.
    EtherType(u16),
    /// A frame with a type of Cisco's.
    Cisco(u16),
    /// A frame without EtherType, by the destination's service access point (IEEE 802.2).
    Llc(u8),
}

/// Frames of IEEE 802.11, from the most to the least interesting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WifiFrame {
    /// Encrypted data.
    Encrypted,
    /// Data that is not decoded: later fragments, and frames without content.
    Data,
    /// Management, such as beacons.
    Management,
    /// Control, such as acknowledgements, and extensions.
    Control,
}

/// The key of an empty row.
impl Default for NonIp {
    fn default() -> Self {
        Self::EtherType(0)
    }
}

/// Whether the packet has no IP header, or none that could be decoded.
pub(crate) fn is_without_ip(layers: &Layers) -> bool {
    matches!(layers.network_kind, Network::None | Network::Arp)
}

impl NonIp {
    /// What a packet without IP is.
    pub fn of(packet: &Packet<'_>, layers: &Layers) -> Self {
        match link_ends(packet).wifi {
            Some(WifiKind::Encrypted) => Self::Wifi(WifiFrame::Encrypted),
            Some(WifiKind::Null | WifiKind::Fragment) => Self::Wifi(WifiFrame::Data),
            Some(WifiKind::Management(_)) => Self::Wifi(WifiFrame::Management),
            Some(WifiKind::Control(_) | WifiKind::Extension(_)) => Self::Wifi(WifiFrame::Control),
            Some(WifiKind::Data) | None => Self::carried(packet, layers),
        }
    }

    /// What the link layer of a packet announces.
    pub fn carried(packet: &Packet<'_>, layers: &Layers) -> Self {
        let header = packet.data.get(layers.network as usize..).filter(|_| layers.ether_type == 0);
        match header.unwrap_or_default() {
            // Cisco's types, after LLC and SNAP (IEEE 802 9.5).
            [0xaa, 0xaa, 3, 0, 0, 0x0c, high, low, ..] => Self::Cisco(u16::from_be_bytes([*high, *low])),
            [service, ..] => Self::Llc(*service),
            [] => Self::EtherType(layers.ether_type),
        }
    }

    /// The common name of the packets: `ARP`, `STP`, `type 0x1234`. At most [`MAX_NAME`] bytes.
    pub fn name(self) -> Cow<'static, str> {
        let name = match self {
            Self::Wifi(WifiFrame::Encrypted) => return Cow::Borrowed("encrypted Wi-Fi"),
            Self::Wifi(WifiFrame::Data) => return Cow::Borrowed("Wi-Fi data"),
            Self::Wifi(WifiFrame::Management) => return Cow::Borrowed("Wi-Fi management"),
            Self::Wifi(WifiFrame::Control) => return Cow::Borrowed("Wi-Fi control"),
            Self::EtherType(kind) => ether_type(kind).ok_or_else(|| format!("type 0x{kind:04x}")),
            Self::Cisco(kind) => cisco(kind).ok_or_else(|| format!("Cisco 0x{kind:04x}")),
            Self::Llc(service) => llc(service).ok_or_else(|| format!("LLC 0x{service:02x}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_longer_than_stated() {
        let wifi = [WifiFrame::Encrypted, WifiFrame::Data, WifiFrame::Management, WifiFrame::Control];
        let numbers = 0..=u16::MAX;
        let all =
            wifi.into_iter().map(NonIp::Wifi).chain(numbers.flat_map(|number| {
                [NonIp::EtherType(number), NonIp::Cisco(number), NonIp::Llc(number as u8)]
            }));
        assert_eq!(all.map(|kind| kind.name().len()).max(), Some(MAX_NAME));
    }
}
