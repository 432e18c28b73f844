//! Features of each capture format.

use weir_capture::{Compression, Format, Input, ReadOptions, Severity};
use weir_wire::{LinkType, Time};

use crate::support::{
    block, enhanced, gzip, halves, interface, option, pcap, pcap_header, read, read_bytes, read_bytes_with,
    record, section, words, zstandard,
};

/// A pcap file, converted to the other byte order.
fn swapped(file: &[u8], modified: bool) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), file);
    let mut turn = |rest: &mut &[u8], sizes: &[usize]| {
        for size in sizes {
            let (field, after) = rest.split_at(*size);
            out.extend(field.iter().rev());
            *rest = after;
        }
    };
    turn(&mut rest, &[4, 2, 2, 4, 4, 4, 4]);
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        turn(&mut rest, &[4; 4]);
        turn(&mut rest, &vec![1; length + if modified { 8 } else { 0 }]);
    }
    out
}

#[test]
fn pcap_in_both_orders_and_resolutions() {
    for (magic, tick, modified) in
        [(0xa1b2_c3d4_u32, 1_000, false), (0xa1b2_3c4d, 1, false), (0xa1b2_cd34, 1_000, true)]
    {
        let mut file = pcap_header(magic, 101);
        for (number, data) in [b"first".as_slice(), b"", b"third packet"].iter().enumerate() {
            let fields = [7, number as u32 + 5, data.len() as u32, data.len() as u32 + 100];
            file.extend(words(false, &fields));
            if modified {
                file.extend([9; 8]);
            }
            file.extend_from_slice(data);
        }
        for (big_endian, file) in [(false, file.clone()), (true, swapped(&file, modified))] {
            let outcome = read_bytes(&file);
            assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
            let packets = &outcome.packets;
            assert_eq!(packets.len(), 3);
            assert_eq!(packets[0].data, b"first");
            assert_eq!(packets[2].data, b"third packet");
            assert_eq!(packets[2].wire_len, 112);
            assert_eq!(packets[2].time, Time(7_000_000_000 + 7 * tick));
            assert_eq!(packets[2].link, LinkType::RAW);
            let nanoseconds = tick == 1;
            assert_eq!(outcome.inputs[0].format, Some(Format::Pcap { big_endian, nanoseconds, modified }));
        }
    }
}

#[test]
fn old_versions_have_the_lengths_in_reverse_order() {
    for (minor, fields) in [(2_u8, [1, 2, 60, 4]), (3, [1, 2, 60, 4]), (3, [1, 2, 4, 60]), (4, [1, 2, 4, 60])]
    {
        let mut file = pcap_header(0xa1b2_c3d4, 1);
        file[6] = minor;
        file.extend(words(false, &fields));
        file.extend(*b"abcd");
        let packet = &read_bytes(&file).packets[0];
        assert_eq!((packet.data.as_slice(), packet.wire_len), (b"abcd".as_slice(), 60), "version 2.{minor}");
    }
    let mut file = pcap_header(0xa1b2_c3d4, 1);
    file[6] = 9;
    let outcome = read_bytes(&file);
    assert!(outcome.errors[0].to_string().contains("pcap version 2.9 at byte 4"), "{}", outcome.errors[0]);
    assert_eq!(outcome.errors[0].severity(), Severity::Unreadable);
}

#[test]
fn a_length_below_the_captured_length_counts() {
    let mut old = pcap_header(0xa1b2_c3d4, 1);
    let mut new = section(false);
    new.extend(block(false, 1, &[halves(false, &[1, 0]), words(false, &[0])].concat()));
    for wire in [4, 0, 6, 60] {
        old.extend(words(false, &[1, 2, 6, wire]));
        old.extend(*b"longer");
        new.extend(block(false, 6, &[words(false, &[0, 0, 9, 6, wire]), b"longer\0\0".to_vec()].concat()));
    }
    for file in [old, new] {
        let outcome = read_bytes(&file);
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        let lengths: Vec<_> = outcome.packets.iter().map(|packet| packet.wire_len).collect();
        assert_eq!(lengths, [4, 0, 6, 60]);
        assert!(outcome.packets.iter().all(|packet| packet.data == b"longer"));
    }
}

#[test]
fn packets_above_the_snaplen_are_truncated_as_by_libpcap() {
    let mut file = pcap_header(0xa1b2_c3d4, 1);
    file[16..20].copy_from_slice(&8_u32.to_le_bytes());
    record(&mut file, 0, b"twelve bytes");
    record(&mut file, 0, b"next");
    let packets = read_bytes(&file).packets;
    assert_eq!((packets[0].data.as_slice(), packets[0].wire_len), (b"twelve b".as_slice(), 12));
    assert_eq!(packets[1].data, b"next");
}

