//! `weir rules update`: sources become one file, or nothing changes.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use support::*;

/// `weir rules update`, with `-o out/weir.rules`.
fn update(folder: &Path, args: &[&str]) -> Ran {
    let all = [&["rules", "update"], args, &["-o", "out/weir.rules"]].concat();
    run(Command::new(env!("CARGO_BIN_EXE_weir")).args(all).current_dir(folder))
}

fn json(folder: &Path, args: &[&str]) -> serde_json::Value {
    let ran = update(folder, &[args, &["--json"]].concat()).exits(0);
    serde_json::from_str(&ran.text()).unwrap()
}

/// The sids of a list of the changes.
fn sids(changes: &serde_json::Value, list: &str) -> Vec<u64> {
    changes[list].as_array().unwrap().iter().map(|rule| rule["sid"].as_u64().unwrap()).collect()
}

/// The merged file.
fn out(folder: &Path) -> String {
    fs::read_to_string(folder.join("out/weir.rules")).unwrap_or_default()
}

fn rule(sid: u32, more: &str) -> String {
    format!("alert tcp any any -> any any (msg:\"rule {sid}\"; {more}sid:{sid};)\n")
}

/// An archive with files.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        // The crate itself refuses to write names that lead out of a directory.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn files_directories_and_archives_become_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "one.rules", ["\u{feff}", &rule(1, "rev:1; ").replace('\n', "\r\n")].concat().as_bytes());
    fs::create_dir(at.join("dir")).unwrap();
    put(&at.join("dir"), "b.rules", ["# ", &rule(3, ""), &rule(1, "rev:2; ")].concat().as_bytes());
    put(&at.join("dir"), "deleted.rules", rule(9, "").as_bytes());
    put(&at.join("dir"), "notes.txt", b"no rules");
    let [fourth, fifth, ninth] = [4, 5, 9].map(|sid| rule(sid, ""));
    let members: [(&str, &[u8]); 5] = [
        ("rules/c.rules", fourth.as_bytes()),
        ("../../escaped.rules", fifth.as_bytes()),
        ("rules/LICENSE", b"words"),
        ("rules/x-deleted.rules", ninth.as_bytes()),
        ("rules/classification.config", b"config classification: a,A,1\n"),
    ];
    put(at, "et.tar.gz", &packed(&archive(&members)));
    let sources = ["one.rules", "dir", "et.tar.gz"];
    let ran = update(at, &sources).exits(0);
    assert_eq!(
        ran.text(),
        "5 rules of 4 files read; 1 replaced by a rule with their sid\n\
         0 switched off, 0 enabled, 0 dropped, 0 modified, 0 enabled for flowbits\n\
         4 added, 0 removed, 0 changed\n\
         out/weir.rules: 4 rules, 3 on: 3 in force, 0 refused\n"
    );
    let expected = [rule(1, "rev:2; "), ["# ", &rule(3, "")].concat(), rule(4, ""), rule(5, "")].concat();
    assert_eq!(out(at).split_once('\n').unwrap().1, expected);
    assert_eq!(fs::read(at.join("out/classification.config")).unwrap(), b"config classification: a,A,1\n");
    assert!(!at.join("../escaped.rules").exists() && !at.join("escaped.rules").exists());
    // A second update finds what the first one wrote, and leaves the file alone.
    let written = fs::metadata(at.join("out/weir.rules")).unwrap().modified().unwrap();
    update(at, &sources).exits(0).prints("0 added, 0 removed, 0 changed").prints("nothing has changed");
    assert_eq!(fs::metadata(at.join("out/weir.rules")).unwrap().modified().unwrap(), written);
    // The merged file may lie in the directory of a source.
    update(at, &["out", "one.rules"]).exits(2).says("the directory has no file *.rules");
    let changes = json(at, &["dir", "--local", "one.rules", "--ignore", ""]);
    assert_eq!((sids(&changes, "added"), sids(&changes, "removed")), (vec![9], vec![4, 5]));
}

