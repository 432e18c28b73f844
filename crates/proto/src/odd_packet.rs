//! Packets and fragments that IP, TCP, UDP and ICMP do not allow, or that no common system sends.

/// What is odd about a single packet, or about a fragment and those before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum OddPacket {
    /// An IPv4 header states a total length of 0, as before segmentation offload.
    IpLenZero,
    /// An IP header states more bytes than the frame had on the wire.
    IpLenBeyondFrame,
    /// The options of an IPv4 header were not captured.
    IpHeaderNotCaptured,
    /// No header follows the last IPv6 header (RFC 8200 4.7), outside of tunnels.
    NoNextHeader,
    /// An IPv6 routing header of type 0, which RFC 5095 deprecates.
    Routing0,
    /// A routing header of type 0 that holds a part of an address.
    Routing0Len,
    /// A routing header of type 2 (RFC 6275 6.4) of another length than its own.
    Routing2Len,
    /// A routing header of another type.
    RoutingType,
    /// A routing header after one that names the final destination.
    RoutingTwice,
    /// The IP packet is shorter than the smallest header of TCP, UDP or ICMP.
    ShortHeader,
    /// The smallest header of TCP, UDP or ICMP was not captured.
    HeaderNotCaptured,
    /// The offset of the data in a TCP header is less than 20 bytes.
    TcpHeaderLen,
    /// A TCP header with options ends after the packet, or was not captured.
    TcpHeaderCut,
    /// The length in a UDP header is not that of the IP packet's payload.
    UdpLen,
    /// A router advertisement (RFC 4861 4.2) ends before its options begin.
    RouterAdvertisementCut,
    /// A neighbour advertisement (RFC 4861 4.4) ends before its options begin.
    NeighborAdvertisementCut,
    /// A neighbour solicitation (RFC 4861 4.3) ends before its options begin.
    NeighborSolicitationCut,
    /// A redirect (RFC 4861 4.5) ends before its options begin.
    RedirectCut,
    /// An option of neighbour discovery (RFC 4861 4.6) ends before its length.
    NdOptionCut,
    /// An option of neighbour discovery has the length 0.
    NdOptionZero,
    /// A report or done message of MLD version 1 (RFC 2710 3) without its address.
    Mld1Cut,
    /// A report of MLD version 2 (RFC 3810 5.2) has no room for the stated number of records.
    Mld2Cut,
    /// A record in a report of MLD version 2 ends after the message.
    Mld2RecordCut,
    /// A fragment was not captured whole.
    FragmentNotCaptured,
    /// A fragment that must not be fragmented: DF is set (RFC 791 2.3).
    FragmentDf,
    /// A fragment of less than 64 bytes, header included, that is not the last.
    FragmentSmall,
    /// A fragment that ends after 64,000 bytes of its packet.
    FragmentLarge,
    /// Fragments disagree about the end of their packet.
    FragmentSize,
    /// Fragments have IP headers of different lengths, or in IPv6 of different protocols.
    FragmentProtocol,
    /// Fragments overlap, with equal bytes.
    FragmentOverlap,
    /// Fragments overlap, with different bytes.
    FragmentConflict,
    /// A SYN has a window scale of more than 14 (RFC 7323 2.3).
    WindowScale,
    /// An IPv4 header has a wrong checksum.
    IpChecksum,
    /// A TCP segment has a wrong checksum.
    TcpChecksum,
    /// A UDP datagram has a wrong checksum.
    UdpChecksum,
    /// An ICMP or ICMPv6 message has a wrong checksum.
    IcmpChecksum,
    /// A GRE header (RFC 2784) or that of the content ends after the packet.
    GreCut,
    /// A GRE header has a version other than 0 and 1.
    GreVersion,
    /// A GRE header of version 1 (RFC 2637 4.1) announces something other than PPP.
    GreProtocol,
    /// A GRE header has a source route, which RFC 2784 dropped.
    GreRouting,
    /// A GRE header has a flag that is reserved.
    GreFlags,
    /// The PPP frame in a GRE tunnel of version 1 has no IP packet.
    GreContent,
    /// An IPv6 fragment header of a packet that has no other fragment: an atomic fragment (RFC 6946).
    FragmentHeaderUseless,
    /// More than one fragment header in an IPv6 packet (RFC 8200 4.1).
    FragmentHeaderTwice,
    /// An IPv6 fragment that is not the last, with a length that is no multiple of 8 (RFC 8200 4.5).
    FragmentLen,
}

