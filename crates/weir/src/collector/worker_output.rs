//! What one worker sends to the collector. A run over files waits for room in a full queue. A live run sheds rows instead,
//! and counts them.

use super::{Held, Message, OpenFlows, Part, ROWS, Records, Rows};
use crate::drive::{Boundary, Destination, WhenFull};
use crate::memory::{Charge, Room};
use crate::resolved::Resolved;
use crate::routes::{LEVELS, Routes};
use crate::triggers::Preroll;
use crossbeam_channel::{Sender, TrySendError};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_api::{AnswerId, SessionCount, Snapshot};
use weir_engine::{Emitted, FlowIdentity, FlowRecord, Sink};
use weir_proto::{FILES, Record};
use weir_wire::{Batch, Time};

/// Maximum bytes of records in a message, not counting the last record.
const MAX_PACKED: usize = 256 << 10;
/// Maximum number of ticks that wait in a live worker for room in the queue. Further ones are added to the last of them.
const MAX_BACKLOG: usize = 4;
/// Number of snapshots of a run over files that are sent together, and the bytes after which they are sent at once: each time the
/// collector is woken costs as much as a short interval.
const TOGETHER: usize = 16;
const MAX_UNSENT: usize = 64 << 10;

/// Functions that deliver rows one after another, with the number of these rows.
type Shared = Vec<(Box<[AnswerId]>, u64)>;

/// Sends one worker's results to the collector.
pub struct WorkerOutput {
    to: Sender<Message>,
    when_full: WhenFull,
    /// Room for messages on their way to the collector, shared by all workers.
    room: Arc<Room>,
    /// Where an output reads open flows, the length of the intervals at whose ends they are delivered, in nanoseconds.
    open_every: Option<u64>,
    /// Where what the functions of the plan deliver goes.
    routes: Routes,
    worker: usize,
    /// The part under way.
    part: Part,
    rows: Rows,
    records: Records,
    /// The open flows that are being collected.
    open: Option<Box<OpenFlows>>,
    /// Time of the earliest packet since open flows were delivered, in nanoseconds since the epoch.
    moved_since: Option<u64>,
    /// Rows, including records, that were shed since the last snapshot.
    rows_shed: u64,
    kept: u64,
    /// Messages of a live worker that found no room, oldest first.
    backlog: VecDeque<Message>,
    /// Snapshots of a run over files that will be sent together. They have no charge, because a worker that waits for others must
    /// not hold room that these wait for.
    unsent: Vec<(Part, Box<Snapshot>)>,
    /// Bytes of those, and of the worker's sessions at the end of the last one.
    unsent_bytes: usize,
    sessions: usize,
    /// Counts of a writer of files that ended since the last snapshot.
    files_ended: SessionCount,
    /// The latest packets of a run over what cannot be read again, for triggers.
    ring: Option<Preroll>,
}

impl WorkerOutput {
    /// The output of one worker, of a run without destinations. The workers share the room.
    pub fn new(worker: usize, to: Sender<Message>, when_full: WhenFull, room: &Arc<Room>) -> Self {
        Self {
            to,
            when_full,
            room: Arc::clone(room),
            open_every: None,
            routes: Routes::default(),
            worker,
            part: Part::default(),
            rows: Rows::default(),
            records: Records::default(),
            open: None,
            moved_since: None,
            rows_shed: 0,
            kept: 0,
            backlog: VecDeque::new(),
            unsent: Vec::new(),
            unsent_bytes: 0,
            sessions: 0,
            files_ended: SessionCount::default(),
            ring: None,
        }
    }

    /// The ring, after the last packet.
    pub fn into_ring(self) -> Option<Preroll> {
        self.ring
    }

    /// Keeps the latest packets in a ring.
    pub fn keep(mut self, ring: Option<Preroll>) -> Self {
        self.ring = ring;
        self
    }

