//! The flow table.

use crate::config::FlowConfig;
use crate::fragments::{Counted, Fragments};
use crate::hash::KeyHash;
use crate::holes::Pool;
use crate::index::{Index, same};
use crate::parsed_packet::{Facts, FlowRef, Looker, ParsedPacket};
use crate::row::{Cold, Hot, Row, mark};
use crate::servers::is_likely_server;
use crate::tcp;
use crate::timers::Timers;
use crate::tunnel_ends::TunnelEnds;
use crate::{EndReason, FlowRecord, FlowSink, FlowStats, Tally, fast_path, first_packet};
use weir_wire::build::flags::{ACK, FIN, RST, SYN};
use weir_wire::{Batch, Fragment, IpFragment, Layers, MAX_TUNNELS, Packet, Tag, Time, shows_its_key};

/// Number of packets that are looked up together: enough that their memory accesses overlap, few enough that their
/// facts stay in the second-level cache.
const TOGETHER: usize = 128;

/// Capacity of the list of probes.
const PROBES: usize = TOGETHER + TOGETHER / 4;

/// Maximum number of probes of one packet: one for each level, and one for fragments without a first one.
const MAX_LEVELS: usize = MAX_TUNNELS + 2;

/// Minimum number of flows of a table.
const MIN_ROWS: usize = 64;

/// Maximum number of flows of a table: slots of the index are numbers of 32 bits.
const MAX_ROWS: usize = 800_000_000;

/// Minimum memory in bytes.
const MIN_MEMORY: usize = 128 << 10;

/// A packet, or a level of one, that has yet to be counted.
struct Probe {
    flow_ref: FlowRef,
    /// Position in the batch; for a packet that is not plain, position among the parsed packets.
    at: u8,
    /// Whether it may change the state of its connection, which is in the cold part of the row.
    is_cold: bool,
    is_plain: bool,
    /// For a plain packet, see [`Facts::regular`].
    is_regular: bool,
    /// The likely row of the flow, plus 1; 0 for none.
    likely: u32,
}

/// A table of flows: fixed memory, one owner, no clock.
///
/// When the table is full, a new flow replaces a flow that was not used since the clock hand last passed its row, as
/// in the CLOCK algorithm of page caches: almost the least recently used flow, found by one sequential read. A flow of
/// one packet counts as not used, so that a flood evicts its own flows before flows with traffic.
pub struct FlowTable {
    config: FlowConfig,
    pub(crate) look: Looker,
    pub(crate) index: Index,
    /// The rows, in two arrays.
    pub(crate) hot: Vec<Hot>,
    pub(crate) cold: Vec<Cold>,
    capacity: usize,
    /// First free row, plus 1; 0 for none. Free rows are linked by `first`.
    free: u64,
    /// Position at which the search for a flow to evict continues.
    hand: usize,
    pool: Pool,
    fragments: Fragments,
    tunnel_ends: TunnelEnds,
    probes: Vec<Probe>,
    /// The parsed packets of the probes that are not plain.
    parsed_packets: Vec<ParsedPacket>,
    /// For each of these, the packet and its layers, if the sink reads packets and the packet is no fragment.
    levels: Vec<Option<(u8, Layers)>>,
    timers: Timers,
    stats: FlowStats,
    /// The record of the last flow of one packet that ended.
    record: FlowRecord,
    /// The last accepted tick, and a postponed one.
    ticked: Time,
    put_off: Time,
    /// Accumulates the values read for prefetching, so that the compiler keeps the reads.
    touched: u64,
    /// Forces the slow path for every packet.
    #[cfg(test)]
    pub is_thorough: bool,
}

