//! The functions of a worker: the chain of each subscription, with its state.

use crate::expressions::Counters;
use crate::fields::{self, RecordView};
use crate::function::block::{Block, OwnedTally, first};
use crate::meter::{Cost, Meter};
use crate::plan::Shared;
use crate::planned::Link;
use crate::{Control, FlowIdentity, FlowRecord, Item, Plan, Share, Tally};
use weir_api::{Answer, Event, States};
use weir_filter::{Matches, PacketMask};
use weir_proto::Record;
use weir_wire::stream::Chunk;

/// Tallies that are shown together: a function's lists stay in the cache meanwhile.
const TOGETHER: usize = 256;

/// The functions of a worker, and their state.
pub(crate) struct Functions {
    /// The functions of each subscription of the plan.
    pub chains: Vec<Chain>,
    /// The cost of each subscription.
    pub costs: Vec<Cost>,
    /// Counts for the expressions that need only sums.
    pub counted: Counters,
    pub counted_cost: Cost,
    /// Tallies of flows that functions have not seen yet.
    tallied: Vec<OwnedTally>,
    /// The tallies in the form for lists, while they are shown.
    shares: Vec<Share>,
    /// The flows that ended in this interval, by state.
    pub states: States,
    pub meter: Meter,
    /// Reused for the tests of flows.
    found: Vec<u32>,
    /// Reused for the tests of records.
    matches: Matches,
}

impl Functions {
    pub fn new(plan: &Plan, meter: Meter) -> Self {
        Self {
            chains: plan.subscriptions.iter().map(|planned| planned.chain(plan.settings.seed)).collect(),
            costs: vec![Cost::default(); plan.subscriptions.len()],
            counted: Counters::new(&plan.counted),
            counted_cost: Cost::default(),
            tallied: Vec::with_capacity(TOGETHER),
            shares: Vec::with_capacity(TOGETHER),
            states: States::default(),
            meter,
            found: Vec::new(),
            matches: Matches::default(),
        }
    }

    /// Changes to another plan. The chains of subscriptions that both plans have stay as they are. Returns the readings
    /// of the others. The sums of the old plan must have been taken.
    pub fn change(&mut self, old: &Plan, new: &Plan) -> (Vec<Answer>, Vec<Event>) {
        let shared = Shared::between(old, new);
        let mut chains = std::mem::replace(&mut self.chains, Vec::with_capacity(new.subscriptions.len()));
        let mut costs = std::mem::replace(&mut self.costs, Vec::with_capacity(new.subscriptions.len()));
        for (at, planned) in new.subscriptions.iter().enumerate() {
            let before = shared.position(at, planned.id);
            let before = before.and_then(|at| Some((chains.get_mut(at)?, costs.get_mut(at)?)));
            let (chain, cost) = match before {
                Some((chain, cost)) => (std::mem::take(chain), std::mem::take(cost)),
                None => (planned.chain(new.settings.seed), Cost::default()),
            };
            self.chains.push(chain);
            self.costs.push(cost);
        }
        self.counted.change(&new.counted);
        let (mut removed, mut events) = (Vec::new(), Vec::new());
        // Those that were kept have left nothing.
        for ((planned, chain), cost) in old.subscriptions.iter().zip(&mut chains).zip(costs) {
            if !chain.is_empty() {
                let spent = cost.of(&self.meter);
                removed.extend(planned.answers(chain.iter_mut().filter_map(Link::take), spent));
                events.extend(chain.iter_mut().flat_map(Link::events));
            }
        }
        (removed, events)
    }

