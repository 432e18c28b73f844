//! Open flows and their parts, against flows whose every packet is known.

use super::own_tests::{store, writer};
use super::writer::Writer;
use super::{schema, thin};
use crate::fixtures::flow;
use crate::suite::{DAY0, S, context, interval, limits, wanted};
use crate::tally::{Measure, Subject, TallyWanted};
use crate::{Store, TimeRange};
use proptest::prelude::*;
use rusqlite::Connection;
use std::path::Path;
use weir_engine::EndReason;
use weir_filter::FlowTest;
use weir_output::{Existing, FlowRecord, OpenFlow, OpenFlows, Output};
use weir_wire::Time;

const LENGTH: u64 = 30;
const INTERVALS: u64 = 12;

/// A flow that sends a packet in each of some seconds: a client's packet of that many bytes, and a server's of twice as many.
#[derive(Clone, Debug)]
struct Made {
    number: u64,
    packets: Vec<(u64, u64)>,
}

impl Made {
    fn first(&self) -> u64 {
        self.packets.first().unwrap().0
    }

    fn last(&self) -> u64 {
        self.packets.last().unwrap().0
    }

    fn bytes(&self, from: u64, to: u64) -> u64 {
        self.packets.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, bytes)| 3 * bytes).sum()
    }

    /// The flow before a second.
    fn so_far(&self, before: u64) -> FlowRecord {
        let mut so_far = flow();
        let sent: Vec<u64> =
            self.packets.iter().filter(|(at, _)| *at < before).map(|(_, bytes)| *bytes).collect();
        so_far.id = self.number;
        so_far.key.port[0] = 1000 + self.number as u16;
        so_far.first = Time(DAY0 + self.first() * S);
        so_far.last = Time(DAY0 + self.last().min(before - 1) * S);
        (so_far.forward.packets, so_far.reverse.packets) = (sent.len() as u64, sent.len() as u64);
        (so_far.forward.frame_bytes, so_far.reverse.frame_bytes) =
            (sent.iter().sum(), 2 * sent.iter().sum::<u64>());
        so_far.end = if self.last() < before { EndReason::Fin } else { EndReason::Open };
        so_far
    }
}

/// Writes some of the intervals, as a run does: rows of the flows that ended, then the open flows that moved, then the interval.
fn write(to: &mut Writer, flows: &[Made], at: u64) {
    let (from, until) = (at * LENGTH, (at + 1) * LENGTH);
    for ended in flows.iter().filter(|flow| (from..until).contains(&flow.last())) {
        to.named_flow(&ended.so_far(until), None).unwrap();
    }
    let open: Vec<OpenFlow> = flows
        .iter()
        .filter(|flow| flow.last() >= until && flow.bytes(from, until) > 0)
        .map(|flow| OpenFlow { flow: flow.so_far(until), name: None, from: DAY0 + from * S })
        .collect();
    to.open_flows(&OpenFlows { flows: &open, until: DAY0 + until * S, left_out: 0 }).unwrap();
    to.interval(&interval(DAY0 + from * S, LENGTH * S, 5, &[])).unwrap();
}

