//! The flow table.

use crate::config::FlowConfig;
use crate::fragments::{Counted, Fragments};
use crate::hash::KeyHash;
use crate::holes::Pool;
use crate::index::{Index, same};
use crate::row::{Origin, Row, mark};
use crate::servers::is_likely_server;
use crate::sighting::{Facts, Looker, Sighting, Whose};
use crate::tcp::{self, Repeated, Segment};
use crate::{EndReason, FlowSink, FlowStats, Tally};
use weir_wire::build::flags::{ACK, SYN};
use weir_wire::{Batch, Fragment, IpFragment, Layers, MAX_TUNNELS, Packet, Time};

/// Packets that are looked up together: enough that the memory accesses of one overlap those of the others, few
/// enough that what is known of them stays in the second-level cache.
const TOGETHER: usize = 128;

/// Probes that there is room for.
const PROBES: usize = TOGETHER + TOGETHER / 4;

/// The most that one packet makes: one for each level, and one for fragments that wait in vain.
const MAX_LEVELS: usize = MAX_TUNNELS + 2;

/// The least number of flows that a table holds.
const MIN_ROWS: usize = 64;

/// The least memory.
const MIN_MEMORY: usize = 128 << 10;

/// A packet, or a level of one, that is to be counted.
struct Probe {
    whose: Whose,
    /// Which packet of those that are looked up together; of one that is not plain, which sighting.
    at: u32,
    is_plain: bool,
    /// The row that has likely the flow, plus 1; 0 for none.
    likely: u32,
}

/// A table of flows: fixed memory, one owner, no clock.
///
/// When the table is full, a new flow takes the place of one that was not used since the hand that goes round the
/// rows last passed it, as a page cache does it: almost the least recently used, for one sequential read. A flow
/// of one packet counts as not used, so that a flood pushes out itself before it pushes out what lives.
pub struct FlowTable {
    config: FlowConfig,
    look: Looker,
    index: Index,
    rows: Vec<Row>,
    capacity: usize,
    /// First row of the list of free ones, linked by `first`; plus 1, 0 for none.
    free: u64,
    /// Where the search for a flow to evict goes on.
    hand: usize,
    pool: Pool,
    fragments: Fragments,
    probes: Vec<Probe>,
    /// Of the probes that are not plain.
    sightings: Vec<Sighting>,
    /// The idle timeouts of the classes that rows have.
    idle: [u64; IDLE_CLASSES],
    stats: FlowStats,
    /// The last tick that was believed, and one that was put off.
    ticked: Time,
    put_off: Time,
    /// Keeps the reads that only bring lines into the cache.
    touched: u64,
}

impl FlowTable {
    /// A table with no flow in it. It reserves the memory that `config` allows; the system gives it as flows come.
    pub fn new(config: &FlowConfig) -> Self {
        let hash = KeyHash::new(config.seed);
        let memory = config.memory.max(MIN_MEMORY);
        let sets = (memory / 64 / Fragments::BYTES_PER_SET).clamp(4, 4096);
        let fixed = sets * Fragments::BYTES_PER_SET + PROBES * (size_of::<Sighting>() + size_of::<Probe>());
        let each = size_of::<Row>() + Index::BYTES_PER_ROW + Pool::BYTES_EACH / 8;
        let capacity = (memory.saturating_sub(fixed) / each).clamp(MIN_ROWS, u32::MAX as usize - 1);
        let stats = FlowStats {
            memory: (fixed + capacity * each) as u64,
            capacity: capacity as u64,
            ..FlowStats::default()
        };
        Self {
            look: Looker { hash: hash.clone(), vlan: config.vlan, checksums: config.checksums },
            index: Index::new(capacity),
            rows: Vec::with_capacity(capacity),
            capacity,
            free: 0,
            hand: 0,
            pool: Pool::new(capacity / 8),
            fragments: Fragments::new(sets, hash, config.fragment),
            probes: Vec::with_capacity(PROBES),
            sightings: Vec::with_capacity(PROBES),
            idle: idle_timeouts(config),
            stats,
            ticked: Time(0),
            put_off: Time(0),
            touched: 0,
            config: config.clone(),
        }
    }

