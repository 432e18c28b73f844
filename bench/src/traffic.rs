//! A link's flows by Zipf's law, floods in which every packet is a new flow, and expressions about both.
//!
//! There are few hosts, some of them popular, half of them in four networks, and most ports are those of services:
//! expressions with nets and ports match a part of the packets, as on a real link.

use crate::random::Random;
use weir_wire::build::flags::{ACK, PSH, SYN};

/// Number of flows of a [`Pool`].
pub const FLOWS: usize = 65_536;

/// IP protocol numbers of the flows.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

const HOSTS: u32 = 4096;
const SERVICES: [u16; 16] =
    [443, 80, 53, 22, 25, 123, 445, 3389, 8080, 993, 1433, 3306, 5060, 6667, 110, 143];

/// First bytes of the networks of half of the hosts.
const NETWORKS: [u32; 4] = [10, 100, 172, 192];

/// Expressions at the head of every long list.
const COMMON: [&str; 6] = ["tcp", "udp", "icmp", "port 80", "tcp and port 443", "port 53"];

/// The endpoints of a flow, the client's first.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Flow {
    /// IPv4 addresses; for an IPv6 flow, the part after its network.
    pub addresses: [u32; 2],
    /// Ports; without meaning for ICMP.
    pub ports: [u16; 2],
    /// IP protocol number.
    pub protocol: u8,
    /// Whether it is IPv6.
    pub v6: bool,
}

impl Flow {
    /// A TCP flow between random addresses and ports.
    pub fn random(random: &mut Random) -> Self {
        let (addresses, ports) = (random.bits(), random.bits());
        Self {
            addresses: [addresses as u32, (addresses >> 32) as u32],
            ports: [ports as u16, (ports >> 16) as u16],
            protocol: TCP,
            v6: false,
        }
    }

    /// Whether it is TCP.
    pub fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }
}

/// The hosts of a link and their flows, the most popular one first.
#[derive(Clone, Debug)]
pub struct Pool {
    hosts: Vec<u32>,
    /// The flows, [`FLOWS`] of them.
    pub flows: Vec<Flow>,
}

impl Pool {
    /// Generates hosts and flows.
    pub fn new(random: &mut Random) -> Self {
        let host = |n: u32, random: &mut Random| {
            let bits = random.bits() as u32;
            let network = NETWORKS[random.below(4) as usize];
            if n.is_multiple_of(2) { network << 24 | bits & 0x00ff_ffff } else { bits }
        };
        let mut pool = Self { hosts: (0..HOSTS).map(|n| host(n, random)).collect(), flows: Vec::new() };
        for _ in 0..FLOWS {
            let mut ports = [1024 + random.below(60_000) as u16, service(random)];
            if random.chance(0.5) {
                ports.swap(0, 1);
            }
            let addresses = [pool.address(random), pool.address(random)];
            let v6 = random.chance(0.05);
            let protocol = match random.unit() {
                share if share < 0.85 => TCP,
                share if share < 0.97 => UDP,
                _ if v6 => ICMPV6,
                _ => ICMP,
            };
            pool.flows.push(Flow { addresses, ports, protocol, v6 });
        }
        pool
    }

    /// The address of a popular host, or any.
    fn address(&self, random: &mut Random) -> u32 {
        let place = random.unit().powi(3) * f64::from(HOSTS);
        let host = self.hosts.get(place as usize).copied();
        if random.chance(0.7) { host.unwrap_or_default() } else { random.bits() as u32 }
    }

    /// The number of a flow, drawn by its rank.
    pub fn draw(&self, random: &mut Random) -> usize {
        random.rank(self.flows.len())
    }

    /// Pcap-filter expressions: 45 % nets and hosts, 35 % ports with or without a protocol, 15 % nets with a TCP port,
    /// the rest TCP flags with a net; from 80 on some common ones come first. One alone is `tcp port 443`.
    pub fn expressions(&self, n: usize, random: &mut Random) -> Vec<String> {
        if n == 1 {
            return vec!["tcp port 443".to_owned()];
        }
        let common = COMMON.iter().take(if n >= 80 { COMMON.len() } else { 0 });
        let mut expressions: Vec<String> = common.map(|text| (*text).to_owned()).collect();
        expressions.extend((expressions.len()..n).map(|_| self.expression(random)));
        expressions
    }

