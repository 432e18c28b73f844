//! The merged answers of an interval: the only output of the pass.

use crate::answer::{self, Answer, AnswerId, Outline};
use crate::{
    ChecksumSenders, Costs, Datum, Event, EventCount, FlowCount, Folded, Ledger, Reading, SessionCount,
    SubscriptionId, Table, TableRow, event,
};
use serde::Serialize;
use std::net::IpAddr;
use std::sync::Arc;

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

/// The merged answers of an interval, or of a whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The time range of the answers: a whole interval, even if its packets cover only a part of it.
    pub interval: Interval,
    /// The watched time that ends with the interval; it begins earlier if a watched silence precedes the interval. `None`
    /// means the whole interval, and a range without length means that none of it was watched.
    pub watched: Option<Interval>,
    /// Times of the earliest and the latest packet, both inclusive.
    pub packets: Option<Interval>,
    /// The fate of each packet of the interval.
    pub ledger: Ledger,
    /// Counts of the flow table in the interval.
    pub flows: FlowCount,
    /// Counts of sessions and streams; all 0 if no output reads payload.
    pub sessions: SessionCount,
    /// Cost of the pass in the interval, without the functions.
    pub costs: Costs,
    /// The lowest addresses, at most four, of senders whose packets hold what Linux leaves for the network card to finish.
    /// [`Snapshot::offloading`] has those of all systems.
    pub offloaders: Vec<IpAddr>,
    /// The answers, ordered by [`Answer::id`]. A worker leaves out those that hold nothing: see [`Snapshot::fill`].
    pub answers: Vec<Answer>,
    /// Every answer of the latest plan.
    pub outline: Arc<Outline>,
    /// Events of the interval, ordered by kind and subject; at most [`event::MAX_EVENTS`].
    pub events: Vec<Event>,
    /// Counts of events.
    pub event_count: EventCount,
    /// Who sends right and who sends wrong checksums.
    pub senders: ChecksumSenders,
}

impl Snapshot {
    /// Adds the snapshot of another worker in the same interval, or of another interval. An empty snapshot is neutral.
    /// Answers of subscriptions that only one of the two has are kept.
    pub fn merge(&mut self, other: &Snapshot) {
        self.merge_counters(other);
        answer::add(&mut self.answers, &other.answers);
        self.add_events(&other.events);
        if other.outline.plan > self.outline.plan {
            self.outline = Arc::clone(&other.outline);
        }
    }

    /// Adds events. Findings beyond the bound are counted.
    pub fn add_events(&mut self, events: &[Event]) {
        self.event_count.shed += event::add(&mut self.events, events);
    }

    /// Adds the answers of the plan that hold nothing, so that every answer of the plan is there.
    pub fn fill(&mut self) {
        self.outline.fill(&mut self.answers);
    }

    /// Divides the cost of the expressions that are only counted among their answers. To be called once for each interval, before
    /// it is added to others.
    pub fn share_costs(&mut self) {
        self.outline.share(&mut self.answers, self.costs.counted);
    }

    /// Removes the answers of subscriptions that the latest plan does not have.
    pub fn forget_removed(&mut self) {
        self.answers.retain(|answer| self.outline.has(answer.id));
    }

    /// Takes the answers for which `is_apart` holds out of the snapshot. `rest` is the plan's outline without them.
    pub fn take_apart(&mut self, rest: &Arc<Outline>, is_apart: impl Fn(&Answer) -> bool) -> Vec<Answer> {
        self.outline = Arc::clone(rest);
        self.answers.extract_if(.., |answer| is_apart(answer)).collect()
    }

    /// Puts the answers into the order of the plan, for display. Merge nothing into the snapshot afterwards.
    pub fn arrange(&mut self) {
        self.outline.arrange(&mut self.answers);
    }

    /// The reading of the first function of a subscription.
    pub fn reading_of(&self, subscription: SubscriptionId) -> Option<&Reading> {
        let at = self.answers.iter().find(|answer| answer.id.subscription == subscription);
        at.map(|answer| &answer.reading)
    }

    /// The reading of a function.
    pub fn reading_at(&self, id: AnswerId) -> Option<&Reading> {
        self.answers.iter().find(|answer| answer.id == id).map(|answer| &answer.reading)
    }

