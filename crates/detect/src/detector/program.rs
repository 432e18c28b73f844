//! Rules in the form in which flows are looked at: made once, shared by all workers.
//!
//! A rule has parts: what must be in messages of the client, in messages of the server, in payload, and in the headers of a packet.
//! Each part is found by a literal of it that is searched for in one buffer together with those of all other rules; only what is
//! found so is verified. A part without such a literal is verified wherever its buffers are.

use super::events::{self, Anomaly, Events, event_of};
use super::groups::{Collected, Groups};
use super::handle::handle;
use super::of_user::OfUser;
use super::packet::is_of_packet;
use super::part::{About, Part, ProgramRule, is_firm};
use super::view::View;
use crate::buffer::{Origin, RuleBuffer, Sides};
use crate::condition::Condition;
use crate::config::{Class, ThresholdLine};
use crate::content::Content;
use crate::event::EventOf;
use crate::header::{Action, Way};
use crate::protocol::Selects;
use crate::rule::{BufferTests, Rule};
use crate::ruleset::{LoadedRule, Ruleset};
use crate::state::Side;
use std::collections::{HashMap, HashSet};
use weir_proto::PROTOCOLS;
use weir_wire::Direction;

/// Where a view's bytes come from.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Source {
    /// Payload of packets of this protocol of IP, or of any other than TCP, UDP and ICMP (0), from one side.
    Packets(u8, Direction),
    /// Streams from one side.
    Streams(Direction),
    /// A buffer of messages from one side.
    Buffer(&'static str, Direction),
}

/// Rules in the form in which flows are looked at.
#[derive(Debug, Default)]
pub struct Program {
    /// The rules, in the order in which they are judged.
    pub rules: Vec<ProgramRule>,
    pub(super) parts: Vec<Part>,
    views: HashMap<Source, Vec<View>>,
    /// What is searched for in payload if the flow has a protocol, by its place in [`PROTOCOLS`] from 1.
    of_protocols: HashMap<(Source, u8), Vec<View>>,
    /// What else is searched for in payload, by the class of packets and the side.
    groups: HashMap<(u8, Direction), Groups>,
    /// Parts that no literal finds and that are about a packet: those of rules of addresses alone, by the protocol of IP, and of all.
    pub(super) of_packets: Box<[u32]>,
    events: Events,
    /// Rules that are not in force because something that they ask for is not read yet, each with the reason.
    pub unread: Vec<(LoadedRule, String)>,
    reads_streams: bool,
    /// The lines of the user's threshold.config.
    pub thresholds: Vec<ThresholdLine>,
    /// Names of bits of flows, by their numbers.
    pub(super) bit_names: Vec<Box<str>>,
    bits: HashMap<Box<str>, u32>,
    /// The place in [`PROTOCOLS`] from 1 of the protocol of each buffer that the rules read.
    protocols: HashMap<&'static str, u8>,
}

/// Number of TCP.
const TCP: u8 = 6;

/// The protocol classes of packets' payload.
pub(super) fn class_of(ip_proto: u8) -> u8 {
    match ip_proto {
        1 | 58 => 1,
        6 | 17 => ip_proto,
        _ => 0,
    }
}

/// The priority of a rule without one, as in Suricata.
const DEFAULT_PRIORITY: u8 = 3;

const SIDES: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// The direction in which a side is sent to.
pub(super) fn direction(side: Side) -> Direction {
    match side {
        Side::ToServer => Direction::Forward,
        Side::ToClient => Direction::Reverse,
    }
}

