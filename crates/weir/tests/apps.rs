//! A peer of file-sharing networks has the letters of what it speaks, and a scanner that reaches for as many hosts has none, with any
//! number of workers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;
#[path = "support/tables.rs"]
mod tables;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use support::aside::is_aside;
use support::{SECOND, captures, pcap, put, text, weir};
use tables::tables_of;
use weir_api::{Cell, Datum, Folded, FunctionCall, Level, Reading, SubscriptionSpec, Table};
use weir_wire::build::{self, flags};

const PEER: [u8; 4] = [10, 0, 0, 1];
const SCANNER: [u8; 4] = [10, 0, 0, 2];
const CHATTER: [u8; 4] = [10, 0, 0, 3];
/// Hosts that the peer and the scanner reach for; every second one does not answer.
const TARGETS: u8 = 60;

type Packets = Vec<(u64, Vec<u8>)>;

/// What an initiator and a responder say in turn over TCP.
fn tcp(out: &mut Packets, ends: [[u8; 4]; 2], ports: [u16; 2], said: &[&[u8]]) {
    let mut next = [1000_u32, 5000];
    let mut send = |from: usize, bits: u8, payload: &[u8]| {
        let to = 1 - from;
        let frame = build::ethernet().ipv4(ends[from], ends[to]).tcp(ports[from], ports[to], bits);
        let time = SECOND + out.len() as u64 * SECOND / 1000;
        out.push((time, frame.seq(next[from]).ack(next[to]).payload(payload)));
        next[from] += payload.len() as u32 + u32::from(bits & (flags::SYN | flags::FIN) != 0);
    };
    send(0, flags::SYN, &[]);
    send(1, flags::SYN | flags::ACK, &[]);
    send(0, flags::ACK, &[]);
    for (at, payload) in said.iter().enumerate() {
        send(at % 2, flags::ACK | flags::PSH, payload);
    }
    send(0, flags::FIN | flags::ACK, &[]);
    send(1, flags::FIN | flags::ACK, &[]);
    send(0, flags::ACK, &[]);
}

/// A message of the distributed hash table.
fn table_message(of: &str) -> Vec<u8> {
    match of {
        "query" => b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe".to_vec(),
        _ => b"d1:rd2:id20:9876543210jihgfedcbae1:t2:aa1:y1:re".to_vec(),
    }
}

/// A first message of eDonkey.
fn hello(kind: &[u8]) -> Vec<u8> {
    let tag = [2, 1, 0, 1, 4, 0, b'p', b'e', b'e', b'r'];
    let body = [kind, &[0x55; 16], &[192, 0, 2, 1, 0x36, 0x12, 1, 0, 0, 0], &tag, &[0; 6]].concat();
    [&[0xe3][..], &(body.len() as u32).to_le_bytes(), &body].concat()
}

fn target(n: u8) -> [u8; 4] {
    [192, 0, 2, n]
}

