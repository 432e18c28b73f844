//! Flows that go on when the rules change.

use crate::watch::Watch;
use weir_wire::Direction::{Forward, Reverse};

const SETS_BIT: &str =
    "alert tcp any any -> any any (content:\"login\"; flowbits:set,in; flowbits:noalert; sid:7;)";
const TESTS_BIT: &str = "alert tcp any any -> any any (content:\"logout\"; flowbits:isset,in; sid:3;)";
const OTHER: &str = "alert tcp any any -> any any (content:\"other\"; flowbits:set,other; sid:1;)";

#[test]
fn flows_keep_their_bits_when_rules_change() {
    let mut watch = Watch::new(&[SETS_BIT, TESTS_BIT].join("\n"));
    watch.chunk(Forward, b"login").chunk(Reverse, b"welcome");
    // A rule comes, which takes the first numbers of rules and of bits.
    watch.follow(&[OTHER, SETS_BIT, TESTS_BIT].join("\n"));
    watch.chunk(Forward, b"other and logout").end();
    assert_eq!(watch.sids(), [1, 3]);

    // A rule goes that has set the bit, and comes back: what no rule knows is forgotten.
    let mut watch = Watch::new(&[SETS_BIT, TESTS_BIT].join("\n"));
    watch.chunk(Forward, b"login").chunk(Reverse, b"welcome").follow(OTHER);
    watch.chunk(Forward, b" other ").chunk(Reverse, b"yes").follow(&[SETS_BIT, TESTS_BIT].join("\n"));
    watch.chunk(Forward, b"logout").end();
    assert_eq!(watch.matches().len(), 1, "of the other rule alone");
}

#[test]
fn a_flow_that_was_not_looked_at_for_many_changes_keeps_its_bits_up_to_a_limit() {
    for (changes, expected) in [(2, vec![3]), (64, vec![3]), (65, vec![])] {
        let mut watch = Watch::new(&[SETS_BIT, TESTS_BIT].join("\n"));
        watch.chunk(Forward, b"login").chunk(Reverse, b"welcome");
        for n in 0..changes {
            watch.follow(&[[OTHER, SETS_BIT][n % 2], SETS_BIT, TESTS_BIT][1 - n % 2..].join("\n"));
        }
        watch.chunk(Forward, b"logout").end();
        assert_eq!(watch.sids(), expected, "{changes} changes");
    }
}

#[test]
fn a_change_of_rules_in_a_transaction_neither_loses_nor_doubles_a_match() {
    let two =
        "alert http any any -> any any (http.uri; content:\"/a\"; http.user_agent; content:\"x\"; sid:5;)";
    let sides =
        "alert http any any -> any any (http.uri; content:\"/a\"; http.stat_code; content:\"404\"; sid:6;)";
    let uri = "alert http any any -> any any (http.uri; content:\"/a\"; sid:4;)";
    let before = [uri, two, sides].join("\n");
    let after =
        ["alert http any any -> any any (http.method; content:\"GET\"; sid:2;)", uri, two, sides].join("\n");
    let mut watch = Watch::new(&before).named("http");
    watch.transaction(Forward, 1).message(Forward, &[("http.uri", "/a")]);
    assert_eq!(watch.sids(), [4]);
    watch.follow(&after).message(Forward, &[("http.user_agent", "x")]);
    assert_eq!(watch.sids(), [5]);
    watch.follow(&before).transaction(Reverse, 1).message(Reverse, &[("http.stat_code", "404")]);
    assert_eq!(watch.sids(), [6]);
    // A rule that has changed looks at what comes from now on.
    let changed = after.replace("content:\"404\"", "content:\"405\"");
    watch.transaction(Forward, 2).message(Forward, &[("http.uri", "/a")]).sids();
    watch.follow(&changed).transaction(Reverse, 2).message(Reverse, &[("http.stat_code", "404")]);
    assert_eq!(watch.sids(), []);
    watch.transaction(Forward, 3).message(Forward, &[("http.uri", "/a"), ("http.method", "GET")]);
    watch.transaction(Reverse, 3).message(Reverse, &[("http.stat_code", "405")]);
    assert_eq!(watch.sids(), [2, 4, 6]);
}

#[test]
fn counts_of_thresholds_outlive_a_change_of_rules() {
    let limited = "alert tcp any any -> any any (content:\"x\"; threshold: type limit, track by_src, count 1, seconds 60; sid:9;)";
    let mut watch = Watch::new(limited);
    watch.chunk(Forward, b"x").chunk(Reverse, b"-");
    assert_eq!(watch.sids(), [9]);
    watch.follow(&[OTHER, limited].join("\n")).gap(Forward, 1, b"x").chunk(Reverse, b"-");
    assert_eq!(watch.sids(), []);
    // Another limit counts anew.
    watch.follow(&limited.replace("60", "61")).gap(Forward, 1, b"x").chunk(Reverse, b"-");
    assert_eq!(watch.sids(), [9]);
}
