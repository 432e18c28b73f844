use super::*;
use crate::carve::Limits;
use crate::cli::RuleOptions;
use weir_api::Level;
use weir_store::Keep;

const EXAMPLE: &str = r#"interval = "5m"          # 1s to 1h
memory = "2G"
workers = 3
interfaces = ["eth0", "eth1"]
expression = "not tcp port 22"

[output]
dir = "/var/log/weir"
log = ["zeek", "mon"]

[[chart]]
name = "ports"
unit = "packets"
xtra = true
lines = [
  { name = "ssh", expression = "tcp port 22" },
  { name = "web", expression = "tcp port 80 or tcp port 443" },
]

[[subscription]]
name = "web talkers"
expression = "tcp port 80"
functions = [
  { top = "source", show = 25 }, "packets", "bytes", { tcp3 = [80, 443] }, "rate", "cast", "size", "ipproto",
  { iprange = ["10.0.0.0/8", "192.168.0.0/16"] }, { distribution = "size" }, { top = "service", unit = "packets" },
]

[[subscription]]
name = "flows"
level = "flow"
functions = ["top"]
"#;

/// The blocks of the errors, one per error, without the final count.
fn errors(text: &str) -> Vec<String> {
    let shown = load(Path::new("weir.toml"), text).expect_err(text).to_string();
    let (shown, count) = shown.trim_end().rsplit_once('\n').unwrap();
    let mut blocks: Vec<String> = Vec::new();
    for line in shown.lines() {
        match blocks.last_mut() {
            Some(block) if !line.starts_with("weir.toml:") => block.push_str(&format!("\n{line}")),
            _ => blocks.push(line.to_owned()),
        }
    }
    assert!(count.starts_with(&format!("weir.toml: {} error", blocks.len())), "{count}");
    blocks
}

#[test]
fn every_setting_is_read() {
    let config = load(Path::new("weir.toml"), EXAMPLE).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.interval, Setting { value: Duration::from_secs(300), line: Some(1) });
    assert_eq!(config.memory, Setting { value: 2 << 30, line: Some(2) });
    assert_eq!(config.workers, Setting { value: Some(3), line: Some(3) });
    assert_eq!(config.interfaces.value, ["eth0", "eth1"]);
    assert_eq!(config.expression.value, "not tcp port 22");
    assert_eq!(config.output.dir.value, Some(PathBuf::from("/var/log/weir")));
    assert_eq!(config.output.log, Setting { value: vec!["zeek".into(), "mon".into()], line: Some(9) });
    let plan = config.plan();
    let names: Vec<(Option<&str>, &str)> =
        plan.iter().map(|s| (s.chart.as_deref(), s.name.as_str())).collect();
    let ports = Some("ports");
    assert_eq!(
        names,
        [(ports, "ssh"), (ports, "web"), (ports, "xtra"), (None, "web talkers"), (None, "flows")]
    );
    assert_eq!(plan[0].functions, [FunctionCall::new("packets")]);
    assert!(plan[2].remainder && !plan[1].remainder);
    assert_eq!(
        plan[3].functions,
        [
            FunctionCall::new("top").with("by", "source").with("show", 25),
            FunctionCall::new("packets"),
            FunctionCall::new("bytes"),
            FunctionCall::new("tcp3").with("port1", 80).with("port2", 443),
            FunctionCall::new("rate"),
            FunctionCall::new("cast"),
            FunctionCall::new("size"),
            FunctionCall::new("ipproto"),
            FunctionCall::new("iprange").with("net1", "10.0.0.0/8").with("net2", "192.168.0.0/16"),
            FunctionCall::new("distribution").with("of", "size"),
            FunctionCall::new("top").with("by", "service").with("unit", "packets"),
        ]
    );
    assert_eq!(plan[4].level, Level::Flow);
}

#[test]
fn packet_files_and_extracted_files_are_read() {
    let text = "[packets]\nwrite = \"a.pcap\"\nunidentified = \"b.pcap\"\n[files]\ndir = \"kept\"\neach = \"1M\"\ncount = 7\n";
    let config = load(Path::new("weir.toml"), text).unwrap();
    assert_eq!(config.packets.unidentified, Setting { value: Some("b.pcap".into()), line: Some(3) });
    assert_eq!(config.files.dir.value, Some("kept".into()));
    assert_eq!(config.files.limits(), Limits { each: 1 << 20, files: 7, ..Limits::default() });
    let errors = load(Path::new("weir.toml"), "[files]\neach = \"1M\"\n[packets]\nunidentified = \"-\"\n");
    let errors = errors.unwrap_err().to_string();
    assert!(
        errors.contains("each has no effect without a directory") && errors.contains("standard output"),
        "{errors}"
    );
}