    /// Counts packets, in order; `layers` are those of the batch, in order.
    pub fn batch(&mut self, batch: Batch<'_>, layers: &[Layers], sink: &mut impl FlowSink) {
        for (slots, layers) in batch.slots.chunks(TOGETHER).zip(layers.chunks(TOGETHER)) {
            let get = |at| Some((batch.packet(slots.get(at)?), layers.get(at)?));
            for (at, (slot, layers)) in slots.iter().zip(layers).enumerate() {
                self.look(at, &batch.packet(slot), layers, sink);
                // A packet has few levels, but an attacker's have more.
                if self.probes.len() + MAX_LEVELS > PROBES {
                    self.count(sink, get);
                }
            }
            self.count(sink, get);
        }
    }

    /// Counts one packet: the same as a batch of one.
    pub fn packet(&mut self, packet: &Packet<'_>, layers: &Layers, sink: &mut impl FlowSink) {
        self.look(0, packet, layers, sink);
        self.count(sink, |_| Some((*packet, layers)));
    }

    /// Whether packets with a wrong checksum are left out from now on; see [`FlowConfig::checksums`].
    pub fn set_checksums(&mut self, verify: bool) {
        self.look.checksums = verify;
    }

    /// Ends what is idle at `now`, the end of an interval. All tables of a run are to tick at the same times.
    ///
    /// Ticks go forward; one that is further ahead than [`FlowConfig::jump`] takes effect only when the next
    /// one is there too.
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
        for row in 0..self.rows.len() as u32 {
            let Some(flow) = self.rows.get(row as usize).filter(|flow| !flow.is_free()) else { continue };
            if flow.deadline <= now {
                let reason = Self::reason(flow, EndReason::Idle);
                self.end(row, reason, sink);
            }
        }
    }

    /// Gives what every flow had since the last time.
    pub fn roll_up(&mut self, sink: &mut impl FlowSink) {
        for row in self.rows.iter_mut().filter(|row| !row.is_free() && row.has(mark::DIRTY)) {
            row.unmark(mark::DIRTY);
            tally(row, sink, |row, side| row.take_tally(side));
        }
    }

    /// Ends every flow: the end of the run.
    pub fn drain(&mut self, sink: &mut impl FlowSink) {
        self.expire_fragments(Time(u64::MAX), sink);
        for row in 0..self.rows.len() as u32 {
            let Some(flow) = self.rows.get(row as usize).filter(|flow| !flow.is_free()) else { continue };
            let reason = Self::reason(flow, EndReason::Shutdown);
            self.end(row, reason, sink);
        }
    }

    /// Counts since the table was made.
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

    /// Notes which flow packet `at` of those that are looked up together is of.
    #[inline]
    fn look(&mut self, at: usize, packet: &Packet<'_>, layers: &Layers, sink: &mut impl FlowSink) {
        if !self.look.is_plain(layers) {
            self.look_closely(packet, layers, sink);
        } else if let Some(whose) = self.look.whose(packet, layers, layers.vlan) {
            self.stats.packets += 1;
            self.probes.push(Probe { whose, at: at as u32, is_plain: true, likely: 0 });
        }
    }

    /// The same for fragments and for packets that carry others.
    #[cold]
    fn look_closely(&mut self, packet: &Packet<'_>, layers: &Layers, sink: &mut impl FlowSink) {
        let Self { look, sightings, fragments, stats, .. } = self;
        let before = sightings.len();
        let mut is_counted = false;
        look.look_inside(packet, layers, |sighting, layers| {
            is_counted = true;
            if layers.fragment == Fragment::Whole {
                sightings.push(sighting);
            } else {
                fragment(fragments, sightings, sighting, packet, layers);
            }
        });
        stats.packets += u64::from(is_counted);
        if !is_counted
            && layers.is_plain_ip(packet.link)
            && let Some(whose) = look.whose(packet, layers, layers.vlan)
        {
            // Its network header has a wrong checksum.
            missed(&whose, &look.facts(packet, layers), sink);
        }
        for (at, sighting) in sightings.iter().enumerate().skip(before) {
            let whose = sighting.whose;
            self.probes.push(Probe { whose, at: at as u32, is_plain: false, likely: 0 });
        }
    }

    /// Reads one word of every line that is about to be used: independent reads, of which the processor has many
    /// on their way at a time.
    fn touch(&mut self) {
        for probe in &self.probes {
            self.index.warm(self.index.set(probe.whose.hash));
        }
        let index = &self.index;
        let mut sum = 0;
        let mut lines = 0;
        let mut missing = 0;
        for probe in &mut self.probes {
            probe.likely = index.likely(probe.whose.hash);
            match self.rows.get((probe.likely as usize).wrapping_sub(1)) {
                Some(row) => lines ^= row.touch(),
                None => missing += 1,
            }
        }
        if missing > 0 && self.free == 0 && self.rows.len() == self.capacity {
            let (before, after) = self.rows.split_at(self.hand.min(self.rows.len()));
            let victims = || after.iter().chain(before).take(missing);
            lines ^= victims().fold(0, |sum, row| sum ^ row.touch());
            sum ^= victims().fold(0, |sum, row| sum ^ index.touch(row.origin.set));
        }
        self.touched ^= u64::from(sum) ^ lines;
    }

    /// Counts what was noted; `get` gives the packets that were looked at.
    #[inline]
    fn count<'a>(
        &mut self,
        sink: &mut impl FlowSink,
        get: impl Fn(usize) -> Option<(Packet<'a>, &'a Layers)>,
    ) {
        if self.probes.len() > 1 {
            self.touch();
        }
        let probes = std::mem::take(&mut self.probes);
        let mut carrier = None;
        for probe in &probes {
            if probe.is_plain {
                let Some((packet, layers)) = get(probe.at as usize) else { continue };
                let facts = self.look.facts(&packet, layers);
                self.sight(&probe.whose, probe.likely, &facts, None, sink);
            } else if let Some(facts) = self.sightings.get(probe.at as usize).map(|s| s.facts.clone()) {
                let carrier_of_it = carrier.filter(|_| facts.carried);
                let row = self.sight(&probe.whose, probe.likely, &facts, carrier_of_it, sink);
                carrier = row.filter(|_| facts.carrier);
            }
        }
        self.probes = probes;
        self.probes.clear();
        self.sightings.clear();
    }

    /// Counts what a packet says; the row of its flow. `likely` is a row plus 1 that may be it.
    #[inline]
    fn sight(
        &mut self,
        whose: &Whose,
        likely: u32,
        s: &Facts,
        carrier: Option<u32>,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        let is_it = |row: &Row| !row.is_free() && same(&row.key, &whose.key);
        let at = likely.wrapping_sub(1);
        let mut row = match self.rows.get(at as usize).is_some_and(is_it) {
            true => Some(at),
            false => self.index.find(whose.hash, &whose.key, &self.rows),
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
            None => {
                let Some(at) = self.begin(whose, s, carrier, sink) else {
                    missed(whose, s, sink);
                    return None;
                };
                at
            }
        };
        self.update(at, whose, s, sink)
    }

    /// Why a packet does not belong to the flow that the row has, if so.
    #[inline]
    fn splits(&mut self, at: u32, s: &Facts) -> Option<EndReason> {
        let row = self.rows.get(at as usize)?;
        if s.time >= row.deadline {
            return Some(Self::reason(row, EndReason::Idle));
        }
        if s.time < row.last && row.last.since(s.time) >= self.idle(row) {
            self.stats.time_jumps += 1;
            return Some(Self::reason(row, EndReason::Idle));
        }
        if let Some(segment) = s.segment.as_ref().filter(|segment| segment.flags & SYN != 0)
            && row.has(mark::SEGMENT)
            && !s.bad_checksum
            && tcp::is_reuse(row, segment)
        {
            return Some(if row.has(mark::CLOSING) {
                Self::reason(row, EndReason::Fin)
            } else {
                EndReason::Reused
            });
        }
        let cut = s.time.since(row.first) >= self.config.active && row.counts.iter().any(|c| c.packets > 0);
        cut.then_some(EndReason::Active)
    }

    /// The reason for the end of a flow: how TCP ended it, or else `otherwise`.
    fn reason(row: &Row, otherwise: EndReason) -> EndReason {
        match row.has(mark::CLOSING) {
            true if tcp::is_reset(row) => EndReason::Rst,
            true => EndReason::Fin,
            false => otherwise,
        }
    }

    /// How long the flow may be without a packet.
    #[inline]
    fn idle(&self, row: &Row) -> u64 {
        self.idle[usize::from(row.idle_class()) % IDLE_CLASSES]
    }

    /// Makes a flow of a packet that belongs to none.
    fn begin(
        &mut self,
        whose: &Whose,
        s: &Facts,
        carrier: Option<u32>,
        sink: &mut impl FlowSink,
    ) -> Option<u32> {
        let parent = carrier.and_then(|row| self.rows.get(row as usize)).map_or(0, Row::id);
        let at = self.free_row(carrier, sink)?;
        if let Err(full) = self.index.insert(whose.hash, at) {
            let oldest =
                full.into_iter().filter(|&row| Some(row) != carrier).min_by_key(|&row| self.last_of(row))?;
            self.end(oldest, EndReason::Evicted, sink);
            // The row that became free is not the one that is to be used.
            self.index.insert(whose.hash, at).ok()?;
        }
        let flips = self.config.guess_initiator && flips(whose, s);
        let sender = usize::from(whose.sender & 1);
        let row = self.rows.get_mut(at as usize)?;
        row.begin(whose.key, s.earliest, if flips { 1 - sender } else { sender });
        row.set_idle_class(idle_class(row));
        row.deadline = after(row.first, self.idle[usize::from(row.idle_class()) % IDLE_CLASSES]);
        row.origin = Origin {
            parent,
            set: self.index.set(whose.hash),
            interface: s.interface,
            vlan: s.vlan,
            tunnel: s.tunnel,
            ..Origin::default()
        };
        if flips {
            row.origin.history.push(b'^', true);
        }
        self.stats.created += 1;
        Some(at)
    }

    fn last_of(&self, row: u32) -> Time {
        self.rows.get(row as usize).map_or(Time(0), |row| row.last)
    }

    /// A row for a new flow, not that of `carrier`.
    fn free_row(&mut self, carrier: Option<u32>, sink: &mut impl FlowSink) -> Option<u32> {
        if self.free == 0 && self.rows.len() < self.capacity {
            self.rows.push(Row::default());
            return Some(self.rows.len() as u32 - 1);
        }
        if self.free == 0 {
            let victim = self.victim(carrier);
            self.end(victim, EndReason::Evicted, sink);
        }
        let at = self.free.checked_sub(1)? as u32;
        self.free = self.rows.get(at as usize)?.first.0;
        Some(at)
    }

    /// The next flow that was not used since the hand passed it.
    fn victim(&mut self, carrier: Option<u32>) -> u32 {
        // After one round every mark is gone, so the second finds one.
        for _ in 0..2 * self.rows.len() {
            let at = self.hand;
            self.hand = if at + 1 < self.rows.len() { at + 1 } else { 0 };
            let Some(row) = self.rows.get_mut(at).filter(|row| !row.is_free()) else { continue };
            if !row.has(mark::USED) && carrier != Some(at as u32) {
                return at as u32;
            }
            row.unmark(mark::USED);
        }
        self.hand as u32
    }

    /// Counts a packet to a flow.
    #[inline]
    fn update(&mut self, at: u32, whose: &Whose, s: &Facts, sink: &mut impl FlowSink) -> Option<u32> {
        let side = usize::from(whose.sender & 1);
        let row = self.rows.get_mut(at as usize)?;
        let used = row.counts[side].packets | row.counts[1 - side].packets;
        row.mark(if used == 0 { mark::DIRTY } else { mark::DIRTY | mark::USED });
        if s.carrier {
            row.mark(mark::CARRIER);
        }
        if s.bad_checksum {
            if matches!(whose.key.proto, 6 | 17) {
                tcp::repeat(row, side, Repeated::Checksum);
            }
            missed(whose, s, sink);
            return Some(at);
        }
        if !s.regular {
            odd(row, side, s, sink);
        }
        let counts = &mut row.counts[side];
        if counts.packets == 0 {
            row.origin.ttl[side] = s.ttl;
            row.origin.mac[side] = s.mac;
        }
        counts.packets += u64::from(s.packets);
        counts.frame_bytes += s.frame_bytes;
        counts.ip_bytes += s.ip_bytes;
        counts.payload_bytes += s.payload_bytes;
        let time = s.time.max(row.last);
        if let Some(segment) = &s.segment {
            row.ends[side].flags |= segment.flags;
            if !tcp::is_closed(row) {
                row.last = time;
            }
            if !tcp::is_steady(row, side, segment) {
                return self.transition(at, side, segment);
            }
        } else {
            row.last = time;
            if whose.key.proto == 17 {
                tcp::saw_data(row, side);
            }
        }
        if !row.has(mark::CLOSING) {
            row.deadline = after(row.last, self.idle[usize::from(row.idle_class()) % IDLE_CLASSES]);
        }
        Some(at)
    }

    /// Takes a segment that may change the state of its connection, and with it the time of its end.
    fn transition(&mut self, at: u32, side: usize, segment: &Segment) -> Option<u32> {
        let row = self.rows.get_mut(at as usize)?;
        if tcp::segment(row, &mut self.pool, side, segment) {
            row.mark(mark::CLOSING);
            row.deadline = after(row.last, self.config.close);
        } else if !row.has(mark::CLOSING) {
            row.set_idle_class(idle_class(row));
            row.deadline = match tcp::is_attempt(row) {
                true => after(row.first, self.config.attempt),
                false => after(row.last, self.idle[usize::from(row.idle_class()) % IDLE_CLASSES]),
            };
        }
        Some(at)
    }

    /// Gives the record of a flow up to `now`; the flow goes on.
    fn cut(&mut self, at: u32, now: Time, sink: &mut impl FlowSink) {
        let Some(row) = self.rows.get_mut(at as usize) else { return };
        tally(row, sink, |row, side| row.last_tally(side));
        let missed =
            self.pool.known(row.origin.holes).map_or([0; 2], |holes| std::mem::take(&mut holes.missed));
        sink.end(&row.record(missed, EndReason::Active));
        self.stats.by_reason[EndReason::Active as usize] += 1;
        row.unmark(mark::DIRTY);
        row.cut(now);
    }

    /// Ends a flow, and frees its row.
    fn end(&mut self, at: u32, reason: EndReason, sink: &mut impl FlowSink) {
        let Some(row) = self.rows.get_mut(at as usize) else { return };
        if row.has(mark::DIRTY) {
            tally(row, sink, |row, side| row.last_tally(side));
        }
        let missed = self.pool.release(row.origin.holes);
        sink.end(&row.record(missed, reason));
        row.deadline = Time(0);
        row.first = Time(self.free);
        self.index.remove(row.origin.set, at);
        self.free = u64::from(at) + 1;
        self.stats.ended += 1;
        self.stats.evicted += u64::from(reason == EndReason::Evicted);
        self.stats.by_reason[reason as usize] += 1;
    }

    fn expire_fragments(&mut self, now: Time, sink: &mut impl FlowSink) {
        let mut cursor = 0;
        let mut expired: Vec<Sighting> =
            std::iter::from_fn(|| self.fragments.expire_next(now, &mut cursor)).collect();
        // They lie in the order of a keyed hash, which no result may depend on.
        expired.sort_by_key(|Sighting { whose, facts }| (facts.earliest, facts.time, whose.key));
        for Sighting { whose, facts } in expired {
            self.sight(&whose, 0, &facts, None, sink);
        }
    }
}

