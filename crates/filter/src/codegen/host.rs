//! Tests of addresses: IPv4 in IP, ARP and RARP, IPv6, MAC and DECnet.

use std::net::IpAddr;

use weir_wire::LinkType;

use super::{Base, Gen, Generator, NOT_SET, linktype, sides};
use crate::ast::{IdKind, Qualifiers, Resolved, Side};
use crate::bpf::op;
use crate::error::ErrorKind;
use crate::graph::BlockId;
use crate::link::is_ethernet;
use crate::names::{Protocol, ethertype};

/// The positions of the addresses in a protocol's header.
#[derive(Clone, Copy)]
struct Place {
    ether_type: u16,
    src: u32,
    dst: u32,
}

const IP: Place = Place { ether_type: ethertype::IP, src: 12, dst: 16 };
const ARP: Place = Place { ether_type: ethertype::ARP, src: 14, dst: 24 };
const RARP: Place = Place { ether_type: ethertype::RARP, src: 14, dst: 24 };
const IP6: Place = Place { ether_type: ethertype::IPV6, src: 8, dst: 24 };

/// Bytes of an IPv4 address, as a number, and how many bits are written: `10.1` is 16 bits.
pub(crate) fn dotted(text: &str) -> Option<(u32, u32)> {
    let mut address = 0u32;
    let mut bits = 0;
    for part in text.split('.') {
        if part.is_empty() || part.len() > 10 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let byte: u8 = part.parse().ok()?;
        address = address << 8 | u32::from(byte);
        bits += 8;
    }
    (8..=32).contains(&bits).then_some((address, bits))
}

/// `area.node`, as one number of 16 bits.
fn decnet(text: &str) -> Option<u32> {
    let (area, node) = text.split_once('.')?;
    let (area, node): (u32, u32) = (area.parse().ok()?, node.parse().ok()?);
    (area < 1 << 6 && node < 1 << 10).then_some(area << 10 | node)
}

/// All bits, shifted left by `n`; none if `n` is the width of the word or more.
pub(crate) fn high_bits(n: u32) -> u32 {
    u32::MAX.checked_shl(32 - n).unwrap_or(0)
}

impl Generator {
    fn side_of_ip4(&mut self, address: u32, mask: u32, side: Side, place: Place) -> Gen<BlockId> {
        sides(self, side, |g, src| {
            let b0 = g.linktype(u32::from(place.ether_type))?;
            let offset = if src { place.src } else { place.dst };
            let b1 = g.equal_masked(Base::Payload, offset, op::W, address, mask)?;
            Ok(g.graph.and(b0, b1))
        })
    }

    fn side_of_ip6(&mut self, address: [u8; 16], mask: [u8; 16], side: Side) -> Gen<BlockId> {
        let word = |bytes: &[u8; 16], i: u32| {
            bytes.iter().skip(4 * i as usize).take(4).fold(0, |v, b| v << 8 | u32::from(*b))
        };
        sides(self, side, |g, src| {
            let offset = if src { IP6.src } else { IP6.dst };
            let mut b1 =
                g.equal_masked(Base::Payload, offset + 12, op::W, word(&address, 3), word(&mask, 3))?;
            for i in [2, 1, 0] {
                let b0 =
                    g.equal_masked(Base::Payload, offset + 4 * i, op::W, word(&address, i), word(&mask, i))?;
                b1 = g.graph.and(b0, b1);
            }
            let b0 = g.linktype(u32::from(IP6.ether_type))?;
            Ok(g.graph.and(b0, b1))
        })
    }

