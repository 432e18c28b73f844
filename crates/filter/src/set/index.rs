//! Finds the expressions that match without touching those that do not.
//!
//! Terms with equal kinds of packets, ports and atoms form one group. The groups that may match are found by the
//! packet's ports or, if they test none, by its kind. Within a group addresses are nodes of a prefix tree. The
//! expressions that match are those of the nodes from the packet's own node up to the root. To count them, it is
//! enough to count at the packet's node and to add up the tree at the end of an interval: the packets of `net X`
//! (source or destination in X) are those counted at the source's node and at the destination's node, less those
//! counted at the deepest common node.
//!
//! That is exact for an expression of one term with one address range. Others are looked up by one of their ranges,
//! and then their remaining tests are evaluated.

use super::bits::each;
use super::kind::{Classes, Kinds};
use super::lower::Term;
use super::places::{AddressStretches, NO_ADDRESS, PortStretches, each_prefix};
use super::ranges::{Addresses, Ranges};
use foldhash::{HashMap, HashMapExt};

/// The facts about a packet, or a flow, that an index needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unit {
    pub class: u16,
    /// Whether it has ports that were captured.
    pub has_ports: bool,
    /// Intervals of addresses.
    pub src: u32,
    pub dst: u32,
    /// Intervals of ports.
    pub sport: u32,
    pub dport: u32,
    /// Interval of VLAN tags.
    pub tag: u32,
}

/// A bit for each atom of a set.
pub(super) type AtomBits = [u64; 4];

/// Maximum number of atoms in a set.
pub(super) const MAX_ATOMS: usize = 256;

/// Packets and bytes, or differences of such, which wrap.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Total {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Total {
    #[inline]
    pub(super) fn add(&mut self, other: Total) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }

    #[inline]
    pub(super) fn sub(&mut self, other: Total) {
        self.packets = self.packets.wrapping_sub(other.packets);
        self.bytes = self.bytes.wrapping_sub(other.bytes);
    }
}

/// The address by which a group is indexed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum By {
    Nothing,
    Source,
    Destination,
    Either,
}

/// A group and its terms.
#[derive(Clone, Debug)]
struct Group {
    /// The kinds of packets: an index into `Index::kinds`.
    kinds: u32,
    by: By,
    /// Whether the remaining tests of each term are evaluated for the packet, instead of counting at nodes.
    listed: bool,
    /// For a group by either port: its stretches, in `Index::stretches`.
    ports: (u32, u32),
    /// The VLAN tags: their stretches, in `Index::stretches`; empty for any.
    tags: (u32, u32),
    /// The atoms, in `Index::atoms`; [`NONE`] for none.
    atoms: u32,
    /// Nodes of the tree, in the order of their first stretch, parents first.
    nodes: (u32, u32),
    /// Finds the node of a stretch: `len` entries of `Index::starts`, or one for each stretch in `Index::table`.
    find: Find,
}

#[derive(Clone, Copy, Debug)]
enum Find {
    /// Starts of stretches and the node that applies from there, in order.
    Sorted { from: u32, len: u32 },
    /// One node for each stretch.
    Table { from: u32 },
}

/// A node of a group's prefix tree.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Intervals that it covers, both ends included.
    low: u32,
    high: u32,
    /// The node above; [`NONE`] for none.
    parent: u32,
    /// Its terms, in `Index::entries`.
    terms: (u32, u32),
}

/// A term at a node.
#[derive(Clone, Copy, Debug)]
struct Entry {
    expression: u32,
    /// Remaining tests, in `Index::checks`; [`NONE`] for none.
    check: u32,
}

const NONE: u32 = u32::MAX;

/// The remaining tests of a term, apart from those of its group and node; ranges of stretches.
#[derive(Clone, Debug, Default)]
struct Check {
    src: Option<Vec<(u32, u32)>>,
    dst: Option<Vec<(u32, u32)>>,
    either: Vec<Vec<(u32, u32)>>,
    sport: Option<Vec<(u32, u32)>>,
    dport: Option<Vec<(u32, u32)>>,
    either_port: Vec<Vec<(u32, u32)>>,
}

