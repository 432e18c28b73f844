//! One direction of a stream.

use super::queue::{Inserted, Queue};
use super::{Overlap, StreamStats};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Most pieces of one direction that wait: a sender of single octets costs no more than any other.
const MAX_PIECES: usize = 2048;

/// One direction of a stream.
#[derive(Debug)]
pub(super) struct Half {
    /// Place of the next octet to be handed on, from the first one seen.
    at: u64,
    /// Octets that are missing just before it, and were not told of.
    gap: u64,
    /// Place of the first octet that the other side has not acknowledged, as far as it is known.
    acked: u64,
    /// Place where the stream ends, once that is known.
    end: u64,
    /// Place of the urgent octet, where it is to be left out; else one that no stream comes to.
    apart: u64,
    /// What waits.
    queue: Option<Box<Queue>>,
    /// Sequence number of the octet at `at`.
    next: u32,
    is_begun: bool,
}

impl Default for Half {
    fn default() -> Self {
        Self {
            at: 0,
            gap: 0,
            acked: 0,
            end: u64::MAX,
            apart: u64::MAX,
            queue: None,
            next: 0,
            is_begun: false,
        }
    }
}

/// What a half needs for its work.
pub(super) struct Work<'w, F> {
    pub time: Time,
    pub direction: Direction,
    pub policy: Overlap,
    pub stats: &'w mut StreamStats,
    pub emit: F,
}

impl Half {
    /// A SYN with that sequence number: its first octet is the one behind it. A second one counts as long as nothing
    /// has been handed on.
    pub fn begin(&mut self, seq: u32) {
        if !self.is_begun || self.at == 0 && self.queue.is_none() {
            self.next = seq.wrapping_add(1);
            self.is_begun = true;
        }
    }

    /// The place of a sequence number; `None` where it is before the first octet.
    fn place(&self, seq: u32) -> Option<u64> {
        self.at.checked_add_signed(i64::from(seq.wrapping_sub(self.next) as i32))
    }

    /// Takes the octets of a segment.
    pub fn data<F: FnMut(Chunk<'_>)>(&mut self, seq: u32, data: &[u8], work: &mut Work<'_, F>) {
        if !self.is_begun {
            // The beginning was not seen: it begins with what is there.
            self.next = seq;
            self.is_begun = true;
        }
        let (start, data) = match self.place(seq) {
            Some(start) => (start, data),
            None => {
                // It reaches back behind the beginning.
                let before = self.next.wrapping_sub(seq) as u64 - self.at;
                work.stats.repeated += before.min(data.len() as u64);
                (0, data.get(before as usize..).unwrap_or_default())
            }
        };
        let behind = (start + data.len() as u64).saturating_sub(self.end).min(data.len() as u64);
        work.stats.behind_end += behind;
        let data = data.get(..data.len() - behind as usize).unwrap_or_default();
        let known = self.at.saturating_sub(start).min(data.len() as u64);
        work.stats.repeated += known;
        let data = data.get(known as usize..).unwrap_or_default();
        if data.is_empty() {
            return;
        }
        let start = start.max(self.at);
        let reach = start + data.len() as u64;
        match &mut self.queue {
            // The way of nearly all segments: nothing is copied.
            None if start == self.at => self.hand_on(data, work.time, work),
            Some(queue) if start == self.at && queue.start().is_none_or(|held| reach <= held) => {
                self.hand_on(data, work.time, work);
                self.drain(work);
            }
            queue => {
                let before = queue.as_ref().map_or(0, |queue| queue.cost());
                let queue = queue.get_or_insert_default();
                let policy = work.policy;
                let prefers_new = |new, old| policy.prefers_new(new, old);
                let Inserted { repeated, different } =
                    queue.insert(start, data, work.time, policy.joins(), prefers_new);
                work.stats.held = work.stats.held.saturating_add_signed(queue.cost() as i64 - before as i64);
                work.stats.repeated += repeated;
                work.stats.different += different;
                work.stats.reordered += 1;
                self.drain(work);
                if self.queue.as_ref().is_some_and(|queue| queue.len() > MAX_PIECES) {
                    self.give_up(work);
                }
            }
        }
    }

    /// Leaves the octet of that sequence number out, when it comes.
    pub fn leave_out(&mut self, seq: u32) {
        self.apart = self.place(seq).unwrap_or(u64::MAX);
    }

    /// Passes over octets that will never come: those that the capture has cut off.
    pub fn skip<F: FnMut(Chunk<'_>)>(&mut self, seq: u32, octets: u64, work: &mut Work<'_, F>) {
        let Some(start) = self.place(seq).filter(|start| *start == self.at) else { return };
        // What lies behind in the queue may have some of it.
        let held = self.queue.as_ref().and_then(|queue| queue.start()).unwrap_or(u64::MAX);
        self.advance((start + octets).min(held).min(self.end) - start);
        self.drain(work);
    }

