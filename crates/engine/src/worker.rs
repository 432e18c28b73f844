//! One worker's whole world: nothing in it is shared.

use crate::checksum::ChecksumWatch;
use crate::plan::{Planned, Scope, Source};
use crate::{FlowRecord, Function, Item, Pass, Plan, Tally};
use std::net::Ipv6Addr;
use std::sync::Arc;
use weir_api::{Answer, FlowCount, Interval, Ledger, Snapshot, States};
use weir_filter::Filter;
use weir_flow::{FlowConfig, FlowSink, FlowStats, FlowTable};
use weir_wire::{Batch, Layers, Slot, Time, decode};

/// Packets that go through a stage together: few enough that their headers stay in the first-level cache, many
/// enough that the flow table's memory accesses overlap.
const BLOCK: usize = 256;

/// A bit for each packet of a block.
type Mask = [u64; BLOCK / 64];

/// Where a worker's rows go, while it works.
pub trait Sink {
    /// Takes a flow that has ended.
    fn flow(&mut self, flow: &FlowRecord);
    /// Takes the packets that the run's expression lets through, in order.
    fn kept(&mut self, packets: Batch<'_>);
}

/// Takes packets through the pass and hands over a [`Snapshot`] at the end of each interval.
pub struct Worker {
    plan: Arc<Plan>,
    /// The functions of each subscription of the plan.
    chains: Vec<Vec<Box<dyn Function>>>,
    /// The flow table, where flows are followed.
    flows: Option<FlowTable>,
    checksums: ChecksumWatch,
    /// The table's counts at the end of the last interval.
    flows_before: FlowStats,
    /// The flows that ended in this interval, by state.
    states: States,
    ledger: Ledger,
    interval_start: Option<Time>,
    earliest: Time,
    latest: Time,
    block: Block,
}

/// The block in work, in memory that is used again.
#[derive(Default)]
struct Block {
    layers: Vec<Layers>,
    /// The packets that the run's expression lets through, where it does not let all.
    kept: Vec<Slot>,
    kept_layers: Vec<Layers>,
    /// Which packets each subscription covers.
    masks: Vec<Mask>,
}

impl Worker {
    /// A worker for `plan`, with empty state; all memory that grows with traffic is taken here.
    pub fn new(plan: Arc<Plan>, flows: &FlowConfig) -> Self {
        let chains = plan.subscriptions.iter().map(|planned| planned.chain(plan.settings.seed)).collect();
        Self {
            chains,
            flows: plan.flows.then(|| FlowTable::new(flows)),
            checksums: ChecksumWatch::new(plan.settings.checksum),
            flows_before: FlowStats::default(),
            states: States::default(),
            ledger: Ledger::default(),
            interval_start: None,
            earliest: Time(u64::MAX),
            latest: Time::default(),
            block: Block::default(),
            plan,
        }
    }

    /// Decodes packets and takes them through the pass. What comes out goes to `sink`.
    pub fn batch(&mut self, batch: Batch<'_>, sink: &mut dyn Sink) {
        let mut layers = std::mem::take(&mut self.block.layers);
        for slots in batch.slots.chunks(BLOCK) {
            let block = Batch { bytes: batch.bytes, slots };
            layers.clear();
            layers.extend(block.packets().map(|packet| decode(&packet)));
            self.block(block, &layers, sink);
        }
        self.block.layers = layers;
    }

    /// The same for packets that have been decoded: `layers` are those of the batch, in order.
    pub fn decoded(&mut self, batch: Batch<'_>, layers: &[Layers], sink: &mut dyn Sink) {
        for (slots, layers) in batch.slots.chunks(BLOCK).zip(layers.chunks(BLOCK)) {
            self.block(Batch { bytes: batch.bytes, slots }, layers, sink);
        }
    }

    fn block(&mut self, block: Batch<'_>, layers: &[Layers], sink: &mut dyn Sink) {
        self.count_caught(block);
        let plan = Arc::clone(&self.plan);
        let Some(scope) = &plan.scope else {
            self.analyse(block, layers, sink);
            return;
        };
        let mut kept = std::mem::take(&mut self.block.kept);
        let mut kept_layers = std::mem::take(&mut self.block.kept_layers);
        kept.clear();
        kept_layers.clear();
        for (slot, layers) in block.slots.iter().zip(layers) {
            if scope.matches(&block.packet(slot), layers) {
                kept.push(*slot);
                kept_layers.push(*layers);
            }
        }
        self.ledger.filtered += (block.len() - kept.len()) as u64;
        self.analyse(Batch { bytes: block.bytes, slots: &kept }, &kept_layers, sink);
        self.block.kept = kept;
        self.block.kept_layers = kept_layers;
    }

