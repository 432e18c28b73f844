//! The program on live links: veth pairs between network namespaces. Needs root and ip(8); otherwise each test is
//! skipped, with the reason.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use support::configured::*;
use support::net::*;
use support::*;

/// Runs in a namespace, in a separate process.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn sender() {
    send_unsegmented();
}

/// Sends a line of syslog from a port, both in WEIR_SPEAK.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn speaker() {
    let Ok(order) = std::env::var("WEIR_SPEAK") else { return };
    let (port, line) = order.split_once(' ').unwrap();
    let socket = std::net::UdpSocket::bind(("10.77.0.1", port.parse().unwrap())).unwrap();
    let datagram = format!("<34>Oct 11 22:14:15 host program: {line}");
    socket.send_to(datagram.as_bytes(), "10.77.0.9:514").unwrap();
}

/// Answers each request over HTTP with 100 lines of its path, at the address WEIR_GIVE.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn giver() {
    let Ok(address) = std::env::var("WEIR_GIVE") else { return };
    for stream in TcpListener::bind(address).unwrap().incoming() {
        let mut stream = stream.unwrap();
        let mut request = [0; 1000];
        let length = stream.read(&mut request).unwrap();
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        let path = request.split_whitespace().nth(1).unwrap_or_default();
        write!(stream, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n{}", given(path)).unwrap();
    }
}

/// The content at a path.
fn given(path: &str) -> String {
    format!("{path}\n").repeat(100)
}

/// Requests a path, both in WEIR_TAKE.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn taker() {
    let Ok(order) = std::env::var("WEIR_TAKE") else { return };
    let (address, path) = order.split_once(' ').unwrap();
    let mut stream = None;
    assert!(eventually(|| {
        stream = TcpStream::connect(address).ok();
        stream.is_some()
    }));
    let mut stream = stream.unwrap();
    // One segment: the other end reads once.
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with(&given(path)));
}

/// The ledger of `-j`: offered, caught, dropped. Checks that it adds up.
#[track_caller]
fn ledger(ran: &Ran) -> (u64, u64, u64) {
    let [offered, caught, dropped, filtered, analysed] =
        ["offered", "caught", "dropped", "filtered", "analysed"].map(|field| ran.fact("ledger", field));
    assert_eq!(offered, caught + dropped, "{}", ran.text());
    assert_eq!(caught, filtered + analysed, "{}", ran.text());
    assert!(!ran.stderr.contains("does not add up"), "{}", ran.stderr);
    (offered, caught, dropped)
}

#[test]
fn an_interrupt_right_after_a_burst_loses_nothing() {
    let Some(net) = Net::new() else { return };
    for packets in [1, 1000, 100_000] {
        let child = net.start(&["-i", "far", "-j"]);
        let sent = net.send(packets);
        signal(&child, "INT");
        let ran = finish(child).exits(130);
        let (offered, caught, dropped) = ledger(&ran);
        println!("sent {sent}, caught {caught}, dropped {dropped}");
        assert_eq!((offered, sent), (sent, packets));
        assert_eq!(dropped, 0);
    }
}

#[test]
fn an_interrupt_in_the_middle_of_a_burst_adds_up() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.pcapng");
    let child = net.start(&["-i", "far", "-j", "-w", text(&copy)]);
    let sender = net.begin_to_send(300_000, 500);
    thread::sleep(Duration::from_millis(300));
    signal(&child, "INT");
    let ran = finish(child);
    let (_, caught, _) = ledger(&ran);
    // A disk that is too slow for the burst counts as a failed output.
    let expected = if ran.fact("ledger", "packets_unwritten") > 0 { 4 } else { 130 };
    assert_eq!(ran.code, Some(expected), "{}", ran.stderr);
    let sent = Net::sent(sender);
    assert!(caught > 0 && caught <= sent, "{caught} of {sent}");
    let written = weir([text(&copy), "-j"]).exits(0).quietly().fact("ledger", "caught");
    assert_eq!(written + ran.fact("ledger", "packets_unwritten"), caught);
}

#[test]
fn a_live_run_prints_a_line_per_second_and_a_summary() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("stdout");
    let command = &mut net.weir(&["-i", "far", "-l", "udp"]);
    let child =
        net.listening(command.stdout(File::create(&out).unwrap()).stderr(Stdio::piped()).spawn().unwrap());
    let printed = || fs::read_to_string(&out).unwrap();
    assert!(eventually(|| printed().lines().count() >= 2), "an idle link has lines too: {}", printed());
    let sent = net.send(500);
    let seen = printed().lines().count();
    assert!(eventually(|| printed().lines().count() > seen + 1));
    signal(&child, "INT");
    finish(child).exits(130);
    let text = printed();
    let lines: Vec<&str> = text.lines().take_while(|line| !line.starts_with("far  live")).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| line.contains(" UTC  ")), "{text}");
    let summary = text.lines().skip(lines.len()).collect::<Vec<_>>();
    assert!(summary.len() <= 20 && summary.len() > 4, "{text}");
    assert!(text.contains("interrupted") && text.contains(&format!("analysed {sent}")), "{text}");
    assert!(text.contains("10.77.0.9:9"), "the talkers: {text}");
}

