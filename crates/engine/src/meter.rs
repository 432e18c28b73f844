//! What each part of the pass costs: receipts.
//!
//! The clock is the caller's; without one nothing is measured, and a run stays the same octet for octet. Of packets
//! one block in [`EVERY`] is measured, so that reading the clock costs nothing that shows.

/// Reads a clock that never goes back, in nanoseconds.
pub type Clock = fn() -> u64;

/// Blocks of packets of which one is measured.
const EVERY: u64 = 8;

/// Measures the blocks whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    clock: Option<Clock>,
    blocks: u64,
    is_on: bool,
    last: u64,
    /// Packets of all blocks, and of those that were measured.
    packets: u64,
    measured: u64,
}

impl Meter {
    pub fn new(clock: Option<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Begins a block.
    #[inline]
    pub fn block(&mut self, packets: usize) {
        self.packets += packets as u64;
        self.is_on = self.blocks.is_multiple_of(EVERY) && self.clock.is_some();
        self.blocks += 1;
        if self.is_on {
            self.measured += packets as u64;
            self.last = self.now();
        }
    }

    /// Nanoseconds since the last call, where this block is measured; else 0.
    #[inline]
    pub fn lap(&mut self) -> u64 {
        if !self.is_on {
            return 0;
        }
        let now = self.now();
        now.saturating_sub(std::mem::replace(&mut self.last, now))
    }

    /// The time, for what is measured always; 0 without a clock.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    /// What was measured in blocks, as if every block had been.
    pub fn scaled(&self, nanoseconds: u64) -> u64 {
        match self.measured {
            0 => 0,
            measured => (u128::from(nanoseconds) * u128::from(self.packets) / u128::from(measured)) as u64,
        }
    }

    /// Begins an interval.
    pub fn restart(&mut self) {
        self.packets = 0;
        self.measured = 0;
    }
}

/// What a subscription has cost since the interval began: in measured blocks, and in tallies, all of which are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub in_blocks: u64,
    pub in_tallies: u64,
}

impl Cost {
    /// Nanoseconds.
    pub fn of(self, meter: &Meter) -> u64 {
        meter.scaled(self.in_blocks) + self.in_tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

    fn tick() -> u64 {
        NOW.with(|now| {
            now.set(now.get() + 7);
            now.get()
        })
    }

    #[test]
    fn one_block_in_some_stands_for_all() {
        let mut meter = Meter::new(Some(tick));
        let sum: u64 = (0..EVERY * 3)
            .map(|_| {
                meter.block(10);
                meter.lap()
            })
            .sum();
        assert_eq!(sum, 3 * 7);
        assert_eq!(meter.scaled(sum), 3 * 7 * EVERY);
        let mut none = Meter::new(None);
        none.block(10);
        assert_eq!((none.lap(), none.now(), none.scaled(5)), (0, 0, 0));
    }
}
