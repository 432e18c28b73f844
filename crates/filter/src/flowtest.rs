//! Expressions over finished flows: over a row with addresses, ports, protocol and VLAN, without packets.
//!
//! `src` is the sender, `dst` the receiver: a test of them is evaluated for each direction of a flow ([`FlowTest::reversed`]). The ends
//! of a flow are the fields `flow.client` and `flow.server`. Tests of packets (lengths, flags, bytes, MAC addresses) are errors
//! with their position, because a row cannot answer them.
//!
//! [`FlowTest::of_key`] is for flows in progress, [`FlowTest::parse`] for stored rows, [`crate::RecordTest`] for records as they are
//! emitted. Stored rows have fields besides ([`crate::fields`]): of the flow, in the
//! table [`crate::fields::FLOW`], and of the records of its protocols.
//! [`FlowTest::over`] plans an expression for rows of a table. A test of another table holds for a row if a record of the same
//! flow satisfies it. Tests of one table that are joined by `and` hold for one record; `not` before a test means that no
//! record satisfies it.

use crate::ast::{Connective, Expr, Id, IdKind, Primitive, Qualifiers, Side, Test};
use crate::error::{ErrorKind, FilterError};
use crate::fields::{Comparison, FLOW, FieldInfo, FieldTest, Number, Operand, Operation, needs_record};
use crate::filter::{Filter, Options};
use crate::meaning;
use crate::names::{IP_PROTOCOLS, Protocol, ip_protocol, lookup};
use crate::parse::parse_with_fields;
use crate::set::is_valid;
use std::net::IpAddr;
use weir_wire::{Direction, mapped};

/// IPv4 mapped into IPv6 (RFC 4291 2.5.5.2): the form of addresses in flows.
const V4: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

/// A test of a flow's row.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowTest {
    /// All of these hold; true if empty.
    All(Vec<FlowTest>),
    /// One of these holds; false if empty.
    Any(Vec<FlowTest>),
    /// The test does not hold.
    Not(Box<FlowTest>),
    /// The endpoints have IPv4 addresses or, if `false`, IPv6 addresses.
    IsV4(bool),
    /// The IP protocol.
    Protocol(u8),
    /// The outer VLAN identifier; `None` for any tag.
    Vlan(Option<u16>),
    /// An address in this range, both ends included, IPv4 mapped into IPv6.
    Address(Endpoints, u128, u128),
    /// A port in this range, both ends included.
    Port(Endpoints, u16, u16),
    /// A test of a field.
    Field(FieldTest),
    /// The row's flow, or a record of it, is a row of this table for which the test holds.
    Row(&'static str, Box<FlowTest>),
}

/// A row that tests are evaluated on: a flow, or a record with the endpoints of its flow.
pub trait FlowRow {
    /// Addresses, ports, protocol and VLAN.
    fn endpoints(&self) -> &FlowEndpoints;

    /// Whether a test of one of its fields holds.
    fn field(&self, test: &FieldTest) -> bool;

    /// Whether its flow has a row of a table for which a test holds.
    fn has_row(&self, table: &str, test: &FlowTest) -> bool;
}

/// Endpoints alone have no fields.
impl FlowRow for FlowEndpoints {
    fn endpoints(&self) -> &FlowEndpoints {
        self
    }

    fn field(&self, _test: &FieldTest) -> bool {
        false
    }

    fn has_row(&self, _table: &str, _test: &FlowTest) -> bool {
        false
    }
}

/// The endpoint of a flow, or of one of its directions, that is compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Endpoints {
    /// The sender: of a flow's forward direction the initiator.
    Source,
    /// The receiver: of a flow's forward direction the responder.
    Destination,
    /// Either endpoint.
    Either,
    /// Both endpoints.
    Both,
    /// The client of a flow, whichever direction is tested.
    Client,
    /// The server of a flow, whichever direction is tested.
    Server,
}

/// The fields of a flow's row.
#[derive(Clone, Copy, Debug)]
pub struct FlowEndpoints {
    /// Source and destination, IPv4 mapped into IPv6.
    pub address: [[u8; 16]; 2],
    /// The ports.
    pub port: [u16; 2],
    /// IP protocol.
    pub protocol: u8,
    /// Outer VLAN identifier; 0 for untagged.
    pub vlan: u16,
}

