//! Start lines and headers, read as leniently as those do who act on them.

use std::borrow::Cow;

/// Longest line that is kept: libhtp's hard limit.
pub(super) const MAX_LINE: usize = 18_000;
/// Octets of all headers of a message that are kept.
const MAX_OCTETS: usize = 64 << 10;

/// Lines of one direction with their ends, out of a stream that is cut anywhere.
#[derive(Default)]
pub(super) struct RawLines {
    held: Vec<u8>,
    is_cut: bool,
}

impl RawLines {
    /// The next line with its end, and whether it was too long; `data` is moved behind it. None where no line ends
    /// in it: it is kept then.
    pub fn next<'a>(&mut self, data: &mut &'a [u8]) -> Option<(Cow<'a, [u8]>, bool)> {
        let end = data.iter().position(|octet| *octet == b'\n');
        let (head, rest) = data.split_at_checked(end.map_or(data.len(), |end| end + 1))?;
        *data = rest;
        if end.is_some() && self.held.is_empty() && head.len() <= MAX_LINE {
            return Some((Cow::Borrowed(head), false));
        }
        let room = MAX_LINE.saturating_sub(self.held.len());
        self.held.extend_from_slice(head.get(..room).unwrap_or(head));
        self.is_cut |= head.len() > room;
        let is_cut = self.is_cut;
        end.map(|_| (Cow::Owned(self.take()), is_cut))
    }

    /// What was begun.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// The same, which is no line any more.
    pub fn take(&mut self) -> Vec<u8> {
        self.is_cut = false;
        std::mem::take(&mut self.held)
    }

    pub fn memory(&self) -> usize {
        self.held.capacity()
    }
}

/// A line without its end.
pub(super) fn chomped(line: &[u8]) -> &[u8] {
    let mut line = line.strip_suffix(b"\n").unwrap_or(line);
    while let Some(shorter) = line.strip_suffix(b"\r") {
        line = shorter;
    }
    line
}

/// The headers of a message.
#[derive(Default)]
pub(super) struct Headers {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    octets: usize,
    most: usize,
    /// Some were left out.
    pub is_full: bool,
}

impl Headers {
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Takes a line; what is wrong with it.
    pub fn line(&mut self, line: &[u8]) -> Option<&'static str> {
        let is_folded = line.first().is_some_and(|octet| matches!(octet, b' ' | b'\t'));
        if self.octets + line.len() > MAX_OCTETS {
            self.is_full = true;
            return None;
        }
        if let (true, Some((_, value))) = (is_folded, self.fields.last_mut()) {
            let more = line.trim_ascii();
            if !value.is_empty() && !more.is_empty() {
                value.push(b' ');
            }
            value.extend_from_slice(more);
            self.octets += more.len() + 1;
            return None;
        }
        if self.fields.len() >= self.most {
            self.is_full = true;
            return None;
        }
        let colon = line.iter().position(|octet| *octet == b':');
        let (name, value) = match colon.and_then(|at| line.split_at_checked(at)) {
            Some((name, value)) => (name.trim_ascii(), value.get(1..).unwrap_or_default().trim_ascii()),
            None => (&[][..], line.trim_ascii()),
        };
        self.octets += name.len() + value.len() + 2;
        self.fields.push((name.to_vec(), value.to_vec()));
        match colon {
            None => Some("field_missing_colon"),
            Some(_) if name.is_empty() => Some("field_empty_name"),
            Some(_) => None,
        }
    }

    /// The first of a name, which is given in lower case. Zeros in names do not count.
    pub fn get(&self, name: &'static [u8]) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// All of a name.
    pub fn all(&self, name: &'static [u8]) -> impl Iterator<Item = &[u8]> {
        let fits = move |(found, _): &&(Vec<u8>, Vec<u8>)| {
            found.eq_ignore_ascii_case(name)
                || found.contains(&0)
                    && found.iter().filter(|o| **o != 0).map(u8::to_ascii_lowercase).eq(name.iter().copied())
        };
        self.fields.iter().filter(fits).map(|(_, value)| value.as_slice())
    }

    /// Every field, in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    pub fn memory(&self) -> usize {
        self.octets + self.fields.capacity() * size_of::<(Vec<u8>, Vec<u8>)>()
    }
}

