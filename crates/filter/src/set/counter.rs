//! The state of one worker for a set: the current batch, and the counts.

use super::bits::each;
use super::columns::{Columns, and, and_not, has, or};
use super::flows::{Key, Keys, MAX_BITS, Remembered, Secret, TAG_BITS, Together};
use super::index::{AtomBits, Total, Unit};
use super::look::{Look, look, look_at_flow, v6_addresses};
use super::simd::{BATCH, Mask};
use super::{Set, Strategy};
use crate::filter::innermost;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use weir_wire::{Batch, FlowKey, Layers, LinkType, Packet, Tag};

/// Counts by expression and by remainder.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// In the order of the set's expressions.
    pub expressions: Vec<Total>,
    /// In the order of the set's remainders: packets that no expression of the remainder matched.
    pub remainders: Vec<Total>,
}

/// Puts packets through a set and counts the matches of each expression. One owner, one thread.
///
/// Packets may wait to be decided together. Counts are complete when they are taken.
pub struct MatchCounter {
    pub(super) set: Arc<Set>,
    pub(super) packets: Box<Columns>,
    flows: Box<Columns>,
    pub(super) keys: Box<Keys>,
    pub(super) secret: Secret,
    together: Together,
    pub(super) remembered: Remembered,
    counts: Counts,
    pub(super) scratch: Scratch,
}

/// Counts since they were taken last.
struct Counts {
    /// Counts at the nodes of the indexes.
    keyed: Vec<Total>,
    changing: Vec<Total>,
    /// By expression.
    direct: Vec<Total>,
    /// All packets that had to be decided.
    all: Total,
    /// For each remainder, the packets that one of its expressions matched.
    charted: Vec<Total>,
}

/// Reused memory.
pub(super) struct Scratch {
    pub classes: Vec<Mask>,
    pub comparisons: Vec<Mask>,
    pub atoms: Vec<Mask>,
    chart_masks: [Vec<Mask>; 2],
    pub deciding: Deciding,
    pub matched: Vec<u32>,
    units: Vec<Unit>,
}

/// Facts about one packet during its evaluation.
pub(super) struct Deciding {
    charts: Vec<u64>,
    other_charts: Vec<u64>,
    /// For each expression, the last packet that it matched, so that the packet is counted once.
    pub seen: PacketFacts,
    /// The groups of an index that may match.
    pub groups: Vec<u32>,
}

/// Marks entries for one packet, without being cleared for each packet.
pub(super) struct PacketFacts {
    last: Vec<u64>,
    pub now: u64,
}

impl PacketFacts {
    /// Whether an expression occurs for the first time for this packet.
    #[inline]
    pub fn is_first(&mut self, expression: u32) -> bool {
        match self.last.get_mut(expression as usize) {
            Some(last) => std::mem::replace(last, self.now) != self.now,
            None => false,
        }
    }
}

/// How a packet is decided.
pub(super) enum Offered {
    /// The packet is in the columns.
    Waits,
    /// Programs must decide the packet.
    Slow,
}

impl MatchCounter {
    /// A counter without counts.
    pub fn new(set: Arc<Set>) -> Self {
        let programs = set.atoms.program_count() + set.programs.len();
        let columns = || Columns::new(set.atoms.field_count(), programs);
        // The counts do not depend on the seed; the cost of packets that an attacker chose does.
        let random = RandomState::new();
        Self {
            keys: Keys::new(),
            secret: Secret::new([random.hash_one(0_u8), random.hash_one(1_u8)]),
            together: Together::new(),
            remembered: Remembered::new(),
            packets: columns(),
            flows: Columns::new(0, 0),
            counts: Counts {
                keyed: vec![Total::default(); set.keyed.nodes()],
                changing: vec![Total::default(); set.changing.nodes()],
                direct: vec![Total::default(); set.len()],
                all: Total::default(),
                charted: vec![Total::default(); set.remainders.len()],
            },
            scratch: Scratch {
                classes: Vec::new(),
                comparisons: Vec::new(),
                atoms: Vec::new(),
                chart_masks: [Vec::new(), Vec::new()],
                deciding: Deciding {
                    charts: vec![0; set.chart_words],
                    other_charts: vec![0; set.chart_words],
                    seen: PacketFacts { last: vec![0; set.len()], now: 0 },
                    groups: Vec::new(),
                },
                matched: Vec::new(),
                units: Vec::new(),
            },
            set,
        }
    }

