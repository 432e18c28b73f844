//! Hosts that probe ports or hosts one after another, mostly without success.
//!
//! A failed flow counts as two probes: of one more port of a host, and of one more host on a port. It therefore counts
//! in two rows of a [`Table`], and a scan of either kind fills one of them. A scan differs from a client not by the number
//! of failures but by the number of distinct targets, and by how few of them answer.

use crate::event::{ADDRESS_SCAN, PORT_SCAN};
use crate::{
    Datum, DistinctValues, Event, Fold, Folded, KeyColumn, Schema, Shown, Subject, Table, TableColumn,
    TableRow,
};
use serde::Serialize;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::net::IpAddr;

/// IP protocol.
const TCP: u8 = 6;

/// The columns of probes by initiator and target.
pub static SCANS: Schema = Schema {
    name: Cow::Borrowed("scans"),
    keys: Cow::Borrowed(&[
        KeyColumn::new("source", "", "The initiator."),
        KeyColumn::new("target", "", "The probed host, if its ports were probed."),
        KeyColumn::new("port", "", "The probed port, if hosts were probed."),
    ]),
    columns: Cow::Borrowed(&[
        TableColumn::new(
            "failed",
            Fold::Distinct,
            "",
            "Ports of the target, or hosts, where at least one flow failed.",
        ),
        TableColumn::new(
            "answered",
            Fold::Distinct,
            "",
            "Ports of the target, or hosts, where at least one flow succeeded.",
        ),
        TableColumn::new("refused_flows", Fold::Sum, "flows", "Flows that the responder refused."),
        TableColumn::new("unanswered_flows", Fold::Sum, "flows", "Flows without an answer."),
        TableColumn::new("first", Fold::Min, "time", "Beginning of the first failed flow."),
        TableColumn::new("last", Fold::Max, "time", "Beginning of the last failed flow."),
    ]),
    shown: Shown::Scans,
};

/// The target of an initiator's probes, over TCP.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sweep {
    /// The ports of a host.
    Ports {
        /// The initiator.
        source: IpAddr,
        /// The probed host.
        target: IpAddr,
    },
    /// A port of many hosts.
    Hosts {
        /// The initiator.
        source: IpAddr,
        /// The port.
        port: u16,
    },
}

impl Sweep {
    fn of(key: &[Datum]) -> Option<Sweep> {
        match *key {
            [Datum::Address(source), Datum::Address(target), Datum::Nothing] => {
                Some(Sweep::Ports { source, target })
            }
            [Datum::Address(source), Datum::Nothing, Datum::Number(port)] => {
                Some(Sweep::Hosts { source, port: port.try_into().ok()? })
            }
            _ => None,
        }
    }

    fn key(self) -> Vec<Datum> {
        match self {
            Sweep::Ports { source, target } => {
                vec![Datum::Address(source), Datum::Address(target), Datum::Nothing]
            }
            Sweep::Hosts { source, port } => {
                vec![Datum::Address(source), Datum::Nothing, Datum::Number(port.into())]
            }
        }
    }
}

/// A row of probes: ports of a host, or hosts with a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Trials {
    /// Initiator and target.
    pub sweep: Sweep,
    /// The ports or hosts where at least one flow failed.
    pub failed: DistinctValues,
    /// The ports or hosts where at least one flow succeeded.
    pub answered: DistinctValues,
    /// Flows that the responder refused.
    pub refused: u64,
    /// Flows without an answer.
    pub unanswered: u64,
    /// Beginning of the first failed flow, nanoseconds since the epoch; `u64::MAX` if no flow failed.
    pub first: u64,
    /// Beginning of the last failed flow, nanoseconds since the epoch; 0 if no flow failed.
    pub last: u64,
}

impl Trials {
    /// Minimum number of distinct ports or hosts of a scan.
    pub const MIN: u64 = 20;
    /// Minimum percentage of the tried ports or hosts where the attempt failed.
    pub const MIN_FAILED: u64 = 80;

    /// A row without attempts.
    pub fn new(sweep: Sweep) -> Self {
        let (failed, answered) = (DistinctValues::default(), DistinctValues::default());
        Self { sweep, failed, answered, refused: 0, unanswered: 0, first: u64::MAX, last: 0 }
    }

    /// Whether the row is a scan: many distinct targets, most of them without success. A target that failed once and
    /// answered once counts as both.
    pub fn is_scan(&self) -> bool {
        is_scan(&self.failed, &self.answered)
    }

    /// The row in a table of [`SCANS`].
    pub fn of(row: &TableRow) -> Option<Trials> {
        let [
            Folded::Distinct(failed),
            Folded::Distinct(answered),
            Folded::Sum(refused),
            Folded::Sum(unanswered),
            Folded::Min(first),
            Folded::Max(last),
        ] = row.values.as_slice()
        else {
            return None;
        };
        Some(Trials {
            sweep: Sweep::of(&row.key)?,
            failed: failed.clone(),
            answered: answered.clone(),
            refused: *refused,
            unanswered: *unanswered,
            first: first.unwrap_or(u64::MAX),
            last: last.unwrap_or(0),
        })
    }

