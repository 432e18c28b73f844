//! The law of time: every stored interval, at every tier, has the packets that the capture has in it; silence is zero, and
//! time that was not watched has no value. The tests count packets independently, by their times alone.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, Pass, each_capture, settings};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use support::net::*;
use support::*;
use weir_api::{FunctionCall, SubscriptionSpec};
use weir_engine::Plan;
use weir_output::{Existing, Output, OutputContext};
use weir_store::sqlite::{SqliteStore, Writer};
use weir_store::{Keep, SERIES, Store, TimeRange, counter_id};
use weir_wire::build;

const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;
/// 2026-11-22 00:00 UTC, in nanoseconds since the epoch.
const SUNDAY: u64 = 1_795_305_600 * SECOND;

/// Time and bytes of each packet, in the order of the capture.
type Packets = Vec<(u64, u64)>;

fn of_capture(capture: &Loaded) -> Packets {
    capture.packets().map(|packet| (packet.time.0, u64::from(packet.wire_len))).collect()
}

/// Packets and bytes in `[from, from + length)`.
fn count(packets: &Packets, from: u64, length: u64) -> (u64, u64) {
    let within = packets.iter().filter(|(time, _)| (from..from.saturating_add(length)).contains(time));
    within.fold((0, 0), |(count, bytes), (_, size)| (count + 1, bytes + size))
}

/// Compares the cells of every tier with the packets, from the time from which the tier is complete. Returns the number of
/// cells.
#[track_caller]
fn cells_are_what_was_captured(folder: &Path, packets: &Packets, interval: u64) -> usize {
    let main = Connection::open(folder.join("weir.db")).unwrap();
    let number = |name: &str| {
        let text = "SELECT ifnull((SELECT value FROM meta WHERE name = ?1), 0)";
        main.query_row(text, [name], |row| row.get::<_, i64>(0)).unwrap() as u64
    };
    let mut compared = 0;
    for (at, tier) in SERIES.iter().enumerate() {
        let length = if at == 0 { interval } else { tier.cell.length() };
        let since = number(&format!("since points {at}"));
        let mut truth: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (time, size) in packets {
            let cell = truth.entry(time - time % length).or_default();
            *cell = (cell.0 + 1, cell.1 + size);
        }
        for (name, factor, is_bytes) in [("caught", 1, false), ("bytes", 8, true)] {
            let mut query = main
                .prepare(
                    "SELECT time, seconds, sum FROM points WHERE tier = ?1 AND time >= ?2
                     AND series = (SELECT id FROM series WHERE name = ?3)",
                )
                .unwrap();
            let rows = query
                .query_map(params![at as i64, since as i64, counter_id(name)], |row| {
                    Ok((row.get::<_, i64>(0)? as u64, row.get::<_, f64>(1)?, row.get::<_, f64>(2)?))
                })
                .unwrap();
            let mut found = BTreeMap::new();
            for row in rows {
                let (time, seconds, sum) = row.unwrap();
                assert!(seconds <= length as f64 / 1e9 + 1e-6, "{name} {}: {seconds} s at {time}", tier.name);
                assert!(found.insert(time, sum as u64 / factor).is_none());
            }
            let expected: BTreeMap<u64, u64> = truth
                .iter()
                .filter(|(time, cell)| **time >= since && (!is_bytes || cell.1 > 0))
                .map(|(time, cell)| (*time, if is_bytes { cell.1 } else { cell.0 }))
                .collect();
            assert_eq!(found, expected, "{name} in cells of {}", tier.name);
            compared += found.len();
        }
    }
    compared
}

/// Runs of watched time.
fn watched(folder: &Path) -> Vec<(u64, u64)> {
    let main = Connection::open(folder.join("weir.db")).unwrap();
    let mut query = main.prepare("SELECT start, stop FROM watched ORDER BY start").unwrap();
    let rows = query.query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)));
    rows.unwrap().map(Result::unwrap).collect()
}

