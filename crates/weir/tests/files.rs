//! Extraction of files from streams: content equal byte for byte, safe names, and limits whose effects are counted.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use support::*;
use weir_wire::build;

/// Files of a directory by name; an incomplete one is an error.
fn carved(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory).unwrap().flatten();
    let files: BTreeMap<String, Vec<u8>> =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect();
    assert!(files.keys().all(|name| !name.ends_with(".part")), "{:?}", files.keys());
    files
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sessions(ran: &Ran) -> Value {
    ran.json().into_iter().find(|line| line["kind"] == "sessions").unwrap()
}

fn number(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {object}"))
}

/// Checks the sums: files = kept + skipped + crowded, bytes = kept + cut + shed.
#[track_caller]
fn adds_up(counts: &Value) {
    let sum = |of: &[&str]| of.iter().map(|field| number(counts, field)).sum::<u64>();
    assert_eq!(sum(&["files"]), sum(&["files_kept", "files_skipped", "files_crowded"]), "{counts}");
    let bytes = sum(&["file_bytes_kept", "file_bytes_cut", "file_bytes_shed"]);
    assert_eq!(sum(&["file_bytes"]), bytes, "{counts}");
}

/// HTTP responses, one connection each, with names that point outside the directory.
fn responses(bodies: &[&[u8]]) -> Vec<u8> {
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (syn, ack) = (build::flags::SYN, build::flags::ACK);
    let mut packets = Vec::new();
    for (body, n) in bodies.iter().zip(0_u64..) {
        let port = 40_000 + n as u16;
        let there = || build::ethernet().ipv4(client, server);
        let back = || build::ethernet().ipv4(server, client);
        let request = b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n";
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=\"../../evil.sh\"\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut frames = vec![
            there().tcp(port, 80, syn).seq(0).payload(&[]),
            back().tcp(80, port, syn | ack).seq(0).ack(1).payload(&[]),
            there().tcp(port, 80, ack).seq(1).ack(1).payload(request),
        ];
        let answer = [head.as_bytes(), body].concat();
        for (part, at) in answer.chunks(1000).zip(0..) {
            frames.push(back().tcp(80, port, ack).seq(1 + at * 1000).ack(44).payload(part));
        }
        packets.extend(
            frames.into_iter().zip(0..).map(|(frame, at)| ((n + 1) * SECOND + at * 1_000_000, frame)),
        );
    }
    pcap(1, &packets)
}

/// The program that generated the files of the lab's servers generates them again; each is found byte for byte.
#[test]
fn the_files_of_the_lab_servers_are_extracted_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (files, logs) = (at("files"), at("logs"));
    let ran = weir([
        text(&sample()),
        "-j",
        "--files",
        text(&files),
        "-o",
        text(&logs),
        "--log",
        "zeek-json,eve,store",
    ]);
    let ran = ran.exits(0).quietly();
    let counts = sessions(&ran);
    adds_up(&counts);
    let found = carved(&files);
    // The rows of the logs name the file of each.
    let rows = objects(&fs::read_to_string(logs.join("files.json")).unwrap());
    let named: Vec<&Value> = rows.iter().filter(|row| row["extracted"].is_string()).collect();
    assert_eq!(named.len() as u64, number(&counts, "files_kept"));
    let names: BTreeSet<&str> = named.iter().map(|row| row["extracted"].as_str().unwrap()).collect();
    assert!(
        names.iter().eq(found.keys().collect::<Vec<_>>().iter()),
        "each row has its file and each file its row"
    );
    for row in named {
        let bytes = &found[row["extracted"].as_str().unwrap()];
        assert_eq!(row["extracted_cutoff"], false);
        if row["sha256"].is_string() {
            assert_eq!(row["sha256"], sha256(bytes), "{row}");
            assert_eq!(row["seen_bytes"], bytes.len());
        }
    }
    let events = objects(&fs::read_to_string(logs.join("eve.json")).unwrap());
    let stored = events.iter().filter(|event| event["fileinfo"]["stored"] == true).count() as u64;
    // A file without a name, such as the text of a mail, is no event.
    let with_names = "count files where files.extracted and files.name_or_path";
    let answer = weir(["query", with_names, "-d", text(&logs), "-j"]).exits(0).json();
    assert_eq!(Some(stored), answer[0]["rows"][0][0].as_u64());
    assert!(stored > 100 && stored < number(&counts, "files_kept"), "{stored}");

    let made = ["www", "ftp", "tftp", "home", "mail"].map(|name| format!("--{name}={}", at(name).display()));
    let script = root().join("lab/content");
    let run = Command::new("python3")
        .arg(script)
        .args(made)
        .args(["--seed=1", "--scale=1", "--users=alice bob carol dave"])
        .status();
    if !run.is_ok_and(|status| status.success()) {
        println!("skipped: no python3 to make the lab's files anew");
        return;
    }
    let sums: BTreeSet<String> = found.values().map(|bytes| sha256(bytes)).collect();
    let served = [
        "www/index.html",
        "www/style.css",
        "www/logo.png",
        "www/data.json",
        "www/doc/1.txt",
        "www/doc/7.txt",
        "www/doc/8.txt",
        "www/pkg/release.bin",
        "www/pkg/patch.bin",
        "ftp/README",
        "ftp/survey.dat",
        "ftp/notes.txt",
        "tftp/boot.cfg",
        "tftp/image.bin",
        "home/alice/report.txt",
        "home/alice/photo.raw",
        "home/bob/photo.raw",
    ];
    let missing: Vec<&str> =
        served.into_iter().filter(|name| !sums.contains(&sha256(&fs::read(at(name)).unwrap()))).collect();
    println!("passed {} of {}, required {}", served.len() - missing.len(), served.len(), served.len());
    assert!(missing.is_empty(), "{missing:?} of {:?}", found.keys());
}

