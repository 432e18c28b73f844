//! What is said in flows: streams put together, and who reads them.

use crate::streams::{Measurer, Measuring};
use crate::tunnels;
use crate::unparsed::{HeldBack, Unparsed};
use crate::{FlowIdentity, FlowRecord, Sink};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use weir_api::{Answer, SessionCount};
use weir_flow::defrag::{Defrag, DefragConfig, DefragStats};
use weir_flow::stream::{Overlap, StreamConfig, StreamStats, Streams};
use weir_flow::{IpTunnel, Seen};
use weir_proto::{Expected, Out, PROTOCOLS, Record, Session, Setup, Table, Wants};
use weir_wire::stream::Chunk;
use weir_wire::{Chunk as PacketBuffer, Layers, Packet, Time};

/// What is to be read of what flows say, and with how much memory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionConfig {
    /// Whether records of protocols are wanted.
    pub records: bool,
    /// Of which tables; `None` for all.
    pub tables: Option<Vec<&'static Table>>,
    /// Whether the octets of streams are wanted as they are.
    pub chunks: bool,
    /// What is wanted of files.
    pub wants: Wants,
    /// Octets for streams that wait, fragments that wait and parsers, all together. A new flow is not read while there
    /// is no room, and counted.
    pub memory: usize,
    /// Who wins where segments or fragments overlap.
    pub overlap: Overlap,
    /// Whether urgent octets are left out of streams.
    pub urgent_apart: bool,
    /// What is measured of flows, where that is wanted.
    pub measure: Option<Measuring>,
    /// Whether the packets of flows that no protocol knows are wanted, by [`Sink::unparsed`].
    pub unparsed: bool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            records: true,
            tables: None,
            chunks: false,
            wants: Wants::default(),
            memory: 256 << 20,
            overlap: Overlap::default(),
            urgent_apart: false,
            measure: None,
            unparsed: false,
        }
    }
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SessionStats {
    /// Flows that said something: those read, and those refused.
    pub said: u64,
    /// Flows that are read, or were until they ended.
    pub sessions: u64,
    /// Of these, flows that have ended and that somebody could read.
    pub known: u64,
    /// The same of flows that nobody could read.
    pub unknown: u64,
    /// Flows that were not read because there was no memory for it when they began to speak.
    pub refused: u64,
    /// Records told.
    pub records: u64,
    /// Packets of flows that were not measured because there was no memory for it.
    pub unmeasured: u64,
    /// Flows that were announced and did not come, or had no room.
    pub expected_in_vain: u64,
    /// Packets of flows that nobody could read which were handed on.
    pub unparsed: u64,
    /// The same of packets that had no room while they were held back.
    pub unparsed_lost: u64,
    /// Those of streams.
    pub streams: StreamStats,
    /// Those of fragments.
    pub fragments: DefragStats,
}

impl From<&SessionStats> for SessionCount {
    fn from(stats: &SessionStats) -> Self {
        let SessionStats { streams, fragments, .. } = stats;
        Self {
            said: stats.said,
            refused: stats.refused,
            sessions: stats.sessions,
            known: stats.known,
            unknown: stats.unknown,
            records: stats.records,
            expected_in_vain: stats.expected_in_vain,
            unmeasured: stats.unmeasured,
            streams: streams.streams,
            stream_octets: streams.octets,
            reordered: streams.reordered,
            repeated: streams.repeated,
            different: streams.different,
            urgent: streams.urgent,
            behind_end: streams.behind_end,
            gaps: streams.gaps,
            missing: streams.missing,
            given_up: streams.given_up,
            fragments: fragments.fragments,
            datagrams: fragments.begun,
            whole: fragments.whole,
            timed_out: fragments.timed_out,
            fragments_shed: fragments.shed,
            fragments_bad: fragments.bad,
            unparsed: stats.unparsed,
            unparsed_lost: stats.unparsed_lost,
            // Those of files are counted by whoever keeps them.
            ..Self::default()
        }
    }
}

