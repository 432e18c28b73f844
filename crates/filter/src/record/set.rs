//! Many tests of records at once.
//!
//! Equal tests of fields are one *leaf*, which is decided once for a record. All texts that a field is compared with by `=`, `in` and
//! `under` are in one table, so that a value is looked up once for all tests; long lists have their own. A leaf that holds names
//! the tests that it is in, and only these are evaluated. Tests that hold without any leaf are found by the flow's key.

use super::{RecordRow, RecordTest, Tables};
use crate::anchors::Anchors;
use crate::fields::list::{List, MAX_DOMAIN, hash_of, suffixes};
use crate::fields::{
    Comparison, FieldInfo, FieldKind, FieldTest, FieldValue, Number, Operand, Operation, PATTERN, Text,
    domain,
};
use crate::flowtest::{FlowEndpoints, FlowTest};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};
use regex::bytes::{Regex, RegexBuilder};
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::sync::Arc;

/// Names up to which a list becomes part of its field's table. A longer one stays as it is, and is looked up by the hash that
/// was computed for the table.
const MAX_JOINED: usize = 256;

/// Texts that one regular expression looks for: a value without any of them is read once for all.
const TOGETHER: usize = 256;
/// Fewer texts are looked for one by one.
const FEW: usize = 3;

/// The tests of many subscriptions; a test's number is its position.
#[derive(Debug)]
pub struct RecordSet {
    plans: HashMap<&'static str, Plan, RandomState>,
    /// For records of tables that no test names.
    others: Plan,
}

/// The tests that hold for a record, and the memory to find them. One serves any number of records and sets.
#[derive(Debug, Default)]
pub struct Matches {
    /// Number of the present record.
    pub(super) record: u32,
    /// For each leaf, the number of the last record that it held for.
    held: Vec<u32>,
    /// For each test, the number of the last record that it was queued for.
    queued: Vec<u32>,
    queue: Vec<u32>,
    found: Vec<u32>,
}

/// The tests of records of one table.
#[derive(Debug, Default)]
struct Plan {
    fields: Vec<FieldPlan>,
    /// The tests that each leaf is in.
    uses: Vec<Vec<u32>>,
    /// The tests that can hold, with their numbers.
    tests: Vec<(u32, Node)>,
    /// Those that can hold without a leaf.
    keyed: Anchors,
}

/// The leaves of one field.
#[derive(Debug)]
struct FieldPlan {
    field: FieldInfo,
    /// The field has a value.
    present: Option<u32>,
    /// In any case of letters.
    equal: Lookup,
    exact: Lookup,
    /// Domains, with the names below them.
    below: Lookup,
    /// Long lists, and whether they have domains.
    lists: Vec<(Arc<List>, bool, u32)>,
    /// Comparisons with numbers.
    numbers: Numbers,
    /// Texts that a value contains, [`TOGETHER`] at a time.
    contained: Vec<Contained>,
    /// Other tests of the value as text.
    texts: Vec<(FieldTest, u32)>,
    /// Everything else.
    rest: Vec<(FieldTest, u32)>,
}

/// Comparisons of a field with numbers. Those that hold are found without the others.
#[derive(Debug, Default)]
struct Numbers {
    /// `>` and `>=`, the lowest number first.
    above: Vec<(Number, Comparison, u32)>,
    /// `<` and `<=`, the highest number first.
    below: Vec<(Number, Comparison, u32)>,
    /// `=`, by [`Numbers::key`].
    equal: HashMap<u64, Vec<(Number, u32)>, RandomState>,
}

/// Tests whether a value contains texts.
#[derive(Debug, Default)]
struct Contained {
    tests: Vec<(FieldTest, u32)>,
    /// Finds whether a value contains any of them.
    any: Option<Regex>,
}

/// Texts with the leaves that one of them makes hold.
#[derive(Debug)]
struct Lookup {
    entries: HashTable<(Box<[u8]>, Vec<u32>)>,
    is_exact: bool,
    longest: usize,
}