    /// A test for an IPv4 host or network; `what` names it in errors if the protocol has no IPv4 addresses.
    pub(super) fn host4(&mut self, address: u32, mask: u32, q: Qualifiers, what: &str) -> Gen<BlockId> {
        match q.protocol {
            None => {
                let b0 = self.side_of_ip4(address, mask, q.direction, IP)?;
                if self.labels > 0 {
                    return Ok(b0);
                }
                let b1 = self.side_of_ip4(address, mask, q.direction, ARP)?;
                let b1 = self.graph.or(b0, b1);
                let b0 = self.side_of_ip4(address, mask, q.direction, RARP)?;
                Ok(self.graph.or(b1, b0))
            }
            Some(Protocol::Ip) => self.side_of_ip4(address, mask, q.direction, IP),
            Some(Protocol::Arp) => self.side_of_ip4(address, mask, q.direction, ARP),
            Some(Protocol::Rarp) => self.side_of_ip4(address, mask, q.direction, RARP),
            Some(other) => self.not_a_qualifier(other.name(), what),
        }
    }

    fn host6(&mut self, address: [u8; 16], mask: [u8; 16], q: Qualifiers, what: &str) -> Gen<BlockId> {
        match q.protocol {
            None | Some(Protocol::Ip6) => self.side_of_ip6(address, mask, q.direction),
            Some(other) => self.not_a_qualifier(other.name(), what),
        }
    }

    pub(super) fn number_host(&mut self, q: Qualifiers, value: u32) -> Gen<BlockId> {
        if q.protocol == Some(Protocol::Decnet) {
            let message = format!("invalid DECnet address '{value}'");
            return Err(self.error(ErrorKind::Value, message));
        }
        let (mut address, mut mask) = (value, u32::MAX);
        if q.kind == IdKind::Net {
            while address != 0 && address & 0xff00_0000 == 0 {
                address <<= 8;
                mask <<= 8;
            }
            return self.host4(address, mask, q, "net <IPv4 address>");
        }
        self.host4(address, mask, q, "host <IPv4 address>")
    }

    fn parse_dotted(&self, text: &str) -> Gen<(u32, u32)> {
        dotted(text).ok_or_else(|| self.error(ErrorKind::Value, format!("invalid IPv4 address '{text}'")))
    }

    pub(super) fn dotted_host(&mut self, q: Qualifiers, text: &str) -> Gen<BlockId> {
        if q.protocol == Some(Protocol::Decnet) {
            return self.decnet_host(q, text);
        }
        if q.kind == IdKind::Gateway {
            return self.not_a_qualifier("gateway", text);
        }
        let (address, bits) = self.parse_dotted(text)?;
        let what = if q.kind == IdKind::Net { "net <IPv4 address>" } else { "host <IPv4 address>" };
        self.host4(address.checked_shl(32 - bits).unwrap_or(0), high_bits(bits), q, what)
    }

    pub(super) fn prefix(&mut self, q: Qualifiers, text: &str, len: u32) -> Gen<BlockId> {
        let written = format!("{text}/{len}");
        self.only_for_networks(q, &written)?;
        let (address, bits) = self.parse_dotted(text)?;
        if len > 32 {
            return Err(self.error(ErrorKind::Value, format!("prefix length {len} greater than maximum 32")));
        }
        self.network4(q, address.checked_shl(32 - bits).unwrap_or(0), high_bits(len), &written)
    }

    pub(super) fn masked(&mut self, q: Qualifiers, text: &str, mask: &str) -> Gen<BlockId> {
        let written = format!("{text} mask {mask}");
        self.only_for_networks(q, &written)?;
        let (address, bits) = self.parse_dotted(text)?;
        let (mask, mask_bits) = self.parse_dotted(mask)?;
        let shifted = |v: u32, bits: u32| v.checked_shl(32 - bits).unwrap_or(0);
        self.network4(q, shifted(address, bits), shifted(mask, mask_bits), &written)
    }

    fn network4(&mut self, q: Qualifiers, address: u32, mask: u32, written: &str) -> Gen<BlockId> {
        if address & !mask != 0 {
            let message = format!("non-network bits set in \"{written}\"");
            return Err(self.error(ErrorKind::Value, message));
        }
        self.host4(address, mask, q, "net <IPv4 prefix>")
    }

    /// An error unless the id is a network: only networks have a prefix or a mask.
    fn only_for_networks(&self, q: Qualifiers, written: &str) -> Gen<()> {
        if q.protocol == Some(Protocol::Decnet) {
            return self.not_a_qualifier("decnet", q.kind.name());
        }
        match q.kind {
            IdKind::Net => Ok(()),
            kind => self.not_a_qualifier(kind.name(), written),
        }
    }

