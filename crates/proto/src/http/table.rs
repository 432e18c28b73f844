//! The table of transactions.

use super::body::Listed;
use super::message::{Headers, RequestLine, StatusLine, content_range};
use super::{Transaction, buffers, uri};
use crate::Record;
use crate::early::early;
use crate::record::values_of;
use crate::{Columns, Kind, Out, Privacy, Protocol, Table, Value, field, record, values, websocket};
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::cell::LazyCell;
use weir_wire::Direction;

const HEADER: &[crate::Field] = &[
    field("name", Kind::Text, "Name of the header.").eve("name"),
    // Cookies and credentials are in this field too.
    field("value", Kind::Text, "Value of the header.").eve("value").privacy(Privacy::Secret),
];

pub(super) static HTTP: Table = Table {
    name: "http",
    help: "A request with its response.",
    zeek: "http",
    eve: "http",
    fields: &[
        field("depth", Kind::Uint, "Number of the transaction in the flow, from 1.").zeek("trans_depth"),
        field("transaction", Kind::Uint, "Number of the transaction in the flow, from 0.").eve("tx_id"),
        field("method", Kind::Text, "Method of the request.").zeek("method").eve("http.http_method"),
        field("host", Kind::Text, "Host header of the request.").zeek("host").privacy(Privacy::Name),
        field("hostname", Kind::Text, "Host of the request, from the URI or else from the Host header.")
            .eve("http.hostname")
            .privacy(Privacy::Name),
        field("port", Kind::Port, "Port in the URI or the Host header.").eve("http.http_port"),
        field("uri", Kind::Text, "URI of the request, with percent-encoding decoded.")
            .zeek("uri")
            .privacy(Privacy::Url),
        field("url", Kind::Text, "URI of the request, as sent.").eve("http.url").privacy(Privacy::Url),
        field("referrer", Kind::Text, "Referer header of the request.")
            .zeek("referrer")
            .eve("http.http_refer")
            .privacy(Privacy::Url),
        field("version", Kind::Text, "HTTP version of the response.").zeek("version"),
        field("protocol", Kind::Text, "HTTP version of the request, as sent.").eve("http.protocol"),
        field("user_agent", Kind::Text, "User-Agent header of the request.")
            .zeek("user_agent")
            .eve("http.http_user_agent")
            .privacy(Privacy::Content),
        field("origin", Kind::Text, "Origin header of the request.").zeek("origin").privacy(Privacy::Url),
        field("request_body_len", Kind::Uint, "Size of the request's body in bytes, decoded.")
            .zeek("request_body_len")
            .of_body(),
        field("response_body_len", Kind::Uint, "Size of the response's body in bytes, decoded.")
            .zeek("response_body_len")
            .of_body(),
        field("status_code", Kind::Uint, "Status code of the response.")
            .zeek("status_code")
            .eve("http.status"),
        field("status_string", Kind::Text, "Status of the response, if it is not a number.")
            .eve("http.status_string"),
        field("status_msg", Kind::Text, "Reason phrase of the response.").zeek("status_msg"),
        field("info_code", Kind::Uint, "Status code of the last interim response (1xx).").zeek("info_code"),
        field("info_msg", Kind::Text, "Reason phrase of the last interim response (1xx).").zeek("info_msg"),
        field("tags", Kind::Set(&Kind::Word), "Properties that were recognised in the request.").zeek("tags"),
        field("username", Kind::Text, "User name of basic authentication.")
            .zeek("username")
            .privacy(Privacy::User),
        field("password", Kind::Text, "Password of basic authentication.")
            .zeek("password")
            .privacy(Privacy::Secret),
        field(
            "proxied",
            Kind::Set(&Kind::Text),
            "Headers that a proxy added to the request, with their values.",
        )
        .zeek("proxied")
        .privacy(Privacy::Address),
        field(
            "orig_fuids",
            Kind::List(&Kind::Text),
            "Identifiers of the files in the request (Zeek's fuid).",
        )
        .zeek("orig_fuids")
        .of_body(),
        field("orig_filenames", Kind::List(&Kind::Text), "Names of the files in the request.")
            .zeek("orig_filenames")
            .privacy(Privacy::Content)
            .of_body(),
        field(
            "orig_mime_types",
            Kind::List(&Kind::Word),
            "Media types of the files in the request, determined from the content.",
        )
        .zeek("orig_mime_types")
        .of_body(),
        field(
            "resp_fuids",
            Kind::List(&Kind::Text),
            "Identifiers of the files in the response (Zeek's fuid).",
        )
        .zeek("resp_fuids")
        .of_body(),
        field("resp_filenames", Kind::List(&Kind::Text), "Names of the files in the response.")
            .zeek("resp_filenames")
            .privacy(Privacy::Content)
            .of_body(),
        field(
            "resp_mime_types",
            Kind::List(&Kind::Word),
            "Media types of the files in the response, determined from the content.",
        )
        .zeek("resp_mime_types")
        .of_body(),
        field("forwarded_for", Kind::Text, "Client of a proxy (X-Forwarded-For of the request).")
            .eve("http.xff")
            .privacy(Privacy::Address),
        field("content_type", Kind::Text, "Content-Type of the response, without parameters.")
            .eve("http.http_content_type"),
        field("request_content_type", Kind::Text, "Content-Type of the request, without parameters."),
        field("range", Kind::Text, "Content-Range header of the response.").eve("http.content_range.raw"),
        field("range_start", Kind::Uint, "Offset of the first byte in the response's range.")
            .eve("http.content_range.start"),
        field("range_end", Kind::Uint, "Offset of the last byte in the response's range.")
            .eve("http.content_range.end"),
        field("range_size", Kind::Uint, "Size of the whole resource in bytes, from Content-Range.")
            .eve("http.content_range.size"),
        field("redirect", Kind::Text, "Location header of the response.")
            .eve("http.redirect")
            .privacy(Privacy::Url),
        field("length", Kind::Uint, "Size of the response's body on the wire, in bytes.").eve("http.length"),
        field("server", Kind::Text, "Server header of the response.").privacy(Privacy::Content),
        field("authorization", Kind::Word, "Scheme in the Authorization header of the request."),
        field("cookie", Kind::Text, "Cookie header of the request.").privacy(Privacy::Secret),
        field("set_cookie", Kind::List(&Kind::Text), "Set-Cookie headers of the response.")
            .privacy(Privacy::Secret),
        field("request_headers", Kind::Rows(HEADER), "Headers of the request.").eve("http.request_headers"),
        field("response_headers", Kind::Rows(HEADER), "Headers of the response.")
            .eve("http.response_headers"),
        field("duration", Kind::Duration, "Time from the request to the end of its response, in seconds."),
    ],
};

