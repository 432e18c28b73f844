//! Names, kinds, contents, sizes and checksums of files.

use crate::watch::Watch;
use weir_wire::Direction::{self, Forward, Reverse};

/// A file of a mail.
fn file(watch: &mut Watch, name: &str, kind: &str, data: &[u8]) -> Vec<u32> {
    watch.buffer("file.name", Forward, name.as_bytes());
    watch.buffer("file.magic", Forward, kind.as_bytes());
    watch.buffer("file.data", Forward, data).buffer("file.data", Forward, b"");
    watch.sids()
}

#[test]
fn rules_look_at_each_file_alone() {
    let rules = "alert smtp any any -> any any (filename:\"a.\"; file_data; content:\"needle\"; sid:1;)
alert smtp any any -> any any (fileext:\"exe\"; filemagic:\"PE32\"; sid:2;)
alert smtp any any -> any any (filename:!\"b.exe\"; sid:3;)
alert http any any -> any any (file_data; content:\"needle\"; sid:4;)
alert tcp any any -> any any (filemagic:!\"PE32\"; sid:5;)
alert smtp any any -> any any (email.subject; content:\"two\"; file_data; content:\"needle\"; sid:6;)";
    let mut watch = Watch::new(rules).named("smtp");
    watch.message(Forward, &[("email.subject", "two files")]);
    assert_eq!(file(&mut watch, "a.txt", "ASCII text", b"hay"), [3, 5]);
    // Neither the name of the first file nor its kind is that of the second.
    assert_eq!(file(&mut watch, "b.exe", "PE32 executable", b"a needle"), [2, 6]);
    assert_eq!(file(&mut watch, "a.exe", "PE32 executable", b"needle"), [2, 3, 1, 6]);
    // Many files need the memory of one.
    let before = watch.memory();
    for _ in 0..100 {
        file(&mut watch, "c.bin", "data", &[b'x'; 50_000]);
    }
    assert!(watch.memory() < before + (400 << 10), "{before} {}", watch.memory());
    assert_eq!(file(&mut watch, "a.txt", "ASCII text", b"needle"), [3, 5, 1, 6]);
    assert_eq!(watch.stats().no_room, 0);
}

#[test]
fn a_rule_of_http_sees_bodies_and_names_of_files() {
    let rules = "alert http any any -> any any (file_data; content:\"needle\"; filename:\"/x.pdf\"; sid:1;)
alert http any any -> any any (filename:\"x.pdf\"; sid:2;)
alert smtp any any -> any any (file_data; content:\"needle\"; sid:3;)";
    let mut watch = Watch::new(rules).named("http");
    watch.message(Reverse, &[("http.stat_code", "200")]);
    watch.buffer("http.response_body", Reverse, b"a nee");
    watch.buffer("file.name", Reverse, b"/x.pdf").buffer("file.magic", Reverse, b"ASCII text");
    assert_eq!(watch.sids(), [2]);
    watch.buffer("http.response_body", Reverse, b"dle").buffer("http.response_body", Reverse, b"");
    assert_eq!(watch.sids(), [1]);
}

/// The end of a file: its size, whether it ended there, a list that its checksum is in, and its name.
fn file_ends(watch: &mut Watch, side: Direction, size: u64, sum: Option<(&str, &str)>, name: &str) {
    watch.buffer("file.least_size", side, &size.to_be_bytes());
    if let Some((buffer, digits)) = sum {
        watch.buffer("file.size", side, &size.to_be_bytes());
        watch.buffer(buffer, side, digits.as_bytes());
    }
    watch.buffer("file.name", side, name.as_bytes()).buffer("file.magic", side, b"data");
}

#[test]
fn sizes_and_checksums_of_files() {
    let known = [("file.md5", 16), ("file.sha1", 20), ("file.sha256", 32)];
    for (test, size, is_whole, matches) in [
        ("filesize:10;", 10, true, 1),
        ("filesize:10;", 11, true, 0),
        ("filesize:10;", 10, false, 0),
        ("filesize:>9;", 10, true, 1),
        ("filesize:>10;", 10, true, 0),
        // What was cut off is longer than what was received.
        ("filesize:>9;", 10, false, 1),
        ("filesize:<11;", 10, true, 1),
        ("filesize:<11;", 10, false, 0),
        ("filesize:9<>11;", 10, true, 1),
        ("filesize:10<>12;", 10, true, 0),
        ("filemd5:md5.txt;", 10, true, 1),
        ("filemd5:!md5.txt;", 10, true, 0),
        ("filemd5:!md5.txt;", 10, false, 0),
        ("filesha1:sha1.txt;", 10, true, 1),
        ("filesha256:sha256.txt;", 10, true, 1),
        ("filesha256:!sha256.txt;", 10, true, 0),
        ("filesize:10; fileext:\"bin\"; filemd5:md5.txt;", 10, true, 1),
        ("filesize:11; fileext:\"bin\"; filemd5:md5.txt;", 10, true, 0),
        ("filesize:10; fileext:\"exe\"; filemd5:md5.txt;", 10, true, 0),
        ("http.stat_code; content:\"200\"; filesize:10;", 10, true, 1),
        ("http.stat_code; content:\"201\"; filesize:10;", 10, true, 0),
    ] {
        for (buffer, bytes) in known {
            let is_asked =
                ["md5", "sha1", "sha256"].iter().any(|name| test.contains(&format!("file{name}:")));
            if is_asked && !test.contains(&buffer.replace('.', "")) {
                continue;
            }
            let mut watch =
                Watch::new(&format!("alert http any any -> any any ({test} sid:1;)")).named("http");
            watch.message(Reverse, &[("http.stat_code", "200")]);
            let digits = "ab".repeat(bytes);
            file_ends(&mut watch, Reverse, size, is_whole.then_some((buffer, &*digits)), "a.bin");
            assert_eq!(watch.sids().len(), matches, "{test} {size} {is_whole}");
        }
    }
    let mut watch = Watch::new("alert http any any -> any any (filemd5:md5.txt; sid:1;)").named("http");
    let other = format!("{}ac", "ab".repeat(15));
    file_ends(&mut watch, Reverse, 10, Some(("file.md5", &other)), "a.bin");
    assert_eq!(watch.sids(), []);
}

#[test]
fn files_side_by_side_keep_their_names_and_sizes() {
    let rules = "alert smtp any any -> any any (filename:\"a.bin\"; sid:1;)
alert smtp any any -> any any (filename:\"a.bin\"; filesize:10; sid:2;)
alert smtp any any -> any any (filesize:>10; sid:3;)
alert smtp any any -> any any (filename:\"b.bin\"; filestore; sid:4;)
alert smtp any any -> any any (file_data; content:\"needle\"; filesize:<100; sid:5;)
alert smtp any any -> any any (filestore; sid:6;)";
    let mut watch = Watch::new(rules).named("smtp");
    assert_eq!(file(&mut watch, "a.bin", "data", b"a needle"), [1, 6]);
    assert_eq!(file(&mut watch, "b.bin", "data", b"hay"), [4, 6]);
    // Both end, one after the other; what was found at their beginnings is not found again.
    let ends = |watch: &mut Watch, size, name, data: &[u8]| {
        file_ends(watch, Forward, size, Some(("file.md5", "00")), name);
        watch.buffer("file.data", Forward, data).buffer("file.data", Forward, b"");
        watch.sids()
    };
    assert_eq!(ends(&mut watch, 10, "a.bin", b"a needle"), [2, 5]);
    assert_eq!(ends(&mut watch, 11, "b.bin", b"hay"), [3]);
    assert_eq!(ends(&mut watch, 10, "a.bin", b"a needle"), [2, 5], "the next one");
    assert_eq!(file(&mut watch, "a.bin", "data", b"a needle"), [1, 6]);
}

#[test]
fn a_body_that_comes_after_the_end_of_its_file() {
    let rules = "alert http any any -> any any (file_data; content:\"needle\"; filename:\"a.bin\"; sid:1;)
alert http any any -> any any (file_data; content:\"needle\"; filesize:6; sid:2;)";
    let mut watch = Watch::new(rules).named("http");
    watch.buffer("file.name", Reverse, b"a.bin").buffer("file.magic", Reverse, b"data");
    file_ends(&mut watch, Reverse, 6, Some(("file.md5", "00")), "a.bin");
    assert_eq!(watch.sids(), []);
    watch.buffer("http.response_body", Reverse, b"needle").buffer("http.response_body", Reverse, b"");
    assert_eq!(watch.sids(), [1, 2]);
}