/// Classes of flows by their idle timeouts.
const IDLE_CLASSES: usize = 6;

/// The timeouts of the classes, in the order of [`idle_class`].
fn idle_timeouts(config: &FlowConfig) -> [u64; IDLE_CLASSES] {
    [
        config.idle_tcp,
        config.idle_interactive,
        config.idle_handshake,
        config.idle_udp,
        config.idle_icmp,
        config.idle_other,
    ]
}

/// The class of a flow as it is now.
fn idle_class(row: &Row) -> u16 {
    match row.key.proto {
        6 if tcp::is_handshake(row) => 2,
        6 if matches!(row.key.port[1 - (row.initiator() & 1)], 21 | 22 | 23 | 513) => 1,
        6 => 0,
        17 => 3,
        1 | 58 => 4,
        _ => 5,
    }
}

/// `time` and so many nanoseconds; never 0, which means a free row.
#[inline]
fn after(time: Time, nanoseconds: u64) -> Time {
    Time(time.0.saturating_add(nanoseconds).max(1))
}

/// Takes a fragment to those that belong with it.
#[cold]
fn fragment(
    fragments: &mut Fragments,
    sightings: &mut Vec<Sighting>,
    sighting: Sighting,
    packet: &Packet<'_>,
    layers: &Layers,
) {
    let Some(this) = IpFragment::of(packet, layers) else {
        sightings.push(sighting);
        return;
    };
    let is_first = layers.fragment == Fragment::First;
    let Counted { unmatched, fragment } = fragments.see(sighting, this.id, this.proto, is_first);
    sightings.extend(unmatched);
    sightings.extend(fragment);
}

