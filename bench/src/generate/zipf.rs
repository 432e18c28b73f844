//! A link of small packets: flows by Zipf's law, most of them established TCP connections.

use std::path::Path;

use weir_bench::random::Random;
use weir_bench::traffic::{FLOWS, Flow, Pool, Shape, frame};
use weir_wire::build::flags::{ACK, FIN, PSH, SYN};
use weir_wire::build::packet;
use weir_wire::{LinkType, checksum, decode};

use crate::pcap::Writer;
use crate::{Facts, Result};

/// Parameters of the traffic.
pub struct Zipf {
    pub packets: u64,
    pub len: u16,
    pub rate: u64,
    pub resent: f64,
    pub seed: u64,
}

/// Minimum and maximum number of packets of a connection.
const MIN_LENGTH: f64 = 10.0;
const MAX_LENGTH: f64 = 10_000.0;

/// Writes the traffic. A TCP flow is a series of connections: a handshake, segments of either side in order, each of
/// which acknowledges all earlier ones (a third of them have no payload), and the FINs of both. There are many short
/// connections and few long ones: half as many have 20 packets or more as have 10 or more, and so on, with 80 packets
/// on average.
///
/// `resent` is the share of segments that are replaced by a retransmitted SYN or SYN-ACK. Links have fewer of them. Packets
/// out of order cost a flow table more time.
pub fn write(path: &Path, zipf: &Zipf) -> Result<Facts> {
    let mut random = Random(zipf.seed);
    let pool = Pool::new(&mut random);
    let mut connections = vec![Connection::default(); FLOWS];
    let mut out = Writer::create(path)?;
    let mut bytes = Vec::new();
    for n in 0..zipf.packets {
        let rank = random.rank(FLOWS);
        let (flow, connection) = (&pool.flows[rank], &mut connections[rank]);
        let shape = connection.packet(flow, zipf, &mut random);
        frame(flow, &shape, usize::MAX, &mut bytes);
        let layers = decode(&packet(&bytes, LinkType::ETHERNET));
        checksum::fill(&mut bytes, &layers);
        out.write(n * 1_000_000 / zipf.rate, &bytes)?;
    }
    let sessions = connections.iter().filter(|connection| connection.sent > 0).count() as u64;
    Ok(Facts { sessions: Some(sessions), ..out.finish()? })
}

/// An open connection.
#[derive(Clone, Debug, Default)]
struct Connection {
    /// Number of packets written, and in total.
    sent: u64,
    total: u64,
    /// Initial sequence numbers of client and server, and the next sequence number of each.
    first: [u32; 2],
    next: [u32; 2],
}

impl Connection {
    /// The next packet; after the last one, the first packet of another connection.
    fn packet(&mut self, flow: &Flow, zipf: &Zipf, random: &mut Random) -> Shape {
        if self.sent == self.total {
            self.first = [random.bits() as u32, random.bits() as u32];
            self.next = self.first;
            self.total = (MIN_LENGTH / random.unit()).min(MAX_LENGTH) as u64;
            self.sent = 0;
        }
        self.sent += 1;
        let left = self.total - self.sent;
        let (flags, reverse) = match (self.sent, left) {
            (1, _) => (SYN, false),
            (2, _) => (SYN | ACK, true),
            (3, _) | (_, 0) => (ACK, false),
            (_, 1) => (FIN | ACK, true),
            (_, 2) => (FIN | ACK, false),
            _ if random.chance(zipf.resent) => return self.again(zipf, random.chance(0.5)),
            _ if random.below(3) == 0 => (ACK, random.chance(0.5)),
            _ => (PSH | ACK, random.chance(0.5)),
        };
        let (me, you) = if reverse { (1, 0) } else { (0, 1) };
        let ack = if flags & ACK == 0 { 0 } else { self.next[you] };
        let is_empty = flow.is_tcp() && flags & PSH == 0;
        let shape =
            Shape { reverse, flags, seq: self.next[me], ack, len: zipf.len, is_empty, ..Shape::default() };
        let headers = if flow.v6 { 74 } else { 54 };
        let carried = if is_empty { 0 } else { zipf.len.saturating_sub(headers) };
        let taken = u32::from(flags & (SYN | FIN) != 0) + u32::from(carried);
        self.next[me] = self.next[me].wrapping_add(taken);
        shape
    }