/// What tells an oddity in Zeek, and so the columns of its row.
#[derive(Clone, Copy)]
enum Scope {
    /// The reader of IP headers: the row names no hosts.
    IpHeader,
    /// The reader of IP packets: the row names the hosts.
    Ip,
    /// The reader of TCP, UDP or ICMP, before it has a connection: the row names the hosts.
    Transport,
    /// The same with a connection.
    Connection,
    /// The reader of ICMPv6's neighbour discovery: the row names no hosts.
    Discovery,
    /// Extension headers and reassembly: the row names the hosts and no source.
    Hosts,
    /// The reader of GRE headers: the row names the hosts.
    Gre,
    /// Nothing: the name is Suricata's.
    Suricata,
}

/// Every oddity with Zeek's name, or Suricata's if Zeek has none, in the order of the enumeration.
static ALL: [(OddPacket, Scope, &str); 45] = {
    use {OddPacket as P, Scope as S};
    [
        (P::IpLenZero, S::IpHeader, "ip_hdr_len_zero"),
        (P::IpLenBeyondFrame, S::IpHeader, "truncated_IP_len"),
        (P::IpHeaderNotCaptured, S::IpHeader, "internally_truncated_header"),
        (P::NoNextHeader, S::Ip, "ipv6_no_next"),
        (P::Routing0, S::Hosts, "routing0_hdr"),
        (P::Routing0Len, S::Hosts, "odd_routing0_len"),
        (P::Routing2Len, S::Hosts, "bad_routing2_len"),
        (P::RoutingType, S::Hosts, "unknown_routing_type"),
        (P::RoutingTwice, S::Hosts, "multiple_routing_headers"),
        (P::ShortHeader, S::Transport, "truncated_header"),
        (P::HeaderNotCaptured, S::Transport, "internally_truncated_header"),
        (P::TcpHeaderLen, S::Connection, "bad_TCP_header_len"),
        (P::TcpHeaderCut, S::Connection, "truncated_header"),
        (P::UdpLen, S::Connection, "UDP_datagram_length_mismatch"),
        (P::RouterAdvertisementCut, S::Discovery, "icmp6_ra_bad_opt_offset"),
        (P::NeighborAdvertisementCut, S::Discovery, "icmp6_na_bad_opt_offset"),
        (P::NeighborSolicitationCut, S::Discovery, "icmp6_ns_bad_opt_offset"),
        (P::RedirectCut, S::Discovery, "icmp6_redirect_bad_opt_offset"),
        (P::NdOptionCut, S::Connection, "truncated_ICMPv6_ND_options"),
        (P::NdOptionZero, S::Connection, "zero_length_ICMPv6_ND_option"),
        (P::Mld1Cut, S::Connection, "truncated_ICMPv6_MLDv1"),
        (P::Mld2Cut, S::Connection, "truncated_ICMPv6_MLDv2"),
        (P::Mld2RecordCut, S::Connection, "truncated_ICMPv6_MLDv2_record"),
        (P::FragmentNotCaptured, S::Ip, "incompletely_captured_fragment"),
        (P::FragmentDf, S::Hosts, "fragment_with_DF"),
        (P::FragmentSmall, S::Hosts, "excessively_small_fragment"),
        (P::FragmentLarge, S::Hosts, "excessively_large_fragment"),
        (P::FragmentSize, S::Hosts, "fragment_size_inconsistency"),
        (P::FragmentProtocol, S::Hosts, "fragment_protocol_inconsistency"),
        (P::FragmentOverlap, S::Hosts, "fragment_overlap"),
        (P::FragmentConflict, S::Hosts, "fragment_inconsistency"),
        (P::WindowScale, S::Connection, "TCP_scale_range"),
        (P::IpChecksum, S::Ip, "bad_IP_checksum"),
        (P::TcpChecksum, S::Connection, "bad_TCP_checksum"),
        (P::UdpChecksum, S::Connection, "bad_UDP_checksum"),
        (P::IcmpChecksum, S::Connection, "bad_ICMP_checksum"),
        (P::GreCut, S::Gre, "truncated_GRE"),
        (P::GreVersion, S::Gre, "unknown_gre_version"),
        (P::GreProtocol, S::Gre, "egre_protocol_type"),
        (P::GreRouting, S::Gre, "gre_routing"),
        (P::GreFlags, S::Gre, "unknown_gre_flags"),
        (P::GreContent, S::Gre, "non_ip_packet_in_encap"),
        (P::FragmentHeaderUseless, S::Suricata, "exthdr_useless_fh"),
        (P::FragmentHeaderTwice, S::Suricata, "exthdr_dupl_fh"),
        (P::FragmentLen, S::Suricata, "frag_invalid_length"),
    ]
};

