//! Subscriptions of clients of the HTTP interface, and their answers: a client alone gets the answers of its subscriptions.
//!
//! The collector takes the answers of clients out of each interval before outputs, events, pages and metrics see it. Sums
//! are kept here until the client removes the subscription, or has not read it for [`IDLE`]. `now` is the time of the system's
//! clock in nanoseconds since the epoch.

use crate::desk::{Change, Desk};
use crate::memory;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_api::{Answer, Interval, Owner, Reading, SubscriptionId, SubscriptionSpec};
use weir_engine::Plan;
use weir_wire::Time;

/// Maximum number of subscriptions of one client.
pub const MAX_OF_ONE: usize = 1_000;
/// Maximum number of subscriptions of all clients.
pub const MAX_OF_ALL: usize = 10_000;
/// The part of the memory for functions that what is kept for all clients may take. One client has half of it.
const PART: usize = 2;
/// Readings that are kept of a function: the sum, that of the interval under way, and that of the interval before.
const KEPT: usize = 3;
/// Nanoseconds after which a subscription that its client has not read is removed, and one that was removed is forgotten.
pub const IDLE: u64 = 300_000_000_000;

/// The subscriptions of all clients.
#[derive(Default)]
pub struct Clients {
    // The lock is held for moments, because the collector waits for it. Where the desk is locked too, it is locked first.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of each client that had a subscription, by its name: of a user or token, or the user id of a local process.
    numbers: HashMap<String, u32>,
    subscriptions: BTreeMap<SubscriptionId, Owned>,
}

/// A subscription of a client.
struct Owned {
    client: u32,
    spec: Arc<SubscriptionSpec>,
    /// Time of the first packet that it sees; `None` until the plan is posted.
    from: Option<Time>,
    /// Time from which on it sees no packets, once it is removed.
    until: Option<Time>,
    /// End in nanoseconds of the last interval in its sums.
    summed: u64,
    /// Nanoseconds in its sums that were watched.
    watched: u64,
    /// By the place of the function in the chain.
    sums: BTreeMap<u16, Sums>,
    /// Bytes that its sums may take.
    memory: usize,
    /// When the client read it last, in nanoseconds by the system's clock.
    read: u64,
}

/// The readings of a function.
struct Sums {
    /// Name of the function.
    function: String,
    total: Reading,
    /// The interval of the subscription that is under way; without length before the first.
    current: Part,
    /// The one before.
    latest: Option<Part>,
}

/// What a function counted in an interval of its subscription.
#[derive(Clone, Debug)]
pub struct Part {
    /// The interval. The subscription may have begun or ended within it.
    pub interval: Interval,
    /// Nanoseconds of it that were watched while the subscription was there.
    pub watched: u64,
    /// What was counted.
    pub reading: Reading,
}

/// The state of a subscription, for its client.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Its number.
    pub id: SubscriptionId,
    /// What was asked.
    pub spec: Arc<SubscriptionSpec>,
    /// Time of the first packet that it sees.
    pub from: Time,
    /// Time from which on it sees no packets, once it is removed.
    pub until: Option<Time>,
    /// End in nanoseconds of the last interval in its sums; 0 before the first.
    pub summed: u64,
    /// Nanoseconds in its sums that were watched.
    pub watched: u64,
    /// The readings of its functions, by their place in the chain.
    pub answers: Vec<(u16, FunctionAnswer)>,
}

/// The readings of a function.
#[derive(Clone, Debug)]
pub struct FunctionAnswer {
    /// Name of the function.
    pub function: String,
    /// Its reading since the beginning.
    pub total: Reading,
    /// The last whole interval of the subscription.
    pub latest: Option<Part>,
}

impl Answered {
    /// The part of a time in which the subscription was there; without length if it was not.
    pub fn present(&self, time: Interval) -> Interval {
        present(time, self.from, self.until)
    }

    /// Whether no answer will be added: the subscription is removed, and all that it saw is in the sums.
    pub fn is_complete(&self) -> bool {
        self.until.is_some_and(|until| self.summed >= until.0)
    }
}

