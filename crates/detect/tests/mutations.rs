//! Broken rules: whatever the bytes, nothing panics, a fault has its place in the text, and neighbours are read.

use proptest::prelude::*;
use std::path::Path;
use weir_detect::{KEYWORDS, Lists, NoSources, Program, Reading, RuleFile, Ruleset, Variables, parse_rule};

const NEIGHBOUR: &[u8] =
    b"\nalert tcp any any -> any any (msg:\"neighbour\"; content:\"x\"; sid:4000000000;)\n";

fn read(bytes: &[u8]) -> Ruleset {
    let reading = Reading { variables: Variables::default(), sources: &NoSources, with_switched_off: true };
    Ruleset::read([RuleFile { name: "x", bytes }], &reading)
}

/// A number from a seed, the same in every run.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 33) as usize
}

const SIGNS: &[u8] = b";:\"|\\,()[]!$\0-{}/^*+\x80";

/// Changes a rule in one to three places.
fn mutate(rule: &[u8], seed: &mut u64) -> Vec<u8> {
    let mut text = rule.to_vec();
    for _ in 0..1 + next(seed) % 3 {
        let at = next(seed) % (text.len() + 1);
        match next(seed) % 6 {
            0 => text.truncate(at),
            1 if at < text.len() => text[at] = (next(seed) & 0xff) as u8,
            2 => text.insert(at, SIGNS[next(seed) % SIGNS.len()]),
            3 if at < text.len() => {
                text.remove(at);
            }
            4 => {
                let word = KEYWORDS[next(seed) % KEYWORDS.len()].name;
                text.splice(at..at, format!(" {word}:1; ").into_bytes());
            }
            _ => {
                let end = (at + next(seed) % 40).min(text.len());
                let part = text[at..end].to_vec();
                text.splice(at..at, part);
            }
        }
    }
    // A continued line would take the neighbour in.
    text.retain(|byte| *byte != b'\n');
    while text.last().is_some_and(|last| matches!(last, b'\\' | b'\r')) {
        text.pop();
    }
    text
}

#[test]
fn a_thousand_mutations_of_each_shared_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/et-open");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no shared data");
        return;
    };
    let (mut files, mut refused) = (0, 0);
    for path in entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|is| is == "rules"))
    {
        files += 1;
        let bytes = std::fs::read(&path).unwrap();
        let rules: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').filter(|line| line.len() > 40).collect();
        let mut seed = files;
        let mut mutated = Vec::new();
        for _ in 0..1000 {
            let rule = rules[next(&mut seed) % rules.len()];
            mutated.extend(mutate(rule, &mut seed));
            mutated.push(b'\n');
        }
        mutated.extend_from_slice(NEIGHBOUR);
        let set = read(&mutated);
        assert!(set.rules.iter().any(|loaded| loaded.rule.sid == 4_000_000_000), "{}", path.display());
        refused += set.refusals.len();
    }
    println!("{refused} of {} mutated rules refused", files * 1000);
    assert!(files == 0 || refused > 1000);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut text = bytes.clone();
        text.extend_from_slice(b"\n\n");
        text.extend_from_slice(NEIGHBOUR);
        let is_wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        prop_assert!(is_wide || read(&text).rules.iter().any(|loaded| loaded.rule.sid == 4_000_000_000));
    }

    #[test]
    fn any_options_are_read(options in "[a-z.:;\"|0-9,!\\\\ ]{0,80}") {
        let text = format!("alert tcp any any -> any any ({options} sid:1;)");
        if let Err(fault) = parse_rule(text.as_bytes(), "x.rules", &mut Lists::default(), &NoSources) {
            prop_assert!(fault.at <= text.len() && !fault.reason.is_empty());
        }
    }
}

