//! A random sample of many values.

/// Maximum number of values that are kept of a quantity: enough for quantiles to half a percent.
const KEPT: usize = 20_000;

/// A pseudorandom generator with a seed (SplitMix64, by Sebastiano Vigna, public domain).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform number from 0 to 1, excluding 1.
    pub fn even(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Two uniform numbers.
    pub fn pair(&mut self) -> [f64; 2] {
        [self.even(), self.even()]
    }
}

/// A random sample of values, and sums over all.
#[derive(Clone, Debug)]
pub struct Values {
    kept: Vec<f64>,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    random: Random,
}

impl Default for Values {
    fn default() -> Self {
        Self { kept: Vec::new(), count: 0, sum: 0.0, min: f64::INFINITY, max: 0.0, random: Random::new(1) }
    }
}

impl Values {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if self.kept.len() < KEPT {
            self.kept.push(value);
            return;
        }
        // Vitter's algorithm R: each value has the same chance to be kept.
        let at = self.random.bits() % self.count;
        if let Some(place) = usize::try_from(at).ok().and_then(|at| self.kept.get_mut(at)) {
            *place = value;
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean of the values; 0 if empty.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// Minimum of the values; 0 if empty.
    pub fn min(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.min }
    }

    /// Maximum of the values; 0 if empty.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The kept values, sorted.
    pub fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_quantiles_of_all_values() {
        let mut values = Values::default();
        (0..1_000_000).for_each(|value| values.add(f64::from(value)));
        let sorted = values.sorted();
        assert_eq!((values.count(), sorted.len(), values.mean()), (1_000_000, KEPT, 499_999.5));
        for tenth in 1..10 {
            // Five standard errors of a quantile of 20,000.
            let off = sorted[KEPT * tenth / 10] - 1e5 * tenth as f64;
            assert!(off.abs() < 5.0 * 1e6 * (0.25 / KEPT as f64).sqrt(), "{tenth}: {off}");
        }
    }
}
