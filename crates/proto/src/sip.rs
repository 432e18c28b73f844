//! Session Initiation Protocol (RFC 3261) over UDP and TCP: each message, each request with its responses, and the
//! streams in session descriptions (RFC 8866).

mod buffers;
mod sdp;

use crate::early::{begin_transaction, early};
use crate::line::Lines;
use crate::work::looked_at;
use crate::{
    Asked, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Span, Step, TCP, Table, Transport,
    Value, field, record,
};
use buffers::Complete;
use sdp::Description;
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "sip",
    help: "Session Initiation Protocol (RFC 3261).",
    transport: Transport::Both,
    ports: &[5060],
    probe,
    parser: |setup| Box::new(Sip { flow: setup.flow, is_stream: setup.ip_proto == TCP, ..Sip::default() }),
    tables: &[&SIP, &SIP_MESSAGE],
    buffers: buffers::ALL,
};

static SIP: Table = Table {
    name: "sip",
    help: "A response with its request, or a request without a response.",
    zeek: "sip",
    eve: "",
    fields: &[
        field("trans_depth", Kind::Uint, "Number of earlier requests that were waiting for responses.")
            .zeek("trans_depth"),
        field("method", Kind::Text, "Method of the request.").zeek("method"),
        field("uri", Kind::Text, "URI of the request.").zeek("uri").privacy(Privacy::Mail),
        field("date", Kind::Text, "Date field of the request.").zeek("date"),
        field("request_from", Kind::Text, "From field of the request, without tag.")
            .zeek("request_from")
            .privacy(Privacy::Mail),
        field("request_to", Kind::Text, "To field of the request.").zeek("request_to").privacy(Privacy::Mail),
        field("response_from", Kind::Text, "From field of the response, without tag.")
            .zeek("response_from")
            .privacy(Privacy::Mail),
        field("response_to", Kind::Text, "To field of the response.")
            .zeek("response_to")
            .privacy(Privacy::Mail),
        field("reply_to", Kind::Text, "Reply-To field of the request.")
            .zeek("reply_to")
            .privacy(Privacy::Mail),
        field("call_id", Kind::Text, "Identifier of the call (Call-ID).")
            .zeek("call_id")
            .privacy(Privacy::Fingerprint),
        field("seq", Kind::Text, "Number of the request in the call, with the method (CSeq).").zeek("seq"),
        field("subject", Kind::Text, "Subject field of the request.")
            .zeek("subject")
            .privacy(Privacy::Content),
        field("request_path", Kind::List(&Kind::Text), "Via fields of the request, and of its repetitions.")
            .zeek("request_path")
            .privacy(Privacy::Address),
        field("response_path", Kind::List(&Kind::Text), "Via fields of all responses to the request so far.")
            .zeek("response_path")
            .privacy(Privacy::Address),
        field("user_agent", Kind::Text, "User-Agent field of the request.").zeek("user_agent"),
        field("status_code", Kind::Uint, "Status code of the response.").zeek("status_code"),
        field("status_msg", Kind::Text, "Reason phrase of the response.").zeek("status_msg"),
        field("warning", Kind::Text, "Warning field of the response.")
            .zeek("warning")
            .privacy(Privacy::Content),
        field("request_body_len", Kind::Uint, "Length of the request's body in bytes (Content-Length).")
            .zeek("request_body_len"),
        field("response_body_len", Kind::Uint, "Length of the response's body in bytes (Content-Length).")
            .zeek("response_body_len"),
        field("content_type", Kind::Text, "Content-Type field of the response.").zeek("content_type"),
        field("duration", Kind::Duration, "Time from the request to the response, in seconds."),
    ],
};

