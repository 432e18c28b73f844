//! Hosts over UDP: Ourmon's list of UDP errors and its weight.
//!
//! It sees each packet, because the sums of flows have no sizes of packets.

use super::ends::{EndpointRoles, words};
use super::size;
use super::top::ip;
use super::{Argument, Arguments, Block, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::bounded::{Amount, Bounded, kept};
use crate::item::each_error;
use crate::keyed::Address;
use std::sync::Arc;
use weir_api::{Count, Datum, Folded, Level, Reading, Schema, Shown, TableRow, UdpHost, Unit};
use weir_filter::PacketMask;
use weir_wire::{Layers, Packet, Quoted, addresses};

pub(super) static UDP: FunctionSpec = FunctionSpec {
    name: "udp",
    help: "Hosts over UDP by Ourmon's weight, (sent - received) x errors: high for a host that sends to many that do not exist or do not listen. Beside it are packets and bytes, the ICMP errors that return to the host, the sizes of the packets that it sends, and the class of host that they suggest.",
    arguments: &[
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of hosts to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Packet],
    input: InputKind::Packets,
    memory: |arguments| {
        let (_, rows) = shape(arguments)?;
        Ok(Memory { state: 256 + Bounded::<Address, Host>::bytes(rows), reading: 1024 + kept(rows) * row() })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (show, rows) = shape(arguments)?;
        let schema = Schema { shown: Shown::Udp(show), ..weir_api::UDP.clone() };
        let list = Bounded::new(rows, Unit::Packets, arguments.seeds.run);
        Ok(Box::new(Hosts { schema: Arc::new(schema), list, run: None }))
    },
};

/// Rows to show and to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(u32, usize), String> {
    Ok((arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 20)?))
}

/// Bytes of a row of a reading.
fn row() -> usize {
    size_of::<TableRow>() + size_of::<Datum>() + weir_api::UDP.columns.len() * size_of::<Folded>()
}

/// IP protocol numbers.
const ICMP: u8 = 1;
const PROTOCOL: u8 = 17;
const ICMPV6: u8 = 58;

/// The port of DNS.
const DNS: u16 = 53;
/// The lowest port that a client may have.
const HIGH: u16 = 1024;

/// What is counted of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    sums: UdpHost,
    error: u32,
}

/// What is counted at once.
#[derive(Clone, Copy, Debug)]
enum More {
    /// Packets that the host sent between two ports: those of each size, and their bytes.
    Sent { ports: [u16; 2], sizes: [u32; 4], bytes: u64 },
    /// Packets that the host received, and their bytes.
    Received(u32, u64),
    /// An error that quotes UDP, and whether its destination is unreachable.
    Error(bool),
    /// An error that quotes ICMP.
    Ping,
}

impl Amount for Host {
    type More = More;
    /// Only what a host sends has weight.
    const LEAST: u32 = 0;

    fn weight_of(more: &More, _: Unit) -> u64 {
        match more {
            More::Sent { sizes, .. } => sizes.iter().map(|size| u64::from(*size)).sum(),
            More::Received(..) | More::Error(_) | More::Ping => 0,
        }
    }

    fn count_of(more: &More) -> Count {
        Count { packets: Self::weight_of(more, Unit::Packets), bytes: 0 }
    }

    fn add(&mut self, more: &More, unit: Unit, _: usize) -> u64 {
        let weight = Self::weight_of(more, unit);
        let sums = &mut self.sums;
        match *more {
            More::Sent { ports: [from, to], sizes, bytes } => {
                sums.sent += weight;
                sums.bytes[0] += bytes;
                sums.sizes.iter_mut().zip(sizes).for_each(|(sum, more)| *sum += u64::from(more));
                let add = |sum: &mut u64, is_one: bool| *sum += if is_one { weight } else { 0 };
                // Fragments but the first have no ports.
                add(&mut sums.served, from != 0 && from < to);
                add(&mut sums.high, from.min(to) >= HIGH);
                add(&mut sums.names_asked, to == DNS);
                add(&mut sums.names_served, from == DNS);
            }
            More::Received(packets, bytes) => {
                sums.received += u64::from(packets);
                sums.bytes[1] += bytes;
            }
            More::Error(is_unreachable) => {
                sums.errors += 1;
                sums.unreachable += u64::from(is_unreachable);
            }
            More::Ping => sums.pings += 1,
        }
        weight
    }

    fn weight(&self, _: Unit) -> u64 {
        self.sums.sent
    }

