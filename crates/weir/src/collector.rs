//! From workers to outputs: rows in order, snapshots merged.
//!
//! A worker talks to the rest of the program through its [`WorkerOutput`] alone. A file can wait, so its couriers
//! do; a link cannot, so what a full queue does not take is shed there and counted.

use crate::carve::Carver;
use crate::dump::Intake;
use crate::resolved::{Resolved, Shown};
use crate::serve::hub::{self, Hub};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_api::{Interval, Snapshot};
use weir_capture::LinkEvent;
use weir_engine::{FlowIdentity, FlowRecord, Sink};
use weir_output::Output;
use weir_output::anon::Anonymiser;
use weir_proto::{FILES, Packed, Place, Record};
use weir_wire::{Batch, PacketBuf};

/// Rows that travel together.
const ROWS: usize = 256;
/// Bytes of records that travel together, besides the last of them.
const MAX_PACKED: usize = 256 << 10;
/// Messages that a queue holds: with rows in all of them a few megabytes.
const QUEUE: usize = 64;

/// What a worker tells the collector.
pub enum Message {
    /// Flows that have ended in the given interval, counted from 0.
    Rows(u64, Vec<FlowRecord>),
    /// What was said in flows in the given interval.
    Records(u64, Records),
    /// The interval is over for this worker.
    Snapshot(u64, Box<Snapshot>),
    /// Something happened to an interface.
    Link(LinkEvent),
    /// The worker has nothing more to say.
    Done,
}

/// Records of one batch, in one piece of memory.
#[derive(Debug, Default)]
pub struct Records {
    records: Vec<QueuedRecord>,
    packed: Packed,
}

/// A record, and the flow in which it was said.
#[derive(Debug)]
struct QueuedRecord {
    flow: FlowIdentity,
    place: Place,
    /// Which of the batches of its interval it is in.
    batch: u32,
}

impl Records {
    /// Bytes of memory that they take.
    fn memory(&self) -> usize {
        size_of_val(self.records.as_slice()) + self.packed.memory()
    }
}

/// What was said in an interval, and is not written yet.
#[derive(Default)]
struct Waiting {
    records: Vec<QueuedRecord>,
    batches: Vec<Packed>,
    memory: usize,
}

impl Waiting {
    fn add(&mut self, mut records: Records) {
        self.memory += records.memory();
        let batch = self.batches.len() as u32;
        records.records.iter_mut().for_each(|entry| entry.batch = batch);
        self.records.append(&mut records.records);
        self.batches.push(records.packed);
    }
}

/// A queue from workers to the collector.
pub fn queue() -> (Sender<Message>, Receiver<Message>) {
    crossbeam_channel::bounded(QUEUE)
}

/// What a courier does when the queue is full.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WhenFull {
    /// It waits: files have time.
    Wait,
    /// It sheds rows and counts them: packets have none.
    Shed,
}

/// What a courier carries besides snapshots.
#[derive(Clone)]
pub struct Load {
    /// Whether anybody wants flow rows.
    pub rows: bool,
    /// Whether anybody wants records of protocols.
    pub records: bool,
    /// Where packets that match go, if anywhere.
    pub packets: Option<Intake>,
    /// Where packets of flows that no protocol knows go, if anywhere.
    pub unidentified: Option<Intake>,
    /// Who keeps files, if anybody.
    pub carver: Option<Carver>,
}

/// Carries one worker's results.
pub struct WorkerOutput {
    to: Sender<Message>,
    when_full: WhenFull,
    load: Load,
    interval: u64,
    rows: Vec<FlowRecord>,
    records: Records,
    /// Rows, records among them, and packets that had no room since the last snapshot.
    rows_shed: u64,
    packets_shed: u64,
    /// The same of packets that no protocol knows.
    unidentified_shed: u64,
    kept: u64,
}

impl WorkerOutput {
    /// A courier for one worker.
    pub fn new(to: Sender<Message>, when_full: WhenFull, load: Load) -> Self {
        Self {
            to,
            when_full,
            load,
            interval: 0,
            rows: Vec::new(),
            records: Records::default(),
            rows_shed: 0,
            packets_shed: 0,
            unidentified_shed: 0,
            kept: 0,
        }
    }

    /// Packets that the run's expression has let through so far.
    pub fn kept_packets(&self) -> u64 {
        self.kept
    }

    /// From now on packets that match go there.
    pub fn write_packets_to(&mut self, packets: Option<Intake>) {
        self.load.packets = packets;
    }

