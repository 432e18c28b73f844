//! The events of a run: this is the one owner of open events.
//!
//! Findings come with the merged snapshot of an interval: those of the judges of its readings ([`judges`]), and those about
//! the monitor itself. A finding opens an event, or is added to the open event of its kind, origin and subject. An event ends when nothing was found for [`EventKind::quiet`], with its cause, or with the run. All of it
//! happens after the anonymiser, where an interval is complete, so that events do not depend on the number of workers.
//!
//! At most 100 events about traffic begin in a minute: one event of kind [`MANY`] stands for the further ones ([`beginnings`]).
//!
//! In a live run an event begins as soon as its threshold is passed, in the midst of the interval that is judged: its finding follows at
//! the end of the interval, so that its numbers are those of a run over files.
//!
//! Outputs get a row when an event begins, when its count has doubled after at least five minutes, and when it ends. Of an event
//! that a mute hides only the store gets rows.

mod beginnings;
mod counted;
mod judges;
mod mutes;
mod signatures;

pub use counted::Counted;
pub use mutes::Mutes;
pub use signatures::NewSignatures;

use crate::asked::Findings;
use crate::failures::{Failures, event_of};
use beginnings::Beginnings;
use judges::Judges;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use weir_api::event::{LINK_DOWN, MANY, MAX_EVENTS};
use weir_api::{
    Event, EventCount, EventKind, EventState, Folded, FunctionCall, Interval, Origin, Snapshot, Subject,
};
use weir_capture::{LinkChange, LinkEvent};

/// Minimum time between two rows of an event that goes on, in nanoseconds.
const UPDATES: u64 = 300_000_000_000;
/// Copies of an event that exist at a time: open, in the snapshot of an interval, in the sum of the run.
const COPIES: usize = 3;

/// Kind, origin and subject of an event. Kinds are ordered as in [`weir_api::EVENT_KINDS`].
type Key = (usize, Option<Arc<Origin>>, Subject);

fn key(event: &Event) -> Key {
    (event.kind.place(), event.origin.clone(), event.subject.clone())
}

/// The open events.
pub struct Events {
    open: BTreeMap<Key, Open>,
    judges: Judges,
    mutes: Mutes,
    signatures: NewSignatures,
    beginnings: Beginnings,
    /// Findings about the monitor itself since the last interval. Those with time 0 were found at its end.
    findings: Vec<Event>,
    /// Failures of files that other threads write.
    failures: Failures,
    /// Findings of what is asked of the store.
    asked: Findings,
    /// Causes that have ended since the last interval, with the time.
    ended_causes: Vec<(Key, u64)>,
    /// Maximum bytes of open events.
    limit: usize,
    /// Bytes of open events at the end of the last interval.
    held: usize,
    /// Whether events begin before their interval has ended.
    is_live: bool,
    /// Counts of the events that have begun since the last interval.
    begun_early: EventCount,
}

/// An open event.
struct Open {
    event: Event,
    /// Its count and time in its last row.
    count: u64,
    time: u64,
    /// The mute that hid its last row.
    muted: Option<u64>,
    /// Whether outputs have a row that says that it began.
    is_shown: bool,
    /// Whether it has begun before its interval has ended, and was not found since.
    is_early: bool,
}

/// A row of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The event in its present state.
    pub event: Event,
    /// The mute that hides it.
    pub muted: Option<u64>,
    /// Whether outputs other than the store get the row.
    pub is_emitted: bool,
}

/// The rows of an interval, in order.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    count: EventCount,
}

