//! Seeded random numbers.

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n` - 1; `n` is at least 1. Nearly uniform if `n` is far below 2^32.
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// A number between 0 and 1, both excluded.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// True in `share` of all cases.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// The time to the next of independent events, `rate` of them per unit of time.
    pub fn gap(&mut self, rate: f64) -> f64 {
        -self.unit().ln() / rate
    }

    /// A rank from 0 to `n` - 1 by Zipf's law with exponent 1: rank r comes about 1/(r + 1) as often as the first.
    pub fn rank(&mut self, n: usize) -> usize {
        ((n as f64).powf(self.unit()) as usize).saturating_sub(1).min(n.saturating_sub(1))
    }
}
