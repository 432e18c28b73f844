//! Packet files and directories of files of subscriptions: each has what its condition selects, with any number of workers and
//! beside any others.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[allow(dead_code)]
#[path = "support/pass.rs"]
mod pass;
mod support;

use pass::Loaded;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use support::random::Random;
use support::*;
use weir_wire::{FlowKey, Packet, decode};

/// A configuration with a directory of logs and these subscriptions: level, condition and chain.
fn configuration(out: &Path, logs: &str, subscriptions: &[(&str, &str, &str)]) -> String {
    let table = |(n, (level, condition, chain)): (usize, &(&str, &str, &str))| {
        format!(
            "\n[[subscription]]\nname = \"s{n}\"\nlevel = \"{level}\"\nwhere = '{condition}'\nchain = [{chain}]\n"
        )
    };
    let tables: String = subscriptions.iter().enumerate().map(table).collect();
    format!("[output]\ndir = \"{}\"\nlog = [{logs}]\n{tables}", text(out))
}

/// The files that a run over a capture writes.
fn written(capture: &Path, out: &Path, configuration: &str, more: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let _ = fs::remove_dir_all(out);
    let file = put(out.parent().unwrap(), "weir.toml", configuration.as_bytes());
    // A capture that is cut off has results, too.
    weir([text(capture), "-q", "--config", text(&file)].iter().chain(more));
    let files = fs::read_dir(out).into_iter().flatten().flatten();
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// The captures of our own, without fragments, in which the addresses and ports of a flow occur in no other.
fn made() -> [PathBuf; 2] {
    [sample(), root().join("testdata/sample/first-200.pcapng")]
}

/// The times and bytes of the packets of a file.
fn packets(folder: &Path, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let loaded = Loaded::read(&put(folder, "read.pcapng", bytes));
    loaded.packets().map(|packet| (packet.time.0, packet.data.to_vec())).collect()
}

const EXPRESSIONS: [&str; 5] = ["port 53", "tcp", "greater 500 or arp", "vlan or ip6", ""];

/// At packet level a file is that of `-w` with the expression, byte for byte.
#[test]
fn packets_that_reach_the_function_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let chains: Vec<String> =
        (0..EXPRESSIONS.len()).map(|n| format!("\"write p{n}.pcapng\", \"packets\"")).collect();
    let subscriptions: Vec<(&str, &str, &str)> = EXPRESSIONS
        .iter()
        .zip(&chains)
        .map(|(expression, chain)| ("packet", *expression, chain.as_str()))
        .collect();
    let (mut compared, mut total) = (0, 0);
    for (at, capture) in diverse(36).into_iter().chain(made()).enumerate() {
        let workers: &[&str] = if at % 4 == 0 { &["1", "2", "3", "7"] } else { &["2"] };
        for workers in workers {
            let files =
                written(&capture, &out, &configuration(&out, "", &subscriptions), &["--workers", workers]);
            for (n, expression) in EXPRESSIONS.iter().enumerate() {
                let expected = folder.path().join("expected.pcapng");
                // An expression that can match no packet of a link is refused.
                let _ = fs::remove_file(&expected);
                weir([text(&capture), "-q", "-w", text(&expected), expression]);
                let expected = fs::read(&expected).unwrap_or_default();
                let of_expected = Loaded::read(&put(folder.path(), "read.pcapng", &expected)).len();
                let name = format!("p{n}.pcapng");
                match files.get(&name) {
                    // A file is opened with its first packet.
                    None => assert_eq!(of_expected, 0, "{expression:?} of {}", capture.display()),
                    Some(bytes) => {
                        let is_equal = *bytes == expected;
                        assert!(is_equal, "{expression:?} of {}, {workers} workers", capture.display());
                        compared += 1;
                        total += of_expected;
                    }
                }
            }
            assert_eq!(files.len(), files.keys().filter(|name| name.ends_with(".pcapng")).count());
        }
    }
    println!("{compared} packet files with {total} packets are those of -w");
    assert!(compared > 100 && total > 10_000);
}

/// Conditions over records and flows, with the log of which the rows name the flows.
const DECIDED: [(&str, &str, &str); 4] = [
    ("record", "dns.rcode_name = NXDOMAIN", "dns"),
    ("record", "http.status_code >= 300 or ftp", "logged"),
    ("flow", "tcp and flow.packets > 6", "flows"),
    ("flow", "udp port 53", "asked"),
];

