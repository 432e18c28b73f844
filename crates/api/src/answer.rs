//! Answers of functions, and the outline of a plan's answers.

use crate::{FunctionCall, Owner, Reading, SubscriptionId};
use std::sync::Arc;

/// Identifies an answer: the subscription, and the place of the function in its chain.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AnswerId {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The function's place in the chain, counted from 0.
    pub place: u16,
}

/// The names of an answer, for display. Two answers may have equal names.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct AnswerLabel {
    /// The subscription's name.
    pub subscription: String,
    /// The chart that has the subscription as a line.
    pub chart: Option<String>,
    /// The function's name.
    pub function: String,
    /// Length of the interval of the reading in nanoseconds; 0 for the run's.
    pub interval: u64,
    /// Names of the outputs that the reading goes to; `None` for all.
    pub outputs: Option<Vec<String>>,
    /// Who made the subscription. A client's answers go to the client alone.
    pub owner: Owner,
    /// The calls that judge the reading where an interval is complete: that of the function, if it judges, and those of
    /// `event` after it.
    pub judges: Vec<FunctionCall>,
}

/// The result of one function of one subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The subscription and the function.
    pub id: AnswerId,
    /// Their names. All answers of a plan share them.
    pub label: Arc<AnswerLabel>,
    /// The result.
    pub reading: Reading,
    /// Cost of the function in nanoseconds of worker time, estimated from a sample of the packets; 0 if not measured.
    pub nanoseconds: u64,
}

impl Answer {
    /// Whether it is for a judge alone, and goes to no output.
    pub fn is_for_judge(&self) -> bool {
        matches!(self.reading, Reading::Flooded(_))
    }

    /// Whether it is a client's.
    pub fn is_of_client(&self) -> bool {
        self.label.owner.is_client()
    }

    fn add(&mut self, other: &Answer) {
        // A subscription's functions never change, so that both readings are of one shape.
        self.reading.merge(&other.reading);
        self.nanoseconds += other.nanoseconds;
    }
}

/// Every answer of a plan, each as the reading of an interval without packets. Plans share the answers that they have in
/// common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    /// Number of the plan. Later plans of a run have higher numbers.
    pub plan: u64,
    /// The answers, ordered by [`Answer::id`].
    empty: Vec<Entry>,
    /// The order of the plan: positions in `empty`; empty if it is that of `empty`.
    order: Vec<u32>,
}

/// An answer of an outline.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    id: AnswerId,
    /// Whether it counts an expression in the set of all that are only counted, and shares the cost of the set.
    is_counted: bool,
    answer: Arc<Answer>,
}

impl Outline {
    /// The outline of a plan with these answers, in the order of the plan. Each comes with whether it shares the cost
    /// of the set of expressions that are only counted.
    pub fn new<A: Into<Arc<Answer>>>(plan: u64, answers: impl IntoIterator<Item = (A, bool)>) -> Self {
        let entry = |(answer, is_counted): (A, bool)| {
            let answer = answer.into();
            Entry { id: answer.id, is_counted, answer }
        };
        let mut empty: Vec<Entry> = answers.into_iter().map(entry).collect();
        let mut order = Vec::new();
        if !empty.is_sorted_by_key(|entry| entry.id) {
            let mut by_id: Vec<u32> = (0..empty.len() as u32).collect();
            by_id.sort_by_key(|at| empty.get(*at as usize).map(|entry| entry.id));
            order = vec![0; empty.len()];
            for (place, at) in (0..).zip(by_id) {
                if let Some(of) = order.get_mut(at as usize) {
                    *of = place;
                }
            }
            empty.sort_by_key(|entry| entry.id);
        }
        Self { plan, empty, order }
    }

    fn in_order(&self) -> Vec<&Entry> {
        match self.order.as_slice() {
            [] => self.empty.iter().collect(),
            order => order.iter().filter_map(|at| self.empty.get(*at as usize)).collect(),
        }
    }

    /// The answers in the order of the plan, as for [`Outline::new`].
    pub(crate) fn listed(&self) -> Vec<(&Answer, bool)> {
        self.in_order().into_iter().map(|entry| (&*entry.answer, entry.is_counted)).collect()
    }

