//! A worker and its state. Workers share announcements of flows, and nothing else.

use crate::announced::Announcements;
use crate::chains::Functions;
use crate::checksum::ChecksumWatch;
use crate::decided::DecidedFlows;
use crate::expressions::Finder;
use crate::feeder::Feeder;
use crate::function::block::{Block, each, first};
use crate::meter::{Clock, Meter};
use crate::plan::{ItemSource, Selection, Sum};
use crate::sessions::{Found, Sessions};
use crate::sink::{Emitted, Sink};
use crate::tap::Tap;
use crate::uncommon::Uncommon;
use crate::watched::Judged;
use crate::{FlowRecord, Plan, RuleState, SessionConfig, SessionStats};
use std::net::Ipv6Addr;
use std::sync::Arc;
use weir_api::{
    Answer, AnswerId, Costs, Count, EventCount, FlowCount, Interval, Ledger, Outline, Reading, SessionCount,
    Snapshot,
};
use weir_filter::{PacketMask, Total, Totals};
use weir_flow::{FlowConfig, FlowSink, FlowStats, FlowTable};
use weir_wire::{Batch, Layers, Slot, Time, decode_batch, shows_its_key};

/// Packets that pass a stage together: few enough that their headers stay in the first-level cache, and enough that
/// the flow table's memory accesses overlap.
const BLOCK: usize = 256;

/// Clock readings in a measured block, apart from one for each subscription that sees packets: the beginning, the
/// run's expression, the sets of expressions, checksums, flows, and two around tallies that are shown meanwhile.
const READINGS_BESIDE: usize = 8;

/// Takes packets through the pass and returns a [`Snapshot`] at the end of each interval. The caller sets the interval and
/// the watched time of a snapshot; the worker sets only the times of its packets. Answers that hold nothing are left
/// out: [`Snapshot::fill`] adds them.
pub struct Worker {
    plan: Arc<Plan>,
    functions: Functions,
    /// The flow table, if flows are tracked.
    flows: Option<FlowTable>,
    /// Reads the payload of flows, if the plan asks for it.
    sessions: Option<Sessions>,
    session_config: SessionConfig,
    /// Announced flows that other workers may read.
    announcements: Announcements,
    rule_state: RuleState,
    /// Finds the packets of the shown expressions.
    shown: Finder,
    /// Counts of this interval.
    analysed: Count,
    stages: Stages,
    checksums: ChecksumWatch,
    /// The table's counts at the end of the previous interval.
    flows_before: FlowStats,
    /// Counts of sessions at the beginning of the interval.
    sessions_before: SessionCount,
    ledger: Ledger,
    /// Times of the earliest and the latest packet since the last snapshot.
    earliest: Time,
    latest: Time,
    /// Time of the latest packet of the run.
    latest_of_run: Time,
    buffers: Buffers,
    /// Readings of this interval that earlier plans made. Only its answers are used.
    aside: Option<Snapshot>,
}

/// The layers and the packets of the current block. Their memory is reused.
#[derive(Default)]
struct Buffers {
    layers: Vec<Layers>,
    /// The packets that match the run's expression, if it does not match all.
    kept: Vec<Slot>,
    kept_layers: Vec<Layers>,
    /// Accumulates the values read for prefetching, so that the compiler keeps the reads.
    touched: u8,
}

/// Reads the first lines of packets, which another worker may have in its caches: the processor waits for many lines at once,
/// and for one at a time where each packet is looked at.
fn touch(batch: Batch<'_>) -> u8 {
    let lines = |slot: &Slot| {
        let byte = |at: usize| batch.bytes.get(slot.offset as usize + at).copied().unwrap_or_default();
        byte(0) ^ byte(64)
    };
    batch.slots.iter().fold(0, |touched, slot| touched ^ lines(slot))
}

/// What was seen of the packets of a block.
#[derive(Default)]
struct Looked {
    /// A bit for each packet that its flow key describes fully.
    by_flow: PacketMask,
    /// A bit for each packet of each uncommon kind.
    uncommon: [PacketMask; Uncommon::KINDS],
}

