//! Packets as columns: one array for each field that an expression can test, so that one comparison covers all packets
//! of a batch.

use super::bits::each;
use super::index::{ExpressionTerms, Total};
use super::kind::Classes;
use super::look::Look;
use super::ranges::{Addresses, Ranges};
use super::simd::{
    BATCH, Column, InstructionSet, MAX_SUMMAND, Mask, either_in_range_u16, either_in_range_u32, in_range_u16,
    in_range_u32, masked_in_range, sum,
};
use foldhash::{HashMap, HashMapExt};
use weir_wire::Tag;

/// A batch in columns.
pub(super) struct Columns {
    len: usize,
    pub class: Column<u16>,
    src4: Column<u32>,
    dst4: Column<u32>,
    src6: Column<u128>,
    dst6: Column<u128>,
    sport: Column<u16>,
    dport: Column<u16>,
    /// Outermost VLAN tags, as numbers.
    tag: Column<u16>,
    /// Whether a tag is not 0. If not, all entries of `tag` are 0.
    has_tags: bool,
    /// Bytes on the wire.
    length: Column<u32>,
    /// Position of each packet in the caller's batch.
    pub origin: Column<u32>,
    /// Packets and bytes of each flow, if the entries are flows.
    weights: Vec<Total>,
    /// The largest length in the batch.
    longest: u32,
    /// A column for each field that atoms test.
    pub fields: Vec<Column<u32>>,
    /// Packets whose verdict needs every test. The others need only the tests that the flow key does not decide.
    pub full: Mask,
    /// Packets with IPv6 addresses.
    v6: Mask,
    /// Verdicts of programs: a mask for each atom that is a program.
    pub programs: Vec<Mask>,
}

