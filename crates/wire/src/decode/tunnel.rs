//! Headers that carry another packet over IP or UDP.
//!
//! A UDP port is not proof. A datagram on a tunnel's port is decoded as a tunnel only if its bytes fit the tunnel up
//! to the first carried header.

use super::ether::{self, BRIDGED, IPV4, IPV6, MPLS, PPP};
use super::frame::Frame;
use crate::{DecodeError, ErrorKind, Fragment, Layer, Layers, Tunnel};

const GTP_U: u16 = 2152;
const L2TP: u16 = 1701;
const TEREDO: u16 = 3544;
const VXLAN: u16 = 4789;
const VXLAN_GPE: u16 = 4790;
const VXLAN_LINUX: u16 = 8472;
const AYIYA: u16 = 5072;
const GENEVE: u16 = 6081;

/// The kind and position of the packet that a tunnel carries.
pub(super) struct Carried {
    pub tunnel: Tunnel,
    pub start: Start,
    /// Offset of its first byte, and of the byte after its last.
    pub at: u32,
    pub end: u32,
}

/// The protocol of the first byte of a carried packet.
#[derive(Clone, Copy)]
pub(super) enum Start {
    Ethernet,
    EtherType(u16),
    Ppp,
    Wifi,
}

type Found = Result<Option<Carried>, ErrorKind>;

/// Whether a UDP port is one of a tunnel.
#[inline]
pub(super) fn is_port(port: u16) -> bool {
    matches!(port, GTP_U | L2TP | TEREDO | VXLAN | VXLAN_GPE | VXLAN_LINUX | AYIYA | GENEVE)
}

/// Sets [`Layers::tunnel`] if the payload is a tunnel. A fragment never is: half a packet would be counted as a whole.
pub(super) fn mark(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    if l.fragment != Fragment::Whole {
        return Ok(());
    }
    let f = f.limit(l.payload + l.payload_len);
    let carried = carried(f, l).map_err(|kind| DecodeError { layer: Layer::Tunnel, kind })?;
    l.tunnel = carried.map_or(Tunnel::None, |carried| carried.tunnel);
    Ok(())
}

/// The packet that the payload of `l` carries, if the payload is a tunnel. `f` ends where the payload ends. An error
/// is returned only for a header that can be nothing but the tunnel's.
pub(super) fn carried(f: Frame<'_>, l: &Layers) -> Found {
    let at = l.payload;
    match l.ip_proto {
        4 => Ok(right_in_ip(f, IPV4, at)),
        41 => Ok(right_in_ip(f, IPV6, at)),
        47 => gre(f, at),
        97 => Ok(ether_ip(f, at)),
        115 => Ok(l2tp_over_ip(f, at)),
        137 => Ok(found(f, Tunnel::IpInIp, Start::EtherType(MPLS), at)),
        17 => Ok(l.ports.iter().find_map(|&port| over_udp(f, at, port))),
        _ => Ok(None),
    }
}

fn over_udp(f: Frame<'_>, at: u32, port: u16) -> Option<Carried> {
    match port {
        VXLAN | VXLAN_LINUX => vxlan(f, at),
        VXLAN_GPE => vxlan_gpe(f, at),
        GENEVE => geneve(f, at),
        GTP_U => gtp_u(f, at),
        L2TP => l2tp(f, at),
        TEREDO => teredo(f, at),
        AYIYA => ayiya(f, at),
        _ => None,
    }
}

fn found(f: Frame<'_>, tunnel: Tunnel, start: Start, at: u32) -> Option<Carried> {
    f.has(at, 1).then(|| Carried { tunnel, start, at, end: at + f.left(at) })
}

/// The EtherType of the IP packet at `at`, if an IP packet can start there.
fn ip_at(f: Frame<'_>, at: u32) -> Option<u16> {
    match f.u8(at)? {
        0x45..=0x4f => Some(IPV4),
        0x60..=0x6f => Some(IPV6),
        _ => None,
    }
}

/// IPv4 or IPv6 as the payload of IP (RFC 2003, RFC 2473, RFC 4213).
fn right_in_ip(f: Frame<'_>, kind: u16, at: u32) -> Option<Carried> {
    found(f, Tunnel::IpInIp, Start::EtherType(kind), at)
}

/// EtherIP (RFC 3378): version 3, then a frame.
fn ether_ip(f: Frame<'_>, at: u32) -> Option<Carried> {
    (f.u8(at)? >> 4 == 3).then_some(())?;
    found(f, Tunnel::EtherIp, Start::Ethernet, at + 2)
}