pub(super) static WEBSOCKET: Table = Table {
    name: "websocket",
    help: "A flow that was upgraded to WebSocket.",
    zeek: "websocket",
    eve: "",
    fields: &[
        field("host", Kind::Text, "Host header of the request.").zeek("host").privacy(Privacy::Name),
        field("uri", Kind::Text, "URI of the request.").zeek("uri").privacy(Privacy::Url),
        field("user_agent", Kind::Text, "User-Agent header of the request.")
            .zeek("user_agent")
            .privacy(Privacy::Content),
        field("subprotocol", Kind::Text, "Subprotocol that the server chose (Sec-WebSocket-Protocol).")
            .zeek("subprotocol"),
        field(
            "client_protocols",
            Kind::List(&Kind::Text),
            "Subprotocols that the client offered (Sec-WebSocket-Protocol).",
        )
        .zeek("client_protocols"),
        field(
            "server_extensions",
            Kind::List(&Kind::Text),
            "Extensions that the server chose (Sec-WebSocket-Extensions).",
        )
        .zeek("server_extensions"),
        field(
            "client_extensions",
            Kind::List(&Kind::Text),
            "Extensions that the client offered (Sec-WebSocket-Extensions).",
        )
        .zeek("client_extensions"),
    ],
};

/// Headers that indicate proxies.
const PROXIES: [&[u8]; 7] = [
    b"forwarded",
    b"x-forwarded-for",
    b"x-forwarded-from",
    b"client-ip",
    b"via",
    b"xroxy-connection",
    b"proxy-connection",
];

impl Transaction {
    /// The host of the request, and its port.
    pub(super) fn hostname(&self) -> (Option<Vec<u8>>, Option<u16>) {
        let target = self.request.as_ref().map_or(&[][..], RequestLine::uri);
        let authority = match self.method() {
            // The target is a host with a port (RFC 9112 3.2.3): a path names no host.
            b"CONNECT" => Some(target).filter(|target| !target.starts_with(b"/")),
            _ => uri::split(target).0,
        };
        match authority.or_else(|| self.request_headers.get(b"host")).map(uri::host_port) {
            Some((host, port)) => (Some(host), port),
            None => (None, None),
        }
    }

    /// The headers of its request or of its response.
    pub(super) fn headers(&self, direction: Direction) -> &Headers {
        static NONE: Headers = Headers::none();
        match direction {
            Direction::Forward => &self.request_headers,
            Direction::Reverse => self.answer.as_ref().map_or(&NONE, |answer| &answer.headers),
        }
    }

