//! Start lines and headers, parsed as leniently as servers and browsers do.

use crate::work::looked_at;
use std::borrow::Cow;

/// Maximum length of a line in bytes: libhtp's hard limit.
pub(super) const MAX_LINE: usize = 18_000;
/// Maximum length of all headers of a message in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Lines of one direction, including line ends, from a stream that is cut anywhere.
#[derive(Default)]
pub(super) struct RawLines {
    /// The incomplete line, if any.
    held: Option<Box<Held>>,
}

#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl RawLines {
    /// The next line with its end, and whether it was too long; `data` is advanced past it. `None` if no line ends in
    /// `data`, whose bytes are then kept.
    pub fn next<'a>(&mut self, data: &mut &'a [u8]) -> Option<(Cow<'a, [u8]>, bool)> {
        let end = data.iter().position(|byte| *byte == b'\n');
        let (head, rest) = data.split_at_checked(end.map_or(data.len(), |end| end + 1))?;
        *data = rest;
        looked_at(head.len());
        if end.is_some() && self.held.is_none() && head.len() <= MAX_LINE {
            return Some((Cow::Borrowed(head), false));
        }
        let held = self.held.get_or_insert_default();
        let room = MAX_LINE.saturating_sub(held.bytes.len());
        held.bytes.extend_from_slice(head.get(..room).unwrap_or(head));
        held.is_cut |= head.len() > room;
        let is_cut = held.is_cut;
        end.map(|_| (Cow::Owned(self.take()), is_cut))
    }

    /// The incomplete line.
    pub fn held(&self) -> &[u8] {
        self.held.as_ref().map_or(&[], |held| &held.bytes)
    }

    /// Takes the incomplete bytes, which are no longer a line.
    pub fn take(&mut self) -> Vec<u8> {
        self.held.take().map_or_else(Vec::new, |held| held.bytes)
    }

    pub fn memory(&self) -> usize {
        self.held.as_ref().map_or(0, |held| size_of::<Held>() + held.bytes.capacity())
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

/// The headers of a message that is being parsed.
#[derive(Default)]
pub(super) struct Head {
    /// See [`Headers`].
    text: Vec<u8>,
    bytes: u32,
    /// Position of the last header, plus 1; 0 for none.
    last: u32,
    count: u16,
    /// Whether headers were left out.
    pub is_full: bool,
    /// Whether the last header has a colon.
    has_colon: bool,
    /// Whether the last line had a line feed alone as its end.
    pub ends_barely: bool,
    /// Whether a line of spaces has ended the headers, and an empty line may follow it.
    pub is_over: bool,
    /// The start line before the headers, if it is kept.
    pub start: Box<[u8]>,
}

impl Head {
    /// The headers after a start line, which is kept.
    pub fn after(start: &[u8]) -> Self {
        Self { start: start.into(), ..Self::default() }
    }

    /// Takes a line, up to a maximum number. Returns its error, if any.
    pub fn line(&mut self, line: &[u8], max: u16) -> Option<&'static str> {
        looked_at(line.len());
        if self.bytes as usize + line.len() > MAX_BYTES {
            self.is_full = true;
            return None;
        }
        match self.last.checked_sub(1).filter(|_| line.first().is_some_and(is_fold)) {
            Some(last) => self.fold(last as usize, unfolded(line), max),
            None => self.add(line, max),
        }
    }

    /// Whether a folded line of a response is a header of its own. As in libhtp it is one if it has a name, and the header before it
    /// is complete. A URL or a time that is folded has a colon, too.
    pub fn is_field(&self, line: &[u8]) -> bool {
        let Some(last) = self.last.checked_sub(1) else { return false };
        let is_complete = self.has_colon && self.value(last as usize).is_some_and(|value| !value.is_empty());
        let text = unfolded(line);
        let name = text.iter().position(|byte| !is_of_token(byte)).unwrap_or(text.len());
        let is_named = name > 0 && text.get(name) == Some(&b':') && text.get(name + 1) != Some(&b'/');
        is_complete && is_named && line.first().is_some_and(is_fold)
    }

    /// The value of the header at a position.
    fn value(&self, at: usize) -> Option<&[u8]> {
        Fields(self.text.get(at..)?).next().map(|(_, value)| value)
    }

    /// Adds a continuation to the header at a position, the last one.
    fn fold(&mut self, at: usize, more: &[u8], max: u16) -> Option<&'static str> {
        let value = self.value(at).unwrap_or_default();
        if !self.has_colon && more.contains(&b':') {
            // The name is folded.
            let line = [value, more].concat();
            self.bytes = self.bytes.saturating_sub(value.len() as u32 + 2);
            self.text.truncate(at);
            self.count = self.count.saturating_sub(1);
            return self.add(&line, max);
        }
        let has_blank = !value.is_empty() && !more.is_empty();
        let added = (more.len() + usize::from(has_blank)) as u32;
        if has_blank {
            self.text.push(b' ');
        }
        self.text.extend_from_slice(more);
        if let Some(length) = self.text.get_mut(at + NAME_LENGTH..).and_then(<[u8]>::first_chunk_mut) {
            *length = (u32::from_ne_bytes(*length) + added).to_ne_bytes();
        }
        self.bytes += more.len() as u32 + 1;
        None
    }

    /// Adds a header, up to a maximum number. Returns its error, if any.
    fn add(&mut self, line: &[u8], max: u16) -> Option<&'static str> {
        if self.count >= max {
            self.is_full = true;
            return None;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon.and_then(|at| line.split_at_checked(at)) {
            Some((name, value)) => (name.trim_ascii(), value.get(1..).unwrap_or_default().trim_ascii()),
            None => (&[][..], line.trim_ascii()),
        };
        self.bytes += (name.len() + value.len()) as u32 + 2;
        if self.text.capacity() == 0 {
            self.text.reserve(ORDINARY);
        }
        self.last = self.text.len() as u32 + 1;
        self.has_colon = colon.is_some();
        self.count += 1;
        self.text.extend_from_slice(&(name.len() as u16).to_ne_bytes());
        self.text.extend_from_slice(&(value.len() as u32).to_ne_bytes());
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        match colon {
            None => Some("field_missing_colon"),
            Some(_) if name.is_empty() => Some("field_empty_name"),
            Some(_) => None,
        }
    }

    /// Ends the headers.
    pub fn finish(&mut self) -> Headers {
        Headers(Some(std::mem::take(self).text.into_boxed_slice()))
    }

    pub fn memory(&self) -> usize {
        self.text.capacity() + self.start.len()
    }
}

