//! Periods of reports: an hour, a day or a week, in UTC, as cells of lists are.

// Times are at most 2^64 - 1 nanoseconds, whatever a capture has: arithmetic on them saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use crate::tiers::{Cell, DAY, HOUR};

/// A period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Period {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days from Monday.
    Week,
}

impl Period {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Period::Hour => "hour",
            Period::Day => "day",
            Period::Week => "week",
        }
    }

    /// Begin and end of the period that contains a time, in nanoseconds since the epoch.
    pub fn of(self, time: u64) -> (u64, u64) {
        let cell = match self {
            Period::Hour => Cell::Fixed(HOUR),
            Period::Day => Cell::Fixed(DAY),
            Period::Week => Cell::Week,
        };
        cell.of(time, time)
    }

    /// The last period of what is stored from `first` to `last` that ends before or with it; the one that contains the last stored
    /// time if no period does.
    pub fn last_complete(self, first: u64, last: u64) -> (u64, u64) {
        let (begin, _) = self.of(last);
        match begin.checked_sub(1) {
            Some(before) if before >= first => self.of(before),
            _ => self.of(last.saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_complete_period_ends_before_what_is_stored_does() {
        let (day, hour) = (100 * DAY, Period::Hour);
        assert_eq!(hour.last_complete(day, day + 2 * HOUR), (day + HOUR, day + 2 * HOUR));
        assert_eq!(hour.last_complete(day, day + 2 * HOUR + 1), (day + HOUR, day + 2 * HOUR));
        assert_eq!(hour.last_complete(day + 5, day + HOUR), (day, day + HOUR));
        // No hour is complete.
        assert_eq!(hour.last_complete(day + 5, day + 9), (day, day + HOUR));
        assert_eq!(Period::Day.last_complete(day, day + 9 * HOUR), (day, day + DAY));
        // Weeks begin on Monday: the epoch was a Thursday.
        assert_eq!(Period::Week.of(4 * DAY + 7), (4 * DAY, 11 * DAY));
        for period in [Period::Hour, Period::Day, Period::Week] {
            let (begin, end) = period.last_complete(0, u64::MAX);
            assert!(begin < end);
        }
    }
}
