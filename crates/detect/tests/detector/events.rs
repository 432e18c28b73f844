//! Rules of anomalies.

use crate::watch::{Watch, seen, set_of, tcp};
use std::net::IpAddr;
use weir_detect::{Anomaly, EventOf, MatchedIn, Moment, Program};
use weir_proto::PROTOCOLS;
use weir_wire::Direction::{Forward, Reverse};
use weir_wire::build::{self, flags};
use weir_wire::{Layers, LinkType, decode};

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
