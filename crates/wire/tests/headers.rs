//! One test for each header that leads to the transport header.

use weir_wire::build::{self, flags};
use weir_wire::{
    DecodeError, ErrorKind, FlowKey, Fragment, IpFragment, Layer, Layers, LinkType, MAX_HEADERS, Network,
    Packet, Tunnel, addresses, decode, final_destination, further_frames, innermost,
};

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn layers(data: &[u8], link: LinkType) -> Layers {
    decode(&build::packet(data, link))
}

fn ethernet(data: &[u8]) -> Layers {
    layers(data, LinkType::ETHERNET)
}

/// Bytes of a link layer, before an IPv4 packet with UDP from port 5 to port 6.
fn before_ip(header: &[u8]) -> Vec<u8> {
    let mut data = header.to_vec();
    data.extend(build::ip().ipv4(A, B).udp(5, 6).payload(b"payload"));
    data
}

/// Asserts that the packet is the one of [`before_ip`], with its IP header at `network`.
fn assert_udp(layers: &Layers, network: u32) {
    assert_eq!(layers.error, None, "{layers:?}");
    assert_eq!(
        (layers.network_kind, layers.network, layers.network_len),
        (Network::Ipv4, network, 35),
        "{layers:?}"
    );
    assert_eq!((layers.transport, layers.payload, layers.payload_len), (network + 20, network + 28, 7));
    assert_eq!((layers.ip_proto, layers.ports, layers.ether_type), (17, [5, 6], 0x0800));
}

fn failed(layers: &Layers, layer: Layer, kind: ErrorKind) {
    assert_eq!(layers.error, Some(DecodeError { layer, kind }), "{layers:?}");
}

#[test]
fn layers_stay_in_one_cache_line() {
    assert!(size_of::<Layers>() <= 64);
}

#[test]
fn vlan_tags() {
    let frame = build::ethernet()
        .tag(0x88a8, 100)
        .vlan(0xfff)
        .tag(0x9100, 3)
        .ipv4(A, B)
        .udp(5, 6)
        .payload(b"payload");
    let l = ethernet(&frame);
    assert_udp(&l, 26);
    assert_eq!((l.vlan, l.vlan_count), ([100, 0xfff], 3));
    let priority = build::ethernet().vlan(0x6000).ipv4(A, B).udp(5, 6).payload(b"payload");
    assert_eq!((ethernet(&priority).vlan, ethernet(&priority).vlan_count), ([0, 0], 1));
}

#[test]
fn tags_have_a_limit() {
    let tags =
        |n| (0..n).fold(build::ethernet(), |frame, _| frame.vlan(1)).ipv4(A, B).udp(5, 6).payload(b"payload");
    assert_eq!(ethernet(&tags(MAX_HEADERS)).error, None);
    failed(&ethernet(&tags(MAX_HEADERS + 1)), Layer::Link, ErrorKind::TooDeep);
    let labels = (0..40).fold(build::ethernet(), |frame, label| frame.mpls(label)).ipv4(A, B).payload(b"");
    failed(&ethernet(&labels), Layer::Link, ErrorKind::TooDeep);
}

#[test]
fn mpls() {
    let v4 = build::ethernet().mpls(16).mpls(0xfffff).ipv4(A, B).udp(5, 6).payload(b"payload");
    assert_udp(&ethernet(&v4), 22);
    assert_eq!(ethernet(&v4).mpls_count, 2);
    let v6 = build::ethernet().mpls(16).ipv6(V6, V6).udp(5, 6).payload(b"");
    assert_eq!((ethernet(&v6).ether_type, ethernet(&v6).network), (0x86dd, 18));
    let pseudowire = build::ethernet().mpls(16).raw(&[0; 4]).frame().ipv4(A, B).udp(5, 6).payload(b"payload");
    assert_udp(&ethernet(&pseudowire), 36);
    let without_control = build::ethernet().mpls(16).frame().ipv4(A, B).udp(5, 6).payload(b"payload");
    assert_udp(&ethernet(&without_control), 32);
}

