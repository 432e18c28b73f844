//! The functions of subscriptions, and their registry.
//!
//! To add one: a file here with a [`FunctionSpec`], and a line in [`FUNCTIONS`]. The configuration, `explain` and the
//! manual page read that static.

mod applications;
pub(crate) mod apps;
mod arguments;
mod arp;
pub(crate) mod block;
pub(crate) mod by_field;
mod calls;
mod cast;
mod classes;
mod count;
mod deliver;
mod distinct;
mod distribution;
mod drops;
mod ends;
pub(crate) mod event;
mod extract;
mod fanout;
mod flood;
mod found;
mod frames;
mod icmperror;
mod ipproto;
mod iprange;
mod irc;
mod judge;
mod keyed_rows;
mod link_list;
mod log;
mod nonip;
mod probes;
mod rate;
mod record_key;
mod scans;
mod search;
pub(crate) mod select;
mod size;
mod states;
mod supplement;
mod syn;
mod tcp3;
mod times;
mod top;
mod tunnels;
mod typed;
mod udp;
mod unidentified;
pub(crate) mod watch;
mod wifi;
mod write;

pub use arguments::Arguments;
pub use block::{Block, OwnedTally};
pub use deliver::{DELIVERIES, Delivery};
pub use drops::{DROPS, PER_MILLION, drops_of};
pub use ends::Share;
pub use event::{judging_drops, window_of};
pub use judge::{BuildJudge, Judge, judge_of};
pub use select::{CallError, Callable, Selector};
pub use supplement::{SUPPLEMENTS, Supplement};
pub(crate) use unidentified::has_no_parser;
pub use watch::FileState;

use crate::target::Target;
use crate::uncommon::Uncommon;
use crate::{Item, Seeds};
use weir_api::{Count, FunctionCall, Level, Reading};
use weir_filter::PacketMask;

/// Every function that selects, in the order of the manual.
pub static SELECTORS: &[&Selector] = &[&select::WHERE, &select::TABLES, &select::SAMPLE, &search::SEARCH];

/// Every function, in the order of the manual.
pub static FUNCTIONS: &[&FunctionSpec] = &[
    &count::PACKETS,
    &count::BYTES,
    &top::TOP,
    &distinct::DISTINCT,
    &cast::CAST,
    &size::SIZE,
    &ipproto::IPPROTO,
    &tcp3::TCP3,
    &iprange::IPRANGE,
    &rate::RATE,
    &distribution::DISTRIBUTION,
    &frames::FRAMES,
    &nonip::NONIP,
    &tunnels::TUNNELS,
    &wifi::WIFI,
    &arp::ARP,
    &scans::SCANS,
    &fanout::FANOUT,
    &syn::SYN,
    &udp::UDP,
    &icmperror::ICMPERROR,
    &flood::FLOOD,
    &states::STATES,
    &applications::APPLICATIONS,
    &apps::APPS,
    &unidentified::UNIDENTIFIED,
    &event::EVENT,
    &watch::WATCH,
    &log::LOG,
    &write::WRITE,
];

/// Every function over records, in the order of the manual. Their keys are fields, so that some have the names of functions
/// over packets and flows.
pub static RECORD_FUNCTIONS: &[&FunctionSpec] = &[
    &by_field::RECORDS,
    &by_field::TOP,
    &by_field::DISTINCT,
    &by_field::QUANTILES,
    &event::EVENT_OF_RECORDS,
    &watch::WATCH_OF_RECORDS,
    &log::LOG_OF_RECORDS,
    &write::WRITE_OF_RECORDS,
    &extract::EXTRACT,
    &calls::SPEC,
    &irc::IRC,
];

/// The tables whose records a call of a function over records reads; `None` if it reads those of all tables.
pub(crate) fn record_tables(call: &FunctionCall) -> Option<Vec<&'static str>> {
    match call.name.as_str() {
        name if name == calls::SPEC.name => Some(calls::TABLES.to_vec()),
        name if name == irc::IRC.name => Some(irc::TABLES.to_vec()),
        _ => by_field::tables(call),
    }
}

