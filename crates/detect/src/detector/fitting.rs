//! Whether the header of a rule, and its conditions on packets and flows, fit what is looked at.

use super::Moment;
use super::about::About;
use super::events::is_event;
use super::flow_state::FlowState;
use super::part::{Part, ProgramRule};
use super::prepared::direction;
use super::program::Program;
use super::trial::{HeaderPart, TrialEnd};
use crate::condition::{Condition, OfSide, ProtocolOf};
use crate::header::{Endpoint, Way};
use crate::numbers::NumberTest;
use crate::protocol::Selects;
use crate::rule::Rule;
use std::net::IpAddr;
use weir_proto::PROTOCOLS;

/// Whether a rule is looked for in the packets and in the streams of a flow, which have equal bytes. It matches in each packet, and in
/// the stream if it has not matched in a packet.
pub(super) fn is_in_both(rule: &ProgramRule, moment: &Moment<'_>) -> bool {
    rule.is_alternative && moment.ip_proto == 6
}

/// Whether the side and the header of a part's rule allow it to match: they do not change while a flow lasts.
pub(super) fn fits(program: &Program, part: &Part, moment: &Moment<'_>) -> bool {
    let Some(known) = program.rules.get(part.rule as usize) else { return false };
    let rule = known.rule();
    match rule.flow.side {
        Some(side) => direction(side) == moment.direction && is_header_of(rule, moment),
        // A rule with parts of both sides has its header from the client to the server or the other way.
        None if known.parts > 1 && !known.is_alternative => {
            let other = Moment { direction: moment.direction.opposite(), ..*moment };
            is_header_of(rule, moment) || is_header_of(rule, &other)
        }
        None => is_header_of(rule, moment),
    }
}

/// Whether a part is looked for in a packet that is part of no stream. A rule whose places count from the beginning of a packet has
/// another part for it.
pub(super) fn is_of_packets(program: &Program, part: u32) -> bool {
    let Some(one) = program.parts.get(part as usize) else { return false };
    let Some(known) = program.rules.get(one.rule as usize) else { return false };
    let rule = known.rule();
    let is_of_streams = matches!(rule.header.protocol.selects, Selects::Tcp { packets: false, .. });
    one.about != About::Stream || !known.is_alternative && !is_of_streams && rule.flow.streams.is_none()
}

/// What of the header of a rule, by its position in [`Program::rules`], differs first from a flow, seen from either side.
pub(super) fn differs(program: &Program, number: u32, moment: &Moment<'_>) -> Option<HeaderPart> {
    let rule = program.rules.get(number as usize)?.rule();
    let other = Moment { direction: moment.direction.opposite(), ..*moment };
    let mut parts = program.parts.iter().filter(|part| part.rule == number);
    if parts.any(|part| fits(program, part, moment) || fits(program, part, &other)) {
        return None;
    }
    if !is_ip_proto_of(rule, moment) {
        return Some(HeaderPart::Protocol);
    }
    let (from, to) = (moment.sender().0, moment.receiver().0);
    let goes = |from, to| rule.header.source.addresses.has(from) && rule.header.destination.addresses.has(to);
    match goes(from, to) || goes(to, from) {
        true => Some(HeaderPart::Ports),
        false => Some(HeaderPart::Addresses),
    }
}

/// Whether a rule matches once for a side of a flow: it asks nothing of single packets, and its header is about addresses or an
/// application, or it asks for the protocol of the flow alone.
pub(super) fn matches_once(rule: &Rule) -> bool {
    let is_wide = matches!(rule.header.protocol.selects, Selects::Ip { .. } | Selects::Application(_));
    let is_protocol = |condition: &Condition| matches!(condition, Condition::AppProtocol { .. });
    let of_flow = |condition: &Condition| {
        is_protocol(condition) || matches!(condition, Condition::Place(_) | Condition::Reputation(_))
    };
    let conditions = &rule.conditions;
    rule.buffers.is_empty()
        && match is_wide {
            true => conditions.iter().all(of_flow),
            false => !conditions.is_empty() && conditions.iter().all(is_protocol),
        }
}

/// Whether the header of a rule covers the sender and the receiver, and the protocol of IP.
fn is_header_of(rule: &Rule, moment: &Moment<'_>) -> bool {
    let has_ports = matches!(moment.ip_proto, 6 | 17 | 132);
    let is_in = |end: &Endpoint, (address, port): (IpAddr, u16)| {
        end.addresses.has(address) && (!has_ports || end.ports.has(port))
    };
    let goes = |from, to| is_in(&rule.header.source, from) && is_in(&rule.header.destination, to);
    let (from, to) = (moment.sender(), moment.receiver());
    is_ip_proto_of(rule, moment)
        && match rule.header.way {
            Way::Forward => goes(from, to),
            Way::Both => goes(from, to) || goes(to, from),
            Way::Transaction => goes(moment.initiator, moment.responder),
        }
}