/// Packets per second of each interval between two times; `None` where nothing was watched.
fn rates(folder: &Path, from: u64, to: u64, interval: u64) -> Vec<Option<f64>> {
    let store = SqliteStore::open(folder, None).unwrap();
    let span = TimeRange { from: Some(from), to: Some(to) };
    let points = ((to - from) / interval) as usize;
    let data = store.points(&[counter_id("caught")], span, points).unwrap();
    assert_eq!((data.step, data.times[0]), (interval as f64 / 1e9, from as f64 / 1e9));
    data.series[0].avg.clone()
}

/// Runs the program over captures. Returns the folder of its store.
fn stored(folder: &Path, captures: &[PathBuf], interval: &str, workers: &str) -> PathBuf {
    let out = folder.join(format!("store of {workers}"));
    let mut arguments: Vec<&str> = captures.iter().map(|path| text(path)).collect();
    arguments.extend([
        "-q",
        "-o",
        text(&out),
        "--log",
        "store",
        "--interval",
        interval,
        "--workers",
        workers,
    ]);
    let ran = weir(arguments);
    assert!(matches!(ran.code, Some(0 | 2 | 3)), "{:?}: {:?} {}", captures, ran.code, ran.stderr);
    out
}

fn frame(n: u64) -> Vec<u8> {
    build::ethernet()
        .ipv4([10, 0, 0, (n % 7) as u8], [192, 0, 2, 1])
        .udp(4000 + n as u16 % 9, 53)
        .payload(&[1; 20])
}

fn made(times: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let packets: Vec<(u64, Vec<u8>)> = times.into_iter().zip(0..).map(|(time, n)| (time, frame(n))).collect();
    pcap(1, &packets)
}

/// Names and packet times of made captures.
fn cases() -> Vec<(&'static str, Vec<u64>)> {
    let bursts = (0..12).flat_map(|burst| (0..60).map(move |n| SUNDAY + burst * 300 * SECOND + n * SECOND));
    let sparse = (0..629).map(|n| SUNDAY + n * 15 * DAY / 629 + n * n % 1000 * 1_000_000);
    let around = |noon: u64| (0..96).map(move |n| noon - DAY + n * HOUR / 2 + n);
    // The last Sundays of March and October 2026: local clocks change, UTC does not.
    let clocks = around(1_774_746_000 * SECOND).chain(around(1_792_890_000 * SECOND));
    let mut backward: Vec<u64> = (0..200).map(|n| SUNDAY + n * 7 * SECOND).collect();
    backward.extend((0..200).map(|n| SUNDAY + n * 7 * SECOND + 200 * 7 * SECOND - HOUR));
    let mut ancient: Vec<u64> = (0..100).map(|n| SUNDAY + n * 11 * SECOND).collect();
    ancient.insert(50, 12 * SECOND);
    let mut future: Vec<u64> = (0..100).map(|n| SUNDAY + n * 11 * SECOND).collect();
    future.insert(50, SUNDAY + 20 * 365 * DAY);
    let two = (0..400).map(|n| SUNDAY + n / 2 * 10 * SECOND + n % 2 * HOUR);
    let reordered = (0..600_u64).map(|n| SUNDAY + (n ^ 1) * 5 * SECOND + n);
    vec![
        ("bursts", bursts.collect()),
        ("fifteen days", sparse.collect()),
        ("clock changes", clocks.collect()),
        ("back by an hour", backward),
        ("a packet of 1970", ancient),
        ("a packet of the future", future),
        ("two hours alternating", two.collect()),
        ("pairs in reverse order", reordered.collect()),
        ("one packet", vec![SUNDAY + 1]),
        (
            "a step of a week",
            vec![SUNDAY, SUNDAY + 40 * SECOND, SUNDAY + 7 * DAY, SUNDAY + 7 * DAY + 90 * SECOND],
        ),
    ]
}

