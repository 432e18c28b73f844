//! One test for each tunnel: the carried packet is found, and other traffic on the tunnel's port is not decoded.

use weir_wire::build::{self, Builder, flags};
use weir_wire::{
    ErrorKind, Fragment, Layer, Layers, LinkType, MAX_TUNNELS, Network, Packet, Tunnel, decapsulate, decode,
    innermost,
};

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn levels(frame: &[u8]) -> (Layers, Option<Layers>) {
    let packet = build::packet(frame, LinkType::ETHERNET);
    let outer = decode(&packet);
    (outer, decapsulate(&packet, &outer))
}

fn inner_packet(builder: Builder) -> Vec<u8> {
    builder.tcp(7, 8, flags::SYN).payload(b"inner")
}

/// The outer level is the tunnel, and the inner one is [`inner_packet`], which starts at `link`.
fn carries(frame: &[u8], tunnel: Tunnel, link: u32, kind: Network) {
    let (outer, inner) = levels(frame);
    assert_eq!((outer.error, outer.tunnel), (None, tunnel), "{outer:?}");
    let inner = inner.expect("an inner level");
    assert_eq!((inner.error, inner.link, inner.network_kind), (None, link, kind), "{inner:?}");
    assert_eq!((inner.ip_proto, inner.ports, inner.tcp_flags, inner.payload_len), (6, [7, 8], flags::SYN, 5));
    assert_eq!(inner.payload_of(frame), b"inner");
}

fn over_ip(proto: u8, header: &[u8], inner: &[u8]) -> Vec<u8> {
    build::ethernet().ipv4(A, B).proto(proto).raw(header).raw(inner).payload(b"")
}

fn over_ethernet(kind: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), header, inner].concat()
}

fn over_udp(port: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
    build::ethernet().ipv4(A, B).udp(40_000, port).raw(header).raw(inner).payload(b"")
}

fn v4() -> Vec<u8> {
    inner_packet(build::ip().ipv4(B, A))
}

fn v6() -> Vec<u8> {
    inner_packet(build::ip().ipv6(V6, V6))
}

fn frame() -> Vec<u8> {
    inner_packet(build::ethernet().vlan(3).ipv4(B, A))
}

fn none(frame: &[u8]) {
    let (outer, inner) = levels(frame);
    assert_eq!((outer.tunnel, outer.error, inner), (Tunnel::None, None, None));
}

#[test]
fn ip_in_ip() {
    carries(&over_ip(4, &[], &v4()), Tunnel::IpInIp, 34, Network::Ipv4);
    carries(&over_ip(41, &[], &v6()), Tunnel::IpInIp, 34, Network::Ipv6);
    carries(&inner_packet(build::ethernet().ipv6(V6, V6).ipv4(A, B)), Tunnel::IpInIp, 54, Network::Ipv4);
    carries(
        &inner_packet(build::ethernet().ipv4(A, B).mpls(5).ipv4(A, B)),
        Tunnel::IpInIp,
        34,
        Network::Ipv4,
    );
    carries(&over_ip(97, &[0x30, 0], &frame()), Tunnel::EtherIp, 36, Network::Ipv4);
}

#[test]
fn inner_packet_of_an_invalid_version() {
    let (outer, inner) = levels(&over_ip(4, &[], &[0x60; 40]));
    assert_eq!((outer.error, outer.tunnel), (None, Tunnel::IpInIp));
    let error = inner.and_then(|inner| inner.error).expect("an error");
    assert_eq!((error.layer, error.kind), (Layer::Network, ErrorKind::Malformed));
}

#[test]
fn gre() {
    carries(&over_ip(47, &[0, 0, 8, 0], &v4()), Tunnel::Gre, 38, Network::Ipv4);
    carries(&over_ip(47, &[0, 0, 0x86, 0xdd], &v6()), Tunnel::Gre, 38, Network::Ipv6);
    let all = [&[0xb0, 0, 8, 0][..], &[0; 12]].concat();
    carries(&over_ip(47, &all, &v4()), Tunnel::Gre, 50, Network::Ipv4);
    let routed = [0x40, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0];
    carries(&over_ip(47, &routed, &v4()), Tunnel::Gre, 54, Network::Ipv4);
    carries(&over_ip(47, &[0, 0, 0x65, 0x58], &frame()), Tunnel::GreEthernet, 38, Network::Ipv4);
    // PPTP: key, sequence and acknowledgement, then PPP.
    let pptp = [&[0x30, 0x81, 0x88, 0x0b, 0, 49, 0, 1][..], &[0; 8], &[0xff, 3, 0, 0x21]].concat();
    carries(&over_ip(47, &pptp, &v4()), Tunnel::Gre, 50, Network::Ipv4);
    // Web cache redirection, without and with its header.
    carries(&over_ip(47, &[0, 0, 0x88, 0x3e], &v4()), Tunnel::Gre, 38, Network::Ipv4);
    carries(&over_ip(47, &[0, 0, 0x88, 0x3e, 0, 0, 0, 0], &v4()), Tunnel::Gre, 42, Network::Ipv4);
}

