//! Orders to a live run: a new plan, or a new destination of packets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use weir_engine::Plan;
use weir_wire::Time;

use crate::dump::Intake;
use crate::online::TICK;
use std::sync::Arc;

/// The orders that all workers follow from a certain tick on.
#[derive(Clone)]
pub struct Orders {
    /// The first tick at which the orders apply, equal for all workers, so that all have equal intervals.
    from: Time,
    /// The plan.
    pub plan: Arc<Plan>,
    /// Destination of matching packets.
    pub packets: Option<Intake>,
}

/// The latest orders. Workers read their number once a second, and the orders only when it has changed.
pub struct Mailbox {
    number: AtomicU64,
    latest: Mutex<Orders>,
}

impl Mailbox {
    /// A mailbox with the initial orders.
    pub fn new(plan: Arc<Plan>, packets: Option<Intake>) -> Mailbox {
        let latest = Orders { from: Time(0), plan, packets };
        Mailbox { number: AtomicU64::new(0), latest: Mutex::new(latest) }
    }

    /// Changes the orders from the tick after next on, which no worker can have passed yet.
    pub fn change(&self, now: Time, change: impl FnOnce(&mut Orders)) {
        let tick = TICK.as_nanos() as u64;
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut latest);
        latest.from = Time((now.0 / tick + 2) * tick);
        self.number.fetch_add(1, Ordering::Release);
    }

    /// Drops the destination of packets after the last worker has ended.
    pub fn close(&self) {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).packets = None;
    }

    /// The orders that are new at a tick; `seen` is the number of the orders that the worker has.
    pub fn at(&self, tick: Time, seen: &mut u64) -> Option<Orders> {
        let number = self.number.load(Ordering::Acquire);
        if number == *seen {
            return None;
        }
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.from > tick {
            return None;
        }
        *seen = number;
        Some(latest.clone())
    }
}
