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

// Of the session description in a body.
pub(super) static ORIGIN: Buffer = Buffer::whole("sdp.origin", "Origin of a session (o=).");
pub(super) static SESSION_NAME: Buffer = Buffer::whole("sdp.session_name", "Name of a session (s=).");
pub(super) static SESSION_INFO: Buffer = Buffer::whole("sdp.session_info", "Title of a session (i=).");
pub(super) static SESSION_URI: Buffer = Buffer::whole("sdp.uri", "URI about a session (u=).");
pub(super) static EMAIL: Buffer = Buffer::whole("sdp.email", "Mail address of a session (e=).");
pub(super) static PHONE_NUMBER: Buffer =
    Buffer::whole("sdp.phone_number", "Telephone number of a session (p=).");
pub(super) static CONNECTION_DATA: Buffer =
    Buffer::whole("sdp.connection_data", "Connection address of a session (c=).");
pub(super) static BANDWIDTH: Buffer =
    Buffer::whole("sdp.bandwidth", "Bandwidth of a session (b=); each alone.");
pub(super) static TIME: Buffer = Buffer::whole("sdp.time", "Start and end of a session (t=); each alone.");
pub(super) static REPEAT_TIME: Buffer =
    Buffer::whole("sdp.repeat_time", "Repetition of a session (r=); the last one of each time.");
pub(super) static TIMEZONE: Buffer = Buffer::whole("sdp.timezone", "Adjustments of time zones (z=).");
pub(super) static ENCRYPTION_KEY: Buffer =
    Buffer::whole("sdp.encryption_key", "Encryption key of a session (k=).");
pub(super) static ATTRIBUTE: Buffer =
    Buffer::whole("sdp.attribute", "Attribute of a session (a=); each alone.");
pub(super) static MEDIA: Buffer =
    Buffer::whole("sdp.media.media", "Kind, port, protocol and formats of a medium (m=); each alone.");
pub(super) static MEDIA_INFO: Buffer =
    Buffer::whole("sdp.media.media_info", "Title of a medium (i=); each alone.");
pub(super) static MEDIA_CONNECTION: Buffer =
    Buffer::whole("sdp.media.connection_data", "Connection address of a medium (c=); each alone.");
pub(super) static MEDIA_KEY: Buffer =
    Buffer::whole("sdp.media.encryption_key", "Encryption key of a medium (k=); each alone.");

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
    &ORIGIN,
    &SESSION_NAME,
    &SESSION_INFO,
    &SESSION_URI,
    &EMAIL,
    &PHONE_NUMBER,
    &CONNECTION_DATA,
    &BANDWIDTH,
    &TIME,
    &REPEAT_TIME,
    &TIMEZONE,
    &ENCRYPTION_KEY,
    &ATTRIBUTE,
    &MEDIA,
    &MEDIA_INFO,
    &MEDIA_CONNECTION,
    &MEDIA_KEY,
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
