//! The functions of a plan: chains with equal first calls over one source share these calls, so that each is computed once.
//!
//! A subscription that begins later joins the functions of those before it: what these have seen until then is kept for them
//! apart ([`crate::planned::Measure`]), so that each has a reading of its own time. A subscription keeps what it shares as long
//! as it lives; those that are removed leave the others as they are.

use crate::edits::Edits;
use crate::planned::{Compiled, MAX_PARTS};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;
use weir_api::{FunctionCall, Subscription, SubscriptionId, SubscriptionSpec};

/// The identity of the functions of a chain, in the order of its calls: for each the first subscription with it.
/// It never changes, although that subscription may be removed before the others.
pub(crate) type Lineage = Arc<[SubscriptionId]>;

/// Finds the lineages of the subscriptions that begin with a plan: among themselves, and with those that are known. `K` is the
/// kind of a source.
pub(crate) struct Lineages<'p, K>(HashMap<(Before<'p, K>, &'p FunctionCall), SubscriptionId>);

impl<K> Default for Lineages<'_, K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// What a function of a chain has before it.
#[derive(Eq, Hash, PartialEq)]
enum Before<'p, K> {
    /// The items of a source: its kind, its expression, and the chart of a remainder.
    Source(K, &'p str, Option<Option<&'p str>>),
    /// The function at this place of the chain of the first subscription with it.
    Function(SubscriptionId, usize),
}

impl<'p, K> Before<'p, K> {
    fn source(kind: K, one: &'p Subscription) -> Self {
        let SubscriptionSpec { expression, remainder, chart, .. } = &*one.spec;
        Self::Source(kind, expression.trim(), remainder.then_some(chart.as_deref()))
    }
}

/// The calls of a subscription at these places, each with whether it is shared.
fn calls(
    one: &Subscription,
    places: impl Iterator<Item = (u16, bool)>,
) -> impl Iterator<Item = (&FunctionCall, bool)> {
    places.filter_map(|(place, is_shared)| Some((one.spec.functions.get(usize::from(place))?, is_shared)))
}

impl<'p, K: Eq + Hash> Lineages<'p, K> {
    /// The lineage of a subscription with this kind of source. `places` are the places of its functions that measure or
    /// select, each with whether it is shared: what a function delivers leaves in the name of its subscription.
    pub fn of(
        &mut self,
        one: &'p Subscription,
        kind: K,
        places: impl Iterator<Item = (u16, bool)>,
    ) -> Lineage {
        let mut before = Before::source(kind, one);
        let first_with = |(at, (call, is_shared))| {
            let here = std::mem::replace(&mut before, Before::Function(one.id, at));
            let first = if is_shared { *self.0.entry((here, call)).or_insert(one.id) } else { one.id };
            before = Before::Function(first, at);
            first
        };
        calls(one, places).enumerate().map(first_with).collect()
    }

    /// Adds a subscription of the plan before, whose functions others may join.
    pub fn know(
        &mut self,
        one: &'p Subscription,
        kind: K,
        places: impl Iterator<Item = (u16, bool)>,
        lineage: &Lineage,
    ) {
        let mut before = Before::source(kind, one);
        for ((at, (call, is_shared)), first) in calls(one, places).enumerate().zip(lineage.iter()) {
            let here = std::mem::replace(&mut before, Before::Function(*first, at));
            if is_shared {
                self.0.entry((here, call)).or_insert(*first);
            }
        }
    }
}

/// A function of a plan.
pub(crate) struct Node {
    /// The position of the first subscription with it, and which of that chain's functions it is.
    pub planned: u32,
    pub call: u32,
    /// Number of functions after it in all chains, which follow it.
    pub below: u32,
    /// Number of functions before it that select.
    pub selects: u32,
    /// Number of subscriptions with it.
    pub readers: u32,
}

/// The functions of a plan as trees, one for each source and first call. Each function is followed by those after it.
#[derive(Default)]
pub(crate) struct Trees {
    pub nodes: Vec<Node>,
    /// The numbers of the functions of each subscription, in the order of its calls.
    paths: Vec<u32>,
    /// Where those of the subscription at each position begin, and the end.
    starts: Vec<u32>,
    /// Bytes of the functions' state in a worker.
    pub state: usize,
    since: Option<Since>,
}

/// The differences to the plan before: a worker that changes from one plan to the other needs not look for them.
pub(crate) struct Since {
    /// The number of that plan.
    number: u64,
    /// The differences of the subscriptions, by position.
    pub subscriptions: Edits,
    /// The differences of the functions.
    pub functions: Edits,
}

/// A chain of a plan.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'p> {
    pub lineage: &'p Lineage,
    pub compiled: &'p Compiled,
}

