//! The decoder accepts any bytes: every truncation of good packets, and random bytes under every link type.

use proptest::prelude::*;
use weir_wire::build::{self, flags};
use weir_wire::{
    ErrorKind, FlowKey, IpFragment, Layer, Layers, LinkType, Network, Packet, Time, checksum, decapsulate,
    decode, innermost, steer_hash, verify,
};

const LINKS: [LinkType; 15] = [
    LinkType::ETHERNET,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::RAW,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::PPP,
    LinkType::PPP_HDLC,
    LinkType::PPP_ETHER,
    LinkType::C_HDLC,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::IEEE802_11,
    LinkType::IEEE802_11_RADIOTAP,
    LinkType(147),
];

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Good packets that together contain every header of the builder.
fn samples() -> Vec<Vec<u8>> {
    vec![
        build::ethernet().ipv4(A, B).tcp(1, 2, flags::SYN).options(&[2, 4, 5, 0xb4]).payload(b""),
        build::ethernet()
            .vlan(1)
            .vlan(2)
            .vlan(3)
            .ipv4(A, B)
            .options(&[1, 1, 1, 1])
            .udp(1, 53)
            .payload(b"abc"),
        build::ethernet().mpls(16).mpls(17).ipv6(V6, V6).tcp(1, 2, flags::ACK).payload(b"x"),
        build::ethernet()
            .pppoe(5)
            .ipv6(V6, V6)
            .extension(0, &[0; 7])
            .extension(60, &[0; 7])
            .udp(1, 2)
            .payload(b"x"),
        build::ethernet().ipv4(A, B).icmp(8, 0, [0; 4]).payload(b"ping"),
        build::ethernet().ipv6(V6, V6).icmp(135, 0, [0; 4]).payload(&[0; 16]),
        build::ethernet().ipv4(A, B).gre().frame().vlan(9).ipv4(B, A).udp(7, 8).payload(b"inner"),
        build::ethernet().ipv4(A, B).udp(1, 4789).raw(&VXLAN).frame().ipv4(A, B).tcp(1, 2, 2).payload(b""),
        build::ethernet().ipv4(A, B).ipv6(V6, V6).ipv4(A, B).udp(1, 2).payload(b"three"),
        build::ethernet().ipv4(A, B).fragment(7, 0, true).udp(1, 2).payload(&[0; 24]),
        build::ethernet().ipv4(A, B).fragment(7, 32, false).proto(17).raw(&[1; 16]).payload(b""),
    ]
}

const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 7, 0];

/// Calls every function that accepts any bytes.
fn exercise(packet: &Packet<'_>) {
    let mut level = Some(decode(packet));
    let mut last = 0;
    while let Some(layers) = level {
        assert!(layers.link >= last, "{layers:?}");
        last = layers.link;
        let end = u64::from(packet.wire_len.max(packet.data.len() as u32));
        assert!(u64::from(layers.payload) + u64::from(layers.payload_len) <= end, "{layers:?}");
        assert!(
            u64::from(layers.network) + u64::from(layers.network_len) <= end || !is_ip(&layers),
            "{layers:?}"
        );
        assert!(layers.payload_of(packet.data).len() <= layers.payload_len as usize);
        FlowKey::of(packet, &layers);
        IpFragment::of(packet, &layers);
        verify(packet, &layers);
        steer_hash(packet, &layers);
        checksum::fill(&mut packet.data.to_vec(), &layers);
        level = decapsulate(packet, &layers);
    }
    innermost(packet, &decode(packet));
}

fn is_ip(layers: &Layers) -> bool {
    matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6)
}

#[test]
fn every_truncation_keeps_the_earlier_layers() {
    for sample in samples() {
        let whole = build::packet(&sample, LinkType::ETHERNET);
        let layers = decode(&whole);
        assert_eq!(layers.error, None, "{layers:?}");
        for len in 0..sample.len() {
            let cut = Packet { data: &sample[..len], ..whole };
            exercise(&cut);
            let part = decode(&cut);
            if is_ip(&part) {
                let network =
                    |l: &Layers| (l.network_kind, l.network, l.network_len, l.ttl, l.vlan, l.mpls_count);
                assert_eq!(network(&part), network(&layers), "{len}");
            }
            if part.transport != 0 && part.has_transport() {
                let transport = |l: &Layers| (l.transport, l.ports, l.tcp_flags, l.payload, l.payload_len);
                assert_eq!(transport(&part), transport(&layers), "{len}");
            }
            // Bytes that are not read may be missing: TCP options, and the part of an ICMP header that depends on its
            // type.
            let needed = match layers.ip_proto {
                1 | 58 => layers.transport + 4,
                6 => layers.transport + 20,
                _ => layers.payload,
            };
            if len < needed as usize {
                assert!(part.error.is_some_and(|error| error.kind == ErrorKind::Truncated), "{len} {part:?}");
            }
        }
    }
}

#[test]
fn every_truncation_under_every_link_type() {
    for sample in samples() {
        for link in LINKS {
            for len in 0..sample.len() {
                let data = &sample[sample.len() - len..];
                exercise(&build::packet(data, link));
            }
        }
    }
}

#[test]
fn an_unknown_link_type_is_named() {
    let layers = decode(&build::packet(&[0; 64], LinkType(147)));
    let error = layers.error.expect("an error");
    assert_eq!((error.layer, error.kind), (Layer::Link, ErrorKind::UnknownLink));
}

fn packet(data: &[u8], link: LinkType, wire_len: u32) -> Packet<'_> {
    Packet { time: Time(0), data, wire_len, interface: 0, link, hints: weir_wire::Hints(0), number: 0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn random_bytes(data in prop::collection::vec(any::<u8>(), 0..200), wire_len in any::<u32>()) {
        for link in LINKS {
            exercise(&packet(&data, link, wire_len));
            exercise(&packet(&data, link, data.len() as u32));
        }
    }

    /// Random bytes rarely decode far, so these start as a good packet and have some bytes changed.
    #[test]
    fn damaged_packets(
        sample in 0..11_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        len in any::<prop::sample::Index>(),
    ) {
        let mut data = samples().swap_remove(sample);
        for (at, byte) in damage {
            let at = at.index(data.len());
            data[at] = byte;
        }
        exercise(&packet(&data, LinkType::ETHERNET, data.len() as u32));
        exercise(&packet(&data[..len.index(data.len())], LinkType::ETHERNET, data.len() as u32));
    }
}