/// The fields of a table that a call of a function over records reads; `None` if it may read any.
pub(crate) fn record_fields(call: &FunctionCall, table: &str) -> Option<Vec<&'static str>> {
    if call.name == calls::SPEC.name { None } else { by_field::fields(call, table) }
}

/// Description of a function.
#[derive(Debug)]
pub struct FunctionSpec {
    /// Its name in the configuration and in readings.
    pub name: &'static str,
    /// One line for the manual.
    pub help: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// The levels that it can be used at.
    pub levels: &'static [Level],
    /// Its input at packet level. [`Uncommon::Questions`] is for functions at flow level, which see them beside flows.
    pub input: InputKind,
    /// Memory of an instance; the error lists the accepted values. Nothing is built for it.
    pub memory: fn(&Arguments<'_>) -> Result<Memory, String>,
    /// Builds the judge of its merged readings, if it finds events; the last argument is the length of an interval in
    /// nanoseconds. The error lists the accepted values.
    pub judge: Option<BuildJudge>,
    /// Where the items leave to that reach it, if they do. The error lists the accepted values.
    pub delivers: Option<BuildTarget>,
    /// Whether the protocols of flows are identified for it.
    pub identifies: bool,
    /// Builds an instance for a worker; the error lists the accepted values.
    pub build: fn(&Arguments<'_>) -> Result<Box<dyn Function>, String>,
}

/// Reads the target of a call at a level.
pub type BuildTarget = fn(&Arguments<'_>, Level) -> Result<Target, String>;

/// Memory of a function, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Memory {
    /// Maximum of an instance: each worker has one.
    pub state: usize,
    /// Maximum of a reading.
    pub reading: usize,
}

impl Memory {
    /// The memory of a function of a few counts.
    const SMALL: Memory = Memory { state: 512, reading: 512 };
}

/// An argument of a function.
#[derive(Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Meaning and accepted values.
    pub help: &'static str,
    /// The default; `None` if the argument is required.
    pub default: Option<&'static str>,
}

/// The input of a function at packet level.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InputKind {
    /// Only the number of packets and bytes: the reading is their [`weir_api::Count`], from any counter.
    Sums,
    /// Each packet's time and length; its layers are not read.
    Lengths,
    /// Each packet.
    Packets,
    /// The sums of flows if they give the same result (the subscription covers whole flows), else packets.
    Tallies,
    /// Each packet of an uncommon kind.
    Uncommon(Uncommon),
    /// The sums of flows, each packet with SYN, FIN or RST and the first of each flow, and each ICMP error, if the subscription
    /// covers whole flows; else packets.
    Control,
}

/// A function: it reads each item, and accumulates a reading.
pub trait Function: Send {
    /// Takes an item.
    fn item(&mut self, item: &Item<'_>);
    /// Takes an item, and returns whether the functions after it see the item. Blocks of packets pass as they are.
    fn passes(&mut self, item: &Item<'_>) -> bool {
        self.item(item);
        true
    }
    /// Takes the packets or tallies of a mask, with the result of [`Function::item`] for each.
    fn block(&mut self, block: &Block<'_>, mask: &PacketMask) {
        block.each(mask, |item| self.item(item));
    }
    /// Returns the reading since the last call and resets it. Without an item since then it is the reading of a new function,
    /// which is not asked for.
    fn take(&mut self) -> Reading;
    /// Whether its reading would be that of a new function, although it was shown items: then it is not asked for. `false` where
    /// the reading itself has to tell.
    fn is_empty(&self) -> bool {
        false
    }
    /// What it has counted since the last reading, which it keeps; `None` for a function whose reading is no count.
    fn so_far(&self) -> Option<Count> {
        None
    }
    /// Bytes of heap memory that the function holds now, if it holds more than a few counts.
    fn held(&self) -> usize {
        0
    }
}

impl FunctionSpec {
    /// The function of that name; the error names the most similar one.
    pub fn find(name: &str) -> Result<&'static FunctionSpec, String> {
        FUNCTIONS.iter().find(|spec| spec.name == name).copied().ok_or_else(|| {
            let names: Vec<&str> = FUNCTIONS.iter().map(|spec| spec.name).collect();
            format!("no function `{name}`; there are {}", names.join(", "))
        })
    }

