//! Errors of ICMP and ICMPv6, by who drew them, who sent them, or the service that they are about.

use super::ends::words;
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::bounded::{Bounded, Numbers, Summed, kept};
use crate::item::each_error;
use crate::keyed::{Address, KeyHash, Keyed};
use crate::uncommon::Uncommon;
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{Datum, Fold, Folded, KeyColumn, Level, Reading, Schema, Shown, TableColumn, TableRow, Unit};
use weir_wire::{Layers, Packet, Quoted, addresses, has_ports};

pub(super) static ICMPERROR: FunctionSpec = FunctionSpec {
    name: "icmperror",
    help: "Errors of ICMP and ICMPv6 by the host that they return to, which drew them, by the host that sent them, or by the service that they are about. An error quotes the packet that it is about. What it quotes is the claim of its sender.",
    arguments: &[
        Argument {
            name: "by",
            help: "`drawn`: the host that the errors return to; `sent`: the host that sent them; `service`: protocol and destination port of the quoted packet.",
            default: Some("drawn"),
        },
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of rows to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Packet],
    input: InputKind::Uncommon(Uncommon::IcmpErrors),
    memory: |arguments| {
        let (_, _, rows) = shape(arguments)?;
        let kept = kept(rows);
        Ok(Memory {
            state: 256 + Bounded::<Subject, Summed<Errors>>::bytes(rows),
            reading: 1024 + kept * ROW,
        })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (by, show, rows) = shape(arguments)?;
        let schema = Schema {
            name: Cow::Borrowed("icmperror"),
            keys: Cow::Borrowed(by.keys()),
            columns: Cow::Borrowed(&COLUMNS),
            shown: Shown::Heaviest(show),
        };
        let list = Bounded::new(rows, Unit::Packets, arguments.seeds.run);
        Ok(Box::new(IcmpErrors { by, schema: Arc::new(schema), list }))
    },
};

/// What the rows are by, rows to show, and rows to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(By, u32, usize), String> {
    let by = arguments.choice("by", &[("drawn", By::Drawn), ("sent", By::Sent), ("service", By::Service)])?;
    Ok((by, arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 20)?))
}

/// What a row is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Drawn,
    Sent,
    Service,
}

impl By {
    fn keys(self) -> &'static [KeyColumn] {
        static DRAWN: [KeyColumn; 1] = [KeyColumn::new("host", "", "The host that the errors return to.")];
        static SENT: [KeyColumn; 1] = [KeyColumn::new("host", "", "The host that sent the errors.")];
        static SERVICE: [KeyColumn; 2] = [
            KeyColumn::new(
                "protocol",
                "",
                "The IP protocol number of the quoted packets; none where no packet of IP is quoted.",
            ),
            KeyColumn::new(
                "port",
                "",
                "The destination port of the quoted packets; none for protocols without ports.",
            ),
        ];
        match self {
            Self::Drawn => &DRAWN,
            Self::Sent => &SENT,
            Self::Service => &SERVICE,
        }
    }
}

/// A column of errors.
const fn errors(name: &'static str, help: &'static str) -> TableColumn {
    TableColumn::new(name, Fold::Sum, "packets", help)
}

static COLUMNS: [TableColumn; Kind::NUMBER + 6] = [
    errors("errors", "Errors of all kinds."),
    errors(
        "unreachable",
        "Destination unreachable: the network, the host or the protocol, and of ICMPv6 no route and address unreachable.",
    ),
    errors("port_unreachable", "Port unreachable."),
    errors("prohibited", "Destination unreachable because a filter or a rule forbids it."),
    errors("too_big", "Fragmentation needed, and packet too big."),
    errors("redirect", "Redirects to another router. ICMPv6 redirects are no errors and not among them."),
    errors("time_exceeded", "Time exceeded, in transit or in reassembly."),
    errors("other", "Source quench and parameter problem."),
    errors("tcp", "Errors that quote TCP."),
    errors("udp", "Errors that quote UDP."),
    errors("icmp", "Errors that quote ICMP or ICMPv6."),
    errors(
        "foreign",
        "Errors that quote a packet of another sender than the host that they return to: forged ones, and such across a translation of addresses.",
    ),
    errors("unreadable", "Errors that quote no packet of IP, or too little of one for its addresses."),
];