    /// Begins with these destinations, and with the length of the intervals at whose ends open flows are delivered, if an output
    /// reads them.
    pub fn to(mut self, routes: &Routes, open_every: Option<u64>) -> Self {
        (self.routes, self.open_every) = (routes.clone(), open_every);
        self.routes.set_worker(self.worker);
        self
    }

    /// What functions deliver goes to these destinations from now on.
    pub fn follow(&mut self, routes: &Routes) {
        let ended = self.routes.follow(routes, self.worker);
        self.files_ended.add(&ended);
    }

    /// All packets of a live run up to a time were taken, as far as they are the worker's.
    pub fn reach(&self, time: Time) {
        self.routes.packets.iter().for_each(|outlet| outlet.reach(self.worker, time));
    }

    /// Sends the snapshot of packets of an interval that was sent already.
    pub fn send_late(&mut self, snapshot: Snapshot) {
        self.see_packets(&snapshot);
        let charge = self.room.take(snapshot.memory());
        self.send_later(Message::Late(Box::new(snapshot), charge));
    }

    /// Sends a message after the snapshots before it, and waits while the queue is full.
    fn send(&mut self, message: Message) {
        self.send_snapshots();
        // The collector outlives the workers, unless the run has ended.
        let _ = self.to.send(message);
    }

