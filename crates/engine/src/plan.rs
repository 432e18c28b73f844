//! The compiled list of subscriptions: immutable, shared by all workers.

use crate::demand::Demand;
use crate::planned::{Compiled, Link};
use crate::settings::{ChecksumMode, PlanError, Settings};
use crate::{InputKind, Memory};
use std::collections::HashMap;
use std::sync::Arc;
use weir_api::{Answer, Level, Outline, Reading, Subscription, SubscriptionId, SubscriptionSpec};
use weir_filter::{Filter, FilterError, RecordSet, Set, Strategy};
use weir_wire::LinkType;

/// Subscriptions, compiled.
pub struct Plan {
    pub(crate) scope: Option<Filter>,
    pub(crate) subscriptions: Vec<Planned>,
    pub(crate) settings: Settings,
    /// Whether flows are tracked.
    pub(crate) flows: bool,
    needs_layers: bool,
    /// The expressions that need only the number of packets and bytes.
    pub(crate) counted: Arc<Set>,
    /// The expressions whose packets go to functions.
    pub(crate) shown: Arc<Set>,
    /// The subscriptions by their source, so that a packet does not visit the thousands of subscriptions that only
    /// count.
    pub(crate) of_packets: Vec<usize>,
    pub(crate) of_tallies: Vec<usize>,
    pub(crate) of_control: Vec<usize>,
    pub(crate) of_streams: Vec<usize>,
    pub(crate) of_flow_ends: Vec<usize>,
    /// Every answer, empty.
    pub(crate) outline: Arc<Outline>,
    pub(crate) demand: Arc<Demand>,
    /// The tests of subscriptions at record level.
    pub(crate) records: RecordSet,
    /// The subscriptions at record level, in the order of their tests.
    pub(crate) of_records: Vec<usize>,
}

/// A subscription, compiled.
pub(crate) struct Planned {
    pub id: SubscriptionId,
    pub spec: Arc<SubscriptionSpec>,
    pub source: ItemSource,
    pub compiled: Arc<Compiled>,
}

