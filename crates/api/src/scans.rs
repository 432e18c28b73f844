//! Hosts that probe ports or hosts one after another, mostly without success.
//!
//! A failed flow counts as two probes: of one more port of a host, and of one more host on a port. It therefore counts
//! in two rows, and a scan of either kind fills one of them. A scan differs from a client not by the number of
//! failures but by the number of distinct targets, and by how few of them answer.

use crate::Distinct;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

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

/// Probes by initiator and target: exact while the rows fit into `capacity` and the distinct values of a row fit into
/// [`Targets`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scans {
    /// Maximum number of rows; rows with the most failures are kept.
    #[serde(skip)]
    pub capacity: usize,
    /// The rows, sorted by initiator and target.
    pub rows: Vec<Trials>,
}

/// A row: ports of a host, or hosts with a port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trials {
    /// Initiator and target of each row.
    pub sweep: Sweep,
    /// The ports or hosts where at least one flow failed.
    pub failed: Targets,
    /// The ports or hosts where at least one flow succeeded.
    pub answered: Targets,
    /// Flows that the responder refused.
    pub refused: u64,
    /// Flows without an answer.
    pub unanswered: u64,
    /// Beginning of the first failed flow, nanoseconds since the epoch; `u64::MAX` if no flow failed.
    pub first: u64,
    /// Beginning of the last failed flow, nanoseconds since the epoch.
    pub last: u64,
}

impl Trials {
    /// Minimum number of distinct ports or hosts of a scan.
    pub const MIN: u64 = 20;
    /// Minimum percentage of the tried ports or hosts where the attempt failed.
    pub const MIN_FAILED: u64 = 80;

    /// A row without attempts.
    pub fn new(sweep: Sweep) -> Self {
        let (failed, answered) = (Targets::default(), Targets::default());
        Self { sweep, failed, answered, refused: 0, unanswered: 0, first: u64::MAX, last: 0 }
    }

    /// Whether the row is a scan: many distinct targets, most of them without success. A target that failed once and
    /// answered once counts as both.
    pub fn is_scan(&self) -> bool {
        let failed = self.failed.estimate();
        let mut tried = self.failed.clone();
        tried.merge(&self.answered);
        failed >= Self::MIN && failed * 100 >= tried.estimate() * Self::MIN_FAILED
    }

    fn merge(&mut self, other: &Trials) {
        self.failed.merge(&other.failed);
        self.answered.merge(&other.answered);
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

impl Scans {
    /// Keeps the rows with the most failures, at most `capacity`.
    pub fn new(capacity: usize, rows: Vec<Trials>) -> Self {
        let mut scans = Self { capacity, rows };
        scans.trim();
        scans
    }

    /// The rows that are scans, most targets first.
    pub fn found(&self) -> Vec<&Trials> {
        let mut found: Vec<&Trials> = self.rows.iter().filter(|row| row.is_scan()).collect();
        found.sort_by_key(|row| (std::cmp::Reverse(row.failed.estimate()), row.sweep));
        found
    }

    /// Maps the addresses of all rows and replaces the probed hosts by stable names. Rows that become equal are
    /// merged.
    pub fn map(&mut self, mut address: impl FnMut(IpAddr) -> IpAddr, mut name: impl FnMut(u128) -> u128) {
        let mut by_sweep: BTreeMap<Sweep, Trials> = BTreeMap::new();
        for mut row in std::mem::take(&mut self.rows) {
            row.sweep = match row.sweep {
                Sweep::Ports { source, target } => {
                    Sweep::Ports { source: address(source), target: address(target) }
                }
                Sweep::Hosts { source, port } => {
                    row.failed.rename(&mut name);
                    row.answered.rename(&mut name);
                    Sweep::Hosts { source: address(source), port }
                }
            };
            match by_sweep.entry(row.sweep) {
                Entry::Occupied(mut known) => known.get_mut().merge(&row),
                Entry::Vacant(place) => {
                    place.insert(row);
                }
            }
        }
        self.rows = by_sweep.into_values().collect();
    }

    pub(crate) fn memory(&self) -> usize {
        let values = self.rows.iter().map(|row| row.failed.memory() + row.answered.memory());
        size_of_val(self.rows.as_slice()) + values.sum::<usize>()
    }

    pub(crate) fn merge(&mut self, other: &Scans) {
        let mine = std::mem::take(&mut self.rows);
        let mut by_sweep: BTreeMap<Sweep, Trials> = mine.into_iter().map(|row| (row.sweep, row)).collect();
        for row in &other.rows {
            by_sweep.entry(row.sweep).and_modify(|mine| mine.merge(row)).or_insert_with(|| row.clone());
        }
        self.capacity = self.capacity.max(other.capacity);
        self.rows = by_sweep.into_values().collect();
        self.trim();
    }

    fn trim(&mut self) {
        if self.rows.len() > self.capacity {
            self.rows.sort_by_cached_key(|row| (std::cmp::Reverse(row.failed.estimate()), row.sweep));
            self.rows.truncate(self.capacity);
        }
        self.rows.sort_unstable_by_key(|row| row.sweep);
    }
}

/// The distinct ports or hosts of a row: ports, or addresses as IPv6 numbers (IPv4 mapped).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Targets {
    seen: Distinct<u128>,
    /// The estimate from before the values were renamed, if it was not exact: registers cannot be renamed.
    floor: u64,
}

impl Targets {
    /// Counts a value, unless it was counted before.
    pub fn add(&mut self, value: u128) {
        self.seen.add(value);
    }

