//! Checksums, flow keys, steering, and headers that are parsed and emitted.

use std::collections::BTreeSet;

use proptest::prelude::*;
use weir_wire::build::{self, flags};
use weir_wire::header::{Ethernet, Header, Icmp, Ipv4, Ipv6, Tcp, Udp, Vlan};
use weir_wire::{
    Checksum, Checksums, FlowKey, Hints, LinkType, Packet, STEER_MULTIPLIER, checksum, decapsulate, decode,
    icmp_counterpart, is_pseudo_header_sum, mapped, steer_hash, verify,
};

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const V6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const W6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

fn packet(frame: &[u8]) -> Packet<'_> {
    build::packet(frame, LinkType::ETHERNET)
}

fn checked(frame: &[u8]) -> Checksums {
    verify(&packet(frame), &decode(&packet(frame)))
}

/// Packets with a transport checksum each, and where it lies.
fn summed() -> Vec<(Vec<u8>, usize)> {
    let sctp = [&[0, 5, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0][..], b"chunk of odd length"].concat();
    let lite = |coverage: u8| [&[0, 5, 0, 6, 0, coverage, 0, 0][..], b"payload"].concat();
    let dccp = |coverage: u8| {
        [&[0, 5, 0, 6, 4, coverage, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0][..], b"payload!"].concat()
    };
    let v4 = |proto, bytes: &[u8]| build::ethernet().ipv4(A, B).proto(proto).raw(bytes).payload(b"");
    let v6 = |proto, bytes: &[u8]| build::ethernet().ipv6(V6, W6).proto(proto).raw(bytes).payload(b"");
    let routed = [&[4, 0, 2, 0, 0, 0, 0][..], &[1; 32]].concat();
    vec![
        (build::ethernet().ipv4(A, B).tcp(1, 2, flags::ACK).payload(b"odd"), 50),
        (build::ethernet().ipv6(V6, W6).tcp(1, 2, flags::ACK).payload(b"even"), 70),
        (build::ethernet().ipv4(A, B).udp(1, 2).payload(b"odd"), 40),
        (build::ethernet().ipv6(V6, W6).udp(1, 2).payload(b""), 60),
        (build::ethernet().ipv6(V6, W6).extension(43, &routed).udp(1, 2).payload(b""), 100),
        (build::ethernet().ipv4(A, B).icmp(8, 0, [1, 2, 3, 4]).payload(b"ping"), 36),
        (build::ethernet().ipv6(V6, W6).icmp(128, 0, [1, 2, 3, 4]).payload(b"ping"), 56),
        (v4(2, &[0x16, 0, 0, 0, 224, 0, 0, 9]), 36),
        (v4(132, &sctp), 42),
        (v6(132, &sctp), 62),
        (v4(136, &lite(0)), 40),
        (v4(136, &lite(10)), 40),
        (v6(33, &dccp(0)), 60),
        (v6(33, &dccp(2)), 60),
    ]
}

#[test]
fn built_checksums_are_good_and_changed_ones_are_bad() {
    for (mut frame, at) in summed() {
        assert_eq!(checked(&frame).transport, Checksum::Good, "{frame:02x?}");
        frame[at] ^= 0x40;
        assert_eq!(checked(&frame).transport, Checksum::Bad, "{frame:02x?}");
        let layers = decode(&packet(&frame));
        assert!(checksum::fill(&mut frame, &layers));
        assert_eq!(checked(&frame).transport, Checksum::Good, "{frame:02x?}");
        let cut = Packet { data: &frame[..frame.len() - 1], ..packet(&frame) };
        assert_eq!(verify(&cut, &decode(&cut)).transport, Checksum::Unknown);
    }
    let mut frame = build::ethernet().ipv4(A, B).udp(1, 2).payload(b"");
    assert_eq!(checked(&frame).network, Checksum::Good);
    frame[22] += 1;
    assert_eq!(checked(&frame).network, Checksum::Bad);
    assert_eq!(checked(&build::ethernet().ipv6(V6, W6).udp(1, 2).payload(b"")).network, Checksum::Absent);
}

