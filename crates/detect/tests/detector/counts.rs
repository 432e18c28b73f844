//! What is counted beyond one flow: thresholds and bits of hosts.

use crate::watch::{Watch, address, seen, set_of, tcp};
use std::sync::Arc;
use weir_detect::{Detector, FlowState, Lists, Moment, Program, SharedState, Turn};
use weir_wire::build::{self, flags};
use weir_wire::{Layers, LinkType, Time, decode};

/// The times, in seconds, at which packets of a client make alerts of a rule, one packet each second.
fn alert_seconds(rule: &str, lines: &str, packets: u64) -> Vec<u64> {
    let set = set_of(rule);
    let lines = weir_detect::thresholds(lines.as_bytes(), &mut Lists::default()).expect("it is text");
    assert!(lines.faults.is_empty(), "{:?}", lines.faults);
    let mut detector = Detector::new(Arc::new(Program::new(&set, &[]).with_thresholds(&lines.rows)));
    let mut state = FlowState::default();
    let frame = tcp(flags::ACK).payload(b"x");
    let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
    let seen = seen(&frame, &layers);
    let mut seconds = Vec::new();
    for second in 0..packets {
        let time = Time(second * 1_000_000_000);
        let moment = Moment { time, packet: Some(seen), ..Watch::new(rule).moment };
        detector.at_packet(Some(second as u32));
        detector.packet(&mut state, &moment);
        seconds.extend(detector.take().map(|_| second));
    }
    seconds
}

/// A packet of a flow of its own.
#[derive(Clone, Copy)]
struct Sent<'a> {
    /// Which worker reads it.
    by: usize,
    /// `false`: it is found when the flow ends, between packets.
    is_packet: bool,
    second: u64,
    from: [u8; 4],
    to: [u8; 4],
    text: &'a [u8],
}

