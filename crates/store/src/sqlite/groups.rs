//! Groups of rows with equal values, within a bound of memory.
//!
//! While there is memory, every value has a group. After that the lighter half of the groups is removed whenever a new one needs
//! room, after Misra and Gries: a value that comes back begins again, and its group states what it may lack. What a value lacks,
//! and what a value without a group has, is at most the sum of all rows divided by the number of groups that stay.

use crate::loan::Loan;
use crate::tally::{Measure, Sums};
use foldhash::fast::RandomState;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Bytes of memory of a group and of its row of an answer, beside its values.
const GROUP: usize = 256;
const ROW: usize = 320;
/// Bytes of memory of an entry of a set or table of numbers, with the free places of the table.
pub const ENTRY: usize = 32;
/// Bytes of memory of a number in a list that grows.
pub const LISTED: usize = 16;
/// Bytes of memory of a part of the time.
pub const STEP: usize = 2 * LISTED;
/// Pairs of a value and a flow that are kept to count each flow once.
const MAX_SEEN: usize = 4_000_000;
/// Sums of values in parts of the time.
const MAX_PARTS: usize = 8_000_000;
/// The most bytes of pairs for a byte of groups, once memory was refused: heavy values shall not take the room of the others.
const PAIRS_TO_GROUPS: usize = 4;

/// The rows of a value.
pub struct Group {
    /// The encoded value.
    pub key: Box<[u8]>,
    /// What is counted.
    pub sums: Sums,
    /// The most, by the measure, that may be missing in `sums`.
    pub missing: f64,
    /// The measure in parts of the time: their places in ascending order of their rows.
    pub over: Vec<(u32, f64)>,
    /// Values for quantiles.
    pub values: Vec<f64>,
    /// The flow that was counted last, and all of them if there are several.
    latest: Option<i64>,
    seen: HashSet<i64, RandomState>,
}

impl Group {
    /// The most that the value may have.
    fn most(&self, measure: Measure) -> f64 {
        self.sums.of(measure) + self.missing
    }

    /// Bytes that were taken for it, but for its row.
    fn bytes(&self) -> usize {
        let lists = self.over.len() * STEP + self.values.len() * LISTED;
        group_bytes(&self.key) + lists + self.seen.len() * ENTRY
    }
}

fn group_bytes(key: &[u8]) -> usize {
    // The table has the value, too.
    GROUP + 2 * key.len()
}

/// Whether the flow of a row counts in its group.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Counts {
    /// It is new.
    Yes,
    /// It has counted.
    No,
    /// It is not known whether it has.
    Unknown,
}

/// The bounds of groups.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// By which the heavy ones stay.
    pub measure: Measure,
    /// Whether groups that exist stay, and later values have none. Otherwise the heavier ones stay, for which the measure of each
    /// row must be 0 or more.
    pub is_first_come: bool,
    /// The most groups.
    pub groups: usize,
    /// The most rows of the answer.
    pub rows: usize,
    /// Number of parts of the time.
    pub steps: usize,
}

/// Groups by their values.
pub struct Groups {
    bounds: Bounds,
    by_key: HashMap<Box<[u8]>, u32, RandomState>,
    list: Vec<Group>,
    /// The most that a value without a group has, by the measure.
    lost: f64,
    /// Pairs of a value and a flow.
    pairs: usize,
    /// Sums in parts of the time.
    parts: usize,
    /// Rows that are in no group.
    left_out: u64,
    /// Whether some rows are in no group.
    is_cut: bool,
    /// Whether some flows could not be kept.
    is_full: bool,
}