static SIP_MESSAGE: Table = Table {
    name: "sip_message",
    help: "A request or a response, with its session description.",
    zeek: "",
    eve: "sip",
    fields: &[
        field("method", Kind::Text, "Method of the request.").eve("sip.method"),
        field("uri", Kind::Text, "URI of the request.").eve("sip.uri").privacy(Privacy::Mail),
        field("version", Kind::Text, "Version of the protocol.").eve("sip.version"),
        field("request_line", Kind::Text, "First line of a request.")
            .eve("sip.request_line")
            .privacy(Privacy::Content),
        field("code", Kind::Text, "Status code of a response.").eve("sip.code"),
        field("reason", Kind::Text, "Reason phrase of a response.").eve("sip.reason"),
        field("response_line", Kind::Text, "First line of a response.").eve("sip.response_line"),
        field("call_id", Kind::Text, "Identifier of the call (Call-ID).").privacy(Privacy::Fingerprint),
        field("seq", Kind::Text, "Number of the request in the call, with the method (CSeq)."),
        field("sdp_version", Kind::Uint, "Session description: version (v=).").eve("sip.sdp.version"),
        field("sdp_origin", Kind::Text, "Session description: originator (o=).")
            .eve("sip.sdp.origin")
            .privacy(Privacy::Content),
        field("sdp_name", Kind::Text, "Session description: name (s=).")
            .eve("sip.sdp.session_name")
            .privacy(Privacy::Content),
        field("sdp_info", Kind::Text, "Session description: information (i=).")
            .eve("sip.sdp.session_info")
            .privacy(Privacy::Content),
        field("sdp_uri", Kind::Text, "Session description: URI with further information (u=).")
            .eve("sip.sdp.uri")
            .privacy(Privacy::Url),
        field("sdp_email", Kind::Text, "Session description: mail address (e=).")
            .eve("sip.sdp.email")
            .privacy(Privacy::Mail),
        field("sdp_phone", Kind::Text, "Session description: telephone number (p=).")
            .eve("sip.sdp.phone_number")
            .privacy(Privacy::Content),
        field("sdp_connection", Kind::Text, "Session description: connection address (c=).")
            .eve("sip.sdp.connection_data")
            .privacy(Privacy::Address),
        field("sdp_bandwidths", Kind::List(&Kind::Text), "Session description: bandwidths (b=).")
            .eve("sip.sdp.bandwidths"),
        field("sdp_times", Kind::Rows(&sdp::TIMES), "Session description: times of the session (t=, r=).")
            .eve("sip.sdp.time_descriptions"),
        field("sdp_zone", Kind::Text, "Session description: changes of the time zone (z=).")
            .eve("sip.sdp.timezone"),
        field("sdp_key", Kind::Text, "Session description: encryption key (k=).")
            .eve("sip.sdp.encryption_key")
            .privacy(Privacy::Secret),
        field("sdp_attributes", Kind::List(&Kind::Text), "Session description: attributes (a=).")
            .eve("sip.sdp.attributes")
            .privacy(Privacy::Content),
        field("sdp_media", Kind::Rows(&sdp::MEDIA), "Session description: media (m=).")
            .eve("sip.sdp.media_descriptions"),
    ],
};

/// Maximum length of a line in bytes; messages over UDP have at most 65,535 bytes, and a Via or a Contact with its
/// parameters has some hundred.
const MAX_LINE: usize = 8192;
/// Maximum number of header lines; RFC 3261 sets no limit, and real messages have about twenty.
const MAX_HEADERS: usize = 256;
/// Maximum length of a session description in bytes.
const MAX_BODY: usize = 16_384;
/// Maximum number of requests without a response.
const MAX_WAITING: usize = 64;
/// Maximum number of proxies: RFC 3261 allows 70 hops.
const MAX_PATH: usize = 70;
/// Calls whose last request, an ACK, is remembered.
const MAX_UNANSWERED: usize = 8;
/// Maximum length of a method in bytes.
const MAX_METHOD: usize = 32;

const VERSION: &[u8] = b"SIP/";
/// Methods of RFC 3261 and of its extensions.
const METHODS: [&[u8]; 14] = [
    b"INVITE",
    b"ACK",
    b"BYE",
    b"CANCEL",
    b"OPTIONS",
    b"REGISTER",
    b"PRACK",
    b"SUBSCRIBE",
    b"NOTIFY",
    b"PUBLISH",
    b"INFO",
    b"REFER",
    b"MESSAGE",
    b"UPDATE",
];

fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.ports.contains(&5060);
    let mut answer = Probe::Reject;
    for head in heads.both() {
        // Keep-alives may precede a message: line ends or zeros.
        let begin = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n' | 0));
        let head = begin.and_then(|begin| head.get(begin..)).unwrap_or_default();
        match is_begun(head) {
            Probe::Maybe if head.is_empty() && !is_home => return Probe::Reject,
            Probe::Reject => return Probe::Reject,
            Probe::Match => return Probe::Match,
            Probe::Maybe => answer = Probe::Maybe,
        }
    }
    answer
}

