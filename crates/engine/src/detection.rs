//! Rules over the flows of a worker: the state of each flow, and the way from matches to records of alerts.

use crate::outer_flows::{OuterFlows, tunnel};
use crate::watched::{Judged, Latest, Watched, last};
use crate::{FlowIdentity, RuleState};
use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use weir_detect::{
    Action, AlertsOfPacket, Anomaly, Detector, EventOf, FlowState, Judging, Match, MatchedIn, Moment,
    Onlooker, Program, Seen, Verdicts,
};
use weir_flow::{FlowPacket, Rows};
use weir_proto::{Alert, AlertPlace, AlertSide, AlertTunnel, AlertValue, Buffer, PROTOCOLS, Record, Value};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Layers, LinkType, Packet, Time};

/// Rules of a run, in the form in which flows are looked at. Plans with this value have equal rules.
#[derive(Clone, Debug)]
pub struct Rules {
    program: Arc<Program>,
    with_payload: bool,
    judging: Judging,
    onlooker: Option<Onlooker>,
}

impl Rules {
    /// The rules of a program. Alerts have no payload.
    pub fn new(program: Program) -> Self {
        Self { program: Arc::new(program), with_payload: false, judging: Judging::default(), onlooker: None }
    }

    /// Whether alerts have the payload in which their rule matched, and the packet. Packets and the latest bytes of streams are
    /// copied for them.
    pub fn with_payload(self, with_payload: bool) -> Self {
        Self { with_payload, ..self }
    }

    /// How flows are judged. The order of actions is that with which the program was made.
    pub fn judged_by(self, judging: Judging) -> Self {
        Self { judging, ..self }
    }

    /// How flows are judged.
    pub fn judging(&self) -> &Judging {
        &self.judging
    }

    /// Lets someone look on while these rules are tried.
    pub fn watched_by(self, onlooker: Onlooker) -> Self {
        Self { onlooker: Some(onlooker), ..self }
    }

    /// The buffers that are looked at, and of the protocols that have some of these, those that alerts have.
    pub(crate) fn buffers(&self) -> Vec<&'static Buffer> {
        let mut buffers = self.program.buffers().to_vec();
        let protocol = |name: &'static str| name.split('.').next().unwrap_or(name);
        let known: Vec<&str> = buffers.iter().map(|buffer| protocol(buffer.name)).collect();
        let of_alerts = weir_proto::buffers()
            .filter(|buffer| Alert::BUFFERS.contains(&buffer.name) && known.contains(&protocol(buffer.name)));
        let of_alerts: Vec<_> = of_alerts.filter(|buffer| !buffers.contains(buffer)).collect();
        buffers.extend(of_alerts);
        buffers
    }

    /// Whether alerts of rules that drop or refuse say that these have blocked.
    fn blocks(&self) -> bool {
        self.judging.verdicts == Verdicts::Inline
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.program, &other.program)
            && self.with_payload == other.with_payload
            && self.judging == other.judging
    }
}

impl Eq for Rules {}

/// The packet that is read. Its bytes are there if alerts have payload.
#[derive(Default)]
struct Shown {
    is_there: bool,
    link: LinkType,
    data: Vec<u8>,
    payload: Range<usize>,
}

impl Shown {
    fn show(&mut self, packet: &Packet<'_>, layers: &Layers) {
        let data = packet.data.get(..Alert::PACKET).unwrap_or(packet.data);
        self.link = packet.link;
        self.data.clear();
        self.data.extend_from_slice(data);
        let (from, length) = (layers.payload as usize, layers.payload_of(data).len());
        self.payload = from..from.saturating_add(length);
    }

    fn payload(&self) -> &[u8] {
        self.data.get(self.payload.clone()).unwrap_or_default()
    }
}

/// What was known of its flow when a rule matched. It goes on to change while the packet is read.
struct Known<'a> {
    time: Time,
    /// What alerts have of the transaction: the side, the buffer and its value.
    values: Vec<(Direction, &'static str, Cow<'a, [u8]>)>,
    sides: [AlertSide; 2],
    tunnel: Option<AlertTunnel>,
    /// The latest bytes of the stream of TCP in which it matched; `None` if it matched in a packet.
    stream: Option<Cow<'a, [u8]>>,
}

