//! `weir streams`: streams equal byte for byte those that other programs reassemble from the captures.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use support::*;

/// The files that `weir streams` writes for a capture.
fn streams(capture: &Path, options: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("streams");
    let ran = weir(["streams", text(capture), "-q", "-o", text(&out)].iter().chain(options));
    assert_eq!(ran.code, Some(0), "{}: {}", capture.display(), ran.stderr);
    let files = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// The name without leading zeros in numbers, as another program writes it.
fn plain(name: &str) -> String {
    let end = |end: &str| {
        let numbers = end.split('.').map(|number| number.parse::<u32>().unwrap().to_string());
        numbers.collect::<Vec<_>>().join(".")
    };
    let (from, to) = name.split_once('-').unwrap();
    format!("{}-{}.txt", end(from), end(to))
}

#[test]
fn streams_equal_those_of_other_programs() {
    const REQUIRED: usize = 4;
    let data = root().join("../shared/data/pcapplusplus");
    if !data.exists() {
        println!("skipped {REQUIRED} streams: ../shared/data is absent");
        return;
    }
    let capture = data.join("pcap_examples/tcp-reassembly.pcap");
    let mut passed = 0;
    for (folder, options) in [("tcpreassembly_sides", &[][..]), ("tcpreassembly_sanity", &["--both"])] {
        let files = streams(&capture, options);
        for (name, bytes) in &files {
            let expected = fs::read(data.join("expected_output").join(folder).join(plain(name))).unwrap();
            passed += usize::from(*bytes == expected);
        }
        assert_eq!(files.len(), if options.is_empty() { 2 } else { 1 });
    }
    // A request in IP fragments equals the request in one packet.
    let [parts, whole] = ["frag_http_req", "http_req"]
        .map(|name| streams(&data.join(format!("pcap_examples/{name}.pcap")), &[]));
    for (name, bytes) in &whole {
        passed += usize::from(parts.get(name) == Some(bytes) && !bytes.is_empty());
    }
    println!("streams: passed {passed} of {}, required {REQUIRED}", 3 + whole.len());
    assert!(passed >= REQUIRED, "{:?} {:?}", parts.keys(), whole.keys());
}

#[test]
fn a_bad_policy_and_a_missing_capture_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let out: PathBuf = folder.path().join("out");
    let ran = weir(["streams", "/nowhere.pcap", "-o", text(&out)]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let capture = sample();
    let ran = weir(["streams", text(&capture), "-o", text(&out), "--overlap", "amiga"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("no overlap policy \"amiga\"") && ran.stderr.contains("windows"),
        "{}",
        ran.stderr
    );
}

#[test]
fn streams_on_standard_output_equal_the_files() {
    let capture = sample();
    let files = streams(&capture, &["--both"]);
    let ran = weir(["streams", text(&capture), "-o", "-"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout.len(), files.values().map(Vec::len).sum::<usize>());
    // The output for one flow equals its file.
    let (name, bytes) = files.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let port = name.split('-').next().unwrap().rsplit('.').next().unwrap().trim_start_matches('0');
    let one = streams(&capture, &["--both", "--", "tcp", "port", port]);
    let ran = weir(["streams", text(&capture), "-o", "-", "--", "tcp", "port", port]);
    assert!(one.len() == 1 && !bytes.is_empty() && ran.stdout == *bytes);
    assert!(!Path::new("-").exists());
    let ran = weir(["streams", text(&capture), "-o", "-", "--anon", "table"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("--output DIR"), "{}", ran.stderr);
}
