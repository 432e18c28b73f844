//! Results of functions. Each kind of reading merges with another of its kind.

use crate::{DistinctCount, FloodSums, Table, Top, Unit};
use serde::Serialize;

/// The result of one function for one interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "shape", rename_all = "lowercase")]
pub enum Reading {
    /// Packets and bytes.
    Count(Count),
    /// The heaviest keys.
    Top(Top),
    /// Packets by class. Each packet is in exactly one class; classes are in the function's order.
    Classes {
        /// The unit that the function counts in.
        unit: Unit,
        /// The classes.
        classes: Vec<Class>,
    },
    /// Number of values in each bin.
    Histogram(Histogram),
    /// Packets and bytes by time.
    Series(Series),
    /// Number of distinct values.
    Distinct(DistinctCount),
    /// Rows by key, with the function's own columns.
    Table(Table),
    /// Sums in which floods are found. They are for a judge alone: no output has them.
    Flooded(FloodSums),
}

impl Reading {
    /// Whether the other reading has this shape and counts the same values, so that the two can be merged.
    pub fn is_like(&self, other: &Reading) -> bool {
        match (self, other) {
            (Reading::Top(a), Reading::Top(b)) => (a.key, a.unit) == (b.key, b.unit),
            (Reading::Classes { classes: a, .. }, Reading::Classes { classes: b, .. }) => a.len() == b.len(),
            (Reading::Histogram(a), Reading::Histogram(b)) => a.of == b.of && a.edges == b.edges,
            (Reading::Distinct(a), Reading::Distinct(b)) => a.of == b.of,
            (Reading::Table(a), Reading::Table(b)) => a.is_like(b),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// Whether the other reading, of the same function, holds equal values.
    pub fn holds_equal(&self, other: &Reading) -> bool {
        match (self, other) {
            (Reading::Table(a), Reading::Table(b)) => a.has_equal_rows(b),
            (a, b) => a == b,
        }
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        match self {
            Reading::Count(_) => 0,
            Reading::Top(top) => top.rows.memory(),
            Reading::Classes { classes, .. } => {
                classes.iter().map(|class| size_of::<Class>() + class.label.len()).sum()
            }
            Reading::Histogram(histogram) => histogram.of.len() + 2 * size_of_val(histogram.edges.as_slice()),
            Reading::Series(series) => size_of_val(series.cells.as_slice()),
            Reading::Distinct(count) => count.memory(),
            Reading::Table(table) => table.memory(),
            Reading::Flooded(sums) => sums.memory(),
        }
    }

    /// The most by which a sum of the reading may be off, in the unit by which its rows are ranked; 0 if all of its numbers are
    /// exact. `None` if it has estimates, whose errors are not of that unit and stand beside them.
    pub fn bound(&self) -> Option<u64> {
        match self {
            Reading::Count(_) | Reading::Classes { .. } | Reading::Histogram(_) | Reading::Series(_) => {
                Some(0)
            }
            Reading::Top(top) => Some(top.bound()),
            Reading::Flooded(_) => None,
            Reading::Distinct(count) => count.is_exact().then_some(0),
            Reading::Table(table) => table.bound(),
        }
    }

    /// Merges the reading of the same function from another worker, interval or machine. Readings of different shapes
    /// come from different functions and are never merged: `self` is left unchanged.
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
            (Reading::Distinct(a), Reading::Distinct(b)) => a.merge(b),
            (Reading::Table(a), Reading::Table(b)) => a.merge(b),
            (Reading::Flooded(a), Reading::Flooded(b)) => a.merge(b),
            _ => debug_assert!(false, "readings of two functions were merged"),
        }
    }
}

/// Packets, and the bytes they had on the wire.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire, link-layer headers included.
    pub bytes: u64,
}

impl Count {
    /// Adds another count.
    pub fn add(&mut self, other: &Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    /// The count in the given unit.
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
    /// Name of the class.
    pub label: String,
    /// Count of the class.
    #[serde(flatten)]
    pub count: Count,
}

/// A histogram over bins with fixed edges.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Histogram {
    /// The measured quantity.
    pub of: String,
    /// Lower edge of each bin; a bin ends where the next begins, the last is open.
    pub edges: Vec<u64>,
    /// Values in each bin.
    pub counts: Vec<u64>,
    /// Number of values.
    pub n: u64,
    /// Sum of the values.
    pub sum: u128,
    /// The smallest value; undefined when `n` is 0.
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

    /// Counts a value. A value below the first edge falls into the first bin.
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

    /// Adds the values of another histogram with the same edges.
    pub fn merge(&mut self, other: &Histogram) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
        self.n += other.n;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Packets and bytes in cells of equal duration.
///
/// A cell begins at a multiple of `step` since the epoch. `step` doubles when there would be more than
/// [`Series::MAX_CELLS`] cells: two series of the same packets are equal, however the packets were divided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Duration of a cell in nanoseconds.
    pub step: u64,
    /// Number of the first cell, which begins `first * step` nanoseconds after the epoch.
    pub first: u64,
    /// The cells, including empty ones.
    pub cells: Vec<Count>,
}

impl Series {
    /// Maximum number of cells.
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
        while self.step < other.step {
            self.double();
        }
        // A cell of a series lies within one cell of a series with longer ones.
        for (at, count) in (other.first..).zip(&other.cells).filter(|(_, count)| **count != Count::default())
        {
            self.add(at.saturating_mul(other.step), count);
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
        // One by one: the sum has long cells before the other has.
        let mut sum = Series::new(10);
        times.iter().for_each(|time| sum.merge(&series(&[*time])));
        assert_eq!(sum, whole);
        sum.merge(&Series::new(10));
        assert_eq!(sum, whole);
        let mut all = Series::new(10);
        all.merge(&whole);
        assert_eq!(all, whole);
    }

    #[test]
    fn far_apart_times_cost_no_memory() {
        let s = series(&[0, u64::MAX / 2, u64::MAX]);
        assert!(s.cells.len() <= Series::MAX_CELLS);
        assert_eq!(s.cells.iter().map(|c| c.packets).sum::<u64>(), 3);
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
