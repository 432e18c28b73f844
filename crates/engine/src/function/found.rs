//! What functions that find events count of each subject: its items, and the times of the first and the last.

use super::times::Times;
use crate::bounded::Amount;
use weir_api::event::FINDING;
use weir_api::{Count, Event, Folded, Interval, Subject, Unit};
use weir_wire::Time;

/// The items of a subject.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    items: u64,
    /// Begin of the first, and end of the last.
    times: Times,
    error: u32,
}

impl Found {
    /// The values of its row: number of items, begin of the first, end of the last.
    pub fn values(&self) -> [Folded; 3] {
        let [first, last] = self.times.folded();
        [Folded::Sum(self.items), first, last]
    }

    /// The event of these values, in an interval; `None` if there are no items.
    pub fn event(values: &[Folded], subject: Subject, interval: Interval) -> Option<Event> {
        let [Folded::Sum(items), Folded::Min(first), Folded::Max(last)] = values else {
            return None;
        };
        let event = Event::at(&FINDING, subject, first.unwrap_or(interval.start));
        (*items > 0).then(|| Event { last: last.unwrap_or(event.begin), count: *items, ..event })
    }
}

impl Amount for Found {
    type More = (Time, Time);
    const LEAST: u32 = 1;

    fn weight_of(_: &(Time, Time), _: Unit) -> u64 {
        1
    }

    fn count_of(_: &(Time, Time)) -> Count {
        Count { packets: 1, bytes: 0 }
    }

    fn add(&mut self, (first, last): &(Time, Time), _: Unit, _: usize) -> u64 {
        self.items += 1;
        self.times.add(first.0, last.0);
        1
    }

    fn weight(&self, _: Unit) -> u64 {
        self.items
    }

    fn count(&self) -> Count {
        Count { packets: self.items, bytes: 0 }
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}
