//! Times for people and for files. Internally a time is nanoseconds since the epoch, UTC.

use crate::format::push_number;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// The time zone of displayed times.
#[derive(Clone, Debug)]
pub struct Zone {
    zone: TimeZone,
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self { zone: TimeZone::UTC }
    }

    /// A zone of the IANA time zone database, such as `Europe/Berlin`.
    ///
    /// # Errors
    ///
    /// There is no such zone; the text names the accepted values.
    pub fn named(name: &str) -> Result<Self, String> {
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Self::utc());
        }
        TimeZone::get(name).map(|zone| Self { zone }).map_err(|_| {
            format!("no time zone {name:?}; use a name of the IANA database such as Europe/Berlin, or UTC")
        })
    }

    /// The zone itself.
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// `2026-11-21 01:46:08.985`.
    pub fn date_time(&self, nanoseconds: u64) -> String {
        let mut out = self.date(nanoseconds);
        out.push(' ');
        out.push_str(&self.clock_millis(nanoseconds));
        out
    }

    /// `2026-11-21`.
    pub fn date(&self, nanoseconds: u64) -> String {
        text(|out| push_date(out, &self.civil(nanoseconds), b'-'))
    }

    /// `01:46:08`.
    pub fn clock(&self, nanoseconds: u64) -> String {
        text(|out| push_clock(out, &self.civil(nanoseconds), b':'))
    }

    /// `01:46:08.985`.
    pub fn clock_millis(&self, nanoseconds: u64) -> String {
        text(|out| {
            push_clock(out, &self.civil(nanoseconds), b':');
            push_fraction(out, nanoseconds, 3);
        })
    }

    /// The label of a time: `UTC`, or abbreviation and offset as `CET +01:00`.
    pub fn label(&self, nanoseconds: u64) -> String {
        if self.zone == TimeZone::UTC {
            return "UTC".to_owned();
        }
        let time = timestamp(nanoseconds);
        let info = self.zone.to_offset_info(time);
        let offset = offset(info.offset(), ":");
        // Zones without an abbreviation of their own repeat the offset in its place.
        match info.abbreviation() {
            name if name.starts_with(['+', '-']) => offset,
            name => format!("{name} {offset}"),
        }
    }

    /// Suricata's format: `2026-11-21T01:46:08.985123+0000`.
    pub fn eve(&self, nanoseconds: u64) -> String {
        text(|out| self.push_eve(out, nanoseconds))
    }

    /// Appends a time in Suricata's format, see [`Self::eve`].
    pub fn push_eve(&self, out: &mut Vec<u8>, nanoseconds: u64) {
        let time = timestamp(nanoseconds);
        let shift = self.zone.to_offset(time);
        push_date_time(out, &shift.to_datetime(time));
        push_fraction(out, nanoseconds, 6);
        if shift == Offset::UTC {
            out.extend_from_slice(b"+0000");
        } else {
            out.extend_from_slice(offset(shift, "").as_bytes());
        }
    }

    /// Appends a time in the format of Suricata's fast.log: `11/21/2026-01:46:08.985123`.
    pub fn push_fast(&self, out: &mut Vec<u8>, nanoseconds: u64) {
        let civil = self.civil(nanoseconds);
        push_digits(out, civil.month().unsigned_abs().into(), 2);
        out.push(b'/');
        push_digits(out, civil.day().unsigned_abs().into(), 2);
        out.push(b'/');
        push_digits(out, civil.year().unsigned_abs().into(), 4);
        out.push(b'-');
        push_clock(out, &civil, b':');
        push_fraction(out, nanoseconds, 6);
    }

    /// Zeek's format of a log's opening time: `2026-11-21-01-46-08`.
    pub fn dashed(&self, nanoseconds: u64) -> String {
        let civil = self.civil(nanoseconds);
        text(|out| {
            push_date(out, &civil, b'-');
            out.push(b'-');
            push_clock(out, &civil, b'-');
        })
    }

    /// RFC 3339 with nanoseconds and the zone's offset: `2026-11-21T02:46:08.985123456+01:00`, in UTC with `Z`.
    pub fn rfc3339(&self, nanoseconds: u64) -> String {
        let time = timestamp(nanoseconds);
        let shift = self.zone.to_offset(time);
        if shift == Offset::UTC {
            return rfc3339(nanoseconds);
        }
        let mut out = text(|out| {
            push_date_time(out, &shift.to_datetime(time));
            push_fraction(out, nanoseconds, 9);
        });
        out.push_str(&offset(shift, ":"));
        out
    }

    /// Seconds by which the zone's clocks are ahead of UTC at a time.
    pub fn offset(&self, nanoseconds: u64) -> i32 {
        self.zone.to_offset(timestamp(nanoseconds)).seconds()
    }

    fn civil(&self, nanoseconds: u64) -> DateTime {
        self.zone.to_datetime(timestamp(nanoseconds))
    }
}

/// RFC 3339 in UTC with nanoseconds: `2026-11-21T01:46:08.985123456Z`.
pub fn rfc3339(nanoseconds: u64) -> String {
    text(|out| push_rfc3339(out, nanoseconds))
}

/// Appends RFC 3339 in UTC with nanoseconds.
pub fn push_rfc3339(out: &mut Vec<u8>, nanoseconds: u64) {
    push_date_time(out, &Offset::UTC.to_datetime(timestamp(nanoseconds)));
    push_fraction(out, nanoseconds, 9);
    out.push(b'Z');
}

/// Seconds with six decimals: `1795225568.985123`.
pub fn epoch_micros(nanoseconds: u64) -> String {
    text(|out| push_epoch_micros(out, nanoseconds))
}

