//! nmap and hping3 in network namespaces. Each scan is in the lists of `fanout` under its kind, with the ports and hosts that tshark
//! counts in a capture of it; scans and floods are findings about those who send them, and never about their target.
//!
//! Captures are compared with captures: no test depends on what a tool meant to send, or on how fast it was.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use support::net::Net;
use support::*;

/// 2026-11-23 10:00 in UTC, a Monday. Captures are moved there, so that none crosses the end of a period of a report.
const BEGIN: u64 = (1_795_392_000 + 36_000) * SECOND;
const SCANNER: &str = "10.77.0.1";
const TARGET: &str = "10.77.0.2";
const OPEN: [u16; 3] = [22, 80, 443];
const ECHO: u16 = 7;
/// Addresses of 10.77.1.0/24 that answer: 1 to this.
const LIVING: u16 = 40;

/// Opens the ports of the target, and answers until it is killed. Runs in a namespace, in a separate process.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn listener() {
    if std::env::var_os("WEIR_LISTEN").is_none() {
        return;
    }
    let open = OPEN.map(|port| TcpListener::bind(("0.0.0.0", port)).unwrap());
    let echo = UdpSocket::bind(("0.0.0.0", ECHO)).unwrap();
    let mut datagram = [0; 2048];
    while let Ok((length, from)) = echo.recv_from(&mut datagram) {
        // The port of the sender may be closed again.
        let _ = echo.send_to(&datagram[..length], from);
    }
    drop(open);
}

/// A scanner, a target with open ports, a network with some hosts, and one of decoys.
struct Lab {
    net: Net,
    listener: Child,
    folder: tempfile::TempDir,
}

