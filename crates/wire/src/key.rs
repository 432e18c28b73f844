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

impl Direction {
    /// The other direction.
    pub fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }
}

/// The identity of a biflow: equal for both directions.
///
/// ICMP and ICMPv6 have no ports. A request and its reply are one flow whose ports are the two types, each on the side
/// of its sender. Every other message is a flow of one direction, see [`FlowKey::is_one_way`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowKey {
    /// Addresses, the lower endpoint first (in a one-way flow: the source first), in network byte order. IPv4 is
    /// mapped into IPv6 (RFC 4291 2.5.5.2).
    pub addr: [[u8; 16]; 2],
    /// Ports in the order of `addr`, in host byte order. In a one-way flow: ICMP type and code.
    pub port: [u16; 2],
    /// Where the addresses are those of these two hosts.
    pub space: Space,
    /// IP protocol number.
    pub proto: u8,
}

/// Equal addresses in different spaces are different hosts, or are seen at different points of their way: in a VLAN
/// (if it is part of the key), in the tunnels of a pair of hosts, and outside of tunnels.
///
/// Of the outermost pair of a packet in tunnels the space has [`crate::steer_hash`], and no more. So a flow never has
/// packets of two workers, and two copies of a packet, one before a tunnel and one in it, are in two flows. Two pairs of
/// hosts with the same hash (1 of 2,048) have one space.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Space([u8; 3]);

impl Space {
    /// `within`: [`Layers::within`]. The VLAN identifier is 0.
    #[inline]
    fn of(within: u16) -> Self {
        let [high, low] = within.to_be_bytes();
        Self([high << 4 | low >> 4, low << 4, 0])
    }

    /// This space in a VLAN, by its identifier of 12 bits.
    #[must_use]
    pub fn tagged(self, vlan: u16) -> Self {
        let Self([first, second, _]) = self;
        let [high, low] = vlan.to_be_bytes();
        Self([first, second & 0xf0 | high & 0xf, low])
    }

    /// This space in the VLANs of a packet, by its outermost and its next identifier ([`Layers::vlan`]). Two tags have one number
    /// of 12 bits: with one outer tag, each inner tag has its own, and the other way round. Of other pairs, 1 of 4,096 have one
    /// space.
    #[must_use]
    pub fn in_vlans(self, [outer, inner]: [u16; 2]) -> Self {
        let turned = outer << 5 | (outer & 0xfff) >> 7;
        self.tagged(if inner == 0 { outer } else { inner ^ turned & 0xfff })
    }

    /// The space as a number of 24 bits: the VLAN identifier in the lower half.
    #[inline(always)]
    pub fn number(self) -> u32 {
        let Self([a, b, c]) = self;
        u32::from_be_bytes([0, a, b, c])
    }
}

/// Whether an IP protocol has ports: TCP, UDP, DCCP, SCTP and UDP-Lite. A [`FlowKey`] of ICMP has types and codes in place of
/// ports, which are none.
#[inline]
pub const fn has_ports(ip_proto: u8) -> bool {
    matches!(ip_proto, 6 | 17 | 33 | 132 | 136)
}

impl FlowKey {
    /// The key of a decoded packet, and whether its sender is the *lower* endpoint (`addr[0]`, `port[0]`). `None` for
    /// packets other than IP. The ports are 0 if the transport header could not be read. The destination of a
    /// source-routed IPv6 packet is the final one, so that replies belong to the same flow.
    #[inline]
    pub fn of(packet: &Packet<'_>, layers: &Layers) -> Option<(Self, bool)> {
        match layers.network_kind {
            Network::Ipv4 if !matches!(layers.ip_proto, ICMP | ICMPV6) => Self::of_v4(packet, layers),
            _ => Self::of_any(packet, layers),
        }
    }

    /// The key of a packet that is [`Layers::common`], built from 32-bit words.
    #[inline]
    fn of_v4(packet: &Packet<'_>, layers: &Layers) -> Option<(Self, bool)> {
        let header = packet.data.get(layers.network as usize + 12..)?.first_chunk::<8>()?;
        let (key, is_lower) = Self::between_v4(header, layers);
        Some((Self { space: Space::of(layers.within), ..key }, is_lower))
    }

