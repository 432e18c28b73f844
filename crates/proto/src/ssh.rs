//! Secure Shell (RFC 4253, and what is left of version 1): both banners, the algorithms offered and chosen with their
//! HASSH fingerprints, the host key if it is unencrypted, and whether a login succeeded.
//!
//! Encrypted content is not read. Success is inferred from the sizes of the server's messages: the message that
//! accepts the service is 16 bytes longer than the one that reports success, and all that report failure are of one
//! size. Bytes with equal time form one size, as the lengths of messages are usually encrypted too: this inference,
//! and only this, needs the original packets.

use crate::early::{early, emit_fingerprint};
use crate::frames::{Frames, Size};
use crate::hex::hex;
use crate::line::{Line, Lines};
use crate::{
    Buffer, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, Value, field, record,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use md5::{Digest, Md5};
use sha2::Sha256;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "ssh",
    help: "Secure Shell (RFC 4253).",
    transport: Transport::Tcp,
    ports: &[22],
    probe,
    parser: |_| Box::new(Ssh::default()),
    tables: &[&SSH],
    buffers: &[&PROTO, &SOFTWARE, &HASSH, &HASSH_TEXT, &SERVER_HASSH, &SERVER_HASSH_TEXT],
};

static PROTO: Buffer = Buffer::whole("ssh.proto", "Version of the protocol in a banner.");
static SOFTWARE: Buffer = Buffer::whole("ssh.software", "Software in a banner.");
static HASSH: Buffer = Buffer::whole(
    "ssh.hassh",
    "HASSH of a client: MD5 of the algorithms that it offers, in lower-case hexadecimal digits.",
);
static HASSH_TEXT: Buffer = Buffer::whole(
    "ssh.hassh.string",
    "Text that HASSH is the MD5 of: lists of key exchanges, ciphers, MACs and compressions, with `;` between them.",
);
static SERVER_HASSH: Buffer = Buffer::whole(
    "ssh.hassh.server",
    "HASSH of a server: MD5 of the algorithms that it offers, in lower-case hexadecimal digits.",
);
static SERVER_HASSH_TEXT: Buffer = Buffer::whole(
    "ssh.hassh.server.string",
    "Text that the server's HASSH is the MD5 of, in the form of ssh.hassh.string.",
);

static SSH: Table = Table {
    name: "ssh",
    help: "A connection: both programs, the negotiated algorithms, and whether a login succeeded.",
    zeek: "ssh",
    eve: "ssh",
    fields: &[
        field(
            "version",
            Kind::Uint,
            "Version of the protocol that both sides use: 1 or 2; 0 if there is none.",
        )
        .zeek("version"),
        field(
            "auth_success",
            Kind::Bool,
            "Whether a login succeeded, inferred from sizes; no value if unclear.",
        )
        .zeek("auth_success"),
        field("auth_attempts", Kind::Uint, "Number of login attempts, inferred from sizes.")
            .zeek("auth_attempts"),
        field("client", Kind::Text, "Banner of the client.").zeek("client"),
        field("server", Kind::Text, "Banner of the server.").zeek("server"),
        field("cipher_alg", Kind::Text, "Negotiated cipher.").zeek("cipher_alg"),
        field("mac_alg", Kind::Text, "Negotiated message authentication code.").zeek("mac_alg"),
        field("compression_alg", Kind::Text, "Negotiated compression.").zeek("compression_alg"),
        field("kex_alg", Kind::Text, "Negotiated key exchange.").zeek("kex_alg"),
        field("host_key_alg", Kind::Text, "Negotiated type of host key.").zeek("host_key_alg"),
        field(
            "host_key_short",
            Kind::Text,
            "SHA-256 of the host key, truncated to 32 characters as in Zeek.",
        )
        .zeek("host_key_fingerprint")
        .privacy(Privacy::Fingerprint),
        field("host_key_fingerprint", Kind::Text, "Fingerprint of the host key, as ssh-keygen prints it.")
            .privacy(Privacy::Fingerprint),
        field("host_key", Kind::Text, "Host key, in base64.").privacy(Privacy::Fingerprint),
        field("client_version", Kind::Text, "Protocol version in the client's banner.")
            .eve("ssh.client.proto_version"),
        field("client_software", Kind::Text, "Software in the client's banner.")
            .eve("ssh.client.software_version"),
        field("client_hassh", Kind::Text, "HASSH: MD5 of the algorithms that the client offers.")
            .eve("ssh.client.hassh.hash")
            .privacy(Privacy::Fingerprint),
        field("client_algorithms", Kind::Text, "Text that HASSH is the MD5 of.")
            .eve("ssh.client.hassh.string"),
        field("server_version", Kind::Text, "Protocol version in the server's banner.")
            .eve("ssh.server.proto_version"),
        field("server_software", Kind::Text, "Software in the server's banner.")
            .eve("ssh.server.software_version"),
        field("server_hassh", Kind::Text, "HASSH of the server: MD5 of the algorithms that it offers.")
            .eve("ssh.server.hassh.hash")
            .privacy(Privacy::Fingerprint),
        field("server_algorithms", Kind::Text, "Text that the server's HASSH is the MD5 of.")
            .eve("ssh.server.hassh.string"),
    ],
};

