//! Counts packets in tunnels and packets without IP, for the summary.

use weir_api::{Composition, Count, Part, WifiFrame};
use weir_wire::{Layers, Network, Packet, Tunnel, WifiKind, link_ends, tunnel_network};

/// Counts a packet if it is not a plain IP packet. Returns whether it has no IP header.
#[inline]
pub(crate) fn count(composition: &mut Composition, packet: &Packet<'_>, layers: &Layers) -> bool {
    if layers.common {
        return false;
    }
    let is_without_ip = is_without_ip(layers);
    // What could not be decoded is counted as an error.
    if layers.tunnel != Tunnel::None || is_without_ip && layers.error.is_none() {
        let part = part(packet, layers);
        composition.add(part, &Count { packets: 1, bytes: packet.wire_len.into() });
    }
    is_without_ip
}

/// Whether the packet has no IP header, or none that could be decoded.
pub(crate) fn is_without_ip(layers: &Layers) -> bool {
    matches!(layers.network_kind, Network::None | Network::Arp)
}

#[cold]
fn part(packet: &Packet<'_>, layers: &Layers) -> Part {
    if let Some(name) = name(layers.tunnel) {
        return Part::Tunnel(name, tunnel_network(packet, layers));
    }
    match link_ends(packet).wifi {
        Some(WifiKind::Encrypted) => Part::Wifi(WifiFrame::Encrypted),
        Some(WifiKind::Null | WifiKind::Fragment) => Part::Wifi(WifiFrame::Data),
        Some(WifiKind::Management(_)) => Part::Wifi(WifiFrame::Management),
        Some(WifiKind::Control(_) | WifiKind::Extension(_)) => Part::Wifi(WifiFrame::Control),
        Some(WifiKind::Data) | None => carried(packet, layers),
    }
}

/// The kind of packets, by what the link layer announces.
pub(crate) fn carried(packet: &Packet<'_>, layers: &Layers) -> Part {
    let header = packet.data.get(layers.network as usize..).filter(|_| layers.ether_type == 0);
    match header.unwrap_or_default() {
        // Cisco's types, after LLC and SNAP (IEEE 802 9.5).
        [0xaa, 0xaa, 3, 0, 0, 0x0c, high, low, ..] => Part::Cisco(u16::from_be_bytes([*high, *low])),
        [service, ..] => Part::Llc(*service),
        [] => Part::EtherType(layers.ether_type),
    }
}

/// The common name of a tunnel's kind.
fn name(tunnel: Tunnel) -> Option<&'static str> {
    Some(match tunnel {
        Tunnel::None => return None,
        Tunnel::IpInIp => "IP in IP",
        Tunnel::Gre | Tunnel::GreEthernet => "GRE",
        Tunnel::Erspan => "ERSPAN",
        Tunnel::Vxlan => "VXLAN",
        Tunnel::Geneve => "GENEVE",
        Tunnel::GtpU => "GTP-U",
        Tunnel::L2tp => "L2TP",
        Tunnel::Teredo => "Teredo",
        Tunnel::Ayiya => "AYIYA",
        Tunnel::EtherIp => "EtherIP",
        Tunnel::Capwap => "CAPWAP",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that is not in the list could not be decoded.
    #[test]
    fn every_name_of_a_tunnel_is_in_the_list() {
        let tunnels = [
            Tunnel::IpInIp,
            Tunnel::Gre,
            Tunnel::GreEthernet,
            Tunnel::Erspan,
            Tunnel::Vxlan,
            Tunnel::Geneve,
            Tunnel::GtpU,
            Tunnel::L2tp,
            Tunnel::Teredo,
            Tunnel::Ayiya,
            Tunnel::EtherIp,
            Tunnel::Capwap,
        ];
        assert!(tunnels.into_iter().filter_map(name).all(|name| Part::TUNNELS.contains(&name)));
        assert_eq!(name(Tunnel::None), None);
    }
}
