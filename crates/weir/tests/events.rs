//! Events: in every log, by any number of workers, after the anonymiser, and to a syslog server.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use support::*;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};
use weir_wire::build;
use weir_wire::build::flags::{ACK, RST, SYN};

const START: u64 = 1_795_225_560 * SECOND;
/// The logs with events.
const LOGS: &str = "zeek,zeek-json,eve,csv,ndjson,events";

fn logs(capture: &Path, out: &Path, more: &[&str]) -> Ran {
    let arguments = [text(capture), "-q", "-o", text(out), "--log", LOGS];
    weir(arguments.iter().chain(more))
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// The lines about events in every log.
fn events(folder: &Path) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in ["notice.log", "notice.json", "events.csv"] {
        lines.extend(read(folder, name).lines().map(|line| format!("{name}: {line}")));
    }
    let of = |name: &str, text: &str| {
        let all = read(folder, name);
        all.lines().filter(|line| line.contains(text)).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut days: Vec<PathBuf> = fs::read_dir(folder).unwrap().flatten().map(|file| file.path()).collect();
    days.retain(|path| path.extension().is_some_and(|end| end == "log") && text(path).contains("/events."));
    days.sort();
    for day in days {
        let all = fs::read_to_string(day).unwrap();
        lines.extend(all.lines().map(|line| format!("events: {line}")));
    }
    lines.extend(of("eve.json", "\"weir\":{"));
    lines.extend(of("weir.ndjson", "\"kind\":\"event\""));
    lines
}

/// A source that tries ports of a host, one each `step` nanoseconds; every one is refused, or none is answered.
fn tried(
    start: u64,
    step: u64,
    source: u8,
    ports: std::ops::Range<u16>,
    refused: bool,
) -> Vec<(u64, Vec<u8>)> {
    let (source, target) = ([10, 1, 0, source], [10, 2, 0, 1]);
    let mut packets = Vec::new();
    for (n, port) in ports.enumerate() {
        let time = start + n as u64 * step;
        let sent = build::ethernet().ipv4(source, target).tcp(40_000, port, SYN).seq(7).payload(&[]);
        packets.push((time, sent));
        if refused {
            let answer = build::ethernet().ipv4(target, source).tcp(port, 40_000, RST | ACK).ack(8);
            packets.push((time + 1_000_000, answer.payload(&[])));
        }
    }
    packets
}

/// A capture of three minutes: a fast scan, one over many intervals, one port of many hosts, and a clock that leaps.
fn made() -> Vec<u8> {
    let mut packets = tried(START, SECOND / 100, 1, 1..61, true);
    packets.extend(tried(START + SECOND, 3 * SECOND, 2, 100..150, false));
    for host in 1..41 {
        let sent = build::ethernet().ipv4([10, 1, 0, 3], [10, 3, 0, host]).tcp(50_000, 22, SYN).payload(&[]);
        packets.push((START + 20 * SECOND + u64::from(host) * SECOND / 4, sent));
    }
    packets.sort_by_key(|(time, _)| *time);
    packets.extend(conversation(START + 180 * SECOND));
    packets.extend(conversation(START + 100 * SECOND));
    packets.extend(conversation(START + 181 * SECOND));
    packets.extend(conversation(START + 3_650 * 86_400 * SECOND));
    pcap(1, &packets)
}

/// testdata/sample/README.md: h4 tried 60 ports of h3, and no other host scanned.
#[test]
fn events_of_a_store_are_queried() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("scan.pcap");
    fs::write(&capture, pcap(1, &tried(START, SECOND, 1, 1..31, true))).unwrap();
    let store = folder.path().join("store");
    weir([text(&capture), "-q", "-o", text(&store), "--log", "store"]).exits(0);
    weir(["query", "events where tcp", "-d", text(&store)]).exits(1).says("cannot be filtered");
    let ran = weir(["query", "events limit 5", "-j", "-d", text(&store)]).exits(0);
    let answer: Value = serde_json::from_str(&ran.text()).unwrap();
    let column =
        |name: &str| answer["columns"].as_array().unwrap().iter().position(|c| c["name"] == name).unwrap();
    let rows = answer["rows"].as_array().unwrap();
    let scan =
        rows.iter().find(|row| row[column("kind")] == "port_scan").unwrap_or_else(|| panic!("{answer}"));
    assert!(scan[column("subject")].as_str().unwrap().contains("10.1.0.1"), "{scan}");
    assert!(scan[column("count")].as_u64().unwrap() >= 20 && scan[column("end")].is_string(), "{scan}");
    let filter = scan[column("filter")].as_str().unwrap();
    weir(["count", text(&capture), "-e", filter]).exits(0);
}

/// A store that is served, and a request to it.
struct Pages(http::Server);

