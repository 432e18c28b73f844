//! The functions of a worker, with their state: those of each tree of the plan.

use crate::expressions::Counters;
use crate::fields::{self, RecordView};
use crate::flow_fields::EndedFlow;
use crate::function::block::{Block, OwnedTally, first};
use crate::held::Decision;
use crate::item::each_error;
use crate::meter::{Cost, Meter};
use crate::plan::{Planned, Shared};
use crate::planned::{Link, Readings};
use crate::stream_demand::Covering;
use crate::trees::{Node, Root, Since, Trees};
use crate::{Control, Emitted, FlowIdentity, FlowRecord, Item, Plan, Question, Share, Sink, Tally};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use weir_api::{Answer, AnswerId, Count};
use weir_filter::{Directions, Matches, PacketMask};
use weir_proto::Record;
use weir_wire::stream::Chunk;
use weir_wire::{Batch, Direction, Layers};

/// Tallies that are shown together: a function's lists stay in the cache meanwhile.
const TOGETHER: usize = 256;

/// The functions of a worker, and their state.
pub(crate) struct Functions {
    /// The functions, in the order of [`Trees::nodes`].
    pub links: Vec<Option<Link>>,
    /// The cost of each subscription. The time of a tree is charged to the first of its subscriptions.
    costs: Vec<Cost>,
    /// Counts for the expressions that need only sums.
    pub counted: Counters,
    pub counted_cost: Cost,
    /// Tallies of flows that functions have not seen yet.
    tallied: Vec<OwnedTally>,
    /// The tallies in the form for lists, while they are shown.
    shares: Vec<Share>,
    pub meter: Meter,
    /// Reused for the masks after functions that select.
    masks: Vec<PacketMask>,
    /// Reused for the tests of flows.
    found: Vec<(u32, Directions)>,
    /// Reused for the tests of records.
    matches: Matches,
    /// The functions that deliver the flow or record that was shown last.
    delivered: Vec<AnswerId>,
    /// The functions that deliver packets of the block that is shown, each with its packets.
    selected: Vec<(AnswerId, PacketMask)>,
    /// What functions over records have decided to write.
    pub decisions: Vec<Decision>,
}

impl Functions {
    pub fn new(plan: &Plan, meter: Meter) -> Self {
        Self {
            links: plan.trees.nodes.iter().map(|node| build(plan, node)).collect(),
            costs: vec![Cost::default(); plan.subscriptions.len()],
            counted: Counters::new(&plan.counted),
            counted_cost: Cost::default(),
            tallied: Vec::with_capacity(TOGETHER),
            shares: Vec::with_capacity(TOGETHER),
            meter,
            masks: Vec::new(),
            found: Vec::new(),
            matches: Matches::default(),
            delivered: Vec::new(),
            selected: Vec::new(),
            decisions: Vec::new(),
        }
    }

    /// Changes to another plan. The functions of subscriptions that both plans have stay as they are, and others may join them.
    /// Returns the readings of those that are removed. The sums of the old plan must have been taken.
    pub fn change(&mut self, old: &Plan, new: &Plan) -> Vec<Answer> {
        let mut answers = Vec::new();
        match new.trees.since(old.number()) {
            Some(since) => self.follow(old, new, since, &mut answers),
            None => self.rearrange(old, new, &mut answers),
        }
        self.counted.change(&new.counted);
        answers
    }

    /// Changes to the next plan. What both plans have is not visited.
    fn follow(&mut self, old: &Plan, new: &Plan, since: &Since, answers: &mut Vec<Answer>) {
        for at in since.subscriptions.gone() {
            self.leave(old, at, answers);
        }
        since.subscriptions.apply(&mut self.costs, |_| Cost::default());
        since.functions.apply(&mut self.links, |_| None);
        let begun: Vec<usize> = since.subscriptions.places().collect();
        self.join(new, &begun, answers);
        since.functions.places().for_each(|at| self.make(new, at));
    }

