//! Blocks of a file that several threads read at once, and parse one after another.
//!
//! Where a record begins is known only when all before it were parsed. Parsing takes little of the time: read(2), which copies the
//! bytes, takes nearly all of it, and need not wait. Each thread reads a block and parses it when its turn has come, so that it
//! finds the bytes in its own cache. A block begins with room for the incomplete record before it, so that its packets need not
//! move.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::read::read_at;

/// Bytes of room before a block. A longer incomplete record is copied together with the block.
pub(crate) const ROOM: usize = 16 << 10;
/// Time for which a thread waits until blocks before its own were taken.
const PATIENCE: Duration = Duration::from_millis(10);

/// The next blocks of the file that is being read. Clones share them.
#[derive(Clone, Default)]
pub struct ReadAhead(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A block was read, or taken.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The file, which is regular and not compressed.
    file: Option<Arc<File>>,
    /// Length of the file in bytes when its first block was read.
    end: u64,
    /// Offset of the first byte that no thread reads or has read.
    next: u64,
    /// Bytes of a block.
    length: usize,
    /// In the order of the file, without gaps.
    blocks: VecDeque<Block>,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
}

struct Block {
    at: u64,
    /// [`ROOM`] bytes without meaning, and then the bytes of the file; `None` while they are being read.
    bytes: Option<Vec<u8>>,
}

impl ReadAhead {
    /// Maximum number of blocks that are read or wait: more would push those in use out of the caches.
    pub const BLOCKS: usize = 2;

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the next block of the file, and waits until all blocks before it were taken. Returns `false` without reading if
    /// nothing is known to follow, or enough blocks wait.
    pub fn read(&self) -> bool {
        let mut state = self.lock();
        let Some(file) = state.file.clone() else { return false };
        if state.blocks.len() >= Self::BLOCKS || state.next >= state.end || state.length == 0 {
            return false;
        }
        let (at, length) = (state.next, state.length);
        state.next += length as u64;
        state.blocks.push_back(Block { at, bytes: None });
        let mut bytes = state.spare.pop().unwrap_or_default();
        drop(state);
        bytes.resize(ROOM, 0);
        let count = read_at(&file, &mut bytes, length, at);
        let mut state = self.lock();
        let is_it = |block: &Block| block.at == at && block.bytes.is_none();
        let place = state.blocks.iter().position(is_it).filter(|_| state.is_of(&file));
        match (place, count) {
            (Some(place), Ok(1..)) => {
                if let Some(block) = state.blocks.get_mut(place) {
                    block.bytes = Some(bytes);
                }
            }
            // The thread that needs the block reads it again, and meets the end of the file or the error itself.
            (Some(place), _) => {
                state.blocks.truncate(place);
                state.next = at;
                state.keep(bytes);
            }
            // Reading has gone on elsewhere.
            (None, _) => state.keep(bytes),
        }
        self.0.changed.notify_all();
        // The order only keeps a block with the thread that has read it.
        let is_later = |state: &mut State| state.blocks.iter().skip(1).any(|block| block.at == at);
        let waited = self.0.changed.wait_timeout_while(state, PATIENCE, is_later);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        true
    }

    /// Forgets the blocks: reading has ended, or goes on elsewhere.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.file = None;
        state.drop_blocks();
        self.0.changed.notify_all();
    }

    /// The block at an offset, if it was read, or is being read, which is waited for. Without it the caller reads up to `length`
    /// bytes at that offset itself, and blocks of that length are read from there on.
    pub(crate) fn take(&self, file: &Arc<File>, at: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.lock();
        while state.is_of(file)
            && let Some(front) = state.blocks.front_mut().filter(|front| front.at == at)
        {
            if let Some(bytes) = front.bytes.take() {
                state.blocks.pop_front();
                self.0.changed.notify_all();
                return Ok(Some(bytes));
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.is_of(file) {
            state.end = file.metadata()?.len();
            state.file = Some(Arc::clone(file));
        }
        state.drop_blocks();
        state.length = length;
        state.next = at + length as u64;
        self.0.changed.notify_all();
        Ok(None)
    }

    /// Takes a buffer for reuse.
    pub(crate) fn reuse(&self, bytes: Vec<u8>) {
        self.lock().keep(bytes);
    }
}

impl State {
    fn is_of(&self, file: &Arc<File>) -> bool {
        self.file.as_ref().is_some_and(|of| Arc::ptr_eq(of, file))
    }

    fn drop_blocks(&mut self) {
        for block in std::mem::take(&mut self.blocks) {
            block.bytes.into_iter().for_each(|bytes| self.keep(bytes));
        }
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < ReadAhead::BLOCKS {
            self.spare.push(bytes);
        }
    }
}
