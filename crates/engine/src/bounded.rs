//! A list of the heaviest keys in fixed memory, with an error bound for each row that holds for any keys.
//!
//! The list is set-associative: a key has two candidate sets of eight rows, so that the list is exact until about
//! three quarters of its rows are in use. When both sets are full, a new key displaces the lightest row of the two
//!
//! * at once if the new key alone is heavier, else
//! * if it was refused recently, with probability 4 weight / (lightest + 4 weight) ("Randomized admission policy for
//!   efficient top-k, frequency, and volume estimation", Ben Basat et al., INFOCOM 2017).
//!
//! Most keys of a flood occur once and therefore never touch a row: they only pass a door, which holds the sixteen
//! keys refused last. The admission policy alone keeps 0.91 of the 1,000 heaviest keys in 256 KB under five times as
//! many random keys; with doors it keeps 0.98.
//!
//! The counts of refused keys and of displaced rows are added to a counter that several keys share ("An improved data
//! stream summary: the count-min sketch", Cormode and Muthukrishnan, 2005, with one row). The counter is at least the
//! loss of each of its keys. A row's error is the counter's value at admission, so that the true count is at least
//! `count` and at most `count + error`.

use crate::keyed::{KeyHash, Keyed, next};
use std::hint::black_box;
use std::sync::Arc;
use weir_api::{Count, Datum, Folded, Reading, Schema, Table, TableRow, Unit};

const WAYS: usize = 8;

/// Sets in a word of [`Bounded::used`].
const SETS_PER_WORD: usize = u64::BITS as usize;

/// Doors per set. Fewer doors increase the errors; more doors leave less memory for rows.
const DOORS: usize = 3;

/// Adds that are delayed so that their memory accesses overlap.
const TOGETHER: usize = 64;

/// Factor by which a key that returns is admitted more often than its weight alone would admit it.
const AGAIN: u64 = 4;

/// What is counted of a key.
pub(crate) trait Amount: Clone + Default {
    /// What is counted at once.
    type More: Copy;
    /// Least weight of what is counted at once.
    const LEAST: u32;
    /// Bytes of heap memory that each row may have, whatever the others have. Beyond them rows share the room of the list.
    const OWN: usize = 0;

    /// Weight of an addition to a new key.
    fn weight_of(more: &Self::More, unit: Unit) -> u64;
    /// Packets and bytes of an addition.
    fn count_of(more: &Self::More) -> Count;
    /// Adds to the amount, and returns the weight that it gained. It may take `room` bytes of heap memory beyond those of
    /// before.
    fn add(&mut self, more: &Self::More, unit: Unit, room: usize) -> u64;
    /// Bytes of heap memory.
    fn memory(&self) -> usize {
        0
    }
    /// Upper bound of the weight that was not counted for want of room.
    fn uncounted(&self) -> u64 {
        0
    }
    /// Weight of the whole amount.
    fn weight(&self, unit: Unit) -> u64;
    /// Packets and bytes of the whole amount.
    fn count(&self) -> Count;
    /// Place for the error bound of a row, in units of `1 << shift`. `u32::MAX` if there is no bound. It is part of the
    /// amount, so that a row of a flow fills one cache line.
    fn error(&mut self) -> &mut u32;
}

/// Numbers of packets that are added up for a key, and rank it.
pub(crate) trait Numbers: Copy + Default {
    /// See [`Amount::LEAST`].
    const LEAST: u32;

    /// What the key is ranked by.
    fn weight(&self) -> u64;
    /// Adds each number.
    fn add(&mut self, other: &Self);
}

/// The sums of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summed<N> {
    /// The sums.
    pub numbers: N,
    error: u32,
}

impl<N: Numbers> Amount for Summed<N> {
    type More = N;
    const LEAST: u32 = N::LEAST;

    fn weight_of(more: &N, _: Unit) -> u64 {
        more.weight()
    }

    fn count_of(more: &N) -> Count {
        Count { packets: more.weight(), bytes: 0 }
    }

    fn add(&mut self, more: &N, _: Unit, _: usize) -> u64 {
        self.numbers.add(more);
        more.weight()
    }