    pub(super) fn v6(
        &mut self,
        q: Qualifiers,
        address: [u8; 16],
        text: &str,
        len: Option<u32>,
    ) -> Gen<BlockId> {
        let written = match len {
            Some(len) => format!("{text}/{len}"),
            None => text.to_owned(),
        };
        if q.kind == IdKind::Gateway {
            return self.not_a_qualifier("gateway", &written);
        }
        let len = len.unwrap_or(128);
        if len > 128 {
            return Err(self.error(ErrorKind::Value, format!("prefix length {len} greater than maximum 128")));
        }
        if q.kind != IdKind::Net && len != 128 {
            return self.not_a_qualifier("host", &written);
        }
        let mask = (!u128::MAX.checked_shr(len).unwrap_or(0)).to_be_bytes();
        if u128::from_be_bytes(address) & !u128::from_be_bytes(mask) != 0 {
            let message = format!("non-network bits set in \"{written}\"");
            return Err(self.error(ErrorKind::Value, message));
        }
        let what = if q.kind == IdKind::Net { "net <IPv6 prefix>" } else { "host <IPv6 address>" };
        self.host6(address, mask, q, what)
    }

    pub(super) fn named_host(&mut self, mut q: Qualifiers, name: &str, resolved: &Resolved) -> Gen<BlockId> {
        match q.protocol {
            Some(Protocol::Link) => {
                let Some(mac) = resolved.mac else {
                    let message = format!("unknown Ethernet-like host '{name}'");
                    return Err(self.error(ErrorKind::Value, message));
                };
                return self.link_host(&mac, q.direction);
            }
            Some(Protocol::Decnet) => {
                return Err(self.error(ErrorKind::Value, format!("invalid DECnet address '{name}'")));
            }
            _ => {}
        }
        if let Some(p) = q.protocol
            && !matches!(p, Protocol::Ip | Protocol::Arp | Protocol::Rarp | Protocol::Ip6)
        {
            return self.not_a_qualifier(p.name(), "host <name>");
        }
        let untyped = self.off_type.constant == NOT_SET && q.protocol.is_none();
        let mut result = None;
        for address in &resolved.addresses {
            let b = match address {
                IpAddr::V4(_) if q.protocol == Some(Protocol::Ip6) => continue,
                IpAddr::V6(_) if !matches!(q.protocol, None | Some(Protocol::Ip6)) => continue,
                IpAddr::V4(a) => {
                    let saved = q.protocol;
                    if untyped {
                        q.protocol = Some(Protocol::Ip);
                    }
                    let b = self.host4(u32::from(*a), u32::MAX, q, "host <IPv4 address>")?;
                    q.protocol = saved;
                    b
                }
                IpAddr::V6(a) => self.host6(a.octets(), [0xff; 16], q, "host <IPv6 address>")?,
            };
            result = Some(match result {
                Some(before) => self.graph.or(before, b),
                None => b,
            });
        }
        result.ok_or_else(|| {
            let family = if q.protocol.is_some() && !resolved.addresses.is_empty() {
                " for specified address family"
            } else {
                ""
            };
            self.error(ErrorKind::Value, format!("unknown host '{name}'{family}"))
        })
    }

