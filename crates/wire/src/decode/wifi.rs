//! IEEE 802.11: the data frames, as far as they are not encrypted.

use super::frame::Frame;
use super::{ether, malformed, truncated};
use crate::{DecodeError, Layer, Layers, LinkType, Packet};

/// Bits of the second byte of frame control (IEEE 802.11-2020 9.2.4.1).
const TO_DS: u8 = 0x01;
const FROM_DS: u8 = 0x02;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;

/// Radiotap flags (radiotap.org, field 1).
const HAS_FCS: u8 = 0x10;
const PADDED: u8 = 0x20;
const BAD_FCS: u8 = 0x40;

/// Hardware types of Linux: IEEE 802.11, and the same after radiotap.
pub(super) const ARPHRD_IEEE80211: u16 = 801;
pub(super) const ARPHRD_IEEE80211_RADIOTAP: u16 = 803;

/// The offset of frame control in a packet; `None` if its link has no frames of IEEE 802.11.
pub(super) fn frame_at(packet: &Packet<'_>) -> Option<usize> {
    let bytes = |at: usize| packet.data.get(at..)?.first_chunk::<2>().copied();
    let behind_radiotap = |at: usize| Some(at + usize::from(u16::from_le_bytes(bytes(at + 2)?)));
    let cooked = |hardware: usize, at: usize| match u16::from_be_bytes(bytes(hardware)?) {
        ARPHRD_IEEE80211 => Some(at),
        ARPHRD_IEEE80211_RADIOTAP => behind_radiotap(at),
        _ => None,
    };
    match packet.link {
        LinkType::IEEE802_11 => Some(0),
        LinkType::IEEE802_11_RADIOTAP => behind_radiotap(0),
        LinkType::PPI => {
            let at = usize::from(u16::from_le_bytes(bytes(2)?));
            match LinkType(u16::from_le_bytes(bytes(4)?)) {
                LinkType::IEEE802_11 => Some(at),
                LinkType::IEEE802_11_RADIOTAP => behind_radiotap(at),
                _ => None,
            }
        }
        LinkType::LINUX_SLL => cooked(2, 16),
        LinkType::LINUX_SLL2 => cooked(8, 20),
        _ => None,
    }
}

/// Whether a radiotap header says that the frame's check sequence is wrong.
pub(super) fn is_damaged(packet: &Packet<'_>) -> bool {
    let flags = || radiotap_flags(Frame::new(packet.data, packet.wire_len), 0);
    packet.link == LinkType::IEEE802_11_RADIOTAP && flags().is_some_and(|flags| flags & BAD_FCS != 0)
}

/// A radiotap header, little-endian throughout, and the frame after it.
pub(super) fn radiotap(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let (f, at, padded) = past_radiotap(f, at)?;
    ieee802_11(f, at, padded, l)
}

/// The frame after a radiotap header, without its check sequence: its offset, and whether its header is padded.
fn past_radiotap(f: Frame<'_>, at: u32) -> Result<(Frame<'_>, u32, bool), DecodeError> {
    let &[version, _, low, high, ..] = f.array::<8>(at).ok_or_else(|| truncated(Layer::Link))?;
    let header = u32::from(u16::from_le_bytes([low, high]));
    if version != 0 || header < 8 {
        return Err(malformed(Layer::Link));
    }
    let flags = radiotap_flags(f.limit(at + header), at).unwrap_or(0);
    let check = if flags & HAS_FCS != 0 { 4 } else { 0 };
    let end = (at + f.left(at)).saturating_sub(check);
    Ok((f.limit(end), at + header, flags & PADDED != 0))
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
    let control = *f.array::<2>(at).ok_or_else(|| truncated(Layer::Link))?;
    controlled(f, at, control, padded, l)
}

/// A frame whose two bytes of frame control are swapped.
pub(super) fn swapped(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let &[flags, kind] = f.array::<2>(at).ok_or_else(|| truncated(Layer::Link))?;
    controlled(f, at, [kind, flags], false, l)
}

/// A frame with the given frame control.
fn controlled(
    f: Frame<'_>,
    at: u32,
    control: [u8; 2],
    padded: bool,
    l: &mut Layers,
) -> Result<(), DecodeError> {
    l.ether_type = 0;
    l.network = at;
    let Some(body) = body(f, at, control, padded)? else { return Ok(()) };
    l.network = body.at;
    match body.content {
        Content::Hidden => Ok(()),
        Content::One => ether::llc(f, body.at, l),
        Content::Aggregate => {
            let length = f.u16(body.at + 12).ok_or_else(|| truncated(Layer::Link))?;
            ether::llc(f.limit(body.at + SUBFRAME + u32::from(length)), body.at + SUBFRAME, l)
        }
    }
}

/// The body of a data frame.
struct Body {
    at: u32,
    content: Content,
}

/// What the body of a data frame is.
enum Content {
    /// Encrypted, or a later fragment.
    Hidden,
    /// The payload of one frame, from LLC on.
    One,
    /// Several frames (A-MSDU): each has two addresses, a length, and LLC (IEEE 802.11-2020 9.3.2.2).
    Aggregate,
}

/// Bytes of a header in an aggregate: two addresses and a length.
const SUBFRAME: u32 = 14;

/// The body of a frame with the given frame control, the byte of the type first; `None` if it has no data.
fn body(f: Frame<'_>, at: u32, [kind, flags]: [u8; 2], padded: bool) -> Result<Option<Body>, DecodeError> {
    if kind & 3 != 0 {
        return Err(malformed(Layer::Link));
    }
    let (data, empty, qos) = (kind & 0x0c == 0x08, kind & 0x40 != 0, kind & 0x80 != 0);
    if !data || empty {
        return Ok(None);
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
    let content = match () {
        () if flags & PROTECTED != 0 || later_fragment => Content::Hidden,
        () if aggregate => Content::Aggregate,
        () => Content::One,
    };
    Ok(Some(Body { at: at + header, content }))
}

/// The frames of an aggregate after the first one, as offsets of their beginning and end. Each is like a frame of
/// IEEE 802.3 with a length. None for other packets.
pub(super) fn further(f: Frame<'_>, has_radiotap: bool) -> impl Iterator<Item = (u32, u32)> {
    let aggregate = move || {
        let (f, at, padded) = if has_radiotap { past_radiotap(f, 0).ok()? } else { (f, 0, false) };
        let body = body(f, at, *f.array::<2>(at)?, padded).ok()??;
        matches!(body.content, Content::Aggregate).then_some((f, body.at))
    };
    let mut rest = aggregate();
    let frames = std::iter::from_fn(move || {
        let (f, at) = rest.take()?;
        let end = at + SUBFRAME + u32::from(f.u16(at + 12)?);
        // Each but the last is padded to a multiple of four bytes.
        rest = Some((f, at + (end - at).next_multiple_of(4)));
        (end <= at + f.left(at)).then_some((at, end))
    });
    frames.skip(1)
}
