//! Waiting for inputs that may be idle forever: pipes, terminals, devices.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum time before the flag is checked again, in milliseconds: a thread that the signal does not interrupt sees it
/// at most this late.
const WAIT: libc::c_int = 100;

/// The user has ended reading: not an error of the input.
#[derive(Debug, thiserror::Error)]
#[error("reading was stopped")]
pub(crate) struct Stopped;

impl Stopped {
    /// Whether `error` is this value.
    pub(crate) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
    }
}

/// [`Stopped`] once `stop` is set, even if bytes can be read: a writer that never pauses must not prevent the stop.
/// Otherwise the error of poll(2).
#[allow(unsafe_code)]
pub(crate) fn wait(file: &File, stop: &AtomicBool) -> io::Result<()> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other(Stopped));
        }
        let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one pollfd, as the count says, and outlives the call.
        match unsafe { libc::poll(&raw mut poll, 1, WAIT) } {
            0 => {}
            1.. => return Ok(()),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