/// Whether the sender of a flow's first packet is its responder.
fn flips(whose: &Whose, s: &Facts) -> bool {
    const BROADCAST: [u8; 16] = mapped_broadcast();
    let (from, to) = (usize::from(whose.sender & 1), 1 - usize::from(whose.sender & 1));
    let server = |end: usize| is_likely_server(whose.key.proto, whose.key.port[end]);
    let flips = match &s.segment {
        Some(segment) if segment.flags & SYN == 0 || segment.flags & ACK != 0 => {
            let both = segment.flags & SYN == 0 && whose.key.port[from] < whose.key.port[to];
            server(from) && (!server(to) || both)
        }
        Some(_) => false,
        None => whose.key.proto == 17 && server(from) && !server(to),
    };
    flips && whose.key.addr[to] != BROADCAST
}

const fn mapped_broadcast() -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
}

/// Tells that a packet was counted to a flow although its own headers do not say so.
#[cold]
fn odd(row: &Row, side: usize, s: &Facts, sink: &mut impl FlowSink) {
    sink.odd(&Tally {
        key: &row.key,
        source_is_lower: side == 0,
        initiator_is_lower: row.initiator() == 0,
        vlan: row.origin.vlan[0],
        packets: u64::from(s.packets),
        bytes: s.frame_bytes,
        begins: false,
        carrier: row.has(mark::CARRIER),
    });
}

