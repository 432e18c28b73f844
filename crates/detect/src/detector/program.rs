//! Rules in the form in which flows are looked at: made once, shared by all workers.
//!
//! A rule has parts: what must be in messages of the client, in messages of the server, in payload, and in the headers of a packet.
//! Each part is found by a literal of it that is searched for in one buffer together with those of all other rules; only what is
//! found so is verified. A part without such a literal is verified wherever its buffers are.

use super::about::About;
use super::events::{Anomaly, Events};
use super::flow_state::{AT_END_OF_FILE, END_OF_FILE, KIND_OF_FILE};
use super::groups::{Collected, Groups};
use super::of_user::OfUser;
use super::part::{FoundHere, Part, ProgramRule};
use super::prepared::{Prepared, Source, emitted, sources};
use super::renumbering::{Numbered, Renumbering};
use super::view::{Searched, View};
use crate::buffer::{Origin, RuleBuffer};
use crate::config::{Class, ThresholdLine};
use crate::judging::ActionOrder;
use crate::rarity::Rarity;
use crate::rule::Rule;
use crate::ruleset::{LoadedRule, Ruleset};
use foldhash::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use weir_proto::PROTOCOLS;
use weir_wire::Direction;

/// Rules in the form in which flows are looked at.
#[derive(Debug, Default)]
pub struct Program {
    /// The rules, in the order in which they are judged.
    pub rules: Vec<ProgramRule>,
    pub(super) parts: Vec<Part>,
    views: HashMap<Source, Vec<View>>,
    /// What is searched for in payload if the flow has a protocol, by its place in [`PROTOCOLS`] from 1.
    of_protocols: HashMap<(Source, u8), Vec<View>>,
    /// What else is searched for in payload, by the class of packets and the side.
    groups: HashMap<(u8, Direction), Groups>,
    /// Parts that no literal finds and that are about a packet: those of rules of addresses alone, by the protocol of IP, and of all.
    pub(super) of_packets: Box<[u32]>,
    events: Events,
    /// Rules that are not in force because something that they ask for is not read yet, each with the reason.
    pub unread: Vec<(LoadedRule, String)>,
    reads_streams: bool,
    /// The lines of the user's threshold.config.
    pub thresholds: Vec<ThresholdLine>,
    /// Names of bits of flows, by their numbers.
    pub(super) bit_names: Vec<Box<str>>,
    bits: HashMap<Box<str>, u32>,
    /// The buffers of parsers that the rules read, or that show that a message is there.
    buffers: Vec<&'static weir_proto::Buffer>,
    /// The places in [`PROTOCOLS`] from 1 of the protocols that have each of them.
    protocols: HashMap<&'static str, Vec<u8>>,
    /// What the classes of rules mean.
    classes: Vec<Class>,
    /// How it was made.
    options: ProgramOptions,
    /// What no other program has, by which it is recognised.
    itself: Arc<()>,
    /// The program whose place it takes.
    follows: Option<Follows>,
}

/// The data of a call of DCE/RPC.
pub(super) const DATA_OF_CALL: &str = "dcerpc.stub_data";
/// The number that says how the data of a call of DCE/RPC are to be read.
pub(super) const BYTE_ORDER: &str = "dcerpc.byte_order";

/// Number of TCP.
const TCP: u8 = 6;

/// The priority of a rule without one, as in Suricata.
const DEFAULT_PRIORITY: u8 = 3;

/// What a rule has of its class.
struct OfClass {
    category: Arc<str>,
    severity: u8,
}

impl OfClass {
    fn new(rule: &Rule, class: Option<&Class>) -> Self {
        let category = class.map_or(rule.class.as_deref().unwrap_or_default(), |class| &class.description);
        Self { category: category.into(), severity: severity(rule, class) }
    }

    /// That of a rule of another program.
    fn known(known: &ProgramRule) -> Self {
        Self { category: Arc::clone(&known.category), severity: known.severity }
    }
}

fn severity(rule: &Rule, class: Option<&Class>) -> u8 {
    rule.priority.or(class.map(|class| class.priority)).unwrap_or(DEFAULT_PRIORITY)
}

/// The order in which rules are judged: by action, those that change bits before those that test them, by priority, by number. One
/// number, since thousands of rules are put in order when one of them changes.
fn order(rule: &Rule, priority: u8, actions: &ActionOrder) -> u128 {
    let of_hosts = rule.host_bits.iter().map(|bits| bits.action);
    let of_bits = || rule.flow_bits.iter().map(|bits| bits.action).chain(of_hosts.clone());
    let changes = of_bits().any(|action| !action.is_test());
    let tests = of_bits().any(|action| action.is_test());
    let bits = match (changes, tests) {
        (true, false) => 0,
        (true, true) => 1,
        (false, true) => 2,
        (false, false) => 3,
    };
    let first = u32::from_be_bytes([0, actions.rank(rule.header.action), bits, priority]);
    u128::from(first) << 64 | u128::from(rule.gid) << 32 | u128::from(rule.sid)
}

