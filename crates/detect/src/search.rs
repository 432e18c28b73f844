//! A search for many literals at once.
//!
//! Many literals are found by four of their bytes (a gram), letters of ASCII folded to lower case. Long literals have several
//! grams, one for each of the next places, so that the text is looked at in steps: of 8 bytes for literals of 11 bytes and more,
//! of 4 from 7 bytes on, of 2 from 5 bytes on. A gram of the text is looked up in a bitmap, which has most of the work; what passes goes to a table
//! by the gram, and there the literal is compared. Literals of one to three bytes have a bitmap of their own.
//!
//! Few literals, and those of fewer than seven bytes if they are not many, are found by a filter that compares four bytes of each
//! with 32 places of the text at a time (`shuffle`).
//!
//! Text without grams of literals costs a load, a hash and a test of a bit for each step. The time for a text is in proportion to its
//! length, and to the number of its places that have a gram of a literal.

mod shuffle;

use shuffle::{COMPARED, Compared, Shuffle, cases};
use std::ops::Range;

/// A literal to find.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Literal<'a> {
    /// Its bytes, at least one.
    pub bytes: &'a [u8],
    /// Whether letters of ASCII match in either case.
    pub ignores_case: bool,
}

/// Bytes of a gram.
const GRAM: usize = 4;

/// The least lengths of literals that are found in steps of 8, 4 and 2 bytes.
const MIN_OF_8: usize = 8 + GRAM - 1;
const MIN_OF_4: usize = 4 + GRAM - 1;
const MIN_OF_2: usize = 2 + GRAM - 1;

/// Maximum number of literals for steps of 8 or 4 bytes that a filter costs less for.
const FEW: usize = 32;
/// Maximum number of shorter literals that filters cost less for than steps of 2 bytes and less.
const MAX_FILTERED: usize = 160;
/// Literals of a filter: five of a bucket, of which few pass by chance.
const FILTERED: usize = 40;

/// A bitmap has at most 2^17 bits: they take 16 KiB, half of a first-level cache.
const MAX_BITS: u32 = 17;
/// Bits of a bitmap for each gram, as a power of two: one of 64 other grams passes.
const BITS_OF_A_GRAM: u32 = 6;

/// A search for literals, made once.
#[derive(Debug)]
pub struct Search {
    literals: Vec<Owned>,
    classes: Vec<Class>,
    short: Option<Short>,
    filters: Vec<Filter>,
}

/// A literal with its folded bytes.
#[derive(Debug)]
struct Owned {
    bytes: Box<[u8]>,
    ignores_case: bool,
}

impl Owned {
    /// Whether the text has the literal at a place.
    #[inline]
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        let Some(part) = text.get(at..at + self.bytes.len()) else { return false };
        match self.ignores_case {
            true => part.eq_ignore_ascii_case(&self.bytes),
            false => part == &*self.bytes,
        }
    }
}

/// The literals that are found in steps of one length.
#[derive(Debug)]
struct Class {
    step: usize,
    bitmap: Box<[u64]>,
    /// A gram's bit is its hash, shifted by this.
    shift: u32,
    table: Table,
}

/// The grams of literals, by their hashes.
#[derive(Debug)]
struct Table {
    /// For each value of the last bits of a hash, where its entries begin; one more ends the last.
    starts: Box<[u32]>,
    entries: Box<[Entry]>,
    shift: u32,
}

/// A gram of a literal.
#[derive(Clone, Copy, Debug)]
struct Entry {
    gram: u32,
    literal: u32,
    /// Its place in the literal.
    offset: u32,
}

/// Folds letters of ASCII in a gram to lower case.
#[inline]
fn folded(gram: u32) -> u32 {
    // Letters differ in this bit. Other bytes that differ in it alone become equal, too: the comparison tells them apart.
    gram | 0x2020_2020
}

