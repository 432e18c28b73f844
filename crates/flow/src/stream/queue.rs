//! Data that arrived before earlier data.

use std::collections::VecDeque;
use weir_wire::Time;

/// A waiting piece of a segment.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Position of its first byte in the stream.
    pub start: u64,
    /// Arrival time.
    pub time: Time,
    /// Bounds of the segment at arrival; this piece may be a part of it.
    origin: (u64, u64),
    /// Number of the segment, in order of arrival.
    number: u64,
    pub data: Vec<u8>,
}

impl Piece {
    pub fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }

    /// Bytes of memory that its data takes: allocators give multiples of 16.
    fn cost(&self) -> usize {
        self.data.capacity().next_multiple_of(16)
    }
}

/// Bytes of the box that holds the queue: it is allocated for the queue.
const OWNER: usize = 128;

/// Pieces of one direction, sorted by position, without overlap.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pieces: VecDeque<Piece>,
    /// Memory of the data of the pieces in bytes.
    bytes: usize,
    /// Number of segments that arrived.
    came: u64,
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Inserted {
    /// Bytes that were present already.
    pub retransmitted: u64,
    /// Retransmitted bytes that differ.
    pub overlap_conflict: u64,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Position of the first waiting byte.
    pub fn start(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.start)
    }

    pub fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.cost();
        Some(piece)
    }

    /// Removes the first piece if it begins at `at`.
    pub fn pop_at(&mut self, at: u64) -> Option<Piece> {
        if self.start() == Some(at) { self.pop() } else { None }
    }

    /// Position after the last waiting byte.
    pub fn end(&self) -> Option<u64> {
        self.pieces.back().map(Piece::end)
    }

    /// Whether all bytes before `end` are present.
    pub fn is_contiguous(&self, end: u64) -> bool {
        let mut at = 0;
        self.pieces.iter().all(|piece| std::mem::replace(&mut at, piece.end()) == piece.start) && at == end
    }

    /// Inserts a segment. `prefers_new` decides where it overlaps present data: it gets the bounds of two segments,
    /// the new one first. With `joins`, the segment merges with a segment that it continues, as if both had arrived
    /// together.
    pub fn insert(
        &mut self,
        start: u64,
        data: &[u8],
        time: Time,
        joins: bool,
        prefers_new: impl Fn((u64, u64), (u64, u64)) -> bool,
    ) -> Inserted {
        let mut origin = (start, start + data.len() as u64);
        self.came += 1;
        let mut number = self.came;
        if joins {
            (origin.0, number) = self.join(origin).unwrap_or((start, number));
        }
        let first = self.pieces.partition_point(|piece| piece.end() <= start);
        let behind = self.pieces.partition_point(|piece| piece.start < origin.1);
        let mut inserted = Inserted::default();
        if first >= behind {
            self.put(first, Piece { start, time, origin, number, data: data.to_vec() });
            return inserted;
        }
        let part = |from: u64, to: u64| {
            let bounds = (from - start) as usize..(to - start) as usize;
            data.get(bounds).unwrap_or_default()
        };
        let (mut out, mut at) = (Vec::with_capacity(behind - first + 2), start);
        // New data is gathered, so that a segment over many small ones becomes one piece.
        let mut gathered = (start, Vec::new());
        for old in self.pieces.drain(first..behind) {
            self.bytes -= old.cost();
            let (from, to) = (old.start.max(start), old.end().min(origin.1));
            let theirs = (from - old.start) as usize..(to - old.start) as usize;
            let theirs = old.data.get(theirs).unwrap_or_default();
            let ours = part(from, to);
            inserted.retransmitted += to - from;
            inserted.overlap_conflict += ours.iter().zip(theirs).filter(|(a, b)| a != b).count() as u64;
            gathered.1.extend_from_slice(part(at, from));
            if prefers_new(origin, old.origin) {
                if old.start < start {
                    let data = old.data.get(..(start - old.start) as usize).unwrap_or_default().to_vec();
                    out.push(Piece { data, ..old_without_data(&old) });
                }
                gathered.1.extend_from_slice(ours);
                if old.end() > origin.1 {
                    finish(&mut out, &mut gathered, (origin, number), time, origin.1);
                    let data = old.data.get((origin.1 - old.start) as usize..).unwrap_or_default().to_vec();
                    out.push(Piece { start: origin.1, data, ..old_without_data(&old) });
                }
            } else {
                finish(&mut out, &mut gathered, (origin, number), time, old.end());
                out.push(old);
            }
            at = to;
        }
        if at < origin.1 {
            gathered.1.extend_from_slice(part(at, origin.1));
        }
        finish(&mut out, &mut gathered, (origin, number), time, origin.1);
        for (n, piece) in out.into_iter().enumerate() {
            self.put(first + n, piece);
        }
        inserted
    }

    /// Extends a segment that ends where the new one begins. Returns the joint begin and the segment's number. Linux
    /// searches from the top of a balanced tree: of two candidates, the earlier arrival is usually the higher one.
    fn join(&mut self, new: (u64, u64)) -> Option<(u64, u64)> {
        let mut joined: Option<(u64, u64)> = None;
        let (mut first, mut last) = (u64::MAX, 0);
        for piece in &self.pieces {
            last = last.max(piece.origin.0);
            if piece.origin.1 == new.0 {
                joined = Some((piece.origin.0, piece.number));
            } else if piece.origin.0 <= new.0 && new.0 < piece.origin.1 {
                first = first.min(piece.number);
            }
        }
        let (begin, number) = joined?;
        // The segment that begins last is tried first.
        if begin != last && first < number {
            return None;
        }
        for piece in self.pieces.iter_mut().filter(|piece| piece.number == number) {
            piece.origin.1 = new.1;
        }
        joined
    }

    fn put(&mut self, at: usize, piece: Piece) {
        // Most queues never have a second piece.
        if self.pieces.capacity() == 0 {
            self.pieces.reserve_exact(1);
        }
        self.bytes += piece.cost();
        self.pieces.insert(at, piece);
    }

    /// Memory in bytes, including the box; 0 before the first piece.
    pub fn cost(&self) -> usize {
        match self.pieces.capacity() {
            0 => 0,
            pieces => self.bytes + OWNER + pieces * size_of::<Piece>(),
        }
    }
}

