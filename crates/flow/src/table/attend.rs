//! Packets that were reassembled from their fragments, and frames that were captured in one packet with others.

use super::Carrier;
use crate::parsed_packet::{FlowRef, ParsedPacket};
use crate::row::mark;
use crate::{FlowSink, FlowTable};
use weir_wire::{Fragment, Layers, Packet, Tunnel};

impl FlowTable {
    /// Takes a packet that was reassembled from its fragments, which were counted before.
    ///
    /// The packet goes to the sink with the flow of its fragments. If it is a tunnel, the packets that it carries are
    /// counted to their flows, and the flow of the fragments becomes a carrier, as if it had come in one piece.
    pub fn attend<S: FlowSink>(&mut self, packet: &Packet<'_>, layers: &Layers, sink: &mut S) {
        let flow_ref = self.look.flow_ref(packet, layers, layers.vlan).map(|of| self.look.found(of));
        let row = flow_ref.and_then(|of| self.index.find(of.line, of.hash, &of.key, &self.hot));
        let counted = flow_ref.zip(row);
        let levels = self.levels_of(packet, layers, sink);
        if layers.tunnel == Tunnel::None && counted.is_none() {
            return;
        }
        self.take(packet, &levels, counted, sink);
        if layers.tunnel != Tunnel::None
            && let (Some((_, row)), Some((outermost, _))) = (counted, levels.first())
        {
            self.settle(row);
            if let Some(hot) = self.hot.get_mut(row as usize) {
                hot.mark(mark::CARRIER);
                hot.set_carries(outermost.facts.carries);
            }
        }
    }

    /// Takes a frame that was captured in one packet with others ([`weir_wire::further_frames`]): it is counted to its
    /// flow, and not among the captured packets.
    pub fn further<S: FlowSink>(&mut self, packet: &Packet<'_>, layers: &Layers, sink: &mut S) {
        let levels = self.levels_of(packet, layers, sink);
        self.take(packet, &levels, None, sink);
    }

    /// The packet and those that it carries. Tunnels directly over IP go to the sink.
    fn levels_of<S: FlowSink>(
        &mut self,
        packet: &Packet<'_>,
        layers: &Layers,
        sink: &mut S,
    ) -> Vec<(ParsedPacket, Layers)> {
        let mut levels = Vec::new();
        let Self { look, tunnel_ends, .. } = self;
        let name = |outer: &ParsedPacket, tunnel| {
            tunnel_ends.see(&look.found(outer.flow_ref), tunnel, outer.facts.vlan, outer.facts.time)
        };
        look.look_inside(packet, layers, name, |parsed, layers| levels.push((parsed, *layers)));
        tunnel_ends.take().for_each(|tunnel| sink.tunnel(&tunnel));
        levels
    }

    /// Counts the levels of a packet, apart from that of the flow `counted`, and passes its content to the sink.
    fn take<S: FlowSink>(
        &mut self,
        packet: &Packet<'_>,
        levels: &[(ParsedPacket, Layers)],
        counted: Option<(FlowRef, u32)>,
        sink: &mut S,
    ) {
        let mut carrier = None;
        for (parsed, layers) in levels {
            let ParsedPacket { flow_ref, facts, outer } = parsed;
            let row = match counted.filter(|(known, _)| known.key == flow_ref.key) {
                Some((_, row)) => Some(row),
                None => {
                    let carrier = match carrier.filter(|_| facts.carried) {
                        Some(row) => Carrier::Row(row),
                        None => Carrier::Named(*outer),
                    };
                    self.sight(&self.look.found(*flow_ref), 0, facts, carrier, sink)
                }
            };
            carrier = row.filter(|_| facts.carrier);
            if facts.carrier {
                continue;
            }
            match layers.fragment {
                _ if facts.bad_checksum => self.show_wrong(row, flow_ref, packet, layers, sink),
                Fragment::Whole => self.show(row, flow_ref, packet, layers, sink),
                _ => sink.fragment(packet, layers),
            }
        }
    }
}
