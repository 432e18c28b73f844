//! Hashing flow keys.

use weir_wire::{FlowKey, Time};

/// A keyed hash of flow keys: without the key a sender cannot choose flows that collide.
#[derive(Clone, Debug)]
pub(crate) struct KeyHash([u64; 5]);

/// The hash for flow identifiers in logs. It is equal in every run, so its key is constant (digits of pi).
const NAME: KeyHash = KeyHash([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
]);

impl KeyHash {
    /// Spreads the seed over five words (SplitMix64).
    pub fn new(seed: [u64; 2]) -> Self {
        let mut state = seed[0];
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = state ^ seed[1];
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    #[inline(always)]
    pub fn of(&self, key: &FlowKey) -> u64 {
        let [k0, k1, k2, k3, k4] = self.0;
        let [a, b] = key.addr.map(u128::from_ne_bytes);
        let ends = fold(a as u64 ^ k0, (a >> 64) as u64 ^ k1).rotate_left(23)
            ^ fold(b as u64 ^ k2, (b >> 64) as u64 ^ k3);
        let space = u64::from(key.space.number());
        let rest = u64::from(key.port[0])
            | u64::from(key.port[1]) << 16
            | (space & 0xffff) << 32
            | u64::from(key.proto) << 48
            | space >> 16 << 56;
        fold(ends ^ rest, k4)
    }
}

/// The identifier of the flow that began at `first`; never 0.
#[inline]
pub(crate) fn name(key: &FlowKey, first: Time) -> u64 {
    fold(NAME.of(key) ^ first.0, 0x9e37_79b9_7f4a_7c15).max(1)
}

/// Both halves of the product, so that every bit of it depends on every bit of both.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::Space;

    #[test]
    fn neighbouring_keys_spread_evenly() {
        let hash = KeyHash::new([1, 2]);
        let mut buckets = [0_u32; 256];
        for n in 0..65_536_u32 {
            let mut key = FlowKey { proto: 17, ..FlowKey::default() };
            key.addr[0][12..].copy_from_slice(&(0x0a00_0000 + n).to_be_bytes());
            buckets[(hash.of(&key) >> 56) as usize] += 1;
        }
        assert!(buckets.iter().all(|&n| (160..360).contains(&n)), "{buckets:?}");
        let other = KeyHash::new([1, 3]);
        assert_ne!(hash.of(&FlowKey::default()), other.of(&FlowKey::default()));
    }

    /// Pairs of keys that might collide for every seed: they differ by a few bits, by exchanged parts, by a carry, by
    /// a sign.
    fn pairs() -> Vec<(FlowKey, FlowKey)> {
        let words = |key: &FlowKey| {
            let [a, b] = key.addr.map(u128::from_be_bytes);
            let rest = u64::from(key.port[0])
                | u64::from(key.port[1]) << 16
                | u64::from(key.space.number()) << 32
                | u64::from(key.proto) << 56;
            [a >> 64, a & u128::from(u64::MAX), b >> 64, b & u128::from(u64::MAX), u128::from(rest)]
                .map(|w| w as u64)
        };
        let key = |w: [u64; 5]| FlowKey {
            addr: [[w[0], w[1]], [w[2], w[3]]]
                .map(|[high, low]| (u128::from(high) << 64 | u128::from(low)).to_be_bytes()),
            port: [w[4] as u16, (w[4] >> 16) as u16],
            space: Space::default().tagged((w[4] >> 32) as u16),
            proto: (w[4] >> 56) as u8,
        };
        let v4 = |n: u64| 0xffff_0000_0000 | n & 0xffff_ffff;
        let mut bases = vec![[0; 5], [u64::MAX; 5], [0, 1, 0, 1, 1], [1; 5]];
        for n in 1..=12_u64 {
            let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bases.push([0, v4(n), 0, v4(n >> 32), n >> 8]);
            bases.push([n, n ^ n >> 7, n.rotate_left(9), n.rotate_left(31), n >> 9]);
        }
        let mut pairs = Vec::new();
        for base in bases {
            let mut other = |w: [u64; 5]| pairs.push((key(base), key(w)));
            for word in 0..5 {
                for bit in 0..64 {
                    let mut w = base;
                    w[word] ^= 1 << bit;
                    other(w);
                    // An equal difference in two words, which could cancel.
                    for second in word + 1..5 {
                        for turn in [0, 23, 41] {
                            let mut both = w;
                            both[second] ^= 1_u64.rotate_left(bit + turn);
                            other(both);
                        }
                    }
                }
                for f in [
                    |w: u64| !w,
                    |w: u64| w.wrapping_neg(),
                    |w: u64| w.wrapping_add(1),
                    |w: u64| w.swap_bytes(),
                    |w: u64| w.wrapping_mul(2),
                    |w: u64| w.rotate_left(32),
                ] {
                    let mut w = base;
                    w[word] = f(w[word]);
                    other(w);
                }
                for second in 0..word {
                    let mut w = base;
                    w.swap(word, second);
                    other(w);
                }
            }
            let [a, b, c, d, e] = base;
            other([c, d, a, b, e]);
            other([c, d, a, b, e & !0xffff_ffff | u64::from((e as u32).rotate_left(16))]);
        }
        // A key keeps 52 bits of the last word.
        pairs.retain(|(a, b)| words(a) != words(b));
        pairs
    }

