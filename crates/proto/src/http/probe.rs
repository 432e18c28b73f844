//! Identifies HTTP/1.

use super::message::RequestLine;
use super::{METHODS, OTHER_METHODS, PROTOCOL};
use crate::{Heads, Probe};

/// An unfinished line of this length that begins with a method and a path is almost certainly HTTP.
const LONG: usize = 200;

pub(super) fn probe(heads: &Heads<'_>) -> Probe {
    let server = response(heads.reverse);
    let is_home = heads.is_home(PROTOCOL.ports);
    match (request(heads.forward, is_home), server) {
        (Probe::Match, _) => Probe::Match,
        // A request of HTTP/0.9 has no version, and its response no head.
        _ if is_simple(heads.forward) && (is_home || is_document(heads.reverse)) => Probe::Match,
        (Probe::Maybe, Probe::Match) => Probe::Match,
        // So it is with the first bytes of the response: reads may end anywhere.
        (Probe::Reject, Probe::Match) => Probe::Maybe,
        (Probe::Reject, Probe::Maybe) if !heads.reverse.is_empty() => Probe::Maybe,
        // Whatever the server sends, an unfinished line may still become a request.
        (Probe::Maybe, Probe::Reject) if is_begun(heads.forward) => Probe::Maybe,
        (client, server) if client == Probe::Reject || server == Probe::Reject => Probe::Reject,
        _ => Probe::Maybe,
    }
}

/// Whether a head begins with a known method and a blank, or may do so with further bytes.
pub(crate) fn is_plain_request(head: &[u8]) -> bool {
    let mut methods = METHODS.iter().chain(&OTHER_METHODS);
    methods.any(|method| head.iter().zip(method.iter().chain(b" ")).all(|(byte, form)| byte == form))
}

/// Whether the first line is a whole request of HTTP/0.9: GET and a path or a URL.
fn is_simple(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    // The end of the line is looked for last: a stream is probed again with each segment.
    if !head.starts_with(b"GET /") && !head.starts_with(b"GET http://") {
        return false;
    }
    let line = head.iter().position(|byte| *byte == b'\n').and_then(|end| head.get(..end));
    line.is_some_and(is_printable)
}

/// Whether a response without a head can be a document: not an answer of a protocol with commands, some of which also have
/// a command GET. Redis answers with a sign, others with a number or a word in capitals; three bytes decide.
fn is_document(head: &[u8]) -> bool {
    let is_word = |word: &[u8]| word.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    match head {
        [b'$' | b'+' | b'-' | b':' | b'*', ..] => false,
        [first, second, third, ..] => !is_word(&[*first, *second, *third]),
        _ => false,
    }
}

/// Whether a first line has begun.
fn is_begun(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    !head.is_empty() && !head.contains(&b'\n')
}

fn request(head: &[u8], is_home: bool) -> Probe {
    let head = head.trim_ascii_start();
    if head.is_empty() {
        return Probe::Maybe;
    }
    // A client does not answer.
    if response(head) == Probe::Match {
        return Probe::Reject;
    }
    if let Some(end) = head.iter().position(|byte| *byte == b'\n') {
        let line = head.get(..end).unwrap_or_default();
        let method = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        return match () {
            () if method == b"PRI" => Probe::Reject,
            () if RequestLine::looks_so(line) => Probe::Match,
            // HTTP/0.9.
            () if METHODS.contains(&method) && line.len() > method.len() => Probe::Maybe,
            // What is odd is a request where one is expected, if it is nothing else.
            () if is_home && RequestLine::of(line).is_one() && is_printable(line) => Probe::Maybe,
            () => Probe::Reject,
        };
    }
    let end = head.iter().position(|byte| *byte == b' ');
    let method = head.get(..end.unwrap_or(head.len())).unwrap_or_default();
    if !RequestLine::can_begin_with(head, is_home && is_printable(head)) {
        return Probe::Reject;
    }
    let asked = end.and_then(|end| head.get(end + 1..)).unwrap_or_default();
    let is_path = asked.starts_with(b"/") || asked.starts_with(b"http://");
    if METHODS.contains(&method) && is_path && head.len() >= LONG {
        return Probe::Match;
    }
    Probe::Maybe
}

fn is_printable(line: &[u8]) -> bool {
    let is_one = |byte: &u8| !byte.is_ascii_control() | matches!(byte, b'\t' | b'\r');
    // Blocks, which are compared many bytes at a time.
    line.chunks(32).all(|block| block.iter().fold(true, |all, byte| all & is_one(byte)))
}

fn response(head: &[u8]) -> Probe {
    // A version may be of one number, and SHOUTcast has its own word for it.
    const FORMS: [&[u8]; 3] = [b"HTTP/1.1 200", b"HTTP/2 200", b"ICY 200"];
    let head = head.trim_ascii_start();
    let fits = |form: &&[u8]| {
        head.iter().zip(*form).all(|(byte, form)| match form {
            b'0'..=b'9' => byte.is_ascii_digit(),
            form => byte == form,
        })
    };
    let fitting = FORMS.iter().filter(|form| fits(form));
    match fitting.map(|form| head.len() >= form.len()).reduce(|one, other| one || other) {
        Some(true) => Probe::Match,
        Some(false) => Probe::Maybe,
        None => Probe::Reject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response after what is no request may be one of HTTP; so may each of its beginnings.
    #[test]
    fn no_beginning_of_a_response_is_rejected() {
        for response in ["HTTP/1.1 200 OK\r\n", "\n\nHTTP/1.0 404", "ICY 200 OK\r\n"].map(str::as_bytes) {
            for end in 1..=response.len() {
                let reverse = response.get(..end).unwrap();
                let heads =
                    Heads { forward: b"G\x16\x03 / HTTP/1.1\r\n", reverse, ports: [40_000, 80], ip_proto: 6 };
                assert_eq!(probe(&heads), Probe::Maybe, "{:?}", reverse.escape_ascii().to_string());
            }
        }
        let heads = Heads { forward: b"\x16\x03", reverse: b"", ports: [40_000, 80], ip_proto: 6 };
        assert_eq!(probe(&heads), Probe::Reject);
    }

    /// A line that is accepted whole is not rejected at any byte before its end: reads may end anywhere.
    #[test]
    fn no_beginning_of_a_request_is_rejected() {
        let lines = [
            "GET / HTTP/1.1\r\n",
            "PRINT /queue HTTP/1.1\n",
            "# was /inside HTTP/1.1\n",
            "get /lower HTTP/1.0\n",
            "post http://weir.test/ HTTP/1.1\n",
            "x-odd\tsomething HTTP/1.1\n",
            "BREW coffee HTTP/1.1\n",
            "GET /simple\n",
        ];
        for line in lines.map(str::as_bytes) {
            for is_home in [true, false] {
                if request(line, is_home) == Probe::Reject {
                    continue;
                }
                for end in 0..line.len() {
                    let begun = line.get(..end).unwrap();
                    assert_ne!(request(begun, is_home), Probe::Reject, "{begun:?}, home {is_home}");
                }
            }
        }
        assert_eq!(request(b"# was /inside HTTP/1.1\n", true), Probe::Maybe);
        assert_eq!(request(b"hello world", false), Probe::Reject);
        assert_eq!(request(b"\x16\x03\x01", true), Probe::Reject);
    }
}