impl Pages {
    fn of(store: &Path) -> Pages {
        let port = http::port().to_string();
        Pages(http::Server::start(program().args(["serve", "--store", text(store), "--port", &port])))
    }

    fn post(&self, path: &str, body: &Value) -> http::Answer {
        let headers = [("Content-Type", "application/json")];
        self.0.request("POST", &format!("/api/v1/{path}"), &headers, &body.to_string())
    }

    /// The scans among the events, by the source of each.
    fn scans(&self, query: &str) -> (Vec<Value>, u64) {
        let answer = self.0.json(&format!("/api/v1/events{query}"));
        let mut events = answer["events"].as_array().unwrap().clone();
        events.retain(|event| event["kind"] == "port_scan");
        events.sort_by_key(|event| event["host"].to_string());
        (events, answer["muted"].as_u64().unwrap())
    }
}

/// A mute that is added while a store is served holds in the next run: its events go to no log and not into the summary, and the
/// store keeps them.
#[test]
fn a_mute_hides_events_of_later_runs_and_the_store_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, out) = (folder.path().join("scans.pcap"), folder.path().join("out"));
    let mut packets = tried(START, SECOND / 100, 1, 1..61, true);
    packets.extend(tried(START + SECOND / 200, SECOND / 100, 2, 1..61, true));
    packets.sort_by_key(|(time, _)| *time);
    fs::write(&capture, pcap(1, &packets)).unwrap();
    let run = || {
        let all = format!("{LOGS},store");
        let ran = weir([text(&capture), "-o", text(&out), "--log", &all]).exits(0);
        (ran.text(), events(&out).join("\n"))
    };
    let (summary, lines) = run();
    assert!(
        summary.contains("10.1.0.1 -> 10.2.0.1") && lines.contains("10.1.0.1") && lines.contains("10.1.0.2")
    );

    let pages = Pages::of(&out);
    let ids: Vec<Value> = pages.scans("").0.iter().map(|event| event["id"].clone()).collect();
    assert_eq!(ids.len(), 2);
    let scope = serde_json::json!({"kinds": ["port_scan"], "source": "10.1.0.1", "target": "10.2.0.0/16"});
    let draft = serde_json::json!({"scope": scope, "reason": "<b>ours</b>"});
    let preview = pages.post("mutes/preview", &draft).is(200).json();
    assert_eq!((&preview["count"], &preview["first"][0]["id"]), (&1.into(), &ids[0]), "{preview}");
    assert!(preview["of"].as_u64() >= Some(2) && preview["partial"].is_null(), "{preview}");
    let added = pages.post("mutes", &draft).is(200).json();
    assert_eq!(
        (&added["number"], &added["reason"], &added["until"]),
        (&1.into(), &"<b>ours</b>".into(), &Value::Null)
    );
    assert!(!added["who"].as_str().unwrap().is_empty() && added["ended"] == false, "{added}");
    // It holds for what is found from now on.
    assert_eq!((pages.scans("").0.len(), pages.scans("").1), (2, 0));
    let note = pages.0.json("/api/v1/events")["events"][0].clone();
    assert!(note["kind"] == "mute" && note["text"].as_str().unwrap().contains("added mute 1"), "{note}");
    let seen =
        pages.post("events/acknowledge", &serde_json::json!({"ids": [ids[1]], "note": "seen"})).is(200);
    assert_eq!(seen.json()["ids"], Value::from(vec![ids[1].clone()]));
    drop(pages);

    let (summary, lines) = run();
    assert!(
        !summary.contains("10.1.0.1 -> 10.2.0.1") && summary.contains("10.1.0.2 -> 10.2.0.1"),
        "{summary}"
    );
    assert!(
        !lines.contains("10.1.0.1\"") && !lines.contains("10.1.0.1 ->") && lines.contains("10.1.0.2"),
        "{lines}"
    );
    let queried = weir(["query", "events limit 50", "-j", "-d", text(&out)]).exits(0).text();
    assert!(!queried.contains("10.1.0.1 ") && queried.contains("10.1.0.2 "), "{queried}");

    let pages = Pages::of(&out);
    let (shown, muted) = pages.scans("?limit=50");
    assert_eq!((shown.len(), &shown[0]["id"], &shown[0]["muted"], muted), (1, &ids[1], &Value::Null, 1));
    // The capture has equal identifiers in every run.
    let seen = &shown[0]["acknowledged"];
    assert!(seen["note"] == "seen" && seen["who"].is_string() && seen["when"].as_f64() > Some(1e9), "{seen}");
    let (hidden, muted) = pages.scans("?muted=yes");
    assert_eq!((hidden.len(), &hidden[0]["id"], &hidden[0]["muted"], muted), (1, &ids[0], &1.into(), 1));
    assert_eq!((&hidden[0]["target"], &hidden[0]["open"]), (&"10.2.0.1".into(), &false.into()));
    let subject = serde_json::json!({"kind": "port_scan", "subject": hidden[0]["subject"]});
    pages.post("events/acknowledge", &subject).is(200);
    assert!(pages.scans("?muted=yes").0[0]["acknowledged"].is_object());
    let mutes = pages.0.json("/api/v1/mutes");
    assert_eq!(
        (&mutes["mutes"][0]["hits"], &mutes["mutes"][0]["scope"]["target"]),
        (&1.into(), &"10.2.0.0/16".into())
    );
    assert_eq!(mutes["mutes"].as_array().unwrap().len(), 1);
    // What is removed hides nothing in the run that follows.
    let remove = |number: &str| pages.0.request("DELETE", &format!("/api/v1/mutes/{number}"), &[], "");
    assert_eq!(remove("1").is(200).json()["hits"], 1);
    for unknown in ["1", "0", "-1", "x", "18446744073709551616"] {
        remove(unknown).is(404);
    }
    drop(pages);
    assert!(run().1.contains("10.1.0.1"));
}

