//! Lines from a stream that is cut anywhere.

use crate::work::looked_at;

/// Joins the lines of one direction. A line that is too long is passed on once, truncated; the rest of it is skipped.
#[derive(Debug)]
pub(crate) struct Lines {
    held: Vec<u8>,
    max: usize,
    /// Whether the line was too long and the rest of it is skipped.
    is_cut: bool,
}

/// A line without its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Line<'a> {
    /// The bytes of the line, without `\r\n` or `\n`.
    pub text: &'a [u8],
    /// Whether the line was longer than the limit and was truncated.
    pub is_cut: bool,
    /// Number of bytes of the chunk after it.
    pub unread: usize,
}

impl Lines {
    /// A reader of lines of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { held: Vec::new(), max, is_cut: false }
    }

    /// The next line of `data`, which is advanced past it; `None` if no line ends in `data`, whose bytes are then
    /// kept. `work` gets the line.
    pub fn next<T>(&mut self, data: &mut &[u8], work: impl FnOnce(Line<'_>) -> T) -> Option<T> {
        let Some(end) = data.iter().position(|byte| *byte == b'\n') else {
            looked_at(data.len());
            self.hold(data);
            *data = &[];
            return None;
        };
        looked_at(end + 1);
        let (head, rest) = data.split_at(end);
        *data = rest.get(1..).unwrap_or_default();
        let unread = data.len();
        if self.held.is_empty() && !self.is_cut && head.len() <= self.max {
            return Some(work(Line { text: trimmed(head), is_cut: false, unread }));
        }
        self.hold(head);
        let is_cut = std::mem::take(&mut self.is_cut);
        looked_at(self.held.len());
        let result = work(Line { text: trimmed(&self.held), is_cut, unread });
        self.forget();
        Some(result)
    }

    /// Takes the lines out; they must be put back. Handling a line may change the rest of their owner.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(0))
    }

    /// Passes each line to `work` until it returns `true`: the remaining bytes belong to something else.
    pub fn until(&mut self, data: &mut &[u8], mut work: impl FnMut(Line<'_>) -> bool) -> Option<usize> {
        while let Some(is_last) = self.next(data, &mut work) {
            if is_last {
                return Some(data.len());
            }
        }
        None
    }

    fn hold(&mut self, bytes: &[u8]) {
        looked_at(bytes.len());
        let room = self.max.saturating_sub(self.held.len());
        self.held.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        self.is_cut |= bytes.len() > room;
    }

    /// The bytes of the incomplete line that are kept.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Drops the incomplete line because of a gap.
    pub fn forget(&mut self) {
        self.is_cut = false;
        self.held.clear();
        if self.held.capacity() > 4096 {
            self.held = Vec::new();
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.held.capacity()
    }
}

/// Position within a message of SMTP or POP3, which ends with a line of a single dot. Dots at the beginning of lines
/// are doubled.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Dotted {
    /// At the beginning of a line.
    #[default]
    Start,
    /// After a dot at the beginning of a line.
    Seen,
    /// After such a dot and `\r`.
    Return,
    /// Within a line.
    Within,
}

impl Dotted {
    /// Passes the bytes of `data` to `sink` and advances `data` past them. Returns `true` if the end was among them.
    pub fn bytes(&mut self, data: &mut &[u8], mut sink: impl FnMut(&[u8])) -> bool {
        while let Some((first, rest)) = data.split_first() {
            looked_at(1);
            match (*self, first) {
                (Self::Start, b'.') => (*self, *data) = (Self::Seen, rest),
                (Self::Seen, b'\r') => (*self, *data) = (Self::Return, rest),
                (Self::Seen | Self::Return, b'\n') => {
                    (*self, *data) = (Self::Start, rest);
                    return true;
                }
                (Self::Return, _) => {
                    sink(b"\r");
                    *self = Self::Within;
                }
                _ => {
                    let length = data.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
                    let (line, rest) = data.split_at(length.unwrap_or(data.len()));
                    looked_at(line.len());
                    *data = rest;
                    sink(line);
                    *self = if length.is_some() { Self::Start } else { Self::Within };
                }
            }
        }
        false
    }
}

/// A line without its end.
pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(max: usize, pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let (mut lines, mut found) = (Lines::new(max), Vec::new());
        for piece in pieces {
            let mut data = *piece;
            while let Some(line) =
                lines.next(&mut data, |line| (String::from_utf8_lossy(line.text).into_owned(), line.is_cut))
            {
                found.push(line);
            }
        }
        found
    }

    #[test]
    fn lines_do_not_depend_on_cuts() {
        let text = b"one\r\ntwo\n\r\na line that is too long\nfour\nno end";
        let whole = lines(10, &[text]);
        let expected = [("one", false), ("two", false), ("", false), ("a line tha", true), ("four", false)];
        assert_eq!(whole, expected.map(|(line, cut)| (line.to_owned(), cut)));
        for cut in 0..text.len() {
            assert_eq!(whole, lines(10, &[&text[..cut], &text[cut..]]), "{cut}");
        }
        assert_eq!(whole, lines(10, &text.chunks(1).collect::<Vec<_>>()));
    }
}