/// An operation on the flow table between packets.
#[derive(Clone, Copy)]
enum Turn {
    /// A tick within an interval: only idle flows end.
    Idle(Time),
    /// An interval ends.
    Tick(Time),
    /// Time without packets has passed.
    Silence(Time),
    /// Packets of another interval follow, and no flow ends.
    RollUp,
    /// The run ends.
    Drain,
}

impl Turn {
    fn take(self, table: &mut FlowTable, sink: &mut impl FlowSink) {
        match self {
            Self::Idle(now) => table.tick(now, sink),
            Self::Tick(now) => {
                table.tick(now, sink);
                table.roll_up(sink);
            }
            Self::Silence(now) => {
                table.pass_to(now, sink);
                table.roll_up(sink);
            }
            Self::RollUp => table.roll_up(sink),
            Self::Drain => table.drain(sink),
        }
    }
}

/// The cost of the stages in the measured blocks.
#[derive(Default)]
struct Stages {
    expression: u64,
    shown: u64,
    checksums: u64,
    flows: u64,
}

impl Worker {
    /// A worker for `plan`, with empty state and the default memory for payload.
    pub fn new(plan: Arc<Plan>, flows: &FlowConfig) -> Self {
        Self::with(plan, flows, &SessionConfig::default())
    }

    /// A worker for `plan`, with empty state. Memory of fixed size is allocated here.
    pub fn with(plan: Arc<Plan>, flows: &FlowConfig, sessions: &SessionConfig) -> Self {
        let reads = plan.flows && plan.demand.reads();
        Self {
            functions: Functions::new(&plan, Meter::new(None)),
            flows: plan.flows.then(|| FlowTable::new(flows)),
            sessions: reads.then(|| Sessions::new(sessions, &plan.demand)),
            announcements: Announcements::default(),
            rule_state: RuleState::default(),
            session_config: sessions.clone(),
            shown: Finder::new(&plan.shown),
            analysed: Count::default(),
            stages: Stages::default(),
            checksums: ChecksumWatch::new(plan.settings.checksum),
            flows_before: FlowStats::default(),
            sessions_before: SessionCount::default(),
            ledger: Ledger::default(),
            earliest: Time(u64::MAX),
            latest: Time::default(),
            latest_of_run: Time::default(),
            buffers: Buffers::default(),
            aside: None,
            plan,
        }
    }

    /// Shares announcements of flows, and what rules remember beyond a flow, with the other workers of the run, before the first packet.
    pub fn share(&mut self, announcements: &Announcements, rules: &RuleState) {
        (self.announcements, self.rule_state) = (announcements.clone(), rules.clone());
        if let Some(sessions) = &mut self.sessions {
            sessions.share(announcements.clone(), rules.clone());
        }
    }

    /// Knows the flows that an earlier pass over the same packets has decided, before the first packet: each of their packets
    /// leaves when it is seen.
    pub fn know(&mut self, known: Arc<DecidedFlows>) {
        if let Some(sessions) = &mut self.sessions {
            sessions.know(known);
        }
    }

    /// Starts to measure the cost of the parts of the pass, with this clock.
    pub fn measure(&mut self, clock: Clock) {
        self.functions.meter = Meter::new(Some(clock));
    }

    /// Decodes packets and takes them through the pass. Results go to `sink`.
    pub fn batch(&mut self, batch: Batch<'_>, sink: &mut dyn Sink) {
        let mut layers = std::mem::take(&mut self.buffers.layers);
        let decodes = self.plan.needs_layers();
        for slots in batch.slots.chunks(BLOCK) {
            let block = Batch { bytes: batch.bytes, slots };
            if decodes {
                decode_batch(block, &mut layers);
            } else {
                layers.resize(block.len(), Layers::default());
            }
            self.block(block, &layers, sink);
        }
        self.buffers.layers = layers;
    }

