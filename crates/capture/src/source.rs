//! What files and rings have in common.

use std::error::Error;
use std::time::Duration;
use weir_wire::Batch;

/// Packets of a source so far.
///
/// `received = delivered + dropped` once all packets of the source have been returned.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CaptureStats {
    /// Packets that the interfaces received and the filter accepted, or that were read from files.
    pub received: u64,
    /// Of these, packets dropped because a ring was full. A file drops none.
    pub dropped: u64,
    /// Packets returned by [`Source::next_batch`].
    pub delivered: u64,
    /// Times that a ring was full.
    pub freezes: u64,
}

impl CaptureStats {
    /// Adds the counts of another source.
    pub(crate) fn add(&mut self, other: Self) {
        self.received += other.received;
        self.dropped += other.dropped;
        self.delivered += other.delivered;
        self.freezes += other.freezes;
    }
}

/// A source of packets in the order of their time: [`crate::Files`] or [`crate::Rings`].
///
/// A batch lends the memory of its source and is valid until the next call, so that no packet is copied.
pub trait Source {
    /// The error of one step. The source continues after it.
    type Error: Error;

    /// The next packets. Rings wait at most `timeout` for them, and return an empty batch if none arrives; files do not
    /// wait.
    ///
    /// # Errors
    ///
    /// Packets cannot be read. The next call continues with the rest, if there is one.
    fn next_batch(&mut self, timeout: Duration) -> Result<Batch<'_>, Self::Error>;

    /// Whether all packets have been returned: files are at their end, and rings were stopped and are empty.
    fn is_drained(&self) -> bool;

    /// Counts so far.
    ///
    /// # Errors
    ///
    /// The counts cannot be read.
    fn stats(&mut self) -> Result<CaptureStats, Self::Error>;
}
