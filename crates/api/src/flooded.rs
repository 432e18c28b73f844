//! Sums from which flooded hosts are found, in fixed memory, and equal however the packets were divided.
//!
//! What hosts receive is counted by key: host, kind, protocol and port. Each key adds to two of [`FloodSums::BUCKETS`] buckets.
//! Everything in a bucket is a sum or a maximum, so that readings of workers merge into that of one worker. Whether a key is all or
//! most of a bucket follows from its sums:
//!
//! * The sum of hash times packets shows that a key is alone: then its numbers are exact.
//! * Sums of packets with signs that the hash of their key has (the sketch of "Finding frequent items in data streams", Charikar et
//!   al., 2002, with 16 sums) estimate the packets of a key.
//!
//! The keys themselves come from a vote ("MJRTY", Boyer and Moore, 1981): the key of more than half of a bucket's packets has more
//! than half of them with some worker, too, and wins its vote there.

use crate::distinct::ertl;
use serde::Serialize;
use std::net::IpAddr;

/// Sums of packets with signs in a bucket.
const SIGNS: usize = 16;
/// Registers of the sources of a bucket. The standard error of their number is 1.04 / sqrt(512), 4.6 %.
const REGISTERS: usize = 512;
/// Bits of a hash that choose a register.
const PRECISION: u32 = REGISTERS.ilog2();
/// Possible values of a register.
const RANKS: usize = (u64::BITS - PRECISION) as usize + 2;
/// Buckets of each of the two layers.
const LAYER: usize = 256;
/// A key is most of a bucket if this share of its packets is the key's.
const MOST: (u64, u64) = (7, 8);

/// What a host receives.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct FloodKey {
    /// A keyed hash of all that follows, by which the key is known. Keys of a run have equal hashes in every worker.
    pub hash: u64,
    /// The host.
    pub host: IpAddr,
    /// The kind of packets: a word of the function `flood`.
    pub kind: &'static str,
    /// IP protocol number.
    pub protocol: u8,
    /// The port, if the kind has one.
    pub port: Option<u16>,
    /// Whether it is the port of the senders, which is that of a service that answers.
    pub of_sender: bool,
}

impl FloodKey {
    /// The buckets of a key, one in each layer.
    fn places(&self) -> [usize; 2] {
        [self.hash as usize % LAYER, LAYER + (self.hash >> 8) as usize % LAYER]
    }

    /// The signs of a key: 1 or -1.
    fn signs(&self) -> impl Iterator<Item = i64> {
        let bits = self.hash >> 16;
        (0..SIGNS).map(move |at| (bits >> at & 1) as i64 * 2 - 1)
    }
}

/// The sums of the keys of a bucket.
#[derive(Clone, Debug, PartialEq)]
struct Bucket {
    place: u16,
    packets: u64,
    bytes: u64,
    /// Packets that hosts sent back.
    answered: u64,
    /// The sum of the hash of a key times its packets and those sent back.
    named: u64,
    signs: [i64; SIGNS],
    sources: Box<[u8; REGISTERS]>,
    /// The key that the vote of each worker chose, and in a worker the lead of the key.
    keys: Vec<FloodKey>,
    lead: u64,
}

impl Bucket {
    /// Bytes of a bucket with the key of one worker.
    const SIZE: usize = size_of::<Self>() + REGISTERS + size_of::<FloodKey>();

    fn new(place: usize) -> Self {
        Self {
            place: place as u16,
            packets: 0,
            bytes: 0,
            answered: 0,
            named: 0,
            signs: [0; SIGNS],
            sources: Box::new([0; REGISTERS]),
            keys: Vec::new(),
            lead: 0,
        }
    }

    fn received(&mut self, key: &FloodKey, source: u64, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
        self.named = self.named.wrapping_add(key.hash.wrapping_mul(packets));
        for (sum, sign) in self.signs.iter_mut().zip(key.signs()) {
            *sum += sign * packets.cast_signed();
        }
        // The 1 after the last bit ends the search.
        let rest = source << PRECISION | 1 << (PRECISION - 1);
        if let Some(register) = self.sources.get_mut((source >> (u64::BITS - PRECISION)) as usize) {
            *register = (*register).max(rest.leading_zeros() as u8 + 1);
        }
        match self.keys.first_mut() {
            None => {
                self.keys.reserve_exact(1);
                self.keys.push(*key);
                self.lead = packets;
            }
            Some(leads) if leads.hash == key.hash => self.lead += packets,
            Some(_) if self.lead >= packets => self.lead -= packets,
            Some(leads) => {
                *leads = *key;
                self.lead = packets - self.lead;
            }
        }
    }

