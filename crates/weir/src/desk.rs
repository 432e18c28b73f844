//! The desk: the one owner of the subscriptions of a run and of the plan in effect.
//!
//! A change is compiled first, and then posted: it holds from a packet time on that is the same for every worker.
//! Workers read the number of the latest orders after each batch, and the orders only when it has changed. What a
//! subscription counts can therefore be compared with a count over the packets from that time on.

use crate::leaving::{Leaving, file_name, of_functions};
use crate::memory;
use crate::routes::Routes;
use crate::windows;
use serde::Serialize;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;
use weir_api::{FunctionCall, Owner, Subscription, SubscriptionId, SubscriptionSpec, builtin};
use weir_engine::{FileState, Plan, PlanError, Rules, Settings};
use weir_wire::Time;

/// Nanoseconds from posting orders to the packets for which they hold: more than a worker needs for a batch, so that no
/// worker has passed that time.
const AHEAD: u64 = 2_000_000;
/// Nanoseconds between two orders.
const APART: u64 = 3_000_000;
/// Number of times that a change waits for the orders before it, which others may post meanwhile.
const MAX_WAITS: usize = 100;

/// Orders that all workers follow from a certain packet on.
pub struct Orders {
    /// Time of the first packet for which they hold.
    pub from: Time,
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where what the functions of the plan deliver goes.
    pub routes: Routes,
    number: u64,
}

/// The subscriptions of a run, and the plan in effect.
pub struct Desk {
    /// Length of an interval of the run in nanoseconds.
    interval: u64,
    /// Nanoseconds of the parts that events are judged by: a tenth of a second if the run began with a window of tenths.
    parts: u64,
    workers: usize,
    /// Maximum bytes of the functions of a plan, and of what is kept for clients.
    limit: usize,
    /// Bytes that are kept for clients.
    kept: AtomicUsize,
    /// Number of the latest orders.
    latest: AtomicU64,
    /// Locked while a change is compiled.
    state: Mutex<State>,
    /// Locked for moments only: no worker waits while a change is compiled.
    orders: Mutex<Posted>,
}

struct State {
    /// The next subscription's number.
    next: u32,
    expression: String,
    /// By owner, and for each owner in the order in which they were added.
    subscriptions: Vec<Subscription>,
    /// What plans are compiled with. Only the rules of it change.
    settings: Settings,
    plan: Arc<Plan>,
    routes: Routes,
    /// Time from which the latest orders hold.
    latest: Time,
}

/// The orders between the desk and the workers.
struct Posted {
    /// Those that a worker has not read, oldest first.
    unread: VecDeque<Arc<Orders>>,
    /// For each worker, the number of the orders that it has read.
    read: Vec<u64>,
    /// The plans of the orders that were dropped last. Workers follow them until the next orders hold, and the thread that
    /// drops a plan of thousands of subscriptions last takes a while to free it.
    left: Vec<Arc<Plan>>,
}

/// A plan in words.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Described {
    /// Number of the plan; each change makes a new one.
    pub plan: u64,
    /// The run's expression; empty for every packet.
    pub expression: String,
    /// The subscriptions, in order.
    pub subscriptions: Vec<DescribedSubscription>,
    /// What leaves by their functions: logs, files and events.
    pub leaves: Vec<Leaving>,
    /// What the pass has to do for them.
    pub demand: Vec<String>,
}

/// A subscription in words.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DescribedSubscription {
    /// Its number, which is never used again.
    pub id: u32,
    /// Who made it: `run`, `configuration`, or `client` with its number.
    pub owner: String,
    /// `packet`, `stream`, `flow` or `record`.
    pub level: String,
    /// Its name.
    pub name: String,
    /// The chart that has it as a line.
    #[schema(required = true)]
    pub chart: Option<String>,
    /// Its expression; empty for everything.
    pub expression: String,
    /// Whether it covers the packets that no other line of its chart covers.
    pub remainder: bool,
    /// Its functions, with their arguments.
    pub functions: Vec<String>,
    /// Length of the interval of its readings in seconds; 0 for the run's.
    pub interval: f64,
    /// Names of the outputs that its readings go to; null for all.
    pub outputs: Option<Vec<String>>,
}

