//! Assignment of packets to workers.

use crate::key::final_destination;
use crate::{Layers, Network, Packet};

/// 2^32 divided by the golden ratio, odd: Knuth's multiplier.
pub const STEER_MULTIPLIER: u32 = 0x9e37_79b1;

/// An 11-bit hash of the outermost pair of IP addresses, equal for both directions; 0 for packets other than IP. A
/// packet goes to worker `steer_hash % workers`.
///
/// It is a function of the addresses of [`crate::FlowKey`], so that all packets of a flow go to one worker. Its 2,048
/// values are eight for each of 256 workers, and fit into the key of a flow in tunnels ([`crate::Space`]).
///
/// The hash depends on addresses only, so that the fragments of a datagram, the packets inside a tunnel and related
/// connections (FTP, SIP) go to one worker. The kernel can compute it in a classic BPF program (PACKET_FANOUT_CBPF,
/// ten instructions for IPv4): all 32-bit words of both addresses, in network byte order, are combined by exclusive or
/// into `x`, and then
///
/// ```text
/// x = x ^ (x >> 16)
/// x = x * 0x9e3779b1        modulo 2^32
/// return x >> 21
/// ```
///
/// The destination of a source-routed IPv6 packet is the final one. The kernel's program does not look for it: on a
/// live link the two directions of such a flow may be at two workers.
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
    let x = if layers.source_routed { source_routed(packet, layers).unwrap_or(x) } else { x };
    (x ^ (x >> 16)).wrapping_mul(STEER_MULTIPLIER) >> 21
}

/// Source and final destination, combined by exclusive or.
#[cold]
fn source_routed(packet: &Packet<'_>, layers: &Layers) -> Option<u32> {
    let source = packet.data.get(layers.network as usize + 8..)?.first_chunk::<16>()?;
    let last = final_destination(packet.data, layers)?;
    let ((source, _), (last, _)) = (source.as_chunks::<4>(), last.as_chunks::<4>());
    Some(source.iter().chain(last).fold(0, |x, word| x ^ u32::from_be_bytes(*word)))
}
