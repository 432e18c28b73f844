//! Applications of hosts: Ourmon's flags.
//!
//! A peer of a file-sharing network reaches for as many hosts as a scanner does, and many of them do not answer. What its flows say tells
//! it apart.

use super::ends::words;
use super::times::Times;
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::bounded::{Amount, Bounded, kept};
use crate::keyed::{Address, KeyHash, Keyed};
use crate::{FlowRecord, Item, OwnApps, Seeds, Side};
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{
    Count, Datum, DistinctValues, Fold, Folded, FunctionCall, KeyColumn, Level, NAMES, OWN_WORDS, Reading,
    Schema, Shown, TableColumn, TableRow, Unit, name_number,
};
use weir_proto::PROTOCOLS;
use weir_wire::has_ports;

pub(super) static APPS: FunctionSpec = FunctionSpec {
    name: "apps",
    help: "Hosts by the applications that were identified in their flows: letters for BitTorrent (B), eDonkey (E), Gnutella (G), IRC (I) and those of [[app]], names for all. A host has a row of a flow if it sent payload in it. A flow counts when it has ended.",
    arguments: &[
        Argument {
            name: "by",
            help: "`host`: hosts, with letters and names; `application`: hosts and applications, with the numbers of each.",
            default: Some("host"),
        },
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of rows to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Flow],
    input: InputKind::Packets,
    memory: |arguments| {
        let (by, _, rows) = shape(arguments)?;
        Ok(Memory {
            state: 256 + Bounded::<Subject, Spoken>::bytes(rows),
            reading: 1024 + kept(rows) * by.row(),
        })
    },
    judge: None,
    delivers: None,
    identifies: true,
    build: |arguments| build(arguments, &Arc::default()),
};

/// The function, with the applications that users describe.
fn build(arguments: &Arguments<'_>, own: &Arc<OwnApps>) -> Result<Box<dyn Function>, String> {
    let (by, show, rows) = shape(arguments)?;
    let schema = Schema {
        name: Cow::Borrowed("apps"),
        keys: Cow::Borrowed(by.keys()),
        columns: Cow::Borrowed(by.columns()),
        shown: Shown::Heaviest(show),
    };
    let list = Bounded::new(rows, Unit::Packets, arguments.seeds.run);
    Ok(Box::new(Apps { by, schema: Arc::new(schema), own: Arc::clone(own), list }))
}

/// Whether a call is one of this function.
pub(crate) fn is_called(call: &FunctionCall) -> bool {
    call.name == APPS.name
}

/// The function of a call, with the applications that users describe.
///
/// # Errors
/// An argument is invalid.
pub(crate) fn with_own(
    call: &FunctionCall,
    own: &Arc<OwnApps>,
    seeds: Seeds,
) -> Result<Box<dyn Function>, String> {
    build(&Arguments::new(APPS.name, APPS.arguments, call, seeds)?, own)
}

/// The memory of a call, with that of the names of the applications that users describe.
///
/// # Errors
/// An argument is invalid.
pub(crate) fn memory_with(call: &FunctionCall, own: &OwnApps, plain: Memory) -> Result<Memory, String> {
    let arguments = Arguments::new(APPS.name, APPS.arguments, call, 0_u64.into())?;
    let (by, _, rows) = shape(&arguments)?;
    let names = match by {
        // A list of values doubles when it is full.
        By::Host => 4 * size_of::<u128>() * own.len(),
        By::Application => 0,
    };
    Ok(Memory { reading: plain.reading + kept(rows) * names, ..plain })
}

/// The letters of applications, by the name of the protocol that is identified. Other protocols have no letter.
const LETTERS: [(&str, char); 6] =
    [("bittorrent", 'B'), ("bt_dht", 'B'), ("edonkey", 'E'), ("gnutella", 'G'), ("irc", 'I'), ("utp", 'B')];

/// The letter of a protocol.
fn letter(protocol: &str) -> Option<char> {
    LETTERS.iter().find(|(name, _)| *name == protocol).map(|(_, letter)| *letter)
}

/// The name and the letter of an application: the protocol at a position in the list of protocols, plus 1, or one of those that users
/// describe, whose positions follow.
fn application(place: u8, own: &OwnApps) -> Option<(&str, Option<char>)> {
    let at = usize::from(place).checked_sub(1)?;
    match at.checked_sub(PROTOCOLS.len()) {
        None => PROTOCOLS.get(at).map(|protocol| (protocol.name, letter(protocol.name))),
        Some(at) => own.get(at).map(|(name, flag)| (name, Some(flag))),
    }
}

