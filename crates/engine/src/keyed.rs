//! A keyed hash for the keys of lists and of distinct counts.
//!
//! Senders of packets choose the keys, so the hash must not have collisions that hold for every seed. Such collisions
//! are easy to make if one factor of a folded product is a public constant (foldhash's `FixedState` with a 64-bit
//! seed: an IPv6 prefix makes the factor 0, and every address in it has the same hash). Here each word is added to a
//! secret word before two sums are multiplied: NH of UMAC ("UMAC: Fast and secure message authentication", Black et
//! al., CRYPTO 1999, section 4). For any two keys, at most one seed in 2^64 gives equal 128-bit sums.

/// The secret words of a run. Equal seeds give equal words in every worker.
#[derive(Clone, Debug)]
pub(crate) struct KeyHash([u64; 8]);

/// A type that can be hashed.
pub(crate) trait Keyed: Copy + Default + Eq {
    /// Its keyed hash.
    fn hash(&self, hash: &KeyHash) -> u64;
}

impl KeyHash {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| next(&mut state)))
    }

    /// The words of a seed of 128 bits.
    pub fn wide(seed: u128) -> Self {
        let (mut low, mut high) = (seed as u64, (seed >> 64) as u64);
        Self(std::array::from_fn(|_| next(&mut low) ^ next(&mut high).rotate_left(32)))
    }

    /// Hashes a key of up to six words. Keys of different kinds are never compared.
    #[inline]
    pub fn of<const WORDS: usize>(&self, words: [u64; WORDS]) -> u64 {
        const { assert!(WORDS <= 6) };
        let [.., last, max] = self.0;
        let mut sum = 0_u128;
        for (pair, secret) in words.chunks(2).zip(self.0.chunks(2)) {
            if let ([a, rest @ ..], [s, t]) = (pair, secret) {
                // A word without a partner is multiplied by a secret word alone.
                let b = rest.first().copied().unwrap_or_default().wrapping_add(*t);
                sum = sum.wrapping_add(u128::from(a.wrapping_add(*s)) * u128::from(b));
            }
        }
        let product = u128::from(sum as u64 ^ last) * u128::from((sum >> 64) as u64 ^ max);
        product as u64 ^ (product >> 64) as u64
    }
}

impl KeyHash {
    /// Hashes bytes of any number, in pieces of five words that begin with the hash of what precedes.
    pub fn bytes(&self, bytes: &[u8]) -> u64 {
        let mut hash = self.of([bytes.len() as u64]);
        for piece in bytes.chunks(40) {
            let mut words = [0; 6];
            let parts = std::iter::once(None).chain(piece.chunks(8).map(Some));
            for (word, part) in words.iter_mut().zip(parts) {
                *word = part.map_or(hash, little_endian);
            }
            hash = self.of(words);
        }
        hash
    }
}

/// At most eight bytes as a word.
fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// SplitMix64.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An address as two words, IPv4 mapped into IPv6.
pub(crate) type Address = [u64; 2];

/// A five-tuple, or a key with the layout of one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Tuple {
    pub a: Address,
    pub b: Address,
    pub ports: [u16; 2],
    pub protocol: u8,
}

impl Keyed for Tuple {
    #[inline]
    fn hash(&self, hash: &KeyHash) -> u64 {
        let [p, q] = self.ports.map(u64::from);
        hash.of([self.a[0], self.a[1], self.b[0], self.b[1], p | q << 16 | u64::from(self.protocol) << 32])
    }
}

impl Keyed for Address {
    #[inline]
    fn hash(&self, hash: &KeyHash) -> u64 {
        hash.of(*self)
    }
}

impl Keyed for (Address, Address) {
    #[inline]
    fn hash(&self, hash: &KeyHash) -> u64 {
        hash.of([self.0[0], self.0[1], self.1[0], self.1[1]])
    }
}

/// A protocol and a port.
impl Keyed for (u8, u16) {
    #[inline]
    fn hash(&self, hash: &KeyHash) -> u64 {
        hash.of([u64::from(self.0) << 16 | u64::from(self.1)])
    }
}

impl Keyed for u8 {
    #[inline]
    fn hash(&self, hash: &KeyHash) -> u64 {
        hash.of([u64::from(*self)])
    }
}

impl Keyed for u16 {
    #[inline]
    fn hash(&self, hash: &KeyHash) -> u64 {
        hash.of([u64::from(*self)])
    }
}

#[cfg(test)]
impl Keyed for u64 {
    fn hash(&self, hash: &KeyHash) -> u64 {
        hash.of([*self])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    /// The upper half of an IPv6 address for which foldhash's fixed state multiplies by 0.
    const ABSORBING: u64 = 0xc0ac_29b7_c97c_50dd;

    #[test]
    fn keys_that_collide_under_foldhash_do_not_collide_here() {
        for seed in 0..50 {
            let theirs = foldhash::fast::FixedState::with_seed(seed);
            let hash = KeyHash::new(seed);
            let (mut same, mut ours) = (BTreeSet::new(), BTreeSet::new());
            for n in 0..1000_u64 {
                same.insert(theirs.hash_one(u128::from(ABSORBING) << 64 | u128::from(n)));
                ours.insert([ABSORBING, n].hash(&hash));
            }
            assert_eq!((same.len(), ours.len()), (1, 1000), "seed {seed}");
        }
    }

    #[test]
    fn bytes_that_differ_anywhere_have_other_hashes() {
        let hash = KeyHash::new(7);
        let mut found = BTreeSet::new();
        let mut texts: Vec<Vec<u8>> = (0..100).map(|length| vec![0; length]).collect();
        for at in 0..99 {
            let mut text = vec![0; 99];
            text[at] = 1;
            texts.push(text);
        }
        for text in &texts {
            assert!(found.insert(hash.bytes(text)), "{text:?}");
            assert_ne!(hash.bytes(text), KeyHash::new(8).bytes(text), "{text:?}");
        }
    }

    #[test]
    fn every_bit_of_a_key_changes_half_of_the_hash_bits() {
        let mut state = 1;
        for seed in 0..20 {
            let hash = KeyHash::new(seed);
            for bit in 0..256 {
                let mut moved = 0;
                for _ in 0..32 {
                    let key: (Address, Address) =
                        ([next(&mut state), next(&mut state)], [next(&mut state), next(&mut state)]);
                    let mut other = key;
                    let word = match bit / 64 {
                        0 => &mut other.0[0],
                        1 => &mut other.0[1],
                        2 => &mut other.1[0],
                        _ => &mut other.1[1],
                    };
                    *word ^= 1 << (bit % 64);
                    moved += (key.hash(&hash) ^ other.hash(&hash)).count_ones();
                }
                assert!((26 * 32..38 * 32).contains(&moved), "seed {seed} bit {bit}: {moved} of {}", 64 * 32);
            }
        }
    }

    #[test]
    fn neighbours_spread_evenly_over_every_part_of_the_hash() {
        for seed in 0..10 {
            let hash = KeyHash::new(seed);
            for shift in [0, 16, 32, 48, 56] {
                let mut buckets = [0_u32; 256];
                for n in 0..65_536_u64 {
                    let key = Tuple { a: [0, 0xffff_0a00_0000 + n], ports: [80, 0], protocol: 6, b: [0, 9] };
                    buckets[(key.hash(&hash) >> shift & 255) as usize] += 1;
                }
                assert!(buckets.iter().all(|&n| (160..360).contains(&n)), "seed {seed} shift {shift}");
            }
        }
    }
}