/// The expression of the flows of the rows of a log.
fn of_flows(lines: &[serde_json::Value]) -> String {
    let flow = |line: &serde_json::Value| {
        let of = |name: &str| line[name].to_string().replace('"', "");
        format!(
            "(host {} and host {} and port {} and port {})",
            of("source"),
            of("destination"),
            of("source_port"),
            of("destination_port")
        )
    };
    let flows: BTreeSet<String> = lines.iter().map(flow).collect();
    flows.into_iter().collect::<Vec<_>>().join(" or ")
}

#[test]
fn packets_of_flows_that_are_decided_later_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let chains: Vec<String> = DECIDED
        .iter()
        .map(|(.., log)| {
            format!("\"log {log}-l\", \"write {log}.pcapng\", \"write {log}-late.pcap before none\"")
        })
        .collect();
    let subscriptions: Vec<(&str, &str, &str)> = DECIDED
        .iter()
        .zip(&chains)
        .map(|((level, condition, _), chain)| (*level, *condition, chain.as_str()))
        .collect();
    let mut compared = BTreeMap::new();
    for capture in made().into_iter().chain(diverse(12)) {
        let text_of = configuration(&out, "", &subscriptions);
        let one = written(&capture, &out, &text_of, &["--workers", "1"]);
        for workers in ["2", "3", "7"] {
            let many = written(&capture, &out, &text_of, &["--workers", workers]);
            let differ: Vec<&String> = one.keys().filter(|name| many.get(*name) != one.get(*name)).collect();
            assert!(many == one, "{workers} workers, {}: {differ:?}", capture.display());
        }
        if !made().contains(&capture) {
            continue;
        }
        for ((level, condition, log), chain) in DECIDED.iter().zip(&chains) {
            let Some(lines) = one.get(&format!("{log}-l.ndjson")) else {
                assert!(!one.contains_key(&format!("{log}.pcapng")), "{log} of {}", capture.display());
                continue;
            };
            let lines = objects(std::str::from_utf8(lines).unwrap());
            let expected = folder.path().join("expected.pcapng");
            weir([text(&capture), "-q", "-w", text(&expected), &of_flows(&lines)]).exits(0);
            let all = packets(folder.path(), &fs::read(&expected).unwrap());
            let file = packets(folder.path(), &one[&format!("{log}.pcapng")]);
            assert!(
                file == all,
                "{condition} of {}: {} packets, not {}",
                capture.display(),
                file.len(),
                all.len()
            );
            // Without those before the decision: the end of each flow at record level, nothing when it has ended.
            let late = one
                .get(&format!("{log}-late.pcap"))
                .map_or(Vec::new(), |bytes| packets(folder.path(), bytes));
            assert!(late.iter().all(|packet| all.contains(packet)), "{condition} of {}", capture.display());
            assert!(
                if *level == "flow" { late.is_empty() } else { !late.is_empty() },
                "{condition}: {}",
                late.len()
            );
            // Alone it is what it is together.
            let alone = configuration(&out, "", &[(level, condition, chain)]);
            let alone = written(&capture, &out, &alone, &["--workers", "2"]);
            assert!(alone[&format!("{log}.pcapng")] == one[&format!("{log}.pcapng")], "{condition}");
            *compared.entry(*log).or_insert(0) += all.len();
        }
    }
    println!("packets of flows that were decided later: {compared:?}");
    assert!(compared.len() == DECIDED.len(), "{compared:?}");
}

/// A packet of a capture with its position, its flow, whether its source is the lower end, its sequence number and its payload.
struct Piece {
    number: usize,
    at: (u64, Vec<u8>),
    flow: FlowKey,
    is_lower: bool,
    seq: u32,
    payload: Vec<u8>,
    is_syn: bool,
}

/// The packets of a transport and a server's port.
fn pieces(capture: &Path, proto: u8, port: u16) -> Vec<Piece> {
    let piece = |(number, packet): (usize, Packet<'_>)| {
        let layers = decode(&packet);
        let (flow, is_lower) = FlowKey::of(&packet, &layers)?;
        let header = packet.data.get(layers.transport as usize..)?;
        let seq = header.get(4..8)?.try_into().map(u32::from_be_bytes).unwrap();
        let (payload, is_syn) = (layers.payload_of(packet.data).to_vec(), layers.tcp_flags & 2 != 0);
        let is_it = flow.proto == proto && flow.port.contains(&port);
        let at = (packet.time.0, packet.data.to_vec());
        is_it.then_some(Piece { number, at, flow, is_lower, seq, payload, is_syn })
    };
    Loaded::read(capture).packets().enumerate().filter_map(piece).collect()
}

