//! What is odd in the heads of messages, by the names that Zeek has for it.

use super::message::{Headers, RequestLine, StatusLine, content_range, decimal};

/// Takes the name of what is odd, and the bytes that are.
type Each<'e> = &'e mut dyn FnMut(&'static str, &[u8]);

/// The major and the minor version of HTTP.
type Version = (u8, u8);

/// The versions that a connection has had.
#[derive(Clone, Copy, Default)]
pub(super) struct Versions {
    /// The latest one of requests and of responses.
    latest: [Option<Version>; 2],
    /// Whether the connection stays open for more requests.
    is_kept: bool,
    /// Whether there was a request.
    is_asked: bool,
}

impl Versions {
    /// Takes a request line.
    pub(super) fn request(&mut self, line: &RequestLine, each: Each<'_>) {
        let protocol = line.protocol();
        if protocol.is_none() && line.method() != b"GET" {
            each("invalid_http_09_request_method", line.method());
        }
        self.take(0, protocol.unwrap_or(b"HTTP/0.9"), each);
        if self.is_asked && !self.is_kept {
            each("unexpected_multiple_HTTP_requests", b"");
        }
        self.is_asked = true;
    }

    /// Takes a status line.
    pub(super) fn response(&mut self, line: &StatusLine, each: Each<'_>) {
        self.take(1, line.protocol(), each);
    }

    /// Takes the headers of a request.
    pub(super) fn headers(&mut self, headers: &Headers) {
        let connection = || headers.get(b"connection").unwrap_or_default();
        self.is_kept |= !self.is_kept && first_word(connection()).eq_ignore_ascii_case(b"keep-alive");
    }

    /// Whether an empty line stands where a request is expected.
    pub(super) fn expects_request(self) -> bool {
        self.is_kept || !self.is_asked
    }

    fn take(&mut self, side: usize, protocol: &[u8], each: Each<'_>) {
        if protocol.starts_with(b"http/") {
            each("lowercase_HTTP_keyword", protocol);
        }
        let Some(&[major, b'.', minor]) = protocol.get(5..8).and_then(<[u8]>::first_chunk) else { return };
        let Some(latest) = self.latest.get_mut(side) else { return };
        let version = (major, minor);
        if latest.replace(version).is_some_and(|before| before != version) {
            each("HTTP_version_mismatch", b"");
        }
        self.is_kept |= version > (b'1', b'0');
    }
}

/// Finds what is odd in a complete head, whose body comes in chunks or not. `code`: the status code of a response.
pub(super) fn in_head(headers: &Headers, is_chunked: bool, code: Option<u16>, each: Each<'_>) {
    let length = headers.get(b"content-length");
    if is_chunked && length.is_some() {
        each("HTTP_content_length_and_chunked", b"");
    }
    if let Some(text) = length {
        match decimal(text) {
            // A parser that takes it for an octal number has another length.
            Some(1..) if text.starts_with(b"0") => each("HTTP_content_length_leading_zeros", text),
            Some(_) => {}
            None => each("HTTP_bad_content_length", text),
        }
    }
    let length = length.and_then(decimal);
    if is_chunked {
        let coding = headers.get(b"transfer-encoding").unwrap_or_default();
        let first = first_word(coding);
        let more = coding.get(first.len()..).unwrap_or_default().trim_ascii_start();
        if first.eq_ignore_ascii_case(b"chunked") && !more.is_empty() {
            each("HTTP_chunked_multi", more);
        }
        let kind = headers.get(b"content-type").unwrap_or_default();
        let is_of =
            |major: &[u8]| kind.get(..major.len()).is_some_and(|head| head.eq_ignore_ascii_case(major));
        if is_of(b"multipart/") || is_of(b"message/") {
            each("HTTP_chunked_transfer_for_multipart_message", b"");
        }
    }
    if let Some(expected) = headers.get(b"expect") {
        let word = first_word(expected);
        if !word.eq_ignore_ascii_case(b"100-continue") {
            each("HTTP_expect_not_100_continue", word);
        }
        if length == Some(0) {
            each("HTTP_content_length_0_and_expect_100_cont", b"");
        }
    }
    if code == Some(206)
        && let Some(text) = headers.get(b"content-range")
    {
        in_range(text, length, each);
    }
}

/// Finds what is odd in the range of a part (RFC 9110, 14.4). `length`: bytes of its body, where they are stated.
fn in_range(text: &[u8], length: Option<u64>, each: Each<'_>) {
    let unit = first_word(text);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return each("HTTP_content_range_unknown_byte_unit", b"");
    }
    let range: Vec<u8> =
        text.get(unit.len()..).unwrap_or_default().iter().copied().filter(|byte| *byte != b' ').collect();
    let mut parts = range.splitn(2, |byte| *byte == b'/');
    let (bounds, size) = (parts.next().unwrap_or_default(), parts.next());
    let mut bounds = bounds.splitn(2, |byte| *byte == b'-');
    let bounds = bounds.next().zip(bounds.next());
    let (Some(size), Some((first, last))) = (size, bounds) else {
        return each("HTTP_content_range_cannot_parse", b"");
    };
    let (Some(first), Some(last)) = (leading(first), leading(last)) else {
        return each("HTTP_content_range_cannot_parse", &range);
    };
    if last < first {
        return each("HTTP_non_positive_content_range", &range);
    }
    if size != b"*" && leading(size).is_none() {
        each("HTTP_content_range_invalid_instance", &range);
    }
    let is_of_range = |length: u64| content_range(text).is_none_or(|(from, to, _)| to - from == length - 1);
    if length.is_some_and(|length| length > 0 && !is_of_range(length)) {
        each("HTTP_range_not_matching_len", b"");
    }
}

