//! Kinds of packets of which a link has few. Functions that see such packets alone cost nothing for a block without them.

use crate::non_ip::is_without_ip;
use crate::question::may_ask;
use weir_wire::{Layers, Tunnel, quotes};

/// A kind of packets. None of them is [`Layers::common`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Uncommon {
    /// Packets without IP.
    WithoutIp,
    /// Packets in a tunnel.
    Tunnelled,
    /// Errors of ICMP and ICMPv6, and packets in a tunnel, which may carry them.
    IcmpErrors,
    /// Questions for hosts of the link and answers: ARP and neighbour discovery.
    Questions,
}

impl Uncommon {
    /// Number of kinds.
    pub(crate) const KINDS: usize = 4;
    /// All kinds, by their number.
    pub(crate) const ALL: [Self; Self::KINDS] =
        [Self::WithoutIp, Self::Tunnelled, Self::IcmpErrors, Self::Questions];

    /// Whether a packet with these layers is of the kind.
    pub(crate) fn is(self, layers: &Layers) -> bool {
        match self {
            Self::WithoutIp => is_without_ip(layers),
            Self::Tunnelled => layers.tunnel != Tunnel::None,
            Self::IcmpErrors => layers.tunnel != Tunnel::None || quotes(layers.ip_proto, layers.ports[0]),
            Self::Questions => may_ask(layers),
        }
    }

    /// What functions see, in the text of a plan.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::WithoutIp => "functions see packets without IP",
            Self::Tunnelled => "functions see packets in tunnels",
            Self::IcmpErrors => "functions see ICMP errors",
            Self::Questions => "functions see ARP and neighbour discovery",
        }
    }
}
