//! The part of a flow in a time range. A store has the sums of a flow, and for flows of many bytes what they moved in each
//! interval. Of the rest of a flow that crosses an end of the range the share by time is counted, and the answer states the bounds.

// Times are at most 2^64 - 1 nanoseconds, whatever a capture or a query has: arithmetic on them saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

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
    let (passed, whole) = (time.saturating_sub(first), last.saturating_sub(first).max(1));
    let part = u128::from(value).saturating_mul(u128::from(passed)).checked_div(u128::from(whole));
    part.map_or(value, |part| part as u64)
}

/// Packets and bytes of both directions of a flow, the client's first.
pub type Sides = [Count; 2];

/// Packets and bytes in a range, and the most by which they may be off.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Share {
    /// What is counted.
    pub count: Count,
    /// Maximum error.
    pub error: Count,
}

impl Share {
    /// A share without error.
    pub fn exact(count: Count) -> Self {
        Self { count, error: Count::default() }
    }

    /// Adds a share of another part.
    pub fn add(&mut self, other: &Self) {
        self.count.add(&other.count);
        self.error.add(&other.error);
    }
}

/// The share of both directions together.
pub fn both([mut sum, reverse]: [Share; 2]) -> Share {
    sum.add(&reverse);
    sum
}

/// What a flow moved from `span.0` on and before `span.1`.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The time.
    pub span: (u64, u64),
    /// What was moved.
    pub sums: Sides,
}

impl Piece {
    /// The share of a range, and whether that is all or nothing of it.
    fn within(&self, window: &Window) -> ([Share; 2], bool) {
        let (from, until) = self.span;
        if until <= window.from || from >= window.to {
            return (Default::default(), true);
        }
        let last = until.saturating_sub(1).max(from);
        if window.holds(from, last) {
            return (self.sums.map(Share::exact), true);
        }
        let share = |whole: Count| {
            let count = window.share(from, last, whole);
            Share { count, error: error(count, whole) }
        };
        (self.sums.map(share), false)
    }
}

/// The course of a flow: what is known of when it moved its packets and bytes.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Times of its first and its last packet.
    pub times: (u64, u64),
    /// What it moved at unknown times between them.
    pub rest: Sides,
    /// What it moved within shorter times.
    pub pieces: Vec<Piece>,
}

impl Course {
    /// The course of a flow without parts.
    pub fn unknown(times: (u64, u64), sums: Sides) -> Self {
        Self { times, rest: sums, pieces: Vec::new() }
    }

    /// The share of a range, of both directions.
    pub fn within(&self, window: &Window) -> [Share; 2] {
        self.shares(window, |_, _| {})
    }

    /// As [`Course::within`]. What is spread over an end of the range is noted.
    pub fn crossing(&self, window: &Window, crossings: &mut Crossings) -> [Share; 2] {
        let (mut counted, mut whole) = (Count::default(), Count::default());
        let shares = self.shares(window, |piece, shares| {
            shares.iter().for_each(|share| counted.add(&share.count));
            piece.sums.iter().for_each(|side| whole.add(side));
        });
        if whole != Count::default() {
            crossings.add(counted, whole);
        }
        shares
    }

    fn shares(&self, window: &Window, mut spread: impl FnMut(&Piece, &[Share; 2])) -> [Share; 2] {
        let rest = Piece { span: (self.times.0, self.times.1.saturating_add(1)), sums: self.rest };
        let mut sum = [Share::default(); 2];
        for piece in self.pieces.iter().chain([&rest]) {
            let (shares, is_known) = piece.within(window);
            sum.iter_mut().zip(&shares).for_each(|(sum, share)| sum.add(share));
            if !is_known {
                spread(piece, &shares);
            }
        }
        sum
    }
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
        self.flows = self.flows.saturating_add(1);
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