fn packets() -> Packets {
    let mut out = Packets::new();
    for n in 1..=TARGETS {
        let time = SECOND + out.len() as u64 * SECOND / 1000;
        let there = build::ethernet().ipv4(PEER, target(n)).udp(6881, 6000 + u16::from(n));
        out.push((time, there.payload(&table_message("query"))));
        let syn = build::ethernet().ipv4(SCANNER, target(n)).tcp(40_000, 6881, flags::SYN);
        out.push((time, syn.payload(&[])));
        if n % 2 == 0 {
            let back = build::ethernet().ipv4(target(n), PEER).udp(6000 + u16::from(n), 6881);
            out.push((time + 1000, back.payload(&table_message("answer"))));
            let rst = build::ethernet().ipv4(target(n), SCANNER).tcp(6881, 40_000, flags::RST | flags::ACK);
            out.push((time + 1000, rst.payload(&[])));
        }
    }
    let handshake =
        [b"\x13BitTorrent protocol".as_slice(), &[0; 8], &[7; 20], b"-XX0001-abcdefghijkl"].concat();
    tcp(&mut out, [PEER, target(2)], [41_000, 51_413], &[&handshake, &handshake]);
    // A near miss: one letter is another.
    let near = handshake.to_ascii_lowercase();
    tcp(&mut out, [PEER, target(70)], [41_001, 51_413], &[&near, &near]);
    let request = b"GNUTELLA CONNECT/0.6\r\n\r\n";
    tcp(&mut out, [PEER, target(71)], [41_002, 6346], &[request, b"GNUTELLA/0.6 200 OK\r\n\r\n"]);
    tcp(&mut out, [target(72), PEER], [41_003, 4662], &[&hello(&[1, 16]), &hello(&[0x4c])]);
    let [nick, welcome] = [b"NICK one\r\nUSER one 0 * :One\r\n".as_slice(), b":irc 001 one :Welcome\r\n"];
    tcp(&mut out, [CHATTER, target(73)], [41_004, 6667], &[nick, welcome]);
    tcp(
        &mut out,
        [CHATTER, target(74)],
        [41_005, 80],
        &[b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"],
    );
    out
}

/// The tables by host and by application.
fn tables(path: &Path, workers: usize) -> [Table; 2] {
    let spec = |by: &str| {
        let call = FunctionCall::new("apps").with("by", by);
        SubscriptionSpec { level: Level::Flow, ..SubscriptionSpec::new(by, "", vec![call]) }
    };
    tables_of(path, workers, ["host", "application"].map(spec))
}

fn number(row: &weir_api::TableRow, column: usize) -> u64 {
    match row.values[column] {
        Folded::Sum(sum) => sum,
        _ => panic!("{row:?}"),
    }
}

/// Letters and names of each host, with its flows and those that it began.
fn hosts(table: Table) -> BTreeMap<IpAddr, (String, String, u64, u64)> {
    let begun: BTreeMap<_, _> = table.rows.iter().map(|row| (row.key.clone(), number(row, 1))).collect();
    let reading = Reading::Table(Table { schema: shown(&table), ..table });
    let cells = reading.cells();
    let name = |cell: &Cell<'_>| if let Cell::Text(text) = cell { text.to_string() } else { String::new() };
    let row = |row: &weir_api::Row<'_>| match row.values.as_slice() {
        [Cell::Address(host), Cell::Whole(flows), .., letters, names] => {
            (*host, (name(letters), name(names), *flows, begun[&vec![Datum::Address(*host)]]))
        }
        other => panic!("{other:?}"),
    };
    cells.rows.iter().map(row).collect()
}

/// The columns, with all rows shown.
fn shown(table: &Table) -> Arc<weir_api::Schema> {
    let shown = weir_api::Shown::Heaviest(1000);
    Arc::new(weir_api::Schema { shown, ..(*table.schema).clone() })
}

/// The number of flows that their initiators have of each application.
fn flows(table: &Table) -> BTreeMap<String, u64> {
    let mut flows: BTreeMap<String, u64> = BTreeMap::new();
    for row in &table.rows {
        let [_, Datum::Text(name), _] = &row.key[..] else { panic!("{row:?}") };
        *flows.entry(name.to_string()).or_default() += number(row, 1);
    }
    flows.retain(|_, number| *number > 0);
    flows
}