impl Trees {
    /// The trees of these chains, one for each subscription of a plan.
    pub fn new(chains: &[Chain<'_>]) -> Self {
        let mut trees = Self::default();
        let mut order = Vec::with_capacity(chains.len());
        let mut total = 0;
        for (at, one) in chains.iter().enumerate() {
            trees.starts.push(total);
            total += one.lineage.len() as u32;
            if let Some(first) = one.lineage.first() {
                order.push((*first, at));
            }
        }
        trees.starts.push(total);
        trees.paths.resize(total as usize, 0);
        trees.nodes.reserve(total as usize);
        // Chains with equal first functions lie side by side.
        order.sort_by(|(a, one), (b, other)| {
            a.cmp(b).then_with(|| chains[*one].lineage.cmp(chains[*other].lineage))
        });
        // The functions of the chain before.
        let mut open: Vec<u32> = Vec::new();
        let mut lineage: &[SubscriptionId] = &[];
        for (_, at) in order {
            let one = &chains[at];
            let shared = lineage.iter().zip(&**one.lineage).take_while(|(a, b)| a == b).count();
            trees.close(open.drain(shared..));
            trees.extend(&mut open, at, one);
            lineage = one.lineage;
        }
        trees.close(open.into_iter());
        trees
    }

    /// Adds the functions of a chain after those that it shares with the chain before, `open`.
    fn extend(&mut self, open: &mut Vec<u32>, at: usize, one: &Chain<'_>) {
        for call in open.len()..one.lineage.len() {
            let before = call.checked_sub(1).and_then(|before| Some((before, open.get(before)?)));
            let selects = before.map_or(0, |(before, node)| {
                let above = self.nodes.get(*node as usize).map_or(0, |node| node.selects);
                above + u32::from(one.compiled.selects(before))
            });
            open.push(self.nodes.len() as u32);
            self.state += one.compiled.memory_of(call).state;
            self.nodes.push(Node { planned: at as u32, call: call as u32, below: 0, selects, readers: 0 });
        }
        let start = self.starts.get(at).map_or(0, |start| *start as usize);
        for (step, node) in self.paths.iter_mut().skip(start).zip(&*open) {
            *step = *node;
        }
        for (call, node) in open.iter().enumerate() {
            let Some(node) = self.nodes.get_mut(*node as usize) else { continue };
            node.planned = node.planned.min(at as u32);
            node.readers += 1;
            // What was taken of a shared function before the end of the interval waits for it.
            if node.readers == 2 {
                self.state += MAX_PARTS * one.compiled.memory_of(call).reading;
            }
        }
    }

    /// Notes that nothing follows these functions any more.
    fn close(&mut self, nodes: impl Iterator<Item = u32>) {
        let all = self.nodes.len() as u32;
        for at in nodes {
            if let Some(node) = self.nodes.get_mut(at as usize) {
                node.below = all - 1 - at;
            }
        }
    }

    /// The place of each function in the trees of another plan, if it has it. `origins` has the positions of the subscriptions
    /// there.
    pub fn origins(&self, before: &Trees, origins: &[Option<usize>]) -> Vec<Option<u32>> {
        let mut places = vec![None; self.nodes.len()];
        for (at, was) in origins.iter().enumerate().filter_map(|(at, was)| Some((at, (*was)?))) {
            for (node, was) in self.path(at).iter().zip(before.path(was)) {
                if let Some(place) = places.get_mut(*node as usize) {
                    *place = Some(*was);
                }
            }
        }
        places
    }

    /// Notes the differences to the trees of the plan before, whose number this is. `origins` as for [`Trees::origins`].
    pub fn follow(&mut self, number: u64, before: &Trees, origins: &[Option<usize>]) {
        let functions = Edits::of(before.nodes.len(), &self.origins(before, origins));
        let places: Vec<Option<u32>> = origins.iter().map(|was| was.map(|was| was as u32)).collect();
        let subscriptions = Edits::of(before.starts.len().saturating_sub(1), &places);
        self.since = subscriptions.zip(functions).map(|(subscriptions, functions)| Since {
            number,
            subscriptions,
            functions,
        });
    }

    /// The differences to the plan with that number, if they were noted.
    pub fn since(&self, number: u64) -> Option<&Since> {
        self.since.as_ref().filter(|since| since.number == number)
    }

    /// Number of functions that several subscriptions share.
    pub fn shared(&self) -> usize {
        self.nodes.iter().filter(|node| node.readers > 1).count()
    }

    /// The numbers of the functions of the subscription at a position, in the order of its calls.
    pub fn path(&self, at: usize) -> &[u32] {
        let range = self.starts.get(at).zip(self.starts.get(at + 1));
        range.and_then(|(start, end)| self.paths.get(*start as usize..*end as usize)).unwrap_or_default()
    }

    /// Whether the subscription at a position is the first one of its tree: items are shown to the tree in its place.
    pub fn leads(&self, at: usize) -> bool {
        let root = self.path(at).first().and_then(|root| self.nodes.get(*root as usize));
        root.is_some_and(|root| root.planned as usize == at)
    }

    /// The functions of the tree of the subscription at a position.
    pub fn tree(&self, at: usize) -> Range<usize> {
        let root = self.path(at).first().and_then(|root| Some((*root, self.nodes.get(*root as usize)?)));
        root.map_or(0..0, |(root, node)| root as usize..(root + node.below) as usize + 1)
    }
}
