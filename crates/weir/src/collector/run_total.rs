//! The sum of all intervals of a run.

use weir_api::Snapshot;

/// Number of intervals that are added up before they are added to the sum of the run.
const TOGETHER: u32 = 64;
/// Bytes of such a sum beyond which it is added to the sum of the run at once: it costs as much as that sum then.
const MAX_RECENT: usize = 256 << 10;

/// The sum of all intervals of a run. Its lists grow with the run, and a new key is put between those that are known: the
/// latest intervals are therefore added up apart, in lists that are short.
#[derive(Default)]
pub struct RunTotal {
    sum: Snapshot,
    recent: Snapshot,
    /// Number of intervals in `recent`.
    intervals: u32,
}

impl RunTotal {
    /// Adds an interval, or what belongs to an earlier one. Answers of subscriptions that its plan does not have are forgotten.
    pub fn add(&mut self, snapshot: &Snapshot) {
        let before = self.recent.outline.plan.max(self.sum.outline.plan);
        self.recent.merge(snapshot);
        self.intervals += 1;
        let has_changed = self.recent.outline.plan.max(self.sum.outline.plan) != before;
        if has_changed || self.intervals >= TOGETHER || self.recent.memory() > MAX_RECENT {
            self.settle();
        }
        if has_changed {
            self.sum.forget_removed();
        }
    }

    /// The sum.
    pub fn get(&mut self) -> &mut Snapshot {
        self.settle();
        &mut self.sum
    }

    /// The sum; nothing is left.
    pub fn take(&mut self) -> Snapshot {
        std::mem::take(self.get())
    }

    fn settle(&mut self) {
        if self.intervals > 0 {
            self.intervals = 0;
            self.sum.merge(&std::mem::take(&mut self.recent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use weir_api::{
        Answer, AnswerId, Count, Interval, Key, KeyKind, Outline, Reading, SubscriptionId, Top, TopRow, Unit,
    };

    /// The answer of a subscription: packets of so many addresses, all different ones from second to second.
    fn answer(subscription: u32, second: u32, addresses: u32) -> Answer {
        let mut rows: Vec<TopRow> = (0..addresses)
            .map(|n| TopRow {
                key: Key::Address(IpAddr::V4(Ipv4Addr::from(
                    (second * 10_000 + n).wrapping_mul(0x9e37_79b9),
                ))),
                count: Count { packets: 1, bytes: 60 },
                flows: 1,
                error: 0,
            })
            .collect();
        rows.sort_by_key(|row| row.key);
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
            outline: Arc::new(Outline::new(plan, every.into_iter())),
            ..Snapshot::default()
        }
    }

    /// Long and short intervals, and a plan without the first subscription from the two hundredth on.
    #[test]
    fn the_sum_is_that_of_all_intervals_one_by_one() {
        let (mut total, mut plain) = (RunTotal::default(), Snapshot::default());
        for second in 0..300 {
            let addresses = if second % 90 == 7 { 4_000 } else { 2 };
            let mut answers = vec![answer(7, second, addresses)];
            if second < 200 {
                answers.insert(0, answer(3, second, 1));
            }
            let one = interval(if second < 200 { 1 } else { 2 }, second, answers);
            total.add(&one);
            let before = plain.outline.plan;
            plain.merge(&one);
            if plain.outline.plan != before {
                plain.forget_removed();
            }
            if second % 50 == 49 {
                assert_eq!(*total.get(), plain, "after {second}");
            }
        }
        assert_eq!(*total.get(), plain);
        assert_eq!(plain.answers.len(), 1);
    }
}
