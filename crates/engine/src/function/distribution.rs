//! Distribution of values.

use super::{Argument, Function, FunctionSpec, InputKind, Memory};
use crate::{FlowRecord, Item};
use weir_api::{Histogram, Level, Reading};
use weir_wire::{Layers, Packet};

pub(super) static DISTRIBUTION: FunctionSpec = FunctionSpec {
    name: "distribution",
    help: "Histogram of one value of each packet or, at flow level, of each flow.",
    arguments: &[Argument {
        name: "of",
        help: "The value. Of packets: size (bytes on the wire), payload (bytes after the transport header) or ttl. Of flows: packets, bytes or duration (in microseconds).",
        default: Some("size"),
    }],
    levels: &[Level::Packet, Level::Flow],
    input: InputKind::Packets,
    memory: |arguments| {
        // Edges and counts, and those of an empty histogram.
        let bins = edges(arguments.text("of")?).len() * 2 * size_of::<u64>();
        Ok(Memory { state: 512 + 2 * bins, reading: 256 + bins })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let of = arguments.choice(
            "of",
            &[
                ("size", Of::Packet(|packet, _| u64::from(packet.wire_len))),
                ("payload", Of::Packet(|_, layers| u64::from(layers.payload_len))),
                ("ttl", Of::Packet(|_, layers| u64::from(layers.ttl))),
                ("packets", Of::Flow(|flow| flow.forward.packets + flow.reverse.packets)),
                ("bytes", Of::Flow(|flow| flow.forward.frame_bytes + flow.reverse.frame_bytes)),
                ("duration", Of::Flow(|flow| flow.last.since(flow.first) / 1000)),
            ],
        )?;
        let name = arguments.text("of")?;
        let edges = edges(name);
        Ok(Box::new(Distribution {
            of,
            empty: Histogram::new(name, edges.clone()),
            histogram: Histogram::new(name, edges),
        }))
    },
};

/// The bins of RFC 2819 (etherStatsPkts64Bytes ...) for sizes, powers of two for most others.
fn edges(name: &str) -> Vec<u64> {
    match name {
        "size" => vec![0, 64, 65, 128, 256, 512, 1024, 1519],
        "ttl" => (0..=15).map(|n| n * 16).collect(),
        _ => std::iter::once(0).chain((0..40).map(|n| 1 << n)).collect(),
    }
}

#[derive(Clone, Copy)]
enum Of {
    Packet(fn(&Packet<'_>, &Layers) -> u64),
    Flow(fn(&FlowRecord) -> u64),
}

struct Distribution {
    of: Of,
    empty: Histogram,
    histogram: Histogram,
}

impl Function for Distribution {
    fn item(&mut self, item: &Item<'_>) {
        match (self.of, item) {
            (Of::Packet(value), Item::Packet(packet, layers)) => self.histogram.add(value(packet, layers)),
            // Late segments of a closed connection are no flow of their own.
            (Of::Flow(value), Item::FlowEnd(flow, _)) if flow.follows == 0 => self.histogram.add(value(flow)),
            _ => {}
        }
    }

    fn take(&mut self) -> Reading {
        Reading::Histogram(std::mem::replace(&mut self.histogram, self.empty.clone()))
    }
}
