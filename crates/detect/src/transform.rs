//! What is done with a buffer before it is searched.

use crate::pattern::Capture;
use md5::Digest;
use std::borrow::Cow;
use std::io::Read;

/// A change of a buffer's bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Transform {
    /// A `.` is put before it.
    DotPrefix,
    /// The last part of a domain name that is registered, and what is below it: `domain`.
    Domain,
    /// The public suffix of a domain name: `tld`.
    TopLevel,
    /// Letters of ASCII become lower case.
    Lower,
    /// Letters of ASCII become upper case.
    Upper,
    /// Blanks are left out.
    StripBlanks,
    /// Several blanks become one.
    CompressBlanks,
    /// Escapes of URLs are decoded, and `+` is a blank.
    UrlDecode,
    /// Each byte is combined with the next one of a key by exclusive or.
    Xor(Box<[u8]>),
    /// Its MD5, 16 bytes.
    Md5,
    /// Its SHA-1, 20 bytes.
    Sha1,
    /// Its SHA-256, 32 bytes.
    Sha256,
    /// Base64 is decoded.
    FromBase64(Base64),
    /// Names of headers become lower case.
    HeaderLower,
    /// Headers of HTTP/2 that begin with `:` are left out.
    StripPseudoHeaders,
    /// What the first group of an expression captures.
    Capture(Capture),
    /// Gzip is inflated, to at most this number of bytes.
    Gunzip(u32),
    /// Zlib is inflated, to at most this number of bytes.
    Inflate(u32),
}

/// How base64 is decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Base64 {
    /// The number of encoded bytes that are read, if limited.
    pub bytes: Option<u32>,
    /// How many bytes are skipped.
    pub offset: u32,
    /// Which letters are accepted.
    pub mode: Base64Mode,
}

/// Which letters of base64 are accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Base64Mode {
    /// Other letters are skipped (RFC 2045).
    Rfc2045,
    /// The first other letter ends it (RFC 4648).
    Rfc4648,
    /// Any other letter makes it invalid.
    Strict,
}

impl Transform {
    /// Changes the bytes of a buffer.
    pub fn apply<'a>(&self, bytes: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        match self {
            Self::DotPrefix => [b".", &*bytes].concat().into(),
            Self::Domain => registered_domain(&bytes).to_vec().into(),
            Self::TopLevel => public_suffix(&bytes).to_vec().into(),
            Self::Lower => bytes.to_ascii_lowercase().into(),
            Self::Upper => bytes.to_ascii_uppercase().into(),
            Self::StripBlanks => bytes.iter().copied().filter(|byte| !is_blank(*byte)).collect(),
            Self::CompressBlanks => compress_blanks(&bytes).into(),
            Self::UrlDecode => url_decode(&bytes).into(),
            Self::Xor(key) => bytes.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect(),
            Self::Md5 => md5::Md5::digest(&bytes).to_vec().into(),
            Self::Sha1 => sha1::Sha1::digest(&bytes).to_vec().into(),
            Self::Sha256 => sha2::Sha256::digest(&bytes).to_vec().into(),
            Self::FromBase64(how) => from_base64(bytes, how),
            Self::HeaderLower => header_names_lower(&bytes).into(),
            Self::StripPseudoHeaders => without_pseudo_headers(&bytes).into(),
            Self::Capture(capture) => match capture.of(&bytes) {
                Some(part) => part.to_vec().into(),
                None => bytes,
            },
            Self::Gunzip(most) => {
                inflated(flate2::read::MultiGzDecoder::new(&*bytes), *most).map_or(bytes, Cow::Owned)
            }
            Self::Inflate(most) => {
                inflated(flate2::read::ZlibDecoder::new(&*bytes), *most).map_or(bytes, Cow::Owned)
            }
        }
    }

    /// Applies several in order.
    pub fn all<'a>(transforms: &[Self], bytes: &'a [u8]) -> Cow<'a, [u8]> {
        transforms.iter().fold(Cow::Borrowed(bytes), |bytes, transform| transform.apply(bytes))
    }
}

/// A blank of C's `isspace`.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn compress_blanks(bytes: &[u8]) -> Vec<u8> {
    let mut compressed = Vec::with_capacity(bytes.len());
    for byte in bytes {
        let follows_blank = compressed.last().is_some_and(|last| is_blank(*last));
        if !(is_blank(*byte) && follows_blank) {
            compressed.push(*byte);
        }
    }
    compressed
}

/// Escapes of URLs (RFC 3986, section 2.1). What is no escape stays.
fn url_decode(bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'+' => decoded.push(b' '),
            b'%' => match (digit(bytes.get(at)), digit(bytes.get(at + 1))) {
                (Some(high), Some(low)) => {
                    decoded.push((high * 16 + low) as u8);
                    at += 2;
                }
                _ => decoded.push(b'%'),
            },
            _ => decoded.push(*byte),
        }
    }
    decoded
}

/// The registered part of a domain name; of a name without one, nothing.
fn registered_domain(name: &[u8]) -> &[u8] {
    psl::domain(name).map_or(&[], |domain| domain.as_bytes())
}

fn public_suffix(name: &[u8]) -> &[u8] {
    psl::suffix(name).map_or(&[], |suffix| suffix.as_bytes())
}

