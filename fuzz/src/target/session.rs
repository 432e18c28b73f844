//! The payload of a flow.

use super::Digest;
use crate::Target;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use weir_proto::{Expected, Out, PROTOCOLS, Record, Session, Setup, TCP, UDP, Wants};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub const TARGET: Target = Target {
    name: "session",
    about: "three bytes that select transport, port and cut, and the payload of both sides: equal records for any cut, memory \
            bounded by the payload",
    seeds,
    words: &[
        b"HTTP/1.1\r\n",
        b"GET / ",
        b"\r\n\r\n",
        b"Content-Length: ",
        b"Transfer-Encoding: chunked\r\n",
        b"220 ",
        b"EHLO ",
        b"USER ",
        b"* OK ",
        b"SSH-2.0-",
        b"+OK ",
        b"SIP/2.0 ",
        b"\x16\x03\x01",
        b"\x01\x00",
        b"\xffSMB",
        b"\xfeSMB",
        b"MQTT",
        b"\r\n.\r\n",
        b"BDAT ",
        b"{10}\r\n",
        b"227 ",
        b"EPRT ",
        b"\xc0\x0c",
        b"\xff\xff\xff\xff",
    ],
    run,
};

/// The blocks of a conversation, in a form that stays valid under mutation: a byte (bit 0: the responder; bits 1 to 3
/// all set: a gap before it), two for the length (little-endian), and the payload.
fn blocks(mut bytes: &[u8]) -> Vec<(Direction, u64, &[u8])> {
    let mut blocks = Vec::new();
    while let Some((&[kind, low, high], rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (data, rest) = rest.split_at(len);
        let direction = if kind & 1 == 0 { Direction::Forward } else { Direction::Reverse };
        blocks.push((direction, if kind & 14 == 14 { u64::from(kind) } else { 0 }, data));
        bytes = rest;
    }
    blocks
}

#[derive(Default)]
struct Collected {
    records: Vec<Record<'static>>,
    content: Vec<(u64, Vec<u8>)>,
    expected: u64,
}

impl Out for Collected {
    fn record(&mut self, record: Record<'_>) {
        assert_eq!(record.values.len(), record.table.fields.len(), "{}", record.table.name);
        // In mutated conversations, the bytes of a record may still depend on the cut where messages of both sides overlap.
        self.records.push(Record { at: Default::default(), ..record.into_owned() });
    }

    fn expect(&mut self, _: Expected) {
        self.expected += 1;
    }

    fn content(&mut self, file: u64, _: u64, bytes: &[u8]) -> bool {
        match self.content.iter_mut().find(|(name, _)| *name == file) {
            Some((_, content)) => content.extend_from_slice(bytes),
            None => self.content.push((file, bytes.to_vec())),
        }
        true
    }
}

fn emitted(setup: &Setup, blocks: &[(Direction, u64, &[u8])], cut: usize) -> (Vec<&'static str>, Collected) {
    let (mut session, mut emitted) = (Session::new(), Collected::default());
    let (mut time, mut steps) = (Time(1_700_000_000_000_000_000), 0);
    for (direction, gap, data) in blocks {
        time.0 += 1_000_000;
        let mut gap = *gap;
        let mut pieces = data.chunks(cut);
        loop {
            // A block without bytes is one piece.
            let piece = match pieces.next() {
                Some(piece) => piece,
                None if data.is_empty() && gap > 0 => &[],
                None => break,
            };
            let chunk = Chunk { time, direction: *direction, gap, data: piece };
            session.chunk(&chunk, &|| setup.clone(), &mut emitted);
            gap = 0;
        }
        steps += data.len();
        // Decompression increases it, within its own limits.
        assert!(session.memory() < 8 * steps + (4 << 20), "{} bytes are held of {steps}", session.memory());
    }
    session.end(time, &|| setup.clone(), &mut emitted);
    (session.found().map(|protocol| protocol.name).collect(), emitted)
}

fn run(input: &[u8]) -> u64 {
    let Some((&[transport, port, cut], input)) = input.split_first_chunk() else { return 0 };
    let ports: Vec<u16> = PROTOCOLS.iter().flat_map(|protocol| protocol.ports).copied().collect();
    let responder = ports.get(usize::from(port)).copied().unwrap_or(40_000);
    let ip_proto = if transport & 1 == 0 { TCP } else { UDP };
    let setup = Setup {
        flow: 7,
        initiator: (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 50_000),
        responder: (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)), responder),
        ip_proto,
        wants: Wants {
            hashes: if transport & 2 != 0 { weir_proto::Hashes::ALL } else { weir_proto::Hashes::default() },
            content: true,
            ..Wants::default()
        },
    };
    let blocks = blocks(input);
    let (found, whole) = emitted(&setup, &blocks, usize::MAX);
    if ip_proto == TCP {
        let (found_too, parts) = emitted(&setup, &blocks, 1 + usize::from(cut));
        // Random bytes may be identified as another protocol if more of them are available.
        if found == found_too {
            assert_eq!(whole.records, parts.records, "{found:?} cut into pieces of {}", 1 + usize::from(cut));
            assert_eq!(whole.content, parts.content, "{found:?} cut into pieces of {}", 1 + usize::from(cut));
        }
    }
    let mut digest = Digest::default();
    found.iter().for_each(|name| name.bytes().for_each(|byte| digest.add(byte.into())));
    for record in &whole.records {
        let none = record.values.iter().filter(|value| value.is_none()).count();
        digest.add(record.table.name.len() as u64 * 64 + none as u64);
    }
    digest.size(whole.expected);
    digest.0
}

