//! Whatever a run reads, writes or measures is in its plan, as `weir explain --plan` prints it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use support::*;

/// Options, and the name of the subscription that each makes.
const OPTIONS: &[(&str, Option<&str>)] = &[
    ("-n", None),
    ("-w packets.pcapng", Some("-w")),
    ("--unidentified unidentified.pcapng", Some("--unidentified")),
    ("--files files", Some("--files")),
    ("--hash md5", Some("--hash")),
    ("--measure", Some("--measure")),
    ("--sample 1", Some("--measure")),
];

/// Logs, the name of their subscription, and whether they have records.
const LOGS: &[(&str, Option<&str>, bool)] = &[
    ("eve:http+dns", Some("--log eve"), true),
    ("eve:flow", Some("--log eve"), false),
    ("zeek", Some("--log zeek"), true),
    ("csv", Some("--log csv"), true),
    ("ndjson", Some("--log ndjson"), true),
    ("mon", Some("--log mon"), false),
    ("prometheus", None, false),
    ("store", Some("--log store"), true),
];

/// The options of the combination with this number.
fn combination(number: usize, folder: &Path) -> (Vec<String>, Vec<&'static str>, bool) {
    let mut arguments = vec![text(&sample()).to_owned()];
    let mut names = Vec::new();
    let mut bits = number;
    for (options, name) in OPTIONS {
        if bits % 2 == 1 {
            // Files are in the folder of the combination.
            let words = options.split(' ').enumerate().map(|(at, word)| match word {
                word if at == 1 && (word.contains('.') || word == "files") => {
                    text(&folder.join(word)).to_owned()
                }
                word => word.to_owned(),
            });
            arguments.extend(words);
            names.extend(name);
            // Extracted files are named by a checksum.
            names.extend(name.filter(|name| *name == "--files").map(|_| "--hash"));
        }
        bits /= 2;
    }
    let mut has_records = false;
    // Every second combination has a log, and measurements need one.
    let measured = names.contains(&"--measure").then_some(&LOGS[3]);
    if let Some((log, name, records)) = LOGS.get(number % (2 * LOGS.len())).or(measured) {
        arguments.extend(["-o".to_owned(), text(&folder.join("logs")).to_owned()]);
        arguments.extend(["--log".to_owned(), (*log).to_owned()]);
        names.extend(name);
        has_records = *records;
    }
    (arguments, names, has_records)
}

fn plan(arguments: &[String]) -> Value {
    let ran = weir(["explain", "-j", "--plan"].iter().copied().chain(arguments.iter().map(String::as_str)));
    ran.exits(0).quietly().json().remove(0)
}

/// Whether the plan's demand has a line that begins so.
fn needs(plan: &Value, part: &str) -> bool {
    plan["demand"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().starts_with(part))
}

#[test]
fn what_a_run_does_is_in_its_plan() {
    let mut runs = 0;
    // All combinations of the options, and the logs in turn.
    for number in 0..1 << OPTIONS.len() {
        let folder = tempfile::tempdir().unwrap();
        let (arguments, expected, has_records) = combination(number, folder.path());
        let line = arguments.join(" ");
        let plan = plan(&arguments);
        let made: Vec<&str> = plan["subscriptions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| (128..256).contains(&one["id"].as_u64().unwrap()))
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        let mut names: Vec<&str> = expected.clone();
        names.sort_unstable();
        names.dedup();
        let mut sorted = made.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, names, "{line}");

        let all = plan["subscriptions"].as_array().unwrap();
        assert!(all.iter().all(|one| one["owner"] != "configuration"), "{line}: no configuration was given");

        let mut command = vec!["-j".to_owned()];
        command.extend(arguments.clone());
        let ran = weir(&command).exits(0);
        runs += 1;
        let parses = needs(&plan, "protocols are parsed");
        let reads = parses || needs(&plan, "protocols are identified") || needs(&plan, "measurements");
        let sessions = ran.json().into_iter().find(|line| line["kind"] == "sessions");
        assert_eq!(sessions.is_some(), reads, "{line}: payload is read if the plan says so");
        let records = sessions.as_ref().map_or(0, |sessions| sessions["records"].as_u64().unwrap());
        let emits = needs(&plan, "records for logs") || needs(&plan, "measurements");
        assert_eq!(records > 0, emits, "{line}: {records} records");
        assert_eq!(
            parses,
            has_records || made.iter().any(|name| ["--unidentified", "--files"].contains(name)),
            "{line}"
        );
        let written = |name: &str| fs::metadata(folder.path().join(name)).is_ok();
        assert_eq!(written("packets.pcapng"), needs(&plan, "matching packets"), "{line}");
        assert_eq!(written("unidentified.pcapng"), needs(&plan, "packets of unidentified flows"), "{line}");
        assert_eq!(written("files"), needs(&plan, "content of files"), "{line}");
        // Everything that is written is the end of a chain there.
        let leaves = plan["leaves"].as_array().unwrap();
        let ends = |to: &str| {
            let to = folder.path().join(to);
            leaves.iter().any(|one| one["to"] == text(&to) && one["subscription"].is_u64())
        };
        for name in ["packets.pcapng", "unidentified.pcapng", "files"] {
            assert_eq!(written(name), ends(name), "{line}: {name}");
        }
        let has_log = leaves.iter().any(|one| one["what"] == "log of the run" || one["what"] == "store");
        assert_eq!(written("logs"), has_log, "{line}");
        assert!(leaves.iter().any(|one| one["what"] == "event" && one["to"] == "scans"), "{line}");
        let has_names = leaves.iter().any(|one| one["what"] == "names");
        assert_eq!(has_names, !arguments.contains(&"-n".to_owned()), "{line}");
    }
    println!("{runs} combinations of options");
}