impl FlowTable {
    /// An empty table. It reserves the memory that `config` allows; the operating system provides it as flows begin.
    pub fn new(config: &FlowConfig) -> Self {
        let hash = KeyHash::new(config.seed);
        let memory = config.memory.max(MIN_MEMORY);
        let sets = (memory / 64 / Fragments::BYTES_PER_SET).clamp(4, 4096);
        let tunnels = (memory / 256 / TunnelEnds::BYTES_PER_SET).clamp(1, 1024);
        let fixed = sets * Fragments::BYTES_PER_SET
            + tunnels * TunnelEnds::BYTES_PER_SET
            + PROBES * (size_of::<ParsedPacket>() + size_of::<Probe>());
        let indexed = Index::BYTES_PER_SET.div_ceil(Index::ROWS_PER_SET);
        let each = size_of::<Hot>() + size_of::<Cold>() + indexed + Pool::BYTES_EACH / 8;
        let capacity = (memory.saturating_sub(fixed) / each).clamp(MIN_ROWS, MAX_ROWS);
        let index = Index::new(capacity);
        let stats = FlowStats {
            memory: (fixed + capacity * each) as u64,
            capacity: capacity as u64,
            ..FlowStats::default()
        };
        Self {
            look: Looker {
                hash: hash.clone(),
                lines: index.lines(),
                vlan: config.vlan,
                checksums: config.checksums,
            },
            index,
            hot: Vec::with_capacity(capacity),
            cold: Vec::with_capacity(capacity),
            capacity,
            free: 0,
            hand: 0,
            pool: Pool::new(capacity / 8),
            fragments: Fragments::new(sets, hash, config.fragment),
            tunnel_ends: TunnelEnds::new(tunnels),
            probes: Vec::with_capacity(PROBES),
            parsed_packets: Vec::with_capacity(PROBES),
            levels: Vec::new(),
            timers: Timers::new(config),
            stats,
            record: FlowRecord::empty(),
            ticked: Time(0),
            put_off: Time(0),
            touched: 0,
            #[cfg(test)]
            is_thorough: false,
            config: config.clone(),
        }
    }

    /// Counts packets, in order; `layers` has one entry for each packet of the batch.
    pub fn batch(&mut self, batch: Batch<'_>, layers: &[Layers], sink: &mut impl FlowSink) {
        self.parts(batch, layers, |_, packet, layers| shows_its_key(packet, layers), sink);
    }

