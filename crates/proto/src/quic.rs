//! QUIC versions 1 and 2 and earlier drafts (RFC 9000, RFC 9001, RFC 9369): Initial packets are decrypted with their
//! public keys, and the hellos in them are parsed; of all other packets only the headers are parsed.

mod keys;

use crate::hex::hex;
use crate::tls::handshake::Handshake;
use crate::tls::hello::{ClientHello, ServerHello, md5};
use crate::tls::message::{Message, header};
use crate::tls::over::Over;
use crate::tls::{QUIC_TLS, names};
use crate::work::looked_at;
use crate::{
    Buffer, Field, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Span, Step, Table, Transport,
    Value, field, record, values,
};
use keys::{Keys, VERSION_2};
use std::collections::BTreeMap;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "quic",
    help: "QUIC (RFC 9000, RFC 9369).",
    transport: Transport::Udp,
    ports: &[443, 784, 853],
    probe,
    parser: |_| Box::new(Quic::new()),
    tables: &[&QUIC, &HELLO, &QUIC_TLS],
    buffers: &[&SNI, &VERSION],
};

static SNI: Buffer = Buffer::whole("quic.sni", "Server name that a client requests (SNI).");
static VERSION: Buffer = Buffer::whole(
    "quic.version",
    "Version of the packet with a client hello or a server hello: `1`, `2` or `draft-29`.",
);

static QUIC: Table = Table {
    name: "quic",
    help: "A connection, emitted when it is closed without encryption, restarted, or when the flow ends.",
    zeek: "quic",
    eve: "",
    fields: &[
        field("version", Kind::Word, "Version of the first packet.").zeek("version"),
        field("client_first_id", Kind::Text, "Destination connection identifier of the client's first packet, in hexadecimal digits.")
            .zeek("client_initial_dcid")
            .privacy(Privacy::Fingerprint),
        field("client_id", Kind::Text, "Connection identifier that the client chose, in hexadecimal digits.")
            .zeek("client_scid")
            .privacy(Privacy::Fingerprint),
        field("server_id", Kind::Text, "Connection identifier that the server chose, in hexadecimal digits.")
            .zeek("server_scid")
            .privacy(Privacy::Fingerprint),
        field("server_name", Kind::Text, "Server name that the client requests (SNI).")
            .zeek("server_name")
            .privacy(Privacy::Name),
        field("client_protocol", Kind::Text, "Application protocol that the client prefers (first of ALPN).")
            .zeek("client_protocol"),
        field(
            "history",
            Kind::Text,
            "A letter for each packet, in capitals if the client sent it: I Initial, H Handshake, Z 0-RTT, R Retry, C close, \
             S hello, U unknown version, X discarded, and O for the first, second, fourth ... packet with a short header.",
        )
        .zeek("history"),
    ],
};

const MARK: Privacy = Privacy::Fingerprint;

static EXTENSION: &[Field] = &[
    field("name", Kind::Word, "Name of the extension.").eve("name"),
    field("type", Kind::Uint, "Number of the extension (IANA).").eve("type"),
    field("values", Kind::List(&Kind::Text), "Names or protocols in the extension.")
        .eve("values")
        .privacy(Privacy::Name),
];

static HELLO: Table = Table {
    name: "quic_hello",
    help: "A client hello or a server hello within QUIC.",
    zeek: "",
    eve: "quic",
    fields: &[
        field("version", Kind::Word, "Version of the packet with the hello.").eve("quic.version"),
        field("server_name", Kind::Text, "Server name that the client requests (SNI).")
            .eve("quic.sni")
            .privacy(Privacy::Name),
        field("ja3", Kind::Text, "JA3 of a client.").eve("quic.ja3.hash").privacy(MARK),
        field("ja3_text", Kind::Text, "Text that JA3 is the MD5 of.").eve("quic.ja3.string").privacy(MARK),
        field("ja3s", Kind::Text, "JA3S of a server.").eve("quic.ja3s.hash").privacy(MARK),
        field("ja3s_text", Kind::Text, "Text that JA3S is the MD5 of.").eve("quic.ja3s.string").privacy(MARK),
        field("ja4", Kind::Text, "JA4 of a client.").eve("quic.ja4").privacy(MARK),
        field("extensions", Kind::Rows(EXTENSION), "Extensions of the hello, in their order.")
            .eve("quic.extensions"),
        field("reverse", Kind::Bool, "Whether the server sent the hello."),
    ],
};

