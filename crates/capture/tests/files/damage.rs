//! Truncated, corrupt and malicious files.

use std::path::PathBuf;

use weir_capture::{Input, ReadError, ReadOptions, Severity, repair};

use crate::support::{
    Outcome, enhanced, gzip, interface, pcap, pcap_header, read, read_bytes, read_bytes_with, read_path,
    record, scratch, section, shared, walk, words, zstandard,
};

fn small_pcap() -> Vec<u8> {
    pcap(&[(1, b"one"), (2, b""), (3, b"a longer packet"), (4, b"four")])
}

fn small_pcapng() -> Vec<u8> {
    let mut file = [section(true), interface(true, 1, &[])].concat();
    file.extend(enhanced(true, 0, 1, b"one", &crate::support::option(true, 1, b"comment")));
    file.extend(crate::support::block(true, 4, &[0; 20]));
    file.extend([section(false), interface(false, 101, &[])].concat());
    file.extend(enhanced(false, 0, 2, b"two!", &[]));
    file
}

/// Every prefix of a file gives a prefix of its packets and, unless it ends on a record, one error.
fn truncated_everywhere(whole: &[u8], headers: usize) {
    let all = read_bytes(whole).packets;
    for length in 0..whole.len() {
        let outcome = read_bytes(&whole[..length]);
        assert!(all.starts_with(&outcome.packets), "cut at {length}: other packets");
        assert!(outcome.errors.len() <= 1);
        match outcome.errors.first() {
            Some(error) if length < 4 => {
                assert_eq!(error.severity(), Severity::Unreadable, "cut at {length}: {error}");
            }
            Some(error) => {
                assert!(matches!(error, ReadError::Truncated { .. }), "cut at {length}: {error}");
                assert_eq!(error.severity(), Severity::Partial);
                let text = error.to_string();
                assert!(text.contains(&format!("after {} packets", outcome.packets.len())), "{text}");
            }
            None => assert!(length >= headers, "cut at {length}: accepted as complete"),
        }
    }
}

#[test]
fn a_file_may_be_truncated_at_every_byte() {
    truncated_everywhere(&small_pcap(), 24);
    truncated_everywhere(&small_pcapng(), 28);
    for packed in [gzip(&small_pcap()), zstandard(&small_pcap()), gzip(&small_pcapng())] {
        let all = read_bytes(&small_pcap()).packets.len();
        for length in 0..packed.len() {
            let outcome = read_bytes(&packed[..length]);
            assert_eq!(outcome.errors.len(), 1, "cut at {length}");
            assert!(outcome.packets.len() <= all);
        }
        assert!(read_bytes(&packed).errors.is_empty());
    }
}

#[test]
fn repair_keeps_the_longest_valid_prefix() {
    let directory = scratch();
    let mut cases = 0;
    for (name, whole, headers) in [
        ("x.pcap", small_pcap(), 24),
        ("x.pcapng", small_pcapng(), 28),
        ("x.pcap.gz", gzip(&small_pcap()), 10),
        ("x.pcap.zst", zstandard(&small_pcap()), 10),
    ] {
        let path = directory.path().join(name);
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let before = read_path(&path);
            match repair(&path) {
                Ok(done) => {
                    cases += 1;
                    assert_eq!(done.packets, before.packets.len() as u64);
                    assert_eq!(done.changed, !before.errors.is_empty(), "{name} cut at {length}");
                    let after = read_path(&path);
                    assert!(after.errors.is_empty(), "{name} cut at {length}: {:?}", after.errors);
                    assert_eq!(after.packets, before.packets);
                    if !name.ends_with("gz") && !name.ends_with("zst") {
                        let kept = std::fs::read(&path).unwrap();
                        assert!(whole.starts_with(&kept) && kept.len() as u64 == done.kept);
                    }
                }
                Err(error) => {
                    assert!(before.packets.is_empty(), "{name} cut at {length}: {error}");
                    assert!(length < headers || name.ends_with("gz") || name.ends_with("zst"));
                }
            }
        }
    }
    println!("repaired {cases} files");
    assert!(cases > 200);
}

#[test]
fn files_that_are_not_captures_are_refused() {
    let empty = &read_bytes(b"").errors[0];
    assert!(matches!(empty, ReadError::Empty { unpacked: false, .. }));
    assert!(empty.to_string().contains("empty (0 bytes); expected a pcap or pcapng file header"), "{empty}");
    let packed = &read_bytes(&gzip(b"")).errors[0];
    assert!(packed.to_string().contains("empty (0 bytes after decompression)"), "{packed}");
    let text = &read_bytes(b"hello, world").errors[0];
    assert!(
        text.to_string().contains("not a capture: starts with 68656c6c6f2c2077; expected pcap"),
        "{text}"
    );
    let missing = &read(&[Input::Path("/nonexistent/x.pcap".into())], &ReadOptions::default()).errors[0];
    assert!(missing.to_string().starts_with("/nonexistent/x.pcap: cannot open: No such file"), "{missing}");
    for error in [empty, packed, text, missing] {
        assert_eq!(error.severity(), Severity::Unreadable);
    }
    let header = read_bytes(&pcap(&[]));
    assert!(header.errors.is_empty() && header.packets.is_empty(), "a file without packets is valid");
}

