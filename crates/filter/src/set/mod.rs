//! Many expressions as one plan.
//!
//! A [`Set`] splits each expression (`lower.rs`) into tests that the flow key decides and tests that can change from
//! packet to packet, and shares common parts. A [`MatchCounter`] puts packets through it by one of three strategies:
//!
//! - **Columns** (`columns.rs`): the packets of a batch are stored in columns, each comparison covers a column with SIMD and
//!   is made once for all expressions, and expressions combine masks. For sets of some hundreds.
//! - **Index** (`index.rs`): prefix trees and tables of ports find the expressions that match without touching the others. For
//!   thousands, and for the exact list of expressions that match a packet.
//! - **Programs**: the expression's own program runs if the others cannot decide: for an expression without such parts, and
//!   for a packet that is too short for a comparison (a load beyond it rejects the packet, whatever else holds, so that the
//!   order of the tests matters).
//!
//! All strategies give libpcap's verdict, packet by packet; one test forces each of them. Tests that depend only on
//! the flow key can be counted by flow: [`MatchCounter::flow`] adds many packets at once, and
//! [`MatchCounter::packets_outside_flows`] adds the rest.

mod bits;
mod bound;
mod columns;
mod counter;
mod explain;
mod flows;
mod index;
mod kind;
mod look;
mod lower;
mod matching;
mod places;
mod ranges;
mod simd;

pub use counter::{MatchCounter, Totals};
pub use explain::{Comparison, Decided, Explanation, check};
pub use index::Total;
pub use matching::{MASK_PACKETS, Masks, PacketMask};

use crate::FilterError;
use crate::ast::Expr;
use crate::filter::{Filter, Options};
use bound::Atoms;
use columns::ColumnPlan;
use foldhash::HashMap;
use index::{ExpressionTerms, Index, Places};
use kind::{Classes, Kinds};
use lower::{Lowered, Term, lower};
use places::{AddressEndpoints, AddressStretches, PortEndpoints, PortStretches};
use simd::{InstructionSet, prefetch};
use std::sync::{Arc, OnceLock};
use weir_wire::LinkType;

/// The strategy by which packets are put through a set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Strategy {
    /// Every comparison over columns of packets.
    Columns,
    /// Prefix trees and tables of ports.
    Index,
    /// Each expression's own program.
    Programs,
}

/// Number of vector comparisons for a batch beyond which the index is faster.
const MAX_COLUMN_COST: usize = 600;

/// An expression that does not compile.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SetError {
    /// Number of the expression, counted from 0.
    pub index: usize,
    /// The error.
    pub error: FilterError,
}

impl std::fmt::Display for SetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for SetError {}

/// An expression of a set. Plans that have the expression share it.
#[derive(Debug)]
struct Expression {
    text: String,
    expr: Option<Expr>,
    /// The expression in parts; `None` if its program decides.
    lowered: Option<Lowered>,
    /// Its program, compiled when the first packet needs it.
    filter: OnceLock<Filter>,
}

/// Whether every verdict is symmetric in the addresses, or in the ports.
#[derive(Clone, Copy, Debug)]
struct Indifferent {
    addresses: bool,
    ports: bool,
}

/// The inputs of a set's expressions, apart from their text.
#[derive(Clone, Copy)]
struct SetOptions {
    strict_bpf: bool,
    inner: bool,
    live: bool,
    swapped: bool,
    netmask: Option<u32>,
}

impl SetOptions {
    fn of(options: &Options<'_>) -> Self {
        let Options { strict_bpf, inner, live, swapped, netmask, .. } = *options;
        Self { strict_bpf, inner, live, swapped, netmask }
    }

    fn to_options(self) -> Options<'static> {
        let Self { strict_bpf, inner, live, swapped, netmask } = self;
        Options { strict_bpf, inner, live, swapped, netmask, ..Options::default() }
    }
}

