//! Alerts of rules against the checks of suricata-verify.
//!
//! Each test of suricata-verify whose checks ask for alerts is run with its rules, and each of these checks is compared.
//! A check whose rule is not supported fails, even if it asks for no alert. What fails is printed as rows of tables, as
//! in `docs/suricata-differences.md`. Captures that are set aside are measured, and nothing of them is printed: see
//! `support/aside.rs`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "suricata_alerts/answers.rs"]
mod answers;
mod support;

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::aside::{Figure, is_aside};
use support::checks::{find, holds, is_met, known_as, verification};
use support::*;

/// Required number of passed checks: of the captures that are looked at, and of those that are set aside.
const REQUIRED: &[(Part, [usize; 2])] =
    &[(Part::Evader, [290, 159]), (Part::Common, [188, 89]), (Part::Further, [321, 167])];

/// The keys that say which alert of which packet is meant. `index.json` counts only checks without other keys.
const IDENTITY: &[&str] = &[
    "event_type",
    "pcap_cnt",
    "src_ip",
    "src_port",
    "dest_ip",
    "dest_port",
    "proto",
    "app_proto",
    "alert.gid",
    "alert.signature_id",
    "alert.rev",
    "alert.signature",
];

/// A part of the tests.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Part {
    /// Ways of servers to hide a body from a reader of HTTP.
    Evader,
    /// The other tests whose rules have only the keywords that rules of Emerging Threats use most (`feas`).
    Common,
    /// Tests with other keywords.
    Further,
}

impl Part {
    fn of(entry: &Value) -> Self {
        match (entry["feas"] == true, entry["test"].as_str().unwrap().starts_with("http-evader/")) {
            (true, true) => Self::Evader,
            (true, false) => Self::Common,
            (false, _) => Self::Further,
        }
    }
}

/// The result of a check.
struct Checked {
    part: Part,
    capture: String,
    test: String,
    /// The rule that is asked for; without this and a signature, any rule counts.
    sid: Option<u64>,
    /// The message of the rule that is asked for.
    signature: Option<String>,
    /// Whether the conditions are of [`IDENTITY`] alone.
    is_of_identity: bool,
    expected: u64,
    found: u64,
    /// The reason why it fails; none if it passes.
    fault: Option<Fault>,
}

impl Checked {
    /// The rule, for a cell of a table.
    fn rule(&self) -> String {
        let signature = || self.signature.clone().unwrap_or_else(|| "any".to_owned());
        self.sid.map_or_else(signature, |sid| sid.to_string())
    }
}

/// Why a check fails.
struct Fault {
    group: String,
    /// The conditions that the nearest alert does not meet.
    keys: String,
}

/// Numbers of what is not compared, by reason.
type Outside = BTreeMap<String, usize>;

/// A rule that is not supported.
struct Refused {
    sid: Option<u64>,
    /// The line of its file.
    line: String,
    reason: String,
}

impl Refused {
    /// Reads what `weir rules check` says of rule files.
    fn of(rules: &[String], variables: &[String]) -> Vec<Self> {
        let words = ["rules", "check", "--json"].map(str::to_owned);
        let more = variables.iter().flat_map(|variable| ["--rule-var".to_owned(), variable.clone()]);
        let ran = weir(words.into_iter().chain(rules.iter().cloned()).chain(more));
        assert!(matches!(ran.code, Some(0 | 1)), "{:?} {}", ran.code, ran.stderr);
        let json: Value = serde_json::from_str(&ran.text()).unwrap();
        let refused = json["refused"].as_array().unwrap().iter();
        // A rule that is wrong is refused by Suricata, too.
        refused.filter(|refusal| refusal["supported"] == false).map(Self::read).collect()
    }

    fn read(refusal: &Value) -> Self {
        let file = std::fs::read(refusal["at"]["file"].as_str().unwrap()).unwrap();
        let line = refusal["at"]["line"].as_u64().unwrap() as usize;
        Self {
            sid: refusal["sid"].as_u64(),
            line: String::from_utf8_lossy(&file).lines().nth(line - 1).unwrap().to_owned(),
            reason: refusal["reason"].as_str().unwrap().to_owned(),
        }
    }

