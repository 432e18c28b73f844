//! Memory and work of flows that ask for much.

use crate::watch::{Watch, tcp};
use weir_detect::Judging;
use weir_wire::Direction::{Forward, Reverse};

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

#[test]
fn limits_of_streams_and_bodies_are_those_that_are_given() {
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
}