/// What of a rule cannot be looked at.
fn unread(rule: &Rule) -> Option<String> {
    if let Some(what) = events::unread(rule) {
        return Some(what);
    }
    let of_condition = |condition: &Condition| match condition {
        Condition::FtpBounce => Some("the address of a PORT command".to_owned()),
        Condition::Place(_) => Some("places of addresses".to_owned()),
        Condition::Reputation(_) => Some("reputations of addresses".to_owned()),
        Condition::FileHash { .. } => Some("hashes of files".to_owned()),
        Condition::FileSize(_) => Some("sizes of files".to_owned()),
        Condition::Checksum { .. } => Some("checksums".to_owned()),
        _ => None,
    };
    let of_buffer = |of: &BufferTests| {
        let known = |name: &str| emitted().any(|buffer| buffer.name == name);
        match of.buffer.origin {
            Origin::Transaction if !sources(of.buffer).iter().any(|name| known(name)) => {
                Some(format!("`{}`", of.buffer.name))
            }
            _ => None,
        }
    };
    let is_payload = |of: &&BufferTests| matches!(of.buffer.origin, Origin::Header);
    let has_messages = rule.buffers.iter().any(|of| of.buffer.origin == Origin::Transaction);
    let mixes = has_messages && rule.buffers.iter().any(|of| is_payload(&of));
    let what = rule
        .conditions
        .iter()
        .find_map(of_condition)
        .or_else(|| rule.buffers.iter().find_map(of_buffer))
        .or_else(|| (!rule.host_bits.is_empty()).then(|| "bits of hosts".to_owned()))
        .or_else(|| {
            rule.flow.is_reassembled.map(|_| "whether a packet was put together from fragments".to_owned())
        })
        .or_else(|| rule.stores_files.then(|| "`filestore`".to_owned()))
        .or_else(|| {
            (rule.header.way == Way::Transaction).then(|| "both sides of a transaction (`=>`)".to_owned())
        })
        .or_else(|| mixes.then(|| "headers of packets together with messages".to_owned()))
        .or_else(|| {
            (has_messages && rule.conditions.iter().any(is_of_packet))
                .then(|| "conditions on packets together with messages".to_owned())
        })
        .or_else(|| {
            // What is odd about a packet is seen of packets of IP, whatever the rule is about.
            let is_of_event = event_of(rule).is_some_and(|event| event.of == EventOf::Packet);
            let is_everything = rule.header.protocol.selects == Selects::Everything;
            (is_everything && !is_of_event).then(|| "packets without IP".to_owned())
        })
        .or_else(|| (rule.header.protocol.selects == Selects::Sctp).then(|| "SCTP".to_owned()));
    what.map(|what| format!("{what}: nothing reads this for rules yet"))
}

/// What parsers emit for rules: buffers with bytes, and numbers.
fn emitted() -> impl Iterator<Item = &'static weir_proto::Buffer> {
    weir_proto::buffers().chain(weir_proto::numbers())
}