/// The first key by which terms are found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum First {
    /// Groups are found by the packet's ports.
    Ports,
    /// Groups are found by the VLAN tag; the ports of each term are compared.
    Tags,
}

/// Lists by number, stored end to end.
#[derive(Clone, Debug, Default)]
struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn new(count: usize, pairs: &mut [(u32, u32)]) -> Self {
        pairs.sort_unstable();
        let mut starts = vec![0; count + 1];
        for (at, _) in pairs.iter() {
            starts[*at as usize + 1] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        Self { starts, items: pairs.iter().map(|(_, item)| *item).collect() }
    }

    #[inline]
    fn of(&self, at: u32) -> &[u32] {
        let at = at as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => self.items.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }
}

/// Groups by a stretch of ports. A range with few stretches is in the list of each stretch. Other ranges are in the
/// lists of the few nodes of a binary tree that they consist of; a stretch has one such node for each level above
/// it.
#[derive(Clone, Debug, Default)]
struct ByPort {
    exact: Lists,
    /// Lists of the tree's nodes, the root being 1 and the children of `n` being `2n` and `2n + 1`; empty if no range
    /// is wide.
    wide: Lists,
    /// Number of the tree's leaves, a power of two.
    leaves: u32,
}

/// Maximum number of stretches of a range that is listed for each.
const NARROW: u32 = 8;

impl ByPort {
    fn new(stretches: usize, ranges: &[((u32, u32), u32)]) -> Self {
        let leaves = stretches.next_power_of_two() as u32;
        let (mut exact, mut wide) = (Vec::new(), Vec::new());
        for ((low, high), group) in ranges {
            if high - low < NARROW {
                exact.extend((*low..=*high).map(|at| (at, *group)));
                continue;
            }
            let (mut low, mut high) = (low + leaves, high + leaves + 1);
            while low < high {
                if low & 1 == 1 {
                    wide.push((low, *group));
                    low += 1;
                }
                if high & 1 == 1 {
                    high -= 1;
                    wide.push((high, *group));
                }
                low /= 2;
                high /= 2;
            }
        }
        let tree = if wide.is_empty() { 0 } else { 2 * leaves as usize };
        Self {
            exact: Lists::new(stretches, &mut exact),
            wide: if tree == 0 { Lists::default() } else { Lists::new(tree, &mut wide) },
            leaves,
        }
    }

    #[inline]
    fn each(&self, stretch: u32, mut see: impl FnMut(u32)) {
        for group in self.exact.of(stretch) {
            see(*group);
        }
        if !self.wide.starts.is_empty() {
            let mut node = stretch + self.leaves;
            while node > 0 {
                for group in self.wide.of(node) {
                    see(*group);
                }
                node /= 2;
            }
        }
    }
}

/// Expressions by common properties of their packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    groups: Vec<Group>,
    /// Sets of classes, `class_words` words each.
    kinds: Vec<u64>,
    class_words: usize,
    /// Groups without a test of ports, by class.
    by_class: Lists,
    /// Groups that require a VLAN tag and test no port.
    by_tag: ByPort,
    by_source_port: ByPort,
    by_destination_port: ByPort,
    stretches: Vec<(u32, u32)>,
    /// Atoms that must and that must not hold.
    atoms: Vec<(AtomBits, AtomBits)>,
    nodes: Vec<Node>,
    /// For each node, the uppermost node above it, or itself.
    tops: Vec<u32>,
    starts: Vec<(u32, u32)>,
    table: Vec<u32>,
    entries: Vec<Entry>,
    checks: Vec<Check>,
    /// For each node, the charts of its terms and of those above it, `chart_words` words each.
    charts: Vec<u64>,
    chart_words: usize,
    /// Atoms of which one must hold for any group to match; `None` if a group needs none.
    needed: Option<AtomBits>,
}

/// An expression in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpressionTerms<'s> {
    pub expression: u32,
    pub terms: &'s [Term],
    /// Number of its first term among the terms of all expressions.
    pub first: u32,
    /// The set's numbers for the expression's atoms.
    pub atoms: &'s [usize],
}

