//! Transport Layer Security: SSLv2's hello (its Internet draft of 1995), SSLv3 (RFC 6101) and TLS up to 1.3 (RFC
//! 8446). The unencrypted part of a handshake is parsed; encrypted content is skipped.

mod buffers;
pub(crate) mod certificate;
pub(crate) mod handshake;
pub(crate) mod hello;
pub(crate) mod message;
pub(crate) mod names;
pub(crate) mod over;

use crate::work::looked_at;
use crate::{Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, field};
use handshake::Handshake;
use hello::ClientHello;
use message::Messages;
use over::Over;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "tls",
    help: "Transport Layer Security and SSL (RFC 8446, RFC 5246, RFC 6101).",
    transport: Transport::Tcp,
    ports: &[443, 465, 563, 636, 853, 989, 990, 992, 993, 995, 5061, 5223, 6697, 8443, 8883],
    probe,
    parser: |_| Box::new(Tls::new()),
    tables: &[&TLS, &X509],
    buffers: buffers::ALL,
};

const TEXTS: Kind = Kind::List(&Kind::Text);
const NUMBERS: Kind = Kind::List(&Kind::Uint);

pub(crate) static TLS: Table = Table {
    name: "tls",
    help: "A TLS handshake over a stream or datagrams, emitted when it is complete, or when the flow ends.",
    zeek: "ssl",
    eve: "tls",
    fields: &[
        field("version", Kind::Word, "Version that the server chose.").zeek("version"),
        field("cipher", Kind::Word, "Cipher suite that the server chose.").zeek("cipher"),
        field("curve", Kind::Word, "Curve or group of the server's key exchange.").zeek("curve"),
        field("server_name", Kind::Text, "Server name that the client requests (SNI).")
            .zeek("server_name")
            .eve("tls.sni")
            .privacy(Privacy::Name),
        field("resumed", Kind::Bool, "Whether the handshake resumes an earlier session.").zeek("resumed"),
        field("last_alert", Kind::Word, "Last unencrypted alert.").zeek("last_alert"),
        field("next_protocol", Kind::Text, "Application protocol that the server chose (ALPN).")
            .zeek("next_protocol"),
        field("established", Kind::Bool, "Whether both sides switched to encryption.").zeek("established"),
        field(
            "history",
            Kind::Text,
            "A letter for each message, in capitals if the client sent it; ^ at the beginning if the responder is \
             the client.",
        )
        .zeek("ssl_history"),
        field("chain", TEXTS, "SHA-256 of each certificate of the server.")
            .zeek("cert_chain_fps")
            .privacy(Privacy::Fingerprint),
        field("client_chain", TEXTS, "SHA-256 of each certificate of the client.")
            .zeek("client_cert_chain_fps")
            .privacy(Privacy::Fingerprint),
        field("subject", Kind::Text, "Subject of the server's certificate (RFC 2253).")
            .zeek("subject")
            .privacy(Privacy::Name),
        field("issuer", Kind::Text, "Issuer of the server's certificate (RFC 2253).")
            .zeek("issuer")
            .privacy(Privacy::Name),
        field("client_subject", Kind::Text, "Subject of the client's certificate (RFC 2253).")
            .zeek("client_subject")
            .privacy(Privacy::User),
        field("client_issuer", Kind::Text, "Issuer of the client's certificate (RFC 2253).")
            .zeek("client_issuer")
            .privacy(Privacy::Name),
        field(
            "name_matches",
            Kind::Bool,
            "Whether the server's certificate is valid for the requested server name.",
        )
        .zeek("sni_matches_cert"),
        field("subject_line", Kind::Text, "Subject of the server's certificate, the country first.")
            .eve("tls.subject")
            .privacy(Privacy::Name),
        field("issuer_line", Kind::Text, "Issuer of the server's certificate, the country first.")
            .eve("tls.issuerdn")
            .privacy(Privacy::Name),
        field("serial", Kind::Text, "Serial number of the server's certificate.")
            .eve("tls.serial")
            .privacy(Privacy::Fingerprint),
        field("sha1", Kind::Text, "SHA-1 of the server's certificate.")
            .eve("tls.fingerprint")
            .privacy(Privacy::Fingerprint),
        field("not_before", Kind::Text, "Time from which the server's certificate is valid.")
            .eve("tls.notbefore"),
        field("not_after", Kind::Text, "Time until which the server's certificate is valid.")
            .eve("tls.notafter"),
        field("names", TEXTS, "Alternative names and addresses of the server's certificate.")
            .eve("tls.subjectaltname")
            .privacy(Privacy::Name),
        field("client_subject_line", Kind::Text, "Subject of the client's certificate, the country first.")
            .eve("tls.client.subject")
            .privacy(Privacy::User),
        field("client_issuer_line", Kind::Text, "Issuer of the client's certificate, the country first.")
            .eve("tls.client.issuerdn")
            .privacy(Privacy::Name),
        field("client_serial", Kind::Text, "Serial number of the client's certificate.")
            .eve("tls.client.serial")
            .privacy(Privacy::Fingerprint),
        field("client_sha1", Kind::Text, "SHA-1 of the client's certificate.")
            .eve("tls.client.fingerprint")
            .privacy(Privacy::Fingerprint),
        field("client_not_before", Kind::Text, "Time from which the client's certificate is valid.")
            .eve("tls.client.notbefore"),
        field("client_not_after", Kind::Text, "Time until which the client's certificate is valid.")
            .eve("tls.client.notafter"),
        field("client_names", TEXTS, "Alternative names and addresses of the client's certificate.")
            .eve("tls.client.subjectaltname")
            .privacy(Privacy::User),
        field("spoken", Kind::Word, "Version that the server chose, in Suricata's words.").eve("tls.version"),
        field("session_resumed", Kind::Bool, "True if the handshake resumes an earlier session; else no value.")
            .eve("tls.session_resumed"),
        field("ja3", Kind::Text, "JA3: MD5 fingerprint of the client hello.")
            .eve("tls.ja3.hash")
            .privacy(Privacy::Fingerprint),
        field("ja3_text", Kind::Text, "Text that JA3 is the MD5 of.")
            .eve("tls.ja3.string")
            .privacy(Privacy::Fingerprint),
        field("ja3s", Kind::Text, "JA3S: MD5 fingerprint of the server hello.")
            .eve("tls.ja3s.hash")
            .privacy(Privacy::Fingerprint),
        field("ja3s_text", Kind::Text, "Text that JA3S is the MD5 of.")
            .eve("tls.ja3s.string")
            .privacy(Privacy::Fingerprint),
        field("ja4", Kind::Text, "JA4: fingerprint of the client hello, independent of its order.")
            .eve("tls.ja4")
            .privacy(Privacy::Fingerprint),
        field("client_protocols", TEXTS, "Application protocols that the client offers (ALPN).")
            .eve("tls.client_alpns"),
        field("server_protocols", TEXTS, "Application protocol that the server chose (ALPN).")
            .eve("tls.server_alpns"),
        field("client_version", Kind::Word, "Highest version that the client offers.")
            .eve("tls.client_handshake.version"),
        field("client_ciphers", NUMBERS, "Numbers of the cipher suites that the client offers (IANA).")
            .eve("tls.client_handshake.ciphers"),
        field("client_extensions", NUMBERS, "Numbers of the extensions of the client hello (IANA).")
            .eve("tls.client_handshake.exts"),
        field("client_signatures", NUMBERS, "Numbers of the signature algorithms that the client accepts (IANA).")
            .eve("tls.client_handshake.sig_algs"),
        field("server_version", Kind::Word, "Version in the server hello.")
            .eve("tls.server_handshake.version"),
        field("server_cipher", Kind::Uint, "Number of the cipher suite that the server chose (IANA).")
            .eve("tls.server_handshake.cipher"),
        field("server_extensions", NUMBERS, "Numbers of the extensions of the server hello (IANA).")
            .eve("tls.server_handshake.exts"),
        field(
            "encrypted_hello",
            Kind::Bool,
            "Whether the client hello contains an encrypted client hello or server name.",
        ),
        field("early_data", Kind::Bool, "Whether the client announces early data."),
        field(
            "from_protocol",
            Kind::Word,
            "Protocol of the flow before TLS, which requested it (STARTTLS, CONNECT) or carried it.",
        )
        .eve("tls.from_proto"),
    ],
};

