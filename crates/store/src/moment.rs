//! Times in queries.
//!
//! ```text
//! 90s  15m  24h  7d  2w              that long before now
//! now  today  yesterday  monday      a day, the latest one of its name
//! today 14:05   3 days ago 14:05     a minute of a day
//! 14:05   14:05:30                   the latest such time of day
//! 2026   2026-03   2026-03-15        a year, a month, a day
//! 2026-03-15 12:30   2026-03-15T12:30:00Z   1750000000
//! ```
//!
//! Times are local times of a zone. `now` is the end of the stored data, so that an old capture gives the answers of its day.

// Times are at most 2^64 - 1 nanoseconds, whatever a capture or a query has: arithmetic on them saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};
use weir_output::zone::Zone;

const SECOND: u64 = 1_000_000_000;

/// The zone and the present of times in a query.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    /// The zone.
    pub zone: Zone,
    /// `now`, in nanoseconds since the epoch.
    pub now: u64,
}

/// A time range in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moment {
    /// Its beginning.
    pub from: u64,
    /// Its end, excluded. Equal to the beginning for a point, such as `24h`.
    pub to: u64,
}

/// The accepted forms.
pub const ACCEPTED: &str = "a length of time before now (`90s`, `15m`, `24h`, `7d`, `2w`), a day (`today`, `yesterday`, \
    `monday`, `3 days ago`, `2026-03-15`), a time of a day (`today 14:05`, `2026-03-15T12:30`), a month or a year (`2026-03`)";

impl Moments {
    /// Parses a time from a whole text.
    ///
    /// # Errors
    ///
    /// The accepted forms.
    pub fn parse(&self, text: &str) -> Result<Moment, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match self.leading(&words) {
            Some((moment, used)) if used == words.len() => Ok(moment),
            _ => Err(format!("expected {ACCEPTED}")),
        }
    }

    /// Whether the time of a text depends on the present, or on the zone's present day.
    pub fn is_relative(text: &str, zone: &Zone) -> bool {
        // Two presents with another year, month, day, weekday and time of day: no relative time is equal in both.
        let at = |now| Self { zone: zone.clone(), now }.parse(text).ok();
        at(1_000_000_000 * SECOND) != at(1_500_050_000 * SECOND)
    }

    /// Parses a time from the first words, the longest possible. Returns the number of its words.
    pub fn leading(&self, words: &[&str]) -> Option<(Moment, usize)> {
        let (first, rest) = words.split_first()?;
        let lower = first.to_ascii_lowercase();
        if let Some(seconds) = length(&lower) {
            let used = 1_usize.saturating_add(usize::from(
                rest.first().is_some_and(|word| word.eq_ignore_ascii_case("ago")),
            ));
            return Some((self.point(self.now.saturating_sub(seconds.checked_mul(SECOND)?)), used));
        }
        if lower == "now" {
            return Some((self.point(self.now), 1));
        }
        if let Some((date, used)) = self.day(&lower, rest) {
            return match rest.get(used.saturating_sub(1)).and_then(|word| clock(word)) {
                Some((time, length)) => {
                    Some((self.at(date.to_datetime(time), length)?, used.saturating_add(1)))
                }
                None => Some((self.days(date, date)?, used)),
            };
        }
        if let Some(before) = self.before(&lower, rest) {
            return Some((self.point(before), 3));
        }
        if let Some((time, length)) = clock(&lower) {
            let now = self.zoned()?;
            let today = self.at(now.date().to_datetime(time), length)?;
            // A time of day that is still to come was yesterday.
            if today.from <= self.now {
                return Some((today, 1));
            }
            return Some((self.at(now.date().yesterday().ok()?.to_datetime(time), length)?, 1));
        }
        if let Some((first, last)) = month_or_year(&lower) {
            return Some((self.days(first, last)?, 1));
        }
        if let Ok(time) = first.parse::<Timestamp>() {
            let from = u64::try_from(time.as_nanosecond()).ok()?;
            return Some((Moment { from, to: from.saturating_add(SECOND) }, 1));
        }
        if let Ok(time) = first.parse::<DateTime>() {
            let has_seconds = first.matches(':').count() > 1;
            return Some((self.at(time, if has_seconds { 1 } else { 60 })?, 1));
        }
        let epoch = lower.parse::<f64>().ok().filter(|number| (9999.5..1.8e10).contains(number))?;
        let from = ((epoch * 1e6).round() as u64).saturating_mul(1000);
        Some((Moment { from, to: from.saturating_add(SECOND) }, 1))
    }

    fn point(&self, at: u64) -> Moment {
        Moment { from: at, to: at }
    }

    fn zoned(&self) -> Option<Zoned> {
        let now = Timestamp::from_nanosecond(i128::from(self.now)).ok()?;
        Some(now.to_zoned(self.zone.time_zone().clone()))
    }

    /// A day, and how many words it is.
    fn day(&self, word: &str, rest: &[&str]) -> Option<(Date, usize)> {
        let today = self.zoned()?.date();
        if let Some(weekday) = weekday(word) {
            let mut day = today;
            while day.weekday() != weekday {
                day = day.yesterday().ok()?;
            }
            return Some((day, 1));
        }
        match word {
            "today" => return Some((today, 1)),
            "yesterday" => return Some((today.yesterday().ok()?, 1)),
            _ => {}
        }
        if let Ok(count) = word.parse::<i32>()
            && let [unit, ago, ..] = rest
            && ago.eq_ignore_ascii_case("ago")
        {
            let span = calendar(unit, count)?;
            // With a time of day after it, it is that of the day; without one the same time as now.
            rest.get(2).and_then(|word| clock(word))?;
            return Some((today.checked_sub(span).ok()?, 3));
        }
        // A year or a month alone is a longer stretch.
        let date = word.parse::<Date>().ok().filter(|_| word.len() == "2026-03-15".len())?;
        Some((date, 1))
    }

    /// `3 days ago`: the same local time three days before.
    fn before(&self, word: &str, rest: &[&str]) -> Option<u64> {
        let count = word.parse::<i32>().ok().filter(|count| *count >= 0)?;
        let [unit, ago, ..] = rest else { return None };
        if !ago.eq_ignore_ascii_case("ago") {
            return None;
        }
        let span = calendar(unit, count).or_else(|| {
            let count = i64::from(count);
            Some(match unit.to_ascii_lowercase().trim_end_matches('s') {
                "second" => count.seconds(),
                "minute" => count.minutes(),
                "hour" => count.hours(),
                _ => return None,
            })
        })?;
        let time = self.zoned()?.checked_sub(span).ok()?;
        u64::try_from(time.timestamp().as_nanosecond()).ok()
    }

    fn at(&self, time: DateTime, seconds: u64) -> Option<Moment> {
        let from = instant(time, self.zone.time_zone())?;
        Some(Moment { from, to: from.saturating_add(seconds.saturating_mul(SECOND)) })
    }

    fn days(&self, first: Date, last: Date) -> Option<Moment> {
        let midnight = |date: Date| instant(date.to_datetime(Time::midnight()), self.zone.time_zone());
        Some(Moment { from: midnight(first)?, to: midnight(last.tomorrow().ok()?)? })
    }
}

