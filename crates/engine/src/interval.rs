//! Finds the interval of each packet and the watched time, by the times of packets.

// Times are at most 2^64 - 1 nanoseconds, whatever a capture or a query has: arithmetic on them saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::ops::Range;
use weir_api::Interval;
use weir_wire::Time;

/// The longest silence in nanoseconds. The time within a longer step between two packets was not watched.
const DAY: u64 = 24 * 3600 * 1_000_000_000;

/// Number of switches that a capture may make at its beginning. A switch is a change of interval by a packet that is
/// earlier than the current interval, or more than [`DAY`] after the packet before it.
const SWITCHES: u64 = 2048;
/// Number of packets that allow one further switch.
const PACKETS_PER_SWITCH: u64 = 128;
/// A switch visits all flows, so that its cost grows with the number of packets before it: by one for each of these.
const PACKETS_PER_COST: u64 = 1 << 14;
/// The cost stops growing at this number of packets: flow tables rarely have more flows.
const MAX_COST_PACKETS: u64 = 1 << 20;

/// Consecutive packets of one interval.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stretch {
    /// The whole interval of the packets.
    pub interval: Interval,
    /// The watched time: the interval, and the silence before it.
    pub watched: Interval,
    /// Whether the stretch is later than the one before it. Then time has passed up to its interval. If not, no flow ends, so that one packet with a wrong time ends
    /// none.
    pub is_later: bool,
}

impl Stretch {
    /// The watched silence before the interval; without length if there is none.
    pub fn silence(&self) -> Interval {
        Interval { start: self.watched.start, end: self.interval.start }
    }
}

/// Finds the interval of each packet. Intervals begin at multiples of their length since the epoch and are never longer
/// than that. A packet before or after the current interval ends it, so that each packet is counted in the interval of its
/// own time, and an interval may have several stretches.
///
/// A switch to an earlier interval takes CPU time. The number of switches is limited, and beyond the limit a packet is
/// counted in the current interval as a [late](IntervalClock::late) packet. The limit depends only on the number of
/// packets, so that results do not depend on workers or on the size of reads: 2,048 switches at first, and one more for
/// each 128 packets. In a long capture a switch counts up to 65 times, once more for each 16,384 packets before it.
#[derive(Clone, Debug)]
pub struct IntervalClock {
    length: u64,
    /// Start and length of the current interval. The length is 0 before the first packet.
    start: u64,
    width: u64,
    /// Time of the last packet that was not late.
    time: u64,
    /// End of the interval, and time of its last packet, before the last step of more than a day.
    before_leap: Option<(u64, u64)>,
    /// Whether the next packet is the first of an input while no other input is open.
    begins: bool,
    /// Number of packets so far.
    packets: u64,
    /// Value of `packets` at the last addition to `credit`.
    credited_at: u64,
    /// Credit for switches, in packets.
    credit: u64,
    /// Time of a packet more than a day ahead for which no credit was left.
    doubted: Option<u64>,
    late: u64,
    jumps: u64,
}

impl IntervalClock {
    /// A clock for intervals of `length` nanoseconds (at least 1).
    pub fn new(length: u64) -> Self {
        Self {
            length: length.max(1),
            start: 0,
            width: 0,
            time: 0,
            before_leap: None,
            begins: true,
            packets: 0,
            credited_at: 0,
            credit: SWITCHES * PACKETS_PER_SWITCH,
            doubted: None,
            late: 0,
            jumps: 0,
        }
    }

    /// Marks the next packet as the first of an input after all earlier inputs have ended: the time before it was not
    /// watched.
    pub fn begin(&mut self) {
        self.begins = true;
    }

    /// Takes the time of the next packet. Returns the stretch that the packet begins, if it begins one. All packets before
    /// it belong to the stretch that was returned last, and must be reported first.
    #[inline]
    pub fn observe(&mut self, time: Time) -> Option<Stretch> {
        if time.0.wrapping_sub(self.start) < self.width {
            self.pass(1, time);
            return None;
        }
        self.packets = self.packets.saturating_add(1);
        self.leave(time.0)
    }

