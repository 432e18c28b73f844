//! RTSP (RFC 2326 6.1 and 7.1, RFC 7826): the line of a request or of a response.

use super::{agrees, identified, line};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "rtsp",
    "Real-Time Streaming Protocol (RFC 2326, RFC 7826); it is identified but not parsed.",
    Transport::Tcp,
    &[554, 8554],
    probe,
);

const METHODS: [&[u8]; 11] = [
    b"OPTIONS ",
    b"DESCRIBE ",
    b"ANNOUNCE ",
    b"SETUP ",
    b"PLAY ",
    b"PAUSE ",
    b"TEARDOWN ",
    b"GET_PARAMETER ",
    b"SET_PARAMETER ",
    b"REDIRECT ",
    b"RECORD ",
];
const VERSIONS: [&[u8]; 2] = [b"RTSP/1.0", b"RTSP/2.0"];

fn probe(heads: &Heads<'_>) -> Probe {
    heads.one_message(begun)
}

/// Whether a message begins here.
fn begun(head: &[u8]) -> Probe {
    if VERSIONS.iter().any(|version| agrees(head, version)) {
        return match head.get(8..) {
            Some([b' ', code, ..]) if code.is_ascii_digit() => Probe::Match,
            None | Some([] | [b' ']) => Probe::Maybe,
            Some(_) => Probe::Reject,
        };
    }
    if !METHODS.iter().any(|method| agrees(head, method)) {
        return Probe::Reject;
    }
    match line(head) {
        Some(line) if VERSIONS.iter().any(|version| line.ends_with(version)) => Probe::Match,
        Some(_) => Probe::Reject,
        None => Probe::Maybe,
    }
}
