//! The default mode on tags, labels, sessions and tunnels.

// Helpers of tests may panic, as tests may.
#![allow(clippy::unwrap_used)]

use weir_filter::{Filter, Options};
use weir_wire::{Hints, LinkType, Packet, Time, decode};

fn packet(data: &[u8]) -> Packet<'_> {
    Packet {
        time: Time(0),
        data,
        wire_len: data.len() as u32,
        interface: 0,
        link: LinkType::ETHERNET,
        hints: Hints::default(),
        number: 0,
    }
}

/// An Ethernet frame: 02:00:00:00:00:02 to 02:00:00:00:00:01.
fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

fn ipv4(protocol: u8, src: [u8; 4], dst: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0];
    p.extend((20 + payload.len() as u16).to_be_bytes());
    p.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    p.extend(src);
    p.extend(dst);
    p.extend(payload);
    p
}

fn udp(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let mut p = Vec::new();
    for field in [src, dst, 8 + payload.len() as u16, 0] {
        p.extend(field.to_be_bytes());
    }
    p.extend(payload);
    p
}

/// 10.0.0.1:1000 to 10.0.0.2:53.
fn dns() -> Vec<u8> {
    ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], &udp(1000, 53, b"query"))
}

fn tagged(tpid: u16, id: u16, kind: u16, payload: &[u8]) -> (u16, Vec<u8>) {
    let mut p = id.to_be_bytes().to_vec();
    p.extend(kind.to_be_bytes());
    p.extend(payload);
    (tpid, p)
}

fn with(options: Options<'_>, expression: &str, frame: &[u8]) -> bool {
    let filter = Filter::compile(expression, &options).unwrap_or_else(|e| panic!("{e}"));
    let p = packet(frame);
    filter.matches(&p, &decode(&p))
}

fn matches(expression: &str, frame: &[u8]) -> bool {
    with(Options::default(), expression, frame)
}

fn strict(expression: &str, frame: &[u8]) -> bool {
    with(Options { strict_bpf: true, ..Options::default() }, expression, frame)
}

#[test]
fn network_tests_see_through_tags() {
    let (kind, p) = tagged(0x8100, 5, 0x0800, &dns());
    let one = ethernet(kind, &p);
    let (kind, p) = tagged(0x88a8, 7, kind, &p);
    let two = ethernet(kind, &p);
    for frame in [&ethernet(0x0800, &dns()), &one, &two] {
        assert!(matches("udp port 53", frame));
        assert!(matches("ip host 10.0.0.1 and not tcp", frame));
        assert!(matches("udp[8:4] = 0x71756572", frame));
        assert!(!matches("ip6", frame));
    }
    assert!(!strict("udp port 53", &one));
    assert!(strict("vlan 5 and udp port 53", &one));
}

#[test]
fn vlan_is_a_predicate_on_a_tag() {
    let plain = ethernet(0x0800, &dns());
    let (kind, p) = tagged(0x8100, 6, 0x0800, &dns());
    let inner_only = ethernet(kind, &p);
    let (kind, p) = tagged(0x8100, 5, kind, &p);
    let both = ethernet(kind, &p);
    assert!(!matches("vlan", &plain));
    assert!(matches("vlan", &both));
    assert!(matches("vlan 5", &both) && !matches("vlan 6", &both));
    assert!(matches("vlan 6", &inner_only));
    assert!(matches("vlan 5 and vlan 6", &both));
    assert!(!matches("vlan 6 and vlan 5", &both));
    assert!(!matches("vlan 6 and vlan 5", &inner_only));
    assert!(matches("vlan and vlan", &both) && !matches("vlan and vlan", &inner_only));
    // Alternatives test the same tag, and later tests are not moved.
    assert!(matches("vlan 6 or vlan 5", &both) && matches("vlan 6 or vlan 5", &inner_only));
    assert!(matches("(vlan 6 or vlan 5) and vlan 6", &both));
    assert!(matches("not vlan and udp", &plain));
    assert!(matches("vlan 9 or udp port 53", &plain) && matches("vlan 9 or udp port 53", &both));
    assert!(matches("not vlan 9 and vlan 5 and udp", &both));
}

