//! A packet and its flow.

use crate::FlowIdentity;
use crate::stream::Segment;
use weir_wire::build::flags::{ACK, URG};
use weir_wire::{Direction, Layers, Packet, Reader};

/// A packet that was counted to a flow, for readers of payload.
#[derive(Clone, Copy, Debug)]
pub struct FlowPacket<'a> {
    /// The flow's row in its table: a small number that is unique until this flow ends.
    pub row: u32,
    /// The flow's identity.
    pub flow: FlowIdentity,
    /// The sending side.
    pub direction: Direction,
    /// The packet.
    pub packet: &'a Packet<'a>,
    /// The packet's layers; in a tunnel, the layers of the flow's level.
    pub layers: &'a Layers,
}

impl<'a> FlowPacket<'a> {
    /// The TCP segment in the packet; `None` if it is no TCP packet, or if its header is truncated.
    pub fn segment(&self) -> Option<Segment<'a>> {
        if self.layers.ip_proto != 6 || !self.layers.has_transport() {
            return None;
        }
        let mut header = Reader::new(self.packet.data.get(self.layers.transport as usize..)?);
        header.take(4)?;
        let (seq, ack) = (header.u32()?, header.u32()?);
        header.take(6)?;
        let urgent = header.u16()?;
        let flags = self.layers.tcp_flags;
        let data = self.layers.payload_of(self.packet.data);
        Some(Segment {
            time: self.packet.time,
            direction: self.direction,
            seq,
            ack: (flags & ACK != 0).then_some(ack),
            flags,
            urgent: (flags & URG != 0 && urgent > 0).then_some(urgent),
            data,
            cut: self.layers.payload_len.saturating_sub(data.len() as u32),
        })
    }

    /// The datagram's bytes, as far as they were captured.
    pub fn datagram(&self) -> Option<&'a [u8]> {
        (self.layers.ip_proto == 17 && self.layers.has_transport())
            .then(|| self.layers.payload_of(self.packet.data))
    }
}
