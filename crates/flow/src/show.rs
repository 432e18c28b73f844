//! Passes packets, and what is odd about them, to readers of payload.

use crate::parsed_packet::FlowRef;
use crate::row::{Row, mark};
use crate::{FlowIdentity, FlowPacket, FlowSink, FlowTable, OddSegment, Oddities};
use weir_wire::{Direction, Layers, Packet, Time};

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
            && let Some(seen) = self.seen(row, flow_ref, packet, layers)
        {
            sink.packet(&seen);
        }
    }

    /// Passes a packet with a wrong checksum of the flow in that row to the sink, if the sink reads packets.
    #[cold]
    pub(crate) fn show_wrong<S: FlowSink>(
        &self,
        row: Option<u32>,
        flow_ref: &FlowRef,
        packet: &Packet<'_>,
        layers: &Layers,
        sink: &mut S,
    ) {
        if S::PACKETS
            && let Some(seen) = self.seen(row, flow_ref, packet, layers)
        {
            sink.wrong_checksum(&seen);
        }
    }

    /// The packet with the flow in that row.
    #[inline(always)]
    fn seen<'p>(
        &self,
        row: Option<u32>,
        flow_ref: &FlowRef,
        packet: &'p Packet<'p>,
        layers: &'p Layers,
    ) -> Option<FlowPacket<'p>> {
        let row = row?;
        let flow = self.identity(row)?;
        Some(FlowPacket { row, flow, direction: direction(flow_ref, &flow), packet, layers })
    }

    /// Reports what is odd about a segment of the flow in that row.
    #[cold]
    pub(crate) fn report(
        &self,
        row: u32,
        flow_ref: &FlowRef,
        time: Time,
        oddities: Oddities,
        sink: &mut impl FlowSink,
    ) {
        if let Some(flow) = self.identity(row) {
            let direction = direction(flow_ref, &flow);
            sink.odd(&OddSegment { row, flow, direction, time, oddities });
        }
    }

    fn identity(&self, row: u32) -> Option<FlowIdentity> {
        let hot = self.hot.get(row as usize)?;
        if hot.has(mark::FRESH) {
            return Some(hot.fresh_identity());
        }
        self.cold.get(row as usize).map(|cold| Row::identity_of(hot, cold))
    }
}

/// The side that sent a packet.
#[inline(always)]
fn direction(flow_ref: &FlowRef, flow: &FlowIdentity) -> Direction {
    if (flow_ref.sender & 1 == 0) == flow.initiator_is_lower {
        Direction::Forward
    } else {
        Direction::Reverse
    }
}
