//! Payload of flows: the counts of identified and unidentified payload add up, and unidentified packets can be written
//! to a file.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use support::*;
use weir_wire::build;

/// A TCP conversation that resembles no protocol, with a packet each millisecond.
fn gibberish(start: u64, client_port: u16, port: u16) -> Vec<(u64, Vec<u8>)> {
    let (client, server) = ([10, 1, 0, 1], [10, 1, 0, 2]);
    let there = || build::ethernet().ipv4(client, server);
    let back = || build::ethernet().ipv4(server, client);
    let (syn, ack) = (build::flags::SYN, build::flags::ACK);
    let frames = [
        there().tcp(client_port, port, syn).seq(100).payload(&[]),
        back().tcp(port, client_port, syn | ack).seq(500).ack(101).payload(&[]),
        there().tcp(client_port, port, ack).seq(101).ack(501).payload(&[0xee; 40]),
        back().tcp(port, client_port, ack).seq(501).ack(141).payload(&[0xee; 1200]),
        there().tcp(client_port, port, ack).seq(141).ack(1701).payload(&[0xee; 1200]),
    ];
    frames.into_iter().zip(0..).map(|(frame, n)| (start + n * SECOND / 1000, frame)).collect()
}

/// That conversation, one over UDP, an identified conversation, and a connection without payload.
fn mixed() -> Vec<u8> {
    let mut packets = conversation(SECOND);
    packets.extend(gibberish(2 * SECOND, 50_001, 4444));
    packets.extend(gibberish(3 * SECOND, 50_002, 4444));
    let there = || build::ethernet().ipv4([10, 1, 0, 1], [10, 1, 0, 3]);
    packets.push((4 * SECOND, there().udp(50_003, 9999).payload(&[0xee; 300])));
    packets.push((5 * SECOND, there().tcp(50_004, 5555, build::flags::SYN).seq(1).payload(&[])));
    pcap(1, &packets)
}

fn sessions(ran: &Ran) -> Value {
    ran.json().into_iter().find(|line| line["kind"] == "sessions").unwrap_or_default()
}

fn number(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {object}"))
}

fn unidentified(ran: &Ran) -> Value {
    ran.json().into_iter().find(|line| line["function"] == "unidentified").unwrap()
}

/// Rows of all CSV files of records in a folder.
fn records_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap().flatten();
    let of_records = files.filter(|file| {
        let name = file.file_name().into_string().unwrap();
        name.ends_with(".csv")
            && !["flows.csv", "counts.csv", "values.csv", "events.csv"].contains(&name.as_str())
    });
    // A line break within quotes belongs to a value.
    let rows = |text: &[u8]| {
        let mut in_quotes = false;
        text.iter()
            .filter(|byte| {
                in_quotes ^= **byte == b'"';
                **byte == b'\n' && !in_quotes
            })
            .count() as u64
            - 1
    };
    of_records.map(|file| rows(&fs::read(file.path()).unwrap())).sum()
}

/// Checks the sums: with_payload = skipped + sessions; sessions = identified + unidentified; datagrams = whole + timed_out + fragments_shed +
/// fragments_bad; records = rows of records written.
#[test]
fn payload_counts_add_up_on_captures_of_all_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let (mut flows, mut records) = (0, 0);
    let captures = diverse(60);
    for (n, path) in captures.iter().enumerate() {
        let out = folder.path().join(n.to_string());
        let ran = weir([text(path), "-j", "-o", text(&out), "--log", "csv"]);
        assert!(matches!(ran.code, Some(0 | 2 | 3)), "{}: {}", path.display(), ran.stderr);
        assert!(!ran.stderr.contains("add up"), "{}: {}", path.display(), ran.stderr);
        let counts = sessions(&ran);
        if counts.is_null() {
            continue;
        }
        let sum = |of: &[&str]| of.iter().map(|field| number(&counts, field)).sum::<u64>();
        assert_eq!(sum(&["with_payload"]), sum(&["skipped", "sessions"]), "{}", path.display());
        assert_eq!(sum(&["sessions"]), sum(&["identified", "unidentified"]), "{}", path.display());
        let pieces = sum(&["whole", "timed_out", "fragments_shed", "fragments_bad"]);
        assert_eq!(sum(&["datagrams"]), pieces, "{}", path.display());
        assert!(sum(&["fragments"]) >= sum(&["datagrams"]));
        assert_eq!(sum(&["records"]), records_in(&out), "{}", path.display());
        flows += sum(&["with_payload"]);
        records += sum(&["records"]);
    }
    println!("{flows} flows with payload and {records} records in {} captures", captures.len());
    assert!(flows > 5 && records > 5);
}

