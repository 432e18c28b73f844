//! The expressions that match each packet, for users that need the packets and not only their number.

use super::bits::each;
use super::columns::Columns;
use super::counter::{
    Deciding, MatchCounter, Offered, Scratch, compare_atoms, each_mask, have_keys, make_keys, programs_of,
    unit_of,
};
use super::index::{AtomBits, Unit};
use super::simd::BATCH;
use super::{Set, Strategy};
use std::sync::Arc;
use weir_wire::{Batch, Layers, Packet};

/// Number of packets that [`MatchCounter::masks`] decides at once.
pub const MASK_PACKETS: usize = BATCH;

/// A bit for each of [`MASK_PACKETS`] packets, the lowest of the first word first.
pub type PacketMask = [u64; MASK_PACKETS / 64];

/// The packets of a batch that each expression of a set matches. Its memory is reused: only the masks of expressions that
/// matched are cleared.
#[derive(Debug, Default)]
pub struct Masks {
    /// By the number of the expression.
    masks: Vec<PacketMask>,
    /// The expressions that match a packet of the batch.
    matching: Vec<u32>,
}

impl Masks {
    /// The expressions that match a packet, each with its packets.
    pub fn matching(&self) -> impl Iterator<Item = (u32, &PacketMask)> {
        self.matching.iter().filter_map(|expression| Some((*expression, self.of(*expression)?)))
    }

    /// The packets that an expression matches; `None` beyond the last expression.
    pub fn of(&self, expression: u32) -> Option<&PacketMask> {
        self.masks.get(expression as usize)
    }

    /// Begins a batch of a set with this number of expressions.
    fn begin(&mut self, expressions: usize) {
        for expression in self.matching.drain(..) {
            if let Some(mask) = self.masks.get_mut(expression as usize) {
                *mask = PacketMask::default();
            }
        }
        self.masks.resize(expressions, PacketMask::default());
    }

    fn add_packet(&mut self, expression: u32, at: usize) {
        let mut packet = PacketMask::default();
        packet[at / 64 % packet.len()] = 1 << (at % 64);
        self.add(expression, &packet);
    }

    fn add(&mut self, expression: u32, packets: &PacketMask) {
        let Some(mask) = self.masks.get_mut(expression as usize) else { return };
        if *packets == PacketMask::default() {
            return;
        }
        if *mask == PacketMask::default() {
            self.matching.push(expression);
        }
        for (word, packets) in mask.iter_mut().zip(packets) {
            *word |= packets;
        }
    }
}

impl MatchCounter {
    /// Calls `see` with each packet's number in the batch and the expressions that match it, in order; not called for
    /// packets without a match. Nothing is counted.
    pub fn match_sets(
        &mut self,
        batch: Batch<'_>,
        layers: Option<&[Layers]>,
        see: &mut dyn FnMut(usize, &[u32]),
    ) {
        self.decide_packets();
        let mut at = 0;
        while at < batch.len() {
            let before = self.packets.len();
            let plain = self.push_plain(Batch { slots: batch.slots.get(at..).unwrap_or_default(), ..batch });
            self.packets.all_full_from(before);
            for (place, at) in (before..before + plain).zip(at..) {
                self.packets.origin[place % BATCH] = at as u32;
            }
            at += plain;
            if self.packets.is_full() {
                self.list(see);
            } else if let Some(packet) = batch.get(at) {
                self.list_one(at, &packet, layers.and_then(|layers| layers.get(at)), see);
                at += 1;
            }
        }
        self.list(see);
    }

    /// Adds a packet to the columns, or emits its match set at once, after those of the packets before it.
    fn list_one(
        &mut self,
        at: usize,
        packet: &Packet<'_>,
        layers: Option<&Layers>,
        see: &mut dyn FnMut(usize, &[u32]),
    ) {
        let seen = self.set.seen(*packet, layers);
        let (packet, layers) = seen.as_ref().map_or((packet, layers), |(p, l)| (p, Some(l)));
        match self.offer(packet, layers, true) {
            Offered::Waits => {
                let last = (self.packets.len() - 1) % BATCH;
                self.packets.origin[last] = at as u32;
                if self.packets.is_full() {
                    self.list(see);
                }
            }
            Offered::Slow => {
                self.list(see);
                self.decide_slowly(packet, layers, true);
                if !self.scratch.matched.is_empty() {
                    self.scratch.matched.sort_unstable();
                    see(at, &self.scratch.matched);
                }
            }
        }
    }

