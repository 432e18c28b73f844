//! Routes the output of the flow table to functions and to sessions.

use crate::fields::{self, RecordView};
use crate::meter::{Cost, Meter};
use crate::plan::Planned;
use crate::planned::Link;
use crate::sessions::{Found, Sessions};
use crate::worker::{Sink, show};
use crate::{FlowRecord, Item, Plan, Share, Tally};
use std::collections::HashMap;
use std::sync::Arc;
use weir_api::{Answer, Event, States, SubscriptionId};
use weir_filter::{MatchCounter, Matches};
use weir_flow::measure::{Measure, Measured};
use weir_flow::{FlowIdentity, FlowPacket, FlowSink, FlowTable, IpTunnel};
use weir_proto::Record;
use weir_wire::stream::Chunk;
use weir_wire::{
    Batch, FlowKey, Fragment, Layers, LinkType, Packet, Slot, Tag, Time, decode, further_frames,
};

/// Tallies that are shown together: a function's lists stay in the cache meanwhile.
const TOGETHER: usize = 256;

/// The functions of a worker, and their state.
pub(crate) struct Functions {
    /// The functions of each subscription of the plan.
    pub chains: Vec<Chain>,
    /// The cost of each subscription.
    pub costs: Vec<Cost>,
    /// Counts for the expressions that need only sums.
    pub counted: MatchCounter,
    pub counted_cost: Cost,
    /// Tallies of flows that functions have not seen yet.
    tallied: Vec<Owned>,
    /// The tallies in the form for lists, while they are shown.
    shares: Vec<Share>,
    /// The flows that ended in this interval, by state.
    pub states: States,
    pub meter: Meter,
    /// Reused for the tests of records.
    matches: Matches,
}

impl Functions {
    pub fn new(plan: &Plan, meter: Meter) -> Self {
        Self {
            chains: plan.subscriptions.iter().map(|planned| planned.chain(plan.settings.seed)).collect(),
            costs: vec![Cost::default(); plan.subscriptions.len()],
            counted: MatchCounter::new(Arc::clone(&plan.counted)),
            counted_cost: Cost::default(),
            tallied: Vec::with_capacity(TOGETHER),
            shares: Vec::with_capacity(TOGETHER),
            states: States::default(),
            meter,
            matches: Matches::default(),
        }
    }

    /// Changes to another plan. The chains of subscriptions that both plans have stay as they are. Returns the readings
    /// of the others. The sums of the old plan must have been taken.
    pub fn change(&mut self, old: &Plan, new: &Plan) -> (Vec<Answer>, Vec<Event>) {
        let chains = std::mem::take(&mut self.chains).into_iter().zip(std::mem::take(&mut self.costs));
        let mut kept: HashMap<SubscriptionId, (&Planned, Chain, Cost)> = old
            .subscriptions
            .iter()
            .zip(chains)
            .filter(|(_, (chain, _))| !chain.is_empty())
            .map(|(planned, (chain, cost))| (planned.id, (planned, chain, cost)))
            .collect();
        for planned in &new.subscriptions {
            let before = kept.remove(&planned.id).map(|(_, chain, cost)| (chain, cost));
            let (chain, cost) = before.unwrap_or_else(|| (planned.chain(new.settings.seed), Cost::default()));
            self.chains.push(chain);
            self.costs.push(cost);
        }
        self.counted = MatchCounter::new(Arc::clone(&new.counted));
        let (mut removed, mut events) = (Vec::new(), Vec::new());
        for (planned, mut chain, cost) in kept.into_values() {
            let spent = cost.of(&self.meter);
            removed.extend(planned.answers(chain.iter_mut().filter_map(Link::take), spent));
            events.extend(chain.iter_mut().flat_map(Link::events));
        }
        (removed, events)
    }

    /// The events that the functions found since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        self.chains.iter_mut().flatten().flat_map(Link::events).collect()
    }
}

impl Functions {
    /// Shows a flow that has ended to the subscriptions that cover it.
    fn flow_end(&mut self, plan: &Plan, record: &FlowRecord) {
        let mut endpoints = None;
        for at in &plan.of_flow_ends {
            let Some(chain) = self.chains.get_mut(*at) else { continue };
            let test = plan.subscriptions.get(*at).and_then(|planned| planned.compiled.flow_test.as_ref());
            let covers = test
                .is_none_or(|test| test.holds(endpoints.get_or_insert_with(|| fields::endpoints_of(record))));
            if covers {
                show(chain, &Item::Flow(record));
            }
        }
    }

    /// Shows a record to the subscriptions that cover it.
    fn record(&mut self, plan: &Plan, flow: &FlowIdentity, record: &Record<'_>) {
        let view = RecordView { endpoints: fields::endpoints(flow), record };
        for number in plan.records.matches(&view, &mut self.matches) {
            let chain = plan.of_records.get(*number as usize).and_then(|at| self.chains.get_mut(*at));
            if let Some(chain) = chain {
                show(chain, &Item::Record(&view));
            }
        }
    }
}