/// The source of a subscription's items.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ItemSource {
    /// Each packet of the selection.
    Packets(Selection),
    /// Tallies of flows, in place of their packets.
    Tallies,
    /// Tallies of flows and their control packets, in place of all their packets.
    Control,
    /// Chunks of streams.
    Chunks,
    /// Flows that end.
    FlowEnds,
    /// Records.
    Records,
    /// None: only the number of packets and bytes is needed.
    Sum(Sum),
    /// None: the functions only hand on.
    Nothing,
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
    /// of `before`, a plan with equal settings, so that changing a few of many subscriptions is fast.
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
        let mut sets = Sets::default();
        let by_chart = lines_by_chart(subscriptions);
        let kept = before.map(Plan::compiled).unwrap_or_default();
        let mut planned = Vec::with_capacity(subscriptions.len());
        for (index, one) in subscriptions.iter().enumerate() {
            let compiled = match kept.get(&one.id) {
                Some(compiled) => Arc::clone(compiled),
                None => Arc::new(Compiled::new(one, &settings)?),
            };
            planned.push(Planned::new(index, compiled, subscriptions, &by_chart, &mut sets));
        }
        let compile = |asked: Asked, before: Option<&Set>| {
            Set::compile_with(before, &asked.texts, asked.remainders, &settings.filter).map_err(|error| {
                let of = asked.of.get(error.index).and_then(|at| subscriptions.get(*at));
                let name = of.map(|subscription| subscription.spec.name.clone()).unwrap_or_default();
                PlanError::Subscription { name, error: error.error }
            })
        };
        let shown = Arc::new(compile(sets.shown, before.map(|plan| &*plan.shown))?);
        let counted = compile(sets.counted, before.map(|plan| &*plan.counted))?;
        // Few packets remain for it if flows count the others, and columns compare for all expressions.
        let counted =
            Arc::new(if flows && by_flow(&settings) { counted.by(Strategy::Index) } else { counted });
        let fed = |wanted: fn(&ItemSource) -> bool| {
            (0..planned.len()).filter(|at| planned.get(*at).is_some_and(|p| wanted(&p.source))).collect()
        };
        // A set reads the fields directly from the packet, unless it looks into tunnels.
        let needs_layers = flows
            || scope.is_some()
            || settings.checksum != ChecksumMode::Off
            || (settings.filter.inner && !counted.is_empty())
            || planned.iter().any(Planned::needs_layers);
        let of_packets = fed(|source| matches!(source, ItemSource::Packets(_)));
        let of_tallies = fed(|source| matches!(source, ItemSource::Tallies | ItemSource::Control));
        let of_control = fed(|source| matches!(source, ItemSource::Control));
        let of_streams = fed(|source| matches!(source, ItemSource::Chunks));
        let of_flow_ends = fed(|source| matches!(source, ItemSource::FlowEnds));
        let of_records: Vec<usize> = fed(|source| matches!(source, ItemSource::Records));
        let tests = of_records.iter().filter_map(|at| planned.get(*at)?.compiled.record_test.as_ref());
        let records = RecordSet::new(tests);
        let empty = planned.iter().flat_map(Planned::empty_answers);
        let mut demand = Demand::default();
        planned.iter().for_each(|planned| demand.add(&planned.compiled.demand));
        Ok(Plan {
            outline: Arc::new(Outline::new(number, empty)),
            demand: Arc::new(demand),
            scope,
            subscriptions: planned,
            settings,
            flows,
            needs_layers,
            counted,
            shown,
            of_packets,
            of_tallies,
            of_control,
            of_streams,
            of_flow_ends,
            records,
            of_records,
        })
    }

    /// Memory of the plan in bytes with the given number of workers: its expressions and functions, and the answers
    /// that are in transit at one time.
    pub fn memory(&self, workers: usize) -> usize {
        let of = |planned: &Planned| {
            let answers = planned.compiled.empty.len() * ANSWER;
            let Memory { state, reading } = planned.memory();
            LINE * (1 + planned.compiled.selectors())
                + state * workers
                + (answers + reading) * (workers + COPIES)
        };
        self.subscriptions.iter().map(of).sum()
    }

    /// What depends on one subscription alone.
    fn compiled(&self) -> HashMap<SubscriptionId, &Arc<Compiled>> {
        self.subscriptions.iter().map(|planned| (planned.id, &planned.compiled)).collect()
    }

    /// The expression of the whole run, compiled; `None` if it matches every packet.
    pub fn scope(&self) -> Option<&Filter> {
        self.scope.as_ref()
    }

    /// The reasons why expressions of subscriptions can match no packet of a link type: one for each such
    /// subscription.
    pub fn errors(&self, link: LinkType) -> Vec<FilterError> {
        self.counted.errors(link).chain(self.shown.errors(link)).collect()
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

    /// What the plan needs of the pass.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// What the pass does for the plan, in words.
    pub fn needs(&self) -> Vec<String> {
        let count =
            |source: fn(&ItemSource) -> bool| self.subscriptions.iter().filter(|p| source(&p.source)).count();
        let parts = [
            (usize::from(self.scope.is_some()), "packets are tested with the run's expression"),
            (usize::from(self.needs_layers), "packets are decoded"),
            (usize::from(self.settings.checksum != ChecksumMode::Off), "checksums are verified"),
            (usize::from(self.flows), "flows are tracked"),
        ];
        let mut needs: Vec<String> =
            parts.into_iter().filter(|(n, _)| *n > 0).map(|(_, text)| text.to_owned()).collect();
        let sources: [(usize, &str); 7] = [
            (count(|source| matches!(source, ItemSource::Sum(_))), "packets are counted by expression"),
            (count(|source| matches!(source, ItemSource::Packets(_))), "functions see packets"),
            (count(|source| matches!(source, ItemSource::Tallies)), "functions see sums of flows"),
            (
                count(|source| matches!(source, ItemSource::Control)),
                "functions see sums of flows and control packets",
            ),
            (count(|source| matches!(source, ItemSource::Chunks)), "functions see streams"),
            (count(|source| matches!(source, ItemSource::FlowEnds)), "functions see flows that end"),
            (count(|source| matches!(source, ItemSource::Records)), "functions see records"),
        ];
        let used = sources.into_iter().filter(|(n, _)| *n > 0);
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

/// The expressions that the sets of a plan are built from.
#[derive(Default)]
struct Sets {
    counted: Asked,
    shown: Asked,
}

/// Expressions, each once, with the first subscription that uses it.
#[derive(Default)]
struct Asked {
    texts: Vec<String>,
    of: Vec<usize>,
    known: HashMap<String, u32>,
    remainders: Vec<Vec<u32>>,
}

impl Asked {
    fn number(&mut self, text: &str, subscription: usize) -> u32 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.of.push(subscription);
        self.known.insert(text.to_owned(), number);
        number
    }
}

/// For each chart, the subscriptions that are its lines, without remainders.
fn lines_by_chart(subscriptions: &[Subscription]) -> HashMap<Option<&str>, Vec<usize>> {
    let mut lines: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    if subscriptions.iter().any(|subscription| subscription.spec.remainder) {
        for (at, one) in subscriptions.iter().enumerate().filter(|(_, one)| !one.spec.remainder) {
            lines.entry(one.spec.chart.as_deref()).or_default().push(at);
        }
    }
    lines
}

impl Planned {
    fn new(
        index: usize,
        compiled: Arc<Compiled>,
        subscriptions: &[Subscription],
        by_chart: &HashMap<Option<&str>, Vec<usize>>,
        sets: &mut Sets,
    ) -> Self {
        let Subscription { id, spec, .. } = &subscriptions[index];
        let expression = spec.expression.trim();
        let is_all = expression.is_empty() && !spec.remainder;
        let lines = |asked: &mut Asked| -> Vec<u32> {
            let lines = by_chart.get(&spec.chart.as_deref()).map_or(&[][..], Vec::as_slice);
            lines
                .iter()
                .map(|line| asked.number(subscriptions[*line].spec.expression.trim(), *line))
                .collect()
        };
        let source = match spec.level {
            _ if compiled.only_hands_on() => ItemSource::Nothing,
            Level::Flow => ItemSource::FlowEnds,
            Level::Stream => ItemSource::Chunks,
            Level::Record => ItemSource::Records,
            Level::Packet if compiled.takes(InputKind::Sums) => ItemSource::Sum(if is_all {
                Sum::All
            } else if spec.remainder {
                let lines = lines(&mut sets.counted);
                sets.counted.remainders.push(lines);
                Sum::Remainder(sets.counted.remainders.len() as u32 - 1)
            } else {
                Sum::Matching(sets.counted.number(expression, index))
            }),
            Level::Packet if is_all && compiled.takes(InputKind::Tallies) => ItemSource::Tallies,
            Level::Packet if is_all && compiled.takes(InputKind::Control) => ItemSource::Control,
            Level::Packet if is_all => ItemSource::Packets(Selection::All),
            Level::Packet if spec.remainder => {
                ItemSource::Packets(Selection::Remainder(lines(&mut sets.shown)))
            }
            Level::Packet => ItemSource::Packets(Selection::Matching(sets.shown.number(expression, index))),
        };
        Self { id: *id, spec: Arc::clone(spec), source, compiled }
    }

    /// The answers of the functions that measure, in order, with a reading of each.
    pub fn answers(
        &self,
        readings: impl Iterator<Item = Reading>,
        nanoseconds: u64,
    ) -> impl Iterator<Item = Answer> {
        let mut nanoseconds = nanoseconds;
        // The cost of a subscription is shown with its first function.
        self.compiled.empty.iter().zip(readings).map(move |(Answer { id, label, .. }, reading)| Answer {
            id: *id,
            label: Arc::clone(label),
            reading,
            nanoseconds: std::mem::take(&mut nanoseconds),
        })
    }

    /// The answers without packets, each with whether it counts an expression of [`Plan::counted`].
    fn empty_answers(&self) -> impl Iterator<Item = (Answer, bool)> {
        let counts = matches!(self.source, ItemSource::Sum(Sum::Matching(_) | Sum::Remainder(_)));
        self.compiled.empty.iter().enumerate().map(move |(at, answer)| (answer.clone(), counts && at == 0))
    }

    /// The functions, for one worker.
    pub fn chain(&self, seed: u64) -> Vec<Link> {
        match self.source {
            ItemSource::Sum(_) => Vec::new(),
            _ => self.compiled.chain(&self.spec, seed),
        }
    }

    /// Memory of the functions of each worker, and of their readings.
    fn memory(&self) -> Memory {
        match self.source {
            ItemSource::Sum(_) => Memory::default(),
            _ => self.compiled.memory(&self.spec),
        }
    }

    fn needs_layers(&self) -> bool {
        match &self.source {
            ItemSource::Packets(Selection::All) => self.compiled.reads_layers(),
            ItemSource::Packets(_)
            | ItemSource::Tallies
            | ItemSource::Control
            | ItemSource::Chunks
            | ItemSource::FlowEnds
            | ItemSource::Records => true,
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
        let settings = || Settings { filter: Options::default(), checksum: ChecksumMode::Off, seed: 1 };
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
