//! Hashing flow keys.

use weir_wire::{FlowKey, Time};

/// A keyed hash of flow keys: whoever does not know the key cannot choose flows that collide.
#[derive(Clone, Debug)]
pub(crate) struct KeyHash([u64; 5]);

/// Names a flow in logs: the same in every run, so it is keyed by constants (digits of pi).
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

    #[inline]
    pub fn of(&self, key: &FlowKey) -> u64 {
        let [k0, k1, k2, k3, k4] = self.0;
        let [a, b] = key.addr.map(u128::from_ne_bytes);
        let ends = fold(a as u64 ^ k0, (a >> 64) as u64 ^ k1).rotate_left(23)
            ^ fold(b as u64 ^ k2, (b >> 64) as u64 ^ k3);
        let rest = u64::from(key.port[0])
            | u64::from(key.port[1]) << 16
            | u64::from(key.vlan) << 32
            | u64::from(key.proto) << 48;
        fold(ends ^ rest, k4)
    }
}

/// The name of the flow that began at `first`; never 0.
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
}
