//! From bytes to [`Layers`].
//!
//! One level of a packet runs link layer → network header → transport header. [`decode`] finds the level of the packet
//! itself; [`decapsulate`] finds the level of the packet inside a tunnel, and can be applied again. Tags, labels and
//! inner frames that only lead to the network header (VLAN, MPLS, PPPoE, PBB, FabricPath) belong to the level. A
//! header over IP that carries a whole packet is a tunnel.

mod ends;
mod ether;
mod frame;
mod link;
mod media;
mod network;
mod prefix;
mod transport;
mod tunnel;
mod wifi;

use crate::{Batch, DecodeError, ErrorKind, Layer, Layers, LinkType, Network, Packet, Tunnel, steer_hash};
use frame::Frame;
use tunnel::Start;

pub use ends::{LinkEnds, Mac, WifiKind, link_ends};
pub use tunnel::tunnel_network;

/// Tags, labels and frames in frames of one level that are followed before [`ErrorKind::TooDeep`]. Real traffic has
/// up to 4; more is an attempt to hide or to slow.
pub const MAX_HEADERS: u8 = 16;

/// Extension headers of one IP header that are followed before [`ErrorKind::TooDeep`]. Each has 8 bytes or more, so
/// that no frame of ordinary size can hide a transport header after them.
const MAX_EXTENSIONS: u32 = 256;

/// Tunnels within tunnels that [`innermost`] follows.
pub const MAX_TUNNELS: usize = 8;

/// Finds the layers of a packet. Never fails: what is wrong is in [`Layers::error`].
#[inline]
pub fn decode(packet: &Packet<'_>) -> Layers {
    let mut layers = Layers::default();
    if !common(packet.data, packet.wire_len, packet.link, &mut layers) {
        find(packet, &mut layers);
    }
    layers
}

/// Finds the layers of every packet of a batch, in order. The previous content of `layers` is discarded. Gives the
/// results of [`decode`] for each packet, in less time.
pub fn decode_batch(batch: Batch<'_>, layers: &mut Vec<Layers>) {
    layers.resize(batch.len(), Layers::default());
    for (slot, layers) in batch.slots.iter().zip(layers) {
        if !common(batch.data(slot), slot.wire_len, slot.link, layers) {
            *layers = Layers::default();
            find(&batch.packet(slot), layers);
        }
    }
}

/// Decodes the most common form of packet, see [`Layers::common`]. Returns `false` and writes nothing if the packet
/// has another form. It takes the parts of a [`Packet`], so that none is made for a common one.
#[inline(always)]
fn common(data: &[u8], wire_len: u32, link: LinkType, layers: &mut Layers) -> bool {
    const NETWORK: u32 = 14;
    const TRANSPORT: u32 = 34;
    let Some(head) = data.first_chunk::<54>() else { return false };
    let two = |high, low| u16::from_be_bytes([high, low]);
    // Two words: from EtherType, version and length of the header to the identification; fragment, TTL and protocol.
    let first =
        u64::from_be_bytes([head[12], head[13], head[14], head[15], head[16], head[17], head[18], head[19]]);
    let second = u32::from_be_bytes([head[20], head[21], head[22], head[23]]);
    let total = u32::from((first >> 16) as u16);
    let (src, dst, protocol) = (two(head[34], head[35]), two(head[36], head[37]), second as u8);
    let is_common = link == LinkType::ETHERNET
        && (first >> 40 ^ 0x0008_0045) | u64::from(second & 0x3fff_0000) == 0
        && (wire_len as usize).max(data.len()) >= (NETWORK + total) as usize;
    if !is_common {
        return false;
    }
    let (header, payload, flags) = match protocol {
        6 => {
            let header = u32::from(head[46] >> 4) * 4;
            if header < 20 || 20 + header > total {
                return false;
            }
            (header, total - 20 - header, head[47])
        }
        17 => {
            let claimed = u32::from(two(head[38], head[39]));
            if total < 28 || claimed < 8 || tunnel::is_port(src) || tunnel::is_port(dst) {
                return false;
            }
            let len = (total - 28).min(claimed - 8);
            let first = [head[42], head[43], head[44], head[45], head[46], head[47], head[48], head[49]];
            if tunnel::fits_anywhere(&first, len) {
                return false;
            }
            (8, len, 0)
        }
        _ => return false,
    };
    *layers = Layers {
        network: NETWORK,
        network_len: total,
        transport: TRANSPORT,
        payload: TRANSPORT + header,
        payload_len: payload,
        ether_type: 0x0800,
        ports: [src, dst],
        network_kind: Network::Ipv4,
        ip_proto: protocol,
        ttl: (second >> 8) as u8,
        tcp_flags: flags,
        common: true,
        ..Layers::default()
    };
    true
}

/// Finds the layers of any packet. Writes into the caller's value: copying a value right after its fields were stored
/// one by one would cost as much as the decoding.
fn find(packet: &Packet<'_>, layers: &mut Layers) {
    let frame = Frame::new(packet.data, packet.wire_len);
    let result = if packet.link == LinkType::ETHERNET {
        ether::ethernet(frame, 0, layers)
    } else {
        link::link(frame, packet.link, layers)
    };
    if let Err(error) = result {
        layers.error = Some(error);
    }
}

