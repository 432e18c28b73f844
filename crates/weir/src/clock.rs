//! The monotonic clock for measuring costs.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call in this process; never decreases.
pub fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
