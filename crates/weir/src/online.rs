//! Runs a live link through the workers, each with a ring, a thread and a flow table.
//!
//! A packet is counted in the tick of its own time. The kernel delivers blocks of packets, so that packets of a tick arrive
//! after its end. A worker therefore ends a tick with the first packet after it, or when no packet has arrived for
//! [`GRACE`]. A packet that arrives even later, for example from another interface, is added to the tick before.

use crate::collector::{Message, WorkerOutput};
use crate::desk::{Desk, Orders};
use crate::drive::{Destination, Drive};
use crate::events::Counted;
use crate::leaps::ClockWatch;
use crate::triggers::Preroll;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_api::{AnswerId, CaptureCount, Count, Interval, Ledger, Reading, Snapshot};
use weir_capture::{CaptureStats, LiveError, Rings, Source};
use weir_engine::Worker;
use weir_wire::{Batch, Slot, Time};

/// Maximum wait for packets before a worker checks whether it is to stop.
const WAIT: Duration = Duration::from_millis(50);
/// Interval at which what is compared with a threshold is looked at within a tick, in nanoseconds.
const LOOK: u64 = 100_000_000;
/// Nanoseconds after the end of a tick within which the kernel delivers the last blocks of the tick: more than twice their
/// timeout.
const GRACE: u64 = 50_000_000;
/// Nanoseconds after the end of a tick after which a worker ends the tick even if its ring has packets.
const BEHIND: u64 = 2_000_000_000;
/// Nanoseconds from the current tick beyond which a packet's time comes from another clock. Such a packet is counted in
/// the current tick.
const NEAR: u64 = 2_000_000_000;
/// Maximum number of returns to the tick before, in a tick.
const MAX_RETURNS: u32 = 16;
const SECOND: u64 = 1_000_000_000;

/// The clock of a live run: the time of day at its start, and monotonic from there, so that a change of the system's
/// clock neither repeats nor skips an interval.
#[derive(Clone, Copy, Debug)]
pub struct LiveClock {
    started: Instant,
    time: u64,
}

impl LiveClock {
    /// Starts the clock.
    pub fn start() -> Self {
        Self { started: Instant::now(), time: LiveClock::of_system().0 }
    }

    /// The current time.
    pub fn now(&self) -> Time {
        Time(self.time + self.started.elapsed().as_nanos() as u64)
    }

    /// The time of the system's clock, which can be set.
    fn of_system() -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(since.as_nanos() as u64)
    }

    /// The first tick. Ticks begin at multiples of their length in nanoseconds.
    fn first_tick(&self, length: u64) -> Interval {
        let start = self.time - self.time % length;
        Interval { start, end: start + length }
    }
}

/// State that the program and a live worker share.
pub struct LiveContext<'r> {
    /// Index of the worker.
    pub worker: usize,
    /// The clock of the run.
    pub clock: LiveClock,
    /// Set when the run is to end.
    pub stop: &'r AtomicBool,
    /// Orders of another plan or another packet file. Workers send a snapshot at the end of each of its parts, a tick. A reported
    /// interval has several ticks.
    pub desk: &'r Desk,
    /// Whether lost packets are compared with a threshold.
    pub judges_drops: bool,
    /// Whether the run waits for removed interfaces. Otherwise it ends when all are removed.
    pub waits: bool,
    /// Set when all interfaces are removed.
    pub removed: &'r AtomicBool,
}

/// Runs one worker: until `stop` is set, then until its rings are empty. Returns its ring for triggers.
///
/// # Errors
/// The kernel refuses a step.
pub fn work(
    mut rings: Rings,
    worker: Worker,
    worker_output: WorkerOutput,
    context: &LiveContext<'_>,
    limit: Option<u64>,
    mut preroll: Option<Preroll>,
) -> Result<Option<Preroll>, LiveError> {
    let mut run = Run::new(worker, worker_output, context, limit);
    let mut stopped = false;
    loop {
        if !stopped && context.stop.load(Ordering::Relaxed) {
            rings.stop()?;
            stopped = true;
        }
        let now = context.clock.now().0;
        if now >= run.tick.end {
            run.capture = rings.stats()?;
        }
        let until_tick = Duration::from_nanos((run.tick.end + GRACE).saturating_sub(now));
        let batch = rings.next_batch(WAIT.min(until_tick).min(run.until_look(now)))?;
        let is_empty = batch.is_empty();
        run.read_orders();
        let latest = batch.slots.last().map_or(Time(now.saturating_sub(GRACE)), |slot| slot.time);
        if let Some(preroll) = &mut preroll {
            preroll.take(batch, latest);
        }
        run.batch(batch);
        run.drive.destination.reach(latest);
        for event in rings.take_events() {
            run.drive.destination.send_later(Message::Link(event));
        }
        run.is_gone = rings.is_removed();
        if !context.waits && run.is_gone {
            context.removed.store(true, Ordering::Relaxed);
            context.stop.store(true, Ordering::Relaxed);
        }
        if stopped && is_empty && rings.is_drained() || run.drive.is_full() {
            break;
        }
        if is_empty {
            run.follow_orders_until(context.clock.now().0.saturating_sub(GRACE));
        }
        if run.is_to_look() {
            run.capture = rings.stats()?;
            run.look();
        }
        let patience = if is_empty { GRACE } else { BEHIND };
        while context.clock.now().0 >= run.tick.end + patience {
            run.capture = rings.stats()?;
            run.end_tick();
        }
    }
    run.finish(rings.stats()?);
    Ok(preroll)
}

