//! A packet as a program reads it: its bytes as captured, or without VLAN tags, MPLS labels and PPPoE header. No byte
//! is copied.

use weir_wire::{Hints, Layers, LinkType, Network, Packet, Tag, decode};

use crate::bpf::extension;
use crate::link::{finds_network_by_layers, tagged_ethernet};
use crate::names::ethertype;

/// Maximum number of tags, labels or sessions that tests can reach by depth; deeper ones are looked through.
const DEPTH: usize = 16;

/// The headers between the link layer and the network layer of one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encapsulation {
    /// Offset of the link layer's type field.
    type_at: u32,
    /// The EtherType at that position after their removal.
    type_bytes: [u8; 2],
    /// Bytes of the link-layer header without these headers.
    header: u32,
    /// Offset of the network header in the captured packet.
    network: u32,
    vlan: Stack,
    mpls: Stack,
    pppoe: Stack,
    /// Removed EtherTypes, one bit for each of [`ENCAPSULATIONS`].
    types: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stack {
    values: [u32; DEPTH],
    len: usize,
}

impl Stack {
    fn push(&mut self, value: u32) {
        if let Some(slot) = self.values.get_mut(self.len) {
            *slot = value;
            self.len += 1;
        }
    }

    fn get(&self, index: u32) -> u32 {
        self.values
            .get(..self.len)
            .unwrap_or_default()
            .get(index as usize)
            .copied()
            .unwrap_or(extension::ABSENT)
    }
}

/// EtherTypes that only announce another header before the network layer.
pub(crate) const ENCAPSULATIONS: [u16; 8] = [
    ethertype::VLAN,
    ethertype::PROVIDER_BRIDGE,
    ethertype::QINQ_OLD,
    ethertype::QINQ_OLD_2,
    ethertype::QINQ_OLD_3,
    ethertype::MPLS,
    ethertype::MPLS_MULTICAST,
    ethertype::PPPOE_SESSION,
];

const PPP_ADDRESS_AND_CONTROL: u16 = 0xff03;
const PPP_IP: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: u16 = 0x0281;
const PPP_MPLS_MULTICAST: u16 = 0x0283;

/// A reserved EtherType of IEEE 802, which no packet has.
const NOTHING: u16 = 0xffff;

/// Offset at which a program finds the EtherType of a packet whose network header is found by decoding
/// ([`finds_network_by_layers`]). [`LAYERS_HEADER`] is the offset of its network header.
pub(crate) const LAYERS_TYPE: u32 = 0;
/// See [`LAYERS_TYPE`].
pub(crate) const LAYERS_HEADER: u32 = 2;

/// Offsets of the type field and of the payload of the link types that can carry tags or labels.
fn layout(link: LinkType) -> Option<(u32, u32)> {
    if let Some((_, kind)) = tagged_ethernet(link) {
        return Some((kind, kind + 2));
    }
    match link {
        LinkType::LINUX_SLL => Some((14, 16)),
        LinkType::LINUX_SLL2 => Some((0, 20)),
        LinkType::PPP | LinkType::PPP_HDLC | LinkType::C_HDLC => Some((2, 4)),
        _ => None,
    }
}

impl Encapsulation {
    /// The removable headers of a packet, if it has some. The first comparison decides for nearly every packet.
    pub fn of(packet: &Packet<'_>, layers: Option<&Layers>) -> Option<Self> {
        let data = packet.data;
        if finds_network_by_layers(packet.link) {
            let found = layers.copied().unwrap_or_else(|| decode(packet));
            return Some(Self::found(packet, &found));
        }
        let (type_at, header) = layout(packet.link)?;
        let ppp = matches!(packet.link, LinkType::PPP | LinkType::PPP_HDLC);
        let mut kind = u16_at(data, type_at)?;
        if ppp {
            // Without address and control fields, the protocol is not at this offset.
            kind = if u16_at(data, 0)? == PPP_ADDRESS_AND_CONTROL { from_ppp(kind) } else { NOTHING };
        }
        if !ENCAPSULATIONS.contains(&kind) {
            return None;
        }
        let mut e = Self {
            type_at,
            type_bytes: [0; 2],
            header,
            network: header,
            vlan: Stack::default(),
            mpls: Stack::default(),
            pppoe: Stack::default(),
            types: 0,
        };
        while let Some(bit) = ENCAPSULATIONS.iter().position(|t| *t == kind) {
            let Some(next) = e.header(data, kind) else { break };
            e.types |= 1 << bit;
            kind = next;
        }
        if e.types == 0 {
            return None;
        }
        if let Some(l) = layers
            && l.network_kind != Network::None
            && l.network >= e.network
        {
            e.network = l.network;
            kind = l.ether_type;
        }
        e.type_bytes = if ppp { to_ppp(kind) } else { kind }.to_be_bytes();
        Some(e)
    }

    /// The network header that decoding has found, with only an EtherType before it. A packet without one gets the
    /// reserved EtherType and ends after it.
    fn found(packet: &Packet<'_>, layers: &Layers) -> Self {
        let (kind, network) = match layers.network_kind {
            Network::None if layers.ether_type == 0 => (NOTHING, packet.data.len() as u32),
            _ => (layers.ether_type, layers.network),
        };
        Self {
            type_at: LAYERS_TYPE,
            type_bytes: kind.to_be_bytes(),
            header: LAYERS_HEADER,
            network,
            vlan: Stack::default(),
            mpls: Stack::default(),
            pppoe: Stack::default(),
            types: 0,
        }
    }

    /// The EtherType after all of these headers, and the offset of its header.
    pub fn carries(&self) -> (u16, u32) {
        let kind = u16::from_be_bytes(self.type_bytes);
        (kind, self.network)
    }

