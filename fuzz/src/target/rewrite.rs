use super::Digest;
use super::read::read;
use crate::scratch::{self, Scratch};
use crate::{Target, seeds, sequence};
use std::path::Path;
use weir_capture::{InterfaceInfo, PacketWriter, ReadOptions, WriteOptions};
use weir_wire::{PacketBuf, Time};

pub const TARGET: Target = Target {
    name: "rewrite",
    about: "a sequence of packets: written in every format and read again, they are equal",
    seeds: seeds::sequences,
    words: &[],
    run,
};

fn run(input: &[u8]) -> u64 {
    scratch::with(|scratch| check(scratch, input))
}

fn check(scratch: &Scratch, input: &[u8]) -> u64 {
    let chunk = sequence::decode(input);
    let mut digest = Digest::default();
    let mut first = None;
    for name in ["x.pcapng", "x.pcapng.gz", "x.pcapng.zst", "x.pcap", "x.pcap.zst"] {
        let path = scratch.path(name);
        let (packets, lost) = write(&path, &chunk);
        assert_eq!(packets + lost, chunk.slots.len() as u64, "{name}");
        let found = read(&[&path], &ReadOptions::default());
        assert!(found.errors.is_empty(), "{name}: {:?}", found.errors);
        assert_eq!(found.packets, packets, "{name}");
        digest.size(lost);
        if name.starts_with("x.pcapng") {
            assert_eq!(lost, 0, "{name}");
            // Compressed or not, format and packets are equal.
            let first = first.get_or_insert((found.packets, found.bytes));
            assert_eq!((found.packets, found.bytes), *first, "{name}");
            assert_eq!(found.bytes, bytes(&chunk), "{name}");
        }
        let _ = std::fs::remove_file(path);
    }
    digest.size(chunk.slots.len() as u64);
    digest.0
}

/// Bytes as `read` counts them.
fn bytes(chunk: &PacketBuf) -> u64 {
    chunk.slots.iter().map(|slot| u64::from(slot.len) + 16).sum()
}

/// Number of packets written, and lost.
fn write(path: &Path, chunk: &PacketBuf) -> (u64, u64) {
    let options = WriteOptions { nanoseconds: true, ..WriteOptions::default() };
    // One interface for each link type, as in a file that held them.
    let mut links: Vec<_> = chunk.slots.iter().map(|slot| slot.link).collect();
    links.sort();
    links.dedup();
    let interfaces: Vec<InterfaceInfo> =
        links.iter().map(|link| InterfaceInfo { link: *link, ..InterfaceInfo::default() }).collect();
    let target = weir_capture::Target::Path(path.to_owned());
    let mut writer = PacketWriter::create(target, options, &interfaces, Time(0)).expect("a file to write");
    for mut packet in chunk.batch().packets() {
        packet.interface = links.iter().position(|link| *link == packet.link).unwrap_or_default() as u32;
        // A classic file rejects and counts a packet of another link type.
        let _ = writer.write(&packet);
    }
    let (written, closed) = writer.close();
    assert!(closed.is_ok() || written.lost > 0, "{closed:?}");
    (written.packets, written.lost)
}
