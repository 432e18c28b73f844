//! Scans in captures with known scans.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use support::{sample, weir};

fn scans(arguments: &[&str]) -> Value {
    let path = sample();
    let mut words = vec![path.to_str().unwrap(), "-j"];
    words.extend(arguments);
    let ran = weir(words).exits(0);
    let lines = ran.json().into_iter().filter(|line| line["kind"] == "scans").collect::<Vec<_>>();
    assert_eq!(lines.len(), 1);
    lines[0]["scans"].clone()
}

/// testdata/sample/README.md: h4 tried 60 ports of one address, 8 of them open, and no other host scanned. Its attempt
/// on one port of 30 addresses found only four hosts: no SYN was sent to the others.
#[test]
fn the_sample_has_one_scan() {
    let found = scans(&[]);
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["source"], &found[0]["target"]), (&"10.99.0.104".into(), &"10.99.0.3".into()));
    // 52 of the scan, and port 445 of the other attempt.
    assert_eq!((&found[0]["failed"], &found[0]["refused_flows"]), (&53.into(), &53.into()));
    weir([sample()]).exits(0).prints("\nFINDINGS  10.99.0.104 -> 10.99.0.3  53 ports (");
}

#[test]
fn scans_do_not_depend_on_workers_and_intervals() {
    let one = scans(&["--workers", "1"]);
    for arguments in [["--workers", "4"], ["--interval", "1s"]] {
        assert_eq!(scans(&arguments), one, "{arguments:?}");
    }
}

#[test]
fn the_summary_without_scans_has_no_line_for_them() {
    let ran = weir([sample().to_str().unwrap(), "port 80"]).exits(0);
    assert!(!ran.text().contains("FINDINGS"), "{}", ran.text());
}