    /// Counts packets for which [`weir_wire::shows_its_key`] is already known: bit `n % 64` of word `n / 64` is the
    /// answer for packet `n`. For packets beyond the words of `known` it is computed here.
    pub fn batch_known(
        &mut self,
        batch: Batch<'_>,
        layers: &[Layers],
        known: &[u64],
        sink: &mut impl FlowSink,
    ) {
        let is_regular = |at: usize, packet: &Packet<'_>, layers: &Layers| match known.get(at / 64) {
            Some(bits) => bits >> (at % 64) & 1 != 0,
            None => shows_its_key(packet, layers),
        };
        self.parts(batch, layers, is_regular, sink);
    }

    /// Counts as many packets as are looked up together. `is_regular`: whether a packet of the batch shows its key.
    #[inline(always)]
    fn parts(
        &mut self,
        batch: Batch<'_>,
        layers: &[Layers],
        is_regular: impl Fn(usize, &Packet<'_>, &Layers) -> bool,
        sink: &mut impl FlowSink,
    ) {
        let parts = batch.slots.chunks(TOGETHER).zip(layers.chunks(TOGETHER)).enumerate();
        for (part, (slots, layers)) in parts {
            let get = |at| Some((batch.packet(slots.get(at)?), layers.get(at)?));
            for (at, (slot, layers)) in slots.iter().zip(layers).enumerate() {
                let is_regular =
                    |packet: &Packet<'_>, layers: &Layers| is_regular(part * TOGETHER + at, packet, layers);
                self.look(at, &batch.packet(slot), layers, is_regular, sink);
                // A packet has few levels, but an attacker's have more.
                if self.probes.len() + MAX_LEVELS > PROBES {
                    self.count(sink, get);
                }
            }
            self.count(sink, get);
        }
    }

    /// Counts one packet, as a batch of one.
    pub fn packet(&mut self, packet: &Packet<'_>, layers: &Layers, sink: &mut impl FlowSink) {
        self.look(0, packet, layers, shows_its_key, sink);
        self.count(sink, |_| Some((*packet, layers)));
    }

    /// Sets whether packets with a wrong checksum are left out; see [`FlowConfig::checksums`].
    pub fn set_checksums(&mut self, verify: bool) {
        self.look.checksums = verify;
    }

    /// Ends the flows that are idle at `now`, the end of an interval. All tables of a run must tick at the same times.
    ///
    /// Ticks go forward. A tick that is further ahead than [`FlowConfig::jump`] takes effect only when the next tick
    /// confirms it.
    pub fn tick(&mut self, now: Time, sink: &mut impl FlowSink) {
        if now.since(self.ticked) > self.config.jump && self.ticked != Time(0) {
            let confirmed = self.put_off != Time(0) && now >= self.put_off;
            if !confirmed {
                self.put_off = now;
                self.stats.time_jumps += 1;
                return;
            }
        }
        self.put_off = Time(0);
        self.ticked = now;
        self.expire_fragments(now, sink);
        self.tunnel_ends.expire(now);
        self.tunnel_ends.take().for_each(|over| sink.tunnel(&over));
        for at in 0..self.hot.len() as u32 {
            let Some(row) = self.hot.get(at as usize).filter(|row| !row.is_free()) else { continue };
            if row.deadline <= now {
                let reason = self.reason(at, EndReason::Idle);
                self.end(at, reason, sink);
            }
        }
    }

    /// Emits the sums of every flow since the last roll-up.
    pub fn roll_up(&mut self, sink: &mut impl FlowSink) {
        for (hot, cold) in self.hot.iter_mut().zip(&mut self.cold) {
            if hot.is_free() || !hot.has(mark::DIRTY) {
                continue;
            }
            hot.unmark(mark::DIRTY);
            if hot.has(mark::FRESH) {
                tally_fresh(hot, sink);
            } else {
                tally(&mut Row::new(hot, cold), sink);
            }
        }
    }

    /// Ends every flow, at the end of the run.
    pub fn drain(&mut self, sink: &mut impl FlowSink) {
        self.expire_fragments(Time(u64::MAX), sink);
        for at in 0..self.hot.len() as u32 {
            if self.hot.get(at as usize).is_some_and(|row| !row.is_free()) {
                let reason = self.reason(at, EndReason::Shutdown);
                self.end(at, reason, sink);
            }
        }
    }

    /// Counts since the creation of the table.
    pub fn stats(&self) -> FlowStats {
        FlowStats {
            active: self.stats.created - self.stats.ended,
            fragments_joined: self.fragments.joined,
            fragments_unmatched: self.fragments.unmatched,
            fragments_shed: self.fragments.shed,
            holes_shed: self.pool.shed,
            ..self.stats
        }
    }

    /// Looks up the flow of packet `at` of the current group.
    #[inline]
    fn look<S: FlowSink>(
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
            let is_shown = S::PACKETS && !parsed.facts.carrier && !parsed.facts.bad_checksum;
            if layers.fragment == Fragment::Whole {
                parsed_packets.push(parsed);
            } else {
                fragment(fragments, parsed_packets, parsed, packet, layers);
            }
            if is_shown && layers.fragment == Fragment::Whole {
                levels.resize(parsed_packets.len() - 1, None);
                levels.push(Some((at, *layers)));
            } else if is_shown {
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
    fn touch(&mut self) {
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
    fn touch_shown(&mut self, sink: &mut impl FlowSink) {
        let known = || self.probes.iter().filter_map(|probe| probe.likely.checked_sub(1));
        let lines = known().fold(0, |lines, row| lines ^ self.cold.get(row as usize).map_or(0, Cold::touch));
        sink.ahead(known());
        self.touched ^= lines;
    }

    /// Counts the packets that were looked up; `get` returns a packet of the group.
    #[inline]
    fn count<'a, S: FlowSink>(
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
            for probe in &mut self.probes {
                probe.likely = self.index.likely(probe.flow_ref.line, probe.flow_ref.hash);
            }
        }
        let probes = std::mem::take(&mut self.probes);
        let asks_tags = sink.asks_tags();
        let mut carrier = None;
        for probe in &probes {
            if probe.is_plain {
                let Some((packet, layers)) = get(usize::from(probe.at)) else { continue };
                #[cfg(test)]
                if self.is_thorough {
                    self.plain(probe, &packet, layers, sink);
                    continue;
                }
                if probe.likely == 0 {
                    let row = self.fresh(probe, &packet, layers, sink);
                    self.show(row, &probe.flow_ref, &packet, layers, sink);
                    continue;
                }
                let at = probe.likely - 1;
                let before = if cfg!(debug_assertions) { self.copy_of(at) } else { None };
                let (flow_ref, timers, active) = (&probe.flow_ref, &self.timers, self.config.active);
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
                    if !probe.is_regular {
                        self.irregular(at, &probe.flow_ref, &self.look.facts(&packet, layers, false), sink);
                    } else if asks_tags && self.has_other_tag(at, Tag::of(packet.link, layers)) {
                        self.irregular(at, &probe.flow_ref, &self.look.facts(&packet, layers, true), sink);
                    }
                    Some(at)
                };
                self.show(row, &probe.flow_ref, &packet, layers, sink);
            } else if let Some((facts, outer)) =
                self.parsed_packets.get(usize::from(probe.at)).map(|s| (s.facts.clone(), s.outer))
            {
                let carrier_of_it = match carrier.filter(|_| facts.carried) {
                    Some(row) => Carrier::Row(row),
                    None => Carrier::Named(outer),
                };
                let row = self.sight(&probe.flow_ref, probe.likely, &facts, carrier_of_it, sink);
                carrier = row.filter(|_| facts.carrier);
                if S::PACKETS
                    && let Some((packet, layers)) = self.levels.get(usize::from(probe.at)).copied().flatten()
                    && let Some((packet, _)) = get(usize::from(packet))
                {
                    self.show(row, &probe.flow_ref, &packet, &layers, sink);
                }
            }
        }
        self.probes = probes;
        self.probes.clear();
        self.parsed_packets.clear();
        self.levels.clear();
    }

    fn copy_of(&self, at: u32) -> Option<(Hot, Cold)> {
        Some((self.hot.get(at as usize)?.clone(), self.cold.get(at as usize)?.clone()))
    }

    /// Whether a row that was `before` and took a packet on the fast path equals a row that took it on the slow path.
    fn is_as_if_looked_at(
        &mut self,
        at: u32,
        before: Option<(Hot, Cold)>,
        probe: &Probe,
        packet: &Packet<'_>,
        layers: &Layers,
    ) -> bool {
        let Some((mut hot, mut cold)) = before else { return false };
        let facts = self.look.facts(packet, layers, probe.is_regular);
        let mut row = Row::new(&mut hot, &mut cold);
        self.timers.count(&mut row, &mut self.pool, usize::from(probe.flow_ref.sender & 1), &facts);
        row.save();
        self.copy_of(at) == Some((hot, cold))
    }

    /// Counts a packet that carries no other and that may change more than counters.
    #[inline(never)]
    fn plain(
        &mut self,
        probe: &Probe,
        packet: &Packet<'_>,
        layers: &Layers,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        let facts = self.look.facts(packet, layers, probe.is_regular);
        self.sight(&probe.flow_ref, probe.likely, &facts, Carrier::NONE, sink)
    }

    /// Counts the facts of a packet and returns the row of its flow. `likely` is the likely row plus 1.
    #[inline]
    fn sight(
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
            && let Some(reason) = self.splits(at, s)
        {
            if reason == EndReason::Active {
                self.cut(at, s.time, sink);
            } else {
                self.end(at, reason, sink);
                row = None;
            }
        }
        let at = match row {
            Some(at) => at,
            None => match self.begin(flow_ref, s, carrier, sink) {
                Some(Begun::Empty(at)) => at,
                Some(Begun::Counted(at)) => {
                    if !s.regular {
                        self.irregular(at, flow_ref, s, sink);
                    }
                    return Some(at);
                }
                None => {
                    uncounted(flow_ref, s, sink);
                    return None;
                }
            },
        };
        let mut row = Row::at(&mut self.hot, &mut self.cold, at)?;
        let is_counted = self.timers.count(&mut row, &mut self.pool, usize::from(flow_ref.sender & 1), s);
        row.save();
        if !is_counted {
            uncounted(flow_ref, s, sink);
        } else if !s.regular || sink.asks_tags() && self.has_other_tag(at, s.tag) {
            self.irregular(at, flow_ref, s, sink);
        }
        Some(at)
    }

    /// The reason why a packet does not belong to the flow in the row; `None` if it belongs to it. In that case the
    /// row is not fresh any more.
    #[inline]
    fn splits(&mut self, at: u32, s: &Facts) -> Option<EndReason> {
        let row = self.hot.get(at as usize)?;
        if s.time >= row.deadline {
            return Some(self.reason(at, EndReason::Idle));
        }
        if s.time < row.last && row.last.since(s.time) >= self.timers.of_class(row.class()) {
            self.stats.time_jumps += 1;
            return Some(self.reason(at, EndReason::Idle));
        }
        self.settle(at);
        let row = self.hot.get(at as usize)?;
        if let Some(segment) = s.segment.as_ref().filter(|segment| segment.flags & SYN != 0)
            && row.has(mark::SEGMENT)
            && !s.bad_checksum
            && tcp::is_reuse(&Row::at(&mut self.hot, &mut self.cold, at)?, segment)
        {
            let closing = self.hot.get(at as usize)?.has(mark::CLOSING);
            return Some(if closing { self.reason(at, EndReason::Fin) } else { EndReason::Reused });
        }
        if s.time.since(self.hot.get(at as usize)?.first) < self.config.active {
            return None;
        }
        let row = Row::at(&mut self.hot, &mut self.cold, at)?;
        let is_counted = (0..2).any(|side| row.counts(side).packets > 0);
        is_counted.then_some(EndReason::Active)
    }

    /// Converts a fresh row into the normal form.
    #[inline]
    fn settle(&mut self, at: u32) {
        if let Some(hot) = self.hot.get_mut(at as usize).filter(|hot| hot.has(mark::FRESH))
            && let Some(cold) = self.cold.get_mut(at as usize)
        {
            hot.settle(cold).save();
        }
    }

    /// The reason for the end of a flow: the way TCP ended it, or else `otherwise`.
    fn reason(&mut self, at: u32, otherwise: EndReason) -> EndReason {
        match self.hot.get(at as usize).is_some_and(|row| row.has(mark::CLOSING)) {
            true => match Row::at(&mut self.hot, &mut self.cold, at).is_some_and(|row| tcp::is_reset(&row)) {
                true => EndReason::Rst,
                false => EndReason::Fin,
            },
            false => otherwise,
        }
    }

    /// Creates a flow for a packet that belongs to none.
    fn begin(
        &mut self,
        flow_ref: &FlowRef,
        s: &Facts,
        carrier: Carrier,
        sink: &mut impl FlowSink,
    ) -> Option<Begun> {
        let (carrier, parent) = match carrier {
            Carrier::Row(at) => {
                self.settle(at);
                (Some(at), Row::at(&mut self.hot, &mut self.cold, at).map_or(0, |row| row.id()))
            }
            Carrier::Named(name) => (None, name),
        };
        let at = self.free_row(carrier, sink)?;
        let place = self.enter(flow_ref, at, carrier, sink)?;
        let flips = self.config.guess_initiator && flips(flow_ref, s);
        self.stats.created += 1;
        if parent == 0 && first_packet::is_simple(flow_ref, s) {
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
        row.save();
        Some(Begun::Empty(at))
    }

    /// Creates a flow for a plain packet that likely belongs to no flow, and counts the packet: the fast path of a
    /// flood.
    #[inline(never)]
    fn fresh(
        &mut self,
        probe: &Probe,
        packet: &Packet<'_>,
        layers: &Layers,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        let flow_ref = &probe.flow_ref;
        let facts = self.look.facts(packet, layers, probe.is_regular);
        // A packet of this flow may have arrived after the lookup.
        if !first_packet::is_simple(flow_ref, &facts) || !self.index.is_as_looked_up(flow_ref.line) {
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
        if !probe.is_regular {
            self.irregular(at, flow_ref, &self.look.facts(packet, layers, false), sink);
        }
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
    fn uncounted(&self, probe: &Probe, packet: &Packet<'_>, layers: &Layers, sink: &mut impl FlowSink) {
        uncounted(&probe.flow_ref, &self.look.facts(packet, layers, probe.is_regular), sink);
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

    /// Emits the record of a flow up to `now`; the flow continues.
    fn cut<S: FlowSink>(&mut self, at: u32, now: Time, sink: &mut S) {
        let Some(mut row) = Row::at(&mut self.hot, &mut self.cold, at) else { return };
        tally(&mut row, sink);
        let uncounted = self
            .pool
            .known(row.cold.origin.holes)
            .map_or([0; 2], |holes| std::mem::take(&mut holes.uncounted));
        if S::PACKETS {
            sink.leaving(at, row.hot.last, false);
        }
        sink.end(&row.record(uncounted, EndReason::Active));
        self.stats.by_reason[EndReason::Active as usize] += 1;
        row.unmark(mark::DIRTY);
        row.cut(now);
        row.save();
        // The next packet counts as the first of its direction again.
        row.hot.steady = [0; 2];
    }

    /// Ends a flow and frees its row.
    fn end<S: FlowSink>(&mut self, at: u32, reason: EndReason, sink: &mut S) {
        let Some(hot) = self.hot.get_mut(at as usize) else { return };
        let place = if hot.has(mark::FRESH) {
            end_fresh(at, hot, reason, &mut self.record, sink);
            hot.fresh_place()
        } else {
            let Some(cold) = self.cold.get_mut(at as usize) else { return };
            let mut row = Row::new(hot, cold);
            if row.has(mark::DIRTY) {
                tally(&mut row, sink);
            }
            let uncounted = self.pool.release(row.cold.origin.holes);
            if S::PACKETS {
                sink.leaving(at, row.hot.last, true);
            }
            sink.end(&row.record(uncounted, reason));
            row.cold.origin.place
        };
        hot.deadline = Time(0);
        hot.first = Time(self.free);
        self.index.remove(place);
        self.free = u64::from(at) + 1;
        self.ended(reason);
    }

    /// Counts a flow that ended.
    #[inline]
    fn ended(&mut self, reason: EndReason) {
        self.stats.ended += 1;
        self.stats.evicted += u64::from(reason == EndReason::Evicted);
        self.stats.by_reason[reason as usize] += 1;
    }

    /// Whether a packet's VLAN tag differs from that of its flow.
    #[inline]
    fn has_other_tag(&self, at: u32, tag: Tag) -> bool {
        self.hot.get(at as usize).is_some_and(|row| row.tag() != tag)
    }

    /// Reports a packet that was counted to a flow although its headers do not show the key, or with another VLAN tag.
    #[cold]
    fn irregular(&mut self, at: u32, flow_ref: &FlowRef, s: &Facts, sink: &mut impl FlowSink) {
        let Some(hot) = self.hot.get_mut(at as usize) else { return };
        let (initiator, vlan) = if hot.has(mark::FRESH) {
            (hot.fresh_initiator(), hot.fresh_vlan())
        } else {
            let Some(cold) = self.cold.get_mut(at as usize) else { return };
            let vlan = cold.origin.vlan[0];
            (Row::new(hot, cold).initiator(), vlan)
        };
        let tally = Tally {
            key: &hot.key,
            source_is_lower: flow_ref.sender & 1 == 0,
            initiator_is_lower: initiator == 0,
            vlan,
            tag: hot.tag(),
            packets: u64::from(s.packets),
            bytes: s.frame_bytes,
            begins: false,
            carrier: hot.has(mark::CARRIER),
        };
        match s.regular {
            true => sink.vlan_changed(&tally, s.tag),
            false => sink.irregular(&tally),
        }
    }

    fn expire_fragments(&mut self, now: Time, sink: &mut impl FlowSink) {
        let mut cursor = 0;
        let mut expired: Vec<ParsedPacket> =
            std::iter::from_fn(|| self.fragments.expire_next(now, &mut cursor)).collect();
        // The order of the rows comes from a keyed hash, which no result may depend on.
        expired
            .sort_by_key(|ParsedPacket { flow_ref, facts, .. }| (facts.earliest, facts.time, flow_ref.key));
        for ParsedPacket { flow_ref, facts, outer } in expired {
            self.sight(&flow_ref, 0, &facts, Carrier::Named(outer), sink);
        }
    }
}

/// The carrier of a packet.
#[derive(Clone, Copy)]
enum Carrier {
    /// A flow, by its row.
    Row(u32),
    /// A tunnel without a row, by its identifier; 0: none.
    Named(u64),
}

impl Carrier {
    const NONE: Self = Self::Named(0);
}

/// A new flow.
enum Begun {
    /// Its packet has not been counted yet.
    Empty(u32),
    /// Its packet has been counted.
    Counted(u32),
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

/// Whether the sender of a flow's first packet is its responder; never for a SYN alone.
fn flips(flow_ref: &FlowRef, s: &Facts) -> bool {
    const BROADCAST: [u8; 16] = mapped_broadcast();
    let (from, to) = (usize::from(flow_ref.sender & 1), 1 - usize::from(flow_ref.sender & 1));
    let server = |end: usize| is_likely_server(flow_ref.key.proto, flow_ref.key.port[end]);
    let flips = match &s.segment {
        Some(segment) if segment.flags & SYN == 0 || segment.flags & ACK != 0 => {
            let both = segment.flags & SYN == 0 && flow_ref.key.port[from] < flow_ref.key.port[to];
            server(from) && (!server(to) || both)
        }
        Some(_) => false,
        None => flow_ref.key.proto == 17 && server(from) && !server(to),
    };
    flips && flow_ref.key.addr[to] != BROADCAST
}

const fn mapped_broadcast() -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
}

/// Reports that a regular packet was not counted to any flow.
#[cold]
fn uncounted(flow_ref: &FlowRef, s: &Facts, sink: &mut impl FlowSink) {
    if s.regular {
        let source_is_lower = flow_ref.sender & 1 == 0;
        sink.uncounted(&Tally {
            key: &flow_ref.key,
            source_is_lower,
            initiator_is_lower: source_is_lower,
            vlan: s.vlan[0],
            tag: s.tag,
            packets: u64::from(s.packets),
            bytes: s.frame_bytes,
            begins: false,
            carrier: false,
        });
    }
}

/// Emits the sums of both directions of a flow since its last tally.
fn tally(row: &mut Row<'_>, sink: &mut impl FlowSink) {
    let initiator = row.initiator() & 1;
    for side in [initiator, 1 - initiator] {
        let (packets, bytes) = row.take_tally(side);
        if packets == 0 {
            continue;
        }
        let begins = !row.has(mark::BEGUN);
        row.mark(mark::BEGUN);
        sink.tally(&Tally {
            key: &row.hot.key,
            source_is_lower: side == 0,
            initiator_is_lower: initiator == 0,
            vlan: row.cold.origin.vlan[0],
            tag: row.hot.tag(),
            packets,
            bytes,
            begins,
            carrier: row.has(mark::CARRIER),
        });
    }
}

/// Emits all of a fresh row; `record` is overwritten.
#[inline]
fn end_fresh<S: FlowSink>(at: u32, hot: &mut Hot, reason: EndReason, record: &mut FlowRecord, sink: &mut S) {
    if S::PACKETS {
        sink.leaving(at, hot.last, true);
    }
    if hot.has(mark::DIRTY) {
        tally_fresh(hot, sink);
    }
    hot.fresh_record(reason, record);
    debug_assert_eq!(*record, hot.clone().settle(&mut Cold::default()).record([0; 2], reason));
    sink.end(record);
}

/// Emits the sums of a fresh row that were not emitted before.
#[inline]
fn tally_fresh(row: &mut Hot, sink: &mut impl FlowSink) {
    let side = row.sender() & 1;
    row.mark(mark::BEGUN);
    sink.tally(&Tally {
        key: &row.key,
        source_is_lower: side == 0,
        initiator_is_lower: row.fresh_initiator() == 0,
        vlan: row.fresh_vlan(),
        tag: row.tag(),
        packets: 1,
        bytes: u64::from(row.counts[side].frame_bytes),
        begins: true,
        carrier: false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::build::{self, flags};
    use weir_wire::{LinkType, decode};

    struct Nowhere;

    impl FlowSink for Nowhere {
        fn end(&mut self, _: &FlowRecord) {}
        fn tally(&mut self, _: &Tally<'_>) {}
    }

    /// Number of flows that a table with this seed shed, and number of key comparisons to look up each of them.
    fn cost(seed: [u64; 2], flows: &[Vec<u8>]) -> (u64, u64) {
        let mut table = FlowTable::new(&FlowConfig { memory: 1 << 20, seed, ..FlowConfig::default() });
        for data in flows {
            let packet = build::packet(data, LinkType::ETHERNET);
            table.packet(&packet, &decode(&packet), &mut Nowhere);
        }
        let mut wrong = 0;
        for data in flows {
            let packet = build::packet(data, LinkType::ETHERNET);
            let flow_ref = table.look.flow_ref(&packet, &decode(&packet), [0; 2]).expect("a flow");
            let likely = table.index.likely(flow_ref.line, flow_ref.hash) as usize;
            let is_it =
                table.hot.get(likely.wrapping_sub(1)).is_some_and(|row| same(&row.key, &flow_ref.key));
            wrong += u64::from(likely != 0 && !is_it);
        }
        (table.stats().evicted, wrong)
    }

    /// An attacker without the key of the hash can choose flows no better than at random.
    #[test]
    fn flows_that_collide_under_one_seed_do_not_under_another() {
        let (known, secret) = ([1, 2], [3, 4]);
        let flow = |n: u32| {
            let [a, b, c, d] = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
            build::ethernet().ipv4([a, b, c, d], [192, 0, 2, 1]).tcp(n as u16, 443, flags::SYN).payload(&[])
        };
        let hash = KeyHash::new(known);
        let look = Looker { hash, lines: Index::new(1).lines(), vlan: false, checksums: false };
        let mut chosen = Vec::new();
        let mut n = 0;
        while chosen.len() < 2_000 {
            n += 1;
            let data = flow(n);
            let packet = build::packet(&data, LinkType::ETHERNET);
            let flow_ref = look.flow_ref(&packet, &decode(&packet), [0; 2]).expect("a flow");
            // One set in 64, and one tag in 8.
            if flow_ref.hash >> 58 == 0 && flow_ref.hash & 7 == 0 {
                chosen.push(data);
            }
        }
        let random: Vec<_> = (1..=2_000).map(flow).collect();
        let [attack, uncounted, usual] = [cost(known, &chosen), cost(secret, &chosen), cost(secret, &random)];
        assert!(attack.0 > 1_000, "with the key the attack works: {attack:?}");
        assert!(
            uncounted.0 <= usual.0 + 10 && uncounted.1 <= usual.1 + 10,
            "{uncounted:?}, of random flows {usual:?}"
        );
    }
}
