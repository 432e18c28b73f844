//! HTTP/1 (RFC 9112) and what is older: each request with its response, and the files that they carry.
//!
//! Where messages are not as they should be, they are read as libhtp reads them, whose authors looked at what servers
//! and browsers do; libhtp itself can only be told of octets and tell of bodies through pointers of C.

mod body;
mod coding;
mod message;
mod multipart;
mod probe;
mod table;
mod uri;

use crate::file::Files;
use crate::{Anomaly, Out, Parser, Protocol, Setup, Step, Transport, anomaly};
use body::{Body, Described, Listed, Ranges};
use message::{Headers, RawLines, RequestLine, StatusLine, chomped, decimal};
use std::collections::VecDeque;
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
};

/// Headers of a message; libhtp's limit.
const MAX_HEADERS: usize = 1024;
/// Requests that wait for their responses; Suricata's limit.
const MAX_WAITING: usize = 512;
/// Octets of memory that they hold; the heads of ordinary requests are a hundredth of it in all.
const MAX_WAITING_OCTETS: usize = 1 << 20;
/// Blank lines before a message.
const MAX_BLANK: u32 = 1024;
/// Longest chunk: libhtp takes no more for a length.
const MAX_CHUNK: u64 = i32::MAX as u64;

/// Shortest message: what is shorter and missing hides none (`HTTP/1.1 200` and two ends of lines).
const MIN_MESSAGE: u64 = 16;

/// Words that requests without a version may begin with.
const METHODS: [&[u8]; 8] = [b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"TRACE"];

struct Http {
    request: Side,
    response: Side,
    flow: Flow,
}

/// What both sides share.
struct Flow {
    files: Files,
    ranges: Ranges,
    /// Names of transactions are consecutive.
    waiting: VecDeque<Transaction>,
    begun: u64,
    /// Requests were sent before the responses to others came.
    pipelined: bool,
    /// A response without its request was told of.
    unmatched: bool,
}

/// One direction.
struct Side {
    direction: Direction,
    state: State,
    lines: RawLines,
    /// Of the message in work.
    headers: Headers,
    body: Option<Body>,
    /// The transaction in work.
    current: u64,
    blank: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// Before a start line.
    Start,
    /// A line that is no status line: what comes next tells whether it is a body.
    Odd(Vec<u8>),
    Head,
    /// In a body of which so much is left.
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// In a body that ends with the stream.
    Close,
    /// Behind `CONNECT`, until it is answered.
    Wait,
    /// Octets are missing, perhaps whole messages, and where one begins is not known.
    Lost {
        messages: bool,
    },
}

pub(super) struct Transaction {
    id: u64,
    time: Time,
    ended: Time,
    request: Option<RequestLine>,
    request_headers: Headers,
    response: Option<StatusLine>,
    response_headers: Headers,
    /// The last response that announced another.
    info: Option<StatusLine>,
    is_asked: bool,
    is_begun: bool,
    is_answered: bool,
    request_length: u64,
    response_length: u64,
    response_wire: u64,
    sent: Listed,
    received: Listed,
}

/// What to do after a message's head.
enum After {
    Go,
    Become(Option<&'static Protocol>),
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
                    Step::Become { protocol, .. } => Step::Become { protocol, unread: data.len() },
                    step => step,
                };
            }
        }
        Step::Next
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        if let State::Odd(line) = std::mem::replace(&mut self.response.state, State::Start) {
            self.treat_as_body(&line, time, out);
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let (side, flow) = self.side(direction);
            let whole = side.state == State::Close;
            if matches!(side.state, State::Head) {
                let headers = std::mem::take(&mut side.headers);
                if let Some(transaction) = flow.transaction(side.current) {
                    match direction {
                        Direction::Forward => transaction.request_headers = headers,
                        Direction::Reverse => transaction.response_headers = headers,
                    }
                }
            }
            finish(side, flow, whole, time, out);
        }
        for transaction in std::mem::take(&mut self.flow.waiting) {
            transaction.tell(out);
        }
        self.flow.ranges.end(out);
    }

    fn memory(&self) -> usize {
        let of = |side: &Side| {
            side.lines.memory() + side.headers.memory() + side.body.as_ref().map_or(0, Body::memory)
        };
        let waiting: usize = self.flow.waiting.iter().map(Transaction::memory).sum();
        of(&self.request) + of(&self.response) + waiting + self.flow.ranges.memory()
    }
}

