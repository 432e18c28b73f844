//! Alerts do not depend on how a flow is carried: on its segments, fragments and tunnels, on the number of workers, on changes of the plan.

use crate::carriers::{CARRIERS, Carrier, Flow, Segments, WAYS, cut_at, pieces, whole};
use crate::cases::{CASES, rules};
use crate::run::{Frame, Run, alerts, plan};

/// The port of the client of a case.
fn port(case: usize) -> u16 {
    50_000 + case as u16
}

/// The frames of all cases, flow by flow.
fn frames(carrier: Carrier, segments: &dyn Fn(usize) -> Segments) -> Vec<Frame> {
    let of_case = |(at, case): (usize, &crate::cases::Case)| {
        let flow = Flow { is_tcp: case.is_tcp, ports: (port(at), case.port), turns: case.turns };
        flow.frames(carrier, segments)
    };
    CASES.iter().enumerate().flat_map(of_case).collect()
}

/// The alerts of the flows as they are without any of this.
fn expected() -> Vec<(u16, u64)> {
    alerts(&plan(&rules()), &frames(CARRIERS[0].1, &whole))
}

/// The first alert that is in one list alone, with the rule.
fn difference(one: &[(u16, u64)], other: &[(u16, u64)]) -> Option<String> {
    let alone = |these: &[(u16, u64)], those: &[(u16, u64)]| {
        let count = |all: &[(u16, u64)], alert| all.iter().filter(|known| **known == alert).count();
        these.iter().copied().find(|alert| count(these, *alert) > count(those, *alert))
    };
    let shown = |(port, sid): (u16, u64), what: &str| {
        let rules = rules();
        let rule = rules.lines().nth(sid as usize - 1).unwrap_or_default();
        format!("{what} for the flow of port {port}: {rule}")
    };
    alone(one, other)
        .map(|alert| shown(alert, "missing"))
        .or_else(|| alone(other, one).map(|alert| shown(alert, "too many")))
}

#[test]
fn each_pair_of_options_matches_and_misses() {
    let found = expected();
    let mut sid = 1;
    for (at, case) in CASES.iter().enumerate() {
        for (hit, miss) in case.options {
            let count = |sid: u64| found.iter().filter(|alert| **alert == (port(at), sid)).count();
            assert_eq!((count(sid), count(sid + 1)), (1, 0), "{} {hit} {miss}", case.protocol);
            sid += 2;
        }
    }
}

#[test]
fn any_cut_of_the_streams_gives_equal_alerts() {
    let (plan, expected) = (plan(&rules()), expected());
    let longest = CASES.iter().flat_map(|case| case.turns).map(|(_, bytes)| bytes.len()).max().unwrap();
    for cut in 1..longest {
        let found = alerts(&plan, &frames(CARRIERS[0].1, &|length| cut_at(cut, length)));
        assert_eq!(difference(&expected, &found), None, "cut at {cut}");
    }
}

#[test]
fn any_carrier_gives_equal_alerts() {
    let (plan, expected) = (plan(&rules()), expected());
    for (name, carrier) in CARRIERS {
        let found = alerts(&plan, &frames(carrier, &whole));
        assert_eq!(difference(&expected, &found), None, "{name}");
    }
}

#[test]
fn any_order_and_overlap_gives_equal_alerts_over_any_carrier() {
    let (plan, expected) = (plan(&rules()), expected());
    for (way, segments) in WAYS {
        for (name, carrier) in CARRIERS {
            let found = alerts(&plan, &frames(carrier, &segments));
            assert_eq!(difference(&expected, &found), None, "{way} over {name}");
        }
    }
}

/// One frame of each flow in turn.
fn in_turn(frames: Vec<Frame>) -> Vec<Frame> {
    let mut flows: Vec<std::vec::IntoIter<Frame>> = Vec::new();
    for (at, _) in CASES.iter().enumerate() {
        let own = frames.iter().filter(|frame| frame.flow == port(at));
        flows.push(own.cloned().collect::<Vec<_>>().into_iter());
    }
    let mut all = Vec::new();
    while all.len() < frames.len() {
        all.extend(flows.iter_mut().filter_map(Iterator::next));
    }
    all
}

#[test]
fn any_number_of_workers_gives_equal_alerts() {
    let (plan, expected) = (plan(&rules()), expected());
    let frames = in_turn(frames(CARRIERS[0].1, &|length| pieces(7, length)));
    for workers in 1..=5 {
        let (found, stats) = Run::new(&plan, workers).read(&frames).end();
        assert_eq!(difference(&expected, &found), None, "{workers} workers");
        // Nothing of these flows was left out: every packet with payload was looked at.
        assert!(
            stats
                .iter()
                .all(|stats| (stats.rules_unseen, stats.rules_given_up, stats.rules_cut) == (0, 0, 0))
        );
    }
}

