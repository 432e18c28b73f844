//! Rows for new flows: a free one, or that of a flow that is evicted.

use super::emit::{end_fresh, uncounted};
use super::probes::Probe;
use super::{Begun, Carrier};
use crate::index::Index;
use crate::parsed_packet::{Facts, FlowRef};
use crate::row::{Cold, Hot, Row, mark};
use crate::servers::is_likely_server;
use crate::{EndReason, FlowSink, FlowTable, first_packet};
use weir_wire::build::flags::{ACK, SYN};
use weir_wire::{Layers, Packet, Time};

impl FlowTable {
    /// Creates a flow for a packet that belongs to none.
    pub(super) fn begin(
        &mut self,
        flow_ref: &FlowRef,
        s: &Facts,
        carrier: Carrier,
        sink: &mut impl FlowSink,
    ) -> Option<Begun> {
        let (carrier, parent) = (carrier.row(), self.id_of(carrier));
        let root = self.followed(flow_ref, s);
        let at = self.free_row(carrier, sink)?;
        let place = self.enter(flow_ref, at, carrier, sink)?;
        let flips = self.config.guess_initiator && flips(flow_ref, s);
        self.stats.created += 1;
        self.stats.followed += u64::from(root.is_some());
        if parent == 0 && root.is_none() && first_packet::is_simple(flow_ref, s) {
            let hot = self.hot.get_mut(at as usize)?;
            hot.begin(flow_ref, s, flips, place);
            self.timers.set_fresh(hot);
            debug_assert!(self.is_as_if_settled(flow_ref, s, flips, place));
            return Some(Begun::Counted(at));
        }
        let mut row = Row::at(&mut self.hot, &mut self.cold, at)?;
        self.timers.begin(&mut row, flow_ref, s, flips);
        row.cold.origin.parent = parent;
        row.cold.origin.place = place;
        if root.is_some() {
            row.mark(mark::FOLLOWS);
        }
        row.save();
        if (root.is_some() || parent != 0)
            && let Some(linked) = self.linked.get_mut(at as usize)
        {
            *linked = root.unwrap_or(0);
        }
        Some(Begun::Empty(at))
    }

    /// The identifier of what carries a packet; 0: nothing.
    fn id_of(&mut self, carrier: Carrier) -> u64 {
        match carrier {
            Carrier::Row(at) => {
                self.settle(at);
                Row::at(&mut self.hot, &mut self.cold, at).map_or(0, |row| row.id())
            }
            Carrier::Named(id) => id,
        }
    }

    /// Notes what carries a packet of a known flow, if it is the first one of the other side and another carries it than the
    /// first.
    pub(super) fn note_other_parent(&mut self, at: u32, side: usize, carrier: Carrier) {
        let Some(row) = Row::at(&mut self.hot, &mut self.cold, at) else { return };
        let parent = row.cold.origin.parent;
        if parent == 0 || row.has(mark::FOLLOWS) || row.counts(side).packets != 0 {
            return;
        }
        let other = self.id_of(carrier);
        if let Some(linked) = self.linked.get_mut(at as usize).filter(|_| other != parent) {
            *linked = other;
        }
    }

    /// The closed connection that a flow follows which begins with this packet: see [`crate::FlowRecord::follows`].
    #[inline]
    fn followed(&self, flow_ref: &FlowRef, s: &Facts) -> Option<u64> {
        let is_late = s.segment.as_ref().is_some_and(|segment| segment.flags & SYN == 0);
        if is_late { self.closed.followed(flow_ref.hash, &flow_ref.key, s.time) } else { None }
    }

