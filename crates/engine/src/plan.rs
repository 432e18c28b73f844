//! The compiled list of subscriptions: immutable, shared by all workers.

use crate::cover::{Cover, Covering};
use crate::demand::Demand;
use crate::expressions::{Expressions, Numbering};
use crate::function::FileState;
use crate::held::{MAX_OF_RECORDS, Writes};
use crate::planned::Compiled;
use crate::read::Read;
use crate::settings::{ChecksumMode, PlanError, Settings};
use crate::target::{Of, Target};
use crate::trees::{Chain, Lineage, Lineages, Root, Trees};
use crate::uncommon::Uncommon;
use crate::{InputKind, Rules};
use std::collections::{HashMap, HashSet};
use std::mem::Discriminant;
use std::sync::Arc;
use weir_api::{Answer, AnswerId, Level, Outline, Reading, Subscription, SubscriptionId, SubscriptionSpec};
use weir_filter::{Filter, FilterError, FlowTests, RecordSet, Strategy};
use weir_proto::{FILES, STREAM, STREAM_SAMPLE, Table};
use weir_wire::{Layers, LinkType, Packet};

/// Subscriptions, compiled.
pub struct Plan {
    pub(crate) scope: Option<Filter>,
    pub(crate) subscriptions: Vec<Arc<Planned>>,
    pub(crate) settings: Settings,
    /// Whether flows are tracked.
    pub(crate) flows: bool,
    needs_layers: bool,
    /// The expressions that need only the number of packets and bytes.
    pub(crate) counted: Expressions,
    /// The expressions whose packets go to functions.
    pub(crate) shown: Expressions,
    /// The functions of the subscriptions.
    pub(crate) trees: Trees,
    /// The subscriptions by their source.
    pub(crate) sources: Sources,
    /// Every answer, empty.
    pub(crate) outline: Arc<Outline>,
    pub(crate) demand: Arc<Demand>,
    /// Subscriptions at stream level, by the flows that they cover.
    pub(crate) streams: Cover<FlowTests>,
    /// Subscriptions that see what parsers emit before records, by the flows that they cover.
    pub(crate) early: Cover<FlowTests>,
    /// Subscriptions at flow level.
    pub(crate) flow_ends: Cover<FlowTests>,
    /// Whether any of them has functions that see questions beside flows.
    pub(crate) asks: bool,
    /// Subscriptions at record level.
    pub(crate) records: Cover<RecordSet>,
    /// The flows that are identified or parsed.
    pub(crate) read: Read,
    /// The functions that write packets of flows.
    pub(crate) writes: Writes,
    /// The functions that deliver everything of a kind.
    pub(crate) whole: Whole,
    /// Memory of the functions, and of what is compiled.
    memory: PlanMemory,
}

/// The functions that deliver everything of a kind, by the numbers of their answers.
#[derive(Default)]
pub(crate) struct Whole {
    /// Those of all packets that match the run's expression.
    pub matching: Vec<AnswerId>,
    /// Those of all packets of unidentified flows.
    pub unidentified: Vec<AnswerId>,
    /// Those of all files.
    pub files: Vec<AnswerId>,
    /// Those of all flows that end.
    pub flows: Vec<AnswerId>,
    /// Those of all records of each table, by the address of the table, in order.
    records: Vec<(usize, Vec<AnswerId>)>,
}

impl Whole {
    /// Those of a plan with this demand.
    fn new<'t>(deliveries: impl Iterator<Item = (AnswerId, &'t Target)>, demand: &Demand) -> Self {
        let mut whole = Self::default();
        let mut rows = Vec::new();
        for (id, target) in deliveries {
            match target {
                Target::Packets { of: None, .. } => whole.matching.push(id),
                Target::Packets { of: Some(Of::Unidentified), .. } => whole.unidentified.push(id),
                Target::Files(_) => whole.files.push(id),
                Target::Rows(of) => {
                    whole.flows.extend(of.flows.then_some(id));
                    rows.push((id, &of.tables));
                }
                _ => {}
            }
        }
        // Measurements are made for functions over them, too.
        let is_delivered = |table: &Table| demand.measured || ![&STREAM, &STREAM_SAMPLE].contains(&table);
        for table in weir_proto::tables().filter(|table| is_delivered(table)) {
            let of_rows = rows.iter().filter(|(_, tables)| tables.has(table)).map(|(id, _)| *id);
            let of_files = whole.files.iter().filter(|_| *table == FILES).copied();
            let functions: Vec<AnswerId> = of_rows.chain(of_files).collect();
            if !functions.is_empty() {
                whole.records.push((address(table), functions));
            }
        }
        whole.records.sort_unstable_by_key(|(table, _)| *table);
        whole
    }

    /// Those of all records of a table.
    pub fn records(&self, table: &'static Table) -> &[AnswerId] {
        let found = self.records.binary_search_by_key(&address(table), |(table, _)| *table);
        found.ok().and_then(|at| self.records.get(at)).map_or(&[], |(_, functions)| functions)
    }
}

