//! Rules over packets, streams and messages of flows.
//!
//! [`Program`] is made of a [`Ruleset`](crate::Ruleset) once. Each worker has a [`Detector`], and keeps a [`FlowState`] for each
//! flow. The worker shows packets, then the bytes of streams and what parsers emit; the detector gives matches.

mod about;
mod events;
mod explained;
mod fitting;
mod flow_state;
mod groups;
mod handle;
mod hosts;
mod limits;
mod of_user;
mod packet;
mod part;
mod prepared;
mod program;
mod renumbering;
mod shared_state;
mod streams;
mod trial;
mod verdicts;
mod view;

pub use events::Anomaly;
pub use explained::{Explained, FoundBy};
pub use flow_state::FlowState;
pub use packet::Seen;
pub use part::ProgramRule;
pub use program::{Program, ProgramOptions};
pub use shared_state::{SharedState, Turn};
pub use trial::{HeaderPart, Onlooker, RuleCost, Trial, TrialEnd, TrialFlow, Trials};

use crate::buffer::Origin;
use crate::event::EventOf;
use crate::header::Action;
use crate::judging::{Judging, Midstream};
use crate::rule::BufferTests;
use crate::transform::Transform;
use crate::verify::{Memory, Verdict, verify};
use about::{About, is_firm};
use fitting::{condition_fails, differs, fits, is_in_both, is_of_packets, matches_once};
use flow_state::{
    AT_END_OF_FILE, Candidate, DATA_OF_FILE, END_OF_FILE, KIND_OF_FILE, Messages, OF_FILE, Tried, at,
};
use groups::{Group, Met};
use limits::{Judged, has_counts, is_limited};
use part::Part;
use prepared::{Source, class_of, sources};
use program::{BYTE_ORDER, DATA_OF_CALL};
use renumbering::Renumbering;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use trial::{Watching, flow_of};
use view::View;
use weir_proto::PROTOCOLS;
use weir_wire::{Direction, Time};

/// What says that the numbers of a call of DCE/RPC have their least significant byte first.
const LITTLE: (&str, &[u8]) = (BYTE_ORDER, &1_u64.to_be_bytes());

/// Maximum number of programs that a flow follows at once.
const MAX_BEHIND: usize = 64;

/// The circumstances in which something of a flow is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The time.
    pub time: Time,
    /// The side that sends.
    pub direction: Direction,
    /// Address and port of the initiator.
    pub initiator: (IpAddr, u16),
    /// Address and port of the responder.
    pub responder: (IpAddr, u16),
    /// Protocol number of IP.
    pub ip_proto: u8,
    /// The protocols of the flow, as their places in [`PROTOCOLS`] from 1, the first one first; 0 for none.
    pub protocols: [u8; 4],
    /// Whether the flow has no protocol that is known, and none is searched for any more.
    pub is_unidentified: bool,
    /// When the flow began.
    pub first: Time,
    /// The packet that is read, if one is.
    pub packet: Option<Seen<'a>>,
}

impl Moment<'_> {
    fn sender(&self) -> (IpAddr, u16) {
        match self.direction {
            Direction::Forward => self.initiator,
            Direction::Reverse => self.responder,
        }
    }

    fn receiver(&self) -> (IpAddr, u16) {
        match self.direction {
            Direction::Forward => self.responder,
            Direction::Reverse => self.initiator,
        }
    }

    fn has_protocol(&self, place: u8) -> bool {
        self.protocols.contains(&place)
    }

    /// The moment with a protocol before those that it has, if there is one.
    fn with_protocol(&self, place: Option<u8>) -> Self {
        let Some(first) = place else { return *self };
        let others = self.protocols.into_iter().filter(|place| *place != first);
        let mut protocols = [0; 4];
        for (to, from) in protocols.iter_mut().zip(std::iter::once(first).chain(others)) {
            *to = from;
        }
        Self { protocols, ..*self }
    }
}

/// What a rule has matched in.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum MatchedIn {
    /// A packet.
    Packet,
    /// A stream.
    Stream,
    /// Messages of a protocol.
    Transaction,
}

