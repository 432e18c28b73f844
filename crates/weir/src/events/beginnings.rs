//! Bounds the events about traffic that begin in a minute, and makes the finding that stands for the others.

use crate::triggers::OF_TRIGGER;
use std::collections::{BTreeMap, BTreeSet};
use weir_api::event::MANY;
use weir_api::{Event, Folded, Interval, Subject};

/// Maximum number of events about traffic that begin in a minute.
const MOST: u64 = 100;
const MINUTE: u64 = 60_000_000_000;
/// Number of events that were not opened and are known when they are found again. Of more, each counts again.
const KNOWN: usize = 4096;

/// The events about traffic that have begun in a minute of the run's time, which is that of packets.
#[derive(Default)]
pub(super) struct Beginnings {
    /// The interval whose findings are taken.
    interval: Interval,
    /// The number of events that have begun, by minutes since the epoch: those of the interval, and the minute at its end.
    minutes: BTreeMap<u64, u64>,
    /// Events that were not opened while the event that stands for them was open, by what they would be identified by without their times.
    known: BTreeSet<u64>,
    /// Those of this interval.
    others: Others,
}

/// Findings of an interval whose events were not opened.
#[derive(Default)]
struct Others {
    findings: u64,
    /// Sum of their counts.
    count: u64,
    /// Events that were not known.
    events: u64,
    first: u64,
    last: u64,
}

impl Beginnings {
    /// Begins an interval.
    pub(super) fn enter(&mut self, interval: Interval) {
        self.interval = interval;
    }

    /// Whether an event is to wait for another minute, because its minute is full.
    pub(super) fn holds(&self, event: &Event) -> bool {
        is_limited(event) && self.minutes.get(&self.minute(event)).is_some_and(|begun| *begun >= MOST)
    }

    /// Notes that an event has begun.
    pub(super) fn begun(&mut self, event: &Event) {
        if is_limited(event) {
            *self.minutes.entry(self.minute(event)).or_default() += 1;
        }
    }

    /// Notes a finding whose event is not opened.
    pub(super) fn hold(&mut self, event: &Event) {
        let mut subject = Event { begin: 0, evidence: Vec::new(), ..event.clone() };
        subject.identify();
        let is_new = self.known.len() >= KNOWN || self.known.insert(subject.id);
        let others = &mut self.others;
        others.first = if others.findings == 0 { event.last } else { others.first.min(event.last) };
        others.last = others.last.max(event.last);
        others.findings += 1;
        others.count = others.count.saturating_add(event.count);
        others.events += u64::from(is_new);
    }

    /// The finding that stands for those of the interval whose events were not opened, and their number.
    pub(super) fn others(&mut self) -> Option<(Event, u64)> {
        let others = std::mem::take(&mut self.others);
        let many = Event {
            count: others.count,
            last: others.last,
            ..Event::at(&MANY, Subject::Sensor, others.first)
        };
        let many = many.with("events", "events", Folded::Sum(others.events));
        (others.findings > 0).then_some((many, others.findings))
    }

    /// Ends the interval. `is_open`: the event that stands for others goes on.
    pub(super) fn leave(&mut self, is_open: bool) {
        let last = self.interval.end / MINUTE;
        self.minutes.retain(|minute, _| *minute == last);
        if !is_open {
            self.known.clear();
        }
    }

    /// Bytes of heap memory that it holds.
    pub(super) fn held(&self) -> usize {
        // A tree may be half full.
        2 * size_of::<u64>() * (self.known.len() + 2 * self.minutes.len())
    }

    /// The minute in which an event was found. What is found late counts to its interval, so that no earlier minute is filled again.
    fn minute(&self, event: &Event) -> u64 {
        let Interval { start, end } = self.interval;
        let time = if end > start { event.last.min(end - 1).max(start) } else { event.last };
        time / MINUTE
    }
}

/// Whether an event is one of those that are bounded. Those of triggers are not: each has limits of its own, and what was asked to be
/// kept is not to be missed.
fn is_limited(event: &Event) -> bool {
    let origin = event.origin.as_ref();
    event.kind.is_of_traffic() && !origin.is_some_and(|origin| origin.subscription.starts_with(OF_TRIGGER))
}
