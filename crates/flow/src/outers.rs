//! Tunnels right over IP: who sends GRE and the like to whom.
//!
//! Their own packets are no flow, so that what they carry is counted once. What is known of them lies here, apart from
//! the rows, and is looked at only for a packet that has one.

use crate::FlowIdentity;
use crate::sighting::Whose;
use weir_wire::{FlowKey, Time, Tunnel};

/// Tunnels that a set holds.
const WAYS: usize = 4;

/// Nanoseconds without a packet after which a tunnel is over: Zeek's.
const LIFETIME: u64 = 3_600_000_000_000;

/// A tunnel right over IP was found, or is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IpTunnel {
    /// Its two ends, as those of a flow without ports; who sent the first packet is the initiator. What it carries has
    /// the name of it as [`crate::FlowRecord::parent`].
    pub identity: FlowIdentity,
    /// Which tunnel it is, as its first packet says.
    pub tunnel: Tunnel,
    /// Time of the first packet; where it is over, of the last.
    pub time: Time,
    /// No packet came for an hour.
    pub is_over: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    identity: FlowIdentity,
    tunnel: Tunnel,
    last: Time,
}

impl Entry {
    fn told(&self, is_over: bool) -> IpTunnel {
        let time = if is_over { self.last } else { self.identity.first };
        IpTunnel { identity: self.identity, tunnel: self.tunnel, time, is_over }
    }
}

/// The tunnels that were seen lately; of fixed size. One that has to make place is told as new when it comes again.
pub(crate) struct Outers {
    /// Empty until the first tunnel is seen: most runs see none.
    sets: Vec<[Option<Entry>; WAYS]>,
    size: usize,
    /// Those to tell of.
    told: Vec<IpTunnel>,
}

impl Outers {
    /// Octets for each set of tunnels.
    pub const BYTES_PER_SET: usize = size_of::<[Option<Entry>; WAYS]>();

    pub fn new(sets: usize) -> Self {
        Self { sets: Vec::new(), size: sets.max(1), told: Vec::new() }
    }

    /// Takes a packet of a tunnel: the tunnel's name.
    pub fn see(&mut self, whose: &Whose, tunnel: Tunnel, vlan: [u16; 2], time: Time) -> u64 {
        if self.sets.is_empty() {
            self.sets = vec![[None; WAYS]; self.size];
        }
        let at = ((u128::from(whose.hash) * self.size as u128) >> 64) as usize;
        let Some(set) = self.sets.get_mut(at) else { return 0 };
        let is_it = |entry: &&mut Entry| entry.identity.key == whose.key;
        if let Some(entry) = set.iter_mut().flatten().find(is_it)
            && time.since(entry.last) < LIFETIME
        {
            entry.last = entry.last.max(time);
            return entry.identity.id();
        }
        let known = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.identity.key == whose.key);
        let way = set.iter().position(known).or_else(|| {
            // The one that was not seen for longest, an empty one before all.
            (0..WAYS).min_by_key(|&way| set.get(way).copied().flatten().map(|entry| entry.last))
        });
        let Some(place) = way.and_then(|way| set.get_mut(way)) else { return 0 };
        if let Some(over) = place.filter(|entry| entry.identity.key == whose.key) {
            self.told.push(over.told(true));
        }
        let identity = FlowIdentity {
            key: FlowKey { port: [0; 2], ..whose.key },
            initiator_is_lower: whose.sender & 1 == 0,
            first: time,
            vlan,
            alias: 0,
        };
        let entry = place.insert(Entry { identity, tunnel, last: time });
        self.told.push(entry.told(false));
        identity.id()
    }

    /// Forgets those of which nothing came for long before `now`.
    pub fn expire(&mut self, now: Time) {
        for place in self.sets.iter_mut().flatten() {
            if let Some(over) = place.take_if(|entry| now.since(entry.last) >= LIFETIME) {
                self.told.push(over.told(true));
            }
        }
        // They lie in the order of a keyed hash, which no result may depend on.
        self.told.sort_by_key(|over| (over.time, over.identity.key));
    }

    /// Those to tell of.
    #[inline]
    pub fn take(&mut self) -> impl Iterator<Item = IpTunnel> {
        self.told.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(n: u8) -> Whose {
        let key = FlowKey { addr: [[n; 16], [99; 16]], proto: 47, ..FlowKey::default() };
        Whose { hash: 0, key, ..Whose::default() }
    }

    #[test]
    fn a_tunnel_is_told_when_it_is_found_and_when_it_is_over() {
        let mut outers = Outers::new(1);
        let mut see = |n: u8, seconds: u64| {
            let name = outers.see(&whose(n), Tunnel::Gre, [0; 2], Time(seconds * 1_000_000_000));
            (name, outers.take().map(|told| (told.time.0 / 1_000_000_000, told.is_over)).collect::<Vec<_>>())
        };
        let (name, told) = see(1, 5);
        assert_eq!(told, [(5, false)]);
        assert_eq!(see(1, 9), (name, vec![]));
        // After an hour without a packet it is another.
        let (other, told) = see(1, 3_609);
        assert_eq!(told, [(9, true), (3_609, false)]);
        assert_ne!(name, other);
        outers.expire(Time(7_208_000_000_000));
        assert_eq!(outers.take().count(), 0);
        outers.expire(Time(7_209_000_000_000));
        assert_eq!(outers.take().map(|told| told.is_over).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn there_is_never_more_than_a_set_holds() {
        let mut outers = Outers::new(1);
        for n in 0..50 {
            outers.see(&whose(n), Tunnel::Gre, [0; 2], Time(u64::from(n)));
        }
        assert_eq!(outers.take().count(), 50);
        assert_eq!(outers.sets.iter().flatten().flatten().count(), WAYS);
    }
}