/// The identity of a table.
fn address(table: &'static Table) -> usize {
    std::ptr::from_ref(table).addr()
}

/// The trees of functions by their source, so that nothing visits the thousands that have another one. Those of streams, flows
/// and records are positions of the first subscription of each.
#[derive(Default)]
pub(crate) struct Sources {
    /// Trees of all packets, and of remainders: each block visits them.
    pub packets: Vec<Root>,
    /// Trees of all packets of each uncommon kind.
    pub uncommon: [Vec<Root>; Uncommon::KINDS],
    /// Trees of the packets of an expression, by its number in [`Plan::shown`], in order.
    matching: Vec<(u32, Root)>,
    pub tallies: Vec<Root>,
    pub control: Vec<Root>,
    streams: Vec<usize>,
    early: Vec<usize>,
    flow_ends: Vec<usize>,
    records: Vec<usize>,
    /// Subscriptions that need only sums.
    pub sums: Vec<(usize, Sum)>,
    /// Subscriptions of packets whose counts are compared with a threshold.
    pub judged: Vec<usize>,
}

impl Sources {
    /// Adds a tree with this source.
    fn add(&mut self, root: Root, source: &ItemSource) {
        match source {
            ItemSource::Packets(Selection::Matching(number)) => self.matching.push((*number, root)),
            ItemSource::Packets(_) => self.packets.push(root),
            ItemSource::Uncommon(kind) => {
                self.uncommon.get_mut(*kind as usize).into_iter().for_each(|all| all.push(root));
            }
            ItemSource::Tallies => self.tallies.push(root),
            ItemSource::Control => {
                self.tallies.push(root);
                self.control.push(root);
            }
            ItemSource::Chunks => self.streams.push(root.at),
            ItemSource::Early => self.early.push(root.at),
            ItemSource::FlowEnds => self.flow_ends.push(root.at),
            ItemSource::Records => self.records.push(root.at),
            // Without a tree, or with one for each of its parts.
            ItemSource::Sum(_) | ItemSource::Nothing | ItemSource::Apart(_) => {}
        }
    }

    /// The trees of the packets of an expression of [`Plan::shown`].
    pub fn of_expression(&self, number: u32) -> impl Iterator<Item = Root> + '_ {
        let first = self.matching.partition_point(|(other, _)| *other < number);
        let rest = self.matching.get(first..).unwrap_or_default();
        rest.iter().take_while(move |(other, _)| *other == number).map(|(_, root)| *root)
    }

    /// Number of trees whose functions see packets, or errors among them.
    pub fn see_packets(&self) -> usize {
        let uncommon = self.uncommon.iter().map(Vec::len).sum::<usize>() + self.control.len();
        self.packets.len() + uncommon + self.matching.len()
    }
}

/// The parts of the memory of a plan, or of one of its subscriptions, in bytes.
#[derive(Clone, Copy, Default)]
struct PlanMemory {
    /// For all workers together.
    compiled: usize,
    /// For each worker.
    functions: usize,
    /// For each copy of the answers.
    answers: usize,
}

impl PlanMemory {
    /// The memory of a subscription without its functions, which it may share; `readings` are the bytes of theirs.
    fn of(compiled: &Compiled, readings: usize) -> Self {
        Self {
            compiled: LINE * (1 + compiled.selectors())
                + compiled.lists().map(|list| list.memory()).sum::<usize>(),
            functions: 0,
            answers: compiled.empty.len() * ANSWER + readings,
        }
    }

    fn add(&mut self, other: &PlanMemory) {
        self.compiled += other.compiled;
        self.functions += other.functions;
        self.answers += other.answers;
    }

    fn bytes(&self, workers: usize) -> usize {
        self.compiled + self.functions * workers + self.answers * (workers + COPIES)
    }
}

/// A subscription, compiled.
pub(crate) struct Planned {
    pub id: SubscriptionId,
    pub spec: Arc<SubscriptionSpec>,
    pub source: ItemSource,
    pub compiled: Arc<Compiled>,
    /// The identity of its functions.
    pub lineage: Lineage,
    memory: PlanMemory,
    /// Whether it needs something besides packets and flows.
    has_demand: bool,
    /// Whether its functions see questions beside flows.
    asks: bool,
}

/// The source of a subscription's items.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ItemSource {
    /// Each packet of the selection.
    Packets(Selection),
    /// Each packet of an uncommon kind.
    Uncommon(Uncommon),
    /// Tallies of flows, in place of their packets.
    Tallies,
    /// Tallies of flows, their control packets and ICMP errors, in place of all packets.
    Control,
    /// Chunks of streams.
    Chunks,
    /// Buffers and fields that parsers emit before records.
    Early,
    /// Flows that end.
    FlowEnds,
    /// Records.
    Records,
    /// None: only the number of packets and bytes is needed.
    Sum(Sum),
    /// None: the functions only deliver.
    Nothing,
    /// Each function has a source of its own, since none of them depends on one before it: what sees sums of flows is not shown
    /// all packets because another function needs them.
    Apart(Box<[ItemSource]>),
}