/// Up to eight bytes as a number, little-endian, letters of ASCII folded to lower case as in grams.
pub(crate) fn folded_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(byte | 0x20))
}

#[inline]
fn hash(gram: u32) -> u32 {
    gram.wrapping_mul(0x9e37_79b1)
}

/// The gram at a place, folded.
#[inline]
fn gram(text: &[u8], at: usize) -> Option<u32> {
    let bytes: &[u8; GRAM] = text.get(at..)?.first_chunk()?;
    Some(folded(u32::from_le_bytes(*bytes)))
}

impl Class {
    fn new(step: usize, literals: &[(u32, &[u8])]) -> Self {
        let grams = (literals.len() * step).max(1) as u32;
        let bits = (grams.next_power_of_two().ilog2() + BITS_OF_A_GRAM).clamp(9, MAX_BITS);
        let shift = u32::BITS - bits;
        let mut bitmap = vec![0_u64; 1 << (bits - 6)].into_boxed_slice();
        let mut entries = Vec::with_capacity(literals.len() * step);
        for (literal, bytes) in literals {
            for offset in 0..step {
                let Some(gram) = gram(bytes, offset) else { continue };
                entries.push(Entry { gram, literal: *literal, offset: offset as u32 });
                let bit = hash(gram) >> shift;
                if let Some(word) = bitmap.get_mut((bit / 64) as usize) {
                    *word |= 1 << (bit % 64);
                }
            }
        }
        Self { step, bitmap, shift, table: Table::new(entries) }
    }

    fn find(&self, literals: &[Owned], text: &[u8], found: &mut impl FnMut(usize, usize)) {
        match self.step {
            8 => self.find_in_steps::<8, 28>(literals, text, found),
            4 => self.find_in_steps::<4, 16>(literals, text, found),
            2 => self.find_in_steps::<2, 10>(literals, text, found),
            _ => self.find_in_steps::<1, 7>(literals, text, found),
        }
    }

    /// Looks at the text in steps of this length. A window has four grams.
    fn find_in_steps<const STEP: usize, const WINDOW: usize>(
        &self,
        literals: &[Owned],
        text: &[u8],
        found: &mut impl FnMut(usize, usize),
    ) {
        const { assert!(WINDOW == 3 * STEP + GRAM) };
        let mut at = 0;
        // Four grams at a time, so that their loads do not wait for each other.
        while let Some(window) = text.get(at..).and_then(|rest| rest.first_chunk::<WINDOW>()) {
            let grams = [0, 1, 2, 3].map(|n| gram(window, n * STEP).unwrap_or_default());
            let hits = grams.map(|gram| self.may_have(gram));
            if hits.iter().fold(false, |any, hit| any | hit) {
                for (n, gram) in grams.into_iter().enumerate().filter(|(n, _)| hits.get(*n) == Some(&true)) {
                    self.table.find(literals, text, at + n * STEP, gram, found);
                }
            }
            at += 4 * STEP;
        }
        while let Some(gram) = gram(text, at) {
            if self.may_have(gram) {
                self.table.find(literals, text, at, gram, found);
            }
            at += STEP;
        }
    }

    #[inline]
    fn may_have(&self, gram: u32) -> bool {
        let bit = hash(gram) >> self.shift;
        self.bitmap.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }
}

