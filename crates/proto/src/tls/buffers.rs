//! The texts of a handshake that rules search.

use super::certificate::Certificate;
use super::hello::{ClientHello, Random, ServerHello};
use super::over::Over;
use crate::early::emit_fingerprint;
use crate::{Asked, Buffer, Out};
use weir_wire::{Direction, Time};

static SNI: Buffer =
    Buffer::whole("tls.sni", "Server name that a client requests (SNI), also within QUIC and DTLS.");
static ALPN: Buffer = Buffer::whole(
    "tls.alpn",
    "An application protocol that a client offers or a server chose (ALPN), also within QUIC and DTLS.",
);
static RANDOM: Buffer = Buffer::whole("tls.random", "The 32 random bytes of a hello.");
static RANDOM_TIME: Buffer = Buffer::whole("tls.random_time", "The first 4 of the random bytes of a hello.");
static RANDOM_BYTES: Buffer =
    Buffer::whole("tls.random_bytes", "The last 28 of the random bytes of a hello.");
static CERTIFICATES: Buffer = Buffer::whole("tls.certs", "A certificate as sent (DER).");
static CERT_SUBJECT: Buffer = Buffer::whole(
    "tls.cert_subject",
    "Subject of a side's first certificate, in its order: `C=US, O=Example, CN=example.org`.",
);
static CERT_ISSUER: Buffer = Buffer::whole(
    "tls.cert_issuer",
    "Issuer of a side's first certificate, in the form of tls.cert_subject.",
);
static CERT_SERIAL: Buffer = Buffer::whole(
    "tls.cert_serial",
    "Serial number of a side's first certificate, in capital hexadecimal digits: `01:A2:0B`.",
);
static CERT_FINGERPRINT: Buffer = Buffer::whole(
    "tls.cert_fingerprint",
    "SHA-1 of a side's first certificate, in lower-case hexadecimal digits: `01:a2:0b`.",
);
static SUBJECT_ALT_NAME: Buffer = Buffer::whole(
    "tls.subjectaltname",
    "An alternative name of a side's first certificate: host name, address, mail address or URI.",
);

static JA3: Buffer = Buffer::whole(
    "ja3.hash",
    "JA3 of a client hello, also within QUIC and DTLS: MD5 in lower-case hexadecimal digits.",
);
static JA3_TEXT: Buffer =
    Buffer::whole("ja3.string", "Text that JA3 is the MD5 of: `771,49196-255,0-11,29,0`.");
static JA3S: Buffer = Buffer::whole(
    "ja3s.hash",
    "JA3S of a server hello, also within QUIC and DTLS: MD5 in lower-case hexadecimal digits.",
);
static JA3S_TEXT: Buffer =
    Buffer::whole("ja3s.string", "Text that JA3S is the MD5 of: `771,49196,65281-11`.");
static JA4: Buffer = Buffer::whole("ja4.hash", "JA4 of a client hello, also within QUIC and DTLS.");

static VERSION: Buffer = Buffer::number(
    "tls.version",
    "Version of a hello over TCP: of a client the first one that it offers, of a server the one that it chooses.",
);
static STATE: Buffer = Buffer::number(
    "tls.state",
    "Type of a hello or key exchange of a handshake over TCP: 1 and 2 hellos, 12 and 16 key exchanges of server and client.",
);
static CHAIN_LENGTH: Buffer = Buffer::number(
    "tls.cert_chain_len",
    "Number of certificates of a chain, up to 32; 0 where a server encrypts before it sends one.",
);

static NOT_BEFORE: Buffer = Buffer::number(
    "tls.cert_not_before",
    "Beginning of the validity of a side's first certificate in seconds since 1970; 0 before.",
);
static NOT_AFTER: Buffer = Buffer::number(
    "tls.cert_not_after",
    "End of the validity of a side's first certificate in seconds since 1970; 0 before.",
);
static VALIDITY: Buffer = Buffer::number(
    "tls.cert_validity",
    "Whether a side's first certificate was valid when it was sent: 0 yes, 1 not any more, 2 not yet.",
);