/// A rule that has matched, and makes an alert.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Match {
    /// The position of the rule in [`Program::rules`].
    pub rule: u32,
    /// The number of the transaction, if it was found in one.
    pub transaction: Option<u64>,
    /// The side that sent what it was found in.
    pub direction: Direction,
    /// What it was found in.
    pub matched_in: MatchedIn,
    /// The first protocol of the flow, as its place in [`PROTOCOLS`] from 1; 0 for none.
    pub protocol: u8,
}

/// What a detector has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DetectorStats {
    /// Parts of rules that were verified.
    pub verified: u64,
    /// Parts whose tests held.
    pub held: u64,
    /// Verifications that a limit of steps ended.
    pub gave_up: u64,
    /// Tests that were tried in these verifications, each at each place.
    pub steps: u64,
    /// Bytes that literals and expressions were searched for in these verifications.
    pub searched: u64,
    /// Values and states of flows that had no room.
    pub no_room: u64,
}

/// Looks at flows with the rules of a program.
#[derive(Debug)]
pub struct Detector {
    program: Arc<Program>,
    memory: Memory,
    /// Parts that were found in what is looked at.
    found: Vec<u32>,
    /// Matches since they were taken.
    matches: Vec<Match>,
    groups: Met,
    /// How many programs it had before this one.
    of_program: u32,
    /// The numbers of the latest programs in those that followed them, the last one last.
    renumberings: VecDeque<Arc<Renumbering>>,
    /// Whether a rule lets the packet pass that is looked at.
    is_packet_passed: bool,
    shared: Arc<SharedState>,
    /// The order of packets, if they have one.
    turn: Option<Arc<dyn Turn>>,
    /// The number of the packet that is read; `None` between packets.
    number: Option<u32>,
    judging: Judging,
    stats: DetectorStats,
    watching: Watching,
}

impl Detector {
    /// A detector with this program.
    pub fn new(program: Arc<Program>) -> Self {
        Self {
            program,
            memory: Memory::default(),
            found: Vec::new(),
            matches: Vec::new(),
            groups: Met::default(),
            of_program: 0,
            renumberings: VecDeque::new(),
            is_packet_passed: false,
            shared: Arc::default(),
            turn: None,
            number: None,
            judging: Judging::default(),
            stats: DetectorStats::default(),
            watching: Watching::default(),
        }
    }

    /// Judges flows otherwise from now on.
    pub fn judge_by(&mut self, judging: &Judging) {
        self.judging = *judging;
    }

    /// Its program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Shares with other workers what rules remember beyond a flow. `turn` is the order of packets, if they have one.
    pub fn share(&mut self, shared: Arc<SharedState>, turn: Option<Arc<dyn Turn>>) {
        (self.shared, self.turn) = (shared, turn);
    }

    /// Lets someone look on while rules of this program are tried.
    pub fn watched_by(&mut self, onlooker: Option<Onlooker>) {
        self.watching = Watching::by(onlooker);
    }

    /// Takes note of the packet that is read from now on, by its number; `None`: of none. What is found without one, when a flow
    /// ends, has no place in the order of packets: it does not change what rules remember beyond a flow.
    pub fn at_packet(&mut self, number: Option<u32>) {
        self.number = number;
    }

    fn wait_for_turn(&self) {
        if let Some(turn) = &self.turn {
            turn.wait(self.number);
        }
    }

    /// Follows other rules from now on; the matches so far must have been taken. Flows keep what is known of rules that both programs have: their bits, and the parts that
    /// hold. Counts of thresholds are kept by the gid and the sid of rules.
    pub fn follow(&mut self, program: Arc<Program>) {
        let to = program.renumbering_of(&self.program);
        self.program = program;
        self.groups = Met::default();
        self.of_program = self.of_program.wrapping_add(1);
        self.renumberings.push_back(to);
        if self.renumberings.len() > MAX_BEHIND {
            self.renumberings.pop_front();
        }
    }

    /// Brings what is known of a flow to the numbers of this program. A flow that was not looked at for very many programs forgets it.
    fn bring(&self, state: &mut FlowState) {
        if state.of_program == self.of_program {
            return;
        }
        let behind = self.of_program.wrapping_sub(state.of_program) as usize;
        match self.renumberings.len().checked_sub(behind) {
            Some(known) => self.renumberings.range(known..).for_each(|to| state.renumber(to)),
            None => state.forget_rules(),
        }
        state.of_program = self.of_program;
    }