#[test]
fn every_made_capture_is_stored_as_it_is() {
    for (name, times) in cases() {
        let folder = tempfile::tempdir().unwrap();
        let capture = put(folder.path(), "x.pcap", &made(times.iter().copied()));
        let packets = of_capture(&Loaded::read(&capture));
        assert_eq!(packets.len(), times.len());
        for workers in ["1", "3"] {
            let out = stored(folder.path(), std::slice::from_ref(&capture), "30s", workers);
            let compared = cells_are_what_was_captured(&out, &packets, 30 * SECOND);
            println!("{name}, {workers} workers: {compared} cells, {} runs", watched(&out).len());
            // Older cells are no longer stored.
            let kept = packets.iter().map(|(time, _)| time).max().unwrap() - 3653 * DAY;
            for (time, _) in packets.iter().filter(|(time, _)| *time >= kept) {
                let is_in = |(from, to): &(u64, u64)| (from..to).contains(&time);
                assert!(watched(&out).iter().any(is_in), "{name}: {time} was watched");
            }
        }
    }
}

#[test]
fn silence_is_zero_and_what_was_not_watched_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let times = cases().remove(0).1;
    let capture = put(folder.path(), "x.pcap", &made(times));
    let out = stored(folder.path(), &[capture], "30s", "1");
    let rates_of_hour = rates(&out, SUNDAY, SUNDAY + HOUR, 30 * SECOND);
    for (at, rate) in rates_of_hour.iter().enumerate() {
        let expected = match at {
            at if at >= 112 => None,
            // The capture ends with its last packet, a second before the interval does.
            111 => Some(30.0 / 29.0),
            at if at % 10 < 2 => Some(1.0),
            _ => Some(0.0),
        };
        assert_eq!(*rate, expected, "{at}");
    }
    assert_eq!(watched(&out), [(SUNDAY, SUNDAY + 112 * 30 * SECOND)]);
    // Half an hour has 360 packets, 0.2 per second.
    assert_eq!(rates(&out, SUNDAY, SUNDAY + HOUR / 2, HOUR / 2), [Some(0.2)]);
    // A step of a week is not silence.
    let times = cases().pop().unwrap().1;
    let capture = put(folder.path(), "y.pcap", &made(times));
    let out = stored(folder.path(), &[capture], "30s", "2");
    let week = SUNDAY + 7 * DAY;
    assert_eq!(watched(&out), [(SUNDAY, SUNDAY + 60 * SECOND), (week, week + 120 * SECOND)]);
    assert_eq!(rates(&out, week, week + 120 * SECOND, 30 * SECOND)[1..3], [Some(0.0), Some(0.0)]);
}

#[test]
fn time_between_files_was_not_watched() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(sample()).unwrap();
    let original = of_capture(&Loaded::read(&sample()));
    let (first, last) = (original[0].0, original.last().unwrap().0);
    let (mut paths, mut packets) = (Vec::new(), Vec::new());
    for copy in 0..3 {
        let mut shifted = bytes.clone();
        let mut at = 24;
        // In a classic file the time in seconds is the first field of each record.
        while at < shifted.len() {
            let word = |at: usize| u32::from_le_bytes(shifted[at..at + 4].try_into().unwrap());
            let (seconds, length) = (word(at), word(at + 8));
            shifted[at..at + 4].copy_from_slice(&(seconds + copy * 3600).to_le_bytes());
            at += 16 + length as usize;
        }
        paths.push(put(folder.path(), &format!("{copy}.pcap"), &shifted));
        packets.extend(original.iter().map(|(time, size)| (time + u64::from(copy) * HOUR, *size)));
    }
    let out = stored(folder.path(), &paths, "30s", "2");
    cells_are_what_was_captured(&out, &packets, 30 * SECOND);
    let begin = |time: u64| time - time % (30 * SECOND);
    let runs: Vec<(u64, u64)> =
        (0..3).map(|n| (begin(first) + n * HOUR, begin(last) + 30 * SECOND + n * HOUR)).collect();
    assert_eq!(watched(&out), runs);
    let rates = rates(&out, runs[0].0, runs[2].1, 30 * SECOND);
    let is_watched = |at: usize| {
        let time = runs[0].0 + at as u64 * 30 * SECOND;
        runs.iter().any(|(from, to)| (from..to).contains(&&time))
    };
    for (at, rate) in rates.iter().enumerate() {
        assert_eq!(rate.is_some(), is_watched(at), "{at}");
    }
    // The first interval is watched from the first packet on, the last one up to the last packet.
    let end = last + 2 * HOUR;
    let seconds = |at: usize| {
        let start = runs[0].0 + at as u64 * 30 * SECOND;
        ((start + 30 * SECOND).min(end) - start.max(first)) as f64 / SECOND as f64
    };
    let sum: f64 = rates.iter().enumerate().filter_map(|(at, rate)| Some((*rate)? * seconds(at))).sum();
    assert!((sum - packets.len() as f64).abs() < 1e-6, "{sum}");
}

