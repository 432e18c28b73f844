//! Expressions over flows and records in the place of the run's expression: the packets of the flows that match.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::{Path, PathBuf};
use support::http::Server;
use support::*;
use weir_wire::build;

/// Stores a capture below a folder.
fn stored(capture: &Path, folder: &Path) -> PathBuf {
    let store = folder.join("store");
    weir(["-r", text(capture), "-q", "--log", "store", "-o", text(&store)]).exits(0);
    store
}

/// The packets of each stored flow that matches.
fn flows(store: &Path, expression: &str) -> Vec<u64> {
    let question = format!("flows limit 10000 where {expression}");
    let answer = weir(["query", &question, "-d", text(store), "-j"]).exits(0).text();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let at =
        answer["columns"].as_array().unwrap().iter().position(|column| column["name"] == "packets").unwrap();
    answer["rows"].as_array().unwrap().iter().map(|row| row[at].as_u64().unwrap()).collect()
}

/// The packets of a capture.
fn packets(capture: &Path) -> u64 {
    let counted = weir(["count", text(capture), "-e", "len >= 0", "-j"]).exits(0).text();
    objects(&counted)[0]["packets"].as_u64().unwrap()
}

#[test]
fn an_expression_over_records_selects_the_packets_of_its_flows() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(&sample(), folder.path());
    for expression in [
        "http.host",
        "dns",
        "http.host = \"www.weir.test\" and host 10.99.0.102",
        "dns.rcode = 3",
        "flow.bytes > 10000",
        "ssh or tls",
        "http.host = \"no such host\"",
    ] {
        let chosen = flows(&store, expression);
        let out = folder.path().join("chosen.pcapng");
        let said = weir([text(&sample()), expression, "-w", text(&out)]).exits(0).text();
        assert_eq!(packets(&out), chosen.iter().sum::<u64>(), "{expression}: {said}");
        let number = format!("packets match: {} flow", chosen.len());
        assert!(chosen.is_empty() != (packets(&out) > 0) && said.contains(&number), "{expression}: {said}");
        // No other flow is there.
        if !chosen.is_empty() {
            let again = tempfile::tempdir().unwrap();
            let others = flows(&stored(&out, again.path()), &format!("not ({expression})"));
            assert!(others.is_empty(), "{expression}: {others:?}");
        }
    }
}

/// Two flows with equal ends: the time tells whose a packet is.
#[test]
fn a_later_flow_between_the_ends_is_another() {
    let question = |name: u8| {
        let mut message = vec![0, name, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, name, 0, 0, 1, 0, 1];
        message[13] = name;
        build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(40_000, 53).payload(&message)
    };
    let begin = 1_795_305_600 * SECOND;
    let sent = [(0, b'a'), (1, b'a'), (7200, b'b'), (7201, b'b'), (7202, b'b')];
    let made: Vec<_> = sent.map(|(second, name)| (begin + second * SECOND, question(name))).into();
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "two.pcap", &pcap(1, &made));
    for (name, expected) in [("a", 2), ("b", 3)] {
        let out = folder.path().join("one.pcapng");
        weir([text(&capture), &format!("dns.query = \"{name}\""), "-w", text(&out), "-q"]).exits(0);
        assert_eq!(packets(&out), expected, "{name}");
    }
}

#[test]
fn what_cannot_be_read_twice_is_an_error_that_says_so() {
    let piped = weir_reads(["-r", "-", "dns"], std::fs::read(sample()).unwrap());
    assert!(piped.code == Some(1) && piped.stderr.contains("can be read once"), "{}", piped.stderr);
    let gone = weir(["-r", "gone.pcap", "dns"]);
    assert!(gone.code == Some(2) && gone.stderr.contains("gone.pcap: "), "{}", gone.stderr);
    let live = weir(["-i", "lo", "dns"]);
    assert!(live.code == Some(1) && live.stderr.contains("level = \"record\""), "{}", live.stderr);
    let unknown = weir([text(&sample()), "http.hots = x"]);
    assert!(
        unknown.code == Some(1) && unknown.stderr.contains("did you mean `http.host`"),
        "{}",
        unknown.stderr
    );
}

/// A download of the pages has the packets of the flows that a filter over records finds in the store.
#[test]
fn downloads_have_the_packets_of_the_flows_that_match() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(&sample(), folder.path());
    let server = Server::open(&[]);
    for (filter, expression) in [
        ("http.host%20%3D%20%22www.weir.test%22", "http.host = \"www.weir.test\""),
        ("dns", "dns"),
        ("flow.bytes%20%3E%2010000%20and%20tcp", "flow.bytes > 10000 and tcp"),
    ] {
        let size = server.json(&format!("/api/v1/packets/size?filter={filter}"));
        assert_eq!(size["packets"], flows(&store, expression).iter().sum::<u64>(), "{expression}: {size}");
    }
    let misspelt = server.get("/api/v1/packets/size?filter=http.hots%20%3D%20x").is(400).text();
    assert!(misspelt.contains("did you mean `http.host`"), "{misspelt}");
}

/// What `open` shows and offers is of the flows that match.
#[test]
fn pages_of_an_expression_over_records_have_no_other_packets() {
    let folder = tempfile::tempdir().unwrap();
    let chosen: u64 = flows(&stored(&sample(), folder.path()), "http.host").iter().sum();
    let server = Server::open(&["http.host"]);
    assert_eq!(server.json("/api/v1/packets/size")["packets"], chosen);
}

/// `weir count`, `weir talk` and `weir streams` take such expressions, too.
#[test]
fn every_command_over_captures_takes_expressions_over_records() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, store) = (sample(), stored(&sample(), folder.path()));
    let record = ["http.host", "dns.rcode = 3", "http.host = \"no such host\""];
    let mut words = vec!["count", text(&capture), "-j", "-e", "udp"];
    words.extend(record.iter().flat_map(|expression| ["-e", expression]));
    words.extend(["-e", "tcp"]);
    let rows = objects(&weir(words).exits(0).quietly().text());
    let alone = objects(&weir(["count", text(&capture), "-j", "-e", "udp", "-e", "tcp"]).exits(0).text());
    assert_eq!([&rows[0], &rows[4]], [&alone[0], &alone[1]], "expressions over packets count as before");
    for (row, expression) in rows[1..4].iter().zip(record) {
        assert_eq!(row["expression"], expression);
        assert_eq!(row["packets"], flows(&store, expression).iter().sum::<u64>(), "{expression}");
    }
    let out = folder.path().join("talks");
    weir(["talk", text(&capture), "http.host", "-o", text(&out)]).exits(0).quietly();
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), flows(&store, "http.host").len());
    let some = std::fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    assert!(std::fs::read_to_string(some).unwrap().contains("Host: "), "the head of a request");
    let out = folder.path().join("streams");
    weir(["streams", text(&capture), "http.host", "-o", text(&out), "--both"]).exits(0);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), flows(&store, "http.host").len());
    for command in ["talk", "streams", "count"] {
        let more: &[&str] = match command {
            "count" => &["-e", "http.hots = x"],
            "talk" => &["http.hots = x"],
            _ => &["http.hots = x", "-o", "never"],
        };
        let words: Vec<&str> = [command, text(&capture)].into_iter().chain(more.iter().copied()).collect();
        weir(words).exits(1).says("did you mean `http.host`");
    }
}
