//! The flows whose packets a pass over captures writes, remembered for a second pass.

use std::sync::{Mutex, PoisonError};
use weir_engine::{DecidedFlow, DecidedFlows};

/// The flows that the workers of a run have decided, within bounded memory.
pub struct Decisions {
    /// Maximum number of flows.
    most: usize,
    flows: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    flows: Vec<DecidedFlow>,
    /// Whether there was no room for a flow.
    is_part: bool,
}

impl Decisions {
    /// At most `memory` bytes of flows.
    pub fn new(memory: usize) -> Self {
        // A list that grows is there twice for a moment.
        Self { most: memory / size_of::<DecidedFlow>() / 2, flows: Mutex::default() }
    }

    /// Remembers a flow, if there is room.
    pub fn remember(&self, flow: &DecidedFlow) {
        let mut all = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        if all.flows.len() < self.most {
            all.flows.push(*flow);
        } else {
            all.is_part = true;
        }
    }

    /// Takes the flows.
    pub fn take(&self) -> DecidedFlows {
        let Remembered { flows, is_part } =
            std::mem::take(&mut *self.flows.lock().unwrap_or_else(PoisonError::into_inner));
        DecidedFlows::new(flows, !is_part)
    }
}
