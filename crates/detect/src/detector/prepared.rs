//! What a program keeps of a rule that does not depend on other rules: its parts, and where they are found.
//!
//! It is made once for a rule. Programs that follow each other share it, so that a change of one rule among thousands costs little.

use super::about::{About, is_firm};
use super::events::{self, event_of};
use super::handle::{At, choose};
use super::packet::is_of_packet;
use crate::buffer::{Origin, RuleBuffer, Sides};
use crate::condition::Condition;
use crate::content::Content;
use crate::event::{EventOf, EventRow};
use crate::header::Way;
use crate::protocol::Selects;
use crate::rarity::Rarity;
use crate::rule::{BufferTests, Rule};
use crate::state::Side;
use std::sync::Arc;
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

/// A part of a rule.
#[derive(Debug)]
pub(super) struct PreparedPart {
    pub about: About,
    /// The positions of its tests in [`Rule::buffers`]. Each part of a rule has its own, by which it is recognised.
    pub tests: Arc<[u16]>,
    /// The event that holds it.
    pub event: Option<&'static EventRow>,
    /// Where the bytes come from that find it; none for a part of packets that no payload finds.
    pub sources: Box<[Source]>,
    /// The position in [`Rule::buffers`] of the buffer that it is found in, if one must be there.
    pub found_in: Option<u16>,
    /// The literal that finds it, if one does.
    pub literal: Option<At>,
}

/// A rule without what depends on others.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Why it cannot be looked at.
    pub unread: Option<String>,
    /// Its parts; none if it cannot be looked at.
    pub parts: Box<[PreparedPart]>,
    /// Whether its packets and its streams are both looked at: either is enough.
    pub is_alternative: bool,
    /// The protocol that the flow must have, as its place in [`PROTOCOLS`] from 1.
    pub protocol: Option<u8>,
    /// The position in [`Rule::buffers`] of the tests of what it decodes.
    pub decoded: Option<u16>,
    /// The positions in [`Rule::buffers`] of tests of headers of the packet that completes its messages.
    pub headers: Box<[u16]>,
}

impl Prepared {
    pub fn of(rule: &Rule, rarity: &Rarity) -> Self {
        let unread = unread(rule);
        let (parts, is_alternative) = if unread.is_none() { parts_of(rule) } else { Default::default() };
        let protocol = match rule.header.protocol.selects {
            Selects::Application(name) => {
                PROTOCOLS.iter().position(|protocol| protocol.name == name).map(|at| at as u8 + 1)
            }
            _ => None,
        };
        let decoded = rule.buffers.iter().position(|of| of.buffer.origin == Origin::Decoded);
        Self {
            unread,
            parts: parts
                .into_iter()
                .map(|(about, tests)| PreparedPart::of(rule, about, tests.into(), rarity))
                .collect(),
            is_alternative,
            protocol,
            decoded: decoded.map(|at| at as u16),
            headers: if has_messages(rule) { headers_of(rule) } else { Box::default() },
        }
    }
}

impl PreparedPart {
    fn of(rule: &Rule, about: About, tests: Arc<[u16]>, rarity: &Rarity) -> Self {
        let of_part = || tests.iter().filter_map(|at| rule.buffers.get(usize::from(*at)));
        let literal = choose(rule, &tests, rarity);
        // Any buffer that must be there makes a part without a literal a candidate.
        let of_literal = literal.and_then(|at| rule.buffers.get(usize::from(at.buffer)));
        let of = of_literal.or_else(|| of_part().find(|of| is_firm(of)));
        let sources = match (about, of) {
            (About::Messages(side), None) => of_message(side, of_part()),
            _ => sources_of(rule, about, of),
        };
        let is_it = |at: &&u16| {
            let known = rule.buffers.get(usize::from(**at));
            known.zip(of).is_some_and(|(known, of)| std::ptr::eq(known, of))
        };
        let found_in = tests.iter().find(is_it).copied();
        let event = event_of(rule).filter(|_| about == About::Event);
        Self { about, tests, event, sources: sources.into(), found_in, literal }
    }
}

/// The protocol classes of packets' payload.
pub(super) fn class_of(ip_proto: u8) -> u8 {
    match ip_proto {
        1 | 58 => 1,
        6 | 17 => ip_proto,
        _ => 0,
    }
}

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
    let what = rule
        .conditions
        .iter()
        .find_map(of_condition)
        .or_else(|| rule.buffers.iter().find_map(of_buffer))
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
pub(super) fn emitted() -> impl Iterator<Item = &'static weir_proto::Buffer> {
    weir_proto::buffers().chain(weir_proto::numbers())
}

/// The buffers of parsers that a buffer of rules has its bytes from, by their names.
pub(super) fn sources(buffer: &'static RuleBuffer) -> &'static [&'static str] {
    match buffer.name {
        "file.data" => &["http.response_body", "http.request_body", "file.data"],
        _ => std::slice::from_ref(&buffer.name),
    }
}

/// Whether a rule is about messages.
fn has_messages(rule: &Rule) -> bool {
    rule.buffers.iter().any(|of| of.buffer.origin == Origin::Transaction)
}

/// The positions in [`Rule::buffers`] of tests of headers.
fn headers_of(rule: &Rule) -> Box<[u16]> {
    let numbered = (0..).zip(&rule.buffers);
    numbered.filter(|(_, of)| of.buffer.origin == Origin::Header).map(|(at, _)| at).collect()
}

/// The side whose messages have a buffer, as far as a rule can know. A rule of both sides of a transaction has those of the client
/// where it names no side.
fn side_of(rule: &Rule, buffer: &RuleBuffer) -> Option<Direction> {
    match buffer.sides {
        Sides::ToServer => Some(Direction::Forward),
        Sides::ToClient => Some(Direction::Reverse),
        Sides::Both if rule.header.way == Way::Transaction && rule.flow.side.is_none() => {
            Some(Direction::Forward)
        }
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
            // Those of the packet that completes messages are looked at then.
            Origin::Header if has_messages(rule) => {}
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
    let is_of_packets = rule.flow.streams == Some(false) || rule.flow.is_reassembled == Some(true);
    if !is_over_tcp || is_of_packets || rule.conditions.iter().any(is_of_packet) {
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