#[test]
fn gre_headers_with_invalid_fields() {
    let error = |header: &[u8]| levels(&over_ip(47, header, &[])).0.error.expect("an error");
    assert_eq!(
        (error(&[0, 2, 8, 0]).layer, error(&[0, 2, 8, 0]).kind),
        (Layer::Tunnel, ErrorKind::Malformed)
    );
    for header in [&[0, 0, 8][..], &[0x80, 0, 8, 0, 0], &[0x40, 0, 8, 0, 0, 0, 0, 0, 1]] {
        assert_eq!((error(header).layer, error(header).kind), (Layer::Tunnel, ErrorKind::Truncated));
    }
    none(&over_ip(47, &[0, 0, 0x12, 0x34], &v4()));
}

#[test]
fn erspan() {
    carries(&over_ip(47, &[0, 0, 0x88, 0xbe], &frame()), Tunnel::Erspan, 38, Network::Ipv4);
    let second = [&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1][..], &[0x10, 0, 0, 0, 0, 0, 0, 0]].concat();
    carries(&over_ip(47, &second, &frame()), Tunnel::Erspan, 50, Network::Ipv4);
    let mut third = [&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1][..], &[0x20; 11], &[0]].concat();
    carries(&over_ip(47, &third, &frame()), Tunnel::Erspan, 54, Network::Ipv4);
    third[19] = 1;
    third.extend([0; 8]);
    carries(&over_ip(47, &third, &frame()), Tunnel::Erspan, 62, Network::Ipv4);
}

#[test]
fn vxlan() {
    for port in [4789, 8472] {
        carries(&over_udp(port, &[8, 0, 0, 0, 0, 0, 1, 0], &frame()), Tunnel::Vxlan, 50, Network::Ipv4);
    }
    carries(&over_udp(4789, &[0x88, 0, 0, 9, 0, 0, 1, 0], &frame()), Tunnel::Vxlan, 50, Network::Ipv4);
    // Other flags: the frame has to fit.
    let short = frame();
    let short = &short[..short.len() - 1];
    for flags in [[0, 0, 0, 0], [8, 0, 1, 0], [0x48, 0, 0, 0], [0xff, 0xff, 0xff, 0xff]] {
        let header = [&flags[..], &[0, 0, 1, 0]].concat();
        carries(&over_udp(4789, &header, &frame()), Tunnel::Vxlan, 50, Network::Ipv4);
        none(&over_udp(4789, &header, short));
    }
    carries(&over_udp(4789, &[0x0c, 0, 0, 1, 0, 0, 1, 0], &v4()), Tunnel::Vxlan, 50, Network::Ipv4);
    none(&over_udp(4789, &[0x0c, 0, 0, 1, 0, 0, 1, 0], &v6()));
    none(&over_udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0], &[0; 5]));
    carries(&over_udp(4790, &[0x0c, 0, 0, 2, 0, 0, 1, 0], &v6()), Tunnel::Vxlan, 50, Network::Ipv6);
}

/// A network service header of 8 bytes in front of a packet of the given kind.
fn nsh(next: u8) -> [u8; 8] {
    [0x0f, 0xc2, 2, next, 0, 0, 1, 255]
}

#[test]
fn network_service_header() {
    let packet = |next, inner: &[u8]| over_ethernet(0x894f, &nsh(next), inner);
    for (next, inner, network) in [(1, v4(), 22), (2, v6(), 22), (3, frame(), 40)] {
        let (outer, _) = levels(&packet(next, &inner));
        assert_eq!((outer.error, outer.network, outer.ports, outer.ip_proto), (None, network, [7, 8], 6));
    }
    let (short, _) = levels(&over_ethernet(0x894f, &[0, 1, 2, 1], &[]));
    assert_eq!(short.error.map(|error| (error.layer, error.kind)), Some((Layer::Link, ErrorKind::Malformed)));
    let gpe = [&[0x0c, 0, 0, 4, 0, 0, 1, 0][..], &nsh(1)].concat();
    carries(&over_udp(4790, &gpe, &v4()), Tunnel::Vxlan, 58, Network::Ipv4);
    let gre = [&[0, 0, 0x89, 0x4f][..], &nsh(3)].concat();
    carries(&over_ip(47, &gre, &frame()), Tunnel::Gre, 46, Network::Ipv4);
}

#[test]
fn virtual_network_tag() {
    let tag = [0x80, 1, 0, 2, 8, 0];
    let (layers, _) = levels(&over_ethernet(0x8926, &tag, &v4()));
    assert_eq!((layers.error, layers.network, layers.ports), (None, 20, [7, 8]));
}

