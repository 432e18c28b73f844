//! `multipart/form-data` and similar types (RFC 2046, RFC 7578): the parts of a body, as bytes arrive.

use super::message::{Head, Headers, parameter};
use crate::work::looked_at;

/// Maximum length of a part's header line in bytes.
const MAX_LINE: usize = 4096;
/// Maximum number of headers of a part.
const MAX_HEADERS: u16 = 32;

/// An element of a body.
pub(super) enum Found<'a> {
    /// A part begins, with these headers.
    Begin(&'a Headers),
    /// Bytes of the part.
    Bytes(&'a [u8]),
    /// The part has ended.
    End,
}

/// Splits a body into its parts.
pub(super) struct Multipart {
    /// `\r\n--` and the boundary.
    delimiter: Vec<u8>,
    state: State,
    /// Bytes that may become a delimiter, or a header line.
    held: Vec<u8>,
    head: Head,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum State {
    /// Before the first delimiter.
    Preamble,
    /// On the rest of a delimiter's line.
    Line,
    Headers,
    Part,
    /// After the last delimiter.
    Over,
}

impl Multipart {
    /// The splitter for a `Content-Type`; `None` if the type has no parts.
    pub fn of(content_type: &[u8]) -> Option<Self> {
        let is_multipart = content_type.get(..10).is_some_and(|t| t.eq_ignore_ascii_case(b"multipart/"));
        let boundary = parameter(content_type, b"boundary").filter(|_| is_multipart)?;
        // RFC 2046 allows 70 bytes.
        let fits =
            (1..=256).contains(&boundary.len()) && !boundary.iter().any(|o| matches!(o, b'\r' | b'\n'));
        let delimiter = [b"\r\n--", boundary.as_slice()].concat();
        // A body may begin with a delimiter without a line end before it.
        let (state, held) = (State::Preamble, b"\r\n".to_vec());
        fits.then(|| Self { delimiter, state, held, head: Head::default() })
    }

    /// Takes bytes and passes the elements to `found`.
    pub fn bytes(&mut self, mut bytes: &[u8], found: &mut dyn FnMut(Found<'_>)) {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Preamble | State::Part => self.body(bytes, found),
                State::Line | State::Headers => self.line(bytes, found),
                State::Over => return,
            };
        }
    }

    /// Ends the body. Returns whether the last delimiter was seen.
    pub fn finish(&mut self, found: &mut dyn FnMut(Found<'_>)) -> bool {
        let is_whole =
            self.state == State::Over || (self.state == State::Line && self.held.starts_with(b"--"));
        if self.state == State::Part {
            let held = std::mem::take(&mut self.held);
            if !held.is_empty() {
                found(Found::Bytes(&held));
            }
            found(Found::End);
        }
        self.state = State::Over;
        is_whole
    }

    pub fn memory(&self) -> usize {
        self.delimiter.capacity() + self.held.capacity() + self.head.memory()
    }

    fn body<'a>(&mut self, bytes: &'a [u8], found: &mut dyn FnMut(Found<'_>)) -> &'a [u8] {
        let is_part = self.state == State::Part;
        if self.held.is_empty() {
            let (end, may_be) = self.delimited(bytes);
            let (plain, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
            looked_at(plain.len());
            if is_part && !plain.is_empty() {
                found(Found::Bytes(plain));
            }
            let (held, rest) = rest.split_at_checked(may_be).unwrap_or((rest, &[]));
            self.held.extend_from_slice(held);
            self.close(found);
            return rest;
        }
        let Some((next, rest)) = bytes.split_first() else { return bytes };
        if self.wanted().get(self.held.len()) == Some(next) {
            self.held.push(*next);
            self.close(found);
            return rest;
        }
        if is_part {
            found(Found::Bytes(&self.held));
        }
        looked_at(self.held.len());
        self.held.clear();
        // This byte may begin a delimiter.
        bytes
    }

    /// The delimiter that the held bytes may become: a line feed alone may end the line before it.
    fn wanted(&self) -> &[u8] {
        let bare = self.delimiter.get(1..).unwrap_or_default();
        if self.held.first() == Some(&b'\n') { bare } else { &self.delimiter }
    }

    /// Position of the first delimiter, or of its possible beginning at the end, and the length of the part that is
    /// present.
    fn delimited(&self, bytes: &[u8]) -> (usize, usize) {
        let bare = self.delimiter.get(1..).unwrap_or_default();
        let mut from = 0;
        while let Some(rest) = bytes.get(from..)
            && let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'))
        {
            let here = rest.get(at..).unwrap_or_default();
            let wanted = if here.first() == Some(&b'\n') { bare } else { &self.delimiter };
            let length = wanted.len().min(here.len());
            if here.get(..length) == wanted.get(..length) {
                return (from + at, length);
            }
            from += at + 1;
        }
        (bytes.len(), 0)
    }

    /// Ends the part if the held bytes are a delimiter.
    fn close(&mut self, found: &mut dyn FnMut(Found<'_>)) {
        if self.held.is_empty() || self.held.len() < self.wanted().len() {
            return;
        }
        self.held.clear();
        if self.state == State::Part {
            found(Found::End);
        }
        self.state = State::Line;
    }

    fn line<'a>(&mut self, bytes: &'a [u8], found: &mut dyn FnMut(Found<'_>)) -> &'a [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (head, rest) = bytes.split_at_checked(end.unwrap_or(bytes.len())).unwrap_or((bytes, &[]));
        looked_at(head.len());
        let room = MAX_LINE.saturating_sub(self.held.len());
        self.held.extend_from_slice(head.get(..room).unwrap_or(head));
        if end.is_none() {
            return &[];
        }
        let line = std::mem::take(&mut self.held);
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        match self.state {
            State::Line if text.starts_with(b"--") => self.state = State::Over,
            State::Line => self.state = State::Headers,
            _ if text.is_empty() => {
                found(Found::Begin(&self.head.finish()));
                self.state = State::Part;
                // A part without bytes: its delimiter follows directly.
                self.held = Vec::new();
            }
            _ => {
                self.head.line(text, MAX_HEADERS);
            }
        }
        rest.get(1..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &[u8], size: usize) -> Vec<String> {
        let mut parts = Vec::new();
        let mut multipart = Multipart::of(b"multipart/form-data; boundary=\"xx\"").unwrap();
        let mut found = |found: Found<'_>| match found {
            Found::Begin(headers) => {
                let name = headers.get(b"content-disposition").and_then(|v| parameter(v, b"name"));
                parts.push(String::from_utf8(name.unwrap_or_default()).unwrap() + "=");
            }
            Found::Bytes(bytes) => {
                parts.last_mut().unwrap().push_str(&String::from_utf8_lossy(bytes));
            }
            Found::End => parts.last_mut().unwrap().push('.'),
        };
        for piece in body.chunks(size) {
            multipart.bytes(piece, &mut found);
        }
        multipart.finish(&mut found);
        parts
    }

    #[test]
    fn parts_do_not_depend_on_cuts() {
        let body = b"preamble\r\n--xx\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--x\r\r\n--xx  \r\n\
            content-disposition: form-data; name=b\n\n\n--xx\n\nno name\r\n\r\n--xx--\r\nepilogue\r\n--xx\r\n\r\n";
        let whole = parts(body, body.len());
        assert_eq!(whole, ["a=one\r\n--x\r.", "b=.", "=no name\r\n."]);
        for size in 1..20 {
            assert_eq!(parts(body, size), whole, "{size}");
        }
        assert_eq!(parts(b"--xx\r\n\r\nnever ended", 1), ["=never ended."]);
    }
}