/// The number of rows depends on the number of packets, not on the captured time.
#[test]
fn silence_costs_no_rows() {
    let rows = |days: u64| {
        let folder = tempfile::tempdir().unwrap();
        let capture = put(folder.path(), "x.pcap", &made((0..600).map(|n| SUNDAY + n * days * DAY / 600)));
        let out = stored(folder.path(), &[capture], "30s", "1");
        let main = Connection::open(out.join("weir.db")).unwrap();
        let count = |table: &str| {
            main.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0)).unwrap()
        };
        println!("600 packets in {days} days: {} points, {} readings", count("points"), count("readings"));
        assert_eq!(count("watched"), 1);
        let series = count("series");
        // Each tier has at most one cell per packet and series with data.
        assert!(count("points") < 600 * 4 * 20, "{} of {series} series", count("points"));
        count("points") + count("readings")
    };
    let (short, long) = (rows(1), rows(30));
    assert!(long < 3 * short, "{long} rows of thirty days against {short} of one");
}

/// Runs the pass in this process, over every capture in testdata and ../shared/data.
#[test]
fn every_capture_is_stored_as_it_is() {
    let spec = SubscriptionSpec::new("all", "", vec![FunctionCall::new("packets")]);
    let plan = Arc::new(Plan::counting(vec![spec], settings()).unwrap());
    let cells = std::cell::Cell::new(0);
    let cases = each_capture(|_, capture| {
        let packets = of_capture(capture);
        if packets.is_empty() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let keep = Keep { free: 0, series: [u64::MAX >> 1; SERIES.len()], ..Keep::default() };
        let context = OutputContext {
            directory: folder.path().to_owned(),
            existing: Existing::Replace,
            interval: SECOND,
            ..OutputContext::default()
        };
        let mut store = Writer::open(&context, keep).unwrap();
        let pass = Pass::new(&plan, 2, 1 << 20).run(capture, SECOND, |_| ());
        pass.snapshots.iter().for_each(|snapshot| store.interval(snapshot).unwrap());
        store.finish().unwrap();
        // Later times do not fit into the database, and are clipped.
        assert!(packets.iter().all(|(time, _)| *time <= weir_capture::LATEST.0));
        cells.set(cells.get() + cells_are_what_was_captured(folder.path(), &packets, SECOND));
        let (all, _) = count(&packets, 0, u64::MAX);
        assert_eq!(all, packets.len() as u64);
    });
    println!("{} cells of {cases} captures", cells.get());
}

