//! The collector: merges the workers' snapshots, and puts their rows in order for the outputs.
//!
//! A worker communicates with the rest of the program only through its [`WorkerOutput`].

mod answers_apart;
mod open_flows;
mod open_output;
mod queued;
mod run_total;
mod targets;

mod worker_output;

pub use open_flows::OpenFlows;
pub use open_output::{OpenOutput, RowSources};
pub use targets::Plan as TargetPlan;
pub use worker_output::WorkerOutput;

use crate::asked::{Findings, Questions};
use crate::events::{Counted, Events, Mutes, NewSignatures, Row};
use crate::failures::Failures;
use crate::hub::Hub;
use crate::memory::{self, Charge, Room};
use crate::resolved::{HostNames, Resolved};
use crate::triggers::{TriggerSpec, Triggers};
use answers_apart::AnswersApart;
use crossbeam_channel::{Receiver, Sender};
use queued::{Queued, Records, Rows, in_order};
use run_total::RunTotal;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use targets::{Failed, Targets};
use weir_anon::Anonymiser;
use weir_api::event::OUTPUT_FAILED;
use weir_api::{Answer, AnswerId, EventKind, Interval, Snapshot, builtin};
use weir_capture::LinkEvent;
use weir_engine::FlowRecord;
use weir_output::summary::top_of;
use weir_output::{Log, OpenFlow, Output};
use weir_proto::Spare;
use weir_wire::Time;

/// Maximum number of rows in a message.
const ROWS: usize = 256;
/// Maximum number of messages in a queue. A [`Room`] limits their bytes.
const QUEUE: usize = 64;

/// A part of a run, in the order in which each worker ends them.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Part {
    /// Number of the interval with packets, from 0. All workers have all of these, in one order; an interval to which packets
    /// return has another number.
    stretch: u64,
    /// For an interval in the silence after that one its start, plus 1; 0 for the interval itself. A worker has only those in which
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
    /// These parts have ended for this worker, and so have those before them.
    Snapshots(Vec<(Part, Box<Snapshot>)>, Held),
    /// Packets of an interval whose snapshot this worker has sent already.
    Late(Box<Snapshot>, Charge),
    /// What the worker has counted so far of an interval whose snapshot follows.
    Counted(Box<Counted>),
    /// An interface has changed its state.
    Link(LinkEvent),
    /// The worker has finished.
    Done,
}

/// Memory that a worker holds at the end of its last interval.
pub struct Held {
    /// Charge for the snapshots, out of the room for messages.
    charge: Charge,
    /// Index of the worker.
    worker: usize,
    /// Bytes of its sessions.
    sessions: usize,
}

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * 3_600_000_000_000;

/// Maximum number of open reports in a run over files: packets around the end of an interval may be out of order, and
/// merged captures may alternate between two intervals.
const OPEN_REPORTS: usize = 2;

/// A flow, the functions that deliver it, and the name of its responder.
type NamedFlow<'r> = (&'r FlowRecord, &'r [AnswerId], Option<&'r str>);

/// A queue from the workers to the collector.
pub fn queue() -> (Sender<Message>, Receiver<Message>) {
    crossbeam_channel::bounded(QUEUE)
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
    total: RunTotal,
    failures: Vec<String>,
    /// Whether failures are only shown on the live screen. Standard error is the terminal of that screen.
    silent: bool,
    /// Whether hosts have names.
    has_names: bool,
    /// Host names that clients resolved.
    resolved: Resolved,
    /// Those, as they are shown, if all that leaves is anonymised.
    pseudonyms: Option<Resolved>,
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
    /// The ticks so far of the second under way, in a live run in which a second has several.
    second: Option<Snapshot>,
    /// What events open.
    triggers: Triggers,
    /// What is asked of the store at the end, and where the answers go.
    at_end: Option<(Questions, Findings)>,
    /// The answers of clients, and those that are for judges alone.
    of_clients: AnswersApart,
    for_judges: AnswersApart,
}

/// A part that some workers have not ended.
#[derive(Default)]
struct Pending {
    rows: Vec<Rows>,
    records: Vec<Records>,
    open: Option<Box<OpenFlows>>,
    merged: Option<Box<Snapshot>>,
}