/// Expressions, compiled into one immutable plan that workers share.
pub struct Set {
    options: SetOptions,
    expressions: Vec<Arc<Expression>>,
    /// For each remainder, the expressions that it excludes.
    remainders: Vec<Vec<u32>>,
    strategy: Strategy,
    isa: InstructionSet,
    classes: Classes,
    addresses: AddressStretches,
    ports: PortStretches,
    /// Intervals of VLAN tags.
    tags: PortStretches,
    asks_tags: bool,
    atoms: Atoms,
    /// The tests that the flow key decides, and the others.
    keyed: Index,
    changing: Index,
    plan: ColumnPlan,
    /// TCP flags of which a packet must have one to match anything that changes from packet to packet; `None` if no
    /// flag is required.
    changing_flags: Option<u8>,
    /// Expressions that only their program decides.
    programs: Vec<u32>,
    /// Whether the verdict of each can change from packet to packet of a flow.
    is_changing: Vec<bool>,
    /// Expressions that are evaluated for every packet that is too short for a comparison.
    wary: Vec<u32>,
    /// Expressions that are evaluated for every packet of a link type other than Ethernet.
    ethernet_only: Vec<u32>,
    /// Properties that no expression distinguishes.
    indifferent: Indifferent,
    /// For each expression, the remainders that exclude it: `chart_words` words.
    charts: Vec<u64>,
    chart_words: usize,
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Set")
            .field("expressions", &self.expressions.len())
            .field("way", &self.strategy)
            .finish()
    }
}

impl Set {
    /// Compiles expressions; an empty one matches every packet.
    ///
    /// # Errors
    ///
    /// The first expression that does not compile.
    pub fn compile<E: AsRef<str>>(expressions: &[E], options: &Options<'_>) -> Result<Self, SetError> {
        Self::compile_from(&[], expressions, options)
    }

    /// Compiles expressions, and reuses what the sets of `before` have compiled with equal options.
    ///
    /// # Errors
    ///
    /// The first expression that does not compile.
    pub fn compile_from<E: AsRef<str>>(
        before: &[&Set],
        expressions: &[E],
        options: &Options<'_>,
    ) -> Result<Self, SetError> {
        Self::compile_with(before, expressions, Vec::new(), options)
    }

    /// Compiles expressions with remainders, see [`Set::with_remainders`].
    ///
    /// # Errors
    ///
    /// The first expression that does not compile.
    pub fn compile_with<E: AsRef<str>>(
        before: &[&Set],
        expressions: &[E],
        remainders: Vec<Vec<u32>>,
        options: &Options<'_>,
    ) -> Result<Self, SetError> {
        let known: HashMap<&str, &Arc<Expression>> =
            before.iter().flat_map(|set| &set.expressions).map(|e| (e.text.as_str(), e)).collect();
        let mut compiled = Vec::with_capacity(expressions.len());
        for (index, text) in expressions.iter().enumerate() {
            let text = text.as_ref();
            compiled.push(match known.get(text) {
                Some(expression) => Arc::clone(expression),
                None => Arc::new(Expression::new(text, options).map_err(|error| SetError { index, error })?),
            });
        }
        Ok(Self::of(compiled, remainders, SetOptions::of(options)))
    }

    /// Returns the set with remainders: for each list, the packets that none of its expressions matches are counted,
    /// see [`Totals::remainders`]. Numbers without an expression are skipped.
    #[must_use]
    pub fn with_remainders(self, remainders: Vec<Vec<u32>>) -> Self {
        let strategy = self.strategy;
        Self::of(self.expressions, remainders, self.options).by(strategy)
    }

    /// The set with one more expression at the end.
    pub fn with(&self, expression: &str, options: &Options<'_>) -> Result<Self, FilterError> {
        let mut expressions = self.expressions.clone();
        expressions.push(Arc::new(Expression::new(expression, options)?));
        Ok(Self::of(expressions, self.remainders.clone(), self.options))
    }

    /// The set without the expression of that number. Later expressions move up.
    #[must_use]
    pub fn without(&self, index: usize) -> Self {
        let mut expressions = self.expressions.clone();
        if index < expressions.len() {
            expressions.remove(index);
        }
        let moved = |of: u32| match (of as usize).cmp(&index) {
            std::cmp::Ordering::Less => Some(of),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(of - 1),
        };
        let moved = |list: &Vec<u32>| list.iter().copied().filter_map(moved).collect();
        Self::of(expressions, self.remainders.iter().map(moved).collect(), self.options)
    }