/// A parameter of a value: `name="text"`, `name=text`, or `name*=charset'language'text` with octets in `%XX`.
pub(super) fn parameter(value: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut rest = value;
    loop {
        // The next semicolon that is not quoted.
        let mut quoted = false;
        let end = rest.iter().position(|octet| {
            quoted ^= *octet == b'"';
            *octet == b';' && !quoted
        });
        let part = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().trim_ascii();
        let found = part.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
        let after = part.get(name.len()..).unwrap_or_default();
        if found {
            let (is_extended, after) = match after.strip_prefix(b"*") {
                Some(after) => (true, after),
                None => (false, after),
            };
            if let Some(text) = after.trim_ascii_start().strip_prefix(b"=") {
                let text = text.trim_ascii();
                if is_extended {
                    let text = text.splitn(3, |octet| *octet == b'\'').nth(2).unwrap_or(text);
                    return Some(super::uri::unescaped(text));
                }
                return Some(match text.strip_prefix(b"\"") {
                    Some(text) => {
                        let end = text.iter().position(|octet| *octet == b'"').unwrap_or(text.len());
                        text.get(..end).unwrap_or(text).to_vec()
                    }
                    None => text.to_vec(),
                });
            }
        }
        rest = rest.get(end? + 1..)?;
    }
}

/// A request line. What stands between the method and the version is the URI, blanks and all; without a version it is
/// HTTP/0.9.
pub(super) struct RequestLine {
    pub method: Vec<u8>,
    pub uri: Vec<u8>,
    /// `HTTP/1.1`.
    pub protocol: Option<Vec<u8>>,
}

