//! Files that are replaced as a whole at each interval.

use crate::{Existing, OutputContext};
use std::io;
use std::path::PathBuf;

/// Least time in nanoseconds between two replacements in a run over files, which may have thousands of intervals in a second.
const PAUSE: u64 = 1_000_000_000;

/// A file that is replaced as a whole.
///
/// On a link it is replaced at each interval. A run over files replaces it at most once a second, and at its end: what it then
/// has does not depend on the times between.
pub(crate) struct Replaced {
    path: PathBuf,
    pause: u64,
    clock: Option<fn() -> u64>,
    /// When it was replaced last.
    written: Option<u64>,
    /// Whether there is a newer text.
    waits: bool,
}

impl Replaced {
    /// The file of that name in the directory of a run.
    pub fn new(context: &OutputContext, name: &str) -> Self {
        let pause = if context.existing == Existing::Replace { PAUSE } else { 0 };
        Self { path: context.directory.join(name), pause, clock: context.clock, written: None, waits: false }
    }

    /// Replaces the file with the text of an interval, unless that has to wait.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn interval(&mut self, text: impl FnOnce() -> String) -> io::Result<()> {
        self.waits = true;
        let now = self.clock.map(|clock| clock());
        let is_soon = self.written.zip(now).is_some_and(|(written, now)| now < written + self.pause);
        if is_soon {
            return Ok(());
        }
        self.written = now;
        self.finish(text)
    }

    /// Replaces the file with the last text, if that has waited.
    ///
    /// # Errors
    ///
    /// As [`Replaced::interval`].
    pub fn finish(&mut self, text: impl FnOnce() -> String) -> io::Result<()> {
        if self.waits {
            weir_files::replace(&self.path, text().as_bytes())?;
            self.waits = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

    #[test]
    fn a_run_over_files_replaces_a_file_once_a_second_and_at_its_end() {
        for (existing, expected) in
            [(Existing::Replace, ["1", "1", "3", "3", "4"]), (Existing::Continue, ["1", "2", "3", "4", "4"])]
        {
            let folder = tempfile::tempdir().unwrap();
            let clock: Option<fn() -> u64> = Some(|| NOW.get());
            let directory = folder.path().to_owned();
            let context = OutputContext { directory, existing, clock, ..OutputContext::default() };
            let mut file = Replaced::new(&context, "state");
            let mut found = Vec::new();
            for (at, text) in [(0, "1"), (PAUSE - 1, "2"), (PAUSE, "3"), (PAUSE + 1, "4")] {
                NOW.set(at);
                file.interval(|| text.to_owned()).unwrap();
                found.push(std::fs::read_to_string(folder.path().join("state")).unwrap());
            }
            file.finish(|| "4".to_owned()).unwrap();
            found.push(std::fs::read_to_string(folder.path().join("state")).unwrap());
            assert_eq!(found, expected);
        }
    }
}
