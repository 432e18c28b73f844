//! An option changes what it names and nothing else: every output of a run is that of a run with its option alone.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::random::Random;
use support::*;

/// Options that add an output or an answer; paths are relative to the folder of the run.
const OPTIONS: &[&[&str]] = &[
    &["-w", "all.pcapng"],
    &["-w", "udp.pcap=udp"],
    &["-w", "long.pcapng=flow.packets > 4"],
    &["-w", "ok.pcapng=http.status_code = 200"],
    &["-w", "names.pcapng.gz=dns"],
    &["--unidentified", "unidentified.pcapng"],
    &["--files", "files"],
    &["--files", "texts=files.mime_type contains \"text\""],
    &["--log", "eve"],
    &["--log", "fast"],
    &["--log", "eve,fast"],
    &["--log", "ndjson"],
    &["--log", "zeek"],
    &["--log", "csv:flow+dns+http"],
    &["--log", "csv", "--measure"],
    &["--log", "eve=dns.query contains \"e\""],
    &["--log", "ndjson:flow=flow.bytes > 1000"],
    &["--log", "mon"],
    &["--log", "store"],
    &["--subscribe", "distinct dns.query by source"],
    &["--subscribe", "packets where tcp port 80 every 1s"],
    &["--subscribe", "distinct http.host by source"],
    &["--subscribe", "top destination by bytes where flow.duration > 1"],
    &["--config", "slow.toml"],
    &["--config", "written.toml"],
    &["--config", "kept.toml"],
    &["--workers", "1"],
    &["--workers", "2"],
    &["--workers", "3"],
];

/// Configurations that options name.
const CONFIGURATIONS: &[(&str, &str)] = &[
    (
        "slow.toml",
        "[output]\nlog = []\n[[subscription]]\nname = \"slow\"\nlevel = \"flow\"\n\
         where = 'flow.duration > 1 and flow.bytes < 10k'\nchain = [\"log slow format csv\"]\n",
    ),
    (
        "written.toml",
        "[output]\nlog = []\n[[subscription]]\nname = \"written\"\nlevel = \"packet\"\nwhere = \"port 53\"\n\
         chain = [\"sample 10\", \"write dns.pcapng snaplen 128\"]\n",
    ),
    (
        "kept.toml",
        "[output]\nlog = []\n[[subscription]]\nname = \"kept\"\nlevel = \"record\"\nwhere = 'files.total_bytes > 100'\n\
         chain = [\"extract to quarantine each 10M\"]\n[[subscription]]\nname = \"failed\"\nlevel = \"record\"\n\
         where = 'dns.rcode_name = NXDOMAIN'\nchain = [\"log failed format ndjson\", \"write failed.pcapng before 8\"]\n",
    ),
];

/// What a run left: its exit code, its answers and its files.
#[derive(Debug)]
struct Left {
    /// Standard error if the options contradict each other.
    refused: Option<String>,
    /// Lines of `-j`, each with how often it occurs.
    answers: BTreeMap<String, usize>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// Runs the program over a capture with some of the options, in a folder of its own.
fn run_with(capture: &Path, options: &[usize]) -> Left {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in CONFIGURATIONS {
        put(folder.path(), name, text.as_bytes());
    }
    let given: Vec<&str> = options.iter().flat_map(|at| OPTIONS[*at]).copied().collect();
    let mut command: Command = program();
    // Without it, a store of a short capture has intervals of one second.
    command.current_dir(folder.path()).args([text(capture), "-q", "-j", "--interval", "1s"]).args(&given);
    if given.iter().any(|word| ["--log", "--config"].contains(word)) {
        command.args(["-o", "out"]);
    }
    let ran = run(&mut command);
    if ran.code == Some(1) {
        return Left { refused: Some(ran.stderr), answers: BTreeMap::new(), files: BTreeMap::new() };
    }
    let mut answers = BTreeMap::new();
    for line in ran.text().lines() {
        // Files that were written are in the first, and records that were required in the second. The hashes of distinct
        // values are those of the store.
        if !["summary", "sessions", "distinct"]
            .iter()
            .any(|kind| line.contains(&format!("\"kind\":\"{kind}\"")))
        {
            *answers.entry(line.to_owned()).or_default() += 1;
        }
    }
    let mut files = BTreeMap::new();
    collect(folder.path(), folder.path(), &mut files);
    Left { refused: None, answers, files }
}

/// The files below a folder, without what states the time of the run.
fn collect(top: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(top, &path, files);
            continue;
        }
        let name = path.strip_prefix(top).unwrap().to_owned();
        if !CONFIGURATIONS.iter().any(|(configuration, _)| Path::new(configuration) == name) {
            let bytes = fs::read(&path).unwrap();
            let is_text =
                ["log", "ndjson", "csv", "lite"].iter().any(|end| name.to_string_lossy().ends_with(end));
            files.insert(name, if is_text { untimed(&bytes) } else { bytes });
        }
    }
}

/// Text without the lines that state when and by what it was written, and how many records were required.
fn untimed(bytes: &[u8]) -> Vec<u8> {
    let volatile = ["#open", "#close", "{\"v\":1,\"kind\":\"run\"", "{\"v\":1,\"kind\":\"sessions\""];
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter(|line| !volatile.iter().any(|begin| line.starts_with(begin)));
    lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}