/// Bodies of wrong types and values, and more mutes than are kept.
#[test]
fn what_is_no_mute_is_refused_and_mutes_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, store) = (folder.path().join("scan.pcap"), folder.path().join("store"));
    fs::write(&capture, pcap(1, &tried(START, SECOND / 100, 1, 1..61, true))).unwrap();
    weir([text(&capture), "-q", "-o", text(&store), "--log", "store"]).exits(0);
    let pages = Pages::of(&store);
    let scope = serde_json::json!({"kinds": ["port_scan"]});
    for wrong in [
        serde_json::json!([]),
        serde_json::json!({}),
        serde_json::json!({"scope": {}}),
        serde_json::json!({"scope": "port_scan"}),
        serde_json::json!({"scope": {"kinds": "port_scan"}}),
        serde_json::json!({"scope": {"kinds": [7]}}),
        serde_json::json!({"scope": {"kinds": ["a\u{1b}[31m"]}}),
        serde_json::json!({"scope": {"source": "10.0.0.0/33"}}),
        serde_json::json!({"scope": {"target": "2001:db8::/129"}}),
        serde_json::json!({"scope": {"port": 80}}),
        serde_json::json!({"scope": {"port": "tcp/99999"}}),
        serde_json::json!({"scope": {"host": "10.0.0.1"}}),
        serde_json::json!({"scope": scope, "until": 1}),
        serde_json::json!({"scope": scope, "until": -1}),
        serde_json::json!({"scope": scope, "until": 1e300}),
        serde_json::json!({"scope": scope, "until": "tomorrow"}),
        serde_json::json!({"scope": scope, "until": 1.8e10}),
        serde_json::json!({"scope": scope, "reason": "x".repeat(201)}),
        serde_json::json!({"scope": scope, "reason": "\u{1b}[31m"}),
        serde_json::json!({"scope": scope, "who": "root"}),
    ] {
        for path in ["mutes", "mutes/preview"] {
            let answer = pages.post(path, &wrong).is(400).json();
            assert!(answer["error"].is_string() && answer["help"].is_string(), "{wrong}: {answer}");
        }
    }
    for wrong in [
        serde_json::json!({}),
        serde_json::json!({"ids": 7}),
        serde_json::json!({"ids": vec!["x"; 1001]}),
        serde_json::json!({"ids": ["x"], "kind": "port_scan", "subject": "y"}),
        serde_json::json!({"kind": "port_scan"}),
        serde_json::json!({"ids": ["x"], "note": "a\nb"}),
    ] {
        pages.post("events/acknowledge", &wrong).is(400);
    }
    pages.post("events/acknowledge", &serde_json::json!({"ids": ["x' OR 1 --"]})).is(404);
    pages.0.get("/api/v1/events?muted=perhaps").is(400);
    let headers = [("Content-Type", "application/json"), ("Origin", "http://evil.example")];
    let body = serde_json::json!({"scope": scope}).to_string();
    pages.0.request("POST", "/api/v1/mutes", &headers, &body).is(403);
    assert!(pages.0.json("/api/v1/mutes")["mutes"].as_array().unwrap().is_empty());
    for _ in 0..1000 {
        pages.post("mutes", &serde_json::json!({"scope": scope})).is(200);
    }
    for _ in 0..10 {
        pages.post("mutes", &serde_json::json!({"scope": scope})).is(429);
    }
    assert_eq!(pages.0.json("/api/v1/mutes")["mutes"].as_array().unwrap().len(), 1000);
}

/// Subscriptions whose functions find events: items, rows above a threshold, and too few packets.
const JUDGED: &str = r#"
[[subscription]]
name = "refused"
level = "flow"
where = "tcp and src net 10.1.0.0/24"
chain = ["event refused-flow severity low"]

[[subscription]]
name = "busy senders"
interval = "1m"
where = "tcp"
chain = ["top source by source unit packets", "event busy-sender above 30"]