    fn weight(&self, _: Unit) -> u64 {
        self.numbers.weight()
    }

    fn count(&self) -> Count {
        Self::count_of(&self.numbers)
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

/// Packets, bytes and flows of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Packets and bytes.
    pub count: Count,
    /// Flows that began with the key.
    pub flows: u32,
    error: u32,
}

impl Amount for Counted {
    type More = (Count, u32);
    /// A row of frames without bytes differs from an empty slot.
    const LEAST: u32 = 1;

    #[inline]
    fn weight_of((count, _): &(Count, u32), unit: Unit) -> u64 {
        count.in_unit(unit)
    }

    #[inline]
    fn count_of((count, _): &(Count, u32)) -> Count {
        *count
    }

    #[inline]
    fn add(&mut self, (count, flows): &(Count, u32), unit: Unit, _: usize) -> u64 {
        self.count.add(count);
        self.flows = self.flows.saturating_add(*flows);
        count.in_unit(unit)
    }

    #[inline]
    fn weight(&self, unit: Unit) -> u64 {
        self.count.in_unit(unit)
    }

    #[inline]
    fn count(&self) -> Count {
        self.count
    }

    #[inline]
    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

/// A row that leaves the list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row<K, V = Counted> {
    /// Key of the row.
    pub key: K,
    /// What was counted of the key.
    pub amount: V,
    /// Upper bound of the undercount, in the ranking unit.
    pub error: u64,
}

/// Contents of a list.
#[derive(Debug)]
pub(crate) struct Taken<R> {
    /// The rows.
    pub rows: Vec<R>,
    /// Upper bound for a key without a row, in the ranking unit.
    pub absent: u64,
    /// Counts of keys without a row.
    pub shed: Count,
    /// Inserts of keys without a row: new keys, and keys that were refused or displaced before.
    pub inserts: u64,
}

/// The part of a set that a lookup touches: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set {
    /// Part of the hash of each key in lanes of 16 bits; never 0 for a key, 0 for an empty slot.
    tags: [u64; 2],
    /// Ranking weights, in units of `1 << shift`, saturating; 0 for an empty slot.
    weights: [u32; WAYS],
}

/// Lanes in a word of tags.
const LANES: usize = 4;
/// One in each lane.
const EACH: u64 = 0x0001_0001_0001_0001;

impl Set {
    /// A bit for each slot with that tag; see [`way`].
    #[inline]
    fn with_tag(&self, tag: u16) -> u64 {
        let tag = u64::from(tag) * EACH;
        let equal = |lanes: u64| {
            let differ = lanes ^ tag;
            // The highest bit of a lane becomes 1 unless the whole lane is 0; no carry reaches the next lane.
            !(((differ & (EACH * 0x7fff)) + EACH * 0x7fff) | differ) & (EACH * 0x8000)
        };
        let [low, high] = self.tags;
        equal(low) >> 15 | equal(high) >> 14
    }

    fn set_tag(&mut self, way: usize, tag: u16) {
        let shift = way % LANES * 16;
        if let Some(lanes) = self.tags.get_mut(way / LANES) {
            *lanes = *lanes & !(0xffff << shift) | u64::from(tag) << shift;
        }
    }

    fn empty(&self) -> u32 {
        self.with_tag(0).count_ones()
    }

    #[inline]
    fn lightest(&self) -> u32 {
        self.weights.iter().copied().fold(u32::MAX, u32::min)
    }

    fn of_weight(&self, weight: u32) -> usize {
        self.weights.iter().position(|found| *found == weight).unwrap_or_default()
    }
}

/// The set (first or second candidate) and the slot of a bit: the bits of [`Set::with_tag`] for the first set, shifted
/// left by two for the second.
#[inline]
fn way(bit: u32) -> (usize, usize) {
    let bit = bit as usize;
    (bit >> 1 & 1, bit / 16 + LANES * (bit & 1))
}

/// State of keys without a row: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Door {
    /// Tags of the keys refused last, newest first; 0 for an empty entry.
    recent: [u16; 16],
    /// Upper bound of the loss of any key of each counter, in units of `1 << shift`. `u32::MAX` if there is no bound.
    lost: [u32; 8],
}

