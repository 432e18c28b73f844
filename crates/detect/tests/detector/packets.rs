//! Conditions and buffers of packets.

use crate::watch::{
    CLIENT, SERVER, Watch, differ, icmp, icmpv6, packet_matches, patched, seen, tcp, udp, with_options,
};
use weir_detect::Seen;
use weir_wire::Direction::Forward;
use weir_wire::build::{self, flags};
use weir_wire::{Hints, Layers, LinkType, decode};

#[test]
fn conditions_on_headers_of_ip() {
    let ttl = |ttl| build::ethernet().ipv4(CLIENT, SERVER).ttl(ttl).udp(1, 2).payload(b"");
    let hops = |ttl| build::ethernet().ipv6([1; 16], [2; 16]).ttl(ttl).udp(1, 2).payload(b"");
    for make in [&ttl as &dyn Fn(u8) -> Vec<u8>, &hops] {
        differ("ip", "ttl:5;", &make(5), &make(6));
        differ("ip", "ttl:<5;", &make(4), &make(5));
        differ("ip", "ttl:>5;", &make(6), &make(5));
        differ("ip", "ttl:>=5;", &make(5), &make(4));
        differ("ip", "ttl:3-6;", &make(4), &make(3));
        differ("ip", "ttl:3-6;", &make(5), &make(6));
        differ("ip", "ttl:!5;", &make(6), &make(5));
    }
    differ("ip", "tos:8;", &patched(1, &[8]), &patched(1, &[9]));
    differ("ip", "tos:!8;", &patched(1, &[9]), &patched(1, &[8]));
    differ("ip", "id:258;", &patched(4, &[1, 2]), &patched(4, &[1, 3]));
    differ("ip", "ip_proto:6;", &tcp(2).payload(b""), &udp(b""));
    differ("ip", "ip_proto:!6;", &udp(b""), &tcp(2).payload(b""));
    differ("ip", "ip_proto:>6;", &udp(b""), &tcp(2).payload(b""));
    differ("ip", "fragoffset:>0;", &patched(6, &[0, 1]), &patched(6, &[0x20, 0]));
    differ("ip", "fragoffset:257;", &patched(6, &[0x21, 1]), &patched(6, &[0x21, 0]));
    let between = |a, b| build::ethernet().ipv4(a, b).udp(1, 2).payload(b"");
    differ("ip", "sameip;", &between(CLIENT, CLIENT), &between(CLIENT, SERVER));
}

#[test]
fn bits_and_options_of_ip() {
    let bits = |bits| patched(6, &[bits, 0]);
    differ("ip", "fragbits:M;", &bits(0x20), &bits(0x60));
    differ("ip", "fragbits:+M;", &bits(0x60), &bits(0x40));
    differ("ip", "fragbits:*MD;", &bits(0x40), &bits(0x80));
    differ("ip", "fragbits:!M;", &bits(0x40), &bits(0x20));
    differ("ip", "fragbits:R;", &bits(0x80), &bits(0x00));
    differ("ip", "ipopts:lsrr;", &with_options(&[131, 3, 4]), &with_options(&[137, 3, 4]));
    differ("ip", "ipopts:ssrr;", &with_options(&[137, 3, 4]), &with_options(&[131, 3, 4]));
    differ("ip", "ipopts:rr;", &with_options(&[1, 7, 3, 4]), &with_options(&[1, 8, 3, 4]));
    // What lies in the data of an option, or follows the end or a length that does not fit, is no option.
    differ(
        "ip",
        "ipopts:lsrr;",
        &with_options(&[7, 4, 4, 9, 131, 3]),
        &with_options(&[7, 7, 4, 131, 3, 4, 9]),
    );
    differ("ip", "ipopts:lsrr;", &with_options(&[1, 1, 131, 3]), &with_options(&[0, 0, 131, 3]));
    differ("ip", "ipopts:lsrr;", &with_options(&[7, 2, 131, 3]), &with_options(&[7, 1, 131, 3]));
    differ("ip", "ipopts:any;", &with_options(&[1]), &udp(b""));
}

