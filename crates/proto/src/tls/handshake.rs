//! The messages of a handshake, over any carrier.

use super::certificate::{Certificate, Content, stamp, time};
use super::hello::{ClientHello, ServerHello, long, md5};
use super::message::Message;
use super::over::Over;
use super::{QUIC_TLS, TLS, X509, buffers, names};
use crate::early::early;
use crate::record::values_of;
use crate::{ANOMALY, Columns, Out, Protocol, Record, Span, Table, Value, record};
use std::cell::LazyCell;
use weir_wire::{Direction, Reader, Time};

/// Maximum number of certificates of a chain: browsers stop at about ten.
const MAX_CERTIFICATES: usize = 32;
/// The fields that certificates are read for.
const OF_CERTIFICATES: Columns = Columns::between(&TLS, "chain", "client_names");
/// Maximum number of letters of a history, as in Zeek.
const MAX_HISTORY: usize = 100;

/// The state of a handshake.
pub(crate) struct Handshake {
    over: Over,
    protocol: &'static Protocol,
    /// The protocol of the flow before this one.
    pub from: Option<&'static Protocol>,
    begun: Option<Time>,
    /// The bytes of its datagrams.
    at: Span,
    /// The sender of the client hello, if it was seen.
    client: Direction,
    history: String,
    hello: Option<ClientHello>,
    answer: Option<ServerHello>,
    version: Option<u16>,
    cipher: Option<u32>,
    curve: Option<u16>,
    resumed: bool,
    established: bool,
    last_alert: Option<u8>,
    /// Certificates of the server and of the client.
    chains: [Vec<Certificate>; 2],
    /// Whether the length of the server's chain was emitted.
    is_counted: bool,
    /// Whether the server and the client encrypt.
    encrypted: [bool; 2],
    /// Whether the client has sent its part of the key exchange.
    exchanged: bool,
    emitted: bool,
}

/// The client's index in arrays of server and client.
const CLIENT: usize = 1;

impl Handshake {
    pub fn new(over: Over, protocol: &'static Protocol) -> Self {
        Self {
            over,
            protocol,
            from: None,
            begun: None,
            at: Span::default(),
            client: Direction::Forward,
            history: String::new(),
            hello: None,
            answer: None,
            version: None,
            cipher: None,
            curve: None,
            resumed: false,
            established: false,
            last_alert: None,
            chains: Default::default(),
            is_counted: false,
            encrypted: [false; 2],
            exchanged: false,
            emitted: false,
        }
    }

    /// Takes note of a datagram.
    pub fn datagram(&mut self, at: Span) {
        self.at.add(at);
    }

    /// Whether the handshake was emitted.
    pub fn is_emitted(&self) -> bool {
        self.emitted
    }

    /// The client hello.
    pub fn hello(&self) -> Option<&ClientHello> {
        self.hello.as_ref()
    }

    /// The server hello.
    pub fn answer(&self) -> Option<&ServerHello> {
        self.answer.as_ref()
    }

    /// Whether a record of a side is encrypted although it looks like a message.
    pub fn is_encrypted(&self, direction: Direction) -> bool {
        // From TLS 1.3 on, encrypted records have the type of data, and a change of cipher has no effect.
        let is_new = self.version.is_some_and(is_new);
        !is_new && self.encrypted.get(self.role(direction)).is_some_and(|encrypted| *encrypted)
    }

    fn role(&self, direction: Direction) -> usize {
        usize::from(direction == self.client)
    }

    fn note(&mut self, time: Time, direction: Direction, letter: char) {
        self.begun.get_or_insert(time);
        if self.history.len() < MAX_HISTORY {
            let is_client = direction == self.client;
            self.history.push(if is_client { letter.to_ascii_uppercase() } else { letter });
        }
    }