impl ItemSource {
    /// The sources of the trees that a chain is in: one, or one for each function.
    pub fn each(&self) -> &[ItemSource] {
        match self {
            ItemSource::Apart(all) => all,
            one => std::slice::from_ref(one),
        }
    }

    /// The kind of the source of one of the functions of a chain, if it has one.
    fn kind_of(&self, call: usize) -> Option<Discriminant<ItemSource>> {
        self.each().get(call).map(std::mem::discriminant)
    }

    /// The source of a function of all packets with this input.
    fn of_all(input: InputKind) -> Self {
        match input {
            InputKind::Tallies => ItemSource::Tallies,
            InputKind::Control => ItemSource::Control,
            InputKind::Uncommon(kind) => ItemSource::Uncommon(kind),
            _ => ItemSource::Packets(Selection::All),
        }
    }
}

/// Selects the packets of the run that are shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Selection {
    All,
    /// Packets of an expression of [`Plan::shown`].
    Matching(u32),
    /// Packets that none of these expressions matches.
    Remainder(Vec<u32>),
}

/// Selects the packets of the run that are counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sum {
    All,
    /// Packets of an expression of [`Plan::counted`].
    Matching(u32),
    /// Packets of one of its remainders.
    Remainder(u32),
}

/// Bytes of a compiled subscription, as measured with thousands of lines.
const LINE: usize = 5 << 10;
/// Bytes of an answer without its reading's heap memory: names are short.
const ANSWER: usize = size_of::<Answer>() + 96;
/// Copies of an answer that exist at one time, apart from those of the workers: those of the tick, the interval, the
/// run and the outputs, and intermediate ones.
const COPIES: usize = 6;

/// Directories of files of a run: each writes the content of every file until its record decides.
const MAX_DIRECTORIES: usize = 16;

/// Targets of a run: each has files that are open.
const MAX_TARGETS: usize = 1000;

impl Plan {
    /// Compiles subscriptions. `expression` is the expression of the whole run: packets that it does not match are
    /// only counted. Empty for every packet.
    pub fn new(
        expression: &str,
        specs: Vec<SubscriptionSpec>,
        settings: Settings,
    ) -> Result<Plan, PlanError> {
        Self::of(None, 1, expression, &Subscription::number(specs), settings)
    }

    /// Compiles the plan with a number, which is higher than those of earlier plans of the run. Reuses the compiled parts
    /// of `before`, so that changing a few of many subscriptions is fast. `before` is the plan in effect, with settings that are equal
    /// but for the rules, if a worker is to keep the state of its subscriptions.
    pub fn of(
        before: Option<&Plan>,
        number: u64,
        expression: &str,
        subscriptions: &[Subscription],
        settings: Settings,
    ) -> Result<Plan, PlanError> {
        Self::compile(before, number, expression, subscriptions, settings, true)
    }

    /// Compiles subscriptions that need no flows; flows are not tracked.
    pub fn counting(specs: Vec<SubscriptionSpec>, settings: Settings) -> Result<Plan, PlanError> {
        Self::compile(None, 1, "", &Subscription::number(specs), settings, false)
    }