/// Positions of 32 applications that users describe follow those of the protocols.
const _: () = assert!(PROTOCOLS.len() + 32 <= u8::MAX as usize);

/// What the rows are by, rows to show, and rows to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(By, u32, usize), String> {
    let by = arguments.choice("by", &[("host", By::Host), ("application", By::Application)])?;
    Ok((by, arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 20)?))
}

/// What a row is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Host,
    Application,
}

/// The parts of keys.
const HOST: KeyColumn = KeyColumn::new("host", "", "The host.");
const APPLICATION: KeyColumn = KeyColumn::new("application", OWN_WORDS, "The protocol that was identified.");
const FLAG: KeyColumn = KeyColumn::new("flag", OWN_WORDS, "The letter of the application, if it has one.");

/// The columns of values.
const FLOWS: TableColumn = flows("flows", "Flows, or parts of long ones.");
const INITIATED: TableColumn = flows("initiated", "Of these flows, those that the host began.");
const BYTES: TableColumn = TableColumn::new(
    "bytes",
    Fold::Sum,
    "bytes",
    "Bytes of these flows on the wire, both directions, link-layer headers included.",
);
const FIRST: TableColumn = TableColumn::new("first", Fold::Min, "time", "Beginning of the first flow.");
const LAST: TableColumn = TableColumn::new("last", Fold::Max, "time", "Beginning of the last flow.");
const FLAGS: TableColumn =
    TableColumn::new("flags", Fold::Distinct, NAMES, "The letters of the applications, in order.");
const APPLICATIONS: TableColumn =
    TableColumn::new("applications", Fold::Distinct, NAMES, "The protocols that were identified, in order.");

/// A column of flows.
const fn flows(name: &'static str, help: &'static str) -> TableColumn {
    TableColumn::new(name, Fold::Sum, "flows", help)
}

impl By {
    fn keys(self) -> &'static [KeyColumn] {
        static BY_HOST: [KeyColumn; 1] = [HOST];
        static BY_APPLICATION: [KeyColumn; 3] = [HOST, APPLICATION, FLAG];
        match self {
            Self::Host => &BY_HOST,
            Self::Application => &BY_APPLICATION,
        }
    }

    fn columns(self) -> &'static [TableColumn] {
        static BY_HOST: [TableColumn; 7] = [FLOWS, INITIATED, BYTES, FIRST, LAST, FLAGS, APPLICATIONS];
        static BY_APPLICATION: [TableColumn; 5] = [FLOWS, INITIATED, BYTES, FIRST, LAST];
        match self {
            Self::Host => &BY_HOST,
            Self::Application => &BY_APPLICATION,
        }
    }

    /// Maximum bytes of a row of a reading.
    fn row(self) -> usize {
        let parts = self.keys().len() * size_of::<Datum>() + self.columns().len() * size_of::<Folded>();
        let names = match self {
            // A list of values doubles when it is full.
            Self::Host => size_of::<u128>() * (LETTERS.len() + PROTOCOLS.len()).next_power_of_two(),
            Self::Application => MAX_NAME + 1,
        };
        size_of::<TableRow>() + parts + names
    }
}

/// Maximum bytes of the name of a protocol: a column of names has no room for more.
const MAX_NAME: usize = 16;

/// What a flow counts to: a host, or a host and a protocol.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Subject {
    host: Address,
    /// The position of the application: see [`application`]; 0 in a row of a host.
    place: u8,
}

impl Keyed for Subject {
    fn hash(&self, hash: &KeyHash) -> u64 {
        hash.of([self.host[0], self.host[1], self.place.into()])
    }
}

/// Protocols, a bit for each by its position in the list of protocols.
#[derive(Clone, Copy, Debug, Default)]
struct Protocols([u64; 2]);

impl Protocols {
    /// Those of positions, plus 1; 0 stands for none.
    fn of(places: [u8; 4]) -> Self {
        let mut all = Self::default();
        for at in places.into_iter().filter_map(|place| place.checked_sub(1)) {
            if let Some(bits) = all.0.get_mut(usize::from(at) / 64) {
                *bits |= 1 << (at % 64);
            }
        }
        all
    }

    fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(bits, more)| *bits |= more);
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        let has = move |at: usize| self.0.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1);
        PROTOCOLS.iter().enumerate().filter(move |(at, _)| has(*at)).map(|(_, protocol)| protocol.name)
    }
}