    /// Returns the set with a forced strategy.
    #[must_use]
    pub fn by(mut self, strategy: Strategy) -> Self {
        if strategy == Strategy::Columns && self.expressions.len() > MAX_COLUMN_COST {
            let parts = Parts::of(&self.expressions, &self.atoms);
            self.plan = ColumnPlan::new(&parts.sources, &self.classes);
        }
        self.strategy = strategy;
        self
    }

    /// The strategy in use: the forced one, or the one found to be fastest.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Number of expressions.
    pub fn len(&self) -> usize {
        self.expressions.len()
    }

    /// The errors of expressions that can match no packet of a link type, each with the number of its expression.
    pub fn errors(&self, link: LinkType) -> impl Iterator<Item = (u32, FilterError)> + '_ {
        let expressions = self.expressions.iter().zip(0..);
        // Parts of expressions for which no program was compiled exist on Ethernet.
        let doubtful =
            expressions.filter(move |(e, _)| link != LinkType::ETHERNET || e.filter.get().is_some());
        doubtful.filter_map(move |(_, number)| Some((number, self.filter(number)?.error(link)?)))
    }

    /// The texts of the expressions, in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.expressions.iter().map(|expression| expression.text.as_str())
    }

    /// For each remainder, the expressions that it excludes.
    pub fn remainders(&self) -> &[Vec<u32>] {
        &self.remainders
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Whether nothing depends on more than the flow's key, so that [`MatchCounter::packets_outside_flows`] needs only the
    /// packets that no flow covers.
    pub fn is_keyed(&self) -> bool {
        self.changing.is_empty() && self.programs.is_empty()
    }

    /// Whether an expression that a flow's key and tag decide tests VLAN tags.
    #[inline]
    pub fn asks_tags(&self) -> bool {
        self.asks_tags
    }

    fn of(expressions: Vec<Arc<Expression>>, remainders: Vec<Vec<u32>>, options: SetOptions) -> Self {
        let mut atoms = Atoms::new(&expressions, options);
        let parts = Parts::of(&expressions, &atoms);
        let classes = Classes::new(parts.kinds.iter().copied().chain(atoms.kinds()));
        let Parts { sources, kinds, kinds_of_terms, addresses, ports, tags, .. } = parts;
        let Parts { indifferent, wary, ethernet_only, .. } = parts;
        let (addresses, ports) = (addresses.stretches(), ports.stretches());
        let asks_tags = tags.is_some();
        let tags = tags.map_or_else(PortStretches::none, |tags| tags.stretches());
        let chart_words = remainders.len().div_ceil(64);
        let charts = chart_bits(&remainders, expressions.len(), chart_words);
        let places = Places {
            classes: &classes,
            addresses: &addresses,
            ports: &ports,
            tags: &tags,
            kinds: &kinds,
            kinds_of_terms: &kinds_of_terms,
            charts: &charts,
            chart_words,
        };
        let (changing, keyed): (Vec<ExpressionTerms<'_>>, Vec<ExpressionTerms<'_>>) =
            sources.iter().partition(|part| !part.atoms.is_empty());
        let keyed = Index::new(&keyed, &places);
        let changing = Index::new(&changing, &places);
        // Thousands of expressions cannot cost less than the limit.
        let is_small = expressions.len() <= MAX_COLUMN_COST;
        let plan = if is_small { ColumnPlan::new(&sources, &classes) } else { ColumnPlan::default() };
        let is_small = is_small && plan.cost() <= MAX_COLUMN_COST;
        let mut is_program = vec![true; expressions.len()];
        let mut is_changing = vec![true; expressions.len()];
        for part in &sources {
            is_program[part.expression as usize] = false;
            is_changing[part.expression as usize] = !part.atoms.is_empty();
        }
        let programs = (0..).zip(&is_program).filter(|(_, is)| **is).map(|(number, _)| number).collect();
        drop((sources, kinds));
        atoms.classes(&classes);
        let changing_flags = changing.needed_flags(|atom| atoms.flags(atom));
        Self {
            options,
            strategy: if is_small { Strategy::Columns } else { Strategy::Index },
            isa: InstructionSet::best(),
            keyed,
            changing,
            plan,
            changing_flags,
            programs,
            is_changing,
            wary,
            ethernet_only,
            indifferent,
            charts,
            chart_words,
            remainders,
            atoms,
            classes,
            addresses,
            ports,
            tags,
            asks_tags,
            expressions,
        }
    }

    /// TCP flags of which a packet whose headers show its flow key must have one to match anything that the flow does
    /// not decide.
    fn flags_outside_flows(&self) -> Option<u8> {
        let decides_all = self.programs.is_empty() && self.strategy != Strategy::Programs;
        self.changing_flags.filter(|_| decides_all)
    }

    /// Whether only bytes of the packet at fixed offsets need to be read.
    #[inline]
    fn is_quick(&self) -> bool {
        self.strategy != Strategy::Programs
            && self.programs.is_empty()
            && self.atoms.are_fields()
            && !self.options.inner
    }

    /// The expression's own filter.
    fn filter(&self, expression: u32) -> Option<&Filter> {
        let expression = self.expressions.get(expression as usize)?;
        Some(expression.filter.get_or_init(|| {
            Filter::of(&expression.text, expression.expr.clone(), &self.options.to_options())
        }))
    }

    /// Whether an expression's verdict can change from packet to packet of a flow.
    #[inline]
    fn is_changing(&self, expression: u32) -> bool {
        self.is_changing.get(expression as usize).copied().unwrap_or(true)
    }

    /// The remainders that exclude an expression.
    #[inline]
    fn charts_of(&self, expression: u32) -> &[u64] {
        let from = expression as usize * self.chart_words;
        self.charts.get(from..from + self.chart_words).unwrap_or_default()
    }
}