/// A test over leaves.
#[derive(Debug)]
enum Node {
    Leaf(u32),
    /// What the flow's key decides.
    Key(FlowTest),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

impl RecordSet {
    /// A set of tests, numbered from 0.
    pub fn new<'t>(tests: impl IntoIterator<Item = &'t RecordTest>) -> Self {
        let tests: Vec<&RecordTest> = tests.into_iter().collect();
        let mut names: Vec<&'static str> =
            tests.iter().flat_map(|test| test.tables.iter().map(|(table, _)| *table)).collect();
        names.sort_unstable();
        names.dedup();
        let plan = |table: Option<&str>| {
            let mut builder = Builder::default();
            for (number, test) in tests.iter().enumerate() {
                builder.push(number as u32, table.map_or(&test.others, |table| test.of(table)));
            }
            builder.finish()
        };
        let mut plans = HashMap::default();
        for name in names {
            plans.insert(name, plan(Some(name)));
        }
        Self { plans, others: plan(None) }
    }

    /// The tables whose records may satisfy a test.
    pub fn tables(&self) -> Tables {
        if !self.others.tests.is_empty() {
            return Tables::All;
        }
        let named = self.plans.iter().filter(|(_, plan)| !plan.tests.is_empty());
        let mut names: Vec<&'static str> = named.map(|(name, _)| *name).collect();
        names.sort_unstable();
        Tables::Only(names)
    }

    /// The numbers of the tests that hold for a record, in ascending order.
    pub fn matches<'m, R: RecordRow + ?Sized>(&self, row: &R, matches: &'m mut Matches) -> &'m [u32] {
        let plan = self.plans.get(row.table()).unwrap_or(&self.others);
        matches.begin(plan);
        for field in &plan.fields {
            row.values(&field.field, &mut |value| field.see(&value, plan, matches));
        }
        plan.keyed.each(row.endpoints(), |test| matches.queue(test));
        let (endpoints, queue) = (row.endpoints(), std::mem::take(&mut matches.queue));
        let queued = queue.iter().filter_map(|at| plan.tests.get(*at as usize));
        let mut found = std::mem::take(&mut matches.found);
        found.extend(queued.filter(|(_, node)| node.holds(matches, endpoints)).map(|(number, _)| *number));
        found.sort_unstable();
        // Their memory is used again.
        (matches.queue, matches.found) = (queue, found);
        &matches.found
    }
}

impl Matches {
    fn begin(&mut self, plan: &Plan) {
        self.found.clear();
        self.queue.clear();
        self.record = self.record.wrapping_add(1);
        if self.record == 0 {
            self.held.fill(0);
            self.queued.fill(0);
            self.record = 1;
        }
        if self.held.len() < plan.uses.len() {
            self.held.resize(plan.uses.len(), 0);
        }
        if self.queued.len() < plan.tests.len() {
            self.queued.resize(plan.tests.len(), 0);
        }
    }

    fn holds(&self, leaf: u32) -> bool {
        self.held.get(leaf as usize) == Some(&self.record)
    }

    /// A leaf holds: its tests are queued.
    fn hold(&mut self, leaf: u32, plan: &Plan) {
        match self.held.get_mut(leaf as usize) {
            Some(held) if *held != self.record => *held = self.record,
            _ => return,
        }
        plan.uses.get(leaf as usize).into_iter().flatten().for_each(|test| self.queue(*test));
    }

    /// Queues a test, once for a record.
    fn queue(&mut self, test: u32) {
        if let Some(queued) = self.queued.get_mut(test as usize).filter(|queued| **queued != self.record) {
            *queued = self.record;
            self.queue.push(test);
        }
    }
}

impl FieldPlan {
    fn new(field: FieldInfo) -> Self {
        Self {
            field,
            present: None,
            equal: Lookup::new(false),
            exact: Lookup::new(true),
            below: Lookup::new(false),
            lists: Vec::new(),
            numbers: Numbers::default(),
            contained: Vec::new(),
            texts: Vec::new(),
            rest: Vec::new(),
        }
    }

    /// Takes a value of the field into account.
    fn see(&self, value: &FieldValue<'_>, plan: &Plan, matches: &mut Matches) {
        if let Some(leaf) = self.present {
            matches.hold(leaf, plan);
        }
        let hashes_whole = !self.equal.entries.is_empty() || !self.lists.is_empty();
        let hashes = hashes_whole || !self.exact.entries.is_empty() || !self.below.entries.is_empty();
        if hashes || !self.contained.is_empty() || !self.texts.is_empty() {
            value.with_text(|text| self.see_text(text, hashes_whole, plan, matches));
        }
        if !self.numbers.is_empty()
            && let Some(number) = value.number()
        {
            self.numbers.each(number, |leaf| matches.hold(leaf, plan));
        }
        for (test, leaf) in &self.rest {
            if !matches.holds(*leaf) && test.matches(value) {
                matches.hold(*leaf, plan);
            }
        }
    }

