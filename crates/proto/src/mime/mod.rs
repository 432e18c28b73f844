//! Messages (RFC 5322) and their parts (RFC 2045 to 2049), parsed as they arrive: only a line of a body that may be a
//! boundary is kept.

mod buffers;
mod decode;
mod files;
mod head;
mod mail_table;
mod urls;

pub(crate) use buffers::{CC, DATE, FROM, MESSAGE_ID, RECEIVED, SUBJECT, TO, URL, X_MAILER};
pub(crate) use decode::base64;
pub(crate) use files::{Carrier, Message};
pub(crate) use head::{Head, address, hosts};
pub use mail_table::MAIL;
pub(crate) use urls::{is_ipv4, is_ipv6, is_program, without_scheme};

use crate::line::trimmed;
use crate::work::looked_at;
use decode::Decoder;
use head::Description;
use urls::Urls;

/// Maximum nesting depth of parts: Zeek allows 100, ordinary mail hardly has 10.
const MAX_DEPTH: usize = 32;
/// Maximum number of parts of a message; later bytes belong to the last one.
const MAX_PARTS: usize = 1024;
/// Maximum length of a header line in bytes; RFC 5322 allows 998.
const MAX_LINE: usize = 8 << 10;
/// Maximum length of a line that may be a boundary, in bytes; RFC 2046 allows 70 bytes and spaces after them.
const MAX_BOUNDARY: usize = 256;
/// Maximum length of a file name in bytes, as in Suricata.
const MAX_NAME: usize = 255;

