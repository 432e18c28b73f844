//! `weir anon` and `--anon`: nobody of a capture is in what comes out, and what comes out is of use.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use support::*;

const KEY: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// A folder with a key.
fn desk() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let key = put(folder.path(), "K", KEY);
    (folder, key)
}

/// Columns of a log of Zeek, those of each row joined.
fn columns(log: &Path, wanted: &[&str]) -> Vec<String> {
    let log = fs::read_to_string(log).unwrap();
    let fields = log.lines().find_map(|line| line.strip_prefix("#fields\t")).unwrap();
    let fields: Vec<&str> = fields.split('\t').collect();
    let rows = log.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let cell = |name: &&str| cells[fields.iter().position(|field| field == name).unwrap()];
        wanted.iter().map(cell).collect::<Vec<_>>().join(" ")
    });
    rows.collect()
}

/// Whether an address stands in a text on its own, and not as a part of another.
fn has(text: &str, address: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_hexdigit() || c == '.' || c == ':');
    text.match_indices(address).any(|(at, found)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + found.len()..].chars().next());
        !is_part(before) && !is_part(after.filter(|c| *c != '.' && *c != ':'))
    })
}

#[test]
fn logs_are_those_of_the_anonymised_capture_and_name_nobody() {
    let (desk, key) = desk();
    let path = |name: &str| desk.path().join(name);
    let (sample, key) = (sample(), text(&key).to_owned());
    weir([text(&sample), "-o", text(&path("plain"))]).exits(0);
    let ran = weir([
        text(&sample),
        "-o",
        text(&path("logs")),
        "--log",
        "zeek,eve,csv,text,ndjson",
        "--anon",
        "cryptopan",
        "--key-file",
        &key,
        "-v",
    ])
    .exits(0);
    let ends = ["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "orig_bytes", "resp_bytes"];
    let of = |folder: &str| {
        let mut rows = columns(&path(folder).join("conn.log"), &ends);
        rows.sort();
        rows
    };
    let originals: BTreeSet<String> = columns(&path("plain").join("conn.log"), &["id.orig_h", "id.resp_h"])
        .iter()
        .flat_map(|row| row.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(originals.len() > 5);
    let mut looked = 0;
    let files = fs::read_dir(path("logs")).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|file| (file.display().to_string(), fs::read_to_string(file).unwrap()));
    for (name, text) in texts.chain([("the summary".to_owned(), ran.text())]) {
        let found: Vec<&String> = originals.iter().filter(|address| has(&text, address)).collect();
        // The notes on what was read name the file, and no address.
        assert!(found.is_empty(), "{name}: {found:?}");
        looked += 1;
    }
    assert!(looked > 6, "{looked}");

    // The way by a capture leads to the same rows.
    weir(["anon", text(&sample), text(&path("y.pcap")), "--key-file", &key]).exits(0).quietly();
    weir([text(&path("y.pcap")), "-o", text(&path("by_capture"))]).exits(0);
    assert_eq!(of("logs").len(), of("plain").len());
    assert_ne!(of("logs"), of("plain"));
    assert_eq!(of("logs"), of("by_capture"));
    // A row of a protocol is of a flow that has one.
    let uids: BTreeSet<String> =
        columns(&path("logs").join("conn.log"), &["uid", "community_id"]).into_iter().collect();
    for log in ["dns.log", "http.log", "ssl.log"].map(|log| path("logs").join(log)) {
        if log.exists() {
            assert!(columns(&log, &["uid", "community_id"]).iter().all(|uid| uids.contains(uid)), "{log:?}");
        }
    }
}

#[test]
fn a_capture_keeps_its_shape_and_the_audit_finds_nobody() {
    let mut audited = 0;
    for capture in diverse(20) {
        let (desk, key) = desk();
        let made = desk.path().join("y.pcapng");
        let plain = weir([text(&capture), "-j"]);
        if plain.code != Some(0) {
            continue;
        }
        weir(["anon", text(&capture), text(&made), "--key-file", text(&key), "--audit"]).exits(0).quietly();
        let image = weir([text(&made), "-j"]).exits(0);
        for field in ["caught", "bytes", "captured_bytes", "flowed"] {
            let name = capture.display();
            assert_eq!(image.fact("ledger", field), plain.fact("ledger", field), "{name}: {field}");
        }
        audited += 1;
    }
    println!("{audited} captures");
    assert!(audited > 0);
}

#[test]
fn an_audit_finds_what_is_kept() {
    use weir_wire::build;
    let (desk, key) = desk();
    let said =
        build::ethernet().ipv4([10, 1, 1, 1], [10, 1, 1, 2]).udp(1, 2).payload(b"\x01 call 10.1.1.2 now");
    let capture = put(desk.path(), "x.pcap", &pcap(1, &[(1, said)]));
    let made = desk.path().join("y.pcap");
    let arguments = ["anon", text(&capture), text(&made), "--key-file", text(&key), "--audit"];
    weir(arguments).exits(0).quietly();
    let ran = weir(arguments.iter().chain(&["--payload", "keep"])).exits(4);
    assert!(ran.stderr.contains("10.1.1.2 as text") && ran.stderr.contains("packet 1"), "{}", ran.stderr);
    weir(arguments.iter().chain(&["--payload", "cut", "--shift", "-0.5"])).exits(0).quietly();
    assert_eq!(fs::metadata(&made).unwrap().len(), 24 + 16 + 42);
}

#[test]
fn a_key_makes_runs_alike_and_a_table_does_not() {
    let (desk, key) = desk();
    let hex: String = KEY.iter().map(|octet| format!("{octet:02x}")).collect();
    let hex = put(desk.path(), "hex", format!("{hex}\n").as_bytes());
    let (sample, made) = (sample(), desk.path().join("y.pcap"));
    let run = |more: &[&str]| {
        weir(["anon", text(&sample), text(&made)].iter().chain(more)).exits(0).quietly();
        fs::read(&made).unwrap()
    };
    for mode in ["cryptopan", "ipcrypt"] {
        let one = run(&["--mode", mode, "--key-file", text(&key)]);
        assert!(one == run(&["--mode", mode, "--key-file", text(&hex)]), "{mode}");
    }
    assert!(run(&["--mode", "table"]) != run(&["--mode", "table"]));
    assert_eq!(run(&["--mode", "nullip"]).len(), fs::metadata(&made).unwrap().len() as usize);
}

#[test]
fn what_is_wrong_with_a_key_or_policy_is_said() {
    let (desk, key) = desk();
    let short = put(desk.path(), "short", b"secret");
    let same = put(desk.path(), "same", &[7; 32]);
    let sample = sample();
    let (sample, made) = (text(&sample), desk.path().join("y.pcap"));
    let made = text(&made);
    weir(["anon", sample, made]).exits(1).says("--key-file");
    weir(["anon", sample, made, "--key-file", text(&short)]).exits(1).says("32 octets");
    weir(["anon", sample, made, "--key-file", "/nowhere/K"]).exits(1).says("/nowhere/K");
    weir(["anon", sample, made, "--mode", "ipcrypt", "--key-file", text(&same)]).exits(1).says("differ");
    weir(["anon", sample, made, "--mode", "table", "--key-file", text(&key)]).exits(1).says("takes no key");
    weir(["anon", sample, "-", "--mode", "table", "--audit"]).exits(1).says("--audit");
    weir([sample, "--key-file", text(&key)]).exits(1).says("--anon");
    weir([sample, "--anon", "table", "--anon-policy", "name=hide"]).exits(1).says("pseudonym");
    assert!(!Path::new(made).exists());
}
