//! How the writer does, seen by readers of the same process; and what it thinks of the clock.

use super::keep::Keep;
use std::sync::{Mutex, PoisonError};
use weir_api::web::Event;

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;
/// Events that wait to be written.
const MAX_EVENTS: usize = 1000;

/// How the writer does.
pub struct Health {
    keep: Keep,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failed: Option<String>,
    lost: u64,
    events: Vec<Event>,
}

impl Health {
    /// Of a store that keeps so much.
    pub fn new(keep: &Keep) -> Self {
        Self { keep: *keep, state: Mutex::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        // A thread that died while it held it has left it whole: each change is one field.
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How much is kept.
    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// Something has happened, at a time in nanoseconds since the epoch; it is written with the next interval.
    pub fn note(&self, time: u64, kind: &str, text: String) {
        self.with(|state| {
            if state.events.len() < MAX_EVENTS {
                state.events.push(Event { time: time as f64 / 1e9, kind: kind.to_owned(), text });
            }
        });
    }

    /// Whether there is something to write.
    pub fn has_events(&self) -> bool {
        self.with(|state| !state.events.is_empty())
    }

    /// What there is to write.
    pub fn events(&self) -> Vec<Event> {
        self.with(|state| state.events.clone())
    }

    /// So many of them are written.
    pub fn written(&self, events: usize) {
        self.with(|state| drop(state.events.drain(..events.min(state.events.len()))));
    }

    /// Rows, or intervals, were lost.
    pub fn lost(&self, rows: u64) {
        self.with(|state| state.lost += rows);
    }

    /// How many were.
    pub fn lost_rows(&self) -> u64 {
        self.with(|state| state.lost)
    }

    /// Writing has failed.
    pub fn failed(&self, why: &str) {
        self.with(|state| state.failed = Some(why.to_owned()));
    }

    /// Writing goes on.
    pub fn recovered(&self, time: u64) {
        let why = self.with(|state| state.failed.take());
        if let Some(why) = why {
            let lost = self.lost_rows();
            self.note(time, "store", format!("writing goes on after: {why}; {lost} rows were lost so far"));
        }
    }

    /// Why nothing can be written, where that is so.
    pub fn why(&self) -> Option<String> {
        self.with(|state| state.failed.clone())
    }
}

/// What the writer thinks of the clock: one that leaps must not make it drop what is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leap {
    /// The time by which ages are counted.
    trusted: u64,
    /// The end of the last interval.
    latest: u64,
    /// Where the clock was after it has leapt forward.
    since: Option<u64>,
}

impl Leap {
    /// Goes on from what was trusted when the store was closed; 0 for nothing.
    pub fn after(trusted: u64) -> Self {
        Self { trusted, latest: trusted, since: None }
    }

    /// The time by which ages are counted, in nanoseconds since the epoch.
    pub fn trusted(&self) -> u64 {
        self.trusted
    }

    /// The end of the last interval.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Sees the end of an interval; what is to be told of it.
    pub fn see(&mut self, time: u64) -> Option<String> {
        let before = std::mem::replace(&mut self.latest, time);
        if self.trusted == 0 || (time >= self.trusted && time - self.trusted <= DAY) {
            (self.trusted, self.since) = (time.max(self.trusted), None);
            return None;
        }
        if time < self.trusted {
            let by = before.saturating_sub(time);
            return (by > 60_000_000_000).then(|| {
                format!(
                    "the clock was set back by {} s: what is written is added to what is there",
                    by / 1_000_000_000
                )
            });
        }
        match self.since {
            Some(since) if time >= since && time - since >= HOUR => {
                (self.trusted, self.since) = (time, None);
                None
            }
            Some(since) if time >= since => None,
            _ => {
                self.since = Some(time);
                let days = (time - self.trusted) / DAY;
                Some(format!(
                    "{days} days have passed since the last interval: nothing is dropped by age until an hour was written"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_leaps_drops_nothing_before_an_hour() {
        let mut leap = Leap::after(0);
        let now = 20_000 * DAY;
        assert_eq!(leap.see(now), None);
        let future = now + 3652 * DAY;
        assert!(leap.see(future).is_some_and(|text| text.contains("3652 days")));
        assert_eq!((leap.see(future + HOUR / 2), leap.trusted()), (None, now));
        // It was a mistake.
        assert!(leap.see(now + HOUR).is_none());
        assert_eq!(leap.trusted(), now + HOUR);
        // It was none.
        assert!(leap.see(future).is_some());
        assert_eq!((leap.see(future + HOUR), leap.trusted()), (None, future + HOUR));
    }

    #[test]
    fn a_clock_set_back_is_told_once() {
        let mut leap = Leap::after(20_000 * DAY);
        assert!(leap.see(20_000 * DAY - HOUR).is_some_and(|text| text.contains("3600 s")));
        assert_eq!(leap.see(20_000 * DAY - HOUR + 30_000_000_000), None);
        assert_eq!(leap.trusted(), 20_000 * DAY);
    }
}
