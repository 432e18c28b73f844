//! Judges the readings of the function `scans`.
//!
//! Attempts are added up over intervals, so that a slow scan is found and the length of intervals makes no difference.
//! What has not become a scan is forgotten an hour after its last failed attempt.

use super::Judge;
use weir_api::{Event, Interval, Reading, Rows, SCANS, Table, Trials};

/// Nanoseconds without a failed attempt after which attempts are forgotten.
const MEMORY: u64 = 3_600_000_000_000;

/// The attempts that are no scan yet. There are at most as many as in a reading of the function.
pub(super) struct Probes {
    rows: Table,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            rows: Table {
                schema: (&SCANS).into(),
                capacity: 0,
                rows: Rows::default(),
                absent: 0,
                shed: None,
            },
        }
    }
}

impl Judge for Probes {
    /// The scans of an interval as events: new ones with all of their attempts, and those that are open already with the
    /// attempts of the interval.
    fn judge(
        &mut self,
        reading: &Reading,
        _: Interval,
        now: Interval,
        is_open: &dyn Fn(&Event) -> bool,
    ) -> Vec<Event> {
        let Reading::Table(table) = reading else { return Vec::new() };
        if table.rows.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut others = Vec::new();
        for row in &table.rows {
            match Trials::of(row).map(Trials::event) {
                Some(event) if is_open(&event) => {
                    // Attempts that succeeded alone are no finding.
                    found.extend((event.count > 0).then_some(event));
                }
                Some(_) => others.push(row.clone()),
                None => {}
            }
        }
        self.rows.rows.edit().retain(|row| {
            Trials::of(row).is_some_and(|trials| {
                let gap = now.start.saturating_sub(trials.last).max(trials.first.saturating_sub(now.end));
                trials.first != u64::MAX && gap <= MEMORY
            })
        });
        self.rows.merge(&Table::new(&SCANS, table.capacity, others, 0));
        self.rows.rows.edit().retain(|row| match Trials::of(row) {
            Some(trials) if trials.is_scan() => {
                found.push(trials.event());
                false
            }
            trials => trials.is_some_and(|trials| trials.refused + trials.unanswered > 0),
        });
        found
    }

    fn held(&self) -> usize {
        self.rows.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::Sweep;

    const SECOND: u64 = 1_000_000_000;

    /// Judges an interval of 10 s in which 10.0.0.1 fails at some ports of 10.0.0.2.
    fn judge(probes: &mut Probes, second: u64, ports: std::ops::Range<u128>, is_open: bool) -> Vec<Event> {
        let start = second * SECOND;
        let mut trials =
            Trials::new(Sweep::Ports { source: [10, 0, 0, 1].into(), target: [10, 0, 0, 2].into() });
        (trials.refused, trials.first, trials.last) = (ports.end as u64 - ports.start as u64, start, start);
        ports.for_each(|port| {
            trials.failed.add(port);
        });
        let reading = Reading::Table(Table::new(&SCANS, 100, vec![trials.row(0)], 0));
        let interval = Interval { start, end: start + 10 * SECOND };
        probes.judge(&reading, interval, interval, &|_| is_open)
    }

    #[test]
    fn attempts_add_up_to_a_scan_over_intervals() {
        let mut probes = Probes::default();
        assert!(judge(&mut probes, 0, 1..11, false).is_empty());
        let found = judge(&mut probes, 1_000, 11..21, false);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].count, found[0].begin, found[0].last), (20, 0, 1_000 * SECOND));
        // The event is open: further attempts are added, and what was found before is not counted twice.
        let more = judge(&mut probes, 1_010, 21..24, true);
        assert_eq!((more[0].count, more[0].number("failed")), (3, Some(3)));
    }

    #[test]
    fn attempts_are_forgotten_after_an_hour() {
        let mut probes = Probes::default();
        judge(&mut probes, 0, 1..11, false);
        assert!(judge(&mut probes, 3_700, 11..21, false).is_empty());
        assert_eq!(judge(&mut probes, 3_710, 21..31, false).len(), 1);
    }
}
