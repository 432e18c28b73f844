//! Floods: the worst case for a flow table (every packet a new flow), and the traffic of a scan.

use std::path::Path;

use clap::ValueEnum;
use weir_wire::LinkType;
use weir_wire::build::{self, packet};
use weir_wire::checksum::update;

use crate::pcap::Writer;
use crate::{Facts, Result};
use weir_bench::random::Random;

/// The addresses of a flood.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Addresses {
    /// One source, 10,000 destinations in turn, fixed ports.
    Rolling,
    /// Random source and destination addresses and source ports.
    Random,
}

/// Parameters of the flood.
pub struct Flood {
    pub packets: u64,
    pub addresses: Addresses,
    pub len: u16,
    pub rate: u64,
    pub seed: u64,
}

const DESTINATIONS: u64 = 10_000;

/// Writes a flood.
pub fn write(path: &Path, flood: &Flood) -> Result<Facts> {
    let mut out = Writer::create(path)?;
    let mut random = Random(flood.seed);
    let mut templates = templates(flood.len);
    for n in 0..flood.packets {
        let (source, destination, port) = match flood.addresses {
            Addresses::Rolling => (0x0a00_0001, 0x0a01_0000 + ((n / 2) % DESTINATIONS) as u32, 1024),
            Addresses::Random => {
                let (addresses, port) = (random.bits(), random.bits());
                (unicast(addresses as u32), unicast((addresses >> 32) as u32), (port as u16).max(1))
            }
        };
        let template = &mut templates[(n % 2) as usize];
        template.fill(source, destination, port);
        out.write(n * 1_000_000 / flood.rate, &template.frame)?;
    }
    out.finish()
}

/// Maps to 1.0.0.0 to 223.255.255.255, without 127.0.0.0/8: some programs treat addresses that are not of hosts
/// differently.
fn unicast(address: u32) -> u32 {
    let first = 1 + (address >> 24) % 223;
    let first = if first == 127 { 128 } else { first };
    first << 24 | address & 0x00ff_ffff
}

/// A frame whose addresses and source port are replaced for each packet.
struct Template {
    frame: Vec<u8>,
    /// Offset of the transport checksum.
    checksum: usize,
}

/// IPv4 header and ports in a frame without tags.
const IP_CHECKSUM: usize = 24;
const ADDRESSES: usize = 26;
const SOURCE_PORT: usize = 34;

fn templates(len: u16) -> [Template; 2] {
    let len = usize::from(len);
    let ip = || build::ethernet().ipv4([10, 0, 0, 1], [10, 1, 0, 0]);
    let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
    let udp = ip().udp(1024, 1434).payload(&payload[..len - 42]);
    let syn = ip().tcp(1024, 80, 2).payload(&payload[..len - 54]);
    [Template { frame: udp, checksum: 40 }, Template { frame: syn, checksum: 50 }]
}

impl Template {
    fn fill(&mut self, source: u32, destination: u32, port: u16) {
        let mut addresses = [0; 8];
        addresses[..4].copy_from_slice(&source.to_be_bytes());
        addresses[4..].copy_from_slice(&destination.to_be_bytes());
        replace(&mut self.frame, ADDRESSES, &addresses, &[IP_CHECKSUM, self.checksum]);
        replace(&mut self.frame, SOURCE_PORT, &port.to_be_bytes(), &[self.checksum]);
        debug_assert!(valid(&self.frame));
    }
}

/// Replaces bytes and updates the checksums that cover them.
pub fn replace(frame: &mut [u8], at: usize, new: &[u8], checksums: &[usize]) {
    for place in checksums {
        let old = u16::from_be_bytes([frame[*place], frame[place + 1]]);
        let sum = update(old, &frame[at..at + new.len()], new);
        frame[*place..place + 2].copy_from_slice(&sum.to_be_bytes());
    }
    frame[at..at + new.len()].copy_from_slice(new);
}

fn valid(frame: &[u8]) -> bool {
    let packet = packet(frame, LinkType::ETHERNET);
    let sums = weir_wire::verify(&packet, &weir_wire::decode(&packet));
    ![sums.network, sums.transport].contains(&weir_wire::Checksum::Bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_a_flood_has_the_requested_length_and_valid_checksums() {
        let mut random = Random(7);
        for len in [60, 64, 1514] {
            for mut template in templates(len) {
                for _ in 0..1000 {
                    let addresses = random.bits();
                    template.fill(addresses as u32, (addresses >> 32) as u32, random.bits() as u16);
                    assert_eq!(template.frame.len(), usize::from(len));
                    assert!(valid(&template.frame), "{:02x?}", template.frame);
                }
            }
        }
    }

    #[test]
    fn random_addresses_are_host_addresses() {
        for first in 0..=255_u32 {
            let first = unicast(first << 24 | 0x1234) >> 24;
            assert!((1..224).contains(&first) && first != 127, "{first}");
        }
    }
}
