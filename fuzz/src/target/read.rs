use super::Digest;
use crate::scratch::{self, Scratch};
use crate::{Target, seeds};
use std::path::{Path, PathBuf};
use weir_capture::{Files, Input, Order, ReadOptions};
use weir_wire::{Packet, PacketBuf};

pub const TARGET: Target = Target {
    name: "read",
    about: "a capture file, plain or compressed: equal packets for any size of chunks, and when merged with itself",
    seeds: seeds::files,
    words: WORDS,
    run,
};

pub const WORDS: &[&[u8]] = &[
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\xc3\xd4",
    b"\x4d\x3c\xb2\xa1",
    b"\x34\xcd\xb2\xa1",
    b"\x0a\x0d\x0d\x0a",
    b"\x4d\x3c\x2b\x1a",
    b"\x1a\x2b\x3c\x4d",
    b"\x01\x00\x00\x00\x14\x00\x00\x00",
    b"\x02\x00\x00\x00",
    b"\x03\x00\x00\x00",
    b"\x05\x00\x00\x00",
    b"\x06\x00\x00\x00",
    b"\x09\x00\x01\x00",
    b"\x1f\x8b\x08\x00",
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80",
    b"\x00\x00\x00\x00",
    b"\xfc\xff\xff\xff",
];

/// The result of reading to the end.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// Packets.
    pub packets: u64,
    /// Captured bytes of these packets.
    pub bytes: u64,
    /// Digest of every packet and its time, in order.
    pub digest: u64,
    /// Errors.
    pub errors: Vec<String>,
}

/// Maximum size of the decompressed input in bytes: a decompression bomb ends only at its end, which takes too long
/// for a fuzzer.
const MAX_BYTES: u64 = 64 << 20;

/// Reads files to their end.
pub fn read(paths: &[&Path], options: &ReadOptions) -> Found {
    let inputs: Vec<Input> = paths.iter().map(|path| Input::Path(PathBuf::from(path))).collect();
    let mut found = Found::default();
    let mut digest = Digest::default();
    let mut files = match Files::open(&inputs, options) {
        Ok(files) => files,
        Err(error) => {
            found.errors.push(error.to_string());
            return found;
        }
    };
    let mut chunk = PacketBuf::default();
    while found.bytes < MAX_BYTES {
        match files.fill(&mut chunk) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                found.errors.push(error.to_string());
                assert!(found.errors.len() <= paths.len(), "more errors than inputs: {:?}", found.errors);
                continue;
            }
        }
        let interfaces = files.interfaces().len() as u32;
        for slot in &chunk.slots {
            assert!(chunk.bytes.len() as u64 >= u64::from(slot.offset) + u64::from(slot.len), "{slot:?}");
            assert!(slot.interface < interfaces, "{slot:?} of {interfaces} interfaces");
        }
        for packet in chunk.batch().packets() {
            found.packets += 1;
            found.bytes += packet.data.len() as u64 + 16;
            note(&packet, &mut digest);
        }
    }
    assert_eq!(files.progress().packets, found.packets);
    let kinds = files.describe().map(|info| (info.format, info.compression));
    kinds.for_each(|kind| digest.add(format!("{kind:?}").len() as u64));
    found.digest = digest.0;
    found
}

fn note(packet: &Packet<'_>, digest: &mut Digest) {
    digest.add(packet.time.0);
    digest.add(u64::from(packet.wire_len) << 16 ^ u64::from(packet.link.0));
    digest.add(packet.data.len() as u64);
    digest.add(packet.data.first().copied().unwrap_or_default().into());
    digest.add(packet.data.last().copied().unwrap_or_default().into());
}

fn run(input: &[u8]) -> u64 {
    scratch::with(|scratch| check(scratch, input))
}

fn check(scratch: &Scratch, input: &[u8]) -> u64 {
    let path = scratch.file("input", input);
    let whole = read(&[&path], &ReadOptions::default());
    let small = read(&[&path], &ReadOptions { chunk_bytes: 4 << 10, ..ReadOptions::default() });
    if whole.bytes < MAX_BYTES {
        assert_eq!(whole, small, "the size of chunks changes the result");
        if whole.packets > 0 {
            let listed = ReadOptions { order: Order::Listed, ..ReadOptions::default() };
            for options in [ReadOptions::default(), listed] {
                let twice = read(&[&path, &path], &options);
                assert_eq!(twice.packets, 2 * whole.packets, "merged with itself, {:?}", options.order);
                assert_eq!(twice.errors.len(), 2 * whole.errors.len());
            }
            let half = whole.packets / 2;
            let first = read(&[&path], &ReadOptions { packets: Some(half), ..ReadOptions::default() });
            assert_eq!(first.packets, half);
        }
    }
    let cut = read(&[&path], &ReadOptions { snaplen: Some(20), ..ReadOptions::default() });
    assert!(cut.bytes >= MAX_BYTES || whole.bytes >= MAX_BYTES || cut.packets == whole.packets);
    let recovered = read(&[&path], &ReadOptions { recover: true, ..ReadOptions::default() });
    assert!(recovered.packets >= whole.packets || whole.bytes >= MAX_BYTES, "recovering loses packets");

    let mut digest = Digest::default();
    digest.size(whole.packets);
    digest.size(recovered.packets);
    // The text of an error without its decimal and hexadecimal numbers identifies it.
    for error in whole.errors.iter().chain(&recovered.errors) {
        error.bytes().filter(|byte| (b'g'..=b'z').contains(byte)).for_each(|byte| digest.add(byte.into()));
    }
    digest.0
}