    /// What it has done.
    pub fn stats(&self) -> DetectorStats {
        self.stats
    }

    /// The matches since they were taken last, in the order in which they were found.
    pub fn take(&mut self) -> impl Iterator<Item = Match> + '_ {
        self.matches.drain(..)
    }

    /// Takes note that a match of the packet that is read makes no alert, because its packet has more important ones.
    pub fn keep_back(&self, found: &Match) {
        let is_it = |trial: &Trial| {
            (trial.packet, trial.transaction, trial.side) == (self.number, found.transaction, found.direction)
        };
        self.watching.keep_back(found.rule, is_it);
    }

    /// Takes note of a packet of a flow, before its payload is read.
    pub fn sees(state: &mut FlowState, direction: Direction, seen: &Seen<'_>) {
        let flags =
            (seen.layers.ip_proto == 6 && seen.layers.has_transport()).then_some(seen.layers.tcp_flags);
        state.sees(direction, flags, seen.layers.payload_len.into());
        if flags.is_some()
            && let Some(tcp) = seen.tcp()
        {
            state.sees_segment(direction, &tcp, seen.layers.payload_len);
        }
    }

    /// Looks at a packet of a flow, after its payload was read: its parser may have named the flow by it.
    pub fn packet(&mut self, state: &mut FlowState, moment: &Moment<'_>) {
        self.look_at_packet(state, moment, true);
    }

    /// Looks at a packet of a flow that is not read: its payload is part of no stream.
    pub fn unread_packet(&mut self, state: &mut FlowState, moment: &Moment<'_>) {
        self.look_at_packet(state, moment, false);
    }

    fn look_at_packet(&mut self, state: &mut FlowState, moment: &Moment<'_>, is_read: bool) {
        self.bring(state);
        let Some(seen) = moment.packet else { return };
        self.is_packet_passed = false;
        self.watching.explain_header(moment, self.number, |rule| differs(&self.program, rule, moment));
        let scope = state.scope(moment.ip_proto == 6, &self.judging);
        if state.is_over(self.number) || scope == Midstream::Nothing {
            return;
        }
        // What is not read as a stream has no protocol.
        let nameless = Moment { protocols: [0; 4], is_unidentified: false, ..*moment };
        let moment = if scope == Midstream::Packets { &nameless } else { moment };
        let program = Arc::clone(&self.program);
        let payload = seen.payload();
        // Hosts take the bytes of a SYN with Fast Open alone: others are looked at as a packet's.
        let is_alone = seen.is_syn() && !seen.asks_for_fast_open();
        if is_alone && is_read {
            state.shows_syn(moment.direction, payload.len());
        }
        let is_read = is_read && !is_alone;
        let mut found = std::mem::take(&mut self.found);
        if !payload.is_empty() {
            let source = Source::Packets(class_of(moment.ip_proto), moment.direction);
            let group = group_of(&program, &mut self.groups, state, moment);
            let views = group.map_or(&[][..], |group| &group.packets);
            find(&program, views, source, moment, (payload, true), &mut found);
            if moment.ip_proto == 6 && (!is_read || scope == Midstream::Packets) {
                let views = group.map_or(&[][..], |group| &group.streams);
                let source = Source::Streams(moment.direction);
                find(&program, views, source, moment, (payload, true), &mut found);
                found.retain(|part| is_of_packets(&program, *part));
            }
        }
        let side = at(moment.direction);
        let fitting = state.fitting.get_mut(side).and_then(Option::take).unwrap_or_else(|| {
            let fits = |part: &&u32| {
                program.parts.get(**part as usize).is_some_and(|part| fits(&program, part, moment))
            };
            program.of_packets.iter().filter(fits).copied().collect()
        });
        found.extend_from_slice(&fitting);
        if let Some(place) = state.fitting.get_mut(side) {
            *place = Some(fitting);
        }
        in_order(&mut found);
        for part in found.drain(..) {
            let holds = |detector: &mut Self, one: &Part| {
                let known = program.rules.get(one.rule as usize);
                known.is_some_and(|known| detector.packet_holds(known, &one.tests, &seen))
            };
            self.try_part(&program, part, state, moment, MatchedIn::Packet, holds);
        }
        self.found = found;
        if is_read && moment.ip_proto == 6 {
            self.end_stream(state, moment);
        }
    }

    /// Tries a part in a packet or in a window of a stream: its rule matches if all that it asks for holds.
    fn try_part(
        &mut self,
        program: &Program,
        part: u32,
        state: &mut FlowState,
        moment: &Moment<'_>,
        looked_at: MatchedIn,
        holds: impl FnOnce(&mut Self, &Part) -> bool,
    ) {
        let Some(one) = program.parts.get(part as usize) else { return };
        if let Some((cost, _)) = self.watching.cost(one.rule) {
            cost.found += 1;
        }
        let end = match self.closed_by(program, one, state, moment) {
            None if !fits(program, one, moment) => return,
            None if self.tests_hold(one, holds) => {
                self.part_holds(program, part, None, state, moment, looked_at)
            }
            None => self.failure(),
            // What is none of the rule's business is not shown to who looks on.
            Some(end) if self.watching.rule().is_none() || fits(program, one, moment) => end,
            Some(_) => return,
        };
        self.ended(one.rule, end, None, moment, looked_at);
    }

    /// Whether the tests of a part hold, with their costs.
    fn tests_hold(&mut self, part: &Part, holds: impl FnOnce(&mut Self, &Part) -> bool) -> bool {
        let begin = self.watching.cost(part.rule).map(|(_, clock)| clock());
        let does_hold = holds(self, part);
        if let Some(begin) = begin
            && let Some((cost, clock)) = self.watching.cost(part.rule)
        {
            cost.verified += 1;
            cost.held += u64::from(does_hold);
            cost.nanoseconds += clock().saturating_sub(begin);
        }
        does_hold
    }

    /// What failed last.
    fn failure(&mut self) -> TrialEnd {
        self.watching.failure.take().unwrap_or(TrialEnd::Waits)
    }

    /// Takes note of how a trial ended.
    fn ended(
        &mut self,
        rule: u32,
        end: TrialEnd,
        transaction: Option<u64>,
        moment: &Moment<'_>,
        looked_at: MatchedIn,
    ) {
        if end.is_match()
            && let Some((cost, _)) = self.watching.cost(rule)
        {
            cost.matched += 1;
        }
        let (side, time, packet) = (moment.direction, moment.time, self.number);
        let flow = || flow_of(moment);
        self.watching.keep(rule, || Trial { flow: flow(), side, time, packet, transaction, looked_at, end });
    }

    /// Whether tests of a rule hold for a packet. `tests` are their positions in [`Rule::buffers`](crate::Rule::buffers).
    fn packet_holds(&mut self, rule: &ProgramRule, tests: &[u16], seen: &Seen<'_>) -> bool {
        self.memory.begin(rule.rule().variables.len());
        tests_of(rule, tests).all(|(at, of)| {
            let header;
            let bytes = match of.buffer.origin {
                Origin::Header => match seen.header(of.buffer) {
                    Some(bytes) => {
                        header = bytes;
                        &*header
                    }
                    None => return self.may_miss(at, of),
                },
                _ => seen.payload(),
            };
            self.holds((at, of), bytes, rule.decoded())
        })
    }

    /// Takes note that the buffers of a side belong to this transaction from now on.
    pub fn transaction(state: &mut FlowState, side: Direction, number: u64) {
        if let Some(place) = state.transactions.get_mut(at(side)) {
            *place = number;
        }
    }

    /// Takes a value of a buffer of messages, or the next piece of a body.
    pub fn buffer(
        &mut self,
        state: &mut FlowState,
        moment: &Moment<'_>,
        buffer: &'static weir_proto::Buffer,
        bytes: &[u8],
    ) {
        if !self.reads(state, moment) {
            return;
        }
        self.bring(state);
        let side = at(moment.direction);
        let transaction = state.transactions.get(side).copied().unwrap_or_default();
        let is_other = |messages: &Messages| messages.number != transaction;
        if state.messages.get(side).and_then(Option::as_deref).is_some_and(is_other) {
            self.end_messages(state, moment);
        }
        let Some(place) = state.messages.get_mut(side) else { return };
        let messages = place.get_or_insert_default();
        if messages.number != transaction {
            **messages = Messages::of(transaction);
        }
        if !bytes.is_empty() && messages.begins_file(buffer.name) {
            messages.forget_file();
            // A rule may match in each file: at its end if it asks for something that is known only there.
            let program = &self.program;
            let begun: &[&str] = if buffer.name == END_OF_FILE { &AT_END_OF_FILE } else { &OF_FILE };
            let is_of_file = |part: u32| {
                program.parts.get(part as usize).is_some_and(|part| program.reads_any(part, begun))
            };
            for candidate in messages.candidates.iter_mut().filter(|candidate| is_of_file(candidate.part)) {
                candidate.tried = Tried::Fails;
            }
        }
        match buffer.is_stream {
            // The head of a message is complete with its other values, a body by itself.
            true => {
                let is_body = buffer.name.ends_with("_body") || buffer.name == DATA_OF_FILE;
                let is_http = buffer.name.starts_with("http.") || is_body && messages.is_of("http.");
                let limit = self.judging.bodies.get(side).copied().filter(|_| is_http);
                if messages.add_piece(buffer.name, bytes, limit.unwrap_or(Judging::BODY)) && is_body {
                    self.complete(state, moment);
                }
            }
            false => {
                self.stats.no_room += u64::from(!messages.add(buffer.name, bytes));
                // A message goes on after its files.
                if buffer.name == KIND_OF_FILE {
                    self.complete(state, moment);
                }
            }
        }
    }

    /// Looks at what waits of the messages of a side, which get no further values.
    fn end_messages(&mut self, state: &mut FlowState, moment: &Moment<'_>) {
        if let Some(messages) = state.messages.get_mut(at(moment.direction)).and_then(Option::as_mut) {
            messages.end_bodies();
        }
        self.complete(state, moment);
    }

    /// The moment with the protocol of messages: their parser emits before the flow is named. Values of buffers that no rule reads
    /// are passed over.
    fn with_protocol<'a>(&self, moment: &Moment<'a>, messages: &Messages) -> Moment<'a> {
        let protocol_of = |(buffer, _)| self.program.protocol_of(buffer, moment.ip_proto);
        moment.with_protocol(messages.new_values().find_map(protocol_of))
    }

    /// Looks at the buffers of a side that came since it was called last: its message has no further ones, but for a body.
    pub fn complete(&mut self, state: &mut FlowState, moment: &Moment<'_>) {
        self.bring(state);
        let side = at(moment.direction);
        let Some(mut messages) =
            state.messages.get_mut(side).and_then(|place| place.take_if(|messages| messages.has_new()))
        else {
            return;
        };
        let program = Arc::clone(&self.program);
        let moment = &self.with_protocol(moment, &messages);
        let mut found = std::mem::take(&mut self.found);
        let mut new: Vec<&str> = Vec::new();
        for (name, value) in messages.new_values() {
            if !new.contains(&name) {
                new.push(name);
            }
            for view in program.views(Source::Buffer(name, moment.direction)) {
                let bytes = Transform::all(&view.transforms, value);
                view.find(&bytes, true, |part| found.push(part));
            }
        }
        in_order(&mut found);
        let mut candidates = std::mem::take(&mut messages.candidates);
        let fits =
            |part: &u32| program.parts.get(*part as usize).is_some_and(|part| fits(&program, part, moment));
        candidates.extend(found.drain(..).filter(fits).map(|part| Candidate { part, tried: Tried::NotYet }));
        self.found = found;
        // What was tried before comes first.
        candidates.sort_unstable();
        candidates.dedup_by_key(|candidate| candidate.part);
        // The end of a file repeats its beginning, which was looked at.
        let ends_file = messages.ends_file();
        let not_of_files = new.iter().copied().filter(|name| ends_file && !OF_FILE.contains(name));
        let not_of_files: Vec<&str> = not_of_files.collect();
        for candidate in &mut candidates {
            let Some(one) = program.parts.get(candidate.part as usize) else { continue };
            let is_repeated =
                ends_file && program.reads_any(one, &OF_FILE) && !program.reads_any(one, &AT_END_OF_FILE);
            // Tests that failed fail again for the same values.
            let is_tried = match candidate.tried {
                Tried::Holds => true,
                _ if is_repeated => !program.reads_any(one, &not_of_files),
                Tried::Fails => !program.reads_any(one, &new),
                Tried::NotYet => false,
            };
            if is_tried {
                continue;
            }
            if let Some((cost, _)) = self.watching.cost(one.rule) {
                cost.found += 1;
            }
            let transaction = Some(messages.number);
            let end = match self.closed_by(&program, one, state, moment) {
                Some(end) => end,
                None => {
                    candidate.tried = Tried::Fails;
                    let holds =
                        |detector: &mut Self, one: &Part| detector.messages_hold(&program, one, &messages);
                    match self.tests_hold(one, holds) {
                        true => {
                            candidate.tried = Tried::Holds;
                            let looked_at = MatchedIn::Transaction;
                            self.part_holds(&program, candidate.part, transaction, state, moment, looked_at)
                        }
                        false => self.failure(),
                    }
                }
            };
            self.ended(one.rule, end, transaction, moment, MatchedIn::Transaction);
        }
        messages.candidates = candidates;
        messages.are_looked_at();
        if let Some(place) = state.messages.get_mut(side) {
            *place = Some(messages);
        }
    }

    /// Whether the tests of a part hold for the buffers of messages.
    fn messages_hold(&mut self, program: &Program, part: &Part, messages: &Messages) -> bool {
        let Some(rule) = program.rules.get(part.rule as usize) else { return false };
        self.memory.begin(rule.rule().variables.len());
        tests_of(rule, &part.tests).all(|(at, of)| {
            if of.buffer.name == DATA_OF_CALL {
                self.memory.set_order(messages.values().any(|value| value == LITTLE));
            }
            let mut is_there = false;
            for name in sources(of.buffer) {
                for (_, value) in messages.values().filter(|(known, _)| known == name) {
                    is_there = true;
                    if self.holds((at, of), value, rule.decoded()) {
                        return true;
                    }
                }
            }
            !is_there && self.may_miss(at, of)
        })
    }

    /// Looks at something odd that a side has sent.
    pub fn event(&mut self, state: &mut FlowState, moment: &Moment<'_>, anomaly: &Anomaly<'_>) {
        let program = Arc::clone(&self.program);
        let parts = program.events(anomaly, moment.direction, moment.initiator.0.is_ipv4());
        let is_shown = match anomaly.of {
            EventOf::Message => self.reads(state, moment),
            EventOf::Packet | EventOf::Stream => !state.is_over(self.number),
        };
        if parts.is_empty() || !is_shown {
            return;
        }
        self.bring(state);
        let in_transaction = state.transactions.get(at(moment.direction)).copied();
        let (transaction, matched_in) = match anomaly.of {
            EventOf::Message => (anomaly.transaction.or(in_transaction), MatchedIn::Transaction),
            EventOf::Packet => (None, MatchedIn::Packet),
            EventOf::Stream => (None, MatchedIn::Stream),
        };
        // Its parser emits before the flow is named.
        let of_message = |_: &u8| anomaly.of == EventOf::Message;
        let named = PROTOCOLS.iter().position(|protocol| protocol.name == anomaly.protocol);
        let moment = &moment.with_protocol(named.map(|at| at as u8 + 1).filter(of_message));
        for part in parts {
            let Some(one) = program.parts.get(part as usize) else { continue };
            let end = match self.closed_by(&program, one, state, moment) {
                None if !fits(&program, one, moment) => continue,
                None => self.part_holds(&program, part, transaction, state, moment, matched_in),
                Some(end) if self.watching.rule().is_none() || fits(&program, one, moment) => end,
                Some(_) => continue,
            };
            self.ended(one.rule, end, transaction, moment, matched_in);
        }
    }

    /// Ends a flow: what waits of its streams is looked at. `moment` has any direction.
    pub fn end(&mut self, state: &mut FlowState, moment: &Moment<'_>) {
        self.bring(state);
        for direction in [Direction::Forward, Direction::Reverse] {
            let moment = Moment { direction, packet: None, ..*moment };
            self.flush(state, &moment);
            self.end_messages(state, &moment);
        }
    }

    /// Whether the tests of a buffer hold for a value of it.
    fn holds(&mut self, (at, of): (u16, &BufferTests), value: &[u8], decoded: Option<&BufferTests>) -> bool {
        self.stats.verified += 1;
        let bytes = Transform::all(&of.transforms, value);
        let verdict = verify(of, &bytes, decoded, &mut self.memory);
        self.stats.steps += u64::from(self.memory.steps());
        self.stats.searched += self.memory.searched();
        let gave_up = verdict == Verdict::GaveUp;
        if verdict == Verdict::Yes {
            self.stats.held += 1;
            return true;
        }
        self.stats.gave_up += u64::from(gave_up);
        self.watching.failure =
            Some(TrialEnd::Test { buffer: at, test: self.memory.furthest() as u16, gave_up });
        false
    }

    /// Whether a buffer that is not there may be missing.
    fn may_miss(&mut self, at: u16, of: &BufferTests) -> bool {
        self.watching.failure = Some(TrialEnd::Missing(at));
        !is_firm(of)
    }

    /// What of the state of the flow does not allow a part's rule to match now.
    fn closed_by(
        &self,
        program: &Program,
        part: &Part,
        state: &FlowState,
        moment: &Moment<'_>,
    ) -> Option<TrialEnd> {
        let known = program.rules.get(part.rule as usize)?;
        if state.is_over(self.number) || self.is_packet_passed && part.about == About::Packet {
            return Some(TrialEnd::Passed);
        }
        let is_in_stream = part.about == About::Stream || self.judging.each_segment;
        if is_in_stream && is_in_both(known, moment) && state.is_done(part.rule, moment.direction) {
            return Some(TrialEnd::Done);
        }
        if !known.protocol.is_none_or(|protocol| moment.has_protocol(protocol)) {
            return Some(TrialEnd::Protocol);
        }
        let wanted = known.rule().flow.is_established;
        let is_established = || state.is_established(moment.ip_proto == 6, &self.judging);
        wanted.is_some_and(|wanted| wanted != is_established()).then_some(TrialEnd::Established)
    }

    /// Takes note that a part holds, and matches its rule if the others do, too.
    fn part_holds(
        &mut self,
        program: &Program,
        part: u32,
        transaction: Option<u64>,
        state: &mut FlowState,
        moment: &Moment<'_>,
        matched_in: MatchedIn,
    ) -> TrialEnd {
        let Some(one) = program.parts.get(part as usize) else { return TrialEnd::Waits };
        let Some(known) = program.rules.get(one.rule as usize) else { return TrialEnd::Waits };
        if known.parts == 1 || known.is_alternative {
            return self.matches(program, one.rule, transaction, state, moment, matched_in);
        }
        self.stats.no_room += u64::from(!state.hold(transaction, part));
        // The parts of a rule follow each other.
        let before = program.parts.get(..part as usize).unwrap_or_default();
        let first = part - before.iter().rev().take_while(|other| other.rule == one.rule).count() as u32;
        let all = first..first + u32::from(known.parts);
        let transactions: Vec<Option<u64>> = match transaction {
            Some(_) => vec![transaction],
            None => all.clone().flat_map(|other| state.transactions_of(other)).collect(),
        };
        let mut end = TrialEnd::Waits;
        for transaction in transactions {
            let is_held = |other: u32| {
                let is_of_messages = program
                    .parts
                    .get(other as usize)
                    .is_some_and(|other| matches!(other.about, About::Messages(_) | About::Event));
                state.holds(if is_of_messages { transaction } else { None }, other)
            };
            if all.clone().all(is_held) {
                state.forget(transaction, all.clone());
                end = self.matches(program, one.rule, transaction, state, moment, matched_in);
            }
        }
        end
    }

    /// Matches a rule whose tests hold, if its conditions hold, too.
    fn matches(
        &mut self,
        program: &Program,
        number: u32,
        transaction: Option<u64>,
        state: &mut FlowState,
        moment: &Moment<'_>,
        matched_in: MatchedIn,
    ) -> TrialEnd {
        let Some(known) = program.rules.get(number as usize) else { return TrialEnd::Waits };
        let rule = known.rule();
        if let Some(end) = condition_fails(known, state, moment).or_else(|| self.headers_fail(known, moment))
        {
            return end;
        }
        if !rule.host_bits.is_empty() {
            self.wait_for_turn();
            if !self.shared.bits_hold(rule, moment) {
                return TrialEnd::HostBits;
            }
        }
        if is_in_both(known, moment) || matches_once(rule) {
            // The bytes of packets come again in the stream.
            let is_once = matches_once(rule) || matched_in == MatchedIn::Stream || self.judging.each_segment;
            let is_done = state.is_done(number, moment.direction);
            if is_done && is_once {
                return TrialEnd::Done;
            }
            // A rule that could match again for each packet does not match at all.
            if !is_done && !state.finish(number, moment.direction) {
                self.stats.no_room += 1;
                return TrialEnd::NoRoom;
            }
        }
        let has_room = state.change_bits(&known.bits) & state.change_ints(&rule.flow_ints);
        self.stats.no_room += u64::from(!has_room);
        if !rule.host_bits.is_empty() && self.number.is_some() {
            self.stats.no_room += u64::from(!self.shared.change_bits(rule, moment));
        }
        self.carry_out(rule, state, matched_in);
        if rule.header.action == Action::Pass && (rule.is_silent || !self.judging.carries_out()) {
            return TrialEnd::Passes;
        }
        if rule.is_silent {
            return TrialEnd::Silent;
        }
        if !self.becomes_alert(known, moment) {
            return TrialEnd::Limited;
        }
        let [protocol, ..] = moment.protocols;
        let direction = moment.direction;
        self.matches.push(Match { rule: number, transaction, direction, matched_in, protocol });
        TrialEnd::Alert
    }

    /// What fails of the tests of headers that a rule about messages has, in the packet that completes these.
    fn headers_fail(&mut self, known: &ProgramRule, moment: &Moment<'_>) -> Option<TrialEnd> {
        let headers = &known.prepared.headers;
        let missing = TrialEnd::Missing(*headers.first()?);
        let Some(seen) = moment.packet else { return Some(missing) };
        let holds = self.packet_holds(known, headers, &seen);
        let failure = self.watching.failure.take();
        (!holds).then(|| failure.unwrap_or(missing))
    }

    /// Whether a match becomes an alert, by thresholds of the rule and of the user.
    fn becomes_alert(&mut self, known: &ProgramRule, moment: &Moment<'_>) -> bool {
        let (rule, of_user) = (known.rule(), &known.of_user);
        if !has_counts(rule, of_user) {
            return !of_user.suppresses(moment);
        }
        if is_limited(rule, of_user) {
            self.wait_for_turn();
        }
        let judged = Judged { rule, of_user, moment, counts: self.number.is_some() };
        let judgement = self.shared.judge(&judged);
        self.stats.no_room += u64::from(judgement.no_room);
        judgement.passes
    }
}