    /// Estimated number of distinct values.
    pub fn estimate(&self) -> u64 {
        self.seen.estimate().max(self.floor)
    }

    /// Whether [`Targets::estimate`] is exact.
    pub fn is_exact(&self) -> bool {
        self.seen.is_exact()
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        self.seen.memory()
    }

    /// The values, sorted; `None` if they are no longer known.
    pub fn values(&self) -> Option<&[u128]> {
        match &self.seen {
            Distinct::Few(values) => Some(values),
            Distinct::Registers(_) => None,
        }
    }

    /// Replaces each value by another name. If the values are no longer known, the estimate of a merged reading is that
    /// of its largest part, a lower bound.
    fn rename(&mut self, name: &mut impl FnMut(u128) -> u128) {
        let values = match std::mem::take(&mut self.seen) {
            Distinct::Few(values) => values,
            registers @ Distinct::Registers(_) => {
                self.floor = self.floor.max(registers.estimate());
                self.seen = Distinct::Registers(vec![0; Distinct::SIZE]);
                return;
            }
        };
        values.into_iter().for_each(|value| self.seen.add(name(value)));
    }

    fn merge(&mut self, other: &Targets) {
        self.floor = self.floor.max(other.floor);
        self.seen.merge(&other.seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from(n).into()
    }

    #[test]
    fn targets_are_counted_once_and_estimated_when_many() {
        let mut targets = Targets::default();
        for n in 0..200 {
            targets.add(n % 100);
        }
        assert_eq!((targets.estimate(), targets.is_exact()), (100, true));
        assert_eq!(targets.values().unwrap(), (0..100).collect::<Vec<u128>>());
        for many in [300_u64, 5_000, 65_536, 1_000_000] {
            let mut targets = Targets::default();
            (0..many).for_each(|n| targets.add(u128::from(n)));
            let off = targets.estimate() as f64 / many as f64 - 1.0;
            assert!(off.abs() < 4.0 * Distinct::STANDARD_ERROR, "{many}: {}", targets.estimate());
            assert_eq!(targets.values(), None);
        }
    }

    #[test]
    fn renaming_keeps_the_number_of_hosts_and_merges_equal_rows() {
        let hosts = |source: u32, from: u32, to: u32| {
            let mut row = Trials::new(Sweep::Hosts { source: ip(source), port: 22 });
            (from..to).for_each(|n| row.failed.add(u128::from(n)));
            row.unanswered = u64::from(to - from);
            row
        };
        let mut scans = Scans::new(10, vec![hosts(1, 0, 100), hosts(2, 50, 120), hosts(3, 0, 5_000)]);
        let before = scans.rows[2].failed.estimate();
        scans.map(|address| if address == ip(3) { ip(9) } else { ip(8) }, |value| value << 64 | 1);
        assert_eq!(scans.rows.len(), 2);
        assert_eq!((scans.rows[0].failed.estimate(), scans.rows[0].unanswered), (120, 170));
        assert_eq!(scans.rows[1].failed.estimate(), before);
        let names = scans.rows.iter().filter_map(|row| row.failed.values()).flatten();
        assert!(names.clone().count() == 120 && names.into_iter().all(|value| *value as u64 == 1));
        // The hosts of the next interval are counted together with them.
        let mut next = Scans::new(10, vec![hosts(1, 90, 130)]);
        next.map(|_| ip(8), |value| value << 64 | 1);
        scans.merge(&next);
        assert_eq!(scans.rows[0].failed.estimate(), 130);
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
            Scans::new(100, rows.into_values().collect())
        };
        let whole = scans(&mut trials.iter());
        for parts in 2..6 {
            let part = |n| scans(&mut trials.iter().skip(n).step_by(parts));
            for order in [(0..parts).collect::<Vec<_>>(), (0..parts).rev().collect()] {
                let mut sum = Scans::new(100, Vec::new());
                order.iter().for_each(|n| sum.merge(&part(*n)));
                assert_eq!(sum, whole, "{parts} parts");
            }
        }
        let found: Vec<Sweep> = whole.found().iter().map(|row| row.sweep).collect();
        let expected =
            [Sweep::Ports { source: ip(1), target: ip(2) }, Sweep::Hosts { source: ip(1), port: 445 }];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_scan_needs_a_majority_of_failures() {
        let mut row = Trials::new(Sweep::Ports { source: ip(1), target: ip(2) });
        (0..19).for_each(|port| row.failed.add(port));
        assert!(!row.is_scan(), "too few");
        row.failed.add(19);
        assert!(row.is_scan());
        (100..105).for_each(|port| row.answered.add(port));
        assert!(row.is_scan(), "20 of 25");
        row.answered.add(105);
        assert!(!row.is_scan(), "20 of 26");
    }

    #[test]
    fn rows_with_the_most_failures_are_kept() {
        let rows = (0..10_u32).map(|n| {
            let mut row = Trials::new(Sweep::Hosts { source: ip(n), port: 22 });
            (0..u128::from(n)).for_each(|host| row.failed.add(host));
            row
        });
        let scans = Scans::new(3, rows.collect());
        let sources: Vec<Sweep> = scans.rows.iter().map(|row| row.sweep).collect();
        assert_eq!(sources, [7, 8, 9].map(|n| Sweep::Hosts { source: ip(n), port: 22 }));
    }
}
