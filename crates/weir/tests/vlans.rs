//! `--vlan`: equal addresses and ports in different VLANs.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use support::*;
use weir_wire::build;

/// VLAN tags of the flows, with the number of datagrams in each direction. One flow is untagged.
const FLOWS: &[(&[u16], [u64; 2])] = &[
    (&[], [2, 1]),
    (&[6], [1, 3]),
    (&[1, 10], [4, 2]),
    (&[1, 11], [1, 1]),
    (&[2, 10], [3, 1]),
    (&[10], [2, 2]),
];

/// Equal addresses and ports in each of the VLANs, mixed in time.
fn capture() -> Vec<u8> {
    let mut packets = Vec::new();
    for round in 0..4 {
        for (tags, numbers) in FLOWS {
            for (reverse, number) in numbers.iter().enumerate() {
                if round >= *number {
                    continue;
                }
                let frame = tags.iter().fold(build::ethernet(), |frame, tag| frame.vlan(*tag));
                let datagram = match reverse {
                    0 => frame.ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(40_000, 9_999),
                    _ => frame.ipv4([10, 0, 0, 2], [10, 0, 0, 1]).udp(9_999, 40_000),
                };
                let time = 1_795_305_600 * SECOND + packets.len() as u64 * 1_000_000;
                packets.push((time, datagram.payload(b"some payload")));
            }
        }
    }
    pcap(1, &packets)
}

/// The flow events: tags, and packets in each direction.
fn flows(options: &[&str]) -> BTreeMap<String, [u64; 2]> {
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "vlans.pcap", &capture());
    let mut arguments = vec![text(&file), "-q", "--log", "eve", "-o", text(folder.path())];
    arguments.extend_from_slice(options);
    weir(arguments).exits(0);
    let events = objects(&std::fs::read_to_string(folder.path().join("eve.json")).unwrap());
    let flows = events.iter().filter(|event| event["event_type"] == "flow").map(|event| {
        let packets = ["pkts_toserver", "pkts_toclient"].map(|key| event["flow"][key].as_u64().unwrap());
        (event["vlan"].to_string(), packets)
    });
    flows.collect()
}

#[test]
fn flows_in_different_vlans_are_different_flows_if_asked() {
    let named = |tags: &[u16]| match tags {
        [] => "null".to_owned(),
        tags => format!("[{}]", tags.iter().map(u16::to_string).collect::<Vec<_>>().join(",")),
    };
    let wanted: BTreeMap<_, _> = FLOWS.iter().map(|(tags, packets)| (named(tags), *packets)).collect();
    for workers in ["1", "2", "3", "7"] {
        assert_eq!(flows(&["--vlan", "--workers", workers]), wanted, "{workers} workers");
        // Without the option all are one flow, with the tags of its first packet.
        let one = BTreeMap::from([("null".to_owned(), [13, 10])]);
        assert_eq!(flows(&["--workers", workers]), one, "{workers} workers");
    }
}

#[test]
fn expressions_count_equal_packets_whatever_a_flow_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "vlans.pcap", &capture());
    for expression in
        ["vlan 1", "vlan 6", "vlan 10", "src host 10.0.0.2", "udp port 9999", "vlan 1 and src host 10.0.0.1"]
    {
        let count = |options: &[&str]| {
            let mut arguments = vec![text(&file), "-j"];
            arguments.extend_from_slice(options);
            arguments.push(expression);
            let ran = weir(arguments).exits(0);
            ran.fact("ledger", "analysed")
        };
        assert_eq!(count(&["--vlan"]), count(&[]), "{expression}");
    }
}
