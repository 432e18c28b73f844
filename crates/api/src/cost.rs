//! The cost of the pass.

use serde::Serialize;

/// Worker time in nanoseconds, estimated from a sample of the packets; all 0 if nothing was measured.
///
/// The cost of a subscription is in its answers ([`crate::Answer::nanoseconds`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Costs {
    /// Evaluating the run's expression.
    pub expression: u64,
    /// Evaluating the expressions that only count packets or flows.
    pub counted: u64,
    /// Evaluating the expressions whose packets go to functions.
    pub shown: u64,
    /// Verifying checksums.
    pub checksums: u64,
    /// Flow tracking, without the use of its tallies.
    pub flows: u64,
}

impl Costs {
    /// Adds the costs of another worker or interval.
    pub fn add(&mut self, other: &Costs) {
        self.expression += other.expression;
        self.counted += other.counted;
        self.shown += other.shown;
        self.checksums += other.checksums;
        self.flows += other.flows;
    }

    /// Each part with its name.
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("expression", self.expression),
            ("counted", self.counted),
            ("shown", self.shown),
            ("checksums", self.checksums),
            ("flows", self.flows),
        ]
    }
}
