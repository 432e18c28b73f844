//! TCP connections that hosts begin and end: Ourmon's list of SYNs and its work weight.

use super::ends::{EndpointRoles, words};
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::bounded::{Amount, Bounded, kept};
use crate::item::each_error;
use crate::keyed::Address;
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{
    Count, Datum, Fold, Folded, KeyColumn, Level, Reading, Schema, Shown, TableColumn, TableRow, Unit,
};
use weir_wire::build::flags::{ACK, FIN, RST, SYN as SYNCHRONISE};
use weir_wire::{Layers, Packet, addresses};

pub(super) static SYN: FunctionSpec = FunctionSpec {
    name: "syn",
    help: "Hosts by the TCP connections that they try to begin and end. Ourmon's work weight of a host is work / (packets_sent + packets_received): near 1 for a scanner, near 0 for a host that transfers data. Beside them are the ICMP errors that return to the host.",
    arguments: &[
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of hosts to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Packet],
    input: InputKind::Control,
    memory: |arguments| {
        let (_, rows) = shape(arguments)?;
        let kept = kept(rows);
        Ok(Memory { state: 256 + Bounded::<Address, Packets>::bytes(rows), reading: 1024 + kept * ROW })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (show, rows) = shape(arguments)?;
        let schema = Schema { shown: Shown::Heaviest(show), ..SCHEMA };
        let list = Bounded::new(rows, Unit::Packets, arguments.seeds.run);
        Ok(Box::new(Hosts { schema: Arc::new(schema), list }))
    },
};

/// Rows to show and to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(u32, usize), String> {
    Ok((arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 20)?))
}

/// A column of packets.
const fn packets(name: &'static str, help: &'static str) -> TableColumn {
    TableColumn::new(name, Fold::Sum, "packets", help)
}

static COLUMNS: [TableColumn; 11] = [
    packets("work", "SYNs and FINs that the host sent, and RSTs that it received."),
    packets("syn", "SYNs that the host sent, with and without ACK."),
    packets("synack", "SYNs with ACK that the host sent."),
    packets("fin_sent", "FINs that the host sent."),
    packets("fin_received", "FINs that the host received."),
    packets("rst_sent", "RSTs that the host sent."),
    packets("rst_received", "RSTs that the host received."),
    packets("packets_sent", "TCP packets that the host sent."),
    packets("packets_received", "TCP packets that the host received."),
    packets("syn_received", "SYNs that the host received, with and without ACK."),
    packets(
        "icmp_errors",
        "Errors of ICMP and ICMPv6 that return to the host, whatever they quote. An expression such as `tcp` leaves them out.",
    ),
];

const SCHEMA: Schema = Schema {
    name: Cow::Borrowed("syn"),
    keys: Cow::Borrowed(&[KeyColumn::new("host", "", "The host.")]),
    columns: Cow::Borrowed(&COLUMNS),
    shown: Shown::Heaviest(10),
};

/// Bytes of a row of a reading.
const ROW: usize = size_of::<TableRow>() + size_of::<Datum>() + COLUMNS.len() * size_of::<Folded>();

/// IP protocol number.
const TCP: u8 = 6;

/// Packets of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Packets {
    syn: u64,
    synack: u64,
    fin_sent: u64,
    fin_received: u64,
    rst_sent: u64,
    rst_received: u64,
    sent: u64,
    received: u64,
    syn_received: u64,
    icmp_errors: u64,
    error: u32,
}

/// What is counted at once. The packets of flags are counted apart.
#[derive(Clone, Copy, Debug)]
enum More {
    /// Flags of a packet that the host sent.
    SentFlags(u8),
    /// Flags of a packet that the host received.
    ReceivedFlags(u8),
    /// Packets that the host sent.
    Sent(u64),
    /// Packets that the host received.
    Received(u64),
    /// An ICMP error that returns to the host.
    Error,
}

impl Amount for Packets {
    type More = More;
    /// Most packets begin and end nothing.
    const LEAST: u32 = 0;

    /// The host's part in beginning and ending connections.
    fn weight_of(more: &More, _: Unit) -> u64 {
        let has = |flags: u8, flag| u64::from(flags & flag != 0);
        match *more {
            More::SentFlags(flags) => has(flags, SYNCHRONISE) + has(flags, FIN),
            More::ReceivedFlags(flags) => has(flags, RST),
            More::Sent(_) | More::Received(_) | More::Error => 0,
        }
    }

    fn count_of(more: &More) -> Count {
        Count { packets: Self::weight_of(more, Unit::Packets), bytes: 0 }
    }

    fn add(&mut self, more: &More, unit: Unit, _: usize) -> u64 {
        let has = |flags: u8, flag| u64::from(flags & flag != 0);
        match *more {
            More::SentFlags(flags) => {
                let syn = has(flags, SYNCHRONISE);
                self.syn += syn;
                self.synack += syn & has(flags, ACK);
                self.fin_sent += has(flags, FIN);
                self.rst_sent += has(flags, RST);
            }
            More::ReceivedFlags(flags) => {
                self.syn_received += has(flags, SYNCHRONISE);
                self.fin_received += has(flags, FIN);
                self.rst_received += has(flags, RST);
            }
            More::Sent(packets) => self.sent += packets,
            More::Received(packets) => self.received += packets,
            More::Error => self.icmp_errors += 1,
        }
        Self::weight_of(more, unit)
    }

    fn weight(&self, _: Unit) -> u64 {
        self.syn + self.fin_sent + self.rst_received
    }

