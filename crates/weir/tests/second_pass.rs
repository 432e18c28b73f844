//! Packet files of flows over captures that can be read twice: they are whole whatever the memory holds.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use support::*;

/// Bytes of payload of a packet.
const BYTES: usize = 1200;

/// An answer to a question of DNS, or the question. Each ends with bytes that no record has.
fn dns(is_answer: bool, code: u8) -> Vec<u8> {
    let mut message = vec![0, 7, if is_answer { 0x84 } else { 0 }, code, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(b"\x04name\x07example\0\0\x01\0\x01");
    message
}

/// A datagram of the flow of a client.
fn frame(client: u16, is_answer: bool, payload: &[u8]) -> Vec<u8> {
    let addresses = ([10, 0, (client >> 8) as u8, client as u8], [192, 0, 2, 1]);
    let (source, destination) = if is_answer { (addresses.1, addresses.0) } else { addresses };
    let ports = if is_answer { (53, 4000 + client) } else { (4000 + client, 53) };
    weir_wire::build::ethernet().ipv4(source, destination).udp(ports.0, ports.1).payload(payload)
}

/// Datagrams of many flows, mixed: more bytes than the smallest memory holds. The last packet of each flow is a question of DNS
/// that is refused, or one that is answered.
fn captures(folder: &Path) -> [PathBuf; 2] {
    const FLOWS: u16 = 24;
    const PACKETS: u64 = 400;
    let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
    let time = |n: u64| 1_700_000_000_000_000_000 + n * 100_000;
    for n in 0..PACKETS {
        for client in 0..FLOWS {
            let mut payload = dns(false, 0);
            payload.resize(BYTES, n as u8);
            packets.push((time(packets.len() as u64), frame(client, false, &payload)));
        }
    }
    for client in 0..FLOWS {
        let code = if client % 3 == 0 { 5 } else { 0 };
        packets.push((time(packets.len() as u64), frame(client, true, &dns(true, code))));
    }
    let (first, second) = packets.split_at(packets.len() / 3);
    [put(folder, "a.pcap", &pcap(1, first)), put(folder, "b.pcap", &pcap(1, second))]
}

/// Two datagrams of each of many flows, and at the end the answer of each, which is refused.
fn many_flows(folder: &Path, flows: u16) -> PathBuf {
    let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
    let time = |n: usize| 1_700_000_000_000_000_000 + n as u64 * 50_000;
    for n in 0..3 {
        for client in 0..flows {
            let mut payload = dns(n == 2, if n == 2 { 5 } else { 0 });
            payload.resize(if n == 2 { payload.len() } else { BYTES / 2 }, n);
            packets.push((time(packets.len()), frame(client, n == 2, &payload)));
        }
    }
    put(folder, "many.pcap", &pcap(1, &packets))
}

/// The files of a run with that memory, and its summary.
fn written(captures: &[&Path], out: &Path, chains: &[(&str, &str, &str)], more: &[&str]) -> Run {
    let _ = fs::remove_dir_all(out);
    let table = |(n, (level, condition, chain)): (usize, &(&str, &str, &str))| {
        format!(
            "\n[[subscription]]\nname = \"s{n}\"\nlevel = \"{level}\"\nwhere = '{condition}'\nchain = [{chain}]\n"
        )
    };
    let tables: String = chains.iter().enumerate().map(table).collect();
    let config = format!("[output]\ndir = \"{}\"\nlog = []\n{tables}", text(out));
    let config = put(out.parent().unwrap(), "weir.toml", config.as_bytes());
    let mut arguments = vec!["-v", "--config", text(&config)];
    captures.iter().for_each(|capture| arguments.extend(["-r", text(capture)]));
    let ran = weir(arguments.iter().chain(more)).exits(0);
    let files = fs::read_dir(out).unwrap().flatten();
    let files =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect();
    Run { files, text: ran.text().to_owned() }
}

struct Run {
    files: BTreeMap<String, Vec<u8>>,
    text: String,
}

impl Run {
    /// The numbers of the row of a file: offered, written, shed, lost, limited, missing.
    fn row(&self, file: &str) -> Vec<u64> {
        let line = self.text.lines().find(|line| line.split_whitespace().next() == Some(file));
        let line = line.unwrap_or_else(|| panic!("{file}: {}", self.text));
        line.split_whitespace().filter_map(|cell| cell.replace(',', "").parse().ok()).collect()
    }
}

const FULL: [&str; 2] = ["--memory", "3G"];
const SMALL: [&str; 2] = ["--memory", "40M"];

const CHAINS: [(&str, &str, &str); 5] = [
    ("flow", "udp port 53", "\"log flows\", \"write all.pcapng\""),
    ("flow", "udp port 53 and flow.packets > 10", "\"write latest.pcap before 150\""),
    ("record", "dns.rcode_name = REFUSED", "\"write refused.pcapng\""),
    ("record", "dns.rcode_name = REFUSED", "\"write sizes.pcap rotate 200K files 4\""),
    ("packet", "udp", "\"write packets.pcap snaplen 60\""),
];

#[test]
fn files_of_flows_are_whole_in_any_memory() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let [first, second] = captures(folder.path());
    for captures in [vec![&*second], vec![&*first, &*second]] {
        let full = written(&captures, &out, &CHAINS, &FULL);
        for name in ["all.pcapng", "latest.pcap", "refused.pcapng"] {
            let row = full.row(name);
            assert!(row[0] > 2_000 && row[1] == row[0] && row[5] == 0, "{name}: {row:?}");
        }
        for workers in ["1", "2", "3"] {
            let more = [SMALL[0], SMALL[1], "--workers", workers];
            let small = written(&captures, &out, &CHAINS, &more);
            assert_eq!(
                small.files.keys().collect::<Vec<_>>(),
                full.files.keys().collect::<Vec<_>>(),
                "{workers} workers"
            );
            for (name, bytes) in &small.files {
                let is_equal = full.files[name] == *bytes;
                assert!(
                    is_equal,
                    "{name}, {workers} workers: {} bytes, not {}",
                    bytes.len(),
                    full.files[name].len()
                );
            }
            for name in ["all.pcapng", "latest.pcap", "refused.pcapng"] {
                assert_eq!(small.row(name), full.row(name), "{name}, {workers} workers");
            }
        }
    }
}