/// The names of headers, each up to its colon, in lower case.
fn header_names_lower(bytes: &[u8]) -> Vec<u8> {
    let mut is_name = true;
    let lower = |byte: &u8| {
        is_name = match byte {
            b':' => false,
            b'\n' => true,
            _ => is_name,
        };
        if is_name { byte.to_ascii_lowercase() } else { *byte }
    };
    bytes.iter().map(lower).collect()
}

fn without_pseudo_headers(bytes: &[u8]) -> Vec<u8> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(b":"))
        .flatten()
        .copied()
        .collect()
}

/// At most a number of inflated bytes; what was inflated before a fault counts. `None`: nothing was.
fn inflated(mut reader: impl Read, most: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while bytes.len() < most as usize {
        match reader.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(read) => bytes.extend_from_slice(piece.get(..read)?),
        }
    }
    bytes.truncate(most as usize);
    (!bytes.is_empty()).then_some(bytes)
}

/// Base64 in the place of the bytes. Where nothing can be decoded they stay.
fn from_base64<'a>(bytes: Cow<'a, [u8]>, how: &Base64) -> Cow<'a, [u8]> {
    let mut decoded = Vec::new();
    match bytes.get(how.offset as usize..) {
        Some(text) => decode_base64(text, how, &mut decoded),
        None => return bytes,
    }
    if decoded.is_empty() { bytes } else { decoded.into() }
}

/// Decodes base64 from the beginning of a text, up to the end that its mode says.
pub(crate) fn decode_base64(text: &[u8], how: &Base64, decoded: &mut Vec<u8>) {
    let most = how.bytes.map_or(text.len(), |bytes| (bytes as usize).min(text.len()));
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text.get(..most).unwrap_or_default() {
        let Some(digit) = base64_digit(*byte) else {
            match (how.mode, byte) {
                (_, b'=') => break,
                (Base64Mode::Rfc2045, _) => continue,
                (Base64Mode::Rfc4648, _) => break,
                (Base64Mode::Strict, _) => {
                    decoded.clear();
                    return;
                }
            }
        };
        bits = bits << 6 | digit;
        held += 6;
        if held >= 8 {
            held -= 8;
            decoded.push((bits >> held) as u8);
        }
    }
}

/// The six bits of a digit (RFC 4648, table 1).
fn base64_digit(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(transform: Transform, text: &[u8]) -> Vec<u8> {
        transform.apply(Cow::Borrowed(text)).into_owned()
    }

    #[test]
    fn plain_changes() {
        assert_eq!(of(Transform::DotPrefix, b"a.b"), b".a.b");
        assert_eq!(of(Transform::StripBlanks, b" a\x0b b\r\n"), b"ab");
        assert_eq!(of(Transform::CompressBlanks, b"a \t b  c"), b"a b c");
        assert_eq!(of(Transform::UrlDecode, b"a%2Fb+%zz%4"), b"a/b %zz%4");
        assert_eq!(of(Transform::Xor([0x0d, 0x0a].into()), b"\x0d\x0b\x0c"), b"\0\x01\x01");
        assert_eq!(of(Transform::HeaderLower, b"Host: A\r\nX-Y: B\r\n"), b"host: A\r\nx-y: B\r\n");
        assert_eq!(of(Transform::StripPseudoHeaders, b":path: /\r\nhost: a\r\n"), b"host: a\r\n");
        assert_eq!(of(Transform::Domain, b"www.example.co.uk"), b"example.co.uk");
        assert_eq!(of(Transform::TopLevel, b"www.example.co.uk"), b"co.uk");
        assert_eq!(of(Transform::Md5, b"")[..4], [0xd4, 0x1d, 0x8c, 0xd9]);
        assert_eq!(of(Transform::Sha1, b"").len() + of(Transform::Sha256, b"").len(), 52);
    }

    #[test]
    fn base64_in_three_modes() {
        let how = |mode| Transform::FromBase64(Base64 { bytes: None, offset: 0, mode });
        assert_eq!(of(how(Base64Mode::Rfc4648), b"dGhpc2lzYXRlc3QK"), b"thisisatest\n");
        assert_eq!(of(how(Base64Mode::Rfc4648), b"YWJj ZGVm"), b"abc");
        assert_eq!(of(how(Base64Mode::Rfc2045), b"YWJj ZGVm"), b"abcdef");
        assert_eq!(of(how(Base64Mode::Strict), b"YWJj ZGVm"), b"YWJj ZGVm");
        let part = Transform::FromBase64(Base64 { bytes: Some(4), offset: 6, mode: Base64Mode::Rfc4648 });
        assert_eq!(of(part, b"/?arg=YWJjZGVm"), b"abc");
    }

    #[test]
    fn inflation_has_a_limit() {
        use flate2::write::{GzEncoder, ZlibEncoder};
        use std::io::Write;
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&[b'a'; 1 << 20]).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(of(Transform::Gunzip(1000), &gzip), [b'a'; 1000]);
        assert_eq!(of(Transform::Gunzip(1000), b"no gzip"), b"no gzip");
        let mut zlib = ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(b"text").unwrap();
        assert_eq!(of(Transform::Inflate(1000), &zlib.finish().unwrap()), b"text");
    }
}