impl Expression {
    fn new(text: &str, options: &Options<'_>) -> Result<Self, FilterError> {
        let expr = crate::parse::parse(text, options.resolver)?;
        let lowered = lower(expr.as_ref(), !options.strict_bpf).ok();
        let filter = OnceLock::new();
        if !lowered.as_ref().is_some_and(compiles) {
            let compiled = Filter::compile(text, options)?;
            let _ = filter.set(compiled);
        }
        Ok(Self { text: text.to_owned(), expr, lowered, filter })
    }
}

/// Whether the parts of an expression show that its program compiles: it was split completely, and something can match it.
fn compiles(lowered: &Lowered) -> bool {
    !lowered.terms.is_empty() && lowered.atoms.len() <= 1 && !lowered.has_programs()
}

/// Whether an expression is known to compile, without its program, which takes longer than all else.
pub(crate) fn is_valid(expr: &Expr, options: &Options<'_>) -> bool {
    lower(Some(expr), !options.strict_bpf).is_ok_and(|lowered| compiles(&lowered))
}

/// The expressions that need not be decided by their program, and all their tests. Terms are scattered in memory, and
/// waiting for them dominates the time to build a set: all are read in one pass, with prefetches.
struct Parts<'s> {
    sources: Vec<ExpressionTerms<'s>>,
    /// Sets of kinds, without duplicates.
    kinds: Vec<&'s Kinds>,
    /// For each term, the index of its set of kinds.
    kinds_of_terms: Vec<u32>,
    addresses: AddressEndpoints,
    ports: PortEndpoints,
    /// Present if an expression tests VLAN tags.
    tags: Option<PortEndpoints>,
    indifferent: Indifferent,
    wary: Vec<u32>,
    ethernet_only: Vec<u32>,
}