    /// Changes to any other plan.
    fn rearrange(&mut self, old: &Plan, new: &Plan, answers: &mut Vec<Answer>) {
        let shared = Shared::between(old, new);
        let id = |at: usize| new.subscriptions.get(at).map(|planned| planned.id);
        let before = shared.positions(new.subscriptions.len(), id);
        let mut is_kept = vec![false; old.subscriptions.len()];
        for at in before.iter().flatten() {
            is_kept[*at] = true;
        }
        for at in (0..is_kept.len()).filter(|at| !is_kept[*at]) {
            self.leave(old, at, answers);
        }
        let costs = std::mem::take(&mut self.costs);
        self.costs =
            before.iter().map(|at| at.and_then(|at| costs.get(at).copied()).unwrap_or_default()).collect();
        let mut links = std::mem::take(&mut self.links);
        let origins = new.trees.origins(&old.trees, &before);
        self.links.extend(origins.into_iter().map(|was| links.get_mut(was? as usize)?.take()));
        let begun: Vec<usize> = (0..before.len()).filter(|at| before[*at].is_none()).collect();
        self.join(new, &begun, answers);
        (0..new.trees.nodes.len()).for_each(|at| self.make(new, at));
    }

    /// Builds the function at a place, unless it is there. New functions are built after those before them were joined.
    fn make(&mut self, plan: &Plan, at: usize) {
        if let (Some(link @ None), Some(node)) = (self.links.get_mut(at), plan.trees.nodes.get(at)) {
            *link = build(plan, node);
        }
    }

    /// Takes the readings of the subscription at a position, which is removed.
    fn leave(&mut self, plan: &Plan, at: usize, answers: &mut Vec<Answer>) {
        let path = plan.trees.path(at);
        let Some(planned) = plan.subscriptions.get(at).filter(|_| !path.is_empty()) else { return };
        let spent = self.costs.get_mut(at).map(std::mem::take).unwrap_or_default().of(&self.meter);
        // A function that is shared goes on with the others.
        let readings = path.iter().filter_map(|node| {
            Some(self.links.get_mut(*node as usize)?.as_mut()?.measure()?.leave(planned.id))
        });
        answers.extend(planned.answers(readings, spent));
    }

    /// Lets the subscriptions that were not in the plan before, at the positions `begun`, join the functions that they share with
    /// others. Where too many joined a function in one interval, those before get what it has read so far.
    fn join(&mut self, plan: &Plan, begun: &[usize], answers: &mut Vec<Answer>) {
        for (at, planned) in begun.iter().filter_map(|at| Some((*at, plan.subscriptions.get(*at)?))) {
            for node in plan.trees.path(at) {
                let link = self.links.get_mut(*node as usize).and_then(Option::as_mut);
                let Some(measure) = link.and_then(Link::measure) else { continue };
                if !measure.has_room() {
                    let readings = measure.take();
                    let before = plan.subscriptions.iter().enumerate();
                    let before = before.filter(|(at, _)| begun.binary_search(at).is_err());
                    let answer = |(at, other): (usize, &Arc<Planned>)| {
                        let call = plan.trees.path(at).iter().position(|one| one == node)?;
                        other.answer(call, readings.of(other.id)?.clone())
                    };
                    answers.extend(before.filter_map(answer));
                }
                measure.join(planned.id);
            }
        }
    }

    /// Takes the readings of subscriptions at these positions. That of a function which several of them share is taken once.
    fn take(&mut self, plan: &Plan, positions: impl Iterator<Item = usize>, answers: &mut Vec<Answer>) {
        let mut shared: HashMap<u32, Readings> = HashMap::new();
        for at in positions {
            let path = plan.trees.path(at);
            let Some(planned) = plan.subscriptions.get(at).filter(|_| !path.is_empty()) else { continue };
            let spent = self.costs.get_mut(at).map(std::mem::take).unwrap_or_default().of(&self.meter);
            let readings = path.iter().filter_map(|node| {
                let measure = self.links.get_mut(*node as usize)?.as_mut()?.measure()?;
                match plan.trees.nodes.get(*node as usize)?.readers {
                    1 => measure.take_only(planned.id),
                    _ => shared.entry(*node).or_insert_with(|| measure.take()).of(planned.id).cloned(),
                }
            });
            answers.extend(planned.answers(readings, spent));
        }
    }