/// Bytes of a row of a reading.
const ROW: usize = size_of::<TableRow>() + 2 * size_of::<Datum>() + COLUMNS.len() * size_of::<Folded>();

/// The kind of an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Unreachable,
    Port,
    Prohibited,
    TooBig,
    Redirect,
    Time,
    Other,
}

impl Kind {
    const NUMBER: usize = 7;

    /// The kind of an error by its type and code: ICMP (RFC 792, RFC 1812 5.2.7), ICMPv6 (RFC 4443 3).
    fn of(layers: &Layers) -> Self {
        match (layers.ip_proto, layers.ports) {
            (1, [3, 3]) | (58, [1, 4]) => Self::Port,
            (1, [3, 4]) | (58, [2, _]) => Self::TooBig,
            // Network, host and communication administratively prohibited; source address failed a policy, and a rejected route.
            (1, [3, 9 | 10 | 13]) | (58, [1, 1 | 5 | 6]) => Self::Prohibited,
            (1, [3, _]) | (58, [1, _]) => Self::Unreachable,
            (1, [5, _]) => Self::Redirect,
            (1, [11, _]) | (58, [3, _]) => Self::Time,
            _ => Self::Other,
        }
    }
}

/// What an error counts to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Subject {
    host: Address,
    /// Protocol and port of a service; 0 for a protocol without ports.
    service: (u8, u16),
    /// Whether the quote shows the protocol.
    has_protocol: bool,
}

impl Keyed for Subject {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let (protocol, port) = self.service;
        let service = u64::from(self.has_protocol) << 32 | u64::from(protocol) << 16 | u64::from(port);
        hash.of([self.host[0], self.host[1], service])
    }
}

/// Errors of a subject.
#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    kinds: [u64; Kind::NUMBER],
    tcp: u64,
    udp: u64,
    icmp: u64,
    foreign: u64,
    unreadable: u64,
}

impl Errors {
    /// One error. `is_foreign`: the quoted packet has another sender than the host that the error returns to.
    fn one(kind: Kind, protocol: Option<u8>, is_foreign: bool) -> Self {
        let mut kinds = [0; Kind::NUMBER];
        kinds[kind as usize] = 1;
        let is = |protocols: &[u8]| u64::from(protocol.is_some_and(|of| protocols.contains(&of)));
        Self {
            kinds,
            tcp: is(&[6]),
            udp: is(&[17]),
            icmp: is(&[1, 58]),
            foreign: is_foreign.into(),
            unreadable: protocol.is_none().into(),
        }
    }
}

impl Numbers for Errors {
    /// Each error counts.
    const LEAST: u32 = 1;

    fn weight(&self) -> u64 {
        self.kinds.iter().sum()
    }

    fn add(&mut self, other: &Self) {
        self.kinds.iter_mut().zip(other.kinds).for_each(|(sum, more)| *sum += more);
        self.tcp += other.tcp;
        self.udp += other.udp;
        self.icmp += other.icmp;
        self.foreign += other.foreign;
        self.unreadable += other.unreadable;
    }
}

struct IcmpErrors {
    by: By,
    schema: Arc<Schema>,
    list: Bounded<Subject, Summed<Errors>>,
}

