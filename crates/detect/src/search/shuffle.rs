//! A filter for few literals: which of eight buckets of them may be at each place of a text, 32 places at a time.
//!
//! Four bytes of each literal are compared by their halves: for each of the four places a table says which buckets have a byte
//! with these low four bits, and another one which have a byte with these high four. A place passes for the buckets that all
//! eight tables name. With AVX2 a table is looked up for 32 places by one instruction (`vpshufb`); without, place by place. Both
//! give equal results. The method is that of "Teddy" in Hyperscan (Wang and others, "Hyperscan: A Fast Multi-pattern Regex Matcher
//! for Modern CPUs", NSDI 2019).

// The one module of this crate with `unsafe`: the call of a function that needs AVX2, after the processor was asked for it.
#![allow(unsafe_code)]

/// Bytes of a literal that are compared.
pub(super) const COMPARED: usize = 4;
const BUCKETS: usize = 8;
/// Places that are looked at together.
const BLOCK: usize = 32;

/// The buckets, as bits, that have a byte with these four bits at a place.
type Halves = [u8; 16];

/// A filter for literals.
#[derive(Debug)]
pub(super) struct Shuffle {
    low: [Halves; COMPARED],
    high: [Halves; COMPARED],
    buckets: [Box<[u32]>; BUCKETS],
}

/// A literal to filter for: its number, the bytes of it that are compared, at most [`COMPARED`], and whether letters of ASCII match in
/// either case.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Compared<'a> {
    pub bytes: &'a [u8],
    pub ignores_case: bool,
    pub number: u32,
}

/// A byte, and its other case where that counts.
pub(super) fn cases(byte: u8, ignores_case: bool) -> impl Iterator<Item = u8> {
    let other = if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
    std::iter::once(byte).chain((ignores_case && other != byte).then_some(other))
}

impl Shuffle {
    /// A filter for literals.
    pub fn new(mut literals: Vec<Compared<'_>>) -> Self {
        // Those that begin alike share a bucket, so that few bytes pass.
        literals.sort_unstable();
        let mut made =
            Self { low: [[0; 16]; COMPARED], high: [[0; 16]; COMPARED], buckets: Default::default() };
        let size = literals.len().div_ceil(BUCKETS).max(1);
        for (bucket, of) in literals.chunks(size).enumerate() {
            let bit = 1_u8 << bucket;
            for literal in of {
                made.add(literal, bit);
            }
            if let Some(place) = made.buckets.get_mut(bucket) {
                *place = of.iter().map(|literal| literal.number).collect();
            }
        }
        made
    }

    fn add(&mut self, literal: &Compared<'_>, bit: u8) {
        for (at, (low, high)) in self.low.iter_mut().zip(&mut self.high).enumerate() {
            let Some(byte) = literal.bytes.get(at) else {
                // Any byte may follow a short literal.
                low.iter_mut().chain(high).for_each(|buckets| *buckets |= bit);
                continue;
            };
            for byte in cases(*byte, literal.ignores_case) {
                for (table, half) in [(&mut *low, byte & 15), (&mut *high, byte >> 4)] {
                    if let Some(buckets) = table.get_mut(usize::from(half)) {
                        *buckets |= bit;
                    }
                }
            }
        }
    }