    /// The readings of the interval, without those of subscriptions that saw nothing and cost nothing.
    pub fn answers(&mut self, plan: &Plan) -> Vec<Answer> {
        let mut answers = Vec::new();
        let held: Vec<usize> = (0..plan.subscriptions.len()).filter(|at| self.may_hold(plan, *at)).collect();
        self.take(plan, held.into_iter(), &mut answers);
        answers
    }

    /// What the functions of the subscription at a position have counted since the last readings, by their answers.
    pub fn so_far(&self, plan: &Plan, at: usize, counts: &mut Vec<(AnswerId, Count)>) {
        let Some(planned) = plan.subscriptions.get(at) else { return };
        let measures = plan.trees.path(at).iter().filter_map(|node| {
            let Some(Link::Measure(measure)) = self.links.get(*node as usize)? else { return None };
            Some(measure.so_far(planned.id))
        });
        let ids = planned.compiled.empty.iter().map(|answer| answer.id);
        counts.extend(ids.zip(measures).filter_map(|(id, count)| Some((id, count?))));
    }

    /// Whether the subscription at a position saw anything in this interval, or its evaluation was measured.
    fn may_hold(&self, plan: &Plan, at: usize) -> bool {
        let link = |node: &u32| self.links.get(*node as usize)?.as_ref();
        self.costs.get(at).is_some_and(|cost| *cost != Cost::default())
            || plan.trees.path(at).iter().filter_map(link).any(Link::may_hold)
    }

    /// Shows packets of a block to a tree.
    pub fn packets(&mut self, trees: &Trees, root: Root, block: &Block<'_>, mask: &PacketMask) {
        show_block(trees, &mut self.links, root, (block, mask), &mut self.masks, &mut self.selected);
        if let Some(cost) = self.costs.get_mut(root.at) {
            cost.in_blocks += self.meter.lap();
        }
    }

    /// Emits the packets of the block that was shown that functions deliver; `whole` are those that deliver all of them.
    pub fn deliver(&mut self, block: Batch<'_>, whole: &[AnswerId], sink: &mut dyn Sink) {
        self.selected.extend(whole.iter().map(|id| (*id, first(block.len()))));
        if !self.selected.is_empty() {
            sink.take(Emitted::Packets(block, &self.selected));
            self.selected.clear();
        }
    }

    /// Shows a flow that has ended to the subscriptions that cover it. Returns the functions that deliver it, with those that deliver
    /// all flows.
    pub fn flow_end<'s>(&'s mut self, plan: &'s Plan, record: &FlowRecord) -> &'s [AnswerId] {
        if plan.flow_ends.is_empty() {
            return &plan.whole.flows;
        }
        let Self { links, found, delivered, .. } = self;
        delivered.clone_from(&plan.whole.flows);
        plan.flow_ends.each(&EndedFlow::new(record), found, |at, directions| {
            let directions = fields::with_packets(record, directions);
            if directions != Directions::NONE {
                show_flow(&plan.trees, links, at, (record, directions), delivered);
            }
        });
        &self.delivered
    }