/// Why a change is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refused {
    /// A limit of the client or of all clients is reached.
    Limit(String),
    /// The plan does not compile or has no room.
    Plan(String),
    /// The client has no such subscription.
    Unknown,
}

impl Clients {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds subscriptions of a client. Returns the time of the first packet that they see, and their numbers.
    ///
    /// # Errors
    /// A limit is reached, or the plan does not compile. Nothing is changed.
    pub fn add(
        &self,
        desk: &Desk,
        client: &str,
        mut specs: Vec<SubscriptionSpec>,
        now: u64,
    ) -> Result<(Time, Vec<SubscriptionId>), Refused> {
        // Its answers go to the client alone.
        specs.iter_mut().for_each(|spec| spec.outputs = Some(Vec::new()));
        let alone: Vec<Plan> =
            specs.iter().map(|spec| desk.alone(spec)).collect::<Result<_, _>>().map_err(Refused::Plan)?;
        let memory: Vec<usize> =
            alone.iter().map(|plan| plan.memory_of_readings().saturating_mul(KEPT)).collect();
        let number = {
            let mut state = self.state();
            state.may_add(client, &memory, desk.limit() / PART)?;
            state.number(client)
        };
        let prepared =
            desk.prepare(vec![Change::Add(Owner::Client(number), specs.clone())]).map_err(Refused::Plan)?;
        {
            // Another request of the client may have been faster.
            let mut state = self.state();
            state.may_add(client, &memory, desk.limit() / PART)?;
            let added = prepared.added().iter().copied().zip(specs).zip(alone.iter().zip(memory));
            for ((id, spec), (plan, memory)) in added {
                let owned = Owned::new(number, Arc::new(spec), plan, memory, now);
                state.subscriptions.insert(id, owned);
            }
            desk.keep(state.memory());
        }
        let (from, ids) = prepared.post();
        let mut state = self.state();
        for id in &ids {
            if let Some(owned) = state.subscriptions.get_mut(id) {
                owned.from = Some(from);
            }
        }
        Ok((from, ids))
    }

    /// Removes subscriptions of a client. Returns the time from which on they see no packets. Their sums can be read until they
    /// are forgotten.
    ///
    /// # Errors
    /// The client does not have one of them. Nothing is changed.
    pub fn remove(
        &self,
        desk: &Desk,
        client: &str,
        ids: &[SubscriptionId],
        now: u64,
    ) -> Result<Time, Refused> {
        let owner = {
            let state = self.state();
            let number = *state.numbers.get(client).ok_or(Refused::Unknown)?;
            let is_there = |id: &SubscriptionId| {
                state
                    .subscriptions
                    .get(id)
                    .is_some_and(|owned| owned.client == number && owned.until.is_none())
            };
            if !ids.iter().all(is_there) {
                return Err(Refused::Unknown);
            }
            Owner::Client(number)
        };
        let prepared = desk.prepare(vec![Change::Remove(owner, ids.to_vec())]).map_err(Refused::Plan)?;
        let (until, _) = prepared.post();
        let mut state = self.state();
        for id in ids {
            if let Some(owned) = state.subscriptions.get_mut(id) {
                (owned.until, owned.read) = (Some(until), now);
            }
        }
        Ok(until)
    }

    /// Adds the answers of an interval, in which all workers have ended. `watched` is the part of it that was watched.
    pub fn interval(&self, interval: Interval, watched: Interval, answers: Vec<Answer>) {
        let mut state = self.state();
        state.add(interval, watched, answers);
        for owned in state.subscriptions.values_mut() {
            owned.summed = owned.summed.max(interval.end);
            owned.watched += owned.seen(watched);
        }
    }

    /// Adds answers of packets that came after their interval was reported.
    pub fn late(&self, interval: Interval, answers: Vec<Answer>) {
        // The time of the interval was counted when it ended.
        let no_time = Interval { start: interval.end, end: interval.end };
        self.state().add(interval, no_time, answers);
    }

    /// The subscriptions of a client, in the order of their numbers.
    pub fn of(&self, client: &str, now: u64) -> Vec<Answered> {
        let mut state = self.state();
        let Some(number) = state.numbers.get(client).copied() else { return Vec::new() };
        let own = state.subscriptions.iter_mut().filter(|(_, owned)| owned.client == number);
        own.filter_map(|(id, owned)| owned.answered(*id, now)).collect()
    }