    /// The row for a table of [`SCANS`]; `error` is the upper bound of the targets that are missing in `failed`.
    pub fn row(self, error: u64) -> TableRow {
        let has_failed = self.first != u64::MAX;
        let values = vec![
            Folded::Distinct(self.failed),
            Folded::Distinct(self.answered),
            Folded::Sum(self.refused),
            Folded::Sum(self.unanswered),
            Folded::Min(has_failed.then_some(self.first)),
            Folded::Max(has_failed.then_some(self.last)),
        ];
        TableRow { key: self.sweep.key(), values, error }
    }

    /// The event of a scan. Its findings are the failed flows.
    pub fn event(self) -> Event {
        let (kind, subject) = match self.sweep {
            Sweep::Ports { source, target } => (&PORT_SCAN, Subject::Pair { source, target }),
            Sweep::Hosts { source, port } => (&ADDRESS_SCAN, Subject::Port { source, protocol: TCP, port }),
        };
        let event = Event::at(kind, subject, self.first)
            .with("failed", "", Folded::Distinct(self.failed))
            .with("answered", "", Folded::Distinct(self.answered))
            .with("refused_flows", "flows", Folded::Sum(self.refused))
            .with("unanswered_flows", "flows", Folded::Sum(self.unanswered));
        Event { last: self.last, count: self.refused + self.unanswered, ..event }
    }

    /// The scan of an event; `None` if it is another event.
    pub fn of_event(event: &Event) -> Option<Trials> {
        let sweep = match event.subject {
            Subject::Pair { source, target } if event.kind == &PORT_SCAN => Sweep::Ports { source, target },
            Subject::Port { source, port, .. } if event.kind == &ADDRESS_SCAN => {
                Sweep::Hosts { source, port }
            }
            _ => return None,
        };
        let values = |name| match event.value(name) {
            Some(Folded::Distinct(values)) => values.clone(),
            _ => DistinctValues::default(),
        };
        let flows = |name| event.number(name).unwrap_or(0);
        Some(Trials {
            sweep,
            failed: values("failed"),
            answered: values("answered"),
            refused: flows("refused_flows"),
            unanswered: flows("unanswered_flows"),
            first: event.begin,
            last: event.last,
        })
    }

    /// The scans in a table, most targets first; none if it is a table of something else.
    pub fn found(table: &Table) -> Vec<Trials> {
        if table.schema.shown != Shown::Scans {
            return Vec::new();
        }
        table.shown().into_iter().filter_map(Trials::of).collect()
    }
}

fn is_scan(failed: &DistinctValues, answered: &DistinctValues) -> bool {
    let targets = failed.estimate();
    if targets < Trials::MIN {
        return false;
    }
    let mut tried = failed.clone();
    tried.merge(answered);
    targets * 100 >= tried.estimate() * Trials::MIN_FAILED
}

