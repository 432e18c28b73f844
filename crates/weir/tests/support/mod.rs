//! Runs the built program with a time limit, and finds or makes captures.

// Each test program uses only a part of this module.
#![allow(dead_code)]

pub mod aside;
pub mod checks;
pub mod configured;
pub mod http;
pub mod net;
pub mod random;
pub mod tshark;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weir_wire::{Packet, Tunnel, build, decode, further_frames};

/// A limit that only a hang reaches, even on a slow machine.
pub const HANGS: Duration = Duration::from_secs(600);

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// The result of a run.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("standard output is UTF-8")
    }

    /// Checks the exit code, and returns the run.
    #[track_caller]
    pub fn exits(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{}\n{}", String::from_utf8_lossy(&self.stdout), self.stderr);
        self
    }

    /// Checks that standard error contains the text, and returns the run.
    #[track_caller]
    pub fn says(self, text: &str) -> Ran {
        assert!(self.stderr.contains(text), "no {text:?} in:\n{}", self.stderr);
        self
    }

    /// Checks that standard output contains the text, and returns the run.
    #[track_caller]
    pub fn prints(self, text: &str) -> Ran {
        assert!(self.text().contains(text), "no {text:?} in:\n{}", self.text());
        self
    }

    /// Checks that standard error is empty, and returns the run.
    #[track_caller]
    pub fn quietly(self) -> Ran {
        assert_eq!(self.stderr, "");
        self
    }

    /// Each line of standard output as a JSON object.
    #[track_caller]
    pub fn json(&self) -> Vec<serde_json::Value> {
        objects(&self.text())
    }

    /// A number in the first line of `-j` of this kind.
    #[track_caller]
    pub fn fact(&self, kind: &str, field: &str) -> u64 {
        let lines = self.json();
        let line = lines.iter().find(|line| line["kind"] == kind).expect("a line of that kind");
        line[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {line}"))
    }
}

/// Each line as a JSON object.
#[track_caller]
pub fn objects(text: &str) -> Vec<serde_json::Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines()
        .map(|line| {
            let value: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(value.is_object(), "{line}");
            value
        })
        .collect()
}

/// A command for the program, without environment variables that change its output.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
    command
}

/// Runs the program with these arguments and an empty standard input.
#[track_caller]
pub fn weir<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ran {
    run(program().args(arguments).stdin(Stdio::null()))
}

/// Runs the program with these words as arguments.
#[track_caller]
pub fn words(line: &str) -> Ran {
    weir(line.split_whitespace())
}

/// Runs the program on these bytes as standard input.
#[track_caller]
pub fn weir_reads<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, input: Vec<u8>) -> Ran {
    let mut child = start(program().args(arguments).stdin(Stdio::piped()));
    let mut to = child.stdin.take().expect("piped");
    // The program may stop reading early, which is not an error here.
    let writer = thread::spawn(move || to.write_all(&input).is_ok());
    let ran = finish(child);
    let _ = writer.join();
    ran
}

/// Runs a command to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    finish(start(command))
}

/// Starts a command whose output is kept.
pub fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Waits for a started command. If it hangs, it is killed and the test fails.
#[track_caller]
pub fn finish(mut child: Child) -> Ran {
    let stdout = child.stdout.take().map(|pipe| thread::spawn(move || read(pipe)));
    let stderr = child.stderr.take().map(|pipe| thread::spawn(move || read(pipe)));
    let code = wait(&mut child).unwrap_or_else(|| {
        let _ = child.kill();
        panic!("the program hangs: {child:?}");
    });
    let bytes = |thread: Option<thread::JoinHandle<Vec<u8>>>| {
        thread.map(|thread| thread.join().expect("reads")).unwrap_or_default()
    };
    let stderr = String::from_utf8_lossy(&bytes(stderr)).into_owned();
    Ran { code, stdout: bytes(stdout), stderr }
}

/// Waits for the end of a process. Returns the exit code; `None` after a timeout.
pub fn wait(child: &mut Child) -> Option<Option<i32>> {
    let end = Instant::now() + HANGS;
    let mut pause = Duration::from_micros(500);
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("waits") {
            return Some(status.code());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    None
}

fn read(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    bytes
}

/// A pipe that stays full, and its reading end, which is not read.
pub fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut filler = writer.try_clone().expect("another end");
    // The thread ends when the reading end is closed.
    thread::spawn(move || filler.write_all(&vec![b'\n'; 2 << 20]));
    thread::sleep(Duration::from_millis(300));
    (reader, writer)
}

/// Sends a signal, by name, to a process.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.expect("kill(1) runs").success());
}

/// Waits until a process has a handler for a signal, by number. Before that, the signal kills the process.
#[track_caller]
pub fn handles(child: &Child, signal: u32) {
    let path = format!("/proc/{}/status", child.id());
    let mask = || {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let line =
            status.lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim).map(str::to_owned));
        line.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or(0)
    };
    assert!(eventually(|| mask() >> (signal - 1) & 1 == 1), "no handler for signal {signal}");
}

