//! State of the writer, shared with readers of the same process, and its guard against clock jumps.

use crate::Keep;
use std::sync::{Mutex, PoisonError};
use weir_api::web::Event;

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;
/// Maximum events waiting to be written.
const MAX_EVENTS: usize = 1000;

/// State of the writer.
pub struct Health {
    keep: Keep,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failed: Option<String>,
    /// Failed attempts since writing succeeded.
    attempts: u64,
    lost: u64,
    events: Vec<Event>,
}

impl Health {
    /// Creates the state for a store with these limits.
    pub fn new(keep: &Keep) -> Self {
        Self { keep: *keep, state: Mutex::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        // Each change sets one field, so that a panic cannot leave a partial update.
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Limits of the store.
    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// Adds an event at a time in nanoseconds since the epoch. It is written with the next interval.
    pub fn note(&self, time: u64, kind: &str, text: String) {
        self.keep_event(Event::note(time as f64 / 1e9, kind, text));
    }

    /// Adds an event, which is written with the next interval. Further ones than wait at most are counted as lost.
    pub fn keep_event(&self, event: Event) {
        self.with(|state| match state.events.len() {
            ..MAX_EVENTS => state.events.push(event),
            _ => state.lost += 1,
        });
    }

    /// Whether events wait to be written.
    pub fn has_events(&self) -> bool {
        self.with(|state| !state.events.is_empty())
    }

    /// Events waiting to be written.
    pub fn events(&self) -> Vec<Event> {
        self.with(|state| state.events.clone())
    }

    /// Removes the first `events`, which are written.
    pub fn written(&self, events: usize) {
        self.with(|state| drop(state.events.drain(..events.min(state.events.len()))));
    }

    /// Counts lost rows or intervals.
    pub fn lost(&self, rows: u64) {
        self.with(|state| state.lost += rows);
    }

    /// Number of lost rows and intervals.
    pub fn lost_rows(&self) -> u64 {
        self.with(|state| state.lost)
    }

    /// Notes a failed attempt to write.
    pub fn failed(&self, why: &str) {
        self.with(|state| {
            state.failed = Some(why.to_owned());
            state.attempts += 1;
        });
    }

    /// Failed attempts since writing succeeded.
    pub fn failed_attempts(&self) -> u64 {
        self.with(|state| state.attempts)
    }

    /// Notes that writing succeeded again.
    pub fn recovered(&self, time: u64) {
        let (why, attempts) = self.with(|state| (state.failed.take(), std::mem::take(&mut state.attempts)));
        if let Some(why) = why {
            let lost = self.lost_rows();
            let text =
                format!("writing resumed after {attempts} failed attempts: {why}; rows lost so far: {lost}");
            self.note(time, "store", text);
        }
    }

    /// Error of the last attempt to write, if it failed.
    pub fn why(&self) -> Option<String> {
        self.with(|state| state.failed.clone())
    }
}

/// Guard against clock jumps: data is not dropped by age because of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leap {
    /// Reference time for ages.
    trusted: u64,
    /// End of the last interval.
    latest: u64,
    /// Time after a forward jump that is not trusted yet.
    since: Option<u64>,
}

impl Leap {
    /// Continues from the reference time of the last run; 0 for none.
    pub fn after(trusted: u64) -> Self {
        Self { trusted, latest: trusted, since: None }
    }

    /// The time by which ages are counted, in nanoseconds since the epoch.
    pub fn trusted(&self) -> u64 {
        self.trusted
    }

    /// End of the last interval.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Takes the end of an interval; returns the text of an event for a clock jump.
    pub fn see(&mut self, time: u64) -> Option<String> {
        let before = std::mem::replace(&mut self.latest, time);
        if self.trusted == 0 || (time >= self.trusted && time - self.trusted <= DAY) {
            (self.trusted, self.since) = (time.max(self.trusted), None);
            return None;
        }
        if time < self.trusted {
            let by = before.saturating_sub(time);
            return (by > 60_000_000_000).then(|| {
                format!("the clock went back by {} s: new data is added to stored data", by / 1_000_000_000)
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
                Some(format!("the clock advanced by {days} days: nothing is dropped by age for one hour"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_jump_drops_nothing_for_an_hour() {
        let mut leap = Leap::after(0);
        let now = 20_000 * DAY;
        assert_eq!(leap.see(now), None);
        let future = now + 3652 * DAY;
        assert!(leap.see(future).is_some_and(|text| text.contains("3652 days")));
        assert_eq!((leap.see(future + HOUR / 2), leap.trusted()), (None, now));
        // The clock was wrong.
        assert!(leap.see(now + HOUR).is_none());
        assert_eq!(leap.trusted(), now + HOUR);
        // The clock was right.
        assert!(leap.see(future).is_some());
        assert_eq!((leap.see(future + HOUR), leap.trusted()), (None, future + HOUR));
    }

    #[test]
    fn a_clock_set_back_is_noted_once() {
        let mut leap = Leap::after(20_000 * DAY);
        assert!(leap.see(20_000 * DAY - HOUR).is_some_and(|text| text.contains("3600 s")));
        assert_eq!(leap.see(20_000 * DAY - HOUR + 30_000_000_000), None);
        assert_eq!(leap.trusted(), 20_000 * DAY);
    }
}