/// Maximum length of a banner in bytes: RFC 4253 allows 255 with its line end.
const MAX_BANNER: usize = 255;
/// Maximum number of lines before a banner, as in OpenSSH.
const MAX_PREFACE: u16 = 1024;
/// Maximum length of an unencrypted message in bytes: RFC 4253 requires support for 35,000.
const MAX_MESSAGE: usize = 35_000;
/// Maximum length of a host key in bytes: RSA keys of 16,384 bits have 2,071.
const MAX_KEY: usize = 4096;

const SSH1_PUBLIC_KEY: u8 = 2;
const SSH1_SESSION_KEY: u8 = 3;
const KEXINIT: u8 = 20;
const NEWKEYS: u8 = 21;

fn probe(heads: &Heads<'_>) -> Probe {
    let (client, server) = (preface(heads.forward), preface(heads.reverse));
    match (client, server) {
        (Some(Probe::Reject), _) => Probe::Reject,
        (Some(Probe::Match), _) | (_, Some(Probe::Match)) => Probe::Match,
        (_, Some(Probe::Reject)) => Probe::Reject,
        _ => Probe::Maybe,
    }
}

/// Whether the bytes begin like a banner; `None` without bytes.
fn banner(head: &[u8]) -> Option<Probe> {
    const WORD: &[u8] = b"SSH-";
    let max = head.len().min(WORD.len());
    Some(match head.split_at_checked(max)? {
        (_, []) if max == 0 => return None,
        (begun, _) if !WORD.starts_with(begun) => Probe::Reject,
        (_, [b'1' | b'2', b'.', ..]) => Probe::Match,
        (_, [b'1' | b'2'] | []) => Probe::Maybe,
        _ => Probe::Reject,
    })
}

/// Whether a banner comes after lines of text, which a server may send before it (RFC 4253, section 4.2), and some clients
/// do; `None` without bytes.
fn preface(head: &[u8]) -> Option<Probe> {
    let first = banner(head)?;
    if first != Probe::Reject {
        return Some(first);
    }
    if !is_text(head) {
        return Some(Probe::Reject);
    }
    let later = head.split(|byte| *byte == b'\n').skip(1).map(banner);
    let is_found = later.into_iter().any(|line| line == Some(Probe::Match));
    Some(if is_found { Probe::Match } else { Probe::Maybe })
}

/// Whether bytes are text, as the lines before a banner are. They are of UTF-8, and may have escape sequences.
fn is_text(bytes: &[u8]) -> bool {
    let is_one =
        |byte: &u8| !byte.is_ascii_control() | byte.is_ascii_whitespace() | matches!(byte, 0x1b | 7 | 8);
    // Blocks, which are compared many bytes at a time, and the first of which rules out most other protocols.
    bytes.chunks(32).all(|block| block.iter().fold(true, |all, byte| all & is_one(byte)))
}

/// State of a side.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Saying {
    /// In the banner, or in lines of text before it.
    #[default]
    Banner,
    /// After a gap before the banner: a line of text may follow, or a message.
    Sought,
    /// In unencrypted messages.
    Clear,
    /// In encrypted messages.
    Encrypted,
    /// Not parsed any more, because of a gap or an error.
    Lost,
}

/// One side of the connection.
struct Side {
    saying: Saying,
    lines: Lines,
    frames: Frames,
    /// Number of lines before the banner.
    preface: u16,
    banner: Vec<u8>,
    offer: Option<Offer>,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            saying: Saying::default(),
            lines: Lines::new(MAX_BANNER),
            frames: Frames::default(),
            preface: 0,
            banner: Vec::new(),
            offer: None,
        }
    }
}

