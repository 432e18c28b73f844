//! Compares with etherparse: packets that it builds are decoded to the fields they were built from, and both agree on
//! damaged packets.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use weir_wire::{Checksum, LinkType, Network, build, decode, verify};

/// Stands for ICMPv6 in IPv6.
const ICMP: u8 = 1;

/// A packet built by etherparse.
fn built(vlan: Option<u16>, v6: bool, proto: u8, ports: [u16; 2], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let step = PacketBuilder::ethernet2([1; 6], [2; 6]);
    let (a, b, a6, b6) = ([10, 1, 2, 3], [10, 3, 2, 1], [0x20; 16], [0xfe; 16]);
    let ip = match (vlan, v6) {
        (Some(id), false) => {
            step.single_vlan(etherparse::VlanId::try_new(id & 0xfff).expect("12 bits")).ipv4(a, b, ttl)
        }
        (Some(id), true) => {
            step.single_vlan(etherparse::VlanId::try_new(id & 0xfff).expect("12 bits")).ipv6(a6, b6, ttl)
        }
        (None, false) => step.ipv4(a, b, ttl),
        (None, true) => step.ipv6(a6, b6, ttl),
    };
    let mut out = Vec::new();
    match proto {
        6 => ip.tcp(ports[0], ports[1], 7, 1000).syn().write(&mut out, payload),
        17 => ip.udp(ports[0], ports[1]).write(&mut out, payload),
        _ if v6 => ip.icmpv6_echo_request(1, 2).write(&mut out, payload),
        _ => ip.icmpv4_echo_request(1, 2).write(&mut out, payload),
    }
    .expect("writing into a vector does not fail");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn packets_built_by_etherparse_decode_to_their_fields(
        vlan in prop::option::of(any::<u16>()),
        v6 in any::<bool>(),
        proto in prop::sample::select(vec![ICMP, 6, 17]),
        ports in any::<[u16; 2]>(),
        ttl in any::<u8>(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let data = built(vlan, v6, proto, ports, ttl, &payload);
        let packet = build::packet(&data, LinkType::ETHERNET);
        let layers = decode(&packet);
        prop_assert_eq!(layers.error, None);
        prop_assert_eq!(layers.network_kind, if v6 { Network::Ipv6 } else { Network::Ipv4 });
        prop_assert_eq!((layers.ttl, layers.ip_proto), (ttl, if v6 && proto == ICMP { 58 } else { proto }));
        prop_assert_eq!(layers.vlan[0], vlan.map_or(0, |id| id & 0xfff));
        prop_assert_eq!(layers.payload_of(&data), &payload[..]);
        match proto {
            6 | 17 => prop_assert_eq!(layers.ports, ports),
            _ => prop_assert_eq!(layers.ports, if v6 { [128, 0] } else { [8, 0] }),
        }
        let sums = verify(&packet, &layers);
        prop_assert_eq!(sums.transport, Checksum::Good);
        prop_assert_eq!(sums.network, if v6 { Checksum::Absent } else { Checksum::Good });
    }

    #[test]
    fn damaged_packets_decode_as_etherparse_reads_them(
        v6 in any::<bool>(),
        proto in prop::sample::select(vec![ICMP, 6, 17]),
        payload in prop::collection::vec(any::<u8>(), 0..40),
        damage in prop::collection::vec((12_usize..60, any::<u8>()), 0..4),
    ) {
        let mut data = built(None, v6, proto, [1, 2], 64, &payload);
        for (at, byte) in damage {
            let at = at.min(data.len() - 1);
            data[at] = byte;
        }
        let layers = decode(&build::packet(&data, LinkType::ETHERNET));
        // etherparse refuses more packets than the decoder does; those that it accepts must give equal results.
        let Ok(theirs) = SlicedPacket::from_ethernet(&data) else { return Ok(()) };
        match theirs.net {
            Some(NetSlice::Ipv4(ip)) => {
                prop_assert_eq!(layers.network_kind, Network::Ipv4);
                prop_assert_eq!(layers.ttl, ip.header().ttl());
                prop_assert_eq!(layers.network_len, u32::from(ip.header().total_len()));
            }
            Some(NetSlice::Ipv6(ip)) => {
                prop_assert_eq!(layers.network_kind, Network::Ipv6);
                prop_assert_eq!(layers.ttl, ip.header().hop_limit());
            }
            _ => {}
        }
        match theirs.transport {
            Some(TransportSlice::Tcp(tcp)) => {
                prop_assert_eq!(layers.ports, [tcp.source_port(), tcp.destination_port()]);
                prop_assert_eq!(layers.tcp_flags & 2 != 0, tcp.syn());
                prop_assert_eq!(layers.payload_of(&data), tcp.payload());
            }
            Some(TransportSlice::Udp(udp)) => {
                prop_assert_eq!(layers.ports, [udp.source_port(), udp.destination_port()]);
                prop_assert_eq!(layers.payload_of(&data), udp.payload());
            }
            Some(TransportSlice::Icmpv4(icmp)) => {
                prop_assert_eq!(layers.ports, [u16::from(icmp.type_u8()), u16::from(icmp.code_u8())]);
            }
            Some(TransportSlice::Icmpv6(icmp)) => {
                prop_assert_eq!(layers.ports, [u16::from(icmp.type_u8()), u16::from(icmp.code_u8())]);
            }
            _ => {}
        }
    }
}
