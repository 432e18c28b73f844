//! The properties of a packet's headers that an expression can test, apart from addresses, ports and single bytes, as
//! a number below about a thousand. A set of kinds is a bit set.

use crate::names::{ethertype, ip_protocol};

/// A packet's kind: its network protocol, the next protocol, and whether it can have ports.
pub(super) type Kind = u16;

/// IPv4: the protocol, and one more for a later fragment.
const IP: u16 = 0;
/// IPv6: the next header of the fixed header.
const IP6: u16 = 512;
/// IPv6: the next header of a fragment header directly after the fixed one.
const IP6_FRAGMENT: u16 = 768;
pub(super) const ARP: Kind = 1024;
pub(super) const RARP: Kind = 1025;
/// All other EtherTypes; ARP, RARP and a few more have kinds of their own.
pub(super) const OTHER: Kind = 1026;
const LISTED: [u16; 9] = [
    ethertype::PPPOE_DISCOVERY,
    ethertype::DECNET,
    ethertype::LAT,
    ethertype::MOPDL,
    ethertype::MOPRC,
    ethertype::SCA,
    ethertype::LLDP,
    ethertype::SLOW,
    ethertype::LOOPBACK,
];
pub(super) const KINDS: usize = 1027 + LISTED.len();

const WORDS: usize = KINDS.div_ceil(64);

/// IPv4 with this protocol.
#[inline]
pub(super) fn ip(protocol: u8, later_fragment: bool) -> Kind {
    IP + u16::from(protocol) * 2 + u16::from(later_fragment)
}

/// IPv6 with this next header.
#[inline]
pub(super) fn ip6(next: u8) -> Kind {
    IP6 + u16::from(next)
}

/// IPv6 with a fragment header directly after the fixed one, and this next header after it.
#[inline]
pub(super) fn ip6_fragment(next: u8) -> Kind {
    IP6_FRAGMENT + u16::from(next)
}

/// Neither IP nor ARP: by EtherType.
#[inline]
pub(super) fn other(ether_type: u16) -> Kind {
    LISTED.iter().position(|listed| *listed == ether_type).map_or(OTHER, |at| OTHER + 1 + at as u16)
}

/// Whether an expression finds ports in packets of this kind.
#[inline]
pub(super) fn has_ports(kind: Kind) -> bool {
    const PROTOCOLS: [u32; 3] = [ip_protocol::TCP, ip_protocol::UDP, ip_protocol::SCTP];
    match kind {
        IP..IP6 => kind & 1 == 0 && PROTOCOLS.contains(&(u32::from(kind - IP) / 2)),
        IP6..IP6_FRAGMENT => PROTOCOLS.contains(&u32::from(kind - IP6)),
        _ => false,
    }
}

/// Whether packets of this kind have IPv4 addresses.
#[inline]
pub(super) fn is_v4(kind: Kind) -> bool {
    kind < IP6 || kind == ARP || kind == RARP
}

/// Whether packets of this kind have IPv6 addresses.
#[inline]
pub(super) fn is_v6(kind: Kind) -> bool {
    (IP6..ARP).contains(&kind)
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Kinds([u64; WORDS]);

/// Thousands of terms share a few sets: one number distinguishes the sets, and is fast to compute.
impl std::hash::Hash for Kinds {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.iter().fold(0, |all: u64, word| all.rotate_left(7) ^ word));
    }
}

impl Kinds {
    pub const NONE: Self = Self([0; WORDS]);

    pub fn all() -> Self {
        Self::NONE.complement()
    }

    /// All kinds of IPv4.
    pub fn ip() -> Self {
        Self::of(IP..IP6)
    }

    /// All kinds of IPv6.
    pub fn ip6() -> Self {
        Self::of(IP6..ARP)
    }

    /// IPv4 with this protocol, fragments included.
    pub fn ip_protocol(protocol: u8) -> Self {
        Self::of([ip(protocol, false), ip(protocol, true)])
    }

    /// IPv6 with this protocol, directly after the fixed header or a fragment header.
    pub fn ip6_protocol(protocol: u8) -> Self {
        Self::of([ip6(protocol), ip6_fragment(protocol)]).union(&if u32::from(protocol)
            == ip_protocol::FRAGMENT
        {
            Self::of(IP6_FRAGMENT..ARP)
        } else {
            Self::NONE
        })
    }

    /// The packets of one of these protocols in which an expression finds ports.
    pub fn with_ports(protocols: &[u8]) -> Self {
        Self::of(protocols.iter().flat_map(|p| [ip(*p, false), ip6(*p)]))
    }

    pub fn of(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let mut set = Self::NONE;
        for kind in kinds {
            if let Some(word) = set.0.get_mut(usize::from(kind) / 64) {
                *word |= 1 << (kind % 64);
            }
        }
        set
    }

