//! Reports about hosts from a store: their numbers are those of the packets, and those of a day are the sum of its hours.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::*;
use weir_wire::build;

/// 2026-11-22 10:00 in UTC.
const BEGIN: u64 = (1_795_305_600 + 36_000) * SECOND;
const MINUTE: u64 = 60 * SECOND;
const SCANNER: [u8; 4] = [10, 0, 0, 66];
const SPRAYER: [u8; 4] = [10, 0, 0, 77];
const CONFIG: &str = "interval = \"30s\"\n[[subscription]]\nname = \"tcp hosts\"\nchain = [\"syn\"]\n\
    [[subscription]]\nname = \"tried\"\nlevel = \"flow\"\nchain = [\"fanout\"]\n\
    [[subscription]]\nname = \"drawn\"\nchain = [\"icmperror\"]\n\
    [[subscription]]\nname = \"datagrams\"\nchain = [\"udp\"]\n";

/// What the scanners of an hour did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Truth {
    syns: u64,
    refused: u64,
    targets: BTreeSet<[u8; 4]>,
    datagrams: u64,
    errors: u64,
}

/// A client resolves a name of two labels, and sends a datagram to the host. The name of a host is that of a flow to it.
fn named(at: u64, host: [u8; 4], label: &[u8]) -> [(u64, Vec<u8>); 3] {
    let (client, resolver) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let question = [&[label.len() as u8][..], label, b"\x07example\0\0\x01\0\x01"].concat();
    let message = |flags: [u8; 2], answers: u8, rest: &[u8]| {
        [&[0, 7, flags[0], flags[1], 0, 1, 0, answers, 0, 0, 0, 0], &question[..], rest].concat()
    };
    let answer = [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4][..], &host].concat();
    let there = build::ethernet().ipv4(client, resolver).udp(40_053, 53).payload(&message([1, 0], 0, &[]));
    let back = build::ethernet().ipv4(resolver, client).udp(53, 40_053);
    let back = back.payload(&message([0x81, 0x80], 1, &answer));
    let to_host = build::ethernet().ipv4(client, host).udp(40_054, 9).payload(&[0; 9]);
    [(at, there), (at + 100_000, back), (at + 200_000, to_host)]
}

/// Two and a half hours: a scan by SYNs, which are refused from the second hour on, one by datagrams, and a client.
fn made() -> (Vec<(u64, Vec<u8>)>, [Truth; 3]) {
    let (syn, rst, ack) = (build::flags::SYN, build::flags::RST, build::flags::ACK);
    let (mut packets, mut truth) = (Vec::new(), [const { None }; 3].map(|_: Option<u8>| Truth::default()));
    packets.extend(named(BEGIN, SCANNER, b"<b>\x1b[31m&evil"));
    for minute in 0..150_u64 {
        let at = BEGIN + minute * MINUTE;
        packets.extend(conversation(at + 1000));
        let of = &mut truth[(minute / 60) as usize];
        for n in 0..30_u64 {
            let time = at + SECOND + n * SECOND / 50;
            let target = [10, 1, minute as u8, n as u8];
            let port = if n % 3 == 0 { 22 } else { 445 };
            let from = 20_000 + (minute * 30 + n) as u16;
            packets.push((time, build::ethernet().ipv4(SCANNER, target).tcp(from, port, syn).payload(&[])));
            of.syns += 1;
            of.targets.insert(target);
            if minute >= 60 && n % 2 == 0 {
                let frame = build::ethernet().ipv4(target, SCANNER).tcp(port, from, rst | ack);
                packets.push((time + 1000, frame.payload(&[])));
                of.refused += 1;
            }
            let sent = build::ip().ipv4(SPRAYER, target).udp(from, 161).payload(&[1; 8]);
            let frame = build::ethernet().ipv4(SPRAYER, target).udp(from, 161).payload(&[1; 8]);
            packets.push((time + 2000, frame));
            of.datagrams += 1;
            if n % 2 == 0 {
                let error = build::ethernet().ipv4([10, 1, 0, 1], SPRAYER).icmp(3, 3, [0; 4]);
                packets.push((time + 3000, error.payload(&sent[..28])));
                of.errors += 1;
            }
        }
    }
    packets.sort();
    (packets, truth)
}