#[test]
fn sections_have_any_byte_order_and_resolution() {
    let mut file = Vec::new();
    let mut expected = Vec::new();
    let cases: [(u8, i64, u64, u64); 8] = [
        (6, 0, 1_500_000, 1_500_000_000),
        (9, 0, 1_500_000_000, 1_500_000_000),
        (3, 0, 1_500, 1_500_000_000),
        (0, 0, 2, 2_000_000_000),
        (12, 0, 1_500_000_000_000, 1_500_000_000),
        (0x80 | 1, 0, 3, 1_500_000_000),
        (0x80 | 20, 0, 3 << 19, 1_500_000_000),
        (6, 100, 1_500_000, 101_500_000_000),
    ];
    for big in [false, true] {
        file.extend(section(big));
        for (number, (resolution, offset, ticks, nanoseconds)) in cases.iter().enumerate() {
            let shift = if big { offset.to_be_bytes() } else { offset.to_le_bytes() };
            let options = [option(big, 9, &[*resolution]), option(big, 14, &shift)].concat();
            file.extend(interface(big, 1, &options));
            file.extend(enhanced(big, number as u32, *ticks, b"abc", &[]));
            expected.push(Time(*nanoseconds));
        }
    }
    let outcome = read_bytes(&file);
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    let times: Vec<_> = outcome.packets.iter().map(|packet| packet.time).collect();
    assert_eq!(times, expected);
    let interfaces: Vec<_> = outcome.packets.iter().map(|packet| packet.interface).collect();
    assert_eq!(interfaces, (0..16).collect::<Vec<_>>(), "interfaces are counted over all sections");
}

#[test]
fn extreme_resolutions_neither_panic_nor_hang() {
    for resolution in 0..=255 {
        let mut file = section(false);
        for offset in [i64::MIN, -1, i64::MAX] {
            let options =
                [option(false, 9, &[resolution]), option(false, 14, &offset.to_le_bytes())].concat();
            file.extend(interface(false, 1, &options));
        }
        for number in 0..3 {
            file.extend(enhanced(false, number, u64::MAX, b"abc", &[]));
        }
        assert_eq!(read_bytes(&file).packets.len(), 3);
    }
}

#[test]
fn simple_and_obsolete_packets_are_read() {
    let mut file = section(false);
    file.extend(block(false, 1, &[halves(false, &[1, 0]), words(false, &[4])].concat()));
    file.extend(enhanced(false, 0, 5, b"abc", &[]));
    file.extend(block(false, 3, &[words(false, &[60]), b"abcd".to_vec()].concat()));
    let obsolete =
        [halves(false, &[0, 17]), words(false, &[0, 9, 3, 70]), b"xyz\0".to_vec(), option(false, 1, b"old")];
    file.extend(block(false, 2, &obsolete.concat()));
    let outcome = read_bytes(&file);
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    let packets = &outcome.packets;
    assert_eq!((packets[1].data.as_slice(), packets[1].wire_len), (b"abcd".as_slice(), 60));
    assert_eq!(packets[1].time, packets[0].time, "it stays in the written order");
    assert_eq!((packets[2].data.as_slice(), packets[2].wire_len), (b"xyz".as_slice(), 70));
    assert_eq!(packets[2].time, Time(9_000));
    assert_eq!(packets[2].comments, ["old"]);
}

#[test]
fn names_comments_and_statistics_are_kept() {
    let mut file = block(
        true,
        0x0a0d_0d0a,
        &[
            words(true, &[0x1a2b_3c4d]),
            halves(true, &[1, 0]),
            vec![0xff; 8],
            option(true, 1, b"on the section"),
            option(true, 4, b"writer 1.0"),
        ]
        .concat(),
    );
    let named = [option(true, 2, b"eth0"), option(true, 3, b"uplink"), option(true, 1, b"on eth0")].concat();
    file.extend(interface(true, 1, &named));
    let comments = [option(true, 1, b"one"), option(true, 1, b"two")].concat();
    file.extend(enhanced(true, 0, 1, b"abc", &comments));
    file.extend(block(true, 4, &[0; 40]));
    file.extend(block(true, 0x1234, &[0; 300_000]));
    let counts = [option(true, 4, &70_u64.to_be_bytes()), option(true, 5, &30_u64.to_be_bytes())].concat();
    file.extend(block(true, 5, &[words(true, &[0, 0, 0]), counts].concat()));
    file.extend(enhanced(true, 0, 2, b"def", &[]));
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), &file).unwrap();
    let input = Input::Path(source.path().to_owned());
    let outcome = read(std::slice::from_ref(&input), &ReadOptions::default());
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(outcome.packets[0].comments, ["one", "two"]);
    assert!(outcome.packets[1].comments.is_empty());
    assert_eq!(outcome.inputs[0].comments, ["on the section", "on eth0"]);
    assert_eq!(outcome.inputs[0].machine, ["writer 1.0"]);
    assert_eq!((outcome.inputs[0].blocks.names, outcome.inputs[0].blocks.other), (1, 1));

    let mut files = weir_capture::Files::open(&[input], &ReadOptions::default()).unwrap();
    let mut chunk = weir_wire::PacketBuf::default();
    while files.fill(&mut chunk).unwrap() {}
    let described = &files.interfaces()[0];
    assert_eq!(described.name.as_deref(), Some("eth0"));
    assert_eq!(described.description.as_deref(), Some("uplink"));
    assert_eq!((described.received, described.dropped), (Some(70), Some(30)));
    assert_eq!(described.ticks_per_second, 1_000_000);
}