/// GRE (RFC 2784, RFC 2890, routing of RFC 1701) and its version 1 of PPTP (RFC 2637).
fn gre(f: Frame<'_>, start: u32) -> Found {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGED: u16 = 0x0080;
    let (Some(flags), Some(protocol)) = (f.u16(start), f.u16(start + 2)) else {
        return Err(ErrorKind::Truncated);
    };
    let version = flags & 7;
    let mut at = start + 4;
    let mut pass = |bits: u16| at += if flags & bits != 0 { 4 } else { 0 };
    match version {
        0 => {
            pass(CHECKSUM | ROUTING);
            pass(KEY);
            pass(SEQUENCE);
        }
        1 => {
            pass(KEY);
            pass(SEQUENCE);
            pass(ACKNOWLEDGED);
        }
        _ => return Err(ErrorKind::Malformed),
    }
    if version == 0 && flags & ROUTING != 0 {
        at = past_source_routes(f, at).ok_or(ErrorKind::Truncated)?;
    }
    if !f.has(start, at - start) {
        return Err(ErrorKind::Truncated);
    }
    Ok(gre_payload(f, protocol, at, flags & SEQUENCE != 0))
}

/// Source route entries of RFC 1701: family, offset, length; one of family 0 and length 0 is the last.
fn past_source_routes(f: Frame<'_>, at: u32) -> Option<u32> {
    let mut at = at;
    loop {
        let &[f0, f1, _, len] = f.array::<4>(at)?;
        at += 4 + u32::from(len);
        if [f0, f1, len] == [0, 0, 0] {
            return Some(at);
        }
    }
}

fn gre_payload(f: Frame<'_>, protocol: u16, at: u32, sequenced: bool) -> Option<Carried> {
    match protocol {
        IPV4 | IPV6 | MPLS => found(f, Tunnel::Gre, Start::EtherType(protocol), at),
        PPP => found(f, Tunnel::Gre, Start::Ppp, at),
        BRIDGED => found(f, Tunnel::GreEthernet, Start::Ethernet, at),
        // Web cache redirection: version 2 puts four bytes before the packet.
        0x883e => {
            let at = if ip_at(f, at).is_some() { at } else { at + 4 };
            found(f, Tunnel::Gre, Start::EtherType(ip_at(f, at)?), at)
        }
        // ERSPAN I has neither a header nor a sequence number; ERSPAN II has both.
        0x88be if !sequenced => found(f, Tunnel::Erspan, Start::Ethernet, at),
        0x88be => found(f, Tunnel::Erspan, Start::Ethernet, at + 8),
        0x22eb => {
            let platform = if f.u8(at + 11)? & 1 != 0 { 8 } else { 0 };
            found(f, Tunnel::Erspan, Start::Ethernet, at + 12 + platform)
        }
        // Wireless controllers of Aruba send 802.11 frames under these.
        0x8200..=0x8270 | 0x9000 => found(f, Tunnel::Gre, Start::Wifi, at),
        kind if ether::is_vlan(kind) => found(f, Tunnel::Gre, Start::EtherType(kind), at),
        _ => None,
    }
}

/// VXLAN (RFC 7348): a flag, the network identifier, a frame. Reserved bits must be 0, so that other traffic on the
/// port is not taken for VXLAN; the group policy extension (draft-smith-vxlan-group-policy) uses some of these bits.
fn vxlan(f: Frame<'_>, at: u32) -> Option<Carried> {
    let &[flags, r0, r1, r2, _, _, _, r3] = f.array::<8>(at)?;
    let header = match flags {
        0x08 => [r0, r1, r2, r3] == [0; 4],
        0x88 => r3 == 0,
        _ => false,
    };
    (header && f.has(at + 8, 14)).then_some(())?;
    found(f, Tunnel::Vxlan, Start::Ethernet, at + 8)
}

/// VXLAN generic protocol extension (draft-ietf-nvo3-vxlan-gpe): the fourth byte names the payload.
fn vxlan_gpe(f: Frame<'_>, at: u32) -> Option<Carried> {
    let &[flags, _, _, next, ..] = f.array::<8>(at)?;
    let start = match (flags & 0x0c, next) {
        (0x0c, 1) => Start::EtherType(IPV4),
        (0x0c, 2) => Start::EtherType(IPV6),
        (0x0c, 3) | (0x08, _) => Start::Ethernet,
        (0x0c, 5) => Start::EtherType(MPLS),
        _ => return None,
    };
    found(f, Tunnel::Vxlan, start, at + 8)
}

/// RFC 8926: options of stated length, and an EtherType.
fn geneve(f: Frame<'_>, at: u32) -> Option<Carried> {
    let &[first, _, k0, k1, _, _, _, _] = f.array::<8>(at)?;
    let options = u32::from(first & 0x3f) * 4;
    let at = at + 8 + options;
    (first >> 6 == 0).then_some(())?;
    match u16::from_be_bytes([k0, k1]) {
        BRIDGED => found(f, Tunnel::Geneve, Start::Ethernet, at),
        kind @ (IPV4 | IPV6 | MPLS) => found(f, Tunnel::Geneve, Start::EtherType(kind), at),
        _ => None,
    }
}

