//! The offsets of a packet's layers, and the few fields that all later stages need.

use crate::LinkType;

/// The layers of one level of a packet: of the packet itself, or of the packet that a tunnel carries in it.
///
/// All offsets are into [`crate::Packet::data`]. Lengths are those that the headers claim, so that a packet
/// cut by the snap length is counted with its true size; slices are cut to what was captured.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Layers {
    /// Offset of the link-layer header of this level; for a tunnel without one, of the network header.
    pub link: u32,
    /// Offset of the network header.
    pub network: u32,
    /// Length of the network packet in bytes, header included, as its header claims; 0 without a network header. If
    /// the claim exceeds the frame on the wire, the length of the frame's payload.
    pub network_len: u32,
    /// Offset of the transport header.
    pub transport: u32,
    /// Offset of the transport payload. For a tunnel, the offset of its header: after UDP, or equal to `transport` if
    /// IP carries it directly; [`crate::decapsulate`] finds the carried packet. For a later fragment and for a
    /// protocol whose header is not decoded, equal to `transport`.
    pub payload: u32,
    /// Bytes of transport payload, as the headers claim.
    pub payload_len: u32,
    /// EtherType after any VLAN tags, MPLS labels or PPPoE: of the network header. 0 for an LLC frame that
    /// has none.
    pub ether_type: u16,
    /// Outermost and next VLAN identifiers (12 bits), 0 when absent; deeper ones are only counted.
    pub vlan: [u16; 2],
    /// 0 for a packet outside of tunnels; for a packet in tunnels [`crate::steer_hash`] of the outermost one, plus 1.
    pub within: u16,
    /// Source and destination port; for ICMP and ICMPv6 the type and the code; 0 for other protocols.
    pub ports: [u16; 2],
    /// VLAN tags seen.
    pub vlan_count: u8,
    /// MPLS labels seen.
    pub mpls_count: u8,
    /// Whether a PPPoE session header was passed.
    pub pppoe: bool,
    /// The network protocol.
    pub network_kind: Network,
    /// IP protocol number after any extension headers, including AH (also in IPv4). For a later fragment, the number
    /// in the fragment's header.
    pub ip_proto: u8,
    /// IPv4 time to live, IPv6 hop limit.
    pub ttl: u8,
    /// TCP flags (RFC 9293 3.1): FIN is bit 0.
    pub tcp_flags: u8,
    /// Whether the packet is a fragment, and which one.
    pub fragment: Fragment,
    /// Whether extension headers precede the transport header; in IPv4 this means AH.
    pub extended: bool,
    /// Whether an IPv6 routing header has remaining hops, so that the destination address is not the final one.
    pub source_routed: bool,
    /// Whether the packet has the most common form: TCP or UDP directly in IPv4 without options or fragmentation,
    /// directly in Ethernet, headers fully captured, and no tunnel. Then `network` is 14 and `transport` is 34, and
    /// [`Layers::is_plain_ip`] and [`Layers::has_transport`] hold.
    pub common: bool,
    /// The tunnel at `payload`, if it carries a decodable packet. Never set on a fragment.
    pub tunnel: Tunnel,
    /// The first error of this level. Earlier layers are valid.
    pub error: Option<DecodeError>,
}

impl Layers {
    /// Whether the transport header could be read, so that `ports`, and for TCP the flags, are valid.
    #[inline]
    pub fn has_transport(&self) -> bool {
        self.common || self.may_have_transport()
    }

    /// A bit for each of the first 64 packets, the lowest for the first one: whether it is [`Layers::common`].
    #[inline]
    pub fn common_ones(packets: &[Self]) -> u64 {
        let bits = (0..64).zip(packets).map(|(at, layers)| u64::from(layers.common) << at);
        bits.fold(0, |ones, bit| ones | bit)
    }

    pub(crate) fn may_have_transport(&self) -> bool {
        self.transport != 0
            && self.fragment != Fragment::Later
            && !matches!(
                self.error,
                Some(DecodeError { layer: Layer::Link | Layer::Network | Layer::Transport, .. })
            )
    }

    /// Whether the packet consists of link layer, VLAN tags, one IP header and its transport only: a whole IPv4 or
    /// IPv6 packet without error, tunnel, extension header (including AH), MPLS, PPPoE, LLC or any other
    /// encapsulation, on a link type on which the start of IP is fixed. `link` is [`crate::Packet::link`].
    ///
    /// On a link type that names the version of IP, packets of the other version are not plain.
    ///
    /// A filter with fixed offsets reads from such a packet, byte by byte, exactly the values of its flow key. The
    /// version of IP is the one exception, see [`crate::shows_its_key`].
    #[inline]
    pub fn is_plain_ip(&self, link: LinkType) -> bool {
        self.common || self.may_be_plain_ip(link)
    }

