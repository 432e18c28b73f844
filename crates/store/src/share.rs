//! The part of a flow in a time range. A store has the sums of a flow, not their course over time: of a flow that crosses an end
//! of the range the share by time is counted, and the answer states the bounds.

use weir_api::web::{Amount, Crossing};
use weir_api::{Count, Unit};

/// A time, from its beginning to its end, which is excluded.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its beginning.
    pub from: u64,
    /// Its end.
    pub to: u64,
}

impl Window {
    /// Whether a flow lies wholly in it.
    pub fn holds(&self, first: u64, last: u64) -> bool {
        first >= self.from && last < self.to
    }

    /// Parts of a length, the first of which begins at a time: begin and end of each, as far as they are in the range.
    pub fn parts(&self, begin: u64, length: u64, count: usize) -> Vec<(u64, u64)> {
        let within = |time: u64| time.clamp(self.from, self.to.max(self.from));
        let starts = (0..count as u64).map(|at| begin.saturating_add(at.saturating_mul(length)));
        starts.map(|start| (within(start), within(start.saturating_add(length)))).collect()
    }

    /// The part of a flow's packets and bytes in the range, if both are spread evenly over the flow's time.
    pub fn share(&self, first: u64, last: u64, count: Count) -> Count {
        let portion = |value: u64| {
            until(self.to, first, last, value).saturating_sub(until(self.from, first, last, value))
        };
        Count { packets: portion(count.packets), bytes: portion(count.bytes) }
    }
}

/// The part of a value before a time, if the value is spread evenly over the flow's time.
fn until(time: u64, first: u64, last: u64, value: u64) -> u64 {
    if time > last {
        return value;
    }
    let (passed, whole) = (time.saturating_sub(first), (last - first).max(1));
    (u128::from(value) * u128::from(passed) / u128::from(whole)) as u64
}

/// Flows that cross an end of a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crossings {
    flows: u64,
    counted: Count,
    whole: Count,
}

impl Crossings {
    /// Adds a flow: the counted part and the whole.
    pub fn add(&mut self, counted: Count, whole: Count) {
        self.flows += 1;
        self.counted.add(&counted);
        self.whole.add(&whole);
    }

    /// For an answer; none where no flow crosses an end.
    pub fn stated(&self) -> Option<Crossing> {
        let amount = |count: Count| Amount { packets: count.packets, bytes: count.bytes };
        let Self { flows, counted, whole } = *self;
        (flows > 0).then(|| Crossing { flows, counted: amount(counted), whole: amount(whole) })
    }
}

/// The most by which a sum of flows may be off because some of them cross an end of the time.
pub fn crossing_bound(crossing: Option<&Crossing>, unit: Unit) -> u64 {
    let count = |amount: Amount| Count { packets: amount.packets, bytes: amount.bytes };
    crossing.map_or(0, |found| error(count(found.counted), count(found.whole)).in_unit(unit))
}

/// Maximum error of a share: the true part is between nothing and the whole.
pub fn error(counted: Count, whole: Count) -> Count {
    let off = |counted: u64, whole: u64| counted.max(whole.saturating_sub(counted));
    Count { packets: off(counted.packets, whole.packets), bytes: off(counted.bytes, whole.bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Cut anywhere, the parts of a flow are the flow.
        #[test]
        fn parts_of_a_flow_are_the_flow(first in 0..1_000_000_u64, length in 0..1_000_000_u64, cuts in prop::collection::vec(0..3_000_000_u64, 0..8), packets in 0..u64::MAX / 2) {
            let count = Count { packets, bytes: packets / 3 };
            let mut cuts: Vec<u64> = cuts.into_iter().chain([0, 3_000_000]).collect();
            cuts.sort_unstable();
            let mut sum = Count::default();
            for pair in cuts.windows(2) {
                let &[from, to] = pair else { continue };
                let window = Window { from, to };
                let share = window.share(first, first + length, count);
                prop_assert!(share.packets <= count.packets);
                if window.holds(first, first + length) {
                    prop_assert_eq!(share, count);
                }
                sum.add(&share);
            }
            prop_assert_eq!(sum, count);
        }
    }
}