/// Appends seconds with six decimals.
pub fn push_epoch_micros(out: &mut Vec<u8>, nanoseconds: u64) {
    push_decimal(out, nanoseconds, 6);
}

/// Nanoseconds as seconds with nine decimals: `0.211484000`.
pub fn seconds(nanoseconds: u64) -> String {
    text(|out| push_seconds(out, nanoseconds))
}

/// Appends nanoseconds as seconds with nine decimals.
pub fn push_seconds(out: &mut Vec<u8>, nanoseconds: u64) {
    push_decimal(out, nanoseconds, 9);
}

fn push_decimal(out: &mut Vec<u8>, nanoseconds: u64, decimals: usize) {
    push_number(out, nanoseconds / 1_000_000_000);
    push_fraction(out, nanoseconds, decimals);
}

/// The written text, which is ASCII.
fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::with_capacity(40);
    write(&mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// 2^64 ns are the year 2554: every time can be written.
fn timestamp(nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or_default()
}

fn push_date_time(out: &mut Vec<u8>, civil: &DateTime) {
    push_date(out, civil, b'-');
    out.push(b'T');
    push_clock(out, civil, b':');
}

fn push_date(out: &mut Vec<u8>, civil: &DateTime, between: u8) {
    push_digits(out, civil.year().unsigned_abs().into(), 4);
    out.push(between);
    push_digits(out, civil.month().unsigned_abs().into(), 2);
    out.push(between);
    push_digits(out, civil.day().unsigned_abs().into(), 2);
}

fn push_clock(out: &mut Vec<u8>, civil: &DateTime, between: u8) {
    push_digits(out, civil.hour().unsigned_abs().into(), 2);
    out.push(between);
    push_digits(out, civil.minute().unsigned_abs().into(), 2);
    out.push(between);
    push_digits(out, civil.second().unsigned_abs().into(), 2);
}

/// A decimal point and the first decimals of the second.
fn push_fraction(out: &mut Vec<u8>, nanoseconds: u64, decimals: usize) {
    out.push(b'.');
    let fraction = (nanoseconds % 1_000_000_000) as u32;
    push_digits(out, fraction / 10u32.pow(9 - decimals as u32), decimals);
}

/// The last `digits` digits of a number, with leading zeros. Rows have several such numbers: this is much faster than
/// formatting by a pattern.
fn push_digits(out: &mut Vec<u8>, number: u32, digits: usize) {
    let mut text = [b'0'; 10];
    let (pairs, _) = text.as_chunks_mut();
    let mut rest = number;
    for pair in pairs.iter_mut().rev().take(digits.div_ceil(2)) {
        *pair = PAIRS.get((rest % 100) as usize).copied().unwrap_or_default();
        rest /= 100;
    }
    out.extend_from_slice(text.get(10 - digits..).unwrap_or_default());
}

/// The two digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut all = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < all.len() {
        all[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    all
};

/// `+01:00`, with the given separator between hours and minutes.
fn offset(offset: Offset, between: &str) -> String {
    let minutes = offset.seconds() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    format!("{sign}{:02}{between}{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = 1_795_225_568_985_123_456;

    #[test]
    fn every_format_of_a_time() {
        let utc = Zone::utc();
        assert_eq!(utc.date_time(TIME), "2026-11-21 01:46:08.985");
        assert_eq!(utc.label(TIME), "UTC");
        assert_eq!(utc.eve(TIME), "2026-11-21T01:46:08.985123+0000");
        assert_eq!(utc.dashed(TIME), "2026-11-21-01-46-08");
        assert_eq!(rfc3339(TIME), "2026-11-21T01:46:08.985123456Z");
        assert_eq!(epoch_micros(TIME), "1795225568.985123");
        assert_eq!(utc.date(u64::MAX), "2554-07-21");
        assert_eq!(epoch_micros(0), "0.000000");
        assert_eq!(seconds(211_484_001), "0.211484001");
    }

    #[test]
    fn the_last_digits_of_numbers() {
        for number in (0..100).chain([999, 1_000, 123_456, 999_999_999, 4_294_967_295]) {
            for digits in 1..=9 {
                let whole = format!("{number:09}");
                let written = text(|out| push_digits(out, number, digits));
                assert_eq!(written, whole[whole.len() - digits..]);
            }
        }
    }

    #[test]
    fn a_zone_has_a_label() {
        let Ok(berlin) = Zone::named("Europe/Berlin") else {
            println!("skipped: no time zone database");
            return;
        };
        assert_eq!(berlin.date_time(TIME), "2026-11-21 02:46:08.985");
        assert_eq!(berlin.label(TIME), "CET +01:00");
        assert_eq!(berlin.eve(TIME), "2026-11-21T02:46:08.985123+0100");
        assert_eq!(berlin.rfc3339(TIME), "2026-11-21T02:46:08.985123456+01:00");
        assert_eq!(Zone::named("America/St_Johns").unwrap().eve(TIME), "2026-11-20T22:16:08.985123-0330");
        let july = TIME - 130 * 86_400 * 1_000_000_000;
        assert_eq!(berlin.label(july), "CEST +02:00");
    }

    #[test]
    fn an_unknown_zone_is_answered_with_valid_names() {
        let error = Zone::named("Mars/Olympus").unwrap_err();
        assert!(error.contains("Mars/Olympus") && error.contains("Europe/Berlin"), "{error}");
        assert_eq!(Zone::named("UTC").unwrap().label(TIME), "UTC");
    }
}