    fn compile(
        before: Option<&Plan>,
        number: u64,
        expression: &str,
        subscriptions: &[Subscription],
        settings: Settings,
        flows: bool,
    ) -> Result<Plan, PlanError> {
        let scope = match expression.trim() {
            "" => None,
            _ => Some(Filter::compile(expression, &settings.filter).map_err(PlanError::Expression)?),
        };
        let shared = Shared::of(before, subscriptions);
        let mut compiled = Vec::with_capacity(subscriptions.len());
        for (at, one) in subscriptions.iter().enumerate() {
            compiled.push(match shared.planned(at, one.id) {
                Some(planned) if !planned.looks_with_others_than(settings.rules.as_ref()) => {
                    Known::Planned(planned)
                }
                _ => Known::Compiled(Arc::new(Compiled::new(one, &settings)?)),
            });
        }
        let mut sets = Sets {
            counted: Numbering::after(before.map(|plan| &plan.counted)),
            shown: Numbering::after(before.map(|plan| &plan.shown)),
        };
        let mut planned = plan_all(subscriptions, &compiled, &mut sets);
        if !(sets.counted.fits() && sets.shown.fits()) {
            sets = Sets {
                counted: Numbering::afresh(before.map(|plan| &plan.counted)),
                shown: Numbering::afresh(before.map(|plan| &plan.shown)),
            };
            planned = plan_all(subscriptions, &compiled, &mut sets);
        }
        check_targets(&planned)?;
        let compile = |numbering: Numbering<'_>, strategy: Option<Strategy>| {
            numbering.compile(&settings.filter, strategy).map_err(|(at, error)| {
                let name = subscriptions.get(at).map(|one| one.spec.name.clone()).unwrap_or_default();
                PlanError::Subscription { name, error }
            })
        };
        let shown = compile(sets.shown, None)?;
        // Few packets remain for it if flows count the others, and columns compare for all expressions.
        let counted = compile(sets.counted, (flows && by_flow(&settings)).then_some(Strategy::Index))?;
        // A set reads the fields directly from the packet, unless it looks into tunnels.
        let mut needs_layers = flows
            || scope.is_some()
            || settings.chosen.is_some()
            || settings.checksum != ChecksumMode::Off
            || (settings.filter.inner && !counted.is_empty());
        let mut trees = Trees::new(&planned.iter().map(|planned| planned.chain()).collect::<Vec<_>>());
        let id_at = |at: usize| subscriptions.get(at).map(|one| one.id);
        if let Some(before) = before {
            trees.follow(before.number(), &before.trees, &shared.positions(subscriptions.len(), id_at));
        }
        let mut memory = PlanMemory { functions: trees.state, ..PlanMemory::default() };
        let (mut sources, mut demand, mut asks) = (Sources::default(), Demand::default(), false);
        for (at, planned) in planned.iter().enumerate() {
            if let ItemSource::Sum(sum) = planned.source {
                sources.sums.push((at, sum));
            }
            let each = planned.source.each();
            for (root, call) in trees.roots(at, each.len()) {
                each.get(call).into_iter().for_each(|source| sources.add(root, source));
            }
            if planned.has_judged_counts() {
                sources.judged.push(at);
            }
            needs_layers = needs_layers || planned.needs_layers();
            asks = asks || planned.asks;
            if planned.has_demand {
                planned.compiled.demand.iter().for_each(|one| demand.add(one));
            }
            memory.add(&planned.memory);
        }
        sources.matching.sort_unstable();
        let empty = planned.iter().flat_map(|planned| planned.empty_answers());
        let covering = |positions: &[usize]| -> Vec<Covering<'_>> {
            let of = |at: &usize| {
                let Planned { id, compiled, .. } = &**planned.get(*at)?;
                Some(Covering { id: *id, at: *at, compiled })
            };
            positions.iter().filter_map(of).collect()
        };
        let asking: Vec<usize> =
            (0..).zip(&planned).filter(|(_, one)| one.has_demand).map(|(at, _)| at).collect();
        let asking = covering(&asking);
        Ok(Plan {
            outline: Arc::new(Outline::new(number, empty)),
            streams: Cover::after(before.map(|plan| &plan.streams), &covering(&sources.streams)),
            early: Cover::after(before.map(|plan| &plan.early), &covering(&sources.early)),
            flow_ends: Cover::after(before.map(|plan| &plan.flow_ends), &covering(&sources.flow_ends)),
            asks,
            records: Cover::after(before.map(|plan| &plan.records), &covering(&sources.records)),
            read: Read::after(before.map(|plan| &plan.read), asking),
            writes: Writes::new(planned.iter().flat_map(|planned| planned.compiled.targets())),
            whole: Whole::new(planned.iter().flat_map(|planned| planned.compiled.deliveries()), &demand),
            demand: Arc::new(demand),
            scope,
            subscriptions: planned,
            settings,
            flows,
            needs_layers,
            counted,
            shown,
            trees,
            sources,
            memory,
        })
    }

    /// Memory of the plan in bytes with the given number of workers: its expressions and functions, and the answers
    /// that are in transit at one time.
    pub fn memory(&self, workers: usize) -> usize {
        self.memory.bytes(workers)
    }

    /// The answers of the plan.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Maximum bytes of one reading of each function.
    pub fn memory_of_readings(&self) -> usize {
        self.memory.answers
    }

    /// Whether every packet is analysed.
    pub(crate) fn takes_all(&self) -> bool {
        self.scope.is_none() && self.settings.chosen.is_none()
    }

    /// Whether a packet is analysed: it matches the run's expression, or belongs to a chosen flow. `layers` must be its own.
    pub(crate) fn takes(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.matches(packet, layers))
            && self.settings.chosen.as_ref().is_none_or(|chosen| chosen.has(packet, layers))
    }

    /// The expression of the whole run, compiled; `None` if it matches every packet.
    pub fn scope(&self) -> Option<&Filter> {
        self.scope.as_ref()
    }

    /// The reasons why expressions of subscriptions can match no packet of a link type: one for each such
    /// subscription.
    pub fn errors(&self, link: LinkType) -> Vec<FilterError> {
        let (mut counted, mut shown) = (HashSet::new(), HashSet::new());
        for planned in &self.subscriptions {
            match planned.source {
                ItemSource::Sum(Sum::Matching(number)) => _ = counted.insert(number),
                ItemSource::Packets(Selection::Matching(number)) => _ = shown.insert(number),
                _ => {}
            }
        }
        // A set may have expressions that no subscription has any more.
        let of_counted = self.counted.errors(link).filter(|(number, _)| counted.contains(number));
        let of_shown = self.shown.errors(link).filter(|(number, _)| shown.contains(number));
        of_counted.chain(of_shown).map(|(_, error)| error).collect()
    }

    /// The files of lists of watched addresses and names, each with its subscription and its state, by what the settings have for
    /// lists.
    pub fn watched_files(&self) -> impl Iterator<Item = (SubscriptionId, &str, FileState)> {
        self.settings.filter.fields.into_iter().flat_map(move |fields| {
            self.subscriptions.iter().flat_map(move |planned| {
                let states = planned.compiled.lists().flat_map(move |list| list.states(fields));
                states.map(|(path, state)| (planned.id, path, state))
            })
        })
    }

    /// What was left out of the lists of watched addresses and names of this plan: a text for each of the first wrong lines of a file,
    /// and for the number of its others.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let lists = self.subscriptions.iter().flat_map(|planned| planned.compiled.lists());
        lists.flat_map(|list| list.notes()).map(String::as_str)
    }

    /// Whether flows are tracked, so that all packets of a flow must go to one worker.
    pub fn follows_flows(&self) -> bool {
        self.flows
    }

    /// Whether an expression that the flow's key decides is counted by flow.
    pub(crate) fn counts_by_flow(&self) -> bool {
        self.flows && !self.counted.is_empty() && by_flow(&self.settings)
    }

    /// Whether a stage reads the layers of packets; if not, packets are not decoded.
    pub fn needs_layers(&self) -> bool {
        self.needs_layers
    }

    /// The subscriptions, in order.
    pub fn specs(&self) -> impl Iterator<Item = &SubscriptionSpec> {
        self.subscriptions.iter().map(|planned| &*planned.spec)
    }

    /// The name of a subscription.
    pub fn name(&self, id: SubscriptionId) -> Option<&str> {
        let planned = self.subscriptions.iter().find(|planned| planned.id == id)?;
        Some(&planned.spec.name)
    }

    /// The number of the first subscription of that name.
    pub fn number_of(&self, name: &str) -> Option<SubscriptionId> {
        self.subscriptions.iter().find(|planned| planned.spec.name == name).map(|planned| planned.id)
    }

    /// The functions that deliver, by the numbers of their answers: the target of each.
    pub fn targets(&self) -> impl Iterator<Item = (AnswerId, &Target)> {
        self.subscriptions.iter().flat_map(|planned| planned.compiled.targets())
    }

    /// Whether a function writes all packets that match the run's expression, or all files.
    pub fn writes_all(&self, function: &AnswerId) -> bool {
        self.whole.matching.contains(function) || self.whole.files.contains(function)
    }

    /// What the plan needs of the pass.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// What the pass does for the plan, in words.
    pub fn needs(&self) -> Vec<String> {
        let count = |source: &dyn Fn(&ItemSource) -> bool| {
            self.subscriptions.iter().filter(|p| p.source.each().iter().any(source)).count()
        };
        let parts = [
            (usize::from(!self.takes_all()), "packets are tested with the run's expression"),
            (usize::from(self.needs_layers), "packets are decoded"),
            (usize::from(self.settings.checksum != ChecksumMode::Off), "checksums are verified"),
            (usize::from(self.flows), "flows are tracked"),
        ];
        let mut needs: Vec<String> =
            parts.into_iter().filter(|(n, _)| *n > 0).map(|(_, text)| text.to_owned()).collect();
        let uncommon = Uncommon::ALL
            .map(|kind| (count(&|source: &ItemSource| *source == ItemSource::Uncommon(kind)), kind.text()));
        let [without_ip, tunnelled, icmp_errors, (_, questions)] = uncommon;
        let asking = self.subscriptions.iter().filter(|planned| planned.asks).count();
        let sources: [(usize, &str); 12] = [
            (
                count(&|source: &ItemSource| matches!(source, ItemSource::Sum(_))),
                "packets are counted by expression",
            ),
            (count(&|source: &ItemSource| matches!(source, ItemSource::Packets(_))), "functions see packets"),
            without_ip,
            tunnelled,
            icmp_errors,
            (
                count(&|source: &ItemSource| matches!(source, ItemSource::Tallies)),
                "functions see sums of flows",
            ),
            (
                count(&|source: &ItemSource| matches!(source, ItemSource::Control)),
                "functions see sums of flows, control packets and ICMP errors",
            ),
            (count(&|source: &ItemSource| matches!(source, ItemSource::Chunks)), "functions see streams"),
            (
                count(&|source: &ItemSource| matches!(source, ItemSource::Early)),
                "functions see texts of messages",
            ),
            (
                count(&|source: &ItemSource| matches!(source, ItemSource::FlowEnds)),
                "functions see flows that end",
            ),
            (asking, questions),
            (count(&|source: &ItemSource| matches!(source, ItemSource::Records)), "functions see records"),
        ];
        let shared = (self.trees.shared(), "functions that several subscriptions share");
        let whole = (self.whole.matching.len(), "matching packets are written");
        let used = sources.into_iter().chain([shared, whole]).filter(|(n, _)| *n > 0);
        needs.extend(used.map(|(n, text)| format!("{text}: {n}")));
        needs.extend(self.demand.lines());
        needs
    }

    /// The number of the plan: see [`Plan::of`].
    pub fn number(&self) -> u64 {
        self.outline.plan
    }
}

