//! Packets and bytes per flow, on every level of tunnels, as Zeek's conn.log has them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use crate::pcap;
use weir_wire::{Checksum, FlowKey, Fragment, Space, decapsulate, decode, mapped, verify};

/// Packets and IP bytes, of the lower endpoint and of the other.
type Volume = [(u64, u64); 2];

/// Packets and bytes of each flow of a capture.
fn volumes(path: &Path, ignore_checksums: bool) -> BTreeMap<FlowKey, Volume> {
    let mut flows = BTreeMap::new();
    for packet in pcap::Capture::read(path).packets() {
        let mut level = Some(decode(&packet));
        while let Some(layers) = level {
            let sums = verify(&packet, &layers);
            let bad = sums.network == Checksum::Bad || sums.transport == Checksum::Bad;
            if layers.fragment == Fragment::Whole
                && layers.has_transport()
                && (ignore_checksums || !bad)
                && let Some((key, lower)) = FlowKey::of(&packet, &layers)
            {
                // The rows of Zeek have all ways of a flow, in tunnels and outside of them.
                let key = FlowKey { space: Space::default(), ..key };
                let volume: &mut Volume = flows.entry(key).or_default();
                let side = &mut volume[usize::from(!lower)];
                side.0 += 1;
                side.1 += u64::from(layers.network_len);
            }
            level = decapsulate(&packet, &layers);
        }
    }
    flows
}

/// The rows of a conn.log by flow key; rows of one key are added up.
fn rows(log: &str) -> BTreeMap<FlowKey, Volume> {
    let mut fields = Vec::new();
    let mut flows: BTreeMap<FlowKey, Volume> = BTreeMap::new();
    for line in log.lines() {
        if let Some(names) = line.strip_prefix("#fields\t") {
            fields = names.split('\t').collect();
        }
        if line.starts_with('#') {
            continue;
        }
        let values: Vec<&str> = line.split('\t').collect();
        let get =
            |name| fields.iter().position(|field| *field == name).and_then(|at| values.get(at)).copied();
        let number = |name| get(name).and_then(|value| value.parse::<u64>().ok());
        let endpoint = |address, port| Some((bytes(get(address)?.parse().ok()?), number(port)? as u16));
        let proto = match get("proto") {
            Some("tcp") => 6,
            Some("udp") => 17,
            Some("icmp") if get("id.orig_h").is_some_and(|address| address.contains(':')) => 58,
            Some("icmp") => 1,
            _ => continue,
        };
        let (Some(a), Some(b)) = (endpoint("id.orig_h", "id.orig_p"), endpoint("id.resp_h", "id.resp_p"))
        else {
            continue;
        };
        let side = |packets, bytes| Some((number(packets)?, number(bytes)?));
        let sides = (side("orig_pkts", "orig_ip_bytes"), side("resp_pkts", "resp_ip_bytes"));
        let (Some(x), Some(y)) = sides else { continue };
        let forward = FlowKey { addr: [a.0, b.0], port: [a.1, b.1], proto, ..FlowKey::default() };
        let (key, volume) = if a <= b || forward.is_one_way() {
            (forward, [x, y])
        } else {
            (FlowKey { addr: [b.0, a.0], port: [b.1, a.1], proto, ..FlowKey::default() }, [y, x])
        };
        let sum = flows.entry(key).or_default();
        for (sum, one) in sum.iter_mut().zip(volume) {
            *sum = (sum.0 + one.0, sum.1 + one.1);
        }
    }
    flows
}

fn bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => mapped(v4.octets()),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Trace, log, command of each entry of the index, which is an array of objects with one field on a line.
fn index() -> BTreeSet<(String, String, bool)> {
    let text = std::fs::read_to_string(pcap::root().join("zeek/index.json")).unwrap_or_default();
    let value = |line: &str, name: &str| {
        let rest = line.strip_prefix(&format!("\"{name}\": \""))?;
        Some(rest.trim_end_matches(',').trim_end_matches('"').to_string())
    };
    let (mut trace, mut baseline, mut found) = (String::new(), String::new(), BTreeSet::new());
    for line in text.lines().map(str::trim) {
        if let Some(value) = value(line, "trace") {
            trace = value;
        } else if let Some(value) = value(line, "baseline") {
            baseline = value;
        } else if let Some(command) = value(line, "cmd")
            && baseline.ends_with("/conn.log")
        {
            found.insert((trace.clone(), baseline.clone(), command.contains(" -C")));
        }
    }
    found
}

/// The other rows differ because of the flow table and not because of the decoder: reassembled fragments, flows that
/// Zeek ends early, packets that a filter of the test hides from Zeek, and segments of IP length 0, whose bytes Zeek
/// does not count.
const REQUIRED: usize = 260;

#[test]
fn volumes_equal_those_of_zeek() {
    let index = index();
    if index.is_empty() {
        println!("skipped: ../shared/data is absent");
        return;
    }
    let (mut passed, mut total) = (0, 0);
    for (trace, baseline, ignore_checksums) in &index {
        let Ok(log) = std::fs::read_to_string(pcap::root().join("zeek").join(baseline)) else { continue };
        let ours = volumes(&pcap::root().join("zeek/traces").join(trace), *ignore_checksums);
        for (key, theirs) in rows(&log) {
            total += 1;
            if ours.get(&key) == Some(&theirs) {
                passed += 1;
            } else if std::env::var_os("WEIR_SHOW").is_some() {
                println!("{trace} {baseline}: {key:?}\n  ours {:?} theirs {theirs:?}", ours.get(&key));
            }
        }
    }
    println!("passed {passed} of {total}, required {REQUIRED}");
    assert!(passed >= REQUIRED);
}