/// The tick of a packet, relative to the current tick.
#[derive(Clone, Copy, Eq, PartialEq)]
enum TickOf {
    Previous,
    Current,
    Later,
}

/// What is looked at within a tick.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Looked {
    /// The counts that are compared with a threshold and are not 0.
    counts: Vec<(AnswerId, Count)>,
    /// Number of dropped packets.
    dropped: u64,
}

/// A worker and its current tick.
struct Run<'r> {
    drive: Drive<'r, WorkerOutput>,
    context: &'r LiveContext<'r>,
    tick: Interval,
    /// Start of the watched time, in nanoseconds since the epoch.
    watched_from: u64,
    /// Whether all interfaces are removed.
    is_gone: bool,
    /// The part of the current tick before the last return to the previous tick.
    part: Snapshot,
    /// Number of returns to the previous tick in the current tick.
    returns: u32,
    /// Packets counted in the current tick whose time is in another.
    late: u64,
    /// The kernel's counters.
    capture: CaptureStats,
    /// Dropped packets in the ticks so far.
    dropped: u64,
    /// Offered packets in the ticks so far.
    offered: u64,
    /// Time at which the counts of the tick are looked at next, in nanoseconds since the epoch.
    next_look: u64,
    /// What was sent of the tick so far.
    looked: Looked,
    /// The system's clock, which one worker watches.
    watch: Option<ClockWatch>,
    /// Number of the latest orders that were read.
    orders_read: u64,
    /// Orders for packets that have not arrived yet, earliest first.
    orders: VecDeque<Arc<Orders>>,
}

impl<'r> Run<'r> {
    fn new(worker: Worker, output: WorkerOutput, context: &'r LiveContext<'r>, limit: Option<u64>) -> Self {
        Run {
            drive: Drive::new(worker, output, context.stop, limit),
            context,
            tick: context.clock.first_tick(context.desk.parts()),
            watched_from: context.clock.time,
            is_gone: false,
            part: Snapshot::default(),
            returns: 0,
            late: 0,
            capture: CaptureStats::default(),
            dropped: 0,
            offered: 0,
            next_look: 0,
            looked: Looked::default(),
            watch: (context.worker == 0).then(ClockWatch::default),
            orders_read: 0,
            orders: VecDeque::new(),
        }
    }

    fn tick_of(&self, slot: &Slot) -> TickOf {
        let Interval { start, end } = self.tick;
        match slot.time.0 {
            time if (start..end).contains(&time) => TickOf::Current,
            time if time >= end && time - end < NEAR => TickOf::Later,
            time if time < start && start - time <= NEAR => TickOf::Previous,
            _ => TickOf::Current,
        }
    }

    fn read_orders(&mut self) {
        self.orders.extend(self.context.desk.orders(self.context.worker, &mut self.orders_read));
    }

    /// Follows the orders that hold for packets of a time, in nanoseconds.
    fn follow_orders_until(&mut self, time: u64) {
        while let Some(orders) = self.orders.pop_front_if(|orders| orders.from.0 <= time) {
            self.drive.change_plan(Arc::clone(&orders.plan));
            self.drive.destination.follow(&orders.routes);
        }
    }

    /// Takes packets, each under the orders that hold at its time.
    fn batch(&mut self, batch: Batch<'_>) {
        let mut rest = batch.slots;
        while let Some(from) = self.orders.front().map(|orders| orders.from) {
            let Some(at) = rest.iter().position(|slot| slot.time >= from) else { break };
            let (before, others) = rest.split_at(at);
            self.ticks(Batch { bytes: batch.bytes, slots: before });
            self.follow_orders_until(from.0);
            rest = others;
        }
        self.ticks(Batch { bytes: batch.bytes, slots: rest });
    }

    /// Counts each packet in its tick.
    fn ticks(&mut self, batch: Batch<'_>) {
        let mut rest = batch.slots;
        while let Some(first) = rest.first() {
            let tick = self.tick_of(first);
            let count = rest.iter().take_while(|slot| self.tick_of(slot) == tick).count();
            let (part, others) = rest.split_at(count);
            let part = Batch { bytes: batch.bytes, slots: part };
            match tick {
                TickOf::Current => self.drive.batch(part, None),
                TickOf::Previous => self.add_to_previous(part),
                TickOf::Later => {
                    self.end_tick();
                    continue;
                }
            }
            rest = others;
        }
    }

