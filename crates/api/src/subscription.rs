//! Subscriptions: the requests of a user.

use crate::builtin;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The number of a subscription. A run never uses a number twice.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct SubscriptionId(pub u32);

impl std::fmt::Display for SubscriptionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Who made a subscription, and may remove it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// The run: its summary, screen, pages and options.
    #[default]
    Run,
    /// The configuration.
    Configuration,
    /// A key of the live screen.
    Screen,
    /// A client of the HTTP interface, by its number.
    Client(u32),
}

impl Owner {
    /// Whether it is a client.
    pub fn is_client(self) -> bool {
        matches!(self, Self::Client(_))
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Owner::Run => f.write_str("run"),
            Owner::Configuration => f.write_str("configuration"),
            Owner::Screen => f.write_str("screen"),
            Owner::Client(number) => write!(f, "client {number}"),
        }
    }
}

/// A subscription in effect.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Subscription {
    /// Its number.
    pub id: SubscriptionId,
    /// Who made it.
    pub owner: Owner,
    /// What it requests. This never changes.
    pub spec: Arc<SubscriptionSpec>,
}

impl Subscription {
    /// Numbers the subscriptions of a run that does not change them.
    pub fn number(specs: impl IntoIterator<Item = SubscriptionSpec>) -> Vec<Subscription> {
        let numbers = builtin::FIRST_FREE.0..;
        let of_run = |(number, spec)| Subscription {
            id: SubscriptionId(number),
            owner: Owner::Run,
            spec: Arc::new(spec),
        };
        numbers.zip(specs).map(of_run).collect()
    }
}

/// A subscription: which packets, at which level, through which functions. Each function reports every interval.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct SubscriptionSpec {
    /// Name of the subscription in readings, logs and charts.
    pub name: String,
    /// The chart (Ourmon's filter-set) that has the subscription as a line, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// A pcap-filter(7) expression; empty for every packet.
    #[serde(default)]
    pub expression: String,
    /// Whether the line covers the packets that no other line of its chart covers (Ourmon's `xtra`), in place of an
    /// expression.
    #[serde(default)]
    pub remainder: bool,
    /// The level of the items that the functions see.
    #[serde(default)]
    pub level: Level,
    /// The functions, in order.
    pub functions: Vec<FunctionCall>,
    /// Length of the interval of its readings in nanoseconds, a multiple of the run's; 0 for the run's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interval: u64,
    /// Names of the outputs that its readings go to; `None` for all. Pages and screen show all readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<String>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl SubscriptionSpec {
    /// A subscription to the packets that an expression matches (empty: to all), at packet level.
    pub fn new(name: &str, expression: &str, functions: Vec<FunctionCall>) -> Self {
        Self {
            name: name.to_owned(),
            chart: None,
            expression: expression.to_owned(),
            remainder: false,
            level: Level::Packet,
            functions,
            interval: 0,
            outputs: None,
        }
    }

    /// A subscription to everything at a level, for functions that deliver.
    pub fn delivering(name: &str, level: Level, functions: Vec<FunctionCall>) -> Self {
        Self { level, ..Self::new(name, "", functions) }
    }
}

/// The kind of item that a subscription's functions see.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Each packet (MAPI's RAW).
    #[default]
    Packet,
    /// Reassembled streams, and the content of files in them (MAPI's COOKED).
    Stream,
    /// Each flow when it ends.
    Flow,
    /// Each record of a protocol.
    Record,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 4] = [Level::Packet, Level::Stream, Level::Flow, Level::Record];

    /// The word of the level in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Level::Packet => "packet",
            Level::Stream => "stream",
            Level::Flow => "flow",
            Level::Record => "record",
        }
    }
}

/// A function by name, with its arguments as the user wrote them.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct FunctionCall {
    /// The name in the function registry.
    pub name: String,
    /// Argument names and values.
    #[serde(default)]
    pub arguments: Vec<(String, String)>,
}

impl FunctionCall {
    /// A function without arguments.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), arguments: Vec::new() }
    }

    /// Returns the call with one more argument.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.arguments.push((name.to_owned(), value.to_string()));
        self
    }
}

/// Whether a count is shown in packets or in bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes of frames on the wire.
    #[default]
    Bytes,
}

impl Unit {
    /// The name of the unit.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Packets => "packets",
            Unit::Bytes => "bytes",
        }
    }
}

/// The key of a top list.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Source and destination address.
    Pair,
    /// The five-tuple, in the direction of the packets.
    Flow,
    /// Either port of a TCP, UDP or SCTP packet, with the protocol: a packet counts for both of its ports.
    Port,
    /// IP protocol number.
    Protocol,
    /// Outer VLAN identifier.
    Vlan,
    /// Server address and port, and the client: the initiator of a flow is its client.
    Talker,
    /// Protocol and server port of a flow.
    Service,
}

impl KeyKind {
    /// All kinds, with their names.
    pub const ALL: [(&'static str, KeyKind); 9] = [
        ("source", KeyKind::Source),
        ("destination", KeyKind::Destination),
        ("pair", KeyKind::Pair),
        ("flow", KeyKind::Flow),
        ("port", KeyKind::Port),
        ("protocol", KeyKind::Protocol),
        ("vlan", KeyKind::Vlan),
        ("talker", KeyKind::Talker),
        ("service", KeyKind::Service),
    ];

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}