    fn count_caught(&mut self, block: Batch<'_>) {
        self.ledger.caught += block.len() as u64;
        for slot in block.slots {
            self.ledger.bytes += u64::from(slot.wire_len);
            self.ledger.captured_bytes += u64::from(slot.len);
            self.latest = self.latest.max(slot.time);
            self.earliest = self.earliest.min(slot.time);
        }
    }

    fn analyse(&mut self, block: Batch<'_>, layers: &[Layers], sink: &mut dyn Sink) {
        self.ledger.analysed += block.len() as u64;
        sink.kept(block);
        for error in layers.iter().filter_map(|layers| layers.error) {
            self.ledger.errors.0[error.layer as usize][error.kind as usize] += 1;
        }
        self.subscriptions(block, layers);
        self.checksums.look(block, layers, &mut self.ledger);
        let mut flowed = 0;
        if let Some(table) = &mut self.flows {
            let before = table.stats().packets;
            let mut feeder =
                Feeder { plan: &self.plan, chains: &mut self.chains, states: &mut self.states, sink };
            table.batch(block, layers, &mut feeder);
            flowed = table.stats().packets - before;
        }
        self.ledger.flowed += flowed;
        self.ledger.unflowed += block.len() as u64 - flowed;
    }

    /// Whether to look at the checksums of every packet where only a part of them would be looked at: for the
    /// beginning of a run, so that a small capture is judged by all that it has.
    pub fn look_closely(&mut self, closely: bool) {
        self.checksums.closely = closely;
    }

    /// Shows the block to the subscriptions at packet level, one subscription after the other.
    fn subscriptions(&mut self, block: Batch<'_>, layers: &[Layers]) {
        let plan = &self.plan;
        let mut masks = std::mem::take(&mut self.block.masks);
        masks.clear();
        for planned in &plan.subscriptions {
            let mask = covered(planned, block, layers);
            masks.push(mask);
        }
        // A remainder is known only when the lines are, wherever it stands among them.
        for (index, planned) in plan.subscriptions.iter().enumerate() {
            if let Scope::Remainder(lines) = &planned.scope {
                masks[index] = remainder(&masks, lines, block.len());
            }
        }
        for ((planned, chain), mask) in plan.subscriptions.iter().zip(&mut self.chains).zip(&masks) {
            if planned.feed == Source::Packets {
                each(mask, |at| {
                    if let (Some(packet), Some(layers)) = (block.get(at), layers.get(at)) {
                        show(chain, &Item::Packet(&packet, layers));
                    }
                });
            }
        }
        self.block.masks = masks;
    }

    /// Ends an interval at `now`: flows that are idle end, and every function hands over its reading.
    pub fn tick(&mut self, now: Time, sink: &mut dyn Sink) -> Snapshot {
        if let Some(table) = &mut self.flows {
            let mut feeder =
                Feeder { plan: &self.plan, chains: &mut self.chains, states: &mut self.states, sink };
            table.tick(now, &mut feeder);
            table.roll_up(&mut feeder);
        }
        self.snapshot(now)
    }

    /// Goes on with another plan. To be called right after [`Worker::tick`], when nothing that the old plan's
    /// functions counted is left: so nothing is lost and nothing counted twice. Flows go on as they are.
    pub fn change_plan(&mut self, plan: Arc<Plan>) {
        self.chains = plan.subscriptions.iter().map(|planned| planned.chain(plan.settings.seed)).collect();
        self.plan = plan;
    }

    /// Ends the run: every flow ends. The last interval ends now, or with the last packet where that is later, as
    /// it is when `now` is 0.
    pub fn finish(&mut self, now: Time, sink: &mut dyn Sink) -> Snapshot {
        if let Some(table) = &mut self.flows {
            table.drain(&mut Feeder {
                plan: &self.plan,
                chains: &mut self.chains,
                states: &mut self.states,
                sink,
            });
        }
        self.snapshot(now.max(self.latest))
    }

