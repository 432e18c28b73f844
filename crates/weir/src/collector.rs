//! The collector: merges the workers' snapshots, and puts their rows in order for the outputs.
//!
//! A worker communicates with the rest of the program only through its [`WorkerOutput`]. A run over files waits for
//! room in a full queue. A live run sheds rows instead, and counts them.

mod open_flows;
mod open_output;
mod queued;
mod targets;

pub use open_flows::OpenFlows;
pub use open_output::OpenOutput;
pub use targets::Plan as TargetPlan;

use crate::drive::{Boundary, Destination, WhenFull};
use crate::events::Events;
use crate::failures::Failures;
use crate::hub::Hub;
use crate::memory::{self, Charge, Room};
use crate::outlet::{LEVELS, OutletId, Ways};
use crate::resolved::{Resolved, Shown};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use queued::{Records, Rows, in_order, record_at};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use targets::{Failed, Targets};
use weir_anon::Anonymiser;
use weir_api::{AnswerId, Event, EventKind, Interval, SessionCount, Snapshot};
use weir_capture::LinkEvent;
use weir_engine::{Emitted, FlowIdentity, FlowRecord, Sink, To};
use weir_output::{Log, OpenFlow, Output};
use weir_proto::{FILES, Record};
use weir_wire::{Batch, Time};

/// Maximum number of rows in a message.
const ROWS: usize = 256;
/// Maximum bytes of records in a message, not counting the last record.
const MAX_PACKED: usize = 256 << 10;
/// Maximum number of messages in a queue. A [`Room`] limits their bytes.
const QUEUE: usize = 64;
/// Maximum number of ticks that wait in a live worker for room in the queue. Further ones are added to the last of them.
const MAX_BACKLOG: usize = 4;

/// A part of a run, in the order in which each worker ends them.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Part {
    /// Number of the interval with packets, from 0. All workers have all of these, in one order; an interval to which packets
    /// return has another number.
    stretch: u64,
    /// For an interval in the silence behind that one its start, plus 1; 0 for the interval itself. A worker has only those in which
    /// something was due for it.
    silence: u64,
}

impl Part {
    /// The first part that can follow.
    fn next(self) -> Part {
        Part { silence: self.silence + 1, ..self }
    }
}

/// A message from a worker to the collector.
pub enum Message {
    /// Flows that ended in the given part.
    Rows(Part, Rows, Charge),
    /// Records of the given part.
    Records(Part, Records, Charge),
    /// The flows that are open at the end of the given part.
    Open(Part, Box<OpenFlows>, Charge),
    /// The part has ended for this worker, and so have those before it.
    Snapshot(Part, Box<Snapshot>, Held),
    /// Packets of an interval whose snapshot this worker has sent already.
    Late(Box<Snapshot>, Charge),
    /// An interface has changed its state.
    Link(LinkEvent),
    /// The worker has finished.
    Done,
}

/// Memory that a worker holds at the end of its interval.
pub struct Held {
    /// Charge for the snapshot, out of the room for messages.
    charge: Charge,
    /// Index of the worker.
    worker: usize,
    /// Bytes of its sessions.
    sessions: usize,
}

const DAY: u64 = 24 * 3_600_000_000_000;

/// Maximum number of open reports in a run over files: packets around the end of an interval may be out of order, and
/// merged captures may alternate between two intervals.
const OPEN_REPORTS: usize = 2;

/// A queue from the workers to the collector.
pub fn queue() -> (Sender<Message>, Receiver<Message>) {
    crossbeam_channel::bounded(QUEUE)
}

/// The contents of a worker's output besides snapshots.
#[derive(Clone)]
pub struct Load {
    /// Room for messages on their way to the collector, shared by all workers.
    pub room: Arc<Room>,
    /// Whether an output reads flow rows.
    pub rows: bool,
    /// Where an output reads open flows, the length of the intervals at whose ends they are handed over, in nanoseconds.
    pub open_every: Option<u64>,
    /// The ways by which packets and files leave.
    pub ways: Ways,
}

/// Sends one worker's results to the collector.
pub struct WorkerOutput {
    to: Sender<Message>,
    when_full: WhenFull,
    load: Load,
    worker: usize,
    /// The part under way.
    part: Part,
    rows: Rows,
    records: Records,
    /// The open flows that are being collected.
    open: Option<Box<OpenFlows>>,
    /// Time of the earliest packet since open flows were handed over, in nanoseconds since the epoch.
    moved_since: Option<u64>,
    /// Rows, including records, that were shed since the last snapshot.
    rows_shed: u64,
    kept: u64,
    /// Messages of a live worker that found no room, oldest first.
    backlog: VecDeque<Message>,
    /// Counts of a writer of files that ended since the last snapshot.
    files_ended: SessionCount,
}