/// A stored row: one cache line for a key of 40 bytes and a [`Counted`].
#[derive(Clone, Copy, Debug, Default)]
struct Kept<K, V> {
    key: K,
    amount: V,
}

/// A delayed add.
#[derive(Clone, Copy, Debug)]
struct Pending<K, M> {
    hash: u64,
    /// The two candidate sets of the key.
    sets: [u32; 2],
    key: K,
    more: M,
}

/// The counters of a key without a row.
#[derive(Clone, Copy)]
struct Place {
    door: usize,
    /// Index of the key's counter in the door.
    counter: usize,
    /// The key's tag at the door.
    name: u16,
}

/// A list of the heaviest keys; see the module's text.
#[derive(Debug)]
pub(crate) struct Bounded<K, V: Amount = Counted> {
    sets: Vec<Set>,
    /// A bit for each set with rows: a short interval fills few sets, and [`take`](Self::take) visits only those.
    used: Vec<u64>,
    /// The rows of a set start at `set * WAYS`.
    rows: Vec<Kept<K, V>>,
    doors: Vec<Door>,
    pending: Vec<Pending<K, V::More>>,
    unit: Unit,
    shift: u32,
    hash: KeyHash,
    random: u64,
    inserts: u64,
    /// Whether a key was refused or displaced; if not, no door was touched.
    crowded: bool,
    /// All that was counted, with and without a row.
    added: Count,
    /// Bytes of heap memory that rows share beyond their own ([`Amount::OWN`]), and those that are left.
    room: usize,
    left: usize,
    /// Rows whose keys were compared.
    #[cfg(test)]
    compared: u64,
}

impl<K: Keyed> Bounded<K> {
    /// Counts packets of a key.
    #[inline]
    pub fn add(&mut self, key: K, count: Count, flows: u32) {
        self.add_more(key, (count, flows));
    }
}

impl<K: Keyed, V: Amount> Bounded<K, V> {
    /// A list of at least `rows` slots that ranks by `unit`. `seed` keys its hash.
    ///
    /// Weights in bytes have a resolution of 16 when the lightest row is searched for: the smallest frame has 14
    /// bytes. Weights above 2^32 packets or 2^36 bytes are equal.
    pub fn new(rows: usize, unit: Unit, seed: u64) -> Self {
        Self::with_room(rows, unit, seed, 0)
    }

    /// A list whose rows share `room` bytes of heap memory, beyond the bytes that each has of its own.
    pub fn with_room(rows: usize, unit: Unit, seed: u64, room: usize) -> Self {
        let sets = Self::sets_for(rows);
        let mut state = !seed;
        Self {
            sets: vec![Set::default(); sets],
            used: vec![0; sets.div_ceil(SETS_PER_WORD)],
            // Cloning an amount costs more than making one.
            rows: std::iter::repeat_with(Kept::default).take(sets * WAYS).collect(),
            doors: vec![Door::default(); sets * DOORS],
            pending: Vec::with_capacity(TOGETHER),
            unit,
            shift: match unit {
                Unit::Bytes => 4,
                Unit::Packets => 0,
            },
            hash: KeyHash::new(seed),
            #[cfg(test)]
            compared: 0,
            random: next(&mut state) | 1,
            inserts: 0,
            crowded: false,
            added: Count::default(),
            room,
            left: room,
        }
    }

    /// Whether nothing was added since it was taken.
    pub fn is_empty(&self) -> bool {
        let is_new = self.added == Count::default() && self.inserts == 0 && !self.crowded;
        is_new && self.pending.is_empty() && self.used.iter().all(|used| *used == 0)
    }

    /// Number of slots in the list.
    pub fn capacity(&self) -> usize {
        self.rows.len()
    }