pub(super) static ALL: &[&Buffer] = &[
    &SNI,
    &CERTIFICATES,
    &CERT_SUBJECT,
    &CERT_ISSUER,
    &CERT_SERIAL,
    &CERT_FINGERPRINT,
    &SUBJECT_ALT_NAME,
    &ALPN,
    &RANDOM,
    &RANDOM_TIME,
    &RANDOM_BYTES,
    &JA3,
    &JA3_TEXT,
    &JA3S,
    &JA3S_TEXT,
    &JA4,
    &VERSION,
    &STATE,
    &CHAIN_LENGTH,
    &NOT_BEFORE,
    &NOT_AFTER,
    &VALIDITY,
];

/// Buffers with contents of a side's first certificate.
static OF_FIRST: [&Buffer; 8] = [
    &CERT_SUBJECT,
    &CERT_ISSUER,
    &CERT_SERIAL,
    &CERT_FINGERPRINT,
    &SUBJECT_ALT_NAME,
    &NOT_BEFORE,
    &NOT_AFTER,
    &VALIDITY,
];

/// Emits the buffers of a client hello.
pub(super) fn client_hello(hello: &ClientHello, over: Over, side: Direction, out: &mut dyn Out) {
    hello.server_names.iter().for_each(|name| out.emit(&SNI, side, name));
    hello.alpn.iter().for_each(|protocol| out.emit(&ALPN, side, protocol));
    random(hello.random, over, side, out);
    emit_fingerprint([&JA3, &JA3_TEXT], || hello.ja3().into_bytes(), side, out);
    if over == Over::Stream {
        out.emit_number(&VERSION, side, hello.preferred().into());
    }
    if out.asked().has(&JA4) {
        out.buffer(&JA4, side, hello.ja4(over.letter()).as_bytes());
    }
}

/// Emits the buffers of a server hello.
pub(super) fn server_hello(hello: &ServerHello, over: Over, side: Direction, out: &mut dyn Out) {
    hello.alpn.iter().for_each(|protocol| out.emit(&ALPN, side, protocol));
    random(hello.random, over, side, out);
    if over == Over::Stream {
        out.emit_number(&VERSION, side, hello.spoken().into());
    }
    emit_fingerprint([&JA3S, &JA3S_TEXT], || hello.ja3s().into_bytes(), side, out);
}

/// Emits the random bytes of a hello. Rules for them are about TLS alone.
fn random(random: Option<Random>, over: Over, side: Direction, out: &mut dyn Out) {
    let Some(random) = random.filter(|_| over != Over::Quic) else { return };
    let [a, b, c, d, bytes @ ..] = &random;
    for (buffer, part) in [(&RANDOM, &random[..]), (&RANDOM_TIME, &[*a, *b, *c, *d]), (&RANDOM_BYTES, bytes)]
    {
        out.emit(buffer, side, part);
    }
}

/// Whether any buffer is asked for that has contents of a side's first certificate, which must be parsed for it.
pub(super) fn read_first(asked: Asked) -> bool {
    OF_FIRST.iter().any(|buffer| asked.has(buffer))
}

/// Emits the type of a message of a handshake that states of it are named after.
pub(super) fn state(kind: u8, over: Over, side: Direction, out: &mut dyn Out) {
    if over == Over::Stream && matches!(kind, 1 | 2 | 12 | 16) {
        out.emit_number(&STATE, side, kind.into());
    }
}

/// Emits the version of a hello of SSLv2 that has no other form.
pub(super) fn version(version: u16, side: Direction, out: &mut dyn Out) {
    out.emit_number(&VERSION, side, version.into());
}

/// Emits the number of certificates of a chain.
pub(super) fn chain_length(length: usize, side: Direction, out: &mut dyn Out) {
    out.emit_number(&CHAIN_LENGTH, side, length as u64);
}

/// Emits a certificate as it was sent.
pub(super) fn sent(certificate: &[u8], side: Direction, out: &mut dyn Out) {
    out.emit(&CERTIFICATES, side, certificate);
}