    /// Shows a record to the subscriptions that cover it. Returns the functions that deliver it, with those that deliver all records
    /// of its table.
    pub fn record(&mut self, plan: &Plan, flow: &FlowIdentity, record: &Record<'_>) -> &[AnswerId] {
        let view = RecordView { endpoints: fields::endpoints(flow), record };
        let Self { links, matches, delivered, .. } = self;
        delivered.clear();
        delivered.extend_from_slice(plan.whole.records(record.table));
        plan.records.each(&view, matches, |at| {
            show(&plan.trees, links, plan.trees.tree_of(at), &Item::Record(&view), delivered);
        });
        if !plan.writes.is_empty() {
            let writes = delivered.iter().filter(|id| plan.writes.get(id).is_some());
            let decision =
                |id: &AnswerId| Decision { key: flow.key, id: *id, at: record.at, packet: record.packet };
            self.decisions.extend(writes.map(decision));
        }
        &self.delivered
    }

    /// Shows a record of a table that functions request to the subscriptions that cover it. Nothing delivers it.
    pub fn requested(&mut self, plan: &Plan, flow: &FlowIdentity, record: &Record<'_>) {
        let view = RecordView { endpoints: fields::endpoints(flow), record };
        let Self { links, matches, .. } = self;
        plan.records.each(&view, matches, |at| {
            show(&plan.trees, links, plan.trees.tree_of(at), &Item::Requested(&view), &mut Vec::new());
        });
    }

    /// Shows a chunk of a stream to the subscriptions that cover its direction. Returns the functions that deliver it.
    pub fn chunk(
        &mut self,
        plan: &Plan,
        covering: &[Covering],
        flow: &FlowIdentity,
        chunk: &Chunk<'_>,
    ) -> &[AnswerId] {
        let Self { links, delivered, .. } = self;
        delivered.clear();
        for one in covering.iter().filter(|one| one.directions.has(chunk.direction)) {
            show(&plan.trees, links, plan.trees.tree_of(one.at), &Item::Chunk(flow, chunk), delivered);
        }
        delivered
    }

    /// Shows what a parser emits before a record to the subscriptions that cover its flow.
    pub fn early(&mut self, plan: &Plan, flow: &FlowIdentity, item: &Item<'_>) {
        let Self { links, found, .. } = self;
        let direction = match item {
            Item::Buffer(_, _, direction, _) => *direction,
            // The value of a field belongs to the flow, whose initiator stands for its sender.
            _ => Direction::Forward,
        };
        plan.early.each(&fields::endpoints(flow), found, |at, directions| {
            if directions.has(direction) {
                show(&plan.trees, links, plan.trees.tree_of(at), item, &mut Vec::new());
            }
        });
    }

    /// Shows a control packet to the subscriptions that see them. A packet in a tunnel over UDP counts to the carried flow
    /// alone.
    pub fn control(&mut self, plan: &Plan, control: &Control<'_>) {
        if control.tally.carrier {
            return;
        }
        for root in &plan.sources.control {
            let tree = plan.trees.tree(root.node);
            show(&plan.trees, &mut self.links, tree, &Item::Control(control), &mut Vec::new());
        }
    }

    /// Shows the errors of ICMP among the packets of a mask to the subscriptions that see control packets.
    pub fn errors(&mut self, plan: &Plan, block: Batch<'_>, layers: &[Layers], mask: &PacketMask) {
        for root in &plan.sources.control {
            Block::Packets(block, layers).each(mask, |item| {
                if let Item::Packet(packet, layers) = item {
                    each_error(packet, layers, |level, quote| {
                        let error = Item::Error(packet, level, quote);
                        let tree = plan.trees.tree(root.node);
                        show(&plan.trees, &mut self.links, tree, &error, &mut Vec::new());
                    });
                }
            });
            if let Some(cost) = self.costs.get_mut(root.at) {
                cost.in_blocks += self.meter.lap();
            }
        }
    }

    /// Shows the questions and answers among the packets of a mask to the subscriptions of flows that cover a flow from the asker to
    /// the target.
    pub fn questions(&mut self, plan: &Plan, block: Batch<'_>, layers: &[Layers], mask: &PacketMask) {
        let Self { links, found, .. } = self;
        Block::Packets(block, layers).each(mask, |item| {
            let Item::Packet(packet, layers) = item else { return };
            let Some(question) = Question::of(packet, layers) else { return };
            plan.flow_ends.each(&question.endpoints(), found, |at, directions| {
                if directions.forward {
                    show_question(&plan.trees, links, at, &Item::Question(&question));
                }
            });
        });
    }

