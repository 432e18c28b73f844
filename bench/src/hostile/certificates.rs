//! TLS: hellos, handshake messages in small records, and certificates with as much in them as they hold.

use super::{Capture, Case, conversations, stream};
use weir_wire::Direction::{Forward, Reverse};

pub const CASES: &[Case] = &[
    Case { name: "tls-hellos", about: "a flow for each short hello", fill: hellos },
    Case {
        name: "tls-extensions",
        about: "hellos of extensions without content",
        fill: |c| extensions(c, 0),
    },
    Case { name: "tls-ciphers", about: "hellos of cipher suites", fill: |c| extensions(c, 16_000) },
    Case { name: "tls-records", about: "a message in records of one byte", fill: records },
    Case { name: "tls-alerts", about: "alerts", fill: alerts },
    Case { name: "tls-messages", about: "handshake messages without content", fill: messages },
    Case { name: "tls-chains", about: "chains of certificates of 3 bytes", fill: chains },
    Case {
        name: "x509-names",
        about: "certificates of alternative names of one letter",
        fill: |c| certificates(c, &names()),
    },
    Case {
        name: "x509-subject",
        about: "certificates of attributes of a subject",
        fill: |c| certificates(c, &subject()),
    },
    Case {
        name: "x509-deep",
        about: "certificates of sequences in one another",
        fill: |c| certificates(c, &deep()),
    },
    Case {
        name: "x509-extensions",
        about: "certificates of extensions without content",
        fill: |c| certificates(c, &unknown()),
    },
];

const PORTS: [u16; 2] = [40_000, 443];

/// A length of three bytes, and what it counts.
fn counted(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u32).to_be_bytes()[1..], data].concat()
}

/// Splits a message into TLS records of at most `each` bytes.
fn record(kind: u8, data: &[u8], each: usize) -> Vec<u8> {
    let one = |piece: &[u8]| [&[kind, 3, 3], &(piece.len() as u16).to_be_bytes()[..], piece].concat();
    data.chunks(each).flat_map(one).collect()
}

fn message(kind: u8, data: &[u8]) -> Vec<u8> {
    [&[kind][..], &counted(data)].concat()
}

fn hello(ciphers: usize, extensions: &[u8]) -> Vec<u8> {
    let suites: Vec<u8> = (0..ciphers as u16).flat_map(u16::to_be_bytes).collect();
    let len = |n: usize| (n as u16).to_be_bytes();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &len(suites.len()),
        &suites,
        &[1, 0],
        &len(extensions.len()),
        extensions,
    ];
    message(1, &body.concat())
}

/// The answer to a hello, without extensions.
fn answer() -> Vec<u8> {
    message(2, &[&[3, 3][..], &[7; 32], &[0, 0, 0x2f, 0]].concat())
}

fn hellos(capture: &mut Capture) {
    let data = record(22, &hello(1, &[0, 0, 0, 6, 0, 4, 0, 0, 1, b'a']), 16_384);
    conversations(capture, 6, PORTS, |_| vec![(Forward, data.clone())]);
}

fn extensions(capture: &mut Capture, ciphers: usize) {
    let extensions: Vec<u8> = (0..7000_u16).flat_map(|n| [(n >> 8) as u8, n as u8, 0, 0]).collect();
    let data = record(22, &hello(ciphers.max(1), if ciphers > 0 { &[] } else { &extensions }), 16_384);
    conversations(capture, 6, PORTS, |_| vec![(Forward, data.clone())]);
}

fn records(capture: &mut Capture) {
    let first = record(22, &hello(1, &[]), 16_384);
    let certificate = record(22, &[&answer()[..], &message(11, &[0; 60_000])].concat(), 1);
    stream(capture, PORTS, &[(Forward, &first)], Reverse, |_| certificate.clone());
}

fn alerts(capture: &mut Capture) {
    let first = record(22, &hello(1, &[]), 16_384);
    let second = record(22, &answer(), 16_384);
    stream(capture, PORTS, &[(Forward, &first), (Reverse, &second)], Reverse, |_| record(21, &[1, 90], 2));
}

fn messages(capture: &mut Capture) {
    let first = record(22, &hello(1, &[]), 16_384);
    let second = record(22, &answer(), 16_384);
    let empty = record(22, &message(22, &[]).repeat(4000), 16_384);
    stream(capture, PORTS, &[(Forward, &first), (Reverse, &second)], Reverse, |_| empty.clone());
}

/// Flows whose server sends that list of certificates.
fn flows(capture: &mut Capture, list: &[u8]) {
    let first = record(22, &hello(1, &[]), 16_384);
    let second = record(22, &[answer(), message(11, &counted(list)), message(14, &[])].concat(), 16_384);
    conversations(capture, 6, PORTS, |_| vec![(Forward, first.clone()), (Reverse, second.clone())]);
}

fn chains(capture: &mut Capture) {
    flows(capture, &counted(&[0x30, 1, 0]).repeat(16_000));
}

fn certificates(capture: &mut Capture, certificate: &[u8]) {
    flows(capture, &counted(certificate));
}

/// A value in DER.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let head = match length {
        ..128 => vec![tag, length as u8],
        128..65_536 => vec![tag, 0x82, (length >> 8) as u8, length as u8],
        _ => vec![tag, 0x83, (length >> 16) as u8, (length >> 8) as u8, length as u8],
    };
    [head, content].concat()
}

/// A certificate with that subject and those extensions.
fn certificate(subject: &[u8], extensions: &[u8]) -> Vec<u8> {
    let algorithm = der(0x30, &[&der(6, &[&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11]]), &[5, 0]]);
    let validity = der(0x30, &[&der(0x17, &[b"260101000000Z"]), &der(0x17, &[b"270101000000Z"])]);
    let key = der(0x30, &[&algorithm, &der(3, &[&[0], &der(0x30, &[&[2, 1, 5], &[2, 1, 3]])])]);
    let extensions = der(0xa3, &[&der(0x30, &[extensions])]);
    let version = der(0xa0, &[&[2, 1, 2]]);
    let name = der(0x30, &[subject]);
    let body = der(0x30, &[&version, &[2, 1, 7], &algorithm, &name, &validity, &name, &key, &extensions]);
    der(0x30, &[&body, &algorithm, &der(3, &[&[0, 0]])])
}

fn names() -> Vec<u8> {
    let names = der(0x30, &[&b"\x82\x01a".repeat(16_000)]);
    certificate(&[], &der(0x30, &[&der(6, &[&[0x55, 0x1d, 17]]), &der(4, &[&names])]))
}

fn subject() -> Vec<u8> {
    let attribute = der(0x31, &[&der(0x30, &[&der(6, &[&[0x55, 4, 11]]), &der(12, &[b"a"])])]);
    certificate(&attribute.repeat(2000), &[])
}

fn deep() -> Vec<u8> {
    let mut value = Vec::new();
    // Longer and longer heads: as deep as a chain has room.
    for _ in 0..14_000 {
        value = der(0x30, &[&value]);
    }
    certificate(&value, &[])
}

fn unknown() -> Vec<u8> {
    certificate(&[], &der(0x30, &[&der(6, &[&[0x55, 0x1d, 1]]), &[4, 0]]).repeat(5000))
}