    /// Looks at packets that the worker takes after those that it looked at before, and before the packet of number `end`: other
    /// workers need not wait for those that announce no flow.
    pub fn look_ahead(&mut self, batch: Batch<'_>, layers: &[Layers], end: u32) {
        self.buffers.touched ^= touch(batch);
        if let Some(sessions) = &mut self.sessions {
            sessions.look_ahead(batch, layers, end);
        }
    }

    /// Whether the worker has to look ahead again at all packets that it takes from now on, because a flow began to announce others.
    pub fn looks_again(&mut self) -> bool {
        self.sessions.as_mut().is_some_and(Sessions::looks_again)
    }

    /// Takes packets that are already decoded: `layers` has one entry for each packet of the batch, in order.
    pub fn decoded(&mut self, batch: Batch<'_>, layers: &[Layers], sink: &mut dyn Sink) {
        self.buffers.touched ^= touch(batch);
        for (slots, layers) in batch.slots.chunks(BLOCK).zip(layers.chunks(BLOCK)) {
            self.block(Batch { bytes: batch.bytes, slots }, layers, sink);
        }
    }

    fn block(&mut self, block: Batch<'_>, layers: &[Layers], sink: &mut dyn Sink) {
        let bytes = self.count_caught(block);
        self.functions.meter.block(block.len(), self.plan.sources.see_packets() + READINGS_BESIDE);
        if self.plan.takes_all() {
            self.analyse(block, layers, bytes, sink);
            return;
        }
        let plan = Arc::clone(&self.plan);
        let mut kept = std::mem::take(&mut self.buffers.kept);
        let mut kept_layers = std::mem::take(&mut self.buffers.kept_layers);
        kept.clear();
        kept_layers.clear();
        for (slot, layers) in block.slots.iter().zip(layers) {
            if plan.takes(&block.packet(slot), layers) {
                kept.push(*slot);
                kept_layers.push(*layers);
            }
        }
        self.ledger.filtered += (block.len() - kept.len()) as u64;
        self.stages.expression += self.functions.meter.lap();
        let bytes = kept.iter().map(|slot| u64::from(slot.wire_len)).sum();
        self.analyse(Batch { bytes: block.bytes, slots: &kept }, &kept_layers, bytes, sink);
        self.buffers.kept = kept;
        self.buffers.kept_layers = kept_layers;
    }

    /// Counts a block as caught. Returns its bytes on the wire.
    fn count_caught(&mut self, block: Batch<'_>) -> u64 {
        let (mut bytes, mut captured) = (0, 0);
        let (mut earliest, mut latest) = (self.earliest, self.latest);
        for slot in block.slots {
            bytes += u64::from(slot.wire_len);
            captured += u64::from(slot.len);
            latest = latest.max(slot.time);
            earliest = earliest.min(slot.time);
        }
        (self.earliest, self.latest) = (earliest, latest);
        self.latest_of_run = self.latest_of_run.max(latest);
        self.ledger.caught += block.len() as u64;
        self.ledger.bytes += bytes;
        self.ledger.captured_bytes += captured;
        bytes
    }

    /// Takes a block through functions and flows. `bytes` are its bytes on the wire.
    fn analyse(&mut self, block: Batch<'_>, layers: &[Layers], bytes: u64, sink: &mut dyn Sink) {
        self.ledger.analysed += block.len() as u64;
        sink.take(Emitted::Matching(block));
        self.analysed.packets += block.len() as u64;
        self.analysed.bytes += bytes;
        // Not decoded when no stage needs the layers.
        let found = self.plan.needs_layers().then_some(layers);
        let Looked { by_flow, uncommon } =
            found.map(|layers| self.look_at(block, layers)).unwrap_or_default();
        self.count(block, found, &by_flow);
        self.show(block, layers);
        self.show_uncommon(block, layers, &uncommon);
        self.functions.deliver(block, &self.plan.whole.matching, sink);
        self.checksums.look(block, layers, &mut self.ledger);
        self.stages.checksums += self.functions.meter.lap();
        let mut flowed = 0;
        if let Some(table) = &mut self.flows {
            let before = table.stats().packets;
            let (plan, functions) = (&*self.plan, &mut self.functions);
            let in_tallies = match &mut self.sessions {
                Some(sessions) => {
                    let mut feeder = Feeder::reading(plan, functions, sink, sessions);
                    feeder.count(block, layers, &by_flow, table);
                    feeder.spent
                }
                None => {
                    let mut feeder = Feeder::new(plan, functions, sink);
                    table.batch_known(block, layers, &by_flow, &mut feeder);
                    feeder.spent
                }
            };
            flowed = table.stats().packets - before;
            self.stages.flows += self.functions.meter.lap().saturating_sub(in_tallies);
        }
        self.ledger.flowed += flowed;
        self.ledger.unflowed += block.len() as u64 - flowed;
    }

