//! The packets of triggers over links: each worker keeps its latest packets, and sends those that a file asks for to a thread that
//! writes.

use super::file::{DumpFile, Wanted};
use super::kept::{Kept, Removed, remove_oldest};
use super::orders::{Arrival, LATE, Order, Orders, Shipment};
use super::preroll::{Preroll, Ring, queued, snaplen_of};
use super::{Board, Opened, Outcome, TriggerSpec};
use crate::desk::Desk;
use crate::dump::{Lanes, memory};
use crate::failures::{Failures, FileTrouble};
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
/// Time after which a file that could not be written is tried again, and after which the thread looks whether one is still there.
const RETRY: Duration = Duration::from_secs(1);
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
    pub triggers: &'r [Arc<TriggerSpec>],
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
    /// What the triggers do at present.
    pub board: &'r Arc<Board>,
    /// How packets come.
    pub arrival: Arrival,
}

impl LiveDumps {
    /// Starts the writer. Returns the part of each worker.
    pub fn start(with: LiveWith<'_>) -> (Self, Vec<Preroll>) {
        let LiveWith {
            triggers,
            workers,
            memory,
            desk,
            options,
            interval,
            interfaces,
            failures,
            board,
            arrival,
        } = with;
        let (to, from) = crossbeam_channel::bounded(QUEUE);
        let room = queued(memory);
        let span = triggers.iter().map(|trigger| trigger.dump.before).max().unwrap_or_default();
        let snaplen = snaplen_of(triggers.iter().map(Arc::as_ref));
        // An interval has ended when its event begins, and its packets are wanted.
        let over = triggers.iter().filter_map(|trigger| trigger.over()).max().unwrap_or(interval);
        let span = match arrival {
            Arrival::Live => span + over + 2 * LATE,
            // Workers may be far ahead of the decision.
            Arrival::Read => u64::MAX,
        };
        let orders = Arc::new(Orders {
            board: Arc::clone(board),
            latest: AtomicU64::new(0),
            open: Mutex::default(),
            to,
            ledger: Mutex::default(),
            waiting: AtomicUsize::new(0),
            room,
            arrival,
        });
        let each = (memory - room) / workers.max(1);
        let ring = || Ring::new(each, span, snaplen);
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

    /// Notes the ledger of the run so far, and the number of intervals that have ended.
    pub fn count(&self, ledger: Ledger, intervals: u64) {
        *self.orders.ledger.lock().unwrap_or_else(PoisonError::into_inner) = (ledger, intervals);
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
        // The writer holds the orders itself, and ends when it has taken all that was sent.
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
    /// `None` while it cannot be written: packets are lost until it is tried again.
    file: Option<DumpFile>,
    /// Packets in the order of their times.
    lanes: Lanes,
    /// The time that each worker has reached; `None` until it has sent its ring.
    reached: Vec<Option<Time>>,
    begun: Instant,
    /// When the file was looked for in its directory.
    looked: Instant,
    /// Whether the board has the place of the file.
    is_shown: bool,
    /// Number of intervals that had ended when the file was full. It is closed two later, when the ledger has its packets.
    full_since: Option<u64>,
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
        let file = Some(self.file_of(&order));
        let (lanes, reached) = (Lanes::new(self.workers), vec![None; self.workers]);
        let now = Instant::now();
        self.files.push(Writing {
            order,
            file,
            lanes,
            reached,
            begun: now,
            looked: now,
            is_shown: false,
            full_since: None,
        });
    }

    /// A file for the packets of an order from now on. Older files of its trigger leave.
    fn file_of(&mut self, order: &Arc<Order>) -> DumpFile {
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
            0 => Ok(Removed::default()),
            _ => remove_oldest(&spec.dump.to, &spec.name, &kept),
        };
        match removed {
            Ok(removed) => {
                self.outcome.removed += removed.files;
                self.orders.board.removes(spec, removed);
            }
            Err(error) => {
                let folder = spec.dump.to.display();
                self.outcome.failed.push(format!("trigger {}: {folder}: {error}", spec.name));
            }
        }
        let open = || self.files.iter().filter_map(|one| one.file.as_ref());
        let is_taken = |path: &Path| path.exists() || open().any(|file| file.path() == path);
        let file = DumpFile::new(&order.opened, &order.wanted, Arc::new(room.into()), is_taken);
        self.orders.board.opens(spec, file.path());
        file
    }

