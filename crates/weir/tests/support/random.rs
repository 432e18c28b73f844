//! Numbers for the choice of random cases.

/// A generator of numbers (xorshift64*).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below a limit.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    /// One of some values.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