/// A question to a name server (RFC 1035, section 4.1) in a frame of its own flow.
fn question(n: u64) -> Vec<u8> {
    let mut payload = vec![0, n as u8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let name = format!("host{n}");
    payload.push(name.len() as u8);
    payload.extend(name.bytes());
    payload.extend(b"\x07example\x03org\0\0\x01\0\x01");
    build::ethernet().ipv4([10, 0, 0, n as u8], [192, 0, 2, 53]).udp(20_000 + n as u16, 53).payload(&payload)
}

/// An attempt to connect, which is not answered.
fn attempt(n: u64) -> Vec<u8> {
    build::ethernet()
        .ipv4([10, 0, 1, n as u8], [192, 0, 2, 80])
        .tcp(30_000 + n as u16, 80, build::flags::SYN)
        .payload(&[])
}

/// Times and data of packets.
type Timed = Vec<(u64, Vec<u8>)>;

/// A datagram of no protocol.
fn datagram(n: u64) -> Vec<u8> {
    build::ethernet().ipv4([10, 0, 2, n as u8], [192, 0, 2, 9]).udp(40_000 + n as u16, 9).payload(&[1; 20])
}

/// Captures with silences shorter than a day, after which flows have ended whose time was up in them.
fn captures_with_silence() -> Vec<(&'static str, Timed)> {
    let every = |step: u64, count: u64| {
        (0..count).flat_map(move |n| {
            let at = SUNDAY + n * step;
            [(at, question(n)), (at + 3 * SECOND, attempt(n)), (at + 29 * SECOND, datagram(n))]
        })
    };
    let bursts =
        every(10 * SECOND, 40).chain(every(10 * SECOND, 40).map(|(time, data)| (time + 7 * HOUR, data)));
    // Flows whose time is up exactly where an interval ends.
    let edges = (0..20).flat_map(|n| {
        let end = SUNDAY + n * 600 * SECOND;
        [(end, attempt(n)), (end + 25 * SECOND, attempt(n + 20)), (end + 29 * SECOND, question(n))]
    });
    vec![
        ("every two hours", every(2 * HOUR, 12).collect()),
        ("every five minutes", every(300 * SECOND, 50).collect()),
        ("bursts with hours between them", bursts.collect()),
        ("at the ends of intervals", edges.collect()),
    ]
}

const ENDED: [(&str, &str, &str); 2] =
    [("ended flows", "flow", "packets"), ("whole records", "record", "records")];

/// For each of [`ENDED`], packets of flows that ended and number of records in each interval, by a run of the program.
fn ended_by_the_program(folder: &Path, capture: &Path, workers: &str) -> BTreeMap<(String, String), u64> {
    let tables = ENDED.map(|(name, level, function)| {
        format!("[[subscription]]\nname = \"{name}\"\nlevel = \"{level}\"\nchain = [\"{function}\"]\n")
    });
    let configuration = put(folder, "weir.toml", tables.concat().as_bytes());
    let out = folder.join(format!("logs of {workers}"));
    let arguments = ["-q", "-o", text(&out), "--log", "csv", "--interval", "30s", "--workers", workers];
    weir([text(capture), "--config", text(&configuration)].iter().chain(&arguments)).exits(0);
    counted(&out)
}

/// Reads them from the logs of a folder: by name, and start of the interval.
fn counted(folder: &Path) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for (file, column) in [("counts.csv", 6), ("values.csv", 8)] {
        for line in std::fs::read_to_string(folder.join(file)).unwrap_or_default().lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            if ENDED.iter().any(|(name, ..)| *name == cells[2]) {
                let number: u64 = cells[column].parse().unwrap_or_default();
                *counts.entry((cells[2].to_owned(), cells[0].to_owned())).or_default() += number;
            }
        }
    }
    counts.retain(|_, number| *number > 0);
    counts
}

