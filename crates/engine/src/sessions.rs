//! Sessions: reassembled streams, and the parsers that read them.

use crate::allowances::Allowances;
use crate::announced::{Announced, Announcements};
use crate::anomalies::Anomalies;
use crate::asked::Asked;
use crate::decided::DecidedFlows;
use crate::demand::Demand;
use crate::detection::{Detection, Named, Place};
use crate::held::{self, HeldPackets};
use crate::odd_packets::OddPackets;
use crate::odd_segments::OddSegments;
use crate::outer_flows::carriers;
use crate::own_apps::FirstBytes;
use crate::read::Reading;
use crate::record_emitter::RecordEmitter;
use crate::session_config::SessionConfig;
use crate::session_stats::SessionStats;
use crate::stream_demand::{Covered, Covering, StreamDemand};
use crate::streams::Measurer;
use crate::tap::Tap;
use crate::tunnels;
use crate::unidentified::UnidentifiedPackets;
use crate::watched::Judged;
use crate::{Emitted, FlowIdentity, FlowRecord, Plan, RuleState, Sink};
use std::net::Ipv6Addr;
use std::sync::Arc;
use weir_api::AnswerId;
use weir_detect::Seen;
use weir_filter::Directions;
use weir_flow::defrag::{Defrag, DefragConfig};
use weir_flow::stream::{StreamConfig, Streams};
use weir_flow::{FlowPacket, IpTunnel, OddSegment, Rows};
use weir_proto::{Session, Setup, Wants, odd_segment};
use weir_wire::stream::Chunk;
use weir_wire::{Batch, FlowKey, Layers, Packet, PacketBuf, Space, Time};

/// Streams may hold at most this part of all memory for waiting segments.
const STREAM_PART: usize = 4;
/// Streams get at least this part of the memory, whatever sessions hold.
const MIN_PART: usize = 32;

/// The number of measurements that are delivered as records, of those emitted.
fn handed_on(asked: &Asked, emitted: u64) -> u64 {
    if asked.demand.measured { emitted } else { 0 }
}

/// Reads the payload of flows.
pub(crate) struct Sessions {
    config: SessionConfig,
    asked: Asked,
    /// Flows that begin before this time are not read, unless they are read already.
    since: Time,
    streams: Streams,
    /// The functions that see the stream of each flow.
    stream_demand: StreamDemand,
    defrag: Defrag,
    /// Reassembled packets, until they are shown.
    whole: Option<(PacketBuf, Vec<Layers>)>,
    /// State of each flow, by its row.
    entries: Rows<Option<Box<Entry>>>,
    refused: Refused,
    /// Rows of flows that nothing has to be known of.
    unread: Refused,
    /// Rows of flows that are read to find those that they announce.
    announcing: Refused,
    /// Reused for the tests of flows.
    found: Vec<(u32, Directions)>,
    announced: Announced,
    /// What was told of odd segments.
    odd: OddSegments,
    /// What was told of odd packets.
    odd_packets: OddPackets,
    /// Packets of flows, if a function may write them later.
    held_packets: Option<HeldPackets>,
    /// Packets of undecided flows, if packets of unidentified flows are emitted.
    unidentified_packets: Option<UnidentifiedPackets>,
    /// Searches what flows say first, if users describe applications by it.
    first_bytes: Option<FirstBytes>,
    /// Looks at flows with rules, if there are any.
    detection: Option<Detection>,
    rule_state: RuleState,
    /// Measures flows, if enabled.
    measurer: Option<Measurer>,
    allowances: Allowances,
    /// Bytes that sessions hold.
    held: usize,
    /// Limit of sessions, streams and fragments together, in bytes.
    limit: usize,
    stats: SessionStats,
    /// Number of the packet that is being read; 0 between packets.
    packet: u32,
    /// Accumulates the values read for prefetching, so that the compiler keeps the reads.
    touched: u64,
}

/// A flow with payload.
struct Entry {
    compact: CompactIdentity,
    /// Its session; `None` if no protocol is looked for, and functions or outputs see its stream.
    session: Option<Session>,
    /// Bytes of memory accounted to this flow.
    held: u32,
    /// Bytes of payload since its memory was counted last.
    uncounted: u32,
}

impl Entry {
    /// A flow that is not parsed.
    fn unread(flow: &FlowIdentity) -> Self {
        let compact = CompactIdentity::of(flow);
        let held = (ENTRY + compact.memory()) as u32;
        Self { compact, session: None, held, uncounted: 0 }
    }
}

/// The identity of a flow in less than half the memory, because there is one for each flow.
struct CompactIdentity {
    ends: CompactEndpoints,
    first: Time,
    port: [u16; 2],
    vlan: [u16; 2],
    space: Space,
    proto: u8,
    initiator_is_lower: bool,
}

/// Its two endpoints, in the order of the key.
enum CompactEndpoints {
    V4([[u8; 4]; 2]),
    /// State without a compact form.
    Other(Box<FlowIdentity>),
}

