//! DNP3 (IEEE 1815, 9.2): the header of the link layer has a check of its own.

use super::{Frame, agrees, identified, one_frame};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "dnp3",
    "Distributed Network Protocol (IEEE 1815); it is identified but not parsed.",
    Transport::Both,
    &[20000],
    probe,
);

/// Length of the header with its check, and of a block of data with its check.
const HEADER: usize = 10;
const BLOCK: usize = 16;
/// What the length counts of the header.
const COUNTED: usize = 5;

fn probe(heads: &Heads<'_>) -> Probe {
    one_frame(heads, frame)
}

fn frame(bytes: &[u8]) -> Frame {
    if !agrees(bytes, &[0x05, 0x64]) {
        return Frame::No;
    }
    let Some((header, [low, high])) =
        bytes.split_first_chunk::<8>().and_then(|(header, rest)| Some((header, rest.first_chunk::<2>()?)))
    else {
        return Frame::Cut;
    };
    let [_, _, length, ..] = header;
    if check(header) != u16::from_le_bytes([*low, *high]) {
        return Frame::No;
    }
    match usize::from(*length).checked_sub(COUNTED) {
        Some(data) => Frame::of(HEADER + data + 2 * data.div_ceil(BLOCK), bytes),
        None => Frame::No,
    }
}

/// The check of a block: a CRC of 16 bits with the polynomial 0x3d65, the lowest bit first (9.2.4.3.2).
fn check(block: &[u8]) -> u16 {
    let each = |crc: u16, byte: &u8| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xa6bc } else { crc >> 1 })
    };
    !block.iter().fold(0, each)
}