    /// A subscription of a client.
    pub fn one(&self, client: &str, id: SubscriptionId, now: u64) -> Option<Answered> {
        let mut state = self.state();
        let number = state.numbers.get(client).copied()?;
        state.subscriptions.get_mut(&id).filter(|owned| owned.client == number)?.answered(id, now)
    }

    /// Removes what no client has read for [`IDLE`], and forgets what was removed.
    pub fn sweep(&self, desk: &Desk, now: u64) {
        let mut changes: BTreeMap<Owner, Vec<SubscriptionId>> = BTreeMap::new();
        {
            let mut state = self.state();
            let is_idle = |owned: &Owned| now.saturating_sub(owned.read) > IDLE;
            state.subscriptions.retain(|_, owned| owned.until.is_none() || !is_idle(owned));
            for (id, owned) in &state.subscriptions {
                if owned.until.is_none() && is_idle(owned) {
                    changes.entry(Owner::Client(owned.client)).or_default().push(*id);
                }
            }
            desk.keep(state.memory());
        }
        if changes.is_empty() {
            return;
        }
        let all = changes.iter().map(|(owner, ids)| Change::Remove(*owner, ids.clone())).collect();
        // A plan with fewer subscriptions compiles.
        let Ok(prepared) = desk.prepare(all) else { return };
        prepared.post();
        let mut state = self.state();
        for id in changes.values().flatten() {
            state.subscriptions.remove(id);
        }
        desk.keep(state.memory());
    }
}

impl State {
    /// The number of a client, which is given to no other one.
    fn number(&mut self, client: &str) -> u32 {
        let next = self.numbers.len() as u32 + 1;
        *self.numbers.entry(client.to_owned()).or_insert(next)
    }

    /// Adds answers of an interval of the run to the sums of their subscriptions.
    fn add(&mut self, interval: Interval, watched: Interval, answers: Vec<Answer>) {
        for Answer { id, reading, .. } in answers {
            if let Some(owned) = self.subscriptions.get_mut(&id.subscription) {
                owned.add(id.place, interval, watched, reading);
            }
        }
    }

    /// Bytes that the sums of all clients may take.
    fn memory(&self) -> usize {
        self.subscriptions.values().map(|owned| owned.memory).sum()
    }

    /// Checks the limits for further subscriptions with sums of these sizes, in bytes. `room`: bytes for all clients.
    fn may_add(&self, client: &str, memory: &[usize], room: usize) -> Result<(), Refused> {
        let number = self.numbers.get(client);
        let own = self.subscriptions.values().filter(|owned| Some(&owned.client) == number);
        let (count, used) = own.fold((0, 0), |(count, used), owned| (count + 1, used + owned.memory));
        let more: usize = memory.iter().sum();
        let limit = |of: &str, most: String| Err(Refused::Limit(format!("{of} at most {most}")));
        if count + memory.len() > MAX_OF_ONE {
            return limit("a client has", format!("{MAX_OF_ONE} subscriptions"));
        }
        if self.subscriptions.len() + memory.len() > MAX_OF_ALL {
            return limit("all clients together have", format!("{MAX_OF_ALL} subscriptions"));
        }
        if used.saturating_add(more) > room / 2 {
            return limit("the answers of a client take", memory::bytes(room / 2));
        }
        if self.memory().saturating_add(more) > room {
            return limit("the answers of all clients take", memory::bytes(room));
        }
        Ok(())
    }
}

impl Owned {
    /// `alone` is the plan of the subscription alone, whose answers have seen nothing.
    fn new(client: u32, spec: Arc<SubscriptionSpec>, alone: &Plan, memory: usize, read: u64) -> Self {
        let sums = alone.outline().answers().map(|(id, answer)| (id.place, Sums::of_nothing(answer)));
        let sums = sums.collect();
        Self { client, spec, from: None, until: None, summed: 0, watched: 0, sums, memory, read }
    }

