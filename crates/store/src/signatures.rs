//! Port signatures that runs have found: which are new, and when each was seen.

use crate::StoreError;

/// Maximum number of kept signatures. Of more, those that were seen last the longest time ago are forgotten, and are new when they are
/// seen again.
pub const MAX_SIGNATURES: usize = 10_000;

/// A port signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownSignature {
    /// Its ports, as they are shown.
    pub ports: String,
    /// Begin of the first interval with it, in nanoseconds since the epoch.
    pub first: u64,
    /// End of the last interval with it.
    pub last: u64,
    /// The most hosts that had it in an interval.
    pub hosts: u64,
    /// Number of intervals with it.
    pub intervals: u64,
    /// Number of runs that have found it.
    pub runs: u64,
}

impl KnownSignature {
    /// Whether it is new in a period that begins then: not seen before it, and not by an earlier run.
    pub fn is_new(&self, begin: u64) -> bool {
        self.first >= begin && self.runs <= 1
    }
}

/// The port signatures that runs with a store have found.
pub trait Signatures: Send {
    /// Notes the signatures of an interval, with the number of hosts of each. Returns those that were not known. `interval` is begin and end
    /// in nanoseconds since the epoch.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or a newer version of the program has written it: nothing is noted.
    fn see(&mut self, found: &[(String, u64)], interval: (u64, u64)) -> Result<Vec<String>, StoreError>;

    /// All signatures, by their ports.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a newer version of the program has written it.
    fn all(&self) -> Result<Vec<KnownSignature>, StoreError>;
}