    /// Emits the match set of each packet of the current batch by the index, and empties the batch. Packets that no
    /// expression distinguishes are looked up once, as long as their key is remembered.
    fn list(&mut self, see: &mut dyn FnMut(usize, &[u32])) {
        let Self { set, packets, keys, secret, remembered, scratch, .. } = self;
        compare_atoms(set, packets, scratch);
        let mut see = |at: usize, found: &[u32]| {
            if !found.is_empty() {
                see(at, found);
            }
        };
        if have_keys(set) {
            make_keys(set, packets, &scratch.atoms, keys, *secret);
            let Scratch { atoms, deciding, .. } = scratch;
            let find = |at: usize, _: &_, found: &mut Vec<u32>| {
                let (unit, atoms) = unit_of(set, packets, atoms, at);
                list_unit(set, &unit, &atoms, programs_of(set, packets, at), deciding, found);
            };
            remembered.each(keys, find, |at, found| see(packets.origin[at % BATCH] as usize, found));
        } else {
            for at in 0..packets.len() {
                scratch.list_packet(set, packets, at);
                see(packets.origin[at % BATCH] as usize, &scratch.matched);
            }
        }
        packets.clear();
    }

    /// Finds for each expression the packets that match it, in a batch of at most [`MASK_PACKETS`]; packets beyond that are
    /// ignored. Nothing is counted.
    pub fn masks(&mut self, batch: Batch<'_>, layers: &[Layers], masks: &mut Masks) {
        self.decide_packets();
        masks.begin(self.set.len());
        let mut is_whole = true;
        for (at, (packet, layers)) in batch.packets().zip(layers).take(MASK_PACKETS).enumerate() {
            let seen = self.set.seen(packet, Some(layers));
            let (packet, layers) = seen.as_ref().map_or((packet, layers), |(p, l)| (*p, l));
            match self.offer(&packet, Some(layers), true) {
                Offered::Waits => {
                    let last = (self.packets.len() - 1) % BATCH;
                    self.packets.origin[last] = at as u32;
                }
                Offered::Slow => {
                    is_whole = false;
                    self.decide_slowly(&packet, Some(layers), true);
                    self.scratch.matched.iter().for_each(|expression| masks.add_packet(*expression, at));
                }
            }
        }
        let set = Arc::clone(&self.set);
        let columns = &self.packets;
        compare_atoms(&set, columns, &mut self.scratch);
        if set.strategy == Strategy::Columns {
            set.plan.compare(set.isa, columns, &self.scratch.classes, &mut self.scratch.comparisons);
            each_mask(&set, columns, &self.scratch.comparisons, &self.scratch.atoms, |expression, found| {
                if is_whole {
                    masks.add(expression, found);
                } else {
                    each(found, |at| masks.add_packet(expression, columns.origin[at % BATCH] as usize));
                }
            });
        } else {
            for at in 0..columns.len() {
                self.scratch.list_packet(&set, columns, at);
                let origin = columns.origin[at] as usize;
                self.scratch.matched.iter().for_each(|expression| masks.add_packet(*expression, origin));
            }
        }
        self.packets.clear();
    }
}

impl Scratch {
    /// Finds the expressions that match a packet of a batch and stores them in `matched`.
    #[inline]
    fn list_packet(&mut self, set: &Set, columns: &Columns, at: usize) {
        let (unit, atoms) = unit_of(set, columns, &self.atoms, at);
        self.matched.clear();
        list_unit(set, &unit, &atoms, programs_of(set, columns, at), &mut self.deciding, &mut self.matched);
    }
}

/// Appends the expressions that match, in order.
pub(super) fn list_unit(
    set: &Set,
    unit: &Unit,
    atoms: &AtomBits,
    programs: impl Iterator<Item = u32>,
    deciding: &mut Deciding,
    matched: &mut Vec<u32>,
) {
    let Deciding { seen, groups, .. } = deciding;
    let from = matched.len();
    seen.now += 1;
    let mut add = |expression| {
        if seen.is_first(expression) {
            matched.push(expression);
        }
    };
    set.keyed.list(unit, atoms, groups, &mut add);
    if set.changing.may_match(atoms) {
        set.changing.list(unit, atoms, groups, &mut add);
    }
    programs.for_each(add);
    if let Some(found) = matched.get_mut(from..) {
        found.sort_unstable();
    }
}