/// Whether an expression gives a packet and its flow's key the same verdict. With the innermost packet, or with
/// libpcap's handling of VLAN tags, the verdicts may differ.
fn by_flow(settings: &Settings) -> bool {
    !settings.filter.strict_bpf && !settings.filter.inner
}

/// Checks that the targets of a plan can be open at one time.
fn check_targets(planned: &[Arc<Planned>]) -> Result<(), PlanError> {
    // Names of one kind.
    let mut names: HashMap<(&str, &str), (&Target, &str)> = HashMap::new();
    for one in planned {
        let wrong = |error: String| PlanError::Function { name: one.spec.name.clone(), error };
        for (_, target) in one.compiled.targets().filter(|(_, target)| target.place().is_some()) {
            let (first, name) =
                names.entry((target.kind(), target.name())).or_insert((target, &one.spec.name));
            if *first != target {
                return Err(wrong(match target {
                    Target::Log(_) | Target::OfRun(_) | Target::Rows(_) | Target::Names | Target::Streams => {
                        format!("the log {target} is {first} in the subscription `{name}`")
                    }
                    Target::Packets { .. } => format!(
                        "the packet file {target} is written with other arguments, or at another level, by the \
                         subscription `{name}`"
                    ),
                    Target::Files(_) => {
                        format!("the directory {target} has other limits in the subscription `{name}`")
                    }
                }));
            }
            let directories = || names.keys().filter(|(kind, _)| *kind == target.kind()).count();
            if matches!(target, Target::Files(_)) && directories() > MAX_DIRECTORIES {
                return Err(wrong(format!(
                    "the directory {target} is one more than the {MAX_DIRECTORIES} that a run can fill with files"
                )));
            }
            let of_records = || {
                let is_one = |target: &Target| matches!(target, Target::Packets { of: Some(Of::Record), .. });
                names.values().filter(|(target, _)| is_one(target)).count()
            };
            if matches!(target, Target::Packets { of: Some(Of::Record), .. }) && of_records() > MAX_OF_RECORDS
            {
                return Err(wrong(format!(
                    "the packet file {target} is one more than the {MAX_OF_RECORDS} of records that a run can write"
                )));
            }
            if names.len() > MAX_TARGETS {
                return Err(wrong(format!(
                    "the {} {target} is one more than the {MAX_TARGETS} logs and packet files that a run can write",
                    target.kind()
                )));
            }
        }
    }
    Ok(())
}