/// Checksums that Suricata's tests expect, and that are names of extracted files.
#[test]
fn extracted_files_have_the_checksums_of_suricatas_tests() {
    let tests = root().join("../shared/data/suricata-verify/tests");
    let Ok(entries) = fs::read_dir(&tests) else {
        println!("skipped: {} is absent", tests.display());
        return;
    };
    let (mut expected, mut passed, mut failed) = (0, 0, Vec::new());
    for entry in entries.flatten() {
        let wanted = fs::read_to_string(entry.path().join("test.yaml")).unwrap_or_default();
        let sums: BTreeSet<&str> = wanted
            .lines()
            .filter_map(|line| line.trim().strip_prefix("fileinfo.sha256:"))
            .map(|sum| sum.trim().trim_matches('"'))
            .collect();
        let capture = fs::read_dir(entry.path()).unwrap().flatten().map(|file| file.path()).find(|path| {
            path.extension().is_some_and(|ending| ending == "pcap" || ending == "pcapng" || ending == "syn")
        });
        let Some(capture) = capture.filter(|_| !sums.is_empty()) else { continue };
        let folder = tempfile::tempdir().unwrap();
        weir([text(&capture), "-q", "--files", text(folder.path())]);
        let found = carved(folder.path());
        for sum in sums {
            expected += 1;
            let file = found.iter().find(|(name, _)| name.starts_with(sum));
            match file {
                Some((_, bytes)) if sha256(bytes) == sum => passed += 1,
                _ => failed.push(format!("{} {sum}", entry.file_name().display())),
            }
        }
    }
    println!("passed {passed} of {expected}, required {REQUIRED}: {failed:#?}");
    assert!(passed >= REQUIRED);
}

/// The other files are in streams whose last segments precede a reset: Suricata omits bytes that were not
/// acknowledged.
const REQUIRED: usize = 4;

#[test]
fn limits_hold_and_their_effects_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let bodies: [Vec<u8>; 4] = [vec![b'a'; 5000], vec![b'b'; 3000], vec![b'c'; 7000], vec![b'a'; 5000]];
    let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    let capture = put(folder.path(), "x.pcap", &responses(&bodies));
    let run = |name: &str, options: &[&str]| {
        let directory = folder.path().join(name);
        let arguments = [text(&capture), "-j", "--files", text(&directory)];
        let ran = weir(arguments.iter().chain(options)).exits(0).quietly();
        let counts = sessions(&ran);
        adds_up(&counts);
        let notes = ran.json()[0]["notes"].to_string();
        (carved(&directory), counts, notes)
    };
    let (files, counts, notes) = run("all", &[]);
    let names: Vec<String> = bodies.iter().take(3).map(|body| format!("{}.txt", sha256(body))).collect();
    assert_eq!(files.keys().collect::<BTreeSet<_>>(), names.iter().collect::<BTreeSet<_>>());
    assert_eq!(
        (number(&counts, "files"), number(&counts, "files_kept"), number(&counts, "files_cut")),
        (4, 4, 0)
    );
    assert_eq!(number(&counts, "file_bytes_kept"), 20_000);
    assert!(notes.contains("4 files kept in") && notes.contains(", 1 duplicates"), "{notes}");

    // The beginning of each file is kept, under a name that does not have the checksum of a complete file.
    let (files, counts, notes) = run("each", &["--files-each", "4K"]);
    assert_eq!(files.values().map(Vec::len).collect::<BTreeSet<_>>(), BTreeSet::from([3000, 4096]));
    assert_eq!((number(&counts, "files_cut"), number(&counts, "file_bytes_cut")), (3, 904 + 2904 + 904));
    assert_eq!(files.keys().filter(|name| name.starts_with('F')).count(), 3);
    assert!(notes.contains(", 3 truncated"), "{notes}");

    let (files, counts, _) = run("total", &["--files-total", "6000"]);
    assert_eq!(files.values().map(Vec::len).sum::<usize>(), 6000);
    assert_eq!((number(&counts, "files_kept"), number(&counts, "files_skipped")), (2, 2));
    assert_eq!(number(&counts, "file_bytes_kept"), 6000);

    let (files, counts, notes) = run("count", &["--files-count", "1"]);
    assert_eq!((files.len(), number(&counts, "files_skipped")), (1, 3));
    assert!(notes.contains(", 3 skipped: limits"), "{notes}");

    // No file is written to the places that names in the traffic point to.
    assert!(!folder.path().join("evil.sh").exists() && !folder.path().join("etc").exists());
}