fn stored(folder: &Path, packets: &[(u64, Vec<u8>)], config: &str) -> PathBuf {
    let capture = put(folder, "x.pcap", &pcap(1, packets));
    let config = put(folder, "weir.toml", config.as_bytes());
    let store = folder.join("store");
    weir([text(&capture), "-c", text(&config), "-o", text(&store), "--log", "store", "-q"]).exits(0);
    store
}

fn report(store: &Path, period: &str, more: &[&str]) -> String {
    let fixed = ["report", "--store", text(store), "--hosts", period];
    weir(fixed.iter().chain(more)).exits(0).quietly().text()
}

fn json(store: &Path, period: &str, at: &str) -> Vec<Value> {
    objects(&report(store, period, &["--at", at, "-j"]))
}

fn host(lines: &[Value], host: [u8; 4]) -> &Value {
    let host = host.map(|byte| byte.to_string()).join(".");
    lines.iter().find(|line| line["host"] == host.as_str()).unwrap_or_else(|| panic!("{host}: {lines:?}"))
}

#[test]
fn a_report_has_what_the_packets_have() {
    let folder = tempfile::tempdir().unwrap();
    let (packets, truth) = made();
    let store = stored(folder.path(), &packets, CONFIG);
    let of = ["2026-11-22 10:30", "2026-11-22 11:30", "2026-11-22 12:10"].map(|at| json(&store, "hour", at));
    let day = json(&store, "day", "2026-11-22");
    let week = json(&store, "week", "2026-11-22");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
    for (lines, truth) in of.iter().zip(&truth) {
        assert_eq!(
            (&lines[0]["kind"], &lines[0]["missing"]),
            (&"hosts".into(), &serde_json::json!(["flood", "irc"]))
        );
        let work = &host(lines, SCANNER)["syn"][0];
        assert_eq!((number(&work["syn"]), number(&work["rst_received"])), (truth.syns, truth.refused));
        assert_eq!(
            (number(&work["packets_sent"]), number(&work["packets_received"])),
            (truth.syns, truth.refused)
        );
        // A packet of work is all that the host sends and receives.
        assert_eq!(work["weights"], serde_json::json!({ "least": 100, "mean": 100, "greatest": 100 }));
        let targets = truth.targets.len() as u64;
        let shown = number(&work["targets"]);
        assert!(shown.abs_diff(targets) * 20 <= targets, "{shown} of {targets}");
        assert_eq!((number(&work["ports"]), &work["worm"]), (2, &true.into()));
        assert_eq!(work["port_sample"], serde_json::json!([[445, truth.syns / 3 * 2], [22, truth.syns / 3]]));
        let minutes = truth.syns / 30;
        assert_eq!((number(&work["instances"]), number(&work["flags_in"]["W"])), (minutes, minutes));
        // 1,800 SYNs that draw 900 RSTs are many errors.
        let flags = if truth.refused > 0 { "EWOR" } else { "WOM" };
        assert_eq!(work["flags"], flags);
        let udp = &host(lines, SPRAYER)["udp"][0];
        assert_eq!((number(&udp["sent"]), number(&udp["errors"])), (truth.datagrams, truth.errors));
        assert_eq!(number(&udp["weight"]), truth.datagrams * truth.errors);
        assert_eq!(udp["weights"]["mean"], 30 * 15);
        assert_eq!(udp["classes"], serde_json::json!({ "scan": minutes }));
        let drawn = &host(lines, SPRAYER)["icmperror"][0]["rows"][0];
        assert_eq!(
            (number(&drawn["errors"]), number(&drawn["port_unreachable"])),
            (truth.errors, truth.errors)
        );
        let client = &host(lines, [10, 0, 0, 1])["syn"][0];
        assert_eq!((&client["worm"], &client["syn"]), (&false.into(), &minutes.into()));
    }
    // The sums of the hours, and what is least and greatest of them.
    for lines in [&day, &week] {
        for (address, list, columns) in [
            (SCANNER, "syn", &["syn", "rst_received", "packets_sent", "packets_received", "instances"][..]),
            (SPRAYER, "udp", &["sent", "received", "errors", "tiny", "bytes_sent", "instances"]),
            ([10, 0, 0, 1], "syn", &["syn", "packets_sent", "packets_received", "instances"]),
        ] {
            for column in columns {
                let of_hours: u64 = of.iter().map(|hour| number(&host(hour, address)[list][0][column])).sum();
                assert_eq!(number(&host(lines, address)[list][0][column]), of_hours, "{list} {column}");
            }
        }
        assert_eq!(host(lines, SCANNER)["syn"][0]["flags"], "EWOR");
        let tried = &host(lines, SCANNER)["fanout"][0]["rows"][0];
        assert_eq!(
            (&tried["kind"], &tried["scan"], &tried["flows"]),
            (&"syn".into(), &true.into(), &4500.into())
        );
        let events = host(lines, SCANNER)["events"].as_array().unwrap();
        assert!(events.iter().any(|event| event["kind"] == "address_scan"), "{events:?}");
    }
    // The last complete hour is the second one.
    let default = objects(&report(&store, "hour", &["-j"]));
    assert_eq!(default, of[1]);
}