/// The sids of the alerts for packets that two workers read, and how often a worker waited for its turn.
fn alerts_of_two_workers(rules: &str, packets: &[Sent<'_>]) -> (Vec<u32>, usize) {
    #[derive(Debug, Default)]
    struct Waits(std::sync::atomic::AtomicUsize);
    impl Turn for Waits {
        fn wait(&self, _packet: Option<u32>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let program = Arc::new(Program::new(&set_of(rules), &[]));
    assert!(program.unread.is_empty(), "{:?}", program.unread);
    let (shared, waits) = (Arc::new(SharedState::default()), Arc::new(Waits::default()));
    let mut workers = [Detector::new(Arc::clone(&program)), Detector::new(program)];
    for worker in &mut workers {
        worker.share(Arc::clone(&shared), Some(Arc::clone(&waits) as Arc<dyn Turn>));
    }
    let mut sids = Vec::new();
    for (number, sent) in (1..).zip(packets) {
        let worker = &mut workers[sent.by];
        let frame = tcp(flags::ACK).payload(sent.text);
        let layers: Layers = decode(&build::packet(&frame, LinkType::ETHERNET));
        let moment = Moment {
            time: Time(sent.second * 1_000_000_000),
            initiator: (address(sent.from), 40_000),
            responder: (address(sent.to), 80),
            packet: Some(seen(&frame, &layers)),
            ..Watch::new(rules).moment
        };
        worker.at_packet(sent.is_packet.then_some(number));
        worker.packet(&mut FlowState::default(), &moment);
        let found: Vec<u32> = worker.take().map(|found| found.rule).collect();
        sids.extend(found.iter().map(|rule| worker.program().rules[*rule as usize].rule().sid));
    }
    (sids, waits.0.load(std::sync::atomic::Ordering::Relaxed))
}

const SENT: Sent<'_> =
    Sent { by: 0, is_packet: true, second: 0, from: [10, 0, 0, 1], to: [10, 0, 0, 2], text: b"x" };

#[test]
fn workers_count_together() {
    let rule = |limit: &str| format!(r#"alert tcp-pkt any any -> any any (content:"x"; {limit}; sid:5;)"#);
    let other = Sent { by: 1, to: [10, 0, 0, 3], ..SENT };
    let of_source = rule("threshold: type limit, track by_src, count 1, seconds 60");
    assert_eq!(alerts_of_two_workers(&of_source, &[SENT, other, other]), (vec![5], 3));
    let of_target = rule("threshold: type limit, track by_dst, count 1, seconds 60");
    assert_eq!(alerts_of_two_workers(&of_target, &[SENT, other, other]).0, [5, 5]);
    let of_rule = rule("threshold: type threshold, track by_rule, count 3, seconds 60");
    assert_eq!(alerts_of_two_workers(&of_rule, &[SENT, other, SENT, other]).0, [5]);
    let filter = rule("detection_filter: track by_src, count 2, seconds 60");
    assert_eq!(alerts_of_two_workers(&filter, &[SENT, other, SENT, other]).0, [5, 5]);
    // A flow is read by one worker: it waits for none.
    let of_flow = rule("threshold: type limit, track by_flow, count 1, seconds 60");
    assert_eq!(alerts_of_two_workers(&of_flow, &[SENT, SENT, other]), (vec![5, 5], 0));
}

#[test]
fn what_is_found_between_packets_is_judged_and_not_counted() {
    let rule = r#"alert tcp-pkt any any -> any any (content:"x"; threshold: type limit, track by_src, count 1, seconds 60; sid:5;)"#;
    let between = Sent { is_packet: false, ..SENT };
    assert_eq!(alerts_of_two_workers(rule, &[between, between, SENT, SENT, between]).0, [5, 5, 5]);
}

#[test]
fn bits_of_hosts() {
    let rules = r#"
alert tcp-pkt any any -> any any (content:"set"; xbits:set,seen,track ip_src,expire 10; noalert; sid:1;)
alert tcp-pkt any any -> any any (content:"ask"; xbits:isset,seen,track ip_dst; sid:2;)
alert tcp-pkt any any -> any any (content:"not"; xbits:isnotset,seen,track ip_dst; sid:3;)
alert tcp-pkt any any -> any any (content:"clear"; xbits:unset,seen,track ip_src; noalert; sid:4;)
alert tcp-pkt any any -> any any (content:"pair"; xbits:set,both,track ip_pair,expire 10; noalert; sid:5;)
alert tcp-pkt any any -> any any (content:"two"; xbits:isset,both,track ip_pair; sid:6;)
alert tcp-pkt any any -> any any (content:"toggle"; hostbits:toggle,seen,src; noalert; sid:7;)
"#;
    let (host, other, third) = ([10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3]);
    let sent = |second: u64, from: [u8; 4], to: [u8; 4], text: &'static [u8]| Sent {
        by: second as usize % 2,
        second,
        from,
        to,
        text,
        ..SENT
    };
    for (packets, expected) in [
        (vec![sent(0, other, host, b"ask"), sent(1, other, host, b"not")], vec![3]),
        (
            vec![sent(0, host, other, b"set"), sent(1, third, host, b"ask"), sent(2, third, other, b"ask")],
            vec![2],
        ),
        (
            vec![sent(0, host, other, b"set"), sent(9, third, host, b"ask"), sent(10, third, host, b"ask")],
            vec![2],
        ),
        (vec![sent(0, host, other, b"set"), sent(10, third, host, b"not")], vec![3]),
        (
            vec![sent(0, host, other, b"set"), sent(1, host, third, b"clear"), sent(2, third, host, b"ask")],
            vec![],
        ),
        (
            vec![sent(0, host, other, b"pair"), sent(1, other, host, b"two"), sent(2, host, third, b"two")],
            vec![6],
        ),
        (
            vec![
                sent(0, host, other, b"toggle"),
                sent(1, other, host, b"ask"),
                sent(2, host, other, b"toggle"),
                sent(3, other, host, b"ask"),
            ],
            vec![2],
        ),
        // What a flow does that ends between packets has no place in the order.
        (
            vec![Sent { is_packet: false, ..sent(0, host, other, b"set") }, sent(1, third, host, b"ask")],
            vec![],
        ),
    ] {
        let texts: Vec<_> = packets.iter().map(|sent| String::from_utf8_lossy(sent.text)).collect();
        assert_eq!(alerts_of_two_workers(rules, &packets).0, expected, "{texts:?}");
    }
}

#[test]
fn what_the_user_says_of_alerts() {
    let rule = "alert tcp-pkt any any -> any any (content:\"x\"; sid:5;)";
    let own = "alert tcp-pkt any any -> any any (content:\"x\"; threshold: type limit, track by_src, count 2, seconds 60; sid:5;)";
    let all: Vec<u64> = (0..10).collect();
    for (rule, lines, expected) in [
        (rule, "", all.clone()),
        (rule, "suppress gen_id 1, sig_id 5", vec![]),
        (rule, "suppress gen_id 0, sig_id 0", vec![]),
        (rule, "suppress gen_id 1, sig_id 6", all.clone()),
        (rule, "suppress gen_id 2, sig_id 0", all.clone()),
        (rule, "suppress gen_id 1, sig_id 5, track by_src, ip 10.0.0.0/31", vec![]),
        (rule, "suppress gen_id 1, sig_id 5, track by_src, ip 10.0.0.2", all.clone()),
        (rule, "suppress gen_id 1, sig_id 5, track by_dst, ip 10.0.0.2", vec![]),
        (rule, "suppress gen_id 1, sig_id 5, track by_either, ip 10.0.0.2", vec![]),
        (rule, "threshold gen_id 1, sig_id 5, type limit, track by_src, count 1, seconds 60", vec![0]),
        (
            rule,
            "event_filter gen_id 1, sig_id 0, type threshold, track by_dst, count 4, seconds 60",
            vec![3, 7],
        ),
        // A threshold of one rule takes the place of its own, one of all rules does not.
        (own, "threshold gen_id 1, sig_id 5, type limit, track by_src, count 3, seconds 60", vec![0, 1, 2]),
        (own, "threshold gen_id 1, sig_id 0, type limit, track by_src, count 3, seconds 60", vec![0, 1]),
        (own, "suppress gen_id 1, sig_id 5", vec![]),
        // Two matches in a minute, then four seconds without alerts.
        (
            rule,
            "rate_filter gen_id 1, sig_id 5, track by_src, count 2, seconds 60, new_action pass, timeout 4",
            vec![0, 1, 6, 7],
        ),
        (
            rule,
            "rate_filter gen_id 1, sig_id 5, track by_src, count 2, seconds 60, new_action pass, timeout 0",
            vec![0, 1],
        ),
        (
            rule,
            "rate_filter gen_id 1, sig_id 5, track by_src, count 2, seconds 60, new_action drop, timeout 4",
            all.clone(),
        ),
    ] {
        assert_eq!(alert_seconds(rule, lines, 10), expected, "{rule}\n{lines}");
    }
}