    /// Takes a message.
    pub fn message(&mut self, time: Time, direction: Direction, message: &Message<'_>, out: &mut dyn Out) {
        if message.is_too_long {
            self.protocol.emit_anomaly("handshake_message_too_long", direction, &[], time, out);
        }
        let is_first = self.begun.is_none();
        let mut is_retry = false;
        let is_read = !message.is_whole
            || match message.kind {
                1 => {
                    if is_first && direction == Direction::Reverse {
                        self.history.push('^');
                    }
                    if self.hello.is_none() && self.answer.is_none() {
                        self.client = direction;
                    }
                    let hello = ClientHello::parse(message.body, self.over == Over::Datagrams);
                    hello.map(|hello| self.offer(hello, time, direction, out)).is_some()
                }
                2 => {
                    if is_first && direction == self.client {
                        self.client = direction.opposite();
                    }
                    let answer = ServerHello::parse(message.body);
                    is_retry = answer.as_ref().is_some_and(|answer| answer.retry);
                    answer.map(|answer| self.choose(answer, direction, out)).is_some()
                }
                11 => self.certificates(message.body, time, direction, out).is_some(),
                12 => {
                    self.curve = self.key_exchange(message.body).or(self.curve);
                    true
                }
                _ => true,
            };
        if message.is_whole && !is_retry {
            buffers::state(message.kind, self.over, direction, out);
        }
        // QUIC has buffers of its own for each hello.
        if matches!(message.kind, 1 | 2 | 11 | 12 | 16)
            && message.is_whole
            && !is_retry
            && self.over != Over::Quic
        {
            out.side_is_complete(direction);
        }
        if !is_read {
            self.protocol.emit_anomaly("invalid_handshake_message", direction, message.body, time, out);
        }
        self.exchanged |= message.kind == 16 && direction == self.client;
        let letter = match message.kind {
            0 => 'h',
            1 => 'c',
            2 if is_retry => 'j',
            2 => 's',
            3 => 'v',
            4 => 't',
            5 => 'e',
            6 => 'j',
            8 => 'o',
            11 => 'x',
            12 => 'k',
            13 => 'r',
            14 => 'n',
            15 => 'y',
            16 => 'g',
            20 => 'f',
            21 => 'w',
            22 => 'u',
            23 => 'a',
            24 => 'p',
            254 => 'm',
            _ => 'z',
        };
        self.note(time, direction, letter);
    }

    /// Takes a client hello that is not in a message.
    pub fn offer_v2(&mut self, hello: ClientHello, time: Time, direction: Direction, out: &mut dyn Out) {
        self.client = direction;
        self.offer(hello, time, direction, out);
        buffers::state(1, self.over, direction, out);
        out.side_is_complete(direction);
        self.note(time, direction, 'c');
    }

    /// Takes a server hello of SSLv2, with its certificate.
    pub fn choose_v2(
        &mut self,
        record: &[u8],
        time: Time,
        direction: Direction,
        out: &mut dyn Out,
    ) -> Option<()> {
        let mut reader = Reader::new(record);
        reader.u8().filter(|kind| *kind == 4)?;
        reader.u16()?;
        let version = reader.u16().filter(|version| *version == names::SSL2)?;
        let [certificate, ciphers, _] = [reader.u16()?, reader.u16()?, reader.u16()?];
        let certificate = reader.take(certificate.into())?;
        let cipher = reader.take(ciphers.into())?.first_chunk::<3>();
        self.version = Some(version);
        self.cipher = cipher.map(|[a, b, c]| u32::from_be_bytes([0, *a, *b, *c]));
        self.note(time, direction, 's');
        buffers::version(version, direction, out);
        buffers::state(2, self.over, direction, out);
        self.chain([certificate].into_iter(), time, direction, out);
        self.chain_length(direction, out);
        out.side_is_complete(direction);
        Some(())
    }

