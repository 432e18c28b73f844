//! Comparisons over a whole column, in three forms: AVX-512, AVX2 and plain. All give equal bits.
//!
//! This is the only room for `unsafe` in the crate, for three reasons. A function compiled for instructions that not
//! every processor has may be called only after a check of the processor, which [`InstructionSet::best`] makes. Loads of whole
//! vectors go through pointers, always into arrays of [`BATCH`] elements, whose length is in their type, at offsets
//! below it. And there is no safe prefetch. docs/performance.md compares it with the plain form, which the compiler
//! vectorises where it can.
#![allow(unsafe_code)]

/// Number of packets that are decided together.
pub(super) const BATCH: usize = 512;

/// Maximum summand that [`sum`] can add [`BATCH`] times in 32 bits.
pub(super) const MAX_SUMMAND: u32 = u32::MAX / BATCH as u32;

/// A bit for each packet of a batch.
pub(super) type Mask = [u64; BATCH / 64];

pub(super) type Column<T> = [T; BATCH];

/// The instruction set in use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum InstructionSet {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// The instruction sets of this processor, the widest one last.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                sets.push(Self::Avx2);
            }
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                sets.push(Self::Avx512);
            }
        }
        sets
    }

    /// The widest instruction set of this processor.
    pub fn best() -> Self {
        Self::available().last().copied().unwrap_or(Self::Plain)
    }
}

/// Prefetches an item, so that its memory arrives while others are processed.
#[inline(always)]
pub(super) fn prefetch<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(at) {
        // SAFETY: the instruction reads nothing, and every x86-64 processor has it.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                std::ptr::from_ref(item).cast(),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items.get(at);
}

/// Adds the packets whose number is from `low` to `high`.
pub(super) fn in_range_u16(
    isa: InstructionSet,
    column: &Column<u16>,
    (low, high): (u16, u16),
    mask: &mut Mask,
) {
    match isa {
        InstructionSet::Plain => plain::in_range(column, low, high, mask),
        // SAFETY: a isa is only created if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { avx2::in_range_u16(column, low, high, mask) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { avx512::in_range_u16(column, low, high, mask) },
    }
}

/// Adds the packets whose number is from `low` to `high`.
pub(super) fn in_range_u32(
    isa: InstructionSet,
    column: &Column<u32>,
    (low, high): (u32, u32),
    mask: &mut Mask,
) {
    match isa {
        InstructionSet::Plain => plain::in_range(column, low, high, mask),
        // SAFETY: a isa is only created if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { avx2::in_range_u32(column, low, high, mask) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { avx512::in_range_u32(column, low, high, mask) },
    }
}

/// Adds the packets of which one number or the other is from `low` to `high`.
pub(super) fn either_in_range_u32(
    isa: InstructionSet,
    one: &Column<u32>,
    other: &Column<u32>,
    range: (u32, u32),
    mask: &mut Mask,
) {
    match isa {
        // SAFETY: a isa is only created if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { avx512::either_in_range_u32(one, other, range, mask) },
        _ => {
            in_range_u32(isa, one, range, mask);
            in_range_u32(isa, other, range, mask);
        }
    }
}

/// Adds the packets of which one number or the other is from `low` to `high`.
pub(super) fn either_in_range_u16(
    isa: InstructionSet,
    one: &Column<u16>,
    other: &Column<u16>,
    range: (u16, u16),
    mask: &mut Mask,
) {
    match isa {
        // SAFETY: a isa is only created if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { avx512::either_in_range_u16(one, other, range, mask) },
        _ => {
            in_range_u16(isa, one, range, mask);
            in_range_u16(isa, other, range, mask);
        }
    }
}

/// The packets whose number, under `bits`, is from `low` to `high`.
pub(super) fn masked_in_range(
    isa: InstructionSet,
    column: &Column<u32>,
    bits: u32,
    (low, high): (u32, u32),
    mask: &mut Mask,
) {
    match isa {
        InstructionSet::Plain => plain::masked_in_range(column, bits, low, high, mask),
        // SAFETY: a isa is only created if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { avx2::masked_in_range(column, bits, low, high, mask) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { avx512::masked_in_range(column, bits, low, high, mask) },
    }
}

/// The sum of a column over the packets of a mask. No number may be above [`MAX_SUMMAND`].
pub(super) fn sum(isa: InstructionSet, column: &Column<u32>, mask: &Mask) -> u64 {
    match isa {
        // SAFETY: a isa is only created if the processor has its instructions.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { avx512::sum(column, mask) },
        // AVX-512 has masked sums; with AVX2 a loop over the bits is as fast.
        _ => plain::sum(column, mask),
    }
}

