//! The texts of a message that rules search.

use super::Message;
use crate::{Asked, Buffer};

static METHOD: Buffer = Buffer::whole("sip.method", "Method of a request.");
static URI: Buffer = Buffer::whole("sip.uri", "URI of a request.");
static REQUEST_LINE: Buffer = Buffer::whole("sip.request_line", "First line of a request without its end.");
static STAT_CODE: Buffer = Buffer::whole("sip.stat_code", "Status code of a response, as sent.");
static STAT_MSG: Buffer = Buffer::whole("sip.stat_msg", "Reason phrase of a response.");
static RESPONSE_LINE: Buffer =
    Buffer::whole("sip.response_line", "First line of a response without its end.");
static PROTOCOL: Buffer = Buffer::whole("sip.protocol", "Protocol and version in a first line.");
static FROM: Buffer = Buffer::whole("sip.from", "From header with its parameters.");
static TO: Buffer = Buffer::whole("sip.to", "To header with its parameters.");
static VIA: Buffer = Buffer::whole("sip.via", "Via header with its parameters; each alone.");
static USER_AGENT: Buffer = Buffer::whole("sip.user_agent", "User-Agent header of a request or response.");
static CONTENT_TYPE: Buffer = Buffer::whole("sip.content_type", "Content-Type header.");
static CONTENT_LENGTH: Buffer = Buffer::whole("sip.content_length", "Content-Length header, as sent.");

pub(super) static ALL: &[&Buffer] = &[
    &METHOD,
    &URI,
    &REQUEST_LINE,
    &STAT_CODE,
    &STAT_MSG,
    &RESPONSE_LINE,
    &PROTOCOL,
    &FROM,
    &TO,
    &VIA,
    &USER_AGENT,
    &CONTENT_TYPE,
    &CONTENT_LENGTH,
];

/// Buffers with the value of one header: its name, and its short form if it has one.
static HEADERS: &[(&Buffer, &[u8], &[u8])] = &[
    (&FROM, b"from", b"f"),
    (&TO, b"to", b"t"),
    (&VIA, b"via", b"v"),
    (&USER_AGENT, b"user-agent", b""),
    (&CONTENT_TYPE, b"content-type", b"c"),
    (&CONTENT_LENGTH, b"content-length", b"l"),
];

/// A value of a buffer.
pub(super) type Complete = (&'static Buffer, Vec<u8>);

/// The values in the first line of a message, as far as they are asked for.
pub(super) fn of_line(message: &Message, asked: Asked) -> Vec<Complete> {
    if !asked.has_buffers() {
        return Vec::new();
    }
    let (first, second, third) = message.parts();
    let values = match message.status {
        None => [(&METHOD, first), (&URI, second), (&PROTOCOL, third), (&REQUEST_LINE, &message.line)],
        Some(_) => {
            [(&PROTOCOL, first), (&STAT_CODE, second), (&STAT_MSG, third), (&RESPONSE_LINE, &message.line)]
        }
    };
    values
        .into_iter()
        .filter(|(buffer, _)| asked.has(buffer))
        .map(|(buffer, text)| (buffer, text.to_vec()))
        .collect()
}

/// The value of a header, if it is asked for.
pub(super) fn of_header(name: &[u8], value: &[u8], asked: Asked) -> Option<Complete> {
    if !asked.has_buffers() {
        return None;
    }
    let name = name.trim_ascii_end();
    let is_it = |word: &[u8]| !word.is_empty() && name.eq_ignore_ascii_case(word);
    let (buffer, ..) = HEADERS.iter().find(|(_, long, short)| is_it(long) || is_it(short))?;
    asked.has(buffer).then(|| (*buffer, value.trim_ascii().to_vec()))
}
