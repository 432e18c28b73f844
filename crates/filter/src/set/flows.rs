//! Packets that are the same to every expression, together: what an expression decides of the first of them it
//! decides of all. Not a flow table, since it follows nothing: a table of fixed size in which the newcomer takes the
//! place, and what was there is decided.

use super::columns::Columns;
use super::index::Total;
use super::simd::BATCH;

/// Places, a power of two: one cache line each.
const PLACES: usize = 1 << 16;

/// All that expressions can tell a packet by. IPv6 addresses are given as their stretches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Key {
    pub ends: [u32; 2],
    pub ports: [u16; 2],
    pub class: u16,
    /// Whether everything is to be decided, or only what a flow's key does not say.
    pub full: bool,
    pub atoms: u64,
}

/// What was seen of a key that was not decided yet.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Place {
    key: Key,
    /// None: the place is empty.
    total: Total,
}

/// The table, and the places that the packets of a batch have.
pub(super) struct Together {
    places: Vec<Place>,
    /// Of the packets of the batch in work: key, place, and which packet.
    keys: Vec<(Key, u32, usize)>,
    secret: Secret,
    touched: u64,
}

/// What the places of keys depend on besides them.
#[derive(Clone, Copy)]
pub(super) struct Secret(u64);

impl Secret {
    pub fn new(secret: u64) -> Self {
        Self(secret | 1)
    }

    /// Where a key's place is. Keyed, so that nobody outside can say which packets share one; and if they could, what
    /// would it cost? One decision for each packet, as in a flood.
    #[inline]
    fn place(&self, key: &Key) -> u32 {
        let ends = u64::from(key.ends[0]) << 32 | u64::from(key.ends[1]);
        let rest = u64::from(key.ports[0]) << 48
            | u64::from(key.ports[1]) << 32
            | u64::from(key.class) << 16
            | u64::from(key.full);
        let folded = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product as u64) ^ (product >> 64) as u64
        };
        let first = folded(ends ^ self.0, 0x9e37_79b9_7f4a_7c15 ^ rest);
        let hash = folded(first ^ key.atoms, self.0.rotate_left(32) | 1);
        (hash >> 40) as u32 & (PLACES as u32 - 1)
    }
}

impl Together {
    pub fn new(secret: Secret) -> Self {
        Self { places: Vec::new(), keys: Vec::with_capacity(BATCH), secret, touched: 0 }
    }

    /// Counts a batch. `key` gives the key of each packet; what has to make place goes to `decide`.
    pub fn count(
        &mut self,
        columns: &Columns,
        mut key: impl FnMut(usize) -> Option<Key>,
        mut decide: impl FnMut(&Key, Total),
    ) {
        if self.places.is_empty() {
            self.places = vec![Place::default(); PLACES];
        }
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        for at in 0..columns.len() {
            if let Some(key) = key(at) {
                keys.push((key, self.secret.place(&key), at));
            }
        }
        // All lines are asked for before the first is used.
        let mut touched = 0;
        for (_, place, _) in &keys {
            touched ^= self.places.get(*place as usize).map_or(0, |place| place.total.packets);
        }
        self.touched ^= touched;
        for (key, place, at) in &keys {
            let weight = columns.weight(*at);
            let Some(place) = self.places.get_mut(*place as usize) else { continue };
            if place.key != *key {
                if place.total != Total::default() {
                    decide(&place.key, place.total);
                }
                *place = Place { key: *key, total: Total::default() };
            }
            place.total.add(weight);
        }
        self.keys = keys;
    }

    /// Decides everything that is there.
    pub fn flush(&mut self, mut decide: impl FnMut(&Key, Total)) {
        for place in &mut self.places {
            if place.total != Total::default() {
                decide(&place.key, std::mem::take(&mut place.total));
            }
        }
    }
}

/// The match sets of keys that were seen lately.
pub(super) struct Remembered {
    places: Vec<(Key, (u32, u32))>,
    lists: Vec<u32>,
    secret: Secret,
}

/// Expressions that are remembered in all before everything is forgotten.
const MOST_REMEMBERED: usize = 1 << 20;

impl Remembered {
    pub fn new(secret: Secret) -> Self {
        Self { places: Vec::new(), lists: Vec::new(), secret }
    }

    /// The match set of a key; `find` appends it to a list where it is not known.
    #[inline]
    pub fn of(&mut self, key: &Key, find: impl FnOnce(&mut Vec<u32>)) -> &[u32] {
        if self.places.is_empty() || self.lists.len() > MOST_REMEMBERED {
            self.places.clear();
            // An empty key with no expressions is what an unused place says, and what it would have to say of a
            // packet of class 0 without atoms: so such places are marked by a list that cannot be.
            self.places.resize(PLACES, (Key::default(), (1, 0)));
            self.lists.clear();
        }
        let at = self.secret.place(key) as usize;
        let Some((known, range)) = self.places.get_mut(at) else { return &[] };
        if *known != *key || range.0 > range.1 {
            let from = self.lists.len() as u32;
            find(&mut self.lists);
            *known = *key;
            *range = (from, self.lists.len() as u32);
        }
        self.lists.get(range.0 as usize..range.1 as usize).unwrap_or_default()
    }
}