    /// Adds the reading of a function in an interval of the run.
    fn add(&mut self, place: u16, interval: Interval, watched: Interval, reading: Reading) {
        let own = own_interval(interval, self.spec.interval);
        let watched = self.seen(watched);
        if let Some(sums) = self.sums.get_mut(&place) {
            sums.add(Part { interval: own, watched, reading });
        }
    }

    /// Nanoseconds of a watched time in which the subscription was there.
    fn seen(&self, watched: Interval) -> u64 {
        self.from.map_or(0, |from| {
            let Interval { start, end } = present(watched, from, self.until);
            end - start
        })
    }

    fn answered(&mut self, id: SubscriptionId, now: u64) -> Option<Answered> {
        self.read = now;
        let answers = self.sums.iter().map(|(place, sums)| (*place, sums.answer(self.summed)));
        Some(Answered {
            id,
            spec: Arc::clone(&self.spec),
            from: self.from?,
            until: self.until,
            summed: self.summed,
            watched: self.watched,
            answers: answers.collect(),
        })
    }
}

impl Sums {
    fn of_nothing(answer: &Answer) -> Self {
        let empty = || answer.reading.clone();
        let current = Part { interval: Interval::default(), watched: 0, reading: empty() };
        Self { function: answer.label.function.clone(), total: empty(), current, latest: None }
    }

    fn add(&mut self, part: Part) {
        self.total.merge(&part.reading);
        let current = &mut self.current;
        if part.interval.start <= current.interval.start {
            // What is late belongs to the interval before, whose reading is out already.
            if part.interval == current.interval {
                current.watched += part.watched;
                current.reading.merge(&part.reading);
            }
            return;
        }
        let before = std::mem::replace(current, part);
        self.latest = Some(before).filter(|before| before.interval.end > 0);
    }

    /// `summed`: end in nanoseconds of the last interval of the run that was added.
    fn answer(&self, summed: u64) -> FunctionAnswer {
        let is_over = (1..=summed).contains(&self.current.interval.end);
        let latest = if is_over { Some(&self.current) } else { self.latest.as_ref() };
        FunctionAnswer { function: self.function.clone(), total: self.total.clone(), latest: latest.cloned() }
    }
}

/// The part of a time from `from` until `until`; without length if there is no such part.
fn present(time: Interval, from: Time, until: Option<Time>) -> Interval {
    let start = time.start.max(from.0);
    let end = until.map_or(time.end, |until| time.end.min(until.0));
    Interval { start, end: end.max(start) }
}

