//! Packets on their way to who reads what is said in flows.

use crate::row::{Row, mark};
use crate::sighting::Whose;
use crate::{FlowIdentity, FlowSink, FlowTable, Seen};
use weir_wire::{Direction, Fragment, Layers, Packet};

impl FlowTable {
    /// Shows a packet that was counted to the flow in that row, where the sink wants it.
    #[inline(always)]
    pub(crate) fn show<S: FlowSink>(
        &self,
        row: Option<u32>,
        whose: &Whose,
        packet: &Packet<'_>,
        layers: &Layers,
        sink: &mut S,
    ) {
        if S::PACKETS
            && let Some(row) = row
            && let Some(flow) = self.identity(row)
        {
            let is_forward = (whose.sender & 1 == 0) == flow.initiator_is_lower;
            let direction = if is_forward { Direction::Forward } else { Direction::Reverse };
            sink.packet(&Seen { row, flow, direction, packet, layers });
        }
    }

    /// Shows a packet that was counted in its fragments, and put together from them, to the flow that it is of.
    pub fn attend<S: FlowSink>(&self, packet: &Packet<'_>, layers: &Layers, sink: &mut S) {
        self.look.look_inside(
            packet,
            layers,
            |_, _| 0,
            |sighting, layers| {
                let whose = &sighting.whose;
                let row = self.index.find(whose.line, whose.hash, &whose.key, &self.hot);
                if layers.fragment == Fragment::Whole
                    && !sighting.facts.carrier
                    && !sighting.facts.bad_checksum
                {
                    self.show(row, whose, packet, layers, sink);
                }
            },
        );
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