/// The expressions that the sets of a plan are built from.
struct Sets<'p> {
    counted: Numbering<'p>,
    shown: Numbering<'p>,
}

impl Sets<'_> {
    /// Whether a subscription of the plan before has the same source in this one. Marks its expression as used.
    fn keep(&mut self, source: &ItemSource) -> bool {
        let (numbering, number) = match source {
            ItemSource::Sum(Sum::Matching(number)) => (&mut self.counted, *number),
            ItemSource::Packets(Selection::Matching(number)) => (&mut self.shown, *number),
            ItemSource::Sum(Sum::Remainder(_)) | ItemSource::Packets(Selection::Remainder(_)) => {
                return false;
            }
            _ => return true,
        };
        numbering.keep(number);
        numbering.keeps_numbers()
    }
}

/// The subscriptions that two plans have: they begin and end with equal ones, and between these few differ.
pub(crate) struct Shared<'p> {
    before: &'p [Arc<Planned>],
    /// Number of equal ones at the beginning.
    prefix: usize,
    /// The position from which the rest of the new plan is equal, and how much it lies beyond its position in the old one.
    suffix: usize,
    moved: isize,
    /// Positions in the old plan of those between.
    between: HashMap<SubscriptionId, usize>,
}

impl<'p> Shared<'p> {
    fn of(before: Option<&'p Plan>, subscriptions: &[Subscription]) -> Self {
        let before = before.map_or(&[][..], |plan| &plan.subscriptions);
        Self::new(before, subscriptions.len(), |at, one| {
            subscriptions.get(at).is_some_and(|now| now.id == one.id)
        })
    }

    /// The subscriptions that a plan shares with a later one.
    pub fn between(before: &'p Plan, now: &Plan) -> Self {
        // What both plans have is mostly one value, which needs not be read.
        let is_at = |at: usize, one: &Arc<Planned>| {
            now.subscriptions.get(at).is_some_and(|planned| Arc::ptr_eq(planned, one) || planned.id == one.id)
        };
        Self::new(&before.subscriptions, now.subscriptions.len(), is_at)
    }

    /// `is_at` tells whether the later plan has a subscription at a position.
    fn new(before: &'p [Arc<Planned>], len: usize, is_at: impl Fn(usize, &Arc<Planned>) -> bool) -> Self {
        let prefix = before.iter().enumerate().take_while(|(at, one)| is_at(*at, one)).count();
        let rest = (before.len() - prefix).min(len - prefix);
        let ends = before.iter().rev().take(rest).enumerate();
        let equal = ends.take_while(|(at, one)| is_at(len - 1 - at, one)).count();
        let between = before.iter().enumerate().take(before.len() - equal).skip(prefix);
        Self {
            before,
            prefix,
            suffix: len - equal,
            moved: len as isize - before.len() as isize,
            between: between.map(|(at, one)| (one.id, at)).collect(),
        }
    }

