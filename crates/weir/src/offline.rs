//! Runs capture files through the workers.
//!
//! No thread only reads. An idle worker reads the next unit, decodes it and sorts its packets by owner, so that two
//! workers are twice as fast as one even if reading is half of the work. Each worker takes its packets of every unit,
//! in the order of the units.

use crate::collector::WorkerOutput;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use weir_api::{Interval, Snapshot};
use weir_capture::{Files, ReadError};
use weir_engine::{IntervalClock, Plan, Stretch, Worker};
use weir_wire::{Batch, Layers, PacketBuf, Slot, Time, decode_batch, steer_hash};

/// The source of packets, and the limit of a run.
pub struct Input<'a> {
    /// The files.
    pub files: Files,
    /// The length of an interval in nanoseconds.
    pub interval: u64,
    /// The workers' plan.
    pub plan: &'a Plan,
    /// Stop after this many matching packets; only with one worker.
    pub limit: Option<u64>,
    /// Set by the caller to end the run early.
    pub stop: &'a AtomicBool,
}

/// The result of a run over files.
pub struct Outcome {
    /// The files, with their descriptions.
    pub files: Files,
    /// Read errors, at most one per input; packets before them were analysed.
    pub errors: Vec<ReadError>,
    /// Number of jumps in the packets' time, forward and back.
    pub jumps: u64,
    /// Number of packets counted in another interval than the one of their time.
    pub late: u64,
    /// Whether the packets' times never decreased.
    pub in_order: bool,
}

/// Reads everything and returns when every worker has sent its last snapshot. The worker that reads calls `watch` with
/// the files from time to time.
pub fn run(
    input: Input<'_>,
    workers: Vec<Worker>,
    worker_outputs: Vec<WorkerOutput>,
    watch: &(dyn Fn(&Files) + Sync),
) -> Outcome {
    let pipeline = Pipeline::new(input, workers.len(), watch);
    std::thread::scope(|scope| {
        for (index, (worker, worker_output)) in workers.into_iter().zip(worker_outputs).enumerate() {
            let pipeline = &pipeline;
            scope.spawn(move || pipeline.work(index, worker, worker_output));
        }
    });
    let reader = pipeline.reader.into_inner().unwrap_or_else(PoisonError::into_inner);
    let jumps = reader.clock.jumps() + reader.leaps_back;
    let late = reader.clock.late();
    Outcome { files: reader.files, errors: reader.errors, jumps, late, in_order: reader.in_order }
}

/// A larger step back in nanoseconds is a change of the clock: disorder between the queues of a card is much smaller.
const LEAP_BACK: u64 = 1_000_000_000;

/// Number of packets at the beginning of a run whose checksums are all verified.
const CLOSE_LOOK: u64 = 4096;

/// Maximum number of units in work, per worker: large enough that a waiting worker has work, small enough that the
/// units stay in the cache that the cores share.
pub const UNITS_PER_WORKER: usize = 3;

/// A stretch of the input, decoded and sorted by owner.
#[derive(Default)]
struct WorkUnit {
    buffer: PacketBuf,
    /// The packets of `buffer`, by segment and then by owner.
    slots: Vec<Slot>,
    /// Layers of the packets in `slots`; empty if each worker decodes its own packets.
    layers: Vec<Layers>,
    segments: Vec<Segment>,
}

/// Packets of one interval, either all at the beginning of the run or none.
struct Segment {
    /// The stretch that begins with the first packet of this segment, if one does.
    begins: Option<Stretch>,
    /// Whether the segment is at the beginning of the run.
    closely: bool,
    /// Each worker's range of [`WorkUnit::slots`].
    shares: Vec<Range<usize>>,
}

/// Sets the time range of a snapshot, and the packets offered by a file to the number read: a file drops none.
fn of_file(mut snapshot: Snapshot, stretch: Option<Stretch>) -> Snapshot {
    snapshot.ledger.capture.offered = snapshot.ledger.caught;
    snapshot.interval = stretch.map_or_else(Interval::default, |stretch| stretch.interval);
    snapshot.watched = stretch.map(|stretch| stretch.watched);
    snapshot
}

/// The workers and what they share: the input, units in work, and the limit of the run.
struct Pipeline<'a> {
    workers: usize,
    plan: &'a Plan,
    reader: Mutex<UnitReader>,
    board: Mutex<Board>,
    changed: Condvar,
    limit: Option<u64>,
    stop: &'a AtomicBool,
    watch: &'a (dyn Fn(&Files) + Sync),
}

/// Reads units: the input, its clock, and counts of what was read so far.
struct UnitReader {
    files: Files,
    clock: IntervalClock,
    /// Time of the last packet.
    latest: Time,
    leaps_back: u64,
    in_order: bool,
    next: u64,
    packets: u64,
    ended: bool,
    errors: Vec<ReadError>,
}

