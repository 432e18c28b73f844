//! The identity of a flow.

use crate::{Layers, Network, Packet};

/// Direction within a biflow (RFC 5103): forward is the initiator's.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Direction {
    /// Initiator to responder.
    #[default]
    Forward,
    /// Responder to initiator.
    Reverse,
}

/// The identity of a biflow: the same for both directions.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowKey {
    /// Addresses, lower endpoint first, in network byte order; IPv4 mapped into IPv6 (RFC 4291 2.5.5.2).
    pub addr: [[u8; 16]; 2],
    /// Ports in the order of `addr`, in host byte order.
    pub port: [u16; 2],
    /// Outer VLAN identifier where flows are told apart by it, else 0.
    pub vlan: u16,
    /// IP protocol number.
    pub proto: u8,
}

impl FlowKey {
    /// The key of a decoded packet, and whether its sender is the *lower* endpoint. `None` for what is not IP.
    pub fn of(packet: &Packet<'_>, layers: &Layers) -> Option<(Self, bool)> {
        let (src, dst) = addresses(packet, layers)?;
        let (src, dst) = ((src, layers.ports[0]), (dst, layers.ports[1]));
        let lower_first = src <= dst;
        let (a, b) = if lower_first { (src, dst) } else { (dst, src) };
        Some((Self { addr: [a.0, b.0], port: [a.1, b.1], vlan: 0, proto: layers.ip_proto }, lower_first))
    }
}

/// An IPv4 address mapped into IPv6 (RFC 4291 2.5.5.2).
pub fn mapped(v4: [u8; 4]) -> [u8; 16] {
    let [a, b, c, d] = v4;
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// Source and destination address of an IP packet, IPv4 mapped into IPv6.
pub fn addresses(packet: &Packet<'_>, layers: &Layers) -> Option<([u8; 16], [u8; 16])> {
    let header = packet.data.get(layers.network as usize..)?;
    match layers.network_kind {
        Network::Ipv4 => {
            let (src, rest) = header.get(12..)?.split_first_chunk::<4>()?;
            Some((mapped(*src), mapped(*rest.first_chunk::<4>()?)))
        }
        Network::Ipv6 => {
            let (src, rest) = header.get(8..)?.split_first_chunk::<16>()?;
            Some((*src, *rest.first_chunk::<16>()?))
        }
        Network::None | Network::Arp => None,
    }
}
