//! Every kind of end of a chain on a link: subscriptions with a packet file, a log, a directory and events are added to a
//! configuration one after the other and removed again. Needs root and ip(8); otherwise the test is skipped, with the reason.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::Duration;
use support::configured::{Configured, contents, rows};
use support::*;

/// The server at the far end.
const SERVER: &str = "10.77.0.2";
/// Questions of a visit.
const QUESTIONS: usize = 20;
/// The first port of the client's connections to the FTP server; the number of the visit is added.
const FTP_PORTS: u16 = 20_000;

/// Answers everything that [`visitor`] asks: no name exists, no password is right, and each file is a program.
#[test]
#[ignore = "run by the other test, in a namespace"]
fn server() {
    if std::env::var("WEIR_SERVER").is_err() {
        return;
    }
    let names = UdpSocket::bind((SERVER, 53)).unwrap();
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, client)) = names.recv_from(&mut question) {
            // A response, recursion available, NXDOMAIN (RFC 1035, section 4.1.1).
            question[2..4].copy_from_slice(&[0x81, 0x83]);
            names.send_to(&question[..length], client).unwrap();
        }
    });
    let files = TcpListener::bind((SERVER, 80)).unwrap();
    thread::spawn(move || {
        for stream in files.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut request = String::new();
            stream.read_line(&mut request).unwrap();
            let body = program(request.split_whitespace().nth(1).unwrap());
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            stream.get_mut().write_all(&[head.as_bytes(), &body].concat()).unwrap();
        }
    });
    for stream in TcpListener::bind((SERVER, 21)).unwrap().incoming() {
        let mut stream = BufReader::new(stream.unwrap());
        stream.get_mut().write_all(b"220 ready\r\n").unwrap();
        let mut command = String::new();
        while stream.read_line(&mut command).is_ok_and(|length| length > 0) {
            let reply = if command.starts_with("PASS") { "530 wrong\r\n" } else { "331 password\r\n" };
            stream.get_mut().write_all(reply.as_bytes()).unwrap();
            command.clear();
        }
    }
}

/// The content of a file of the server: a program for DOS, with its path.
fn program(path: &str) -> Vec<u8> {
    [b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0", path.as_bytes()].concat()
}

/// Visits the server, with the number of the visit in WEIR_VISIT: questions about names, a log-in, and a file.
#[test]
#[ignore = "run by the other test, in a namespace"]
fn visitor() {
    let Ok(visit) = std::env::var("WEIR_VISIT") else { return };
    let names = UdpSocket::bind(("10.77.0.1", 0)).unwrap();
    names.connect((SERVER, 53)).unwrap();
    for number in 0..QUESTIONS {
        let name = format!("n{number}-of-{visit}");
        let mut question = vec![0, number as u8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8];
        question.extend(name.as_bytes());
        question.extend(b"\x04test\0\0\x01\0\x01");
        names.send(&question).unwrap();
        names.recv(&mut [0; 512]).unwrap();
    }
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let port = FTP_PORTS + visit.parse::<u16>().unwrap();
    let at = |address: &str, port: u16| SocketAddr::new(address.parse().unwrap(), port).into();
    socket.bind(&at("10.77.0.1", port)).unwrap();
    socket.connect(&at(SERVER, 21)).unwrap();
    let mut stream = BufReader::new(TcpStream::from(socket));
    let mut reply = String::new();
    for command in [&b"USER eve\r\n"[..], b"PASS guess\r\n"] {
        stream.read_line(&mut reply).unwrap();
        stream.get_mut().write_all(command).unwrap();
    }
    stream.read_line(&mut reply).unwrap();
    assert!(reply.ends_with("530 wrong\r\n"), "{reply}");
    // It is slow.
    thread::sleep(Duration::from_millis(600));
    drop(stream);
    let mut stream = TcpStream::connect((SERVER, 80)).unwrap();
    let path = format!("/program-{visit}.exe");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: www.test\r\n\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&program(&path)));
}

/// The subscriptions, in the order in which they are added and removed.
const SUBSCRIPTIONS: [&str; 5] = [
    "name = \"names\"\nlevel = \"packet\"\nwhere = \"port 53 and net 10.77.0.0/24\"\n\
     chain = [\"sample 1\", \"write names.pcapng rotate 1h files 24 snaplen 128\"]\n",
    "name = \"failed log-ins\"\nlevel = \"record\"\nwhere = 'ftp_command.codes = 530 or ssh.auth_success = F'\n\
     chain = [\"log failed format ndjson\", \"write failed.pcapng of flow before 64\"]\n",
    "name = \"slow transfers\"\nlevel = \"flow\"\nwhere = 'port 21 and flow.duration > 0.5 and flow.bytes < 10k'\n\
     chain = [\"log slow format csv\", \"event slow-transfer severity low\"]\n",
    "name = \"noisy clients\"\nlevel = \"record\"\nwhere = 'dns.rcode_name = NXDOMAIN'\ninterval = \"1s\"\n\
     chain = [\"top source by distinct dns.query show 20\", \"event noisy-client above 5\"]\n",
    "name = \"executables\"\nlevel = \"record\"\nwhere = 'files.mime_type contains \"dosexec\"'\n\
     chain = [\"extract to quarantine each 10M total 1G\", \"event executable\"]\n",
];

/// The visits while the subscription at a place is there: one after each change.
fn visits(place: usize) -> std::ops::RangeInclusive<usize> {
    place + 1..=place + SUBSCRIPTIONS.len()
}