/// The end of the head of a message that begins at a position.
fn head_end(stream: &[u8], begin: usize) -> Option<usize> {
    let rest = stream.get(begin..)?;
    rest.windows(4).position(|four| four == b"\r\n\r\n").map(|at| begin + at + 4)
}

/// The bytes of the second request and the second response of a connection, if it has two: requests have no content, and the
/// lengths of responses are known.
fn second_transaction(client: &[u8], server: &[u8]) -> Option<[std::ops::Range<usize>; 2]> {
    let first = head_end(client, 0)?;
    let request = first..head_end(client, first)?;
    let response_end = |begin: usize| {
        let end = head_end(server, begin)?;
        let head = std::str::from_utf8(&server[begin..end]).ok()?;
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?;
        Some(end + length.parse::<usize>().ok()?)
    };
    let begin = response_end(0)?;
    Some([request, begin..response_end(begin)?])
}

/// The packets that carry the second transaction of each connection, up to the one that completes it.
fn of_second_transactions(all: &[Piece]) -> Vec<(u64, Vec<u8>)> {
    let mut flows: BTreeMap<FlowKey, Vec<&Piece>> = BTreeMap::new();
    all.iter().for_each(|piece| flows.entry(piece.flow).or_default().push(piece));
    let mut carrying: Vec<&Piece> = Vec::new();
    for (flow, pieces) in flows {
        // Each packet with its place in the stream of the client (0) or the server (1).
        let is_client = |piece: &Piece| (flow.port[1] == 80) == piece.is_lower;
        let base = |of_client: bool| {
            let syn = pieces.iter().find(|piece| piece.is_syn && is_client(piece) == of_client);
            syn.map(|piece| piece.seq.wrapping_add(1))
        };
        let (Some(of_client), Some(of_server)) = (base(true), base(false)) else { continue };
        let place = |piece: &Piece| {
            let (side, base) = if is_client(piece) { (0, of_client) } else { (1, of_server) };
            let begin = if piece.is_syn { 0 } else { piece.seq.wrapping_sub(base) as usize };
            (side, begin..begin + piece.payload.len())
        };
        let with_payload: Vec<&&Piece> = pieces.iter().filter(|piece| !piece.payload.is_empty()).collect();
        let mut streams = [Vec::new(), Vec::new()];
        for piece in &with_payload {
            let (side, at) = place(piece);
            let stream: &mut Vec<u8> = &mut streams[side];
            stream.resize(stream.len().max(at.end), 0);
            stream[at].copy_from_slice(&piece.payload);
        }
        let Some(transaction) = second_transaction(&streams[0], &streams[1]) else { continue };
        let mut seen = streams.map(|stream| vec![false; stream.len()]);
        for piece in with_payload {
            let (side, at) = place(piece);
            seen[side][at.clone()].fill(true);
            if at.start < transaction[side].end && transaction[side].start < at.end {
                carrying.push(piece);
            }
            if seen.iter().zip(&transaction).all(|(seen, bytes)| seen[..bytes.end].iter().all(|is| *is)) {
                break;
            }
        }
    }
    carrying.sort_by_key(|piece| piece.number);
    carrying.into_iter().map(|piece| piece.at.clone()).collect()
}

/// The sample with segments of HTTP that come again at once, later, or after the next one of their side.
fn disturbed(folder: &Path) -> PathBuf {
    let loaded = Loaded::read(&sample());
    let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
    let (mut nth, mut before) = (0, None);
    for packet in loaded.packets() {
        let layers = decode(&packet);
        let (time, data) = (packet.time.0, packet.data.to_vec());
        let side =
            FlowKey::of(&packet, &layers).filter(|(flow, _)| flow.proto == 6 && flow.port.contains(&80));
        let side = side.filter(|_| !layers.payload_of(packet.data).is_empty());
        nth += u64::from(side.is_some());
        packets.push((time, data.clone()));
        match nth % 7 {
            _ if side.is_none() => {}
            2 => packets.push((time + 1_000, data)),
            3 => packets.extend([(time + 2_000, data.clone()), (time + 90_000, data)]),
            // It changes its place with the one before it.
            5 if before == side => {
                if let [.., (one, _), (other, _)] = packets.as_mut_slice() {
                    std::mem::swap(one, other);
                }
            }
            _ => {}
        }
        before = side;
    }
    packets.sort_by_key(|(time, _)| *time);
    put(folder, "disturbed.pcap", &pcap(1, &packets))
}