impl WorkerOutput {
    /// The output of one worker.
    pub fn new(worker: usize, to: Sender<Message>, when_full: WhenFull, mut load: Load) -> Self {
        load.ways.set_worker(worker);
        Self {
            to,
            when_full,
            load,
            worker,
            part: Part::default(),
            rows: Rows::default(),
            records: Records::default(),
            open: None,
            moved_since: None,
            rows_shed: 0,
            kept: 0,
            backlog: VecDeque::new(),
            files_ended: SessionCount::default(),
        }
    }

    /// Changes whether an output reads flow rows.
    pub fn send_rows_if(&mut self, has_readers: bool) {
        self.load.rows = has_readers;
    }

    /// Packets and files leave by these ways from now on.
    pub fn leave_by(&mut self, ways: &Ways) {
        let ended = self.load.ways.follow(ways, self.worker);
        self.files_ended.add(&ended);
    }

    /// All packets of a live run up to a time were taken, as far as they are the worker's.
    pub fn reach(&self, time: Time) {
        self.load.ways.outlets.iter().for_each(|outlet| outlet.reach(self.worker, time));
        self.load.ways.targets.iter().for_each(|outlet| outlet.reach(self.worker, time));
    }

    /// Sends the snapshot of packets of an interval that was sent already.
    pub fn send_late(&mut self, snapshot: Snapshot) {
        self.see_packets(&snapshot);
        let charge = self.load.room.take(snapshot.memory());
        self.send_later(Message::Late(Box::new(snapshot), charge));
    }

    /// Sends a message, and waits while the queue is full.
    fn send(&mut self, message: Message) {
        // The collector outlives the workers, unless the run has ended.
        let _ = self.to.send(message);
    }

    /// Sends a message without waiting: if the queue is full, it is sent before the next one.
    pub fn send_later(&mut self, message: Message) {
        self.backlog.push_back(message);
        self.send_backlog();
    }

    fn send_backlog(&mut self) {
        while let Some(message) = self.backlog.pop_front() {
            if let Err(TrySendError::Full(message)) = self.to.try_send(message) {
                self.backlog.push_front(message);
                return;
            }
        }
    }

    /// Passes packets to an outlet, if it is open.
    fn leave(&mut self, id: OutletId, packets: Batch<'_>) {
        if let Some(outlet) = self.load.ways.outlets.iter_mut().find(|outlet| outlet.spec.id == id) {
            outlet.take(self.worker, packets, self.when_full);
        }
    }

    fn send_records(&mut self) {
        let records = std::mem::take(&mut self.records);
        let (number, part) = (records.len(), self.part);
        if number == 0 {
            return;
        }
        let has_logs = !self.load.ways.logs.is_empty();
        let functions: Vec<_> = records.functions().filter(|_| has_logs).collect();
        if !self.attempt(records.memory(), |charge| Message::Records(part, records, charge)) {
            self.shed(number, &functions);
        }
    }

    fn send_rows(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let (number, part) = (rows.len(), self.part);
        if number == 0 {
            return;
        }
        let has_logs = !self.load.ways.logs.is_empty();
        let functions: Vec<_> = rows.functions().filter(|_| has_logs).collect();
        if !self.attempt(rows.memory(), |charge| Message::Rows(part, rows, charge)) {
            self.shed(number, &functions);
        }
    }

    /// Notes the time of the earliest packet.
    fn see_packets(&mut self, snapshot: &Snapshot) {
        let first = snapshot.packets.map(|packets| packets.start);
        self.moved_since = self.moved_since.into_iter().chain(first).min();
    }

    /// Sends the open flows. Without room the next interval's are those since the same time.
    fn send_open(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        open.shorten();
        let (bytes, part) = (open.memory(), self.part);
        if self.attempt(bytes, |charge| Message::Open(part, open, charge)) {
            self.moved_since = None;
        }
    }

    /// Counts rows as shed, and those of them that functions deliver for their logs.
    fn shed(&mut self, rows: usize, functions: &[Box<[AnswerId]>]) {
        self.rows_shed += rows as u64;
        functions.iter().for_each(|functions| self.load.ways.count_row(functions, |log| log.shed(1)));
    }