/// Maximum length of a hello: a record of TLS and the overhead of encryption (RFC 8446, 5.2).
const MAX_HELLO: u64 = (1 << 14) + 256;
/// Maximum number of pieces of a hello that wait for earlier ones.
const MAX_PIECES: usize = 128;
/// Maximum number of letters of a history.
const MAX_HISTORY: usize = 100;
/// Maximum number of discarded datagrams in a history.
const MAX_DISCARDED: u64 = 100;
/// Maximum length of a connection identifier in known versions (RFC 9000, 17.2).
const MAX_IDENTIFIER: usize = 20;
/// Minimum length of a client's first datagram in bytes (RFC 9000, 14.1).
const MIN_FIRST: usize = 1200;

/// Kinds of packets with long headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Initial,
    EarlyData,
    Handshake,
    Retry,
    /// Version negotiation: the versions of the server.
    Versions,
    /// A packet of an unknown version.
    Unknown,
}

/// A packet's long header.
#[derive(Clone, Copy, Debug)]
struct Long<'a> {
    form: Form,
    version: u32,
    to: &'a [u8],
    from: &'a [u8],
    /// The packet, up to its declared length.
    packet: &'a [u8],
    /// Position of the packet number.
    number_at: usize,
}

/// A number of one to eight bytes (RFC 9000, 16).
fn number(reader: &mut Reader<'_>) -> Option<u64> {
    let first = reader.u8()?;
    let mut value = u64::from(first & 0x3f);
    for byte in reader.take((1 << (first >> 6)) - 1)? {
        value = value << 8 | u64::from(*byte);
    }
    Some(value)
}

/// Bytes with a length before them.
fn counted<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(number(reader)?).ok()?;
    reader.take(length)
}

fn long(data: &[u8]) -> Option<Long<'_>> {
    let mut reader = Reader::new(data);
    let first = reader.u8().filter(|first| first & 0x80 != 0)?;
    let version = reader.u32()?;
    let to = reader.u8()?;
    let to = reader.take(to.into())?;
    let from = reader.u8()?;
    let from = reader.take(from.into())?;
    let mut form = match (version, first >> 4 & 3) {
        (0, _) => Form::Versions,
        (VERSION_2, 1) | (_, 0) if version != VERSION_2 || first >> 4 & 3 == 1 => Form::Initial,
        (VERSION_2, 2) => Form::EarlyData,
        (VERSION_2, 3) => Form::Handshake,
        (VERSION_2, _) => Form::Retry,
        (_, 1) => Form::EarlyData,
        (_, 2) => Form::Handshake,
        _ => Form::Retry,
    };
    if form != Form::Versions && !keys::is_known(version) {
        form = Form::Unknown;
    }
    let mut number_at = data.len();
    let mut end = data.len();
    if matches!(form, Form::Initial | Form::EarlyData | Form::Handshake) {
        if to.len() > MAX_IDENTIFIER || from.len() > MAX_IDENTIFIER {
            return None;
        }
        if form == Form::Initial {
            counted(&mut reader)?;
        }
        let length = usize::try_from(number(&mut reader)?).ok()?;
        number_at = data.len() - reader.rest().len();
        reader.take(length)?;
        end = data.len() - reader.rest().len();
    }
    Some(Long { form, version, to, from, packet: data.get(..end)?, number_at })
}

/// Minimum length of a packet from its number on: four bytes and a sample of sixteen.
const MIN_PROTECTED: usize = 20;

fn probe(heads: &Heads<'_>) -> Probe {
    let is_begun = heads.both().any(|head| {
        let Some(found) = long(head) else { return false };
        match found.form {
            // Version 1 is as short a number as a length: the protected part must be as long as its sample needs
            // (RFC 9001, 5.4.2).
            Form::Initial | Form::EarlyData | Form::Handshake => {
                let protected = found.packet.len().saturating_sub(found.number_at);
                head.first().is_some_and(|first| first & 0x40 != 0) && protected >= MIN_PROTECTED
            }
            Form::Retry => {
                head.len() > 16 + 7 && found.from.len() <= MAX_IDENTIFIER && !found.from.is_empty()
            }
            // A reserved version that forces version negotiation (RFC 9000, 15).
            Form::Unknown => {
                found.version & 0x0f0f_0f0f == 0x0a0a_0a0a
                    && head.len() >= MIN_FIRST
                    && (8..=MAX_IDENTIFIER).contains(&found.to.len())
            }
            Form::Versions => false,
        }
    });
    if is_begun { Probe::Match } else { Probe::Reject }
}

