//! Messages with a length field, out of a stream that is cut anywhere.

use crate::work::looked_at;

/// The length of a message, as far as its beginning shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Size {
    /// The length in bytes, header included.
    Bytes(usize),
    /// The length is determined by the first bytes, of which at least this number is needed.
    Within(usize),
}

/// Joins the messages of one direction. Messages that arrive whole are not copied.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    held: Vec<u8>,
}

/// Capacity that is kept from one message to the next, in bytes.
const KEPT: usize = 4096;

impl Frames {
    /// Returns the next message of `data`, and advances `data` to the byte after it. `None` if the message does not
    /// end in `data`, which is then kept. `size` reads the beginning of a message, and is called again when as many
    /// bytes as it required have arrived; it also limits the kept bytes. `work` gets the message, and the number of bytes of
    /// the chunk after it.
    pub fn next<T>(
        &mut self,
        data: &mut &[u8],
        size: impl Fn(&[u8]) -> Size,
        work: impl FnOnce(&[u8], usize) -> T,
    ) -> Option<T> {
        if self.held.is_empty() {
            if let Size::Bytes(bytes) = size(data)
                && let Some((message, rest)) = data.split_at_checked(bytes.max(1))
            {
                *data = rest;
                looked_at(message.len());
                return Some(work(message, rest.len()));
            }
            if data.is_empty() {
                return None;
            }
        }
        loop {
            let (wanted, is_known) = match size(&self.held) {
                Size::Bytes(bytes) => (bytes.max(1), true),
                Size::Within(bytes) => (bytes.max(self.held.len() + 1), false),
            };
            let missing = wanted.saturating_sub(self.held.len());
            let (head, rest) = data.split_at_checked(missing).unwrap_or((data, &[]));
            looked_at(1 + head.len());
            self.held.extend_from_slice(head);
            *data = rest;
            if head.len() < missing {
                return None;
            }
            if is_known {
                looked_at(self.held.len());
                let result = work(&self.held, data.len());
                self.forget();
                return Some(result);
            }
        }
    }

    /// The bytes of the message that is incomplete.
    pub fn begun(&self) -> &[u8] {
        &self.held
    }

    /// Drops the incomplete message because of a gap.
    pub fn forget(&mut self) {
        self.held.clear();
        if self.held.capacity() > KEPT {
            self.held = Vec::new();
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.held.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(head: &[u8]) -> Size {
        match head {
            [high, low, ..] => Size::Bytes(2 + usize::from(*high) * 256 + usize::from(*low)),
            _ => Size::Within(2),
        }
    }

    fn messages(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for piece in pieces {
            let mut data = *piece;
            while let Some(message) = frames.next(&mut data, size, |message, _| message.to_vec()) {
                found.push(message);
            }
        }
        found
    }

    #[test]
    fn messages_do_not_depend_on_cuts() {
        let stream = b"\0\x03abc\0\0\0\x01x\0\x09not whole";
        let whole = messages(&[stream]);
        assert_eq!(whole, [&b"\0\x03abc"[..], b"\0\0", b"\0\x01x", b"\0\x09not whole"]);
        for cut in 0..stream.len() {
            assert_eq!(whole, messages(&[&stream[..cut], &stream[cut..]]), "{cut}");
        }
        assert_eq!(whole, messages(&stream.chunks(1).collect::<Vec<_>>()));
        assert_eq!(messages(&[b"\0\x09ab", b"cd"]), Vec::<Vec<u8>>::new());
    }
}
