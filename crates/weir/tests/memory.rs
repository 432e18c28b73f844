//! `--memory` limits the memory of a run beyond that of the program itself, under generated floods, each of which
//! fills another table. All logs are on, so that rows reach every output.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use std::time::Duration;
use support::http::{Server, port};
use support::{Ran, finish, program, run, sample, start, text, weir};
use tempfile::tempdir;
use weir_wire::build::flags::{ACK, PSH, SYN};
use weir_wire::build::{self, Builder};

/// Limit of all tables together, in MiB.
const MEMORY: u64 = 64;
const LOGS: &str = "zeek,zeek-json,eve,csv,ndjson,text,prometheus,mon,store";
const SERVER: [u8; 4] = [192, 0, 2, 1];

/// A capture that is written packet by packet, at intervals of ten microseconds.
struct Capture {
    to: BufWriter<File>,
    time: u64,
}

impl Capture {
    fn new(path: &Path) -> Self {
        let mut to = BufWriter::new(File::create(path).unwrap());
        to.write_all(&support::pcap(1, &[])).unwrap();
        Self { to, time: 1_700_000_000_000_000 }
    }

    fn put(&mut self, frame: &[u8]) {
        self.time += 10;
        let length = frame.len() as u32;
        let head = [(self.time / 1_000_000) as u32, (self.time % 1_000_000) as u32, length, length];
        head.iter().for_each(|number| self.to.write_all(&number.to_le_bytes()).unwrap());
        self.to.write_all(frame).unwrap();
    }
}

fn ip(from: [u8; 4], to: [u8; 4]) -> Builder {
    build::ethernet().ipv4(from, to)
}

/// Address and port of a client.
fn client(n: u32) -> ([u8; 4], u16) {
    let [_, b, c, d] = n.to_be_bytes();
    ([10, b, c, d], 1024 + (n % 60_000) as u16)
}

/// TCP streams without an answer. Each has some bytes, but not the first ones, so that they have to wait.
fn half_open(to: &mut Capture, streams: u32) {
    let segment = |n: u32, flags: u8, seq: u32, data: &[u8]| {
        let (address, port) = client(n);
        ip(address, SERVER).tcp(port, 80, flags).seq(seq).payload(data)
    };
    for n in 0..streams {
        to.put(&segment(n, SYN, 1000, b""));
    }
    for n in 0..streams {
        to.put(&segment(n, PSH | ACK, 7000, &[b'x'; 200]));
    }
}

/// HTTP requests without an answer, each in a separate stream.
fn unanswered(to: &mut Capture, requests: u32) {
    let agent = "u".repeat(600);
    for n in 0..requests {
        let (address, port) = client(n);
        let request = format!("GET /{n} HTTP/1.1\r\nHost: example.com\r\nUser-Agent: {agent}\r\n\r\n");
        to.put(&ip(address, SERVER).tcp(port, 80, SYN).seq(1000).payload(b""));
        to.put(&ip(address, SERVER).tcp(port, 80, PSH | ACK).seq(1001).payload(request.as_bytes()));
    }
}

/// Fragments of packets without their first fragment.
fn fragments(to: &mut Capture, packets: u32) {
    for n in 0..packets {
        let (address, _) = client(n >> 16);
        let mut frame = ip(address, SERVER).udp(1, 2).payload(&[b'f'; 800]);
        // The identification, then the flag for more fragments and an offset (RFC 791 3.1).
        frame[18..20].copy_from_slice(&(n as u16).to_be_bytes());
        frame[20..22].copy_from_slice(&(0x2000_u16 | 100).to_be_bytes());
        to.put(&frame);
    }
}

