//! IEEE 802.11: the data frames, as far as they are not encrypted.

use super::frame::Frame;
use super::{ether, malformed, truncated};
use crate::{DecodeError, Layer, Layers};

/// Bits of the second byte of frame control (IEEE 802.11-2020 9.2.4.1).
const TO_DS: u8 = 0x01;
const FROM_DS: u8 = 0x02;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;

/// Radiotap flags (radiotap.org, field 1).
const HAS_FCS: u8 = 0x10;
const PADDED: u8 = 0x20;

/// A radiotap header, little-endian throughout, and the frame after it.
pub(super) fn radiotap(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let &[version, _, low, high, ..] = f.array::<8>(at).ok_or_else(|| truncated(Layer::Link))?;
    let header = u32::from(u16::from_le_bytes([low, high]));
    if version != 0 || header < 8 {
        return Err(malformed(Layer::Link));
    }
    let flags = radiotap_flags(f.limit(at + header), at).unwrap_or(0);
    let check = if flags & HAS_FCS != 0 { 4 } else { 0 };
    let end = (at + f.left(at)).saturating_sub(check);
    ieee802_11(f.limit(end), at + header, flags & PADDED != 0, l)
}

/// Field 1 of a radiotap header. Only field 0, the 64-bit timer on a multiple of 8, comes before it.
fn radiotap_flags(f: Frame<'_>, start: u32) -> Option<u8> {
    let present = f.u32(start + 4)?.swap_bytes();
    if present & 2 == 0 {
        return None;
    }
    let mut at = start + 8;
    let mut word = present;
    while word & 0x8000_0000 != 0 {
        word = f.u32(at)?.swap_bytes();
        at += 4;
    }
    if present & 1 != 0 {
        at = start + (at - start).next_multiple_of(8) + 8;
    }
    f.u8(at)
}

/// A frame from frame control on. `padded`: the header is filled up to a multiple of 4 bytes. Frames without data,
/// empty frames, encrypted frames and later fragments are not decoded further.
pub(super) fn ieee802_11(f: Frame<'_>, at: u32, padded: bool, l: &mut Layers) -> Result<(), DecodeError> {
    l.ether_type = 0;
    l.network = at;
    let &[kind, flags] = f.array::<2>(at).ok_or_else(|| truncated(Layer::Link))?;
    if kind & 3 != 0 {
        return Err(malformed(Layer::Link));
    }
    let (data, empty, qos) = (kind & 0x0c == 0x08, kind & 0x40 != 0, kind & 0x80 != 0);
    if !data || empty {
        return Ok(());
    }
    let sequence = f.array::<2>(at + 22).ok_or_else(|| truncated(Layer::Link))?;
    let later_fragment = sequence.first().is_some_and(|low| low & 0xf != 0);
    let wds = flags & (TO_DS | FROM_DS) == TO_DS | FROM_DS;
    let mut header = if wds { 30 } else { 24 };
    let mut aggregate = false;
    if qos {
        let control = f.u8(at + header).ok_or_else(|| truncated(Layer::Link))?;
        aggregate = control & 0x80 != 0;
        header += if flags & ORDER != 0 { 6 } else { 2 };
    }
    if padded {
        header = header.next_multiple_of(4);
    }
    l.network = at + header;
    if flags & PROTECTED != 0 || later_fragment {
        return Ok(());
    }
    if aggregate { first_of_aggregate(f, at + header, l) } else { ether::llc(f, at + header, l) }
}

/// The first frame of an A-MSDU: addresses, a length, LLC. The other frames are not decoded.
fn first_of_aggregate(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let length = f.u16(at + 12).ok_or_else(|| truncated(Layer::Link))?;
    ether::llc(f.limit(at + 14 + u32::from(length)), at + 14, l)
}