impl Side {
    /// Handles missing bytes. A line of text before the banner may be lost without harm.
    fn miss(&mut self) {
        self.frames.forget();
        self.lines.forget();
        self.saying = match self.saying {
            Saying::Encrypted => Saying::Encrypted,
            Saying::Banner | Saying::Sought => Saying::Sought,
            Saying::Clear | Saying::Lost => Saying::Lost,
        };
    }

    /// The banner's version and software.
    fn parts(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        let mut parts = self.banner.splitn(3, |byte| *byte == b'-').skip(1);
        let (version, software) = (parts.next(), parts.next());
        (version, software.and_then(|software| software.split(|byte| *byte == b' ').next()))
    }

    /// Hands on the banner.
    fn hand_on(&self, direction: Direction, out: &mut dyn Out) {
        let (version, software) = self.parts();
        match direction {
            Direction::Forward => {
                early!(out, SSH, client = &self.banner, client_version = version, client_software = software);
            }
            Direction::Reverse => {
                early!(out, SSH, server = &self.banner, server_version = version, server_software = software);
            }
        }
        for (buffer, bytes) in [(&PROTO, version), (&SOFTWARE, software)] {
            if let Some(bytes) = bytes {
                out.emit(buffer, direction, bytes);
            }
        }
    }

    fn major(&self) -> Option<u8> {
        match self.parts().0? {
            version if version.starts_with(b"1.99") => Some(199),
            [b'1', ..] => Some(1),
            [b'2', ..] => Some(2),
            _ => None,
        }
    }
}

/// The lists of a KEXINIT in their order, up to the compressions.
struct Offer([Vec<u8>; 8]);

const KEX: usize = 0;
const HOST_KEY: usize = 1;
/// Positions of the lists for the direction to the server; each is followed by the list for the other direction.
const CIPHER: usize = 2;
const MAC: usize = 4;
const COMPRESSION: usize = 6;

impl Offer {
    /// Reads the body of a KEXINIT.
    fn read(body: &[u8]) -> Option<Self> {
        const COOKIE: usize = 16;
        let mut reader = Reader::new(body);
        reader.take(COOKIE)?;
        let mut lists = [const { Vec::new() }; 8];
        for list in &mut lists {
            *list = string(&mut reader)?.to_vec();
        }
        Some(Self(lists))
    }

    fn list(&self, at: usize) -> &[u8] {
        self.0.get(at).map_or(&[], Vec::as_slice)
    }

    /// The text that HASSH hashes.
    fn text(&self, direction: Direction) -> Vec<u8> {
        let back = usize::from(direction == Direction::Reverse);
        [KEX, CIPHER + back, MAC + back, COMPRESSION + back].map(|at| self.list(at)).join(&b';')
    }

    fn hassh(&self, direction: Direction) -> String {
        hex(&Md5::digest(self.text(direction)))
    }

    /// Emits the buffers of the side that made the offer.
    fn hand_on(&self, direction: Direction, out: &mut dyn Out) {
        let buffers = match direction {
            Direction::Forward => [&HASSH, &HASSH_TEXT],
            Direction::Reverse => [&SERVER_HASSH, &SERVER_HASSH_TEXT],
        };
        emit_fingerprint(buffers, || self.text(direction), direction, out);
    }
}

/// Number of bytes that tell a message from text.
const TELLING: usize = 4 + 1 + 1;

/// The length of the message that lists algorithms, its own length field included, if these bytes begin it.
fn kexinit(head: &[u8]) -> Option<usize> {
    const COOKIE: usize = 16;
    let [a, b, c, d, padding, KEXINIT] = *head.first_chunk::<TELLING>()? else { return None };
    let said = u32::from_be_bytes([a, b, c, d]) as usize;
    (padding >= 4 && (1 + 1 + COOKIE..=MAX_MESSAGE).contains(&said)).then_some(4 + said)
}

fn string<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let bytes = reader.u32()?;
    reader.take(usize::try_from(bytes).ok()?)
}

