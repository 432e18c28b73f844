//! Which rules of Emerging Threats alert in which capture, compared with Suricata's answers.
//!
//! `et-open.tsv` has the answers: `lab/suricata answers` writes it. A pair is a capture and a rule that alerted in it.

use crate::support::aside::is_aside;
use crate::support::checks::known_as;
use crate::support::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const ANSWERS: &str = include_str!("et-open.tsv");
/// Required number of pairs that both have: in the captures that are looked at, and in those that are set aside.
const REQUIRED: [usize; 2] = [34, 36];
/// Maximum number of pairs that Weir alone has, in both parts of the captures.
const FURTHER: [usize; 2] = [0, 0];
/// The gate runs the captures in which a rule alerted, and one of this many others.
const SAMPLED: usize = 8;

/// A capture that Suricata reads, and the rules that alerted in it.
struct Answer {
    capture: &'static str,
    rules: BTreeSet<u64>,
}

/// The answers, but for captures that Suricata does not read.
fn answers() -> Vec<Answer> {
    let rows = ANSWERS.lines().filter(|row| !row.starts_with('#'));
    let read = rows.filter_map(|row| {
        let mut cells = row.split('\t');
        let capture = cells.next().unwrap();
        let sid = |cell: &str| cell.split(':').next().unwrap().parse().ok();
        Some(Answer { capture, rules: cells.map(sid).collect::<Option<_>>()? })
    });
    read.collect()
}

/// The variables of the rules, which are `any`, as options.
fn variables() -> Vec<String> {
    let settings = ANSWERS.lines().find(|row| row.contains("--set")).unwrap();
    let names = settings
        .split_whitespace()
        .filter_map(|word| word.rsplit('.').next().filter(|_| word.contains("-groups.")));
    names.flat_map(|variable| ["--rule-var".to_owned(), variable.to_owned()]).collect()
}

/// The rules that alert in a capture, with the settings of the answers: flows of one VLAN, none without a SYN, no checksums.
fn alerted(data: &Path, capture: &str, variables: &[String]) -> BTreeSet<u64> {
    let logs = tempfile::tempdir().unwrap();
    let mut command = program();
    command.arg(data.join(capture)).args(["-q", "-n", "--vlan", "--workers", "1", "--checksum", "off"]);
    command
        .args(["-S", text(&data.join("et-open")), "--suricata-set", "stream.midstream=false"])
        .args(variables);
    command.args(["--log", "eve", "-o", text(logs.path())]);
    let ran = run(command.stdin(std::process::Stdio::null()));
    // A capture may end in its middle, or have a header that only Suricata takes.
    assert!(matches!(ran.code, Some(0 | 1 | 3)), "{capture}: {:?} {}", ran.code, ran.stderr);
    let written = std::fs::read_to_string(logs.path().join("eve.json")).unwrap_or_default();
    let alerts = objects(&written).into_iter().filter(|event| event["event_type"] == "alert");
    // Alerts of Weir itself have another generator.
    alerts
        .filter(|event| event["alert"]["gid"] == 1)
        .filter_map(|event| event["alert"]["signature_id"].as_u64())
        .collect()
}

/// Numbers of pairs, of captures that are looked at and of those that are set aside.
#[derive(Debug, Default)]
struct Pairs {
    both: [usize; 2],
    missed: [usize; 2],
    further: [usize; 2],
}

fn compare(chosen: &[Answer]) -> Pairs {
    let data = root().join("../shared/data");
    let variables = variables();
    let (next, pairs) = (AtomicUsize::new(0), Mutex::new(Pairs::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(Answer { capture, rules }) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ours = alerted(&data, capture, &variables);
                    let part = usize::from(is_aside(known_as(capture)));
                    let mut pairs = pairs.lock().unwrap();
                    pairs.both[part] += rules.intersection(&ours).count();
                    pairs.missed[part] += rules.difference(&ours).count();
                    pairs.further[part] += ours.difference(rules).count();
                    let differ: Vec<_> = rules.symmetric_difference(&ours).collect();
                    if part == 0 && !differ.is_empty() {
                        println!("{capture}: {rules:?}, here {ours:?}");
                    }
                }
            });
        }
    });
    pairs.into_inner().unwrap()
}

fn check(chosen: &[Answer]) {
    if !root().join("../shared/data/et-open").is_dir() {
        println!("skipped: ../shared/data/et-open is absent");
        return;
    }
    let pairs = compare(chosen);
    let sum = |of: [usize; 2]| of[0] + of[1];
    println!(
        "{} captures: {} of {} pairs of a capture and a rule that Suricata has, and {} further ones",
        chosen.len(),
        sum(pairs.both),
        sum(pairs.both) + sum(pairs.missed),
        sum(pairs.further)
    );
    let is_enough =
        (0..2).all(|part| pairs.both[part] >= REQUIRED[part] && pairs.further[part] <= FURTHER[part]);
    assert!(is_enough, "required {REQUIRED:?}, at most {FURTHER:?} further: {pairs:?}");
}

#[test]
fn rules_alert_where_they_alert_in_suricata() {
    let all = answers();
    let is_chosen = |(place, answer): &(usize, Answer)| !answer.rules.is_empty() || place % SAMPLED == 0;
    let chosen: Vec<Answer> =
        all.into_iter().enumerate().filter(is_chosen).map(|(_, answer)| answer).collect();
    check(&chosen);
}

/// Reads 6,807 rules for each of 1,376 captures: see `tests/run-long`.
#[test]
#[ignore = "takes minutes"]
fn rules_alert_nowhere_else() {
    check(&answers());
}
