//! What one worker keeps for a set: the batch in work, and what was counted.

use super::columns::{Columns, and, and_not, or};
use super::index::{AtomBits, Total, Unit};
use super::kind::{has_ports, is_v4, is_v6};
use super::look::{Look, look, look_at_flow};
use super::simd::{BATCH, Mask};
use super::{Set, Way};
use crate::filter::innermost;
use std::sync::Arc;
use weir_wire::{Batch, FlowKey, Layers, LinkType, Packet};

/// What was counted, by expression and by remainder.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// In the order of the set's expressions.
    pub expressions: Vec<Total>,
    /// In the order of the set's remainders: what no expression of each matched.
    pub remainders: Vec<Total>,
}

/// Puts packets through a set and counts for each expression those that match. One owner, one thread.
///
/// Packets may wait to be decided together: what was counted is complete when it is taken.
pub struct Counter {
    pub(super) set: Arc<Set>,
    pub(super) packets: Box<Columns>,
    flows: Box<Columns>,
    counts: Counts,
    pub(super) scratch: Scratch,
}

/// What was counted since it was last taken.
struct Counts {
    /// At the nodes of the indexes.
    keyed: Vec<Total>,
    changing: Vec<Total>,
    /// By expression.
    direct: Vec<Total>,
    /// Everything that was to be decided.
    all: Total,
    /// By remainder, what some expression of it matched.
    charted: Vec<Total>,
}

/// Memory that is used again.
pub(super) struct Scratch {
    pub classes: Vec<Mask>,
    pub comparisons: Vec<Mask>,
    pub atoms: Vec<Mask>,
    charts: Vec<u64>,
    other_charts: Vec<u64>,
    chart_masks: [Vec<Mask>; 2],
    /// By expression the last packet that it was found to match, so that it is counted once.
    pub seen: Seen,
    pub matched: Vec<u32>,
}

/// Finds what was there before, without being emptied for each packet.
pub(super) struct Seen {
    last: Vec<u64>,
    pub now: u64,
}

impl Seen {
    /// Whether an expression comes up for the first time for this packet.
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
    /// It is in the columns.
    Waits,
    /// By programs: for these expressions, of which some may not match.
    Slow,
}

