//! Generated rules over generated flows.

use crate::watch::Watch;
use proptest::prelude::*;
use weir_detect::Match;
use weir_wire::Direction::{self, Forward, Reverse};

/// A content with its modifiers.
fn content() -> impl Strategy<Value = String> {
    let place = prop_oneof![
        4 => Just(String::new()),
        1 => (0..9_u32).prop_map(|offset| format!(" offset:{offset};")),
        1 => (8..16_u32).prop_map(|depth| format!(" depth:{depth};")),
        2 => (-3..5_i32).prop_map(|distance| format!(" distance:{distance};")),
        2 => (8..14_u32).prop_map(|within| format!(" within:{within};")),
        1 => Just(" startswith;".to_owned()),
        1 => Just(" endswith;".to_owned()),
    ];
    let not = prop_oneof![6 => Just(""), 1 => Just("!")];
    // Short literals and long ones are searched for in two ways.
    ("[ab]{1,3}|(ab){2,4}", place, not, prop_oneof![3 => Just(""), 1 => Just(" nocase;")])
        .prop_map(|(literal, place, not, case)| format!("content:{not}\"{literal}\";{place}{case} "))
}

fn contents() -> impl Strategy<Value = String> {
    prop::collection::vec(content(), 1..3).prop_map(|contents| {
        // The first content of a buffer has none before it.
        let text = contents.concat();
        let (first, rest) = text.split_once(';').expect("it has a content");
        let rest = rest.trim_start();
        let is_relative = ["distance", "within"].iter().any(|name| rest.starts_with(name));
        let rest = if is_relative { rest.split_once(';').expect("it has a value").1 } else { rest };
        format!("{first}; {rest}")
    })
}

/// Rules over the payload and two buffers.
fn rules() -> impl Strategy<Value = Vec<String>> {
    let part = |buffer: &'static str| contents().prop_map(move |contents| format!("{buffer}{contents}"));
    let payload = part("").prop_map(|options| format!("tcp|{options}"));
    let uri = part("http.uri; ").prop_map(|options| format!("http|{options}"));
    let agent = part("http.user_agent; to_lowercase; ").prop_map(|options| format!("http|{options}"));
    let two = (part("http.uri; "), part("http.user_agent; ")).prop_map(|(a, b)| format!("http|{a}{b}"));
    let mixed = (part("pkt_data; "), part("http.uri; ")).prop_map(|(a, b)| format!("http|{a}{b}"));
    let absent = part("http.uri; absent:or_else; ").prop_map(|options| format!("http|{options}"));
    let sides = (part("http.uri; "), part("http.stat_code; ")).prop_map(|(a, b)| format!("http|{a}{b}"));
    let rule = prop_oneof![3 => payload, 2 => uri, 1 => agent, 2 => two, 2 => mixed, 1 => absent, 1 => sides];
    // Payload is searched for what the ports of a flow allow.
    let ports = prop_oneof![
        4 => Just("any any -> any any"),
        1 => Just("any any -> any 80"),
        1 => Just("any 80 -> any any"),
        1 => Just("any any <> any 80"),
        1 => Just("any any -> any !80"),
        1 => Just("any 1024: -> any [80,443]"),
    ];
    prop::collection::vec((ports, rule), 1..8).prop_map(|rules| {
        let text = |(sid, (ports, rule)): (usize, (&str, String))| {
            let (protocol, options) = rule.split_once('|').expect("it has a protocol");
            format!("alert {protocol} {ports} ({options} sid:{};)", sid + 1)
        };
        rules.into_iter().enumerate().map(text).collect()
    })
}

/// What happens in a flow.
#[derive(Clone, Debug)]
enum Happens {
    Bytes(Direction, String),
    Filling(Direction, usize),
    Gap(Direction),
    Uri(String),
    Agent(String),
    Code(String),
    Completes(Direction),
    Next,
}

fn flow() -> impl Strategy<Value = Vec<Happens>> {
    use Happens::{Agent, Bytes, Code, Completes, Filling, Gap, Next, Uri};
    let side = || prop_oneof![Just(Forward), Just(Reverse)];
    let text = || "[abAB.]{0,12}|[.]{0,20}(ab){2,4}[.]{0,20}";
    let one = prop_oneof![
        6 => (side(), text()).prop_map(|(side, text)| Bytes(side, text)),
        1 => (side(), 2_500..2_600_usize).prop_map(|(side, length)| Filling(side, length)),
        1 => side().prop_map(Gap),
        3 => text().prop_map(Uri),
        3 => text().prop_map(Agent),
        2 => text().prop_map(Code),
        3 => side().prop_map(Completes),
        1 => Just(Next),
    ];
    prop::collection::vec(one, 0..24)
}