/// The conversations of the repository.
fn seeds() -> Vec<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    let mut seeds = Vec::new();
    for protocol in PROTOCOLS {
        let Ok(folder) = fs::read_dir(data.join(protocol.name)) else { continue };
        let mut paths: Vec<_> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "talk"));
        paths.sort();
        seeds.extend(
            paths
                .iter()
                .filter_map(|path| fs::read_to_string(path).ok())
                .map(|text| seed(protocol.ports, &text)),
        );
    }
    seeds.push(vec![0, 0, 0]);
    seeds
}

fn seed(own: &[u16], text: &str) -> Vec<u8> {
    let ports = PROTOCOLS.iter().flat_map(|protocol| protocol.ports);
    let port = ports.into_iter().position(|port| own.contains(port)).unwrap_or(255) as u8;
    let mut bytes = vec![u8::from(text.lines().any(|line| line.starts_with(": udp"))), port, 0];
    let mut block: Option<(u8, Vec<u8>)> = None;
    let mut end = |block: &mut Option<(u8, Vec<u8>)>| {
        if let Some((kind, data)) = block.take() {
            bytes.push(kind);
            bytes.extend((data.len() as u16).to_le_bytes());
            bytes.extend(data);
        }
    };
    for line in text.lines() {
        let (mark, rest) = line.split_at(line.len().min(2));
        match mark {
            "> " | "< " => {
                end(&mut block);
                block = Some((u8::from(mark == "< "), unescaped(rest)));
            }
            "  " => block.iter_mut().for_each(|(_, data)| data.extend(unescaped(rest))),
            _ => {}
        }
    }
    end(&mut block);
    bytes
}

/// Decodes the escapes of conversations; invalid ones are kept.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        let escape = if *first == b'\\' { tail.first().copied() } else { None };
        let plain = match escape {
            Some(b'r') => Some(b'\r'),
            Some(b'n') => Some(b'\n'),
            Some(b't') => Some(b'\t'),
            Some(b'0') => Some(0),
            Some(b'\\') => Some(b'\\'),
            Some(b'x') => {
                tail.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| {
                    rest = &tail[2..];
                    u8::from_str_radix(digits, 16).ok()
                })
            }
            _ => None,
        };
        bytes.push(plain.unwrap_or(*first));
        if plain.is_some() {
            rest = &rest[1..];
        }
    }
    bytes
}
