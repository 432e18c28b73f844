//! Answers that are taken out of each interval before outputs see it: those of clients, and those that are for judges alone.

use std::sync::Arc;
use weir_api::{Answer, Outline, Snapshot};

/// Takes answers out of snapshots.
pub struct AnswersApart {
    /// Which answers.
    is_apart: fn(&Answer) -> bool,
    /// Number of the latest plan.
    plan: u64,
    /// The outline of the plan without these answers, if it has any.
    rest: Option<Arc<Outline>>,
}

impl AnswersApart {
    /// Takes the answers for which `is_apart` holds.
    pub fn new(is_apart: fn(&Answer) -> bool) -> Self {
        Self { is_apart, plan: 0, rest: None }
    }

    /// Takes them out of a snapshot and of its outline.
    pub fn take(&mut self, snapshot: &mut Snapshot) -> Vec<Answer> {
        if snapshot.outline.plan != self.plan {
            self.plan = snapshot.outline.plan;
            self.rest = snapshot.outline.without(self.is_apart).map(Arc::new);
        }
        // Answers of a subscription that was removed are in no outline.
        let rest = self.rest.as_ref().unwrap_or(&snapshot.outline);
        snapshot.take_apart(&Arc::clone(rest), self.is_apart)
    }
}
