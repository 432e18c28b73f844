//! Numbers that look random and follow from a seed.

/// SplitMix64 (Steele, Lea and Flood, 2014).
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

    /// The time to the next of events that come independently of each other, `rate` of them in one unit of time.
    pub fn gap(&mut self, rate: f64) -> f64 {
        let uniform = ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -uniform.ln() / rate
    }
}
