//! Seeds: the captures of the repository, and those of `../shared/data` if it is present.

use std::fs;
use std::path::{Path, PathBuf};

use weir_capture::{Files, Input, ReadOptions};
use weir_wire::build::{ethernet, flags, packet};
use weir_wire::{LinkType, PacketBuf};

use crate::sequence;

/// Maximum size of a capture in bytes: larger ones make slow seeds.
const MAX_BYTES: u64 = 64 << 10;
/// Maximum number of packets from the beginning of a capture.
const MAX_PACKETS: usize = 48;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every small capture, sorted by path.
fn captures() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("testdata"), root().join("../shared/data")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                folders.push(path);
            } else if is_capture(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_capture(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kinds = [".pcap", ".pcapng", ".cap", ".ntar", ".trace", ".gz", ".zst", ".dmp"];
    kinds.iter().any(|kind| name.ends_with(kind))
        && fs::metadata(path).is_ok_and(|data| (1..=MAX_BYTES).contains(&data.len()))
}

/// The captures as files.
pub fn files() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = captures().iter().filter_map(|path| fs::read(path).ok()).collect();
    seeds.push(small_pcap());
    seeds
}

/// The captures as sequences of packets.
pub fn sequences() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = captures()
        .into_iter()
        .filter_map(|path| {
            let chunk = first_packets(path)?;
            let packets = chunk.batch().packets().take(MAX_PACKETS);
            Some(sequence::encode(packets))
        })
        .collect();
    seeds.push(sequence::encode(built().iter().map(|bytes| packet(bytes, LinkType::ETHERNET))));
    seeds
}

/// Sequences of packets after a byte that selects their target.
pub fn chosen_sequences() -> Vec<Vec<u8>> {
    let choices = (0..=u8::MAX).cycle();
    sequences()
        .into_iter()
        .zip(choices)
        .map(|(sequence, choice)| [&[choice], &sequence[..]].concat())
        .collect()
}

/// Packets of the captures, one by one, each after the number of its link type.
pub fn packets() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for sequence in sequences() {
        let chunk = sequence::decode(&sequence);
        for packet in chunk.batch().packets().step_by(5) {
            // The encoding begins with the link type's number.
            let encoded = sequence::encode(std::iter::once(packet));
            seeds.push([&encoded[..1], &encoded[3..]].concat());
        }
    }
    seeds
}

/// Expressions, each with a packet after it.
pub fn expressions() -> Vec<Vec<u8>> {
    let packets = packets();
    let mut expressions: Vec<String> = EXPRESSIONS.iter().map(|text| (*text).to_owned()).collect();
    let cases = fs::read(root().join("../shared/data/libpcap/filter_tests.json")).unwrap_or_default();
    if let Ok(cases) = serde_json::from_slice::<serde_json::Value>(&cases) {
        strings(&cases, &mut expressions);
    }
    let packets = packets.iter().step_by((packets.len() / expressions.len()).max(1)).cycle();
    let pair = |(expression, packet): (&String, &Vec<u8>)| [expression.as_bytes(), b"\n", packet].concat();
    expressions.iter().zip(packets).map(pair).collect()
}

/// Rules, each with the bytes of a buffer after it: one for each example of a keyword.
pub fn rules() -> Vec<Vec<u8>> {
    let examples =
        weir_detect::KEYWORDS.iter().flat_map(|keyword| keyword.accepted.iter().chain(keyword.refused));
    let rule = |options: &&str| {
        format!("alert tcp $HOME_NET any -> any [80,443] ({options} sid:1;)\nab cd").into_bytes()
    };
    examples.map(rule).collect()
}

/// All strings under a key that holds expressions.
fn strings(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("expr", serde_json::Value::String(text)) => found.push(text.clone()),
                    ("aliases", serde_json::Value::Array(texts)) => {
                        found.extend(texts.iter().filter_map(|text| Some(text.as_str()?.to_owned())));
                    }
                    _ => strings(value, found),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| strings(value, found)),
        _ => {}
    }
}

const EXPRESSIONS: &[&str] = &[
    "",
    "tcp port 80 and host 10.0.0.1",
    "src net 10.0.0.0/8 or dst net fe80::/10",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not port ssh",
    "ip[0] & 0xf != 5 or (ip[6:2] & 0x1fff) > 0",
    "vlan 5 and vlan 6 and mpls 1000 and ip6 proto 58",
    "ether host 02:00:00:00:00:01 or ether broadcast",
    "portrange 1000-2000 and less 100 or greater 1500",
    "icmp[icmptype] == icmp-echo && len >= 64",
    "wlan type mgt subtype beacon or pppoes 7 and ip",
    "1 + 2 * (ip[2:2] - 3) / 4 % 5 >> 1 << 2 | 3 & 4 ^ 5 = 6",
    "ip6 protochain 6 or proto \\sctp or ip multicast",
];

/// The first packets of a capture, as far as it can be read.
fn first_packets(path: PathBuf) -> Option<PacketBuf> {
    let options = ReadOptions { packets: Some(MAX_PACKETS as u64), ..ReadOptions::default() };
    let mut chunk = PacketBuf::default();
    let mut files = Files::open(&[Input::Path(path)], &options).ok()?;
    files.fill(&mut chunk).ok()?.then_some(chunk)
}

/// Packets of many kinds, in case no captures are present.
fn built() -> Vec<Vec<u8>> {
    let v4 = || ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
    let (a, b) = ([0x20; 16], [0x21; 16]);
    vec![
        v4().tcp(1024, 80, flags::SYN).options(&[2, 4, 5, 180]).payload(b""),
        ethernet().ipv4([10, 0, 0, 2], [10, 0, 0, 1]).tcp(80, 1024, flags::SYN | flags::ACK).payload(b""),
        v4().tcp(1024, 80, flags::ACK).seq(1).ack(1).payload(b"GET / HTTP/1.1\r\n\r\n"),
        v4().tcp(1024, 80, flags::FIN | flags::ACK).seq(19).ack(1).payload(b""),
        v4().udp(5353, 53).payload(b"\0\x2a\x01\0\0\x01\0\0\0\0\0\0\x03www\0\0\x01\0\x01"),
        v4().icmp(8, 0, [0, 1, 0, 1]).payload(b"ping"),
        v4().fragment(7, 0, true).udp(9, 9).payload(&[1; 24]),
        v4().fragment(7, 32, false).proto(17).raw(&[2; 16]).payload(b""),
        ethernet().vlan(5).vlan(6).mpls(1000).ipv6(a, b).udp(1, 2).payload(b"x"),
        ethernet().pppoe(7).ipv6(a, b).extension(0, &[0; 7]).icmp(128, 0, [0; 4]).payload(b"y"),
        v4().gre().ipv4([1, 1, 1, 1], [2, 2, 2, 2]).tcp(1, 2, flags::RST).payload(b""),
        v4().udp(4000, 4789).raw(&[8, 0, 0, 0, 0, 0, 1, 0]).payload(&v4().udp(3, 4).payload(b"inner")),
    ]
}

/// A whole capture of [`built`] packets.
fn small_pcap() -> Vec<u8> {
    let mut file = Vec::new();
    for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend_from_slice(&field.to_le_bytes());
    }
    for bytes in built() {
        let len = bytes.len() as u32;
        for field in [1_700_000_000, 0, len, len] {
            file.extend_from_slice(&field.to_le_bytes());
        }
        file.extend_from_slice(&bytes);
    }
    file
}