/// Each rule is broken in one way, and its reason has this part.
#[test]
fn broken_rules_say_why_and_their_neighbours_are_read() {
    let whole = |header: &str, options: &str| format!("alert tcp {header} ({options})");
    let options = |options: &str| whole("any any -> any any", &format!("{options} sid:1;"));
    let header = |header: &str| whole(header, "content:\"a\"; sid:1;");
    let broken = [
        (options("content:\"a;"), "ends without"),
        (options("content:a\";"), "without `\"`"),
        (options("content:\"|41\";"), "second one"),
        (options("content:\"|4|\";"), "one is left"),
        (options("content:\"|4g|\";"), "hexadecimal"),
        (options("content:\"\";"), "empty"),
        (options("content:\"||\";"), "empty"),
        (options("content:;"), "begins without `\""),
        (options(&format!("content:\"{}\";", "a".repeat(65_536))), "65535"),
        (options("content:\"a\"; content:\"b\"; distance:1048577;"), "1048576"),
        (options("content:\"a\"; content:\"b\"; distance:-1048577;"), "1048576"),
        (options("content:\"a\"; content:\"b\"; within:99999999999999999999;"), "1048576"),
        (options("content:\"a\"; offset:-1;"), "1048576"),
        (options("content:\"abc\"; depth:2;"), "depth"),
        (options("pcre:\"/(/\";"), "wrong"),
        (options("nocase;"), "content"),
        (options("dsize:65536;"), "65535"),
        (header("any any -> any 65536"), "65535"),
        (header("any [1:70000] -> any any"), "65535"),
        (header("any 90:80 -> any any"), "ends before"),
        (header("any !any -> any any"), "is left"),
        (header("[10.0.0.0/8,!10.0.0.0/8] any -> any any"), "no address is left"),
        (header("[10.0.0.0/9,10.128.0.0/9,!10.0.0.0/8] any -> any any"), "no address is left"),
        (header("any any -> any [80,!80]"), "is left"),
        (header("[10.0.0.0/8 any -> any any"), "ends before the source's ports"),
        (header("$NO_SUCH_NET any -> any any"), "not a variable"),
        (header("any any => any"), "port"),
        (whole("any any -> any any", "content:\"a\";"), "sid"),
        (whole("any any -> any any", "content:\"a\"; sid:0;"), "1 to 4294967295"),
        (whole("any any -> any any", "content:\"a\"; sid:4294967296;"), "4294967295"),
        (whole("any any -> any any", "content:\"a\"; sid:-1;"), "4294967295"),
        (whole("any any -> any any", "content:\"a\"; sid:1; sid:2;"), "sid"),
        ("alert tcp any any -> any any (content:\"a\"; sid:1;".to_owned(), ")"),
        ("alert".to_owned(), "the options are missing"),
    ];
    for (text, part) in &broken {
        for end in ["\n", "\r\n"] {
            let file = [b"# a comment", end.as_bytes(), text.as_bytes(), end.as_bytes(), NEIGHBOUR].concat();
            let set = read(&file);
            let shown = text.get(..100).unwrap_or(text);
            assert_eq!(set.refusals.len(), 1, "{shown}");
            let refusal = &set.refusals[0];
            assert!(refusal.fault.reason.contains(part), "{shown}: {}", refusal.fault.reason);
            assert_eq!(refusal.origin.line, 2, "{shown}");
            let sids: Vec<u32> = set.rules.iter().map(|loaded| loaded.rule.sid).collect();
            assert_eq!(sids, [4_000_000_000], "{shown}");
        }
    }
    // All in one file.
    let all: String = broken.iter().map(|(text, _)| format!("{text}\n")).collect();
    let set = read(&[all.as_bytes(), NEIGHBOUR].concat());
    assert_eq!((set.rules.len(), set.refusals.len()), (1, broken.len()));
}

#[test]
fn variables_that_name_themselves_refuse_their_rules_alone() {
    let mut variables = Variables::default();
    for (name, value) in [("A", "[10.0.0.1,$A]"), ("B", "!$C"), ("C", "[$B]")] {
        variables.set_addresses(name, value);
    }
    let reading = Reading { variables, sources: &NoSources, with_switched_off: false };
    let rule = |sid, net| format!("alert tcp {net} any -> any any (content:\"a\"; sid:{sid};)\n");
    let text = [rule(1, "$A"), rule(2, "$B"), rule(3, "[$C,10.0.0.2]"), rule(4, "!$A")].concat();
    let bytes = [text.as_bytes(), NEIGHBOUR].concat();
    let set = Ruleset::read([RuleFile { name: "x", bytes: &bytes }], &reading);
    assert_eq!((set.rules.len(), set.refusals.len()), (1, 4));
    assert!(set.refusals.iter().all(|refusal| refusal.fault.reason.contains("more than 32")));
}

/// Text in UTF-16, in the order of bytes of a byte-order mark.
fn wide(text: &str, is_little: bool) -> Vec<u8> {
    let bytes = |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes).collect()
}

