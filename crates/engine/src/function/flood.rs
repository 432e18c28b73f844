//! Who is flooded, and with what: packets by destination, kind, protocol and port, their sources, and what was answered.

mod judge;
mod sums;

pub(super) use sums::FLOODED;

use super::ends::EndpointRoles;
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::bounded::{Amount, Bounded, kept};
use crate::keyed::{Address, KeyHash, Keyed};
use crate::{Item, Tally};
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{
    Count, Datum, Distinct, DistinctValues, Fold, Folded, KeyColumn, Level, OWN_WORDS, Reading, Schema,
    Shown, TableColumn, TableRow, Unit,
};
use weir_wire::build::flags::{ACK, RST, SYN};
use weir_wire::has_ports;

pub(super) static FLOOD: FunctionSpec = FunctionSpec {
    name: "flood",
    help: "Hosts by what is sent to them: SYNs, datagrams and ICMP; SYNs with ACK, RSTs and datagrams of servers that they did not ask for; and fragments without a first one. A flood has many packets of many sources, and few that are answered.",
    arguments: &[
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of rows to keep, 16 to 65536.", default: Some("1024") },
    ],
    levels: &[Level::Packet],
    input: InputKind::Control,
    memory: |arguments| {
        let (_, rows) = shape(arguments)?;
        let kept = kept(rows);
        Ok(Memory {
            state: 256 + Bounded::<Subject, Received>::bytes(rows) + kept * SOURCES,
            reading: 1024 + kept * (ROW + SOURCES),
        })
    },
    judge: Some(|_, _| Ok(Box::new(judge::Floods))),
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (show, rows) = shape(arguments)?;
        let schema = Schema { shown: Shown::Heaviest(show), ..SCHEMA };
        let list = Bounded::new(rows, Unit::Packets, arguments.seeds.run);
        Ok(Box::new(Flood { schema: Arc::new(schema), list }))
    },
};

/// Rows to show and to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(u32, usize), String> {
    Ok((arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 16)?))
}

static KEYS: [KeyColumn; 5] = [
    KeyColumn::new("destination", "", "The host that the packets are sent to."),
    KeyColumn::new(
        "kind",
        OWN_WORDS,
        "`syn`: SYNs without ACK; `udp`: datagrams; `icmp`; of what the host did not ask for, `synack`: SYNs with ACK, `rst`: RSTs, `reflected`: datagrams of servers; `fragment`: fragments without a first one.",
    ),
    KeyColumn::new(
        "service",
        OWN_WORDS,
        "The service that reflects what the host did not ask for: `tcp`, a service over UDP by its port, or `udp` for others; none for other kinds.",
    ),
    KeyColumn::new("protocol", "", "The IP protocol number."),
    KeyColumn::new(
        "port",
        "",
        "The port of the flow's responder: of the destination, or of the servers that reflect; none for ICMP and fragments.",
    ),
];

static COLUMNS: [TableColumn; 4] = [
    TableColumn::new("packets", Fold::Sum, "packets", "Packets that were sent to the host."),
    TableColumn::new("bytes", Fold::Sum, "bytes", "Bytes of their frames."),
    TableColumn::new("sources", Fold::Distinct, "", "Number of their source addresses."),
    TableColumn::new(
        "answered",
        Fold::Sum,
        "packets",
        "What the host sent back: SYNs with ACK from the port, or packets of the responder in flows of UDP and ICMP.",
    ),
];

const SCHEMA: Schema = Schema {
    name: Cow::Borrowed("flood"),
    keys: Cow::Borrowed(&KEYS),
    columns: Cow::Borrowed(&COLUMNS),
    shown: Shown::Heaviest(10),
};

/// Bytes of a row of a reading without its sources; no word of a key is longer than eight bytes by two.
const ROW: usize =
    size_of::<TableRow>() + KEYS.len() * size_of::<Datum>() + 32 + COLUMNS.len() * size_of::<Folded>();

/// Maximum bytes of the sources of a row.
const SOURCES: usize = Distinct::SIZE;

/// Sources below this number, of ::/112, are taken as one: the unspecified and the loopback address, and addresses that no host
/// has. Without them no number of sources needs more memory than [`SOURCES`].
const LOWEST: u128 = 1 << 16;