    /// Memory of a list of `rows` slots in bytes, keys and what rows have of their own included. The room that they share is
    /// beyond it.
    pub fn bytes(rows: usize) -> usize {
        let sets = Self::sets_for(rows);
        size_of::<Self>()
            + sets * size_of::<Set>()
            + sets.div_ceil(SETS_PER_WORD) * size_of::<u64>()
            + sets * WAYS * (size_of::<Kept<K, V>>() + V::OWN)
            + sets * DOORS * size_of::<Door>()
            + TOGETHER * size_of::<Pending<K, V::More>>()
    }

    fn sets_for(rows: usize) -> usize {
        kept(rows) / WAYS
    }

    /// Memory of the list in bytes, keys and heap memory of the rows included.
    pub fn memory(&self) -> usize {
        size_of_val(self)
            + self.rows.iter().map(|row| row.amount.memory()).sum::<usize>()
            + size_of_val(self.sets.as_slice())
            + size_of_val(self.used.as_slice())
            + size_of_val(self.rows.as_slice())
            + size_of_val(self.doors.as_slice())
            + self.pending.capacity() * size_of::<Pending<K, V::More>>()
    }

    /// Takes the contents as a table; `form` gives the key and the values of a row.
    pub fn take_table(
        &mut self,
        schema: &Arc<Schema>,
        form: impl Fn(K, V) -> (Vec<Datum>, Vec<Folded>),
    ) -> Reading {
        let capacity = self.capacity();
        let taken = self.take_as(|Row { key, amount, error }| {
            let (key, values) = form(key, amount);
            TableRow { key, values, error }
        });
        Reading::Table(Table::new(Arc::clone(schema), capacity, taken.rows, taken.absent))
    }

    /// Counts more of a key.
    #[inline]
    pub fn add_more(&mut self, key: K, more: V::More) {
        let hash = key.hash(&self.hash);
        self.pending.push(Pending { hash, sets: self.sets_of(hash), key, more });
        if self.pending.len() == TOGETHER {
            self.settle();
        }
    }

    /// Counts the delayed adds, in order.
    fn settle(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.touch(&pending);
        for add in &pending {
            self.count(add);
        }
        self.pending = pending;
        self.pending.clear();
    }

    /// Reads the memory that the adds will need. None of these loads depends on another, so that they overlap.
    fn touch(&self, pending: &[Pending<K, V::More>]) {
        let mut seen = 0;
        for add in pending {
            for set in add.sets {
                seen ^= self.sets[set as usize].tags[0];
            }
            if self.crowded {
                seen ^= u64::from(self.doors[self.place(add.hash).door].lost[0]);
            }
        }
        black_box(seen);
    }

    #[inline]
    fn sets_of(&self, hash: u64) -> [u32; 2] {
        let sets = self.sets.len();
        let (first, second) = (within(hash, sets) as u32, within(hash.wrapping_mul(SPREAD), sets) as u32);
        // A set other than the first.
        let next = if first == 0 { 1 } else { first - 1 };
        [first, if second == first { next } else { second }]
    }

    #[inline]
    fn place(&self, hash: u64) -> Place {
        Place {
            door: within(hash.wrapping_mul(SPREAD) >> 32, self.doors.len()),
            counter: (hash >> 61) as usize,
            name: tag(hash),
        }
    }

    /// A weight in units of `1 << shift`, rounded up, and at least `least`.
    #[inline]
    fn scaled(shift: u32, weight: u64, least: u32) -> u32 {
        let up = u64::from(weight & ((1 << shift) - 1) != 0);
        ((weight >> shift) + up).clamp(least.into(), u32::MAX.into()) as u32
    }

