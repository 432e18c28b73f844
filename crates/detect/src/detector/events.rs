//! The events that rules of a program ask for.

use super::packet::is_of_packet;
use crate::buffer::{Origin, Sides};
use crate::condition::Condition;
use crate::event::{EventOf, EventRow, event};
use crate::rule::Rule;
use std::collections::HashMap;
use weir_wire::Direction;

/// Something odd that happened in a flow: an anomaly, in the words of the table `anomaly`.
#[derive(Clone, Copy, Debug)]
pub struct Anomaly<'a> {
    /// What it is about.
    pub of: EventOf,
    /// The protocol, by Weir's name.
    pub protocol: &'a str,
    /// Its name: the field `event`.
    pub name: &'a str,
    /// The number of the transaction, if its parser numbers them.
    pub transaction: Option<u64>,
}

/// The end of an anomaly's name if its packet was in a tunnel.
const IN_TUNNEL: &str = "_in_tunnel";

/// What a condition asks for, if it is an event: what the event is about, and its name.
fn asked(condition: &Condition) -> Option<(EventOf, &str)> {
    match condition {
        Condition::AppEvent(name) => Some((EventOf::Message, name)),
        Condition::DecodeEvent(name) => Some((EventOf::Packet, name)),
        Condition::StreamEvent(name) => Some((EventOf::Stream, name)),
        _ => None,
    }
}

/// Whether a condition is an event.
pub(super) fn is_event(condition: &Condition) -> bool {
    asked(condition).is_some()
}

/// The event that a rule asks for, if Weir has an anomaly for it.
pub(super) fn event_of(rule: &Rule) -> Option<&'static EventRow> {
    rule.conditions.iter().find_map(asked).and_then(|(of, name)| event(of, name))
}

/// What of a rule with events cannot be looked at.
pub(super) fn unread(rule: &Rule) -> Option<String> {
    let mut events = rule.conditions.iter().filter_map(asked);
    let (of, name) = events.next()?;
    if event(of, name).is_none() {
        return Some(format!("the event `{name}`: Weir has no anomaly for it"));
    }
    let reads = |is_it: fn(Origin) -> bool| rule.buffers.iter().any(|buffer| is_it(buffer.buffer.origin));
    let has_payload = reads(|origin| matches!(origin, Origin::Payload | Origin::Header));
    let has_messages = reads(|origin| origin == Origin::Transaction);
    let what = match of {
        _ if events.next().is_some() => "several events in one rule",
        _ if has_payload => "an event together with contents of payload or headers",
        EventOf::Packet | EventOf::Stream if has_messages => "an event of packets together with messages",
        EventOf::Stream if rule.conditions.iter().any(is_of_packet) => {
            "an event of streams together with conditions on packets"
        }
        _ => return None,
    };
    Some(format!("{what}: nothing reads this for rules yet"))
}

/// The parts of rules that events hold, by the names of the anomalies.
#[derive(Debug, Default)]
pub(super) struct Events(HashMap<&'static str, Vec<(&'static EventRow, u32)>>);

impl Events {
    /// Adds the part of a rule that asks for an event.
    pub fn add(&mut self, row: &'static EventRow, part: u32) {
        for name in row.anomalies {
            self.0.entry(name).or_default().push((row, part));
        }
    }

    /// Whether no rule asks for an event.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The parts that an anomaly of one side's message or packet holds, with their events.
    pub fn parts(&self, anomaly: &Anomaly<'_>, side: Direction, is_v4: bool) -> Vec<u32> {
        let name = anomaly.name.strip_suffix(IN_TUNNEL).unwrap_or(anomaly.name).to_ascii_lowercase();
        let Some(asked) = self.0.get(&*name) else { return Vec::new() };
        let is_it = |row: &EventRow| {
            let is_side = match row.sides {
                Sides::ToServer => side == Direction::Forward,
                Sides::ToClient => side == Direction::Reverse,
                Sides::Both => true,
            };
            let is_version = row.ip_version().is_none_or(|version| (version == 4) == is_v4);
            row.of == anomaly.of && row.protocol == anomaly.protocol && is_side && is_version
        };
        asked.iter().filter(|(row, _)| is_it(row)).map(|(_, part)| *part).collect()
    }
}
