//! Link layers other than Ethernet.

use super::ether::{self, IPV4, IPV6, MPLS, MPLS_UPSTREAM};
use super::frame::Frame;
use super::{malformed, media, prefix, truncated, wifi};
use crate::{DecodeError, ErrorKind, Layer, Layers, LinkType};

/// A packet of any link type but Ethernet, from its first byte on.
#[cold]
pub(super) fn link(f: Frame<'_>, kind: LinkType, l: &mut Layers) -> Result<(), DecodeError> {
    match kind {
        LinkType::NULL | LinkType::LOOP => loopback(f, l),
        // Some programs write the operating system's own number of raw IP into the file (12, on OpenBSD 14).
        LinkType::RAW | LinkType(12 | 14) => ether::ip(f, 0, l),
        LinkType::IPV4 => ether::ether_type(f, IPV4, 0, l),
        LinkType::IPV6 => ether::ether_type(f, IPV6, 0, l),
        LinkType::PPP | LinkType::PPP_HDLC => match f.u8(0) {
            Some(CISCO_UNICAST | CISCO_MULTICAST) => cisco_hdlc(f, l),
            _ => ppp(f, 0, l),
        },
        LinkType::C_HDLC => cisco_hdlc(f, l),
        LinkType::PPP_ETHER => pppoe(f, 0, l),
        LinkType::LINUX_SLL => linux_sll(f, l),
        LinkType::LINUX_SLL2 => linux_sll2(f, l),
        LinkType::IEEE802_11 => wifi::ieee802_11(f, 0, false, l),
        LinkType::IEEE802_11_RADIOTAP => wifi::radiotap(f, 0, l),
        LinkType::PPI => prefix::ppi(f, l),
        LinkType::NFLOG => prefix::nflog(f, l),
        LinkType::PFLOG => prefix::pflog(f, l),
        // The packet follows the driver's header, whatever that header states about compression.
        LinkType::SLIP => ether::ip(f, 16, l),
        LinkType::SLIP_BSDOS => ether::ip(f, 24, l),
        LinkType::FRELAY => media::frame_relay(f, 0, l),
        LinkType::FRELAY_WITH_DIR => prefix::frame_relay_with_direction(f, l),
        LinkType::DSA_TAG_BRCM | LinkType::DSA_TAG_DSA => prefix::tagged_frame(f, 16, l),
        LinkType::DSA_TAG_BRCM_PREPEND => ether::ethernet(f.deeper()?, 4, l),
        LinkType::DSA_TAG_EDSA => prefix::tagged_frame(f, 20, l),
        LinkType::FDDI => media::fddi(f, l),
        LinkType::IPOIB => media::ip_over_infiniband(f, l),
        LinkType::ARCNET => media::arcnet(f, 2, l),
        LinkType::ARCNET_LINUX => media::arcnet(f, 4, l),
        _ => Err(DecodeError { layer: Layer::Link, kind: ErrorKind::UnknownLink }),
    }
}

/// An address family of four bytes in the byte order of the host (NULL) or of the network (LOOP). Families
/// fit into one byte, so that the other order is never mistaken for one.
fn loopback(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    let family = f.u32(0).ok_or_else(|| truncated(Layer::Link))?;
    let family = if family > 0xffff { family.swap_bytes() } else { family };
    l.network = 4;
    match family {
        2 => ether::ether_type(f, IPV4, 4, l),
        // BSD/OS and NetBSD, FreeBSD, Darwin; Linux writes its own number on some tunnels.
        24 | 28 | 30 | 10 => ether::ether_type(f, IPV6, 4, l),
        _ => Ok(()),
    }
}

/// First byte of Cisco HDLC where PPP has its address, 0xff.
const CISCO_UNICAST: u8 = 0x0f;
const CISCO_MULTICAST: u8 = 0x8f;

/// Address, control and an EtherType.
fn cisco_hdlc(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    let kind = f.u16(2).ok_or_else(|| truncated(Layer::Link))?;
    announced(f, kind, 4, l)
}

/// Decodes the payload of a 16-bit protocol number on links where values below the EtherTypes are not lengths.
fn announced(f: Frame<'_>, kind: u16, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    if kind >= 0x600 {
        return ether::ether_type(f, kind, at, l);
    }
    l.ether_type = kind;
    l.network = at;
    Ok(())
}

/// PPP from the address field or, where that was compressed away, from the protocol on; the protocol may be
/// compressed to one byte (RFC 1661 6.5, 6.6).
pub(super) fn ppp(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let short = || truncated(Layer::Link);
    let at = if f.u16(at) == Some(0xff03) { at + 2 } else { at };
    let first = f.u8(at).ok_or_else(short)?;
    let (protocol, at) =
        if first & 1 == 1 { (u16::from(first), at + 1) } else { (f.u16(at).ok_or_else(short)?, at + 2) };
    l.network = at;
    match protocol {
        0x0021 => ether::ether_type(f, IPV4, at, l),
        0x0057 => ether::ether_type(f, IPV6, at, l),
        0x0281 => ether::ether_type(f, MPLS, at, l),
        0x0283 => ether::ether_type(f, MPLS_UPSTREAM, at, l),
        _ => Ok(()),
    }
}

/// PPPoE session stage (RFC 2516 4), from the version on. Its length is not trusted: some access concentrators exclude
/// padding that the IP header counts. The IP length gives the end.
pub(super) fn pppoe(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let &[version, code, _, _, _, _] = f.array::<6>(at).ok_or_else(|| truncated(Layer::Link))?;
    if version != 0x11 {
        return Err(malformed(Layer::Link));
    }
    l.pppoe = true;
    l.network = at + 6;
    if code != 0 {
        return Ok(());
    }
    ppp(f.deeper()?, at + 6, l)
}

/// Linux cooked capture, version 1: packet type, ARPHRD_, address, protocol.
fn linux_sll(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    let short = || truncated(Layer::Link);
    let (hardware, protocol) = (f.u16(2).ok_or_else(short)?, f.u16(14).ok_or_else(short)?);
    cooked(f, hardware, protocol, 16, l)
}

/// Linux cooked capture, version 2: protocol, interface, ARPHRD_, packet type, address.
fn linux_sll2(f: Frame<'_>, l: &mut Layers) -> Result<(), DecodeError> {
    let header = f.array::<20>(0).ok_or_else(|| truncated(Layer::Link))?;
    let &[p0, p1, _, _, _, _, _, _, h0, h1, ..] = header;
    cooked(f, u16::from_be_bytes([h0, h1]), u16::from_be_bytes([p0, p1]), 20, l)
}

fn cooked(f: Frame<'_>, hardware: u16, protocol: u16, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    l.ether_type = protocol;
    l.network = at;
    match hardware {
        wifi::ARPHRD_IEEE80211 => wifi::ieee802_11(f, at, false, l),
        wifi::ARPHRD_IEEE80211_RADIOTAP => wifi::radiotap(f, at, l),
        // Frame relay and netlink: the protocol is none.
        770 | 824 => Ok(()),
        // LINUX_SLL_P_802_2.
        _ if protocol == 4 => ether::llc(f, at, l),
        _ => announced(f, protocol, at, l),
    }
}