    fn merge(&mut self, other: &Bucket) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.answered += other.answered;
        self.named = self.named.wrapping_add(other.named);
        self.signs.iter_mut().zip(&other.signs).for_each(|(mine, theirs)| *mine += theirs);
        self.sources.iter_mut().zip(&*other.sources).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        for key in &other.keys {
            if self.keys.iter().all(|mine| mine.hash != key.hash) {
                self.keys.push(*key);
            }
        }
        self.lead = 0;
    }

    /// The numbers of a key that is all or most of the bucket.
    fn of(&self, key: &FloodKey) -> Option<Flooded> {
        let is_alone = self.named == key.hash.wrapping_mul(self.packets.wrapping_add(self.answered));
        let sum: i64 = self.signs.iter().zip(key.signs()).map(|(sum, sign)| sum * sign).sum();
        let estimate = u64::try_from(sum / SIGNS as i64).unwrap_or_default().min(self.packets);
        let packets = if is_alone { self.packets } else { estimate };
        let (part, whole) = MOST;
        (packets.saturating_mul(whole) >= self.packets.saturating_mul(part) && packets > 0).then(|| Flooded {
            key: *key,
            packets,
            bytes: self.bytes,
            answered: self.answered,
            sources: ertl::<RANKS>(&*self.sources),
            is_alone,
            others: self.packets - packets,
        })
    }
}

/// What a host received, and what it sent back.
#[derive(Clone, Debug, PartialEq)]
pub struct Flooded {
    /// The host, and what it receives.
    pub key: FloodKey,
    /// Packets; exact if `is_alone`, else an estimate.
    pub packets: u64,
    /// Bytes of their frames and of the packets of others.
    pub bytes: u64,
    /// Packets that the host and others sent back.
    pub answered: u64,
    /// Estimated number of their sources and those of others.
    pub sources: u64,
    /// Whether the numbers are those of the key alone.
    pub is_alone: bool,
    /// Packets of other keys among the numbers, an estimate.
    pub others: u64,
}

/// The sums of an interval; see the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FloodSums {
    /// The buckets in use. Those of a reading are in the order of their places.
    #[serde(skip)]
    buckets: Vec<Bucket>,
    /// For each place the position in `buckets` plus 1, and 0 for a bucket that is not in use; empty in a reading.
    #[serde(skip)]
    positions: Vec<u16>,
}

impl FloodSums {
    /// Number of buckets.
    pub const BUCKETS: usize = 2 * LAYER;
    /// Maximum bytes of heap memory of a worker's sums.
    pub const MEMORY: usize = Self::BUCKETS * (Bucket::SIZE + size_of::<u16>());

    fn bucket(&mut self, place: usize) -> Option<&mut Bucket> {
        if self.positions.is_empty() {
            self.positions = vec![0; Self::BUCKETS];
        }
        let position = self.positions.get_mut(place)?;
        if *position == 0 {
            self.buckets.push(Bucket::new(place));
            *position = self.buckets.len() as u16;
        }
        self.buckets.get_mut(usize::from(*position) - 1)
    }

    /// Counts packets of a source, known by a keyed hash of its address, that a host receives.
    pub fn received(&mut self, key: &FloodKey, source: u64, packets: u64, bytes: u64) {
        for place in key.places() {
            if let Some(bucket) = self.bucket(place) {
                bucket.received(key, source, packets, bytes);
            }
        }
    }

    /// Counts packets that a host sends back.
    pub fn answered(&mut self, key: &FloodKey, packets: u64) {
        for place in key.places() {
            if let Some(bucket) = self.bucket(place) {
                bucket.answered += packets;
                bucket.named = bucket.named.wrapping_add(key.hash.wrapping_mul(packets));
            }
        }
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Takes the sums of a worker as a reading, and begins anew.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.sort_unstable_by_key(|bucket| bucket.place);
        self.positions.fill(0);
        Self { buckets, positions: Vec::new() }
    }

    /// Adds the sums of another reading.
    pub fn merge(&mut self, other: &FloodSums) {
        for theirs in &other.buckets {
            match self.buckets.binary_search_by_key(&theirs.place, |bucket| bucket.place) {
                Ok(at) => self.buckets.get_mut(at).into_iter().for_each(|mine| mine.merge(theirs)),
                Err(at) => self.buckets.insert(at, theirs.clone()),
            }
        }
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        let keys: usize = self.buckets.iter().map(|bucket| bucket.keys.capacity()).sum();
        self.buckets.capacity() * size_of::<Bucket>()
            + self.buckets.len() * REGISTERS
            + keys * size_of::<FloodKey>()
            + self.positions.capacity() * size_of::<u16>()
    }

