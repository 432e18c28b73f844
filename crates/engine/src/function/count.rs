//! Packets and bytes.

use super::{Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use weir_api::{Count, Level, Reading};

pub(super) static PACKETS: FunctionSpec = FunctionSpec {
    name: "packets",
    help: "Counts packets; at stream level, chunks of payload or, after search, values; at flow level, the packets of flows.",
    arguments: &[],
    levels: &[Level::Packet, Level::Stream, Level::Flow],
    input: InputKind::Sums,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: None,
    identifies: false,
    build,
};

pub(super) static BYTES: FunctionSpec = FunctionSpec {
    name: "bytes",
    help: "Counts bytes on the wire, link-layer headers included; at stream level, bytes of payload, each once, or, after search, bytes of values.",
    arguments: &[],
    levels: &[Level::Packet, Level::Stream, Level::Flow],
    input: InputKind::Sums,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: None,
    identifies: false,
    build,
};

/// A count of packets and bytes.
pub(super) fn build(_: &Arguments<'_>) -> Result<Box<dyn Function>, String> {
    Ok(Box::new(CountFunction::default()))
}

#[derive(Default)]
struct CountFunction {
    count: Count,
}

impl Function for CountFunction {
    fn item(&mut self, item: &Item<'_>) {
        self.count.add(&item.count());
    }

    fn take(&mut self) -> Reading {
        Reading::Count(std::mem::take(&mut self.count))
    }

    fn so_far(&self) -> Option<Count> {
        Some(self.count)
    }
}