/// The results of a run.
pub struct Results {
    /// The totals.
    pub total: Snapshot,
    /// The messages of failures.
    pub failures: Vec<String>,
    /// The names of responders.
    pub names: HostNames,
    /// What events have opened.
    pub triggers: Triggers,
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
            total: RunTotal::default(),
            failures: Vec::new(),
            silent: false,
            // Names get a part of the memory for rows.
            resolved: Resolved::new(memory / 8),
            has_names: true,
            pseudonyms: None,
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
            second: None,
            triggers: Triggers::default(),
            at_end: None,
            of_clients: AnswersApart::new(Answer::is_of_client),
            for_judges: AnswersApart::new(Answer::is_for_judge),
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

    /// Hides the events that mutes match, from now on.
    pub fn mute(&mut self, mutes: Mutes) {
        self.events.mute(mutes);
    }

    /// Finds port signatures that these do not know, from now on.
    pub fn know_signatures(&mut self, signatures: NewSignatures) {
        self.events.know_signatures(signatures);
    }

    /// Takes the findings of what is asked of the store, from now on. `at_end` are questions that are asked when all else is stored, before
    /// events end.
    pub fn ask(&mut self, findings: Findings, at_end: Option<Questions>) {
        self.events.take_asked(findings.clone());
        self.at_end = at_end.map(|questions| (questions, findings));
    }

    /// Shows the events that begin to triggers, from now on, and judges what they ask for.
    pub fn trigger(&mut self, triggers: Triggers) {
        self.events.judge_drops(triggers.of_drops());
        self.triggers = triggers;
    }

    /// Goes on with other triggers, in a live run.
    pub fn change_triggers(&mut self, triggers: &[TriggerSpec]) {
        self.triggers.change(triggers);
        self.events.judge_drops(self.triggers.of_drops());
    }

    /// Sends each interval to `hub` from now on.
    pub fn emit(&mut self, hub: Option<Arc<Hub>>) {
        self.hub = hub;
    }

    /// Limits the memory of host names, in bytes, from now on, and sets whether hosts have names.
    pub fn remember_names(&mut self, memory: usize, has_names: bool) {
        self.has_names = has_names;
        self.resolved = Resolved::new(memory / 2);
        self.pseudonyms = self.anonymiser.as_ref().map(|_| Resolved::new(memory / 2));
    }

