//! From octets to [`Layers`].

use crate::{DecodeError, ErrorKind, Layer, Layers, LinkType, Network, Packet, Reader};

/// Finds the layers of a packet. Never fails: what is wrong is in [`Layers::error`].
pub fn decode(packet: &Packet<'_>) -> Layers {
    let mut layers = Layers::default();
    if let Err(error) = link(packet, &mut layers) {
        layers.error = Some(error);
    }
    layers
}

/// The layers of the packet that a tunnel carries, or `None` where `layers` is no tunnel. Apply it again for
/// a tunnel in a tunnel.
pub fn decapsulate(_packet: &Packet<'_>, _layers: &Layers) -> Option<Layers> {
    None
}

const fn error(layer: Layer, kind: ErrorKind) -> DecodeError {
    DecodeError { layer, kind }
}

fn link(packet: &Packet<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    if packet.link != LinkType::ETHERNET {
        return Err(error(Layer::Link, ErrorKind::UnknownLink));
    }
    let short = error(Layer::Link, ErrorKind::Truncated);
    let mut r = Reader::new(packet.data);
    r.take(12).ok_or(short)?;
    l.ether_type = r.u16().ok_or(short)?;
    l.network = 14;
    if l.ether_type == 0x0800 { ipv4(packet, r.rest(), l) } else { Ok(()) }
}

fn ipv4(packet: &Packet<'_>, data: &[u8], l: &mut Layers) -> Result<(), DecodeError> {
    let short = error(Layer::Network, ErrorKind::Truncated);
    let mut r = Reader::new(data);
    let first = r.u8().ok_or(short)?;
    let header = u32::from(first & 0xf) * 4;
    r.u8().ok_or(short)?;
    let total = u32::from(r.u16().ok_or(short)?);
    if first >> 4 != 4 || header < 20 || total < header {
        return Err(error(Layer::Network, ErrorKind::Malformed));
    }
    r.take(4).ok_or(short)?;
    l.ttl = r.u8().ok_or(short)?;
    l.ip_proto = r.u8().ok_or(short)?;
    r.take(10).ok_or(short)?;
    l.network_kind = Network::Ipv4;
    l.network_len = total.min(packet.wire_len.saturating_sub(l.network));
    l.transport = l.network + header;
    let rest = data.get(header as usize..).ok_or(short)?;
    let left = l.network_len.saturating_sub(header);
    match l.ip_proto {
        6 => tcp(rest, left, l),
        17 => udp(rest, left, l),
        _ => Ok(()),
    }
}

fn tcp(data: &[u8], left: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let short = error(Layer::Transport, ErrorKind::Truncated);
    let mut r = Reader::new(data);
    l.ports = [r.u16().ok_or(short)?, r.u16().ok_or(short)?];
    r.take(8).ok_or(short)?;
    let header = u32::from(r.u8().ok_or(short)? >> 4) * 4;
    l.tcp_flags = r.u8().ok_or(short)?;
    l.payload = l.transport + header;
    l.payload_len = left.saturating_sub(header);
    Ok(())
}

fn udp(data: &[u8], left: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let short = error(Layer::Transport, ErrorKind::Truncated);
    let mut r = Reader::new(data);
    l.ports = [r.u16().ok_or(short)?, r.u16().ok_or(short)?];
    l.payload = l.transport + 8;
    l.payload_len = left.saturating_sub(8);
    Ok(())
}
