//! Leaps of the clock that the packets of files have their times from.

use weir_api::event::CLOCK_LEAP;
use weir_api::{Event, Folded, Subject};
use weir_wire::Time;

/// Leaps between the packets of a part of the input.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Leaps {
    /// Number of leaps back and ahead.
    back: u64,
    ahead: u64,
    /// The longest leap back and ahead, in nanoseconds.
    most_back: u64,
    most_ahead: u64,
    /// The first and the last time, in nanoseconds since the epoch; of the two times of a leap the earlier one.
    times: Option<(u64, u64)>,
}

impl Leaps {
    /// Adds the leap between two consecutive packets.
    fn add(&mut self, from: Time, to: Time) {
        let by = from.0.abs_diff(to.0);
        if to < from {
            (self.back, self.most_back) = (self.back + 1, self.most_back.max(by));
        } else {
            (self.ahead, self.most_ahead) = (self.ahead + 1, self.most_ahead.max(by));
        }
        let time = from.0.min(to.0);
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }

    /// The leaps as an event; `None` without one.
    pub fn event(&self) -> Option<Event> {
        let (begin, last) = self.times?;
        let event = Event::at(&CLOCK_LEAP, Subject::Sensor, begin)
            .with("back", "leaps", Folded::Sum(self.back))
            .with("ahead", "leaps", Folded::Sum(self.ahead))
            .with("most_back", "nanoseconds", Folded::Max(Some(self.most_back)))
            .with("most_ahead", "nanoseconds", Folded::Max(Some(self.most_ahead)));
        Some(Event { last, count: self.back + self.ahead, ..event })
    }
}

/// The leaps of a unit of packets, by the interval in which they are.
#[derive(Default)]
pub struct UnitLeaps {
    /// Number of intervals that began in the unit before the leaps, and the leaps. The numbers increase.
    parts: Vec<(usize, Leaps)>,
}

impl UnitLeaps {
    /// Forgets all leaps.
    pub fn clear(&mut self) {
        self.parts.clear();
    }

    /// Adds the leap between two consecutive packets, after the begin of `begun` intervals in the unit.
    pub fn add(&mut self, begun: usize, from: Time, to: Time) {
        match self.parts.last_mut() {
            Some((known, leaps)) if *known == begun => leaps.add(from, to),
            _ => {
                let mut leaps = Leaps::default();
                leaps.add(from, to);
                self.parts.push((begun, leaps));
            }
        }
    }

    /// The event of the leaps after the begin of `begun` intervals in the unit, and before the next one.
    pub fn event(&self, begun: usize) -> Option<Event> {
        let at = self.parts.binary_search_by_key(&begun, |(known, _)| *known).ok()?;
        self.parts.get(at)?.1.event()
    }
}

/// The difference between the two clocks of a live run from which on it is a step, in nanoseconds.
const STEP: u64 = 1_000_000_000;

/// Finds steps of the system's clock while links are read. Packets have their times from it. Ticks have theirs from a clock
/// that no one sets, so that a step neither repeats nor skips one.
#[derive(Debug, Default)]
pub struct ClockWatch {
    /// How much the system's clock was ahead at the last look, in nanoseconds.
    ahead: i64,
}

impl ClockWatch {
    /// Compares the times that the clock of ticks and the system's clock show at one moment. A clock that is corrected
    /// gradually is followed.
    pub fn look(&mut self, ticks: Time, system: Time) -> Option<Event> {
        let ahead = system.0.wrapping_sub(ticks.0).cast_signed();
        let before = std::mem::replace(&mut self.ahead, ahead);
        if ahead.abs_diff(before) < STEP {
            return None;
        }
        let mut leaps = Leaps::default();
        leaps.add(Time(ticks.0.saturating_add_signed(before)), system);
        let event = leaps.event()?;
        Some(Event { begin: ticks.0, last: ticks.0, ..event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_systems_clock_are_found_once() {
        let mut watch = ClockWatch::default();
        let mut look = |ticks: u64, system: u64| {
            let event = watch.look(Time(ticks * 1_000_000_000), Time(system * 1_000_000));
            event.map(|event| {
                let numbers = ["back", "ahead", "most_back", "most_ahead"];
                (event.begin / 1_000_000_000, numbers.map(|name| event.number(name)))
            })
        };
        // Slewed by half a second in each.
        for second in 0..10 {
            assert_eq!(look(100 + second, 100_000 + second * 1_500), None);
        }
        assert_eq!(look(110, 175_000), Some((110, [Some(0), Some(1), Some(0), Some(60_500_000_000)])));
        assert_eq!(look(111, 176_000), None);
        assert_eq!(look(112, 112_000), Some((112, [Some(1), Some(0), Some(65_000_000_000), Some(0)])));
        assert_eq!(look(113, 113_000), None);
    }

    #[test]
    fn leaps_are_added_up_for_each_interval() {
        let mut unit = UnitLeaps::default();
        unit.add(0, Time(9_000), Time(1_000));
        unit.add(2, Time(1_000), Time(50_000));
        unit.add(2, Time(50_000), Time(2_000));
        let event = unit.event(0).unwrap();
        assert_eq!((event.count, event.number("back"), event.number("most_back")), (1, Some(1), Some(8_000)));
        assert_eq!(unit.event(1), None);
        let event = unit.event(2).unwrap();
        assert_eq!(
            (event.count, event.number("ahead"), event.number("most_ahead")),
            (2, Some(1), Some(49_000))
        );
        assert_eq!((event.begin, event.last), (1_000, 2_000));
        unit.clear();
        assert_eq!(unit.event(0), None);
    }
}