#[test]
fn intervals_follow_the_clock_when_the_link_is_idle() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logs");
    let child = net.start(&["-i", "far", "-q", "-o", text(&out), "--log", "mon,ndjson", "--interval", "1s"]);
    let mon = || fs::read_to_string(out.join("mon.lite")).unwrap_or_default();
    let written_at = || fs::metadata(out.join("mon.lite")).and_then(|data| data.modified()).ok();
    let mut reports = BTreeSet::new();
    let often = eventually(|| {
        reports.extend(written_at());
        reports.len() >= 3
    });
    assert!(often, "mon.lite was written {} times", reports.len());
    let sent = net.send(200);
    assert!(eventually(|| mon().lines().any(|line| line.contains(&format!("{sent}")))), "{}", mon());
    signal(&child, "TERM");
    finish(child).exits(130).prints("LOSS");
    let intervals = objects(&fs::read_to_string(out.join("weir.ndjson")).unwrap());
    assert!(intervals.iter().filter(|line| line["kind"] == "ledger").count() >= 3);
}

#[test]
fn a_configuration_that_is_read_again_changes_logs_from_then_on() {
    let with = |logs: &str| format!("[output]\ndir = \"LOGS\"\nlog = [{logs}]\n");
    let Some(mut run) = Configured::start(&with("\"csv\""), &[]) else { return };
    run.speak("one", "syslog.csv");
    let list = "[[subscription]]\nname = \"lines\"\nlevel = \"record\"\nchain = [\"top syslog.message\"]\n";
    let both = with("\"csv\", \"zeek-json\"") + list;
    run.apply(&both, &["weir.toml: configuration applied: +5 -1 lines\n"]);
    run.speak("two", "syslog.json");
    // An erroneous file changes nothing.
    let nothing = "weir.toml is not applied, nothing is changed: ";
    run.apply(&with("\"cvs\""), &[nothing, "csv"]);
    run.apply(
        &with("\"csv\"").replace("LOGS", "/sys/no"),
        &[nothing, "a directory that the run could write to"],
    );
    run.apply(
        "[[subscription]]\nname = \"x\"\nexpression = \"udp (\"\nfunctions = [\"packets\"]\n",
        &[nothing],
    );
    let many = "[[subscription]]\nname = \"x\"\nfunctions = [{ top = \"source\", rows = 1048576 }]\n";
    run.apply(
        &many.repeat(3).replacen("\"x\"", "\"y\"", 1).replacen("\"x\"", "\"z\"", 1),
        &[nothing, "of memory"],
    );
    run.speak("three", "syslog.json");
    // Other rows of a log that is open, and back.
    run.apply(&(with("\"csv\", \"zeek-json:dns\"") + list), &["+1 -1 lines\n"]);
    run.speak("four", "syslog.csv");
    run.apply(&both, &["+1 -1 lines\n"]);
    run.speak("five", "syslog.json");
    // What needs a restart is named, and the rest is applied.
    let removed = format!("memory = \"600M\"\nworkers = 3\n{}", with("\"csv\""));
    run.apply(&removed, &["lines; needs a restart: memory, workers\n"]);
    run.speak("six", "syslog.csv");
    run.speak("seven", "syslog.csv");
    let (csv, json) = (run.log("syslog.csv"), run.log("syslog.json"));
    let rows = |log: &str, line: &str| log.lines().filter(|row| row.contains(line)).count();
    for line in ["one", "two", "three", "four", "five", "six", "seven"] {
        assert_eq!(rows(&csv, line), 1, "{line}: {csv}");
        let is_logged = ["two", "three", "five"].contains(&line);
        assert_eq!(rows(&json, line), usize::from(is_logged), "{line}: {json}");
    }
    objects(&json);
    let (_, ran) = run.end();
    assert_eq!(ledger(&ran).1, 7, "{}", ran.text());
}

/// Logs of subscriptions are added one after the other and removed again on a link: each has what came in between.
#[test]
fn logs_of_subscriptions_are_added_and_removed() {
    for workers in ["1", "2"] {
        let head = "[output]\ndir = \"LOGS\"\nlog = [\"csv:syslog\"]\n";
        let log = |name: &str, level: &str, condition: &str, more: &str| {
            format!(
                "[[subscription]]\nname = \"{name}\"\nlevel = \"{level}\"\nwhere = '{condition}'\nchain = [\"log {name}{more}\"]\n"
            )
        };
        let lines = log("lines", "record", "syslog.message contains o", "");
        let sent = log("sent", "flow", "flow.packets = 1 and port 514", " format csv");
        let Some(mut run) = Configured::start(head, &["--workers", workers]) else { return };
        run.speak("one", "syslog.csv");
        run.apply(&(head.to_owned() + &lines), &["configuration applied: +5 -0 lines\n"]);
        run.speak("two", "lines.ndjson");
        run.apply(&(head.to_owned() + &lines + &sent), &["+5 -0 lines\n"]);
        run.speak("four", "lines.ndjson");
        // Its condition changes: it is another subscription, and the log goes on.
        let other = log("lines", "record", "syslog.message contains six", "");
        run.apply(&(head.to_owned() + &other + &sent), &["+1 -1 lines\n"]);
        run.speak("six", "lines.ndjson");
        run.speak("oo", "syslog.csv");
        // A second form of an open log, and a log of another name without a directory that could be written to.
        let twice = log("again", "record", "syslog", "").replace("log again", "log lines format csv");
        run.apply(
            &(head.to_owned() + &other + &twice),
            &["nothing is changed: ", "is lines.ndjson in the subscription"],
        );
        run.apply(&(head.to_owned() + &sent), &["+0 -5 lines\n"]);
        run.speak("seven o", "syslog.csv");
        run.apply(head, &["+0 -5 lines\n"]);
        run.speak("last o", "syslog.csv");
        let rows = objects(&run.log("lines.ndjson"));
        let messages = rows.iter().map(|row| row["syslog"]["message"].as_str().unwrap());
        let last: BTreeSet<&str> = messages.map(|text| text.rsplit(' ').next().unwrap()).collect();
        assert_eq!((rows.len(), last), (3, BTreeSet::from(["two", "four", "six"])), "{workers} workers");
        let (folder, ran) = run.end();
        ledger(&ran);
        let logs = folder.path().join("logs");
        let sent = support::configured::rows(&logs, "sent.", "");
        let flows = sent.lines().filter(|line| !line.starts_with("start,")).count();
        // Flows end some time after their packet: those that ended in the meantime are there, and no other.
        assert!(flows <= 6, "{sent}");
    }
}