/// The series of hosts that may be worms has in each interval what the last line `tworm` of mon.lite has, whatever the number of workers.
#[test]
fn hosts_that_may_be_worms_are_stored_as_total_us_and_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut packets = made().0;
    // One of another network, in the first minute alone.
    let syn = |n: u16| {
        build::ethernet().ipv4([192, 0, 2, 9], [10, 2, 0, n as u8]).tcp(30_000 + n, 80, build::flags::SYN)
    };
    packets.extend((0..25).map(|n| (BEGIN + SECOND + u64::from(n), syn(n).payload(&[]))));
    packets.sort();
    packets.retain(|(time, _)| *time < BEGIN + 30 * SECOND);
    let capture = put(folder.path(), "x.pcap", &pcap(1, &packets));
    let rows = "[[subscription]]\nname = \"topn_syn\"\nchain = [\"syn\"]\n";
    let of = |home: &str, expected: [&str; 3]| {
        let config = put(folder.path(), "weir.toml", format!("interval = \"30s\"\n{home}{rows}").as_bytes());
        for workers in ["1", "3"] {
            let store = folder.path().join(format!("store {workers}"));
            let run = [text(&capture), "-c", text(&config), "-o", text(&store), "--workers", workers, "-q"];
            weir(run.iter().chain(&["--log", "store", "--log", "mon"])).exits(0);
            let shown = weir(["store", "export", "-d", text(&store), "--prometheus"]).exits(0).text();
            let values = ["total", "us", "them"].map(|line| {
                let name = format!("worms/topn_syn/{line}");
                let found = shown.lines().find(|row| !row.starts_with('#') && row.contains(&name));
                let row = found.unwrap_or_else(|| panic!("{name}: {shown}"));
                row.split_whitespace().nth(1).unwrap().to_owned()
            });
            assert_eq!(values, expected, "{shown}");
            let lite = std::fs::read_to_string(store.join("mon.lite")).unwrap();
            let [total, us, them] = expected;
            assert!(lite.contains(&format!("tworm: {total}: {us}: {them}:")), "{lite}");
        }
    };
    of("", ["2", "1", "1"]);
    of("home = [\"192.0.2.0/24\", \"10.0.0.0/24\"]\n", ["2", "2", "0"]);
    of("[mon]\nworm_difference = 27\n", ["1", "1", "0"]);
}

