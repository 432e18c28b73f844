//! Ends intervals by the time of packets.

use weir_wire::Time;

/// A step of more than this between two packets counts only after the next packet confirms it: one packet with a wrong
/// time must not end an interval ten years early. Nanoseconds.
const JUMP: u64 = 24 * 3600 * 1_000_000_000;

/// Finds interval boundaries in packet times. Intervals begin at multiples of their length since the epoch.
#[derive(Clone, Debug)]
pub struct IntervalClock {
    length: u64,
    end: Option<u64>,
    doubted: Option<u64>,
    jumps: u64,
}

impl IntervalClock {
    /// A clock for intervals of `length` nanoseconds (at least 1).
    pub fn new(length: u64) -> Self {
        Self { length: length.max(1), end: None, doubted: None, jumps: 0 }
    }

    /// Takes the time of the next packet. Returns the end of the interval that this packet closes, if any: all earlier
    /// packets must be reported first. Intervals without packets are skipped.
    #[inline]
    pub fn see(&mut self, time: Time) -> Option<Time> {
        match self.end {
            Some(end) if time.0 < end => None,
            Some(end) => self.pass(time.0, end),
            None => {
                self.end = Some(self.end_of(time.0));
                None
            }
        }
    }

    /// The end of the current interval; `None` before the first packet.
    pub fn end(&self) -> Option<Time> {
        self.end.map(Time)
    }

    /// Number of time jumps so far, confirmed or not.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    fn end_of(&self, time: u64) -> u64 {
        (time - time % self.length).saturating_add(self.length)
    }

    fn pass(&mut self, time: u64, end: u64) -> Option<Time> {
        if time - end > JUMP {
            let confirmed = self.doubted.is_some_and(|doubted| doubted.abs_diff(time) <= JUMP);
            if !confirmed {
                self.jumps += 1;
                self.doubted = Some(time);
                return None;
            }
        }
        self.doubted = None;
        self.end = Some(self.end_of(time));
        Some(Time(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn boundaries_are_multiples_of_the_length() {
        let mut clock = IntervalClock::new(30 * S);
        assert_eq!(clock.see(Time(100 * S)), None);
        assert_eq!(clock.end(), Some(Time(120 * S)));
        assert_eq!(clock.see(Time(119 * S)), None);
        assert_eq!(clock.see(Time(50 * S)), None, "an older packet stays in the current interval");
        assert_eq!(clock.see(Time(120 * S)), Some(Time(120 * S)));
        assert_eq!(clock.see(Time(300 * S)), Some(Time(150 * S)), "intervals without packets are skipped");
        assert_eq!(clock.end(), Some(Time(330 * S)));
    }

    #[test]
    fn one_wrong_time_ends_no_interval() {
        let mut clock = IntervalClock::new(30 * S);
        clock.see(Time(100 * S));
        assert_eq!(clock.see(Time(u64::MAX)), None);
        assert_eq!(clock.see(Time(101 * S)), None);
        assert_eq!(clock.jumps(), 1);
        assert_eq!(clock.see(Time(400_000 * S)), None);
        assert_eq!(clock.see(Time(400_001 * S)), Some(Time(120 * S)), "a confirmed jump is accepted");
        assert_eq!(clock.jumps(), 2, "and counted once");
    }
}