/// How a program is made.
#[derive(Clone, Debug)]
pub struct ProgramOptions {
    /// The order of actions.
    pub actions: ActionOrder,
    /// Whether literals are searched for. Otherwise each part of a rule is verified wherever its source is: this is slow, finds nothing
    /// else, and shows that the search leaves nothing out.
    pub searches: bool,
    /// How rare literals are: each rule is found by its rarest one.
    pub rarity: Rarity,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self { actions: ActionOrder::default(), searches: true, rarity: Rarity::default() }
    }
}

/// A program while it is made.
struct Making<'p> {
    options: ProgramOptions,
    /// The program that it follows.
    before: Option<&'p Program>,
}

/// What is gathered of rules, one after the other, before views are made of it.
#[derive(Default)]
struct Gathered<'s> {
    /// Parts by where they are found, and by the protocol that their flow must have where that counts.
    found_in: HashMap<(Source, Option<u8>), Vec<u32>>,
    groups: HashMap<(u8, Direction), Collected>,
    of_packets: Vec<u32>,
    /// The numbers of bits of flows.
    bits: HashMap<&'s str, u32>,
    /// The buffers that rules name, each once.
    named: Vec<&'static RuleBuffer>,
    /// The number of each rule in the program before, if it is there and was not read anew.
    before: Vec<Option<u32>>,
}

