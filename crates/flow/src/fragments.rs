//! IP fragments and their flows.
//!
//! Only the first fragment of an IP packet has ports. A later fragment is counted to the flow of the first one, in
//! whichever order they arrive: fragments that arrive before the first one wait as a sum, which is added when the
//! first one arrives. If they wait for too long, or are evicted, they are counted to a flow without ports.

use crate::hash::KeyHash;
use crate::parsed_packet::{FlowRef, ParsedPacket};
use weir_wire::{FlowKey, Time};

/// Number of fragmented packets in a set.
const WAYS: usize = 4;

/// A fragmented IP packet.
#[derive(Clone, Default)]
struct Entry {
    /// Addresses in the packet's order, protocol, and the identification in place of the ports. Undefined for an
    /// unused entry, whose `seen` is 0.
    id: FlowKey,
    /// Time of the latest fragment, plus 1; 0: unused.
    seen: u64,
    /// Flow and sender, once the first fragment was seen.
    flow: Option<FlowRef>,
    /// Fragments that wait for the first one; `facts.packets` is 0 if none does.
    waiting: ParsedPacket,
}

/// Recent fragmented packets, in fixed memory.
pub(crate) struct Fragments {
    /// Empty until the first fragment is seen: most runs have no fragments.
    sets: Vec<[Entry; WAYS]>,
    size: usize,
    hash: KeyHash,
    lifetime: u64,
    pub joined: u64,
    pub unmatched: u64,
    pub shed: u64,
}

/// The packets to count after a fragment was seen.
#[derive(Default)]
pub(crate) struct Counted {
    /// Fragments whose first fragment did not arrive, to be counted to a flow without ports.
    pub unmatched: Option<ParsedPacket>,
    /// The fragment, with those that waited for it.
    pub fragment: Option<ParsedPacket>,
}

impl Fragments {
    /// Bytes for each set of packets.
    pub const BYTES_PER_SET: usize = size_of::<[Entry; WAYS]>();

    pub fn new(sets: usize, hash: KeyHash, lifetime: u64) -> Self {
        Self { sets: Vec::new(), size: sets.max(1), hash, lifetime, joined: 0, unmatched: 0, shed: 0 }
    }

    /// Takes a parsed fragment. `id` is the IP identification, `is_first` whether the fragment has the ports.
    pub fn see(&mut self, mut parsed: ParsedPacket, id: u32, proto: u8, is_first: bool) -> Counted {
        let mut counted = Counted::default();
        parsed.facts.later_fragments = if is_first { 0 } else { parsed.facts.packets };
        let FlowRef { key, sender, .. } = parsed.flow_ref;
        let (source, destination) = match sender {
            0 => (key.addr[0], key.addr[1]),
            _ => (key.addr[1], key.addr[0]),
        };
        let id = FlowKey {
            addr: [source, destination],
            port: [(id >> 16) as u16, id as u16],
            space: key.space,
            proto,
        };
        let now = parsed.facts.time.0.saturating_add(1);
        if self.sets.is_empty() {
            self.sets = vec![<[Entry; WAYS]>::default(); self.size];
        }
        let at = ((u128::from(self.hash.of(&id)) * self.size as u128) >> 64) as usize;
        let Some(set) = self.sets.get_mut(at) else { return counted };
        let known = set.iter().position(|entry| entry.seen != 0 && entry.id == id);
        let way = known
            .or_else(|| set.iter().position(|entry| entry.seen == 0))
            .or_else(|| (0..WAYS).min_by_key(|&way| set.get(way).map_or(0, |entry| entry.seen)));
        let Some(entry) = way.and_then(|way| set.get_mut(way)) else { return counted };
        let stale = now.abs_diff(entry.seen) > self.lifetime;
        if known.is_none() || stale || (is_first && entry.flow.is_some()) {
            if entry.seen != 0 && known.is_none() && !stale {
                self.shed += u64::from(entry.waiting.facts.packets);
            }
            counted.unmatched = entry.give_up(&mut self.unmatched);
            *entry = Entry { id, ..Entry::default() };
        }
        entry.seen = now;
        if is_first {
            entry.flow = Some(parsed.flow_ref);
            let waiting = std::mem::take(&mut entry.waiting);
            if waiting.facts.packets > 0 {
                self.joined += u64::from(waiting.facts.packets);
                parsed.add(&waiting);
            }
            counted.fragment = Some(parsed);
        } else if let Some(flow_ref) = entry.flow {
            self.joined += 1;
            parsed.flow_ref = flow_ref;
            counted.fragment = Some(parsed);
        } else if entry.waiting.facts.packets == 0 {
            // When the fragment is counted, other packets come before it.
            parsed.facts.carried = false;
            entry.waiting = parsed;
        } else {
            entry.waiting.add(&parsed);
        }
        counted
    }

    /// The earliest time at which a packet is given up.
    pub fn next_due(&self) -> Option<Time> {
        let seen = self.sets.iter().flatten().map(|entry| entry.seen).filter(|seen| *seen != 0).min()?;
        Some(due(seen, self.lifetime))
    }

    /// Removes packets that were idle for long before `now`. Returns the waiting fragments of the next such packet
    /// that has some. `cursor` is the position; begin with 0.
    pub fn expire_next(&mut self, now: Time, cursor: &mut usize) -> Option<ParsedPacket> {
        while let Some(entry) = self.sets.get_mut(*cursor / WAYS).and_then(|set| set.get_mut(*cursor % WAYS))
        {
            *cursor += 1;
            if entry.seen != 0 && due(entry.seen, self.lifetime) < now {
                let waited = entry.give_up(&mut self.unmatched);
                entry.seen = 0;
                if waited.is_some() {
                    return waited;
                }
            }
        }
        None
    }
}

/// The time at which an entry is given up. `seen` is the time of its latest fragment, plus 1.
fn due(seen: u64, lifetime: u64) -> Time {
    Time((seen - 1).saturating_add(lifetime))
}

impl Entry {
    /// Returns the waiting fragments, to be counted without ports.
    fn give_up(&mut self, unmatched: &mut u64) -> Option<ParsedPacket> {
        let waiting = std::mem::take(&mut self.waiting);
        *unmatched += u64::from(waiting.facts.packets);
        (self.seen != 0 && waiting.facts.packets > 0).then_some(waiting)
    }
}

impl ParsedPacket {
    /// Adds the counts of another fragment to this one.
    fn add(&mut self, other: &ParsedPacket) {
        let (sum, other) = (&mut self.facts, &other.facts);
        sum.packets = sum.packets.saturating_add(other.packets);
        sum.later_fragments = sum.later_fragments.saturating_add(other.later_fragments);
        sum.frame_bytes += other.frame_bytes;
        sum.ip_bytes += other.ip_bytes;
        sum.payload_bytes += other.payload_bytes;
        sum.earliest = sum.earliest.min(other.earliest);
        sum.time = sum.time.max(other.time);
    }
}