    /// A packet that passes through a host without being addressed to it or sent by it.
    pub(super) fn gateway(&mut self, q: Qualifiers, name: &str, resolved: &Resolved) -> Gen<BlockId> {
        if self.tunnelled {
            let message = "'gateway' cannot be used within VXLAN or Geneve";
            return Err(self.error(ErrorKind::Qualifier, message));
        }
        if let Some(p) = q.protocol
            && !matches!(p, Protocol::Ip | Protocol::Arp | Protocol::Rarp)
        {
            return self.not_a_qualifier(p.name(), "gateway");
        }
        let has_macs = is_ethernet(self.link) || self.link == LinkType::FDDI || linktype::is_wlan(self.link);
        if !has_macs {
            return self.unsupported("gateway");
        }
        let Some(mac) = resolved.mac else {
            return Err(self.error(ErrorKind::Value, format!("unknown Ethernet-like host '{name}'")));
        };
        let b0 = self.link_host(&mac, Side::SrcOrDst)?;
        let mut hosts = None;
        for address in &resolved.addresses {
            let IpAddr::V4(a) = address else { continue };
            let q = Qualifiers { direction: Side::SrcOrDst, ..q };
            let b = self.host4(u32::from(*a), u32::MAX, q, "host <IPv4 address>")?;
            hosts = Some(match hosts {
                Some(before) => self.graph.or(before, b),
                None => b,
            });
        }
        let Some(b1) = hosts else {
            return Err(self.error(ErrorKind::Value, format!("unknown host '{name}'")));
        };
        self.graph.not(b1);
        Ok(self.graph.and(b0, b1))
    }

    pub(super) fn mac(&mut self, q: Qualifiers, mac: &[u8; 6]) -> Gen<BlockId> {
        if !matches!(q.kind, IdKind::Default | IdKind::Host) || q.protocol != Some(Protocol::Link) {
            return Err(self.error(ErrorKind::Qualifier, "Ethernet address used in non-ether expression"));
        }
        self.link_host(mac, q.direction)
    }

    fn link_host(&mut self, mac: &[u8; 6], side: Side) -> Gen<BlockId> {
        match self.link {
            link if is_ethernet(link) => {
                let link = self.tunnel_has_link()?;
                let b = sides(self, side, |g, src| g.bytes(Base::Link, if src { 6 } else { 0 }, mac))?;
                Ok(match link {
                    Some(link) => self.graph.and(link, b),
                    None => b,
                })
            }
            link if linktype::is_wlan(link) => self.wlan_host(mac, side),
            LinkType::FDDI => self.fddi_host(mac, side),
            _ => self.unsupported("link host"),
        }
    }

    fn decnet_host(&mut self, q: Qualifiers, text: &str) -> Gen<BlockId> {
        if !matches!(q.kind, IdKind::Default | IdKind::Host) {
            return self.not_a_qualifier("decnet", q.kind.name());
        }
        let Some(address) = decnet(text) else {
            return Err(self.error(ErrorKind::Value, format!("invalid DECnet address '{text}'")));
        };
        // Numbers on the wire are little-endian.
        let swapped = |v: u32| u32::from((v as u16).swap_bytes());
        let address = swapped(address);
        sides(self, q.direction, |g, src| {
            let (short, long) = if src { (3, 15) } else { (1, 7) };
            let b0 = g.linktype(u32::from(ethertype::DECNET))?;
            let one_pad = |g: &mut Generator, flags: u32| {
                g.equal_masked(Base::Payload, 2, op::H, swapped(flags), swapped(0x07ff))
            };
            let tmp = one_pad(g, 0x0681)?;
            let b1 = g.equal(Base::Payload, 2 + 1 + long, op::H, address)?;
            let b1 = g.graph.and(tmp, b1);
            let tmp = g.equal_masked(Base::Payload, 2, op::B, 0x06, 0x07)?;
            let b2 = g.equal(Base::Payload, 2 + long, op::H, address)?;
            let b2 = g.graph.and(tmp, b2);
            let b1 = g.graph.or(b2, b1);
            let tmp = one_pad(g, 0x0281)?;
            let b2 = g.equal(Base::Payload, 2 + 1 + short, op::H, address)?;
            let b2 = g.graph.and(tmp, b2);
            let b1 = g.graph.or(b2, b1);
            let tmp = g.equal_masked(Base::Payload, 2, op::B, 0x02, 0x07)?;
            let b2 = g.equal(Base::Payload, 2 + short, op::H, address)?;
            let b2 = g.graph.and(tmp, b2);
            let b1 = g.graph.or(b2, b1);
            Ok(g.graph.and(b0, b1))
        })
    }
}
