//! Protocols that are identified and not parsed: a flow has the name, and no records.
//!
//! Each is one file with its probe. A probe decides on a checksum, on a long constant, or on several fields that fit each
//! other: a pair of bytes is not enough.

use crate::{Heads, Out, Parser, Probe, Protocol, Setup, Step, TCP, Transport};
use weir_wire::Time;
use weir_wire::stream::Chunk;

pub(crate) mod bacnet;
pub(crate) mod bgp;
pub(crate) mod bittorrent;
pub(crate) mod bt_dht;
pub(crate) mod coap;
pub(crate) mod edonkey;
pub(crate) mod enip;
pub(crate) mod gnutella;
pub(crate) mod iec104;
pub(crate) mod ike;
pub(crate) mod mount;
pub(crate) mod nfs;
pub(crate) mod nntp;
pub(crate) mod opcua;
pub(crate) mod openvpn;
pub(crate) mod portmapper;
pub(crate) mod redis;
pub(crate) mod rpc;
pub(crate) mod rtsp;
pub(crate) mod s7comm;
pub(crate) mod srvloc;
pub(crate) mod ssdp;
pub(crate) mod tds;
pub(crate) mod utp;
pub(crate) mod wireguard;

/// A protocol that is identified and not parsed.
pub(crate) const fn identified(
    name: &'static str,
    help: &'static str,
    transport: Transport,
    ports: &'static [u16],
    probe: fn(&Heads<'_>) -> Probe,
) -> Protocol {
    Protocol { name, help, transport, ports, probe, parser, tables: &[], buffers: &[] }
}

fn parser(_: &Setup) -> Box<dyn Parser> {
    Box::new(Unread)
}

/// Whether a protocol is identified and not parsed: its streams are searched for TLS as unidentified ones are.
pub(crate) fn is_only_identified(protocol: &Protocol) -> bool {
    std::ptr::fn_addr_eq(protocol.parser, parser as fn(&Setup) -> Box<dyn Parser>)
}

/// The parser of a protocol that is not parsed. It reads the first datagram of a flow, and no stream.
struct Unread;

impl Parser for Unread {
    fn chunk(&mut self, _: &Chunk<'_>, _: &mut dyn Out) -> Step {
        Step::GiveUp
    }

    fn end(&mut self, _: Time, _: &mut dyn Out) {}

    fn memory(&self) -> usize {
        0
    }
}

/// What the bytes begin with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Frame {
    /// A frame of this length, all of which is here.
    Whole(usize),
    /// A frame that goes on.
    Cut,
    /// No frame.
    No,
}

impl Frame {
    /// A frame of a length, of which `bytes` are the beginning.
    pub fn of(length: usize, bytes: &[u8]) -> Self {
        if bytes.len() >= length { Self::Whole(length) } else { Self::Cut }
    }
}

/// The number of whole frames of a side's bytes; `None` if something else is among them. The last frame of a stream may be
/// cut, that of a datagram may not.
fn frames(heads: &Heads<'_>, mut head: &[u8], frame: impl Fn(&[u8]) -> Frame) -> Option<usize> {
    let mut whole = 0;
    while !head.is_empty() {
        match frame(head) {
            Frame::Whole(length) if length > 0 => head = head.get(length..)?,
            Frame::Cut if heads.ip_proto == TCP => return Some(whole),
            _ => return None,
        }
        whole += 1;
    }
    Some(whole)
}

/// Whether one whole frame decides, and all bytes of both sides are frames.
pub(crate) fn one_frame(heads: &Heads<'_>, frame: impl Fn(&[u8]) -> Frame) -> Probe {
    match [heads.forward, heads.reverse].map(|head| frames(heads, head, &frame)) {
        [None, _] | [_, None] => Probe::Reject,
        [Some(0), Some(0)] => Probe::Maybe,
        _ => Probe::Match,
    }
}

/// Whether the bytes begin with the word, as far as they go.
fn agrees(bytes: &[u8], word: &[u8]) -> bool {
    bytes.iter().zip(word).all(|(byte, known)| byte == known)
}

/// The first line, without its end; `None` if it goes on.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    bytes.get(..end).map(<[u8]>::trim_ascii_end)
}

#[cfg(test)]
mod tests;
