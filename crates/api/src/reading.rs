//! What a function found: the few shapes there are, each of which can be added to its like.

use crate::{KeyKind, Scans, Unit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What one function found in one interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "shape", rename_all = "lowercase")]
pub enum Reading {
    /// Packets and octets.
    Count(Count),
    /// The heaviest keys.
    Top(Top),
    /// A packet is in exactly one class; in the order of the function.
    Classes {
        /// How the function counts.
        unit: Unit,
        /// The classes.
        classes: Vec<Class>,
    },
    /// How often a value fell into each bin.
    Histogram(Histogram),
    /// Packets and octets by time.
    Series(Series),
    /// Who tried ports or hosts in vain.
    Scans(Scans),
}

impl Reading {
    /// Adds the reading of the same function on another worker, interval or machine. Readings of different
    /// shapes come from different functions and are never added: `self` stays as it is.
    pub fn merge(&mut self, other: &Reading) {
        match (self, other) {
            (Reading::Count(a), Reading::Count(b)) => a.add(b),
            (Reading::Top(a), Reading::Top(b)) => a.merge(b),
            (Reading::Classes { classes: a, .. }, Reading::Classes { classes: b, .. }) => {
                for (a, b) in a.iter_mut().zip(b) {
                    a.count.add(&b.count);
                }
            }
            (Reading::Histogram(a), Reading::Histogram(b)) => a.merge(b),
            (Reading::Series(a), Reading::Series(b)) => a.merge(b),
            (Reading::Scans(a), Reading::Scans(b)) => a.merge(b),
            _ => debug_assert!(false, "readings of two functions were merged"),
        }
    }
}

/// Packets, and the octets they had on the wire.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Octets on the wire, link-layer headers included.
    pub bytes: u64,
}

impl Count {
    /// Adds another count.
    pub fn add(&mut self, other: &Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    /// The count in the unit asked for.
    pub fn in_unit(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Packets => self.packets,
            Unit::Bytes => self.bytes,
        }
    }
}

/// A class of packets and its count.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Class {
    /// What the class is called.
    pub label: String,
    /// What fell into it.
    #[serde(flatten)]
    pub count: Count,
}

/// What a row of a top list is about.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// An address.
    Address(IpAddr),
    /// Source and destination address.
    Pair(IpAddr, IpAddr),
    /// A five-tuple; ports are 0 where the protocol has none.
    Flow {
        /// Source address.
        source: IpAddr,
        /// Source port.
        source_port: u16,
        /// Destination address.
        destination: IpAddr,
        /// Destination port.
        destination_port: u16,
        /// IP protocol number.
        protocol: u8,
    },
    /// A port of an IP protocol.
    Port {
        /// IP protocol number.
        protocol: u8,
        /// Port.
        port: u16,
    },
    /// IP protocol number.
    Protocol(u8),
    /// VLAN identifier.
    Vlan(u16),
    /// A server's port and who talks with it.
    Talker {
        /// The responder.
        server: IpAddr,
        /// Its port.
        port: u16,
        /// The initiator.
        client: IpAddr,
        /// IP protocol number.
        protocol: u8,
    },
}

/// A list of the heaviest keys: exact while the distinct keys fit into `capacity`, else with a bound.
///
/// Rows are ordered by key, so that equal lists are equal; [`Top::ranked`] orders them for showing and cuts
/// them, which never happens before the merge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Top {
    /// What the rows are keyed by.
    pub key: KeyKind,
    /// How many to show.
    pub show: usize,
    /// What they are ranked by.
    pub unit: Unit,
    /// Most rows kept.
    #[serde(skip)]
    pub capacity: usize,
    /// The rows, by key.
    pub rows: Vec<TopRow>,
    /// Keys that were put into the list, those that came back after they were displaced again: far above
    /// `capacity` under a flood of random addresses. The number of keys where the list is exact.
    pub inserts: u64,
    /// What was counted for keys that had no room.
    pub shed: Count,
}

/// A row of a top list.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct TopRow {
    /// The key.
    pub key: Key,
    /// Packets and octets counted for it.
    #[serde(flatten)]
    pub count: Count,
    /// Flows that had it.
    pub flows: u64,
    /// The most by which `count` may be too high, in the list's unit; 0 when it is exact.
    pub error: u64,
}