#[test]
fn confs_switch_drop_and_modify_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rules = [
        rule(1, "metadata:deployment Perimeter; "),
        rule(2, "flowbits:isset,seen; "),
        format!("# {}", rule(3, "flowbits:set,seen; ")),
        format!("# {}", rule(4, "content:\"a\"; ")),
        rule(5, "content:\"b\"; "),
    ];
    put(at, "emerging-dos.rules", rules.concat().as_bytes());
    put(at, "other.rules", rule(6, "rev:4; ").as_bytes());
    put(at, "disable.conf", b"# comment\r\nmetadata: deployment perimeter\r\n1:3, 5 # why\r\n77\r\n");
    put(at, "enable.conf", b"re:CONTENT:\n");
    put(at, "drop.conf", b"group:emerging-*\n");
    put(
        at,
        "modify.conf",
        b"6 \"rev:\\d+\" \"rev:9\"\nmodifysid 4,5 \"^(drop)(.*)a\\\"\" | \"${1}${2}c\\\"\"\n",
    );
    let confs = ["--disable-conf", "disable.conf", "--enable-conf", "enable.conf"];
    let others = ["--drop-conf", "drop.conf", "--modify-conf", "modify.conf"];
    let args = [&["emerging-dos.rules", "other.rules"][..], &confs, &others].concat();
    let planned = json(at, &[&args[..], &["--dry-run"]].concat());
    assert!(planned["written"] == false && !at.join("out").exists());
    let changes = json(at, &args);
    assert_eq!(changes["written"], true);
    for (list, expected) in [
        ("switched_off", vec![1, 5]),
        ("enabled", vec![4, 5]),
        ("dropped", vec![1, 2, 3, 4, 5]),
        ("modified", vec![6, 4]),
        ("enabled_for_flowbits", vec![3]),
        ("added", vec![1, 2, 3, 4, 5, 6]),
    ] {
        assert_eq!((sids(&changes, list), sids(&planned, list)), (expected.clone(), expected), "{list}");
    }
    assert_eq!(changes["unused_lines"], serde_json::json!(["disable.conf:4"]));
    let expected = [
        format!("# {}", rules[0].replacen("alert", "drop", 1)),
        rules[1].replacen("alert", "drop", 1),
        // It sets a bit that rule 2 asks for, and has not been asked for alerts.
        rules[2].replacen("# alert", "drop", 1).replace("sid:3;", "sid:3; noalert;"),
        rules[3].replacen("# alert", "drop", 1).replace("\"a\"", "\"c\""),
        rules[4].replacen("alert", "drop", 1),
        rule(6, "rev:9; "),
    ];
    assert_eq!(out(at).split_once('\n').unwrap().1, expected.concat());
    // Without confs the next update changes these back.
    let changes = json(at, &["emerging-dos.rules", "other.rules"]);
    assert_eq!(sids(&changes, "changed"), [1, 2, 3, 4, 5, 6]);
    let first = &changes["changed"][0];
    assert!(first["on_before"] == false && first["on"] == true, "{first}");
    assert_eq!((&changes["changed"][5]["rev_before"], &changes["changed"][5]["rev"]), (&9.into(), &4.into()));
}

#[test]
fn thresholds_of_the_user_stay() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("dir")).unwrap();
    put(&at.join("dir"), "a.rules", rule(1, "").as_bytes());
    put(&at.join("dir"), "threshold.config", b"# an example\n");
    update(at, &["dir"]).exits(0);
    assert_eq!(fs::read(at.join("out/threshold.config")).unwrap(), b"# an example\n");
    put(&at.join("out"), "threshold.config", b"suppress gen_id 1, sig_id 1\n");
    update(at, &["dir"]).exits(0).prints("out/threshold.config stays as it is");
    assert_eq!(fs::read(at.join("out/threshold.config")).unwrap(), b"suppress gen_id 1, sig_id 1\n");
}