    fn offer(&mut self, hello: ClientHello, time: Time, direction: Direction, out: &mut dyn Out) {
        if self.hello.is_none() && self.over != Over::Quic {
            self.hand_on_offer(&hello, out);
        }
        // Within QUIC each hello begins a connection.
        if self.hello.is_none() || self.over == Over::Quic {
            buffers::client_hello(&hello, self.over, direction, out);
        }
        if hello.server_names.len() > 1 {
            // As Zeek writes a list.
            let detail = [b"[", &hello.server_names.join(&b", "[..])[..], b"]"].concat();
            self.protocol.emit_anomaly("SSL_many_server_names", direction, &detail, time, out);
        }
        // A second hello, with equal content, follows on the server's request.
        match self.over {
            Over::Quic => self.hello = Some(hello),
            Over::Stream | Over::Datagrams => _ = self.hello.get_or_insert(hello),
        }
    }

    /// Hands on what a client offers.
    fn hand_on_offer(&self, hello: &ClientHello, out: &mut dyn Out) {
        early!(
            out,
            TLS,
            server_name = hello.server_names.first(),
            ja3 = md5(&hello.ja3()),
            ja4 = hello.ja4(self.over.letter()),
            encrypted_hello = hello.encrypted_hello,
        );
    }

    fn choose(&mut self, answer: ServerHello, direction: Direction, out: &mut dyn Out) {
        // The hello that follows a retry request has the server's choice.
        if !answer.retry {
            buffers::server_hello(&answer, self.over, direction, out);
        }
        let version = answer.spoken();
        let offer = self.hello.as_ref();
        let has_same_session = offer.is_some_and(|offer| {
            !answer.session_id.is_empty()
                && answer.session_id == offer.session_id
                && answer.session_id != [0; 32]
        });
        let has_same_key = answer.pre_shared_key && offer.is_some_and(|offer| offer.pre_shared_key);
        self.resumed |= has_same_key || has_same_session && !is_new(version);
        self.version = Some(version);
        self.cipher = Some(answer.cipher);
        self.curve = answer.group.or(self.curve);
        self.answer = Some(answer);
    }

    /// The curve of a server's key exchange, if the cipher suite uses one.
    fn key_exchange(&self, body: &[u8]) -> Option<u16> {
        let cipher = names::cipher(self.cipher?);
        let mut reader = Reader::new(body);
        if cipher.contains("_ECDHE_PSK") {
            long(&mut reader)?;
        } else if !cipher.contains("_ECDHE_") && !cipher.contains("_ECDH_anon") {
            return None;
        }
        // 3: a curve that has a name.
        reader.u8().filter(|kind| *kind == 3)?;
        reader.u16()
    }

    fn certificates(
        &mut self,
        body: &[u8],
        time: Time,
        direction: Direction,
        out: &mut dyn Out,
    ) -> Option<()> {
        let mut reader = Reader::new(body);
        let list = three(&mut reader)?;
        let mut reader = Reader::new(list);
        let certificates = std::iter::from_fn(|| three(&mut reader));
        self.chain(certificates, time, direction, out);
        self.chain_length(direction, out);
        reader.rest().is_empty().then_some(())
    }

    /// Emits how many certificates a side has sent, if any.
    fn chain_length(&mut self, direction: Direction, out: &mut dyn Out) {
        let length = self.chains.get(self.role(direction)).map_or(0, Vec::len);
        if length > 0 && self.over != Over::Quic {
            buffers::chain_length(length, direction, out);
            self.is_counted |= direction != self.client;
        }
    }

    /// Emits that a server encrypts which has sent no certificate in clear: from TLS 1.3 on, and where a session is resumed.
    fn no_chain(&mut self, direction: Direction, out: &mut dyn Out) {
        let is_server = direction != self.client && self.answer.is_some();
        if is_server && self.over == Over::Stream && !std::mem::replace(&mut self.is_counted, true) {
            buffers::chain_length(0, direction, out);
            out.side_is_complete(direction);
        }
    }

