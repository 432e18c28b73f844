//! What rules of all workers of a run remember beyond a flow.

use crate::PacketOrder;
use std::fmt;
use std::sync::Arc;
use weir_detect::{Detector, SharedState, Turn};

/// What rules remember beyond a flow: counts of thresholds, and bits of hosts. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct RuleState {
    shared: Arc<SharedState>,
    turn: Option<Arc<dyn Turn>>,
}

impl RuleState {
    /// The handle of a worker of a run in which packets have an order.
    #[must_use]
    pub fn in_order(&self, worker: usize, order: Arc<dyn PacketOrder>) -> Self {
        Self { shared: Arc::clone(&self.shared), turn: Some(Arc::new(InOrder { worker, order })) }
    }

    /// Lets a detector share it.
    pub(crate) fn give_to(&self, detector: &mut Detector) {
        detector.share(Arc::clone(&self.shared), self.turn.clone());
    }
}

/// A worker's place in the order of packets.
struct InOrder {
    worker: usize,
    order: Arc<dyn PacketOrder>,
}

impl Turn for InOrder {
    fn wait(&self, packet: Option<u32>) {
        match packet {
            Some(packet) => self.order.wait(self.worker, packet),
            None => self.order.wait_here(self.worker),
        }
    }
}

impl fmt::Debug for InOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InOrder").field("worker", &self.worker).finish_non_exhaustive()
    }
}