#[test]
fn a_peer_has_letters_and_a_scanner_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.pcap", &pcap(1, &packets()));
    let [by_host, by_application] = tables(&path, 1);
    let found = hosts(by_host.clone());
    let of = |host: [u8; 4]| found.get(&host.into()).map(|(letters, ..)| letters.as_str());
    assert_eq!((of(PEER), of(SCANNER), of(CHATTER)), (Some("BEG"), None, Some("I")), "{found:#?}");
    let queries = u64::from(TARGETS);
    let names = "bittorrent bt_dht edonkey gnutella".to_owned();
    assert_eq!(found[&PEER.into()], ("BEG".to_owned(), names, queries + 3, queries + 2));
    assert_eq!(found[&CHATTER.into()].1, "http irc");
    // A target that says nothing speaks no application.
    assert_eq!((of(target(1)), of(target(2)), of(target(4))), (None, Some("B"), Some("B")));
    assert_eq!((of(target(70)), of(target(71)), of(target(72))), (None, Some("G"), Some("E")));
    assert_eq!((of(target(73)), of(target(74))), (Some("I"), Some("")));
    let expected =
        [("bittorrent", 1), ("bt_dht", queries), ("edonkey", 1), ("gnutella", 1), ("http", 1), ("irc", 1)];
    assert_eq!(flows(&by_application), expected.map(|(name, flows)| (name.to_owned(), flows)).into());
    for workers in [2, 3, 7] {
        assert_eq!(tables(&path, workers), [by_host.clone(), by_application.clone()], "{workers} workers");
    }
}

/// The program prints the letters, with one worker and with two.
#[test]
fn the_program_shows_the_letters() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.pcap", &pcap(1, &packets()));
    let config = "[[subscription]]\nname = \"apps\"\nlevel = \"flow\"\nchain = [\"apps show 100\"]\noutputs = [\"csv\"]\n";
    let config = put(folder.path(), "weir.toml", config.as_bytes());
    let csv = |workers: &str| {
        let logs = folder.path().join(workers);
        let arguments =
            [text(&path), "-c", text(&config), "-o", text(&logs), "--log", "csv", "-q", "--workers", workers];
        weir(arguments).exits(0);
        std::fs::read_to_string(logs.join("values.csv")).unwrap()
    };
    let one = csv("1");
    for (column, value) in [("flags", "BEG"), ("applications", "bittorrent bt_dht edonkey gnutella")] {
        let is_it = |line: &&str| line.contains("10.0.0.1") && line.contains(column) && line.contains(value);
        assert_eq!(one.lines().filter(is_it).count(), 1, "{column}: {one}");
    }
    assert_eq!(csv("2"), one);
}

/// A game that no one else knows, over TCP in small segments and over UDP, and a server that is known by its port.
fn own() -> Packets {
    let mut out = Packets::new();
    let (player, server) = ([10, 0, 0, 8], [192, 0, 2, 80]);
    let pad = [b'.'; 250];
    let first = [&pad[..], b"PAWN"].concat();
    let late = [&pad[..], b"....PAWN"].concat();
    let pieces: Vec<&[u8]> = vec![b"CHE", b"ok", b"SS/", b"ok", b"2 e4"];
    tcp(&mut out, [player, server], [42_000, 7000], &pieces);
    // The server says it, at the end of what is looked at; and beyond that.
    tcp(&mut out, [player, server], [42_001, 7001], &[b"hello", &first]);
    tcp(&mut out, [player, server], [42_002, 7001], &[b"hello", &late]);
    tcp(&mut out, [[10, 0, 0, 9], server], [42_003, 7777], &[b"\x00\x01\x02\x03", b"\xff"]);
    // What is identified as another protocol is this application, too.
    tcp(
        &mut out,
        [player, server],
        [42_004, 80],
        &[b"GET /CHESS/1 HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"],
    );
    for (port, payload) in [(7000, "CHESS/1 d4"), (7777, "CHESS/1 d4"), (7000, "chess/1 d4")] {
        let time = SECOND + out.len() as u64 * SECOND / 1000;
        let from = 43_000 + out.len() as u16;
        out.push((
            time,
            build::ethernet().ipv4(player, [192, 0, 2, 81]).udp(from, port).payload(payload.as_bytes()),
        ));
    }
    out
}

const OWN: &str = r#"
[[app]]
name = "chess"
flag = "C"
first = '^(GET /)?CHESS/[0-9]|PAWN'