[[subscription]]
name = "quiet"
interval = "1m"
where = "host 10.1.0.1"
chain = ["packets", "event quiet-host below 1 severity low"]

[[subscription]]
name = "scans of one host"
level = "flow"
where = "host 10.1.0.1"
chain = ["scans"]
"#;

/// The facts of the events of a subscription: name, severity, subject, begin, last, count.
fn found(folder: &Path, subscription: &str) -> Vec<(String, String, String, u64, u64, u64)> {
    let text = read(folder, "weir.ndjson");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = lines.filter(|line| line["subscription"] == subscription && line["state"] == "end");
    let word = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let second = |line: &Value, name: &str| {
        let time: jiff::Timestamp = line[name].as_str().unwrap().parse().unwrap();
        time.as_second() as u64 - START / SECOND
    };
    ended
        .map(|line| {
            let words = ["event", "severity", "subject"].map(|name| word(&line, name));
            let [event, severity, subject] = words;
            let count = line["count"].as_u64().unwrap();
            (event, severity, subject, second(&line, "start"), second(&line, "end"), count)
        })
        .collect()
}

#[test]
fn functions_of_subscriptions_find_events_with_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, config) = (folder.path().join("made.pcap"), folder.path().join("weir.toml"));
    let mut packets = tried(START, SECOND / 100, 1, 1..61, true);
    packets.extend(conversation(START + 300 * SECOND));
    fs::write(&capture, pcap(1, &packets)).unwrap();
    fs::write(&config, JUDGED).unwrap();
    let mut first: Option<Vec<String>> = None;
    for workers in ["1", "2", "3", "7"] {
        let out = folder.path().join(workers);
        logs(&capture, &out, &["--config", text(&config), "--workers", workers]).exits(0);
        let lines = events(&out);
        match &first {
            None => first = Some(lines),
            Some(first) => assert_eq!(*first, lines, "{workers} workers"),
        }
        let row = |event: &str, severity: &str, subject: &str, begin, last, count| {
            (event.to_owned(), severity.to_owned(), subject.to_owned(), begin, last, count)
        };
        let refused = row("refused-flow", "notice", "10.1.0.1 -> 10.2.0.1", 0, 0, 60);
        assert_eq!(found(&out, "refused"), [refused]);
        let senders = found(&out, "busy senders");
        let subjects: BTreeSet<&str> = senders.iter().map(|row| row.2.as_str()).collect();
        assert_eq!(subjects, BTreeSet::from(["10.1.0.1", "10.2.0.1"]), "{senders:?}");
        // Nothing of the host from the second minute to the fifth; the last one does not end.
        assert_eq!(found(&out, "quiet"), [row("quiet-host", "notice", "all", 60, 299, 4)]);
        let scans = found(&out, "scans of one host");
        assert_eq!(scans.len(), 1, "{scans:?}");
        assert_eq!((scans[0].0.as_str(), scans[0].5), ("port_scan", 60));
    }
}