    /// Sets whether the checksums of every packet are verified in place of a sample: at the beginning of a run, so
    /// that a small capture is judged by all of its packets.
    pub fn look_closely(&mut self, closely: bool) {
        self.checksums.closely = closely;
    }

    /// Counts decoding errors, and finds the packets that are not plain IP packets.
    fn look_at(&mut self, block: Batch<'_>, layers: &[Layers]) -> Looked {
        let mut looked = Looked::default();
        for (layers, by_flow) in layers.chunks(64).zip(&mut looked.by_flow) {
            *by_flow = Layers::common_ones(layers);
        }
        // Common packets have no error, and are of no uncommon kind.
        let mut others = first(block.len());
        others.iter_mut().zip(&looked.by_flow).for_each(|(others, common)| *others &= !common);
        each(layers, &others, |at, layers| {
            let set = |mask: &mut PacketMask, bit: bool| {
                mask.get_mut(at / 64).into_iter().for_each(|word| *word |= u64::from(bit) << (at % 64));
            };
            let is_regular = block.get(at).is_some_and(|packet| shows_its_key(&packet, layers));
            set(&mut looked.by_flow, is_regular);
            for (kind, mask) in Uncommon::ALL.iter().zip(&mut looked.uncommon) {
                set(mask, kind.is(layers));
            }
            if let Some(error) = layers.error {
                self.ledger.errors.0[error.layer as usize][error.kind as usize] += 1;
            }
        });
        looked
    }

    /// Counts the packets of the block that flows do not count, for the expressions that need only sums.
    fn count(&mut self, block: Batch<'_>, layers: Option<&[Layers]>, by_flow: &[u64]) {
        if self.plan.counted.is_empty() {
            return;
        }
        match layers.filter(|_| self.plan.counts_by_flow()) {
            Some(layers) => self.functions.counted.packets_outside_flows(block, layers, by_flow),
            None => self.functions.counted.packets(block, layers),
        }
        self.functions.counted_cost.in_blocks += self.functions.meter.lap();
    }

    /// Shows the block to the subscriptions of packets, one tree after the other.
    fn show(&mut self, block: Batch<'_>, layers: &[Layers]) {
        let Plan { shown, trees, sources, subscriptions, .. } = &*self.plan;
        if !shown.is_empty() {
            self.shown.look(block, layers);
            self.stages.shown += self.functions.meter.lap();
        }
        let all = first(block.len());
        let packets = Block::Packets(block, layers);
        for root in &sources.packets {
            let mask = match subscriptions.get(root.at).map(|planned| &planned.source) {
                Some(ItemSource::Packets(Selection::Remainder(lines))) => self.shown.remainder(lines, &all),
                _ => all,
            };
            self.functions.packets(trees, *root, &packets, &mask);
        }
        if shown.is_empty() {
            return;
        }
        // Subscriptions without a matching packet are not visited.
        for (expression, mask) in self.shown.matching() {
            for root in sources.of_expression(expression) {
                self.functions.packets(trees, root, &packets, mask);
            }
        }
    }

