//! The function `watch`: flows and records with an address, net or name of a list, by any number of workers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use support::*;

/// testdata/sample/README.md: 10.99.0.66 answers nothing, and all hosts are clients of `www.weir.test`.
const LIST: &str = "\
# Hosts that should not be there.
10.99.0.66   # answers nothing

fd00:99::104/127
10.99.0.0/33
WWW.Weir.Test.
long.weir.test
";

fn configuration(list: &Path) -> String {
    let list = text(list);
    format!(
        r#"
[[subscription]]
name = "hosts"
level = "flow"
chain = ["watch {list} name bad-host", "log hosts"]

[[subscription]]
name = "names"
level = "record"
where = "dns or http or tls"
chain = ["watch {list} severity low", "log names"]
"#
    )
}

/// The last state of each event of a subscription, by its subject.
fn events(folder: &Path, subscription: &str) -> BTreeMap<String, Value> {
    let lines = fs::read_to_string(folder.join("weir.ndjson")).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = lines.filter(|line| line["kind"] == "event" && line["subscription"] == subscription);
    of.map(|event| (event["subject"].as_str().unwrap().to_owned(), event)).collect()
}

fn rows(folder: &Path, name: &str) -> Vec<Value> {
    let lines = fs::read_to_string(folder.join(name)).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn hits_are_events_and_pass_to_the_next_function_with_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let list = put(folder.path(), "bad.txt", LIST.as_bytes());
    let config = put(folder.path(), "weir.toml", configuration(&list).as_bytes());
    let mut first = None;
    for workers in ["1", "2", "5"] {
        let out = folder.path().join(workers);
        let sample = sample();
        let set =
            ["-q", "-o", text(&out), "--log", "ndjson", "--config", text(&config), "--workers", workers];
        let ran = weir([text(&sample)].into_iter().chain(set)).exits(0);
        let note = format!(
            "weir: {}:5: left out: not a network: the prefix is longer than the address\n",
            text(&list)
        );
        assert_eq!(ran.stderr, note, "of both subscriptions once");
        let (hosts, names) = (events(&out, "hosts"), events(&out, "names"));
        let dropped = &hosts["10.99.0.101 -> 10.99.0.66 10.99.0.66 of bad.txt"];
        assert_eq!((&dropped["event"], &dropped["severity"]), (&"bad-host".into(), &"warning".into()));
        assert_eq!((&dropped["entry"], &dropped["list"]), (&"10.99.0.66".into(), &"bad.txt".into()));
        assert_eq!(dropped["evidence"]["line"], 2);
        assert_eq!(dropped["expression"], "host 10.99.0.101 and host 10.99.0.66");
        assert!(hosts.values().any(|event| event["entry"] == "fd00:99::104/127"), "{hosts:?}");
        let www = "10.99.0.101 -> 10.99.0.1 www.weir.test of bad.txt";
        assert_eq!((&names[www]["event"], &names[www]["severity"]), (&"watched".into(), &"notice".into()));
        assert_eq!(names[www]["evidence"]["line"], 6);
        // Only hits pass.
        let counts = |events: &BTreeMap<String, Value>| -> u64 {
            events.values().map(|event| event["count"].as_u64().unwrap()).sum()
        };
        let (flows, records) = (rows(&out, "hosts.ndjson"), rows(&out, "names.ndjson"));
        assert_eq!((flows.len() as u64, hosts.is_empty()), (counts(&hosts), false));
        assert!(records.len() as u64 <= counts(&names), "a record may have two entries");
        for table in ["dns", "http", "tls"] {
            assert!(records.iter().any(|row| row[table].is_object()), "{table}");
        }
        let all = records.iter().map(Value::to_string);
        let mut all: Vec<String> = all.chain([format!("{hosts:?} {names:?}")]).collect();
        all.sort_unstable();
        assert_eq!(*first.get_or_insert_with(|| all.clone()), all, "{workers} workers");
    }
}

#[test]
fn an_anonymised_event_has_no_entry_line_or_address_of_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let list = put(folder.path(), "bad.txt", LIST.as_bytes());
    let chains = configuration(&list).replace(", \"log hosts\"", "").replace(", \"log names\"", "");
    let config = put(folder.path(), "weir.toml", chains.as_bytes());
    let key = put(folder.path(), "key", &[7; 32]);
    let out = folder.path().join("out");
    let sample = sample();
    let set =
        ["-q", "-o", text(&out), "--log", "ndjson,csv", "--config", text(&config), "--anon", "cryptopan"];
    let ran = [text(&sample)].into_iter().chain(set).chain(["--key-file", text(&key)]);
    weir(ran).exits(0);
    let hosts = events(&out, "hosts");
    assert!(!hosts.is_empty());
    for event in hosts.values().chain(events(&out, "names").values()) {
        assert_eq!(event["evidence"]["line"], 0, "{event}");
    }
    for file in fs::read_dir(&out).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        let written = String::from_utf8_lossy(&bytes);
        for private in ["weir.test", "10.99.0.66", "fd00:99"] {
            assert!(!written.contains(private), "{private}: {written}");
        }
    }
}

#[test]
fn lists_that_cannot_be_used_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let check = |chain: &str, level: &str| {
        let text_of = format!("[[subscription]]\nname = \"a\"\nlevel = \"{level}\"\nchain = [\"{chain}\"]\n");
        let config = put(folder.path(), "weir.toml", text_of.as_bytes());
        weir(["config", "check", text(&config)])
    };
    let missing = folder.path().join("missing.txt");
    check(&format!("watch {}", text(&missing)), "flow").exits(1).says("missing.txt");
    check("watch", "flow").exits(1).says("file");
    let list = put(folder.path(), "bad.txt", b"192.0.2.1\nno name\n");
    check(&format!("watch {}", text(&list)), "packet").exits(1).says("does not work on level = \"packet\"");
    check(&format!("watch {}", text(&list)), "record").exits(0);
    let two = format!("watch {0},{0}", text(&list));
    check(&two, "flow").exits(0);
}
