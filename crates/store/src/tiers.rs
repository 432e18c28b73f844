//! Retention: each tier has cells of one length, and an age limit.

// Times are at most 2^64 - 1 nanoseconds, whatever a capture or a query has: arithmetic on them saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of an hour.
pub const HOUR: u64 = 3_600 * SECOND;
/// Nanoseconds of a day.
pub const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
/// The epoch was a Thursday; weeks begin on Monday (ISO 8601).
const MONDAY: u64 = 4 * DAY;

/// A tier.
#[derive(Clone, Copy, Debug)]
pub struct Tier {
    /// Its name.
    pub name: &'static str,
    /// The length of its cells.
    pub cell: Cell,
    /// Nanoseconds for which they are kept.
    pub keep: u64,
    /// Maximum number of rows of a list in a cell.
    pub rows: usize,
}

/// The length of a cell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cell {
    /// The length of the written interval.
    Interval,
    /// A fixed length in nanoseconds, counted from the epoch.
    Fixed(u64),
    /// Seven days from Monday, in UTC.
    Week,
    /// A calendar month, in UTC.
    Month,
}

impl Cell {
    /// Begin and end of the cell of an interval: the cell that contains the interval's start.
    pub fn of(self, start: u64, end: u64) -> (u64, u64) {
        match self {
            Cell::Interval => (start, end),
            Cell::Fixed(length) => {
                let begin = start.saturating_sub(start.checked_rem(length).unwrap_or(0));
                (begin, begin.saturating_add(length))
            }
            Cell::Week => {
                let since = (start % WEEK).saturating_add(WEEK - MONDAY) % WEEK;
                let begin = start.saturating_sub(since);
                (begin, begin.saturating_add(WEEK))
            }
            Cell::Month => month(start).unwrap_or_else(|| Cell::Fixed(30 * DAY).of(start, end)),
        }
    }

    /// Length of the cell in nanoseconds; approximate for months and intervals.
    pub fn length(self) -> u64 {
        match self {
            Cell::Interval => 30 * SECOND,
            Cell::Fixed(length) => length,
            Cell::Week => WEEK,
            Cell::Month => 30 * DAY,
        }
    }
}

/// `None` beyond the range of the calendar.
fn month(time: u64) -> Option<(u64, u64)> {
    let date = Timestamp::from_second((time / SECOND) as i64).ok()?.to_zoned(TimeZone::UTC).date();
    let begin = |date: Date| {
        Some(
            date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second().cast_unsigned().saturating_mul(SECOND),
        )
    };
    let first = date.first_of_month();
    Some((begin(first)?, begin(date.last_of_month().tomorrow().ok()?)?))
}

/// Tiers of series.
pub const SERIES: [Tier; 4] = [
    Tier { name: "interval", cell: Cell::Interval, keep: 2 * DAY, rows: 0 },
    Tier { name: "5m", cell: Cell::Fixed(300 * SECOND), keep: 14 * DAY, rows: 0 },
    Tier { name: "1h", cell: Cell::Fixed(HOUR), keep: 366 * DAY, rows: 0 },
    Tier { name: "1d", cell: Cell::Fixed(DAY), keep: 3653 * DAY, rows: 0 },
];

/// Tiers of lists and distinct counts. A cell of an hour has fewer rows than one of a day, because there are more of
/// them.
pub const LISTS: [Tier; 5] = [
    Tier { name: "interval", cell: Cell::Interval, keep: 2 * DAY, rows: 128 },
    Tier { name: "1h", cell: Cell::Fixed(HOUR), keep: 92 * DAY, rows: 512 },
    Tier { name: "1d", cell: Cell::Fixed(DAY), keep: 731 * DAY, rows: 1024 },
    Tier { name: "1w", cell: Cell::Week, keep: 3653 * DAY, rows: 1024 },
    Tier { name: "1mo", cell: Cell::Month, keep: 3653 * DAY, rows: 1024 },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> u64 {
        text.parse::<Timestamp>().unwrap().as_nanosecond() as u64
    }

    #[test]
    fn cells_begin_at_calendar_boundaries() {
        let time = at("2026-03-29T01:30:00Z");
        assert_eq!(Cell::Fixed(HOUR).of(time, time + 1).0, at("2026-03-29T01:00:00Z"));
        assert_eq!(Cell::Month.of(time, time + 1), (at("2026-03-01T00:00:00Z"), at("2026-04-01T00:00:00Z")));
        let (from, to) = Cell::Week.of(time, time + 1);
        assert_eq!((from, to), (at("2026-03-23T00:00:00Z"), at("2026-03-30T00:00:00Z")));
        assert_eq!(Cell::Week.of(from, to).0, from);
        assert_eq!(Cell::Week.of(to, to).0, to);
        assert_eq!(Cell::Month.of(at("2024-12-31T23:59:59Z"), 0).1, at("2025-01-01T00:00:00Z"));
    }

    #[test]
    fn times_beyond_the_calendar_have_cells_too() {
        for tier in SERIES.iter().chain(&LISTS) {
            for time in [0, 1, u64::MAX / 2] {
                let (from, to) = tier.cell.of(time, time + 1);
                assert!(from <= time && time < to, "{} {time}", tier.name);
            }
        }
    }
}