    /// Sends a message of `bytes` bytes if there is room for it, for which a run over files waits. Returns whether it was sent.
    fn attempt(&mut self, bytes: usize, message: impl FnOnce(Charge) -> Message) -> bool {
        let room = &self.load.room;
        match self.when_full {
            WhenFull::Wait => {
                let message = message(room.wait(bytes));
                self.send(message);
                true
            }
            // Rows do not overtake the snapshots of earlier intervals.
            WhenFull::Shed => {
                self.backlog.is_empty()
                    && room.attempt(bytes).is_some_and(|charge| {
                        !matches!(self.to.try_send(message(charge)), Err(TrySendError::Full(_)))
                    })
            }
        }
    }
}

impl Destination for WorkerOutput {
    fn sink(&mut self) -> &mut dyn Sink {
        self
    }

    fn silence(&mut self, start: u64) {
        // The interval that the silence follows has ended.
        let stretch =
            if self.part.silence == 0 { self.part.stretch.saturating_sub(1) } else { self.part.stretch };
        self.part = Part { stretch, silence: start.saturating_add(1) };
    }

    fn asks_open(&mut self, snapshot: &Snapshot) -> Option<Time> {
        self.see_packets(snapshot);
        let (since, until) = (self.moved_since?, snapshot.interval.end);
        let every = self.load.open_every.filter(|every| until.is_multiple_of(*every))?;
        let max = OpenFlows::fitting(self.load.room.limit() / 4);
        self.open = Some(Box::new(OpenFlows::new(since / every * every, until, max)));
        Some(Time(since))
    }

    /// A snapshot is never shed, because its counters are needed for correct sums.
    fn interval(&mut self, mut snapshot: Snapshot, sessions: usize) {
        self.send_rows();
        self.send_records();
        self.send_open();
        snapshot.ledger.rows_shed += std::mem::take(&mut self.rows_shed);
        self.load.ways.outlets.iter_mut().for_each(|outlet| outlet.count_shed(&mut snapshot));
        snapshot.sessions.add(&std::mem::take(&mut self.files_ended));
        if let Some(carver) = &mut self.load.ways.carver {
            snapshot.sessions.add(&carver.take_count());
        }
        let worker = self.worker;
        let part = self.part;
        self.part = Part { stretch: part.stretch + 1, silence: 0 };
        if self.when_full == WhenFull::Wait {
            let charge = self.load.room.wait(snapshot.memory());
            return self.send(Message::Snapshot(part, Box::new(snapshot), Held { charge, worker, sessions }));
        }
        self.send_backlog();
        let is_full = self.backlog.len() >= MAX_BACKLOG;
        if let Some(Message::Snapshot(last, waiting, held)) = self.backlog.back_mut().filter(|_| is_full) {
            // The queue is full for seconds. Counts are added up, so that only their resolution is lost.
            snapshot.ledger.ticks_joined += 1;
            waiting.merge(&snapshot);
            *last = part;
            held.sessions = sessions;
            return;
        }
        // A live run sends one per second, for which the room always suffices.
        let charge = self.load.room.take(snapshot.memory());
        self.send_later(Message::Snapshot(part, Box::new(snapshot), Held { charge, worker, sessions }));
    }

    fn kept_packets(&self) -> u64 {
        self.kept
    }

    fn boundary(&mut self, boundary: Boundary) {
        let worker = self.worker;
        for outlet in &mut self.load.ways.outlets {
            if boundary.ends_round(outlet.spec.level) {
                outlet.end_round(worker);
            }
        }
        for (outlet, level) in self.load.ways.targets.iter_mut().zip(LEVELS) {
            if boundary.ends_round(level) {
                outlet.end_round(worker);
            }
        }
        if let Boundary::Packet(number) = boundary {
            self.load.ways.reach(number);
        }
    }

    /// Sends what is left, and waits for room.
    fn done(&mut self) {
        for message in std::mem::take(&mut self.backlog) {
            self.send(message);
        }
        self.send(Message::Done);
    }
}

impl WorkerOutput {
    fn flow(&mut self, flow: &FlowRecord, to: To<'_>) {
        self.load.ways.count_row(to.functions, |log| log.offer(1));
        if self.load.rows || !to.functions.is_empty() {
            self.rows.push(flow, to);
            if self.rows.len() == ROWS {
                self.send_rows();
            }
        }
    }

