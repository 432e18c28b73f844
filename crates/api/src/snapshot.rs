//! The merged answers of an interval: the only output of the pass.

use crate::{Applications, Composition, Costs, FlowCount, Ledger, Reading, SessionCount};
use serde::Serialize;
use std::net::IpAddr;

/// A time range. Nanoseconds since the epoch, `end` excluded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Interval {
    /// Beginning of the range.
    pub start: u64,
    /// End of the range.
    pub end: u64,
}

impl Interval {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.start) as f64 / 1e9
    }

    /// The smallest interval that contains both. An interval without length is ignored.
    fn hull(self, other: Interval) -> Interval {
        match (self.start == self.end, other.start == other.end) {
            (true, _) => other,
            (_, true) => self,
            _ => Interval { start: self.start.min(other.start), end: self.end.max(other.end) },
        }
    }
}

/// The result of one function of one subscription.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The subscription's name.
    pub subscription: String,
    /// The chart that has the subscription as a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// The function's name.
    pub function: String,
    /// The result.
    pub reading: Reading,
    /// Cost of the function in nanoseconds of worker time, estimated from a sample of the packets; 0 if not measured.
    #[serde(skip)]
    pub nanoseconds: u64,
}

impl Answer {
    /// Whether both answers are of one function of one subscription.
    fn is_like(&self, other: &Answer) -> bool {
        self.subscription == other.subscription
            && self.chart == other.chart
            && self.function == other.function
            && self.reading.is_like(&other.reading)
    }

    fn add(&mut self, other: &Answer) {
        self.reading.merge(&other.reading);
        self.nanoseconds += other.nanoseconds;
    }
}

/// The merged answers of an interval, or of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// The time range of the answers: a whole interval, even if its packets cover only a part of it.
    pub interval: Interval,
    /// The watched time that ends with the interval; it begins earlier if a watched silence precedes the interval. `None`
    /// means the whole interval, and a range without length means that none of it was watched.
    #[serde(skip)]
    pub watched: Option<Interval>,
    /// Times of the earliest and the latest packet, both inclusive.
    #[serde(skip)]
    pub packets: Option<Interval>,
    /// The fate of each packet of the interval.
    pub ledger: Ledger,
    /// Counts of the flow table in the interval.
    pub flows: FlowCount,
    /// Counts of sessions and streams; all 0 if no output reads payload.
    pub sessions: SessionCount,
    /// Cost of the pass in the interval, without the functions.
    #[serde(skip)]
    pub costs: Costs,
    /// Application protocols of the flows that ended in the interval.
    #[serde(skip)]
    pub applications: Applications,
    /// Packets in tunnels and packets without IP.
    #[serde(skip)]
    pub composition: Composition,
    /// The lowest addresses, at most four, of senders that offload checksums to their network cards.
    pub offloaders: Vec<IpAddr>,
    /// The answers, in the order of the plan.
    pub answers: Vec<Answer>,
}

impl Snapshot {
    /// Adds the snapshot of another worker in the same interval, or of another interval. An empty snapshot is neutral.
    pub fn merge(&mut self, other: &Snapshot) {
        self.merge_counters(other);
        if self.answers.is_empty() {
            self.answers.clone_from(&other.answers);
        } else if self.is_of_the_plan_of(other) {
            for (mine, theirs) in self.answers.iter_mut().zip(&other.answers) {
                mine.add(theirs);
            }
        } else if !other.answers.is_empty() {
            // After a change of plan, answers of subscriptions that are still in it continue. Other answers are
            // dropped.
            let before = std::mem::replace(&mut self.answers, other.answers.clone());
            for (at, mine) in self.answers.iter_mut().enumerate() {
                let same_place = before.get(at).filter(|old| old.is_like(mine));
                if let Some(old) = same_place.or_else(|| before.iter().find(|old| old.is_like(mine))) {
                    mine.add(old);
                }
            }
        }
    }

    /// The time from the first packet to the last; the interval if it has no packet.
    pub fn times(&self) -> Interval {
        self.packets.unwrap_or(self.interval)
    }

