//! The answers of clients, which are taken out of each interval before anything else sees it.

use std::sync::Arc;
use weir_api::{Answer, Outline, Snapshot};

/// Takes the answers of clients out of snapshots.
#[derive(Default)]
pub struct ClientAnswers {
    /// Number of the latest plan.
    plan: u64,
    /// The outline of the plan without the answers of clients, if it has any.
    rest: Option<Arc<Outline>>,
}

impl ClientAnswers {
    /// Takes them out of a snapshot and of its outline.
    pub fn take(&mut self, snapshot: &mut Snapshot) -> Vec<Answer> {
        if snapshot.outline.plan != self.plan {
            self.plan = snapshot.outline.plan;
            self.rest = snapshot.outline.without_clients().map(Arc::new);
        }
        // Answers of a subscription that was removed are in no outline.
        let rest = self.rest.as_ref().unwrap_or(&snapshot.outline);
        snapshot.take_clients(&Arc::clone(rest))
    }
}