    fn count(&self) -> Count {
        Count { packets: self.weight(Unit::Packets), bytes: 0 }
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

struct Hosts {
    schema: Arc<Schema>,
    list: Bounded<Address, Packets>,
}

impl Hosts {
    fn flags(&mut self, source: Address, destination: Address, flags: u8) {
        if flags & (SYNCHRONISE | FIN | RST) != 0 {
            self.list.add_more(source, More::SentFlags(flags));
            self.list.add_more(destination, More::ReceivedFlags(flags));
        }
    }

    fn packets(&mut self, source: Address, destination: Address, packets: u64) {
        self.list.add_more(source, More::Sent(packets));
        self.list.add_more(destination, More::Received(packets));
    }

    /// Takes an error at a level of a packet.
    fn error(&mut self, packet: &Packet<'_>, level: &Layers) {
        if let Some((_, host)) = addresses(packet, level) {
            self.list.add_more(words(host), More::Error);
        }
    }

    /// Takes a packet, where an expression selects packets.
    fn packet(&mut self, packet: &Packet<'_>, layers: &Layers) {
        each_error(packet, layers, |level, _| self.error(packet, level));
        if layers.ip_proto != TCP {
            return;
        }
        let Some((source, destination)) = addresses(packet, layers) else { return };
        let (source, destination) = (words(source), words(destination));
        if layers.has_transport() {
            self.flags(source, destination, layers.tcp_flags);
        }
        self.packets(source, destination, 1);
    }
}

impl Function for Hosts {
    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Packet(packet, layers) => return self.packet(packet, layers),
            Item::Error(packet, level, _) => return self.error(packet, level),
            _ => {}
        }
        if item.key().is_none_or(|key| key.proto != TCP) {
            return;
        }
        let Some(EndpointRoles { source, destination, .. }) = EndpointRoles::of(item) else { return };
        match item {
            Item::Control(control) => self.flags(source, destination, control.flags),
            // Control packets are in tallies too.
            Item::Tally(tally) => self.packets(source, destination, tally.packets),
            _ => {}
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        self.list.take_table(&self.schema, |host, of| {
            let values = [
                of.weight(Unit::Packets),
                of.syn,
                of.synack,
                of.fin_sent,
                of.fin_received,
                of.rst_sent,
                of.rst_received,
                of.sent,
                of.received,
                of.syn_received,
                of.icmp_errors,
            ];
            (vec![Datum::Address(ip(host))], values.map(Folded::Sum).into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::tests::table_of;
    use crate::item::each_error;
    use weir_api::FunctionCall;
    use weir_wire::build;
    use weir_wire::{LinkType, decode};

    const HOST: [u8; 4] = [10, 0, 0, 1];
    const SERVER: [u8; 4] = [192, 0, 2, 7];
    const ROUTER: [u8; 4] = [203, 0, 113, 9];

    fn segment(from: [u8; 4], to: [u8; 4], flags: u8) -> Vec<u8> {
        build::ethernet().ipv4(from, to).tcp(4000, 80, flags).payload(&[])
    }

    fn frames() -> Vec<Vec<u8>> {
        let quotes = [
            build::ip().ipv4(HOST, SERVER).tcp(4000, 80, SYNCHRONISE).payload(&[]),
            build::ip().ipv4(HOST, SERVER).udp(4000, 53).payload(b"query"),
            vec![0xff; 8],
        ];
        let errors =
            quotes.iter().map(|quote| build::ethernet().ipv4(ROUTER, HOST).icmp(3, 1, [0; 4]).payload(quote));
        let echo = build::ethernet().ipv4(ROUTER, HOST).icmp(0, 0, [0; 4]).payload(&quotes[0]);
        let segments = [
            segment(HOST, SERVER, SYNCHRONISE),
            segment(SERVER, HOST, SYNCHRONISE | ACK),
            segment(HOST, SERVER, ACK),
            segment(SERVER, HOST, FIN | ACK),
            segment(HOST, SERVER, RST),
        ];
        errors.chain([echo]).chain(segments).collect()
    }

    fn rows(workers: usize, show: impl Fn(&mut dyn Function, &Vec<u8>)) -> Vec<(Datum, Vec<u64>)> {
        let table = table_of(&SYN, &FunctionCall::new("syn"), (&frames(), workers), show);
        let row = |row: &TableRow| {
            (row.key[0].clone(), row.values.iter().map(Folded::weight).collect::<Vec<u64>>())
        };
        table.rows.iter().map(row).collect()
    }

    #[test]
    fn flags_packets_and_errors_count_to_hosts() {
        let packets = |function: &mut dyn Function, frame: &Vec<u8>| {
            let packet = build::packet(frame, LinkType::ETHERNET);
            function.item(&Item::Packet(&packet, &decode(&packet)));
        };
        let expected = vec![
            (Datum::Address(HOST.into()), vec![1, 1, 0, 0, 1, 1, 0, 3, 2, 1, 3]),
            (Datum::Address(SERVER.into()), vec![3, 1, 1, 1, 0, 0, 1, 2, 3, 1, 0]),
        ];
        for workers in [1, 2, 3] {
            assert_eq!(rows(workers, packets), expected, "{workers}");
        }
        // Beside sums of flows errors alone are shown.
        let errors = |function: &mut dyn Function, frame: &Vec<u8>| {
            let packet = build::packet(frame, LinkType::ETHERNET);
            each_error(&packet, &decode(&packet), |level, quote| {
                function.item(&Item::Error(&packet, level, quote));
            });
        };
        assert_eq!(rows(1, errors), [(Datum::Address(HOST.into()), vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3])]);
    }
}