fn instant(time: DateTime, zone: &TimeZone) -> Option<u64> {
    let zoned = time.to_zoned(zone.clone()).ok()?;
    u64::try_from(zoned.timestamp().as_nanosecond()).ok()
}

/// Seconds of `90s`, `15m`, `1d12h`.
pub fn length(text: &str) -> Option<u64> {
    let mut seconds = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count: u64 = rest.get(..digits)?.parse().ok()?;
        let unit = match rest.as_bytes().get(digits)? {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'w' => 7 * 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(count.checked_mul(unit)?)?;
        rest = rest.get(digits.saturating_add(1)..)?;
    }
    (!text.is_empty()).then_some(seconds)
}

/// A number of days or longer units.
fn calendar(unit: &str, count: i32) -> Option<Span> {
    let count = Some(i64::from(count)).filter(|count| (0..=100_000).contains(count))?;
    let span = Span::new();
    match unit.to_ascii_lowercase().trim_end_matches('s') {
        "day" => span.try_days(count).ok(),
        "week" => span.try_weeks(count).ok(),
        "month" => span.try_months(count).ok(),
        "year" => span.try_years(count).ok(),
        _ => None,
    }
}

fn weekday(word: &str) -> Option<Weekday> {
    let all = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    all.into_iter().find(|(name, _)| *name == word).map(|(_, day)| day)
}

/// A time of day, and the seconds that it stands for.
fn clock(word: &str) -> Option<(Time, u64)> {
    let parts: Vec<&str> = word.split(':').collect();
    let number = |text: &str| {
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<i8>().ok()).flatten()
    };
    match parts.as_slice() {
        [hour, minute] => Some((Time::new(number(hour)?, number(minute)?, 0, 0).ok()?, 60)),
        [hour, minute, second] => {
            Some((Time::new(number(hour)?, number(minute)?, number(second)?, 0).ok()?, 1))
        }
        _ => None,
    }
}

