//! Shows what sessions emit to functions, on its way to the sink.

use crate::chains::Functions;
use crate::sink::{Emitted, Sink};
use crate::stream_demand::Covering;
use crate::{FlowIdentity, Item, Plan};
use weir_proto::{FILES, is_requested};
use weir_wire::stream::Chunk;

/// The way of what sessions emit. They do not know the functions that deliver a record, and leave them out: these are added here.
pub(crate) struct Tap<'w> {
    pub plan: &'w Plan,
    pub functions: &'w mut Functions,
    pub sink: &'w mut dyn Sink,
}

impl Tap<'_> {
    /// Shows a chunk to the functions of the subscriptions that cover its direction of its flow, and emits it if any of them
    /// delivers it.
    pub fn chunk(&mut self, covering: &[Covering], flow: &FlowIdentity, chunk: &Chunk<'_>) {
        let functions = self.functions.chunk(self.plan, covering, flow, chunk);
        if !functions.is_empty() {
            self.sink.take(Emitted::Chunk(flow, chunk, functions));
        }
    }

    /// Shows what a parser emits before a record to the functions that asked for it.
    pub fn early(&mut self, flow: &FlowIdentity, item: &Item<'_>) {
        self.functions.early(self.plan, flow, item);
    }
}

impl Sink for Tap<'_> {
    fn take(&mut self, emitted: Emitted<'_>) {
        let Emitted::Record(flow, record, _) = emitted else { return self.sink.take(emitted) };
        if is_requested(record.table) {
            return self.functions.requested(self.plan, flow, &record);
        }
        let demand = &self.plan.demand;
        let functions = match demand.tested.has(record.table) {
            true => self.functions.record(self.plan, flow, &record),
            false => self.plan.whole.records(record.table),
        };
        // The record of a file ends its content, also where nothing delivers it.
        let ends_content = demand.content && *record.table == FILES;
        if ends_content || !functions.is_empty() {
            self.sink.take(Emitted::Record(flow, record, functions));
        }
    }

    fn content(&mut self, flow: &FlowIdentity, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        self.sink.content(flow, packet, file, offset, bytes)
    }
}
