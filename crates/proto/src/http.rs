//! HTTP/1 (RFC 9112) and older: each request with its response, and their files.
//!
//! Malformed messages are parsed as libhtp does, which follows the behaviour of servers and browsers. libhtp itself is
//! not used because it exchanges bodies only through C pointers.

mod body;
mod buffers;
mod coding;
mod message;
mod multipart;
mod odd;
mod probe;
mod side;
mod table;
mod transaction;
mod uri;
mod waiting;

use crate::early::begin_transaction;
use crate::file::Files;
use crate::{Out, Parser, Protocol, Setup, Step, Transport, tunnel};
use body::{Body, Ranges};
use message::{Head, Headers, RawLines, RequestLine, StatusLine, chomped, decimal};
pub(crate) use probe::is_plain_request;
use side::{IrregularLine, Side, State, carry, finish};
use transaction::{Shared, Transaction};
use waiting::Waiting;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "http",
    help: "Hypertext Transfer Protocol, versions 0.9 to 1.1 (RFC 9112).",
    transport: Transport::Tcp,
    ports: &[80, 81, 591, 631, 1080, 2869, 3128, 5985, 8000, 8008, 8080, 8081, 8088, 8118, 8888],
    probe: probe::probe,
    parser: |setup| Box::new(Http::new(setup)),
    tables: &[&table::HTTP, &table::WEBSOCKET],
    buffers: buffers::ALL,
};

/// Minimum length of a message in bytes: a shorter gap hides no message (`HTTP/1.1 200` and two line ends).
const MIN_MESSAGE: u64 = 16;

/// Methods of requests without a version.
const METHODS: [&[u8]; 8] = [b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"TRACE"];
/// Other methods that are nothing odd, as in Zeek.
const OTHER_METHODS: [&[u8]; 13] = [
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"POLL",
    b"REPORT",
    b"SUBSCRIBE",
    b"BMOVE",
    b"SEARCH",
    b"PATCH",
];

/// The parser of a flow. A million of them may exist, most of them between two messages or in a body: state that only
/// a head or a response needs is allocated when it is needed.
struct Http {
    request: Side,
    response: Side,
    flow: Shared,
}

/// The next step after a message's head.
enum After {
    Go,
    SwitchTo(Option<&'static Protocol>),
}

impl Parser for Http {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 && !self.miss(chunk, out) {
            return Step::GiveUp;
        }
        let mut data = chunk.data;
        while !data.is_empty() {
            let step = match chunk.direction {
                Direction::Forward => self.request(&mut data, chunk.time, out),
                Direction::Reverse => self.response(&mut data, chunk.time, out),
            };
            if let Some(step) = step {
                return match step {
                    Step::SwitchTo { protocol, .. } => Step::SwitchTo { protocol, unread: data.len() },
                    step => step,
                };
            }
        }
        Step::Next
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        self.end_simple(time, out);
        if self.response.is_over() {
            self.answered(time, out);
        }
        if let State::Irregular(line) = &self.response.state {
            let line = line.clone();
            self.response.state = State::Start;
            self.treat_as_body(&line.0, time, out);
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let (side, flow) = self.side(direction);
            let whole = side.state == State::Close;
            if whole {
                out.rest(direction);
            }
            if matches!(side.state, State::Head) {
                side.give_headers(flow);
            }
            finish(side, flow, whole, time, out);
        }
        while let Some(transaction) = self.flow.waiting.pop() {
            transaction.emit(out);
        }
        self.flow.ranges.end(out);
    }

    fn touch(&self) -> u64 {
        self.request.touch() ^ self.response.touch() ^ self.flow.waiting.len() as u64
    }

    fn memory(&self) -> usize {
        let of = |side: &Side| {
            let head = side.head.as_ref().map_or(0, |head| size_of::<Head>() + head.memory());
            let body = side.body.as_ref().map_or(0, |body| size_of::<Body>() + body.memory());
            let irregular = if let State::Irregular(line) = &side.state { 32 + line.0.capacity() } else { 0 };
            side.lines.memory() + head + body + irregular
        };
        of(&self.request) + of(&self.response) + self.flow.waiting.memory() + self.flow.ranges.memory()
    }
}

