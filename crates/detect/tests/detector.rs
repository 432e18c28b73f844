//! Flows made by hand, and the rules that match them and that do not.
//!
//! Each flow is looked at by two detectors: one searches for literals, the other one verifies everything. They must agree.

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use weir_detect::{
    Action, ActionOrder, Anomaly, Detector, DetectorStats, EventOf, FlowState, Judging, Lists, Match,
    MatchedIn, Midstream, Moment, Places, Program, ProgramOptions, Reading, Reputations, RuleFile, Ruleset,
    Scores, Seen, SharedState, Sources, Turn, Variables, Verdicts,
};
use weir_proto::PROTOCOLS;
use weir_wire::Direction::{self, Forward, Reverse};
use weir_wire::build::{self, flags};
use weir_wire::stream::Chunk;
use weir_wire::{Hints, Layers, LinkType, Time, decode};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// What rules of these tests name: lists of one checksum, of digits that are repeated, countries and reputations.
struct Files;

impl Sources for Files {
    fn read(&self, _rules: &str, name: &str) -> Result<Vec<u8>, String> {
        let bytes = match name {
            "md5.txt" => 16,
            "sha1.txt" => 20,
            "sha256.txt" => 32,
            _ => return Err("no such file".to_owned()),
        };
        Ok("AB".repeat(bytes).into_bytes())
    }

    fn places(&self) -> Option<Arc<dyn Places>> {
        Some(Arc::new(Countries))
    }

    fn reputations(&self, category: &str) -> Option<Arc<Scores>> {
        let mut all = Reputations::new(b"1,Bad,\n2,Good,").expect("they are categories");
        all.add(b"10.0.0.1,1,30\n10.0.0.2,2,31\n10.0.0.3,1,31").expect("they are reputations");
        all.of(category)
    }
}

/// 10.0.0.1 is in Germany, 10.0.0.2 in France, and others are unknown.
#[derive(Debug)]
struct Countries;

impl Places for Countries {
    fn country(&self, address: IpAddr) -> Option<[u8; 2]> {
        match address {
            IpAddr::V4(address) if address == Ipv4Addr::from(CLIENT) => Some(*b"DE"),
            IpAddr::V4(address) if address == Ipv4Addr::from(SERVER) => Some(*b"FR"),
            _ => None,
        }
    }
}

fn set_of(rules: &str) -> Ruleset {
    let reading = Reading { variables: Variables::default(), sources: &Files, with_switched_off: false };
    let set = Ruleset::read([RuleFile { name: "x.rules", bytes: rules.as_bytes() }], &reading);
    assert!(set.refusals.is_empty(), "{:?}\n{rules}", set.refusals);
    set
}

/// A flow that both detectors look at.
struct Watch {
    both: [(Detector, FlowState); 2],
    moment: Moment<'static>,
}

fn seen<'a>(data: &'a [u8], layers: &'a Layers) -> Seen<'a> {
    Seen { data, layers, hints: Hints(0) }
}

fn address(bytes: [u8; 4]) -> IpAddr {
    Ipv4Addr::from(bytes).into()
}

impl Watch {
    /// A flow of TCP.
    fn new(rules: &str) -> Self {
        Self::of(&set_of(rules))
    }

    fn of(set: &Ruleset) -> Self {
        let programs = [
            Program::new(set, &[]),
            Program::with(set, &[], ProgramOptions { searches: false, ..ProgramOptions::default() }),
        ];
        Self {
            both: programs.map(|program| {
                assert!(program.unread.is_empty(), "{:?}", program.unread);
                let mut detector = Detector::new(Arc::new(program));
                detector.at_packet(Some(1));
                (detector, FlowState::default())
            }),
            moment: Moment {
                time: Time(0),
                direction: Forward,
                initiator: (address(CLIENT), 40_000),
                responder: (address(SERVER), 80),
                ip_proto: 6,
                protocols: [0; 4],
                first: Time(0),
                packet: None,
            },
        }
    }

    /// A flow of TCP that is judged so. Its streams are looked at with each segment.
    fn judged(rules: &str, judging: Judging) -> Self {
        let mut watch = Self::new(rules);
        let judging = Judging { each_segment: true, ..judging };
        watch.each(|detector, _, _| detector.judge_by(&judging));
        watch
    }

    fn at_packet(&mut self, number: u32) -> &mut Self {
        self.each(|detector, _, _| detector.at_packet(Some(number)))
    }

    fn over(mut self, ip_proto: u8) -> Self {
        self.moment.ip_proto = ip_proto;
        self
    }

    fn between(mut self, initiator: ([u8; 4], u16), responder: ([u8; 4], u16)) -> Self {
        self.moment.initiator = (address(initiator.0), initiator.1);
        self.moment.responder = (address(responder.0), responder.1);
        self
    }

    fn named(mut self, protocol: &str) -> Self {
        let place = PROTOCOLS.iter().position(|one| one.name == protocol).expect(protocol);
        self.moment.protocols[0] = place as u8 + 1;
        self
    }

