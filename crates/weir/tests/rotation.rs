//! Rotation of logs: by time, by size, by a signal, with compression. No row is lost, and each file is complete.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::*;

/// Logs of all kinds, in a folder.
const KINDS: &str = "zeek,zeek-json,eve,csv,ndjson,text";

/// Half an hour with a conversation every ten seconds: one capture, in which flows end continually.
fn half_an_hour() -> Vec<u8> {
    let packets: Vec<_> = (0..180)
        .flat_map(|n| {
            conversation((1_700_000_000 + n * 10) * SECOND).into_iter().map(move |(time, mut frame)| {
                // Each conversation has a different port and two flows.
                let port = 20_000 + n as u16;
                for at in [34, 36] {
                    if frame[at..at + 2] == 40_000_u16.to_be_bytes()
                        || frame[at..at + 2] == 5353_u16.to_be_bytes()
                    {
                        frame[at..at + 2].copy_from_slice(&port.to_be_bytes());
                    }
                }
                (time, frame)
            })
        })
        .collect();
    pcap(1, &packets)
}

/// The files of a folder by name; compressed ones decompressed, and without `.zst`.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            assert!(!name.ends_with(".part"), "{name}");
            match name.strip_suffix(".zst") {
                Some(plain) => {
                    let out = Command::new("zstd").args(["-dcq"]).arg(entry.path()).output().unwrap();
                    assert!(out.status.success(), "{name}");
                    (plain.to_owned(), String::from_utf8(out.stdout).unwrap())
                }
                None => (name, fs::read_to_string(entry.path()).unwrap()),
            }
        })
        .collect()
}

/// The name that a file had while it was written.
fn stem(name: &str) -> String {
    let (first, rest) = name.split_once('.').unwrap();
    format!("{first}.{}", rest.rsplit('.').next().unwrap())
}

/// The rows of each kind of log over all its files, without the files' first and last lines, and the number of files.
/// Checks that every file is complete.
fn rows(folder: &Path) -> BTreeMap<String, (Vec<String>, usize)> {
    let mut all: BTreeMap<String, (Vec<String>, usize)> = BTreeMap::new();
    let mut heads: BTreeMap<String, String> = BTreeMap::new();
    for (name, text) in files(folder) {
        assert!(text.ends_with('\n'), "{name} ends on a whole line");
        let lines: Vec<&str> = text.lines().collect();
        let stem = stem(&name);
        let (rows, of_files) = all.entry(stem.clone()).or_default();
        *of_files += 1;
        if name.ends_with(".log") {
            assert_eq!(lines[0], "#separator \\x09", "{name}");
            assert!(lines[5].starts_with("#open\t") && lines[6].starts_with("#fields\t"), "{name}");
            assert!(lines.last().unwrap().starts_with("#close\t"), "{name}");
            assert_eq!(lines.iter().filter(|line| line.starts_with('#')).count(), 9, "{name}");
        }
        if name.ends_with(".csv") || name.ends_with(".ndjson") {
            assert_eq!(heads.entry(stem).or_insert_with(|| lines[0].to_owned()), lines[0], "{name}");
        }
        let skipped = usize::from(name.ends_with(".csv") || name.ends_with(".ndjson"));
        let kept = lines.iter().skip(skipped).filter(|line| !line.starts_with('#'));
        rows.extend(kept.map(|line| (*line).to_owned()));
    }
    for (rows, _) in all.values_mut() {
        rows.sort();
    }
    all
}