    /// Sends the snapshots that were not sent yet.
    fn send_snapshots(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        let charge = self.room.wait(std::mem::take(&mut self.unsent_bytes));
        let held = Held { charge, worker: self.worker, sessions: self.sessions };
        let _ = self.to.send(Message::Snapshots(std::mem::take(&mut self.unsent), held));
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

    fn send_records(&mut self) {
        let records = std::mem::take(&mut self.records);
        let (number, part) = (records.len(), self.part);
        if number == 0 {
            return;
        }
        let functions = self.may_shed(|| records.functions());
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
        let functions = self.may_shed(|| rows.functions());
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

    /// The functions of the rows of a message that may be shed; none in a run that waits.
    fn may_shed(&self, functions: impl FnOnce() -> Shared) -> Shared {
        if self.when_full == WhenFull::Shed { functions() } else { Vec::new() }
    }

    /// Counts rows as shed, each for the logs that functions deliver it to.
    fn shed(&mut self, rows: usize, functions: &[(Box<[AnswerId]>, u64)]) {
        self.rows_shed += rows as u64;
        for (functions, number) in functions {
            self.routes.logs.count(functions, |log| log.shed(*number));
        }
    }

    /// Sends a message of `bytes` bytes if there is room for it, for which a run over files waits. Returns whether it was sent.
    fn attempt(&mut self, bytes: usize, message: impl FnOnce(Charge) -> Message) -> bool {
        match self.when_full {
            WhenFull::Wait => {
                self.send_snapshots();
                let message = message(self.room.wait(bytes));
                self.send(message);
                true
            }
            // Rows do not overtake the snapshots of earlier intervals.
            WhenFull::Shed => {
                self.backlog.is_empty()
                    && self.room.attempt(bytes).is_some_and(|charge| {
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
        let every = self.open_every.filter(|every| until.is_multiple_of(*every))?;
        let max = OpenFlows::fitting(self.room.limit() / 4);
        self.open = Some(Box::new(OpenFlows::new(since / every * every, until, max)));
        Some(Time(since))
    }

    /// A snapshot is never shed, because its counters are needed for correct sums.
    fn interval(&mut self, mut snapshot: Snapshot, sessions: usize) {
        self.send_rows();
        self.send_records();
        self.send_open();
        snapshot.ledger.rows_shed += std::mem::take(&mut self.rows_shed);
        self.routes.packets.iter_mut().for_each(|outlet| outlet.count_shed(&mut snapshot));
        snapshot.sessions.add(&std::mem::take(&mut self.files_ended));
        self.routes.count_files(&mut snapshot.sessions);
        let worker = self.worker;
        let part = self.part;
        self.part = Part { stretch: part.stretch + 1, silence: 0 };
        if self.when_full == WhenFull::Wait {
            self.sessions = sessions;
            self.unsent_bytes += snapshot.memory();
            self.unsent.push((part, Box::new(snapshot)));
            if self.unsent.len() >= TOGETHER || self.unsent_bytes > MAX_UNSENT {
                self.send_snapshots();
            }
            return;
        }
        self.send_backlog();
        let is_full = self.backlog.len() >= MAX_BACKLOG;
        if let Some(Message::Snapshots(snapshots, held)) = self.backlog.back_mut().filter(|_| is_full)
            && let Some((last, waiting)) = snapshots.last_mut()
        {
            // The queue is full for seconds. Counts are added up, so that only their resolution is lost.
            snapshot.ledger.ticks_joined += 1;
            waiting.merge(&snapshot);
            *last = part;
            held.sessions = sessions;
            return;
        }
        // A live run sends one per second, for which the room always suffices.
        let charge = self.room.take(snapshot.memory());
        self.send_later(Message::Snapshots(
            vec![(part, Box::new(snapshot))],
            Held { charge, worker, sessions },
        ));
    }

    fn kept_packets(&self) -> u64 {
        self.kept
    }

    fn boundary(&mut self, boundary: Boundary) {
        // The next unit may be long in coming.
        if let Boundary::Unit(last) = boundary {
            self.send_snapshots();
            if let Some(ring) = &mut self.ring {
                ring.take(Batch { bytes: &[], slots: &[] }, last);
            }
        }
        let worker = self.worker;
        for (outlet, level) in self.routes.packets.iter_mut().zip(LEVELS) {
            if boundary.ends_round(level) {
                outlet.end_round(worker);
            }
        }
        if let Boundary::Packet(number) = boundary {
            self.routes.reach(number);
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
    fn flow(&mut self, flow: &FlowRecord, functions: &[AnswerId]) {
        if self.routes.logs.count(functions, |log| log.offer(1)) {
            self.rows.push(flow, functions);
            if self.rows.len() == ROWS {
                self.send_rows();
            }
        }
    }

    fn record(&mut self, flow: &FlowIdentity, mut record: Record<'_>, functions: &[AnswerId]) {
        if *record.table == FILES {
            self.routes.end_file(&mut record, functions);
        }
        if functions.is_empty() {
            return;
        }
        if self.routes.logs.count(functions, |log| log.offer(1)) {
            self.records.push(flow, &record, functions);
        } else if Resolved::reads(record.table) {
            self.records.push_names(flow, &record);
        }
        if self.records.len() == ROWS || self.records.packed() > MAX_PACKED {
            self.send_records();
        }
    }
}

impl Sink for WorkerOutput {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Flow(flow, functions) => self.flow(flow, functions),
            Emitted::Open(flow) => {
                if let Some(open) = &mut self.open {
                    open.push(flow);
                }
            }
            Emitted::Matching(packets) => {
                self.kept += packets.len() as u64;
                if let Some(ring) = &mut self.ring {
                    ring.take(packets, packets.slots.last().map_or(Time(0), |slot| slot.time));
                }
            }
            Emitted::Record(flow, record, functions) => self.record(flow, record, functions),
            Emitted::Packets(packets, functions) => {
                let (worker, when_full) = (self.worker, self.when_full);
                for outlet in &mut self.routes.packets {
                    outlet.take(worker, packets, functions, when_full);
                }
            }
            Emitted::Missing(id, packets) => {
                self.routes.packets.iter().for_each(|outlet| outlet.miss(id, packets));
            }
            Emitted::Decided(flow) => {
                self.routes.packets.iter().for_each(|outlet| outlet.decide(flow));
            }
            Emitted::Withheld(file) => self.routes.withhold(file),
            // No output of a run takes streams or details of measurements.
            Emitted::Chunk(..) | Emitted::Measured(..) => {}
        }
    }

    fn content(&mut self, _: &FlowIdentity, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        self.routes.content(packet, file, offset, bytes)
    }
}