    /// Watched seconds of the interval: the divisor of its rates.
    pub fn watched_seconds(&self) -> f64 {
        let watched = self.watched.unwrap_or(self.interval);
        let start = watched.start.max(self.interval.start);
        Interval { start, end: watched.end.min(self.interval.end).max(start) }.seconds()
    }

    /// Approximate size in bytes.
    pub fn memory(&self) -> usize {
        let of = |answer: &Answer| {
            let rows = match &answer.reading {
                Reading::Top(top) => size_of_val(top.rows.as_slice()),
                _ => 256,
            };
            size_of::<Answer>() + 96 + rows
        };
        size_of::<Self>() + self.applications.memory() + self.answers.iter().map(of).sum::<usize>()
    }

    /// Merges everything but the answers, which are left unchanged.
    pub fn merge_counters(&mut self, other: &Snapshot) {
        if self.is_of_no_time() {
            self.interval = other.interval;
        } else if !other.is_of_no_time() {
            self.interval.start = self.interval.start.min(other.interval.start);
            self.interval.end = self.interval.end.max(other.interval.end);
        }
        self.watched = match (self.watched, other.watched) {
            (Some(one), Some(other)) => Some(one.hull(other)),
            (one, other) => one.or(other),
        };
        self.packets = match (self.packets, other.packets) {
            (Some(one), Some(other)) => {
                Some(Interval { start: one.start.min(other.start), end: one.end.max(other.end) })
            }
            (one, other) => one.or(other),
        };
        self.ledger.add(&other.ledger);
        self.flows.add(&other.flows);
        self.sessions.add(&other.sessions);
        self.costs.add(&other.costs);
        self.applications.merge(&other.applications);
        self.composition.merge(&other.composition);
        self.offloaders.extend(&other.offloaders);
        self.offloaders.sort_unstable();
        self.offloaders.dedup();
        self.offloaders.truncate(4);
    }

    fn is_of_the_plan_of(&self, other: &Snapshot) -> bool {
        self.answers.len() == other.answers.len()
            && self.answers.iter().zip(&other.answers).all(|(mine, theirs)| mine.is_like(theirs))
    }

    /// Whether the worker or run has not seen a packet yet. A packet's time can be 0.
    fn is_of_no_time(&self) -> bool {
        self.interval == Interval::default() && self.ledger.caught == 0
    }

    /// The readings of a subscription.
    pub fn of<'a>(&'a self, subscription: &'a str) -> impl Iterator<Item = &'a Reading> + 'a {
        self.answers.iter().filter(move |a| a.subscription == subscription).map(|a| &a.reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Count, Unit};

    fn answer(name: &str, reading: Reading) -> Answer {
        let (subscription, function) = (name.to_owned(), "f".to_owned());
        Answer { subscription, chart: None, function, reading, nanoseconds: 1 }
    }

    fn count(packets: u64) -> Reading {
        Reading::Count(Count { packets, bytes: 0 })
    }

    fn of(answers: Vec<Answer>) -> Snapshot {
        Snapshot { answers, ..Snapshot::default() }
    }

    #[test]
    fn merging_two_plans_adds_shared_answers_and_keeps_the_later_plan() {
        let classes = Reading::Classes {
            unit: Unit::Packets,
            classes: vec![Class { label: "c".to_owned(), count: Count::default() }],
        };
        let mut sum = of(vec![answer("a", count(1)), answer("b", count(2)), answer("x", count(3))]);
        // One subscription is new, two have changed places, one is gone, and one has another function under its name.
        let later = of(vec![
            answer("n", count(10)),
            answer("b", count(20)),
            answer("a", count(30)),
            answer("x", classes),
        ]);
        sum.merge(&later);
        let found: Vec<(&str, Option<u64>, u64)> = sum
            .answers
            .iter()
            .map(|answer| {
                let packets =
                    if let Reading::Count(count) = &answer.reading { Some(count.packets) } else { None };
                (answer.subscription.as_str(), packets, answer.nanoseconds)
            })
            .collect();
        assert_eq!(found, [("n", Some(10), 1), ("b", Some(22), 2), ("a", Some(31), 2), ("x", None, 1)]);
        // Merging the snapshot of a worker without packets changes nothing.
        let before = sum.clone();
        sum.merge(&Snapshot::default());
        assert_eq!(sum, before);
    }
}
