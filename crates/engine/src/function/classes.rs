//! Functions that put each packet into one of a few classes.

use super::Function;
use crate::Item;
use weir_api::{Class, Count, Reading, Unit};

/// Counts by class. `classify` gives the index of an item's class, or `None` for an item without a class.
pub(super) struct Classifier<F> {
    labels: Vec<String>,
    unit: Unit,
    classify: F,
    counts: Vec<Count>,
}

impl<F: Fn(&Item<'_>) -> Option<usize> + Send + 'static> Classifier<F> {
    pub(super) fn boxed<L: ToString>(labels: &[L], unit: Unit, classify: F) -> Box<dyn Function> {
        let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
        let counts = vec![Count::default(); labels.len()];
        Box::new(Self { labels, unit, classify, counts })
    }
}

impl<F: Fn(&Item<'_>) -> Option<usize> + Send> Function for Classifier<F> {
    fn item(&mut self, item: &Item<'_>) {
        if let Some(count) = (self.classify)(item).and_then(|class| self.counts.get_mut(class)) {
            count.add(&item.count());
        }
    }

    fn take(&mut self) -> Reading {
        let classes = self
            .labels
            .iter()
            .zip(&mut self.counts)
            .map(|(label, count)| Class { label: label.clone(), count: std::mem::take(count) })
            .collect();
        Reading::Classes { unit: self.unit, classes }
    }
}
