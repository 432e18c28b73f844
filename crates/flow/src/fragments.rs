//! IP fragments and the flows they belong to.
//!
//! Only the first fragment of an IP packet has ports. A later one is counted to the flow of the first, whichever
//! comes before: what comes before waits as a sum, and is added when the first comes. What waits for too long, or
//! has to make place, is counted to a flow without ports.

use crate::hash::KeyHash;
use crate::sighting::Sighting;
use weir_wire::{FlowKey, Time};

/// Packets in fragments that a set holds.
const WAYS: usize = 4;

/// A fragmented IP packet.
#[derive(Clone, Default)]
struct Entry {
    /// Addresses in the packet's own order, protocol, and the identification in the place of the ports; the
    /// protocol of an unused entry is irrelevant, its `seen` is 0.
    id: FlowKey,
    /// Time of the latest fragment, plus 1; 0: unused.
    seen: u64,
    /// Flow and sender, once the first fragment was seen.
    flow: Option<(FlowKey, u8)>,
    /// What waits for the first; `packets` is 0 where nothing does.
    waiting: Sighting,
}

/// The fragmented packets that were seen lately; of fixed size.
pub(crate) struct Fragments {
    sets: Vec<[Entry; WAYS]>,
    hash: KeyHash,
    lifetime: u64,
    pub joined: u64,
    pub unmatched: u64,
    pub shed: u64,
}

/// What is to be counted after a fragment was seen.
#[derive(Default)]
pub(crate) struct Counted {
    /// Fragments that waited in vain, to a flow without ports.
    pub unmatched: Option<Sighting>,
    /// The fragment, with those that waited for it.
    pub fragment: Option<Sighting>,
}

impl Fragments {
    /// Octets for each set of packets.
    pub const BYTES_PER_SET: usize = size_of::<[Entry; WAYS]>();

    pub fn new(sets: usize, hash: KeyHash, lifetime: u64) -> Self {
        Self {
            sets: vec![<[Entry; WAYS]>::default(); sets.max(1)],
            hash,
            lifetime,
            joined: 0,
            unmatched: 0,
            shed: 0,
        }
    }

    /// Takes the sighting of a fragment. `id` is the identification, `is_first` whether it has the ports.
    pub fn see(&mut self, mut sighting: Sighting, id: u32, proto: u8, is_first: bool) -> Counted {
        let mut counted = Counted::default();
        let (source, destination) = match sighting.sender {
            0 => (sighting.key.addr[0], sighting.key.addr[1]),
            _ => (sighting.key.addr[1], sighting.key.addr[0]),
        };
        let id = FlowKey {
            addr: [source, destination],
            port: [(id >> 16) as u16, id as u16],
            vlan: sighting.key.vlan,
            proto,
        };
        let now = sighting.time.0.saturating_add(1);
        let at = ((u128::from(self.hash.of(&id)) * self.sets.len() as u128) >> 64) as usize;
        let Some(set) = self.sets.get_mut(at) else { return counted };
        let known = set.iter().position(|entry| entry.seen != 0 && entry.id == id);
        let way = known
            .or_else(|| set.iter().position(|entry| entry.seen == 0))
            .or_else(|| (0..WAYS).min_by_key(|&way| set.get(way).map_or(0, |entry| entry.seen)));
        let Some(entry) = way.and_then(|way| set.get_mut(way)) else { return counted };
        let stale = now.abs_diff(entry.seen) > self.lifetime;
        if known.is_none() || stale || (is_first && entry.flow.is_some()) {
            if entry.seen != 0 && known.is_none() && !stale {
                self.shed += u64::from(entry.waiting.packets);
            }
            counted.unmatched = entry.give_up(&mut self.unmatched);
            *entry = Entry { id, ..Entry::default() };
        }
        entry.seen = now;
        if is_first {
            entry.flow = Some((sighting.key, sighting.sender));
            let waiting = std::mem::take(&mut entry.waiting);
            if waiting.packets > 0 {
                self.joined += u64::from(waiting.packets);
                sighting.add(&waiting);
            }
            counted.fragment = Some(sighting);
        } else if let Some((key, sender)) = entry.flow {
            self.joined += 1;
            sighting.hash = self.hash.of(&key);
            sighting.key = key;
            sighting.sender = sender;
            counted.fragment = Some(sighting);
        } else if entry.waiting.packets == 0 {
            entry.waiting = sighting;
        } else {
            entry.waiting.add(&sighting);
        }
        counted
    }

    /// Forgets packets of which nothing came for long before `now`, and gives what waited in them.
    pub fn expire(&mut self, now: Time, mut give: impl FnMut(Sighting)) {
        for entry in self.sets.iter_mut().flatten() {
            if entry.seen != 0 && entry.seen.saturating_add(self.lifetime) <= now.0 {
                if let Some(sighting) = entry.give_up(&mut self.unmatched) {
                    give(sighting);
                }
                entry.seen = 0;
            }
        }
    }
}

impl Entry {
    /// What waits, to be counted without ports.
    fn give_up(&mut self, unmatched: &mut u64) -> Option<Sighting> {
        let waiting = std::mem::take(&mut self.waiting);
        *unmatched += u64::from(waiting.packets);
        (self.seen != 0 && waiting.packets > 0).then_some(waiting)
    }
}

impl Sighting {
    /// Counts another fragment with this one.
    fn add(&mut self, other: &Sighting) {
        self.packets = self.packets.saturating_add(other.packets);
        self.frame_bytes += other.frame_bytes;
        self.ip_bytes += other.ip_bytes;
        self.payload_bytes += other.payload_bytes;
        self.earliest = self.earliest.min(other.earliest);
        self.time = self.time.max(other.time);
    }
}