/// The layers of the packet that a tunnel carries, or `None` if `layers` is not a tunnel. Apply it again for a tunnel
/// in a tunnel. Offsets remain offsets into the same [`Packet::data`]. [`Layers::link`] is the start of the carried
/// packet. No layer extends beyond the length that the outer level claims to carry.
pub fn decapsulate(packet: &Packet<'_>, layers: &Layers) -> Option<Layers> {
    if layers.tunnel == Tunnel::None {
        return None;
    }
    let outer =
        Frame::new(packet.data, packet.wire_len).limit(layers.payload.saturating_add(layers.payload_len));
    let carried = tunnel::carried(outer, layers).ok()??;
    let (frame, at) = (outer.limit(carried.end), carried.at);
    // A tunnel in a tunnel is in the outermost one.
    let within = if layers.within == 0 { steer_hash(packet, layers) as u16 + 1 } else { layers.within };
    let mut inner = Layers { link: at, within, ..Layers::default() };
    let result = match carried.start {
        Start::Ethernet => ether::ethernet(frame, at, &mut inner),
        Start::EtherType(kind) => ether::ether_type(frame, kind, at, &mut inner),
        Start::Ppp => link::ppp(frame, at, &mut inner),
        Start::Wifi => wifi::ieee802_11(frame, at, false, &mut inner),
        Start::SwappedWifi => wifi::swapped(frame, at, &mut inner),
    };
    if let Err(error) = result {
        inner.error = Some(error);
    }
    Some(inner)
}

/// The frames that an IEEE 802.11 frame carries after the first one (A-MSDU), each as a packet of Ethernet; none for
/// other packets. [`decode`] finds the first one.
pub fn further_frames<'a>(packet: &Packet<'a>) -> impl Iterator<Item = Packet<'a>> + use<'a> {
    let is_wifi = matches!(packet.link, LinkType::IEEE802_11 | LinkType::IEEE802_11_RADIOTAP);
    let frame = is_wifi.then(|| Frame::new(packet.data, packet.wire_len));
    let packet = *packet;
    let has_radiotap = packet.link == LinkType::IEEE802_11_RADIOTAP;
    let frames = frame.into_iter().flat_map(move |frame| wifi::further(frame, has_radiotap));
    frames.map(move |(start, end)| Packet {
        data: packet.data.get(start as usize..(end as usize).min(packet.data.len())).unwrap_or_default(),
        wire_len: end - start,
        link: LinkType::ETHERNET,
        ..packet
    })
}

/// The layers of the innermost packet, at most [`MAX_TUNNELS`] levels deep; `layers` itself if the packet is no
/// tunnel.
pub fn innermost(packet: &Packet<'_>, layers: &Layers) -> Layers {
    levels(packet, layers).last().unwrap_or(*layers)
}

/// The layers of each level of a packet, from its own to those of the innermost packet, at most [`MAX_TUNNELS`] levels deeper.
pub fn levels(packet: &Packet<'_>, layers: &Layers) -> impl Iterator<Item = Layers> {
    std::iter::successors(Some(*layers), |level| decapsulate(packet, level)).take(MAX_TUNNELS + 1)
}

#[cold]
const fn truncated(layer: Layer) -> DecodeError {
    DecodeError { layer, kind: ErrorKind::Truncated }
}

#[cold]
const fn malformed(layer: Layer) -> DecodeError {
    DecodeError { layer, kind: ErrorKind::Malformed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PacketBuf;
    use crate::build::{self, flags, packet};

    /// Decodes common packets with every value of every header byte and with every length. The results are equal in a
    /// batch, alone, and by the general way.
    #[test]
    fn decode_batch_equals_decode_of_each_packet() {
        let ip = || build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
        let tcp = ip().tcp(4000, 80, flags::ACK).payload(&[7; 30]);
        let udp = ip().udp(4000, 53).payload(&[7; 30]);
        let mut common_ones = 0;
        let mut check = |data: &[u8], wire_len: usize, link: LinkType| {
            let packet = Packet { wire_len: wire_len as u32, ..packet(data, link) };
            let mut chunk = PacketBuf::default();
            chunk.push(&packet);
            let mut layers = vec![Layers { ttl: 9, ..Layers::default() }; 3];
            decode_batch(chunk.batch(), &mut layers);
            assert_eq!(layers, [decode(&packet)], "{data:02x?} {wire_len}");
            let mut found = Layers::default();
            find(&packet, &mut found);
            let common = layers[0].common;
            common_ones += usize::from(common);
            assert!(!common || found.may_be_plain_ip(link) && found.may_have_transport());
            assert_eq!(layers, [Layers { common, ..found }], "{data:02x?} {wire_len}");
        };
        for frame in [&tcp, &udp] {
            for len in 0..=frame.len() {
                check(&frame[..len], frame.len(), LinkType::ETHERNET);
                check(&frame[..len], len, LinkType::ETHERNET);
            }
            check(frame, frame.len(), LinkType::RAW);
            check(frame, 20, LinkType::ETHERNET);
            for at in 12..54 {
                for value in 0..=255 {
                    let mut other = frame.clone();
                    other[at] = value;
                    check(&other, frame.len(), LinkType::ETHERNET);
                    check(&other, 70_000, LinkType::ETHERNET);
                    check(&other[..60], frame.len(), LinkType::ETHERNET);
                }
            }
        }
        assert!(common_ones > 30_000, "{common_ones}");
    }
}