impl Events {
    /// No open events. They get `memory` bytes; findings beyond it are counted. `length` is that of the run's intervals in
    /// nanoseconds.
    pub fn new(memory: usize, failures: Failures, length: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            judges: Judges::new(length),
            mutes: Mutes::default(),
            signatures: NewSignatures::default(),
            beginnings: Beginnings::default(),
            findings: Vec::new(),
            failures,
            asked: Findings::default(),
            ended_causes: Vec::new(),
            limit: memory / COPIES,
            held: 0,
            is_live: false,
            begun_early: EventCount::default(),
        }
    }

    /// Lets events begin before their interval has ended, from now on.
    pub fn begin_early(&mut self) {
        self.is_live = true;
    }

    /// Takes what a worker has counted of a tick so far. Returns the rows of the events that begin.
    pub fn ahead(&mut self, counted: &Counted) -> Vec<Row> {
        if !self.is_live {
            return Vec::new();
        }
        let open = &self.open;
        let found = self.judges.ahead(counted, &|event| open.contains_key(&key(event)));
        let mut rows = Rows::default();
        found.into_iter().for_each(|event| self.begin(event, &mut rows));
        self.begun_early.add(&rows.count);
        rows.rows
    }

    /// Judges the packets that the run lost from now on, by these calls of `event`, each for events of a subscription of this name.
    pub fn judge_drops<'c>(&mut self, calls: impl Iterator<Item = (&'c FunctionCall, &'c str)>) {
        self.judges.judge_drops(calls);
    }

    /// Hides the events that these mutes match, from now on.
    pub fn mute(&mut self, mutes: Mutes) {
        self.mutes = mutes;
    }

    /// Finds port signatures that these do not know, from now on.
    pub fn know_signatures(&mut self, signatures: NewSignatures) {
        self.signatures = signatures;
    }

    /// Takes these findings, which another thread may hand over, from now on.
    pub fn take_asked(&mut self, asked: Findings) {
        self.asked = asked;
    }

    /// Notes the new port signatures of an interval that is complete.
    pub fn find_signatures(&mut self, snapshot: &Snapshot) {
        self.signatures.find(snapshot).into_iter().for_each(|event| self.find(event));
    }

    /// What the latest whole interval of a subscription came to, if it is compared with a threshold.
    pub fn latest(&self, subscription: &str) -> Option<u64> {
        self.judges.latest(subscription)
    }

    /// Bytes of the open events.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Notes the change of a link at a time in nanoseconds since the epoch.
    pub fn link(&mut self, change: &LinkEvent, time: u64) {
        let subject = Subject::Interface(change.name.as_str().into());
        let down =
            |removed| Event::at(&LINK_DOWN, subject.clone(), time).with("removed", "", Folded::Sum(removed));
        match change.change {
            LinkChange::Down => self.find(down(0)),
            LinkChange::Removed => self.find(down(1)),
            LinkChange::Up | LinkChange::Back => self.ended_causes.push((key(&down(0)), time)),
        }
    }

    /// Notes that an output was not written. `kind` is its kind of failure.
    pub fn failed(&mut self, kind: &'static EventKind, error: &io::Error) {
        self.find(event_of(kind, error));
    }

    /// Keeps a finding until the interval ends.
    fn find(&mut self, event: Event) {
        // A link that flaps, or hundreds of files on a full disk: more findings than events make no difference.
        if self.findings.len() < MAX_EVENTS {
            self.findings.push(event);
        }
    }

    /// Takes the findings of an interval, adds those that no mute hides to its snapshot, and counts all of them there. Returns the
    /// rows for the outputs.
    pub fn interval(&mut self, snapshot: &mut Snapshot) -> Vec<Row> {
        let now = snapshot.interval.end;
        self.mutes.refresh();
        for mut event in std::mem::take(&mut self.findings).into_iter().chain(self.failures.take()) {
            if event.begin == 0 {
                (event.begin, event.last) = (now, now);
            }
            snapshot.add_events(&[event]);
        }
        let (asked, left_out) = self.asked.take();
        snapshot.add_events(&asked);
        let open = &self.open;
        let found = self.judges.judge(snapshot, &|event| open.contains_key(&key(event)));
        snapshot.add_events(&found);
        let mut rows = Rows::default();
        rows.count.shed = left_out;
        self.beginnings.enter(snapshot.interval);
        let mut found = std::mem::take(&mut snapshot.events);
        found.retain(|event| self.take(event, &mut rows).is_none());
        // What was not opened stays among the findings of the interval: the event that stands for it is not one of them.
        snapshot.events = found;
        self.take_others(&mut rows);
        rows.count.add(&std::mem::take(&mut self.begun_early));
        if self.is_live {
            let open = &self.open;
            let is_whole = |event: &Event| open.get(&key(event)).is_some_and(|open| !open.is_early);
            let found = self.judges.so_far(&is_whole);
            found.into_iter().for_each(|event| self.begin(event, &mut rows));
        }
        for (key, time) in std::mem::take(&mut self.ended_causes) {
            if let Some(mut open) = self.open.remove(&key) {
                open.event.last = open.event.last.max(time);
                rows.end(open, &self.mutes);
            }
        }
        if snapshot.interval != Interval::default() {
            self.end_quiet(now, &mut rows);
        }
        self.beginnings.leave(self.open.contains_key(&key(&Event::at(&MANY, Subject::Sensor, now))));
        let held = self.judges.held() + self.beginnings.held();
        self.held = self.open.values().map(|open| open.event.memory()).sum::<usize>() + held;
        snapshot.event_count.add(&rows.count);
        rows.rows
    }

    /// Ends all events with the run, whose sum is `total`. Returns the rows for the outputs.
    pub fn finish(&mut self, total: &mut Snapshot) -> Vec<Row> {
        let mut last = Snapshot { interval: total.interval, ..Snapshot::default() };
        let found = self.judges.finish();
        last.add_events(&found);
        let mut rows = Rows { rows: self.interval(&mut last), ..Rows::default() };
        for open in std::mem::take(&mut self.open).into_values() {
            rows.end(open, &self.mutes);
        }
        last.event_count.add(&rows.count);
        total.event_count.add(&last.event_count);
        total.add_events(&last.events);
        rows.rows
    }

    /// Opens an event, or adds a finding to the open one. Returns the mute that hides the finding.
    fn take(&mut self, event: &Event, rows: &mut Rows) -> Option<u64> {
        let key = key(event);
        let muted = self.mutes.of_event(event, event.last);
        if let Some(open) = self.open.get_mut(&key) {
            if !is_apart(&open.event, event) {
                if std::mem::take(&mut open.is_early) {
                    // It was counted when it began.
                    let Event { id, state, .. } = open.event;
                    open.event = Event { id, state, ..event.clone() };
                } else {
                    open.event.merge(event);
                    rows.count.merged += 1;
                }
                let is_due = open.event.last.saturating_sub(open.time) >= UPDATES
                    && open.event.count / 2 >= open.count;
                // A mute that was added or has ended is seen at once.
                if is_due || muted != open.muted {
                    rows.go_on(open, muted);
                }
                return muted;
            }
            if let Some(open) = self.open.remove(&key) {
                rows.end(open, &self.mutes);
            }
        }
        if !self.has_room(event) {
            rows.count.shed = rows.count.shed.saturating_add(event.count);
            return muted;
        }
        // What a mute hides crowds nothing out.
        if muted.is_none() {
            if self.beginnings.holds(event) {
                self.beginnings.hold(event);
                return None;
            }
            self.beginnings.begun(event);
        }
        self.open(event.clone(), muted, false, rows);
        muted
    }

    /// Opens an event before its interval has ended, if it can be opened: its finding follows. One that is open goes on until then.
    fn begin(&mut self, event: Event, rows: &mut Rows) {
        if let Some(open) = self.open.get_mut(&key(&event)) {
            open.event.last = open.event.last.max(event.last);
            return;
        }
        let muted = self.mutes.of_event(&event, event.last);
        if !self.has_room(&event) || muted.is_none() && self.beginnings.holds(&event) {
            return;
        }
        if muted.is_none() {
            self.beginnings.begun(&event);
        }
        self.open(event, muted, true, rows);
    }

    fn has_room(&self, event: &Event) -> bool {
        self.open.len() < MAX_EVENTS && self.held + event.memory() <= self.limit
    }

    /// Opens an event.
    fn open(&mut self, event: Event, muted: Option<u64>, is_early: bool, rows: &mut Rows) {
        let mut event = Event { state: EventState::Begin, ..event };
        event.identify();
        rows.count.begun += 1;
        rows.count.muted += u64::from(muted.is_some());
        let is_shown = muted.is_none();
        rows.rows.push(Row { event: event.clone(), muted, is_emitted: is_shown });
        self.held += event.memory();
        let (count, time) = (event.count, event.last);
        self.open.insert(key(&event), Open { count, time, event, muted, is_shown, is_early });
    }

    /// Adds the findings whose events were not opened in this interval to the event that stands for them.
    fn take_others(&mut self, rows: &mut Rows) {
        let Some((many, findings)) = self.beginnings.others() else { return };
        let shed = rows.count.shed;
        self.take(&many, rows);
        if rows.count.shed == shed {
            // One of them has begun it, or was counted.
            rows.count.merged += findings - 1;
        }
    }

    /// Ends the events in which nothing was found for their time. After a leap of the clock that is all of them.
    fn end_quiet(&mut self, now: u64, rows: &mut Rows) {
        let is_over = |event: &Event| event.quiet().is_some_and(|quiet| now.abs_diff(event.last) > quiet);
        for (_, open) in self.open.extract_if(.., |_, open| is_over(&open.event)) {
            rows.end(open, &self.mutes);
        }
    }
}

