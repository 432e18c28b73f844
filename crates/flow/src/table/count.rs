//! Counts packets to the rows of their flows, on the fast path or on the slow one.

use super::emit::uncounted;
use super::probes::Probe;
use super::{Begun, Carrier};
use crate::index::same;
use crate::oddity::Oddities;
use crate::parsed_packet::{Facts, FlowRef, ParsedPacket};
use crate::row::{Cold, Hot, Row, mark};
use crate::{EndReason, FlowSink, FlowTable, fast_path, tcp};
use weir_wire::build::flags::SYN;
use weir_wire::{Layers, Packet, Tag, Time};

impl FlowTable {
    /// Counts the packets that were looked up; `get` returns a packet of the group.
    #[inline]
    pub(super) fn count<'a, S: FlowSink>(
        &mut self,
        sink: &mut S,
        get: impl Fn(usize) -> Option<(Packet<'a>, &'a Layers)>,
    ) {
        self.index.begin_group();
        if self.probes.len() > 1 {
            self.touch();
            if S::PACKETS {
                self.touch_shown(sink);
            }
        } else {
            self.find_likely();
        }
        let probes = std::mem::take(&mut self.probes);
        let asks_tags = sink.asks_tags();
        let mut carrier = None;
        for probe in probes.iter() {
            let probe = &probe;
            if probe.kind.is_plain {
                let Some((packet, layers)) = get(usize::from(probe.kind.at)) else { continue };
                #[cfg(test)]
                if self.is_thorough {
                    self.plain(probe, &packet, layers, sink);
                    continue;
                }
                if probe.likely == 0 {
                    let row = self.fresh(probe, &packet, layers, sink);
                    self.show(row, probe.flow_ref, &packet, layers, sink);
                    continue;
                }
                let at = probe.likely - 1;
                let before = if cfg!(debug_assertions) { self.copy_of(at) } else { None };
                let (flow_ref, timers, active) = (probe.flow_ref, &self.timers, self.config.active);
                let is_counted = self.hot.get_mut(at as usize).is_some_and(|row| {
                    fast_path::count(row, flow_ref, &packet, layers, timers, active)
                        || self.cold.get_mut(at as usize).is_some_and(|cold| {
                            fast_path::count_first(row, cold, flow_ref, &packet, layers, timers, active)
                        })
                });
                debug_assert!(!is_counted || self.is_as_if_looked_at(at, before, probe, &packet, layers));
                let row = if !is_counted {
                    self.plain(probe, &packet, layers, sink)
                } else {
                    if !probe.kind.is_regular {
                        self.irregular(at, probe.flow_ref, &self.look.facts(&packet, layers, false), sink);
                    } else if asks_tags && self.has_other_tag(at, Tag::of(packet.link, layers)) {
                        self.irregular(at, probe.flow_ref, &self.look.facts(&packet, layers, true), sink);
                    }
                    Some(at)
                };
                self.show(row, probe.flow_ref, &packet, layers, sink);
            } else if let Some((facts, outer)) =
                self.parsed_packets.get(usize::from(probe.kind.at)).map(|s| (s.facts.clone(), s.outer))
            {
                let carrier_of_it = match carrier.filter(|_| facts.carried) {
                    Some(row) => Carrier::Row(row),
                    None => Carrier::Named(outer),
                };
                let row = self.sight(probe.flow_ref, probe.likely, &facts, carrier_of_it, sink);
                carrier = row.filter(|_| facts.carrier);
                if S::PACKETS
                    && let Some((packet, layers)) =
                        self.levels.get(usize::from(probe.kind.at)).copied().flatten()
                    && let Some((packet, _)) = get(usize::from(packet))
                {
                    match facts.bad_checksum {
                        false => self.show(row, probe.flow_ref, &packet, &layers, sink),
                        true => self.show_wrong(row, probe.flow_ref, &packet, &layers, sink),
                    }
                }
            }
        }
        self.probes = probes;
        self.probes.clear();
        self.parsed_packets.clear();
        self.levels.clear();
        self.fit_index(sink);
    }

    fn copy_of(&self, at: u32) -> Option<(Hot, Cold)> {
        Some((self.hot.get(at as usize)?.clone(), self.cold.get(at as usize)?.clone()))
    }

    /// Whether a row that was `before` and took a packet on the fast path equals a row that took it on the slow path.
    fn is_as_if_looked_at(
        &mut self,
        at: u32,
        before: Option<(Hot, Cold)>,
        probe: &Probe<'_>,
        packet: &Packet<'_>,
        layers: &Layers,
    ) -> bool {
        let Some((mut hot, mut cold)) = before else { return false };
        let facts = self.look.facts(packet, layers, probe.kind.is_regular);
        let mut row = Row::new(&mut hot, &mut cold);
        self.timers.count(&mut row, &mut self.pool, usize::from(probe.flow_ref.sender & 1), &facts);
        row.save();
        self.copy_of(at) == Some((hot, cold))
    }

    /// Counts a packet that carries no other and that may change more than counters.
    #[inline(never)]
    pub(super) fn plain(
        &mut self,
        probe: &Probe<'_>,
        packet: &Packet<'_>,
        layers: &Layers,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        let facts = self.look.facts(packet, layers, probe.kind.is_regular);
        self.sight(probe.flow_ref, probe.likely, &facts, Carrier::NONE, sink)
    }

    /// Counts the facts of a packet and returns the row of its flow. `likely` is the likely row plus 1.
    #[inline]
    pub(super) fn sight(
        &mut self,
        flow_ref: &FlowRef,
        likely: u32,
        s: &Facts,
        carrier: Carrier,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        let is_it = |row: &Hot| !row.is_free() && same(&row.key, &flow_ref.key);
        let at = likely.wrapping_sub(1);
        let mut row = match self.hot.get(at as usize).is_some_and(is_it) {
            true => Some(at),
            false => self.index.find(flow_ref.line, flow_ref.hash, &flow_ref.key, &self.hot),
        };
        if let Some(at) = row
            && let Some((reason, odd)) = self.splits(at, s)
        {
            if !odd.is_empty() && sink.asks_oddities() {
                self.report(at, flow_ref, s.time, odd, sink);
            }
            if reason == EndReason::Active {
                self.cut(at, s.time, sink);
            } else {
                self.end(at, reason, sink);
                row = None;
            }
        }
        let begins = row.is_none();
        let at = match row {
            Some(at) => at,
            None => match self.begin(flow_ref, s, carrier, sink) {
                Some(Begun::Empty(at)) => at,
                Some(Begun::Counted(at)) => {
                    if !s.regular {
                        self.irregular(at, flow_ref, s, sink);
                    }
                    if sink.asks_control() {
                        self.control(at, flow_ref, s, true, sink);
                    }
                    self.look_at_first(at, flow_ref, s, sink);
                    return Some(at);
                }
                None => {
                    uncounted(flow_ref, s, sink);
                    return None;
                }
            },
        };
        let side = usize::from(flow_ref.sender & 1);
        if !begins && !carrier.is_none() {
            self.note_other_parent(at, side, carrier);
        }
        let mut row = Row::at(&mut self.hot, &mut self.cold, at)?;
        let is_counted = self.timers.count(&mut row, &mut self.pool, side, s);
        let odd = row.odd;
        row.save();
        if !is_counted {
            uncounted(flow_ref, s, sink);
        } else if !s.regular || sink.asks_tags() && self.has_other_tag(at, s.tag) {
            self.irregular(at, flow_ref, s, sink);
        }
        if is_counted && sink.asks_control() {
            self.control(at, flow_ref, s, begins, sink);
        }
        if !odd.is_empty() && sink.asks_oddities() {
            self.report(at, flow_ref, s.time, odd, sink);
        }
        Some(at)
    }

    /// Reports what is odd about the segment of a flow that is kept in the short form.
    #[inline]
    pub(super) fn look_at_first(&self, at: u32, flow_ref: &FlowRef, s: &Facts, sink: &mut impl FlowSink) {
        if sink.asks_oddities()
            && let Some(segment) = &s.segment
        {
            let from_initiator = self.hot.get(at as usize).is_some_and(|hot| !hot.has(mark::FLIPPED));
            let odd = tcp::oddity_of_first(segment, from_initiator);
            if !odd.is_empty() {
                self.report(at, flow_ref, s.time, odd, sink);
            }
        }
    }

    /// The reason why a packet does not belong to the flow in the row, and what is odd about it as a packet of that flow; `None`
    /// if it belongs to it. In that case the row is not fresh any more.
    #[inline]
    fn splits(&mut self, at: u32, s: &Facts) -> Option<(EndReason, Oddities)> {
        let plainly = |reason| Some((reason, Oddities::default()));
        let row = self.hot.get(at as usize)?;
        if s.time >= row.deadline {
            return plainly(self.reason(at, EndReason::Idle));
        }
        if s.time < row.last && row.last.since(s.time) >= self.timers.of_class(row.class()) {
            self.stats.time_jumps += 1;
            return plainly(self.reason(at, EndReason::Idle));
        }
        self.settle(at);
        let row = self.hot.get(at as usize)?;
        if let Some(segment) = s.segment.as_ref().filter(|segment| segment.flags & SYN != 0)
            && row.has(mark::SEGMENT)
            && !s.bad_checksum
        {
            let row = Row::at(&mut self.hot, &mut self.cold, at)?;
            if tcp::is_reuse(&row, segment) {
                let odd = tcp::oddity_of_reuse(&row, segment, s.time.since(row.hot.last));
                let closing = row.has(mark::CLOSING);
                let reason = if closing { self.reason(at, EndReason::Fin) } else { EndReason::Reused };
                return Some((reason, odd));
            }
        }
        if s.time.since(self.hot.get(at as usize)?.first) < self.config.active {
            return None;
        }
        let row = Row::at(&mut self.hot, &mut self.cold, at)?;
        let is_counted = (0..2).any(|side| row.counts(side).packets > 0);
        is_counted.then_some(EndReason::Active).and_then(plainly)
    }

    /// Converts a fresh row into the normal form.
    #[inline]
    pub(super) fn settle(&mut self, at: u32) {
        if let Some(hot) = self.hot.get_mut(at as usize).filter(|hot| hot.has(mark::FRESH))
            && let Some(cold) = self.cold.get_mut(at as usize)
        {
            hot.settle(cold).save();
        }
    }

    /// The reason for the end of a flow: the way TCP ended it, or else `otherwise`.
    pub(super) fn reason(&mut self, at: u32, otherwise: EndReason) -> EndReason {
        match self.hot.get(at as usize).is_some_and(|row| row.has(mark::CLOSING)) {
            true => match Row::at(&mut self.hot, &mut self.cold, at).is_some_and(|row| tcp::is_reset(&row)) {
                true => EndReason::Rst,
                false => EndReason::Fin,
            },
            false => otherwise,
        }
    }

    pub(super) fn expire_fragments(&mut self, now: Time, sink: &mut impl FlowSink) {
        let mut cursor = 0;
        let mut expired: Vec<ParsedPacket> =
            std::iter::from_fn(|| self.fragments.expire_next(now, &mut cursor)).collect();
        // The order of the rows comes from a keyed hash, which no result may depend on.
        expired
            .sort_by_key(|ParsedPacket { flow_ref, facts, .. }| (facts.earliest, facts.time, flow_ref.key));
        for ParsedPacket { flow_ref, facts, outer } in expired {
            // The index may have grown since the fragment was seen.
            self.sight(&self.look.found(flow_ref), 0, &facts, Carrier::Named(outer), sink);
        }
    }
}