/// Reads what flows say.
pub(crate) struct Sessions {
    config: SessionConfig,
    streams: Streams,
    defrag: Defrag,
    /// Packets that were put together, until they are shown.
    whole: Option<(PacketBuffer, Vec<Layers>)>,
    /// By the flow's row.
    entries: Vec<Option<Box<Entry>>>,
    /// Rows of flows that are not read because there was no memory for it.
    refused: HashSet<u32>,
    expected: Expectations,
    /// What nobody reads, by port.
    unparsed: Unparsed,
    /// Packets of flows of which it is not known yet whether somebody reads them, where those are wanted.
    held_back: Option<HeldBack>,
    /// Measures flows, where that is wanted.
    measurer: Option<Measurer>,
    /// Octets that sessions hold.
    held: usize,
    /// What they may hold.
    limit: usize,
    stats: SessionStats,
}

/// A flow that has said something.
struct Entry {
    identity: FlowIdentity,
    session: Session,
    /// What was counted as held by it.
    held: usize,
}

/// What has been found in a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Protocols, the first one first: see [`weir_flow::FlowRecord::services`].
    pub services: [u8; 3],
    /// It is clear that nobody knows it.
    pub is_unknown: bool,
}

impl Sessions {
    /// `seed` keys hashes.
    pub fn new(config: &SessionConfig, seed: u64) -> Self {
        let streams = StreamConfig {
            memory: config.memory / 4,
            overlap: config.overlap,
            urgent_apart: config.urgent_apart,
            ..StreamConfig::default()
        };
        let fragments =
            DefragConfig { memory: config.memory / 16, overlap: config.overlap, ..DefragConfig::default() };
        Self {
            streams: Streams::new(streams),
            defrag: Defrag::new(fragments),
            whole: None,
            entries: Vec::new(),
            refused: HashSet::new(),
            expected: Expectations::default(),
            unparsed: Unparsed::new(seed),
            // A part of what is for sessions: what is held back is what they look at first.
            held_back: config.unparsed.then(|| HeldBack::new(config.memory / 16)),
            measurer: config.measure.map(|measuring| Measurer::new(measuring, config.memory / 4)),
            held: 0,
            // What measures takes a quarter.
            limit: config.memory / 16
                * (if config.measure.is_some() { 7 } else { 11 } - usize::from(config.unparsed)),
            stats: SessionStats::default(),
            config: config.clone(),
        }
    }

    /// Takes a packet that was counted to a flow.
    pub fn packet(&mut self, seen: &Seen<'_>, sink: &mut dyn Sink) {
        if let Some(measurer) = &mut self.measurer {
            self.stats.records += measurer.packet(seen, sink);
        }
        if self.config.records || self.config.chunks {
            self.read(seen, sink);
        }
        let Some(held_back) = &mut self.held_back else { return };
        let found = self.entries.get(seen.row as usize).and_then(Option::as_ref);
        let found = found.map(|entry| (entry.session.is_unknown(), entry.session.found().next().is_some()));
        held_back.packet(seen, found, sink);
    }

    fn read(&mut self, seen: &Seen<'_>, sink: &mut dyn Sink) {
        if let Some(segment) = seen.segment() {
            let is_read = self.entry(seen.row).is_none_or(|entry| !entry.session.is_unknown());
            if !is_read && !self.config.chunks {
                return;
            }
            let Self { streams, entries, refused, expected, config, held, limit, stats, .. } = self;
            streams.segment(seen.row, &segment, |chunk| {
                let mut reader =
                    Reader { entries, refused, expected, config, held, limit: *limit, stats, sink };
                reader.chunk(seen.row, &seen.flow, &chunk);
            });
        } else if let Some(data) = seen.datagram().filter(|data| !data.is_empty()) {
            let chunk = Chunk { time: seen.packet.time, direction: seen.direction, gap: 0, data };
            let Self { entries, refused, expected, config, held, limit, stats, .. } = self;
            let mut reader = Reader { entries, refused, expected, config, held, limit: *limit, stats, sink };
            reader.chunk(seen.row, &seen.flow, &chunk);
        }
    }

    /// An interval of all ends at `now`.
    pub fn tick(&mut self, now: Time, sink: &mut dyn Sink) {
        if let Some(measurer) = &mut self.measurer {
            self.stats.records += measurer.tick(now, sink);
        }
    }

    /// Takes a tunnel right over IP that was found or is over.
    pub fn tunnel(&mut self, tunnel: &IpTunnel, sink: &mut dyn Sink) {
        if self.config.records
            && let Some(record) = tunnels::over_ip(tunnel)
        {
            self.stats.records += 1;
            sink.record(&tunnel.identity, record);
        }
    }

