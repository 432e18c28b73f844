//! `weir rules`: what it says of rule files, and its exit codes.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::Path;
use std::process::Command;
use support::*;

fn weir(folder: &Path, args: &[&str]) -> Ran {
    run(Command::new(env!("CARGO_BIN_EXE_weir")).args(args).current_dir(folder))
}

fn desk(rules: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "local.rules", rules.as_bytes());
    folder
}

#[test]
fn refusals_have_a_mark_below_their_fault_and_end_with_code_1() {
    let folder = desk(
        "alert http any any -> any any (msg:\"a\"; http.uri; content:\"/x\"; sid:1;)\n\
         # a comment\n\
         #alert tcp any any -> any any (sid:9;)\n\
         alert tcp any any -> any any (msg:\"b\"; contents:\"x\"; sid:2;)\n",
    );
    let ran = weir(folder.path(), &["rules", "check", "local.rules"]);
    assert_eq!(ran.code, Some(1));
    let rule = "alert tcp any any -> any any (msg:\"b\"; contents:\"x\"; sid:2;)";
    let expected = format!(
        "local.rules:4:40: sid 2: `contents` is not a keyword; `content` is one\n  {rule}\n  {}^\n\
         1 of 2 rules in force; 1 refused; 1 switched off (1 file)\n",
        " ".repeat(39)
    );
    assert_eq!(ran.text(), expected);
    let ran = weir(folder.path(), &["rules", "check", "--json", "."]);
    let json: serde_json::Value = serde_json::from_str(&ran.text()).unwrap();
    assert_eq!((json["in_force"].as_u64(), json["refused"][0]["sid"].as_u64()), (Some(1), Some(2)));
}

#[test]
fn variables_come_from_the_command_line() {
    let folder = desk("alert tcp $MY_NET any -> any $MY_PORTS (sid:1;)\n");
    let check = |more: &[&str]| weir(folder.path(), &[&["rules", "check", "local.rules"], more].concat());
    let ran = check(&[]);
    assert!(
        ran.code == Some(1) && ran.text().contains("$MY_NET is not a variable of addresses"),
        "{}",
        ran.text()
    );
    let ran = check(&["--rule-var", "MY_NET=[10.0.0.0/8]", "--rule-var", "MY_PORTS=[80,443]"]);
    assert_eq!((ran.code, &*ran.text()), (Some(0), "1 of 1 rule in force (1 file)\n"));
    let ran = check(&["--rule-var", "HOME_NET=x"]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("--rule-var HOME_NET=x: `x` is not an IP address"),
        "{}",
        ran.stderr
    );
    assert_eq!(weir(folder.path(), &["rules", "check", "missing.rules"]).code, Some(2));
}