    /// The facts that each event of a file repeats.
    pub(super) fn carrier(&self, direction: Direction) -> Vec<(&'static str, Value<'static>)> {
        let of = |name: &'static [u8]| Value::from(self.request_headers.get(name)).into_owned();
        let mut emitted = vec![
            ("http_host", self.hostname().0.into()),
            ("http_agent", of(b"user-agent")),
            ("http_referrer", of(b"referer")),
        ];
        if let Some(request) = &self.request {
            emitted.push(("http_method", request.method().to_vec().into()));
            emitted.push(("http_url", request.uri().to_vec().into()));
            emitted.push(("http_protocol", request.protocol().map(<[u8]>::to_vec).into()));
        }
        if direction == Direction::Reverse {
            let headers = self.headers(direction);
            let code = self.answer.as_ref().and_then(|answer| answer.line.as_ref()?.code());
            emitted.push(("http_status", code.into()));
            emitted.push(("http_content_type", declared(headers).into()));
            emitted.push(("http_redirect", headers.get(b"location").map(<[u8]>::to_vec).into()));
            let raw = headers.get(b"content-range");
            if let Some((start, end, size)) = raw.and_then(content_range) {
                emitted.push(("http_range", raw.map(<[u8]>::to_vec).into()));
                emitted.push(("http_range_start", start.into()));
                emitted.push(("http_range_end", end.into()));
                emitted.push(("http_range_size", size.into()));
            }
        }
        emitted
    }