impl Making<'_> {
    fn program<'s>(&self, set: &'s Ruleset, classes: &[Class]) -> Program {
        let class_of: HashMap<&str, &Class> = classes.iter().map(|class| (&*class.name, class)).collect();
        let class_of = |rule: &Rule| rule.class.as_deref().and_then(|name| class_of.get(name).copied());
        let known = self.before.map(Program::by_address).unwrap_or_default();
        let has_its_classes = self.before.is_some_and(|before| before.classes == classes);
        let with_order = |loaded: &'s LoadedRule| {
            let rule = &*loaded.rule;
            let known = known.get(&std::ptr::from_ref(rule)).copied();
            let order = match known.filter(|_| has_its_classes) {
                Some((_, known)) => known.order,
                None => order(rule, severity(rule, class_of(rule)), &self.options.actions),
            };
            (order, loaded, known)
        };
        let mut ordered: Vec<_> = set.rules.iter().map(with_order).collect();
        ordered.sort_by_key(|(order, ..)| *order);
        let mut program =
            Program { classes: classes.to_vec(), options: self.options.clone(), ..Program::default() };
        let mut gathered = Gathered::default();
        program.rules.reserve(ordered.len());
        for (order, loaded, known) in ordered {
            let prepared = match known {
                Some((_, known)) => Arc::clone(&known.prepared),
                None => Arc::new(Prepared::of(&loaded.rule, &self.options.rarity)),
            };
            match &prepared.unread {
                Some(reason) => program.unread.push((loaded.clone(), reason.clone())),
                None => {
                    gathered.before.push(known.map(|(number, _)| number));
                    let of_class = match known.filter(|_| has_its_classes) {
                        Some((_, known)) => OfClass::known(known),
                        None => OfClass::new(&loaded.rule, class_of(&loaded.rule)),
                    };
                    self.add(&mut program, &mut gathered, (order, loaded), prepared, of_class);
                }
            }
        }
        self.finish(&mut program, gathered);
        program
    }

    /// Adds a rule.
    fn add<'s>(
        &self,
        program: &mut Program,
        gathered: &mut Gathered<'s>,
        (order, loaded): (u128, &'s LoadedRule),
        prepared: Arc<Prepared>,
        OfClass { category, severity }: OfClass,
    ) {
        let rule: &Rule = &loaded.rule;
        let number = program.rules.len() as u32;
        let bits = rule.flow_bits.iter().map(|bits| {
            let numbers = bits.names.iter().map(|name| {
                let next = gathered.bits.len() as u32;
                *gathered.bits.entry(name).or_insert(next)
            });
            (bits.action, numbers.collect())
        });
        let bits = bits.collect();
        for of in rule.buffers.iter().filter(|of| of.buffer.origin == Origin::Transaction) {
            if !gathered.named.iter().any(|known| std::ptr::eq(*known, of.buffer)) {
                gathered.named.push(of.buffer);
            }
        }
        let has_parts = prepared.parts.len() > 1 && !prepared.is_alternative;
        for one in &prepared.parts {
            let part = program.parts.len() as u32;
            program.reads_streams |= one.about == About::Stream;
            match one.event {
                Some(event) => program.events.add(event, part),
                None if one.sources.is_empty() => gathered.of_packets.push(part),
                None => {}
            }
            for source in &one.sources {
                let protocol = prepared.protocol.filter(|_| self.options.searches);
                let kind = match (*source, protocol) {
                    (Source::Packets(class, side), None) => (class, side),
                    (Source::Streams(side), None) => (TCP, side),
                    (source, protocol) => {
                        // The parser of a protocol emits a buffer, so that the flow has it.
                        let protocol = protocol.filter(|_| !matches!(source, Source::Buffer(..)));
                        gathered.found_in.entry((source, protocol)).or_default().push(part);
                        continue;
                    }
                };
                let is_stream = matches!(source, Source::Streams(_));
                let is_both_ways = has_parts && rule.flow.side.is_none();
                gathered.groups.entry(kind).or_default().add(&rule.header, is_both_ways, is_stream, part);
            }
            program.parts.push(Part {
                rule: number,
                about: one.about,
                tests: Arc::clone(&one.tests),
                found_in: one.found_in,
                literal: one.literal,
            });
        }
        program.rules.push(ProgramRule {
            loaded: loaded.clone(),
            category,
            severity,
            order,
            parts: prepared.parts.len() as u8,
            is_alternative: prepared.is_alternative,
            protocol: prepared.protocol,
            bits,
            of_user: OfUser::default(),
            decoded: prepared.decoded,
            prepared,
        });
    }

    /// Makes what is searched for, and what is known of all rules together.
    fn finish(&self, program: &mut Program, gathered: Gathered<'_>) {
        program.of_packets = gathered.of_packets.into();
        let mut bit_names: Vec<(u32, Box<str>)> =
            gathered.bits.into_iter().map(|(name, number)| (number, name.into())).collect();
        bit_names.sort_unstable();
        program.bits = bit_names.iter().map(|(number, name)| (name.clone(), *number)).collect();
        program.bit_names = bit_names.into_iter().map(|(_, name)| name).collect();
        for ((source, protocol), parts) in gathered.found_in {
            let before = self.before.map(|before| match protocol {
                None => before.views(source),
                Some(protocol) => before.views_of(source, protocol),
            });
            let known: Vec<Arc<Searched>> =
                before.unwrap_or_default().iter().map(|view| Arc::clone(view.searched())).collect();
            let found_here = FoundHere { rules: &program.rules, parts: &program.parts, numbers: &parts };
            let views = View::of(found_here, self.options.searches, &known);
            match protocol {
                None => program.views.insert(source, views),
                Some(protocol) => program.of_protocols.insert((source, protocol), views),
            };
        }
        for (kind, collected) in gathered.groups {
            let before = self.before.and_then(|before| before.groups(kind));
            let known = before.map(Groups::searched).unwrap_or_default();
            program.groups.insert(kind, collected.groups(self.options.searches, known));
        }
        program.buffers = program.buffers_of(&gathered.named);
        let protocols = program.buffers.iter().map(|buffer| {
            let places = (1..).zip(PROTOCOLS).filter(|(_, protocol)| protocol.buffers.contains(buffer));
            (buffer.name, places.map(|(place, _)| place).collect())
        });
        program.protocols = protocols.collect();
        program.follows = self.before.map(|before| Follows {
            program: Arc::clone(&before.itself),
            numbers: Arc::new(Renumbering::of(before.numbered(), program.numbered(), &gathered.before)),
        });
    }
}

/// The program that another one follows.
#[derive(Debug)]
struct Follows {
    /// [`Program::itself`].
    program: Arc<()>,
    /// Its numbers in the other one.
    numbers: Arc<Renumbering>,
}

impl Program {
    /// Makes the program of rules. `classes` are what their classes mean.
    pub fn new(set: &Ruleset, classes: &[Class]) -> Self {
        Self::with(set, classes, ProgramOptions::default())
    }

    /// Makes the program of rules that takes the place of another one. It equals that of [`Program::new`], and costs less: what
    /// rules have that both programs share, and literals that have not changed, are not prepared again. It searches if that one does.
    pub fn following(before: &Self, set: &Ruleset, classes: &[Class]) -> Self {
        Making { options: before.options.clone(), before: Some(before) }.program(set, classes)
    }

    /// As [`Program::new`], made in another way, which the programs that follow it have too.
    pub fn with(set: &Ruleset, classes: &[Class], options: ProgramOptions) -> Self {
        Making { options, before: None }.program(set, classes)
    }