/// GTP version 1 user plane (3GPP TS 29.281 5): a G-PDU, its optional fields and extension headers, and IP.
fn gtp_u(f: Frame<'_>, start: u32) -> Option<Carried> {
    const G_PDU: u8 = 255;
    let &[flags, message, l0, l1, ..] = f.array::<8>(start)?;
    (flags >> 4 == 3 && message == G_PDU).then_some(())?;
    let f = f.limit(start + 8 + u32::from(u16::from_be_bytes([l0, l1])));
    let mut at = start + 8;
    if flags & 7 != 0 {
        let mut next = f.u8(at + 3)?;
        at += 4;
        while flags & 4 != 0 && next != 0 {
            let words = u32::from(f.u8(at)?);
            (words != 0).then_some(())?;
            at += words * 4;
            next = f.u8(at - 1)?;
        }
    }
    found(f, Tunnel::GtpU, Start::EtherType(ip_at(f, at)?), at)
}

/// L2TP over UDP: version 2 data messages carry PPP (RFC 2661 3.1); version 3 see [`l2tp_v3`].
fn l2tp(f: Frame<'_>, start: u32) -> Option<Carried> {
    const CONTROL: u16 = 0x8000;
    const LENGTH: u16 = 0x4000;
    const SEQUENCE: u16 = 0x0800;
    const OFFSET: u16 = 0x0200;
    let flags = f.u16(start)?;
    (flags & CONTROL == 0).then_some(())?;
    match flags & 0xf {
        2 => {}
        3 => return l2tp_v3(f, start + 8),
        _ => return None,
    }
    let mut f = f;
    let mut at = start + 2;
    if flags & LENGTH != 0 {
        f = f.limit(start + u32::from(f.u16(at)?));
        at += 2;
    }
    at += 4;
    at += if flags & SEQUENCE != 0 { 4 } else { 0 };
    if flags & OFFSET != 0 {
        at += 2 + u32::from(f.u16(at)?);
    }
    let protocol = if f.u16(at)? == 0xff03 { at + 2 } else { at };
    let known = f.u8(protocol)? & 1 == 1 || matches!(f.u16(protocol)?, 0x0021 | 0x0057 | 0x0281 | 0x0283);
    known.then_some(())?;
    found(f, Tunnel::L2tp, Start::Ppp, at)
}

/// L2TP version 3 directly over IP: a session identifier other than 0 means data (RFC 3931 4.1.1).
fn l2tp_over_ip(f: Frame<'_>, at: u32) -> Option<Carried> {
    (f.u32(at)? != 0).then_some(())?;
    l2tp_v3(f, at + 4)
}

/// The payload of an L2TPv3 data message. The lengths of the cookie and of the sublayer are negotiated out of band
/// (RFC 3931 4.1): the payload is taken to start at the first offset where a decodable packet can start.
fn l2tp_v3(f: Frame<'_>, at: u32) -> Option<Carried> {
    let start = |at: u32| {
        if ether::carries_known(f, at) {
            return found(f, Tunnel::L2tp, Start::Ethernet, at);
        }
        match f.u16(at)? {
            0xff03 => found(f, Tunnel::L2tp, Start::Ppp, at),
            _ => None,
        }
    };
    [0, 4, 8, 12].into_iter().find_map(|skip| start(at + skip))
}

/// Teredo (RFC 4380 5.1.1): an optional authentication, an optional origin, and an IPv6 packet that fits.
fn teredo(f: Frame<'_>, start: u32) -> Option<Carried> {
    let mut at = start;
    if f.u16(at)? == 1 {
        let &[_, _, identifier, value] = f.array::<4>(at)?;
        at += 4 + u32::from(identifier) + u32::from(value) + 8 + 1;
    }
    if f.u16(at)? == 0 {
        at += 8;
    }
    let &[first, _, _, _, p0, p1, ..] = f.array::<40>(at)?;
    let fits = 40 + u32::from(u16::from_be_bytes([p0, p1])) <= f.left(at);
    (first >> 4 == 6 && fits).then_some(())?;
    found(f, Tunnel::Teredo, Start::EtherType(IPV6), at)
}

/// AYIYA (draft-massar-v6ops-ayiya-02): identity and signature of stated lengths, then the payload that the
/// next-header field names.
fn ayiya(f: Frame<'_>, at: u32) -> Option<Carried> {
    const FORWARD: u8 = 1;
    let &[identity, signature, operation, next, ..] = f.array::<8>(at)?;
    (operation & 0xf == FORWARD).then_some(())?;
    let at = at + 8 + (1 << (identity >> 4)) + u32::from(signature >> 4) * 4;
    match (next, ip_at(f, at)?) {
        (41, IPV6) | (4, IPV4) => found(f, Tunnel::Ayiya, Start::EtherType(ip_at(f, at)?), at),
        _ => None,
    }
}