#[test]
fn packet_files_of_subscriptions_are_added_and_removed() {
    for workers in ["1", "2"] {
        let head = "[output]\ndir = \"LOGS\"\nlog = [\"csv:syslog\"]\n";
        let write = |name: &str, level: &str, condition: &str, more: &str| {
            format!(
                "[[subscription]]\nname = \"{name}\"\nlevel = \"{level}\"\nwhere = '{condition}'\nchain = [\"write {name}.pcapng{more}\"]\n"
            )
        };
        let all = write("all", "packet", "udp port 514", "");
        let some = write("some", "record", "syslog.message contains two", " before none");
        let Some(mut run) = Configured::start(head, &["--workers", workers]) else { return };
        let path = |run: &Configured, name: &str| run.folder.path().join("logs").join(name);
        let packets = |run: &Configured, name: &str| {
            weir([text(&path(run, name)), "-j"]).exits(0).fact("ledger", "caught")
        };
        run.speak("one", "syslog.csv");
        run.apply(&(head.to_owned() + &all), &["configuration applied: +5 -0 lines\n"]);
        run.speak("two", "syslog.csv");
        run.apply(&(head.to_owned() + &all + &some), &["+5 -0 lines\n"]);
        for line in ["three", "two four", "five"] {
            run.speak(line, "syslog.csv");
        }
        // The other one goes on while one is removed, which then has its name.
        run.apply(&(head.to_owned() + &some), &["+0 -5 lines\n"]);
        assert!(eventually(|| path(&run, "all.pcapng").exists()), "{}", run.errors());
        assert_eq!(packets(&run, "all.pcapng"), 4, "{workers} workers");
        run.speak("two six", "syslog.csv");
        // Another form of an open file, and one outside of the directory.
        let other = write("again", "packet", "", "").replace("again.pcapng", "some.pcapng");
        run.apply(
            &(head.to_owned() + &some + &other),
            &["nothing is changed: ", "is written with other arguments"],
        );
        let outside = write("x", "packet", "", "").replace("x.pcapng", "../x.pcapng");
        run.apply(&(head.to_owned() + &some + &outside), &["nothing is changed: ", "letters, digits"]);
        run.apply(head, &["+0 -5 lines\n"]);
        assert!(eventually(|| path(&run, "some.pcapng").exists()), "{}", run.errors());
        assert_eq!(packets(&run, "some.pcapng"), 2, "{workers} workers");
        // The name is free again.
        run.apply(&(head.to_owned() + &all), &["+5 -0 lines\n"]);
        run.speak("seven", "syslog.csv");
        let (folder, ran) = run.end();
        ledger(&ran);
        let again =
            weir([text(&folder.path().join("logs/all.pcapng")), "-j"]).exits(0).fact("ledger", "caught");
        assert_eq!(again, 1, "{workers} workers");
    }
}

#[test]
fn a_configuration_that_is_read_again_changes_the_packet_file() {
    let into = |name: &str| format!("[packets]\nwrite = \"LOGS/{name}\"\n");
    let Some(run) = Configured::start(&into("a.pcapng"), &["--workers", "2"]) else { return };
    let path = |name: &str| run.folder.path().join("logs").join(name);
    let packets = |name: &str| weir([text(&path(name)), "-j"]).exits(0).fact("ledger", "caught");
    let first = run.net.send(1000);
    run.apply(&into("b.pcapng"), &["+1 -1 lines\n"]);
    assert!(eventually(|| path("a.pcapng").exists()), "the file that has ended has its name");
    assert_eq!(packets("a.pcapng"), first);
    run.apply("[packets]\nwrite = \"/sys/no.pcapng\"\n", &["nothing is changed: ", "/sys/no.pcapng"]);
    let second = run.net.send(500);
    run.apply("", &["+0 -2 lines\n"]);
    assert!(eventually(|| path("b.pcapng").exists()));
    assert_eq!(packets("b.pcapng"), second);
    let third = run.net.send(300);
    run.apply(&into("c.pcap"), &["+2 -0 lines\n"]);
    let last = run.net.send(200);
    let (folder, ran) = run.end();
    assert_eq!(ledger(&ran), (first + second + third + last, first + second + third + last, 0));
    let file = folder.path().join("logs/c.pcap");
    assert_eq!(weir([text(&file), "-j"]).exits(0).fact("ledger", "caught"), last);
}

