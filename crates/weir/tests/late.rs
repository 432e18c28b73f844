//! Late segments of closed TCP connections: rows of their own in conn.log, as in Zeek, and parts of their connections everywhere
//! else.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use rusqlite::Connection;
use serde_json::Value;
use std::path::Path;
use support::*;
use weir_wire::build;
use weir_wire::build::flags::{ACK, FIN, PSH, RST, SYN};

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 1_795_305_600 * SECOND;

/// The packets of a capture, and who sends them.
#[derive(Default)]
struct Made {
    packets: Vec<(u64, Vec<u8>)>,
}

/// The two ends of a connection.
#[derive(Clone, Copy)]
struct Ends {
    client: u8,
    ports: [u16; 2],
}

impl Made {
    /// A segment at a time in milliseconds.
    fn add(&mut self, at: u64, ends: Ends, from_client: bool, flags: u8, numbers: [u32; 2], payload: &[u8]) {
        let [client, server] = [[10, 0, 0, ends.client], [192, 0, 2, 1]];
        let [port, other] = ends.ports;
        let segment = match from_client {
            true => build::ethernet().ipv4(client, server).tcp(port, other, flags),
            false => build::ethernet().ipv4(server, client).tcp(other, port, flags),
        };
        let segment = segment.seq(numbers[0]).ack(numbers[1]).payload(payload);
        self.packets.push((BEGIN + at * 1_000_000, segment));
    }

    /// A handshake, a request and its answer within 5 ms.
    fn open(&mut self, at: u64, ends: Ends) {
        self.add(at, ends, true, SYN, [1000, 0], b"");
        self.add(at + 1, ends, false, SYN | ACK, [9000, 1001], b"");
        self.add(at + 2, ends, true, ACK, [1001, 9001], b"");
        self.add(at + 3, ends, true, PSH | ACK, [1001, 9001], b"a question");
        self.add(at + 4, ends, false, PSH | ACK, [9001, 1011], b"an answer that is longer");
    }

    /// A connection that both sides close within 8 ms.
    fn closed(&mut self, at: u64, ends: Ends) {
        self.open(at, ends);
        self.add(at + 5, ends, true, FIN | ACK, [1011, 9025], b"");
        self.add(at + 6, ends, false, FIN | ACK, [9025, 1012], b"");
        self.add(at + 7, ends, true, ACK, [1012, 9026], b"");
    }

    fn fin(&mut self, at: u64, ends: Ends) {
        self.add(at, ends, true, FIN | ACK, [1011, 9025], b"");
    }
}

fn ends(client: u8, server_port: u16) -> Ends {
    Ends { client, ports: [40_000 + u16::from(client), server_port] }
}

/// Connections, flows of late segments.
const FLOWS: u64 = 9;
const FOLLOWING: u64 = 7;

fn capture() -> Vec<(u64, Vec<u8>)> {
    let mut made = Made::default();
    // FINs that are sent again: the second one follows the flow of the first.
    made.closed(0, ends(1, 80));
    made.fin(10_000, ends(1, 80));
    made.fin(20_000, ends(1, 80));
    // A RST after the end.
    made.closed(100, ends(2, 80));
    made.add(8_000, ends(2, 80), true, RST, [1012, 0], b"");
    // A keepalive, and its answer.
    made.closed(200, ends(3, 443));
    made.add(30_000, ends(3, 443), true, ACK, [1011, 9026], b"");
    made.add(30_001, ends(3, 443), false, ACK, [9026, 1012], b"");
    // The server is the last to speak, on a port that is no server's by its number.
    made.closed(300, ends(4, 50_000));
    made.add(12_000, ends(4, 50_000), false, RST | ACK, [9026, 1012], b"");
    made.add(12_500, ends(4, 50_000), false, RST | ACK, [9026, 1012], b"");
    // The port again, with a SYN: another connection, whose segment is late.
    made.closed(400, ends(5, 80));
    made.closed(10_400, ends(5, 80));
    made.fin(20_400, ends(5, 80));
    // A minute after the end: a flow of its own.
    made.closed(500, ends(6, 80));
    made.add(60_508, ends(6, 80), true, ACK, [1012, 9026], b"");
    // A connection that was reset, and again.
    made.open(600, ends(7, 80));
    made.add(700, ends(7, 80), false, RST | ACK, [9025, 1011], b"");
    made.add(59_700, ends(7, 80), false, RST | ACK, [9025, 1011], b"");
    let mut packets = made.packets;
    packets.sort();
    packets
}

