//! Work of the detector for a flow and for one of twice its size: its counters rise no faster than the size.

use crate::watch::{Watch, answer, tcp, udp};
use weir_detect::DetectorStats;
use weir_wire::Direction::{Forward, Reverse};

/// Sets of rules of all kinds, over what the flows of these tests are made of.
const RULES: [&str; 6] = [
    // Literals, alone and one after the other.
    "alert ip any any -> any any (content:\"aa\"; sid:1;)
alert ip any any -> any any (content:\"a\"; content:\"b\"; distance:0; sid:2;)
alert ip any any -> any any (content:\"a\"; content:\"A\"; nocase; distance:0; content:\"b\"; within:40; sid:3;)
alert ip any any -> any any (content:\"a\"; content:\"c\"; distance:1; content:\"zz\"; distance:0; sid:4;)",
    // What no search finds.
    "alert ip any any -> any any (content:!\"zz\"; sid:1;)
alert ip any any -> any any (isdataat:9; sid:2;)
alert ip any any -> any any (byte_test:1,=,0x61,0; sid:3;)",
    // Expressions.
    "alert ip any any -> any any (pcre:\"/a+b/\"; sid:1;)
alert ip any any -> any any (content:\"c\"; pcre:\"/a+z/R\"; sid:2;)
alert ip any any -> any any (pcre:\"/(a)\\1z/\"; sid:3;)",
    // Numbers.
    "alert ip any any -> any any (content:\"a\"; byte_jump:1,0,relative; content:\"z\"; distance:0; sid:1;)
alert ip any any -> any any (byte_extract:1,0,n; content:\"a\"; distance:n; content:\"zz\"; distance:n; sid:2;)",
    // Messages.
    "alert http any any -> any any (http.uri; content:\"a\"; content:\"b\"; distance:0; sid:1;)
alert http any any -> any any (http.request_header; content:\"a\"; http.uri; content:\"zz\"; sid:2;)
alert http any any -> any any (http.request_header; content:\"a\"; http.request_header; content:\"zz\"; sid:3;)
alert http any any -> any any (http.request_body; content:\"a\"; content:\"b\"; distance:0; sid:4;)
alert http any any -> any any (http.method; content:\"G\"; http.stat_code; content:\"200\"; sid:5;)
alert http any any -> any any (http.referer; absent; sid:6;)
alert http any any -> any any (http.uri; to_lowercase; strip_whitespace; content:\"zz\"; sid:7;)",
    // State.
    "alert tcp-pkt any any -> any any (content:\"a\"; flowbits:set,x; noalert; sid:1;)
alert tcp-pkt any any -> any any (content:\"a\"; flowbits:isset,x; flowint:n,+,1; threshold: type limit, track by_src, count 1, seconds 60; sid:2;)
alert tcp-pkt any any -> any any (content:\"a\"; xbits:set,y,track ip_src,expire 9; sid:3;)",
];

/// The most frequent bytes of the literals, and none of those that end them.
fn text(size: usize) -> Vec<u8> {
    b"aaacaAaa".iter().copied().cycle().take(size).collect()
}

/// A way to show that many pieces of a flow.
type Shows = fn(&mut Watch, u64);

/// The ways to make a flow large.
const FLOWS: [(&str, Shows); 9] = [
    ("datagrams", |watch, size| {
        let frame = udp(&text(200));
        (0..size).for_each(|_| _ = watch.packet(Forward, &frame));
    }),
    ("the bytes of a datagram", |watch, size| _ = watch.packet(Forward, &udp(&text(size as usize * 20)))),
    ("segments of one byte", |watch, size| {
        for byte in text(size as usize * 20).chunks(1) {
            watch.packet(Forward, &tcp(16).payload(byte)).chunk(Forward, byte);
        }
    }),
    ("segments of one byte that are answered each", |watch, size| {
        // The first windows have fewer bytes before them.
        for byte in text(8_000 + size as usize).chunks(1) {
            watch.packet(Forward, &tcp(16).payload(byte)).chunk(Forward, byte);
            watch.packet(Reverse, &answer(16).payload(b".")).chunk(Reverse, b".");
        }
    }),
    ("the bytes of a stream", |watch, size| {
        text(size as usize * 600).chunks(1_460).for_each(|piece| _ = watch.chunk(Forward, piece));
    }),
    ("requests in a row", |watch, size| {
        for number in 0..size {
            watch.transaction(Forward, number);
            watch.message(
                Forward,
                &[("http.method", "GET"), ("http.uri", "/aaacaAaa"), ("http.request_header", "a: a")],
            );
        }
    }),
    ("requests that are answered", |watch, size| {
        for number in 0..size {
            watch.transaction(Forward, number).transaction(Reverse, number);
            watch.message(Forward, &[("http.method", "GET"), ("http.uri", "/aaacaAaa")]);
            watch.message(Reverse, &[("http.stat_code", "404")]);
        }
    }),
    ("values of one message", |watch, size| {
        (0..size).for_each(|_| _ = watch.buffer("http.request_header", Forward, b"a: a"));
        watch.message(Forward, &[("http.method", "GET"), ("http.uri", "/aaacaAaa")]);
    }),
    ("the bytes of a body", |watch, size| {
        watch.message(Forward, &[("http.method", "PUT"), ("http.uri", "/aaacaAaa")]);
        text(size as usize * 50)
            .chunks(100)
            .for_each(|piece| _ = watch.buffer("http.request_body", Forward, piece));
        watch.buffer("http.request_body", Forward, b"");
    }),
];

/// What both detectors do for a flow of that size.
fn work(rules: &str, shows: Shows, size: u64, ip_proto: u8) -> [DetectorStats; 2] {
    let mut watch = Watch::new(rules).named("http").over(ip_proto);
    shows(&mut watch, size);
    watch.end().matches();
    watch.both.each_ref().map(|(detector, _)| detector.stats())
}

#[test]
fn work_rises_no_faster_than_size() {
    for rules in RULES {
        for (what, shows) in FLOWS {
            let ip_proto = if what.contains("datagram") { 17 } else { 6 };
            for size in [100, 400] {
                let (one, two) = (work(rules, shows, size, ip_proto), work(rules, shows, 2 * size, ip_proto));
                for (one, two) in one.iter().zip(&two) {
                    let counters = |stats: &DetectorStats| [stats.verified, stats.steps, stats.searched];
                    for (counter, (one, two)) in ["verified", "steps", "searched"]
                        .iter()
                        .zip(counters(one).into_iter().zip(counters(two)))
                    {
                        // Ends and windows that are not full.
                        let most = 2 * one + one / 4 + 20_000;
                        assert!(
                            two <= most,
                            "{counter} for {what}: {one} of {size}, {two} of twice as many\n{rules}"
                        );
                    }
                }
            }
        }
    }
}
