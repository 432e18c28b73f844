//! Regularity of a series of values.

/// Mean deviation of successive values, smoothed as RFC 3550 6.4.1 does: a sixteenth of each difference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    last: Option<u64>,
    mean: Option<f64>,
}

impl Jitter {
    /// Takes the next value.
    pub fn add(&mut self, value: u64) {
        if let Some(last) = self.last.replace(value) {
            let mean = self.mean.unwrap_or_default();
            self.mean = Some(mean + (value.abs_diff(last) as f64 - mean) / 16.0);
        }
    }

    /// The deviation, in the unit of the values, once there have been two.
    pub fn mean(&self) -> Option<f64> {
        self.mean
    }
}
