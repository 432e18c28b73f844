//! TCP connections that hosts begin and end: Ourmon's list of SYNs and its work weight.

use super::ends::{EndpointRoles, words};
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::bounded::{Bounded, Numbers, Summed, kept};
use crate::keyed::Address;
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{Datum, Fold, Folded, KeyColumn, Level, Reading, Schema, Shown, TableColumn, TableRow, Unit};
use weir_wire::build::flags::{ACK, FIN, RST, SYN as SYNCHRONISE};
use weir_wire::{Layers, Packet, addresses};

pub(super) static SYN: FunctionSpec = FunctionSpec {
    name: "syn",
    help: "Hosts by the TCP connections that they try to begin and end. Ourmon's work weight of a host is work / (packets_sent + packets_received): near 1 for a scanner, near 0 for a host that transfers data.",
    arguments: &[
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of hosts to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Packet],
    input: InputKind::Control,
    memory: |arguments| {
        let (_, rows) = shape(arguments)?;
        let kept = kept(rows);
        Ok(Memory {
            state: 256 + Bounded::<Address, Summed<Packets>>::bytes(rows),
            reading: 1024 + kept * ROW,
        })
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

static COLUMNS: [TableColumn; 9] = [
    packets("work", "SYNs and FINs that the host sent, and RSTs that it received."),
    packets("syn", "SYNs that the host sent, with and without ACK."),
    packets("synack", "SYNs with ACK that the host sent."),
    packets("fin_sent", "FINs that the host sent."),
    packets("fin_received", "FINs that the host received."),
    packets("rst_sent", "RSTs that the host sent."),
    packets("rst_received", "RSTs that the host received."),
    packets("packets_sent", "TCP packets that the host sent."),
    packets("packets_received", "TCP packets that the host received."),
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
}

impl Packets {
    /// A packet with these flags, for its sender. Its number is counted apart.
    fn sent(flags: u8) -> Self {
        let has = |flag| u64::from(flags & flag != 0);
        let syn = has(SYNCHRONISE);
        Self { syn, synack: syn & has(ACK), fin_sent: has(FIN), rst_sent: has(RST), ..Self::default() }
    }

    /// A packet with these flags, for its receiver. Its number is counted apart.
    fn received(flags: u8) -> Self {
        let has = |flag| u64::from(flags & flag != 0);
        Self { fin_received: has(FIN), rst_received: has(RST), ..Self::default() }
    }
}

impl Numbers for Packets {
    /// Most packets begin and end nothing.
    const LEAST: u32 = 0;

    /// The host's part in beginning and ending connections.
    fn weight(&self) -> u64 {
        self.syn + self.fin_sent + self.rst_received
    }

    fn add(&mut self, other: &Self) {
        self.syn += other.syn;
        self.synack += other.synack;
        self.fin_sent += other.fin_sent;
        self.fin_received += other.fin_received;
        self.rst_sent += other.rst_sent;
        self.rst_received += other.rst_received;
        self.sent += other.sent;
        self.received += other.received;
    }
}

struct Hosts {
    schema: Arc<Schema>,
    list: Bounded<Address, Summed<Packets>>,
}

impl Hosts {
    fn flags(&mut self, source: Address, destination: Address, flags: u8) {
        if flags & (SYNCHRONISE | FIN | RST) != 0 {
            self.list.add_more(source, Packets::sent(flags));
        }
        if flags & (FIN | RST) != 0 {
            self.list.add_more(destination, Packets::received(flags));
        }
    }

    fn packets(&mut self, source: Address, destination: Address, packets: u64) {
        self.list.add_more(source, Packets { sent: packets, ..Packets::default() });
        self.list.add_more(destination, Packets { received: packets, ..Packets::default() });
    }

    /// Takes a packet, where an expression selects packets.
    fn packet(&mut self, packet: &Packet<'_>, layers: &Layers) {
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
        if let Item::Packet(packet, layers) = item {
            return self.packet(packet, layers);
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
        self.list.take_table(&self.schema, |host, Summed { numbers, .. }| {
            let work = numbers.weight();
            let Packets { syn, synack, fin_sent, fin_received, rst_sent, rst_received, sent, received } =
                numbers;
            let values = [work, syn, synack, fin_sent, fin_received, rst_sent, rst_received, sent, received];
            (vec![Datum::Address(ip(host))], values.map(Folded::Sum).into())
        })
    }
}