    /// No pair of keys shares a hash, or a slot in the index and a tag, under more seeds than chance gives.
    #[test]
    fn no_difference_of_keys_collides_under_every_seed() {
        let pairs = pairs();
        assert!(pairs.len() > 30_000);
        let seeds = 48;
        let mut equal = vec![[0_u32; 3]; pairs.len()];
        for seed in 0..seeds {
            let hash = KeyHash::new([seed ^ 0x1234_5678, seed.wrapping_mul(0x2545_f491_4f6c_dd1d)]);
            for ((a, b), equal) in pairs.iter().zip(&mut equal) {
                let (a, b) = (hash.of(a), hash.of(b));
                assert_ne!(a, b);
                // The set in a table of 4,096 sets, the tag, and 8 bits in the middle.
                equal[0] += u32::from(a >> 52 == b >> 52);
                equal[1] += u32::from(a as u16 == b as u16);
                equal[2] += u32::from((a >> 28) as u8 == (b >> 28) as u8);
            }
        }
        let worst: [u32; 3] = std::array::from_fn(|part| equal.iter().map(|e| e[part]).max().unwrap());
        let all: [u32; 3] = std::array::from_fn(|part| equal.iter().map(|e| e[part]).sum());
        // By chance, one in 4,096 and one in 65,536 of all pairs and seeds; three collisions of one pair have a chance
        // below 10^-2.
        let trials = pairs.len() as u32 * seeds as u32;
        assert!(worst[0] <= 3 && worst[1] <= 2 && worst[2] <= 9, "{worst:?}");
        assert!(all[0] < 2 * trials / 4096 && all[1] < 2 * trials / 65_536, "{all:?} of {trials}");
    }

    /// Keys that collide under one seed behave like random keys under another.
    #[test]
    fn collisions_do_not_carry_over_to_another_seed() {
        let (known, secret) = (KeyHash::new([1, 2]), KeyHash::new([1, 3]));
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 32
        };
        let mut chosen = Vec::new();
        while chosen.len() < 4_000 {
            let mut key = FlowKey { proto: 17, port: [next() as u16, 53], ..FlowKey::default() };
            key.addr[0][12..].copy_from_slice(&(next() as u32).to_be_bytes());
            key.addr[1][12..].copy_from_slice(&(next() as u32).to_be_bytes());
            if known.of(&key) >> 55 == 0 {
                chosen.push(key);
            }
        }
        let mut buckets = [0_u32; 256];
        for key in &chosen {
            buckets[(secret.of(key) >> 56) as usize] += 1;
        }
        // 15.6 on average; 45 has a chance of 10^-9 for each bucket.
        assert!(buckets.iter().all(|&n| n < 45), "{buckets:?}");
    }
}