/// Whether a message begins here.
fn is_begun(head: &[u8]) -> Probe {
    let is_begun_by = |word: &[u8]| head.iter().zip(word).all(|(a, b)| a == b);
    if is_begun_by(VERSION) {
        return if head.len() > VERSION.len() { Probe::Match } else { Probe::Maybe };
    }
    let Some(method) = METHODS.into_iter().find(|method| is_begun_by(method)) else { return Probe::Reject };
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match head.get(method.len()) {
        None => Probe::Maybe,
        Some(b' ') if line.len() == head.len() => Probe::Maybe,
        Some(b' ') => match line.trim_ascii_end().rsplit(|byte| *byte == b' ').next() {
            Some(version) if version.starts_with(VERSION) => Probe::Match,
            _ => Probe::Reject,
        },
        Some(_) => Probe::Reject,
    }
}

/// The kept parts of a message.
#[derive(Debug, Default)]
struct Message {
    line: Vec<u8>,
    /// The status of a response.
    status: Option<u64>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    date: Option<Vec<u8>>,
    reply_to: Option<Vec<u8>>,
    call_id: Option<Vec<u8>>,
    seq: Option<Vec<u8>>,
    subject: Option<Vec<u8>>,
    path: Vec<Vec<u8>>,
    user_agent: Option<Vec<u8>>,
    warning: Option<Vec<u8>>,
    content_type: Option<Vec<u8>>,
    length: Option<u64>,
    body: Vec<u8>,
    headers: usize,
}

impl Message {
    /// Creates a message from its first line; `None` if the line is no first line.
    fn begin(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let first = words.next()?;
        let status = if first.starts_with(VERSION) {
            Some(std::str::from_utf8(words.next()?).ok()?.parse::<u16>().ok()?.into())
        } else {
            let is_method = first.len() <= MAX_METHOD
                && !first.is_empty()
                && first.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
            (is_method && words.next_back()?.starts_with(VERSION)).then_some(())?;
            None
        };
        Some(Self { line: line.to_vec(), status, ..Self::default() })
    }

    /// The three parts of the first line.
    fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        let space = |text: &[u8]| text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (first, rest) = self.line.split_at_checked(space(&self.line)).unwrap_or_default();
        let rest = rest.get(1..).unwrap_or_default();
        let cut = if self.status.is_some() {
            space(rest)
        } else {
            rest.iter().rposition(|byte| *byte == b' ').unwrap_or(rest.len())
        };
        let (second, third) = rest.split_at_checked(cut).unwrap_or_default();
        (first, second.trim_ascii(), third.trim_ascii())
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        let name = name.trim_ascii_end().to_ascii_lowercase();
        let value = value.trim_ascii();
        let place = match name.as_slice() {
            b"from" | b"f" => {
                let tag = |at: &usize| {
                    let rest = value.get(*at + 1..).unwrap_or_default();
                    rest.strip_prefix(b" ").unwrap_or(rest).starts_with(b"tag=")
                };
                let marks = value.iter().enumerate().filter(|(_, byte)| **byte == b';').map(|(at, _)| at);
                let end = marks.into_iter().find(tag).unwrap_or(value.len());
                self.from.get_or_insert_with(|| value.get(..end).unwrap_or(value).to_vec());
                return;
            }
            b"via" | b"v" => {
                if self.path.len() < MAX_PATH {
                    let marks = value.iter().enumerate().filter(|(_, byte)| **byte == b';').map(|(at, _)| at);
                    let branch = |at: &usize| {
                        let rest = value.get(*at + 1..).unwrap_or_default();
                        rest.strip_prefix(b" ").unwrap_or(rest).starts_with(b"branch")
                    };
                    let end = marks.into_iter().find(branch).unwrap_or(value.len());
                    self.path.push(value.get(..end).unwrap_or(value).to_vec());
                }
                return;
            }
            b"content-length" | b"l" => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.length = self.length.or(number);
                return;
            }
            b"to" | b"t" => &mut self.to,
            b"date" => &mut self.date,
            b"reply-to" => &mut self.reply_to,
            b"call-id" | b"i" => &mut self.call_id,
            b"cseq" => &mut self.seq,
            b"subject" | b"s" => &mut self.subject,
            b"user-agent" => &mut self.user_agent,
            b"warning" => &mut self.warning,
            b"content-type" | b"c" => &mut self.content_type,
            _ => return,
        };
        place.get_or_insert_with(|| value.to_vec());
    }

    fn is_description(&self) -> bool {
        let kind = self.content_type.as_deref().unwrap_or_default();
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(b"application/sdp")
    }

    fn memory(&self) -> usize {
        let texts = [
            &self.from,
            &self.to,
            &self.date,
            &self.reply_to,
            &self.call_id,
            &self.seq,
            &self.subject,
            &self.user_agent,
            &self.warning,
            &self.content_type,
        ];
        let texts: usize = texts.into_iter().flatten().map(Vec::capacity).sum();
        let path: usize = self.path.iter().map(Vec::capacity).sum();
        size_of::<Self>() + self.line.capacity() + self.body.capacity() + texts + path
    }
}