impl<'s> Parts<'s> {
    fn of(expressions: &'s [Arc<Expression>], atoms: &'s Atoms) -> Self {
        const AHEAD: usize = 16;
        let mut parts = Self {
            sources: Vec::with_capacity(expressions.len()),
            kinds: Vec::new(),
            kinds_of_terms: Vec::with_capacity(expressions.len()),
            addresses: AddressEndpoints::default(),
            ports: PortEndpoints::default(),
            tags: None,
            indifferent: Indifferent { addresses: true, ports: true },
            wary: Vec::new(),
            ethernet_only: Vec::new(),
        };
        let mut known: HashMap<&Kinds, u32> = HashMap::default();
        for (number, expression) in expressions.iter().enumerate() {
            if let Some(later) = expressions.get(number + AHEAD) {
                prefetch(std::slice::from_ref(&later.lowered), 0);
            }
            Term::expect(number, |number| {
                expressions.get(number)?.lowered.as_ref().and_then(|lowered| lowered.terms.first())
            });
            let Some(lowered) = expression.lowered.as_ref().filter(|_| atoms.fits(number as u32)) else {
                continue;
            };
            let number = number as u32;
            let first = parts.kinds_of_terms.len() as u32;
            parts.sources.push(ExpressionTerms {
                expression: number,
                terms: &lowered.terms,
                first,
                atoms: atoms.of(number),
            });
            if lowered.wary {
                parts.wary.push(number);
            }
            if lowered.ethernet_only {
                parts.ethernet_only.push(number);
            }
            for term in &lowered.terms {
                let next = parts.kinds.len() as u32;
                let kinds = *known.entry(&term.kinds).or_insert(next);
                if kinds == next {
                    parts.kinds.push(&term.kinds);
                }
                parts.kinds_of_terms.push(kinds);
                parts.indifferent.addresses &= term.src.is_none() && term.dst.is_none();
                parts.indifferent.ports &= term.sport.is_none() && term.dport.is_none();
                let sets = term.src.iter().chain(&term.dst).chain(&term.either);
                sets.for_each(|set| parts.addresses.add(set));
                let ranges = term.sport.iter().chain(&term.dport).chain(&term.either_port);
                ranges.flat_map(|set| set.as_slice()).for_each(|range| parts.ports.add(*range));
                if let Some(set) = &term.tags {
                    let tags = parts.tags.get_or_insert_default();
                    set.as_slice().iter().for_each(|range| tags.add(*range));
                }
            }
        }
        parts
    }
}

/// For each expression, a bit for each remainder that excludes it.
fn chart_bits(remainders: &[Vec<u32>], expressions: usize, words: usize) -> Vec<u64> {
    let mut bits = vec![0; expressions * words];
    for (chart, lines) in remainders.iter().enumerate() {
        for line in lines.iter().map(|line| *line as usize).filter(|line| *line < expressions) {
            bits[line * words + chart / 64] |= 1 << (chart % 64);
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet may be skipped only if every term that bytes decide requires one of the flags.
    #[test]
    fn terms_that_bytes_decide_require_a_flag() {
        for (expressions, flags) in [
            (&["tcp[13] & 2 != 0 and net 10.0.0.0/8", "port 80"][..], Some(2)),
            (&["tcp[13] & 2 != 0", "tcp[tcpflags] & (tcp-rst|tcp-fin) != 0"], Some(7)),
            (&["tcp[13] & 0x12 = 0x12 and less 100"], Some(0x12)),
            (&["tcp[13] > 3", "tcp[13] != 0"], Some(0xff)),
            (&["tcp[13] & 2 = 0"], None),
            (&["tcp[13] = 0"], None),
            (&["not tcp[13] = 0"], None),
            (&["tcp[12] & 2 != 0"], None),
            (&["tcp[13] & 2 != 0", "udp[5] > 7"], None),
            (&["tcp[13] & 2 != 0 or greater 1000"], None),
            (&["tcp[13] & 2 != 0", "vlan 5 and vlan 6"], None),
            (&["ip[13] & 2 != 0"], None),
            (&["port 80"], Some(0)),
        ] {
            let set = Set::compile(expressions, &Options::default()).unwrap();
            assert_eq!(set.flags_outside_flows(), flags, "{expressions:?}");
            assert_eq!(set.by(Strategy::Programs).flags_outside_flows(), None);
        }
    }
}
