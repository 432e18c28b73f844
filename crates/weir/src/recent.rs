//! The lists of the latest intervals: those that the store does not have yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weir_api::{AnswerId, AnswerLabel, Outline, Reading, Snapshot, builtin};
use weir_store::listed;

/// Maximum number of intervals: the store writes an interval within the next one.
const INTERVALS: usize = 3;
/// Maximum bytes of all lists. Beyond that the earliest interval is dropped.
const BYTES: usize = 32 << 20;

/// Lists by interval, and the functions that make them.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// The beginning of each interval in nanoseconds since the epoch, and its lists.
    intervals: VecDeque<(u64, BTreeMap<AnswerId, Reading>)>,
    /// The functions of the present plan that make lists, in its order.
    functions: Vec<Listing>,
    /// The number of that plan.
    plan: u64,
}

/// A function that makes a list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The name of its list in the store.
    pub name: String,
    /// Its subscription, and its place there.
    pub id: AnswerId,
    /// The names of both.
    pub label: Arc<AnswerLabel>,
    /// Its reading of nothing.
    pub empty: Reading,
}

/// Whether a list of a function is one of those here. Pages have the built-in top lists and distinct counts in other places.
fn is_here(id: AnswerId, reading: &Reading) -> bool {
    match reading {
        Reading::Table(_) => listed::is_list(reading),
        reading => id.subscription >= builtin::FIRST_FREE && listed::is_list(reading),
    }
}

impl Recent {
    /// Follows the plan of a tick.
    pub fn follow(&mut self, plan: &Outline) {
        if plan.plan == self.plan {
            return;
        }
        self.plan = plan.plan;
        let answers = plan.answers().map(|(_, answer)| answer);
        let here = listed::named(answers).filter(|(_, answer)| is_here(answer.id, &answer.reading));
        let listing = here.map(|(name, answer)| Listing {
            name,
            id: answer.id,
            label: Arc::clone(&answer.label),
            empty: answer.reading.clone(),
        });
        self.functions = listing.collect();
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
        for answer in part.answers.iter().filter(|answer| is_here(answer.id, &answer.reading)) {
            match sums.get_mut(&answer.id) {
                Some(sum) => sum.merge(&answer.reading),
                None => drop(sums.insert(answer.id, answer.reading.clone())),
            }
        }
        while self.intervals.len() > 1 && (self.intervals.len() > INTERVALS || self.memory() > BYTES) {
            self.intervals.pop_front();
        }
    }

    fn memory(&self) -> usize {
        self.intervals.iter().flat_map(|(_, lists)| lists.values()).map(Reading::memory).sum()
    }

    /// The functions of the present plan that make lists, in its order.
    pub fn functions(&self) -> &[Listing] {
        &self.functions
    }

    /// The readings of a function in intervals that begin in a range.
    pub fn readings(&self, id: AnswerId, from: u64, to: u64) -> impl Iterator<Item = &Reading> {
        let within = self.intervals.iter().filter(move |(start, _)| (from..to).contains(start));
        within.filter_map(move |(_, lists)| lists.get(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use weir_api::{
        Answer, Datum, Fold, Folded, Schema, Shown, SubscriptionId, Table, TableColumn, TableRow,
    };

    const ID: AnswerId = AnswerId { subscription: SubscriptionId(300), place: 0 };

    fn answer(rows: &[(u64, u64)]) -> Answer {
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
        let label = AnswerLabel {
            subscription: "names".to_owned(),
            function: "top".to_owned(),
            ..AnswerLabel::default()
        };
        Answer { id: ID, label: Arc::new(label), reading: Reading::Table(table), nanoseconds: 0 }
    }

    fn part(rows: &[(u64, u64)]) -> Snapshot {
        Snapshot { answers: vec![answer(rows)], ..Snapshot::default() }
    }

    fn sum(recent: &Recent, from: u64, to: u64) -> u64 {
        let weight = |reading: &Reading| match reading {
            Reading::Table(table) => table.rows.iter().map(TableRow::weight).sum::<u64>(),
            _ => 0,
        };
        recent.readings(ID, from, to).map(weight).sum()
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
    }

    #[test]
    fn functions_are_those_of_the_latest_plan() {
        let mut recent = Recent::default();
        recent.follow(&Outline::new(1, [(answer(&[]), false)]));
        assert_eq!(recent.functions().iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["names"]);
        recent.follow(&Outline::new(2, Vec::<(Answer, bool)>::new()));
        assert!(recent.functions().is_empty());
    }
}
