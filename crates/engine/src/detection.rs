//! Rules over the flows of a worker: the state of each flow, and the way from matches to records of alerts.

use crate::FlowIdentity;
use std::net::IpAddr;
use std::sync::Arc;
use weir_detect::{Anomaly, Detector, EventOf, FlowState, Match, MatchedIn, Moment, Program, Seen};
use weir_flow::{FlowPacket, Rows};
use weir_proto::{Alert, AlertPlace, Buffer, PROTOCOLS, Record, Value};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Rules of a run, in the form in which flows are looked at. Plans with this value have equal rules.
#[derive(Clone, Debug)]
pub struct Rules(Arc<Program>);

impl Rules {
    /// The rules of a program.
    pub fn new(program: Program) -> Self {
        Self(Arc::new(program))
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.0
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Rules {}

/// A flow that rules look at.
#[derive(Default)]
struct Watched {
    state: FlowState,
    /// Bytes of memory accounted to it.
    held: usize,
}

/// The detector of a worker, and what it knows of flows.
pub(crate) struct Detection {
    detector: Detector,
    flows: Rows<Option<Box<Watched>>>,
    /// Bytes of the flows.
    held: usize,
    /// Limit of these bytes.
    limit: usize,
}

/// When and where something of a flow is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The row of the flow; `None` for a packet of no flow.
    pub row: Option<u32>,
    pub flow: &'a FlowIdentity,
    /// The protocols that were found so far, as in [`crate::FlowRecord::services`].
    pub services: [u8; 4],
    pub time: Time,
}

/// An address in its own version of IP.
fn plain((address, port): (IpAddr, u16)) -> (IpAddr, u16) {
    (address.to_canonical(), port)
}

impl Place<'_> {
    fn moment<'p>(&self, direction: Direction, packet: Option<Seen<'p>>) -> Moment<'p> {
        Moment {
            time: self.time,
            direction,
            initiator: plain(self.flow.initiator()),
            responder: plain(self.flow.responder()),
            ip_proto: self.flow.key.proto,
            protocols: self.services,
            first: self.flow.first,
            packet,
        }
    }
}

impl Detection {
    /// A detector of these rules, with a limit of its memory in bytes.
    pub fn new(rules: &Rules, limit: usize) -> Self {
        Self { detector: Detector::new(Arc::clone(&rules.0)), flows: Rows::default(), held: 0, limit }
    }

    /// Follows other rules from now on. Flows keep what is known of rules that stay.
    pub fn follow(&mut self, rules: &Rules) {
        self.detector.follow(Arc::clone(&rules.0));
    }

    /// Whether streams are read beyond what their parsers want.
    pub fn reads_streams(&self) -> bool {
        self.detector.program().reads_streams()
    }

    /// Lets the detector look at a flow, and accounts its memory. A flow without room is not looked at.
    fn look(&mut self, row: impl Into<Option<u32>>, look: impl FnOnce(&mut Detector, &mut FlowState)) {
        let Some(place) = row.into().and_then(|row| self.flows.make(row)) else { return };
        if place.is_none() && self.held >= self.limit {
            return;
        }
        let watched = place.get_or_insert_default();
        look(&mut self.detector, &mut watched.state);
        let held = size_of::<Watched>() + watched.state.memory();
        self.held = (self.held + held).saturating_sub(watched.held);
        watched.held = held;
    }

    /// Takes note of a packet, before its payload is read.
    pub fn sees(&mut self, seen: &FlowPacket<'_>) {
        let packet = Seen { data: seen.packet.data, layers: seen.layers };
        self.look(seen.row, |_, state| Detector::sees(state, seen.direction, &packet));
    }

    /// Looks at a packet, after its payload was read.
    pub fn packet(&mut self, seen: &FlowPacket<'_>, services: [u8; 4]) {
        let place = Place { row: Some(seen.row), flow: &seen.flow, services, time: seen.packet.time };
        let moment = place.moment(seen.direction, Some(Seen { data: seen.packet.data, layers: seen.layers }));
        self.look(seen.row, |detector, state| detector.packet(state, &moment));
    }

    /// Looks at the next bytes of a stream.
    pub fn chunk(&mut self, place: &Place<'_>, chunk: &Chunk<'_>) {
        if place.flow.key.proto == TCP && self.reads_streams() {
            let moment = place.moment(chunk.direction, None);
            self.look(place.row, |detector, state| detector.chunk(state, &moment, chunk));
        }
    }

    /// Takes a value or a piece of a buffer.
    pub fn buffer(&mut self, place: &Place<'_>, side: Direction, buffer: &'static Buffer, bytes: &[u8]) {
        let moment = place.moment(side, None);
        self.look(place.row, |detector, state| detector.buffer(state, &moment, buffer, bytes));
    }

    /// Takes note that the buffers of a side belong to this transaction from now on.
    pub fn transaction(&mut self, row: u32, side: Direction, number: u64) {
        self.look(row, |_, state| Detector::transaction(state, side, number));
    }

    /// Looks at the buffers of a side.
    pub fn complete(&mut self, place: &Place<'_>, side: Direction) {
        if place.row.and_then(|row| self.flows.get(row)).is_some_and(Option::is_some) {
            let moment = place.moment(side, None);
            self.look(place.row, |detector, state| detector.complete(state, &moment));
        }
    }

    /// Looks at an anomaly. `packet` is the one that has it, if it is known.
    pub fn event(&mut self, place: &Place<'_>, packet: Option<Seen<'_>>, record: &Record<'_>) {
        if !self.detector.program().reads_events() {
            return;
        }
        let Some((side, anomaly)) = anomaly(record) else { return };
        let moment = place.moment(side, packet);
        match place.row {
            Some(row) => self.look(row, |detector, state| detector.event(state, &moment, &anomaly)),
            // Nothing is remembered of packets of no flow.
            None => self.detector.event(&mut FlowState::default(), &moment, &anomaly),
        }
    }

    /// Ends a flow.
    pub fn end(&mut self, place: &Place<'_>) {
        if let Some(mut watched) = place.row.and_then(|row| self.take(row)) {
            self.detector.end(&mut watched.state, &place.moment(Direction::Forward, None));
        }
    }

    /// Forgets the flow of a row.
    pub fn forget(&mut self, row: u32) {
        self.take(row);
    }

    fn take(&mut self, row: u32) -> Option<Box<Watched>> {
        let watched = self.flows.get_mut(row)?.take()?;
        self.held = self.held.saturating_sub(watched.held);
        Some(watched)
    }

    /// Emits the alerts since it was called last.
    pub fn alerts(&mut self, place: &Place<'_>, mut emit: impl FnMut(Record<'_>)) {
        let program = Arc::clone(self.detector.program());
        for found in self.detector.take() {
            if let Some(rule) = program.rules.get(found.rule as usize) {
                emit(alert(rule, &found, place));
            }
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.held + self.flows.memory()
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

/// The record of a match.
fn alert<'r>(rule: &'r weir_detect::ProgramRule, found: &Match, place: &Place<'_>) -> Record<'r> {
    let protocol = usize::from(found.protocol).checked_sub(1).and_then(|at| PROTOCOLS.get(at));
    let of_rule = rule.rule();
    Alert {
        // Nothing is blocked: what passes is read only.
        action: "allowed",
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
        place: match found.matched_in {
            MatchedIn::Packet => AlertPlace::Packet,
            MatchedIn::Stream => AlertPlace::Stream,
            MatchedIn::Transaction => AlertPlace::Transaction,
        },
        payload: b"",
    }
    .record(place.time)
}