#[test]
fn a_configuration_that_is_read_again_changes_extracted_files_and_unidentified_packets() {
    const GIVER: &str = "10.77.0.2:80";
    // A run may write only to the folders that it had at its start.
    let logs = "[output]\ndir = \"LOGS\"\nlog = [\"csv:flow\"]\n";
    let Some(run) = Configured::start(logs, &["--workers", "2"]) else { return };
    let net = &run.net;
    net.ip(&net.there, &["address", "add", "10.77.0.2/24", "dev", "far"]);
    let mut giver = start(net.test(&net.there, "giver").env("WEIR_GIVE", GIVER));
    let take = |path: &str| {
        support::run(net.test(&net.here, "taker").env("WEIR_TAKE", format!("{GIVER} {path}"))).exits(0);
    };
    let kept = |folder: &str| -> Vec<String> {
        let files = fs::read_dir(run.folder.path().join("logs").join(folder)).into_iter().flatten().flatten();
        let files = files.filter(|file| !file.file_name().to_string_lossy().starts_with('.'));
        files.map(|file| fs::read_to_string(file.path()).unwrap()).collect()
    };
    take("/before");
    net.send(100);
    let both = logs.to_owned() + "[packets]\nunidentified = \"LOGS/u.pcap\"\n[files]\ndir = \"LOGS/one\"\n";
    run.apply(&both, &["configuration applied: +4 -0 lines\n"]);
    take("/during");
    let unknown = net.send(300);
    assert!(eventually(|| kept("one") == [given("/during")]), "{:?}", kept("one"));
    // Another folder and another limit; the packets of unidentified flows stay where they were.
    let other = both.replace("/one", "/two") + "each = \"20\"\n";
    run.apply(&other, &["configuration applied: +2 -1 lines\n"]);
    take("/other");
    assert!(eventually(|| kept("two") == ["/other\n/other\n/other"]), "{:?}", kept("two"));
    let equal = "[packets]\nwrite = \"LOGS/u.pcap\"\nunidentified = \"LOGS/u.pcap\"\n";
    run.apply(equal, &["u.pcap is written with other arguments, or at another level"]);
    run.apply(logs, &["configuration applied: +0 -5 lines\n"]);
    take("/after");
    net.send(200);
    giver.kill().unwrap();
    wait(&mut giver).unwrap();
    let (folder, ran) = run.end();
    ledger(&ran);
    let logs = folder.path().join("logs");
    assert_eq!(weir([text(&logs.join("u.pcap")), "-j"]).exits(0).fact("ledger", "caught"), unknown);
    let names = |folder: &str| fs::read_dir(logs.join(folder)).unwrap().count();
    assert_eq!((names("one"), names("two")), (1, 1), "no part of a file is left");
}

#[test]
fn a_limit_of_matching_packets_ends_a_live_run() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("five.pcap");
    let child = net.start(&["-i", "far", "-c", "5", "-j", "-w", text(&copy), "udp port 9"]);
    net.send(1000);
    let ran = finish(child).exits(0);
    ledger(&ran);
    assert_eq!(ran.fact("ledger", "analysed"), 5);
    assert_eq!(weir([text(&copy), "-j"]).exits(0).fact("ledger", "caught"), 5);
}

#[test]
fn expressions_match_equally_on_a_link_and_in_a_file() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("all.pcapng");
    let child = net.start(&["-i", "far", "-q", "-w", text(&copy)]);
    net.send(100);
    signal(&child, "INT");
    finish(child).exits(130);
    for expression in ["udp port 9", "port 10", "src host 10.77.0.1 and len < 100", "tcp or vlan", "not udp"]
    {
        let child = net.start(&["-i", "far", "-j", expression]);
        net.send(100);
        signal(&child, "INT");
        let ran = finish(child).exits(130);
        ledger(&ran);
        let of_file = weir([text(&copy), "-j", expression]).exits(0).fact("ledger", "analysed");
        assert_eq!(ran.fact("ledger", "analysed"), of_file, "{expression}");
    }
}

#[test]
fn several_interfaces_are_one_stream() {
    let Some(net) = Net::new() else { return };
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    for interfaces in [&["-i", "far", "-i", "lo"][..], &["-i", "any"]] {
        let child = net.start(&[interfaces, &["-j", "--workers", "3"]].concat());
        let sent = net.send(2000);
        signal(&child, "INT");
        let ran = finish(child).exits(130);
        assert_eq!(ledger(&ran).0, sent, "{interfaces:?}");
    }
}

