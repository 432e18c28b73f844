//! Runs capture files through the workers.
//!
//! No thread only reads. An idle worker reads the next unit, decodes it and sorts its packets by owner, so that two
//! workers are twice as fast as one even if reading is half of the work. Each worker takes its packets of every unit,
//! in the order of the units. Where reading may wait for the writer of a pipe, a worker takes what was read before it reads
//! on: a worker that waits would keep the results of these packets from the user.

use crate::drive::{Boundary, Destination, Drive, WholeRun};
use crate::leaps::UnitLeaps;
use crate::turns::Turns;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use weir_api::{Event, Interval, Snapshot};
use weir_capture::{Files, ReadAhead, ReadError};
use weir_engine::{IntervalClock, Plan, Sink, Stretch, Worker};
use weir_wire::{Batch, Layers, PacketBuf, Slot, Time, decode_batch, steer_hash};

/// The source of packets, and the limit of a run.
pub struct Input<'a> {
    /// The files.
    pub files: Files,
    /// The length of an interval in nanoseconds.
    pub interval: u64,
    /// Nanoseconds of packet time after which idle flows end within an interval. `None` if they end with the intervals.
    pub ticks: Option<u64>,
    /// The order of the workers' packets, if a result depends on it.
    pub turns: Option<Arc<Turns>>,
    /// The workers' plan.
    pub plan: &'a Plan,
    /// Stop after this many matching packets; only with one worker.
    pub limit: Option<u64>,
    /// Set by the caller to end the run early.
    pub stop: &'a AtomicBool,
}

impl<'a> Input<'a> {
    /// A source whose packets are one interval, for [`run_one`].
    pub fn whole(files: Files, plan: &'a Plan, ticks: u64, stop: &'a AtomicBool) -> Self {
        Input { files, interval: u64::MAX, ticks: Some(ticks), turns: None, plan, limit: None, stop }
    }
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

/// Reads everything and returns when every worker has finished, with the destinations of the workers. The first worker
/// runs on the calling thread. The worker that reads calls `watch` with the files from time to time.
pub fn run<D: Destination + Send>(
    input: Input<'_>,
    workers: Vec<Worker>,
    destinations: Vec<D>,
    watch: &(dyn Fn(&Files) + Sync),
) -> (Outcome, Vec<D>) {
    let pipeline = Pipeline::new(input, workers.len(), watch);
    let destinations = std::thread::scope(|scope| {
        let pipeline = &pipeline;
        let mut pairs = workers.into_iter().zip(destinations).enumerate();
        let first = pairs.next();
        let others: Vec<_> = pairs
            .map(|(index, (worker, destination))| {
                scope.spawn(move || pipeline.work(index, worker, destination))
            })
            .collect();
        let first = first.map(|(index, (worker, destination))| pipeline.work(index, worker, destination));
        let others =
            others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        first.into_iter().chain(others).collect()
    });
    (pipeline.outcome(), destinations)
}

/// Reads everything through one worker on the calling thread, so that the sink gets results in the order of packets.
pub fn run_one<S: Sink>(input: Input<'_>, worker: Worker, sink: S) -> (Outcome, WholeRun<S>) {
    let pipeline = Pipeline::new(input, 1, &|_| ());
    let whole = pipeline.work(0, worker, WholeRun::new(sink));
    (pipeline.outcome(), whole)
}

/// A larger step back in nanoseconds is a change of the clock: disorder between the queues of a card is much smaller.
const LEAP_BACK: u64 = 1_000_000_000;

/// Bytes of packets of a round, which bounds the packets that wait until all workers have passed its end.
const ROUND: usize = 1 << 20;

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
    /// Number of the packet after the last one.
    end: u32,
    /// Time of the last packet.
    last: Time,
    leaps: UnitLeaps,
}

/// Packets of one tick of one interval, either all at the beginning of the run or none.
struct Segment {
    /// Number of its first packet, of whichever worker.
    first: u32,
    /// What begins with that packet.
    begins: Begins,
    /// Whether the segment is at the beginning of the run.
    closely: bool,
    /// Each worker's range of [`WorkUnit::slots`].
    shares: Vec<Range<usize>>,
}

/// What begins with a packet.
#[derive(Clone, Copy, Default)]
struct Begins {
    /// A stretch of an interval.
    stretch: Option<Stretch>,
    /// A tick, and the time up to which time has passed.
    tick: Option<Time>,
    /// Whether a round begins: see [`Boundary::Fixed`].
    round: bool,
}