/// Two hosts that try ports 22 and 445, and one that tries port 80: events the first time that a store has them, and old the second
/// time, whatever the number of workers.
#[test]
fn port_signatures_are_new_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut packets = conversation(BEGIN);
    for (host, ports) in [(1, [22, 445]), (2, [445, 22]), (3, [80, 80])] {
        for n in 0..30_u16 {
            let frame = build::ethernet().ipv4([10, 0, 7, host], [10, 1, 0, n as u8]);
            let frame = frame.tcp(20_000 + n, ports[usize::from(n % 2)], build::flags::SYN);
            packets.push((BEGIN + SECOND + u64::from(n) * 1000 + u64::from(host), frame.payload(&[])));
        }
    }
    packets.sort();
    let rows = "interval = \"30s\"\n[[subscription]]\nname = \"tcp hosts\"\nchain = [\"syn\"]\n";
    let capture = put(folder.path(), "x.pcap", &pcap(1, &packets));
    let config = put(folder.path(), "weir.toml", rows.as_bytes());
    let mut texts = Vec::new();
    for workers in ["1", "3"] {
        let store = folder.path().join(format!("store {workers}"));
        for (is_new, state) in [(true, "new"), (false, "old")] {
            let run = [text(&capture), "-c", text(&config), "-o", text(&store), "--workers", workers, "-q"];
            weir(run.iter().chain(&["--log", "store", "--log", "ndjson"])).exits(0);
            let lines = std::fs::read_to_string(store.join("weir.ndjson")).unwrap();
            let events: Vec<(String, u64)> = objects(&lines)
                .iter()
                .filter(|line| line["kind"] == "event" && line["event"] == "new_signature")
                .filter(|line| line["state"] == "begin")
                .map(|line| {
                    (
                        line["subject"].as_str().unwrap().to_owned(),
                        line["evidence"]["hosts"].as_u64().unwrap(),
                    )
                })
                .collect();
            let expected = [("22,445".to_owned(), 2), ("80".to_owned(), 1)];
            assert_eq!(events, if is_new { expected.to_vec() } else { Vec::new() }, "{lines}");
            let found = json(&store, "hour", "2026-11-22 10:30");
            let of = |last: u8| host(&found, [10, 0, 7, last])["syn"][0]["signatures"].clone();
            for (last, ports, hosts) in [(1, "22,445", 2), (2, "22,445", 2), (3, "80", 1)] {
                let one = &of(last)[0];
                assert_eq!(
                    (&one["ports"], &one["new"], &one["hosts"]),
                    (&ports.into(), &is_new.into(), &hosts.into())
                );
            }
            assert_eq!(host(&found, [10, 0, 0, 1])["syn"][0]["signatures"], serde_json::json!([]));
            let shown = report(&store, "hour", &["--at", "2026-11-22 10:30"]);
            let lines: Vec<&str> =
                shown.lines().skip_while(|line| !line.starts_with("PORT SIGNATURES: 3 hosts")).collect();
            let first = lines.iter().position(|line| line.starts_with("10.0.7.1")).unwrap();
            let times = if is_new { "1 time" } else { "2 times" };
            assert_eq!(
                lines[first..first + 3],
                [
                    format!("10.0.7.1  {state}, 2 hosts"),
                    "  ports 22,445".to_owned(),
                    format!("  seen 2026-11-22 10:00:00 to 2026-11-22 10:00:30, {times}"),
                ]
            );
            texts.push(shown);
        }
    }
    assert_eq!(texts[..2], texts[2..]);
}