impl FlowEndpoints {
    /// The endpoints of the packets in the other direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let ([source, destination], [sport, dport]) = (self.address, self.port);
        Self { address: [destination, source], port: [dport, sport], ..*self }
    }
}

/// Directions of a flow.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Directions {
    /// From its initiator to its responder.
    pub forward: bool,
    /// From its responder to its initiator.
    pub reverse: bool,
}

impl Directions {
    /// Both.
    pub const BOTH: Self = Self { forward: true, reverse: true };
    /// None.
    pub const NONE: Self = Self { forward: false, reverse: false };

    /// Whether a direction is among them.
    #[must_use]
    pub fn has(self, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.forward,
            Direction::Reverse => self.reverse,
        }
    }

    /// Those that are also among others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { forward: self.forward && other.forward, reverse: self.reverse && other.reverse }
    }
}

impl FlowTest {
    /// Parses an expression over stored flows and records; the empty one holds for all.
    ///
    /// # Errors
    ///
    /// The expression is invalid, or it tests a property that only packets have. The error has the position.
    pub fn parse(text: &str, options: &Options<'_>) -> Result<Self, FilterError> {
        Self::over_tree(text, tree(text, options)?.as_ref(), options)
    }

    /// Parses an expression over stored records; the empty one holds for all.
    ///
    /// # Errors
    ///
    /// As [`FlowTest::parse`]; also if it tests a sender or a receiver.
    pub fn parse_of_records(text: &str, options: &Options<'_>) -> Result<Self, FilterError> {
        let expr = tree(text, options)?;
        if let Some(expr) = &expr {
            refuse_directions(text, expr)?;
        }
        Self::over_tree(text, expr.as_ref(), options)
    }

    /// Parses an expression over flows in progress, which have a key but no fields; the empty one holds for all.
    ///
    /// # Errors
    ///
    /// The expression is invalid, or its key does not decide it: the error has the position and names the level that does.
    pub fn of_key(text: &str, options: &Options<'_>) -> Result<Self, FilterError> {
        Self::with_fields(text, options, |_| false)
    }

    /// Parses an expression over flows that have ended, which have the fields of the table [`FLOW`]; the empty one holds for all.
    ///
    /// # Errors
    ///
    /// The expression is invalid, or such a flow does not decide it: the error has the position and names the level that does.
    pub fn of_ended(text: &str, options: &Options<'_>) -> Result<Self, FilterError> {
        Self::with_fields(text, options, |field| field.table == FLOW && field.place != FieldInfo::STORED)
    }

    /// Parses an expression over flows that have these fields, besides those of the key.
    fn with_fields(
        text: &str,
        options: &Options<'_>,
        has: fn(&FieldInfo) -> bool,
    ) -> Result<Self, FilterError> {
        let expr = tree(text, options)?;
        if let Some(expr) = &expr {
            let mut wrong = None;
            expr.visit(&mut |test| {
                if let Primitive::Field(field) = &test.primitive
                    && wrong.is_none()
                    && of_end(field).is_none()
                    && !has(&field.field)
                {
                    wrong = Some(test.span.clone());
                }
            });
            if let Some(span) = wrong {
                let field = first_word(text.get(span.clone()).unwrap_or_default());
                let span = span.start..span.start + field.len();
                return Err(FilterError::new(ErrorKind::Level, span, needs_record(field)).within(text));
            }
        }
        Self::over_tree(text, expr.as_ref(), options)
    }

    /// The test of a parsed expression.
    pub(crate) fn over_tree(
        text: &str,
        expr: Option<&Expr>,
        options: &Options<'_>,
    ) -> Result<Self, FilterError> {
        let Some(expr) = expr else { return Ok(FlowTest::All(Vec::new())) };
        let mut has_fields = false;
        expr.visit(&mut |test| has_fields |= matches!(test.primitive, Primitive::Field(_)));
        // The planner checks the combination of qualifiers of each primitive.
        match (has_fields, without_fields(expr)) {
            (_, Some(others)) if is_valid(&others, options) => {}
            (false, _) => drop(Filter::compile(text, options)?),
            (true, Some(others)) => Filter::check(text, others, options)?,
            (true, None) => {}
        }
        of(text, expr).map(|(test, _)| test).map_err(|error| error.within(text))
    }

