//! Bad input: clear errors, correct exit codes, and results for the readable part.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::*;

const START: u64 = 1_700_000_000 * SECOND;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs over these bytes.
fn read(bytes: &[u8]) -> Ran {
    weir_reads(["-", "-j", "--memory", "16M", "--workers", "1"], bytes.to_vec())
}

#[test]
fn an_empty_file_is_not_a_capture() {
    let folder = folder();
    let path = put(folder.path(), "empty.pcap", b"");
    weir([&path])
        .exits(2)
        .says("empty.pcap: empty (0 bytes); expected a pcap or pcapng file header")
        .prints("");
    weir([Path::new("count"), &path, Path::new("-e"), Path::new("tcp")]).exits(2).says("empty (0 bytes)");
    read(b"").exits(2).says("-: empty");
}

#[test]
fn a_capture_without_packets_is_valid() {
    let classic = read(&pcap(1, &[])).exits(0).quietly();
    assert_eq!(classic.fact("ledger", "caught"), 0);
    read(&section()).exits(0).quietly();
    read(&[section(), interface(1)].concat()).exits(0).quietly();
    weir_reads(["-"], pcap(1, &[])).exits(0).quietly().prints("0 packets");
}

#[test]
fn the_error_for_other_files_has_their_first_bytes() {
    for bytes in [&b"hello, world\n"[..], &[0; 4096], b"\x7fELF\x02\x01\x01", b"{}", &[0xff; 100]] {
        let ran = read(bytes).exits(2).says("not a capture: starts with ").says("expected pcap (a1b2c3d4");
        assert_eq!(ran.stdout, b"");
    }
    let packed = gzip(&mut std::iter::once(b"hello".to_vec()));
    read(&packed).exits(2).says("not a capture: starts with 68656c6c6f");
}

