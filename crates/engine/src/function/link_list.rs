//! Lists of packets without IP, or in tunnels, in fixed memory, by what their headers show.

use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::bounded::{Bounded, Row, Taken, kept};
use crate::keyed::Keyed;
use crate::uncommon::Uncommon;
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{
    Datum, Fold, Folded, KeyColumn, Level, Reading, Schema, Shown, Table, TableColumn, TableRow, Unit,
};
use weir_wire::{Layers, Mac, Packet};

/// What such a list is by.
pub(super) trait LinkKey: Keyed + Send + 'static {
    /// The columns of the list.
    const SCHEMA: Schema;
    /// Maximum bytes of the texts of a key, as a reading has them.
    const TEXTS: usize;
    /// The packets that it counts: those without IP, or those in tunnels.
    const PACKETS: Uncommon = Uncommon::WithoutIp;

    /// Calls `each` with every key that such a packet counts to.
    fn each(packet: &Packet<'_>, layers: &Layers, each: &mut dyn FnMut(Self));

    /// The parts of the key, in the order of the schema.
    fn parts(&self) -> Vec<Datum>;
}

/// The arguments of a list.
static ARGUMENTS: [Argument; 2] = [
    Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
    Argument { name: "rows", help: "Number of keys to keep, 16 to 1048576.", default: Some("1024") },
];

/// The columns of every list.
static COLUMNS: [TableColumn; 2] = [
    TableColumn::new("packets", Fold::Sum, "packets", "Packets."),
    TableColumn::new("bytes", Fold::Sum, "bytes", "Bytes on the wire, link-layer headers included."),
];

/// The columns of a list by these parts.
pub(super) const fn schema(name: &'static str, keys: &'static [KeyColumn]) -> Schema {
    Schema {
        name: Cow::Borrowed(name),
        keys: Cow::Borrowed(keys),
        columns: Cow::Borrowed(&COLUMNS),
        shown: Shown::Heaviest(10),
    }
}

/// The function whose rows have such keys.
pub(super) const fn spec<K: LinkKey>(name: &'static str, help: &'static str) -> FunctionSpec {
    FunctionSpec {
        name,
        help,
        arguments: &ARGUMENTS,
        levels: &[Level::Packet],
        input: InputKind::Uncommon(K::PACKETS),
        memory: memory::<K>,
        judge: None,
        delivers: None,
        identifies: false,
        build: build::<K>,
    }
}

/// Rows to show, and keys to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(u32, usize), String> {
    Ok((arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 20)?))
}

/// Memory of a list.
fn memory<K: LinkKey>(arguments: &Arguments<'_>) -> Result<Memory, String> {
    let (_, rows) = shape(arguments)?;
    let rows = kept(rows);
    let row = size_of::<TableRow>()
        + K::SCHEMA.keys.len() * size_of::<Datum>()
        + COLUMNS.len() * size_of::<Folded>()
        + K::TEXTS;
    Ok(Memory { state: 256 + Bounded::<K>::bytes(rows), reading: 256 + rows * row })
}

/// Builds a list.
fn build<K: LinkKey>(arguments: &Arguments<'_>) -> Result<Box<dyn Function>, String> {
    let (show, rows) = shape(arguments)?;
    let schema = Schema { shown: Shown::Heaviest(show), ..K::SCHEMA };
    Ok(Box::new(LinkList::<K> {
        schema: Arc::new(schema),
        list: Bounded::new(rows, Unit::Packets, arguments.seeds.run),
    }))
}

/// A list.
struct LinkList<K> {
    schema: Arc<Schema>,
    list: Bounded<K>,
}

impl<K: LinkKey> Function for LinkList<K> {
    fn item(&mut self, item: &Item<'_>) {
        if let Item::Packet(packet, layers) = item
            && K::PACKETS.is(layers)
        {
            let count = item.count();
            K::each(packet, layers, &mut |key| self.list.add(key, count, 0));
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        let capacity = self.list.capacity();
        let Taken { rows, absent, shed, .. } = self.list.take();
        let row = |Row { key, amount, error }: Row<K>| TableRow {
            key: key.parts(),
            values: vec![Folded::Sum(amount.count.packets), Folded::Sum(amount.count.bytes)],
            error,
        };
        let rows = rows.into_iter().map(row).collect();
        let shed = vec![shed.packets, shed.bytes];
        Reading::Table(Table::counting(Arc::clone(&self.schema), capacity, rows, absent, shed))
    }
}

/// A hardware address as a word; no address differs from each of them.
pub(super) fn word(mac: Option<Mac>) -> u64 {
    mac.map_or(u64::MAX, |[a, b, c, d, e, f]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

/// A hardware address as a part of a key.
pub(super) fn mac(mac: Option<Mac>) -> Datum {
    mac.map_or(Datum::Nothing, Datum::Mac)
}

/// The name of a network, 1 to 32 bytes, filled up with zeros; without bytes there is no name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Ssid {
    length: u8,
    bytes: [u8; Self::MAX],
}

impl Ssid {
    /// Maximum bytes of a name.
    const MAX: usize = 32;
    /// Maximum bytes of its text: a byte that is no text becomes three.
    pub const TEXT: usize = 3 * Self::MAX;

    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; Self::MAX];
        bytes.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        Self { length: name.len().min(Self::MAX) as u8, bytes }
    }

    /// Its words, with its length in the last.
    pub fn words(&self) -> [u64; 5] {
        let [one, two, three, four] = std::array::from_fn(|at| {
            let bytes = self.bytes.get(at * 8..).and_then(<[u8]>::first_chunk);
            u64::from_be_bytes(bytes.copied().unwrap_or_default())
        });
        [one, two, three, four, self.length.into()]
    }

    /// It as a part of a key.
    pub fn part(&self) -> Datum {
        match self.bytes.get(..usize::from(self.length)).unwrap_or_default() {
            [] => Datum::Nothing,
            name => Datum::Text(String::from_utf8_lossy(name).into()),
        }
    }
}