    /// Writes the packets that need not wait for a worker, and closes files that have all.
    fn write(&mut self, is_end: bool) {
        let now = match self.orders.arrival {
            Arrival::Live => {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
            }
            // The times of the workers alone count.
            Arrival::Read => 0,
        };
        for at in (0..self.files.len()).rev() {
            let Some(one) = self.files.get_mut(at) else { continue };
            if !one.write(now, &self.interfaces, is_end) {
                continue;
            }
            one.look();
            one.show(&self.orders.board);
            let is_over = match self.orders.arrival {
                Arrival::Live => now > one.order.wanted.until.saturating_add(2 * LATE),
                Arrival::Read => one.is_passed(),
            };
            let (_, intervals) = *self.orders.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            let is_full = one.file.as_ref().is_some_and(DumpFile::is_full);
            let is_counted = is_full && *one.full_since.get_or_insert(intervals) + 1 < intervals;
            if is_end || is_over || is_counted {
                let Writing { order, file, .. } = self.files.swap_remove(at);
                order.is_done.store(true, Ordering::Relaxed);
                match file {
                    Some(file) => self.close(file, &order),
                    None => self.outcome.lost += order.lost.load(Ordering::Relaxed),
                }
                continue;
            }
            if let Some(failed) = one.file.take_if(|file| !is_full && !file.is_open()) {
                let order = Arc::clone(&one.order);
                self.close(failed, &order);
            } else if one.file.is_none() && one.looked.elapsed() >= RETRY {
                let order = Arc::clone(&one.order);
                self.begin_again(at, &order);
            }
        }
    }

    /// Goes on with a new file where one could not be written. Its directory may have been removed.
    fn begin_again(&mut self, at: usize, order: &Arc<Order>) {
        // An error shows when the file is created.
        let _ = fs::create_dir_all(&order.opened.trigger.dump.to);
        let file = self.file_of(order);
        if let Some(one) = self.files.get_mut(at) {
            (one.file, one.looked, one.is_shown) = (Some(file), Instant::now(), false);
        }
    }

    /// Closes a file, and says what became of it.
    fn close(&mut self, mut file: DumpFile, order: &Order) {
        file.lose(order.lost.swap(0, Ordering::Relaxed));
        // The ledger of a run is that of all its interfaces.
        if self.interfaces.len() == 1 && file.is_written() {
            file.count(&self.orders.ledger.lock().unwrap_or_else(PoisonError::into_inner).0);
        }
        let (path, is_disk_full, is_full) = (file.path().to_owned(), file.has_full_disk(), file.is_full());
        let error = file.finish(&mut self.outcome);
        self.orders.board.closes(&order.opened.trigger, &path, error.is_some());
        if let Some(error) = error {
            self.failures.note(&path, FileTrouble::of(is_disk_full));
            // A file that is tried again fails in the same words.
            if !self.outcome.failed.contains(&error) {
                eprintln!("weir: {}", printable(&error));
                self.outcome.failed.push(error);
            }
        } else if is_full {
            self.failures.note(&path, FileTrouble::Full);
        }
    }
}

impl Writing {
    /// Writes the packets that need not wait for a worker. Returns whether the rings of all workers are here.
    fn write(&mut self, now: u64, interfaces: &[InterfaceInfo], is_end: bool) -> bool {
        let has_rings = self.reached.iter().all(Option::is_some) || self.begun.elapsed() >= RINGS || is_end;
        if !has_rings {
            return false;
        }
        let reached: Vec<Time> = self.reached.iter().map(|time| time.unwrap_or_default()).collect();
        let until = if is_end { u64::MAX } else { now.saturating_sub(LATE) };
        let (file, order) = (&mut self.file, &self.order);
        self.lanes.write_until(&reached, Time(until), usize::MAX, |batch| match file {
            Some(file) => batch.packets().for_each(|packet| file.write(&packet, interfaces)),
            None => drop(order.lost.fetch_add(batch.slots.len() as u64, Ordering::Relaxed)),
        });
        true
    }

    /// Whether all workers have passed its end.
    fn is_passed(&self) -> bool {
        let end = self.order.wanted.until.saturating_add(LATE);
        self.reached.iter().all(|time| time.is_some_and(|time| time.0 >= end))
    }

    /// Shows where the file is written, once.
    fn show(&mut self, board: &Board) {
        if !self.is_shown
            && let Some(file) = &self.file
            && let Some(place) = file.place()
        {
            board.places(&self.order.opened.trigger, file.path(), place);
            self.is_shown = true;
        }
    }

    /// Finds out whether the file was removed while it is written, once in a while.
    fn look(&mut self) {
        if let Some(file) = &mut self.file
            && self.looked.elapsed() >= RETRY
        {
            self.looked = Instant::now();
            file.look();
        }
    }
}