#[test]
fn corrupt_lengths_are_reported_with_their_offset() {
    let mut file = pcap(&[(1, b"one")]);
    let place = file.len();
    file.extend(words(false, &[1, 2, 3_000_000_000, 60]));
    file.extend([0; 100]);
    let outcome = read_bytes(&file);
    assert_eq!(outcome.packets.len(), 1);
    let text = outcome.errors[0].to_string();
    assert!(text.contains(&format!("corrupt at byte {place}, after 1 packets: ")), "{text}");
    assert!(
        text.ends_with("record with 3000000000 captured bytes; expected at most 262144 (link type Ethernet)")
    );
    assert_eq!(outcome.errors[0].severity(), Severity::Partial);

    let cases: [(Vec<u8>, &str); 6] = [
        (words(false, &[6, 13, 0, 0]), "has a length of 13 bytes; expected a multiple of 4, at least 12"),
        (words(false, &[6, 8, 0, 0]), "has a length of 8 bytes; expected a multiple of 4, at least 12"),
        (words(false, &[6, 0x4000_0000, 0, 0]), "expected at most 16777216"),
        (words(false, &[6, 16, 0, 20]), "has a length of 16 bytes at its start and of 20 at its end"),
        (words(false, &[6, 36, 0, 0, 0, 9, 9, 0, 36]), "packet with 9 captured bytes; expected at most 4"),
        (words(false, &[6, 32, 7, 0, 0, 0, 0, 32]), "packet of interface 7; expected one of the 1"),
    ];
    for (bad, expected) in cases {
        let start = [section(false), interface(false, 1, &[]), enhanced(false, 0, 1, b"ok", &[])].concat();
        let outcome = read_bytes(&[start.clone(), bad].concat());
        assert_eq!(outcome.packets.len(), 1);
        let text = outcome.errors[0].to_string();
        assert!(text.contains(&format!("corrupt at byte {}, after 1 packets", start.len())), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

fn recovering() -> ReadOptions {
    ReadOptions { recover: true, ..ReadOptions::default() }
}

#[test]
fn reading_continues_after_a_corrupt_record() {
    let second = 1_000_000_000;
    let payload = [0x5a; 90];
    let mut file = pcap_header(0xa1b2_3c4d, 1);
    for number in 0..1_000 {
        if number == 400 {
            file.extend(words(false, &[1, 2, 3_000_000_000, 60]));
            file.extend([0xee; 77]);
        }
        record(&mut file, 1_700_000_000 * second + number, &payload);
    }
    let outcome = read_bytes_with(&file, &recovering());
    assert_eq!(outcome.packets.len(), 1_000);
    assert_eq!(outcome.errors.len(), 1, "the error is still reported");
    assert_eq!((outcome.inputs[0].resumed, outcome.inputs[0].skipped_bytes), (1, 16 + 77));

    let mut file = [section(false), interface(false, 1, &[])].concat();
    for number in 0..1_000 {
        if number == 400 {
            file.extend([0xee; 93]);
        }
        file.extend(enhanced(false, 0, number, &payload, &[]));
    }
    let outcome = read_bytes_with(&file, &recovering());
    assert_eq!(outcome.packets.len(), 1_000);
    assert_eq!((outcome.inputs[0].resumed, outcome.inputs[0].skipped_bytes), (1, 93));
}

/// Environment variable with the file that the next test reads in a separate process.
const BOMB: &str = "WEIR_TEST_BOMB";

#[test]
#[ignore = "run by a_decompression_bomb_does_not_cost_memory, which measures the memory of its process"]
fn a_decompression_bomb_is_read() {
    let Some(path) = std::env::var_os(BOMB) else {
        println!("skipped: {BOMB} is not set");
        return;
    };
    let input = Input::Path(path.into());
    let mut chunk = weir_wire::PacketBuf::default();
    let mut files = weir_capture::Files::open(&[input], &ReadOptions::default()).unwrap();
    let mut packets = 0;
    let end = loop {
        match files.fill(&mut chunk) {
            Ok(true) => packets += chunk.slots.len(),
            Ok(false) => break "whole",
            Err(ReadError::Truncated { .. }) => break "truncated",
            Err(error) => panic!("{error}"),
        }
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("\nbomb {packets} {end} {peak}");
}

#[test]
fn a_decompression_bomb_does_not_cost_memory() {
    let zeros = vec![0; 100 << 20];
    let blocks = |kind: u32| [section(false), words(false, &[kind, 400 << 20])].concat();
    let packet = [section(false), interface(false, 1, &[]), words(false, &[6, 16 << 20])].concat();
    let cases = [
        // A skipped block of 400 MiB; records without bytes; a packet of the maximum length.
        ("skipped.gz", [gzip(&blocks(0x99)), gzip(&zeros), gzip(&zeros)].concat(), "0 truncated"),
        ("records.zst", [zstandard(&pcap(&[])), zstandard(&zeros)].concat(), "6553600 whole"),
        ("packet.gz", [gzip(&packet), gzip(&zeros[..10 << 20])].concat(), "0 truncated"),
    ];
    let directory = scratch();
    for (name, packed, expected) in cases {
        let path = directory.path().join(name);
        std::fs::write(&path, &packed).unwrap();
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "damage::a_decompression_bomb_is_read", "--ignored", "--nocapture"])
            .env(BOMB, &path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line =
            text.lines().find_map(|line| line.strip_prefix("bomb ")).unwrap_or_else(|| panic!("{text}"));
        println!("{name}: {} bytes, read as {line}", packed.len());
        assert!(line.starts_with(expected), "{name}: {line}");
        let peak: u64 = line.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert!(peak < 64 << 10, "{name}: {peak} KiB");
    }
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let directory = scratch();
    let put = |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).unwrap();
    put("a.pcap", &pcap(&[(1, b"a")]));
    put("b.pcap", b"not a capture");
    put("c.pcap", &small_pcap()[..70]);
    put("d.pcap.gz", &gzip(&pcap(&[(9, b"d")])));
    put("e", &pcap(&[(8, b"e")]));
    put("f.txt", b"text without the content or the name of a capture");
    put("g.gz", &gzip(b"text"));
    put(".h.pcap", &pcap(&[(1, b"h")]));
    put("i.pcap", b"");
    for order in [weir_capture::Order::Listed, weir_capture::Order::Time] {
        let options = ReadOptions { order, ..ReadOptions::default() };
        let outcome = read(&[Input::Path(directory.path().to_owned())], &options);
        let names: Vec<_> = outcome
            .inputs
            .iter()
            .map(|input| PathBuf::from(&input.name).file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["a.pcap", "b.pcap", "c.pcap", "d.pcap.gz", "e", "i.pcap"]);
        assert_eq!(outcome.errors.len(), 3, "{:?}", outcome.errors);
        let bad: Vec<_> = outcome.inputs.iter().map(|input| input.problem.is_some()).collect();
        assert_eq!(bad, [false, true, true, false, false, true]);
        let packets: Vec<_> = outcome.inputs.iter().map(|input| input.packets).collect();
        assert_eq!(packets, [1, 0, 2, 1, 1, 0]);
        assert_eq!(outcome.packets.len(), 5);
    }
    let empty = scratch();
    let outcome = read(&[Input::Path(empty.path().to_owned())], &ReadOptions::default());
    assert!(matches!(outcome.errors[..], [ReadError::NoCapture { .. }]));
}

/// A small generator of random numbers, so that failures can be reproduced.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

pub fn mutated(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => {
                bytes.drain(at..(at + random.below(9)).min(bytes.len() - 1).max(at));
            }
            _ => bytes.insert(at, 0xff),
        }
    }
    bytes
}

#[test]
pub fn mutated_captures_neither_panic_nor_hang() {
    let mut seeds = vec![small_pcap(), small_pcapng(), gzip(&small_pcap()), zstandard(&small_pcapng())];
    if let Some(data) = shared() {
        let small = |path: &PathBuf| path.metadata().is_ok_and(|data| (30..3_000).contains(&data.len()));
        let files: Vec<_> =
            walk(&data.join("pcapng-test")).into_iter().chain(walk(&data.join("libpcap"))).collect();
        seeds.extend(files.iter().filter(|path| small(path)).map(|path| std::fs::read(path).unwrap()));
    }
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    let (mut packets, mut errors) = (0, 0);
    for round in 0..4_000 {
        let bytes = mutated(&seeds[round % seeds.len()], &mut random);
        let options = ReadOptions { recover: round % 2 == 0, chunk_bytes: 4_096, ..ReadOptions::default() };
        let Outcome { packets: read, errors: bad, .. } = read_bytes_with(&bytes, &options);
        packets += read.len();
        errors += bad.len();
    }
    println!("4000 mutations of {} captures: {packets} packets, {errors} errors", seeds.len());
    assert!(packets > 1_000 && errors > 1_000);
}
