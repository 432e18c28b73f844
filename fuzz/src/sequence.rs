//! A sequence of packets in a form that stays valid under mutation: every string of bytes is a sequence.
//!
//! A packet is: one byte that selects the link type (low 4 bits) and the time step (high 4 bits), two for the captured
//! length (little-endian), and the bytes.

use weir_filter::LINK_TYPES;
use weir_wire::{Hints, LinkType, Packet, PacketBuf, Time};

/// Time steps in nanoseconds; the last one is negative.
const STEPS: [i64; 16] = [
    0,
    1,
    1_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    4_000_000_000,
    6_000_000_000,
    59_000_000_000,
    61_000_000_000,
    301_000_000_000,
    3_601_000_000_000,
    90_000_000_000_000,
    1 << 60,
    -2_000_000_000,
];

const START: u64 = 1_700_000_000_000_000_000;

/// The link type of a number; one of them is not decoded.
pub fn link(number: u8) -> LinkType {
    LINK_TYPES.get(usize::from(number)).copied().unwrap_or(LinkType(147))
}

/// Decodes a sequence.
pub fn decode(mut bytes: &[u8]) -> PacketBuf {
    let mut chunk = PacketBuf::default();
    let mut time = START;
    while let Some((&[kind, low, high], rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (data, rest) = rest.split_at(len);
        time = time.saturating_add_signed(STEPS[usize::from(kind >> 4)]);
        let wire_len = data.len() as u32 + u32::from(kind & 0x20) * 8;
        let link = link(kind & 15);
        chunk.push(&Packet {
            time: Time(time),
            data,
            wire_len,
            interface: 0,
            link,
            hints: Hints::default(),
            number: 0,
        });
        bytes = rest;
    }
    chunk
}

/// Encodes a sequence, as closely as possible.
pub fn encode<'a>(packets: impl Iterator<Item = Packet<'a>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = None;
    for packet in packets {
        let gap = packet.time.since(last.unwrap_or(packet.time)) as i64;
        last = Some(packet.time);
        let step = STEPS[..14].iter().rposition(|step| *step <= gap).unwrap_or(0) as u8;
        let number = LINK_TYPES.iter().position(|link| *link == packet.link).unwrap_or(15) as u8;
        let data = &packet.data[..packet.data.len().min(usize::from(u16::MAX))];
        bytes.push(step << 4 | number);
        bytes.extend_from_slice(&(data.len() as u16).to_le_bytes());
        bytes.extend_from_slice(data);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_packets_are_decoded_unchanged() {
        let bytes = [&[0x01, 3, 0][..], b"abc", &[0x60, 2, 0], b"de", &[0x10, 9, 0], b"cut"].concat();
        let chunk = decode(&bytes);
        let found: Vec<_> =
            chunk.batch().packets().map(|p| (p.time.0 - START, p.link, p.data.to_vec())).collect();
        assert_eq!(
            found,
            [
                (0, LINK_TYPES[1], b"abc".to_vec()),
                (1_000_000_000, LINK_TYPES[0], b"de".to_vec()),
                (1_000_000_001, LINK_TYPES[0], b"cut".to_vec()),
            ]
        );
        let again = decode(&encode(chunk.batch().packets()));
        assert!(again.batch().packets().map(|p| p.data).eq(chunk.batch().packets().map(|p| p.data)));
    }
}
