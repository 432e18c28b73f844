//! The keys of lists and of distinct counts, for every kind of item.

use crate::keyed::Address;
use crate::{FlowIdentity, FlowRecord, Item, Tally};
use weir_api::Count;
use weir_filter::Directions;
use weir_wire::{Direction, FlowKey, Layers, Network, Packet, addresses, has_ports};

/// An item in the form for lists: the values that their keys consist of. Those of tallies are computed once for all lists.
pub struct Share {
    pub(super) ends: EndpointRoles,
    pub(super) count: Count,
    /// Flows that began with it, or that it is.
    pub(super) flows: u32,
}

impl Share {
    /// The item in the form for lists; `None` if it has no endpoints.
    pub(super) fn of(item: &Item<'_>) -> Option<Self> {
        let flows = match item {
            Item::Packet(..) | Item::Chunk(..) | Item::Buffer(..) | Item::Field(..) => 0,
            Item::Tally(tally) => tally.begins.into(),
            Item::Control(control) => control.tally.begins.into(),
            Item::FlowEnd(flow, _) => (flow.follows == 0).into(),
            Item::Record(_) => 1,
            Item::Error(..) | Item::Question(_) | Item::Requested(_) => return None,
        };
        Some(Self { ends: EndpointRoles::of(item)?, count: item.count(), flows })
    }

    /// The tally in the form for lists.
    #[inline]
    pub(crate) fn of_tally(tally: &Tally<'_>) -> Self {
        let count = Count { packets: tally.packets, bytes: tally.bytes };
        Self { ends: EndpointRoles::of_tally(tally), count, flows: tally.begins.into() }
    }
}

/// The endpoints of a packet, of a direction of a flow or of its stream, or of a flow.
pub(super) struct EndpointRoles {
    pub source: Address,
    pub destination: Address,
    /// Ports of source and destination; 0 for protocols without ports.
    pub ports: [u16; 2],
    pub protocol: u8,
    pub vlan: u16,
    /// Whether the source is the flow's initiator; `None` if the flow is not tracked.
    pub from_initiator: Option<bool>,
}

impl EndpointRoles {
    /// The endpoints of an item; `None` for a packet that is not IP or is truncated before its addresses.
    #[inline]
    pub fn of(item: &Item<'_>) -> Option<Self> {
        match item {
            Item::Packet(packet, layers) => Self::of_packet(packet, layers),
            Item::Tally(tally) => Some(Self::of_tally(tally)),
            Item::Control(control) => Some(Self::of_tally(&control.tally)),
            Item::Chunk(flow, chunk) => Some(Self::of_side(flow, chunk.direction)),
            Item::Buffer(flow, _, side, _) => Some(Self::of_side(flow, *side)),
            Item::Field(flow, ..) => Some(Self::of_side(flow, Direction::Forward)),
            Item::FlowEnd(flow, directions) => Some(Self::of_flow(flow, *directions)),
            Item::Error(..) | Item::Question(_) | Item::Record(_) | Item::Requested(_) => None,
        }
    }

    fn of_packet(packet: &Packet<'_>, layers: &Layers) -> Option<Self> {
        let (source, destination) = match layers.network_kind {
            Network::Ipv4 | Network::Ipv6 => addresses(packet, layers)?,
            Network::None | Network::Arp => return None,
        };
        let ports = if has_ports(layers.ip_proto) && layers.has_transport() { layers.ports } else { [0, 0] };
        Some(Self {
            source: words(source),
            destination: words(destination),
            ports,
            protocol: layers.ip_proto,
            vlan: layers.vlan[0],
            from_initiator: None,
        })
    }

    #[inline]
    fn of_tally(tally: &Tally<'_>) -> Self {
        Self::of_key(
            tally.key,
            tally.source_is_lower,
            tally.vlan,
            tally.source_is_lower == tally.initiator_is_lower,
        )
    }

    /// The endpoints of the stream that a side sends.
    fn of_side(flow: &FlowIdentity, side: Direction) -> Self {
        let from_initiator = side == Direction::Forward;
        let source_is_lower = from_initiator == flow.initiator_is_lower;
        Self::of_key(&flow.key, source_is_lower, flow.vlan[0], from_initiator)
    }

    /// The endpoints of a flow: of its forward direction, unless only the reverse one is selected.
    fn of_flow(flow: &FlowRecord, directions: Directions) -> Self {
        let from_initiator = directions.forward;
        Self::of_key(&flow.key, from_initiator == flow.initiator_is_lower, flow.vlan[0], from_initiator)
    }

    #[inline]
    fn of_key(key: &FlowKey, source_is_lower: bool, vlan: u16, from_initiator: bool) -> Self {
        let (source, destination) = if source_is_lower { (0, 1) } else { (1, 0) };
        let ports = if has_ports(key.proto) { [key.port[source], key.port[destination]] } else { [0, 0] };
        Self {
            source: words(key.addr[source]),
            destination: words(key.addr[destination]),
            ports,
            protocol: key.proto,
            vlan,
            from_initiator: Some(from_initiator),
        }
    }

    /// The server's address and port, and the client's address. If the initiator is not known, the lower port is taken
    /// as the server's.
    #[inline]
    pub fn roles(&self) -> (Address, u16, Address) {
        let [source_port, destination_port] = self.ports;
        if self.from_initiator.unwrap_or(destination_port <= source_port) {
            (self.destination, destination_port, self.source)
        } else {
            (self.source, source_port, self.destination)
        }
    }
}

/// An address as the lists of a worker have it.
#[inline]
pub(super) fn words(address: [u8; 16]) -> Address {
    let address = u128::from_be_bytes(address);
    [(address >> 64) as u64, address as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_port_is_the_servers_if_the_initiator_is_unknown() {
        let mut ends = EndpointRoles {
            source: [0, 1],
            destination: [0, 2],
            ports: [443, 50_000],
            protocol: 6,
            vlan: 0,
            from_initiator: None,
        };
        assert_eq!(ends.roles(), ([0, 1], 443, [0, 2]));
        ends.from_initiator = Some(true);
        assert_eq!(ends.roles(), ([0, 2], 50_000, [0, 1]));
    }
}
