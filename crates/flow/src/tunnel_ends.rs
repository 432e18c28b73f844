//! Tunnels directly over IP, such as GRE, by their endpoints.
//!
//! Their own packets are not a flow, so that the carried packets are counted once. The tunnels are kept apart from the
//! rows and are looked up only for packets inside one.

use crate::FlowIdentity;
use crate::parsed_packet::FlowRef;
use weir_wire::{FlowKey, Time, Tunnel};

/// Number of tunnels in a set.
const WAYS: usize = 4;

/// Idle timeout of a tunnel in nanoseconds: Zeek's.
const LIFETIME: u64 = 3_600_000_000_000;

/// A tunnel directly over IP that was found or has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IpTunnel {
    /// The two endpoints, as in a flow without ports. The sender of the first packet is the initiator. Carried flows
    /// refer to it by [`crate::FlowRecord::parent`].
    pub identity: FlowIdentity,
    /// The kind of tunnel in its first packet.
    pub tunnel: Tunnel,
    /// Time of the first packet; at the end of the tunnel, of the last.
    pub time: Time,
    /// Whether the tunnel has ended: it was idle for an hour.
    pub is_over: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    identity: FlowIdentity,
    tunnel: Tunnel,
    last: Time,
}

impl Entry {
    /// The time at which the tunnel ends if no packet follows.
    fn due(&self) -> Time {
        Time(self.last.0.saturating_add(LIFETIME))
    }

    fn reported(&self, is_over: bool) -> IpTunnel {
        let time = if is_over { self.last } else { self.identity.first };
        IpTunnel { identity: self.identity, tunnel: self.tunnel, time, is_over }
    }
}

/// Recent tunnels, in fixed memory. A tunnel that was evicted counts as new when it returns.
pub(crate) struct TunnelEnds {
    /// Empty until the first tunnel is seen: most runs have no tunnels.
    sets: Vec<[Option<Entry>; WAYS]>,
    size: usize,
    /// Tunnels to report.
    reported: Vec<IpTunnel>,
}

impl TunnelEnds {
    /// Bytes for each set of tunnels.
    pub const BYTES_PER_SET: usize = size_of::<[Option<Entry>; WAYS]>();

    pub fn new(sets: usize) -> Self {
        Self { sets: Vec::new(), size: sets.max(1), reported: Vec::new() }
    }

    /// Takes a packet of a tunnel. Returns the tunnel's identifier.
    pub fn see(&mut self, flow_ref: &FlowRef, tunnel: Tunnel, vlan: [u16; 2], time: Time) -> u64 {
        if self.sets.is_empty() {
            self.sets = vec![[None; WAYS]; self.size];
        }
        let at = ((u128::from(flow_ref.hash) * self.size as u128) >> 64) as usize;
        let Some(set) = self.sets.get_mut(at) else { return 0 };
        let is_it = |entry: &&mut Entry| entry.identity.key == flow_ref.key;
        if let Some(entry) = set.iter_mut().flatten().find(is_it)
            && time.since(entry.last) < LIFETIME
        {
            entry.last = entry.last.max(time);
            return entry.identity.id();
        }
        let known = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.identity.key == flow_ref.key);
        let way = set.iter().position(known).or_else(|| {
            // The least recently seen tunnel; an empty entry is preferred.
            (0..WAYS).min_by_key(|&way| set.get(way).copied().flatten().map(|entry| entry.last))
        });
        let Some(place) = way.and_then(|way| set.get_mut(way)) else { return 0 };
        if let Some(over) = place.filter(|entry| entry.identity.key == flow_ref.key) {
            self.reported.push(over.reported(true));
        }
        let identity = FlowIdentity {
            key: FlowKey { port: [0; 2], ..flow_ref.key },
            initiator_is_lower: flow_ref.sender & 1 == 0,
            first: time,
            vlan,
            alias: 0,
        };
        let entry = place.insert(Entry { identity, tunnel, last: time });
        self.reported.push(entry.reported(false));
        identity.id()
    }

    /// The earliest time at which a tunnel ends.
    pub fn next_due(&self) -> Option<Time> {
        self.sets.iter().flatten().flatten().map(Entry::due).min()
    }

    /// Removes tunnels that were idle for long before `now`.
    pub fn expire(&mut self, now: Time) {
        for place in self.sets.iter_mut().flatten() {
            if let Some(over) = place.take_if(|entry| entry.due() < now) {
                self.reported.push(over.reported(true));
            }
        }
        // The order of the tunnels comes from a keyed hash, which no result may depend on.
        self.reported.sort_by_key(|over| (over.time, over.identity.key));
    }

    /// Tunnels to report.
    #[inline]
    pub fn take(&mut self) -> impl Iterator<Item = IpTunnel> {
        self.reported.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow_ref(n: u8) -> FlowRef {
        let key = FlowKey { addr: [[n; 16], [99; 16]], proto: 47, ..FlowKey::default() };
        FlowRef { hash: 0, key, ..FlowRef::default() }
    }

    #[test]
    fn a_tunnel_is_reported_when_it_is_found_and_when_it_ends() {
        let mut tunnel_ends = TunnelEnds::new(1);
        let mut see = |n: u8, seconds: u64| {
            let name = tunnel_ends.see(&flow_ref(n), Tunnel::Gre, [0; 2], Time(seconds * 1_000_000_000));
            (
                name,
                tunnel_ends
                    .take()
                    .map(|reported| (reported.time.0 / 1_000_000_000, reported.is_over))
                    .collect::<Vec<_>>(),
            )
        };
        let (name, reported) = see(1, 5);
        assert_eq!(reported, [(5, false)]);
        assert_eq!(see(1, 9), (name, vec![]));
        // After an hour without a packet it is a new tunnel.
        let (other, reported) = see(1, 3_609);
        assert_eq!(reported, [(9, true), (3_609, false)]);
        assert_ne!(name, other);
        // An hour after its last packet, exactly, it is not over yet.
        tunnel_ends.expire(Time(7_209_000_000_000));
        assert_eq!(tunnel_ends.take().count(), 0);
        tunnel_ends.expire(Time(7_209_000_000_001));
        assert_eq!(tunnel_ends.take().map(|reported| reported.is_over).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn a_set_never_holds_more_than_its_ways() {
        let mut tunnel_ends = TunnelEnds::new(1);
        for n in 0..50 {
            tunnel_ends.see(&flow_ref(n), Tunnel::Gre, [0; 2], Time(u64::from(n)));
        }
        assert_eq!(tunnel_ends.take().count(), 50);
        assert_eq!(tunnel_ends.sets.iter().flatten().flatten().count(), WAYS);
    }
}