    /// Takes a value as text into account.
    fn see_text(&self, text: &[u8], hashes_whole: bool, plan: &Plan, matches: &mut Matches) {
        if hashes_whole {
            let hash = hash_of(text, false);
            self.equal.hold(hash, text, plan, matches);
            for (list, has_domains, leaf) in &self.lists {
                let has = match has_domains {
                    true => list.has_domain_of(text),
                    false => list.any_case.has_hashed(hash, text) || list.exact.has(text),
                };
                if has {
                    matches.hold(*leaf, plan);
                }
            }
        }
        self.exact.look(text, plan, matches);
        if !self.below.entries.is_empty() {
            for name in suffixes(text, self.below.longest) {
                self.below.look(name, plan, matches);
            }
        }
        let contained = self.contained.iter().filter(|tests| tests.may_hold(text));
        for (test, leaf) in contained.flat_map(|contained| &contained.tests).chain(&self.texts) {
            if !matches.holds(*leaf) && test.matches(&FieldValue::Text(text)) {
                matches.hold(*leaf, plan);
            }
        }
    }

    /// Makes what needs all tests of the field.
    fn finish(&mut self) {
        self.numbers.above.sort_by(|(a, ..), (b, ..)| a.real().total_cmp(&b.real()));
        self.numbers.below.sort_by(|(a, ..), (b, ..)| b.real().total_cmp(&a.real()));
        self.contained.iter_mut().for_each(Contained::finish);
    }
}

impl Numbers {
    fn is_empty(&self) -> bool {
        self.above.is_empty() && self.below.is_empty() && self.equal.is_empty()
    }

    /// Adds a comparison; `false` if it is none of these.
    fn add(&mut self, comparison: Comparison, number: Number, leaf: u32) -> bool {
        match comparison {
            Comparison::Greater | Comparison::AtLeast => self.above.push((number, comparison, leaf)),
            Comparison::Less | Comparison::AtMost => self.below.push((number, comparison, leaf)),
            Comparison::Equal => self.equal.entry(Self::key(number)).or_default().push((number, leaf)),
            Comparison::NotEqual => return false,
        }
        true
    }

    /// Equal for equal numbers, whole or not, and for both zeros.
    fn key(number: Number) -> u64 {
        (number.real() + 0.0).to_bits()
    }

    /// Calls `hold` with the leaf of each comparison that holds.
    fn each(&self, value: Number, mut hold: impl FnMut(u32)) {
        let real = value.real();
        // As floating-point numbers they are in the same order, or equal. NaN is in none.
        let order = |number: &Number| number.real().partial_cmp(&real);
        let above = self.above.iter().take_while(|(number, ..)| order(number) != Some(Ordering::Greater));
        let below = self.below.iter().take_while(|(number, ..)| order(number) != Some(Ordering::Less));
        for (number, comparison, leaf) in above.chain(below) {
            if comparison.holds(value.order(*number)) {
                hold(*leaf);
            }
        }
        if let Some(equal) = self.equal.get(&Self::key(value)) {
            equal.iter().filter(|(number, _)| value.order(*number).is_eq()).for_each(|(_, leaf)| hold(*leaf));
        }
    }
}

impl Contained {
    /// Whether one of the tests can hold for a text.
    fn may_hold(&self, text: &[u8]) -> bool {
        self.any.as_ref().is_none_or(|any| any.is_match(text))
    }

    fn finish(&mut self) {
        if self.tests.len() <= FEW {
            return;
        }
        let mut pattern = String::new();
        for (test, _) in &self.tests {
            let Operation::Contains(part) = &test.operation else { continue };
            let text = part.text();
            pattern.push_str(if pattern.is_empty() { "" } else { "|" });
            pattern.push_str(if text.is_exact() { "(?-i:" } else { "(?i:" });
            // Writing to a text does not fail.
            text.as_bytes().iter().for_each(|byte| _ = write!(pattern, r"\x{byte:02x}"));
            pattern.push(')');
        }
        // One that would take too much memory is left out: each text is looked for alone.
        let mut any = RegexBuilder::new(&pattern);
        self.any = any.unicode(false).size_limit(PATTERN).dfa_size_limit(PATTERN).build().ok();
    }
}

