//! What a function is shown.

use crate::{FlowRecord, Tally};
use weir_api::Count;
use weir_wire::{Layers, Packet};

/// What a function is shown; which kind depends on its subscription's level and on what it asks for.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A packet and where its layers are.
    Packet(&'a Packet<'a>, &'a Layers),
    /// What one direction of one flow had since it was last shown: for functions to which only the flow's
    /// key and the sums matter, in place of each of its packets.
    Tally(&'a Tally<'a>),
    /// A flow that has ended.
    Flow(&'a FlowRecord),
}

impl Item<'_> {
    /// Packets and bytes it stands for.
    pub fn count(&self) -> Count {
        match self {
            Item::Packet(packet, _) => Count { packets: 1, bytes: u64::from(packet.wire_len) },
            Item::Tally(tally) => Count { packets: tally.packets, bytes: tally.bytes },
            Item::Flow(flow) => Count {
                packets: flow.forward.packets + flow.reverse.packets,
                bytes: flow.forward.frame_bytes + flow.reverse.frame_bytes,
            },
        }
    }
}