/// The current message of one direction.
struct Side {
    lines: Lines,
    message: Option<Message>,
    /// A header line that the next line may continue.
    header: Vec<u8>,
    /// Values of buffers that the current line has completed.
    complete: Vec<Complete>,
    /// Remaining bytes of the body; `None` in the header.
    body: Option<u64>,
    /// Whether bytes of the body are missing.
    is_holed: bool,
    /// After a gap: bytes are skipped up to the next first line.
    lost: bool,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            lines: Lines::new(MAX_LINE),
            message: None,
            header: Vec::new(),
            complete: Vec::new(),
            body: None,
            is_holed: false,
            lost: false,
        }
    }
}

impl Side {
    /// Adds the held header line.
    fn header(&mut self, asked: Asked) {
        looked_at(self.header.len());
        if let Some(message) = &mut self.message
            && let Some(colon) = self.header.iter().position(|byte| *byte == b':')
            && let Some((name, value)) = self.header.split_at_checked(colon)
        {
            let value = value.get(1..).unwrap_or_default();
            message.header(name, value);
            self.complete.extend(buffers::of_header(name, value, asked));
        }
        self.header.clear();
    }

    /// Hands on the buffers that are complete.
    fn hand_on(&mut self, direction: Direction, out: &mut dyn Out) {
        for (buffer, bytes) in std::mem::take(&mut self.complete) {
            out.buffer(buffer, direction, &bytes);
        }
    }

    fn forget(&mut self) {
        self.lines.forget();
        self.header.clear();
        (self.message, self.body, self.is_holed) = (None, None, false);
    }
}

/// A request without a final response.
struct Request {
    time: Time,
    /// Its bytes, and those of its responses.
    at: Span,
    depth: usize,
    message: Message,
    /// The way of the responses so far.
    answered: Vec<Vec<u8>>,
    /// Whether it was emitted with a provisional response.
    is_emitted: bool,
}

/// The Via fields of a request that no response follows.
struct Unanswered {
    call_id: Option<Vec<u8>>,
    path: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Sip {
    flow: u64,
    is_stream: bool,
    client: Side,
    server: Side,
    waiting: VecDeque<Request>,
    /// The ways of requests that nothing answers, by the name of the call: they are part of the way of its next request.
    unanswered: VecDeque<Unanswered>,
    wrong: u32,
    /// Number of messages that have begun, of both sides.
    begun: u64,
}

/// Number of consecutive foreign lines after which the flow is given up.
const MAX_WRONG: u32 = 64;

impl Parser for Sip {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let mut side = std::mem::take(self.side(chunk.direction));
        if chunk.gap > 0 {
            match side.body.filter(|left| *left >= chunk.gap) {
                Some(left) => {
                    // Only the body has a gap: its description is lost, the message is not.
                    side.is_holed = true;
                    side.body = Some(left - chunk.gap);
                    if left == chunk.gap {
                        self.finish(&mut side, chunk, out);
                    }
                }
                None => {
                    side.forget();
                    side.lost = true;
                }
            }
        }
        let mut data = chunk.data;
        // Parsing stops after this number of foreign lines, wherever the stream was cut.
        while !data.is_empty() && self.wrong <= MAX_WRONG {
            match side.body {
                Some(left) => {
                    let fit = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                    let (head, rest) = data.split_at_checked(fit).unwrap_or((data, &[]));
                    data = rest;
                    looked_at(fit);
                    if let Some(message) = &mut side.message
                        && message.is_description()
                    {
                        let room = MAX_BODY.saturating_sub(message.body.len());
                        message.body.extend_from_slice(head.get(..room).unwrap_or(head));
                    }
                    side.body = Some(left - fit as u64);
                    if left == fit as u64 {
                        if self.is_stream {
                            out.more(data.len());
                        }
                        self.finish(&mut side, chunk, out);
                    }
                }
                None => self.line(&mut side, &mut data, chunk, out),
            }
        }
        if !self.is_stream {
            // A datagram is one message, complete or not.
            if side.body.is_none() {
                self.line(&mut side, &mut &b"\n"[..], chunk, out);
            }
            side.header(out.asked());
            side.hand_on(chunk.direction, out);
            self.finish(&mut side, chunk, out);
            side.forget();
        }
        *self.side(chunk.direction) = side;
        if self.wrong > MAX_WRONG { Step::GiveUp } else { Step::Next }
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        while let Some(request) = self.waiting.pop_front() {
            if !request.is_emitted {
                emit(Some(&request), None, request.time, out);
            }
        }
    }