impl Lookup {
    fn new(is_exact: bool) -> Self {
        Self { entries: HashTable::new(), is_exact, longest: 0 }
    }

    fn insert(&mut self, text: &[u8], leaf: u32) {
        let (hash, is_exact) = (hash_of(text, self.is_exact), self.is_exact);
        self.longest = self.longest.max(text.len());
        match self.entries.find_mut(hash, |(known, _)| is(known, text, is_exact)) {
            Some((_, leaves)) => leaves.push(leaf),
            None => {
                let entry = (text.into(), vec![leaf]);
                self.entries.insert_unique(hash, entry, |(known, _)| hash_of(known, is_exact));
            }
        }
    }

    fn hold(&self, hash: u64, text: &[u8], plan: &Plan, matches: &mut Matches) {
        if let Some((_, leaves)) = self.entries.find(hash, |(known, _)| is(known, text, self.is_exact)) {
            leaves.iter().for_each(|leaf| matches.hold(*leaf, plan));
        }
    }

    fn look(&self, text: &[u8], plan: &Plan, matches: &mut Matches) {
        if text.len() <= self.longest && !self.entries.is_empty() {
            self.hold(hash_of(text, self.is_exact), text, plan, matches);
        }
    }
}

fn is(known: &[u8], text: &[u8], is_exact: bool) -> bool {
    if is_exact { known == text } else { known.eq_ignore_ascii_case(text) }
}

impl Node {
    fn holds(&self, matches: &Matches, endpoints: &FlowEndpoints) -> bool {
        match self {
            Node::Leaf(leaf) => matches.holds(*leaf),
            Node::Key(test) => test.holds(endpoints),
            Node::Not(node) => !node.holds(matches, endpoints),
            Node::All(nodes) => nodes.iter().all(|node| node.holds(matches, endpoints)),
            Node::Any(nodes) => nodes.iter().any(|node| node.holds(matches, endpoints)),
        }
    }

    /// Its verdict where no leaf holds; `None` where the key decides.
    fn without_leaves(&self) -> Option<bool> {
        match self {
            Node::Leaf(_) => Some(false),
            Node::Key(_) => None,
            Node::Not(node) => node.without_leaves().map(|holds| !holds),
            Node::All(nodes) => joined(nodes, false),
            Node::Any(nodes) => joined(nodes, true),
        }
    }

    fn leaves(&self, visit: &mut dyn FnMut(u32)) {
        match self {
            Node::Leaf(leaf) => visit(*leaf),
            Node::Key(_) => {}
            Node::Not(node) => node.leaves(visit),
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().for_each(|node| node.leaves(visit)),
        }
    }
}

/// The verdict of nodes of which one decides if it has this verdict.
fn joined(nodes: &[Node], decides: bool) -> Option<bool> {
    let mut is_open = false;
    for node in nodes {
        match node.without_leaves() {
            Some(verdict) if verdict == decides => return Some(decides),
            Some(_) => {}
            None => is_open = true,
        }
    }
    (!is_open).then_some(!decides)
}

/// Makes a plan.
#[derive(Default)]
struct Builder<'t> {
    plan: Plan,
    /// The tests that can hold without a leaf, with their positions.
    keyed: Vec<(u32, &'t FlowTest)>,
    /// Leaves by the hash of their test.
    known: HashTable<(u64, FieldTest, u32)>,
}

impl<'t> Builder<'t> {
    fn finish(mut self) -> Plan {
        self.plan.fields.iter_mut().for_each(FieldPlan::finish);
        self.plan.keyed = Anchors::new(&self.keyed);
        self.plan
    }

    fn push(&mut self, number: u32, test: &'t FlowTest) {
        if test.is_never() {
            return;
        }
        let node = self.node(test);
        let at = self.plan.tests.len() as u32;
        match node.without_leaves() {
            Some(false) => node.leaves(&mut |leaf| {
                // A test can have a leaf twice.
                if let Some(uses) =
                    self.plan.uses.get_mut(leaf as usize).filter(|uses| uses.last() != Some(&at))
                {
                    uses.push(at);
                }
            }),
            _ => self.keyed.push((at, test)),
        }
        self.plan.tests.push((number, node));
    }