    /// The outermost VLAN tag.
    pub fn tag(&self) -> Tag {
        match self.vlan.get(0) {
            extension::ABSENT => Tag::NONE,
            id => Tag::vlan(id as u16),
        }
    }

    /// Skips one header; `None` if it was not captured in full.
    fn header(&mut self, data: &[u8], kind: u16) -> Option<u16> {
        match kind {
            ethertype::MPLS | ethertype::MPLS_MULTICAST => loop {
                let entry = u32_at(data, self.network)?;
                self.mpls.push(entry >> 12);
                self.network += 4;
                if entry & 0x100 != 0 {
                    return Some(match data.get(self.network as usize)? >> 4 {
                        4 => ethertype::IP,
                        6 => ethertype::IPV6,
                        _ => NOTHING,
                    });
                }
            },
            ethertype::PPPOE_SESSION => {
                let session = u16_at(data, self.network + 2)?;
                let first = *data.get(self.network as usize + 6)?;
                // A protocol below 256 may be one byte long (RFC 1661 6.5).
                let (protocol, len) = match first & 1 {
                    1 => (u16::from(first), 7),
                    _ => (u16_at(data, self.network + 6)?, 8),
                };
                self.pppoe.push(u32::from(session));
                self.network += len;
                Some(from_ppp(protocol))
            }
            _ => {
                let control = u16_at(data, self.network)?;
                let next = u16_at(data, self.network + 2)?;
                self.vlan.push(u32::from(control & 0xfff));
                self.network += 4;
                Some(next)
            }
        }
    }

    /// Byte `k` of the packet without these headers.
    fn byte(&self, data: &[u8], k: u32) -> Option<u8> {
        let at = if k >= self.header {
            k.checked_add(self.network)?.checked_sub(self.header)?
        } else {
            match k.checked_sub(self.type_at) {
                Some(0) => return Some(self.type_bytes[0]),
                Some(1) => return Some(self.type_bytes[1]),
                _ => k,
            }
        };
        data.get(at as usize).copied()
    }
}

fn from_ppp(protocol: u16) -> u16 {
    match protocol {
        PPP_IP => ethertype::IP,
        PPP_IPV6 => ethertype::IPV6,
        PPP_MPLS => ethertype::MPLS,
        PPP_MPLS_MULTICAST => ethertype::MPLS_MULTICAST,
        _ => NOTHING,
    }
}

fn to_ppp(kind: u16) -> u16 {
    match kind {
        ethertype::IP => PPP_IP,
        ethertype::IPV6 => PPP_IPV6,
        _ => NOTHING,
    }
}

fn bytes<const N: usize>(data: &[u8], at: u32) -> Option<[u8; N]> {
    data.get(at as usize..)?.first_chunk().copied()
}

fn u16_at(data: &[u8], at: u32) -> Option<u16> {
    bytes(data, at).map(u16::from_be_bytes)
}

fn u32_at(data: &[u8], at: u32) -> Option<u32> {
    bytes(data, at).map(u32::from_be_bytes)
}

/// A packet as a program reads it. Loads are in network byte order, and `None` beyond the captured bytes.
pub(crate) trait View: Copy {
    fn packet(&self) -> &Packet<'_>;

    fn u8(&self, k: u32) -> Option<u32>;

    fn u16(&self, k: u32) -> Option<u32>;

    fn u32(&self, k: u32) -> Option<u32>;

    /// See [`extension`].
    fn extension(&self, k: u32) -> u32;
}

/// A packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<'a>(pub &'a Packet<'a>);

impl View for Plain<'_> {
    #[inline]
    fn packet(&self) -> &Packet<'_> {
        self.0
    }

    #[inline]
    fn u8(&self, k: u32) -> Option<u32> {
        self.0.data.get(k as usize).map(|b| u32::from(*b))
    }

    #[inline]
    fn u16(&self, k: u32) -> Option<u32> {
        u16_at(self.0.data, k).map(u32::from)
    }

    #[inline]
    fn u32(&self, k: u32) -> Option<u32> {
        u32_at(self.0.data, k)
    }

    fn extension(&self, k: u32) -> u32 {
        match extension::split(k).0 {
            extension::PACKET_TYPE if self.0.hints.has(Hints::OUTBOUND) => 4,
            extension::VLAN | extension::MPLS | extension::PPPOE => extension::ABSENT,
            _ => 0,
        }
    }
}

/// A packet without its tags, labels and PPPoE header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decapsulated<'a>(pub &'a Packet<'a>, pub &'a Encapsulation);

impl View for Decapsulated<'_> {
    fn packet(&self) -> &Packet<'_> {
        self.0
    }

    fn u8(&self, k: u32) -> Option<u32> {
        self.1.byte(self.0.data, k).map(u32::from)
    }

    fn u16(&self, k: u32) -> Option<u32> {
        Some(self.u8(k)? << 8 | self.u8(k.checked_add(1)?)?)
    }

    fn u32(&self, k: u32) -> Option<u32> {
        Some(self.u16(k)? << 16 | self.u16(k.checked_add(2)?)?)
    }

    fn extension(&self, k: u32) -> u32 {
        let (kind, value) = extension::split(k);
        match kind {
            extension::VLAN => self.1.vlan.get(value),
            extension::MPLS => self.1.mpls.get(value),
            extension::PPPOE => self.1.pppoe.get(value),
            extension::HAS_TYPE => {
                let bit = ENCAPSULATIONS.iter().position(|t| u32::from(*t) == value);
                u32::from(bit.is_some_and(|bit| self.1.types >> bit & 1 == 1))
            }
            _ => Plain(self.0).extension(k),
        }
    }
}