/// Ones' complement has two zeros. Whichever of them a right checksum is, filling leaves it.
#[test]
fn both_zeros_of_a_checksum_stay() {
    let built = |payload: &[u8]| {
        [
            build::ethernet().ipv4(A, B).tcp(1, 2, 0).payload(payload),
            build::ethernet().ipv6(V6, W6).tcp(1, 2, 0).payload(payload),
            build::ethernet().ipv4(A, B).icmp(8, 0, [0; 4]).payload(payload),
            build::ethernet().ipv4(A, B).udp(1, 2).payload(payload),
        ]
    };
    for (mut frame, at) in built(&[0; 2]).into_iter().zip([50, 70, 36, 40]) {
        // The payload takes up the checksum, so that the rest sums to 0xffff.
        let checksum: [u8; 2] = frame[at..at + 2].try_into().expect("two bytes");
        let end = frame.len();
        frame[end - 2..].copy_from_slice(&checksum);
        let is_udp = at == 40;
        for zero in [0xff, 0].into_iter().filter(|zero| !is_udp || *zero == 0xff) {
            frame[at..at + 2].fill(zero);
            assert_eq!(checked(&frame).transport, Checksum::Good, "{frame:02x?}");
            let mut filled = frame.clone();
            assert!(checksum::fill(&mut filled, &decode(&packet(&frame))));
            assert_eq!(filled, frame);
        }
    }
    // The identification takes up the checksum of an IPv4 header.
    let mut frame = build::ethernet().ipv4(A, B).udp(1, 2).payload(b"");
    let identification = plain_sum(&[&frame[24..26], &frame[18..20]].concat()).to_be_bytes();
    frame[18..20].copy_from_slice(&identification);
    for zero in [0xff, 0] {
        frame[24..26].fill(zero);
        assert_eq!(checked(&frame).network, Checksum::Good);
        let mut filled = frame.clone();
        assert!(checksum::fill(&mut filled, &decode(&packet(&frame))));
        assert_eq!(filled, frame);
    }
}

#[test]
fn coverage_that_ends_early() {
    let lite = summed().swap_remove(11).0;
    let mut beyond = lite.clone();
    *beyond.last_mut().expect("bytes") ^= 1;
    assert_eq!(checked(&beyond).transport, Checksum::Good);
    let mut too_short = lite;
    too_short[39] = 7;
    assert_eq!(checked(&too_short).transport, Checksum::Bad);
}

#[test]
fn omitted_checksums_are_absent() {
    let mut udp = build::ethernet().ipv4(A, B).udp(1, 2).payload(b"x");
    udp[40..42].fill(0);
    assert_eq!(checked(&udp).transport, Checksum::Absent);
    let later = build::ethernet().ipv4(A, B).fragment(1, 8, false).proto(17).raw(&[0; 8]).payload(b"");
    assert_eq!(checked(&later).transport, Checksum::Unknown);
    let mut longer = build::ethernet().ipv4(A, B).tcp(1, 2, 0).payload(b"x");
    longer[17] += 9;
    assert_eq!(checked(&longer).transport, Checksum::Unknown);
    let mut sctp = summed().swap_remove(8).0;
    sctp[42..46].fill(0);
    assert_eq!(checked(&sctp).transport, Checksum::Absent);
}

#[test]
fn checksum_left_to_the_card_is_absent() {
    let mut frame = build::ethernet().ipv4(A, B).tcp(1, 2, 0).payload(b"x");
    frame[50] ^= 1;
    let verdict = |hints| verify(&Packet { hints, ..packet(&frame) }, &decode(&packet(&frame))).transport;
    assert_eq!(verdict(Hints::default()), Checksum::Bad);
    assert_eq!(verdict(Hints::CHECKSUM_PENDING), Checksum::Absent);
    assert_eq!(verdict(Hints::CHECKSUM_VALID), Checksum::Good);
    // The card's hint applies to the outermost packet only.
    let mut tunnel = build::ethernet().ipv4(A, B).gre().ipv4(A, B).tcp(1, 2, 0).payload(b"x");
    *tunnel.last_mut().expect("bytes") ^= 1;
    let packet = Packet { hints: Hints::CHECKSUM_PENDING, ..packet(&tunnel) };
    let inner = decapsulate(&packet, &decode(&packet)).expect("an inner level");
    assert_eq!(verify(&packet, &inner).transport, Checksum::Bad);
}

#[test]
fn pseudo_header_sum_is_recognised() {
    let mut frame = build::ethernet().ipv4(A, B).tcp(1, 2, 0).payload(b"x");
    assert!(!is_pseudo_header_sum(&packet(&frame), &decode(&packet(&frame))));
    // Addresses, protocol 6, length 21.
    let pseudo = plain_sum(&[&A[..], &B, &[0, 6, 0, 21]].concat());
    frame[50..52].copy_from_slice(&pseudo.to_be_bytes());
    assert!(is_pseudo_header_sum(&packet(&frame), &decode(&packet(&frame))));
    assert_eq!(checked(&frame).transport, Checksum::Bad);
}