[[app]]
name = "scales"
flag = "S"
ports = [7777]

[[app]]
name = "chess-udp"
flag = "U"
ports = [7000]
first = "CHESS/1"

[[subscription]]
name = "apps"
level = "flow"
chain = ["apps by application show 100"]
outputs = ["csv"]
"#;

/// Applications of the configuration have their rows, however the bytes arrive, and with any number of workers.
#[test]
fn applications_of_the_configuration_have_their_letters() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.pcap", &pcap(1, &own()));
    let config = put(folder.path(), "weir.toml", OWN.as_bytes());
    let rows = |workers: &str| {
        let logs = folder.path().join(workers);
        let arguments =
            [text(&path), "-c", text(&config), "-o", text(&logs), "--log", "csv", "-q", "--workers", workers];
        weir(arguments).exits(0);
        let values = std::fs::read_to_string(logs.join("values.csv")).unwrap();
        let lines = values.lines().filter(|line| line.contains("10.0.0.") && line.contains(",flows,"));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let one = rows("1");
    for (key, flows) in [
        ("10.0.0.8 chess C", 5),
        ("10.0.0.8 chess-udp U", 1),
        ("10.0.0.8 http", 1),
        ("10.0.0.8 scales S", 1),
        ("10.0.0.9 scales S", 1),
    ] {
        let row = one.iter().find(|line| line.contains(key)).unwrap_or_else(|| panic!("{key}: {one:#?}"));
        assert!(row.contains(&format!(",flows,{flows}")), "{row}");
    }
    assert_eq!(one.len(), 5, "{one:#?}");
    for workers in ["2", "3"] {
        assert_eq!(rows(workers), one, "{workers} workers");
    }
}

/// What is wrong with an application has its line.
#[test]
fn wrong_applications_are_named_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[[app]]\nname = \"one\"\nflag = \"A\"\nfirst = '('\n[[app]]\nname = \"two\"\nflag = \"AB\"\nports = [0]\n\
                  [[app]]\nname = \"tls\"\nflag = \"T\"\nports = [1]\n";
    let config = put(folder.path(), "weir.toml", config.as_bytes());
    let errors = weir(["config", "check", text(&config)]).exits(1).stderr;
    for (line, reason) in [
        (4, "unclosed group"),
        (7, "not one letter"),
        (8, "not between 1 and 65535"),
        (10, "name of a protocol"),
    ] {
        let place = format!("weir.toml:{line}:");
        assert!(
            errors.lines().any(|one| one.contains(&place) && one.contains(reason)),
            "{place} {reason}: {errors}"
        );
    }
}

/// What other projects' captures have of these protocols: sums of flows alone of those that are set aside.
#[test]
fn captures_have_the_applications_that_their_projects_name() {
    let expected: [(&str, &str, u64); 3] = [
        // nDPI's `irc.pcap.out` has one flow of IRC, and Zeek's trace of Gnutella one of Gnutella.
        ("nDPI/pcap/irc.pcap", "irc", 1),
        ("zeek/traces/gnutella/max-line.pcapng", "gnutella", 1),
        ("suricata-verify/tests/bittorrent-dht/input.pcap", "bt_dht", 1),
    ];
    let all = captures();
    let (mut seen, mut aside) = ((0, 0), (0, 0));
    for (name, application, least) in expected {
        let Some(path) = all.iter().find(|path| path.ends_with(name)) else {
            println!("skipped: {name} is not here");
            continue;
        };
        let [_, table] = tables(path, 2);
        let found = flows(&table).get(application).copied().unwrap_or(0);
        let sum = if is_aside(name) { &mut aside } else { &mut seen };
        *sum = (sum.0 + u64::from(found >= least), sum.1 + 1);
        println!("{name}: {found} of {application}");
    }
    println!("{} of {} seen, {} of {} set aside", seen.0, seen.1, aside.0, aside.1);
    assert_eq!(seen.0, seen.1);
}