    /// Creates a flow for a plain packet that likely belongs to no flow, and counts the packet: the fast path of a
    /// flood.
    #[inline(never)]
    pub(super) fn fresh(
        &mut self,
        probe: &Probe<'_>,
        packet: &Packet<'_>,
        layers: &Layers,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        let flow_ref = probe.flow_ref;
        let facts = self.look.facts(packet, layers, probe.kind.is_regular);
        // A packet of this flow may have arrived after the lookup.
        if !first_packet::is_simple(flow_ref, &facts)
            || !self.index.is_as_looked_up(flow_ref.line)
            || self.followed(flow_ref, &facts).is_some()
        {
            return self.plain(probe, packet, layers, sink);
        }
        let (at, place) = match self.next_row(sink) {
            Some(at) => (at, self.enter(flow_ref, at, None, sink)),
            None => (0, None),
        };
        let (Some(place), Some(hot)) = (place, self.hot.get_mut(at as usize)) else {
            self.uncounted(probe, packet, layers, sink);
            return None;
        };
        let is_syn = facts.segment.as_ref().is_some_and(|segment| segment.flags & (SYN | ACK) == SYN);
        let flips = !is_syn && self.config.guess_initiator && flips(flow_ref, &facts);
        hot.begin(flow_ref, &facts, flips, place);
        self.timers.set_fresh(hot);
        self.stats.created += 1;
        debug_assert!(self.is_as_if_settled(flow_ref, &facts.clone(), flips, place));
        if !probe.kind.is_regular {
            self.irregular(at, flow_ref, &self.look.facts(packet, layers, false), sink);
        }
        if sink.asks_control() {
            self.control(at, flow_ref, &facts, true, sink);
        }
        self.look_at_first(at, flow_ref, &facts, sink);
        Some(at)
    }

    /// A row for a new flow, usually taken from a flow of one packet, which ends.
    #[inline]
    fn next_row(&mut self, sink: &mut impl FlowSink) -> Option<u32> {
        let at = self.hand;
        let is_victim =
            |hot: &&mut Hot| !hot.is_free() && hot.marks & (mark::USED | mark::FRESH) == mark::FRESH;
        if self.free == 0
            && self.hot.len() == self.capacity
            && let Some(hot) = self.hot.get_mut(at).filter(is_victim)
        {
            self.hand = if at + 1 < self.capacity { at + 1 } else { 0 };
            end_fresh(at as u32, hot, EndReason::Evicted, &mut self.record, sink);
            self.index.remove(hot.fresh_place());
            hot.deadline = Time(0);
            self.ended(EndReason::Evicted);
            return Some(at as u32);
        }
        self.free_row(None, sink)
    }

    /// Inserts a row into the index.
    #[inline]
    fn enter(
        &mut self,
        flow_ref: &FlowRef,
        at: u32,
        carrier: Option<u32>,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        match self.index.insert(flow_ref.line, flow_ref.hash, at) {
            Some(place) => Some(place),
            None => self.make_place(flow_ref, at, carrier, sink),
        }
    }