    /// The set of expressions.
    pub fn set(&self) -> &Arc<Set> {
        &self.set
    }

    /// Counts packets, each for every expression that matches it. `layers`, if given, has one entry for each packet of
    /// the batch; without it, fields are read from the bytes.
    pub fn packets(&mut self, batch: Batch<'_>, layers: Option<&[Layers]>) {
        let mut at = 0;
        while at < batch.len() {
            let before = self.packets.len();
            let plain = self.push_plain(Batch { slots: batch.slots.get(at..).unwrap_or_default(), ..batch });
            self.packets.all_full_from(before);
            at += plain;
            if self.packets.is_full() {
                self.decide_packets();
            } else if let Some(packet) = batch.get(at) {
                self.packet(&packet, layers.and_then(|layers| layers.get(at)), true);
                at += 1;
            }
        }
    }

    /// Adds packets of the most common form, IPv4 without options directly after an Ethernet header, in as few steps
    /// as possible, until a packet has another form or there is no room. Returns their number.
    #[inline(never)]
    pub(super) fn push_plain(&mut self, batch: Batch<'_>) -> usize {
        const PLAIN: u32 = 0x08_0045;
        if !self.set.is_quick() {
            return 0;
        }
        let (classes, atoms, columns) = (&self.set.classes, &self.set.atoms, &mut *self.packets);
        let before = columns.len();
        let room = BATCH - before;
        let (mut added, mut longest) = (0, 0);
        for slot in batch.slots.iter().take(room) {
            let data = batch.packet(slot).data;
            let Some(head) = data.first_chunk::<38>() else { break };
            let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            if slot.link != LinkType::ETHERNET || word(12) >> 8 != PLAIN {
                break;
            }
            let fragment_and_protocol = word(20);
            let later = fragment_and_protocol & 0x1fff_0000 != 0;
            let (class, ports) = classes.of_ip(fragment_and_protocol as u8, later);
            if atoms.read_fields(data, class, &mut columns.fields, before + added).is_none() {
                break;
            }
            columns.put_v4(before + added, class, [word(26), word(30)], word(34) & ports, slot.wire_len);
            longest = slot.wire_len.max(longest);
            added += 1;
        }
        columns.extend(added, longest);
        added
    }

    /// Counts packets of which some are also counted by flow: `by_flow` has a bit for each packet, the lowest bit of
    /// the first word first. For packets with the bit, only tests that the flow key does not decide are counted here.
    pub fn packets_outside_flows(&mut self, batch: Batch<'_>, layers: &[Layers], by_flow: &[u64]) {
        let nothing_else = self.set.is_keyed();
        let flags = self.set.flags_outside_flows();
        for (word, layers) in layers.chunks(64).enumerate() {
            let present = u64::MAX >> (64 - layers.len());
            let by_flow = by_flow.get(word).copied().unwrap_or(0);
            let asked = match flags {
                _ if nothing_else => 0,
                Some(flags) => by_flow & with_flags(layers, flags),
                None => by_flow & present,
            };
            let slots = batch.slots.get(word * 64..).unwrap_or_default();
            let part = Batch { slots: slots.get(..layers.len()).unwrap_or(slots), ..batch };
            each(&[!by_flow & present], |at| {
                if let Some(packet) = part.get(at) {
                    self.packet(&packet, layers.get(at), true);
                }
            });
            runs(asked, |run| self.run_outside_flows(part, layers, run));
        }
    }