/// Emits the buffers of a side's first certificate, sent at a time. A malformed one has a fingerprint only.
pub(super) fn first(certificate: &Certificate, time: Time, side: Direction, out: &mut dyn Out) {
    out.emit(&CERT_FINGERPRINT, side, certificate.sha1.as_bytes());
    let Some(content) = &certificate.content else { return };
    out.emit(&CERT_SUBJECT, side, content.subject_line.as_bytes());
    out.emit(&CERT_ISSUER, side, content.issuer_line.as_bytes());
    out.emit(&CERT_SERIAL, side, content.serial_pairs.as_bytes());
    content.names.iter().for_each(|name| out.emit(&SUBJECT_ALT_NAME, side, name));
    let seconds = |since: i64| u64::try_from(since).unwrap_or_default();
    let (from, to) = (seconds(content.not_before), seconds(content.not_after));
    out.emit_number(&NOT_BEFORE, side, from);
    out.emit_number(&NOT_AFTER, side, to);
    let validity = match time.secs() {
        now if now > to => 1,
        now if now < from => 2,
        _ => 0,
    };
    out.emit_number(&VALIDITY, side, validity);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::{Collected, talks};
    use crate::talk::{Talk, Turn};
    use crate::{Columns, Expected, Record, Table, Value};
    use weir_wire::Direction::{Forward, Reverse};

    /// Every conversation with a handshake.
    fn handshakes() -> Vec<Talk> {
        let all = [("tls", 443), ("dtls", 684), ("quic", 443)];
        all.into_iter().flat_map(|(name, port)| talks(name, port)).map(|(_, talk)| talk).collect()
    }

    fn case(name: &str) -> Talk {
        talks("tls", 443).into_iter().find(|(path, _)| path.ends_with(name)).unwrap().1
    }

    fn all_of(talk: &Talk) -> Collected {
        talk.asked(|data| vec![data.to_vec()])
    }

    /// The values of a buffer that a side sent.
    fn sent_by(side: Direction, name: &str, emitted: &Collected) -> Vec<Vec<u8>> {
        let values = emitted.buffers.iter().filter(|(buffer, of, _)| buffer.name == name && *of == side);
        values.map(|(_, _, bytes)| bytes.clone()).collect()
    }

    /// The texts of a field in the records of a table.
    fn texts(field: &str, records: &[Record<'_>], table: &str) -> Vec<Vec<u8>> {
        fn add(value: &Value<'_>, texts: &mut Vec<Vec<u8>>) {
            match value {
                Value::Text(text) => texts.push(text.to_vec()),
                Value::List(values) => values.iter().for_each(|value| add(value, texts)),
                _ => {}
            }
        }
        let mut texts = Vec::new();
        let rows = records.iter().filter(|record| record.table.name == table);
        rows.for_each(|record| add(record.get(field), &mut texts));
        texts
    }

    /// Asserts that each buffer has the values that these fields of a table have, of one side or both.
    fn assert_equal_fields(buffers: &[(&str, &[&str])], table: &str, talks: &[Talk]) {
        for (buffer, fields) in buffers {
            let mut seen = 0;
            for talk in talks {
                let emitted = all_of(talk);
                let both = [Forward, Reverse].map(|side| sent_by(side, buffer, &emitted));
                let values = fields.iter().flat_map(|field| texts(field, &emitted.records, table));
                let (mut given, mut expected) = (both.concat(), values.collect::<Vec<_>>());
                given.sort();
                expected.sort();
                assert_eq!(given, expected, "{buffer}: {talk}");
                seen += given.len();
            }
            assert!(seen > 1, "{buffer}: {seen}");
        }
    }

    #[test]
    fn certificates_have_the_values_of_the_records() {
        let buffers: &[(&str, &[&str])] = &[
            ("tls.cert_subject", &["subject_line", "client_subject_line"]),
            ("tls.cert_issuer", &["issuer_line", "client_issuer_line"]),
            ("tls.cert_serial", &["serial", "client_serial"]),
            ("tls.cert_fingerprint", &["sha1", "client_sha1"]),
            ("tls.subjectaltname", &["names", "client_names"]),
        ];
        assert_equal_fields(buffers, "tls", &handshakes());
    }

    #[test]
    fn hellos_have_the_values_of_the_records() {
        let buffers: &[(&str, &[&str])] = &[
            ("ja3.hash", &["ja3"]),
            ("ja3.string", &["ja3_text"]),
            ("ja3s.hash", &["ja3s"]),
            ("ja3s.string", &["ja3s_text"]),
            ("ja4.hash", &["ja4"]),
        ];
        let (quic, others): (Vec<Talk>, Vec<Talk>) = handshakes()
            .into_iter()
            .partition(|talk| all_of(talk).records.iter().any(|record| record.table.name == "quic"));
        assert_equal_fields(buffers, "tls", &others);
        assert_equal_fields(&[("tls.alpn", &["client_protocols", "server_protocols"])], "tls", &others);
        assert_equal_fields(buffers, "quic_hello", &quic);
        let names: &[(&str, &[&str])] =
            &[("tls.sni", &["server_name"]), ("quic.sni", &["server_name"]), ("quic.version", &["version"])];
        assert_equal_fields(names, "quic_hello", &quic);
    }

    /// The random bytes are those in the hellos, after the headers of record and message and the version.
    #[test]
    fn random_bytes_are_those_of_the_hellos() {
        let talk = case("tls12.talk");
        let emitted = all_of(&talk);
        for side in [Forward, Reverse] {
            let first = talk.turns.iter().find_map(|turn| match turn {
                Turn::Data(of, data) if *of == side => Some(data),
                _ => None,
            });
            let random = &first.unwrap()[11..43];
            for (name, part) in [
                ("tls.random", random),
                ("tls.random_time", &random[..4]),
                ("tls.random_bytes", &random[4..]),
            ] {
                assert_eq!(sent_by(side, name, &emitted), [part], "{name}");
            }
        }
        // The request for another hello has no choice of the server, and the second client hello repeats the first.
        let emitted = all_of(&case("tls13-retry.talk"));
        for (side, name) in [(Forward, "tls.random"), (Reverse, "tls.random"), (Forward, "ja3.hash")] {
            assert_eq!(sent_by(side, name, &emitted).len(), 1, "{name}");
        }
        assert!(sent_by(Reverse, "tls.random", &emitted)[0][..2] != [0xcf, 0x21]);
    }

    /// The buffers are about the first certificate of the chain only, and its texts are in Suricata's form.
    #[test]
    fn the_first_certificate_of_each_side_has_buffers() {
        let emitted = all_of(&case("tls10-client-certificate.talk"));
        assert!(sent_by(Reverse, "tls.certs", &emitted).len() > 1);
        for (name, expected) in [
            ("tls.cert_subject", "C=XX, ST=Some State, O=Weir, CN=mail.weir.test, Email=post@weir.test"),
            ("tls.cert_issuer", "C=XX, O=Weir Test, Lab, CN=Weir Test Root"),
            ("tls.cert_serial", "6E:67:99:39:99:67:58:22:8E:7E:2B:BC:E9:77:A4:0D:AE:EC:11:1A"),
            ("tls.cert_fingerprint", "ca:9e:17:3a:c2:39:75:a4:63:14:40:d9:f8:e8:9f:63:73:2f:0b:6e"),
        ] {
            assert_eq!(sent_by(Reverse, name, &emitted), [expected.as_bytes()], "{name}");
            let of_client = sent_by(Forward, name, &emitted);
            assert!(of_client.len() == 1 && of_client[0] != expected.as_bytes(), "{name}");
        }
        let names = ["mail.weir.test", "*.weir.test", "192.0.2.7", "post@weir.test", "https://weir.test/"];
        assert_eq!(sent_by(Reverse, "tls.subjectaltname", &emitted), names.map(str::as_bytes));
    }

    /// Takes buffers, and neither records nor fields.
    struct Only {
        asked: Asked,
        taken: Vec<(&'static Buffer, Direction, Vec<u8>)>,
    }

    impl Out for Only {
        fn record(&mut self, _: Record<'_>) {}

        fn takes(&self, _: &Table) -> bool {
            false
        }

        fn reads(&self, _: &'static Table) -> Columns {
            Columns::NONE
        }

        fn asked(&self) -> Asked {
            self.asked
        }

        fn buffer(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
            self.taken.push((buffer, side, bytes.to_vec()));
        }

        fn expect(&mut self, _: Expected) {}

        fn content(&mut self, _: u64, _: u64, _: &[u8]) -> bool {
            true
        }
    }

    /// A buffer that alone is asked for, without any record, has all of its values.
    #[test]
    fn a_buffer_does_not_depend_on_what_else_is_asked_for() {
        for talk in handshakes() {
            let all = all_of(&talk).buffers;
            for buffer in crate::buffers() {
                let mut only = Only { asked: Asked::of([], [buffer]), taken: Vec::new() };
                talk.emit(|data, see| see(data), &mut only);
                let expected: Vec<_> = all.iter().filter(|(of, ..)| *of == buffer).cloned().collect();
                assert_eq!(only.taken, expected, "{}: {talk}", buffer.name);
            }
        }
    }
}
