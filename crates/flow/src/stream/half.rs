//! One direction of a stream.

use super::queue::{Inserted, Queue};
use super::{Overlap, StreamStats};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Maximum number of waiting pieces of one direction: a sender of single bytes costs no more than any other.
const MAX_PIECES: usize = 2048;

/// One direction of a stream. It takes half a cache line, because a million streams may be open.
#[derive(Debug)]
pub(super) struct Half {
    /// Position of the next byte to be emitted, counted from the first byte seen.
    at: u64,
    /// State that few streams need.
    rest: Option<Box<Rest>>,
    /// Sequence number of the byte at `at`.
    next: u32,
    /// Number of bytes from `at` on that the other side has acknowledged.
    ahead: u32,
    /// Number of bytes from `at` to the end of the stream, if known; else [`ENDLESS`].
    left: u32,
    is_begun: bool,
    /// Whether the stream of this half has emitted anything.
    pub is_used: bool,
}

/// More bytes than one sequence number can be before another.
const ENDLESS: u32 = u32::MAX;

/// State that few streams need.
#[derive(Debug)]
struct Rest {
    /// Number of bytes missing before `at` that have not been emitted as a gap.
    gap: u64,
    /// Position of the urgent byte, if it is to be left out; else a position that no stream reaches.
    apart: u64,
    /// The data that waits.
    queue: Option<Queue>,
}

impl Default for Rest {
    fn default() -> Self {
        Self { gap: 0, apart: u64::MAX, queue: None }
    }
}

impl Default for Half {
    fn default() -> Self {
        Self { at: 0, rest: None, next: 0, ahead: 0, left: ENDLESS, is_begun: false, is_used: false }
    }
}

/// The context of an operation on one direction.
pub(super) struct Work<'w, F> {
    pub time: Time,
    pub direction: Direction,
    pub policy: Overlap,
    pub stats: &'w mut StreamStats,
    pub emit: F,
}

impl Half {
    /// Takes a SYN with that sequence number: the stream begins at the next number. A second SYN replaces the first as
    /// long as nothing has been emitted.
    pub fn begin(&mut self, seq: u32) {
        if !self.is_begun || self.at == 0 && self.queue().is_none() {
            self.next = seq.wrapping_add(1);
            self.is_begun = true;
        }
    }

    fn queue(&self) -> Option<&Queue> {
        self.rest.as_ref()?.queue.as_ref()
    }

    /// Position of the first waiting byte.
    fn waits(&self) -> Option<u64> {
        self.queue()?.start()
    }

    /// Position of the end of the stream, if known.
    fn end(&self) -> u64 {
        if self.left == ENDLESS { u64::MAX } else { self.at + u64::from(self.left) }
    }

    /// Advances the position by a number of bytes.
    fn pass(&mut self, bytes: u64) {
        self.at += bytes;
        self.next = self.next.wrapping_add(bytes as u32);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.ahead = self.ahead.saturating_sub(bytes);
        if self.left != ENDLESS {
            self.left = self.left.saturating_sub(bytes);
        }
    }

    /// The position of a sequence number; `None` if it is before the first byte.
    fn place(&self, seq: u32) -> Option<u64> {
        self.at.checked_add_signed(i64::from(seq.wrapping_sub(self.next) as i32))
    }

    /// The distance of the byte with that sequence number from the one after the last that was emitted; `None` before the first
    /// byte.
    pub fn ahead_of_emitted(&self, seq: u32) -> Option<i64> {
        let gap = self.rest.as_ref().map_or(0, |rest| rest.gap);
        self.is_begun.then(|| i64::from(seq.wrapping_sub(self.next) as i32).saturating_add_unsigned(gap))
    }