    /// Whether the result of a check depends on this rule.
    fn concerns(&self, check: &Checked) -> bool {
        match (check.sid, &check.signature) {
            (Some(sid), _) => self.sid == Some(sid),
            (None, Some(signature)) => self.line.contains(&format!("msg:\"{signature}\"")),
            // Any alert counts: what is expected and found does not need this rule.
            (None, None) => check.found != check.expected || check.expected == 0,
        }
    }
}

/// The variables of addresses and ports in the configuration of a test.
fn variables(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("suricata.yaml")).unwrap_or_default();
    let text = text.split_once("\n---").map_or(text.as_str(), |(_, body)| body);
    let configuration: Value = serde_yaml_ng::from_str(text).unwrap_or_default();
    let groups = ["address-groups", "port-groups"].map(|group| configuration["vars"][group].clone());
    let members = groups.iter().filter_map(Value::as_object).flatten();
    members
        .map(|(name, value)| {
            format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect()
}

/// The options for the configuration of a test: its own file, the keys that its arguments set, and `--simulate-ips`. Without any of
/// these Suricata has its own configuration, which reads no flow without a SYN.
fn configuration(folder: &Path, entry: &Value) -> Vec<String> {
    let file = folder.join("suricata.yaml");
    let file = file.is_file().then(|| ["--suricata-config".to_owned(), text(&file).to_owned()]);
    let arguments = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = arguments.flat_map(str::split_whitespace).collect();
    let sets = words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]);
    let mut sets: Vec<&str> = sets.collect();
    if file.is_none() && sets.is_empty() {
        sets.push("stream.midstream=false");
    }
    let simulated = words.iter().find(|word| **word == "--simulate-ips").map(|word| (*word).to_owned());
    let sets = sets.into_iter().flat_map(|set| ["--suricata-set".to_owned(), set.to_owned()]);
    file.into_iter().flatten().chain(sets).chain(simulated).collect()
}

/// The expression of packets in the arguments of a test, which stands after its options.
fn expression(entry: &Value) -> Option<&str> {
    let arguments = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut rests = arguments.filter_map(|argument| argument.strip_prefix("-k none "));
    rests.find(|rest| !rest.starts_with('-'))
}

/// The events of a test, and its rules that are not supported.
fn events(tests: &Path, entry: &Value, test: &Value) -> (Vec<Value>, Vec<Refused>) {
    let name = entry["test"].as_str().unwrap();
    let rules = entry["rules"].as_array().unwrap().iter().filter_map(Value::as_str);
    let rules: Vec<String> = rules.map(|rules| text(&tests.join(rules)).to_owned()).collect();
    let variables = variables(&tests.join(name));
    let logs = tempfile::tempdir().unwrap();
    let mut command = program();
    // Suricata's flows are flows of one VLAN. One worker, so that a debug build spends its time on the packets.
    command.arg(tests.join(entry["pcap"].as_str().unwrap())).args(["-q", "--vlan", "--workers", "1"]);
    command.args(["--log", "eve", "-o", text(logs.path()), "--checksum", verification(test)]);
    command.arg("--alert-payload");
    command.args(rules.iter().flat_map(|rules| ["-S", rules]));
    command.args(configuration(&tests.join(name), entry));
    command.args(expression(entry)).current_dir(logs.path());
    let ran = run(command.stdin(std::process::Stdio::null()));
    // Exit code 3: the capture is truncated, and its whole packets are read.
    assert!(matches!(ran.code, Some(0 | 3)), "{name}: {:?} {}", ran.code, ran.stderr);
    let written = objects(&std::fs::read_to_string(logs.path().join("eve.json")).unwrap());
    let is_refused = ran.stderr.contains("refused");
    let refused = if is_refused { Refused::of(&rules, &variables) } else { Vec::new() };
    (written, refused)
}

/// Whether a check asks for alerts.
fn is_of_alerts(conditions: &Map<String, Value>) -> bool {
    match conditions.get("event_type") {
        Some(kind) => kind == "alert",
        None => conditions.keys().any(|key| key.starts_with("alert.")),
    }
}