/// Shows records to functions on their way to the sink.
pub(crate) struct Tap<'w> {
    pub plan: &'w Plan,
    pub functions: &'w mut Functions,
    pub sink: &'w mut dyn Sink,
}

impl Sink for Tap<'_> {
    fn flow(&mut self, flow: &FlowRecord) {
        self.sink.flow(flow);
    }

    fn kept(&mut self, packets: Batch<'_>) {
        self.sink.kept(packets);
    }

    fn record(&mut self, flow: &FlowIdentity, record: Record<'_>) {
        let demand = &self.plan.demand;
        if demand.tested.has(record.table) {
            self.functions.record(self.plan, flow, &record);
        }
        if demand.hands_on(record.table) {
            self.sink.record(flow, record);
        }
    }

    fn chunk(&mut self, flow: &FlowIdentity, chunk: &Chunk<'_>) {
        self.sink.chunk(flow, chunk);
    }

    fn content(&mut self, flow: &FlowIdentity, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        self.sink.content(flow, packet, file, offset, bytes)
    }

    fn unidentified(&mut self, packets: Batch<'_>) {
        self.sink.unidentified(packets);
    }

    fn measured(&mut self, flow: &Measure, measured_value: Measured<'_>) {
        self.sink.measured(flow, measured_value);
    }
}

/// The functions of a subscription, in order.
type Chain = Vec<Link>;

/// A tally without its flow.
struct Owned {
    key: FlowKey,
    source_is_lower: bool,
    initiator_is_lower: bool,
    vlan: u16,
    tag: Tag,
    packets: u64,
    bytes: u64,
    begins: bool,
    carrier: bool,
}

impl Owned {
    fn of(tally: &Tally<'_>) -> Self {
        let Tally { key, source_is_lower, initiator_is_lower, vlan, tag, packets, bytes, begins, carrier } =
            *tally;
        Self { key: *key, source_is_lower, initiator_is_lower, vlan, tag, packets, bytes, begins, carrier }
    }

    fn tally(&self) -> Tally<'_> {
        let Self { ref key, source_is_lower, initiator_is_lower, vlan, tag, packets, bytes, begins, carrier } =
            *self;
        Tally { key, source_is_lower, initiator_is_lower, vlan, tag, packets, bytes, begins, carrier }
    }
}

/// Routes the output of the flow table to the functions and to the sessions.
pub(crate) struct Feeder<'w, const READS: bool> {
    plan: &'w Plan,
    functions: &'w mut Functions,
    sink: &'w mut dyn Sink,
    /// The sessions; present if READS.
    sessions: Option<&'w mut Sessions>,
    /// The result of the flow that is about to end.
    found: Found,
    /// Nanoseconds spent here, in a measured block.
    pub spent: u64,
}

impl<'w> Feeder<'w, false> {
    pub fn new(plan: &'w Plan, functions: &'w mut Functions, sink: &'w mut dyn Sink) -> Self {
        Self { plan, functions, sink, sessions: None, found: Found::default(), spent: 0 }
    }
}

impl<'w> Feeder<'w, true> {
    pub fn reading(
        plan: &'w Plan,
        functions: &'w mut Functions,
        sink: &'w mut dyn Sink,
        sessions: &'w mut Sessions,
    ) -> Self {
        Self { plan, functions, sink, sessions: Some(sessions), found: Found::default(), spent: 0 }
    }

    /// Counts the packets of a block. What a packet completes or carries besides its own flow (the packet of the last
    /// fragment, the frames of an aggregate) is counted before the packets behind it, however packets are divided into
    /// blocks.
    pub fn count(&mut self, block: Batch<'_>, layers: &[Layers], by_flow: &[u64], table: &mut FlowTable) {
        let is_end = |(slot, layers): (&Slot, &Layers)| {
            layers.fragment != Fragment::Whole
                || slot.link != LinkType::ETHERNET && further_frames(&block.packet(slot)).next().is_some()
        };
        let mut ends = block.slots.iter().zip(layers).map(is_end);
        if !ends.any(|is_end| is_end) {
            table.batch_known(block, layers, by_flow, self);
            return self.attend(table);
        }
        let mut from = 0;
        for (at, pair) in block.slots.iter().zip(layers).enumerate() {
            if !is_end(pair) && at + 1 < block.len() {
                continue;
            }
            let parts = (block.slots.get(from..=at), layers.get(from..=at));
            if let (Some(slots), Some(layers)) = parts {
                table.batch(Batch { bytes: block.bytes, slots }, layers, self);
            }
            for frame in further_frames(&block.packet(pair.0)) {
                table.further(&frame, &decode(&frame), self);
            }
            self.attend(table);
            from = at + 1;
        }
    }

    /// Shows reassembled packets to their flows.
    fn attend(&mut self, table: &mut FlowTable) {
        // A packet in a tunnel may be a fragment too: each round has shorter packets.
        while let Some((packets, layers)) = self.sessions.as_mut().and_then(|sessions| sessions.take_whole())
        {
            for (packet, layers) in packets.batch().packets().zip(&layers) {
                table.attend(&packet, layers, self);
            }
        }
    }
}