impl IcmpErrors {
    /// Takes an error, at any level of a packet.
    fn error(&mut self, packet: &Packet<'_>, layers: &Layers, quote: &Quoted<'_>) {
        let Some((from, to)) = addresses(packet, layers) else { return };
        let ends = addresses(&quote.packet, &quote.layers);
        let protocol = ends.map(|_| quote.layers.ip_proto);
        let more = Errors::one(Kind::of(layers), protocol, ends.is_some_and(|(sender, _)| sender != to));
        let subject = match self.by {
            By::Drawn => Subject { host: words(to), ..Subject::default() },
            By::Sent => Subject { host: words(from), ..Subject::default() },
            By::Service => {
                let port = if protocol.is_some_and(has_ports) { quote.layers.ports[1] } else { 0 };
                let service = (protocol.unwrap_or_default(), port);
                Subject { service, has_protocol: protocol.is_some(), ..Subject::default() }
            }
        };
        self.list.add_more(subject, more);
    }

    /// The key of a row.
    fn key(by: By, subject: Subject) -> Vec<Datum> {
        let (protocol, port) = subject.service;
        let number = |is_there: bool, n: u16| if is_there { Datum::Number(n.into()) } else { Datum::Nothing };
        match by {
            By::Drawn | By::Sent => vec![Datum::Address(ip(subject.host))],
            By::Service => vec![
                number(subject.has_protocol, protocol.into()),
                number(subject.has_protocol && has_ports(protocol), port),
            ],
        }
    }
}

