//! Packets as records of a capture file (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng).
//!
//! All numbers are little-endian. pcapng times are in nanoseconds.

use std::collections::HashMap;

use weir_wire::{Hints, LinkType, Packet, Time};

use crate::file::InterfaceInfo;

/// The snaplen in a header without a limit: libpcap's maximum.
const SNAPLEN: u32 = 262_144;

/// The format of an output file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileFormat {
    /// Classic pcap: one link type, no comments.
    Pcap,
    /// pcapng.
    Pcapng,
}

/// Packets that an interface received and lost, for the statistics block at the end of a pcapng file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Statistics {
    /// Packets received.
    pub received: u64,
    /// Packets lost.
    pub dropped: u64,
}

/// The link type of a packet differs from that of the file.
#[derive(Debug)]
pub(crate) struct OtherLink(pub(crate) LinkType);

/// The state of one file.
#[derive(Debug)]
pub(crate) enum Encoder {
    /// `None` until the header is written.
    Pcap { header: Option<(LinkType, bool)>, nanoseconds: bool, snaplen: u32 },
    /// Numbers of the interfaces in the file.
    Pcapng { numbers: HashMap<(u32, LinkType), u32>, snaplen: u32 },
}

impl Encoder {
    pub(crate) fn new(format: FileFormat, nanoseconds: bool, snaplen: u32) -> Encoder {
        let snaplen = if snaplen == 0 { SNAPLEN } else { snaplen };
        match format {
            FileFormat::Pcap => Encoder::Pcap { header: None, nanoseconds, snaplen },
            FileFormat::Pcapng => Encoder::Pcapng { numbers: HashMap::new(), snaplen },
        }
    }

    /// Appends the start of a file that can be written before the first packet.
    pub(crate) fn start(
        &mut self,
        out: &mut Vec<u8>,
        application: &str,
        comments: &[String],
        interfaces: &[InterfaceInfo],
    ) {
        match self {
            Encoder::Pcap { header, nanoseconds, snaplen } => {
                if let Some(first) = interfaces.first() {
                    let fine = interfaces.iter().any(|interface| interface.ticks_per_second > 1_000_000);
                    *nanoseconds |= fine;
                    pcap_header(out, first.link, *nanoseconds, *snaplen);
                    *header = Some((first.link, *nanoseconds));
                }
            }
            Encoder::Pcapng { .. } => section(out, application, comments),
        }
    }

    /// Appends a packet, and before it the blocks that it requires.
    pub(crate) fn packet<'a>(
        &mut self,
        out: &mut Vec<u8>,
        packet: &Packet<'_>,
        comments: impl Iterator<Item = &'a str>,
        interfaces: &[InterfaceInfo],
    ) -> Result<(), OtherLink> {
        match self {
            Encoder::Pcap { header, nanoseconds, snaplen } => {
                let (link, fine) = *header.get_or_insert_with(|| {
                    let fine = *nanoseconds || !packet.time.0.is_multiple_of(1_000);
                    pcap_header(out, packet.link, fine, *snaplen);
                    (packet.link, fine)
                });
                if link != packet.link {
                    return Err(OtherLink(link));
                }
                let nanos = packet.time.subsec_nanos();
                let sub = if fine { nanos } else { nanos / 1_000 };
                let fields = [packet.time.secs() as u32, sub, packet.data.len() as u32, packet.wire_len];
                out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
                out.extend_from_slice(packet.data);
            }
            Encoder::Pcapng { numbers, snaplen } => {
                let next = numbers.len() as u32;
                let number = *numbers.entry((packet.interface, packet.link)).or_insert_with(|| {
                    let described = interfaces.get(packet.interface as usize);
                    interface(out, packet.link, *snaplen, described);
                    next
                });
                enhanced(out, number, packet, comments);
            }
        }
        Ok(())
    }

    /// Appends the end of a file.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>, statistics: &HashMap<u32, Statistics>, now: Time) {
        match self {
            // A file without packets is still a valid capture.
            Encoder::Pcap { header: header @ None, nanoseconds, snaplen } => {
                pcap_header(out, LinkType::ETHERNET, *nanoseconds, *snaplen);
                *header = Some((LinkType::ETHERNET, *nanoseconds));
            }
            Encoder::Pcap { .. } => {}
            Encoder::Pcapng { numbers, .. } => {
                let mut known: Vec<_> =
                    numbers.iter().map(|((interface, _), number)| (*number, *interface)).collect();
                known.sort_unstable();
                for (number, interface) in known {
                    if let Some(statistics) = statistics.get(&interface) {
                        interface_statistics(out, number, statistics, now);
                    }
                }
            }
        }
    }
}