    /// The test for rows of a table. Tests of other tables become [`FlowTest::Row`], one for each table of a conjunction.
    #[must_use]
    pub fn over(self, table: &str) -> Self {
        if let Some(other) = self.only_table().filter(|other| *other != table) {
            return FlowTest::Row(other, Box::new(self));
        }
        let each = |tests: Vec<FlowTest>| tests.into_iter().map(|test| test.over(table)).collect();
        match self {
            FlowTest::All(all) => {
                let mut planned = Vec::with_capacity(all.len());
                let mut by_table: Vec<(&'static str, Vec<FlowTest>)> = Vec::new();
                for test in all {
                    match test.only_table().filter(|other| *other != table) {
                        None => planned.push(test.over(table)),
                        Some(other) => match by_table.iter_mut().find(|(known, _)| *known == other) {
                            Some((_, tests)) => tests.push(test),
                            None => by_table.push((other, vec![test])),
                        },
                    }
                }
                planned.extend(
                    by_table
                        .into_iter()
                        .map(|(other, tests)| FlowTest::Row(other, Box::new(FlowTest::All(tests)))),
                );
                FlowTest::All(planned)
            }
            FlowTest::Any(any) => FlowTest::Any(each(any)),
            FlowTest::Not(test) => FlowTest::Not(Box::new(test.over(table))),
            other => other,
        }
    }

    /// The table of all tests, where they are tests of fields of one table, without `not`.
    fn only_table(&self) -> Option<&'static str> {
        match self {
            FlowTest::Field(test) => Some(test.field.table),
            FlowTest::All(tests) | FlowTest::Any(tests) => {
                let mut tables = tests.iter().map(FlowTest::only_table);
                let first = tables.next()??;
                tables.all(|table| table == Some(first)).then_some(first)
            }
            _ => None,
        }
    }

