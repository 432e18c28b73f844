//! The tables of functions of the latest intervals: those that the store does not have yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weir_api::{Answer, AnswerId, AnswerLabel, Reading, Snapshot, Table};
use weir_store::listed;

/// Maximum number of intervals: the store writes an interval within the next one.
const INTERVALS: usize = 3;
/// Maximum bytes of all tables. Beyond that the earliest interval is dropped.
const BYTES: usize = 32 << 20;

/// Tables by interval, and the functions that make them.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// The beginning of each interval in nanoseconds since the epoch, and its tables by name.
    intervals: VecDeque<(u64, BTreeMap<String, Table>)>,
    /// The functions of the present plan that make tables, in its order.
    functions: Vec<Known>,
}

/// A function that makes a table.
#[derive(Clone, Debug)]
pub struct Known {
    /// The name of its table.
    pub name: String,
    /// Its subscription, and its place there.
    pub id: AnswerId,
    /// The names of both.
    pub label: Arc<AnswerLabel>,
    /// Its columns, without rows.
    pub empty: Table,
}

impl Recent {
    /// Follows the plan of a tick, which has an answer of each function.
    pub fn follow(&mut self, tick: &Snapshot) {
        let known = |(name, answer, table): (String, &Answer, &Table)| Known {
            name,
            id: answer.id,
            label: Arc::clone(&answer.label),
            empty: Table {
                schema: table.schema.clone(),
                capacity: table.capacity,
                rows: Vec::new(),
                absent: 0,
            },
        };
        self.functions = tables(tick).map(known).collect();
    }

    /// Adds a part of the interval that begins at `start`.
    pub fn add(&mut self, start: u64, part: &Snapshot) {
        let at = match self.intervals.iter().position(|(begin, _)| *begin == start) {
            Some(at) => at,
            None => {
                self.intervals.push_back((start, BTreeMap::new()));
                self.intervals.len() - 1
            }
        };
        let Some((_, sums)) = self.intervals.get_mut(at) else { return };
        for (name, _, table) in tables(part).filter(|(.., table)| !table.rows.is_empty() || table.absent > 0)
        {
            match sums.get_mut(&name) {
                Some(sum) if sum.is_like(table) => sum.merge(table),
                // A new list, or one whose columns have changed.
                _ => drop(sums.insert(name, table.clone())),
            }
        }
        while self.intervals.len() > 1 && (self.intervals.len() > INTERVALS || self.memory() > BYTES) {
            self.intervals.pop_front();
        }
    }

    fn memory(&self) -> usize {
        self.intervals.iter().flat_map(|(_, tables)| tables.values()).map(Table::memory).sum()
    }

    /// The functions of the present plan that make tables, in its order.
    pub fn functions(&self) -> &[Known] {
        &self.functions
    }

    /// The tables of a name in intervals that begin in a range.
    pub fn tables<'r>(&'r self, name: &'r str, from: u64, to: u64) -> impl Iterator<Item = &'r Table> {
        let within = self.intervals.iter().filter(move |(start, _)| (from..to).contains(start));
        within.filter_map(move |(_, tables)| tables.get(name))
    }
}

/// The tables of a snapshot with their names.
fn tables(of: &Snapshot) -> impl Iterator<Item = (String, &Answer, &Table)> {
    listed::named(&of.answers).filter_map(|(name, answer)| match &answer.reading {
        Reading::Table(table) => Some((name, answer, table)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use weir_api::{Datum, Fold, Folded, Schema, Shown, SubscriptionId, TableColumn, TableRow};

    fn part(rows: &[(u64, u64)]) -> Snapshot {
        let column =
            TableColumn { name: "records".into(), fold: Fold::Sum, unit: "".into(), help: "".into() };
        let schema = Schema {
            name: "records".into(),
            keys: Cow::Borrowed(&[]),
            columns: vec![column].into(),
            shown: Shown::Heaviest(10),
        };
        let row = |(key, value): &(u64, u64)| TableRow {
            key: vec![Datum::Number(*key)],
            values: vec![Folded::Sum(*value)],
            error: 0,
        };
        let table = Table::new(schema, 16, rows.iter().map(row).collect(), 0);
        let label = AnswerLabel { subscription: "names".to_owned(), chart: None, function: "top".to_owned() };
        let answer = Answer {
            id: AnswerId { subscription: SubscriptionId(300), place: 0 },
            label: Arc::new(label),
            reading: Reading::Table(table),
            nanoseconds: 0,
        };
        Snapshot { answers: vec![answer], ..Snapshot::default() }
    }

    fn sum(recent: &Recent, from: u64, to: u64) -> u64 {
        recent.tables("names", from, to).flat_map(|table| &table.rows).map(TableRow::weight).sum()
    }

    #[test]
    fn parts_of_an_interval_are_added_up_and_few_intervals_are_kept() {
        let mut recent = Recent::default();
        recent.add(0, &part(&[(1, 2), (2, 3)]));
        recent.add(0, &part(&[(1, 5)]));
        recent.add(10, &part(&[(1, 7)]));
        assert_eq!((sum(&recent, 0, 10), sum(&recent, 10, 20), sum(&recent, 0, u64::MAX)), (10, 7, 17));
        for start in [20, 30] {
            recent.add(start, &part(&[(1, 1)]));
        }
        assert_eq!(sum(&recent, 0, u64::MAX), 9);
        // A list without rows is known.
        recent.follow(&part(&[]));
        assert_eq!(recent.functions().iter().map(|known| known.name.as_str()).collect::<Vec<_>>(), ["names"]);
        recent.follow(&Snapshot::default());
        assert!(recent.functions().is_empty());
    }
}