    /// Sets when reports are emitted.
    pub fn emit_reports_when(&mut self, emission: Emission) {
        self.emission = emission;
        if emission != Emission::Held {
            self.events.begin_early();
        }
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

    /// Writes these logs in a directory, and no others, with the rows of these functions, from a packet time on. `opened` are the
    /// outputs of new ones.
    pub fn change_logs(
        &mut self,
        (folder, logs): (Option<&Path>, &[Log]),
        rows: &RowSources,
        opened: Vec<OpenOutput>,
        from: Time,
    ) {
        self.outputs.extend(opened);
        for output in &mut self.outputs {
            output.follow(folder, logs, rows, from);
        }
    }

    /// Delivers by a plan from a packet time on.
    pub fn deliver(&mut self, plan: &TargetPlan, from: Time) {
        let failed = self.targets.follow(plan, from);
        self.fail_all(failed);
    }

    /// Ends the outputs of logs whose rows ended before a time.
    fn end_outputs(&mut self, now: u64) {
        while let Some(at) = self.outputs.iter_mut().position(|output| output.has_ended(now)) {
            // The part of the present report until now.
            for mut report in self.reports.values().cloned().collect::<Vec<_>>() {
                for_outputs(&mut report, &self.outputs);
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
            Message::Snapshots(snapshots, held) => {
                let Held { charge, worker, sessions } = held;
                drop(charge);
                if let Some(place) = self.sessions.get_mut(worker) {
                    *place = sessions;
                }
                for (part, snapshot) in snapshots {
                    match &mut self.pending.entry(part).or_default().merged {
                        Some(merged) => merged.merge(&snapshot),
                        first => *first = Some(snapshot),
                    }
                    if let Some(next) = self.next.get_mut(worker) {
                        *next = part.next();
                    }
                }
                self.complete_ended()
            }
            Message::Late(mut snapshot, charge) => {
                drop(charge);
                let original = snapshot.interval;
                if let Some(anonymiser) = &mut self.anonymiser {
                    anonymiser.snapshot(&mut snapshot);
                }
                if let Some(hub) = &self.hub {
                    hub.clients.late(original, self.of_clients.take(&mut snapshot));
                }
                self.take_events(&mut snapshot);
                self.total.add(&snapshot);
                if let Some(hub) = &self.hub {
                    hub.late(&snapshot);
                }
                self.report(original, &snapshot, false);
                Vec::new()
            }
            Message::Counted(mut counted) => {
                if let Some(anonymiser) = &self.anonymiser {
                    let Interval { start, end } = counted.watched;
                    let [start, end] = [start, end].map(|time| anonymiser.time(Time(time)).0);
                    counted.watched = Interval { start, end };
                }
                self.triggers.count_ahead(counted.worker, counted.watched.start, &counted.ledger);
                let rows = self.events.ahead(&counted);
                self.emit_events(&rows);
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

    /// Reports the last, unfinished interval and closes the outputs.
    pub fn finish(mut self) -> Results {
        for part in self.pending.keys().copied().collect::<Vec<_>>() {
            self.complete(part);
        }
        if let Some(second) = self.second.take() {
            self.show(&second);
        }
        self.emit_reports(0);
        self.ask_at_end();
        let ended = self.events.finish(self.total.get());
        self.emit_events(&ended);
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.finish());
        }
        let failed = self.targets.each(|output| output.finish());
        self.fail_all(failed);
        let mut total = self.total.take();
        total.fill();
        total.arrange();
        let resolved = self.pseudonyms.as_ref().unwrap_or(&self.resolved);
        let talkers = top_of(&total, builtin::TALKERS);
        let names = talkers.map(|talkers| resolved.of_talkers(talkers)).unwrap_or_default();
        Results { total, failures: self.failures, names, triggers: self.triggers }
    }

    /// Asks the store, which has all but the events that are still open.
    fn ask_at_end(&mut self) {
        let Some((mut questions, findings)) = self.at_end.take() else { return };
        self.flush();
        if let Err(error) = questions.ask_at_end(&findings) {
            self.fail(&OUTPUT_FAILED, &io::Error::other(error.to_string()));
        }
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
        let (mut order, mut memory) = (in_order(&records), Spare::default());
        let named = order.iter().filter(|_| self.has_names).filter_map(|at| Queued::at(&records, *at));
        for queued in named.filter(|queued| Resolved::reads(queued.table())) {
            let record = queued.record(&mut memory);
            self.resolved.record(queued.flow(), &record);
            memory.take_back(record);
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
        let flows = rows.iter().flat_map(Rows::each).zip(names.iter().map(Option::as_deref));
        let mut named: Vec<NamedFlow<'_>> =
            flows.map(|((row, functions), name)| (row, functions, name)).collect();
        named.sort_by_key(|(row, ..)| (row.first, row.key));
        for queued in order.iter().filter_map(|at| Queued::at(&records, *at)) {
            let functions = queued.functions();
            if functions.is_none() && self.pseudonyms.is_none() {
                continue;
            }
            let (flow, mut record) = (queued.flow(), queued.record(&mut memory));
            if let Some(anonymiser) = &mut self.anonymiser {
                anonymiser.record(&mut record);
                if let Some(names) = self.pseudonyms.as_mut().filter(|_| Resolved::reads(record.table)) {
                    names.record(flow, &record);
                }
            }
            let functions = functions.unwrap_or_default();
            for at in 0..self.outputs.len() {
                if self.outputs.get(at).is_some_and(|one| one.is_fed_by(functions, queued.time())) {
                    self.row(at, |output| output.record(flow, &record));
                }
            }
            let failed = self.targets.record(functions, flow, &record);
            self.fail_all(failed);
            memory.take_back(record);
        }
        for (row, functions, name) in named {
            for at in 0..self.outputs.len() {
                if self.outputs.get(at).is_some_and(|one| one.is_fed_by(functions, row.last)) {
                    self.row(at, |output| output.named_flow(row, name));
                }
            }
            let failed = self.targets.flow(functions, row, name);
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
        let watched = merged.watched.unwrap_or(original);
        merged.share_costs();
        // Charts and metrics have a value for each interval.
        if self.hub.is_some() {
            merged.fill();
        }
        if let Some(anonymiser) = &mut self.anonymiser {
            anonymiser.snapshot(&mut merged);
        }
        if let Some(hub) = &self.hub {
            hub.clients.interval(original, watched, self.of_clients.take(&mut merged));
        }
        self.events.find_signatures(&merged);
        self.take_events(&mut merged);
        self.total.add(&merged);
        let second = self.second_of(&merged, original);
        if let Some(second) = &second {
            self.show(second);
        }
        self.report(original, &merged, true);
        self.end_outputs(original.end);
        self.roll_by_time(merged.interval);
        match second? {
            Cow::Owned(second) => Some(second),
            Cow::Borrowed(_) => Some(merged),
        }
    }

    /// What readers of the run see after an interval: in a live run in which a second has several ticks the second that ends with it,
    /// if one does. `original` is the interval in original time.
    fn second_of<'s>(&mut self, snapshot: &'s Snapshot, original: Interval) -> Option<Cow<'s, Snapshot>> {
        let is_end = self.emission == Emission::Held || original.end.is_multiple_of(SECOND);
        if is_end && self.second.is_none() {
            return Some(Cow::Borrowed(snapshot));
        }
        self.second.get_or_insert_default().merge(snapshot);
        if is_end { self.second.take().map(Cow::Owned) } else { None }
    }

    /// Shows an interval to the readers of the run.
    fn show(&self, snapshot: &Snapshot) {
        if let Some(hub) = &self.hub {
            hub.tick(snapshot, &self.load());
        }
    }

    /// Takes the findings of an interval, and emits the events that begin, go on or end.
    fn take_events(&mut self, snapshot: &mut Snapshot) {
        let rows = self.events.interval(snapshot);
        self.for_judges.take(snapshot);
        self.triggers.count(snapshot.interval, &snapshot.ledger);
        self.triggers.measure(|subscription| self.events.latest(subscription));
        self.emit_events(&rows);
    }

    /// Emits rows of events. Those that a mute hides go to the store and the pages alone.
    fn emit_events(&mut self, rows: &[Row]) {
        for Row { event, muted, is_emitted } in rows {
            if *is_emitted {
                self.triggers.event(event);
            }
            if let Some(hub) = &self.hub {
                hub.event(event, *muted);
            }
            for at in 0..self.outputs.len() {
                let takes = |one: &&OpenOutput| {
                    one.has_events(Time(event.last)) && (*is_emitted || one.keeps_muted())
                };
                let Some(output) = self.outputs.get(at).filter(takes) else { continue };
                output.offer();
                match muted.filter(|_| output.keeps_muted()) {
                    Some(mute) => self.row(at, |output| output.muted_event(event, mute)),
                    None => self.row(at, |output| output.event(event)),
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
        for_outputs(&mut report, &self.outputs);
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.interval(&report));
        }
    }

    /// Calls an output with a row that was offered to it, and counts whether it is written.
    fn row(&mut self, at: usize, call: impl FnOnce(&mut Box<dyn Output>) -> io::Result<()>) {
        let is_written = self.attempt(at, call);
        self.outputs.iter().skip(at).take(1).for_each(|one| one.count(is_written));
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

/// Puts the answers of a report in order for the outputs, without those that none of them takes.
fn for_outputs(report: &mut Snapshot, open: &[OpenOutput]) {
    report.arrange();
    let is_open = |name: &String| open.iter().any(|output| output.name() == name);
    let is_taken = |names: &Vec<String>| names.iter().any(is_open);
    report.answers.retain(|answer| answer.label.outputs.as_ref().is_none_or(is_taken));
}
