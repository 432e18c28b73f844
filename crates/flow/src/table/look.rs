//! Which flow each packet is of: packets are looked up together, and what will be used is brought into the cache.

use super::Probe;
use super::emit::uncounted;
use crate::fragments::{Counted, Fragments};
use crate::parsed_packet::{FlowRef, ParsedPacket};
use crate::row::{Cold, Hot, mark};
use crate::{FlowSink, FlowTable};
use weir_wire::build::flags::{FIN, RST, SYN};
use weir_wire::{Fragment, IpFragment, Layers, Packet, shows_its_key};

impl FlowTable {
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
        let at = at as u8;
        if layers.common
            && !self.look.checksums
            && let Some(flow_ref) = self.look.flow_ref_common(packet, layers)
        {
            self.probe(at, flow_ref, layers, true);
        } else if !self.look.is_plain(layers) {
            self.look_closely(at, packet, layers, sink);
        } else {
            self.look_at_plain(at, packet, layers, is_regular(packet, layers));
        }
    }

    #[inline(never)]
    fn look_at_plain(&mut self, at: u8, packet: &Packet<'_>, layers: &Layers, is_regular: bool) {
        if let Some(flow_ref) = self.look.flow_ref(packet, layers, layers.vlan) {
            self.probe(at, flow_ref, layers, is_regular);
        }
    }

    /// Looks up the flow of the plain packet `at`.
    #[inline(always)]
    fn probe(&mut self, at: u8, flow_ref: FlowRef, layers: &Layers, is_regular: bool) {
        self.stats.packets += 1;
        let is_cold = layers.tcp_flags & (SYN | FIN | RST) != 0;
        self.probes.push(Probe { flow_ref, at, is_cold, is_plain: true, is_regular, likely: 0 });
    }

    /// Looks up the flows of a fragment or of a packet that carries others.
    #[cold]
    fn look_closely<S: FlowSink>(&mut self, at: u8, packet: &Packet<'_>, layers: &Layers, sink: &mut S) {
        let Self { look, parsed_packets, levels, fragments, tunnel_ends, stats, .. } = self;
        let before = parsed_packets.len();
        let mut is_counted = false;
        let name = |outer: &ParsedPacket, tunnel| {
            tunnel_ends.see(&outer.flow_ref, tunnel, outer.facts.vlan, outer.facts.time)
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
            let flow_ref = parsed.flow_ref;
            self.probes.push(Probe {
                flow_ref,
                at: at as u8,
                is_cold: true,
                is_plain: false,
                is_regular: false,
                likely: 0,
            });
        }
    }

    /// Reads one word of every cache line that will be used next, in loops without other work, so that the processor
    /// has as many reads in flight as it can. (A read among other work delays that work: with the reads spread over
    /// it, two at a time are in flight, and a packet of 65,536 flows takes twice as long.)
    pub(super) fn touch(&mut self) {
        let index = &self.index;
        let sum = self.probes.iter().fold(0, |sum, probe| sum ^ index.touch(probe.flow_ref.line));
        let mut missing = 0;
        for probe in &mut self.probes {
            probe.likely = index.likely(probe.flow_ref.line, probe.flow_ref.hash);
            missing += usize::from(probe.likely == 0);
        }
        let hot = &self.hot;
        let mut lines = self.probes.iter().fold(0, |lines, probe| {
            lines ^ hot.get((probe.likely as usize).wrapping_sub(1)).map_or(0, Hot::touch)
        });
        for probe in self.probes.iter().filter(|probe| probe.is_cold) {
            lines ^= self.cold.get((probe.likely as usize).wrapping_sub(1)).map_or(0, Cold::touch);
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

    /// Prefetches the rows that [`FlowTable::show`] and readers of packets need.
    pub(super) fn touch_shown(&mut self, sink: &mut impl FlowSink) {
        let known = || self.probes.iter().filter_map(|probe| probe.likely.checked_sub(1));
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