fn version(version: u32) -> String {
    match version {
        1 => "1".to_owned(),
        VERSION_2 => "quicv2".to_owned(),
        0xff00_0001..=0xff00_00ff => format!("draft-{}", version & 0xff),
        0xface_b000..=0xface_b0ff => format!("mvfst ({version:x})"),
        _ => format!("unknown-{version:x}"),
    }
}

/// The hello of one side, in pieces.
#[derive(Default)]
struct Crypto {
    held: Vec<u8>,
    pieces: BTreeMap<u64, Vec<u8>>,
    is_done: bool,
}

impl Crypto {
    /// Takes a piece; `false` if it is beyond a limit.
    fn take(&mut self, offset: u64, data: &[u8]) -> bool {
        if self.is_done || data.is_empty() {
            return true;
        }
        if offset.saturating_add(data.len() as u64) > MAX_HELLO {
            return false;
        }
        let end = self.held.len() as u64;
        if offset > end {
            if self.pieces.len() == MAX_PIECES {
                return false;
            }
            let piece = self.pieces.entry(offset).or_default();
            if piece.len() < data.len() {
                *piece = data.to_vec();
            }
            return true;
        }
        self.append(offset, data);
        while let Some(entry) = self.pieces.first_entry() {
            if *entry.key() > self.held.len() as u64 {
                break;
            }
            let (offset, piece) = entry.remove_entry();
            self.append(offset, &piece);
        }
        true
    }

    fn append(&mut self, offset: u64, data: &[u8]) {
        let known = (self.held.len() as u64).saturating_sub(offset);
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        looked_at(data.len());
        self.held.extend_from_slice(data.get(known..).unwrap_or_default());
    }

    /// The hello, once, when it is complete.
    fn hello(&mut self) -> Option<Vec<u8>> {
        let (_, length) = header(&self.held).filter(|_| !self.is_done)?;
        (self.held.len() >= 4 + length).then(|| {
            self.is_done = true;
            self.pieces.clear();
            std::mem::take(&mut self.held)
        })
    }
}

/// The facts about a connection.
struct Entry {
    begun: Time,
    /// The bytes of its noted datagrams.
    at: Span,
    version: u32,
    first_id: Option<Vec<u8>>,
    client_id: Option<Vec<u8>>,
    server_id: Option<Vec<u8>>,
    server_name: Option<Vec<u8>>,
    protocol: Option<Vec<u8>>,
    history: String,
}

struct Quic {
    entry: Option<Entry>,
    keys: Option<Keys>,
    /// Hellos of the client and of the server.
    crypto: [Crypto; 2],
    handshake: Handshake,
    /// Whether the server has sent a Retry, which is allowed once.
    is_retried: bool,
    /// Whether a packet of the server was decrypted; Retry is not allowed after it.
    is_answered: bool,
    opened: u64,
    discarded: u64,
    /// Number of packets with short headers, of the client and of the server.
    short: [u64; 2],
    /// Whether a packet could not be decrypted although it should.
    is_closed: bool,
}

impl Parser for Quic {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let mut data = chunk.data;
        while let Some(first) = data.first() {
            let is_long = first & 0x80 != 0;
            let is_offer = is_long && data.get(1..5) == Some(&[0; 4]);
            if first & 0x40 == 0 && !is_offer {
                self.discarded += 1;
                if self.opened > 0 && self.discarded <= MAX_DISCARDED {
                    self.note(chunk, 'x', out);
                }
                break;
            }
            if !is_long {
                self.short(chunk, out);
                break;
            }
            let Some(found) = long(data) else {
                if self.opened == 0 {
                    wrong("invalid_packet", chunk, data, out);
                    return Step::GiveUp;
                }
                break;
            };
            data = data.get(found.packet.len()..).unwrap_or_default();
            self.packet(&found, chunk, out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.emit(out);
        self.handshake.emit(out);
    }

    fn memory(&self) -> usize {
        let held = self.crypto.iter().map(|crypto| {
            crypto.held.capacity() + crypto.pieces.values().map(|piece| piece.capacity() + 48).sum::<usize>()
        });
        self.handshake.memory() + held.sum::<usize>()
    }
}

fn wrong(name: &'static str, chunk: &Chunk<'_>, detail: &[u8], out: &mut dyn Out) {
    PROTOCOL.emit_anomaly(name, chunk.direction, detail, chunk.time, out);
}

impl Quic {
    fn new() -> Self {
        Self {
            entry: None,
            keys: None,
            crypto: Default::default(),
            handshake: Handshake::new(Over::Quic, &PROTOCOL),
            is_retried: false,
            is_answered: false,
            opened: 0,
            discarded: 0,
            short: [0; 2],
            is_closed: false,
        }
    }

