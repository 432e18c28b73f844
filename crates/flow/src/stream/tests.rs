use super::*;
use weir_wire::build::flags::{ACK, PSH};

/// The output: for each direction the text, with `[n]` for a gap.
fn put_together(config: StreamConfig, segments: &[Segment<'_>]) -> ([String; 2], StreamStats) {
    let (mut streams, mut text) = (Streams::new(config), [String::new(), String::new()]);
    let mut take = |chunk: Chunk<'_>| {
        let text = &mut text[chunk.direction as usize];
        if chunk.gap > 0 {
            text.push_str(&format!("[{}]", chunk.gap));
        }
        text.push_str(std::str::from_utf8(chunk.data).unwrap());
    };
    for segment in segments {
        streams.segment(7, segment, &mut take);
    }
    streams.end(7, Time(1000), &mut take);
    let stats = streams.stats();
    assert_eq!(stats.held, 0, "the memory of waiting data is accounted for");
    (text, stats)
}

fn forward(seq: u32, data: &str) -> Segment<'_> {
    Segment {
        time: Time(1),
        direction: Direction::Forward,
        seq,
        ack: None,
        flags: ACK | PSH,
        urgent: None,
        data: data.as_bytes(),
        cut: 0,
    }
}

fn flags(seq: u32, flags: u8) -> Segment<'static> {
    Segment { flags, ..forward(seq, "") }
}

fn ack(ack: u32) -> Segment<'static> {
    Segment { direction: Direction::Reverse, ack: Some(ack), flags: ACK, ..forward(0, "") }
}