    fn memory(&self) -> usize {
        let side = |side: &Side| {
            side.lines.memory() + side.header.capacity() + side.message.as_ref().map_or(0, Message::memory)
        };
        let path = |path: &[Vec<u8>]| path.iter().map(|hop| hop.capacity() + 24).sum::<usize>();
        let waiting: usize = self
            .waiting
            .iter()
            .map(|request| request.message.memory() + path(&request.answered) + size_of::<Request>())
            .sum();
        let unanswered: usize = self.unanswered.iter().map(|before| path(&before.path) + 64).sum();
        side(&self.client) + side(&self.server) + waiting + unanswered
    }
}

impl Sip {
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Forward => &mut self.client,
            Direction::Reverse => &mut self.server,
        }
    }

    /// Takes a header line, if one ends in the data.
    fn line(&mut self, side: &mut Side, data: &mut &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        let (direction, time) = (chunk.direction, chunk.time);
        let (mut emitted, is_within, asked) = (None, side.message.is_some(), out.asked());
        let mut lines = std::mem::replace(&mut side.lines, Lines::new(MAX_LINE));
        let is_over = lines.next(data, |line| {
            if line.is_cut {
                emitted = Some(("line_too_long", line.text.to_vec()));
            }
            if side.message.is_none() {
                let text = line.text;
                let begin = text.iter().position(|byte| *byte != 0).unwrap_or(text.len());
                let (zeros, text) = text.split_at_checked(begin).unwrap_or_default();
                if !zeros.is_empty() {
                    // As Zeek writes them.
                    emitted = Some(("sip_junk_before_request", b"\\x00".repeat(zeros.len().min(16))));
                }
                if text.is_empty() {
                    return false;
                }
                side.message = Message::begin(text);
                if let Some(message) = &side.message {
                    side.complete = buffers::of_line(message, asked);
                    (side.lost, self.wrong) = (false, 0);
                } else {
                    self.wrong += 1;
                    if !side.lost {
                        side.lost = true;
                        emitted = Some(("no_first_line", text.to_vec()));
                    }
                }
                return false;
            }
            if matches!(line.text.first(), Some(b' ' | b'\t')) {
                if side.header.len() + line.text.len() <= MAX_LINE {
                    side.header.extend_from_slice(line.text);
                }
                return false;
            }
            let is_last = line.text.is_empty();
            side.header(asked);
            let headers = side.message.as_mut().map_or(0, |message| {
                message.headers += 1;
                message.headers
            });
            if headers == MAX_HEADERS {
                emitted = Some(("too_many_headers", line.text.to_vec()));
            }
            if headers < MAX_HEADERS {
                side.header.extend_from_slice(line.text);
            }
            is_last
        });
        side.lines = lines;
        if self.is_stream && is_over.is_some() {
            match is_within {
                true => out.more(data.len()),
                false => out.message(data.len()),
            };
        }
        if !is_within && side.message.is_some() {
            begin_transaction(direction, self.begun, out);
            self.begun += 1;
        }
        side.hand_on(direction, out);
        if let Some((name, detail)) = emitted {
            PROTOCOL.emit_anomaly(name, direction, &detail, time, out);
        }
        if is_over == Some(true) {
            let length = side.message.as_ref().and_then(|message| message.length);
            // A datagram's body extends to its end: some senders count wrong.
            let length = if self.is_stream { length.unwrap_or(0) } else { u64::MAX };
            side.body = Some(length);
            if length == 0 {
                self.finish(side, chunk, out);
            }
        }
    }

    /// Handles a complete message.
    fn finish(&mut self, side: &mut Side, chunk: &Chunk<'_>, out: &mut dyn Out) {
        side.body = None;
        let Some(mut message) = side.message.take() else { return };
        let has_description = message.is_description() && !std::mem::take(&mut side.is_holed);
        let description = if has_description { Description::read(&message.body) } else { None };
        if let Some(description) = &description {
            description.show(chunk.direction, out);
        }
        out.side_is_complete(chunk.direction);
        if has_description && description.is_none() {
            PROTOCOL.emit_anomaly("invalid_description", chunk.direction, &message.body, chunk.time, out);
        }
        emit_message(&message, description.as_ref(), chunk.time, out);
        if let Some(description) = description {
            description.announce(self.flow, message.call_id.as_deref(), chunk.time, out);
        }
        message.body = Vec::new();
        self.pair(message, chunk, out);
    }

    /// Pairs requests with responses.
    fn pair(&mut self, message: Message, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let time = chunk.time;
        let is_same = |request: &Request| {
            request.message.call_id == message.call_id && request.message.seq == message.seq
        };
        looked_at(self.waiting.len());
        let at = self.waiting.iter().position(is_same);
        let Some(status) = message.status else {
            if let Some(known) = at.and_then(|at| self.waiting.get_mut(at)) {
                // A retransmitted request: it went its way again.
                let room = MAX_PATH.saturating_sub(known.message.path.len());
                known.message.path.extend(message.path.into_iter().take(room));
                return;
            }
            let depth = self.waiting.len();
            let mut request =
                Request { time, at: out.here(), depth, message, answered: Vec::new(), is_emitted: false };
            if request.message.line.starts_with(b"ACK ") {
                emit(Some(&request), None, time, out);
                self.acknowledged(request.message);
                return;
            }
            let is_of_call = |before: &Unanswered| before.call_id == request.message.call_id;
            let before = self.unanswered.iter().position(is_of_call);
            if let Some(Unanswered { mut path, .. }) = before.and_then(|at| self.unanswered.remove(at)) {
                path.append(&mut request.message.path);
                path.truncate(MAX_PATH);
                request.message.path = path;
            }
            if depth == MAX_WAITING {
                let detail = &request.message.line;
                PROTOCOL.emit_anomaly("too_many_requests", chunk.direction, detail, time, out);
                if let Some(oldest) = self.waiting.pop_front().filter(|oldest| !oldest.is_emitted) {
                    emit(Some(&oldest), None, oldest.time, out);
                }
            }
            hand_on(&request, out);
            self.waiting.push_back(request);
            return;
        };
        let mut message = message;
        let Some(at) = at else { return emit(None, Some(&message), time, out) };
        let Some(mut request) = self.waiting.remove(at) else { return };
        let room = MAX_PATH.saturating_sub(request.answered.len());
        request.answered.extend(std::mem::take(&mut message.path).into_iter().take(room));
        message.path.clone_from(&request.answered);
        request.is_emitted = true;
        request.at.add(out.here());
        emit(Some(&request), Some(&message), time, out);
        if status < 200 {
            self.waiting.insert(at, request);
        }
    }

    /// Keeps the way of a request that nothing answers.
    fn acknowledged(&mut self, message: Message) {
        if message.path.is_empty() {
            return;
        }
        if self.unanswered.len() == MAX_UNANSWERED {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(Unanswered { call_id: message.call_id, path: message.path });
    }
}

