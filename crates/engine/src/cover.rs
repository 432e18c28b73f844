//! The tests of flows and of records by the subscriptions of a plan, compiled in two generations, as [`crate::expressions`] are: a
//! change of a few among thousands compiles these few.
//!
//! The *old* tests pass from plan to plan unchanged. Tests that are added later are the *young* ones, which a change compiles
//! anew. The test of a removed subscription stays, and its number leads to no subscription. Both generations become one when
//! many were added, or when half of the old ones belong to removed subscriptions.

use crate::expressions::FEW;
use crate::fields::RecordView;
use crate::planned::{Compiled, Reads};
use std::collections::HashMap;
use std::sync::Arc;
use weir_api::SubscriptionId;
use weir_filter::{Directions, FlowRow, FlowTest, FlowTests, Matches, RecordSet};

/// A subscription of a plan that covers flows or records.
pub(crate) struct Covering<'p> {
    pub id: SubscriptionId,
    /// Its position in the plan.
    pub at: usize,
    pub compiled: &'p Compiled,
}

/// Tests of many subscriptions, compiled; a test's number is its position.
pub(crate) trait Tests {
    fn compile<'p>(all: impl Iterator<Item = &'p Compiled>) -> Self;
}

impl Tests for FlowTests {
    fn compile<'p>(all: impl Iterator<Item = &'p Compiled>) -> Self {
        const ALWAYS: FlowTest = FlowTest::All(Vec::new());
        FlowTests::new(all.map(|compiled| compiled.flow_test.clone().unwrap_or(ALWAYS)))
    }
}

/// Tests of the key of flows that subscriptions have to be read for.
pub(crate) struct Possible(FlowTests);

impl Tests for Possible {
    fn compile<'p>(all: impl Iterator<Item = &'p Compiled>) -> Self {
        let test = |compiled: &'p Compiled| match &compiled.reads {
            Reads::Of(test) => test.clone(),
            Reads::Nothing => FlowTest::Any(Vec::new()),
            Reads::All => FlowTest::All(Vec::new()),
        };
        Possible(FlowTests::new(all.map(test)))
    }
}

impl Cover<Possible> {
    /// Whether a flow has to be read for a subscription. `found` is reused memory.
    pub fn covers<R: FlowRow>(&self, flow: &R, found: &mut Vec<(u32, Directions)>) -> bool {
        self.generations().any(|(first, Possible(tests))| {
            tests.matches(flow, found);
            found.iter().any(|(number, directions)| {
                *directions != Directions::NONE && self.position(first, *number).is_some()
            })
        })
    }
}

impl Tests for RecordSet {
    fn compile<'p>(all: impl Iterator<Item = &'p Compiled>) -> Self {
        RecordSet::new(all.filter_map(|compiled| compiled.record_test.as_ref()))
    }
}

/// Compiled tests, each with its subscription.
struct Generation<T> {
    tests: T,
    ids: Vec<SubscriptionId>,
    /// The number of each subscription's test.
    numbers: HashMap<SubscriptionId, u32>,
}

impl<T: Tests> Generation<T> {
    fn compile<'p>(all: impl Iterator<Item = &'p Covering<'p>> + Clone) -> Arc<Self> {
        let ids: Vec<SubscriptionId> = all.clone().map(|one| one.id).collect();
        let numbers = ids.iter().copied().zip(0..).collect();
        Arc::new(Self { tests: T::compile(all.map(|one| one.compiled)), ids, numbers })
    }
}

/// No position: the subscription is no longer in the plan.
const REMOVED: u32 = u32::MAX;

/// The tests by which subscriptions of a plan cover flows, streams or records.
pub(crate) struct Cover<T> {
    old: Arc<Generation<T>>,
    young: Option<Arc<Generation<T>>>,
    /// The position in the plan of the subscription of each test: those of the old tests, then those of the young ones.
    positions: Vec<u32>,
    /// Number of subscriptions in the plan.
    live: usize,
}

