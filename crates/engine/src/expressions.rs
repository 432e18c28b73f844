//! The expressions of a plan, compiled in two generations, so that a change of a few among thousands is fast.
//!
//! The *old* set passes from plan to plan unchanged. What is added later is in the *young* set, the only one that a change
//! compiles. An expression whose last subscription is removed stays in its set, and its counts are not read. Both become one
//! set again when the young one is large or half of the old one is unused. Few expressions are always one set.
//!
//! An expression has one number in both: the young ones follow the old ones.

use std::collections::HashMap;
use std::sync::Arc;
use weir_filter::{FilterError, Masks, MatchCounter, Options, PacketMask, Set, SetError, Strategy, Totals};
use weir_wire::{Batch, FlowKey, Layers, LinkType, Tag};

/// The most expressions that a change compiles. A set of at most as many has no young one: it is compiled whole.
pub(crate) const FEW: usize = 512;

/// Expressions, compiled. Plans share them.
pub(crate) struct Expressions {
    old: Arc<Set>,
    young: Option<Arc<Set>>,
    /// Numbers of the old ones, by their text.
    numbers: Arc<HashMap<String, u32>>,
}

impl Expressions {
    /// Whether there is no expression.
    pub fn is_empty(&self) -> bool {
        self.old.is_empty() && self.young.is_none()
    }

    /// The errors of expressions that can match no packet of a link type, each with the number of its expression.
    pub fn errors(&self, link: LinkType) -> impl Iterator<Item = (u32, FilterError)> + '_ {
        let first = self.old.len() as u32;
        let young = self.young.iter().flat_map(move |young| young.errors(link));
        self.old.errors(link).chain(young.map(move |(number, error)| (first + number, error)))
    }

    /// Whether an expression that a flow's key and tag decide tests VLAN tags.
    pub fn asks_tags(&self) -> bool {
        self.old.asks_tags() || self.young.as_ref().is_some_and(|young| young.asks_tags())
    }

    /// Whether a change leaves the old set as it is, if it is small.
    fn is_large(&self) -> bool {
        self.old.len() > FEW
    }
}

/// Numbers the expressions of a plan, each once.
pub(crate) struct Numbering<'p> {
    /// Expressions that are compiled already.
    before: Option<&'p Expressions>,
    /// Whether new expressions are added to those of `before`, which keep their numbers.
    is_beside: bool,
    /// The texts of the set that is to be compiled, in order, and the number of the first.
    texts: Vec<&'p str>,
    first: u32,
    numbers: HashMap<&'p str, u32>,
    /// The texts that the young set has already.
    known: usize,
    /// For each other text, the first subscription with it.
    users: Vec<usize>,
    /// A bit for each number of the old set that is used.
    used: Vec<u64>,
    remainders: Vec<Vec<u32>>,
}

impl<'p> Numbering<'p> {
    /// Numbers all expressions anew. Those of `before` are not compiled again.
    pub fn afresh(before: Option<&'p Expressions>) -> Self {
        Self {
            before,
            is_beside: false,
            texts: Vec::new(),
            first: 0,
            numbers: HashMap::new(),
            known: 0,
            users: Vec::new(),
            used: Vec::new(),
            remainders: Vec::new(),
        }
    }

    /// Adds to the expressions of a plan, if they are many; else numbers all anew.
    pub fn after(before: Option<&'p Expressions>) -> Self {
        let mut numbering = Self::afresh(before);
        if let Some(before) = before.filter(|before| before.is_large()) {
            numbering.is_beside = true;
            numbering.first = before.old.len() as u32;
            numbering.used = vec![0; before.old.len().div_ceil(64)];
            for text in before.young.iter().flat_map(|young| young.texts()) {
                numbering.numbers.insert(text, numbering.first + numbering.texts.len() as u32);
                numbering.texts.push(text);
            }
            numbering.known = numbering.texts.len();
        }
        numbering
    }

    /// Whether expressions of the plan before keep their numbers.
    pub fn keeps_numbers(&self) -> bool {
        self.is_beside
    }

