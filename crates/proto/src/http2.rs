//! HTTP/2 (RFC 9113) without TLS: identified, but not parsed.

use crate::identified::identified;
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "http2",
    "Hypertext Transfer Protocol version 2 (RFC 9113); it is identified but not parsed.",
    Transport::Tcp,
    &[],
    probe,
);

/// The client's connection preface, which no HTTP/1 server accepts.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn probe(heads: &Heads<'_>) -> Probe {
    let max = heads.forward.len().min(PREFACE.len());
    match heads.forward.get(..max) {
        Some(head) if head == PREFACE => Probe::Match,
        Some(head) if PREFACE.starts_with(head) && heads.reverse.is_empty() => Probe::Maybe,
        _ => Probe::Reject,
    }
}