    /// The outline without the answers for which `is_apart` holds; `None` if it has none of them.
    pub fn without(&self, is_apart: impl Fn(&Answer) -> bool) -> Option<Self> {
        let is_other = |entry: &&Entry| !is_apart(&entry.answer);
        if self.empty.iter().all(|entry| is_other(&entry)) {
            return None;
        }
        let others = self.in_order().into_iter().filter(is_other);
        Some(Self::new(self.plan, others.map(|entry| (Arc::clone(&entry.answer), entry.is_counted))))
    }

    /// The answers, ordered by [`Answer::id`], each as the reading of an interval without packets.
    pub fn answers(&self) -> impl Iterator<Item = (AnswerId, &Answer)> {
        self.empty.iter().map(|entry| (entry.id, &*entry.answer))
    }

    /// An answer, as the reading of an interval without packets.
    pub fn answer(&self, id: AnswerId) -> Option<&Answer> {
        let at = self.empty.binary_search_by_key(&id, |entry| entry.id).ok()?;
        self.empty.get(at).map(|entry| &*entry.answer)
    }

    /// Adds the plan's answers that hold nothing to `answers`, which are ordered by [`Answer::id`].
    pub(crate) fn fill(&self, answers: &mut Vec<Answer>) {
        if self.is_whole(answers) {
            return;
        }
        let mut sparse = std::mem::take(answers).into_iter().peekable();
        answers.reserve(self.empty.len().max(sparse.len()));
        for entry in &self.empty {
            answers.extend(std::iter::from_fn(|| sparse.next_if(|answer| answer.id < entry.id)));
            let held = sparse.next_if(|answer| answer.id == entry.id);
            answers.push(held.unwrap_or_else(|| Answer::clone(&entry.answer)));
        }
        answers.extend(sparse);
    }

    /// Divides `counted`, the cost in nanoseconds of the set of expressions that are only counted, among its answers, and adds
    /// those that hold nothing. `answers` are ordered by [`Answer::id`].
    pub(crate) fn share(&self, answers: &mut Vec<Answer>, counted: u64) {
        if counted == 0 {
            return;
        }
        let sharing = || self.empty.iter().filter(|entry| entry.is_counted);
        let each = counted / sharing().count().max(1) as u64;
        if each == 0 {
            return;
        }
        self.fill(answers);
        let mut at = 0;
        for entry in sharing() {
            while answers.get(at).is_some_and(|answer| answer.id < entry.id) {
                at += 1;
            }
            if let Some(answer) = answers.get_mut(at) {
                answer.nanoseconds += each;
            }
        }
    }

    /// Whether these are the plan's answers, all of them and no others, ordered by [`Answer::id`].
    fn is_whole(&self, answers: &[Answer]) -> bool {
        answers.iter().map(|answer| answer.id).eq(self.empty.iter().map(|entry| entry.id))
    }

    /// Puts answers that are ordered by [`Answer::id`] into the order of the plan. Answers of other plans follow.
    pub(crate) fn arrange(&self, answers: &mut Vec<Answer>) {
        if self.order.is_empty() && answers.len() == self.empty.len() {
            return;
        }
        if self.is_whole(answers) {
            let mut by_id: Vec<Option<Answer>> = std::mem::take(answers).into_iter().map(Some).collect();
            answers.extend(self.order.iter().filter_map(|at| by_id.get_mut(*at as usize)?.take()));
            return;
        }
        let mut places: Vec<u32> = (0..self.empty.len() as u32).collect();
        for (place, at) in (0..).zip(&self.order) {
            if let Some(of) = places.get_mut(*at as usize) {
                *of = place;
            }
        }
        let place = |id: AnswerId| {
            let at = self.empty.binary_search_by_key(&id, |entry| entry.id).ok()?;
            places.get(at).copied()
        };
        answers.sort_by_cached_key(|answer| (place(answer.id).unwrap_or(u32::MAX), answer.id));
    }

    /// Whether the plan has the answer.
    pub fn has(&self, id: AnswerId) -> bool {
        self.answer(id).is_some()
    }
}

