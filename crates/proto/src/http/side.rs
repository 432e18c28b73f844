//! One direction: the lines of a head, and the body after it.

use super::body::Body;
use super::message::{Head, Headers, RawLines, chomped, unfolded};
use super::transaction::Shared;
use super::{PROTOCOL, buffers};
use crate::early::begin_transaction;
use crate::work::looked_at;
use crate::{Anomaly, Out, Step};
use weir_wire::{Direction, Time};

/// Maximum number of headers of a message; libhtp's limit.
const MAX_HEADERS: u16 = 1024;
/// Maximum number of blank lines before a message.
const MAX_BLANK: u16 = 1024;
/// Maximum length of a chunk in bytes: libhtp rejects larger ones.
const MAX_CHUNK: u64 = i32::MAX as u64;

/// State of one direction.
pub(super) struct Side {
    pub(super) state: State,
    pub(super) lines: RawLines,
    /// The head of the current message.
    pub(super) head: Option<Box<Head>>,
    pub(super) body: Option<Box<Body>>,
    /// The current transaction.
    pub(super) current: u32,
    pub(super) blank: u16,
    pub(super) direction: Direction,
    /// Whether the headers of the current message are delivered as sent.
    pub(super) is_raw: bool,
}

/// The position in a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Before a start line.
    Start,
    /// A line that is not a status line. The next line shows whether it begins a body.
    Irregular(Box<IrregularLine>),
    Head,
    /// After a request without a version, of HTTP/0.9 or odd: headers may follow it all the same.
    Old,
    /// In a body with this many bytes left.
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// In a body that ends with the stream.
    Close,
    /// After `CONNECT`, until the response.
    Wait,
    /// A gap, perhaps with whole messages: the next message boundary is unknown.
    Lost {
        messages: bool,
    },
}

/// A line before a status line, with its end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct IrregularLine(pub(super) Vec<u8>);

impl Side {
    /// Prefetches memory that the next chunk needs.
    pub(super) fn touch(&self) -> u64 {
        self.body.as_ref().map_or(0, |body| body.wire)
    }

    /// Begins a message with its first line.
    pub(super) fn begin(&mut self, id: u32, line: &[u8], out: &mut dyn Out) {
        let asked = out.asked();
        begin_transaction(self.direction, id.into(), out);
        let buffer = match self.direction {
            Direction::Forward => &buffers::REQUEST_LINE,
            Direction::Reverse => &buffers::RESPONSE_LINE,
        };
        out.emit(buffer, self.direction, line);
        self.is_raw = asked.has(&buffers::HEADER_RAW);
        self.current = id;
        self.blank = 0;
        self.head = asked.has(&buffers::START).then(|| Box::new(Head::after(line)));
        self.state = State::Head;
    }

    /// Takes the start line of the current message; empty if `http.start` is not asked for.
    pub(super) fn take_start(&mut self) -> Box<[u8]> {
        self.head.as_mut().map(|head| std::mem::take(&mut head.start)).unwrap_or_default()
    }

    /// Takes the received headers.
    pub(super) fn take_headers(&mut self) -> Headers {
        self.head.take().map(|mut head| head.finish()).unwrap_or_default()
    }

    /// Adds the received headers, although incomplete, to their transaction.
    pub(super) fn give_headers(&mut self, flow: &mut Shared) {
        let headers = self.take_headers();
        if let Some(transaction) = flow.transaction(self.current) {
            match self.direction {
                Direction::Forward => transaction.request_headers = headers,
                Direction::Reverse => transaction.answer().headers = headers,
            }
        }
    }

    /// Emits an anomaly of the message that is read.
    pub(super) fn anomaly(&self, name: &'static str, detail: &[u8], time: Time, out: &mut dyn Out) {
        let Self { direction, current, .. } = *self;
        let found = Anomaly { name, direction, detail, transaction: Some(current.into()) };
        out.record(found.record(time, &PROTOCOL));
    }