/// A connection with a file for every 58 bytes: content is kept of the files that its bytes allow, whatever the number of workers,
/// and the others are rows without content.
#[test]
fn a_flow_of_many_small_files_keeps_those_that_its_bytes_allow() {
    const FILES: u64 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (syn, ack) = (build::flags::SYN, build::flags::ACK);
    let there = || build::ethernet().ipv4(client, server);
    let back = || build::ethernet().ipv4(server, client);
    let asked = "GET / HTTP/1.1\r\n\r\n";
    let answer = |n: u64| format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{:02}", n % 100);
    let mut frames = vec![
        there().tcp(40_000, 80, syn).seq(0).payload(&[]),
        back().tcp(80, 40_000, syn | ack).seq(0).ack(1).payload(&[]),
    ];
    let (mut sent, mut answered) = (1, 1);
    for n in 0..FILES {
        frames.push(there().tcp(40_000, 80, ack).seq(sent).ack(answered).payload(asked.as_bytes()));
        sent += asked.len() as u32;
        frames.push(back().tcp(80, 40_000, ack).seq(answered).ack(sent).payload(answer(n).as_bytes()));
        answered += answer(n).len() as u32;
    }
    let packets: Vec<_> = frames.into_iter().zip(1..).map(|(frame, at)| (at * 1_000_000, frame)).collect();
    let capture = put(folder.path(), "x.pcap", &pcap(1, &packets));
    let counts = ["1", "2"].map(|workers| {
        let (files, logs) =
            (folder.path().join(format!("f{workers}")), folder.path().join(format!("l{workers}")));
        let run =
            ["-j", "--workers", workers, "--files", text(&files), "-o", text(&logs), "--log", "zeek-json"];
        let counts = sessions(&weir([text(&capture)].into_iter().chain(run)).exits(0));
        adds_up(&counts);
        let rows = objects(&fs::read_to_string(logs.join("files.json")).unwrap());
        assert_eq!(rows.len() as u64, FILES);
        let stored = rows.iter().filter(|row| row["extracted"].is_string()).count() as u64;
        assert_eq!(stored, number(&counts, "files_kept"));
        assert_eq!(carved(&files).len(), 100);
        counts
    });
    let [one, two] = &counts;
    assert_eq!(number(one, "files"), FILES);
    // The last file begins after its request and the head of its response.
    let exchange = (asked.len() + answer(0).len()) as u64;
    let kept = 1_000 + (FILES * exchange - 2) / 512;
    assert_eq!(number(one, "files_kept"), kept);
    assert_eq!(number(one, "files_crowded"), FILES - kept);
    assert_eq!(kept, number(two, "files_kept"));
}

#[test]
fn only_the_requested_checksums_are_computed() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &responses(&[b"hello, world: a body of text"]));
    let row = |name: &str, options: &[&str]| {
        let logs = folder.path().join(name);
        let arguments = [text(&capture), "-q", "-o", text(&logs), "--log", "zeek-json"];
        weir(arguments.iter().chain(options)).exits(0).quietly();
        objects(&fs::read_to_string(logs.join("files.json")).unwrap()).remove(0)
    };
    let has = |row: &Value| ["md5", "sha1", "sha256"].map(|name| row[name].is_string());
    let of = |names: &[&str]| serde_json::json!(names);
    let plain = row("plain", &[]);
    assert_eq!((has(&plain), &plain["analyzers"]), ([false; 3], &of(&[])));
    let two = row("two", &["--hash", "md5,sha1"]);
    assert_eq!((has(&two), &two["analyzers"]), ([true, true, false], &of(&["MD5", "SHA1"])));
    let all = row("all", &["--hash", "md5,sha1,sha256"]);
    assert_eq!((has(&all), &all["sha256"]), ([true; 3], &sha256(b"hello, world: a body of text").into()));
    // Without a checksum a file is named by its identifier in the logs.
    let files = folder.path().join("files");
    let none = row("none", &["--hash", "none", "--files", text(&files)]);
    assert_eq!((has(&none), &none["analyzers"]), ([false; 3], &of(&["EXTRACT"])));
    assert_eq!(none["extracted"], format!("{}.txt", none["fuid"].as_str().unwrap()));
    assert_eq!(carved(&files).len(), 1);
}

#[test]
fn invalid_options_of_extraction_are_errors() {
    let sample = sample();
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "file", b"");
    weir([text(&sample), "--files", text(&file)]).exits(4).says("file: ");
    weir([text(&sample), "--files-each", "1M"]).exits(1).says("--files <DIR[=EXPR]>");
    weir([text(&sample), "--files", text(folder.path()), "--files-each", "x"])
        .exits(1)
        .says("e.g. 64K, 512M or 2G");
    weir([text(&sample), "--hash", "crc"]).exits(1).says("expected md5, sha1 and sha256");
    // Content cannot be anonymised.
    let both = ["--files", text(folder.path()), "--anon", "nullip"];
    weir([text(&sample)].iter().chain(&both)).exits(1).says("cannot be used with");
}
