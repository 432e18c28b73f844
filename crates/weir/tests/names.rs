//! Names that clients resolve are added to the flows that use the answers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::fs;
use support::*;
use weir_wire::build;

const SERVER: [u8; 4] = [192, 0, 2, 80];

/// A query and its answer, as UDP payloads.
fn dns(id: u16, name: &str, address: [u8; 4], ttl: u32) -> [Vec<u8>; 2] {
    let mut question: Vec<u8> = name
        .split('.')
        .flat_map(|label| {
            let mut part = vec![label.len() as u8];
            part.extend(label.as_bytes());
            part
        })
        .collect();
    question.extend([0, 0, 1, 0, 1]);
    let head = |flags: u16, answers: u16| [id, flags, 1, answers, 0, 0].map(u16::to_be_bytes).concat();
    let mut answer = [head(0x8180, 1), question.clone(), vec![0xc0, 12, 0, 1, 0, 1]].concat();
    answer.extend(ttl.to_be_bytes());
    answer.extend([0, 4]);
    answer.extend(address);
    [[head(0x0100, 0), question].concat(), answer]
}

/// A capture: client 1 resolves two names of one address, at second 10 and at second 20; then flows.
fn capture() -> Vec<u8> {
    let client = |n: u8| [10, 0, 0, n];
    let resolver = [10, 0, 0, 53];
    let mut packets = Vec::new();
    for (at, id, name, ttl) in [(10, 1, "first.example", 30), (20, 2, "second.example", 600)] {
        let [question, answer] = dns(id, name, SERVER, ttl);
        let there = build::ethernet().ipv4(client(1), resolver).udp(30_000 + id, 53).payload(&question);
        let back = build::ethernet().ipv4(resolver, client(1)).udp(53, 30_000 + id).payload(&answer);
        packets.push((at * SECOND, there));
        packets.push((at * SECOND + 1_000_000, back));
    }
    // Before any answer; after the first; after the second; while only the second one is valid; when none is; and of
    // another client, which has resolved no name.
    for (at, n, port) in [(5, 1, 1), (15, 1, 2), (25, 1, 3), (300, 1, 4), (900, 1, 5), (25, 2, 6)] {
        let port = 41_000 + port;
        let (syn, ack) = (build::flags::SYN, build::flags::ACK);
        let there = || build::ethernet().ipv4(client(n), SERVER);
        let back = || build::ethernet().ipv4(SERVER, client(n));
        let frames = [
            there().tcp(port, 443, syn).seq(0).payload(&[]),
            back().tcp(443, port, syn | ack).seq(0).ack(1).payload(&[]),
            there().tcp(port, 443, ack).seq(1).ack(1).payload(&[0xee; 400]),
        ];
        packets.extend(
            frames.into_iter().zip(0..).map(|(frame, ms)| (at * SECOND + 5_000_000 + ms * 1_000_000, frame)),
        );
    }
    packets.sort_by_key(|(time, _)| *time);
    pcap(1, &packets)
}

/// The names of flows to the server, by their source port minus 41,000.
fn names(log: &str) -> Vec<(u64, Value)> {
    let flows =
        objects(log).into_iter().filter(|line| line["kind"] == "flow" && line["destination_port"] == 443);
    let mut names: Vec<_> = flows
        .map(|flow| (flow["source_port"].as_u64().unwrap() - 41_000, flow["destination_name"].clone()))
        .collect();
    names.sort_by_key(|(port, _)| *port);
    names
}

#[test]
fn a_flow_has_the_name_that_its_client_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "x.pcap", &capture());
    let (first, second) = (Value::from("first.example"), Value::from("second.example"));
    let expected = [Value::Null, first, second.clone(), second, Value::Null, Value::Null];
    for options in
        [&["--workers", "1"][..], &["--workers", "3"], &["--interval", "1s"], &["--interval", "1h"]]
    {
        let out = folder.path().join(options.concat());
        let arguments = [text(&file), "-o", text(&out), "--log", "csv,ndjson,zeek,eve"];
        let ran = weir(arguments.iter().chain(options)).exits(0).quietly();
        let found = names(&fs::read_to_string(out.join("weir.ndjson")).unwrap());
        let found: Vec<Value> = found.into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, expected, "{options:?}");
        let flows = fs::read_to_string(out.join("flows.csv")).unwrap();
        assert!(flows.lines().next().unwrap().ends_with(",destination_name"));
        assert_eq!(flows.lines().filter(|line| line.trim_end().ends_with(",second.example")).count(), 2);
        // Rows in the formats of Zeek and Suricata have no names.
        for log in ["conn.log", "eve.json"] {
            assert!(!fs::read_to_string(out.join(log)).unwrap().contains("destination_name"), "{log}");
        }
        let talker = ran.text().lines().find(|line| line.contains("<-> 10.0.0.1 ")).unwrap().to_owned();
        assert!(talker.contains(".example:443 <-> "), "{talker}");
    }
    // A log of records changes nothing about names, and -n leaves them out.
    let out = folder.path().join("none");
    let of = |more: &[&str]| -> Vec<Value> {
        let _ = fs::remove_dir_all(&out);
        weir([text(&file), "-q", "-o", text(&out), "--log"].iter().chain(more)).exits(0);
        let found = names(&fs::read_to_string(out.join("weir.ndjson")).unwrap());
        found.into_iter().map(|(_, name)| name).collect()
    };
    assert_eq!(of(&["ndjson"]), expected);
    for log in ["ndjson", "ndjson,csv"] {
        assert!(of(&[log, "-n"]).iter().all(Value::is_null), "{log}");
    }
}

#[test]
fn names_of_flows_follow_the_anonymisation_policy() {
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "x.pcap", &capture());
    let run = |name: &str, policy: &[&str]| {
        let out = folder.path().join(name);
        let arguments = [text(&file), "-o", text(&out), "--log", "csv,ndjson,zeek-json", "--anon", "table"];
        let ran = weir(arguments.iter().chain(policy)).exits(0);
        let log = fs::read_to_string(out.join("weir.ndjson")).unwrap();
        let asked = objects(&fs::read_to_string(out.join("dns.json")).unwrap());
        let named: Vec<String> =
            names(&log).into_iter().filter_map(|(_, name)| Some(name.as_str()?.to_owned())).collect();
        let all = ran.text() + &log + &fs::read_to_string(out.join("flows.csv")).unwrap();
        (named, asked, all)
    };
    let (named, asked, all) = run("pseudonyms", &[]);
    assert_eq!(named.len(), 3);
    // The pseudonym equals the one in dns.log, and the original name does not occur.
    assert_eq!(named[1], asked[1]["query"].as_str().unwrap());
    assert!(!all.contains("second.") && !all.contains("first."), "{all}");
    let (named, _, all) = run("dropped", &["--anon-policy", "name=drop"]);
    assert!(named.is_empty() && !all.contains("second."));
    let (named, ..) = run("kept", &["--anon-policy", "name=keep"]);
    assert_eq!(named[1], "second.example");
}
