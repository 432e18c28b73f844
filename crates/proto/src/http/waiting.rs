//! What waits on a connection for the rest of its response, in the order of the requests.

use std::collections::VecDeque;

/// What can wait: a transaction.
pub(super) trait Waits {
    /// Its identifier. Those that follow each other have consecutive ones.
    fn id(&self) -> u32;

    /// Its memory in bytes.
    fn memory(&self) -> usize;
}

/// Transactions without a complete response.
///
/// Their memory is asked for with each request and each chunk, and there may be hundreds: so it is counted once for those
/// that do not change any more, and only the two that are written to, one by each side, are looked at again.
pub(super) struct Waiting<T> {
    queue: VecDeque<T>,
    /// Memory in bytes of all transactions but those that are open.
    settled: usize,
    /// The identifiers of those that were changed last.
    open: [u32; 2],
}

impl<T: Waits> Waiting<T> {
    pub(super) const fn new() -> Self {
        Self { queue: VecDeque::new(), settled: 0, open: [u32::MAX; 2] }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.queue.front()
    }

    pub(super) fn back(&self) -> Option<&T> {
        self.queue.back()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.queue.iter()
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.queue.get(self.place(id)?)
    }

    /// The transaction, to be changed.
    pub(super) fn open(&mut self, id: u32) -> Option<&mut T> {
        let place = self.place(id)?;
        if !self.open.contains(&id) {
            let [older, newer] = self.open;
            self.open = [newer, id];
            self.settled += self.get(older).map_or(0, T::memory);
            self.settled -= self.get(id).map_or(0, T::memory);
        }
        self.queue.get_mut(place)
    }

    /// Applies to each transaction a change that leaves its memory as it is.
    pub(super) fn mark(&mut self, change: impl FnMut(&mut T)) {
        self.queue.iter_mut().for_each(change);
    }

    pub(super) fn push(&mut self, transaction: T) {
        // Usually there is only one.
        self.queue.reserve_exact(usize::from(self.queue.is_empty()));
        self.settled += transaction.memory();
        self.queue.push_back(transaction);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let first = self.queue.pop_front()?;
        if !self.open.contains(&first.id()) {
            self.settled -= first.memory();
        }
        Some(first)
    }

    /// Memory of the transactions in bytes.
    pub(super) fn held(&self) -> usize {
        let open = self.open.iter().filter_map(|id| self.get(*id));
        let held = self.settled + open.map(T::memory).sum::<usize>();
        debug_assert_eq!(held, self.queue.iter().map(T::memory).sum::<usize>());
        held
    }

    /// Memory of the queue in bytes.
    pub(super) fn memory(&self) -> usize {
        self.held() + (self.queue.capacity() - self.queue.len()) * size_of::<T>()
    }

    fn place(&self, id: u32) -> Option<usize> {
        let first = self.queue.front()?.id();
        Some(id.checked_sub(first)? as usize)
    }
}