#[test]
fn unidentified_payload_is_counted_by_port() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &mixed());
    let out = folder.path().join("out");
    let ran = weir([text(&capture), "-j", "-o", text(&out), "--log", "csv,ndjson"]).exits(0).quietly();
    let counts = sessions(&ran);
    assert_eq!(number(&counts, "unidentified"), 3, "{counts}");
    assert_eq!((number(&counts, "with_payload"), number(&counts, "identified")), (5, 2));
    let list = unidentified(&ran);
    let rows = list["rows"].as_array().unwrap();
    let row = |at: usize| {
        (rows[at]["label"].as_str().unwrap(), number(&rows[at], "packets"), number(&rows[at], "flows"))
    };
    assert_eq!((rows.len(), row(0), row(1)), (2, ("tcp/4444", 10, 2), ("udp/9999", 1, 1)), "{list}");
    assert_eq!(list["exact"], true);
    let log = objects(&fs::read_to_string(out.join("weir.ndjson")).unwrap());
    assert!(log.iter().any(|line| line["kind"] == "sessions" && line["unidentified"] == 3));

    let verbose = weir([text(&capture), "-v", "-o", text(&out), "--log", "eve"]).exits(0);
    let verbose =
        verbose.prints("PAYLOAD   unidentified: tcp/4444 5.4 kB in 2 flows   udp/9999 342 B in 1 flow");
    let lines: Vec<String> =
        verbose.text().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in ["Payload", "flows with payload 5", "inspected 5", "unidentified 3"] {
        assert!(lines.iter().any(|other| other == line), "{line}: {lines:#?}");
    }
    // With -n, protocols are named by ports and nothing is parsed.
    assert!(!weir([text(&capture), "-v", "-n"]).exits(0).text().contains("PAYLOAD"));
}

#[test]
fn packets_of_unidentified_flows_are_written_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &mixed());
    for name in ["y.pcap", "y.pcapng", "y.pcapng.zst"] {
        let file = folder.path().join(name);
        let ran = weir([text(&capture), "-j", "--unidentified", text(&file)]).exits(0).quietly();
        let counts = sessions(&ran);
        // All packets of these flows, including the handshakes before the first payload, and none of other flows.
        assert_eq!(
            (number(&counts, "unidentified_packets"), number(&counts, "unidentified_packets_lost")),
            (11, 0),
            "{counts}"
        );
        let summary = &ran.json()[0];
        assert!(
            summary["notes"][0].as_str().unwrap().starts_with("11 packets of unidentified flows written to")
        );
        let again = weir([text(&file), "-j"]).exits(0);
        assert_eq!(again.fact("ledger", "caught"), 11);
        let syns = weir([text(&file), "-j", "tcp[tcpflags] & tcp-syn != 0"]).exits(0);
        assert_eq!(syns.fact("ledger", "analysed"), 4);
        let others = weir([text(&file), "-j", "not port 4444 and not port 9999"]).exits(0);
        assert_eq!(others.fact("ledger", "analysed"), 0);
        // The flows in the file are unidentified again.
        let twice = folder.path().join("z.pcapng");
        weir([text(&file), "-q", "--unidentified", text(&twice)]).exits(0);
        assert_eq!(weir([text(&twice), "-j"]).exits(0).fact("ledger", "caught"), 11);
    }
}