/// The inputs of an index.
pub(super) struct Places<'p> {
    pub classes: &'p Classes,
    pub addresses: &'p AddressStretches,
    pub ports: &'p PortStretches,
    pub tags: &'p PortStretches,
    /// All sets of kinds, and for each term its set.
    pub kinds: &'p [&'p Kinds],
    pub kinds_of_terms: &'p [u32],
    /// For each expression its charts, `chart_words` words each.
    pub charts: &'p [u64],
    pub chart_words: usize,
}

/// The key of a group of terms.
#[derive(Clone, Eq, Hash, PartialEq)]
struct GroupKey<'t> {
    kinds: u32,
    by: By,
    listed: bool,
    source_port: Option<&'t Ranges<u16>>,
    destination_port: Option<&'t Ranges<u16>>,
    either_port: Option<&'t Ranges<u16>>,
    tags: Option<&'t Ranges<u16>>,
    /// The atoms, in `Index::atoms`; [`NONE`] for none.
    atoms: u32,
}

/// A term that is being added to a group, at one of its ranges of stretches.
struct Placed {
    group: u32,
    low: u32,
    /// The complement of its end: of ranges with equal start the wider one comes first, so that parents come before
    /// children.
    above: u32,
    entry: Entry,
}

impl<'t> GroupKey<'t> {
    /// The group of a term, and the addresses that index it in the group.
    fn of(
        term: &'t Term,
        kinds: u32,
        atoms: u32,
        is_alone: bool,
        first: First,
    ) -> (Self, Option<&'t Addresses>) {
        let constraints =
            usize::from(term.src.is_some()) + usize::from(term.dst.is_some()) + term.either.len();
        let port_constraints =
            usize::from(term.sport.is_some()) + usize::from(term.dport.is_some()) + term.either_port.len();
        let by_one = [(By::Source, &term.src), (By::Destination, &term.dst)];
        let candidates = by_one.into_iter().filter_map(|(by, set)| Some((by, set.as_ref()?)));
        let candidates = candidates.chain(term.either.first().map(|set| (By::Either, set)));
        // A negated address matches nearly everything; the other one is more selective.
        let (by, set) = match candidates.min_by_key(|(_, set)| set.none) {
            Some((by, set)) => (by, Some(set)),
            None => (By::Nothing, None),
        };
        // A packet that would count at two nodes cannot be counted at nodes.
        let is_one = match (by, set) {
            (By::Either, Some(set)) => {
                let mut pieces = usize::from(set.none);
                each_prefix(set, |_| pieces += 1);
                pieces <= 1
            }
            _ => true,
        };
        let mut listed = !is_alone || constraints > 1 || port_constraints > 1 || !is_one;
        let mut either_port = match (&term.sport, &term.dport) {
            (None, None) => term.either_port.first(),
            _ => None,
        };
        let mut source_port = term.sport.as_ref();
        let mut destination_port = if term.sport.is_some() { None } else { term.dport.as_ref() };
        if first == First::Tags && port_constraints > 0 && asks_for_tag(term).is_some() {
            listed = true;
            (source_port, destination_port, either_port) = (None, None, None);
        }
        let tags = term.tags.as_ref();
        (Self { kinds, by, listed, source_port, destination_port, either_port, tags, atoms }, set)
    }
}