    /// Ends the worker's interval. A snapshot always gets through: without it the sums would be wrong.
    pub fn send_snapshot(&mut self, mut snapshot: Snapshot) {
        self.send_rows();
        self.send_records();
        snapshot.ledger.rows_shed += std::mem::take(&mut self.rows_shed);
        snapshot.ledger.packets_unwritten += std::mem::take(&mut self.packets_shed);
        let shed = std::mem::take(&mut self.unidentified_shed);
        // What was handed on in an interval is shed in it or not at all.
        snapshot.sessions.unidentified_packets = snapshot.sessions.unidentified_packets.saturating_sub(shed);
        snapshot.sessions.unidentified_packets_lost += shed;
        if let Some(carver) = &mut self.load.carver {
            snapshot.sessions.add(&carver.take_count());
        }
        self.send(Message::Snapshot(self.interval, Box::new(snapshot)));
        self.interval += 1;
    }

    /// Sends, waiting for room.
    pub fn send(&mut self, message: Message) {
        // The collector outlives the workers; when it does not, the run is over anyway.
        let _ = self.to.send(message);
    }

    fn send_records(&mut self) {
        if self.records.records.is_empty() {
            return;
        }
        let records = std::mem::take(&mut self.records);
        let message = Message::Records(self.interval, records);
        match self.when_full {
            WhenFull::Wait => self.send(message),
            WhenFull::Shed => {
                if let Err(TrySendError::Full(Message::Records(_, records))) = self.to.try_send(message) {
                    self.rows_shed += records.records.len() as u64;
                }
            }
        }
    }

    fn send_rows(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(ROWS));
        let message = Message::Rows(self.interval, rows);
        match self.when_full {
            WhenFull::Wait => self.send(message),
            WhenFull::Shed => {
                if let Err(TrySendError::Full(Message::Rows(_, rows))) = self.to.try_send(message) {
                    self.rows_shed += rows.len() as u64;
                }
            }
        }
    }
}

impl Sink for WorkerOutput {
    fn flow(&mut self, flow: &FlowRecord) {
        if self.load.rows {
            self.rows.push(*flow);
            if self.rows.len() == ROWS {
                self.send_rows();
            }
        }
    }

    fn content(&mut self, _: &FlowIdentity, file: u64, offset: u64, bytes: &[u8]) -> bool {
        self.load.carver.as_mut().is_none_or(|carver| carver.content(file, offset, bytes))
    }

    fn record(&mut self, flow: &FlowIdentity, mut record: Record<'_>) {
        if let Some(carver) = self.load.carver.as_mut().filter(|_| *record.table == FILES) {
            carver.close(&mut record);
        }
        if self.load.records {
            let Records { records, packed } = &mut self.records;
            records.push(QueuedRecord { flow: *flow, place: packed.push(&record), batch: 0 });
            if records.len() == ROWS || packed.memory() > MAX_PACKED {
                self.send_records();
            }
        }
    }

    fn kept(&mut self, packets: Batch<'_>) {
        self.kept += packets.len() as u64;
        self.packets_shed += pass_on(self.load.packets.as_ref(), packets, self.when_full);
    }

    fn unidentified(&mut self, packets: Batch<'_>) {
        self.unidentified_shed += pass_on(self.load.unidentified.as_ref(), packets, self.when_full);
    }
}

/// Copies packets to the writer of a file, where there is one; how many had no room.
fn pass_on(writer: Option<&Intake>, packets: Batch<'_>, when_full: WhenFull) -> u64 {
    let Some(writer) = writer.filter(|_| !packets.is_empty()) else { return 0 };
    let mut copy = PacketBuf::default();
    for packet in packets.packets() {
        copy.push(&packet);
    }
    match when_full {
        WhenFull::Wait => {
            writer.send(copy);
            0
        }
        WhenFull::Shed => writer.offer(copy),
    }
}

/// Puts rows in order, merges snapshots and hands both to the outputs.
pub struct Collector {
    outputs: Vec<Box<dyn Output>>,
    workers: usize,
    /// Workers that have something to say yet.
    busy: usize,
    /// Bytes of rows and records that wait for their interval to end at most; then the oldest interval's are written
    /// as they are.
    max_waiting: usize,
    waiting: usize,
    pending: BTreeMap<u64, Pending>,
    /// The length of a report in nanoseconds: snapshots are merged until one ends at a multiple of it.
    report_length: u64,
    report: Snapshot,
    total: Snapshot,
    failures: Vec<String>,
    /// Failures are kept for the screen, and not said on standard error, which is the same terminal.
    silent: bool,
    /// Names that clients asked for, and those of them that are in rows.
    resolved: Resolved,
    shown: Shown,
    /// Who is told of each interval.
    hub: Option<Arc<Hub>>,
    /// Messages that wait.
    messages: usize,
    /// What nothing passes by on its way out.
    anonymiser: Option<Anonymiser>,
    /// Nanoseconds after which logs are rolled, and the number of the period that is written.
    rotate: Option<u64>,
    period: Option<u64>,
    /// Set when they are to be rolled at once.
    hangup: Arc<AtomicBool>,
}