#[test]
fn conditions_on_headers_of_tcp() {
    let of = |flags| tcp(flags).payload(b"");
    differ("tcp", "flags:S;", &of(0x02), &of(0x12));
    differ("tcp", "flags:SA;", &of(0x12), &of(0x92));
    differ("tcp", "flags:S,12;", &of(0xc2), &of(0xd2));
    differ("tcp", "flags:+S;", &of(0x12), &of(0x10));
    differ("tcp", "flags:*SF;", &of(0x11), &of(0x14));
    differ("tcp", "flags:!SF;", &of(0x02), &of(0x03));
    differ("tcp", "flags:0;", &of(0), &of(1));
    differ("tcp", "seq:5;", &tcp(2).seq(5).payload(b""), &tcp(2).seq(6).payload(b""));
    differ("tcp", "ack:7;", &tcp(16).ack(7).payload(b""), &tcp(16).ack(8).payload(b""));
    differ("tcp", "window:100;", &tcp(2).window(100).payload(b""), &tcp(2).window(101).payload(b""));
    differ("tcp", "window:!100;", &tcp(2).window(99).payload(b""), &tcp(2).window(100).payload(b""));
    let mss = |options: &[u8]| tcp(2).options(options).payload(b"");
    differ("tcp", "tcp.mss:<536;", &mss(&[2, 4, 2, 23]), &mss(&[2, 4, 2, 24]));
    differ("tcp", "tcp.mss:536;", &mss(&[1, 3, 3, 7, 2, 4, 2, 24]), &mss(&[3, 7, 3, 2, 4, 2, 24]));
    differ("tcp", "tcp.mss:<536;", &mss(&[1, 2, 4, 0, 1]), &mss(&[0, 2, 4, 0, 1]));
}

#[test]
fn conditions_on_icmp_and_sizes() {
    differ("icmp", "itype:8;", &icmp(8, 0, [0; 4]), &icmp(9, 0, [0; 4]));
    differ("icmp", "itype:8<>11;", &icmp(9, 0, [0; 4]), &icmp(8, 0, [0; 4]));
    differ("icmp", "icode:>0;", &icmp(3, 1, [0; 4]), &icmp(3, 0, [0; 4]));
    differ("icmp", "icmp_id:258;", &icmp(8, 0, [1, 2, 0, 0]), &icmp(8, 0, [1, 3, 0, 0]));
    differ("icmp", "icmp_id:258;", &icmp(0, 0, [1, 2, 0, 0]), &icmp(3, 0, [1, 2, 0, 0]));
    differ("icmp", "icmp_seq:258;", &icmp(8, 0, [0, 0, 1, 2]), &icmp(8, 0, [0, 0, 1, 3]));
    differ("icmp", "icmp_id:258;", &icmpv6(128, [1, 2, 0, 0]), &icmpv6(8, [1, 2, 0, 0]));
    differ("icmp", "icmpv6.mtu:<1280;", &icmpv6(2, [0, 0, 4, 255]), &icmpv6(2, [0, 0, 5, 0]));
    differ("icmp", "icmpv6.mtu:<1280;", &icmpv6(2, [0, 0, 4, 255]), &icmpv6(3, [0, 0, 4, 255]));
    differ("udp", "dsize:3;", &udp(b"abc"), &udp(b"abcd"));
    differ("udp", "dsize:<3;", &udp(b"ab"), &udp(b"abc"));
    differ("udp", "dsize:>3;", &udp(b"abcd"), &udp(b"abc"));
    differ("udp", "dsize:1<>4;", &udp(b"abc"), &udp(b"abcd"));
    differ("udp", "dsize:0;", &udp(b""), &udp(b"a"));
    // Over TCP a condition on packets makes the rule one of packets.
    differ("tcp", "content:\"abc\"; dsize:3;", &tcp(16).payload(b"abc"), &tcp(16).payload(b"abcd"));
    let ttl = |ttl| build::ethernet().ipv4(CLIENT, SERVER).ttl(ttl).tcp(1, 2, 16).payload(b"abc");
    differ("tcp", "content:\"abc\"; ttl:5;", &ttl(5), &ttl(6));
    differ("tcp", "content:\"abc\"; window:9;", &tcp(16).window(9).payload(b"abc"), &tcp(16).payload(b"abc"));
}

