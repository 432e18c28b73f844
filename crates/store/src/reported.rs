//! Findings that were reported, so that each is reported once.

use crate::StoreError;

/// Maximum number of kept findings. Of more, those that were found last the longest time ago are forgotten.
pub const MAX_REPORTED: usize = 100_000;

/// The findings that runs with a store have reported.
pub trait Reported: Send {
    /// Notes findings of a time in nanoseconds since the epoch. Returns those that are to be reported: they are not known, or the time
    /// is more than `apart` nanoseconds after that at which they were found last.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or a newer version of the program has written it: nothing is noted.
    fn see(&mut self, found: &[String], time: u64, apart: u64) -> Result<Vec<String>, StoreError>;
}
