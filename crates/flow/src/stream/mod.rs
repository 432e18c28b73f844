//! Reassembly of TCP streams: every byte in order, once, with gaps marked.
//!
//! Data in order is emitted without a copy. Only early data is copied. It waits until the hole before it is filled,
//! until the other side acknowledges data beyond the hole (the hole's bytes were then lost on the way to the sensor),
//! until its memory is needed, or until the stream ends.

mod half;
mod policy;
mod queue;

pub use policy::Overlap;
pub(crate) use queue::Queue;

use crate::Rows;
use half::{Half, Work};
use weir_wire::build::flags::{FIN, RST, SYN};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Configuration of reassembly.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StreamConfig {
    /// Memory limit of waiting data in bytes, for all streams together.
    pub memory: usize,
    /// Memory limit of waiting data in one direction of one stream, in bytes: as much as a receiver may have to
    /// buffer.
    pub each: usize,
    /// Which data wins where waiting segments overlap.
    pub overlap: Overlap,
    /// Whether urgent bytes are left out of the stream, as the socket interfaces of Linux and Windows do by default
    /// (without `SO_OOBINLINE`); otherwise they stay in place.
    pub urgent_apart: bool,
    /// Whether the bytes of a SYN are part of the stream at once. Otherwise they wait for its answer, which says whether the other
    /// side takes them (TCP Fast Open, RFC 7413, 4.2).
    pub syn_at_once: bool,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            each: 4 << 20,
            overlap: Overlap::default(),
            urgent_apart: false,
            syn_at_once: false,
        }
    }
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StreamStats {
    /// Streams that have begun.
    pub streams: u64,
    /// Bytes emitted.
    pub bytes: u64,
    /// Segments that arrived early.
    pub reordered: u64,
    /// Retransmitted bytes.
    pub retransmitted: u64,
    /// Retransmitted bytes that differ from the waiting ones: an evasion attempt, or a broken host.
    pub overlap_conflict: u64,
    /// Urgent bytes that were left out.
    pub urgent: u64,
    /// Bytes after the end of a stream.
    pub after_fin: u64,
    /// Gaps emitted.
    pub gaps: u64,
    /// Bytes missing in these gaps.
    pub missing: u64,
    /// Holes that were abandoned because there was no memory to wait any longer.
    pub abandoned: u64,
    /// Bytes of memory that waiting data takes now.
    pub held: u64,
}

/// The facts of a TCP segment for a stream.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Time of the packet.
    pub time: Time,
    /// The sending side.
    pub direction: Direction,
    /// Its sequence number.
    pub seq: u32,
    /// The acknowledgement number, if the segment has one.
    pub ack: Option<u32>,
    /// Its flags.
    pub flags: u8,
    /// The urgent pointer, if its flag is set: number of bytes from `seq` up to and including the urgent byte (RFC
    /// 1122 4.2.2.4; in practice all hosts take the byte before the pointer).
    pub urgent: Option<u16>,
    /// The payload, as far as it was captured.
    pub data: &'a [u8],
    /// Payload bytes of the segment that were not captured.
    pub cut: u32,
}

/// The streams of a flow table, by the number of the flow's row.
#[derive(Debug)]
pub struct Streams {
    config: StreamConfig,
    pairs: Rows<Pair>,
    stats: StreamStats,
}

/// Both directions of a stream, the initiator's first: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pair([Half; 2]);

impl Pair {
    /// Whether the row is in use.
    fn is_used(&self) -> bool {
        let Self([first, _]) = self;
        first.is_used
    }
}

impl Streams {
    /// An empty table of streams.
    pub fn new(config: StreamConfig) -> Self {
        Self { config, pairs: Rows::default(), stats: StreamStats::default() }
    }

    /// Changes [`StreamConfig::syn_at_once`] for segments that come.
    pub fn take_syns_at_once(&mut self, at_once: bool) {
        self.config.syn_at_once = at_once;
    }

