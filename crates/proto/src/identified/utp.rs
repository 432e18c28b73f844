//! BitTorrent's transport protocol over UDP (BEP 29): a header of 20 bytes, with a connection, a sequence number and an
//! acknowledgement.
//!
//! The fields of one header are small numbers that other protocols have too. A packet and its answer decide: their connections are
//! equal or neighbours, and one acknowledges the other.

use super::identified;
use crate::{Heads, Probe, Protocol, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "utp",
    "BitTorrent's transport protocol (BEP 29), from a packet and its answer; it is identified but not parsed.",
    Transport::Udp,
    &[],
    probe,
);

/// Types of packets: the first of a connection, and an acknowledgement without data. The others are data, the end, and a
/// reset.
const SYN: u8 = 4;
const STATE: u8 = 2;
/// Kinds of extensions: a selective acknowledgement, and eight bytes of flags.
const SELECTIVE: u8 = 1;
const FLAGS: u8 = 2;
/// Packets that may be under way in one direction.
const UNDER_WAY: u16 = 512;
/// Maximum window that a packet announces, in bytes.
const WINDOW: u32 = 1 << 28;

/// The header of a packet.
struct Header {
    kind: u8,
    connection: u16,
    timestamp: u32,
    sequence: u16,
    acknowledged: u16,
}

fn probe(heads: &Heads<'_>) -> Probe {
    match [heads.forward, heads.reverse].map(header) {
        [Some(one), Some(other)] if one.is_answered_by(&other) || other.is_answered_by(&one) => Probe::Match,
        [Some(_), None] if heads.reverse.is_empty() => Probe::Maybe,
        [None, Some(_)] if heads.forward.is_empty() => Probe::Maybe,
        _ => Probe::Reject,
    }
}

/// The header of the first datagram of a side; `None` if its fields are not sound.
fn header(datagrams: &[u8]) -> Option<Header> {
    let mut reader = Reader::new(datagrams);
    let (first, extension) = (reader.u8()?, reader.u8()?);
    let (kind, version) = (first >> 4, first & 0xf);
    let (connection, timestamp) = (reader.u16()?, reader.u32()?);
    let (_difference, window) = (reader.u32()?, reader.u32()?);
    let (sequence, acknowledged) = (reader.u16()?, reader.u16()?);
    let is_sound = match extension {
        0 => true,
        SELECTIVE => {
            let (_, length) = (reader.u8()?, reader.u8()?);
            length >= 4 && length.is_multiple_of(4) && reader.take(length.into()).is_some()
        }
        FLAGS => {
            let (_, length) = (reader.u8()?, reader.u8()?);
            length == 8 && reader.take(8).is_some()
        }
        _ => false,
    };
    (version == 1 && kind <= SYN && is_sound && timestamp > 0 && window < WINDOW).then_some(Header {
        kind,
        connection,
        timestamp,
        sequence,
        acknowledged,
    })
}

impl Header {
    /// Whether a packet of the other side answers this one.
    fn is_answered_by(&self, other: &Header) -> bool {
        if self.kind == SYN {
            // The number of the connection in a SYN is that of the answers to it.
            return other.kind == STATE
                && other.connection == self.connection
                && other.acknowledged == self.sequence;
        }
        let distance = |one: u16, other: u16| one.wrapping_sub(other).min(other.wrapping_sub(one));
        other.kind != SYN
            && distance(self.connection, other.connection) == 1
            && distance(self.sequence, other.acknowledged) < UNDER_WAY
            && distance(other.sequence, self.acknowledged) < UNDER_WAY
            && self.timestamp != other.timestamp
    }
}