/// The same by a worker for which time passes as on a link: it ticks at the end of each interval, whether packets come or not.
fn ended_on_a_link(packets: &[(u64, Vec<u8>)]) -> BTreeMap<(String, String), u64> {
    let specs = ENDED.map(|(name, level, function)| SubscriptionSpec {
        level: if level == "flow" { weir_api::Level::Flow } else { weir_api::Level::Record },
        ..SubscriptionSpec::new(name, "", vec![FunctionCall::new(function)])
    });
    let plan = Arc::new(Plan::new("", specs.to_vec(), settings()).unwrap());
    let mut worker = weir_engine::Worker::new(plan, &weir_engine::FlowConfig::default());
    let folder = tempfile::tempdir().unwrap();
    let context = OutputContext {
        directory: folder.path().to_owned(),
        existing: Existing::Replace,
        interval: 30 * SECOND,
        ..OutputContext::default()
    };
    let mut csv = (weir_output::OutputSpec::find("csv").unwrap().open)(&context).unwrap();
    let mut add = |start: u64, mut snapshot: weir_api::Snapshot| {
        snapshot.interval = weir_api::Interval { start, end: start + 30 * SECOND };
        snapshot.fill();
        csv.interval(&snapshot).unwrap();
    };
    let mut start = packets[0].0 / (30 * SECOND) * 30 * SECOND;
    let mut nowhere = Nowhere;
    for (time, data) in packets {
        while *time >= start + 30 * SECOND {
            let snapshot = worker.tick(weir_wire::Time(start + 30 * SECOND), &mut nowhere);
            add(start, snapshot);
            start += 30 * SECOND;
        }
        let mut one = weir_wire::PacketBuf::default();
        one.push(&weir_wire::Packet {
            time: weir_wire::Time(*time),
            ..build::packet(data, weir_wire::LinkType::ETHERNET)
        });
        worker.batch(one.batch(), &mut nowhere);
    }
    add(start, worker.finish(&mut nowhere));
    csv.finish().unwrap();
    counted(folder.path())
}

struct Nowhere;

impl weir_engine::Sink for Nowhere {
    fn take(&mut self, _: weir_engine::Emitted<'_>) {}
}

/// Timers run in silence at their own time: flows and records are counted in the interval in which they end, whatever the
/// next packet and the number of workers.
#[test]
fn time_passes_in_silence_as_it_does_on_a_link() {
    for (name, packets) in captures_with_silence() {
        let expected = ended_on_a_link(&packets);
        assert!(
            ENDED.iter().all(|(what, ..)| expected.keys().any(|(known, _)| known == what)),
            "{expected:?}"
        );
        let of_flows = |counts: &BTreeMap<(String, String), u64>| -> BTreeMap<(String, String), u64> {
            counts.clone().into_iter().filter(|((what, _), _)| what == ENDED[0].0).collect()
        };
        let mut first = None;
        let folder = tempfile::tempdir().unwrap();
        let capture = put(folder.path(), "x.pcap", &pcap(1, &packets));
        for workers in ["1", "2", "3", "7"] {
            let found = ended_by_the_program(folder.path(), &capture, workers);
            assert_eq!(of_flows(&found), of_flows(&expected), "{name}, {workers} workers");
            // Logs read more of a flow's payload than the subscription alone, so that records can be complete earlier.
            assert_eq!(
                found.values().sum::<u64>(),
                expected.values().sum::<u64>(),
                "{name}, {workers} workers"
            );
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{name}, {workers} workers");
        }
        println!("{name}: {} packets, {} intervals with ends", packets.len(), expected.len());
    }
}

/// Lists over an hour have the names that were asked in it, as the records of the hour have, though no answer and no other packet
/// followed for two hours.
#[test]
fn lists_of_an_hour_have_what_ended_in_its_silence() {
    let folder = tempfile::tempdir().unwrap();
    let packets: Vec<(u64, Vec<u8>)> = (0..12).map(|n| (SUNDAY + n * 2 * HOUR, question(n))).collect();
    let capture = put(folder.path(), "x.pcap", &pcap(1, &packets));
    for workers in ["1", "3"] {
        let out = stored(folder.path(), std::slice::from_ref(&capture), "30s", workers);
        for hour in 0..24 {
            let range = format!("since 2026-11-22T{hour:02}:00 until 2026-11-22T{hour:02}:59");
            let names = |question: &str| -> Vec<String> {
                let ran = weir(["query", "-d", text(&out), "-j", &format!("{question} {range}")]).exits(0);
                let answer: serde_json::Value = serde_json::from_str(&ran.text()).unwrap();
                let rows = answer["rows"].as_array().unwrap().iter();
                rows.map(|row| row[0].as_str().unwrap().to_owned()).collect()
            };
            let expected: Vec<String> =
                (hour % 2 == 0).then(|| format!("host{}.example.org", hour / 2)).into_iter().collect();
            assert_eq!(names("list names"), expected, "{hour} h, {workers} workers");
            assert_eq!(names("top dns.query"), expected, "{hour} h, {workers} workers");
        }
    }
}

/// Times from 2262 on do not fit into signed nanoseconds: they are clipped, which is said, and no flow is missing in a query.
#[test]
fn times_after_the_latest_are_clipped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = [section(), interface(1)].concat();
    // In microseconds the greatest times are beyond 64 bits of nanoseconds.
    let times = [SUNDAY, SUNDAY + SECOND, i64::MAX as u64 - DAY, i64::MAX as u64 + DAY, u64::MAX - 1];
    for (n, time) in (0..).zip(times) {
        file.extend(enhanced(0, time, &question(n)));
    }
    let capture = put(folder.path(), "x.pcapng", &file);
    for workers in ["1", "3"] {
        let out = folder.path().join(workers);
        let ran =
            weir([text(&capture), "-q", "-o", text(&out), "--log", "store", "--workers", workers]).exits(0);
        let ran = ran.says("3 packets have times after 2262-");
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        let flows = weir(["query", "count flow", "-d", text(&out), "-j"]).exits(0).text();
        let answer: serde_json::Value = serde_json::from_str(&flows).unwrap();
        assert_eq!(answer["rows"][0][0], times.len(), "{answer}");
    }
}