    /// The test of a flow's reverse direction, in which the responder sends.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let each = |tests: &[FlowTest]| tests.iter().map(FlowTest::reversed).collect();
        let turned = |ends: Endpoints| match ends {
            Endpoints::Source => Endpoints::Destination,
            Endpoints::Destination => Endpoints::Source,
            other => other,
        };
        match self {
            FlowTest::All(tests) => FlowTest::All(each(tests)),
            FlowTest::Any(tests) => FlowTest::Any(each(tests)),
            FlowTest::Not(test) => FlowTest::Not(Box::new(test.reversed())),
            FlowTest::Address(ends, low, high) => FlowTest::Address(turned(*ends), *low, *high),
            FlowTest::Port(ends, low, high) => FlowTest::Port(turned(*ends), *low, *high),
            other => other.clone(),
        }
    }

    /// Whether it tells a sender from a receiver, so that it may hold for one direction of a flow alone.
    pub fn is_directed(&self) -> bool {
        match self {
            FlowTest::All(tests) | FlowTest::Any(tests) => tests.iter().any(FlowTest::is_directed),
            FlowTest::Not(test) => test.is_directed(),
            FlowTest::Address(ends, ..) | FlowTest::Port(ends, ..) => {
                matches!(ends, Endpoints::Source | Endpoints::Destination)
            }
            _ => false,
        }
    }

    /// The directions of a flow for which it holds: both or none if it tells no sender from a receiver.
    pub fn directions<R: FlowRow + ?Sized>(&self, flow: &R) -> Directions {
        let forward = self.holds(flow);
        let reverse = if self.is_directed() { self.reversed().holds(flow) } else { forward };
        Directions { forward, reverse }
    }

    /// Calls `visit` with every test of a field.
    pub fn fields<'t>(&'t self, visit: &mut dyn FnMut(&'t FieldTest)) {
        match self {
            FlowTest::All(tests) | FlowTest::Any(tests) => {
                tests.iter().for_each(|test| test.fields(visit));
            }
            FlowTest::Not(test) | FlowTest::Row(_, test) => test.fields(visit),
            FlowTest::Field(test) => visit(test),
            _ => {}
        }
    }

    /// Whether it holds for every row, as it is written.
    pub fn is_always(&self) -> bool {
        matches!(self, FlowTest::All(tests) if tests.is_empty())
    }

    /// A test of the key of a flow that holds for every flow of which a row, or a record, can satisfy this one. Its
    /// directions are those of packets: a flow is meant if one of them satisfies it.
    #[must_use]
    pub fn possible(&self) -> FlowTest {
        self.bound(true)
    }

    /// A test of the key that holds where this one can hold (`may`), or one that holds only where this one does.
    fn bound(&self, may: bool) -> FlowTest {
        match self {
            FlowTest::Field(_) | FlowTest::Row(..) if may => Self::ALWAYS,
            FlowTest::Field(_) | FlowTest::Row(..) => Self::NEVER,
            FlowTest::Not(test) => Self::not(test.bound(!may)),
            FlowTest::All(tests) => Self::all(tests.iter().map(|test| test.bound(may))),
            FlowTest::Any(tests) => Self::any(tests.iter().map(|test| test.bound(may))),
            key => key.clone(),
        }
    }

    /// The test that holds for every row, and the one that holds for none, as they are written.
    pub(crate) const ALWAYS: Self = FlowTest::All(Vec::new());
    pub(crate) const NEVER: Self = FlowTest::Any(Vec::new());

    /// A test that holds where another one does not.
    pub(crate) fn not(test: Self) -> Self {
        match test {
            test if test.is_never() => Self::ALWAYS,
            test if test.is_always() => Self::NEVER,
            test => FlowTest::Not(Box::new(test)),
        }
    }

    /// A test that holds where all of these do, without those that always hold.
    pub(crate) fn all(tests: impl Iterator<Item = Self>) -> Self {
        let all: Vec<Self> = tests.filter(|test| !test.is_always()).collect();
        if all.iter().any(Self::is_never) { Self::NEVER } else { FlowTest::All(all) }
    }

    /// A test that holds where one of these does, without those that never hold.
    pub(crate) fn any(tests: impl Iterator<Item = Self>) -> Self {
        let any: Vec<Self> = tests.filter(|test| !test.is_never()).collect();
        if any.iter().any(Self::is_always) { Self::ALWAYS } else { FlowTest::Any(any) }
    }

    /// Whether it holds for no row, as it is written.
    pub(crate) fn is_never(&self) -> bool {
        matches!(self, FlowTest::Any(tests) if tests.is_empty())
    }

    /// Whether the test holds for a row.
    pub fn holds<R: FlowRow + ?Sized>(&self, row: &R) -> bool {
        let flow = row.endpoints();
        match self {
            FlowTest::All(all) => all.iter().all(|test| test.holds(row)),
            FlowTest::Any(any) => any.iter().any(|test| test.holds(row)),
            FlowTest::Not(test) => !test.holds(row),
            FlowTest::Field(test) => row.field(test),
            FlowTest::Row(table, test) => row.has_row(table, test),
            FlowTest::IsV4(wanted) => {
                let [source, _] = flow.address;
                (V4.0..=V4.1).contains(&u128::from_be_bytes(source)) == *wanted
            }
            FlowTest::Protocol(protocol) => flow.protocol == *protocol,
            FlowTest::Vlan(None) => flow.vlan != 0,
            FlowTest::Vlan(Some(vlan)) => flow.vlan == *vlan,
            FlowTest::Address(ends, low, high) => {
                ends.hold(flow.address.map(|address| (*low..=*high).contains(&u128::from_be_bytes(address))))
            }
            FlowTest::Port(ends, low, high) => {
                ends.hold(flow.port.map(|port| (*low..=*high).contains(&port)))
            }
        }
    }
}

impl Endpoints {
    fn hold(self, [source, destination]: [bool; 2]) -> bool {
        match self {
            Endpoints::Source => source,
            Endpoints::Destination => destination,
            Endpoints::Either => source || destination,
            Endpoints::Both => source && destination,
            Endpoints::Client => source,
            Endpoints::Server => destination,
        }
    }
}

/// A tree without its tests of fields; `None` where nothing is left.
fn without_fields(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Test(test) if matches!(test.primitive, Primitive::Field(_)) => None,
        Expr::Test(_) => Some(expr.clone()),
        Expr::Not(inner) => without_fields(inner).map(|inner| Expr::Not(Box::new(inner))),
        Expr::Chain(first, rest) => {
            let first = without_fields(first).map(|first| (Connective::And, first));
            let rest =
                rest.iter().filter_map(|(connective, next)| Some((*connective, without_fields(next)?)));
            let mut left = first.into_iter().chain(rest);
            let (_, first) = left.next()?;
            let rest: Vec<_> = left.collect();
            Some(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
        }
    }
}

