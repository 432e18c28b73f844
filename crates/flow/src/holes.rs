//! Holes in TCP streams: missing bytes before data that has arrived.
//!
//! Few streams have holes at a time, so that holes are kept in a pool of fixed size and not in the flow's row.

/// Number of ranges that are tracked in one direction. Real loss leaves one or two at a time.
const RANGES: usize = 4;

/// The position of a flow's holes in the pool, or none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct HolesAt(u32);

/// The holes of one flow, both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holes {
    sides: [Ranges; 2],
    /// Bytes that were acknowledged and not seen.
    pub uncounted: [u64; 2],
}

/// Ranges of bytes beyond the contiguous part of the stream: sequence numbers of the first byte and after the last
/// byte. Ranges are sorted and disjoint; empty ones are last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ranges([(u32, u32); RANGES], u8);

impl Ranges {
    /// Adds a range ahead of `next`; `false` if there is no free slot.
    pub fn add(&mut self, next: u32, start: u32, end: u32) -> bool {
        let ahead = |seq: u32| seq.wrapping_sub(next);
        let (mut start, mut end) = (start, end);
        let mut kept = Ranges::default();
        let mut placed = false;
        for &(a, b) in self.iter() {
            if ahead(b) < ahead(start) {
                kept.push(a, b);
            } else if ahead(a) > ahead(end) {
                if !placed && !kept.push(start, end) {
                    return false;
                }
                placed = true;
                if !kept.push(a, b) {
                    return false;
                }
            } else {
                if ahead(a) < ahead(start) {
                    start = a;
                }
                if ahead(b) > ahead(end) {
                    end = b;
                }
            }
        }
        if !placed && !kept.push(start, end) {
            return false;
        }
        *self = kept;
        true
    }

    fn iter(&self) -> impl Iterator<Item = &(u32, u32)> {
        self.0.iter().take(usize::from(self.1))
    }

    fn push(&mut self, start: u32, end: u32) -> bool {
        match self.0.get_mut(usize::from(self.1)) {
            Some(place) => {
                *place = (start, end);
                self.1 += 1;
                true
            }
            None => false,
        }
    }

    /// The first range.
    pub fn first(&self) -> Option<(u32, u32)> {
        self.iter().next().copied()
    }

    /// The end of the last range.
    pub fn end(&self) -> Option<u32> {
        self.iter().last().map(|&(_, end)| end)
    }

    /// Removes the first range.
    pub fn pop(&mut self) {
        self.0.rotate_left(1);
        self.1 = self.1.saturating_sub(1);
    }
}

impl Holes {
    pub fn side(&mut self, side: usize) -> &mut Ranges {
        &mut self.sides[side & 1]
    }
}

/// Holes of all flows of a table.
pub(crate) struct Pool {
    all: Vec<Holes>,
    free: Vec<u32>,
    capacity: usize,
    /// Flows for which there was no free slot.
    pub shed: u64,
}

impl Pool {
    /// Bytes for each flow with holes.
    pub const BYTES_EACH: usize = size_of::<Holes>() + size_of::<u32>();

    pub fn new(capacity: usize) -> Self {
        Self { all: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity), capacity, shed: 0 }
    }

    /// The holes of a flow, which gets a slot if it has none; `None` if all slots are in use.
    pub fn get(&mut self, at: &mut HolesAt) -> Option<&mut Holes> {
        if at.0 == 0 {
            let place = match self.free.pop() {
                Some(place) => place,
                None if self.all.len() < self.capacity => {
                    self.all.push(Holes::default());
                    self.all.len() as u32
                }
                None => {
                    self.shed += 1;
                    return None;
                }
            };
            *at = HolesAt(place);
            let holes = self.all.get_mut(place as usize - 1)?;
            *holes = Holes::default();
            return Some(holes);
        }
        self.known(*at)
    }

    /// The holes of a flow, if it has any.
    pub fn known(&mut self, at: HolesAt) -> Option<&mut Holes> {
        self.all.get_mut((at.0 as usize).checked_sub(1)?)
    }

    /// Releases the slot of a flow. Returns the number of missing bytes by side.
    pub fn release(&mut self, at: HolesAt) -> [u64; 2] {
        let Some(uncounted) = self.known(at).map(|holes| holes.uncounted) else { return [0; 2] };
        self.free.push(at.0);
        uncounted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_stay_in_order() {
        let next = u32::MAX - 50;
        let at = |n: u32| next.wrapping_add(n);
        let mut ranges = Ranges::default();
        assert!(ranges.add(next, at(100), at(110)));
        assert!(ranges.add(next, at(40), at(50)));
        assert!(ranges.add(next, at(200), at(210)));
        assert_eq!(ranges.first(), Some((at(40), at(50))));
        assert!(ranges.add(next, at(50), at(100)), "it fills the hole between two ranges");
        assert_eq!(ranges.first(), Some((at(40), at(110))));
        assert_eq!(ranges.end(), Some(at(210)));
        assert!(ranges.add(next, at(300), at(310)) && ranges.add(next, at(400), at(410)));
        assert!(!ranges.add(next, at(500), at(510)), "no place");
        assert!(ranges.add(next, at(205), at(600)), "but a range that covers others has");
        ranges.pop();
        assert_eq!(ranges.first(), Some((at(200), at(600))));
        ranges.pop();
        assert_eq!(ranges.first(), None);
    }

    #[test]
    fn released_slots_are_reused() {
        let mut pool = Pool::new(1);
        let (mut a, mut b) = (HolesAt::default(), HolesAt::default());
        pool.get(&mut a).expect("a place").uncounted = [3, 4];
        assert!(pool.get(&mut b).is_none());
        assert_eq!(pool.shed, 1);
        assert_eq!(pool.release(a), [3, 4]);
        assert_eq!(pool.get(&mut b).expect("the slot again").uncounted, [0, 0]);
        assert_eq!(pool.release(HolesAt::default()), [0, 0]);
    }
}
