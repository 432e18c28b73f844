//! The texts of a message that rules search: as sent, and normalised.

use super::message::{Headers, RequestLine, StatusLine};
use super::{Transaction, uri};
use crate::{Buffer, Out};
use weir_wire::Direction;

static METHOD: Buffer = Buffer::whole("http.method", "Method of a request.");
static URI: Buffer = Buffer::whole(
    "http.uri",
    "URI of a request, normalised: escapes of the path decoded once, repeated slashes and dots resolved.",
);
static URI_RAW: Buffer = Buffer::whole("http.uri.raw", "URI of a request as sent.");
static HOST: Buffer = Buffer::whole("http.host", "Host of a request in lower case, without its port.");
static HOST_RAW: Buffer = Buffer::whole("http.host.raw", "Host header of a request as sent.");
static PROTOCOL: Buffer = Buffer::whole("http.protocol", "Version in a start line.");
static STAT_CODE: Buffer = Buffer::whole("http.stat_code", "Status code of a response, as sent.");
static STAT_MSG: Buffer = Buffer::whole("http.stat_msg", "Reason phrase of a response.");
static USER_AGENT: Buffer = Buffer::whole("http.user_agent", "User-Agent header.");
static REFERER: Buffer = Buffer::whole("http.referer", "Referer header.");
static ACCEPT: Buffer = Buffer::whole("http.accept", "Accept header.");
static ACCEPT_ENC: Buffer = Buffer::whole("http.accept_enc", "Accept-Encoding header.");
static ACCEPT_LANG: Buffer = Buffer::whole("http.accept_lang", "Accept-Language header.");
static CONNECTION: Buffer = Buffer::whole("http.connection", "Connection header.");
static CONTENT_LEN: Buffer = Buffer::whole("http.content_len", "Content-Length header.");
static CONTENT_TYPE: Buffer = Buffer::whole("http.content_type", "Content-Type header.");
static LOCATION: Buffer = Buffer::whole("http.location", "Location header.");
static SERVER: Buffer = Buffer::whole("http.server", "Server header.");
static COOKIE: Buffer = Buffer::whole("http.cookie", "Cookie header of a request, Set-Cookie of a response.");
static HEADER: Buffer = Buffer::whole(
    "http.header",
    "Headers as `Name: value` with line ends, repeated ones joined, without cookies.",
);
static HEADER_NAMES: Buffer = Buffer::whole(
    "http.header_names",
    "Names of the headers between line ends, with an empty line at the end.",
);
pub(super) static HEADER_RAW: Buffer =
    Buffer::stream("http.header.raw", "Headers as sent, with the empty line after them.");
pub(super) static REQUEST_LINE: Buffer =
    Buffer::whole("http.request_line", "First line of a request without its end.");
pub(super) static RESPONSE_LINE: Buffer =
    Buffer::whole("http.response_line", "First line of a response without its end.");
pub(super) static START: Buffer =
    Buffer::whole("http.start", "Start line, headers as `Name: value`, and the empty line, with line ends.");
static REQUEST_HEADER: Buffer =
    Buffer::whole("http.request_header", "A header of a request as `Name: value`; each alone.");
static RESPONSE_HEADER: Buffer =
    Buffer::whole("http.response_header", "A header of a response as `Name: value`; each alone.");
static REQUEST_BODY: Buffer = Buffer::stream("http.request_body", "Body of a request, decoded.");
static RESPONSE_BODY: Buffer = Buffer::stream("http.response_body", "Body of a response, decoded.");

pub(super) static ALL: &[&Buffer] = &[
    &METHOD,
    &URI,
    &URI_RAW,
    &HOST,
    &HOST_RAW,
    &PROTOCOL,
    &STAT_CODE,
    &STAT_MSG,
    &USER_AGENT,
    &REFERER,
    &ACCEPT,
    &ACCEPT_ENC,
    &ACCEPT_LANG,
    &CONNECTION,
    &CONTENT_LEN,
    &CONTENT_TYPE,
    &LOCATION,
    &SERVER,
    &COOKIE,
    &HEADER,
    &HEADER_NAMES,
    &HEADER_RAW,
    &REQUEST_LINE,
    &RESPONSE_LINE,
    &START,
    &REQUEST_HEADER,
    &RESPONSE_HEADER,
    &REQUEST_BODY,
    &RESPONSE_BODY,
];