/// TLS within QUIC, for which Suricata has events of its own.
pub(crate) static QUIC_TLS: Table = Table {
    name: "quic_tls",
    help: "A TLS handshake within QUIC, emitted when it is complete, or when the flow ends.",
    zeek: "ssl",
    eve: "",
    fields: TLS.fields,
};

pub(crate) static X509: Table = Table {
    name: "x509",
    help: "A certificate that one side sent.",
    zeek: "x509",
    eve: "",
    fields: &[
        field("sha256", Kind::Text, "SHA-256 of the certificate.")
            .zeek("fingerprint")
            .privacy(Privacy::Fingerprint),
        field("version", Kind::Uint, "Version of the certificate, from 1.").zeek("certificate.version"),
        field("serial", Kind::Text, "Serial number of the certificate.")
            .zeek("certificate.serial")
            .privacy(Privacy::Fingerprint),
        field("subject", Kind::Text, "Subject of the certificate (RFC 2253).")
            .zeek("certificate.subject")
            .privacy(Privacy::Name),
        field("issuer", Kind::Text, "Issuer of the certificate (RFC 2253).")
            .zeek("certificate.issuer")
            .privacy(Privacy::Name),
        field("not_before", Kind::Time, "Time from which the certificate is valid.")
            .zeek("certificate.not_valid_before"),
        field("not_after", Kind::Time, "Time until which the certificate is valid.")
            .zeek("certificate.not_valid_after"),
        field("key_algorithm", Kind::Word, "Algorithm of the public key.").zeek("certificate.key_alg"),
        field("signature_algorithm", Kind::Word, "Signature algorithm.").zeek("certificate.sig_alg"),
        field("key_type", Kind::Word, "Type of the public key: rsa, dsa, ecdsa or unknown.")
            .zeek("certificate.key_type"),
        field("key_length", Kind::Uint, "Length of the public key in bits.").zeek("certificate.key_length"),
        field("exponent", Kind::Text, "Exponent of an RSA key.").zeek("certificate.exponent"),
        field("curve", Kind::Word, "Curve of an elliptic-curve key.").zeek("certificate.curve"),
        field("dns_names", TEXTS, "Host names in the alternative names.")
            .zeek("san.dns")
            .privacy(Privacy::Name),
        field("uris", TEXTS, "URIs in the alternative names.").zeek("san.uri").privacy(Privacy::Url),
        field("mails", TEXTS, "Mail addresses in the alternative names.")
            .zeek("san.email")
            .privacy(Privacy::Mail),
        field("addresses", Kind::List(&Kind::Address), "IP addresses in the alternative names.")
            .zeek("san.ip"),
        field(
            "is_ca",
            Kind::Bool,
            "Whether the certificate belongs to a certificate authority (basic constraints).",
        )
        .zeek("basic_constraints.ca"),
        field(
            "path_length",
            Kind::Uint,
            "Maximum number of certificates between this one and a leaf (path length).",
        )
        .zeek("basic_constraints.path_len"),
        field("host", Kind::Bool, "Whether the certificate is the sender's own one.").zeek("host_cert"),
        field("client", Kind::Bool, "Whether the client sent the certificate.").zeek("client_cert"),
    ],
};