    /// Counts a run of packets that are also counted by flow.
    fn run_outside_flows(&mut self, batch: Batch<'_>, layers: &[Layers], run: std::ops::Range<usize>) {
        let mut at = run.start;
        while at < run.end {
            let rest = batch.slots.get(at..run.end).unwrap_or_default();
            at += self.push_plain(Batch { slots: rest, ..batch });
            if self.packets.is_full() {
                self.decide_packets();
            } else if let Some(packet) = batch.get(at).filter(|_| at < run.end) {
                self.packet(&packet, layers.get(at), false);
                at += 1;
            }
        }
    }

    /// Counts one direction of a flow, with one VLAN tag, for the expressions that key and tag decide. Packets whose
    /// headers do not show the key, or that have another tag, are subtracted with negative (wrapping) numbers.
    #[inline]
    pub fn flow(&mut self, key: &FlowKey, tag: Tag, source_is_lower: bool, packets: u64, bytes: u64) {
        let weight = Total { packets, bytes };
        let (look, addresses) = look_at_flow(key, tag, source_is_lower);
        let class = self.set.classes.of(look.kind);
        self.counts.all.add(weight);
        let at = self.flows.push(&look, class, 0, true);
        self.flows.set_v6(at, addresses);
        self.flows.set_weight(weight);
        if self.flows.is_full() {
            self.decide_flows();
        }
    }

    /// Returns the counts since the last call and resets them.
    pub fn take(&mut self) -> Totals {
        self.decide_packets();
        self.decide_flows();
        self.decide_together();
        let counts = &mut self.counts;
        let mut expressions = std::mem::replace(&mut counts.direct, vec![Total::default(); self.set.len()]);
        let indexes = [(&self.set.keyed, &mut counts.keyed), (&self.set.changing, &mut counts.changing)];
        for (index, counted) in indexes {
            index.add_up(counted, |expression, total| {
                if let Some(sum) = expressions.get_mut(expression as usize) {
                    sum.add(total);
                }
            });
        }
        let all = std::mem::take(&mut counts.all);
        let remainders = counts.charted.iter_mut().map(|charted| {
            let mut rest = all;
            rest.sub(std::mem::take(charted));
            rest
        });
        Totals { remainders: remainders.collect(), expressions }
    }