    fn count(&self) -> Count {
        Count { packets: self.sums.sent, bytes: 0 }
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

/// Packets that follow each other from one endpoint to another. They are often many, and are counted together.
struct Run {
    source: Address,
    destination: Address,
    ports: [u16; 2],
    sizes: [u32; 4],
    bytes: u64,
}

struct Hosts {
    schema: Arc<Schema>,
    list: Bounded<Address, Host>,
    /// The packets of a block that are not yet in the list.
    run: Option<Run>,
}

impl Hosts {
    fn packet(&mut self, packet: &Packet<'_>, layers: &Layers) {
        each_error(packet, layers, |level, quote| self.error(packet, level, quote));
        if layers.ip_proto != PROTOCOL {
            return;
        }
        let Some(ends) = EndpointRoles::of(&Item::Packet(packet, layers)) else { return };
        let EndpointRoles { source, destination, ports, .. } = ends;
        let continues =
            |run: &&mut Run| (run.source, run.destination, run.ports) == (source, destination, ports);
        let bytes = u64::from(packet.wire_len);
        if let Some(run) = self.run.as_mut().filter(continues) {
            run.add(size::class(packet), bytes);
            return;
        }
        self.end_run();
        let mut run = Run { source, destination, ports, sizes: [0; 4], bytes: 0 };
        run.add(size::class(packet), bytes);
        self.run = Some(run);
    }

    /// Counts the packets of the last run.
    fn end_run(&mut self) {
        if let Some(Run { source, destination, ports, sizes, bytes }) = self.run.take() {
            self.list.add_more(source, More::Sent { ports, sizes, bytes });
            self.list.add_more(destination, More::Received(sizes.iter().sum(), bytes));
        }
    }

    /// Takes an error at a level of a packet.
    fn error(&mut self, packet: &Packet<'_>, level: &Layers, quote: &Quoted<'_>) {
        let Some((_, host)) = addresses(packet, level) else { return };
        if addresses(&quote.packet, &quote.layers).is_none() {
            return;
        }
        let is_unreachable = matches!((level.ip_proto, level.ports[0]), (ICMP, 3) | (ICMPV6, 1));
        match quote.layers.ip_proto {
            PROTOCOL => self.list.add_more(words(host), More::Error(is_unreachable)),
            ICMP | ICMPV6 => self.list.add_more(words(host), More::Ping),
            _ => {}
        }
    }
}

impl Run {
    fn add(&mut self, class: usize, bytes: u64) {
        if let Some(size) = self.sizes.get_mut(class) {
            *size += 1;
        }
        self.bytes += bytes;
    }
}

impl Function for Hosts {
    fn item(&mut self, item: &Item<'_>) {
        if let Item::Packet(packet, layers) = item {
            self.packet(packet, layers);
            self.end_run();
        }
    }

    fn block(&mut self, block: &Block<'_>, mask: &PacketMask) {
        block.each(mask, |item| {
            if let Item::Packet(packet, layers) = item {
                self.packet(packet, layers);
            }
        });
        self.end_run();
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        self.list.take_table(&self.schema, |host, Host { sums, .. }| {
            (vec![Datum::Address(ip(host))], sums.values())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::tests::table_of;
    use std::collections::BTreeMap;
    use std::net::IpAddr;
    use weir_api::{FunctionCall, Table};
    use weir_wire::build::{self, flags};
    use weir_wire::{LinkType, decode};

    const HOST: [u8; 4] = [10, 0, 0, 1];
    const SERVER: [u8; 4] = [192, 0, 2, 7];
    const ROUTER: [u8; 4] = [203, 0, 113, 9];

    fn udp(from: [u8; 4], to: [u8; 4], ports: [u16; 2], payload: usize) -> Vec<u8> {
        build::ethernet().ipv4(from, to).udp(ports[0], ports[1]).payload(&vec![7; payload])
    }

    fn error(kind: u8, code: u8, quote: &[u8]) -> Vec<u8> {
        build::ethernet().ipv4(ROUTER, HOST).icmp(kind, code, [0; 4]).payload(quote)
    }

    fn table(call: &FunctionCall, frames: &[Vec<u8>], workers: usize) -> Table {
        table_of(&UDP, call, (frames, workers), |function, frame| {
            let packet = build::packet(frame, LinkType::ETHERNET);
            function.item(&Item::Packet(&packet, &decode(&packet)));
        })
    }

    fn hosts(table: &Table) -> BTreeMap<IpAddr, UdpHost> {
        let host = |row: &TableRow| match row.key[..] {
            [Datum::Address(host)] => (host, UdpHost::of(row).unwrap()),
            _ => panic!("{row:?}"),
        };
        table.rows.iter().map(host).collect()
    }

    fn frames() -> Vec<Vec<u8>> {
        let about_udp = build::ip().ipv4(HOST, SERVER).udp(4000, 53).payload(b"query");
        let about_tcp = build::ip().ipv4(HOST, SERVER).tcp(4000, 80, flags::SYN).payload(&[]);
        let about_ping = build::ip().ipv4(HOST, SERVER).icmp(8, 0, [0; 4]).payload(b"ping");
        vec![
            udp(HOST, SERVER, [4000, 53], 20),
            udp(HOST, SERVER, [4000, 53], 400),
            udp(HOST, SERVER, [4000, 5000], 900),
            udp(HOST, SERVER, [4000, 5000], 1400),
            udp(SERVER, HOST, [53, 4000], 58),
            udp(SERVER, HOST, [53, 4000], 59),
            error(3, 3, &about_udp),
            error(11, 0, &about_udp),
            error(3, 3, &about_tcp),
            error(3, 1, &about_ping),
            error(3, 1, &[0xff; 8]),
            build::ethernet().ipv4(HOST, SERVER).tcp(4000, 80, flags::SYN).payload(&[]),
        ]
    }

    #[test]
    fn packets_errors_and_sizes_count_to_hosts() {
        let frames = frames();
        let call = FunctionCall::new("udp");
        let found = hosts(&table(&call, &frames, 1));
        let header = 14 + 20 + 8;
        let sent = 4 * header + 20 + 400 + 900 + 1400;
        let received = 2 * header + 58 + 59;
        let host = UdpHost {
            sent: 4,
            received: 2,
            bytes: [sent, received],
            errors: 2,
            unreachable: 1,
            pings: 1,
            sizes: [1, 1, 1, 1],
            served: 2,
            high: 2,
            names_asked: 2,
            names_served: 0,
        };
        let server = UdpHost {
            sent: 2,
            received: 4,
            bytes: [received, sent],
            // Of 100 and of 101 bytes.
            sizes: [1, 1, 0, 0],
            served: 2,
            names_served: 2,
            ..UdpHost::default()
        };
        assert_eq!(found, BTreeMap::from([(HOST.into(), host), (SERVER.into(), server)]));
        assert_eq!((host.weight(), server.weight()), (4, 0));
        for workers in [2, 3, 7] {
            assert_eq!(table(&call, &frames, workers), table(&call, &frames, 1), "{workers}");
        }
    }

    /// Packets that follow each other are counted together in a block, and the result is that of one after the other.
    #[test]
    fn a_block_has_the_result_of_its_packets() {
        let frames: Vec<Vec<u8>> =
            (0..9).flat_map(|_| frames()).flat_map(|frame| [frame.clone(), frame]).collect();
        let mut packets = weir_wire::PacketBuf::default();
        frames.iter().for_each(|frame| packets.push(&build::packet(frame, LinkType::ETHERNET)));
        let layers: Vec<Layers> = packets.batch().packets().map(|packet| decode(&packet)).collect();
        let call = FunctionCall::new("udp");
        let mut function = UDP.call(&call, 1_u64).unwrap();
        // All packets but the third of each 64.
        let mask = crate::function::block::first(frames.len()).map(|word| word & !4);
        function.block(&Block::Packets(packets.batch(), &layers), &mask);
        let chosen = frames.iter().enumerate().filter(|(at, _)| at % 64 != 2);
        let chosen: Vec<Vec<u8>> = chosen.map(|(_, frame)| frame.clone()).collect();
        assert_eq!(function.take(), Reading::Table(table(&call, &chosen, 1)));
    }

    #[test]
    fn fragments_count_without_ports() {
        let mut later = udp(HOST, SERVER, [53, 4000], 20);
        // Offset 1.
        later[21] = 1;
        let found = hosts(&table(&FunctionCall::new("udp"), &[later], 1));
        let host = found[&IpAddr::from(HOST)];
        assert_eq!((host.sent, host.served, host.names_served), (1, 0, 0));
        assert_eq!(found[&IpAddr::from(SERVER)].received, 1);
    }

    /// Under more hosts than rows the numbers of each row are right within its error, and its memory is what is stated.
    #[test]
    fn the_bound_of_a_row_holds_in_a_flood() {
        let call = FunctionCall::new("udp").with("rows", 64);
        let mut expected: BTreeMap<IpAddr, u64> = BTreeMap::new();
        let mut frames = Vec::new();
        for n in 0..6000_u32 {
            let last = if n % 3 == 0 { n % 30 } else { n };
            let from = [10, 1, (last >> 8) as u8, last as u8];
            *expected.entry(from.into()).or_default() += 1;
            frames.push(udp(from, SERVER, [4000, 9], 10));
        }
        for workers in [1, 2] {
            let table = table(&call, &frames, workers);
            assert!(!table.is_exact() && table.rows.len() <= table.capacity);
            for row in &table.rows {
                let [Datum::Address(host)] = row.key[..] else { panic!("{row:?}") };
                let (sent, truth) = (row.weight(), expected.get(&host).copied().unwrap_or(0));
                assert!(sent <= truth && truth <= sent + row.error, "{row:?}: {truth}");
            }
            let listed: Vec<&TableRow> = table.rows.iter().collect();
            for (host, truth) in &expected {
                let is_listed = listed.iter().any(|row| row.key == [Datum::Address(*host)]);
                assert!(is_listed || *truth <= table.absent, "{host}: {truth} > {}", table.absent);
            }
        }
    }
}