    /// The function of that name at a level, with those that the command line alone calls; the error names the functions of the level.
    pub fn find_at(name: &str, level: Level) -> Result<&'static FunctionSpec, String> {
        if let Some(spec) = typed::find(name, level) {
            return Ok(spec);
        }
        if level != Level::Record {
            return Self::find(name);
        }
        RECORD_FUNCTIONS.iter().find(|spec| spec.name == name).copied().ok_or_else(|| {
            let names: Vec<&str> = RECORD_FUNCTIONS.iter().map(|spec| spec.name).collect();
            format!("no function `{name}` over records; there are {}", names.join(", "))
        })
    }

    /// Builds the function of a call, with checked arguments. `seeds` keys its hashes.
    pub fn call(&self, call: &FunctionCall, seeds: impl Into<Seeds>) -> Result<Box<dyn Function>, String> {
        (self.build)(&Arguments::new(self.name, self.arguments, call, seeds.into())?)
    }

    /// Builds the judge of a call; `None` if the function finds no events. `length` is that of an interval in nanoseconds.
    ///
    /// # Errors
    /// An argument is invalid; the text has the accepted values.
    pub fn judge(&self, call: &FunctionCall, length: u64) -> Option<Result<Box<dyn Judge>, String>> {
        let arguments = Arguments::new(self.name, self.arguments, call, 0_u64.into());
        let build = self.judge?;
        Some(arguments.and_then(|arguments| build(&arguments, length)))
    }

    /// Where the items of a call at a level leave to; `None` if the function does not deliver.
    ///
    /// # Errors
    /// An argument is invalid; the text has the accepted values.
    pub fn target(&self, call: &FunctionCall, level: Level) -> Result<Option<Target>, String> {
        let Some(delivers) = self.delivers else { return Ok(None) };
        delivers(&Arguments::new(self.name, self.arguments, call, 0_u64.into())?, level).map(Some)
    }

    /// The memory of the function of a call.
    pub fn memory(&self, call: &FunctionCall) -> Result<Memory, String> {
        (self.memory)(&Arguments::new(self.name, self.arguments, call, 0_u64.into())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_api::Table;
    use weir_filter::Directions;

    /// The merged table of a function in several workers, of which each is shown its share of the items by `show`.
    pub fn table_of<T>(
        spec: &FunctionSpec,
        call: &FunctionCall,
        (items, workers): (&[T], usize),
        show: impl Fn(&mut dyn Function, &T),
    ) -> Table {
        let readings = (0..workers).map(|worker| {
            let mut function = spec.call(call, 1_u64).unwrap();
            items.iter().skip(worker).step_by(workers).for_each(|item| show(&mut *function, item));
            function.take()
        });
        let whole = readings.reduce(|mut whole, reading| {
            whole.merge(&reading);
            whole
        });
        let Some(Reading::Table(table)) = whole else { panic!("a table") };
        table
    }

    /// A tally of the first packet of a flow, of 60 bytes, from the lower endpoint.
    fn first_tally(key: &weir_wire::FlowKey, vlan: u16) -> crate::Tally<'_> {
        crate::Tally {
            key,
            source_is_lower: true,
            initiator_is_lower: true,
            vlan,
            tag: weir_wire::Tag::NONE,
            packets: 1,
            bytes: 60,
            begins: true,
            carrier: false,
            unasked: false,
        }
    }

    #[test]
    fn names_are_unique_well_formed_and_have_help() {
        let mut names = BTreeSet::new();
        for spec in FUNCTIONS {
            assert!(spec.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{}", spec.name);
            assert!(names.insert(spec.name), "{} twice", spec.name);
            assert!(spec.help.ends_with('.'), "{}", spec.name);
            assert!(!spec.levels.is_empty(), "{}", spec.name);
            for argument in spec.arguments {
                assert!(argument.help.ends_with('.'), "{} {}", spec.name, argument.name);
            }
        }
    }

    /// A flow of a protocol without ports may have something else in their place, such as types of ICMP. No list takes that for
    /// a port, and lists of records by port do not have such flows.
    #[test]
    fn protocols_without_ports_have_none_in_any_list() {
        let mut calls: Vec<(&FunctionSpec, FunctionCall)> =
            FUNCTIONS.iter().map(|spec| (*spec, call_of(spec))).collect();
        for (name, _) in weir_api::KeyKind::ALL {
            calls.push((&top::TOP, FunctionCall::new("top").with("by", name)));
        }
        for (name, _) in weir_api::DistinctOf::ALL {
            calls.push((&distinct::DISTINCT, FunctionCall::new("distinct").with("of", name)));
        }
        let of_packets = calls.len();
        for by in ["port", "destination,port"] {
            calls.push((&by_field::TOP, FunctionCall::new("top").with("by", by)));
            let call = FunctionCall::new("quantiles").with("of", "stream.first_byte").with("by", by);
            calls.push((&by_field::QUANTILES, call));
        }
        calls.push((&by_field::DISTINCT, FunctionCall::new("distinct").with("of", "port")));
        let mut shown = BTreeSet::new();
        for protocol in [1_u8, 2, 6, 17, 33, 47, 50, 58, 89, 132, 136, 255] {
            let mut flow = scans::tests::flood(7);
            (flow.key.proto, flow.key.port) = (protocol, [41_017, 41_017]);
            let endpoints = crate::fields::endpoints_of(&flow);
            let table = &weir_proto::STREAM;
            let values = table.fields.iter().map(|_| weir_proto::Value::Duration(5)).collect();
            let record =
                weir_proto::Record { table, time: flow.first, values, packet: 0, at: Default::default() };
            for (at, (spec, call)) in calls.iter().enumerate() {
                let mut function = spec.call(call, 1_u64).unwrap();
                if at < of_packets {
                    function.item(&Item::FlowEnd(&flow, Directions::BOTH));
                    function.item(&Item::Tally(&first_tally(&flow.key, 0)));
                } else {
                    function.item(&Item::Record(&crate::fields::RecordView { endpoints, record: &record }));
                }
                let text = format!("{:?}", function.take());
                assert_eq!(function.take(), spec.call(call, 1_u64).unwrap().take(), "{call:?} without items");
                let has_port = text.contains("41017");
                assert!(
                    !has_port || weir_wire::has_ports(protocol),
                    "{call:?} of protocol {protocol}: {text}"
                );
                if at >= of_packets {
                    let counted = spec.call(call, 1_u64).unwrap().take();
                    let is_empty = text == format!("{counted:?}");
                    assert_eq!(
                        is_empty,
                        !weir_wire::has_ports(protocol),
                        "{call:?} of protocol {protocol}: {text}"
                    );
                }
                if has_port {
                    shown.insert(format!("{call:?}"));
                }
            }
        }
        // The flow is in lists by port where its protocol has ports.
        assert!(shown.len() >= 8, "{shown:?}");
    }

    #[test]
    fn a_function_without_items_since_its_last_reading_gives_that_of_a_new_one() {
        let flow = scans::tests::flood(7);
        let tally = first_tally(&flow.key, 3);
        let frame = [0xff; 60];
        let packet = weir_wire::build::packet(&frame, weir_wire::LinkType::ETHERNET);
        let packet = weir_wire::Packet { time: weir_wire::Time(1 << 60), ..packet };
        let layers = weir_wire::decode(&packet);
        let mut filled = 0;
        for spec in FUNCTIONS {
            let make = || spec.call(&call_of(spec), 1_u64).unwrap();
            let (mut function, nothing) = (make(), make().take());
            function.item(&Item::Packet(&packet, &layers));
            function.item(&Item::Tally(&tally));
            function.item(&Item::FlowEnd(&flow, Directions::BOTH));
            filled += usize::from(function.take() != nothing);
            assert_eq!(function.take(), nothing, "{}", spec.name);
        }
        assert!(filled > FUNCTIONS.len() / 2, "{filled} functions count any of these items");
    }

    #[test]
    fn functions_build_with_defaults_or_name_the_missing_argument() {
        for spec in FUNCTIONS {
            let needed = spec.arguments.iter().any(|argument| argument.default.is_none());
            let built = spec.call(&FunctionCall::new(spec.name), 1_u64);
            assert_eq!(built.is_err(), needed, "{}", spec.name);
        }
    }

    /// A call with all required arguments.
    fn call_of(spec: &FunctionSpec) -> FunctionCall {
        let needed = spec.arguments.iter().filter(|argument| argument.default.is_none());
        needed.fold(FunctionCall::new(spec.name), |call, argument| {
            let value = match argument.name {
                "to" if spec.name == "write" => "80.pcap",
                name if name.starts_with("net") => "10.0.0.0/8",
                _ => "80",
            };
            call.with(argument.name, value)
        })
    }

    /// Shows a packet of the lower endpoint of a flow, which begins it.
    fn show_packet(function: &mut dyn Function, key: &weir_wire::FlowKey, vlan: u16) {
        function.item(&Item::Tally(&first_tally(key, vlan)));
    }

    /// What is stated is what a function holds under a flood of flows from everywhere to everywhere, and in its
    /// reading: no less, and for the large ones not much more.
    #[test]
    fn the_stated_memory_is_what_a_flood_fills() {
        let mut calls: Vec<(&FunctionSpec, FunctionCall)> =
            FUNCTIONS.iter().map(|spec| (*spec, call_of(spec))).collect();
        for (name, _) in weir_api::KeyKind::ALL {
            calls.push((&top::TOP, FunctionCall::new("top").with("by", name).with("rows", 1000)));
        }
        for (spec, call) in calls {
            let stated = spec.memory(&call).unwrap();
            let mut function = spec.call(&call, 1_u64).unwrap();
            for n in 0..40_000_u32 {
                let flow = scans::tests::flood(n);
                function.item(&Item::FlowEnd(&flow, Directions::BOTH));
                show_packet(&mut *function, &flow.key, n as u16 & 0xfff);
            }
            // Rows of a function may hold more of what they have many of.
            if stated.state > (1 << 16).max(2 * function.held()) {
                for (source, target) in
                    (0..300_u32).flat_map(|source| (0..1024_u32).map(move |to| (source, to)))
                {
                    let mut key = scans::tests::flood(source).key;
                    key.proto = 17;
                    key.addr[1] = weir_wire::mapped((0xc000_0000 | target).to_be_bytes());
                    show_packet(&mut *function, &key, 0);
                    // A host of TCP may begin many connections.
                    key.proto = 6;
                    key.port = [target as u16; 2];
                    let tally = first_tally(&key, 0);
                    let time = weir_wire::Time(1);
                    function.item(&Item::Control(&crate::Control { tally, time, flags: 2 }));
                }
            }
            let held = function.held();
            let reading = function.take().memory();
            assert!(held <= stated.state, "{call:?}: {held} > {stated:?}");
            assert!(reading <= stated.reading, "{call:?}: {reading} > {stated:?}");
            if stated.state > 1 << 16 {
                assert!(held * 2 > stated.state, "{call:?}: {held} of {stated:?}");
            }
        }
    }

    #[test]
    fn memory_follows_the_arguments_and_refuses_what_building_refuses() {
        let rows = |rows: u32| top::TOP.memory(&FunctionCall::new("top").with("rows", rows));
        let (small, large) = (rows(8192).unwrap(), rows(1 << 20).unwrap());
        assert!(large.state > 100 * small.state && large.reading > 100 * small.reading);
        assert!(rows(1 << 21).unwrap_err().contains("1048576"));
        assert!(top::TOP.memory(&FunctionCall::new("top").with("of", 1_u64)).unwrap_err().contains("by"));
    }

    /// The second take of two gives an empty reading, and merging an empty reading changes nothing.
    #[test]
    fn an_empty_reading_is_neutral() {
        for spec in FUNCTIONS {
            let mut function = spec.call(&call_of(spec), 1_u64).unwrap();
            let mut reading = function.take();
            let empty = function.take();
            reading.merge(&empty);
            assert_eq!(reading, empty, "{}", spec.name);
        }
    }

    #[test]
    fn a_wrong_argument_is_named_in_the_error() {
        let spec = FunctionSpec::find("top").unwrap();
        let error = spec.call(&FunctionCall::new("top").with("of", "source"), 1_u64).err().unwrap();
        assert!(error.contains("no argument `of`") && error.contains("by"), "{error}");
        let error = spec.call(&FunctionCall::new("top").with("by", "colour"), 1_u64).err().unwrap();
        assert!(error.contains("colour") && error.contains("source"), "{error}");
    }
}