/// The sample where each client asks all of its names from one port, so that a flow has many transactions.
fn from_one_port(folder: &Path) -> PathBuf {
    let loaded = Loaded::read(&sample());
    let moved = |packet: Packet<'_>| {
        let layers = decode(&packet);
        let mut data = packet.data.to_vec();
        if let Some((flow, _)) = FlowKey::of(&packet, &layers)
            && flow.proto == 17
            && flow.port.contains(&53)
            && data[12..14] == [8, 0]
        {
            let udp = layers.transport as usize;
            let client = if data[udp..udp + 2] == [0, 53] { udp + 2 } else { udp };
            data[client..client + 2].copy_from_slice(&40_000_u16.to_be_bytes());
            // Without a checksum.
            data[udp + 6..udp + 8].fill(0);
        }
        (packet.time.0, data)
    };
    put(folder, "one-port.pcap", &pcap(1, &loaded.packets().map(moved).collect::<Vec<_>>()))
}

/// The packets of the transactions of DNS whose response has that code, by flow and number of the transaction.
fn of_answers(all: &[Piece], code: u8) -> Vec<(u64, Vec<u8>)> {
    let of = |piece: &Piece| (piece.flow, piece.payload[..2].to_vec());
    let is_answer = |piece: &&Piece| piece.payload[2] & 0x80 != 0 && piece.payload[3] & 15 == code;
    let wanted: BTreeSet<_> = all.iter().filter(is_answer).map(of).collect();
    all.iter().filter(|piece| wanted.contains(&of(piece))).map(|piece| piece.at.clone()).collect()
}

/// Of several transactions of a connection the file has the packets of those that are selected, and no others.
#[test]
fn packets_that_carry_records_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let (disturbed, one_port) = (disturbed(folder.path()), from_one_port(folder.path()));
    let http = ("http.trans_depth = 2", 6, 80);
    let cases = [
        (sample(), http),
        (disturbed, http),
        (one_port.clone(), ("dns.rcode_name = NXDOMAIN and udp", 17, 53)),
        (one_port, ("dns.rcode_name = REFUSED and udp", 17, 53)),
    ];
    for (capture, (condition, proto, port)) in cases {
        let all = pieces(&capture, proto, port);
        let expected = match condition {
            _ if proto == 6 => of_second_transactions(&all),
            _ if condition.contains("NXDOMAIN") => of_answers(&all, 3),
            _ => of_answers(&all, 5),
        };
        assert!(expected.len() >= 8 && expected.len() * 2 < all.len(), "{condition}: {}", expected.len());
        // Another subscription that shares the file, and one that writes whole flows.
        let subscriptions = [
            ("record", condition, "\"write some.pcapng of record\""),
            ("record", condition, "\"sample 2\", \"write some.pcapng of record\""),
            ("record", condition, "\"write flows.pcapng\""),
        ];
        for workers in ["1", "2", "3"] {
            let files =
                written(&capture, &out, &configuration(&out, "", &subscriptions), &["--workers", workers]);
            let found = packets(folder.path(), &files["some.pcapng"]);
            let is_equal = found == expected;
            assert!(
                is_equal,
                "{condition} of {}, {workers} workers: {} packets, not {}",
                capture.display(),
                found.len(),
                expected.len()
            );
            let flows = packets(folder.path(), &files["flows.pcapng"]);
            assert!(flows.len() > found.len() && found.iter().all(|packet| flows.contains(packet)));
        }
        println!("{condition} of {}: {} of {} packets", capture.display(), expected.len(), all.len());
    }
}