impl Function for IcmpErrors {
    fn item(&mut self, item: &Item<'_>) {
        let Item::Packet(packet, layers) = item else { return };
        each_error(packet, layers, |level, quote| self.error(packet, level, quote));
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        let by = self.by;
        self.list.take_table(&self.schema, |subject, Summed { numbers, .. }| {
            let Errors { kinds, tcp, udp, icmp, foreign, unreadable } = numbers;
            let values =
                [numbers.weight()].into_iter().chain(kinds).chain([tcp, udp, icmp, foreign, unreadable]);
            (Self::key(by, subject), values.map(Folded::Sum).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::tests::table_of;
    use weir_api::{FunctionCall, Table};
    use weir_wire::build::{self, flags};
    use weir_wire::{LinkType, decode};

    const HOST: [u8; 4] = [10, 0, 0, 1];
    const SERVER: [u8; 4] = [192, 0, 2, 7];
    const ROUTER: [u8; 4] = [203, 0, 113, 9];

    /// The rows of a list by `by`, as texts `key: column=number ...` without columns of 0.
    fn rows(by: &str, frames: &[Vec<u8>], workers: usize) -> Vec<String> {
        let call = FunctionCall::new("icmperror").with("by", by);
        texts(&table_of(&ICMPERROR, &call, (frames, workers), |function, frame| {
            let packet = build::packet(frame, LinkType::ETHERNET);
            function.item(&Item::Packet(&packet, &decode(&packet)));
        }))
    }

    fn texts(table: &Table) -> Vec<String> {
        let row = |row: &TableRow| {
            let key: Vec<String> = row.key.iter().map(|part| format!("{part:?}")).collect();
            let values = COLUMNS.iter().zip(&row.values).filter(|(_, value)| value.weight() > 0);
            let values: Vec<String> =
                values.map(|(column, value)| format!("{}={}", column.name, value.weight())).collect();
            format!("{}: {}", key.join(" "), values.join(" "))
        };
        let mut texts: Vec<String> = table.rows.iter().map(row).collect();
        texts.sort();
        texts
    }

    fn error(kind: u8, code: u8, from: [u8; 4], quote: &[u8]) -> Vec<u8> {
        build::ethernet().ipv4(from, HOST).icmp(kind, code, [0; 4]).payload(quote)
    }

    fn frames() -> Vec<Vec<u8>> {
        let udp = build::ip().ipv4(HOST, SERVER).udp(4000, 53).payload(b"query");
        let tcp = build::ip().ipv4(HOST, SERVER).tcp(4000, 80, flags::SYN).payload(&[]);
        let ping = build::ip().ipv4(HOST, SERVER).icmp(8, 0, [0; 4]).payload(b"ping");
        let foreign = build::ip().ipv4([198, 51, 100, 1], SERVER).udp(1, 53).payload(b"x");
        vec![
            error(3, 3, SERVER, &udp),
            error(3, 13, ROUTER, &tcp),
            error(3, 1, ROUTER, &tcp[..24]),
            error(3, 4, ROUTER, &tcp),
            error(5, 1, ROUTER, &tcp),
            error(11, 0, ROUTER, &ping),
            error(12, 0, ROUTER, &udp),
            error(3, 3, ROUTER, &foreign),
            error(3, 1, ROUTER, &[0xff; 8]),
            // No errors.
            error(0, 0, SERVER, &udp),
            build::ethernet().ipv4(SERVER, HOST).udp(53, 4000).payload(&udp),
        ]
    }

    #[test]
    fn errors_count_to_hosts_and_services_by_their_kind() {
        let frames = frames();
        assert_eq!(
            rows("drawn", &frames, 1),
            [
                "Address(10.0.0.1): errors=9 unreachable=2 port_unreachable=2 prohibited=1 too_big=1 redirect=1 time_exceeded=1 other=1 tcp=4 udp=3 icmp=1 foreign=1 unreadable=1"
            ]
        );
        assert_eq!(
            rows("sent", &frames, 1),
            [
                "Address(192.0.2.7): errors=1 port_unreachable=1 udp=1",
                "Address(203.0.113.9): errors=8 unreachable=2 port_unreachable=1 prohibited=1 too_big=1 redirect=1 time_exceeded=1 other=1 tcp=4 udp=2 icmp=1 foreign=1 unreadable=1"
            ]
        );
        assert_eq!(
            rows("service", &frames, 1),
            [
                "Nothing Nothing: errors=1 unreachable=1 unreadable=1",
                "Number(1) Nothing: errors=1 time_exceeded=1 icmp=1",
                "Number(17) Number(53): errors=3 port_unreachable=2 other=1 udp=3 foreign=1",
                "Number(6) Number(80): errors=4 unreachable=1 prohibited=1 too_big=1 redirect=1 tcp=4",
            ]
        );
        for by in ["drawn", "sent", "service"] {
            assert_eq!(rows(by, &frames, 3), rows(by, &frames, 1), "{by}");
        }
    }

    #[test]
    fn errors_of_icmpv6_and_in_tunnels_count() {
        let six = |last: u8| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        let tcp = build::ip().ipv6(six(1), six(2)).tcp(4000, 80, flags::SYN).payload(&[]);
        let kinds = [(1, 4), (1, 1), (1, 0), (2, 0), (3, 0), (4, 0)];
        let frames: Vec<Vec<u8>> = kinds
            .iter()
            .map(|(kind, code)| {
                build::ethernet().ipv6(six(9), six(1)).icmp(*kind, *code, [0; 4]).payload(&tcp)
            })
            .collect();
        assert_eq!(
            rows("drawn", &frames, 1),
            [
                "Address(2001:db8::1): errors=6 unreachable=1 port_unreachable=1 prohibited=1 too_big=1 time_exceeded=1 other=1 tcp=6"
            ]
        );
        let udp = build::ip().ipv4(HOST, SERVER).udp(4000, 53).payload(b"query");
        let inner = build::ip().ipv4(SERVER, HOST).icmp(3, 3, [0; 4]).payload(&udp);
        let tunnel = build::ethernet().ipv4([1, 1, 1, 1], [2, 2, 2, 2]).raw(&[]).payload(&[]);
        // IP in IP.
        let mut tunnel = [tunnel, inner].concat();
        tunnel[23] = 4;
        let length = (tunnel.len() - 14) as u16;
        tunnel[16..18].copy_from_slice(&length.to_be_bytes());
        assert_eq!(rows("sent", &[tunnel], 1), ["Address(192.0.2.7): errors=1 port_unreachable=1 udp=1"]);
    }
}