    /// Handles an empty line before a message.
    pub(super) fn blank(&mut self) -> Option<Step> {
        self.blank += 1;
        (self.blank > MAX_BLANK).then_some(Step::GiveUp)
    }

    /// Takes the next line of a head. Returns whether it was the last.
    pub(super) fn head(&mut self, data: &mut &[u8], time: Time, out: &mut dyn Out) -> bool {
        if self.is_over() {
            *data = data.strip_prefix(b"\n").unwrap_or(data);
            out.more(data.len());
            return true;
        }
        let Some((line, is_cut)) = self.lines.next(data) else { return false };
        out.more(data.len());
        if self.is_raw && self.state == State::Head {
            out.buffer(&buffers::HEADER_RAW, self.direction, &line);
        }
        let text = chomped(&line);
        if text.is_empty() {
            return !self.goes_on(&line);
        }
        // In browsers, a line of spaces also ends the head of a response. In libhtp the head may end with the empty line after it.
        let is_blank = text.iter().all(|byte| matches!(byte, b' ' | b'\t'));
        if is_blank && self.direction == Direction::Reverse {
            let waits = self.state == State::Head;
            self.head.get_or_insert_default().is_over = waits;
            return !waits;
        }
        if is_cut {
            let name = match self.direction {
                Direction::Forward => "request_field_too_long",
                Direction::Reverse => "response_field_too_long",
            };
            self.anomaly(name, text, time, out);
        }
        self.header(text, time, out);
        self.head.get_or_insert_default().ends_barely = !line.ends_with(b"\r\n");
        false
    }

    /// Whether the head is complete, and only an empty line may still belong to it.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Head && self.head.as_ref().is_some_and(|head| head.is_over)
    }

    /// Whether the head of a response goes on after a line of carriage returns: as in libhtp it ends with two of them only after a line
    /// that has none.
    fn goes_on(&self, line: &[u8]) -> bool {
        let ends_barely = self.head.as_ref().is_some_and(|head| head.ends_barely);
        self.direction == Direction::Reverse && line.ends_with(b"\r\r\n") && !ends_barely
    }

    /// Takes a line of headers. A single carriage return also ends a line.
    pub(super) fn header(&mut self, text: &[u8], time: Time, out: &mut dyn Out) {
        if text.is_empty() {
            return;
        }
        let (direction, transaction) = (self.direction, Some(self.current.into()));
        let head = self.head.get_or_insert_default();
        let was_full = head.is_full;
        for line in text.split(|byte| *byte == b'\r').filter(|line| !line.is_empty()) {
            let is_field = direction == Direction::Reverse && head.is_field(line);
            let line = if is_field { unfolded(line) } else { line };
            if let Some(name) = head.line(line, MAX_HEADERS) {
                let found = Anomaly { name, direction, detail: line, transaction };
                out.record(found.record(time, &PROTOCOL));
            }
        }
        if head.is_full && !was_full {
            self.anomaly("too_many_headers", text, time, out);
        }
    }
}

