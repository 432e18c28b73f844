//! Groups packets that no expression distinguishes: the decision for the first packet is the decision for all. This is
//! not a flow table, because it tracks nothing: it is a table of fixed size in which a new key displaces the lighter
//! one of two keys, whose packets are then decided.

use super::Indifferent;
use super::bits::each;
use super::columns::Columns;
use super::index::Total;
use super::kind::KINDS;
use super::places::PortStretches;
use super::simd::{BATCH, Mask, prefetch};
use weir_wire::Tag;

/// Number of pairs of slots, a power of two: one cache line each, 4 MiB in all. Twice as many flows are kept apart as
/// with one slot per line, and a frequent flow stays when others hash to its pair.
const PAIRS: usize = 1 << 16;

/// Displaced slots whose keys are decided together, so that their memory accesses overlap.
const DECIDED_TOGETHER: usize = 256;

/// All properties by which expressions can distinguish packets. IPv6 addresses are given as their stretches. If the
/// direction makes no difference, the higher endpoint takes the place of the source.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Key {
    /// Addresses, the source's in the upper half.
    ends: u64,
    /// From the lowest bit: the class, whether every test is needed or only those that the flow key does not decide,
    /// and a bit for each atom and each program. The upper [`TAG_BITS`] are the stretch of the VLAN tag, if an
    /// expression tests it.
    rest: u64,
    /// Ports, the source's in the upper half.
    ports: u32,
}

/// Bit of a key for "every test is needed", and the first bit for atoms.
const FULL_BIT: u32 = 11;
const ATOMS_FROM: u32 = FULL_BIT + 1;

const _: () = assert!(KINDS <= 1 << FULL_BIT);

/// Maximum number of atoms and programs in a key.
pub(super) const MAX_BITS: usize = (u64::BITS - ATOMS_FROM) as usize;

/// Number of bits for a VLAN tag's stretch.
pub(super) const TAG_BITS: usize = 13;

const _: () = assert!(Tag::MAX < 1 << TAG_BITS);

impl Key {
    pub fn ends(&self) -> [u32; 2] {
        [(self.ends >> 32) as u32, self.ends as u32]
    }

    pub fn ports(&self) -> [u16; 2] {
        [(self.ports >> 16) as u16, self.ports as u16]
    }

    pub fn class(&self) -> u16 {
        self.rest as u16 & ((1 << FULL_BIT) - 1)
    }

    pub fn is_full(&self) -> bool {
        self.rest >> FULL_BIT & 1 == 1
    }

    /// The VLAN tag's stretch, if an expression tests the tag.
    pub fn tag(&self) -> u16 {
        (self.rest >> (u64::BITS - TAG_BITS as u32)) as u16
    }

    /// The bits of atoms, then those of programs.
    pub fn bits(&self) -> u64 {
        self.rest >> ATOMS_FROM
    }
}

/// The keys of the packets of a batch that have to be decided.
pub(super) struct Keys {
    rest: [u64; BATCH],
    asked: Vec<Asked>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    ends: u64,
    rest: u64,
    ports: u32,
    hash: u16,
    /// Position of the packet.
    at: u16,
}

impl Asked {
    fn key(&self) -> Key {
        Key { ends: self.ends, rest: self.rest, ports: self.ports }
    }
}

const _: () = assert!(PAIRS == 1 << 16 && BATCH <= 1 << 16);

impl Keys {
    pub fn new() -> Box<Self> {
        Box::new(Self { rest: [0; BATCH], asked: Vec::with_capacity(BATCH) })
    }

    /// Builds the keys of the `wanted` packets. `tags` are the stretches of VLAN tags, if an expression tests the tag.
    /// `bits` are masks of at most [`MAX_BITS`] atoms and programs. Intervals of IPv6 addresses take the place of IPv4
    /// addresses.
    pub fn make<'m>(
        &mut self,
        columns: &'m Columns,
        bits: impl Iterator<Item = &'m Mask>,
        wanted: &Mask,
        tags: Option<&PortStretches>,
        (indifferent, secret): (Indifferent, Secret),
    ) {
        for (rest, class) in self.rest.iter_mut().zip(&columns.class).take(columns.len()) {
            *rest = u64::from(*class);
        }
        for (number, mask) in std::iter::once(&columns.full).chain(bits).enumerate() {
            let bit = 1 << (FULL_BIT as usize + number);
            for (word, rests) in mask.iter().zip(self.rest.chunks_exact_mut(64)) {
                if *word == u64::MAX {
                    rests.iter_mut().for_each(|rest| *rest |= bit);
                } else {
                    each(&[*word], |at| rests[at % 64] |= bit);
                }
            }
        }
        if let Some(tags) = tags {
            for (at, rest) in self.rest.iter_mut().enumerate().take(columns.len()) {
                *rest |= u64::from(tags.of(columns.tag(at))) << (u64::BITS - TAG_BITS as u32);
            }
        }
        self.asked.clear();
        let Self { rest, asked } = self;
        let mut add = |at: usize| {
            let (mut ends, mut ports) = columns.ends(at);
            if indifferent.addresses {
                ends = ends.max(ends.rotate_left(32));
            }
            if indifferent.ports {
                ports = ports.max(ports.rotate_left(16));
            }
            let rest = rest[at % BATCH];
            let hash = secret.hash(ends, rest, ports);
            asked.push(Asked { ends, rest, ports, hash, at: at as u16 });
        };
        if *wanted == columns.present() {
            (0..columns.len()).for_each(add);
        } else {
            each(wanted, &mut add);
        }
    }
}

/// Counts of a key that has not been decided yet.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    ends: u64,
    rest: u64,
    ports: u32,
    /// 0 for an empty slot.
    packets: u32,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Pair([Place; 2]);