fn emit_message(message: &Message, description: Option<&Description<'_>>, time: Time, out: &mut dyn Out) {
    if !out.takes(&SIP_MESSAGE) {
        return;
    }
    let (first, second, third) = message.parts();
    let is_request = message.status.is_none();
    let version = if is_request { third } else { first };
    let described = description.map_or_else(|| Value::absent(sdp::FIELDS.len()), Description::values);
    out.record(record!(
        SIP_MESSAGE,
        time,
        method = is_request.then_some(first),
        uri = is_request.then_some(second),
        version = version,
        request_line = is_request.then_some(&message.line),
        code = (!is_request).then_some(second),
        reason = (!is_request).then_some(third),
        response_line = (!is_request).then_some(&message.line),
        call_id = message.call_id.as_ref(),
        seq = message.seq.as_ref(),
        ..described
    ));
}

fn emit(request: Option<&Request>, response: Option<&Message>, time: Time, out: &mut dyn Out) {
    let at = request.map_or_else(|| out.here(), |request| request.at);
    out.record(record(request, response, time).over(at));
}

/// Hands on a request before its response.
fn hand_on(request: &Request, out: &mut dyn Out) {
    early!(
        out, SIP, of { record(Some(request), None, request.time) } method, uri, date, request_from, request_to,
        reply_to, call_id, seq, subject, user_agent, request_body_len,
    );
}

