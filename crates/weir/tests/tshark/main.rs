//! tshark as the second opinion on the fields of all protocols.
//!
//! Both programs read a capture, and each field that both have (`fields.txt`) is compared flow by flow, as a multiset of
//! values. Of a flow's values those that only one program has are paired: a pair is a different value, the rest is
//! missing in one of them. `make test` reads a sample of the captures under ../shared/data, `make test-long` all of them;
//! of the third that is set aside (`support/aside.rs`) only sums are printed. `required.txt` has the number of values
//! that must agree.
//!
//! `WEIR_TRUTH=1` prints each value that differs, but not of captures that are set aside. `WEIR_TSHARK_KEPT` names a
//! folder in which tshark's output is kept for the next run.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests say what they ran, and end where they fail"
)]

#[path = "../support/mod.rs"]
mod support;

mod fields;
mod ours;
mod table;
mod theirs;
mod values;

use fields::{Fields, Pair};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};
use table::Sums;
use values::Flow;

/// Captures up to this size are sampled, in the order of their paths. Of these projects every `EVERY`th capture is
/// taken, and from all of them those whose name contains one of the rare protocols in `NAMED`.
const MAX: u64 = 512 << 10;
const SAMPLED: [&str; 3] = ["wireshark", "zeek", "suricata-verify"];
const EVERY: usize = 4;
const OTHERS: [&str; 2] = ["nDPI", "tcpdump"];
const NAMED: [&str; 4] = ["dtls", "sip", "ssh", "tftp"];

/// Number of occurrences of each value, by pair of fields, flow and value.
pub type Found = BTreeMap<(usize, Flow), BTreeMap<String, usize>>;

/// Adds an occurrence of a value.
pub fn add(found: &mut Found, at: usize, pair: &Pair, flow: Flow, value: String) {
    if pair.port.is_some_and(|port| flow.iter().all(|(_, other)| *other != port)) {
        return;
    }
    let count = found.entry((at, flow)).or_default().entry(value).or_default();
    *count = if pair.once { 1 } else { *count + 1 };
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data")
}

/// All captures, in the order of their paths.
fn all(data: &Path) -> Vec<PathBuf> {
    let data = data.canonicalize().unwrap();
    let captures = support::captures().into_iter().filter_map(|path| path.canonicalize().ok());
    captures.filter(|path| path.starts_with(&data)).collect()
}

/// The sample of the gate.
fn sample(data: &Path) -> Vec<PathBuf> {
    let data = data.canonicalize().unwrap();
    let all = all(&data);
    let of = |projects: &[&str]| -> Vec<&PathBuf> {
        let is_in = |path: &Path| projects.iter().any(|project| path.starts_with(data.join(project)));
        all.iter()
            .filter(|path| is_in(path) && fs::metadata(path).is_ok_and(|about| about.len() <= MAX))
            .collect()
    };
    let is_named = |path: &Path| {
        let path = path.strip_prefix(&data).unwrap_or(path).to_string_lossy();
        NAMED.iter().any(|name| path.contains(name))
    };
    let sampled = of(&SAMPLED).into_iter().enumerate().filter(|(at, path)| at % EVERY == 0 || is_named(path));
    let others = of(&OTHERS).into_iter().filter(|path| is_named(path));
    sampled.map(|(_, path)| path).chain(others).cloned().collect()
}

/// Compares captures, as many at a time as there are cores, because tshark uses one core.
fn compare(captures: &[PathBuf], fields: &Fields) -> (Sums, usize) {
    let (next, unread) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let look = || {
        let mut sums = Sums::default();
        while let Some(capture) = captures.get(next.fetch_add(1, Ordering::Relaxed)) {
            let both = theirs::values(capture, fields).zip(ours::values(capture, fields));
            match both {
                Some((theirs, ours)) => sums.add(capture, fields, &theirs, &ours),
                None => _ = unread.fetch_add(1, Ordering::Relaxed),
            }
        }
        sums
    };
    let sums = thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(look)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).fold(Sums::default(), Sums::join)
    });
    (sums, unread.into_inner())
}

/// Compares, prints the table, and fails if less agrees than `required.txt` says.
fn check(name: &str, select: fn(&Path) -> Vec<PathBuf>) {
    let data = data();
    if !data.is_dir() {
        println!("skipped: ../shared/data is absent");
        return;
    }
    let Some(version) = theirs::version() else {
        println!("skipped: tshark is not installed");
        return;
    };
    let (fields, captures) = (Fields::read(), select(&data));
    assert!(!captures.is_empty(), "no captures in {}", data.display());
    let (sums, unread) = compare(&captures, &fields);
    println!("{version}\n{} captures, {unread} of which one of both cannot read\n", captures.len());
    print!("{}", sums.table(&fields));
    let short = sums.short(&fields, name);
    assert!(short.is_empty(), "fewer than required agree:\n{}", short.join("\n"));
}

#[test]
fn a_sample_agrees_with_tshark() {
    check("sample", sample);
}

#[test]
#[ignore = "takes a quarter of an hour: make test-long runs it"]
fn all_captures_agree_with_tshark() {
    check("all", all);
}
