//! A hash index: from the hash of a key to the row of its flow.

use crate::row::Hot;
use weir_wire::FlowKey;

/// Number of flows in a set, which is one cache line.
const WAYS: usize = 10;
/// Words of 32 bits in a set: tags of 16 bits, two in a word; then for each way the row's number plus 1; then
/// [`STAMP`].
const SET_WORDS: usize = 16;
const TAG_WORDS: usize = WAYS / 2;
/// Position of the stamp: the value of [`Index::now`] at the last insertion into the set.
const STAMP: usize = SET_WORDS - 1;

/// Number of sets of an index at first, and the factor by which it grows.
const FIRST_SETS: usize = 1024;
const GROWTH: usize = 4;

/// A set-associative table of row numbers. A lookup reads one line here and the first line of a row.
///
/// The index grows with the number of rows, so that the flows of a short capture are in few pages: to four sets for each row, as soon
/// as there is a row for each set. The last size has a set for every three rows of the full table, so that a set has three flows on
/// average. All ten ways are in use once in a thousand sets; then the least recently used flow is evicted.
pub(crate) struct Index {
    words: Vec<u32>,
    /// Number of sets of the last size.
    most: usize,
    /// Offset of the first set, aligned to a cache line.
    start: usize,
    lines: Lines,
    /// Counts the groups of packets that were looked up together.
    now: u32,
}

/// Positions of the sets of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    sets: u64,
}

impl Lines {
    /// Position of the cache line of a hash: the upper half of the hash, scaled to the number of sets, selects the
    /// set.
    #[inline]
    pub fn of(self, hash: u64) -> u32 {
        (((hash >> 32) * self.sets) >> 32) as u32 * SET_WORDS as u32
    }
}

/// A bit pattern with the highest bit set in each of four lanes of 16 bits that is 0. Lanes above the lowest such lane
/// may be wrong.
#[inline]
fn zero_lanes(lanes: u64) -> u64 {
    lanes.wrapping_sub(0x0001_0001_0001_0001) & !lanes & 0x8000_8000_8000_8000
}

/// A bit for each way with this tag, see [`first`]. The lowest is exact; others may be false.
#[inline]
fn which(set: &[u32; SET_WORDS], tag: u16) -> u64 {
    let tags = u64::from(tag) * 0x0001_0001_0001_0001;
    let pair = |at: usize| u64::from(set[at]) | u64::from(set[at + 1]) << 32;
    let last = zero_lanes(u64::from(set[4]) ^ tags) & 0x8000_8000;
    zero_lanes(pair(0) ^ tags) >> 3 | zero_lanes(pair(2) ^ tags) >> 2 | last >> 1
}

/// The way of the lowest bit: a lane counts 16, the pair of words 1 from 12 on. [`WAYS`] or more if no bit is set.
#[inline]
fn first(ways: u64) -> usize {
    let bit = ways.trailing_zeros() as usize;
    (bit % 16 * 4 + bit / 16).wrapping_sub(48)
}

impl Index {
    /// Bytes of the index for three rows.
    pub const BYTES_PER_SET: usize = SET_WORDS * size_of::<u32>();
    pub const ROWS_PER_SET: usize = 3;

    /// An index for that many rows of a full table.
    pub fn new(rows: usize) -> Self {
        let most = rows.div_ceil(Self::ROWS_PER_SET).max(1);
        let mut index = Self { words: Vec::new(), most, start: 0, lines: Lines { sets: 0 }, now: 0 };
        index.resize(most.min(FIRST_SETS));
        index
    }

    /// Makes the index empty, with that many sets.
    fn resize(&mut self, sets: usize) {
        self.words = vec![0; (sets + 1) * SET_WORDS];
        self.start = self.words.as_ptr().align_offset(Self::BYTES_PER_SET).min(SET_WORDS);
        self.lines = Lines { sets: sets as u64 };
    }

    /// Whether the index is to grow for that many rows.
    #[inline]
    pub fn is_small_for(&self, rows: usize) -> bool {
        let sets = self.lines.sets as usize;
        rows > sets && sets < self.most
    }

    /// Makes the index larger, and empty: all rows are to be inserted again, at other places.
    pub fn grow(&mut self) {
        self.resize((self.lines.sets as usize * GROWTH).min(self.most));
    }

    /// The tag of a hash; never 0, which marks an empty way.
    #[inline]
    fn tag(hash: u64) -> u16 {
        (hash as u16).max(1)
    }

    /// The set of a slot.
    #[inline]
    fn set_at(&self, place: u32) -> Option<&[u32; SET_WORDS]> {
        self.words.get(self.start + (place as usize & !(SET_WORDS - 1))..)?.first_chunk()
    }

    #[inline]
    fn set_at_mut(&mut self, place: u32) -> Option<&mut [u32; SET_WORDS]> {
        self.words.get_mut(self.start + (place as usize & !(SET_WORDS - 1))..)?.first_chunk_mut()
    }

    /// Reads the line of a slot, so that it is in the cache when it is needed. The caller must use the sum of the
    /// values, or the compiler leaves the reads out.
    #[inline]
    pub fn touch(&self, place: u32) -> u32 {
        self.words.get(self.start + place as usize).copied().unwrap_or(0)
    }

    /// Prefetches a slot that will be written: the processor does not wait for stores.
    #[inline]
    pub fn touch_mut(&mut self, place: u32) {
        if let Some(word) = self.words.get_mut(self.start + (place as usize | STAMP)) {
            *word = self.now.wrapping_sub(1);
        }
    }