    /// Keeps a tally for the functions. Returns whether the waiting tallies are to be shown now.
    #[inline]
    pub fn tally(&mut self, tally: &Tally<'_>) -> bool {
        self.tallied.push(OwnedTally::of(tally));
        self.tallied.len() == TOGETHER
    }

    /// Shows the waiting tallies, one tree after the other. Returns its cost in nanoseconds, in a measured block.
    pub fn show_tallies(&mut self, plan: &Plan) -> u64 {
        let Self { links, costs, counted, counted_cost, tallied, shares, masks, meter, .. } = self;
        // Readings at the beginning, for the sets, and for each tree.
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
            for root in &plan.sources.tallies {
                // Functions that deliver see packets.
                show_block(&plan.trees, links, *root, (&block, &shown), masks, &mut Vec::new());
                if let Some(cost) = costs.get_mut(root.at) {
                    cost.in_tallies += laps.lap();
                }
            }
        }
        tallied.clear();
        laps.whole()
    }
}

/// A function of the plan, without state; `None` for a call that was refused when it was compiled.
fn build(plan: &Plan, node: &Node) -> Option<Link> {
    let planned = plan.subscriptions.get(node.planned as usize)?;
    planned.compiled.link(node.call as usize, &planned.spec, plan.settings.seeds)
}

/// Shows an item to the functions of a tree: to those after a function that selects only if it selects
/// the item. Adds the functions that deliver it to `delivered`.
fn show(
    trees: &Trees,
    links: &mut [Option<Link>],
    mut tree: Range<usize>,
    item: &Item<'_>,
    delivered: &mut Vec<AnswerId>,
) {
    while let Some(at) = tree.next() {
        let (Some(node), Some(Some(link))) = (trees.nodes.get(at), links.get_mut(at)) else { continue };
        if !link.item(item) {
            tree.start += node.below as usize;
        }
        delivered.extend(link.delivers());
    }
}

/// Shows a question to the functions that see questions, of the tree of the subscription at a position.
fn show_question(trees: &Trees, links: &mut [Option<Link>], at: usize, item: &Item<'_>) {
    let mut tree = trees.tree_of(at);
    while let Some(at) = tree.next() {
        let (Some(node), Some(Some(link))) = (trees.nodes.get(at), links.get_mut(at)) else { continue };
        if !link.question(item) {
            tree.start += node.below as usize;
        }
    }
}

/// Shows a flow that has ended to the tree of the subscription at a position. A function that selects may leave one of its
/// directions to those after it. Adds the functions that deliver the flow to `delivered`.
fn show_flow(
    trees: &Trees,
    links: &mut [Option<Link>],
    at: usize,
    (flow, directions): (&FlowRecord, Directions),
    delivered: &mut Vec<AnswerId>,
) {
    // What each function that selects has left for those after it.
    let mut left = Vec::new();
    let mut tree = trees.tree_of(at);
    while let Some(at) = tree.next() {
        let (Some(node), Some(Some(link))) = (trees.nodes.get(at), links.get_mut(at)) else { continue };
        left.truncate(node.selects as usize);
        let item = Item::FlowEnd(flow, left.last().copied().unwrap_or(directions));
        if let Link::Select(selector) = link {
            left.push(selector.narrows(&item));
        }
        if !link.item(&item) {
            tree.start += node.below as usize;
        }
        delivered.extend(link.delivers());
    }
}

