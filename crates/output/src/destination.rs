//! Where lines go: a file, or a stream.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Treatment of an existing file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Existing {
    /// For runs over files: the existing file is replaced when the new one is complete. Until then the new one is a
    /// `.NAME.RANDOM.part`.
    #[default]
    Replace,
    /// For live runs, whose logs are read while they grow: the file is appended to. An incomplete last line is removed
    /// first.
    Continue,
}

/// The destination of lines.
pub(crate) trait Destination: Send {
    /// As [`Write::write`].
    fn put(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Truncates to a length; the next bytes follow directly.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Whether the file at that path is this one.
    fn is_at(&self, path: &Path) -> bool;
    /// Whether it is a stream, which has no name and never begins anew.
    fn is_stream(&self) -> bool {
        false
    }
    /// Waits until what was put has left.
    ///
    /// # Errors
    ///
    /// Something that was put could not be written.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opened for appending.
impl Destination for File {
    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn is_at(&self, path: &Path) -> bool {
        let (Ok(mine), Ok(theirs)) = (self.metadata(), std::fs::metadata(path)) else { return false };
        (mine.dev(), mine.ino()) == (theirs.dev(), theirs.ino())
    }
}
