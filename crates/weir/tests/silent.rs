//! Hosts that reach for many others without a scan or a flood. No run says anything about them: no finding, and no host under SCANS or
//! FLOODS in the report of hosts, with any number of workers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use support::random::Random;
use support::*;
use weir_wire::build::{self, flags};

/// 2026-11-23 10:00 in UTC.
const BEGIN: u64 = (1_795_392_000 + 36_000) * SECOND;
const MS: u64 = SECOND / 1000;
const SYN_ACK: u8 = flags::SYN | flags::ACK;
const DATA: u8 = flags::PSH | flags::ACK;
const FIN: u8 = flags::FIN | flags::ACK;
const RST: u8 = flags::RST | flags::ACK;

/// A host and its port.
type End = ([u8; 4], u16);

/// What becomes of an attempt.
#[derive(Clone, Copy, Debug)]
enum Server {
    Answers,
    Refuses,
    /// Does not answer, so that a SYN is sent again.
    Is(Absent),
}

/// A server that does not answer.
#[derive(Clone, Copy, Debug)]
struct Absent {
    /// How often Linux sends a SYN again: six times by default (tcp_syn_retries).
    retries: u32,
}

const ABSENT: Server = Server::Is(Absent { retries: 2 });

/// Packets with their times.
#[derive(Default)]
struct Traffic(Vec<(u64, Vec<u8>)>);

impl Traffic {
    fn segment(&mut self, at: u64, ends: (End, End), flags: u8, seq: u32, ack: u32, payload: &[u8]) {
        let ((from, port), (to, to_port)) = ends;
        let frame = build::ethernet().ipv4(from, to).tcp(port, to_port, flags).seq(seq).ack(ack);
        self.0.push((at, frame.payload(payload)));
    }

    /// A connection with a request and an answer, or an attempt.
    fn tcp(&mut self, at: u64, client: End, server: End, becomes: Server, said: [&[u8]; 2]) {
        let (there, back) = ((client, server), (server, client));
        self.segment(at, there, flags::SYN, 100, 0, &[]);
        match becomes {
            Server::Refuses => self.segment(at + MS, back, RST, 0, 101, &[]),
            Server::Is(Absent { retries }) => {
                // After 1, 3, 7, ... seconds.
                let again = (1..=retries).map(|n| at + ((1 << n) - 1) * SECOND);
                again.for_each(|at| self.segment(at, there, flags::SYN, 100, 0, &[]));
            }
            Server::Answers => {
                let [sent, answered] = said.map(|side| side.len() as u32);
                self.segment(at + MS, back, SYN_ACK, 500, 101, &[]);
                self.segment(at + 2 * MS, there, flags::ACK, 101, 501, &[]);
                self.segment(at + 3 * MS, there, DATA, 101, 501, said[0]);
                self.segment(at + 4 * MS, back, DATA, 501, 101 + sent, said[1]);
                self.segment(at + 5 * MS, there, FIN, 101 + sent, 501 + answered, &[]);
                self.segment(at + 6 * MS, back, FIN, 501 + answered, 102 + sent, &[]);
                self.segment(at + 7 * MS, there, flags::ACK, 102 + sent, 502 + answered, &[]);
            }
        }
    }

    /// A datagram and, if there is one, its answer.
    fn udp(&mut self, at: u64, client: End, server: End, sent: &[u8], answer: Option<&[u8]>) {
        let frame = |from: End, to: End| build::ethernet().ipv4(from.0, to.0).udp(from.1, to.1);
        self.0.push((at, frame(client, server).payload(sent)));
        if let Some(answer) = answer {
            self.0.push((at + MS, frame(server, client).payload(answer)));
        }
    }

    /// A question for a name and, if it comes, its answer.
    fn dns(&mut self, at: u64, client: End, server: [u8; 4], n: u64, is_answered: bool) {
        let label = format!("host{n:06}");
        let message = |flags: [u8; 2]| {
            let id = (n as u16).to_be_bytes();
            let head = [&id[..], &flags, &[0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8]].concat();
            [&head[..], label.as_bytes(), b"\x07example\0\0\x01\0\x01"].concat()
        };
        let answer = message([0x81, 0x83]);
        self.udp(at, client, (server, 53), &message([1, 0]), is_answered.then_some(&answer));
    }

