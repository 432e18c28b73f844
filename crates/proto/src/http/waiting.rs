//! The transactions of a connection that wait for the rest of their responses, in the order of their requests.

use super::transaction::Transaction;
use std::collections::VecDeque;

/// Transactions without a complete response; their identifiers are consecutive.
///
/// Their memory is asked for with each request and each chunk, and there may be hundreds: so it is counted once for those
/// that do not change any more, and only the two that are written to, one by each side, are looked at again.
pub(super) struct Waiting {
    queue: VecDeque<Transaction>,
    /// Memory in bytes of all transactions but those that are open.
    settled: usize,
    /// The identifiers of those that were changed last.
    open: [u32; 2],
}

impl Waiting {
    pub(super) const fn new() -> Self {
        Self { queue: VecDeque::new(), settled: 0, open: [u32::MAX; 2] }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn front(&self) -> Option<&Transaction> {
        self.queue.front()
    }

    pub(super) fn back(&self) -> Option<&Transaction> {
        self.queue.back()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Transaction> {
        self.queue.iter()
    }

    pub(super) fn get(&self, id: u32) -> Option<&Transaction> {
        self.queue.get(self.place(id)?)
    }

    /// The transaction, to be changed.
    pub(super) fn open(&mut self, id: u32) -> Option<&mut Transaction> {
        let place = self.place(id)?;
        if !self.open.contains(&id) {
            let [older, newer] = self.open;
            self.open = [newer, id];
            self.settled += self.get(older).map_or(0, Transaction::memory);
            self.settled -= self.get(id).map_or(0, Transaction::memory);
        }
        self.queue.get_mut(place)
    }

    /// Applies to each transaction a change that leaves its memory as it is.
    pub(super) fn mark(&mut self, change: impl FnMut(&mut Transaction)) {
        self.queue.iter_mut().for_each(change);
    }

    pub(super) fn push(&mut self, transaction: Transaction) {
        // Usually there is only one.
        self.queue.reserve_exact(usize::from(self.queue.is_empty()));
        self.settled += transaction.memory();
        self.queue.push_back(transaction);
    }

    pub(super) fn pop(&mut self) -> Option<Transaction> {
        let first = self.queue.pop_front()?;
        if !self.open.contains(&first.id) {
            self.settled -= first.memory();
        }
        Some(first)
    }

    /// Memory of the transactions in bytes.
    pub(super) fn held(&self) -> usize {
        let open = self.open.iter().filter_map(|id| self.get(*id));
        let held = self.settled + open.map(Transaction::memory).sum::<usize>();
        debug_assert_eq!(held, self.queue.iter().map(Transaction::memory).sum::<usize>());
        held
    }

    /// Memory of the queue in bytes.
    pub(super) fn memory(&self) -> usize {
        self.held() + (self.queue.capacity() - self.queue.len()) * size_of::<Transaction>()
    }

    fn place(&self, id: u32) -> Option<usize> {
        let first = self.queue.front()?.id;
        Some(id.checked_sub(first)? as usize)
    }
}
