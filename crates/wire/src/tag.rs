//! The outermost VLAN tag of a packet as one number, for flow keys and sets of expressions.

use crate::{Layers, LinkType};

/// The VLAN tag of a packet in 13 bits: 0 for untagged, else the identifier plus 1 (a priority tag, identifier 0, is a
/// tag), and [`Tag::NOWHERE`] on link types without tags.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tag(u16);

impl Tag {
    /// No tag.
    pub const NONE: Self = Self(0);
    /// A link type on which no packet can have a tag: an expression that requires a tag matches nothing there.
    pub const NOWHERE: Self = Self(Self::MAX);
    /// The largest tag number.
    pub const MAX: u16 = 0x1fff;
    /// First and last number of tagged packets (IEEE 802.1Q 9.6: identifiers have 12 bits).
    pub const TAGGED: (u16, u16) = (1, 0x1000);

    /// A tag with this identifier. Only the lowest 12 bits are used.
    #[inline]
    pub const fn vlan(id: u16) -> Self {
        Self((id & 0xfff) + 1)
    }

    /// The tag of a packet on link type `link`. `layers` are the packet's own.
    #[inline]
    pub fn of(link: LinkType, layers: &Layers) -> Self {
        match link {
            // The common form of packet is Ethernet without a tag.
            _ if layers.common => Self::NONE,
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => Self::NOWHERE,
            _ if layers.vlan_count == 0 => Self::NONE,
            _ => Self::vlan(layers.vlan[0]),
        }
    }

    /// The tag as a number of 13 bits.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The tag of a number. Only the lowest 13 bits are used.
    #[inline]
    pub const fn numbered(number: u16) -> Self {
        Self(number & Self::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{build, decode};

    #[test]
    fn tag_of_a_packet_is_its_outermost_one() {
        let of = |data: Vec<u8>| {
            let packet = build::packet(&data, LinkType::ETHERNET);
            Tag::of(packet.link, &decode(&packet))
        };
        let ip = |frame: build::Builder| frame.ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).payload(b"x");
        assert_eq!(of(ip(build::ethernet())), Tag::NONE);
        assert_eq!(of(ip(build::ethernet().vlan(0))), Tag::vlan(0));
        assert_eq!(of(ip(build::ethernet().vlan(7).vlan(9))), Tag::vlan(7));
        assert_eq!(Tag::vlan(0xffff), Tag::vlan(4095));
        assert_eq!(Tag::of(LinkType::RAW, &Layers::default()), Tag::NOWHERE);
        for tag in [Tag::NONE, Tag::vlan(0), Tag::vlan(4095), Tag::NOWHERE] {
            assert_eq!(Tag::numbered(tag.number()), tag);
        }
    }
}