    fn ping(&mut self, at: u64, from: [u8; 4], to: [u8; 4], number: u16) {
        let [high, low] = number.to_be_bytes();
        let frame = |from, to, kind| {
            build::ethernet().ipv4(from, to).icmp(kind, 0, [0, 7, high, low]).payload(&[7; 56])
        };
        self.0.push((at, frame(from, to, 8)));
        self.0.push((at + MS, frame(to, from, 0)));
    }
}

const HOST: [u8; 4] = [10, 0, 0, 1];
const RESOLVER: [u8; 4] = [10, 0, 0, 53];

/// The n-th of many hosts elsewhere.
fn elsewhere(n: usize) -> [u8; 4] {
    let [_, _, high, low] = (n as u32).to_be_bytes();
    [198, 18 + high / 250, high % 250, low]
}

/// A port of a client, each in turn.
fn port(n: usize) -> u16 {
    32_768 + (n % 28_000) as u16
}

/// Lists whose rows the report of hosts judges, and the letters of applications.
const CONFIG: &str = "interval = \"30s\"\n\
    [[subscription]]\nname = \"apps\"\nlevel = \"flow\"\nchain = [\"apps\"]\n\
    [[subscription]]\nname = \"fanout\"\nlevel = \"flow\"\nchain = [\"fanout\"]\n\
    [[subscription]]\nname = \"by ports\"\nlevel = \"flow\"\nchain = [\"fanout by ports\"]\n\
    [[subscription]]\nname = \"flood\"\nchain = [\"flood\"]\n\
    [[subscription]]\nname = \"syn\"\nchain = [\"syn\"]\n";

/// Checks that nothing is said. Returns the lines of the run, and what Ourmon's formula of worms, which is no judgement of scans and
/// floods, finds: hosts under WORMS of the report, and `ports` with a port signature of an interval.
fn is_silent(name: &str, mut traffic: Traffic) -> (Vec<Value>, BTreeSet<String>) {
    traffic.0.sort_by_key(|(time, _)| *time);
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &pcap(1, &traffic.0));
    let config = put(folder.path(), "weir.toml", CONFIG.as_bytes());
    let store = folder.path().join("store");
    let stored = ["-o", text(&store), "--log", "store"];
    let (mut lines, mut worms) = (Vec::new(), BTreeSet::new());
    for (workers, more) in [("1", &stored[..]), ("2", &[]), ("3", &["--interval", "1h"])] {
        let fixed = [text(&capture), "-c", text(&config), "-j", "--memory", "1G", "--workers", workers];
        let said = weir(fixed.iter().chain(more)).exits(0).json();
        let (signatures, events): (Vec<&Value>, Vec<&Value>) = said
            .iter()
            .filter(|line| line["kind"] == "event")
            .partition(|event| event["event"] == "new_signature");
        assert!(events.is_empty(), "{name}, {workers} workers: {events:?}");
        worms.extend(signatures.iter().map(|event| format!("ports {}", event["subject"].as_str().unwrap())));
        lines = said;
    }
    let summary = weir([text(&capture)]).exits(0).text();
    assert!(!summary.contains("FINDINGS"), "{name}: {summary}");
    let report = weir(["report", "--store", text(&store), "--hosts", "week", "--at", "2026-11-23", "-j"])
        .exits(0)
        .json();
    for host in report.iter().filter(|line| line["kind"] == "host") {
        let rows = |list: &str| {
            let lists = host[list].as_array().cloned().unwrap_or_default();
            lists
                .iter()
                .flat_map(|list| list["rows"].as_array().cloned().unwrap_or_default())
                .collect::<Vec<_>>()
        };
        let judged = [rows("fanout"), rows("flood")].concat();
        let said: Vec<&Value> =
            judged.iter().filter(|row| row["scan"] == true || row["flooded"] == true).collect();
        assert!(said.is_empty(), "{name}: {} {said:?}", host["host"]);
        if host["syn"].as_array().is_some_and(|lists| lists.iter().any(|list| list["worm"] == true)) {
            worms.insert(host["host"].as_str().unwrap().to_owned());
        }
    }
    println!("{name}: {} packets, nothing is said", traffic.0.len());
    (lines, worms)
}