impl CompactIdentity {
    fn of(identity: &FlowIdentity) -> Self {
        let FlowIdentity { key, initiator_is_lower, first, vlan, alias } = *identity;
        let ends = match key.addr.map(|address| Ipv6Addr::from(address).to_ipv4_mapped()) {
            [Some(lower), Some(higher)] if alias == 0 => {
                CompactEndpoints::V4([lower.octets(), higher.octets()])
            }
            _ => CompactEndpoints::Other(Box::new(*identity)),
        };
        Self { ends, first, port: key.port, vlan, space: key.space, proto: key.proto, initiator_is_lower }
    }

    fn identity(&self) -> FlowIdentity {
        let &Self { ref ends, first, port, vlan, space, proto, initiator_is_lower } = self;
        match ends {
            CompactEndpoints::V4(ends) => {
                let addr = ends.map(weir_wire::mapped);
                let key = FlowKey { addr, port, space, proto };
                FlowIdentity { key, initiator_is_lower, first, vlan, alias: 0 }
            }
            CompactEndpoints::Other(identity) => **identity,
        }
    }

    /// Bytes of heap memory.
    fn memory(&self) -> usize {
        if let CompactEndpoints::Other(_) = self.ends { size_of::<FlowIdentity>() } else { 0 }
    }
}

/// The facts about a flow that a parser gets.
fn setup(flow: &FlowIdentity, wants: Wants) -> Setup {
    let (initiator, responder) = (flow.initiator(), flow.responder());
    Setup { flow: flow.id(), initiator, responder, ip_proto: flow.key.proto, wants }
}

/// Rows of flows that are skipped for lack of memory, one bit for each.
#[derive(Default)]
struct Refused {
    bits: Vec<u64>,
}

impl Refused {
    fn contains(&self, row: u32) -> bool {
        self.bits.get(row as usize / 64).is_some_and(|bits| bits >> (row % 64) & 1 == 1)
    }

    fn insert(&mut self, row: u32) {
        let at = row as usize / 64;
        if self.bits.len() <= at {
            self.bits.resize(at + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(at) {
            *bits |= 1 << (row % 64);
        }
    }

    fn remove(&mut self, row: u32) {
        if let Some(bits) = self.bits.get_mut(row as usize / 64) {
            *bits &= !(1 << (row % 64));
        }
    }
}

/// The findings about a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Protocols, the first one first: see [`weir_flow::FlowRecord::services`].
    pub services: [u8; 4],
    /// Whether the flow is known to be unidentified.
    pub is_unidentified: bool,
    /// Applications: see [`weir_flow::FlowRecord::own_apps`].
    pub own_apps: u32,
    /// What rules have made of it.
    pub judged: Judged,
}

impl Found {
    /// What is known of the protocols.
    fn named(&self) -> Named {
        Named { services: self.services, is_unidentified: self.is_unidentified }
    }
}

/// Whether rules look at the bytes of a SYN before they are acknowledged.
fn syn_at_once(demand: &Demand) -> bool {
    demand.rules.as_ref().is_some_and(|rules| rules.judging().each_segment)
}

impl Sessions {
    /// Sessions for what is required of them.
    pub fn new(config: &SessionConfig, demand: &Arc<Demand>) -> Self {
        let limit = limit(config, demand);
        let streams = StreamConfig {
            memory: limit / STREAM_PART,
            overlap: config.overlap,
            urgent_apart: config.urgent_apart,
            syn_at_once: syn_at_once(demand),
            ..StreamConfig::default()
        };
        let fragments =
            DefragConfig { memory: config.memory / 16, overlap: config.overlap, ..DefragConfig::default() };
        Self {
            streams: Streams::new(streams),
            stream_demand: StreamDemand::default(),
            defrag: Defrag::new(fragments),
            whole: None,
            entries: Rows::default(),
            refused: Refused::default(),
            unread: Refused::default(),
            announcing: Refused::default(),
            found: Vec::new(),
            announced: Announced::default(),
            odd: OddSegments::default(),
            odd_packets: OddPackets::default(),
            held_packets: demand.held.then(|| HeldPackets::new(config.memory / 4)),
            unidentified_packets: demand.unidentified.then(|| UnidentifiedPackets::new(config.memory / 4)),
            first_bytes: demand.own_apps.clone().map(FirstBytes::new),
            detection: demand
                .rules
                .as_ref()
                .map(|rules| Detection::new(rules, &RuleState::default(), rules_share(config))),
            rule_state: RuleState::default(),
            measurer: demand.measure.map(|measuring| Measurer::new(measuring, config.memory / 4)),
            asked: Asked::new(demand, config),
            since: Time::default(),
            allowances: Allowances::new(config),
            held: 0,
            limit,
            stats: SessionStats::default(),
            packet: 0,
            touched: 0,
            config: config.clone(),
        }
    }