    /// Adds a packet to the columns, or decides it at once.
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>, layers: Option<&Layers>, full: bool) {
        match self.set.seen(*packet, layers) {
            Some((packet, layers)) => self.seen_packet(&packet, Some(&layers), full),
            None => self.seen_packet(packet, layers, full),
        }
    }

    #[inline]
    fn seen_packet(&mut self, packet: &Packet<'_>, layers: Option<&Layers>, full: bool) {
        match self.offer(packet, layers, full) {
            Offered::Waits if self.packets.is_full() => self.decide_packets(),
            Offered::Waits => {}
            Offered::Slow => self.count_slowly(packet, layers, full),
        }
    }

    #[inline]
    pub(super) fn offer(&mut self, packet: &Packet<'_>, layers: Option<&Layers>, full: bool) -> Offered {
        let set = &*self.set;
        if set.strategy == Strategy::Programs {
            return Offered::Slow;
        }
        let Some(look) = look(packet, layers, !set.options.strict_bpf) else { return Offered::Slow };
        if look.ports_missing || (packet.link != LinkType::ETHERNET && !set.ethernet_only.is_empty()) {
            return Offered::Slow;
        }
        let class = set.classes.of(look.kind);
        let at = self.packets.len() % BATCH;
        if !set.atoms.is_empty() {
            let read = set.atoms.read(packet, layers, &look, class, &mut self.packets, at);
            if read.is_none() {
                for mask in &mut self.packets.programs {
                    mask[at / 64] &= !(1 << (at % 64));
                }
                return Offered::Slow;
            }
        }
        if !set.programs.is_empty() {
            let masks = self.packets.programs.iter_mut().skip(set.atoms.program_count());
            for (number, mask) in set.programs.iter().zip(masks) {
                let verdict = set.filter(*number).and_then(|filter| filter.verdict(packet, layers));
                mask[at / 64] |= u64::from(verdict.unwrap_or(false)) << (at % 64);
            }
        }
        let at = self.packets.push(&look, class, packet.wire_len, full);
        if set.classes.traits(class).v6 {
            self.packets.set_v6(at, v6_addresses(packet.data, &look));
        }
        Offered::Waits
    }

    /// Finds in `scratch.matched` the expressions that match a packet which columns and indexes cannot decide.
    #[cold]
    pub(super) fn decide_slowly(&mut self, packet: &Packet<'_>, layers: Option<&Layers>, full: bool) {
        let Self { set, scratch, .. } = self;
        let Scratch { deciding: Deciding { seen, groups, .. }, matched, .. } = scratch;
        matched.clear();
        seen.now += 1;
        let mut ask = |expression: u32| {
            if (full || set.is_changing(expression))
                && seen.is_first(expression)
                && set.filter(expression).and_then(|f| f.verdict(packet, layers)).unwrap_or(false)
            {
                matched.push(expression);
            }
        };
        let look = match set.strategy {
            Strategy::Programs => None,
            _ => look(packet, layers, !set.options.strict_bpf),
        };
        let Some(look) = look else {
            (0..set.len() as u32).for_each(ask);
            return;
        };
        // Expressions that match without the missing bytes. Each is still run, since a test of such bytes may come
        // first.
        let mut unit = unit(set, packet.data, &look);
        unit.has_ports &= !look.ports_missing || look.source_port_only;
        let atoms = set.atoms.of_packet(packet, layers, &look);
        set.keyed.list(&unit, &atoms, groups, &mut ask);
        set.changing.list(&unit, &atoms, groups, &mut ask);
        for list in [&set.wary, &set.programs, &set.ethernet_only] {
            list.iter().for_each(|expression| ask(*expression));
        }
    }

    #[cold]
    fn count_slowly(&mut self, packet: &Packet<'_>, layers: Option<&Layers>, full: bool) {
        self.decide_slowly(packet, layers, full);
        let weight = Total { packets: 1, bytes: u64::from(packet.wire_len) };
        let Self { set, scratch, counts, .. } = self;
        if full {
            counts.all.add(weight);
        }
        let Deciding { charts, other_charts, groups, .. } = &mut scratch.deciding;
        charts.fill(0);
        for expression in &scratch.matched {
            if let Some(count) = counts.direct.get_mut(*expression as usize) {
                count.add(weight);
            }
            add_charts(charts, set.charts_of(*expression));
        }
        if !full && let Some(look) = look(packet, layers, !set.options.strict_bpf) {
            leave_to_flow(set, &unit(set, packet.data, &look), charts, other_charts, groups);
        }
        count_charts(&mut counts.charted, charts, weight);
    }

    pub(super) fn decide_packets(&mut self) {
        let Self { set, packets, keys, secret, together, counts, scratch, .. } = self;
        if packets.len() == 0 {
            return;
        }
        counts.all.add(packets.sum(set.isa, &packets.full));
        match set.strategy {
            Strategy::Columns => by_columns(set, packets, counts, scratch),
            Strategy::Index | Strategy::Programs => {
                compare_atoms(set, packets, scratch);
                if have_keys(set) {
                    make_keys(set, packets, &scratch.atoms, keys, *secret);
                    together.count(packets, keys, |keys| decide_keys(set, keys, counts, scratch));
                } else {
                    by_index(set, packets, counts, scratch);
                }
            }
        }
        packets.clear();
    }

    fn decide_together(&mut self) {
        let Self { set, together, counts, scratch, .. } = self;
        together.flush(|keys| decide_keys(set, keys, counts, scratch));
    }

    fn decide_flows(&mut self) {
        let Self { set, flows, counts, scratch, .. } = self;
        if flows.len() == 0 {
            return;
        }
        match set.strategy {
            Strategy::Columns => by_columns(set, flows, counts, scratch),
            Strategy::Index | Strategy::Programs => by_index(set, flows, counts, scratch),
        }
        flows.clear();
    }
}

/// A bit for each packet that has one of these TCP flags, for at most 64 packets.
fn with_flags(layers: &[Layers], flags: u8) -> u64 {
    let bits = layers.iter().enumerate().map(|(at, layers)| u64::from(layers.tcp_flags & flags != 0) << at);
    bits.fold(0, |all, bit| all | bit)
}

