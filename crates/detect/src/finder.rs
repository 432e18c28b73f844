//! Literals that each have a place in a text: anywhere, near its beginning, at its beginning, or at its end.
//!
//! A literal at the beginning or at the end is found by one look at a table, whatever the length of the text. Those near the
//! beginning are searched for in the first bytes alone. In the rules of Emerging Threats two of five literals have such a place.

use crate::search::{Literal, Search, folded_word, starts};

/// Bytes at the beginning of a text that are near it.
pub(crate) const NEAR: usize = 64;

/// Where a literal may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// Anywhere.
    Anywhere,
    /// In the first [`NEAR`] bytes.
    NearStart,
    /// The text begins with it.
    Start,
    /// The text ends with it.
    End,
}

/// Finds literals, each at its place.
#[derive(Debug)]
pub(crate) struct Finder {
    anywhere: Searched,
    near_start: Searched,
    start: Anchors,
    end: Anchors,
}

/// Literals that are searched for.
#[derive(Debug)]
struct Searched {
    search: Search,
    /// The position in the finder of each literal.
    positions: Box<[u32]>,
}

impl Searched {
    fn new(literals: &[(u32, Literal<'_>)]) -> Self {
        let (positions, literals): (Vec<u32>, Vec<Literal<'_>>) = literals.iter().copied().unzip();
        Self { search: Search::new(&literals), positions: positions.into() }
    }

    fn find(&self, text: &[u8], found: &mut impl FnMut(u32)) {
        if !self.positions.is_empty() {
            self.search.find(text, |literal, _| {
                self.positions.get(literal).into_iter().for_each(|position| found(*position));
            });
        }
    }
}

impl Finder {
    /// A finder of literals.
    pub fn new(literals: &[(Literal<'_>, Place)]) -> Self {
        let of = |place: Place| -> Vec<(u32, Literal<'_>)> {
            let numbered = (0..).zip(literals);
            // A table of beginnings or ends has words of at least four bytes.
            let place_of = |(literal, place): &(Literal<'_>, Place)| match (place, literal.bytes.len()) {
                (Place::Start, ..SHORT) => Place::NearStart,
                (Place::End, ..SHORT) => Place::Anywhere,
                _ => *place,
            };
            numbered.filter(|(_, one)| place_of(one) == place).map(|(at, (one, _))| (at, *one)).collect()
        };
        Self {
            anywhere: Searched::new(&of(Place::Anywhere)),
            near_start: Searched::new(&of(Place::NearStart)),
            start: Anchors::new(&of(Place::Start), false),
            end: Anchors::new(&of(Place::End), true),
        }
    }

    /// Calls `found` with the position of each literal that is at its place; with some repeatedly, and with some that begin or end
    /// like the text and differ elsewhere. A text that is not from the beginning has no literals there.
    pub fn find(&self, text: &[u8], is_from_beginning: bool, mut found: impl FnMut(u32)) {
        self.anywhere.find(text, &mut found);
        if is_from_beginning {
            self.near_start.find(text.get(..NEAR).unwrap_or(text), &mut found);
            self.start.find(text, &mut found);
        }
        self.end.find(text, &mut found);
    }
}

/// The least length of a word.
const SHORT: usize = 4;
/// The length of a word of literals that are not shorter.
const LONG: usize = 8;

/// Literals at one end of a text, by the word there: their first or last eight bytes, or four.
#[derive(Debug)]
struct Anchors {
    is_end: bool,
    long: Words,
    short: Words,
}

impl Anchors {
    fn new(literals: &[(u32, Literal<'_>)], is_end: bool) -> Self {
        let of = |length: usize, lengths: std::ops::Range<usize>| {
            let fitting = literals.iter().filter(|(_, literal)| lengths.contains(&literal.bytes.len()));
            let words = fitting
                .filter_map(|(at, literal)| word(literal.bytes, length, is_end).map(|word| (word, *at)));
            Words::new(words.collect())
        };
        Self { is_end, long: of(LONG, LONG..usize::MAX), short: of(SHORT, SHORT..LONG) }
    }

    fn find(&self, text: &[u8], found: &mut impl FnMut(u32)) {
        for (words, length) in [(&self.long, LONG), (&self.short, SHORT)] {
            if !words.entries.is_empty()
                && let Some(word) = word(text, length, self.is_end)
            {
                words.find(word, found);
            }
        }
    }
}

/// The first or last bytes of a text as a number, letters of ASCII folded.
fn word(text: &[u8], length: usize, is_end: bool) -> Option<u64> {
    let bytes = match is_end {
        true => text.get(text.len().checked_sub(length)?..)?,
        false => text.get(..length)?,
    };
    Some(folded_word(bytes))
}

/// Words, each with the position of its literal, by the last bits of their hashes.
#[derive(Debug)]
struct Words {
    /// Where the entries of a hash begin; one more ends the last.
    starts: Box<[u32]>,
    entries: Box<[(u64, u32)]>,
    shift: u32,
}

impl Words {
    fn new(mut entries: Vec<(u64, u32)>) -> Self {
        let bits = (entries.len().max(2) as u32).next_power_of_two().ilog2();
        let shift = u64::BITS - bits;
        entries.sort_unstable_by_key(|(word, at)| (hash(*word) >> shift, *word, *at));
        let starts = starts(1 << bits, entries.iter().map(|(word, _)| (hash(*word) >> shift) as usize));
        Self { starts, entries: entries.into(), shift }
    }

    fn find(&self, word: u64, found: &mut impl FnMut(u32)) {
        let at = (hash(word) >> self.shift) as usize;
        let (Some(from), Some(to)) = (self.starts.get(at), self.starts.get(at + 1)) else { return };
        let entries = self.entries.get(*from as usize..*to as usize).unwrap_or_default();
        entries.iter().filter(|(known, _)| *known == word).for_each(|(_, literal)| found(*literal));
    }
}

fn hash(word: u64) -> u64 {
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> impl Strategy<Value = Place> {
        prop_oneof![Just(Place::Anywhere), Just(Place::NearStart), Just(Place::Start), Just(Place::End)]
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'A'), Just(b'b')], 1..14)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn each_literal_is_found_where_it_must_be(
            literals in proptest::collection::vec((bytes(), any::<bool>(), place()), 1..12),
            pieces in proptest::collection::vec(bytes(), 0..20),
            which in any::<prop::sample::Index>(),
        ) {
            let text = [which.get(&literals).0.clone(), pieces.concat()].concat();
            let of: Vec<(Literal<'_>, Place)> = literals
                .iter()
                .map(|(bytes, ignores_case, place)| (Literal { bytes, ignores_case: *ignores_case }, *place))
                .collect();
            let finder = Finder::new(&of);
            for is_from_beginning in [true, false] {
                let mut found = Vec::new();
                finder.find(&text, is_from_beginning, |literal| found.push(literal));
                for (at, (bytes, ignores_case, place)) in (0..).zip(&literals) {
                    let is_equal = |part: &[u8]| match ignores_case {
                        true => part.eq_ignore_ascii_case(bytes),
                        false => part == bytes,
                    };
                    let is_there = match place {
                        Place::Anywhere => text.windows(bytes.len()).any(is_equal),
                        Place::NearStart => {
                            let near = &text[..text.len().min(NEAR)];
                            is_from_beginning && near.windows(bytes.len()).any(is_equal)
                        }
                        Place::Start => is_from_beginning && text.get(..bytes.len()).is_some_and(is_equal),
                        Place::End => {
                            text.len() >= bytes.len() && is_equal(&text[text.len() - bytes.len()..])
                        }
                    };
                    prop_assert!(!is_there || found.contains(&at), "{bytes:?} {place:?}");
                    // What is elsewhere alone is not found.
                    let folded = |part: &[u8]| part.to_ascii_lowercase();
                    let is_anywhere = text.windows(bytes.len()).any(|part| folded(part) == folded(bytes));
                    let may_be_cut = matches!(place, Place::Start | Place::End);
                    prop_assert!(is_anywhere || may_be_cut || !found.contains(&at));
                }
            }
        }
    }

    #[test]
    fn literals_at_the_ends_are_found_there_alone() {
        let literal = |bytes| Literal { bytes, ignores_case: false };
        let finder = Finder::new(&[
            (literal(b"begin"), Place::Start),
            (literal(b"long-beginning"), Place::Start),
            (literal(b".example.com"), Place::End),
            (literal(b".com"), Place::End),
            (literal(b"c"), Place::End),
        ]);
        let found = |text: &[u8]| {
            let mut found = Vec::new();
            finder.find(text, true, |literal| found.push(literal));
            found.sort_unstable();
            found
        };
        assert_eq!(found(b"begin here"), [0]);
        assert_eq!(found(b"long-beginnings"), [1]);
        assert_eq!(found(b"www.EXAMPLE.com"), [2, 3, 4]);
        assert_eq!(found(b"x begin long-beginning .example.com."), [4]);
        assert_eq!(found(b""), []);
        let mut found = Vec::new();
        finder.find(b"begin", false, |literal| found.push(literal));
        assert_eq!(found, []);
    }
}