    fn count(&mut self, add: &Pending<K, V::More>) {
        self.added.add(&V::count_of(&add.more));
        let [first, second] = add.sets;
        let sets = [first as usize, second as usize];
        let (one, other) = (&self.sets[sets[0]], &self.sets[sets[1]]);
        let tag = tag(add.hash);
        let mut candidates = one.with_tag(tag) | other.with_tag(tag) << 2;
        while candidates != 0 {
            #[cfg(test)]
            {
                self.compared += 1;
            }
            let (which, way) = way(candidates.trailing_zeros());
            let set = sets[which];
            let row = &mut self.rows[set * WAYS + way];
            if row.key == add.key {
                let gained = grow(&mut row.amount, &add.more, self.unit, &mut self.left);
                let total = &mut self.sets[set].weights[way];
                *total = total.saturating_add(Self::scaled(self.shift, gained, V::LEAST));
                return;
            }
            candidates &= candidates - 1;
        }
        self.inserts += 1;
        // At least 1, to differ from an empty slot.
        let weight = Self::scaled(self.shift, V::weight_of(&add.more, self.unit), 1);
        let lightest = [one.lightest(), other.lightest()];
        if lightest[0] == 0 || lightest[1] == 0 {
            // The emptier of the two sets, so that both fill evenly.
            let set = if other.empty() > one.empty() { sets[1] } else { sets[0] };
            let place = self.place(add.hash);
            self.used[set / SETS_PER_WORD] |= 1 << (set % SETS_PER_WORD);
            self.put(set, 0, add, place, weight);
            return;
        }
        let place = self.place(add.hash);
        let (set, lightest) =
            if lightest[1] < lightest[0] { (sets[1], lightest[1]) } else { (sets[0], lightest[0]) };
        self.crowded = true;
        if let Some(inherited) = self.admits(place, weight, lightest) {
            self.displace(set * WAYS + self.sets[set].of_weight(lightest));
            self.put(set, lightest, add, place, inherited.min(self.lost(place)).saturating_add(weight));
        }
    }

    /// Upper bound of the loss of a key without a row.
    fn lost(&self, place: Place) -> u32 {
        // The doors' memory is not touched before the first refusal.
        if self.crowded { self.doors[place.door].lost[place.counter] } else { 0 }
    }

    /// Gives a key the slot of weight `of_weight` in a set. A key that finds an empty slot may have been displaced
    /// before, from its other set.
    #[inline]
    fn put(&mut self, set: usize, of_weight: u32, add: &Pending<K, V::More>, place: Place, weight: u32) {
        let error = self.lost(place);
        let to = &mut self.sets[set];
        let way = to.of_weight(of_weight);
        to.set_tag(way, tag(add.hash));
        to.weights[way] = weight;
        let mut amount = V::default();
        grow(&mut amount, &add.more, self.unit, &mut self.left);
        *amount.error() = error;
        self.rows[set * WAYS + way] = Kept { key: add.key, amount };
    }

    /// Whether a new key may displace a row of weight `lightest`, and the weight that the key is assumed to have had
    /// before. A refused key is noted at its door, with its loss.
    #[inline]
    fn admits(&mut self, place: Place, weight: u32, lightest: u32) -> Option<u32> {
        if weight > lightest {
            return Some(0);
        }
        let door = &mut self.doors[place.door];
        let mut known = false;
        for name in &door.recent {
            known |= *name == place.name;
        }
        if known {
            // xorshift64*: the quality matters little, and the sequence must depend on nothing but the seed.
            self.random ^= self.random >> 12;
            self.random ^= self.random << 25;
            self.random ^= self.random >> 27;
            let draw = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
            let weight = u128::from(weight) * u128::from(AGAIN);
            if (u128::from(draw) * (u128::from(lightest) + weight)) >> 32 < weight {
                return Some(lightest);
            }
        } else {
            door.recent.copy_within(0..15, 1);
            door.recent[0] = place.name;
        }
        let lost = &mut door.lost[place.counter];
        *lost = lost.saturating_add(weight);
        None
    }

    /// Adds the count of a row to the loss of its key.
    fn displace(&mut self, at: usize) {
        let (unit, shift) = (self.unit, self.shift);
        let row = &mut self.rows[at];
        self.left += shared::<V>(row.amount.memory());
        let weight = row.amount.weight(unit).saturating_add(row.amount.uncounted());
        let had = row.amount.error().saturating_add(Self::scaled(shift, weight, 1));
        let key = row.key;
        let place = self.place(key.hash(&self.hash));
        // The row's error is part of the counter's value already.
        let lost = &mut self.doors[place.door].lost[place.counter];
        *lost = had.max(*lost);
    }

    /// Returns the content of the list in the order in which it lies in memory, and empties it.
    pub fn take(&mut self) -> Taken<Row<K, V>> {
        self.take_as(|row| row)
    }

