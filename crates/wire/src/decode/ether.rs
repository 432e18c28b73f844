//! Ethernet and all that an EtherType leads to.

use super::frame::Frame;
use super::{link, malformed, network, truncated};
use crate::{DecodeError, Layer, Layers};

/// EtherTypes (IEEE 802 numbers, IANA).
pub(super) const IPV4: u16 = 0x0800;
pub(super) const ARP: u16 = 0x0806;
pub(super) const RARP: u16 = 0x8035;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const BRIDGED: u16 = 0x6558;
pub(super) const PPP: u16 = 0x880b;
pub(super) const MPLS: u16 = 0x8847;
pub(super) const MPLS_UPSTREAM: u16 = 0x8848;
pub(super) const PPPOE_SESSION: u16 = 0x8864;
const PBB: u16 = 0x88e7;
const FABRIC_PATH: u16 = 0x8903;
const VN_TAG: u16 = 0x8926;
const E_TAG: u16 = 0x893f;
pub(super) const NSH: u16 = 0x894f;
const JUMBO_LLC: u16 = 0x8870;
/// A value up to here is the length of an LLC frame (IEEE 802.3 3.2.6).
const MAX_LENGTH: u16 = 1500;

/// Whether the EtherType announces a VLAN tag: IEEE 802.1Q, 802.1ad, and the values that switches used before 802.1ad.
pub(super) fn is_vlan(kind: u16) -> bool {
    matches!(kind, 0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300)
}

/// A frame from its destination address on (IEEE 802.3).
#[inline]
pub(super) fn ethernet(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let Some(header) = f.array::<14>(at) else {
        return Err(truncated(Layer::Link));
    };
    let [.., high, low] = *header;
    ether_type(f, u16::from_be_bytes([high, low]), at + 14, l)
}

/// Decodes the payload of an EtherType, from the byte after the EtherType on.
#[inline]
pub(super) fn ether_type(f: Frame<'_>, kind: u16, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    l.ether_type = kind;
    l.network = at;
    match kind {
        IPV4 => network::ipv4(f, at, l),
        IPV6 => network::ipv6(f, at, l),
        _ => encapsulation(f, kind, at, l),
    }
}

/// Payloads other than IP: ARP, a tag or label before the network header, or a protocol that is not decoded.
#[cold]
fn encapsulation(f: Frame<'_>, kind: u16, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    match kind {
        ARP | RARP => network::arp(f, at, l),
        kind if is_vlan(kind) => vlan(f.deeper()?, at, l),
        MPLS | MPLS_UPSTREAM => mpls(f.deeper()?, at, l),
        PPPOE_SESSION => link::pppoe(f, at, l),
        PPP => link::ppp(f, at, l),
        BRIDGED => ethernet(f.deeper()?, at, l),
        // The service instance (4 bytes) and the customer's frame (IEEE 802.1ah).
        PBB => ethernet(f.deeper()?, at + 4, l),
        // The forwarding tag and the original frame: the outer frame was the fabric's own header.
        FABRIC_PATH => ethernet(f.deeper()?, at + 2, l),
        VN_TAG => tagged(f.deeper()?, at + 4, l),
        E_TAG => tagged(f.deeper()?, at + 6, l),
        NSH => nsh(f.deeper()?, at, l),
        JUMBO_LLC => llc(f, at, l),
        0..=MAX_LENGTH => llc(f.limit(at + u32::from(kind)), at, l),
        _ => Ok(()),
    }
}

/// The EtherType after a tag.
pub(super) fn tagged(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let kind = f.u16(at).ok_or_else(|| truncated(Layer::Link))?;
    ether_type(f, kind, at + 2, l)
}

/// Decodes the packet after a network service header.
fn nsh(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let (kind, at) = past_nsh(f, at)?;
    l.network = at;
    match kind {
        Some(BRIDGED) => ethernet(f, at, l),
        Some(NSH) => nsh(f.deeper()?, at, l),
        Some(kind) => ether_type(f, kind, at, l),
        None => Ok(()),
    }
}