/// A match: the sid of its rule, its transaction and its side.
type Shown = (u32, Option<u64>, Direction);

/// Takes the matches so far of rules that are always there.
fn taken(watch: &mut Watch, found: &mut Vec<Shown>) {
    let [searching, plain] = watch.both.each_mut().map(|(detector, _)| {
        let matches: Vec<Match> = detector.take().collect();
        let rules = &detector.program().rules;
        let shown = |one: &Match| (rules[one.rule as usize].rule().sid, one.transaction, one.direction);
        matches.iter().map(shown).filter(|(sid, ..)| *sid < COMES_AND_GOES).collect::<Vec<_>>()
    });
    assert_eq!(searching, plain, "the search changes what matches");
    found.extend(searching);
}

/// Shows a flow, its streams in pieces of at most this length, and gives the matches.
fn found(rules: &str, flow: &[Happens], cut: usize) -> Vec<Shown> {
    found_with_changes(rules, flow, cut, |_, _| {})
}

/// `change` is called before each event of the flow, with its place, after the matches so far were taken.
fn found_with_changes(
    rules: &str,
    flow: &[Happens],
    cut: usize,
    mut change: impl FnMut(&mut Watch, usize),
) -> Vec<Shown> {
    let mut watch = Watch::new(rules).named("http");
    let mut number = 0;
    let mut found = Vec::new();
    for (place, happens) in flow.iter().enumerate() {
        taken(&mut watch, &mut found);
        change(&mut watch, place);
        match happens {
            Happens::Bytes(side, text) => {
                text.as_bytes().chunks(cut).for_each(|piece| _ = watch.chunk(*side, piece))
            }
            Happens::Filling(side, length) => {
                vec![b'.'; *length].chunks(cut).for_each(|piece| _ = watch.chunk(*side, piece));
            }
            Happens::Gap(side) => _ = watch.gap(*side, 3, b""),
            Happens::Uri(text) => _ = watch.buffer("http.uri", Forward, text.as_bytes()),
            Happens::Agent(text) => _ = watch.buffer("http.user_agent", Forward, text.as_bytes()),
            Happens::Code(text) => _ = watch.buffer("http.stat_code", Reverse, text.as_bytes()),
            Happens::Completes(side) => _ = watch.complete(*side),
            Happens::Next => {
                number += 1;
                watch.transaction(Forward, number).transaction(Reverse, number);
            }
        }
    }
    watch.end();
    taken(&mut watch, &mut found);
    found.sort_unstable_by_key(|(sid, transaction, side)| (*sid, *transaction, *side == Reverse));
    found
}

/// The first sid of rules that come and go. Such a rule looks at what comes from then on, and also at what waits where no literal is
/// searched for.
const COMES_AND_GOES: u32 = 900;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn search_order_and_cuts_change_nothing(rules in rules(), flow in flow(), cut in 1..6_usize, turn in 0..8_usize) {
        // Both detectors are compared for each flow.
        let whole = found(&rules.join("\n"), &flow, 100);
        prop_assert_eq!(&whole, &found(&rules.join("\n"), &flow, cut));
        let mut turned = rules.clone();
        turned.rotate_left(turn % rules.len());
        turned.reverse();
        prop_assert_eq!(&whole, &found(&turned.join("\n"), &flow, 100));
    }

    #[test]
    fn rules_that_come_and_go_neither_lose_nor_double_a_match_of_others(
        rules in rules(),
        other in rules(),
        flow in flow(),
        changes in prop::collection::vec(any::<bool>(), 24),
    ) {
        let whole = found(&rules.join("\n"), &flow, 100);
        let numbered = |(sid, rule): (u32, &String)| {
            let (options, _) = rule.rsplit_once("sid:").expect("a rule has a number");
            format!("{options}sid:{};)", COMES_AND_GOES + sid)
        };
        let others: Vec<String> = (0..).zip(&other).map(numbered).collect();
        // Rules before and between the others change the numbers of all.
        let mut with = others.clone();
        with.splice(1..1, rules.iter().rev().cloned());
        let changed = found_with_changes(&rules.join("\n"), &flow, 100, |watch, place| {
            if changes.get(place) == Some(&true) {
                watch.follow(&if place % 2 == 0 { &with } else { &rules }.join("\n"));
            }
        });
        prop_assert_eq!(whole, changed);
    }
}