    /// Changes what is read, after the packets until `latest`. A flow whose protocol is parsed goes on with its parser; one
    /// that began without a parser gets none. Functions see the streams of the flows that they cover from the next packet on.
    pub fn demand(&mut self, demand: &Arc<Demand>, latest: Time, sink: &mut dyn Sink) {
        self.stream_demand.change();
        if self.asked.demand == *demand {
            return;
        }
        if !demand.streams {
            self.stream_demand = StreamDemand::default();
        }
        let was_unread = self.asked.is_unread();
        let follows = match (&mut self.measurer, self.asked.demand.measure, demand.measure) {
            (Some(measurer), Some(before), Some(now)) => measurer.follow(before, now),
            (_, before, now) => before == now,
        };
        if !follows {
            if let Some(mut measurer) = self.measurer.take() {
                self.stats.records += handed_on(&self.asked, measurer.end_all(sink));
                self.stats.unmeasured += measurer.refused();
            }
            self.measurer = demand.measure.map(|measuring| Measurer::new(measuring, self.config.memory / 4));
        }
        if self.asked.demand.held != demand.held {
            self.held_packets = demand.held.then(|| HeldPackets::new(self.config.memory / 4));
        }
        if self.asked.demand.unidentified != demand.unidentified {
            if let Some(packets) = self.unidentified_packets.take() {
                self.stats.unidentified_packets += packets.emitted();
                self.stats.unidentified_packets_lost += packets.lost();
            }
            self.unidentified_packets =
                demand.unidentified.then(|| UnidentifiedPackets::new(self.config.memory / 4));
        }
        if self.asked.demand.rules != demand.rules {
            let before = self.detection.take();
            if let Some(last) = before.as_ref().filter(|_| demand.rules.is_none()).map(Detection::stats) {
                self.stats.rules_unseen += last.unseen;
                self.stats.rules_given_up += last.given_up;
                self.stats.rules_cut += last.cut;
            }
            self.detection = demand.rules.as_ref().map(|rules| match before {
                Some(mut detection) => {
                    detection.follow(rules);
                    detection
                }
                None => Detection::new(rules, &self.rule_state, rules_share(&self.config)),
            });
            self.streams.take_syns_at_once(syn_at_once(demand));
        }
        if self.asked.demand.own_apps != demand.own_apps {
            self.first_bytes = demand.own_apps.clone().map(FirstBytes::new);
        }
        self.limit = limit(&self.config, demand);
        self.asked = Asked::new(demand, &self.config);
        if was_unread && !self.asked.is_unread() {
            self.pass_over(latest);
        }
    }

    /// Shares announcements of flows, and what rules remember beyond a flow, with other workers from now on.
    pub fn share(&mut self, announcements: Announcements, rules: RuleState) {
        self.announced.share(announcements);
        if let Some(detection) = &mut self.detection {
            detection.share(&rules);
        }
        self.rule_state = rules;
    }

    /// Knows the flows that an earlier pass over the same packets has decided. Call it before the first packet.
    pub fn know(&mut self, known: Arc<DecidedFlows>) {
        if let Some(held) = &mut self.held_packets {
            held.know(known);
        }
    }

    /// Reads no flow that began at that time or before.
    pub fn pass_over(&mut self, time: Time) {
        self.since = Time(time.0.saturating_add(1));
    }

    /// See [`Worker::look_ahead`](crate::Worker::look_ahead).
    pub fn look_ahead(&mut self, batch: Batch<'_>, layers: &[Layers], end: u32) {
        if self.asked.reads_payload {
            self.announced.look_ahead(batch, layers, end);
        }
    }

    /// See [`Worker::looks_again`](crate::Worker::looks_again).
    pub fn looks_again(&mut self) -> bool {
        self.announced.looks_again()
    }

    /// Prefetches the state of the flows of those rows, so that their memory reads overlap.
    pub fn ahead(&mut self, rows: impl Iterator<Item = u32>) {
        let touched = rows.fold(0, |touched, row| {
            let session = self.entry(row).and_then(|entry| entry.session.as_ref());
            let with_payload = session.map_or(0, Session::touch);
            let measured = self.measurer.as_ref().map_or(0, |measurer| measurer.touch(row));
            touched ^ self.streams.touch(row) ^ with_payload ^ measured
        });
        self.touched ^= touched;
    }