/// A pipe can be read once: what has left the history stays missing, and is counted.
#[test]
fn what_cannot_be_read_again_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let [_, capture] = captures(folder.path());
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let full = written(&[&capture], &out, &CHAINS, &FULL);
    for workers in ["1", "2", "3"] {
        let writer = {
            let (capture, pipe) = (capture.clone(), pipe.clone());
            std::thread::spawn(move || fs::write(pipe, fs::read(capture).unwrap()))
        };
        let more = [SMALL[0], SMALL[1], "--workers", workers];
        let small = written(&[&pipe], &out, &CHAINS, &more);
        writer.join().unwrap().unwrap();
        for name in ["all.pcapng", "latest.pcap", "refused.pcapng"] {
            let (small, full) = (small.row(name), full.row(name));
            assert!(small[5] > 100, "{name}, {workers} workers: {small:?}");
            assert_eq!((small[0] + small[5], small[1]), (full[0], small[0]), "{name}, {workers} workers");
            println!("{name}, {workers} workers: {} of {} packets are missing", small[5], full[0]);
        }
    }
}

/// Of flows beyond those that are remembered the latest packets are written, as without a second pass, and counted.
#[test]
fn flows_beyond_the_bound_have_their_latest_packets() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let capture = many_flows(folder.path(), 6_000);
    let chains = [("flow", "flow.packets > 2", "\"write long.pcap\"")];
    let full = written(&[&capture], &out, &chains, &FULL);
    let whole = full.row("long.pcap");
    assert_eq!((whole[0], whole[1], whole[5]), (18_000, 18_000, 0));
    for workers in ["1", "3"] {
        let small = written(&[&capture], &out, &chains, &[SMALL[0], SMALL[1], "--workers", workers]);
        let row = small.row("long.pcap");
        println!("{workers} workers: {} of {} packets are missing", row[5], whole[0]);
        assert_eq!((row[0] + row[5], row[1]), (whole[0], row[0]), "{workers} workers: {row:?}");
        // More than the latest packets of all flows, and not all.
        assert!(row[5] > 0 && row[1] > 6_000 + 2_000, "{workers} workers: {row:?}");
        let capture = fs::read(&capture).unwrap();
        let packets = |bytes: &[u8]| (bytes.len() - 24) as u64;
        assert!(packets(&small.files["long.pcap"]) < packets(&capture));
    }
}