/// Names, and servers some of which are gone or refuse.
#[test]
fn a_web_client_that_opens_two_thousand_pages() {
    let (mut traffic, mut random) = (Traffic::default(), Random(1));
    for page in 0..2_000_usize {
        let at = BEGIN + page as u64 * SECOND;
        traffic.dns(at, (HOST, port(page)), RESOLVER, page as u64, true);
        for n in 0..3 {
            let becomes = match random.below(100) {
                0..3 => ABSENT,
                3..6 => Server::Refuses,
                _ => Server::Answers,
            };
            let server = (elsewhere(random.below(700)), random.of(&[80, 443]));
            let said: [&[u8]; 2] = [
                b"GET / HTTP/1.1\r\nHost: www.example\r\n\r\n",
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            ];
            traffic.tcp(at + (10 + n) * MS, (HOST, port(page * 3 + n as usize)), server, becomes, said);
        }
    }
    let (_, worms) = is_silent("a web client", traffic);
    assert_eq!(worms, BTreeSet::new());
}

/// A resolver that asks three thousand servers, of which one in ten is gone: those are asked again, and then others.
#[test]
fn a_busy_resolver() {
    let (mut traffic, mut random) = (Traffic::default(), Random(2));
    for n in 0..6_000_usize {
        let at = BEGIN + n as u64 * 100 * MS;
        traffic.dns(at, ([10, 0, 1, random.below(200) as u8], port(n)), RESOLVER, n as u64, true);
        let server = random.below(3_000);
        let is_there = server % 10 > 0;
        traffic.dns(at + MS, (RESOLVER, port(n * 7)), elsewhere(server), n as u64, is_there);
        if !is_there {
            traffic.dns(at + SECOND, (RESOLVER, port(n * 7 + 1)), elsewhere(server), n as u64, false);
            traffic.dns(at + 2 * SECOND, (RESOLVER, port(n * 7 + 2)), elsewhere(server + 1), n as u64, true);
        }
        // A long answer.
        if n % 50 == 0 {
            let server = (elsewhere(server + 1), 53);
            traffic.tcp(
                at + 3 * SECOND,
                (RESOLVER, port(n)),
                server,
                Server::Answers,
                [&[0, 1, 0], &[0, 1, 0]],
            );
        }
    }
    is_silent("a busy resolver", traffic);
}

/// Mail goes to a thousand servers. A quarter of them is gone or refuses, and is tried again.
#[test]
fn a_mail_relay() {
    let (mut traffic, mut random) = (Traffic::default(), Random(3));
    for n in 0..3_000_usize {
        let at = BEGIN + n as u64 * SECOND;
        traffic.dns(at, (HOST, port(n)), RESOLVER, n as u64, true);
        let to = random.below(1_000);
        let becomes = match to % 8 {
            0 => ABSENT,
            1 => Server::Refuses,
            _ => Server::Answers,
        };
        let said: [&[u8]; 2] = [b"EHLO relay.example\r\n", b"250 mx.example\r\n"];
        for again in 0..1 + u64::from(!matches!(becomes, Server::Answers)) {
            let at = at + again * 300 * SECOND;
            traffic.tcp(
                at + 2 * MS,
                (HOST, port(n + again as usize * 5_000)),
                (elsewhere(to), 25),
                becomes,
                said,
            );
        }
        let from = (elsewhere(5_000 + random.below(1_000)), port(n));
        traffic.tcp(at + 50 * MS, from, (HOST, 25), Server::Answers, said);
    }
    // At the end it only tries again: its SYNs are as many as those of a worm, but go to few servers.
    let (_, worms) = is_silent("a mail relay", traffic);
    assert_eq!(worms, BTreeSet::new());
}