    /// The SYN, or the SYN-ACK.
    fn again(&self, zipf: &Zipf, reverse: bool) -> Shape {
        let [client, server] = self.first;
        let (flags, seq, ack) =
            if reverse { (SYN | ACK, server, client.wrapping_add(1)) } else { (SYN, client, 0) };
        Shape { reverse, flags, seq, ack, len: zipf.len, is_empty: true, ..Shape::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use weir_capture::{Files, Input, ReadOptions};
    use weir_wire::{Checksum, FlowKey, Layers, Packet, PacketBuf, verify};

    fn each(zipf: &Zipf, name: &str, mut see: impl FnMut(&Packet<'_>, &Layers)) -> Facts {
        let path = std::env::temp_dir().join(format!("weir-zipf-{}-{name}.pcap", std::process::id()));
        let facts = write(&path, zipf).unwrap();
        let mut files = Files::open(&[Input::Path(path.clone())], &ReadOptions::default()).unwrap();
        let mut chunk = PacketBuf::default();
        while files.fill(&mut chunk).unwrap() {
            chunk.batch().packets().for_each(|packet| see(&packet, &decode(&packet)));
        }
        std::fs::remove_file(path).unwrap();
        facts
    }

    const ASKED: Zipf = Zipf { packets: 100_000, len: 64, rate: 1_000_000, resent: 0.0, seed: 5 };

    #[test]
    fn packets_are_valid_small_and_in_order() {
        let (mut packets, mut last, mut syns, mut fins) = (0, 0, 0, 0);
        let facts = each(&ASKED, "valid", |packet, layers| {
            let sums = verify(packet, layers);
            assert_eq!(layers.error, None);
            assert!(sums.network != Checksum::Bad && sums.transport != Checksum::Bad, "packet {packets}");
            assert!(packet.time.0 >= last && (64..=74).contains(&packet.wire_len));
            last = packet.time.0;
            packets += 1;
            syns += u64::from(layers.tcp_flags & SYN != 0);
            fins += u64::from(layers.tcp_flags & FIN != 0);
        });
        assert_eq!((packets, facts.packets), (100_000, 100_000));
        assert!(
            (packets / 50..packets / 3).contains(&syns) && fins > packets / 200,
            "{syns} SYN, {fins} FIN"
        );
        assert!(facts.sessions.is_some_and(|flows| flows > 1000 && flows < packets));
    }

    #[test]
    fn segments_are_in_order() {
        let mut next: HashMap<(FlowKey, bool), u32> = HashMap::new();
        let mut segments = 0;
        each(&ASKED, "order", |packet, layers| {
            if layers.ip_proto != 6 {
                return;
            }
            let (key, is_lower) = FlowKey::of(packet, layers).unwrap();
            let number = |at: u32| {
                let at = (layers.transport + at) as usize;
                u32::from_be_bytes(packet.data[at..at + 4].try_into().unwrap())
            };
            let (seq, ack) = (number(4), number(8));
            if layers.tcp_flags & ACK != 0 {
                assert_eq!(next.get(&(key, !is_lower)), Some(&ack));
            }
            if layers.tcp_flags & SYN == 0 {
                assert_eq!(next.get(&(key, is_lower)), Some(&seq));
            }
            let taken = layers.payload_len + u32::from(layers.tcp_flags & (SYN | FIN) != 0);
            next.insert((key, is_lower), seq.wrapping_add(taken));
            segments += 1;
        });
        assert!(segments > 70_000, "{segments}");
    }

    #[test]
    fn the_requested_share_is_retransmitted() {
        let syns = |resent: f64, name: &str| {
            let mut syns = 0;
            each(&Zipf { resent, ..ASKED }, name, |_, layers| syns += u64::from(layers.tcp_flags & SYN != 0));
            syns
        };
        let (few, many) = (syns(0.0, "once"), syns(0.2, "again"));
        assert!((5_000..20_000).contains(&(many - few)), "{few}, then {many}");
    }
}
