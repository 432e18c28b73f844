//! IP fragments: the fields that reassembly needs.

use crate::{Fragment, Layers, Network, Packet};

/// A fragment of an IP packet (RFC 791 3.2, RFC 8200 4.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IpFragment<'a> {
    /// Identification; 16 bits in IPv4.
    pub id: u32,
    /// Protocol or next header of the fragmented part. In IPv6 it may be an extension header.
    pub proto: u8,
    /// Offset of `data` in the fragmented part, in bytes.
    pub offset: u32,
    /// Whether fragments with higher offsets follow.
    pub more: bool,
    /// Offset of `data` in [`Packet::data`].
    pub start: u32,
    /// Bytes of the fragmented part in this packet, as the header claims; `data` has fewer when the capture cut it.
    pub len: u32,
    /// The fragmented part, as far as it was captured.
    pub data: &'a [u8],
}

impl<'a> IpFragment<'a> {
    /// The fragment that a packet holds; `None` for a whole packet.
    pub fn of(packet: &Packet<'a>, layers: &Layers) -> Option<Self> {
        if layers.fragment == Fragment::Whole {
            return None;
        }
        let header = packet.data.get(layers.network as usize..)?;
        let (id, proto, field, size) = match layers.network_kind {
            Network::Ipv4 => {
                let &[first, _, _, _, i0, i1, o0, o1, _, proto, ..] = header.first_chunk::<20>()?;
                let field = u16::from_be_bytes([o0, o1]);
                let size = u32::from(first & 0xf) * 4;
                (u32::from(u16::from_be_bytes([i0, i1])), proto, (field << 3, field & 0x2000 != 0), size)
            }
            Network::Ipv6 => {
                let (at, &[proto, _, o0, o1, i0, i1, i2, i3]) = fragment_header(header)?;
                let field = u16::from_be_bytes([o0, o1]);
                (u32::from_be_bytes([i0, i1, i2, i3]), proto, (field & 0xfff8, field & 1 != 0), at + 8)
            }
            Network::None | Network::Arp => return None,
        };
        let start = layers.network + size;
        let len = layers.network_len.saturating_sub(size);
        let rest = packet.data.get(start as usize..)?;
        let data = rest.get(..len as usize).unwrap_or(rest);
        Some(Self { id, proto, offset: u32::from(field.0), more: field.1, start, len, data })
    }
}

/// The first fragment header of an IPv6 packet that describes a fragment and not a whole packet, and its offset.
fn fragment_header(packet: &[u8]) -> Option<(u32, &[u8; 8])> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AH: u8 = 51;
    const DESTINATION: u8 = 60;
    let mut next = *packet.get(6)?;
    let mut at = 40_u32;
    loop {
        let header = packet.get(at as usize..)?.first_chunk::<8>()?;
        let &[after, len, o0, o1, ..] = header;
        at += match next {
            FRAGMENT if u16::from_be_bytes([o0, o1]) & 0xfff9 != 0 => return Some((at, header)),
            FRAGMENT => 8,
            AH => (u32::from(len) + 2) * 4,
            HOP_BY_HOP | ROUTING | DESTINATION | 135 | 139 | 140 => (u32::from(len) + 1) * 8,
            _ => return None,
        };
        next = after;
    }
}
