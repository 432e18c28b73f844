//! ARP, IPv4, IPv6 and its extension headers.

use super::frame::Frame;
use super::{MAX_EXTENSIONS, malformed, transport, truncated};
use crate::{DecodeError, ErrorKind, Fragment, Layer, Layers, Network};

/// IP protocol numbers that are extension headers, or that end a chain of them (IANA).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AH: u8 = 51;
const NO_NEXT: u8 = 59;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// ARP and RARP: fixed fields, then two hardware and two protocol addresses (RFC 826).
pub(super) fn arp(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let short = truncated(Layer::Network);
    let &[_, _, _, _, hardware, protocol, _, _] = f.array::<8>(at).ok_or(short)?;
    l.network_kind = Network::Arp;
    l.network_len = 8 + 2 * (u32::from(hardware) + u32::from(protocol));
    if f.has(at, l.network_len) { Ok(()) } else { Err(short) }
}

/// IPv4 (RFC 791). A total length of 0 belongs to a segment that the sender's card has not split yet: the packet ends
/// with the frame.
#[inline]
pub(super) fn ipv4(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let Some(&[first, _, t0, t1, _, _, o0, o1, ttl, protocol, ..]) = f.array::<20>(at) else {
        return Err(truncated(Layer::Network));
    };
    let header = u32::from(first & 0xf) * 4;
    let total = u32::from(u16::from_be_bytes([t0, t1]));
    if first >> 4 != 4 || header < 20 || (total < header && total != 0) {
        return Err(malformed(Layer::Network));
    }
    let room = f.left(at);
    let len = if total == 0 { room } else { total.min(room) };
    l.network_kind = Network::Ipv4;
    l.network_len = len;
    l.ttl = ttl;
    l.ip_proto = protocol;
    let offset = u16::from_be_bytes([o0, o1]);
    if offset & 0x3fff != 0 {
        l.fragment = if offset & 0x1fff == 0 { Fragment::First } else { Fragment::Later };
    }
    let f = f.limit(at + len);
    if !f.has(at, header) {
        return Err(truncated(Layer::Network));
    }
    if protocol == AH && l.fragment != Fragment::Later {
        return extensions(f, at + header, protocol, l);
    }
    transport::transport(f, at + header, l)
}

/// RFC 8200. A payload length of 0 is a jumbogram (RFC 2675) or a segment that is yet to be cut.
#[inline]
pub(super) fn ipv6(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let Some(&[first, _, _, _, p0, p1, next, hops, ..]) = f.array::<40>(at) else {
        return Err(truncated(Layer::Network));
    };
    if first >> 4 != 6 {
        return Err(malformed(Layer::Network));
    }
    let claimed = u32::from(u16::from_be_bytes([p0, p1]));
    let payload = if claimed == 0 { unstated(f, at + 40, next) } else { claimed };
    l.network_kind = Network::Ipv6;
    l.network_len = 40 + payload.min(f.left(at + 40));
    l.ttl = hops;
    l.ip_proto = next;
    let f = f.limit(at + l.network_len);
    match next {
        6 | 17 | 58 => transport::transport(f, at + 40, l),
        _ => extensions(f, at + 40, next, l),
    }
}

/// The payload length of an IPv6 packet that states 0.
#[cold]
fn unstated(f: Frame<'_>, at: u32, next: u8) -> u32 {
    match next {
        // TCP, UDP or ICMPv6 with a payload length of 0: the sender's card had yet to split the packet, or the sender
        // omitted the length. The payload is present.
        6 | 17 | 58 => f.left(at),
        HOP_BY_HOP => jumbo(f, at).unwrap_or_else(|| f.left(at)),
        // The length is trusted: the bytes after it are padding.
        _ => 0,
    }
}

/// The length in a jumbo payload option of a hop-by-hop header (RFC 2675 2).
fn jumbo(f: Frame<'_>, at: u32) -> Option<u32> {
    let end = at + (u32::from(f.u8(at + 1)?) + 1) * 8;
    let mut option = at + 2;
    while option < end {
        let kind = f.u8(option)?;
        if kind == 0 {
            option += 1;
            continue;
        }
        let len = u32::from(f.u8(option + 1)?);
        if kind == 0xc2 && len == 4 {
            return f.u32(option + 2);
        }
        option += 2 + len;
    }
    None
}

/// Follows a chain of extension headers to the transport header. In IPv4 only AH can occur.
#[cold]
fn extensions(f: Frame<'_>, at: u32, next: u8, l: &mut Layers) -> Result<(), DecodeError> {
    let (mut at, mut next) = (at, next);
    for _ in 0..MAX_EXTENSIONS {
        l.ip_proto = next;
        if !is_extension(next, l.network_kind) {
            return transport::transport(f, at, l);
        }
        let &[after, len, o0, o1] = f.array::<4>(at).ok_or_else(|| truncated(Layer::Network))?;
        // If nothing follows one of these three headers, the header is the payload of the packet.
        if matches!(next, MOBILITY | HIP | SHIM6) && after == NO_NEXT {
            return transport::transport(f, at, l);
        }
        l.extended = true;
        let header = match next {
            FRAGMENT => 8,
            AH => (u32::from(len) + 2) * 4,
            _ => (u32::from(len) + 1) * 8,
        };
        if !f.has(at, header) {
            return Err(truncated(Layer::Network));
        }
        // Byte 3 of a routing header counts the remaining hops.
        l.source_routed |= next == ROUTING && o1 != 0;
        at += header;
        let offset = u16::from_be_bytes([o0, o1]);
        if next == FRAGMENT && offset & 0xfff9 != 0 {
            l.fragment = if offset & 0xfff8 == 0 { Fragment::First } else { Fragment::Later };
        }
        if l.fragment == Fragment::Later {
            l.ip_proto = after;
            return transport::transport(f, at, l);
        }
        next = after;
    }
    Err(DecodeError { layer: Layer::Network, kind: ErrorKind::TooDeep })
}

fn is_extension(protocol: u8, network: Network) -> bool {
    match protocol {
        AH => true,
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION | MOBILITY | HIP | SHIM6 => network == Network::Ipv6,
        _ => false,
    }
}