impl Index {
    /// Builds the index of these expressions. Every atom's number is below [`MAX_ATOMS`].
    pub fn new(sources: &[ExpressionTerms<'_>], places: &Places<'_>) -> Self {
        let class_words = places.classes.len().div_ceil(64).max(1);
        let mut index = Self { class_words, chart_words: places.chart_words, ..Self::default() };
        places.kinds.iter().for_each(|kinds| index.add_kinds(places, kinds));
        let mut known_atoms: HashMap<(AtomBits, AtomBits), u32> = HashMap::new();
        let mut by_key: HashMap<GroupKey<'_>, usize> = HashMap::new();
        let mut placed: Vec<Placed> = Vec::new();
        let mut keys: Vec<GroupKey<'_>> = Vec::new();
        let first = first_of(sources);
        for (nth, source) in sources.iter().enumerate() {
            Term::expect(nth, |nth| sources.get(nth).and_then(|source| source.terms.first()));
            for (term, kinds) in source.terms.iter().zip(&places.kinds_of_terms[source.first as usize..]) {
                let kinds = *kinds;
                let atoms = if term.atoms.is_empty() {
                    NONE
                } else {
                    let bits = atom_bits(term, source.atoms);
                    *known_atoms.entry(bits).or_insert_with(|| {
                        index.atoms.push(bits);
                        index.atoms.len() as u32 - 1
                    })
                };
                let (key, set) = GroupKey::of(term, kinds, atoms, source.terms.len() == 1, first);
                let check = if key.listed { index.check(term, places) } else { NONE };
                let next = keys.len();
                let group = *by_key.entry(key.clone()).or_insert(next) as u32;
                if group as usize == next {
                    keys.push(key);
                }
                let entry = Entry { expression: source.expression, check };
                let mut place = |low, high: u32| {
                    placed.push(Placed { group, low, above: u32::MAX - high, entry });
                };
                match set {
                    Some(set) => each_stretches(set, places.addresses, place),
                    None => place(0, u32::MAX),
                }
            }
        }
        placed.sort_unstable_by_key(|placed| {
            (placed.group, (u64::from(placed.low) << 32) | u64::from(placed.above), placed.entry.expression)
        });
        let mut ports = Ports::default();
        let mut rest = placed.as_slice();
        for (number, key) in (0..).zip(&keys) {
            let own = rest.iter().take_while(|placed| placed.group == number).count();
            let (placed, others) = rest.split_at(own);
            index.group(key, placed, places, &mut ports);
            rest = others;
        }
        index.by_class = Lists::new(places.classes.len(), &mut ports.none);
        index.by_tag = ByPort::new(places.tags.len(), &ports.tags);
        index.by_source_port = ByPort::new(places.ports.len(), &ports.source);
        index.by_destination_port = ByPort::new(places.ports.len(), &ports.destination);
        index.needed = needed(&index);
        index
    }

    fn add_kinds(&mut self, places: &Places<'_>, kinds: &Kinds) {
        let from = self.kinds.len();
        self.kinds.resize(from + self.class_words, 0);
        for class in places.classes.within(kinds) {
            self.kinds[from + usize::from(class) / 64] |= 1 << (class % 64);
        }
    }

    fn check(&mut self, term: &Term, places: &Places<'_>) -> u32 {
        let addresses = |set: &Addresses| places.addresses.within(set);
        let ports = |set: &Ranges<u16>| places.ports.within(set.as_slice());
        self.checks.push(Check {
            src: term.src.as_ref().map(addresses),
            dst: term.dst.as_ref().map(addresses),
            either: term.either.iter().map(addresses).collect(),
            sport: term.sport.as_ref().map(ports),
            dport: term.dport.as_ref().map(ports),
            either_port: term.either_port.iter().map(ports).collect(),
        });
        self.checks.len() as u32 - 1
    }

    /// Builds the tree of a group.
    fn group(&mut self, key: &GroupKey<'_>, placed: &[Placed], places: &Places<'_>, ports: &mut Ports) {
        let number = self.groups.len() as u32;
        let first = self.nodes.len() as u32;
        let mut open: Vec<u32> = Vec::new();
        for Placed { low, above, entry, .. } in placed {
            let (low, high, entry) = (*low, u32::MAX - above, *entry);
            let terms = self.entries.len() as u32;
            self.entries.push(entry);
            if let Some(node) = self.nodes.get_mut(first as usize..).and_then(<[Node]>::last_mut)
                && (node.low, node.high) == (low, high)
            {
                node.terms.1 = terms + 1;
                continue;
            }
            while let Some(above) = open.last().and_then(|above| self.nodes.get(*above as usize))
                && above.high < low
            {
                open.pop();
            }
            let parent = open.last().copied().unwrap_or(NONE);
            open.push(self.nodes.len() as u32);
            self.tops.extend(open.first());
            self.nodes.push(Node { low, high, parent, terms: (terms, terms + 1) });
        }
        let nodes = (first, self.nodes.len() as u32);
        self.charts_of(nodes, places);
        let find = self.find_table(nodes, places.addresses.len());
        let stretch = |set: Option<&Ranges<u16>>| set.map(|set| places.ports.within(set.as_slice()));
        let either = stretch(key.either_port);
        let from = self.stretches.len() as u32;
        self.stretches.extend(either.iter().flatten());
        let to = self.stretches.len() as u32;
        self.stretches.extend(key.tags.iter().flat_map(|set| places.tags.within(set.as_slice())));
        // Terms that accept untagged packets are looked up among all.
        let tags = key.tags.filter(|set| !set.contains(0)).map(|set| places.tags.within(set.as_slice()));
        ports.add(number, stretch(key.source_port), stretch(key.destination_port), either, tags, || {
            self.classes_of(key.kinds)
        });
        let group = Group {
            kinds: key.kinds,
            by: key.by,
            listed: key.listed,
            ports: (from, to),
            tags: (to, self.stretches.len() as u32),
            atoms: key.atoms,
            nodes,
            find,
        };
        self.groups.push(group);
    }

    fn classes_of(&self, kinds: u32) -> Vec<u32> {
        (0..self.class_words as u32 * 64).filter(|class| self.takes(kinds, *class as u16)).collect()
    }

    /// For each node, the charts of its terms and of the nodes above.
    fn charts_of(&mut self, nodes: (u32, u32), places: &Places<'_>) {
        let words = self.chart_words;
        for at in nodes.0..nodes.1 {
            let Some(node) = self.nodes.get(at as usize).copied() else { continue };
            let from = self.charts.len();
            self.charts.resize(from + words, 0);
            if node.parent != NONE {
                let above = node.parent as usize * words;
                self.charts.copy_within(above..above + words, from);
            }
            for entry in &self.entries[node.terms.0 as usize..node.terms.1 as usize] {
                // A term with remaining tests matches only after their evaluation.
                if entry.check == NONE {
                    let charts = entry.expression as usize * words;
                    for word in 0..words {
                        self.charts[from + word] |= places.charts[charts + word];
                    }
                }
            }
        }
    }

    /// The deepest node of each stretch.
    fn find_table(&mut self, (first, end): (u32, u32), stretches: usize) -> Find {
        let mut starts: Vec<(u32, u32)> = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let mut begin = |low: u32, node: u32| match starts.last_mut() {
            Some(last) if last.0 == low => last.1 = node,
            _ => starts.push((low, node)),
        };
        let high_of = |nodes: &[Node], node: u32| nodes.get(node as usize).map_or(0, |node| node.high);
        for at in first..end {
            let low = self.nodes.get(at as usize).map_or(0, |node| node.low);
            while let Some(last) = open.last().copied()
                && high_of(&self.nodes, last) < low
            {
                open.pop();
                begin(high_of(&self.nodes, last) + 1, open.last().copied().unwrap_or(NONE));
            }
            begin(low, at);
            open.push(at);
        }
        while let Some(last) = open.pop() {
            if let Some(after) = high_of(&self.nodes, last).checked_add(1) {
                begin(after, open.last().copied().unwrap_or(NONE));
            }
        }
        // A table is used if it is not much larger than the list that it replaces.
        if starts.len() > 16 && starts.len() * 16 >= stretches {
            let from = self.table.len() as u32;
            let mut node = NONE;
            let mut next = starts.iter().peekable();
            for stretch in 0..stretches as u32 {
                while let Some((_, at)) = next.next_if(|(low, _)| *low <= stretch) {
                    node = *at;
                }
                self.table.push(node);
            }
            return Find::Table { from };
        }
        let from = self.starts.len() as u32;
        let len = starts.len() as u32;
        self.starts.extend(starts);
        Find::Sorted { from, len }
    }

    /// Number of nodes with counts.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The atoms of which one must hold for anything in the index to match; `None` if no atom is required.
    pub fn needed(&self) -> Option<&AtomBits> {
        self.needed.as_ref()
    }

    /// TCP flags of which a packet must have one to match anything in the index; `flags` gives the flags that each
    /// atom tests. `None` if something matches without them.
    pub fn needed_flags(&self, flags: impl Fn(usize) -> Option<u8>) -> Option<u8> {
        self.groups.iter().try_fold(0, |all, group| {
            let (yes, _) = self.atoms.get(group.atoms as usize)?;
            let mut any = None;
            each(yes, |atom| any = any.or_else(|| flags(atom)));
            Some(all | any?)
        })
    }

    /// Whether a packet with these atoms can match anything in the index.
    #[inline]
    pub fn may_match(&self, atoms: &AtomBits) -> bool {
        match &self.needed {
            Some(needed) => (0..needed.len()).any(|word| needed[word] & atoms[word] != 0),
            None => true,
        }
    }

    #[inline]
    fn takes(&self, kinds: u32, class: u16) -> bool {
        let word = kinds as usize * self.class_words + usize::from(class) / 64;
        self.kinds.get(word).is_some_and(|word| word >> (class % 64) & 1 == 1)
    }

    #[inline]
    fn takes_tag(&self, group: &Group, tag: u32) -> bool {
        let (from, to) = group.tags;
        let ranges = || self.stretches.get(from as usize..to as usize).unwrap_or_default();
        from == to || ranges().iter().any(|(low, high)| (*low..=*high).contains(&tag))
    }

    fn atoms_hold(&self, asked: u32, atoms: &AtomBits) -> bool {
        self.atoms.get(asked as usize).is_some_and(|(yes, no)| {
            (0..atoms.len()).all(|w| yes[w] & !atoms[w] == 0 && no[w] & atoms[w] == 0)
        })
    }

    /// Emits the groups of a packet. `found` is reused memory.
    #[inline(always)]
    fn each_group(&self, unit: &Unit, atoms: &AtomBits, found: &mut Vec<u32>, mut see: impl FnMut(&Group)) {
        found.clear();
        self.by_class.of(u32::from(unit.class)).iter().for_each(|number| found.push(*number));
        if unit.tag != 0 {
            self.by_tag.each(unit.tag, |number| found.push(number));
        }
        if unit.has_ports {
            self.by_source_port.each(unit.sport, |number| found.push(number));
            let by_source = found.len();
            self.by_destination_port.each(unit.dport, |number| found.push(number));
            if by_source < found.len() {
                self.leave_out_twice(unit, found, by_source);
            }
        }
        for number in &*found {
            if let Some(group) = self.groups.get(*number as usize)
                && self.takes(group.kinds, unit.class)
                && self.takes_tag(group, unit.tag)
                && (group.atoms == NONE || self.atoms_hold(group.atoms, atoms))
            {
                see(group);
            }
        }
    }

    /// Removes, from a position on, the groups that the source's port has already given.
    #[inline]
    fn leave_out_twice(&self, unit: &Unit, found: &mut Vec<u32>, from: usize) {
        let mut keep = from;
        for at in from..found.len() {
            let number = found[at];
            let ports = self
                .groups
                .get(number as usize)
                .and_then(|group| self.stretches.get(group.ports.0 as usize..group.ports.1 as usize));
            if !ports.unwrap_or_default().iter().any(|(low, high)| (*low..=*high).contains(&unit.sport)) {
                found[keep] = number;
                keep += 1;
            }
        }
        found.truncate(keep);
    }

    #[inline]
    fn find(&self, group: &Group, stretch: u32) -> u32 {
        match group.find {
            Find::Table { from } => self.table.get((from + stretch) as usize).copied().unwrap_or(NONE),
            Find::Sorted { from, len } => {
                let starts = self.starts.get(from as usize..(from + len) as usize).unwrap_or_default();
                let next = starts.partition_point(|(low, _)| *low <= stretch);
                next.checked_sub(1).and_then(|at| starts.get(at)).map_or(NONE, |(_, node)| *node)
            }
        }
    }

    #[inline]
    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    /// The nodes of a packet in a group: of its source and of its destination.
    #[inline]
    fn ends(&self, group: &Group, unit: &Unit) -> (u32, u32) {
        match group.by {
            By::Nothing => (group.nodes.0, NONE),
            By::Source => (self.find(group, unit.src), NONE),
            By::Destination => (self.find(group, unit.dst), NONE),
            By::Either => (self.find(group, unit.src), self.find(group, unit.dst)),
        }
    }

    /// Counts a packet or a flow: at nodes, or in `listed` for expressions whose terms are compared. The charts that
    /// count it at nodes are set in `charts`. Without `counts` nothing is counted. `found` is reused memory.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub fn count(
        &self,
        unit: &Unit,
        atoms: &AtomBits,
        weight: Total,
        counts: &mut [Total],
        charts: &mut [u64],
        found: &mut Vec<u32>,
        mut listed: impl FnMut(u32),
    ) {
        self.each_group(unit, atoms, found, |group| {
            if group.listed {
                self.list_group(group, unit, &mut listed);
                return;
            }
            let (a, b) = self.ends(group, unit);
            for node in [a, b].into_iter().filter(|node| *node != NONE) {
                if let Some(count) = counts.get_mut(node as usize) {
                    count.add(weight);
                }
                for (word, charts) in charts.iter_mut().enumerate() {
                    *charts |= self.charts.get(node as usize * self.chart_words + word).copied().unwrap_or(0);
                }
            }
            // Usually the two nodes have no common ancestor.
            if a != NONE && b != NONE && self.tops.get(a as usize) == self.tops.get(b as usize) {
                let mut both = a;
                while let Some(node) = self.node(both)
                    && !(node.low..=node.high).contains(&unit.dst)
                {
                    both = node.parent;
                }
                if let Some(count) = counts.get_mut(both as usize) {
                    count.sub(weight);
                }
            }
        });
    }

