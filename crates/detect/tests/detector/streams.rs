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

/// What waits of a stream is looked at when it has ended, and not when its flow leaves the table.
#[test]
fn the_end_of_a_stream_is_looked_at_with_its_last_segments() {
    let rule = "alert tcp any any -> any any (content:\"needle\"; sid:1;)";
    let ends = flags::FIN | flags::ACK;
    let client = |flags: u8, seq: u32| (Forward, tcp(flags).seq(seq).ack(50).payload(b""));
    let server = |flags: u8, ack: u32| (Reverse, answer(flags).seq(50).ack(ack).payload(b""));
    // The segments after the needle, and the number of the one that ends its stream; 0 for none.
    for (segments, last) in [
        (vec![server(flags::ACK, 7), client(flags::ACK, 7)], 0),
        // The bytes before the end are acknowledged earlier, or later.
        (vec![server(flags::ACK, 7), client(ends, 7)], 2),
        (vec![client(ends, 7), server(flags::ACK, 8), client(flags::ACK, 8)], 3),
        (vec![server(flags::ACK, 7), client(flags::RST, 7)], 2),
        (vec![server(flags::RST | flags::ACK, 7), client(flags::ACK, 7)], 2),
        // Some of them are not.
        (vec![client(ends, 7), server(ends, 6), client(flags::ACK, 8)], 0),
        (vec![client(flags::RST, 7), client(flags::RST, 7)], 0),
        // The other side alone ends.
        (vec![server(ends, 7), client(flags::ACK, 7)], 0),
    ] {
        let mut watch = Watch::new(rule);
        watch.packet(Forward, &tcp(flags::SYN).seq(0).payload(b""));
        watch.packet(Forward, &tcp(flags::ACK).seq(1).payload(b"needle")).chunk(Forward, b"needle");
        let mut found = watch.sids().len();
        assert_eq!(found, 0);
        for (number, (side, frame)) in segments.iter().enumerate() {
            let here = watch.packet(*side, frame).sids().len();
            assert_eq!(here == 1, number + 1 == last, "{number} of {last}");
            found += here;
        }
        assert_eq!(watch.end().sids().len() + found, 1, "it matches once");
    }
    // Bytes before the end have not come.
    let mut watch = Watch::new(rule);
    watch.packet(Forward, &tcp(flags::SYN).seq(0).payload(b""));
    watch.packet(Forward, &tcp(flags::ACK).seq(1).payload(b"need")).chunk(Forward, b"need");
    watch.packet(Reverse, &answer(flags::ACK).seq(50).ack(8).payload(b""));
    assert_eq!(watch.packet(Forward, &tcp(ends).seq(7).payload(b"!")).sids(), []);
    watch.packet(Forward, &tcp(flags::ACK).seq(5).payload(b"le")).chunk(Forward, b"le").chunk(Forward, b"!");
    assert_eq!(watch.end().sids(), [1]);
}

/// What a SYN carries without Fast Open is looked at once: as a packet's.
#[test]
fn bytes_of_a_lone_syn_match_once() {
    let rules = "alert tcp any any -> any any (content:\"needle\"; sid:1;)
alert tcp-pkt any any -> any any (content:\"needle\"; sid:2;)";
    let syn = tcp(flags::SYN).seq(0).payload(b"a needle");
    assert_eq!(Watch::new(rules).packet(Forward, &syn).chunk(Forward, b"a needle").end().sids(), [1, 2]);
    // A host that answers, and takes it.
    let mut watch = Watch::new(rules);
    watch.packet(Forward, &syn);
    assert_eq!(watch.sids(), [1, 2]);
    watch.packet(Reverse, &answer(flags::SYN | flags::ACK).seq(50).ack(9).payload(b""));
    watch.packet(Forward, &tcp(flags::ACK).seq(9).payload(b"")).chunk(Forward, b"a needle");
    watch.end();
    assert!(watch.sids().len() <= 1);
    // What follows a SYN without payload is looked at, whatever of the handshake was captured.
    let mut watch = Watch::new(rules);
    watch.packet(Forward, &tcp(flags::SYN).seq(0).payload(b""));
    watch.packet(Forward, &tcp(0).seq(1).payload(b"need")).chunk(Forward, b"need");
    watch.packet(Forward, &tcp(0).seq(5).payload(b"le")).chunk(Forward, b"le");
    assert_eq!(watch.end().sids(), [1]);
    // With Fast Open, by its option and by the experimental one, it is looked at as a stream alone.
    for option in [&[34, 4, 1, 2][..], &[254, 6, 0xf9, 0x89, 1, 2], &[1, 253, 4, 0xf9, 0x89]] {
        let syn = tcp(flags::SYN).seq(0).options(option).payload(b"a needle");
        let mut watch = Watch::new(rules);
        assert_eq!(watch.packet(Forward, &syn).sids(), [2], "{option:?}");
        assert_eq!(watch.chunk(Forward, b"a needle").end().sids(), [1]);
    }
    let other = tcp(flags::SYN).seq(0).options(&[254, 4, 1, 2]).payload(b"a needle");
    assert_eq!(Watch::new(rules).packet(Forward, &other).sids(), [1, 2]);
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