    /// Makes the index larger if it is small for its rows. No packet that was looked up may be left.
    #[inline]
    pub(super) fn fit_index(&mut self, sink: &mut impl FlowSink) {
        if self.index.is_small_for(self.hot.len()) {
            self.grow_index(sink);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow_index(&mut self, sink: &mut impl FlowSink) {
        self.index.grow();
        self.look.lines = self.index.lines();
        let mut without_place = Vec::new();
        for ((at, hot), cold) in (0..).zip(&mut self.hot).zip(&mut self.cold) {
            if hot.is_free() {
                continue;
            }
            let hash = self.look.hash.of(&hot.key);
            let place = self.index.insert(self.look.lines.of(hash), hash, at);
            if place.is_none() {
                without_place.push(at);
            }
            let place = place.unwrap_or(Index::NOWHERE);
            match hot.has(mark::FRESH) {
                true => hot.set_fresh_place(place),
                false => cold.origin.place = place,
            }
        }
        // A larger set has room for all of a smaller one, but for one time in many million.
        for at in without_place {
            self.end(at, EndReason::Evicted, sink);
        }
    }

    /// A row for a new flow whose set is full: the least recently used flow ends.
    #[cold]
    #[inline(never)]
    fn make_place(
        &mut self,
        flow_ref: &FlowRef,
        at: u32,
        carrier: Option<u32>,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        let others = self.index.rows(flow_ref.line).filter(|&row| Some(row) != carrier);
        let oldest = others.min_by_key(|&row| self.last_of(row))?;
        // The freed row differs from the row that will be used.
        self.end(oldest, EndReason::Evicted, sink);
        self.index.insert(flow_ref.line, flow_ref.hash, at)
    }

    /// Reports that a plain packet was not counted to any flow.
    #[cold]
    #[inline(never)]
    fn uncounted(&self, probe: &Probe<'_>, packet: &Packet<'_>, layers: &Layers, sink: &mut impl FlowSink) {
        uncounted(probe.flow_ref, &self.look.facts(packet, layers, probe.kind.is_regular), sink);
    }

    /// Whether the row that this packet creates on the fast path equals the row of the slow path.
    fn is_as_if_settled(&mut self, flow_ref: &FlowRef, s: &Facts, flips: bool, place: u32) -> bool {
        let (mut short, mut long) = ((Hot::default(), Cold::default()), (Hot::default(), Cold::default()));
        short.0.begin(flow_ref, s, flips, place);
        self.timers.set_fresh(&mut short.0);
        short.0.settle(&mut short.1).save();
        let mut row = Row::new(&mut long.0, &mut long.1);
        self.timers.begin(&mut row, flow_ref, s, flips);
        row.cold.origin.place = place;
        self.timers.count(&mut row, &mut self.pool, usize::from(flow_ref.sender & 1), s);
        row.save();
        short == long
    }

    fn last_of(&self, row: u32) -> Time {
        self.hot.get(row as usize).map_or(Time(0), |row| row.last)
    }

    /// A row for a new flow, other than the row of `carrier`.
    fn free_row(&mut self, carrier: Option<u32>, sink: &mut impl FlowSink) -> Option<u32> {
        if self.free == 0 && self.hot.len() < self.capacity {
            self.hot.push(Hot::default());
            self.cold.push(Cold::default());
            self.linked.push(0);
            return Some(self.hot.len() as u32 - 1);
        }
        if self.free == 0 {
            let victim = self.victim(carrier);
            self.end(victim, EndReason::Evicted, sink);
        }
        let at = self.free.checked_sub(1)? as u32;
        self.free = self.hot.get(at as usize)?.first.0;
        Some(at)
    }

    /// The next flow that was not used since the hand passed its row.
    fn victim(&mut self, carrier: Option<u32>) -> u32 {
        // After one round every mark is cleared, so that the second round finds a flow.
        for _ in 0..2 * self.hot.len() {
            let at = self.hand;
            self.hand = if at + 1 < self.hot.len() { at + 1 } else { 0 };
            let Some(row) = self.hot.get_mut(at).filter(|row| !row.is_free()) else { continue };
            if !row.has(mark::USED) && carrier != Some(at as u32) {
                return at as u32;
            }
            row.unmark(mark::USED);
        }
        self.hand as u32
    }
}

/// Whether the sender of a flow's first packet is its responder; never for a SYN alone, always for its answer.
fn flips(flow_ref: &FlowRef, s: &Facts) -> bool {
    const BROADCAST: [u8; 16] = mapped_broadcast();
    let (from, to) = (usize::from(flow_ref.sender & 1), 1 - usize::from(flow_ref.sender & 1));
    let server = |end: usize| is_likely_server(flow_ref.key.proto, flow_ref.key.port[end]);
    let flips = match &s.segment {
        Some(segment) if segment.flags & SYN != 0 => segment.flags & ACK != 0,
        Some(_) => {
            let is_lower = flow_ref.key.port[from] < flow_ref.key.port[to];
            server(from) && (!server(to) || is_lower)
        }
        None if flow_ref.key.proto != 17 => false,
        None => {
            let is_server = server(from) && !server(to) && !s.asks;
            is_server || s.answers && !is_multicast(&flow_ref.key.addr[to])
        }
    };
    flips && flow_ref.key.addr[to] != BROADCAST
}

fn is_multicast(address: &[u8; 16]) -> bool {
    match address {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, first, ..] => first >> 4 == 0xe,
        [first, ..] => *first == 0xff,
    }
}

const fn mapped_broadcast() -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
}
