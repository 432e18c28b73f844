//! Conversations whose client and server take turns, with messages that have a length and no mark of their own. After missing
//! bytes a message is taken up where it should begin, or else when the other side has sent.

use crate::frames::{Frames, Size};
use crate::{Out, Parser, Step};
use std::borrow::Cow;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Maximum number of bytes of a message that are kept, header included; the rest is skipped.
pub(crate) const MAX_HELD: usize = 16 << 10;

/// What follows a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// The next message.
    Message,
    /// Bytes that are not known, because this is no message of the protocol.
    Lost,
    /// TLS.
    Tls {
        /// Whether the message was read; if not, TLS begins with it.
        read: bool,
    },
    /// Nothing that can be read.
    GiveUp,
}

/// A protocol of turns: the state of a conversation.
pub(crate) trait Turns: Default + Send {
    /// What the length of a message depends on besides its bytes.
    type Phase: Copy;

    /// The phase of the messages of a side.
    fn phase(&self, side: Direction) -> Self::Phase;
    /// The length of a message by its beginning, at most [`MAX_HELD`].
    fn size(phase: Self::Phase, side: Direction, head: &[u8]) -> Size;
    /// Whether a message begins with these bytes, after others that are not known; `None` if more of them are needed. One that
    /// begins is noted.
    fn begins(&mut self, side: Direction, head: &[u8], out: &mut dyn Out) -> Option<bool>;
    /// Takes a message, of which the bytes beyond its size are missing. `unread` is the number of bytes of the chunk after it.
    /// Returns the number of its bytes that are still to come, and what follows.
    fn message(
        &mut self,
        phase: Self::Phase,
        message: &[u8],
        unread: usize,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> (usize, Next);
    /// The bytes that were still to come have passed.
    fn skipped(&mut self, _side: Direction, _out: &mut dyn Out) {}
    /// Bytes of a side are missing.
    fn miss(&mut self, side: Direction);
    /// The conversation has ended.
    fn finish(&mut self, out: &mut dyn Out);
    /// Memory in bytes.
    fn memory(&self) -> usize;
}

/// The parser of a protocol of turns.
#[derive(Default)]
pub(crate) struct Conversation<T> {
    sides: [Side; 2],
    last: Option<Direction>,
    turns: T,
}

impl<T: Turns> Parser for Conversation<T> {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let is_turn = self.last.replace(chunk.direction) != Some(chunk.direction);
        let [client, server] = &mut self.sides;
        let side = if chunk.direction == Direction::Forward { client } else { server };
        side.read(chunk, is_turn, out, &mut self.turns)
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.turns.finish(out);
    }

    fn memory(&self) -> usize {
        self.sides.iter().map(Side::memory).sum::<usize>() + self.turns.memory()
    }
}

/// The messages of one side.
#[derive(Default)]
struct Side {
    frames: Frames,
    /// Remaining bytes of a message that are skipped.
    skip: usize,
    place: Place,
}

/// Where the next bytes are.
#[derive(Default)]
enum Place {
    /// In messages that are known.
    #[default]
    Known,
    /// Where a message may begin, with the first bytes from there on.
    Begin(Vec<u8>),
    /// Within messages that are not known.
    Lost,
}

impl Side {
    /// Reads the next chunk. `is_turn`: the other side sent the one before it.
    fn read<T: Turns>(&mut self, chunk: &Chunk<'_>, is_turn: bool, out: &mut dyn Out, turns: &mut T) -> Step {
        if chunk.gap > 0 {
            match usize::try_from(chunk.gap).ok().filter(|gap| *gap <= self.skip) {
                Some(gap) => self.skip -= gap,
                None => {
                    self.frames.forget();
                    (self.skip, self.place) = (0, Place::Begin(Vec::new()));
                    turns.miss(chunk.direction);
                }
            }
        } else if is_turn && !matches!(self.place, Place::Known) {
            self.place = Place::Begin(Vec::new());
        }
        let mut data = Cow::Borrowed(chunk.data);
        match std::mem::take(&mut self.place) {
            Place::Known => {}
            Place::Lost => {
                self.place = Place::Lost;
                return Step::Next;
            }
            Place::Begin(mut head) => {
                head.extend_from_slice(&data);
                match turns.begins(chunk.direction, &head, out) {
                    None => {
                        self.place = Place::Begin(head);
                        return Step::Next;
                    }
                    Some(false) => {
                        self.place = Place::Lost;
                        return Step::Next;
                    }
                    Some(true) => {}
                }
                // The bytes before it belong to no message that is known.
                out.message(head.len());
                data = Cow::Owned(head);
            }
        }
        self.messages(&data, chunk, out, turns)
    }

    /// Takes whole messages out of bytes.
    fn messages<T: Turns>(
        &mut self,
        mut data: &[u8],
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
        turns: &mut T,
    ) -> Step {
        let side = chunk.direction;
        while !data.is_empty() {
            if self.skip > 0 {
                let fit = self.skip.min(data.len());
                self.skip -= fit;
                data = data.get(fit..).unwrap_or_default();
                if self.skip == 0 {
                    out.more(data.len());
                    turns.skipped(side, out);
                }
                continue;
            }
            let phase = turns.phase(side);
            let size = |head: &[u8]| T::size(phase, side, head);
            let taken = self
                .frames
                .next(&mut data, size, |message, unread| turns.message(phase, message, unread, chunk, out));
            let Some((skip, next)) = taken else { break };
            self.skip = skip;
            match next {
                Next::Message => {}
                Next::Lost => {
                    (self.skip, self.place) = (0, Place::Lost);
                    break;
                }
                Next::Tls { read } => {
                    let unread = data.len() + usize::from(!read);
                    return Step::SwitchTo { protocol: Some(&crate::tls::PROTOCOL), unread };
                }
                Next::GiveUp => return Step::GiveUp,
            }
        }
        Step::Next
    }

    /// Memory in bytes.
    fn memory(&self) -> usize {
        let begun = if let Place::Begin(head) = &self.place { head.capacity() } else { 0 };
        self.frames.memory() + begun
    }
}