/// Maximum length of a record: 2^14 bytes and the overhead of encryption (RFC 5246, 6.2.3).
const MAX_RECORD: usize = (1 << 14) + 2048;
/// Maximum number of records without content that are skipped: senders use a few as a countermeasure to old attacks.
const MAX_EMPTY: u8 = 32;

fn probe(heads: &Heads<'_>) -> Probe {
    let mut verdict = Probe::Reject;
    for head in heads.both() {
        match begins(head) {
            Probe::Match => return Probe::Match,
            Probe::Maybe => verdict = Probe::Maybe,
            Probe::Reject => {}
        }
    }
    verdict
}

/// Where a client hello begins in bytes that begin with another protocol.
pub(crate) enum Hello {
    /// At this position, whole and well formed.
    Whole(usize),
    /// Perhaps at this position: more bytes decide.
    Perhaps(usize),
}

/// Searches for a client hello that is one record (RFC 8446, 4.1.2 and 5.1) of at most `max` bytes. Its lengths must add up,
/// so that one that another protocol has cut into packets is none.
pub(crate) fn client_hello(bytes: &[u8], max: usize) -> Hello {
    /// Number of bytes by which a candidate is recognised: the headers of record and message, and the version.
    const HEAD: usize = 11;
    /// Number of bytes of the headers.
    const HEADERS: usize = 9;
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + HEAD) {
        let record = match window {
            [22, 3, 0..=4, high, low, 1, 0, body_high, body_low, 3, 0..=3] => {
                let [record, body] = [[*high, *low], [*body_high, *body_low]].map(u16::from_be_bytes);
                (body.checked_add(4) == Some(record)).then_some(usize::from(record))
            }
            _ => None,
        };
        let Some(record) = record.filter(|record| *record <= max) else {
            at += 1;
            continue;
        };
        // The record's own header has five bytes, of which the message follows.
        let end = at + 5 + record;
        match bytes.get(at + HEADERS..end) {
            None => return Hello::Perhaps(at),
            Some(body) if adds_up(body).is_some() => return Hello::Whole(at),
            // What follows is searched from its end on, so that the work stays in proportion.
            Some(_) => at = end,
        }
    }
    Hello::Perhaps(at.min(bytes.len()))
}