/// Waits until a condition holds; false after a timeout.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + HANGS;
    while Instant::now() < end {
        if holds() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Whether this runs as root.
pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t0\t")))
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// The capture that the repository ships.
pub fn sample() -> PathBuf {
    root().join("testdata/sample/sample.pcap")
}

/// The captures of the repository, and those of other projects if present, in name order.
pub fn captures() -> Vec<PathBuf> {
    let shared = root().join("../shared/data");
    if !shared.is_dir() {
        println!("skipped: ../shared/data is absent");
    }
    let mut found = Vec::new();
    for folder in [root().join("testdata"), root().join("../shared/breadth"), shared] {
        walk(&folder, &mut found);
    }
    found.sort();
    found
}

/// Whether a capture has at most a megabyte.
pub fn is_small(capture: &Path) -> bool {
    capture.metadata().is_ok_and(|data| data.len() <= 1_000_000)
}

/// Whether packets carry no others, in tunnels or in frames.
pub fn carry_none<'a>(mut packets: impl Iterator<Item = Packet<'a>>) -> bool {
    packets.all(|packet| decode(&packet).tunnel == Tunnel::None && further_frames(&packet).next().is_none())
}

/// The number of captures for which [`diverse`] takes as many as it is asked for. It is constant, so that a new capture
/// does not change which others are taken.
const CAPTURES: u64 = 1_680;

/// A diverse selection of about `n` captures, by a hash of their names, equal in every run and in every checkout: the sample first.
pub fn diverse(n: usize) -> Vec<PathBuf> {
    let is_taken = |path: &PathBuf| {
        let name = path.strip_prefix(root()).unwrap_or(path);
        aside::hash(&name.to_string_lossy()) / 3 % CAPTURES < n as u64
    };
    let chosen = captures().into_iter().filter(|path| *path != sample() && is_taken(path));
    std::iter::once(sample()).chain(chosen).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        } else if starts_as_capture(&path) {
            found.push(path);
        }
    }
}

fn starts_as_capture(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    let packed = path.to_string_lossy().ends_with("cap.gz") && head.starts_with(&[0x1f, 0x8b]);
    let magics =
        [0xa1b2_c3d4_u32, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1, 0xa1b2_cd34, 0x34cd_b2a1, 0x0a0d_0d0a];
    read.is_ok() && (packed || magics.contains(&u32::from_be_bytes(head)))
}

/// A classic pcap file, with microseconds, of packets with their times in nanoseconds.
pub fn pcap(link: u32, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, link] {
        file.extend(word.to_le_bytes());
    }
    for (time, data) in packets {
        file.extend(record(*time, data));
    }
    file
}

/// A record of a pcap file with microseconds.
pub fn record(time: u64, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    let micros = (time % SECOND / 1000) as u32;
    let words = [(time / SECOND) as u32, micros, length, length];
    words.iter().flat_map(|word| word.to_le_bytes()).chain(data.iter().copied()).collect()
}

/// A block of a pcapng file.
pub fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = (12 + body.len() + padding) as u32;
    let mut bytes = [kind.to_le_bytes(), length.to_le_bytes()].concat();
    bytes.extend(body);
    bytes.resize(bytes.len() + padding, 0);
    bytes.extend(length.to_le_bytes());
    bytes
}

/// The section header of a pcapng file.
pub fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat())
}

/// An interface of a pcapng file.
pub fn interface(link: u16) -> Vec<u8> {
    block(1, &[&link.to_le_bytes()[..], &[0; 6]].concat())
}

/// A packet of a pcapng file, in microseconds.
pub fn enhanced(interface: u32, time: u64, data: &[u8]) -> Vec<u8> {
    let micros = time / 1000;
    let words = [interface, (micros >> 32) as u32, micros as u32, data.len() as u32, data.len() as u32];
    block(6, &[&words.map(u32::to_le_bytes).concat()[..], data].concat())
}

/// A small conversation over DNS and HTTP in Ethernet frames, with a packet each millisecond from `start` on.
pub fn conversation(start: u64) -> Vec<(u64, Vec<u8>)> {
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let there = || build::ethernet().ipv4(client, server);
    let back = || build::ethernet().ipv4(server, client);
    let (syn, ack) = (build::flags::SYN, build::flags::ACK);
    let frames = [
        there().udp(5353, 53).payload(&[7; 30]),
        back().udp(53, 5353).payload(&[8; 60]),
        there().tcp(40_000, 80, syn).seq(100).payload(&[]),
        back().tcp(80, 40_000, syn | ack).seq(500).ack(101).payload(&[]),
        there().tcp(40_000, 80, ack).seq(101).ack(501).payload(b"GET / HTTP/1.0\r\n\r\n"),
        back().tcp(80, 40_000, ack).seq(501).ack(119).payload(b"HTTP/1.0 200 OK\r\n\r\nhello"),
    ];
    frames.into_iter().zip(0..).map(|(frame, n)| (start + n * SECOND / 1000, frame)).collect()
}

/// Writes a file into a folder.
pub fn put(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("the file is written");
    path
}

/// Writes a file that only its owner can read, regardless of the umask.
pub fn put_private(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = put(folder, name, bytes);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("its mode is set");
    path
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}