/// The EtherType of the packet after a network service header, if it has one, and the packet's offset (RFC 8300 2.2:
/// version 0, the length in words of 4 bytes, the kind of the packet).
pub(super) fn past_nsh(f: Frame<'_>, at: u32) -> Result<(Option<u16>, u32), DecodeError> {
    let &[first, length, _, next] = f.array::<4>(at).ok_or_else(|| truncated(Layer::Link))?;
    let header = u32::from(length & 0x3f) * 4;
    if first >> 6 != 0 || header < 8 {
        return Err(malformed(Layer::Link));
    }
    let kind = match next {
        1 => Some(IPV4),
        2 => Some(IPV6),
        3 => Some(BRIDGED),
        4 => Some(NSH),
        5 => Some(MPLS),
        _ => None,
    };
    Ok((kind, at + header))
}

fn vlan(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let tag = f.u16(at).ok_or_else(|| truncated(Layer::Link))?;
    if let Some(id) = l.vlan.get_mut(usize::from(l.vlan_count)) {
        *id = tag & 0xfff;
    }
    l.vlan_count += 1;
    tagged(f, at + 2, l)
}

/// Labels to the bottom of the stack (RFC 3032). The label stack does not name its payload. The first nibble
/// identifies IP (RFC 4928); a pseudowire carries Ethernet, with or without a control word (RFC 4448).
fn mpls(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let label = f.u32(at).ok_or_else(|| truncated(Layer::Link))?;
    l.mpls_count += 1;
    let at = at + 4;
    l.network = at;
    if label & 0x100 == 0 {
        return mpls(f.deeper()?, at, l);
    }
    match f.u8(at).ok_or_else(|| truncated(Layer::Link))? >> 4 {
        4 => ether_type(f, IPV4, at, l),
        6 => ether_type(f, IPV6, at, l),
        0 if carries_known(f, at + 4) => ethernet(f.deeper()?, at + 4, l),
        1 => Ok(()),
        _ if carries_known(f, at) => ethernet(f.deeper()?, at, l),
        _ => Ok(()),
    }
}

/// Whether an Ethernet frame at `at` would announce something that is decoded.
pub(super) fn carries_known(f: Frame<'_>, at: u32) -> bool {
    let Some(kind) = f.u16(at + 12) else { return false };
    match kind {
        IPV4 => f.u8(at + 14).is_some_and(|first| first >> 4 == 4),
        IPV6 => f.u8(at + 14).is_some_and(|first| first >> 4 == 6),
        ARP | MPLS | PPPOE_SESSION => true,
        // 802.3: the first service access points of LLC are even or the group bit is set on one only.
        0..=MAX_LENGTH => u32::from(kind) <= f.left(at + 14) && f.u16(at + 14).is_some_and(is_llc),
        kind => is_vlan(kind),
    }
}

/// Spanning tree, SNAP, IS-IS and NetBIOS: pairs of service access points that are in use.
fn is_llc(access_points: u16) -> bool {
    matches!(access_points, 0x4242 | 0xaaaa | 0xfefe | 0xf0f0 | 0xe0e0)
}

/// Logical link control, and an EtherType in it by SNAP (IEEE 802.2, RFC 1042).
pub(super) fn llc(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    l.ether_type = 0;
    l.network = at;
    match f.array::<8>(at) {
        // RFC 1042, and IEEE 802.1H for what is bridged from Ethernet.
        Some(&[0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low]) => {
            let kind = u16::from_be_bytes([high, low]);
            ether_type(f.deeper()?, kind, at + 8, l)
        }
        _ if f.has(at, 3) => Ok(()),
        _ => Err(truncated(Layer::Link)),
    }
}

/// Decodes an IP packet whose version no earlier header announces.
pub(super) fn ip(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    l.network = at;
    match f.u8(at).ok_or_else(|| truncated(Layer::Network))? >> 4 {
        4 => ether_type(f, IPV4, at, l),
        6 => ether_type(f, IPV6, at, l),
        _ => Err(malformed(Layer::Network)),
    }
}