/// The tree of an expression that may test fields.
pub(crate) fn tree(text: &str, options: &Options<'_>) -> Result<Option<Expr>, FilterError> {
    parse_with_fields(text, options.resolver, options.fields)
}

/// The field at the beginning of its test.
pub(crate) fn first_word(test: &str) -> &str {
    let end =
        test.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(test.len());
    test.get(..end).unwrap_or_default()
}

/// The most levels of a test. Each change between `and` and `or` is one, as is each negation.
const MAX_DEPTH: usize = 256;

/// A tree as a test, and the number of its levels.
fn of(text: &str, expr: &Expr) -> Result<(FlowTest, usize), FilterError> {
    Ok(match expr {
        Expr::Test(test) => (primitive(text, test)?, 2),
        Expr::Not(inner) => {
            let (test, depth) = of(text, inner)?;
            (FlowTest::Not(Box::new(test)), depth + 1)
        }
        Expr::Chain(first, rest) => {
            let (mut sum, mut depth) = of(text, first)?;
            // An operand in parentheses stays an operand.
            let mut joined = None;
            for (connective, operand) in rest {
                let (operand, below) = of(text, operand)?;
                // Long chains of one connective stay flat.
                if joined != Some(*connective) {
                    sum = match connective {
                        Connective::And => FlowTest::All(vec![sum]),
                        Connective::Or => FlowTest::Any(vec![sum]),
                    };
                    (joined, depth) = (Some(*connective), depth + 1);
                }
                if let FlowTest::All(tests) | FlowTest::Any(tests) = &mut sum {
                    tests.push(operand);
                }
                depth = depth.max(below + 1);
                if depth > MAX_DEPTH {
                    let message = format!("more than {MAX_DEPTH} changes between `and`, `or` and `not`");
                    return Err(FilterError::new(ErrorKind::TooComplex, 0..text.len(), message));
                }
            }
            (sum, depth)
        }
    })
}

/// The test of an end of a flow by its field, as `flow.client = 10.0.0.0/8` or `flow.server_port = 443`: the flow's key decides it.
pub(crate) fn of_end(test: &FieldTest) -> Option<FlowTest> {
    let Operation::Compare(comparison, operand) = &test.operation else { return None };
    let ends = match test.field.name {
        "client" | "client_port" => Endpoints::Client,
        "server" | "server_port" => Endpoints::Server,
        _ => return None,
    };
    let found = match operand {
        _ if test.field.table != FLOW => return None,
        Operand::Addresses(addresses) => FlowTest::Address(ends, addresses.low, addresses.high),
        Operand::Number(Number::Whole(port)) => {
            let port = u16::try_from(*port).ok()?;
            FlowTest::Port(ends, port, port)
        }
        _ => return None,
    };
    match comparison {
        Comparison::Equal => Some(found),
        Comparison::NotEqual => Some(FlowTest::Not(Box::new(found))),
        _ => None,
    }
}

/// Refuses tests of a sender or a receiver, which a packet has: a record belongs to a flow, whose ends are its client and its server.
///
/// # Errors
///
/// There is such a test. The error has the position and names the fields of the ends.
pub(crate) fn refuse_directions(text: &str, expr: &Expr) -> Result<(), FilterError> {
    let mut found = None;
    expr.visit(&mut |test| {
        let Primitive::Id(Qualifiers { direction: Side::Src | Side::Dst, .. }, _) = &test.primitive else {
            return;
        };
        found.get_or_insert(test.span.clone());
    });
    let Some(span) = found else { return Ok(()) };
    let message = "`src` and `dst` are the ends of a packet, and a record has no direction: test the ends of its flow, \
                   `flow.client`, `flow.server`, `flow.client_port` and `flow.server_port`, as `flow.client = 10.0.0.0/8`";
    Err(FilterError::new(ErrorKind::Level, span, message).within(text))
}

/// Whether a flow's key decides a test.
pub(crate) fn is_of_key(test: &Test) -> bool {
    primitive("", test).is_ok()
}

/// The message about a test that a flow's key does not decide.
pub(crate) fn needs_packets(part: &str) -> String {
    let part: String = part.chars().take(40).collect();
    format!(
        "`{part}` is decided per packet, and only packets have it (level = \"packet\"); flows and records have addresses, nets, ports, protocols and vlan"
    )
}