impl<'a> Known<'a> {
    fn of(found: &Match, place: &Place<'_>, watched: Option<&'a Watched>) -> Self {
        let state = watched.map(|watched| &watched.state).zip(found.transaction);
        let values = state.into_iter().flat_map(|(state, number)| state.values(number));
        let values = values.filter(|(_, buffer, _)| Alert::BUFFERS.contains(buffer));
        let is_turned = watched.is_some_and(|watched| watched.is_turned);
        let [initiator, responder] = watched.map(|watched| &watched.latest).unwrap_or(&NO_STREAM);
        let is_of_stream = found.matched_in != MatchedIn::Packet && place.flow.key.proto == TCP;
        let latest = || last(&of_side(found.direction, initiator, responder).0);
        Self {
            time: place.time,
            values: values
                .map(|(side, buffer, value)| (turned_if(is_turned, side), buffer, value.into()))
                .collect(),
            sides: watched.map(|watched| watched.sides).unwrap_or_default(),
            tunnel: watched.and_then(|watched| {
                let [initiator, responder] = &watched.tunnels;
                *of_side(found.direction, initiator, responder)
            }),
            stream: is_of_stream.then(|| latest().into()),
        }
    }

    /// As it is now, whatever becomes of the flow.
    fn kept(self) -> Known<'static> {
        let owned = |bytes: Cow<'a, [u8]>| Cow::Owned(bytes.into_owned());
        let values = self.values.into_iter().map(|(side, buffer, value)| (side, buffer, owned(value)));
        let (values, stream) = (values.collect(), self.stream.map(owned));
        Known { time: self.time, values, sides: self.sides, tunnel: self.tunnel, stream }
    }
}

/// The detector of a worker, and what it knows of flows.
pub(crate) struct Detection {
    detector: Detector,
    flows: Rows<Option<Box<Watched>>>,
    /// The flows of packets that carry others.
    outer: OuterFlows,
    /// Whether alerts have payload.
    with_payload: bool,
    /// Whether alerts of rules that drop or refuse say that these have blocked.
    blocks: bool,
    packet: Shown,
    /// The alerts that wait for the end of their packet, if there is a limit of these.
    waiting: Option<AlertsOfPacket<Known<'static>>>,
    /// Bytes of the flows.
    held: usize,
    /// Limit of these bytes.
    limit: usize,
    /// Packets of flows without room.
    unseen: u64,
}

/// What rules did not look at or decide.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DetectionStats {
    /// Packets of flows without room.
    pub unseen: u64,
    /// Parts of rules whose tests a limit of steps ended.
    pub given_up: u64,
    /// Values and states that a limit of their flow left out or truncated.
    pub cut: u64,
}

/// What is known of the protocols of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Named {
    /// Those that were found so far, as in [`crate::FlowRecord::services`].
    pub services: [u8; 4],
    /// Whether none is searched for any more, since the flow has none that is known.
    pub is_unidentified: bool,
}

/// When and where something of a flow is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Whether it is an outer packet of one in tunnels: `flow` is its own.
    pub is_outer: bool,
    /// The row of the flow; `None` for a packet of no flow.
    pub row: Option<u32>,
    pub flow: &'a FlowIdentity,
    pub named: Named,
    pub time: Time,
    /// The packet that is read, if one is.
    pub packet: Option<Seen<'a>>,
}

/// An address in its own version of IP.
fn plain((address, port): (IpAddr, u16)) -> (IpAddr, u16) {
    (address.to_canonical(), port)
}

impl<'a> Place<'a> {
    /// The place of a packet.
    pub fn of(seen: &'a FlowPacket<'a>, named: Named) -> Self {
        Self {
            is_outer: false,
            row: Some(seen.row),
            flow: &seen.flow,
            named,
            time: seen.packet.time,
            packet: Some(Seen::of(seen.packet, seen.layers)),
        }
    }

