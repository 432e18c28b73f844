//! The identity of a flow.

use crate::{CommunityId, community_id, hash};
use std::net::{IpAddr, Ipv6Addr};
use weir_wire::{FlowKey, Time};

/// The facts about a flow that accompany every record of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowIdentity {
    /// Its key.
    pub key: FlowKey,
    /// Whether the initiator is the lower endpoint of the key.
    pub initiator_is_lower: bool,
    /// Time of its first packet.
    pub first: Time,
    /// VLAN identifiers of its first packet, 0 when absent.
    pub vlan: [u16; 2],
    /// An identifier that replaces the one computed from key and time if these were changed; 0 for none.
    pub alias: u64,
}

impl FlowIdentity {
    /// The flow's identifier: see [`crate::FlowRecord::id`].
    pub fn id(&self) -> u64 {
        if self.alias == 0 { hash::name(&self.key, self.first) } else { self.alias }
    }

    fn end(&self, at: usize) -> (IpAddr, u16) {
        let address = self.key.addr.get(at).copied().unwrap_or_default();
        (Ipv6Addr::from(address).to_canonical(), self.key.port.get(at).copied().unwrap_or_default())
    }

    /// The initiator's address and port.
    #[inline]
    pub fn initiator(&self) -> (IpAddr, u16) {
        self.end(usize::from(!self.initiator_is_lower))
    }

    /// The responder's address and port.
    #[inline]
    pub fn responder(&self) -> (IpAddr, u16) {
        self.end(usize::from(self.initiator_is_lower))
    }

    /// See [`crate::FlowRecord::community_id`].
    pub fn community_id(&self, seed: u16) -> CommunityId {
        community_id(&self.key, seed)
    }
}