    /// Marks a number as used.
    pub fn keep(&mut self, number: u32) {
        if let Some(word) = self.used.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// The number of an expression of a subscription.
    pub fn number(&mut self, text: &'p str, subscription: usize) -> u32 {
        let old = self.before.filter(|_| self.is_beside);
        if let Some(number) = old.and_then(|before| before.numbers.get(text)).copied() {
            self.keep(number);
            return number;
        }
        let next = self.first + self.texts.len() as u32;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.texts.push(text);
            self.users.push(subscription);
        }
        number
    }

    /// The number of a remainder: the packets that none of these expressions matches.
    pub fn remainder(&mut self, expressions: Vec<u32>) -> u32 {
        self.remainders.push(expressions);
        self.remainders.len() as u32 - 1
    }

    /// Whether the sets of the plan before can serve on: little was added, and much of the old one is used. A remainder and
    /// its lines are of one set.
    pub fn fits(&self) -> bool {
        let Some(before) = self.before.filter(|_| self.is_beside) else { return true };
        let used: u32 = self.used.iter().map(|word| word.count_ones()).sum();
        self.texts.len() <= FEW
            && used as usize * 2 >= before.old.len()
            && self.remainders == before.old.remainders()
    }

    /// Compiles the expressions. `strategy` forces one.
    ///
    /// # Errors
    /// The subscription of the first expression that does not compile, with the error.
    pub fn compile(
        self,
        options: &Options<'_>,
        strategy: Option<Strategy>,
    ) -> Result<Expressions, (usize, FilterError)> {
        let Self { before, is_beside, texts, known, users, remainders, .. } = self;
        let by = |set: Set| match strategy {
            Some(strategy) => Arc::new(set.by(strategy)),
            None => Arc::new(set),
        };
        let of = |SetError { index, error }: SetError| {
            (index.checked_sub(known).and_then(|at| users.get(at)).copied().unwrap_or_default(), error)
        };
        let (old, young) = before.map_or((None, None), |before| (Some(&before.old), before.young.as_ref()));
        let compiled: Vec<&Set> = old.into_iter().chain(young).map(|set| &**set).collect();
        if let Some(before) = before.filter(|_| is_beside) {
            let young =
                match &before.young {
                    _ if texts.is_empty() => None,
                    Some(young) if users.is_empty() => Some(Arc::clone(young)),
                    _ => Some(by(Set::compile_from(compiled.get(1..).unwrap_or_default(), &texts, options)
                        .map_err(of)?)),
                };
            return Ok(Expressions {
                old: Arc::clone(&before.old),
                young,
                numbers: Arc::clone(&before.numbers),
            });
        }
        let set = Set::compile_with(&compiled, &texts, remainders, options).map_err(of)?;
        // Those of a small set are not looked up later.
        let known = if texts.len() > FEW { texts.as_slice() } else { &[] };
        let numbers = (0..).zip(known).map(|(number, text)| ((*text).to_owned(), number)).collect();
        Ok(Expressions { old: by(set), young: None, numbers: Arc::new(numbers) })
    }
}

/// What a worker has for a set.
trait OfSet {
    fn new(set: &Arc<Set>) -> Self;
    fn set(&self) -> &Arc<Set>;
}

/// What a worker has for the sets of both generations.
struct Generations<T> {
    old: T,
    young: Option<T>,
}

impl<T: OfSet> Generations<T> {
    fn new(expressions: &Expressions) -> Self {
        let Expressions { old, young, .. } = expressions;
        Self { old: T::new(old), young: young.as_ref().map(T::new) }
    }

    /// Changes to the sets of another plan. What belongs to a set that stays is kept.
    fn change(&mut self, expressions: &Expressions) {
        let Expressions { old, young, .. } = expressions;
        let change = |one: &mut T, set: &Arc<Set>| {
            if !Arc::ptr_eq(one.set(), set) {
                *one = T::new(set);
            }
        };
        change(&mut self.old, old);
        match (&mut self.young, young) {
            (Some(one), Some(set)) => change(one, set),
            (one, set) => *one = set.as_ref().map(T::new),
        }
    }

