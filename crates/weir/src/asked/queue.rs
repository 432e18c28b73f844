//! Findings that a thread hands to the collector, within a bound.

use std::sync::{Arc, Mutex, PoisonError};
use weir_api::Event;
use weir_api::event::MAX_EVENTS;

/// Findings since they were taken last. All clones share them.
#[derive(Clone, Debug, Default)]
pub struct Findings(Arc<Mutex<Waiting>>);

/// What waits to be taken.
#[derive(Debug, Default)]
struct Waiting {
    events: Vec<Event>,
    left_out: u64,
}

impl Findings {
    /// Hands findings over, and the number of those that are left out. At most as many wait as events can be open: further ones are
    /// left out, too.
    pub fn hand(&self, events: Vec<Event>, left_out: u64) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_EVENTS.saturating_sub(waiting.events.len());
        let excess = events.len().saturating_sub(room) as u64;
        waiting.left_out = waiting.left_out.saturating_add(left_out).saturating_add(excess);
        waiting.events.extend(events.into_iter().take(room));
    }

    /// The findings since the last call, and the number of those that were left out.
    pub fn take(&self) -> (Vec<Event>, u64) {
        let Waiting { events, left_out } =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (events, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::Subject;
    use weir_api::event::BEACON;

    #[test]
    fn findings_wait_within_a_bound_and_the_others_are_counted() {
        let findings = Findings::default();
        let events = |number: usize| vec![Event::at(&BEACON, Subject::Sensor, 1); number];
        findings.clone().hand(events(2), 3);
        findings.hand(events(MAX_EVENTS), 0);
        let (taken, left_out) = findings.take();
        assert_eq!((taken.len(), left_out), (MAX_EVENTS, 5));
        assert_eq!(findings.take(), (Vec::new(), 0));
    }
}