impl Rows {
    /// Adds a row of an event that goes on. It is the first one for the outputs if a mute has hidden it until now.
    fn go_on(&mut self, open: &mut Open, muted: Option<u64>) {
        (open.count, open.time, open.muted) = (open.event.count, open.event.last, muted);
        let state = if open.is_shown || muted.is_some() { EventState::Update } else { EventState::Begin };
        open.is_shown |= muted.is_none();
        let event = Event { state, ..open.event.clone() };
        self.rows.push(Row { event, muted, is_emitted: muted.is_none() });
    }

    /// Adds the last row of an event. Outputs that have its begin get its end, whatever hides it since.
    fn end(&mut self, open: Open, mutes: &Mutes) {
        self.count.ended += 1;
        let muted = mutes.of_event(&open.event, open.event.last);
        // What was hidden to its last finding stays hidden when its mute has been removed since.
        let muted = if open.is_shown { muted } else { muted.or(open.muted) };
        let event = Event { state: EventState::End, ..open.event };
        self.rows.push(Row { event, muted, is_emitted: open.is_shown });
    }
}

/// Whether the time between two parts is so long that they are two events.
fn is_apart(one: &Event, other: &Event) -> bool {
    let silence = other.begin.saturating_sub(one.last).max(one.begin.saturating_sub(other.last));
    one.quiet().is_some_and(|quiet| silence > quiet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database;
    use std::net::IpAddr;
    use weir_api::event::{CLOCK_LEAP, OUTPUT_FAILED, PORT_SCAN};
    use weir_api::{Mute, MuteScope};
    use weir_wire::Time;

    const SECOND: u64 = 1_000_000_000;

    fn pair(n: u32) -> Subject {
        Subject::Pair { source: IpAddr::from(n.to_be_bytes()), target: IpAddr::from([10, 0, 0, 1]) }
    }

    fn interval(second: u64, events: Vec<Event>) -> Snapshot {
        let start = second * SECOND;
        Snapshot { interval: Interval { start, end: start + SECOND }, events, ..Snapshot::default() }
    }

    fn scan(n: u32, second: u64, count: u64) -> Event {
        let event =
            Event::at(&PORT_SCAN, pair(n), second * SECOND).with("flows", "flows", Folded::Sum(count));
        Event { count, ..event }
    }

    fn words(rows: &[Row]) -> Vec<(&'static str, u64)> {
        rows.iter().map(|row| (row.event.state.name(), row.event.count)).collect()
    }

    #[test]
    fn an_event_begins_is_updated_when_its_count_has_doubled_and_ends_after_silence() {
        let mut events = Events::new(1 << 20, Failures::default(), 30 * SECOND);
        let begun = events.interval(&mut interval(1_000, vec![scan(1, 1_000, 20)]));
        assert_eq!(words(&begun), [("begin", 20)]);
        assert_ne!(begun[0].event.id, 0);
        let mut rows = Vec::new();
        let mut sum = EventCount::default();
        for second in 1_001..1_601 {
            let mut snapshot = interval(second, vec![scan(1, second, 1)]);
            rows.extend(events.interval(&mut snapshot));
            sum.add(&snapshot.event_count);
        }
        // After 300 s it has 320 findings, after 600 s only 620.
        assert_eq!(words(&rows), [("update", 320)]);
        assert_eq!(sum, EventCount { merged: 600, ..EventCount::default() });
        assert!(events.interval(&mut interval(1_899, Vec::new())).is_empty());
        let mut last = interval(1_900, Vec::new());
        let ended = events.interval(&mut last);
        assert_eq!(words(&ended), [("end", 620)]);
        assert_eq!(
            (ended[0].event.id, ended[0].event.begin, ended[0].event.last),
            (begun[0].event.id, 1_000 * SECOND, 1_600 * SECOND)
        );
        assert_eq!((ended[0].event.number("flows"), last.event_count.ended), (Some(620), 1));
        // It scans again: another event.
        let again = events.interval(&mut interval(2_000, vec![scan(1, 2_000, 9)]));
        assert_eq!(words(&again), [("begin", 9)]);
        assert_ne!(again[0].event.id, begun[0].event.id);
    }

    #[test]
    fn a_long_silence_or_a_clock_set_back_makes_two_events() {
        for second in [5_000, 500] {
            let mut events = Events::new(1 << 20, Failures::default(), 30 * SECOND);
            events.interval(&mut interval(1_000, vec![scan(1, 1_000, 20)]));
            let rows = events.interval(&mut interval(second, vec![scan(1, second, 30)]));
            assert_eq!(words(&rows), [("end", 20), ("begin", 30)]);
        }
    }

    #[test]
    fn a_link_is_down_until_it_is_up() {
        let mut events = Events::new(1 << 20, Failures::default(), 30 * SECOND);
        let change = |change, second: u64| LinkEvent {
            interface: 0,
            name: "eth0".to_owned(),
            change,
            at: Time(second * SECOND),
        };
        events.link(&change(LinkChange::Down, 10), 10 * SECOND);
        let rows = events.interval(&mut interval(10, Vec::new()));
        assert_eq!(
            (words(&rows), rows[0].event.subject.to_string()),
            (vec![("begin", 1)], "eth0".to_owned())
        );
        assert!(events.interval(&mut interval(90_000, Vec::new())).is_empty());
        events.link(&change(LinkChange::Up, 90_000), 90_000 * SECOND);
        let rows = events.interval(&mut interval(90_000, Vec::new()));
        assert_eq!((words(&rows), rows[0].event.last), (vec![("end", 1)], 90_000 * SECOND));
        // Down and up again between two intervals.
        for (at, step) in [LinkChange::Down, LinkChange::Up].into_iter().enumerate() {
            events.link(&change(step, 90_001 + at as u64), (90_001 + at as u64) * SECOND);
        }
        let rows = events.interval(&mut interval(90_003, Vec::new()));
        assert_eq!(words(&rows), [("begin", 1), ("end", 1)]);
    }

    #[test]
    fn failures_have_the_name_of_the_file_and_a_full_disk_is_told_apart() {
        let mut events = Events::new(1 << 20, Failures::default(), 30 * SECOND);
        let error = |kind| io::Error::new(kind, "/home/jane/logs/conn.log: why");
        events.failed(&OUTPUT_FAILED, &error(io::ErrorKind::StorageFull));
        events.failed(&OUTPUT_FAILED, &error(io::ErrorKind::PermissionDenied));
        let mut snapshot = interval(7, Vec::new());
        let rows = events.interval(&mut snapshot);
        let found: Vec<(&str, String)> =
            rows.iter().map(|row| (row.event.kind.name, row.event.subject.to_string())).collect();
        assert_eq!(found, [("disk_full", "conn.log".to_owned()), ("output_failed", "conn.log".to_owned())]);
        assert!(rows.iter().all(|row| row.event.begin == 8 * SECOND));
        assert_eq!(snapshot.events.len(), 2);
    }

    #[test]
    fn open_events_are_bounded_and_each_finding_is_counted() {
        let mut events = Events::new(64 << 20, Failures::default(), 30 * SECOND);
        let mut sum = EventCount::default();
        for part in 0..3 {
            let down = |n: u32| {
                let subject = Subject::Interface(format!("eth{}", part * 1_000 + n).into());
                Event { count: 2, ..Event::at(&LINK_DOWN, subject, 10 * SECOND) }
            };
            let mut found: Vec<Event> = (0..1_000).map(down).collect();
            found.sort_by(Event::key_cmp);
            let mut snapshot = interval(10, found);
            events.interval(&mut snapshot);
            sum.add(&snapshot.event_count);
        }
        assert_eq!((sum.begun, sum.shed), (MAX_EVENTS as u64, 2 * (3_000 - MAX_EVENTS as u64)));
        let mut total = interval(10, Vec::new());
        assert_eq!(events.finish(&mut total).len(), MAX_EVENTS);
        assert_eq!(total.event_count.ended, sum.begun);
        // Little memory.
        let mut events = Events::new(3_000, Failures::default(), 30 * SECOND);
        let mut snapshot = interval(10, (0..100).map(|n| scan(n, 10, 1)).collect());
        let rows = events.interval(&mut snapshot).len() as u64;
        assert!((1..10).contains(&rows), "{rows}");
        assert_eq!(snapshot.event_count.shed, 100 - rows);
    }

    #[test]
    fn above_a_hundred_a_minute_one_event_stands_for_the_further_ones() {
        let mut events = Events::new(64 << 20, Failures::default(), 30 * SECOND);
        let scans = |second, count| (0..150).map(|n| scan(n, second, count)).collect::<Vec<_>>();
        let mut first = interval(1_200, scans(1_200, 20));
        let rows = events.interval(&mut first);
        assert_eq!(rows.len(), 101);
        assert!(rows.iter().all(|row| row.event.state == EventState::Begin && row.is_emitted));
        let many = &rows[100].event;
        assert_eq!((many.kind, many.count, many.number("events")), (&MANY, 50 * 20, Some(50)));
        // All stay among the findings of the interval, and each is counted.
        assert_eq!((first.events.len(), first.event_count.begun, first.event_count.merged), (150, 101, 49));
        let mut again = interval(1_201, scans(1_201, 1));
        assert_eq!(words(&events.interval(&mut again)), []);
        assert_eq!(again.event_count, EventCount { merged: 150, ..EventCount::default() });
        // Links, failures and triggers wait for no other minute.
        events.failed(&OUTPUT_FAILED, &io::Error::other("x.csv: gone"));
        let origin = |subscription: &str| {
            let subscription = subscription.into();
            Some(Arc::new(Origin { subscription, name: None, severity: None, quiet: None }))
        };
        let of = |subscription, n| Event { origin: origin(subscription), ..scan(n, 1_202, 7) };
        let rows = events.interval(&mut interval(1_202, vec![of("mine", 1), of("trigger mine", 1)]));
        let begun: Vec<_> = rows.iter().map(|row| (row.event.name(), row.event.count)).collect();
        assert_eq!(begun, [("output_failed", 1), ("port_scan", 7)]);
        // The next minute has room.
        let rows = events.interval(&mut interval(1_260, scans(1_260, 3).split_off(100)));
        assert_eq!(words(&rows), [("begin", 3); 50]);
        // It ends when no further one was held for its time.
        let rows = events.interval(&mut interval(1_502, Vec::new()));
        let ended: Vec<_> = rows.iter().filter(|row| row.event.kind == &MANY).collect();
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].event.count, ended[0].event.number("events")), (1_000 + 50 + 7, Some(51)));
        assert_eq!(ended[0].event.last, 1_202 * SECOND);
    }

    /// An interval of many minutes has a hundred events of each, and events that a mute hides crowd nothing out.
    #[test]
    fn each_minute_of_an_interval_has_its_events() {
        let mut events = Events::new(64 << 20, Failures::default(), 600 * SECOND);
        let found = (0..360).map(|n| scan(n, 1_200 + u64::from(n / 120) * 60, 20)).collect();
        let whole = Interval { start: 1_200 * SECOND, end: 1_380 * SECOND };
        let mut snapshot = Snapshot { interval: whole, events: found, ..Snapshot::default() };
        assert_eq!(events.interval(&mut snapshot).len(), 301);
        assert_eq!(events.beginnings.held(), 16 * 60, "the last minute has ended");
        let kept = tempfile::tempdir().unwrap();
        (0..120).for_each(|n| _ = muted(&kept, n, None));
        let mut events = Events::new(64 << 20, Failures::default(), SECOND);
        events.mute(Mutes::of(database::marks(kept.path()), true));
        let rows = events.interval(&mut interval(1_200, (0..210).map(|n| scan(n, 1_200, 20)).collect()));
        assert_eq!(rows.len(), 210);
        assert_eq!(rows.iter().filter(|row| row.is_emitted).count(), 90);
    }

    #[test]
    fn findings_at_the_end_of_a_run_are_events() {
        let mut events = Events::new(1 << 20, Failures::default(), 30 * SECOND);
        let mut total = interval(10, vec![Event::at(&CLOCK_LEAP, Subject::Sensor, 1)]);
        events.failed(&OUTPUT_FAILED, &io::Error::other("x.csv: gone"));
        let rows = events.finish(&mut total);
        assert_eq!(words(&rows), [("begin", 1), ("end", 1)]);
        assert_eq!((total.events.len(), total.event_count.begun, total.event_count.ended), (2, 1, 1));
    }

    /// An interval in which packets were lost.
    fn lost(second: u64, dropped: u64) -> Snapshot {
        let mut snapshot = interval(second, Vec::new());
        snapshot.ledger.capture.dropped = dropped;
        snapshot
    }

    /// An event that begins before its interval has ended has the numbers of one that begins with it, and is counted once.
    #[test]
    fn an_event_that_begins_early_is_found_again_with_its_interval() {
        let call = FunctionCall::new("event").with("name", "x").with("above", 10).with("over", 10);
        let call = weir_engine::judging_drops(&call).unwrap();
        let run = |is_live: bool| {
            let mut events = Events::new(1 << 20, Failures::default(), SECOND);
            events.judge_drops([(&call, "trigger x")].into_iter());
            if is_live {
                events.begin_early();
            }
            let mut rows = events.interval(&mut lost(1_000, 4));
            let mut sum = EventCount::default();
            for (end, dropped) in [(300, 3), (600, 7), (800, 9)] {
                let start = 1_001 * SECOND;
                let watched = Interval { start, end: start + end * 1_000_000 };
                let ledger = lost(1_001, dropped).ledger;
                let counted =
                    Counted { worker: 0, watched, outline: Arc::default(), counts: Vec::new(), ledger };
                rows.extend(events.ahead(&counted));
            }
            for second in 1_001..1_010 {
                let mut snapshot = lost(second, 9);
                rows.extend(events.interval(&mut snapshot));
                sum.add(&snapshot.event_count);
            }
            let mut total = lost(1_000, 0);
            rows.extend(events.finish(&mut total));
            sum.add(&total.event_count);
            (rows, sum)
        };
        let ((early, of_early), (late, of_late)) = (run(true), run(false));
        let shown = |rows: &[Row]| -> Vec<(&'static str, Option<u64>)> {
            rows.iter().map(|row| (row.event.state.name(), row.event.number("most"))).collect()
        };
        assert_eq!(shown(&early), [("begin", Some(11)), ("end", Some(85))]);
        assert_eq!(shown(&late), [("begin", Some(85)), ("end", Some(85))]);
        assert_eq!((early[1].event.clone(), of_early), (late[1].event.clone(), of_late));
        assert_eq!((of_late.begun, of_late.merged, of_late.ended), (1, 0, 1));
    }

    /// An interval that is longer than the time after which its event would end has one event.
    #[test]
    fn an_event_that_begins_early_goes_on_until_its_interval_has_ended() {
        let call = FunctionCall::new("event").with("name", "x").with("above", 10).with("over", 60);
        let call = weir_engine::judging_drops(&call.with("quiet", 1)).unwrap();
        let mut events = Events::new(1 << 20, Failures::default(), SECOND);
        events.judge_drops([(&call, "trigger x")].into_iter());
        events.begin_early();
        let mut rows = Vec::new();
        for second in 1_020..1_085 {
            let dropped = if second == 1_022 { 11 } else { 0 };
            rows.extend(events.interval(&mut lost(second, dropped)));
        }
        assert_eq!(words(&rows), [("begin", 1), ("end", 1)]);
        assert_eq!(rows[1].event.last, 1_080 * SECOND - 1);
    }

    /// Mutes of a pair by its first number, until a second if there is one.
    fn muted(kept: &tempfile::TempDir, n: u32, until: Option<u64>) -> u64 {
        let source = IpAddr::from(n.to_be_bytes()).to_string();
        let scope = MuteScope { source: Some(source), ..MuteScope::default() }.read().unwrap();
        let until = until.map(|second| second * SECOND);
        let (reason, who) = (String::new(), String::new());
        let mute = Mute { number: 0, scope, until, reason, who, made: 0 };
        database::marks(kept.path()).mute(&mute).unwrap().unwrap()
    }

    fn shown(rows: &[Row]) -> Vec<(&'static str, Option<u64>, bool)> {
        rows.iter().map(|row| (row.event.state.name(), row.muted, row.is_emitted)).collect()
    }

    #[test]
    fn a_mute_hides_events_from_its_interval_on_until_it_ends() {
        let kept = tempfile::tempdir().unwrap();
        let mut events = Events::new(1 << 20, Failures::default(), SECOND);
        events.mute(Mutes::of(database::marks(kept.path()), true));
        let first = events.interval(&mut interval(1_000, vec![scan(1, 1_000, 20)]));
        assert_eq!(shown(&first), [("begin", None, true)]);
        let one = muted(&kept, 1, Some(1_010));
        let two = muted(&kept, 2, None);
        let mut snapshot = interval(1_001, vec![scan(1, 1_001, 1), scan(2, 1_001, 20), scan(3, 1_001, 20)]);
        let rows = events.interval(&mut snapshot);
        // The outputs know of the first event, and get its end.
        let expected = [("update", Some(one), false), ("begin", Some(two), false), ("begin", None, true)];
        assert_eq!(shown(&rows), expected);
        assert_eq!(
            (snapshot.events.len(), snapshot.event_count.begun, snapshot.event_count.muted),
            (1, 2, 1)
        );
        assert_eq!(shown(&events.interval(&mut interval(1_002, vec![scan(1, 1_002, 1)]))), []);
        // The mute has ended.
        let rows = events.interval(&mut interval(1_010, vec![scan(1, 1_010, 1)]));
        assert_eq!(shown(&rows), [("update", None, true)]);
        // The other mute is removed.
        database::marks(kept.path()).unmute(two).unwrap();
        let rows = events.interval(&mut interval(1_011, vec![scan(2, 1_011, 1)]));
        assert_eq!(shown(&rows), [("begin", None, true)]);
        muted(&kept, 1, None);
        let mut total = interval(1_012, Vec::new());
        let ended = events.finish(&mut total);
        assert_eq!(shown(&ended)[0], ("end", Some(3), true));
        assert_eq!((total.event_count.ended, total.event_count.muted), (3, 0));
    }

    #[test]
    fn a_run_over_files_reads_its_mutes_once() {
        let kept = tempfile::tempdir().unwrap();
        let one = muted(&kept, 1, None);
        let mut events = Events::new(1 << 20, Failures::default(), SECOND);
        events.mute(Mutes::of(database::marks(kept.path()), false));
        muted(&kept, 2, None);
        let mut snapshot = interval(1_000, vec![scan(1, 1_000, 20), scan(2, 1_000, 20)]);
        let rows = events.interval(&mut snapshot);
        assert_eq!(shown(&rows), [("begin", Some(one), false), ("begin", None, true)]);
        let ended = events.finish(&mut interval(1_000, Vec::new()));
        assert_eq!(shown(&ended), [("end", Some(one), false), ("end", None, true)]);
    }
}