    /// Shows the packets of uncommon kinds to their subscriptions, the errors among them to those of sums of flows, and the questions
    /// to those of flows.
    fn show_uncommon(&mut self, block: Batch<'_>, layers: &[Layers], masks: &[PacketMask]) {
        let Plan { trees, sources, .. } = &*self.plan;
        for (mask, roots) in masks.iter().zip(&sources.uncommon) {
            if *mask == PacketMask::default() {
                continue;
            }
            for root in roots {
                self.functions.packets(trees, *root, &Block::Packets(block, layers), mask);
            }
        }
        let errors = masks.get(Uncommon::IcmpErrors as usize);
        if let Some(errors) = errors.filter(|mask| **mask != PacketMask::default()) {
            self.functions.errors(&self.plan, block, layers, errors);
        }
        let questions = masks.get(Uncommon::Questions as usize).filter(|_| self.plan.asks);
        if let Some(questions) = questions.filter(|mask| **mask != PacketMask::default()) {
            self.functions.questions(&self.plan, block, layers, questions);
        }
    }

    /// Ends an interval at `now`: idle flows end, and every function returns its reading.
    pub fn tick(&mut self, now: Time, sink: &mut dyn Sink) -> Snapshot {
        self.advance(Turn::Tick(now), now, sink);
        self.snapshot()
    }

    /// The first interval of `length` nanoseconds in a watched silence in which a flow or a tunnel ends, or fragments are given up. A
    /// timer at `t` belongs to the interval with `start <= t < end`; one that is overdue, to the first interval.
    pub fn next_due(&self, silence: Interval, length: u64) -> Option<Interval> {
        let due = self.flows.as_ref().and_then(FlowTable::next_due)?;
        let start = due.0.max(silence.start) / length * length;
        let has_begun = due.0.max(silence.start) < silence.end;
        has_begun.then_some(Interval { start, end: start.saturating_add(length) })
    }

    /// Lets an interval in a watched silence pass: what was due before its end ends, and every function returns its reading.
    pub fn pass_silence(&mut self, interval: Interval, sink: &mut dyn Sink) -> Snapshot {
        let now = Time(interval.end);
        self.advance(Turn::Silence(now), now, sink);
        Snapshot { interval, watched: Some(interval), ..self.snapshot() }
    }

    /// Ends the flows and samples that are over at `now`, within an interval. Every worker of a run must do so at the
    /// same times.
    pub fn end_idle(&mut self, now: Time, sink: &mut dyn Sink) {
        self.advance(Turn::Idle(now), now, sink);
    }

    fn advance(&mut self, turn: Turn, now: Time, sink: &mut dyn Sink) {
        self.with_table(sink, turn);
        if let Some(sessions) = &mut self.sessions {
            let mut tap = Tap { plan: &self.plan, functions: &mut self.functions, sink };
            sessions.tick(now, &mut tap);
        }
    }

    /// Returns every function's reading without ending idle flows: packets of another interval follow before this interval
    /// has ended.
    pub fn hand_over(&mut self, sink: &mut dyn Sink) -> Snapshot {
        self.with_table(sink, Turn::RollUp);
        self.snapshot()
    }

    /// Runs an operation on the flow table, if there is one, and shows its results to the functions.
    fn with_table(&mut self, sink: &mut dyn Sink, turn: Turn) {
        let Some(table) = &mut self.flows else { return };
        let (plan, functions) = (&*self.plan, &mut self.functions);
        functions.meter.end_block();
        match &mut self.sessions {
            Some(sessions) => {
                let mut feeder = Feeder::reading(plan, functions, sink, sessions);
                turn.take(table, &mut feeder);
                feeder.flush();
            }
            None => {
                let mut feeder = Feeder::new(plan, functions, sink);
                turn.take(table, &mut feeder);
                feeder.flush();
            }
        }
    }

    /// Emits the record so far of each open flow that had a packet at `since` or later. The flows continue.
    pub fn emit_open(&mut self, since: Time, sink: &mut dyn Sink) {
        let Some(table) = &mut self.flows else { return };
        let sessions = self.sessions.as_ref();
        table.open(since, |row, record| {
            let Found { services, judged: Judged { alerted, verdict }, .. } =
                sessions.map(|sessions| sessions.found(row)).unwrap_or_default();
            sink.take(Emitted::Open(&FlowRecord { services, alerted, verdict, ..*record }));
        });
    }