#[test]
fn files_of_every_kind_of_bad_form() {
    // A byte-order mark, CRLF, NUL, a rule without its end.
    let set = read(b"\xef\xbb\xbfalert tcp any any -> any any (sid:1;)\r\nalert tcp any any -> any any (content:\"a\0b\"; sid:2;)\r\nalert");
    assert_eq!((set.rules.len(), set.refusals.len()), (2, 1));
    // UTF-16 in either order takes its own file alone.
    for is_little in [true, false] {
        let file = wide("alert tcp any any -> any any (sid:1;)\n", is_little);
        let reading =
            Reading { variables: Variables::default(), sources: &NoSources, with_switched_off: false };
        let files = [RuleFile { name: "wide", bytes: &file }, RuleFile { name: "plain", bytes: NEIGHBOUR }];
        let set = Ruleset::read(files, &reading);
        assert_eq!((set.rules.len(), set.refusals.len(), set.unreadable), (1, 1, 1));
        assert!(set.refusals[0].fault.reason.contains("UTF-16"), "{}", set.refusals[0].fault.reason);
    }
    // NUL in every place of a rule.
    let rule = "alert tcp any any -> any any (content:\"ab\"; sid:1;)";
    for at in 0..=rule.len() {
        let (before, after) = rule.as_bytes().split_at(at);
        let set = read(&[before, b"\0", after, NEIGHBOUR].concat());
        assert!(set.rules.iter().any(|loaded| loaded.rule.sid == 4_000_000_000), "{at}");
        assert_eq!(set.offered(), 2, "{at}");
    }
    // A sid twice, none, 0 and beyond 32 bits.
    let rule = |sid: &str| format!("alert tcp any any -> any any (content:\"a\"; {sid})\n");
    let text =
        ["sid:5;", "sid:5; rev:2;", "sid:5; rev:1;", "", "sid:0;", "sid:4294967296;"].map(rule).concat();
    let set = read(text.as_bytes());
    assert_eq!((set.rules.len(), set.replaced, set.refusals.len()), (1, 2, 3));
    assert_eq!(set.rules[0].rule.rev, 2);
    assert_eq!(set.offered(), 6);
    // The greatest sid is one.
    assert_eq!(read(rule("sid:4294967295;").as_bytes()).rules[0].rule.sid, u32::MAX);
    // A bit that no rule sets.
    let set = read(b"alert tcp any any -> any any (flowbits:isset,a; sid:1;)");
    assert!(set.notes_of_unset_bits()[0].text.contains("no rule in force sets the flowbit a"));
}

#[test]
fn sizes_have_limits() {
    let long = format!("alert tcp any any -> any any (msg:\"{}\"; sid:1;)", "a".repeat(2 << 20));
    let set = read(long.as_bytes());
    assert!(set.refusals[0].fault.reason.contains("at most 1048576"));
    assert!(set.refusals[0].excerpt.len() <= weir_detect::MAX_EXCERPT);
    // A hundred megabytes on one line, of options and of bytes that are none, take no neighbour with them.
    for part in ["content:\"a\"; ", "\\", "\"", "(", "|"] {
        let mut file = b"alert tcp any any -> any any (".to_vec();
        file.extend(part.bytes().cycle().take(100 << 20));
        file.push(b'.');
        file.extend_from_slice(NEIGHBOUR);
        let set = read(&file);
        assert_eq!((set.rules.len(), set.refusals.len()), (1, 1), "{part}");
        assert!(set.refusals[0].fault.reason.contains("at most 1048576"));
        assert!(set.refusals[0].excerpt.len() <= weir_detect::MAX_EXCERPT);
    }
    // A megabyte of brackets, of options, of digits.
    for text in ["[".repeat(1 << 19), "content:\"a\";".repeat(40_000), "9".repeat(1 << 19)] {
        read(format!("alert tcp {text} any -> any any (sid:1;)").as_bytes());
        read(format!("alert tcp any any -> any any ({text} sid:1;)").as_bytes());
        read(format!("alert tcp any any -> any any (pcre:\"/{text}/\"; sid:1;)").as_bytes());
    }
}

#[test]
fn a_million_rules_are_read_and_found() {
    let text: String = (1..=1_000_000)
        .map(|sid| format!("alert udp any any -> any 80 (content:\"{sid:07}\"; sid:{sid};)\n"))
        .collect();
    let set = read(text.as_bytes());
    assert_eq!((set.rules.len(), set.refusals.len()), (1_000_000, 0));
    let program = Program::new(&set, &[]);
    assert_eq!((program.rules.len(), program.unread.len()), (1_000_000, 0));
}