/// Whether the header of a rule covers the protocol of IP.
fn is_ip_proto_of(rule: &Rule, moment: &Moment<'_>) -> bool {
    let is_v4 = moment.initiator.0.is_ipv4();
    match rule.header.protocol.selects {
        Selects::Everything => true,
        Selects::Ip { v4, v6 } => {
            if is_v4 {
                v4
            } else {
                v6
            }
        }
        Selects::Tcp { .. } => moment.ip_proto == 6,
        Selects::Udp => moment.ip_proto == 17,
        Selects::Sctp => moment.ip_proto == 132,
        Selects::Icmp { v4, v6 } => match moment.ip_proto {
            1 => v4,
            58 => v6,
            _ => false,
        },
        Selects::Application(_) => true,
    }
}

/// The first condition of a rule on packets and flows that does not hold.
pub(super) fn condition_fails(
    known: &ProgramRule,
    state: &FlowState,
    moment: &Moment<'_>,
) -> Option<TrialEnd> {
    let rule = known.rule();
    let condition = rule.conditions.iter().position(|condition| !condition_holds(condition, state, moment));
    let bits = || known.bits.iter().position(|bits| !state.bits_hold(std::slice::from_ref(bits)));
    let ints = || rule.flow_ints.iter().position(|int| !state.ints_hold(std::slice::from_ref(int)));
    let is_reassembled = moment.packet.is_some_and(|seen| seen.is_reassembled());
    let other = rule.flow.is_reassembled.is_some_and(|is| is != is_reassembled);
    condition
        .map(|at| TrialEnd::Condition(at as u16))
        .or_else(|| other.then_some(TrialEnd::Fragments))
        .or_else(|| bits().map(|at| TrialEnd::FlowBits(at as u16)))
        .or_else(|| ints().map(|at| TrialEnd::FlowInts(at as u16)))
}

fn condition_holds(condition: &Condition, state: &FlowState, moment: &Moment<'_>) -> bool {
    if let Some(seen) = &moment.packet
        && let Some(holds) = seen.holds(condition)
    {
        return holds;
    }
    let [client, server] = state.sent;
    match condition {
        // A rule with an event has a part that holds when it comes.
        condition if is_event(condition) => true,
        Condition::Place(test) => test.passes(moment.sender().0, moment.receiver().0),
        Condition::Reputation(test) => test.passes(moment.sender().0, moment.receiver().0),
        Condition::FlowAge(test) => test.passes(moment.time.since(moment.first) / 1_000_000_000),
        Condition::FlowPackets(side, test) => of_side(*side, *test, client.packets, server.packets),
        Condition::FlowBytes(side, test) => of_side(*side, *test, client.bytes, server.bytes),
        Condition::StreamSize(side, test) => {
            let [client, server] = state.sizes();
            moment.ip_proto == 6 && of_side(*side, *test, client, server)
        }
        Condition::AppProtocol { name, is_negated, of } => {
            let name_of = |place: &u8| {
                usize::from(*place)
                    .checked_sub(1)
                    .and_then(|at| PROTOCOLS.get(at))
                    .map(|protocol| protocol.name)
            };
            let mut names = moment.protocols.iter().filter_map(name_of);
            // While a protocol is searched for, the flow may still have any.
            let is_open = moment.protocols == [0; 4] && !moment.is_unidentified;
            if *is_negated && name.is_some() && is_open {
                return false;
            }
            let is = match (name, of) {
                (None, _) => names.next().is_none(),
                (Some(name), ProtocolOf::Original) => names.next() == Some(&**name),
                (Some(name), ProtocolOf::Last) => names.next_back() == Some(&**name),
                (Some(name), _) => names.any(|known| *known == **name),
            };
            is != *is_negated
        }
        _ => false,
    }
}

fn of_side(side: OfSide, test: NumberTest, client: u64, server: u64) -> bool {
    match side {
        OfSide::Client => test.passes(client),
        OfSide::Server => test.passes(server),
        OfSide::Either => test.passes(client) || test.passes(server),
        OfSide::Both => test.passes(client) && test.passes(server),
    }
}