impl Top {
    /// Whether every row is exact and none is missing.
    pub fn is_exact(&self) -> bool {
        self.shed == Count::default() && self.rows.iter().all(|row| row.error == 0)
    }

    /// The rows to show, heaviest first; equal weights in the order of their keys.
    pub fn ranked(&self) -> Vec<TopRow> {
        let mut rows = self.rows.clone();
        self.rank(&mut rows);
        rows.truncate(self.show);
        rows
    }

    fn rank(&self, rows: &mut [TopRow]) {
        rows.sort_by(|a, b| {
            let (x, y) = (a.count.in_unit(self.unit), b.count.in_unit(self.unit));
            y.cmp(&x).then_with(|| a.key.cmp(&b.key))
        });
    }

    fn merge(&mut self, other: &Top) {
        let mut by_key: BTreeMap<Key, TopRow> = self.rows.iter().map(|row| (row.key, *row)).collect();
        for row in &other.rows {
            by_key
                .entry(row.key)
                .and_modify(|mine| {
                    mine.count.add(&row.count);
                    mine.flows += row.flows;
                    mine.error += row.error;
                })
                .or_insert(*row);
        }
        // A key that both have is one key: so the sum does not tell how many workers there were.
        let both = (self.rows.len() + other.rows.len() - by_key.len()) as u64;
        self.inserts = (self.inserts + other.inserts).saturating_sub(both);
        self.shed.add(&other.shed);
        self.capacity = self.capacity.max(other.capacity);
        self.rows = by_key.into_values().collect();
        self.trim();
    }

    /// Keeps the heaviest `capacity` rows; what goes is counted as shed.
    fn trim(&mut self) {
        if self.rows.len() <= self.capacity {
            return;
        }
        let mut rows = std::mem::take(&mut self.rows);
        self.rank(&mut rows);
        for row in rows.drain(self.capacity..) {
            self.shed.add(&row.count);
        }
        rows.sort_by_key(|row| row.key);
        self.rows = rows;
    }
}