#[test]
fn files_beside_rules_are_read() {
    let folder = desk(
        "alert tcp any any -> any any (classtype:known; sid:1;)\nalert tcp any any -> any any (classtype:other; sid:2;)\n",
    );
    put(folder.path(), "classification.config", b"config classification: known,A class,2\n");
    put(folder.path(), "threshold.config", b"suppress gen_id 1, sig_id 1\nsuppress gen_id 1\n");
    let ran = weir(folder.path(), &["rules", "check", "."]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.text().contains("sid 2: note: classification.config has no class other"), "{}", ran.text());
    let ran =
        weir(folder.path(), &["rules", "check", "local.rules", "--threshold-config", "threshold.config"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.text().contains("threshold.config:2:10: `sig_id` is missing"), "{}", ran.text());
}

#[test]
fn reputations_are_read_from_files_of_the_user() {
    let folder = desk("alert ip any any -> any any (iprep:src,Bad,>,30; sid:1;)\n");
    put(folder.path(), "categories.txt", b"1,Bad,Known bad hosts\n");
    put(folder.path(), "a.list", b"192.0.2.0/24,1,31\n");
    put(folder.path(), "b.list", b"192.0.2.1,1,31\n192.0.2.1,1,128\n");
    let check = |more: &[&str]| weir(folder.path(), &[&["rules", "check", "local.rules"], more].concat());
    let ran = check(&[]);
    let reason = "no file of reputations has the category `Bad`; --rule-categories names one";
    assert!(ran.code == Some(1) && ran.text().contains(reason), "{}", ran.text());
    let ran = check(&["--rule-categories", "categories.txt", "--rule-reputation", "a.list"]);
    assert_eq!((ran.code, &*ran.text()), (Some(0), "1 of 1 rule in force (1 file)\n"));
    let ran = check(&["--rule-categories", "categories.txt", "--rule-reputation", "b.list"]);
    let reason = "b.list: line 2: `128` is not a score: 0 to 127 are";
    assert!(ran.code == Some(2) && ran.stderr.contains(reason), "{}", ran.stderr);
    let ran = check(&["--rule-geoip", "a.list"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("a.list: "), "{}", ran.stderr);
}

#[test]
fn counts_and_keywords() {
    let folder = desk(
        "alert dns any any -> any any (dns.query; content:\"a\"; dns.query; content:\"b\"; sid:1;)\n\
         drop tcp any any -> any any (content:\"a\"; sid:2;)\n",
    );
    let ran = weir(folder.path(), &["rules", "stats", "--json", "local.rules"]);
    let json: serde_json::Value = serde_json::from_str(&ran.text()).unwrap();
    assert_eq!(json["rules"], 2);
    assert_eq!(
        (json["buffer"]["dns.query"].as_u64(), json["keyword"]["content"].as_u64()),
        (Some(1), Some(2))
    );
    assert_eq!((json["action"]["drop"].as_u64(), json["protocol"]["dns"].as_u64()), (Some(1), Some(1)));
    let ran = weir(folder.path(), &["rules", "stats", "local.rules"]);
    let line = ran.text().lines().find(|line| line.starts_with("content")).unwrap_or_default().to_owned();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>()[..2], ["content", "2"], "{}", ran.text());
    let ran = weir(folder.path(), &["rules", "keywords"]);
    assert!(ran.text().lines().count() > 250, "{}", ran.text().lines().count());
    assert!(ran.text().lines().all(|line| line.len() < 220), "lines fit");
    let ran = weir(folder.path(), &["rules", "keywords", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.text()).unwrap();
    assert!(json.as_array().unwrap().iter().any(|row| row["name"] == "lua" && row["refused"].is_string()));
    let of_packets = json.as_array().unwrap().iter().find(|row| row["name"] == "decode-event").unwrap();
    assert!(
        of_packets["events"].as_array().unwrap().iter().any(|event| event["name"] == "tcp.pkt_too_small")
    );
}

/// Number of shared rules of Emerging Threats that a run looks with. All are read: `crates/detect/tests/shared.rs`.
const IN_FORCE: u64 = 6804;

/// The shared rules of Emerging Threats, through the program: each is in force, or refused with a reason.
#[test]
fn rules_of_emerging_threats_are_in_force() {
    let folder = root().join("../shared/data/et-open");
    if !folder.is_dir() {
        println!("skipped: no shared data");
        return;
    }
    let ran = weir(&folder, &["rules", "check", "--json", "."]);
    let json: serde_json::Value = serde_json::from_str(&ran.text()).unwrap();
    println!("passed {} of {} rules in force", json["in_force"], json["rules"]);
    assert_eq!(json["rules"].as_u64(), Some(6807));
    let in_force = json["in_force"].as_u64().unwrap();
    assert!(in_force >= IN_FORCE, "{in_force}");
    let refused = json["refused"].as_array().unwrap();
    assert_eq!(refused.len() as u64, 6807 - in_force);
    // What nothing looks at yet is refused, and no rule for its words.
    assert!(
        refused.iter().all(|rule| rule["supported"] == false && rule["reason"].is_string()),
        "{refused:?}"
    );
    assert_eq!(ran.code, Some(i32::from(!refused.is_empty())));
}

/// A log of the sample with rules and further options.
fn log(rules: &str, more: &[&str], name: &str) -> String {
    let folder = desk(rules);
    let capture = sample();
    let mut args = vec![capture.to_str().unwrap(), "-S", "local.rules", "-o", "out", "--log", "fast,eve"];
    args.extend(more);
    let ran = weir(folder.path(), &args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    std::fs::read_to_string(folder.path().join("out").join(name)).unwrap_or_default()
}

/// The lines of fast.log of the sample with rules and further options, in order.
fn alerts(rules: &str, more: &[&str]) -> Vec<String> {
    let text = log(rules, more, "fast.log");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_run_has_the_alerts_of_rules_however_many_workers_read() {
    let rules = "alert http any any -> any any (msg:\"a request\"; flow:established,to_server; http.method; content:\"GET\"; sid:1; rev:2;)\n\
         alert dns any any -> any any (msg:\"a question\"; dns.query; content:\".\"; sid:2;)\n\
         alert tcp any any -> any any (msg:\"a SYN\"; flags:S; sid:3;)\n\
         alert tcp any any -> any any (msg:\"an answer\"; flow:established,to_client; content:\"HTTP/1.1 \"; sid:4;)\n\
         alert udp any any -> any 53 (msg:\"a datagram\"; content:\"|01 00 00 01|\"; depth:4; offset:2; sid:5;)\n\
         alert http any any -> any any (msg:\"never\"; http.method; content:\"NOT A METHOD\"; sid:6;)\n";
    let one = alerts(rules, &["--workers", "1"]);
    for (sid, what) in
        [(1, "a request"), (2, "a question"), (3, "a SYN"), (4, "an answer"), (5, "a datagram")]
    {
        let sid = format!("[1:{sid}:");
        let found: Vec<_> = one.iter().filter(|line| line.contains(&sid)).collect();
        assert!(!found.is_empty(), "{what}");
        assert!(found.iter().all(|line| line.contains(what)), "{found:?}");
    }
    assert!(!one.iter().any(|line| line.contains("never")));
    assert_eq!(one, alerts(rules, &["--workers", "3"]));
    assert_eq!(one, alerts(rules, &["--no-prefilter"]));
    // Nothing depends on the order of rules.
    let mut turned: Vec<&str> = rules.lines().collect();
    turned.reverse();
    assert_eq!(one, alerts(&turned.join("\n"), &["--workers", "1"]));
}

#[test]
fn alerts_have_payload_and_packet_if_they_are_asked_for() {
    let rules = "alert http any any -> any any (msg:\"a request\"; http.method; content:\"GET\"; sid:1;)\n\
         alert tcp any any -> any any (msg:\"a SYN\"; flags:S; sid:2;)\n\
         alert tcp any any -> any any (msg:\"an answer\"; flow:established,to_client; content:\"HTTP/1.1 \"; sid:3;)\n\
         alert udp any any -> any 53 (msg:\"a datagram\"; content:\"|01 00 00 01|\"; depth:4; offset:2; sid:4;)\n";
    let events = |more: &[&str]| {
        let mut events = objects(&log(rules, more, "eve.json"));
        events.retain(|event| event["event_type"] == "alert");
        assert!(events.len() > 4);
        assert!(events.iter().all(|event| event["flow"]["pkts_toserver"].as_u64() > Some(0)));
        events
    };
    let of_payload = ["payload", "payload_length", "payload_printable", "stream", "packet", "packet_info"];
    for event in events(&[]) {
        assert!(of_payload.iter().all(|key| event.get(key).is_none()), "{event}");
    }
    let text = |event: &serde_json::Value| event["payload_printable"].as_str().unwrap_or_default().to_owned();
    for event in events(&["--alert-payload"]) {
        // No packet causes what the end of a flow shows.
        let has_packet = event["packet"].as_str().is_some_and(|packet| packet.len() >= 54);
        assert_eq!(has_packet, event["pkt_src"] == "wire/pcap", "{event}");
        assert_eq!(has_packet, event["packet_info"]["linktype_name"] == "EN10MB", "{event}");
        match event["alert"]["signature_id"].as_u64() {
            Some(1) => assert!(event["stream"] == 1 && text(&event).contains("GET "), "{event}"),
            Some(2) => assert!(event.get("payload").is_none() && event.get("stream").is_none(), "{event}"),
            Some(3) => assert!(event["stream"] == 1 && text(&event).contains("HTTP/1.1 "), "{event}"),
            _ => assert!(event["stream"] == 0 && event["payload_length"].as_u64() > Some(12), "{event}"),
        }
    }
}

#[test]
fn thresholds_of_the_user_are_followed() {
    let folder = desk("alert dns any any -> any any (dns.query; content:\"e\"; sid:1;)\n");
    let capture = sample();
    let alerts = |lines: &str, expected_note: &str| {
        std::fs::write(folder.path().join("threshold.config"), lines).unwrap();
        let out = folder.path().join("out");
        let _ = std::fs::remove_dir_all(&out);
        let arguments = [
            "-S",
            "local.rules",
            "--threshold-config",
            "threshold.config",
            "-n",
            "-o",
            "out",
            "--log",
            "fast",
        ];
        let ran = weir(folder.path(), &[&[capture.to_str().unwrap()][..], &arguments].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected_note), "{}", ran.stderr);
        std::fs::read_to_string(out.join("fast.log")).unwrap_or_default().lines().count()
    };
    let all = alerts("", "");
    assert!(all > 2, "{all}");
    assert_eq!(alerts("suppress gen_id 1, sig_id 1\n", ""), 0);
    let limit = "threshold gen_id 1, sig_id 1, type limit, track by_rule, count 2, seconds 100000\n";
    assert_eq!(alerts(limit, ""), 2);
    assert_eq!(alerts("hide gen_id 1, sig_id 1\n", "1 line of threshold.config cannot be read"), all);
}

#[test]
fn a_rule_is_explained() {
    let folder = desk(
        "alert http any any -> any 80 (msg:\"a\"; flow:established,to_server; http.uri; content:\"/ab\"; content:\"/x|00 3b|y\"; nocase; startswith; \
         classtype:known; reference:url,example.org; sid:7; rev:3;)\n\
         alert tcp any any -> any any (msg:\"b\"; lua:x; sid:8;)\n\
         alert tcp any any -> any any (msg:\"c\"; flags:S; sid:9;)\n",
    );
    put(folder.path(), "classification.config", b"config classification: known,A class,2\n");
    let explain = |sid: &str, more: &[&str]| {
        weir(folder.path(), &[&["rules", "explain", sid, "local.rules"], more].concat())
    };
    let ran = explain("7", &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for expected in [
        "1:7:3  a\nclass known: A class, priority 2; local.rules:1\nreference url example.org\n",
        "alert http any any -> any 80\n",
        "  in messages of the client: by \"/x|00 3b|y\" in either case, at the beginning of http.uri (the rarest one); \
         looked for in http.uri of the client\n",
    ] {
        assert!(ran.text().contains(expected), "{expected}\n{}", ran.text());
    }
    let meaning =
        ran.text().lines().find(|line| line.contains("flow:established,to_server")).unwrap().to_owned();
    assert!(meaning.len() > 60, "{meaning}");
    let json: serde_json::Value = serde_json::from_str(&explain("1:7", &["--json"]).text()).unwrap();
    assert_eq!((&json["sid"], &json["header"]), (&7.into(), &"alert http any any -> any 80".into()));
    assert_eq!(json["parts"][0]["found_by"]["literal"], "\"/x|00 3b|y\"");
    assert!(json["options"][1]["meaning"].is_string());
    assert!(explain("9", &[]).text().contains("  in packets: without a search\n"));
    let refused = explain("8", &[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.text().starts_with("The rule is not in force.\nlocal.rules:2:"), "{}", refused.text());
    assert!(
        explain("10", &[]).text().contains("no rule has the sid 10") && explain("x", &[]).code == Some(1)
    );
}

#[test]
fn a_rule_is_tried_on_a_capture() {
    let folder = desk(
        "alert http any any -> any any (msg:\"a request\"; flow:established,to_server; http.method; content:\"GET\"; \
         http.uri; content:\"/nowhere\"; startswith; nocase; sid:1;)\n\
         alert http any any -> any any (msg:\"any request\"; http.method; content:\"GET\"; sid:2;)\n\
         alert udp any any -> any 9 (msg:\"discarded\"; content:\"x\"; sid:3;)\n\
         alert tcp any any -> any any (msg:\"after a bit\"; flowbits:isset,seen; flags:S; sid:4;)\n\
         alert tcp any any -> any any (msg:\"refused\"; lua:x.lua; sid:5;)\n",
    );
    let capture = sample();
    let test = |sid: &str, more: &[&str]| {
        let args = ["rules", "test", sid, capture.to_str().unwrap(), "-S", "local.rules"];
        weir(folder.path(), &[&args[..], more].concat())
    };
    let ran = test("1", &[]);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    let text = ran.text();
    assert!(text.starts_with("1:1:0  a request\nlocal.rules:1\n\ntcp "), "{text}");
    let fails = "client: http.uri: `content:\"/nowhere\"; startswith; nocase` does not hold";
    assert!(text.contains(fails) && !text.contains("alert"), "{text}");
    let text = test("1:2", &[]).text();
    assert!(text.contains(", client: alert\n"), "{text}");
    let text = test("3", &[]).text();
    assert!(text.contains("other ports than those of the header"), "{text}");
    let text = test("4", &[]).text();
    assert!(text.contains("`flowbits:isset,seen` does not hold"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&test("2", &["--json"]).text()).unwrap();
    let trials = json["trials"].as_array().unwrap();
    let alerts = trials.iter().filter(|trial| trial["end"] == "alert").count();
    let in_log = alerts_of(&folder, &capture);
    assert!(alerts > 0 && alerts == in_log, "{alerts} {in_log}");
    let ran = test("5", &[]);
    assert!(ran.code == Some(1) && ran.text().contains("scripts of the user"), "{}", ran.text());
    let ran = test("6", &[]);
    assert!(ran.code == Some(1) && ran.stderr.contains("no rule has the sid 6"), "{}", ran.stderr);
}

/// Alerts of the rule with sid 2 in a log of a capture.
fn alerts_of(folder: &tempfile::TempDir, capture: &Path) -> usize {
    let ran =
        weir(folder.path(), &[capture.to_str().unwrap(), "-S", "local.rules", "-o", "logs", "--log", "fast"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let log = std::fs::read_to_string(folder.path().join("logs/fast.log")).unwrap();
    log.lines().filter(|line| line.contains("[1:2:")).count()
}

#[test]
fn costs_of_rules_are_measured() {
    let folder = desk(
        "alert http any any -> any any (msg:\"any request\"; http.method; content:\"GET\"; sid:2;)\n\
         alert http any any -> any any (msg:\"no request\"; http.method; content:\"GET\"; http.uri; content:\"|00|\"; sid:3;)\n\
         alert http any any -> any any (msg:\"never found\"; http.method; content:\"NOT A METHOD\"; sid:4;)\n",
    );
    let capture = sample();
    let args = ["rules", "profile", capture.to_str().unwrap(), "-S", "local.rules"];
    let ran = weir(folder.path(), &args);
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    assert!(ran.text().contains("any request") && !ran.text().contains("never found"), "{}", ran.text());
    let ran = weir(folder.path(), &[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&ran.text()).unwrap();
    let rows = json["rules"].as_array().unwrap();
    let row = |sid: u64| rows.iter().find(|row| row["sid"] == sid);
    let any = row(2).unwrap();
    assert_eq!(any["matched"].as_u64(), Some(alerts_of(&folder, &capture) as u64));
    assert!(
        any["found"].as_u64() >= any["verified"].as_u64() && any["verified"].as_u64() >= any["held"].as_u64()
    );
    assert_eq!(row(3).map(|row| row["matched"].clone()), Some(0.into()));
    assert_eq!(row(4), None);
}

#[test]
fn a_configuration_names_rules() {
    let folder = desk("alert dns any any -> $OURS any (dns.query; content:\"e\"; sid:1;)\n");
    put(folder.path(), "other.rules", b"alert dns any any -> any any (dns.query; content:\"e\"; sid:2;)\n");
    put(
        folder.path(),
        "threshold.config",
        b"threshold gen_id 1, sig_id 1, type limit, track by_rule, count 2, seconds 100000\n",
    );
    let capture = sample();
    let log = |text: &str, more: &[&str]| {
        put(folder.path(), "weir.toml", text.as_bytes());
        let arguments = [capture.to_str().unwrap(), "-c", "weir.toml", "-n", "-o", "out", "--log", "fast"];
        let ran = weir(folder.path(), &[&arguments, more].concat());
        let log = std::fs::read_to_string(folder.path().join("out/fast.log")).unwrap_or_default();
        let _ = std::fs::remove_dir_all(folder.path().join("out"));
        (ran, log)
    };
    let rules = "[rules]\nfiles = [\"local.rules\"]\nvariables = [\"OURS=any\"]\n";
    let (ran, whole) = log(rules, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(whole.lines().count() > 2 && whole.lines().all(|line| line.contains("[1:1:0]")), "{whole}");
    let (_, limited) = log(&format!("{rules}threshold_config = \"threshold.config\"\n"), &[]);
    assert_eq!(limited.lines().count(), 2);
    // The command line has others.
    let (_, others) = log(rules, &["-S", "other.rules"]);
    assert!(!others.is_empty() && others.lines().all(|line| line.contains("[1:2:0]")), "{others}");
    for (text, expected) in [
        ("[rules]\nalert_payload = true\n", "alert_payload has no effect without rule files"),
        ("[rules]\nfiles = [\"local.rules\"]\nvariables = [\"OURS\"]\n", "`OURS` is not NAME=VALUE"),
        ("[rules]\nfiles = [\"local.rules\"]\n", ""),
    ] {
        let (ran, _) = log(text, &[]);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

/// A flow of TCP without a SYN, and a datagram: both have a word that rules ask for.
fn words() -> Vec<u8> {
    let frame = || weir_wire::build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 1, 2]);
    let segment = frame().tcp(40_000, 80, weir_wire::build::flags::ACK).payload(b"word");
    let at = 1_600_000_000_000_000_000;
    pcap(1, &[(at, segment), (at + 1, frame().udp(40_000, 5_000).payload(b"word"))])
}

#[test]
fn a_configuration_of_suricata_is_read() {
    let folder = desk(
        "drop tcp $OURS any -> any any (flow:established; content:\"word\"; sid:1;)\n\
         alert udp any any -> $OTHERS $DOORS (content:\"word\"; sid:2;)\n",
    );
    put(folder.path(), "x.pcap", &words());
    let configuration = "%YAML 1.1\n---\nvars:\n  address-groups:\n    OURS: \"[10.0.0.0/16]\"\n    OTHERS: [10.0.1.2, 10.0.1.3]\n  \
                         port-groups:\n    DOORS: 5000\nstream:\n  midstream: yes\n  memcap: 64mb\nlogging:\n  level: notice\n";
    put(folder.path(), "suricata.yaml", configuration.as_bytes());
    let run = |more: &[&str]| {
        let arguments = ["x.pcap", "-n", "-o", "out", "--log", "eve"];
        let ran = weir(folder.path(), &[&arguments, more].concat());
        let log = std::fs::read_to_string(folder.path().join("out/eve.json")).unwrap_or_default();
        let _ = std::fs::remove_dir_all(folder.path().join("out"));
        let alerts = objects(&log).into_iter().filter(|event| event["event_type"] == "alert");
        let alerts = alerts.map(|event| {
            let (sid, action) = (&event["alert"]["signature_id"], &event["alert"]["action"]);
            (sid.as_u64().unwrap(), action.as_str().unwrap().to_owned())
        });
        let mut alerts: Vec<(u64, String)> = alerts.collect();
        alerts.sort();
        (ran, alerts)
    };
    let of = |alerts: &[(u64, &str)]| -> Vec<(u64, String)> {
        alerts.iter().map(|(sid, action)| (*sid, (*action).to_owned())).collect()
    };
    let given = ["-S", "local.rules", "--suricata-config", "suricata.yaml"];
    let (ran, alerts) = run(&given);
    assert_eq!((ran.code, alerts), (Some(0), of(&[(1, "allowed"), (2, "allowed")])), "{}", ran.stderr);
    let note = "weir: of Suricata's configuration these keys have no effect: stream.memcap, logging\n";
    assert_eq!(ran.stderr.matches(note).count(), 1, "{}", ran.stderr);
    for (more, expected) in [
        (&["--simulate-ips"][..], &[(1, "blocked"), (2, "allowed")][..]),
        (&["--suricata-set", "stream.midstream=no"], &[(2, "allowed")]),
        (&["--rule-var", "OURS=[192.168.0.0/16]"], &[(2, "allowed")]),
    ] {
        let (ran, alerts) = run(&[&given, more].concat());
        assert_eq!((ran.code, alerts), (Some(0), of(expected)), "{more:?} {}", ran.stderr);
    }
    // weir.toml has the same options.
    let table = "[rules]\nfiles = [\"local.rules\"]\nsuricata_config = \"suricata.yaml\"\n\
                 suricata_set = [\"vars.port-groups.DOORS=5001\"]\nsimulate_ips = true\n";
    put(folder.path(), "weir.toml", table.as_bytes());
    let (ran, alerts) = run(&["-c", "weir.toml"]);
    assert_eq!((ran.code, alerts), (Some(0), of(&[(1, "blocked")])), "{}", ran.stderr);
    for (more, code, expected) in [
        (&["--suricata-set", "stream.midstream=x"][..], 1, "stream.midstream: `x` is not yes or no"),
        (&["--suricata-set", "stream.midstream"], 1, "a key, `=` and a value are given"),
        (&["--suricata-set", "vars.address-groups.OURS=x"], 1, "vars: OURS: `x` is not an IP address"),
    ] {
        let (ran, _) = run(&[&given, more].concat());
        assert!(ran.code == Some(code) && ran.stderr.contains(expected), "{:?} {}", ran.code, ran.stderr);
    }
    let (ran, _) = run(&["-S", "local.rules", "--suricata-config", "missing.yaml"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("missing.yaml: "), "{:?} {}", ran.code, ran.stderr);
}

/// The flows of a log in order, by the port of their initiator: whether they are alerted, and their action.
fn judged_flows(log: &str) -> Vec<(u64, bool, String)> {
    let flows = objects(log).into_iter().filter(|event| event["event_type"] == "flow");
    let judged = flows.map(|event| {
        let of = &event["flow"];
        let action = of.get("action").map_or("", |action| action.as_str().unwrap());
        (event["src_port"].as_u64().unwrap(), of["alerted"].as_bool().unwrap(), action.to_owned())
    });
    let mut judged: Vec<_> = judged.collect();
    judged.sort();
    judged
}

#[test]
fn flows_say_whether_they_had_an_alert_however_many_workers_read() {
    let rules = [
        "alert udp any any -> any any (content:\"loud\"; sid:1;)",
        "alert udp any any -> any any (content:\"kept back\"; sid:2;)",
        "alert udp any any -> any any (content:\"silent\"; noalert; sid:3;)",
        "alert udp any any -> any any (content:\"once\"; threshold: type limit, track by_rule, count 1, seconds 600; sid:4;)",
        "pass udp any 1006 -> any any (sid:5;)",
        "drop udp any 1007 -> any any (sid:6;)",
    ]
    .join("\n");
    let folder = desk(&rules);
    put(folder.path(), "threshold.config", b"suppress gen_id 1, sig_id 2\n");
    let words = ["loud", "quiet", "kept back", "silent", "once", "once", "loud", "loud"];
    let frames: Vec<(u64, Vec<u8>)> = (0..2 * words.len())
        .map(|at| {
            let (word, port) = (words[at % words.len()], 1_000 + (at % words.len()) as u16);
            let frame = weir_wire::build::ethernet().ipv4([10, 0, 0, 1 + port as u8], [10, 0, 1, 2]);
            (
                1_600_000_000_000_000_000 + at as u64 * 1_000_000,
                frame.udp(port, 5_000).payload(word.as_bytes()),
            )
        })
        .collect();
    put(folder.path(), "x.pcap", &pcap(1, &frames));
    let run = |workers: &str, more: &[&str]| {
        let given = ["x.pcap", "-S", "local.rules", "-n", "-o", "out", "--log", "eve", "--workers", workers];
        let ran = weir(folder.path(), &[&given, more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let log = std::fs::read_to_string(folder.path().join("out/eve.json")).unwrap();
        std::fs::remove_dir_all(folder.path().join("out")).unwrap();
        judged_flows(&log)
    };
    let of = |actions: [&str; 2]| -> Vec<(u64, bool, String)> {
        // The second flow with `once` is beyond the threshold, and what passes makes no alert.
        let alerted = [true, false, false, false, true, false, false, true];
        let [passes, drops] = actions;
        let actions = ["", "", "", "", "", "", passes, drops];
        let judged = alerted.into_iter().zip(actions);
        (1_000..).zip(judged).map(|(port, (alerted, action))| (port, alerted, action.to_owned())).collect()
    };
    let with_thresholds = ["--threshold-config", "threshold.config"];
    for workers in ["1", "3"] {
        // A rule that asks for a header alone is about the packet here, and in line about the flow.
        assert_eq!(run(workers, &with_thresholds), of(["", ""]), "{workers} workers");
        let inline = [&with_thresholds[..], &["--simulate-ips"]].concat();
        assert_eq!(run(workers, &inline), of(["pass", "drop"]), "{workers} workers");
    }
    // What is not suppressed is an alert.
    assert!(run("1", &[])[2].1);
}

#[test]
fn a_packet_keeps_its_most_important_alerts_in_each_order_of_files() {
    // Rules of messages match before those of packets, and each request is a transaction.
    let files = [
        "alert http any any -> any any (http.method; content:\"GET\"; priority:3; sid:1;)\n\
         alert http any any -> any any (http.uri; content:\"/b\"; priority:2; sid:2;)\n",
        "alert tcp any any -> any any (dsize:>0; priority:1; sid:3;)\n\
         drop tcp any any -> any any (dsize:>1; priority:4; sid:4;)\n",
        "alert http any any -> any any (http.uri; content:\"/a\"; priority:2; sid:5;)\n",
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, rules) in ["a.rules", "b.rules", "c.rules"].into_iter().zip(files) {
        put(folder.path(), name, rules.as_bytes());
    }
    let requests = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n";
    let frames: Vec<(u64, Vec<u8>)> = (0..9)
        .map(|number| {
            let frame = weir_wire::build::ethernet().ipv4([10, 0, 0, 1 + number], [10, 0, 1, 2]);
            let segment = frame.tcp(40_000 + u16::from(number), 80, weir_wire::build::flags::ACK);
            (1_600_000_000_000_000_000 + u64::from(number) * 1_000_000, segment.payload(requests))
        })
        .collect();
    put(folder.path(), "x.pcap", &pcap(1, &frames));
    // The sids of each flow, with the transactions of the first rule.
    let run = |files: [&str; 3], workers: &str, most: Option<&str>| {
        let given = ["x.pcap", "-n", "-o", "out", "--log", "eve", "--workers", workers];
        let limit = most.map(|most| format!("packet-alert-max={most}"));
        let mut arguments = given.to_vec();
        files.iter().for_each(|file| arguments.extend(["-S", file]));
        if let Some(limit) = &limit {
            arguments.extend(["--suricata-set", limit, "--suricata-set", "stream.midstream=true"]);
        }
        let ran = weir(folder.path(), &arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let log = std::fs::read_to_string(folder.path().join("out/eve.json")).unwrap();
        std::fs::remove_dir_all(folder.path().join("out")).unwrap();
        let mut flows = std::collections::BTreeMap::<u64, Vec<(u64, Option<u64>)>>::new();
        for event in objects(&log).into_iter().filter(|event| event["event_type"] == "alert") {
            let sid = event["alert"]["signature_id"].as_u64().unwrap();
            let alert = (sid, event["tx_id"].as_u64().filter(|_| sid == 1));
            flows.entry(event["src_port"].as_u64().unwrap()).or_default().push(alert);
        }
        assert_eq!(flows.len(), 9);
        let all: Vec<_> = flows.into_values().collect();
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
        all[0].clone()
    };
    let important = [(4, None), (3, None), (2, None), (5, None), (1, Some(1)), (1, Some(0))];
    let [a, b, c] = ["a.rules", "b.rules", "c.rules"];
    for files in [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]] {
        for workers in ["1", "3"] {
            assert_eq!(run(files, workers, Some("3")), important[..3], "{files:?} {workers}");
        }
    }
    for most in [1, 2, 4, 5, 6, 15] {
        let kept = run([a, b, c], "3", Some(&most.to_string()));
        assert_eq!(kept, important[..important.len().min(most)], "at most {most}");
    }
    // Without a limit all are there.
    let mut all = run([a, b, c], "1", None);
    all.sort();
    let mut expected = important;
    expected.sort();
    assert_eq!(all, expected);
}

/// Datagrams between 40 hosts, one each 10 ms, whose sender, receiver and word follow from a fixed sequence of numbers; and how many
/// hosts send the word that rules ask for.
fn many_hosts() -> (Vec<u8>, usize) {
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut senders = std::collections::BTreeSet::new();
    let frames: Vec<(u64, Vec<u8>)> = (0..4_000)
        .map(|number| {
            let (from, to) = (next(40) as u8, next(40) as u8);
            let word: &[u8] = if next(3) == 0 { b"word" } else { b"other" };
            if word == b"word" {
                senders.insert(from);
            }
            let port = 1_024 + next(50_000) as u16;
            let frame = weir_wire::build::ethernet().ipv4([10, 0, 0, from], [10, 0, 1, to]);
            (1_600_000_000_000_000_000 + number * 10_000_000, frame.udp(port, 5_000).payload(word))
        })
        .collect();
    (pcap(1, &frames), senders.len())
}

#[test]
fn limits_of_hosts_are_those_of_all_workers() {
    let of_source = "threshold: type limit, track by_src, count 1, seconds 100000";
    let rules: String = [
        of_source,
        "threshold: type both, track by_dst, count 5, seconds 7",
        "threshold: type threshold, track by_rule, count 10, seconds 100000",
        "threshold: type limit, track by_both, count 1, seconds 10",
        "detection_filter: track by_src, count 8, seconds 20",
        "xbits:set,seen,track ip_src,expire 3; noalert",
        "xbits:isset,seen,track ip_src",
        "xbits:isnotset,seen,track ip_dst; threshold: type limit, track by_dst, count 2, seconds 4",
    ]
    .iter()
    .zip(1..)
    .map(|(limit, sid)| format!("alert udp any any -> any any (content:\"word\"; {limit}; sid:{sid};)\n"))
    .collect();
    let folder = desk(&rules);
    let (capture, senders) = many_hosts();
    put(folder.path(), "x.pcap", &capture);
    let log = |workers: &str| {
        let arguments =
            ["x.pcap", "-S", "local.rules", "-n", "-o", workers, "--log", "fast", "--workers", workers];
        let ran = weir(folder.path(), &arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        std::fs::read_to_string(folder.path().join(workers).join("fast.log")).unwrap()
    };
    let one = log("1");
    let of = |sid: u32| one.lines().filter(|line| line.contains(&format!("[1:{sid}:"))).count();
    assert_eq!(of(1), senders);
    assert!((2..=8).filter(|sid| *sid != 6).all(|sid| of(sid) > 20), "{one}");
    for workers in ["2", "3", "7"] {
        assert_eq!(one, log(workers), "{workers} workers");
    }
}

#[test]
fn a_run_says_how_many_rules_are_in_force() {
    let folder = desk(
        "alert tcp any any -> any any (sid:1;)\n\
         alert tcp any any -> any any (contents:\"x\"; sid:2;)\n\
         alert quic any any -> any any (quic.ua; content:\"x\"; sid:3;)\n",
    );
    let capture = sample();
    let ran = weir(folder.path(), &[capture.to_str().unwrap(), "-S", "local.rules", "-n"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 of 3 rules in force; 2 refused (1 file)"), "{}", ran.stderr);
    // Without logs, the summary ends with the alerts.
    assert!(ran.text().contains("\nalerts by rule\n"), "{}", ran.text());
    let ran = weir(folder.path(), &["rules", "check", "local.rules"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.text().contains("sid 3: not supported: `quic.ua`: nothing reads this"), "{}", ran.text());
    let ran = weir(folder.path(), &[capture.to_str().unwrap(), "-S", "missing.rules"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("missing.rules"), "{}", ran.stderr);
}