    /// The stream ends before that sequence number. What is known to be behind it is not wanted.
    pub fn finish(&mut self, seq: u32) {
        if let Some(place) = self.place(seq).filter(|place| self.is_begun && *place >= self.at) {
            self.end = self.end.min(place);
        }
    }

    /// The other side has all octets before that sequence number. What it has although it is not here was lost on the
    /// way here, and will not come: the hole before the next octets that wait is given up.
    pub fn acknowledge<F: FnMut(Chunk<'_>)>(&mut self, ack: u32, work: &mut Work<'_, F>) {
        if !self.is_begun {
            return;
        }
        let Some(place) = self.place(ack) else { return };
        self.acked = self.acked.max(place);
        while let Some(start) =
            self.queue.as_ref().and_then(|queue| queue.start()).filter(|s| *s <= self.acked)
        {
            self.jump(start, work);
        }
    }

    /// Gives every hole up and hands on what waits.
    pub fn give_up<F: FnMut(Chunk<'_>)>(&mut self, work: &mut Work<'_, F>) {
        while let Some(start) = self.queue.as_ref().and_then(|queue| queue.start()) {
            work.stats.given_up += 1;
            self.jump(start, work);
        }
    }

    /// Ends the stream: hands on what waits, and tells what is missing at its end.
    pub fn close<F: FnMut(Chunk<'_>)>(&mut self, work: &mut Work<'_, F>) {
        while let Some(start) = self.queue.as_ref().and_then(|queue| queue.start()) {
            self.jump(start, work);
        }
        // A FIN that was not seen is acknowledged as one octet.
        let end = if self.end == u64::MAX { self.acked.saturating_sub(1) } else { self.end.min(self.acked) };
        if self.is_begun && end > self.at {
            self.advance(end - self.at);
        }
        if self.gap > 0 {
            let gap = std::mem::take(&mut self.gap);
            work.stats.gaps += 1;
            work.stats.missing += gap;
            (work.emit)(Chunk { time: work.time, direction: work.direction, gap, data: &[] });
        }
    }

    /// Whether all that was sent has been handed on.
    pub fn is_finished(&self) -> bool {
        self.at >= self.end
    }

    /// Octets of memory that what waits takes.
    pub fn cost(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.cost())
    }

    fn advance(&mut self, octets: u64) {
        self.at += octets;
        self.gap += octets;
        self.next = self.next.wrapping_add(octets as u32);
    }

    fn jump<F: FnMut(Chunk<'_>)>(&mut self, start: u64, work: &mut Work<'_, F>) {
        self.advance(start.saturating_sub(self.at));
        self.drain(work);
    }

    fn hand_on<F: FnMut(Chunk<'_>)>(&mut self, data: &[u8], time: Time, work: &mut Work<'_, F>) {
        if let Some((head, tail)) =
            self.apart.checked_sub(self.at).and_then(|n| data.split_at_checked(n as usize))
            && let [_, tail @ ..] = tail
        {
            self.hand_on_all(head, time, work);
            self.at += 1;
            self.next = self.next.wrapping_add(1);
            work.stats.urgent += 1;
            return self.hand_on_all(tail, time, work);
        }
        self.hand_on_all(data, time, work);
    }

    fn hand_on_all<F: FnMut(Chunk<'_>)>(&mut self, data: &[u8], time: Time, work: &mut Work<'_, F>) {
        if data.is_empty() {
            return;
        }
        self.at += data.len() as u64;
        self.next = self.next.wrapping_add(data.len() as u32);
        let gap = std::mem::take(&mut self.gap);
        work.stats.gaps += u64::from(gap > 0);
        work.stats.missing += gap;
        work.stats.octets += data.len() as u64;
        (work.emit)(Chunk { time, direction: work.direction, gap, data });
    }

    /// Hands on what waits and is next.
    fn drain<F: FnMut(Chunk<'_>)>(&mut self, work: &mut Work<'_, F>) {
        let Some(mut queue) = self.queue.take() else { return };
        let before = queue.cost();
        while let Some(piece) = queue.pop_at(self.at) {
            // A chunk is complete when the last octet before it is there.
            self.hand_on(&piece.data, work.time.max(piece.time), work);
        }
        let left = if queue.is_empty() { 0 } else { queue.cost() };
        work.stats.held = work.stats.held.saturating_add_signed(left as i64 - before as i64);
        if !queue.is_empty() {
            self.queue = Some(queue);
        }
    }
}