/// The lines of the summary about talkers.
fn talkers(arguments: &[&str]) -> Vec<String> {
    let ran = weir(arguments).text();
    let lines = ran.lines().skip_while(|line| !line.starts_with("TALKERS"));
    let rest = lines.enumerate().take_while(|(at, line)| *at == 0 || line.starts_with(' '));
    rest.map(|(_, line)| line.to_owned()).collect()
}

/// Logs and files do not change what hosts are called, in the summary and in rows.
#[test]
fn names_of_hosts_do_not_depend_on_other_options() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, file) = (folder.path().join("logs"), folder.path().join("x.pcapng"));
    let log = |kind: &'static str| vec!["-o", text(&logs), "--log", kind];
    let options = [
        log("csv:flow+dns"),
        log("zeek"),
        log("eve:http"),
        log("mon"),
        log("store"),
        vec!["-w", text(&file)],
        vec!["--subscribe", "packets"],
        vec!["--measure", "-o", text(&logs), "--log", "csv"],
    ];
    let (mut named, mut rows) = (0, 0);
    for capture in [sample()].into_iter().chain(diverse(10)) {
        let without = talkers(&[text(&capture), "-q"]);
        named += usize::from(without.iter().any(|line| line.contains(".test:") || line.contains(".com:")));
        for given in &options {
            let _ = fs::remove_dir_all(&logs);
            let all = [text(&capture), "-q"].into_iter().chain(given.iter().copied()).collect::<Vec<_>>();
            let with = talkers(&all);
            // Lines of files that are written take the place of the last talkers.
            assert!(without.starts_with(&with), "{given:?} of {}: {with:?}", capture.display());
        }
        let names = |kind: &str, numeric: bool| -> Vec<String> {
            let _ = fs::remove_dir_all(&logs);
            let more: &[&str] = if numeric { &["-n"] } else { &[] };
            weir([text(&capture), "-q", "-o", text(&logs), "--log", kind].iter().chain(more));
            let text = fs::read_to_string(logs.join("flows.csv")).unwrap_or_default();
            let column = text
                .lines()
                .next()
                .unwrap_or_default()
                .split(',')
                .position(|name| name == "destination_name");
            let cell = |line: &str| line.split(',').nth(column.unwrap()).unwrap().to_owned();
            text.lines().skip(1).map(cell).collect()
        };
        let alone = names("csv:flow", false);
        assert_eq!(alone, names("csv:flow+dns", false), "{}", capture.display());
        assert!(names("csv:flow+dns", true).iter().all(String::is_empty));
        rows += alone.iter().filter(|name| !name.is_empty()).count();
    }
    println!("{named} summaries and {rows} rows with names");
    assert!(named > 0 && rows > 50, "{named} {rows}");
}

#[test]
fn a_plan_without_names_of_services_reads_no_payload() {
    let arguments = [text(&sample()).to_owned(), "-n".to_owned()];
    let plan = plan(&arguments);
    for part in ["protocols", "records", "measurements", "content", "unidentified", "bytes of streams"] {
        assert!(!needs(&plan, part), "{part}: {plan}");
    }
    let ran = weir([&arguments[..], &["-j".to_owned()]].concat()).exits(0);
    assert!(ran.json().iter().all(|line| line["kind"] != "sessions"));
}

#[test]
fn the_plan_is_a_table_with_every_subscription() {
    let folder = tempfile::tempdir().unwrap();
    let config = put(
        folder.path(),
        "weir.toml",
        b"[[subscription]]\nname = \"web\"\nexpression = \"tcp port 80\"\nfunctions = [\"packets\"]\n",
    );
    let ran = weir(["explain", "--plan", "-c", text(&config), "serve", "-i", "lo"]);
    // The options of a command follow its name.
    ran.exits(1);
    let ran = weir(["explain", "--plan", "serve", "-c", text(&config), "-i", "lo"]).exits(0).quietly();
    let text = ran.text();
    assert!(text.starts_with("Plan 1: "), "{text}");
    let line = text.lines().find(|line| line.contains("tcp port 80")).unwrap();
    assert!(line.contains("configuration") && line.contains("packets"), "{line}");
    assert!(text.contains("--log store") && text.contains("protocols are parsed"), "{text}");
}

/// An answer is in the outputs that its subscription names: all without a name, none with an empty list.
#[test]
fn an_answer_is_in_the_outputs_that_its_subscription_names() {
    let folder = tempfile::tempdir().unwrap();
    let (config, out) = (folder.path().join("weir.toml"), folder.path().join("out"));
    let subscription = |name: &str, outputs: &str| {
        format!("[[subscription]]\nname = \"{name}\"\nchain = [\"packets\"]\n{outputs}\n")
    };
    let lines = [
        subscription("in all", ""),
        subscription("in csv", "outputs = [\"csv\"]"),
        subscription("in none", "outputs = []"),
    ];
    fs::write(&config, lines.concat()).unwrap();
    let sample = sample();
    let asked = [text(&sample), "--config", text(&config)];
    weir(asked.iter().chain(&["-q", "-o", text(&out), "--log", "csv,ndjson"])).exits(0);
    let names = |file: &str| {
        let text = fs::read_to_string(out.join(file)).unwrap();
        ["in all", "in csv", "in none"].map(|name| text.contains(name))
    };
    assert_eq!(names("counts.csv"), [true, true, false]);
    assert_eq!(names("weir.ndjson"), [true, false, false]);
    let plan = weir(["explain", "--plan"].iter().chain(&asked)).exits(0);
    for (name, end) in [("in all", "packets"), ("in csv", "csv"), ("in none", "none")] {
        let plan = plan.text();
        let line = plan.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.trim_end().ends_with(end), "{plan}");
    }
}