    /// The keys of a reading that are all or most of a bucket, in order of their hashes: each with the numbers of a bucket in which
    /// it is alone, else of the one with fewer packets.
    pub fn flooded(&self) -> Vec<Flooded> {
        let mut keys: Vec<&FloodKey> = self.buckets.iter().flat_map(|bucket| &bucket.keys).collect();
        keys.sort_unstable_by_key(|key| key.hash);
        keys.dedup_by_key(|key| key.hash);
        let at = |place: usize| {
            let at = self.buckets.binary_search_by_key(&place, |bucket| bucket.place.into()).ok()?;
            self.buckets.get(at)
        };
        let of = |key: &FloodKey| {
            let found = key.places().into_iter().filter_map(|place| at(place)?.of(key));
            found.min_by_key(|flooded| (!flooded.is_alone, flooded.packets + flooded.others))
        };
        keys.into_iter().filter_map(of).collect()
    }

    /// Replaces the addresses of hosts.
    pub fn rename(&mut self, mut name: impl FnMut(IpAddr) -> IpAddr) {
        for key in self.buckets.iter_mut().flat_map(|bucket| &mut bucket.keys) {
            key.host = name(key.host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hashed;

    fn key(number: u64) -> FloodKey {
        let host = IpAddr::from((number as u32).to_be_bytes());
        let hash = u128::from(number).hash();
        FloodKey { hash, host, kind: "udp", protocol: 17, port: Some(9), of_sender: false }
    }

    fn source(number: u64) -> u64 {
        (u128::from(number) << 64).hash()
    }

    /// The merged reading of workers, to each of which every `workers`-th packet of a list of keys and sources goes.
    fn merged(packets: &[(u64, u64)], workers: usize) -> FloodSums {
        let mut whole = FloodSums::default();
        for worker in 0..workers {
            let mut sums = FloodSums::default();
            for (to, from) in packets.iter().skip(worker).step_by(workers) {
                sums.received(&key(*to), source(*from), 1, 60);
                if *from % 100 == 0 {
                    sums.answered(&key(*to), 1);
                }
            }
            assert!(sums.memory() <= FloodSums::MEMORY, "{}", sums.memory());
            let reading = sums.take();
            assert!(sums.is_empty() && reading.memory() <= FloodSums::MEMORY);
            whole.merge(&reading);
        }
        whole
    }

    #[test]
    fn a_key_that_is_alone_has_exact_numbers() {
        let packets: Vec<(u64, u64)> = (0..2_000).map(|n| (n % 2, n)).collect();
        for workers in [1, 2, 3, 7] {
            let found = merged(&packets, workers).flooded();
            assert_eq!(found.len(), 2);
            for one in found {
                assert_eq!((one.packets, one.bytes, one.is_alone, one.others), (1_000, 60_000, true, 0));
                assert!((850..1_150).contains(&one.sources), "{one:?}");
            }
        }
    }

    #[test]
    fn a_flood_is_found_among_others_with_any_number_of_workers() {
        // Each other packet goes to a host of its own.
        let packets: Vec<(u64, u64)> = (0..40_000).map(|n| (if n % 3 == 0 { 1 } else { n + 2 }, n)).collect();
        let flood = |workers: usize| -> Vec<Flooded> {
            let found = merged(&packets, workers).flooded();
            found.into_iter().filter(|one| one.packets >= 1_000).collect()
        };
        let one = flood(1);
        assert_eq!(one.len(), 1, "{one:?}");
        assert_eq!((one[0].key, one[0].is_alone), (key(1), false));
        assert!((13_200..13_467).contains(&one[0].packets), "{one:?}");
        assert!((12_000..15_000).contains(&one[0].sources), "{one:?}");
        for workers in [2, 3, 7] {
            assert_eq!(flood(workers), one, "{workers} workers");
        }
    }

    #[test]
    fn a_key_that_is_not_most_of_its_buckets_is_not_named() {
        // More than 3,000 packets for each bucket, and 5,000 to one host.
        let packets: Vec<(u64, u64)> =
            (0..800_000).map(|n| (if n % 160 == 0 { 1 } else { n + 2 }, n)).collect();
        assert!(merged(&packets, 2).flooded().iter().all(|one| one.packets < 1_000));
    }

    #[test]
    fn hosts_are_renamed() {
        let mut sums = merged(&[(7, 1)], 1);
        sums.rename(|_| IpAddr::from([192, 0, 2, 1]));
        assert_eq!(sums.flooded()[0].key.host, IpAddr::from([192, 0, 2, 1]));
    }
}
