//! Selection of packets by their time.

// Times are at most 2^64 - 1 nanoseconds, whatever a capture or a query has: arithmetic on them saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::pcapng::Comment;
use super::{Files, Input, Order, ReadError, ReadOptions};
use weir_wire::{PacketBuf, Time};

/// A time range of packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeRange {
    /// The earliest time.
    pub from: Time,
    /// The end, excluded.
    pub until: Time,
}

/// Packets outside of a time range.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Outside {
    /// Their number.
    pub packets: u64,
    /// Their earliest and latest time; `None` without packets.
    pub times: Option<(Time, Time)>,
}

impl Outside {
    /// Adds other packets.
    pub(crate) fn add(&mut self, other: Outside) {
        self.packets = self.packets.saturating_add(other.packets);
        self.times = match (self.times, other.times) {
            (Some((from, to)), Some((first, last))) => Some((from.min(first), to.max(last))),
            (mine, theirs) => mine.or(theirs),
        };
    }
}

impl TimeRange {
    /// Whether a time is in the range.
    pub fn contains(&self, time: Time) -> bool {
        (self.from..self.until).contains(&time)
    }

    /// Removes the packets outside of the range and their comments. A packet of `starts` that is removed passes its mark to
    /// the next one that is kept. Returns what was removed.
    pub(crate) fn select(
        &self,
        chunk: &mut PacketBuf,
        comments: &mut Vec<Comment>,
        starts: &mut Vec<usize>,
    ) -> Outside {
        let mut outside = Outside::default();
        // Positions of the remaining packets before the removal.
        let mut kept = Vec::new();
        let mut at = 0_usize;
        chunk.slots.retain(|slot| {
            let is_inside = self.contains(slot.time);
            if is_inside {
                kept.push(at);
            } else {
                outside.add(Outside { packets: 1, times: Some((slot.time, slot.time)) });
            }
            at = at.saturating_add(1);
            is_inside
        });
        starts.iter_mut().for_each(|start| *start = kept.partition_point(|at| at < start));
        starts.dedup();
        comments.retain_mut(|comment| {
            let place = kept.binary_search(&comment.slot);
            place.is_ok_and(|place| {
                comment.slot = place;
                true
            })
        });
        outside
    }
}

/// The time of the latest packet of `inputs`, all of which are read; `None` without packets.
///
/// # Errors
///
/// The only input cannot be read. Of several inputs, those that cannot be read are left out.
pub fn latest(inputs: &[Input]) -> Result<Option<Time>, ReadError> {
    let options = ReadOptions { order: Order::Listed, snaplen: Some(0), ..ReadOptions::default() };
    let mut files = Files::open(inputs, &options)?;
    let (mut chunk, mut latest) = (PacketBuf::default(), None);
    loop {
        match files.fill(&mut chunk) {
            Ok(true) => latest = latest.max(chunk.slots.iter().map(|slot| slot.time).max()),
            Ok(false) => return Ok(latest),
            // The packets before the error were read.
            Err(_) => {}
        }
    }
}