/// An element of a message.
pub(crate) enum PartEvent<'a> {
    /// The message's own header, which is complete.
    Head(&'a Head),
    /// Begin of a part without parts.
    Begin(&'a Part),
    /// Its next bytes, decoded.
    Data(&'a [u8]),
    /// Bytes of the part are missing.
    Gap(u64),
    /// End of the part; `true` if it is complete.
    End(bool),
    /// Begin of an attached message. Messages may be in messages, and all of them have parts.
    MessageBegin(&'a Part),
    /// The next bytes of all attached messages that have begun and not ended.
    MessageData(&'a [u8]),
    /// Bytes of these messages are missing.
    MessageGap(u64),
    /// End of the attached message that began last; `true` if it is complete.
    MessageEnd(bool),
    /// An error.
    Anomaly(&'static str, &'a [u8]),
}

/// A part without parts, or an attached message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// Media type in lower case; text/plain by default.
    pub media: Vec<u8>,
    /// Declared file name.
    pub name: Option<Vec<u8>>,
    /// Nesting depth: number of enclosing parts and messages, itself included.
    pub depth: u64,
}

type Sink<'a> = &'a mut dyn FnMut(PartEvent<'_>);

/// A message that is being parsed.
#[derive(Debug)]
pub(crate) struct Mail {
    /// The message's own header.
    pub head: Head,
    /// Names of the attachments.
    pub attachments: Vec<Vec<u8>>,
    /// Bytes of the message.
    pub bytes: u64,
    /// Whether bytes are missing.
    pub has_gap: bool,
    urls: Urls,
    place: Place,
    /// The boundaries of the open parts, the innermost last.
    boundaries: Vec<Vec<u8>>,
    /// Number of nested messages.
    nested: usize,
    attached: Attached,
    parts: usize,
    /// A line that may be a boundary, or a header line.
    line: Vec<u8>,
    is_line_cut: bool,
    at_start: bool,
    /// The end of the previous line: it belongs to a boundary if one follows.
    end: &'static [u8],
}

#[derive(Debug)]
enum Place {
    /// In the header of the message, or of a message in it, or of a part.
    Head(Option<Head>),
    /// In a part without parts.
    Leaf { decoder: Decoder, is_text: bool, is_whole: bool },
    /// Before the first part or after the last.
    Between,
}

impl Default for Mail {
    fn default() -> Self {
        Self {
            head: Head::default(),
            attachments: Vec::new(),
            bytes: 0,
            has_gap: false,
            urls: Urls::default(),
            place: Place::Head(None),
            boundaries: Vec::new(),
            nested: 0,
            attached: Attached::default(),
            parts: 0,
            line: Vec::new(),
            is_line_cut: false,
            at_start: true,
            end: b"",
        }
    }
}

impl Mail {
    /// Whether the message's own header is complete.
    pub fn has_head(&self) -> bool {
        !matches!(self.place, Place::Head(None))
    }

    /// Takes the next bytes of the message.
    pub fn bytes(&mut self, mut data: &[u8], sink: Sink<'_>) {
        self.bytes += data.len() as u64;
        while !data.is_empty() {
            let length = data.iter().position(|byte| *byte == b'\n').map_or(data.len(), |at| at + 1);
            let (piece, rest) = data.split_at(length);
            data = rest;
            looked_at(length);
            match self.place {
                Place::Head(_) => self.of_head(piece, sink),
                _ => self.of_body(piece, sink),
            }
        }
    }

    /// Takes a gap in the message.
    pub fn gap(&mut self, bytes: u64, sink: Sink<'_>) {
        self.has_gap = true;
        self.bytes += bytes;
        let line = std::mem::take(&mut self.line);
        self.attached.bytes(&line, sink);
        self.attached.gap(bytes, sink);
        if let Place::Leaf { .. } = self.place {
            self.content(&line, sink);
            self.flush_end(sink);
            sink(PartEvent::Gap(bytes));
        }
        if let Place::Leaf { is_whole, .. } = &mut self.place {
            *is_whole = false;
        }
        // The start of the next line is unknown, and the gap may contain the end of a header.
        (self.at_start, self.is_line_cut, self.end) = (false, true, b"");
    }

    /// Ends the message; `is_whole`: it is complete.
    pub fn end(&mut self, is_whole: bool, sink: Sink<'_>) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            match self.place {
                Place::Head(_) => self.head_line(&line, sink),
                _ => {
                    if !self.boundary(&line, sink) {
                        self.attached.bytes(&line, sink);
                        self.content(&line, sink);
                    }
                }
            }
        }
        if !self.has_head() {
            sink(PartEvent::Head(&self.head));
        }
        self.leave(is_whole, sink);
        self.attached.leave(0, is_whole, sink);
        self.place = Place::Between;
    }

    /// URLs in the text of the message, each once.
    pub fn urls(&self) -> &[Vec<u8>] {
        &self.urls.found
    }

    /// Approximate heap memory in bytes.
    pub fn memory(&self) -> usize {
        let names = self.attachments.iter().chain(&self.boundaries).map(|name| name.capacity() + 24);
        let head = if let Place::Head(Some(head)) = &self.place { head.memory() } else { 0 };
        self.head.memory() + head + self.urls.memory() + self.line.capacity() + names.sum::<usize>()
    }

    fn of_head(&mut self, piece: &[u8], sink: Sink<'_>) {
        let room = MAX_LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or(piece));
        self.is_line_cut |= piece.len() > room;
        if piece.last() != Some(&b'\n') {
            return;
        }
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_line_cut) {
            sink(PartEvent::Anomaly("MIME_LONG_LINE", &line));
        }
        self.at_start = true;
        self.head_line(&line, sink);
        if self.line.capacity() == 0 && line.capacity() <= 1024 {
            self.line = line;
            self.line.clear();
        }
    }

    fn head_line(&mut self, line: &[u8], sink: Sink<'_>) {
        looked_at(line.len());
        let text = trimmed(line);
        if text.starts_with(b"--") && self.boundary(line, sink) {
            return;
        }
        self.attached.bytes(line, sink);
        let is_own = !self.has_head();
        let Place::Head(head) = &mut self.place else { return };
        let head = head.as_mut().unwrap_or(&mut self.head);
        if !text.is_empty() {
            let was_cut = head.is_cut;
            head.line(text);
            if head.is_cut && !was_cut {
                sink(PartEvent::Anomaly("MIME_LONG_HEADER_VALUE", text));
            }
            return;
        }
        let description = head.description();
        let encoding = head.get("content-transfer-encoding").unwrap_or_default();
        if is_own {
            sink(PartEvent::Head(head));
        }
        self.begin(description, &encoding, sink);
    }

    /// Handles the end of a header and begins the content after it.
    fn begin(&mut self, description: Description, encoding: &[u8], sink: Sink<'_>) {
        let depth = self.boundaries.len() + self.nested;
        let is_composite = description.media.starts_with(b"multipart/") && !description.boundary.is_empty()
            || description.media == b"message/rfc822";
        self.parts += 1;
        if self.parts > MAX_PARTS || is_composite && depth >= MAX_DEPTH {
            if self.parts == MAX_PARTS + 1 || is_composite {
                let name = if is_composite { "exceeded_mime_max_depth" } else { "too_many_mime_parts" };
                sink(PartEvent::Anomaly(name, b""));
            }
            self.place = Place::Between;
            return;
        }
        if is_composite {
            if description.media == b"message/rfc822" {
                self.nested += 1;
                let Description { media, name, .. } = description;
                let part = Part { media, name, depth: depth as u64 + 1 };
                self.attached.begin(&part, self.boundaries.len(), sink);
                self.place = Place::Head(Some(Head::default()));
            } else {
                let mut boundary = description.boundary;
                if boundary.len() > MAX_BOUNDARY / 2 {
                    sink(PartEvent::Anomaly("MIME_LONG_BOUNDARY", &boundary));
                    boundary.truncate(MAX_BOUNDARY / 2);
                }
                self.boundaries.push(boundary);
                self.place = Place::Between;
            }
            return;
        }
        let is_text = matches!(description.media.as_slice(), b"" | b"text/plain" | b"text/html");
        let mut name = description.name;
        if let Some(name) = name.as_mut().filter(|name| name.len() > MAX_NAME) {
            sink(PartEvent::Anomaly("MIME_LONG_FILENAME", name));
            name.truncate(MAX_NAME);
        }
        self.attachments.extend(name.clone());
        let media = if description.media.is_empty() { b"text/plain".to_vec() } else { description.media };
        sink(PartEvent::Begin(&Part { media, name, depth: depth as u64 + 1 }));
        self.place = Place::Leaf { decoder: Decoder::named(encoding), is_text, is_whole: true };
    }

    fn of_body(&mut self, piece: &[u8], sink: Sink<'_>) {
        let is_complete = piece.last() == Some(&b'\n');
        // The previous line end was cut between `\r` and `\n`.
        if self.end == b"\r" && self.line.is_empty() && piece == b"\n" {
            (self.end, self.at_start) = (b"\r\n", true);
            self.attached.bytes(piece, sink);
            return;
        }
        let may_begin = self.at_start && piece.first() == Some(&b'-') && !self.boundaries.is_empty();
        if self.line.is_empty() && !may_begin {
            self.attached.bytes(piece, sink);
            self.content(piece, sink);
            self.at_start = is_complete;
            return;
        }
        self.at_start = false;
        self.line.extend_from_slice(piece.get(..MAX_BOUNDARY).unwrap_or(piece));
        looked_at(1 + piece.len());
        let may_be = self.line.starts_with(b"--") || self.line == b"-";
        if may_be && !is_complete && piece.len() <= MAX_BOUNDARY && self.line.len() <= MAX_BOUNDARY {
            return;
        }
        let line = std::mem::take(&mut self.line);
        if is_complete && may_be && self.boundary(&line, sink) {
            self.at_start = true;
            return;
        }
        for bytes in [&line, piece.get(MAX_BOUNDARY..).unwrap_or_default()] {
            self.attached.bytes(bytes, sink);
            self.content(bytes, sink);
        }
        self.at_start = is_complete;
    }

    /// Returns whether a line is a boundary, and begins the part after it.
    fn boundary(&mut self, line: &[u8], sink: Sink<'_>) -> bool {
        looked_at(line.len() + self.boundaries.len());
        let Some(text) = line.trim_ascii_end().strip_prefix(b"--") else { return false };
        let fits = |boundary: &Vec<u8>| {
            text.strip_prefix(boundary.as_slice()).is_some_and(|rest| rest.is_empty() || rest == b"--")
        };
        let Some(at) = self.boundaries.iter().rposition(fits) else { return false };
        let is_last = self.boundaries.get(at).is_some_and(|boundary| text.len() > boundary.len());
        self.end = b"";
        self.leave(true, sink);
        // The boundary of a part around it ends an attached message; one of its parts belongs to it.
        self.attached.leave(at + 1, true, sink);
        self.attached.bytes(line, sink);
        if is_last {
            self.boundaries.truncate(at);
            self.place = Place::Between;
        } else {
            self.boundaries.truncate(at + 1);
            self.place = Place::Head(Some(Head::default()));
        }
        true
    }

    /// Ends a part without parts.
    fn leave(&mut self, ends_well: bool, sink: Sink<'_>) {
        self.end = b"";
        let Place::Leaf { decoder, is_text, is_whole } = &mut self.place else { return };
        let urls = &mut self.urls;
        decoder.end(&mut |bytes| {
            if *is_text {
                urls.bytes(bytes);
            }
            sink(PartEvent::Data(bytes));
        });
        if *is_text {
            urls.end();
        }
        if let Decoder::Base64(base64) = decoder
            && base64.is_broken
        {
            sink(PartEvent::Anomaly("MIME_INVALID_BASE64", b""));
        }
        sink(PartEvent::End(*is_whole && ends_well));
        self.place = Place::Between;
    }

    /// Takes bytes of a part. A line end is held until it is known to belong to the part.
    fn content(&mut self, piece: &[u8], sink: Sink<'_>) {
        if piece.is_empty() {
            return;
        }
        self.flush_end(sink);
        let (text, end) = split_end(piece);
        self.decode(text, sink);
        self.end = end;
    }

    fn flush_end(&mut self, sink: Sink<'_>) {
        let end = std::mem::take(&mut self.end);
        self.decode(end, sink);
    }

    fn decode(&mut self, bytes: &[u8], sink: Sink<'_>) {
        let Place::Leaf { decoder, is_text, .. } = &mut self.place else { return };
        if bytes.is_empty() {
            return;
        }
        let urls = &mut self.urls;
        decoder.bytes(bytes, &mut |bytes| {
            if *is_text {
                urls.bytes(bytes);
            }
            sink(PartEvent::Data(bytes));
        });
    }
}