#[test]
fn loss_above_the_limit_has_an_exit_code() {
    let Some(net) = Net::new() else { return };
    let child = net.start(&["-i", "far", "-j", "--memory", "16M", "--workers", "1", "--max-loss", "0.5"]);
    // A stopped program reads no packets, so that the ring overflows.
    signal(&child, "STOP");
    let sent = net.send(200_000);
    signal(&child, "INT");
    signal(&child, "CONT");
    let ran = finish(child).exits(5).says("of packets lost");
    let (offered, caught, dropped) = ledger(&ran);
    println!("sent {sent}, caught {caught}, dropped {dropped}");
    assert_eq!(offered, sent);
    assert!(dropped > sent / 200, "{dropped}");
}

#[test]
fn a_reader_that_stops_reading_loses_lines_and_no_packet() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.pcapng");
    let (reader, writer) = full_pipe();
    let mut command = net.weir(&["-i", "far", "-w", text(&copy)]);
    let child = net.listening(command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap());
    let sent = net.send(20_000);
    // A few lines accumulate unread.
    thread::sleep(Duration::from_millis(2500));
    signal(&child, "INT");
    finish(child).exits(4).says("standard output is too slow");
    drop(reader);
    assert_eq!(weir([text(&copy), "-j"]).exits(0).fact("ledger", "caught"), sent);
}

#[test]
fn a_reader_of_packets_that_stops_reading_loses_only_its_packets() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logs");
    let (reader, writer) = full_pipe();
    let mut command = net.weir(&["-i", "far", "-w", "-", "-o", text(&out), "--log", "ndjson,zeek-json"]);
    let child = net.listening(command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap());
    let sent = net.send(50_000);
    signal(&child, "INT");
    let ran = finish(child).exits(4).says("packets were not written");
    println!("{}", ran.stderr);
    drop(reader);
    let flows = objects(&fs::read_to_string(out.join("conn.json")).unwrap());
    let seen: u64 = flows.iter().filter_map(|flow| flow["orig_pkts"].as_u64()).sum();
    assert_eq!(seen, sent, "every packet was analysed");
}

#[test]
fn a_link_that_goes_down_is_reported_and_the_run_waits() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let errors = folder.path().join("stderr");
    let mut command = net.weir(&["-i", "far", "-j"]);
    let child =
        net.listening(command.stdout(Stdio::piped()).stderr(File::create(&errors).unwrap()).spawn().unwrap());
    let reports = |words: &str| eventually(|| fs::read_to_string(&errors).unwrap().contains(words));
    let mut sent = net.send(10);
    net.ip(&net.there, &["link", "set", "far", "down"]);
    assert!(reports("far: is down"), "{}", fs::read_to_string(&errors).unwrap());
    net.ip(&net.there, &["link", "set", "far", "up"]);
    assert!(reports("far: is up again"), "{}", fs::read_to_string(&errors).unwrap());
    sent += net.send(20);
    signal(&child, "INT");
    let ran = finish(child).exits(130);
    assert_eq!(ledger(&ran).0, sent);
    let lines = ran.json();
    let events: Vec<_> = lines.iter().filter(|line| line["kind"] == "event").collect();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["event"], &events[0]["subject"]), (&"link_down".into(), &"far".into()));
}

#[test]
fn a_removed_interface_ends_a_run_on_the_command_line() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.pcapng");
    for workers in ["1", "3"] {
        let child = net.start(&["-i", "far", "-j", "-w", text(&copy), "--workers", workers]);
        let sent = net.send(500);
        net.ip(&net.there, &["link", "del", "far"]);
        let ran = finish(child).exits(2).says("far: removed");
        let (offered, caught, dropped) = ledger(&ran);
        assert_eq!((offered, caught, dropped), (sent, sent, 0));
        let copied = weir([text(&copy), "-j"]).exits(0);
        assert_eq!(copied.fact("ledger", "caught"), sent);
        let file = copied.json().into_iter().find(|line| line["kind"] == "input");
        assert!(file.is_some_and(|file| file["in_order"] == true), "{workers} workers");
        net.link();
    }
}

/// With one interface left the run continues.
#[test]
fn a_run_ends_when_its_last_interface_is_removed() {
    let Some(net) = Net::new() else { return };
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    let folder = tempfile::tempdir().unwrap();
    let errors = folder.path().join("stderr");
    let mut command = net.weir(&["-i", "far", "-i", "lo", "-j"]);
    let child =
        net.listening(command.stdout(Stdio::piped()).stderr(File::create(&errors).unwrap()).spawn().unwrap());
    let reports = |words: &str| eventually(|| fs::read_to_string(&errors).unwrap().contains(words));
    net.ip(&net.there, &["link", "del", "far"]);
    assert!(reports("far: was removed"), "{}", fs::read_to_string(&errors).unwrap());
    net.link();
    assert!(reports("far: has returned"), "{}", fs::read_to_string(&errors).unwrap());
    let sent = net.send(40);
    signal(&child, "INT");
    assert_eq!(ledger(&finish(child).exits(130)).0, sent);
}