impl Http {
    fn new(setup: &Setup) -> Self {
        let side = |direction| Side {
            direction,
            state: State::Start,
            lines: RawLines::default(),
            headers: Headers::new(MAX_HEADERS),
            body: None,
            current: 0,
            blank: 0,
        };
        Self {
            request: side(Direction::Forward),
            response: side(Direction::Reverse),
            flow: Flow {
                files: Files::new(setup),
                ranges: Ranges::default(),
                waiting: VecDeque::new(),
                begun: 0,
                pipelined: false,
                unmatched: false,
            },
        }
    }

    fn side(&mut self, direction: Direction) -> (&mut Side, &mut Flow) {
        match direction {
            Direction::Forward => (&mut self.request, &mut self.flow),
            Direction::Reverse => (&mut self.response, &mut self.flow),
        }
    }

    /// Octets are missing. In a body of known length that is no matter; elsewhere the next message is looked for.
    /// `false`: which response is for which request cannot be told any more.
    fn miss(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> bool {
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
        // What was begun is told as it is.
        if matches!(side.state, State::Head) {
            let headers = std::mem::take(&mut side.headers);
            if let Some(transaction) = flow.transaction(side.current) {
                match chunk.direction {
                    Direction::Forward => transaction.request_headers = headers,
                    Direction::Reverse => transaction.response_headers = headers,
                }
            }
        }
        if !matches!(side.state, State::Start | State::Lost { .. } | State::Odd(_)) {
            finish(side, flow, false, chunk.time, out);
        }
        // Of a start line that was begun, its message is lost.
        let is_within = matches!(side.state, State::Start) && !side.lines.take().is_empty();
        let messages =
            is_within || gap >= MIN_MESSAGE || matches!(side.state, State::Lost { messages: true });
        side.state = State::Lost { messages };
        !messages || !flow.pipelined
    }

    /// Takes what the client sent next.
    fn request(&mut self, data: &mut &[u8], time: Time, out: &mut dyn Out) -> Option<Step> {
        match self.request.state {
            State::Start | State::Lost { .. } => {
                let (line, is_cut) = self.request.lines.next(data)?;
                let (text, rest) = first_line(chomped(&line));
                if text.trim_ascii().is_empty() {
                    return self.request.blank();
                }
                if is_cut {
                    say("request_field_too_long", Direction::Forward, text, time, out);
                }
                let looks_so = RequestLine::looks_so(text);
                if let State::Lost { messages } = self.request.state {
                    if !looks_so {
                        return None;
                    }
                    if messages {
                        self.flow.forget_asked(out);
                    }
                }
                let line = RequestLine::of(text);
                if line.protocol.is_none() {
                    // Of HTTP/0.9 there is one request and nothing else.
                    if self.flow.begun > 0 || !METHODS.contains(&line.method.as_slice()) {
                        say("bad_HTTP_request", Direction::Forward, text, time, out);
                        self.request.state = State::Lost { messages: false };
                        return None;
                    }
                    let id = self.flow.begin(time, out);
                    if let Some(transaction) = self.flow.transaction(id) {
                        (transaction.request, transaction.is_asked) = (Some(line), true);
                    }
                    return None;
                }
                if !looks_so {
                    say("unknown_HTTP_method", Direction::Forward, &line.method, time, out);
                }
                self.flow.pipelined |= self.flow.waiting.iter().any(|t| !t.is_begun);
                let id = self.flow.begin(time, out);
                if let Some(transaction) = self.flow.transaction(id) {
                    transaction.request = Some(line);
                }
                self.request.begin(id);
                self.request.header(rest, time, out);
            }
            State::Head => {
                if self.request.head(data, time, out) {
                    self.asked(time, out);
                }
            }
            State::Wait => *data = &[],
            _ => carry(&mut self.request, &mut self.flow, data, time, out),
        }
        None
    }

    /// Takes what the server sent next.
    fn response(&mut self, data: &mut &[u8], time: Time, out: &mut dyn Out) -> Option<Step> {
        match &self.response.state {
            State::Start | State::Lost { .. } => {
                let (line, is_cut) = self.response.lines.next(data)?;
                let (text, rest) = first_line(chomped(&line));
                if text.trim_ascii().is_empty() {
                    return self.response.blank();
                }
                if is_cut {
                    say("response_field_too_long", Direction::Reverse, text, time, out);
                }
                let lost = match self.response.state {
                    State::Lost { messages } => Some(messages),
                    _ => None,
                };
                let Some(status) = StatusLine::of(text) else {
                    if lost.is_none() {
                        self.response.state = State::Odd(line.into_owned());
                    }
                    return None;
                };
                if let Some(messages) = lost {
                    status.code()?;
                    if messages {
                        self.flow.forget_unanswered(out);
                    }
                }
                let id = self.flow.answering(time, out);
                if let Some(transaction) = self.flow.transaction(id) {
                    transaction.is_begun = true;
                    transaction.response = Some(status);
                }
                self.response.begin(id);
                self.response.header(rest, time, out);
            }
            State::Odd(line) => {
                // A line before the status line is passed over, as browsers do.
                if data.first() == Some(&b'H') || chomped(line).len() <= 2 {
                    self.response.state = State::Start;
                    return None;
                }
                let line = line.clone();
                if self.flow.waiting.iter().all(|transaction| transaction.is_begun) {
                    say("bad_HTTP_reply", Direction::Reverse, &line, time, out);
                    self.response.state = State::Lost { messages: false };
                    return None;
                }
                self.treat_as_body(&line, time, out);
            }
            State::Head => {
                if self.response.head(data, time, out)
                    && let After::Become(protocol) = self.answered(time, out)
                {
                    return Some(Step::Become { protocol, unread: 0 });
                }
            }
            State::Wait => *data = &[],
            _ => carry(&mut self.response, &mut self.flow, data, time, out),
        }
        None
    }

    /// HTTP/0.9, or a server that answers as if it were: what it sends is the body, until it closes.
    fn treat_as_body(&mut self, line: &[u8], time: Time, out: &mut dyn Out) {
        if self.flow.waiting.iter().all(|transaction| transaction.is_begun) {
            return;
        }
        let id = self.flow.answering(time, out);
        self.response.current = id;
        if let Some(transaction) = self.flow.transaction(id) {
            transaction.is_begun = true;
            let described = transaction.described(Direction::Reverse);
            self.response.body = Some(Body::new(described, &Headers::default(), false, None));
        }
        self.response.state = State::Close;
        let mut line = line;
        carry(&mut self.response, &mut self.flow, &mut line, time, out);
    }

    /// The head of a request is complete.
    fn asked(&mut self, time: Time, out: &mut dyn Out) {
        let (side, flow) = (&mut self.request, &mut self.flow);
        let headers = std::mem::replace(&mut side.headers, Headers::new(MAX_HEADERS));
        let Some(transaction) = flow.transaction(side.current) else {
            side.state = State::Lost { messages: true };
            return;
        };
        let method = transaction.method();
        let (is_connect, is_chunked) = (method == b"CONNECT", is_chunked(&headers));
        let length = headers.get(b"content-length").map(decimal);
        if is_chunked && length.is_some() {
            say("request_smuggling", Direction::Forward, b"", time, out);
        }
        if headers.all(b"content-length").any(|other| Some(decimal(other)) != length) {
            say("duplicate_content_length_field_in_request", Direction::Forward, b"", time, out);
        }
        side.state = match (is_connect, is_chunked, length) {
            (true, ..) => State::Wait,
            (_, true, _) => State::ChunkSize,
            (_, _, Some(Some(length))) if length > 0 => State::Length(length),
            (_, _, Some(None)) => {
                say("invalid_content_length_field_in_request", Direction::Forward, b"", time, out);
                State::Start
            }
            _ => State::Start,
        };
        if matches!(side.state, State::ChunkSize | State::Length(_)) {
            let described = transaction.described(Direction::Forward);
            side.body = Some(Body::new(described, &headers, false, length.flatten().filter(|_| !is_chunked)));
        }
        let has_body = side.body.is_some();
        transaction.request_headers = headers;
        if !has_body {
            transaction.is_asked = true;
            flow.settle(out);
        }
    }

    /// The head of a response is complete.
    fn answered(&mut self, time: Time, out: &mut dyn Out) -> After {
        let (side, flow) = (&mut self.response, &mut self.flow);
        let headers = std::mem::replace(&mut side.headers, Headers::new(MAX_HEADERS));
        let Some(transaction) = flow.transaction(side.current) else {
            side.state = State::Lost { messages: true };
            return After::Go;
        };
        let code = transaction.response.as_ref().and_then(StatusLine::code);
        let length = headers.get(b"content-length").map(decimal);
        let (is_chunked, is_coded) = (is_chunked(&headers), headers.get(b"transfer-encoding").is_some());
        if is_chunked && length.is_some() {
            say("response_smuggling", Direction::Reverse, b"", time, out);
        }
        if headers.all(b"content-length").any(|other| Some(decimal(other)) != length) {
            say("duplicate_content_length_field_in_response", Direction::Reverse, b"", time, out);
        }
        let is_connect = transaction.method() == b"CONNECT";
        let has_none = !is_coded && length.is_none_or(|length| length == Some(0));
        match code {
            // Another response comes.
            Some(100 | 102..200) if has_none => {
                transaction.info = transaction.response.take();
                transaction.is_begun = false;
                side.state = State::Start;
                return After::Go;
            }
            Some(101) if !is_coded && length.is_none() => {
                transaction.response_headers = headers;
                transaction.is_asked = true;
                let protocol = transaction.upgraded(out);
                finish(side, flow, true, time, out);
                return After::Become(protocol);
            }
            Some(200..300) if is_connect => {
                transaction.response_headers = headers;
                transaction.is_asked = true;
                finish(side, flow, true, time, out);
                return After::Become(None);
            }
            _ => {}
        }
        // The client waited to be told to go on, and is not: its body does not come.
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
                Some(None) => {
                    say("invalid_content_length_field_in_response", Direction::Reverse, b"", time, out);
                    State::Close
                }
                None => State::Close,
            }
        };
        transaction.response_headers = headers;
        if side.state == State::Start {
            finish(side, flow, true, time, out);
        } else {
            let declared = length.flatten().filter(|_| !is_chunked);
            let described = transaction.described(Direction::Reverse);
            let headers = &transaction.response_headers;
            side.body = Some(Body::new(described, headers, code == Some(206), declared));
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

impl Side {
    /// A message begins.
    fn begin(&mut self, id: u64) {
        self.current = id;
        self.blank = 0;
        self.headers = Headers::new(MAX_HEADERS);
        self.state = State::Head;
    }

    /// A line of nothing before a message.
    fn blank(&mut self) -> Option<Step> {
        self.blank += 1;
        (self.blank > MAX_BLANK).then_some(Step::GiveUp)
    }

    /// Takes the next line of headers; whether it was the last.
    fn head(&mut self, data: &mut &[u8], time: Time, out: &mut dyn Out) -> bool {
        let Some((line, is_cut)) = self.lines.next(data) else { return false };
        let text = chomped(&line);
        // Browsers end the head of a response at a line of blanks, too.
        let is_blank = text.iter().all(|octet| matches!(octet, b' ' | b'\t'));
        if text.is_empty() || is_blank && self.direction == Direction::Reverse {
            return true;
        }
        if is_cut {
            let name = match self.direction {
                Direction::Forward => "request_field_too_long",
                Direction::Reverse => "response_field_too_long",
            };
            say(name, self.direction, text, time, out);
        }
        self.header(text, time, out);
        false
    }

    /// Takes a line of headers. A carriage return alone ends a line, too.
    fn header(&mut self, text: &[u8], time: Time, out: &mut dyn Out) {
        let was_full = self.headers.is_full;
        for line in text.split(|octet| *octet == b'\r').filter(|line| !line.is_empty()) {
            if let Some(wrong) = self.headers.line(line) {
                say(wrong, self.direction, line, time, out);
            }
        }
        if self.headers.is_full && !was_full {
            say("too_many_headers", self.direction, text, time, out);
        }
    }
}

/// Takes what belongs to a body.
fn carry(side: &mut Side, flow: &mut Flow, data: &mut &[u8], time: Time, out: &mut dyn Out) {
    match &mut side.state {
        State::Length(left) | State::Chunk(left) => {
            let most = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
            let (now, later) = data.split_at_checked(most).unwrap_or((data, &[]));
            *left -= now.len() as u64;
            let is_over = *left == 0;
            *data = later;
            give(side, flow, now, time, out);
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
            // Whatever stands on the line behind a chunk.
            let end = data.iter().position(|octet| *octet == b'\n');
            let line = end.map_or(data.len(), |end| end + 1);
            count(side, flow, line as u64);
            *data = data.get(line..).unwrap_or_default();
            if end.is_some() {
                side.state = State::ChunkSize;
            }
        }
        State::ChunkSize => {
            let line = side.lines.next(data);
            let text = line.as_ref().map_or(side.lines.held(), |(line, _)| line);
            let is_control = |octet: &u8| matches!(octet, b'\r' | b'\n' | b' ' | b'\t' | 0x0b | 0x0c);
            let Some(start) = text.iter().position(|octet| !is_control(octet)) else {
                if let Some((line, _)) = line {
                    count(side, flow, line.len() as u64);
                }
                return;
            };
            let digits = text.get(start..).unwrap_or_default();
            let most = digits.iter().position(|o| !o.is_ascii_hexdigit()).unwrap_or(digits.len());
            if most == 0 {
                // No chunk at all: browsers take what comes for the body.
                say("invalid_HTTP_chunk_size", side.direction, b"", time, out);
                let begun = match line {
                    Some((line, _)) => line.into_owned(),
                    None => side.lines.take(),
                };
                side.state = State::Close;
                return give(side, flow, &begun, time, out);
            }
            let Some((line, _)) = &line else { return };
            count(side, flow, line.len() as u64);
            let digits = std::str::from_utf8(digits.get(..most).unwrap_or_default()).unwrap_or_default();
            match u64::from_str_radix(digits, 16).ok().filter(|length| *length <= MAX_CHUNK) {
                Some(0) => {
                    side.headers = Headers::new(MAX_HEADERS);
                    side.state = State::Trailers;
                }
                Some(length) => side.state = State::Chunk(length),
                None => say("invalid_HTTP_chunk_size", side.direction, line, time, out),
            }
        }
        State::Trailers => {
            if side.head(data, time, out) {
                finish(side, flow, true, time, out);
            }
        }
        State::Start | State::Head | State::Odd(_) | State::Wait | State::Lost { .. } => {}
    }
}

/// Octets of a body.
fn give(side: &mut Side, flow: &mut Flow, octets: &[u8], time: Time, out: &mut dyn Out) {
    let Some(body) = &mut side.body else { return };
    let fault = body.octets(octets, time, &mut flow.files, &mut flow.ranges, out);
    if let Some(fault) = fault {
        say(fault, side.direction, b"", time, out);
    }
}

/// Octets of the framing: Suricata counts them to a response's length.
fn count(side: &Side, flow: &mut Flow, octets: u64) {
    if side.direction == Direction::Reverse
        && let Some(transaction) = flow.transaction(side.current)
    {
        transaction.response_wire += octets;
    }
}

/// The message in work has ended; `whole`: where it should.
fn finish(side: &mut Side, flow: &mut Flow, whole: bool, time: Time, out: &mut dyn Out) {
    let is_idle = matches!(side.state, State::Start | State::Lost { .. } | State::Odd(_));
    side.state = State::Start;
    let body = side.body.take();
    let wire = body.as_ref().map_or(0, |body| body.wire);
    let ended = body.map(|body| body.end(whole, time, &mut flow.files, &mut flow.ranges, out));
    let (listed, length) = ended.unwrap_or_default();
    let Some(transaction) = flow.transaction(side.current) else { return };
    match side.direction {
        Direction::Forward if !is_idle || wire > 0 => {
            transaction.is_asked = true;
            (transaction.sent, transaction.request_length) = (listed, length);
        }
        Direction::Reverse if transaction.is_begun => {
            transaction.is_answered = true;
            transaction.ended = time;
            transaction.response_wire += wire;
            (transaction.received, transaction.response_length) = (listed, length);
        }
        _ => {}
    }
    flow.settle(out);
}

impl Flow {
    fn transaction(&mut self, id: u64) -> Option<&mut Transaction> {
        let first = self.waiting.front()?.id;
        self.waiting.get_mut(usize::try_from(id.checked_sub(first)?).ok()?)
    }

    /// A new transaction.
    fn begin(&mut self, time: Time, out: &mut dyn Out) -> u64 {
        let held: usize = self.waiting.iter().map(Transaction::memory).sum();
        if self.waiting.len() >= MAX_WAITING || held >= MAX_WAITING_OCTETS {
            say("too_many_requests", Direction::Forward, b"", time, out);
            if let Some(transaction) = self.waiting.pop_front() {
                transaction.tell(out);
            }
        }
        let id = self.begun;
        self.begun += 1;
        self.waiting.push_back(Transaction {
            id,
            time,
            ended: time,
            request: None,
            request_headers: Headers::default(),
            response: None,
            response_headers: Headers::default(),
            info: None,
            is_asked: false,
            is_begun: false,
            is_answered: false,
            request_length: 0,
            response_length: 0,
            response_wire: 0,
            sent: Listed::default(),
            received: Listed::default(),
        });
        id
    }

    /// Whose response begins: that of the first request that has none; or nobody's that was seen.
    fn answering(&mut self, time: Time, out: &mut dyn Out) -> u64 {
        if let Some(transaction) = self.waiting.iter().find(|transaction| !transaction.is_begun) {
            return transaction.id;
        }
        if !std::mem::replace(&mut self.unmatched, true) {
            say("unmatched_HTTP_reply", Direction::Reverse, b"", time, out);
        }
        let id = self.begin(time, out);
        if let Some(transaction) = self.transaction(id) {
            transaction.is_asked = true;
        }
        id
    }

    /// Requests were lost: those before are not answered any more, but for one that is being answered.
    fn forget_asked(&mut self, out: &mut dyn Out) {
        for transaction in &mut self.waiting {
            transaction.is_asked = true;
            transaction.is_answered |= !transaction.is_begun;
        }
        self.settle(out);
    }

    /// Responses were lost: what comes answers the last request.
    fn forget_unanswered(&mut self, out: &mut dyn Out) {
        let last = self.waiting.back().map(|transaction| transaction.id);
        for transaction in self.waiting.iter_mut().filter(|transaction| Some(transaction.id) != last) {
            (transaction.is_asked, transaction.is_answered) = (true, true);
        }
        self.settle(out);
    }

    /// Tells what is complete.
    fn settle(&mut self, out: &mut dyn Out) {
        while self.waiting.front().is_some_and(|front| front.is_asked && front.is_answered) {
            if let Some(transaction) = self.waiting.pop_front() {
                transaction.tell(out);
            }
        }
    }
}

impl Transaction {
    fn method(&self) -> &[u8] {
        self.request.as_ref().map_or(&[], |request| &request.method)
    }

    fn described(&self, direction: Direction) -> Described {
        let uri = self.request.as_ref().map_or(&[][..], |request| &request.uri);
        let (hostname, _) = self.hostname();
        let source = [hostname.as_deref().unwrap_or_default(), b" ", uri].concat();
        Described {
            direction,
            transaction: self.id,
            source,
            path: uri::path(uri),
            carrier: self.carrier(direction),
        }
    }

    fn memory(&self) -> usize {
        let request = self.request.as_ref().map_or(0, |r| r.method.capacity() + r.uri.capacity());
        size_of::<Self>() + request + self.request_headers.memory() + self.response_headers.memory()
    }
}

/// A start line, and the headers behind it where only carriage returns end lines.
fn first_line(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|octet| *octet == b'\r').unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}

/// Whether a message comes in chunks: the word may stand among others.
fn is_chunked(headers: &Headers) -> bool {
    headers.all(b"transfer-encoding").any(|value| {
        let text: Vec<u8> = value.iter().filter(|o| **o != 0).map(u8::to_ascii_lowercase).collect();
        text.windows(7).any(|window| window == b"chunked")
    })
}

fn say(name: &'static str, direction: Direction, detail: &[u8], time: Time, out: &mut dyn Out) {
    anomaly(out, time, &PROTOCOL, &Anomaly { name, direction, detail });
}
