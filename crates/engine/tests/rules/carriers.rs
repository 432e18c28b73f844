//! The ways in which packets and their payload are carried.

use crate::run::Frame;
use weir_wire::LinkType;
use weir_wire::build::{self, Builder, flags};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];
const CLIENT_6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const SERVER_6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const ENDS: [[u8; 4]; 2] = [[172, 16, 0, 1], [172, 16, 0, 2]];

/// A segment of TCP or a datagram of UDP of a flow between two hosts.
#[derive(Clone)]
pub struct Sent {
    pub is_tcp: bool,
    pub is_client: bool,
    /// The ports of the client and of the server.
    pub ports: (u16, u16),
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub payload: Vec<u8>,
}

impl Sent {
    /// Adds its header and payload after those of IP.
    fn after(&self, ip: Builder) -> Vec<u8> {
        let (from, to) = if self.is_client { self.ports } else { (self.ports.1, self.ports.0) };
        let builder = match self.is_tcp {
            true => ip.tcp(from, to, self.flags).seq(self.seq).ack(self.ack),
            false => ip.udp(from, to),
        };
        builder.payload(&self.payload)
    }

    fn four(&self, outer: Builder) -> Vec<u8> {
        let (from, to) = if self.is_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        self.after(outer.ipv4(from, to))
    }

    fn six(&self, outer: Builder) -> Vec<u8> {
        let (from, to) = if self.is_client { (CLIENT_6, SERVER_6) } else { (SERVER_6, CLIENT_6) };
        self.after(outer.ipv6(from, to))
    }

    fn proto(&self) -> u8 {
        if self.is_tcp { 6 } else { 17 }
    }

    /// Fragments of IPv4 of at most 24 bytes.
    fn fragments(&self, id: u16, outer: impl Fn() -> Builder) -> Vec<Vec<u8>> {
        let whole = self.four(build::ip());
        let (from, to) = if self.is_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let rest = &whole[20..];
        let piece = |(at, piece): (usize, &[u8])| {
            let offset = at * 24;
            let ip = outer().ipv4(from, to).proto(self.proto());
            ip.fragment(id, offset as u16, offset + piece.len() < rest.len()).raw(piece).payload(b"")
        };
        rest.chunks(24).enumerate().map(piece).collect()
    }

    /// Fragments of IPv6 of at most 24 bytes (RFC 8200 4.5).
    fn fragments_6(&self, id: u16) -> Vec<Vec<u8>> {
        let whole = self.six(build::ip());
        let (from, to) = if self.is_client { (CLIENT_6, SERVER_6) } else { (SERVER_6, CLIENT_6) };
        let rest = &whole[40..];
        let piece = |(at, piece): (usize, &[u8])| {
            let offset = at * 24;
            let field = (offset as u16 | u16::from(offset + piece.len() < rest.len())).to_be_bytes();
            let id = id.to_be_bytes();
            let header = [self.proto(), 0, field[0], field[1], 0, 0, id[0], id[1]];
            build::ip().ipv6(from, to).proto(44).raw(&header).payload(piece)
        };
        rest.chunks(24).enumerate().map(piece).collect()
    }
}

/// Headers before a packet, its division into fragments, or both. The number is one for the packet.
pub type Carrier = fn(&Sent, u16) -> (LinkType, Vec<Vec<u8>>);

fn vxlan() -> Builder {
    build::ip().ipv4(ENDS[0], ENDS[1]).udp(50_000, 4789).raw(&[8, 0, 0, 0, 0, 0, 7, 0]).frame()
}

/// IPv4 alone comes first.
pub const CARRIERS: [(&str, Carrier); 15] = [
    ("IPv4", |sent, _| (LinkType::RAW, vec![sent.four(build::ip())])),
    ("IPv6", |sent, _| (LinkType::RAW, vec![sent.six(build::ip())])),
    ("IPv6 with options", |sent, _| {
        let options = [0, 1, 4, 0, 0, 0, 0];
        let (from, to) = if sent.is_client { (CLIENT_6, SERVER_6) } else { (SERVER_6, CLIENT_6) };
        (LinkType::RAW, vec![sent.after(build::ip().ipv6(from, to).extension(60, &options))])
    }),
    ("Ethernet", |sent, _| (LinkType::ETHERNET, vec![sent.four(build::ethernet())])),
    ("two VLANs", |sent, _| (LinkType::ETHERNET, vec![sent.four(build::ethernet().tag(0x88a8, 5).vlan(6))])),
    ("MPLS", |sent, _| (LinkType::ETHERNET, vec![sent.four(build::ethernet().mpls(7).mpls(8))])),
    ("PPPoE", |sent, _| (LinkType::ETHERNET, vec![sent.six(build::ethernet().pppoe(9))])),
    ("IPv4 in IPv4", |sent, _| (LinkType::RAW, vec![sent.four(build::ip().ipv4(ENDS[0], ENDS[1]))])),
    ("IPv6 in IPv4", |sent, _| (LinkType::RAW, vec![sent.six(build::ip().ipv4(ENDS[0], ENDS[1]))])),
    ("IPv4 in IPv6", |sent, _| (LinkType::RAW, vec![sent.four(build::ip().ipv6([1; 16], [2; 16]))])),
    ("GRE", |sent, _| (LinkType::RAW, vec![sent.four(build::ip().ipv4(ENDS[0], ENDS[1]).gre())])),
    ("VXLAN", |sent, _| (LinkType::RAW, vec![sent.four(vxlan())])),
    ("fragments", |sent, id| (LinkType::RAW, sent.fragments(id, build::ip))),
    ("fragments, the last one first, in GRE", |sent, id| {
        let gre = || build::ip().ipv4(ENDS[0], ENDS[1]).gre();
        (LinkType::RAW, sent.fragments(id, gre).into_iter().rev().collect())
    }),
    ("fragments of IPv6", |sent, id| (LinkType::RAW, sent.fragments_6(id))),
];

