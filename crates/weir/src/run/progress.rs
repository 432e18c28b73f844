//! The progress bar of a run over files: rate and remaining time. Shown on a terminal if the run takes longer than two
//! seconds.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_capture::Files;

/// Duration from which a run shows the bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// The progress bar, which workers update as they read.
pub struct Progress {
    started: Instant,
    /// Whether standard error is a terminal.
    visible: bool,
    /// What is under way, before the bar.
    label: &'static str,
    bar: Mutex<Option<ProgressBar>>,
}

impl Progress {
    /// A bar that is shown later if `wanted` and if standard error is a terminal.
    pub fn new(wanted: bool) -> Progress {
        let visible = wanted && std::io::stderr().is_terminal();
        Progress { started: Instant::now(), visible, label: "", bar: Mutex::new(None) }
    }

    /// The bar of a second pass.
    pub fn again(wanted: bool) -> Progress {
        Progress { label: "second pass  ", ..Progress::new(wanted) }
    }

    /// Updates the bar with the position of reading.
    pub fn watch(&self, files: &Files) {
        if !self.visible || self.started.elapsed() < PATIENCE {
            return;
        }
        let progress = files.progress();
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.get_or_insert_with(|| begin(progress.total, self.label)).set_position(progress.bytes);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

fn begin(total: Option<u64>, label: &'static str) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{prefix}{bar:30} {percent}% of {total_bytes}  {bytes_per_sec}  {eta} left",
        ),
        // The length of a pipe is unknown.
        None => (ProgressBar::new_spinner(), "{prefix}{spinner} {bytes}  {bytes_per_sec}  {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix(label);
    bar
}