    /// The table of a function; `None` if its reading is no table.
    pub fn table_at(&self, id: AnswerId) -> Option<&Table> {
        match self.reading_at(id)? {
            Reading::Table(table) => Some(table),
            _ => None,
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
                Reading::Top(top) => top.rows.memory(),
                // Those of the servers of protocols are long; texts are left out, so that no row is visited.
                Reading::Table(Table { schema, rows, .. }) => {
                    let (keys, values) = (schema.keys.len(), schema.columns.len());
                    rows.len()
                        * (size_of::<TableRow>() + keys * size_of::<Datum>() + values * size_of::<Folded>())
                }
                _ => 256,
            };
            size_of::<Answer>() + 96 + rows
        };
        size_of::<Self>()
            + self.answers.iter().map(of).sum::<usize>()
            + self.events.iter().map(Event::memory).sum::<usize>()
            + self.senders.memory()
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
        self.event_count.add(&other.event_count);
        self.costs.add(&other.costs);
        self.offloaders.extend(&other.offloaders);
        self.offloaders.sort_unstable();
        self.offloaders.dedup();
        self.offloaders.truncate(4);
        self.senders.merge(&other.senders);
    }

    /// The lowest addresses, at most four, of senders that leave checksums to their network cards.
    pub fn offloading(&self) -> Vec<IpAddr> {
        let mut all = self.offloaders.clone();
        all.extend(self.senders.offloaded().map(|(address, ..)| address));
        all.sort_unstable();
        all.dedup();
        all.truncate(4);
        all
    }

    /// The ledger, in which the wrong checksums of senders that leave all of them to their cards count as offloaded. Only
    /// all packets of a sender tell that, so that a sum of ledgers does not have it.
    pub fn settled_ledger(&self) -> Ledger {
        let packets = self.senders.offloaded().fold(0_u64, |sum, (.., packets)| sum.saturating_add(packets));
        let packets = packets.min(self.ledger.checksums_bad);
        let mut ledger = self.ledger;
        ledger.checksums_bad -= packets;
        ledger.checksums_offloaded = ledger.checksums_offloaded.saturating_add(packets);
        ledger
    }

    /// Whether the worker or run has not seen a packet yet. A packet's time can be 0.
    fn is_of_no_time(&self) -> bool {
        self.interval == Interval::default() && self.ledger.caught == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Count;

    fn answer(number: u32, packets: u64) -> Answer {
        Answer {
            id: AnswerId { subscription: SubscriptionId(number), place: 0 },
            label: Arc::default(),
            reading: Reading::Count(Count { packets, bytes: 0 }),
            nanoseconds: 1,
        }
    }

    fn of(plan: u64, numbers: &[u32], answers: Vec<Answer>) -> Snapshot {
        let empty = numbers.iter().map(|number| (Answer { nanoseconds: 0, ..answer(*number, 0) }, false));
        Snapshot { answers, outline: Arc::new(Outline::new(plan, empty)), ..Snapshot::default() }
    }

    #[test]
    fn merging_two_plans_keeps_all_answers_until_removed_ones_are_forgotten() {
        let mut sum = of(1, &[1, 2, 3], vec![answer(1, 1), answer(2, 2), answer(3, 3)]);
        // One subscription is new, one is gone, one holds nothing.
        let later = of(2, &[4, 3, 1], vec![answer(3, 30), answer(4, 40)]);
        let mut other_way = later.clone();
        other_way.merge(&sum);
        sum.merge(&later);
        assert_eq!(sum, other_way);
        let found = |sum: &Snapshot| {
            let packets = |answer: &Answer| match &answer.reading {
                Reading::Count(count) => count.packets,
                _ => 0,
            };
            let rows = sum.answers.iter();
            rows.map(|answer| (answer.id.subscription.0, packets(answer))).collect::<Vec<_>>()
        };
        assert_eq!(found(&sum), [(1, 1), (2, 2), (3, 33), (4, 40)]);
        sum.forget_removed();
        assert_eq!(found(&sum), [(1, 1), (3, 33), (4, 40)]);
        sum.arrange();
        assert_eq!(found(&sum), [(4, 40), (3, 33), (1, 1)]);
        // Merging the snapshot of a worker without packets changes nothing.
        let before = other_way.clone();
        other_way.merge(&Snapshot::default());
        assert_eq!(other_way, before);
    }
}