#[test]
fn gre_over_udp() {
    carries(&over_udp(4754, &[0x20, 0, 8, 0, 0, 0, 0, 1], &v4()), Tunnel::Gre, 50, Network::Ipv4);
    none(&over_udp(4754, &[0, 2, 8, 0], &v4()));
}

#[test]
fn capwap_data() {
    // Length 2 words, 802.3; then 802.11 in its own format, with frame control in both orders.
    carries(&over_udp(5247, &[0, 0x10, 0, 0, 0, 0, 0, 0], &frame()), Tunnel::Capwap, 50, Network::Ipv4);
    let llc = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    for control in [[0x08, 1], [1, 0x08]] {
        let header = [&[0, 0x10, 3, 0, 0, 0, 0, 0][..], &control, &[0; 22], &llc].concat();
        carries_behind(&over_udp(5247, &header, &v4()), Tunnel::Capwap, 50);
    }
    // Keep-alive, a fragment, and DTLS.
    none(&over_udp(5247, &[0, 0x10, 0, 8, 0, 0, 0, 0], &frame()));
    none(&over_udp(5247, &[0, 0x10, 0, 0x80, 0, 0, 0, 0], &frame()));
    none(&over_udp(5247, &[1, 0, 0, 0, 0, 0, 0, 0], &frame()));
}

/// The inner level starts at `link`, and [`inner_packet`] is after further headers.
fn carries_behind(frame: &[u8], tunnel: Tunnel, link: u32) {
    let (outer, inner) = levels(frame);
    let inner = inner.expect("an inner level");
    assert_eq!((outer.tunnel, inner.error, inner.link, inner.ports), (tunnel, None, link, [7, 8]));
}