    /// Takes a flow that has ended, or was cut: it may be a tunnel over UDP.
    pub fn carrier(&mut self, flow: &FlowRecord, sink: &mut dyn Sink) {
        if self.config.records
            && let Some((identity, records)) = tunnels::over_udp(flow)
        {
            for record in records {
                self.stats.records += 1;
                sink.record(&identity, record);
            }
        }
    }

    /// Takes a fragment. A packet that is complete with it is given by [`Sessions::take_whole`].
    pub fn fragment(&mut self, packet: &Packet<'_>, layers: &Layers) {
        if let Some((packet, layers)) = self.defrag.fragment(packet, layers) {
            let (packets, all) = self.whole.get_or_insert_default();
            packets.push(&packet);
            all.push(layers);
        }
    }

    /// The packets that fragments have been put together to, with their layers.
    pub fn take_whole(&mut self) -> Option<(PacketBuffer, Vec<Layers>)> {
        self.whole.take()
    }

    /// What has been found in the flow of a row so far.
    pub fn found(&self, row: u32) -> Found {
        self.entry(row).map_or(Found::default(), |entry| found(&entry.session))
    }

    /// Ends the flow of a row: what was begun is told. What was found in it.
    pub fn end(&mut self, row: u32, time: Time, sink: &mut dyn Sink) -> Found {
        if let Some(measurer) = &mut self.measurer {
            self.stats.records += measurer.end(row, sink);
        }
        let Self { streams, entries, refused, expected, config, held, limit, stats, .. } = self;
        let identity = entries.get(row as usize).and_then(Option::as_ref).map(|entry| entry.identity);
        streams.end(row, time, |chunk| {
            if let Some(identity) = &identity {
                let mut reader =
                    Reader { entries, refused, expected, config, held, limit: *limit, stats, sink };
                reader.chunk(row, identity, &chunk);
            }
        });
        let ended = self.entries.get_mut(row as usize).and_then(Option::take);
        let found = ended.map(|mut entry| self.end_entry(&mut entry, time, sink)).unwrap_or_default();
        if !self.refused.is_empty() {
            self.refused.remove(&row);
        }
        if let Some(held_back) = &mut self.held_back {
            held_back.end(row, found.is_unknown, sink);
        }
        found
    }

    /// Counts a flow that has ended, or a part of it, if nobody can read it.
    pub fn count_unparsed(&mut self, flow: &FlowRecord, is_unknown: bool) {
        self.unparsed.flow(flow, is_unknown);
    }

    /// What nobody could read since the last call, by port.
    pub fn take_unparsed(&mut self) -> Option<Answer> {
        self.unparsed.take()
    }

    /// No more packets will come.
    pub fn finish(&mut self) {
        self.defrag.finish();
    }

    fn end_entry(&mut self, entry: &mut Entry, time: Time, sink: &mut dyn Sink) -> Found {
        self.held -= entry.held;
        let mut teller = Teller {
            identity: &entry.identity,
            expected: &mut self.expected,
            stats: &mut self.stats,
            config: &self.config,
            sink,
        };
        entry.session.end(time, &mut teller);
        let found = found(&entry.session);
        self.stats.unknown += u64::from(found.is_unknown);
        self.stats.known += u64::from(!found.is_unknown);
        found
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> SessionStats {
        SessionStats {
            expected_in_vain: self.expected.in_vain,
            unparsed: self.held_back.as_ref().map_or(0, HeldBack::handed_on),
            unparsed_lost: self.held_back.as_ref().map_or(0, HeldBack::lost),
            unmeasured: self.measurer.as_ref().map_or(0, Measurer::refused),
            streams: self.streams.stats(),
            fragments: self.defrag.stats(),
            ..self.stats
        }
    }

    fn entry(&self, row: u32) -> Option<&Entry> {
        self.entries.get(row as usize)?.as_deref()
    }
}

fn found(session: &Session) -> Found {
    let mut services = [0; 3];
    for (place, protocol) in services.iter_mut().zip(session.found()) {
        let at = PROTOCOLS.iter().position(|known| std::ptr::eq(*known, protocol));
        *place = at.map_or(0, |at| at as u8 + 1);
    }
    let [first, ..] = services;
    Found { services, is_unknown: first == 0 && session.is_unknown() }
}

/// Takes chunks of flows to those who read them.
struct Reader<'w> {
    entries: &'w mut Vec<Option<Box<Entry>>>,
    refused: &'w mut HashSet<u32>,
    expected: &'w mut Expectations,
    config: &'w SessionConfig,
    held: &'w mut usize,
    limit: usize,
    stats: &'w mut SessionStats,
    sink: &'w mut dyn Sink,
}

