//! Headers that carry another packet over IP or UDP.
//!
//! A UDP port is not proof. A datagram on a tunnel's port is decoded as a tunnel only if its bytes fit the tunnel up
//! to the first carried header. GTP-U and Teredo are found on any port if their bytes fit exactly: see
//! [`fits_anywhere`].

use super::ether::{self, BRIDGED, IPV4, IPV6, MPLS, NSH, PPP};
use super::frame::Frame;
use crate::{DecodeError, ErrorKind, Fragment, Layer, Layers, Packet, Tunnel};

const GTP_U: u16 = 2152;
const L2TP: u16 = 1701;
const TEREDO: u16 = 3544;
const VXLAN: u16 = 4789;
const VXLAN_GPE: u16 = 4790;
const VXLAN_LINUX: u16 = 8472;
const AYIYA: u16 = 5072;
const GENEVE: u16 = 6081;
const GRE_IN_UDP: u16 = 4754;
const CAPWAP_DATA: u16 = 5247;

/// Type of a GTP message that carries a packet (3GPP TS 29.281 6.1).
const G_PDU: u8 = 255;

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
    /// IEEE 802.11 whose two bytes of frame control are swapped, as some access points send it in CAPWAP.
    SwappedWifi,
}

type Found = Result<Option<Carried>, ErrorKind>;

/// Whether a UDP port is one of a tunnel.
#[inline]
pub(super) fn is_port(port: u16) -> bool {
    matches!(
        port,
        GTP_U | L2TP | TEREDO | VXLAN | VXLAN_GPE | VXLAN_LINUX | AYIYA | GENEVE | GRE_IN_UDP | CAPWAP_DATA
    )
}

/// Whether a payload of UDP can be GTP-U or Teredo, whatever its ports. `head` are its first bytes, `len` is its length
/// in bytes. Both state a length that must be that of the payload, so that other payload hardly ever fits.
#[inline]
pub(super) fn fits_anywhere(head: &[u8; 8], len: u32) -> bool {
    let &[first, kind, l0, l1, p0, p1, next, _] = head;
    let two = |high, low| u32::from(u16::from_be_bytes([high, low]));
    match first {
        0x30..=0x37 => kind == G_PDU && two(l0, l1) + 8 == len,
        0x60 => two(p0, p1) + 40 == len && matches!(next, 6 | 17 | 58 | 59),
        _ => false,
    }
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
        17 => Ok(l.ports.iter().find_map(|&port| over_udp(f, at, port)).or_else(|| on_any_port(f, at))),
        _ => Ok(None),
    }
}

/// The identifier of the network that a tunnel carries: VXLAN's and GENEVE's VNI (24 bits), GRE's key (RFC 2890). `None`
/// without one, and for other tunnels. `layers` are those of the packet that contains the tunnel's header.
pub fn tunnel_network(packet: &Packet<'_>, layers: &Layers) -> Option<u32> {
    let header = packet.data.get(layers.payload as usize..)?.get(..12)?;
    let word = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    match layers.tunnel {
        // The flag I (RFC 7348 5).
        Tunnel::Vxlan if header.first()? & 0x08 != 0 => Some(word(4)? >> 8),
        Tunnel::Geneve => Some(word(4)? >> 8),
        Tunnel::Gre | Tunnel::GreEthernet if word(0)? & 0x2007_0000 == 0x2000_0000 => {
            // The checksum and its padding precede the key.
            word(if word(0)? & 0x8000_0000 != 0 { 8 } else { 4 })
        }
        _ => None,
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
        GRE_IN_UDP => gre(f, at).ok().flatten(),
        CAPWAP_DATA => capwap(f, at),
        _ => None,
    }
}

/// GTP-U or Teredo on a port that is not its own: the lengths of the carried packet must fit too, and of Teredo one
/// address must have the prefix of Teredo (RFC 4380 2.6).
fn on_any_port(f: Frame<'_>, at: u32) -> Option<Carried> {
    fits_anywhere(f.array::<8>(at)?, f.left(at)).then_some(())?;
    if f.u8(at)? >> 4 == 3 {
        let carried = gtp_u(f, at)?;
        return (ip_len(f, carried.at)? == carried.end - carried.at).then_some(carried);
    }
    let is_teredo = |address: u32| f.array::<4>(address) == Some(&[0x20, 1, 0, 0]);
    (is_teredo(at + 8) || is_teredo(at + 24)).then(|| teredo(f, at))?
}

/// The length in bytes that the IP packet at `at` states.
fn ip_len(f: Frame<'_>, at: u32) -> Option<u32> {
    Some(match ip_at(f, at)? {
        IPV4 => u32::from(f.u16(at + 2)?),
        _ => u32::from(f.u16(at + 4)?) + 40,
    })
}