/// Compares the flows of every range of whole intervals among the first ones with what they sent there. Returns the ranges that
/// are exact. `part` is the length of parts.
fn compare(folder: &Path, flows: &[Made], intervals: u64, part: u64) -> usize {
    let store = store(folder);
    let mut exact = 0;
    for from in 0..intervals {
        for to in from + 1..=intervals {
            let (begin, end) = (from * LENGTH, to * LENGTH);
            let span = TimeRange { from: Some(DAY0 + begin * S), to: Some(DAY0 + end * S) };
            let found = store.flows(&crate::FlowsWanted { span, ..wanted("tcp") }).unwrap();
            let truth: u64 = flows.iter().map(|flow| flow.bytes(begin, end)).sum();
            let bound = found.basis.bound.unwrap();
            assert!(
                found.matched_bytes.abs_diff(truth) <= bound,
                "{from} to {to}: {} instead of {truth}, bound {bound}",
                found.matched_bytes
            );
            let cross = |flow: &&Made| flow.first() < end && flow.last() >= begin;
            let open = |flow: &&Made| flow.last() >= intervals * LENGTH;
            assert!(found.matched >= flows.iter().filter(cross).filter(|flow| !open(flow)).count() as u64);
            exact += usize::from(bound == 0);
            // Over time, the parts are those of the ranges, and one direction is a third of both.
            let steps = (to - from) as usize;
            let wanted = TallyWanted {
                subject: Subject::Flows,
                by: Vec::new(),
                measure: Measure::Bytes,
                test: FlowTest::All(Vec::new()),
                span,
                limit: 10,
                steps,
                grid: None,
                values: None,
            };
            let tally = store.tally(&wanted).unwrap();
            assert_eq!(tally.total.count.bytes, found.matched_bytes);
            assert!(tally.total.error.bytes >= bound);
            let third = tally.total.count.bytes / 3;
            assert!(tally.total.sent.abs_diff(third) <= 2 * flows.len() as u64);
            for (at, value) in tally.rows.iter().flat_map(|row| row.over.iter().enumerate()) {
                let begin = begin + at as u64 * LENGTH;
                let truth: u64 = flows.iter().map(|flow| flow.bytes(begin, begin + LENGTH)).sum();
                let off = flows.iter().map(unknown).sum::<u64>();
                if part > LENGTH {
                    continue;
                }
                assert!((*value as u64).abs_diff(truth) <= off, "{value} instead of {truth} of part {at}");
            }
        }
    }
    exact
}

/// What a flow sent in intervals for which it has no part.
fn unknown(flow: &Made) -> u64 {
    let sent = (0..INTERVALS).map(|at| flow.bytes(at * LENGTH, (at + 1) * LENGTH));
    sent.filter(|bytes| *bytes < super::open_flows::MIN_PART).sum()
}