#[test]
fn a_report_is_text_of_few_lines_without_control_characters() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(folder.path(), &made().0, CONFIG);
    for period in ["hour", "day", "week"] {
        let text = report(&store, period, &["--at", "2026-11-22 10:30"]);
        println!("{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        assert!(text.contains("10.0.0.66") && text.contains("\\x1b[31m"), "{text}");
        let sections = [
            "WORMS: 1 host",
            "SCANS: 2 hosts",
            "ICMP ERRORS: 1 host",
            "UDP: 1 host",
            "EVENTS: ",
            "HOME: ",
            "TCP: ",
        ];
        let places: Vec<usize> =
            sections.iter().map(|name| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"))).collect();
        assert!(places.is_sorted(), "{places:?}");
    }
    let hour = report(&store, "hour", &["--at", "2026-11-22 10:30"]);
    let lines: Vec<&str> = hour.lines().skip_while(|line| !line.starts_with("10.0.0.66")).take(4).collect();
    assert_eq!(
        lines,
        [
            "10.0.0.66  60 of 60, 10:00:00 to 10:59:30  <b>\\x1b[31m&evil.example",
            "  WOM (W 60 O 60 M 60)  work 100/100/100%  SA/S 0%",
            lines[2],
            "  ports (1,800 of 1,800 SYNs): 445 1,200, 22 600",
        ]
    );
    assert!(lines[2].ends_with("/2  S:F:R 1,800:0:0  sent:received 1,800:0"), "{}", lines[2]);
}

/// Hosts at home are all in a section of their own, and worms are counted by whose they are.
#[test]
fn a_report_parts_us_from_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(folder.path(), &made().0, CONFIG);
    let of = |more: &[&str]| report(&store, "hour", &[&["--at", "2026-11-22 10:30"], more].concat());
    let section = |text: &str, name: &str| -> String {
        let found = text.split("\n\n").find(|part| part.trim_start().starts_with(name));
        found.unwrap_or_else(|| panic!("{name}: {text}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // The scanner, and the client of each minute, are of a private network.
    let private = of(&[]);
    assert!(section(&private, "WORMS").contains("us: 1, them: 0."), "{private}");
    let home = section(&private, "HOME: ");
    assert!(home.contains("10.0.0.66 60 of 60") && home.contains("10.0.0.1 60 of 60"), "{home}");
    assert!(!section(&private, "TCP: ").contains("10.0.0.1 "), "{private}");
    // A home without them.
    let other = of(&["--home", "192.0.2.0/24"]);
    assert!(section(&other, "WORMS").contains("us: 0, them: 1."), "{other}");
    assert!(section(&other, "HOME: ").starts_with("HOME: 0 hosts"), "{other}");
    assert!(section(&other, "TCP: ").contains("10.0.0.1 60 of 60"), "{other}");
    let is_home = |more: &[&str]| {
        let lines = objects(&of(&[&["-j"], more].concat()));
        host(&lines, SCANNER)["home"].clone()
    };
    assert_eq!((is_home(&[]), is_home(&["--home", "192.0.2.0/24"])), (true.into(), false.into()));
    // A run that writes reports has the home of its configuration.
    let config = format!("home = [\"192.0.2.0/24\"]\n{CONFIG}");
    let config = config.replacen("[[", "[output]\nreports = true\n[[", 1);
    let again = tempfile::tempdir().unwrap();
    let store = stored(again.path(), &made().0, &config);
    let written = std::fs::read_to_string(store.join("reports/hosts-hour-2026-11-22T10.txt")).unwrap();
    assert_eq!(written, other);
    weir(["report", "--store", text(&store), "--beacons", "--home", "192.0.2.0/24"])
        .exits(1)
        .says("cannot be used");
}

/// A host sweeps its link by ARP and gets few answers; a router asks for as many hosts, which answer.
#[test]
fn a_sweep_by_arp_is_a_scan_and_a_router_is_none() {
    let arp = |operation: u8, sender: [u8; 4], receiver: [u8; 4]| {
        let mac = |address: [u8; 4]| [2, 0, 0, 0, 0, address[3]];
        let head = [&[0xff; 6][..], &mac(sender), &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
        [&head[..], &mac(sender), &sender, &mac(receiver), &receiver].concat()
    };
    let (scanner, router) = ([10, 0, 0, 66], [10, 0, 0, 254]);
    let mut packets = conversation(BEGIN);
    for n in 1..=200_u8 {
        let at = BEGIN + u64::from(n) * SECOND;
        let host = [10, 0, 0, n];
        if host != scanner {
            packets.push((at, arp(1, scanner, host)));
            packets.push((at + 3, arp(1, router, host)));
            packets.push((at + 4, arp(2, host, router)));
        }
        if n % 40 == 0 {
            packets.push((at + 2, arp(2, host, scanner)));
        }
    }
    packets.sort();
    let folder = tempfile::tempdir().unwrap();
    let store = stored(folder.path(), &packets, CONFIG);
    let lines = json(&store, "hour", "2026-11-22 10:30");
    let row = |address| host(&lines, address)["fanout"][0]["rows"][0].clone();
    let parts = |row: &Value| (row["kind"].clone(), row["targets"].clone(), row["answered"].clone());
    assert_eq!(parts(&row(scanner)), ("arp".into(), 199.into(), 5.into()));
    assert_eq!(parts(&row(router)), ("arp".into(), 199.into(), 199.into()));
    assert_eq!((&row(scanner)["scan"], &row(router)["scan"]), (&true.into(), &false.into()));
    let text = report(&store, "hour", &["--at", "2026-11-22 10:30"]);
    assert!(text.contains("arp: 199 hosts, 0 ports; 199 flows: 5 answered\n"), "{text}");
}

#[test]
fn a_page_has_no_script_and_everything_is_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(folder.path(), &made().0, CONFIG);
    let page = folder.path().join("hosts.html");
    assert_eq!(report(&store, "day", &["--at", "2026-11-22", "--html", text(&page)]), "");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("&lt;b&gt;\\x1b[31m&amp;evil.example"), "{page}");
    assert!(page.contains("default-src 'none'") && !page.contains("<script") && !page.contains("<b>"));
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    assert!(page.contains("WORMS: 1 host of list &quot;tcp hosts&quot;, 150 intervals"), "{page}");
}

#[test]
fn a_run_writes_the_reports_of_its_hours_days_and_weeks() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{CONFIG}[output]\nreports = true\n");
    let (chains, interval) = (config.find("[[").unwrap(), config.find("[output]").unwrap());
    // Settings come before tables.
    let config = [&config[..chains], &config[interval..], &config[chains..interval]].concat();
    let store = stored(folder.path(), &made().0, &config);
    let reports = store.join("reports");
    let mut names: Vec<String> = std::fs::read_dir(&reports)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "hosts-day-2026-11-22.txt",
            "hosts-hour-2026-11-22T10.txt",
            "hosts-hour-2026-11-22T11.txt",
            "hosts-hour-2026-11-22T12.txt",
            "hosts-week-2026-11-16.txt",
        ]
    );
    for (name, period, at) in [
        ("hosts-hour-2026-11-22T11.txt", "hour", "2026-11-22 11:30"),
        ("hosts-day-2026-11-22.txt", "day", "2026-11-22"),
        ("hosts-week-2026-11-16.txt", "week", "2026-11-22"),
    ] {
        let written = std::fs::read_to_string(reports.join(name)).unwrap();
        assert_eq!(written, report(&store, period, &["--at", at]), "{name}");
    }
    // Neither a store nor a directory.
    let capture = put(folder.path(), "y.pcap", &pcap(1, &conversation(BEGIN)));
    let config = put(folder.path(), "y.toml", b"[output]\nreports = true\n");
    let run = ["-q", "-c", text(&config), text(&capture)];
    weir(run).exits(1).says("needs a directory");
    let logs = folder.path().join("logs");
    weir(run.iter().chain(&["-o", text(&logs), "--log", "csv"])).exits(1).says("--log store");
}