#[test]
fn buffers_of_headers() {
    let ttl = |ttl| build::ethernet().ipv4(CLIENT, SERVER).ttl(ttl).udp(1, 2).payload(b"");
    differ("ip", "ipv4.hdr; content:\"|40 11|\"; offset:8; depth:2;", &ttl(64), &ttl(63));
    differ("ip", "ipv4.hdr; bsize:24;", &with_options(&[1]), &ttl(64));
    let hops = |ttl| build::ethernet().ipv6([1; 16], [2; 16]).ttl(ttl).udp(1, 2).payload(b"");
    differ("ip", "ipv6.hdr; content:\"|11 40|\"; offset:6; bsize:40;", &hops(64), &hops(63));
    let port = |port| build::ethernet().ipv4(CLIENT, SERVER).tcp(1, port, 2).payload(b"");
    differ("tcp", "tcp.hdr; content:\"|00 50|\"; offset:2; depth:2;", &port(80), &port(81));
    let port = |port| build::ethernet().ipv4(CLIENT, SERVER).udp(1, port).payload(b"");
    differ("udp", "udp.hdr; content:\"|00 50|\"; offset:2; bsize:8;", &port(80), &port(81));
    differ("icmp", "icmpv4.hdr; content:\"|08 00|\"; startswith;", &icmp(8, 0, [0; 4]), &icmp(8, 1, [0; 4]));
    differ(
        "icmp",
        "icmpv6.hdr; content:\"|80 00|\"; startswith;",
        &icmpv6(128, [0; 4]),
        &icmpv6(129, [0; 4]),
    );
    let from = |from, to| build::ethernet().ipv4(from, to).udp(1, 2).payload(b"");
    differ("ip", "ip.src; content:\"|0a 00 00 01|\"; bsize:4;", &from(CLIENT, SERVER), &from(SERVER, CLIENT));
    differ("ip", "ip.dst; content:\"|0a 00 00 01|\"; bsize:4;", &from(SERVER, CLIENT), &from(CLIENT, SERVER));
    differ("ip", "ip.src; content:!\"|01|\"; endswith;", &from(SERVER, CLIENT), &from(CLIENT, SERVER));
    // A header and the payload.
    let both = |port, payload: &[u8]| build::ethernet().ipv4(CLIENT, SERVER).udp(1, port).payload(payload);
    let options = "udp.hdr; content:\"|00 50|\"; offset:2; pkt_data; content:\"abc\";";
    differ("udp", options, &both(80, b"abc"), &both(81, b"abc"));
    differ("udp", options, &both(80, b"abc"), &both(80, b"abx"));
}