#[test]
fn a_service_waits_for_a_removed_interface() {
    let Some(net) = Net::new() else { return };
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    let folder = tempfile::tempdir().unwrap();
    let (errors, store) = (folder.path().join("stderr"), folder.path().join("store"));
    let mut command = net.weir(&["serve", "-i", "far", "--store", text(&store)]);
    let child =
        net.listening(command.stdout(Stdio::piped()).stderr(File::create(&errors).unwrap()).spawn().unwrap());
    let reports = |words: &str| eventually(|| fs::read_to_string(&errors).unwrap().contains(words));
    let mut sent = net.send(10);
    net.ip(&net.there, &["link", "del", "far"]);
    assert!(reports("far: was removed: waiting"), "{}", fs::read_to_string(&errors).unwrap());
    net.link();
    assert!(reports("far: has returned"), "{}", fs::read_to_string(&errors).unwrap());
    sent += net.send(40);
    signal(&child, "INT");
    finish(child).exits(130).prints(&format!("analysed {sent}"));
}

/// Each of these signals ends the run after everything received is analysed and written.
#[test]
fn signals_that_end_a_run_cause_no_loss() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.pcapng");
    // A signal that is ignored at the start, as under nohup(1), stays ignored.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let hangup = (u64::from_str_radix(ignored, 16).unwrap() & 1 == 0).then_some("HUP");
    for name in ["TERM", "QUIT", "USR1", "XFSZ"].into_iter().chain(hangup) {
        let child = net.start(&["-i", "far", "-j", "-w", text(&copy)]);
        let sent = net.send(2000);
        signal(&child, name);
        let ran = finish(child).exits(130);
        assert_eq!(ledger(&ran), (sent, sent, 0), "{name}");
        assert_eq!(weir([text(&copy), "-j"]).exits(0).quietly().fact("ledger", "caught"), sent, "{name}");
    }
}

/// As `weir -i far | head -1`: the run ends silently, and everything received is written.
#[test]
fn a_live_run_ends_when_the_reader_of_its_lines_closes_the_pipe() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.pcapng");
    let mut child = net.start(&["-i", "far", "-l", "-w", text(&copy)]);
    let sent = net.send(300);
    let mut first = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    assert!(first.contains(" UTC  "), "{first}");
    drop(lines);
    finish(child).exits(0).quietly();
    assert_eq!(weir([text(&copy), "-j"]).exits(0).quietly().fact("ledger", "caught"), sent);
}

/// As `weir -i far -w - | head -c 100`.
#[test]
fn a_live_run_ends_when_the_reader_of_its_packets_closes_the_pipe() {
    let Some(net) = Net::new() else { return };
    let mut child = net.start(&["-i", "far", "-w", "-"]);
    net.send(300);
    let mut beginning = [0; 100];
    let mut packets = child.stdout.take().unwrap();
    packets.read_exact(&mut beginning).unwrap();
    drop(packets);
    net.send(300);
    finish(child).exits(0).quietly();
}

/// A reader gets at least the packets that it would get from tcpdump: all at a rate that both keep up with, and as
/// many as are kept for it of a burst that passes while it does not read. How much of a burst a reader gets while it
/// reads depends on the scheduler; there the packets that it gets and those that are stated as missing are all. A machine that is
/// busy with something else may lose packets before they reach either program: those are counted, too.
#[test]
fn a_reader_gets_at_least_the_packets_that_tcpdump_passes() {
    let Some(net) = Net::new() else { return };
    if Command::new("tcpdump").arg("--version").output().is_err() {
        println!("skipped: tcpdump is absent");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let taken = |mut command: Command, packets: u64, pause: u64, stalls: bool| {
        let mut child = net.listening(start(&mut command));
        let mut from = child.stdout.take().unwrap();
        let (reads, waits) = std::sync::mpsc::channel::<()>();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = waits.recv();
            from.read_to_end(&mut bytes).unwrap();
            bytes
        });
        if !stalls {
            reads.send(()).unwrap();
        }
        let sent = Net::sent(net.begin_to_send_large(packets, pause));
        drop(reads);
        // tcpdump loses the packets that are in its ring when it is interrupted.
        thread::sleep(Duration::from_secs(2));
        signal(&child, "INT");
        let ran = finish(child);
        let copy = put(folder.path(), "copy.pcap", &reader.join().unwrap());
        let caught = weir([text(&copy), "-j", "-s", "0"]).exits(0).quietly().fact("ledger", "caught");
        (sent, caught, ran)
    };
    let tcpdump = || {
        let mut command = net.inside(&net.there, "tcpdump");
        command.args(["-i", "far", "-w", "-"]);
        command
    };
    let ours = |packets, pause, stalls| {
        let logs = folder.path().join("logs");
        let mut command = net.weir(&["-i", "far", "-w", "-", "--log", "prometheus"]);
        command.arg("-o").arg(&logs);
        let (sent, ours, ran) = taken(command, packets, pause, stalls);
        let metrics = std::fs::read_to_string(logs.join("weir.prom")).unwrap();
        let dropped = metrics.lines().find_map(|line| line.strip_prefix("weir_dropped_packets_total "));
        let dropped: u64 = dropped.unwrap().parse().unwrap();
        println!("{sent} sent, {ours} passed on, {dropped} dropped; {}", ran.stderr);
        assert_eq!(ran.code, Some(if ours + dropped == sent { 130 } else { 4 }), "{}", ran.stderr);
        (sent, ours, dropped, ran)
    };
    // A thousand per second, then a burst while the reader stands still.
    for (packets, pause, stalls) in [(4_000, 100_000, false), (60_000, 0, true)] {
        let (_, theirs, _) = taken(tcpdump(), packets, pause, stalls);
        let (_, ours, ..) = ours(packets, pause, stalls);
        assert!(ours >= theirs, "{ours} passed on, {theirs} by tcpdump");
    }
    let (sent, passed, dropped, ran) = ours(60_000, 0, false);
    let stated = ran.stderr.split_whitespace().nth(2).map_or(0, |n| n.replace(',', "").parse().unwrap());
    assert_eq!(passed + stated + dropped, sent, "{}", ran.stderr);
}

