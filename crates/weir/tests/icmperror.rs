//! Errors of ICMP and ICMPv6: what `icmperror` counts is what tshark finds, with any number of workers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, Pass, settings};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use support::tshark;
use weir_api::{Datum, Folded, FunctionCall, Reading, SubscriptionSpec};
use weir_engine::Plan;

/// Errors, those of each of seven kinds, and those that quote TCP and UDP.
type Numbers = [u64; 10];

/// What a list finds, by host.
type Hosts = BTreeMap<IpAddr, Numbers>;

/// The position of a kind in [`Numbers`], by version of IP, type and code; `None` for a message that is no error.
fn kind(version: u8, kind: u64, code: u64) -> Option<usize> {
    Some(match (version, kind, code) {
        (4, 3, 3) | (6, 1, 4) => 2,
        (4, 3, 9 | 10 | 13) | (6, 1, 1 | 5 | 6) => 3,
        (4, 3, 4) | (6, 2, _) => 4,
        (4, 3, _) | (6, 1, _) => 1,
        (4, 5, _) => 5,
        (4, 11, _) | (6, 3, _) => 6,
        (4, 4 | 12, _) | (6, 4, _) => 7,
        _ => return None,
    })
}

/// The errors that tshark finds, by the hosts that drew and that sent them.
fn theirs(path: &Path) -> [Hosts; 2] {
    const FIELDS: [&str; 10] = [
        "ip.src",
        "ip.dst",
        "icmp.type",
        "icmp.code",
        "ip.proto",
        "ipv6.src",
        "ipv6.dst",
        "icmpv6.type",
        "icmpv6.code",
        "ipv6.nxt",
    ];
    let text = tshark::fields(path, &["-Y", "icmp or icmpv6", "-E", "occurrence=a"], &FIELDS);
    let mut found = [Hosts::new(), Hosts::new()];
    for line in text.lines() {
        let fields: Vec<Vec<&str>> = line.split(';').map(|field| field.split(',').collect()).collect();
        let number = |field: usize, at: usize| fields.get(field)?.get(at)?.parse::<u64>().ok();
        let (version, first) = if number(2, 0).is_some() { (4, 0) } else { (6, 5) };
        let (Some(of), Some(code)) = (number(first + 2, 0), number(first + 3, 0)) else { continue };
        let Some(kind) = kind(version, of, code) else { continue };
        // The second header of IP is that of the quoted packet.
        let quoted = number(first + 4, 1);
        for (hosts, end) in found.iter_mut().zip([first + 1, first]) {
            let Ok(host) = fields[end][0].parse() else { continue };
            let numbers = hosts.entry(host).or_default();
            numbers[0] += 1;
            numbers[kind] += 1;
            numbers[8] += u64::from(quoted == Some(6));
            numbers[9] += u64::from(quoted == Some(17));
        }
    }
    found
}

#[test]
fn errors_are_those_that_tshark_finds() {
    if !tshark::is_installed() {
        return;
    }
    let call = |by: &str| vec![FunctionCall::new("icmperror").with("by", by).with("rows", 65_536)];
    let specs = ["drawn", "sent"].map(|by| SubscriptionSpec::new(by, "", call(by)));
    let plan = Arc::new(Plan::new("", specs.into(), settings()).unwrap());
    let (mut captures, mut hosts, mut errors) = (0, 0, 0);
    for path in support::captures().into_iter().filter(|path| support::is_small(path)) {
        let capture = Loaded::read(&path);
        if !support::carry_none(capture.packets()) {
            continue;
        }
        let run = |workers| {
            let pass = Pass::new(&plan, workers, capture.ample_memory());
            let total = pass.run(&capture, capture.interval(3), |_| ()).total();
            ["drawn", "sent"].map(|by| {
                let answer = total.answers.iter().find(|answer| answer.label.subscription == by);
                let Some(Reading::Table(table)) = answer.map(|answer| &answer.reading) else {
                    return Hosts::new();
                };
                assert!(table.is_exact());
                let rows = table.rows.iter().map(|row| {
                    let [Datum::Address(host)] = row.key[..] else { panic!("{row:?}") };
                    let values = row.values.iter().take(10).map(|value| match value {
                        Folded::Sum(sum) => *sum,
                        other => panic!("{other:?}"),
                    });
                    (host, values.collect::<Vec<_>>().try_into().unwrap())
                });
                rows.collect()
            })
        };
        let found = run(1);
        if found[0].is_empty() {
            continue;
        }
        assert_eq!(found, theirs(&path), "{}", path.display());
        for workers in [2, 3, 7] {
            assert_eq!(run(workers), found, "{}, {workers} workers", path.display());
        }
        captures += 1;
        hosts += found[0].len();
        errors += found[0].values().map(|numbers| numbers[0]).sum::<u64>();
    }
    println!("{captures} captures: {errors} errors that {hosts} hosts drew");
    let has_shared = support::root().join("../shared/data").is_dir();
    assert!(errors > 200 || !has_shared, "{errors}");
}