#[test]
fn a_million_interfaces_cost_bounded_memory() {
    let mut file = section(false);
    let one = interface(false, 1, &[]);
    for _ in 0..1_000_000 {
        file.extend_from_slice(&one);
    }
    // The last interfaces differ, beyond those with their own entry.
    file.extend(interface(false, 101, &option(false, 9, &[9])));
    file.extend(enhanced(false, 3, 5, b"three", &[]));
    file.extend(enhanced(false, 999_999, 5, b"other", &[]));
    file.extend(enhanced(false, 1_000_000, 5, b"last", &[]));
    file.extend(enhanced(false, 1_000_001, 5, b"none", &[]));
    let outcome = read_bytes(&file);
    assert_eq!(outcome.interfaces, weir_capture::MAX_INTERFACES + 1);
    let found: Vec<_> = outcome.packets.iter().map(|it| (it.interface, it.link, it.time.0)).collect();
    let other = weir_capture::MAX_INTERFACES as u32;
    let expected =
        [(3, LinkType::ETHERNET, 5_000), (other, LinkType::ETHERNET, 5_000), (other, LinkType::RAW, 5)];
    assert_eq!(found, expected);
    let error = outcome.errors[0].to_string();
    assert!(error.contains("packet of interface 1000001; expected one of the 1000001"), "{error}");
}

#[test]
fn compression_is_detected_by_content() {
    let file = pcap(&[(1, b"one"), (2, b"two"), (3, b"three")]);
    let (head, tail) = file.split_at(50);
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let cases = [
        (Compression::Gzip, gzip(&file)),
        (Compression::Gzip, [gzip(head), gzip(tail)].concat()),
        (Compression::Gzip, [gzip(head), gzip(b""), gzip(tail)].concat()),
        (Compression::Gzip, [gzip(&file), vec![0; 512]].concat()),
        (Compression::Zstd, zstandard(&file)),
        (Compression::Zstd, [zstandard(head), zstandard(tail)].concat()),
        (
            Compression::Zstd,
            [skippable.to_vec(), zstandard(head), skippable.to_vec(), zstandard(tail)].concat(),
        ),
    ];
    for (compression, packed) in cases {
        let outcome = read_bytes(&packed);
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        assert_eq!(outcome.packets.len(), 3);
        assert_eq!(outcome.inputs[0].compression, compression);
    }
}

#[test]
fn snaplen_and_packet_limits_hold() {
    let packets: Vec<(u64, &[u8])> = vec![(1, b"twelve bytes"); 1_000];
    let file = pcap(&packets);
    let options = ReadOptions { packets: Some(7), snaplen: Some(6), ..ReadOptions::default() };
    let outcome = read_bytes_with(&file, &options);
    assert_eq!(outcome.packets.len(), 7);
    assert!(outcome.packets.iter().all(|packet| packet.data == b"twelve" && packet.wire_len == 12));
    let none = ReadOptions { packets: Some(0), ..ReadOptions::default() };
    assert!(read_bytes_with(&file, &none).packets.is_empty());
}

#[test]
fn packets_outside_a_time_range_are_counted_and_not_returned() {
    let packets: Vec<(u64, &[u8])> = (0..1_000).map(|n| (n * 1_000, &b"packet"[..])).collect();
    let file = pcap(&packets);
    let first = read_bytes(&file).packets[0].time;
    let times = weir_capture::TimeRange { from: Time(first.0 + 100_000), until: Time(first.0 + 300_000) };
    let options = ReadOptions { times: Some(times), packets: Some(150), ..ReadOptions::default() };
    let all = read_bytes_with(&file, &ReadOptions { packets: None, ..options.clone() });
    assert_eq!(all.packets.len(), 200);
    assert!(all.packets.iter().all(|packet| times.contains(packet.time)));
    assert_eq!(read_bytes_with(&file, &options).packets.len(), 150, "the limit is of packets in the range");
}

#[test]
fn an_unsupported_link_type_is_passed_on() {
    let mut file = pcap_header(0xa1b2_c3d4, 147);
    record(&mut file, 0, b"private");
    let outcome = read_bytes(&file);
    assert_eq!(outcome.packets[0].link, LinkType(147));
    assert_eq!(outcome.inputs[0].links, [LinkType(147)]);
}

#[test]
fn packets_may_be_longer_than_the_buffer() {
    let long = vec![7; 200_000];
    let options = ReadOptions { chunk_bytes: 4_096, ..ReadOptions::default() };
    let file = pcap(&[(1, b"short"), (2, &long), (3, b"short")]);
    let outcome = read_bytes_with(&file, &options);
    let lengths: Vec<_> = outcome.packets.iter().map(|packet| packet.data.len()).collect();
    // The header's snaplen is 65,535.
    assert_eq!(lengths, [5, 65_535, 5]);
}