    /// Counts packets in the previous tick, or after too many returns as late packets of the current tick.
    fn add_to_previous(&mut self, batch: Batch<'_>) {
        if self.returns == MAX_RETURNS {
            self.late += batch.len() as u64;
            self.drive.batch(batch, None);
            return;
        }
        self.returns += 1;
        self.set_part_aside();
        self.drive.batch(batch, None);
        let mut snapshot = self.drive.hand_over();
        snapshot.ledger.capture.offered = snapshot.ledger.caught;
        self.offered += snapshot.ledger.caught;
        snapshot.interval = self.tick_before();
        snapshot.watched = Some(self.watched(snapshot.interval, snapshot.interval.end));
        self.drive.destination.send_late(snapshot);
    }

    fn tick_before(&self) -> Interval {
        let Interval { start, end } = self.tick;
        Interval { start: start.saturating_sub(end - start), end: start }
    }

    /// Adds the readings of the current tick so far to `part`.
    fn set_part_aside(&mut self) {
        let mut part = self.drive.hand_over();
        part.interval = self.tick;
        self.part.merge(&part);
    }

    /// The time until the counts are looked at, if any is compared with a threshold.
    fn until_look(&mut self, now: u64) -> Duration {
        match self.drive.worker().has_judged_counts() || self.context.judges_drops {
            true => Duration::from_nanos(self.next_look.saturating_sub(now)),
            false => WAIT,
        }
    }

    fn is_to_look(&mut self) -> bool {
        self.until_look(self.context.clock.now().0).is_zero()
    }

    /// Sends the counts of the tick so far that are compared with a threshold, if they have changed.
    fn look(&mut self) {
        let now = self.context.clock.now().0;
        self.next_look = now + LOOK;
        let mut counts = self.drive.worker().so_far();
        for (id, count) in &mut counts {
            if let Some(Reading::Count(part)) = self.part.reading_at(*id) {
                count.add(part);
            }
        }
        counts.retain(|(_, count)| *count != Count::default());
        let looked = Looked { counts, dropped: self.capture.dropped - self.dropped };
        if looked == Looked::default() || looked == self.looked {
            return;
        }
        self.looked = looked.clone();
        let caught = self.drive.worker().caught();
        let capture = CaptureCount { dropped: looked.dropped, ..CaptureCount::default() };
        let counted = Counted {
            worker: self.context.worker,
            watched: self.watched(self.tick, now),
            outline: Arc::clone(self.drive.worker().outline()),
            counts: looked.counts,
            ledger: Ledger { capture, caught: self.part.ledger.caught + caught, ..Ledger::default() },
        };
        self.drive.destination.send_later(Message::Counted(Box::new(counted)));
    }

    /// The watched time of an interval up to `end`.
    fn watched(&self, interval: Interval, end: u64) -> Interval {
        let start = interval.start.max(self.watched_from);
        // Without an interface nothing was watched.
        Interval { start, end: if self.is_gone { start } else { end.clamp(start, interval.end.max(start)) } }
    }

    /// Ends the current tick and sends its snapshot.
    fn end_tick(&mut self) {
        let snapshot = self.drive.tick(Time(self.tick.end));
        let mut snapshot = self.whole(snapshot, self.tick.end);
        let step = self
            .watch
            .as_mut()
            .and_then(|watch| watch.look(self.context.clock.now(), LiveClock::of_system()));
        snapshot.add_events(step.as_slice());
        self.drive.send(snapshot);
        let Interval { start, end } = self.tick;
        // A live run verifies all checksums in its first second, then a sample.
        self.drive.worker().look_closely(end < self.context.clock.time.next_multiple_of(SECOND));
        self.tick = Interval { start: end, end: end + (end - start) };
        self.returns = 0;
        self.looked = Looked::default();
    }

    /// The snapshot of the current tick, watched until `end`: the part set aside and the `last` readings.
    fn whole(&mut self, mut last: Snapshot, end: u64) -> Snapshot {
        let mut snapshot = std::mem::take(&mut self.part);
        last.interval = self.tick;
        snapshot.merge(&last);
        snapshot.watched = Some(self.watched(self.tick, end));
        snapshot.ledger.late += std::mem::take(&mut self.late);
        let capture = &mut snapshot.ledger.capture;
        capture.dropped += self.capture.dropped - std::mem::replace(&mut self.dropped, self.capture.dropped);
        // Packets in the ring count as offered only when they are caught.
        capture.offered = snapshot.ledger.caught + capture.dropped;
        self.offered += capture.offered;
        snapshot
    }

    /// Ends the run. `capture` has the kernel's final counters.
    fn finish(mut self, capture: CaptureStats) {
        let now = self.context.clock.now().0;
        while now >= self.tick.end + GRACE {
            self.end_tick();
        }
        self.capture = capture;
        let last = self.drive.finish();
        let offered = self.offered;
        let mut snapshot = self.whole(last, now);
        if !self.drive.is_full() {
            // All packets that the kernel counted must be accounted for, except after a limit: then the rest is not read.
            snapshot.ledger.capture.offered = capture.received - offered;
        }
        if let Some(packets) = &mut snapshot.packets {
            // A run on a link continues after its last packet.
            packets.end = packets.end.max(now);
        }
        self.drive.send(snapshot);
        self.drive.destination.done();
    }
}