    fn snapshot(&mut self, end: Time) -> Snapshot {
        // The first interval begins with the oldest packet, whichever worker has it.
        let start = self.interval_start.replace(end).unwrap_or(self.earliest.min(end));
        let mut answers = Vec::new();
        for (planned, chain) in self.plan.subscriptions.iter().zip(&mut self.chains) {
            for (name, function) in planned.names().zip(chain) {
                answers.push(Answer {
                    subscription: planned.spec.name.clone(),
                    chart: planned.spec.chart.clone(),
                    function: name.to_owned(),
                    reading: function.take(),
                });
            }
        }
        let stats = self.flows.as_ref().map(FlowTable::stats).unwrap_or_default();
        let before = std::mem::replace(&mut self.flows_before, stats);
        Snapshot {
            interval: Interval { start: start.0, end: end.0 },
            ledger: std::mem::take(&mut self.ledger),
            flows: FlowCount {
                created: stats.created - before.created,
                ended: stats.ended - before.ended,
                evicted: stats.evicted - before.evicted,
                fragments_joined: stats.fragments_joined - before.fragments_joined,
                fragments_unmatched: stats.fragments_unmatched - before.fragments_unmatched,
                fragments_shed: stats.fragments_shed - before.fragments_shed,
                holes_shed: stats.holes_shed - before.holes_shed,
                states: std::mem::take(&mut self.states),
            },
            offloaders: self
                .checksums
                .take_senders()
                .into_iter()
                .map(|sender| Ipv6Addr::from(sender).to_canonical())
                .collect(),
            answers,
        }
    }
}

/// Which packets of a block a subscription covers; nothing yet for a remainder.
fn covered(planned: &Planned, block: Batch<'_>, layers: &[Layers]) -> Mask {
    match (&planned.scope, planned.feed) {
        (Scope::All, Source::Packets) => first(block.len()),
        (Scope::Matching(filter), Source::Packets) => matching(filter, block, layers),
        _ => Mask::default(),
    }
}

fn matching(filter: &Filter, block: Batch<'_>, layers: &[Layers]) -> Mask {
    let mut mask = Mask::default();
    for (at, (packet, layers)) in block.packets().zip(layers).enumerate() {
        mask[at / 64] |= u64::from(filter.matches(&packet, layers)) << (at % 64);
    }
    mask
}

/// The first `n` bits.
fn first(n: usize) -> Mask {
    std::array::from_fn(|word| match n.saturating_sub(word * 64) {
        0 => 0,
        n @ 1..=63 => (1 << n) - 1,
        _ => u64::MAX,
    })
}

fn remainder(masks: &[Mask], lines: &[usize], n: usize) -> Mask {
    let mut mask = first(n);
    for line in lines.iter().filter_map(|line| masks.get(*line)) {
        for (word, taken) in mask.iter_mut().zip(line) {
            *word &= !taken;
        }
    }
    mask
}

fn each(mask: &Mask, mut f: impl FnMut(usize)) {
    for (word, &bits) in mask.iter().enumerate() {
        let mut bits = bits;
        while bits != 0 {
            f(word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}

/// Shows an item to the functions of a chain until one drops it.
fn show(chain: &mut [Box<dyn Function>], item: &Item<'_>) {
    for function in chain {
        if function.item(item) == Pass::Drop {
            break;
        }
    }
}

/// Takes what the flow table gives to those who asked for it.
struct Feeder<'w> {
    plan: &'w Plan,
    chains: &'w mut [Vec<Box<dyn Function>>],
    states: &'w mut States,
    sink: &'w mut dyn Sink,
}

impl Feeder<'_> {
    fn feed(&mut self, source: Source, item: &Item<'_>) {
        for (planned, chain) in self.plan.subscriptions.iter().zip(self.chains.iter_mut()) {
            if planned.feed == source {
                show(chain, item);
            }
        }
    }
}

impl FlowSink for Feeder<'_> {
    fn tally(&mut self, tally: &Tally<'_>) {
        // A packet in a tunnel over UDP is in the flow that it carries; that of its carrier would count it twice.
        if !tally.carrier {
            self.feed(Source::Tallies, &Item::Tally(tally));
        }
    }

    fn end(&mut self, record: &FlowRecord) {
        if let Some(state) = self.states.0.get_mut(record.state as usize) {
            *state += 1;
        }
        self.feed(Source::FlowEnds, &Item::Flow(record));
        self.sink.flow(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::CONN_STATES;
    use weir_flow::ConnState;

    #[test]
    fn states_are_counted_under_their_names() {
        use ConnState::{Oth, Rej, RstO, RstOS0, RstR, RstRH, S0, S1, S2, S3, SF, SH, ShR};
        for state in [S0, S1, S2, S3, SF, Rej, RstO, RstR, RstOS0, RstRH, SH, ShR, Oth] {
            assert_eq!(CONN_STATES[state as usize], state.name());
        }
    }

    #[test]
    fn the_first_bits_of_a_mask() {
        assert_eq!(first(0), [0; 4]);
        assert_eq!(first(65), [u64::MAX, 1, 0, 0]);
        assert_eq!(first(BLOCK), [u64::MAX; 4]);
        let mut seen = Vec::new();
        each(&remainder(&[[0b10, 0, 0, 0]], &[0], 3), |at| seen.push(at));
        assert_eq!(seen, [0, 2]);
    }
}