/// A run that is killed while it replaces reports leaves each of them whole, the old one or the new one. Both have one text, because
/// the list of port signatures, which lasts from run to run, begins anew.
#[test]
fn a_run_that_is_killed_leaves_whole_reports() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replacen("[[", "[output]\nreports = true\n[[", 1);
    let store = stored(folder.path(), &made().0, &config);
    let reports = store.join("reports");
    // The reports with their inodes, and names that are none.
    let look = || {
        let (mut whole, mut others) = (BTreeMap::new(), 0);
        for entry in std::fs::read_dir(&reports).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if !(name.starts_with("hosts-") && name.ends_with(".txt")) {
                others += 1;
            } else if let (Ok(data), Ok(text)) = (entry.metadata(), std::fs::read_to_string(entry.path())) {
                whole.insert(name, (data.ino(), text));
            }
        }
        (whole, others)
    };
    let (first, others) = look();
    assert_eq!((first.len(), others), (5, 0));
    let [capture, config] = ["x.pcap", "weir.toml"].map(|name| folder.path().join(name));
    // Killed when one report is another file, then when two are.
    for replaced in [1, 2] {
        let before = look().0;
        let mut command = program();
        command.args([text(&capture), "-c", text(&config), "-o", text(&store), "--log", "store", "-q"]);
        for name in ["signatures.db", "signatures.db-wal", "signatures.db-shm"] {
            let _ = std::fs::remove_file(store.join(name));
        }
        let mut run = start(&mut command);
        loop {
            // A look may be between two reports: every text is whole in each.
            let (now, _) = look();
            for (name, (_, text)) in &now {
                assert_eq!(*text, first[name].1, "{name}");
            }
            let is_other =
                |name: &&String| now.get(*name).is_some_and(|(inode, _)| *inode != before[*name].0);
            if before.keys().filter(is_other).count() >= replaced || run.try_wait().unwrap().is_some() {
                break;
            }
        }
        let _ = run.kill();
        run.wait().unwrap();
        let (after, _) = look();
        assert_eq!(after.len(), first.len());
        assert!(after.iter().all(|(name, (_, text))| *text == first[name].1));
    }
}