/// A call as text: the name of the function, then names and values of arguments. A path is shown without its directory.
fn call_text(call: &FunctionCall) -> String {
    let shown = |name: &str, value: &str| match name {
        "to" => file_name(value).to_owned(),
        // Several lists of the function `watch`.
        "file" => value.split(',').map(file_name).collect::<Vec<_>>().join(","),
        _ => value.to_owned(),
    };
    let arguments = call.arguments.iter().map(|(name, value)| format!(" {name} {}", shown(name, value)));
    std::iter::once(call.name.clone()).chain(arguments).collect()
}

/// A change of the subscriptions.
#[derive(Clone)]
pub enum Change {
    /// Adds subscriptions.
    Add(Owner, Vec<SubscriptionSpec>),
    /// Removes the subscriptions with these numbers, if the owner has them.
    Remove(Owner, Vec<SubscriptionId>),
    /// Replaces all subscriptions of an owner. Those that stay keep their numbers and their state.
    /// One that watches the addresses and names of a file that has changed begins anew, with the file as it is now.
    Replace(Owner, Vec<SubscriptionSpec>),
    /// Begins the subscriptions of the configuration anew that watch the addresses and names of files that have changed. Those of
    /// clients keep their numbers, by which the clients know them, and so their lists.
    Lists,
    /// Replaces the built-in subscriptions of the run. Their numbers are fixed.
    BuiltIn(Vec<Subscription>),
    /// Changes the expression of the run.
    Expression(String),
    /// Changes the rules that look at flows. A run without rules has no subscription for them.
    Rules(Rules),
}

/// A compiled change that is not in effect yet. The desk takes no other change until it is posted or dropped.
pub struct Prepared<'d> {
    desk: &'d Desk,
    state: MutexGuard<'d, State>,
    plan: Arc<Plan>,
    settings: Settings,
    next: u32,
    expression: String,
    subscriptions: Vec<Subscription>,
    /// The numbers of added subscriptions.
    added: Vec<SubscriptionId>,
    /// Nanoseconds between the change and the first packet for which it holds, at least.
    ahead: u64,
}

/// The present time of packets: the kernel stamps them with the system's clock.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

impl Desk {
    /// A desk with the subscriptions of the run and of its configuration, compiled.
    ///
    /// # Errors
    /// An expression or a function of a subscription is invalid.
    pub fn new(
        settings: Settings,
        expression: &str,
        mut subscriptions: Vec<Subscription>,
        configured: Vec<SubscriptionSpec>,
        workers: usize,
        interval: u64,
    ) -> Result<Desk, PlanError> {
        let first = subscriptions.iter().map(|one| one.id.0 + 1).max().unwrap_or_default();
        let mut next = first.max(builtin::FIRST_FREE.0);
        subscriptions
            .extend(configured.into_iter().map(|spec| number(&mut next, Owner::Configuration, spec)));
        check_intervals(&subscriptions, interval)?;
        let parts = windows::parts(subscriptions.iter().map(|one| &*one.spec));
        let plan = Arc::new(Plan::of(None, 1, expression, &subscriptions, settings.clone())?);
        let state = State {
            next,
            expression: expression.to_owned(),
            subscriptions,
            settings,
            plan,
            routes: Routes::default(),
            latest: Time(0),
        };
        Ok(Desk {
            orders: Mutex::new(Posted { unread: VecDeque::new(), read: vec![0; workers], left: Vec::new() }),
            workers,
            interval,
            parts,
            limit: usize::MAX,
            kept: AtomicUsize::new(0),
            latest: AtomicU64::new(0),
            state: Mutex::new(state),
        })
    }

