//! The laws of the list of keywords, and what its rows say about themselves.

use std::net::IpAddr;
use std::sync::Arc;
use weir_detect::{
    Fault, KEYWORDS, Keyword, Lists, NoSources, Places, Reputations, Scores, Sources, keyword, parse_rule,
};

/// The files that the examples of keywords name.
struct Examples;

impl Sources for Examples {
    fn read(&self, _rules: &str, name: &str) -> Result<Vec<u8>, String> {
        Ok(match name {
            "md5.txt" => format!("# a list\n{}\n{}  a.exe\n", "0a".repeat(16), "1B".repeat(16)),
            "sha1.txt" => format!("{}\n", "0a".repeat(20)),
            "sha256.txt" => format!("{}\r\n", "0a".repeat(32)),
            "names.txt" => "ZXhhbXBsZS5vcmc=\nZXhhbXBsZS5jb20\n".to_owned(),
            "reputation.txt" => "ZXhhbXBsZS5vcmc=,20\nZXhhbXBsZS5jb20,5\n".to_owned(),
            "ip.txt" => "192.0.2.1\n2001:db8::1\n".to_owned(),
            _ => return Err("no such file".to_owned()),
        }
        .into_bytes())
    }

    fn places(&self) -> Option<Arc<dyn Places>> {
        #[derive(Debug)]
        struct Nowhere;
        impl Places for Nowhere {
            fn country(&self, _address: IpAddr) -> Option<[u8; 2]> {
                None
            }
        }
        Some(Arc::new(Nowhere))
    }

    fn reputations(&self, category: &str) -> Option<Arc<Scores>> {
        Reputations::new(b"1,Bad,").ok()?.of(category)
    }
}

fn read(options: &str) -> Result<weir_detect::Rule, Fault> {
    let text = format!("alert ip any any -> any any (msg:\"x\"; {options} sid:1;)");
    parse_rule(text.as_bytes(), "x.rules", &mut Lists::default(), &Examples).map(|parsed| parsed.rule)
}

fn names(keyword: &Keyword) -> impl Iterator<Item = &'static str> {
    std::iter::once(keyword.name).chain(keyword.old_names.iter().copied())
}

#[test]
fn names_are_unique_and_plain_and_help_is_there() {
    let all: Vec<&str> = KEYWORDS.iter().flat_map(names).collect();
    for name in &all {
        assert_eq!(all.iter().filter(|other| *other == name).count(), 1, "{name}");
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte)),
            "{name}"
        );
        assert!(keyword(name).is_some());
    }
    for row in KEYWORDS.iter() {
        assert!(!row.help.is_empty() && row.help.len() < 100, "{}", row.name);
        let is_sentence = row.help.ends_with('.') || row.help.ends_with("...");
        assert!(is_sentence || row.refusal().is_some(), "{}: {}", row.name, row.help);
    }
}

#[test]
fn examples_of_each_keyword_are_accepted_and_refused() {
    for row in KEYWORDS.iter() {
        for example in row.accepted {
            assert!(names(row).any(|name| example.contains(name)), "{}: {example}", row.name);
            assert!(read(example).is_ok(), "{}: {example}: {:?}", row.name, read(example));
        }
        for example in row.refused {
            assert!(
                names(row).any(|name| example.contains(name)) || row.name == "sid",
                "{}: {example}",
                row.name
            );
            let text = format!(
                "alert ip any any -> any any (msg:\"x\"; {example} {})",
                if row.name == "sid" { "" } else { "sid:1;" }
            );
            let fault = parse_rule(text.as_bytes(), "x.rules", &mut Lists::default(), &Examples).map(|_| ());
            assert!(fault.is_err(), "{}: {example}", row.name);
        }
    }
}

/// A keyword that reads its value has examples of both kinds; that of a buffer or number is used by its form.
#[test]
fn each_keyword_is_used() {
    for row in KEYWORDS.iter() {
        for name in names(row) {
            if row.refusal().is_some() {
                let fault = read(&format!("{name};")).unwrap_err();
                assert_eq!(fault.kind, weir_detect::FaultKind::NotSupported, "{name}");
                continue;
            }
            let is_old_modifier = weir_detect::BUFFERS.iter().any(|buffer| buffer.modifier == Some(name));
            let is_buffer = weir_detect::buffer(name).is_some();
            let is_number = weir_detect::NUMBERS
                .iter()
                .any(|row| row.buffer.name == name || row.buffer.old_names.contains(&name));
            if is_old_modifier {
                let rule = read(&format!("content:\"a\"; {name};")).unwrap();
                assert_eq!(rule.buffers[0].buffer.modifier, Some(name));
                assert!(read(&format!("{name};")).is_err(), "{name}");
            } else if is_buffer {
                let rule = read(&format!("{name}; content:\"a\";")).unwrap();
                assert_eq!(rule.buffers[0].buffer.name, row.name);
                assert!(read(&format!("{name}:x; content:\"a\";")).is_err(), "{name}");
                assert!(name == "pkt_data" || read(&format!("{name};")).is_err(), "{name} without a test");
            } else if is_number {
                assert!(read(&format!("{name}:1;")).is_ok(), "{name}");
                assert!(read(&format!("{name}:x;")).is_err(), "{name}");
            } else {
                let is_ignored = ["prefilter", "tls_store"].contains(&row.name);
                let has_refused = !row.refused.is_empty() || is_ignored;
                assert!(has_refused && (name == "sid" || !row.accepted.is_empty()), "{name}");
            }
        }
    }
}

#[test]
fn places_of_faults_are_those_of_the_text() {
    for (options, part) in [
        ("content:\"a|4g|\";", "g|\""),
        ("flow:established,x;", "x; sid"),
        ("byte_test:4,>,1000,zz;", "zz;"),
        ("nocas;", "nocas;"),
        ("pcre:\"/(/\";", "(/\""),
        ("content:\"a\"; offset:1; distance:1;", "content:\"a\""),
    ] {
        let text = format!("alert ip any any -> any any (msg:\"x\"; {options} sid:1;)");
        let fault = parse_rule(text.as_bytes(), "x.rules", &mut Lists::default(), &Examples).unwrap_err();
        assert!(text[fault.at..].starts_with(part), "{options}: {} at {}", fault.reason, &text[fault.at..]);
    }
}

#[test]
fn what_needs_files_of_the_user_names_the_option() {
    for (options, option) in [("geoip:DE;", "--rule-geoip"), ("iprep:src,Bad,>,1;", "--rule-categories")] {
        let text = format!("alert ip any any -> any any ({options} sid:1;)");
        let fault = parse_rule(text.as_bytes(), "x.rules", &mut Lists::default(), &NoSources).unwrap_err();
        assert_eq!(fault.kind, weir_detect::FaultKind::NotSupported);
        assert!(fault.reason.contains(option), "{}", fault.reason);
    }
}
