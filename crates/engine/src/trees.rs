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

/// The identity of a function: the first subscription with it, and which of the functions of that one's chain it is. It never
/// changes, although that subscription may be removed before the others.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Origin {
    subscription: SubscriptionId,
    call: u32,
}

/// The identity of the functions of a chain, in the order of its calls.
pub(crate) type Lineage = Arc<[Origin]>;

/// Finds the lineages of the subscriptions that begin with a plan: among themselves, and with those that are known. `K` is the
/// kind of a source.
pub(crate) struct Lineages<'p, K>(HashMap<(Before<'p, K>, &'p FunctionCall), Origin>);

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
    /// The function before it in its chain.
    Function(Origin),
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
    /// The lineage of a subscription. `kind` gives the kind of the source of a function that has one: the first of a chain, or
    /// all. `places` are the places of the functions that measure or select, each with whether it is shared: what a function
    /// delivers leaves in the name of its subscription.
    pub fn of(
        &mut self,
        one: &'p Subscription,
        kind: impl Fn(usize) -> Option<K>,
        places: impl Iterator<Item = (u16, bool)>,
    ) -> Lineage {
        let mut lineage: Vec<Origin> = Vec::new();
        for (at, (call, is_shared)) in calls(one, places).enumerate() {
            let own = Origin { subscription: one.id, call: at as u32 };
            let before = before(kind(at), one, lineage.last());
            let first =
                before.filter(|_| is_shared).map(|before| *self.0.entry((before, call)).or_insert(own));
            // A call that stands twice in a chain has two readings.
            let is_other = |first: &Origin| first.subscription != one.id && !lineage.contains(first);
            lineage.push(first.filter(is_other).unwrap_or(own));
        }
        lineage.into()
    }

    /// Adds a subscription of the plan before, whose functions others may join.
    pub fn know(
        &mut self,
        one: &'p Subscription,
        kind: impl Fn(usize) -> Option<K>,
        places: impl Iterator<Item = (u16, bool)>,
        lineage: &Lineage,
    ) {
        let mut last = None;
        for ((at, (call, is_shared)), first) in calls(one, places).enumerate().zip(lineage.iter()) {
            if let Some(before) = before(kind(at), one, last).filter(|_| is_shared) {
                self.0.entry((before, call)).or_insert(*first);
            }
            last = Some(first);
        }
    }
}

/// What a function has before it: its source, if it has one of this kind, else the function before it.
fn before<'p, K>(kind: Option<K>, one: &'p Subscription, last: Option<&Origin>) -> Option<Before<'p, K>> {
    match kind {
        Some(kind) => Some(Before::source(kind, one)),
        None => last.map(|last| Before::Function(*last)),
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
    /// Whether each function has a source of its own.
    pub is_apart: bool,
}

impl Chain<'_> {
    /// The parts of the chain whose functions follow each other.
    fn strands(&self) -> impl Iterator<Item = Range<usize>> {
        let all = self.lineage.len();
        let step = if self.is_apart { 1 } else { all.max(1) };
        (0..all).step_by(step).map(move |first| first..first + step)
    }
}

/// The beginning of a tree: items are shown to it once.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Root {
    /// The position of the first subscription with it, which its cost is charged to.
    pub at: usize,
    /// The number of its first function.
    pub node: u32,
}

impl Trees {
    /// The trees of these chains, one chain for each subscription of a plan.
    pub fn new(chains: &[Chain<'_>]) -> Self {
        let mut trees = Self::default();
        let mut order = Vec::with_capacity(chains.len());
        let mut total = 0;
        for (at, one) in chains.iter().enumerate() {
            trees.starts.push(total);
            total += one.lineage.len() as u32;
            order.extend(one.strands().map(|strand| (&one.lineage[strand.clone()], at, strand)));
        }
        trees.starts.push(total);
        trees.paths.resize(total as usize, 0);
        trees.nodes.reserve(total as usize);
        // Those with equal first functions lie side by side.
        order.sort_by_key(|(functions, ..)| *functions);
        // The functions of the strand before.
        let mut open: Vec<u32> = Vec::new();
        let mut lineage: &[Origin] = &[];
        for (functions, at, strand) in order {
            let shared = lineage.iter().zip(functions).take_while(|(a, b)| a == b).count();
            trees.close(open.drain(shared..));
            trees.extend(&mut open, at, &chains[at], strand);
            lineage = functions;
        }
        trees.close(open.into_iter());
        trees
    }

    /// Adds the functions of a strand after those that it shares with the strand before, `open`.
    fn extend(&mut self, open: &mut Vec<u32>, at: usize, one: &Chain<'_>, strand: Range<usize>) {
        for call in strand.clone().skip(open.len()) {
            let before = open.last().map(|node| (call - 1, node));
            let selects = before.map_or(0, |(before, node)| {
                let above = self.nodes.get(*node as usize).map_or(0, |node| node.selects);
                above + u32::from(one.compiled.selects(before))
            });
            open.push(self.nodes.len() as u32);
            self.state += one.compiled.memory_of(call).state;
            self.nodes.push(Node { planned: at as u32, call: call as u32, below: 0, selects, readers: 0 });
        }
        let start = self.starts.get(at).map_or(0, |start| *start as usize);
        for (step, node) in self.paths.iter_mut().skip(start + strand.start).zip(&*open) {
            *step = *node;
        }
        for (call, node) in strand.zip(&*open) {
            let Some(node) = self.nodes.get_mut(*node as usize) else { continue };
            if (at as u32) < node.planned {
                (node.planned, node.call) = (at as u32, call as u32);
            }
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

    /// The trees that the subscription at a position is the first one of, each with which of its functions begins it. `count`
    /// is the number of its sources.
    pub fn roots(&self, at: usize, count: usize) -> impl Iterator<Item = (Root, usize)> {
        let is_first = move |(call, node): &(usize, &u32)| {
            let node = self.nodes.get(**node as usize);
            node.is_some_and(|node| node.planned as usize == at && node.call as usize == *call)
        };
        let first = self.path(at).iter().enumerate().take(count).filter(is_first);
        first.map(move |(call, node)| (Root { at, node: *node }, call))
    }

    /// The functions of a tree.
    pub fn tree(&self, root: u32) -> Range<usize> {
        let node = self.nodes.get(root as usize);
        node.map_or(0..0, |node| root as usize..(root + node.below) as usize + 1)
    }

    /// The functions of the tree of the subscription at a position, whose functions follow each other.
    pub fn tree_of(&self, at: usize) -> Range<usize> {
        self.path(at).first().map_or(0..0, |root| self.tree(*root))
    }
}