/// Buffers with the value of one header.
static HEADERS: &[(&Buffer, &[u8])] = &[
    (&USER_AGENT, b"user-agent"),
    (&REFERER, b"referer"),
    (&ACCEPT, b"accept"),
    (&ACCEPT_ENC, b"accept-encoding"),
    (&ACCEPT_LANG, b"accept-language"),
    (&CONNECTION, b"connection"),
    (&CONTENT_LEN, b"content-length"),
    (&CONTENT_TYPE, b"content-type"),
    (&LOCATION, b"location"),
    (&SERVER, b"server"),
];

/// The header with cookies of a side.
fn cookie(side: Direction) -> &'static [u8] {
    if side == Direction::Forward { b"cookie" } else { b"set-cookie" }
}

/// Hands on the buffers of a complete head, with its start line.
pub(super) fn hand_on(transaction: &Transaction, start: &[u8], side: Direction, out: &mut dyn Out) {
    let asked = out.asked();
    let headers = transaction.headers(side);
    let mut give = |buffer: &'static Buffer, bytes: &dyn Fn() -> Option<Vec<u8>>| {
        if asked.has(buffer)
            && let Some(bytes) = bytes()
        {
            out.buffer(buffer, side, &bytes);
        }
    };
    if side == Direction::Forward {
        let request = transaction.request.as_ref();
        give(&METHOD, &|| request.map(|request| request.method().to_vec()));
        give(&URI, &|| request.map(|request| uri::normal(request.uri())));
        give(&URI_RAW, &|| request.map(|request| request.uri().to_vec()));
        give(&PROTOCOL, &|| request.and_then(RequestLine::protocol).map(<[u8]>::to_vec));
        give(&HOST, &|| transaction.hostname().0);
        give(&HOST_RAW, &|| headers.get(b"host").map(<[u8]>::to_vec));
    } else {
        let status = transaction.answer.as_ref().and_then(|answer| answer.line.as_ref());
        give(&PROTOCOL, &|| status.map(|status| status.protocol().to_vec()));
        give(&STAT_CODE, &|| status.map(|status| status.status().to_vec()));
        give(&STAT_MSG, &|| status.map(|status| StatusLine::message(status).to_vec()));
    }
    for (buffer, name) in HEADERS {
        give(buffer, &|| headers.get(name).map(<[u8]>::to_vec));
    }
    give(&COOKIE, &|| headers.get(cookie(side)).map(<[u8]>::to_vec));
    give(&HEADER, &|| Some(text(headers, side)));
    give(&HEADER_NAMES, &|| Some(names(headers)));
    give(&START, &|| (!start.is_empty()).then(|| head(start, headers)));
    let each = if side == Direction::Forward { &REQUEST_HEADER } else { &RESPONSE_HEADER };
    if asked.has(each) {
        for (name, value) in headers.iter() {
            out.buffer(each, side, &[name, b": ", value].concat());
        }
    }
}

/// A start line and headers with their ends, and the empty line after them.
fn head(start: &[u8], headers: &Headers) -> Vec<u8> {
    let lines = headers.iter().flat_map(|(name, value)| [name, &b": "[..], value, b"\r\n"]);
    [start, b"\r\n"].into_iter().chain(lines).chain([&b"\r\n"[..]]).collect::<Vec<_>>().concat()
}

/// Hands on the next bytes of a body, none at its end.
pub(super) fn body(side: Direction, bytes: &[u8], out: &mut dyn Out) {
    let buffer = if side == Direction::Forward { &REQUEST_BODY } else { &RESPONSE_BODY };
    out.emit(buffer, side, bytes);
}

/// The headers as rules see them: one line for each name.
fn text(headers: &Headers, side: Direction) -> Vec<u8> {
    let mut lines: Vec<(&[u8], Vec<u8>)> = Vec::new();
    // Of many headers, repeated ones stand in lines of their own: a search for each would take long.
    const JOINED: usize = 64;
    for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(cookie(side))) {
        let known = lines.iter_mut().take(JOINED).find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            Some((_, values)) => values.extend([&b", "[..], value].concat()),
            None => lines.push((name, value.to_vec())),
        }
    }
    let lines = lines.iter().flat_map(|(name, value)| [name, &b": "[..], value, b"\r\n"]);
    lines.collect::<Vec<_>>().concat()
}

fn names(headers: &Headers) -> Vec<u8> {
    let names = headers.iter().flat_map(|(name, _)| [&b"\r\n"[..], name]);
    names.chain([&b"\r\n\r\n"[..]]).collect::<Vec<_>>().concat()
}
