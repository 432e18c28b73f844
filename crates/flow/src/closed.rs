//! The TCP connections that have closed, for the segments of theirs that arrive late.

use crate::config::LATE;
use crate::hash;
use weir_wire::{FlowKey, Time};

/// Maximum number of connections of one bucket that are looked at. More than a few occur only where one key closes again and
/// again.
const MAX_STEPS: usize = 64;

/// A connection that has closed.
#[derive(Clone, Copy)]
struct Entry {
    /// Its identifier.
    id: u64,
    /// Time of its first packet: key and time give the identifier, so that the key is not stored.
    first: Time,
    /// Time of its last packet.
    last: Time,
    /// Number of the connection before it in its bucket, plus 1; 0 for none.
    before: u64,
}

/// The connections that closed last, in fixed memory: a ring in the order in which they closed, and an index. The oldest is
/// forgotten first.
pub(crate) struct Closed {
    /// Connection `n` is at `n % capacity`.
    ring: Vec<Entry>,
    /// Number of the last connection of each bucket, plus 1; 0 for none. Empty until the first connection has closed.
    latest: Vec<u64>,
    capacity: usize,
    /// Connections that were entered so far.
    entered: u64,
    /// Connections that were forgotten within [`LATE`] because the ring was full.
    pub shed: u64,
}

impl Closed {
    /// Bytes for each connection.
    pub const BYTES_EACH: usize = size_of::<Entry>() + size_of::<u64>();

    /// Room for this number of connections, at least 1.
    pub fn new(capacity: usize) -> Self {
        Self { ring: Vec::new(), latest: Vec::new(), capacity: capacity.max(1), entered: 0, shed: 0 }
    }

    /// Remembers a connection. `hash`: that of the key, which is not that of identifiers.
    pub fn remember(&mut self, hash: u64, id: u64, first: Time, last: Time) {
        if self.latest.is_empty() {
            self.latest = vec![0; self.capacity];
            self.ring.reserve_exact(self.capacity);
        }
        let Some(latest) = self.latest.get_mut(bucket(hash, self.capacity)) else { return };
        let entry = Entry { id, first, last, before: *latest };
        if self.ring.len() < self.capacity {
            self.ring.push(entry);
        } else if let Some(oldest) = self.ring.get_mut((self.entered % self.capacity as u64) as usize) {
            self.shed += u64::from(is_within(oldest.last, last));
            *oldest = entry;
        }
        self.entered += 1;
        *latest = self.entered;
    }

    /// Notes a later packet of a remembered connection.
    pub fn extend(&mut self, hash: u64, key: &FlowKey, last: Time) {
        if let Some(entry) = self.find(hash, key).and_then(|at| self.ring.get_mut(at)) {
            entry.last = entry.last.max(last);
        }
    }

    /// The identifier of the connection of a key that closed less than [`LATE`] from `time`.
    #[inline]
    pub fn followed(&self, hash: u64, key: &FlowKey, time: Time) -> Option<u64> {
        if self.entered == 0 {
            return None;
        }
        let entry = self.ring.get(self.find(hash, key)?)?;
        is_within(entry.last, time).then_some(entry.id)
    }

    /// The position of the last connection with a key.
    fn find(&self, hash: u64, key: &FlowKey) -> Option<usize> {
        let mut after = *self.latest.get(bucket(hash, self.capacity))?;
        for _ in 0..MAX_STEPS {
            let number = after.checked_sub(1)?;
            if self.entered - number > self.capacity as u64 {
                return None;
            }
            let at = (number % self.capacity as u64) as usize;
            let entry = self.ring.get(at)?;
            if entry.id == hash::name(key, entry.first) {
                return Some(at);
            }
            after = entry.before;
        }
        None
    }
}

fn bucket(hash: u64, capacity: usize) -> usize {
    ((u128::from(hash) * capacity as u128) >> 64) as usize
}

fn is_within(last: Time, time: Time) -> bool {
    last.0.abs_diff(time.0) < LATE
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn key(port: u16) -> FlowKey {
        FlowKey { port: [port, 80], proto: 6, ..FlowKey::default() }
    }

    fn remember(closed: &mut Closed, hash: u64, port: u16, seconds: u64) -> u64 {
        let (first, last) = (Time(seconds * SECOND), Time((seconds + 1) * SECOND));
        let id = hash::name(&key(port), first);
        closed.remember(hash, id, first, last);
        id
    }

    #[test]
    fn a_connection_is_known_for_a_minute_from_its_last_packet() {
        let mut closed = Closed::new(8);
        assert_eq!(closed.followed(0, &key(1), Time(0)), None);
        let id = remember(&mut closed, 0, 1, 100);
        let at = |closed: &Closed, nanoseconds| closed.followed(0, &key(1), Time(nanoseconds));
        assert_eq!(at(&closed, 101 * SECOND), Some(id));
        assert_eq!(at(&closed, 161 * SECOND - 1), Some(id));
        assert_eq!(at(&closed, 161 * SECOND), None);
        assert_eq!(closed.followed(0, &key(2), Time(101 * SECOND)), None);
        closed.extend(0, &key(1), Time(110 * SECOND));
        closed.extend(0, &key(2), Time(500 * SECOND));
        assert_eq!(at(&closed, 170 * SECOND - 1), Some(id));
        assert_eq!(at(&closed, 170 * SECOND), None);
        // The later connection of a key is the one that is followed.
        let later = remember(&mut closed, 0, 1, 120);
        assert_eq!(at(&closed, 125 * SECOND), Some(later));
    }

    #[test]
    fn the_oldest_is_forgotten_and_counted() {
        for hash in [|_: u16| 0, |port: u16| u64::from(port) << 48] {
            let mut closed = Closed::new(4);
            let ids: Vec<u64> =
                (0..10).map(|port| remember(&mut closed, hash(port), port, u64::from(port))).collect();
            let known: Vec<Option<u64>> =
                (0..10).map(|port| closed.followed(hash(port), &key(port), Time(11 * SECOND))).collect();
            assert_eq!(known[..6], [None; 6]);
            assert!(known[6..].iter().zip(&ids[6..]).all(|(known, id)| *known == Some(*id)));
            assert_eq!((closed.shed, closed.ring.len(), closed.latest.len()), (6, 4, 4));
            // Those that would be too old are no loss.
            for port in 20..24 {
                remember(&mut closed, hash(port), port, 500);
            }
            assert_eq!(closed.shed, 6);
        }
    }
}