impl<T: Tests> Cover<T> {
    /// The tests of subscriptions of a plan. Reuses what the plan before has compiled.
    pub fn after(before: Option<&Cover<T>>, all: &[Covering<'_>]) -> Self {
        before.and_then(|before| before.changed(all)).unwrap_or_else(|| Self {
            old: Generation::compile(all.iter()),
            young: None,
            positions: all.iter().map(|one| one.at as u32).collect(),
            live: all.len(),
        })
    }

    /// The tests of another plan with the same old generation, if few were added to it and half of it is used.
    fn changed(&self, all: &[Covering<'_>]) -> Option<Self> {
        let mut positions = vec![REMOVED; self.old.ids.len()];
        let mut young = Vec::new();
        let mut next = 0;
        for one in all {
            // Most follow one another as before.
            let number = match self.old.ids.get(next) == Some(&one.id) {
                true => Some(next),
                false => self.old.numbers.get(&one.id).map(|number| *number as usize),
            };
            match number.and_then(|number| Some((number, positions.get_mut(number)?))) {
                Some((number, position)) => (*position, next) = (one.at as u32, number + 1),
                None => young.push(one),
            }
        }
        let is_small = self.old.ids.len() <= FEW;
        let used = all.len() - young.len();
        if young.len() > FEW || used * 2 < self.old.ids.len() || (is_small && !young.is_empty()) {
            return None;
        }
        positions.extend(young.iter().map(|one| one.at as u32));
        let each = || young.iter().copied();
        let young = match &self.young {
            _ if young.is_empty() => None,
            Some(before) if each().map(|one| one.id).eq(before.ids.iter().copied()) => {
                Some(Arc::clone(before))
            }
            _ => Some(Generation::compile(each())),
        };
        Some(Self { old: Arc::clone(&self.old), young, positions, live: all.len() })
    }
}

impl<T> Cover<T> {
    /// Whether the plan has no such subscription.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The position of the subscription of a test, if the plan has it. `first` is the number of its generation's first test.
    fn position(&self, first: usize, number: u32) -> Option<usize> {
        let at = self.positions.get(first + number as usize)?;
        (*at != REMOVED).then_some(*at as usize)
    }

    /// The tests of each generation, with the number of its first one.
    fn generations(&self) -> impl Iterator<Item = (usize, &T)> {
        let young = self.young.iter().map(|young| (self.old.ids.len(), &young.tests));
        std::iter::once((0, &self.old.tests)).chain(young)
    }
}

impl Cover<FlowTests> {
    /// Calls `each` with the position of every subscription that covers a direction of a flow, and the directions that it
    /// covers. `found` is reused memory.
    pub fn each<R: FlowRow>(
        &self,
        flow: &R,
        found: &mut Vec<(u32, Directions)>,
        mut each: impl FnMut(usize, Directions),
    ) {
        for (first, tests) in self.generations() {
            tests.matches(flow, found);
            for (number, directions) in found.iter() {
                if let Some(at) = self.position(first, *number) {
                    each(at, *directions);
                }
            }
        }
    }
}

impl Cover<RecordSet> {
    /// Calls `each` with the position of every subscription that covers a record. `found` is reused memory.
    pub fn each(&self, record: &RecordView<'_>, found: &mut Matches, mut each: impl FnMut(usize)) {
        for (first, tests) in self.generations() {
            let numbers = tests.matches(record, found).iter();
            numbers.filter_map(|number| self.position(first, *number)).for_each(&mut each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChecksumMode, Plan, Settings};
    use weir_api::{FunctionCall, Level, Owner, Subscription, SubscriptionSpec};
    use weir_filter::FlowEndpoints;
    use weir_filter::Options;
    use weir_wire::mapped;

    /// A plan of subscriptions at flow level, one for each of these ports, after another plan.
    fn plan(before: Option<&Plan>, ports: &[u32]) -> Plan {
        let subscription = |port: &u32| Subscription {
            id: SubscriptionId(*port),
            owner: Owner::Client(1),
            spec: Arc::new(SubscriptionSpec {
                level: Level::Flow,
                ..SubscriptionSpec::new("line", &format!("port {port}"), vec![FunctionCall::new("packets")])
            }),
        };
        let settings = Settings {
            filter: Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        let all: Vec<Subscription> = ports.iter().map(subscription).collect();
        Plan::of(before, 1, "", &all, settings).unwrap()
    }

    /// The positions of the subscriptions that cover a flow with these ports.
    fn covering(cover: &Cover<FlowTests>, port: [u32; 2]) -> Vec<usize> {
        let address = [mapped([10, 0, 0, 1]), mapped([10, 0, 0, 2])];
        let flow = FlowEndpoints { address, port: port.map(|port| port as u16), protocol: 6, vlan: 0 };
        let mut positions = Vec::new();
        cover.each(&flow, &mut Vec::new(), |at, _| positions.push(at));
        positions.sort_unstable();
        positions
    }

    fn sizes(cover: &Cover<FlowTests>) -> (usize, Option<usize>) {
        (cover.old.ids.len(), cover.young.as_ref().map(|young| young.ids.len()))
    }

    #[test]
    fn changes_among_many_compile_what_was_added() {
        const MANY: u32 = FEW as u32 + 100;
        let mut ports: Vec<u32> = (1..=MANY).collect();
        let first = plan(None, &ports);
        let expected = |ports: &[u32], pair: [u32; 2]| {
            (0..ports.len()).filter(|at| pair.contains(&ports[*at])).collect::<Vec<_>>()
        };
        // One removed, two added, two that change places.
        ports.remove(7);
        ports.insert(3, 5_000);
        ports.push(5_001);
        ports.swap(20, 30);
        let second = plan(Some(&first), &ports);
        assert!(Arc::ptr_eq(&first.flow_ends.old, &second.flow_ends.old));
        assert_eq!(sizes(&second.flow_ends), (MANY as usize, Some(2)));
        for pair in [[5_000, 5_001], [8, 9], [21, 31], [1, MANY], [4, 5_001], [8, 5_000]] {
            assert_eq!(covering(&second.flow_ends, pair), expected(&ports, pair), "{pair:?}");
        }
        assert_eq!(covering(&second.flow_ends, [8, 8]), [0; 0]);
        // A removed subscription that comes again has another number; the young ones are kept if none changes.
        ports.remove(100);
        let third = plan(Some(&second), &ports);
        let young = |plan: &Plan| Arc::clone(plan.flow_ends.young.as_ref().unwrap());
        assert!(Arc::ptr_eq(&young(&second), &young(&third)));
        assert_eq!(covering(&third.flow_ends, [5_001, 200]), expected(&ports, [5_001, 200]));
        // Without most of the old ones they are compiled anew.
        ports.truncate(200);
        let fourth = plan(Some(&third), &ports);
        assert_eq!(sizes(&fourth.flow_ends), (200, None));
        assert_eq!(covering(&fourth.flow_ends, [5_000, 9]), expected(&ports, [5_000, 9]));
        assert!(plan(Some(&fourth), &[]).flow_ends.is_empty());
    }

    #[test]
    fn few_tests_are_one_generation() {
        let first = plan(None, &[80, 443]);
        let second = plan(Some(&first), &[80, 443, 22]);
        assert_eq!(sizes(&second.flow_ends), (3, None));
        let third = plan(Some(&second), &[80, 443]);
        assert!(covering(&third.flow_ends, [22, 22]).is_empty());
        assert_eq!(covering(&third.flow_ends, [443, 22]), [1]);
    }
}
