//! The heaviest keys.

use super::{Argument, Arguments, Feed, Function, FunctionSpec, Pass};
use crate::bounded::Bounded;
use crate::{FlowRecord, Item, Tally};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use weir_api::{Key, KeyKind, Level, Reading, Top as TopReading, TopRow, Unit};
use weir_wire::{FlowKey, Layers, Network, Packet, addresses};

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
            |see, e| see((e.source, e.destination, e.ports, e.protocol)),
            |(a, b, [source_port, destination_port], protocol)| Key::Flow {
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
            Top::boxed(shape, rows, arguments.seed, talker, |(server, port, client, protocol)| Key::Talker {
                server: ip(server),
                port,
                client: ip(client),
                protocol,
            })
        }
    })
}

/// An address as a number, IPv4 mapped into IPv6: quicker to hash and to compare than octets.
type Address = u128;

/// What a key is made from, whatever the item was.
struct Ends {
    source: Address,
    destination: Address,
    /// Of source and destination; 0 where there are none.
    ports: [u16; 2],
    protocol: u8,
    vlan: u16,
    /// Whether the source began the flow; `None` where the flow is not known.
    from_initiator: Option<bool>,
}

impl Ends {
    fn of_packet(packet: &Packet<'_>, layers: &Layers) -> Option<Self> {
        let (source, destination) = match layers.network_kind {
            Network::Ipv4 | Network::Ipv6 => addresses(packet, layers)?,
            Network::None | Network::Arp => return None,
        };
        let ports =
            if carries_ports(layers.ip_proto) && layers.has_transport() { layers.ports } else { [0, 0] };
        Some(Self {
            source: u128::from_be_bytes(source),
            destination: u128::from_be_bytes(destination),
            ports,
            protocol: layers.ip_proto,
            vlan: layers.vlan[0],
            from_initiator: None,
        })
    }

    fn of_tally(tally: &Tally<'_>) -> Self {
        Self::of_key(
            tally.key,
            tally.source_is_lower,
            tally.vlan,
            tally.source_is_lower == tally.initiator_is_lower,
        )
    }

    fn of_flow(flow: &FlowRecord) -> Self {
        Self::of_key(&flow.key, flow.initiator_is_lower, flow.vlan[0], true)
    }

    fn of_key(key: &FlowKey, source_is_lower: bool, vlan: u16, from_initiator: bool) -> Self {
        let (source, destination) = if source_is_lower { (0, 1) } else { (1, 0) };
        let ports = if carries_ports(key.proto) { [key.port[source], key.port[destination]] } else { [0, 0] };
        Self {
            source: u128::from_be_bytes(key.addr[source]),
            destination: u128::from_be_bytes(key.addr[destination]),
            ports,
            protocol: key.proto,
            vlan,
            from_initiator: Some(from_initiator),
        }
    }

    /// Server's address and port, and the client's address. Where the flow is not known, the lower port is
    /// taken for the server's.
    fn roles(&self) -> (Address, u16, Address) {
        let [source_port, destination_port] = self.ports;
        if self.from_initiator.unwrap_or(destination_port <= source_port) {
            (self.destination, destination_port, self.source)
        } else {
            (self.source, source_port, self.destination)
        }
    }
}

/// TCP, UDP, DCCP, SCTP, UDP-Lite: ICMP types stand where ports do, and are none.
fn carries_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
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

fn talker(see: &mut dyn FnMut((Address, u16, Address, u8)), ends: &Ends) {
    let (server, port, client) = ends.roles();
    see((server, port, client, ends.protocol));
}

fn ip(address: Address) -> IpAddr {
    Ipv6Addr::from(address).to_canonical()
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

impl Shape {
    /// Octets are told apart by 16: the smallest frame has 14.
    fn shift(self) -> u32 {
        match self.unit {
            Unit::Bytes => 4,
            Unit::Packets => 0,
        }
    }
}

/// Gives each key of an item to the function it is handed.
type Keys<K> = fn(&mut dyn FnMut(K), &Ends);

struct Top<K> {
    shape: Shape,
    list: Bounded<K>,
    keys: Keys<K>,
    show: fn(K) -> Key,
}

impl<K: Copy + Default + Eq + Hash + Send + 'static> Top<K> {
    fn boxed(shape: Shape, rows: usize, seed: u64, keys: Keys<K>, show: fn(K) -> Key) -> Box<dyn Function> {
        Box::new(Self { shape, list: Bounded::new(rows, shape.shift(), seed), keys, show })
    }
}

impl<K: Copy + Default + Eq + Hash + Send> Function for Top<K> {
    fn item(&mut self, item: &Item<'_>) -> Pass {
        let (ends, flows) = match item {
            Item::Packet(packet, layers) => match Ends::of_packet(packet, layers) {
                Some(ends) => (ends, 0),
                None => return Pass::Keep,
            },
            Item::Tally(tally) => (Ends::of_tally(tally), u64::from(tally.begins)),
            Item::Flow(flow) => (Ends::of_flow(flow), 1),
        };
        let count = item.count();
        let weight = count.in_unit(self.shape.unit);
        let list = &mut self.list;
        (self.keys)(&mut |key| list.add(key, count, flows, weight), &ends);
        Pass::Keep
    }

    fn take(&mut self) -> Reading {
        let capacity = self.list.capacity();
        let (rows, shed, inserts) = self.list.take();
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
        Reading::Top(TopReading { key: kind, show, unit, capacity, rows, inserts, shed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_port_is_the_servers_where_the_flow_is_unknown() {
        let mut ends = Ends {
            source: 1,
            destination: 2,
            ports: [443, 50_000],
            protocol: 6,
            vlan: 0,
            from_initiator: None,
        };
        assert_eq!(ends.roles(), (1, 443, 2));
        ends.from_initiator = Some(true);
        assert_eq!(ends.roles(), (2, 50_000, 1));
    }
}
