//! HTTP/2 (RFC 9113) without TLS: identified, but not parsed.

use crate::{Heads, Out, Parser, Probe, Protocol, Step, Transport};
use weir_wire::Time;
use weir_wire::stream::Chunk;

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "http2",
    help: "Hypertext Transfer Protocol version 2 (RFC 9113); it is identified but not parsed.",
    transport: Transport::Tcp,
    ports: &[],
    probe,
    parser: |_| Box::new(Http2),
    tables: &[],
    buffers: &[],
};

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

struct Http2;

impl Parser for Http2 {
    fn chunk(&mut self, _: &Chunk<'_>, _: &mut dyn Out) -> Step {
        Step::GiveUp
    }

    fn end(&mut self, _: Time, _: &mut dyn Out) {}

    fn memory(&self) -> usize {
        0
    }
}
