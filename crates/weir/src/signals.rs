//! Signals: which of them end a run, and how a run learns of it.

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;
use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that end a run when everything that was received is written. The second of them ends it at once.
const ENDING: [c_int; 4] = [SIGINT, SIGTERM, SIGQUIT, SIGUSR1];

/// What signals have asked of a run.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// The run is to end. It is set by `-c` and by the screen, too.
    pub stop: Arc<AtomicBool>,
    /// A signal has asked for that.
    pub interrupted: Arc<AtomicBool>,
    /// Logs are to be rolled.
    pub hangup: Arc<AtomicBool>,
}

impl Signals {
    /// Takes the signals. SIGHUP rolls logs where there are any (`rolls`), and else ends the run, unless it is ignored as
    /// by nohup(1). SIGXFSZ ends the run however often it comes: each write beyond the limit sends it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn take(&self, rolls: bool) -> Result<(), String> {
        self.register(rolls).map_err(|error| format!("cannot handle signals: {error}"))
    }

    fn register(&self, rolls: bool) -> io::Result<()> {
        let ends_on_hangup = !rolls && !is_ignored(SIGHUP);
        for signal in ENDING.into_iter().chain(ends_on_hangup.then_some(SIGHUP)) {
            // Before the flag is set, or the first would be the second.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&self.interrupted))?;
        }
        for signal in ENDING.into_iter().chain([SIGXFSZ]).chain(ends_on_hangup.then_some(SIGHUP)) {
            flag::register(signal, Arc::clone(&self.interrupted))?;
            flag::register(signal, Arc::clone(&self.stop))?;
        }
        if rolls {
            flag::register(SIGHUP, Arc::clone(&self.hangup))?;
        }
        Ok(())
    }

    /// Whether the run is to end.
    pub fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a signal has asked for that.
    pub fn has_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Whether a signal was ignored when the program began.
fn is_ignored(signal: c_int) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (signal - 1) != 0
}

/// From now on the program ends without a word when the reader of its output has gone: for commands that only print.
pub fn end_with_reader() {
    // Where that cannot be had, printing says what is wrong.
    let _ = flag::register_conditional_shutdown(SIGPIPE, 0, Arc::new(AtomicBool::new(true)));
}
