//! Counts the work of parsers, in tests only (feature `work`): tests compare it for inputs of two lengths, and bound it
//! for hostile inputs.

#[cfg(any(test, feature = "work"))]
thread_local!(static DONE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

/// Counts bytes that are searched, compared or copied, and entries of a list that is searched. Does nothing in the
/// program.
///
/// Every loop over input, over bytes kept from earlier chunks, or over a list that grows with the input calls it.
#[inline(always)]
pub(crate) fn looked_at(steps: usize) {
    #[cfg(any(test, feature = "work"))]
    DONE.set(DONE.get() + steps as u64);
    #[cfg(not(any(test, feature = "work")))]
    let _ = steps;
}

/// Returns the steps of this thread since the last call and resets them.
#[cfg(any(test, feature = "work"))]
pub fn take() -> u64 {
    DONE.replace(0)
}
