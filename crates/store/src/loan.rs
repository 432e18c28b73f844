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
        (self.lender.is_none() || !self.is_refused) && self.take_again(bytes)
    }

    /// As [`Loan::take`], but after a refusal it gives what is lent and free, so that released bytes serve again. The lender
    /// is not asked any more then.
    pub fn take_again(&mut self, bytes: usize) -> bool {
        let has_room = self.has(bytes);
        if has_room && self.lender.is_some() {
            self.used += bytes;
        }
        has_room
    }

    /// Whether bytes are free, which are borrowed if need be. They are not taken.
    pub fn has(&mut self, bytes: usize) -> bool {
        let Some(lender) = &self.lender else { return true };
        let missing = (self.used + bytes).saturating_sub(self.lent);
        if missing > 0 && !self.is_refused {
            let wanted = missing.next_multiple_of(PIECE);
            self.is_refused = !lender.lend(wanted);
            self.lent += if self.is_refused { 0 } else { wanted };
        }
        self.used + bytes <= self.lent
    }

    /// Makes taken bytes free. They stay lent.
    pub fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Gives the free pieces back to the lender: others may need them before this is dropped.
    pub fn give_back(&mut self) {
        if let Some(lender) = &self.lender {
            let free = self.lent - self.used;
            let whole = free - free % PIECE;
            lender.give_back(whole);
            self.lent -= whole;
        }
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

    #[test]
    fn free_bytes_are_given_back_early() {
        let purse = Arc::new(Purse(Mutex::new(2 * PIECE)));
        let mut loan = Loan::of(Some(purse.clone()));
        assert!(loan.take(2 * PIECE));
        loan.release(PIECE + 7);
        loan.give_back();
        assert_eq!(*purse.0.lock().unwrap(), PIECE);
        assert!(loan.take(7));
        drop(loan);
        assert_eq!(*purse.0.lock().unwrap(), 2 * PIECE);
    }

    #[test]
    fn released_bytes_serve_again_without_the_lender() {
        let purse = Arc::new(Purse(Mutex::new(2 * PIECE)));
        let mut loan = Loan::of(Some(purse.clone()));
        assert!(loan.take_again(2 * PIECE) && !loan.take_again(1));
        *purse.0.lock().unwrap() += PIECE;
        loan.release(10);
        assert!(!loan.take_again(11) && loan.take_again(4) && loan.has(6) && loan.take_again(6));
        assert!(!loan.take_again(1) && !loan.has(1));
        loan.release(10);
        assert!(!loan.take(1), "what is taken for good is refused for good");
        assert_eq!(*purse.0.lock().unwrap(), PIECE);
        drop(loan);
        assert_eq!(*purse.0.lock().unwrap(), 3 * PIECE);
        let mut free = Loan::default();
        free.release(5);
        assert!(free.has(usize::MAX) && free.take_again(usize::MAX) && free.take(usize::MAX));
    }
}