/// Compares the checks of a test.
fn checked(tests: &Path, entry: &Value, outside: &mut Outside) -> Vec<Checked> {
    let mut leave = |reason: &str| *outside.entry(reason.to_owned()).or_default() += 1;
    let name = entry["test"].as_str().unwrap();
    let text = std::fs::read_to_string(tests.join(name).join("test.yaml")).unwrap();
    let test: Value = serde_yaml_ng::from_str(&text).unwrap();
    let checks = || test["checks"].as_array().into_iter().flatten();
    if !checks().any(|check| check["filter"]["match"].as_object().is_some_and(is_of_alerts)) {
        leave("tests without checks of alerts");
        return Vec::new();
    }
    if !is_met(&test["requires"]) {
        leave("tests of other versions");
        return Vec::new();
    }
    let (events, refused) = events(tests, entry, &test);
    let mut all = Vec::new();
    for check in checks() {
        let filter = &check["filter"];
        let Some(conditions) = filter["match"].as_object() else {
            leave("checks by `shell`, `stats` or of files");
            continue;
        };
        if !is_of_alerts(conditions) {
            leave("checks of other events");
            continue;
        }
        if !is_met(&filter["requires"]) {
            leave("checks of other versions");
            continue;
        }
        let is_it = |event: &&Value| conditions.iter().all(|(key, wanted)| holds(event, key, wanted));
        let mut one = Checked {
            part: Part::of(entry),
            capture: known_as(entry["pcap"].as_str().unwrap()).to_owned(),
            test: name.to_owned(),
            sid: conditions.get("alert.signature_id").and_then(Value::as_u64),
            signature: conditions.get("alert.signature").and_then(Value::as_str).map(str::to_owned),
            is_of_identity: conditions.keys().all(|key| IDENTITY.contains(&key.as_str())),
            expected: filter["count"].as_u64().unwrap(),
            found: events.iter().filter(is_it).count() as u64,
            fault: None,
        };
        one.fault = fault(&one, conditions, &events, &refused);
        all.push(one);
    }
    all
}

/// The reason why a check fails.
fn fault(
    check: &Checked,
    conditions: &Map<String, Value>,
    events: &[Value],
    refused: &[Refused],
) -> Option<Fault> {
    if let Some(rule) = refused.iter().find(|rule| rule.concerns(check)) {
        return Some(Fault { group: format!("not supported: {}", rule.reason), keys: String::new() });
    }
    if check.found == check.expected {
        return None;
    }
    let failing = |event: &Value| -> Vec<(String, String)> {
        let failing = conditions.iter().filter(|(key, wanted)| !holds(event, key, wanted));
        failing
            .map(|(key, wanted)| {
                let ours = find(event, key).map_or("-".to_owned(), short);
                (key.clone(), format!("{key}: {}, here {ours}", short(wanted)))
            })
            .collect()
    };
    let of_rule = |event: &&Value| {
        let named = ["alert.signature_id", "alert.signature"].map(|key| (key, conditions.get(key)));
        let mut named = named.iter().filter_map(|(key, wanted)| Some((*key, (*wanted)?)));
        event["event_type"] == "alert" && named.all(|(key, wanted)| holds(event, key, wanted))
    };
    let nearest = events.iter().filter(of_rule).map(failing).min_by_key(Vec::len);
    let group = match &nearest {
        _ if check.found > check.expected => "more alerts than expected",
        None => "no alert of the rule",
        Some(failing) if failing.is_empty() => "fewer alerts than expected",
        Some(failing) if failing.iter().all(|(key, _)| key == "pcap_cnt") => "the alert is of another packet",
        Some(_) => "the alert has other values",
    };
    let group = group.to_owned();
    let differing = nearest.unwrap_or_default().into_iter().map(|(_, text)| text);
    Some(Fault { group, keys: differing.collect::<Vec<_>>().join("; ") })
}