#[test]
fn the_error_for_a_missing_interface_lists_the_existing_ones() {
    let Some(net) = Net::new() else { return };
    run(&mut net.weir(&["-i", "nosuch0"])).exits(2).says("no interface \"nosuch0\"").says("lo, far, any");
}

#[test]
fn the_error_for_a_missing_privilege_has_the_setcap_command() {
    let program = env!("CARGO_BIN_EXE_weir");
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let able = Command::new("setpriv").args(nobody).args(["test", "-x", program]).status();
    if !is_root() || !able.is_ok_and(|status| status.success()) {
        println!("skipped: nobody(65534) cannot run the program here");
        return;
    }
    let ran = run(Command::new("setpriv").args(nobody).args([program, "-i", "lo"])).exits(2);
    ran.says("sudo setcap cap_net_raw").says(Path::new(program).file_name().unwrap().to_str().unwrap());
}

/// The program on a terminal.
struct Terminal {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: thread::JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl Terminal {
    fn new(net: &Net, arguments: &str) -> Option<Terminal> {
        let program = env!("CARGO_BIN_EXE_weir");
        let line = format!(
            "stty rows {ROWS} cols {COLUMNS}; exec ip netns exec {} {program} {arguments}",
            net.there
        );
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("script");
        command.args(["-qefc", &line, "/dev/null"]).current_dir(folder.path()).env("TERM", "xterm-256color");
        let spawned = command.env("LC_ALL", "C.UTF-8").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else {
            println!("skipped: script(1) is absent");
            return None;
        };
        let (shown, mut from) = (Arc::new(Mutex::new(Vec::new())), child.stdout.take().unwrap());
        let to = Arc::clone(&shown);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                to.lock().unwrap().extend(&bytes[..n]);
            }
        });
        Some(Terminal { child: net.listening(child), shown, reader, folder })
    }

    /// Presses keys, and waits until the screen shows the text.
    #[track_caller]
    fn press(&mut self, keys: &str, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
        self.shows(text);
    }

    /// Waits until the screen shows the text.
    #[track_caller]
    fn shows(&self, text: &str) {
        assert!(eventually(|| self.screen().contains(text)), "no {text:?} on:\n{}", self.screen());
    }

    /// The present content of the screen.
    fn screen(&self) -> String {
        screen(&String::from_utf8_lossy(&self.shown.lock().unwrap()))
    }

    /// Waits for the end. Returns the exit code, the remaining text on the normal screen, and the folder of the run.
    fn end(mut self) -> (Option<i32>, String, tempfile::TempDir) {
        let code = wait(&mut self.child).expect("the program ends");
        self.reader.join().expect("the output is read");
        let shown = String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned();
        assert!(shown.contains("\u{1b}[?1049h"), "the alternate screen was entered");
        let (_, after) = shown.rsplit_once("\u{1b}[?1049l").expect("the alternate screen was left");
        assert!(shown.contains("\u{1b}[?25h"), "the cursor is visible");
        (code, after.to_owned(), self.folder)
    }
}

const ROWS: usize = 40;
const COLUMNS: usize = 120;

/// The content of a terminal after these bytes: text, cursor positions and erasing are interpreted, colours skipped.
fn screen(bytes: &str) -> String {
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    let (mut row, mut column) = (0, 0);
    let mut letters = bytes.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' if letters.next() == Some('[') => {
                let mut numbers = String::new();
                let last = letters.find(|letter| {
                    numbers.push(*letter);
                    letter.is_ascii_alphabetic()
                });
                let mut numbers =
                    numbers.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<usize>().unwrap_or(1));
                match last {
                    Some('H') => {
                        let mut next = || numbers.next().unwrap_or(1).max(1) - 1;
                        (row, column) = (next(), next());
                    }
                    Some('J') => cells = vec![vec![' '; COLUMNS]; ROWS],
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            letter if !letter.is_control() => {
                if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = letter;
                }
                column += 1;
            }
            _ => {}
        }
    }
    cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
}

#[test]
fn a_file_of_the_screen_is_beside_that_of_the_command_line() {
    let Some(net) = Net::new() else { return };
    let Some(mut terminal) = Terminal::new(&net, "-i far -w all.pcapng") else { return };
    terminal.shows("[1 overview]");
    let mut sent = net.send(100);
    terminal.shows("offered 100");
    terminal.press("w", "WRITING weir-");
    let keyed = |folder: &Path| -> Vec<PathBuf> {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.to_string_lossy().contains("weir-")).collect()
    };
    assert!(eventually(|| !keyed(terminal.folder.path()).is_empty()), "a file is started");
    thread::sleep(Duration::from_millis(2500));
    let between = net.send(300);
    terminal.shows("offered 400");
    terminal.press("w", " written");
    sent += between + net.send(200);
    terminal.shows("offered 600");
    terminal.child.stdin.as_mut().unwrap().write_all(b"q").unwrap();
    let (code, after, folder) = terminal.end();
    assert_eq!(code, Some(0), "{after}");
    let caught = |path: &Path| weir([text(path), "-j"]).exits(0).fact("ledger", "caught");
    let keyed = keyed(folder.path());
    let [file] = keyed.as_slice() else { panic!("not one file: {keyed:?}") };
    assert_eq!((caught(file), caught(&folder.path().join("all.pcapng"))), (between, sent));
}