/// The number that a text begins with.
fn leading(text: &[u8]) -> Option<u64> {
    text.first().filter(|byte| byte.is_ascii_digit()).and_then(|_| decimal(text))
}

/// The first word of a value: up to white space or a separator.
fn first_word(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| matches!(byte, b' ' | b'\t' | b',' | b';' | b'='));
    value.get(..end.unwrap_or(value.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::is_chunked;
    use super::super::message::Head;
    use super::*;

    fn odd(head: &[&str], code: Option<u16>) -> Vec<(&'static str, String)> {
        let mut read = Head::default();
        for line in head {
            read.line(line.as_bytes(), 100);
        }
        let mut found = Vec::new();
        let headers = read.finish();
        in_head(&headers, is_chunked(&headers), code, &mut |name, detail| {
            found.push((name, String::from_utf8(detail.to_vec()).unwrap()));
        });
        found
    }

    fn names(head: &[&str], code: Option<u16>) -> Vec<&'static str> {
        odd(head, code).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn ordinary_heads_have_nothing_odd() {
        assert!(odd(&["Host: a", "Content-Length: 0"], None).is_empty());
        assert!(odd(&["Content-Length: 10", "Expect: 100-Continue"], None).is_empty());
        assert!(odd(&["Transfer-Encoding: chunked", "Content-Type: text/html"], Some(200)).is_empty());
        assert!(odd(&["Content-Range: bytes 0-9/10", "Content-Length: 10"], Some(206)).is_empty());
        assert!(odd(&["Content-Range: bytes 0-9/*", "Content-Length: 10"], Some(206)).is_empty());
        // There is no such range, and no part.
        assert!(odd(&["Content-Range: bytes */10"], Some(416)).is_empty());
    }

    #[test]
    fn lengths_and_codings_that_contradict_each_other_are_odd() {
        assert_eq!(
            names(&["Content-Length: 5", "Transfer-Encoding: chunked"], None),
            ["HTTP_content_length_and_chunked"]
        );
        assert_eq!(
            odd(&["Content-Length: 007"], None),
            [("HTTP_content_length_leading_zeros", "007".to_owned())]
        );
        assert_eq!(odd(&["Content-Length: ten"], None), [("HTTP_bad_content_length", "ten".to_owned())]);
        assert_eq!(
            odd(&["Transfer-Encoding: chunked, gzip"], Some(200)),
            [("HTTP_chunked_multi", ", gzip".to_owned())]
        );
        assert_eq!(
            names(&["Transfer-Encoding: chunked", "Content-Type: multipart/mixed"], Some(200)),
            ["HTTP_chunked_transfer_for_multipart_message"]
        );
        assert_eq!(odd(&["Expect: 200-ok"], None), [("HTTP_expect_not_100_continue", "200-ok".to_owned())]);
        assert_eq!(
            names(&["Expect: 100-continue", "Content-Length: 0"], None),
            ["HTTP_content_length_0_and_expect_100_cont"]
        );
    }

    #[test]
    fn ranges_that_are_none_are_odd() {
        for (range, expected) in [
            ("lines 1-2/3", "HTTP_content_range_unknown_byte_unit"),
            ("bytes 1-2", "HTTP_content_range_cannot_parse"),
            ("bytes foo-bar/baz", "HTTP_content_range_cannot_parse"),
            ("bytes 9-5/10", "HTTP_non_positive_content_range"),
            ("bytes 0-9/many", "HTTP_content_range_invalid_instance"),
        ] {
            assert_eq!(names(&[&format!("Content-Range: {range}")], Some(206)), [expected], "{range}");
        }
        let head = ["Content-Range: bytes 0-9/10", "Content-Length: 7"];
        assert_eq!(names(&head, Some(206)), ["HTTP_range_not_matching_len"]);
    }

    #[test]
    fn versions_that_change_are_odd() {
        let mut versions = Versions::default();
        let mut names = |line: &[u8]| {
            let mut found = Vec::new();
            versions.request(&RequestLine::of(line), &mut |name, _| found.push(name));
            found
        };
        assert!(names(b"GET / HTTP/1.0").is_empty());
        assert_eq!(names(b"GET /again HTTP/1.0"), ["unexpected_multiple_HTTP_requests"]);
        assert_eq!(names(b"GET /later HTTP/1.1"), ["HTTP_version_mismatch"]);
        assert_eq!(names(b"GET /lower http/1.1"), ["lowercase_HTTP_keyword"]);
        assert!(names(b"GET /last HTTP/1.1").is_empty());
        assert_eq!(names(b"PUT /old"), ["invalid_http_09_request_method", "HTTP_version_mismatch"]);
    }
}
