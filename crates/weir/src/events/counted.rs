//! What a live worker has counted of a tick that has not ended, so that a threshold that is passed is noticed at once.

use std::sync::Arc;
use weir_api::{AnswerId, Count, Interval, Ledger, Outline};

/// What one worker has counted of a tick so far.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Index of the worker.
    pub worker: usize,
    /// The tick from the beginning of its watched time up to now, in nanoseconds since the epoch.
    pub watched: Interval,
    /// The answers of the worker's plan.
    pub outline: Arc<Outline>,
    /// The counts that are compared with a threshold.
    pub counts: Vec<(AnswerId, Count)>,
    /// The packets that were caught and those that the kernel dropped.
    pub ledger: Ledger,
}