/// Whether the lengths within a client hello add up (RFC 8446, 4.1.2).
fn adds_up(body: &[u8]) -> Option<()> {
    let mut reader = Reader::new(body);
    reader.take(34)?;
    let session = reader.u8()?;
    reader.take(session.into())?;
    let ciphers = reader.u16().filter(|length| length % 2 == 0)?;
    reader.take(ciphers.into())?;
    let compressions = reader.u8()?;
    reader.take(compressions.into())?;
    if reader.rest().is_empty() {
        return Some(());
    }
    let extensions = reader.u16()?;
    (reader.rest().len() == usize::from(extensions)).then_some(())?;
    while !reader.rest().is_empty() {
        reader.u16()?;
        let length = reader.u16()?;
        reader.take(length.into())?;
    }
    Some(())
}

/// Whether a side begins with a hello.
fn begins(head: &[u8]) -> Probe {
    let fits = |at: usize, is_good: &dyn Fn(u8) -> bool| head.get(at).is_none_or(|byte| is_good(*byte));
    if head.first().is_some_and(|first| first & 0x80 != 0) {
        return begins_v2(head);
    }
    let length = Reader::new(head.get(3..).unwrap_or_default()).u16().map_or(64, usize::from);
    let is_hello = fits(0, &|kind| kind == 22)
        && fits(1, &|major| major == 3)
        && fits(2, &|minor| minor <= 4)
        && (1..=MAX_RECORD).contains(&length)
        && fits(5, &|kind| matches!(kind, 1 | 2))
        && fits(6, &|high| high <= 1)
        && (length < 6 || fits(9, &|major| matches!(major, 3 | 0x7e | 0x7f)));
    match is_hello {
        true if head.len() > 10 => Probe::Match,
        true => Probe::Maybe,
        false => Probe::Reject,
    }
}

/// Whether a side begins with an SSLv2 hello: the lengths of its parts add up to that of its record.
fn begins_v2(head: &[u8]) -> Probe {
    let Some(first) = head.first_chunk::<11>() else {
        return if head.get(2).is_none_or(|kind| *kind == 1) { Probe::Maybe } else { Probe::Reject };
    };
    let [a, b, kind, major, minor, c, d, e, f, g, h] = *first;
    let word = |high: u8, low: u8| u32::from(high) << 8 | u32::from(low);
    let parts = [word(c, d), word(e, f), word(g, h)];
    let [ciphers, session, challenge] = parts;
    let is_hello = kind == 1
        && matches!((major, minor), (0, 2) | (3, 0..=4))
        && ciphers % 3 == 0
        && ciphers > 0
        && matches!(session, 0 | 16 | 32)
        && (16..=32).contains(&challenge)
        && word(a & 0x7f, b) == 9 + parts.iter().sum::<u32>();
    if is_hello { Probe::Match } else { Probe::Reject }
}

/// The position of a side in its records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// In a record's header.
    Header,
    /// In the content, with this many remaining bytes.
    Content { kind: u8, left: usize, is_encrypted: bool },
    /// In an SSLv2 record of this length.
    Old { length: usize },
    /// Position unknown after a gap.
    Lost,
}

/// One side.
struct Side {
    place: Place,
    /// An incomplete header, alert or SSLv2 record.
    held: Vec<u8>,
    messages: Messages,
    /// Whether all records were of SSLv2.
    is_old: bool,
    /// Whether bytes were missing before, so that any bytes may follow.
    is_unsure: bool,
    empty: u8,
}

struct Tls {
    sides: [Side; 2],
    handshake: Handshake,
}

impl Tls {
    fn new() -> Self {
        let side = || Side {
            place: Place::Header,
            held: Vec::new(),
            messages: Messages::default(),
            is_old: true,
            is_unsure: false,
            empty: 0,
        };
        Self { sides: [side(), side()], handshake: Handshake::new(Over::Stream, &PROTOCOL) }
    }
}