fn pcap_header(out: &mut Vec<u8>, link: LinkType, nanoseconds: bool, snaplen: u32) {
    let magic: u32 = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    out.extend(magic.to_le_bytes());
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend(snaplen.to_le_bytes());
    out.extend(u32::from(link.0).to_le_bytes());
}

/// Appends a block: type, length, body, length.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - start + 4) as u32;
    if let Some(place) = out.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    out.extend(length.to_le_bytes());
}

fn pad(out: &mut Vec<u8>, length: usize) {
    out.extend(std::iter::repeat_n(0, length.next_multiple_of(4) - length));
}

/// Appends an option. A value longer than its length field allows is truncated.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

fn section(out: &mut Vec<u8>, application: &str, comments: &[String]) {
    block(out, 0x0a0d_0d0a, |out| {
        out.extend(0x1a2b_3c4d_u32.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        out.extend(u64::MAX.to_le_bytes());
        for comment in comments {
            option(out, 1, comment.as_bytes());
        }
        if !application.is_empty() {
            option(out, 4, application.as_bytes());
        }
        option(out, 0, &[]);
    });
}

fn interface(out: &mut Vec<u8>, link: LinkType, snaplen: u32, described: Option<&InterfaceInfo>) {
    block(out, 1, |out| {
        out.extend(link.0.to_le_bytes());
        out.extend([0, 0]);
        let own = described.map(|described| described.snaplen).filter(|own| *own != 0);
        out.extend(own.unwrap_or(snaplen).to_le_bytes());
        if let Some(name) = described.and_then(|described| described.name.as_ref()) {
            option(out, 2, name.as_bytes());
        }
        if let Some(text) = described.and_then(|described| described.description.as_ref()) {
            option(out, 3, text.as_bytes());
        }
        // Times are in 10^-9 s.
        option(out, 9, &[9]);
        option(out, 0, &[]);
    });
}

fn enhanced<'a>(
    out: &mut Vec<u8>,
    number: u32,
    packet: &Packet<'_>,
    comments: impl Iterator<Item = &'a str>,
) {
    block(out, 6, |out| {
        let (high, low) = ((packet.time.0 >> 32) as u32, packet.time.0 as u32);
        let fields = [number, high, low, packet.data.len() as u32, packet.wire_len];
        out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        out.extend_from_slice(packet.data);
        pad(out, packet.data.len());
        let options = out.len();
        for comment in comments {
            option(out, 1, comment.as_bytes());
        }
        let direction = if packet.hints.has(Hints::INBOUND) {
            1
        } else if packet.hints.has(Hints::OUTBOUND) {
            2
        } else {
            0_u32
        };
        if direction != 0 {
            option(out, 2, &direction.to_le_bytes());
        }
        if out.len() > options {
            option(out, 0, &[]);
        }
    });
}

fn interface_statistics(out: &mut Vec<u8>, number: u32, statistics: &Statistics, now: Time) {
    block(out, 5, |out| {
        let fields = [number, (now.0 >> 32) as u32, now.0 as u32];
        out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        option(out, 4, &statistics.received.to_le_bytes());
        option(out, 5, &statistics.dropped.to_le_bytes());
        option(out, 0, &[]);
    });
}