impl Columns {
    pub fn new(fields: usize, programs: usize) -> Box<Self> {
        Box::new(Self {
            len: 0,
            class: [0; BATCH],
            src4: [0; BATCH],
            dst4: [0; BATCH],
            src6: [0; BATCH],
            dst6: [0; BATCH],
            sport: [0; BATCH],
            dport: [0; BATCH],
            tag: [0; BATCH],
            has_tags: false,
            length: [0; BATCH],
            origin: [0; BATCH],
            weights: Vec::new(),
            longest: 0,
            fields: vec![[0; BATCH]; fields],
            full: [0; BATCH / 64],
            v6: [0; BATCH / 64],
            programs: vec![[0; BATCH / 64]; programs],
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Adds a packet and returns its position. There must be room.
    #[inline]
    pub fn push(&mut self, look: &Look, class: u16, length: u32, is_full: bool) -> usize {
        let at = self.len % BATCH;
        self.len = at + 1;
        self.class[at] = class;
        [self.src4[at], self.dst4[at]] = look.v4;
        [self.sport[at], self.dport[at]] = look.ports;
        if look.tag != Tag::NONE {
            self.tag[at] = look.tag.number();
            self.has_tags = true;
        }
        self.length[at] = length;
        self.longest = self.longest.max(length);
        self.full[at / 64] |= u64::from(is_full) << (at % 64);
        at
    }

    /// Writes an IPv4 packet to a position after the last one; [`Columns::extend`] adds it later. The source's port is
    /// in the upper half of `ports`.
    #[inline(always)]
    pub fn put_v4(&mut self, at: usize, class: u16, v4: [u32; 2], ports: u32, length: u32) {
        let at = at % BATCH;
        self.class[at] = class;
        self.src4[at] = v4[0];
        self.dst4[at] = v4[1];
        self.sport[at] = (ports >> 16) as u16;
        self.dport[at] = ports as u16;
        self.length[at] = length;
    }

    /// Adds packets that were written before, none longer than the given length.
    pub fn extend(&mut self, packets: usize, longest: u32) {
        self.len = (self.len + packets).min(BATCH);
        self.longest = self.longest.max(longest);
    }

    /// Marks the packets from a position on as needing every test.
    #[inline]
    pub fn all_full_from(&mut self, from: usize) {
        for (word, bits) in self.full.iter_mut().enumerate() {
            *bits |= first(self.len.saturating_sub(word * 64)) & !first(from.saturating_sub(word * 64));
        }
    }

    /// Sets the addresses of the packet that was added last.
    #[inline]
    pub fn set_v6(&mut self, at: usize, addresses: [u128; 2]) {
        let at = at % BATCH;
        [self.src6[at], self.dst6[at]] = addresses;
        self.v6[at / 64] |= 1 << (at % 64);
    }

    /// Stores numbers for IPv6 addresses in the columns of addresses, so that a few bits distinguish addresses of both
    /// versions.
    pub fn number_v6(&mut self, number: impl Fn(u128) -> u32) {
        let Self { v6, src4, dst4, src6, dst6, .. } = self;
        each(v6, |at| {
            let at = at % BATCH;
            (src4[at], dst4[at]) = (number(src6[at]), number(dst6[at]));
        });
    }

    /// Sets the number of packets and bytes of the flow that was added last.
    #[inline]
    pub fn set_weight(&mut self, weight: Total) {
        self.weights.push(weight);
    }

    /// A packet's class, addresses and ports.
    #[inline]
    pub fn packet(&self, at: usize) -> (u16, Endpoints) {
        let at = at % BATCH;
        let ends = Endpoints { v4: [self.src4[at], self.dst4[at]], ports: [self.sport[at], self.dport[at]] };
        (self.class[at], ends)
    }

    /// A packet's addresses and its ports, in one number each, the source's in the upper half.
    #[inline(always)]
    pub fn ends(&self, at: usize) -> (u64, u32) {
        let at = at % BATCH;
        let addresses = u64::from(self.src4[at]) << 32 | u64::from(self.dst4[at]);
        (addresses, u32::from(self.sport[at]) << 16 | u32::from(self.dport[at]))
    }

    /// The number of a packet's outermost VLAN tag.
    #[inline(always)]
    pub fn tag(&self, at: usize) -> u16 {
        self.tag[at % BATCH]
    }

    /// A packet's bytes on the wire.
    #[inline(always)]
    pub fn length(&self, at: usize) -> u32 {
        self.length[at % BATCH]
    }

    /// A packet's addresses, if they are IPv6 addresses.
    #[inline]
    pub fn v6(&self, at: usize) -> [u128; 2] {
        [self.src6[at % BATCH], self.dst6[at % BATCH]]
    }

    /// Packets and bytes of an entry.
    #[inline]
    pub fn weight(&self, at: usize) -> Total {
        match self.weights.get(at) {
            Some(weight) => *weight,
            None => Total { packets: 1, bytes: u64::from(self.length[at % BATCH]) },
        }
    }

    /// Whether the entries are flows, of which only the key is available.
    pub fn are_flows(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Packets and bytes of a mask.
    pub fn sum(&self, isa: InstructionSet, mask: &Mask) -> Total {
        if !self.are_flows() {
            let packets = mask.iter().map(|word| u64::from(word.count_ones())).sum();
            // A length that no link allows but a file can claim.
            let isa = if self.longest > MAX_SUMMAND { InstructionSet::Plain } else { isa };
            return Total { packets, bytes: if packets == 0 { 0 } else { sum(isa, &self.length, mask) } };
        }
        let mut total = Total::default();
        each(mask, |at| total.add(self.weight(at)));
        total
    }

    /// The mask of all entries.
    pub fn present(&self) -> Mask {
        std::array::from_fn(|word| first(self.len.saturating_sub(word * 64)))
    }

    /// The packets of each class.
    pub fn classes(&self, isa: InstructionSet, count: usize, masks: &mut Vec<Mask>) {
        masks.clear();
        masks.resize(count, [0; BATCH / 64]);
        if count <= MAX_COMPARED_CLASSES {
            let present = self.present();
            for (class, mask) in masks.iter_mut().enumerate() {
                in_range_u16(isa, &self.class, (class as u16, class as u16), mask);
                *mask = and(mask, &present);
            }
            return;
        }
        for (at, class) in self.class.iter().take(self.len).enumerate() {
            if let Some(mask) = masks.get_mut(usize::from(*class)) {
                mask[at / 64] |= 1 << (at % 64);
            }
        }
    }

    /// Packets whose field, under `bits`, is in a range. The result is undefined for packets without that field.
    pub fn field(&self, isa: InstructionSet, field: usize, bits: u32, range: (u32, u32)) -> Mask {
        let mut mask = [0; BATCH / 64];
        if let Some(column) = self.fields.get(field) {
            masked_in_range(isa, column, bits, range, &mut mask);
        }
        mask
    }

    /// Packets whose length on the wire is in a range.
    pub fn of_length(&self, isa: InstructionSet, range: (u32, u32)) -> Mask {
        let mut mask = [0; BATCH / 64];
        in_range_u32(isa, &self.length, range, &mut mask);
        mask
    }

    pub fn clear(&mut self) {
        self.len = 0;
        self.weights.clear();
        self.longest = 0;
        self.full = [0; BATCH / 64];
        self.v6 = [0; BATCH / 64];
        if std::mem::take(&mut self.has_tags) {
            self.tag = [0; BATCH];
        }
        for mask in &mut self.programs {
            *mask = [0; BATCH / 64];
        }
    }
}

/// Maximum number of classes that are compared with the column; more are looked up packet by packet.
const MAX_COMPARED_CLASSES: usize = 48;

/// IPv4 addresses, and ports, source first.
pub(super) struct Endpoints {
    pub v4: [u32; 2],
    pub ports: [u16; 2],
}

/// A word with the lowest `n` bits set.
#[inline]
fn first(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Whether a packet is in a mask.
#[inline]
pub(super) fn has(mask: &Mask, at: usize) -> bool {
    mask[at / 64 % mask.len()] >> (at % 64) & 1 == 1
}

/// The side of a packet that is compared.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Side {
    Source,
    Destination,
    Either,
}

/// A comparison that expressions share.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Predicate<'t> {
    Address(Side, &'t Addresses),
    Port(Side, &'t Ranges<u16>),
    Tag(&'t Ranges<u16>),
    Kinds(&'t super::kind::Kinds),
}

/// The owned form of a comparison.
#[derive(Clone, Debug)]
enum Comparison {
    Address(Side, Addresses),
    Port(Side, Ranges<u16>),
    Tag(Ranges<u16>),
    /// Classes.
    Kinds(Vec<u16>),
}

/// A term as a list of comparisons that must all hold.
#[derive(Clone, Debug)]
pub(super) struct Conjunction {
    pub expression: u32,
    comparisons: Vec<u32>,
    /// The set's atoms, and whether each must hold.
    atoms: Vec<(u32, bool)>,
}

/// All comparisons of a set, without duplicates.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnPlan {
    comparisons: Vec<Comparison>,
    /// The terms, in the order of expressions.
    pub terms: Vec<Conjunction>,
    /// Classes of packets with IPv4 addresses.
    v4: Vec<u16>,
    v6: Vec<u16>,
}

impl ColumnPlan {
    pub fn new<'t>(parts: &'t [ExpressionTerms<'t>], classes: &Classes) -> Self {
        let mut plan = Self {
            v4: (0..classes.len()).filter(|c| classes.traits(*c as u16).v4).map(|c| c as u16).collect(),
            v6: (0..classes.len()).filter(|c| classes.traits(*c as u16).v6).map(|c| c as u16).collect(),
            ..Self::default()
        };
        let mut known: HashMap<Predicate<'t>, u32> = HashMap::new();
        for ExpressionTerms { expression, terms, atoms, .. } in parts {
            for term in *terms {
                let mut comparisons = Vec::new();
                let mut add = |predicate: Predicate<'t>| {
                    let next = known.len() as u32;
                    let number = *known.entry(predicate.clone()).or_insert(next);
                    if number == next {
                        plan.comparisons.push(match predicate {
                            Predicate::Address(side, set) => Comparison::Address(side, set.clone()),
                            Predicate::Port(side, set) => Comparison::Port(side, set.clone()),
                            Predicate::Tag(set) => Comparison::Tag(set.clone()),
                            Predicate::Kinds(kinds) => Comparison::Kinds(classes.within(kinds)),
                        });
                    }
                    comparisons.push(number);
                };
                add(Predicate::Kinds(&term.kinds));
                term.src.iter().for_each(|set| add(Predicate::Address(Side::Source, set)));
                term.dst.iter().for_each(|set| add(Predicate::Address(Side::Destination, set)));
                term.either.iter().for_each(|set| add(Predicate::Address(Side::Either, set)));
                term.sport.iter().for_each(|set| add(Predicate::Port(Side::Source, set)));
                term.dport.iter().for_each(|set| add(Predicate::Port(Side::Destination, set)));
                term.either_port.iter().for_each(|set| add(Predicate::Port(Side::Either, set)));
                term.tags.iter().for_each(|set| add(Predicate::Tag(set)));
                let atoms =
                    term.atoms.iter().filter_map(|(local, holds)| Some((*atoms.get(*local)? as u32, *holds)));
                plan.terms.push(Conjunction { expression: *expression, comparisons, atoms: atoms.collect() });
            }
        }
        plan
    }

    /// Approximate number of vectors compared for a batch.
    pub fn cost(&self) -> usize {
        let of_addresses = |set: &Addresses| set.v4.as_slice().len() * 2 + set.v6.as_slice().len() * 4;
        let each = self.comparisons.iter().map(|comparison| match comparison {
            Comparison::Address(_, set) => of_addresses(set),
            Comparison::Port(_, set) | Comparison::Tag(set) => set.as_slice().len(),
            Comparison::Kinds(_) => 1,
        });
        each.sum::<usize>() + self.terms.len()
    }

    /// Evaluates every comparison for a batch.
    pub fn compare(&self, isa: InstructionSet, columns: &Columns, classes: &[Mask], results: &mut Vec<Mask>) {
        let any_of = |of: &[u16]| {
            of.iter().fold([0; BATCH / 64], |all, class| {
                or(&all, classes.get(usize::from(*class)).unwrap_or(&[0; BATCH / 64]))
            })
        };
        let (v4, v6) = (any_of(&self.v4), any_of(&self.v6));
        results.clear();
        for comparison in &self.comparisons {
            results.push(match comparison {
                Comparison::Kinds(kinds) => any_of(kinds),
                Comparison::Address(side, set) => addresses(isa, columns, *side, set, &v4, &v6),
                Comparison::Port(side, set) => ports(isa, columns, *side, set),
                Comparison::Tag(set) => tags(isa, columns, set),
            });
        }
    }
}

impl Conjunction {
    /// The packets of the term.
    #[inline]
    pub fn holds(&self, comparisons: &[Mask], atoms: &[Mask]) -> Mask {
        let mut mask = [u64::MAX; BATCH / 64];
        for at in &self.comparisons {
            if let Some(other) = comparisons.get(*at as usize) {
                mask = and(&mask, other);
            }
        }
        for (at, holds) in &self.atoms {
            if let Some(other) = atoms.get(*at as usize) {
                mask = if *holds { and(&mask, other) } else { and_not(&mask, other) };
            }
        }
        mask
    }
}

#[inline]
pub(super) fn and(a: &Mask, b: &Mask) -> Mask {
    std::array::from_fn(|word| a[word] & b[word])
}

#[inline]
pub(super) fn and_not(a: &Mask, b: &Mask) -> Mask {
    std::array::from_fn(|word| a[word] & !b[word])
}

#[inline]
pub(super) fn or(a: &Mask, b: &Mask) -> Mask {
    std::array::from_fn(|word| a[word] | b[word])
}

fn addresses(
    isa: InstructionSet,
    columns: &Columns,
    side: Side,
    set: &Addresses,
    v4: &Mask,
    v6: &Mask,
) -> Mask {
    let mut mask = [0; BATCH / 64];
    if v4.iter().any(|word| *word != 0) {
        for range in set.v4.as_slice() {
            match side {
                Side::Source => in_range_u32(isa, &columns.src4, *range, &mut mask),
                Side::Destination => in_range_u32(isa, &columns.dst4, *range, &mut mask),
                Side::Either => either_in_range_u32(isa, &columns.src4, &columns.dst4, *range, &mut mask),
            }
        }
        mask = and(&mask, v4);
    }
    if !set.v6.is_empty() {
        each(v6, |at| {
            let (src, dst) = (columns.src6[at % BATCH], columns.dst6[at % BATCH]);
            let holds = (side != Side::Destination && set.v6.contains(src))
                || (side != Side::Source && set.v6.contains(dst));
            mask[at / 64] |= u64::from(holds) << (at % 64);
        });
    }
    if set.none {
        mask = or(&mask, &and_not(&columns.present(), &or(v4, v6)));
    }
    mask
}

fn tags(isa: InstructionSet, columns: &Columns, set: &Ranges<u16>) -> Mask {
    if !columns.has_tags {
        return if set.contains(0) { columns.present() } else { [0; BATCH / 64] };
    }
    let mut mask = [0; BATCH / 64];
    for range in set.as_slice() {
        in_range_u16(isa, &columns.tag, *range, &mut mask);
    }
    and(&mask, &columns.present())
}

fn ports(isa: InstructionSet, columns: &Columns, side: Side, set: &Ranges<u16>) -> Mask {
    let mut mask = [0; BATCH / 64];
    for range in set.as_slice() {
        match side {
            Side::Source => in_range_u16(isa, &columns.sport, *range, &mut mask),
            Side::Destination => in_range_u16(isa, &columns.dport, *range, &mut mask),
            Side::Either => either_in_range_u16(isa, &columns.sport, &columns.dport, *range, &mut mask),
        }
    }
    mask
}