mod plain {
    use super::{Column, Mask};

    #[inline(always)]
    pub fn select<T: Copy>(column: &Column<T>, mask: &mut Mask, holds: impl Fn(T) -> bool) {
        for (word, numbers) in mask.iter_mut().zip(column.chunks_exact(64)) {
            let mut bits = 0;
            for (at, number) in numbers.iter().enumerate() {
                bits |= u64::from(holds(*number)) << at;
            }
            *word |= bits;
        }
    }

    pub fn in_range<T: Copy + Ord>(column: &Column<T>, low: T, high: T, mask: &mut Mask) {
        select(column, mask, |number| low <= number && number <= high);
    }

    pub fn masked_in_range(column: &Column<u32>, bits: u32, low: u32, high: u32, mask: &mut Mask) {
        select(column, mask, |number| low <= number & bits && number & bits <= high);
    }

    pub fn sum(column: &Column<u32>, mask: &Mask) -> u64 {
        let mut sum = 0;
        for (word, numbers) in mask.iter().zip(column.chunks_exact(64)) {
            let mut bits = *word;
            while bits != 0 {
                sum += u64::from(numbers[bits.trailing_zeros() as usize % 64]);
                bits &= bits - 1;
            }
        }
        sum
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Column, Mask};
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi16, _mm256_cmpeq_epi32,
        _mm256_loadu_si256, _mm256_min_epu16, _mm256_min_epu32, _mm256_movemask_epi8, _mm256_movemask_ps,
        _mm256_packs_epi16, _mm256_permute4x64_epi64, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_sub_epi16,
        _mm256_sub_epi32,
    };

    /// Eight numbers of a column.
    ///
    /// # Safety
    ///
    /// `at + 8` is at most the column's length.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load_u32(column: &Column<u32>, at: usize) -> __m256i {
        // SAFETY: the caller guarantees the length; the load needs no alignment.
        unsafe { _mm256_loadu_si256(column.as_ptr().add(at).cast()) }
    }

    #[target_feature(enable = "avx2")]
    pub fn in_range_u32(column: &Column<u32>, low: u32, high: u32, mask: &mut Mask) {
        masked(column, None, low, high, |word, bits| mask[word] |= bits);
    }

    #[target_feature(enable = "avx2")]
    pub fn masked_in_range(column: &Column<u32>, bits: u32, low: u32, high: u32, mask: &mut Mask) {
        masked(column, Some(bits), low, high, |word, bits| mask[word] |= bits);
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn masked(column: &Column<u32>, bits: Option<u32>, low: u32, high: u32, mut add: impl FnMut(usize, u64)) {
        let (first, width) =
            (_mm256_set1_epi32(low as i32), _mm256_set1_epi32(high.wrapping_sub(low) as i32));
        let keep = _mm256_set1_epi32(bits.unwrap_or(u32::MAX) as i32);
        for word in 0..column.len() / 64 {
            let mut found = 0_u64;
            for part in 0..8 {
                // SAFETY: word * 64 + part * 8 + 8 is at most the length.
                let numbers = unsafe { load_u32(column, word * 64 + part * 8) };
                let above = _mm256_sub_epi32(_mm256_and_si256(numbers, keep), first);
                let within = _mm256_cmpeq_epi32(_mm256_min_epu32(above, width), above);
                let bits = _mm256_movemask_ps(_mm256_castsi256_ps(within)) as u32;
                found |= u64::from(bits) << (part * 8);
            }
            add(word, found);
        }
    }

    #[target_feature(enable = "avx2")]
    pub fn in_range_u16(column: &Column<u16>, low: u16, high: u16, mask: &mut Mask) {
        let (first, width) =
            (_mm256_set1_epi16(low as i16), _mm256_set1_epi16(high.wrapping_sub(low) as i16));
        for (word, bits) in mask.iter_mut().enumerate() {
            for half in 0..2 {
                let at = word * 64 + half * 32;
                let within = |at: usize| {
                    // SAFETY: `at` is at most word * 64 + 48, and the column has 16 more numbers from there.
                    let numbers = unsafe { _mm256_loadu_si256(column.as_ptr().add(at).cast()) };
                    let above = _mm256_sub_epi16(numbers, first);
                    _mm256_cmpeq_epi16(_mm256_min_epu16(above, width), above)
                };
                let bytes = _mm256_packs_epi16(within(at), within(at + 16));
                let in_order = _mm256_permute4x64_epi64(bytes, 0b11_01_10_00);
                *bits |= u64::from(_mm256_movemask_epi8(in_order) as u32) << (half * 32);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Column, Mask};
    use std::arch::x86_64::{
        _kor_mask16, _mm512_add_epi32, _mm512_and_si512, _mm512_cmple_epu16_mask, _mm512_cmple_epu32_mask,
        _mm512_kunpackd, _mm512_kunpackw, _mm512_loadu_si512, _mm512_maskz_loadu_epi32,
        _mm512_reduce_add_epi32, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_setzero_si512,
        _mm512_sub_epi16, _mm512_sub_epi32,
    };

    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn in_range_u32(column: &Column<u32>, low: u32, high: u32, mask: &mut Mask) {
        let (first, width) =
            (_mm512_set1_epi32(low as i32), _mm512_set1_epi32(high.wrapping_sub(low) as i32));
        for (word, bits) in mask.iter_mut().enumerate() {
            for part in 0..4 {
                // SAFETY: word * 64 + part * 16 + 16 is at most the column's length.
                let numbers =
                    unsafe { _mm512_loadu_si512(column.as_ptr().add(word * 64 + part * 16).cast()) };
                let found = _mm512_cmple_epu32_mask(_mm512_sub_epi32(numbers, first), width);
                *bits |= u64::from(found) << (part * 16);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn masked_in_range(column: &Column<u32>, keep: u32, low: u32, high: u32, mask: &mut Mask) {
        let (first, width) =
            (_mm512_set1_epi32(low as i32), _mm512_set1_epi32(high.wrapping_sub(low) as i32));
        let keep = _mm512_set1_epi32(keep as i32);
        for (word, bits) in mask.iter_mut().enumerate() {
            for part in 0..4 {
                // SAFETY: as above.
                let numbers =
                    unsafe { _mm512_loadu_si512(column.as_ptr().add(word * 64 + part * 16).cast()) };
                let above = _mm512_sub_epi32(_mm512_and_si512(numbers, keep), first);
                *bits |= u64::from(_mm512_cmple_epu32_mask(above, width)) << (part * 16);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn in_range_u16(column: &Column<u16>, low: u16, high: u16, mask: &mut Mask) {
        let (first, width) =
            (_mm512_set1_epi16(low as i16), _mm512_set1_epi16(high.wrapping_sub(low) as i16));
        for (word, bits) in mask.iter_mut().enumerate() {
            for half in 0..2 {
                // SAFETY: word * 64 + half * 32 + 32 is at most the column's length.
                let numbers =
                    unsafe { _mm512_loadu_si512(column.as_ptr().add(word * 64 + half * 32).cast()) };
                let found = _mm512_cmple_epu16_mask(_mm512_sub_epi16(numbers, first), width);
                *bits |= u64::from(found) << (half * 32);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn either_in_range_u32(
        one: &Column<u32>,
        other: &Column<u32>,
        (low, high): (u32, u32),
        mask: &mut Mask,
    ) {
        let (first, width) =
            (_mm512_set1_epi32(low as i32), _mm512_set1_epi32(high.wrapping_sub(low) as i32));
        for (word, bits) in mask.iter_mut().enumerate() {
            let [a, b, c, d] = [0, 16, 32, 48].map(|part| {
                let at = word * 64 + part;
                // SAFETY: at + 16 is at most the columns' length.
                let (a, b) = unsafe {
                    (
                        _mm512_loadu_si512(one.as_ptr().add(at).cast()),
                        _mm512_loadu_si512(other.as_ptr().add(at).cast()),
                    )
                };
                _kor_mask16(
                    _mm512_cmple_epu32_mask(_mm512_sub_epi32(a, first), width),
                    _mm512_cmple_epu32_mask(_mm512_sub_epi32(b, first), width),
                )
            });
            // Joined as masks: one move from the mask registers instead of four.
            let low = _mm512_kunpackw(u32::from(b), u32::from(a));
            let high = _mm512_kunpackw(u32::from(d), u32::from(c));
            *bits |= _mm512_kunpackd(u64::from(high), u64::from(low));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn either_in_range_u16(
        one: &Column<u16>,
        other: &Column<u16>,
        (low, high): (u16, u16),
        mask: &mut Mask,
    ) {
        let (first, width) =
            (_mm512_set1_epi16(low as i16), _mm512_set1_epi16(high.wrapping_sub(low) as i16));
        for (word, bits) in mask.iter_mut().enumerate() {
            for half in 0..2 {
                let at = word * 64 + half * 32;
                // SAFETY: at + 32 is at most the columns' length.
                let (a, b) = unsafe {
                    (
                        _mm512_loadu_si512(one.as_ptr().add(at).cast()),
                        _mm512_loadu_si512(other.as_ptr().add(at).cast()),
                    )
                };
                let found = _mm512_cmple_epu16_mask(_mm512_sub_epi16(a, first), width)
                    | _mm512_cmple_epu16_mask(_mm512_sub_epi16(b, first), width);
                *bits |= u64::from(found) << (half * 32);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn sum(column: &Column<u32>, mask: &Mask) -> u64 {
        let mut sum = _mm512_setzero_si512();
        for (word, bits) in mask.iter().enumerate() {
            if *bits == 0 {
                continue;
            }
            for part in 0..4 {
                let wanted = (bits >> (part * 16)) as u16;
                // SAFETY: word * 64 + part * 16 + 16 is at most the length; numbers outside the mask are not read.
                let numbers = unsafe {
                    _mm512_maskz_loadu_epi32(wanted, column.as_ptr().add(word * 64 + part * 16).cast())
                };
                sum = _mm512_add_epi32(sum, numbers);
            }
        }
        u64::from(_mm512_reduce_add_epi32(sum) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares every form with a simple definition, on numbers at and around the limits of the ranges.
    #[test]
    fn all_levels_give_the_same_bits() {
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        for round in 0..300 {
            let edge = (random() >> 20) as u32;
            let near = |r: u64| match r % 4 {
                0 => edge.wrapping_add((r >> 8) as u32 % 3),
                1 => edge.wrapping_sub((r >> 8) as u32 % 3),
                2 => [0, 1, u32::MAX, 0x8000_0000, 0x7fff_ffff][(r >> 8) as usize % 5],
                _ => (r >> 16) as u32,
            };
            let wide: Column<u32> = std::array::from_fn(|_| near(random()));
            let narrow: Column<u16> = wide.map(|number| number as u16);
            let small = wide.map(|number| number.rotate_left(9) % (MAX_SUMMAND + 1));
            let other_narrow: Column<u16> = std::array::from_fn(|_| near(random()) as u16);
            let (a, b) = (near(random()), near(random()));
            let (low, high) = if round % 5 == 0 { (a, a) } else { (a.min(b), a.max(b)) };
            let (low16, high16) = ((a as u16).min(b as u16), (a as u16).max(b as u16));
            let keep = near(random());
            let expected = |holds: &dyn Fn(usize) -> bool| -> Mask {
                std::array::from_fn(|word| (0..64).map(|at| u64::from(holds(word * 64 + at)) << at).sum())
            };
            let of_wide = expected(&|at| (low..=high).contains(&wide[at]));
            let of_narrow = expected(&|at| (low16..=high16).contains(&narrow[at]));
            let of_either =
                expected(&|at| (low..=high).contains(&wide[at]) || (low..=high).contains(&small[at]));
            let of_either_narrow = expected(&|at| {
                (low16..=high16).contains(&narrow[at]) || (low16..=high16).contains(&other_narrow[at])
            });
            let of_masked = expected(&|at| (low..=high).contains(&(wide[at] & keep)));
            let total: u64 = small
                .iter()
                .enumerate()
                .filter(|(at, _)| of_masked[at / 64] >> (at % 64) & 1 == 1)
                .map(|(_, n)| u64::from(*n))
                .sum();
            for isa in InstructionSet::available() {
                let mut mask = [0; BATCH / 64];
                in_range_u32(isa, &wide, (low, high), &mut mask);
                assert_eq!(mask, of_wide, "{isa:?}");
                let mut mask = [0; BATCH / 64];
                in_range_u16(isa, &narrow, (low16, high16), &mut mask);
                assert_eq!(mask, of_narrow, "{isa:?}");
                let mut mask = [0; BATCH / 64];
                masked_in_range(isa, &wide, keep, (low, high), &mut mask);
                assert_eq!(mask, of_masked, "{isa:?}");
                assert_eq!(sum(isa, &small, &mask), total, "{isa:?}");
                let mut mask = [0; BATCH / 64];
                either_in_range_u32(isa, &wide, &small, (low, high), &mut mask);
                assert_eq!(mask, of_either, "{isa:?}");
                let mut mask = [0; BATCH / 64];
                either_in_range_u16(isa, &narrow, &other_narrow, (low16, high16), &mut mask);
                assert_eq!(mask, of_either_narrow, "{isa:?}");
            }
        }
    }
}
