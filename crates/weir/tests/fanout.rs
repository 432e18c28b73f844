//! What `fanout` finds of SYNs, of ARP and of neighbour discovery is what tshark finds, in each of its lists, with any number of workers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, Pass, settings};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use support::tshark;
use weir_api::{Datum, Folded, FunctionCall, Level, Reading, Snapshot, SubscriptionSpec, Table};
use weir_engine::Plan;
use weir_wire::LinkType;

/// Source, target and port of flows.
type Tried = BTreeSet<(IpAddr, IpAddr, u16)>;

/// What SYNs try: of the flows that begin with one, and of all.
struct Theirs {
    first: Tried,
    all: Tried,
}

/// An error of ICMP quotes TCP, which is no packet of its own.
fn theirs(path: &Path) -> Theirs {
    const FIELDS: [&str; 7] =
        ["ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "tcp.srcport", "tcp.dstport", "tcp.flags"];
    let text =
        tshark::fields(path, &["-Y", "tcp and not icmp and not icmpv6", "-E", "occurrence=f"], &FIELDS);
    let (mut first, mut all) = (Tried::new(), Tried::new());
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(';').collect();
        let address = |one: usize, other: usize| fields[one].parse().or(fields[other].parse::<IpAddr>());
        let (Ok(source), Ok(target)) = (address(0, 1), address(2, 3)) else { continue };
        let (Ok(from), Ok(port)) = (fields[4].parse::<u16>(), fields[5].parse::<u16>()) else { continue };
        let Ok(flags) = u16::from_str_radix(fields[6].trim_start_matches("0x"), 16) else { continue };
        let (one, other) = ((source, from), (target, port));
        let begins = seen.insert((one.min(other), one.max(other)));
        // SYN without FIN, RST and ACK.
        if flags & 0x17 == 2 {
            all.insert((source, target, port));
            if begins {
                first.insert((source, target, port));
            }
        }
    }
    Theirs { first, all }
}

/// What hosts ask for by ARP and neighbour discovery, and the answers that they get.
#[derive(Debug, Default, Eq, PartialEq)]
struct Asked {
    targets: BTreeSet<u128>,
    questions: u64,
    answers: u64,
}

/// By the host that asks, or by its hardware address if it has no address, and by the kind.
type Questions = BTreeMap<(String, &'static str), Asked>;

fn their_questions(path: &Path) -> Questions {
    const FIELDS: [&str; 12] = [
        "arp.opcode",
        "arp.src.proto_ipv4",
        "arp.dst.proto_ipv4",
        "arp.src.hw_mac",
        "arp.dst.hw_mac",
        "icmpv6.type",
        "ipv6.src",
        "ipv6.dst",
        "icmpv6.nd.ns.target_address",
        "icmpv6.nd.na.target_address",
        "icmpv6.nd.na.flag.s",
        "ipv6.hlim",
    ];
    let only = "(arp or icmpv6.type == 135 or icmpv6.type == 136) and not icmp and not _ws.malformed";
    let text = tshark::fields(path, &["-Y", only, "-E", "occurrence=f"], &FIELDS);
    let mut all = Questions::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(';').collect();
        let address = |at: usize| fields[at].parse::<IpAddr>().ok();
        let is_host = |address: IpAddr| match address {
            IpAddr::V4(address) => (1..224).contains(&address.octets()[0]),
            IpAddr::V6(address) => !address.is_unspecified() && !address.is_multicast(),
        };
        let (kind, asker, mac, target, is_answer) = match (fields[0], fields[5]) {
            ("1", _) => ("arp", address(1), fields[3], address(2), false),
            ("2", _) => ("arp", address(2), fields[4], address(1), true),
            ("", "135") => ("nd", address(6), "", address(8), false),
            ("", "136") if matches!(fields[10], "1" | "True") => ("nd", address(7), "", address(9), true),
            _ => continue,
        };
        let (Some(asker), Some(target)) = (asker, target) else { continue };
        let is_near = kind == "arp" || fields[11] == "255";
        if asker == target || !is_host(target) || !is_near {
            continue;
        }
        let asker = match asker {
            IpAddr::V4(address) if address.is_unspecified() => mac.to_owned(),
            address if is_host(address) => address.to_string(),
            _ => continue,
        };
        let asked = all.entry((asker, kind)).or_default();
        if is_answer {
            asked.answers += 1;
        } else {
            asked.questions += 1;
            asked.targets.insert(number(target));
        }
    }
    all
}

/// The questions in a list by addresses.
fn questions(table: &Table) -> Questions {
    let mut found = Questions::new();
    for row in &table.rows {
        let [Folded::Distinct(targets), _, Folded::Sum(questions), Folded::Sum(answers), ..] =
            &row.values[..]
        else {
            panic!("{row:?}")
        };
        let kind = match &row.key[1] {
            Datum::Text(kind) if &**kind == "arp" => "arp",
            Datum::Text(kind) if &**kind == "nd" => "nd",
            _ => continue,
        };
        let asker = match &row.key[0] {
            Datum::Address(address) => address.to_string(),
            Datum::Mac(mac) => mac.map(|byte| format!("{byte:02x}")).join(":"),
            other => panic!("{other:?}"),
        };
        let targets = targets.values().unwrap().into_iter().collect();
        found.insert((asker, kind), Asked { targets, questions: *questions, answers: *answers });
    }
    found
}

/// A plan with all lists.
fn all_lists() -> Arc<Plan> {
    let spec = |by: &str| {
        let call = FunctionCall::new("fanout").with("by", by).with("rows", 65_536);
        SubscriptionSpec { level: Level::Flow, ..SubscriptionSpec::new(by, "", vec![call]) }
    };
    Arc::new(Plan::new("", LISTS.map(spec).into(), settings()).unwrap())
}