fn record<'a>(request: Option<&'a Request>, response: Option<&'a Message>, time: Time) -> Record<'a> {
    let asked = request.map(|request| &request.message);
    let of = |message: Option<&Message>, value: fn(&Message) -> &Option<Vec<u8>>| -> Value<'static> {
        message.and_then(|message| value(message).clone()).into()
    };
    let path = |message: Option<&Message>| -> Value<'static> {
        message.map_or(Value::List(Vec::new()), |message| message.path.iter().cloned().collect())
    };
    let began = request.map_or(time, |request| request.time);
    record!(
        SIP,
        began,
        trans_depth = request.map_or(0, |request| request.depth),
        method = asked.map(|asked| asked.parts().0),
        uri = asked.map(|asked| asked.parts().1),
        date = of(asked, |m| &m.date),
        request_from = of(asked, |m| &m.from),
        request_to = of(asked, |m| &m.to),
        response_from = of(response, |m| &m.from),
        response_to = of(response, |m| &m.to),
        reply_to = of(asked, |m| &m.reply_to),
        call_id = of(asked.or(response), |m| &m.call_id),
        seq = of(asked.or(response), |m| &m.seq),
        subject = of(asked, |m| &m.subject),
        request_path = path(asked),
        response_path = path(response),
        user_agent = of(asked, |m| &m.user_agent),
        status_code = response.and_then(|response| response.status),
        status_msg = response.map(|response| response.parts().2),
        warning = of(response, |m| &m.warning),
        request_body_len = asked.and_then(|asked| asked.length),
        response_body_len = response.and_then(|response| response.length),
        content_type = of(response, |m| &m.content_type),
        duration = request.and(response).map_or(Value::None, |_| Value::Duration(time.since(began))),
    )
}

#[cfg(test)]
mod tests {
    use crate::Value;
    use crate::laws::{Collected, talks};

