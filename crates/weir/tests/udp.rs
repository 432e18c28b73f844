//! Hosts over UDP: what `udp` counts is what tshark finds, with any number of workers.

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
use weir_api::{Datum, FunctionCall, Reading, SubscriptionSpec, Table, UdpHost};
use weir_engine::Plan;
use weir_wire::{Fragment, decode};

/// What is known of each host.
type Hosts = BTreeMap<IpAddr, UdpHost>;

/// Whether a message is an error, and whether its destination is unreachable, by version of IP and type.
fn is_error(version: u8, kind: u64) -> Option<bool> {
    match (version, kind) {
        (4, 3) | (6, 1) => Some(true),
        (4, 4 | 5 | 11 | 12) | (6, 2..=4) => Some(false),
        _ => None,
    }
}

/// The UDP packets and the errors that tshark finds, by host.
fn theirs(path: &Path) -> Hosts {
    const FIELDS: [&str; 11] = [
        "ip.src",
        "ip.dst",
        "ipv6.src",
        "ipv6.dst",
        "icmp.type",
        "icmpv6.type",
        "ip.proto",
        "ipv6.nxt",
        "udp.srcport",
        "udp.dstport",
        "frame.len",
    ];
    let text = tshark::fields(path, &["-Y", "udp or icmp or icmpv6", "-E", "occurrence=a"], &FIELDS);
    let mut hosts = Hosts::new();
    for line in text.lines() {
        let fields: Vec<Vec<&str>> = line.split(';').map(|field| field.split(',').collect()).collect();
        let number = |field: usize, at: usize| fields.get(field)?.get(at)?.parse::<u64>().ok();
        // IPv6 has the quoted addresses, too: the first are those of the packet.
        let (version, first) = if fields[0][0].is_empty() { (6, 2) } else { (4, 0) };
        let (Ok(from), Ok(to)) = (fields[first][0].parse::<IpAddr>(), fields[first + 1][0].parse::<IpAddr>())
        else {
            continue;
        };
        let (kind, protocol) = if version == 4 { (4, 6) } else { (5, 7) };
        if let Some(kind) = number(kind, 0) {
            let Some(is_unreachable) = is_error(version, kind) else { continue };
            // The second header of IP is that of the quoted packet.
            match number(protocol, 1) {
                Some(17) => {
                    let host = hosts.entry(to).or_default();
                    host.errors += 1;
                    host.unreachable += u64::from(is_unreachable);
                }
                Some(1 | 58) => hosts.entry(to).or_default().pings += 1,
                _ => {}
            }
            continue;
        }
        let (Some(source), Some(destination), Some(bytes)) = (number(8, 0), number(9, 0), number(10, 0))
        else {
            panic!("{}: {line}", path.display());
        };
        let host = hosts.entry(from).or_default();
        host.sent += 1;
        host.bytes[0] += bytes;
        host.sizes[[100, 499, 999].iter().filter(|most| bytes > **most).count()] += 1;
        host.served += u64::from(source < destination);
        host.high += u64::from(source >= 1024 && destination >= 1024);
        host.names_asked += u64::from(destination == 53);
        host.names_served += u64::from(source == 53);
        let host = hosts.entry(to).or_default();
        host.received += 1;
        host.bytes[1] += bytes;
    }
    hosts
}

fn ours(table: &Table) -> Hosts {
    assert!(table.is_exact());
    let rows = table.rows.iter().map(|row| {
        let [Datum::Address(host)] = row.key[..] else { panic!("{row:?}") };
        (host, UdpHost::of(row).unwrap())
    });
    rows.collect()
}

/// The places in a list of names of a reading, heaviest first.
fn shown(reading: &Reading) -> Vec<(String, String)> {
    let cells = reading.cells();
    let rows = cells.rows.iter().map(|row| (format!("{:?}", row.values[1]), format!("{:?}", row.values[0])));
    rows.collect()
}

#[test]
fn hosts_are_those_that_tshark_finds() {
    if !tshark::is_installed() {
        return;
    }
    let call = FunctionCall::new("udp").with("rows", 65_536);
    let plan = Plan::new("", vec![SubscriptionSpec::new("udp", "", vec![call])], settings()).unwrap();
    let plan = Arc::new(plan);
    let (mut captures, mut hosts, mut packets, mut errors) = (0, 0, 0, 0);
    for path in support::captures().into_iter().filter(|path| support::is_small(path)) {
        let capture = Loaded::read(&path);
        // tshark assigns fragments and cut packets in other ways.
        let is_plain = |fragment: Fragment, has_error: bool| fragment == Fragment::Whole && !has_error;
        let are_plain = capture.packets().all(|packet| {
            let layers = decode(&packet);
            is_plain(layers.fragment, layers.error.is_some())
        });
        if !are_plain || !support::carry_none(capture.packets()) {
            continue;
        }
        let run = |workers| -> Option<Reading> {
            let pass = Pass::new(&plan, workers, capture.ample_memory());
            let total = pass.run(&capture, capture.interval(3), |_| ()).total();
            total.answers.first().map(|answer| answer.reading.clone())
        };
        let Some(reading) = run(1) else { continue };
        let Reading::Table(table) = &reading else { panic!("{reading:?}") };
        let found = ours(table);
        let drawn: u64 = found.values().map(|host| host.errors).sum();
        if drawn == 0 {
            continue;
        }
        assert_eq!(found, theirs(&path), "{}", path.display());
        for workers in [2, 3, 7] {
            let other = run(workers).unwrap();
            assert_eq!(other, reading, "{}, {workers} workers", path.display());
            assert_eq!(shown(&other), shown(&reading));
        }
        captures += 1;
        hosts += found.len();
        packets += found.values().map(|host| host.sent).sum::<u64>();
        errors += drawn;
    }
    println!("{captures} captures: {hosts} hosts, {packets} packets, {errors} errors that quote UDP");
    let has_shared = support::root().join("../shared/data").is_dir();
    assert!(errors > 50 || !has_shared, "{errors}");
}