#[test]
fn questions_of_arp_and_neighbour_discovery_are_those_that_tshark_finds() {
    if !tshark::is_installed() {
        return;
    }
    let plan = all_lists();
    let (mut captures, mut found) = (0, BTreeMap::<&str, usize>::new());
    for path in support::diverse(300).into_iter().filter(|path| support::is_small(path)) {
        let capture = Loaded::read(&path);
        // tshark does not know all tags of switches.
        let is_plain = capture.packets().all(|packet| packet.link == LinkType::ETHERNET);
        if !is_plain || !support::carry_none(capture.packets()) {
            continue;
        }
        let run = |workers| {
            let pass = Pass::new(&plan, workers, capture.ample_memory());
            pass.run(&capture, capture.interval(3), |_| ()).total()
        };
        let total = run(1);
        let ours = questions(table(&total, "addresses"));
        if ours.is_empty() {
            continue;
        }
        assert_eq!(ours, their_questions(&path), "{}", path.display());
        for workers in [2, 3, 7] {
            let several = run(workers);
            for by in LISTS {
                assert_eq!(table(&several, by), table(&total, by), "{}: {by}", path.display());
            }
        }
        captures += 1;
        ours.iter().for_each(|((_, kind), asked)| *found.entry(kind).or_default() += asked.targets.len());
    }
    println!("{captures} captures: targets {found:?}");
    let has_shared = support::root().join("../shared/data").is_dir();
    assert!(found.len() == 2 || !has_shared, "{found:?}");
}

const LISTS: [&str; 4] = ["addresses", "ports", "vertical", "horizontal"];

fn table<'s>(snapshot: &'s Snapshot, by: &str) -> &'s Table {
    let answer = snapshot.answers.iter().find(|answer| answer.label.subscription == by);
    match answer.map(|answer| &answer.reading) {
        Some(Reading::Table(table)) => table,
        other => panic!("{by}: {other:?}"),
    }
}

/// The values of a column of the flows that begin with a SYN, by the other parts of their keys.
fn values(table: &Table, column: usize) -> BTreeMap<Vec<Datum>, BTreeSet<u128>> {
    let mut found: BTreeMap<_, BTreeSet<u128>> = BTreeMap::new();
    for row in &table.rows {
        let (Some((Datum::Text(kind), rest)), Folded::Distinct(values)) =
            (row.key.split_last(), &row.values[column])
        else {
            panic!("{row:?}")
        };
        if matches!(&**kind, "syn" | "connect") {
            found.entry(rest.to_vec()).or_default().extend(values.values().unwrap());
        }
    }
    found
}

/// The number that stands for an address.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The flows of the list of pairs.
fn vertical(snapshot: &Snapshot) -> Tried {
    let mut tried = Tried::new();
    for (key, ports) in values(table(snapshot, "vertical"), 0) {
        let [Datum::Address(source), Datum::Address(target)] = key[..] else { panic!("{key:?}") };
        tried.extend(ports.into_iter().map(|port| (source, target, port as u16)));
    }
    tried
}

#[test]
fn syns_are_those_that_tshark_finds() {
    if !tshark::is_installed() {
        return;
    }
    let plan = all_lists();
    let (mut captures, mut flows) = (0, 0);
    for path in support::diverse(300).into_iter().filter(|path| support::is_small(path)) {
        let capture = Loaded::read(&path);
        if !support::carry_none(capture.packets()) {
            continue;
        }
        let run = |workers| {
            let pass = Pass::new(&plan, workers, capture.ample_memory());
            pass.run(&capture, capture.interval(3), |_| ()).total()
        };
        let total = run(1);
        let tried = vertical(&total);
        if tried.is_empty() {
            continue;
        }
        let theirs = theirs(&path);
        let name = path.display();
        assert!(tried.is_subset(&theirs.all), "{name}: {:?}", tried.difference(&theirs.all));
        assert!(theirs.first.is_subset(&tried), "{name}: {:?}", theirs.first.difference(&tried));
        // The other lists have equal flows.
        let mut expected = [const { BTreeMap::<Vec<Datum>, BTreeSet<u128>>::new() }; 3];
        for (source, target, port) in &tried {
            let host = vec![Datum::Address(*source)];
            let service = vec![Datum::Address(*source), Datum::Number((*port).into())];
            let parts = [(host.clone(), number(*target)), (host, (*port).into()), (service, number(*target))];
            for (list, (key, value)) in expected.iter_mut().zip(parts) {
                list.entry(key).or_default().insert(value);
            }
        }
        let [addresses, ports, services] = expected;
        assert_eq!(values(table(&total, "addresses"), 0), addresses, "{name}");
        assert_eq!(values(table(&total, "addresses"), 1), ports, "{name}");
        assert_eq!(values(table(&total, "ports"), 0), ports, "{name}");
        assert_eq!(values(table(&total, "ports"), 1), addresses, "{name}");
        assert_eq!(values(table(&total, "horizontal"), 0), services, "{name}");
        for workers in [2, 3, 7] {
            let several = run(workers);
            for by in LISTS {
                assert!(table(&total, by).is_exact());
                assert_eq!(table(&several, by), table(&total, by), "{name}, {workers} workers: {by}");
            }
        }
        captures += 1;
        flows += tried.len();
    }
    println!("{captures} captures: {flows} ports of hosts that were tried");
    let has_shared = support::root().join("../shared/data").is_dir();
    assert!(flows > 50 || !has_shared, "{flows}");
}
