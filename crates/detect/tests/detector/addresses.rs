//! Addresses, ports, reputations and countries.

use crate::watch::{CLIENT, SERVER, Watch, answer, tcp};
use weir_wire::Direction::{self, Forward, Reverse};
use weir_wire::build::flags;

#[test]
fn addresses_and_ports() {
    let sides = |header: &str| {
        let mut watch = Watch::new(&format!("alert tcp {header} (flags:*A; sid:1;)"));
        let forward = !watch.packet(Forward, &tcp(16).payload(b"")).sids().is_empty();
        let reverse = !watch.packet(Reverse, &answer(16).payload(b"")).sids().is_empty();
        (forward, reverse)
    };
    let (both, one, other, none) = ((true, true), (true, false), (false, true), (false, false));
    assert_eq!(sides("any any -> any any"), both);
    assert_eq!(sides("10.0.0.1 40000 -> 10.0.0.2 80"), one);
    assert_eq!(sides("10.0.0.2 80 -> 10.0.0.1 40000"), other);
    assert_eq!(sides("10.0.0.1 40000 <> 10.0.0.2 80"), both);
    assert_eq!(sides("10.0.0.2 80 <> 10.0.0.1 40000"), both);
    assert_eq!(sides("10.0.0.1 40001 <> 10.0.0.2 80"), none);
    assert_eq!(sides("10.0.0.3 any -> any any"), none);
    assert_eq!(sides("any any -> any 81"), none);
    assert_eq!(sides("any any -> any [79:80]"), one);
    assert_eq!(sides("any any -> any !80"), other);
    assert_eq!(sides("any any -> any [1:100,!80]"), none);
    assert_eq!(sides("[10.0.0.0/8,!10.0.0.1] any -> any any"), other);
    assert_eq!(sides("!10.0.0.0/30 any -> any any"), none);
    assert_eq!(sides("$HOME_NET any -> $HOME_NET $HTTP_PORTS"), one);
    assert_eq!(sides("$EXTERNAL_NET any -> any any"), none);
    let from_abroad = |address| {
        let mut watch = Watch::new("alert tcp $EXTERNAL_NET any -> $HOME_NET any (content:\"abc\"; sid:1;)")
            .between((address, 1), (SERVER, 80));
        watch.chunk(Forward, b"abc").end().sids()
    };
    assert_eq!(from_abroad([11, 0, 0, 1]), [1]);
    assert_eq!(from_abroad([172, 31, 255, 255]), []);
    assert_eq!(from_abroad([172, 32, 0, 0]), [1]);
}

#[test]
fn rules_of_addresses_match_once_a_side() {
    let mut watch =
        Watch::new("alert ip any any -> any any (sid:1;)\nalert ip 10.0.0.1 any -> any any (sid:2;)");
    let (forward, reverse) = (tcp(2).payload(b""), answer(18).payload(b""));
    assert_eq!(watch.packet(Forward, &forward).sids(), [1, 2]);
    assert_eq!(
        watch.packet(Forward, &forward).packet(Reverse, &reverse).packet(Reverse, &reverse).sids(),
        [1]
    );
    // More of them than are kept: each matches once or not at all.
    let rules: String =
        (1..=3_000).map(|sid| format!("alert ip any any -> any any (sid:{sid};)\n")).collect();
    let mut watch = Watch::new(&rules);
    assert_eq!(watch.packet(Forward, &forward).sids().len(), 1_000);
    assert_eq!(watch.packet(Forward, &forward).sids(), []);
    assert!(watch.stats().no_room >= 2_000);
}

/// How often a rule of addresses alone matches in two packets of each side, between the client and another host.
fn matches_of_addresses(options: &str, other: [u8; 4]) -> Vec<Direction> {
    let rule = format!("alert ip any any -> any any ({options} sid:1;)");
    let mut watch = Watch::new(&rule).between((CLIENT, 40_000), (other, 80));
    for _ in 0..2 {
        watch
            .packet(Forward, &tcp(flags::ACK).payload(b"x"))
            .packet(Reverse, &answer(flags::ACK).payload(b"x"));
    }
    watch.matches().iter().map(|one| one.direction).collect()
}

#[test]
fn reputations_of_addresses() {
    for (test, of_server, of_other) in [
        ("src,Bad,>,29", vec![Forward], vec![Forward, Reverse]),
        ("src,Bad,>,30", vec![], vec![Reverse]),
        ("dst,Bad,>,29", vec![Reverse], vec![Forward, Reverse]),
        ("src,Bad,=,31", vec![], vec![Reverse]),
        ("any,Bad,>=,31", vec![], vec![Forward, Reverse]),
        ("both,Bad,>=,30", vec![], vec![Forward, Reverse]),
        ("both,Bad,>=,31", vec![], vec![]),
        // An address without a score has none that is lower.
        ("dst,Bad,<,30", vec![], vec![]),
        ("src,Good,isset", vec![Reverse], vec![]),
        ("src,Good,isnotset", vec![Forward], vec![Forward, Reverse]),
        ("both,Good,isnotset", vec![], vec![Forward, Reverse]),
    ] {
        let options = format!("iprep:{test};");
        assert_eq!(matches_of_addresses(&options, SERVER), of_server, "{test}");
        assert_eq!(matches_of_addresses(&options, [10, 0, 0, 3]), of_other, "{test}");
    }
}

#[test]
fn countries_of_addresses() {
    for (test, of_server, of_other) in [
        ("src,DE", vec![Forward], vec![Forward]),
        ("dst,de,US", vec![Reverse], vec![Reverse]),
        ("DE", vec![Forward, Reverse], vec![Forward, Reverse]),
        ("any,US", vec![], vec![]),
        ("both,DE,FR", vec![Forward, Reverse], vec![]),
        ("both,DE", vec![], vec![]),
        ("dst,!DE", vec![Forward], vec![]),
        ("src,!DE,!FR", vec![], vec![]),
    ] {
        let options = format!("geoip:{test};");
        assert_eq!(matches_of_addresses(&options, SERVER), of_server, "{test}");
        assert_eq!(matches_of_addresses(&options, [10, 0, 0, 3]), of_other, "{test}");
    }
}
