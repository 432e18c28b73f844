//! The two hellos, and their fingerprints.

use super::names::{FIRST_DRAFTS, TLS13, is_grease};
use crate::hex::hex;
use md5::{Digest, Md5};
use sha2::Sha256;
use std::fmt::Write;
use weir_wire::Reader;

const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const POINT_FORMATS: u16 = 11;
const SIGNATURES: u16 = 13;
const ALPN: u16 = 16;
const TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;
/// Number of the key share extension in drafts up to the 22nd.
const KEY_SHARE_DRAFT: u16 = 40;
/// Encrypted client hello (RFC 9849).
const ECH: u16 = 0xfe0d;
/// Encrypted server name indication, a predecessor of ECH.
const ESNI: u16 = 0xffce;

/// The random bytes of a hello (RFC 5246, 7.4.1.2): up to TLS 1.2 the first four may be the time.
pub(crate) type Random = [u8; 32];

/// The contents of a client hello.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientHello {
    pub version: u16,
    /// Random bytes; SSLv2 has a challenge instead.
    pub random: Option<Random>,
    pub session_id: Vec<u8>,
    /// Cipher suites; those of SSLv2 have three bytes.
    pub ciphers: Vec<u32>,
    pub extensions: Vec<u16>,
    pub server_names: Vec<Vec<u8>>,
    pub alpn: Vec<Vec<u8>>,
    pub groups: Vec<u16>,
    pub point_formats: Vec<u8>,
    pub signatures: Vec<u16>,
    pub versions: Vec<u16>,
    /// Whether it contains a ticket of an earlier session.
    pub ticket: bool,
    pub pre_shared_key: bool,
    pub early_data: bool,
    /// Whether it contains an encrypted hello or an encrypted name.
    pub encrypted_hello: bool,
}

/// The contents of a server hello.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerHello {
    /// Version in the header.
    pub version: u16,
    /// Random bytes; SSLv2 has none.
    pub random: Option<Random>,
    pub session_id: Vec<u8>,
    pub cipher: u32,
    pub extensions: Vec<u16>,
    pub alpn: Option<Vec<u8>>,
    /// Version in the extension, which takes precedence.
    pub chosen: Option<u16>,
    pub group: Option<u16>,
    pub pre_shared_key: bool,
    /// Whether it is a hello retry request.
    pub retry: bool,
}

/// The random value of a hello retry request (RFC 8446, 4.1.3).
const RETRY: Random = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// The bytes after a length of one byte.
fn short<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u8()?;
    reader.take(length.into())
}

/// The bytes after a length of two bytes.
pub(crate) fn long<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u16()?;
    reader.take(length.into())
}

fn random(reader: &mut Reader<'_>) -> Option<Random> {
    reader.take(size_of::<Random>())?.first_chunk().copied()
}

/// All numbers of two bytes.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).filter_map(|pair| pair.first_chunk().map(|pair| u16::from_be_bytes(*pair)))
}

/// The names of a list of application protocols.
fn protocols(data: &[u8]) -> Vec<Vec<u8>> {
    let Some(list) = long(&mut Reader::new(data)) else { return Vec::new() };
    let mut reader = Reader::new(list);
    std::iter::from_fn(|| short(&mut reader)).map(<[u8]>::to_vec).collect()
}

/// Each extension; one that exceeds the remaining bytes ends the list.
fn extensions<'a>(reader: &mut Reader<'a>) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
    let length = usize::from(reader.u16().unwrap_or(0));
    let all = reader.rest();
    let mut inner = Reader::new(all.get(..length).unwrap_or(all));
    std::iter::from_fn(move || Some((inner.u16()?, long(&mut inner)?)))
}

impl ClientHello {
    /// Parses the body of a message; that of a datagram protocol contains a cookie.
    pub fn parse(body: &[u8], is_datagram: bool) -> Option<Self> {
        let mut reader = Reader::new(body);
        let version = reader.u16()?;
        let random = random(&mut reader)?;
        let session_id = short(&mut reader)?.to_vec();
        if is_datagram {
            short(&mut reader)?;
        }
        let ciphers = numbers(long(&mut reader)?).map(u32::from).collect();
        short(&mut reader)?;
        let mut hello = Self { version, random: Some(random), session_id, ciphers, ..Self::default() };
        for (kind, data) in extensions(&mut reader) {
            hello.extension(kind, data);
        }
        Some(hello)
    }