/// Queries for different names, with their answers.
fn names(to: &mut Capture, names: u32) {
    for n in 0..names {
        let (address, _) = client(n % 5000);
        let name = format!("host-{n:07}-{}", "x".repeat(30));
        let mut question = vec![name.len() as u8];
        question.extend(name.as_bytes());
        question.extend(b"\x07example\x03com\0\0\x01\0\x01");
        let message = |flags: u16, answers: u16| {
            let head = [n as u16, flags, 1, answers, 0, 0].map(u16::to_be_bytes).concat();
            [head, question.clone()].concat()
        };
        to.put(&ip(address, SERVER).udp(5353 + 1, 53).payload(&message(0x100, 0)));
        let mut answer = message(0x8180, 1);
        answer.extend(b"\xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04");
        answer.extend([198, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        to.put(&ip(SERVER, address).udp(53, 5353 + 1).payload(&answer));
    }
}

/// Datagrams between hosts that occur only once, each of which is a flow.
fn strangers(to: &mut Capture, datagrams: u32) {
    for n in 0..datagrams {
        let mixed = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
        let port = (n >> 4) as u16 | 1;
        to.put(&ip(mixed, [100, mixed[3], mixed[1], mixed[2]]).udp(port, port ^ 0x5555).payload(b"hello"));
    }
}

/// Runs the program. Returns its peak resident memory in bytes too.
fn peak(arguments: &[&str]) -> (Ran, u64) {
    let child = start(program().args(arguments).stdin(Stdio::null()));
    let status = format!("/proc/{}/status", child.id());
    let (send, stop) = channel::<()>();
    let watcher = thread::spawn(move || {
        let mut max = 0;
        while stop.try_recv() == Err(TryRecvError::Empty) {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            max = max.max(kib.unwrap_or(0) << 10);
            thread::sleep(Duration::from_millis(2));
        }
        max
    });
    let ran = finish(child);
    drop(send);
    (ran, watcher.join().unwrap())
}

/// Runs with all logs over a capture. Returns the peak memory.
fn flooded(folder: &Path, capture: &Path, memory: u64, more: &[&str]) -> (Ran, u64) {
    let (logs, memory) = (folder.join("logs"), format!("{memory}M"));
    let fixed =
        ["-v", "--memory", &memory, "--workers", "2", "--log", LOGS, "-o", text(&logs), text(capture)];
    let (ran, peak) = peak(&[&fixed, more].concat());
    fs::remove_dir_all(&logs).unwrap();
    (ran.exits(0), peak)
}

/// Memory of the program itself: a run over one packet.
fn idle(folder: &Path) -> u64 {
    let path = folder.join("one.pcap");
    strangers(&mut Capture::new(&path), 1);
    flooded(folder, &path, MEMORY, &[]).1
}

fn flood(make: fn(&mut Capture, u32), number: u32, memory: u64, more: &[&str], says: &[&str]) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("flood.pcap");
    make(&mut Capture::new(&path), number);
    let program = idle(folder.path());
    let (ran, peak) = flooded(folder.path(), &path, memory, more);
    println!("{} KiB at most; {} KiB without traffic", peak >> 10, program >> 10);
    says.iter().fold(ran, |ran, text| ran.prints(text));
    assert!(peak <= (memory << 20) + program, "{peak} bytes with, {program} without traffic");
}

#[test]
fn half_open_streams_stay_within_the_memory() {
    flood(half_open, 200_000, MEMORY, &[], &["Memory", "streams"]);
}

#[test]
fn unanswered_requests_stay_within_the_memory() {
    flood(unanswered, 100_000, MEMORY, &[], &["skipped: out of memory"]);
}

#[test]
fn fragments_without_a_first_one_stay_within_the_memory() {
    flood(fragments, 200_000, MEMORY, &[], &["dropped: out of memory"]);
}

#[test]
fn half_a_million_names_stay_within_the_memory() {
    flood(names, 500_000, MEMORY, &[], &["names"]);
}

#[test]
fn hosts_that_occur_once_stay_within_the_memory() {
    flood(strangers, 200_000, MEMORY, &[], &["evicted: table full"]);
}

/// The most resident memory of a process so far, in bytes.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Eight downloads of every flow at once, in each form: all are whole, others are answered meanwhile, and the rows are never in memory
/// together.
#[test]
fn downloads_of_many_rows_stay_within_the_memory() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("flood.pcap");
    strangers(&mut Capture::new(&path), 25_000);
    let program_alone = idle(folder.path());
    let memory = "128M";
    let server = Server::start(program().args([
        "open",
        text(&path),
        "--port",
        &port().to_string(),
        "--memory",
        memory,
        "--workers",
        "1",
    ]));
    let before = resident(server.child.id());
    let all = server.json("/api/v1/flows?limit=1")["matched"].as_u64().unwrap();
    assert!(all >= 25_000, "{all}");
    let size = |form: &str| {
        // A client has two places: its other downloads wait, or are to be tried again.
        let answer = loop {
            let answer = server.get(&format!("/api/v1/flows?limit=100000&sort=-bytes{form}"));
            if answer.status != 503 {
                break answer.is(200);
            }
            assert_eq!(answer.headers["retry-after"], "5");
        };
        let rows = match form {
            "" => answer.json()["rows"].as_array().unwrap().len(),
            "&format=csv" => answer.text().lines().count() - 1,
            _ => answer.text().lines().count(),
        };
        assert_eq!(rows as u64, all, "{form}");
        answer.body.len()
    };
    let forms = ["&format=csv", "&format=ndjson", ""];
    let sizes = forms.map(size);
    thread::scope(|scope| {
        let downloads: Vec<_> = (0..8).map(|n| scope.spawn(move || (n % 3, size(forms[n % 3])))).collect();
        for _ in 0..4 {
            server.get("/api/v1/status").is(200);
            server.get("/api/v1/flows/none").is(404);
        }
        for (form, length) in downloads.into_iter().map(|download| download.join().unwrap()) {
            assert_eq!(length, sizes[form], "{}", forms[form]);
        }
    });
    let after = resident(server.child.id());
    println!("{} KiB before, {} KiB after downloads of {sizes:?} bytes", before >> 10, after >> 10);
    assert!(after <= (128 << 20) + program_alone, "{after} bytes with, {program_alone} without traffic");
    assert!(after <= before.max(64 << 20) + (24 << 20), "{before} bytes before, {after} after the downloads");
}