/// IP protocol numbers.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Services over UDP whose answers are larger than their questions, by port: those of "UDP-Based Amplification Attacks"
/// (US-CERT, TA14-017A) that have a port of their own, and QUIC and ISAKMP.
static SERVICES: [(u16, &str); 16] = [
    (17, "qotd"),
    (19, "chargen"),
    (53, "dns"),
    (111, "portmap"),
    (123, "ntp"),
    (137, "netbios"),
    (161, "snmp"),
    (389, "ldap"),
    (443, "quic"),
    (500, "isakmp"),
    (520, "rip"),
    (1900, "ssdp"),
    (3702, "wsd"),
    (4500, "isakmp"),
    (5353, "mdns"),
    (11211, "memcached"),
];

/// The name of a service over UDP.
fn service(port: u16) -> Option<&'static str> {
    SERVICES.iter().find(|(of, _)| *of == port).map(|(_, name)| *name)
}

/// What a host receives.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Kind {
    #[default]
    Syn,
    SynAck,
    Rst,
    Udp,
    Reflected,
    Fragment,
    Icmp,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::SynAck => "synack",
            Self::Rst => "rst",
            Self::Udp => "udp",
            Self::Reflected => "reflected",
            Self::Fragment => "fragment",
            Self::Icmp => "icmp",
        }
    }

    /// The service that reflects it from a port.
    fn service(self, port: u16) -> Option<&'static str> {
        match self {
            Self::SynAck | Self::Rst => Some("tcp"),
            Self::Reflected => Some(service(port).unwrap_or("udp")),
            Self::Syn | Self::Udp | Self::Fragment | Self::Icmp => None,
        }
    }
}

/// The key of a row.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Subject {
    host: Address,
    kind: Kind,
    protocol: u8,
    /// The responder's port; 0 where the kind has none.
    port: u16,
}

impl Subject {
    fn parts(self) -> Vec<Datum> {
        let has_port = !matches!(self.kind, Kind::Fragment | Kind::Icmp);
        let service = self.kind.service(self.port);
        vec![
            Datum::Address(ip(self.host)),
            Datum::Text(self.kind.name().into()),
            service.map_or(Datum::Nothing, |name| Datum::Text(name.into())),
            Datum::Number(self.protocol.into()),
            if has_port { Datum::Number(self.port.into()) } else { Datum::Nothing },
        ]
    }
}

impl Keyed for Subject {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let rest = (self.kind as u64) << 32 | u64::from(self.protocol) << 16 | u64::from(self.port);
        hash.of([self.host[0], self.host[1], rest])
    }
}

/// What a host received, and what it sent back.
#[derive(Clone, Debug, Default)]
struct Received {
    count: Count,
    answered: u64,
    sources: DistinctValues,
    error: u32,
}

/// Packets of a row.
#[derive(Clone, Copy, Debug)]
enum More {
    /// Packets from a source.
    From(Address, Count),
    /// Packets that the host sent back.
    Answered(u64),
}

impl Amount for Received {
    type More = More;
    /// Answers have no weight.
    const LEAST: u32 = 0;

    fn weight_of(more: &More, unit: Unit) -> u64 {
        Self::count_of(more).in_unit(unit)
    }

    fn count_of(more: &More) -> Count {
        match more {
            More::From(_, count) => *count,
            More::Answered(_) => Count::default(),
        }
    }

    fn add(&mut self, more: &More, unit: Unit, _: usize) -> u64 {
        match more {
            More::From([high, low], count) => {
                self.count.add(count);
                let source = u128::from(*high) << 64 | u128::from(*low);
                self.sources.add(source.max(LOWEST));
            }
            More::Answered(packets) => self.answered += packets,
        }
        Self::weight_of(more, unit)
    }

    fn memory(&self) -> usize {
        self.sources.memory()
    }

    fn weight(&self, unit: Unit) -> u64 {
        self.count.in_unit(unit)
    }

