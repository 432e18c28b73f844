//! Records of protocols in each format: the common parts.
//!
//! A format reads the tables of `weir-proto` and refers to no protocol by name. Files are opened with their first
//! record, so that a protocol without records has no file.

pub mod json;

use crate::OutputContext;
use crate::file::{Frame, LineFile};
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// Files that are opened at their first use.
pub struct Files {
    context: OutputContext,
    /// In the order of their first use.
    files: Vec<LineFile>,
    /// The place of each file; `None` for one that could not be opened, which is not tried again.
    names: BTreeMap<String, Option<usize>>,
    /// The places of the files of [`Files::of`].
    stems: Vec<(&'static str, Option<usize>)>,
    /// Errors of files that could not be opened, until reported.
    failed: VecDeque<io::Error>,
}

impl Files {
    /// Without any files.
    pub fn new(context: &OutputContext) -> Self {
        let (files, names, stems, failed) = (Vec::new(), BTreeMap::new(), Vec::new(), VecDeque::new());
        Self { context: context.clone(), files, names, stems, failed }
    }

    /// The file of that name; `frame` is the head and tail of such files. `None` if it cannot be opened, which
    /// [`Files::flush`] reports.
    pub fn get(&mut self, name: &str, frame: impl FnOnce() -> Frame) -> Option<&mut LineFile> {
        let at = self.place(name, frame)?;
        self.files.get_mut(at)
    }

    /// As [`Files::get`], of a file whose name follows from a constant, such as the name of a table. Finding it again takes no
    /// text.
    pub fn of(
        &mut self,
        stem: &'static str,
        name: impl FnOnce(&str) -> String,
        frame: impl FnOnce() -> Frame,
    ) -> Option<&mut LineFile> {
        // Addresses are compared in place of bytes. A text at two addresses finds its file by its name.
        let known = self.stems.iter().find(|(known, _)| std::ptr::eq(*known, stem));
        let at = match known {
            Some((_, at)) => *at,
            None => {
                let at = self.place(&name(stem), frame);
                self.stems.push((stem, at));
                at
            }
        };
        self.files.get_mut(at?)
    }

    /// The place of a file, which is opened if it is not known.
    fn place(&mut self, name: &str, frame: impl FnOnce() -> Frame) -> Option<usize> {
        if let Some(at) = self.names.get(name) {
            return *at;
        }
        let at = match LineFile::framed(&self.context, name, frame()) {
            Ok(file) => {
                self.files.push(file);
                Some(self.files.len() - 1)
            }
            Err(error) => {
                self.failed.push_back(error);
                None
            }
        };
        self.names.insert(name.to_owned(), at);
        at
    }

    /// Applies a function to every file. Returns the first error.
    pub fn each(&mut self, mut work: impl FnMut(&mut LineFile) -> io::Result<()>) -> io::Result<()> {
        let mut result = self.failed.pop_front().map_or(Ok(()), Err);
        for at in self.names.values().flatten() {
            if let Some(file) = self.files.get_mut(*at) {
                let done = work(file);
                result = result.and(done);
            }
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
