//! What is done with a buffer before it is searched.

use crate::pattern::Capture;

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
