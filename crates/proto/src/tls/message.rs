//! Handshake messages from records that are cut anywhere.

use crate::work::looked_at;
use weir_wire::Reader;

/// Maximum length of a message in bytes: 1.5 times OpenSSL's limit for a chain of certificates (100 KiB).
pub(crate) const MAX_MESSAGE: usize = 150 * 1024;
/// Bytes of type and length.
const HEADER: usize = 4;

/// Joins the messages of one direction.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    held: Vec<u8>,
    /// Received bytes of the message, kept or not.
    seen: usize,
    /// Whether bytes of the message are missing.
    is_holed: bool,
}

/// A handshake message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub kind: u8,
    /// Its content; shorter if incomplete.
    pub body: &'a [u8],
    /// Whether the message is within the limit and no byte is missing.
    pub is_whole: bool,
    pub is_too_long: bool,
    /// Number of bytes after it in the data in which it ends.
    pub unread: usize,
}

/// Type and length of a message's body.
pub(crate) fn header(bytes: &[u8]) -> Option<(u8, usize)> {
    let word = Reader::new(bytes).u32()?;
    Some(((word >> 24) as u8, (word & 0xff_ffff) as usize))
}

impl Messages {
    /// The next message of `data`, which is advanced past it; `None` if no message ends in it.
    pub fn next<T>(&mut self, data: &mut &[u8], work: impl FnOnce(Message<'_>) -> T) -> Option<T> {
        if self.held.is_empty() {
            // Most messages are in one record, and that in one chunk: nothing is copied then.
            let whole = header(data).and_then(|(kind, length)| {
                let (message, rest) = data.split_at_checked(HEADER + length)?;
                Some((kind, message.get(HEADER..).filter(|body| body.len() <= MAX_MESSAGE)?, rest))
            });
            if let Some((kind, body, rest)) = whole {
                *data = rest;
                looked_at(HEADER + body.len());
                let unread = rest.len();
                return Some(work(Message { kind, body, is_whole: true, is_too_long: false, unread }));
            }
        }
        self.take(data, HEADER.saturating_sub(self.seen));
        let (kind, length) = header(&self.held)?;
        self.take(data, (HEADER + length).saturating_sub(self.seen));
        if self.seen < HEADER + length {
            return None;
        }
        looked_at(self.held.len());
        let body = self.held.get(HEADER..).unwrap_or_default();
        let is_too_long = length > MAX_MESSAGE;
        let is_whole = !self.is_holed && !is_too_long;
        let result = work(Message { kind, body, is_whole, is_too_long, unread: data.len() });
        *self = Self::default();
        Some(result)
    }

    fn take(&mut self, data: &mut &[u8], max: usize) {
        let (part, rest) = data.split_at_checked(max).unwrap_or((data, &[]));
        let room = (HEADER + MAX_MESSAGE).saturating_sub(self.held.len());
        if !self.is_holed {
            self.held.extend_from_slice(part.get(..room).unwrap_or(part));
        }
        looked_at(1 + part.len());
        self.seen += part.len();
        *data = rest;
    }

    /// Takes a gap. Returns `true` if the gap ends with the current message, so that the next message is found.
    pub fn miss(&mut self, bytes: usize) -> bool {
        let Some((_, length)) = header(&self.held) else { return false };
        self.seen = self.seen.saturating_add(bytes);
        self.is_holed = true;
        // A gap at the very end of a message may contain the beginning of the next one: only a smaller gap is certain.
        self.seen < HEADER + length
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.held.capacity()
    }
}