#[test]
fn contents_of_packets() {
    differ("udp", "content:\"abc\"; depth:3;", &udp(b"abc"), &udp(b"xabc"));
    differ("udp", "content:\"abc\"; offset:1; depth:3;", &udp(b"xabc"), &udp(b"xxabc"));
    differ(
        "udp",
        "content:\"abc\"; content:\"def\"; distance:1; within:3;",
        &udp(b"abcxdef"),
        &udp(b"abcxxdef"),
    );
    differ("udp", "content:\"a\"; content:!\"b\";", &udp(b"aac"), &udp(b"aab"));
    differ("udp", "content:!\"b\"; depth:2;", &udp(b"aab"), &udp(b"ab"));
    // Letters of the payload are changed before it is searched and before it is verified.
    differ("udp", "pkt_data; to_lowercase; content:\"abc\";", &udp(b"xABC"), &udp(b"xABX"));
    differ("udp", "pkt_data; strip_whitespace; content:\"abc\";", &udp(b"a b c"), &udp(b"a b d"));
    let coded = "content:\"x=\"; base64_decode:bytes 4, offset 0, relative; base64_data; content:\"abc\";";
    differ("udp", coded, &udp(b"x=YWJj"), &udp(b"x=YWJk"));
    differ("udp", coded, &udp(b"x=YWJj"), &udp(b"x=aYWJj"));
    let lower = "base64_decode:bytes 4; base64_data; to_lowercase; content:\"abc\";";
    differ("udp", lower, &udp(b"QUJD"), &udp(b"QUJE"));
}

#[test]
fn the_entropy_of_a_packet() {
    let rule = "alert udp any any -> any any (entropy:value >= 3; sid:1;)";
    let mut watch = Watch::new(rule).over(17);
    watch.packet(Forward, &udp(b"abcdefgh")).packet(Forward, &udp(b"abcdefgg"));
    assert_eq!(watch.sids(), [1]);
}

#[test]
fn tags_of_vlans() {
    let packet = |ids: &[u16]| {
        let tagged = ids.iter().fold(build::ethernet(), |packet, id| packet.vlan(*id));
        tagged.ipv4(CLIENT, SERVER).udp(40_000, 80).payload(b"x")
    };
    for (options, hits, misses) in [
        ("vlan.id:7;", &[9, 7][..], &[9, 8][..]),
        ("vlan.id:>7;", &[8], &[7]),
        ("vlan.id:!7;", &[8], &[]),
        ("vlan.id:7,0;", &[7, 9], &[9, 7]),
        ("vlan.id:7,1;", &[9, 7], &[7, 9]),
        ("vlan.id:7,-1;", &[7], &[7, 9]),
        ("vlan.id:7,-2;", &[7, 9], &[7]),
        ("vlan.id:<9,all;", &[7, 8], &[7, 9]),
        ("vlan.id:<9,all;", &[8], &[]),
        ("vlan.id:<9,any;", &[9, 8], &[9, 10]),
        ("vlan.layers:2;", &[1, 2], &[1]),
        ("vlan.layers:0;", &[], &[1]),
        ("vlan.layers:>2;", &[1, 2, 3], &[1, 2]),
    ] {
        let found = |ids: &[u16]| {
            let mut watch = Watch::new(&format!("alert udp any any -> any any ({options} sid:1;)")).over(17);
            watch.packet(Forward, &packet(ids)).matches().len()
        };
        assert_eq!(found(hits), 1, "{options} {hits:?}");
        assert_eq!(found(misses), 0, "{options} {misses:?}");
    }
}

#[test]
fn the_header_of_ethernet() {
    let found = |test: &str, packet: &[u8]| {
        let rule = format!("alert ip any any -> any any (ether.hdr; {test} sid:1;)");
        Watch::new(&rule).over(17).packet(Forward, packet).matches().len()
    };
    let plain = udp(b"x");
    let tagged = build::ethernet().vlan(7).ipv4(CLIENT, SERVER).udp(40_000, 80).payload(b"x");
    assert_eq!(found("content:\"|08 00|\"; offset:12; bsize:14;", &plain), 1);
    assert_eq!(found("content:\"|08 00|\"; offset:12; bsize:14;", &tagged), 0);
    assert_eq!(found("content:\"|81 00|\"; offset:12; bsize:14;", &tagged), 1);
    assert_eq!(found("bsize:15;", &plain), 0);
}