#[test]
fn an_event_that_has_nothing_to_judge_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir.toml");
    for (chain, says) in [
        (r#"["event x above 5"]"#, "follow a function that measures"),
        (r#"["event x"]"#, "needs level = \"flow\" or \"record\""),
        (r#"["rate", "event x above 5"]"#, "no rows with a number"),
        (r#"["packets", "event x above 5 column colour"]"#, "packets, bytes"),
        (r#"["top source", "where tcp", "event x above 5"]"#, "follow a function that measures"),
    ] {
        fs::write(&config, format!("[[subscription]]\nname = \"a\"\nchain = {chain}\n")).unwrap();
        weir(["config", "check", text(&config)]).exits(1).says(says);
    }
}

#[test]
fn a_packet_file_on_a_full_disk_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    logs(&sample(), folder.path(), &["-w", "/dev/full"]).exits(4);
    let found = events(folder.path());
    let rows: Vec<&String> = found.iter().filter(|line| line.contains("disk_full")).collect();
    // Of the file, not of its folder.
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row.contains("full") && !row.contains("/dev")),
        "{found:?}"
    );
    let first: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
    assert!(["notice.log", "notice.json", "events.csv"].iter().all(|log| first.contains(log)), "{found:?}");
}

#[test]
fn the_scan_of_the_sample_is_an_event_in_every_log() {
    let folder = tempfile::tempdir().unwrap();
    logs(&sample(), folder.path(), &[]).exits(0).quietly();
    let notices = read(folder.path(), "notice.log");
    let rows: Vec<&str> = notices.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 1, "{notices}");
    let cells: Vec<&str> = rows[0].split('\t').collect();
    assert_eq!((cells[10], cells[13], cells[14]), ("Scan::Port_Scan", "10.99.0.104", "10.99.0.3"));
    assert!(cells[11].starts_with("10.99.0.104 -> 10.99.0.3  53 ports ("), "{}", cells[11]);
    let anomalies: Vec<Value> = objects(&read(folder.path(), "eve.json"))
        .into_iter()
        .filter(|event| event["event_type"] == "anomaly" && event["anomaly"]["type"] == "weir")
        .map(|event| event["metadata"]["flowvars"][0]["weir"].clone())
        .collect();
    let states: Vec<&str> = anomalies.iter().map(|event| event["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["begin", "end"]);
    assert!(anomalies.iter().all(|event| event["id"] == anomalies[0]["id"]));
    assert_eq!(anomalies[1]["evidence"]["failed"], 53);
    let lines = objects(&read(folder.path(), "weir.ndjson"));
    let lines: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "event").collect();
    assert_eq!((lines.len(), &lines[1]["severity"]), (2, &"warning".into()));
    assert_eq!(read(folder.path(), "events.csv").lines().count(), 3);
    assert_eq!(cells[12], lines[1]["expression"].as_str().unwrap());
    // The expression shows its packets: a SYN of each of the 60 attempts and more.
    let shown = weir([text(&sample()), cells[12], "-j"]).exits(0).fact("ledger", "analysed");
    assert!(shown >= 53, "{shown}");
    // The summary in JSON has it, too.
    let ran = weir([text(&sample()), "-j"]).exits(0);
    let found: Vec<Value> = ran.json().into_iter().filter(|line| line["kind"] == "event").collect();
    assert_eq!((found.len(), &found[0]["count"]), (1, &lines[1]["count"]));
}

#[test]
fn a_made_capture_has_the_events_that_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "made.pcap", &made());
    logs(&capture, folder.path(), &[]).exits(0).quietly();
    let lines = objects(&read(folder.path(), "weir.ndjson"));
    let ended: Vec<&Value> =
        lines.iter().filter(|line| line["kind"] == "event" && line["state"] == "end").collect();
    let mut found: Vec<(String, String, u64)> = ended
        .iter()
        .map(|line| {
            let word = |name: &str| line[name].as_str().unwrap().to_owned();
            (word("event"), word("subject"), line["count"].as_u64().unwrap())
        })
        .collect();
    found.sort();
    let row = |event: &str, subject: &str, count| (event.to_owned(), subject.to_owned(), count);
    assert_eq!(
        found,
        [
            row("address_scan", "10.1.0.3 -> tcp/22", 40),
            row("clock_leap", "sensor", 2),
            row("port_scan", "10.1.0.1 -> 10.2.0.1", 60),
            row("port_scan", "10.1.0.2 -> 10.2.0.1", 50),
        ]
    );
    let leap = ended.iter().find(|line| line["event"] == "clock_leap").unwrap();
    assert_eq!((&leap["evidence"]["back"], &leap["evidence"]["ahead"]), (&1.into(), &1.into()));
    // Every event has begun once before it has ended.
    let of = |state: &str| {
        let of = lines.iter().filter(|line| line["kind"] == "event" && line["state"] == state);
        of.map(|line| line["id"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!((of("begin").len(), of("begin")), (4, of("end")));
}

/// More scans in a minute than events begin: one event stands for the others, with any number of workers, and the next minute has room.
#[test]
fn further_events_of_a_minute_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut packets: Vec<(u64, Vec<u8>)> =
        (1..=150).flat_map(|source| tried(START, SECOND / 10, source, 1..22, true)).collect();
    packets
        .extend((200..210).flat_map(|source| tried(START + 70 * SECOND, SECOND / 10, source, 1..22, true)));
    packets.sort_by_key(|(time, _)| *time);
    let capture = put(folder.path(), "scans.pcap", &pcap(1, &packets));
    for interval in ["1s", "10s", "1h"] {
        let mut first: Option<Vec<String>> = None;
        for workers in ["1", "2", "3"] {
            let out = folder.path().join(format!("{interval}{workers}"));
            let given = ["--workers", workers, "--interval", interval];
            logs(&capture, &out, &given).exits(0);
            let lines = objects(&read(&out, "weir.ndjson"));
            let of = |event: &str, state: &str| {
                let of = lines.iter().filter(|line| line["event"] == event && line["state"] == state);
                of.cloned().collect::<Vec<Value>>()
            };
            assert_eq!((of("port_scan", "begin").len(), of("port_scan", "end").len()), (110, 110));
            let [many] = &of("many", "end")[..] else { panic!("{interval}: {:?}", of("many", "end")) };
            assert_eq!((&many["evidence"]["events"], &many["subject"]), (&50.into(), &"sensor".into()));
            let found: u64 = of("port_scan", "end").iter().map(|scan| scan["count"].as_u64().unwrap()).sum();
            // What is not open has all attempts of its finding, and later ones only when they are a finding again.
            let held = many["count"].as_u64().unwrap();
            assert!(found == 110 * 21 && (50 * 20..=50 * 21).contains(&held), "{found} and {held}");
            let lines = events(&out);
            assert_eq!(*first.get_or_insert_with(|| lines.clone()), lines, "{workers} workers, {interval}");
        }
    }
}

/// Subscriptions with every kind of judge, over whatever a capture has.
const EVERY_JUDGE: &str = r#"
[[subscription]]
name = "flows"
level = "flow"
where = "flow.packets > 3"
chain = ["event longer-flow severity low"]

[[subscription]]
name = "records"
level = "record"
chain = ["tables of dns+http+tls", "event record"]

[[subscription]]
name = "senders"
chain = ["top source unit packets", "event busy-sender above 5"]

[[subscription]]
name = "askers"
level = "record"
chain = ["top source by distinct dns.query show 20", "event asker above 1"]

[[subscription]]
name = "silence"
chain = ["packets", "event few-packets below 3 severity low"]

[[subscription]]
name = "tries"
level = "flow"
chain = ["scans"]
"#;

/// Law 1 for events: every line of every log is equal, byte for byte, with any number of workers, whatever the length of an
/// interval. Returns the number of lines.
fn law_of_judges(folder: &Path, captures: &[PathBuf]) -> usize {
    let config = put(folder, "judges.toml", EVERY_JUDGE.as_bytes());
    let mut found = 0;
    for (at, capture) in captures.iter().enumerate() {
        let of = |workers: &str, interval: &str| {
            let out = folder.join(format!("{at}-{workers}"));
            let given = ["--workers", workers, "--interval", interval, "--config", text(&config)];
            let ran = logs(capture, &out, &given);
            assert!(matches!(ran.code, Some(0 | 2 | 3)), "{}: {}", capture.display(), ran.stderr);
            let events = events(&out);
            let _ = fs::remove_dir_all(&out);
            events
        };
        for interval in ["1s", "30s", "1h"] {
            let one = of("1", interval);
            found += one.len();
            for workers in ["2", "3", "7"] {
                let many = of(workers, interval);
                assert_eq!(many, one, "{}, {workers} workers, {interval}", capture.display());
            }
        }
    }
    println!("{found} lines about events in {} captures", captures.len());
    found
}

#[test]
fn events_do_not_depend_on_the_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let mut captures = diverse(40);
    captures.push(put(folder.path(), "made.pcap", &made()));
    assert!(law_of_judges(folder.path(), &captures) >= 4_000);
}