    /// The position in the old plan of the subscription at a position of the new one.
    pub fn position(&self, at: usize, id: impl Fn(usize) -> Option<SubscriptionId>) -> Option<usize> {
        if at < self.prefix {
            Some(at)
        } else if at >= self.suffix {
            at.checked_add_signed(-self.moved)
        } else {
            self.between.get(&id(at)?).copied()
        }
    }

    /// The position in the old plan of each subscription of the new one, which has this number of them.
    pub fn positions(
        &self,
        count: usize,
        id: impl Fn(usize) -> Option<SubscriptionId>,
    ) -> Vec<Option<usize>> {
        (0..count).map(|at| self.position(at, &id)).collect()
    }

    fn planned(&self, at: usize, id: SubscriptionId) -> Option<&'p Arc<Planned>> {
        self.before.get(self.position(at, |_| Some(id))?)
    }
}

/// What is known of a subscription before its plan.
enum Known<'p> {
    Planned(&'p Arc<Planned>),
    Compiled(Arc<Compiled>),
}

/// Gives subscriptions their sources, and numbers to their expressions.
fn plan_all<'p>(
    subscriptions: &'p [Subscription],
    known: &[Known<'p>],
    sets: &mut Sets<'p>,
) -> Vec<Arc<Planned>> {
    let by_chart = lines_by_chart(subscriptions);
    let mut lineages = Lineages::default();
    // Those that new ones may join, before them in the plan or after them.
    let new = subscriptions.iter().zip(known).filter(|(_, known)| matches!(known, Known::Compiled(_)));
    let expressions: HashSet<&str> = new.map(|(one, _)| one.spec.expression.trim()).collect();
    for (one, known) in subscriptions.iter().zip(known).filter(|_| !expressions.is_empty()) {
        if let Known::Planned(before) = known
            && expressions.contains(one.spec.expression.trim())
        {
            let Planned { source, compiled, lineage, .. } = &***before;
            lineages.know(one, |call| source.kind_of(call), compiled.places(), lineage);
        }
    }
    let mut planned = Vec::with_capacity(subscriptions.len());
    for (index, known) in known.iter().enumerate() {
        planned.push(match known {
            Known::Planned(before) if sets.keep(&before.source) => Arc::clone(before),
            Known::Planned(before) => {
                let compiled = Arc::clone(&before.compiled);
                let planned = Planned::new(index, compiled, subscriptions, &by_chart, sets);
                Arc::new(Planned { lineage: Arc::clone(&before.lineage), ..planned })
            }
            Known::Compiled(compiled) => {
                let planned = Planned::new(index, Arc::clone(compiled), subscriptions, &by_chart, sets);
                let lineage = match &planned.source {
                    ItemSource::Sum(_) | ItemSource::Nothing => Lineage::default(),
                    source => {
                        let kind = |call| source.kind_of(call);
                        lineages.of(&subscriptions[index], kind, compiled.places())
                    }
                };
                Arc::new(Planned { lineage, ..planned })
            }
        });
    }
    planned
}

/// For each chart with a remainder, the subscriptions that are its other lines.
fn lines_by_chart(subscriptions: &[Subscription]) -> HashMap<Option<&str>, Vec<usize>> {
    let remainders = subscriptions.iter().filter(|one| one.spec.remainder);
    let mut lines: HashMap<Option<&str>, Vec<usize>> =
        remainders.map(|one| (one.spec.chart.as_deref(), Vec::new())).collect();
    if lines.is_empty() {
        return lines;
    }
    for (at, one) in subscriptions.iter().enumerate().filter(|(_, one)| !one.spec.remainder) {
        if let Some(lines) = lines.get_mut(&one.spec.chart.as_deref()) {
            lines.push(at);
        }
    }
    lines
}