#[test]
fn rules_in_another_order_give_equal_alerts() {
    let (rules, expected) = (rules(), expected());
    let frames = frames(CARRIERS[0].1, &|length| pieces(7, length));
    let lines: Vec<&str> = rules.lines().collect();
    for turn in [1, 7, 50, lines.len() - 1] {
        let mut turned = lines.clone();
        turned.rotate_left(turn);
        assert_eq!(difference(&expected, &alerts(&plan(&turned.join("\n")), &frames)), None, "{turn}");
        turned.reverse();
        assert_eq!(
            difference(&expected, &alerts(&plan(&turned.join("\n")), &frames)),
            None,
            "{turn}, reversed"
        );
    }
}

#[test]
fn a_change_of_the_plan_before_any_packet_neither_loses_nor_doubles_an_alert() {
    let expected = expected();
    // Rules before all others and after them change the numbers of rules, parts and bits.
    let own = rules();
    let others = "alert tcp any any -> any any (content:\"nothing has this\"; flowbits:set,first; sid:100001;)
alert http any any -> any any (http.uri; content:\"nothing\"; http.stat_code; content:\"999\"; sid:100002;)\n";
    let after =
        "alert tcp any any -> any any (content:\"nothing at all\"; flowbits:isset,first; sid:100003;)\n";
    let plans = [plan(&own), plan(&format!("{others}{own}{after}"))];
    let frames = in_turn(frames(CARRIERS[0].1, &|length| pieces(40, length)));
    for workers in [1, 3] {
        // One change, before each packet in turn.
        for at in 0..frames.len() {
            let mut run = Run::new(&plans[0], workers);
            let (before, later) = frames.split_at(at);
            let found = run.read(before).change(&plans[1]).read(later).end().0;
            assert_eq!(difference(&expected, &found), None, "a change before packet {at}");
        }
        // A change before each packet.
        let mut run = Run::new(&plans[0], workers);
        for (at, frame) in frames.iter().enumerate() {
            run.read(std::slice::from_ref(frame)).change(&plans[(at + 1) % 2]);
        }
        assert_eq!(difference(&expected, &run.end().0), None, "{workers} workers");
    }
}

#[test]
fn a_content_over_a_gap_does_not_match_and_one_beside_it_does() {
    let bytes = b"first needle, a gap, second needle";
    let turns = [(true, &bytes[..]), (false, &b"ok"[..]), (true, b".")];
    // A place is looked at from the beginning of the stream up to its first gap.
    let rules = "alert tcp any any -> any any (content:\"first needle\"; sid:1;)
alert tcp any any -> any any (content:\"second needle\"; sid:2;)
alert tcp-stream any any -> any any (content:\"needle\"; offset:6; depth:6; sid:3;)
alert tcp any any -> any any (content:\"first\"; content:\"second\"; distance:0; sid:4;)
alert tcp any any -> any any (pcre:\"/second needle/\"; sid:5;)\n";
    let plan = plan(rules);
    let needs = [(1, 0..12), (2, 21..34), (3, 0..12), (4, 0..27), (5, 21..34)];
    for (name, carrier) in CARRIERS {
        for lost in 0..bytes.len() {
            let segments = |length: usize| match length == bytes.len() {
                true => vec![(0, lost), (lost + 1, length)],
                false => whole(length),
            };
            let flow = Flow { is_tcp: true, ports: (50_000, 7_000), turns: &turns };
            let found: Vec<u64> =
                alerts(&plan, &flow.frames(carrier, &segments)).iter().map(|(_, sid)| *sid).collect();
            let whole = needs.iter().filter(|(_, needs)| !needs.contains(&lost)).map(|(sid, _)| *sid);
            assert_eq!(found, whole.collect::<Vec<u64>>(), "{name}: byte {lost} is lost");
        }
    }
}

#[test]
fn a_flow_keeps_its_alerts_when_rules_change() {
    let rule =
        |word: &str, sid: u32| format!("alert udp any any -> any any (content:\"{word}\"; sid:{sid};)\n");
    let (first, second) = (plan(&rule("first", 1)), plan(&rule("second", 2)));
    let flow = |port: u16, words: &'static [(bool, &'static [u8])]| {
        Flow { is_tcp: false, ports: (port, 7_000), turns: words }.frames(CARRIERS[0].1, &whole)
    };
    let before = [flow(50_000, &[(true, b"first")]), flow(50_001, &[(true, b"second")])].concat();
    let after = [
        flow(50_000, &[(true, b"x")]),
        flow(50_002, &[(true, b"second")]),
        flow(50_003, &[(true, b"first")]),
    ];
    for workers in [1, 3] {
        let mut run = Run::new(&first, workers);
        run.read(&before).change(&second).read(&after.concat());
        assert_eq!(run.end().0, [(50_000, 1), (50_002, 2)]);
        assert_eq!(run.alerted(), [50_000, 50_002], "{workers} workers");
    }
}