#[test]
fn pppoe() {
    let l = ethernet(&build::ethernet().vlan(7).pppoe(9).ipv4(A, B).udp(5, 6).payload(b"payload"));
    assert_udp(&l, 26);
    assert!(l.pppoe && l.vlan_count == 1);
    // Link control is no network packet.
    let control = [&[0; 12][..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 4, 0xc0, 0x21, 9, 9]].concat();
    let l = ethernet(&control);
    assert_eq!((l.error, l.network_kind, l.pppoe, l.ether_type), (None, Network::None, true, 0x8864));
    failed(&ethernet(&[&control[..14], &[0x21, 0, 0, 0, 0, 0]].concat()), Layer::Link, ErrorKind::Malformed);
}

#[test]
fn frames_within_frames() {
    let mac = [&[0; 12][..], &[0x08, 0]].concat();
    let pbb = [&[0; 12][..], &[0x88, 0xe7, 0, 0, 0, 1], &mac].concat();
    assert_udp(&ethernet(&before_ip(&pbb)), 32);
    let fabric_path = [&[0; 12][..], &[0x89, 3, 0, 0x40], &mac].concat();
    assert_udp(&ethernet(&before_ip(&fabric_path)), 30);
    let e_tag = [&[0; 12][..], &[0x89, 0x3f, 0, 0, 0, 1, 0, 0, 0x08, 0]].concat();
    assert_udp(&ethernet(&before_ip(&e_tag)), 22);
    let bridges = build::ethernet();
    let bridges = (0..40).fold(bridges, |frame, _| frame.frame()).ipv4(A, B).payload(b"");
    failed(&ethernet(&bridges), Layer::Link, ErrorKind::TooDeep);
}

