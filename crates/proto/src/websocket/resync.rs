//! Whether the bytes after a gap begin a frame (RFC 6455, 5.2).
//!
//! Frames have no mark, so that several things must agree: reserved bits are unset, the opcode is known, the client masks and the server does
//! not, control frames are short and whole, lengths have their shortest form, pieces of a message follow each other, and text is UTF-8.
//! Directly after the gap one frame is enough; elsewhere two must follow each other, and the header of a third.

use super::{COMPRESSED, Frame};
use crate::sought::{Begun, MAX_MESSAGE};
use crate::work::looked_at;
use weir_wire::{Direction, Time};

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x30;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// What frames of a side have in common.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub side: Direction,
    /// Whether payload was compressed before.
    pub compresses: bool,
}

/// A frame after a gap.
enum Likely {
    /// With the length of its header.
    Yes(usize, Frame),
    No,
    Unknown,
}

impl Form {
    /// Whether frames begin with the bytes `at` bytes after a gap.
    pub fn begun(self, at: usize, bytes: &[u8]) -> Begun {
        let mut end = 0;
        // Whether a message has further frames, once that is known.
        let mut continues = None;
        for frames in 0..3 {
            let rest = bytes.get(end..).unwrap_or_default();
            let (header, frame) = match self.header(rest) {
                Likely::Yes(header, frame) => (header, frame),
                Likely::No => return Begun::No,
                Likely::Unknown => return Begun::Unknown,
            };
            let is_control = frame.first & 15 >= CLOSE;
            let is_continued = frame.first & 15 == CONTINUATION;
            if !is_control && continues.is_some_and(|continues| continues != is_continued) {
                return Begun::No;
            }
            if !is_control {
                continues = Some(frame.first & FIN == 0);
            }
            let length = usize::try_from(frame.length).unwrap_or(usize::MAX);
            if frames == 2 || length > MAX_MESSAGE {
                // A length of several bytes in its shortest form is hardly one by chance, but for the many places of the first.
                return if at == 0 || frames > 0 { Begun::Yes(end + header) } else { Begun::No };
            }
            let Some(payload) = rest.get(header..header + length) else { return Begun::Unknown };
            if !frame.fits(payload) {
                return Begun::No;
            }
            end += header + length;
            if at == 0 {
                break;
            }
        }
        Begun::Yes(end)
    }

    /// Whether a header is one that this side sends.
    pub fn is_likely(self, header: &[u8]) -> bool {
        matches!(self.header(header), Likely::Yes(..))
    }

    fn header(self, bytes: &[u8]) -> Likely {
        let [first, rest @ ..] = bytes else { return Likely::Unknown };
        let opcode = first & 15;
        let is_control = opcode >= CLOSE;
        let is_known = matches!(opcode, 0..=2 | 8..=10) && first & RESERVED == 0;
        let is_marked = first & COMPRESSED != 0;
        let is_first = !is_control && opcode != CONTINUATION;
        if !is_known || is_control && first & FIN == 0 || is_marked && !(is_first && self.compresses) {
            return Likely::No;
        }
        let [second, ..] = rest else { return Likely::Unknown };
        let is_masked = second & 0x80 != 0;
        let length = second & 0x7f;
        if is_masked != (self.side == Direction::Forward) || is_control && length > 125 {
            return Likely::No;
        }
        let bytes_of_length = match length {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let header = 2 + bytes_of_length + if is_masked { 4 } else { 0 };
        let Some(whole) = bytes.get(..header) else { return Likely::Unknown };
        let least =
            [0, 126, 65_536].get(usize::from(length.saturating_sub(125))).copied().unwrap_or_default();
        match Frame::of(whole, Time(0), 0) {
            Some(frame) if frame.length >= least => Likely::Yes(header, frame),
            _ => Likely::No,
        }
    }
}

impl Frame {
    /// Whether the payload is one of the frame's kind.
    fn fits(&self, payload: &[u8]) -> bool {
        let mask = self.mask.unwrap_or_default();
        let plain = || payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        match self.first & 15 {
            TEXT if !self.is_compressed() => {
                looked_at(payload.len());
                let plain: Vec<u8> = plain().collect();
                // The last character may go on in the next frame.
                let is_last = self.first & FIN != 0;
                std::str::from_utf8(&plain)
                    .map_or_else(|error| !is_last && error.error_len().is_none(), |_| true)
            }
            CLOSE => {
                let mut plain = plain();
                match (plain.next(), plain.next()) {
                    (None, _) => true,
                    // The codes of RFC 6455, 7.4.2.
                    (Some(high), Some(low)) => (1000..5000).contains(&u16::from_be_bytes([high, low])),
                    _ => false,
                }
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sought::{Found, Sought};

    fn found(bytes: &[u8], piece: usize, side: Direction) -> Option<Vec<u8>> {
        let mut sought = Sought::default();
        let mut pieces = bytes.chunks(piece);
        let form = Form { side, compresses: false };
        while let Some(data) = pieces.next() {
            match sought.next(data, Time(0), |at, bytes| form.begun(at, bytes)) {
                Found::Bytes(found) => {
                    return Some(found.bytes().iter().chain(pieces.flatten()).copied().collect());
                }
                Found::Later(later) | Found::Nothing(later) => sought = later,
            }
        }
        None
    }

    #[test]
    fn frames_are_found_where_they_begin() {
        let frames = b"\x81\x05hello\x89\0\x01\x03one\x80\x03two\x88\x02\x03\xe8";
        let long = [b"\x82\x7e\x10\0".as_slice(), &[7; 4096]].concat();
        for piece in [1, 2, 5, 10_000] {
            let find = |bytes: &[u8]| found(bytes, piece, Direction::Reverse);
            assert_eq!(find(b"\x88\0").as_deref(), Some(&b"\x88\0"[..]), "one is enough behind the gap");
            let behind = [b"rest of text \x82\x05", &frames[..]].concat();
            assert_eq!(find(&behind).as_deref(), behind.get(15..), "{piece}");
            let long_second = [b"noise\x8a\0".as_slice(), &long].concat();
            assert_eq!(find(&long_second).as_deref(), long_second.get(5..), "{piece}");
            assert_eq!(find(&long).as_deref(), Some(long.as_slice()), "{piece}");
        }
    }

    #[test]
    fn no_frame_is_invented() {
        for (bytes, why) in [
            (&b"\x81\x85\x01\x02\x03\x04hello"[..], "a server does not mask"),
            (b"\x83\x00", "an opcode that is none"),
            (b"\xc1\x00", "compressed, without an extension that compresses"),
            (b"\x09\x00", "a control frame in pieces"),
            (b"\x81\x7e\x00\x05hello", "a length that is not in its shortest form"),
            (b"\x81\x02\xff\xff", "text that is not UTF-8"),
            (b"\x88\x02\x00\x01", "a code of closing that is none"),
            (b"x\x81\x01a\x81\x01b", "two frames alone, away from the gap"),
            (b"x\x01\x01a\x81\x01b\x81\x01c", "another message within one"),
        ] {
            assert_eq!(found(bytes, 3, Direction::Reverse), None, "{why}");
        }
    }
}