    /// Takes the bytes of a segment.
    pub fn data<F: FnMut(Chunk<'_>)>(&mut self, seq: u32, data: &[u8], work: &mut Work<'_, F>) {
        if !self.is_begun {
            // The beginning was not seen: the stream begins with this segment.
            self.next = seq;
            self.is_begun = true;
        }
        let (start, data) = match self.place(seq) {
            Some(start) => (start, data),
            None => {
                // The segment begins before the stream.
                let before = self.next.wrapping_sub(seq) as u64 - self.at;
                work.stats.retransmitted += before.min(data.len() as u64);
                (0, data.get(before as usize..).unwrap_or_default())
            }
        };
        let behind = (start + data.len() as u64).saturating_sub(self.end()).min(data.len() as u64);
        work.stats.after_fin += behind;
        let data = data.get(..data.len() - behind as usize).unwrap_or_default();
        let known = self.at.saturating_sub(start).min(data.len() as u64);
        work.stats.retransmitted += known;
        let data = data.get(known as usize..).unwrap_or_default();
        if data.is_empty() {
            return;
        }
        let start = start.max(self.at);
        let reach = start + data.len() as u64;
        match self.waits() {
            // Nearly all segments end here: nothing is copied.
            None if start == self.at => self.hand_on(data, work.time, work),
            Some(held) if start == self.at && reach <= held => {
                self.hand_on(data, work.time, work);
                self.drain(work);
            }
            _ => {
                self.hold(start, data, work);
                work.stats.reordered += 1;
                self.drain(work);
                if self.queue().is_some_and(|queue| queue.len() > MAX_PIECES) {
                    self.give_up(work);
                }
            }
        }
    }

    /// Takes the bytes of a SYN that begins the handshake. They wait for its answer, which says whether the other side takes them
    /// (TCP Fast Open, RFC 7413, 4.2): one that does not gets other bytes at these places later.
    pub fn data_of_syn<F: FnMut(Chunk<'_>)>(&mut self, seq: u32, data: &[u8], work: &mut Work<'_, F>) {
        match self.place(seq) {
            Some(0) if self.at == 0 && self.queue().is_none() => self.hold(0, data, work),
            _ => self.data(seq, data, work),
        }
    }

    /// Takes a SYN-ACK of the other side, which acknowledges the bytes of the SYN that it takes. Others are no part of the stream.
    pub fn answer<F: FnMut(Chunk<'_>)>(&mut self, ack: u32, work: &mut Work<'_, F>) {
        let Some(place) = self.place(ack).filter(|_| self.is_begun) else { return };
        self.ahead = self.ahead.max(place.saturating_sub(self.at) as u32);
        let is_refused = self.at == 0 && place == 0 && self.waits() == Some(0);
        if let Some(queue) = self.rest.as_mut().filter(|_| is_refused).and_then(|rest| rest.queue.take()) {
            work.stats.held = work.stats.held.saturating_sub(queue.cost() as u64);
        }
    }

    /// Emits the bytes of a SYN, if they wait: the handshake is over.
    pub fn release<F: FnMut(Chunk<'_>)>(&mut self, work: &mut Work<'_, F>) {
        if self.at == 0 && self.waits() == Some(0) {
            self.drain(work);
        }
    }

    /// Keeps bytes that cannot be emitted yet.
    fn hold<F: FnMut(Chunk<'_>)>(&mut self, start: u64, data: &[u8], work: &mut Work<'_, F>) {
        let queue = self.rest.get_or_insert_default().queue.get_or_insert_default();
        let before = queue.cost();
        let policy = work.policy;
        let prefers_new = |new, old| policy.prefers_new(new, old);
        let Inserted { retransmitted, overlap_conflict } =
            queue.insert(start, data, work.time, policy.joins(), prefers_new);
        work.stats.held = work.stats.held.saturating_add_signed(queue.cost() as i64 - before as i64);
        work.stats.retransmitted += retransmitted;
        work.stats.overlap_conflict += overlap_conflict;
    }

    /// Leaves out the byte of that sequence number when it arrives.
    pub fn leave_out(&mut self, seq: u32) {
        let place = self.place(seq).unwrap_or(u64::MAX);
        self.rest.get_or_insert_default().apart = place;
    }

    /// Skips bytes that will never come because the capture truncated them.
    pub fn skip<F: FnMut(Chunk<'_>)>(&mut self, seq: u32, bytes: u64, work: &mut Work<'_, F>) {
        let Some(start) = self.place(seq).filter(|start| *start == self.at) else { return };
        // Later data in the queue may contain some of them.
        let held = self.waits().unwrap_or(u64::MAX);
        self.advance((start + bytes).min(held).min(self.end()) - start);
        self.drain(work);
    }

    /// Ends the stream before that sequence number. Data beyond it is dropped.
    pub fn finish(&mut self, seq: u32) {
        if let Some(place) = self.place(seq).filter(|place| self.is_begun && *place >= self.at) {
            // The distance fits into a sequence number.
            self.left = self.left.min((place - self.at) as u32);
        }
    }