    pub(crate) fn may_be_plain_ip(&self, link: LinkType) -> bool {
        let header = match (link, self.network_kind) {
            (LinkType::ETHERNET, _) => 14,
            // A filter trusts a link type that names the version.
            (LinkType::RAW, _) | (LinkType::IPV4, Network::Ipv4) | (LinkType::IPV6, Network::Ipv6) => 0,
            (LinkType::LINUX_SLL, _) => 16,
            (LinkType::LINUX_SLL2, _) => 20,
            _ => return false,
        };
        // Labels, PPPoE headers and nested frames take bytes that belong to no VLAN tag.
        let tags = u32::from(self.vlan_count) * 4;
        matches!(self.network_kind, Network::Ipv4 | Network::Ipv6)
            && self.error.is_none()
            && self.fragment == Fragment::Whole
            && self.tunnel == Tunnel::None
            && !self.extended
            && self.network.wrapping_sub(self.link) == header + tags
    }

    /// The captured part of the transport payload.
    #[inline]
    pub fn payload_of<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let start = self.payload as usize;
        let end = start.saturating_add(self.payload_len as usize).min(data.len());
        data.get(start..end).unwrap_or_default()
    }
}

/// The kind of network header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Network {
    /// No network header, or one that is not decoded.
    #[default]
    None,
    /// IPv4 (RFC 791).
    Ipv4,
    /// IPv6 (RFC 8200).
    Ipv6,
    /// ARP or RARP (RFC 826).
    Arp,
}

/// Whether a packet is an IP fragment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fragment {
    /// A whole packet.
    #[default]
    Whole,
    /// The first fragment, which has the transport header.
    First,
    /// A later fragment, without a transport header.
    Later,
}

/// A header that carries another packet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Tunnel {
    /// No tunnel.
    #[default]
    None,
    /// IPv4 or IPv6 directly in IP (RFC 2003, RFC 2473, RFC 4213), or MPLS (RFC 4023); `ip_proto` distinguishes them.
    IpInIp,
    /// GRE with a network packet or PPP in it (RFC 2784, RFC 2890, RFC 2637), over IP or UDP (RFC 8086).
    Gre,
    /// GRE with Ethernet in it.
    GreEthernet,
    /// ERSPAN I, II or III.
    Erspan,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// GENEVE (RFC 8926).
    Geneve,
    /// GTP-U version 1 (3GPP TS 29.281).
    GtpU,
    /// L2TP version 2 or 3 over UDP (RFC 2661, RFC 3931).
    L2tp,
    /// Teredo (RFC 4380).
    Teredo,
    /// AYIYA.
    Ayiya,
    /// EtherIP (RFC 3378).
    EtherIp,
    /// CAPWAP data (RFC 5415), with Ethernet or IEEE 802.11 frames.
    Capwap,
}

/// The reason why decoding stopped, and the layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecodeError {
    /// The layer being decoded.
    pub layer: Layer,
    /// The kind of error.
    pub kind: ErrorKind,
}

/// A protocol layer of a packet.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Layer {
    /// Link layer, tags and labels included.
    Link,
    /// Network layer, extension headers included.
    Network,
    /// Transport layer.
    Transport,
    /// The header of a tunnel.
    Tunnel,
}

