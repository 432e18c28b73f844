//! The facts about a packet that all expressions of a set need, read once.

use super::kind::{ARP, Kind, RARP, has_ports, ip, ip6, ip6_fragment, other};
use crate::names::{ethertype, ip_protocol};
use crate::view::{ENCAPSULATIONS, Encapsulation};
use weir_wire::{FlowKey, Layers, LinkType, Packet, Tag};

/// A packet's kind, addresses and ports, as an expression's program finds them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub kind: Kind,
    /// Whether the packet's kind has ports and at least one was not captured.
    pub ports_missing: bool,
    /// Whether only the source's port was captured; `ports` then holds it twice.
    pub source_port_only: bool,
    /// Source and destination, if they are IPv4 addresses.
    pub v4: [u32; 2],
    /// Ports of the source and of the destination; 0 if the kind has none.
    pub ports: [u16; 2],
    /// The outermost VLAN tag, if tags are looked through.
    pub tag: Tag,
    /// Offset of the network header.
    pub network: u32,
    /// Offset after an IPv4 header and its options.
    pub transport: u32,
}

/// Reads a packet. `None` if the headers that every expression reads were not captured, and on link types that are
/// left to programs. `layers`, if given, must be the packet's own.
#[inline]
pub(super) fn look(packet: &Packet<'_>, layers: Option<&Layers>, look_through: bool) -> Option<Look> {
    let data = packet.data;
    let (kind, network) = match packet.link {
        LinkType::ETHERNET => (u16_at(data, 12)?, 14),
        LinkType::LINUX_SLL => (u16_at(data, 14)?, 16),
        LinkType::LINUX_SLL2 => (u16_at(data, 0)?, 20),
        LinkType::RAW => match data.first()? >> 4 {
            4 => (ethertype::IP, 0),
            6 => (ethertype::IPV6, 0),
            _ => (0, 0),
        },
        LinkType::IPV4 => (ethertype::IP, 0),
        LinkType::IPV6 => (ethertype::IPV6, 0),
        _ => return None,
    };
    let look = match kind {
        ethertype::IP => look_at_ip(data, network),
        ethertype::IPV6 => look_at_ip6(data, network),
        _ => return look_closely(packet, layers, look_through, kind, network),
    }?;
    Some(if network == 0 { Look { tag: Tag::NOWHERE, ..look } } else { look })
}

/// Reads a packet that is not IP directly after the link-layer header.
#[inline(never)]
fn look_closely(
    packet: &Packet<'_>,
    layers: Option<&Layers>,
    look_through: bool,
    mut kind: u16,
    mut network: u32,
) -> Option<Look> {
    let data = packet.data;
    let mut tag = if network == 0 { Tag::NOWHERE } else { Tag::NONE };
    if look_through
        && ENCAPSULATIONS.contains(&kind)
        && let Some(encapsulation) = Encapsulation::of(packet, layers)
    {
        (kind, network) = encapsulation.carries();
        tag = encapsulation.tag();
        match kind {
            ethertype::IP => return Some(Look { tag, ..look_at_ip(data, network)? }),
            ethertype::IPV6 => return Some(Look { tag, ..look_at_ip6(data, network)? }),
            _ => {}
        }
    }
    let nothing = Look { kind: other(kind), tag, network, ..Look::default() };
    if !matches!(kind, ethertype::ARP | ethertype::RARP) {
        return Some(nothing);
    }
    // RFC 826, with addresses of 6 and 4 bytes, which expressions assume.
    let header = data.get(network as usize..)?.first_chunk::<28>()?;
    Some(Look {
        kind: if kind == ethertype::ARP { ARP } else { RARP },
        v4: [
            u32::from_be_bytes([header[14], header[15], header[16], header[17]]),
            u32::from_be_bytes([header[24], header[25], header[26], header[27]]),
        ],
        ..nothing
    })
}

#[inline(always)]
fn look_at_ip(data: &[u8], network: u32) -> Option<Look> {
    let header = data.get(network as usize..)?.first_chunk::<20>()?;
    let later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let mut look = Look {
        kind: ip(header[9], later),
        v4: [
            u32::from_be_bytes([header[12], header[13], header[14], header[15]]),
            u32::from_be_bytes([header[16], header[17], header[18], header[19]]),
        ],
        network,
        transport: network + u32::from(header[0] & 0xf) * 4,
        ..Look::default()
    };
    read_ports(data, &mut look);
    Some(look)
}

#[inline(always)]
fn look_at_ip6(data: &[u8], network: u32) -> Option<Look> {
    let header = data.get(network as usize..)?.first_chunk::<40>()?;
    let next = header[6];
    let transport = network + 40;
    let kind = match u32::from(next) {
        ip_protocol::FRAGMENT => ip6_fragment(*data.get(transport as usize)?),
        _ => ip6(next),
    };
    let mut look = Look { kind, network, transport, ..Look::default() };
    read_ports(data, &mut look);
    Some(look)
}

#[inline(always)]
fn read_ports(data: &[u8], look: &mut Look) {
    if has_ports(look.kind) {
        match data.get(look.transport as usize..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(&[a, b, c, d]) => {
                look.ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            }
            None => {
                look.ports_missing = true;
                if let Some(port) = u16_at(data, look.transport as usize) {
                    look.ports = [port; 2];
                    look.source_port_only = true;
                }
            }
        }
    }
}

/// Source and destination address of an IPv6 packet.
#[inline]
pub(super) fn v6_addresses(data: &[u8], look: &Look) -> [u128; 2] {
    let at = |from: usize| {
        let bytes = data.get(look.network as usize + from..).and_then(|rest| rest.first_chunk::<16>());
        bytes.map_or(0, |bytes| u128::from_be_bytes(*bytes))
    };
    [at(8), at(24)]
}

/// The facts of one direction of a flow whose packets show its key ([`Layers::is_plain_ip`]) and have one tag, and its
/// addresses if they are IPv6.
#[inline]
pub(super) fn look_at_flow(key: &FlowKey, tag: Tag, source_is_lower: bool) -> (Look, [u128; 2]) {
    const MAPPED: u128 = 0xffff;
    let (from, to) = if source_is_lower { (0, 1) } else { (1, 0) };
    let addresses = [u128::from_be_bytes(key.addr[from]), u128::from_be_bytes(key.addr[to])];
    let is_v4 = addresses.iter().all(|address| address >> 32 == MAPPED);
    let kind = if is_v4 { ip(key.proto, false) } else { ip6(key.proto) };
    let ports = if has_ports(kind) { [key.port[from], key.port[to]] } else { [0, 0] };
    (Look { kind, v4: addresses.map(|address| address as u32), ports, tag, ..Look::default() }, addresses)
}

#[inline]
fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk::<2>()?))
}