/// As [`events_do_not_depend_on_the_number_of_workers`], over all captures.
#[test]
#[ignore = "takes about half an hour"]
fn events_of_all_captures_do_not_depend_on_the_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    law_of_judges(folder.path(), &captures());
}

/// Fails if a part of an event's evidence exceeds the number of its findings. A kind with evidence has its rule here.
#[track_caller]
fn parts_are_within_the_whole(event: &Value, capture: &Path) {
    let evidence = event["evidence"].as_object().unwrap();
    let number = |name: &str| evidence[name].as_u64().unwrap();
    let count = event["count"].as_u64().unwrap();
    let holds = match event["event"].as_str().unwrap() {
        // Every failed flow is a finding, and there is at least one for each failed port or host.
        "port_scan" | "address_scan" => {
            number("refused_flows") + number("unanswered_flows") == count && number("failed") <= count
        }
        "clock_leap" => number("back") + number("ahead") == count,
        "link_down" => number("removed") <= count,
        "many" => number("events") <= count,
        _ => evidence.is_empty(),
    };
    assert!(holds, "{}: {event}", capture.display());
}

/// Ports of one host that are refused, the first half of them twice, and a port of as many hosts.
fn sweeps(n: u16) -> Vec<u8> {
    let step = SECOND / 1_000;
    let mut packets = tried(START, step, 1, 1..1 + n, true);
    packets.extend(tried(START + u64::from(n) * step + SECOND, step, 1, 1..1 + n / 2, true));
    for host in 0..n {
        let [high, low] = host.to_be_bytes();
        let sent =
            build::ethernet().ipv4([10, 1, 0, 3], [10, 3, high, low]).tcp(50_000, 22, SYN).payload(&[]);
        packets.push((START + u64::from(host) * step + 7, sent));
    }
    packets.sort_by_key(|(time, _)| *time);
    pcap(1, &packets)
}