/// The end of a name for a packet in a tunnel.
const IN_TUNNEL: &str = "_in_tunnel";

impl OddPacket {
    /// A bit of its own, for sets.
    pub const fn bit(self) -> u64 {
        1 << self as u32
    }

    /// The event, if it is not the name in lower case: two oddities with different rows have one name in Zeek.
    const fn event(self) -> Option<&'static str> {
        match self {
            Self::IpHeaderNotCaptured => Some("internally_truncated_ip_header"),
            Self::TcpHeaderCut => Some("truncated_tcp_header"),
            _ => None,
        }
    }

    /// Its words, for a packet of that IP protocol.
    pub(crate) fn words(self, protocol: u8, in_tunnel: bool) -> Words {
        let (scope, name) =
            ALL.get(self as usize).map_or((Scope::Hosts, ""), |(_, scope, name)| (*scope, *name));
        let tells_tunnel = matches!(scope, Scope::IpHeader | Scope::Ip | Scope::Transport | Scope::Gre);
        let end = if in_tunnel && tells_tunnel { IN_TUNNEL } else { "" };
        let source = match (scope, protocol) {
            (Scope::Hosts | Scope::Suricata, _) => None,
            (Scope::IpHeader | Scope::Ip, _) => Some("IP"),
            (Scope::Gre, _) => Some("GRE"),
            (_, 6) => Some("TCP"),
            (_, 17) => Some("UDP"),
            _ => Some("ICMP"),
        };
        let event = format!("{}{end}", self.event().unwrap_or(name)).to_ascii_lowercase();
        Words { source, name: format!("{name}{end}"), event }
    }
}

/// The words of an oddity's record.
pub(crate) struct Words {
    /// What tells it in Zeek.
    pub source: Option<&'static str>,
    /// Zeek's name.
    pub name: String,
    /// Its event, in lower case.
    pub event: String,
}

/// What a row of Zeek's names in `uid` and `id`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ZeekEnds {
    /// A connection.
    Connection,
    /// The sender and the receiver of a packet, with port 0 and without `uid`.
    Hosts,
    /// Neither.
    None,
}

/// What Zeek's row of an oddity names, by the event of its record; `None` if Zeek has no name for it.
pub(crate) fn zeek_ends(event: &[u8]) -> Option<ZeekEnds> {
    let event = event.strip_suffix(IN_TUNNEL.as_bytes()).unwrap_or(event);
    let is_it = |(odd, _, name): &&(OddPacket, Scope, &str)| {
        odd.event().unwrap_or(name).as_bytes().eq_ignore_ascii_case(event)
    };
    match ALL.iter().find(is_it) {
        Some((_, Scope::Suricata, _)) => None,
        Some((_, Scope::IpHeader | Scope::Discovery, _)) => Some(ZeekEnds::None),
        Some((_, Scope::Ip | Scope::Transport | Scope::Hosts | Scope::Gre, _)) => Some(ZeekEnds::Hosts),
        Some((_, Scope::Connection, _)) | None => Some(ZeekEnds::Connection),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_oddity_has_its_place_its_bit_and_an_event_of_its_own() {
        for (at, (odd, _, name)) in ALL.iter().enumerate() {
            assert_eq!(*odd as usize, at, "{name}");
        }
        let event = |odd: OddPacket, name: &str| odd.event().unwrap_or(name).to_ascii_lowercase();
        let events: BTreeSet<String> = ALL.iter().map(|(odd, _, name)| event(*odd, name)).collect();
        assert_eq!(events.len(), ALL.len());
        assert_eq!(ALL.iter().fold(0_u64, |bits, (odd, ..)| bits ^ odd.bit()), (1 << ALL.len()) - 1);
    }
}