/// Calls `see` with the runs of set bits, lowest first.
fn runs(mut bits: u64, mut see: impl FnMut(std::ops::Range<usize>)) {
    let mut at = 0;
    while bits != 0 {
        let start = at + bits.trailing_zeros();
        bits >>= start - at;
        let len = bits.trailing_ones();
        see(start as usize..(start + len) as usize);
        bits = bits.checked_shr(len).unwrap_or(0);
        at = start + len;
    }
}

/// Whether the verdicts of a set's atoms and programs fit into a key.
pub(super) fn have_keys(set: &Set) -> bool {
    let tag = if set.asks_tags() { TAG_BITS } else { 0 };
    set.atoms.len() + set.programs.len() + tag <= MAX_BITS
}

/// Builds the keys of the packets of a batch that are not fully decided.
pub(super) fn make_keys(
    set: &Set,
    columns: &mut Columns,
    atom_masks: &[Mask],
    keys: &mut Keys,
    secret: Secret,
) {
    columns.number_v6(|address| set.addresses.of_v6(address));
    let mut wanted = columns.full;
    match set.changing.needed().filter(|_| set.programs.is_empty()) {
        Some(needed) => each(needed, |atom| {
            wanted = or(&wanted, atom_masks.get(atom).unwrap_or(&[0; BATCH / 64]));
        }),
        None => wanted = columns.present(),
    }
    let programs = columns.programs.iter().skip(set.atoms.program_count());
    let (bits, wanted) = (atom_masks.iter().chain(programs), and(&wanted, &columns.present()));
    let tags = set.asks_tags().then_some(&set.tags);
    keys.make(columns, bits, &wanted, tags, (set.indifferent, secret));
}

/// Counts packets that no expression distinguishes.
fn decide_keys(set: &Set, keys: &[(Key, Total)], counts: &mut Counts, scratch: &mut Scratch) {
    // Lookups are independent, so that their memory accesses overlap.
    for (key, _) in keys {
        key.ends().iter().for_each(|end| set.addresses.expect_v4(*end));
        key.ports().iter().for_each(|port| set.ports.expect(*port));
    }
    let Scratch { units, deciding, .. } = scratch;
    units.clear();
    let asks_tags = set.asks_tags();
    units.extend(keys.iter().map(|(key, _)| {
        let tag = if asks_tags { u32::from(key.tag()) } else { 0 };
        unit_at(set, key.class(), key.ends(), || key.ends(), key.ports(), tag)
    }));
    for ((key, total), unit) in keys.iter().zip(units.iter()) {
        let bits = key.bits();
        let programs = bits.checked_shr(set.atoms.len() as u32).unwrap_or(0);
        let atoms = [if set.atoms.len() < 64 { bits & ((1 << set.atoms.len()) - 1) } else { bits }, 0, 0, 0];
        let whole = set.programs.iter().enumerate().filter(|(at, _)| programs >> at & 1 == 1);
        decide_unit(
            set,
            unit,
            &atoms,
            whole.map(|(_, e)| *e),
            *total,
            (key.is_full(), true),
            counts,
            deciding,
        );
    }
}

fn by_columns(set: &Set, columns: &Columns, counts: &mut Counts, scratch: &mut Scratch) {
    compare_atoms(set, columns, scratch);
    set.plan.compare(set.isa, columns, &scratch.classes, &mut scratch.comparisons);
    for masks in &mut scratch.chart_masks {
        masks.clear();
        masks.resize(set.remainders.len(), [0; BATCH / 64]);
    }
    let count = |expression: u32, mask: &Mask| {
        let changing = set.is_changing(expression);
        if changing && columns.are_flows() {
            return;
        }
        let counted = if changing { *mask } else { and(mask, &columns.full) };
        if let Some(count) = counts.direct.get_mut(expression as usize) {
            count.add(columns.sum(set.isa, &counted));
        }
        each(set.charts_of(expression), |chart| {
            if let Some(sum) = scratch.chart_masks[usize::from(changing)].get_mut(chart) {
                *sum = or(sum, mask);
            }
        });
    };
    each_mask(set, columns, &scratch.comparisons, &scratch.atoms, count);
    let [keyed, changing] = &scratch.chart_masks;
    for ((keyed, changing), charted) in keyed.iter().zip(changing).zip(&mut counts.charted) {
        let all = and(&columns.full, &or(keyed, changing));
        let beside = and_not(&and_not(changing, keyed), &columns.full);
        charted.add(columns.sum(set.isa, &or(&all, &beside)));
    }
}