    /// Parses the body of an SSLv2 record.
    pub fn parse_v2(record: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(record);
        reader.u8().filter(|kind| *kind == 1)?;
        let version = reader.u16()?;
        let [ciphers, session_id, challenge] = [reader.u16()?, reader.u16()?, reader.u16()?];
        let ciphers = reader.take(ciphers.into())?.chunks_exact(3);
        let ciphers = ciphers.filter_map(|three| match three {
            [a, b, c] => Some(u32::from_be_bytes([0, *a, *b, *c])),
            _ => None,
        });
        let ciphers = ciphers.collect();
        let session_id = reader.take(session_id.into())?.to_vec();
        reader.take(challenge.into())?;
        Some(Self { version, session_id, ciphers, ..Self::default() })
    }

    fn extension(&mut self, kind: u16, data: &[u8]) {
        self.extensions.push(kind);
        let mut reader = Reader::new(data);
        match kind {
            SERVER_NAME => {
                let Some(list) = long(&mut reader) else { return };
                let mut names = Reader::new(list);
                while let (Some(kind), Some(name)) = (names.u8(), long(&mut names)) {
                    if kind == 0 {
                        self.server_names.push(name.to_vec());
                    }
                }
            }
            SUPPORTED_GROUPS => self.groups.extend(long(&mut reader).into_iter().flat_map(numbers)),
            POINT_FORMATS => self.point_formats.extend(short(&mut reader).unwrap_or_default()),
            SIGNATURES => self.signatures.extend(long(&mut reader).into_iter().flat_map(numbers)),
            ALPN => self.alpn = protocols(data),
            TICKET => self.ticket = !data.is_empty(),
            PRE_SHARED_KEY => self.pre_shared_key = true,
            EARLY_DATA => self.early_data = true,
            VERSIONS => self.versions.extend(short(&mut reader).into_iter().flat_map(numbers)),
            ECH | ESNI => self.encrypted_hello = true,
            _ => {}
        }
    }

    /// The version that it offers first, or that of its header if it offers none in the extension.
    pub fn preferred(&self) -> u16 {
        self.versions.iter().copied().find(|version| !is_grease(*version)).unwrap_or(self.version)
    }

    /// The text that JA3 hashes.
    pub fn ja3(&self) -> String {
        let mut text = self.version.to_string();
        let plain = |values: &[u16]| joined(values.iter().copied().filter(|value| !is_grease(*value)));
        let ciphers = self.ciphers.iter().filter_map(|cipher| u16::try_from(*cipher).ok());
        for part in [
            joined(ciphers.filter(|cipher| !is_grease(*cipher))),
            plain(&self.extensions),
            plain(&self.groups),
            joined(self.point_formats.iter().copied().map(u16::from)),
        ] {
            text.push(',');
            text.push_str(&part);
        }
        text
    }