/// Units in work. The oldest has number `first`.
#[derive(Default)]
struct Board {
    first: u64,
    posted: VecDeque<Option<Arc<WorkUnit>>>,
    /// Number of workers that have not taken the unit.
    untaken: VecDeque<usize>,
    /// Units that were requested, whether they are posted or not.
    issued: u64,
    /// No further unit will be requested.
    closed: bool,
    /// Units for reuse.
    spare: Vec<WorkUnit>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The packets of a worker that panicked are lost, which is reported; the shared state is consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Pipeline<'a> {
    fn new(input: Input<'a>, workers: usize, watch: &'a (dyn Fn(&Files) + Sync)) -> Self {
        let reader = UnitReader {
            files: input.files,
            clock: IntervalClock::new(input.interval),
            latest: Time(0),
            leaps_back: 0,
            in_order: true,
            next: 0,
            packets: 0,
            ended: false,
            errors: Vec::new(),
        };
        Self {
            workers,
            plan: input.plan,
            reader: Mutex::new(reader),
            board: Mutex::new(Board::default()),
            changed: Condvar::new(),
            limit: input.limit,
            stop: input.stop,
            watch,
        }
    }

    /// The loop of a worker.
    fn work(&self, index: usize, mut worker: Worker, mut worker_output: WorkerOutput) {
        let mut next = 0;
        let mut left = self.limit;
        let mut current: Option<Stretch> = None;
        'units: while let Some(unit) = self.unit(next) {
            for segment in &unit.segments {
                // Packets after the limit are not counted.
                if left == Some(0) {
                    self.stop.store(true, Ordering::Relaxed);
                    break 'units;
                }
                worker.look_closely(segment.closely);
                if let Some(begins) = segment.begins
                    && let Some(ended) = current.replace(begins)
                {
                    let snapshot = match begins.is_later {
                        true => worker.tick(Time(ended.interval.end), &mut worker_output),
                        false => worker.hand_over(&mut worker_output),
                    };
                    worker_output.send_snapshot(of_file(snapshot, Some(ended)), worker.sessions_memory());
                }
                let Some(share) = segment.shares.get(index).cloned() else { continue };
                let Some(slots) = unit.slots.get(share.clone()) else { continue };
                let batch = Batch { bytes: &unit.buffer.bytes, slots };
                match (&mut left, unit.layers.get(share)) {
                    (Some(left), _) => self.limited(&mut worker, batch, &mut worker_output, left),
                    (None, Some(layers)) => worker.decoded(batch, layers, &mut worker_output),
                    (None, None) => worker.batch(batch, &mut worker_output),
                }
            }
            self.taken(next, unit);
            next += 1;
        }
        let snapshot = of_file(worker.finish(&mut worker_output), current);
        worker_output.send_snapshot(snapshot, worker.sessions_memory());
        worker_output.finish();
    }

    /// Takes one packet at a time, until the limit of matching packets is reached.
    fn limited(
        &self,
        worker: &mut Worker,
        batch: Batch<'_>,
        worker_output: &mut WorkerOutput,
        left: &mut u64,
    ) {
        for slot in batch.slots {
            if *left == 0 {
                self.stop.store(true, Ordering::Relaxed);
                return;
            }
            let kept = worker_output.kept_packets();
            let one = Batch { bytes: batch.bytes, slots: std::slice::from_ref(slot) };
            worker.batch(one, worker_output);
            *left -= worker_output.kept_packets() - kept;
        }
    }

    /// The unit with that number, made here unless another worker makes it; `None` after the last one.
    fn unit(&self, number: u64) -> Option<Arc<WorkUnit>> {
        let mut board = lock(&self.board);
        loop {
            let at = (number - board.first) as usize;
            if let Some(Some(unit)) = board.posted.get(at) {
                return Some(Arc::clone(unit));
            }
            if board.closed && number >= board.issued {
                return None;
            }
            let room = self.workers * UNITS_PER_WORKER;
            if !board.closed && ((board.issued - board.first) as usize) < room {
                let spare = board.spare.pop().unwrap_or_default();
                drop(board);
                self.make(spare);
                board = lock(&self.board);
                continue;
            }
            board = self.changed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads, decodes and posts the next unit.
    fn make(&self, mut unit: WorkUnit) {
        let mut cuts = Vec::new();
        let mut reader = lock(&self.reader);
        if !reader.read(&mut unit.buffer, &mut cuts, self.stop) {
            drop(reader);
            let mut board = lock(&self.board);
            board.closed = true;
            board.spare.push(unit);
            drop(board);
            self.changed.notify_all();
            return;
        }
        (self.watch)(&reader.files);
        let number = reader.next;
        reader.next += 1;
        let length = unit.buffer.slots.len();
        let close = usize::try_from(CLOSE_LOOK.saturating_sub(reader.packets)).unwrap_or(length).min(length);
        reader.packets += length as u64;
        // Requested before the reader is unlocked, so that numbers are issued in order.
        let mut board = lock(&self.board);
        board.issued = number + 1;
        board.posted.push_back(None);
        board.untaken.push_back(self.workers);
        drop(board);
        drop(reader);

        let parts = parts(length, &cuts, close);
        if self.plan.follows_flows() && self.workers > 1 {
            sort(&mut unit, parts, self.workers);
        } else {
            give(&mut unit, parts, number as usize % self.workers);
        }

        let mut board = lock(&self.board);
        let at = (number - board.first) as usize;
        if let Some(place) = board.posted.get_mut(at) {
            *place = Some(Arc::new(unit));
        }
        drop(board);
        self.changed.notify_all();
    }

    /// Returns a unit; the last worker to do so frees its place.
    fn taken(&self, number: u64, unit: Arc<WorkUnit>) {
        drop(unit);
        let mut board = lock(&self.board);
        let at = (number - board.first) as usize;
        if let Some(untaken) = board.untaken.get_mut(at) {
            *untaken -= 1;
        }
        while board.untaken.front() == Some(&0) {
            board.untaken.pop_front();
            board.first += 1;
            if let Some(unit) = board.posted.pop_front().flatten().and_then(Arc::into_inner) {
                board.spare.push(unit);
            }
        }
        drop(board);
        self.changed.notify_all();
    }
}

impl UnitReader {
    /// Fills `buffer`, and records which packets begin a stretch. Returns `false` at the end of the input.
    fn read(&mut self, buffer: &mut PacketBuf, cuts: &mut Vec<(usize, Stretch)>, stop: &AtomicBool) -> bool {
        loop {
            if self.ended || stop.load(Ordering::Relaxed) {
                self.ended = true;
                return false;
            }
            match self.files.fill(buffer) {
                Ok(true) => break,
                Ok(false) => self.ended = true,
                // A bad input does not stop the others.
                Err(error) => self.errors.push(error),
            }
        }
        let mut starts = self.files.starts().iter().copied().peekable();
        let mut number = self.packets as u32;
        for (at, slot) in buffer.slots.iter_mut().enumerate() {
            number = number.wrapping_add(1);
            slot.number = number;
            if starts.next_if_eq(&at).is_some() {
                self.clock.begin();
            }
            if slot.time < self.latest {
                self.in_order = false;
                self.leaps_back += u64::from(self.latest.since(slot.time) > LEAP_BACK);
            }
            self.latest = slot.time;
            if let Some(stretch) = self.clock.observe(slot.time) {
                cuts.push((at, stretch));
            }
        }
        true
    }
}

/// A part of a unit that becomes a segment.
struct Part {
    packets: Range<usize>,
    begins: Option<Stretch>,
    closely: bool,
}

/// Splits a unit at the starts of stretches, and at the end of the beginning of the run. The latter is after the first
/// `close` packets, so that it does not depend on the distribution of packets over units.
fn parts(length: usize, cuts: &[(usize, Stretch)], close: usize) -> Vec<Part> {
    let mut parts = Vec::with_capacity(cuts.len() + 2);
    let mut from = 0;
    let mut begins = None;
    for (to, next) in cuts.iter().map(|(at, stretch)| (*at, Some(*stretch))).chain([(length, None)]) {
        let close = close.clamp(from, to);
        if close > from {
            parts.push(Part { packets: from..close, begins: begins.take(), closely: true });
        }
        if to > close || begins.is_some() {
            parts.push(Part { packets: close..to, begins, closely: false });
        }
        (from, begins) = (to, next);
    }
    parts
}

/// Gives all packets of a unit to one worker, because it is the only one or flows are not needed. The worker decodes
/// them block by block, so that the layers are used before they leave the first-level cache.
fn give(unit: &mut WorkUnit, parts: Vec<Part>, owner: usize) {
    let WorkUnit { buffer, slots, layers, segments, .. } = unit;
    std::mem::swap(slots, &mut buffer.slots);
    layers.clear();
    segments.clear();
    segments.extend(parts.into_iter().map(|Part { packets, begins, closely }| {
        let mut shares = vec![0..0; owner];
        shares.push(packets);
        Segment { begins, closely, shares }
    }));
}

/// Decodes a unit's packets and sorts them by owner within each interval.
fn sort(unit: &mut WorkUnit, parts: Vec<Part>, workers: usize) {
    let WorkUnit { buffer, slots, layers, segments, .. } = unit;
    slots.clear();
    layers.clear();
    segments.clear();
    let batch = buffer.batch();
    let mut decoded = Vec::new();
    decode_batch(batch, &mut decoded);
    let owner = |(packet, layers)| steer_hash(&packet, layers) as usize % workers;
    let owners: Vec<usize> = batch.packets().zip(&decoded).map(owner).collect();
    for Part { packets, begins, closely } in parts {
        // Start of each worker's range, and then position of its next packet.
        let mut ends = vec![0; workers];
        for owner in owners.get(packets.clone()).unwrap_or_default() {
            ends[*owner] += 1;
        }
        let mut from = slots.len();
        let mut shares = Vec::with_capacity(workers);
        for end in &mut ends {
            let length = std::mem::replace(end, from);
            shares.push(from..from + length);
            from += length;
        }
        slots.resize(from, Slot::default());
        layers.resize(from, Layers::default());
        for at in packets {
            let place = ends[owners[at]];
            ends[owners[at]] += 1;
            slots[place] = buffer.slots[at];
            layers[place] = decoded[at];
        }
        segments.push(Segment { begins, closely, shares });
    }
}