    fn record(&mut self, flow: &FlowIdentity, mut record: Record<'_>, to: To<'_>) {
        if *record.table == FILES {
            self.load.ways.end_file(&mut record, to.functions);
        }
        if !to.run && to.functions.is_empty() {
            return;
        }
        self.load.ways.count_row(to.functions, |log| log.offer(1));
        self.records.push(flow, &record, to);
        if self.records.len() == ROWS || self.records.packed() > MAX_PACKED {
            self.send_records();
        }
    }

    fn matching(&mut self, packets: Batch<'_>) {
        self.kept += packets.len() as u64;
        self.leave(OutletId::Matching, packets);
    }
}

impl Sink for WorkerOutput {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Flow(flow, to) => self.flow(flow, to),
            Emitted::Open(flow) => {
                if let Some(open) = &mut self.open {
                    open.push(flow);
                }
            }
            Emitted::Matching(packets) => self.matching(packets),
            Emitted::Unidentified(packets) => self.leave(OutletId::Unidentified, packets),
            Emitted::Record(flow, record, to) => self.record(flow, record, to),
            Emitted::Packets(packets, functions) => {
                let (worker, when_full) = (self.worker, self.when_full);
                for outlet in &mut self.load.ways.targets {
                    outlet.take(worker, packets, functions, when_full);
                }
            }
            Emitted::Missing(id, packets) => {
                self.load.ways.targets.iter().for_each(|outlet| outlet.miss(id, packets));
            }
            // No output of a run takes streams or details of measurements.
            Emitted::Chunk(..) | Emitted::Measured(..) => {}
        }
    }

    fn content(&mut self, _: &FlowIdentity, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        self.load.ways.content(packet, file, offset, bytes)
    }
}

/// When the report of an interval is emitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Emission {
    /// When more than [`OPEN_REPORTS`] are open. Used for files.
    Held,
    /// With the last tick of the interval. Used for one interface, so that outputs have no delay.
    WhenOver,
    /// With the first tick of the next interval. Used for several interfaces, because their packets arrive with different
    /// delays.
    WhenNextBegins,
}

/// Puts rows in order, merges snapshots and hands both to the outputs.
pub struct Collector {
    outputs: Vec<OpenOutput>,
    /// The logs that subscriptions name.
    targets: Targets,
    /// Workers that have not finished.
    busy: usize,
    /// Maximum bytes of rows and records that wait for their interval to end. Beyond it, those of the oldest interval
    /// are written immediately.
    max_waiting: usize,
    waiting: usize,
    pending: BTreeMap<Part, Pending>,
    /// Length of a reported interval in nanoseconds.
    report_length: u64,
    /// Open reports, by the start of their interval in original time: later packets may belong to an earlier report.
    reports: BTreeMap<u64, Snapshot>,
    /// When a report is emitted.
    emission: Emission,
    total: Snapshot,
    failures: Vec<String>,
    /// Whether failures are only shown on the live screen. Standard error is the terminal of that screen.
    silent: bool,
    /// Host names that clients resolved, and those that occur in rows.
    resolved: Resolved,
    shown: Shown,
    /// Receiver of each merged interval.
    hub: Option<Arc<Hub>>,
    /// Number of waiting messages.
    messages: usize,
    /// Room of the messages in the queue.
    room: Option<Arc<Room>>,
    /// Bytes of each worker's sessions at the end of its last interval.
    sessions: Vec<usize>,
    /// For each worker, the first part that it may not have ended.
    next: Vec<Part>,
    /// Applied to everything that leaves the collector.
    anonymiser: Option<Anonymiser>,
    /// Period in nanoseconds after which logs are rotated, and the number of the current period.
    rotate: Option<u64>,
    period: Option<u64>,
    /// Set to rotate the logs at once.
    hangup: Arc<AtomicBool>,
    /// The open events.
    events: Events,
}

/// A part that some workers have not ended.
#[derive(Default)]
struct Pending {
    rows: Vec<Rows>,
    records: Vec<Records>,
    open: Option<Box<OpenFlows>>,
    merged: Option<Box<Snapshot>>,
}