impl Reader<'_> {
    fn chunk(&mut self, row: u32, flow: &FlowIdentity, chunk: &Chunk<'_>) {
        if self.config.chunks {
            self.sink.chunk(flow, chunk);
        }
        let at = row as usize;
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, || None);
        }
        let Some(place) = self.entries.get_mut(at) else { return };
        let entry = match place {
            Some(entry) => entry,
            None => {
                // Once refused a flow stays so: nobody can read one from its midst.
                if !self.refused.is_empty() && self.refused.contains(&row) {
                    return;
                }
                self.stats.said += 1;
                if *self.held >= self.limit {
                    self.stats.refused += 1;
                    self.refused.insert(row);
                    return;
                }
                self.stats.sessions += 1;
                let setup = Setup {
                    flow: flow.id(),
                    initiator: flow.initiator(),
                    responder: flow.responder(),
                    ip_proto: flow.key.proto,
                    wants: self.config.wants,
                };
                let session = match self.expected.take(&setup, chunk.time) {
                    Some(expected) => Session::expected(setup, expected),
                    None => Session::new(setup),
                };
                place.insert(Box::new(Entry { identity: *flow, session, held: 0 }))
            }
        };
        let Entry { identity, session, held } = &mut **entry;
        let mut teller = Teller {
            identity,
            expected: self.expected,
            stats: self.stats,
            config: self.config,
            sink: self.sink,
        };
        session.chunk(chunk, &mut teller);
        let now = session.memory() + size_of::<Entry>();
        *self.held = *self.held + now - std::mem::replace(held, now);
    }
}

/// Takes what parsers say to those who want to know it.
struct Teller<'w> {
    identity: &'w FlowIdentity,
    expected: &'w mut Expectations,
    stats: &'w mut SessionStats,
    config: &'w SessionConfig,
    sink: &'w mut dyn Sink,
}

impl Out for Teller<'_> {
    fn record(&mut self, record: Record<'_>) {
        let SessionConfig { records, tables, .. } = self.config;
        if *records && tables.as_ref().is_none_or(|tables| tables.contains(&record.table)) {
            self.stats.records += 1;
            self.sink.record(self.identity, record);
        }
    }

    fn expect(&mut self, expected: Expected) {
        self.expected.add(expected);
    }

    fn content(&mut self, file: u64, offset: u64, octets: &[u8]) {
        self.sink.content(self.identity, file, offset, octets);
    }
}

/// Most flows that are waited for: an announcement costs nothing to who makes it.
const MAX_EXPECTED: usize = 4096;

/// Flows that were announced.
#[derive(Default)]
struct Expectations {
    /// By who will listen.
    waiting: HashMap<(IpAddr, u16, u8), Expected>,
    /// In the order in which they were announced.
    order: VecDeque<(IpAddr, u16, u8)>,
    in_vain: u64,
}

impl Expectations {
    fn add(&mut self, expected: Expected) {
        let at = (expected.responder.0, expected.responder.1, expected.ip_proto);
        self.forget(expected.from);
        while self.order.len() >= MAX_EXPECTED {
            self.drop_oldest();
        }
        // A newer announcement of the same port replaces the older one.
        match self.waiting.insert(at, expected) {
            Some(_) => self.in_vain += 1,
            None => self.order.push_back(at),
        }
    }

    /// The announcement of that flow.
    fn take(&mut self, setup: &Setup, now: Time) -> Option<Expected> {
        if self.waiting.is_empty() {
            return None;
        }
        let at = (setup.responder.0, setup.responder.1, setup.ip_proto);
        let is_it = |expected: &&Expected| {
            expected.initiator.is_none_or(|address| address == setup.initiator.0) && now <= expected.until
        };
        self.waiting.get(&at).filter(is_it)?;
        self.order.retain(|waiting| *waiting != at);
        self.waiting.remove(&at)
    }

    fn forget(&mut self, now: Time) {
        while let Some(oldest) = self.order.front().and_then(|at| self.waiting.get(at)) {
            if oldest.until >= now {
                return;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if self.order.pop_front().and_then(|at| self.waiting.remove(&at)).is_some() {
            self.in_vain += 1;
        }
    }
}