/// Runs in a namespace, in a separate process.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn sender() {
    send_unsegmented();
}

/// The kernel delivers the last packets of a second from one interface after the first packets of the next second from the
/// other. The written packets have the times by which they are counted.
#[test]
fn packets_of_two_links_are_counted_in_the_second_of_their_time() {
    let Some(net) = Net::new() else { return };
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    let folder = tempfile::tempdir().unwrap();
    let (copy, out) = (folder.path().join("copy.pcapng"), folder.path().join("store"));
    let logs = ["-w", text(&copy), "-o", text(&out), "--log", "store", "--interval", "1s"];
    let child = net.start(&[&["-i", "far", "-i", "lo", "--workers", "1", "-q"][..], &logs].concat());
    let senders = [net.begin_to_send(15_000, 20_000), net.begin_to_send_there(15_000, 20_000)];
    let sent: u64 = senders.into_iter().map(Net::sent).sum();
    thread::sleep(Duration::from_millis(200));
    signal(&child, "INT");
    finish(child).exits(130);
    let packets = of_capture(&Loaded::read(&copy));
    assert!(packets.len() as u64 >= sent, "{} of {sent}", packets.len());
    let compared = cells_are_what_was_captured(&out, &packets, SECOND);
    let turned = packets.windows(2).filter(|pair| pair[1].0 / SECOND < pair[0].0 / SECOND).count();
    println!(
        "{} packets, {compared} cells; {turned} times a packet of an earlier second followed",
        packets.len()
    );
}

#[test]
fn the_program_stores_diverse_captures_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for (n, path) in diverse(24).iter().enumerate() {
        let packets = of_capture(&Loaded::read(path));
        if packets.is_empty() {
            continue;
        }
        let folder = folder.path().join(n.to_string());
        std::fs::create_dir(&folder).unwrap();
        let out = stored(&folder, std::slice::from_ref(path), "1s", "3");
        cells_are_what_was_captured(&out, &packets, SECOND);
    }
}