impl Begins {
    fn is_any(&self) -> bool {
        self.stretch.is_some() || self.tick.is_some() || self.round
    }
}

/// Sets the time range of a snapshot, and the packets offered by a file to the number read: a file drops none. `events` are
/// those that were found in reading.
fn of_file(mut snapshot: Snapshot, stretch: Option<Stretch>, events: &[Event]) -> Snapshot {
    snapshot.add_events(events);
    snapshot.ledger.capture.offered = snapshot.ledger.caught;
    snapshot.interval = stretch.map_or_else(Interval::default, |stretch| stretch.interval);
    snapshot.watched = stretch.map(|stretch| stretch.watched);
    snapshot
}

/// The workers and what they share: the input, units in work, and the limit of the run.
struct Pipeline<'a> {
    workers: usize,
    /// The length of an interval in nanoseconds.
    interval: u64,
    turns: Option<Arc<Turns>>,
    plan: &'a Plan,
    reader: Mutex<UnitReader>,
    /// The blocks that follow in the input.
    ahead: ReadAhead,
    /// Whether reading may wait for a writer.
    may_wait: bool,
    board: Mutex<Board>,
    changed: Condvar,
    limit: Option<u64>,
    stop: &'a AtomicBool,
    watch: &'a (dyn Fn(&Files) + Sync),
}

/// A worker's place in the order of packets.
struct Turn<'a> {
    turns: Option<&'a Turns>,
    worker: usize,
}

impl Turn<'_> {
    /// The worker has taken its packets before the one of that number.
    fn reach(&self, packet: u32) {
        if let Some(turns) = self.turns {
            turns.reach(self.worker, Some(packet));
        }
    }
}

impl Drop for Turn<'_> {
    /// A worker that has ended, also by a panic, is waited for no more.
    fn drop(&mut self) {
        if let Some(turns) = self.turns {
            turns.reach(self.worker, None);
        }
    }
}

/// Reads units: the input, its clock, and counts of what was read so far.
struct UnitReader {
    files: Files,
    clock: IntervalClock,
    ticks: Option<TickClock>,
    /// Time of the last packet.
    latest: Time,
    leaps_back: u64,
    in_order: bool,
    next: u64,
    packets: u64,
    /// Bytes of packets since a round began.
    round: usize,
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
    /// Number of workers that wait for a change. To wake none would take a system call.
    asleep: usize,
}