/// The first of the client's algorithms that the server supports.
fn chosen<'a>(client: &'a [u8], server: &[u8]) -> &'a [u8] {
    let names = |list: &'a [u8]| list.split(|byte| *byte == b',');
    // A set, so that two long lists take linear time.
    let offered: std::collections::HashSet<&[u8]> = server.split(|byte| *byte == b',').collect();
    names(client).find(|name| offered.contains(name)).unwrap_or(b"Algorithm negotiation failed")
}

/// The choice for both directions: one name, or both names if they differ.
fn chosen_both(client: &Offer, server: &Offer, at: usize) -> Vec<u8> {
    let there = chosen(client.list(at), server.list(at));
    let back = chosen(client.list(at + 1), server.list(at + 1));
    if there == back {
        return there.to_vec();
    }
    [b"To server: ", there, b", to client: ", back].concat()
}

/// The inference of logins from the server's sizes.
#[derive(Debug, Default)]
struct Guess {
    /// Whether the inference has stopped: after a gap, sizes are not reliable.
    is_off: bool,
    /// Whether the client has sent encrypted bytes: earlier bytes of the server are no answer to it.
    asked: bool,
    /// Time of the latest bytes, and their number at that time.
    burst: (Time, u64),
    accept: Option<u64>,
    failure: Option<u64>,
    success: Option<bool>,
    attempts: u64,
}

impl Guess {
    fn is_done(&self) -> bool {
        self.is_off || self.success == Some(true)
    }

    fn server(&mut self, time: Time, bytes: u64) {
        if !self.asked || self.is_done() || bytes == 0 {
            return;
        }
        if self.burst.0 != time {
            self.flush();
        }
        self.burst = (time, self.burst.1 + bytes);
    }

    /// Handles the bytes of one time, which are complete.
    fn flush(&mut self) {
        /// Difference in length between the message that accepts the service and the one that reports success.
        const LONGER: u64 = 16;
        let size = std::mem::take(&mut self.burst.1);
        if size == 0 || self.is_done() {
            return;
        }
        let Some(accept) = self.accept else {
            self.accept = Some(size);
            return;
        };
        if size + LONGER == accept {
            (self.success, self.attempts) = (Some(true), self.attempts + 1);
        } else if self.failure == Some(size) {
            (self.success, self.attempts) = (Some(false), self.attempts + 1);
        } else if self.failure.is_none() {
            // The failure of the method "none", by which clients request the list of methods.
            self.failure = Some(size);
        }
    }
}

#[derive(Default)]
struct Ssh {
    began: Option<Time>,
    client: Side,
    server: Side,
    host_key: Vec<u8>,
    guess: Guess,
}

impl Parser for Ssh {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if self.guess.is_done() && self.server.saying == Saying::Encrypted {
            return Step::Next;
        }
        self.began.get_or_insert(chunk.time);
        let direction = chunk.direction;
        if chunk.gap > 0 {
            self.side(direction).miss();
            if !self.guess.is_done() {
                self.guess = Guess { is_off: true, ..Guess::default() };
            }
        }
        let mut data = chunk.data;
        while !data.is_empty() {
            match self.side(direction).saying {
                Saying::Banner => self.banner(direction, &mut data, 0, chunk.time, out),
                Saying::Sought => self.sought(direction, &mut data, chunk.time, out),
                Saying::Clear => self.clear(direction, &mut data, chunk.time, out),
                Saying::Encrypted if direction == Direction::Reverse => {
                    self.guess.server(chunk.time, data.len() as u64);
                    break;
                }
                Saying::Encrypted => {
                    self.guess.flush();
                    self.guess.asked = true;
                    break;
                }
                Saying::Lost => break,
            }
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.guess.flush();
        let is_spoken = !(self.client.banner.is_empty() && self.server.banner.is_empty());
        if let Some(began) = self.began.take().filter(|_| is_spoken) {
            self.emit(began, out);
        }
    }

    fn memory(&self) -> usize {
        let side = |side: &Side| {
            let offer = side.offer.iter().flat_map(|offer| &offer.0).map(Vec::capacity).sum::<usize>();
            side.lines.memory() + side.frames.memory() + side.banner.capacity() + offer
        };
        side(&self.client) + side(&self.server) + self.host_key.capacity()
    }
}