    /// Memory in bytes.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u32>()
    }

    /// Positions of the sets.
    pub fn lines(&self) -> Lines {
        self.lines
    }

    /// Announces that a group of packets is about to be looked up.
    #[inline]
    pub fn begin_group(&mut self) {
        self.now = self.now.wrapping_add(1);
    }

    /// Whether nothing was inserted into the set of a line since the group was looked up.
    #[inline]
    pub fn is_as_looked_up(&self, line: u32) -> bool {
        self.set_at(line).is_some_and(|set| set[STAMP] != self.now)
    }

    /// The likely row of the hash with this line, plus 1; 0 for none.
    #[inline]
    pub fn likely(&self, line: u32, hash: u64) -> u32 {
        let Some(set) = self.set_at(line) else { return 0 };
        let way = first(which(set, Self::tag(hash)));
        if way < WAYS { set[TAG_WORDS + way] } else { 0 }
    }

    /// The row of a key.
    #[inline]
    pub fn find(&self, line: u32, hash: u64, key: &FlowKey, rows: &[Hot]) -> Option<u32> {
        let set = self.set_at(line)?;
        let mut ways = which(set, Self::tag(hash));
        while ways != 0 {
            let row = set[(TAG_WORDS + first(ways)) % SET_WORDS].wrapping_sub(1);
            if rows.get(row as usize).is_some_and(|row| same(&row.key, key)) {
                return Some(row);
            }
            ways &= ways - 1;
        }
        None
    }

    /// Inserts the row of a key that is not in the index and returns its slot. `None` if the set is full, see
    /// [`Index::rows`].
    #[inline]
    pub fn insert(&mut self, line: u32, hash: u64, row: u32) -> Option<u32> {
        let now = self.now;
        let set = self.set_at_mut(line)?;
        let way = first(which(set, 0));
        if way >= WAYS {
            return None;
        }
        set[way / 2] |= u32::from(Self::tag(hash)) << (way % 2 * 16);
        set[TAG_WORDS + way] = row + 1;
        set[STAMP] = now;
        Some(line + way as u32)
    }

    /// The rows of a full set.
    pub fn rows(&self, line: u32) -> impl Iterator<Item = u32> {
        let set = self.set_at(line);
        set.into_iter().flat_map(|set| set.iter().skip(TAG_WORDS).take(WAYS).map(|row| row.wrapping_sub(1)))
    }

    /// A slot that no index has.
    pub const NOWHERE: u32 = u32::MAX;

    /// Removes the row in a slot.
    #[inline]
    pub fn remove(&mut self, place: u32) {
        let way = place as usize % SET_WORDS;
        if let Some(set) = self.set_at_mut(place)
            && way < WAYS
        {
            set[way / 2] &= 0xffff_0000 >> (way % 2 * 16);
            set[TAG_WORDS + way] = 0;
        }
    }
}

/// Whether two keys are equal. Comparing arrays of bytes would call a function.
#[inline]
pub(crate) fn same(a: &FlowKey, b: &FlowKey) -> bool {
    let words = |key: &FlowKey| key.addr.map(u128::from_ne_bytes);
    words(a) == words(b) && (a.port, a.space, a.proto) == (b.port, b.space, b.proto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_found() {
        let mut set = [0; SET_WORDS];
        let all = |set: &[u32; SET_WORDS], tag| {
            let bits = which(set, tag);
            (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| first(1 << bit)).collect::<Vec<_>>()
        };
        assert_eq!(all(&set, 0).iter().sum::<usize>(), (0..WAYS).sum());
        assert_eq!(all(&set, 7), []);
        assert!(first(0) >= WAYS);
        for way in 0..WAYS {
            for tag in [1, 0x7fff, 0x8000, 0xffff] {
                set = [0x5555_5555; SET_WORDS];
                let lane = way % 2 * 16;
                set[way / 2] = set[way / 2] & (0xffff_0000 >> lane) | u32::from(tag) << lane;
                assert_eq!(all(&set, tag), [way], "{tag:#x}");
                assert_eq!(all(&set, 0), []);
            }
        }
    }

    /// Compares with a plain list, with as many collisions as possible.
    #[test]
    fn rows_are_found_until_they_are_removed() {
        let mut index = Index::new(6);
        let mut rows = vec![Hot::default(); 64];
        let mut known: Vec<(u64, u32, u32)> = Vec::new();
        let mut state = 7_u64;
        let mut full = 0;
        for step in 0..20_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let row = (state >> 40) as u32 % 64;
            if let Some(at) = known.iter().position(|&(_, other, _)| other == row) {
                let (_, _, place) = known.swap_remove(at);
                index.remove(place);
                continue;
            }
            let hash = (state & 0xc000_0000_0000_0000) | state >> 33 & 3;
            rows[row as usize].key.port = [step as u16, row as u16];
            index.begin_group();
            assert!(index.is_as_looked_up(index.lines.of(hash)));
            match index.insert(index.lines.of(hash), hash, row) {
                Some(place) => {
                    known.push((hash, row, place));
                    assert!(!index.is_as_looked_up(index.lines.of(hash)));
                }
                None => {
                    full += 1;
                    let others: Vec<u32> = index.rows(index.lines.of(hash)).collect();
                    assert_eq!(others.len(), WAYS);
                    assert!(others.iter().all(|other| known.iter().any(|&(_, row, _)| row == *other)));
                }
            }
            for &(hash, row, _) in &known {
                let key = rows[row as usize].key;
                assert_eq!(index.find(index.lines.of(hash), hash, &key, &rows), Some(row));
                let likely = index.likely(index.lines.of(hash), hash);
                assert!(known.iter().any(|&(h, r, _)| r + 1 == likely && Index::tag(h) == Index::tag(hash)));
            }
        }
        assert!(full > 100);
        assert_eq!(index.likely(index.lines.of(1 << 40 | 99), 1 << 40 | 99), 0);
    }
}