impl Place {
    #[inline(always)]
    fn is(&self, asked: &Asked) -> bool {
        (self.ends ^ asked.ends) | (self.rest ^ asked.rest) | u64::from(self.ports ^ asked.ports) == 0
    }

    /// Removes and returns the counts, if there are any.
    fn take(&mut self) -> Option<(Key, Total)> {
        let total = Total { packets: u64::from(self.packets), bytes: self.bytes };
        let key = Key { ends: self.ends, rest: self.rest, ports: self.ports };
        (self.packets, self.bytes) = (0, 0);
        (total.packets != 0).then_some((key, total))
    }
}

/// The table of undecided keys.
pub(super) struct Together {
    pairs: Vec<Pair>,
    /// Displaced entries that have not been decided yet.
    undecided: Vec<(Key, Total)>,
}

/// The inputs of a key's slot, apart from the key.
#[derive(Clone, Copy)]
pub(super) struct Secret([u64; 2]);

impl Secret {
    pub fn new(secret: [u64; 2]) -> Self {
        Self(secret)
    }

    /// The slot of a key. The hash is keyed, so that a sender cannot choose packets that share a slot. If one could,
    /// each packet would cost one decision, as in a flood.
    #[inline(always)]
    fn hash(self, ends: u64, rest: u64, ports: u32) -> u16 {
        let one = u128::from(ends ^ self.0[0]);
        let other = u128::from((u64::from(ports) << 32) ^ rest ^ self.0[1]);
        let product = one * other;
        (((product as u64) ^ (product >> 64) as u64) >> 40) as u16
    }
}

impl Together {
    pub fn new() -> Self {
        Self { pairs: Vec::new(), undecided: Vec::with_capacity(DECIDED_TOGETHER) }
    }

    /// Counts the packets of a batch by their keys. Displaced entries go to `decide`, some at a time.
    pub fn count(&mut self, columns: &Columns, keys: &Keys, mut decide: impl FnMut(&[(Key, Total)])) {
        if self.pairs.is_empty() {
            self.pairs = vec![Pair::default(); PAIRS];
        }
        // All lines are prefetched before the first is used.
        for asked in &keys.asked {
            prefetch(&self.pairs, usize::from(asked.hash));
        }
        for asked in &keys.asked {
            let Some(Pair(pair)) = self.pairs.get_mut(usize::from(asked.hash)) else { continue };
            let bytes = u64::from(columns.length(usize::from(asked.at)));
            let lighter = usize::from(pair[1].packets < pair[0].packets);
            let which = usize::from(!pair[0].is(asked));
            let is_known = pair[which].is(asked);
            let place = &mut pair[if is_known { which } else { lighter }];
            if is_known && place.packets != u32::MAX {
                place.packets += 1;
                place.bytes += bytes;
                continue;
            }
            self.undecided.extend(place.take());
            let Asked { ends, rest, ports, .. } = *asked;
            *place = Place { ends, rest, ports, packets: 1, bytes };
            if self.undecided.len() >= DECIDED_TOGETHER {
                decide(&self.undecided);
                self.undecided.clear();
            }
        }
    }

    /// Decides all entries.
    pub fn flush(&mut self, mut decide: impl FnMut(&[(Key, Total)])) {
        for pair in self.pairs.chunks_mut(DECIDED_TOGETHER / 2) {
            self.undecided.extend(pair.iter_mut().flat_map(|pair| &mut pair.0).filter_map(Place::take));
            if self.undecided.len() >= DECIDED_TOGETHER {
                decide(&self.undecided);
                self.undecided.clear();
            }
        }
        decide(&self.undecided);
        self.undecided.clear();
    }
}

/// The match sets of recent keys.
pub(super) struct Remembered {
    places: Vec<Known>,
    lists: Vec<u32>,
}

/// A key and its match set: start and length in the list.
#[derive(Clone, Copy, Debug)]
struct Known {
    key: Key,
    from: u32,
    len: u32,
}

/// Maximum number of expressions in all match sets; then the table is cleared.
const MAX_REMEMBERED: usize = 1 << 20;

/// An unused slot has an empty key without expressions, and so has a packet of class 0 without atoms. Unused slots are
/// therefore marked by an impossible list.
const UNUSED: u32 = u32::MAX;

impl Remembered {
    pub fn new() -> Self {
        Self { places: Vec::new(), lists: Vec::new() }
    }

    /// Calls `give` with each packet of a batch and its match set; `find` appends a match set that is not in the table
    /// to a list.
    pub fn each(
        &mut self,
        keys: &Keys,
        mut find: impl FnMut(usize, &Key, &mut Vec<u32>),
        mut see: impl FnMut(usize, &[u32]),
    ) {
        for asked in &keys.asked {
            prefetch(&self.places, usize::from(asked.hash));
        }
        for asked in &keys.asked {
            if self.places.is_empty() || self.lists.len() > MAX_REMEMBERED {
                self.places.clear();
                self.places.resize(PAIRS, Known { key: Key::default(), from: 0, len: UNUSED });
                self.lists.clear();
            }
            let (key, at) = (asked.key(), usize::from(asked.at));
            let Some(known) = self.places.get_mut(usize::from(asked.hash)) else { continue };
            if known.key != key || known.len == UNUSED {
                let from = self.lists.len();
                find(at, &key, &mut self.lists);
                *known = Known { key, from: from as u32, len: (self.lists.len() - from) as u32 };
            }
            let list = self.lists.get(known.from as usize..(known.from + known.len) as usize);
            see(at, list.unwrap_or_default());
        }
    }
}