/// Shows the items of a mask to a tree: to those after a function that selects what it
/// leaves, if anything. Adds the functions that deliver items to `selected`. `masks` is reused memory.
fn show_block(
    trees: &Trees,
    links: &mut [Option<Link>],
    root: Root,
    (block, mask): (&Block<'_>, &PacketMask),
    masks: &mut Vec<PacketMask>,
    selected: &mut Vec<(AnswerId, PacketMask)>,
) {
    masks.clear();
    let mut tree = trees.tree(root.node);
    while let Some(at) = tree.next() {
        let (Some(node), Some(Some(link))) = (trees.nodes.get(at), links.get_mut(at)) else { continue };
        // Each function that selects has left a mask for those after it.
        masks.truncate(node.selects as usize);
        let mask = masks.last().unwrap_or(mask);
        selected.extend(link.delivers().map(|id| (id, *mask)));
        if let Some(left) = link.block(block, mask) {
            if left == PacketMask::default() {
                tree.start += node.below as usize;
            }
            masks.push(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::select::Select;
    use crate::{ChecksumMode, Settings};
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use weir_api::{FunctionCall, Owner, Reading, Subscription, SubscriptionId, SubscriptionSpec};
    use weir_filter::Options;
    use weir_wire::{Batch, Layers, Slot};

    /// Subscriptions with these chains, in words.
    fn plan(before: Option<&Plan>, chains: &[(u32, &[&str])]) -> Plan {
        let call = |name: &&str| match *name {
            "where" => FunctionCall::new("where").with("expression", "greater 100"),
            name => FunctionCall::new(name),
        };
        let subscription = |(id, calls): &(u32, &[&str])| Subscription {
            id: SubscriptionId(*id),
            owner: Owner::Client(1),
            spec: Arc::new(SubscriptionSpec::new("line", "", calls.iter().map(call).collect())),
        };
        let settings = Settings {
            filter: Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let all: Vec<Subscription> = chains.iter().map(subscription).collect();
        let number = before.map_or(1, |before| before.number() + 1);
        Plan::of(before, number, "", &all, settings).unwrap()
    }

    /// Shows packets of these lengths.
    fn show_packets(functions: &mut Functions, plan: &Plan, lengths: &[u32]) {
        let slots: Vec<Slot> =
            lengths.iter().map(|wire_len| Slot { wire_len: *wire_len, ..Slot::default() }).collect();
        let layers = vec![Layers::default(); slots.len()];
        let block = Block::Packets(Batch { bytes: &[], slots: &slots }, &layers);
        for root in &plan.sources.packets {
            functions.packets(&plan.trees, *root, &block, &first(slots.len()));
        }
    }

    /// The number and the packets of each answer.
    fn packets(answers: &[Answer]) -> Vec<(u32, u16, u64)> {
        let packets = |reading: &Reading| match reading {
            Reading::Count(count) => count.packets,
            Reading::Classes { classes, .. } => classes.iter().map(|class| class.count.packets).sum(),
            other => panic!("{other:?}"),
        };
        answers.iter().map(|a| (a.id.subscription.0, a.id.place, packets(&a.reading))).collect()
    }

    /// Selects every item, and counts them.
    struct Counting(Arc<AtomicUsize>);

    impl Select for Counting {
        fn keeps(&self, _: &Item<'_>) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            true
        }
    }

    #[test]
    fn equal_chains_cost_one_evaluation_and_one_state() {
        let size: &[&str] = &["where", "size"];
        let equal: Vec<(u32, &[&str])> = (1..=50).map(|id| (id, size)).collect();
        let (one, many) = (plan(None, &equal[..1]), plan(None, &equal));
        assert_eq!((one.trees.nodes.len(), many.trees.nodes.len()), (2, 2));
        assert_eq!(many.sources.packets, [Root { at: 0, node: 0 }]);
        let state = crate::FunctionSpec::find("size").unwrap().memory(&FunctionCall::new("size")).unwrap();
        assert!(many.needs().contains(&"functions that several subscriptions share: 2".to_owned()));
        assert!(!one.needs().iter().any(|line| line.contains("share")));
        // Readings may wait beside the state.
        assert_eq!(many.trees.state, one.trees.state + 2 * state.reading);
        let mut functions = Functions::new(&many, Meter::new(None));
        let seen = Arc::new(AtomicUsize::new(0));
        functions.links[0] = Some(Link::Select(Arc::new(Counting(Arc::clone(&seen)))));
        show_packets(&mut functions, &many, &[60; 200]);
        assert_eq!(seen.load(Ordering::Relaxed), 200);
        let answers = functions.answers(&many);
        assert_eq!(answers.len(), 50);
        assert!(answers.iter().all(|answer| answer.reading == answers[0].reading));
    }

    #[test]
    fn chains_share_as_long_as_they_are_equal() {
        let plan = plan(
            None,
            &[
                (1, &["where", "size", "packets"]),
                (2, &["size"]),
                (3, &["where", "size"]),
                (4, &["where", "bytes"]),
            ],
        );
        // Where, size and packets, and bytes beside size; and size alone.
        let below: Vec<u32> = plan.trees.nodes.iter().map(|node| node.below).collect();
        let readers: Vec<u32> = plan.trees.nodes.iter().map(|node| node.readers).collect();
        assert_eq!((below, readers), (vec![3, 1, 0, 0, 0], vec![3, 2, 1, 1, 1]));
        let mut functions = Functions::new(&plan, Meter::new(None));
        show_packets(&mut functions, &plan, &[60, 100, 1500]);
        show_packets(&mut functions, &plan, &[60, 60]);
        let expected = [(1, 1, 2), (1, 2, 2), (2, 0, 5), (3, 1, 2), (4, 1, 2)];
        assert_eq!(packets(&functions.answers(&plan)), expected);
        assert_eq!(functions.answers(&plan), [], "nothing was seen since then");
        show_packets(&mut functions, &plan, &[60]);
        // Those after the function that selects have seen nothing.
        assert_eq!(packets(&functions.answers(&plan)), [(2, 0, 1)]);
    }

    #[test]
    fn those_that_share_lose_nothing_when_one_is_removed_and_another_joins() {
        let size: &[&str] = &["size"];
        let one = plan(None, &[(1, size), (2, size), (3, size)]);
        let two = plan(Some(&one), &[(4, size), (3, size), (2, size)]);
        let three = plan(Some(&two), &[(3, size), (4, size)]);
        assert_eq!([&one, &two, &three].map(|plan| plan.trees.nodes.len()), [1, 1, 1]);
        let mut functions = Functions::new(&one, Meter::new(None));
        show_packets(&mut functions, &one, &[60; 5]);
        let removed = functions.change(&one, &two);
        assert_eq!(packets(&removed), [(1, 0, 5)]);
        show_packets(&mut functions, &two, &[60; 7]);
        let removed = functions.change(&two, &three);
        assert_eq!(packets(&removed), [(2, 0, 12)]);
        show_packets(&mut functions, &three, &[60; 9]);
        assert_eq!(packets(&functions.answers(&three)), [(3, 0, 21), (4, 0, 16)]);
        assert_eq!(functions.answers(&three), []);
        show_packets(&mut functions, &three, &[60]);
        assert_eq!(packets(&functions.answers(&three)), [(3, 0, 1), (4, 0, 1)]);
    }

    /// However many join in one interval, each has what was shown since it joined, from one state and at most two readings
    /// that wait.
    #[test]
    fn equal_subscriptions_that_begin_one_after_the_other_are_one_function() {
        let chain: &[&str] = &["where", "size"];
        let all: Vec<(u32, &[&str])> = (1..=20).map(|id| (id, chain)).collect();
        let mut before = plan(None, &all[..1]);
        let mut functions = Functions::new(&before, Meter::new(None));
        let mut sums = BTreeMap::new();
        let mut add = |answers: Vec<Answer>| {
            packets(&answers).into_iter().for_each(|(id, _, count)| *sums.entry(id).or_insert(0) += count);
        };
        for joined in 2..=all.len() {
            show_packets(&mut functions, &before, &[1500; 10]);
            // Each third one leaves when the next comes.
            let present =
                all[..joined].iter().copied().filter(|(id, _)| id % 3 != 0 || *id as usize == joined);
            let plan = plan(Some(&before), &present.collect::<Vec<_>>());
            assert_eq!((plan.trees.nodes.len(), plan.sources.packets.len()), (2, 1));
            add(functions.change(&before, &plan));
            before = plan;
        }
        show_packets(&mut functions, &before, &[1500; 10]);
        add(functions.answers(&before));
        for id in 1..=20 {
            let until = if id % 3 == 0 { id + 1 } else { 21 };
            assert_eq!(sums[&id], u64::from(until - id) * 10, "subscription {id}");
        }
        assert_eq!(functions.answers(&before), []);
    }

    #[test]
    fn equal_functions_over_other_items_are_not_shared() {
        let named = |level, expression: &str, chart: Option<&str>, calls: &[&str]| SubscriptionSpec {
            level,
            chart: chart.map(str::to_owned),
            remainder: chart.is_some(),
            ..SubscriptionSpec::new(
                "line",
                expression,
                calls.iter().map(|name| FunctionCall::new(name)).collect(),
            )
        };
        use weir_api::Level::{Flow, Packet, Stream};
        // Tallies, tallies and packets by function, packets of expressions, remainders, and other levels.
        let specs = vec![
            named(Packet, "", None, &["top"]),
            named(Packet, "", None, &["top", "size"]),
            named(Packet, "tcp", None, &["top"]),
            named(Packet, " tcp ", None, &["top"]),
            named(Packet, "udp", None, &["top"]),
            named(Packet, "", Some("a"), &["top"]),
            named(Packet, "", Some("b"), &["top"]),
            named(Flow, "tcp", None, &["top"]),
            named(Stream, "tcp", None, &["top"]),
        ];
        let settings = Settings {
            filter: Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let plan = Plan::new("", specs, settings).unwrap();
        let readers: Vec<u32> = plan.trees.nodes.iter().map(|node| node.readers).collect();
        // Both of `top` see tallies, and both of the packets of an expression see these.
        assert_eq!(readers, [2, 1, 2, 1, 1, 1, 1, 1]);
        let roots = |roots: &[Root]| roots.iter().map(|root| (root.at, root.node)).collect::<Vec<_>>();
        assert_eq!(roots(&plan.sources.tallies), [(0, 0)]);
        // `size` of the second line, and the remainders.
        assert_eq!(roots(&plan.sources.packets), [(1, 1), (5, 4), (6, 5)]);
    }

    #[test]
    fn functions_that_do_not_depend_on_each_other_are_shared_wherever_they_stand() {
        let first = plan(None, &[(1, &["size", "top"]), (2, &["top", "size", "top"])]);
        // `top` stands twice in the second chain, and has two readings there.
        let readers: Vec<u32> = first.trees.nodes.iter().map(|node| node.readers).collect();
        assert_eq!(readers, [2, 2, 1]);
        let mut functions = Functions::new(&first, Meter::new(None));
        show_packets(&mut functions, &first, &[60; 3]);
        let counted = |answers: &[Answer]| {
            let size = answers.iter().filter(|answer| matches!(answer.reading, Reading::Classes { .. }));
            packets(&size.cloned().collect::<Vec<_>>())
        };
        let second = plan(Some(&first), &[(2, &["top", "size", "top"]), (3, &["size", "top"])]);
        assert_eq!(counted(&functions.change(&first, &second)), [(1, 0, 3)]);
        show_packets(&mut functions, &second, &[60; 4]);
        assert_eq!(counted(&functions.answers(&second)), [(2, 1, 7), (3, 0, 4)]);
    }
}