    /// Its rules with their numbers, by their addresses.
    fn by_address(&self) -> HashMap<*const Rule, (u32, &ProgramRule)> {
        (0..)
            .zip(&self.rules)
            .map(|(number, known)| (Arc::as_ptr(&known.loaded.rule), (number, known)))
            .collect()
    }

    /// What of it has numbers.
    fn numbered(&self) -> Numbered<'_> {
        Numbered { rules: &self.rules, parts: &self.parts, bit_names: &self.bit_names, bits: &self.bits }
    }

    /// The numbers of another program in this one.
    pub(super) fn renumbering_of(&self, before: &Self) -> Arc<Renumbering> {
        match &self.follows {
            Some(follows) if Arc::ptr_eq(&follows.program, &before.itself) => Arc::clone(&follows.numbers),
            _ => Arc::new(Renumbering::between(before.numbered(), self.numbered())),
        }
    }

    /// The program with the lines of the user's threshold.config.
    pub fn with_thresholds(mut self, lines: &[ThresholdLine]) -> Self {
        for known in &mut self.rules {
            known.of_user = OfUser::new(lines, &known.loaded.rule);
        }
        self.thresholds = lines.to_vec();
        self
    }

    /// Whether a part has tests of any of these buffers of parsers.
    pub(super) fn reads_any(&self, part: &Part, buffers: &[&str]) -> bool {
        let Some(rule) = self.rules.get(part.rule as usize) else { return false };
        let mut tests = part.tests.iter().filter_map(|at| rule.loaded.rule.buffers.get(usize::from(*at)));
        tests.any(|of| sources(of.buffer).iter().any(|name| buffers.contains(name)))
    }

    /// The views of a source.
    pub(super) fn views(&self, source: Source) -> &[View] {
        self.views.get(&source).map_or(&[], Vec::as_slice)
    }

    /// The views of payload of flows that have a protocol, by its place in [`PROTOCOLS`] from 1.
    pub(super) fn views_of(&self, source: Source, protocol: u8) -> &[View] {
        self.of_protocols.get(&(source, protocol)).map_or(&[], Vec::as_slice)
    }

    /// The groups of what payload is searched for that one side sends in packets of a class.
    pub(super) fn groups(&self, kind: (u8, Direction)) -> Option<&Groups> {
        self.groups.get(&kind)
    }

    /// The place in [`PROTOCOLS`] from 1 of the protocol over this protocol of IP that has a buffer which the rules read.
    pub(super) fn protocol_of(&self, buffer: &str, ip_proto: u8) -> Option<u8> {
        let covers = |place: &&u8| {
            let protocol = usize::from(**place).checked_sub(1).and_then(|at| PROTOCOLS.get(at));
            protocol.is_some_and(|protocol| protocol.transport.covers(ip_proto))
        };
        self.protocols.get(buffer)?.iter().find(covers).copied()
    }

    /// Whether any rule asks for an event: anomalies are to be shown to [`Detector::event`](super::Detector::event).
    pub fn reads_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The parts that an anomaly of one side holds.
    pub(super) fn events(&self, anomaly: &Anomaly<'_>, side: Direction, is_v4: bool) -> Vec<u32> {
        self.events.parts(anomaly, side, is_v4)
    }

    /// Whether any rule looks at streams.
    pub fn reads_streams(&self) -> bool {
        self.reads_streams
    }

    /// The buffers of parsers that the rules read, or that show that a message is there.
    pub fn buffers(&self) -> &[&'static weir_proto::Buffer] {
        &self.buffers
    }

    /// The buffers of [`Self::buffers`], with those that the rules name.
    fn buffers_of(&self, named: &[&'static RuleBuffer]) -> Vec<&'static weir_proto::Buffer> {
        let named = named.iter().flat_map(|buffer| sources(buffer).iter().copied());
        let found_in = self.views.keys().filter_map(|source| match source {
            Source::Buffer(name, _) => Some(*name),
            Source::Packets(..) | Source::Streams(_) => None,
        });
        let mut named: HashSet<&str> = named.chain(found_in).collect();
        // The first buffer of the end of a file tells it from the beginning.
        if AT_END_OF_FILE.iter().any(|name| named.contains(name)) {
            named.extend([END_OF_FILE, KIND_OF_FILE]);
        }
        // The kind follows the name: with it the name is looked at.
        if named.contains("file.name") {
            named.insert(KIND_OF_FILE);
        }
        if named.contains(DATA_OF_CALL) {
            named.insert(BYTE_ORDER);
        }
        emitted().filter(|buffer| named.contains(buffer.name)).collect()
    }
}
