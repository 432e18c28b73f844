//! Functions that select items: the functions after them in a chain see only those.
//!
//! Whether an item is selected depends on the item alone, so that the result does not depend on the number of workers, and
//! workers share the compiled function.

use super::SELECTORS;
use super::event::EVENT;
use super::watch::WATCH;
use super::{Argument, Arguments, FunctionSpec, RECORD_FUNCTIONS};
use crate::demand::Demand;
use crate::fields::{endpoints, with_packets};
use crate::flow_fields::EndedFlow;
use crate::function::FUNCTIONS;
use crate::{Block, Item, Seeds};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use weir_api::{FunctionCall, Level};
use weir_filter::{Directions, Filter, FilterError, FlowTest, Options, PacketMask, RecordTest, Tables};
use weir_proto::Table;
use weir_wire::stream::Chunk;

/// Description of a function that selects items.
#[derive(Debug)]
pub struct Selector {
    /// Its name in the configuration.
    pub name: &'static str,
    /// One line for the manual.
    pub help: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// The levels that it can be used at.
    pub levels: &'static [Level],
    /// Compiles a call at a level.
    pub(super) build: Build,
}

/// Compiles a call at a level, with the options of expressions.
pub(super) type Build = fn(&Arguments<'_>, Level, &Options<'_>) -> Result<Arc<dyn Select>, CallError>;

/// A compiled function that selects items.
pub(crate) trait Select: Send + Sync {
    /// Whether the functions after this one see the item.
    fn keeps(&self, item: &Item<'_>) -> bool;
    /// The directions of a flow that has ended that the functions after this one see.
    fn narrows(&self, item: &Item<'_>) -> Directions {
        match item {
            Item::FlowEnd(_, directions) => *directions,
            _ => Directions::BOTH,
        }
    }
    /// Clears the items of a mask that it does not select.
    fn block(&self, block: &Block<'_>, mask: &mut PacketMask) {
        block.retain(mask, |item| self.keeps(item));
    }
    /// The tables whose records it may select.
    fn tables(&self) -> Tables {
        Tables::All
    }
    /// What parsers must emit for it, if it selects that. Then the functions of its chain see nothing else.
    fn demand(&self) -> Option<Demand> {
        None
    }
}

/// The reason why a call is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallError {
    /// The error, and the accepted values.
    pub message: String,
    /// The place of the error in the first argument, in bytes, if it is known.
    pub span: Option<Range<usize>>,
}

impl From<String> for CallError {
    fn from(message: String) -> Self {
        Self { message, span: None }
    }
}

impl From<FilterError> for CallError {
    fn from(error: FilterError) -> Self {
        Self { message: error.message, span: Some(error.span) }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Selector {
    /// The function of that name.
    pub fn find(name: &str) -> Option<&'static Selector> {
        SELECTORS.iter().find(|selector| selector.name == name).copied()
    }

    /// Compiles a call at a level. `seeds` keys its hashes.
    pub(crate) fn call(
        &self,
        call: &FunctionCall,
        level: Level,
        options: &Options<'_>,
        seeds: impl Into<Seeds>,
    ) -> Result<Arc<dyn Select>, CallError> {
        (self.build)(&Arguments::new(self.name, self.arguments, call, seeds.into())?, level, options)
    }
}

/// A function that a subscription can call.
#[derive(Clone, Copy, Debug)]
pub enum Callable {
    /// It measures.
    Measure(&'static FunctionSpec),
    /// It selects.
    Select(&'static Selector),
}

impl Callable {
    /// The functions of a level, in the order of the manual.
    pub fn of_level(level: Level) -> impl Iterator<Item = Callable> {
        let measures = if level == Level::Record { RECORD_FUNCTIONS } else { FUNCTIONS };
        let selectors = SELECTORS.iter().map(|selector| Callable::Select(selector));
        measures.iter().map(|spec| Callable::Measure(spec)).chain(selectors)
    }

    /// The function of that name at a level, else at any level.
    pub fn find(name: &str, level: Level) -> Option<Callable> {
        let all = || [level, Level::Packet, Level::Record].into_iter().flat_map(Callable::of_level);
        all().find(|callable| callable.name() == name)
    }

    /// Whether more than a reading leaves the pass by it: packets, rows, files or events.
    pub fn leaves(self) -> bool {
        match self {
            Callable::Measure(spec) => {
                spec.delivers.is_some() || [EVENT.name, WATCH.name].contains(&spec.name)
            }
            Callable::Select(_) => false,
        }
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Callable::Measure(spec) => spec.name,
            Callable::Select(selector) => selector.name,
        }
    }

    /// Its arguments.
    pub fn arguments(self) -> &'static [Argument] {
        match self {
            Callable::Measure(spec) => spec.arguments,
            Callable::Select(selector) => selector.arguments,
        }
    }

