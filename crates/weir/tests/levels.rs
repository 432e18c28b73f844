//! Subscriptions over streams: what their functions see is what `weir streams` writes, of the flows that they cover and of no
//! others.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, Pass, settings};
use std::sync::Arc;
use support::*;
use weir_api::{
    Count, FunctionCall, Level, Owner, Reading, Snapshot, Subscription, SubscriptionId, SubscriptionSpec,
};
use weir_engine::{FlowConfig, FlowIdentity, Plan, Worker};
use weir_wire::build::{self, flags};
use weir_wire::{LinkType, Packet, PacketBuf, Time};

/// Largest capture in packets.
const MAX_PACKETS: u64 = 20_000;

/// Whether an expression covers a flow.
type Covers = fn(&FlowIdentity) -> bool;

fn has_port(flow: &FlowIdentity, port: u16) -> bool {
    matches!(flow.key.proto, 6 | 17) && flow.key.port.contains(&port)
}

fn is_ten(address: [u8; 16]) -> bool {
    address[..13] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10]
}

/// Expressions over flows, and what they cover.
const EXPRESSIONS: [(&str, Covers); 7] = [
    ("", |_| true),
    ("tcp", |flow| flow.key.proto == 6),
    ("udp", |flow| flow.key.proto == 17),
    ("port 53 or port 80", |flow| has_port(flow, 53) || has_port(flow, 80)),
    ("tcp and not port 80", |flow| flow.key.proto == 6 && !has_port(flow, 80)),
    ("net 10.0.0.0/8", |flow| flow.key.addr.into_iter().any(is_ten)),
    // The initiator is the source of a flow.
    ("src net 10.0.0.0/8", |flow| is_ten(flow.key.addr[usize::from(!flow.initiator_is_lower)])),
];

fn over_streams(expression: &str, functions: &[FunctionCall]) -> SubscriptionSpec {
    let spec = SubscriptionSpec::new(expression, expression, functions.to_vec());
    SubscriptionSpec { level: Level::Stream, ..spec }
}

/// The counts of the first function of each subscription with this name.
fn count(snapshot: &Snapshot, name: &str) -> Count {
    let counts = snapshot.answers.iter().filter(|answer| answer.label.subscription == name);
    counts.fold(Count::default(), |mut sum, answer| {
        if let Reading::Count(count) = &answer.reading {
            sum.add(count);
        }
        sum
    })
}

#[test]
fn functions_see_the_chunks_that_are_handed_on_of_the_flows_that_they_cover() {
    let bytes = [FunctionCall::new("bytes")];
    let hands_on = SubscriptionSpec::handing_on("chunks", Level::Stream, vec![FunctionCall::new("stream")]);
    let specs = EXPRESSIONS.iter().map(|(text, _)| over_streams(text, &bytes)).chain([hands_on]);
    let plan = Arc::new(Plan::new("", specs.collect(), settings()).unwrap());
    let (mut captures, mut chunks, mut covered) = (0, 0, 0);
    for path in diverse(150) {
        let capture = Loaded::read(&path);
        if !(2..=MAX_PACKETS).contains(&capture.len()) {
            continue;
        }
        captures += 1;
        for workers in [1, 2, 3, 7] {
            let outcome =
                Pass::new(&plan, workers, capture.ample_memory()).run(&capture, capture.interval(3), |_| ());
            let total = outcome.total();
            chunks += outcome.chunks.len();
            for (text, covers) in EXPRESSIONS {
                let mut expected = Count::default();
                for (_, bytes) in outcome.chunks.iter().filter(|(flow, _)| covers(flow)) {
                    expected.add(&Count { packets: u64::from(*bytes > 0), bytes: *bytes as u64 });
                }
                assert_eq!(count(&total, text), expected, "{}, {workers} workers: {text}", path.display());
                covered += expected.bytes;
            }
        }
        // The other way to the bytes of TCP.
        let ran = weir(["streams", text(&path), "-o", "-"]);
        let outcome = Pass::new(&plan, 1, capture.ample_memory()).run(&capture, 10_000_000_000, |_| ());
        assert_eq!(count(&outcome.total(), "tcp").bytes, ran.stdout.len() as u64, "{}", path.display());
    }
    println!("{captures} captures, {chunks} chunks, {covered} bytes covered");
    assert!(covered > 100_000);
}