    /// The protocol that the flow continues in, if the transaction switches it and it is known.
    pub(super) fn upgraded(&self, out: &mut dyn Out) -> Option<&'static Protocol> {
        let answered = self.headers(Direction::Reverse);
        let to = answered.get(b"upgrade").unwrap_or_default();
        if !to.eq_ignore_ascii_case(b"websocket") {
            return None;
        }
        let list = |headers: &Headers, name: &'static [u8]| -> Value<'static> {
            let words = headers.all(name).flat_map(|value| value.split(|byte| *byte == b','));
            Value::list(words.map(|word| word.trim_ascii().to_vec()))
        };
        let asked = &self.request_headers;
        out.record(
            record!(
                WEBSOCKET,
                self.time,
                host = asked.get(b"host"),
                uri = self.request.as_ref().map(RequestLine::uri),
                user_agent = asked.get(b"user-agent"),
                subprotocol = answered.get(b"sec-websocket-protocol"),
                client_protocols = list(asked, b"sec-websocket-protocol"),
                server_extensions = list(answered, b"sec-websocket-extensions"),
                client_extensions = list(asked, b"sec-websocket-extensions"),
            )
            .over(self.at),
        );
        Some(&websocket::PROTOCOL)
    }

    /// Emits the transaction, as far as it was seen.
    pub(super) fn emit(mut self, out: &mut dyn Out) {
        if !out.takes(&HTTP) {
            return;
        }
        let sent = self.sent.take().map(|listed| *listed).unwrap_or_default();
        let received = self.answer.as_mut().and_then(|answer| answer.received.take());
        let received = received.map(|listed| *listed).unwrap_or_default();
        let columns = out.reads(&HTTP);
        out.record(self.record(sent, received, columns).over(self.at));
    }

    /// Hands on what the complete head of a side has shown; its start line is empty if it is not asked for.
    pub(super) fn hand_on(&self, start: &[u8], side: Direction, out: &mut dyn Out) {
        if out.asked().has_buffers() {
            buffers::hand_on(self, start, side, out);
        }
        out.side_is_complete(side);
        let record = || self.record(Listed::default(), Listed::default(), Columns::ALL);
        match side {
            Direction::Forward => early!(
                out, HTTP, of { record() } method, host, hostname, port, uri, url, referrer, protocol, user_agent,
                origin, username, password, proxied, forwarded_for, request_content_type, authorization, cookie,
                request_headers,
            ),
            Direction::Reverse => early!(
                out, HTTP, of { record() } version, status_code, status_string, status_msg, content_type, range,
                range_start, range_end, range_size, redirect, server, set_cookie, response_headers,
            ),
        }
    }

    /// The transaction, as far as it was seen, with the files of both bodies.
    fn record(&self, sent: Listed, received: Listed, columns: Columns) -> Record<'_> {
        let (asked, answered) = (&self.request_headers, self.headers(Direction::Reverse));
        let request = self.request.as_ref();
        let answer = self.answer.as_ref();
        let response = answer.and_then(|answer| answer.line.as_ref());
        let code = response.and_then(StatusLine::code);
        let version = response.map(StatusLine::version).or_else(|| self.is_simple().then_some(&b"0.9"[..]));
        let info = answer.and_then(|answer| answer.info.as_ref());
        let ended = answer.and_then(|answer| answer.ended).unwrap_or(self.time);
        let hostname = LazyCell::new(|| self.hostname());
        let credentials = || asked.get(b"authorization").or_else(|| asked.get(b"proxy-authorization"));
        let scheme =
            |value: &[u8]| value.split(|byte| *byte == b' ').next().unwrap_or_default().to_ascii_lowercase();
        let proxied = || -> Vec<Vec<u8>> {
            let is_proxy = |name: &[u8]| PROXIES.iter().any(|proxy| name.eq_ignore_ascii_case(proxy));
            let headers = asked.iter().filter(|(name, _)| is_proxy(name));
            headers.map(|(name, value)| [&name.to_ascii_uppercase(), &b" -> "[..], value].concat()).collect()
        };
        let user = LazyCell::new(|| credentials().and_then(basic));
        let raw_range = || answered.get(b"content-range");
        let range = LazyCell::new(|| raw_range().and_then(content_range));
        let status_string = response.filter(|r| code.is_none() && !r.status().is_empty());
        let values = values_of!(
            columns,
            HTTP.fields,
            depth = u64::from(self.id) + 1,
            transaction = self.id,
            method = request.map(RequestLine::method),
            host = asked.get(b"host"),
            hostname = hostname.0.clone(),
            port = hostname.1,
            uri = request.map(|r| uri::unescaped(r.uri())),
            url = request.map(RequestLine::uri),
            referrer = asked.get(b"referer"),
            version = version,
            protocol = request.and_then(RequestLine::protocol),
            user_agent = asked.get(b"user-agent"),
            origin = asked.get(b"origin"),
            request_body_len = self.request_length,
            response_body_len = answer.map_or(0, |answer| answer.length),
            status_code = code.or(info.and_then(StatusLine::code)),
            status_string = status_string.map(StatusLine::status),
            status_msg = response.or(info).map(StatusLine::message),
            info_code = info.and_then(StatusLine::code),
            info_msg = info.map(StatusLine::message),
            tags = Value::List(Vec::new()),
            username = user.as_ref().map(|(user, _)| user.clone()),
            password = user.as_ref().and_then(|(_, password)| password.clone()),
            proxied = Value::list(proxied()),
            orig_fuids = Value::list(sent.names),
            orig_filenames = Value::list(sent.filenames),
            orig_mime_types = Value::list(sent.kinds),
            resp_fuids = Value::list(received.names),
            resp_filenames = Value::list(received.filenames),
            resp_mime_types = Value::list(received.kinds),
            forwarded_for = asked.get(b"x-forwarded-for"),
            content_type = declared(answered),
            request_content_type = declared(asked),
            range = raw_range(),
            range_start = range.map(|(start, _, _)| start),
            range_end = range.map(|(_, end, _)| end),
            range_size = range.and_then(|(_, _, size)| size),
            redirect = answered.get(b"location"),
            length = answer.map_or(0, |answer| answer.wire),
            server = answered.get(b"server"),
            authorization = credentials().map(scheme),
            cookie = asked.get(b"cookie"),
            set_cookie = Value::list(answered.all(b"set-cookie")),
            request_headers = rows(asked),
            response_headers = rows(answered),
            duration = response.map_or(Value::None, |_| Value::Duration(ended.since(self.time))),
        );
        Record::new(&HTTP, self.time, values)
    }
}

fn rows(headers: &Headers) -> Value<'_> {
    Value::rows(headers.iter().map(|(name, value)| values!(HEADER, name = name, value = value)))
}

/// The declared type without its parameters.
fn declared(headers: &Headers) -> Option<Vec<u8>> {
    let value = headers.get(b"content-type")?;
    Some(value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_vec())
}

/// User and password of basic authorisation (RFC 7617). Malformed values are shown as Zeek shows them.
fn basic(credentials: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let text = credentials
        .get(6..)
        .filter(|_| credentials.get(..6).is_some_and(|head| head.eq_ignore_ascii_case(b"basic ")))?;
    let decoded = LENIENT.decode(text.trim_ascii()).unwrap_or_default();
    let colon = decoded.iter().position(|byte| *byte == b':');
    let Some((user, password)) = colon.and_then(|at| decoded.split_at_checked(at)) else {
        return Some(([b"<problem-decoding> (", credentials, b")"].concat(), None));
    };
    Some((user.to_vec(), password.get(1..).map(<[u8]>::to_vec)))
}
