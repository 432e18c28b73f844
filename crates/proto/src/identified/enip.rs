//! EtherNet/IP (The CIP Networks Library, Volume 2, 2-3): the header of encapsulation.

use super::{Frame, identified, one_frame};
use crate::{Heads, Probe, Protocol, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "enip",
    "EtherNet/IP (The CIP Networks Library, Volume 2); it is identified but not parsed.",
    Transport::Both,
    &[44818],
    probe,
);

/// Length of the header.
const HEADER: usize = 24;

fn probe(heads: &Heads<'_>) -> Probe {
    one_frame(heads, frame)
}

fn frame(bytes: &[u8]) -> Frame {
    match length(bytes) {
        Some(length) => Frame::of(length, bytes),
        // A command and its second byte, which is zero.
        None if bytes.len() < HEADER
            && matches!(
                bytes,
                [0x04 | 0x63..=0x66 | 0x6f | 0x70] | [0x04 | 0x63..=0x66 | 0x6f | 0x70, 0, ..]
            ) =>
        {
            Frame::Cut
        }
        None => Frame::No,
    }
}

/// The length of a frame whose header is sound.
fn length(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(bytes);
    let mut little = || reader.u16().map(u16::swap_bytes);
    let (command, length) = (little()?, usize::from(little()?));
    let session = reader.u32()?;
    let status = reader.u32()?.swap_bytes();
    reader.take(8)?;
    let options = reader.u32()?;
    let fits = match command {
        // Lists of services, identities and interfaces have no session.
        0x04 | 0x63 | 0x64 => session == 0,
        // A session is registered with a version and options, and closed without data.
        0x65 => length == 4,
        0x66 => length == 0,
        // Data of requests and of connections.
        0x6f | 0x70 => session != 0 && (length >= 6 || status != 0),
        _ => false,
    };
    let is_status = matches!(status, 0..=3 | 0x64 | 0x65 | 0x69);
    (fits && is_status && options == 0).then_some(HEADER + length)
}
