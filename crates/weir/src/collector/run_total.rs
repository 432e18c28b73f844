//! The sum of all intervals of a run.

use weir_api::Snapshot;

/// Number of sums on the way to that of the run. Each takes [`TOGETHER`] of the one before it.
const LEVELS: usize = 2;
/// Number of intervals, or of sums, that are added up before they go to the next sum.
const TOGETHER: u32 = 32;
/// Bytes of a sum beyond which it goes to the next one at once: it costs as much as the next one then.
const MAX_BYTES: [usize; LEVELS] = [256 << 10, 1 << 20];

/// The sum of all intervals of a run. Its lists grow with the run, and to put a new key into one moves the keys after it: the
/// latest intervals are therefore added up apart, in lists that are short.
#[derive(Default)]
pub struct RunTotal {
    sum: Snapshot,
    /// Whether the sum holds an interval. The first one is not added to nothing, which would cost as much as to make it.
    is_begun: bool,
    recent: [Recent; LEVELS],
}

/// The sum of some of the latest intervals.
#[derive(Default)]
struct Recent {
    sum: Snapshot,
    /// Number of intervals or sums in it.
    parts: u32,
}

impl RunTotal {
    /// Adds an interval, or what belongs to an earlier one. Answers of subscriptions that its plan does not have are forgotten.
    pub fn add(&mut self, snapshot: &Snapshot) {
        let before = self.plan();
        if let Some(first) = self.recent.first_mut() {
            match first.parts {
                0 => first.sum = snapshot.clone(),
                _ => first.sum.merge(snapshot),
            }
            first.parts += 1;
        }
        let has_changed = self.plan() != before;
        for (level, max) in MAX_BYTES.into_iter().enumerate() {
            let is_full = self
                .recent
                .get(level)
                .is_some_and(|recent| recent.parts >= TOGETHER || recent.sum.memory() > max);
            if !is_full {
                break;
            }
            self.pass(level);
        }
        if has_changed {
            self.get().forget_removed();
        }
    }

    /// The sum.
    pub fn get(&mut self) -> &mut Snapshot {
        (0..LEVELS).for_each(|level| self.pass(level));
        &mut self.sum
    }

    /// The sum; nothing is left.
    pub fn take(&mut self) -> Snapshot {
        let sum = std::mem::take(self.get());
        self.is_begun = false;
        sum
    }

    /// The latest plan of an interval.
    fn plan(&self) -> u64 {
        let recent = self.recent.iter().map(|recent| recent.sum.outline.plan);
        recent.fold(self.sum.outline.plan, u64::max)
    }

    /// Adds the sum at a level to the next one.
    fn pass(&mut self, level: usize) {
        let Some(Recent { sum, parts }) = self.recent.get_mut(level).map(std::mem::take) else { return };
        if parts == 0 {
            return;
        }
        match self.recent.get_mut(level + 1) {
            Some(next) if next.parts == 0 => *next = Recent { sum, parts: 1 },
            Some(next) => {
                next.sum.merge(&sum);
                next.parts += 1;
            }
            None if self.is_begun => self.sum.merge(&sum),
            None => self.sum = sum,
        }
        self.is_begun |= level + 1 == LEVELS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use weir_api::{
        Answer, AnswerId, Count, Interval, Key, KeyKind, Outline, Reading, Rows, SubscriptionId, Top, TopRow,
        Unit,
    };

    /// The answer of a subscription: a packet of each of `addresses` addresses. No two seconds have an address in common.
    fn answer(subscription: u32, second: u32, addresses: u32) -> Answer {
        let rows: Rows<TopRow> = (0..addresses)
            .map(|n| TopRow {
                key: Key::Address(IpAddr::V4(Ipv4Addr::from(
                    (second * 10_000 + n).wrapping_mul(0x9e37_79b9),
                ))),
                count: Count { packets: 1, bytes: 60 },
                flows: 1,
                error: 0,
            })
            .collect();
        let top = Top {
            key: KeyKind::Source,
            show: 10,
            unit: Unit::Bytes,
            capacity: 1 << 16,
            inserts: rows.len() as u64,
            rows,
            absent: 0,
            shed: Count::default(),
        };
        let id = AnswerId { subscription: SubscriptionId(subscription), place: 0 };
        Answer { id, label: Arc::default(), reading: Reading::Top(top), nanoseconds: 1 }
    }

    fn interval(plan: u64, second: u32, answers: Vec<Answer>) -> Snapshot {
        let every = answers.iter().map(|answer| (answer.clone(), false)).collect::<Vec<_>>();
        let start = u64::from(second) + 1;
        Snapshot {
            interval: Interval { start, end: start + 1 },
            answers,
            outline: Arc::new(Outline::new(plan, every)),
            ..Snapshot::default()
        }
    }

    /// Long and short intervals, and a plan without the first subscription from the two thousandth on.
    #[test]
    fn the_sum_is_that_of_all_intervals_one_by_one() {
        let (mut total, mut plain) = (RunTotal::default(), Snapshot::default());
        for second in 0..2_500 {
            let addresses = if second % 900 == 7 { 4_000 } else { 2 };
            let mut answers = vec![answer(7, second, addresses)];
            if second < 2_000 {
                answers.insert(0, answer(3, second, 1));
            }
            let one = interval(if second < 2_000 { 1 } else { 2 }, second, answers);
            total.add(&one);
            let before = plain.outline.plan;
            plain.merge(&one);
            if plain.outline.plan != before {
                plain.forget_removed();
            }
            if second % 400 == 399 {
                assert_eq!(*total.get(), plain, "after {second}");
            }
        }
        assert_eq!(*total.get(), plain);
        assert_eq!(plain.answers.len(), 1);
    }
}