impl Parser for Tls {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if self.handshake.is_emitted() {
            return Step::Next;
        }
        let Chunk { time, direction, gap, data } = *chunk;
        let Self { sides: [forward, reverse], handshake } = self;
        let side = if direction == Direction::Forward { forward } else { reverse };
        if gap > 0 {
            side.miss(gap);
        }
        let mut data = data;
        while !data.is_empty() {
            if let Err(name) = side.read(&mut data, time, direction, handshake, out) {
                PROTOCOL.emit_anomaly(name, direction, &side.held, time, out);
                return Step::GiveUp;
            }
            if handshake.is_emitted() {
                // Everything after this is encrypted: held bytes are not needed.
                self.sides = Tls::new().sides;
                break;
            }
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.handshake.emit(out);
    }

    fn follows(&mut self, protocol: &'static Protocol) {
        self.handshake.from = Some(protocol);
    }

    fn memory(&self) -> usize {
        let sides = self.sides.iter().map(|side| side.held.capacity() + side.messages.memory());
        self.handshake.memory() + sides.sum::<usize>()
    }
}

impl Side {
    /// Takes a gap.
    fn miss(&mut self, gap: u64) {
        let gap = usize::try_from(gap).unwrap_or(usize::MAX);
        self.is_unsure = true;
        match &mut self.place {
            Place::Content { kind, left, is_encrypted } if gap <= *left => {
                *left -= gap;
                if *kind == 22 && !*is_encrypted && !self.messages.miss(gap) {
                    // The next message of this record could not be found.
                    self.messages = Messages::default();
                    *is_encrypted = true;
                }
                if *left == 0 {
                    self.place = Place::Header;
                    self.held.clear();
                }
            }
            place => {
                // The next bytes may or may not begin a record: the next header shows it.
                *place = Place::Header;
                self.held.clear();
                self.messages = Messages::default();
            }
        }
    }

    /// Takes bytes until the given number is held. `false` if some are still missing.
    fn hold(&mut self, data: &mut &[u8], max: usize) -> bool {
        let room = max.saturating_sub(self.held.len());
        let (part, rest) = data.split_at_checked(room).unwrap_or((data, &[]));
        looked_at(1 + part.len());
        self.held.extend_from_slice(part);
        *data = rest;
        self.held.len() >= max
    }

    fn read(
        &mut self,
        data: &mut &[u8],
        time: Time,
        direction: Direction,
        handshake: &mut Handshake,
        out: &mut dyn Out,
    ) -> Result<(), &'static str> {
        match self.place {
            Place::Header => {
                let first = self.held.first().or(data.first()).copied().unwrap_or(0);
                let is_old = self.is_old && first & 0x80 != 0;
                if !self.hold(data, if is_old { 2 } else { 5 }) {
                    return Ok(());
                }
                out.more(data.len());
                match self.header(is_old, direction, handshake) {
                    Some(place) => self.place = place,
                    None if self.is_unsure => self.place = Place::Lost,
                    None => return Err("invalid_tls_header"),
                }
                if let Place::Content { kind, is_encrypted: true, .. } = self.place {
                    handshake.ciphertext(time, direction, kind == 23, out);
                }
                if self.place != Place::Lost {
                    self.held.clear();
                }
                if let Place::Content { left: 0, .. } = self.place {
                    self.place = Place::Header;
                    self.empty = self.empty.saturating_add(1);
                    if self.empty > MAX_EMPTY {
                        return Err("too_many_empty_records");
                    }
                }
            }
            Place::Content { kind, left, is_encrypted } => {
                let (mut part, rest) = data.split_at_checked(left).unwrap_or((data, &[]));
                *data = rest;
                looked_at(1 + part.len());
                let left = left - part.len();
                match kind {
                    _ if is_encrypted => {}
                    22 => {
                        let work = |message: message::Message<'_>| {
                            out.more(message.unread + data.len());
                            handshake.message(time, direction, &message, out);
                        };
                        let mut work = work;
                        while !part.is_empty() && self.messages.next(&mut part, &mut work).is_some() {}
                    }
                    20 => {
                        if left == 0 {
                            handshake.change_cipher(time, direction);
                        }
                    }
                    _ => {
                        // An alert has two bytes; a heartbeat is not read.
                        let room = 2_usize.saturating_sub(self.held.len());
                        self.held.extend_from_slice(part.get(..room).unwrap_or(part));
                        if left == 0 {
                            match (kind, self.held.as_slice()) {
                                (21, [_, description]) => {
                                    handshake.alert(time, direction, *description);
                                }
                                (24, _) => handshake.heartbeat(time, direction),
                                _ => return Err("invalid_tls_record"),
                            }
                        }
                    }
                }
                self.place = Place::Content { kind, left, is_encrypted };
                if left == 0 {
                    out.more(data.len());
                    self.place = Place::Header;
                    self.held.clear();
                }
            }
            Place::Old { length } => {
                if self.hold(data, length) {
                    out.more(data.len());
                    self.place = Place::Header;
                    let record = std::mem::take(&mut self.held);
                    old(&record, time, direction, handshake, out)?;
                }
            }
            Place::Lost => *data = &[],
        }
        Ok(())
    }

    /// The parsed header; `None` if it is malformed.
    fn header(&mut self, is_old: bool, direction: Direction, handshake: &Handshake) -> Option<Place> {
        let mut reader = Reader::new(&self.held);
        if is_old {
            let length = usize::from(reader.u16()? & 0x7fff);
            return (length > 0).then_some(Place::Old { length });
        }
        self.is_old = false;
        let (kind, version, length) = (reader.u8()?, reader.u16()?, usize::from(reader.u16()?));
        let is_good = (20..=24).contains(&kind)
            && matches!(version >> 8, 3 | 0x7f)
            && length <= MAX_RECORD
            && (length > 0 || kind == 23)
            && (kind != 20 || length == 1 || handshake.is_encrypted(direction));
        let is_encrypted = kind == 23 || kind != 20 && handshake.is_encrypted(direction);
        is_good.then_some(Place::Content { kind, left: length, is_encrypted })
    }
}