/// It holds for every state of every event. Ports are counted exactly, however many they are.
#[test]
fn no_part_of_an_evidence_exceeds_its_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut captures: Vec<_> = diverse(60).into_iter().map(|path| (path, None)).collect();
    captures.push((put(folder.path(), "made.pcap", &made()), None));
    for n in [200_u16, 257, 513, 998, 1_000, 5_000] {
        captures.push((put(folder.path(), &format!("{n}.pcap"), &sweeps(n)), Some(u64::from(n))));
    }
    let mut found = 0;
    for (at, (capture, targets)) in captures.iter().enumerate() {
        for more in [["--workers", "1"], ["--workers", "3"], ["--interval", "1s"]] {
            let out = folder.path().join(format!("{at}{}", more.concat()));
            let ran = logs(capture, &out, &more);
            assert!(matches!(ran.code, Some(0 | 2 | 3)), "{}: {}", capture.display(), ran.stderr);
            let lines = objects(&read(&out, "weir.ndjson"));
            let events: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "event").collect();
            events.iter().for_each(|event| parts_are_within_the_whole(event, capture));
            found += events.len();
            let Some(targets) = *targets else { continue };
            let last = |kind: &str| {
                let of_kind = |event: &&&Value| event["event"] == kind && event["state"] == "end";
                let ended: Vec<&&Value> = events.iter().filter(of_kind).collect();
                assert_eq!(ended.len(), 1, "{kind} in {} with {more:?}: {events:?}", capture.display());
                let number = |value: &Value| value.as_u64().unwrap();
                (number(&ended[0]["evidence"]["failed"]), number(&ended[0]["count"]))
            };
            assert_eq!(last("port_scan"), (targets, targets + targets / 2), "{more:?}");
            let (hosts, flows) = last("address_scan");
            assert_eq!(flows, targets);
            assert!(hosts * 100 >= targets * 94, "{hosts} of {targets}");
            let notices = objects(&read(&out, "notice.json"));
            let of_ports: Vec<&Value> =
                notices.iter().filter(|notice| notice["note"] == "Scan::Port_Scan").collect();
            assert!(!of_ports.is_empty());
            assert!(of_ports.iter().all(|notice| !notice["msg"].as_str().unwrap().contains("about")));
        }
    }
    println!("{found} states of events in {} captures", captures.len());
    assert!(found >= 60, "{found}");
}

#[test]
fn events_pass_through_the_anonymiser() {
    let folder = tempfile::tempdir().unwrap();
    let key = put_private(folder.path(), "key", &[b'7'; 64]);
    let capture = put(folder.path(), "made.pcap", &made());
    logs(&capture, folder.path(), &["--anon", "cryptopan", "--key-file", text(&key)]).exits(0).quietly();
    let lines = events(folder.path());
    assert!(lines.len() > 20, "{lines:?}");
    for original in ["10.1.0.", "10.2.0.", "10.3.0."] {
        assert!(lines.iter().all(|line| !line.contains(original)), "{original} in {lines:?}");
    }
    // The addresses are those of the flows.
    let flows: BTreeSet<String> = objects(&read(folder.path(), "conn.json"))
        .into_iter()
        .map(|flow| flow["id.orig_h"].as_str().unwrap().to_owned())
        .collect();
    let scans = objects(&read(folder.path(), "notice.json"));
    let sources: Vec<&str> = scans.iter().filter_map(|scan| scan["src"].as_str()).collect();
    assert_eq!(sources.len(), 3);
    assert!(sources.iter().all(|source| flows.contains(*source)), "{sources:?} in {flows:?}");
}

#[test]
fn events_are_sent_to_a_syslog_server() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let to = format!("udp:{}", server.local_addr().unwrap());
    weir([text(&sample()), "-q", "--syslog", &to]).exits(0).quietly();
    let mut states = Vec::new();
    for _ in 0..2 {
        let mut bytes = [0; 4096];
        let length = server.recv(&mut bytes).unwrap();
        let message = String::from_utf8(bytes[..length].to_vec()).unwrap();
        assert!(message.starts_with("<28>1 2026-") && message.contains(" weir - port_scan ["), "{message}");
        states.push(message.contains("state=\"end\""));
    }
    assert_eq!(states, [false, true]);
    // The configuration file names it as well.
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "weir.toml", format!("[output]\nsyslog = \"{to}\"\n").as_bytes());
    weir([text(&sample()), "-q", "--config", text(&file)]).exits(0).quietly();
    assert!(server.recv(&mut [0; 4096]).unwrap() > 100);
    weir([text(&sample()), "--syslog", "tcp:"]).exits(1).says("expected `udp:HOST`");
}

/// Answers each request of HTTP with 200 until the client leaves. Returns the headers and the body of each.
fn posted(server: TcpListener) -> Vec<(String, String)> {
    let mut from = BufReader::new(server.accept().unwrap().0);
    let mut all = Vec::new();
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if from.read_line(&mut head).unwrap_or(0) == 0 {
                return all;
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        from.read_exact(&mut body).unwrap();
        all.push((head, String::from_utf8(body).unwrap()));
        from.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
    }
}