    fn note(&mut self, chunk: &Chunk<'_>, letter: char, out: &mut dyn Out) {
        let Some(entry) = &mut self.entry else { return };
        entry.at.add(out.here());
        if entry.history.len() >= MAX_HISTORY {
            return;
        }
        let is_client = chunk.direction == Direction::Forward;
        entry.history.push(if is_client { letter.to_ascii_uppercase() } else { letter });
        if entry.history.len() == MAX_HISTORY {
            wrong("QUIC_max_history_length_reached", chunk, &[], out);
        }
    }

    fn short(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let Some(count) = self.short.get_mut(chunk.direction as usize) else { return };
        *count += 1;
        if count.is_power_of_two() {
            self.note(chunk, 'o', out);
        }
    }

    fn packet(&mut self, found: &Long<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let is_client = chunk.direction == Direction::Forward;
        let is_of_connection = matches!(found.form, Form::Initial | Form::EarlyData | Form::Handshake);
        if self.entry.is_none() || is_of_connection {
            self.set(found, chunk.time, is_client);
        }
        match found.form {
            Form::Initial => {
                self.note(chunk, 'i', out);
                self.initial(found, chunk, is_client, out);
            }
            Form::EarlyData => self.note(chunk, 'z', out),
            Form::Handshake => self.note(chunk, 'h', out),
            Form::Retry => {
                self.note(chunk, 'r', out);
                // A client accepts only the first Retry, and none after an Initial packet of the server (RFC 9000,
                // 17.2.5.2).
                if !is_client && !self.is_retried && !self.is_answered {
                    self.is_retried = true;
                    self.emit(out);
                    self.keys = None;
                    self.crypto = Default::default();
                }
            }
            Form::Versions | Form::Unknown => {
                self.note(chunk, 'u', out);
                self.emit(out);
            }
        }
    }

    fn set(&mut self, found: &Long<'_>, time: Time, is_client: bool) {
        let entry = self.entry.get_or_insert_with(|| Entry {
            begun: time,
            at: Span::default(),
            version: found.version,
            first_id: None,
            client_id: None,
            server_id: None,
            server_name: None,
            protocol: None,
            history: String::new(),
        });
        if is_client {
            if !found.to.is_empty() {
                entry.first_id.get_or_insert_with(|| found.to.to_vec());
            }
            entry.client_id = Some(found.from.to_vec());
        } else {
            entry.server_id = Some(found.from.to_vec());
        }
    }

    fn initial(&mut self, found: &Long<'_>, chunk: &Chunk<'_>, is_client: bool, out: &mut dyn Out) {
        let side = usize::from(!is_client);
        if self.crypto.get(side).is_none_or(|crypto| crypto.is_done) || self.is_closed {
            return;
        }
        let opened = match &mut self.keys {
            Some(keys) => keys.open(found.packet, found.number_at, is_client),
            None if is_client => Keys::of(found.version, found.to).find_map(|mut keys| {
                let opened = keys.open(found.packet, found.number_at, true)?;
                self.keys = Some(keys);
                Some(opened)
            }),
            // The client's first packet was not captured, and the keys depend on it.
            None => return,
        };
        let Some(opened) = opened else {
            self.is_closed = self.opened == 0;
            return wrong("decryption_failed", chunk, found.to, out);
        };
        self.opened += 1;
        self.is_answered |= !is_client;
        if self.frames(&opened, chunk, side, found.version, out).is_none() {
            wrong("invalid_frame", chunk, &opened, out);
        }
    }