    /// Cuts the run into parts of a tenth of a second if this window, in nanoseconds, needs them.
    pub fn cut_for(&mut self, window: u64) {
        self.parts = self.parts.min(windows::part(window));
    }

    /// Nanoseconds of the parts that events are judged by.
    pub fn parts(&self) -> u64 {
        self.parts
    }

    /// Limits the memory of all functions and of what is kept for clients, in bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The limit of [`Desk::set_limit`].
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Charges the bytes that are kept for clients to the limit, in place of those before.
    pub fn keep(&self, bytes: usize) {
        self.kept.store(bytes, Ordering::Relaxed);
    }

    /// A plan of a subscription alone, which is not put into effect.
    ///
    /// # Errors
    /// The expression or a function is invalid.
    pub fn alone(&self, spec: &SubscriptionSpec) -> Result<Plan, String> {
        let alone = Subscription::number([spec.clone()]);
        let plan = check_intervals(&alone, self.interval)
            .and_then(|()| Plan::of(None, 1, "", &alone, self.state().settings.clone()));
        plan.map_err(|error| error.to_string())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A change is complete before it is put into the state, so that a panic leaves the state before it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn posted(&self) -> MutexGuard<'_, Posted> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan in effect.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.state().plan)
    }

    /// The run's expression in effect.
    pub fn expression(&self) -> String {
        self.state().expression.clone()
    }

    /// The subscriptions in effect, in the order of the plan.
    #[cfg(test)]
    pub fn subscriptions(&self) -> Vec<Subscription> {
        self.state().subscriptions.clone()
    }

    /// The plan in effect in words.
    pub fn described(&self) -> Described {
        let state = self.state();
        let row = |one: &Subscription| DescribedSubscription {
            id: one.id.0,
            owner: one.owner.to_string(),
            level: one.spec.level.name().to_owned(),
            name: one.spec.name.clone(),
            chart: one.spec.chart.clone(),
            expression: one.spec.expression.clone(),
            remainder: one.spec.remainder,
            functions: one.spec.functions.iter().map(call_text).collect(),
            interval: one.spec.interval as f64 / 1e9,
            outputs: one.spec.outputs.clone(),
        };
        let mut leaves = of_functions(&state.plan, &state.subscriptions);
        leaves.iter_mut().for_each(|one| one.to = file_name(&one.to).to_owned());
        leaves.sort_by_key(|one| one.subscription);
        Described {
            leaves,
            plan: state.plan.number(),
            expression: state.expression.clone(),
            subscriptions: state.subscriptions.iter().map(row).collect(),
            demand: state.plan.needs(),
        }
    }

    /// What leaves by the functions of the plan in effect, with the paths of files.
    pub fn leaves(&self) -> Vec<Leaving> {
        let state = self.state();
        of_functions(&state.plan, &state.subscriptions)
    }

