//! Contents of streams, whatever their segments.

use crate::watch::{Watch, answer, tcp};
use weir_wire::Direction::{self, Forward, Reverse};
use weir_wire::build::flags;

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
fn the_longest_content_of_a_stream_is_found_wherever_it_begins_and_longer_ones_are_noted() {
    let literal: String = (0..2_562_u32).map(|at| char::from(b'a' + (at * at % 26) as u8)).collect();
    let rule =
        |length: usize| format!("alert tcp any any -> any any (content:\"{}\"; sid:1;)", &literal[..length]);
    for at in (0..6_000).step_by(61).chain([2_559, 2_560, 2_561, 5_119, 5_120, 5_121]) {
        let mut stream = vec![b'.'; 12_000];
        stream[at..at + 2_561].copy_from_slice(&literal.as_bytes()[..2_561]);
        for size in [1, 1_460, 12_000] {
            let mut watch = Watch::new(&rule(2_561));
            stream.chunks(size).for_each(|piece| _ = watch.chunk(Forward, piece));
            assert_eq!(watch.end().sids(), [1], "{at} {size}");
        }
    }
    let notes = |length| crate::watch::read(&rule(length)).notes;
    assert!(notes(2_561).is_empty());
    let [note] = &notes(2_562)[..] else { panic!("one note") };
    assert_eq!((note.sid, note.origin.line, note.origin.column), (1, 1, 31));
    assert!(note.text.contains("the content has 2562 bytes"), "{}", note.text);
    // Bodies and datagrams are looked at whole.
    let udp = rule(2_562).replace("alert tcp", "alert udp");
    let body =
        rule(2_562).replace("alert tcp", "alert http").replace("(content", "(http.request_body; content");
    assert!(crate::watch::read(&udp).notes.is_empty() && crate::watch::read(&body).notes.is_empty());
}

#[test]
fn each_message_of_a_dialogue_may_match() {
    let rule = "alert tcp any any -> any any (flow:to_client; content:\"a\"; sid:1;)";
    let dialogue = |watch: &mut Watch| {
        for _ in 0..3 {
            watch.chunk(Reverse, b"250 a ready\r\n").chunk(Forward, b"NOOP\r\n");
        }
        watch.chunk(Reverse, b"221 bye\r\n").end().sids()
    };
    assert_eq!(dialogue(&mut Watch::new(rule).named("smtp")), [1, 1, 1]);
    // Without a protocol the other side may send at any time, and ends no message.
    assert_eq!(dialogue(&mut Watch::new(rule)), [1]);
}

#[test]
fn rules_with_places_match_in_each_packet() {
    let rule = "alert tcp any any -> any any (content:\"ab\"; depth:2; sid:1;)";
    let frames =
        [tcp(flags::ACK).payload(b"ab1"), tcp(flags::ACK).payload(b"ab2"), tcp(flags::ACK).payload(b"xab")];
    let mut watch = Watch::new(rule);
    for frame in &frames {
        watch.packet(Forward, frame);
    }
    // The bytes of the first packet come again in the stream.
    assert_eq!(watch.chunk(Forward, b"ab1ab2xab").end().sids(), [1, 1]);
}