/// The buffers of parsers that a buffer of rules has its bytes from, by their names.
pub(super) fn sources(buffer: &'static RuleBuffer) -> &'static [&'static str] {
    match buffer.name {
        "file.data" => &["http.response_body", "http.request_body", "file.data"],
        _ => std::slice::from_ref(&buffer.name),
    }
}

/// The side whose messages have a buffer, as far as a rule can know.
fn side_of(rule: &Rule, buffer: &RuleBuffer) -> Option<Direction> {
    match buffer.sides {
        Sides::ToServer => Some(Direction::Forward),
        Sides::ToClient => Some(Direction::Reverse),
        Sides::Both => rule.flow.side.map(direction),
    }
}

/// What a part is about, and the positions of its tests in [`Rule::buffers`].
type Tests = (About, Box<[u16]>);

/// The parts of a rule, and whether they are alternatives.
fn parts_of(rule: &Rule) -> (Vec<Tests>, bool) {
    let mut parts: Vec<(About, Vec<u16>)> = Vec::new();
    if event_of(rule).is_some() {
        parts.push((About::Event, Vec::new()));
    }
    let mut add = |about: About, at: u16| match parts.iter_mut().find(|(known, _)| *known == about) {
        Some((_, tests)) => tests.push(at),
        None => parts.push((about, vec![at])),
    };
    let payload = payload_of(rule);
    // A buffer of either side belongs to the messages of the side that another one names.
    let named = rule.buffers.iter().filter(|of| of.buffer.origin == Origin::Transaction);
    let named = named.filter_map(|of| side_of(rule, of.buffer)).next();
    for (at, of) in (0..).zip(&rule.buffers) {
        match of.buffer.origin {
            Origin::Transaction => add(About::Messages(side_of(rule, of.buffer).or(named)), at),
            Origin::Header => add(About::Packet, at),
            Origin::Payload => add(payload.0, at),
            Origin::Decoded => {}
        }
    }
    let has_other = !parts.is_empty();
    if !has_other {
        parts.push((About::Packet, Vec::new()));
    }
    let mut parts: Vec<Tests> =
        parts.into_iter().map(|(about, tests)| (about, tests.into_boxed_slice())).collect();
    // What may be in a packet or in a stream is looked for in both.
    let mut is_alternative = false;
    if !payload.1.is_empty()
        && let [(About::Stream, tests)] = parts.as_slice()
    {
        let tests = tests.clone();
        parts.push((About::Packet, tests));
        is_alternative = true;
    }
    (parts, is_alternative)
}

/// Where contents of payload are looked for, and the classes of packets that are looked at beside streams.
fn payload_of(rule: &Rule) -> (About, &'static [u8]) {
    let selects = rule.header.protocol.selects;
    let speaks = |name: &str, ip_proto: u8| {
        PROTOCOLS.iter().any(|protocol| protocol.name == name && protocol.transport.covers(ip_proto))
    };
    let is_over_tcp = match selects {
        Selects::Tcp { streams, .. } => streams,
        Selects::Application(name) => speaks(name, 6),
        _ => false,
    };
    if !is_over_tcp || rule.flow.streams == Some(false) || rule.conditions.iter().any(is_of_packet) {
        return (About::Packet, classes(selects));
    }
    let has_place = |(_, content): (&BufferTests, &Content)| {
        content.depth.is_some() || content.offset.is_some() || content.is_at_start
    };
    let may_be_packets =
        !matches!(selects, Selects::Tcp { packets: false, .. }) && rule.flow.streams.is_none();
    let of_tcp = may_be_packets && rule.contents().any(has_place);
    let of_udp = matches!(selects, Selects::Application(name) if speaks(name, 17));
    match (of_tcp, of_udp) {
        (true, true) => (About::Stream, &[6, 17]),
        (true, false) => (About::Stream, &[6]),
        (false, true) => (About::Stream, &[17]),
        (false, false) => (About::Stream, &[]),
    }
}

/// The order in which rules are judged: by action, those that change bits before those that test them, by priority, by number.
fn order(rule: &Rule, of_class: Option<u8>) -> (Action, u8, u8, u32, u32) {
    let changes = rule.flow_bits.iter().any(|bits| !bits.action.is_test());
    let tests = rule.flow_bits.iter().any(|bits| bits.action.is_test());
    let bits = match (changes, tests) {
        (true, false) => 0,
        (true, true) => 1,
        (false, true) => 2,
        (false, false) => 3,
    };
    let priority = rule.priority.or(of_class).unwrap_or(DEFAULT_PRIORITY);
    (rule.header.action, bits, priority, rule.gid, rule.sid)
}

/// How a program is made.
struct Making {
    /// Whether literals are searched for.
    searches: bool,
}

impl Making {
    fn program(&self, set: &Ruleset, classes: &[Class]) -> Program {
        let class_of: HashMap<&str, &Class> = classes.iter().map(|class| (&*class.name, class)).collect();
        let mut program = Program::default();
        let mut rules: Vec<&LoadedRule> = set.rules.iter().collect();
        rules.sort_by_key(|loaded| {
            let class = loaded.rule.class.as_deref().and_then(|name| class_of.get(name));
            order(&loaded.rule, class.map(|class| class.priority))
        });
        let mut names: HashMap<&str, u32> = HashMap::new();
        let mut found_in: HashMap<(Source, Option<u8>), Vec<u32>> = HashMap::new();
        let mut groups: HashMap<(u8, Direction), Collected> = HashMap::new();
        let mut of_packets = Vec::new();
        for loaded in rules {
            let rule: &Rule = &loaded.rule;
            if let Some(reason) = unread(rule) {
                program.unread.push((loaded.clone(), reason));
                continue;
            }
            let number = program.rules.len() as u32;
            let (parts, is_alternative) = parts_of(rule);
            let bits = rule.flow_bits.iter().map(|bits| {
                let numbers = bits.names.iter().map(|name| {
                    let next = names.len() as u32;
                    *names.entry(name).or_insert(next)
                });
                (bits.action, numbers.collect())
            });
            let protocol = match rule.header.protocol.selects {
                Selects::Application(name) => {
                    PROTOCOLS.iter().position(|protocol| protocol.name == name).map(|at| at as u8 + 1)
                }
                _ => None,
            };
            let name = rule.class.as_deref().unwrap_or_default();
            let class = class_of.get(name);
            program.rules.push(ProgramRule {
                loaded: loaded.clone(),
                category: class.map_or(name, |class| &class.description).into(),
                severity: rule.priority.or(class.map(|class| class.priority)).unwrap_or(DEFAULT_PRIORITY),
                parts: parts.len() as u8,
                is_alternative,
                protocol,
                bits: bits.collect(),
                of_user: OfUser::default(),
                decoded: rule
                    .buffers
                    .iter()
                    .position(|of| of.buffer.origin == Origin::Decoded)
                    .map(|at| at as u16),
            });
            let has_parts = parts.len() > 1 && !is_alternative;
            for (about, tests) in parts {
                let part = program.parts.len() as u32;
                program.reads_streams |= about == About::Stream;
                let of_part = || tests.iter().filter_map(|at| rule.buffers.get(usize::from(*at)));
                let found_by = handle(rule, &tests).map(|handle| handle.of);
                let of = found_by.or_else(|| of_part().find(|of| is_firm(of)));
                let view_sources = match (about, of) {
                    (About::Messages(side), None) => of_message(side, of_part()),
                    _ => sources_of(rule, about, of),
                };
                match event_of(rule).filter(|_| about == About::Event) {
                    Some(event) => program.events.add(event, part),
                    None if view_sources.is_empty() => of_packets.push(part),
                    None => {}
                }
                for source in view_sources {
                    let protocol = protocol.filter(|_| self.searches);
                    let kind = match source {
                        Source::Packets(class, side) if protocol.is_none() => (class, side),
                        Source::Streams(side) if protocol.is_none() => (TCP, side),
                        Source::Buffer(..) => {
                            found_in.entry((source, None)).or_default().push(part);
                            continue;
                        }
                        Source::Packets(..) | Source::Streams(_) => {
                            found_in.entry((source, protocol)).or_default().push(part);
                            continue;
                        }
                    };
                    let is_stream = matches!(source, Source::Streams(_));
                    let is_both_ways = has_parts && rule.flow.side.is_none();
                    groups.entry(kind).or_default().add(&rule.header, is_both_ways, is_stream, part);
                }
                program.parts.push(Part { rule: number, about, tests });
            }
        }
        program.of_packets = of_packets.into();
        let mut bit_names: Vec<(u32, Box<str>)> =
            names.into_iter().map(|(name, number)| (number, name.into())).collect();
        bit_names.sort_unstable();
        program.bits = bit_names.iter().map(|(number, name)| (name.clone(), *number)).collect();
        program.bit_names = bit_names.into_iter().map(|(_, name)| name).collect();
        for ((source, protocol), parts) in found_in {
            let views = View::of(&program.rules, &program.parts, &parts, self.searches);
            match protocol {
                None => program.views.insert(source, views),
                Some(protocol) => program.of_protocols.insert((source, protocol), views),
            };
        }
        program.groups =
            groups.into_iter().map(|(kind, collected)| (kind, collected.groups(self.searches))).collect();
        program.protocols = program
            .buffers()
            .into_iter()
            .filter_map(|buffer| {
                let mut protocols = PROTOCOLS.iter();
                let at = protocols.position(|protocol| protocol.buffers.contains(&buffer))?;
                Some((buffer.name, at as u8 + 1))
            })
            .collect();
        program
    }
}

impl Program {
    /// Makes the program of rules. `classes` are what their classes mean.
    pub fn new(set: &Ruleset, classes: &[Class]) -> Self {
        Making { searches: true }.program(set, classes)
    }

    /// The program with the lines of the user's threshold.config.
    pub fn with_thresholds(mut self, lines: &[ThresholdLine]) -> Self {
        for known in &mut self.rules {
            known.of_user = OfUser::new(lines, &known.loaded.rule);
        }
        self.thresholds = lines.to_vec();
        self
    }

    /// Makes a program that finds what that of [`Program::new`] finds, and searches for no literal: each part is verified wherever
    /// its source is. It is slow, and shows that the search leaves nothing out.
    pub fn without_search(set: &Ruleset, classes: &[Class]) -> Self {
        Making { searches: false }.program(set, classes)
    }

    /// Whether a part has tests of any of these buffers of parsers.
    pub(super) fn reads_any(&self, part: &Part, buffers: &[&str]) -> bool {
        let Some(rule) = self.rules.get(part.rule as usize) else { return false };
        let mut tests = part.tests.iter().filter_map(|at| rule.loaded.rule.buffers.get(usize::from(*at)));
        tests.any(|of| sources(of.buffer).iter().any(|name| buffers.contains(name)))
    }

    /// The views of a source.
    pub(super) fn views(&self, source: Source) -> &[View] {
        self.views.get(&source).map_or(&[], Vec::as_slice)
    }

    /// The views of payload of flows that have a protocol, by its place in [`PROTOCOLS`] from 1.
    pub(super) fn views_of(&self, source: Source, protocol: u8) -> &[View] {
        self.of_protocols.get(&(source, protocol)).map_or(&[], Vec::as_slice)
    }

    /// The groups of what payload is searched for that one side sends in packets of a class.
    pub(super) fn groups(&self, kind: (u8, Direction)) -> Option<&Groups> {
        self.groups.get(&kind)
    }

    /// The place in [`PROTOCOLS`] from 1 of the protocol of a buffer that the rules read.
    pub(super) fn protocol_of(&self, buffer: &str) -> Option<u8> {
        self.protocols.get(buffer).copied()
    }

    /// The number of a bit of flows.
    pub(super) fn bit(&self, name: &str) -> Option<u32> {
        self.bits.get(name).copied()
    }

    /// Whether any rule asks for an event: anomalies are to be shown to [`Detector::event`](super::Detector::event).
    pub fn reads_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The parts that an anomaly of one side holds.
    pub(super) fn events(&self, anomaly: &Anomaly<'_>, side: Direction, is_v4: bool) -> Vec<u32> {
        self.events.parts(anomaly, side, is_v4)
    }

    /// Whether any rule looks at streams.
    pub fn reads_streams(&self) -> bool {
        self.reads_streams
    }

    /// The buffers of parsers that the rules read, or that show that a message is there.
    pub fn buffers(&self) -> Vec<&'static weir_proto::Buffer> {
        let tests = self.rules.iter().flat_map(|rule| &rule.loaded.rule.buffers);
        let named = tests
            .filter(|of| of.buffer.origin == Origin::Transaction)
            .flat_map(|of| sources(of.buffer).iter().copied());
        let found_in = self.views.keys().filter_map(|source| match source {
            Source::Buffer(name, _) => Some(*name),
            Source::Packets(..) | Source::Streams(_) => None,
        });
        let mut named: HashSet<&str> = named.chain(found_in).collect();
        // The kind follows the name: with it the name is looked at.
        if named.contains("file.name") {
            named.insert("file.magic");
        }
        emitted().filter(|buffer| named.contains(buffer.name)).collect()
    }
}

