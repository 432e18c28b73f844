//! The heaviest keys.

use super::block::{Block, each};
use super::ends::{EndpointRoles, Share};
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::bounded::{Bounded, Row, Taken, kept};
use crate::keyed::{Address, Keyed, Tuple};
use std::net::{IpAddr, Ipv6Addr};
use weir_api::{Key, KeyKind, Level, Reading, Top as TopReading, TopRow, Unit};
use weir_filter::PacketMask;
use weir_wire::has_ports;

pub(super) static TOP: FunctionSpec = FunctionSpec {
    name: "top",
    help: "Heaviest keys, in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row.",
    arguments: &[
        Argument {
            name: "by",
            help: "The key: source, destination, pair, flow, port, protocol, vlan, talker (server, port and client) or service (server port).",
            default: Some("source"),
        },
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "unit", help: "Ranking unit: bytes or packets.", default: Some("bytes") },
        Argument { name: "rows", help: "Number of keys to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Packet, Level::Stream, Level::Flow],
    input: InputKind::Tallies,
    memory,
    judge: None,
    delivers: None,
    identifies: false,
    build,
};

/// The shape and the number of rows that a call asks for.
fn shape(arguments: &Arguments<'_>) -> Result<(Shape, usize), String> {
    let kind = arguments.choice("by", &KeyKind::ALL)?;
    let unit = arguments.choice("unit", &[("bytes", Unit::Bytes), ("packets", Unit::Packets)])?;
    let (show, rows) = (arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 20)?);
    Ok((Shape { kind, show, unit }, rows))
}

fn memory(arguments: &Arguments<'_>) -> Result<Memory, String> {
    let (Shape { kind, .. }, rows) = shape(arguments)?;
    let state = match kind {
        KeyKind::Source | KeyKind::Destination => Bounded::<Address>::bytes(rows),
        KeyKind::Pair => Bounded::<(Address, Address)>::bytes(rows),
        KeyKind::Flow | KeyKind::Talker => Bounded::<Tuple>::bytes(rows),
        KeyKind::Port | KeyKind::Service => Bounded::<(u8, u16)>::bytes(rows),
        KeyKind::Protocol => Bounded::<u8>::bytes(rows),
        KeyKind::Vlan => Bounded::<u16>::bytes(rows),
    };
    Ok(Memory { state: 256 + state, reading: 256 + kept(rows) * size_of::<TopRow>() })
}

fn build(arguments: &Arguments<'_>) -> Result<Box<dyn Function>, String> {
    let (shape, rows) = shape(arguments)?;
    let Shape { kind, .. } = shape;
    let seed = arguments.seeds.run;
    Ok(match kind {
        KeyKind::Source => Top::boxed(shape, rows, seed, |e| one(e.source), address),
        KeyKind::Destination => Top::boxed(shape, rows, seed, |e| one(e.destination), address),
        KeyKind::Pair => Top::boxed(
            shape,
            rows,
            seed,
            |e| one((e.source, e.destination)),
            |(a, b)| Key::Pair(ip(a), ip(b)),
        ),
        KeyKind::Flow => Top::boxed(
            shape,
            rows,
            seed,
            |e| one(Tuple { a: e.source, b: e.destination, ports: e.ports, protocol: e.protocol }),
            |Tuple { a, b, ports: [source_port, destination_port], protocol }| Key::Flow {
                source: ip(a),
                source_port,
                destination: ip(b),
                destination_port,
                protocol,
            },
        ),
        KeyKind::Port => Top::boxed(shape, rows, seed, both_ports, port),
        KeyKind::Service => Top::boxed(shape, rows, seed, |e| one((e.protocol, e.roles().1)), port),
        KeyKind::Protocol => Top::boxed(shape, rows, seed, |e| one(e.protocol), Key::Protocol),
        KeyKind::Vlan => {
            Top::boxed(shape, rows, seed, |e| [Some(e.vlan).filter(|vlan| *vlan != 0), None], Key::Vlan)
        }
        KeyKind::Talker => {
            Top::boxed(shape, rows, seed, talker, |Tuple { a, b, ports: [port, _], protocol }| Key::Talker {
                server: ip(a),
                port,
                client: ip(b),
                protocol,
            })
        }
    })
}

#[inline]
fn one<K>(key: K) -> [Option<K>; 2] {
    [Some(key), None]
}

fn both_ports(ends: &EndpointRoles) -> [Option<(u8, u16)>; 2] {
    let [source, destination] = ends.ports;
    if !has_ports(ends.protocol) {
        return [None, None];
    }
    [Some((ends.protocol, source)), (destination != source).then_some((ends.protocol, destination))]
}

fn talker(ends: &EndpointRoles) -> [Option<Tuple>; 2] {
    let (a, port, b) = ends.roles();
    one(Tuple { a, b, ports: [port, 0], protocol: ends.protocol })
}

/// An address as readings have it.
pub(super) fn ip([high, low]: Address) -> IpAddr {
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

/// `F` gives the keys of an item.
struct Top<K, F> {
    shape: Shape,
    list: Bounded<K>,
    keys: F,
    show: fn(K) -> Key,
}

impl<K: Keyed + Send + 'static, F: Fn(&EndpointRoles) -> [Option<K>; 2] + Send + 'static> Top<K, F> {
    fn boxed(shape: Shape, rows: usize, seed: u64, keys: F, show: fn(K) -> Key) -> Box<dyn Function> {
        Box::new(Self { shape, list: Bounded::new(rows, shape.unit, seed), keys, show })
    }

    #[inline]
    fn add(&mut self, share: &Share) {
        let Share { ends, count, flows } = share;
        let [first, second] = (self.keys)(ends);
        if let Some(key) = first {
            self.list.add(key, *count, *flows);
        }
        if let Some(key) = second {
            self.list.add(key, *count, *flows);
        }
    }
}

impl<K: Keyed + Send + 'static, F: Fn(&EndpointRoles) -> [Option<K>; 2] + Send + 'static> Function
    for Top<K, F>
{
    fn item(&mut self, item: &Item<'_>) {
        if let Some(share) = Share::of(item) {
            self.add(&share);
        }
    }

    fn block(&mut self, block: &Block<'_>, mask: &PacketMask) {
        match block {
            Block::Tallies(_, shares) => each(shares, mask, |_, share| self.add(share)),
            Block::Packets(..) => block.each(mask, |item| self.item(item)),
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn take(&mut self) -> Reading {
        let capacity = self.list.capacity();
        let show = self.show;
        let Taken { rows, absent, shed, inserts } = self.list.take_as(|Row { key, amount, error }| TopRow {
            key: show(key),
            count: amount.count,
            flows: amount.flows.into(),
            error,
        });
        let rows = rows.into();
        let Shape { kind, show, unit } = self.shape;
        Reading::Top(TopReading { key: kind, show, unit, capacity, rows, absent, inserts, shed })
    }
}