impl Ssh {
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Forward => &mut self.client,
            Direction::Reverse => &mut self.server,
        }
    }

    /// The common version of both sides (RFC 4253, section 5); `None` if it is not known yet.
    fn version(&self) -> Option<u64> {
        Some(match (self.client.major()?, self.server.major()?) {
            (2 | 199, 2 | 199) => 2,
            (1 | 199, 1 | 199) => 1,
            _ => 0,
        })
    }

    /// Whether a side's messages are of version 1. They can begin before the other banner was seen.
    fn is_old(&self, direction: Direction) -> bool {
        let own = if direction == Direction::Forward { &self.client } else { &self.server };
        self.version().map_or(own.major() == Some(1), |version| version == 1)
    }

    /// Takes the bytes after a gap that tell whether a message follows whose banner was lost.
    fn sought(&mut self, direction: Direction, data: &mut &[u8], time: Time, out: &mut dyn Out) {
        let mut frames = std::mem::take(&mut self.side(direction).frames);
        let size = |head: &[u8]| match head.len() < TELLING {
            true => Size::Within(TELLING),
            false => Size::Bytes(kexinit(head).unwrap_or(TELLING)),
        };
        let bytes = frames.next(data, size, |bytes, _| bytes.to_vec());
        self.side(direction).frames = frames;
        let Some(bytes) = bytes else { return };
        if kexinit(&bytes).is_some() {
            out.more(data.len());
            // One that cannot be read is no error: the bytes after a gap need not be a message.
            self.side(direction).saying = if self.message(direction, false, &bytes, out).is_ok() {
                Saying::Clear
            } else {
                Saying::Lost
            };
            return;
        }
        self.side(direction).saying = Saying::Banner;
        let mut text = bytes.as_slice();
        while !text.is_empty() && self.side(direction).saying == Saying::Banner {
            self.banner(direction, &mut text, data.len(), time, out);
        }
    }

    /// Takes a line of text or the banner; `behind`: number of bytes of the chunk after `data`.
    fn banner(
        &mut self,
        direction: Direction,
        data: &mut &[u8],
        behind: usize,
        time: Time,
        out: &mut dyn Out,
    ) {
        let side = self.side(direction);
        let mut emitted = None;
        let mut detail = Vec::new();
        side.lines.next(data, |Line { text, is_cut, unread }| {
            out.more(unread + behind);
            if text.starts_with(b"SSH-") {
                side.banner = text.to_vec();
                side.saying = Saying::Clear;
                emitted = is_cut.then_some("long_banner");
            } else if side.preface == MAX_PREFACE || !is_text(text) {
                side.saying = Saying::Lost;
                emitted = Some("invalid_banner");
            } else {
                side.preface += 1;
            }
            if emitted.is_some() {
                detail = text.to_vec();
            }
        });
        if side.saying == Saying::Clear && (side.major().is_none() || side.parts().1.is_none()) {
            emitted = Some("invalid_banner");
            detail = side.banner.clone();
            side.saying = Saying::Lost;
        }
        if side.saying != Saying::Banner && !side.banner.is_empty() {
            side.hand_on(direction, out);
            out.side_is_complete(direction);
        }
        if let Some(name) = emitted {
            PROTOCOL.emit_anomaly(name, direction, &detail, time, out);
        }
    }

    /// Takes one unencrypted message.
    fn clear(&mut self, direction: Direction, data: &mut &[u8], time: Time, out: &mut dyn Out) {
        let is_old = self.is_old(direction);
        let mut frames = std::mem::take(&mut self.side(direction).frames);
        let size = |head: &[u8]| {
            let Some(said) = head.first_chunk().map(|said| u32::from_be_bytes(*said)) else {
                return Size::Within(4);
            };
            let said = usize::try_from(said).unwrap_or(usize::MAX);
            if said > MAX_MESSAGE {
                // No message has this length: only its first bytes are passed on.
                return Size::Bytes(4);
            }
            Size::Bytes(4 + said + if is_old { 8 - said % 8 } else { 0 })
        };
        let emitted = frames.next(data, size, |message, unread| {
            out.more(unread);
            self.message(direction, is_old, message, out)
        });
        self.side(direction).frames = frames;
        if let Some(Err(name)) = emitted {
            let detail = self.side(direction).banner.clone();
            PROTOCOL.emit_anomaly(name, direction, &detail, time, out);
            self.side(direction).saying = Saying::Lost;
        }
    }

    /// Parses a message. Returns its error, if any.
    fn message(
        &mut self,
        direction: Direction,
        is_old: bool,
        message: &[u8],
        out: &mut dyn Out,
    ) -> Result<(), &'static str> {
        let mut reader = Reader::new(message);
        let said = reader.u32().map_or(0, |said| said as usize);
        if said > MAX_MESSAGE {
            return Err("long_kex_record");
        }
        if is_old {
            return self.old(direction, said, reader).ok_or("invalid_record");
        }
        let body = (|| {
            let padding = usize::from(reader.u8()?);
            reader.take(said.checked_sub(padding + 1)?)
        })();
        let (number, body) = body.and_then(<[u8]>::split_first).ok_or("invalid_record")?;
        let server = direction == Direction::Reverse;
        match *number {
            KEXINIT => {
                let offer = Offer::read(body).ok_or("invalid_record")?;
                offer.hand_on(direction, out);
                out.side_is_complete(direction);
                self.side(direction).offer = Some(offer);
            }
            NEWKEYS => self.side(direction).saying = Saying::Encrypted,
            number if server && self.brings_key(number) => {
                let key = string(&mut Reader::new(body)).ok_or("invalid_record")?;
                self.host_key = key.get(..MAX_KEY).unwrap_or(key).to_vec();
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the server's message of that number begins with its host key, in the negotiated key exchange.
    fn brings_key(&self, number: u8) -> bool {
        let (Some(client), Some(server)) = (&self.client.offer, &self.server.offer) else { return false };
        let name = chosen(client.list(KEX), server.list(KEX));
        let at = if name.starts_with(b"rsa") {
            30
        } else if name.starts_with(b"diffie-hellman-group-exchange") || name.starts_with(b"gss-") {
            33
        } else {
            31
        };
        self.host_key.is_empty() && number == at
    }

    /// Takes a message of version 1, of which only the server's first matters.
    fn old(&mut self, direction: Direction, said: usize, mut reader: Reader<'_>) -> Option<()> {
        reader.take(8 - said % 8)?;
        match reader.u8()? {
            SSH1_PUBLIC_KEY => {
                reader.take(8 + 4)?;
                let mut number = || {
                    let bits = reader.u16()?;
                    reader.take(usize::from(bits).div_ceil(8))
                };
                number()?;
                number()?;
                reader.u32()?;
                let mut number = || {
                    let bits = reader.u16()?;
                    reader.take(usize::from(bits).div_ceil(8))
                };
                let (exponent, modulus) = (number()?, number()?);
                self.host_key = [modulus, exponent].concat();
            }
            SSH1_SESSION_KEY => {}
            _ => return Some(()),
        }
        self.side(direction).saying = Saying::Encrypted;
        Some(())
    }

    fn emit(&self, time: Time, out: &mut dyn Out) {
        let (client, server) = (self.client.offer.as_ref(), self.server.offer.as_ref());
        let both = client.zip(server);
        let both_ways = |at| Value::from(both.map(|(client, server)| chosen_both(client, server, at)));
        let one =
            |at| Value::from(both.map(|(client, server)| chosen(client.list(at), server.list(at)).to_vec()));
        let version = self.version();
        // Sizes of compressed text are not reliable.
        let compression =
            both.map(|(client, server)| chosen_both(client, server, COMPRESSION)).unwrap_or_default();
        let is_clear = version == Some(2) && !compression.starts_with(b"zlib");
        let (success, attempts) =
            if is_clear { (self.guess.success, self.guess.attempts) } else { (None, 0) };
        let (fingerprint, short, key) = match self.host_key.as_slice() {
            [] => (None, None, None),
            key if version == Some(1) => (Some(format!("MD5:{}", hex(&Md5::digest(key)))), None, None),
            key => {
                let digest = BASE64.encode(Sha256::digest(key));
                let short = digest.get(..32).map(|short| format!("SHA256:{short}"));
                let key = base64::engine::general_purpose::STANDARD.encode(key);
                (Some(format!("SHA256:{digest}")), short, Some(key))
            }
        };
        let text = |text: &[u8]| if text.is_empty() { Value::None } else { Value::from(text.to_vec()) };
        let (client_version, client_software) = self.client.parts();
        let (server_version, server_software) = self.server.parts();
        out.record(record!(
            SSH,
            time,
            version = version,
            auth_success = success,
            auth_attempts = attempts,
            client = text(&self.client.banner),
            server = text(&self.server.banner),
            cipher_alg = both_ways(CIPHER),
            mac_alg = both_ways(MAC),
            compression_alg = both_ways(COMPRESSION),
            kex_alg = one(KEX),
            host_key_alg = one(HOST_KEY),
            host_key_short = short,
            host_key_fingerprint = fingerprint,
            host_key = key,
            client_version = client_version,
            client_software = client_software,
            client_hassh = client.map(|offer| offer.hassh(Direction::Forward)),
            client_algorithms = client.map(|offer| offer.text(Direction::Forward)),
            server_version = server_version,
            server_software = server_software,
            server_hassh = server.map(|offer| offer.hassh(Direction::Reverse)),
            server_algorithms = server.map(|offer| offer.text(Direction::Reverse)),
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::laws::talks;
    use crate::talk::{Talk, Turn};
    use crate::{Record, Value};
    use weir_wire::Direction;

    fn emitted(case: &str) -> Vec<Record<'static>> {
        let (_, talk) = talks("ssh", 22).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()]).records
    }

    #[test]
    fn sizes_show_whether_a_login_succeeded() {
        let records = emitted("password.talk");
        let [record] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!(record.get("auth_success"), &Value::Bool(true));
        assert_eq!(record.get("auth_attempts"), &Value::Uint(3));
        assert_eq!(record.get("kex_alg"), &"curve25519-sha256".into());
        let both = "To server: chacha20-poly1305@openssh.com, to client: aes128-ctr";
        assert_eq!(record.get("cipher_alg"), &both.into());
        assert_eq!(record.get("client_software"), &"OpenSSH_9.6".into());
    }

    /// The fingerprints that are emitted before the record are those of the record, and of the side that sent them.
    #[test]
    fn fingerprints_have_buffers_of_their_side() {
        let mut seen = 0;
        for (path, talk) in talks("ssh", 22) {
            let emitted = talk.asked(|data| vec![data.to_vec()]);
            for (name, side, field) in [
                ("ssh.hassh", Direction::Forward, "client_hassh"),
                ("ssh.hassh.string", Direction::Forward, "client_algorithms"),
                ("ssh.hassh.server", Direction::Reverse, "server_hassh"),
                ("ssh.hassh.server.string", Direction::Reverse, "server_algorithms"),
            ] {
                let buffers = emitted.buffers.iter().filter(|(buffer, ..)| buffer.name == name);
                let given: Vec<_> = buffers.map(|(_, side, bytes)| (*side, bytes.clone())).collect();
                let rows = emitted.records.iter().filter(|record| record.table.name == "ssh");
                let expected: Vec<_> = rows
                    .filter_map(|record| match record.get(field) {
                        Value::Text(text) => Some((side, text.to_vec())),
                        _ => None,
                    })
                    .collect();
                assert_eq!(given, expected, "{name}: {}", path.display());
                seen += given.len();
            }
        }
        assert!(seen >= 8, "{seen}");
        let emitted = login(22, [b"", b""]).asked(|data| vec![data.to_vec()]);
        let text = emitted.buffers.iter().find(|(buffer, ..)| buffer.name == "ssh.hassh.server.string");
        let expected = "ecdh-sha2-nistp256,curve25519-sha256;aes128-ctr,aes256-ctr;hmac-sha2-256;none";
        assert_eq!(text.map(|(_, _, bytes)| bytes.as_slice()), Some(expected.as_bytes()));
    }

    #[test]
    fn lines_before_the_banner_are_passed_over_on_every_port() {
        let records = emitted("preface.talk");
        let [record] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!(record.get("server"), &"SSH-2.0-Server_1 comment".into());
        assert_eq!(record.get("client"), &"SSH-2.0-client".into());
    }

    /// What a connection negotiates, however its bytes are cut.
    fn negotiated(talk: &Talk, names: &[&str]) -> Vec<Value<'static>> {
        let read = |size: usize| {
            let records = talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect()).records;
            let [record] = records.as_slice() else { panic!("{talk}: {records:?}") };
            names.iter().map(|name| record.get(name).clone().into_owned()).collect::<Vec<_>>()
        };
        let whole = read(9999);
        for size in [1, 2, 5, 64] {
            assert_eq!(read(size), whole, "{talk} in pieces of {size}");
        }
        whole
    }

    const NEGOTIATED: [&str; 7] =
        ["version", "client", "server", "kex_alg", "cipher_alg", "client_hassh", "server_hassh"];

    /// A login whose banners are after text, on this port.
    fn login(port: u16, texts: [&[u8]; 2]) -> Talk {
        let (_, mut talk) =
            talks("ssh", port).into_iter().find(|(path, _)| path.ends_with("password.talk")).unwrap();
        for (side, text) in [Direction::Forward, Direction::Reverse].into_iter().zip(texts) {
            let first = talk.turns.iter_mut().find_map(|turn| match turn {
                Turn::Data(of, data) if *of == side => Some(data),
                _ => None,
            });
            _ = first.unwrap().splice(0..0, text.iter().copied());
        }
        talk
    }

    #[test]
    fn text_before_a_banner_changes_nothing() {
        let expected = negotiated(&login(22, [b"", b""]), &NEGOTIATED);
        assert!(expected.iter().all(|value| !value.is_none()), "{expected:?}");
        let texts: [&[u8]; 6] = [
            b"Welcome.\r\n",
            b"\r\n\r\n220 is no code here\n",
            b"\x1b[31mRed\x1b[0m \xc3\xa9\t|\r\nxSSH-2.0-not\r\n",
            &[b"no line is longer ".repeat(20), b"\r\n".to_vec()].concat(),
            &b"one of many lines\r\n".repeat(30),
            &b"one of very many lines\r\n".repeat(300),
        ];
        for text in texts {
            for port in [22, 2222] {
                for texts in [[b"", text], [text, b""], [text, text]] {
                    let is_long = text.len() > 1000 && !texts[0].is_empty();
                    if port != 22 && is_long {
                        continue;
                    }
                    assert_eq!(negotiated(&login(port, texts), &NEGOTIATED), expected, "{port}: {texts:?}");
                }
            }
        }
    }

    /// Bytes are missing in the text before a banner.
    #[test]
    fn a_gap_in_the_text_before_a_banner_changes_nothing() {
        let text = b"Welcome.\r\nSSH is spoken here\r\nand here\n";
        let expected = negotiated(&login(22, [b"", b""]), &NEGOTIATED);
        for (side, start) in [Direction::Forward, Direction::Reverse].into_iter().zip([0, 1]) {
            let talk = login(22, if start == 0 { [text, b""] } else { [b"", text] });
            let Turn::Data(_, data) = &talk.turns[start] else { panic!("{talk}") };
            for from in 0..text.len() {
                for to in from + 1..=text.len() {
                    let mut talk = talk.clone();
                    let pieces = [
                        Turn::Data(side, data[..from].to_vec()),
                        Turn::Gap(side, (to - from) as u64),
                        Turn::Data(side, data[to..].to_vec()),
                    ];
                    talk.turns.splice(start..=start, pieces);
                    if (to - from) % 7 == 1 || to == text.len() {
                        assert_eq!(negotiated(&talk, &NEGOTIATED), expected, "{from}..{to} is missing");
                    }
                }
            }
        }
    }

    /// A side whose banner is missing still offers its algorithms.
    #[test]
    fn algorithms_behind_a_lost_banner_are_read() {
        let names = ["kex_alg", "cipher_alg", "client_hassh", "server_hassh"];
        let whole = login(22, [b"", b""]);
        let expected = negotiated(&whole, &names);
        for lost in [0, 1] {
            let mut talk = whole.clone();
            let Turn::Data(side, data) = talk.turns[lost].clone() else { panic!("{talk}") };
            talk.turns[lost] = Turn::Gap(side, data.len() as u64);
            assert_eq!(negotiated(&talk, &names), expected, "{side:?}");
        }
    }

    #[test]
    fn compressed_or_missing_bytes_stop_the_inference() {
        for case in ["group-exchange.talk", "gap.talk"] {
            let records = emitted(case);
            let [record] = records.as_slice() else { panic!("{case}: {records:?}") };
            assert_eq!(record.get("auth_success"), &Value::None, "{case}");
            assert_eq!(record.get("host_key").is_none(), case == "gap.talk", "{case}");
        }
    }

    #[test]
    fn malformed_messages_are_reported() {
        let records = emitted("too-long.talk");
        let names: Vec<_> = records.iter().map(|record| record.get("name").clone()).collect();
        let expected: [Value<'_>; 4] =
            ["long_banner".into(), "long_kex_record".into(), "invalid_record".into(), Value::None];
        assert_eq!(names, expected);
    }
}
