//! What is new in a range, who scanned in it, and events.

use super::{Engine, interval, wanted_of};
use crate::TimeRange;
use crate::findings;
use crate::fixtures;
use weir_api::{Event, EventState};
use weir_engine::{ConnState, FlowRecord};
use weir_filter::FlowTest;
use weir_wire::{Time, mapped};

const HOUR: u64 = 3_600_000_000_000;
const BEGIN: u64 = 1_795_305_600_000_000_000;

/// A flow of one packet in each direction, or without an answer.
fn flow(id: u64, at: u64, ends: ([u8; 4], [u8; 4]), port: u16, answered: bool) -> FlowRecord {
    let mut flow = fixtures::flow();
    flow.id = id;
    flow.key.addr = [mapped(ends.0), mapped(ends.1)];
    flow.key.port = [40_000, port];
    flow.initiator_is_lower = ends.0 < ends.1;
    if !flow.initiator_is_lower {
        flow.key.addr.reverse();
        flow.key.port.reverse();
    }
    (flow.first, flow.last) = (Time(at), Time(at + 1_000_000));
    flow.forward.payload_bytes = 0;
    flow.reverse.payload_bytes = 0;
    if !answered {
        flow.reverse.packets = 0;
        flow.reverse.frame_bytes = 0;
    }
    flow.state = if answered { ConnState::SF } else { ConnState::S0 };
    flow
}

pub fn new_services_are_those_that_answered(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 9]);
    for hour in 0..48 {
        let at = BEGIN + hour * HOUR;
        to.flow(&flow(hour + 1, at, (client, server), 443, true)).unwrap();
        to.interval(&interval(at, HOUR, 2, &[])).unwrap();
    }
    let late = BEGIN + 40 * HOUR;
    // Tried in vain, answered by an ephemeral port, and answered.
    to.flow(&flow(100, late, (client, server), 8080, false)).unwrap();
    to.flow(&flow(101, late, (client, server), 40_123, true)).unwrap();
    to.flow(&flow(102, late, (client, server), 8443, true)).unwrap();
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let news = store.news(TimeRange { from: Some(late), to: None }).unwrap();
    let services: Vec<&str> =
        news.rows.iter().filter(|row| row.kind == "service").map(|row| row.label.as_str()).collect();
    assert_eq!(services, ["tcp/8443"], "{news:?}");
    assert_eq!(news.against.to - news.against.from, 40.0 * 3600.0);
}

pub fn a_scan_is_found_in_the_range_in_which_it_was(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let (scanner, target) = ([10, 0, 0, 66], [10, 0, 0, 9]);
    for port in 1..=30_u16 {
        let at = BEGIN + u64::from(port) * 1_000_000_000;
        to.flow(&flow(port.into(), at, (scanner, target), port, false)).unwrap();
    }
    // A client of 30 ports that answer is none.
    for port in 1..=30_u16 {
        let at = BEGIN + u64::from(port) * 1_000_000_000;
        to.flow(&flow(1000 + u64::from(port), at, ([10, 0, 0, 5], target), port, true)).unwrap();
    }
    to.interval(&interval(BEGIN, HOUR, 2, &[])).unwrap();
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let all = FlowTest::All(Vec::new());
    let found = findings::of(&*store, &all, TimeRange::default(), &[], false).unwrap();
    assert_eq!(found.rows.len(), 1, "{found:?}");
    let row = &found.rows[0];
    assert_eq!((row.kind.as_str(), row.host.as_str()), ("scan", "10.0.0.66"));
    assert!(row.text.starts_with("10.0.0.66 -> 10.0.0.9  30 ports (1-30) in 29"), "{}", row.text);
    assert!(row.text.ends_with(", unanswered"), "{}", row.text);
    // Its expression finds its flows.
    let test = crate::query::Asking::default().test(&row.filter).unwrap();
    assert_eq!(store.flows(&wanted_of(test)).unwrap().matched, 30);
    // Fewer ports than make a scan.
    let part = TimeRange { from: Some(BEGIN), to: Some(BEGIN + 10_500_000_000) };
    assert!(findings::of(&*store, &all, part, &[], false).unwrap().rows.is_empty());
    let others = FlowTest::Not(Box::new(crate::query::Asking::default().test("host 10.0.0.66").unwrap()));
    assert!(findings::of(&*store, &others, TimeRange::default(), &[], false).unwrap().rows.is_empty());
}

/// A later state of an event replaces the earlier one, and an event is in each range that it has a part in.
pub fn an_event_is_kept_once_with_its_last_state(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let [mut scan, _] = fixtures::events().try_into().unwrap();
    (scan.begin, scan.last) = (BEGIN, BEGIN + HOUR);
    scan.identify();
    to.event(&scan).unwrap();
    to.interval(&interval(BEGIN, HOUR, 2, &[])).unwrap();
    to.event(&Event { state: EventState::End, last: BEGIN + 3 * HOUR, count: 99, ..scan.clone() }).unwrap();
    to.event(&fixtures::full_disk()).unwrap();
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let kept = store.events(TimeRange::default(), 10).unwrap().events;
    let [row] = kept.iter().filter(|event| event.kind == "port_scan").collect::<Vec<_>>()[..] else {
        panic!("{kept:?}")
    };
    assert_eq!((row.count, row.open, row.evidence["failed"]), (99, false, 41));
    assert_eq!(row.filter.as_deref(), Some("src host 10.99.0.102 and dst host 10.99.0.1 and tcp"));
    assert_eq!((row.host.as_deref(), row.severity.as_str()), (Some("10.99.0.102"), "warning"));
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    assert_eq!((row.begin, row.time), (seconds(BEGIN), seconds(BEGIN + 3 * HOUR)));
    let within = |from: u64, to: u64| {
        let span = TimeRange { from: Some(BEGIN + from), to: Some(BEGIN + to) };
        store.events(span, 10).unwrap().events.iter().any(|event| event.kind == "port_scan")
    };
    assert!(within(0, 1) && within(HOUR, 2 * HOUR) && within(2 * HOUR, 9 * HOUR));
    assert!(!within(4 * HOUR, 9 * HOUR));
}

/// A run that was killed leaves its events open: the next one ends them.
pub fn events_of_a_killed_run_have_ended(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let events = engine.store(folder.path()).events(TimeRange::default(), 10).unwrap().events;
        events.iter().filter(|event| event.open).count()
    };
    let mut to = engine.writer(folder.path());
    to.event(&fixtures::events()[0]).unwrap();
    to.interval(&interval(BEGIN, HOUR, 2, &[])).unwrap();
    to.flush().unwrap();
    assert_eq!(open(), 1);
    drop(to);
    drop(engine.writer(folder.path()));
    assert_eq!(open(), 0);
}