    /// Reads the frames of an Initial packet; `None` if a frame is not allowed in it.
    fn frames(
        &mut self,
        frames: &[u8],
        chunk: &Chunk<'_>,
        side: usize,
        version: u32,
        out: &mut dyn Out,
    ) -> Option<()> {
        let mut reader = Reader::new(frames);
        while let Some(kind) = reader.u8() {
            match kind {
                0 | 1 => {}
                2 | 3 => {
                    number(&mut reader)?;
                    number(&mut reader)?;
                    let ranges = number(&mut reader)?;
                    number(&mut reader)?;
                    for _ in 0..ranges {
                        number(&mut reader)?;
                        number(&mut reader)?;
                    }
                    for _ in 0..if kind == 3 { 3 } else { 0 } {
                        number(&mut reader)?;
                    }
                }
                6 => {
                    let offset = number(&mut reader)?;
                    let data = counted(&mut reader)?;
                    let crypto = self.crypto.get_mut(side)?;
                    if !crypto.take(offset, data) {
                        wrong("hello_too_long", chunk, &[], out);
                    }
                    if let Some(hello) = crypto.hello() {
                        self.hello(&hello, chunk, version, out);
                    }
                }
                0x1c | 0x1d => {
                    number(&mut reader)?;
                    if kind == 0x1c {
                        number(&mut reader)?;
                    }
                    counted(&mut reader)?;
                    self.note(chunk, 'c', out);
                    self.emit(out);
                    self.is_retried = false;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn hello(&mut self, hello: &[u8], chunk: &Chunk<'_>, version: u32, out: &mut dyn Out) {
        let Some((kind, length)) = header(hello) else { return };
        let Some(body) = hello.get(4..4 + length) else { return };
        let message = Message { kind, body, is_whole: true, is_too_long: false, unread: 0 };
        self.handshake.datagram(out.here());
        self.handshake.message(chunk.time, chunk.direction, &message, out);
        let offer = self.handshake.hello().filter(|_| kind == 1);
        let answer = self.handshake.answer().filter(|_| kind == 2);
        if let (Some(entry), Some(offer)) = (&mut self.entry, offer) {
            entry.server_name = offer.server_names.first().cloned();
            entry.protocol = offer.alpn.first().cloned();
        }
        if offer.is_none() && answer.is_none() {
            return;
        }
        hand_on(offer, chunk.direction, version, out);
        out.side_is_complete(chunk.direction);
        if out.takes(&HELLO) {
            out.record(hello_record(offer, answer, chunk, version));
        }
        self.note(chunk, 's', out);
    }

    /// Emits a connection and resets the state.
    fn emit(&mut self, out: &mut dyn Out) {
        let Some(entry) = self.entry.take() else { return };
        let record = record!(
            QUIC,
            entry.begun,
            version = version(entry.version),
            client_first_id = entry.first_id.map(|id| hex(&id)),
            client_id = entry.client_id.map(|id| hex(&id)),
            server_id = entry.server_id.map(|id| hex(&id)),
            server_name = entry.server_name,
            client_protocol = entry.protocol,
            history = entry.history,
        );
        out.record(record.over(entry.at));
    }
}

/// Emits the buffers of a hello, by the client or the server.
fn hand_on(offer: Option<&ClientHello>, side: Direction, version: u32, out: &mut dyn Out) {
    offer.into_iter().flat_map(|offer| &offer.server_names).for_each(|name| out.emit(&SNI, side, name));
    if out.asked().has(&VERSION) {
        out.buffer(&VERSION, side, word(version).as_bytes());
    }
}

/// The record of a hello, by the client or the server.
fn hello_record(
    offer: Option<&ClientHello>,
    answer: Option<&ServerHello>,
    chunk: &Chunk<'_>,
    version: u32,
) -> Record<'static> {
    let ja3 = offer.map(|offer| offer.ja3());
    let ja3s = answer.map(|answer| answer.ja3s());
    let kinds = offer.map(|offer| &offer.extensions).or(answer.map(|answer| &answer.extensions));
    let rows = kinds.into_iter().flatten().map(|kind| {
        let texts = match (*kind, offer) {
            (0, Some(offer)) => offer.server_names.clone(),
            (16, Some(offer)) => offer.alpn.clone(),
            _ => Vec::new(),
        };
        values!(EXTENSION, name = names::extension(*kind), type = *kind, values = Value::list(texts))
    });
    record!(
        HELLO,
        chunk.time,
        version = word(version),
        server_name = offer.and_then(|offer| offer.server_names.first()).cloned(),
        ja3 = ja3.as_deref().map(md5),
        ja3_text = ja3,
        ja3s = ja3s.as_deref().map(md5),
        ja3s_text = ja3s,
        ja4 = offer.map(|offer| offer.ja4('q')),
        extensions = Value::Rows(rows.collect()),
        reverse = chunk.direction == Direction::Reverse,
    )
}

/// A version in the words of Suricata.
fn word(number: u32) -> String {
    match number {
        VERSION_2 => "2".to_owned(),
        other => version(other),
    }
}
