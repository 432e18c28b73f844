//! What parts of rules are about.

use crate::rule::{BufferTests, Test};
use weir_wire::Direction;

/// What a part of a rule is about.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum About {
    /// A packet: its headers, its payload, or neither.
    Packet,
    /// A stream.
    Stream,
    /// The messages of one side, or of either side if none is stated.
    Messages(Option<Direction>),
    /// Something odd that happens: it has no tests.
    Event,
}

/// Whether a buffer must be there. One that may be absent need not.
pub(super) fn is_firm(of: &BufferTests) -> bool {
    !of.tests.iter().any(|test| matches!(test, Test::Absent { .. }))
}