/// Whether a byte at the beginning of a line makes it a continuation of the line before: as in libhtp, a zero byte does, too.
fn is_fold(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0)
}

/// A continuation without what makes it one.
pub(super) fn unfolded(line: &[u8]) -> &[u8] {
    let from = line.iter().position(|byte| *byte != 0 && !byte.is_ascii_whitespace());
    line.get(from.unwrap_or(line.len())..).unwrap_or_default().trim_ascii_end()
}

/// Capacity in bytes that suffices for the headers of most messages.
const ORDINARY: usize = 512;
/// Bytes of the length of a name in [`Headers`]: no name is longer than [`MAX_BYTES`] without its colon.
const NAME_LENGTH: usize = size_of::<u16>();

/// All headers of a message in one allocation: for each the length of its name and of its value in native byte order,
/// then both.
#[derive(Default)]
pub(super) struct Headers(Option<Box<[u8]>>);

impl Headers {
    /// Empty headers.
    pub const fn none() -> Self {
        Self(None)
    }

    /// The first header of a name, which is given in lower case. Zero bytes in names are ignored.
    pub fn get(&self, name: &'static [u8]) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// All headers of a name.
    pub fn all(&self, name: &'static [u8]) -> impl Iterator<Item = &[u8]> {
        let fits = move |(found, _): &(&[u8], &[u8])| {
            found.eq_ignore_ascii_case(name)
                || found.contains(&0)
                    && found.iter().filter(|o| **o != 0).map(u8::to_ascii_lowercase).eq(name.iter().copied())
        };
        self.iter().filter(fits).map(|(_, value)| value)
    }

    /// Every field, in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        Fields(self.0.as_deref().unwrap_or_default())
    }

    pub fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, |text| text.len())
    }
}

/// Fields of [`Headers`].
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.0.split_first_chunk()?;
        let (value, rest) = rest.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(u16::from_ne_bytes(*name).into())?;
        let (value, rest) = rest.split_at_checked(u32::from_ne_bytes(*value) as usize)?;
        self.0 = rest;
        Some((name, value))
    }
}