fn text(segments: &[Segment<'_>]) -> String {
    put_together(StreamConfig::default(), segments).0[0].clone()
}

#[test]
fn bytes_are_emitted_in_order_and_once() {
    let handshake = flags(99, SYN);
    assert_eq!(text(&[handshake, forward(100, "ab"), forward(102, "cd")]), "abcd");
    assert_eq!(text(&[handshake, forward(102, "cd"), forward(100, "ab")]), "abcd");
    assert_eq!(text(&[handshake, forward(104, "ef"), forward(102, "cd"), forward(100, "ab")]), "abcdef");
    let again = [handshake, forward(100, "ab"), forward(100, "XX"), forward(101, "Xc"), forward(103, "d")];
    let (out, stats) = put_together(StreamConfig::default(), &again);
    assert_eq!((out[0].as_str(), stats.retransmitted, stats.bytes), ("abcd", 3, 4));
    // A keep-alive repeats the last byte.
    assert_eq!(text(&[handshake, forward(100, "ab"), forward(101, "x"), forward(102, "c")]), "abc");
}

#[test]
fn sequence_numbers_wrap() {
    let segments =
        [flags(u32::MAX - 2, SYN), forward(u32::MAX - 1, "abcd"), forward(4, "gh"), forward(2, "ef")];
    assert_eq!(text(&segments), "abcdefgh");
}

#[test]
fn a_hole_becomes_a_gap_when_data_after_it_is_acknowledged() {
    let begin = [flags(99, SYN), forward(100, "ab"), forward(105, "fg")];
    let with = |more: &[Segment<'static>]| text(&[&begin[..], more].concat());
    // The hole may still be filled.
    assert_eq!(with(&[ack(102), forward(102, "cde")]), "abcdefg");
    assert_eq!(with(&[ack(104), forward(102, "cde")]), "abcdefg");
    // The hole will not be filled: the other side has received the data.
    assert_eq!(with(&[ack(107), forward(102, "cde")]), "ab[3]fg");
    // No acknowledgement, but the stream has ended.
    assert_eq!(with(&[]), "ab[3]fg");
}

#[test]
fn bytes_missing_at_the_end_become_a_gap() {
    assert_eq!(text(&[flags(99, SYN), forward(100, "ab"), flags(110, FIN | ACK), ack(111)]), "ab[8]");
    assert_eq!(text(&[flags(99, SYN), forward(100, "ab"), ack(103)]), "ab", "a FIN that was not seen");
}

#[test]
fn segments_that_the_capture_truncated() {
    let cut = Segment { cut: 3, ..forward(100, "ab") };
    assert_eq!(text(&[flags(99, SYN), cut, forward(105, "fg")]), "ab[3]fg");
    // Waiting data is not lost.
    assert_eq!(text(&[flags(99, SYN), forward(104, "ef"), cut]), "ab[2]ef");
}

#[test]
fn a_stream_without_a_syn_begins_with_its_first_segment() {
    assert_eq!(text(&[forward(500, "ab"), forward(498, "xxabc"), forward(503, "d")]), "abcd");
    assert_eq!(text(&[forward(500, "ab"), forward(400, "before")]), "ab");
}

#[test]
fn no_data_is_emitted_after_the_end() {
    let segments = [flags(99, SYN), Segment { flags: FIN | ACK, ..forward(100, "ab") }, forward(102, "more")];
    let (out, stats) = put_together(StreamConfig::default(), &segments);
    assert_eq!((out[0].as_str(), stats.after_fin), ("ab", 4));
    // The text of a reset is not part of the stream.
    assert_eq!(
        text(&[flags(99, SYN), forward(100, "ab"), Segment { flags: RST, ..forward(102, "bye") }]),
        "ab"
    );
}

#[test]
fn a_second_syn_counts_while_nothing_was_emitted() {
    assert_eq!(text(&[flags(9, SYN), flags(99, SYN), forward(100, "ab")]), "ab");
    assert_eq!(text(&[flags(99, SYN), forward(100, "ab"), flags(9, SYN), forward(102, "cd")]), "abcd");
}

#[test]
fn bytes_of_a_syn_wait_for_its_answer() {
    let syn = Segment { flags: SYN, ..forward(99, "ab") };
    let answer = |number| Segment { flags: SYN | ACK, ..ack(number) };
    let with = |more: &[Segment<'static>]| text(&[&[syn], more].concat());
    // They are taken: the answer acknowledges them.
    assert_eq!(with(&[answer(102), forward(102, "cd")]), "abcd");
    assert_eq!(with(&[answer(102), flags(102, ACK)]), "ab");
    // They are not taken, and sent again as they were or as other bytes.
    assert_eq!(with(&[answer(100), forward(100, "ab"), forward(102, "cd")]), "abcd");
    assert_eq!(with(&[answer(100), forward(100, "xycd")]), "xycd");
    // The other side is not captured.
    assert_eq!(with(&[forward(102, "cd")]), "abcd");
    assert_eq!(with(&[]), "ab");
    // Nothing is emitted before the handshake is over.
    let mut streams = Streams::new(StreamConfig::default());
    let mut bytes = 0;
    for segment in [syn, answer(102)] {
        streams.segment(0, &segment, |chunk| bytes += chunk.data.len());
        assert_eq!(bytes, 0);
    }
    streams.segment(0, &flags(102, ACK), |chunk| bytes += chunk.data.len());
    assert_eq!((bytes, streams.stats().held), (2, 0));
    // If asked for, they do not wait.
    streams.take_syns_at_once(true);
    streams.segment(1, &syn, |chunk| bytes += chunk.data.len());
    assert_eq!((bytes, streams.stats().held), (4, 0));
}

#[test]
fn urgent_bytes_are_left_out_if_configured() {
    let segments = [flags(99, SYN), Segment { urgent: Some(2), ..forward(100, "a!b") }, forward(103, "c")];
    assert_eq!(text(&segments), "a!bc");
    let config = StreamConfig { urgent_apart: true, ..StreamConfig::default() };
    assert_eq!(put_together(config.clone(), &segments).0[0], "abc");
    let late = [flags(99, SYN), segments[2], segments[1]];
    let (out, stats) = put_together(config, &late);
    assert_eq!((out[0].as_str(), stats.urgent), ("abc", 1));
}

#[test]
fn memory_is_limited() {
    let config = StreamConfig { each: 64 << 10, ..StreamConfig::default() };
    let data = "x".repeat(1000);
    let mut streams = Streams::new(config);
    let (mut gaps, mut bytes, mut max) = (0, 0, 0);
    streams.segment(0, &flags(99, SYN), |_| {});
    for n in 0..10_000_u32 {
        streams.segment(0, &forward(200 + n * 2000, &data), |chunk| {
            gaps += chunk.gap;
            bytes += chunk.data.len();
        });
        max = max.max(streams.stats().held);
    }
    assert!(max < 70 << 10, "{max}");
    assert!(bytes > 9_900_000 && gaps > 9_900_000 && streams.stats().abandoned > 100);
    // Single bytes take more memory than their length.
    for n in 0..100_000_u32 {
        streams.segment(1, &forward(n * 2, "x"), |_| {});
        max = max.max(streams.stats().held);
    }
    assert!(max < 400 << 10, "{max}");
}

/// In any order of arrival, the output equals the input.
#[test]
fn any_order_gives_the_same_stream() {
    let text: String = (0..2000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for (_, overlap) in Overlap::ALL {
        for start in [0, u32::MAX - 700] {
            let mut segments = vec![];
            for _ in 0..400 {
                let from = random(text.len());
                let to = (from + 1 + random(90)).min(text.len());
                segments.push(forward(start.wrapping_add(1 + from as u32), &text[from..to]));
            }
            // The rest arrives last, in reverse order.
            for from in (0..text.len()).step_by(100).rev() {
                segments.push(forward(start.wrapping_add(1 + from as u32), &text[from..from + 100]));
            }
            segments.insert(0, flags(start, SYN));
            let (out, stats) = put_together(StreamConfig { overlap, ..StreamConfig::default() }, &segments);
            assert_eq!(out[0], text);
            assert_eq!((stats.overlap_conflict, stats.gaps, stats.bytes), (0, 0, 2000));
        }
    }
}

/// Each of a million open streams is one cache line.
#[test]
fn an_open_stream_takes_one_cache_line() {
    assert_eq!(size_of::<Pair>(), 64);
}