/// The packets before a decision are limited, and several subscriptions that name one file write a packet once.
#[test]
fn packets_before_a_decision_and_files_that_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let subscriptions = [
        ("record", "ftp", "\"write all.pcap\""),
        ("record", "ftp", "\"write two.pcap before 2\""),
        ("record", "ftp", "\"write none.pcap before none\""),
        ("record", "ftp", "\"write shared.pcap\""),
        ("record", "ftp.command = RETR or ftp.command = STOR", "\"write shared.pcap\""),
        ("packet", "tcp", "\"write short.pcap snaplen 60\", \"sample 2\", \"write half.pcap\""),
    ];
    let files = written(&sample(), &out, &configuration(&out, "", &subscriptions), &[]);
    let of = |name: &str| packets(folder.path(), &files[name]);
    let (all, two, none, shared) = (of("all.pcap"), of("two.pcap"), of("none.pcap"), of("shared.pcap"));
    assert_eq!(shared, all);
    assert!(none.len() < two.len() && two.len() < all.len(), "{} {} {}", none.len(), two.len(), all.len());
    assert!(two.iter().all(|packet| all.contains(packet)) && none.iter().all(|packet| two.contains(packet)));
    let (short, half) = (of("short.pcap"), of("half.pcap"));
    assert!(short.iter().all(|(_, bytes)| bytes.len() <= 60) && short.len() > half.len() && !half.is_empty());
}

/// Files follow each other by packet time or by size; the latest are kept.
#[test]
fn files_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let at = |second: u64| (1_000_000_000 + second) * 1_000_000_000;
    let frame = conversation(0).swap_remove(0).1;
    let capture: Vec<(u64, Vec<u8>)> = (0..200).map(|n| (at(n * 30), frame.clone())).collect();
    let capture = put(folder.path(), "long.pcap", &pcap(1, &capture));
    let subscriptions = [
        ("packet", "", "\"write timed.pcap rotate 10m\""),
        ("packet", "", "\"write kept.pcap rotate 10m files 3\""),
        ("packet", "", "\"write sized.pcap rotate 2K\""),
        ("packet", "", "\"write ring.pcap rotate 2K files 4\""),
    ];
    let files = written(&capture, &out, &configuration(&out, "", &subscriptions), &["--utc"]);
    let of = |start: &str| -> Vec<&String> { files.keys().filter(|name| name.starts_with(start)).collect() };
    let number = |names: &[&String]| -> usize {
        names.iter().map(|name| packets(folder.path(), &files[*name]).len()).sum()
    };
    let timed = of("timed");
    assert_eq!((timed.len(), number(&timed)), (10, 200), "{timed:?}");
    assert_eq!(timed[0], "timed-20010909T014640.pcap");
    let kept = of("kept");
    let last: Vec<String> = timed[7..].iter().map(|name| name.replace("timed", "kept")).collect();
    assert_eq!((kept.iter().map(|name| (*name).clone()).collect::<Vec<_>>(), number(&kept)), (last, 60));
    let (sized, ring) = (of("sized"), of("ring"));
    assert!(sized.len() > 4 && number(&sized) == 200, "{sized:?}");
    assert!(ring.len() == 4 && number(&ring) < 200, "{ring:?}");
}

/// A file that cannot be opened is said, and everything else goes on.
#[test]
fn a_file_that_cannot_be_opened_does_not_disturb_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir_all(out.join("taken.pcap")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", out.join("link.pcap")).unwrap();
    let subscriptions = [
        ("packet", "", "\"write taken.pcap\""),
        ("packet", "", "\"write link.pcap\""),
        ("packet", "", "\"write other.pcap\""),
        ("record", "dns", "\"log names\""),
    ];
    let file = put(folder.path(), "weir.toml", configuration(&out, "", &subscriptions).as_bytes());
    let sample = sample();
    let ran = weir([text(&sample), "-v", "--config", text(&file)]).exits(4);
    for name in ["taken.pcap", "link.pcap"] {
        assert!(ran.stderr.contains(&format!("{name}: cannot create: not a regular file")), "{}", ran.stderr);
    }
    let all = Loaded::read(&sample).len();
    assert_eq!(Loaded::read(&out.join("other.pcap")).len(), all);
    assert!(fs::metadata(out.join("names.ndjson")).unwrap().len() > 0);
    let rows = fs::read_to_string(out.join("names.ndjson")).unwrap().lines().count();
    for line in [
        format!("written: 0 packets to link.pcap ({} LOST) and 3 more: -v", grouped(all)),
        format!("  link.pcap {0:>17} packets 0 0 {0} 0 0 0", grouped(all)),
        format!("  other.pcap {0} packets {0} 0 0 0 0 3", grouped(all)),
        format!("  names.ndjson {rows} rows {rows} 0 0 0 0"),
    ] {
        let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined(&ran.text()).contains(&joined(&line)), "{line}: {}", ran.text());
    }
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    format!("{},{:03}", number / 1000, number % 1000)
}

