//! Detects captures that are short enough for intervals of one second.

use weir_capture::{Files, Input, ReadOptions};
use weir_wire::PacketBuf;

/// The interval of short captures, in nanoseconds.
pub const INTERVAL: u64 = 1_000_000_000;
/// Maximum total size in bytes, both on disk and decompressed.
const BYTES: u64 = 256 << 20;
/// Maximum time between the earliest and the latest packet: 3,600 intervals. An interval costs as much as some hundred
/// packets.
const SPAN: u64 = 3_600_000_000_000;

/// Whether captures are within [`BYTES`] and [`SPAN`]. Reads all their packets.
pub fn are_short(inputs: &[Input]) -> bool {
    inputs.iter().all(Input::can_be_read_again) && span(inputs).is_some_and(|span| span <= SPAN)
}

/// The time between the earliest and the latest packet; `None` if a limit is exceeded.
fn span(inputs: &[Input]) -> Option<u64> {
    let mut files = Files::open(inputs, &ReadOptions::default()).ok()?;
    if files.progress().total.is_none_or(|bytes| bytes > BYTES) {
        return None;
    }
    let (mut earliest, mut latest, mut bytes) = (u64::MAX, 0_u64, 0_u64);
    let mut chunk = PacketBuf::default();
    loop {
        match files.fill(&mut chunk) {
            Ok(true) => {}
            Ok(false) => return Some(latest.saturating_sub(earliest)),
            // The run reads the file again and reports the error.
            Err(_) => continue,
        }
        for slot in &chunk.slots {
            (earliest, latest) = (earliest.min(slot.time.0), latest.max(slot.time.0));
        }
        bytes += chunk.bytes.len() as u64;
        if bytes > BYTES || latest.saturating_sub(earliest) > SPAN {
            return None;
        }
    }
}