/// The group of rules that payload of the sending side has.
fn group_of<'m>(
    program: &Program,
    met: &'m mut Met,
    state: &mut FlowState,
    moment: &Moment<'_>,
) -> Option<&'m Group> {
    let place = state.groups.get_mut(at(moment.direction))?;
    let number = *place.get_or_insert_with(|| {
        let has_ports = matches!(moment.ip_proto, 6 | 17);
        let ports = has_ports.then(|| (moment.sender().1, moment.receiver().1));
        let kind = (class_of(moment.ip_proto), moment.direction);
        let groups = program.groups(kind)?;
        Some(met.number(groups, kind, ports, || groups.group(&program.rules, &program.parts, ports)))
    });
    met.group(number?)
}

/// Finds parts in payload: in the views of its flow's group, and in those of the protocols of the flow. A text is bytes, and whether
/// they are from the beginning.
fn find(
    program: &Program,
    of_group: &[View],
    source: Source,
    moment: &Moment<'_>,
    (text, is_from_beginning): (&[u8], bool),
    found: &mut Vec<u32>,
) {
    let protocols = moment.protocols.into_iter().filter(|place| *place != 0);
    let of_protocols = protocols.flat_map(|place| program.views_of(source, place));
    for view in of_group.iter().chain(of_protocols) {
        let bytes = Transform::all(&view.transforms, text);
        view.find(&bytes, is_from_beginning, |part| found.push(part));
    }
}

/// Tests of a rule by their positions in [`Rule::buffers`](crate::Rule::buffers), each with its own.
fn tests_of<'p>(rule: &'p ProgramRule, tests: &'p [u16]) -> impl Iterator<Item = (u16, &'p BufferTests)> {
    let of = |at: &u16| Some((*at, rule.rule().buffers.get(usize::from(*at))?));
    tests.iter().filter_map(of)
}

/// Sorts parts, each once.
fn in_order(parts: &mut Vec<u32>) {
    parts.sort_unstable();
    parts.dedup();
}