/// A parameter of a value: `name="text"`, `name=text`, or `name*=charset'language'text` with bytes in `%XX`.
pub(super) fn parameter(value: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut rest = value;
    loop {
        // The next semicolon that is not quoted.
        let mut quoted = false;
        let end = rest.iter().position(|byte| {
            quoted ^= *byte == b'"';
            *byte == b';' && !quoted
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
                    let text = text.splitn(3, |byte| *byte == b'\'').nth(2).unwrap_or(text);
                    return Some(super::uri::unescaped(text));
                }
                return Some(match text.strip_prefix(b"\"") {
                    Some(text) => {
                        let end = text.iter().position(|byte| *byte == b'"').unwrap_or(text.len());
                        text.get(..end).unwrap_or(text).to_vec()
                    }
                    None => text.to_vec(),
                });
            }
        }
        rest = rest.get(end? + 1..)?;
    }
}

/// A request line. The text between the method and the version is the URI, including spaces; without a version it is
/// HTTP/0.9.
pub(super) struct RequestLine {
    /// Method, URI and version, concatenated.
    text: Box<[u8]>,
    /// Positions of the URI and of the version.
    ends: (u16, u16),
}

/// Its parts: the method, the URI, and the version where there is one. The version is the last word; where that is
/// none, it is the first that is one, and what stands after it does not count.
fn request_parts(line: &[u8]) -> (&[u8], &[u8], Option<&[u8]>) {
    let line = line.trim_ascii();
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    let (method, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
    let rest = rest.trim_ascii();
    let word = |at: usize| rest.get(at..).unwrap_or_default();
    let is_version = |at: &usize| word(*at).get(..5).is_some_and(|head| head.eq_ignore_ascii_case(b"HTTP/"));
    let last = rest.iter().rposition(is_blank).map_or(0, |at| at + 1);
    let begins = || rest.iter().enumerate().filter(|(_, byte)| is_blank(byte)).map(|(at, _)| at + 1);
    let has_digit = |at: &usize| word(*at).get(5).is_some_and(u8::is_ascii_digit);
    let at = Some(last).filter(is_version).or_else(|| begins().find(|at| is_version(at) && has_digit(at)));
    match at {
        Some(at) => {
            let version = word(at).split(is_blank).next().unwrap_or_default();
            (method, rest.get(..at).unwrap_or_default().trim_ascii_end(), Some(version))
        }
        None => (method, rest, None),
    }
}

/// Whether a byte separates the words of a request line, as Zeek has it.
fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c)
}

/// Whether a method is in capitals, as in `M-SEARCH` and `RPC_IN_DATA`.
fn is_loud(method: &[u8]) -> bool {
    let is_begun = method.first().is_none_or(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    is_begun && method.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-'))
}

/// Whether a byte may stand in a method (RFC 9110, 5.6.2), as Zeek has it.
fn is_of_token(byte: &u8) -> bool {
    let is_separator =
        matches!(byte, b'"' | b'(' | b')' | b',' | b'/' | b':'..=b'@' | b'['..=b']' | b'{' | b'}');
    byte.is_ascii_graphic() && !is_separator
}

impl RequestLine {
    pub fn of(line: &[u8]) -> Self {
        // Longer lines do not occur: see [`MAX_LINE`].
        let line = line.get(..usize::from(u16::MAX)).unwrap_or(line);
        let (method, uri, protocol) = request_parts(line);
        let text: Box<[u8]> = [method, uri, protocol.unwrap_or_default()].concat().into();
        Self { text, ends: (method.len() as u16, (method.len() + uri.len()) as u16) }
    }

    pub fn method(&self) -> &[u8] {
        self.text.get(..usize::from(self.ends.0)).unwrap_or_default()
    }

    pub fn uri(&self) -> &[u8] {
        let (from, to) = self.ends;
        self.text.get(usize::from(from)..usize::from(to)).unwrap_or_default()
    }

    /// `HTTP/1.1`.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.text.get(usize::from(self.ends.1)..).filter(|protocol| !protocol.is_empty())
    }

    /// Whether a line is one beyond doubt: by a word, something asked for, and a version. The word is in capitals, or a
    /// path follows it: prose that ends with a version is no request.
    pub fn looks_so(line: &[u8]) -> bool {
        let (method, uri, protocol) = request_parts(line);
        let is_method = (1..32).contains(&method.len()) && method.iter().all(is_of_token);
        let is_path = uri.starts_with(b"/") || uri.starts_with(b"http://");
        let is_meant = is_path || method.len() > 1 && is_loud(method);
        is_method && is_meant && !uri.is_empty() && protocol.is_some()
    }

    /// Whether an unfinished line can still become a request: one that [looks so](Self::looks_so), or with `odd` any that
    /// [can be one](Self::is_one).
    pub fn can_begin_with(begun: &[u8], odd: bool) -> bool {
        const FORM: &[u8] = b"http://";
        let end = begun.iter().position(is_blank);
        let (method, rest) = begun.split_at_checked(end.unwrap_or(begun.len())).unwrap_or((begun, &[]));
        // It opens HTTP/2.
        if !method.iter().all(is_of_token) || end.is_some() && method == b"PRI" {
            return false;
        }
        let uri = rest.trim_ascii();
        let is_path = uri.starts_with(b"/") || uri.iter().zip(FORM).all(|(byte, form)| byte == form);
        odd || method.len() < 32 && (is_loud(method) || is_path)
    }

    /// Whether it can be one at all: a request that is odd is one all the same. Without a version it needs a method of
    /// three letters and something asked for.
    pub fn is_one(&self) -> bool {
        let method = self.method();
        let is_token = !method.is_empty() && method.iter().all(is_of_token);
        is_token && (self.protocol().is_some() || method.len() >= 3 && !self.uri().is_empty())
    }

    pub fn memory(&self) -> usize {
        self.text.len()
    }
}

