//! Why a rule is not in force.

use std::fmt;

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultKind {
    /// The text is not a rule, or contradicts itself: its author has to change it.
    Wrong,
    /// The text may be a rule of Suricata or Snort, but Weir does not do what it asks for.
    NotSupported,
}

/// A fault in the text of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Its place: bytes from the beginning of the rule.
    pub at: usize,
    /// Its kind.
    pub kind: FaultKind,
    /// What is wrong and, where that can be said, what is accepted. One sentence without its full stop.
    pub reason: String,
}

impl Fault {
    /// A fault of the rule's author.
    pub fn wrong(at: usize, reason: impl Into<String>) -> Self {
        Self { at, kind: FaultKind::Wrong, reason: reason.into() }
    }

    /// Something that Weir does not do.
    pub fn not_supported(at: usize, reason: impl Into<String>) -> Self {
        Self { at, kind: FaultKind::NotSupported, reason: reason.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Fault {}
