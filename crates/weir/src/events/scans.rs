//! Scans, judged from the merged readings of the function `scans`.
//!
//! Attempts are added up over intervals, so that a slow scan is found and the length of intervals makes no difference.
//! What has not become a scan is forgotten an hour after its last failed attempt.

use weir_api::{Event, Reading, SCANS, Snapshot, Table, Trials, builtin};

/// Nanoseconds without a failed attempt after which attempts are forgotten.
const MEMORY: u64 = 3_600_000_000_000;

/// The attempts that are no scan yet. There are at most as many as in a reading of the function.
pub struct Probes {
    rows: Table,
}

impl Default for Probes {
    fn default() -> Self {
        Self { rows: Table { schema: (&SCANS).into(), capacity: 0, rows: Vec::new(), absent: 0, shed: None } }
    }
}

impl Probes {
    /// The scans of an interval as events: new ones with all of their attempts, and those that are open already with the
    /// attempts of the interval.
    pub fn judge(&mut self, snapshot: &Snapshot, is_open: impl Fn(&Event) -> bool) -> Vec<Event> {
        let Some(Reading::Table(table)) = snapshot.reading_of(builtin::SCANS) else { return Vec::new() };
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
        let now = snapshot.interval;
        self.rows.rows.retain(|row| {
            Trials::of(row).is_some_and(|trials| {
                let gap = now.start.saturating_sub(trials.last).max(trials.first.saturating_sub(now.end));
                trials.first != u64::MAX && gap <= MEMORY
            })
        });
        self.rows.merge(&Table::new(&SCANS, table.capacity, others, 0));
        let rows = std::mem::take(&mut self.rows.rows);
        for row in rows {
            match Trials::of(&row) {
                Some(trials) if trials.is_scan() => found.push(trials.event()),
                Some(trials) if trials.refused + trials.unanswered > 0 => self.rows.rows.push(row),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weir_api::{Answer, AnswerId, AnswerLabel, Interval, Sweep, TableRow};

    const SECOND: u64 = 1_000_000_000;

    /// An interval of 10 s in which 10.0.0.1 fails at some ports of 10.0.0.2.
    fn interval(second: u64, ports: std::ops::Range<u128>) -> Snapshot {
        let start = second * SECOND;
        let mut trials =
            Trials::new(Sweep::Ports { source: [10, 0, 0, 1].into(), target: [10, 0, 0, 2].into() });
        (trials.refused, trials.first, trials.last) = (ports.end as u64 - ports.start as u64, start, start);
        ports.for_each(|port| {
            trials.failed.add(port);
        });
        let rows: Vec<TableRow> = vec![trials.row(0)];
        let answer = Answer {
            id: AnswerId { subscription: builtin::SCANS, place: 0 },
            label: Arc::new(AnswerLabel::default()),
            reading: Reading::Table(Table::new(&SCANS, 100, rows, 0)),
            nanoseconds: 0,
        };
        let interval = Interval { start, end: start + 10 * SECOND };
        Snapshot { interval, answers: vec![answer], ..Snapshot::default() }
    }

    #[test]
    fn attempts_add_up_to_a_scan_over_intervals() {
        let mut probes = Probes::default();
        assert!(probes.judge(&interval(0, 1..11), |_| false).is_empty());
        let found = probes.judge(&interval(1_000, 11..21), |_| false);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].count, found[0].begin, found[0].last), (20, 0, 1_000 * SECOND));
        // The event is open: further attempts are added, and what was found before is not counted twice.
        let more = probes.judge(&interval(1_010, 21..24), |_| true);
        assert_eq!((more[0].count, more[0].number("failed")), (3, Some(3)));
    }

    #[test]
    fn attempts_are_forgotten_after_an_hour() {
        let mut probes = Probes::default();
        probes.judge(&interval(0, 1..11), |_| false);
        assert!(probes.judge(&interval(3_700, 11..21), |_| false).is_empty());
        assert_eq!(probes.judge(&interval(3_710, 21..31), |_| false).len(), 1);
    }
}
