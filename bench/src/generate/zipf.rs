//! A link of small packets: flows by Zipf's law, most of them TCP under way.

use std::path::Path;

use weir_bench::random::Random;
use weir_bench::traffic::{FLOWS, Pool, Shape, Streams, frame};
use weir_wire::build::flags::{ACK, FIN, PSH, SYN};
use weir_wire::build::packet;
use weir_wire::{LinkType, checksum, decode};

use crate::pcap::Writer;
use crate::{Facts, Result};

/// What to make.
pub struct Zipf {
    pub packets: u64,
    pub len: u16,
    pub rate: u64,
    pub seed: u64,
}

/// Packets of a flow: what was written, and all.
#[derive(Clone, Copy, Default)]
struct Progress {
    sent: u64,
    total: u64,
}

/// Writes the traffic. A TCP flow begins with its handshake, a tenth of the rest is SYNs and their answers sent again,
/// and its last packet is a FIN; all between carries payload or acknowledges it.
pub fn write(path: &Path, zipf: &Zipf) -> Result<Facts> {
    let mut random = Random(zipf.seed);
    let pool = Pool::new(&mut random);
    // A flow's packets are counted before they are made, by the same draws, so that it is known which is the last.
    let mut ranks = random.clone();
    let mut flows = vec![Progress::default(); FLOWS];
    for _ in 0..zipf.packets {
        flows[ranks.rank(FLOWS)].total += 1;
    }
    let (mut shapes, mut streams) = (ranks, Streams::new());
    let mut out = Writer::create(path)?;
    let mut octets = Vec::new();
    for n in 0..zipf.packets {
        let rank = random.rank(FLOWS);
        let (flow, progress) = (&pool.flows[rank], &mut flows[rank]);
        let mut shape = progress.shape(zipf.len, &mut shapes);
        streams.number(rank, flow, &mut shape);
        frame(flow, &shape, usize::MAX, &mut octets);
        let layers = decode(&packet(&octets, LinkType::ETHERNET));
        checksum::fill(&mut octets, &layers);
        out.write(n * 1_000_000 / zipf.rate, &octets)?;
    }
    let sessions = flows.iter().filter(|flow| flow.total > 0).count() as u64;
    Ok(Facts { sessions: Some(sessions), ..out.finish()? })
}

impl Progress {
    /// The next packet of the flow.
    fn shape(&mut self, len: u16, random: &mut Random) -> Shape {
        self.sent += 1;
        let (flags, reverse) = match (self.sent, random.below(20)) {
            (1, _) => (SYN, false),
            (2, _) => (SYN | ACK, true),
            (sent, _) if sent == self.total => (FIN | ACK, random.chance(0.5)),
            (_, 0) => (SYN, false),
            (_, 1) => (SYN | ACK, true),
            _ => (PSH | ACK, random.chance(0.5)),
        };
        Shape { reverse, flags, len, ..Shape::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_capture::{Files, Input, ReadOptions};
    use weir_wire::{Checksum, Chunk, verify};

    #[test]
    fn packets_are_valid_small_and_in_order() {
        let path = std::env::temp_dir().join(format!("weir-zipf-{}.pcap", std::process::id()));
        let facts = write(&path, &Zipf { packets: 20_000, len: 64, rate: 1_000_000, seed: 5 }).unwrap();
        let mut files = Files::open(&[Input::Path(path.clone())], &ReadOptions::default()).unwrap();
        let (mut chunk, mut packets, mut last, mut syns) = (Chunk::default(), 0, 0, 0);
        while files.fill(&mut chunk).unwrap() {
            for packet in chunk.batch().packets() {
                let layers = decode(&packet);
                let sums = verify(&packet, &layers);
                assert_eq!(layers.error, None);
                assert!(sums.network != Checksum::Bad && sums.transport != Checksum::Bad, "packet {packets}");
                assert!(packet.time.0 >= last && (64..=74).contains(&packet.wire_len));
                last = packet.time.0;
                packets += 1;
                syns += u64::from(layers.tcp_flags & SYN != 0);
            }
        }
        std::fs::remove_file(path).unwrap();
        assert_eq!((packets, facts.packets), (20_000, 20_000));
        assert!(syns > packets / 20, "{syns} with SYN");
        assert!(facts.sessions.is_some_and(|flows| flows > 1000 && flows < packets));
    }
}