    /// Takes a packet that was counted to a flow.
    pub fn packet(&mut self, seen: &FlowPacket<'_>, tap: &mut Tap<'_>) {
        self.allowances.receive(seen.packet.data.len());
        if let Some(measurer) = &mut self.measurer {
            self.stats.records += handed_on(&self.asked, measurer.packet(seen, tap));
        }
        if seen.layers.within != 0 {
            self.detect_outer(seen, tap);
        }
        if let Some(detection) = &mut self.detection {
            detection.sees(seen);
        }
        if self.asks_oddities() {
            let named = self.named(seen.row);
            let (odd_packets, mut anomalies) = self.anomalies(tap);
            odd_packets.packet(seen, |record| anomalies.of_packet(seen, named, record));
        }
        if self.asked.reads_payload {
            self.packet = seen.packet.number;
            self.announced.begin(self.packet);
            self.read(seen, tap);
            self.announced.end();
            self.packet = 0;
        }
        self.detect(seen, Detection::packet, tap);
        if let Some(held) = &mut self.held_packets {
            let session = self.entries.get(seen.row).and_then(Option::as_ref);
            let session = session.and_then(|entry| entry.session.as_ref());
            let arrived = session.map_or(0, |session| session.arrived(seen.direction));
            let carried = held::carried(seen, arrived, &self.streams);
            held.packet(seen, carried, &mut tap.functions.decisions, &tap.plan.writes, tap.sink);
        }
        let Some(packets) = &mut self.unidentified_packets else { return };
        let session = self.entries.get(seen.row).and_then(Option::as_ref);
        let found = session
            .and_then(|entry| entry.session.as_ref())
            .map(|session| (session.is_unidentified(), session.found().next().is_some()));
        packets.packet(seen, found, &tap.plan.whole.unidentified, tap.sink);
    }

    /// What is known of the protocols of the flow of a row, if there are rules.
    fn named(&self, row: u32) -> Named {
        if self.detection.is_some() { self.parsed(row).named() } else { Named::default() }
    }

    /// What is odd about packets, and its way.
    fn anomalies<'w>(&'w mut self, sink: &'w mut dyn Sink) -> (&'w mut OddPackets, Anomalies<'w>) {
        let Self { odd_packets, detection, allowances, asked, stats, .. } = self;
        (odd_packets, Anomalies { detection: detection.as_mut(), allowances, asked, stats, sink })
    }

    /// Looks at a packet with rules.
    fn detect(
        &mut self,
        seen: &FlowPacket<'_>,
        look: impl FnOnce(&mut Detection, &FlowPacket<'_>, Named),
        tap: &mut Tap<'_>,
    ) {
        let named = self.named(seen.row);
        let Self { detection: Some(detection), allowances, stats, .. } = self else { return };
        look(detection, seen, named);
        let (place, number) = (Place::of(seen, named), seen.packet.number);
        let mut emit = |record: weir_proto::Record<'_>| {
            allowances.emit(&seen.flow, weir_proto::Record { packet: number, ..record }, stats, tap);
        };
        detection.alerts(&place, &mut emit);
        detection.release(&mut emit);
        detection.is_read();
    }

    /// Looks with rules at the packets that carry this one in tunnels.
    fn detect_outer(&mut self, seen: &FlowPacket<'_>, tap: &mut Tap<'_>) {
        let Self { detection: Some(detection), allowances, stats, .. } = self else { return };
        for layers in carriers(seen) {
            detection.outer_packet(seen.packet, &layers, |flow, record| {
                let record = weir_proto::Record { packet: seen.packet.number, ..record };
                allowances.emit(flow, record, stats, tap);
            });
        }
    }

    /// Whether a session reads the packet's flow, or will begin to.
    fn is_parsed(&mut self, seen: &FlowPacket<'_>, plan: &Plan) -> bool {
        if self.asked.is_unread() {
            return false;
        }
        if let Some(entry) = self.entry(seen.row) {
            let wants =
                || self.first_bytes.as_ref().is_some_and(|first| first.wants(seen.row, seen.direction));
            // Rules look at streams of any protocol, and of none.
            let is_detected = self.detection.as_ref().is_some_and(Detection::reads_streams);
            return entry.session.as_ref().is_some_and(|session| !session.is_unidentified() || wants())
                || is_detected;
        }
        // A flow that is skipped, or that nothing had to be known of, stays so: a parser cannot begin in the middle of a flow.
        let may_begin = seen.flow.first >= self.since
            && !self.refused.contains(seen.row)
            && !self.unread.contains(seen.row);
        if may_begin && !plan.read.is_all() && plan.read.of(&seen.flow, &mut self.found) == Reading::Nothing {
            self.unread.insert(seen.row);
            return false;
        }
        may_begin
    }

    /// Whether the stream of the packet's flow is read.
    fn is_read(&mut self, seen: &FlowPacket<'_>, plan: &Plan) -> bool {
        let is_otherwise = self.is_parsed(seen, plan);
        if !self.asked.demand.streams {
            return is_otherwise;
        }
        let Covered { now, before } = self.stream_demand.covers(seen.row, &seen.flow, plan);
        if now != before && !is_otherwise {
            // What waits here is from before a pause, or has no reader any more.
            self.streams.end(seen.row, seen.packet.time, |_| ());
        }
        is_otherwise || now
    }

