//! The messages of a conversation. Client and server take turns.

use super::message::{FIRST, HEADER, first_length, length, read_of};
use super::state::{Begin, State};
use crate::Out;
use crate::frames::Size;
use crate::turns::{MAX_HELD, Next, Turns};
use weir_wire::Direction;
use weir_wire::stream::Chunk;

/// What a message depends on besides its bytes.
#[derive(Clone, Copy)]
pub struct Phase {
    /// Whether a request for encryption or its reply may come.
    negotiates: bool,
    /// Whether the client's first messages are over.
    is_open: bool,
}

/// What a message begins with these bytes of a side.
fn begin(side: Direction, head: &[u8], phase: Phase) -> Begin {
    let Phase { negotiates, is_open } = phase;
    let Some(first) = head.first() else { return Begin::Within(1) };
    let (wanted, found) = match (side, first) {
        (Direction::Reverse, b'S' | b'N' | b'G') if negotiates => return Begin::Reply,
        (Direction::Forward, 0x16) if negotiates => return Begin::Tls,
        (Direction::Forward, 0) if !is_open => (FIRST, first_length(head)),
        _ => (HEADER, length(side, head)),
    };
    match found {
        Some(bytes) => Begin::Message(bytes),
        None if head.len() < wanted => Begin::Within(wanted),
        None => Begin::Nothing(wanted),
    }
}

impl Turns for State {
    type Phase = Phase;

    fn phase(&self, side: Direction) -> Self::Phase {
        Phase { negotiates: self.negotiates(side), is_open: self.is_open() }
    }

    fn size(phase: Self::Phase, side: Direction, head: &[u8]) -> Size {
        match begin(side, head, phase) {
            Begin::Message(bytes) => {
                let read = head.first().and_then(|kind| read_of(side, *kind)).unwrap_or(MAX_HELD);
                Size::Bytes(bytes.min(read))
            }
            Begin::Within(bytes) => Size::Within(bytes),
            Begin::Nothing(bytes) => Size::Bytes(bytes),
            Begin::Reply | Begin::Tls => Size::Bytes(1),
        }
    }

    fn begins(&mut self, side: Direction, head: &[u8], out: &mut dyn Out) -> Option<bool> {
        match begin(side, head, self.phase(side)) {
            Begin::Within(_) => None,
            Begin::Nothing(_) => Some(false),
            Begin::Message(_) | Begin::Reply | Begin::Tls => {
                self.found(side, out);
                Some(true)
            }
        }
    }

    fn message(
        &mut self,
        phase: Self::Phase,
        message: &[u8],
        unread: usize,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> (usize, Next) {
        let begin = begin(chunk.direction, message, phase);
        if begin != Begin::Tls {
            out.message(unread);
        }
        let length = if let Begin::Message(bytes) = begin { bytes } else { message.len() };
        (length.saturating_sub(message.len()), self.take(begin, message, chunk, out))
    }

    fn skipped(&mut self, side: Direction, out: &mut dyn Out) {
        self.more(side, out);
    }

    fn miss(&mut self, side: Direction) {
        self.miss_of(side);
    }

    fn finish(&mut self, out: &mut dyn Out) {
        self.end_all(out);
    }

    fn memory(&self) -> usize {
        self.held()
    }
}
