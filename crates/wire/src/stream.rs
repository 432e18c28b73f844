//! What one side of a flow said, without the packets that carried it.

use crate::{Direction, Time};

/// A piece of one direction of a flow: of TCP, bytes in order and without duplicates, cut anywhere; of UDP one
/// datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chunk<'a> {
    /// When the packet was seen that made it complete.
    pub time: Time,
    /// Which side sent it.
    pub direction: Direction,
    /// Bytes of this direction that are missing just before it: lost on the way to the sensor, or given up. A gap
    /// at the end of a stream comes with no data.
    pub gap: u64,
    /// The bytes.
    pub data: &'a [u8],
}