    /// The levels that it can be used at.
    pub fn levels(self) -> &'static [Level] {
        match self {
            Callable::Measure(spec) => spec.levels,
            Callable::Select(selector) => selector.levels,
        }
    }

    /// Whether its first argument is an expression: in a call in words it takes the rest of the text.
    pub fn takes_expression(self) -> bool {
        self.name() == WHERE.name
    }

    /// Checks a call at a level.
    ///
    /// # Errors
    /// The call has an unknown argument or a wrong value.
    pub fn check(self, call: &FunctionCall, level: Level, options: &Options<'_>) -> Result<(), CallError> {
        match self {
            Callable::Measure(spec) => Ok(spec.call(call, 0_u64).map(drop)?),
            Callable::Select(selector) => selector.call(call, level, options, 0_u64).map(drop),
        }
    }
}

pub(super) static WHERE: Selector = Selector {
    name: "where",
    help: "Selects what an expression matches.",
    arguments: &[Argument {
        name: "expression",
        help: "An expression of the subscription's level.",
        default: None,
    }],
    levels: &Level::ALL,
    build: |arguments, level, options| {
        let text = arguments.text("expression")?;
        Ok(match level {
            Level::Stream => Arc::new(Where::Flows(Box::new(FlowTest::of_key(text, options)?))),
            Level::Flow => Arc::new(Where::Flows(Box::new(FlowTest::of_ended(text, options)?))),
            Level::Record => Arc::new(Where::Records(Box::new(RecordTest::compile(text, options)?))),
            Level::Packet => Arc::new(Where::Packets(Box::new(Filter::compile(text, options)?))),
        })
    },
};

/// The expression of a call, compiled for its level.
enum Where {
    Packets(Box<Filter>),
    Flows(Box<FlowTest>),
    Records(Box<RecordTest>),
}

impl Select for Where {
    fn keeps(&self, item: &Item<'_>) -> bool {
        match (self, item) {
            (Where::Packets(filter), Item::Packet(packet, layers)) => filter.matches(packet, layers),
            (Where::Flows(_), Item::FlowEnd(..)) => self.narrows(item) != Directions::NONE,
            (
                Where::Flows(test),
                Item::Chunk(flow, Chunk { direction, .. }) | Item::Buffer(flow, _, direction, _),
            ) => test.directions(&endpoints(flow)).has(*direction),
            (Where::Flows(test), Item::Field(flow, ..)) => test.holds(&endpoints(flow)),
            (Where::Flows(test), Item::Question(question)) => test.directions(&question.endpoints()).forward,
            (Where::Records(test), Item::Record(record) | Item::Requested(record)) => test.holds(*record),
            _ => false,
        }
    }

    fn narrows(&self, item: &Item<'_>) -> Directions {
        match (self, item) {
            (Where::Flows(test), Item::FlowEnd(flow, directions)) => {
                with_packets(flow, test.directions(&EndedFlow::new(flow))).and(*directions)
            }
            _ => Directions::BOTH,
        }
    }

    fn tables(&self) -> Tables {
        match self {
            Where::Records(test) => test.tables(),
            Where::Packets(_) | Where::Flows(_) => Tables::All,
        }
    }
}

pub(super) static TABLES: Selector = Selector {
    name: "tables",
    help: "Selects the records of some tables.",
    arguments: &[Argument {
        name: "of",
        help: "Names of tables, such as dns or dns+http, joined by plus signs.",
        default: None,
    }],
    levels: &[Level::Record],
    build: |arguments, _, _| {
        let names = arguments.text("of")?.split('+');
        let table = |name: &str| {
            let found = weir_proto::tables().find(|table| table.name == name);
            found.ok_or_else(|| CallError::from(format!("`tables`: of = `{name}`: there is no such table")))
        };
        Ok(Arc::new(OfTables(names.map(table).collect::<Result<_, _>>()?)))
    },
};