/// Takes a record of SSLv2.
fn old(
    record: &[u8],
    time: Time,
    direction: Direction,
    handshake: &mut Handshake,
    out: &mut dyn Out,
) -> Result<(), &'static str> {
    let wrong = "invalid_sslv2_record";
    match record.first() {
        Some(1) => handshake.offer_v2(ClientHello::parse_v2(record).ok_or(wrong)?, time, direction, out),
        Some(2) => handshake.establish(out),
        Some(4) => handshake.choose_v2(record, time, direction, out).ok_or(wrong)?,
        Some(0) => handshake.alert(time, direction, record.get(2).copied().unwrap_or(0)),
        _ => return Err(wrong),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Value;
    use crate::laws::talks;
    use crate::talk::{Talk, Turn};
    use weir_wire::Direction::{Forward, Reverse};

    /// A handshake is the same after another protocol, and names it.
    #[test]
    fn a_handshake_names_the_protocol_before_it() {
        let (_, tls) = talks("tls", 443).into_iter().find(|(path, _)| path.ends_with("tls12.talk")).unwrap();
        let handshake = |prelude: &[(bool, &str)], port: u16| {
            let said = prelude.iter().map(|(is_client, text)| {
                Turn::Data(if *is_client { Forward } else { Reverse }, text.as_bytes().to_vec())
            });
            let turns = said.chain(tls.turns.iter().cloned()).collect();
            let talk = Talk { turns, ports: [40_000, port], ..tls.clone() };
            let mut records = talk.emitted(|data| vec![data.to_vec()]).records;
            records.retain(|record| record.table.name == "tls");
            let [record] = records.as_slice() else { panic!("{prelude:?}") };
            ["from_protocol", "server_name"].map(|name| record.get(name).clone().into_owned())
        };
        let [from, name] = handshake(&[], 443);
        assert_eq!(from, Value::None);
        let mail = [(false, "220 mx ESMTP\r\n"), (true, "STARTTLS\r\n"), (false, "220 ready\r\n")];
        let post = [(false, "+OK ready\r\n"), (true, "STLS\r\n"), (false, "+OK begin\r\n")];
        let proxy = [(true, "CONNECT abc:443 HTTP/1.1\r\n\r\n"), (false, "HTTP/1.1 200 OK\r\n\r\n")];
        for (prelude, port, protocol) in
            [(&mail[..], 25, "smtp"), (&post, 110, "pop3"), (&proxy, 3128, "http")]
        {
            assert_eq!(handshake(prelude, port), [protocol.into(), name.clone()], "{protocol}");
        }
    }
}
