//! Limits of what one holder may have at once, so that none takes what is there for all.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts what each holder has.
pub struct Shares<K> {
    /// The most that all may have at once.
    total: usize,
    /// The most that one may.
    each: usize,
    taken: Mutex<Taken<K>>,
}

struct Taken<K> {
    all: usize,
    by: HashMap<K, usize>,
}

/// Why there is no share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Full {
    /// This holder has all that one may have.
    Own,
    /// All holders together have all that there is.
    All,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// So many for all, and so many for each.
    pub fn new(total: usize, each: usize) -> Arc<Self> {
        let taken = Mutex::new(Taken { all: 0, by: HashMap::new() });
        Arc::new(Self { total, each, taken })
    }

    /// One more for a holder, as long as what is returned lives.
    ///
    /// # Errors
    /// That the holder, or all of them, have as many as they may.
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
        // Nothing between the two counts can panic.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of what is shared; dropping it returns it.
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
            // Holders that have nothing take no memory.
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
    fn none_has_more_than_its_share_and_all_come_back() {
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
