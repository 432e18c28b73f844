//! The heaviest keys.

use super::ends::{Ends, carries_ports};
use super::keyed::{Address, Keyed, Tuple};
use super::{Argument, Arguments, Feed, Function, FunctionSpec, Pass};
use crate::Item;
use crate::bounded::{Bounded, Taken};
use std::net::{IpAddr, Ipv6Addr};
use weir_api::{Key, KeyKind, Level, Reading, Top as TopReading, TopRow, Unit};

pub(super) static TOP: FunctionSpec = FunctionSpec {
    name: "top",
    help: "The heaviest keys, in fixed memory: exact while the distinct keys fit, else with the greatest possible error beside each row.",
    arguments: &[
        Argument {
            name: "by",
            help: "The key: source, destination, pair, flow, port, protocol, vlan, talker (server, port and client) or service (server port).",
            default: Some("source"),
        },
        Argument { name: "show", help: "How many rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "unit", help: "Rank by bytes or by packets.", default: Some("bytes") },
        Argument { name: "rows", help: "How many keys to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Packet, Level::Flow],
    feed: Feed::Tallies,
    build,
};

fn build(arguments: &Arguments<'_>) -> Result<Box<dyn Function>, String> {
    let kind = arguments.choice(
        "by",
        &[
            ("source", KeyKind::Source),
            ("destination", KeyKind::Destination),
            ("pair", KeyKind::Pair),
            ("flow", KeyKind::Flow),
            ("port", KeyKind::Port),
            ("protocol", KeyKind::Protocol),
            ("vlan", KeyKind::Vlan),
            ("talker", KeyKind::Talker),
            ("service", KeyKind::Service),
        ],
    )?;
    let unit = arguments.choice("unit", &[("bytes", Unit::Bytes), ("packets", Unit::Packets)])?;
    let (show, rows): (usize, usize) = (arguments.parse("show")?, arguments.parse("rows")?);
    if !(1..=1000).contains(&show) {
        return Err(format!("`top`: show = {show} is not 1 to 1000"));
    }
    if !(16..=1 << 20).contains(&rows) {
        return Err(format!("`top`: rows = {rows} is not 16 to 1048576"));
    }
    let shape = Shape { kind, show, unit };
    Ok(match kind {
        KeyKind::Source => Top::boxed(shape, rows, arguments.seed, |see, e| see(e.source), address),
        KeyKind::Destination => Top::boxed(shape, rows, arguments.seed, |see, e| see(e.destination), address),
        KeyKind::Pair => Top::boxed(
            shape,
            rows,
            arguments.seed,
            |see, e| see((e.source, e.destination)),
            |(a, b)| Key::Pair(ip(a), ip(b)),
        ),
        KeyKind::Flow => Top::boxed(
            shape,
            rows,
            arguments.seed,
            |see, e| see(Tuple { a: e.source, b: e.destination, ports: e.ports, protocol: e.protocol }),
            |Tuple { a, b, ports: [source_port, destination_port], protocol }| Key::Flow {
                source: ip(a),
                source_port,
                destination: ip(b),
                destination_port,
                protocol,
            },
        ),
        KeyKind::Port => Top::boxed(shape, rows, arguments.seed, both_ports, port),
        KeyKind::Service => Top::boxed(shape, rows, arguments.seed, service, port),
        KeyKind::Protocol => Top::boxed(shape, rows, arguments.seed, |see, e| see(e.protocol), Key::Protocol),
        KeyKind::Vlan => Top::boxed(
            shape,
            rows,
            arguments.seed,
            |see, e| {
                if e.vlan != 0 {
                    see(e.vlan);
                }
            },
            Key::Vlan,
        ),
        KeyKind::Talker => {
            Top::boxed(shape, rows, arguments.seed, talker, |Tuple { a, b, ports: [port, _], protocol }| {
                Key::Talker { server: ip(a), port, client: ip(b), protocol }
            })
        }
    })
}

fn both_ports(see: &mut dyn FnMut((u8, u16)), ends: &Ends) {
    if carries_ports(ends.protocol) {
        let [source, destination] = ends.ports;
        see((ends.protocol, source));
        if destination != source {
            see((ends.protocol, destination));
        }
    }
}

fn service(see: &mut dyn FnMut((u8, u16)), ends: &Ends) {
    see((ends.protocol, ends.roles().1));
}

fn talker(see: &mut dyn FnMut(Tuple), ends: &Ends) {
    let (a, port, b) = ends.roles();
    see(Tuple { a, b, ports: [port, 0], protocol: ends.protocol });
}

fn ip([high, low]: Address) -> IpAddr {
    Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).to_canonical()
}

fn address(key: Address) -> Key {
    Key::Address(ip(key))
}

fn port((protocol, port): (u8, u16)) -> Key {
    Key::Port { protocol, port }
}

#[derive(Clone, Copy)]
struct Shape {
    kind: KeyKind,
    show: usize,
    unit: Unit,
}

/// Gives each key of an item to the function it is handed.
type Keys<K> = fn(&mut dyn FnMut(K), &Ends);

struct Top<K> {
    shape: Shape,
    list: Bounded<K>,
    keys: Keys<K>,
    show: fn(K) -> Key,
}

impl<K: Keyed + Send + 'static> Top<K> {
    fn boxed(shape: Shape, rows: usize, seed: u64, keys: Keys<K>, show: fn(K) -> Key) -> Box<dyn Function> {
        Box::new(Self { shape, list: Bounded::new(rows, shape.unit, seed), keys, show })
    }
}

impl<K: Keyed + Send> Function for Top<K> {
    fn item(&mut self, item: &Item<'_>) -> Pass {
        let Some(ends) = Ends::of(item) else { return Pass::Keep };
        let flows = match item {
            Item::Packet(..) => 0,
            Item::Tally(tally) => tally.begins.into(),
            Item::Flow(_) => 1,
        };
        let count = item.count();
        let list = &mut self.list;
        (self.keys)(&mut |key| list.add(key, count, flows), &ends);
        Pass::Keep
    }

    fn take(&mut self) -> Reading {
        let capacity = self.list.capacity();
        let Taken { rows, absent, shed, inserts } = self.list.take();
        let mut rows: Vec<TopRow> = rows
            .into_iter()
            .map(|row| TopRow {
                key: (self.show)(row.key),
                count: row.count,
                flows: row.flows,
                error: row.error,
            })
            .collect();
        rows.sort_unstable_by_key(|row| row.key);
        let Shape { kind, show, unit } = self.shape;
        Reading::Top(TopReading { key: kind, show, unit, capacity, rows, absent, inserts, shed })
    }
}