    /// Bytes of memory that sessions, streams and fragments take.
    pub fn sessions_memory(&self) -> usize {
        self.sessions.as_ref().map_or(0, Sessions::memory)
    }

    /// Counts of sessions since payload is read.
    pub fn sessions(&self) -> Option<SessionStats> {
        self.sessions.as_ref().map(Sessions::stats)
    }

    /// Switches to another plan, between any two packets: packets so far belong to the old plan and later ones to the
    /// new plan. A subscription that both plans have keeps its state. What the others hold is in the next snapshot.
    /// Flows continue.
    pub fn change_plan(&mut self, plan: Arc<Plan>, sink: &mut dyn Sink) {
        if Arc::ptr_eq(&plan, &self.plan) {
            return;
        }
        // What flows have not delivered yet belongs to the functions of the old plan.
        self.with_table(sink, Turn::RollUp);
        let mut sums = Vec::new();
        self.take_sums(&mut sums);
        let removed = self.functions.change(&self.plan, &plan);
        let mut answers: Vec<Answer> = sums.into_iter().chain(removed).collect();
        answers.sort_by_key(|answer| answer.id);
        let aside = self.aside.get_or_insert_default();
        aside.merge(&Snapshot { answers, ..Snapshot::default() });
        self.shown.change(&plan.shown);
        self.demand(&plan, sink);
        self.plan = plan;
    }

    /// Changes what is read of payload. Flows that have begun are read as they were.
    fn demand(&mut self, plan: &Plan, sink: &mut dyn Sink) {
        let demand = &plan.demand;
        match &mut self.sessions {
            Some(sessions) => sessions.demand(demand, self.latest_of_run, sink),
            None if plan.flows && demand.reads() => {
                let mut sessions = Sessions::new(&self.session_config, demand);
                // The beginnings of these flows were not read.
                sessions.pass_over(self.latest_of_run);
                sessions.share(self.announcements.clone(), self.rule_state.clone());
                self.sessions = Some(sessions);
            }
            None => {}
        }
    }

    /// What was counted since the last readings for the functions whose counts of packets are compared with a threshold. They go on.
    pub fn so_far(&self) -> Vec<(AnswerId, Count)> {
        let mut counts = Vec::new();
        for at in &self.plan.sources.judged {
            self.functions.so_far(&self.plan, *at, &mut counts);
        }
        counts
    }

    /// Number of packets that were caught since the last readings.
    pub fn caught(&self) -> u64 {
        self.ledger.caught
    }

    /// Whether counts of packets are compared with a threshold.
    pub fn has_judged_counts(&self) -> bool {
        !self.plan.sources.judged.is_empty()
    }

    /// The answers of the present plan.
    pub fn outline(&self) -> &Arc<Outline> {
        &self.plan.outline
    }

