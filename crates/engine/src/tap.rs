//! Shows what sessions emit to functions, on its way to the sink.

use crate::chains::Functions;
use crate::sink::{Emitted, Sink};
use crate::{FlowIdentity, Plan};

/// The way of what sessions emit.
pub(crate) struct Tap<'w> {
    pub plan: &'w Plan,
    pub functions: &'w mut Functions,
    pub sink: &'w mut dyn Sink,
}

impl Sink for Tap<'_> {
    fn take(&mut self, emitted: Emitted<'_>) {
        if let Emitted::Record(flow, record) = &emitted {
            let demand = &self.plan.demand;
            if demand.tested.has(record.table) {
                self.functions.record(self.plan, flow, record);
            }
            if !demand.hands_on(record.table) {
                return;
            }
        }
        self.sink.take(emitted);
    }

    fn content(&mut self, flow: &FlowIdentity, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        self.sink.content(flow, packet, file, offset, bytes)
    }
}
