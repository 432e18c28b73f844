//! What is asked of a store when captures have ended: beacons, new hosts and services, and changed lines of charts are events.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::*;
use weir_wire::build;

/// Monday, 2026-11-30 10:00 in UTC.
const BEGIN: u64 = (1_795_996_800 + 36_000) * SECOND;
const DAY: u64 = 86_400 * SECOND;
const WEEK: u64 = 7 * DAY;
const ALL: &str = "[store]\nfindings = [\"beacons\", \"new\", \"changes\"]\n";

type Packets = Vec<(u64, Vec<u8>)>;

fn datagram(client: [u8; 4], server: [u8; 4], ports: (u16, u16), bytes: usize) -> Vec<u8> {
    build::ethernet().ipv4(client, server).udp(ports.0, ports.1).payload(&vec![7; bytes])
}

/// A question and its answer.
fn talk(to: &mut Packets, at: u64, client: [u8; 4], server: [u8; 4], ports: (u16, u16), bytes: usize) {
    to.push((at, datagram(client, server, ports, bytes)));
    to.push((at + SECOND / 1000, datagram(server, client, (ports.1, ports.0), 40)));
}

/// A day in which a host calls every ten minutes, and another has flows at odd times. The second was there the day before.
fn calls() -> Packets {
    let outside = [192, 0, 2, 7];
    let mut packets = Vec::new();
    for n in 0..144_u64 {
        let ports = (50_000 + n as u16, 4_443);
        talk(&mut packets, BEGIN + n * 600 * SECOND, [10, 0, 0, 5], outside, ports, 200);
        let (odd, ports) = (n * n * 7_919 % 20_000, (51_000 + n as u16, 53));
        talk(&mut packets, BEGIN + odd * SECOND, [10, 0, 0, 6], outside, ports, (n * 37 % 900) as usize);
    }
    let before = BEGIN - 5 * 3_600 * SECOND;
    talk(&mut packets, before, [10, 0, 0, 6], [10, 0, 0, 1], (40_000, 53), 20);
    talk(&mut packets, BEGIN + 7 * SECOND, [10, 0, 0, 6], [10, 0, 0, 1], (40_001, 53), 20);
    talk(&mut packets, BEGIN + 8 * SECOND, [10, 0, 0, 6], [10, 0, 0, 1], (40_002, 161), 20);
    packets.sort();
    packets
}

/// Runs over a capture, and returns the findings in the order of their rows.
fn findings(
    folder: &Path,
    packets: &[(u64, Vec<u8>)],
    config: &str,
    store: &str,
    workers: &str,
) -> Vec<Value> {
    let capture = put(folder, "x.pcap", &pcap(1, packets));
    let config = put(folder, "weir.toml", format!("interval = \"30s\"\n{config}").as_bytes());
    let store: PathBuf = folder.join(store);
    let run = [text(&capture), "-c", text(&config), "-o", text(&store), "--workers", workers, "-q"];
    weir(run.iter().chain(&["--log", "store", "--log", "ndjson"])).exits(0);
    let lines = objects(&std::fs::read_to_string(store.join("weir.ndjson")).unwrap());
    let kinds = ["beacon", "new_host", "new_service", "changed_series"];
    let events = lines.into_iter().filter(|line| line["kind"] == "event");
    let found: Vec<Value> =
        events.filter(|line| kinds.contains(&line["event"].as_str().unwrap_or_default())).collect();
    // Each begins and ends with the run.
    let of = |state: &str| -> Vec<Value> {
        let mut of_state: Vec<Value> = found.iter().filter(|line| line["state"] == state).cloned().collect();
        of_state.sort_by_key(|line| line["id"].to_string());
        of_state
    };
    assert_eq!(of("begin").len(), of("end").len(), "{found:?}");
    found.into_iter().filter(|line| line["state"] == "begin").collect()
}

fn subjects(found: &[Value]) -> Vec<(&str, &str)> {
    found.iter().map(|line| (line["event"].as_str().unwrap(), line["subject"].as_str().unwrap())).collect()
}

#[test]
fn beacons_and_new_ones_are_events_and_new_ones_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut first: Option<Vec<Value>> = None;
    for workers in ["1", "2", "3"] {
        let of =
            |config: &str| findings(folder.path(), &calls(), config, &format!("store {workers}"), workers);
        let found = of(ALL);
        let beacon = ("beacon", "10.0.0.5 -> 192.0.2.7 udp/4443");
        assert_eq!(
            subjects(&found),
            [beacon, ("new_host", "10.0.0.5"), ("new_service", "-> 10.0.0.1 udp/161")],
            "{found:?}"
        );
        let evidence = &found[0]["evidence"];
        for (name, number) in [
            ("score", 999),
            ("gap_skew", 1000),
            ("gap_spread", 1000),
            ("bytes_skew", 1000),
            ("bytes_spread", 1000),
            ("day", 993),
            ("hours", 1000),
            ("flows", 144),
            ("gap", 600),
            ("bytes", 242),
        ] {
            assert_eq!(evidence[name], number, "{name}: {evidence}");
        }
        assert_eq!(found[0]["expression"], "host 10.0.0.5 and host 192.0.2.7 and udp port 4443");
        assert_eq!(found[1]["expression"], "host 10.0.0.5");
        assert_eq!(found[1]["evidence"]["flows"], 144);
        assert_eq!(found[2]["expression"], "dst host 10.0.0.1 and udp dst port 161");
        // Other runs into the store: what is new is not new again.
        assert_eq!(subjects(&of(ALL)), [beacon]);
        assert_eq!(subjects(&of(&format!("{ALL}beacon_allow = [\"10.0.0.4/31\"]\n"))), []);
        assert_eq!(subjects(&of("[store]\nfindings = [\"beacons\"]\n")), [beacon]);
        assert_eq!(subjects(&of("")), []);
        assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{workers} workers");
    }
}