impl Groups {
    /// No groups yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            by_key: HashMap::default(),
            list: Vec::new(),
            lost: 0.0,
            pairs: 0,
            parts: 0,
            left_out: 0,
            is_cut: false,
            is_full: false,
        }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// A group by its number, which is valid until the next row is added.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Group> {
        self.list.get_mut(number as usize)
    }

    /// Rows that are in no group.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether some flows could not be kept, so that sums of flows are not exact.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds a row to the group of its value. With `flow`, this flow counts once in a group. `more` bytes of memory will be taken
    /// for the group besides. Returns the number of the group and what the row has added to it; nothing if there is no room for a
    /// group.
    pub fn add(
        &mut self,
        key: &[u8],
        flow: Option<i64>,
        sums: &Sums,
        more: usize,
        memory: &mut Loan,
    ) -> Option<(u32, Sums)> {
        let more = more + if flow.is_some() { 2 * ENTRY } else { 0 };
        if more > 0 {
            self.make_room(group_bytes(key) + self.row_bytes() + more, memory);
        }
        let Some(number) = self.number(key, memory) else {
            self.left_out += 1;
            self.is_cut = true;
            self.lost += sums.of(self.bounds.measure);
            return None;
        };
        let counts = flow.map_or(Counts::Yes, |flow| self.once(number, flow, memory));
        let mut counted = *sums;
        if counts != Counts::Yes {
            counted = Sums { rows: sums.rows, sum: sums.sum, ..Sums::default() };
        }
        let measure = self.bounds.measure;
        let group = self.list.get_mut(number as usize)?;
        group.sums.add(&counted);
        if counts == Counts::Unknown {
            self.is_full = true;
            group.missing += sums.of(measure) - counted.of(measure);
        }
        Some((number, counted))
    }

    /// Removes lighter groups if bytes are not free, unless an answer would lack rows for it.
    fn make_room(&mut self, bytes: usize, memory: &mut Loan) {
        let is_spare = self.list.len() / 2 >= self.bounds.rows.max(1);
        if is_spare && !self.bounds.is_first_come && !memory.has(bytes) {
            self.prune(memory);
        }
    }

    /// The number of the group of a value, which is made if there is room.
    fn number(&mut self, key: &[u8], memory: &mut Loan) -> Option<u32> {
        if let Some(number) = self.by_key.get(key) {
            return Some(*number);
        }
        if !self.room(key, memory) {
            let has_room = !self.bounds.is_first_come && self.prune(memory) && self.room(key, memory);
            if !has_room {
                return None;
            }
        }
        let key: Box<[u8]> = key.into();
        let number = self.list.len() as u32;
        self.list.push(Group {
            key: key.clone(),
            sums: Sums::default(),
            missing: self.lost,
            over: Vec::new(),
            values: Vec::new(),
            latest: None,
            seen: HashSet::default(),
        });
        self.by_key.insert(key, number);
        Some(number)
    }

    /// Memory of a new group, and of its row if it may have one: an answer has rows, however many groups have no memory.
    fn room(&self, key: &[u8], memory: &mut Loan) -> bool {
        let row = if self.list.len() < self.bounds.rows { self.row_bytes() } else { 0 };
        let bytes = group_bytes(key) + row;
        self.list.len() < self.bounds.groups
            && match self.bounds.is_first_come {
                true => memory.take(bytes),
                false => memory.take_again(bytes),
            }
    }

    /// Bytes of a row of an answer, which has a number for each part of the time.
    fn row_bytes(&self) -> usize {
        ROW + self.bounds.steps * size_of::<f64>()
    }

    /// Removes the lighter half of the groups. Returns whether there were any.
    fn prune(&mut self, memory: &mut Loan) -> bool {
        let before = self.list.len();
        let keep = before.div_ceil(2);
        if keep == before {
            return false;
        }
        let measure = self.bounds.measure;
        self.list.select_nth_unstable_by(keep, |a, b| {
            let weight = b.most(measure).partial_cmp(&a.most(measure)).unwrap_or(Ordering::Equal);
            weight.then_with(|| a.key.cmp(&b.key))
        });
        let rows = before.min(self.bounds.rows) - keep.min(self.bounds.rows);
        let mut bytes = rows * self.row_bytes();
        for group in self.list.drain(keep..) {
            self.by_key.remove(&group.key);
            self.lost = self.lost.max(group.most(measure));
            self.left_out += group.sums.rows;
            self.pairs -= group.seen.len();
            self.parts -= group.over.len();
            bytes += group.bytes();
        }
        for (number, group) in (0..).zip(&self.list) {
            if let Some(known) = self.by_key.get_mut(&group.key) {
                *known = number;
            }
        }
        memory.release(bytes);
        self.is_cut = true;
        true
    }

    /// Whether a flow counts in a group, in which it counts once.
    fn once(&mut self, number: u32, flow: i64, memory: &mut Loan) -> Counts {
        let groups = self.list.len();
        let Some(group) = self.list.get_mut(number as usize) else { return Counts::No };
        let Some(latest) = group.latest else {
            group.latest = Some(flow);
            return Counts::Yes;
        };
        if latest == flow || group.seen.contains(&flow) {
            group.latest = Some(flow);
            return Counts::No;
        }
        // The first two flows are kept together: most values have one.
        let new = if group.seen.is_empty() { 2 } else { 1 };
        let most = if memory.is_refused() { PAIRS_TO_GROUPS * GROUP * groups / ENTRY } else { MAX_SEEN };
        let has_room = self.pairs + new <= most.min(MAX_SEEN) && memory.take_again(new * ENTRY);
        if !has_room {
            return Counts::Unknown;
        }
        group.seen.extend([latest, flow]);
        self.pairs += new;
        group.latest = Some(flow);
        Counts::Yes
    }

    /// Adds a part of the measure to a part of the time of a group. Returns whether there was room.
    pub fn add_part(&mut self, number: u32, place: u32, value: f64, memory: &mut Loan) -> bool {
        let Some(group) = self.list.get_mut(number as usize) else { return true };
        if let Some((_, sum)) = group.over.last_mut().filter(|(known, _)| *known == place) {
            *sum += value;
            return true;
        }
        let has_room = self.parts < MAX_PARTS && memory.take_again(STEP);
        if has_room {
            self.parts += 1;
            group.over.push((place, value));
        }
        has_room
    }

    /// Takes out the heaviest groups, the first one first, as many as the answer has rows. Returns them and the most that any
    /// other value has, by the measure: `None` where every value had a group, and infinity where it is not known.
    pub fn heaviest(&mut self) -> (Vec<Group>, Option<f64>) {
        let Bounds { measure, rows, .. } = self.bounds;
        let order = |a: &Group, b: &Group| {
            let weight = b.sums.of(measure).partial_cmp(&a.sums.of(measure)).unwrap_or(Ordering::Equal);
            weight.then_with(|| b.sums.rows.cmp(&a.sums.rows)).then_with(|| a.key.cmp(&b.key))
        };
        let lost = if self.bounds.is_first_come { f64::INFINITY } else { self.lost };
        let mut lost = self.is_cut.then_some(lost);
        self.by_key = HashMap::default();
        let mut list = std::mem::take(&mut self.list);
        if rows < list.len() {
            list.select_nth_unstable_by(rows, order);
            let hidden = list.drain(rows..).map(|group| group.most(measure)).fold(0.0, f64::max);
            lost = lost.map(|lost| lost.max(hidden));
        }
        list.sort_unstable_by(order);
        (list, lost)
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
