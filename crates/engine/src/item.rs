//! The items that functions see.

use crate::fields::RecordView;
use crate::{FlowRecord, Tally};
use weir_api::Count;
use weir_wire::{Layers, Packet};

/// An item for a function. Its kind depends on the level and on the input of the subscription's function.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A packet and its layers.
    Packet(&'a Packet<'a>, &'a Layers),
    /// Sums of one direction of one flow since they were shown last. Functions that need only the flow's key and sums
    /// get them in place of each packet.
    Tally(&'a Tally<'a>),
    /// A flow that has ended.
    Flow(&'a FlowRecord),
    /// A record of a protocol.
    Record(&'a RecordView<'a>),
}

impl Item<'_> {
    /// Packets and bytes of the item.
    pub fn count(&self) -> Count {
        match self {
            Item::Packet(packet, _) => Count { packets: 1, bytes: u64::from(packet.wire_len) },
            Item::Tally(tally) => Count { packets: tally.packets, bytes: tally.bytes },
            Item::Flow(flow) => Count {
                packets: flow.forward.packets + flow.reverse.packets,
                bytes: flow.forward.frame_bytes + flow.reverse.frame_bytes,
            },
            Item::Record(_) => Count::default(),
        }
    }
}