#[test]
fn link_offsets_read_the_captured_frame() {
    let (kind, p) = tagged(0x8100, 5, 0x0800, &dns());
    let frame = ethernet(kind, &p);
    assert!(matches("ether[12:2] = 0x8100 and ether[14:2] & 0xfff = 5 and udp", &frame));
    assert!(matches("ether proto 0x8100 and ether proto \\ip", &frame));
    assert!(!matches("ether proto 0x8847", &frame));
    assert!(matches("ether host 02:00:00:00:00:01", &frame));
    assert!(!matches("ether proto 0x8100", &ethernet(0x0800, &dns())));
}

#[test]
fn labels_and_sessions_are_looked_through() {
    let mut mpls = vec![0, 0x01, 0x00, 64, 0, 0x02, 0x11, 64];
    mpls.extend(dns());
    let frame = ethernet(0x8847, &mpls);
    assert!(matches("udp port 53", &frame));
    assert!(matches("mpls 16 and mpls 33 and udp", &frame) && !matches("mpls 33", &frame));
    assert!(matches("mpls", &frame) && !matches("mpls and mpls and mpls", &frame));
    assert!(strict("mpls 16 and mpls 33 and udp port 53", &frame) && !strict("udp", &frame));
    let mut pppoe = vec![0x11, 0, 0, 0x3b, 0, 40, 0, 0x21];
    pppoe.extend(dns());
    let (kind, p) = tagged(0x8100, 5, 0x8864, &pppoe);
    let frame = ethernet(kind, &p);
    assert!(matches("pppoes 59 and vlan 5 and udp port 53", &frame));
    assert!(matches("udp port 53 and vlan 5", &frame));
    assert!(!matches("pppoes 58", &frame) && matches("not pppoes 58", &frame));
}

#[test]
fn a_frame_after_a_label_is_looked_through() {
    // A pseudowire with a control word (RFC 4448).
    let mut mpls = vec![0, 0x01, 0x01, 64, 0, 0, 0, 0];
    mpls.extend(ethernet(0x0800, &dns()));
    let frame = ethernet(0x8847, &mpls);
    assert!(matches("mpls 16 and udp port 53", &frame) && !matches("ip6", &frame));
}

#[test]
fn a_truncated_tag_is_no_tag() {
    let (kind, p) = tagged(0x8100, 5, 0x0800, &dns());
    let frame = ethernet(kind, &p);
    for len in 0..frame.len() {
        let cut = &frame[..len];
        assert_eq!(matches("vlan", cut), len >= 18, "{len}");
        assert!(!matches("udp port 53", cut) || len >= 18 + 24);
    }
}

#[test]
fn inner_selects_the_innermost_packet_of_tunnels() {
    let inner = Options { inner: true, ..Options::default() };
    let frame = ethernet(0x0800, &ipv4(4, [1, 1, 1, 1], [2, 2, 2, 2], &dns()));
    assert!(with(inner, "udp port 53 and host 10.0.0.1", &frame));
    assert!(!with(inner, "host 1.1.1.1", &frame));
    assert!(matches("host 1.1.1.1", &frame) && !matches("host 10.0.0.1", &frame));
    let mut vxlan = vec![8, 0, 0, 0, 0, 0, 100, 0];
    let (kind, p) = tagged(0x8100, 5, 0x0800, &dns());
    vxlan.extend(ethernet(kind, &p));
    let frame = ethernet(0x0800, &ipv4(17, [1, 1, 1, 1], [2, 2, 2, 2], &udp(5000, 4789, &vxlan)));
    assert!(with(inner, "vlan 5 and udp port 53 and ether host 02:00:00:00:00:01", &frame));
    assert!(!with(inner, "udp port 4789", &frame));
    assert!(matches("vxlan 100", &frame) && !matches("vxlan 101", &frame));
    assert!(matches("vxlan and vlan 5 and udp port 53", &frame));
    // A packet without a tunnel is its own innermost packet.
    assert!(with(inner, "udp port 53", &ethernet(0x0800, &dns())));
}

#[test]
fn direction_is_available_for_live_packets() {
    let frame = ethernet(0x0800, &dns());
    let live = Options { live: true, ..Options::default() };
    let filter = Filter::compile("outbound and udp", &live).unwrap();
    let mut p = packet(&frame);
    assert!(!filter.matches(&p, &decode(&p)));
    p.hints = Hints::OUTBOUND;
    assert!(filter.matches(&p, &decode(&p)));
    // Cooked captures have the direction in their header, so that only they can match.
    let filter = Filter::compile("outbound", &Options::default()).unwrap();
    assert!(filter.error(LinkType::ETHERNET).is_some() && filter.error(LinkType::LINUX_SLL).is_none());
}