/// The flows of a row.
#[derive(Clone, Debug, Default)]
struct Spoken {
    flows: u64,
    initiated: u64,
    bytes: u64,
    /// Beginning of the first and the last flow.
    times: Times,
    protocols: Protocols,
    /// A bit for each application that users describe.
    own: u32,
    /// Letters and names of all flows: a sum over workers has the number of all additions.
    letters: u64,
    names: u64,
    error: u32,
}

/// A flow of a host.
#[derive(Clone, Copy, Debug)]
struct Flow {
    initiated: bool,
    bytes: u64,
    began: u64,
    protocols: Protocols,
    own: u32,
    letters: u64,
    names: u64,
}

/// Rows are ranked by their number of flows.
impl Amount for Spoken {
    type More = Flow;
    const LEAST: u32 = 0;

    fn weight_of(_: &Flow, _: Unit) -> u64 {
        1
    }

    fn count_of(more: &Flow) -> Count {
        Count { packets: 1, bytes: more.bytes }
    }

    fn add(&mut self, more: &Flow, _: Unit, _: usize) -> u64 {
        self.flows += 1;
        self.initiated += u64::from(more.initiated);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.times.add(more.began, more.began);
        self.protocols.add(more.protocols);
        self.own |= more.own;
        self.letters += more.letters;
        self.names += more.names;
        1
    }

    fn weight(&self, _: Unit) -> u64 {
        self.flows
    }

