//! Commands that wait for their responses, and calls that wait for the answer that is read later.

use super::{Fid, Request};
use std::collections::BTreeMap;

/// What a response repeats of its command.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Key {
    /// The number of an exchange and its command.
    Message(u64, u16),
    /// The pipe of a call and its number there.
    Call(Fid, u32),
}

/// Maximum number of commands without a response: a server grants 512 credits by default, Windows 8,192.
pub(super) const MAX_WAITING: usize = 1024;

/// The commands in the order of their arrival.
#[derive(Default)]
pub(super) struct Waiting {
    numbers: BTreeMap<Key, u64>,
    requests: BTreeMap<u64, Request>,
    next: u64,
}

impl Waiting {
    /// Adds a command. Returns the one with the same key, whose response was lost.
    pub fn add(&mut self, request: Request) -> Option<Request> {
        let before = self.take(request.key);
        self.numbers.insert(request.key, self.next);
        self.requests.insert(self.next, request);
        self.next += 1;
        before
    }

    /// Removes and returns the command with a key.
    pub fn take(&mut self, key: Key) -> Option<Request> {
        let number = self.numbers.remove(&key)?;
        self.requests.remove(&number)
    }

    /// Removes and returns the oldest command, if there are as many as possible.
    pub fn make_room(&mut self) -> Option<Request> {
        if self.requests.len() < MAX_WAITING {
            return None;
        }
        let (_, oldest) = self.requests.pop_first()?;
        self.numbers.remove(&oldest.key);
        Some(oldest)
    }

    /// Removes and returns the command of a kind with the lowest number.
    pub fn take_of(&mut self, command: u16) -> Option<Request> {
        crate::work::looked_at(self.numbers.len());
        let is = |key: &&Key| matches!(key, Key::Message(_, of) if *of == command);
        let key = *self.numbers.keys().find(is)?;
        self.take(key)
    }

    /// All commands.
    pub fn into_requests(self) -> impl Iterator<Item = Request> {
        self.requests.into_values()
    }

    pub fn len(&self) -> usize {
        self.requests.len()
    }
}