fn any_flow(number: u64) -> impl Strategy<Value = Made> {
    let packets = prop::collection::btree_map(0..INTERVALS * LENGTH, 60..200_000_u64, 1..40);
    packets.prop_map(move |packets| Made { number, packets: packets.into_iter().collect() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// While flows are open, after a new partition, a crash and a pause, and when old parts are made longer, a range has what was
    /// sent in it, as far as it says.
    #[test]
    fn a_range_has_what_flows_sent_in_it(
        flows in (1..9_u64).prop_flat_map(|count| (1..=count).map(any_flow).collect::<Vec<_>>()),
        roll in 0..INTERVALS,
        until in 1..=INTERVALS,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut to = writer(folder.path());
        for at in 0..until {
            write(&mut to, &flows, at);
            if at == roll {
                to.begin_partition(DAY0 + (at + 1) * LENGTH * S);
            }
        }
        let known: Vec<Made> = flows
            .iter()
            .filter(|flow| flow.first() < until * LENGTH)
            .cloned()
            .map(|mut flow| {
                flow.packets.retain(|(at, _)| *at < until * LENGTH);
                flow
            })
            .collect();
        let open = |folder: &Path| {
            let found = store(folder).flows(&wanted("tcp")).unwrap();
            assert_eq!(found.matched, known.len() as u64);
            found.rows.iter().filter(|flow| flow.open).count()
        };
        compare(folder.path(), &known, until, LENGTH);
        let truth = flows.iter().filter(|flow| flow.first() < until * LENGTH && flow.last() >= until * LENGTH).count();
        prop_assert_eq!(open(folder.path()), truth);
        // The process is killed, and another one begins.
        drop(to);
        let mut to = writer(folder.path());
        to.interval(&interval(DAY0 + (until + 9) * LENGTH * S, LENGTH * S, 5, &[])).unwrap();
        let later = Made { number: 99, packets: vec![((until + 9) * LENGTH, 60)] };
        to.named_flow(&later.so_far((until + 10) * LENGTH), None).unwrap();
        to.finish().unwrap();
        let mut known = known.clone();
        known.push(later);
        compare(folder.path(), &known, until, LENGTH);
        let found = store(folder.path()).flows(&wanted("tcp")).unwrap();
        prop_assert_eq!((found.matched, found.rows.iter().filter(|flow| flow.open).count()), (known.len() as u64, 0));
        let sums = |folder: &Path| -> i64 {
            let sum = |path: &Path| -> i64 {
                let read = Connection::open(path).unwrap();
                read.query_row("SELECT ifnull(sum(fbytes + rbytes), 0) FROM parts", [], |row| row.get(0)).unwrap()
            };
            schema::partitions(folder).iter().map(|(_, path)| sum(path)).sum()
        };
        let before = sums(folder.path());
        while thin::thin_parts(folder.path(), None, DAY0 + 10 * 86_400 * S).unwrap() {}
        prop_assert_eq!(sums(folder.path()), before);
        compare(folder.path(), &known, until, 300);
    }
}

/// Flows of many bytes in each interval have no bound: every range is exact.
#[test]
fn ranges_over_long_transfers_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    let transfer = |number: u64, from: u64, to: u64| Made {
        number,
        packets: (from..to).map(|at| (at, 5_000 + 1_000 * (at * number % 7))).collect(),
    };
    let flows = [transfer(1, 3, 340), transfer(2, 65, 359), transfer(3, 0, 200)];
    for at in 0..INTERVALS {
        write(&mut to, &flows, at);
        assert_eq!(compare(folder.path(), &flows, at + 1, LENGTH), ((at + 1) * (at + 2) / 2) as usize);
    }
    to.finish().unwrap();
    let one = store(folder.path()).flows(&wanted("tcp and port 1001")).unwrap();
    assert_eq!((one.matched, one.matched_bytes), (1, flows[0].bytes(0, 400)));
}

/// With room for few open flows, those with the most bytes have rows, the others are counted, and nothing is wrong.
#[test]
fn open_flows_beyond_the_memory_are_stated() {
    let folder = tempfile::tempdir().unwrap();
    let context =
        weir_output::OutputContext { memory: 64 << 10, ..context(folder.path(), Existing::Continue) };
    let mut to = Writer::open(&context, limits()).unwrap();
    let flows: Vec<Made> = (1..=200)
        .map(|number| Made { number, packets: (0..120).map(|at| (at, number * 40)).collect() })
        .collect();
    for at in 0..3 {
        write(&mut to, &flows, at);
        let mut counted = interval(DAY0 + at * LENGTH * S, LENGTH * S, 5, &[]);
        counted.flows.created = if at == 0 { 200 } else { 0 };
        to.interval(&counted).unwrap();
    }
    to.flush().unwrap();
    let found = store(folder.path()).flows(&wanted("tcp")).unwrap();
    let said = found.partial.unwrap();
    let without: u64 = said.split(' ').next().unwrap().parse().unwrap();
    assert!(found.matched > 0 && without > 0 && found.matched + without == 200, "{}: {said}", found.matched);
    assert!(found.rows.iter().any(|flow| flow.source_port == 1200), "the heaviest is there");
    // All flows end: nothing is missing any more.
    write(&mut to, &flows, 3);
    let mut counted = interval(DAY0 + 3 * LENGTH * S, LENGTH * S, 5, &[]);
    counted.flows.ended = 200;
    to.interval(&counted).unwrap();
    to.finish().unwrap();
    let found = store(folder.path()).flows(&wanted("tcp")).unwrap();
    assert_eq!((found.matched, found.partial), (200, None));
    let all: u64 = flows.iter().map(|flow| flow.bytes(0, 999)).sum();
    assert_eq!(found.matched_bytes, all);
}

/// Open flows are written again in each interval, also while an answer is sent to a slow reader.
#[test]
fn flows_that_were_found_are_read_although_an_interval_ends_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    let flows: Vec<Made> = (1..=20)
        .map(|number| Made { number, packets: (0..200).map(|at| (at, number * 4000)).collect() })
        .collect();
    write(&mut to, &flows, 0);
    to.flush().unwrap();
    let (mut at, mut bytes) = (0, Vec::new());
    let found = store(folder.path()).pass_flows(&wanted("tcp"), &mut |flow| {
        at += 1;
        write(&mut to, &flows, at);
        to.flush().unwrap();
        bytes.push(flow.bytes.iter().sum::<u64>());
        at < 3
    });
    assert!(found.is_ok(), "{:?}", found.err());
    // All are of the time at which they were found.
    let known = |bytes: &u64| flows.iter().any(|flow| flow.bytes(0, LENGTH) == *bytes);
    assert!(bytes.len() == 3 && bytes.iter().all(known), "{bytes:?}");
}