#[test]
fn new_ones_are_at_home_and_their_number_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut packets = conversation(BEGIN - DAY);
    for n in 0..50_u8 {
        let at = BEGIN + u64::from(n) * SECOND;
        talk(&mut packets, at, [10, 0, 7, n], [192, 0, 2, 7], (40_000, 53), 20);
    }
    let config = "[store]\nfindings = [\"new\"]\n";
    let found = findings(folder.path(), &packets, config, "store", "2");
    let expected: Vec<String> = (0..20).map(|n| format!("10.0.7.{n}")).collect();
    let expected: Vec<(&str, &str)> = expected.iter().map(|host| ("new_host", host.as_str())).collect();
    assert_eq!(subjects(&found), expected);
    // What was left out is known, too.
    assert_eq!(subjects(&findings(folder.path(), &packets, config, "store", "2")), []);
    let elsewhere = format!("home = [\"198.51.100.0/24\"]\n{config}");
    assert_eq!(subjects(&findings(folder.path(), &packets, &elsewhere, "elsewhere", "2")), []);
    // The first day has nothing to be compared with.
    packets.retain(|(time, _)| *time >= BEGIN);
    assert_eq!(subjects(&findings(folder.path(), &packets, config, "alone", "2")), []);
}

/// An hour of each of some weeks, with a number of datagrams to port 53 for each week, and 1,800 to port 123.
fn weeks(numbers: &[u64]) -> Packets {
    let mut packets = Vec::new();
    for (number, week) in numbers.iter().rev().zip(0..) {
        let hour = BEGIN - week * WEEK;
        for (port, number) in [(53, *number), (123, 1_800)] {
            for n in 0..number {
                let at = hour + n * 3_600 * SECOND / number + u64::from(port);
                packets.push((at, datagram([10, 0, 0, 5], [192, 0, 2, 7], (40_000, port), 20)));
            }
        }
    }
    packets.sort();
    packets
}

const CHART: &str = "[[chart]]\nname = \"ports\"\nunit = \"packets\"\nlines = [\n  { name = \"dns\", expression = \
    \"udp port 53\" },\n  { name = \"ntp\", expression = \"udp port 123\" },\n]\n";

#[test]
fn a_line_that_is_not_as_in_the_weeks_before_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[store]\nfindings = [\"changes\"]\n{CHART}");
    // The numbers of the weeks, the last one being that of the hour; and the median if it has changed.
    for (at, (numbers, median)) in [
        (&[1_800, 1_900, 1_800, 1_800, 1_800][..], None),
        (&[1_800, 2_000, 1_900, 1_700, 9_000], Some((1_850, 1_700, 2_000, 4))),
        (&[9_000, 9_000, 900], Some((9_000, 9_000, 9_000, 2))),
        // One week alone is no measure.
        (&[1_800, 9_000], None),
        // It is twice as much, and less than a packet a second more.
        (&[600, 600, 600, 1_800], None),
        // A week was as high.
        (&[1_800, 9_000, 1_800, 1_800, 9_000], None),
    ]
    .into_iter()
    .enumerate()
    {
        let packets = weeks(numbers);
        for workers in ["1", "2", "3"] {
            let store = format!("store {at} {workers}");
            let found = findings(folder.path(), &packets, &config, &store, workers);
            let Some((median, least, greatest, number)) = median else {
                assert_eq!(subjects(&found), [], "{numbers:?}");
                continue;
            };
            assert_eq!(subjects(&found), [("changed_series", "chart/ports/dns/packets")], "{numbers:?}");
            assert_eq!(found[0]["expression"], "udp port 53");
            let evidence = &found[0]["evidence"];
            let now = *numbers.last().unwrap();
            for (name, expected) in
                [("now", now), ("median", median), ("least", least), ("greatest", greatest)]
            {
                // A rate of the watched seconds: the last packet is before the end of the hour.
                let value = evidence[name].as_u64().unwrap();
                assert!(value.abs_diff(expected) * 100 <= expected, "{name}: {value} {expected}");
            }
            assert_eq!(evidence["weeks"], number);
        }
    }
}

#[test]
fn findings_need_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &pcap(1, &conversation(BEGIN)));
    let config = put(folder.path(), "weir.toml", ALL.as_bytes());
    weir(["-q", "-c", text(&config), text(&capture)]).exits(1).says("--log store");
}

/// What is anonymised has neither networks at home nor expressions of lines.
#[test]
fn findings_of_a_run_with_anonymisation_show_no_true_address() {
    let folder = tempfile::tempdir().unwrap();
    let secret = CHART.replace("udp port 53", "udp port 53 and host 10.0.0.5");
    let key = put_private(folder.path(), "key", "42".repeat(32).as_bytes());
    let mut packets = weeks(&[1_800, 1_800, 9_000]);
    packets.extend(calls());
    packets.sort();
    let config = format!("{ALL}[anon]\nmode = \"cryptopan\"\nkey_file = \"{}\"\n{secret}", text(&key));
    let found = findings(folder.path(), &packets, &config, "store", "2");
    let kinds: Vec<&str> = subjects(&found).into_iter().map(|(kind, _)| kind).collect();
    assert!(!kinds.contains(&"new_host") && !kinds.is_empty(), "{kinds:?}");
    assert!(found.iter().all(|line| !line.to_string().contains("10.0.0.5")), "{found:?}");
}
