//! The payload of one side of a flow, without its packets.

use crate::{Direction, Time};

/// A piece of one direction of a flow: of TCP, bytes in order and without duplicates, cut anywhere; of UDP one
/// datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chunk<'a> {
    /// When the packet was seen that made it complete.
    pub time: Time,
    /// The sending side.
    pub direction: Direction,
    /// Number of bytes missing right before this chunk: lost before the sensor, or abandoned for lack of memory. A gap
    /// at the end of a stream has no data.
    pub gap: u64,
    /// The bytes.
    pub data: &'a [u8],
}