impl Counter {
    /// A counter with nothing counted.
    pub fn new(set: Arc<Set>) -> Self {
        let programs = set.atoms.program_count() + set.programs.len();
        let columns = || Columns::new(set.atoms.field_count(), programs);
        Self {
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
                charts: vec![0; set.chart_words],
                other_charts: vec![0; set.chart_words],
                chart_masks: [Vec::new(), Vec::new()],
                seen: Seen { last: vec![0; set.len()], now: 0 },
                matched: Vec::new(),
            },
            set,
        }
    }

    /// The set.
    pub fn set(&self) -> &Arc<Set> {
        &self.set
    }

    /// Counts packets, each for every expression that matches it. `layers`, where they are known, are those of the
    /// batch, in order; without them what is needed is found in the octets.
    pub fn packets(&mut self, batch: Batch<'_>, layers: Option<&[Layers]>) {
        for (at, packet) in batch.packets().enumerate() {
            self.packet(&packet, layers.and_then(|layers| layers.get(at)), true);
        }
    }

    /// Counts packets of which some are also counted by flow: `by_flow` says which, a bit for each packet, the lowest
    /// bit of the first word first. For those only what a flow's key does not decide is counted here.
    pub fn packets_beside_flows(&mut self, batch: Batch<'_>, layers: &[Layers], by_flow: &[u64]) {
        let nothing_else = self.set.is_keyed();
        for (at, (packet, layers)) in batch.packets().zip(layers).enumerate() {
            let by_flow = by_flow.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1);
            if !(by_flow && nothing_else) {
                self.packet(&packet, Some(layers), !by_flow);
            }
        }
    }

    /// Counts what one direction of a flow had: for the expressions that its key decides. Packets whose own headers
    /// do not say what the key says are taken off again with negative (wrapping) numbers.
    #[inline]
    pub fn flow(&mut self, key: &FlowKey, source_is_lower: bool, packets: u64, bytes: u64) {
        let weight = Total { packets, bytes };
        let look = look_at_flow(key, source_is_lower);
        let class = self.set.classes.of(look.kind);
        self.counts.all.add(weight);
        let at = self.flows.push(&look, class, has_ports(look.kind), 0, Some(weight));
        self.flows.full[at / 64] |= 1 << (at % 64);
        if self.flows.is_full() {
            self.decide_flows();
        }
    }

    /// What was counted since the last time; nothing afterwards.
    pub fn take(&mut self) -> Totals {
        self.decide_packets();
        self.decide_flows();
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
        let (packet, layers) = self.set.seen(*packet, layers.copied().as_ref());
        if full {
            self.counts.all.add(Total { packets: 1, bytes: u64::from(packet.wire_len) });
        }
        match self.offer(&packet, layers.as_ref(), full) {
            Offered::Waits if self.packets.is_full() => self.decide_packets(),
            Offered::Waits => {}
            Offered::Slow => self.count_slowly(&packet, layers.as_ref(), full),
        }
    }

    #[inline]
    pub(super) fn offer(&mut self, packet: &Packet<'_>, layers: Option<&Layers>, full: bool) -> Offered {
        let set = &*self.set;
        if set.way == Way::Programs {
            return Offered::Slow;
        }
        let Some(look) = look(packet, layers, !set.reading.strict_bpf) else { return Offered::Slow };
        if look.ports_missing || (packet.link != LinkType::ETHERNET && !set.ethernet_only.is_empty()) {
            return Offered::Slow;
        }
        let class = set.classes.of(look.kind);
        let at = self.packets.len() % BATCH;
        let read = set.atoms.read(packet, layers, &look, class, &mut self.packets, at);
        if read.is_none() {
            for mask in &mut self.packets.programs {
                mask[at / 64] &= !(1 << (at % 64));
            }
            return Offered::Slow;
        }
        for (number, mask) in
            set.programs.iter().zip(self.packets.programs.iter_mut().skip(set.atoms.program_count()))
        {
            let matches =
                set.filter(*number).and_then(|filter| filter.verdict(packet, layers)).unwrap_or(false);
            mask[at / 64] |= u64::from(matches) << (at % 64);
        }
        self.packets.push(&look, class, has_ports(look.kind), packet.wire_len, None);
        self.packets.full[at / 64] |= u64::from(full) << (at % 64);
        Offered::Waits
    }

    /// Finds in `scratch.matched` the expressions that match a packet which columns and indexes cannot decide.
    #[cold]
    pub(super) fn decide_slowly(&mut self, packet: &Packet<'_>, layers: Option<&Layers>, full: bool) {
        let Self { set, scratch, .. } = self;
        let Scratch { seen, matched, .. } = scratch;
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
        let look = match set.way {
            Way::Programs => None,
            _ => look(packet, layers, !set.reading.strict_bpf),
        };
        let Some(look) = look else {
            (0..set.len() as u32).for_each(ask);
            return;
        };
        // What matches without the octets that are missing; each of these is asked all the same, since a test of
        // such octets may come before.
        let ports = has_ports(look.kind) && (!look.ports_missing || look.source_port_only);
        let unit = unit(set, set.classes.of(look.kind), ports, &look);
        let atoms = set.atoms.of_packet(packet, layers, &look);
        set.keyed.list(&unit, &atoms, &mut ask);
        set.changing.list(&unit, &atoms, &mut ask);
        for list in [&set.wary, &set.programs, &set.ethernet_only] {
            list.iter().for_each(|expression| ask(*expression));
        }
    }

    #[cold]
    fn count_slowly(&mut self, packet: &Packet<'_>, layers: Option<&Layers>, full: bool) {
        self.decide_slowly(packet, layers, full);
        let weight = Total { packets: 1, bytes: u64::from(packet.wire_len) };
        let Self { set, scratch, counts, .. } = self;
        scratch.charts.fill(0);
        for expression in &scratch.matched {
            if let Some(count) = counts.direct.get_mut(*expression as usize) {
                count.add(weight);
            }
            add_charts(&mut scratch.charts, set.charts_of(*expression));
        }
        if !full && scratch.charts.iter().any(|word| *word != 0) {
            // The flow has counted for the charts of what its key decides.
            if let Some(look) = look(packet, layers, !set.reading.strict_bpf) {
                let unit = unit(set, set.classes.of(look.kind), has_ports(look.kind), &look);
                keyed_charts(set, &unit, &mut scratch.other_charts);
                for (charts, keyed) in scratch.charts.iter_mut().zip(&scratch.other_charts) {
                    *charts &= !keyed;
                }
            }
        }
        count_charts(&mut counts.charted, &scratch.charts, weight);
    }

    pub(super) fn decide_packets(&mut self) {
        let Self { set, packets, counts, scratch, .. } = self;
        decide(set, packets, counts, scratch);
    }

    fn decide_flows(&mut self) {
        let Self { set, flows, counts, scratch, .. } = self;
        decide(set, flows, counts, scratch);
    }
}