    /// JA4 of a client, over TCP (`t`), QUIC (`q`) or datagrams (`d`).
    pub fn ja4(&self, over: char) -> String {
        let plain = |value: &u16| !is_grease(*value);
        let offered = self.versions.iter().copied().filter(plain).max();
        let version = match offered.unwrap_or(self.version) {
            TLS13 => "13",
            0x0303 => "12",
            0x0302 => "11",
            0x0301 => "10",
            0x0300 => "s3",
            0x0002 => "s2",
            0xfeff => "d1",
            0xfefd => "d2",
            0xfefc => "d3",
            _ => "00",
        };
        let mut ciphers: Vec<u16> =
            self.ciphers.iter().filter_map(|c| u16::try_from(*c).ok()).filter(plain).collect();
        let mut extensions: Vec<u16> = self.extensions.iter().copied().filter(plain).collect();
        let name = if self.extensions.contains(&SERVER_NAME) { 'd' } else { 'i' };
        let counts = [ciphers.len().min(99), extensions.len().min(99)];
        let [first, last] = self.alpn.first().map_or(['0', '0'], |protocol| ends(protocol));
        ciphers.sort_unstable();
        extensions.retain(|kind| !matches!(*kind, SERVER_NAME | ALPN));
        extensions.sort_unstable();
        let (ciphers, mut extensions) = (hex_list(&ciphers), hex_list(&extensions));
        if !self.signatures.is_empty() && !extensions.is_empty() {
            let signatures: Vec<u16> = self.signatures.iter().copied().filter(plain).collect();
            extensions.push('_');
            extensions.push_str(&hex_list(&signatures));
        }
        let [ciphers, extensions] = [ciphers, extensions].map(|text| mark(&text));
        let [n, m] = counts;
        format!("{over}{version}{name}{n:02}{m:02}{first}{last}_{ciphers}_{extensions}")
    }
}

impl ServerHello {
    /// Parses the body of a message.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let version = reader.u16()?;
        let random = random(&mut reader)?;
        let mut hello = Self { version, random: Some(random), retry: random == RETRY, ..Self::default() };
        // Before draft 22 the hello of TLS 1.3 had neither session nor compression.
        let is_old_draft = (0x7f00..=0x7f15).contains(&version) || version == TLS13;
        if !is_old_draft {
            hello.session_id = short(&mut reader)?.to_vec();
        }
        hello.cipher = reader.u16()?.into();
        if !is_old_draft {
            reader.u8()?;
        }
        for (kind, data) in extensions(&mut reader) {
            hello.extension(kind, data);
        }
        Some(hello)
    }

    fn extension(&mut self, kind: u16, data: &[u8]) {
        self.extensions.push(kind);
        match kind {
            ALPN => self.alpn = protocols(data).into_iter().next(),
            VERSIONS => self.chosen = Reader::new(data).u16(),
            KEY_SHARE | KEY_SHARE_DRAFT => self.group = Reader::new(data).u16(),
            PRE_SHARED_KEY => self.pre_shared_key = true,
            _ => {}
        }
    }

    /// The version in use from here on.
    pub fn spoken(&self) -> u16 {
        self.chosen.unwrap_or(self.version)
    }

    /// The version, with a number of our own for drafts before the 16th, which had 1.3 in the header.
    pub fn drafted(&self) -> u16 {
        match (self.chosen, self.version) {
            (None, TLS13) => FIRST_DRAFTS,
            _ => self.spoken(),
        }
    }

    /// The text that JA3S hashes.
    pub fn ja3s(&self) -> String {
        format!("{},{},{}", self.version, self.cipher, joined(self.extensions.iter().copied()))
    }
}

/// Decimal numbers with `-` between them.
fn joined(values: impl Iterator<Item = u16>) -> String {
    let mut text = String::new();
    for value in values {
        if !text.is_empty() {
            text.push('-');
        }
        let _ = write!(text, "{value}");
    }
    text
}

/// Four hexadecimal digits each, with `,` between them.
fn hex_list(values: &[u16]) -> String {
    let mut text = String::with_capacity(values.len() * 5);
    for value in values {
        if !text.is_empty() {
            text.push(',');
        }
        let _ = write!(text, "{value:04x}");
    }
    text
}

/// The truncated checksum in JA4; zeros for an empty text.
fn mark(text: &str) -> String {
    if text.is_empty() {
        return "000000000000".to_owned();
    }
    hex(&Sha256::digest(text)).get(..12).unwrap_or_default().to_owned()
}

/// The first and last character of a name, or of its hexadecimal form if one of them is no letter or digit.
fn ends(name: &[u8]) -> [char; 2] {
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return ['0', '0'] };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [char::from(*first), char::from(*last)];
    }
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
    [digit(first >> 4), digit(last & 15)]
}

/// The checksum of JA3.
pub(crate) fn md5(text: &str) -> String {
    hex(&Md5::digest(text))
}