    fn read(&mut self, seen: &FlowPacket<'_>, tap: &mut Tap<'_>) {
        if !self.is_read(seen, tap.plan) {
            return;
        }
        let others = self.held
            + self.entries.memory()
            + self.stream_demand.memory()
            + self.defrag.memory()
            + self.announced.memory()
            + self.allowances.files.memory()
            + self.odd.memory()
            + self.odd_packets.memory()
            + self.held_packets.as_ref().map_or(0, HeldPackets::memory)
            + self.first_bytes.as_ref().map_or(0, FirstBytes::memory);
        if let Some(segment) = seen.segment() {
            // Held packets get a share of the remaining memory, and a small share in any case.
            let others = others + self.streams.memory() - self.streams.stats().held as usize;
            let left = self.limit.saturating_sub(others);
            self.streams.set_memory(left.min(self.limit / STREAM_PART).max(self.limit / MIN_PART));
            let waiting = self.streams.stats().held as usize;
            let is_full = others + waiting >= self.admitted();
            let room = self.limit.saturating_sub(others - self.held + waiting);
            let (streams, mut feed) = self.feed(seen.row, is_full, room, Some((seen, segment.data)), tap);
            streams.segment(seen.row, &segment, |chunk| feed.chunk(seen.row, &seen.flow, &chunk));
        } else if let Some(data) = seen.datagram().filter(|data| !data.is_empty()) {
            let chunk = Chunk { time: seen.packet.time, direction: seen.direction, gap: 0, data };
            let is_full = others + self.streams.memory() >= self.admitted();
            let room = self.limit.saturating_sub(others - self.held + self.streams.memory());
            let (_, mut feed) = self.feed(seen.row, is_full, room, Some((seen, data)), tap);
            feed.chunk(seen.row, &seen.flow, &chunk);
        }
    }

    /// The streams, and the way of the chunks of a row to its session and to functions. `is_full`: whether there is no room
    /// for another flow; `room`: bytes that sessions may hold; `read`: the packet that is read, with its payload.
    fn feed<'w, 't>(
        &'w mut self,
        row: u32,
        is_full: bool,
        room: usize,
        read: Option<(&FlowPacket<'w>, &'w [u8])>,
        tap: &'w mut Tap<'t>,
    ) -> (&'w mut Streams, SessionFeed<'w, 't>) {
        let Self {
            streams,
            entries,
            refused,
            unread,
            announcing,
            found,
            announced,
            allowances,
            asked,
            held,
            first_bytes,
            detection,
            stats,
            packet,
            ..
        } = self;
        let (packet, since) = (*packet, self.since);
        let covering = if asked.demand.streams { self.stream_demand.of(row) } else { &[] };
        let feed = SessionFeed {
            entries,
            refused,
            unread,
            announcing,
            found,
            announced,
            allowances,
            asked,
            held,
            first_bytes: first_bytes.as_mut(),
            detection: detection.as_mut(),
            is_full,
            room,
            stats,
            packet,
            payload: read.map(|(_, payload)| payload).unwrap_or_default(),
            seen: read.map(|(seen, _)| Seen::of(seen.packet, seen.layers)),
            since,
            covering,
            tap,
        };
        (streams, feed)
    }

    /// Bytes above which no new flow is inspected: waiting data keeps its minimum part.
    fn admitted(&self) -> usize {
        self.limit - self.limit / MIN_PART
    }

    /// Ends a tick at `now` for all parts.
    pub fn tick(&mut self, now: Time, tap: &mut Tap<'_>) {
        if let Some(measurer) = &mut self.measurer {
            self.stats.records += handed_on(&self.asked, measurer.tick(now, tap));
        }
        self.decide(tap);
    }

    /// Follows the decisions of functions over records that were not made with a packet.
    pub fn decide(&mut self, tap: &mut Tap<'_>) {
        if let Some(held) = &mut self.held_packets {
            held.decide(&mut tap.functions.decisions, &tap.plan.writes, tap.sink);
        }
    }

    /// Writes the packets of the flow of a row, which functions at flow level have decided. `is_over`: no more packets follow.
    pub fn leave(
        &mut self,
        row: u32,
        functions: &[AnswerId],
        is_over: bool,
        plan: &Plan,
        sink: &mut dyn Sink,
    ) {
        let Some(held) = &mut self.held_packets else { return };
        functions.iter().for_each(|id| held.write(row, *id, &plan.writes, sink));
        if is_over {
            held.end(row);
        }
    }

    /// Whether [`Sessions::odd`] is to be called.
    pub fn asks_oddities(&self) -> bool {
        self.asked.anomalies
    }

    /// Takes a segment that is odd: each oddity of a flow is one record.
    pub fn odd(&mut self, odd: &OddSegment, sink: &mut dyn Sink) {
        let oddities = self.odd.tell(odd);
        if oddities.is_empty() {
            return;
        }
        let named = self.named(odd.row);
        let (_, mut anomalies) = self.anomalies(sink);
        for name in oddities.names() {
            let place = Place {
                is_outer: false,
                row: Some(odd.row),
                flow: &odd.flow,
                named,
                time: odd.time,
                packet: None,
            };
            anomalies.take(&place, odd_segment(name, odd.direction, odd.time));
        }
    }

