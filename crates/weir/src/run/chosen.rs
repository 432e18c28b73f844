//! The flows that an expression over fields of records or flows selects.

use std::sync::Arc;
use weir_engine::ChosenFlows;
use weir_output::figures::count;

/// The flows that an expression selects.
#[derive(Clone)]
pub struct Chosen {
    /// The expression.
    pub typed: String,
    /// The number of flows that match.
    pub number: u64,
    /// The flows themselves.
    pub flows: Arc<ChosenFlows>,
}

impl Chosen {
    /// The expression, and what it stands for.
    pub fn text(&self) -> String {
        let flows = if self.number == 1 { "flow" } else { "flows" };
        format!("{} {flows} where {}", count(self.number), self.typed)
    }
}
