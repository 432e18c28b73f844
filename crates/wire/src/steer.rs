//! Assignment of packets to workers.

use crate::{Layers, Network, Packet};

/// 2^32 divided by the golden ratio, odd: Knuth's multiplier.
pub const STEER_MULTIPLIER: u32 = 0x9e37_79b1;

/// A 16-bit hash of the outermost pair of IP addresses, equal for both directions; 0 for packets other than IP. A
/// packet goes to worker `steer_hash % workers`.
///
/// The hash depends on addresses only, so that the fragments of a datagram, the packets inside a tunnel and related
/// connections (FTP, SIP) go to one worker. The kernel can compute it in a classic BPF program (PACKET_FANOUT_CBPF,
/// ten instructions for IPv4): all 32-bit words of both addresses, in network byte order, are combined by exclusive or
/// into `x`, and then
///
/// ```text
/// x = x ^ (x >> 16)
/// x = x * 0x9e3779b1        modulo 2^32
/// return x >> 16
/// ```
///
/// The hash has no key: a sender that chooses both addresses of many packets chooses their worker, as with the network
/// card's own hash.
#[inline]
pub fn steer_hash(packet: &Packet<'_>, layers: &Layers) -> u32 {
    let (offset, len) = match layers.network_kind {
        Network::Ipv4 => (12, 8),
        Network::Ipv6 => (8, 32),
        Network::None | Network::Arp => return 0,
    };
    let start = layers.network as usize + offset;
    let addresses = packet.data.get(start..start + len).unwrap_or_default();
    let (words, _) = addresses.as_chunks::<4>();
    let x = words.iter().fold(0, |x, word| x ^ u32::from_be_bytes(*word));
    (x ^ (x >> 16)).wrapping_mul(STEER_MULTIPLIER) >> 16
}
