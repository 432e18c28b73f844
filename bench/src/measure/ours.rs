//! Weir's filter set, as the measurements use it.

use std::sync::Arc;

use crate::Result;
use weir_filter::{MatchCounter, Options, Set, Total};
use weir_flow::{FlowConfig, FlowRecord, FlowSink, FlowTable, Tally};
use weir_wire::{Batch, FlowKey, Layers, Tag, decode};

/// Number of packets that go through the flow table together.
const BLOCK: usize = 256;

/// Compiled expressions, with a counter for each.
pub struct Ours {
    set: Arc<Set>,
    counter: MatchCounter,
    flows: FlowTable,
    layers: Vec<Layers>,
}

/// Counts by flow: the tallies of flows, minus irregular packets, plus uncounted ones.
struct Flows<'c>(&'c mut MatchCounter);

impl FlowSink for Flows<'_> {
    fn end(&mut self, _: &FlowRecord) {}

    fn tally(&mut self, tally: &Tally<'_>) {
        self.0.flow(tally.key, tally.tag, tally.source_is_lower, tally.packets, tally.bytes);
    }

    fn irregular(&mut self, irregular: &Tally<'_>) {
        let Tally { packets, bytes, .. } = irregular;
        self.0.flow(
            irregular.key,
            irregular.tag,
            irregular.source_is_lower,
            packets.wrapping_neg(),
            bytes.wrapping_neg(),
        );
    }

    fn asks_tags(&self) -> bool {
        self.0.set().asks_tags()
    }

    fn vlan_changed(&mut self, vlan_changed: &Tally<'_>, tag: Tag) {
        self.irregular(vlan_changed);
        self.tally(&Tally { tag, ..*vlan_changed });
    }

    fn uncounted(&mut self, uncounted: &Tally<'_>) {
        self.tally(uncounted);
    }
}

impl Ours {
    /// Compiles expressions.
    pub fn compile(expressions: &[String]) -> Result<Self> {
        let set = Arc::new(Set::compile(expressions, &Options::default())?);
        let (counter, flows) = (MatchCounter::new(Arc::clone(&set)), FlowTable::new(&FlowConfig::default()));
        Ok(Self { counter, set, flows, layers: Vec::new() })
    }

    /// Counts packets for every expression, from their bytes.
    pub fn count(&mut self, batch: Batch<'_>) {
        self.counter.packets(batch, None);
    }

    /// Counts packets by flow, from their bytes: each packet is decoded and tracked, and only tests that its flow's
    /// key does not decide are evaluated for it. [`Ours::take_flows`] completes the counts.
    pub fn count_by_flow(&mut self, batch: Batch<'_>) {
        for slots in batch.slots.chunks(BLOCK) {
            let block = Batch { bytes: batch.bytes, slots };
            self.layers.clear();
            self.layers.extend(block.packets().map(|packet| decode(&packet)));
            let mut by_flow = [0_u64; BLOCK / 64];
            for (at, (slot, layers)) in slots.iter().zip(&self.layers).enumerate() {
                by_flow[at / 64] |= u64::from(layers.is_plain_ip(slot.link)) << (at % 64);
            }
            self.counter.packets_outside_flows(block, &self.layers, &by_flow);
            self.flows.batch(block, &self.layers, &mut Flows(&mut self.counter));
        }
    }

    /// Returns the counts since the last call, including the tallies of flows.
    pub fn take_flows(&mut self) -> Vec<Total> {
        self.flows.roll_up(&mut Flows(&mut self.counter));
        self.take()
    }

    /// Ends all flows, so that repeated packets begin new ones.
    pub fn end_flows(&mut self) {
        self.flows.drain(&mut Flows(&mut self.counter));
    }

    /// Counts the tally of one direction of a flow without VLAN tags.
    pub fn flow(&mut self, key: &FlowKey, source_is_lower: bool, total: Total) {
        self.counter.flow(key, Tag::NONE, source_is_lower, total.packets, total.bytes);
    }

    /// Returns the counts since the last call.
    pub fn take(&mut self) -> Vec<Total> {
        self.counter.take().expressions
    }

    /// Emits for every packet its index and the expressions that it matches.
    pub fn match_sets(&mut self, batch: Batch<'_>, see: &mut dyn FnMut(usize, &[u32])) {
        self.counter.match_sets(batch, None, see);
    }

    /// Builds the set with one more expression. Returns the number of expressions.
    pub fn with(&self, expression: &str) -> Result<usize> {
        Ok(self.set.with(expression, &Options::default())?.len())
    }

    /// Builds the set without one of its expressions. Returns the number of expressions.
    pub fn without(&self, index: usize) -> usize {
        self.set.without(index).len()
    }
}
