//! From the hash of a key to the row of its flow.

use crate::row::Row;
use weir_wire::FlowKey;

/// Flows that a set holds: a cache line of them.
const WAYS: usize = 8;

/// A set: for each flow 32 bits of the hash above the row's number plus 1; 0 is an empty way.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Set([u64; WAYS]);

/// A set-associative table of row numbers. A lookup reads one line here and the first line of a row.
///
/// There is a set for every two rows, so that a set has two flows on average and all eight ways are taken once in
/// a thousand: then the flow that was not used for longest has to make place.
pub(crate) struct Index {
    sets: Vec<Set>,
}

impl Index {
    /// Octets that the index takes for each row.
    pub const BYTES_PER_ROW: usize = size_of::<Set>() / 2;

    pub fn new(rows: usize) -> Self {
        Self { sets: vec![Set::default(); rows.div_ceil(2).max(1)] }
    }

    /// Which set: the upper half of the hash times the number of sets.
    #[inline]
    fn at(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.sets.len() as u128) >> 64) as usize
    }

    /// The lower half of the hash, which does not choose the set.
    #[inline]
    fn tag(hash: u64) -> u64 {
        hash << 32
    }

    /// Reads the set's line, so that it is in the cache when it is needed. The sum of what was read is to be
    /// used, lest the reading be left out.
    #[inline]
    pub fn touch(&self, hash: u64) -> u64 {
        self.sets.get(self.at(hash)).map_or(0, |set| set.0[0])
    }

    /// A row that is likely that of the hash.
    #[inline]
    pub fn likely(&self, hash: u64) -> Option<u32> {
        let set = self.sets.get(self.at(hash))?;
        let tag = Self::tag(hash);
        set.0.iter().find(|&&way| way & TAG == tag && way != 0).and_then(|&way| row_of(way))
    }

    /// The row of a key.
    #[inline]
    pub fn find(&self, hash: u64, key: &FlowKey, rows: &[Row]) -> Option<u32> {
        let set = self.sets.get(self.at(hash))?;
        let tag = Self::tag(hash);
        let is_key = |row: &u32| rows.get(*row as usize).is_some_and(|row| row.key == *key);
        set.0.iter().filter(|&&way| way & TAG == tag).filter_map(|&way| row_of(way)).find(is_key)
    }

    /// Notes the row of a key that is not in the index.
    ///
    /// # Errors
    ///
    /// The set is full: gives its rows, one of which has to make place.
    pub fn insert(&mut self, hash: u64, row: u32) -> Result<(), [u32; WAYS]> {
        let at = self.at(hash);
        let Some(set) = self.sets.get_mut(at) else { return Ok(()) };
        match set.0.iter_mut().find(|way| **way == 0) {
            Some(way) => {
                *way = Self::tag(hash) | (u64::from(row) + 1);
                Ok(())
            }
            None => Err(set.0.map(|way| row_of(way).unwrap_or_default())),
        }
    }

    /// Forgets a row.
    pub fn remove(&mut self, hash: u64, row: u32) {
        let at = self.at(hash);
        let Some(set) = self.sets.get_mut(at) else { return };
        if let Some(way) = set.0.iter_mut().find(|way| row_of(**way) == Some(row)) {
            *way = 0;
        }
    }
}

/// The bits of a way that are of the hash.
const TAG: u64 = 0xffff_ffff_0000_0000;

#[inline]
fn row_of(way: u64) -> Option<u32> {
    (way as u32).checked_sub(1)
}