#[test]
fn packet_files_that_cannot_be_written_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let refused = |subscriptions: &[(&str, &str, &str)], reason: &str| {
        let file = put(folder.path(), "weir.toml", configuration(&out, "", subscriptions).as_bytes());
        let sample = sample();
        let ran = weir([text(&sample), "-q", "--config", text(&file)]);
        assert_eq!(ran.code, Some(1), "{subscriptions:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{subscriptions:?}: {}", ran.stderr);
        assert!(!out.exists(), "{subscriptions:?}");
    };
    for name in ["../x.pcap", "/tmp/x.pcap", "x", ".pcap", "x.pcap.gz", "%Y.pcap"] {
        refused(
            &[("packet", "", &format!("{{ write = \"{name}\" }}"))],
            "letters, digits, hyphens and underscores",
        );
    }
    refused(&[("packet", "", "\"write x.pcap before 3\"")], "before needs level = \"flow\" or \"record\"");
    refused(&[("packet", "", "\"write x.pcap files 3\"")], "files needs rotate");
    refused(&[("flow", "", "\"write x.pcap of record\"")], "of record needs level = \"record\"");
    refused(&[("record", "dns", "\"write x.pcap of record before 3\"")], "before does not go with of record");
    let of_records: Vec<String> = (0..65).map(|n| format!("\"write x{n}.pcap of record\"")).collect();
    let of_records: Vec<(&str, &str, &str)> =
        of_records.iter().map(|chain| ("record", "dns", chain.as_str())).collect();
    refused(&of_records, "is one more than the 64 of records that a run can write");
    refused(&[("stream", "", "\"write x.pcap\"")], "write");
    let other = "is written with other arguments, or at another level, by the subscription `s0`";
    refused(&[("packet", "", "\"write x.pcap\""), ("packet", "", "\"write x.pcap snaplen 3\"")], other);
    refused(&[("packet", "", "\"write x.pcap\""), ("flow", "", "\"write x.pcap\"")], other);
    refused(&[("flow", "", "\"write x.pcap\""), ("flow", "", "\"write x.pcap before none\"")], other);
    let of_both = ["\"write x.pcap\"", "\"write x.pcap of record\""].map(|chain| ("record", "dns", chain));
    refused(&of_both, other);
    let many: Vec<String> = (0..1001).map(|n| format!("\"write x{n}.pcap\"")).collect();
    let many: Vec<(&str, &str, &str)> = many.iter().map(|chain| ("packet", "", chain.as_str())).collect();
    refused(&many, "is one more than the 1000 logs and packet files that a run can write");
}

/// The files of a directory with their contents.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// A directory has the files that `--files` keeps and whose records the condition selects.
#[test]
fn files_whose_records_reach_the_function_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (out, all) = (folder.path().join("out"), folder.path().join("all"));
    let subscriptions = [
        ("record", "files.mime_type contains text", "\"extract texts\", \"records\""),
        (
            "record",
            "files.mime_type and not files.mime_type contains text",
            "\"extract others each 1G\", \"log others\"",
        ),
        ("record", "files.source = \"no such\"", "\"extract none\""),
    ];
    let (mut kept, mut compared) = ([0, 0], 0);
    for (at, capture) in diverse(60).into_iter().enumerate() {
        let _ = fs::remove_dir_all(&all);
        let columns = folder.path().join("columns");
        let whole =
            ["--files", text(&all), "--hash", "sha256", "-o", text(&columns), "--log", "zeek-json:files"];
        let _ = fs::remove_dir_all(&columns);
        weir([text(&capture), "-q"].iter().chain(&whole));
        let rows = objects(&fs::read_to_string(columns.join("files.json")).unwrap_or_default());
        let of = |is_text: bool| -> BTreeMap<String, Vec<u8>> {
            let all = contents(&all);
            let rows = rows
                .iter()
                .filter(|row| row["mime_type"].as_str().is_some_and(|kind| kind.contains("text") == is_text));
            let names = rows.filter_map(|row| row["extracted"].as_str());
            names.map(|name| (name.to_owned(), all[name].clone())).collect()
        };
        let expected = [of(true), of(false)];
        let many: &[&str] = if at % 6 == 0 { &["1", "2", "3", "7"] } else { &["2"] };
        for workers in many {
            let _ = fs::remove_dir_all(&out);
            let file = put(folder.path(), "weir.toml", configuration(&out, "", &subscriptions).as_bytes());
            weir([text(&capture), "-q", "--config", text(&file), "--workers", workers]);
            let found = [contents(&out.join("texts")), contents(&out.join("others"))];
            for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
                let is_equal = found == expected;
                assert!(
                    is_equal,
                    "{n} of {}, {workers} workers: {:?}, not {:?}",
                    capture.display(),
                    names(found),
                    names(expected)
                );
                kept[n] += found.len();
            }
            assert!(contents(&out.join("none")).is_empty());
            compared += 1;
        }
    }
    println!("{kept:?} files were kept in {compared} runs");
    assert!(kept.iter().all(|kept| *kept > 50), "{kept:?}");
}