impl Planned {
    fn new<'p>(
        index: usize,
        compiled: Arc<Compiled>,
        subscriptions: &'p [Subscription],
        by_chart: &HashMap<Option<&str>, Vec<usize>>,
        sets: &mut Sets<'p>,
    ) -> Self {
        let Subscription { id, spec, .. } = &subscriptions[index];
        let expression = spec.expression.trim();
        let is_all = expression.is_empty() && !spec.remainder;
        let lines = |numbering: &mut Numbering<'p>| -> Vec<u32> {
            let lines = by_chart.get(&spec.chart.as_deref()).map_or(&[][..], Vec::as_slice);
            lines
                .iter()
                .map(|line| numbering.number(subscriptions[*line].spec.expression.trim(), *line))
                .collect()
        };
        let source = match spec.level {
            _ if compiled.only_hands_on() => ItemSource::Nothing,
            Level::Flow => ItemSource::FlowEnds,
            Level::Stream if compiled.is_early => ItemSource::Early,
            Level::Stream => ItemSource::Chunks,
            Level::Record => ItemSource::Records,
            // What is compared with a threshold is counted packet by packet: the sums of flows come at the end of an interval.
            Level::Packet if compiled.takes(InputKind::Sums) && !compiled.is_judged() => {
                ItemSource::Sum(if is_all {
                    Sum::All
                } else if spec.remainder {
                    let lines = lines(&mut sets.counted);
                    Sum::Remainder(sets.counted.remainder(lines))
                } else {
                    Sum::Matching(sets.counted.number(expression, index))
                })
            }
            Level::Packet if is_all => match (compiled.input(), compiled.inputs()) {
                (Some(input), _) => ItemSource::of_all(input),
                (None, Some(inputs)) => ItemSource::Apart(inputs.map(ItemSource::of_all).collect()),
                (None, None) => ItemSource::Packets(Selection::All),
            },
            Level::Packet if spec.remainder => {
                ItemSource::Packets(Selection::Remainder(lines(&mut sets.shown)))
            }
            Level::Packet => ItemSource::Packets(Selection::Matching(sets.shown.number(expression, index))),
        };
        let readings = match source {
            ItemSource::Sum(_) => 0,
            _ => compiled.readings(),
        };
        Self {
            id: *id,
            spec: Arc::clone(spec),
            asks: source == ItemSource::FlowEnds && compiled.asks(),
            source,
            memory: PlanMemory::of(&compiled, readings),
            has_demand: compiled.demand.is_some(),
            lineage: Lineage::default(),
            compiled,
        }
    }

    /// The answers of the functions that measure, in order, with a reading of each.
    pub fn answers(
        &self,
        readings: impl Iterator<Item = Reading>,
        nanoseconds: u64,
    ) -> impl Iterator<Item = Answer> {
        let mut nanoseconds = nanoseconds;
        // The cost of a subscription is shown with its first function.
        self.compiled.empty.iter().zip(readings).map(move |(empty, reading)| Answer {
            id: empty.id,
            label: Arc::clone(&empty.label),
            reading,
            nanoseconds: std::mem::take(&mut nanoseconds),
        })
    }

    /// The answer of one of the functions that measure or select, with a reading of it; `None` for one that selects.
    pub fn answer(&self, call: usize, reading: Reading) -> Option<Answer> {
        let empty = self.compiled.empty.get(self.compiled.measure_at(call)?)?;
        Some(Answer { id: empty.id, label: Arc::clone(&empty.label), reading, nanoseconds: 0 })
    }

    /// The answers without packets, each with whether it counts an expression of [`Plan::counted`].
    fn empty_answers(&self) -> impl Iterator<Item = (Arc<Answer>, bool)> {
        let counts = matches!(self.source, ItemSource::Sum(Sum::Matching(_) | Sum::Remainder(_)));
        self.compiled
            .empty
            .iter()
            .enumerate()
            .map(move |(at, answer)| (Arc::clone(answer), counts && at == 0))
    }

    fn chain(&self) -> Chain<'_> {
        let is_apart = matches!(self.source, ItemSource::Apart(_));
        Chain { lineage: &self.lineage, compiled: &self.compiled, is_apart }
    }

    /// Whether it lets rules look at flows, and they are not these.
    fn looks_with_others_than(&self, rules: Option<&Rules>) -> bool {
        let own = self.compiled.demand.as_ref().and_then(|demand| demand.rules.as_ref());
        own.is_some_and(|own| Some(own) != rules)
    }

    /// Whether counts of its packets are compared with a threshold.
    fn has_judged_counts(&self) -> bool {
        matches!(self.source, ItemSource::Packets(_))
            && self.compiled.takes(InputKind::Sums)
            && self.compiled.is_judged()
    }

    fn needs_layers(&self) -> bool {
        match &self.source {
            ItemSource::Packets(Selection::All) => self.compiled.reads_layers(),
            ItemSource::Packets(_)
            | ItemSource::Uncommon(_)
            | ItemSource::Tallies
            | ItemSource::Control
            | ItemSource::Chunks
            | ItemSource::Early
            | ItemSource::FlowEnds
            | ItemSource::Records
            | ItemSource::Apart(_) => true,
            ItemSource::Sum(_) | ItemSource::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::FunctionCall;
    use weir_filter::Options;

    #[test]
    fn an_expression_at_flow_level_is_decided_by_the_key() {
        let settings = || Settings {
            filter: Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let mut spec = SubscriptionSpec::new("flows", "tcp port 80", vec![FunctionCall::new("packets")]);
        spec.level = Level::Flow;
        assert!(Plan::new("", vec![spec.clone()], settings()).is_ok());
        spec.expression = "tcp[13] & 2 != 0".to_owned();
        let error = Plan::new("", vec![spec.clone()], settings()).err().unwrap();
        assert!(error.to_string().contains("packet"), "{error}");
        spec.remainder = true;
        assert!(Plan::new("", vec![spec], settings()).is_err());
    }
}
