//! A subscription, compiled as far as it depends on itself alone, so that the next plan takes it over.

use crate::demand::{Demand, ReadColumns, Tables};
use crate::function::select::Select;
use crate::function::{apps, event, record_fields, record_tables, watch};
use crate::settings::{PlanError, Seeds, Settings};
use crate::streams::DELAYS;
use crate::uncommon::Uncommon;
use crate::{
    Block, Delivery, Function, FunctionSpec, InputKind, Item, Memory, OwnApps, Rules, Selector, Supplement,
    Target,
};
use std::sync::Arc;
use weir_api::{
    Answer, AnswerId, AnswerLabel, Count, FunctionCall, Level, Reading, Subscription, SubscriptionId,
    SubscriptionSpec,
};
use weir_filter::{FlowTest, Options, PacketMask, RecordTest};
use weir_proto::{Columns, FILES, REQUESTED, STREAM, Table};

/// The functions and tests of a subscription. A subscription never changes, so that plans with equal settings share it.
pub(crate) struct Compiled {
    /// The number of the subscription.
    id: SubscriptionId,
    /// The functions that measure and those that select, each with its place in the chain.
    calls: Vec<(u16, Call)>,
    /// Where packets or files leave to by functions that deliver without measuring, each with its place in the chain.
    deliveries: Vec<(u16, Target)>,
    /// Whether the functions see what parsers emit before records.
    pub is_early: bool,
    /// What the functions need besides packets and flows, if anything.
    pub demand: Option<Demand>,
    /// The flows that are identified or parsed for it.
    pub reads: Reads,
    /// Whether it may see records of flows that others announce, or needs the names of their protocols.
    pub is_announced: bool,
    /// The flows that it covers, at stream and flow level.
    pub flow_test: Option<FlowTest>,
    /// The records that it covers, at record level.
    pub record_test: Option<RecordTest>,
    /// The answers without packets.
    pub empty: Vec<Arc<Answer>>,
}

/// The flows that have to be identified or parsed for a subscription.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reads {
    /// None.
    Nothing,
    /// Those for whose key a test holds.
    Of(FlowTest),
    /// All.
    All,
}

impl Reads {
    /// The flows of a subscription at a level with this demand. `is_early`: functions see what parsers have before records.
    fn new(
        level: Level,
        demand: &Demand,
        is_early: bool,
        flow_test: Option<&FlowTest>,
        record_test: Option<&RecordTest>,
    ) -> Self {
        if !demand.parses() && !demand.identifies {
            return Self::Nothing;
        }
        let test = match level {
            Level::Record if !is_early => record_test.map(RecordTest::possible),
            Level::Flow => flow_test.map(FlowTest::possible),
            _ => None,
        };
        test.filter(|test| !test.is_always()).map_or(Self::All, Self::Of)
    }
}