impl Collector {
    /// A collector for the given number of workers. `memory` limits the bytes of rows that wait for their interval to
    /// end.
    pub fn new(outputs: Vec<OpenOutput>, workers: usize, report_length: u64, memory: usize) -> Self {
        Self {
            outputs,
            targets: Targets::default(),
            busy: workers,
            max_waiting: memory.max(ROWS * size_of::<FlowRecord>()),
            waiting: 0,
            pending: BTreeMap::new(),
            report_length,
            reports: BTreeMap::new(),
            emission: Emission::Held,
            total: Snapshot::default(),
            failures: Vec::new(),
            silent: false,
            // Names get a part of the memory for rows.
            resolved: Resolved::new(memory / 8),
            shown: Shown::new(memory / 8),
            hub: None,
            messages: 0,
            room: None,
            sessions: vec![0; workers],
            next: vec![Part::default(); workers],
            anonymiser: None,
            rotate: None,
            period: None,
            hangup: Arc::default(),
            events: Events::new(memory / 8, Failures::default(), report_length),
        }
    }

    /// Applies the anonymiser to everything that is written or sent on from now on.
    pub fn anonymise(&mut self, anonymiser: Option<Anonymiser>) {
        self.anonymiser = anonymiser;
    }

    /// Limits the memory of open events, in bytes, and makes events of failures, from now on.
    pub fn hold_events(&mut self, memory: usize, failures: Failures) {
        self.events = Events::new(memory, failures, self.report_length);
    }

    /// Sends each interval to `hub` from now on.
    pub fn emit(&mut self, hub: Option<Arc<Hub>>) {
        self.hub = hub;
    }

    /// Limits the memory of host names, in bytes, from now on.
    pub fn remember_names(&mut self, memory: usize) {
        self.resolved = Resolved::new(memory / 2);
        self.shown = Shown::new(memory / 2);
    }

    /// Sets when reports are emitted.
    pub fn emit_reports_when(&mut self, emission: Emission) {
        self.emission = emission;
    }

    /// Sets the room that the incoming messages were charged to.
    pub fn take_from(&mut self, room: &Arc<Room>) {
        self.room = Some(Arc::clone(room));
    }

    /// Sets the number of waiting messages.
    pub fn has_waiting(&mut self, messages: usize) {
        self.messages = messages;
    }

    /// Rotates logs with this period in nanoseconds, at the end of an interval, and whenever `hangup` is set.
    pub fn roll_every(&mut self, rotate: Option<u64>, hangup: Arc<AtomicBool>) {
        (self.rotate, self.hangup) = (rotate, hangup);
    }

    /// Rotates the logs on request. Rows that wait for their interval to end are written into the new files.
    pub fn attend(&mut self) {
        if self.hangup.swap(false, Ordering::Relaxed) {
            self.roll(0);
        }
    }

    /// Whether a log in a folder has an output; `Err` if another log has one of its files open.
    pub fn has_output(&self, folder: &Path, log: &Log) -> Result<bool, ()> {
        match self.outputs.iter().find_map(|output| output.writes(folder, log)) {
            Some(true) => Ok(true),
            Some(false) => Err(()),
            None => Ok(false),
        }
    }

    /// Writes these logs in a folder, and no others, from a packet time on. `opened` are the outputs of new ones.
    pub fn change_logs(&mut self, folder: Option<&Path>, logs: &[Log], opened: Vec<OpenOutput>, from: Time) {
        for output in &mut self.outputs {
            output.follow(folder, logs, from);
        }
        self.outputs.extend(opened);
    }

    /// Delivers by a plan from a packet time on.
    pub fn deliver(&mut self, plan: &TargetPlan, from: Time) {
        self.targets.follow(plan, from);
    }

    /// Ends the outputs of logs whose rows ended before a time.
    fn end_outputs(&mut self, now: u64) {
        while let Some(at) = self.outputs.iter_mut().position(|output| output.has_ended(now)) {
            // The part of the present report until now.
            for mut report in self.reports.values().cloned().collect::<Vec<_>>() {
                report.arrange();
                self.attempt(at, |output| output.interval(&report));
            }
            self.attempt(at, |output| output.finish());
            self.outputs.remove(at);
        }
        let failed = self.targets.end(now);
        self.fail_all(failed);
    }