/// The word of SHOUTcast servers in the place of the version; else they speak HTTP/1.0.
const ICY: &[u8] = b"ICY";

/// A status line.
#[derive(Default)]
pub(super) struct StatusLine {
    text: Box<[u8]>,
    protocol: u16,
    status: u16,
}

impl StatusLine {
    /// `None` if the line does not look like a status line: browsers then treat it as the body.
    pub fn of(line: &[u8]) -> Option<Self> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | b'\r' | 0);
        // Longer lines do not occur: see [`MAX_LINE`].
        let line = line.get(..usize::from(u16::MAX)).unwrap_or(line);
        let start = line.iter().position(|byte| !blank(byte))?;
        let line = line.get(start..)?;
        let word = |line: &[u8]| line.iter().position(blank).unwrap_or(line.len());
        let (protocol, rest) = line.split_at_checked(word(line))?;
        let rest = rest.trim_ascii_start();
        let (status, message) = rest.split_at_checked(word(rest))?;
        let is_http = protocol.get(..4).is_some_and(|head| head.eq_ignore_ascii_case(b"HTTP"));
        let is_number = status.len() == 3 && status.iter().all(u8::is_ascii_digit);
        if !(is_http || protocol == ICY && is_number) {
            return None;
        }
        let text = [protocol, status, message.trim_ascii_start().trim_ascii_end()].concat().into();
        Some(Self { text, protocol: protocol.len() as u16, status: (protocol.len() + status.len()) as u16 })
    }

    pub fn protocol(&self) -> &[u8] {
        self.text.get(..usize::from(self.protocol)).unwrap_or_default()
    }

    /// The version: the number, or the word where the protocol has another name.
    pub fn version(&self) -> &[u8] {
        match self.protocol() {
            ICY => ICY,
            protocol => protocol.get(b"HTTP/".len()..).unwrap_or_default(),
        }
    }

    /// Whether a line that begins with these bytes may be a status line.
    pub fn can_begin_with(begun: &[u8]) -> bool {
        let fits = |form: &[u8]| begun.iter().zip(form).all(|(byte, form)| byte.eq_ignore_ascii_case(form));
        fits(b"HTTP") || fits(b"ICY ")
    }

    /// The status code as written.
    pub fn status(&self) -> &[u8] {
        self.text.get(usize::from(self.protocol)..usize::from(self.status)).unwrap_or_default()
    }

    pub fn message(&self) -> &[u8] {
        self.text.get(usize::from(self.status)..).unwrap_or_default()
    }

    /// The status code as a number of three digits.
    pub fn code(&self) -> Option<u16> {
        let text = std::str::from_utf8(self.status()).ok()?;
        text.parse().ok().filter(|code| (100..1000).contains(code))
    }

    pub fn memory(&self) -> usize {
        self.text.len()
    }
}

/// A decimal number, with any bytes before and after it.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    let digits = text.get(start..)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    std::str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}