impl<const READS: bool> Feeder<'_, READS> {
    /// The sessions, and the way of their records.
    fn tap(&mut self) -> (Option<&mut Sessions>, Tap<'_>) {
        let tap = Tap { plan: self.plan, functions: self.functions, sink: self.sink };
        (self.sessions.as_deref_mut(), tap)
    }

    /// Shows the waiting tallies, one subscription after the other.
    pub fn flush(&mut self) {
        let Functions { chains, costs, counted, counted_cost, tallied, shares, meter, .. } =
            &mut *self.functions;
        // Readings at the beginning, for the sets, and for each subscription.
        let mut laps = meter.tallies(tallied.len(), 2 + self.plan.of_tallies.len());
        if self.plan.counts_by_flow() {
            for t in tallied.iter() {
                counted.flow(&t.key, t.tag, t.source_is_lower, t.packets, t.bytes);
            }
            counted_cost.in_tallies += laps.lap();
        }
        // A packet in a tunnel over UDP counts to the carried flow. Counting it to the carrier as well would count it
        // twice.
        let shown = || tallied.iter().filter(|tally| !tally.carrier);
        if !self.plan.of_tallies.is_empty() {
            shares.clear();
            shares.extend(shown().map(|tally| Share::of(&tally.tally())));
        }
        for at in &self.plan.of_tallies {
            let (Some(chain), Some(cost)) = (chains.get_mut(*at), costs.get_mut(*at)) else { continue };
            let is_done = match chain.as_mut_slice() {
                [Link::Measure(function)] => function.shares(shares),
                _ => false,
            };
            if !is_done {
                shown().for_each(|tally| show(chain, &Item::Tally(&tally.tally())));
            }
            cost.in_tallies += laps.lap();
        }
        self.spent += laps.whole();
        tallied.clear();
    }
}

impl<const READS: bool> FlowSink for Feeder<'_, READS> {
    const PACKETS: bool = READS;

    fn ahead(&mut self, rows: impl Iterator<Item = u32>) {
        if let Some(sessions) = &mut self.sessions {
            sessions.ahead(rows);
        }
    }

    fn packet(&mut self, seen: &FlowPacket<'_>) {
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.packet(seen, &mut tap);
        }
    }

    fn fragment(&mut self, packet: &Packet<'_>, layers: &Layers) {
        if let Some(sessions) = &mut self.sessions {
            sessions.fragment(packet, layers);
        }
    }

    fn tunnel(&mut self, tunnel: &IpTunnel) {
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.tunnel(tunnel, &mut tap);
        }
    }

    fn leaving(&mut self, row: u32, last: Time, is_over: bool) {
        if let (Some(sessions), mut tap) = self.tap() {
            self.found = if is_over { sessions.end(row, last, &mut tap) } else { sessions.found(row) };
        }
    }

    fn tally(&mut self, tally: &Tally<'_>) {
        self.functions.tallied.push(Owned::of(tally));
        if self.functions.tallied.len() == TOGETHER {
            self.flush();
        }
    }

    fn irregular(&mut self, irregular: &Tally<'_>) {
        if self.plan.counts_by_flow() {
            let (packets, bytes) = (irregular.packets.wrapping_neg(), irregular.bytes.wrapping_neg());
            self.functions.counted.flow(
                irregular.key,
                irregular.tag,
                irregular.source_is_lower,
                packets,
                bytes,
            );
        }
    }

    fn asks_tags(&self) -> bool {
        self.plan.counts_by_flow() && self.plan.counted.asks_tags()
    }

    fn vlan_changed(&mut self, vlan_changed: &Tally<'_>, tag: Tag) {
        let Tally { key, tag: flows, source_is_lower, packets, bytes, .. } = *vlan_changed;
        let counted = &mut self.functions.counted;
        counted.flow(key, flows, source_is_lower, packets.wrapping_neg(), bytes.wrapping_neg());
        counted.flow(key, tag, source_is_lower, packets, bytes);
    }

    fn uncounted(&mut self, uncounted: &Tally<'_>) {
        if self.plan.counts_by_flow() {
            let Tally { key, tag, source_is_lower, packets, bytes, .. } = *uncounted;
            self.functions.counted.flow(key, tag, source_is_lower, packets, bytes);
        }
    }

    fn end(&mut self, record: &FlowRecord) {
        if let Some(state) = self.functions.states.0.get_mut(record.state as usize) {
            *state += 1;
        }
        self.functions.flow_end(self.plan, record);
        if READS {
            let found = std::mem::take(&mut self.found);
            if let (Some(sessions), mut tap) = self.tap() {
                sessions.carrier(record, &mut tap);
                sessions.count(record, found);
            }
            self.sink.flow(&FlowRecord { services: found.services, ..*record });
        } else {
            self.sink.flow(record);
        }
    }
}