impl Board {
    /// The unit of a number, if it is posted.
    fn posted(&self, number: u64) -> Option<Arc<WorkUnit>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.posted.get(at)?.clone()
    }
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
            ticks: input.ticks.map(TickClock::new),
            latest: Time(0),
            leaps_back: 0,
            in_order: true,
            next: 0,
            packets: 0,
            round: 0,
            ended: false,
            errors: Vec::new(),
        };
        Self {
            workers,
            interval: input.interval.max(1),
            turns: input.turns,
            plan: input.plan,
            ahead: reader.files.ahead(),
            may_wait: reader.files.may_wait(),
            reader: Mutex::new(reader),
            board: Mutex::new(Board::default()),
            changed: Condvar::new(),
            limit: input.limit,
            stop: input.stop,
            watch,
        }
    }

    /// The result, after the workers have finished.
    fn outcome(self) -> Outcome {
        let UnitReader { files, errors, clock, leaps_back, in_order, .. } =
            self.reader.into_inner().unwrap_or_else(PoisonError::into_inner);
        Outcome { files, errors, jumps: clock.jumps() + leaps_back, late: clock.late(), in_order }
    }

    /// The loop of a worker.
    fn work<D: Destination>(&self, index: usize, worker: Worker, destination: D) -> D {
        let mut drive = Drive::new(worker, destination, self.stop, self.limit);
        let turn = Turn { turns: self.turns.as_deref(), worker: index };
        let (mut next, mut looked) = (0, 0);
        let mut current: Option<Stretch> = None;
        let mut leaps = Vec::new();
        'units: while let Some(unit) = self.unit(next, index, drive.worker(), &mut looked) {
            let mut begun = 0;
            leaps.extend(unit.leaps.event(begun).filter(|_| index == 0));
            for segment in &unit.segments {
                if drive.is_full() {
                    break 'units;
                }
                if segment.begins.round {
                    drive.destination.boundary(Boundary::Fixed);
                }
                turn.reach(segment.first);
                drive.destination.boundary(Boundary::Packet(segment.first));
                drive.worker().look_closely(segment.closely);
                if let Some(begins) = segment.begins.stretch
                    && let Some(ended) = current.replace(begins)
                {
                    let snapshot = match begins.is_later {
                        true => drive.tick(Time(ended.interval.end)),
                        false => drive.hand_over(),
                    };
                    drive.send(of_file(snapshot, Some(ended), &leaps));
                    leaps.clear();
                    if begins.is_later {
                        drive.pass_silence(begins.silence(), self.interval);
                    }
                }
                if segment.begins.stretch.is_some() {
                    begun += 1;
                    // All workers see them, and one of them counts them.
                    leaps.extend(unit.leaps.event(begun).filter(|_| index == 0));
                }
                if let Some(tick) = segment.begins.tick {
                    drive.end_idle(tick);
                }
                let Some(share) = segment.shares.get(index).cloned() else { continue };
                let Some(slots) = unit.slots.get(share.clone()) else { continue };
                drive.batch(Batch { bytes: &unit.buffer.bytes, slots }, unit.layers.get(share));
            }
            turn.reach(unit.end);
            drive.destination.boundary(Boundary::Packet(unit.end));
            drive.destination.boundary(Boundary::Unit(unit.last));
            self.taken(next, unit);
            next += 1;
            if drive.worker().looks_again() {
                looked = next;
            }
        }
        let snapshot = of_file(drive.finish(), current, &leaps);
        drive.destination.boundary(Boundary::End);
        drive.send(snapshot);
        drive.destination.done();
        drive.destination
    }

    /// The unit with that number, made here unless another worker makes it; `None` after the last one. Where packets have an
    /// order, the worker of that index looks at all units that are made, from number `looked` on.
    fn unit(
        &self,
        number: u64,
        index: usize,
        worker: &mut Worker,
        looked: &mut u64,
    ) -> Option<Arc<WorkUnit>> {
        let mut board = lock(&self.board);
        let mut reads_ahead = self.workers > 1;
        loop {
            // First, because others may wait for it.
            if let Some(unit) = self.turns.as_ref().and_then(|_| board.posted(*looked)) {
                drop(board);
                look_ahead(&unit, index, worker);
                *looked += 1;
                board = lock(&self.board);
                continue;
            }
            if let Some(unit) = board.posted(number) {
                return Some(unit);
            }
            if board.closed && number >= board.issued {
                return None;
            }
            let has_room = ((board.issued - board.first) as usize) < self.workers * UNITS_PER_WORKER;
            let may_read = !board.closed && has_room && (!self.may_wait || number >= board.issued);
            if may_read && reads_ahead {
                // Read before the reader is locked, so that several workers read at once.
                drop(board);
                reads_ahead = self.ahead.read();
                if reads_ahead {
                    self.make(lock(&self.reader));
                }
                board = lock(&self.board);
                continue;
            }
            reads_ahead = self.workers > 1;
            if let Some(reader) = may_read.then(|| self.idle_reader()).flatten() {
                drop(board);
                self.make(reader);
                board = lock(&self.board);
                continue;
            }
            board.asleep += 1;
            board = self.changed.wait(board).unwrap_or_else(PoisonError::into_inner);
            board.asleep -= 1;
        }
    }

    /// The reader, unless a worker reads.
    fn idle_reader(&self) -> Option<MutexGuard<'_, UnitReader>> {
        match self.reader.try_lock() {
            Ok(reader) => Some(reader),
            Err(TryLockError::Poisoned(reader)) => Some(reader.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Reads, decodes and posts the next unit.
    fn make(&self, mut reader: MutexGuard<'_, UnitReader>) {
        let mut unit = lock(&self.board).spare.pop().unwrap_or_default();
        let mut cuts = Vec::new();
        if !reader.read(&mut unit.buffer, &mut cuts, &mut unit.leaps, self.stop) {
            let mut board = lock(&self.board);
            board.closed = true;
            self.ahead.clear();
            board.spare.push(unit);
            drop(reader);
            self.change(board);
            return;
        }
        (self.watch)(&reader.files);
        let number = reader.next;
        reader.next += 1;
        let length = unit.buffer.slots.len();
        let close = usize::try_from(CLOSE_LOOK.saturating_sub(reader.packets)).unwrap_or(length).min(length);
        reader.packets += length as u64;
        // Issued before the reader is unlocked, so that numbers are in order. The reader is unlocked before the board is, so
        // that a worker that has found it locked waits already.
        let mut board = lock(&self.board);
        board.issued = number + 1;
        board.posted.push_back(None);
        board.untaken.push_back(self.workers);
        drop(reader);
        self.change(board);

        unit.end = unit.buffer.slots.last().map_or(0, |slot| slot.number.wrapping_add(1));
        unit.last = unit.buffer.slots.last().map_or(Time(0), |slot| slot.time);
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
        self.change(board);
    }

    /// Wakes the workers that wait, after a change of the board.
    fn change(&self, board: MutexGuard<'_, Board>) {
        let asleep = board.asleep;
        drop(board);
        if asleep > 0 {
            self.changed.notify_all();
        }
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
        self.change(board);
    }
}

impl UnitReader {
    /// Fills `buffer`, and records what begins with which packet, and leaps. Returns `false` at the end of the input.
    fn read(
        &mut self,
        buffer: &mut PacketBuf,
        cuts: &mut Vec<(usize, Begins)>,
        leaps: &mut UnitLeaps,
        stop: &AtomicBool,
    ) -> bool {
        leaps.clear();
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
        let first = self.packets as u32;
        for (number, slot) in (1..).zip(&mut buffer.slots) {
            slot.number = first.wrapping_add(number);
        }
        // Inputs that begin, in order.
        let mut starts = self.files.starts().to_vec();
        starts.reverse();
        let (mut at, mut begun) = (0, 0);
        while let Some(slot) = buffer.slots.get(at) {
            let begins = starts.pop_if(|start| *start == at).is_some();
            if begins {
                self.clock.begin();
                self.ticks.iter_mut().for_each(TickClock::begin);
            }
            let (before, jumps) = (self.latest, self.clock.jumps());
            let begin = self.packet(slot);
            begun += usize::from(begin.stretch.is_some());
            if begin.is_any() {
                cuts.push((at, begin));
            }
            // The order of captures is no matter of the clock.
            let is_back = !begins && before.since(slot.time) > LEAP_BACK;
            if is_back || self.clock.jumps() > jumps {
                leaps.add(begun, before, slot.time);
            }
            at += 1;
            let until = starts.last().map_or(buffer.slots.len(), |start| *start);
            at += self.pass(buffer.slots.get(at..until).unwrap_or_default());
        }
        true
    }

    /// Takes a packet, and returns what begins with it.
    fn packet(&mut self, slot: &Slot) -> Begins {
        let back = self.latest.since(slot.time);
        self.in_order &= back == 0;
        self.leaps_back += u64::from(back > LEAP_BACK);
        self.latest = slot.time;
        let round = self.round >= ROUND;
        self.round = if round { 0 } else { self.round } + bytes_of(slot);
        Begins {
            stretch: self.clock.observe(slot.time),
            tick: self.ticks.as_mut().and_then(|ticks| ticks.observe(slot.time)),
            round,
        }
    }

    /// Takes the packets before the first one that begins something or is earlier than the packet before it. Returns their
    /// number.
    fn pass(&mut self, slots: &[Slot]) -> usize {
        let Range { mut start, mut end } = self.clock.current();
        if let Some(ticks) = &self.ticks {
            let tick = ticks.clock.current();
            (start, end) = (start.max(tick.start), end.min(tick.end));
        }
        let mut latest = self.latest.0.max(start);
        let mut round = self.round;
        let mut count = 0;
        for slot in slots {
            if slot.time.0 < latest || slot.time.0 >= end || round >= ROUND {
                break;
            }
            latest = slot.time.0;
            round += bytes_of(slot);
            count += 1;
        }
        if count > 0 {
            (self.latest, self.round) = (Time(latest), round);
            self.clock.pass(count as u64, self.latest);
            self.ticks.iter_mut().for_each(|ticks| ticks.clock.pass(count as u64, Time(latest)));
        }
        count
    }
}

/// Bytes of a packet in a round.
fn bytes_of(slot: &Slot) -> usize {
    slot.len as usize + size_of::<Slot>()
}

/// Finds the packets with which ticks begin.
struct TickClock {
    clock: IntervalClock,
    /// End of the tick of the last packet.
    end: u64,
}

impl TickClock {
    fn new(length: u64) -> Self {
        Self { clock: IntervalClock::new(length), end: 0 }
    }

    /// Marks the next packet as the first of an input.
    fn begin(&mut self) {
        self.clock.begin();
    }

    /// Takes the time of the next packet. Returns the time up to which time has passed if the packet begins a later tick.
    /// Time that was not watched has not passed: a packet with a wrong time ends no flow.
    #[inline]
    fn observe(&mut self, time: Time) -> Option<Time> {
        let Stretch { interval, watched, is_later } = self.clock.observe(time)?;
        let before = std::mem::replace(&mut self.end, interval.end);
        is_later.then_some(Time(if watched.start == before { interval.start } else { before }))
    }
}

/// A part of a unit that becomes a segment.
struct Part {
    packets: Range<usize>,
    begins: Begins,
    closely: bool,
}

/// Splits a unit where something begins, and at the end of the beginning of the run. The latter is after the first
/// `close` packets, so that it does not depend on the distribution of packets over units.
fn parts(length: usize, cuts: &[(usize, Begins)], close: usize) -> Vec<Part> {
    let mut parts = Vec::with_capacity(cuts.len() + 2);
    let mut from = 0;
    let mut begins = Begins::default();
    for (to, next) in cuts.iter().copied().chain([(length, Begins::default())]) {
        let close = close.clamp(from, to);
        if close > from {
            parts.push(Part { packets: from..close, begins: std::mem::take(&mut begins), closely: true });
        }
        if to > close {
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
    let number = |at: usize| buffer.slots.get(at).map_or(0, |slot| slot.number);
    let firsts: Vec<u32> = parts.iter().map(|part| number(part.packets.start)).collect();
    std::mem::swap(slots, &mut buffer.slots);
    layers.clear();
    segments.clear();
    segments.extend(parts.into_iter().zip(firsts).map(|(Part { packets, begins, closely }, first)| {
        let mut shares = vec![0..0; owner];
        shares.push(packets);
        Segment { first, begins, closely, shares }
    }));
}

/// Lets a worker look at its packets of a unit that it takes later.
fn look_ahead(unit: &WorkUnit, index: usize, worker: &mut Worker) {
    let ends = unit.segments.iter().skip(1).map(|segment| segment.first).chain([unit.end]);
    for (segment, end) in unit.segments.iter().zip(ends) {
        let Some(share) = segment.shares.get(index).cloned() else { continue };
        let (slots, layers) = (unit.slots.get(share.clone()), unit.layers.get(share));
        let batch = Batch { bytes: &unit.buffer.bytes, slots: slots.unwrap_or_default() };
        worker.look_ahead(batch, layers.unwrap_or_default(), end);
    }
}

/// Decodes a unit's packets and sorts them by owner within each interval.
fn sort(unit: &mut WorkUnit, parts: Vec<Part>, workers: usize) {
    let WorkUnit { buffer, slots, layers, segments, .. } = unit;
    slots.clear();
    layers.clear();
    segments.clear();
    let batch = buffer.batch();
    let (mut decoded, mut order) = (Vec::new(), Vec::new());
    decode_batch(batch, &mut decoded);
    let owner = |(packet, layers)| steer_hash(&packet, layers) as usize % workers;
    let owners: Vec<usize> = batch.packets().zip(&decoded).map(owner).collect();
    for Part { packets, begins, closely } in parts {
        let first = buffer.slots.get(packets.start).map_or(0, |slot| slot.number);
        // Start of each worker's range in `order`, and then position of its next packet.
        let mut ends = vec![0; workers];
        for owner in owners.get(packets.clone()).unwrap_or_default() {
            ends[*owner] += 1;
        }
        let mut from = slots.len();
        let mut shares = Vec::with_capacity(workers);
        let mut sum = 0;
        for end in &mut ends {
            let length = std::mem::replace(end, sum);
            shares.push(from..from + length);
            (from, sum) = (from + length, sum + length);
        }
        order.clear();
        order.resize(sum, 0);
        for at in packets {
            let place = &mut ends[owners[at]];
            order[*place] = at;
            *place += 1;
        }
        slots.extend(order.iter().map(|at| buffer.slots[*at]));
        layers.extend(order.iter().map(|at| decoded[*at]));
        segments.push(Segment { first, begins, closely, shares });
    }
}