    fn count(&self) -> Count {
        Count { packets: self.flows, bytes: self.bytes }
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

/// A list.
struct Apps {
    by: By,
    schema: Arc<Schema>,
    own: Arc<OwnApps>,
    list: Bounded<Subject, Spoken>,
}

impl Apps {
    /// Takes a flow, with a bit for each application that users describe.
    fn flow(&mut self, flow: &FlowRecord, own: u32) {
        let bytes = flow.forward.frame_bytes.saturating_add(flow.reverse.frame_bytes);
        let (began, protocols) = (flow.first.0, Protocols::of(flow.services));
        let places = || flow.services.into_iter().filter(|place| *place > 0).chain(places(own));
        let has_letter =
            |place: &u8| application(*place, &self.own).is_some_and(|(_, letter)| letter.is_some());
        let letters = places().filter(has_letter).count() as u64;
        let names = places().count() as u64;
        let sides = [(true, flow.initiator(), &flow.forward), (false, flow.responder(), &flow.reverse)];
        for (initiated, (host, _), _) in sides.into_iter().filter(|(.., side)| speaks(side)) {
            let (host, more) =
                (words(host), Flow { initiated, bytes, began, protocols, own, letters, names });
            match self.by {
                By::Host => self.list.add_more(Subject { host, place: 0 }, more),
                By::Application => {
                    for place in places() {
                        self.list.add_more(Subject { host, place }, more);
                    }
                }
            }
        }
    }
}

/// A letter as a value of a column of names.
fn letter_number(letter: char) -> u128 {
    name_number(letter.encode_utf8(&mut [0; 4]))
}

/// The positions of applications that users describe.
fn places(own: u32) -> impl Iterator<Item = u8> {
    let is_set = move |at: &u8| own >> at & 1 == 1;
    (0..32).filter(is_set).map(|at| PROTOCOLS.len() as u8 + 1 + at)
}

/// The port of the responder, if the protocol has ports.
fn port_of(flow: &FlowRecord) -> Option<u16> {
    has_ports(flow.key.proto).then(|| flow.responder().1)
}

/// Whether a side says anything: a host that is only spoken to, such as the target of a probe, uses no application by that.
fn speaks(side: &Side) -> bool {
    side.payload_bytes > 0
}

impl Function for Apps {
    fn item(&mut self, item: &Item<'_>) {
        if let Item::FlowEnd(flow, _) = item
            && !flow.carrier
            && flow.follows == 0
        {
            let own = if self.own.is_empty() { 0 } else { self.own.of_flow(flow.own_apps, port_of(flow)) };
            if own > 0 || flow.services.first().is_some_and(|first| *first > 0) {
                self.flow(flow, own);
            }
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        let by = self.by;
        let all = Arc::clone(&self.own);
        self.list.take_table(&self.schema, |subject, spoken| {
            let Spoken { flows, initiated, bytes, times, protocols, own, letters, names, .. } = spoken;
            let mut key = vec![Datum::Address(ip(subject.host))];
            let mut values: Vec<Folded> = [flows, initiated, bytes].map(Folded::Sum).into();
            values.extend(times.folded());
            match by {
                By::Host => {
                    let found = || places(own).filter_map(|place| application(place, &all));
                    let own_letters = found().filter_map(|(_, letter)| letter);
                    let own_names = found().map(|(name, _)| name_number(name));
                    let all_letters = protocols.names().filter_map(letter).chain(own_letters);
                    values.push(distinct(all_letters.map(letter_number), letters));
                    values.push(distinct(protocols.names().map(name_number).chain(own_names), names));
                }
                By::Application => {
                    let found = application(subject.place, &all);
                    let (name, letter) = found.map_or((None, None), |(name, letter)| (Some(name), letter));
                    key.push(name.map_or(Datum::Nothing, |name| Datum::Text(name.into())));
                    key.push(letter.map_or(Datum::Nothing, |letter| Datum::Text(letter.to_string().into())));
                }
            }
            (key, values)
        })
    }
}

/// The value of a column of names, each as a number. All flows together had `all` of them.
fn distinct(names: impl Iterator<Item = u128>, all: u64) -> Folded {
    let (mut values, mut added) = (DistinctValues::default(), 0);
    names.for_each(|name| {
        values.add(name);
        added += 1;
    });
    values.add_again(all.saturating_sub(added));
    Folded::Distinct(values)
}

#[cfg(test)]
mod tests {
    use super::super::scans::tests::flow;
    use super::*;
    use crate::ConnState;
    use crate::function::tests::table_of;
    use std::net::IpAddr;
    use weir_api::{Cell, FunctionCall, Table};
    use weir_filter::Directions;

    /// The position of a protocol, plus 1.
    fn place(name: &str) -> u8 {
        PROTOCOLS.iter().position(|protocol| protocol.name == name).unwrap() as u8 + 1
    }

    /// A flow of 10.0.0.`source` to 10.0.1.`target` in which protocols were identified. Both sides speak.
    fn spoken(source: u8, target: u8, names: &[&str]) -> FlowRecord {
        let mut flow = flow(source, target, 1000, ConnState::SF);
        flow.services.iter_mut().zip(names).for_each(|(service, name)| *service = place(name));
        (flow.forward.payload_bytes, flow.reverse.payload_bytes) = (20, 20);
        flow
    }

    fn table(by: &str, flows: &[FlowRecord], workers: usize) -> Table {
        let call = FunctionCall::new("apps").with("by", by).with("show", 100);
        table_of(&APPS, &call, (flows, workers), |function, flow| {
            function.item(&Item::FlowEnd(flow, Directions::BOTH));
        })
    }

    /// The cells of each row, as text, in order.
    fn rows(table: &Table) -> Vec<String> {
        let reading = Reading::Table(table.clone());
        let cells = reading.cells();
        let text = |cell: &Cell<'_>| match cell {
            Cell::Address(address) => address.to_string(),
            Cell::Whole(number) | Cell::Time(number) => number.to_string(),
            Cell::Text(text) => text.to_string(),
            Cell::Nothing => "-".to_owned(),
            other => panic!("{other:?}"),
        };
        let row = |row: &weir_api::Row<'_>| row.values.iter().map(text).collect::<Vec<_>>().join(" ");
        let mut rows: Vec<String> = cells.rows.iter().map(row).collect();
        rows.sort();
        rows
    }

    fn flows() -> Vec<FlowRecord> {
        let mut silent = spoken(1, 9, &["bt_dht"]);
        silent.reverse.payload_bytes = 0;
        let carrier = FlowRecord { carrier: true, ..spoken(5, 6, &["irc"]) };
        let late = FlowRecord { follows: 7, ..spoken(5, 6, &["irc"]) };
        let later = FlowRecord { first: weir_wire::Time(5000), ..spoken(1, 2, &["http"]) };
        vec![
            spoken(1, 1, &["bittorrent", "tls"]),
            spoken(1, 2, &["gnutella"]),
            spoken(2, 1, &["edonkey"]),
            spoken(3, 1, &["irc"]),
            later,
            silent,
            carrier,
            late,
            spoken(5, 6, &[]),
        ]
    }

    #[test]
    fn hosts_have_the_letters_and_names_of_what_they_speak() {
        let flows = flows();
        let expected = [
            "10.0.0.1 4 4 480 1000 5000 BG bittorrent bt_dht gnutella http tls",
            "10.0.0.2 1 1 120 1000 1000 E edonkey",
            "10.0.0.3 1 1 120 1000 1000 I irc",
            "10.0.1.1 3 0 360 1000 1000 BEI bittorrent edonkey irc tls",
            "10.0.1.2 2 0 240 1000 5000 G gnutella http",
        ];
        assert_eq!(rows(&table("host", &flows, 1)), expected);
        // Several workers see flows of one application.
        let flows = flows.repeat(3);
        for workers in [2, 3, 7] {
            assert_eq!(table("host", &flows, workers), table("host", &flows, 1), "{workers}");
        }
    }

    #[test]
    fn each_application_of_a_host_has_its_own_numbers() {
        let flows = flows();
        let found = rows(&table("application", &flows, 1));
        let of_first: Vec<&str> =
            found.iter().map(String::as_str).filter(|row| row.starts_with("10.0.0.1 ")).collect();
        let expected = [
            "10.0.0.1 bittorrent B 1 1 120 1000 1000",
            "10.0.0.1 bt_dht B 1 1 120 1000 1000",
            "10.0.0.1 gnutella G 1 1 120 1000 1000",
            "10.0.0.1 http - 1 1 120 5000 5000",
            "10.0.0.1 tls - 1 1 120 1000 1000",
        ];
        assert_eq!(of_first, expected);
        assert_eq!(found.len(), 5 + 1 + 1 + 4 + 2);
        for workers in [2, 3, 7] {
            assert_eq!(table("application", &flows, workers), table("application", &flows, 1), "{workers}");
        }
    }

    /// Under more hosts than rows the number of flows of each row is right within its error.
    #[test]
    fn the_bound_of_a_row_holds_in_a_flood() {
        let call = FunctionCall::new("apps").with("rows", 64);
        let flows: Vec<FlowRecord> = (0..6000_u32)
            .map(|n| {
                let last = if n % 3 == 0 { n % 30 } else { n };
                let mut flow = spoken(1, 1, &["bt_dht"]);
                flow.key.addr[0] = weir_wire::mapped([10, 1, (last >> 8) as u8, last as u8]);
                flow
            })
            .collect();
        for workers in [1, 2] {
            let table = table_of(&APPS, &call, (&flows, workers), |function, flow| {
                function.item(&Item::FlowEnd(flow, Directions::BOTH));
            });
            assert!(!table.is_exact() && table.rows.len() <= table.capacity);
            for row in &table.rows {
                let [Datum::Address(IpAddr::V4(host))] = row.key[..] else { panic!("{row:?}") };
                let is_it = |flow: &&FlowRecord| {
                    [flow.initiator().0, flow.responder().0].contains(&weir_wire::mapped(host.octets()))
                };
                let truth = flows.iter().filter(is_it).count() as u64;
                assert!(row.weight() <= truth && truth <= row.weight() + row.error, "{row:?}: {truth}");
            }
        }
    }

    /// A reading of hosts that speak everything takes no more memory than is stated.
    #[test]
    fn a_reading_of_all_names_has_the_stated_memory() {
        for by in ["host", "application"] {
            let call = FunctionCall::new("apps").with("by", by).with("rows", 64);
            let mut function = APPS.call(&call, 1_u64).unwrap();
            for source in 0..200 {
                for names in PROTOCOLS.chunks(4) {
                    let names: Vec<&str> = names.iter().map(|protocol| protocol.name).collect();
                    function.item(&Item::FlowEnd(&spoken(source, 1, &names), Directions::BOTH));
                }
            }
            let stated = APPS.memory(&call).unwrap();
            assert!(function.held() <= stated.state);
            let memory = function.take().memory();
            assert!(memory <= stated.reading && memory * 2 > stated.reading, "{by}: {memory}, {stated:?}");
        }
    }

    #[test]
    fn letters_are_of_protocols_and_names_fit() {
        assert!(LETTERS.iter().all(|(name, _)| place(name) > 0));
        assert!(PROTOCOLS.iter().all(|protocol| protocol.name.len() <= MAX_NAME));
        assert!(PROTOCOLS.len() <= 128);
        for (name, value) in [("by", "port"), ("rows", "15"), ("rows", "1048577"), ("show", "0")] {
            let call = FunctionCall::new("apps").with(name, value);
            assert!(APPS.call(&call, 1_u64).is_err(), "{name} = {value}");
            assert!(APPS.memory(&call).is_err(), "{name} = {value}");
        }
    }
}