/// The sums of RFC 1071 3 and RFC 9260 appendix A, computed in another way: word by word, bit by bit.
fn plain_sum(data: &[u8]) -> u16 {
    let total: u64 =
        data.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u64::from(b))).sum();
    (0..4).fold(total, |sum, _| (sum >> 16) + (sum & 0xffff)) as u16
}

fn plain_crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

#[test]
fn known_sums() {
    assert_eq!(checksum::sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    assert_eq!(checksum::crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(checksum::sum(&[0xff; 1 << 17]), 0xffff);
}

proptest! {
    #[test]
    fn sums(data in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert_eq!(checksum::sum(&data), plain_sum(&data));
        prop_assert_eq!(checksum::crc32c(&data), plain_crc32c(&data));
    }

    #[test]
    fn updated_checksum_equals_the_full_sum(
        mut data in prop::collection::vec(any::<u8>(), 20..60),
        at in 0..8_usize,
        new in any::<[u8; 4]>(),
    ) {
        data[0] |= 1;
        let before = !checksum::sum(&data);
        let old = data[2 + at * 2..6 + at * 2].to_vec();
        data[2 + at * 2..6 + at * 2].copy_from_slice(&new);
        prop_assert_eq!(checksum::update(before, &old, &new), !checksum::sum(&data));
    }

    #[test]
    fn headers_are_emitted_as_they_were_parsed(data in prop::collection::vec(any::<u8>(), 0..80)) {
        fn identity<'a, H: Header<'a>>(data: &'a [u8]) -> bool {
            let Some((header, rest)) = H::parse(data) else { return true };
            let mut out = Vec::new();
            header.emit(&mut out);
            out.extend_from_slice(rest);
            out == data
        }
        prop_assert!(identity::<Ethernet>(&data) && identity::<Vlan>(&data) && identity::<Udp>(&data));
        prop_assert!(identity::<Icmp>(&data) && identity::<Tcp>(&data));
        let mut ip = data;
        for first in [0x45, 0x46, 0x4f, 0x60, 0x6f] {
            if let Some(byte) = ip.first_mut() {
                *byte = first;
            }
            prop_assert!(identity::<Ipv4>(&ip) && identity::<Ipv6>(&ip));
        }
    }

    #[test]
    fn both_directions_have_one_key_and_one_worker(
        ips in any::<[[u8; 4]; 2]>(),
        v6 in any::<[[u8; 16]; 2]>(),
        ports in any::<[u16; 2]>(),
    ) {
        let udp = |a: usize, b: usize| build::ethernet().ipv4(ips[a], ips[b]).udp(ports[a], ports[b]).payload(b"");
        let tcp = |a: usize, b: usize| build::ethernet().ipv6(v6[a], v6[b]).tcp(ports[a], ports[b], 0).payload(b"");
        for (there, back) in [(udp(0, 1), udp(1, 0)), (tcp(0, 1), tcp(1, 0))] {
            let (there, back) = (packet(&there), packet(&back));
            let (x, y) = (decode(&there), decode(&back));
            let ((key, lower), (other, opposite)) =
                (FlowKey::of(&there, &x).expect("a key"), FlowKey::of(&back, &y).expect("a key"));
            prop_assert_eq!(key, other);
            prop_assert!((key.addr[0], key.port[0]) <= (key.addr[1], key.port[1]));
            prop_assert!(lower != opposite || key.addr[0] == key.addr[1] && key.port[0] == key.port[1]);
            prop_assert_eq!(steer_hash(&there, &x), steer_hash(&back, &y));
        }
    }
}

fn key(frame: &[u8]) -> (FlowKey, bool) {
    FlowKey::of(&packet(frame), &decode(&packet(frame))).expect("a key")
}

#[test]
fn icmp_requests_and_replies_are_one_flow() {
    for (request, reply) in [(8, 0), (13, 14), (15, 16), (17, 18), (10, 9)] {
        let (there, lower) = key(&build::ethernet().ipv4(B, A).icmp(request, 0, [0; 4]).payload(b""));
        let (back, opposite) = key(&build::ethernet().ipv4(A, B).icmp(reply, 0, [0; 4]).payload(b""));
        assert_eq!((there, lower), (back, !opposite), "{request}");
        assert_eq!(
            (there.addr, there.port),
            ([mapped(A), mapped(B)], [u16::from(reply), u16::from(request)])
        );
        assert!(!there.is_one_way());
    }
    for (request, reply) in [(128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)] {
        let (there, lower) = key(&build::ethernet().ipv6(V6, W6).icmp(request, 0, [0; 4]).payload(b""));
        let (back, opposite) = key(&build::ethernet().ipv6(W6, V6).icmp(reply, 0, [0; 4]).payload(b""));
        assert_eq!((there, lower), (back, !opposite), "{request}");
        assert_eq!(icmp_counterpart(58, u16::from(reply)), Some(u16::from(request)));
    }
}

#[test]
fn other_icmp_messages_are_flows_of_one_direction() {
    let (there, lower) = key(&build::ethernet().ipv4(B, A).icmp(3, 1, [0; 4]).payload(b""));
    assert_eq!((there.addr, there.port, lower), ([mapped(B), mapped(A)], [3, 1], true));
    assert!(there.is_one_way());
    let (back, _) = key(&build::ethernet().ipv4(A, B).icmp(3, 1, [0; 4]).payload(b""));
    assert_ne!(there, back);
    // A later fragment of a ping has no type: it is not an echo reply.
    let (fragment, _) =
        key(&build::ethernet().ipv4(B, A).fragment(1, 8, false).proto(1).raw(&[0; 8]).payload(b""));
    assert_eq!((fragment.port, fragment.is_one_way()), ([0, 0], false));
    assert_eq!(icmp_counterpart(6, 8), None);
}

#[test]
fn steering_is_the_documented_formula() {
    let frame = build::ethernet().vlan(3).ipv4([192, 0, 2, 1], [198, 51, 100, 7]).udp(1, 2).payload(b"");
    let x = 0xc000_0201_u32 ^ 0xc633_6407;
    let expected = (x ^ (x >> 16)).wrapping_mul(STEER_MULTIPLIER) >> 21;
    assert_eq!(steer_hash(&packet(&frame), &decode(&packet(&frame))), expected);
    // All traffic between two addresses goes to one worker: fragments, tunnels, other protocols.
    let fragment =
        build::ethernet().ipv4([198, 51, 100, 7], [192, 0, 2, 1]).fragment(1, 8, false).payload(&[0; 8]);
    let tunnel = build::ethernet().ipv4([192, 0, 2, 1], [198, 51, 100, 7]).gre().ipv4(A, B).payload(b"");
    for frame in [fragment, tunnel] {
        assert_eq!(steer_hash(&packet(&frame), &decode(&packet(&frame))), expected);
    }
    assert_eq!(steer_hash(&packet(&[0; 60]), &decode(&packet(&[0; 60]))), 0);
}

#[test]
fn steering_spreads_neighbours_over_workers() {
    for workers in [2, 3, 4, 8, 16] {
        let mut packets = vec![0_u32; workers as usize];
        for host in 0..=255 {
            for server in 0..16 {
                let frame =
                    build::ethernet().ipv4([10, 1, 2, host], [172, 16, server, 1]).udp(1, 2).payload(b"");
                packets[(steer_hash(&packet(&frame), &decode(&packet(&frame))) % workers) as usize] += 1;
            }
        }
        let fair = 4096 / workers;
        assert!(packets.iter().all(|&n| n > fair * 3 / 4 && n < fair * 5 / 4), "{workers}: {packets:?}");
    }
}

#[test]
fn decoded_fields_equal_the_built_ones() {
    let frame = build::ethernet()
        .mac([2; 6], [4; 6])
        .ipv4(A, B)
        .ttl(9)
        .tcp(80, 1024, flags::SYN)
        .options(&[2, 4, 5, 0xb4, 1])
        .seq(0x0102_0304)
        .ack(5)
        .window(6)
        .payload(b"x");
    let (ethernet, rest) = Ethernet::parse(&frame).expect("a frame");
    assert_eq!(ethernet, Ethernet { dst: [4; 6], src: [2; 6], ether_type: 0x0800 });
    let (ip, rest) = Ipv4::parse(rest).expect("an IPv4 header");
    assert_eq!((ip.ttl, ip.proto, ip.len, ip.src, ip.dst), (9, 6, 49, A, B));
    let (tcp, rest) = Tcp::parse(rest).expect("a TCP header");
    assert_eq!((tcp.seq, tcp.ack, tcp.window, tcp.flags), (0x0102_0304, 5, 6, flags::SYN));
    assert_eq!((tcp.options, rest), (&[2, 4, 5, 0xb4, 1, 0, 0, 0][..], &b"x"[..]));
    let labels: BTreeSet<u32> = [0x12345, 0xfffff].into();
    for label in labels {
        let frame = build::ethernet().mpls(label).mpls(label).ipv4(A, B).payload(b"");
        assert_eq!(frame[14..17], [(label >> 12) as u8, (label >> 4) as u8, (label << 4) as u8]);
        assert_eq!(frame[20] & 1, 1);
    }
}
