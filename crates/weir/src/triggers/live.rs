//! The packets of triggers over links: each worker keeps its latest packets, and sends those that a file asks for to a thread that
//! writes.

use super::file::{DumpFile, Wanted};
use super::orders::{LATE, Order, Orders, Shipment};
use super::preroll::{Preroll, Ring};
use super::{Opened, Outcome, TriggerSpec};
use crate::desk::Desk;
use crate::dump::{Lanes, memory};
use crate::failures::Failures;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_api::Ledger;
use weir_capture::InterfaceInfo;
use weir_filter::Options;
use weir_output::figures::printable;
use weir_wire::{PacketBuf, Time};

/// Time for which a file waits for the rings of all workers.
const RINGS: Duration = Duration::from_secs(2);
/// Interval at which the thread looks at the clock.
const TICK: Duration = Duration::from_millis(200);
/// Maximum number of shipments in the queue.
const QUEUE: usize = 4_096;
/// Maximum number of files that are open at once: each has a buffer.
const OPEN: usize = 64;

/// Opens files for events of a live run.
pub struct LiveDumps {
    orders: Arc<Orders>,
    desk: Arc<Desk>,
    options: Options<'static>,
    number: u64,
    /// What could not be opened.
    failed: Vec<String>,
    thread: JoinHandle<Outcome>,
}

/// What the files of triggers of a live run need.
pub struct LiveWith<'r> {
    /// The triggers.
    pub triggers: &'r [TriggerSpec],
    /// Number of workers.
    pub workers: usize,
    /// Bytes of memory for all rings, and for the queue to the writer.
    pub memory: usize,
    /// The plan in effect.
    pub desk: &'r Arc<Desk>,
    /// How expressions are interpreted.
    pub options: Options<'static>,
    /// Nanoseconds of an interval of the run.
    pub interval: u64,
    /// The interfaces.
    pub interfaces: &'r [InterfaceInfo],
    /// Takes failures.
    pub failures: Failures,
}

impl LiveDumps {
    /// Starts the writer. Returns the part of each worker.
    pub fn start(with: LiveWith<'_>) -> (Self, Vec<Preroll>) {
        let LiveWith { triggers, workers, memory, desk, options, interval, interfaces, failures } = with;
        let (to, from) = crossbeam_channel::bounded(QUEUE);
        let room = memory / 8;
        let orders = Arc::new(Orders {
            latest: AtomicU64::new(0),
            open: Mutex::default(),
            to,
            ledger: Mutex::default(),
            waiting: AtomicUsize::new(0),
            room,
        });
        let span = triggers.iter().map(|trigger| trigger.dump.before).max().unwrap_or_default();
        let lengths = triggers.iter().map(|trigger| trigger.dump.snaplen);
        let snaplen = lengths.reduce(|one, other| if one == 0 || other == 0 { 0 } else { one.max(other) });
        // An interval has ended when its event begins, and its packets are wanted.
        let over = triggers.iter().filter_map(TriggerSpec::over).max().unwrap_or(interval);
        let span = span + over + 2 * LATE;
        let each = (memory - room) / workers.max(1);
        let ring = || Ring::new(each, span, snaplen.unwrap_or_default());
        let parts = (0..workers).map(|worker| Preroll::new(worker, ring(), &orders)).collect();
        let writer = Writer {
            workers,
            interfaces: interfaces.to_vec(),
            failures,
            files: Vec::new(),
            outcome: Outcome::default(),
            orders: Arc::clone(&orders),
        };
        let thread = std::thread::spawn(move || writer.work(&from));
        let desk = Arc::clone(desk);
        (Self { orders, desk, options, number: 0, failed: Vec::new(), thread }, parts)
    }

    /// Notes the ledger of the run up to the interval that has ended.
    pub fn count(&self, ledger: &Ledger) {
        *self.orders.ledger.lock().unwrap_or_else(PoisonError::into_inner) = *ledger;
    }