/// `bytes 0-67/68`: begin, end and size, as far as they are present.
pub(super) fn content_range(text: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let text = text.trim_ascii();
    let text = text.get(5..).filter(|_| text.get(..5).is_some_and(|t| t.eq_ignore_ascii_case(b"bytes")))?;
    let number = |text: &[u8]| std::str::from_utf8(text.trim_ascii()).ok()?.parse::<u64>().ok();
    let slash = text.iter().position(|byte| *byte == b'/')?;
    let (range, size) = text.split_at_checked(slash)?;
    let range = range.trim_ascii().strip_prefix(b"=").unwrap_or(range);
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (start, end) = (number(range.get(..dash)?)?, number(range.get(dash + 1..)?)?);
    (start <= end).then(|| (start, end, size.get(1..).and_then(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_parsed_leniently() {
        let read = |line: &[u8]| {
            let line = RequestLine::of(line);
            [line.method(), line.uri(), line.protocol().unwrap_or_default()]
                .map(|text| String::from_utf8(text.to_vec()).unwrap())
        };
        assert_eq!(read(b"GET /a b HTTP/1.1"), ["GET", "/a b", "HTTP/1.1"]);
        assert_eq!(read(b"  GET\t/  http/1.0  "), ["GET", "/", "http/1.0"]);
        assert_eq!(read(b"GET /old"), ["GET", "/old", ""]);
        assert_eq!(read(b""), ["", "", ""]);
        assert!(RequestLine::looks_so(b"GET / HTTP/1.1") && !RequestLine::looks_so(b"some text HTTP/1.1"));
    }

    #[test]
    fn parameters_outside_of_quotes_are_found() {
        let value = b"attachment; x=\"a;filename=no\"; FileName=\"a b;c.txt\"; name*=utf-8''%e2%82%ac";
        assert_eq!(parameter(value, b"filename").unwrap(), b"a b;c.txt");
        assert_eq!(parameter(value, b"name").unwrap(), "\u{20ac}".as_bytes());
        assert_eq!(parameter(value, b"x").unwrap(), b"a;filename=no");
        assert_eq!(parameter(value, b"boundary"), None);
    }

    #[test]
    fn headers_are_folded_and_bounded() {
        let mut head = Head::default();
        let lines: [&[u8]; 4] = [b"A : one", b"  two", b"no colon", b"b: left out"];
        let wrong: Vec<_> = lines.iter().map(|line| head.line(line, 2)).collect();
        assert_eq!(wrong, [None, None, Some("field_missing_colon"), None]);
        assert!(head.is_full);
        let headers = head.finish();
        assert_eq!(headers.get(b"a"), Some(&b"one two"[..]));
        assert!(headers.get(b"b").is_none());
        let all: Vec<_> = headers.iter().collect();
        assert_eq!(all, [(&b"A"[..], &b"one two"[..]), (b"", b"no colon")]);
    }

    fn fields(lines: &[&[u8]]) -> Vec<(String, String)> {
        let mut head = Head::default();
        for line in lines {
            let line = if head.is_field(line) { unfolded(line) } else { line };
            head.line(line, 9);
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        head.finish().iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// What servers of http-evader send, as libhtp reads it.
    #[test]
    fn odd_continuations_have_the_meaning_that_browsers_give_them() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(fields(&[b"A", b" :", b" one"]), [field("A", "one")]);
        assert_eq!(fields(&[b"A:", b"\0one", b"\ttwo"]), [field("A", "one two")]);
        assert_eq!(fields(&[b"A: one", b"\tB: two"]), [field("A", "one"), field("B", "two")]);
        assert_eq!(fields(&[b"A:", b"\tB: two"]), [field("A", "B: two")]);
        assert_eq!(fields(&[b"A: one", b" http://b"]), [field("A", "one http://b")]);
        assert_eq!(fields(&[b"A: one;", b" at=10:00"]), [field("A", "one; at=10:00")]);
    }

    #[test]
    fn content_ranges_are_parsed() {
        assert_eq!(content_range(b"bytes 0-67/68"), Some((0, 67, Some(68))));
        assert_eq!(content_range(b"bytes 5-9/*"), Some((5, 9, None)));
        assert_eq!(content_range(b"bytes 9-5/10"), None);
        assert_eq!(content_range(b"bytes */10"), None);
    }
}