    /// The state after the latest orders are in effect: otherwise quick changes would hold later and later after they were posted.
    /// The desk is free while this waits.
    fn state_in_turn(&self) -> MutexGuard<'_, State> {
        // Under a flood of changes this one takes its turn all the same.
        for _ in 0..MAX_WAITS {
            let early = self.state().latest.0.saturating_sub(now());
            if early == 0 {
                break;
            }
            std::thread::sleep(Duration::from_nanos(early.min(AHEAD + APART)));
        }
        self.state()
    }

    /// Compiles changes into one plan. Waits until the orders before are in effect.
    ///
    /// # Errors
    /// The message names the error, or the memory that the plan needs and has. Nothing is changed.
    pub fn prepare(&self, changes: Vec<Change>) -> Result<Prepared<'_>, String> {
        let state = self.state_in_turn();
        let (mut next, mut expression) = (state.next, state.expression.clone());
        let (mut subscriptions, mut settings) = (state.subscriptions.clone(), state.settings.clone());
        let mut added = Vec::new();
        // Rules look at each flow in one worker, and no interval begins with them: each worker takes them when it can.
        let ahead = if changes.iter().all(|change| matches!(change, Change::Rules(_))) { 0 } else { AHEAD };
        // A change that asks for no list looks at no file.
        let changed = LazyCell::new(|| with_changed_lists(&state.plan));
        for change in changes {
            match change {
                Change::Add(owner, specs) => {
                    let new: Vec<Subscription> =
                        specs.into_iter().map(|spec| number(&mut next, owner, spec)).collect();
                    added.extend(new.iter().map(|one| one.id));
                    insert(&mut subscriptions, owner, new);
                }
                Change::Remove(owner, ids) => {
                    let ids: HashSet<SubscriptionId> = ids.into_iter().collect();
                    subscriptions.retain(|one| one.owner != owner || !ids.contains(&one.id));
                }
                Change::Replace(owner, specs) => {
                    let old = subscriptions.extract_if(.., |one| one.owner == owner);
                    let old = old.filter(|one| !changed.contains(&one.id)).collect();
                    let new = replace(&mut next, owner, old, specs);
                    insert(&mut subscriptions, owner, new);
                }
                Change::Lists => {
                    let is_changed = |one: &&mut Subscription| {
                        one.owner == Owner::Configuration && changed.contains(&one.id)
                    };
                    for one in subscriptions.iter_mut().filter(is_changed) {
                        one.id = SubscriptionId(next);
                        next += 1;
                    }
                }
                Change::BuiltIn(new) => {
                    subscriptions.retain(|one| one.owner != Owner::Run);
                    insert(&mut subscriptions, Owner::Run, new);
                }
                Change::Expression(text) => expression = text,
                Change::Rules(rules) => settings.rules = Some(rules),
            }
        }
        let new = subscriptions.iter().filter(|one| one.id.0 >= state.next || one.owner == Owner::Run);
        check_intervals(new.clone(), self.interval).map_err(|error| error.to_string())?;
        if windows::parts(new.map(|one| &*one.spec)) < self.parts {
            return Err("`event`: windows of tenths of a second need a run that began with one".to_owned());
        }
        let number = state.plan.number() + 1;
        let plan = Plan::of(Some(&state.plan), number, &expression, &subscriptions, settings.clone());
        let plan = Arc::new(plan.map_err(|error| error.to_string())?);
        let taken = plan.memory(self.workers);
        let kept = self.kept.load(Ordering::Relaxed);
        if taken + kept > self.limit {
            return Err(format!(
                "charts and lists take {} of memory, and this run has {} for them: use fewer lines or rows, or restart it \
                 with a larger --memory",
                memory::bytes(taken + kept),
                memory::bytes(self.limit)
            ));
        }
        Ok(Prepared { desk: self, state, plan, settings, next, expression, subscriptions, added, ahead })
    }

    /// Drops the destinations, whose writers end with them, after the last worker has ended.
    pub fn close(&self) {
        self.state().routes = Routes::default();
        self.posted().unread.clear();
    }

    /// The destinations at the start of the run.
    pub fn starts_with(&self, routes: Routes) {
        self.state().routes = routes;
    }

    /// Posts what is in effect as orders, at least `ahead` nanoseconds before they hold. Returns the time from which they hold,
    /// which is a whole number of microseconds: seconds as a 64-bit float state it exactly.
    fn post(&self, state: &mut State, ahead: u64) -> Time {
        let from = Time((now() + ahead).max(state.latest.0 + APART).next_multiple_of(1_000));
        state.latest = from;
        let number = self.latest.load(Ordering::Relaxed) + 1;
        let (plan, routes) = (Arc::clone(&state.plan), state.routes.clone());
        let orders = Arc::new(Orders { from, plan, routes, number });
        let (read, left) = {
            let mut posted = self.posted();
            let oldest = posted.read.iter().copied().min().unwrap_or(number);
            let all_read = posted.unread.iter().take_while(|orders| orders.number <= oldest).count();
            let read: Vec<Arc<Orders>> = posted.unread.drain(..all_read).collect();
            posted.unread.push_back(orders);
            self.latest.store(number, Ordering::Release);
            let plans = read.iter().map(|orders| Arc::clone(&orders.plan)).collect::<Vec<_>>();
            let left = if plans.is_empty() { plans } else { std::mem::replace(&mut posted.left, plans) };
            (read, left)
        };
        drop((read, left));
        from
    }

    /// The orders that a worker has not read; `read` is the number of the latest that it has.
    pub fn orders(&self, worker: usize, read: &mut u64) -> Vec<Arc<Orders>> {
        if self.latest.load(Ordering::Acquire) == *read {
            return Vec::new();
        }
        let mut posted = self.posted();
        let new = posted.unread.iter().filter(|orders| orders.number > *read);
        let new: Vec<_> = new.map(Arc::clone).collect();
        *read = new.last().map_or(*read, |orders| orders.number);
        if let Some(place) = posted.read.get_mut(worker) {
            *place = *read;
        }
        new
    }
}

