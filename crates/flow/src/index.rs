//! From the hash of a key to the row of its flow.

use crate::row::Hot;
use weir_wire::FlowKey;

/// Flows that a set holds: a cache line of them.
const WAYS: usize = 8;
const SET_WORDS: usize = 2 * WAYS;

/// A set, a cache line: for each way 32 bits of the hash, then for each way the row's number plus 1; 0 is an empty
/// way.
type Set = [u32; 2 * WAYS];

/// A bit for each way that has the value: a comparison of all at once, where the processor has one.
#[inline]
fn which(ways: &[u32; WAYS], value: u32) -> u32 {
    let mut bits = 0;
    for (way, &other) in ways.iter().enumerate() {
        bits |= u32::from(other == value) << way;
    }
    bits
}

/// A set-associative table of row numbers. A lookup reads one line here and the first line of a row.
///
/// There is a set for every two rows, so that a set has two flows on average and all eight ways are taken once in
/// a thousand: then the flow that was not used for longest has to make place.
pub(crate) struct Index {
    /// Plain numbers, all 0 at first: such memory comes from the system as it is touched, and an index that is made
    /// for a million flows costs nothing where there are ten.
    words: Vec<u32>,
    /// Where the first set begins: at a cache line's.
    start: usize,
    sets: usize,
}

impl Index {
    /// Octets that the index takes for each row.
    pub const BYTES_PER_ROW: usize = size_of::<Set>() / 2;

    pub fn new(rows: usize) -> Self {
        let sets = rows.div_ceil(2).max(1);
        let words = vec![0_u32; (sets + 1) * SET_WORDS];
        let start = words.as_ptr().align_offset(size_of::<Set>()).min(SET_WORDS);
        Self { words, start, sets }
    }

    /// Which set: the upper half of the hash times the number of sets.
    #[inline]
    pub fn set(&self, hash: u64) -> u32 {
        (((hash >> 32) * self.sets as u64) >> 32) as u32
    }

    /// The tags and the rows of a set.
    #[inline]
    fn ways(&self, set: u32) -> Option<(&[u32; WAYS], &[u32; WAYS])> {
        let set = self.words.get(self.start + set as usize * SET_WORDS..)?;
        let (tags, rest) = set.split_first_chunk::<WAYS>()?;
        Some((tags, rest.first_chunk::<WAYS>()?))
    }

    #[inline]
    fn ways_mut(&mut self, set: u32) -> Option<(&mut [u32; WAYS], &mut [u32; WAYS])> {
        let set = self.words.get_mut(self.start + set as usize * SET_WORDS..)?;
        let (tags, rest) = set.split_first_chunk_mut::<WAYS>()?;
        Some((tags, rest.first_chunk_mut::<WAYS>()?))
    }

    /// Reads the set's line, so that it is in the cache when it is needed. The sum of what was read is to be
    /// used, lest the reading be left out.
    #[inline]
    pub fn touch(&self, set: u32) -> u32 {
        self.words.get(self.start + set as usize * SET_WORDS).copied().unwrap_or(0)
    }

    /// The same, by writing what is there: a page that is read before it is first written costs two faults, and
    /// the second stops the other processors for a moment.
    #[inline]
    pub fn warm(&mut self, set: u32) {
        if let Some(word) = self.words.get_mut(self.start + set as usize * SET_WORDS) {
            *word = std::hint::black_box(*word);
        }
    }

    /// A row that is likely that of the hash, plus 1; 0 for none.
    #[inline]
    pub fn likely(&self, hash: u64) -> u32 {
        let Some((tags, rows)) = self.ways(self.set(hash)) else { return 0 };
        let way = which(tags, hash as u32).trailing_zeros() as usize;
        rows.get(way).copied().unwrap_or(0)
    }

    /// The row of a key.
    #[inline]
    pub fn find(&self, hash: u64, key: &FlowKey, rows: &[Hot]) -> Option<u32> {
        let (tags, numbers) = self.ways(self.set(hash))?;
        let mut ways = which(tags, hash as u32);
        while ways != 0 {
            let row = numbers[ways.trailing_zeros() as usize % WAYS].wrapping_sub(1);
            if rows.get(row as usize).is_some_and(|row| same(&row.key, key)) {
                return Some(row);
            }
            ways &= ways - 1;
        }
        None
    }

    /// Notes the row of a key that is not in the index.
    ///
    /// # Errors
    ///
    /// The set is full: gives its rows, one of which has to make place.
    #[inline]
    pub fn insert(&mut self, hash: u64, row: u32) -> Result<(), [u32; WAYS]> {
        let Some((tags, rows)) = self.ways_mut(self.set(hash)) else { return Ok(()) };
        let way = which(rows, 0).trailing_zeros() as usize;
        let Some(place) = rows.get_mut(way) else { return Err(rows.map(|row| row.wrapping_sub(1))) };
        *place = row + 1;
        tags[way] = hash as u32;
        Ok(())
    }

    /// Forgets a row of a set.
    #[inline]
    pub fn remove(&mut self, set: u32, row: u32) {
        let Some((tags, rows)) = self.ways_mut(set) else { return };
        let way = which(rows, row + 1).trailing_zeros() as usize;
        if let Some(place) = rows.get_mut(way) {
            *place = 0;
            tags[way] = 0;
        }
    }
}

/// Whether two keys are equal, without the calls that comparing arrays of octets makes.
#[inline]
pub(crate) fn same(a: &FlowKey, b: &FlowKey) -> bool {
    let words = |key: &FlowKey| key.addr.map(u128::from_ne_bytes);
    words(a) == words(b) && (a.port, a.vlan, a.proto) == (b.port, b.vlan, b.proto)
}
