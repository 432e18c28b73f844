//! Community ID: every packet of the specification's captures, with its three baselines.

#![allow(clippy::print_stdout, reason = "tests report what they ran")]

mod captures;

use captures::{address, data, read};
use std::collections::BTreeSet;
use weir_flow::{CommunityId, community_id};
use weir_wire::{FlowKey, decode};

/// A baseline's row: protocol, addresses, ports, identifier.
type Row = (u64, String, String, Option<u64>, Option<u64>, String);

/// A file, its seed, and its form of a digest.
type Baseline<'a> = (&'a str, u16, &'a dyn Fn(CommunityId) -> String);

#[test]
fn identifiers_equal_the_specifications_baselines() {
    let Some(folder) = data("community-id") else { return };
    let hex = |id: CommunityId| {
        format!("1:{}", id.digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    let text = |id: CommunityId| id.to_string();
    let baselines: [Baseline<'_>; 3] = [
        ("baseline_deflt.json", 0, &text),
        ("baseline_seed1.json", 1, &text),
        ("baseline_nob64.json", 0, &hex),
    ];
    let (mut passed, mut total) = (0, 0);
    for (name, seed, show) in baselines {
        let json = std::fs::read_to_string(folder.join("baseline").join(name)).expect("a baseline");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let theirs: BTreeSet<Row> = json.as_array().expect("a list").iter().map(their_row).collect();
        let ours = our_rows(&folder.join("pcaps/combined.pcap.gz"), seed, show);
        total += theirs.len();
        passed += theirs.intersection(&ours).count();
        for row in theirs.symmetric_difference(&ours) {
            println!("{name}: {row:?}");
        }
        assert_eq!(theirs, ours, "{name}");
    }
    println!("Community ID: passed {passed} of {total}, required {total}");
}

fn their_row(row: &serde_json::Value) -> Row {
    let text = |name: &str| row[name].as_str().expect("text").to_owned();
    let number = |name: &str| row[name].as_u64();
    (
        number("proto").expect("a number"),
        text("saddr"),
        text("daddr"),
        number("sport"),
        number("dport"),
        text("communityid"),
    )
}

/// One row for each packet with an identity of its own.
fn our_rows(path: &std::path::Path, seed: u16, show: &dyn Fn(CommunityId) -> String) -> BTreeSet<Row> {
    let chunk = read(path);
    let mut rows = BTreeSet::new();
    for packet in chunk.batch().packets() {
        let layers = decode(&packet);
        let Some((key, is_lower)) = FlowKey::of(&packet, &layers) else { continue };
        let (from, to) = if is_lower { (0, 1) } else { (1, 0) };
        let port =
            |at: usize| (matches!(key.proto, 1 | 6 | 17 | 58 | 132)).then_some(u64::from(key.port[at]));
        rows.insert((
            u64::from(key.proto),
            address(key.addr[from]).to_string(),
            address(key.addr[to]).to_string(),
            port(from),
            port(to),
            show(community_id(&key, seed)),
        ));
    }
    rows
}