    fn chain<'a>(
        &mut self,
        certificates: impl Iterator<Item = &'a [u8]>,
        time: Time,
        direction: Direction,
        out: &mut dyn Out,
    ) {
        let (role, is_quic) = (self.role(direction), self.over == Over::Quic);
        let reads_all =
            out.reads(self.table()).meets(OF_CERTIFICATES) || out.takes(&X509) || out.takes(&ANOMALY);
        let asked = out.asked();
        let reads_first = reads_all || asked.has_table(&TLS) || buffers::read_first(asked);
        for bytes in certificates {
            if bytes.is_empty() {
                self.protocol.emit_anomaly("zero_length_certificate", direction, &[], time, out);
                continue;
            }
            let Some(chain) = self.chains.get_mut(role) else { return };
            if chain.len() == MAX_CERTIFICATES {
                return self.protocol.emit_anomaly("too_many_certificates", direction, &[], time, out);
            }
            buffers::sent(bytes, direction, out);
            let is_host = chain.is_empty();
            // A certificate that nothing reads is counted.
            if !(reads_all || is_host && reads_first) {
                chain.push(Certificate::default());
                continue;
            }
            let certificate = Certificate::parse(bytes);
            if let Some(content) =
                certificate.content.as_ref().filter(|_| is_host && role != CLIENT && !is_quic)
            {
                early!(out, TLS, subject = &content.subject, issuer = &content.issuer);
            }
            if is_host {
                buffers::first(&certificate, time, direction, out);
            }
            match &certificate.content {
                Some(content) => {
                    emit_certificate(&certificate, content, time, is_host, role == CLIENT, out);
                }
                None => {
                    self.protocol.emit_anomaly("invalid_certificate", direction, bytes, time, out);
                }
            }
            chain.push(certificate);
        }
    }

    /// Takes a change of cipher.
    pub fn change_cipher(&mut self, time: Time, direction: Direction) {
        self.note(time, direction, 'i');
        let role = self.role(direction);
        let has_ticket = self.hello.as_ref().is_some_and(|hello| {
            hello.ticket && (hello.session_id.is_empty() || hello.session_id.iter().all(|byte| *byte == 0))
        });
        self.resumed |= role == CLIENT && has_ticket && !self.exchanged && !self.version.is_some_and(is_new);
        if let Some(encrypted) = self.encrypted.get_mut(role) {
            *encrypted = true;
        }
    }

    /// Takes an alert in clear.
    pub fn alert(&mut self, time: Time, direction: Direction, description: u8) {
        self.note(time, direction, 'l');
        self.last_alert = Some(description);
    }

    /// Takes a heartbeat in clear.
    pub fn heartbeat(&mut self, time: Time, direction: Direction) {
        self.note(time, direction, 'b');
    }

    /// Takes the beginning of an encrypted record; `is_data`: its type is data.
    pub fn ciphertext(&mut self, time: Time, direction: Direction, is_data: bool, out: &mut dyn Out) {
        self.begun.get_or_insert(time);
        let role = self.role(direction);
        let is_new = self.version.is_some_and(is_new);
        self.no_chain(direction, out);
        let [server, client] = &mut self.encrypted;
        match role {
            // Data of a client before the server's messages is early data.
            CLIENT if is_data && is_new => *client = *server && self.answer.is_some(),
            CLIENT => *client |= is_data,
            _ => *server |= is_data && self.answer.is_some(),
        }
        if self.encrypted == [true; 2] {
            self.established = true;
            self.emit(out);
        }
    }

    /// Handles the client's key of SSLv2.
    pub fn establish(&mut self, out: &mut dyn Out) {
        self.established = true;
        self.emit(out);
    }

    /// Approximate heap memory in bytes.
    pub fn memory(&self) -> usize {
        let hello = self.hello.as_ref().map_or(0, |hello| {
            4 * hello.ciphers.len() + 2 * (hello.extensions.len() + hello.signatures.len()) + 256
        });
        let certificates = self.chains.iter().flatten().map(|certificate| {
            let names = certificate.content.iter().flat_map(|content| &content.names);
            1024 + names.map(|name| 2 * name.capacity() + 48).sum::<usize>()
        });
        hello + certificates.sum::<usize>()
    }

    /// The table of its record.
    fn table(&self) -> &'static Table {
        if self.over == Over::Quic { &QUIC_TLS } else { &TLS }
    }

    /// Emits the handshake once, and releases its state.
    pub fn emit(&mut self, out: &mut dyn Out) {
        let Some(begun) = self.begun.filter(|_| !self.emitted) else { return };
        self.emitted = true;
        let chains = std::mem::take(&mut self.chains);
        let (hello, answer, history) =
            (self.hello.take(), self.answer.take(), std::mem::take(&mut self.history));
        let columns = out.reads(self.table());
        let host = hello.as_ref().and_then(|hello| hello.server_names.first());
        let [server, client] = &chains;
        let leaf = |chain: &[Certificate]| chain.first().and_then(|leaf| leaf.content.clone());
        let marks = |chain: &[Certificate]| match (server.as_slice(), client.as_slice()) {
            ([], []) => Value::None,
            _ => chain.iter().map(|certificate| certificate.sha256.clone()).collect(),
        };
        let (server_leaf, client_leaf) = (leaf(server), leaf(client));
        let matches = || host.and_then(|host| server.first().and_then(|leaf| leaf.is_for(host)));
        let texts = |list: &[Vec<u8>]| Value::list(list.iter().cloned());
        let plain = |values: &[u16]| -> Value<'static> {
            values.iter().copied().filter(|value| !names::is_grease(*value)).collect()
        };
        let ja3 = LazyCell::new(|| hello.as_ref().map(ClientHello::ja3));
        let ja3s = LazyCell::new(|| answer.as_ref().map(ServerHello::ja3s));
        let over = self.over.letter();
        let offered = hello.as_ref().map(|hello| {
            let offered = hello.versions.iter().copied().filter(|version| !names::is_grease(*version));
            offered.max().unwrap_or(hello.version)
        });
        let alpn = answer.as_ref().and_then(|answer| answer.alpn.clone());
        let drafted = answer.as_ref().map(ServerHello::drafted);
        let certificate = |chain: &[Certificate], content: &Option<Content>| {
            let of = |part: fn(&Content) -> String| Value::from(content.as_ref().map(part));
            Leaf {
                subject_line: of(|content| content.subject_line.clone()),
                issuer_line: of(|content| content.issuer_line.clone()),
                serial: of(|content| content.serial_pairs.clone()),
                sha1: chain.first().map(|leaf| leaf.sha1.clone()).into(),
                not_before: of(|content| stamp(content.not_before)),
                not_after: of(|content| stamp(content.not_after)),
                names: content.as_ref().map_or(Value::None, |content| texts(&content.names)),
            }
        };
        let server_certificate = certificate(server, &server_leaf);
        let client_certificate = certificate(client, &client_leaf);
        let subject = |leaf: &Option<Content>| Value::from(leaf.as_ref().map(|leaf| leaf.subject.clone()));
        let issuer = |leaf: &Option<Content>| Value::from(leaf.as_ref().map(|leaf| leaf.issuer.clone()));
        let values = values_of!(
            columns,
            TLS.fields,
            version = self.version.map(|version| names::version(version).into_owned()),
            cipher = self.cipher.map(|cipher| names::cipher(cipher).into_owned()),
            curve = self.curve.map(|curve| names::group(curve).into_owned()),
            server_name = host.cloned(),
            resumed = self.resumed,
            last_alert = self.last_alert.map(|alert| names::alert(alert).into_owned()),
            next_protocol = alpn.clone(),
            established = self.established,
            history = history,
            chain = marks(server),
            client_chain = marks(client),
            subject = subject(&server_leaf),
            issuer = issuer(&server_leaf),
            client_subject = subject(&client_leaf),
            client_issuer = issuer(&client_leaf),
            name_matches = matches(),
            subject_line = server_certificate.subject_line,
            issuer_line = server_certificate.issuer_line,
            serial = server_certificate.serial,
            sha1 = server_certificate.sha1,
            not_before = server_certificate.not_before,
            not_after = server_certificate.not_after,
            names = server_certificate.names,
            client_subject_line = client_certificate.subject_line,
            client_issuer_line = client_certificate.issuer_line,
            client_serial = client_certificate.serial,
            client_sha1 = client_certificate.sha1,
            client_not_before = client_certificate.not_before,
            client_not_after = client_certificate.not_after,
            client_names = client_certificate.names,
            spoken = names::long_version(drafted.or(self.version)).into_owned(),
            session_resumed = self.resumed.then_some(true),
            ja3 = ja3.as_deref().map(md5),
            ja3_text = ja3.clone(),
            ja3s = ja3s.as_deref().map(md5),
            ja3s_text = ja3s.clone(),
            ja4 = hello.as_ref().map(|hello| hello.ja4(over)),
            client_protocols = hello.as_ref().map_or(Value::None, |hello| texts(&hello.alpn)),
            server_protocols = alpn.map_or(Value::None, |alpn| [alpn].into_iter().collect()),
            client_version = offered.map(|version| names::long_version(Some(version)).into_owned()),
            client_ciphers = hello.as_ref().map_or(Value::None, |hello| {
                let plain = |cipher: &u32| u16::try_from(*cipher).is_ok_and(|c| !names::is_grease(c));
                hello.ciphers.iter().copied().filter(plain).collect()
            }),
            client_extensions = hello.as_ref().map_or(Value::None, |hello| plain(&hello.extensions)),
            client_signatures = hello.as_ref().map_or(Value::None, |hello| plain(&hello.signatures)),
            server_version = drafted.map(|version| names::long_version(Some(version)).into_owned()),
            server_cipher = answer.as_ref().map(|answer| answer.cipher),
            server_extensions = answer.as_ref().map_or(Value::None, |answer| plain(&answer.extensions)),
            encrypted_hello = hello.as_ref().map(|hello| hello.encrypted_hello),
            early_data = hello.as_ref().map(|hello| hello.early_data),
            from_protocol = self.from.map(|protocol| protocol.name),
        );
        let mut at = self.at;
        at.add(out.both());
        out.record(Record::new(self.table(), begun, values).over(at));
    }
}