    /// What rules see of it. In a flow that is turned, the responder is the client.
    fn moment(&self, direction: Direction, is_turned: bool) -> Moment<'_> {
        let (mut initiator, mut responder) = (self.flow.initiator(), self.flow.responder());
        if is_turned {
            std::mem::swap(&mut initiator, &mut responder);
        }
        Moment {
            time: self.time,
            direction: turned_if(is_turned, direction),
            initiator: plain(initiator),
            responder: plain(responder),
            ip_proto: self.flow.key.proto,
            protocols: self.named.services,
            is_unidentified: self.named.is_unidentified,
            first: self.flow.first,
            packet: self.packet,
        }
    }
}

impl Detection {
    /// A detector of these rules, with what they remember beyond a flow, and a limit of its memory in bytes.
    pub fn new(rules: &Rules, state: &RuleState, limit: usize) -> Self {
        let mut detector = Detector::new(Arc::clone(&rules.program));
        state.give_to(&mut detector);
        detector.judge_by(&rules.judging);
        detector.watched_by(rules.onlooker.clone());
        Self {
            detector,
            flows: Rows::default(),
            outer: OuterFlows::default(),
            with_payload: rules.with_payload,
            blocks: rules.blocks(),
            packet: Shown::default(),
            waiting: rules.judging.alerts_per_packet.map(AlertsOfPacket::new),
            held: 0,
            limit,
            unseen: 0,
        }
    }