impl Http {
    fn new(setup: &Setup) -> Self {
        let side = |direction| Side {
            direction,
            state: State::Start,
            lines: RawLines::default(),
            head: None,
            body: None,
            current: 0,
            blank: 0,
            is_raw: false,
        };
        Self {
            request: side(Direction::Forward),
            response: side(Direction::Reverse),
            flow: Shared {
                files: Files::new(setup),
                ranges: Ranges::default(),
                waiting: Waiting::new(),
                begun: 0,
                pipelined: false,
                unmatched: false,
                versions: Default::default(),
            },
        }
    }

    fn side(&mut self, direction: Direction) -> (&mut Side, &mut Shared) {
        match direction {
            Direction::Forward => (&mut self.request, &mut self.flow),
            Direction::Reverse => (&mut self.response, &mut self.flow),
        }
    }

    /// Takes a gap. Within a body of known length it has no effect; elsewhere the parser searches for the next
    /// message. Returns `false` if responses cannot be assigned to requests any more.
    fn miss(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> bool {
        if chunk.direction == Direction::Reverse && self.response.is_over() {
            self.answered(chunk.time, out);
        }
        let (side, flow) = self.side(chunk.direction);
        let mut gap = chunk.gap;
        let (mut endless, mut none) = (u64::MAX, 0);
        let left = match &mut side.state {
            State::Length(left) | State::Chunk(left) => left,
            State::Close => &mut endless,
            _ => &mut none,
        };
        let inside = gap.min(*left);
        if inside > 0 {
            *left -= inside;
            gap -= inside;
            if let Some(body) = &mut side.body {
                body.gap(inside, chunk.time, &mut flow.files);
            }
            let is_over = *left == 0;
            match side.state {
                State::Length(_) if is_over => finish(side, flow, true, chunk.time, out),
                State::Chunk(_) if is_over => side.state = State::ChunkEnd,
                _ => {}
            }
        }
        if gap == 0 {
            return true;
        }
        // If the gap begins before the end of a start line, the message is lost.
        let is_begin = matches!(side.state, State::Start) || !side.lines.take().is_empty();
        // Incomplete messages are emitted as they are.
        if matches!(side.state, State::Head) {
            side.give_headers(flow);
        }
        if !matches!(side.state, State::Start | State::Lost { .. } | State::Irregular(_)) {
            finish(side, flow, false, chunk.time, out);
        }
        side.lines.take();
        let messages = is_begin || gap >= MIN_MESSAGE || matches!(side.state, State::Lost { messages: true });
        side.state = State::Lost { messages };
        !messages || !flow.pipelined
    }

    /// Takes bytes from the client.
    fn request(&mut self, data: &mut &[u8], time: Time, out: &mut dyn Out) -> Option<Step> {
        match self.request.state {
            State::Start | State::Lost { .. } => {
                let (line, is_cut) = self.request.lines.next(data)?;
                out.message(data.len());
                return self.request_line(&line, is_cut, time, out);
            }
            State::Old => {
                let (line, is_cut) = self.request.lines.next(data)?;
                let text = chomped(&line);
                if is_field(text) {
                    out.more(data.len());
                    self.request.state = State::Head;
                    self.request.header(text, time, out);
                    return None;
                }
                // The request was its line alone.
                self.asked(time, out);
                out.message(data.len());
                return if text.is_empty() { None } else { self.request_line(&line, is_cut, time, out) };
            }
            State::Head => {
                if self.request.head(data, time, out) {
                    self.asked(time, out);
                }
            }
            State::Wait => {
                // A further request, which is no tunnel's: the response was lost.
                let (line, is_cut) = self.request.lines.next(data)?;
                if RequestLine::looks_so(first_line(chomped(&line)).0) {
                    finish(&mut self.request, &mut self.flow, true, time, out);
                    out.message(data.len());
                    return self.request_line(&line, is_cut, time, out);
                }
            }
            _ => carry(&mut self.request, &mut self.flow, data, time, out),
        }
        None
    }

    /// Handles the end of the streams: in HTTP/0.9 a request and a response may end without a line's end.
    fn end_simple(&mut self, time: Time, out: &mut dyn Out) {
        if matches!(self.request.state, State::Start) {
            let line = self.request.lines.take();
            if is_simple(&line) {
                out.rest(Direction::Forward);
                self.request_line(&line, false, time, out);
            }
        }
        if matches!(self.request.state, State::Old) {
            self.asked(time, out);
        }
        if matches!(self.response.state, State::Start) {
            let line = self.response.lines.take();
            if !line.is_empty() && !line.starts_with(b"HTTP/") {
                out.rest(Direction::Reverse);
                self.treat_as_body(&line, time, out);
            }
        }
    }

    /// Takes a line that begins a request.
    fn request_line(&mut self, line: &[u8], is_cut: bool, time: Time, out: &mut dyn Out) -> Option<Step> {
        let (text, rest) = first_line(chomped(line));
        if text.trim_ascii().is_empty() {
            if self.request.state == State::Start && self.flow.versions.expects_request() {
                PROTOCOL.emit_anomaly("empty_http_request", Direction::Forward, b"", time, out);
            }
            return self.request.blank();
        }
        if is_cut {
            PROTOCOL.emit_anomaly("request_field_too_long", Direction::Forward, text, time, out);
        }
        if let State::Lost { messages } = self.request.state {
            if !RequestLine::looks_so(text) {
                return None;
            }
            if messages {
                self.flow.forget_asked(out);
            }
        }
        let line = RequestLine::of(text);
        if !line.is_one() {
            let name =
                if line.protocol().is_some() { "bad_HTTP_request_with_version" } else { "bad_HTTP_request" };
            PROTOCOL.emit_anomaly(name, Direction::Forward, text, time, out);
            self.request.state = State::Lost { messages: false };
            return None;
        }
        if !METHODS.contains(&line.method()) && !OTHER_METHODS.contains(&line.method()) {
            PROTOCOL.emit_anomaly("unknown_HTTP_method", Direction::Forward, line.method(), time, out);
        }
        if line.uri().is_empty() {
            PROTOCOL.emit_anomaly("missing_HTTP_uri", Direction::Forward, b"", time, out);
        }
        for name in uri::faults(line.uri()) {
            PROTOCOL.emit_anomaly(name, Direction::Forward, b"", time, out);
        }
        self.flow.versions.request(&line, &mut |name, detail| {
            PROTOCOL.emit_anomaly(name, Direction::Forward, detail, time, out);
        });
        let is_old = line.protocol().is_none();
        // Requests of one time do not wait for each other; others may follow a response that is lost.
        if !self.flow.pipelined {
            self.flow.pipelined = self.flow.waiting.iter().any(|t| !t.is_begun && t.time == time);
        }
        let id = self.flow.begin(time, out);
        if let Some(transaction) = self.flow.transaction(id) {
            transaction.request = Some(line);
            transaction.at = out.both().only(Direction::Forward);
        }
        // A response begins a line, whatever lost message the bytes before it belong to.
        if matches!(self.response.state, State::Lost { .. }) {
            self.response.lines.take();
        }
        self.request.begin(id, text, out);
        if is_old {
            self.request.state = State::Old;
        }
        self.request.header(rest, time, out);
        None
    }

    /// Whether the response to a request that was not seen is over, which only the end of the stream would end: the client has
    /// gone on, so that the response has opened a tunnel or has no body.
    fn is_orphan_over(&self) -> bool {
        let current = self.response.current;
        let is_orphan = self.flow.held(current).is_some_and(|of| of.request.is_none());
        is_orphan && self.flow.waiting.back().is_some_and(|of| of.id > current)
    }

    /// Takes bytes from the server.
    fn response(&mut self, data: &mut &[u8], time: Time, out: &mut dyn Out) -> Option<Step> {
        match &self.response.state {
            State::Start if self.is_body(data) => {
                let begun = self.response.lines.take();
                out.message(data.len());
                self.treat_as_body(&begun, time, out);
            }
            State::Start | State::Lost { .. } => {
                let (line, is_cut) = self.response.lines.next(data)?;
                out.message(data.len());
                let (text, rest) = first_line(chomped(&line));
                if text.trim_ascii().is_empty() {
                    return self.response.blank();
                }
                if is_cut {
                    PROTOCOL.emit_anomaly("response_field_too_long", Direction::Reverse, text, time, out);
                }
                let lost = match self.response.state {
                    State::Lost { messages } => Some(messages),
                    _ => None,
                };
                let Some(status) = StatusLine::of(text) else {
                    if lost.is_none() {
                        self.response.state = State::Irregular(Box::new(IrregularLine(line.into_owned())));
                    }
                    return None;
                };
                match lost {
                    Some(messages) => {
                        status.code()?;
                        if messages {
                            self.flow.forget_unanswered(out);
                        }
                    }
                    None if self.flow.pipelined => {}
                    None => {
                        let unanswered = self.flow.waiting.iter().filter(|t| !t.is_begun);
                        self.flow.pipelined = unanswered.take(2).count() == 2;
                    }
                }
                self.flow.versions.response(&status, &mut |name, detail| {
                    PROTOCOL.emit_anomaly(name, Direction::Reverse, detail, time, out);
                });
                let id = self.flow.answering(time, out);
                if let Some(transaction) = self.flow.transaction(id) {
                    transaction.is_begun = true;
                    transaction.answer().line = Some(status);
                }
                // So does the next request.
                if matches!(self.request.state, State::Lost { .. }) {
                    self.request.lines.take();
                }
                self.response.begin(id, text, out);
                self.response.header(rest, time, out);
            }
            State::Irregular(line) => {
                // A line before the status line is skipped, as browsers do.
                if data.first() == Some(&b'H') || chomped(&line.0).len() <= 2 {
                    self.response.state = State::Start;
                    return None;
                }
                let line = line.0.clone();
                if self.flow.waiting.iter().all(|transaction| transaction.is_begun) {
                    PROTOCOL.emit_anomaly("bad_HTTP_reply", Direction::Reverse, &line, time, out);
                    self.response.state = State::Lost { messages: false };
                    return None;
                }
                self.treat_as_body(&line, time, out);
            }
            State::Head => {
                if self.response.head(data, time, out)
                    && let After::SwitchTo(protocol) = self.answered(time, out)
                {
                    return Some(Step::SwitchTo { protocol, unread: 0 });
                }
            }
            State::Wait => *data = &[],
            State::Close if self.is_orphan_over() => {
                out.more(data.len());
                finish(&mut self.response, &mut self.flow, false, time, out);
                self.response.state = State::Lost { messages: false };
            }
            _ => carry(&mut self.response, &mut self.flow, data, time, out),
        }
        None
    }

    /// Whether the response to a request without a version has no status line: then its first bytes are its body, which
    /// need not have lines.
    fn is_body(&self, data: &[u8]) -> bool {
        const ENOUGH: usize = 4;
        let held = self.response.lines.held();
        let next = self.flow.waiting.iter().find(|transaction| !transaction.is_begun);
        if held.len() >= ENOUGH || !next.is_some_and(Transaction::asks_simply) {
            return false;
        }
        let begun: Vec<u8> = held.iter().chain(data).take(ENOUGH).copied().collect();
        !StatusLine::can_begin_with(&begun)
    }

    /// HTTP/0.9, or a server that answers in its format: all bytes until the close are the body.
    fn treat_as_body(&mut self, line: &[u8], time: Time, out: &mut dyn Out) {
        if self.flow.waiting.iter().all(|transaction| transaction.is_begun) {
            return;
        }
        let allowance = self.flow.files.allowance();
        let id = self.flow.answering(time, out);
        self.response.current = id;
        begin_transaction(Direction::Reverse, id.into(), out);
        out.side_is_complete(Direction::Reverse);
        if let Some(transaction) = self.flow.transaction(id) {
            transaction.is_begun = true;
            transaction.at.add(out.both().only(Direction::Reverse));
            transaction.answer();
            self.response.body = Some(Body::of(transaction, Direction::Reverse, false, None, allowance));
        }
        self.response.state = State::Close;
        let mut line = line;
        carry(&mut self.response, &mut self.flow, &mut line, time, out);
    }

    /// Handles the complete head of a request.
    fn asked(&mut self, time: Time, out: &mut dyn Out) {
        let (side, flow) = (&mut self.request, &mut self.flow);
        let start = side.take_start();
        let (headers, allowance) = (side.take_headers(), flow.files.allowance());
        flow.versions.headers(&headers);
        let Some(transaction) = flow.transaction(side.current) else {
            side.state = State::Lost { messages: true };
            return;
        };
        transaction.at.add(out.both().only(Direction::Forward));
        let method = transaction.method();
        let (is_connect, is_chunked) = (method == b"CONNECT", is_chunked(&headers));
        let length = headers.get(b"content-length").map(decimal);
        odd::in_head(&headers, is_chunked, None, &mut |name, detail| {
            side.anomaly(name, detail, time, out);
        });
        if headers.all(b"content-length").any(|other| Some(decimal(other)) != length) {
            side.anomaly("duplicate_content_length_field_in_request", b"", time, out);
        }
        side.state = match (is_connect, is_chunked, length) {
            (true, ..) => State::Wait,
            (_, true, _) => State::ChunkSize,
            (_, _, Some(Some(length))) if length > 0 => State::Length(length),
            _ => State::Start,
        };
        if matches!(side.state, State::ChunkSize | State::Length(_)) {
            let length = length.flatten().filter(|_| !is_chunked);
            transaction.request_headers = headers;
            side.body = Some(Body::of(transaction, Direction::Forward, false, length, allowance));
        } else {
            transaction.request_headers = headers;
        }
        if std::mem::take(&mut side.is_raw) {
            out.buffer(&buffers::HEADER_RAW, Direction::Forward, b"");
        }
        transaction.hand_on(&start, Direction::Forward, out);
        let has_body = side.body.is_some();
        if !has_body {
            transaction.is_asked = true;
            flow.settle(out);
        }
    }

    /// Handles the complete head of a response.
    fn answered(&mut self, time: Time, out: &mut dyn Out) -> After {
        let (side, flow) = (&mut self.response, &mut self.flow);
        let start = side.take_start();
        let (headers, allowance) = (side.take_headers(), flow.files.allowance());
        let Some(transaction) = flow.transaction(side.current) else {
            side.state = State::Lost { messages: true };
            return After::Go;
        };
        if std::mem::take(&mut side.is_raw) {
            out.buffer(&buffers::HEADER_RAW, Direction::Reverse, b"");
        }
        transaction.at.add(out.both().only(Direction::Reverse));
        let code = transaction.answer().line.as_ref().and_then(StatusLine::code);
        let length = headers.get(b"content-length").map(decimal);
        let (is_chunked, is_coded) = (is_chunked(&headers), headers.get(b"transfer-encoding").is_some());
        odd::in_head(&headers, is_chunked, code, &mut |name, detail| {
            side.anomaly(name, detail, time, out);
        });
        if headers.all(b"content-length").any(|other| Some(decimal(other)) != length) {
            side.anomaly("duplicate_content_length_field_in_response", b"", time, out);
        }
        let is_connect = transaction.method() == b"CONNECT";
        let has_none = !is_coded && length.is_none_or(|length| length == Some(0));
        match code {
            // A final response follows.
            Some(100 | 102..200) if has_none => {
                let answer = transaction.answer();
                answer.info = answer.line.take();
                transaction.is_begun = false;
                side.state = State::Start;
                return After::Go;
            }
            Some(101) if !is_coded && length.is_none() => {
                transaction.answer().headers = headers;
                transaction.hand_on(&start, Direction::Reverse, out);
                transaction.is_asked = true;
                let protocol = transaction.upgraded(out);
                finish(side, flow, true, time, out);
                return After::SwitchTo(protocol);
            }
            Some(200..300) if is_connect => {
                out.record(tunnel::found(transaction.time, "Tunnel::HTTP").over(transaction.at));
                transaction.answer().headers = headers;
                transaction.hand_on(&start, Direction::Reverse, out);
                transaction.is_asked = true;
                finish(side, flow, true, time, out);
                return After::SwitchTo(None);
            }
            _ => {}
        }
        // The client waits for `100 Continue` and does not get it, so it sends no body.
        let expects = transaction.request_headers.get(b"expect").is_some();
        let refused = expects && code.is_some_and(|code| (400..500).contains(&code));
        let is_bare = matches!(code, Some(100..200 | 204 | 304));
        side.state = if transaction.method() == b"HEAD" || is_bare && !is_coded && length.is_none() {
            State::Start
        } else if is_chunked {
            State::ChunkSize
        } else {
            match length {
                Some(Some(0)) => State::Start,
                Some(Some(length)) => State::Length(length),
                Some(None) | None => State::Close,
            }
        };
        transaction.answer().headers = headers;
        transaction.hand_on(&start, Direction::Reverse, out);
        if side.state == State::Start {
            finish(side, flow, true, time, out);
        } else {
            let declared = length.flatten().filter(|_| !is_chunked);
            side.body =
                Some(Body::of(transaction, Direction::Reverse, code == Some(206), declared, allowance));
        }
        let asking = &mut self.request;
        let waits =
            asking.state == State::Wait || refused && asking.body.as_ref().is_some_and(|body| body.wire == 0);
        if waits && asking.current == self.response.current {
            finish(asking, flow, true, time, out);
        }
        After::Go
    }
}

/// Whether a line is a request of HTTP/0.9: GET and a path, or all of a URL.
fn is_simple(line: &[u8]) -> bool {
    let path = line.strip_prefix(b"GET ").unwrap_or_default();
    let is_path = path.starts_with(b"/") || path.starts_with(b"http://");
    is_path && !path.iter().any(u8::is_ascii_whitespace)
}

/// Whether a line is a header: a name and a colon.
fn is_field(line: &[u8]) -> bool {
    let end = line.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"-_".contains(byte));
    end.is_some_and(|end| end > 0 && line.get(end) == Some(&b':'))
}

