//! The messages of one side. Behind missing bytes, a message is taken up where it should begin, or else when the other side
//! has sent: client and server take turns.

use super::message::{FIRST, HEADER, first_length, length, read_of};
use super::state::{Next, State};
use crate::frames::{Frames, Size};
use crate::{Out, Step};
use std::borrow::Cow;
use weir_wire::Direction;
use weir_wire::stream::Chunk;

/// Maximum number of bytes of a message that are kept, header included; the rest is skipped.
const MAX_HELD: usize = 16 << 10;

/// The messages of one side.
#[derive(Default)]
pub struct Side {
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

/// What the first bytes of a message show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begin {
    /// This is a message with this number of bytes.
    Message(usize),
    /// The reply to a request for encryption: one byte.
    Reply,
    /// TLS.
    Tls,
    /// At least this number of bytes is needed.
    Within(usize),
    /// This is no message; it takes this number of bytes to see that.
    Nothing(usize),
}

/// What a message begins with these bytes of a side. `negotiates`: a request for encryption or its reply may come.
/// `is_open`: the client's first messages are over.
fn begin(side: Direction, head: &[u8], negotiates: bool, is_open: bool) -> Begin {
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

impl Side {
    /// Reads the next chunk. `is_turn`: the other side sent the one before it.
    pub fn read(&mut self, chunk: &Chunk<'_>, is_turn: bool, out: &mut dyn Out, state: &mut State) -> Step {
        if chunk.gap > 0 {
            match usize::try_from(chunk.gap).ok().filter(|gap| *gap <= self.skip) {
                Some(gap) => self.skip -= gap,
                None => {
                    self.frames.forget();
                    (self.skip, self.place) = (0, Place::Begin(Vec::new()));
                    state.miss(chunk.direction);
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
                match begin(chunk.direction, &head, state.negotiates(chunk.direction), state.is_open()) {
                    Begin::Within(_) => {
                        self.place = Place::Begin(head);
                        return Step::Next;
                    }
                    Begin::Nothing(_) => {
                        self.place = Place::Lost;
                        return Step::Next;
                    }
                    Begin::Message(_) | Begin::Reply | Begin::Tls => {}
                }
                state.found(chunk.direction, out);
                // The bytes before it belong to no message that is known.
                out.message(head.len());
                data = Cow::Owned(head);
            }
        }
        self.messages(&data, chunk, out, state)
    }

    /// Takes whole messages out of bytes.
    fn messages(&mut self, mut data: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out, state: &mut State) -> Step {
        let side = chunk.direction;
        while !data.is_empty() {
            if self.skip > 0 {
                let fit = self.skip.min(data.len());
                self.skip -= fit;
                data = data.get(fit..).unwrap_or_default();
                if self.skip == 0 {
                    out.more(data.len());
                    state.more(side, out);
                }
                continue;
            }
            let (negotiates, is_open) = (state.negotiates(side), state.is_open());
            let size = |head: &[u8]| match begin(side, head, negotiates, is_open) {
                Begin::Message(bytes) => {
                    let read = head.first().and_then(|kind| read_of(side, *kind)).unwrap_or(MAX_HELD);
                    Size::Bytes(bytes.min(read))
                }
                Begin::Within(bytes) => Size::Within(bytes),
                Begin::Nothing(bytes) => Size::Bytes(bytes),
                Begin::Reply | Begin::Tls => Size::Bytes(1),
            };
            let Some((skip, next)) = self.frames.next(&mut data, size, |message, unread| {
                let begin = begin(side, message, negotiates, is_open);
                if begin != Begin::Tls {
                    out.message(unread);
                }
                let length = if let Begin::Message(bytes) = begin { bytes } else { message.len() };
                (length.saturating_sub(message.len()), state.message(begin, message, chunk, out))
            }) else {
                break;
            };
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
    pub fn memory(&self) -> usize {
        let begun = if let Place::Begin(head) = &self.place { head.capacity() } else { 0 };
        self.frames.memory() + begun
    }
}
