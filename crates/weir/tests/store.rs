//! The store through the program: what is asked of it is what the capture has, and a killed process leaves it whole.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use rusqlite::Connection;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use support::*;

fn query(folder: &Path, question: &str) -> Value {
    let ran = weir(["query", "-d", text(folder), "-j", question]).exits(0).quietly();
    serde_json::from_str(&ran.text()).unwrap()
}

fn sample() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sample/sample.pcap")
}

#[test]
fn what_is_asked_of_a_store_is_what_the_capture_has() {
    let folder = tempfile::tempdir().unwrap();
    let capture = sample();
    weir([text(&capture), "-o", text(folder.path()), "--log", "store", "-q"]).exits(0);
    // Expressions that a flow's key decides: the packets of its flows are those that match.
    for expression in
        ["tcp port 80", "udp port 53", "ip6 and tcp", "tcp and host 10.99.0.104", "tcp and not port 22"]
    {
        let counted = weir(["count", text(&capture), "-e", expression, "-j"]).exits(0).json();
        let truth = counted.iter().find(|line| line["packets"].is_u64()).unwrap();
        let answer = query(folder.path(), &format!("count where {expression}"));
        let row = &answer["rows"][0];
        assert_eq!(
            (&row[1], &row[2]),
            (&truth["packets"], &truth["bytes"]),
            "{expression}: {answer} {truth}"
        );
    }
    let facts = weir([text(&capture), "-j"]).exits(0).json();
    let sources = facts.iter().find(|line| line["subscription"] == "sources").unwrap();
    let answer = query(folder.path(), "top src limit 3");
    for at in 0..3 {
        let (row, truth) = (&answer["rows"][at], &sources["rows"][at]);
        assert_eq!(
            (&row[0], &row[1], &row[4]),
            (&truth["label"], &truth["bytes"], &truth["error"]),
            "{answer}"
        );
    }
    let web = query(folder.path(), "records http limit 100 text weir.test");
    assert!(web["rows"].as_array().unwrap().len() > 10, "{web}");
    weir(["query", "-d", text(folder.path()), "flows where len > 9"]).exits(1).says("packets alone");
    weir(["query", "-d", "/nowhere", "flows"]).exits(2).says("no store");
    let csv = weir(["query", "-d", text(folder.path()), "--csv", "top service limit 2"]).exits(0).text();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    weir(["store", "state", "-d", text(folder.path())]).exits(0).prints("when all tiers are full");
    weir(["store", "series", "-d", text(folder.path())]).exits(0).prints("ledger/caught  packets/s");
}

#[test]
fn series_are_written_as_other_tools_read_them() {
    let folder = tempfile::tempdir().unwrap();
    weir([text(&sample()), "-o", text(folder.path()), "--log", "store", "-q", "--interval", "1s"]).exits(0);
    let rrd = folder.path().join("rrd");
    weir(["store", "export", "-d", text(folder.path()), "--rrd", text(&rrd), "-s", "ledger/caught"]).exits(0);
    let xml = std::fs::read_to_string(rrd.join("ledger_caught.xml")).unwrap();
    assert_eq!(xml.matches("<rra>").count(), 12, "four tiers, three functions");
    let metrics = weir(["store", "export", "-d", text(folder.path()), "--prometheus", "-s", "ledger/caught"])
        .exits(0)
        .text();
    assert!(metrics.ends_with("# EOF\n") && metrics.matches("weir_series{").count() > 10, "{metrics}");
    weir(["store", "export", "-d", text(folder.path()), "--prometheus", "-s", "x"])
        .exits(1)
        .says("no series");
    let Ok(restored) = Command::new("rrdtool")
        .args(["restore", text(&rrd.join("ledger_caught.xml")), text(&rrd.join("x.rrd"))])
        .output()
    else {
        println!("skipped: rrdtool is not installed");
        return;
    };
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let mut fetch = Command::new("rrdtool");
    fetch.args([
        "fetch",
        text(&rrd.join("x.rrd")),
        "AVERAGE",
        "-s",
        "1795252799",
        "-e",
        "1795252811",
        "-r",
        "1",
    ]);
    let printed = String::from_utf8(fetch.output().unwrap().stdout).unwrap();
    let values: Vec<f64> = printed
        .lines()
        .filter_map(|line| line.split_once(": ")?.1.trim().parse().ok())
        .filter(|value: &f64| value.is_finite())
        .collect();
    assert!(values.len() > 10 && values.iter().sum::<f64>() > 5000.0, "{printed}");
}

/// A process that is killed while it writes, again and again: nothing is broken, and nothing but the last interval is
/// missing.
#[test]
fn a_killed_process_loses_the_last_interval_at_most() {
    if !is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let mut port = 20_000_u16;
            while !stop.load(Ordering::Relaxed) {
                // Each datagram is a flow of its own.
                port = if port > 60_000 { 20_000 } else { port + 1 };
                if let Ok(socket) = UdpSocket::bind(("127.0.0.1", port)) {
                    let _ = socket.send_to(b"a datagram of weir", "127.0.0.1:9");
                }
                thread::sleep(Duration::from_micros(200));
            }
        })
    };
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let mut before = 0;
    for round in 0..6_u64 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["-i", "lo", "-q", "-o", text(folder.path()), "--log", "store", "--interval", "1s"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let rows = || points(folder.path()).0;
        assert!(
            eventually(|| rows() > before + 1),
            "round {round}: {} intervals after {:?}",
            rows(),
            begun.elapsed()
        );
        // At another moment of its work each time.
        thread::sleep(Duration::from_millis(137 * round % 1000));
        child.kill().unwrap();
        let killed = now();
        child.wait().unwrap();
        let (count, last) = points(folder.path());
        assert!(count > before, "round {round}");
        before = count;
        // An interval is written when it is over, a moment after its end.
        assert!(killed - last < 2.5, "round {round}: killed at {killed}, the last interval ended at {last}");
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "db") {
                let check: String = Connection::open(&path)
                    .unwrap()
                    .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                    .unwrap();
                assert_eq!(check, "ok", "{}", path.display());
            }
        }
        weir(["query", "-d", text(folder.path()), "top src"]).exits(0).prints("127.0.0.1");
    }
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
}

/// Intervals that are written, and the end of the last one in seconds.
fn points(folder: &Path) -> (u64, f64) {
    let path = folder.join("weir.db");
    let Ok(main) = Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY) else {
        return (0, 0.0);
    };
    let count = main.query_row(
        "SELECT count(*) FROM points WHERE tier = 0 AND series = (SELECT id FROM series WHERE name = 'ledger/caught')",
        [],
        |row| row.get::<_, i64>(0),
    );
    let last = main.query_row("SELECT value FROM meta WHERE name = 'last'", [], |row| row.get::<_, i64>(0));
    (count.unwrap_or(0) as u64, last.unwrap_or(0) as f64 / 1e9)
}
