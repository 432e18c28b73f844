//! The readings that a store keeps as lists, and their names.

use std::collections::HashSet;
use weir_api::{Answer, AnswerLabel, Reading, Shown};

/// Whether a reading is kept as a list.
pub fn is_list(reading: &Reading) -> bool {
    match reading {
        Reading::Top(_) | Reading::Distinct(_) => true,
        // Scans are found in the stored flows.
        Reading::Table(table) => table.schema.shown != Shown::Scans,
        _ => false,
    }
}

/// The answers that are kept as lists, with their names: that of the subscription, and for its second and later lists also
/// that of the function.
pub fn named<'a>(
    answers: impl IntoIterator<Item = &'a Answer>,
) -> impl Iterator<Item = (String, &'a Answer)> {
    let mut names = HashSet::new();
    let lists = answers.into_iter().filter(|answer| is_list(&answer.reading));
    lists.map(move |answer| {
        let AnswerLabel { subscription, function, .. } = &*answer.label;
        let first = names.insert((answer.id.subscription, String::new()));
        let mut name = if first { subscription.clone() } else { format!("{subscription} {function}") };
        // Two lists of one function.
        if !first && !names.insert((answer.id.subscription, name.clone())) {
            name = format!("{name} {}", answer.id.place);
        }
        (name, answer)
    })
}