    /// Emits every expression that matches; an expression with several terms may occur more than once.
    #[inline]
    pub fn list(&self, unit: &Unit, atoms: &AtomBits, found: &mut Vec<u32>, mut see: impl FnMut(u32)) {
        self.each_group(unit, atoms, found, |group| self.list_group(group, unit, &mut see));
    }

    #[inline]
    fn list_group(&self, group: &Group, unit: &Unit, see: &mut impl FnMut(u32)) {
        let (a, b) = self.ends(group, unit);
        let mut at = a;
        while let Some(node) = self.node(at) {
            self.list_node(node, unit, see);
            at = node.parent;
        }
        let mut at = b;
        while let Some(node) = self.node(at)
            && !(node.low..=node.high).contains(&unit.src)
        {
            self.list_node(node, unit, see);
            at = node.parent;
        }
    }

    #[inline]
    fn list_node(&self, node: &Node, unit: &Unit, see: &mut impl FnMut(u32)) {
        for entry in self.entries.get(node.terms.0 as usize..node.terms.1 as usize).unwrap_or_default() {
            if entry.check == NONE || self.checks.get(entry.check as usize).is_some_and(|c| c.holds(unit)) {
                see(entry.expression);
            }
        }
    }

    /// Adds up the counts at nodes by expression and resets them.
    pub fn add_up(&self, counts: &mut [Total], mut see: impl FnMut(u32, Total)) {
        // Children follow their parents.
        for at in (0..self.nodes.len()).rev() {
            let (Some(node), Some(count)) = (self.nodes.get(at), counts.get_mut(at)) else { continue };
            let sum = std::mem::take(count);
            if sum == Total::default() {
                continue;
            }
            for entry in self.entries.get(node.terms.0 as usize..node.terms.1 as usize).unwrap_or_default() {
                see(entry.expression, sum);
            }
            if let Some(above) = counts.get_mut(node.parent as usize) {
                above.add(sum);
            }
        }
    }
}