/// The command line and the configuration have equal defaults.
#[test]
fn the_limits_of_extracted_files_are_those_of_the_command_line() {
    let options = <crate::cli::Cli as clap::Parser>::parse_from(["weir", "-r", "x", "--files", "y"]).run;
    assert_eq!(options.extraction.limits(), Limits::default());
}

#[test]
fn an_empty_file_gives_the_defaults() {
    assert_eq!(load(Path::new("weir.toml"), ""), Ok(Config::default()));
}

#[test]
fn the_limits_of_a_store_are_read() {
    let text = "[store]\nage = \"7d\"\nsize = \"2G\"\nfree = \"100M\"\nseries = { 5m = \"30d\" }\nlists = { 1h = \"200d\" }\n\
        findings = [\"new\", \"beacons\", \"new\"]\nbeacon_allow = [\"192.0.2.0/24\", \"2001:db8::1\"]\n";
    let config = load(Path::new("weir.toml"), text).unwrap();
    let day = 86_400_000_000_000;
    let keep = config.store.keep();
    assert_eq!((keep.age, keep.bytes, keep.free), (7 * day, 2 << 30, 100 << 20));
    assert_eq!((keep.series[1], keep.lists[1]), (30 * day, 200 * day));
    let plain = Keep::default();
    assert_eq!(
        (keep.series[0], keep.series[2], keep.lists[4]),
        (plain.series[0], plain.series[2], plain.lists[4])
    );
    let shown = settings(&config);
    for wanted in [
        ("store.age", "7d", Some(2)),
        ("store.free", "100M", Some(4)),
        ("store.series.5m", "30d", Some(5)),
        ("store.series.1h", "366d", None),
        ("store.lists.1h", "200d", Some(6)),
        ("store.findings", "beacons, new", Some(7)),
        ("store.beacon_allow", "192.0.2.0/24, 2001:db8::1", Some(8)),
    ] {
        assert!(shown.contains(&(wanted.0, wanted.1.to_owned(), wanted.2)), "{wanted:?}: {shown:?}");
    }
}