/// The kinds of error in a header.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ErrorKind {
    /// Fewer bytes than the header needs.
    Truncated,
    /// A length, version or offset that is invalid.
    Malformed,
    /// A link type that is not decoded: the packet is counted and skipped.
    UnknownLink,
    /// Deeper than the limit on tags, labels, extension headers or tunnels.
    TooDeep,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, flags};
    use crate::{decapsulate, decode};

    fn is_plain(data: &[u8], link: LinkType) -> bool {
        let packet = build::packet(data, link);
        decode(&packet).is_plain_ip(link)
    }

    #[test]
    fn layers_fit_into_a_cache_line() {
        assert!(size_of::<Layers>() <= 64);
    }

    #[test]
    fn plain_packets_are_recognised() {
        let v4 = build::ip().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2, flags::ACK).payload(&[0; 9]);
        let v6 = build::ip().ipv6([1; 16], [2; 16]).udp(1, 2).payload(&[0; 9]);
        let sctp = build::ip().ipv6([1; 16], [2; 16]).proto(132).raw(&[0; 12]).payload(&[]);
        for (ip, kind) in [(&v4, 0x0800_u16), (&v6, 0x86dd), (&sctp, 0x86dd)] {
            assert!(is_plain(ip, LinkType::RAW));
            let [same, other] = match kind {
                0x0800 => [LinkType::IPV4, LinkType::IPV6],
                _ => [LinkType::IPV6, LinkType::IPV4],
            };
            assert!(is_plain(ip, same));
            assert!(!is_plain(ip, other), "the version differs from the link type's");
            let ether = |kinds: &[u16]| {
                let mut data = vec![2; 12];
                for (at, tag) in kinds.iter().enumerate() {
                    data.extend_from_slice(&tag.to_be_bytes());
                    if at + 1 < kinds.len() {
                        data.extend_from_slice(&[0, 7]);
                    }
                }
                [&data, ip.as_slice()].concat()
            };
            assert!(is_plain(&ether(&[kind]), LinkType::ETHERNET));
            assert!(is_plain(&ether(&[0x8100, kind]), LinkType::ETHERNET));
            assert!(is_plain(&ether(&[0x88a8, 0x8100, kind]), LinkType::ETHERNET));
            assert!(!is_plain(&ether(&[kind]), LinkType::RAW), "the version is invalid");
            let sll = [&[0, 0, 0, 1, 0, 6, 1, 1, 1, 1, 1, 1, 0, 0][..], &kind.to_be_bytes(), ip].concat();
            assert!(is_plain(&sll, LinkType::LINUX_SLL));
            let sll2 = [&kind.to_be_bytes()[..], &[0; 6], &[0, 1, 0, 6], &[0; 8], ip].concat();
            assert!(is_plain(&sll2, LinkType::LINUX_SLL2));
            let loopback = [&[0, 0, 0, if kind == 0x0800 { 2 } else { 24 }][..], ip].concat();
            assert_eq!(decode(&build::packet(&loopback, LinkType::LOOP)).error, None);
            assert!(!is_plain(&loopback, LinkType::LOOP), "a link type without plain packets");
            // Labels, sessions, LLC, frames in frames.
            let frame = |kind: u16, between: &[u8]| {
                [&[2; 12][..], &kind.to_be_bytes(), between, ip.as_slice()].concat()
            };
            let [high, low] = kind.to_be_bytes();
            let snap = [0xaa, 0xaa, 3, 0, 0, 0, high, low];
            let ppp = if kind == 0x0800 { 0x21 } else { 0x57 };
            let bridged = [&[2; 12][..], &[high, low]].concat();
            for data in [
                frame(0x8847, &[0, 0, 0x11, 64]),
                frame(0x8864, &[0x11, 0, 0, 1, 0, 99, 0, ppp]),
                frame(8 + ip.len() as u16, &snap),
                frame(0x6558, &bridged),
                frame(0x8926, &[0, 0, 0, 0, high, low]),
            ] {
                let layers = decode(&build::packet(&data, LinkType::ETHERNET));
                assert!(matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6), "{data:02x?}");
                assert_eq!(layers.error, None);
                assert!(!layers.is_plain_ip(LinkType::ETHERNET), "{data:02x?}");
            }
        }
    }

    #[test]
    fn encapsulated_and_broken_packets_are_not_plain() {
        let tcp = build::ip().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2, flags::ACK).payload(&[0; 9]);
        for len in 0..40 {
            assert!(!is_plain(&tcp[..len], LinkType::RAW), "{len} bytes");
        }
        let (header, rest) = tcp.split_at(20);
        // AH (RFC 4302), of 12 bytes, before TCP.
        let mut ah = [header, &[6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], rest].concat();
        ah[9] = 51;
        let len = (ah.len() as u16).to_be_bytes();
        ah[2..4].copy_from_slice(&len);
        let layers = decode(&build::packet(&ah, LinkType::RAW));
        assert_eq!((layers.ip_proto, layers.ports, layers.error), (6, [1, 2], None));
        assert!(layers.extended && !is_plain(&ah, LinkType::RAW));
        // Hop-by-hop options, and the fragment header of a whole packet (RFC 6946).
        let udp = build::ip().ipv6([1; 16], [2; 16]).udp(1, 2).payload(&[0; 9]);
        for next in [0, 44] {
            let mut data = [&udp[..40], &[17, 0, 0, 0, 0, 0, 0, 0], &udp[40..]].concat();
            data[6] = next;
            data[5] += 8;
            let layers = decode(&build::packet(&data, LinkType::RAW));
            assert_eq!((layers.ports, layers.error, layers.fragment), ([1, 2], None, Fragment::Whole));
            assert!(layers.extended && !is_plain(&data, LinkType::RAW));
        }
        let mut first = tcp.clone();
        first[6] = 0x20;
        assert!(!is_plain(&first, LinkType::RAW));
        let mut later = tcp.clone();
        later[7] = 5;
        assert!(!is_plain(&later, LinkType::RAW));
        let arp = [&[2; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
        assert_eq!(decode(&build::packet(&arp, LinkType::ETHERNET)).network_kind, Network::Arp);
        assert!(!is_plain(&arp, LinkType::ETHERNET));
        // A tunnel is not plain; the carried packet may be.
        let gre = build::ip().ipv4([1; 4], [2; 4]).gre().ipv4([3; 4], [4; 4]).udp(1, 2).payload(b"x");
        let packet = build::packet(&gre, LinkType::RAW);
        let outer = decode(&packet);
        assert!(!outer.is_plain_ip(LinkType::RAW));
        assert!(decapsulate(&packet, &outer).is_some_and(|inner| inner.is_plain_ip(LinkType::RAW)));
    }
}
