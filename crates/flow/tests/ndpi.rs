//! Compares with the flows of nDPI: addresses, ports and packets of both directions.
//!
//! If only one of the two splits a flow, the sums over equal addresses and ports are compared: nDPI has neither an end
//! of flows nor the types of ICMP. `WEIR_NDPI_TABLE=1` prints the differences.

#![allow(clippy::print_stdout, reason = "tests report what they ran")]

mod captures;

use captures::{data, read, run};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use weir_flow::FlowConfig;

/// Minimum share of equal flows, in tenths of a percent.
const REQUIRED: usize = 983;

/// Protocol and both endpoints, the lower first.
type Endpoints = (u8, (IpAddr, u16), (IpAddr, u16));

/// Packets from the lower endpoint, packets from the higher, and the number of flows.
type Packets = (u64, u64, usize);

#[test]
fn flows_equal_those_of_ndpi() {
    let Some(folder) = data("nDPI") else { return };
    let table = std::env::var_os("WEIR_NDPI_TABLE").is_some();
    let (mut passed, mut total) = (0, 0);
    let mut names: Vec<_> = std::fs::read_dir(folder.join("result")).expect("results").flatten().collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    for entry in names {
        let name = entry.file_name().into_string().expect("a name");
        let Some(capture) = name.strip_suffix(".out") else { continue };
        let theirs = theirs(&std::fs::read_to_string(entry.path()).expect("text"));
        let ours = ours(&folder.join("pcap").join(capture));
        for (ends, their) in &theirs {
            total += their.2;
            let our = ours.get(ends);
            if our.is_some_and(|our| (our.0, our.1) == (their.0, their.1)) {
                passed += their.2;
            } else if table {
                println!("{capture}: {ends:?} theirs {their:?} ours {our:?}");
            }
        }
    }
    println!("flows of nDPI: passed {passed} of {total}, required {}", total * REQUIRED / 1000);
    assert!(passed * 1000 >= total * REQUIRED, "passed {passed} of {total}");
}

fn count(
    into: &mut BTreeMap<Endpoints, Packets>,
    proto: u8,
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    packets: (u64, u64),
) {
    let (ends, packets) =
        if from <= to { ((proto, from, to), packets) } else { ((proto, to, from), (packets.1, packets.0)) };
    let sum = into.entry(ends).or_default();
    *sum = (sum.0 + packets.0, sum.1 + packets.1, sum.2 + 1);
}

/// A line of a flow: `TAB number TAB PROTO a:port <-> b:port [...][n pkts/m bytes <-> n pkts/m bytes]...`.
fn theirs(text: &str) -> BTreeMap<Endpoints, Packets> {
    let mut flows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with('\t')) {
        let mut columns = line.split('\t').skip(2);
        let Some(mut words) = columns.next().map(|rest| rest.splitn(5, ' ')) else { continue };
        let (Some(proto), Some(from), Some(_), Some(to), Some(rest)) = (
            words.next().and_then(proto),
            words.next().and_then(end),
            words.next(),
            words.next().and_then(end),
            words.next(),
        ) else {
            continue;
        };
        let Some(at) = rest.find(" pkts/") else { continue };
        let start = rest[..at].rfind('[').expect("a bracket") + 1;
        let numbers: Vec<u64> =
            rest[start..].split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        count(&mut flows, proto, from, to, (numbers[0], numbers[2]));
    }
    flows
}

fn proto(name: &str) -> Option<u8> {
    Some(match name {
        "ICMP" => 1,
        "IGMP" => 2,
        "TCP" => 6,
        "UDP" => 17,
        "GRE" => 47,
        "ESP" => 50,
        "AH" => 51,
        "ICMPV6" => 58,
        "OSPF" => 89,
        "PIM" => 103,
        "VRRP" => 112,
        "SCTP" => 132,
        number => number.parse().ok()?,
    })
}

/// `a.b.c.d:port` or `[a:b::c]:port`.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.rsplit_once(':')?;
    Some((address.trim_matches(['[', ']']).parse().ok()?, port.parse().ok()?))
}

fn ours(path: &Path) -> BTreeMap<Endpoints, Packets> {
    let (kept, _) = run(&read(path), &FlowConfig::default(), |_, _| true);
    let mut flows = BTreeMap::new();
    for flow in &kept.records {
        let end = |(address, port): ([u8; 16], u16)| {
            let has_ports = matches!(flow.key.proto, 6 | 17 | 132);
            (Ipv6Addr::from(address).to_canonical(), if has_ports { port } else { 0 })
        };
        let packets = (flow.forward.packets, flow.reverse.packets);
        count(&mut flows, flow.key.proto, end(flow.initiator()), end(flow.responder()), packets);
    }
    flows
}