#[test]
fn rotated_and_compressed_logs_have_the_rows_of_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &half_an_hour());
    let run = |name: &str, options: &[&str]| {
        let out = folder.path().join(name);
        let arguments = [text(&capture), "-q", "-o", text(&out), "--log", KINDS];
        weir(arguments.iter().chain(options)).exits(0).quietly();
        rows(&out)
    };
    let whole = run("whole", &[]);
    assert!(whole.values().all(|(_, files)| *files == 1));
    let of = |log: &str| whole.get(log).map_or(0, |(rows, _)| rows.len());
    assert!(of("conn.log") >= 360 && of("http.log") == 180, "{:?}", whole.keys());
    let has_zstd = Command::new("zstd").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_zstd {
        println!("skipped: no zstd(1) to unpack with");
    }
    let plain: [(&str, &[&str]); 3] = [
        ("time", &["--log-rotate", "5m"]),
        ("size", &["--log-rotate-size", "8K"]),
        ("both", &["--log-rotate", "10m", "--log-rotate-size", "20K"]),
    ];
    let packed: [(&str, &[&str]); 2] =
        [("zstd", &["--log-zstd"]), ("zstd-size", &["--log-zstd", "--log-rotate-size", "8K"])];
    let packed = packed.into_iter().filter(|_| has_zstd);
    for (name, options) in plain.into_iter().chain(packed) {
        let rolled = run(name, options);
        assert_eq!(rolled.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>(), "{name}");
        for (log, (rows, files)) in &rolled {
            assert!(rows == &whole[log].0, "{name} {log}: {} rows, not {}", rows.len(), whole[log].0.len());
            let wanted = match (name, log.as_str()) {
                ("time", "conn.log" | "conn.json" | "eve.json" | "flows.csv" | "http.log") => 6..=8,
                ("size" | "zstd-size", "conn.log" | "eve.json" | "flows.csv" | "weir.ndjson") => 4..=1000,
                _ => 1..=1000,
            };
            assert!(wanted.contains(files), "{name} {log}: {files} files");
        }
        // Equal packets give equal files, and a second run replaces those of the first.
        let names = || files(&folder.path().join(name)).into_keys().collect::<Vec<_>>();
        let before = names();
        run(name, options);
        assert_eq!(before, names(), "{name}");
    }
    // A file exceeds the size limit by at most one row.
    for (name, text) in files(&folder.path().join("size")) {
        let longest = text.lines().map(str::len).max().unwrap() + 1;
        assert!(text.len() <= 8192 + longest + 64, "{name}: {}", text.len());
    }
    let times: Vec<String> =
        files(&folder.path().join("time")).into_keys().filter(|name| stem(name) == "conn.log").collect();
    assert!(times.contains(&"conn.2023-11-14-22-20-00.log".to_owned()), "{times:?}");
}

/// A pipe that is written slowly, so that the program waits in the middle.
#[test]
fn a_signal_rotates_logs_and_no_row_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let capture = half_an_hour();
    let whole = folder.path().join("whole");
    let file = put(folder.path(), "x.pcap", &capture);
    weir([text(&file), "-q", "-o", text(&whole), "--log", KINDS, "--interval", "1s"]).exits(0);
    let out = folder.path().join("out");
    let mut command = program();
    command.args(["-r", "-", "-q", "-o", text(&out), "--log", KINDS, "--interval", "1s", "--workers", "1"]);
    let mut child = start(command.stdin(Stdio::piped()));
    let mut to = child.stdin.take().unwrap();
    let parts: Vec<&[u8]> = capture.chunks(capture.len() / 4 + 1).collect();
    for (part, at) in parts.iter().zip(0..) {
        to.write_all(part).unwrap();
        to.flush().unwrap();
        // Rows of the packets read so far are being processed when the signal arrives.
        std::thread::sleep(Duration::from_millis(300));
        if at < 3 {
            handles(&child, 1);
            signal(&child, "HUP");
        }
    }
    drop(to);
    let ran = finish(child).exits(0);
    assert_eq!(ran.stderr, "");
    let (one, several) = (rows(&whole), rows(&out));
    assert_eq!(one.keys().collect::<Vec<_>>(), several.keys().collect::<Vec<_>>());
    assert!(several["conn.log"].1 > 1 && several["flows.csv"].1 > 1, "the logs were rotated");
    for (log, (rows, _)) in &several {
        assert!(rows == &one[log].0, "{log}: {} rows, not {}", rows.len(), one[log].0.len());
    }
}

#[test]
fn invalid_options_of_rotation_are_errors() {
    let sample = sample();
    weir([text(&sample), "--log-rotate", "1h"]).exits(1).says("give their directory with -o DIR");
    weir([text(&sample), "-o", "x", "--log-rotate", "1y"]).exits(1).says("e.g. 30s, 10m, 1h or 1d");
    weir([text(&sample), "-o", "x", "--log-rotate-size", "0"]).exits(1).says("e.g. 64K, 512M or 2G");
    let folder = tempfile::tempdir().unwrap();
    let config = put(
        folder.path(),
        "weir.toml",
        b"[output]\ndir = \"x\"\nrotate = \"soon\"\nrotate_size = 5\nzstd = 1\n",
    );
    let ran = weir(["config", "check", text(&config)]).exits(1);
    ran.says("e.g. 30s, 10m, 1h or 1d")
        .says("rotate_size cannot be an integer")
        .says("zstd cannot be an integer");
    let config = put(
        folder.path(),
        "good.toml",
        b"[output]\ndir = \"x\"\nrotate = \"1h\"\nrotate_size = \"100M\"\nzstd = true\n",
    );
    let ran = weir(["config", "explain", text(&config)]).exits(0);
    ran.prints("after 3600s").prints("after 104857600 bytes");
    let out = folder.path().join("out");
    let set = format!("[output]\ndir = {:?}\nlog = [\"csv\"]\nrotate_size = \"4K\"\n", text(&out));
    let config = put(folder.path(), "run.toml", set.as_bytes());
    weir([text(&sample), "-q", "--config", text(&config)]).exits(0).quietly();
    assert!(rows(&out)["flows.csv"].1 > 4);
}