#[test]
fn limits_of_directories_hold_and_wrong_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let sample = sample();
    let run = |subscriptions: &[(&str, &str, &str)], code: i32| {
        let file = put(folder.path(), "weir.toml", configuration(&out, "", subscriptions).as_bytes());
        let ran = weir([text(&sample), "-v", "--config", text(&file)]);
        assert_eq!(ran.code, Some(code), "{subscriptions:?}: {}", ran.stderr);
        ran
    };
    let both = [
        ("record", "files.mime_type", "\"extract all\""),
        ("record", "files.mime_type", "\"extract two files 5 each 100\""),
    ];
    let ran = run(&both, 0);
    let (all, two) = (contents(&out.join("all")), contents(&out.join("two")));
    assert!(all.len() > 3 && (1..=5).contains(&two.len()), "{} {}", all.len(), two.len());
    assert!(two.values().all(|content| content.len() <= 100));
    let row = ran.text().lines().find(|line| line.starts_with("  two ")).unwrap().to_owned();
    let cells: Vec<u64> =
        row.split_whitespace().filter_map(|cell| cell.replace(',', "").parse().ok()).collect();
    let [offered, written, shed, lost, limited, missing, _] = cells[..] else { panic!("{row}") };
    assert_eq!((offered, written, shed, lost, missing), (5 + limited, 5, 0, 0, 0), "{row}");
    assert!(limited > 0);
    // A link and a file in the place of a directory are not followed, and the rest goes on.
    fs::remove_dir_all(&out).unwrap();
    fs::create_dir_all(folder.path().join("elsewhere")).unwrap();
    fs::create_dir_all(&out).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), out.join("two")).unwrap();
    let ran = run(&both, 4);
    assert!(ran.stderr.contains("two: not a directory"), "{}", ran.stderr);
    assert!(contents(&folder.path().join("elsewhere")).is_empty());
    assert_eq!(contents(&out.join("all")), all);
    fs::remove_dir_all(&out).unwrap();
    for (chain, reason) in [
        ("{ extract = \"../x\" }", "letters, digits, hyphens and underscores"),
        ("\"extract x each 2G total 1G\"", "each is more than total"),
    ] {
        let ran = run(&[("record", "files", chain)], 1);
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
    }
    let ran = run(&[("record", "dns", "\"extract x\"")], 1);
    assert!(ran.stderr.contains("needs records of files"), "{}", ran.stderr);
    let other = [("record", "files", "\"extract x\""), ("record", "files", "\"extract x each 5\"")];
    let ran = run(&other, 1);
    assert!(
        ran.stderr.contains("the directory x has other limits in the subscription `s0`"),
        "{}",
        ran.stderr
    );
    assert!(!out.exists());
}

/// Parts that random subscriptions of a level are made of. `N` in an end is the number of the subscription.
struct Parts {
    level: &'static str,
    conditions: &'static [&'static str],
    /// What selects before the end.
    selects: &'static [&'static str],
    ends: &'static [&'static str],
}

