//! The flow table.

mod attend;
mod begin;
mod count;
mod emit;
mod look;
mod probes;

use crate::closed::Closed;
use crate::config::FlowConfig;
use crate::fragments::Fragments;
use crate::hash::KeyHash;
use crate::holes::Pool;
use crate::index::Index;
use crate::parsed_packet::{Looker, ParsedPacket};
use crate::row::{Cold, Hot, Row, mark};
use crate::timers::Timers;
use crate::tunnel_ends::TunnelEnds;
use crate::{EndReason, FlowRecord, FlowSink, FlowStats};
use emit::{record_of, tally, tally_fresh};
use probes::Probes;
use weir_wire::{Batch, Layers, MAX_TUNNELS, Packet, Time, shows_its_key};

/// Number of packets that are looked up together: enough that their memory accesses overlap, few enough that their
/// facts stay in the second-level cache.
const TOGETHER: usize = 128;

/// Capacity of the list of probes.
const PROBES: usize = TOGETHER + TOGETHER / 4;

/// Number of packets whose bits are in a word.
const WORD: usize = 64;

/// Maximum number of probes of one packet: one for each level, and one for fragments without a first one.
const MAX_LEVELS: usize = MAX_TUNNELS + 2;

/// Minimum number of flows of a table.
const MIN_ROWS: usize = 64;

/// Maximum number of flows of a table: slots of the index are numbers of 32 bits.
const MAX_ROWS: usize = 800_000_000;

/// Number of rows for each closed connection that is remembered.
const ROWS_PER_CLOSED: usize = 4;

