//! The cost of the pass.

use serde::Serialize;

/// Nanoseconds of the workers' time, estimated from a part of the packets; all 0 where nothing was measured.
///
/// What a subscription has cost stands with its answers ([`crate::Answer::nanoseconds`]).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Costs {
    /// The run's expression.
    pub expression: u64,
    /// The expressions that packets or flows are counted for.
    pub counted: u64,
    /// Evaluating the expressions whose packets go to functions.
    pub shown: u64,
    /// Checksums.
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
