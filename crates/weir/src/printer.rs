//! Standard output behind a bounded queue. If the reader stops reading, lines are shed and counted, and no packet is
//! lost.

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, TrySendError};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of texts in the queue.
const QUEUE: usize = 256;
/// Maximum time that the last texts wait for a reader.
const PATIENCE: Duration = Duration::from_secs(3);

/// Prints on a separate thread.
pub struct Printer {
    to: Sender<String>,
    thread: JoinHandle<io::Result<()>>,
    shed: u64,
}

impl Printer {
    /// Starts the thread. With `flush`, each text is flushed. Sets `gone` when the reader has closed the pipe.
    pub fn start(flush: bool, gone: Option<Arc<AtomicBool>>) -> Printer {
        let (to, from) = crossbeam_channel::bounded(QUEUE);
        let work = move || {
            let printed = print(&from, flush);
            if let (Err(error), Some(gone)) = (&printed, gone)
                && error.kind() == io::ErrorKind::BrokenPipe
            {
                gone.store(true, Ordering::Relaxed);
            }
            printed
        };
        Printer { to, thread: std::thread::spawn(work), shed: 0 }
    }

    /// Prints a text if the queue has room for it.
    pub fn offer(&mut self, text: String) {
        if let Err(TrySendError::Full(_)) = self.to.try_send(text) {
            self.shed += 1;
        }
    }

    /// Prints an important text: waits a few seconds for room in the queue.
    pub fn insist(&mut self, text: String) {
        if let Err(SendTimeoutError::Timeout(_)) = self.to.send_timeout(text, PATIENCE) {
            self.shed += 1;
        }
    }

    /// Waits for the queued texts to be printed, a few seconds at most. Returns the number of texts that were shed.
    ///
    /// # Errors
    /// Standard output could not be written; a closed pipe is not an error.
    pub fn finish(self) -> io::Result<u64> {
        let Printer { to, thread, shed } = self;
        drop(to);
        let end = std::time::Instant::now() + PATIENCE;
        while !thread.is_finished() {
            if std::time::Instant::now() > end {
                // The thread is blocked in a write that its reader does not take; it ends with the process.
                return Ok(shed + 1);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        match thread.join() {
            Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(shed),
        }
    }
}

/// Prints a text, regardless of the speed of its reader, until a signal sets `interrupted`. A closed pipe is not an
/// error.
///
/// # Errors
/// Standard output could not be written.
pub fn print_until(text: String, interrupted: &AtomicBool) -> io::Result<()> {
    let begun_interrupted = interrupted.load(Ordering::Relaxed);
    let end = std::time::Instant::now() + PATIENCE;
    let thread = std::thread::spawn(move || {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    });
    while !thread.is_finished() {
        // A run that was interrupted before also prints its summary, if the reader takes it in time.
        let over = if begun_interrupted {
            std::time::Instant::now() > end
        } else {
            interrupted.load(Ordering::Relaxed)
        };
        if over {
            // The thread is blocked in its write and ends with the process.
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    match thread.join() {
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn print(from: &Receiver<String>, flush: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for text in from {
        out.write_all(text.as_bytes())?;
        if flush || from.is_empty() {
            out.flush()?;
        }
    }
    out.flush()
}