    /// Opens a file for an event that has begun. Returns whether there was room.
    pub fn open(&mut self, opened: &Opened) -> bool {
        let wanted = match Wanted::of(opened, &self.options) {
            Ok(wanted) => wanted,
            Err(error) => {
                // One for each trigger is enough.
                let text = format!("trigger {}: {error}", opened.trigger.name);
                if !self.failed.contains(&text) {
                    eprintln!("weir: {}", printable(&text));
                    self.failed.push(text);
                }
                return true;
            }
        };
        let mut open = self.orders.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|order| !order.is_done());
        if open.len() >= OPEN {
            return false;
        }
        self.number += 1;
        let (lost, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
        let (opened, plan) = (opened.clone(), self.desk.plan());
        let order = Arc::new(Order { number: self.number, opened, wanted, plan, is_done, lost });
        // The writer opens the file, and waits for the rings of the workers.
        let first =
            Shipment { order: Arc::clone(&order), worker: 0, packets: PacketBuf::default(), reached: None };
        self.orders.ship(first);
        open.push(order);
        self.orders.latest.store(self.number, Ordering::Release);
        true
    }

    /// Ends the files, after the workers have ended.
    pub fn finish(self) -> Outcome {
        let Self { orders, failed, thread, .. } = self;
        // The writer ends when nothing more can come: it holds the orders itself.
        for order in orders.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            order.is_done.store(true, Ordering::Relaxed);
        }
        orders.latest.store(u64::MAX, Ordering::Release);
        let mut outcome = thread.join().unwrap_or_default();
        outcome.failed.extend(failed);
        outcome
    }
}

/// The thread that writes.
struct Writer {
    workers: usize,
    interfaces: Vec<InterfaceInfo>,
    failures: Failures,
    files: Vec<Writing>,
    outcome: Outcome,
    orders: Arc<Orders>,
}

/// A file that is being written.
struct Writing {
    order: Arc<Order>,
    file: DumpFile,
    /// Packets in the order of their times.
    lanes: Lanes,
    /// The time that each worker has reached; `None` until it has sent its ring.
    reached: Vec<Option<Time>>,
    begun: Instant,
}