/// A start line, and the headers after it if only carriage returns end lines.
fn first_line(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| *byte == b'\r').unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}

/// Whether a message is chunked: the value may contain other codings.
fn is_chunked(headers: &Headers) -> bool {
    headers.all(b"transfer-encoding").any(|value| {
        let text: Vec<u8> = value.iter().filter(|o| **o != 0).map(u8::to_ascii_lowercase).collect();
        text.windows(7).any(|window| window == b"chunked")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::Collected;
    use crate::talk::{Talk, Turn};
    use crate::{Session, Value, Wants};
    use std::net::{IpAddr, Ipv4Addr};

    /// Every part of a form is a file; fields have no name, and without bytes they are none.
    #[test]
    fn parts_of_a_form_are_files() {
        let part = |head: &str, body: &str| format!("--b\r\n{head}\r\n\r\n{body}\r\n");
        let disposition = |more: &str| format!("Content-Disposition: form-data; name=x{more}");
        let body = [
            part(&disposition(""), "one"),
            part(&disposition(""), ""),
            part(&disposition("; filename=f.txt"), "two"),
            part(&format!("{}\r\nContent-Type: text/html", disposition("")), "three"),
            part(&disposition(""), "four"),
            "--b--\r\n".to_owned(),
        ]
        .concat();
        let request = format!(
            "POST /form HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let response = "HTTP/1.1 204 No Content\r\n\r\n";
        let turns = [(Direction::Forward, request.as_str()), (Direction::Reverse, response)];
        let turns = turns.map(|(side, text)| Turn::Data(side, text.as_bytes().to_vec())).to_vec();
        let talk = Talk { ip_proto: crate::TCP, ports: [40_000, 80], turns };
        for size in [1, 7, 9999] {
            let emitted = talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect());
            let files: Vec<_> =
                emitted.records.iter().filter(|record| *record.table == crate::FILES).collect();
            let rows: Vec<_> = files
                .iter()
                .map(|file| ["seen_bytes", "filename", "name_or_path"].map(|name| file.get(name).clone()))
                .collect();
            let none = || Value::None;
            let expected = [
                [Value::Uint(3), none(), none()],
                [Value::Uint(3), "f.txt".into(), "f.txt".into()],
                [Value::Uint(5), none(), "/form".into()],
                [Value::Uint(4), none(), none()],
            ];
            assert_eq!(rows, expected);
            let row = emitted.records.iter().find(|record| record.table.name == "http").unwrap();
            let named: Value<'_> = files.iter().map(|file| file.get("file").clone()).collect();
            assert_eq!(row.get("orig_fuids"), &named);
        }
    }

    /// Limits the memory of a flow whose request was just read and whose body is skipped: there may be a million such
    /// flows.
    #[test]
    fn an_open_session_is_small() {
        let host = (IpAddr::V4(Ipv4Addr::LOCALHOST), 80);
        let wants = Wants { passes_bodies: true, passes_mails: true, ..Wants::default() };
        let setup = || Setup { flow: 7, initiator: host, responder: host, ip_proto: 6, wants };
        let request =
            b"POST /upload HTTP/1.1\r\nHost: files.example\r\nContent-Type: application/octet-stream\r\n\
            Content-Length: 100000000\r\n\r\nbody";
        let (mut session, mut emitted) = (Session::new(), Collected::default());
        let chunk = |data| Chunk { time: Time(1), direction: Direction::Forward, gap: 0, data };
        session.chunk(&chunk(request), &setup, &mut emitted);
        let whole = session.memory() + size_of::<Session>();
        assert!(whole <= 560, "{whole}");
        session.chunk(&chunk([b'x'; 1000].as_slice()), &setup, &mut emitted);
        assert_eq!(session.memory() + size_of::<Session>(), whole);
    }

    fn emitted(case: &str) -> Collected {
        let talks = crate::laws::talks("http", 80);
        let (_, talk) = talks.iter().find(|(path, _)| path.ends_with(case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()])
    }

    fn of<'a>(emitted: &'a Collected, table: &'static crate::Table) -> Vec<&'a crate::Record<'static>> {
        emitted.records.iter().filter(|record| *record.table == *table).collect()
    }

    #[test]
    fn odd_requests_are_rows() {
        let emitted = emitted("requests.talk");
        let rows: Vec<_> = of(&emitted, &table::HTTP)
            .iter()
            .map(|row| [row.get("method").clone(), row.get("url").clone(), row.get("host").clone()])
            .collect();
        let expected = [
            ["GET", "/old%zz%", ""],
            ["get", "/lower", "a.example"],
            ["GET", "/no-version", "b.example"],
            ["GET", "/a b", "c.example"],
            ["BREW", "/pot", "d.example"],
            ["GET", "/after", "e.example"],
        ];
        let value = |text: &'static str| if text.is_empty() { crate::Value::None } else { text.into() };
        assert_eq!(rows, expected.map(|row| row.map(value)));
        let names: Vec<_> = of(&emitted, &crate::ANOMALY).iter().map(|row| row.get("name").clone()).collect();
        let expected = [
            "unescaped_%_in_URI",
            "illegal_%_at_end_of_URI",
            "unknown_HTTP_method",
            "HTTP_version_mismatch",
            "HTTP_version_mismatch",
            "HTTP_version_mismatch",
            "HTTP_content_range_cannot_parse",
            "unknown_HTTP_method",
            "bad_HTTP_request_with_version",
        ];
        assert_eq!(names, expected.map(crate::Value::from));
    }

    #[test]
    fn requests_without_a_version_are_rows() {
        for (case, body) in [("simple.talk", 18_u8), ("unfinished.talk", 0)] {
            let emitted = emitted(case);
            let rows = of(&emitted, &table::HTTP);
            let [row] = rows.as_slice() else { panic!("{case}: {rows:?}") };
            let got = ["method", "url", "response_body_len"].map(|name| row.get(name).clone());
            assert_eq!(got, ["GET".into(), "/index.html".into(), body.into()], "{case}");
        }
    }

    /// However the streams are cut, a response whose request is lost does not hide those that follow.
    #[test]
    fn a_response_without_its_request_ends_with_the_next_request() {
        let emitted = emitted("orphan.talk");
        let rows = of(&emitted, &table::HTTP).into_iter();
        let rows: Vec<_> = rows.map(|row| [row.get("url").clone(), row.get("status_code").clone()]).collect();
        let expected = [
            [Value::None, Value::Uint(200)],
            ["/first".into(), Value::Uint(200)],
            ["/second".into(), Value::Uint(404)],
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_proxy_that_connects_is_a_tunnel() {
        let emitted = emitted("connect.talk");
        let rows = of(&emitted, &crate::TUNNEL);
        assert_eq!(rows.len(), 1);
        assert!(rows.iter().all(|row| crate::is_of_proxy(row)));
    }

    /// A file in a request has the request's host, as a file in a response does.
    #[test]
    fn files_in_requests_have_the_host() {
        let host = (IpAddr::V4(Ipv4Addr::LOCALHOST), 80);
        let setup =
            || Setup { flow: 7, initiator: host, responder: host, ip_proto: 6, wants: Wants::default() };
        let request = b"POST /a HTTP/1.1\r\nHost: files.example\r\nContent-Length: 4\r\n\r\nbody";
        let (mut session, mut emitted) = (Session::new(), Collected::default());
        let chunk = Chunk { time: Time(1), direction: Direction::Forward, gap: 0, data: request };
        session.chunk(&chunk, &setup, &mut emitted);
        let [file] = emitted.records.as_slice() else { panic!("{:?}", emitted.records) };
        assert_eq!(*file.get("http_host"), "files.example".into());
    }

    #[test]
    fn buffers_have_the_texts_that_rules_search() {
        let (_, talk) = crate::laws::talks("http", 80)
            .into_iter()
            .find(|(path, _)| path.ends_with("buffers.talk"))
            .unwrap();
        let emitted = talk.asked(|data| data.chunks(5).map(<[u8]>::to_vec).collect());
        let of = |name: &str| -> Vec<String> {
            let found = emitted.buffers.iter().filter(|(buffer, ..)| buffer.name == name);
            found.map(|(_, _, bytes)| String::from_utf8(bytes.clone()).unwrap()).collect()
        };
        assert_eq!(of("http.uri"), ["/a/c/d/A?q=A&r=//"]);
        assert_eq!(of("http.uri.raw"), ["/a//b/../c%2fd/%41?q=%41&r=//"]);
        assert_eq!(of("http.host"), ["www.example"]);
        assert_eq!(of("http.host.raw"), ["Www.Example:8080"]);
        assert_eq!(of("http.request_line"), ["POST /a//b/../c%2fd/%41?q=%41&r=// HTTP/1.1"]);
        assert_eq!(of("http.cookie"), ["a=b", "s=1"]);
        let [start, answer] = of("http.start").try_into().unwrap();
        let line = "POST /a//b/../c%2fd/%41?q=%41&r=// HTTP/1.1\r\nHost: Www.Example:8080\r\n";
        assert!(start.starts_with(line) && start.ends_with("Content-Length: 11\r\n\r\n"), "{start}");
        assert!(start.contains("X-Long: first second\r\nx-one: 2\r\nCookie: a=b\r\n"), "{start}");
        assert!(answer.starts_with("HTTP/1.1 ") && answer.contains("Set-Cookie: s=1\r\n"), "{answer}");
        let each = of("http.request_header");
        assert_eq!(each[..2], ["Host: Www.Example:8080", "User-Agent: weir"]);
        assert!(each.contains(&"X-Long: first second".to_owned()), "{each:?}");
        assert!(of("http.response_header").contains(&"Set-Cookie: s=1".to_owned()));
        assert_eq!(of("http.request_body"), ["hello world"]);
        assert_eq!(of("http.response_body"), ["there"]);
        let [header, _] = of("http.header").try_into().unwrap();
        assert!(header.starts_with("Host: Www.Example:8080\r\nUser-Agent: weir\r\n"), "{header}");
        assert!(
            header.contains("X-One: 1, 2\r\nX-Long: first second\r\n") && !header.contains("a=b"),
            "{header}"
        );
        let [raw, _] = of("http.header.raw").try_into().unwrap();
        assert!(raw.contains("X-Long: first\r\n second\r\nx-one: 2\r\nCookie: a=b\r\n"), "{raw}");
        assert!(raw.ends_with("Content-Length: 11\r\n\r\n"), "{raw}");
        let [names, _] = of("http.header_names").try_into().unwrap();
        assert!(names.starts_with("\r\nHost\r\nUser-Agent\r\n") && names.ends_with("\r\n\r\n"), "{names}");
    }
}