fn run_with(workers: &str) -> Option<()> {
    let head = "[output]\ndir = \"LOGS\"\nlog = [\"csv:dns+event\"]\n";
    let run = Configured::begin(head, &["-v", "--interval", "1", "--workers", workers])?;
    run.net.ip(&run.net.there, &["address", "add", "10.77.0.2/24", "dev", "far"]);
    let mut served = start(run.net.test(&run.net.there, "server").env("WEIR_SERVER", "1"));
    let is_there = |port: &str| {
        let mut command = run.net.inside(&run.net.there, "ss");
        let listening = command.args(["-Hltn", &format!("sport = :{port}")]).output().unwrap();
        !listening.stdout.is_empty()
    };
    assert!(eventually(|| is_there("21") && is_there("80")), "the server does not listen");
    let visit = |number: usize| {
        let mut visitor = run.net.test(&run.net.here, "visitor");
        support::run(visitor.env("WEIR_VISIT", number.to_string())).exits(0);
        let last = format!("n{}-of-{number}.test", QUESTIONS - 1);
        assert!(eventually(|| run.log("dns.csv").contains(&last)), "{last}: {}", run.errors());
    };
    visit(0);
    for change in 1..=2 * SUBSCRIPTIONS.len() {
        let there: Vec<usize> =
            (0..SUBSCRIPTIONS.len()).filter(|place| visits(*place).contains(&change)).collect();
        if change == visits(2).end() + 1 {
            // Flows end some time after their last packet.
            let slow = format!(",{},{SERVER},21,", usize::from(FTP_PORTS) + visits(2).end());
            assert!(eventually(|| run.log("slow.csv").contains(&slow)), "{}", run.errors());
        }
        let each = |place: &usize| format!("[[subscription]]\n{}", SUBSCRIPTIONS[*place]);
        run.apply(
            &(head.to_owned() + &there.iter().map(each).collect::<String>()),
            &["weir.toml: configuration applied: "],
        );
        visit(change);
    }
    served.kill().unwrap();
    wait(&mut served).unwrap();
    let (folder, ran) = run.end();
    check(&folder.path().join("logs"), &ran.text(), workers);
    Some(())
}

/// The numbers of a row of the destinations of a run: offered, written, shed, lost, limited, missing, and bytes if any.
fn destination(summary: &str, name: &str) -> Vec<u64> {
    let all = summary.split("\nDestinations\n").nth(1).unwrap_or_else(|| panic!("{summary}"));
    let row = all.lines().find(|line| line.split_whitespace().next() == Some(name));
    let row = row.unwrap_or_else(|| panic!("no row of {name}: {all}"));
    row.split_whitespace().skip(1).filter_map(|word| word.replace(',', "").parse().ok()).collect()
}

fn check(logs: &Path, summary: &str, workers: &str) {
    let on = |place: usize| visits(place).collect::<BTreeSet<usize>>();
    let each = SUBSCRIPTIONS.len() as u64;
    let is_whole = |name: &str, offered: u64| {
        let row = destination(summary, name);
        assert_eq!(row[..6], [offered, offered, 0, 0, 0, 0], "{name}, {workers} workers");
    };
    // Packets: the questions and answers of five visits.
    let names = contents(logs, "names-", ".pcapng");
    let questions = 2 * QUESTIONS as u64 * each;
    is_whole("names.pcapng", questions);
    let count = |name: &str, bytes: &[u8]| {
        let file = put(logs, name, bytes);
        weir([text(&file), "-j"]).exits(0)
    };
    assert_eq!(count("all-names.pcapng", &names).fact("ledger", "caught"), questions);
    // Records, and the whole flows of the same.
    let failed = objects(&rows(logs, "failed.", "ndjson"));
    let ports = |port: &serde_json::Value| port.as_u64().unwrap() as usize - usize::from(FTP_PORTS);
    let seen: BTreeSet<usize> = failed.iter().map(|row| ports(&row["source_port"])).collect();
    assert_eq!((failed.len(), &seen), (on(1).len(), &on(1)), "{workers} workers");
    is_whole("failed.ndjson", each);
    let flows = contents(logs, "failed.", ".pcapng");
    let counted = count("all-failed.pcapng", &flows);
    assert_eq!(counted.fact("flows", "created"), each, "{workers} workers");
    is_whole("failed.pcapng", counted.fact("ledger", "caught"));
    // Flows. Those that had ended for their hosts before the subscription was there may end for the program later.
    let slow = rows(logs, "slow.", "csv");
    let slow: BTreeSet<usize> = slow
        .lines()
        .filter_map(|row| row.split(',').nth(9)?.parse().ok())
        .map(|port: usize| port - usize::from(FTP_PORTS))
        .collect();
    let all: BTreeSet<usize> = (0..=*visits(2).end()).collect();
    assert!(slow.is_superset(&on(2)) && slow.is_subset(&all), "{slow:?}, {workers} workers");
    is_whole("slow.csv", slow.len() as u64);
    // Files.
    let kept: BTreeSet<Vec<u8>> = fs::read_dir(logs.join("quarantine"))
        .unwrap()
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    let programs: BTreeSet<Vec<u8>> =
        on(4).iter().map(|visit| program(&format!("/program-{visit}.exe"))).collect();
    assert_eq!(kept, programs, "{workers} workers");
    is_whole("quarantine", each);
    // Events.
    let events = rows(logs, "events.", "csv");
    for name in ["slow-transfer", "noisy-client", "executable"] {
        assert!(events.contains(name), "{name}, {workers} workers: {events}");
    }
}

#[test]
fn every_end_of_a_chain_is_added_and_removed_on_a_link() {
    for workers in ["1", "2"] {
        if run_with(workers).is_none() {
            return;
        }
    }
}
