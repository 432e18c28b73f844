//! The packets of one side. They have no mark, but client and server take turns: behind missing bytes, a packet is taken up
//! where it should begin by what the conversation waits for, or else when the other side has sent.

use super::packet::{HEADER, header};
use super::state::{Next, State};
use crate::frames::{Frames, Size};
use crate::{Out, Step};
use std::borrow::Cow;
use weir_wire::stream::Chunk;

/// Maximum number of bytes of a packet that are kept, header included; the rest is skipped.
pub const MAX_HELD: usize = 16 << 10;
/// Number of bytes that show whether a packet begins: its header and the first byte.
const BEGIN: usize = HEADER + 1;

/// The packets of one side.
#[derive(Default)]
pub struct Side {
    frames: Frames,
    /// Remaining bytes of a long packet that are skipped.
    skip: usize,
    place: Place,
}

/// Where the next bytes are.
#[derive(Default)]
enum Place {
    /// In packets that are known.
    #[default]
    Known,
    /// Where a packet may begin, with the first bytes from there on.
    Begin(Vec<u8>),
    /// Within packets that are not known.
    Lost,
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
            Place::Begin(mut begin) => {
                begin.extend_from_slice(&data);
                let Some(head) = begin.first_chunk::<BEGIN>() else {
                    self.place = Place::Begin(begin);
                    return Step::Next;
                };
                if !state.begins(chunk.direction, head, out) {
                    self.place = Place::Lost;
                    return Step::Next;
                }
                // The bytes before it belong to no packet that is known.
                out.message(begin.len());
                data = Cow::Owned(begin);
            }
        }
        self.packets(&data, chunk, out, state)
    }

    /// Takes whole packets out of bytes.
    fn packets(&mut self, mut data: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out, state: &mut State) -> Step {
        while !data.is_empty() {
            if self.skip > 0 {
                let fit = self.skip.min(data.len());
                self.skip -= fit;
                data = data.get(fit..).unwrap_or_default();
                if self.skip == 0 {
                    out.more(data.len());
                }
                continue;
            }
            let size = |head: &[u8]| match header(head) {
                Some((length, _)) => Size::Bytes((HEADER + length).min(MAX_HELD)),
                None => Size::Within(HEADER),
            };
            let Some((skip, next)) = self.frames.next(&mut data, size, |packet, unread| {
                out.message(unread);
                let length = header(packet).map_or(0, |(length, _)| HEADER + length);
                (length.saturating_sub(packet.len()), state.packet(packet, chunk, out))
            }) else {
                break;
            };
            self.skip = skip;
            match next {
                Next::Packet => {}
                Next::Lost => {
                    (self.skip, self.place) = (0, Place::Lost);
                    break;
                }
                Next::Tls => {
                    return Step::SwitchTo { protocol: Some(&crate::tls::PROTOCOL), unread: data.len() };
                }
                Next::GiveUp => return Step::GiveUp,
            }
        }
        Step::Next
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.frames.memory()
    }
}
