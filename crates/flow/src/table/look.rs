//! Which flow each packet is of: packets are looked up together, and what will be used is brought into the cache.

use super::emit::uncounted;
use super::probes::{Kind, Probes};
use crate::fragments::{Counted, Fragments};
use crate::parsed_packet::{Looker, ParsedPacket};
use crate::row::{Cold, Hot, mark};
use crate::{FlowSink, FlowTable};
use weir_wire::{Batch, Fragment, IpFragment, Layers, Packet, Slot, shows_its_key};

impl FlowTable {
    /// Looks up the flows of consecutive packets of the current group, the first of which is packet `at`, of the most common form
    /// ([`Layers::common`]). Each step runs over all of them.
    #[inline]
    pub(super) fn look_at_common(&mut self, at: usize, batch: Batch<'_>, slots: &[Slot], layers: &[Layers]) {
        let packets = slots.iter().zip(layers);
        let Probes { flow_refs, kinds, .. } = &mut self.probes;
        flow_refs.extend(packets.map(|(slot, layers)| Looker::flow_ref_common(batch.data(slot), layers)));
        kinds.extend(layers.iter().enumerate().map(|(n, layers)| Kind::plain(at + n, layers, true)));
        self.stats.packets += slots.len() as u64;
    }

    /// Looks up the flow of packet `at` of the current group.
    #[inline]
    pub(super) fn look<S: FlowSink>(
        &mut self,
        at: usize,
        packet: &Packet<'_>,
        layers: &Layers,
        is_regular: impl FnOnce(&Packet<'_>, &Layers) -> bool,
        sink: &mut S,
    ) {
        if !self.look.is_plain(layers) {
            self.look_closely(at as u8, packet, layers, sink);
        } else {
            self.look_at_plain(at, packet, layers, is_regular(packet, layers));
        }
    }

    #[inline(never)]
    fn look_at_plain(&mut self, at: usize, packet: &Packet<'_>, layers: &Layers, is_regular: bool) {
        if let Some(flow_ref) = self.look.flow_ref(packet, layers, layers.vlan) {
            self.stats.packets += 1;
            self.probes.push(flow_ref, Kind::plain(at, layers, is_regular));
        }
    }

    /// Looks up the flows of a fragment or of a packet that carries others.
    #[cold]
    fn look_closely<S: FlowSink>(&mut self, at: u8, packet: &Packet<'_>, layers: &Layers, sink: &mut S) {
        let Self { look, parsed_packets, levels, fragments, tunnel_ends, stats, .. } = self;
        let before = parsed_packets.len();
        let mut is_counted = false;
        let name = |outer: &ParsedPacket, tunnel| {
            tunnel_ends.see(&look.found(outer.flow_ref), tunnel, outer.facts.vlan, outer.facts.time)
        };
        look.look_inside(packet, layers, name, |parsed, layers| {
            is_counted = true;
            let is_shown = S::PACKETS && !parsed.facts.carrier;
            let is_wrong = parsed.facts.bad_checksum;
            if layers.fragment == Fragment::Whole {
                parsed_packets.push(parsed);
            } else {
                fragment(fragments, parsed_packets, parsed, packet, layers);
            }
            if is_shown && layers.fragment == Fragment::Whole {
                levels.resize(parsed_packets.len() - 1, None);
                levels.push(Some((at, *layers)));
            } else if is_shown && !is_wrong {
                sink.fragment(packet, layers);
            }
        });
        tunnel_ends.take().for_each(|tunnel| sink.tunnel(&tunnel));
        stats.packets += u64::from(is_counted);
        if !is_counted
            && shows_its_key(packet, layers)
            && let Some(flow_ref) = look.flow_ref(packet, layers, layers.vlan)
        {
            // Its network header has a wrong checksum.
            uncounted(&flow_ref, &look.facts(packet, layers, true), sink);
            if S::PACKETS {
                sink.wrong_header(packet, layers);
            }
        }
        for (at, parsed) in parsed_packets.iter().enumerate().skip(before) {
            let kind = Kind { at: at as u8, is_cold: true, is_plain: false, is_regular: false };
            self.probes.push(parsed.flow_ref, kind);
        }
    }

    /// Reads one word of every cache line that will be used next, in loops without other work, so that the processor
    /// has as many reads in flight as it can. (A read among other work delays that work: with the reads spread over
    /// it, two at a time are in flight, and a packet of 65,536 flows takes twice as long.)
    pub(super) fn touch(&mut self) {
        let (index, look) = (&self.index, &self.look);
        let Probes { flow_refs, kinds, lines, likely } = &mut self.probes;
        lines.extend(flow_refs.iter_mut().map(|flow_ref| {
            look.find(flow_ref);
            flow_ref.line
        }));
        let sum = lines.iter().fold(0, |sum, line| sum ^ index.touch(*line));
        likely.extend(flow_refs.iter().map(|flow_ref| index.likely(flow_ref.line, flow_ref.hash)));
        let missing = likely.iter().filter(|likely| **likely == 0).count();
        let hot = &self.hot;
        let mut lines = likely.iter().fold(0, |lines, likely| {
            lines ^ hot.get((*likely as usize).wrapping_sub(1)).map_or(0, Hot::touch)
        });
        for (likely, _) in likely.iter().zip(kinds.iter()).filter(|(_, kind)| kind.is_cold) {
            lines ^= self.cold.get((*likely as usize).wrapping_sub(1)).map_or(0, Cold::touch);
        }
        if missing > 0 && self.free == 0 && self.hot.len() == self.capacity {
            // The rows that will be evicted next, and their slots in the index.
            let hand = self.hand.min(self.hot.len());
            let end = (hand + missing).min(self.hot.len());
            let victims = self.hot.get(hand..end).unwrap_or_default();
            lines ^= victims.iter().fold(0, |lines, row| lines ^ row.touch());
            for (row, at) in victims.iter().zip(hand..) {
                let place = match row.has(mark::FRESH) {
                    true => row.fresh_place(),
                    false => self.cold.get(at).map_or(0, |cold| cold.origin.place),
                };
                self.index.touch_mut(place);
            }
        }
        self.touched ^= u64::from(sum) ^ lines;
    }

    /// Looks up a few packets, without prefetches.
    pub(super) fn find_likely(&mut self) {
        let Probes { flow_refs, likely, .. } = &mut self.probes;
        for flow_ref in flow_refs {
            self.look.find(flow_ref);
            likely.push(self.index.likely(flow_ref.line, flow_ref.hash));
        }
    }

    /// Prefetches the rows that [`FlowTable::show`] and readers of packets need.
    pub(super) fn touch_shown(&mut self, sink: &mut impl FlowSink) {
        let known = || self.probes.likely.iter().filter_map(|likely| likely.checked_sub(1));
        let lines = known().fold(0, |lines, row| lines ^ self.cold.get(row as usize).map_or(0, Cold::touch));
        sink.ahead(known());
        self.touched ^= lines;
    }
}

/// Counts a fragment to the flow of its packet's first fragment.
#[cold]
fn fragment(
    fragments: &mut Fragments,
    parsed_packets: &mut Vec<ParsedPacket>,
    parsed: ParsedPacket,
    packet: &Packet<'_>,
    layers: &Layers,
) {
    let Some(this) = IpFragment::of(packet, layers) else {
        parsed_packets.push(parsed);
        return;
    };
    let is_first = layers.fragment == Fragment::First;
    let Counted { unmatched, fragment } = fragments.see(parsed, this.id, this.proto, is_first);
    parsed_packets.extend(unmatched);
    parsed_packets.extend(fragment);
}