#[test]
fn checksums_of_packets() {
    let changed = |frame: &[u8], at: usize| {
        let mut frame = frame.to_vec();
        frame[at] ^= 1;
        frame
    };
    let six = |builder: build::Builder| builder.ipv6([1; 16], [2; 16]);
    let frames = [
        ("ipv4", tcp(flags::ACK).payload(b"ab"), 19),
        ("tcpv4", tcp(flags::ACK).payload(b"ab"), 54),
        ("udpv4", udp(b"ab"), 42),
        ("icmpv4", icmp(8, 0, [0, 1, 0, 2]), 41),
        ("tcpv6", six(build::ethernet()).tcp(1, 2, flags::ACK).payload(b"ab"), 74),
        ("udpv6", six(build::ethernet()).udp(1, 2).payload(b"ab"), 62),
        ("icmpv6", icmpv6(128, [0, 1, 0, 2]), 61),
    ];
    for (name, right, at) in &frames {
        let wrong = changed(right, *at);
        differ("ip", &format!("{name}-csum:valid;"), right, &wrong);
        differ("ip", &format!("{name}-csum:invalid;"), &wrong, right);
        for (other, frame, _) in frames.iter().filter(|(other, ..)| other != name) {
            // A packet of IPv4 has two checksums, and that of the first row is one of TCP.
            let has_both = *name == "ipv4" && other.ends_with("v4") || (*name, *other) == ("tcpv4", "ipv4");
            let found = |is: &str| packet_matches("ip", &format!("{name}-csum:{is};"), frame);
            assert_eq!((found("valid"), found("invalid")), (has_both, false), "{name} of {other}");
        }
    }
    // Neither a sum over bytes that were not captured nor one that the sender left out is right or wrong.
    let (whole, mut without) = (tcp(flags::ACK).payload(b"ab"), udp(b"ab"));
    without[40..42].fill(0);
    for (name, frame) in [("tcpv4", &whole[..whole.len() - 1]), ("udpv4", &*without)] {
        for is in ["valid", "invalid"] {
            assert!(!packet_matches("ip", &format!("{name}-csum:{is};"), frame), "{name} {is}");
        }
    }
    // A card that has verified a sum, or completes it, knows better.
    let wrong = changed(&whole, 54);
    let layers: Layers = decode(&build::packet(&wrong, LinkType::ETHERNET));
    for (hints, test, matches) in [
        (Hints::CHECKSUM_VALID, "valid", 1),
        (Hints::CHECKSUM_VALID, "invalid", 0),
        (Hints::CHECKSUM_PENDING, "invalid", 0),
        (Hints(0), "invalid", 1),
    ] {
        let mut watch = Watch::new(&format!("alert ip any any -> any any (tcpv4-csum:{test}; sid:1;)"));
        watch.seen(Seen { hints, ..seen(&wrong, &layers) });
        assert_eq!(watch.sids().len(), matches, "{hints:?} {test}");
    }
}

#[test]
fn packets_that_were_put_together_from_fragments() {
    let frame = udp(b"a needle");
    let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
    for (option, of_whole, of_fragments) in [("only_frag", 0, 1), ("no_frag", 1, 0)] {
        for test in ["", "content:\"needle\";"] {
            let rule = format!("alert udp any any -> any any (flow:{option}; {test} sid:1;)");
            for (hints, matches) in [(Hints(0), of_whole), (Hints::REASSEMBLED, of_fragments)] {
                let mut watch = Watch::new(&rule).over(17);
                watch.seen(Seen { hints, ..seen(&frame, &layers) });
                assert_eq!(watch.sids().len(), matches, "{rule} {hints:?}");
            }
        }
    }
    let mut stream = Watch::new(
        "alert tcp any any -> any any (flow:no_frag; content:\"needle\"; sid:1;)
alert tcp any any -> any any (flow:only_frag; content:\"needle\"; sid:2;)",
    );
    assert_eq!(stream.chunk(Forward, b"a nee").chunk(Forward, b"dle").end().sids(), [1]);
}
