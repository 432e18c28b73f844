//! Records of protocols in each format: the common parts.
//!
//! A format reads the tables of `weir-proto` and refers to no protocol by name. Files are opened with their first
//! record, so that a protocol without records has no file.

pub mod json;

use crate::OutputContext;
use crate::file::{Frame, LineFile};
use std::collections::BTreeMap;
use std::io;

/// Files that are opened at their first use.
pub struct Files {
    context: OutputContext,
    files: BTreeMap<String, LineFile>,
    /// Files that could not be opened, until reported; they are not tried again.
    failed: BTreeMap<String, Option<io::Error>>,
}

impl Files {
    /// Without any files.
    pub fn new(context: &OutputContext) -> Self {
        Self { context: context.clone(), files: BTreeMap::new(), failed: BTreeMap::new() }
    }

    /// The file of that name; `frame` is the head and tail of such files. `None` if it cannot be opened, which
    /// [`Files::flush`] reports.
    pub fn get(&mut self, name: &str, frame: impl FnOnce() -> Frame) -> Option<&mut LineFile> {
        if !self.files.contains_key(name) {
            if self.failed.contains_key(name) {
                return None;
            }
            match LineFile::framed(&self.context, name, frame()) {
                Ok(file) => {
                    self.files.insert(name.to_owned(), file);
                }
                Err(error) => {
                    self.failed.insert(name.to_owned(), Some(error));
                }
            }
        }
        self.files.get_mut(name)
    }

    /// Applies a function to every file. Returns the first error.
    pub fn each(&mut self, mut work: impl FnMut(&mut LineFile) -> io::Result<()>) -> io::Result<()> {
        let failed = self.failed.values_mut().find_map(Option::take);
        let mut result = failed.map_or(Ok(()), Err);
        for file in self.files.values_mut() {
            let done = work(file);
            result = result.and(done);
        }
        result
    }

    /// Finishes the files, and begins new ones under the same names; `now` is in nanoseconds since 1970.
    ///
    /// # Errors
    ///
    /// The old file cannot be finished or the new one cannot be opened.
    pub fn roll(&mut self, now: u64) -> io::Result<()> {
        self.each(|file| file.roll(now))
    }

    /// Writes the waiting lines.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or could not be opened earlier.
    pub fn flush(&mut self) -> io::Result<()> {
        self.each(LineFile::flush)
    }
}