    fn each(&mut self, mut look: impl FnMut(&mut Detector, &mut FlowState, &Moment<'static>)) -> &mut Self {
        for (detector, state) in &mut self.both {
            look(detector, state, &self.moment);
        }
        self
    }

    fn packet(&mut self, direction: Direction, frame: &[u8]) -> &mut Self {
        let layers: Layers = decode(&build::packet(frame, LinkType::ETHERNET));
        for (detector, state) in &mut self.both {
            let seen = seen(frame, &layers);
            Detector::sees(state, direction, &seen);
            detector.packet(state, &Moment { direction, packet: Some(seen), ..self.moment });
        }
        self
    }

    /// A packet of the client.
    fn seen(&mut self, seen: Seen<'_>) -> &mut Self {
        for (detector, state) in &mut self.both {
            Detector::sees(state, Forward, &seen);
            detector.packet(state, &Moment { packet: Some(seen), ..self.moment });
        }
        self
    }

    fn gap(&mut self, direction: Direction, gap: u64, data: &[u8]) -> &mut Self {
        let chunk = Chunk { time: Time(0), direction, gap, data };
        self.each(|detector, state, moment| detector.chunk(state, &Moment { direction, ..*moment }, &chunk))
    }

    fn chunk(&mut self, direction: Direction, data: &[u8]) -> &mut Self {
        self.gap(direction, 0, data)
    }

    fn transaction(&mut self, side: Direction, number: u64) -> &mut Self {
        self.each(|_, state, _| Detector::transaction(state, side, number))
    }

    fn buffer(&mut self, name: &str, direction: Direction, value: &[u8]) -> &mut Self {
        let mut all = weir_proto::buffers().chain(weir_proto::numbers());
        let buffer = all.find(|buffer| buffer.name == name).expect(name);
        self.each(|detector, state, moment| {
            detector.buffer(state, &Moment { direction, ..*moment }, buffer, value);
        })
    }

    /// A whole message: its numbers, and its other buffers.
    fn counted(
        &mut self,
        direction: Direction,
        numbers: &[(&str, u64)],
        values: &[(&str, &str)],
    ) -> &mut Self {
        for (name, number) in numbers {
            self.buffer(name, direction, &number.to_be_bytes());
        }
        self.message(direction, values)
    }

    fn complete(&mut self, direction: Direction) -> &mut Self {
        self.each(|detector, state, moment| detector.complete(state, &Moment { direction, ..*moment }))
    }

    /// A whole message: its buffers.
    fn message(&mut self, direction: Direction, values: &[(&str, &str)]) -> &mut Self {
        for (name, value) in values {
            self.buffer(name, direction, value.as_bytes());
        }
        self.complete(direction)
    }

    fn anomaly(&mut self, direction: Direction, anomaly: Anomaly<'_>) -> &mut Self {
        self.each(|detector, state, moment| {
            detector.event(state, &Moment { direction, ..*moment }, &anomaly);
        })
    }

    fn end(&mut self) -> &mut Self {
        self.each(|detector, state, moment| detector.end(state, moment))
    }

    fn matches(&mut self) -> Vec<Match> {
        let [searching, plain] =
            self.both.each_mut().map(|(detector, _)| detector.take().collect::<Vec<_>>());
        assert_eq!(searching, plain, "the search changes what matches");
        searching
    }

    /// The numbers of the rules that matched since it was called last, in order.
    fn sids(&mut self) -> Vec<u32> {
        let found = self.matches();
        let rules = &self.both[0].0.program().rules;
        found.iter().map(|one| rules[one.rule as usize].rule().sid).collect()
    }

    /// Other rules are in force from now on.
    fn follow(&mut self, rules: &str) -> &mut Self {
        let set = set_of(rules);
        let programs = [
            Program::new(&set, &[]),
            Program::with(&set, &[], ProgramOptions { searches: false, ..ProgramOptions::default() }),
        ];
        for ((detector, _), program) in self.both.iter_mut().zip(programs) {
            detector.follow(Arc::new(program));
        }
        self
    }

    fn memory(&self) -> usize {
        self.both.iter().map(|(_, state)| state.memory()).max().unwrap_or_default()
    }

    fn stats(&self) -> DetectorStats {
        self.both[0].0.stats()
    }
}

fn tcp(flags: u8) -> build::Builder {
    build::ethernet().ipv4(CLIENT, SERVER).tcp(40_000, 80, flags)
}

fn answer(flags: u8) -> build::Builder {
    build::ethernet().ipv4(SERVER, CLIENT).tcp(80, 40_000, flags)
}

fn udp(payload: &[u8]) -> Vec<u8> {
    build::ethernet().ipv4(CLIENT, SERVER).udp(40_000, 80).payload(payload)
}

fn icmp(kind: u8, code: u8, rest: [u8; 4]) -> Vec<u8> {
    build::ethernet().ipv4(CLIENT, SERVER).icmp(kind, code, rest).payload(b"ping")
}

fn icmpv6(kind: u8, rest: [u8; 4]) -> Vec<u8> {
    build::ethernet().ipv6([1; 16], [2; 16]).icmp(kind, 0, rest).payload(b"ping")
}

fn with_options(options: &[u8]) -> Vec<u8> {
    build::ethernet().ipv4(CLIENT, SERVER).options(options).udp(1, 2).payload(b"x")
}

/// A datagram with bytes of its IPv4 header changed.
fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = udp(b"abc");
    frame[14 + at..14 + at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// Whether a packet alone matches `alert PROTOCOL any any -> any any (OPTIONS; sid:1;)`.
fn packet_matches(protocol: &str, options: &str, frame: &[u8]) -> bool {
    let rule = format!("alert {protocol} any any -> any any ({options} sid:1;)");
    let layers: Layers = decode(&build::packet(frame, LinkType::ETHERNET));
    let mut watch = Watch::new(&rule).over(layers.ip_proto);
    if layers.network_kind == weir_wire::Network::Ipv6 {
        watch.moment.initiator.0 = IpAddr::from([1_u8; 16]);
        watch.moment.responder.0 = IpAddr::from([2_u8; 16]);
    }
    !watch.packet(Forward, frame).sids().is_empty()
}

/// The first packet matches, the second one does not.
fn differ(protocol: &str, options: &str, hit: &[u8], miss: &[u8]) {
    assert!(packet_matches(protocol, options, hit), "{protocol} {options} misses");
    assert!(!packet_matches(protocol, options, miss), "{protocol} {options} matches");
}

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
fn a_handshake_establishes() {
    let rules = "alert tcp any any -> any any (flow:established; dsize:>0; sid:1;)
alert tcp any any -> any any (flow:not_established; dsize:>0; sid:2;)
alert tcp any any -> any any (flow:established,to_client; dsize:>0; sid:3;)";
    let steps = [
        (Forward, tcp(flags::SYN).payload(b"")),
        (Reverse, answer(flags::SYN | flags::ACK).payload(b"")),
        (Forward, tcp(flags::ACK).payload(b"")),
    ];
    for left_out in 0..4 {
        let mut watch = Watch::new(rules);
        for (_, (side, frame)) in steps.iter().enumerate().filter(|(step, _)| *step != left_out) {
            watch.packet(*side, frame);
        }
        assert_eq!(watch.sids(), []);
        // The third step is made by data as well.
        let is_whole = left_out >= 2;
        let expected = if is_whole { [1] } else { [2] };
        assert_eq!(watch.packet(Forward, &tcp(flags::ACK).payload(b"x")).sids(), expected, "{left_out}");
        let expected: &[u32] = if is_whole { &[1, 3] } else { &[2] };
        assert_eq!(watch.packet(Reverse, &answer(flags::ACK).payload(b"x")).sids(), expected, "{left_out}");
    }
}

#[test]
fn both_sides_establish_a_flow_of_udp() {
    let rules = "alert udp any any -> any any (flow:established,to_server; dsize:>0; sid:1;)
alert udp any any -> any any (flow:established,to_client; dsize:>0; sid:2;)";
    let back = build::ethernet().ipv4(SERVER, CLIENT).udp(80, 40_000).payload(b"y");
    let mut watch = Watch::new(rules).over(17);
    assert_eq!(watch.packet(Forward, &udp(b"x")).sids(), []);
    assert_eq!(watch.packet(Forward, &udp(b"x")).sids(), []);
    assert_eq!(watch.packet(Reverse, &back).sids(), [2]);
    assert_eq!(watch.packet(Forward, &udp(b"x")).sids(), [1]);
}

#[test]
fn addresses_and_ports() {
    let sides = |header: &str| {
        let mut watch = Watch::new(&format!("alert tcp {header} (flags:*A; sid:1;)"));
        let forward = !watch.packet(Forward, &tcp(16).payload(b"")).sids().is_empty();
        let reverse = !watch.packet(Reverse, &answer(16).payload(b"")).sids().is_empty();
        (forward, reverse)
    };
    let (both, one, other, none) = ((true, true), (true, false), (false, true), (false, false));
    assert_eq!(sides("any any -> any any"), both);
    assert_eq!(sides("10.0.0.1 40000 -> 10.0.0.2 80"), one);
    assert_eq!(sides("10.0.0.2 80 -> 10.0.0.1 40000"), other);
    assert_eq!(sides("10.0.0.1 40000 <> 10.0.0.2 80"), both);
    assert_eq!(sides("10.0.0.2 80 <> 10.0.0.1 40000"), both);
    assert_eq!(sides("10.0.0.1 40001 <> 10.0.0.2 80"), none);
    assert_eq!(sides("10.0.0.3 any -> any any"), none);
    assert_eq!(sides("any any -> any 81"), none);
    assert_eq!(sides("any any -> any [79:80]"), one);
    assert_eq!(sides("any any -> any !80"), other);
    assert_eq!(sides("any any -> any [1:100,!80]"), none);
    assert_eq!(sides("[10.0.0.0/8,!10.0.0.1] any -> any any"), other);
    assert_eq!(sides("!10.0.0.0/30 any -> any any"), none);
    assert_eq!(sides("$HOME_NET any -> $HOME_NET $HTTP_PORTS"), one);
    assert_eq!(sides("$EXTERNAL_NET any -> any any"), none);
    let from_abroad = |address| {
        let mut watch = Watch::new("alert tcp $EXTERNAL_NET any -> $HOME_NET any (content:\"abc\"; sid:1;)")
            .between((address, 1), (SERVER, 80));
        watch.chunk(Forward, b"abc").end().sids()
    };
    assert_eq!(from_abroad([11, 0, 0, 1]), [1]);
    assert_eq!(from_abroad([172, 31, 255, 255]), []);
    assert_eq!(from_abroad([172, 32, 0, 0]), [1]);
}

#[test]
fn headers_of_rules_with_parts_of_both_sides() {
    let rules = "alert http 10.0.0.1 any -> 10.0.0.2 80 (http.method; content:\"GET\"; http.stat_code; content:\"200\"; sid:1;)
alert tcp 10.0.0.1 any -> 10.0.0.2 80 (flow:to_server; content:\"GET\"; http.uri; content:\"/x\"; sid:2;)
alert tcp 10.0.0.2 80 -> 10.0.0.1 any (http.method; content:\"GET\"; http.stat_code; content:\"200\"; sid:3;)";
    let found = |client, port| {
        let mut watch = Watch::new(rules).named("http").between((client, 40_000), (SERVER, port));
        watch.chunk(Forward, b"GET /x").transaction(Forward, 0).transaction(Reverse, 0);
        watch.message(Forward, &[("http.method", "GET"), ("http.uri", "/x")]);
        watch.chunk(Reverse, b"200").message(Reverse, &[("http.stat_code", "200")]);
        let mut sids = watch.end().sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found(CLIENT, 80), [1, 2, 3]);
    assert_eq!(found([10, 0, 0, 3], 80), []);
    assert_eq!(found(CLIENT, 81), []);
}

#[test]
fn any_cut_of_a_stream_matches_once() {
    let rules = "alert tcp any any -> any any (content:\"needle\"; sid:1;)
alert tcp any any -> any any (content:\"GET\"; depth:3; content:\"needle\"; distance:1; sid:2;)
alert tcp any any -> any any (content:\"needlf\"; sid:3;)
alert tcp any any -> any any (content:\"needle\"; depth:9; sid:4;)
alert tcp any any -> any any (content:\"needle\"; offset:5; sid:5;)";
    let stream = b"GET needle in a haystack";
    for cut in 0..=stream.len() {
        let (first, second) = stream.split_at(cut);
        let mut watch = Watch::new(rules);
        assert_eq!(watch.chunk(Forward, first).chunk(Forward, second).end().sids(), [1, 2], "{cut}");
        // An answer between them.
        let mut watch = Watch::new(rules);
        watch.chunk(Forward, first).chunk(Reverse, b"x").chunk(Forward, second).end();
        assert_eq!(watch.sids(), [1, 2], "{cut}");
    }
    let mut watch = Watch::new(rules);
    stream.chunks(1).for_each(|byte| _ = watch.chunk(Forward, byte));
    assert_eq!(watch.end().sids(), [1, 2]);
}

#[test]
fn contents_over_the_border_of_windows() {
    let rule = "alert tcp any any -> any any (content:\"border\"; sid:1;)";
    for at in (2_550..2_566).chain(5_110..5_126) {
        let mut stream = vec![b'.'; 9_000];
        stream[at..at + 6].copy_from_slice(b"border");
        for size in [1, 1_460, 2_560, 9_000] {
            let mut watch = Watch::new(rule);
            stream.chunks(size).for_each(|piece| _ = watch.chunk(Forward, piece));
            assert_eq!(watch.end().sids(), [1], "{at} {size}");
        }
        // A missing byte inside of it.
        for within in 1..6 {
            let mut watch = Watch::new(rule);
            watch.chunk(Forward, &stream[..at + within]).gap(Forward, 1, &stream[at + within..]);
            assert_eq!(watch.end().sids(), [], "{at} {within}");
        }
        let mut watch = Watch::new(rule);
        watch.chunk(Forward, &stream[..at]).gap(Forward, 1, &stream[at..]);
        assert_eq!(watch.end().sids(), [1], "{at}");
    }
}

#[test]
fn places_count_from_the_beginning_of_a_stream() {
    let rule = "alert tcp any any -> any any (content:\"GET\"; depth:3; sid:1;)";
    assert_eq!(Watch::new(rule).chunk(Forward, b"GET").end().sids(), [1]);
    assert_eq!(Watch::new(rule).chunk(Forward, b"xGET").end().sids(), []);
    assert_eq!(Watch::new(rule).gap(Forward, 1, b"GET").end().sids(), []);
    assert_eq!(Watch::new(rule).chunk(Forward, b"x").gap(Forward, 1, b"GET").end().sids(), []);
    let mut stream = vec![b'.'; 2_560 * 3];
    stream[5_120..5_123].copy_from_slice(b"GET");
    assert_eq!(Watch::new(rule).chunk(Forward, &stream).end().sids(), []);
    // A huge gap does not overflow.
    let mut watch = Watch::new(rule);
    assert_eq!(watch.gap(Forward, u64::MAX, b"GET").gap(Forward, u64::MAX, b"GET").end().sids(), []);
}

#[test]
fn streams_are_looked_at_to_a_depth() {
    let rule = "alert tcp any any -> any any (content:\"needle\"; sid:1;)";
    for (protocol, depth) in [("http", 1 << 20), ("tls", 16 << 10), ("ssh", 16 << 10)] {
        for (end, expected) in [(depth, &[1_u32][..]), (depth + 1, &[])] {
            let mut stream = vec![b'.'; depth + 6_000];
            stream[end - 6..end].copy_from_slice(b"needle");
            for size in [777, 2_560, 65_536, depth + 6_000] {
                let mut watch = Watch::new(rule).named(protocol);
                stream.chunks(size).for_each(|piece| _ = watch.chunk(Forward, piece));
                assert_eq!(watch.end().sids(), expected, "{protocol} {end} {size}");
                assert!(watch.memory() < 1_000, "{}", watch.memory());
            }
        }
    }
}

#[test]
fn conditions_hold_in_one_transaction() {
    let rules =
        "alert http any any -> any any (http.method; content:\"GET\"; http.uri; content:\"/evil\"; sid:1;)
alert http any any -> any any (http.uri; content:\"/evil\"; http.stat_code; content:\"200\"; sid:2;)
alert http any any -> any any (flow:to_server; http.uri; content:\"/evil\"; bsize:5; sid:3;)";
    let request = |watch: &mut Watch, number, method, uri| {
        watch.transaction(Forward, number);
        watch.message(Forward, &[("http.method", method), ("http.uri", uri)]).sids()
    };
    let mut watch = Watch::new(rules).named("http");
    assert_eq!(request(&mut watch, 0, "GET", "/evil"), [1, 3]);
    assert_eq!(request(&mut watch, 1, "PUT", "/evil"), [3]);
    assert_eq!(request(&mut watch, 2, "GET", "/evik"), []);
    assert_eq!(request(&mut watch, 3, "GET", "/evil2"), [1]);
    // The answers to 0 to 3: the first and the last one belong to a request that fits.
    for (number, code, expected) in
        [(0, "200", &[2_u32][..]), (1, "404", &[]), (2, "200", &[]), (3, "200", &[2])]
    {
        watch.transaction(Reverse, number).message(Reverse, &[("http.stat_code", code)]);
        let found = watch.matches();
        assert!(found.iter().all(|one| one.transaction == Some(number)));
        assert_eq!(found.len(), expected.len(), "{number}");
    }
    // A buffer of a transaction and one of the next.
    let mut watch = Watch::new(rules).named("http");
    watch.transaction(Forward, 0).message(Forward, &[("http.method", "GET")]);
    watch.transaction(Forward, 1).message(Forward, &[("http.uri", "/evil")]);
    assert_eq!(watch.end().sids(), [3]);
    // Values of one transaction that are completed one after the other, and again.
    let mut watch = Watch::new(rules).named("http");
    watch.message(Forward, &[("http.uri", "/evil")]).message(Forward, &[("http.method", "GET")]);
    watch.message(Forward, &[("http.uri", "/evil")]);
    assert_eq!(watch.end().sids(), [3, 1]);
}

#[test]
fn each_use_of_a_multiple_buffer_is_about_one_value() {
    let rules =
        "alert dns any any -> any any (dns.query; content:\"evil\"; dns.query; content:\"good\"; sid:1;)
alert dns any any -> any any (dns.query; content:\"evil\"; content:\"good\"; sid:2;)
alert dns any any -> any any (dns.query; dotprefix; content:\".example.com\"; endswith; sid:3;)";
    let found = |names: &[&str]| {
        let mut watch = Watch::new(rules).over(17).named("dns");
        let values: Vec<_> = names.iter().map(|name| ("dns.query", *name)).collect();
        watch.message(Forward, &values).sids()
    };
    assert_eq!(found(&["evil", "good"]), [1]);
    assert_eq!(found(&["good", "evil"]), [1]);
    assert_eq!(found(&["evil"]), []);
    assert_eq!(found(&["evilgood"]), [1, 2]);
    for (name, expected) in [
        ("example.com", &[3_u32][..]),
        ("a.example.com", &[3]),
        ("badexample.com", &[]),
        ("example.com.x", &[]),
    ] {
        assert_eq!(found(&[name]), expected, "{name}");
        assert_eq!(found(&["other", name]), expected, "{name}");
    }
    // More uses than a byte counts.
    let many = "dns.query; content:\"a\"; ".repeat(300);
    let rule = format!("alert dns any any -> any any ({many} dns.query; content:\"z\"; sid:1;)");
    let mut watch = Watch::new(&rule).over(17).named("dns");
    assert_eq!(watch.message(Forward, &[("dns.query", "a")]).sids(), []);
    assert_eq!(watch.message(Forward, &[("dns.query", "z")]).sids(), [1]);
}

#[test]
fn bodies_come_in_pieces() {
    const LIMIT: usize = 100 << 10;
    let rules = "alert http any any -> any any (http.request_body; content:\"needle\"; sid:1;)
alert http any any -> any any (file.data; content:\"needle\"; http.method; content:\"PUT\"; sid:2;)
alert http any any -> any any (http.request_body; content:\"needle\"; endswith; sid:3;)";
    for (length, end, expected) in [
        (2_000, 1_000, &[1_u32, 2][..]),
        (1_000, 1_000, &[1, 2, 3]),
        (LIMIT, LIMIT, &[1, 2, 3]),
        (LIMIT + 9_000, LIMIT, &[1, 2, 3]),
        (LIMIT + 9_000, LIMIT + 1, &[]),
    ] {
        let mut body = vec![b'.'; length];
        body[end - 6..end].copy_from_slice(b"needle");
        for size in [1, 1_000, length] {
            for is_ended in [true, false] {
                let mut watch = Watch::new(rules).named("http");
                watch.message(Forward, &[("http.method", "PUT")]);
                body.chunks(size).for_each(|piece| _ = watch.buffer("http.request_body", Forward, piece));
                if is_ended {
                    watch.buffer("http.request_body", Forward, b"");
                    assert_eq!(watch.sids(), expected, "{length} {end} {size}");
                }
                let rest = if is_ended { &[] } else { expected };
                assert_eq!(watch.end().sids(), rest, "{length} {end} {size}");
                assert!(watch.memory() < 300_000, "{}", watch.memory());
            }
        }
    }
    // A request without a body ends one of no bytes; the next one has one.
    let mut watch = Watch::new(rules).named("http");
    watch.message(Forward, &[("http.method", "PUT")]).buffer("http.request_body", Forward, b"");
    assert_eq!(watch.sids(), []);
    watch.transaction(Forward, 1).buffer("http.request_body", Forward, b"needle");
    // The body is looked at although its end is missing.
    watch.transaction(Forward, 2).message(Forward, &[("http.method", "PUT")]);
    assert_eq!(watch.sids(), [1, 3]);
}

#[test]
fn raw_headers_come_in_lines() {
    let rule =
        "alert http any any -> any any (flow:to_server; http.header.raw; content:\"1|0d 0a|B: 2\"; sid:1;)
alert http any any -> any any (http.header.raw; content:\"B: 3\"; http.method; content:\"GET\"; sid:2;)";
    for (last, expected) in [("B: 2\r\n", 1), ("B: 3\r\n", 2)] {
        let mut watch = Watch::new(rule).named("http");
        for line in ["A: 1\r\n", last, ""] {
            watch.buffer("http.header.raw", Forward, line.as_bytes());
        }
        assert_eq!(watch.message(Forward, &[("http.method", "GET")]).sids(), [expected]);
    }
}

#[test]
fn buffers_may_be_absent() {
    let rules = "alert http any any -> any any (flow:to_server; http.referer; absent; sid:1;)
alert http any any -> any any (flow:to_server; http.referer; absent:or_else; content:\"abc\"; sid:2;)
alert http any any -> any any (flow:to_server; http.method; content:!\"PUT\"; http.referer; absent; sid:3;)
alert http any any -> any any (flow:to_server; http.referer; absent; http.method; content:!\"PUT\"; sid:4;)
alert http any any -> any any (flow:to_server; http.referer; content:!\"abc\"; sid:5;)
alert http any any -> any any (flow:to_server; http.referer; absent; http.method; content:\"PUT\"; sid:6;)";
    let found = |values: &[(&str, &str)]| {
        let mut sids = Watch::new(rules).named("http").message(Forward, values).sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found(&[("http.method", "GET")]), [1, 2, 3, 4]);
    assert_eq!(found(&[("http.method", "PUT")]), [1, 2, 6]);
    assert_eq!(found(&[("http.method", "GET"), ("http.referer", "abc")]), [2]);
    assert_eq!(found(&[("http.method", "GET"), ("http.referer", "abx")]), [5]);
    // The parser is asked for something that shows that a message is there.
    let set = set_of("alert http any any -> any any (http.referer; absent; sid:1;)");
    let program = Program::new(&set, &[]);
    assert!(program.buffers().iter().any(|buffer| buffer.name == "http.method"));
    // What the parser names last comes before the message is complete.
    let mut watch = Watch::new(rules).named("http");
    watch.buffer("http.header.raw", Forward, b"x").buffer("http.header.raw", Forward, b"");
    assert_eq!(watch.message(Forward, &[("http.referer", "abx"), ("http.method", "GET")]).sids(), [5]);
}

#[test]
fn numbers_of_messages() {
    let rules = "alert dns any any -> any any (dns.opcode:4; sid:1;)
alert dns any any -> any any (dns.rcode:nxdomain; sid:2;)
alert dns any any -> any any (dns.rcode:!0; flow:to_client; sid:3;)
alert dns any any -> any any (dns.rrtype:txt; sid:4;)
alert dns any any -> any any (dns.rrtype:10-20; dns.rrtype:>255; sid:5;)
alert dns any any -> any any (dns.rcode:3; dns.queries.rrname; content:\"evil\"; sid:6;)";
    let found = |side: Direction, numbers: &[(&str, u64)], values: &[(&str, &str)]| {
        let mut sids = Watch::new(rules).named("dns").over(17).counted(side, numbers, values).sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found(Forward, &[("dns.opcode", 4)], &[]), [1]);
    assert!(found(Forward, &[("dns.opcode", 5)], &[]).is_empty());
    assert_eq!(found(Reverse, &[("dns.rcode", 3)], &[]), [2, 3]);
    assert_eq!(found(Forward, &[("dns.rcode", 3)], &[]), [2]);
    assert_eq!(found(Reverse, &[("dns.rcode", 2)], &[]), [3]);
    assert!(found(Reverse, &[("dns.rcode", 0)], &[]).is_empty());
    // Any of several numbers passes, and each test is about any of them. Ranges leave their ends out.
    assert_eq!(found(Forward, &[("dns.rrtype", 1), ("dns.rrtype", 16)], &[]), [4]);
    assert_eq!(found(Forward, &[("dns.rrtype", 256), ("dns.rrtype", 11)], &[]), [5]);
    assert!(found(Forward, &[("dns.rrtype", 255), ("dns.rrtype", 11)], &[]).is_empty());
    assert!(found(Forward, &[("dns.rrtype", 256), ("dns.rrtype", 20)], &[]).is_empty());
    // Numbers and buffers are those of one message.
    assert_eq!(found(Forward, &[("dns.rcode", 3)], &[("dns.queries.rrname", "evil.example")]), [2, 6]);
    assert_eq!(found(Forward, &[("dns.rcode", 3)], &[("dns.queries.rrname", "good.example")]), [2]);
    let mut watch = Watch::new(rules).named("dns").over(17);
    watch.counted(Forward, &[("dns.rcode", 3)], &[]).transaction(Forward, 1);
    assert_eq!(watch.message(Forward, &[("dns.queries.rrname", "evil.example")]).sids(), [2]);
    watch.transaction(Forward, 2).message(Forward, &[("dns.queries.rrname", "evil.example")]);
    assert!(watch.counted(Reverse, &[("dns.rcode", 0)], &[]).sids().is_empty());
    // Parsers are asked for the numbers that rules test, and for no others.
    let program = Program::new(&set_of("alert dns any any -> any any (dns.opcode:4; sid:1;)"), &[]);
    assert_eq!(program.buffers().iter().map(|buffer| buffer.name).collect::<Vec<_>>(), ["dns.opcode"]);
}

#[test]
fn versions_and_states_of_tls() {
    let rules = "alert tls any any -> any any (tls.version:1.2; flow:to_client; sid:1;)
alert tcp any any -> any any (ssl_version:!tls1.3,tls1.2; sid:2;)
alert tcp any any -> any any (ssl_version:tls1.0,tls1.1; sid:3;)
alert tls any any -> any any (ssl_state:client_hello|client_keyx; sid:4;)
alert tls any any -> any any (ssl_state:!client_hello; tls.sni; content:\"evil\"; sid:5;)
alert tls any any -> any any (tls.cert_chain_len:>2; sid:6;)";
    let found = |side: Direction, name: &str, number: u64| {
        let mut sids = Watch::new(rules).named("tls").counted(side, &[(name, number)], &[]).sids();
        sids.sort_unstable();
        sids
    };
    assert_eq!(found(Reverse, "tls.version", 0x303), [1, 2]);
    assert_eq!(found(Forward, "tls.version", 0x303), [2]);
    assert!(found(Reverse, "tls.version", 0x304).is_empty());
    assert_eq!(found(Reverse, "tls.version", 0x301), [2, 3]);
    assert_eq!(found(Reverse, "tls.version", 0x300), [2]);
    assert_eq!(found(Forward, "tls.state", 1), [4]);
    assert_eq!(found(Forward, "tls.state", 16), [4]);
    assert!(found(Reverse, "tls.state", 2).is_empty() && found(Reverse, "tls.state", 12).is_empty());
    assert_eq!(found(Reverse, "tls.cert_chain_len", 3), [6]);
    assert!(found(Reverse, "tls.cert_chain_len", 2).is_empty());
    // The state and the name are of the handshake, whose messages are complete each.
    let mut watch = Watch::new(rules).named("tls");
    let hello = [("tls.sni", "evil.example")];
    assert_eq!(watch.counted(Forward, &[("tls.state", 1)], &hello).sids(), [4]);
    assert_eq!(watch.counted(Forward, &[("tls.state", 16)], &[]).sids(), [5]);
}

#[test]
fn sizes_of_streams() {
    let at = |direction: Direction, flags: u8, seq: u32, payload: &[u8]| {
        let builder = if direction == Forward { tcp(flags) } else { answer(flags) };
        builder.seq(seq).payload(payload)
    };
    let rules = "alert tcp-pkt any any -> any any (stream_size:client,=,4; content:\"c\"; sid:1;)
alert tcp-pkt any any -> any any (stream_size:server,>,1; content:\"c\"; sid:2;)
alert tcp-pkt any any -> any any (stream_size:both,>,0; content:\"c\"; sid:3;)
alert tcp-pkt any any -> any any (stream_size:either,>,6; content:\"c\"; sid:4;)";
    let mut watch = Watch::new(rules);
    // A SYN has a sequence number of its own.
    watch.packet(Forward, &at(Forward, flags::SYN, 0xffff_fffe, b""));
    assert_eq!(watch.packet(Forward, &at(Forward, flags::ACK, 0xffff_ffff, b"abc")).sids(), [1]);
    // What is sent again counts once; a number before the last one adds nothing.
    assert_eq!(watch.packet(Forward, &at(Forward, flags::ACK, 0xffff_ffff, b"abc")).sids(), [1]);
    watch.packet(Reverse, &at(Reverse, flags::SYN | flags::ACK, 7, b""));
    assert_eq!(watch.packet(Forward, &at(Forward, flags::ACK, 0, b"bc")).sids(), [1, 3]);
    watch.packet(Reverse, &at(Reverse, flags::ACK, 8, b"ok"));
    assert_eq!(watch.packet(Forward, &at(Forward, flags::ACK, 2, b"abc")).sids(), [2, 3, 4]);
    // In a stream, the sizes are those when its bytes came, although it is looked at when the other side answers.
    let rules = "alert tcp any any -> any any (stream_size:server,<,2; content:\"ask\"; sid:1;)";
    for (before, expected) in [(&b""[..], &[1][..]), (b"hello", &[])] {
        let mut watch = Watch::new(rules);
        watch.packet(Forward, &at(Forward, flags::SYN, 1, b""));
        watch.packet(Reverse, &at(Reverse, flags::SYN | flags::ACK, 7, before));
        watch.packet(Forward, &at(Forward, flags::ACK, 2, b"ask")).chunk(Forward, b"ask");
        watch.packet(Reverse, &at(Reverse, flags::ACK, 8, b"answer"));
        assert_eq!(watch.chunk(Reverse, b"answer").end().sids(), expected);
    }
}

#[test]
fn bits_of_flows() {
    let data = |payload: &str| tcp(16).payload(payload.as_bytes());
    // The order in the file is not that of the judgement.
    let rules = "alert tcp-pkt any any -> any any (content:\"b\"; flowbits:isset,one; sid:1;)
alert tcp-pkt any any -> any any (content:\"a\"; flowbits:set,one; flowbits:noalert; sid:9;)
alert tcp-pkt any any -> any any (content:\"c\"; flowbits:isnotset,one; sid:2;)
alert tcp-pkt any any -> any any (content:\"d\"; flowbits:unset,one; sid:3;)
alert tcp-pkt any any -> any any (content:\"e\"; flowbits:toggle,one; noalert; sid:4;)
alert tcp-pkt any any -> any any (content:\"f\"; flowbits:isset,one|two; sid:5;)
alert tcp-pkt any any -> any any (content:\"g\"; flowbits:isnotset,one|two; sid:6;)
alert tcp-pkt any any -> any any (content:\"h\"; flowbits:set,two; sid:7;)";
    let mut watch = Watch::new(rules);
    for (payload, expected) in [
        ("b", &[][..]),
        ("ab", &[1]),
        ("b", &[1]),
        ("c", &[]),
        ("f", &[5]),
        ("g", &[6]),
        ("h", &[7]),
        ("g", &[]),
        ("d", &[3]),
        ("bc", &[2]),
        ("eb", &[1]),
        ("e", &[]),
        ("b", &[]),
        ("fg", &[5, 6]),
    ] {
        assert_eq!(watch.packet(Forward, &data(payload)).sids(), expected, "{payload}");
    }
}

#[test]
fn numbers_of_flows() {
    let rules = "alert tcp-pkt any any -> any any (content:\"a\"; flowint:n,+,2; noalert; sid:1;)
alert tcp-pkt any any -> any any (content:\"a\"; flowint:n,==,4; sid:2;)
alert tcp-pkt any any -> any any (content:\"b\"; flowint:n,>,3; sid:3;)
alert tcp-pkt any any -> any any (content:\"c\"; flowint:n,-,9; noalert; sid:4;)
alert tcp-pkt any any -> any any (content:\"d\"; flowint:m,notset; sid:5;)
alert tcp-pkt any any -> any any (content:\"e\"; flowint:n,isset; sid:6;)";
    let mut watch = Watch::new(rules);
    let mut found = |payload: &str| watch.packet(Forward, &tcp(16).payload(payload.as_bytes())).sids();
    assert_eq!(found("be"), []);
    assert_eq!(found("ae"), [6]);
    assert_eq!(found("b"), []);
    assert_eq!(found("ab"), [2, 3]);
    assert_eq!(found("c"), []);
    assert_eq!(found("bde"), [5, 6]);
}

#[test]
fn numbers_of_flows_are_set() {
    let rules = "alert tcp-pkt any any -> any any (content:\"a\"; flowint:n,=,4; noalert; sid:1;)
alert tcp-pkt any any -> any any (content:\"b\"; flowint:n,==,4; sid:2;)
alert tcp-pkt any any -> any any (content:\"c\"; flowint:n,!=,4; sid:3;)
alert tcp-pkt any any -> any any (content:\"d\"; flowint:n,<=,4; flowint:n,>=,4; sid:4;)
alert tcp-pkt any any -> any any (content:\"e\"; flowint:n,<,4; sid:5;)";
    let mut watch = Watch::new(rules);
    let mut found = |payload: &str| watch.packet(Forward, &tcp(16).payload(payload.as_bytes())).sids();
    assert_eq!(found("bcde"), []);
    assert_eq!(found("a"), []);
    assert_eq!(found("bcde"), [2, 4]);
}

#[test]
fn pass_comes_before_alert() {
    let data = |payload: &str| tcp(16).payload(payload.as_bytes());
    let rules = "alert tcp-pkt any any -> any any (content:\"a\"; sid:1;)
pass tcp-pkt any any -> any any (content:\"b\"; sid:2;)";
    let mut watch = Watch::new(rules);
    assert_eq!(watch.packet(Forward, &data("a")).sids(), [1]);
    assert_eq!(watch.packet(Forward, &data("ab")).sids(), []);
    assert_eq!(watch.packet(Forward, &data("a")).sids(), [1]);
    // In a stream or in messages it is about the rest of the flow.
    let rules = "alert tcp any any -> any any (content:\"a\"; sid:1;)
alert tcp-pkt any any -> any any (content:\"a\"; sid:3;)
pass tcp any any -> any any (content:\"b\"; sid:2;)";
    let mut watch = Watch::new(rules);
    watch.chunk(Forward, b"ab").chunk(Reverse, b"a").packet(Forward, &data("a"));
    assert_eq!(watch.end().sids(), []);
    let mut watch = Watch::new(rules);
    assert_eq!(watch.chunk(Forward, b"a").chunk(Reverse, b"b").end().sids(), [1]);
    // A rule of addresses lets each packet of the flow pass.
    let rules = "alert tcp-pkt any any -> any any (content:\"a\"; sid:1;)
pass ip 10.0.0.1 any -> any any (sid:2;)";
    let mut watch = Watch::new(rules);
    for _ in 0..3 {
        assert_eq!(watch.packet(Forward, &data("a")).packet(Reverse, &answer(16).payload(b"a")).sids(), []);
    }
    let mut watch = Watch::new(&rules.replace("10.0.0.1", "10.0.0.3"));
    assert_eq!(watch.packet(Forward, &data("a")).sids(), [1]);
}

#[test]
fn rules_of_addresses_match_once_a_side() {
    let mut watch =
        Watch::new("alert ip any any -> any any (sid:1;)\nalert ip 10.0.0.1 any -> any any (sid:2;)");
    let (forward, reverse) = (tcp(2).payload(b""), answer(18).payload(b""));
    assert_eq!(watch.packet(Forward, &forward).sids(), [1, 2]);
    assert_eq!(
        watch.packet(Forward, &forward).packet(Reverse, &reverse).packet(Reverse, &reverse).sids(),
        [1]
    );
    // More of them than are kept: each matches once or not at all.
    let rules: String =
        (1..=3_000).map(|sid| format!("alert ip any any -> any any (sid:{sid};)\n")).collect();
    let mut watch = Watch::new(&rules);
    assert_eq!(watch.packet(Forward, &forward).sids().len(), 1_000);
    assert_eq!(watch.packet(Forward, &forward).sids(), []);
    assert!(watch.stats().no_room >= 2_000);
}

#[test]
fn ten_thousand_bits_are_bounded() {
    let rules: String = (1..=10_000)
        .map(|sid| format!("alert tcp-pkt any any -> any any (content:\"a\"; flowbits:set,bit{sid}; noalert; sid:{sid};)\n"))
        .collect();
    let tests = "alert tcp-pkt any any -> any any (content:\"b\"; flowbits:isset,bit7; sid:10001;)
alert tcp-pkt any any -> any any (content:\"b\"; flowbits:isset,bit9999; sid:10002;)";
    let mut watch = Watch::new(&(rules + tests));
    watch.packet(Forward, &tcp(16).payload(b"a"));
    assert_eq!(watch.stats().no_room, 9_000);
    assert!(watch.memory() < 10_000, "{}", watch.memory());
    assert_eq!(watch.packet(Forward, &tcp(16).payload(b"b")).sids(), [10_001]);
}

#[test]
fn hostile_messages_are_bounded() {
    let rules = "alert http any any -> any any (http.method; content:\"GET\"; http.stat_code; content:\"200\"; sid:1;)
alert http any any -> any any (http.request_header; content:\"abc\"; http.uri; content:\"/evil\"; sid:2;)
alert http any any -> any any (http.request_body; content:\"abc\"; http.uri; content:\"/evil\"; sid:3;)";
    // Values of no bytes, and of many, without end.
    for (value, rounds) in [(vec![], 100_000), (vec![b'a'], 100_000), (vec![b'a'; 64 << 10], 100)] {
        let mut watch = Watch::new(rules).named("http");
        for _ in 0..rounds {
            watch.buffer("http.request_header", Forward, &value);
        }
        watch.complete(Forward);
        assert!(watch.memory() < 300_000, "{}", watch.memory());
        assert!(watch.stats().no_room > 0);
    }
    // Bodies of one transaction without end.
    let mut watch = Watch::new(rules).named("http");
    for _ in 0..100 {
        watch.buffer("http.request_body", Forward, &[b'a'; 99_999]).buffer("http.request_body", Forward, b"");
    }
    assert!(watch.memory() < 600_000, "{}", watch.memory());
    // A transaction's half, thousands of times, does not hide a whole one.
    let mut watch = Watch::new(rules).named("http");
    for number in 0..5_000 {
        watch
            .transaction(Forward, number)
            .transaction(Reverse, number)
            .message(Forward, &[("http.method", "GET")]);
    }
    watch.message(Reverse, &[("http.stat_code", "200")]);
    assert_eq!(watch.sids(), [1]);
    assert!(watch.memory() < 100_000, "{}", watch.memory());
}

#[test]
fn parts_that_failed_wait_for_values_of_theirs() {
    let rules = "alert http any any -> any any (http.request_header; content:\"abc\"; http.uri; content:\"/evil\"; sid:1;)";
    let mut watch = Watch::new(rules).named("http");
    watch.message(Forward, &[("http.request_header", "abc")]);
    let before = watch.stats().verified;
    for _ in 0..900 {
        watch.message(Forward, &[("http.method", "GET")]);
    }
    assert_eq!(watch.stats().verified, before);
    assert_eq!(watch.message(Forward, &[("http.uri", "/evil")]).sids(), [1]);
}

/// An anomaly of a message.
fn odd<'a>(protocol: &'a str, name: &'a str, transaction: Option<u64>) -> Anomaly<'a> {
    Anomaly { of: EventOf::Message, protocol, name, transaction }
}

#[test]
fn an_event_of_messages_matches_for_its_protocol_and_side() {
    let rules = "alert http any any -> any any (flow:to_server; app-layer-event:http.range_invalid; sid:1;)
alert dns any any -> any any (app-layer-event:dns.malformed_data; sid:2;)
alert http any any -> any any (app-layer-event:http.response_too_many_headers; sid:3;)";
    let mut watch = Watch::new(rules);
    watch.anomaly(Reverse, odd("http", "RANGE_INVALID", Some(3)));
    assert_eq!(watch.sids(), [], "it is of the other side");
    watch.anomaly(Forward, odd("dns", "RANGE_INVALID", Some(3)));
    watch.anomaly(Forward, odd("http", "RANGE_OTHER", Some(3)));
    watch.anomaly(Forward, odd("http", "TOO_MANY_HEADERS", Some(3)));
    assert_eq!(watch.sids(), []);
    watch.anomaly(Forward, odd("http", "RANGE_INVALID", Some(3)));
    let found = watch.matches();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].transaction, found[0].matched_in), (Some(3), MatchedIn::Transaction));
    assert_eq!(PROTOCOLS[usize::from(found[0].protocol) - 1].name, "http");
    watch.anomaly(Forward, odd("http", "RANGE_INVALID", Some(4)));
    watch.anomaly(Reverse, odd("http", "TOO_MANY_HEADERS", Some(4)));
    assert_eq!(watch.sids(), [1, 3], "each anomaly counts");
    watch.anomaly(Reverse, odd("dns", "DNS_label_len_gt_pkt", None));
    watch.anomaly(Reverse, odd("dns", "DNS_truncated_ans_too_short", None));
    watch.anomaly(Reverse, odd("mdns", "DNS_truncated_ans_too_short", None));
    assert_eq!(watch.sids(), [2, 2]);
}

#[test]
fn an_event_and_buffers_match_in_one_transaction() {
    let rule = "alert http any any -> any any (http.uri; content:\"/x\"; app-layer-event:http.range_invalid; sid:1;)";
    let found = |before: bool, transaction: u64| {
        let mut watch = Watch::new(rule);
        watch.transaction(Forward, 2);
        if before {
            watch.anomaly(Forward, odd("http", "RANGE_INVALID", Some(transaction)));
        }
        watch.message(Forward, &[("http.uri", "/x")]);
        if !before {
            watch.anomaly(Forward, odd("http", "RANGE_INVALID", Some(transaction)));
        }
        watch.sids()
    };
    assert_eq!((found(true, 2), found(false, 2)), (vec![1], vec![1]));
    assert_eq!((found(true, 1), found(false, 1)), (vec![], vec![]));
    assert_eq!(Watch::new(rule).message(Forward, &[("http.uri", "/x")]).sids(), []);
    let mut other = Watch::new(rule);
    other.message(Forward, &[("http.uri", "/y")]).anomaly(Forward, odd("http", "RANGE_INVALID", Some(0)));
    assert_eq!(other.sids(), []);
}

#[test]
fn events_of_packets_and_streams() {
    let rules = "alert pkthdr any any -> any any (decode-event:ipv4.frag_overlap; sid:1;)
alert ip any any -> any any (decode-event:ipv6.frag_overlap; sid:2;)
alert tcp 10.0.0.1 any -> any 80 (decode-event:decoder.tcp.pkt_too_small; sid:3;)
alert tcp any any -> any any (flow:to_client; stream-event:3whs_synack_with_wrong_ack; sid:4;)";
    let mut watch = Watch::new(rules);
    let of_packet = |protocol, name| Anomaly { of: EventOf::Packet, ..odd(protocol, name, None) };
    watch.anomaly(Forward, of_packet("ip", "fragment_inconsistency"));
    assert_eq!(watch.sids(), [1], "the hosts have addresses of IPv4");
    watch.anomaly(Reverse, of_packet("tcp", "truncated_header"));
    watch.anomaly(Forward, of_packet("udp", "truncated_header"));
    watch.anomaly(Forward, odd("tcp", "truncated_header", None));
    assert_eq!(watch.sids(), []);
    watch.anomaly(Forward, of_packet("tcp", "truncated_header_in_tunnel"));
    let found = watch.matches();
    assert_eq!((found[0].transaction, found[0].matched_in), (None, MatchedIn::Packet));
    let of_stream = Anomaly { of: EventOf::Stream, ..odd("tcp", "bad_syn_ack", None) };
    assert_eq!(watch.anomaly(Forward, of_stream).sids(), []);
    assert_eq!(watch.anomaly(Reverse, of_stream).sids(), [4]);
    let mut six = Watch::new(rules);
    six.moment.initiator.0 = IpAddr::from([1_u8; 16]);
    six.moment.responder.0 = IpAddr::from([2_u8; 16]);
    assert_eq!(six.anomaly(Forward, of_packet("ip", "fragment_overlap")).sids(), [2]);
}

#[test]
fn conditions_on_packets_hold_for_the_packet_of_an_event() {
    let rule = "alert tcp any any -> any any (decode-event:tcp.pkt_too_small; flags:S; sid:1;)";
    let found = |flags| {
        let frame = tcp(flags).payload(b"");
        let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
        let anomaly = Anomaly { of: EventOf::Packet, ..odd("tcp", "truncated_header", None) };
        let mut watch = Watch::new(rule);
        for (detector, state) in &mut watch.both {
            let packet = Some(seen(&frame, &layers));
            detector.event(state, &Moment { packet, ..watch.moment }, &anomaly);
        }
        watch.sids()
    };
    assert_eq!((found(flags::SYN), found(flags::ACK)), (vec![1], vec![]));
}

#[test]
fn what_cannot_be_looked_at_is_named() {
    for (options, reason) in [
        ("app-layer-event:http.no_such_event;", "the event `http.no_such_event`: Weir has no anomaly for it"),
        ("app-layer-event:http.range_invalid; content:\"abc\";", "contents of payload"),
        ("stream-event:3whs_synack_with_wrong_ack; ttl:5;", "conditions on packets"),
        ("app-layer-event:http.range_invalid; app-layer-event:http.request_line_invalid;", "several events"),
        ("decode-event:tcp.pkt_too_small; http.uri; content:\"abc\";", "together with messages"),
    ] {
        let set = set_of(&format!("alert http any any -> any any ({options} sid:1;)"));
        let program = Program::new(&set, &[]);
        assert!(program.unread[0].1.contains(reason), "{}", program.unread[0].1);
        assert!(program.rules.is_empty() && !program.reads_events());
    }
    assert!(
        Program::new(
            &set_of("alert http any any -> any any (app-layer-event:http.range_invalid; sid:1;)"),
            &[]
        )
        .reads_events()
    );
}

/// The times, in seconds, at which packets of a client make alerts of a rule, one packet each second.
fn alert_seconds(rule: &str, lines: &str, packets: u64) -> Vec<u64> {
    let set = set_of(rule);
    let lines = weir_detect::thresholds(lines.as_bytes(), &mut Lists::default()).expect("it is text");
    assert!(lines.faults.is_empty(), "{:?}", lines.faults);
    let mut detector = Detector::new(Arc::new(Program::new(&set, &[]).with_thresholds(&lines.rows)));
    let mut state = FlowState::default();
    let frame = tcp(flags::ACK).payload(b"x");
    let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
    let seen = seen(&frame, &layers);
    let mut seconds = Vec::new();
    for second in 0..packets {
        let time = Time(second * 1_000_000_000);
        let moment = Moment { time, packet: Some(seen), ..Watch::new(rule).moment };
        detector.at_packet(Some(second as u32));
        detector.packet(&mut state, &moment);
        seconds.extend(detector.take().map(|_| second));
    }
    seconds
}

/// A packet of a flow of its own.
#[derive(Clone, Copy)]
struct Sent<'a> {
    /// Which worker reads it.
    by: usize,
    /// `false`: it is found when the flow ends, between packets.
    is_packet: bool,
    second: u64,
    from: [u8; 4],
    to: [u8; 4],
    text: &'a [u8],
}

/// The sids of the alerts for packets that two workers read, and how often a worker waited for its turn.
fn alerts_of_two_workers(rules: &str, packets: &[Sent<'_>]) -> (Vec<u32>, usize) {
    #[derive(Debug, Default)]
    struct Waits(std::sync::atomic::AtomicUsize);
    impl Turn for Waits {
        fn wait(&self, _packet: Option<u32>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let program = Arc::new(Program::new(&set_of(rules), &[]));
    assert!(program.unread.is_empty(), "{:?}", program.unread);
    let (shared, waits) = (Arc::new(SharedState::default()), Arc::new(Waits::default()));
    let mut workers = [Detector::new(Arc::clone(&program)), Detector::new(program)];
    for worker in &mut workers {
        worker.share(Arc::clone(&shared), Some(Arc::clone(&waits) as Arc<dyn Turn>));
    }
    let mut sids = Vec::new();
    for (number, sent) in (1..).zip(packets) {
        let worker = &mut workers[sent.by];
        let frame = tcp(flags::ACK).payload(sent.text);
        let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
        let moment = Moment {
            time: Time(sent.second * 1_000_000_000),
            initiator: (address(sent.from), 40_000),
            responder: (address(sent.to), 80),
            packet: Some(seen(&frame, &layers)),
            ..Watch::new(rules).moment
        };
        worker.at_packet(sent.is_packet.then_some(number));
        worker.packet(&mut FlowState::default(), &moment);
        let found: Vec<u32> = worker.take().map(|found| found.rule).collect();
        sids.extend(found.iter().map(|rule| worker.program().rules[*rule as usize].rule().sid));
    }
    (sids, waits.0.load(std::sync::atomic::Ordering::Relaxed))
}

const SENT: Sent<'_> =
    Sent { by: 0, is_packet: true, second: 0, from: [10, 0, 0, 1], to: [10, 0, 0, 2], text: b"x" };

#[test]
fn workers_count_together() {
    let rule = |limit: &str| format!(r#"alert tcp-pkt any any -> any any (content:"x"; {limit}; sid:5;)"#);
    let other = Sent { by: 1, to: [10, 0, 0, 3], ..SENT };
    let of_source = rule("threshold: type limit, track by_src, count 1, seconds 60");
    assert_eq!(alerts_of_two_workers(&of_source, &[SENT, other, other]), (vec![5], 3));
    let of_target = rule("threshold: type limit, track by_dst, count 1, seconds 60");
    assert_eq!(alerts_of_two_workers(&of_target, &[SENT, other, other]).0, [5, 5]);
    let of_rule = rule("threshold: type threshold, track by_rule, count 3, seconds 60");
    assert_eq!(alerts_of_two_workers(&of_rule, &[SENT, other, SENT, other]).0, [5]);
    let filter = rule("detection_filter: track by_src, count 2, seconds 60");
    assert_eq!(alerts_of_two_workers(&filter, &[SENT, other, SENT, other]).0, [5, 5]);
    // A flow is read by one worker: it waits for none.
    let of_flow = rule("threshold: type limit, track by_flow, count 1, seconds 60");
    assert_eq!(alerts_of_two_workers(&of_flow, &[SENT, SENT, other]), (vec![5, 5], 0));
}

#[test]
fn what_is_found_between_packets_is_judged_and_not_counted() {
    let rule = r#"alert tcp-pkt any any -> any any (content:"x"; threshold: type limit, track by_src, count 1, seconds 60; sid:5;)"#;
    let between = Sent { is_packet: false, ..SENT };
    assert_eq!(alerts_of_two_workers(rule, &[between, between, SENT, SENT, between]).0, [5, 5, 5]);
}

#[test]
fn bits_of_hosts() {
    let rules = r#"
alert tcp-pkt any any -> any any (content:"set"; xbits:set,seen,track ip_src,expire 10; noalert; sid:1;)
alert tcp-pkt any any -> any any (content:"ask"; xbits:isset,seen,track ip_dst; sid:2;)
alert tcp-pkt any any -> any any (content:"not"; xbits:isnotset,seen,track ip_dst; sid:3;)
alert tcp-pkt any any -> any any (content:"clear"; xbits:unset,seen,track ip_src; noalert; sid:4;)
alert tcp-pkt any any -> any any (content:"pair"; xbits:set,both,track ip_pair,expire 10; noalert; sid:5;)
alert tcp-pkt any any -> any any (content:"two"; xbits:isset,both,track ip_pair; sid:6;)
alert tcp-pkt any any -> any any (content:"toggle"; hostbits:toggle,seen,src; noalert; sid:7;)
"#;
    let (host, other, third) = ([10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3]);
    let sent = |second: u64, from: [u8; 4], to: [u8; 4], text: &'static [u8]| Sent {
        by: second as usize % 2,
        second,
        from,
        to,
        text,
        ..SENT
    };
    for (packets, expected) in [
        (vec![sent(0, other, host, b"ask"), sent(1, other, host, b"not")], vec![3]),
        (
            vec![sent(0, host, other, b"set"), sent(1, third, host, b"ask"), sent(2, third, other, b"ask")],
            vec![2],
        ),
        (
            vec![sent(0, host, other, b"set"), sent(9, third, host, b"ask"), sent(10, third, host, b"ask")],
            vec![2],
        ),
        (vec![sent(0, host, other, b"set"), sent(10, third, host, b"not")], vec![3]),
        (
            vec![sent(0, host, other, b"set"), sent(1, host, third, b"clear"), sent(2, third, host, b"ask")],
            vec![],
        ),
        (
            vec![sent(0, host, other, b"pair"), sent(1, other, host, b"two"), sent(2, host, third, b"two")],
            vec![6],
        ),
        (
            vec![
                sent(0, host, other, b"toggle"),
                sent(1, other, host, b"ask"),
                sent(2, host, other, b"toggle"),
                sent(3, other, host, b"ask"),
            ],
            vec![2],
        ),
        // What a flow does that ends between packets has no place in the order.
        (
            vec![Sent { is_packet: false, ..sent(0, host, other, b"set") }, sent(1, third, host, b"ask")],
            vec![],
        ),
    ] {
        let texts: Vec<_> = packets.iter().map(|sent| String::from_utf8_lossy(sent.text)).collect();
        assert_eq!(alerts_of_two_workers(rules, &packets).0, expected, "{texts:?}");
    }
}

#[test]
fn what_the_user_says_of_alerts() {
    let rule = "alert tcp-pkt any any -> any any (content:\"x\"; sid:5;)";
    let own = "alert tcp-pkt any any -> any any (content:\"x\"; threshold: type limit, track by_src, count 2, seconds 60; sid:5;)";
    let all: Vec<u64> = (0..10).collect();
    for (rule, lines, expected) in [
        (rule, "", all.clone()),
        (rule, "suppress gen_id 1, sig_id 5", vec![]),
        (rule, "suppress gen_id 0, sig_id 0", vec![]),
        (rule, "suppress gen_id 1, sig_id 6", all.clone()),
        (rule, "suppress gen_id 2, sig_id 0", all.clone()),
        (rule, "suppress gen_id 1, sig_id 5, track by_src, ip 10.0.0.0/31", vec![]),
        (rule, "suppress gen_id 1, sig_id 5, track by_src, ip 10.0.0.2", all.clone()),
        (rule, "suppress gen_id 1, sig_id 5, track by_dst, ip 10.0.0.2", vec![]),
        (rule, "suppress gen_id 1, sig_id 5, track by_either, ip 10.0.0.2", vec![]),
        (rule, "threshold gen_id 1, sig_id 5, type limit, track by_src, count 1, seconds 60", vec![0]),
        (
            rule,
            "event_filter gen_id 1, sig_id 0, type threshold, track by_dst, count 4, seconds 60",
            vec![3, 7],
        ),
        // A threshold of one rule takes the place of its own, one of all rules does not.
        (own, "threshold gen_id 1, sig_id 5, type limit, track by_src, count 3, seconds 60", vec![0, 1, 2]),
        (own, "threshold gen_id 1, sig_id 0, type limit, track by_src, count 3, seconds 60", vec![0, 1]),
        (own, "suppress gen_id 1, sig_id 5", vec![]),
        // Two matches in a minute, then four seconds without alerts.
        (
            rule,
            "rate_filter gen_id 1, sig_id 5, track by_src, count 2, seconds 60, new_action pass, timeout 4",
            vec![0, 1, 6, 7],
        ),
        (
            rule,
            "rate_filter gen_id 1, sig_id 5, track by_src, count 2, seconds 60, new_action pass, timeout 0",
            vec![0, 1],
        ),
        (
            rule,
            "rate_filter gen_id 1, sig_id 5, track by_src, count 2, seconds 60, new_action drop, timeout 4",
            all.clone(),
        ),
    ] {
        assert_eq!(alert_seconds(rule, lines, 10), expected, "{rule}\n{lines}");
    }
}

const SETS_BIT: &str =
    "alert tcp any any -> any any (content:\"login\"; flowbits:set,in; flowbits:noalert; sid:7;)";
const TESTS_BIT: &str = "alert tcp any any -> any any (content:\"logout\"; flowbits:isset,in; sid:3;)";
const OTHER: &str = "alert tcp any any -> any any (content:\"other\"; flowbits:set,other; sid:1;)";

#[test]
fn flows_keep_their_bits_when_rules_change() {
    let mut watch = Watch::new(&[SETS_BIT, TESTS_BIT].join("\n"));
    watch.chunk(Forward, b"login").chunk(Reverse, b"welcome");
    // A rule comes, which takes the first numbers of rules and of bits.
    watch.follow(&[OTHER, SETS_BIT, TESTS_BIT].join("\n"));
    watch.chunk(Forward, b"other and logout").end();
    assert_eq!(watch.sids(), [1, 3]);

    // A rule goes that has set the bit, and comes back: what no rule knows is forgotten.
    let mut watch = Watch::new(&[SETS_BIT, TESTS_BIT].join("\n"));
    watch.chunk(Forward, b"login").chunk(Reverse, b"welcome").follow(OTHER);
    watch.chunk(Forward, b" other ").chunk(Reverse, b"yes").follow(&[SETS_BIT, TESTS_BIT].join("\n"));
    watch.chunk(Forward, b"logout").end();
    assert_eq!(watch.matches().len(), 1, "of the other rule alone");
}

#[test]
fn a_flow_that_was_not_looked_at_for_many_changes_keeps_its_bits_up_to_a_limit() {
    for (changes, expected) in [(2, vec![3]), (64, vec![3]), (65, vec![])] {
        let mut watch = Watch::new(&[SETS_BIT, TESTS_BIT].join("\n"));
        watch.chunk(Forward, b"login").chunk(Reverse, b"welcome");
        for n in 0..changes {
            watch.follow(&[[OTHER, SETS_BIT][n % 2], SETS_BIT, TESTS_BIT][1 - n % 2..].join("\n"));
        }
        watch.chunk(Forward, b"logout").end();
        assert_eq!(watch.sids(), expected, "{changes} changes");
    }
}

#[test]
fn a_change_of_rules_in_a_transaction_neither_loses_nor_doubles_a_match() {
    let two =
        "alert http any any -> any any (http.uri; content:\"/a\"; http.user_agent; content:\"x\"; sid:5;)";
    let sides =
        "alert http any any -> any any (http.uri; content:\"/a\"; http.stat_code; content:\"404\"; sid:6;)";
    let uri = "alert http any any -> any any (http.uri; content:\"/a\"; sid:4;)";
    let before = [uri, two, sides].join("\n");
    let after =
        ["alert http any any -> any any (http.method; content:\"GET\"; sid:2;)", uri, two, sides].join("\n");
    let mut watch = Watch::new(&before).named("http");
    watch.transaction(Forward, 1).message(Forward, &[("http.uri", "/a")]);
    assert_eq!(watch.sids(), [4]);
    watch.follow(&after).message(Forward, &[("http.user_agent", "x")]);
    assert_eq!(watch.sids(), [5]);
    watch.follow(&before).transaction(Reverse, 1).message(Reverse, &[("http.stat_code", "404")]);
    assert_eq!(watch.sids(), [6]);
    // A rule that has changed looks at what comes from now on.
    let changed = after.replace("content:\"404\"", "content:\"405\"");
    watch.transaction(Forward, 2).message(Forward, &[("http.uri", "/a")]).sids();
    watch.follow(&changed).transaction(Reverse, 2).message(Reverse, &[("http.stat_code", "404")]);
    assert_eq!(watch.sids(), []);
    watch.transaction(Forward, 3).message(Forward, &[("http.uri", "/a"), ("http.method", "GET")]);
    watch.transaction(Reverse, 3).message(Reverse, &[("http.stat_code", "405")]);
    assert_eq!(watch.sids(), [2, 4, 6]);
}

#[test]
fn counts_of_thresholds_outlive_a_change_of_rules() {
    let limited = "alert tcp any any -> any any (content:\"x\"; threshold: type limit, track by_src, count 1, seconds 60; sid:9;)";
    let mut watch = Watch::new(limited);
    watch.chunk(Forward, b"x").chunk(Reverse, b"-");
    assert_eq!(watch.sids(), [9]);
    watch.follow(&[OTHER, limited].join("\n")).gap(Forward, 1, b"x").chunk(Reverse, b"-");
    assert_eq!(watch.sids(), []);
    // Another limit counts anew.
    watch.follow(&limited.replace("60", "61")).gap(Forward, 1, b"x").chunk(Reverse, b"-");
    assert_eq!(watch.sids(), [9]);
}

/// The control of services (SVCCTL), version 2, as buffers have it.
const SVCCTL: &[u8] = b"\x36\x7a\xbb\x81\x98\x44\x35\xf1\xad\x32\x98\xf0\x38\x00\x10\x03\0\x02";

/// A call of DCE/RPC or its response.
fn call(watch: &mut Watch, side: Direction, operation: u64, is_little: bool, data: &[u8]) {
    watch.buffer("dcerpc.iface", side, SVCCTL);
    watch.buffer("dcerpc.opnum", side, &operation.to_be_bytes());
    watch.buffer("dcerpc.byte_order", side, &u64::from(is_little).to_be_bytes());
    watch.buffer("dcerpc.stub_data", side, data).complete(side);
}

/// The sides of the calls that a rule matches in.
fn called(options: &str, carrier: &str, protocol: &str) -> Vec<Direction> {
    let rule = format!("alert {protocol} any any -> any any ({options} sid:1;)");
    let mut watch = Watch::new(&rule).named(carrier);
    call(&mut watch, Forward, 15, true, b"\x01\x02\0\0request");
    call(&mut watch, Reverse, 15, true, b"\x03\0\0\0response");
    watch.matches().iter().map(|found| found.direction).collect()
}

#[test]
fn interfaces_and_operations_of_calls() {
    const UUID: &str = "dcerpc.iface:367abb81-9844-35f1-ad32-98f038001003";
    let both = vec![Forward, Reverse];
    for (options, expected) in [
        (format!("{UUID};"), both.clone()),
        (format!("{UUID},any_frag;"), both.clone()),
        (format!("{UUID}; flow:to_server;"), vec![Forward]),
        ("dce_iface:367abb81-9844-35f1-ad32-98f038001004;".to_owned(), vec![]),
        (format!("{UUID},=2;"), both.clone()),
        (format!("{UUID},2;"), both.clone()),
        (format!("{UUID},=3;"), vec![]),
        (format!("{UUID},!2;"), vec![]),
        (format!("{UUID},!3;"), both.clone()),
        (format!("{UUID},<3,any_frag;"), both.clone()),
        (format!("{UUID},<2;"), vec![]),
        (format!("{UUID},<=2;"), both.clone()),
        (format!("{UUID},>1;"), both.clone()),
        (format!("{UUID},>2;"), vec![]),
        ("dcerpc.opnum:15;".to_owned(), both.clone()),
        ("dcerpc.opnum:14;".to_owned(), vec![]),
        ("dce_opnum:1,3-14,16;".to_owned(), vec![]),
        ("dce_opnum:1,3-15;".to_owned(), both.clone()),
        ("dcerpc.opnum:15-20;".to_owned(), both.clone()),
        ("dcerpc.opnum:>14;".to_owned(), both.clone()),
        ("dcerpc.opnum:>15;".to_owned(), vec![]),
        ("dcerpc.opnum:!15;".to_owned(), vec![]),
        (format!("{UUID}; dcerpc.opnum:15; dcerpc.stub_data; content:\"request\";"), vec![Forward]),
        (format!("{UUID}; dcerpc.opnum:16; dcerpc.stub_data; content:\"request\";"), vec![]),
        (format!("{UUID}; dce_stub_data; content:\"resp\"; offset:4; depth:4;"), vec![Reverse]),
        (format!("{UUID}; dce_stub_data; content:\"resp\"; offset:5; depth:4;"), vec![]),
    ] {
        assert_eq!(called(&options, "dce_rpc", "dcerpc"), expected, "{options}");
        assert_eq!(called(&options, "smb", "smb"), expected, "{options}");
        assert_eq!(called(&options, "smb", "tcp"), expected, "{options}");
    }
    // A pipe of SMB has calls, and its flow both names.
    assert_eq!(called(&format!("{UUID};"), "smb", "dcerpc"), both);
}

#[test]
fn numbers_in_calls_have_the_order_of_the_call() {
    let rule = |test: &str| {
        format!(
            "alert dcerpc any any -> any any (dcerpc.stub_data; {test} content:\"!\"; distance:0; sid:1;)"
        )
    };
    for (test, is_little, expected) in [
        ("byte_test:2,=,0x0201,0,dce;", true, 1),
        ("byte_test:2,=,0x0201,0,dce;", false, 0),
        ("byte_test:2,=,0x0102,0,dce;", false, 1),
        ("byte_test:2,=,0x0102,0,dce;", true, 0),
        ("byte_test:2,=,0x0102,0;", true, 1),
        ("byte_jump:2,2,dce;", true, 1),
        ("byte_jump:2,2,dce;", false, 0),
        ("byte_extract:2,2,n,dce; byte_test:1,=,n,4;", true, 1),
        ("byte_extract:2,2,n,dce; byte_test:1,=,n,4;", false, 0),
    ] {
        let mut watch = Watch::new(&rule(test)).named("dce_rpc");
        call(&mut watch, Forward, 1, is_little, b"\x01\x02\x03\0\x03..!");
        assert_eq!(watch.matches().len(), expected, "{test} {is_little}");
    }
}

#[test]
fn the_entropy_of_a_buffer() {
    let found = |test: &str, body: &[u8]| {
        let rule = format!("alert http any any -> any any (http.request_body; {test} sid:1;)");
        let mut watch = Watch::new(&rule).named("http");
        watch.buffer("http.request_body", Forward, body).buffer("http.request_body", Forward, b"");
        watch.complete(Forward).matches().len()
    };
    for (test, expected) in [
        ("entropy:value > 1.9;", 1),
        ("entropy:value > 2;", 0),
        ("entropy:value >= 2;", 1),
        ("entropy:value = 2;", 1),
        ("entropy:value 1-2;", 0),
        ("entropy:value 1-2.1;", 1),
        ("entropy:bytes 2, value = 1;", 1),
        ("entropy:bytes 4, offset 1, value > 0;", 0),
        ("entropy:bytes 3, offset 1, value > 1.58;", 1),
        ("content:\"c\"; entropy:value = 2;", 1),
        ("content:\"e\"; entropy:value = 2;", 0),
    ] {
        assert_eq!(found(test, b"abcd"), expected, "{test}");
    }
    assert_eq!(found("entropy:value < 1;", b"aaaa"), 1);
}

#[test]
fn the_entropy_of_a_packet() {
    let rule = "alert udp any any -> any any (entropy:value >= 3; sid:1;)";
    let mut watch = Watch::new(rule).over(17);
    watch.packet(Forward, &udp(b"abcdefgh")).packet(Forward, &udp(b"abcdefgg"));
    assert_eq!(watch.sids(), [1]);
}

/// How often a rule of a protocol matches a message of the client with a number, and one of the server with it.
fn numbered(protocol: &str, options: &str, buffer: &str, number: u64) -> usize {
    let rule = format!("alert {protocol} any any -> any any ({options} sid:1;)");
    let named = if protocol == "krb5" { "kerberos" } else { protocol };
    let mut watch = Watch::new(&rule).named(named);
    watch.counted(Forward, &[(buffer, number)], &[]).counted(Reverse, &[(buffer, number)], &[]);
    watch.matches().len()
}

#[test]
fn numbers_and_flags_of_protocols() {
    for (protocol, buffer, options, hits, misses) in [
        ("smb", "smb.version", "smb.version:2;", 2, 1),
        ("ftp", "ftp.mode", "ftp.mode:active;", 1, 0),
        ("ftp", "ftp.mode", "ftp.mode:passive;", 0, 1),
        ("ftp", "ftp.reply_received", "ftp.reply_received:on;", 1, 0),
        ("ftp", "ftp.reply_received", "ftp.reply_received:no;", 0, 1),
        ("mqtt", "mqtt.connack.session_present", "mqtt.connack.session_present:yes;", 1, 0),
        ("mqtt", "mqtt.flags", "mqtt.flags:retain;", 1, 8),
        ("mqtt", "mqtt.flags", "mqtt.flags:retain;", 9, 0),
        ("mqtt", "mqtt.flags", "mqtt.flags:!retain,dup;", 8, 9),
        ("mqtt", "mqtt.flags", "mqtt.flags:!retain,!dup;", 0, 1),
        ("mqtt", "mqtt.flags", "mqtt.flags:>7;", 8, 7),
        ("websocket", "websocket.mask", "websocket.mask:>4;", 5, 4),
        ("websocket", "websocket.flags", "websocket.flags:fin,!comp;", 0x80, 0xc0),
        ("websocket", "websocket.flags", "websocket.flags:fin,!comp;", 0xb0, 0),
        ("krb5", "krb5.err_code", "krb5_err_code:25;", 25, 24),
        ("krb5", "krb5.err_code", "krb5_err_code:!25;", 24, 25),
    ] {
        assert_eq!(numbered(protocol, options, buffer, hits), 2, "{options} {hits}");
        assert_eq!(numbered(protocol, options, buffer, misses), 0, "{options} {misses}");
    }
    // These are of one side.
    for (protocol, buffer, options, hits, misses) in [
        ("mqtt", "mqtt.connect.flags", "mqtt.connect.flags:username,password,clean_session;", 0xc2, 0x82),
        ("mqtt", "mqtt.connect.flags", "mqtt.connect.flags:username,!will;", 0x80, 0x84),
        ("krb5", "krb5.weak_encryption", "krb5.weak_encryption;", 1, 0),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:weak;", 24, 25),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:weak;", 7, 8),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:!weak;", 18, 23),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:rc4-hmac,18;", 18, 17),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:RC4-HMAC;", 23, 24),
        ("krb5", "krb5.ticket_encryption", "krb5.ticket_encryption:-1;", 0xffff, 0xfffe),
    ] {
        assert_eq!(numbered(protocol, options, buffer, hits), 1, "{options} {hits}");
        assert_eq!(numbered(protocol, options, buffer, misses), 0, "{options} {misses}");
    }
}

#[test]
fn descriptions_of_sessions() {
    let rule = r#"alert sip any any -> any any (flow:to_server; sip.method; content:"INVITE"; sdp.origin; content:"alice"; startswith; sdp.media.media; content:"audio"; sdp.media.media; content:"video"; sid:1;)"#;
    let invite = |origin, other| {
        let mut watch = Watch::new(rule).over(17).named("sip");
        let media = [("sdp.media.media", "audio 1 RTP/AVP 0"), ("sdp.media.media", other)];
        watch.message(Forward, &[&[("sip.method", "INVITE"), ("sdp.origin", origin)], &media[..]].concat());
        watch.matches().len()
    };
    assert_eq!(invite("alice 1", "video 2"), 1);
    assert_eq!(invite(" alice 1", "video 2"), 0);
    assert_eq!(invite("alice 1", "audio 2"), 0);
}

#[test]
fn the_address_of_a_trap() {
    let rule = r#"alert snmp any any -> any any (snmp.trap_address; content:"192.0.2.1"; bsize:9; sid:1;)"#;
    let mut watch = Watch::new(rule).over(17).named("snmp");
    watch.message(Forward, &[("snmp.trap_address", "192.0.2.1")]);
    watch.transaction(Forward, 1).message(Forward, &[("snmp.trap_address", "192.0.2.10")]);
    assert_eq!(watch.matches().len(), 1);
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

/// A content with its modifiers.
fn content() -> impl Strategy<Value = String> {
    let place = prop_oneof![
        4 => Just(String::new()),
        1 => (0..9_u32).prop_map(|offset| format!(" offset:{offset};")),
        1 => (8..16_u32).prop_map(|depth| format!(" depth:{depth};")),
        2 => (-3..5_i32).prop_map(|distance| format!(" distance:{distance};")),
        2 => (8..14_u32).prop_map(|within| format!(" within:{within};")),
        1 => Just(" startswith;".to_owned()),
        1 => Just(" endswith;".to_owned()),
    ];
    let not = prop_oneof![6 => Just(""), 1 => Just("!")];
    // Short literals and long ones are searched for in two ways.
    ("[ab]{1,3}|(ab){2,4}", place, not, prop_oneof![3 => Just(""), 1 => Just(" nocase;")])
        .prop_map(|(literal, place, not, case)| format!("content:{not}\"{literal}\";{place}{case} "))
}

fn contents() -> impl Strategy<Value = String> {
    prop::collection::vec(content(), 1..3).prop_map(|contents| {
        // The first content of a buffer has none before it.
        let text = contents.concat();
        let (first, rest) = text.split_once(';').expect("it has a content");
        let rest = rest.trim_start();
        let is_relative = ["distance", "within"].iter().any(|name| rest.starts_with(name));
        let rest = if is_relative { rest.split_once(';').expect("it has a value").1 } else { rest };
        format!("{first}; {rest}")
    })
}

/// Rules over the payload and two buffers.
fn rules() -> impl Strategy<Value = Vec<String>> {
    let part = |buffer: &'static str| contents().prop_map(move |contents| format!("{buffer}{contents}"));
    let payload = part("").prop_map(|options| format!("tcp|{options}"));
    let uri = part("http.uri; ").prop_map(|options| format!("http|{options}"));
    let agent = part("http.user_agent; to_lowercase; ").prop_map(|options| format!("http|{options}"));
    let two = (part("http.uri; "), part("http.user_agent; ")).prop_map(|(a, b)| format!("http|{a}{b}"));
    let mixed = (part("pkt_data; "), part("http.uri; ")).prop_map(|(a, b)| format!("http|{a}{b}"));
    let absent = part("http.uri; absent:or_else; ").prop_map(|options| format!("http|{options}"));
    let sides = (part("http.uri; "), part("http.stat_code; ")).prop_map(|(a, b)| format!("http|{a}{b}"));
    let rule = prop_oneof![3 => payload, 2 => uri, 1 => agent, 2 => two, 2 => mixed, 1 => absent, 1 => sides];
    // Payload is searched for what the ports of a flow allow.
    let ports = prop_oneof![
        4 => Just("any any -> any any"),
        1 => Just("any any -> any 80"),
        1 => Just("any 80 -> any any"),
        1 => Just("any any <> any 80"),
        1 => Just("any any -> any !80"),
        1 => Just("any 1024: -> any [80,443]"),
    ];
    prop::collection::vec((ports, rule), 1..8).prop_map(|rules| {
        let text = |(sid, (ports, rule)): (usize, (&str, String))| {
            let (protocol, options) = rule.split_once('|').expect("it has a protocol");
            format!("alert {protocol} {ports} ({options} sid:{};)", sid + 1)
        };
        rules.into_iter().enumerate().map(text).collect()
    })
}

/// What happens in a flow.
#[derive(Clone, Debug)]
enum Happens {
    Bytes(Direction, String),
    Filling(Direction, usize),
    Gap(Direction),
    Uri(String),
    Agent(String),
    Code(String),
    Completes(Direction),
    Next,
}

fn flow() -> impl Strategy<Value = Vec<Happens>> {
    use Happens::{Agent, Bytes, Code, Completes, Filling, Gap, Next, Uri};
    let side = || prop_oneof![Just(Forward), Just(Reverse)];
    let text = || "[abAB.]{0,12}|[.]{0,20}(ab){2,4}[.]{0,20}";
    let one = prop_oneof![
        6 => (side(), text()).prop_map(|(side, text)| Bytes(side, text)),
        1 => (side(), 2_500..2_600_usize).prop_map(|(side, length)| Filling(side, length)),
        1 => side().prop_map(Gap),
        3 => text().prop_map(Uri),
        3 => text().prop_map(Agent),
        2 => text().prop_map(Code),
        3 => side().prop_map(Completes),
        1 => Just(Next),
    ];
    prop::collection::vec(one, 0..24)
}

/// Shows a flow, its streams in pieces of at most this length, and gives the matches.
fn found(rules: &str, flow: &[Happens], cut: usize) -> Vec<(u32, Option<u64>, Direction)> {
    let mut watch = Watch::new(rules).named("http");
    let mut number = 0;
    for happens in flow {
        match happens {
            Happens::Bytes(side, text) => {
                text.as_bytes().chunks(cut).for_each(|piece| _ = watch.chunk(*side, piece))
            }
            Happens::Filling(side, length) => {
                vec![b'.'; *length].chunks(cut).for_each(|piece| _ = watch.chunk(*side, piece));
            }
            Happens::Gap(side) => _ = watch.gap(*side, 3, b""),
            Happens::Uri(text) => _ = watch.buffer("http.uri", Forward, text.as_bytes()),
            Happens::Agent(text) => _ = watch.buffer("http.user_agent", Forward, text.as_bytes()),
            Happens::Code(text) => _ = watch.buffer("http.stat_code", Reverse, text.as_bytes()),
            Happens::Completes(side) => _ = watch.complete(*side),
            Happens::Next => {
                number += 1;
                watch.transaction(Forward, number).transaction(Reverse, number);
            }
        }
    }
    let found = watch.end().matches();
    let rules = &watch.both[0].0.program().rules;
    let shown = |one: &Match| (rules[one.rule as usize].rule().sid, one.transaction, one.direction);
    let mut found: Vec<_> = found.iter().map(shown).collect();
    found.sort_unstable_by_key(|(sid, transaction, side)| (*sid, *transaction, *side == Reverse));
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn search_order_and_cuts_change_nothing(rules in rules(), flow in flow(), cut in 1..6_usize, turn in 0..8_usize) {
        // Both detectors are compared for each flow.
        let whole = found(&rules.join("\n"), &flow, 100);
        prop_assert_eq!(&whole, &found(&rules.join("\n"), &flow, cut));
        let mut turned = rules.clone();
        turned.rotate_left(turn % rules.len());
        turned.reverse();
        prop_assert_eq!(&whole, &found(&turned.join("\n"), &flow, 100));
    }
}

/// A file of a mail.
fn file(watch: &mut Watch, name: &str, kind: &str, data: &[u8]) -> Vec<u32> {
    watch.buffer("file.name", Forward, name.as_bytes());
    watch.buffer("file.magic", Forward, kind.as_bytes());
    watch.buffer("file.data", Forward, data).buffer("file.data", Forward, b"");
    watch.sids()
}

#[test]
fn rules_look_at_each_file_alone() {
    let rules = "alert smtp any any -> any any (filename:\"a.\"; file_data; content:\"needle\"; sid:1;)
alert smtp any any -> any any (fileext:\"exe\"; filemagic:\"PE32\"; sid:2;)
alert smtp any any -> any any (filename:!\"b.exe\"; sid:3;)
alert http any any -> any any (file_data; content:\"needle\"; sid:4;)
alert tcp any any -> any any (filemagic:!\"PE32\"; sid:5;)
alert smtp any any -> any any (email.subject; content:\"two\"; file_data; content:\"needle\"; sid:6;)";
    let mut watch = Watch::new(rules).named("smtp");
    watch.message(Forward, &[("email.subject", "two files")]);
    assert_eq!(file(&mut watch, "a.txt", "ASCII text", b"hay"), [3, 5]);
    // Neither the name of the first file nor its kind is that of the second.
    assert_eq!(file(&mut watch, "b.exe", "PE32 executable", b"a needle"), [2, 6]);
    assert_eq!(file(&mut watch, "a.exe", "PE32 executable", b"needle"), [2, 3, 1, 6]);
    // Many files need the memory of one.
    let before = watch.memory();
    for _ in 0..100 {
        file(&mut watch, "c.bin", "data", &[b'x'; 50_000]);
    }
    assert!(watch.memory() < before + (400 << 10), "{before} {}", watch.memory());
    assert_eq!(file(&mut watch, "a.txt", "ASCII text", b"needle"), [3, 5, 1, 6]);
    assert_eq!(watch.stats().no_room, 0);
}

#[test]
fn a_rule_of_http_sees_bodies_and_names_of_files() {
    let rules = "alert http any any -> any any (file_data; content:\"needle\"; filename:\"/x.pdf\"; sid:1;)
alert http any any -> any any (filename:\"x.pdf\"; sid:2;)
alert smtp any any -> any any (file_data; content:\"needle\"; sid:3;)";
    let mut watch = Watch::new(rules).named("http");
    watch.message(Reverse, &[("http.stat_code", "200")]);
    watch.buffer("http.response_body", Reverse, b"a nee");
    watch.buffer("file.name", Reverse, b"/x.pdf").buffer("file.magic", Reverse, b"ASCII text");
    assert_eq!(watch.sids(), [2]);
    watch.buffer("http.response_body", Reverse, b"dle").buffer("http.response_body", Reverse, b"");
    assert_eq!(watch.sids(), [1]);
}

/// The end of a file: its size, whether it ended there, a list that its checksum is in, and its name.
fn file_ends(watch: &mut Watch, side: Direction, size: u64, sum: Option<(&str, &str)>, name: &str) {
    watch.buffer("file.least_size", side, &size.to_be_bytes());
    if let Some((buffer, digits)) = sum {
        watch.buffer("file.size", side, &size.to_be_bytes());
        watch.buffer(buffer, side, digits.as_bytes());
    }
    watch.buffer("file.name", side, name.as_bytes()).buffer("file.magic", side, b"data");
}

#[test]
fn sizes_and_checksums_of_files() {
    let known = [("file.md5", 16), ("file.sha1", 20), ("file.sha256", 32)];
    for (test, size, is_whole, matches) in [
        ("filesize:10;", 10, true, 1),
        ("filesize:10;", 11, true, 0),
        ("filesize:10;", 10, false, 0),
        ("filesize:>9;", 10, true, 1),
        ("filesize:>10;", 10, true, 0),
        // What was cut off is longer than what was received.
        ("filesize:>9;", 10, false, 1),
        ("filesize:<11;", 10, true, 1),
        ("filesize:<11;", 10, false, 0),
        ("filesize:9<>11;", 10, true, 1),
        ("filesize:10<>12;", 10, true, 0),
        ("filemd5:md5.txt;", 10, true, 1),
        ("filemd5:!md5.txt;", 10, true, 0),
        ("filemd5:!md5.txt;", 10, false, 0),
        ("filesha1:sha1.txt;", 10, true, 1),
        ("filesha256:sha256.txt;", 10, true, 1),
        ("filesha256:!sha256.txt;", 10, true, 0),
        ("filesize:10; fileext:\"bin\"; filemd5:md5.txt;", 10, true, 1),
        ("filesize:11; fileext:\"bin\"; filemd5:md5.txt;", 10, true, 0),
        ("filesize:10; fileext:\"exe\"; filemd5:md5.txt;", 10, true, 0),
        ("http.stat_code; content:\"200\"; filesize:10;", 10, true, 1),
        ("http.stat_code; content:\"201\"; filesize:10;", 10, true, 0),
    ] {
        for (buffer, bytes) in known {
            let is_asked =
                ["md5", "sha1", "sha256"].iter().any(|name| test.contains(&format!("file{name}:")));
            if is_asked && !test.contains(&buffer.replace('.', "")) {
                continue;
            }
            let mut watch =
                Watch::new(&format!("alert http any any -> any any ({test} sid:1;)")).named("http");
            watch.message(Reverse, &[("http.stat_code", "200")]);
            let digits = "ab".repeat(bytes);
            file_ends(&mut watch, Reverse, size, is_whole.then_some((buffer, &*digits)), "a.bin");
            assert_eq!(watch.sids().len(), matches, "{test} {size} {is_whole}");
        }
    }
    let mut watch = Watch::new("alert http any any -> any any (filemd5:md5.txt; sid:1;)").named("http");
    let other = format!("{}ac", "ab".repeat(15));
    file_ends(&mut watch, Reverse, 10, Some(("file.md5", &other)), "a.bin");
    assert_eq!(watch.sids(), []);
}

#[test]
fn files_side_by_side_keep_their_names_and_sizes() {
    let rules = "alert smtp any any -> any any (filename:\"a.bin\"; sid:1;)
alert smtp any any -> any any (filename:\"a.bin\"; filesize:10; sid:2;)
alert smtp any any -> any any (filesize:>10; sid:3;)
alert smtp any any -> any any (filename:\"b.bin\"; filestore; sid:4;)
alert smtp any any -> any any (file_data; content:\"needle\"; filesize:<100; sid:5;)
alert smtp any any -> any any (filestore; sid:6;)";
    let mut watch = Watch::new(rules).named("smtp");
    assert_eq!(file(&mut watch, "a.bin", "data", b"a needle"), [1, 6]);
    assert_eq!(file(&mut watch, "b.bin", "data", b"hay"), [4, 6]);
    // Both end, one after the other; what was found at their beginnings is not found again.
    let ends = |watch: &mut Watch, size, name, data: &[u8]| {
        file_ends(watch, Forward, size, Some(("file.md5", "00")), name);
        watch.buffer("file.data", Forward, data).buffer("file.data", Forward, b"");
        watch.sids()
    };
    assert_eq!(ends(&mut watch, 10, "a.bin", b"a needle"), [2, 5]);
    assert_eq!(ends(&mut watch, 11, "b.bin", b"hay"), [3]);
    assert_eq!(ends(&mut watch, 10, "a.bin", b"a needle"), [2, 5], "the next one");
    assert_eq!(file(&mut watch, "a.bin", "data", b"a needle"), [1, 6]);
}

#[test]
fn a_body_that_comes_after_the_end_of_its_file() {
    let rules = "alert http any any -> any any (file_data; content:\"needle\"; filename:\"a.bin\"; sid:1;)
alert http any any -> any any (file_data; content:\"needle\"; filesize:6; sid:2;)";
    let mut watch = Watch::new(rules).named("http");
    watch.buffer("file.name", Reverse, b"a.bin").buffer("file.magic", Reverse, b"data");
    file_ends(&mut watch, Reverse, 6, Some(("file.md5", "00")), "a.bin");
    assert_eq!(watch.sids(), []);
    watch.buffer("http.response_body", Reverse, b"needle").buffer("http.response_body", Reverse, b"");
    assert_eq!(watch.sids(), [1, 2]);
}

#[test]
fn a_dropped_flow_is_looked_at_until_the_end_of_its_packet() {
    let rules = "drop tcp any any -> any any (content:\"bad\"; sid:1;)\n\
                 alert tcp any any -> any any (content:\"x\"; sid:2;)\n\
                 alert tcp any any -> any any (content:\"y\"; sid:3;)\n";
    let found = |verdicts| {
        let mut watch = Watch::judged(rules, Judging { verdicts, ..Judging::default() });
        let first = watch.at_packet(1).chunk(Forward, b"bad x").sids();
        (
            first,
            watch.at_packet(2).chunk(Forward, b"y").sids(),
            watch.at_packet(3).chunk(Reverse, b"y").sids(),
        )
    };
    assert_eq!(found(Verdicts::Watched), (vec![1, 2], vec![3], vec![3]));
    for verdicts in [Verdicts::Passive, Verdicts::Inline] {
        assert_eq!(found(verdicts), (vec![1, 2], vec![], vec![]));
    }
    // A rule about packets drops its packet alone, one of a header the flow.
    for (rule, expected) in [("(dsize:>0; sid:1;)", vec![1, 1]), ("(sid:1;)", vec![1])] {
        let rules = format!("drop tcp any any -> any any {rule}");
        let judging = Judging { verdicts: Verdicts::Passive, ..Judging::default() };
        let mut watch = Watch::judged(&rules, judging);
        let frame = tcp(flags::ACK).payload(b"x");
        assert_eq!(
            watch.at_packet(1).packet(Forward, &frame).at_packet(2).packet(Forward, &frame).sids(),
            expected
        );
    }
}

#[test]
fn pass_makes_an_alert_by_its_keyword_where_verdicts_are_carried_out() {
    let rules = "pass tcp any any -> any any (alert; dsize:>0; sid:1;)\n\
                 pass tcp any any -> any any (dsize:1; sid:2;)\n\
                 alert tcp any any -> any any (dsize:>0; sid:3;)\n";
    let frame = tcp(flags::ACK).payload(b"x");
    for (verdicts, expected) in [(Verdicts::Watched, vec![]), (Verdicts::Passive, vec![1])] {
        let mut watch = Watch::judged(rules, Judging { verdicts, ..Judging::default() });
        assert_eq!(watch.packet(Forward, &frame).sids(), expected);
    }
}

#[test]
fn actions_are_judged_in_the_order_that_is_given() {
    let set = set_of(
        "pass tcp any any -> any any (dsize:>0; sid:1;)\n\
         drop tcp any any -> any any (dsize:>0; sid:2;)\n\
         alert tcp any any -> any any (dsize:>0; sid:3;)\n",
    );
    let frame = tcp(flags::ACK).payload(b"x");
    let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
    let seen = seen(&frame, &layers);
    for (order, expected) in [
        ([Action::Pass, Action::Drop, Action::Reject, Action::Alert], vec![]),
        ([Action::Drop, Action::Pass, Action::Reject, Action::Alert], vec![2]),
        ([Action::Alert, Action::Drop, Action::Reject, Action::Pass], vec![3, 2]),
    ] {
        let program = Arc::new(Program::with(
            &set,
            &[],
            ProgramOptions { actions: ActionOrder::new(order), ..ProgramOptions::default() },
        ));
        let mut detector = Detector::new(Arc::clone(&program));
        let moment = Moment { packet: Some(seen), ..Watch::of(&set).moment };
        detector.packet(&mut FlowState::default(), &moment);
        let found: Vec<u32> =
            detector.take().map(|one| program.rules[one.rule as usize].rule().sid).collect();
        assert_eq!(found, expected, "{order:?}");
    }
}

#[test]
fn a_flow_without_a_syn_is_looked_at_as_far_as_is_asked_for() {
    let rules = "alert tcp any any -> any any (dsize:>0; sid:1;)\n\
                 alert tcp any any -> any any (content:\"x\"; sid:2;)\n\
                 alert tcp any any -> any any (dsize:>0; flow:established; sid:3;)\n\
                 alert http any any -> any any (http.method; content:\"GET\"; sid:4;)\n";
    let found = |midstream, with_syn: bool| {
        let mut watch = Watch::judged(rules, Judging { midstream, ..Judging::default() }).named("http");
        if with_syn {
            watch.packet(Forward, &tcp(flags::SYN).payload(b""));
        }
        watch.packet(Forward, &tcp(flags::ACK).payload(b"x")).chunk(Forward, b"x");
        watch.message(Forward, &[("http.method", "GET")]).sids()
    };
    assert_eq!(found(Midstream::Whole, false), [1, 2, 4]);
    assert_eq!(found(Midstream::Established, false), [1, 3, 2, 4]);
    assert_eq!(found(Midstream::Packets, false), [1]);
    assert!(found(Midstream::Nothing, false).is_empty());
    for midstream in [Midstream::Whole, Midstream::Established, Midstream::Packets, Midstream::Nothing] {
        assert_eq!(found(midstream, true), [1, 2, 4], "{midstream:?}");
    }
}

#[test]
fn a_flow_of_one_side_is_established_if_that_is_asked_for() {
    let rule = "alert tcp any any -> any any (dsize:>0; flow:established; sid:1;)";
    for (is_oneside, expected) in [(false, vec![]), (true, vec![1])] {
        let mut watch = Watch::judged(rule, Judging { is_oneside, ..Judging::default() });
        watch.packet(Forward, &tcp(flags::SYN).payload(b"")).packet(Forward, &tcp(flags::ACK).payload(b"x"));
        assert_eq!(watch.sids(), expected);
    }
}

#[test]
fn limits_of_streams_bodies_and_alerts_are_those_that_are_given() {
    let rule = "alert tcp any any -> any any (content:\"x\"; sid:1;)";
    for (depth, expected) in [(3, vec![]), (4, vec![1])] {
        let mut watch = Watch::judged(rule, Judging { depth, ..Judging::default() });
        assert_eq!(watch.chunk(Forward, b"abcx").sids(), expected);
    }
    let rule = "alert http any any -> any any (http.request_body; content:\"x\"; sid:1;)";
    for (body, expected) in [(3, vec![]), (4, vec![1])] {
        let judging = Judging { bodies: [body, Judging::BODY], ..Judging::default() };
        let mut watch = Watch::judged(rule, judging).named("http");
        watch.buffer("http.request_body", Forward, b"abcx").buffer("http.request_body", Forward, b"");
        assert_eq!(watch.complete(Forward).sids(), expected);
    }
    let rules: String =
        (1..=4).map(|sid| format!("alert tcp any any -> any any (dsize:>0; sid:{sid};)\n")).collect();
    let mut watch = Watch::judged(&rules, Judging { alerts_per_packet: Some(3), ..Judging::default() });
    let frame = tcp(flags::ACK).payload(b"x");
    for number in [1, 2] {
        assert_eq!(watch.at_packet(number).packet(Forward, &frame).sids(), [1, 2, 3]);
    }
}

/// How often a rule of addresses alone matches in two packets of each side, between the client and another host.
fn matches_of_addresses(options: &str, other: [u8; 4]) -> Vec<Direction> {
    let rule = format!("alert ip any any -> any any ({options} sid:1;)");
    let mut watch = Watch::new(&rule).between((CLIENT, 40_000), (other, 80));
    for _ in 0..2 {
        watch
            .packet(Forward, &tcp(flags::ACK).payload(b"x"))
            .packet(Reverse, &answer(flags::ACK).payload(b"x"));
    }
    watch.matches().iter().map(|one| one.direction).collect()
}

#[test]
fn reputations_of_addresses() {
    for (test, of_server, of_other) in [
        ("src,Bad,>,29", vec![Forward], vec![Forward, Reverse]),
        ("src,Bad,>,30", vec![], vec![Reverse]),
        ("dst,Bad,>,29", vec![Reverse], vec![Forward, Reverse]),
        ("src,Bad,=,31", vec![], vec![Reverse]),
        ("any,Bad,>=,31", vec![], vec![Forward, Reverse]),
        ("both,Bad,>=,30", vec![], vec![Forward, Reverse]),
        ("both,Bad,>=,31", vec![], vec![]),
        // An address without a score has none that is lower.
        ("dst,Bad,<,30", vec![], vec![]),
        ("src,Good,isset", vec![Reverse], vec![]),
        ("src,Good,isnotset", vec![Forward], vec![Forward, Reverse]),
        ("both,Good,isnotset", vec![], vec![Forward, Reverse]),
    ] {
        let options = format!("iprep:{test};");
        assert_eq!(matches_of_addresses(&options, SERVER), of_server, "{test}");
        assert_eq!(matches_of_addresses(&options, [10, 0, 0, 3]), of_other, "{test}");
    }
}

#[test]
fn countries_of_addresses() {
    for (test, of_server, of_other) in [
        ("src,DE", vec![Forward], vec![Forward]),
        ("dst,de,US", vec![Reverse], vec![Reverse]),
        ("DE", vec![Forward, Reverse], vec![Forward, Reverse]),
        ("any,US", vec![], vec![]),
        ("both,DE,FR", vec![Forward, Reverse], vec![]),
        ("both,DE", vec![], vec![]),
        ("dst,!DE", vec![Forward], vec![]),
        ("src,!DE,!FR", vec![], vec![]),
    ] {
        let options = format!("geoip:{test};");
        assert_eq!(matches_of_addresses(&options, SERVER), of_server, "{test}");
        assert_eq!(matches_of_addresses(&options, [10, 0, 0, 3]), of_other, "{test}");
    }
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

#[test]
fn both_sides_of_a_transaction() {
    let rules = "alert http 10.0.0.1 any => 10.0.0.2 80 (http.uri; content:\"/a\"; http.stat_code; content:\"200\"; sid:1;)
alert http 10.0.0.2 80 => 10.0.0.1 any (http.uri; content:\"/a\"; http.stat_code; content:\"200\"; sid:2;)
alert http any any => any any (http.header; content:\"Host: a\"; http.stat_code; content:\"200\"; sid:3;)
alert http any any => any 81 (http.stat_code; content:\"200\"; sid:4;)
alert http any any => any 80 (http.stat_code; content:\"200\"; sid:5;)";
    let request = [("http.uri", "/a"), ("http.header", "Host: a\r\n")];
    let mut watch = Watch::new(rules).named("http");
    assert_eq!(watch.message(Forward, &request).sids(), []);
    assert_eq!(watch.message(Reverse, &[("http.stat_code", "200")]).sids(), [1, 3, 5]);
    watch.transaction(Forward, 1).transaction(Reverse, 1).message(Forward, &request);
    assert_eq!(watch.message(Reverse, &[("http.stat_code", "201")]).sids(), []);
    // A field of either side is one of the request.
    watch.transaction(Forward, 2).transaction(Reverse, 2).message(Forward, &[("http.header", "Host: b\r\n")]);
    let answer = [("http.stat_code", "200"), ("http.header", "Host: a\r\n")];
    assert_eq!(watch.message(Reverse, &answer).sids(), [5]);
}