    /// Takes a segment of the flow in that row. Chunks go to `emit`.
    pub fn segment(&mut self, row: u32, segment: &Segment<'_>, mut emit: impl FnMut(Chunk<'_>)) {
        // A stream of only a refused handshake needs no memory.
        let is_nothing = segment.data.is_empty() && segment.flags & (SYN | RST) == 0;
        let pair = if is_nothing { self.pairs.get_mut(row) } else { self.pairs.make(row) };
        let Some(pair) = pair.filter(|pair| !is_nothing || pair.is_used()) else { return };
        self.stats.streams += u64::from(!pair.is_used());
        let Pair([forward, reverse]) = pair;
        forward.is_used = true;
        let (mine, other) = match segment.direction {
            Direction::Forward => (forward, reverse),
            Direction::Reverse => (reverse, forward),
        };
        let mut work = Work {
            time: segment.time,
            direction: segment.direction.opposite(),
            policy: self.config.overlap,
            stats: &mut self.stats,
            emit: &mut emit,
        };
        let is_syn = segment.flags & SYN != 0;
        match segment.ack {
            Some(ack) if is_syn => other.answer(ack, &mut work),
            Some(ack) => other.acknowledge(ack, &mut work),
            None => {}
        }
        work.direction = segment.direction;
        let mut seq = segment.seq;
        if is_syn {
            mine.begin(seq);
            seq = seq.wrapping_add(1);
        } else {
            mine.release(&mut work);
        }
        // Payload of a reset is a diagnostic text (RFC 9293 3.5.3).
        if segment.flags & RST != 0 {
            return;
        }
        if !segment.data.is_empty() {
            if let Some(urgent) = segment.urgent.filter(|_| self.config.urgent_apart) {
                mine.leave_out(seq.wrapping_add(u32::from(urgent)).wrapping_sub(1));
            }
            match is_syn && segment.ack.is_none() && !self.config.syn_at_once {
                true => mine.data_of_syn(seq, segment.data, &mut work),
                false => mine.data(seq, segment.data, &mut work),
            }
        }
        let behind = seq.wrapping_add(segment.data.len() as u32);
        if segment.cut > 0 {
            mine.skip(behind, segment.cut.into(), &mut work);
        }
        if segment.flags & FIN != 0 {
            mine.finish(behind.wrapping_add(segment.cut));
        }
        let is_over = mine.cost() > self.config.each || work.stats.held > self.config.memory as u64;
        if is_over {
            mine.give_up(&mut work);
        }
    }

    /// The distance of the first payload byte of a segment from the byte after the last one that its side's chunks have had, gaps
    /// included: 0 if it is the next, below 0 if it is in these chunks. Sequence numbers tell distances up to 2 GiB. `None` if the
    /// payload is no part of the stream in that row.
    pub fn distance(&self, row: u32, segment: &Segment<'_>) -> Option<i64> {
        let Pair([forward, reverse]) = self.pairs.get(row).filter(|pair| pair.is_used())?;
        if segment.flags & RST != 0 {
            return None;
        }
        let half = match segment.direction {
            Direction::Forward => forward,
            Direction::Reverse => reverse,
        };
        half.ahead_of_emitted(segment.seq.wrapping_add(u32::from(segment.flags & SYN != 0)))
    }

    /// Ends the stream of a row, if it has one.
    pub fn end(&mut self, row: u32, time: Time, mut emit: impl FnMut(Chunk<'_>)) {
        let Some(pair) = self.pairs.get_mut(row).filter(|pair| pair.is_used()) else { return };
        let Pair(mut halves) = std::mem::take(pair);
        for (half, direction) in halves.iter_mut().zip([Direction::Forward, Direction::Reverse]) {
            let policy = self.config.overlap;
            half.close(&mut Work { time, direction, policy, stats: &mut self.stats, emit: &mut emit });
        }
    }

    /// Whether both sides have ended their streams.
    pub fn is_finished(&self, row: u32) -> bool {
        let pair = self.pairs.get(row).filter(|pair| pair.is_used());
        pair.is_some_and(|Pair(halves)| halves.iter().all(Half::is_finished))
    }

    /// Prefetches the stream of a row. The returned value only keeps the compiler from removing the read.
    #[inline]
    pub fn touch(&self, row: u32) -> u64 {
        self.pairs.get(row).map_or(0, |pair| u64::from(pair.is_used()))
    }

    /// Sets the memory limit of waiting data, for all streams together.
    pub fn set_memory(&mut self, bytes: usize) {
        self.config.memory = bytes;
    }

    /// Bytes of memory that all streams take.
    pub fn memory(&self) -> usize {
        self.pairs.memory() + self.stats.held as usize
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> StreamStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
