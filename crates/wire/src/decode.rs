//! From octets to [`Layers`].
//!
//! One level of a packet runs link layer → network header → transport header. [`decode`] finds those of the
//! packet itself; [`decapsulate`] those of the packet that a tunnel carries, and so on inward. Tags, labels and
//! frames in frames that only lead to the network header (VLAN, MPLS, PPPoE, PBB, FabricPath) are passed within
//! a level. What carries a packet of its own over IP is a tunnel.

mod ether;
mod frame;
mod link;
mod network;
mod transport;
mod tunnel;
mod wifi;

use crate::{DecodeError, ErrorKind, Layer, Layers, LinkType, Packet, Tunnel};
use frame::Frame;
use tunnel::Start;

/// Tags, labels and frames in frames of one level that are followed before [`ErrorKind::TooDeep`]. Real traffic has
/// up to 4; more is an attempt to hide or to slow.
pub const MAX_HEADERS: u8 = 16;

/// Extension headers of one IP header that are followed before [`ErrorKind::TooDeep`]. Each has 8 octets or more, so
/// that no frame of ordinary size can hide a transport header behind them.
const MAX_EXTENSIONS: u32 = 256;

/// Tunnels within tunnels that [`innermost`] follows.
pub const MAX_TUNNELS: usize = 8;

/// Finds the layers of a packet. Never fails: what is wrong is in [`Layers::error`].
#[inline]
pub fn decode(packet: &Packet<'_>) -> Layers {
    let mut layers = Layers::default();
    find(packet, &mut layers);
    layers
}

/// Writes into the caller's value: a copy of it, right after its fields were stored one by one, would cost as much
/// as finding them.
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

/// The layers of the packet that a tunnel carries, or `None` where `layers` is no tunnel. Apply it again for
/// a tunnel in a tunnel. Offsets stay offsets into the same [`Packet::data`]; [`Layers::link`] is where the
/// carried packet starts, and nothing of it reaches past what the outer level claims to carry.
pub fn decapsulate(packet: &Packet<'_>, layers: &Layers) -> Option<Layers> {
    if layers.tunnel == Tunnel::None {
        return None;
    }
    let outer =
        Frame::new(packet.data, packet.wire_len).limit(layers.payload.saturating_add(layers.payload_len));
    let carried = tunnel::carried(outer, layers).ok()??;
    let (frame, at) = (outer.limit(carried.end), carried.at);
    let mut inner = Layers { link: at, ..Layers::default() };
    let result = match carried.start {
        Start::Ethernet => ether::ethernet(frame, at, &mut inner),
        Start::EtherType(kind) => ether::ether_type(frame, kind, at, &mut inner),
        Start::Ppp => link::ppp(frame, at, &mut inner),
        Start::Wifi => wifi::ieee802_11(frame, at, false, &mut inner),
    };
    if let Err(error) = result {
        inner.error = Some(error);
    }
    Some(inner)
}

/// The layers of the innermost packet, at most [`MAX_TUNNELS`] levels in; `layers` itself where it is no tunnel.
pub fn innermost(packet: &Packet<'_>, layers: &Layers) -> Layers {
    let mut inner = *layers;
    for _ in 0..MAX_TUNNELS {
        let Some(next) = decapsulate(packet, &inner) else { break };
        inner = next;
    }
    inner
}

#[cold]
const fn truncated(layer: Layer) -> DecodeError {
    DecodeError { layer, kind: ErrorKind::Truncated }
}

#[cold]
const fn malformed(layer: Layer) -> DecodeError {
    DecodeError { layer, kind: ErrorKind::Malformed }
}