#[test]
fn events_are_posted_to_a_webhook() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let heard = std::thread::spawn(move || posted(server));
    let folder = tempfile::tempdir().unwrap();
    let key = put(folder.path(), "key", b"secret\n");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let hook = format!("webhook = \"http://localhost:{port}/a?b\"\n");
    let toml = format!("[output]\n{hook}webhook_secret_file = \"{}\"\n", text(&key));
    let file = put(folder.path(), "weir.toml", toml.as_bytes());
    let out = folder.path().join("out");
    let config = ["--config", text(&file), "-o", text(&out), "--log", "ndjson"];
    weir([text(&sample()), "-q"].into_iter().chain(config)).exits(0).quietly();
    let heard = heard.join().unwrap();
    let lines = read(&out, "weir.ndjson");
    let lines: Vec<&str> = lines.lines().filter(|line| line.contains("\"kind\":\"event\"")).collect();
    assert_eq!(heard.iter().map(|(_, body)| body.as_str()).collect::<Vec<_>>(), lines);
    assert_eq!(lines.len(), 2);
    for (head, body) in &heard {
        assert!(head.starts_with("post /a?b http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/json\r\n"), "{head}");
        let mut mac = Hmac::<Sha256>::new_from_slice(b"secret").unwrap();
        mac.update(body.as_bytes());
        let signature: String =
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(head.contains(&format!("x-weir-signature: sha256={signature}\r\n")), "{head}");
    }
    // The plan has no path of the address, which may be a secret.
    let plan = weir(["explain", "--plan", text(&sample()), "--config", text(&file)]).exits(0);
    let plan = plan.prints(&format!("http://localhost:{port}")).text();
    assert!(!plan.contains("a?b"), "{plan}");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    weir([text(&sample()), "-q", "--config", text(&file)]).exits(4).says("chmod 600");
}

#[test]
fn a_webhook_that_hangs_holds_up_the_end_of_a_run_for_a_limited_time() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let toml = format!("[output]\nwebhook = \"http://{}\"\n", server.local_addr().unwrap());
    let file = put(folder.path(), "weir.toml", toml.as_bytes());
    // It listens, and never answers.
    let ran = weir([text(&sample()), "-q", "--config", text(&file)]).exits(4);
    ran.says("webhook: 2 messages were not sent: no answer");
}

/// Reads a message after its number of bytes.
fn counted(from: &mut impl BufRead) -> String {
    let mut length = Vec::new();
    from.read_until(b' ', &mut length).unwrap();
    let mut bytes = vec![0; String::from_utf8(length).unwrap().trim().parse().unwrap()];
    from.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn events_are_sent_to_a_syslog_server_over_tcp() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let to = format!("tcp:localhost:{port}");
    let heard = std::thread::spawn(move || {
        let mut from = BufReader::new(server.accept().unwrap().0);
        let messages = [counted(&mut from), counted(&mut from)];
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        (messages, rest)
    });
    // The run and the process that sends are confined.
    weir([text(&sample()), "-q", "--syslog", &to]).exits(0).quietly();
    let (messages, rest) = heard.join().unwrap();
    assert!(rest.is_empty(), "{rest}");
    assert!(messages.iter().all(|one| one.starts_with("<28>1 2026-") && one.contains("port_scan [")));
    assert_eq!(messages.map(|one| one.contains("state=\"end\"")), [false, true]);
    // The server has gone: what could not be sent is counted, and the failure is an event of the run.
    weir([text(&sample()), "-q", "--syslog", &to])
        .exits(4)
        .says("messages were not sent: Connection refused");
    weir([text(&sample()), "-q", "--syslog", "tcp:host.invalid"]).exits(4).says("messages were not sent: ");
}

#[test]
fn a_syslog_server_over_tls_has_a_certificate_that_is_trusted() {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let secret = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let config = Arc::new(config.with_single_cert(vec![key.cert.der().clone()], secret).unwrap());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tls:localhost:{}", server.local_addr().unwrap().port());
    let heard = std::thread::spawn(move || {
        let connection = ServerConnection::new(config).unwrap();
        let stream = StreamOwned::new(connection, server.accept().unwrap().0);
        let mut from = BufReader::new(stream);
        [counted(&mut from), counted(&mut from)]
    });
    let folder = tempfile::tempdir().unwrap();
    let roots = put(folder.path(), "ca.pem", key.cert.pem().as_bytes());
    let toml = format!("[output]\nsyslog = \"{to}\"\nsyslog_ca = \"{}\"\n", text(&roots));
    let file = put(folder.path(), "weir.toml", toml.as_bytes());
    weir([text(&sample()), "-q", "--config", text(&file)]).exits(0).quietly();
    assert!(heard.join().unwrap().iter().all(|one| one.contains("port_scan [")));
    put(folder.path(), "ca.pem", b"nothing");
    weir([text(&sample()), "-q", "--config", text(&file)])
        .exits(4)
        .says("expected certificates in PEM format");
}