    /// The key of a packet that is [`Layers::common`], by its captured bytes, as [`FlowKey::of`] gives it. `None` if there are too
    /// few.
    #[inline(always)]
    pub fn of_common(data: &[u8], layers: &Layers) -> Option<(Self, bool)> {
        let addresses = data.first_chunk::<34>()?.last_chunk::<8>()?;
        Some(Self::between_v4(addresses, layers))
    }

    /// `addresses`: the source's and the destination's.
    #[inline(always)]
    fn between_v4(addresses: &[u8; 8], layers: &Layers) -> (Self, bool) {
        let ends = u64::from_be_bytes(*addresses);
        let (src, dst) = ((ends >> 32) as u32, ends as u32);
        let [from, to] = layers.ports.map(u32::from);
        let end = |address, port| u64::from(address) << 16 | u64::from(port);
        let lower_first = end(src, from) <= end(dst, to);
        let (low, high) = if lower_first { (src, dst) } else { (dst, src) };
        let ports = (from | to << 16).rotate_left(if lower_first { 0 } else { 16 });
        let address = |v4: u32| (0xffff_0000_0000 | u128::from(v4)).to_be_bytes();
        let addr = [address(low), address(high)];
        let port = [ports as u16, (ports >> 16) as u16];
        (Self { addr, port, space: Space::default(), proto: layers.ip_proto }, lower_first)
    }

    fn of_any(packet: &Packet<'_>, layers: &Layers) -> Option<(Self, bool)> {
        let (src, mut dst) = addresses(packet, layers)?;
        if layers.source_routed {
            dst = final_destination(packet.data, layers).unwrap_or(dst);
        }
        let (proto, space) = (layers.ip_proto, Space::of(layers.within));
        let ports = match proto {
            ICMP | ICMPV6 => match icmp_ports(layers) {
                Some(ports) => ports,
                None => return Some((Self { addr: [src, dst], port: layers.ports, space, proto }, true)),
            },
            _ => layers.ports,
        };
        // As numbers: comparing and exchanging arrays of bytes costs as much as decoding the packet.
        let (low, high) = (u128::from_be_bytes(src), u128::from_be_bytes(dst));
        let lower_first = (low, ports[0]) <= (high, ports[1]);
        let (addr, port) = if lower_first { ([src, dst], ports) } else { ([dst, src], [ports[1], ports[0]]) };
        Some((Self { addr, port, space, proto }, lower_first))
    }

    /// Whether the flow has ICMP messages without a reply. Messages of the other direction are another flow, and the
    /// ports are type and code.
    pub fn is_one_way(&self) -> bool {
        matches!(self.proto, ICMP | ICMPV6)
            && self.port != [0, 0]
            && icmp_counterpart(self.proto, self.port[0]).is_none()
    }
}

/// Whether a filter with fixed offsets reads from the packet exactly what its [`FlowKey`] holds. This is so if the
/// packet is plain ([`Layers::is_plain_ip`]) and is not an IPv6 packet between two IPv4-mapped addresses, whose key
/// equals that of an IPv4 packet.
#[inline]
pub fn shows_its_key(packet: &Packet<'_>, layers: &Layers) -> bool {
    layers.common || may_show_its_key(packet, layers)
}

fn may_show_its_key(packet: &Packet<'_>, layers: &Layers) -> bool {
    layers.may_be_plain_ip(packet.link)
        && (layers.network_kind != Network::Ipv6 || !is_mapped_both_ways(packet, layers))
}

/// Whether source and destination of an IPv6 packet are in ::ffff:0:0/96.
fn is_mapped_both_ways(packet: &Packet<'_>, layers: &Layers) -> bool {
    let is_mapped = |address: [u8; 16]| address.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    addresses(packet, layers).is_none_or(|(source, destination)| is_mapped(source) && is_mapped(destination))
}

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// The types of a message and of its counterpart; `None` for a message without one.
fn icmp_ports(layers: &Layers) -> Option<[u16; 2]> {
    if !layers.has_transport() {
        return Some([0, 0]);
    }
    let kind = layers.ports[0];
    icmp_counterpart(layers.ip_proto, kind).map(|counterpart| [kind, counterpart])
}