    fn node(&mut self, test: &FlowTest) -> Node {
        let mut has_fields = false;
        test.fields(&mut |_| has_fields = true);
        match test {
            FlowTest::Field(test) => self.field(test),
            test if !has_fields => Node::Key(test.clone()),
            FlowTest::Not(test) => Node::Not(Box::new(self.node(test))),
            FlowTest::All(tests) => Node::All(tests.iter().map(|test| self.node(test)).collect()),
            FlowTest::Any(tests) => Node::Any(tests.iter().map(|test| self.node(test)).collect()),
            // A record's test has no others.
            test => Node::Key(test.clone()),
        }
    }

    fn field(&mut self, test: &FieldTest) -> Node {
        let with = |operation| FieldTest { field: test.field, operation };
        match &test.operation {
            // A value, and none that is equal.
            Operation::Compare(Comparison::NotEqual, operand) => {
                let equal = with(Operation::Compare(Comparison::Equal, operand.clone()));
                let present = self.leaf(&with(Operation::Present));
                Node::All(vec![Node::Leaf(present), Node::Not(Box::new(Node::Leaf(self.leaf(&equal))))])
            }
            _ => Node::Leaf(self.leaf(test)),
        }
    }

    /// The leaf of a test, which is made if it is new.
    fn leaf(&mut self, test: &FieldTest) -> u32 {
        let hash = test.hash();
        if let Some((_, _, leaf)) = self.known.find(hash, |(_, known, _)| known == test) {
            return *leaf;
        }
        let leaf = self.plan.uses.len() as u32;
        self.plan.uses.push(Vec::new());
        self.known.insert_unique(hash, (hash, test.clone(), leaf), |(hash, ..)| *hash);
        let fields = &mut self.plan.fields;
        let at = fields.iter().position(|plan| plan.field == test.field).unwrap_or_else(|| {
            fields.push(FieldPlan::new(test.field));
            fields.len() - 1
        });
        if let Some(plan) = fields.get_mut(at) {
            plan.add(test, leaf);
        }
        leaf
    }
}

impl FieldPlan {
    fn add(&mut self, test: &FieldTest, leaf: u32) {
        let is_text = self.field.kind == FieldKind::Text;
        let is_short = |list: &List| list.any_case.len() + list.exact.len() <= MAX_JOINED;
        match &test.operation {
            Operation::Present => self.present = Some(leaf),
            Operation::Compare(Comparison::Equal, Operand::Text(text)) => {
                self.lookup(text).insert(text.as_bytes(), leaf);
            }
            Operation::In(list) if is_text && is_short(list) => {
                list.any_case.iter().for_each(|text| self.equal.insert(text, leaf));
                list.exact.iter().for_each(|text| self.exact.insert(text, leaf));
            }
            Operation::In(list) if is_text => self.lists.push((Arc::clone(list), false, leaf)),
            Operation::Under(text) if !text.is_exact() && is_listed(text) => {
                self.below.insert(domain(text.as_bytes(), true), leaf);
            }
            Operation::UnderAny(list) if list.exact.len() == 0 && is_short(list) => {
                list.any_case.iter().for_each(|text| self.below.insert(text, leaf));
            }
            Operation::UnderAny(list) => self.lists.push((Arc::clone(list), true, leaf)),
            Operation::Compare(comparison, Operand::Number(number))
                if self.numbers.add(*comparison, *number, leaf) => {}
            Operation::Contains(_) => {
                if self.contained.last().is_none_or(|last| last.tests.len() == TOGETHER) {
                    self.contained.push(Contained::default());
                }
                self.contained
                    .iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|last| last.tests.push((test.clone(), leaf)));
            }
            Operation::Begins(_) | Operation::Ends(_) | Operation::Under(_) | Operation::Matches(_) => {
                self.texts.push((test.clone(), leaf));
            }
            Operation::Compare(_, Operand::Text(_)) => self.texts.push((test.clone(), leaf)),
            _ => self.rest.push((test.clone(), leaf)),
        }
    }

    fn lookup(&mut self, text: &Text) -> &mut Lookup {
        if text.is_exact() { &mut self.exact } else { &mut self.equal }
    }
}

/// Whether a domain can be looked up: it has a name, of which no more bytes than of a domain are hashed.
fn is_listed(text: &Text) -> bool {
    (1..=MAX_DOMAIN).contains(&domain(text.as_bytes(), true).len())
}