    /// Takes a tunnel directly over IP that was found or has ended.
    pub fn tunnel(&mut self, tunnel: &IpTunnel, sink: &mut dyn Sink) {
        if self.asked.parses
            && let Some(record) = tunnels::over_ip(tunnel)
        {
            self.stats.records += 1;
            sink.take(Emitted::Record(&tunnel.identity, record, &[]));
        }
    }

    /// Takes a flow that has ended, or was cut: it may be a tunnel over UDP.
    pub fn carrier(&mut self, flow: &FlowRecord, sink: &mut dyn Sink) {
        if self.asked.parses
            && let Some((identity, records)) = tunnels::over_udp(flow)
        {
            for record in records {
                self.stats.records += 1;
                sink.take(Emitted::Record(&identity, record, &[]));
            }
        }
    }

    /// Takes a packet of a flow whose checksum is wrong: it is not read. Rules look at it alone.
    pub fn wrong_checksum(&mut self, seen: &FlowPacket<'_>, tap: &mut Tap<'_>) {
        if let Some(detection) = &mut self.detection {
            detection.sees_unread(seen);
        }
        if self.asks_oddities() {
            let named = self.named(seen.row);
            let (odd_packets, mut anomalies) = self.anomalies(tap);
            odd_packets.wrong_checksum(seen, |record| anomalies.of_packet(seen, named, record));
        }
        self.detect(seen, Detection::unread_packet, tap);
    }

    /// Takes a packet whose IPv4 header has a wrong checksum: it is of no flow.
    pub fn wrong_header(&mut self, packet: &Packet<'_>, layers: &Layers, sink: &mut dyn Sink) {
        if self.asks_oddities() {
            let (odd_packets, mut anomalies) = self.anomalies(sink);
            odd_packets.wrong_header(packet, layers, |flow, record| {
                anomalies.of_no_flow(flow, Seen::of(packet, layers), packet.time, record);
            });
        }
    }

    /// Takes a fragment. If it completes a packet, [`Sessions::take_whole`] returns the packet.
    pub fn fragment(&mut self, packet: &Packet<'_>, layers: &Layers, sink: &mut dyn Sink) {
        if let Some((packet, layers)) = self.defrag.fragment(packet, layers) {
            let (packets, all) = self.whole.get_or_insert_default();
            packets.push(&packet);
            all.push(layers);
        }
        if self.asks_oddities() {
            let beside = self.defrag.odd();
            let (odd_packets, mut anomalies) = self.anomalies(sink);
            odd_packets.fragment(packet, layers, beside, |flow, record| {
                anomalies.of_no_flow(flow, Seen::of(packet, layers), packet.time, record);
            });
        }
    }

    /// Returns the reassembled packets, with their layers.
    pub fn take_whole(&mut self) -> Option<(PacketBuf, Vec<Layers>)> {
        self.whole.take()
    }

    /// The findings about the flow of a row so far.
    pub fn found(&self, row: u32) -> Found {
        let judged = self.detection.as_ref().map(|detection| detection.judged(row)).unwrap_or_default();
        Found { judged, ..self.parsed(row) }
    }

    /// What the parser of a row has found so far.
    fn parsed(&self, row: u32) -> Found {
        self.entry(row).and_then(|entry| entry.session.as_ref()).map(found).unwrap_or_default()
    }

    /// Ends the flow of a row: its parser emits what it has begun. Returns the findings.
    pub fn end(&mut self, row: u32, time: Time, flow: &dyn Fn() -> FlowIdentity, tap: &mut Tap<'_>) -> Found {
        if let Some(measurer) = &mut self.measurer {
            self.stats.records += handed_on(&self.asked, measurer.end(row, tap));
        }
        // A flow of which all bytes waited for others has no entry yet.
        let mut identity = self.entry(row).map(|entry| entry.compact.identity());
        // What it takes is released at once, so that it needs no room.
        let (streams, mut feed) = self.feed(row, false, usize::MAX, None, tap);
        streams.end(row, time, |chunk| feed.chunk(row, identity.get_or_insert_with(flow), &chunk));
        let wants = self.asked.wants_of(!self.announcing.contains(row));
        let ended = self.entries.get_mut(row).and_then(Option::take);
        let found = ended
            .zip(identity)
            .map(|(mut entry, identity)| self.end_entry(row, &mut entry, wants, &identity, time, tap));
        let mut found: Found = found.unwrap_or_default();
        found.own_apps = self.first_bytes.as_mut().map_or(0, |first| first.end(row));
        self.refused.remove(row);
        self.unread.remove(row);
        self.announcing.remove(row);
        self.announced.end_flow(row);
        self.stream_demand.end(row);
        self.odd.end(row);
        self.odd_packets.end(row);
        // A flow without payload has no entry that ends.
        if let Some(detection) = &mut self.detection {
            found.judged = detection.forget(row);
        }
        if let Some(packets) = &mut self.unidentified_packets {
            packets.end(row, found.is_unidentified, &tap.plan.whole.unidentified, tap.sink);
        }
        self.decide(tap);
        found
    }

    /// Ends the input: no more packets follow.
    pub fn finish(&mut self) {
        self.defrag.finish();
    }