/// The ICMP (`proto` 1) or ICMPv6 (58) type that pairs with `kind` as request or reply; `None` if it has no
/// counterpart. The pairs are those of the Community ID specification, taken from Zeek.
pub fn icmp_counterpart(proto: u8, kind: u16) -> Option<u16> {
    const PAIRS: [(u16, u16); 5] = [(8, 0), (10, 9), (13, 14), (15, 16), (17, 18)];
    const PAIRS_V6: [(u16, u16); 6] =
        [(128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)];
    let pairs: &[(u16, u16)] = match proto {
        ICMP => &PAIRS,
        ICMPV6 => &PAIRS_V6,
        _ => return None,
    };
    pairs.iter().find_map(|&(a, b)| match kind {
        kind if kind == a => Some(b),
        kind if kind == b => Some(a),
        _ => None,
    })
}

/// An IPv4 address mapped into IPv6 (RFC 4291 2.5.5.2).
#[inline]
pub fn mapped(v4: [u8; 4]) -> [u8; 16] {
    (0xffff_0000_0000 | u128::from(u32::from_be_bytes(v4))).to_be_bytes()
}

/// Source and destination address of an IP packet as its header has them, IPv4 mapped into IPv6.
#[inline]
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

/// The last hop of an IPv6 routing header if [`Layers::source_routed`] is set: types 0 and 2 (RFC 5095, RFC 6275 6.4)
/// and segment routing (RFC 8754 2).
#[cold]
pub fn final_destination(data: &[u8], layers: &Layers) -> Option<[u8; 16]> {
    const ROUTING: u8 = 43;
    let mut next = *data.get(layers.network as usize + 6)?;
    let mut header = data.get(layers.network as usize + 40..layers.transport as usize)?;
    loop {
        let &[after, len, kind, left, ..] = header.first_chunk::<8>()?;
        let size = if next == AH { (usize::from(len) + 2) * 4 } else { (usize::from(len) + 1) * 8 };
        if next == ROUTING && left != 0 {
            let addresses = header.get(8..size)?;
            return match kind {
                0 | 2 => addresses.last_chunk::<16>().copied(),
                4 => addresses.first_chunk::<16>().copied(),
                _ => None,
            };
        }
        // A fragment header has a reserved byte in place of the length.
        header = header.get(if next == FRAGMENT { 8 } else { size }..)?;
        next = after;
    }
}

const FRAGMENT: u8 = 44;
const AH: u8 = 51;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkType, build, decode};

    #[test]
    fn vlans_that_differ_in_one_tag_are_different_spaces() {
        let distinct = |spaces: Vec<Space>| std::collections::HashSet::<Space>::from_iter(spaces).len();
        let all = 1..4096_u16;
        for one in [1, 7, 100, 4095] {
            assert_eq!(
                distinct(all.clone().map(|inner| Space::of(3).in_vlans([one, inner])).collect()),
                4095
            );
            assert_eq!(
                distinct(all.clone().map(|outer| Space::of(3).in_vlans([outer, one])).collect()),
                4095
            );
        }
        let single: Vec<_> = (0..4096).map(|outer| Space::of(3).in_vlans([outer, 0])).collect();
        assert_eq!(distinct(single.clone()), 4096);
        assert_eq!(single[0], Space::of(3), "no tag, or a priority tag");
        assert_ne!(Space::of(3).in_vlans([7, 9]), Space::of(4).in_vlans([7, 9]));
    }

    #[test]
    fn mapped_ipv6_packet_is_not_plain_for_its_key() {
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let look = |data: &[u8], link| {
            let packet = build::packet(data, link);
            let layers = decode(&packet);
            (shows_its_key(&packet, &layers), FlowKey::of(&packet, &layers))
        };
        let v4 = look(&build::ip().ipv4(a, b).udp(1, 2).payload(b"x"), LinkType::RAW);
        let v6 = look(&build::ip().ipv6(mapped(a), mapped(b)).udp(1, 2).payload(b"x"), LinkType::RAW);
        assert_eq!(v4.1, v6.1);
        assert_eq!((v4.0, v6.0), (true, false));
        for (from, to) in [(mapped(a), [2; 16]), ([2; 16], mapped(b)), ([1; 16], [2; 16])] {
            let data = build::ip().ipv6(from, to).udp(1, 2).payload(b"x");
            assert!(look(&data, LinkType::RAW).0 && look(&data, LinkType::IPV6).0);
            assert!(!look(&data, LinkType::IPV4).0, "a link type of the other IP version");
        }
    }
}