/// Where the entries of each place begin in a list that is in the order of places; one more ends the last.
pub(crate) fn starts(number: usize, places: impl Iterator<Item = usize>) -> Box<[u32]> {
    let mut starts = vec![0_u32; number + 1];
    for place in places {
        if let Some(count) = starts.get_mut(place + 1) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    starts.into()
}

impl Table {
    fn new(mut entries: Vec<Entry>) -> Self {
        let bits = (entries.len() as u32).next_power_of_two().ilog2().max(1);
        let shift = 32 - bits;
        let place = |entry: &Entry| hash(entry.gram) >> shift;
        entries.sort_by_key(|entry| (place(entry), entry.gram, entry.literal, entry.offset));
        let starts = starts(1 << bits, entries.iter().map(|entry| place(entry) as usize));
        Self { starts, entries: entries.into(), shift }
    }

    /// Compares the literals that have a gram with the text around it.
    fn find(
        &self,
        literals: &[Owned],
        text: &[u8],
        at: usize,
        gram: u32,
        found: &mut impl FnMut(usize, usize),
    ) {
        let place = (hash(gram) >> self.shift) as usize;
        let (Some(from), Some(to)) = (self.starts.get(place), self.starts.get(place + 1)) else { return };
        for entry in self.entries.get(*from as usize..*to as usize).unwrap_or_default() {
            if entry.gram != gram {
                continue;
            }
            let Some(start) = at.checked_sub(entry.offset as usize) else { continue };
            if let Some(literal) = literals.get(entry.literal as usize)
                && literal.is_at(text, start)
            {
                found(entry.literal as usize, start);
            }
        }
    }
}

/// The literals of one to three bytes, by their first two bytes.
#[derive(Debug)]
struct Short {
    /// A bit for each pair of bytes that a literal may begin with.
    bitmap: Box<[u64]>,
    /// By their first byte in lower case: the positions of literals.
    by_first: Box<[Vec<u32>]>,
}

impl Short {
    fn new(literals: &[(u32, &Owned)]) -> Self {
        let mut bitmap = vec![0_u64; 1 << 10].into_boxed_slice();
        let mut by_first = vec![Vec::new(); 256].into_boxed_slice();
        for (position, literal) in literals {
            let Some(first) = literal.bytes.first() else { continue };
            if let Some(positions) = by_first.get_mut(usize::from(first.to_ascii_lowercase())) {
                positions.push(*position);
            }
            for first in cases(*first, literal.ignores_case) {
                let seconds: Vec<u8> = match literal.bytes.get(1) {
                    Some(second) => cases(*second, literal.ignores_case).collect(),
                    None => (0..=u8::MAX).collect(),
                };
                for second in seconds {
                    let bit = usize::from(first) << 8 | usize::from(second);
                    if let Some(word) = bitmap.get_mut(bit / 64) {
                        *word |= 1 << (bit % 64);
                    }
                }
            }
        }
        Self { bitmap, by_first }
    }

    fn find(&self, literals: &[Owned], text: &[u8], found: &mut impl FnMut(usize, usize)) {
        for (at, first) in text.iter().enumerate() {
            let may_be = match text.get(at + 1) {
                Some(second) => {
                    let bit = usize::from(*first) << 8 | usize::from(*second);
                    self.bitmap.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
                }
                None => true,
            };
            if !may_be {
                continue;
            }
            let positions = self.by_first.get(usize::from(first.to_ascii_lowercase()));
            for position in positions.into_iter().flatten() {
                if literals.get(*position as usize).is_some_and(|literal| literal.is_at(text, at)) {
                    found(*position as usize, at);
                }
            }
        }
    }
}

/// Few literals, found by a filter for four bytes of each.
#[derive(Debug)]
struct Filter {
    shuffle: Shuffle,
    /// The literals by their numbers in the filter, and where in them the bytes are that are compared.
    literals: Box<[(u32, usize)]>,
}

/// How seldom a byte is in traffic, roughly: text and zeros are common.
fn rarity(byte: u8) -> u32 {
    match byte {
        0
        | b' '
        | b'a'
        | b'c'..=b'e'
        | b'h'
        | b'i'
        | b'l'
        | b'n'..=b'p'
        | b'r'..=b'u'
        | b'/'
        | b'.'
        | b'=' => 0,
        b'a'..=b'z' | b'0'..=b'9' | b'\r' | b'\n' | b'-' | b':' | u8::MAX => 1,
        b'!'..=b'~' => 2,
        _ => 3,
    }
}

impl Filter {
    /// Filters for literals, each of some of them.
    fn all(literals: &mut [(u32, &Owned)]) -> Vec<Self> {
        literals.sort_unstable_by_key(|(number, literal)| (&literal.bytes, *number));
        literals.chunks(FILTERED).map(Self::new).collect()
    }

    fn new(literals: &[(u32, &Owned)]) -> Self {
        let rarest = |bytes: &[u8]| {
            let windows = bytes.windows(COMPARED).enumerate();
            let sum = |window: &[u8]| window.iter().map(|byte| rarity(*byte)).sum::<u32>();
            // The first one of those that are equally rare.
            windows.rev().max_by_key(|(_, window)| sum(window)).map_or(0, |(at, _)| at)
        };
        let places: Box<[(u32, usize)]> =
            literals.iter().map(|(number, literal)| (*number, rarest(&literal.bytes))).collect();
        let compared = (0..).zip(literals.iter().zip(&places)).map(|(number, ((_, literal), (_, from)))| {
            let rest = literal.bytes.get(*from..).unwrap_or_default();
            let bytes = rest.get(..COMPARED).unwrap_or(rest);
            Compared { bytes, ignores_case: literal.ignores_case, number }
        });
        Self { shuffle: Shuffle::new(compared.collect()), literals: places }
    }

    fn find(&self, literals: &[Owned], text: &[u8], found: &mut impl FnMut(usize, usize)) {
        self.shuffle.find(text, |number, at| {
            let Some((literal, from)) = self.literals.get(number as usize) else { return };
            if let Some(start) = at.checked_sub(*from)
                && literals.get(*literal as usize).is_some_and(|literal| literal.is_at(text, start))
            {
                found(*literal as usize, start);
            }
        });
    }
}

impl Search {
    /// A search for literals. Empty ones are never found.
    pub fn new(literals: &[Literal<'_>]) -> Self {
        let owned =
            |literal: &Literal<'_>| Owned { bytes: literal.bytes.into(), ignores_case: literal.ignores_case };
        let literals: Vec<Owned> = literals.iter().map(owned).collect();
        let of = |lengths: Range<usize>| -> Vec<(u32, &Owned)> {
            let numbered = (0..).zip(&literals);
            numbered.filter(|(_, literal)| lengths.contains(&literal.bytes.len())).collect()
        };
        let mut filtered = Vec::new();
        let mut in_steps: Vec<(usize, Range<usize>)> = Vec::new();
        let mut short = None;
        let [all, longer] = [of(MIN_OF_4..usize::MAX).len(), of(MIN_OF_8..usize::MAX).len()];
        if all <= FEW {
            filtered.extend(of(MIN_OF_4..usize::MAX));
        } else if all - longer <= FEW {
            filtered.extend(of(MIN_OF_4..MIN_OF_8));
            in_steps.push((8, MIN_OF_8..usize::MAX));
        } else {
            // One look at all of them in shorter steps costs less than two.
            in_steps.push((4, MIN_OF_4..usize::MAX));
        }
        if of(1..MIN_OF_4).len() <= MAX_FILTERED {
            filtered.extend(of(1..MIN_OF_4));
        } else {
            in_steps.extend([(2, MIN_OF_2..MIN_OF_4), (1, GRAM..MIN_OF_2)]);
            short = Some(of(1..GRAM)).filter(|of| !of.is_empty()).map(|of| Short::new(&of));
        }
        let filters = Filter::all(&mut filtered);
        let class = |(step, lengths): (usize, Range<usize>)| {
            let of: Vec<(u32, &[u8])> =
                of(lengths).into_iter().map(|(number, literal)| (number, &*literal.bytes)).collect();
            (!of.is_empty()).then(|| Class::new(step, &of))
        };
        let classes = in_steps.into_iter().filter_map(class).collect();
        Self { literals, classes, short, filters }
    }

    /// Calls `found` with each literal, by its position, and each place of it in the text. The order of calls is not defined.
    pub fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        for class in &self.classes {
            class.find(&self.literals, text, &mut found);
        }
        for filter in &self.filters {
            filter.find(&self.literals, text, &mut found);
        }
        if let Some(short) = &self.short {
            short.find(&self.literals, text, &mut found);
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let literals =
            self.literals.iter().map(|literal| size_of::<Owned>() + literal.bytes.len()).sum::<usize>();
        let of_class = |class: &Class| {
            let table = size_of_val(&*class.table.starts) + size_of_val(&*class.table.entries);
            size_of_val(&*class.bitmap) + table
        };
        let of_filter = |filter: &Filter| filter.shuffle.memory() + size_of_val(&*filter.literals);
        let short = self.short.as_ref().map_or(0, |short| {
            size_of_val(&*short.bitmap)
                + short.by_first.iter().map(|positions| 24 + positions.capacity() * 4).sum::<usize>()
        });
        literals
            + self.classes.iter().map(of_class).sum::<usize>()
            + self.filters.iter().map(of_filter).sum::<usize>()
            + short
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All places, by looking at each.
    fn plainly(literals: &[(Vec<u8>, bool)], text: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for (position, (literal, ignores_case)) in literals.iter().enumerate() {
            for (at, part) in text.windows(literal.len().max(1)).enumerate() {
                let is_equal =
                    if *ignores_case { part.eq_ignore_ascii_case(literal) } else { part == literal };
                if is_equal && !literal.is_empty() {
                    found.push((position, at));
                }
            }
        }
        found.sort_unstable();
        found
    }

    fn by_search(literals: &[(Vec<u8>, bool)], text: &[u8]) -> Vec<(usize, usize)> {
        let of: Vec<Literal<'_>> = literals
            .iter()
            .map(|(bytes, ignores_case)| Literal { bytes, ignores_case: *ignores_case })
            .collect();
        let mut found = Vec::new();
        Search::new(&of).find(text, |literal, at| found.push((literal, at)));
        found.sort_unstable();
        found
    }

    fn literal() -> impl Strategy<Value = (Vec<u8>, bool)> {
        let bytes = prop_oneof![
            proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'A'), Just(b'b')], 1..24),
            proptest::collection::vec(any::<u8>(), 1..24),
        ];
        (bytes, any::<bool>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn the_search_finds_what_a_plain_one_finds(
            literals in proptest::collection::vec(literal(), 1..20),
            text in proptest::collection::vec(prop_oneof![4 => Just(b'a'), 1 => Just(b'A'), 4 => Just(b'b'), 1 => any::<u8>()], 0..120),
            pasted in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
        ) {
            let mut text = text;
            for (which, place) in pasted {
                let at = place.index(text.len() + 1);
                text.splice(at..at, which.get(&literals).0.clone());
            }
            prop_assert_eq!(by_search(&literals, &text), plainly(&literals, &text));
        }
    }

    #[test]
    fn each_length_is_found_at_each_place() {
        for length in 1..30 {
            let literal: Vec<u8> = (0..length).map(|n| b'k' + n as u8 % 11).collect();
            for before in 0..20 {
                for after in 0..20 {
                    let text = [vec![b'.'; before], literal.to_ascii_uppercase(), vec![b'.'; after]].concat();
                    let literals = [(literal.clone(), true), (literal.clone(), false)];
                    assert_eq!(
                        by_search(&literals, &text),
                        [(0, before)],
                        "{length} bytes after {before} of {}",
                        text.len()
                    );
                }
            }
        }
    }

    #[test]
    fn literals_of_one_gram_are_all_found() {
        let literals: Vec<(Vec<u8>, bool)> =
            (0..1000).map(|n| (format!("abcdefgh{n:04}").into_bytes(), false)).collect();
        let text: Vec<u8> = literals.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        assert_eq!(by_search(&literals, &text).len(), 1000);
    }
}