/// Whether an Ethernet frame with a whole header of ARP or IP is at `at`, after at most one VLAN tag.
fn frame_at(f: Frame<'_>, at: u32) -> bool {
    let Some(kind) = f.u16(at + 12) else { return false };
    let (kind, at) = match ether::is_vlan(kind) {
        true => (f.u16(at + 16).unwrap_or_default(), at + 18),
        false => (kind, at + 14),
    };
    match kind {
        IPV4 | IPV6 => ip_at(f, at) == Some(kind) && ip_len(f, at).is_some_and(|len| len <= f.left(at)),
        // Hardware is Ethernet.
        ether::ARP => f.u16(at) == Some(1),
        _ => false,
    }
}

fn found(f: Frame<'_>, tunnel: Tunnel, start: Start, at: u32) -> Option<Carried> {
    f.has(at, 1).then(|| Carried { tunnel, start, at, end: at + f.left(at) })
}

/// The packet after a network service header, which is part of the tunnel's header.
fn behind_nsh(f: Frame<'_>, tunnel: Tunnel, at: u32) -> Option<Carried> {
    match ether::past_nsh(f, at).ok()? {
        (Some(BRIDGED), at) => found(f, tunnel, Start::Ethernet, at),
        (Some(kind), at) => found(f, tunnel, Start::EtherType(kind), at),
        _ => None,
    }
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
        NSH => behind_nsh(f, Tunnel::Gre, at),
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

/// VXLAN (RFC 7348): flags, the network identifier, a frame. Other flags than that of the identifier belong to
/// extensions (draft-smith-vxlan-group-policy, draft-ietf-nvo3-vxlan-gpe) or to a sender's mistake: with them, what
/// follows must be a frame that fits.
fn vxlan(f: Frame<'_>, at: u32) -> Option<Carried> {
    let &[flags, r0, r1, r2, _, _, _, r3] = f.array::<8>(at)?;
    f.has(at + 8, 14).then_some(())?;
    let is_plain = match flags {
        0x08 => [r0, r1, r2, r3] == [0; 4],
        0x88 => r3 == 0,
        _ => false,
    };
    if is_plain || frame_at(f, at + 8) {
        return found(f, Tunnel::Vxlan, Start::Ethernet, at + 8);
    }
    if flags & 0x0c == 0x0c { vxlan_gpe(f, at) } else { None }
}

/// VXLAN generic protocol extension (draft-ietf-nvo3-vxlan-gpe): the fourth byte names the payload.
fn vxlan_gpe(f: Frame<'_>, at: u32) -> Option<Carried> {
    let &[flags, _, _, next, ..] = f.array::<8>(at)?;
    let inner = at + 8;
    let start = match (flags & 0x0c, next) {
        (0x0c, 1) => (ip_at(f, inner)? == IPV4).then_some(Start::EtherType(IPV4))?,
        (0x0c, 2) => (ip_at(f, inner)? == IPV6).then_some(Start::EtherType(IPV6))?,
        (0x0c, 3) | (0x08, _) => Start::Ethernet,
        (0x0c, 4) => return behind_nsh(f, Tunnel::Vxlan, inner),
        (0x0c, 5) => Start::EtherType(MPLS),
        _ => return None,
    };
    found(f, Tunnel::Vxlan, start, inner)
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
        NSH => behind_nsh(f, Tunnel::Geneve, at),
        _ => None,
    }
}

/// GTP version 1 user plane (3GPP TS 29.281 5): a G-PDU, its optional fields and extension headers, and IP.
fn gtp_u(f: Frame<'_>, start: u32) -> Option<Carried> {
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

/// CAPWAP data (RFC 5415 4.3): a header of stated length, then a frame of Ethernet or IEEE 802.11. Keep-alive messages,
/// fragments and DTLS carry no frame that is decoded.
fn capwap(f: Frame<'_>, at: u32) -> Option<Carried> {
    const NATIVE: u8 = 0x01;
    const FRAGMENT: u8 = 0x80;
    const KEEP_ALIVE: u8 = 0x08;
    let &[preamble, b1, b2, b3, ..] = f.array::<8>(at)?;
    (preamble == 0 && b3 & (FRAGMENT | KEEP_ALIVE) == 0).then_some(())?;
    let header = u32::from(b1 >> 3) * 4;
    (header >= 8).then_some(())?;
    let at = at + header;
    if b2 & NATIVE == 0 {
        return (frame_at(f, at) || ether::carries_known(f, at))
            .then(|| found(f, Tunnel::Capwap, Start::Ethernet, at))?;
    }
    // Data frames have type 2, which is in the byte that comes first.
    match f.array::<2>(at)? {
        [kind, _] if kind & 0x0f == 0x08 => found(f, Tunnel::Capwap, Start::Wifi, at),
        [_, kind] if kind & 0x0f == 0x08 => found(f, Tunnel::Capwap, Start::SwappedWifi, at),
        _ => None,
    }
}