    fn expression(&self, random: &mut Random) -> String {
        match random.unit() {
            share if share < 0.45 => {
                if random.chance(0.2) {
                    return format!("host {}", dotted(self.address(random)));
                }
                let prefix = 8 + random.below(21);
                self.net(prefix, random)
            }
            share if share < 0.80 => {
                let port = if random.chance(0.3) { service(random) } else { 1 + random.below(65_535) as u16 };
                let protocol = ["", "tcp ", "udp "][random.below(3) as usize];
                format!("{protocol}port {port}")
            }
            share if share < 0.95 => {
                let prefix = 8 + random.below(17);
                format!("{} and tcp port {}", self.net(prefix, random), service(random))
            }
            _ => {
                let prefix = 8 + random.below(17);
                format!("tcp[13] & 2 != 0 and {}", self.net(prefix, random))
            }
        }
    }

    fn net(&self, prefix: u32, random: &mut Random) -> String {
        let net = self.address(random) & (u32::MAX << (32 - prefix));
        format!("net {}/{prefix}", dotted(net))
    }
}

/// A server port, the first ones often; or any below 10,001.
fn service(random: &mut Random) -> u16 {
    if random.chance(0.2) {
        return 1 + random.below(10_000) as u16;
    }
    let place = random.unit().powi(2) * SERVICES.len() as f64;
    SERVICES.get(place as usize).copied().unwrap_or_default()
}

fn dotted(address: u32) -> std::net::Ipv4Addr {
    address.into()
}

/// A packet of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Whether the server sends it.
    pub reverse: bool,
    /// TCP flags.
    pub flags: u8,
    /// TCP sequence number.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// Whether it is a later fragment (of IPv4), without a transport header.
    pub fragment: bool,
    /// Length of the frame in bytes, or of its headers if they need more.
    pub len: u16,
    /// Whether it has no payload: the rest of the frame is padding.
    pub is_empty: bool,
}

impl Shape {
    /// Any packet of established flows: half of them small, a tenth retransmitted SYNs and a tenth SYN-ACKs, one in a
    /// hundred a fragment.
    pub fn any(random: &mut Random) -> Self {
        let len = match random.unit() {
            share if share < 0.5 => 64,
            share if share < 0.8 => 1500,
            _ => 200 + random.below(1000) as u16,
        };
        let flags = match random.below(10) {
            0 => SYN,
            1 => SYN | ACK,
            2..6 => PSH | ACK,
            _ => ACK,
        };
        let reverse = if flags & SYN != 0 { flags & ACK != 0 } else { random.chance(0.5) };
        Self { reverse, flags, fragment: random.chance(0.01), len, ..Self::default() }
    }

    /// The first packet of a TCP flow, 64 bytes long.
    pub fn syn() -> Self {
        Self { flags: SYN, seq: 1, len: 64, ..Self::default() }
    }
}

/// State of the TCP streams of a pool's flows: the next sequence number of client and server. Each begins at 1, after
/// its SYN.
#[derive(Clone, Debug)]
pub struct Streams(Vec<[u32; 2]>);

impl Streams {
    /// All streams at their beginning.
    pub fn new() -> Self {
        Self(vec![[1, 1]; FLOWS])
    }

    /// Numbers the next packet of a flow, by its number in the pool: it follows the previous one; a SYN keeps its
    /// number.
    pub fn number(&mut self, at: usize, flow: &Flow, shape: &mut Shape) {
        let (side, next) = (usize::from(shape.reverse), &mut self.0[at]);
        if shape.flags & SYN != 0 {
            (shape.seq, shape.ack) = (0, u32::from(shape.flags & ACK != 0));
        } else {
            (shape.seq, shape.ack) = (next[side], next[1 - side]);
            let headers = if flow.v6 { 74 } else { 54 };
            next[side] = next[side].wrapping_add(u32::from(shape.len.saturating_sub(headers)));
        }
    }
}

