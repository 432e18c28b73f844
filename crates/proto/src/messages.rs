//! The messages of one side of a stream, each with its length in its first bytes: long ones are cut, and after missing bytes
//! the next one is sought.

use crate::frames::{Frames, Size};
use crate::sought::{Arrived, Begun, Found, Sought};
use crate::{Out, Step};
use std::borrow::Cow;
use std::collections::VecDeque;
use weir_wire::Direction;
use weir_wire::stream::Chunk;

/// Number of times that bytes begin no message, or that the next one is sought in further bytes, of some thousands each: then the
/// rest of the flow is not read.
const MAX_TRIES: u8 = 16;

/// The length of a message, header included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Length {
    /// In bytes.
    Is(usize),
    /// At least this number of bytes shows it.
    Within(usize),
    /// They begin no message, as this number of bytes shows.
    Bad(usize),
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// Its bytes, at most [`Reads::MAX_HELD`].
    pub bytes: &'a [u8],
    /// Its length in bytes.
    pub length: usize,
}

/// How messages begin, as far as the parser knows it at a time.
pub(crate) trait Rules: Copy {
    /// The length of a message of a side.
    fn length(self, side: Direction, head: &[u8]) -> Length;

    /// Whether a message of a side begins with bytes that are `at` bytes after a gap.
    fn begun(self, side: Direction, at: usize, bytes: &[u8]) -> Begun;
}

/// A parser of messages.
pub(crate) trait Reads {
    /// How messages begin.
    type Rules: Rules;
    /// Maximum number of bytes of one message that are kept; the rest is skipped.
    const MAX_HELD: usize;

    /// How messages begin from now on.
    fn rules(&self) -> Self::Rules;

    /// Takes a message. With [`Step::SwitchTo`], the bytes after it are unread.
    fn message(&mut self, message: Message<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step;

    /// Takes bytes that begin no message.
    fn malformed(&mut self, bytes: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out);
}

/// The messages of both sides.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    client: Messages,
    server: Messages,
}

impl Sides {
    /// Reads the next chunk.
    pub fn read<R: Reads>(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out, reads: &mut R) -> Step {
        let side = match chunk.direction {
            Direction::Forward => &mut self.client,
            Direction::Reverse => &mut self.server,
        };
        side.read(chunk, out, reads)
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.client.memory() + self.server.memory()
    }
}

/// The messages of one side.
#[derive(Debug, Default)]
struct Messages {
    frames: Frames,
    /// Remaining bytes of a long message that are skipped.
    skip: usize,
    /// After a gap: the bytes up to the next message.
    sought: Option<Sought>,
    /// Number of times that no message was found where one should be.
    tries: u8,
}

impl Messages {
    /// Reads the next chunk.
    fn read<R: Reads>(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out, reads: &mut R) -> Step {
        if chunk.gap > 0 {
            match usize::try_from(chunk.gap).ok().filter(|gap| *gap <= self.skip) {
                Some(gap) => self.skip -= gap,
                None => {
                    self.frames.forget();
                    (self.skip, self.sought) = (0, Some(Sought::default()));
                }
            }
        }
        // The bytes that are to be read, by the time of their arrival: a message that is found has that of its last byte.
        let mut pieces = VecDeque::from([(chunk.time, Cow::Borrowed(chunk.data))]);
        while let Some((time, data)) = pieces.pop_front() {
            let after = pieces.iter().map(|(_, piece)| piece.len()).sum::<usize>();
            let chunk = Chunk { time, gap: 0, ..*chunk };
            if let Some(sought) = self.sought.take() {
                match self.seek(sought, &data, &chunk, reads) {
                    Ok(Some(found)) => {
                        // The bytes before it belong to no message that is known.
                        out.message(found.bytes().len() + after);
                        let found = found.pieces().map(|(time, piece)| (time, Cow::Owned(piece.to_vec())));
                        pieces = found.collect::<Vec<_>>().into_iter().chain(pieces).collect();
                    }
                    Ok(None) => {}
                    Err(step) => return step,
                }
                continue;
            }
            match self.messages(&data, after, &chunk, out, reads) {
                Ok(Step::Next) => {}
                Ok(step) => return step,
                Err(_) if self.tries == MAX_TRIES => return Step::GiveUp,
                Err(read) => {
                    self.tries += 1;
                    self.sought = Some(Sought::behind(&[], time));
                    let rest = match data {
                        Cow::Borrowed(data) => Cow::Borrowed(data.get(read..).unwrap_or_default()),
                        Cow::Owned(data) => Cow::Owned(data.get(read..).unwrap_or_default().to_vec()),
                    };
                    pieces.push_front((time, rest));
                }
            }
        }
        Step::Next
    }

    /// The bytes from the next message on; `None` if more bytes will show it.
    fn seek<R: Reads>(
        &mut self,
        sought: Sought,
        data: &[u8],
        chunk: &Chunk<'_>,
        reads: &R,
    ) -> Result<Option<Arrived>, Step> {
        let rules = reads.rules();
        let begun = |at: usize, bytes: &[u8]| rules.begun(chunk.direction, at, bytes);
        let mut next = sought.next(data, chunk.time, begun);
        loop {
            match next {
                Found::Bytes(found) => return Ok(Some(found)),
                Found::Later(sought) => {
                    self.sought = Some(sought);
                    return Ok(None);
                }
                Found::Nothing(_) if self.tries == MAX_TRIES => return Err(Step::GiveUp),
                Found::Nothing(rest) => {
                    self.tries += 1;
                    next = rest.next(&[], chunk.time, begun);
                }
            }
        }
    }

    /// Takes whole messages out of bytes, which are followed by others of the chunk. Of bytes that begin no message the error is
    /// the number of bytes up to where the next one may begin.
    fn messages<R: Reads>(
        &mut self,
        mut data: &[u8],
        after: usize,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
        reads: &mut R,
    ) -> Result<Step, usize> {
        let (side, all) = (chunk.direction, data.len());
        while !data.is_empty() {
            if self.skip > 0 {
                let fit = self.skip.min(data.len());
                self.skip -= fit;
                data = data.get(fit..).unwrap_or_default();
                if self.skip == 0 {
                    out.more(data.len() + after);
                }
                continue;
            }
            let rules = reads.rules();
            let size = |head: &[u8]| match rules.length(side, head) {
                Length::Is(bytes) => Size::Bytes(bytes.min(R::MAX_HELD)),
                Length::Within(bytes) => Size::Within(bytes),
                Length::Bad(bytes) => Size::Bytes(bytes),
            };
            let Some(read) = self.frames.next(&mut data, size, |bytes, unread| {
                out.message(unread + after);
                let Length::Is(length) = rules.length(side, bytes) else {
                    reads.malformed(bytes, chunk, out);
                    return None;
                };
                let step = reads.message(Message { bytes, length }, chunk, out);
                Some((length.saturating_sub(bytes.len()), step))
            }) else {
                break;
            };
            let Some((skip, step)) = read else { return Err(all - data.len()) };
            self.skip = skip;
            match step {
                Step::Next => {}
                Step::GiveUp => return Ok(Step::GiveUp),
                Step::SwitchTo { protocol, .. } => {
                    return Ok(Step::SwitchTo { protocol, unread: data.len() + after });
                }
            }
        }
        Ok(Step::Next)
    }

    /// Memory in bytes.
    fn memory(&self) -> usize {
        self.frames.memory() + self.sought.as_ref().map_or(0, Sought::memory)
    }
}
