//! Broken rules: whatever the bytes, nothing panics, a fault has its place in the text, and neighbours are read.

use proptest::prelude::*;
use std::path::Path;
use weir_detect::{KEYWORDS, Lists, NoSources, Reading, RuleFile, Ruleset, Variables, parse_rule};

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

#[test]
fn files_of_every_kind_of_bad_form() {
    // A byte-order mark, CRLF, NUL, a rule without its end.
    let set = read(b"\xef\xbb\xbfalert tcp any any -> any any (sid:1;)\r\nalert tcp any any -> any any (content:\"a\0b\"; sid:2;)\r\nalert");
    assert_eq!((set.rules.len(), set.refusals.len()), (2, 1));
    assert!(read(b"\xff\xfea\0l\0").refusals[0].fault.reason.contains("UTF-16"));
    // A sid twice, none, 0 and beyond 32 bits.
    let rule = |sid: &str| format!("alert tcp any any -> any any (content:\"a\"; {sid})\n");
    let text =
        ["sid:5;", "sid:5; rev:2;", "sid:5; rev:1;", "", "sid:0;", "sid:4294967296;"].map(rule).concat();
    let set = read(text.as_bytes());
    assert_eq!((set.rules.len(), set.replaced, set.refusals.len()), (1, 2, 3));
    assert_eq!(set.rules[0].rule.rev, 2);
    assert_eq!(set.offered(), 6);
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
    // A megabyte of brackets, of options, of digits.
    for text in ["[".repeat(1 << 19), "content:\"a\";".repeat(40_000), "9".repeat(1 << 19)] {
        read(format!("alert tcp {text} any -> any any (sid:1;)").as_bytes());
        read(format!("alert tcp any any -> any any ({text} sid:1;)").as_bytes());
        read(format!("alert tcp any any -> any any (pcre:\"/{text}/\"; sid:1;)").as_bytes());
    }
}

#[test]
fn many_rules_are_read() {
    let text: String = (1..=100_000)
        .map(|sid| format!("alert tcp any any -> any 80 (content:\"{sid}\"; sid:{sid};)\n"))
        .collect();
    assert_eq!(read(text.as_bytes()).rules.len(), 100_000);
}