/// The attached messages that have begun and not ended.
#[derive(Debug, Default)]
struct Attached {
    /// Of each, the number of parts with parts around it.
    around: Vec<usize>,
    /// A line's end that belongs to a boundary if one follows.
    end: &'static [u8],
}

impl Attached {
    fn begin(&mut self, part: &Part, around: usize, sink: Sink<'_>) {
        sink(PartEvent::MessageBegin(part));
        self.around.push(around);
    }

    /// Takes bytes as sent; a line's end is held until it is known to belong to the message.
    fn bytes(&mut self, piece: &[u8], sink: Sink<'_>) {
        if self.around.is_empty() || piece.is_empty() {
            return;
        }
        if (self.end, piece) == (b"\r", b"\n") {
            self.end = b"\r\n";
            return;
        }
        let (text, end) = split_end(piece);
        let before = std::mem::replace(&mut self.end, end);
        for bytes in [before, text].into_iter().filter(|bytes| !bytes.is_empty()) {
            sink(PartEvent::MessageData(bytes));
        }
    }

    fn gap(&mut self, bytes: u64, sink: Sink<'_>) {
        if !self.around.is_empty() {
            let end = std::mem::take(&mut self.end);
            sink(PartEvent::MessageData(end));
            sink(PartEvent::MessageGap(bytes));
        }
    }