    fn count(&self) -> Count {
        self.count
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

/// Packets of a row.
type Addition = (Subject, More);

/// Packets that their destination receives.
fn received(kind: Kind, ends: &EndpointRoles, port: u16, count: Count) -> Addition {
    let subject = Subject { host: ends.destination, kind, protocol: ends.protocol, port };
    (subject, More::From(ends.source, count))
}

/// Packets with which their source answers what it receives at its port.
fn answered(kind: Kind, ends: &EndpointRoles, packets: u64) -> Addition {
    let port = if kind == Kind::Icmp { 0 } else { ends.ports[0] };
    let subject = Subject { host: ends.source, kind, protocol: ends.protocol, port };
    (subject, More::Answered(packets))
}

/// What a packet of TCP with these flags adds.
fn of_segment(ends: &EndpointRoles, flags: u8, is_unasked: bool, count: Count) -> Option<Addition> {
    let [from, to] = ends.ports;
    match (flags & (SYN | ACK), is_unasked) {
        (SYN, _) => Some(received(Kind::Syn, ends, to, count)),
        (both, true) if both == SYN | ACK => Some(received(Kind::SynAck, ends, from, count)),
        (both, false) if both == SYN | ACK => Some(answered(Kind::Syn, ends, count.packets)),
        (_, true) if flags & RST != 0 => {
            let port = if is_from_initiator(ends) { to } else { from };
            Some(received(Kind::Rst, ends, port, count))
        }
        _ => None,
    }
}

/// What packets of a direction of a flow that is not TCP add, and fragments.
fn of_datagrams(ends: &EndpointRoles, is_unasked: bool, count: Count) -> Option<Addition> {
    let [from, to] = ends.ports;
    let is_first = is_from_initiator(ends);
    Some(match ends.protocol {
        protocol if has_ports(protocol) && ends.ports == [0, 0] => received(Kind::Fragment, ends, 0, count),
        UDP if is_unasked && is_reflected(ends) => received(Kind::Reflected, ends, from, count),
        UDP if is_first => received(Kind::Udp, ends, to, count),
        UDP => answered(Kind::Udp, ends, count.packets),
        ICMP | ICMPV6 if is_first => received(Kind::Icmp, ends, 0, count),
        ICMP | ICMPV6 => answered(Kind::Icmp, ends, count.packets),
        _ => return None,
    })
}

/// What an item adds.
fn of_item(item: &Item<'_>) -> Option<Addition> {
    let ends = EndpointRoles::of(item)?;
    let count = item.count();
    // Packets of a flow without ports are fragments.
    let is_segment = ends.protocol == TCP && ends.ports != [0, 0];
    match item {
        // Control packets are in tallies too.
        Item::Control(control) if is_segment => {
            let Tally { unasked, begins, .. } = control.tally;
            // What an initiator sends later belongs to what it began.
            let is_unasked = unasked && (begins || !is_from_initiator(&ends));
            of_segment(&ends, control.flags, is_unasked, count)
        }
        Item::Tally(tally) if !is_segment => of_datagrams(&ends, tally.unasked, count),
        // Where an expression selects packets, it is not known what was asked for.
        Item::Packet(_, layers) if is_segment => of_segment(&ends, layers.tcp_flags, false, count),
        Item::Packet(..) => of_datagrams(&ends, false, count),
        _ => None,
    }
}

/// Whether the source began the flow; the lower port is taken as the responder's if that is not known.
fn is_from_initiator(ends: &EndpointRoles) -> bool {
    let [from, to] = ends.ports;
    ends.from_initiator.unwrap_or(to <= from)
}

/// Whether datagrams that were not asked for are from a server: the flow table takes the source as the responder, or it has the
/// port of a service. Where both ports are that of a service, clients use it too: the flow table knows questions from answers.
fn is_reflected(ends: &EndpointRoles) -> bool {
    let [from, to] = ends.ports;
    !is_from_initiator(ends) || from != to && service(from).is_some()
}

struct Flood {
    schema: Arc<Schema>,
    list: Bounded<Subject, Received>,
}

impl Function for Flood {
    fn item(&mut self, item: &Item<'_>) {
        if let Some((subject, more)) = of_item(item) {
            self.list.add_more(subject, more);
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        self.list.take_table(&self.schema, |subject, Received { count, answered, sources, .. }| {
            let values = vec![
                Folded::Sum(count.packets),
                Folded::Sum(count.bytes),
                Folded::Distinct(sources),
                Folded::Sum(answered),
            ];
            (subject.parts(), values)
        })
    }
}

#[cfg(test)]
mod tests;
