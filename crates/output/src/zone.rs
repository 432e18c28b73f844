//! Times as people and files read them. Inside of Weir a time is nanoseconds since the epoch, UTC.

use jiff::{Timestamp, tz::TimeZone};

/// The zone in which times are written.
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

    /// A zone of the IANA time zone database, as `Europe/Berlin`.
    ///
    /// # Errors
    /// When there is no such zone; the text says what would be accepted.
    pub fn named(name: &str) -> Result<Self, String> {
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Self::utc());
        }
        TimeZone::get(name).map(|zone| Self { zone }).map_err(|_| {
            format!("no time zone {name:?}; names are those of the IANA database, as Europe/Berlin, or UTC")
        })
    }

    /// The zone itself.
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// `2026-11-21 01:46:08.985`.
    pub fn date_time(&self, nanoseconds: u64) -> String {
        self.strftime(nanoseconds, "%Y-%m-%d %H:%M:%S%.3f")
    }

    /// `2026-11-21`.
    pub fn date(&self, nanoseconds: u64) -> String {
        self.strftime(nanoseconds, "%Y-%m-%d")
    }

    /// `01:46:08`.
    pub fn clock(&self, nanoseconds: u64) -> String {
        self.strftime(nanoseconds, "%H:%M:%S")
    }

    /// `01:46:08.985`.
    pub fn clock_millis(&self, nanoseconds: u64) -> String {
        self.strftime(nanoseconds, "%H:%M:%S%.3f")
    }

    /// What is printed beside a time: `UTC`, or abbreviation and offset as `CET +01:00`.
    pub fn label(&self, nanoseconds: u64) -> String {
        if self.zone == TimeZone::UTC {
            return "UTC".to_owned();
        }
        let offset = self.strftime(nanoseconds, "%:z");
        let name = self.strftime(nanoseconds, "%Z");
        // Zones without an abbreviation of their own repeat the offset in its place.
        if name.starts_with(['+', '-']) { offset } else { format!("{name} {offset}") }
    }

    /// As Suricata writes it: `2026-11-21T01:46:08.985123+0000`.
    pub fn eve(&self, nanoseconds: u64) -> String {
        self.strftime(nanoseconds, "%Y-%m-%dT%H:%M:%S%.6f%z")
    }

    /// As Zeek writes the time of a log's opening: `2026-11-21-01-46-08`.
    pub fn dashed(&self, nanoseconds: u64) -> String {
        self.strftime(nanoseconds, "%Y-%m-%d-%H-%M-%S")
    }

    fn strftime(&self, nanoseconds: u64, format: &str) -> String {
        // 2^64 ns are the year 2554: every time there is can be written.
        let time = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or_default();
        time.to_zoned(self.zone.clone()).strftime(format).to_string()
    }
}

/// RFC 3339 in UTC with nanoseconds: `2026-11-21T01:46:08.985123456Z`.
pub fn rfc3339(nanoseconds: u64) -> String {
    Zone::utc().strftime(nanoseconds, "%Y-%m-%dT%H:%M:%S%.9fZ")
}

/// Seconds and six decimals: `1795225568.985123`.
pub fn epoch_micros(nanoseconds: u64) -> String {
    let micros = nanoseconds / 1_000;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Nanoseconds as seconds and nine decimals: `0.211484000`.
pub fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = 1_795_225_568_985_123_456;

    #[test]
    fn every_form_of_a_time() {
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
    fn a_zone_is_named_beside_its_times() {
        let Ok(berlin) = Zone::named("Europe/Berlin") else {
            println!("skipped: no time zone database");
            return;
        };
        assert_eq!(berlin.date_time(TIME), "2026-11-21 02:46:08.985");
        assert_eq!(berlin.label(TIME), "CET +01:00");
        assert_eq!(berlin.eve(TIME), "2026-11-21T02:46:08.985123+0100");
        let july = TIME - 130 * 86_400 * 1_000_000_000;
        assert_eq!(berlin.label(july), "CEST +02:00");
    }

    #[test]
    fn a_wrong_zone_is_answered_with_what_is_right() {
        let error = Zone::named("Mars/Olympus").unwrap_err();
        assert!(error.contains("Mars/Olympus") && error.contains("Europe/Berlin"), "{error}");
        assert_eq!(Zone::named("UTC").unwrap().label(TIME), "UTC");
    }
}