    /// Ends the messages that have at least this number of parts around them.
    fn leave(&mut self, around: usize, is_whole: bool, sink: Sink<'_>) {
        while self.around.last().is_some_and(|last| *last >= around) {
            self.around.pop();
            self.end = b"";
            sink(PartEvent::MessageEnd(is_whole));
        }
    }
}

/// A line, or a part of one, and its end.
fn split_end(piece: &[u8]) -> (&[u8], &'static [u8]) {
    match piece {
        [text @ .., b'\r', b'\n'] => (text, b"\r\n"),
        [text @ .., b'\n'] => (text, b"\n"),
        [text @ .., b'\r'] => (text, b"\r"),
        text => (text, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements, with the data of a part joined.
    fn met(message: &[u8], size: usize) -> (Vec<String>, Mail) {
        let (mut mail, mut events) = (Mail::default(), Vec::<String>::new());
        let (mut data, mut messages, mut heads) = (String::new(), Vec::<String>::new(), 0);
        let mut sink = |event: PartEvent<'_>| match event {
            PartEvent::Head(_) => heads += 1,
            PartEvent::Begin(part) => {
                let name = part.name.as_deref().unwrap_or_default().escape_ascii().to_string();
                events.push(format!("{} {name}", part.media.escape_ascii()));
            }
            PartEvent::Data(bytes) => data += &bytes.escape_ascii().to_string(),
            PartEvent::Gap(bytes) => data += &format!("<{bytes}>"),
            PartEvent::End(is_whole) => events.push(format!("{}|{is_whole}", std::mem::take(&mut data))),
            PartEvent::Anomaly(name, _) => events.push(name.to_owned()),
            PartEvent::MessageBegin(part) => {
                events.push(format!("message {}", part.depth));
                messages.push(String::new());
            }
            PartEvent::MessageData(bytes) => {
                messages.iter_mut().for_each(|message| *message += &bytes.escape_ascii().to_string());
            }
            PartEvent::MessageGap(bytes) => {
                messages.iter_mut().for_each(|message| *message += &format!("<{bytes}>"));
            }
            PartEvent::MessageEnd(is_whole) => {
                events.push(format!("[{}]|{is_whole}", messages.pop().unwrap()));
            }
        };
        message.chunks(size).for_each(|piece| mail.bytes(piece, &mut sink));
        mail.end(true, &mut sink);
        assert_eq!(heads, 1);
        (events, mail)
    }

    fn same_however_cut(message: &[u8], expected: &[&str]) {
        for size in [message.len(), 1, 2, 3, 5, 64] {
            assert_eq!(met(message, size).0, expected, "by {size}");
        }
    }

    #[test]
    fn a_plain_message_is_one_part() {
        let message = b"Subject: x\r\nnonsense\r\n\r\n--no boundary\r\nhttp://a.b/c\r\n\r\n";
        same_however_cut(message, &["text/plain ", "--no boundary\\r\\nhttp://a.b/c\\r\\n|true"]);
        let (_, mail) = met(message, 1);
        assert_eq!(mail.head.get("subject").unwrap(), b"x");
        assert_eq!(mail.urls(), [b"http://a.b/c".to_vec()]);
        same_however_cut(b"Subject: x\r\n", &[]);
    }

    #[test]
    fn nested_parts_are_separated() {
        let message = b"Content-Type: multipart/mixed; boundary=\"outer\"\r\n\r\npreamble\r\n--outer\r\n\
            Content-Type: multipart/alternative; boundary=inner\r\n\r\n--inner\r\n\r\n-a\r\n--b\r\n--inner \r\n\
            Content-Type: TEXT/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<a=\r\nb>=3D\r\n--inner--\r\n\
            between\r\n--outer\r\nContent-Type: application/zip; name=a.zip\r\nContent-Transfer-Encoding: base64\r\n\r\n\
            AAEC\r\nAw==\r\n--outer\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nbody\r\n\r\n--outer--\r\nend\r\n";
        let expected = [
            "text/plain ",
            "-a\\r\\n--b|true",
            "text/html ",
            "<ab>=|true",
            "application/zip a.zip",
            "\\x00\\x01\\x02\\x03|true",
            "message 2",
            "text/plain ",
            "body\\r\\n|true",
            "[Subject: inner\\r\\n\\r\\nbody\\r\\n]|true",
        ];
        same_however_cut(message, &expected);
        assert_eq!(met(message, 7).1.attachments, [b"a.zip".to_vec()]);
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let mut message = Vec::new();
        for depth in 0..100 {
            message
                .extend(format!("Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\n").bytes());
        }
        let (events, mail) = met(&message, 1000);
        assert!(events.contains(&"exceeded_mime_max_depth".to_owned()));
        assert!(mail.boundaries.len() <= MAX_DEPTH);
        let mut message = b"Content-Type: multipart/mixed; boundary=b\n\n".to_vec();
        (0..2 * MAX_PARTS).for_each(|_| message.extend(b"--b\n\nx\n"));
        let (events, _) = met(&message, 1000);
        assert_eq!(events.iter().filter(|event| *event == "too_many_mime_parts").count(), 1);
        assert_eq!(events.iter().filter(|event| *event == "x|true").count(), MAX_PARTS - 1);
    }

    #[test]
    fn gaps_are_emitted_and_the_next_part_is_found() {
        let (mut mail, mut ends) = (Mail::default(), Vec::new());
        let mut sink = |event: PartEvent<'_>| {
            if let PartEvent::End(is_whole) = event {
                ends.push(is_whole);
            }
        };
        mail.bytes(b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx", &mut sink);
        mail.gap(10, &mut sink);
        mail.bytes(b"y\n--b\n\nz\n--b--\n", &mut sink);
        mail.end(true, &mut sink);
        assert_eq!(ends, [false, true]);
    }
}