/// Truncates a file at every byte, and checks the number of whole packets and the exit code.
fn truncated_everywhere(file: &[u8], ends: &[usize], header: usize) {
    let last = *ends.last().unwrap();
    assert_eq!(file.len(), last);
    let mut cases = 0;
    for cut in 0..=file.len() {
        let ran = read(&file[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
        let expected = match cut {
            0..4 => &[2][..],
            _ if cut < header => &[2, 3],
            _ if cut == header || ends.contains(&cut) => &[0],
            _ => &[3],
        };
        let code = ran.code.unwrap();
        assert!(expected.contains(&code), "cut at {cut}: {code}, not one of {expected:?}\n{}", ran.stderr);
        if cut > header {
            assert_eq!(ran.fact("ledger", "caught"), whole, "cut at {cut}");
            assert_eq!(ran.fact("ledger", "analysed"), whole, "cut at {cut}");
        }
        if code == 3 && cut > header {
            ran.says("-: truncated at byte ").says(&format!(", after {whole} packets: "));
        }
        cases += 1;
    }
    println!("truncated at {cases} places");
}

#[test]
fn a_pcap_truncated_at_any_byte_gives_its_whole_packets() {
    let packets = &conversation(START)[2..5];
    let mut ends = Vec::new();
    for n in 1..=packets.len() {
        ends.push(pcap(1, &packets[..n]).len());
    }
    truncated_everywhere(&pcap(1, packets), &ends, 24);
}

#[test]
fn a_pcapng_truncated_at_any_byte_gives_its_whole_packets() {
    let mut file = [section(), interface(1)].concat();
    let (header, mut ends) = (file.len(), Vec::new());
    for (time, data) in &conversation(START)[2..4] {
        file.extend(enhanced(0, *time, data));
        ends.push(file.len());
    }
    let after_section = section().len();
    assert_eq!(read(&file[..after_section]).code, Some(0), "a section alone is whole");
    // Between the section header and the end of the interface's description, a truncated file may be valid or not.
    for cut in after_section + 1..header {
        read(&file[..cut]).exits(3).says("truncated at byte 28");
    }
    let mut cases = 0;
    for cut in header..=file.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
        let ran = read(&file[..cut]).exits(if cut == header || ends.contains(&cut) { 0 } else { 3 });
        assert_eq!(ran.fact("ledger", "caught"), whole, "cut at {cut}");
        cases += 1;
    }
    println!("truncated at {cases} places");
}

#[test]
fn a_truncated_file_gives_partial_results_in_every_form() {
    let folder = folder();
    let whole = fs::read(sample()).unwrap();
    let path = put(folder.path(), "cut.pcap", &whole[..100_000]);
    let (path, out) = (text(&path), folder.path().join("logs"));
    let ran = weir([path])
        .exits(3)
        .says("cut.pcap: truncated at byte ")
        .prints("LOSS      unknown after the error");
    let problem = ran.text().lines().find(|line| line.contains("truncated at byte")).unwrap().to_owned();
    assert!(!problem.contains("cut.pcap"), "the first line has the name: {problem}");
    let rows = weir(["count", path, "-e", "ip or ip6", "-j"]).exits(3).json();
    assert!(rows[0]["packets"].as_u64().unwrap() > 100);
    weir([path, "-o", text(&out), "--log", "zeek,eve"]).exits(3);
    assert!(fs::read_to_string(out.join("conn.log")).unwrap().lines().last().unwrap().starts_with("#close"));
    objects(&fs::read_to_string(out.join("eve.json")).unwrap());
}

#[test]
fn a_corrupt_length_ends_the_file_unless_recover_is_given() {
    let packets = conversation(START);
    let mut file = pcap(1, &packets[..3]);
    let fault = file.len();
    let mut broken = record(START + SECOND, &packets[3].1);
    broken[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    file.extend(broken);
    for (time, data) in &packets[3..] {
        file.extend(record(*time, data));
    }
    let ran =
        read(&file).exits(3).says(&format!("corrupt at byte {fault}, after 3 packets")).says("4294967295");
    assert_eq!(ran.fact("ledger", "caught"), 3);
    let ran = weir_reads(["-", "-j", "--recover"], file).exits(3).says("corrupt at byte");
    assert_eq!(ran.fact("ledger", "caught"), 6);
}

#[test]
fn corrupt_pcapng_lengths_end_the_file() {
    let packets = conversation(START);
    let good = [section(), interface(1), enhanced(0, packets[0].0, &packets[0].1)].concat();
    for length in [0_u32, 1, 11, 13, 30, u32::MAX, u32::MAX - 3] {
        let mut file = good.clone();
        let fault = file.len();
        let mut bad = enhanced(0, packets[1].0, &packets[1].1);
        bad[4..8].copy_from_slice(&length.to_le_bytes());
        file.extend(bad);
        let ran = read(&file).exits(3).says(&format!("at byte {fault}, after 1 packets"));
        assert_eq!(ran.fact("ledger", "caught"), 1, "length {length}");
    }
}

#[test]
fn an_unknown_link_type_is_named_counted_and_skipped() {
    for (link, name) in [(147, "USER0"), (64_999, "LINKTYPE_64999"), (189, "USB_LINUX")] {
        let packets = conversation(START);
        let file = pcap(link, &packets);
        weir_reads(["-"], file.clone()).exits(0).quietly().prints(name).prints("link type not supported");
        let ran = read(&file).exits(0);
        assert_eq!((ran.fact("ledger", "caught"), ran.fact("ledger", "unflowed")), (6, 6));
        assert_eq!(ran.fact("flows", "created"), 0);
        weir_reads(["count", "-", "-e", "ip", "-j"], file).exits(2).says(name).says("not supported on");
    }
    // In one file with a supported link type.
    let packets = conversation(START);
    let mut file = [section(), interface(1), interface(147)].concat();
    for (n, (time, data)) in packets.iter().enumerate() {
        file.extend(enhanced(n as u32 % 2, *time, data));
    }
    let ran = read(&file).exits(0).quietly();
    assert_eq!((ran.fact("ledger", "caught"), ran.fact("ledger", "flowed")), (6, 3));
}

#[test]
fn a_time_jump_is_reported_and_ends_no_flow_early() {
    let hour = 3600 * SECOND;
    let mut packets = conversation(START);
    let n = packets.len() as u64;
    packets.extend(conversation(START - hour));
    packets.extend(conversation(START + 10 * 365 * 24 * hour));
    packets.extend(conversation(START + 1));
    let ran =
        weir_reads(["-"], pcap(1, &packets)).exits(0).quietly().prints("not in time order  3 time jumps");
    drop(ran);
    let folder = folder();
    let path = put(folder.path(), "leaps.pcap", &pcap(1, &packets));
    let out = folder.path().join("out");
    let arguments = [text(&path), "-j", "-o", text(&out), "--log", "ndjson", "--interval", "1s"];
    let ran = weir(arguments).exits(0).quietly();
    assert_eq!((ran.fact("ledger", "caught"), ran.fact("ledger", "time_jumps")), (4 * n, 3));
    // Ten years of seconds without packets are not reported one by one.
    assert!(fs::metadata(out.join("weir.ndjson")).unwrap().len() < 1 << 20);
    let ordered = weir_reads(["-"], pcap(1, &conversation(START))).exits(0).text();
    assert!(ordered.contains("complete  in time order"), "{ordered}");
}

#[test]
fn a_million_interfaces_need_little_memory() {
    let mut file = section();
    let interface = interface(1);
    for _ in 0..1_000_000 {
        file.extend(&interface);
    }
    for (n, (time, data)) in conversation(START).iter().enumerate() {
        file.extend(enhanced([0, 1, 65_535, 65_536, 999_998, 999_999][n], *time, data));
    }
    let folder = folder();
    let path = put(folder.path(), "many.pcapng", &file);
    let (ran, peak) = peak(&["-j", "--memory", "32M", text(&path)]);
    let ran = ran.exits(0).quietly();
    assert_eq!((ran.fact("ledger", "caught"), ran.fact("ledger", "flowed")), (6, 6));
    println!("a million interfaces: {} KiB at most", peak >> 10);
    assert!(peak < 128 << 20, "{peak} bytes");
    weir([text(&path), "-v"]).exits(0).prints("934,464 more interfaces");
    let copy = folder.path().join("copy.pcapng");
    weir([text(&path), "-w", text(&copy)]).exits(0);
    assert_eq!(weir([text(&copy), "-j"]).exits(0).fact("ledger", "caught"), 6);
}

fn gzip(parts: &mut dyn Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    parts.for_each(|part| encoder.write_all(&part).unwrap());
    encoder.finish().unwrap()
}

/// Runs the program. Returns its peak resident memory in bytes too.
fn peak(arguments: &[&str]) -> (Ran, u64) {
    let child = start(program().args(arguments).stdin(Stdio::null()));
    let status = format!("/proc/{}/status", child.id());
    let (send, stop) = std::sync::mpsc::channel::<()>();
    let watcher = std::thread::spawn(move || {
        let mut max = 0;
        while stop.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            max = max.max(high_water(&status));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        max
    });
    let ran = finish(child);
    drop(send);
    (ran, watcher.join().unwrap())
}

fn high_water(status: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

#[test]
fn zip_bombs_are_read_with_little_memory() {
    const ZEROS: usize = 1 << 20;
    let zeros = |n: usize| std::iter::repeat_n(vec![0; ZEROS], n);
    let huge = |length: u32| [0, 0, length, length].map(u32::to_le_bytes).concat();
    let custom = [0xbad_u32.to_le_bytes(), (512_u32 << 20).to_le_bytes()].concat();
    let bombs = [
        // 512 MiB of zeros, which is not a capture.
        ("zeros", gzip(&mut zeros(512)), 2),
        // A record with a length of 500 MiB.
        ("record", gzip(&mut std::iter::once([pcap(1, &[]), huge(500 << 20)].concat()).chain(zeros(512))), 3),
        // A custom block of 512 MiB.
        ("block", gzip(&mut std::iter::once([section(), custom].concat()).chain(zeros(512))), 3),
        // Millions of packets without bytes.
        ("packets", gzip(&mut std::iter::once(pcap(1, &[])).chain(zeros(64))), 0),
    ];
    let folder = folder();
    for (name, bomb, code) in bombs {
        let path = put(folder.path(), &format!("{name}.gz"), &bomb);
        let began = std::time::Instant::now();
        let (ran, peak) = peak(&[text(&path), "-j", "--memory", "32M"]);
        println!(
            "{name}: {} KiB packed, {} KiB at most, {:?}",
            bomb.len() >> 10,
            peak >> 10,
            began.elapsed()
        );
        ran.exits(code);
        assert!(peak < 96 << 20, "{name}: {peak} bytes");
    }
}

#[test]
fn inputs_that_cannot_be_opened_are_reported() {
    let folder = folder();
    let missing = folder.path().join("missing.pcap");
    weir([&missing]).exits(2).says("missing.pcap: no such file, and no interface (-i) to capture on");
    weir(["opne", "x.pcap"]).exits(2).says("opne: no such file").says("did you mean `open`?");
    weir(["serve"]).exits(1).says("nothing to serve: give a capture");
    weir(["-r", text(&missing)]).exits(2).says("missing.pcap: cannot open: No such file or directory");
    weir(["count", text(&missing), "-e", "ip"]).exits(2).says("cannot open: No such file or directory");
    weir([folder.path()]).exits(2).says("no capture file in this directory");
    weir(["/dev/null"]).exits(2).says("/dev/null: empty");
    weir(["/dev/zero"]).exits(2).says("/dev/zero: not a capture");
}

#[test]
fn a_file_without_read_permission_is_reported() {
    let folder = folder();
    let path = put(folder.path(), "secret.pcap", &pcap(1, &conversation(START)));
    fs::set_permissions(folder.path(), permissions(0o755)).unwrap();
    fs::set_permissions(&path, permissions(0)).unwrap();
    let mut command = program();
    if is_root() {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let able =
            Command::new("setpriv").args(nobody).args(["test", "-x", env!("CARGO_BIN_EXE_weir")]).status();
        if !able.is_ok_and(|status| status.success()) {
            println!("skipped: nobody(65534) cannot run the program here");
            return;
        }
        command = Command::new("setpriv");
        command.args(nobody).arg(env!("CARGO_BIN_EXE_weir"));
    }
    run(command.arg(&path)).exits(2).says("secret.pcap: cannot open: Permission denied");
}

fn permissions(mode: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(mode)
}

/// A file system of a given size, unmounted when the value is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Option<SmallDisk> {
        let disk = SmallDisk(folder());
        let mounted = is_root()
            && Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
                .arg(disk.0.path())
                .status()
                .is_ok_and(|status| status.success());
        if !mounted {
            println!("skipped: a small tmpfs cannot be mounted here");
        }
        mounted.then_some(disk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_packet_file_on_a_full_disk_has_whole_records() {
    // Compressed records are written in members of a megabyte.
    for (name, size) in
        [("full.pcapng", "256k"), ("full.pcap", "256k"), ("full.pcapng.gz", "1m"), ("full.pcap.zst", "1m")]
    {
        let Some(disk) = SmallDisk::new(size) else { return };
        let path = disk.path(name);
        let sample = sample();
        let ran = weir([text(&sample), "-w", text(&path)])
            .exits(4)
            .says("no space left after ")
            .prints("packets written to")
            .prints("LOST")
            .prints("TALKERS");
        drop(ran);
        let again = weir([text(&path), "-j"]).exits(0).quietly();
        let kept = again.fact("ledger", "caught");
        println!("{name}: {kept} packets are whole");
        assert!((100..10_000).contains(&kept), "{name}: {kept}");
    }
}

#[test]
fn logs_on_a_full_disk_have_whole_lines() {
    let Some(disk) = SmallDisk::new("64k") else { return };
    let sample = sample();
    let out = disk.path("logs");
    let ran = weir([text(&sample), "-o", text(&out), "--log", "zeek,zeek-json,eve,csv,ndjson"])
        .exits(4)
        .says("No space left on device")
        .prints("TALKERS");
    for line in ran.stderr.lines() {
        assert!(line.starts_with("weir: ") && line.contains("logs/"), "which file: {line}");
    }
    for name in ["conn.log", "conn.json", "eve.json", "weir.ndjson"] {
        let path = out.join(name);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if name.ends_with("json") {
            println!("{name}: {} whole lines", objects(&text).len());
        } else {
            assert!(text.is_empty() || text.ends_with('\n'), "{name}");
            let fields = text
                .lines()
                .find(|line| line.starts_with("#fields"))
                .map_or(0, |line| line.split('\t').count() - 1);
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                assert_eq!(line.split('\t').count(), fields, "{line}");
            }
        }
    }
}

#[test]
fn alerts_on_a_full_disk_are_whole_lines() {
    let Some(disk) = SmallDisk::new("64k") else { return };
    let (sample, folder) = (sample(), folder());
    let rules =
        put(folder.path(), "x.rules", b"alert ip any any -> any any (msg:\"a packet\"; ttl:>0; sid:1;)\n");
    let run = |out: &Path| weir([text(&sample), "-S", text(&rules), "-n", "-o", text(out), "--log", "fast"]);
    let whole = folder.path().join("logs");
    run(&whole).exits(0);
    let whole = fs::read_to_string(whole.join("fast.log")).unwrap();
    let out = disk.path("logs");
    run(&out).exits(4).says("No space left on device").says("fast.log");
    let kept = fs::read_to_string(out.join("fast.log")).unwrap_or_default();
    println!("{} of {} alerts are whole", kept.lines().count(), whole.lines().count());
    assert!(kept.is_empty() || kept.ends_with('\n'));
    assert!(kept.len() < whole.len() && whole.starts_with(&kept), "what is kept is the beginning of the log");
}

#[test]
fn full_devices_are_reported() {
    let sample = sample();
    weir([text(&sample), "-w", "/dev/full"]).exits(4).says("/dev/full: no space left");
    for arguments in [&[][..], &["-j"], &["-v"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child =
            program().arg(&sample).args(arguments).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take();
        assert_eq!(wait(&mut child), Some(Some(4)));
        let errors = std::io::read_to_string(stderr.unwrap()).unwrap();
        assert!(errors.contains("standard output: No space left on device"), "{errors}");
    }
    weir([text(&sample), "-o", "/dev/null"]).exits(4).says("/dev/null: logs need a directory");
    weir([text(&sample), "-o", "/proc/nowhere"]).exits(4).says("/proc/nowhere: ");
    weir([text(&sample), "-w", "/nowhere/x.pcap"]).exits(4).says("/nowhere/x.pcap: cannot create");
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let sample = sample();
    for (arguments, code) in [(&[][..], 0), (&["-j"], 0), (&["-v"], 0), (&["-w", "-"], 0)] {
        let mut child = start(program().arg(&sample).args(arguments));
        drop(child.stdout.take());
        assert_eq!(wait(&mut child).expect("the run ends"), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_caret_marks_the_error_of_an_expression() {
    let sample = sample();
    for (expression, caret, wanted) in [
        ("tcp port", "tcp port\n          ^", "expected a port"),
        ("tcp prot 80", "tcp prot 80\n      ^^^^", "did you mean `port`?"),
        ("not tcp and", "not tcp and\n             ^", "expected a primitive"),
        ("(tcp or udp", "(tcp or udp\n", "expected"),
        ("host 10.0.0.256", "host 10.0.0.256\n       ^", ""),
        ("port 65536", "port 65536\n       ^^^^^", ""),
    ] {
        let run = weir([text(&sample), expression]).exits(1).says(caret).says(wanted);
        let count = weir(["count", text(&sample), "-e", expression]).exits(1).says(caret).says(wanted);
        assert_eq!((run.text(), count.text()), (String::new(), String::new()));
    }
    let folder = folder();
    let file = put(folder.path(), "filter", b"# web\ntcp prot 80\n");
    weir([text(&sample), "-F", text(&file)]).exits(1).says("^^^^");
    weir([text(&sample), "-F", text(&file), "udp"]).exits(1).says("the expression is given twice");
}

#[test]
fn a_configuration_is_refused_with_line_and_suggestion() {
    let folder = folder();
    let sample = sample();
    for (toml, wanted) in [
        ("intervall = \"30s\"\n", &["weir.toml:1:1", "intervall", "interval"][..]),
        ("memory = \"128mbb\"\n", &["weir.toml:1:", "128mbb"]),
        ("interval = \"2h\"\n", &["weir.toml:1:", "2h"]),
        ("\n\nworkers = \"many\"\n", &["weir.toml:3:", "workers"]),
        ("interval = \n", &["weir.toml:1:"]),
        (
            "[[subscription]]\nname = \"x\"\nexpression = \"tcp prot 80\"\nfunctions = [\"packets\"]\n",
            &["weir.toml:"],
        ),
    ] {
        let path = put(folder.path(), "weir.toml", toml.as_bytes());
        for arguments in [&["config", "check", text(&path)][..], &["-c", text(&path), text(&sample)]] {
            let mut ran = weir(arguments).exits(1);
            for part in wanted {
                ran = ran.says(part);
            }
            assert_eq!(ran.text(), "", "nothing is analysed");
        }
    }
    weir(["config", "check", "/nowhere.toml"]).exits(1).says("/nowhere.toml: ");
    weir(["-c", "/nowhere.toml", text(&sample)]).exits(1).says("/nowhere.toml: neither a number");
}

#[test]
fn errors_of_option_values_name_the_accepted_ones() {
    let sample = sample();
    for (option, value, wanted) in [
        ("--memory", "1", "at least 16M"),
        ("--memory", "12Q", "e.g. 512M or 2G"),
        ("--interval", "2h", "from 1s to 1h"),
        ("--workers", "many", "invalid"),
        ("--max-loss", "much", "invalid"),
        ("--checksum", "maybe", "auto, on, off"),
        ("--tz", "Mars/Phobos", "no time zone \"Mars/Phobos\""),
        ("-c", "0", "at least one packet"),
        ("-c", "many", "neither a number"),
        ("-s", "x", "invalid"),
        ("--log", "zek", "--output"),
        ("-G", "5", "--write"),
        ("--bogus", "1", "--bogus"),
    ] {
        let ran = weir([text(&sample), option, value]).exits(1).says(wanted);
        assert_eq!(ran.stdout, b"", "{option} {value}");
    }
    let folder = folder();
    // What a user can write has limits, on the command line as in a configuration.
    let at = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let terms = at("terms", &vec!["host 192.0.2.1"; 100_000].join(" or "));
    weir([text(&sample), "-F", text(&terms)]).exits(1).says("may have 256 KiB").says("in @FILE");
    let chain = |length: usize| {
        let functions = vec!["\"packets\""; length].join(", ");
        at("weir.toml", &format!("[[subscription]]\nname = \"a\"\nfunctions = [{functions}]\n"))
    };
    weir([text(&sample), "-q", "--config", text(&chain(64))]).exits(0);
    weir([text(&sample), "-q", "--config", text(&chain(100_000))]).exits(1).says("at most 64 functions");
    // Measurements need logs, wherever their folder is named.
    weir([text(&sample), "--measure"]).exits(1).says("--output DIR");
    let logs = folder.path().join("logs");
    let config = at("weir.toml", &format!("[output]\ndir = {:?}\n", text(&logs)));
    weir([text(&sample), "-q", "--measure", "--config", text(&config)]).exits(0);
    assert!(logs.join("stream.csv").exists(), "{:?}", std::fs::read_dir(&logs).unwrap().collect::<Vec<_>>());
    let out = folder.path().join("out");
    weir([text(&sample), "-o", text(&out), "--log", "zeek,zek"])
        .exits(1)
        .says("no log \"zek\"; there are zeek,");
    assert!(!out.exists(), "a run that does not start creates no files");
    weir([text(&sample), "-i", "lo"]).exits(1).says("files and interfaces");
}

#[test]
fn one_bad_input_does_not_stop_the_others() {
    let folder = folder();
    let good = put(folder.path(), "good.pcap", &pcap(1, &conversation(START)));
    let later = put(folder.path(), "later.pcap", &pcap(1, &conversation(START + SECOND)));
    let cut = pcap(1, &conversation(START));
    let cut = put(folder.path(), "cut.pcap", &cut[..cut.len() - 1]);
    let text_file = put(folder.path(), "text.pcap", b"not a capture at all");
    let empty = put(folder.path(), "empty.pcap", b"");
    let run = |bad: &Path| weir([text(&good), text(bad), text(&later), "-j"]);
    let facts = |ran: &Ran| ran.fact("ledger", "caught");
    assert_eq!(facts(&run(&cut).exits(3).says("cut.pcap: truncated")), 17);
    assert_eq!(facts(&run(&text_file).exits(2).says("text.pcap: not a capture")), 12);
    assert_eq!(facts(&run(&empty).exits(2).says("empty.pcap: empty")), 12);
    // All of them, as a directory.
    let ran = weir([folder.path().to_str().unwrap(), "-j"])
        .exits(2)
        .says("cut.pcap")
        .says("text.pcap")
        .says("empty.pcap");
    assert_eq!(facts(&ran), 17);
    let ran = weir([folder.path()]).exits(2).prints("5 inputs");
    assert!(ran.text().lines().count() <= 20, "{}", ran.text());
    let missing = folder.path().join("missing.pcap");
    let ran =
        weir(["-r", text(&good), "-r", text(&missing), "-j"]).exits(2).says("missing.pcap: cannot open");
    assert_eq!(facts(&ran), 6);
}

/// A check without a run knows which paths are no folders for any user.
#[test]
fn a_check_names_outputs_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "file", b"");
    let check = |body: &str| {
        let path = put(folder.path(), "weir.toml", body.as_bytes());
        weir(["config", "check", text(&path)])
    };
    for (key, path) in [
        ("output.dir", text(&file).to_owned()),
        ("output.dir", format!("{}/a", text(&file))),
        ("files.dir", text(&file).to_owned()),
        ("packets.write", text(folder.path()).to_owned()),
        ("packets.unidentified", format!("{}/a", text(&file))),
    ] {
        let (table, name) = key.split_once('.').unwrap();
        check(&format!("[{table}]\n{name} = {path:?}\n"))
            .exits(1)
            .says(&format!("weir.toml:2: {key}: {path}: "));
    }
    // What is missing may be created, and /proc has no files even of root.
    let absent = folder.path().join("absent");
    check(&format!("[output]\ndir = {:?}\n", text(&absent))).exits(0).prints(": good: 0 subscriptions");
    assert!(!absent.exists(), "a check creates nothing");
    let ran = check("[output]\ndir = \"/proc\"\n").exits(0);
    ran.says("weir.toml:2: output.dir: /proc: ")
        .prints("if the run's user may write where the present user may not");
}