#[test]
fn streams_are_reassembled_only_for_the_flows_that_a_subscription_covers() {
    let calls = [FunctionCall::new("bytes"), FunctionCall::new("top").with("by", "destination")];
    let (mut fewer, mut captures) = (0, 0);
    for path in diverse(120) {
        let capture = Loaded::read(&path);
        if !(2..=MAX_PACKETS).contains(&capture.len()) {
            continue;
        }
        let run = |expression: &str| {
            let plan = Arc::new(Plan::new("", vec![over_streams(expression, &calls)], settings()).unwrap());
            let (interval, memory) = (capture.interval(3), capture.ample_memory());
            Pass::new(&plan, 2, memory).run(&capture, interval, |_| ()).total()
        };
        let (all, some) = (run("tcp"), run("tcp port 80 or tcp port 25"));
        for (total, name) in [(&all, "tcp"), (&some, "tcp port 80 or tcp port 25")] {
            let count = count(total, name);
            assert_eq!(count.bytes, total.sessions.stream_bytes, "{}: {name}", path.display());
            // Each byte is in the list of its receiver.
            let lists = total.answers.iter().filter_map(|answer| match &answer.reading {
                Reading::Top(top) => Some(top.rows.iter().map(|row| row.count.bytes).sum::<u64>()),
                _ => None,
            });
            assert_eq!(lists.sum::<u64>(), count.bytes);
            // No protocol is looked for.
            assert_eq!((total.sessions.sessions, total.sessions.with_payload), (0, 0));
        }
        captures += 1;
        fewer += u32::from(some.sessions.streams < all.sessions.streams);
    }
    println!("{captures} captures; {fewer} have TCP streams that were not reassembled");
    assert!(fewer > 0);
}

/// Segments of two connections that are open all the time, 100 bytes each: to port 80 and to port 25.
fn segments() -> PacketBuf {
    let mut packets = PacketBuf::default();
    for n in 0..100_u32 {
        for (port, begin) in [(80, u32::MAX - 3_000), (25, 7)] {
            let at = begin.wrapping_add(n * 100);
            let frame =
                build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(40_000, port, flags::ACK).seq(at);
            let frame = frame.ack(1).payload(&[b'x'; 100]);
            let time = Time(1_000_000_000 + u64::from(n) * 1_000_000);
            packets.push(&Packet { time, ..build::packet(&frame, LinkType::ETHERNET) });
        }
    }
    packets
}

#[test]
fn a_young_subscription_sees_open_flows_from_their_next_packet_on() {
    let one = |id: u32, spec: SubscriptionSpec| Subscription {
        id: SubscriptionId(id),
        owner: Owner::Page,
        spec: Arc::new(spec),
    };
    let bytes = [FunctionCall::new("bytes")];
    let web = || one(1, over_streams("tcp port 80", &bytes));
    let all = || one(2, over_streams("", &bytes));
    let log = || {
        let spec = SubscriptionSpec::handing_on("log", Level::Record, vec![FunctionCall::new("log")]);
        one(3, spec)
    };
    let packets = segments();
    let slots = &packets.slots;
    // The plans after each 40 packets, of which 20 are of each flow; alone, and beside a log that is there from the start or
    // comes later.
    let plans = [vec![], vec![web()], vec![all(), web()], vec![], vec![web()]];
    for with_log in [vec![], vec![0, 1, 2, 3, 4], vec![2, 3, 4]] {
        let plans = plans.iter().enumerate().map(|(at, subscriptions)| {
            let mut subscriptions = subscriptions.clone();
            if with_log.contains(&at) {
                subscriptions.insert(0, log());
            }
            Arc::new(Plan::of(None, at as u64 + 1, "", &subscriptions, settings()).unwrap())
        });
        let plans: Vec<Arc<Plan>> = plans.collect();
        let mut worker = Worker::new(Arc::clone(&plans[0]), &FlowConfig::default());
        let mut seen = Vec::new();
        for (plan, slots) in plans.iter().zip(slots.chunks(40)) {
            worker.change_plan(Arc::clone(plan), &mut ());
            worker.batch(weir_wire::Batch { bytes: &packets.bytes, slots }, &mut ());
            let snapshot = worker.hand_over(&mut ());
            // No early byte waits: a stream that was not read for a time begins anew.
            seen.push((count(&snapshot, "tcp port 80").bytes, count(&snapshot, "").bytes));
        }
        assert_eq!(seen, [(0, 0), (2_000, 0), (2_000, 4_000), (0, 0), (2_000, 0)], "{with_log:?}");
        let last = worker.finish(&mut ());
        assert_eq!(count(&last, "tcp port 80"), Count::default());
        // The flows began before the log, or are parsed.
        let sessions = worker.sessions().unwrap();
        let parsed = if with_log.first() == Some(&0) { 2 } else { 0 };
        assert_eq!(sessions.sessions, parsed, "{with_log:?}");
    }
}