/// A histogram over bins with fixed edges.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Histogram {
    /// What was measured.
    pub of: String,
    /// Lower edge of each bin; a bin ends where the next begins, the last is open.
    pub edges: Vec<u64>,
    /// Values in each bin.
    pub counts: Vec<u64>,
    /// Values in all.
    pub n: u64,
    /// Their sum; it wraps only after 2^128.
    pub sum: u128,
    /// The smallest value; meaningless when `n` is 0.
    pub min: u64,
    /// The largest value.
    pub max: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new(of: &str, edges: Vec<u64>) -> Self {
        let counts = vec![0; edges.len()];
        Self { of: of.to_owned(), edges, counts, n: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts a value; below the first edge it falls into the first bin.
    pub fn add(&mut self, value: u64) {
        let bin = self.edges.partition_point(|&edge| edge <= value).saturating_sub(1);
        if let Some(count) = self.counts.get_mut(bin) {
            *count += 1;
        }
        self.n += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// The arithmetic mean, 0 when there are no values.
    pub fn mean(&self) -> f64 {
        if self.n == 0 { 0.0 } else { self.sum as f64 / self.n as f64 }
    }

    fn merge(&mut self, other: &Histogram) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
        self.n += other.n;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Packets and octets in cells of equal duration.
///
/// A cell begins at a multiple of `step` since the epoch, and `step` doubles when the cells would be more than
/// [`Series::MAX_CELLS`]: two series of the same packets are the same however the packets were divided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Duration of a cell in nanoseconds.
    pub step: u64,
    /// The first cell's number: its time is `first * step` nanoseconds after the epoch.
    pub first: u64,
    /// The cells, without holes.
    pub cells: Vec<Count>,
}

impl Series {
    /// Most cells kept.
    pub const MAX_CELLS: usize = 256;

    /// An empty series that begins with cells of `step` nanoseconds (at least 1).
    pub fn new(step: u64) -> Self {
        Self { step: step.max(1), first: 0, cells: Vec::new() }
    }

    /// Counts packets at a time in nanoseconds since the epoch.
    pub fn add(&mut self, time: u64, count: &Count) {
        let cell = time / self.step;
        if let Some(slot) = cell.checked_sub(self.first).and_then(|at| self.cells.get_mut(at as usize)) {
            slot.add(count);
            return;
        }
        self.reach(time, time);
        let cell = time / self.step;
        if let Some(slot) = self.cells.get_mut((cell - self.first) as usize) {
            slot.add(count);
        }
    }

    /// Makes room for cells from `from` to `to` (nanoseconds).
    fn reach(&mut self, from: u64, to: u64) {
        loop {
            let (mut first, mut last) = (from / self.step, to / self.step);
            if !self.cells.is_empty() {
                first = first.min(self.first);
                last = last.max(self.first + self.cells.len() as u64 - 1);
            }
            if last - first < Self::MAX_CELLS as u64 {
                let before = if self.cells.is_empty() { 0 } else { (self.first - first) as usize };
                self.cells.splice(0..0, std::iter::repeat_n(Count::default(), before));
                self.cells.resize((last - first + 1) as usize, Count::default());
                self.first = first;
                return;
            }
            self.double();
        }
    }

    fn double(&mut self) {
        self.step = self.step.saturating_mul(2);
        let first = self.first / 2;
        let mut cells: Vec<Count> = Vec::with_capacity(self.cells.len() / 2 + 1);
        for (at, count) in self.cells.iter().enumerate() {
            let to = ((self.first + at as u64) / 2 - first) as usize;
            cells.resize(cells.len().max(to + 1), Count::default());
            if let Some(cell) = cells.get_mut(to) {
                cell.add(count);
            }
        }
        self.first = first;
        self.cells = cells;
    }

    fn merge(&mut self, other: &Series) {
        let mut other = other.clone();
        while self.step < other.step {
            self.double();
        }
        while other.step < self.step {
            other.double();
        }
        for (at, count) in other.cells.iter().enumerate() {
            self.add((other.first + at as u64).saturating_mul(other.step), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(times: &[u64]) -> Series {
        let mut s = Series::new(10);
        for &t in times {
            s.add(t, &Count { packets: 1, bytes: t });
        }
        s
    }

    #[test]
    fn a_series_does_not_depend_on_how_its_packets_were_divided() {
        let times: Vec<u64> = (0..2000).map(|i| 5_000 + i * i * 7 % 90_001).collect();
        let whole = series(&times);
        assert!(whole.cells.len() <= Series::MAX_CELLS);
        assert_eq!(whole.cells.iter().map(|c| c.packets).sum::<u64>(), 2000);
        for parts in 2..5 {
            let mut sum = Series::new(10);
            for part in 0..parts {
                let mine: Vec<u64> = times.iter().copied().skip(part).step_by(parts).collect();
                sum.merge(&series(&mine));
            }
            assert_eq!(sum, whole, "{parts} parts");
        }
    }

    #[test]
    fn far_apart_times_cost_no_memory() {
        let s = series(&[0, u64::MAX / 2, u64::MAX]);
        assert!(s.cells.len() <= Series::MAX_CELLS);
        assert_eq!(s.cells.iter().map(|c| c.packets).sum::<u64>(), 3);
    }

    #[test]
    fn a_trimmed_list_keeps_the_heaviest_and_counts_the_rest() {
        let row = |v: u16, bytes| TopRow {
            key: Key::Vlan(v),
            count: Count { packets: 1, bytes },
            flows: 1,
            error: 0,
        };
        let list = |rows| Top {
            key: KeyKind::Vlan,
            show: 2,
            unit: Unit::Bytes,
            capacity: 3,
            rows,
            inserts: 2,
            shed: Count::default(),
        };
        let mut a = list(vec![row(1, 10), row(2, 50)]);
        a.merge(&list(vec![row(1, 5), row(3, 70), row(4, 1)]));
        assert_eq!(a.rows.iter().map(|r| r.count.bytes).collect::<Vec<_>>(), [15, 50, 70]);
        assert_eq!(a.shed, Count { packets: 1, bytes: 1 });
        assert_eq!(a.ranked().iter().map(|r| r.key).collect::<Vec<_>>(), [Key::Vlan(3), Key::Vlan(2)]);
        assert!(!a.is_exact());
    }

    #[test]
    fn histogram_bins_are_half_open() {
        let mut h = Histogram::new("size", vec![0, 100, 200]);
        for v in [0, 99, 100, 199, 200, 10_000] {
            h.add(v);
        }
        assert_eq!(h.counts, [2, 2, 2]);
        assert_eq!((h.n, h.min, h.max), (6, 0, 10_000));
    }
}