    /// Shares with other workers what rules remember beyond a flow.
    pub fn share(&mut self, state: &RuleState) {
        state.give_to(&mut self.detector);
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> DetectionStats {
        let stats = self.detector.stats();
        DetectionStats { unseen: self.unseen, given_up: stats.gave_up, cut: stats.no_room }
    }

    /// Follows other rules from now on. Flows keep what is known of rules that stay.
    pub fn follow(&mut self, rules: &Rules) {
        self.detector.follow(Arc::clone(&rules.program));
        self.detector.judge_by(&rules.judging);
        self.detector.watched_by(rules.onlooker.clone());
        self.with_payload = rules.with_payload;
        self.blocks = rules.blocks();
        self.waiting = rules.judging.alerts_per_packet.map(AlertsOfPacket::new);
    }

    /// Whether streams are read beyond what their parsers want.
    pub fn reads_streams(&self) -> bool {
        self.detector.program().reads_streams()
    }

    /// Lets the detector look at what a side of a flow has sent, and accounts the memory of the flow. A flow without room is not
    /// looked at.
    fn look(
        &mut self,
        place: &Place<'_>,
        side: Direction,
        look: impl FnOnce(&mut Detector, &mut FlowState, &Moment<'_>),
    ) {
        self.watch(place.row, |detector, watched| {
            look(detector, &mut watched.state, &place.moment(side, watched.is_turned));
        });
    }

    fn watch(&mut self, row: impl Into<Option<u32>>, look: impl FnOnce(&mut Detector, &mut Watched)) {
        let Some(row) = row.into() else { return };
        if self.watched(row).is_none() {
            return;
        }
        let Some(watched) = self.flows.get_mut(row).and_then(Option::as_mut) else { return };
        look(&mut self.detector, watched);
        let held = watched.memory();
        self.held = (self.held + held).saturating_sub(watched.held);
        watched.held = held;
    }

    /// The flow of a row, which is watched from now on; `None` without room.
    fn watched(&mut self, row: u32) -> Option<&mut Watched> {
        let place = self.flows.make(row)?;
        if place.is_none() {
            if self.held >= self.limit {
                return None;
            }
            let watched = Watched::new();
            self.held += watched.held;
            *place = Some(watched);
        }
        place.as_deref_mut()
    }

    /// Takes note of a packet, before its payload is read.
    pub fn sees(&mut self, seen: &FlowPacket<'_>) {
        let packet = Seen::of(seen.packet, seen.layers);
        if let Some(watched) = self.begins(seen) {
            Detector::sees(&mut watched.state, turned_if(watched.is_turned, seen.direction), &packet);
        }
    }

    /// Takes note of a packet that is not read: the state of its flow does not depend on it.
    pub fn sees_unread(&mut self, seen: &FlowPacket<'_>) {
        self.begins(seen);
    }

    /// Begins with a packet. Returns its flow, if there is room for it.
    fn begins(&mut self, seen: &FlowPacket<'_>) -> Option<&mut Watched> {
        self.packet.is_there = true;
        self.detector.at_packet(Some(seen.packet.number));
        if self.with_payload {
            self.packet.show(seen.packet, seen.layers);
        }
        // What is noted of a packet takes no memory beyond that of the flow, so that it is accounted once.
        if self.watched(seen.row).is_none() {
            self.unseen += 1;
        }
        let watched = self.watched(seen.row)?;
        let [initiator, responder] = &mut watched.sides;
        let side = of_side(seen.direction, initiator, responder);
        side.packets += 1;
        side.bytes += u64::from(seen.packet.wire_len);
        if seen.layers.within != 0 {
            let [initiator, responder] = &mut watched.tunnels;
            let side = of_side(seen.direction, initiator, responder);
            if side.is_none() {
                *side = tunnel(seen);
            }
        }
        Some(watched)
    }

    /// Takes note that the packet was read: what is found from now on is found at the end of a flow.
    pub fn is_read(&mut self) {
        self.packet.is_there = false;
        self.detector.at_packet(None);
    }

    /// Takes the next bytes of a stream, before they are read.
    pub fn stream(&mut self, row: u32, flow: &FlowIdentity, chunk: &Chunk<'_>) {
        if self.with_payload && flow.key.proto == TCP {
            self.watch(row, |_, watched| {
                let [initiator, responder] = &mut watched.latest;
                of_side(chunk.direction, initiator, responder).add(chunk);
            });
        }
    }

    /// Looks at a packet, after its payload was read.
    pub fn packet(&mut self, seen: &FlowPacket<'_>, named: Named) {
        let place = Place::of(seen, named);
        self.look(&place, seen.direction, |detector, state, moment| detector.packet(state, moment));
    }

    /// Looks at a packet that is not read.
    pub fn unread_packet(&mut self, seen: &FlowPacket<'_>, named: Named) {
        let place = Place::of(seen, named);
        self.look(&place, seen.direction, |detector, state, moment| detector.unread_packet(state, moment));
    }

    /// Looks at a packet that carries the next one in a tunnel, and emits its alerts: it is a packet of its own to rules, as in
    /// Suricata. Without room it is not looked at.
    pub fn outer_packet(
        &mut self,
        packet: &Packet<'_>,
        layers: &Layers,
        mut emit: impl FnMut(&FlowIdentity, Record<'_>),
    ) {
        let Some((flow, direction)) = self.outer.flow(packet, layers, &mut self.held, self.limit) else {
            self.unseen += 1;
            return;
        };
        self.packet.is_there = true;
        self.detector.at_packet(Some(packet.number));
        if self.with_payload {
            self.packet.show(packet, layers);
        }
        let seen = Some(Seen::of(packet, layers));
        let (named, time) = (Named::default(), packet.time);
        let place = Place { is_outer: true, row: None, flow: &flow, named, time, packet: seen };
        let moment = place.moment(direction, false);
        let detector = &mut self.detector;
        self.outer.look(&flow.key, &mut self.held, |watched| {
            let [initiator, responder] = &mut watched.sides;
            let side = of_side(direction, initiator, responder);
            side.packets += 1;
            side.bytes += u64::from(packet.wire_len);
            Detector::sees(&mut watched.state, direction, &Seen::of(packet, layers));
            detector.packet(&mut watched.state, &moment);
        });
        self.alerts(&place, |record| emit(&flow, record));
        self.release(|record| emit(&flow, record));
        self.is_read();
    }

    /// Looks at the next bytes of a stream.
    pub fn chunk(&mut self, place: &Place<'_>, chunk: &Chunk<'_>) {
        if place.flow.key.proto == TCP && self.reads_streams() {
            self.look(place, chunk.direction, |detector, state, moment| detector.chunk(state, moment, chunk));
        }
    }

    /// Takes a value or a piece of a buffer.
    pub fn buffer(&mut self, place: &Place<'_>, side: Direction, buffer: &'static Buffer, bytes: &[u8]) {
        self.look(place, side, |detector, state, moment| detector.buffer(state, moment, buffer, bytes));
    }

    /// Takes note that the buffers of a side belong to this transaction from now on.
    pub fn transaction(&mut self, row: u32, side: Direction, number: u64) {
        self.watch(row, |_, watched| {
            Detector::transaction(&mut watched.state, turned_if(watched.is_turned, side), number);
        });
    }

    /// Looks at the buffers of a side.
    pub fn complete(&mut self, place: &Place<'_>, side: Direction) {
        if place.row.and_then(|row| self.flows.get(row)).is_some_and(Option::is_some) {
            self.look(place, side, |detector, state, moment| detector.complete(state, moment));
        }
    }

    /// Looks at an anomaly. The packet of `place` is the one that has it.
    pub fn event(&mut self, place: &Place<'_>, record: &Record<'_>) {
        if !self.detector.program().reads_events() {
            return;
        }
        let Some((side, anomaly)) = anomaly(record) else { return };
        if place.row.is_some() {
            self.look(place, side, |detector, state, moment| detector.event(state, moment, &anomaly));
            return;
        }
        // Nothing is remembered of packets of no flow.
        self.detector.at_packet(Some(record.packet));
        self.detector.event(&mut FlowState::default(), &place.moment(side, false), &anomaly);
        self.detector.at_packet(None);
    }

    /// Looks at what is left of a flow that ends.
    pub fn end(&mut self, place: &Place<'_>) {
        if place.row.and_then(|row| self.flows.get(row)).is_some_and(Option::is_some) {
            self.look(place, Direction::Forward, |detector, state, moment| detector.end(state, moment));
        }
    }

    /// Takes note that the client of a flow is its responder, before anything is emitted that says so. As in Suricata, a flow
    /// of which a SYN was seen stays as it is.
    pub fn turn(&mut self, row: u32) {
        self.watch(row, |_, watched| {
            if !watched.is_turned && !watched.state.has_begun() {
                watched.is_turned = true;
                watched.state.turn();
            }
        });
    }

    /// What rules have made of the flow of a row so far.
    pub fn judged(&self, row: u32) -> Judged {
        let watched = self.flows.get(row).and_then(Option::as_deref);
        watched.map(Watched::judged).unwrap_or_default()
    }

    /// Forgets the flow of a row, which has ended. Returns what rules have made of it.
    pub fn forget(&mut self, row: u32) -> Judged {
        let Some(watched) = self.flows.get_mut(row).and_then(Option::take) else { return Judged::default() };
        self.held = self.held.saturating_sub(watched.held);
        watched.judged()
    }

    /// Whether a packet of a flow is read.
    pub fn is_reading(&self) -> bool {
        self.packet.is_there
    }

    /// Emits the alerts since it was called last. If the alerts of a packet have a limit, these wait for [`Self::release`].
    pub fn alerts(&mut self, place: &Place<'_>, mut emit: impl FnMut(Record<'_>)) {
        let mut all: Vec<Match> = self.detector.take().collect();
        if all.is_empty() {
            return;
        }
        let Self { flows, outer, .. } = self;
        let watched = match place.is_outer {
            true => outer.get_mut(&place.flow.key),
            false => place.row.and_then(|row| flows.get_mut(row)).and_then(Option::as_deref_mut),
        };
        if let Some(watched) = watched {
            watched.alerted = true;
            all.iter_mut().for_each(|found| found.direction = turned_if(watched.is_turned, found.direction));
        }
        let watched = match place.is_outer {
            true => self.outer.get(&place.flow.key),
            false => place.row.and_then(|row| self.flows.get(row)).and_then(Option::as_deref),
        };
        let known = |found: &Match| Known::of(found, place, watched);
        match &mut self.waiting {
            None => all.iter().for_each(|found| self.emit(found, &known(found), &mut emit)),
            Some(waiting) => {
                for found in all {
                    if let Some(dropped) = waiting.add(found, || known(&found).kept()) {
                        self.detector.keep_back(&dropped);
                    }
                }
            }
        }
    }

    /// Emits the alerts that have waited for the end of their packet, or of their flow.
    pub fn release(&mut self, mut emit: impl FnMut(Record<'_>)) {
        let Some(waiting) = &mut self.waiting else { return };
        let all: Vec<_> = waiting.take().collect();
        all.iter().for_each(|(found, known)| self.emit(found, known, &mut emit));
    }

    fn emit(&self, found: &Match, known: &Known<'_>, emit: &mut impl FnMut(Record<'_>)) {
        let Some(rule) = self.detector.program().rules.get(found.rule as usize) else { return };
        let with_packet = self.with_payload && self.packet.is_there;
        let values = known.values.iter();
        let values: Vec<_> =
            values.map(|(side, buffer, value)| AlertValue { side: *side, buffer, value }).collect();
        let alert = Alert {
            buffers: &values,
            at_end: !self.packet.is_there,
            sides: known.sides,
            tunnel: known.tunnel,
            payload: match &known.stream {
                Some(stream) => stream,
                None if with_packet => self.packet.payload(),
                None => b"",
            },
            packet: with_packet.then_some((self.packet.link, &*self.packet.data)),
            ..rule_and_match(rule, found, self.blocks)
        };
        emit(alert.record(known.time));
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.held + self.flows.memory() + self.outer.memory() + self.packet.data.capacity()
    }
}

const TCP: u8 = 6;

/// The anomaly of a record of the table, and the side that it is of.
fn anomaly<'r>(record: &'r Record<'_>) -> Option<(Direction, Anomaly<'r>)> {
    let text = |name: &str| match record.get(name) {
        Value::Text(text) => std::str::from_utf8(text).ok(),
        _ => None,
    };
    let of = match text("type")? {
        "applayer" => EventOf::Message,
        "decode" => EventOf::Packet,
        _ => EventOf::Stream,
    };
    let transaction = match record.get("transaction") {
        Value::Uint(number) => Some(*number),
        _ => None,
    };
    let is_reverse = *record.get("reverse") == true.into();
    let side = if is_reverse { Direction::Reverse } else { Direction::Forward };
    Some((side, Anomaly { of, protocol: text("protocol")?, name: text("event")?, transaction }))
}

/// The streams of a flow of which nothing is kept.
static NO_STREAM: [Latest; 2] = [const { Latest(Vec::new()) }; 2];

/// A direction of a flow as the direction from client to server or back, and the other way.
fn turned_if(is_turned: bool, direction: Direction) -> Direction {
    if is_turned { direction.opposite() } else { direction }
}

/// The part of the side that sends.
fn of_side<T>(sender: Direction, initiator: T, responder: T) -> T {
    match sender {
        Direction::Forward => initiator,
        Direction::Reverse => responder,
    }
}

/// What an alert has of its rule and of its match.
fn rule_and_match<'r>(rule: &'r weir_detect::ProgramRule, found: &Match, blocks: bool) -> Alert<'r> {
    let protocol = usize::from(found.protocol).checked_sub(1).and_then(|at| PROTOCOLS.get(at));
    let of_rule = rule.rule();
    Alert {
        action: match of_rule.header.action {
            Action::Drop | Action::Reject | Action::RejectDestination | Action::RejectBoth if blocks => {
                "blocked"
            }
            _ => "allowed",
        },
        gid: of_rule.gid,
        sid: of_rule.sid,
        rev: of_rule.rev,
        message: &of_rule.message,
        category: &rule.category,
        severity: rule.severity,
        references: &of_rule.references,
        metadata: &of_rule.metadata,
        direction: found.direction,
        app_proto: protocol.map(|protocol| protocol.name),
        transaction: found.transaction,
        buffers: &[],
        place: match found.matched_in {
            MatchedIn::Packet => AlertPlace::Packet,
            MatchedIn::Stream => AlertPlace::Stream,
            MatchedIn::Transaction => AlertPlace::Transaction,
        },
        at_end: false,
        sides: [AlertSide::default(); 2],
        tunnel: None,
        payload: b"",
        packet: None,
    }
}
