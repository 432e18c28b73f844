//! TCP streams of which many are open at once: the worst case for the state of streams, since the packets of all other
//! open streams come before the next one of a stream.

use std::path::Path;

use weir_wire::build::ethernet;
use weir_wire::build::flags::{ACK, FIN, PSH, SYN};

use crate::pcap::Writer;
use crate::{Facts, Result};

/// Parameters of the streams.
pub struct Open {
    pub streams: u32,
    /// Number of streams that are open at once.
    pub open: u32,
    pub rate: u64,
}

/// A request whose body is longer than the stream.
const REQUEST: &[u8] =
    b"POST /upload HTTP/1.1\r\nHost: files.example\r\nContent-Type: application/octet-stream\r\n\
    Content-Length: 100000000\r\n\r\n";

/// Bytes of a segment of the body.
const PIECE: usize = 100;

/// Number of packets of a stream: the handshake, the request, two of its body, and a FIN of each side.
const PACKETS: u64 = 8;

/// Writes streams: a handshake of each stream to be open, a request of each, then a part of the body of each in turn,
/// and the end of each; then the next streams, with equal addresses and ports.
pub fn write(path: &Path, open: &Open) -> Result<Facts> {
    let mut out = Writer::create(path)?;
    let body = [b'.'; PIECE];
    let (streams, at_once) = (u64::from(open.streams), u64::from(open.open));
    let mut written = 0;
    for first in (0..streams).step_by(open.open as usize) {
        let at_once = at_once.min(streams - first);
        for n in 0..at_once * PACKETS {
            // The three packets of a handshake come together.
            let (stream, step) = if n < at_once * 3 { (n / 3, n % 3) } else { (n % at_once, n / at_once) };
            out.write(written * 1_000_000 / open.rate, &frame(stream as u32, step, &body))?;
            written += 1;
        }
    }
    let facts = out.finish()?;
    Ok(Facts { sessions: Some(open.streams.into()), ..facts })
}

fn frame(stream: u32, step: u64, body: &[u8]) -> Vec<u8> {
    let client = (0x0a00_0000 + stream / 50_000 + 1).to_be_bytes();
    let (server, port) = ([192, 0, 2, 1], (10_000 + stream % 50_000) as u16);
    // The first byte of both client and server has sequence number 1.
    let sent = |pieces: usize| 1 + (REQUEST.len() + pieces * PIECE) as u32;
    let client_sends = |flags| ethernet().ipv4(client, server).tcp(port, 80, flags).ack(1);
    let server_sends = |flags| ethernet().ipv4(server, client).tcp(80, port, flags);
    match step {
        0 => ethernet().ipv4(client, server).tcp(port, 80, SYN).seq(0).payload(b""),
        1 => server_sends(SYN | ACK).seq(0).ack(1).payload(b""),
        2 => client_sends(ACK).seq(1).payload(b""),
        3 => client_sends(ACK | PSH).seq(1).payload(REQUEST),
        4 => client_sends(ACK | PSH).seq(sent(0)).payload(body),
        5 => client_sends(ACK | PSH).seq(sent(1)).payload(body),
        6 => client_sends(ACK | FIN).seq(sent(2)).payload(b""),
        _ => server_sends(ACK | FIN).seq(1).ack(sent(2) + 1).payload(b""),
    }
}