impl Prepared<'_> {
    /// The numbers of added subscriptions.
    pub fn added(&self) -> &[SubscriptionId] {
        &self.added
    }

    /// The plan of the change.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Changes the destinations with it.
    pub fn leaving_by(mut self, routes: Routes) -> Self {
        self.state.routes = routes;
        self
    }

    /// Puts the change into effect. Returns the time of the first packet for which it holds, and the numbers of added
    /// subscriptions.
    pub fn post(mut self) -> (Time, Vec<SubscriptionId>) {
        let state = &mut *self.state;
        state.next = self.next;
        state.expression = self.expression;
        state.subscriptions = self.subscriptions;
        state.settings = self.settings;
        state.plan = self.plan;
        (self.desk.post(state, self.ahead), self.added)
    }
}

/// Checks that the intervals of subscriptions are made of whole intervals of the run.
fn check_intervals<'s>(
    subscriptions: impl IntoIterator<Item = &'s Subscription>,
    interval: u64,
) -> Result<(), PlanError> {
    let wrong = |one: &&Subscription| !one.spec.interval.is_multiple_of(interval.max(1));
    subscriptions.into_iter().find(wrong).map_or(Ok(()), |one| {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let (its, run) = (seconds(one.spec.interval), seconds(interval));
        let error = format!("an interval of {its} s is not a multiple of the run's {run} s (--interval)");
        Err(PlanError::Function { name: one.spec.name.clone(), error })
    })
}

/// Gives a subscription the next number.
fn number(next: &mut u32, owner: Owner, spec: SubscriptionSpec) -> Subscription {
    let id = SubscriptionId(*next);
    *next += 1;
    Subscription { id, owner, spec: Arc::new(spec) }
}

/// The subscriptions of an owner after a replacement: a specification that the owner had keeps its number.
fn replace(
    next: &mut u32,
    owner: Owner,
    old: Vec<Subscription>,
    specs: Vec<SubscriptionSpec>,
) -> Vec<Subscription> {
    // Each number is given once, if a specification occurs twice.
    let mut kept: HashMap<Arc<SubscriptionSpec>, VecDeque<Subscription>> = HashMap::new();
    for one in old {
        kept.entry(Arc::clone(&one.spec)).or_default().push_back(one);
    }
    let subscription = |spec| {
        let same = kept.get_mut(&spec).and_then(VecDeque::pop_front);
        same.unwrap_or_else(|| number(next, owner, spec))
    };
    specs.into_iter().map(subscription).collect()
}

/// The subscriptions of a plan that watch the addresses and names of files that have changed.
fn with_changed_lists(plan: &Plan) -> HashSet<SubscriptionId> {
    let changed = |state| matches!(state, FileState::Changed(_));
    plan.watched_files().filter(|(_, _, state)| changed(*state)).map(|(id, ..)| id).collect()
}

