//! libpcap's own cases: filters on captures, filters that must compile, filters that must be rejected.

use std::path::PathBuf;

use serde_json::Value;
use weir_filter::{ErrorKind, Filter, LINK_TYPES, Options, Program};
use weir_wire::LinkType;

use crate::ffi::{Owned, Pcap};
use crate::grammar::Random;
use crate::packets::{any, pool};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/libpcap")
}

fn cases(section: &str) -> Option<Vec<Value>> {
    let Ok(text) = std::fs::read_to_string(folder().join("filter_tests.json")) else {
        println!("skipped: ../shared/data is absent");
        return None;
    };
    let all: Value = serde_json::from_str(&text).unwrap();
    Some(all[section].as_array().unwrap().clone())
}

fn link(dlt: &str) -> LinkType {
    match dlt {
        "EN10MB" => LinkType::ETHERNET,
        "RAW" => LinkType::RAW,
        "NULL" => LinkType::NULL,
        "LOOP" => LinkType::LOOP,
        "LINUX_SLL" => LinkType::LINUX_SLL,
        "LINUX_SLL2" => LinkType::LINUX_SLL2,
        "PPP" => LinkType::PPP,
        "PPP_ETHER" => LinkType::PPP_ETHER,
        "C_HDLC" => LinkType::C_HDLC,
        "IEEE802_11" => LinkType::IEEE802_11,
        "IEEE802_11_RADIO" => LinkType::IEEE802_11_RADIOTAP,
        "IPV4" => LinkType::IPV4,
        "IPV6" => LinkType::IPV6,
        "PPI" => LinkType(192),
        other => panic!("unknown link type {other}"),
    }
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or("")
}

/// Prints the result of a section over all its cases, and fails below the required number. Excluded cases count as not
/// passed, and are printed with their reason.
fn verdict(section: &str, passed: usize, required: usize, failed: &[String], outside: &[String]) {
    for case in failed {
        println!("  not as libpcap: {case}");
    }
    for case in outside {
        println!("  outside: {case}");
    }
    let all = passed + failed.len() + outside.len();
    println!("{section}: passed {passed} of {all}, required {required}, {} outside", outside.len());
    assert!(passed >= required, "{section}");
}

/// Cases of the master branch for systems other than Linux: IGRP has number 88 there.
const OTHER_SYSTEMS: &[&str] = &["igrp_88"];

#[test]
fn apply() {
    let Some(cases) = cases("apply") else { return };
    let (mut passed, mut failed, mut outside) = (0, Vec::new(), Vec::new());
    for case in &cases {
        let name = format!("{} ({} on {})", text(case, "name"), text(case, "expr"), text(case, "savefile"));
        let mut pcap = Pcap::open(&folder().join("filter").join(text(case, "savefile"))).unwrap();
        let link = pcap.link();
        if !LINK_TYPES.contains(&link) {
            outside.push(format!("{name}: link type {}", link.0));
            continue;
        }
        let options = Options { strict_bpf: true, snaplen: pcap.snaplen(), ..Options::default() };
        let program =
            Filter::compile_for(text(case, "expr"), &[link], &options).and_then(|f| f.for_link(link));
        let program = match program {
            Ok(program) => program,
            Err(e) => {
                failed.push(format!("{name}: {e}"));
                continue;
            }
        };
        let oracle = pcap.compile(text(case, "expr"), true, u32::MAX);
        let (mut results, mut installed) = (Vec::new(), Vec::new());
        while let Some(packet) = pcap.next_packet() {
            results.push(u64::from(program.run(&packet.view(link), None)));
            installed.extend(oracle.as_ref().map(|o| u64::from(o.run(&packet))));
        }
        let expected: Vec<u64> =
            case["results"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
        if results == expected {
            passed += 1;
        } else if results == installed {
            // If versions of libpcap differ, the installed one is the oracle.
            outside.push(format!("{name}: newer than the installed libpcap, which agrees with us"));
        } else {
            failed.push(format!("{name}: {results:?}, expected {expected:?}"));
        }
    }
    verdict("apply", passed, 82, &failed, &outside);
}

#[test]
fn accept() {
    let Some(cases) = cases("accept") else { return };
    let (mut passed, mut failed, mut outside) = (0, Vec::new(), Vec::new());
    let mut r = Random::new(1);
    let pool = pool(2_000);
    for case in &cases {
        let link = link(text(case, "DLT"));
        let name = text(case, "name").to_owned();
        if OTHER_SYSTEMS.contains(&name.as_str()) {
            outside.push(format!("{name}: a number of systems other than Linux"));
            continue;
        }
        let netmask = case["netmask"].as_str().map(|s| u32::from(s.parse::<std::net::Ipv4Addr>().unwrap()));
        let options = Options { strict_bpf: true, netmask, ..Options::default() };
        let mut programs = Vec::new();
        let mut problem = None;
        for alias in case["aliases"].as_array().unwrap() {
            let alias = alias.as_str().unwrap();
            match Filter::compile_for(alias, &[link], &options) {
                Ok(filter) => programs.push((alias, filter.for_link(link).ok())),
                // The optimiser finds that it cannot match: the expression itself is valid.
                Err(e) if e.kind == ErrorKind::RejectsAll => programs.push((alias, None)),
                Err(e) => problem = Some(e.to_string()),
            }
        }
        // The program may differ, but the verdict may not.
        let packets: Vec<Owned> = match pool.get(&link) {
            Some(packets) if programs.len() > 1 => (0..3_000).map(|_| any(&mut r, packets)).collect(),
            _ => Vec::new(),
        };
        let decide =
            |p: &Option<Program>, packet: &Owned| p.as_ref().map_or(0, |p| p.run(&packet.view(link), None));
        if let Some(pair) =
            programs.windows(2).find(|p| packets.iter().any(|x| decide(&p[0].1, x) != decide(&p[1].1, x)))
        {
            problem.get_or_insert(format!("`{}` is not `{}`", pair[0].0, pair[1].0));
        }
        match problem {
            None => passed += 1,
            Some(problem) => failed.push(format!("{name}: {problem}")),
        }
    }
    verdict("accept", passed, 202, &failed, &outside);
}

#[test]
fn reject() {
    let Some(cases) = cases("reject") else { return };
    let (mut passed, mut failed, mut same_words) = (0, Vec::new(), 0);
    let mut other_words = Vec::new();
    for case in &cases {
        let link = link(text(case, "DLT"));
        let expression = text(case, "expr");
        let compile = |strict_bpf| {
            let options = Options { strict_bpf, ..Options::default() };
            Filter::compile_for(expression, &[link], &options)
        };
        // One case: it is refused with and without `--strict-bpf`.
        let (Err(strict), Err(lenient)) = (compile(true), compile(false)) else {
            failed.push(format!("{expression} compiles for {link}"));
            continue;
        };
        passed += 1;
        let words = text(case, "errstr");
        if [&strict, &lenient].iter().all(|error| error.libpcap_message().contains(words)) {
            same_words += 1;
        } else {
            other_words
                .push(format!("{link}: {expression}\n    theirs: {words}\n    ours:   {}", strict.message));
        }
    }
    for words in &other_words {
        println!("  other words: {words}");
    }
    println!("reject: {same_words} of {passed} in libpcap's words");
    verdict("reject", passed, 999, &failed, &[]);
}
