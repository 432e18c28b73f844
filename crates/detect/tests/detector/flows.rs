//! The state of a flow: whether it is established, its bits and its numbers.

use crate::watch::{CLIENT, SERVER, Watch, answer, tcp, udp};
use weir_detect::{Judging, Midstream};
use weir_wire::Direction::{Forward, Reverse};
use weir_wire::build::{self, flags};

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
    assert_eq!(found(Midstream::Packets, false), [1, 2]);
    assert!(found(Midstream::Nothing, false).is_empty());
    for midstream in [Midstream::Whole, Midstream::Established, Midstream::Packets, Midstream::Nothing] {
        assert_eq!(found(midstream, true), [1, 2, 4], "{midstream:?}");
    }
}

#[test]
fn a_packet_that_is_not_read_is_looked_at_alone() {
    let rules = "alert tcp any any -> any any (content:\"ab\"; sid:1;)\n\
                 alert tcp any any -> any any (content:\"b\"; startswith; sid:2;)\n\
                 alert tcp-stream any any -> any any (content:\"b\"; sid:3;)\n\
                 alert tcp any any -> any any (content:\"b\"; flow:only_stream; sid:4;)\n\
                 alert tcp any any -> any any (content:\"b\"; flow:no_stream; sid:5;)\n\
                 alert tcp any any -> any any (content:\"bc\"; sid:6;)\n\
                 alert tcp any any -> any any (content:\"b\"; flow:established; sid:7;)\n";
    let mut watch = Watch::new(rules);
    watch.packet(Forward, &tcp(flags::SYN).payload(b"")).chunk(Forward, b"a");
    assert_eq!(watch.unread(Forward, &tcp(flags::ACK).payload(b"bc")).sids(), [2, 5, 6]);
    // Its bytes are not part of the stream.
    assert_eq!(watch.chunk(Forward, b"x").end().sids(), []);
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

/// What asks for another protocol waits until the protocol of the flow is known, or known to be none, and matches once for a side.
#[test]
fn another_protocol_is_one_that_is_known() {
    let rules = "alert tcp any any -> any any (app-layer-protocol:!http; sid:1;)
alert tcp any any -> any any (app-layer-protocol:!http,final; app-layer-protocol:!tls,final; sid:2;)
alert tcp any any -> any any (app-layer-protocol:!http; content:\"a\"; sid:3;)
alert tcp any any -> any any (app-layer-protocol:http; flow:to_server; sid:4;)";
    let packet = |watch: &mut Watch| watch.packet(Forward, &tcp(16).payload(b"")).sids();
    let mut watch = Watch::new(rules);
    assert_eq!((packet(&mut watch), packet(&mut watch)), (vec![], vec![]));
    watch.moment.is_unidentified = true;
    assert_eq!((packet(&mut watch), packet(&mut watch)), (vec![1, 2], vec![]));
    assert_eq!(watch.packet(Reverse, &answer(16).payload(b"")).sids(), [1, 2]);
    assert_eq!(watch.chunk(Forward, b"a").end().sids(), [3]);
    for (name, expected) in [("http", vec![4]), ("tls", vec![1]), ("ssh", vec![1, 2])] {
        let mut watch = Watch::new(rules).named(name);
        assert_eq!((packet(&mut watch), packet(&mut watch)), (expected, vec![]), "{name}");
    }
}