/// The rows of a table that are scans, most targets first.
pub(crate) fn ranked(table: &Table) -> Vec<&TableRow> {
    let mut found: Vec<(Reverse<u64>, Sweep, &TableRow)> = Vec::new();
    for row in &table.rows {
        if let [Folded::Distinct(failed), Folded::Distinct(answered), ..] = row.values.as_slice()
            && let Some(sweep) = Sweep::of(&row.key)
            && is_scan(failed, answered)
        {
            found.push((Reverse(failed.estimate()), sweep, row));
        }
    }
    found.sort_by_key(|(targets, sweep, _)| (*targets, *sweep));
    found.into_iter().map(|(.., row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn ip(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from(n).into()
    }

    fn table(capacity: usize, rows: Vec<Trials>) -> Table {
        Table::new(&SCANS, capacity, rows.into_iter().map(|row| row.row(0)).collect(), 0)
    }

    struct Renamed<'f>(&'f dyn Fn(IpAddr) -> IpAddr);

    impl crate::Rewrite for Renamed<'_> {
        fn rewrite_datum(&mut self, datum: &Datum, _: &str) -> Datum {
            match datum {
                Datum::Address(address) => Datum::Address(self.0(*address)),
                other => other.clone(),
            }
        }

        fn rewrite_number(&mut self, number: u128) -> u128 {
            number << 64 | 1
        }

        fn rewrite_time(&mut self, time: u64) -> u64 {
            time + 10
        }
    }

    #[test]
    fn renaming_keeps_the_number_of_hosts_and_merges_equal_rows() {
        let hosts = |source: u32, from: u32, to: u32| {
            let mut row = Trials::new(Sweep::Hosts { source: ip(source), port: 22 });
            // No number of 16 bits, which would be counted exactly until it is renamed.
            (from..to).for_each(|n| {
                row.failed.add(0xffff_0a00_0000 + u128::from(n));
            });
            row.unanswered = u64::from(to - from);
            (row.first, row.last) = (5, 6);
            row
        };
        let trials =
            |table: &Table| table.rows.by_key().into_iter().filter_map(Trials::of).collect::<Vec<_>>();
        let rename =
            |table: &mut Table, source: &dyn Fn(IpAddr) -> IpAddr| table.rewrite(&mut Renamed(source));
        let mut scans = table(10, vec![hosts(1, 0, 100), hosts(2, 50, 120), hosts(3, 0, 5_000)]);
        let before = trials(&scans)[2].failed.estimate();
        rename(&mut scans, &|address| if address == ip(3) { ip(9) } else { ip(8) });
        let rows = trials(&scans);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].failed.estimate(), rows[0].unanswered), (120, 170));
        assert_eq!((rows[0].first, rows[0].last), (15, 16));
        assert_eq!(rows[1].failed.estimate(), before);
        let names = rows.iter().filter_map(|row| row.failed.values()).flatten();
        assert!(names.clone().count() == 120 && names.into_iter().all(|value| value as u64 == 1));
        // The hosts of the next interval are counted together with them.
        let mut next = table(10, vec![hosts(1, 90, 130)]);
        rename(&mut next, &|_| ip(8));
        scans.merge(&next);
        assert_eq!(trials(&scans)[0].failed.estimate(), 130);
    }

    #[test]
    fn a_sum_does_not_depend_on_how_its_attempts_were_divided() {
        // A scanner of more ports than are counted exactly, a scanner of hosts, and a client that fails now and then.
        let trials: Vec<(Sweep, u128, bool)> = (0..3_000_u32)
            .map(|n| match n % 3 {
                0 => (Sweep::Ports { source: ip(1), target: ip(2) }, u128::from(n), true),
                1 => (Sweep::Hosts { source: ip(1), port: 445 }, u128::from(n % 100), true),
                _ => (Sweep::Ports { source: ip(3), target: ip(2) }, u128::from(n % 30), n % 5 == 0),
            })
            .collect();
        let scans = |trials: &mut dyn Iterator<Item = &(Sweep, u128, bool)>| {
            let mut rows: BTreeMap<Sweep, Trials> = BTreeMap::new();
            for (sweep, value, failed) in trials {
                let row = rows.entry(*sweep).or_insert_with(|| Trials::new(*sweep));
                if *failed { &mut row.failed } else { &mut row.answered }.add(*value);
                row.refused += u64::from(*failed);
            }
            table(100, rows.into_values().collect())
        };
        let whole = scans(&mut trials.iter());
        for parts in 2..6 {
            let part = |n| scans(&mut trials.iter().skip(n).step_by(parts));
            for order in [(0..parts).collect::<Vec<_>>(), (0..parts).rev().collect()] {
                let mut sum = table(100, Vec::new());
                order.iter().for_each(|n| sum.merge(&part(*n)));
                assert_eq!(sum, whole, "{parts} parts");
            }
        }
        let found: Vec<Sweep> = Trials::found(&whole).iter().map(|row| row.sweep).collect();
        let expected =
            [Sweep::Ports { source: ip(1), target: ip(2) }, Sweep::Hosts { source: ip(1), port: 445 }];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_scan_is_an_event_and_back() {
        for sweep in [Sweep::Ports { source: ip(1), target: ip(2) }, Sweep::Hosts { source: ip(3), port: 22 }]
        {
            let mut row = Trials::new(sweep);
            (0..30).for_each(|value| {
                row.failed.add(value);
            });
            row.answered.add(7);
            (row.refused, row.unanswered, row.first, row.last) = (28, 5, 100, 200);
            let event = row.clone().event();
            assert_eq!((event.begin, event.last, event.count), (100, 200, 33));
            assert_eq!((event.number("failed"), event.number("answered")), (Some(30), Some(1)));
            assert_eq!(Trials::of_event(&event), Some(row));
        }
        assert_eq!(Trials::of_event(&Event::at(&crate::event::CLOCK_LEAP, Subject::Sensor, 1)), None);
    }

    #[test]
    fn a_scan_needs_a_majority_of_failures() {
        let mut row = Trials::new(Sweep::Ports { source: ip(1), target: ip(2) });
        (0..19).for_each(|port| {
            row.failed.add(port);
        });
        assert!(!row.is_scan(), "too few");
        row.failed.add(19);
        assert!(row.is_scan());
        (100..105).for_each(|port| {
            row.answered.add(port);
        });
        assert!(row.is_scan(), "20 of 25");
        row.answered.add(105);
        assert!(!row.is_scan(), "20 of 26");
    }

    #[test]
    fn rows_with_the_most_failures_are_kept() {
        let rows = (0..10_u32).map(|n| {
            let mut row = Trials::new(Sweep::Hosts { source: ip(n), port: 22 });
            (0..u128::from(n)).for_each(|host| {
                row.failed.add(host);
            });
            row
        });
        let scans = table(3, rows.collect());
        let sources: Vec<Option<Sweep>> = scans.rows.by_key().iter().map(|row| Sweep::of(&row.key)).collect();
        assert_eq!(sources, [7, 8, 9].map(|n| Some(Sweep::Hosts { source: ip(n), port: 22 })));
        assert_eq!(scans.absent, 6);
    }
}
