//! What the collector, the workers and the writer of the files of triggers share in a run over links.

use super::file::Wanted;
use super::{Board, Opened};
use crate::dump::memory;
use crossbeam_channel::Sender;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_api::Ledger;
use weir_engine::Plan;
use weir_wire::{PacketBuf, Time};

/// Nanoseconds after which a packet is written even if a worker has not reached its time, and after its last time a file is closed.
pub const LATE: u64 = 1_000_000_000;

/// Time between two looks at a full queue.
const PATIENCE: Duration = Duration::from_millis(1);

/// A file that workers send packets to.
pub struct Order {
    /// Number of the order.
    pub number: u64,
    /// The event and its trigger.
    pub opened: Opened,
    /// Its packets.
    pub wanted: Wanted,
    /// The plan when it was opened, whose expression of the run selects its packets.
    pub plan: Arc<Plan>,
    /// Set when the file takes no more packets.
    pub is_done: AtomicBool,
    /// Packets for which the queue had no room.
    pub lost: AtomicU64,
}

impl Order {
    /// Whether the file takes no more packets.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }
}

/// Packets of a worker for a file.
pub struct Shipment {
    /// The file.
    pub order: Arc<Order>,
    /// Index of the worker.
    pub worker: usize,
    /// The packets, in order.
    pub packets: PacketBuf,
    /// The time up to which all packets of the worker were sent; `None` if more of the same time follow.
    pub reached: Option<Time>,
}

/// The files that workers send packets to, and their queue to the writer.
pub struct Orders {
    /// What the triggers do at present.
    pub board: Arc<Board>,
    /// Number of the latest order.
    pub latest: AtomicU64,
    /// The files that may take packets.
    pub open: Mutex<Vec<Arc<Order>>>,
    /// The queue.
    pub to: Sender<Shipment>,
    /// The ledger of the run so far, and the number of intervals that have ended.
    pub ledger: Mutex<(Ledger, u64)>,
    /// Bytes in the queue, of which `room` is the maximum.
    pub waiting: AtomicUsize,
    /// See `waiting`.
    pub room: usize,
    /// How packets come.
    pub arrival: Arrival,
}

/// How the packets of a run come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// When they are sent: they cannot wait, and their time is that of the system.
    Live,
    /// When they are read: they wait, and their time is that of a capture.
    Read,
}

impl Orders {
    /// The orders after the one of a number, which becomes that of the latest.
    pub fn since(&self, read: &mut u64) -> Vec<Arc<Order>> {
        // No lock is taken while nothing is ordered.
        if self.latest.load(Ordering::Acquire) == *read {
            return Vec::new();
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<_> = open.iter().filter(|order| order.number > *read).cloned().collect();
        *read = self.latest.load(Ordering::Acquire);
        new
    }

    /// Sends packets to the writer. Where the queue has no room, packets that cannot wait are lost and counted.
    pub fn ship(&self, shipment: Shipment) {
        let (bytes, packets) = (memory(&shipment.packets), shipment.packets.slots.len() as u64);
        if self.arrival == Arrival::Read {
            while self.waiting.load(Ordering::Relaxed) > self.room {
                std::thread::sleep(PATIENCE);
            }
            self.waiting.fetch_add(bytes, Ordering::Relaxed);
            // The writer outlives the workers.
            let _ = self.to.send(shipment);
            return;
        }
        let order = Arc::clone(&shipment.order);
        let before = self.waiting.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.room && packets > 0 || self.to.try_send(shipment).is_err() {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            order.lost.fetch_add(packets, Ordering::Relaxed);
        }
    }
}
