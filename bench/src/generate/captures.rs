//! A diverse mix: every capture of some folders, laid over each other many times, each copy with different addresses.
//!
//! Sessions of a provider's link are a few protocols in large packets. This mix has hundreds of protocols, tunnels,
//! malformed headers and attacks, in packets half as large.

use std::fs;
use std::path::{Path, PathBuf};

use weir_capture::{Files, Input, ReadOptions};
use weir_wire::build::packet;
use weir_wire::{Layers, LinkType, Network, PacketBuf, decode};

use crate::flood::replace;
use crate::pcap::Writer;
use crate::{Facts, Result};
use weir_bench::random::Random;

/// Parameters of the mix.
pub struct Captures {
    pub folders: Vec<PathBuf>,
    pub seconds: f64,
    pub copies: u32,
    pub seed: u64,
}

/// Maximum silence in a capture in microseconds: longer gaps are shortened.
const MAX_GAP: u64 = 1_000_000;
/// Maximum length of a frame in bytes: larger ones than a link carries come from receive offload; every peer accepts
/// these.
const MAX_FRAME: usize = 65_535;

/// Packets of a capture with the microseconds since its beginning.
type Capture = Vec<(u64, Vec<u8>)>;

/// Writes a mix.
pub fn write(path: &Path, mix: &Captures) -> Result<Facts> {
    let mut paths = Vec::new();
    for folder in &mix.folders {
        find(folder, &mut paths).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    paths.sort();
    let captures: Vec<Capture> = paths.iter().map(|path| load(path)).filter(|c| !c.is_empty()).collect();
    let end = (mix.seconds * 1e6) as u64;
    let mut random = Random(mix.seed);
    // Time, copy, capture, packet: unique, so that the order is determined by the seed.
    let mut order: Vec<(u64, u32, u32, u32)> = Vec::new();
    for copy in 0..mix.copies {
        for (at, capture) in captures.iter().enumerate() {
            let start = random.bits() % (end * 9 / 10).max(1);
            let length = capture.last().map_or(0, |(time, _)| *time).max(1);
            // Packets that would exceed the end come faster.
            let room = (end - start).min(length);
            for (number, (time, _)) in capture.iter().enumerate() {
                let time = start + (u128::from(*time) * u128::from(room) / u128::from(length)) as u64;
                order.push((time, copy, at as u32, number as u32));
            }
        }
    }
    order.sort_unstable();
    let mut out = Writer::create(path)?;
    let mut frame = Vec::new();
    for (time, copy, at, number) in order {
        frame.clear();
        frame.extend_from_slice(&captures[at as usize][number as usize].1);
        readdress(&mut frame, copy.wrapping_mul(0x9e37_79b1));
        out.write(time, &frame)?;
    }
    out.finish()
}

fn find(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, paths)?;
        } else if path
            .extension()
            .is_some_and(|end| ["pcap", "pcapng", "cap", "trace"].iter().any(|e| end == *e))
        {
            paths.push(path);
        }
    }
    Ok(())
}

/// The Ethernet frames of a capture, as far as it can be read.
fn load(path: &Path) -> Capture {
    let mut capture = Capture::new();
    let Ok(mut files) = Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default()) else {
        return capture;
    };
    let mut chunk = PacketBuf::default();
    let (mut now, mut last) = (0, None);
    while files.fill(&mut chunk).unwrap_or(false) {
        for packet in chunk.batch().packets() {
            let len = packet.data.len();
            if packet.link == LinkType::ETHERNET && (14..=MAX_FRAME).contains(&len) {
                let time = packet.time.0 / 1000;
                now += time.saturating_sub(*last.get_or_insert(time)).min(MAX_GAP);
                last = Some(time);
                capture.push((now, packet.data.to_vec()));
            }
        }
    }
    capture
}

/// Moves the outermost IP addresses of hosts to another network by `key`; 0 keeps them. Correct checksums stay
/// correct.
fn readdress(frame: &mut [u8], key: u32) {
    let layers = decode(&packet(frame, LinkType::ETHERNET));
    let network = layers.network as usize;
    let addresses = match layers.network_kind {
        Network::Ipv4 => [(network + 12, 4), (network + 16, 4)],
        Network::Ipv6 => [(network + 8, 16), (network + 24, 16)],
        _ => return,
    };
    let places = checksums(frame, &layers);
    let covering: Vec<usize> = places.into_iter().flatten().collect();
    for (at, len) in addresses {
        let Some(address) = frame.get(at..at + len) else { return };
        if matches!(address[0], 0 | 127 | 224..) {
            continue;
        }
        // The first byte is kept, and of IPv6 the prefix up to the interface identifier.
        let mut new = address.to_vec();
        let tail = new.len() - 3;
        for (byte, change) in new[tail..].iter_mut().zip(key.to_be_bytes()) {
            *byte ^= change;
        }
        replace(frame, at, &new, &covering);
    }
}

/// Offsets of the checksums that cover the addresses.
fn checksums(frame: &[u8], layers: &Layers) -> [Option<usize>; 2] {
    let network = (layers.network_kind == Network::Ipv4).then_some(layers.network as usize + 10);
    let transport = layers.transport as usize;
    let place = match layers.ip_proto {
        6 => transport + 16,
        17 => transport + 6,
        58 => transport + 2,
        _ => return [network, None],
    };
    let there = layers.has_transport() && frame.get(place..place + 2).is_some_and(|sum| sum != [0, 0]);
    [network, there.then_some(place)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::build::ethernet;
    use weir_wire::{Checksum, addresses, verify};

    #[test]
    fn readdressed_packets_have_correct_checksums() {
        let (a, b) = ([0x20; 16], [0x21; 16]);
        let frames = [
            ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2, 2).payload(b"x"),
            ethernet().vlan(7).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).payload(b"xy"),
            ethernet().ipv6(a, b).udp(1, 2).payload(b"xyz"),
            ethernet().ipv6(a, b).icmp(128, 0, [0; 4]).payload(b"x"),
        ];
        for mut frame in frames {
            let before = frame.clone();
            readdress(&mut frame, 0x0012_3456);
            let (old, new) = (packet(&before, LinkType::ETHERNET), packet(&frame, LinkType::ETHERNET));
            let layers = decode(&new);
            assert_ne!(addresses(&old, &layers), addresses(&new, &layers));
            let sums = verify(&new, &layers);
            assert!(sums.network != Checksum::Bad && sums.transport == Checksum::Good, "{layers:?}");
        }
    }

    #[test]
    fn multicast_and_truncated_headers_are_kept() {
        let frame = ethernet().ipv4([0, 0, 0, 0], [224, 0, 0, 1]).udp(1, 2).payload(b"x");
        for len in 0..frame.len() {
            let mut cut = frame[..len].to_vec();
            readdress(&mut cut, 0xffff_ffff);
            assert_eq!(cut, &frame[..len]);
        }
    }
}