/// Adds `other` to `answers`. Both are ordered by [`Answer::id`], and so is the result. Answers that `other` does not have
/// are not visited.
pub(crate) fn add(answers: &mut Vec<Answer>, other: &[Answer]) {
    let mut new: Vec<&Answer> = Vec::new();
    let mut at = 0;
    for theirs in other {
        // Often it is the next one.
        if answers.get(at).is_some_and(|mine| mine.id < theirs.id) {
            at += answers.get(at..).unwrap_or_default().partition_point(|mine| mine.id < theirs.id);
        }
        match answers.get_mut(at).filter(|mine| mine.id == theirs.id) {
            Some(mine) => {
                mine.add(theirs);
                at += 1;
            }
            None => new.push(theirs),
        }
    }
    if !new.is_empty() {
        let mine = std::mem::take(answers);
        *answers = union(mine.into_iter(), new.into_iter().cloned());
    }
}

/// Puts two lists that are ordered by [`Answer::id`] and have none in common into one.
fn union(
    one: impl ExactSizeIterator<Item = Answer>,
    other: impl ExactSizeIterator<Item = Answer>,
) -> Vec<Answer> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let mut other = other.peekable();
    for mine in one {
        all.extend(std::iter::from_fn(|| other.next_if(|theirs| theirs.id < mine.id)));
        all.push(mine);
    }
    all.extend(other);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Count;

    fn answer(number: u32, packets: u64) -> Answer {
        Answer {
            id: AnswerId { subscription: SubscriptionId(number), place: 0 },
            label: Arc::default(),
            reading: Reading::Count(Count { packets, bytes: 0 }),
            nanoseconds: 0,
        }
    }

    fn packets(answers: &[Answer]) -> Vec<(u32, u64)> {
        let packets = |answer: &Answer| match &answer.reading {
            Reading::Count(count) => count.packets,
            _ => 0,
        };
        answers.iter().map(|answer| (answer.id.subscription.0, packets(answer))).collect()
    }

    #[test]
    fn sorted_lists_are_added_in_one_walk() {
        let mut sum = vec![answer(1, 1), answer(3, 3), answer(9, 9)];
        add(&mut sum, &[answer(2, 20), answer(3, 30)]);
        assert_eq!(packets(&sum), [(1, 1), (2, 20), (3, 33), (9, 9)]);
        add(&mut sum, &[]);
        add(&mut sum, &[answer(10, 1)]);
        assert_eq!(packets(&sum), [(1, 1), (2, 20), (3, 33), (9, 9), (10, 1)]);
        let mut none = Vec::new();
        add(&mut none, &sum);
        assert_eq!(none, sum);
    }

    #[test]
    fn an_outline_fills_and_arranges() {
        // In the order of the plan; the second was added last.
        let outline = Outline::new(3, [(answer(5, 0), true), (answer(9, 0), true), (answer(6, 0), false)]);
        let mut answers = vec![answer(4, 1), answer(6, 2)];
        outline.share(&mut answers, 1);
        assert_eq!(packets(&answers), [(4, 1), (6, 2)], "less than a nanosecond for each");
        outline.fill(&mut answers);
        assert_eq!(packets(&answers), [(4, 1), (5, 0), (6, 2), (9, 0)]);
        let mut filled = vec![answer(4, 1), answer(6, 2)];
        outline.share(&mut filled, 10);
        outline.share(&mut answers, 10);
        assert_eq!(filled, answers);
        assert_eq!(answers.iter().map(|answer| answer.nanoseconds).collect::<Vec<_>>(), [0, 5, 0, 5]);
        outline.arrange(&mut answers);
        assert_eq!(packets(&answers), [(5, 0), (9, 0), (6, 2), (4, 1)]);
        assert!(outline.has(answer(9, 0).id) && !outline.has(answer(4, 0).id));
        let mut whole = Vec::new();
        outline.fill(&mut whole);
        outline.arrange(&mut whole);
        assert_eq!(packets(&whole), [(5, 0), (9, 0), (6, 0)]);
        let empty: Vec<Answer> = outline.answers().map(|(_, answer)| answer.clone()).collect();
        assert_eq!(packets(&empty), [(5, 0), (6, 0), (9, 0)]);
    }
}
