//! Memory that queries take while they count.

use std::fmt;
use std::sync::Arc;

/// Bytes that are borrowed at once.
const PIECE: usize = 64 << 10;

/// Memory that several queries share.
pub trait Lender: Send + Sync {
    /// Lends bytes, if there are as many.
    fn lend(&self, bytes: usize) -> bool;
    /// Takes lent bytes back.
    fn give_back(&self, bytes: usize);
}

/// The memory of one query. It is given back when this is dropped. A query may borrow all that its lender has.
#[derive(Default)]
pub struct Loan {
    /// Without one there is no limit.
    lender: Option<Arc<dyn Lender>>,
    lent: usize,
    used: usize,
    is_refused: bool,
}

impl Loan {
    /// No memory yet.
    pub fn of(lender: Option<Arc<dyn Lender>>) -> Self {
        Self { lender, ..Self::default() }
    }

    /// Takes bytes. Returns whether they are there. After a refusal it gives nothing more, so that what an answer leaves out
    /// does not depend on the size of what comes later.
    pub fn take(&mut self, bytes: usize) -> bool {
        let Some(lender) = &self.lender else { return true };
        if self.is_refused {
            return false;
        }
        let missing = (self.used + bytes).saturating_sub(self.lent);
        if missing > 0 {
            let wanted = missing.next_multiple_of(PIECE);
            if !lender.lend(wanted) {
                self.is_refused = true;
                return false;
            }
            self.lent += wanted;
        }
        self.used += bytes;
        true
    }

    /// Whether something was refused.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(lender) = &self.lender {
            lender.give_back(self.lent);
        }
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("lent", &self.lent).field("used", &self.used).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A lender of some bytes.
    #[derive(Debug)]
    pub(crate) struct Purse(pub Mutex<usize>);

    impl Lender for Purse {
        fn lend(&self, bytes: usize) -> bool {
            let mut left = self.0.lock().unwrap();
            let rest = left.checked_sub(bytes);
            *left = rest.unwrap_or(*left);
            rest.is_some()
        }

        fn give_back(&self, bytes: usize) {
            *self.0.lock().unwrap() += bytes;
        }
    }

    #[test]
    fn what_is_lent_comes_back_and_a_refusal_is_final() {
        let purse = Arc::new(Purse(Mutex::new(3 * PIECE)));
        let left = || *purse.0.lock().unwrap();
        let mut one = Loan::of(Some(purse.clone()));
        assert!(one.take(PIECE) && one.take(1));
        assert_eq!(left(), PIECE);
        let mut other = Loan::of(Some(purse.clone()));
        assert!(other.take(PIECE));
        assert!(one.take(PIECE - 1));
        assert!(!one.take(1) && !one.take(0) && one.is_refused());
        drop(other);
        assert_eq!(left(), PIECE);
        assert!(!one.take(1));
        drop(one);
        assert_eq!(left(), 3 * PIECE);
        assert!(Loan::default().take(usize::MAX / 2));
    }
}