    /// The times of the current interval, in nanoseconds since the epoch: packets of these times begin nothing.
    pub fn current(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.width)
    }

    /// Takes the next packets, all of the current interval, as [`IntervalClock::observe`] takes each. `last` is the time of
    /// the last one.
    pub fn pass(&mut self, packets: u64, last: Time) {
        self.packets = self.packets.saturating_add(packets);
        (self.time, self.begins) = (last.0, false);
    }

    /// Number of packets that were counted in another interval than the one of their time.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Number of steps ahead of more than a day within an input.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// Handles a packet outside of the current interval.
    fn leave(&mut self, time: u64) -> Option<Stretch> {
        let begins = std::mem::take(&mut self.begins);
        if self.width == 0 {
            return Some(self.enter(time, None, false));
        }
        let end = self.start.saturating_add(self.width);
        let is_later = time > self.start;
        let is_leap = time.abs_diff(self.time) > DAY;
        let is_jump = is_later && is_leap && !begins && self.doubted.is_none();
        self.jumps = self.jumps.saturating_add(u64::from(is_jump));
        if (!is_later || is_leap) && !begins && !self.spend() {
            let is_confirmed = self.doubted.is_some_and(|doubted| doubted.abs_diff(time) <= DAY);
            if !is_later || !is_confirmed {
                self.doubted = is_later.then_some(time);
                self.late = self.late.saturating_add(1);
                return None;
            }
        }
        self.doubted = None;
        let mut previous = (end, self.time);
        if is_leap && let Some(before) = self.before_leap.replace(previous) {
            // If the packets in between had a wrong time, this packet continues the time before them.
            previous = before;
        }
        let (end, last_packet) = previous;
        let is_silence = !begins && time >= end && time.saturating_sub(last_packet) <= DAY;
        Some(self.enter(time, is_silence.then_some(end), is_later))
    }

    /// Begins the interval of a packet. `silent_from` is the start of the watched silence before it.
    fn enter(&mut self, time: u64, silent_from: Option<u64>, is_later: bool) -> Stretch {
        self.start = time.saturating_sub(time.checked_rem(self.length).unwrap_or(0));
        self.time = time;
        let end = self.start.saturating_add(self.length);
        // The last possible interval includes the latest possible time.
        self.width = match (end, self.start) {
            (u64::MAX, 0) => u64::MAX,
            (u64::MAX, start) => start.wrapping_neg(),
            _ => self.length,
        };
        let interval = Interval { start: self.start, end };
        let watched = Interval { start: silent_from.unwrap_or(self.start).min(self.start), end };
        Stretch { interval, watched, is_later }
    }

    /// Subtracts the cost of a switch from the credit. Returns `false` if the credit is too small.
    fn spend(&mut self) -> bool {
        let before = std::mem::replace(&mut self.credited_at, self.packets);
        let earned = self.packets.saturating_sub(before);
        self.credit = self.credit.saturating_add(earned).min(SWITCHES * PACKETS_PER_SWITCH);
        let switches = (self.packets.min(MAX_COST_PACKETS) / PACKETS_PER_COST).saturating_add(1);
        let cost = switches.saturating_mul(PACKETS_PER_SWITCH);
        let is_allowed = cost <= self.credit;
        if is_allowed {
            self.credit = self.credit.saturating_sub(cost);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const HOUR: u64 = 3600;

    /// Start of the interval and of the watched time, both in seconds, and whether the stretch is later.
    fn observe(clock: &mut IntervalClock, second: u64) -> Option<(u64, u64, bool)> {
        clock.observe(Time(second * S)).map(|stretch| {
            assert_eq!(
                stretch.interval.end - stretch.interval.start,
                30 * S,
                "an interval has its own length"
            );
            assert_eq!(stretch.watched.end, stretch.interval.end);
            (stretch.interval.start / S, stretch.watched.start / S, stretch.is_later)
        })
    }

    #[test]
    fn each_packet_is_in_the_interval_of_its_time() {
        let mut clock = IntervalClock::new(30 * S);
        assert_eq!(observe(&mut clock, 100), Some((90, 90, false)));
        assert_eq!(observe(&mut clock, 119), None);
        assert_eq!(observe(&mut clock, 120), Some((120, 120, true)));
        assert_eq!(observe(&mut clock, 300), Some((300, 150, true)), "the silence before it was watched");
        assert_eq!(
            observe(&mut clock, 50),
            Some((30, 30, false)),
            "an earlier packet is in the earlier interval"
        );
        assert_eq!(observe(&mut clock, 301), Some((300, 60, true)));
        assert_eq!((clock.late(), clock.jumps()), (0, 0));
    }

    #[test]
    fn time_between_inputs_and_in_steps_of_more_than_a_day_was_not_watched() {
        let mut clock = IntervalClock::new(30 * S);
        observe(&mut clock, 100);
        clock.begin();
        assert_eq!(observe(&mut clock, 3600), Some((3600, 3600, true)));
        clock.begin();
        assert_eq!(observe(&mut clock, 3601), None);
        assert_eq!(
            observe(&mut clock, 3700),
            Some((3690, 3630, true)),
            "the input began with the packet before"
        );
        let days = 3 * 24 * HOUR;
        assert_eq!(observe(&mut clock, days), Some((days, days, true)));
        assert_eq!(clock.jumps(), 1);
    }

    #[test]
    fn a_packet_with_a_wrong_time_changes_nothing_else() {
        for wrong in [0, 20 * 365 * 24 * HOUR] {
            let mut clock = IntervalClock::new(30 * S);
            let now = 10 * 365 * 24 * HOUR;
            observe(&mut clock, now);
            assert_eq!(
                observe(&mut clock, wrong).map(|(at, watched, _)| (at, watched)),
                Some((wrong, wrong))
            );
            let later = now + 300;
            assert_eq!(observe(&mut clock, later).map(|(at, from, _)| (at, from)), Some((later, now + 30)));
            assert_eq!(observe(&mut clock, later + 60), Some((later + 60, later + 30, true)));
        }
        // The latest possible time has an interval.
        let mut clock = IntervalClock::new(30 * S);
        assert!(clock.observe(Time(u64::MAX)).is_some());
        assert!(clock.observe(Time(u64::MAX)).is_none() && clock.observe(Time(u64::MAX - 1)).is_none());
        assert!(clock.observe(Time(0)).is_some());
        let mut whole = IntervalClock::new(u64::MAX);
        assert_eq!(
            whole.observe(Time(5)).map(|stretch| stretch.interval),
            Some(Interval { start: 0, end: u64::MAX })
        );
        assert!(whole.observe(Time(u64::MAX - 1)).is_none() && whole.observe(Time(0)).is_none());
    }

    #[test]
    fn switches_are_limited_by_the_number_of_packets() {
        let mut clock = IntervalClock::new(30 * S);
        let packets = 1_000_000;
        let mut switches = 0;
        for n in 0..packets {
            switches += u64::from(observe(&mut clock, if n % 2 == 0 { HOUR } else { 2 * HOUR }).is_some());
        }
        // Each switch has a return.
        let most = 2 * (SWITCHES + packets / PACKETS_PER_SWITCH) + 2;
        assert!(switches > 2 * SWITCHES / 65 && switches < most, "{switches} switches");
        assert!(clock.late() > packets / 3, "{} late", clock.late());
        // Later packets are counted in their own interval, and restore the credit.
        for n in 0..PACKETS_PER_SWITCH * 65 {
            observe(&mut clock, 3 * HOUR + n / 100);
        }
        assert_eq!(observe(&mut clock, 4 * HOUR).map(|(at, ..)| at), Some(4 * HOUR));
        assert!(observe(&mut clock, HOUR).is_some(), "one more switch is allowed");
    }

    #[test]
    fn without_credit_a_step_of_more_than_a_day_needs_a_second_packet() {
        let mut clock = IntervalClock::new(30 * S);
        clock.credit = 0;
        observe(&mut clock, 100);
        let far = 40 * 24 * HOUR;
        assert_eq!(observe(&mut clock, far), None);
        assert_eq!(observe(&mut clock, 101), None);
        assert_eq!((observe(&mut clock, far + 50), clock.late()), (Some((far + 30, far + 30, true)), 1));
    }
}