/// What shows that a message is there of a protocol whose buffers may all be absent: any of its values.
fn of_message<'r>(side: Option<Direction>, tests: impl Iterator<Item = &'r BufferTests>) -> Vec<Source> {
    let protocols: Vec<&str> = tests.flat_map(|of| of.buffer.protocols).copied().collect();
    let of_protocols = PROTOCOLS.iter().filter(|protocol| protocols.contains(&protocol.name));
    let values = of_protocols.flat_map(|protocol| protocol.buffers);
    let values = values.filter(|buffer| !buffer.is_stream && !buffer.is_number);
    let sides =
        |side: Option<Direction>| SIDES.into_iter().filter(move |one| side.is_none_or(|side| side == *one));
    values.flat_map(|buffer| sides(side).map(|side| Source::Buffer(buffer.name, side))).collect()
}

/// Where the bytes that find a part come from; none for a part of packets that no payload finds.
fn sources_of(rule: &Rule, about: About, of: Option<&BufferTests>) -> Vec<Source> {
    let sides =
        |side: Option<Direction>| SIDES.into_iter().filter(move |one| side.is_none_or(|side| side == *one));
    let stated = rule.flow.side.map(direction);
    match (about, of) {
        (About::Messages(side), Some(of)) => sources(of.buffer)
            .iter()
            .flat_map(|name| sides(side).map(move |side| Source::Buffer(name, side)))
            .collect(),
        (About::Stream, _) => sides(stated).map(Source::Streams).collect(),
        (About::Packet, Some(of)) if of.buffer.origin == Origin::Payload => {
            classes(rule.header.protocol.selects)
                .iter()
                .flat_map(|class| sides(stated).map(|side| Source::Packets(*class, side)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The classes of packets' payload that a protocol selects.
fn classes(selects: Selects) -> &'static [u8] {
    match selects {
        Selects::Tcp { .. } => &[6],
        Selects::Udp => &[17],
        Selects::Icmp { .. } => &[1],
        Selects::Application(_) => &[6, 17],
        Selects::Everything | Selects::Ip { .. } | Selects::Sctp => &[0, 1, 6, 17],
    }
}
