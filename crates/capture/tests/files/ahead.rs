//! Several threads that read blocks of a file and parse them in turn find what one thread finds.

use weir_capture::{Input, ReadOptions};

use crate::damage::{Random, mutated};
use crate::support::{block, gzip, interface, pcap_header, read, read_by, record, scratch, section, words};

/// Packets of many lengths, some of them longer than the room before a block.
fn packets(random: &mut Random, number: usize) -> Vec<Vec<u8>> {
    (0..number)
        .map(|_| {
            let longest = [100, 1_500, 1_500, 9_000, 60_000][random.below(5)];
            let length = random.below(longest);
            vec![random.below(256) as u8; length]
        })
        .collect()
}

fn pcap_of(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = pcap_header(0xa1b2_c3d4, 1);
    (1..).zip(packets).for_each(|(time, data)| record(&mut file, time, data));
    file
}

fn pcapng_of(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [section(false), interface(false, 1, &[])].concat();
    for (time, data) in (1..).zip(packets) {
        let length = data.len() as u32;
        let mut body = words(false, &[0, 0, time, length, length]);
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(false, 6, &body));
        // A block that is skipped, some longer than a read.
        if time % 50 == 0 {
            file.extend(block(false, 0x0bad, &vec![1; 4 * data.len()]));
        }
    }
    file
}

/// Reads files with one thread and with three, and compares. Returns how many blocks the latter read ahead.
fn compare(files: &[Vec<u8>], options: &ReadOptions) -> usize {
    let directory = scratch();
    let inputs: Vec<Input> = (0..)
        .zip(files)
        .map(|(number, bytes)| {
            let path = directory.path().join(format!("{number}"));
            std::fs::write(&path, bytes).unwrap();
            Input::Path(path)
        })
        .collect();
    let alone = read(&inputs, options);
    let (together, blocks) = read_by(&inputs, options, 3);
    assert_eq!(together.packets.len(), alone.packets.len());
    assert!(together.packets == alone.packets);
    assert_eq!(format!("{:?}", together.errors), format!("{:?}", alone.errors));
    assert_eq!(format!("{:?}", together.inputs), format!("{:?}", alone.inputs));
    blocks
}

#[test]
fn threads_that_read_together_find_what_one_finds() {
    let mut random = Random(0x00ab_cdef_0123_4567);
    let options = ReadOptions { chunk_bytes: 32 << 10, ..ReadOptions::default() };
    for _ in 0..5 {
        let (pcap, pcapng) = (pcap_of(&packets(&mut random, 400)), pcapng_of(&packets(&mut random, 400)));
        assert!(compare(std::slice::from_ref(&pcap), &options) > 20);
        assert!(compare(std::slice::from_ref(&pcapng), &options) > 5);
        // Of files that are not regular or compressed, nothing is read ahead, and of others only where they are read alone.
        assert_eq!(compare(&[gzip(&pcap)], &options), 0);
        compare(&[pcap.clone(), pcapng.clone()], &options);
        compare(&[pcap, pcapng], &ReadOptions { packets: Some(500), ..options.clone() });
    }
}

#[test]
fn threads_that_read_together_find_the_errors_that_one_finds() {
    let mut random = Random(0x0fed_cba9_8765_4321);
    let mut errors = 0;
    for round in 0..40 {
        let packets = packets(&mut random, 100);
        let file = if round % 2 == 0 { pcap_of(&packets) } else { pcapng_of(&packets) };
        let file = mutated(&file, &mut random);
        let options = ReadOptions { recover: round % 4 < 2, chunk_bytes: 16 << 10, ..ReadOptions::default() };
        compare(std::slice::from_ref(&file), &options);
        errors += crate::support::read_bytes_with(&file, &options).errors.len();
    }
    assert!(errors > 0);
}