    /// The old generation, then the young one.
    fn each(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.old).chain(&mut self.young)
    }
}

impl OfSet for MatchCounter {
    fn new(set: &Arc<Set>) -> Self {
        MatchCounter::new(Arc::clone(set))
    }

    fn set(&self) -> &Arc<Set> {
        self.set()
    }
}

/// The counters of a worker for both generations.
pub(crate) struct Counters(Generations<MatchCounter>);

impl Counters {
    pub fn new(expressions: &Expressions) -> Self {
        Self(Generations::new(expressions))
    }

    /// Counts for the expressions of another plan. The counts must have been taken.
    pub fn change(&mut self, expressions: &Expressions) {
        self.0.change(expressions);
    }

    /// The counters, the one of the old set first.
    pub fn each(&mut self) -> impl Iterator<Item = &mut MatchCounter> {
        self.0.each()
    }

    /// See [`MatchCounter::packets`].
    pub fn packets(&mut self, batch: Batch<'_>, layers: Option<&[Layers]>) {
        self.each().for_each(|counter| counter.packets(batch, layers));
    }

    /// See [`MatchCounter::packets_outside_flows`].
    pub fn packets_outside_flows(&mut self, batch: Batch<'_>, layers: &[Layers], by_flow: &[u64]) {
        self.each().for_each(|counter| counter.packets_outside_flows(batch, layers, by_flow));
    }

    /// See [`MatchCounter::flow`].
    pub fn flow(&mut self, key: &FlowKey, tag: Tag, source_is_lower: bool, packets: u64, bytes: u64) {
        self.each().for_each(|counter| counter.flow(key, tag, source_is_lower, packets, bytes));
    }

    /// Returns the counts since the last call, by number, and resets them.
    pub fn take(&mut self) -> Totals {
        let Generations { old, young } = &mut self.0;
        let mut totals = old.take();
        if let Some(young) = young {
            totals.expressions.extend(young.take().expressions);
        }
        totals
    }
}

/// Finds the packets of expressions in both generations.
pub(crate) struct Finder(Generations<Found>);

/// A set and the packets of the current block that its expressions match.
struct Found {
    counter: MatchCounter,
    masks: Masks,
}

impl OfSet for Found {
    fn new(set: &Arc<Set>) -> Self {
        Self { counter: MatchCounter::new(Arc::clone(set)), masks: Masks::default() }
    }

    fn set(&self) -> &Arc<Set> {
        self.counter.set()
    }
}

impl Finder {
    pub fn new(expressions: &Expressions) -> Self {
        Self(Generations::new(expressions))
    }

    /// Looks for the expressions of another plan.
    pub fn change(&mut self, expressions: &Expressions) {
        self.0.change(expressions);
    }

    /// Looks for the packets of a block.
    pub fn look(&mut self, block: Batch<'_>, layers: &[Layers]) {
        for Found { counter, masks } in self.0.each() {
            counter.masks(block, layers, masks);
        }
    }

    /// The expressions that match packets of the block, with these packets.
    pub fn matching(&self) -> impl Iterator<Item = (u32, &PacketMask)> {
        let Generations { old, young } = &self.0;
        let first = old.set().len() as u32;
        let young = young.iter().flat_map(|young| young.masks.matching());
        old.masks.matching().chain(young.map(move |(number, mask)| (first + number, mask)))
    }