    /// Returns the content of the list, each row in another form, in the order in which it lies in memory, and empties it.
    ///
    /// Rows are large: each is copied once, and read where the processor expects the next read.
    pub fn take_as<R>(&mut self, form: impl Fn(Row<K, V>) -> R) -> Taken<R> {
        self.settle();
        self.left = self.room;
        let mut shed = std::mem::take(&mut self.added);
        let mut number = 0;
        for place in self.places() {
            let count = self.rows[place].amount.count();
            shed.packets -= count.packets;
            shed.bytes -= count.bytes;
            number += 1;
        }
        // The loss of one key is at most the loss of all keys together.
        let all = shed.in_unit(self.unit);
        let shift = self.shift;
        let bound = |lost: u64| if lost >= u64::from(u32::MAX) { all } else { all.min(lost << shift) };
        let mut rows = Vec::with_capacity(number);
        let (sets, kept) = (&mut self.sets, &mut self.rows);
        for set in used_sets(&self.used) {
            let weights = std::mem::take(&mut sets[set]).weights;
            for (row, weight) in kept[set * WAYS..][..WAYS].iter_mut().zip(weights) {
                if weight != 0 {
                    let mut amount = taken(&mut row.amount);
                    let error = bound(u64::from(*amount.error())).saturating_add(amount.uncounted());
                    rows.push(form(Row { key: row.key, amount, error }));
                }
            }
        }
        self.used.fill(0);
        let mut absent = 0;
        if std::mem::take(&mut self.crowded) {
            for door in &mut self.doors {
                absent = door.lost.iter().copied().fold(absent, u32::max);
                *door = Door::default();
            }
        }
        Taken { rows, absent: bound(absent.into()), shed, inserts: std::mem::take(&mut self.inserts) }
    }

    /// The places of all rows.
    fn places(&self) -> impl Iterator<Item = usize> {
        used_sets(&self.used).flat_map(|set| {
            let weights = self.sets[set].weights.iter();
            weights.zip(set * WAYS..).filter(|(weight, _)| **weight != 0).map(|(_, place)| place)
        })
    }
}

/// The sets that have a bit in [`Bounded::used`], in ascending order.
fn used_sets(used: &[u64]) -> impl Iterator<Item = usize> {
    used.iter().enumerate().flat_map(|(word, used)| {
        let mut left = *used;
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            Some(word * SETS_PER_WORD + bit as usize)
        })
    })
}

/// The amount of a row that leaves. Only memory on the heap is taken from the row: no packet reads the rest before it is written.
fn taken<V: Amount>(amount: &mut V) -> V {
    if std::mem::needs_drop::<V>() { std::mem::take(amount) } else { amount.clone() }
}

/// The part of a row's heap memory that is taken from the room of the list.
#[inline]
fn shared<V: Amount>(memory: usize) -> usize {
    memory.saturating_sub(V::OWN)
}

/// Adds to an amount within its own memory and what is left of the room, and returns the weight that it gained.
#[inline]
fn grow<V: Amount>(amount: &mut V, more: &V::More, unit: Unit, left: &mut usize) -> u64 {
    let before = amount.memory();
    let gained = amount.add(more, unit, V::OWN.saturating_sub(before) + *left);
    *left = (*left + shared::<V>(before)).saturating_sub(shared::<V>(amount.memory()));
    gained
}

/// The slots of a list that is asked to keep `rows` rows: whole sets, of which a key has two.
pub(crate) fn kept(rows: usize) -> usize {
    rows.next_multiple_of(WAYS).max(2 * WAYS)
}

/// Moves other bits of a hash to the high end (the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maps the lower half of a number to one of `n` buckets.
#[inline]
fn within(bits: u64, n: usize) -> usize {
    ((u64::from(bits as u32) * n as u64) >> 32) as usize
}

/// The tag of a hash, stored beside its key; never 0.
#[inline]
fn tag(hash: u64) -> u16 {
    ((hash >> 32) as u16).max(1)
}

#[cfg(test)]
#[path = "bounded/tests.rs"]
mod tests;