/// Values of the first certificate of a side.
struct Leaf {
    subject_line: Value<'static>,
    issuer_line: Value<'static>,
    serial: Value<'static>,
    sha1: Value<'static>,
    not_before: Value<'static>,
    not_after: Value<'static>,
    names: Value<'static>,
}

/// Whether a version encrypts everything after the hellos: TLS 1.3, its drafts and experiments.
fn is_new(version: u16) -> bool {
    version == names::TLS13 || version == 0xfefc || matches!(version >> 8, 0x7e | 0x7f | 0xfb)
}

/// The bytes after a length of three bytes.
fn three<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let [high, low] = [reader.u8()?.into(), usize::from(reader.u16()?)];
    let high: usize = high;
    reader.take(high << 16 | low)
}

fn emit_certificate(
    certificate: &Certificate,
    content: &Content,
    seen: Time,
    is_host: bool,
    is_client: bool,
    out: &mut dyn Out,
) {
    out.record(record!(
        X509,
        seen,
        sha256 = &certificate.sha256,
        version = content.version,
        serial = &content.serial,
        subject = &content.subject,
        issuer = &content.issuer,
        not_before = time(content.not_before),
        not_after = time(content.not_after),
        key_algorithm = &content.key_algorithm,
        signature_algorithm = &content.signature_algorithm,
        key_type = content.key_type,
        key_length = (content.key_length > 0).then_some(content.key_length),
        exponent = content.exponent.clone(),
        curve = content.curve.clone(),
        dns_names = Value::list(&content.dns),
        uris = Value::list(&content.uris),
        mails = Value::list(&content.mails),
        addresses = Value::list(content.addresses.iter().copied()),
        is_ca = content.is_ca,
        path_length = content.path_length,
        host = is_host,
        client = is_client,
    ));
}