/// Calls a function with every expression and the packets that match it.
pub(super) fn each_mask(
    set: &Set,
    columns: &Columns,
    comparisons: &[Mask],
    atoms: &[Mask],
    mut see: impl FnMut(u32, &Mask),
) {
    let mut terms = set.plan.terms.iter().peekable();
    while let Some(term) = terms.next() {
        let mut mask = term.holds(comparisons, atoms);
        while let Some(next) = terms.next_if(|next| next.expression == term.expression) {
            mask = or(&mask, &next.holds(comparisons, atoms));
        }
        see(term.expression, &mask);
    }
    let whole = columns.programs.iter().skip(set.atoms.program_count());
    for (expression, mask) in set.programs.iter().zip(whole) {
        see(*expression, mask);
    }
}

fn by_index(set: &Set, columns: &Columns, counts: &mut Counts, scratch: &mut Scratch) {
    let are_packets = !columns.are_flows();
    if are_packets {
        compare_atoms(set, columns, scratch);
    }
    for at in 0..columns.len() {
        let full = has(&columns.full, at);
        let (unit, atoms) = unit_of(set, columns, if are_packets { &scratch.atoms } else { &[] }, at);
        let what = (full, are_packets);
        let programs = programs_of(set, columns, at);
        decide_unit(set, &unit, &atoms, programs, columns.weight(at), what, counts, &mut scratch.deciding);
    }
}

/// Counts packets that no expression distinguishes: the tests that the key decides if `full`, and the tests that can
/// change from packet to packet if `are_packets`.
#[allow(clippy::too_many_arguments)]
#[inline]
fn decide_unit(
    set: &Set,
    unit: &Unit,
    atoms: &AtomBits,
    programs: impl Iterator<Item = u32>,
    weight: Total,
    (full, are_packets): (bool, bool),
    counts: &mut Counts,
    deciding: &mut Deciding,
) {
    let Deciding { charts, other_charts, seen, groups } = deciding;
    let Counts { keyed, changing, direct, charted, .. } = counts;
    seen.now += 1;
    let has_charts = set.chart_words > 0;
    if has_charts {
        charts.fill(0);
        other_charts.fill(0);
    }
    let mut listed = |expression: u32| {
        if seen.is_first(expression)
            && let Some(count) = direct.get_mut(expression as usize)
        {
            count.add(weight);
            add_charts(other_charts, set.charts_of(expression));
        }
    };
    if full {
        set.keyed.count(unit, atoms, weight, keyed, charts, groups, &mut listed);
    }
    if are_packets {
        if set.changing.may_match(atoms) {
            set.changing.count(unit, atoms, weight, changing, charts, groups, &mut listed);
        }
        programs.for_each(listed);
    }
    if !has_charts {
        return;
    }
    add_charts(charts, other_charts);
    if !full {
        leave_to_flow(set, unit, charts, other_charts, groups);
    }
    count_charts(charted, charts, weight);
}

/// Evaluates the atoms for a batch.
pub(super) fn compare_atoms(set: &Set, columns: &Columns, scratch: &mut Scratch) {
    let is_needed = set.strategy == Strategy::Columns || !set.atoms.is_empty();
    if is_needed {
        columns.classes(set.isa, set.classes.len(), &mut scratch.classes);
        set.atoms.compare(set.isa, columns, &scratch.classes, &mut scratch.atoms);
    }
}