/// The packets in the file are those of the list on any capture, except for IP fragments, which are written
/// reassembled, and for flows that the active timeout cuts before they are identified.
#[test]
fn the_file_of_unidentified_packets_agrees_with_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let (mut compared, mut packets) = (0, 0);
    for path in diverse(40) {
        let file = folder.path().join("y.pcapng");
        let ran = weir([text(&path), "-j", "--unidentified", text(&file)]);
        assert!(matches!(ran.code, Some(0 | 2 | 3)), "{}: {}", path.display(), ran.stderr);
        let counts = sessions(&ran);
        if counts.is_null() || number(&counts, "fragments") > 0 {
            continue;
        }
        let list = unidentified(&ran);
        let listed: u64 = list["rows"].as_array().unwrap().iter().map(|row| number(row, "packets")).sum();
        let all = listed + number(&list["shed"], "packets");
        if list["rows"].as_array().unwrap().len() == 10 {
            // The list shows at most ten rows.
            assert!(
                number(&counts, "unidentified_packets") + number(&counts, "unidentified_packets_lost")
                    >= listed
            );
            continue;
        }
        assert_eq!(
            number(&counts, "unidentified_packets") + number(&counts, "unidentified_packets_lost"),
            all,
            "{}",
            path.display()
        );
        assert_eq!(
            weir([text(&file), "-j"]).fact("ledger", "caught"),
            number(&counts, "unidentified_packets")
        );
        compared += 1;
        packets += all;
    }
    println!("{packets} packets of unknown flows in {compared} captures");
    assert!(compared > 3);
}

#[test]
fn an_invalid_file_for_unidentified_packets_is_an_error() {
    let sample = sample();
    weir([text(&sample), "--unidentified", "-"]).exits(1).says("standard output is for -w");
    weir([text(&sample), "-w", "x.pcap", "--unidentified", "x.pcap"])
        .exits(1)
        .says("x.pcap is written with other arguments, or at another level, by the subscription `-w`");
    weir([text(&sample), "--unidentified", "/nowhere/x.pcap"]).exits(4).says("/nowhere/x.pcap");
}

/// The rows equal those of the whole log, without others. The error for a wrong name lists the valid ones.
#[test]
fn a_log_has_only_the_requested_rows() {
    let folder = tempfile::tempdir().unwrap();
    let events = |log: &str| {
        let out = folder.path().join(log.replace(':', "-"));
        let capture = support::sample();
        weir([text(&capture), "-q", "-o", text(&out), "--log", log]).exits(0);
        support::objects(&fs::read_to_string(out.join("eve.json")).unwrap())
    };
    let kind = |event: &Value| event["event_type"].as_str().unwrap().to_owned();
    let all = events("eve");
    let chosen = events("eve:dns+http");
    let wanted: Vec<&Value> =
        all.iter().filter(|event| ["dns", "http", "stats"].contains(&kind(event).as_str())).collect();
    assert!(wanted.len() > 20 && wanted.len() < all.len());
    assert_eq!(chosen.iter().collect::<Vec<_>>(), wanted);
    assert!(events("eve:flow").iter().all(|event| ["flow", "stats"].contains(&kind(event).as_str())));
    let ran = weir([text(&support::sample()), "-o", text(folder.path()), "--log", "eve:htp"]);
    ran.exits(1).says("no rows \"htp\"").says("http");
}

/// Each event of a message of UDP names the packet that has the message, whatever the number of workers.
#[test]
fn events_have_the_number_of_their_packet() {
    let folder = tempfile::tempdir().unwrap();
    let query = |id: u8| {
        let head = [0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        [&head[..], b"\x07example\x03org\x00", &[0, 1, 0, 1]].concat()
    };
    // Queries stand at places 1, 3, 6, 10 ... among packets without a message.
    let (mut packets, mut places) = (Vec::new(), Vec::new());
    for n in 0..12_u8 {
        for filler in 0..n {
            let frame = build::ethernet().ipv4([10, 2, 0, n], [10, 3, 0, filler]).udp(9, 9).payload(&[]);
            packets.push((packets.len() as u64 * SECOND / 100, frame));
        }
        places.push(packets.len() as u64 + 1);
        let frame = build::ethernet().ipv4([10, 1, 0, n], [10, 1, 0, 99]).udp(5000, 53).payload(&query(n));
        packets.push((packets.len() as u64 * SECOND / 100, frame));
    }
    let file = put(folder.path(), "queries.pcap", &pcap(1, &packets));
    for workers in ["1", "3"] {
        let out = folder.path().join(workers);
        let arguments = ["-q", "--log", "eve", "--workers", workers, "-o", out.to_str().unwrap()];
        weir([&[file.to_str().unwrap()][..], &arguments].concat()).exits(0);
        let events = objects(&fs::read_to_string(out.join("eve.json")).unwrap());
        let of_dns = events.iter().filter(|event| event["event_type"] == "dns");
        let numbers: Vec<_> = of_dns.map(|event| number(event, "pcap_cnt")).collect();
        assert_eq!(numbers, places, "{workers} workers");
    }
}
