//! What runs over files and on links share: a worker, the destination of its results, and the limit of packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_api::{Interval, Level, SessionCount, Snapshot};
use weir_engine::{Plan, Sink, Worker};
use weir_wire::{Batch, Layers, Time};

/// A place in the packets of a run over files that all workers pass.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Boundary {
    /// All packets of the run before the one of this number were taken, as far as they are the worker's. Numbers wrap around.
    Packet(u32),
    /// The end of a unit, whose last packet, of whichever worker, has this time. Where units end depends on the number of workers.
    Unit(Time),
    /// A place that does not depend on the number of workers.
    Fixed,
    /// The end of the run.
    End,
}

impl Boundary {
    /// Whether an outlet whose packets are selected at a level sends those before the boundary. A packet that is selected when
    /// it is seen is in order in any case. For others the places decide on the order.
    pub fn ends_round(self, level: Level) -> bool {
        match self {
            Self::Packet(_) => false,
            Self::Unit(_) => level == Level::Packet,
            Self::Fixed => level != Level::Packet,
            Self::End => true,
        }
    }
}

/// Behaviour of a worker's output when the queue is full.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WhenFull {
    /// Wait: used for files.
    Wait,
    /// Shed rows and count them: used for live capture, where packets cannot wait.
    Shed,
}

/// The destination of one worker's results.
pub trait Destination {
    /// Takes flows, records and packets.
    fn sink(&mut self) -> &mut dyn Sink;

    /// What follows up to the next snapshot is of an interval within the silence after the last interval with packets. `start` is
    /// its start, in nanoseconds since the epoch.
    fn silence(&mut self, start: u64);

    /// Whether the open flows are asked for before this snapshot of an interval is sent: those that had a packet at that time or later.
    fn asks_open(&mut self, snapshot: &Snapshot) -> Option<Time> {
        let _ = snapshot;
        None
    }

    /// Takes the snapshot of an interval. `sessions` is the number of bytes that the worker's sessions occupy.
    fn interval(&mut self, snapshot: Snapshot, sessions: usize);

    /// The worker passes a place in the packets of a run over files.
    fn boundary(&mut self, boundary: Boundary);

    /// Number of packets so far that matched the run's expression.
    fn kept_packets(&self) -> u64;

    /// The worker has finished.
    fn done(&mut self);
}

/// A sink of a run that has no intervals, and its counts of sessions.
pub struct WholeRun<S> {
    /// The sink.
    pub sink: S,
    /// Counts of sessions.
    pub sessions: SessionCount,
    /// The number of packets that were read.
    pub packets: u64,
}

impl<S> WholeRun<S> {
    /// A run without results so far.
    pub fn new(sink: S) -> Self {
        Self { sink, sessions: SessionCount::default(), packets: 0 }
    }
}

impl<S: Sink> Destination for WholeRun<S> {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.sink
    }

    fn silence(&mut self, _: u64) {}

    fn interval(&mut self, snapshot: Snapshot, _: usize) {
        self.sessions.add(&snapshot.sessions);
        self.packets += snapshot.ledger.caught;
    }

    fn boundary(&mut self, _: Boundary) {}

    /// Such a run has no limit of packets.
    fn kept_packets(&self) -> u64 {
        0
    }

    fn done(&mut self) {}
}

/// A worker on its way through packets and time.
pub struct Drive<'r, D> {
    worker: Worker,
    /// The destination of its results.
    pub destination: D,
    /// Set to end the run when the limit is reached.
    stop: &'r AtomicBool,
    /// Number of matching packets after which the run ends.
    left: Option<u64>,
}

impl<'r, D: Destination> Drive<'r, D> {
    /// A drive that sets `stop` after `limit` matching packets.
    pub fn new(worker: Worker, destination: D, stop: &'r AtomicBool, limit: Option<u64>) -> Self {
        Self { worker, destination, stop, left: limit }
    }

    /// Changes the plan between packets.
    pub fn change_plan(&mut self, plan: Arc<Plan>) {
        self.worker.change_plan(plan, self.destination.sink());
    }

    /// The worker, for changes between packets.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Whether the limit is reached. No packet after it is counted.
    pub fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Takes packets. `layers` are those of the packets if they are decoded already.
    pub fn batch(&mut self, batch: Batch<'_>, layers: Option<&[Layers]>) {
        match (self.left, layers) {
            (Some(_), _) => self.limited(batch),
            (None, Some(layers)) => self.worker.decoded(batch, layers, self.destination.sink()),
            (None, None) => self.worker.batch(batch, self.destination.sink()),
        }
    }

    /// Takes one packet at a time, until the limit of matching packets is reached.
    fn limited(&mut self, batch: Batch<'_>) {
        let Some(mut left) = self.left else { return };
        for slot in batch.slots {
            if left == 0 {
                break;
            }
            let kept = self.destination.kept_packets();
            let one = Batch { bytes: batch.bytes, slots: std::slice::from_ref(slot) };
            self.worker.batch(one, self.destination.sink());
            left -= self.destination.kept_packets() - kept;
        }
        self.left = Some(left);
        if left == 0 {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Ends an interval at `now`, and the flows that are idle then.
    pub fn tick(&mut self, now: Time) -> Snapshot {
        self.worker.tick(now, self.destination.sink())
    }

    /// Lets the time of a watched silence pass. Each interval of `length` nanoseconds in which a timer of this worker is due gets a
    /// snapshot of its own, with what the timer ended; intervals without one do not exist.
    pub fn pass_silence(&mut self, mut silence: Interval, length: u64) {
        while let Some(interval) = self.worker.next_due(silence, length) {
            self.destination.silence(interval.start);
            let snapshot = self.worker.pass_silence(interval, self.destination.sink());
            self.send(snapshot);
            silence.start = interval.end;
        }
    }

    /// Ends the flows that are idle at `now`; the interval continues.
    pub fn end_idle(&mut self, now: Time) {
        self.worker.end_idle(now, self.destination.sink());
    }

    /// The results so far of an interval that continues later.
    pub fn hand_over(&mut self) -> Snapshot {
        self.worker.hand_over(self.destination.sink())
    }

    /// Ends every flow, and returns the last results.
    pub fn finish(&mut self) -> Snapshot {
        self.worker.finish(self.destination.sink())
    }

    /// Sends the snapshot of an interval to the destination.
    pub fn send(&mut self, snapshot: Snapshot) {
        if let Some(since) = self.destination.asks_open(&snapshot) {
            self.worker.emit_open(since, self.destination.sink());
        }
        self.destination.interval(snapshot, self.worker.sessions_memory());
    }
}