/// A configuration with a chart of `lines` lines.
fn chart(folder: &Path, lines: usize) -> PathBuf {
    let line = |n: usize| {
        format!(
            "{{ name = \"line {n}\", expression = \"net 10.{}.{}.0/24 and tcp port {}\" }},\n",
            n / 250 % 250,
            n % 250,
            n % 60_000 + 1
        )
    };
    let lines: String = (0..lines).map(line).collect();
    let path = folder.join("weir.toml");
    fs::write(&path, format!("[[chart]]\nname = \"chart\"\nlines = [\n{lines}]\n")).unwrap();
    path
}

#[test]
fn ten_thousand_lines_of_a_chart_stay_within_the_memory() {
    let folder = tempdir().unwrap();
    let path = chart(folder.path(), 10_000);
    flood(half_open, 20_000, 128, &["--config", text(&path)], &["lists"]);
}

#[test]
fn lists_that_leave_no_memory_for_packets_are_refused() {
    let folder = tempdir().unwrap();
    let (capture, path) = (folder.path().join("one.pcap"), folder.path().join("weir.toml"));
    strangers(&mut Capture::new(&capture), 1);
    let top = "[[subscription]]\nname = \"all\"\nfunctions = [{ top = \"source\", rows = 1000000 }]\n";
    fs::write(&path, top).unwrap();
    let with = |memory: &str| weir([text(&capture), "--config", text(&path), "--memory", memory]);
    with("64M").exits(1).says("charts and lists take").says("--memory");
    with("2G").exits(0);
}

/// A limit on addresses ends no run in the middle: it works, or an error names the option.
#[test]
fn a_limit_on_addresses_is_an_error_that_names_the_option() {
    let limited = |kib: u32, more: &str| {
        let line = format!("ulimit -v {kib}; exec \"$0\" \"$1\" {more}");
        run(Command::new("sh").args(["-c", &line, env!("CARGO_BIN_EXE_weir"), text(&sample())]))
    };
    for workers in [1, 3] {
        let with = |memory: &str| format!("--workers {workers} --memory {memory}");
        limited(300_000, &format!("--workers {workers}"))
            .exits(1)
            .says("512M of it for --memory: use a smaller --memory");
        limited(600_000, &with("1G")).exits(1).says("1024M of it for --memory: use a smaller --memory");
        limited(3_000_000, &with("512M")).exits(0).prints("LOSS");
        // From limits that the program itself needs up to those that suffice.
        for kib in (280_000..900_000).step_by(60_000) {
            for memory in ["64M", "256M", "512M"] {
                let ran = limited(kib, &with(memory));
                match ran.code {
                    Some(1) => drop(ran.says("use a smaller --memory")),
                    _ => drop(ran.exits(0).prints("LOSS")),
                }
            }
        }
        limited(500_000, &with("64M")).exits(0).prints("LOSS");
    }
}