/// A function of a chain, compiled.
enum Call {
    /// It measures, and delivers if it has a target.
    Measure(&'static FunctionSpec, Memory, Option<Target>),
    /// It measures what is in a list, and passes on nothing else.
    Watch(&'static FunctionSpec, Memory, Arc<watch::List>),
    /// It measures applications, of which users describe some.
    Apps(&'static FunctionSpec, Memory, Arc<OwnApps>),
    Select(Arc<dyn Select>),
}

impl Call {
    /// The description of a function that measures.
    fn measures(&self) -> Option<&'static FunctionSpec> {
        match self {
            Call::Measure(function, ..) | Call::Watch(function, ..) | Call::Apps(function, ..) => {
                Some(function)
            }
            Call::Select(_) => None,
        }
    }

    /// The function, if it selects.
    fn selects(&self) -> Option<&dyn Select> {
        match self {
            Call::Measure(..) | Call::Watch(..) | Call::Apps(..) => None,
            Call::Select(selector) => Some(&**selector),
        }
    }
}

/// Whether a function sees questions beside flows.
fn asks(function: &FunctionSpec) -> bool {
    function.input == InputKind::Uncommon(Uncommon::Questions)
}

/// A function of a chain, with its state in a worker.
pub(crate) enum Link {
    Measure(Measure),
    Select(Arc<dyn Select>),
}

/// Maximum number of readings that wait for the end of the interval beside the state of a function.
pub(crate) const MAX_PARTS: usize = 2;

/// A function that measures.
pub(crate) struct Measure {
    function: Box<dyn Function>,
    /// Whether it was shown anything since the last reading.
    has_seen: bool,
    /// What was taken before the end of the interval, oldest first, because a subscription began or was removed.
    parts: Vec<Reading>,
    /// The subscriptions that began in this interval, each with the number of `parts` that are from before its time.
    joined: Vec<(SubscriptionId, usize)>,
    /// The number of its answer, if it delivers.
    delivers: Option<AnswerId>,
    /// Whether it sees questions beside flows.
    asks: bool,
}

/// The readings of an interval of a function.
pub(crate) struct Readings {
    /// That of the whole interval, and those of it without the first parts.
    from: Vec<Reading>,
    joined: Vec<(SubscriptionId, usize)>,
}

impl Readings {
    /// The reading of a subscription.
    pub fn of(&self, id: SubscriptionId) -> Option<&Reading> {
        self.from.get(skipped(&self.joined, id))
    }
}

/// The number of parts that are from before a subscription.
fn skipped(joined: &[(SubscriptionId, usize)], id: SubscriptionId) -> usize {
    joined.iter().find(|(of, _)| *of == id).map_or(0, |(_, parts)| *parts)
}

impl Measure {
    fn new(function: Box<dyn Function>, delivers: Option<AnswerId>) -> Self {
        Self { function, has_seen: false, parts: Vec::new(), joined: Vec::new(), delivers, asks: false }
    }

    /// Whether its reading may hold something. A function that has seen nothing, or nothing that it counts, gives its reading
    /// without packets.
    pub fn may_hold(&self) -> bool {
        self.holds() || !self.parts.is_empty()
    }

    /// Whether what it was shown since the last reading may be in the next one.
    fn holds(&self) -> bool {
        self.has_seen && !self.function.is_empty()
    }

    /// The reading of the interval for the only subscription.
    pub fn take_only(&mut self, id: SubscriptionId) -> Option<Reading> {
        if self.parts.is_empty() {
            self.has_seen = false;
            return Some(self.function.take());
        }
        let Readings { mut from, joined } = self.take();
        let at = skipped(&joined, id);
        (at < from.len()).then(|| from.swap_remove(at))
    }

    /// What it has counted for a subscription since the last reading; `None` if its reading is no count.
    pub fn so_far(&self, id: SubscriptionId) -> Option<Count> {
        let mut sum = self.function.so_far()?;
        for part in self.parts.iter().skip(skipped(&self.joined, id)) {
            if let Reading::Count(count) = part {
                sum.add(count);
            }
        }
        Some(sum)
    }

    /// The readings of the interval.
    pub fn take(&mut self) -> Readings {
        self.has_seen = false;
        let mut from = vec![self.function.take()];
        for mut part in self.parts.drain(..).rev() {
            if let Some(later) = from.last() {
                part.merge(later);
            }
            from.push(part);
        }
        from.reverse();
        Readings { from, joined: std::mem::take(&mut self.joined) }
    }

    /// The reading of a subscription that is removed. The others go on.
    pub fn leave(&mut self, id: SubscriptionId) -> Reading {
        self.part();
        let mine = self.parts.iter().skip(skipped(&self.joined, id));
        self.joined.retain(|(of, _)| *of != id);
        let merged = mine.cloned().reduce(|mut sum, part| {
            sum.merge(&part);
            sum
        });
        // Nothing was shown since the last part.
        merged.unwrap_or_else(|| self.function.take())
    }

    /// Takes in a subscription that begins.
    pub fn join(&mut self, id: SubscriptionId) {
        self.part();
        if !self.parts.is_empty() {
            self.joined.push((id, self.parts.len()));
        }
    }

    /// Whether there is room for the part before a subscription that begins.
    pub fn has_room(&self) -> bool {
        // One more part may follow, when a subscription is removed.
        self.parts.len() + usize::from(self.holds() && self.is_at_join()) < MAX_PARTS
    }

    /// Whether a subscription began after the last part.
    fn is_at_join(&self) -> bool {
        self.joined.iter().any(|(_, parts)| *parts == self.parts.len())
    }

    /// Ends a part of the interval. It is joined to the part before if no subscription begins between them.
    fn part(&mut self) {
        let holds = self.holds();
        self.has_seen = false;
        if !holds {
            return;
        }
        let reading = self.function.take();
        let begins_here = self.is_at_join();
        match self.parts.last_mut() {
            Some(last) if !begins_here => last.merge(&reading),
            _ => self.parts.push(reading),
        }
    }
}

impl Link {
    /// Shows it an item. Returns whether the functions after it see the item.
    pub fn item(&mut self, item: &Item<'_>) -> bool {
        match self {
            Link::Measure(measure) => {
                measure.has_seen = true;
                measure.function.passes(item)
            }
            Link::Select(selector) => selector.keeps(item),
        }
    }

    /// Shows it a question, if it sees questions. Returns whether the functions after it see the item.
    pub fn question(&mut self, item: &Item<'_>) -> bool {
        match self {
            Link::Measure(measure) if !measure.asks => true,
            _ => self.item(item),
        }
    }

    /// Shows it the items of a mask. Returns the items that a function that selects leaves.
    pub fn block(&mut self, block: &Block<'_>, mask: &PacketMask) -> Option<PacketMask> {
        match self {
            Link::Measure(measure) => {
                measure.has_seen = true;
                measure.function.block(block, mask);
                None
            }
            Link::Select(selector) => {
                let mut left = *mask;
                selector.block(block, &mut left);
                Some(left)
            }
        }
    }

    /// The number of its answer, if it delivers what it sees.
    pub fn delivers(&self) -> Option<AnswerId> {
        match self {
            Link::Measure(measure) => measure.delivers,
            Link::Select(_) => None,
        }
    }

    /// Whether it measures, and its reading may hold something.
    pub fn may_hold(&self) -> bool {
        matches!(self, Link::Measure(measure) if measure.may_hold())
    }

    /// The function, if it measures.
    pub fn measure(&mut self) -> Option<&mut Measure> {
        match self {
            Link::Measure(measure) => Some(measure),
            Link::Select(_) => None,
        }
    }
}

impl Compiled {
    /// Compiles a subscription.
    ///
    /// # Errors
    /// A function, an argument or the expression is invalid.
    pub fn new(one: &Subscription, settings: &Settings) -> Result<Self, PlanError> {
        let Subscription { id, owner, spec } = one;
        let wrong = |error: String| PlanError::Function { name: spec.name.clone(), error };
        let Chain { calls, deliveries, mut demand, readings } = Chain::new(spec, settings).map_err(wrong)?;
        if spec.level != Level::Packet && spec.remainder {
            return Err(wrong("a remainder needs level = \"packet\"".to_owned()));
        }
        let no_expression = |error| PlanError::Subscription { name: spec.name.clone(), error };
        let expression = spec.expression.trim();
        let flow_test = match spec.level {
            Level::Stream if !expression.is_empty() && !calls.is_empty() => {
                Some(FlowTest::of_key(expression, &settings.filter).map_err(no_expression)?)
            }
            Level::Flow if !expression.is_empty() && !calls.is_empty() => {
                Some(FlowTest::of_ended(expression, &settings.filter).map_err(no_expression)?)
            }
            _ => None,
        };
        let record_test = match spec.level {
            Level::Record if !calls.is_empty() => {
                Some(RecordTest::compile(expression, &settings.filter).map_err(no_expression)?)
            }
            _ => None,
        };
        let early =
            calls.iter().filter_map(|(_, call)| call.selects()).filter_map(|selector| selector.demand());
        let early: Vec<Demand> = early.collect();
        early.iter().for_each(|one| demand.add(one));
        let is_early = !early.is_empty();
        demand.streams |= spec.level == Level::Stream && !calls.is_empty() && !is_early;
        let extracts =
            calls.iter().any(|(_, call)| matches!(call, Call::Measure(_, _, Some(Target::Files(_)))));
        if let Some(test) = record_test.as_ref().filter(|_| extracts)
            && !tested(test, &calls, &spec.functions).has(&FILES)
        {
            let text =
                "`extract` needs records of files, such as where = 'files.mime_type contains \"dosexec\"'";
            return Err(wrong(text.to_owned()));
        }
        if let Some(test) = &record_test {
            let delays = sees_only_delays(expression, settings, &calls, &spec.functions);
            let requested = requested(&calls, &spec.functions);
            let tested = match tested(test, &calls, &spec.functions) {
                Tables::Some(tables) if tables.is_empty() && !requested.is_empty() => Tables::None,
                tables => tables,
            };
            let mut of_test = Demand { requested, ..Demand::of_tested(tested, delays) };
            of_test.columns = read_columns(test, &of_test.tested, &calls, &spec.functions);
            demand.add(&of_test);
        }
        let reads = Reads::new(spec.level, &demand, is_early, flow_test.as_ref(), record_test.as_ref());
        let is_announced = demand.identifies || demand.may_be_announced();
        let demand = (demand != Demand::default()).then_some(demand);
        let mut compiled = Self {
            id: *id,
            calls,
            deliveries,
            is_early,
            demand,
            reads,
            is_announced,
            flow_test,
            record_test,
            empty: Vec::new(),
        };
        // The reading of what needs only sums is a count, whatever the function gives.
        let is_sum = spec.level == Level::Packet && compiled.takes(InputKind::Sums);
        let empty = readings.into_iter().map(|ChainReading { place, function, reading, judges }| Answer {
            id: AnswerId { subscription: *id, place },
            label: Arc::new(AnswerLabel {
                subscription: spec.name.clone(),
                chart: spec.chart.clone(),
                function: function.to_owned(),
                interval: spec.interval,
                outputs: spec.outputs.clone(),
                owner: *owner,
                judges,
            }),
            reading: if is_sum { Reading::Count(Count::default()) } else { reading },
            nanoseconds: 0,
        });
        compiled.empty = empty.map(Arc::new).collect();
        Ok(compiled)
    }

    /// Whether no function measures.
    pub fn only_hands_on(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether all functions measure, and have this input.
    pub fn takes(&self, input: InputKind) -> bool {
        self.input() == Some(input)
    }

    /// The input of all functions, if all measure and have one in common.
    pub fn input(&self) -> Option<InputKind> {
        let mut inputs = self.calls.iter().map(|(_, call)| Some(call.measures()?.input));
        let first = inputs.next()??;
        inputs.all(|input| input == Some(first)).then_some(first)
    }

    /// The inputs of the functions of a chain at packet level, if none of them depends on those before it; `None` if one selects or
    /// delivers.
    pub fn inputs(&self) -> Option<impl Iterator<Item = InputKind>> {
        let input = |(_, call): &(u16, Call)| match call {
            Call::Measure(function, _, None) | Call::Apps(function, ..) => Some(function.input),
            Call::Measure(..) | Call::Watch(..) | Call::Select(_) => None,
        };
        let inputs: Option<Vec<InputKind>> = self.calls.iter().map(input).collect();
        inputs.map(Vec::into_iter)
    }

    /// Whether a function sees questions beside flows.
    pub fn asks(&self) -> bool {
        self.calls.iter().any(|(_, call)| call.measures().is_some_and(asks))
    }

    /// Whether the counts of its functions are compared with a threshold.
    pub fn is_judged(&self) -> bool {
        self.empty.iter().any(|answer| !answer.label.judges.is_empty())
    }

    /// Whether a function reads the layers of packets.
    pub fn reads_layers(&self) -> bool {
        self.calls.iter().any(|(_, call)| match call {
            Call::Measure(function, ..) => !matches!(function.input, InputKind::Lengths | InputKind::Sums),
            Call::Watch(..) | Call::Apps(..) | Call::Select(_) => true,
        })
    }

    /// The places of the functions that measure and those that select, in order, each with whether subscriptions share it. Equal
    /// calls may have other lists of watched addresses, if a file changed between them.
    pub fn places(&self) -> impl Iterator<Item = (u16, bool)> {
        let is_shared = |call: &Call| !matches!(call, Call::Measure(_, _, Some(_)) | Call::Watch(..));
        self.calls.iter().map(move |(place, call)| (*place, is_shared(call)))
    }

    /// The position among the functions that measure of one of the functions that measure or select.
    pub fn measure_at(&self, call: usize) -> Option<usize> {
        let measures = |(_, call): &&(u16, Call)| call.measures().is_some();
        self.calls.get(call).filter(measures)?;
        Some(self.calls.iter().take(call).filter(measures).count())
    }

    /// The functions that deliver, by the numbers of their answers.
    pub fn targets(&self) -> impl Iterator<Item = (AnswerId, &Target)> {
        let of_calls = self.calls.iter().filter_map(|(place, call)| match call {
            Call::Measure(_, _, Some(target)) => Some((self.answer(*place), target)),
            _ => None,
        });
        of_calls.chain(self.deliveries())
    }

    /// Those of them that deliver without measuring.
    pub fn deliveries(&self) -> impl Iterator<Item = (AnswerId, &Target)> {
        self.deliveries.iter().map(|(place, target)| (self.answer(*place), target))
    }

    fn answer(&self, place: u16) -> AnswerId {
        AnswerId { subscription: self.id, place }
    }

    /// One of these functions, for one worker; `spec` is the subscription.
    pub fn link(&self, call: usize, spec: &SubscriptionSpec, seeds: Seeds) -> Option<Link> {
        match self.calls.get(call)? {
            // The arguments were checked when the subscription was compiled, so that no call fails here.
            (place, Call::Measure(spec_of, _, target)) => {
                let call = spec.functions.get(usize::from(*place))?;
                let function = spec_of.call(call, seeds).ok()?;
                let delivers = target.is_some().then(|| self.answer(*place));
                let asks = asks(spec_of);
                Some(Link::Measure(Measure { asks, ..Measure::new(function, delivers) }))
            }
            (place, Call::Watch(_, _, list)) => {
                let call = spec.functions.get(usize::from(*place))?;
                Some(Link::Measure(Measure::new(watch::with_list(call, list, seeds).ok()?, None)))
            }
            (place, Call::Apps(_, _, own)) => {
                let call = spec.functions.get(usize::from(*place))?;
                Some(Link::Measure(Measure::new(apps::with_own(call, own, seeds).ok()?, None)))
            }
            (_, Call::Select(selector)) => Some(Link::Select(Arc::clone(selector))),
        }
    }

    /// Memory of one of these functions.
    pub fn memory_of(&self, call: usize) -> Memory {
        match self.calls.get(call) {
            Some((_, Call::Measure(_, memory, _) | Call::Watch(_, memory, _) | Call::Apps(_, memory, _))) => {
                *memory
            }
            _ => Memory::default(),
        }
    }

    /// The lists of watched addresses and names.
    pub fn lists(&self) -> impl Iterator<Item = &watch::List> {
        self.calls.iter().filter_map(|(_, call)| match call {
            Call::Watch(_, _, list) => Some(&**list),
            _ => None,
        })
    }

    /// Memory of the readings of all functions.
    pub fn readings(&self) -> usize {
        (0..self.calls.len()).map(|call| self.memory_of(call).reading).sum()
    }

    /// Whether one of these functions selects.
    pub fn selects(&self, call: usize) -> bool {
        matches!(self.calls.get(call), Some((_, Call::Select(_))))
    }

    /// Number of functions that select.
    pub fn selectors(&self) -> usize {
        self.calls.iter().filter(|(_, call)| call.measures().is_none()).count()
    }
}

/// Checks that the functions of a subscription can follow each other at its level. Its expression is not looked at.
///
/// # Errors
/// They cannot, or an argument is invalid.
pub fn check_chain(level: Level, functions: &[FunctionCall], options: &Options<'_>) -> Result<(), String> {
    let spec = SubscriptionSpec { level, ..SubscriptionSpec::new("", "", functions.to_vec()) };
    Chain::compile(&spec, options, 0_u64.into(), &Arc::default(), None).map(drop)
}

/// The functions of a subscription.
#[derive(Default)]
struct Chain {
    calls: Vec<(u16, Call)>,
    deliveries: Vec<(u16, Target)>,
    demand: Demand,
    readings: Vec<ChainReading>,
}

/// The reading of a function without packets.
struct ChainReading {
    place: u16,
    function: &'static str,
    reading: Reading,
    /// The calls that judge it.
    judges: Vec<FunctionCall>,
}

impl Chain {
    fn new(spec: &SubscriptionSpec, settings: &Settings) -> Result<Self, String> {
        let Settings { filter, seeds, own_apps, rules, .. } = settings;
        Self::compile(spec, filter, *seeds, own_apps, rules.as_ref())
    }

    fn compile(
        spec: &SubscriptionSpec,
        filter: &Options<'_>,
        seeds: Seeds,
        own_apps: &Arc<OwnApps>,
        rules: Option<&Rules>,
    ) -> Result<Self, String> {
        let mut chain = Chain::default();
        for (place, call) in (0_u16..).zip(&spec.functions) {
            if let Some(delivery) = Delivery::find(&call.name) {
                chain.demand.add(&delivery.demand(call)?);
                chain.deliveries.push((place, delivery.target(call)?));
                check_whole(spec, call, delivery.level)?;
            } else if let Some(supplement) = Supplement::find(&call.name) {
                chain.demand.add(&supplement.demand(call)?);
                let of_run = rules.filter(|_| supplement.looks_with_rules());
                of_run.into_iter().for_each(|rules| chain.demand.add(&Demand::of_rules(rules)));
                check_whole(spec, call, supplement.level)?;
            } else if event::is_threshold(call)? {
                let is_after = chain.calls.last().is_some_and(|(_, call)| call.measures().is_some());
                let last = chain.readings.last_mut().filter(|_| is_after);
                let last = last.ok_or("`event` with above or below must follow a function that measures")?;
                last.judges.push(event::judging(call, last.function, &last.reading)?);
            } else if let Some(selector) = Selector::find(&call.name) {
                if !selector.levels.contains(&spec.level) {
                    return Err(format!("`{}` cannot be used at {} level", call.name, spec.level.name()));
                }
                let selector = selector.call(call, spec.level, filter, seeds);
                let selector = selector.map_err(|error| error.message)?;
                if selector.demand().is_some() && !chain.readings.is_empty() {
                    return Err(format!("`{}` must stand before the functions that measure", call.name));
                }
                chain.calls.push((place, Call::Select(selector)));
            } else {
                let function = FunctionSpec::find_at(&call.name, spec.level)?;
                event::check_level(function, spec.level)?;
                let mut built = function.call(call, seeds)?;
                if !function.levels.contains(&spec.level) {
                    return Err(format!("`{}` cannot be used at {} level", call.name, spec.level.name()));
                }
                chain.demand.identifies |= function.identifies;
                let judges = if function.judge.is_some() { vec![call.clone()] } else { Vec::new() };
                let reading = built.take();
                chain.readings.push(ChainReading { place, function: function.name, reading, judges });
                let target = function.target(call, spec.level)?;
                target.iter().for_each(|target| chain.demand.add(&Demand::of_target(target, spec.level)));
                let memory = function.memory(call)?;
                let own = Some(own_apps).filter(|own| !own.is_empty() && apps::is_called(call));
                if let Some(own) = own {
                    let memory = apps::memory_with(call, own, memory)?;
                    chain.demand.own_apps = own.searches().then(|| Arc::clone(own));
                    chain.calls.push((place, Call::Apps(function, memory, Arc::clone(own))));
                    continue;
                }
                let list = watch::list_of(call, filter, seeds)?;
                chain.calls.push((
                    place,
                    match list {
                        Some(list) => Call::Watch(function, memory, list),
                        None => Call::Measure(function, memory, target),
                    },
                ));
            }
        }
        // What only selects has no reader.
        let measures = |(_, call): &(u16, Call)| call.measures().is_some();
        chain.calls.truncate(chain.calls.iter().rposition(measures).map_or(0, |last| last + 1));
        Ok(chain)
    }
}

/// Checks that a function of everything is in a subscription of its level without an expression.
fn check_whole(spec: &SubscriptionSpec, call: &FunctionCall, level: Level) -> Result<(), String> {
    if level == spec.level && !spec.remainder && spec.expression.trim().is_empty() {
        return Ok(());
    }
    Err(format!("`{}` needs level = \"{}\", without an expression", call.name, level.name()))
}

/// Whether the functions of a chain over records see nothing else of measurements than what the beginning of a flow decides: no
/// field is tested, and each function names its fields.
fn sees_only_delays(
    expression: &str,
    settings: &Settings,
    calls: &[(u16, Call)],
    functions: &[FunctionCall],
) -> bool {
    let tests_no_field = expression.is_empty() || FlowTest::of_key(expression, &settings.filter).is_ok();
    let sees_delays = |(place, call): &(u16, Call)| match call {
        Call::Measure(_, _, None) => functions
            .get(usize::from(*place))
            .and_then(|call| record_fields(call, STREAM.name))
            .is_some_and(|fields| fields.iter().all(|field| DELAYS.contains(field))),
        Call::Measure(..) | Call::Watch(..) | Call::Apps(..) | Call::Select(_) => false,
    };
    tests_no_field && calls.iter().all(sees_delays)
}

/// The fields of these tables that a test and the functions of a chain read, where each function names them.
fn read_columns(
    test: &RecordTest,
    tables: &Tables,
    calls: &[(u16, Call)],
    functions: &[FunctionCall],
) -> ReadColumns {
    let mut read = ReadColumns::default();
    let Tables::Some(tables) = tables else { return read };
    for table in tables {
        let mut names: Vec<&'static str> = Vec::new();
        test.fields(&mut |test| names.extend((test.field.table == table.name).then_some(test.field.name)));
        let of_calls = calls.iter().map(|(place, call)| match call {
            Call::Measure(_, _, None) => record_fields(functions.get(usize::from(*place))?, table.name),
            Call::Measure(..) | Call::Watch(..) | Call::Apps(..) | Call::Select(_) => None,
        });
        if let Some(of_calls) = of_calls.collect::<Option<Vec<_>>>() {
            names.extend(of_calls.into_iter().flatten());
            read.push(table, Columns::of(table, names));
        }
    }
    read
}

/// The tables of [`REQUESTED`] that the functions of a chain name.
fn requested(calls: &[(u16, Call)], functions: &[FunctionCall]) -> Vec<&'static Table> {
    let named = |(place, _): &(u16, Call)| functions.get(usize::from(*place)).and_then(record_tables);
    let names: Vec<&str> = calls.iter().filter_map(named).flatten().collect();
    REQUESTED.iter().filter(|table| names.contains(&table.name)).copied().collect()
}

/// The tables whose records a test and the functions of a chain can use.
fn tested(test: &RecordTest, calls: &[(u16, Call)], functions: &[FunctionCall]) -> Tables {
    // Those that reach the present place of the chain.
    let mut reach = vec![test.tables()];
    let mut used: Vec<&'static Table> = Vec::new();
    for (place, call) in calls {
        if let Call::Select(selector) = call {
            reach.push(selector.tables());
            continue;
        }
        // A function without a field of a table takes records of all tables.
        let of_call = functions.get(usize::from(*place)).and_then(record_tables);
        if of_call.is_none() && reach.iter().all(|tables| *tables == weir_filter::Tables::All) {
            return Tables::All;
        }
        let is_used = |table: &&'static Table| {
            reach.iter().all(|tables| tables.have(table.name))
                && of_call.as_ref().is_none_or(|names| names.contains(&table.name))
        };
        used.extend(weir_proto::tables().filter(is_used));
    }
    used.sort_unstable_by_key(|table| table.name);
    used.dedup_by_key(|table| table.name);
    Tables::Some(used)
}