impl Default for Streams {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes the first `max` bytes of a packet's Ethernet frame to the beginning of `out`, with checksums 0. Returns its
/// length on the wire in bytes.
pub fn frame(flow: &Flow, shape: &Shape, max: usize, out: &mut Vec<u8>) -> u32 {
    let (from, to) = if shape.reverse { (1, 0) } else { (0, 1) };
    let transport = match flow.protocol {
        _ if shape.fragment && !flow.v6 => 0,
        TCP => 20,
        _ => 8,
    };
    let header = if flow.v6 { 40 } else { 20 };
    let len = usize::from(shape.len).max(14 + header + transport);
    let claimed = if shape.is_empty { header + transport } else { len - 14 };
    out.clear();
    out.extend_from_slice(&[2, 0, 0, 0, 0, 2 - from as u8, 2, 0, 0, 0, 0, 2 - to as u8]);
    if flow.v6 {
        let payload = (claimed - 40) as u16;
        out.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
        out.extend_from_slice(&payload.to_be_bytes());
        out.extend_from_slice(&[flow.protocol, 64]);
        for end in [from, to] {
            out.extend_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
            out.extend_from_slice(&flow.addresses[end].to_be_bytes());
            out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1]);
        }
    } else {
        let total = claimed as u16;
        let offset: u16 = if shape.fragment { 100 } else { 0 };
        out.extend_from_slice(&[0x08, 0, 0x45, 0]);
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(&[0, 1]);
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&[64, flow.protocol, 0, 0]);
        for end in [from, to] {
            out.extend_from_slice(&flow.addresses[end].to_be_bytes());
        }
    }
    if transport > 0 {
        if matches!(flow.protocol, ICMP | ICMPV6) {
            let kinds = if flow.protocol == ICMP { [8, 0] } else { [128, 129] };
            out.extend_from_slice(&[kinds[from], 0, 0, 0, 0, 1, 0, 1]);
        } else {
            out.extend_from_slice(&flow.ports[from].to_be_bytes());
            out.extend_from_slice(&flow.ports[to].to_be_bytes());
        }
        if flow.protocol == TCP {
            out.extend_from_slice(&shape.seq.to_be_bytes());
            out.extend_from_slice(&shape.ack.to_be_bytes());
            out.extend_from_slice(&[0x50, shape.flags, 0xff, 0xff, 0, 0, 0, 0]);
        } else if flow.protocol == UDP {
            out.extend_from_slice(&((claimed - header) as u16).to_be_bytes());
            out.extend_from_slice(&[0, 0]);
        }
    }
    out.resize(len.min(max), 0);
    len as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::build::packet;
    use weir_wire::{FlowKey, Layers, LinkType, decode};

    fn layers(frame: &[u8]) -> Layers {
        decode(&packet(frame, LinkType::ETHERNET))
    }

    #[test]
    fn frames_decode_to_the_requested_fields() {
        let mut random = Random(1);
        let pool = Pool::new(&mut random);
        assert_eq!(pool.flows.len(), FLOWS);
        let mut out = Vec::new();
        for flow in pool.flows.iter().take(5000) {
            let mut keys = Vec::new();
            for reverse in [false, true] {
                let shape = Shape { reverse, flags: SYN, seq: 7, len: 64, ..Shape::default() };
                let len = frame(flow, &shape, 2000, &mut out);
                assert_eq!(len as usize, out.len());
                let layers = layers(&out);
                assert_eq!((layers.error, layers.ip_proto), (None, flow.protocol));
                assert_eq!(layers.tcp_flags & SYN != 0, flow.is_tcp());
                let expected = if reverse { [flow.ports[1], flow.ports[0]] } else { flow.ports };
                assert!(flow.protocol != UDP || layers.ports == expected);
                keys.push(FlowKey::of(&packet(&out, LinkType::ETHERNET), &layers).unwrap().0);
            }
            assert_eq!(keys[0], keys[1], "{flow:?}");
        }
    }

    #[test]
    fn traffic_has_the_documented_shares() {
        let mut random = Random(2);
        let pool = Pool::new(&mut random);
        let (mut tcp, mut v6, mut first) = (0, 0, 0);
        for _ in 0..100_000 {
            let flow = pool.flows[pool.draw(&mut random)];
            tcp += usize::from(flow.is_tcp());
            v6 += usize::from(flow.v6);
            first += usize::from(flow == pool.flows[0]);
        }
        assert!((70_000..97_000).contains(&tcp) && v6 < 20_000, "{tcp} TCP, {v6} IPv6");
        // ln 2 / ln 65,536 is a sixteenth.
        assert!((5_000..7_500).contains(&first), "{first} of the first flow");
    }

    #[test]
    fn expressions_are_of_every_kind_and_depend_on_the_seed() {
        let make = || {
            let mut random = Random(3);
            let pool = Pool::new(&mut random);
            pool.expressions(1000, &mut random)
        };
        let expressions = make();
        assert_eq!(expressions, make());
        let count = |test: &dyn Fn(&str) -> bool| expressions.iter().filter(|text| test(text)).count();
        assert!(
            (380..520).contains(&count(
                &|t| t.starts_with("net ") && !t.contains(" and ") || t.starts_with("host ")
            ))
        );
        assert!((280..420).contains(&count(&|t| t.contains("port ") && !t.contains("net "))));
        assert!((100..200).contains(&count(&|t| t.contains(" and tcp port "))));
        assert!((25..80).contains(&count(&|t| t.starts_with("tcp[13]"))));
    }
}