    /// The packets of the block `all` that none of these expressions matches.
    pub fn remainder(&self, expressions: &[u32], all: &PacketMask) -> PacketMask {
        let Generations { old, young } = &self.0;
        let first = old.set().len() as u32;
        let found = |number: &u32| match number.checked_sub(first) {
            None => old.masks.of(*number),
            Some(number) => young.as_ref().and_then(|young| young.masks.of(number)),
        };
        let mut rest = *all;
        for mask in expressions.iter().filter_map(found) {
            for (word, taken) in rest.iter_mut().zip(mask) {
                *word &= !taken;
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number<'p>(numbering: &mut Numbering<'p>, texts: &'p [String]) -> Vec<u32> {
        (0..).zip(texts).map(|(at, text)| numbering.number(text, at)).collect()
    }

    /// The expressions of a plan with these texts, and the number of each.
    fn compile(before: Option<&Expressions>, texts: &[String]) -> (Expressions, Vec<u32>) {
        let mut numbering = Numbering::after(before);
        let mut numbers = number(&mut numbering, texts);
        if !numbering.fits() {
            numbering = Numbering::afresh(before);
            numbers = number(&mut numbering, texts);
        }
        (numbering.compile(&Options::default(), None).unwrap(), numbers)
    }

    fn ports(ports: std::ops::Range<usize>) -> Vec<String> {
        ports.map(|port| format!("port {port}")).collect()
    }

    fn sizes(expressions: &Expressions) -> (usize, Option<usize>) {
        (expressions.old.len(), expressions.young.as_ref().map(|young| young.len()))
    }

    #[test]
    fn few_expressions_are_one_set() {
        let (few, _) = compile(None, &ports(0..FEW));
        let (more, numbers) = compile(Some(&few), &ports(1..FEW + 1));
        assert_eq!((sizes(&more), numbers[0]), ((FEW, None), 0));
    }

    #[test]
    fn added_expressions_are_a_set_of_their_own_until_they_are_many() {
        let (many, _) = compile(None, &ports(0..FEW + 1));
        let mut texts = ports(0..FEW + 1);
        texts.splice(1..3, ["udp".to_owned(), "tcp".to_owned()]);
        let (second, numbers) = compile(Some(&many), &texts);
        assert_eq!(sizes(&second), (FEW + 1, Some(2)));
        assert!(Arc::ptr_eq(&second.old, &many.old));
        assert_eq!(numbers[..4], [0, FEW as u32 + 1, FEW as u32 + 2, 3]);
        // One that no subscription has any more keeps its place, and serves again.
        texts.splice(1..3, ["port 1".to_owned(), "tcp".to_owned()]);
        let (third, numbers) = compile(Some(&second), &texts);
        assert_eq!((sizes(&third), &numbers[..3]), ((FEW + 1, Some(2)), &[0, 1, FEW as u32 + 2][..]));
        assert!(Arc::ptr_eq(third.young.as_ref().unwrap(), second.young.as_ref().unwrap()));
        let (whole, _) = compile(Some(&third), &ports(0..2 * FEW + 2));
        assert_eq!(sizes(&whole), (2 * FEW + 2, None));
        // Most of the old set is unused.
        let (rest, _) = compile(Some(&whole), &ports(0..FEW));
        assert_eq!(sizes(&rest), (FEW, None));
    }

    #[test]
    fn a_remainder_and_its_lines_are_of_one_set() {
        let texts = ports(0..FEW + 1);
        let mut numbering = Numbering::after(None);
        let lines = number(&mut numbering, &texts);
        numbering.remainder(lines.clone());
        let before = numbering.compile(&Options::default(), None).unwrap();
        let fits = |lines: &[u32]| {
            let mut numbering = Numbering::after(Some(&before));
            number(&mut numbering, &texts);
            numbering.remainder(lines.to_vec());
            numbering.fits()
        };
        assert!(fits(&lines) && !fits(&lines[1..]));
    }

    #[test]
    fn an_error_names_the_subscription_that_added_it() {
        let (many, _) = compile(None, &ports(0..FEW + 1));
        let mut numbering = Numbering::after(Some(&many));
        for (subscription, text) in [(0, "port 5"), (1, "udp"), (2, "no such word (")] {
            numbering.number(text, subscription);
        }
        let error = numbering.compile(&Options::default(), None).err().unwrap();
        assert_eq!(error.0, 2);
    }
}
