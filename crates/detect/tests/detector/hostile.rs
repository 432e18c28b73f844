//! Rules and flows that are made to cost much, or to contradict themselves.

use crate::watch::{Watch, answer, tcp, udp};
use std::fmt::Write;
use std::io::Write as _;
use weir_detect::Judging;
use weir_wire::Direction::{Forward, Reverse};

#[test]
fn bits_that_ask_for_each_other_never_hold() {
    let rules = "alert tcp-pkt any any -> any any (content:\"x\"; flowbits:isset,a; flowbits:set,b; sid:1;)
alert tcp-pkt any any -> any any (content:\"x\"; flowbits:isset,b; flowbits:set,c; sid:2;)
alert tcp-pkt any any -> any any (content:\"x\"; flowbits:isset,c; flowbits:set,a; sid:3;)
alert tcp-pkt any any -> any any (content:\"x\"; flowbits:isset,own; flowbits:set,own; sid:4;)
alert tcp-pkt any any -> any any (content:\"begin\"; flowbits:set,a; noalert; sid:5;)";
    let mut watch = Watch::new(rules);
    let frame = tcp(16).payload(b"x");
    for _ in 0..3 {
        assert_eq!(watch.packet(Forward, &frame).sids(), []);
    }
    // One of them set from outside sets all others, whichever of them is judged first: none is judged twice in a packet.
    watch.packet(Forward, &tcp(16).payload(b"begin"));
    let mut found: Vec<u32> = (0..3).flat_map(|_| watch.packet(Forward, &frame).sids()).collect();
    assert!(found.len() > 3 && found.len() <= 9, "{found:?}");
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [1, 2, 3]);
}

#[test]
fn a_rule_that_sets_ten_thousand_bits_sets_those_that_have_room() {
    let mut sets = "alert tcp-pkt any any -> any any (content:\"a\"; ".to_owned();
    for bit in 0..10_000 {
        write!(sets, "flowbits:set,bit{bit}; ").expect("memory is there");
    }
    let tests = "alert tcp-pkt any any -> any any (content:\"b\"; flowbits:isset,bit7; sid:2;)
alert tcp-pkt any any -> any any (content:\"b\"; flowbits:isset,bit9999; sid:3;)";
    let mut watch = Watch::new(&format!("{sets} noalert; sid:1;)\n{tests}"));
    for _ in 0..3 {
        watch.packet(Forward, &tcp(16).payload(b"a"));
        assert!(watch.memory() < 10_000, "{}", watch.memory());
    }
    assert!(watch.stats().no_room >= 3, "what is left out is counted");
    let found = watch.packet(Forward, &tcp(16).payload(b"b")).sids();
    assert_eq!(found, [2]);
}

#[test]
fn expressions_that_explode_end_at_their_limit_and_are_counted() {
    const MEGABYTE: usize = 1 << 20;
    let judging = Judging { bodies: [2 * MEGABYTE; 2], ..Judging::default() };
    let mut body = vec![b'a'; MEGABYTE];
    body.push(b'b');
    // The first expression is read in time in proportion to the text, the others in steps that are limited.
    for (expression, given_up) in [
        ("/(a+)+$/", 0),
        ("/^(a+)+$/", 0),
        ("/^(a+)+(?=c)$/", 1),
        ("/(a+)+(?!b)c/", 1),
        ("/(?:(a)|a)*\\\\1c/", 1),
        ("/^(([a-z])+.)+[A-Z]([a-z])+(?=c)$/", 1),
    ] {
        let rule = format!(
            "alert http any any -> any any (http.request_body; pcre:\"{}\"; sid:1;)\n\
            alert http any any -> any any (http.request_body; content:\"ab\"; sid:2;)",
            expression.replace("\\\\", "\\")
        );
        let mut watch = Watch::judged(&rule, judging).named("http");
        body.chunks(1_460).for_each(|piece| _ = watch.buffer("http.request_body", Forward, piece));
        watch.buffer("http.request_body", Forward, b"");
        assert_eq!(watch.sids(), [2], "{expression}");
        assert_eq!(watch.stats().gave_up, given_up, "{expression}");
    }
    // In a stream each window is looked at.
    let mut watch = Watch::new("alert tcp any any -> any any (pcre:\"/^(a+)+(?=c)$/\"; sid:1;)");
    body.chunks(1_460).for_each(|piece| _ = watch.chunk(Forward, piece));
    assert_eq!(watch.end().sids(), []);
    assert!((1..=1_000).contains(&watch.stats().gave_up), "{:?}", watch.stats());
}

/// Gzip of this number of equal bytes.
fn bomb(size: usize) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..size >> 20 {
        gzip.write_all(&piece).expect("memory is there");
    }
    gzip.finish().expect("memory is there")
}

#[test]
fn bombs_are_inflated_to_the_limit_of_their_transform() {
    let twice = {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&bomb(64 << 20)).expect("memory is there");
        gzip.finish().expect("memory is there")
    };
    let rules = "alert http any any -> any any (http.request_body; gunzip; content:\"aaaa\"; startswith; bsize:1024; sid:1;)
alert http any any -> any any (http.request_body; gunzip:max-size 4096; bsize:4096; content:\"aaaa\"; sid:2;)
alert http any any -> any any (http.request_body; gunzip:max-size 4096; bsize:>4096; sid:3;)
alert http any any -> any any (http.request_body; gunzip:max-size 65536; gunzip:max-size 8192; bsize:8192; sid:4;)
alert http any any -> any any (http.request_body; zlib_deflate; content:\"|1f 8b|\"; startswith; sid:5;)";
    for (body, expected) in [(bomb(64 << 20), vec![1, 2, 5]), (twice, vec![4, 5])] {
        let mut watch = Watch::new(rules).named("http");
        watch.buffer("http.request_body", Forward, &body).buffer("http.request_body", Forward, b"");
        assert_eq!(watch.sids(), expected);
        assert!(watch.memory() < 300_000, "{}", watch.memory());
    }
}

#[test]
fn contents_of_64_kilobytes_are_found_whole() {
    let literal: String = (0..65_535_u32).map(|at| char::from(b'a' + (at * at % 26) as u8)).collect();
    let rule = format!(
        "alert http any any -> any any (http.request_body; content:\"{literal}\"; sid:1;)\n\
        alert http any any -> any any (http.request_body; content:\"{literal}\"; nocase; endswith; sid:2;)"
    );
    let miss = |at: usize| {
        let mut bytes = literal.clone().into_bytes();
        bytes[at] ^= 1;
        bytes
    };
    let found = |before: usize, body: &[u8]| {
        let mut watch = Watch::new(&rule).named("http");
        let whole = [&vec![b'.'; before][..], body].concat();
        whole.chunks(1_460).for_each(|piece| _ = watch.buffer("http.request_body", Forward, piece));
        watch.buffer("http.request_body", Forward, b"").sids()
    };
    for before in [0, 1, 36_865] {
        assert_eq!(found(before, literal.as_bytes()), [1, 2], "{before}");
    }
    // It would end one byte after the bytes of a body that are looked at.
    assert_eq!(found(36_866, literal.as_bytes()), []);
    for at in [0, 1, 32_768, 65_533, 65_534] {
        assert_eq!(found(0, &miss(at)), [], "{at}");
    }
    // A datagram of IP has at most 65,507 bytes.
    let rule = format!("alert udp any any -> any any (content:\"{}\"; sid:1;)", &literal[..60_000]);
    let mut watch = Watch::new(&rule).over(17);
    assert_eq!(watch.packet(Forward, &udp(&literal.as_bytes()[..60_000])).sids(), [1]);
    assert_eq!(watch.packet(Forward, &udp(&literal.as_bytes()[..59_999])).sids(), []);
}

#[test]
fn places_beyond_every_bound_hold_nowhere() {
    for options in [
        "content:\"a\"; content:\"b\"; distance:1048576;",
        "content:\"a\"; offset:1048576;",
        "content:\"a\"; offset:1048576; depth:1048576;",
        "isdataat:1048576;",
        "byte_test:4,=,0,1048576;",
        "byte_test:4,=,0,-1048576;",
        "content:\"a\"; byte_test:1,=,0x62,1048576,relative;",
        "content:\"a\"; byte_jump:1,0,relative,multiplier 65535; isdataat:0,relative;",
        "byte_extract:1,0,n,multiplier 65535; content:\"b\"; offset:n;",
        "byte_math:bytes 4,offset 0,oper *,rvalue 4294967295,result n; content:\"b\"; distance:n; content:\"a\";",
    ] {
        let set = crate::watch::read(&format!("alert udp any any -> any any ({options} sid:1;)"));
        // A place beyond the bound of its keyword is refused.
        if set.refusals.is_empty() {
            let mut watch = Watch::of(&set).over(17);
            assert_eq!(watch.packet(Forward, &udp(b"abababab")).sids(), [], "{options}");
        }
    }
    // The whole buffer is between a negative distance and a great within.
    let rule = "alert udp any any -> any any (content:\"b\"; content:\"a\"; distance:-1048576; within:1048576; sid:1;)";
    assert_eq!(Watch::new(rule).over(17).packet(Forward, &udp(b"ab")).sids(), [1]);
}

#[test]
fn ten_thousand_requests_in_a_row_match_each() {
    let rules =
        "alert http any any -> any any (http.uri; content:\"/evil\"; http.stat_code; content:\"200\"; sid:1;)
alert http any any -> any any (http.method; content:\"GET\"; http.uri; content:\"/evil\"; sid:2;)";
    let mut watch = Watch::new(rules).named("http");
    for number in 0..10_000 {
        watch.transaction(Forward, number).message(Forward, &[("http.method", "GET"), ("http.uri", "/evil")]);
    }
    assert_eq!(watch.sids().len(), 10_000);
    assert!(watch.memory() < 100_000, "{}", watch.memory());
    // What had no room of the requests is counted; each answer matches once or not at all.
    let mut answered = 0;
    for number in 0..10_000 {
        watch.transaction(Reverse, number).message(Reverse, &[("http.stat_code", "200")]);
        answered += watch.matches().len() as u64;
    }
    assert!(answered > 900, "{answered}");
    assert!(answered + watch.stats().no_room >= 10_000, "{answered} {:?}", watch.stats());
    // Each request is answered at once: nothing is left out.
    let mut watch = Watch::new(rules).named("http");
    for number in 0..10_000 {
        watch.transaction(Forward, number).message(Forward, &[("http.method", "GET"), ("http.uri", "/evil")]);
        watch.transaction(Reverse, number).message(Reverse, &[("http.stat_code", "200")]);
    }
    assert_eq!(watch.sids().len(), 20_000);
    assert_eq!(watch.stats().no_room, 0);
}

#[test]
fn a_stream_of_single_bytes_that_are_answered_each_matches_once() {
    let rules = "alert tcp any any -> any any (content:\"needle\"; sid:1;)
alert tcp any any -> any any (flow:to_client; content:\"k\"; sid:2;)
alert tcp-pkt any any -> any any (content:\"needle\"; sid:3;)";
    let mut watch = Watch::new(rules);
    for byte in b"a needle in a haystack".chunks(1) {
        watch.packet(Forward, &tcp(16).payload(byte)).chunk(Forward, byte);
        watch.packet(Reverse, &answer(16).payload(b".")).chunk(Reverse, b".");
    }
    assert_eq!(watch.end().sids(), [1]);
}
