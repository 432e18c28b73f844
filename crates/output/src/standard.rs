//! Standard output as the destination of a log's lines.

use crate::destination::{Destination, Existing};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of blocks that wait for the reader, of at most 64 KiB each unless there was no room before.
const QUEUE: usize = 64;
/// Maximum time that the last blocks wait for a reader that has stopped reading, in a run that is to end.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time between two attempts while the queue is full.
const PAUSE: Duration = Duration::from_millis(1);

/// Standard output, written by a thread, so that a slow reader does not hold a live run.
pub struct StandardOutput {
    /// `None` after the end.
    to: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// Whether the run waits for its reader. A live run cannot: its lines wait, and are lost and counted beyond a limit.
    waits: bool,
    /// Set when the run is to end, also by the thread when the reader has closed the pipe.
    stop: Arc<AtomicBool>,
    /// Whether the reader has closed the pipe. What follows has no reader and is not lost.
    gone: Arc<AtomicBool>,
}

impl StandardOutput {
    /// Starts the thread. A run over files waits for its reader, a live run does not. `stop` ends the run, and is set when the
    /// reader has closed the pipe.
    ///
    /// # Errors
    ///
    /// Standard output is closed.
    pub fn start(existing: Existing, stop: Option<Arc<AtomicBool>>) -> io::Result<StandardOutput> {
        // The lines of a live run hold the lock of `io::stdout`, even if none are printed.
        let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let (stop, gone) = (stop.unwrap_or_default(), Arc::<AtomicBool>::default());
        let (to, from) = sync_channel::<Vec<u8>>(QUEUE);
        let flags = (Arc::clone(&stop), Arc::clone(&gone));
        let work = move || {
            let written = from.into_iter().try_for_each(|block| out.write_all(&block));
            match written {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    flags.1.store(true, Ordering::Relaxed);
                    flags.0.store(true, Ordering::Relaxed);
                    Ok(())
                }
                other => other,
            }
        };
        let thread = Some(std::thread::spawn(work));
        Ok(StandardOutput { to: Some(to), thread, waits: existing == Existing::Replace, stop, gone })
    }

    /// Waits for the end of the thread.
    fn join(&mut self) -> io::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            _ => Ok(()),
        }
    }

    /// What `put` has to say of `bytes` once the thread has ended.
    fn ended(&mut self, bytes: usize) -> io::Result<usize> {
        self.to = None;
        self.join()?;
        if self.gone.load(Ordering::Relaxed) { Ok(bytes) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

impl Destination for StandardOutput {
    /// Takes all bytes or none.
    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut block = bytes.to_vec();
        let mut ends: Option<Instant> = None;
        loop {
            if self.gone.load(Ordering::Relaxed) {
                return Ok(bytes.len());
            }
            let Some(to) = &self.to else { return self.ended(bytes.len()) };
            match to.try_send(block) {
                Ok(()) => return Ok(bytes.len()),
                Err(TrySendError::Disconnected(_)) => return self.ended(bytes.len()),
                Err(TrySendError::Full(back)) => block = back,
            }
            if self.stop.load(Ordering::Relaxed) {
                ends.get_or_insert_with(|| Instant::now() + PATIENCE);
            }
            if !self.waits || ends.is_some_and(|end| Instant::now() > end) {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "its reader is too slow"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Nothing to do: `put` takes no part of a block.
    fn cut(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn is_at(&self, _: &Path) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn end(&mut self) -> io::Result<()> {
        self.to = None;
        let mut ends: Option<Instant> = None;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if !self.waits || self.stop.load(Ordering::Relaxed) {
                ends.get_or_insert_with(|| Instant::now() + PATIENCE);
            }
            if ends.is_some_and(|end| Instant::now() > end) {
                // The thread is blocked in a write that its reader does not take; it ends with the process.
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "its reader did not take the last lines",
                ));
            }
            std::thread::sleep(PAUSE);
        }
        self.join()
    }
}