    /// Ends the run and every flow, and returns the last readings.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Snapshot {
        self.with_table(sink, Turn::Drain);
        if let Some(sessions) = &mut self.sessions {
            sessions.finish();
        }
        self.snapshot()
    }

    /// The readings of the interval that are not empty, ordered by [`Answer::id`].
    fn answers(&mut self) -> Vec<Answer> {
        let mut answers = self.functions.answers(&self.plan);
        self.take_sums(&mut answers);
        answers.sort_by_key(|answer| answer.id);
        self.leave_out_empty(&mut answers);
        answers
    }

    /// Takes the counts of the subscriptions that need only sums.
    fn take_sums(&mut self, answers: &mut Vec<Answer>) {
        let analysed = std::mem::take(&mut self.analysed);
        let totals = self.functions.counted.take();
        for (at, sum) in &self.plan.sources.sums {
            let count = count_of(*sum, &totals, analysed);
            if let Some(planned) = self.plan.subscriptions.get(*at).filter(|_| count != Count::default()) {
                answers.extend(planned.answers(std::iter::repeat(Reading::Count(count)), 0));
            }
        }
    }

    /// Removes the answers that hold nothing. [`Snapshot::fill`] adds them from the plan's outline.
    fn leave_out_empty(&self, answers: &mut Vec<Answer>) {
        let mut empty = self.plan.outline.answers().peekable();
        answers.retain(|answer| {
            while empty.next_if(|(id, _)| *id < answer.id).is_some() {}
            let is_empty = empty
                .peek()
                .is_some_and(|(id, empty)| *id == answer.id && empty.reading.holds_equal(&answer.reading));
            !is_empty || answer.nanoseconds > 0
        });
    }

    fn take_costs(&mut self) -> Costs {
        let Stages { expression, shown, checksums, flows } = std::mem::take(&mut self.stages);
        let counted = std::mem::take(&mut self.functions.counted_cost);
        let meter = &mut self.functions.meter;
        let scaled = |nanoseconds| meter.scaled(nanoseconds);
        let costs = Costs {
            expression: scaled(expression),
            counted: counted.of(meter),
            shown: scaled(shown),
            checksums: scaled(checksums),
            flows: scaled(flows),
        };
        meter.restart();
        costs
    }

    fn snapshot(&mut self) -> Snapshot {
        let earliest = std::mem::replace(&mut self.earliest, Time(u64::MAX));
        let latest = std::mem::take(&mut self.latest);
        let answers = self.answers();
        let sessions_now =
            self.sessions().map_or_else(SessionCount::default, |stats| SessionCount::from(&stats));
        let costs = self.take_costs();
        let stats = self.flows.as_ref().map(FlowTable::stats).unwrap_or_default();
        let before = std::mem::replace(&mut self.flows_before, stats);
        let mut snapshot = Snapshot {
            interval: Interval::default(),
            watched: None,
            packets: (earliest <= latest).then_some(Interval { start: earliest.0, end: latest.0 }),
            ledger: std::mem::take(&mut self.ledger),
            flows: FlowCount {
                created: stats.created - before.created,
                ended: stats.ended - before.ended,
                followed: stats.followed - before.followed,
                closed_shed: stats.closed_shed - before.closed_shed,
                evicted: stats.evicted - before.evicted,
                fragments_joined: stats.fragments_joined - before.fragments_joined,
                fragments_unmatched: stats.fragments_unmatched - before.fragments_unmatched,
                fragments_shed: stats.fragments_shed - before.fragments_shed,
                holes_shed: stats.holes_shed - before.holes_shed,
            },
            sessions: sessions_now.since(&std::mem::replace(&mut self.sessions_before, sessions_now)),
            offloaders: self
                .checksums
                .take_senders()
                .into_iter()
                .map(|sender| Ipv6Addr::from(sender).to_canonical())
                .collect(),
            costs,
            answers,
            outline: Arc::clone(&self.plan.outline),
            events: Vec::new(),
            event_count: EventCount::default(),
            senders: self.checksums.take_evidence(),
        };
        if let Some(aside) = self.aside.take() {
            snapshot.merge(&aside);
        }
        snapshot
    }
}

fn count_of(sum: Sum, totals: &Totals, all: Count) -> Count {
    let of = |totals: &[Total], at: u32| {
        let Total { packets, bytes } = totals.get(at as usize).copied().unwrap_or_default();
        Count { packets, bytes }
    };
    match sum {
        Sum::All => all,
        Sum::Matching(at) => of(&totals.expressions, at),
        Sum::Remainder(at) => of(&totals.remainders, at),
    }
}

#[cfg(test)]
mod tests {
    use weir_api::CONN_STATES;
    use weir_flow::ConnState;

    #[test]
    fn states_are_counted_by_name() {
        use ConnState::{Oth, Rej, RstO, RstOS0, RstR, RstRH, S0, S1, S2, S3, SF, SH, ShR};
        for state in [S0, S1, S2, S3, SF, Rej, RstO, RstR, RstOS0, RstRH, SH, ShR, Oth] {
            assert_eq!(CONN_STATES[state as usize], state.name());
        }
    }
}
