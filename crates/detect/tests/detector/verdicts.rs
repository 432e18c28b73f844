//! Which actions come before which, and what they end.

use crate::watch::{Watch, answer, seen, set_of, tcp};
use std::sync::Arc;
use weir_detect::{
    Action, ActionOrder, Detector, FlowState, Judging, Moment, Program, ProgramOptions, Verdicts,
};
use weir_wire::Direction::{Forward, Reverse};
use weir_wire::build::{self, flags};
use weir_wire::{Layers, LinkType, decode};

#[test]
fn pass_comes_before_alert() {
    let data = |payload: &str| tcp(16).payload(payload.as_bytes());
    let rules = "alert tcp-pkt any any -> any any (content:\"a\"; sid:1;)
pass tcp-pkt any any -> any any (content:\"b\"; sid:2;)";
    let mut watch = Watch::new(rules);
    assert_eq!(watch.packet(Forward, &data("a")).sids(), [1]);
    assert_eq!(watch.packet(Forward, &data("ab")).sids(), []);
    assert_eq!(watch.packet(Forward, &data("a")).sids(), [1]);
    // In a stream or in messages it is about the rest of the flow.
    let rules = "alert tcp any any -> any any (content:\"a\"; sid:1;)
alert tcp-pkt any any -> any any (content:\"a\"; sid:3;)
pass tcp any any -> any any (content:\"b\"; sid:2;)";
    let mut watch = Watch::new(rules);
    watch.chunk(Forward, b"ab").chunk(Reverse, b"a").packet(Forward, &data("a"));
    assert_eq!(watch.end().sids(), []);
    let mut watch = Watch::new(rules);
    assert_eq!(watch.chunk(Forward, b"a").chunk(Reverse, b"b").end().sids(), [1]);
    // A rule of addresses lets each packet of the flow pass.
    let rules = "alert tcp-pkt any any -> any any (content:\"a\"; sid:1;)
pass ip 10.0.0.1 any -> any any (sid:2;)";
    let mut watch = Watch::new(rules);
    for _ in 0..3 {
        assert_eq!(watch.packet(Forward, &data("a")).packet(Reverse, &answer(16).payload(b"a")).sids(), []);
    }
    let mut watch = Watch::new(&rules.replace("10.0.0.1", "10.0.0.3"));
    assert_eq!(watch.packet(Forward, &data("a")).sids(), [1]);
}

#[test]
fn a_dropped_flow_is_looked_at_until_the_end_of_its_packet() {
    let rules = "drop tcp any any -> any any (content:\"bad\"; sid:1;)\n\
                 alert tcp any any -> any any (content:\"x\"; sid:2;)\n\
                 alert tcp any any -> any any (content:\"y\"; sid:3;)\n";
    let found = |verdicts| {
        let mut watch = Watch::judged(rules, Judging { verdicts, ..Judging::default() });
        let first = watch.at_packet(1).chunk(Forward, b"bad x").sids();
        (
            first,
            watch.at_packet(2).chunk(Forward, b"y").sids(),
            watch.at_packet(3).chunk(Reverse, b"y").sids(),
        )
    };
    assert_eq!(found(Verdicts::Watched), (vec![1, 2], vec![3], vec![3]));
    for verdicts in [Verdicts::Passive, Verdicts::Inline] {
        assert_eq!(found(verdicts), (vec![1, 2], vec![], vec![]));
    }
    // A rule about packets drops its packet alone, one of a header the flow.
    for (rule, expected) in [("(dsize:>0; sid:1;)", vec![1, 1]), ("(sid:1;)", vec![1])] {
        let rules = format!("drop tcp any any -> any any {rule}");
        let judging = Judging { verdicts: Verdicts::Passive, ..Judging::default() };
        let mut watch = Watch::judged(&rules, judging);
        let frame = tcp(flags::ACK).payload(b"x");
        assert_eq!(
            watch.at_packet(1).packet(Forward, &frame).at_packet(2).packet(Forward, &frame).sids(),
            expected
        );
    }
}

#[test]
fn pass_makes_an_alert_by_its_keyword_where_verdicts_are_carried_out() {
    let rules = "pass tcp any any -> any any (alert; dsize:>0; sid:1;)\n\
                 pass tcp any any -> any any (dsize:1; sid:2;)\n\
                 alert tcp any any -> any any (dsize:>0; sid:3;)\n";
    let frame = tcp(flags::ACK).payload(b"x");
    for (verdicts, expected) in [(Verdicts::Watched, vec![]), (Verdicts::Passive, vec![1])] {
        let mut watch = Watch::judged(rules, Judging { verdicts, ..Judging::default() });
        assert_eq!(watch.packet(Forward, &frame).sids(), expected);
    }
}

#[test]
fn actions_are_judged_in_the_order_that_is_given() {
    let set = set_of(
        "pass tcp any any -> any any (dsize:>0; sid:1;)\n\
         drop tcp any any -> any any (dsize:>0; sid:2;)\n\
         alert tcp any any -> any any (dsize:>0; sid:3;)\n",
    );
    let frame = tcp(flags::ACK).payload(b"x");
    let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
    let seen = seen(&frame, &layers);
    for (order, expected) in [
        ([Action::Pass, Action::Drop, Action::Reject, Action::Alert], vec![]),
        ([Action::Drop, Action::Pass, Action::Reject, Action::Alert], vec![2]),
        ([Action::Alert, Action::Drop, Action::Reject, Action::Pass], vec![3, 2]),
    ] {
        let program = Arc::new(Program::with(
            &set,
            &[],
            ProgramOptions { actions: ActionOrder::new(order), ..ProgramOptions::default() },
        ));
        let mut detector = Detector::new(Arc::clone(&program));
        let moment = Moment { packet: Some(seen), ..Watch::of(&set).moment };
        detector.packet(&mut FlowState::default(), &moment);
        let found: Vec<u32> =
            detector.take().map(|one| program.rules[one.rule as usize].rule().sid).collect();
        assert_eq!(found, expected, "{order:?}");
    }
}