/// Minimum memory in bytes.
const MIN_MEMORY: usize = 128 << 10;

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
    closed: Closed,
    /// For each row of a flow that follows a closed connection, the connection's identifier; for each other row with a parent,
    /// [`FlowRecord::other_parent`].
    linked: Vec<u64>,
    probes: Probes,
    /// The parsed packets of the probes that are not plain.
    parsed_packets: Vec<ParsedPacket>,
    /// For each of these, the packet and its layers, if the sink reads packets and the packet is no fragment.
    levels: Vec<Option<(u8, Layers)>>,
    timers: Timers,
    stats: FlowStats,
    /// The record of the last flow of one packet that ended.
    record: FlowRecord,
    /// Rows whose time is up, while time passes. Only its memory is kept.
    due: Vec<u32>,
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
            + PROBES * (size_of::<ParsedPacket>() + Probes::BYTES_EACH);
        let indexed = Index::BYTES_PER_SET.div_ceil(Index::ROWS_PER_SET);
        let each = size_of::<Hot>()
            + size_of::<Cold>()
            + indexed
            + Pool::BYTES_EACH / 8
            + Closed::BYTES_EACH / ROWS_PER_CLOSED
            + size_of::<u64>();
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
            closed: Closed::new(capacity / ROWS_PER_CLOSED),
            linked: Vec::with_capacity(capacity),
            probes: Probes::with_capacity(PROBES),
            parsed_packets: Vec::with_capacity(PROBES),
            levels: Vec::new(),
            timers: Timers::new(config),
            stats,
            record: FlowRecord::empty(),
            due: Vec::new(),
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
        let groups = batch.slots.chunks(TOGETHER).zip(layers.chunks(TOGETHER)).enumerate();
        for (group, (slots, layers)) in groups {
            let get = |at| Some((batch.packet(slots.get(at)?), layers.get(at)?));
            let is_regular =
                |at, packet: &Packet<'_>, layers: &Layers| is_regular(group * TOGETHER + at, packet, layers);
            let mut at = 0;
            let mut common = 0;
            while at < slots.len().min(layers.len()) {
                if at % WORD == 0 {
                    common = self.look.common_ones(layers.get(at..).unwrap_or_default());
                }
                // A packet has few levels, but an attacker's have more.
                if self.probes.len() + MAX_LEVELS > PROBES {
                    self.count(sink, get);
                }
                let run = ((common >> (at % WORD)).trailing_ones() as usize).min(PROBES - self.probes.len());
                if let Some((slots, layers)) = slots.get(at..at + run).zip(layers.get(at..at + run))
                    && run > 0
                {
                    self.look_at_common(at, batch, slots, layers);
                    at += run;
                } else if let Some((packet, layers)) = get(at) {
                    self.look(at, &packet, layers, |packet, layers| is_regular(at, packet, layers), sink);
                    at += 1;
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

    /// Ends the flows that are idle at `now`, the end of an interval. All tables of a run must tick at the same times.
    ///
    /// A tick that is further ahead than [`FlowConfig::jump`] takes effect only when the next tick confirms it. A tick
    /// before an earlier one ends the flows that were idle at its time. A repeated tick has no effect.
    pub fn tick(&mut self, now: Time, sink: &mut impl FlowSink) {
        if now == self.ticked {
            return;
        }
        if now.since(self.ticked) > self.config.jump && self.ticked != Time(0) {
            let confirmed = self.put_off != Time(0) && now >= self.put_off;
            if !confirmed {
                self.put_off = now;
                self.stats.time_jumps += 1;
                return;
            }
        }
        self.pass_to(now, sink);
    }

    /// Lets watched time pass up to `now`, with which the next interval begins: what was due before it ends, in the order of
    /// deadlines and keys.
    pub fn pass_to(&mut self, now: Time, sink: &mut impl FlowSink) {
        self.put_off = Time(0);
        self.ticked = now;
        self.expire_fragments(now, sink);
        self.tunnel_ends.expire(now);
        self.tunnel_ends.take().for_each(|over| sink.tunnel(&over));
        let mut due = std::mem::take(&mut self.due);
        let rows = (0..).zip(&self.hot).filter(|(_, row)| !row.is_free() && row.deadline < now);
        due.extend(rows.map(|(at, _)| at));
        due.sort_unstable_by_key(|at| self.hot.get(*at as usize).map(|row| (row.deadline, row.key)));
        for at in due.drain(..) {
            let reason = self.reason(at, EndReason::Idle);
            self.end(at, reason, sink);
        }
        self.due = due;
    }

    /// The earliest time at which something ends if no packet follows: a flow, a tunnel, or the wait for the first fragment of
    /// a packet. `None` if nothing is open.
    pub fn next_due(&self) -> Option<Time> {
        let rows = self.hot.iter().filter(|row| !row.is_free()).map(|row| row.deadline).min();
        [rows, self.fragments.next_due(), self.tunnel_ends.next_due()].into_iter().flatten().min()
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

    /// Shows the row and the record so far of each open flow whose last packet is not before a time. Nothing changes.
    pub fn open(&mut self, since: Time, mut each: impl FnMut(u32, &FlowRecord)) {
        for (((at, hot), cold), linked) in (0..).zip(&mut self.hot).zip(&mut self.cold).zip(&self.linked) {
            if hot.is_free() || hot.last < since {
                continue;
            }
            if hot.has(mark::FRESH) {
                hot.fresh_record(EndReason::Open, &mut self.record);
                each(at, &self.record);
                continue;
            }
            let uncounted = self.pool.known(cold.origin.holes).map_or([0; 2], |holes| holes.uncounted);
            each(at, &record_of(&Row::new(hot, cold), Some(linked), uncounted, EndReason::Open));
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
            closed_shed: self.closed.shed,
            ..self.stats
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

    fn is_none(self) -> bool {
        matches!(self, Self::Named(0))
    }

    /// The row of a flow that carries the packet.
    fn row(self) -> Option<u32> {
        match self {
            Self::Row(at) => Some(at),
            Self::Named(_) => None,
        }
    }
}

/// A new flow.
enum Begun {
    /// Its packet has not been counted yet.
    Empty(u32),
    /// Its packet has been counted.
    Counted(u32),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tally;
    use crate::config::VerifiedChecksums;
    use crate::index::same;
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
            let flow_ref = table.look.found(flow_ref);
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
        let look =
            Looker { hash, lines: Index::new(1).lines(), vlan: false, checksums: VerifiedChecksums::None };
        let mut chosen = Vec::new();
        let mut n = 0;
        while chosen.len() < 2_000 {
            n += 1;
            let data = flow(n);
            let packet = build::packet(&data, LinkType::ETHERNET);
            let flow_ref = look.found(look.flow_ref(&packet, &decode(&packet), [0; 2]).expect("a flow"));
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
    /// The index grows between packets: no flow is lost, and each is found again, settled or of one packet.
    #[test]
    fn the_index_grows_with_the_rows() {
        let config = FlowConfig { memory: 64 << 20, seed: [5, 6], ..FlowConfig::default() };
        let mut table = FlowTable::new(&config);
        let before = table.index.memory();
        let flow = |n: u32| {
            let [a, b, c, d] = n.to_be_bytes();
            build::ethernet().ipv4([10 + a, b, c, d], [192, 0, 2, 1]).udp(n as u16, 443).payload(b"x")
        };
        let count = |table: &mut FlowTable, n: u32| {
            let data = flow(n);
            let packet = build::packet(&data, LinkType::ETHERNET);
            table.packet(&packet, &decode(&packet), &mut Nowhere);
        };
        const FLOWS: u32 = 20_000;
        for n in 0..FLOWS {
            count(&mut table, n);
            // Every third flow is settled early, and has its packets on both sides of a growth.
            if n % 3 == 0 {
                count(&mut table, n);
            }
        }
        (0..FLOWS).for_each(|n| count(&mut table, n));
        let stats = table.stats();
        assert_eq!((stats.created, stats.evicted), (u64::from(FLOWS), 0));
        let after = table.index.memory();
        assert!(before < 128 << 10 && after > 10 * before && after < 64 << 20, "{before} {after}");
        table.drain(&mut Nowhere);
        assert_eq!(table.stats().ended, u64::from(FLOWS));
    }

    /// A fragment that waits for the first one of its packet while the index grows is counted to its flow.
    #[test]
    fn the_index_grows_while_fragments_wait() {
        let config = FlowConfig { memory: 64 << 20, seed: [5, 6], ..FlowConfig::default() };
        let mut table = FlowTable::new(&config);
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let count = |table: &mut FlowTable, data: &[u8], time: Time| {
            let packet = Packet { time, ..build::packet(data, LinkType::ETHERNET) };
            table.packet(&packet, &decode(&packet), &mut Nowhere);
        };
        let hosts = || build::ethernet().ipv4([192, 0, 2, 1], [192, 0, 2, 2]);
        let later = |table: &mut FlowTable, id: u16, time: Time| {
            count(table, &hosts().fragment(id, 100, false).udp(1, 2).payload(&[0; 16]), time);
        };
        const FLOWS: u32 = 20_000;
        later(&mut table, 1, at(1));
        for n in 0..FLOWS {
            let [a, b, c, d] = n.to_be_bytes();
            let data =
                build::ethernet().ipv4([10 + a, b, c, d], [192, 0, 2, 1]).udp(n as u16, 443).payload(b"x");
            let packet = Packet { time: at(1), ..build::packet(&data, LinkType::ETHERNET) };
            table.packet(&packet, &decode(&packet), &mut Nowhere);
        }
        table.tick(at(40), &mut Nowhere);
        later(&mut table, 2, at(40));
        table.tick(at(80), &mut Nowhere);
        assert_eq!((table.stats().fragments_unmatched, table.stats().created), (2, u64::from(FLOWS) + 1));
    }
}