fn primitive(text: &str, test: &Test) -> Result<FlowTest, FilterError> {
    let refused = || {
        let part = text.get(test.span.clone()).unwrap_or_default();
        FilterError::new(ErrorKind::Level, test.span.clone(), needs_packets(part))
    };
    match &test.primitive {
        Primitive::Protocol(protocol) => known(*protocol).ok_or_else(refused),
        Primitive::Vlan(id) => Ok(FlowTest::Vlan(id.and_then(|id| u16::try_from(id).ok()))),
        Primitive::Multicast(Some(Protocol::Ip)) => {
            let [low, high] = [[224, 0, 0, 0], [255; 4]].map(|v4| u128::from_be_bytes(mapped(v4)));
            Ok(FlowTest::Address(Endpoints::Destination, low, high))
        }
        Primitive::Multicast(Some(Protocol::Ip6)) => {
            Ok(FlowTest::Address(Endpoints::Destination, 0xff << 120, u128::MAX))
        }
        Primitive::Id(qualifiers, id) => named(*qualifiers, id).ok_or_else(refused),
        Primitive::Field(test) => Ok(of_end(test).unwrap_or_else(|| FlowTest::Field((**test).clone()))),
        _ => Err(refused()),
    }
}

/// A protocol by itself.
fn known(protocol: Protocol) -> Option<FlowTest> {
    let over = |number: u32| FlowTest::Protocol(number as u8);
    let v4 = |number: u8| FlowTest::All(vec![FlowTest::IsV4(true), FlowTest::Protocol(number)]);
    Some(match protocol {
        Protocol::Ip => FlowTest::IsV4(true),
        Protocol::Ip6 => FlowTest::IsV4(false),
        Protocol::Tcp => over(ip_protocol::TCP),
        Protocol::Udp => over(ip_protocol::UDP),
        Protocol::Sctp => over(ip_protocol::SCTP),
        Protocol::Pim => over(ip_protocol::PIM),
        Protocol::Ah => over(ip_protocol::AH),
        Protocol::Esp => over(ip_protocol::ESP),
        Protocol::Icmp => v4(ip_protocol::ICMP as u8),
        Protocol::Igmp => v4(ip_protocol::IGMP as u8),
        Protocol::Igrp => v4(ip_protocol::IGRP as u8),
        Protocol::Vrrp | Protocol::Carp => v4(ip_protocol::VRRP as u8),
        Protocol::Icmp6 => FlowTest::Protocol(ip_protocol::ICMPV6 as u8),
        _ => return None,
    })
}

fn named(q: Qualifiers, id: &Id) -> Option<FlowTest> {
    let ends = match q.direction {
        Side::Default | Side::SrcOrDst => Endpoints::Either,
        Side::Src => Endpoints::Source,
        Side::Dst => Endpoints::Destination,
        Side::SrcAndDst => Endpoints::Both,
        _ => return None,
    };
    let test = match q.kind {
        IdKind::Port | IdKind::PortRange => return ports(q, ends, id),
        IdKind::Proto => {
            let number = match id {
                Id::Number(number) => *number,
                Id::Name(name, _) => lookup(IP_PROTOCOLS, name)?,
                _ => return None,
            };
            FlowTest::Protocol(u8::try_from(number).ok()?)
        }
        IdKind::Default | IdKind::Host | IdKind::Net => addresses(q, ends, id)?,
        IdKind::ProtoChain | IdKind::Gateway => return None,
    };
    Some(match q.protocol {
        None => test,
        Some(Protocol::Ip) => FlowTest::All(vec![FlowTest::IsV4(true), test]),
        Some(Protocol::Ip6) => FlowTest::All(vec![FlowTest::IsV4(false), test]),
        Some(_) => return None,
    })
}

fn addresses(q: Qualifiers, ends: Endpoints, id: &Id) -> Option<FlowTest> {
    if let Some((address, mask)) = meaning::v4(id, q.kind == IdKind::Net) {
        // A mask with gaps is no range.
        let is_prefix = mask.leading_ones() + mask.trailing_zeros() >= 32;
        let [low, high] =
            [address & mask, address | !mask].map(|v4| u128::from_be_bytes(mapped(v4.to_be_bytes())));
        return is_prefix.then_some(FlowTest::Address(ends, low, high));
    }
    if let Some((address, mask)) = meaning::v6(id) {
        return Some(FlowTest::Address(ends, address & mask, address | !mask));
    }
    match id {
        Id::Name(_, resolved) if q.kind != IdKind::Net => {
            let each = resolved.addresses.iter().map(|address| {
                let address = match address {
                    IpAddr::V4(v4) => mapped(v4.octets()),
                    IpAddr::V6(v6) => v6.octets(),
                };
                let address = u128::from_be_bytes(address);
                FlowTest::Address(ends, address, address)
            });
            Some(FlowTest::Any(each.collect())).filter(|_| !resolved.addresses.is_empty())
        }
        _ => None,
    }
}