/// Counts a batch and empties it.
fn decide(set: &Set, columns: &mut Columns, counts: &mut Counts, scratch: &mut Scratch) {
    if columns.len() > 0 {
        match set.way {
            Way::Columns => by_columns(set, columns, counts, scratch),
            Way::Index | Way::Programs => by_index(set, columns, counts, scratch),
        }
        columns.clear();
    }
}

fn by_columns(set: &Set, columns: &Columns, counts: &mut Counts, scratch: &mut Scratch) {
    compare_atoms(set, columns, scratch);
    set.plan.compare(set.level, columns, &scratch.classes, &mut scratch.comparisons);
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
            count.add(columns.sum(set.level, &counted));
        }
        for (word, charts) in set.charts_of(expression).iter().enumerate() {
            let mut charts = *charts;
            while charts != 0 {
                let chart = word * 64 + charts.trailing_zeros() as usize;
                if let Some(sum) = scratch.chart_masks[usize::from(changing)].get_mut(chart) {
                    *sum = or(sum, mask);
                }
                charts &= charts - 1;
            }
        }
    };
    each_mask(set, columns, &scratch.comparisons, &scratch.atoms, count);
    let [keyed, changing] = &scratch.chart_masks;
    for ((keyed, changing), charted) in keyed.iter().zip(changing).zip(&mut counts.charted) {
        let all = and(&columns.full, &or(keyed, changing));
        let beside = and_not(&and_not(changing, keyed), &columns.full);
        charted.add(columns.sum(set.level, &or(&all, &beside)));
    }
}

/// Calls with every expression and the packets that match it.
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
    compare_atoms(set, columns, scratch);
    let Scratch { atoms: atom_masks, charts, other_charts, seen, .. } = scratch;
    let Counts { keyed, changing, direct, charted, .. } = counts;
    for at in 0..columns.len() {
        let full = columns.full[at / 64] >> (at % 64) & 1 == 1;
        let (unit, atoms) = unit_of(set, columns, atom_masks, at);
        let weight = columns.weight(at);
        seen.now += 1;
        charts.fill(0);
        let mut listed = |expression: u32, charts: &mut [u64]| {
            if seen.is_first(expression)
                && let Some(count) = direct.get_mut(expression as usize)
            {
                count.add(weight);
                add_charts(charts, set.charts_of(expression));
            }
        };
        other_charts.fill(0);
        if full {
            set.keyed.count(&unit, &atoms, weight, keyed, charts, |e| listed(e, other_charts));
        }
        if !columns.are_flows() && set.changing.may_match(&atoms) {
            set.changing.count(&unit, &atoms, weight, changing, charts, |e| listed(e, other_charts));
        }
        programs_of(set, columns, at, |e| listed(e, other_charts));
        add_charts(charts, other_charts);
        if !full && charts.iter().any(|word| *word != 0) {
            keyed_charts(set, &unit, other_charts);
            for (charts, keyed) in charts.iter_mut().zip(other_charts.iter()) {
                *charts &= !keyed;
            }
        }
        count_charts(charted, charts, weight);
    }
}