#[test]
fn a_store_without_lists_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &pcap(1, &conversation(BEGIN)));
    let store = folder.path().join("store");
    weir([text(&capture), "-o", text(&store), "--log", "store", "-q"]).exits(0);
    let text = report(&store, "day", &[]);
    assert!(
        text.contains("MISSING: the store has no list of syn, fanout, flood, icmperror, udp, irc."),
        "{text}"
    );
    assert!(text.contains("it is not complete"), "{text}");
    // The lines are a configuration.
    let config: String =
        text.lines().filter_map(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect();
    assert_eq!(config.matches("[[subscription]]").count(), 6, "{text}");
    let again = tempfile::tempdir().unwrap();
    let store = stored(again.path(), &conversation(BEGIN), &config);
    let text = report(&store, "day", &[]);
    assert!(!text.contains("MISSING"), "{text}");
    // A time of which nothing is stored.
    let text = report(&store, "day", &["--at", "2020-01-01"]);
    assert!(text.contains("watched: nothing of"), "{text}");
}

#[test]
fn wrong_options_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    weir(["report", "--store", dir, "--hosts", "hour"]).exits(2).says("no store");
    weir(["report", "--hosts", "hour"]).exits(1).says("--store");
    weir(["report", "--store", dir, "--hosts", "hour", "x.pcap"]).exits(1).says("cannot be used");
    weir(["report", "--store", dir, "--hosts", "hour", "--anon", "nullip"])
        .exits(1)
        .says("--anon is for captures");
    weir(["report", "--store", dir, "--hosts", "hour", "-o", "x.html"]).exits(1).says("cannot be used");
    weir(["report"]).exits(1).says("FILE");
}

/// A day of one host that calls every ten minutes, one with flows at odd times, and one that was there a day before; and what it
/// has for new ports.
fn calls() -> Vec<(u64, Vec<u8>)> {
    let day = BEGIN / (86_400 * SECOND) * 86_400 * SECOND;
    let mut packets = Vec::new();
    let mut talk = |at: u64, client: [u8; 4], server: [u8; 4], ports: (u16, u16), bytes: usize| {
        let frame = build::ethernet().ipv4(client, server).udp(ports.0, ports.1);
        packets.push((at, frame.payload(&vec![7; bytes])));
        let back = build::ethernet().ipv4(server, client).udp(ports.1, ports.0);
        packets.push((at + SECOND / 1000, back.payload(&[7; 40])));
    };
    let outside = [192, 0, 2, 7];
    for n in 0..144_u64 {
        talk(day + n * 600 * SECOND, [10, 0, 0, 5], outside, (50_000 + n as u16, 4_443), 200);
        let odd = n * n * 7_919 % 20_000;
        talk(day + odd * SECOND, [10, 0, 0, 6], outside, (51_000 + n as u16, 53), (n * 37 % 900) as usize);
    }
    // The day before: one host and its service.
    let before = day - 5 * 3_600 * SECOND;
    talk(before, [10, 0, 0, 6], [10, 0, 0, 1], (50_000, 53), 20);
    talk(day + 7 * SECOND, [10, 0, 0, 6], [10, 0, 0, 1], (50_001, 53), 20);
    talk(day + 8 * SECOND, [10, 0, 0, 6], [10, 0, 0, 1], (50_002, 161), 20);
    packets.extend(named(day + 9 * SECOND, outside, b"<b>\x1b[31m&evil"));
    packets.sort();
    packets
}