/// EVE without the events of files.
fn without_files(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter(|line| !line.contains("\"event_type\":\"fileinfo\"")).map(str::to_owned).collect()
}

/// The lines of a log, each with how often it occurs.
fn lines(bytes: &[u8]) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

/// Lines beyond those of the run without options.
fn added(
    answers: &BTreeMap<String, usize>,
    base: &BTreeMap<String, usize>,
) -> Result<BTreeMap<String, usize>, String> {
    let mut more = answers.clone();
    for (line, times) in base {
        match more.get_mut(line).filter(|has| **has >= *times) {
            Some(has) => *has -= times,
            None => return Err(format!("it lacks {}", line.get(..200).unwrap_or(line))),
        }
    }
    more.retain(|_, times| *times > 0);
    Ok(more)
}

/// What differs in a run with two options from runs with one of them each. `keeps` is whether one keeps files: their rows in
/// logs have their checksum and their name then.
fn difference(base: &Left, alone: [&Left; 2], both: &Left, keeps: bool) -> Option<String> {
    let mut expected = BTreeMap::new();
    for one in alone {
        match added(&one.answers, &base.answers) {
            Ok(more) => more.into_iter().for_each(|(line, times)| {
                // Both may add one list.
                let most: &mut usize = expected.entry(line).or_default();
                *most = times.max(*most);
            }),
            Err(reason) => return Some(format!("one alone: {reason}")),
        }
    }
    match added(&both.answers, &base.answers) {
        Err(reason) => return Some(reason),
        Ok(more) if more != expected => {
            let odd = more.keys().find(|line| !expected.contains_key(*line));
            let odd = odd.or_else(|| expected.keys().find(|line| !more.contains_key(*line)));
            return Some(format!("answers: {:.300}", odd.map_or("", String::as_str)));
        }
        Ok(_) => {}
    }
    let names = |left: &Left| left.files.keys().cloned().collect::<Vec<_>>();
    let mut all: Vec<PathBuf> = alone.iter().flat_map(|left| names(left)).collect();
    all.sort_unstable();
    all.dedup();
    if names(both) != all {
        return Some(format!("files: {:?} and not {all:?}", names(both)));
    }
    let differs = |name: &&PathBuf| {
        // A store has a seed of its own.
        let is_own = name.ends_with("seed") || name.extension().is_some_and(|end| end == "db");
        // Logs of answers have those of the other option's subscriptions, too.
        let has_answers = ["out/weir.ndjson", "out/counts.csv", "out/values.csv"]
            .iter()
            .any(|log| Path::new(log) == **name);
        let equals = |left: &&Left| match (left.files.get(*name), both.files.get(*name)) {
            (Some(one), Some(all)) if has_answers => added(&lines(all), &lines(one)).is_ok(),
            (Some(one), Some(all)) if keeps => without_files(one) == without_files(all),
            (one, all) => one == all,
        };
        let is_own = is_own || keeps && name.to_string_lossy().starts_with("out/files.");
        !is_own && !alone.iter().any(equals)
    };
    all.iter().find(differs).map(|name| format!("{} differs", name.display()))
}

/// Runs pairs of options over a capture. Returns how many contradict each other, and what differs in the others.
fn pairs_over(capture: &Path, pairs: usize, random: &mut Random) -> (usize, Vec<String>) {
    let base = run_with(capture, &[]);
    let (mut alone, mut refused, mut failed) = (BTreeMap::new(), 0, Vec::new());
    for _ in 0..pairs {
        let (one, other) = (random.below(OPTIONS.len()), random.below(OPTIONS.len()));
        let both = run_with(capture, &[one, other]);
        if one == other || both.refused.is_some() {
            refused += 1;
            continue;
        }
        for of in [one, other] {
            alone.entry(of).or_insert_with(|| run_with(capture, &[of]));
        }
        let given = [OPTIONS[one], OPTIONS[other]].concat();
        let keeps = given.contains(&"--files") || given.contains(&"kept.toml");
        if let Some(reason) = difference(&base, [&alone[&one], &alone[&other]], &both, keeps) {
            failed.push(format!("{} {given:?}: {reason}\n", capture.display()));
        }
    }
    (refused, failed)
}

/// Runs pairs of options over captures. Returns how many ran and how many contradict each other.
fn pairs_of_options(captures: &[PathBuf], pairs: usize) -> (usize, usize) {
    let each = pairs.div_ceil(captures.len());
    let (next, found) = (AtomicUsize::new(0), Mutex::new((0, Vec::new())));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(capture) = captures.get(at) else { return };
            let (refused, failed) = pairs_over(capture, each, &mut Random(at as u64 + 1));
            let mut found = found.lock().unwrap();
            found.0 += refused;
            found.1.extend(failed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let (refused, failed) = found.into_inner().unwrap();
    let shown: String = failed.iter().take(20).map(String::as_str).collect();
    assert!(failed.is_empty(), "{} pairs:\n{shown}", failed.len());
    (each * captures.len(), refused)
}

/// 500 pairs; captures that are not there are replaced by the sample.
#[test]
fn an_option_changes_nothing_that_it_does_not_name() {
    let mut captures = diverse(24);
    captures.push(sample());
    let (ran, refused) = pairs_of_options(&captures, 500);
    println!("{ran} pairs of options over {} captures, of which {refused} are refused", captures.len());
    assert!(refused < ran / 3);
}
