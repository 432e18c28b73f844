//! Passes packets to readers of payload.

use crate::parsed_packet::FlowRef;
use crate::row::{Row, mark};
use crate::{FlowIdentity, FlowPacket, FlowSink, FlowTable};
use weir_wire::{Direction, Layers, Packet};

impl FlowTable {
    /// Passes a packet that was counted to the flow in that row to the sink, if the sink reads packets.
    #[inline(always)]
    pub(crate) fn show<S: FlowSink>(
        &self,
        row: Option<u32>,
        flow_ref: &FlowRef,
        packet: &Packet<'_>,
        layers: &Layers,
        sink: &mut S,
    ) {
        if S::PACKETS
            && let Some(row) = row
            && let Some(flow) = self.identity(row)
        {
            let is_forward = (flow_ref.sender & 1 == 0) == flow.initiator_is_lower;
            let direction = if is_forward { Direction::Forward } else { Direction::Reverse };
            sink.packet(&FlowPacket { row, flow, direction, packet, layers });
        }
    }

    fn identity(&self, row: u32) -> Option<FlowIdentity> {
        let hot = self.hot.get(row as usize)?;
        if hot.has(mark::FRESH) {
            return Some(FlowIdentity {
                key: hot.key,
                initiator_is_lower: hot.fresh_initiator() == 0,
                first: hot.first,
                vlan: hot.fresh_vlans(),
                alias: 0,
            });
        }
        let cold = self.cold.get(row as usize)?;
        Some(FlowIdentity {
            key: hot.key,
            initiator_is_lower: Row::initiator_of(hot, cold) == 0,
            first: Row::born_of(hot, cold),
            vlan: cold.origin.vlan,
            alias: 0,
        })
    }
}