    /// Calls `found` with each place and each literal that may be there: those of the buckets that pass.
    pub fn find(&self, text: &[u8], mut found: impl FnMut(u32, usize)) {
        let mut passes = |buckets: u8, at: usize| {
            for (bucket, literals) in self.buckets.iter().enumerate() {
                if buckets >> bucket & 1 == 1 {
                    literals.iter().for_each(|literal| found(*literal, at));
                }
            }
        };
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, which is all that the function needs. It takes slices and reads within them.
            unsafe { self.find_by_avx2(text, &mut passes) };
            return;
        }
        self.find_plainly(text, &mut passes);
    }

    /// Looks at places one by one.
    fn find_plainly(&self, text: &[u8], passes: &mut impl FnMut(u8, usize)) {
        for at in 0..text.len() {
            let buckets = self.buckets_at(text.get(at..).unwrap_or_default());
            if buckets != 0 {
                passes(buckets, at);
            }
        }
    }

    /// The buckets that pass at the beginning of a text.
    fn buckets_at(&self, text: &[u8]) -> u8 {
        // What follows the text is taken as zeros: a literal over its end is refused when it is compared.
        let bytes = text.iter().copied().chain(std::iter::repeat(0));
        let halves = self.low.iter().zip(&self.high).zip(bytes);
        halves.fold(u8::MAX, |buckets, ((low, high), byte)| {
            let of = |table: &Halves, half: u8| table.get(usize::from(half)).copied().unwrap_or_default();
            buckets & of(low, byte & 15) & of(high, byte >> 4)
        })
    }

    /// Looks at 32 places at a time.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn find_by_avx2(&self, text: &[u8], passes: &mut impl FnMut(u8, usize)) {
        use std::arch::x86_64::{
            __m256i, _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set_epi64x,
            _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
        };
        /// The bytes of a block that begins at this place of a window.
        #[target_feature(enable = "avx2")]
        fn load<const FROM: usize>(window: &[u8; BLOCK + COMPARED - 1]) -> __m256i {
            let word = |at: usize| {
                let eight = window.get(FROM + at..).and_then(|rest| rest.first_chunk());
                eight.map_or(0, |eight| i64::from_le_bytes(*eight))
            };
            _mm256_set_epi64x(word(24), word(16), word(8), word(0))
        }
        let words = |bytes: &[u8; 16]| {
            let whole = u128::from_le_bytes(*bytes);
            (whole as i64, (whole >> 64) as i64)
        };
        let table = |halves: &Halves| {
            let (first, second) = words(halves);
            _mm256_set_epi64x(second, first, second, first)
        };
        let store = |vector: __m256i| -> [u8; BLOCK] {
            // SAFETY: both are 32 bytes in which every value is valid.
            unsafe { std::mem::transmute(vector) }
        };
        let [low0, low1, low2, low3] = [&self.low[0], &self.low[1], &self.low[2], &self.low[3]].map(table);
        let [high0, high1, high2, high3] =
            [&self.high[0], &self.high[1], &self.high[2], &self.high[3]].map(table);
        let nibble = _mm256_set1_epi8(15);
        let at_place = |bytes: __m256i, low: __m256i, high: __m256i| {
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, nibble));
            let of_high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble));
            _mm256_and_si256(of_low, of_high)
        };
        let mut look = |window: &[u8; BLOCK + COMPARED - 1], at: usize, places: usize| {
            // Each place by itself: a loop over the tables keeps them in memory.
            let first = at_place(load::<0>(window), low0, high0);
            let second = at_place(load::<1>(window), low1, high1);
            let third = at_place(load::<2>(window), low2, high2);
            let fourth = at_place(load::<3>(window), low3, high3);
            let buckets = _mm256_and_si256(_mm256_and_si256(first, second), _mm256_and_si256(third, fourth));
            let is_none = _mm256_cmpeq_epi8(buckets, _mm256_setzero_si256());
            let mut hits = !(_mm256_movemask_epi8(is_none) as u32);
            if hits == 0 {
                return;
            }
            let buckets = store(buckets);
            while hits != 0 {
                let place = hits.trailing_zeros() as usize;
                hits &= hits - 1;
                if let Some(buckets) = buckets.get(place).filter(|_| place < places) {
                    passes(*buckets, at + place);
                }
            }
        };
        let mut at = 0;
        while let Some(window) = text.get(at..).and_then(|rest| rest.first_chunk()) {
            look(window, at, BLOCK);
            at += BLOCK;
        }
        // The end, filled up with zeros.
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let mut window = [0; BLOCK + COMPARED - 1];
            window.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            look(&window, at, rest.len().min(BLOCK));
            at += BLOCK;
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.buckets.iter().map(|literals| size_of_val(&**literals)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn the_instructions_give_what_plain_code_gives(
            literals in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..=COMPARED), any::<bool>()), 1..60),
            text in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'a'), Just(b'Z')], 0..200),
        ) {
            let compared = (0..).zip(&literals).map(|(number, (bytes, ignores_case))| {
                Compared { bytes, ignores_case: *ignores_case, number }
            });
            let shuffle = Shuffle::new(compared.collect());
            let mut plainly = Vec::new();
            shuffle.find_plainly(&text, &mut |buckets, at| {
                for (bucket, literals) in shuffle.buckets.iter().enumerate() {
                    if buckets >> bucket & 1 == 1 {
                        plainly.extend(literals.iter().map(|literal| (*literal, at)));
                    }
                }
            });
            let mut found = Vec::new();
            shuffle.find(&text, |literal, at| found.push((literal, at)));
            prop_assert_eq!(&found, &plainly);
            for (number, (bytes, ignores_case)) in (0..).zip(&literals) {
                for (at, part) in text.windows(bytes.len()).enumerate() {
                    let is_there = if *ignores_case { part.eq_ignore_ascii_case(bytes) } else { part == bytes };
                    prop_assert!(!is_there || found.contains(&(number, at)));
                }
            }
        }
    }
}