fn rows(store: &Path) -> Vec<[i64; 6]> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(store).unwrap().flatten() {
        if !entry.file_name().to_string_lossy().starts_with("rows-") {
            continue;
        }
        let database = Connection::open(entry.path()).unwrap();
        let mut query = database
            .prepare(
                "SELECT sport, last, fpackets, rpackets, fbytes, rbytes,
                 detail ->> 'frame_bytes', detail ->> 'reverse_frame_bytes', detail ->> 'duration', first
                 FROM flows ORDER BY first, sport",
            )
            .unwrap();
        let mut found = query.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let at = |column: usize| row.get::<_, i64>(column).unwrap();
            assert_eq!([at(4), at(5)], [at(6), at(7)], "the detail has the same numbers");
            let duration: f64 = row.get(8).unwrap();
            assert!((duration - (at(1) - at(9)) as f64 / 1e9).abs() < 1e-5);
            all.push([0, 1, 2, 3, 4, 5].map(at));
        }
    }
    all
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn late_segments_are_rows_of_conn_log_and_parts_of_their_connections_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let packets = capture();
    let path = put(folder.path(), "late.pcap", &pcap(1, &packets));
    let total = [packets.len() as u64, packets.iter().map(|(_, data)| data.len() as u64).sum()];
    let mut first = None;
    for (at, (workers, interval)) in
        [("1", "3600"), ("2", "3600"), ("3", "3600"), ("7", "3600"), ("1", "5"), ("3", "5")]
            .into_iter()
            .enumerate()
    {
        let out = folder.path().join(at.to_string());
        let options = ["--log", "zeek,eve,store", "--workers", workers, "--interval", interval, "-j"];
        let facts = weir([text(&path), "-o", text(&out)].into_iter().chain(options)).exits(0);
        assert_eq!(
            ["created", "ended", "followed"].map(|name| facts.fact("flows", name)),
            [FLOWS + FOLLOWING, FLOWS + FOLLOWING, FOLLOWING]
        );
        let begun: u64 = facts
            .json()
            .iter()
            .filter(|line| line["subscription"] == "sources")
            .flat_map(|line| line["rows"].as_array().unwrap().clone())
            .map(|row| number(&row["flows"]))
            .sum();
        assert_eq!(begun, FLOWS, "flows in lists");

        let conn = std::fs::read_to_string(out.join("conn.log")).unwrap();
        let fields: Vec<&str> =
            conn.lines().find_map(|line| line.strip_prefix("#fields\t")).unwrap().split('\t').collect();
        let place = |name: &str| fields.iter().position(|field| *field == name).unwrap();
        let (orig, resp) = (place("orig_pkts"), place("resp_pkts"));
        let lines: Vec<Vec<&str>> = conn
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').collect())
            .collect();
        assert_eq!(lines.len() as u64, FLOWS + FOLLOWING);
        let logged: u64 =
            lines.iter().flat_map(|line| [line[orig], line[resp]]).map(|n| n.parse::<u64>().unwrap()).sum();
        assert_eq!(logged, total[0]);

        let eve = objects(&std::fs::read_to_string(out.join("eve.json")).unwrap());
        let events: Vec<&Value> = eve.iter().filter(|event| event["event_type"] == "flow").collect();
        assert_eq!(events.len() as u64, FLOWS, "{interval} s: {events:#?}");
        let sum = |names: [&str; 2]| -> u64 {
            events.iter().flat_map(|event| names.map(|name| number(&event["flow"][name]))).sum()
        };
        assert_eq!(sum(["pkts_toserver", "pkts_toclient"]), total[0]);
        assert_eq!(sum(["bytes_toserver", "bytes_toclient"]), total[1]);
        let of = |port: u64| -> Vec<[u64; 2]> {
            let of_port = events.iter().filter(|event| event["src_port"] == port);
            let pair =
                |event: &&Value| ["pkts_toserver", "pkts_toclient"].map(|name| number(&event["flow"][name]));
            let mut found: Vec<[u64; 2]> = of_port.map(pair).collect();
            // Closed connections come later than others.
            found.sort_unstable();
            found
        };
        assert_eq!(of(40_001), [[7, 3]]);
        assert_eq!(of(40_003), [[6, 4]]);
        assert_eq!(of(40_004), [[5, 5]], "the server's late segments are the server's");
        assert_eq!(of(40_005), [[5, 3], [6, 3]]);
        assert_eq!(of(40_006), [[1, 0], [5, 3]]);
        assert_eq!(of(40_007), [[3, 4]]);
        let stats = eve.iter().rfind(|event| event["event_type"] == "stats").unwrap();
        assert_eq!(stats["stats"]["flow"]["total"], FLOWS);

        let rows = rows(&out);
        assert_eq!(rows.len() as u64, FLOWS);
        let stored =
            |columns: [usize; 2]| rows.iter().flat_map(|row| columns.map(|at| row[at] as u64)).sum::<u64>();
        assert_eq!([stored([2, 3]), stored([4, 5])], total);
        let answer = weir(["query", "-d", text(&out), "-j", "count where tcp"]).exits(0).text();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!([&answer["rows"][0][1], &answer["rows"][0][2]].map(number), total);

        let counted = weir(["count", text(&path), "-e", "tcp", "-j"]).exits(0).json();
        let counted = counted.iter().find(|line| line["packets"].is_u64()).unwrap();
        assert_eq!([&counted["packets"], &counted["bytes"]].map(number), total);

        let flows: Vec<String> = events.iter().map(|event| event.to_string()).collect();
        let (sorted_lines, text) =
            (rows, conn.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n"));
        match &first {
            None => first = Some((flows, sorted_lines, text)),
            Some((of_flows, of_rows, of_text)) => {
                assert_eq!(of_rows, &sorted_lines, "{workers} workers, {interval} s");
                if interval == "3600" {
                    assert_eq!((of_flows, of_text), (&flows, &text), "{workers} workers");
                }
            }
        }
    }
}

#[test]
fn the_summary_counts_connections() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "late.pcap", &pcap(1, &capture()));
    weir([text(&path)]).exits(0).prints(&format!("{FLOWS} flows: "));
    weir([text(&path), "-v"]).exits(0).prints("late segments of closed connections");
}
