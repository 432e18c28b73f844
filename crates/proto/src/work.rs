//! Counts the work of parsers, in tests only: a test compares it for inputs of two lengths.

#[cfg(test)]
thread_local!(static DONE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

/// Counts bytes that are searched, compared or copied, and entries of a list that is searched. Does nothing in the
/// program.
///
/// Every loop over input, over bytes kept from earlier chunks, or over a list that grows with the input calls it.
#[inline(always)]
pub(crate) fn looked_at(steps: usize) {
    #[cfg(test)]
    DONE.set(DONE.get() + steps as u64);
    #[cfg(not(test))]
    let _ = steps;
}

/// Returns the steps of this thread since the last call and resets them.
#[cfg(test)]
pub(crate) fn take() -> u64 {
    DONE.replace(0)
}
