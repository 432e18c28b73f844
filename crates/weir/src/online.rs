//! Runs a live link through the workers, each with a ring, a thread and a flow table.

use crate::collector::{Message, WorkerOutput};
use crate::orders::Mailbox;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_api::Ledger;
use weir_capture::{CaptureStats, LiveError, Rings};
use weir_engine::Worker;
use weir_wire::{Batch, Time};

/// Interval at which workers send their snapshots. A reported interval has several ticks.
pub const TICK: Duration = Duration::from_secs(1);
/// Maximum wait for packets before a worker checks whether it is to stop.
const WAIT: Duration = Duration::from_millis(50);

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
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), time: since.as_nanos() as u64 }
    }

    /// The current time.
    pub fn now(&self) -> Time {
        Time(self.time + self.started.elapsed().as_nanos() as u64)
    }

    /// The first tick after the start, in nanoseconds since the epoch: ticks are at whole seconds.
    fn first_tick(&self) -> u64 {
        let tick = TICK.as_nanos() as u64;
        (self.time / tick + 1) * tick
    }
}

/// State that the program and a live worker share.
pub struct LiveContext<'r> {
    /// The clock of the run.
    pub clock: LiveClock,
    /// Set when the run is to end.
    pub stop: &'r AtomicBool,
    /// Mailbox for a new plan or another packet file.
    pub mailbox: &'r Mailbox,
    /// Whether the run waits for removed interfaces. Otherwise it ends when all are removed.
    pub waits: bool,
    /// Set when all interfaces are removed.
    pub removed: &'r AtomicBool,
}

/// Runs one worker: until `stop` is set, then until its rings are empty.
///
/// # Errors
/// The kernel refuses a step.
pub fn work(
    mut rings: Rings,
    mut worker: Worker,
    mut worker_output: WorkerOutput,
    context: &LiveContext<'_>,
    mut limit: Option<u64>,
) -> Result<(), LiveError> {
    let LiveContext { clock, stop, mailbox, waits, removed } = context;
    let mut next_tick = clock.first_tick();
    let mut before = CaptureStats::default();
    let mut stopped = false;
    let mut orders_seen = 0;
    loop {
        if !stopped && stop.load(Ordering::Relaxed) {
            rings.stop()?;
            stopped = true;
        }
        let until_tick = Duration::from_nanos(next_tick.saturating_sub(clock.now().0));
        let batch = rings.next_batch(WAIT.min(until_tick))?;
        let empty = batch.is_empty();
        match &mut limit {
            None => worker.batch(batch, &mut worker_output),
            Some(0) => {}
            Some(left) => {
                if limited(&mut worker, batch, &mut worker_output, left) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        for event in rings.take_events() {
            worker_output.send(Message::Link(event));
        }
        if !waits && rings.is_removed() {
            removed.store(true, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
        }
        if stopped && empty && rings.drained() || limit == Some(0) {
            break;
        }
        while clock.now().0 >= next_tick {
            let mut snapshot = worker.tick(Time(next_tick), &mut worker_output);
            count_capture(&mut snapshot.ledger, &mut before, rings.stats()?, limit);
            worker_output.send_snapshot(snapshot, worker.sessions_memory());
            // A live run verifies all checksums in its first second, then a sample.
            worker.look_closely(false);
            if let Some(orders) = mailbox.at(Time(next_tick), &mut orders_seen) {
                worker.change_plan(orders.plan);
                worker_output.write_packets_to(orders.packets);
            }
            next_tick += TICK.as_nanos() as u64;
        }
    }
    let mut snapshot = worker.finish(clock.now(), &mut worker_output);
    count_capture(&mut snapshot.ledger, &mut before, rings.stats()?, limit);
    worker_output.send_snapshot(snapshot, worker.sessions_memory());
    worker_output.send(Message::Done);
    Ok(())
}

/// Takes one packet at a time. Returns whether enough have matched.
fn limited(worker: &mut Worker, batch: Batch<'_>, worker_output: &mut WorkerOutput, left: &mut u64) -> bool {
    for slot in batch.slots {
        if *left == 0 {
            break;
        }
        let kept = worker_output.kept_packets();
        worker.batch(Batch { bytes: batch.bytes, slots: std::slice::from_ref(slot) }, worker_output);
        *left -= worker_output.kept_packets() - kept;
    }
    *left == 0
}

/// Adds what the kernel has counted since the last call. A run with a limit leaves packets in the rings when it ends;
/// they are neither caught nor lost, so that its packets are offered when they are caught.
fn count_capture(ledger: &mut Ledger, before: &mut CaptureStats, now: CaptureStats, limit: Option<u64>) {
    let dropped = now.dropped - before.dropped;
    ledger.capture.dropped += dropped;
    ledger.capture.offered += match limit {
        Some(_) => ledger.caught + dropped,
        None => now.received - before.received,
    };
    *before = now;
}