impl Writer {
    fn work(mut self, from: &Receiver<Shipment>) -> Outcome {
        loop {
            match from.recv_timeout(TICK) {
                Ok(shipment) => self.take(shipment),
                Err(RecvTimeoutError::Timeout) => {
                    if self.orders.latest.load(Ordering::Acquire) == u64::MAX {
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.write(false);
        }
        self.write(true);
        self.outcome
    }

    fn take(&mut self, shipment: Shipment) {
        let Shipment { order, worker, packets, reached } = shipment;
        self.orders.waiting.fetch_sub(memory(&packets), Ordering::Relaxed);
        let at = self.files.iter().position(|file| Arc::ptr_eq(&file.order, &order));
        let at = match at {
            Some(at) => at,
            None if order.is_done() => return,
            None => {
                self.begin(order);
                self.files.len() - 1
            }
        };
        let Some(file) = self.files.get_mut(at) else { return };
        file.lanes.push(worker, packets);
        if let (Some(reached), Some(place)) = (reached, file.reached.get_mut(worker)) {
            *place = (*place).max(Some(reached));
        }
    }

    fn begin(&mut self, order: Arc<Order>) {
        let spec = &order.opened.trigger;
        // What the open files of the trigger may take is not there for this one.
        let is_of_trigger = |one: &&Writing| Arc::ptr_eq(&one.order.opened.trigger, spec);
        let open = self.files.iter().filter(is_of_trigger).count() as u64;
        let most = spec.dump.most();
        let left = spec.dump.limit.map(|limit| limit.saturating_sub(open.saturating_mul(most)));
        let room = left.map_or(most, |left| left.min(most));
        let kept = Kept { files: spec.dump.files as usize, bytes: left.map(|left| left - room) };
        let removed = match room {
            // Nothing will be written, so that nothing leaves.
            0 => Ok(0),
            _ => remove_oldest(&spec.dump.to, &spec.name, &kept),
        };
        self.outcome.removed += removed.as_ref().copied().unwrap_or_default();
        if let Err(error) = removed {
            self.outcome.failed.push(format!("trigger {}: {}: {error}", spec.name, spec.dump.to.display()));
        }
        let files = &self.files;
        let is_taken = |path: &Path| path.exists() || files.iter().any(|one| one.file.path() == path);
        let file = DumpFile::new(&order.opened, &order.wanted, Arc::new(room.into()), is_taken);
        let (lanes, reached) = (Lanes::new(self.workers), vec![None; self.workers]);
        self.files.push(Writing { order, file, lanes, reached, begun: Instant::now() });
    }

    /// Writes the packets that need not wait for a worker, and closes files that have all.
    fn write(&mut self, is_end: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let mut closed = Vec::new();
        for (at, one) in self.files.iter_mut().enumerate() {
            let has_rings = one.reached.iter().all(Option::is_some) || one.begun.elapsed() >= RINGS || is_end;
            if !has_rings {
                continue;
            }
            let reached: Vec<Time> = one.reached.iter().map(|time| time.unwrap_or_default()).collect();
            let until = if is_end { u64::MAX } else { now.saturating_sub(LATE) };
            let (file, interfaces) = (&mut one.file, &self.interfaces);
            one.lanes.write_until(&reached, Time(until), usize::MAX, |batch| {
                batch.packets().for_each(|packet| file.write(&packet, interfaces));
            });
            let is_over = now > one.order.wanted.until.saturating_add(2 * LATE);
            if is_end || is_over || !one.file.is_open() {
                closed.push(at);
            }
        }
        for at in closed.into_iter().rev() {
            let Writing { order, mut file, .. } = self.files.swap_remove(at);
            order.is_done.store(true, Ordering::Relaxed);
            file.lose(order.lost.load(Ordering::Relaxed));
            // The ledger of a run is that of all its interfaces.
            if self.interfaces.len() == 1 {
                file.count(&self.orders.ledger.lock().unwrap_or_else(PoisonError::into_inner));
            }
            let before = self.outcome.failed.len();
            let (path, is_full) = (file.path().to_owned(), file.has_full_disk());
            file.finish(&mut self.outcome);
            if let Some(error) = self.outcome.failed.get(before) {
                self.failures.note(&path, is_full);
                eprintln!("weir: {}", printable(error));
            }
        }
    }
}

/// What is kept of the files of a trigger beside a new one.
struct Kept {
    /// Maximum number of files, with the new one.
    files: usize,
    /// Maximum bytes of the others.
    bytes: Option<u64>,
}

/// Removes the oldest files of a trigger, so that there is room for one more. Returns their number.
fn remove_oldest(directory: &Path, name: &str, kept: &Kept) -> std::io::Result<u64> {
    let is_it = |file: &str| {
        let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest.ends_with(".pcapng") && rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Some(file) = entry.file_name().to_str().filter(|file| is_it(file)).map(str::to_owned) else {
            continue;
        };
        files.push((file, entry.metadata()?.len()));
    }
    // Names have the time: they are in its order.
    files.sort();
    let surplus = (files.len() + 1).saturating_sub(kept.files);
    let mut bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let mut removed = 0;
    for (at, (file, length)) in files.iter().enumerate() {
        if at >= surplus && kept.bytes.is_none_or(|most| bytes <= most) {
            break;
        }
        fs::remove_file(directory.join(file))?;
        bytes -= length;
        removed += 1;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_of_a_trigger_leave() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["x.20260101T000000.000000Z", "x.20260102T000000.000000Z", "x.20260103T000000.000000Z-2"];
        let others = ["y.20260101T000000.000000Z.pcapng", "x.pcapng", "x.notes"];
        let names: Vec<String> = names.iter().map(|name| format!("{name}.pcapng")).collect();
        names
            .iter()
            .map(String::as_str)
            .chain(others)
            .for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        let keep = |files, bytes| remove_oldest(folder.path(), "x", &Kept { files, bytes }).unwrap();
        assert_eq!(keep(3, None), 1);
        let is_there = |name: &str| folder.path().join(name).exists();
        assert_eq!(names.iter().map(|name| is_there(name)).collect::<Vec<_>>(), [false, true, true]);
        // Two files of ten bytes.
        names.iter().skip(1).for_each(|name| fs::write(folder.path().join(name), "0123456789").unwrap());
        assert_eq!(keep(9, Some(20)), 0);
        assert_eq!(keep(9, Some(19)), 1);
        assert_eq!(names.iter().map(|name| is_there(name)).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(keep(1, Some(100)), 1);
        assert!(!names.iter().any(|name| is_there(name)));
        assert!(others.iter().all(|name| is_there(name)));
    }
}
