//! Several inputs as one stream in time order.
//!
//! An input is opened when the stream reaches its first packet. A directory of consecutive files is thus read one file
//! at a time, at the speed of a single file. Only packets of inputs that overlap in time are copied. The order within
//! an input is kept, even if its clock goes back: such a packet is ordered by the latest time before it. Of packets
//! with equal times the one of the earlier input comes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_wire::{PacketBuf, Time};

use super::ahead::ReadAhead;
use super::capture::Capture;
use super::describe::InputInfo;
use super::error::ReadError;
use super::interfaces::Interfaces;
use super::pcapng::Comment;
use super::walk::Limits;

/// Packets read of an input that is being merged.
struct Stream {
    capture: Capture,
    chunk: PacketBuf,
    /// The next slot to return.
    at: usize,
    /// The next comment to return.
    comment: usize,
    /// The latest time so far, by which the next packet is ordered.
    clock: Time,
}

impl Stream {
    fn advance(&mut self) -> Option<Time> {
        let slot = self.chunk.slots.get(self.at)?;
        self.clock = self.clock.max(slot.time);
        Some(self.clock)
    }
}

/// The open inputs, by their index.
#[derive(Default)]
pub(crate) struct Merge {
    streams: BTreeMap<usize, Stream>,
    /// Streams with unread packets, by the time of the next one.
    ready: BinaryHeap<Reverse<(Time, usize)>>,
    /// The next blocks of the only input.
    ahead: ReadAhead,
}

/// The result of reading more of an input.
pub(crate) enum Read {
    /// The caller's buffer has the packets.
    Handed,
    /// The input's own buffer has the packets, for [`Merge::take`].
    Held,
    /// The input has ended, with its error if any.
    Ended(Box<Capture>, Option<ReadError>),
}

impl Merge {
    pub(crate) fn add(&mut self, input: usize, capture: Capture) {
        let stream = Stream { capture, chunk: PacketBuf::default(), at: 0, comment: 0, clock: Time(0) };
        self.streams.insert(input, stream);
    }

    pub(crate) fn ahead(&self) -> ReadAhead {
        self.ahead.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(crate) fn captures(&self) -> impl Iterator<Item = &Capture> {
        self.streams.values().map(|stream| &stream.capture)
    }

    pub(crate) fn info(&self, input: usize) -> Option<&InputInfo> {
        self.streams.get(&input).map(|stream| &stream.capture.info)
    }

    /// The time of the next packet of the stream; `None` if no packet is held.
    pub(crate) fn front(&self) -> Option<Time> {
        self.ready.peek().map(|Reverse((time, _))| *time)
    }

    /// An input of which all packets that were read have been returned.
    pub(crate) fn drained(&self) -> Option<usize> {
        if self.ready.len() == self.streams.len() {
            return None;
        }
        self.streams.iter().find(|(_, stream)| stream.at >= stream.chunk.slots.len()).map(|(input, _)| *input)
    }

    /// Reads on in the only input, directly into the caller's buffer without a copy. If that reaches `until`, the
    /// start of another input, the packets are held to be merged.
    pub(crate) fn fill(
        &mut self,
        input: usize,
        chunk: &mut PacketBuf,
        limits: &Limits,
        until: Option<Time>,
        interfaces: &mut Interfaces,
        comments: &mut Vec<Comment>,
    ) -> Read {
        let Some(stream) = self.streams.get_mut(&input) else { return Read::Held };
        let result = stream.capture.fill(chunk, limits, interfaces, Some(&self.ahead));
        if !matches!(result, Ok(true)) {
            return self.end(input, result);
        }
        if let Some(until) = until {
            let latest = chunk.slots.iter().map(|slot| slot.time).max().unwrap_or_default();
            if until <= latest.max(stream.clock) {
                std::mem::swap(chunk, &mut stream.chunk);
                chunk.clear();
                self.hold(input);
                return Read::Held;
            }
            stream.clock = stream.clock.max(latest);
        }
        comments.append(&mut stream.capture.comments);
        Read::Handed
    }

    /// Reads on in an input that has been drained.
    pub(crate) fn refill(&mut self, input: usize, limits: &Limits, interfaces: &mut Interfaces) -> Read {
        let Some(stream) = self.streams.get_mut(&input) else { return Read::Held };
        let result = stream.capture.fill(&mut stream.chunk, limits, interfaces, None);
        if !matches!(result, Ok(true)) {
            return self.end(input, result);
        }
        self.hold(input);
        Read::Held
    }

    /// Queues an input whose chunk has just been filled.
    fn hold(&mut self, input: usize) {
        let Some(stream) = self.streams.get_mut(&input) else { return };
        (stream.at, stream.comment) = (0, 0);
        if let Some(time) = stream.advance() {
            self.ready.push(Reverse((time, input)));
        }
    }

    fn end(&mut self, input: usize, result: Result<bool, ReadError>) -> Read {
        match self.streams.remove(&input) {
            Some(stream) => Read::Ended(Box::new(stream.capture), result.err()),
            None => Read::Held,
        }
    }

    /// Copies packets to the end of `chunk` in order, until it holds `bytes` bytes or `packets` packets, an input is
    /// drained, or the stream reaches `until`.
    pub(crate) fn take(
        &mut self,
        chunk: &mut PacketBuf,
        comments: &mut Vec<Comment>,
        bytes: usize,
        packets: usize,
        until: Option<Time>,
    ) {
        while let Some(Reverse((mut time, input))) = self.ready.pop() {
            let Some(stream) = self.streams.get_mut(&input) else { continue };
            let other = self.ready.peek().map(|Reverse(key)| *key);
            // The heap is not needed while this input stays first.
            while other.is_none_or(|other| (time, input) <= other) {
                let full = chunk.bytes.len() >= bytes || chunk.slots.len() >= packets;
                if full || until.is_some_and(|until| until <= time) {
                    self.ready.push(Reverse((time, input)));
                    return;
                }
                if let Some(packet) = stream.chunk.batch().get(stream.at) {
                    chunk.push(&packet);
                }
                while let Some(comment) = stream.capture.comments.get(stream.comment)
                    && comment.slot <= stream.at
                {
                    comments.push(Comment { slot: chunk.slots.len() - 1, text: comment.text.clone() });
                    stream.comment += 1;
                }
                stream.at += 1;
                match stream.advance() {
                    Some(next) => time = next,
                    None => return,
                }
            }
            self.ready.push(Reverse((time, input)));
        }
    }
}
