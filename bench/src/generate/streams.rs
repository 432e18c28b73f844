//! TCP streams that are all open at once: what is worst for what is remembered of streams, since the packets of all
//! others come before the next one of a stream.

use std::path::Path;

use weir_wire::build::ethernet;
use weir_wire::build::flags::{ACK, PSH, SYN};

use crate::pcap::Writer;
use crate::{Facts, Result};

/// What to make.
pub struct Open {
    pub streams: u32,
    pub packets: u64,
    pub rate: u64,
}

/// A request whose body goes on for longer than the capture.
const REQUEST: &[u8] =
    b"POST /upload HTTP/1.1\r\nHost: files.example\r\nContent-Type: application/octet-stream\r\n\
    Content-Length: 100000000\r\n\r\n";

/// Octets of a segment of the body.
const PIECE: usize = 100;

/// Writes streams: a handshake of each, a request of each, and then a piece of its body of each in turn.
pub fn write(path: &Path, open: &Open) -> Result<Facts> {
    let mut out = Writer::create(path)?;
    let body = [b'.'; PIECE];
    let streams = u64::from(open.streams);
    for n in 0..open.packets {
        // Three packets of the handshake come together, as they do.
        let (stream, step) =
            if n < streams * 3 { ((n / 3) as u32, n % 3) } else { ((n % streams) as u32, n / streams) };
        let frame = frame(stream, step, &body);
        out.write(n * 1_000_000 / open.rate, &frame)?;
    }
    let facts = out.finish()?;
    Ok(Facts { sessions: Some(streams.min(open.packets.div_ceil(3))), ..facts })
}

fn frame(stream: u32, step: u64, body: &[u8]) -> Vec<u8> {
    let client = (0x0a00_0000 + stream / 50_000 + 1).to_be_bytes();
    let (server, port) = ([192, 0, 2, 1], (10_000 + stream % 50_000) as u16);
    // The client's first octet has sequence number 1, the server's too.
    let sent = |step: u64| match step {
        0..=3 => 1,
        step => 1 + REQUEST.len() as u32 + (step as u32 - 4) * PIECE as u32,
    };
    match step {
        0 => ethernet().ipv4(client, server).tcp(port, 80, SYN).seq(0).payload(b""),
        1 => ethernet().ipv4(server, client).tcp(80, port, SYN | ACK).seq(0).ack(1).payload(b""),
        2 => ethernet().ipv4(client, server).tcp(port, 80, ACK).seq(1).ack(1).payload(b""),
        3 => ethernet().ipv4(client, server).tcp(port, 80, ACK | PSH).seq(1).ack(1).payload(REQUEST),
        step => ethernet().ipv4(client, server).tcp(port, 80, ACK | PSH).seq(sent(step)).ack(1).payload(body),
    }
}