#[test]
fn gtp_u_and_teredo_on_other_ports() {
    let len = v4().len() as u8;
    carries(&over_udp(9000, &[0x30, 255, 0, len, 0, 0, 0, 1], &v4()), Tunnel::GtpU, 50, Network::Ipv4);
    none(&over_udp(9000, &[0x30, 255, 0, len - 1, 0, 0, 0, 1], &v4()));
    none(&over_udp(9000, &[0x30, 255, 0, 40, 0, 0, 0, 1], &[0x45; 40]));
    let teredo = [0x20, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    for ends in [(teredo, V6), (V6, teredo)] {
        let inner = inner_packet(build::ip().ipv6(ends.0, ends.1));
        carries(&over_udp(9000, &[], &inner), Tunnel::Teredo, 42, Network::Ipv6);
        none(&over_udp(9000, &[], &inner[..inner.len() - 1]));
    }
    none(&over_udp(9000, &[], &v6()));
}

#[test]
fn geneve() {
    carries(&over_udp(6081, &[0, 0, 0x65, 0x58, 0, 0, 1, 0], &frame()), Tunnel::Geneve, 50, Network::Ipv4);
    let options = [2, 0, 8, 0, 0, 0, 1, 0, 1, 2, 3, 1, 9, 9, 9, 9];
    carries(&over_udp(6081, &options, &v4()), Tunnel::Geneve, 58, Network::Ipv4);
    none(&over_udp(6081, &[0x40, 0, 8, 0, 0, 0, 1, 0], &v4()));
    none(&over_udp(6081, &[0x3f, 0, 8, 0, 0, 0, 1, 0], &v4()));
}

#[test]
fn gtp_u() {
    let len = v4().len() as u8;
    let plain = [0x30, 255, 0, len, 0, 0, 0, 1];
    carries(&over_udp(2152, &plain, &v4()), Tunnel::GtpU, 50, Network::Ipv4);
    let sequence = [0x32, 255, 0, len + 4, 0, 0, 0, 1, 0, 1, 0, 0];
    carries(&over_udp(2152, &sequence, &v4()), Tunnel::GtpU, 54, Network::Ipv4);
    let extension = [0x34, 255, 0, len + 12, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0x20, 1, 0, 0, 0];
    carries(&over_udp(2152, &extension, &v4()), Tunnel::GtpU, 62, Network::Ipv4);
    none(&over_udp(2152, &[0x30, 1, 0, len, 0, 0, 0, 1], &v4()));
    none(&over_udp(2152, &plain, &[0; 40]));
    // An extension of length 0 would never end.
    none(&over_udp(2152, &[0x34, 255, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0, 9, 0x20], &v4()));
}

#[test]
fn l2tp() {
    carries(&over_udp(1701, &[0, 2, 0, 1, 0, 2, 0xff, 3, 0, 0x21], &v4()), Tunnel::L2tp, 48, Network::Ipv4);
    let len = v6().len() as u8 + 18;
    let all = [0x4a, 2, 0, len, 0, 1, 0, 2, 0, 0, 0, 0, 0, 2, 7, 7, 0, 0x57];
    carries(&over_udp(1701, &all, &v6()), Tunnel::L2tp, 58, Network::Ipv6);
    none(&over_udp(1701, &[0xc8, 2, 0, 12, 0, 1, 0, 0, 0, 0, 0, 0], &[]));
    // Version 3: no cookie; a cookie of four bytes and a sublayer; right over IP.
    carries(&over_udp(1701, &[0, 3, 0, 0, 0, 0, 0, 1], &frame()), Tunnel::L2tp, 50, Network::Ipv4);
    carries(
        &over_udp(1701, &[0, 3, 0, 0, 0, 0, 0, 1, 9, 9, 9, 9, 0, 0, 0, 0], &frame()),
        Tunnel::L2tp,
        58,
        Network::Ipv4,
    );
    carries(&over_ip(115, &[0, 0, 0, 1], &frame()), Tunnel::L2tp, 38, Network::Ipv4);
    none(&over_ip(115, &[0, 0, 0, 0], &frame()));
}

#[test]
fn teredo() {
    carries(&over_udp(3544, &[], &v6()), Tunnel::Teredo, 42, Network::Ipv6);
    let origin = [0, 0, 1, 2, 3, 4, 5, 6];
    carries(&over_udp(3544, &origin, &v6()), Tunnel::Teredo, 50, Network::Ipv6);
    let authentication = [&[0, 1, 2, 1][..], &[7; 3], &[0; 9], &origin].concat();
    carries(&over_udp(3544, &authentication, &v6()), Tunnel::Teredo, 66, Network::Ipv6);
    // An IPv6 packet that is longer than the datagram is none.
    let longer = v6();
    none(&over_udp(3544, &[], &longer[..longer.len() - 1]));
}

#[test]
fn ayiya() {
    let header = [&[0x42, 0x52, 0x11, 41, 0, 0, 0, 0][..], &[0; 16], &[0; 20]].concat();
    carries(&over_udp(5072, &header, &v6()), Tunnel::Ayiya, 86, Network::Ipv6);
    none(&over_udp(5072, &[0x42, 0x52, 0x10, 41, 0, 0, 0, 0], &v6()));
}

#[test]
fn a_fragment_is_no_tunnel() {
    let frame = build::ethernet().ipv4(A, B).fragment(1, 0, true).ipv4(B, A).udp(7, 8).payload(&[0; 4]);
    let (outer, inner) = levels(&frame);
    assert_eq!((outer.fragment, outer.tunnel, inner), (Fragment::First, Tunnel::None, None));
}

#[test]
fn inner_packet_ends_with_its_tunnel() {
    // The inner packet claims the bytes after the outer one, which are padding.
    let mut frame = build::ethernet().ipv4(A, B).ipv4(B, A).udp(7, 8).payload(b"inner");
    frame.extend(*b"padding");
    frame[37] += 7;
    let (_, inner) = levels(&frame);
    let inner = inner.expect("an inner level");
    assert_eq!((inner.network_len, inner.payload_of(&frame)), (33, &b"inner"[..]));
}

#[test]
fn tunnels_in_tunnels() {
    let vxlan = [8, 0, 0, 0, 0, 0, 1, 0];
    let frame = build::ethernet().ipv4(A, B).gre().frame().ipv6(V6, V6).udp(1, 4789).raw(&vxlan);
    let frame = inner_packet(frame.frame().ipv4(B, A));
    let packet = build::packet(&frame, LinkType::ETHERNET);
    let last = innermost(&packet, &decode(&packet));
    assert_eq!((last.ports, last.payload_of(&frame)), ([7, 8], &b"inner"[..]));

    let deep = |levels: usize| inner_packet((0..levels).fold(build::ethernet(), |frame, _| frame.ipv4(A, B)));
    let depth = |frame: &[u8]| innermost(&build::packet(frame, LinkType::ETHERNET), &levels(frame).0).network;
    assert_eq!(depth(&deep(MAX_TUNNELS + 1)), 14 + 20 * MAX_TUNNELS as u32);
    assert_eq!(depth(&deep(MAX_TUNNELS + 5)), 14 + 20 * MAX_TUNNELS as u32);
}

#[test]
fn tunnel_that_the_snap_length_cut() {
    let whole = inner_packet(build::ethernet().ipv4(A, B).gre().ipv4(B, A));
    let packet = Packet { wire_len: whole.len() as u32, ..build::packet(&whole[..70], LinkType::ETHERNET) };
    let inner = decapsulate(&packet, &decode(&packet)).expect("an inner level");
    assert_eq!((inner.network_len, inner.transport), (45, 58));
    assert_eq!(inner.error.map(|error| error.kind), Some(ErrorKind::Truncated));
}