/// What a side sends of a stream: parts of its bytes in the order in which they are sent.
pub type Segments = Vec<(usize, usize)>;

/// Divides this number of bytes.
pub type Way = fn(usize) -> Segments;

/// All in one segment.
pub fn whole(length: usize) -> Segments {
    vec![(0, length)]
}

/// Two segments.
pub fn cut_at(cut: usize, length: usize) -> Segments {
    let cut = cut.min(length);
    vec![(0, cut), (cut, length)]
}

/// Segments of this size, the last one shorter.
pub fn pieces(size: usize, length: usize) -> Segments {
    (0..length).step_by(size).map(|at| (at, length.min(at + size))).collect()
}

/// The orders, repetitions and overlaps of segments.
pub const WAYS: [(&str, Way); 7] = [
    ("single bytes", |length| pieces(1, length)),
    ("pieces of seven bytes", |length| pieces(7, length)),
    ("the last one first", |length| pieces(11, length).into_iter().rev().collect()),
    ("pairs in the other order", |length| {
        pieces(5, length).chunks(2).flat_map(|pair| pair.iter().rev().copied()).collect()
    }),
    ("each twice", |length| pieces(9, length).into_iter().flat_map(|piece| [piece, piece]).collect()),
    ("overlaps", |length| {
        pieces(4, length).into_iter().map(|(from, to)| (from.saturating_sub(6), length.min(to + 3))).collect()
    }),
    ("the whole after its parts", |length| {
        let mut all: Segments = pieces(13, length).into_iter().step_by(2).collect();
        all.push((0, length));
        all
    }),
];

/// A flow of TCP or UDP: its port at the client tells it from others.
pub struct Flow<'a> {
    pub is_tcp: bool,
    pub ports: (u16, u16),
    /// What the sides send in turn: whether it is the client, and the bytes.
    pub turns: &'a [(bool, &'a [u8])],
}

impl Flow<'_> {
    /// The frames of the flow. `segments` divides the bytes of a turn over TCP.
    pub fn frames(&self, carrier: Carrier, segments: &dyn Fn(usize) -> Segments) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut send = |sent: Sent| {
            let id = frames.len() as u16;
            let (link, all) = carrier(&sent, id.wrapping_add(self.ports.0.wrapping_mul(257)));
            frames.extend(all.into_iter().map(|bytes| Frame { flow: self.ports.0, link, bytes }));
        };
        // The sequence numbers pass the greatest one within the first bytes.
        let mut next = [u32::MAX - 3, 900];
        let sent = |is_client: bool, flags, [seq, ack]: [u32; 2], payload: &[u8]| Sent {
            is_tcp: self.is_tcp,
            is_client,
            ports: self.ports,
            flags,
            seq,
            ack,
            payload: payload.to_vec(),
        };
        if self.is_tcp {
            send(sent(true, flags::SYN, [next[0], 0], b""));
            next[0] = next[0].wrapping_add(1);
            send(sent(false, flags::SYN | flags::ACK, [next[1], next[0]], b""));
            next[1] += 1;
            send(sent(true, flags::ACK, next, b""));
        }
        for (is_client, bytes) in self.turns {
            let (own, other) = if *is_client { (next[0], next[1]) } else { (next[1], next[0]) };
            let parts = if self.is_tcp { segments(bytes.len()) } else { whole(bytes.len()) };
            for (from, to) in parts {
                if from < to {
                    let seq = own.wrapping_add(from as u32);
                    send(sent(*is_client, flags::ACK | flags::PSH, [seq, other], &bytes[from..to]));
                }
            }
            let side = &mut next[usize::from(!*is_client)];
            *side = side.wrapping_add(bytes.len() as u32);
        }
        frames
    }
}