fn ports(q: Qualifiers, ends: Endpoints, id: &Id) -> Option<FlowTest> {
    let meaning::Ports { low, high, protocol: of } = meaning::ports(q.kind, id)?;
    let wanted = match q.protocol {
        None => of,
        Some(Protocol::Tcp) => Some(ip_protocol::TCP),
        Some(Protocol::Udp) => Some(ip_protocol::UDP),
        Some(Protocol::Sctp) => Some(ip_protocol::SCTP),
        Some(_) => return None,
    };
    let protocol = match wanted {
        Some(protocol) => FlowTest::Protocol(protocol as u8),
        // The types of ICMP are stored in place of ports.
        None => {
            let all = [ip_protocol::TCP, ip_protocol::UDP, ip_protocol::SCTP];
            FlowTest::Any(all.map(|protocol| FlowTest::Protocol(protocol as u8)).into())
        }
    };
    Some(FlowTest::All(vec![protocol, FlowTest::Port(ends, low, high)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: [u8; 4], sport: u16, destination: [u8; 4], dport: u16, protocol: u8) -> FlowEndpoints {
        FlowEndpoints {
            address: [mapped(source), mapped(destination)],
            port: [sport, dport],
            protocol,
            vlan: 7,
        }
    }

    fn parse(text: &str) -> Result<FlowTest, FilterError> {
        FlowTest::parse(text, &Options::default())
    }

    #[test]
    fn flows_are_tested_by_the_fields_of_their_rows() {
        let web = flow([10, 0, 0, 1], 40_000, [192, 0, 2, 9], 443, 6);
        for (text, holds) in [
            ("", true),
            ("host 10.0.0.1", true),
            ("src host 10.0.0.1 and dst port 443", true),
            ("dst host 10.0.0.1", false),
            ("net 10.0.0.0/8 and not udp", true),
            ("src and dst net 10.0.0.0/8", false),
            ("dst net 192.0.2.0/24 or tcp port 22", true),
            ("dst net 192.0.2.0 mask 255.255.255.0", true),
            ("portrange 440-450", true),
            ("udp port 443", false),
            ("ip6", false),
            ("ip proto \\tcp", true),
            ("vlan 7", true),
            ("vlan 8", false),
            ("vlan", true),
            ("port https", true),
            ("ip multicast", false),
            ("not (src host 10.0.0.1 or src host 10.0.0.2)", false),
        ] {
            let test = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(test.holds(&web), holds, "{text}: {test:?}");
        }
        let six = FlowEndpoints { address: [[0x20; 16], [0xff; 16]], ..web };
        assert!(parse("ip6 and dst net ff00::/8").unwrap().holds(&six));
        assert!(!parse("src net 10").unwrap().holds(&six));
        let ping = flow([10, 0, 0, 1], 8, [10, 0, 0, 2], 0, 1);
        assert!(parse("icmp").unwrap().holds(&ping) && !parse("port 8").unwrap().holds(&ping));
    }

    #[test]
    fn tests_of_packets_are_errors_with_a_position() {
        for (text, place) in [
            ("host 10.0.0.1 and len > 100", "len > 100"),
            ("tcp[13] & 2 != 0", "tcp[13] & 2 != 0"),
            ("arp", "arp"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(text.get(error.span.clone()), Some(place), "{error}");
            assert!(error.message.contains("only packets have"), "{error}");
            assert!(error.message.contains(&format!("`{place}`")), "{error}");
            assert_eq!(error.kind, ErrorKind::Level);
            assert_eq!(FlowTest::of_key(text, &Options::default()), Err(error));
        }
        assert!(parse("hst 10").is_err());
        assert!(parse("net 10.0.0.1 mask 255.0.255.0").is_err());
    }
}
