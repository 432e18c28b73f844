//! The payload of one direction of a flow, without its packets.

use crate::{Direction, Time};

/// A part of one direction of a flow. Of TCP: bytes in order and without duplicates, of any length. Of UDP: one
/// datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chunk<'a> {
    /// Time of the packet that completed this chunk.
    pub time: Time,
    /// The sending side.
    pub direction: Direction,
    /// Number of bytes missing directly before this chunk: lost before the sensor, or abandoned for lack of memory. A
    /// gap at the end of a stream has no data.
    pub gap: u64,
    /// The bytes.
    pub data: &'a [u8],
}
