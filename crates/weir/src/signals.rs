//! Signal handlers, and the flags that they set.

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;
use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that end a run after everything received is written. The second one ends it at once.
const ENDING: [c_int; 4] = [SIGINT, SIGTERM, SIGQUIT, SIGUSR1];

/// Flags that signals set.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Whether the run is to end. `-c` and the screen set it too.
    pub stop: Arc<AtomicBool>,
    /// Whether a signal has requested the end.
    pub interrupted: Arc<AtomicBool>,
    /// Whether logs are to be rotated.
    pub hangup: Arc<AtomicBool>,
    /// Whether the configuration is to be read again.
    pub reload: Arc<AtomicBool>,
}

impl Signals {
    /// Registers the handlers. SIGHUP rotates logs if the run has any (`rolls`), and reads the configuration again if a
    /// live run has one (`reloads`). Otherwise it ends the run, unless it is ignored as under nohup(1). Repeated SIGXFSZ
    /// does not end the run at once, because each write beyond the limit sends it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take(&self, rolls: bool, reloads: bool) -> Result<(), String> {
        self.register(rolls, reloads).map_err(|error| format!("cannot handle signals: {error}"))
    }

    fn register(&self, rolls: bool, reloads: bool) -> io::Result<()> {
        let ends_on_hangup = !rolls && !reloads && !is_ignored(SIGHUP);
        for signal in ENDING.into_iter().chain(ends_on_hangup.then_some(SIGHUP)) {
            // Registered before the flag is set, because otherwise the first signal would count as the second.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&self.interrupted))?;
        }
        for signal in ENDING.into_iter().chain([SIGXFSZ]).chain(ends_on_hangup.then_some(SIGHUP)) {
            flag::register(signal, Arc::clone(&self.interrupted))?;
            flag::register(signal, Arc::clone(&self.stop))?;
        }
        for (is_used, flag) in [(rolls, &self.hangup), (reloads, &self.reload)] {
            if is_used {
                flag::register(SIGHUP, Arc::clone(flag))?;
            }
        }
        Ok(())
    }

    /// Whether the run is to end.
    pub fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a signal has requested the end.
    pub fn has_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Whether a signal was ignored when the program started.
fn is_ignored(signal: c_int) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (signal - 1) != 0
}

/// Makes the program end silently when the reader of its output closes the pipe: for commands that only print.
pub fn end_with_reader() {
    // If the handler cannot be registered, printing reports the closed pipe.
    let _ = flag::register_conditional_shutdown(SIGPIPE, 0, Arc::new(AtomicBool::new(true)));
}