    pub fn contains(&self, kind: Kind) -> bool {
        self.0.get(usize::from(kind) / 64).is_some_and(|word| word >> (kind % 64) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    pub fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    pub fn intersection(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    pub fn complement(&self) -> Self {
        let last = KINDS % 64;
        Self(std::array::from_fn(|at| {
            let all = if at == WORDS - 1 && last != 0 { (1 << last) - 1 } else { u64::MAX };
            !self.0[at] & all
        }))
    }
}

/// Classes of kinds that no expression of a set distinguishes: their number is small.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// Class by kind.
    class: Box<[u16; KINDS]>,
    /// Class by kind of IPv4, with [`HAS_PORTS`] if it has ports.
    ip: Box<[u32; IP6 as usize]>,
    /// The properties of each class.
    traits: Vec<Traits>,
    /// An example kind of each class.
    example: Vec<Kind>,
}

const HAS_PORTS: u32 = 1 << 31;

/// The properties of the packets of a class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    pub v4: bool,
    pub v6: bool,
    pub ports: bool,
}

impl Classes {
    /// The coarsest classes of which each of `sets` is a union.
    pub fn new<'s>(sets: impl Iterator<Item = &'s Kinds>) -> Self {
        let mut class = Box::new([0_u16; KINDS]);
        // The layout of packets is always distinguished: other tables depend on it.
        let fixed = [
            Kinds::of((0..KINDS as Kind).filter(|kind| is_v4(*kind))),
            Kinds::ip6(),
            Kinds::of((0..KINDS as Kind).filter(|kind| has_ports(*kind))),
        ];
        let mut count = 1_u16;
        for set in fixed.into_iter().chain(sets.copied()) {
            // A class that is partly in the set is split: its part in the set gets a new number.
            let mut inside = vec![None; usize::from(count)];
            let mut has_outside = vec![false; usize::from(count)];
            for (kind, of) in class.iter().enumerate() {
                let of = usize::from(*of);
                if set.contains(kind as Kind) {
                    inside[of] = Some(of as u16);
                } else {
                    has_outside[of] = true;
                }
            }
            for (of, number) in inside.iter_mut().enumerate() {
                if number.is_some() && has_outside[of] {
                    *number = Some(count);
                    count += 1;
                }
            }
            for (kind, of) in class.iter_mut().enumerate() {
                if set.contains(kind as Kind)
                    && let Some(number) = inside[usize::from(*of)]
                {
                    *of = number;
                }
            }
        }
        let mut example = vec![0; usize::from(count)];
        for (kind, of) in class.iter().enumerate() {
            example[usize::from(*of)] = kind as Kind;
        }
        let traits = |kind: &Kind| Traits { v4: is_v4(*kind), v6: is_v6(*kind), ports: has_ports(*kind) };
        let ip = Box::new(std::array::from_fn(|kind| {
            u32::from(class[kind]) | if has_ports(kind as Kind) { HAS_PORTS } else { 0 }
        }));
        Self { class, ip, traits: example.iter().map(traits).collect(), example }
    }

    /// The class of an IPv4 packet, and a mask of all ones if it has ports.
    #[inline(always)]
    pub fn of_ip(&self, protocol: u8, later_fragment: bool) -> (u16, u32) {
        let found = self.ip[usize::from(ip(protocol, later_fragment)) % self.ip.len()];
        (found as u16, ((found & HAS_PORTS) as i32 >> 31) as u32)
    }

    #[inline]
    pub fn traits(&self, class: u16) -> Traits {
        self.traits.get(usize::from(class)).copied().unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.example.len()
    }

    #[inline]
    pub fn of(&self, kind: Kind) -> u16 {
        self.class.get(usize::from(kind)).copied().unwrap_or(0)
    }

    /// An example kind of the class.
    pub fn example(&self, class: usize) -> Kind {
        self.example.get(class).copied().unwrap_or(OTHER)
    }

    /// The classes in a set of kinds.
    pub fn within(&self, set: &Kinds) -> Vec<u16> {
        (0..self.len()).filter(|class| set.contains(self.example(*class))).map(|class| class as u16).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_distinguish_what_the_sets_distinguish() {
        let sets = [Kinds::ip(), Kinds::ip_protocol(6), Kinds::with_ports(&[6, 17]), Kinds::of([ARP])];
        let classes = Classes::new(sets.iter());
        assert!(classes.len() < 16, "{}", classes.len());
        for set in &sets {
            for kind in 0..KINDS as Kind {
                let class = classes.of(kind);
                assert_eq!(classes.within(set).contains(&class), set.contains(kind), "{kind}");
            }
        }
        assert_eq!(Kinds::all().complement(), Kinds::NONE);
        assert!(Kinds::all().contains(KINDS as Kind - 1) && !Kinds::all().contains(KINDS as Kind));
    }

    #[test]
    fn ports_are_found_in_the_kinds_that_have_them() {
        assert!(
            has_ports(ip(6, false))
                && !has_ports(ip(6, true))
                && has_ports(ip6(17))
                && has_ports(ip(132, false))
        );
        assert!(!has_ports(ip6_fragment(6)) && !has_ports(ip(1, false)) && !has_ports(ARP));
    }
}