    fn roll(&mut self, now: u64) {
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.roll(now));
        }
        let failed = self.targets.each(|output| output.roll(now));
        self.fail_all(failed);
    }

    /// Rotates the logs if a period has ended with the interval.
    fn roll_by_time(&mut self, interval: Interval) {
        let Some(rotate) = self.rotate.filter(|_| interval.start != interval.end) else { return };
        let (first, next) = (interval.start / rotate, interval.end / rotate);
        let period = *self.period.get_or_insert(first);
        if period < next {
            self.period = Some(next);
            // Open reports belong to the files of the period that has ended.
            self.emit_reports(0);
            self.roll(next * rotate);
        } else if (period - next).saturating_mul(rotate) > DAY {
            // After one packet with a wrong time in the future, rotation continues with the next packet.
            self.period = Some(next);
        }
    }

    /// Stops printing failures: they are only recorded from now on.
    pub fn silence(&mut self) {
        self.silent = true;
    }

    /// The messages of the failures so far.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Takes a message. Returns the merged snapshots of the intervals that the message completes, without the answers that hold
    /// nothing: see [`Snapshot::fill`].
    pub fn take(&mut self, message: Message) -> Vec<Snapshot> {
        self.attend();
        match message {
            Message::Rows(part, rows, charge) => {
                drop(charge);
                self.waiting += rows.waiting();
                self.pending.entry(part).or_default().rows.push(rows);
                self.relieve();
                Vec::new()
            }
            Message::Records(part, records, charge) => {
                drop(charge);
                self.waiting += records.waiting();
                self.pending.entry(part).or_default().records.push(records);
                self.relieve();
                Vec::new()
            }
            Message::Open(part, open, charge) => {
                drop(charge);
                self.waiting += open.memory();
                let place = &mut self.pending.entry(part).or_default().open;
                match place {
                    Some(merged) => {
                        self.waiting -= merged.memory() + open.memory();
                        merged.merge(*open);
                        self.waiting += merged.memory();
                    }
                    None => *place = Some(open),
                }
                self.relieve();
                Vec::new()
            }
            Message::Snapshot(part, snapshot, held) => {
                let Held { charge, worker, sessions } = held;
                drop(charge);
                if let Some(place) = self.sessions.get_mut(worker) {
                    *place = sessions;
                }
                match &mut self.pending.entry(part).or_default().merged {
                    Some(merged) => merged.merge(&snapshot),
                    first => *first = Some(snapshot),
                }
                if let Some(next) = self.next.get_mut(worker) {
                    *next = part.next();
                }
                self.complete_ended()
            }
            Message::Late(mut snapshot, charge) => {
                drop(charge);
                let original = snapshot.interval;
                if let Some(anonymiser) = &mut self.anonymiser {
                    anonymiser.snapshot(&mut snapshot);
                }
                self.take_events(&mut snapshot);
                self.total.merge(&snapshot);
                if let Some(hub) = &self.hub {
                    hub.late(&snapshot);
                }
                self.report(original, &snapshot, false);
                Vec::new()
            }
            Message::Link(change) => {
                let time =
                    self.anonymiser.as_ref().map_or(change.at, |anonymiser| anonymiser.time(change.at));
                self.events.link(&change, time.0);
                Vec::new()
            }
            Message::Done => {
                self.busy -= 1;
                Vec::new()
            }
        }
    }

    /// Whether every worker has finished.
    pub fn is_done(&self) -> bool {
        self.busy == 0
    }

    /// Takes messages until every worker is done.
    pub fn run(&mut self, from: &Receiver<Message>) {
        while !self.is_done() {
            // A closed queue means that a worker has panicked: the received part is reported.
            let Ok(message) = from.recv() else { break };
            self.take(message);
        }
    }

    /// Reports the last, unfinished interval and closes the outputs. Returns the totals, the messages of failures, and
    /// the names of responders.
    pub fn finish(mut self) -> (Snapshot, Vec<String>, Shown) {
        for part in self.pending.keys().copied().collect::<Vec<_>>() {
            self.complete(part);
        }
        self.emit_reports(0);
        let ended = self.events.finish(&mut self.total);
        self.emit_events(&ended);
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.finish());
        }
        let failed = self.targets.each(|output| output.finish());
        self.fail_all(failed);
        self.total.fill();
        self.total.arrange();
        (self.total, self.failures, self.shown)
    }

    /// Makes the outputs write their buffered rows.
    pub fn flush(&mut self) {
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.flush());
        }
        let failed = self.targets.each(|output| output.flush());
        self.fail_all(failed);
    }

    /// Writes the oldest interval's rows if too many wait.
    fn relieve(&mut self) {
        if self.waiting <= self.max_waiting {
            return;
        }
        let has_rows = |pending: &&mut Pending| !(pending.rows.is_empty() && pending.records.is_empty());
        if let Some(pending) = self.pending.values_mut().find(has_rows) {
            let (rows, records) = (std::mem::take(&mut pending.rows), std::mem::take(&mut pending.records));
            self.write(rows, records);
        }
    }

    /// Writes the records, then the flows that ended, each in order of time and flow.
    fn write(&mut self, mut rows: Vec<Rows>, mut records: Vec<Records>) {
        self.waiting -= rows.iter().map(Rows::waiting).sum::<usize>();
        self.waiting -= records.iter().map(Records::waiting).sum::<usize>();
        let mut order = in_order(&records);
        for (flow, record, _) in order.iter().filter_map(|at| record_at(&records, *at)) {
            if Resolved::reads(record.table) {
                self.resolved.record(flow, &record);
            }
        }
        let flows = rows.iter().flat_map(Rows::flows);
        let mut names: Vec<Option<Arc<str>>> = flows.map(|row| self.resolved.name(row)).collect();
        if let Some(anonymiser) = &mut self.anonymiser {
            for (row, name) in rows.iter_mut().flat_map(Rows::flows_mut).zip(&mut names) {
                anonymiser.flow(row);
                *name = name.take().and_then(|name| anonymiser.name(&name)).map(Arc::from);
            }
            queued::flows_mut(&mut records).for_each(|flow| anonymiser.identity(flow));
            order = in_order(&records);
        }
        let mut named: Vec<((&FlowRecord, To<'_>), Option<&str>)> =
            rows.iter().flat_map(Rows::each).zip(names.iter().map(Option::as_deref)).collect();
        named.sort_by_key(|((row, _), _)| (row.first, row.key));
        for ((row, _), name) in &named {
            if let Some(name) = name {
                self.shown.row(row, name);
            }
        }
        for (flow, mut record, to) in order.iter().filter_map(|at| record_at(&records, *at)) {
            if let Some(anonymiser) = &mut self.anonymiser {
                anonymiser.record(&mut record);
            }
            for at in 0..self.outputs.len() {
                if to.run
                    && self.outputs.get(at).is_some_and(|one| one.takes_record(record.table, record.time))
                {
                    self.attempt(at, |output| output.record(flow, &record));
                }
            }
            let failed = self.targets.record(to.functions, flow, &record);
            self.fail_all(failed);
        }
        for ((row, to), name) in named {
            for at in 0..self.outputs.len() {
                if to.run && self.outputs.get(at).is_some_and(|one| one.takes_flow(row.last)) {
                    self.attempt(at, |output| output.named_flow(row, name));
                }
            }
            let failed = self.targets.flow(to.functions, row, name);
            self.fail_all(failed);
        }
    }

    /// Hands the flows that are open at the end of an interval to the outputs.
    fn write_open(&mut self, open: OpenFlows) {
        self.waiting -= open.memory();
        let mut until = Time(open.until);
        let (mut flows, left_out) = open.take();
        for OpenFlow { flow, name, from } in &mut flows {
            *name = self.resolved.name(flow);
            if let Some(anonymiser) = &mut self.anonymiser {
                anonymiser.flow(flow);
                *name = name.take().and_then(|name| anonymiser.name(&name)).map(Arc::from);
                *from = anonymiser.time(Time(*from)).0;
            }
        }
        if let Some(anonymiser) = &self.anonymiser {
            until = anonymiser.time(until);
        }
        flows.sort_by_key(|one| (one.flow.first, one.flow.key));
        let open = weir_output::OpenFlows { flows: &flows, until: until.0, left_out };
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.open_flows(&open));
        }
    }

    /// Completes the intervals that all workers have ended.
    fn complete_ended(&mut self) -> Vec<Snapshot> {
        let next = self.next.iter().copied().min().unwrap_or_default();
        let ended: Vec<Part> = self.pending.range(..next).map(|(part, _)| *part).collect();
        ended.into_iter().filter_map(|part| self.complete(part)).collect()
    }

    fn complete(&mut self, part: Part) -> Option<Snapshot> {
        let Pending { rows, records, open, merged } = self.pending.remove(&part)?;
        self.write(rows, records);
        if let Some(open) = open {
            self.write_open(*open);
        }
        let mut merged = *merged.unwrap_or_default();
        let original = merged.interval;
        merged.share_costs();
        // Charts and metrics have a value for each interval.
        if self.hub.is_some() {
            merged.fill();
        }
        if let Some(anonymiser) = &mut self.anonymiser {
            anonymiser.snapshot(&mut merged);
        }
        self.take_events(&mut merged);
        let before = self.total.outline.plan;
        self.total.merge(&merged);
        if self.total.outline.plan != before {
            self.total.forget_removed();
        }
        if let Some(hub) = &self.hub {
            hub.tick(&merged, &self.load());
        }
        self.report(original, &merged, true);
        self.end_outputs(original.end);
        self.roll_by_time(merged.interval);
        Some(merged)
    }

    /// Takes the findings of an interval, and emits the events that begin, go on or end.
    fn take_events(&mut self, snapshot: &mut Snapshot) {
        let rows = self.events.interval(snapshot);
        self.emit_events(&rows);
    }

    fn emit_events(&mut self, rows: &[Event]) {
        for event in rows {
            if let Some(hub) = &self.hub {
                hub.event(event);
            }
            for at in 0..self.outputs.len() {
                if self.outputs.get(at).is_some_and(|one| one.takes_event(Time(event.last))) {
                    self.attempt(at, |output| output.event(event));
                }
            }
        }
    }

    /// Adds a snapshot to the report of its interval, and, if it is the whole of what the workers sent, the answers that hold
    /// nothing. `original` is the interval in original time, in which intervals begin at multiples of their length; in shifted
    /// time they may not.
    fn report(&mut self, original: Interval, snapshot: &Snapshot, is_whole: bool) {
        if *snapshot == Snapshot::default() {
            return;
        }
        let start = original.start - original.start % self.report_length;
        let end = match original.start == original.end {
            // A run without packets has no interval.
            true => start,
            false => start.saturating_add(self.report_length).max(original.end),
        };
        let shift = snapshot.interval.start.wrapping_sub(original.start).cast_signed();
        let moved = |time: u64| time.saturating_add_signed(shift);
        if let Some(hub) = &self.hub {
            hub.part_of(moved(start), snapshot);
        }
        // The outputs of a run over files never change.
        if self.outputs.is_empty() && self.emission == Emission::Held {
            return;
        }
        let report = self.reports.entry(start).or_default();
        report.merge(snapshot);
        if is_whole {
            report.fill();
        }
        report.interval = Interval { start: moved(start), end: moved(end) };
        let over = match self.emission {
            Emission::Held => 0,
            Emission::WhenOver if original.end >= end => end,
            Emission::WhenOver | Emission::WhenNextBegins => start,
        };
        while self.reports.first_key_value().is_some_and(|(first, _)| *first < over) {
            self.emit_first();
        }
        self.emit_reports(OPEN_REPORTS);
    }

    /// The usage of the collector's memory.
    pub fn load(&self) -> memory::Load {
        let (names, names_shed) = self.resolved.memory();
        memory::Load {
            messages: self.messages,
            max_messages: QUEUE,
            queued: self.room.as_ref().map_or(0, |room| room.used()),
            waiting: self.waiting,
            names,
            names_shed,
            sessions: self.sessions.iter().sum(),
            events: self.events.held(),
        }
    }

    /// Emits the reports of the earliest intervals until at most `open` reports are left.
    fn emit_reports(&mut self, open: usize) {
        while self.reports.len() > open {
            self.emit_first();
        }
    }

    fn emit_first(&mut self) {
        let Some((_, mut report)) = self.reports.pop_first() else { return };
        report.arrange();
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.interval(&report));
        }
    }

    /// Calls an output. A failure is recorded once, and the output is called again next time, because the disk may
    /// have free space then.
    fn attempt(&mut self, at: usize, call: impl FnOnce(&mut Box<dyn Output>) -> io::Result<()>) -> bool {
        let Some(OpenOutput { output, .. }) = self.outputs.get_mut(at) else { return false };
        let Err(error) = call(output) else { return true };
        let kind = output.failure();
        self.fail(kind, &error);
        false
    }

    fn fail_all(&mut self, failed: Vec<Failed>) {
        failed.iter().for_each(|(kind, error)| self.fail(kind, error));
    }

    /// Records a failure.
    fn fail(&mut self, kind: &'static EventKind, error: &io::Error) {
        self.events.failed(kind, error);
        let text = error.to_string();
        if self.failures.len() < 100 && !self.failures.contains(&text) {
            if !self.silent {
                eprintln!("weir: {text}");
            }
            self.failures.push(text);
        }
    }
}
