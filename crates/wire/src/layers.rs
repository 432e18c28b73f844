//! Where the layers of a packet start, and the few fields that everything downstream asks for.

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
    /// Octets of the network packet, header included, as its header claims (0 where there is none to claim it).
    /// Where the header claims more than the frame on the wire holds, what the frame holds.
    pub network_len: u32,
    /// Offset of the transport header.
    pub transport: u32,
    /// Offset of the transport payload. For a tunnel, of its header: after UDP, or where IP carries it directly
    /// the same as `transport`; what it carries is found by [`crate::decapsulate`]. For a later fragment and for
    /// a protocol whose header is not decoded, the same as `transport`.
    pub payload: u32,
    /// Octets of transport payload, as the headers claim.
    pub payload_len: u32,
    /// EtherType after any VLAN tags, MPLS labels or PPPoE: of the network header. 0 for an LLC frame that
    /// has none.
    pub ether_type: u16,
    /// Outermost and next VLAN identifiers (12 bits), 0 when absent; deeper ones are only counted.
    pub vlan: [u16; 2],
    /// Source and destination port; for ICMP and ICMPv6 the type and the code; 0 where there are none.
    pub ports: [u16; 2],
    /// VLAN tags seen.
    pub vlan_count: u8,
    /// MPLS labels seen.
    pub mpls_count: u8,
    /// Whether a PPPoE session header was passed.
    pub pppoe: bool,
    /// What the network header is.
    pub network_kind: Network,
    /// IP protocol number after any extension headers, AH among them (in IPv4 too). For a later fragment, what
    /// the fragment says.
    pub ip_proto: u8,
    /// IPv4 time to live, IPv6 hop limit.
    pub ttl: u8,
    /// TCP flags (RFC 9293 3.1): FIN is bit 0.
    pub tcp_flags: u8,
    /// Whether it is a fragment, and which.
    pub fragment: Fragment,
    /// Whether an IPv6 routing header names hops that are yet to come, so that the destination address is not
    /// the final one.
    pub source_routed: bool,
    /// Which tunnel `payload` is, where it is one that carries something decodable. Never set on a fragment.
    pub tunnel: Tunnel,
    /// The first thing wrong with this level; layers before it are good.
    pub error: Option<DecodeError>,
}

impl Layers {
    /// Whether the transport header was there to be read: `ports`, and for TCP the flags, mean something.
    pub fn has_transport(&self) -> bool {
        self.transport != 0
            && self.fragment != Fragment::Later
            && !matches!(
                self.error,
                Some(DecodeError { layer: Layer::Link | Layer::Network | Layer::Transport, .. })
            )
    }

    /// The captured part of the transport payload.
    pub fn payload_of<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let start = self.payload as usize;
        let end = start.saturating_add(self.payload_len as usize).min(data.len());
        data.get(start..end).unwrap_or_default()
    }
}

/// The kind of network header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Network {
    /// Nothing that is decoded further.
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
    /// It is whole.
    #[default]
    Whole,
    /// It is the first fragment, which has the transport header.
    First,
    /// It is a later fragment: no transport header.
    Later,
}

/// A header that carries another packet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Tunnel {
    /// None.
    #[default]
    None,
    /// IPv4 or IPv6 right in IP (RFC 2003, RFC 2473, RFC 4213), or MPLS (RFC 4023), told by `ip_proto`.
    IpInIp,
    /// GRE with a network packet or PPP in it (RFC 2784, RFC 2890, RFC 2637).
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
}

/// What stopped the decoding, and at which layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecodeError {
    /// The layer being decoded.
    pub layer: Layer,
    /// What was wrong with it.
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

/// The ways in which a header cannot be decoded.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ErrorKind {
    /// Fewer octets than the header needs.
    Truncated,
    /// A length, version or offset that cannot be.
    Malformed,
    /// A link type that is not decoded: the packet is counted and skipped.
    UnknownLink,
    /// Deeper than the limit on tags, labels, extension headers or tunnels.
    TooDeep,
}