/// An interval that not every worker has ended.
#[derive(Default)]
struct Pending {
    rows: Vec<Vec<FlowRecord>>,
    records: Waiting,
    snapshots: usize,
    merged: Snapshot,
}

impl Collector {
    /// A collector for so many workers. `memory` bounds the rows that wait for their interval to end.
    pub fn new(outputs: Vec<Box<dyn Output>>, workers: usize, report_length: u64, memory: usize) -> Self {
        Self {
            outputs,
            workers,
            busy: workers,
            max_waiting: memory.max(ROWS * size_of::<FlowRecord>()),
            waiting: 0,
            pending: BTreeMap::new(),
            report_length,
            report: Snapshot::default(),
            total: Snapshot::default(),
            failures: Vec::new(),
            silent: false,
            // A part of what is for rows.
            resolved: Resolved::new(memory / 8),
            shown: Shown::default(),
            hub: None,
            messages: 0,
            anonymiser: None,
            rotate: None,
            period: None,
            hangup: Arc::default(),
        }
    }

    /// From now on all that is written, and all that is handed on, goes through it.
    pub fn anonymise(&mut self, anonymiser: Option<Anonymiser>) {
        self.anonymiser = anonymiser;
    }

    /// From now on it is told of each interval.
    pub fn emit(&mut self, hub: Option<Arc<Hub>>) {
        self.hub = hub;
    }

    /// So many messages wait for it.
    pub fn has_waiting(&mut self, messages: usize) {
        self.messages = messages;
    }

    /// From now on logs are rolled every so many nanoseconds, where an interval ends, and when `hangup` is set.
    pub fn roll_every(&mut self, rotate: Option<u64>, hangup: Arc<AtomicBool>) {
        (self.rotate, self.hangup) = (rotate, hangup);
    }

    /// Rolls the logs if that was asked for. What waits for its interval to end is written into the new files.
    pub fn attend(&mut self) {
        if self.hangup.swap(false, Ordering::Relaxed) {
            self.roll(0);
        }
    }