/// The first and the last day of `2026` or `2026-03`.
fn month_or_year(word: &str) -> Option<(Date, Date)> {
    let parts: Vec<Option<i16>> = word.split('-').map(|part| part.parse().ok()).collect();
    match parts.as_slice() {
        [Some(year)] if word.len() == 4 => Date::new(*year, 1, 1).ok().map(|day| (day, day.last_of_year())),
        [Some(year), Some(month)] if word.len() == 7 => {
            let first = Date::new(*year, i8::try_from(*month).ok()?, 1).ok()?;
            Some((first, first.last_of_month()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap()
    }

    #[test]
    fn times_are_read_by_the_clocks_of_a_zone() {
        // A Monday, after the clocks were put forward on 2026-03-29 at 02:00.
        let now = time("2026-03-30T13:30:00Z");
        let utc = Moments { zone: Zone::utc(), now };
        let mut cases = vec![
            (&utc, "90s", "2026-03-30T13:28:30Z", 0),
            (&utc, "1d12h", "2026-03-29T01:30:00Z", 0),
            (&utc, "2w ago", "2026-03-16T13:30:00Z", 0),
            (&utc, "now", "2026-03-30T13:30:00Z", 0),
            (&utc, "today", "2026-03-30T00:00:00Z", 86_400),
            (&utc, "yesterday", "2026-03-29T00:00:00Z", 86_400),
            (&utc, "today 14:05", "2026-03-30T14:05:00Z", 60),
            (&utc, "yesterday 9:05:07", "2026-03-29T09:05:07Z", 1),
            (&utc, "3 days ago 14:05", "2026-03-27T14:05:00Z", 60),
            (&utc, "3 days ago", "2026-03-27T13:30:00Z", 0),
            (&utc, "1 month ago", "2026-02-28T13:30:00Z", 0),
            (&utc, "20 minutes ago", "2026-03-30T13:10:00Z", 0),
            (&utc, "monday 08:00", "2026-03-30T08:00:00Z", 60),
            (&utc, "Tuesday", "2026-03-24T00:00:00Z", 86_400),
            (&utc, "13:05", "2026-03-30T13:05:00Z", 60),
            (&utc, "14:05", "2026-03-29T14:05:00Z", 60),
            (&utc, "2026", "2026-01-01T00:00:00Z", 365 * 86_400),
            (&utc, "2026-02", "2026-02-01T00:00:00Z", 28 * 86_400),
            (&utc, "2026-03-15", "2026-03-15T00:00:00Z", 86_400),
            (&utc, "2026-03-15 12:30", "2026-03-15T12:30:00Z", 60),
            (&utc, "2026-03-15T12:30", "2026-03-15T12:30:00Z", 60),
            (&utc, "2026-03-15T12:30:09+02:00", "2026-03-15T10:30:09Z", 1),
            (&utc, "1774877400", "2026-03-30T13:30:00Z", 1),
        ];
        let berlin = Zone::named("Europe/Berlin").map(|zone| Moments { zone, now });
        if let Ok(berlin) = &berlin {
            cases.extend([
                (berlin, "today 14:05", "2026-03-30T12:05:00Z", 60),
                (berlin, "3 days ago 14:05", "2026-03-27T13:05:00Z", 60),
                (berlin, "yesterday", "2026-03-28T23:00:00Z", 23 * 3600),
                // Two o'clock of that day does not exist, and is three.
                (berlin, "yesterday 02:30", "2026-03-29T01:30:00Z", 60),
                (berlin, "24h", "2026-03-29T13:30:00Z", 0),
                (berlin, "2026-10-25", "2026-10-24T22:00:00Z", 25 * 3600),
            ]);
        }
        for (moments, text, from, seconds) in cases {
            let from = time(from);
            let found = moments.parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(found, Moment { from, to: from + seconds * SECOND }, "{text}");
        }
        for relative in ["90s", "now", "today", "monday 08:00", "3 days ago", "14:05", "1 month ago"] {
            assert!(Moments::is_relative(relative, &Zone::utc()), "{relative}");
        }
        for absolute in
            ["2026", "2026-03", "2026-03-15 12:30", "2026-03-15T12:30:09+02:00", "1774877400", "yesterdy"]
        {
            assert!(!Moments::is_relative(absolute, &Zone::utc()), "{absolute}");
        }
        for wrong in [
            "",
            "yesterdy",
            "2026-13",
            "2026-02-30",
            "25:00",
            "99999999999999w",
            "3 days",
            "today today",
            "-5",
            "1e300",
        ] {
            assert!(utc.parse(wrong).unwrap_err().contains("`today 14:05`"), "{wrong}");
        }
        assert_eq!(Moments { zone: Zone::utc(), now: 5 }.parse("1d"), Ok(Moment { from: 0, to: 0 }));
    }
}