    fn emitted(case: &str) -> Collected {
        let (_, talk) = talks("sip", 5060).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()])
    }

    /// Method and status of each row.
    fn pairs(emitted: &Collected) -> Vec<(String, u64)> {
        let rows = emitted.records.iter().filter(|record| record.table.name == "sip");
        rows.map(|record| {
            let Value::Uint(status) = record.get("status_code") else { return (text(record, "method"), 0) };
            (text(record, "method"), *status)
        })
        .collect()
    }

    fn text(record: &crate::Record<'_>, name: &str) -> String {
        match record.get(name) {
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        }
    }

    fn expected(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
        pairs.iter().map(|(method, status)| ((*method).to_owned(), *status)).collect()
    }

    #[test]
    fn a_call_is_emitted_and_its_media_are_announced() {
        let emitted = emitted("call.talk");
        let rows = [("INVITE", 100), ("INVITE", 180), ("INVITE", 200), ("ACK", 0), ("BYE", 200)];
        assert_eq!(pairs(&emitted), expected(&rows));
        let announced: Vec<_> =
            emitted.expected.iter().map(|expected| expected.responder.to_string_pair()).collect();
        let once = ["192.0.2.1:49170", "192.0.2.1:49999", "192.0.2.1:51372"];
        let other = ["198.51.100.2:3456", "198.51.100.2:49999", "198.51.100.2:51372"];
        assert_eq!(announced, [once, once, other].concat());
    }

    trait Pair {
        fn to_string_pair(&self) -> String;
    }

    impl Pair for (std::net::IpAddr, u16) {
        fn to_string_pair(&self) -> String {
            format!("{}:{}", self.0, self.1)
        }
    }

    #[test]
    fn responses_are_paired_with_their_requests() {
        let emitted = emitted("stream.talk");
        let rows = [("OPTIONS", 200), ("INVITE", 486), ("", 404), ("MESSAGE", 0)];
        assert_eq!(pairs(&emitted), expected(&rows));
        let invite = emitted
            .records
            .iter()
            .find(|record| text(record, "method") == "INVITE" && record.table.name == "sip");
        assert_eq!(text(invite.unwrap(), "subject"), "lunch  and dinner");
        assert_eq!(text(invite.unwrap(), "request_from"), "Alice <sip:alice@example.org>");
    }

    /// A value is that of the header as sent, with its parameters, of requests and responses, also by short names.
    #[test]
    fn first_lines_and_headers_are_buffers() {
        let text = "> OPTIONS sip:a@b.example SIP/2.0\\r\\nv: SIP/2.0/TCP one;branch=z1\\r\\nVia: SIP/2.0/TCP two\\r\\n\
                    From: <sip:c@b.example>;tag=7\\r\\nUser-Agent: quick\\r\\n brown\\r\\nl: 0\\r\\n\\r\\n\n\
                    < SIP/2.0 404 Not Found\\r\\nt: <sip:a@b.example>;tag=8\\r\\nUser-Agent: fox\\r\\n\
                    Content-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\nno\n";
        let talk = crate::talk::Talk::parse(text, [40_000, 5060]).unwrap();
        let emitted = talk.asked(|data| data.chunks(5).map(<[u8]>::to_vec).collect());
        let of = |name: &str| -> Vec<&str> {
            let found = emitted.buffers.iter().filter(|(buffer, ..)| buffer.name == name);
            found.map(|(_, _, bytes)| std::str::from_utf8(bytes).unwrap()).collect()
        };
        assert_eq!(of("sip.method"), ["OPTIONS"]);
        assert_eq!(of("sip.uri"), ["sip:a@b.example"]);
        assert_eq!(of("sip.request_line"), ["OPTIONS sip:a@b.example SIP/2.0"]);
        assert_eq!(of("sip.protocol"), ["SIP/2.0", "SIP/2.0"]);
        assert_eq!(of("sip.stat_code"), ["404"]);
        assert_eq!(of("sip.stat_msg"), ["Not Found"]);
        assert_eq!(of("sip.response_line"), ["SIP/2.0 404 Not Found"]);
        assert_eq!(of("sip.via"), ["SIP/2.0/TCP one;branch=z1", "SIP/2.0/TCP two"]);
        assert_eq!(of("sip.from"), ["<sip:c@b.example>;tag=7"]);
        assert_eq!(of("sip.to"), ["<sip:a@b.example>;tag=8"]);
        assert_eq!(of("sip.user_agent"), ["quick brown", "fox"]);
        assert_eq!(of("sip.content_type"), ["text/plain"]);
        assert_eq!(of("sip.content_length"), ["0", "2"]);
    }

    /// A row has the ways of the request and of all responses to it so far, as Zeek has them.
    #[test]
    fn paths_are_whole() {
        let emitted = emitted("path.talk");
        let hops = |value: &Value<'_>| match value {
            Value::List(hops) => hops.len(),
            _ => 0,
        };
        let rows = emitted.records.iter().filter(|record| record.table.name == "sip");
        let lengths: Vec<_> = rows
            .map(|row| (text(row, "method"), hops(row.get("request_path")), hops(row.get("response_path"))))
            .collect();
        let expected = [("INVITE", 2, 1), ("INVITE", 2, 3), ("ACK", 1, 0), ("BYE", 2, 1)];
        assert_eq!(lengths, expected.map(|(method, asked, answered)| (method.to_owned(), asked, answered)));
        let junk: Vec<_> = emitted.records.iter().filter(|record| *record.table == crate::ANOMALY).collect();
        assert_eq!(text(junk[0], "detail"), "\\x00".repeat(4));
    }

    #[test]
    fn gaps_create_no_messages() {
        let emitted = emitted("gaps.talk");
        assert_eq!(pairs(&emitted), expected(&[("INVITE", 603), ("INFO", 200)]));
        assert!(emitted.expected.is_empty());
    }
}