#[test]
fn beacons_of_a_day_have_scores_with_their_parts() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(folder.path(), &calls(), "interval = \"30s\"\n");
    let of = |more: &[&str]| {
        let fixed = ["report", "--store", text(&store), "--beacons", "--at", "2026-11-22"];
        weir(fixed.iter().chain(more)).exits(0).quietly().text()
    };
    let lines = objects(&of(&["-j"]));
    assert_eq!((&lines[0]["kind"], &lines[0]["pairs"]), (&"beacons".into(), &2.into()));
    let [beacon, noise] = &lines[1..] else { panic!("{lines:?}") };
    assert_eq!((&beacon["initiator"], &beacon["flows"]), (&"10.0.0.5".into(), &144.into()));
    assert_eq!((&beacon["gap"], &beacon["bytes"]), (&600.0.into(), &242.0.into()));
    for part in ["gap_skew", "gap_spread", "bytes_skew", "bytes_spread", "hours"] {
        assert_eq!(beacon["parts"][part], 1.0, "{beacon}");
    }
    assert_eq!(beacon["filter"], "host 10.0.0.5 and host 192.0.2.7 and udp port 4443");
    assert_eq!(noise["initiator"], "10.0.0.6");
    assert!(noise["score"].as_f64().unwrap() < 0.75, "{noise}");
    let page = of(&[]);
    println!("{page}");
    assert!(page.contains("0.999  10.0.0.5 > 192.0.2.7 udp/4443"), "{page}");
    for line in page.lines() {
        assert!(line.chars().count() <= 80 && !line.chars().any(char::is_control), "{line:?}");
    }
    // Allowed hosts, by network and by file.
    let file = put(folder.path(), "allow.txt", b"# monitoring\n10.0.0.5\n\n2001:db8::/32 # none\n");
    for allow in ["10.0.0.5", "10.0.0.4/31", text(&file)] {
        let lines = objects(&of(&["-j", "--allow", allow]));
        assert_eq!((lines.len(), &lines[0]["allowed"]), (2, &144.into()), "{lines:?}");
    }
    let broken = put(folder.path(), "broken.txt", b"10.0.0.5\n10.0.0.5/40\n");
    let fixed = ["report", "--store", text(&store), "--beacons", "--allow"];
    weir(fixed.iter().chain(&[text(&broken)])).exits(1).says("broken.txt:2: ");
    weir(fixed.iter().chain(&["nosuch"])).exits(1).says("neither a network nor a file");
    weir(["report", "--beacons"]).exits(1).says("--store");
    weir(["report", "--store", text(&store), "--beacons", "--hosts", "day"]).exits(1).says("cannot be used");
}

#[test]
fn new_hosts_and_services_were_not_in_the_days_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = stored(folder.path(), &calls(), "interval = \"30s\"\n");
    let of = |more: &[&str]| {
        let fixed = ["report", "--store", text(&store), "--new"];
        weir(fixed.iter().chain(more)).exits(0).quietly().text()
    };
    let lines = objects(&of(&["-j", "--at", "2026-11-22"]));
    let found = |kind: &str| -> Vec<String> {
        let of_kind = lines.iter().filter(|line| line["kind"] == kind);
        of_kind.map(|line| line["filter"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("new_host"), ["host 10.0.0.5", "host 10.0.0.2"]);
    assert_eq!(found("new_service"), ["host 10.0.0.1 and udp port 161", "host 10.0.0.2 and udp port 53"]);
    // Another home.
    let lines = objects(&of(&["-j", "--at", "2026-11-22", "--home", "192.0.2.0/24"]));
    assert_eq!(lines.iter().filter(|line| line["kind"] == "new_service").count(), 2, "{lines:?}");
    let page = of(&["--at", "2026-11-22"]);
    assert!(page.contains("NEW HOSTS: 2 hosts") && page.contains("10.0.0.1 udp/161"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    // The first day has none before.
    let first = of(&["--at", "2026-11-21"]);
    assert!(first.contains("nothing to compare with") && first.contains("NEW HOSTS: 0 hosts"), "{first}");
}