/// Inserts subscriptions after the others of their owner.
fn insert(subscriptions: &mut Vec<Subscription>, owner: Owner, new: Vec<Subscription>) {
    let at = subscriptions.partition_point(|one| one.owner <= owner);
    subscriptions.splice(at..at, new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::FunctionCall;
    use weir_engine::ChecksumMode;

    const SECOND: u64 = 1_000_000_000;

    fn spec(name: &str, expression: &str) -> SubscriptionSpec {
        SubscriptionSpec::new(name, expression, vec![FunctionCall::new("packets")])
    }

    fn desk(names: &[&str]) -> Desk {
        let settings = Settings {
            filter: weir_filter::Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let configured = names.iter().map(|name| spec(name, "tcp")).collect();
        Desk::new(settings, "", Subscription::number([spec("run", "")]), configured, 2, SECOND).unwrap()
    }

    fn numbers(desk: &Desk) -> Vec<(String, u32)> {
        desk.subscriptions().iter().map(|one| (one.spec.name.clone(), one.id.0)).collect()
    }

    fn named(names: &[(&str, u32)]) -> Vec<(String, u32)> {
        names.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    }

    #[test]
    fn numbers_are_never_used_twice_and_stay_with_unchanged_subscriptions() {
        let desk = desk(&["a", "b"]);
        assert_eq!(numbers(&desk), named(&[("run", 256), ("a", 257), ("b", 258)]));
        let (_, added) =
            desk.prepare(vec![Change::Add(Owner::Client(1), vec![spec("p", "")])]).unwrap().post();
        assert_eq!(added, [SubscriptionId(259)]);
        let specs = vec![spec("c", "tcp"), spec("b", "tcp"), spec("b", "tcp"), spec("a", "udp")];
        desk.prepare(vec![Change::Replace(Owner::Configuration, specs)]).unwrap().post();
        let expected = [("run", 256), ("c", 260), ("b", 258), ("b", 261), ("a", 262), ("p", 259)];
        assert_eq!(numbers(&desk), named(&expected));
        // Only the owner removes.
        let ids = vec![SubscriptionId(258), SubscriptionId(259)];
        desk.prepare(vec![Change::Remove(Owner::Client(1), ids)]).unwrap().post();
        assert_eq!(numbers(&desk), named(&expected[..5]));
        desk.prepare(vec![Change::Add(Owner::Client(1), vec![spec("q", "")])]).unwrap().post();
        assert_eq!(numbers(&desk).last(), Some(&("q".to_owned(), 263)));
    }

    /// A list that has changed is another subscription, as if it were removed and added; one that is gone stays in force.
    #[test]
    fn a_list_is_read_again_when_its_file_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        for path in [&one, &two] {
            std::fs::write(path, "192.0.2.1\n").unwrap();
        }
        let watch = |path: &std::path::Path| {
            let calls = vec![FunctionCall::new("watch").with("file", path.display())];
            SubscriptionSpec { level: weir_api::Level::Flow, ..SubscriptionSpec::new("w", "", calls) }
        };
        let filter =
            weir_filter::Options { fields: Some(crate::fields::of_run()), ..weir_filter::Options::default() };
        let settings = Settings {
            filter,
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let configured = vec![watch(&one), watch(&two)];
        let desk = Desk::new(settings, "", Subscription::number([]), configured.clone(), 2, SECOND).unwrap();
        let ids = || desk.subscriptions().iter().map(|one| one.id.0).collect::<Vec<_>>();
        let first = ids();
        let lists = || desk.prepare(vec![Change::Lists]).map(|prepared| drop(prepared.post()));
        lists().unwrap();
        assert_eq!(ids(), first);
        std::fs::write(&one, "192.0.2.1\nno name\n").unwrap();
        lists().unwrap();
        assert_eq!(ids()[1], first[1]);
        assert!(ids()[0] > first[1]);
        let notes: Vec<String> = desk.plan().notes().map(str::to_owned).collect();
        assert!(notes.len() == 1 && notes[0].contains(":2: left out"), "{notes:?}");
        let second = ids();
        std::fs::remove_file(&one).unwrap();
        lists().unwrap();
        assert_eq!(ids(), second, "it stays in force");
        let states: Vec<FileState> = desk.plan().watched_files().map(|(_, _, state)| state).collect();
        assert_eq!(states, [FileState::Gone, FileState::Current]);
        // SIGHUP reads a changed list too.
        std::fs::write(&two, "192.0.2.0/24\n192.0.3.0/24\n").unwrap();
        std::fs::write(&one, "192.0.2.7\n").unwrap();
        desk.prepare(vec![Change::Replace(Owner::Configuration, configured)]).unwrap().post();
        assert!(ids().iter().all(|id| *id > second[0]), "{:?}", ids());
    }

    #[test]
    fn a_change_that_does_not_compile_changes_nothing() {
        let mut desk = desk(&["a"]);
        let before = (numbers(&desk), desk.plan().number(), desk.expression());
        let mut many: Vec<SubscriptionSpec> = (0..1000).map(|n| spec("n", &format!("port {n}"))).collect();
        many[500].expression = "no such word (".to_owned();
        let error = desk.prepare(vec![Change::Add(Owner::Client(1), many)]).err().unwrap();
        assert!(error.contains("subscription `n`"), "{error}");
        desk.set_limit(1 << 20);
        let top = FunctionCall::new("top").with("rows", 1 << 20);
        let large = SubscriptionSpec::new("large", "", vec![top]);
        let error = desk.prepare(vec![Change::Add(Owner::Client(1), vec![large])]).err().unwrap();
        assert!(error.contains("of memory, and this run has 1M"), "{error}");
        assert_eq!((numbers(&desk), desk.plan().number(), desk.expression()), before);
        assert!(desk.orders(0, &mut 0).is_empty());
    }

    #[test]
    fn an_error_among_thousand_additions_to_many_subscriptions_changes_nothing() {
        let desk = desk(&[]);
        let ports = |ports: std::ops::Range<usize>| -> Vec<SubscriptionSpec> {
            ports.map(|n| spec("n", &format!("port {n}"))).collect()
        };
        desk.prepare(vec![Change::Add(Owner::Client(1), ports(0..2_000))]).unwrap().post();
        let plan = desk.plan();
        for added in [ports(3_000..3_010), ports(3_000..4_000)] {
            let middle = added.len() / 2;
            let mut added = added;
            added[middle] = spec("wrong", "no such word (");
            let error = desk.prepare(vec![Change::Add(Owner::Client(1), added)]).err().unwrap();
            assert!(error.contains("subscription `wrong`"), "{error}");
            assert!(Arc::ptr_eq(&plan, &desk.plan()));
        }
        assert_eq!(numbers(&desk).len(), 2_001);
    }

    #[test]
    fn every_worker_reads_each_order_once_and_later_ones_hold_later() {
        let desk = desk(&[]);
        let mut read = [0, 0];
        let mut held = Vec::new();
        for n in 0..5 {
            let change = Change::Expression(format!("port {n}"));
            held.push(desk.prepare(vec![change]).unwrap().post().0);
            if n == 2 {
                assert_eq!(desk.orders(0, &mut read[0]).len(), 3);
            }
        }
        assert!(held.windows(2).all(|pair| pair[1].0 - pair[0].0 >= APART), "{held:?}");
        let from = |orders: Vec<Arc<Orders>>| orders.iter().map(|orders| orders.from).collect::<Vec<_>>();
        assert_eq!(from(desk.orders(0, &mut read[0])), held[3..]);
        assert_eq!(from(desk.orders(1, &mut read[1])), held);
        assert!(desk.orders(1, &mut read[1]).is_empty());
        // Orders that all workers have read are dropped with the next one.
        desk.prepare(vec![Change::Expression(String::new())]).unwrap().post();
        assert_eq!(desk.posted().unread.len(), 1);
    }

    #[test]
    fn an_interval_is_a_multiple_of_the_runs() {
        let desk = desk(&[]);
        let with = |interval| SubscriptionSpec { interval, ..spec("minute", "") };
        let add =
            |interval| desk.prepare(vec![Change::Add(Owner::Client(1), vec![with(interval)])]).map(drop);
        assert!(add(60 * SECOND).is_ok() && add(0).is_ok());
        let error = add(SECOND * 3 / 2).unwrap_err();
        assert!(error.contains("1.5 s") && error.contains("minute"), "{error}");
    }

    /// Times for `docs/performance.md`: ten thousand subscriptions of each kind, and changes of one.
    #[test]
    #[ignore = "takes times; --nocapture prints them"]
    fn ten_thousand_subscriptions_change() {
        use weir_api::Level;
        let net = |n: u32| format!("net 10.{}.{}.0/24 and port {}", n / 256 % 256, n % 256, 1 + n % 1000);
        for (kind, level, function) in [
            ("counts of packets", Level::Packet, "packets"),
            ("functions over packets", Level::Packet, "size"),
            ("functions over flows", Level::Flow, "packets"),
            ("functions over records", Level::Record, "records"),
        ] {
            times_of(kind, &|n| SubscriptionSpec { level, ..spec_of(&net(n), function) });
        }
    }

    fn spec_of(expression: &str, function: &str) -> SubscriptionSpec {
        SubscriptionSpec::new("line", expression, vec![FunctionCall::new(function)])
    }

    /// Adds ten thousand subscriptions, changes one of them often, and prints the times.
    fn times_of(kind: &str, line: &dyn Fn(u32) -> SubscriptionSpec) {
        // So many changes that the young tests become too many once.
        const CHANGES: u32 = 1_200;
        use std::time::Instant;
        use weir_engine::{FlowConfig, Worker};
        let timed = |work: &mut dyn FnMut()| {
            let begin = Instant::now();
            work();
            begin.elapsed()
        };
        let desk = desk(&[]);
        let mut worker = Worker::new(desk.plan(), &FlowConfig { memory: 1 << 20, ..FlowConfig::default() });
        let mut all = vec![Change::Add(Owner::Client(1), (0..10_000).map(line).collect())];
        let at_once = timed(&mut || drop(desk.prepare(std::mem::take(&mut all)).unwrap().post()));
        let first = timed(&mut || worker.change_plan(desk.plan(), &mut ()));
        let (mut waits, mut effects, mut still, mut merges) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut last = SubscriptionId(300);
        for n in 0..CHANGES {
            // The orders before are in effect.
            std::thread::sleep(Duration::from_nanos(AHEAD));
            let change = match n % 2 {
                0 => Change::Add(Owner::Client(1), vec![line(20_000 + n)]),
                _ => Change::Remove(Owner::Client(1), vec![last]),
            };
            let mut change = vec![change];
            let begin = now();
            waits.push(timed(&mut || {
                let (from, added) = desk.prepare(std::mem::take(&mut change)).unwrap().post();
                effects.push(Duration::from_nanos(from.0 - begin));
                last = added.first().copied().unwrap_or(last);
            }));
            still.push(timed(&mut || worker.change_plan(desk.plan(), &mut ())));
        }
        let mut full = worker.tick(Time(1), &mut ());
        full.fill();
        for _ in 0..50 {
            let mut sum = full.clone();
            merges.push(timed(&mut || sum.merge(&full)));
        }
        let shown = |mut times: Vec<Duration>| {
            times.sort_unstable();
            let at = |place: usize| times[times.len() * place / 100];
            let longest = times.last();
            format!("median {:?}, 99th percentile {:?}, longest {longest:?}", at(50), at(99))
        };
        println!("{kind}: 10,000 at once {at_once:?}; the worker stands still {first:?}");
        println!("  one added or removed: {}", shown(waits));
        println!("  in effect after: {}", shown(effects));
        println!("  the worker stands still: {}", shown(still));
        println!("  merging {} answers: {}", full.answers.len(), shown(merges));
    }
}