/// Groups by the ports that they test.
#[derive(Default)]
struct Ports {
    /// Class and group, for groups without a test of ports.
    none: Vec<(u32, u32)>,
    source: Vec<((u32, u32), u32)>,
    destination: Vec<((u32, u32), u32)>,
    tags: Vec<((u32, u32), u32)>,
}

impl Ports {
    fn add(
        &mut self,
        group: u32,
        source: Option<Vec<(u32, u32)>>,
        destination: Option<Vec<(u32, u32)>>,
        either: Option<Vec<(u32, u32)>>,
        tags: Option<Vec<(u32, u32)>>,
        classes: impl FnOnce() -> Vec<u32>,
    ) {
        let with_group = |range: &(u32, u32)| (*range, group);
        if source.is_none() && destination.is_none() && either.is_none() {
            match tags {
                Some(tags) => self.tags.extend(tags.iter().map(with_group)),
                None => self.none.extend(classes().into_iter().map(|class| (class, group))),
            }
        }
        self.source.extend(source.iter().chain(&either).flatten().map(with_group));
        self.destination.extend(destination.iter().chain(&either).flatten().map(with_group));
    }
}

impl Check {
    #[inline]
    fn holds(&self, unit: &Unit) -> bool {
        let within = |ranges: &[(u32, u32)], at: u32| {
            let next = ranges.partition_point(|(low, _)| *low <= at);
            next.checked_sub(1).and_then(|last| ranges.get(last)).is_some_and(|(_, high)| at <= *high)
        };
        let is = |ranges: &Option<Vec<(u32, u32)>>, at| ranges.as_ref().is_none_or(|r| within(r, at));
        let any = |sets: &[Vec<(u32, u32)>], a, b| sets.iter().all(|r| within(r, a) || within(r, b));
        is(&self.src, unit.src)
            && is(&self.dst, unit.dst)
            && is(&self.sport, unit.sport)
            && is(&self.dport, unit.dport)
            && any(&self.either, unit.src, unit.dst)
            && any(&self.either_port, unit.sport, unit.dport)
    }
}