/// The manual shows the default values.
#[test]
fn the_manual_shows_the_default_limits_of_a_store() {
    let page = include_str!("../../../../docs/manual/store.md");
    let shown: String = page
        .lines()
        .skip_while(|line| *line != "    [store]")
        .take_while(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    let config = load(Path::new("store.md"), &shown).unwrap();
    assert!(
        config.store.lists.iter().chain(&config.store.series).all(|setting| setting.line.is_some()),
        "{shown}"
    );
    assert_eq!(config.store.keep(), Keep::default());
}

#[test]
fn an_unknown_key_is_reported_with_a_suggestion() {
    assert_eq!(
        errors("memory = \"1G\"\n  intervall = \"30s\"\n"),
        ["weir.toml:2:3: unknown key \"intervall\"\n   \
            2 |   intervall = \"30s\"\n     |   ^^^^^^^^^ did you mean \"interval\"?\n     \
            = accepted: interval, memory, trigger_memory, inflate, inflate_ratio, inflate_total, inflate_total_ratio, workers, interfaces, expression, home, mon, output, packets, files, rules, anon, server, store, chart, subscription, trigger, app"]
    );
}

#[test]
fn every_error_is_reported_at_its_position() {
    for (text, place, message, meant) in [
        ("interval = 30", "1:12", "interval cannot be an integer", "\"30s\""),
        ("interval = \"2h\"", "1:12", "\"2h\" is longer than 1h", ""),
        ("memory = true", "1:10", "memory cannot be a boolean", ""),
        ("memory = \"128mbb\"", "1:10", "\"128mbb\" is not an amount of memory", ""),
        ("workers = 0", "1:11", "0 is not between 1 and 1024", ""),
        ("workers = -0x", "1:", "", ""),
        ("workers = 99999999999999999999", "1:11", "not between", ""),
        ("interfaces = \"eth0\"", "1:14", "interfaces cannot be a string", ""),
        ("interfaces = [\"eth0\", \"eth0\"]", "1:23", "the interface \"eth0\" exists already, on line 1", ""),
        ("interfaces = [\"a/b\"]", "1:15", "\"a/b\" is not a valid interface name", ""),
        ("interfaces = [\"\"]", "1:15", "an empty name", ""),
        ("output = 3", "1:10", "output cannot be an integer", ""),
        ("[output]\nlog = [\"zeeek\"]", "2:8", "log cannot be \"zeeek\"", "\"zeek\""),
        ("[store]\nage = \"30\"\nsize = \"1X\"", "3:8", "", ""),
        ("[store.series]\n1h = \"30m\"", "", "series.1h keeps less than one of its cells", ""),
        (
            "[store]\nlists = { 1h = \"999d\" }",
            "2:9",
            "lists.1d keeps less than lists.1h, which is finer",
            "",
        ),
        ("[store]\nfindings = [\"beacon\"]", "2:13", "findings cannot be \"beacon\"", "\"beacons\""),
        ("[store]\nbeacon_allow = [\"10.0.0.0/40\"]", "2:17", "\"10.0.0.0/40\" is ", ""),
        ("[store.series]\n2h = \"3d\"", "2:1", "unknown key \"2h\"", ""),
        ("[output]\ndri = \"x\"", "2:1", "unknown key \"dri\"", "\"dir\""),
        ("[output]\ndir = \"\"", "2:7", "an empty path", ""),
        ("interval = \"1s\"\ninterval = \"2s\"", "2:1", "duplicate key", ""),
        ("interval = ", "1:", "", ""),
        ("expression = \"tcp prot 80\"", "1:19", "", ""),
        ("expression = 'tcp and'", "1:", "", ""),
        ("[[chart]]\nlines = []", "1:1", "this chart has no name", ""),
        ("[[chart]]\nname = \"a\"", "1:1", "this chart has no lines", ""),
        ("[[chart]]\nname = \"a\"\nlines = [{ name = \"x\" }]", "3:10", "this line has no expression", ""),
        ("[[chart]]\nname = \"a\"\nunit = \"octets\"\nlines = []", "3:8", "unit cannot be \"octets\"", ""),
        (
            "[[chart]]\nname = \"a\"\nlines = []\n[[chart]]\nname = \"a\"\nlines = []",
            "5:8",
            "the chart \"a\" exists already, on line 2",
            "",
        ),
        (
            "[[chart]]\nname = \"a\"\nlines = [\n{ name = \"x\", expression = \"tcp\" },\n{ name = \"x\", expression = \"udp\" }]",
            "5:10",
            "the line \"x\" exists already, on line 4",
            "",
        ),
        (
            "[[chart]]\nname = \"a\"\nlines = [{ name = \"xtra\", expression = \"tcp\" }]",
            "3:19",
            "xtra counts packets that match no other line",
            "",
        ),
        ("[chart]\nname = \"a\"", "1:1", "chart cannot be a table", ""),
        ("[[subscription]]\nname = \"a\"\nfunctions = []", "3:13", "needs at least one function", ""),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [\"pakets\"]",
            "3:14",
            "no function \"pakets\"",
            "\"packets\"",
        ),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [{ topp = \"source\" }]",
            "3:16",
            "no function \"topp\"",
            "\"top\"",
        ),
        ("[[subscription]]\nname = \"a\"\nfunctions = [3]", "3:14", "a function cannot be an integer", ""),
        ("[[subscription]]\nname = \"a\"\nfunctions = [{}]", "3:14", "an empty table names no function", ""),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [{ top = \"soruce\" }]",
            "3:22",
            "by of top cannot be \"soruce\"",
            "\"source\"",
        ),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [{ top = \"source\", shwo = 3 }]",
            "3:32",
            "unknown key \"shwo\"",
            "\"show\"",
        ),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [{ top = \"source\", show = 0 }]",
            "3:39",
            "show of top cannot be \"0\"",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [{ top = true }]",
            "3:22",
            "by of top cannot be a boolean",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [{ tcp3 = [80] }]",
            "3:23",
            "tcp3 takes 2 values, not 1",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [\"tcp3\"]",
            "3:14",
            "tcp3 needs the argument port1",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [{ tcp3 = [80, 70000] }]",
            "3:28",
            "port2 of tcp3 cannot be \"70000\"",
            "",
        ),
        ("[[subscription]]\nname = \"a\"\nfunctions = [{ cast = 1 }]", "3:23", "cast takes no argument", ""),
        (
            "[[subscription]]\nname = \"a\"\nfunctions = [{ top = \"source\", size = 1 }]",
            "3:32",
            "second function",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nlevel = \"flow\"\nfunctions = [\"top\", \"cast\"]",
            "4:21",
            "cast does not work on level",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nlevel = \"streams\"\nfunctions = [\"top\"]",
            "3:9",
            "level cannot be \"streams\"",
            "\"stream\"",
        ),
        (
            "[[subscription]]\nname = \"a\"\nlevel = \"stream\"\nwhere = 'tcp and len > 100'\nchain = [\"packets\"]",
            "4:18",
            "packet",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nlevel = \"stream\"\nchain = [\"size\"]",
            "4:10",
            "size does not work on level = \"stream\"",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nlevel = \"record\"\nchain = [\"top dns.nosuch show 20\"]",
            "4:10",
            "table dns has no field nosuch; it has",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nlevel = \"record\"\nchain = [\"top dns.query shwo 20\"]",
            "4:10",
            "top has no argument \"shwo\"",
            "\"show\"",
        ),
        (
            "[[subscription]]\nname = \"a\"\nwhere = 'dns.query = a'\nchain = [\"packets\"]",
            "3:10",
            "is a field of records",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nlevel = \"flow\"\nwhere = 'len > 100'\nchain = [\"packets\"]",
            "4:10",
            "packet",
            "",
        ),
        (
            "[[subscription]]\nname = \"a\"\nwhere = 'tcp'\nexpression = 'udp'\nchain = [\"packets\"]",
            "3:9",
            "remove one of them",
            "",
        ),
        ("[[subscription]]\nname = \"a\\nb\"\nfunctions = [\"top\"]", "2:8", "control characters", ""),
    ] {
        let found = errors(text);
        assert_eq!(found.len(), 1, "{text}\n{}", found.join("\n"));
        let block = &found[0];
        assert!(block.starts_with(&format!("weir.toml:{place}")), "{text}: {block}");
        assert!(block.contains(message), "{text}: {block}");
        if !meant.is_empty() {
            assert!(block.contains(&format!("did you mean {meant}?")), "{text}: {block}");
        }
        // Every error names the accepted values, in its message or next to it.
        assert!(block.contains("\n"), "{block}");
    }
}

#[test]
fn all_errors_are_reported_at_once_and_in_order() {
    let text = "interval = \"2h\"\nmemry = \"1G\"\n[output]\nlog = [\"eve\", \"xml\"]\n[[subscription]]\nname = \"a\"\n\
                expression = \"tcp prot 80\"\nfunctions = [\"pakets\", \"bites\"]\n";
    let places: Vec<String> = errors(text)
        .iter()
        .map(|block| block.split(':').skip(1).take(2).collect::<Vec<_>>().join(":"))
        .collect();
    assert_eq!(places, ["1:12", "2:1", "4:15", "7:19", "8:14", "8:24"]);
}

#[test]
fn a_syntax_error_is_reported_once_with_its_position() {
    let found = errors("intervl = \"1s\"\ninterfaces = [\"eth0\"\nmemory = \"1G\"\n");
    assert!(found[0].starts_with("weir.toml:1:1: unknown key"), "{found:?}");
    assert!(found.len() <= 4, "{found:?}");
}

#[test]
fn an_error_in_an_expression_is_marked_inside_its_string() {
    let text = "expression = \"\"\"\nport 80 or\n  tcp prot 81\"\"\"\n";
    assert!(errors(text)[0].starts_with("weir.toml:3:7: "), "{}", errors(text)[0]);
}

/// Neither a truncated text nor any other byte in it causes a panic.
#[test]
fn any_text_is_read_without_a_panic() {
    let (mut good, mut bad) = (0, 0);
    for end in (0..=EXAMPLE.len()).filter(|end| end % 2 == 0) {
        match load(Path::new("weir.toml"), &EXAMPLE[..end]) {
            Ok(_) => good += 1,
            Err(errors) => {
                assert!(errors.to_string().lines().count() > 3, "{errors}");
                bad += 1;
            }
        }
    }
    for at in 0..EXAMPLE.len() {
        // Each character at every third position, because recompiling the expressions takes most of the time.
        for c in ["\"", "[", "\u{0}", "é", "\n", "\\", "{"].into_iter().skip(at % 3).step_by(3) {
            let text = format!("{}{c}{}", &EXAMPLE[..at], &EXAMPLE[at + 1..]);
            bad += usize::from(load(Path::new("weir.toml"), &text).is_err());
        }
    }
    println!("{good} truncated texts are valid, {bad} truncated or changed texts are refused");
    assert!(good > 5 && bad > 1000);
    let deep = format!("interfaces = {}", "[".repeat(100_000));
    assert!(load(Path::new("weir.toml"), &deep).is_err());
}

/// A program may write the file, so that twenty thousand lines must be read in linear time. Expressions are empty,
/// because the time to compile them is not measured here.
#[test]
fn long_files_are_read_in_linear_time() {
    let long = |name: &str| {
        let line = |n: usize| format!("  {{ {name} = \"l{n}\", expression = \"\" }},\n");
        let lines: String = (0..20_000).map(line).collect();
        format!("[[chart]]\nname = \"a\"\nlines = [\n{lines}]\n")
    };
    let begun = std::time::Instant::now();
    assert_eq!(load(Path::new("f"), &long("name")).map(|config| config.plan().len()), Ok(20_000));
    let errors = load(Path::new("f"), &long("nam")).unwrap_err().to_string();
    assert!(errors.ends_with("f: 40000 errors"));
    assert!(begun.elapsed() < Duration::from_secs(120), "reading that takes this long is not linear");
}

#[test]
fn check_prints_the_number_of_subscriptions_and_charts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weir.toml");
    std::fs::write(&path, EXAMPLE).unwrap();
    let shown = path.display();
    assert_eq!(check(&path).stdout, format!("{shown}: good: 5 subscriptions, 1 chart\n"));
    std::fs::write(&path, "x = 1\ny = 2\n").unwrap();
    let outcome = check(&path);
    assert_eq!((outcome.exit, outcome.stdout.as_str()), (1, ""));
    assert!(outcome.stderr.ends_with(&format!("{shown}: 2 errors\n")), "{}", outcome.stderr);
    std::fs::write(&path, b"interval = \"1s\"\n# \xff\n").unwrap();
    assert_eq!(check(&path).stderr, format!("{shown}:2: not UTF-8 text at byte 18\n"));
    let absent = check(&dir.path().join("absent.toml"));
    assert!(absent.exit == 1 && absent.stderr.contains("cannot be read"), "{}", absent.stderr);
}

#[test]
fn explain_shows_values_with_their_origin() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weir.toml");
    std::fs::write(&path, EXAMPLE.replace("workers = 3\n", "\n")).unwrap();
    let shown = explain(&path).stdout.replace(&path.display().to_string(), "F");
    println!("{shown}");
    for line in [
        "interval              5m                 F:1",
        "workers               one for each core  default",
        "output.log            zeek, mon          F:9",
        "5 subscriptions, 1 chart",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    let words = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let words: Vec<String> = words.collect();
    for line in
        ["ports / ssh tcp port 22 \"packets\"", "ports / xtra packets that no other line matches \"packets\""]
    {
        assert!(words.iter().any(|shown| shown == line), "{line}\n{shown}");
    }
}

#[test]
fn rules_have_files_about_addresses() {
    let text = "[rules]\nfiles = [\"r\"]\ncategories = \"c\"\nreputation = [\"a\", \"b\"]\ngeoip = \"g\"\nrarity = \"t\"\n";
    let config = load(Path::new("weir.toml"), text).unwrap();
    let options = config.rules.or_given(&RuleOptions::default());
    assert_eq!(options.rule_categories, Some(PathBuf::from("c")));
    assert_eq!(options.rule_reputation, [PathBuf::from("a"), PathBuf::from("b")]);
    assert_eq!(options.rule_geoip, Some(PathBuf::from("g")));
    assert_eq!(options.rule_rarity, Some(PathBuf::from("t")));
    let shown = settings(&config);
    for wanted in [("rules.categories", "c", 3), ("rules.reputation", "a, b", 4), ("rules.geoip", "g", 5)] {
        assert!(shown.contains(&(wanted.0, wanted.1.to_owned(), Some(wanted.2))), "{wanted:?}: {shown:?}");
    }
    let faults = errors("[rules]\nfiles = [\"r\"]\nreputation = [\"a\"]\n");
    assert!(faults[0].contains("reputation has no effect without names of categories"), "{faults:?}");
}