/// The interval of a subscription that contains an interval of the run. `length` in nanoseconds; 0 for the run's.
fn own_interval(interval: Interval, length: u64) -> Interval {
    if length == 0 {
        return interval;
    }
    let start = interval.start - interval.start % length;
    Interval { start, end: start.saturating_add(length) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{AnswerId, AnswerLabel, Count, FunctionCall};
    use weir_engine::{ChecksumMode, Settings};

    const SECOND: u64 = 1_000_000_000;

    fn desk(limit: usize) -> Desk {
        let settings = Settings {
            filter: weir_filter::Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let mut desk = Desk::new(settings, "", Vec::new(), Vec::new(), 1, SECOND).unwrap();
        desk.set_limit(limit);
        desk
    }

    fn spec(name: &str, function: FunctionCall) -> SubscriptionSpec {
        SubscriptionSpec::new(name, "udp", vec![function])
    }

    fn packets(name: &str) -> SubscriptionSpec {
        spec(name, FunctionCall::new("packets"))
    }

    /// A second of the run with an answer of a subscription.
    fn second(clients: &Clients, start: u64, id: SubscriptionId, packets: u64) {
        let answer = Answer {
            id: AnswerId { subscription: id, place: 0 },
            label: Arc::new(AnswerLabel::default()),
            reading: Reading::Count(Count { packets, bytes: 0 }),
            nanoseconds: 0,
        };
        let interval = Interval { start: start * SECOND, end: (start + 1) * SECOND };
        clients.interval(interval, interval, vec![answer]);
    }

    fn count(reading: &Reading) -> u64 {
        match reading {
            Reading::Count(count) => count.packets,
            other => panic!("{other:?}"),
        }
    }

    /// The sum, and the last whole interval in seconds with its count.
    fn state(clients: &Clients, client: &str, id: SubscriptionId) -> (u64, Option<(u64, u64, u64)>) {
        let answered = clients.one(client, id, 1).unwrap();
        let [(0, answer)] = answered.answers.as_slice() else { panic!("{answered:?}") };
        let latest = answer.latest.as_ref().map(|Part { interval, reading, .. }| {
            (interval.start / SECOND, interval.end / SECOND, count(reading))
        });
        (count(&answer.total), latest)
    }

    #[test]
    fn answers_are_summed_for_their_client_by_its_intervals() {
        let (desk, clients) = (desk(usize::MAX), Clients::default());
        let long = SubscriptionSpec { interval: 3 * SECOND, ..packets("long") };
        let (_, ids) = clients.add(&desk, "ann", vec![packets("short"), long], 1).unwrap();
        let (_, others) = clients.add(&desk, "bob", vec![packets("short")], 1).unwrap();
        let [short, long] = ids[..] else { panic!("{ids:?}") };
        assert_eq!(state(&clients, "ann", short), (0, None), "nothing was seen");
        for (at, packets) in [(4, 1), (5, 10), (6, 100), (7, 1_000)] {
            second(&clients, at, short, packets);
            second(&clients, at, long, packets);
        }
        assert_eq!(state(&clients, "ann", short), (1_111, Some((7, 8, 1_000))));
        assert_eq!(state(&clients, "ann", long), (1_111, Some((3, 6, 11))));
        second(&clients, 8, long, 0);
        assert_eq!(state(&clients, "ann", long), (1_111, Some((6, 9, 1_100))), "it ends with this second");
        // A subscription of no client, and one of another client.
        second(&clients, 8, SubscriptionId(9_999), 5);
        assert_eq!(state(&clients, "bob", others[0]), (0, None));
        assert!(clients.one("bob", short, 1).is_none() && clients.of("cyd", 1).is_empty());
        assert_eq!(clients.remove(&desk, "bob", &[short], 1), Err(Refused::Unknown));
        assert_eq!(clients.of("ann", 1).len(), 2);
    }

    #[test]
    fn only_watched_time_of_the_subscription_counts() {
        let (desk, clients) = (desk(usize::MAX), Clients::default());
        let long = SubscriptionSpec { interval: 3 * SECOND, ..packets("long") };
        let (_, ids) = clients.add(&desk, "ann", vec![long], 1).unwrap();
        let id = ids[0];
        let owned = |from: u64, until: Option<u64>| {
            let mut state = clients.state();
            let one = state.subscriptions.get_mut(&id).unwrap();
            (one.from, one.until) = (Some(Time(from)), until.map(Time));
        };
        let passes = |start: u64, (from, to): (u64, u64)| {
            let answer = Answer {
                id: AnswerId { subscription: id, place: 0 },
                label: Arc::new(AnswerLabel::default()),
                reading: Reading::Count(Count { packets: 1, bytes: 0 }),
                nanoseconds: 0,
            };
            let interval = Interval { start: start * SECOND, end: (start + 1) * SECOND };
            clients.interval(interval, Interval { start: from, end: to }, vec![answer]);
        };
        let watched = || {
            let one = clients.one("ann", id, 1).unwrap();
            (one.watched, one.answers[0].1.latest.as_ref().map(|part| part.watched))
        };
        let half = SECOND / 2;
        owned(4 * SECOND + half, None);
        passes(3, (3 * SECOND, 4 * SECOND));
        assert_eq!(watched(), (0, None), "it was not there");
        passes(4, (4 * SECOND, 5 * SECOND));
        passes(5, (5 * SECOND, 6 * SECOND));
        assert_eq!(watched(), (3 * half, Some(3 * half)), "it began within its interval");
        // No interface, and then one that came within a second.
        passes(6, (6 * SECOND, 6 * SECOND));
        passes(7, (7 * SECOND + half, 8 * SECOND));
        let late = Interval { start: 7 * SECOND, end: 8 * SECOND };
        clients.late(late, Vec::new());
        owned(4 * SECOND + half, Some(8 * SECOND + half));
        passes(8, (8 * SECOND, 9 * SECOND));
        passes(9, (9 * SECOND, 10 * SECOND));
        assert_eq!(watched(), (5 * half, Some(2 * half)), "it ended within its interval");
        let one = clients.one("ann", id, 1).unwrap();
        let present = one.present(Interval { start: 3 * SECOND, end: 10 * SECOND });
        assert_eq!(present, Interval { start: 4 * SECOND + half, end: 8 * SECOND + half });
    }

    #[test]
    fn a_removed_subscription_is_complete_when_its_last_interval_is() {
        let (desk, clients) = (desk(usize::MAX), Clients::default());
        let (from, ids) = clients.add(&desk, "ann", vec![packets("x")], 1).unwrap();
        let until = clients.remove(&desk, "ann", &ids, 1).unwrap();
        assert!(from < until && desk.subscriptions().is_empty());
        let is_complete = || clients.one("ann", ids[0], 1).unwrap().is_complete();
        assert!(!is_complete());
        let start = until.0 / SECOND;
        second(&clients, start - 1, ids[0], 1);
        assert!(!is_complete());
        second(&clients, start, ids[0], 1);
        assert!(is_complete());
        assert_eq!(clients.remove(&desk, "ann", &ids, 1), Err(Refused::Unknown), "it is removed once");
    }

    #[test]
    fn limits_hold_and_name_themselves() {
        let (small, clients) = (desk(8 << 20), Clients::default());
        let says = |result: Result<_, Refused>, text: &str| match result {
            Err(Refused::Limit(said)) => assert!(said.contains(text), "{said}"),
            other => panic!("{other:?}"),
        };
        let list = || spec("list", FunctionCall::new("top").with("by", "source").with("rows", 65_536));
        says(clients.add(&small, "ann", vec![list()], 1), "the answers of a client take at most 2M");
        assert!(clients.of("ann", 1).is_empty() && small.subscriptions().is_empty());
        let large = desk(usize::MAX);
        let many = |n: usize| (0..n).map(|n| packets(&n.to_string())).collect::<Vec<_>>();
        says(clients.add(&large, "ann", many(MAX_OF_ONE + 1), 1), "at most 1000 subscriptions");
        let (_, ids) = clients.add(&large, "ann", many(MAX_OF_ONE), 1).unwrap();
        says(clients.add(&large, "ann", many(1), 1), "at most 1000 subscriptions");
        for n in 1..MAX_OF_ALL / MAX_OF_ONE {
            clients.add(&large, &n.to_string(), many(MAX_OF_ONE), 1).unwrap();
        }
        says(clients.add(&large, "bob", many(1), 1), "all clients together");
        // Those that were removed count until they are forgotten.
        clients.remove(&large, "ann", &ids, 1).unwrap();
        says(clients.add(&large, "ann", many(1), 1), "at most 1000 subscriptions");
        assert!(matches!(
            clients.add(&large, "ann", vec![spec("x", FunctionCall::new("none"))], 1),
            Err(Refused::Plan(_))
        ));
    }

    #[test]
    fn what_is_not_read_is_removed_and_forgotten() {
        let (desk, clients) = (desk(usize::MAX), Clients::default());
        let (_, read) = clients.add(&desk, "ann", vec![packets("read")], 1).unwrap();
        let (_, left) = clients.add(&desk, "bob", vec![packets("left")], 1).unwrap();
        let (_, gone) = clients.add(&desk, "ann", vec![packets("gone")], 1).unwrap();
        clients.remove(&desk, "ann", &gone, 1).unwrap();
        clients.sweep(&desk, IDLE + 1);
        assert_eq!(desk.subscriptions().len(), 2);
        assert!(clients.one("ann", gone[0], 1).is_some() && clients.one("ann", read[0], 2).is_some());
        clients.sweep(&desk, IDLE + 2);
        let ids: Vec<SubscriptionId> = desk.subscriptions().iter().map(|one| one.id).collect();
        assert_eq!(ids, read, "{left:?} was not read");
        assert!(clients.one("ann", gone[0], 1).is_none() && clients.of("bob", 1).is_empty());
    }
}
