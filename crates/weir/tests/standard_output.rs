//! One log of lines on standard output: `-o -`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use support::net::*;
use support::*;

/// Runs in a namespace, in a separate process.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn sender() {
    send_unsegmented();
}

/// The file of a log in a folder, and what `-o -` writes, over the sample.
#[track_caller]
fn equals(log: &str, file: &str) {
    let (folder, capture) = (tempfile::tempdir().unwrap(), sample());
    weir([text(&capture), "-q", "-o", text(folder.path()), "--log", log]).exits(0);
    let streamed = weir([text(&capture), "-o", "-", "--log", log]).exits(0).quietly();
    // The first line of ndjson is the command.
    let rows = |text: &str| {
        text.lines().filter(|line| !line.contains("\"kind\":\"run\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (expected, seen) =
        (rows(&fs::read_to_string(folder.path().join(file)).unwrap()), rows(&streamed.text()));
    assert!(expected.len() > 20, "{log}: {}", expected.len());
    assert_eq!(seen, expected, "{log}: lines of the log and nothing else");
    assert_eq!(
        objects(&streamed.text()).len(),
        streamed.text().lines().count(),
        "{log}: each line is an object"
    );
}

#[test]
fn standard_output_gets_the_lines_of_the_file() {
    equals("eve", "eve.json");
    equals("eve:flow+dns", "eve.json");
    equals("ndjson", "weir.ndjson");
    // Without --log it is EVE; `weir x.pcap -o - | jq` needs no further word.
    let capture = sample();
    let given = weir([text(&capture), "-o", "-", "--log", "eve"]).exits(0).text();
    assert_eq!(weir([text(&capture), "-o", "-"]).exits(0).text(), given);
}

#[test]
fn what_cannot_be_on_standard_output_is_refused_with_the_reason() {
    let capture = sample();
    let refused = |more: &[&str], said: &str| {
        let words: Vec<&str> = [text(&capture), "-o", "-"].into_iter().chain(more.iter().copied()).collect();
        let ran = weir(words).exits(1).says(said);
        assert!(ran.stdout.is_empty());
    };
    refused(&["--log", "eve,ndjson"], "these are 2 (eve, ndjson)");
    refused(&["--log", "zeek"], "use eve or ndjson");
    refused(&["--log", "store"], "use eve or ndjson");
    refused(&["--log", "eve", "-w", "-"], "-w - writes packets there");
    refused(&["--log", "eve", "-j"], "--json prints the summary there");
    refused(&["--log", "eve", "--log-rotate", "1h"], "cannot be rotated");
    weir(["open", text(&capture), "-o", "-", "--log", "eve"])
        .exits(1)
        .says("pages print their address there");
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "weir.toml", b"[output]\ndir = \"-\"\nlog = [\"eve\"]\n");
    weir(["config", "check", text(&file)]).exits(1).says("standard output is for -o on the command line");
}

/// As `weir x.pcap -o - | head -1`: no error, and no line was lost that had a reader.
#[test]
fn the_run_ends_with_the_reader_of_its_lines() {
    let capture = sample();
    let mut child = program()
        .args([text(&capture), "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with('{'), "{first}");
    finish(child).exits(0).quietly();
}

/// Lines come while the run goes on, and everything received is on standard output at its end.
#[test]
fn lines_of_a_link_come_while_it_is_watched() {
    let Some(net) = Net::new() else { return };
    let mut child = net.start(&["-i", "far", "-o", "-", "--log", "ndjson", "--interval", "1s"]);
    let sent = net.send(300);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut read = |until: &dyn Fn(&str) -> bool| {
        let mut line = String::new();
        let mut all = String::new();
        while !until(&line) {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the run ended:\n{all}");
            all.push_str(&line);
        }
        all
    };
    let is_interval = |line: &str| line.contains("\"kind\":\"interval\"");
    read(&is_interval);
    let rest = std::thread::spawn({
        signal(&child, "INT");
        move || {
            let mut all = String::new();
            std::io::Read::read_to_string(&mut lines, &mut all).unwrap();
            all
        }
    });
    finish(child).exits(130).quietly();
    let all = rest.join().unwrap();
    let flows = objects(&all).into_iter().filter(|line| line["kind"] == "flow");
    let packets: u64 = flows
        .map(|flow| ["packets", "reverse_packets"].iter().filter_map(|key| flow[key].as_u64()).sum::<u64>())
        .sum();
    assert_eq!(packets, sent, "{all}");
}

/// A reader that stops reading costs lines, which are counted, and no packet.
#[test]
fn a_slow_reader_of_a_link_loses_lines_and_no_packet() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.pcapng");
    let (reader, writer) = full_pipe();
    let mut command = net.weir(&["-i", "far", "-o", "-", "-w", text(&copy)]);
    let child = net.listening(command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap());
    let sent = net.send(20_000);
    signal(&child, "INT");
    finish(child).exits(4).says("standard output: ");
    drop(reader);
    assert_eq!(weir([text(&copy), "-j"]).exits(0).fact("ledger", "caught"), sent);
}