impl RequestLine {
    pub fn of(line: &[u8]) -> Self {
        let line = line.trim_ascii();
        let blank = |octet: &u8| matches!(octet, b' ' | b'\t' | 0x0b | 0x0c);
        let end = line.iter().position(blank).unwrap_or(line.len());
        let (method, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
        let rest = rest.trim_ascii();
        let last = rest.iter().rposition(blank).map_or(0, |at| at + 1);
        let word = rest.get(last..).unwrap_or_default();
        let is_version = word.get(..5).is_some_and(|head| head.eq_ignore_ascii_case(b"HTTP/"));
        let (uri, protocol) = if is_version {
            (rest.get(..last).unwrap_or_default().trim_ascii_end(), Some(word.to_vec()))
        } else {
            (rest, None)
        };
        Self { method: method.to_vec(), uri: uri.to_vec(), protocol }
    }

    /// Whether a line can be one: by a word in capitals, something asked for, and a version.
    pub fn looks_so(line: &[u8]) -> bool {
        let request = Self::of(line);
        let is_method =
            |m: &[u8]| (2..32).contains(&m.len()) && m.iter().all(|o| o.is_ascii_uppercase() || *o == b'_');
        is_method(&request.method) && !request.uri.is_empty() && request.protocol.is_some()
    }
}

/// A status line.
#[derive(Default)]
pub(super) struct StatusLine {
    pub protocol: Vec<u8>,
    /// The status as it was written.
    pub status: Vec<u8>,
    pub message: Vec<u8>,
}

impl StatusLine {
    /// None where the line does not look like one: browsers take it for the body then.
    pub fn of(line: &[u8]) -> Option<Self> {
        let blank = |octet: &u8| matches!(octet, b' ' | b'\t' | 0x0b | 0x0c | b'\r' | 0);
        let start = line.iter().position(|octet| !blank(octet))?;
        let line = line.get(start..)?;
        if !line.get(..4)?.eq_ignore_ascii_case(b"HTTP") {
            return None;
        }
        let word = |line: &[u8]| -> (Vec<u8>, Vec<u8>) {
            let end = line.iter().position(blank).unwrap_or(line.len());
            let (word, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
            (word.to_vec(), rest.trim_ascii_start().to_vec())
        };
        let (protocol, rest) = word(line);
        let (status, message) = word(&rest);
        Some(Self { protocol, status, message: message.trim_ascii_end().to_vec() })
    }

    /// The status as a number of three digits.
    pub fn code(&self) -> Option<u16> {
        let text = std::str::from_utf8(&self.status).ok()?;
        text.parse().ok().filter(|code| (100..1000).contains(code))
    }
}

/// A number in decimal digits, whatever stands before and behind it.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    let digits = text.get(start..)?;
    let end = digits.iter().position(|octet| !octet.is_ascii_digit()).unwrap_or(digits.len());
    std::str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}

/// `bytes 0-67/68`: begin, end and size, as far as they are there.
pub(super) fn content_range(text: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let text = text.trim_ascii();
    let text = text.get(5..).filter(|_| text.get(..5).is_some_and(|t| t.eq_ignore_ascii_case(b"bytes")))?;
    let number = |text: &[u8]| std::str::from_utf8(text.trim_ascii()).ok()?.parse::<u64>().ok();
    let slash = text.iter().position(|octet| *octet == b'/')?;
    let (range, size) = text.split_at_checked(slash)?;
    let range = range.trim_ascii().strip_prefix(b"=").unwrap_or(range);
    let dash = range.iter().position(|octet| *octet == b'-')?;
    let (start, end) = (number(range.get(..dash)?)?, number(range.get(dash + 1..)?)?);
    (start <= end).then(|| (start, end, size.get(1..).and_then(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_read_as_servers_do() {
        let read = |line: &[u8]| {
            let RequestLine { method, uri, protocol } = RequestLine::of(line);
            [method, uri, protocol.unwrap_or_default()].map(|t| String::from_utf8(t).unwrap())
        };
        assert_eq!(read(b"GET /a b HTTP/1.1"), ["GET", "/a b", "HTTP/1.1"]);
        assert_eq!(read(b"  GET\t/  http/1.0  "), ["GET", "/", "http/1.0"]);
        assert_eq!(read(b"GET /old"), ["GET", "/old", ""]);
        assert_eq!(read(b""), ["", "", ""]);
        assert!(RequestLine::looks_so(b"GET / HTTP/1.1") && !RequestLine::looks_so(b"some text HTTP/1.1"));
    }

    #[test]
    fn parameters_are_found_outside_of_quotes() {
        let value = b"attachment; x=\"a;filename=no\"; FileName=\"a b;c.txt\"; name*=utf-8''%e2%82%ac";
        assert_eq!(parameter(value, b"filename").unwrap(), b"a b;c.txt");
        assert_eq!(parameter(value, b"name").unwrap(), "\u{20ac}".as_bytes());
        assert_eq!(parameter(value, b"x").unwrap(), b"a;filename=no");
        assert_eq!(parameter(value, b"boundary"), None);
    }

    #[test]
    fn headers_are_folded_and_bounded() {
        let mut headers = Headers::new(2);
        let lines: [&[u8]; 4] = [b"A : one", b"  two", b"no colon", b"b: left out"];
        let wrong: Vec<_> = lines.iter().map(|line| headers.line(line)).collect();
        assert_eq!(wrong, [None, None, Some("field_missing_colon"), None]);
        assert_eq!(headers.get(b"a"), Some(&b"one two"[..]));
        assert!(headers.is_full && headers.get(b"b").is_none());
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(content_range(b"bytes 0-67/68"), Some((0, 67, Some(68))));
        assert_eq!(content_range(b"bytes 5-9/*"), Some((5, 9, None)));
        assert_eq!(content_range(b"bytes 9-5/10"), None);
        assert_eq!(content_range(b"bytes */10"), None);
    }
}