    /// The events that the functions found since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        self.chains.iter_mut().flatten().flat_map(Link::events).collect()
    }

    /// Shows a flow that has ended to the subscriptions that cover it.
    pub fn flow_end(&mut self, plan: &Plan, record: &FlowRecord) {
        if plan.flow_ends.is_empty() {
            return;
        }
        let Self { chains, found, .. } = self;
        plan.flow_ends.each(&fields::endpoints_of(record), found, |at| {
            if let Some(chain) = chains.get_mut(at) {
                show(chain, &Item::FlowEnd(record));
            }
        });
    }

    /// Shows a record to the subscriptions that cover it.
    pub fn record(&mut self, plan: &Plan, flow: &FlowIdentity, record: &Record<'_>) {
        let view = RecordView { endpoints: fields::endpoints(flow), record };
        let Self { chains, matches, .. } = self;
        plan.records.each(&view, matches, |at| {
            if let Some(chain) = chains.get_mut(at) {
                show(chain, &Item::Record(&view));
            }
        });
    }

    /// Shows a chunk of a stream to subscriptions, by their positions in the plan.
    pub fn chunk(&mut self, covering: &[usize], flow: &FlowIdentity, chunk: &Chunk<'_>) {
        for at in covering {
            if let Some(chain) = self.chains.get_mut(*at) {
                show(chain, &Item::Chunk(flow, chunk));
            }
        }
    }

    /// Shows what a parser hands on before a record to the subscriptions that cover its flow.
    pub fn early(&mut self, plan: &Plan, flow: &FlowIdentity, item: &Item<'_>) {
        let Self { chains, found, .. } = self;
        plan.early.each(&fields::endpoints(flow), found, |at| {
            if let Some(chain) = chains.get_mut(at) {
                show(chain, item);
            }
        });
    }

    /// Shows a control packet to the subscriptions that see them. A packet in a tunnel over UDP counts to the carried flow
    /// alone.
    pub fn control(&mut self, plan: &Plan, control: &Control<'_>) {
        if control.tally.carrier {
            return;
        }
        for at in &plan.sources.control {
            if let Some(chain) = self.chains.get_mut(*at) {
                show(chain, &Item::Control(control));
            }
        }
    }

    /// Keeps a tally for the functions. Returns whether the waiting tallies are to be shown now.
    #[inline]
    pub fn tally(&mut self, tally: &Tally<'_>) -> bool {
        self.tallied.push(OwnedTally::of(tally));
        self.tallied.len() == TOGETHER
    }

    /// Shows the waiting tallies, one subscription after the other. Returns its cost in nanoseconds, in a measured
    /// block.
    pub fn show_tallies(&mut self, plan: &Plan) -> u64 {
        let Self { chains, costs, counted, counted_cost, tallied, shares, meter, .. } = self;
        // Readings at the beginning, for the sets, and for each subscription.
        let mut laps = meter.tallies(tallied.len(), 2 + plan.sources.tallies.len());
        if plan.counts_by_flow() {
            for counter in counted.each() {
                for t in tallied.iter().map(OwnedTally::tally) {
                    counter.flow(t.key, t.tag, t.source_is_lower, t.packets, t.bytes);
                }
            }
            counted_cost.in_tallies += laps.lap();
        }
        if !plan.sources.tallies.is_empty() {
            shares.clear();
            shares.extend(tallied.iter().map(|tally| Share::of_tally(&tally.tally())));
            // A packet in a tunnel over UDP counts to the carried flow. Counting it to the carrier as well would count it
            // twice.
            let mut shown = first(tallied.len());
            for at in (0..tallied.len()).filter(|at| tallied[*at].tally().carrier) {
                shown[at / 64] &= !(1 << (at % 64));
            }
            let block = Block::Tallies(tallied, shares);
            for at in &plan.sources.tallies {
                if let (Some(chain), Some(cost)) = (chains.get_mut(*at), costs.get_mut(*at)) {
                    show_block(chain, &block, shown);
                    cost.in_tallies += laps.lap();
                }
            }
        }
        tallied.clear();
        laps.whole()
    }
}

/// Shows an item to the functions of a chain, up to one that does not select it.
fn show(chain: &mut [Link], item: &Item<'_>) {
    for link in chain {
        if !link.item(item) {
            break;
        }
    }
}

/// Shows the items of a mask to the functions of a chain, until none is left.
pub(crate) fn show_block(chain: &mut [Link], block: &Block<'_>, mut mask: PacketMask) {
    for link in chain {
        link.block(block, &mut mask);
        if mask == PacketMask::default() {
            break;
        }
    }
}

/// The functions of a subscription, in order.
type Chain = Vec<Link>;
