//! Headers that a capturing system puts before a packet, and the tags of switch chips.

use super::frame::Frame;
use super::media::{frame_relay, inet};
use super::{ether, link, malformed, truncated, wifi};
use crate::{DecodeError, ErrorKind, Layer, Layers, LinkType};

/// Per-Packet Information (CACE Technologies, 1.0.7): version, flags, length and link type, all little-endian, then
/// fields, then a frame of that link type.
pub(super) fn ppi(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    let &[version, _, l0, l1, d0, d1, d2, d3] = f.array::<8>(0).ok_or_else(|| truncated(Layer::Link))?;
    let at = u32::from(u16::from_le_bytes([l0, l1]));
    if version != 0 || at < 8 {
        return Err(malformed(Layer::Link));
    }
    match LinkType(u16::try_from(u32::from_le_bytes([d0, d1, d2, d3])).unwrap_or(u16::MAX)) {
        LinkType::ETHERNET => ether::ethernet(f, at, l),
        LinkType::IEEE802_11 => {
            let check = if ppi_has_check_sequence(f, at) { 4 } else { 0 };
            let end = (at + f.left(at)).saturating_sub(check);
            wifi::ieee802_11(f.limit(end), at, false, l)
        }
        LinkType::IEEE802_11_RADIOTAP => wifi::radiotap(f, at, l),
        LinkType::PPP | LinkType::PPP_HDLC => link::ppp(f, at, l),
        LinkType::RAW | LinkType(12) => ether::ip(f, at, l),
        _ => Err(DecodeError { layer: Layer::Link, kind: ErrorKind::UnknownLink }),
    }
}

/// Whether the field of IEEE 802.11 (type 2) indicates a frame check sequence at the end of the frame. `end` is the
/// offset of the end of the fields.
fn ppi_has_check_sequence(f: Frame<'_>, end: u32) -> bool {
    const COMMON: u16 = 2;
    let f = f.limit(end);
    let mut at = 8;
    while let Some(&[k0, k1, l0, l1]) = f.array::<4>(at) {
        if u16::from_le_bytes([k0, k1]) == COMMON {
            // The flags follow a timer of 8 bytes.
            return f.u8(at + 12).is_some_and(|flags| flags & 1 != 0);
        }
        at += 4 + u32::from(u16::from_le_bytes([l0, l1]));
    }
    false
}

/// Netfilter's log: address family, version, group, then attributes whose lengths and types are in the byte order of
/// the host that captured. One of them holds the packet.
pub(super) fn nflog(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    const PACKET_HEADER: u16 = 1;
    const PAYLOAD: u16 = 9;
    let &[family, version, _, _] = f.array::<4>(0).ok_or_else(|| truncated(Layer::Link))?;
    if version != 0 {
        return Err(malformed(Layer::Link));
    }
    let mut at = 4;
    let mut protocol = 0;
    let mut little_endian = None;
    while let Some(&[l0, l1, k0, k1]) = f.array::<4>(at) {
        // Types fit into one byte, and none is 0: the first type shows the byte order.
        let little = *little_endian.get_or_insert(k1 == 0);
        let word = |bytes| if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) };
        let (len, kind) = (u32::from(word([l0, l1])), word([k0, k1]) & 0x7fff);
        if len < 4 {
            return Err(malformed(Layer::Link));
        }
        match kind {
            PACKET_HEADER => protocol = f.u16(at + 4).unwrap_or(0),
            PAYLOAD => {
                let f = f.limit(at + len);
                return match family {
                    // The bridge has packets of any protocol.
                    7 => ether::ether_type(f, protocol, at + 4, l),
                    family => inet(f, u32::from(family), at + 4, l),
                };
            }
            _ => {}
        }
        at += len.next_multiple_of(4);
    }
    // Rules may log no packet at all.
    l.network = at;
    if f.left(at) == 0 { Ok(()) } else { Err(truncated(Layer::Link)) }
}

/// The log of OpenBSD's and FreeBSD's packet filter: a header that begins with its length, without padding to a multiple
/// of 4 bytes, and the address family.
pub(super) fn pflog(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    /// Bytes of the header of the oldest version.
    const MIN_HEADER: u8 = 45;
    let &[len, family] = f.array::<2>(0).ok_or_else(|| truncated(Layer::Link))?;
    if len < MIN_HEADER {
        return Err(malformed(Layer::Link));
    }
    inet(f, u32::from(family), u32::from(len).next_multiple_of(4), l)
}

/// Frame relay after one byte with the direction.
pub(super) fn frame_relay_with_direction(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    frame_relay(f, 1, l)
}

/// An Ethernet frame with a tag of a switch chip between addresses and type; `at` is the offset of the type.
pub(super) fn tagged_frame(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    ether::tagged(f.deeper()?, at, l)
}