/// Decides the atoms of a batch.
pub(super) fn compare_atoms(set: &Set, columns: &Columns, scratch: &mut Scratch) {
    let is_needed = set.way == Way::Columns || set.atoms.len() > 0;
    if is_needed {
        columns.classes(set.classes.len(), &mut scratch.classes);
        set.atoms.compare(set.level, columns, &scratch.classes, &mut scratch.atoms);
    }
}

/// What an index asks of a packet of a batch.
#[inline]
pub(super) fn unit_of(set: &Set, columns: &Columns, atom_masks: &[Mask], at: usize) -> (Unit, AtomBits) {
    let (class, has_ports, ends) = columns.packet(at);
    let kind = set.classes.example(usize::from(class));
    let mut unit = Unit { class, has_ports, ..Unit::default() };
    if is_v4(kind) {
        unit.src = set.addresses.of_v4(ends.v4[0]);
        unit.dst = set.addresses.of_v4(ends.v4[1]);
    } else if is_v6(kind) {
        unit.src = set.addresses.of_v6(ends.v6[0]);
        unit.dst = set.addresses.of_v6(ends.v6[1]);
    }
    if has_ports {
        unit.sport = set.ports.of(ends.ports[0]);
        unit.dport = set.ports.of(ends.ports[1]);
    }
    let mut atoms = AtomBits::default();
    for (number, mask) in atom_masks.iter().enumerate() {
        if let Some(word) = atoms.get_mut(number / 64) {
            *word |= (mask[at / 64 % mask.len()] >> (at % 64) & 1) << (number % 64);
        }
    }
    (unit, atoms)
}

/// The same of a packet that is in no batch.
fn unit(set: &Set, class: u16, has_ports: bool, look: &Look) -> Unit {
    let mut unit = Unit { class, has_ports, ..Unit::default() };
    if is_v4(look.kind) {
        unit.src = set.addresses.of_v4(look.src as u32);
        unit.dst = set.addresses.of_v4(look.dst as u32);
    } else if is_v6(look.kind) {
        unit.src = set.addresses.of_v6(look.src);
        unit.dst = set.addresses.of_v6(look.dst);
    }
    if has_ports {
        unit.sport = set.ports.of(look.sport);
        unit.dport = set.ports.of(look.dport);
    }
    unit
}

/// The expressions that only their program decides, and that match.
#[inline]
pub(super) fn programs_of(set: &Set, columns: &Columns, at: usize, mut see: impl FnMut(u32)) {
    let whole = columns.programs.iter().skip(set.atoms.program_count());
    for (expression, mask) in set.programs.iter().zip(whole) {
        if mask[at / 64 % mask.len()] >> (at % 64) & 1 == 1 {
            see(*expression);
        }
    }
}

/// The charts of what a flow's key decides.
fn keyed_charts(set: &Set, unit: &Unit, charts: &mut [u64]) {
    charts.fill(0);
    let mut listed = vec![0; charts.len()];
    let none = AtomBits::default();
    set.keyed.count(unit, &none, Total::default(), &mut [], charts, |e| {
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
    for (word, &bits) in charts.iter().enumerate() {
        let mut bits = bits;
        while bits != 0 {
            if let Some(count) = charted.get_mut(word * 64 + bits.trailing_zeros() as usize) {
                count.add(weight);
            }
            bits &= bits - 1;
        }
    }
}

impl Set {
    /// The packet that expressions are about: with [`crate::Options::inner`] the innermost.
    #[inline]
    pub(super) fn seen<'a>(
        &self,
        packet: Packet<'a>,
        layers: Option<&Layers>,
    ) -> (Packet<'a>, Option<Layers>) {
        match layers {
            Some(layers) if self.reading.inner => {
                let (packet, layers) = innermost(&packet, layers);
                (packet, Some(layers))
            }
            layers => (packet, layers.copied()),
        }
    }
}