#[test]
fn the_full_screen_reacts_to_every_key_and_restores_the_terminal() {
    let Some(net) = Net::new() else { return };
    let Some(mut terminal) = Terminal::new(&net, "-i far") else { return };
    terminal.shows("[1 overview]");
    net.send(1000);
    terminal.shows("10.77.0.9");
    for (key, pane, text) in [
        ("2", "[2 talkers]", "TALKERS"),
        ("3", "[3 services]", "udp/9"),
        ("4", "[4 hosts]", "10.77.0.1"),
        ("5", "[5 findings]", "FINDINGS"),
        ("6", "[6 flows]", "FLOWS"),
        ("7", "[7 protocols]", "IP PROTOCOLS"),
        ("8", "[8 errors]", "DECODE ERRORS"),
        ("9", "[9 ledger]", "LEDGER"),
        ("1", "[1 overview]", "TALKERS"),
    ] {
        terminal.press(key, pane);
        terminal.shows(text);
    }
    assert!(!terminal.screen().contains("PAUSED"));
    terminal.press("p", "PAUSED");
    terminal.press("p2", "by bits/s now");
    terminal.press("o", "by packets/s now");
    terminal.press("o", "by total bytes");
    // An expression with an error stays in the editor, with the cursor at the error. Backspace deletes the space before it.
    terminal.press("/", "/");
    terminal.press("udp prt 9\r", "expected");
    terminal.press("\u{7f}", "/udpprt 9");
    terminal.press("\u{1b}", "q quit");
    terminal.press("4", "HOSTS");
    terminal.press("\u{1b}[B\r", "DETAILS");
    terminal.press("\u{1b}", "HOSTS");
    terminal.press("1", "TALKERS");
    // The file begins at the tick after next.
    terminal.press("w", "WRITING weir-");
    let begun = || fs::read_dir(terminal.folder.path()).unwrap().count() > 0;
    assert!(eventually(begun), "a file is started");
    thread::sleep(Duration::from_millis(2500));
    let sent = net.send(300);
    terminal.shows("offered 1,300");
    terminal.press("w", " written");
    terminal.press("?", "KEYS");
    terminal.press("?", "by total bytes");
    terminal.shows("LOSS none   offered 1,300");
    terminal.child.stdin.as_mut().unwrap().write_all(b"q").unwrap();
    let (code, after, folder) = terminal.end();
    assert_eq!(code, Some(0), "{after}");
    assert!(
        after.contains("far  live") && after.contains("1,300 packets") && after.contains("LOSS"),
        "{after}"
    );
    let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.collect();
    let [file] = files.as_slice() else { panic!("not one file: {files:?}") };
    assert_eq!(weir([text(file), "-j"]).exits(0).fact("ledger", "caught"), sent);
}

#[test]
fn an_interrupt_restores_the_terminal() {
    let Some(net) = Net::new() else { return };
    for (signalled, expected) in [(false, 0), (true, 130)] {
        let Some(mut terminal) = Terminal::new(&net, "-i far") else { return };
        terminal.shows("[1 overview]");
        net.send(100);
        if signalled {
            let inside = format!("ip netns pids {} | xargs kill -s INT", net.there);
            assert!(Command::new("sh").args(["-c", &inside]).status().unwrap().success());
        } else {
            terminal.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        }
        let (code, after, _) = terminal.end();
        assert_eq!(code, Some(expected), "{after}");
        assert!(after.contains("100 packets") && after.contains("LOSS"), "{after}");
    }
}

/// Runs that share a store count equal hosts once, because the key of the hashes belongs to the store. Without the file of the key
/// counts of two keys are never added: the answer gives the least and the most.
#[test]
fn a_host_counts_once_over_all_runs_of_a_store() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let count = || {
        // The kernel sends a little of IPv6 when it likes.
        let child = net.start(&["-i", "far", "-q", "-o", text(&store), "--log", "store", "ip"]);
        net.send(50);
        signal(&child, "INT");
        finish(child).exits(130);
        let answer = weir(["query", "distinct", "-d", text(&store), "--json"]).exits(0).stdout;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        let rows = answer["rows"].as_array().unwrap().clone();
        assert!(rows.len() >= 3, "{answer}");
        rows.iter()
            .map(|row| (row[0].to_string(), row[2].as_u64().unwrap(), row[3].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let first = count();
    assert!(first.iter().all(|(_, least, most)| *least > 0 && least == most), "{first:?}");
    assert_eq!(count(), first);
    fs::remove_file(store.join("seed")).unwrap();
    for (row, before) in count().into_iter().zip(&first) {
        assert_eq!((row.1, row.2), (before.1, 2 * before.1), "{}", row.0);
    }
}
