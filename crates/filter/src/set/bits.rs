//! Sets of numbers as bits of words.

/// Calls with the number of each bit.
#[inline]
pub(super) fn each(words: &[u64], mut see: impl FnMut(usize)) {
    for (word, &bits) in words.iter().enumerate() {
        let mut bits = bits;
        while bits != 0 {
            see(word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}
