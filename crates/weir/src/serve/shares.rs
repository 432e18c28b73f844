//! Limits on concurrent use per holder, so that one holder cannot take all of a shared resource.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts the shares of each holder.
pub struct Shares<K> {
    /// Maximum number of shares of all holders together.
    total: usize,
    /// Maximum number of shares of one holder.
    each: usize,
    taken: Mutex<Taken<K>>,
}

struct Taken<K> {
    all: usize,
    by: HashMap<K, usize>,
}

/// The reason why no share is free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Full {
    /// This holder has reached its limit.
    Own,
    /// All holders together have reached the limit.
    All,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Limits of `total` shares for all holders and `each` for one.
    pub fn new(total: usize, each: usize) -> Arc<Self> {
        let taken = Mutex::new(Taken { all: 0, by: HashMap::new() });
        Arc::new(Self { total, each, taken })
    }

    /// Takes a share for a holder. It is returned when the value is dropped.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn take(self: &Arc<Self>, holder: K) -> Result<Share<K>, Full> {
        let mut taken = self.lock();
        if taken.by.get(&holder).is_some_and(|have| *have >= self.each) {
            return Err(Full::Own);
        }
        if taken.all >= self.total {
            return Err(Full::All);
        }
        taken.all += 1;
        *taken.by.entry(holder.clone()).or_default() += 1;
        Ok(Share { of: Arc::clone(self), holder })
    }

    fn lock(&self) -> MutexGuard<'_, Taken<K>> {
        // No code between the changes of the two counts can panic.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One share, returned when it is dropped.
pub struct Share<K: Clone + Eq + Hash> {
    of: Arc<Shares<K>>,
    holder: K,
}

impl<K: Clone + Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(have) = taken.by.get_mut(&self.holder) {
            *have -= 1;
            // Holders without shares are removed.
            if *have == 0 {
                taken.by.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_limited_and_returned() {
        let shares = Shares::new(5, 3);
        let mut held: Vec<_> = (0..3).map(|_| shares.take("a").ok().unwrap()).collect();
        assert_eq!(shares.take("a").err(), Some(Full::Own));
        held.extend((0..2).map(|_| shares.take("b").ok().unwrap()));
        assert_eq!(shares.take("b").err(), Some(Full::All));
        assert_eq!(shares.take("c").err(), Some(Full::All));
        held.remove(0);
        held.push(shares.take("c").ok().unwrap());
        assert_eq!(shares.take("a").err(), Some(Full::All));
        drop(held);
        assert!(shares.lock().by.is_empty() && shares.lock().all == 0);
    }
}
