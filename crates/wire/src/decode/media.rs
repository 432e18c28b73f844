//! Frames of links other than Ethernet, PPP and IEEE 802.11.

use super::ether::{self, ARP, IPV4, IPV6, RARP};
use super::frame::Frame;
use super::{link, malformed, truncated};
use crate::{DecodeError, Layer, Layers};

/// Decodes a packet that an address family announces. The family of IPv4 is equal on all systems; that of IPv6 is 10
/// on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD and 30 on Darwin.
pub(super) fn inet(f: Frame<'_>, family: u32, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    l.network = at;
    match family {
        2 => ether::ether_type(f, IPV4, at, l),
        10 | 24 | 28 | 30 => ether::ether_type(f, IPV6, at, l),
        _ => Ok(()),
    }
}

/// Frame relay: an address of 2 to 4 bytes (ITU-T Q.922), then a control field and an NLPID (RFC 2427), or right after
/// the address an EtherType (Cisco).
pub(super) fn frame_relay(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    const UNNUMBERED: u8 = 0x03;
    let short = || truncated(Layer::Link);
    // The last byte of the address has its lowest bit set, and the first byte has not.
    let mut end = at;
    while f.u8(end).ok_or_else(short)? & 1 == 0 {
        end += 1;
        if end - at >= 4 {
            return Err(malformed(Layer::Link));
        }
    }
    if end == at {
        return Err(malformed(Layer::Link));
    }
    let at = end + 1;
    l.network = at;
    match f.u8(at).ok_or_else(short)? {
        UNNUMBERED => {
            // One byte of padding may come before the NLPID.
            let padding = u32::from(f.u8(at + 1).ok_or_else(short)? == 0);
            nlpid(f, at + 1 + padding, l)
        }
        _ => match f.u16(at).ok_or_else(short)? {
            kind @ 0x600.. => ether::ether_type(f, kind, at + 2, l),
            _ => Ok(()),
        },
    }
}

/// A network layer protocol identifier (ISO/IEC TR 9577) and what it announces.
fn nlpid(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    const SNAP: u8 = 0x80;
    match f.u8(at).ok_or_else(|| truncated(Layer::Link))? {
        0xcc => ether::ether_type(f, IPV4, at + 1, l),
        0x8e => ether::ether_type(f, IPV6, at + 1, l),
        0xcf => link::ppp(f, at + 1, l),
        SNAP => match *f.array::<5>(at + 1).ok_or_else(|| truncated(Layer::Link))? {
            [0, 0, 0, high, low] => {
                ether::ether_type(f.deeper()?, u16::from_be_bytes([high, low]), at + 6, l)
            }
            // Bridged Ethernet, with a frame check sequence at its end and without.
            [0, 0x80, 0xc2, 0, 1 | 7] => ether::ethernet(f.deeper()?, at + 6, l),
            _ => {
                l.network = at + 6;
                Ok(())
            }
        },
        // The NLPID is the first byte of an OSI packet.
        _ => {
            l.network = at;
            Ok(())
        }
    }
}

/// FDDI: frame control, two addresses, and LLC if frame control announces it (ISO 9314-2).
pub(super) fn fddi(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    const HEADER: u32 = 13;
    l.network = HEADER;
    let control = f.u8(0).ok_or_else(|| truncated(Layer::Link))?;
    if control & 0xf0 != 0x50 {
        return Ok(());
    }
    ether::llc(f, HEADER, l)
}

/// IP over InfiniBand (RFC 4391 6): 40 bytes of pseudo-header, an EtherType, 2 bytes that are 0.
pub(super) fn ip_over_infiniband(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    let kind = f.u16(40).ok_or_else(|| truncated(Layer::Link))?;
    ether::ether_type(f, kind, 44, l)
}

/// ARCNET with the frame of BSD: two addresses, a protocol, and, except for the oldest protocols, a split flag and a
/// sequence number (RFC 1201). `at` is the offset of the protocol: Linux has two more bytes before it.
pub(super) fn arcnet(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    /// Split flag of an exception packet: three bytes of padding follow, and then the second half of the header is
    /// repeated.
    const EXCEPTION: u8 = 0xff;
    let short = || truncated(Layer::Link);
    let kind = f.u8(at).ok_or_else(short)?;
    let (kind, is_short) = match kind {
        // RFC 1051: without the rest of the header.
        240 => (IPV4, true),
        241 => (ARP, true),
        212 => (IPV4, false),
        213 => (ARP, false),
        214 => (RARP, false),
        196 => (IPV6, false),
        221 => (0x809b, false),
        _ => {
            l.network = at + 1;
            return Ok(());
        }
    };
    if is_short {
        return ether::ether_type(f, kind, at + 1, l);
    }
    let mut at = at + 1;
    let mut split = f.u8(at).ok_or_else(short)?;
    if split == EXCEPTION {
        at += 4;
        split = f.u8(at).ok_or_else(short)?;
    }
    let network = at + 3;
    l.network = network;
    l.ether_type = kind;
    // 0 is a whole packet, an odd number the first part of one.
    if split != 0 && split & 1 == 0 {
        return Ok(());
    }
    ether::ether_type(f, kind, network, l)
}
