//! Transfer encodings (RFC 2045, 6), decoded as bytes arrive.

/// Number of bytes that are decoded at once.
const BLOCK: usize = 768;

/// A transfer encoding and its state.
#[derive(Clone, Debug, Default)]
pub(crate) enum Decoder {
    /// 7bit, 8bit, binary, and unknown encodings.
    #[default]
    Identity,
    /// base64 (RFC 4648, 4).
    Base64(Base64),
    /// quoted-printable (RFC 2045, 6.7).
    Quoted(Quoted),
}

/// Base64: the digits of a group so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base64 {
    bits: u32,
    digits: u8,
    /// Whether a byte that is no digit was among the digits.
    pub is_broken: bool,
}

/// State of quoted-printable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Quoted {
    #[default]
    Plain,
    /// After `=`.
    Escape,
    /// After `=` and a hexadecimal digit.
    Half(u8),
    /// After `=` and spaces or `\r`: a soft line break.
    Soft,
}

/// Collects bytes and passes them on in blocks.
struct Block<'a> {
    bytes: [u8; BLOCK],
    used: usize,
    sink: &'a mut dyn FnMut(&[u8]),
}

impl Block<'_> {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.used) {
            *place = byte;
            self.used += 1;
        }
        if self.used == BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let bytes = self.bytes.get(..self.used).unwrap_or_default();
        if !bytes.is_empty() {
            (self.sink)(bytes);
        }
        self.used = 0;
    }
}

impl Decoder {
    /// The decoder of a Content-Transfer-Encoding.
    pub fn named(name: &[u8]) -> Self {
        match name.trim_ascii() {
            name if name.eq_ignore_ascii_case(b"base64") => Self::Base64(Base64::default()),
            name if name.eq_ignore_ascii_case(b"quoted-printable") => Self::Quoted(Quoted::Plain),
            _ => Self::Identity,
        }
    }

    /// Decodes the next bytes.
    pub fn bytes(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&[u8])) {
        let mut block = match self {
            Self::Identity => return sink(bytes),
            _ => Block { bytes: [0; BLOCK], used: 0, sink },
        };
        match self {
            Self::Identity => {}
            Self::Base64(base64) => bytes.iter().for_each(|byte| base64.byte(*byte, &mut block)),
            Self::Quoted(quoted) => bytes.iter().for_each(|byte| quoted.byte(*byte, &mut block)),
        }
        block.flush();
    }

    /// Passes on the remaining bytes: those of a last group without its padding, or a truncated escape.
    pub fn end(&mut self, sink: &mut dyn FnMut(&[u8])) {
        let mut block = Block { bytes: [0; BLOCK], used: 0, sink };
        match self {
            Self::Identity => {}
            Self::Base64(base64) => base64.pad(&mut block),
            Self::Quoted(quoted) => match std::mem::take(quoted) {
                Quoted::Plain | Quoted::Soft => {}
                Quoted::Escape => block.push(b'='),
                Quoted::Half(first) => {
                    block.push(b'=');
                    block.push(first);
                }
            },
        }
        block.flush();
    }
}

impl Base64 {
    fn byte(&mut self, byte: u8, block: &mut Block<'_>) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => return self.pad(block),
            b' ' | b'\t' | b'\r' | b'\n' => return,
            _ => {
                self.is_broken = true;
                return;
            }
        };
        self.bits = self.bits << 6 | u32::from(digit);
        self.digits += 1;
        if self.digits == 4 {
            let [_, first, second, third] = self.bits.to_be_bytes();
            [first, second, third].into_iter().for_each(|byte| block.push(byte));
            (self.bits, self.digits) = (0, 0);
        }
    }

    /// The group ends before its fourth digit.
    fn pad(&mut self, block: &mut Block<'_>) {
        match self.digits {
            2 => block.push((self.bits >> 4) as u8),
            3 => {
                block.push((self.bits >> 10) as u8);
                block.push((self.bits >> 2) as u8);
            }
            _ => {}
        }
        (self.bits, self.digits) = (0, 0);
    }
}

impl Quoted {
    fn byte(&mut self, byte: u8, block: &mut Block<'_>) {
        *self = match (*self, byte) {
            (Self::Plain, b'=') => Self::Escape,
            (Self::Plain, _) => {
                block.push(byte);
                Self::Plain
            }
            (Self::Escape | Self::Soft, b' ' | b'\t' | b'\r') => Self::Soft,
            (Self::Escape | Self::Soft, b'\n') => Self::Plain,
            (Self::Escape, byte) if byte.is_ascii_hexdigit() => Self::Half(byte),
            // Not an escape: the bytes are kept.
            (Self::Escape, byte) => {
                block.push(b'=');
                block.push(byte);
                Self::Plain
            }
            (Self::Soft, byte) => {
                block.push(byte);
                Self::Plain
            }
            (Self::Half(first), byte) => {
                let digit = |digit: u8| char::from(digit).to_digit(16);
                match (digit(first), digit(byte)) {
                    (Some(high), Some(low)) => block.push((high << 4 | low) as u8),
                    _ => [b'=', first, byte].into_iter().for_each(|byte| block.push(byte)),
                }
                Self::Plain
            }
        };
    }
}

/// Decodes a complete base64 text.
pub(crate) fn base64(text: &[u8]) -> Vec<u8> {
    let (mut decoder, mut bytes) = (Decoder::Base64(Base64::default()), Vec::new());
    decoder.bytes(text, &mut |decoded| bytes.extend_from_slice(decoded));
    decoder.end(&mut |decoded| bytes.extend_from_slice(decoded));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(name: &[u8], text: &[u8], piece: usize) -> Vec<u8> {
        let (mut decoder, mut bytes) = (Decoder::named(name), Vec::new());
        for piece in text.chunks(piece) {
            decoder.bytes(piece, &mut |decoded| bytes.extend_from_slice(decoded));
        }
        decoder.end(&mut |decoded| bytes.extend_from_slice(decoded));
        bytes
    }

    #[test]
    fn encodings_are_decoded_wherever_they_are_cut() {
        let cases: [(&[u8], &[u8], &[u8]); 9] = [
            (b"BASE64", b"", b""),
            (b"base64", b"Zg==", b"f"),
            (b"base64", b"Zm9vYg", b"foob"),
            (b"base64", b"Zm 9v\r\nYm\tE=", b"fooba"),
            (b"base64", b"Zg==Zm9v", b"ffoo"),
            (b"quoted-printable", b"a=3Db=\r\nc=20=  \nd", b"a=bc d"),
            (b"quoted-printable", b"=zz=4=41=E2=82=ac", b"=zz=4=41\xe2\x82\xac"),
            (b"quoted-printable", b"x=", b"x="),
            (b"8bit", b"a=3D", b"a=3D"),
        ];
        for (name, text, expected) in cases {
            for piece in 1..=text.len().max(1) {
                assert_eq!(decoded(name, text, piece), expected, "{} by {piece}", text.escape_ascii());
            }
        }
        assert_eq!(base64(b"AHVzZXIAcGFzcw=="), b"\0user\0pass");
    }
}