#[test]
fn llc_and_snap() {
    let snap = [&[0; 12][..], &[0, 43, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
    assert_udp(&ethernet(&before_ip(&snap)), 22);
    let spanning_tree = [&[0; 12][..], &[0, 38, 0x42, 0x42, 3, 0, 0, 0, 0, 0]].concat();
    let l = ethernet(&spanning_tree);
    assert_eq!((l.error, l.network_kind, l.ether_type, l.network), (None, Network::None, 0, 14));
    // The length of the frame leaves no room for IP, whatever lies in the padding.
    let short = [&[0; 12][..], &[0, 8, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
    failed(&ethernet(&before_ip(&short)), Layer::Network, ErrorKind::Truncated);
}

#[test]
fn arp() {
    let mut frame = [&[0; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.resize(42, 9);
    let l = ethernet(&frame);
    assert_eq!((l.error, l.network_kind, l.network, l.network_len), (None, Network::Arp, 14, 28));
    failed(&ethernet(&frame[..40]), Layer::Network, ErrorKind::Truncated);
    assert_eq!(FlowKey::of(&build::packet(&frame, LinkType::ETHERNET), &l), None);
}

#[test]
fn link_types() {
    let cases: [(LinkType, &[u8], u32); 15] = [
        (LinkType::RAW, &[], 0),
        (LinkType(12), &[], 0),
        (LinkType::IPV4, &[], 0),
        (LinkType::NULL, &[2, 0, 0, 0], 4),
        (LinkType::NULL, &[0, 0, 0, 2], 4),
        (LinkType::LOOP, &[0, 0, 0, 2], 4),
        (LinkType::PPP, &[0xff, 3, 0, 0x21], 4),
        (LinkType::PPP, &[0x21], 1),
        (LinkType::PPP_HDLC, &[0x0f, 0, 8, 0], 4),
        (LinkType::C_HDLC, &[0x8f, 0, 8, 0], 4),
        (LinkType::PPP_ETHER, &[0x11, 0, 0, 1, 0, 0, 0, 0x21], 8),
        (LinkType::LINUX_SLL, &[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], 16),
        (LinkType::LINUX_SLL, &[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 5, 8, 0], 20),
        (
            LinkType::LINUX_SLL,
            &[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
            24,
        ),
        (LinkType::LINUX_SLL2, &[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0], 20),
    ];
    for (link, header, network) in cases {
        assert_udp(&layers(&before_ip(header), link), network);
    }
    let v6 = build::ip().ipv6(V6, V6).udp(5, 6).payload(b"");
    for (link, header) in [(LinkType::IPV6, &[][..]), (LinkType::NULL, &[30, 0, 0, 0]), (LinkType::RAW, &[])]
    {
        let l = layers(&[header, &v6].concat(), link);
        assert_eq!((l.error, l.network_kind, l.ports), (None, Network::Ipv6, [5, 6]), "{link}");
    }
    failed(&layers(&v6, LinkType::IPV4), Layer::Network, ErrorKind::Malformed);
    failed(&layers(&[0x50; 40], LinkType::RAW), Layer::Network, ErrorKind::Malformed);
    // Netlink: what looks like a protocol is none.
    let netlink = before_ip(&[0, 0, 3, 0x38, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(layers(&netlink, LinkType::LINUX_SLL).network_kind, Network::None);
}

/// Frame control and flags of an 802.11 data frame, the rest of its header, SNAP, IPv4.
fn wifi(control: [u8; 2], header: usize, extra: &[u8]) -> Vec<u8> {
    let mut data = control.to_vec();
    data.resize(header, 0);
    data.extend_from_slice(extra);
    data.extend_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    before_ip(&data)
}

#[test]
fn wifi_data_frames() {
    let link = LinkType::IEEE802_11;
    assert_udp(&layers(&wifi([0x08, 1], 24, &[]), link), 32);
    assert_udp(&layers(&wifi([0x08, 3], 30, &[]), link), 38);
    assert_udp(&layers(&wifi([0x88, 2], 24, &[0, 0]), link), 34);
    assert_udp(&layers(&wifi([0x88, 0x83], 30, &[0, 0, 0, 0, 0, 0]), link), 44);
    let mut subframe = vec![0x80, 0];
    subframe.extend([0; 12]);
    subframe.extend([0, 43]);
    assert_udp(&layers(&wifi([0x88, 1], 24, &subframe), link), 48);
}

/// Each frame of an aggregate is found: the first one by decoding, the others as packets of Ethernet.
#[test]
fn wifi_aggregates() {
    let inner = build::ip().ipv4(A, B).udp(5, 6).payload(b"payload");
    let mut aggregate = vec![0x80, 0];
    for count in 0..3_u8 {
        let len = 8 + inner.len() as u8;
        aggregate.extend([[count; 12].as_slice(), &[0, len, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &inner].concat());
        if count < 2 {
            aggregate.resize((aggregate.len() - 2).next_multiple_of(4) + 2, 0);
        }
    }
    let frame = [&[0x88, 1][..], &[0; 22], &aggregate].concat();
    let radiotap = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &frame].concat();
    for (data, link) in [(&frame, LinkType::IEEE802_11), (&radiotap, LinkType::IEEE802_11_RADIOTAP)] {
        let frames = |data| {
            let packet = build::packet(data, link);
            further_frames(&packet).map(|frame| decode(&frame)).collect::<Vec<_>>()
        };
        let found = frames(data);
        assert_eq!(found.len(), 2);
        for layers in &found {
            assert_eq!((layers.error, layers.ports, layers.payload_len), (None, [5, 6], 7));
        }
        assert_eq!(frames(&data[..data.len() - 1]).len(), 1, "a frame that ends early is none");
        for end in 0..data.len() {
            assert!(frames(&data[..end]).len() < 2);
        }
    }
    assert_eq!(further_frames(&build::packet(&frame, LinkType::ETHERNET)).count(), 0);
    assert_eq!(further_frames(&build::packet(&wifi([0x08, 1], 24, &[]), LinkType::IEEE802_11)).count(), 0);
}

#[test]
fn wifi_frames_that_end_early() {
    let mut later_fragment = wifi([0x08, 1], 24, &[]);
    later_fragment[22] = 1;
    let ends = [
        wifi([0x08, 0x41], 24, &[]),
        wifi([0x48, 1], 24, &[]),
        wifi([0x80, 0], 24, &[]),
        wifi([0xd4, 0], 10, &[]),
        later_fragment,
    ];
    for frame in ends {
        let l = layers(&frame, LinkType::IEEE802_11);
        assert_eq!((l.error, l.network_kind, l.transport), (None, Network::None, 0), "{l:?}");
    }
    failed(&layers(&[0x0b; 40], LinkType::IEEE802_11), Layer::Link, ErrorKind::Malformed);
}

#[test]
fn radiotap() {
    let link = LinkType::IEEE802_11_RADIOTAP;
    let plain = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wifi([0x08, 1], 24, &[])].concat();
    assert_udp(&layers(&plain, link), 40);
    // A second word of presence bits, the timer on a multiple of eight bytes, flags: padded header, checksum at the end.
    let header = [0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 0x30];
    let padded = [&header[..], &wifi([0x88, 2], 24, &[0, 0, 0, 0]), &[1, 2, 3, 4]].concat();
    assert_udp(&layers(&padded, link), 25 + 28 + 8);
    failed(&layers(&[1; 40], link), Layer::Link, ErrorKind::Malformed);
}

#[test]
fn ipv4_options_and_padding() {
    let mut frame =
        build::ethernet().ipv4(A, B).options(&[7, 7, 4, 0, 0, 0, 0]).udp(5, 6).payload(b"payload");
    frame.extend([0xee; 18]);
    let l = ethernet(&frame);
    assert_eq!((l.network_len, l.transport, l.payload, l.payload_len), (43, 42, 50, 7));
    assert_eq!(l.payload_of(&frame), b"payload");
}

#[test]
fn ipv4_lengths_out_of_range() {
    let good = build::ethernet().ipv4(A, B).udp(5, 6).payload(b"payload");
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        ethernet(&frame)
    };
    failed(&with(14, 0x44), Layer::Network, ErrorKind::Malformed);
    failed(&with(14, 0x65), Layer::Network, ErrorKind::Malformed);
    failed(&with(17, 19), Layer::Network, ErrorKind::Malformed);
    // A header longer than the packet; one that leaves no room for UDP.
    failed(&with(14, 0x4f), Layer::Network, ErrorKind::Malformed);
    failed(&with(17, 24), Layer::Transport, ErrorKind::Truncated);
    // A length above the frame's is cut to the frame's.
    let l = with(16, 1);
    assert_eq!((l.error, l.network_len, l.payload_len), (None, 35, 7));
}

#[test]
fn segment_with_ip_length_0_ends_with_the_frame() {
    let payload = vec![7; 70_000];
    let v4 = build::ethernet().ipv4(A, B).tcp(1, 2, flags::ACK).payload(&payload);
    assert_eq!(v4[16..18], [0, 0]);
    let l = ethernet(&v4);
    assert_eq!((l.error, l.network_len, l.payload_len), (None, 70_040, 70_000));
    let v6 = build::ethernet().ipv6(V6, V6).tcp(1, 2, flags::ACK).payload(&payload);
    assert_eq!(ethernet(&v6).payload_len, 70_000);
    let udp = build::ethernet().ipv6(V6, V6).udp(1, 2).payload(&payload);
    assert_eq!(ethernet(&udp).payload_len, 70_000);
}

#[test]
fn jumbogram() {
    let option = [0, 0xc2, 4, 0, 1, 0x11, 0x8c];
    let mut frame = build::ethernet().ipv6(V6, V6).extension(0, &option).tcp(1, 2, 0).payload(&[7; 70_000]);
    frame.extend([0; 9]);
    let l = ethernet(&frame);
    assert_eq!((l.error, l.network_len, l.payload_len), (None, 40 + 70_028, 70_000));
    // The header states that nothing follows: the rest is padding.
    let nothing = build::ethernet().ipv6(V6, V6).raw(&[0; 6]).payload(b"");
    let mut nothing = nothing;
    nothing[18..20].fill(0);
    assert_eq!((ethernet(&nothing).network_len, ethernet(&nothing).ip_proto), (40, 59));
}

#[test]
fn ipv6_extension_headers() {
    let l = ethernet(
        &build::ethernet()
            .ipv6(V6, V6)
            .extension(0, &[0; 7])
            .extension(60, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            .extension(43, &[0, 4, 0, 0, 0, 0, 0])
            .extension(51, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            .extension(139, &[0; 7])
            .extension(140, &[0; 7])
            .tcp(1, 2, flags::SYN)
            .payload(b"x"),
    );
    assert_eq!(l.error, None);
    assert_eq!((l.ip_proto, l.ports, l.transport), (6, [1, 2], 54 + 8 + 16 + 8 + 12 + 8 + 8));
    assert_eq!((l.tcp_flags, l.payload_len, l.source_routed), (flags::SYN, 1, false));
    let mobility = ethernet(&build::ethernet().ipv6(V6, V6).extension(135, &[0; 7]).payload(b""));
    assert_eq!((mobility.ip_proto, mobility.transport, mobility.payload_len), (135, 54, 8));
    let esp = ethernet(&build::ethernet().ipv6(V6, V6).proto(50).raw(&[0; 24]).payload(b""));
    assert_eq!((esp.ip_proto, esp.transport, esp.payload, esp.payload_len), (50, 54, 62, 16));
    let deep = (0..300).fold(build::ethernet().ipv6(V6, V6), |frame, _| frame.extension(60, &[0; 7]));
    failed(&ethernet(&deep.udp(1, 2).payload(b"")), Layer::Network, ErrorKind::TooDeep);
    let cut = build::ethernet().ipv6(V6, V6).extension(60, &[9; 7]).payload(b"");
    failed(&ethernet(&cut), Layer::Network, ErrorKind::Truncated);
}

#[test]
fn source_routed_packets_belong_to_their_final_destination() {
    let last = [0xfd; 16];
    for (kind, first, second) in [(0, [1; 16], last), (4, last, [1; 16])] {
        let rest = [&[4, kind, 2, 0, 0, 0, 0][..], &first, &second].concat();
        let frame = build::ethernet().ipv6(V6, [9; 16]).extension(0, &[0; 7]).extension(43, &rest);
        let frame = frame.udp(5, 6).payload(b"");
        let packet = build::packet(&frame, LinkType::ETHERNET);
        let l = decode(&packet);
        assert!(l.source_routed && l.error.is_none(), "{l:?}");
        assert_eq!(final_destination(&frame, &l), Some(last));
        assert_eq!(addresses(&packet, &l), Some((V6, [9; 16])));
        let back = build::ethernet().ipv6(last, V6).udp(6, 5).payload(b"");
        let back = build::packet(&back, LinkType::ETHERNET);
        let (key, lower) = FlowKey::of(&packet, &l).expect("a key");
        assert_eq!(FlowKey::of(&back, &decode(&back)), Some((key, !lower)));
    }
}

#[test]
fn ipv4_fragments() {
    let first = build::ethernet().ipv4(A, B).fragment(0x1234, 0, true).udp(5, 6).payload(&[1; 16]);
    let packet = build::packet(&first, LinkType::ETHERNET);
    let l = decode(&packet);
    assert_eq!((l.fragment, l.ports, l.has_transport()), (Fragment::First, [5, 6], true));
    let part = IpFragment::of(&packet, &l).expect("a fragment");
    assert_eq!(
        (part.id, part.proto, part.offset, part.more, part.start, part.len),
        (0x1234, 17, 0, true, 34, 24)
    );
    assert_eq!(part.data, &first[34..]);

    let later = build::ethernet().ipv4(A, B).fragment(0x1234, 24, false).proto(17).raw(&[2; 8]).payload(b"");
    let packet = build::packet(&later, LinkType::ETHERNET);
    let l = decode(&packet);
    assert_eq!((l.fragment, l.ports, l.has_transport()), (Fragment::Later, [0, 0], false));
    assert_eq!((l.transport, l.payload, l.payload_len, l.error), (34, 34, 8, None));
    let part = IpFragment::of(&packet, &l).expect("a fragment");
    assert_eq!((part.offset, part.more, part.data), (24, false, &[2; 8][..]));
}

#[test]
fn ipv6_fragments() {
    let header = |offset: u16, more: u8| [0, (offset >> 8) as u8, offset as u8 | more, 0, 0, 0x56, 0x78];
    let frame = |offset, more| {
        build::ethernet().ipv6(V6, V6).extension(60, &[0; 7]).extension(44, &header(offset, more))
    };
    let first = frame(0, 1).udp(5, 6).payload(&[1; 8]);
    let packet = build::packet(&first, LinkType::ETHERNET);
    let l = decode(&packet);
    assert_eq!((l.fragment, l.ports, l.transport), (Fragment::First, [5, 6], 70));
    let part = IpFragment::of(&packet, &l).expect("a fragment");
    assert_eq!(
        (part.id, part.proto, part.offset, part.more, part.start, part.len),
        (0x5678, 17, 0, true, 70, 16)
    );
    let later = frame(16, 0).udp(5, 6).payload(b"");
    let packet = build::packet(&later, LinkType::ETHERNET);
    let l = decode(&packet);
    assert_eq!((l.fragment, l.ports, l.ip_proto, l.error), (Fragment::Later, [0, 0], 17, None));
    assert_eq!(IpFragment::of(&packet, &l).map(|part| (part.offset, part.more)), Some((16, false)));
    // An atomic fragment is a whole packet (RFC 6946).
    let atomic = frame(0, 0).udp(5, 6).payload(b"");
    let packet = build::packet(&atomic, LinkType::ETHERNET);
    assert_eq!((decode(&packet).fragment, decode(&packet).ports), (Fragment::Whole, [5, 6]));
    assert_eq!(IpFragment::of(&packet, &decode(&packet)), None);
}

#[test]
fn tcp() {
    let options = [2, 4, 5, 0xb4, 1, 1, 4, 2];
    let frame =
        build::ethernet().ipv4(A, B).tcp(80, 40_000, flags::SYN | flags::ACK).options(&options).payload(b"");
    let l = ethernet(&frame);
    assert_eq!((l.ports, l.tcp_flags, l.payload, l.payload_len), ([80, 40_000], 0x12, 62, 0));
    // The snap length cut the options: all fields that are read are present.
    let cut = Packet { wire_len: frame.len() as u32, ..build::packet(&frame[..54], LinkType::ETHERNET) };
    assert_eq!(decode(&cut), l);
    for offset in [0x40, 0xf0] {
        let mut bad = frame.clone();
        bad[46] = offset;
        let l = ethernet(&bad);
        failed(&l, Layer::Transport, ErrorKind::Malformed);
        assert!(!l.has_transport());
    }
}

#[test]
fn udp_lengths() {
    let frame = build::ethernet().ipv4(A, B).udp(5, 6).payload(b"payload");
    let with = |length: u8| {
        let mut frame = frame.clone();
        frame[39] = length;
        ethernet(&frame)
    };
    assert_eq!(with(11).payload_len, 3);
    assert_eq!(with(200).payload_len, 7);
    assert_eq!(with(0).payload_len, 7);
    failed(&with(7), Layer::Transport, ErrorKind::Malformed);
}

#[test]
fn other_transports() {
    let ip =
        |proto, bytes: &[u8]| ethernet(&build::ethernet().ipv4(A, B).proto(proto).raw(bytes).payload(b""));
    let ports = [0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9];
    let sctp = ip(132, &ports);
    assert_eq!((sctp.ports, sctp.payload, sctp.payload_len), ([5, 6], 46, 4));
    let lite = ip(136, &ports);
    assert_eq!((lite.ports, lite.payload, lite.payload_len), ([5, 6], 42, 8));
    let mut dccp = ports;
    dccp[4] = 4;
    assert_eq!((ip(33, &dccp).ports, ip(33, &dccp).payload, ip(33, &dccp).payload_len), ([5, 6], 50, 0));
    failed(&ip(33, &ports), Layer::Transport, ErrorKind::Malformed);
    assert_eq!((ip(50, &ports).payload, ip(50, &ports).ports), (42, [0, 0]));
    let igmp = ip(2, &[0x16, 0, 0, 0, 224, 0, 0, 1]);
    assert_eq!((igmp.ip_proto, igmp.transport, igmp.payload_len, igmp.error), (2, 34, 8, None));
    let authenticated = ip(51, &[&[17, 4, 0, 0][..], &[0; 20], &[0, 5, 0, 6, 0, 9, 0, 0, 1]].concat());
    assert_eq!((authenticated.ip_proto, authenticated.ports, authenticated.payload_len), (17, [5, 6], 1));
    let icmp = ethernet(&build::ethernet().ipv4(A, B).icmp(3, 1, [0; 4]).payload(b"abc"));
    assert_eq!((icmp.ports, icmp.payload, icmp.payload_len), ([3, 1], 42, 3));
    for (proto, need) in [(1, 4), (6, 20), (17, 8), (33, 12), (50, 8), (58, 4), (132, 12), (136, 8)] {
        failed(&ip(proto, &ports[..need.min(16) - 1]), Layer::Transport, ErrorKind::Truncated);
    }
}

#[test]
fn innermost_of_an_untunnelled_packet_is_itself() {
    let frame = build::ethernet().ipv4(A, B).udp(5, 6).payload(b"payload");
    let packet = build::packet(&frame, LinkType::ETHERNET);
    let l = decode(&packet);
    assert_eq!((l.tunnel, innermost(&packet, &l)), (Tunnel::None, l));
}