/// Tells that a regular packet was not counted to any flow.
#[cold]
fn missed(whose: &Whose, s: &Facts, sink: &mut impl FlowSink) {
    if s.regular {
        let source_is_lower = whose.sender & 1 == 0;
        sink.missed(&Tally {
            key: &whose.key,
            source_is_lower,
            initiator_is_lower: source_is_lower,
            vlan: s.vlan[0],
            packets: u64::from(s.packets),
            bytes: s.frame_bytes,
            begins: false,
            carrier: false,
        });
    }
}

/// Gives what both directions of a flow had, by `count`.
fn tally(row: &mut Row, sink: &mut impl FlowSink, count: impl Fn(&mut Row, usize) -> (u64, u64)) {
    let initiator = row.initiator();
    for side in [initiator & 1, 1 - (initiator & 1)] {
        let (packets, bytes) = count(row, side);
        if packets == 0 {
            continue;
        }
        let begins = !row.has(mark::BEGUN);
        row.mark(mark::BEGUN);
        sink.tally(&Tally {
            key: &row.key,
            source_is_lower: side == 0,
            initiator_is_lower: initiator == 0,
            vlan: row.origin.vlan[0],
            packets,
            bytes,
            begins,
            carrier: row.has(mark::CARRIER),
        });
    }
}