    fn end_entry(
        &mut self,
        row: u32,
        entry: &mut Entry,
        wants: Wants,
        identity: &FlowIdentity,
        time: Time,
        tap: &mut Tap<'_>,
    ) -> Found {
        self.held -= entry.held as usize;
        let Some(session) = &mut entry.session else { return Found::default() };
        let mut emitter = RecordEmitter {
            named: found(session).named(),
            // No packet is read: the flow announces nothing to other hosts.
            row: u32::MAX,
            payload: &[],
            seen: None,
            identity,
            announced: &mut self.announced,
            allowances: &mut self.allowances,
            stats: &mut self.stats,
            asked: &self.asked,
            packet: 0,
            time,
            detection: self.detection.as_mut().map(|detection| (detection, row)),
            tap,
        };
        session.end(time, &|| setup(identity, wants), &mut emitter);
        let found = found(session);
        emitter.end_detection(found.named());
        self.allowances.files.end(identity);
        self.stats.unidentified += u64::from(found.is_unidentified);
        self.stats.identified += u64::from(!found.is_unidentified);
        found
    }

    /// Bytes of memory that sessions, streams and fragments take.
    pub fn memory(&self) -> usize {
        self.held
            + self.entries.memory()
            + self.stream_demand.memory()
            + self.defrag.memory()
            + self.announced.memory()
            + self.allowances.files.memory()
            + self.odd.memory()
            + self.odd_packets.memory()
            + self.held_packets.as_ref().map_or(0, HeldPackets::memory)
            + self.first_bytes.as_ref().map_or(0, FirstBytes::memory)
            + self.detection.as_ref().map_or(0, Detection::memory)
            + self.streams.memory()
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> SessionStats {
        let of_rules = self.detection.as_ref().map(Detection::stats).unwrap_or_default();
        SessionStats {
            rules_unseen: self.stats.rules_unseen + of_rules.unseen,
            rules_given_up: self.stats.rules_given_up + of_rules.given_up,
            rules_cut: self.stats.rules_cut + of_rules.cut,
            expectation_expired: self.announced.in_vain(),
            unidentified_packets: self.stats.unidentified_packets
                + self.unidentified_packets.as_ref().map_or(0, UnidentifiedPackets::emitted),
            unidentified_packets_lost: self.stats.unidentified_packets_lost
                + self.unidentified_packets.as_ref().map_or(0, UnidentifiedPackets::lost),
            unmeasured: self.stats.unmeasured + self.measurer.as_ref().map_or(0, Measurer::refused),
            streams: self.streams.stats(),
            fragments: self.defrag.stats(),
            ..self.stats
        }
    }

    fn entry(&self, row: u32) -> Option<&Entry> {
        self.entries.get(row)?.as_deref()
    }
}

/// Limit of sessions and streams together, in bytes: measurements, packets of unidentified flows and packets that functions may
/// write take a quarter each, and rules an eighth. Sessions come first.
fn limit(config: &SessionConfig, demand: &Demand) -> usize {
    let others = [demand.measure.is_some(), demand.unidentified, demand.held];
    let parts = 4 - others.into_iter().filter(|is_asked| *is_asked).count();
    config.memory / 4 * parts - demand.rules.as_ref().map_or(0, |_| rules_share(config))
}

/// Limit of what rules know of flows, in bytes.
fn rules_share(config: &SessionConfig) -> usize {
    config.memory / 8
}

fn found(session: &Session) -> Found {
    let mut services = [0; 4];
    for (place, protocol) in services.iter_mut().zip(session.places()) {
        *place = protocol;
    }
    let [first, ..] = services;
    let is_unidentified = first == 0 && session.is_unidentified();
    Found { services, is_unidentified, ..Found::default() }
}

/// Passes chunks of flows to their sessions and to functions.
struct SessionFeed<'w, 't> {
    entries: &'w mut Rows<Option<Box<Entry>>>,
    refused: &'w mut Refused,
    unread: &'w Refused,
    announcing: &'w mut Refused,
    found: &'w mut Vec<(u32, Directions)>,
    announced: &'w mut Announced,
    allowances: &'w mut Allowances,
    asked: &'w Asked,
    held: &'w mut usize,
    first_bytes: Option<&'w mut FirstBytes>,
    detection: Option<&'w mut Detection>,
    /// Whether there is no room for another flow.
    is_full: bool,
    /// Bytes that sessions may hold.
    room: usize,
    stats: &'w mut SessionStats,
    /// Number of the packet that is being read, and its payload.
    packet: u32,
    payload: &'w [u8],
    seen: Option<Seen<'w>>,
    /// Flows that begin before this time are not parsed, unless they are parsed already.
    since: Time,
    /// The subscriptions whose functions see the stream.
    covering: &'w [Covering],
    tap: &'w mut Tap<'t>,
}

impl SessionFeed<'_, '_> {
    fn chunk(&mut self, row: u32, flow: &FlowIdentity, chunk: &Chunk<'_>) {
        self.tap.chunk(self.covering, flow, chunk);
        let Some(place) = self.entries.make(row) else { return };
        let entry = match place {
            Some(entry) => entry,
            None => {
                if self.refused.contains(row) {
                    return;
                }
                if self.asked.is_unread() || flow.first < self.since || self.unread.contains(row) {
                    if !self.is_full {
                        let entry = Entry::unread(flow);
                        *self.held += entry.held as usize;
                        *place = Some(Box::new(entry));
                    }
                    return;
                }
                self.stats.with_payload += 1;
                if self.is_full {
                    self.stats.skipped += 1;
                    self.refused.insert(row);
                    return;
                }
                self.stats.sessions += 1;
                let is_whole = self.tap.plan.read.of(flow, self.found) == Reading::Whole;
                if !is_whole {
                    self.announcing.insert(row);
                }
                let session = match self.announced.take(flow, chunk.time) {
                    Some(expected) => Session::expected(expected, self.asked.wants_of(is_whole)),
                    None => Session::new(),
                };
                place.insert(Box::new(Entry {
                    compact: CompactIdentity::of(flow),
                    session: Some(session),
                    held: 0,
                    uncounted: 0,
                }))
            }
        };
        let Entry { compact, session, held, uncounted } = &mut **entry;
        let Some(session) = session else { return };
        if let Some(first) = &mut self.first_bytes {
            first.chunk(row, chunk);
        }
        // Rules look at streams of any protocol, and of none.
        if session.is_unidentified() && *held > 0 && self.detection.is_none() {
            return;
        }
        let (identity, wants) = (compact.identity(), self.asked.wants_of(!self.announcing.contains(row)));
        let mut emitter = RecordEmitter {
            named: if self.detection.is_some() { found(session).named() } else { Named::default() },
            row,
            payload: self.payload,
            seen: self.seen,
            identity: &identity,
            announced: self.announced,
            allowances: self.allowances,
            stats: self.stats,
            asked: self.asked,
            packet: self.packet,
            time: chunk.time,
            detection: self.detection.as_deref_mut().map(|detection| (detection, row)),
            tap: self.tap,
        };
        if let Some((detection, row)) = &mut emitter.detection {
            detection.stream(*row, &identity, chunk);
        }
        let did_announce = session.may_announce();
        session.chunk(chunk, &|| setup(&identity, wants), &mut emitter);
        emitter.detect(found(session).named(), chunk);
        if did_announce || session.may_announce() {
            emitter.announced.follow(row, &identity, session.may_announce(), self.payload);
        }
        *uncounted = uncounted.saturating_add(chunk.data.len() as u32);
        if *held > COUNTED && *uncounted < *held / 16 && !session.is_unidentified() {
            return;
        }
        *uncounted = 0;
        let before = *held as usize;
        let mut now = session.memory() + compact.memory() + ENTRY;
        if now > before && *self.held + now - before > self.room {
            // The flow grows and there is no room. Flows that do not grow continue.
            session.stop(chunk.time, &mut emitter);
            self.stats.stopped += 1;
            now = session.memory() + compact.memory() + ENTRY;
        }
        *self.held = *self.held + now - before;
        *held = u32::try_from(now).unwrap_or(u32::MAX);
    }
}

/// Bytes of an inspected flow without its parser, including the allocator's overhead.
const ENTRY: usize = size_of::<Entry>() + 32;
/// Up to this number of bytes, the memory of a parser is counted after each chunk. A parser that holds more has a list
/// of entries, and counting takes time: it is counted again after it has received more payload.
const COUNTED: u32 = 4096;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_flow_identities_convert_back_unchanged() {
        assert!(size_of::<Entry>() <= 128, "{}", size_of::<Entry>());
        let mapped = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last];
        let addr = [mapped(1), mapped(2)];
        let v4 = FlowIdentity {
            key: FlowKey { addr, port: [80, 4000], space: Space::default().tagged(7), proto: 6 },
            initiator_is_lower: false,
            first: Time(42),
            vlan: [7, 8],
            alias: 0,
        };
        let mixed = FlowIdentity { key: FlowKey { addr: [mapped(1), [0x20; 16]], ..v4.key }, ..v4 };
        let named = FlowIdentity { alias: 9, ..v4 };
        for (identity, is_short) in [(v4, true), (mixed, false), (named, false)] {
            let compact = CompactIdentity::of(&identity);
            assert_eq!((compact.identity(), compact.memory() == 0), (identity, is_short));
        }
    }

    #[test]
    fn refused_rows_are_remembered_until_their_flows_end() {
        let mut refused = Refused::default();
        refused.remove(5);
        for row in [3, 64, 1_000_000] {
            refused.insert(row);
        }
        refused.remove(64);
        let identified = [0, 3, 64, 65, 1_000_000, 2_000_000].map(|row| refused.contains(row));
        assert_eq!(identified, [false, true, false, false, true, false]);
    }
}