/// Takes bytes of a body.
pub(super) fn carry(side: &mut Side, flow: &mut Shared, data: &mut &[u8], time: Time, out: &mut dyn Out) {
    match &mut side.state {
        State::Length(left) | State::Chunk(left) => {
            let max = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
            let (now, later) = data.split_at_checked(max).unwrap_or((data, &[]));
            *left -= now.len() as u64;
            let is_over = *left == 0;
            *data = later;
            give(side, flow, now, time, out);
            if is_over {
                out.more(later.len());
            }
            match side.state {
                State::Length(_) if is_over => finish(side, flow, true, time, out),
                State::Chunk(_) if is_over => side.state = State::ChunkEnd,
                _ => {}
            }
        }
        State::Close => {
            let now = std::mem::take(data);
            give(side, flow, now, time, out);
        }
        State::ChunkEnd => {
            // The rest of the line after a chunk is ignored.
            let end = data.iter().position(|byte| *byte == b'\n');
            let line = end.map_or(data.len(), |end| end + 1);
            looked_at(line);
            count(side, flow, line as u64);
            *data = data.get(line..).unwrap_or_default();
            if end.is_some() {
                out.more(data.len());
                side.state = State::ChunkSize;
            }
        }
        State::ChunkSize => {
            let line = side.lines.next(data);
            let text = line.as_ref().map_or(side.lines.held(), |(line, _)| line);
            looked_at(text.len());
            let is_control = |byte: &u8| matches!(byte, b'\r' | b'\n' | b' ' | b'\t' | 0x0b | 0x0c);
            let Some(start) = text.iter().position(|byte| !is_control(byte)) else {
                if let Some((line, _)) = line {
                    count(side, flow, line.len() as u64);
                    out.more(data.len());
                }
                return;
            };
            let digits = text.get(start..).unwrap_or_default();
            let max = digits.iter().position(|o| !o.is_ascii_hexdigit()).unwrap_or(digits.len());
            if max == 0 {
                // Malformed chunk: browsers treat the bytes as the body.
                side.anomaly("HTTP_bad_chunk_size", b"", time, out);
                let begun = match line {
                    Some((line, _)) => line.into_owned(),
                    None => side.lines.take(),
                };
                side.state = State::Close;
                return give(side, flow, &begun, time, out);
            }
            let Some((line, _)) = &line else { return };
            count(side, flow, line.len() as u64);
            out.more(data.len());
            let digits = std::str::from_utf8(digits.get(..max).unwrap_or_default()).unwrap_or_default();
            match u64::from_str_radix(digits, 16).ok().filter(|length| *length <= MAX_CHUNK) {
                Some(0) => {
                    side.head = None;
                    side.state = State::Trailers;
                }
                Some(length) => side.state = State::Chunk(length),
                None => side.anomaly("HTTP_bad_chunk_size", chomped(line), time, out),
            }
        }
        State::Trailers => {
            if side.head(data, time, out) {
                finish(side, flow, true, time, out);
            }
        }
        State::Start | State::Head | State::Old | State::Irregular(_) | State::Wait | State::Lost { .. } => {}
    }
}

/// Passes bytes of a body on.
fn give(side: &mut Side, flow: &mut Shared, bytes: &[u8], time: Time, out: &mut dyn Out) {
    let Some(body) = &mut side.body else { return };
    looked_at(bytes.len());
    let fault = body.bytes(bytes, time, &mut flow.files, &mut flow.ranges, out);
    if let Some(fault) = fault {
        side.anomaly(fault, b"", time, out);
    }
}

/// Counts bytes of the framing, which Suricata adds to a response's length.
fn count(side: &Side, flow: &mut Shared, bytes: u64) {
    if side.direction == Direction::Reverse
        && let Some(transaction) = flow.transaction(side.current)
    {
        transaction.answer().wire += bytes;
    }
}

/// Ends the current message; `whole`: the message is complete.
pub(super) fn finish(side: &mut Side, flow: &mut Shared, whole: bool, time: Time, out: &mut dyn Out) {
    let is_idle = matches!(side.state, State::Start | State::Lost { .. } | State::Irregular(_));
    side.state = State::Start;
    let body = side.body.take();
    let wire = body.as_ref().map_or(0, |body| body.wire);
    let ended = body.map(|body| body.end(whole, time, &mut flow.files, &mut flow.ranges, out));
    let (listed, length) = ended.unwrap_or_default();
    let listed = (!listed.names.is_empty()).then(|| Box::new(listed));
    side.head = None;
    let Some(transaction) = flow.transaction(side.current) else { return };
    if !is_idle {
        transaction.at.add(out.both().only(side.direction));
    }
    match side.direction {
        Direction::Forward if !is_idle || wire > 0 => {
            transaction.is_asked = true;
            (transaction.sent, transaction.request_length) = (listed, length);
        }
        Direction::Reverse if transaction.is_begun => {
            transaction.is_answered = true;
            let answer = transaction.answer();
            answer.ended = Some(time);
            answer.wire += wire;
            (answer.received, answer.length) = (listed, length);
        }
        _ => {}
    }
    flow.settle(out);
}