/// A peer reaches for 600 others and for as many nodes of the hash table. More than half of both are gone, as some of those with the
/// usual port are. It has the letter B, and is no scan.
#[test]
fn a_peer_of_a_file_sharing_network() {
    let (mut traffic, mut random) = (Traffic::default(), Random(4));
    let handshake =
        [b"\x13BitTorrent protocol".as_slice(), &[0; 8], &[7; 20], b"-XX0001-abcdefghijkl"].concat();
    let (query, answer) = (
        b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe",
        b"d1:rd2:id20:9876543210jihgfedcbae1:t2:aa1:y1:re",
    );
    for n in 0..600_usize {
        let at = BEGIN + n as u64 * 3 * SECOND;
        let becomes = match random.below(100) {
            0..45 => ABSENT,
            45..60 => Server::Refuses,
            _ => Server::Answers,
        };
        let to = if n % 10 == 0 { 6_881 } else { 10_000 + random.below(50_000) as u16 };
        traffic.tcp(at, (HOST, port(n)), (elsewhere(n), to), becomes, [&handshake, &handshake]);
        let is_there = random.below(100) < 40;
        traffic.udp(
            at + 500 * MS,
            (HOST, 51_413),
            (elsewhere(1_000 + n), to),
            query,
            is_there.then_some(answer),
        );
    }
    let (lines, _) = is_silent("a peer", traffic);
    let apps =
        lines.iter().filter(|line| line["kind"] == "apps").flat_map(|line| line["apps"].as_array().unwrap());
    let row = apps.clone().find(|row| row["host"] == "10.0.0.1").unwrap();
    assert_eq!(row["flags"], "B", "{row}");
}

/// A monitor asks 500 hosts every five minutes for an hour: by ping, SNMP and HTTPS. All answer.
#[test]
fn a_poller_of_hosts_that_answer() {
    let mut traffic = Traffic::default();
    for (round, host) in (0..12_usize).flat_map(|round| (0..500).map(move |host| (round, host))) {
        let n = round * 500 + host;
        let at = BEGIN + round as u64 * 300 * SECOND + host as u64 * 20 * MS;
        let to = [10, 1, (host / 250) as u8, (host % 250) as u8 + 1];
        traffic.ping(at, HOST, to, n as u16);
        traffic.udp(
            at + 5 * MS,
            (HOST, port(n)),
            (to, 161),
            b"0&\x02\x01\x01\x04\x06public",
            Some(b"0&\x02\x01\x01\x04\x06public"),
        );
        traffic.tcp(at + 8 * MS, (HOST, port(n)), (to, 443), Server::Answers, [b"hello", b"hello"]);
    }
    let (_, worms) = is_silent("a poller", traffic);
    assert_eq!(worms, BTreeSet::new());
}

/// Three hundred clients of a server that does not answer, and of one that refuses. Each tries again every two minutes for an hour.
#[test]
fn clients_of_a_server_that_is_down() {
    for (name, becomes) in [("gone", Server::Is(Absent { retries: 6 })), ("refusing", Server::Refuses)] {
        let (mut traffic, mut random) = (Traffic::default(), Random(5));
        for (round, client) in (0..28_usize).flat_map(|round| (0..300).map(move |client| (round, client))) {
            let at = BEGIN + round as u64 * 128 * SECOND + random.below(128_000) as u64 * MS;
            let from = [10, 2, (client / 200) as u8, (client % 200) as u8 + 1];
            traffic.tcp(at, (from, port(round * 300 + client)), ([192, 0, 2, 1], 443), becomes, [b"", b""]);
        }
        let (_, worms) = is_silent(&format!("clients of a server that is {name}"), traffic);
        // They send SYNs and receive no FIN, which is all that Ourmon's report of TCP worms looks at.
        assert_eq!(worms.len(), 300, "{name}");
    }
}