const PARTS: [Parts; 4] = [
    Parts {
        level: "packet",
        conditions: &["", "udp", "tcp", "port 53", "ip6 or arp", "greater 300", "not tcp and not udp"],
        selects: &["", "sample 3", "where greater 100", "sample 2\", \"where less 900"],
        ends: &["write rN.pcapng", "write rN.pcap snaplen 96", "write rN.pcapng snaplen 60"],
    },
    Parts {
        level: "flow",
        conditions: &[
            "",
            "udp",
            "flow.packets > 4",
            "flow.duration > 1 or flow.bytes < 500",
            "tcp port 80 or tcp port 443",
        ],
        selects: &["", "sample 2", "where flow.packets < 20"],
        ends: &[
            "log rN format csv",
            "log rN format ndjson",
            "write rN.pcapng",
            "write rN.pcap before 4",
            "write rN.pcapng before none",
            "log rN\", \"write rN.pcapng",
        ],
    },
    Parts {
        level: "record",
        conditions: &[
            "dns",
            "http.status_code >= 200",
            "dns.rcode_name = NXDOMAIN or dns.rtt > 0.01",
            "ftp or smtp or tls",
            "files",
            "udp",
        ],
        selects: &["", "sample 2", "tables dns+http+files"],
        ends: &[
            "log rN format ndjson",
            "write rN.pcapng",
            "write rN.pcapng before 8",
            "write rN.pcap before none snaplen 200",
            "write rN.pcapng of record",
            "log rN\", \"write rN.pcapng",
        ],
    },
    Parts {
        level: "record",
        conditions: &["files", "files.total_bytes > 100", "files.mime_type contains \"t\""],
        selects: &["", "sample 2"],
        ends: &["extract to rN", "extract to rN each 2K", "log rN\", \"write rN.pcapng\", \"extract to dN"],
    },
];

/// The files of a run, with those in directories.
fn written_below(
    capture: &Path,
    out: &Path,
    configuration: &str,
    workers: &str,
) -> BTreeMap<String, Vec<u8>> {
    let _ = fs::remove_dir_all(out);
    let file = put(out.parent().unwrap(), "weir.toml", configuration.as_bytes());
    let ran = weir([text(capture), "-q", "--config", text(&file), "--workers", workers]);
    // A capture that is cut off has results, too.
    assert_ne!(ran.code, Some(1), "{}\n{configuration}", ran.stderr);
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            files.extend(
                contents(&entry.path()).into_iter().map(|(of, bytes)| (format!("{name}/{of}"), bytes)),
            );
        } else {
            let bytes = fs::read(entry.path()).unwrap();
            files.insert(name.clone(), if name.ends_with(".ndjson") { unmarked(&bytes) } else { bytes });
        }
    }
    files
}

/// Rows without what they state of files that any subscription keeps: checksum and name.
fn unmarked(bytes: &[u8]) -> Vec<u8> {
    let mut rows = String::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(file) = row.get_mut("files").and_then(|file| file.as_object_mut()) {
            let of_kept = ["analyzers", "stored", "sha256", "extracted", "extracted_cutoff"];
            file.retain(|name, _| !of_kept.contains(&name.as_str()));
        }
        rows.push_str(&format!("{row}\n"));
    }
    rows.into_bytes()
}

/// What a random subscription writes does not depend on the others, nor on the number of workers.
#[test]
fn random_subscriptions_write_what_they_write_alone() {
    const TOGETHER: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut captures = diverse(40);
    captures.extend(made());
    let (mut number, mut files, mut not_empty) = (0, 0, 0);
    let mut random = Random(0x5eed);
    while number < 504 {
        let capture = &captures[number / TOGETHER % captures.len()];
        let made: Vec<(&str, &str, String)> = (number..number + TOGETHER)
            .map(|n| {
                let Parts { level, conditions, selects, ends } = PARTS[n % PARTS.len()];
                let (condition, select, end) = (random.of(conditions), random.of(selects), random.of(ends));
                let end = end.replace('N', &(n % TOGETHER).to_string());
                let select = if select.is_empty() { String::new() } else { format!("\"{select}\", ") };
                (level, condition, format!("{select}\"{end}\""))
            })
            .collect();
        let made: Vec<(&str, &str, &str)> =
            made.iter().map(|(level, condition, chain)| (*level, *condition, chain.as_str())).collect();
        let workers = ["1", "2", "3", "7"][number / TOGETHER % 4];
        let together = written_below(capture, &out, &configuration(&out, "", &made), workers);
        let mut alone = BTreeMap::new();
        for one in &made {
            alone.extend(written_below(capture, &out, &configuration(&out, "", &[*one]), "1"));
        }
        let differ: Vec<&String> = together
            .keys()
            .chain(alone.keys())
            .filter(|name| together.get(*name) != alone.get(*name))
            .collect();
        assert!(differ.is_empty(), "{differ:?} of {}, {workers} workers: {made:?}", capture.display());
        files += together.len();
        not_empty += together.values().filter(|bytes| bytes.len() > 300).count();
        number += TOGETHER;
    }
    println!("{number} random subscriptions wrote {files} files, {not_empty} of more than 300 bytes");
    assert!(files > 100);
}