    fn roll(&mut self, now: u64) {
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.roll(now));
        }
    }

    /// Rolls the logs where a period has ended with the interval.
    fn roll_by_time(&mut self, interval: Interval) {
        let Some(rotate) = self.rotate.filter(|_| interval.start != interval.end) else { return };
        let (first, next) = (interval.start / rotate, interval.end / rotate);
        if *self.period.get_or_insert(first) < next {
            self.period = Some(next);
            self.roll(next * rotate);
        }
    }

    /// From now on failures are only kept.
    pub fn silence(&mut self) {
        self.silent = true;
    }

    /// What has failed so far, in words.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Takes a message; the merged snapshot of an interval when it is complete with it.
    pub fn take(&mut self, message: Message) -> Option<Snapshot> {
        self.attend();
        match message {
            Message::Rows(interval, rows) => {
                self.waiting += size_of_val(rows.as_slice());
                self.pending.entry(interval).or_default().rows.push(rows);
                self.relieve();
                None
            }
            Message::Records(interval, records) => {
                self.waiting += records.memory();
                self.pending.entry(interval).or_default().records.add(records);
                self.relieve();
                None
            }
            Message::Snapshot(interval, snapshot) => {
                let pending = self.pending.entry(interval).or_default();
                pending.merged.merge(&snapshot);
                pending.snapshots += 1;
                if pending.snapshots < self.workers {
                    return None;
                }
                self.complete(interval)
            }
            Message::Link(_) => None,
            Message::Done => {
                self.busy -= 1;
                None
            }
        }
    }

    /// Whether every worker has said that it is done.
    pub fn is_done(&self) -> bool {
        self.busy == 0
    }

    /// Takes messages until every worker is done.
    pub fn run(&mut self, from: &Receiver<Message>) {
        while !self.is_done() {
            // A closed queue means that a worker died without a word: what came is reported.
            let Ok(message) = from.recv() else { break };
            self.take(message);
        }
    }

    /// Reports the last, unfinished interval and closes the outputs. The total, what failed in words, and the names of
    /// responders.
    pub fn finish(mut self) -> (Snapshot, Vec<String>, Shown) {
        for interval in self.pending.keys().copied().collect::<Vec<_>>() {
            self.complete(interval);
        }
        if self.report != Snapshot::default() {
            self.emit_report();
        }
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.finish());
        }
        (self.total, self.failures, self.shown)
    }

    /// Lets the outputs write what they hold back.
    pub fn flush(&mut self) {
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.flush());
        }
    }

    /// Writes the oldest interval's rows where too many wait.
    fn relieve(&mut self) {
        if self.waiting <= self.max_waiting {
            return;
        }
        let has_rows =
            |pending: &&mut Pending| !(pending.rows.is_empty() && pending.records.records.is_empty());
        if let Some(pending) = self.pending.values_mut().find(has_rows) {
            let (rows, records) = (std::mem::take(&mut pending.rows), std::mem::take(&mut pending.records));
            self.write(rows, records);
        }
    }

    /// Writes what was said, then the flows that ended, each in order of time and flow.
    fn write(&mut self, mut rows: Vec<Vec<FlowRecord>>, records: Waiting) {
        let Waiting { mut records, batches, memory } = records;
        self.waiting -= rows.iter().map(|rows| size_of_val(rows.as_slice())).sum::<usize>() + memory;
        let record =
            |entry: &QueuedRecord| batches.get(entry.batch as usize).map(|batch| batch.get(&entry.place));
        // What one flow said at one time stays in the order in which it was said.
        records.sort_by_key(|entry| (entry.place.time, entry.flow.key));
        for entry in records.iter().filter(|entry| Resolved::reads(entry.place.table)) {
            if let Some(record) = record(entry) {
                self.resolved.record(&entry.flow, &record);
            }
        }
        let mut names: Vec<Option<Arc<str>>> =
            rows.iter().flatten().map(|row| self.resolved.name(row)).collect();
        if let Some(anonymiser) = &mut self.anonymiser {
            for (row, name) in rows.iter_mut().flatten().zip(&mut names) {
                anonymiser.flow(row);
                *name = name.take().and_then(|name| anonymiser.name(&name)).map(Arc::from);
            }
            records.iter_mut().for_each(|entry| anonymiser.identity(&mut entry.flow));
            records.sort_by_key(|entry| (entry.place.time, entry.flow.key));
        }
        let mut named: Vec<(&FlowRecord, Option<&str>)> =
            rows.iter().flatten().zip(names.iter().map(Option::as_deref)).collect();
        named.sort_by_key(|(row, _)| (row.first, row.key));
        for (row, name) in &named {
            if let Some(name) = name {
                self.shown.row(row, name);
            }
        }
        for entry in &records {
            let Some(mut record) = record(entry) else { continue };
            if let Some(anonymiser) = &mut self.anonymiser {
                anonymiser.record(&mut record);
            }
            for at in 0..self.outputs.len() {
                self.attempt(at, |output| output.record(&entry.flow, &record));
            }
        }
        for (row, name) in named {
            for at in 0..self.outputs.len() {
                self.attempt(at, |output| output.named_flow(row, name));
            }
        }
    }

    fn complete(&mut self, interval: u64) -> Option<Snapshot> {
        let mut pending = self.pending.remove(&interval)?;
        self.write(pending.rows, pending.records);
        // Reports end at multiples of their length in the time that was, not in the one that is shown.
        let Interval { start, end } = pending.merged.interval;
        if let Some(anonymiser) = &mut self.anonymiser {
            anonymiser.snapshot(&mut pending.merged);
        }
        self.total.merge(&pending.merged);
        self.report.merge(&pending.merged);
        if let Some(hub) = &self.hub {
            let load = hub::Load { messages: self.messages, max_messages: QUEUE, waiting: self.waiting };
            hub.tick(&pending.merged, &load);
        }
        if start != end && end % self.report_length == 0 {
            self.emit_report();
        }
        self.roll_by_time(pending.merged.interval);
        Some(pending.merged)
    }

    fn emit_report(&mut self) {
        let report = std::mem::take(&mut self.report);
        for at in 0..self.outputs.len() {
            self.attempt(at, |output| output.interval(&report));
        }
    }

    /// Calls an output; what fails is remembered once, and the output is asked again next time: space may
    /// return.
    fn attempt(&mut self, at: usize, call: impl FnOnce(&mut Box<dyn Output>) -> io::Result<()>) -> bool {
        let Some(output) = self.outputs.get_mut(at) else { return false };
        match call(output) {
            Ok(()) => true,
            Err(error) => {
                let text = error.to_string();
                if self.failures.len() < 100 && !self.failures.contains(&text) {
                    if !self.silent {
                        eprintln!("weir: {text}");
                    }
                    self.failures.push(text);
                }
                false
            }
        }
    }
}