/// The facts about a packet in a batch that an index needs.
#[inline]
pub(super) fn unit_of(set: &Set, columns: &Columns, atom_masks: &[Mask], at: usize) -> (Unit, AtomBits) {
    let (class, ends) = columns.packet(at);
    let v6 = || columns.v6(at).map(|address| set.addresses.of_v6(address));
    let unit = unit_at(set, class, ends.v4, v6, ends.ports, set.tags.of(columns.tag(at)));
    let mut atoms = AtomBits::default();
    for (number, mask) in atom_masks.iter().enumerate() {
        if let Some(word) = atoms.get_mut(number / 64) {
            *word |= u64::from(has(mask, at)) << (number % 64);
        }
    }
    (unit, atoms)
}

/// The facts about a packet outside a batch that an index needs.
fn unit(set: &Set, data: &[u8], look: &Look) -> Unit {
    let v6 = || v6_addresses(data, look).map(|address| set.addresses.of_v6(address));
    unit_at(set, set.classes.of(look.kind), look.v4, v6, look.ports, set.tags.of(look.tag.number()))
}

/// `v6` gives the stretches of IPv6 addresses; `tag` is a stretch.
#[inline]
fn unit_at(
    set: &Set,
    class: u16,
    v4: [u32; 2],
    v6: impl FnOnce() -> [u32; 2],
    ports: [u16; 2],
    tag: u32,
) -> Unit {
    let traits = set.classes.traits(class);
    let mut unit = Unit { class, has_ports: traits.ports, tag, ..Unit::default() };
    if traits.v4 {
        [unit.src, unit.dst] = v4.map(|address| set.addresses.of_v4(address));
    } else if traits.v6 {
        [unit.src, unit.dst] = v6();
    }
    if traits.ports {
        [unit.sport, unit.dport] = ports.map(|port| set.ports.of(port));
    }
    unit
}

/// The matching expressions that only their program decides.
#[inline]
pub(super) fn programs_of<'s>(
    set: &'s Set,
    columns: &'s Columns,
    at: usize,
) -> impl Iterator<Item = u32> + 's {
    let whole = columns.programs.iter().skip(set.atoms.program_count());
    set.programs.iter().zip(whole).filter(move |(_, mask)| has(mask, at)).map(|(expression, _)| *expression)
}

/// Removes the charts that the flow's key decides from `charts`: the flow was counted for them. `keyed` is scratch.
fn leave_to_flow(set: &Set, unit: &Unit, charts: &mut [u64], keyed: &mut [u64], groups: &mut Vec<u32>) {
    if charts.iter().any(|word| *word != 0) {
        keyed_charts(set, unit, keyed, groups);
        for (charts, keyed) in charts.iter_mut().zip(keyed.iter()) {
            *charts &= !keyed;
        }
    }
}

/// The charts that a flow's key decides.
fn keyed_charts(set: &Set, unit: &Unit, charts: &mut [u64], groups: &mut Vec<u32>) {
    charts.fill(0);
    let mut listed = vec![0; charts.len()];
    let none = AtomBits::default();
    set.keyed.count(unit, &none, Total::default(), &mut [], charts, groups, |e| {
        add_charts(&mut listed, set.charts_of(e));
    });
    add_charts(charts, &listed);
}

#[inline]
fn add_charts(to: &mut [u64], charts: &[u64]) {
    for (to, charts) in to.iter_mut().zip(charts) {
        *to |= charts;
    }
}

#[inline]
fn count_charts(charted: &mut [Total], charts: &[u64], weight: Total) {
    each(charts, |chart| {
        if let Some(count) = charted.get_mut(chart) {
            count.add(weight);
        }
    });
}

impl Set {
    /// The packet that expressions test: with [`crate::Options::inner`] the innermost one.
    #[inline]
    pub(super) fn seen<'a>(
        &self,
        packet: Packet<'a>,
        layers: Option<&Layers>,
    ) -> Option<(Packet<'a>, Layers)> {
        layers.filter(|_| self.options.inner).map(|layers| innermost(&packet, layers))
    }
}