#[test]
fn what_cannot_be_read_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "a.rules", rule(1, "").as_bytes());
    update(at, &["a.rules"]).exits(0);
    let before = out(at);
    let whole = packed(&archive(&[("c.rules", rule(4, "").as_bytes())]));
    put(at, "cut.tar.gz", &whole[..whole.len() - 20]);
    let tar = archive(&[("c.rules", vec![b'#'; 4000].as_slice())]);
    put(at, "cut.tar", &tar[..2000]);
    put(at, "bomb.tar.gz", &packed(&vec![0; 2 << 20]));
    put(at, "empty.tar.gz", &packed(&archive(&[("LICENSE", b"words")])));
    put(at, "page.rules", b"<html>\n<body>not found</body>\n");
    put(at, "wide.rules", b"\xff\xfea\0");
    put(at, "long.rules", &vec![b'x'; 100 << 20]);
    put(at, "archive.zip", b"PK\x03\x04....");
    put(at, "refused.rules", b"alert tcp any any -> any any (contents:\"x\"; sid:2;)\n");
    put(at, "off.rules", format!("# {}", rule(7, "")).as_bytes());
    put(at, "wrong.conf", b"\n1:x\nre:(a\ngroup:a\n");
    put(at, "wrong-modify.conf", b"1 \"a\"\n");
    fs::create_dir(at.join("none")).unwrap();
    for (args, code, reason) in [
        (&["missing.rules"][..], 2, "missing.rules: No such file"),
        (&["a.rules", "cut.tar.gz"], 2, "cut.tar.gz: the packed file is truncated or damaged"),
        (&["cut.tar"], 2, "c.rules is truncated"),
        (&["bomb.tar.gz", "--max-unpacked", "1M"], 2, "larger, unpacked, than --max-unpacked allows"),
        (&["a.rules", "a.rules", "--max-unpacked", "100"], 2, "larger, unpacked"),
        (&["empty.tar.gz"], 2, "the archive has no file *.rules"),
        (&["none"], 2, "the directory has no file *.rules"),
        (
            &["a.rules", "page.rules"],
            2,
            "page.rules:1: `<html>` is not an action; no line of the file is a rule",
        ),
        (&["wide.rules"], 2, "wide.rules: the file is UTF-16"),
        (&["long.rules"], 2, "long.rules:1: the rule has 104857600 bytes"),
        (&["archive.zip"], 2, "archives of ZIP are not read"),
        (
            &["refused.rules"],
            1,
            "no rule would be in force, the first one because `contents` is not a keyword",
        ),
        (&["off.rules"], 1, "no rule would be in force"),
        (&["a.rules", "--disable-conf", "missing.conf"], 2, "missing.conf: No such file"),
        (&["a.rules", "--disable-conf", "wrong.conf"], 1, "wrong.conf:2: `1:x` names no rules"),
        (
            &["a.rules", "--enable-conf", "wrong.conf"],
            1,
            "wrong.conf:3: the expression is wrong: unclosed group",
        ),
        (&["a.rules", "--modify-conf", "wrong-modify.conf"], 1, "wrong-modify.conf:1: a line is"),
        (&["a.rules", "--rule-var", "HOME_NET=x"], 1, "--rule-var HOME_NET=x"),
        (&["a.rules", "--ignore", "[z-a]"], 1, "--ignore: the expression is wrong"),
    ] {
        update(at, args).exits(code).says(reason);
        assert_eq!(out(at), before, "{args:?}");
    }
    // A file that is no rule file is not replaced.
    put(&at.join("out"), "weir.rules", b"precious words\n");
    update(at, &["a.rules"]).exits(2).says("no line of the file is a rule");
    assert_eq!(out(at), "precious words\n");
}

#[test]
fn a_sparse_member_that_claims_to_be_large_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_path("a.rules").unwrap();
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(0);
    header.as_gnu_mut().unwrap().set_real_size(1 << 40);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, &b""[..]).unwrap();
    put(folder.path(), "a.tar", &builder.into_inner().unwrap());
    update(folder.path(), &["a.tar"]).exits(2).says("a.tar");
}

/// The shared rules of Emerging Threats: as many are in force from the merged file as from their own files.
#[test]
fn rules_of_emerging_threats_are_merged() {
    let rules = root().join("../shared/data/et-open");
    if !rules.is_dir() {
        println!("skipped: no shared data");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let changes = json(folder.path(), &[rules.to_str().unwrap()]);
    let check = |path: &str| {
        let ran = run(Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["rules", "check", "--json", path])
            .current_dir(folder.path()));
        serde_json::from_str::<serde_json::Value>(&ran.text()).unwrap()
    };
    let (before, now) = (check(rules.to_str().unwrap()), check("out/weir.rules"));
    assert!(
        now["in_force"].as_u64() >= before["in_force"].as_u64(),
        "{} {}",
        now["in_force"],
        before["in_force"]
    );
    assert_eq!(changes["in_force"], now["in_force"]);
    let set_by_rules = changes["enabled_for_flowbits"].as_array().unwrap().len() as u64;
    assert_eq!(now["rules"].as_u64(), before["rules"].as_u64().map(|rules| rules + set_by_rules));
}