/// The beginning of a value, for a cell of a table.
fn short(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = value.to_string().replace('|', "\\|");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Compares all tests, on all processors.
fn all_checked(tests: &Path, index: &[&Value]) -> (Vec<Checked>, Outside) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((Vec::new(), Outside::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(entry) = index.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut outside = Outside::new();
                    let mut checks = checked(tests, entry, &mut outside);
                    let mut done = done.lock().unwrap();
                    done.0.append(&mut checks);
                    for (reason, number) in outside {
                        *done.1.entry(reason).or_default() += number;
                    }
                }
            });
        }
    });
    let (mut all, outside) = done.into_inner().unwrap();
    all.sort_by(|one, other| (&one.test, one.sid).cmp(&(&other.test, other.sid)));
    (all, outside)
}

/// The figure of the checks that a condition chooses.
fn figure(all: &[Checked], is_chosen: impl Fn(&Checked) -> bool) -> Figure {
    let mut figure = Figure::default();
    for check in all.iter().filter(|check| is_chosen(check)) {
        figure.add(&check.capture, usize::from(check.fault.is_none()), 1);
    }
    figure
}

/// Prints a figure of all checks, and of those that `index.json` counts.
fn emit_figure(all: &[Checked], label: &str, is_chosen: impl Fn(&Checked) -> bool) {
    let of_all = figure(all, &is_chosen);
    let of_identity = figure(all, |check| check.is_of_identity && is_chosen(check));
    println!(
        "passed {} alert checks ({label}): {of_all}; {} of those that index.json counts",
        of_all.whole(),
        of_identity.whole()
    );
}

/// Prints the failing checks of the captures that are looked at, each group as a table.
fn emit_failing(all: &[Checked]) {
    // By group, then by test and what differs: each rule with the expected and the found number of alerts.
    let mut groups: BTreeMap<&str, BTreeMap<(&str, &str), Vec<String>>> = BTreeMap::new();
    let mut silent: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for check in all.iter().filter(|check| !is_aside(&check.capture)) {
        let Some(fault) = &check.fault else { continue };
        let rows = groups.entry(&fault.group).or_default();
        let rules = rows.entry((&check.test, &fault.keys)).or_default();
        rules.push(format!("{} ({}, {})", check.rule(), check.expected, check.found));
        if check.expected > 0 && check.found == 0 && fault.keys.is_empty() {
            silent.entry(&check.test).or_default().insert(check.rule());
        }
    }
    for (group, rows) in &groups {
        let checks: usize = rows.values().map(Vec::len).sum();
        println!("\n### {group}: {checks}\n\n| test | sid (expected, found) | differs |\n|---|---|---|");
        for ((test, keys), rules) in rows {
            println!("| {test} | {} | {keys} |", rules.join(", "));
        }
    }
    println!("\nRules that do not alert:");
    silent
        .iter()
        .for_each(|(test, rules)| println!("{test}: {}", Vec::from_iter(rules.iter().cloned()).join(", ")));
    println!();
}

#[test]
fn alerts_equal_those_of_suricata() {
    let folder = root().join("../shared/data/suricata-verify");
    if !folder.is_dir() {
        println!("skipped: ../shared/data/suricata-verify is absent");
        return;
    }
    let index: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("index.json")).unwrap()).unwrap();
    let with_rules = |entry: &&Value| !entry["rules"].as_array().unwrap().is_empty();
    let chosen: Vec<&Value> = index.as_array().unwrap().iter().filter(with_rules).collect();
    let (all, outside) = all_checked(&folder.join("tests"), &chosen);
    emit_failing(&all);
    for (reason, number) in &outside {
        println!("outside: {number} {reason}");
    }
    emit_figure(&all, "http-evader", |check| check.part == Part::Evader);
    emit_figure(&all, "others with feas = true", |check| check.part == Part::Common);
    emit_figure(&all, "tests with feas = true", |check| check.part != Part::Further);
    emit_figure(&all, "tests with feas = false", |check| check.part == Part::Further);
    emit_figure(&all, "all tests", |_| true);
    let short = REQUIRED.iter().filter(|(part, required)| {
        let figure = figure(&all, |check| check.part == *part);
        !figure.reaches(*required)
    });
    let short: Vec<_> = short.collect();
    assert!(short.is_empty(), "fewer checks than required: {short:?}");
}