impl Lab {
    /// `None` where it cannot be made, which is said with the number of cases that are skipped.
    fn new(tool: &str, cases: usize) -> Option<Lab> {
        for program in [tool, "tcpdump", "tshark"] {
            if Command::new(program).arg("--version").stdin(Stdio::null()).output().is_err() {
                println!("skipped: {cases} cases, {program} is not installed");
                return None;
            }
        }
        let Some(net) = Net::new() else {
            println!("skipped: {cases} cases need network namespaces");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let mut there = format!("address add {TARGET}/24 dev far\nlink set lo up\n");
        (10..30).for_each(|n| there += &format!("address add 10.77.0.{n}/24 dev far\n"));
        (1..=LIVING).for_each(|n| there += &format!("address add 10.77.1.{n}/32 dev lo\n"));
        // Packets to other addresses of the network are dropped, and answers to decoys cross the link.
        there += &format!("route add blackhole 10.77.1.0/24\nroute add 10.77.2.0/24 via {SCANNER}\n");
        net.ip(&net.there, &["-batch", text(&put(folder.path(), "there", there.as_bytes()))]);
        net.ip(&net.here, &["route", "add", "10.77.1.0/24", "via", TARGET]);
        // Closed ports answer each datagram, and SYNs with ACK are not sent again into the capture of the next case.
        let settings = "cd /proc/sys/net/ipv4; echo 0 >icmp_ratelimit; echo 1000000 >icmp_msgs_per_sec; echo 0 >tcp_synack_retries";
        let _ = net.inside(&net.there, "sh").args(["-c", settings]).stderr(Stdio::null()).status();
        let listener = start(net.test(&net.there, "listener").env("WEIR_LISTEN", "1"));
        let listens = || {
            let sockets = net.inside(&net.there, "cat").arg("/proc/net/udp").output().unwrap();
            String::from_utf8_lossy(&sockets.stdout).contains(&format!(":{ECHO:04X} "))
        };
        assert!(eventually(listens), "the target listens");
        Some(Lab { net, listener, folder })
    }

    /// The capture of a command of the scanner.
    fn capture(&self, name: &str, command: &str) -> PathBuf {
        let path = self.folder.path().join(format!("{name}.live"));
        let log = self.folder.path().join(format!("{name}.log"));
        // Room for all packets: the capture has to have answers, too.
        let options = ["-i", "far", "-U", "--immediate-mode", "-s", "512", "-B", "65536", "-Z", "root", "-w"];
        let mut tcpdump = self.net.inside(&self.net.there, "tcpdump");
        tcpdump.args(options).arg(&path).stdin(Stdio::null()).stdout(Stdio::null());
        let mut tcpdump = tcpdump.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let listens = || std::fs::read_to_string(&log).is_ok_and(|said| said.contains("listening on"));
        assert!(eventually(listens), "{name}: tcpdump listens");
        let (program, arguments) = command.split_once(' ').unwrap();
        let mut scan = self.net.inside(&self.net.here, program);
        // hping3 ends with 1 where nothing answered.
        let ran = run(scan.args(arguments.split(' ')).stdin(Stdio::null()));
        let size = || path.metadata().map_or(0, |data| data.len());
        let mut before = 0;
        assert!(eventually(|| {
            thread::sleep(Duration::from_millis(60));
            let is_whole = size() == before && before > 24;
            before = size();
            is_whole
        }));
        signal(&tcpdump, "INT");
        assert!(wait(&mut tcpdump).is_some(), "{name}: tcpdump ends");
        assert!(size() > 24, "{name}: {ran:?}");
        path
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.listener.kill();
        let _ = self.listener.wait();
    }
}

/// Moves a capture with microseconds to [`BEGIN`], with all gaps `times` as long.
fn moved(capture: &Path, times: u64) -> PathBuf {
    let bytes = std::fs::read(capture).unwrap();
    let word = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
    let time = |at: usize| word(at) * SECOND + word(at + 4) * 1000;
    let (mut at, first, mut out) = (24, time(24), bytes[..24].to_vec());
    while at + 16 <= bytes.len() {
        let end = at + 16 + word(at + 8) as usize;
        let now = BEGIN + time(at).saturating_sub(first) * times;
        out.extend(
            [now / SECOND, now % SECOND / 1000].map(|part| part as u32).iter().flat_map(|n| n.to_le_bytes()),
        );
        out.extend(&bytes[at + 8..end]);
        at = end;
    }
    let path = capture.with_extension("pcap");
    std::fs::write(&path, out).unwrap();
    path
}

/// What a host tried, by its kind: pairs of targets and ports. What has no ports has 0.
type Tried = BTreeMap<(String, &'static str), BTreeSet<(String, u16)>>;

/// What tshark finds in a capture.
#[derive(Default)]
struct Theirs {
    tried: Tried,
    /// Ports of targets that answered a SYN, by who sent it.
    open: HashMap<String, BTreeSet<(String, u16)>>,
    /// Ports of targets that sent a RST, by who it was for.
    refused: HashMap<String, BTreeSet<(String, u16)>>,
}

impl Theirs {
    /// The first packet of each flow has its kind, but a SYN is that of `connect` if its sender completes the handshake.
    fn of(capture: &Path) -> Theirs {
        const FIELDS: [&str; 12] = [
            "ip.src",
            "ip.dst",
            "ip.proto",
            "tcp.srcport",
            "tcp.dstport",
            "tcp.flags",
            "udp.srcport",
            "udp.dstport",
            "sctp.srcport",
            "sctp.dstport",
            "icmp.type",
            "arp.opcode",
        ];
        let lines = tshark::fields(
            capture,
            &["-E", "occurrence=f"],
            &[&FIELDS[..], &["arp.src.proto_ipv4", "arp.dst.proto_ipv4"]].concat(),
        );
        let mut theirs = Theirs::default();
        let mut flows = HashSet::new();
        let (mut syns, mut connected) = (HashMap::new(), HashSet::new());
        for line in lines.lines() {
            let fields: Vec<&str> = line.split(';').collect();
            let port = |at: usize| fields[at].parse::<u16>().unwrap_or(0);
            if fields[11] == "1" {
                theirs.add(fields[12], "arp", fields[13], 0);
                continue;
            }
            let Ok(protocol) = fields[2].parse::<u8>() else { continue };
            let (from, to) = match protocol {
                6 => (port(3), port(4)),
                17 => (port(6), port(7)),
                132 => (port(8), port(9)),
                _ => (0, 0),
            };
            let (source, target) = ((fields[0].to_owned(), from), (fields[1].to_owned(), to));
            let flags = u16::from_str_radix(fields[5].trim_start_matches("0x"), 16).unwrap_or(0);
            let flow = (source.clone(), target.clone());
            if protocol == 6 && flags & 0x04 != 0 {
                theirs.refused.entry(target.0.clone()).or_default().insert(source.clone());
            }
            if protocol == 6 && flags == 0x12 {
                theirs.open.entry(target.0.clone()).or_default().insert(source.clone());
            }
            if protocol == 6 && flags & 0x17 == 0x10 && syns.contains_key(&flow) {
                connected.insert(flow.clone());
            }
            let (kind, number) = match (protocol, flags, fields[10]) {
                (6, 0x02, _) => ("syn", to),
                (6, 0x01, _) => ("fin", to),
                (6, 0x00, _) => ("null", to),
                (6, 0x29, _) => ("xmas", to),
                (6, 0x11, _) => ("maimon", to),
                (6, 0x10, _) => ("ack", to),
                (6, ..) => ("other", to),
                (17, ..) => ("udp", to),
                (132, ..) => ("sctp", to),
                (1, _, "8") => ("echo", 0),
                (1, _, "13") => ("timestamp", 0),
                // Answers, errors, and ICMPv6 in IPv4 ask nothing.
                (1 | 58, ..) => continue,
                _ => ("ip", u16::from(protocol)),
            };
            // Each echo is a question, and each packet of another protocol a flow of its hosts.
            if !flows.insert((
                protocol,
                number * u16::from(kind == "ip"),
                source.clone().min(target.clone()),
                source.clone().max(target),
            )) {
                continue;
            }
            if kind == "syn" {
                syns.insert(flow, ());
            } else {
                theirs.add(&source.0, kind, fields[1], number);
            }
        }
        for (flow, ()) in syns {
            let kind = if connected.contains(&flow) { "connect" } else { "syn" };
            let ((source, _), (target, port)) = flow;
            theirs.add(&source, kind, &target, port);
        }
        theirs
    }

    fn add(&mut self, source: &str, kind: &'static str, target: &str, port: u16) {
        self.tried.entry((source.to_owned(), kind)).or_default().insert((target.to_owned(), port));
    }

    /// The rows of the lists: the distinct values by which a list is ranked, by its name and its key.
    fn rows(&self) -> BTreeMap<String, u64> {
        let mut sets: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for ((source, kind), tried) in &self.tried {
            let has_ports = !matches!(*kind, "arp" | "echo" | "timestamp");
            for (target, port) in tried {
                let mut add =
                    |row: String, value: &str| sets.entry(row).or_default().insert(value.to_owned());
                let number = if has_ports { port.to_string() } else { "null".to_owned() };
                add(format!("addresses {source} {kind}"), target);
                add(format!("horizontal {source} {number} {kind}"), target);
                if has_ports {
                    add(format!("ports {source} {kind}"), &number);
                    add(format!("vertical {source} {target} {kind}"), &number);
                }
            }
        }
        sets.into_iter().map(|(row, values)| (row, values.len() as u64)).collect()
    }
}

const CONFIG: &str = "interval = \"30s\"\n\
    [[subscription]]\nname = \"addresses\"\nlevel = \"flow\"\nchain = [\"fanout by addresses show 1000\"]\n\
    [[subscription]]\nname = \"ports\"\nlevel = \"flow\"\nchain = [\"fanout by ports show 1000\"]\n\
    [[subscription]]\nname = \"vertical\"\nlevel = \"flow\"\nchain = [\"fanout by vertical show 1000\"]\n\
    [[subscription]]\nname = \"horizontal\"\nlevel = \"flow\"\nchain = [\"fanout by horizontal show 1000\"]\n";

/// What Weir says of a capture.
struct Ours {
    lines: Vec<Value>,
    report: Vec<Value>,
}

impl Ours {
    /// Lists and events, equal for one worker and two.
    fn of(capture: &Path) -> Ours {
        let folder = tempfile::tempdir().unwrap();
        let config = put(folder.path(), "weir.toml", CONFIG.as_bytes());
        let store = folder.path().join("store");
        let say = |workers: &str, more: &[&str]| {
            let fixed = [text(capture), "-c", text(&config), "-j", "--memory", "1G", "--workers", workers];
            let mut lines = weir(fixed.iter().chain(more)).exits(0).json();
            lines.retain(|line| matches!(line["kind"].as_str(), Some("fanout" | "scans" | "event")));
            lines
        };
        let lines = say("1", &["-o", text(&store), "--log", "store"]);
        assert_eq!(say("2", &[]), lines, "{}: two workers", capture.display());
        let report = weir(["report", "--store", text(&store), "--hosts", "week", "--at", "2026-11-23", "-j"]);
        Ours { lines, report: report.exits(0).json() }
    }

    /// The rows of the lists, as [`Theirs::rows`].
    fn rows(&self) -> BTreeMap<String, u64> {
        let mut rows = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line["kind"] == "fanout") {
            let by = line["subscription"].as_str().unwrap();
            for row in line["fanout"].as_array().unwrap() {
                let word = |name: &str| row[name].as_str().unwrap();
                let (source, kind) = (word("source"), word("kind"));
                let (key, value) = match by {
                    "ports" => (format!("{source} {kind}"), "ports"),
                    "vertical" => (format!("{source} {} {kind}", word("target")), "ports"),
                    "horizontal" => (format!("{source} {} {kind}", row["port"]), "targets"),
                    _ => (format!("{source} {kind}"), "targets"),
                };
                // Of ARP, answers without a question are rows, too.
                if row["flows"] != 0 {
                    rows.insert(format!("{by} {key}"), row[value].as_u64().unwrap());
                }
            }
        }
        rows
    }

    /// The findings: kind, source, target or port, and the number of what failed.
    fn found(&self) -> BTreeMap<String, u64> {
        let events = self.lines.iter().filter(|line| line["kind"] == "event");
        let found = events.map(|event| {
            let of = if event["target"].is_null() {
                event["port"].to_string()
            } else {
                event["target"].as_str().unwrap().to_owned()
            };
            let name = format!(
                "{} {} {of}",
                event["event"].as_str().unwrap(),
                event["source"].as_str().unwrap_or("-")
            );
            (name, event["evidence"]["failed"].as_u64().unwrap_or(0))
        });
        found.collect()
    }

    /// Hosts and kinds that the report of hosts shows under SCANS.
    fn scans(&self) -> BTreeSet<String> {
        let mut scans = BTreeSet::new();
        for host in self.report.iter().filter(|line| line["kind"] == "host") {
            let lists = host["fanout"].as_array().map_or(&[][..], Vec::as_slice);
            for row in lists.iter().flat_map(|list| list["rows"].as_array().unwrap()) {
                if row["scan"] == true {
                    scans.insert(format!(
                        "{} {}",
                        host["host"].as_str().unwrap(),
                        row["kind"].as_str().unwrap()
                    ));
                }
            }
        }
        scans
    }
}

/// A scan, and what is to be said of it.
struct Case {
    name: &'static str,
    command: &'static str,
    /// Who scans, and the kinds of the scan.
    kinds: &'static [(&'static str, &'static str)],
    /// Whether `scans` finds it, as a scan of the target's ports: the others are in the lists and in the report.
    is_found: bool,
}

const fn case(name: &'static str, command: &'static str, kind: &'static str, is_found: bool) -> Case {
    let kinds: &[(&str, &str)] = match kind.as_bytes() {
        b"syn" => &[(SCANNER, "syn")],
        b"fin" => &[(SCANNER, "fin")],
        b"null" => &[(SCANNER, "null")],
        b"xmas" => &[(SCANNER, "xmas")],
        b"maimon" => &[(SCANNER, "maimon")],
        b"ack" => &[(SCANNER, "ack")],
        b"udp" => &[(SCANNER, "udp")],
        b"sctp" => &[(SCANNER, "sctp")],
        b"ip" => &[(SCANNER, "ip")],
        b"echo" => &[(SCANNER, "echo")],
        b"timestamp" => &[(SCANNER, "timestamp")],
        b"arp" => &[(SCANNER, "arp")],
        _ => &[(SCANNER, "syn"), ("10.77.2.31", "syn"), ("10.77.2.32", "syn")],
    };
    Case { name, command, kinds, is_found }
}

const CASES: [Case; 19] = [
    case("syn", "nmap -n -Pn --disable-arp-ping -sS -p 1-900 10.77.0.2", "syn", true),
    // Closed ports are sent what a SYN scan sends.
    case("connect", "nmap -n -Pn --disable-arp-ping -sT -p 1-900 10.77.0.2", "syn", true),
    case("fin", "nmap -n -Pn --disable-arp-ping -sF -p 1-900 10.77.0.2", "fin", true),
    case("null", "nmap -n -Pn --disable-arp-ping -sN -p 1-900 10.77.0.2", "null", true),
    case("xmas", "nmap -n -Pn --disable-arp-ping -sX -p 1-900 10.77.0.2", "xmas", true),
    case("maimon", "nmap -n -Pn --disable-arp-ping -sM -p 1-900 10.77.0.2", "maimon", true),
    case("ack", "nmap -n -Pn --disable-arp-ping -sA -p 1-900 10.77.0.2", "ack", false),
    // A window scan has the packets of an ACK scan: what differs is how nmap reads the answers.
    case("window", "nmap -n -Pn --disable-arp-ping -sW -p 1-900 10.77.0.2", "ack", false),
    case("udp", "nmap -n -Pn --disable-arp-ping -sU -p 1-100 10.77.0.2", "udp", false),
    case("sctp", "nmap -n -Pn --disable-arp-ping -sY -p 1-100 10.77.0.2", "sctp", false),
    case(
        "protocols",
        "nmap -n -Pn --disable-arp-ping -sO --max-retries 1 --min-rate 200 10.77.0.2",
        "ip",
        false,
    ),
    case("echo", "nmap -n -sn -PE 10.77.1.0/24", "echo", false),
    case("timestamp", "nmap -n -sn -PP 10.77.1.0/24", "timestamp", false),
    case("arp", "nmap -n -sn -PR 10.77.0.0/24", "arp", false),
    case("all ports", "nmap -n -Pn --disable-arp-ping -sS -p- 10.77.0.2", "syn", true),
    case(
        "decoys",
        "nmap -n -Pn --disable-arp-ping -sS -p 1-200 -D 10.77.2.31,10.77.2.32,ME 10.77.0.2",
        "decoys",
        true,
    ),
    case("slow", "nmap -n -Pn --disable-arp-ping -sS --scan-delay 20ms -p 1-60 10.77.0.2", "syn", true),
    case("horizontal", "nmap -n -Pn --disable-arp-ping -sS --max-retries 1 -p 445 10.77.1.0/24", "syn", true),
    case("block", "nmap -n -Pn --disable-arp-ping -sS --max-retries 0 -p 20-49 10.77.1.21-60", "syn", true),
];

/// The findings of a scan whose flows tshark has: by the ports of a host and by the hosts of a port, as `scans` has them.
fn findings(theirs: &Theirs, case: &Case) -> BTreeMap<String, u64> {
    let mut sweeps: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
    for (source, _) in case.kinds.iter().filter(|_| case.is_found) {
        let open = theirs.open.get(*source).cloned().unwrap_or_default();
        let refused = theirs.refused.get(*source).cloned().unwrap_or_default();
        let tried = theirs.tried.iter().filter(|((of, kind), _)| of == source && *kind != "arp");
        for ((_, kind), (target, port)) in tried.flat_map(|(of, tried)| tried.iter().map(move |to| (of, to)))
        {
            // What no flag says and nothing answers may be a cut header.
            if *kind == "null" && !refused.contains(&(target.clone(), *port)) {
                continue;
            }
            let is_open = usize::from(open.contains(&(target.clone(), *port)));
            let mut add =
                |sweep: String, value: String| sweeps.entry(sweep).or_default()[is_open].insert(value);
            add(format!("port_scan {source} {target}"), port.to_string());
            add(format!("address_scan {source} {port}"), target.clone());
        }
    }
    let count = |set: &BTreeSet<String>| set.len() as u64;
    let found =
        sweeps.iter().filter(|(_, [failed, open])| count(failed) >= 20 && count(failed) >= 4 * count(open));
    found.map(|(sweep, [failed, _])| (sweep.clone(), count(failed))).collect()
}

#[test]
fn scans_of_nmap_are_in_their_lists_with_exact_ports() {
    let Some(lab) = Lab::new("nmap", CASES.len()) else { return };
    let mut said = Vec::new();
    for case in &CASES {
        let name = case.name;
        // A probe each 24 s, for 24 minutes: the slow scan of half a day in a shorter one.
        let capture = moved(&lab.capture(name, case.command), if name == "slow" { 1_200 } else { 1 });
        let (theirs, ours) = (Theirs::of(&capture), Ours::of(&capture));
        let (expected, rows) = (theirs.rows(), ours.rows());
        // A list shows a thousand rows. All ports of a host, each in a row of its own, are more.
        let is_shown = |row: &str| !row.starts_with("horizontal") || expected.len() < 1_000;
        let of = |rows: &BTreeMap<String, u64>| {
            rows.clone().into_iter().filter(|(row, _)| is_shown(row)).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(of(&rows), of(&expected), "{name}");
        assert!(
            rows.keys().all(|row| !row.contains(&format!(" {TARGET} "))
                || row.starts_with("vertical")
                || row.ends_with(" arp")),
            "{name}"
        );
        let scans =
            case.kinds.iter().map(|(source, kind)| format!("{source} {kind}")).collect::<BTreeSet<_>>();
        assert_eq!(ours.scans(), scans, "{name}: the report");
        assert_eq!(ours.found(), findings(&theirs, case), "{name}: the findings");
        let tried: Vec<String> = scans
            .iter()
            .map(|scan| {
                let rank = |by: &str| rows.get(&format!("{by} {scan}")).copied().unwrap_or(0);
                format!("{scan} {} hosts {} ports", rank("addresses"), rank("ports"))
            })
            .collect();
        said.push(format!("{name}: {}; {} findings", tried.join(", "), ours.found().len()));
    }
    println!("{} scans of nmap:\n{}", CASES.len(), said.join("\n"));
}

/// Beyond 256 hosts their number is an estimate, with a standard error of 1.6 %. That of these addresses is equal in each run, as the hash
/// has no key.
#[test]
fn a_sweep_of_a_thousand_hosts_is_estimated() {
    let Some(lab) = Lab::new("nmap", 1) else { return };
    lab.net.ip(&lab.net.there, &["route", "add", "blackhole", "10.78.0.0/22"]);
    lab.net.ip(&lab.net.here, &["route", "add", "10.78.0.0/22", "via", TARGET]);
    let capture =
        moved(&lab.capture("wide", "nmap -n -sn -PE --max-retries 0 --min-rate 1000 10.78.0.0/22"), 1);
    let row = format!("addresses {SCANNER} echo");
    let (theirs, ours) = (Theirs::of(&capture).rows()[&row], Ours::of(&capture).rows()[&row]);
    println!("{theirs} hosts, {ours} shown");
    assert!(theirs > 1_000 && ours.abs_diff(theirs) * 100 <= theirs, "{ours} of {theirs}");
}

/// Floods of hping3: what tshark counts, its expression, and the finding.
const FLOODS: [(&str, &str, &str, &str); 3] = [
    (
        "syn",
        "hping3 -q -c 3000 -i u100 --rand-source -S -p 80 10.77.0.2",
        "tcp.flags == 2 and tcp.dstport == 80",
        "syn_flood",
    ),
    // With one source port: of datagrams from the port of a known server, the flow table takes the sender as the responder.
    (
        "udp",
        "hping3 -q -c 3000 -i u100 --rand-source --udp -k -s 40000 -p 9 10.77.0.2",
        "udp.dstport == 9",
        "udp_flood",
    ),
    ("icmp", "hping3 -q -c 3000 -i u100 --rand-source --icmp 10.77.0.2", "icmp.type == 8", "icmp_flood"),
];

#[test]
fn floods_of_hping3_are_found_with_their_packets_and_sources() {
    let Some(lab) = Lab::new("hping3", FLOODS.len()) else { return };
    for (kind, command, expression, event) in FLOODS {
        let capture = moved(&lab.capture(kind, command), 1);
        let only = format!("ip.dst == {TARGET} and {expression}");
        let lines = tshark::fields(&capture, &["-Y", &only, "-E", "occurrence=f"], &["ip.src"]);
        let sources = lines.lines().collect::<BTreeSet<_>>().len() as u64;
        let packets = lines.lines().count() as u64;
        assert!(packets > 2_000, "{kind}: {packets}");
        let config = put(
            lab.folder.path(),
            "floods.toml",
            b"[[subscription]]\nname = \"floods\"\nchain = [\"flood\"]\n",
        );
        let say = |workers: &str, config: &[&str]| {
            let fixed = [text(&capture), "-j", "--memory", "1G", "--workers", workers];
            let mut lines = weir(fixed.iter().chain(config)).exits(0).json();
            lines.retain(|line| matches!(line["kind"].as_str(), Some("flood" | "event")));
            lines
        };
        let with_list = ["-c", text(&config)];
        let list = say("1", &with_list);
        assert_eq!(say("2", &with_list), list, "{kind}: two workers");
        let rows = list
            .iter()
            .filter(|line| line["kind"] == "flood")
            .flat_map(|line| line["flood"].as_array().unwrap());
        let row = rows.clone().find(|row| row["kind"] == kind && row["destination"] == TARGET).unwrap();
        assert_eq!((&row["packets"], &row["answered"]), (&packets.into(), &0.into()), "{kind}");
        // Three standard errors of an estimate of the list, 1.6 %, and of one of a run, 4.6 %.
        let near = |value: &Value, percent: u64| {
            value.as_u64().unwrap().abs_diff(sources) * 100 <= sources * percent
        };
        assert!(near(&row["sources"], 5), "{kind}: {} of {sources}", row["sources"]);
        // A run finds it without a configuration, and nothing else.
        let events = say("1", &[]);
        assert_eq!(say("2", &[]), events, "{kind}: two workers");
        let [found] = &events[..] else { panic!("{kind}: {events:?}") };
        assert_eq!(
            (&found["event"], &found["target"], &found["count"]),
            (&event.into(), &TARGET.into(), &packets.into())
        );
        assert!(near(&found["evidence"]["sources"], 15), "{kind}: {found} of {sources}");
        println!(
            "{kind}: {packets} packets of {sources} sources; the list has {}, the run {}",
            row["sources"], found["evidence"]["sources"]
        );
    }
}