    /// Takes the information that the other side has received all bytes before that sequence number. Bytes that are
    /// missing here were lost on the way to the sensor and will not arrive: the hole before the next waiting data
    /// becomes a gap.
    pub fn acknowledge<F: FnMut(Chunk<'_>)>(&mut self, ack: u32, work: &mut Work<'_, F>) {
        if !self.is_begun {
            return;
        }
        let Some(place) = self.place(ack) else { return };
        // The distance fits into a sequence number.
        self.ahead = self.ahead.max(place.saturating_sub(self.at) as u32);
        let acked = self.at + u64::from(self.ahead);
        while let Some(start) = self.waits().filter(|start| *start <= acked) {
            self.jump(start, work);
        }
    }

    /// Abandons every hole and emits the waiting data.
    pub fn give_up<F: FnMut(Chunk<'_>)>(&mut self, work: &mut Work<'_, F>) {
        while let Some(start) = self.waits() {
            work.stats.abandoned += 1;
            self.jump(start, work);
        }
    }

    /// Ends the stream: emits the waiting data and a gap for what is missing at its end.
    pub fn close<F: FnMut(Chunk<'_>)>(&mut self, work: &mut Work<'_, F>) {
        while let Some(start) = self.waits() {
            self.jump(start, work);
        }
        // A FIN that was not seen is acknowledged as one byte.
        let missing =
            if self.left == ENDLESS { self.ahead.saturating_sub(1) } else { self.left.min(self.ahead) };
        if self.is_begun && missing > 0 {
            self.advance(missing.into());
        }
        let gap = self.take_gap();
        if gap > 0 {
            work.stats.gaps += 1;
            work.stats.missing += gap;
            (work.emit)(Chunk { time: work.time, direction: work.direction, gap, data: &[] });
        }
    }

    /// Whether all bytes of the stream have been emitted.
    pub fn is_finished(&self) -> bool {
        self.left == 0
    }

    /// Memory of the waiting data in bytes.
    pub fn cost(&self) -> usize {
        self.queue().map_or(0, Queue::cost)
    }

    /// Takes the number of bytes missing before `at` that have not been emitted as a gap.
    fn take_gap(&mut self) -> u64 {
        self.rest.as_mut().map_or(0, |rest| std::mem::take(&mut rest.gap))
    }

    fn advance(&mut self, bytes: u64) {
        if bytes > 0 {
            self.pass(bytes);
            self.rest.get_or_insert_default().gap += bytes;
        }
    }

    fn jump<F: FnMut(Chunk<'_>)>(&mut self, start: u64, work: &mut Work<'_, F>) {
        self.advance(start.saturating_sub(self.at));
        self.drain(work);
    }

    fn hand_on<F: FnMut(Chunk<'_>)>(&mut self, data: &[u8], time: Time, work: &mut Work<'_, F>) {
        let apart = self.rest.as_ref().map_or(u64::MAX, |rest| rest.apart);
        if let Some((head, tail)) = apart.checked_sub(self.at).and_then(|n| data.split_at_checked(n as usize))
            && let [_, tail @ ..] = tail
        {
            self.hand_on_all(head, time, work);
            self.pass(1);
            work.stats.urgent += 1;
            return self.hand_on_all(tail, time, work);
        }
        self.hand_on_all(data, time, work);
    }

    fn hand_on_all<F: FnMut(Chunk<'_>)>(&mut self, data: &[u8], time: Time, work: &mut Work<'_, F>) {
        if data.is_empty() {
            return;
        }
        self.pass(data.len() as u64);
        let gap = self.take_gap();
        work.stats.gaps += u64::from(gap > 0);
        work.stats.missing += gap;
        work.stats.bytes += data.len() as u64;
        (work.emit)(Chunk { time, direction: work.direction, gap, data });
    }

    /// Emits the waiting data that is next in order.
    fn drain<F: FnMut(Chunk<'_>)>(&mut self, work: &mut Work<'_, F>) {
        let Some(mut queue) = self.rest.as_mut().and_then(|rest| rest.queue.take()) else { return };
        let before = queue.cost();
        while let Some(piece) = queue.pop_at(self.at) {
            // A chunk is complete when the last byte before it has arrived.
            self.hand_on(&piece.data, work.time.max(piece.time), work);
        }
        let left = if queue.is_empty() { 0 } else { queue.cost() };
        work.stats.held = work.stats.held.saturating_add_signed(left as i64 - before as i64);
        if let Some(rest) = self.rest.as_mut().filter(|_| !queue.is_empty()) {
            rest.queue = Some(queue);
        }
    }
}