struct OfTables(Vec<&'static Table>);

impl Select for OfTables {
    fn keeps(&self, item: &Item<'_>) -> bool {
        matches!(item, Item::Record(view) if self.0.contains(&view.record.table))
    }

    fn tables(&self) -> Tables {
        let mut names: Vec<&'static str> = self.0.iter().map(|table| table.name).collect();
        names.sort_unstable();
        Tables::Only(names)
    }
}

pub(super) static SAMPLE: Selector = Selector {
    name: "sample",
    help: "Selects one of the given number of items on average, by a hash of the item: a packet by its time, length and first 64 bytes, a flow and its stream by its identifier, a record by its flow and time. The functions after it measure the sample.",
    arguments: &[Argument {
        name: "one_in",
        help: "One of this number of items is selected on average, 1 to 4294967295.",
        default: None,
    }],
    levels: &Level::ALL,
    build: |arguments, _, _| match arguments.parse("one_in")? {
        0 => Err("`sample`: one_in = 0 is not between 1 and 4294967295".to_owned().into()),
        one_in => Ok(Arc::new(Sample { one_in, seed: arguments.seeds.run })),
    },
};

/// Bytes of a packet that its hash covers.
const HEAD: usize = 64;

struct Sample {
    one_in: u32,
    seed: u64,
}

impl Select for Sample {
    fn keeps(&self, item: &Item<'_>) -> bool {
        let mut hasher = DefaultHasher::new();
        self.seed.hash(&mut hasher);
        match item {
            Item::Packet(packet, _) => {
                let head = packet.data.get(..HEAD).unwrap_or(packet.data);
                (packet.time.0, packet.wire_len, head).hash(&mut hasher);
            }
            // Late segments are selected with their connection.
            Item::FlowEnd(flow, _) if flow.follows != 0 => flow.follows.hash(&mut hasher),
            Item::FlowEnd(flow, _) => flow.id.hash(&mut hasher),
            Item::Chunk(flow, _) | Item::Buffer(flow, ..) | Item::Field(flow, ..) => {
                flow.id().hash(&mut hasher);
            }
            Item::Record(record) | Item::Requested(record) => {
                let ends = &record.endpoints;
                let time = record.record.time.0;
                (ends.address, ends.port, ends.protocol, time, record.record.table.name).hash(&mut hasher);
            }
            // An answer is selected with its question.
            Item::Question(question) => (question.endpoints().address, question.vlan).hash(&mut hasher),
            // A tally stands for packets that were not looked at.
            Item::Tally(_) | Item::Control(_) | Item::Error(..) => return false,
        }
        hasher.finish().is_multiple_of(u64::from(self.one_in))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FunctionSpec;
    use weir_wire::{Layers, LinkType, Packet, Time};

    #[test]
    fn names_are_unique_among_all_functions() {
        for selector in SELECTORS {
            assert!(FunctionSpec::find(selector.name).is_err() && selector.help.ends_with('.'));
            assert!(crate::Delivery::find(selector.name).is_none(), "{}", selector.name);
            assert!(RECORD_FUNCTIONS.iter().all(|spec| spec.name != selector.name));
        }
    }

    #[test]
    fn wrong_calls_are_named() {
        let error = |call: FunctionCall, level| {
            let selector = Selector::find(&call.name).unwrap();
            selector.call(&call, level, &Options::default(), 1_u64).err().unwrap()
        };
        assert!(
            error(FunctionCall::new("sample").with("one_in", 0), Level::Packet)
                .message
                .contains("one_in = 0")
        );
        assert!(error(FunctionCall::new("sample"), Level::Packet).message.contains("one_in"));
        let wrong = error(FunctionCall::new("where").with("expression", "tcp and prot 80"), Level::Packet);
        assert!(wrong.span.is_some(), "{wrong}");
        let packet = error(FunctionCall::new("where").with("expression", "tcp[13] & 2 != 0"), Level::Flow);
        assert!(packet.message.contains("packet"), "{packet}");
        let packet = error(FunctionCall::new("where").with("expression", "tcp and greater 5"), Level::Stream);
        assert!(packet.message.contains("packet") && packet.span.is_some(), "{packet}");
    }

    #[test]
    fn a_sample_has_its_share_and_depends_on_the_packet_alone() {
        let call = FunctionCall::new("sample").with("one_in", 10);
        let sample = |seed: u64| SAMPLE.call(&call, Level::Packet, &Options::default(), seed).unwrap();
        let (one, same, other) = (sample(1), sample(1), sample(2));
        let (mut kept, mut both) = (0, 0);
        for n in 0..20_000_u64 {
            let data = n.to_be_bytes();
            let packet = Packet {
                time: Time(1_000),
                wire_len: 8,
                data: &data,
                link: LinkType::ETHERNET,
                interface: 0,
                hints: weir_wire::Hints::default(),
                number: 0,
            };
            let item = Item::Packet(&packet, &Layers::default());
            assert_eq!(one.keeps(&item), same.keeps(&item));
            kept += u32::from(one.keeps(&item));
            both += u32::from(one.keeps(&item) && other.keeps(&item));
        }
        assert!((1_800..2_200).contains(&kept) && (120..280).contains(&both), "{kept} {both}");
    }
}