/// Calls a function with the ranges of stretches that a set of addresses consists of.
fn each_stretches(set: &Addresses, places: &AddressStretches, mut see: impl FnMut(u32, u32)) {
    each_prefix(set, |prefix| {
        let (low, high) = places.of_prefix(prefix);
        see(low, high);
    });
    if set.none {
        see(NO_ADDRESS, NO_ADDRESS);
    }
}

/// The VLAN tags of which a packet must have one, if a term requires a tag.
fn asks_for_tag(term: &Term) -> Option<&Ranges<u16>> {
    term.tags.as_ref().filter(|tags| !tags.contains(0))
}

/// The more selective of VLAN tag and ports, for terms that test both.
fn first_of(sources: &[ExpressionTerms<'_>]) -> First {
    let (mut tags, mut ports) = (HashMap::new(), HashMap::new());
    for term in sources.iter().flat_map(|source| source.terms) {
        if let Some(asked) = asks_for_tag(term)
            && let Some(port) = term.sport.as_ref().or(term.dport.as_ref()).or(term.either_port.first())
        {
            tags.insert(asked, ());
            ports.insert(port, ());
        }
    }
    if tags.len() > ports.len() { First::Tags } else { First::Ports }
}

/// The set's atoms that must hold, and those that must not.
pub(super) fn atom_bits(term: &Term, atoms: &[usize]) -> (AtomBits, AtomBits) {
    let (mut yes, mut no) = (AtomBits::default(), AtomBits::default());
    for (local, holds) in &term.atoms {
        let Some(atom) = atoms.get(*local) else { continue };
        let bits = if *holds { &mut yes } else { &mut no };
        if let Some(word) = bits.get_mut(atom / 64) {
            *word |= 1 << (atom % 64);
        }
    }
    (yes, no)
}

fn needed(index: &Index) -> Option<AtomBits> {
    let mut any = AtomBits::default();
    for group in &index.groups {
        let (yes, _) = index.atoms.get(group.atoms as usize)?;
        if *yes == AtomBits::default() {
            return None;
        }
        for (word, yes) in any.iter_mut().zip(yes) {
            *word |= yes;
        }
    }
    Some(any)
}