fn old_without_data(old: &Piece) -> Piece {
    Piece { data: Vec::new(), ..*old }
}

/// Makes a piece of the collected data; the next one begins at `next`.
fn finish(
    out: &mut Vec<Piece>,
    gathered: &mut (u64, Vec<u8>),
    (origin, number): ((u64, u64), u64),
    time: Time,
    next: u64,
) {
    let (start, data) = std::mem::replace(gathered, (next, Vec::new()));
    if !data.is_empty() {
        out.push(Piece { start, time, origin, number, data });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Overlap;
    use super::*;

    fn stream(policy: Overlap, segments: &[(u64, &str)]) -> String {
        let mut queue = Queue::default();
        for (start, data) in segments {
            queue.insert(*start, data.as_bytes(), Time(0), policy.joins(), |new, old| {
                policy.prefers_new(new, old)
            });
        }
        let mut text = String::new();
        let mut end = 0;
        while let Some(piece) = queue.pop() {
            assert!(piece.start >= end, "{segments:?}");
            text.extend(std::iter::repeat_n('.', (piece.start - end) as usize));
            text += std::str::from_utf8(&piece.data).unwrap();
            end = piece.end();
        }
        text
    }

    /// The eight relative positions of two segments.
    #[test]
    fn each_policy_resolves_each_overlap() {
        let all = |segments: &[(u64, &str)]| Overlap::ALL.map(|(_, policy)| stream(policy, segments));
        // Equal begin and length.
        assert_eq!(all(&[(1, "aaa"), (1, "bbb")]), [".aaa", ".bbb", ".aaa", ".aaa", ".aaa"]);
        // The new segment begins with the old one and is longer.
        assert_eq!(all(&[(1, "aa"), (1, "bbb")]), [".aab", ".bbb", ".bbb", ".aab", ".aab"]);
        // ... and is shorter.
        assert_eq!(all(&[(1, "aaa"), (1, "bb")]), [".aaa", ".bba", ".aaa", ".aaa", ".aaa"]);
        // The new segment begins before the old one and ends within it.
        assert_eq!(all(&[(2, "aa"), (1, "bb")]), [".baa", ".bba", ".bba", ".baa", ".bba"]);
        // The new segment begins before the old one and ends after it.
        assert_eq!(all(&[(2, "a"), (1, "bbb")]), [".bab", ".bbb", ".bbb", ".bbb", ".bbb"]);
        // The new segment begins before the old one and ends with it.
        assert_eq!(all(&[(2, "aa"), (1, "bbb")]), [".baa", ".bbb", ".bbb", ".baa", ".bbb"]);
        // The new segment is within the old one.
        assert_eq!(all(&[(1, "aaa"), (2, "b")]), [".aaa", ".aba", ".aaa", ".aaa", ".aaa"]);
        // The new segment begins within the old one and ends after it.
        assert_eq!(all(&[(1, "aa"), (2, "bb")]), [".aab", ".abb", ".aab", ".aab", ".aab"]);
    }

    #[test]
    fn a_long_segment_fills_the_holes_between_short_ones() {
        assert_eq!(stream(Overlap::First, &[(1, "a"), (3, "b"), (5, "c"), (0, "xxxxxxx")]), "xaxbxcx");
        assert_eq!(stream(Overlap::Last, &[(1, "a"), (3, "b"), (5, "c"), (0, "xxxxxxx")]), "xxxxxxx");
        assert_eq!(stream(Overlap::First, &[(4, "aa"), (0, "bb"), (1, "ccccccc")]), "bbccaacc");
    }

    /// As in Linux, a segment that continues another one takes over its begin.
    #[test]
    fn adjacent_segments_are_merged() {
        let all = |segments: &[(u64, &str)]| Overlap::ALL.map(|(_, policy)| stream(policy, segments));
        // The last segment begins before the second one and after the first.
        let got = all(&[(0, "aa"), (2, "bb"), (1, "ccccc")]);
        assert_eq!(got, ["aabbcc", "accccc", "aabbcc", "aacccc", "aacccc"]);
        // The segments are not adjacent.
        assert_eq!(all(&[(0, "a"), (2, "bb"), (1, "cccc")])[2], "acccc");
    }

    #[test]
    fn retransmitted_bytes_are_counted() {
        let mut queue = Queue::default();
        queue.insert(10, b"abc", Time(0), false, |_, _| false);
        let inserted = queue.insert(9, b"xabd", Time(0), false, |_, _| false);
        assert_eq!(inserted, Inserted { retransmitted: 3, overlap_conflict: 1 });
        assert!(queue.cost() >= 4 && queue.len() == 2 && !queue.is_empty());
    }
}
