//! The files of sources: rules, and what lies beside them. Archives are read into memory; no path of theirs is ever opened.

use super::super::files::MAX_FILE;
use super::selection::Glob;
use flate2::read::MultiGzDecoder;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Files beside rules that are written beside the merged file.
pub const BESIDE: [&str; 4] =
    ["classification.config", "reference.config", "sid-msg.map", "threshold.config"];

/// First bytes of files of GNU zip.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Where the header of an archive of tar says that it is one, and what it says.
const TAR: (usize, &[u8]) = (257, b"ustar");
/// First bytes of archives of ZIP.
const ZIP: &[u8] = b"PK\x03\x04";

/// A file of a source.
pub struct SourceFile {
    /// Its path, or within an archive its path there.
    pub name: String,
    /// What it has.
    pub bytes: Vec<u8>,
}

/// The files of all sources, in their order.
#[derive(Default)]
pub struct SourceFiles {
    /// Rule files.
    pub rules: Vec<SourceFile>,
    /// Files of [`BESIDE`].
    pub beside: Vec<SourceFile>,
}

/// How sources are read.
pub struct Reader<'r> {
    /// Names of files that are left out.
    pub ignored: Vec<Glob>,
    /// The merged file, which is no source although it may lie in the directory of one.
    pub output: &'r Path,
    /// Bytes that may still be read, unpacked.
    pub room: u64,
    /// What was read.
    pub files: SourceFiles,
}

impl Reader<'_> {
    /// Reads a source.
    ///
    /// # Errors
    /// It cannot be read, is damaged, has no rule file, or is larger than what may be read.
    pub fn read(&mut self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return self.directory(path);
        }
        let packed = weir_files::read_named(Path::new(""), path, MAX_FILE)?;
        let unpacked = match packed.starts_with(GZIP) {
            true => self.unpacked(&packed)?,
            false => packed,
        };
        if is_tar(&unpacked) {
            return self.archive(&unpacked);
        }
        self.room = self.room.checked_sub(unpacked.len() as u64).ok_or_else(too_large)?;
        self.keep(path.display().to_string(), unpacked)
    }

    /// The rule files of a directory by name, and those beside them.
    fn directory(&mut self, path: &Path) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path)? {
            found.push(entry?.path());
        }
        found.retain(|file| self.is_wanted(file) && !is_one(file, self.output));
        found.sort();
        let before = self.files.rules.len();
        for file in found {
            let limit = self.room.min(MAX_FILE);
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
            let bytes = weir_files::read_named(Path::new(""), &file, limit).map_err(named)?;
            self.room = self.room.saturating_sub(bytes.len() as u64);
            self.keep(file.display().to_string(), bytes)?;
        }
        self.some_since(before, "the directory has no file *.rules")
    }

    /// The files of an archive.
    fn archive(&mut self, unpacked: &[u8]) -> io::Result<()> {
        let damaged = |error: io::Error| {
            io::Error::new(ErrorKind::InvalidData, format!("the archive is damaged: {error}"))
        };
        let before = self.files.rules.len();
        let mut archive = tar::Archive::new(unpacked);
        for entry in archive.entries().map_err(damaged)? {
            let entry = entry.map_err(damaged)?;
            let name = PathBuf::from(String::from_utf8_lossy(&entry.path_bytes()).into_owned());
            if !entry.header().entry_type().is_file() || !self.is_wanted(&name) {
                continue;
            }
            let size = entry.size();
            let mut bytes = Vec::new();
            entry.take(self.room.saturating_add(1)).read_to_end(&mut bytes).map_err(damaged)?;
            self.room = self.room.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
            if bytes.len() as u64 != size {
                return Err(damaged(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    format!("{} is truncated", name.display()),
                )));
            }
            self.keep(name.display().to_string(), bytes)?;
        }
        self.some_since(before, "the archive has no file *.rules")
    }

    /// What is packed. It may not be more than what may still be read.
    fn unpacked(&self, packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(packed).take(self.room.saturating_add(1)).read_to_end(&mut unpacked).map_err(
            |error| io::Error::new(error.kind(), format!("the packed file is truncated or damaged: {error}")),
        )?;
        if unpacked.len() as u64 > self.room { Err(too_large()) } else { Ok(unpacked) }
    }

    /// Whether a file of a directory or of an archive is read.
    fn is_wanted(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_rules = file.extension().is_some_and(|ending| ending == "rules");
        (is_rules && !self.ignored.iter().any(|glob| glob.matches(&name))) || BESIDE.contains(&&*name)
    }

    fn keep(&mut self, name: String, bytes: Vec<u8>) -> io::Result<()> {
        if bytes.starts_with(ZIP) {
            return Err(io::Error::new(ErrorKind::InvalidData, "archives of ZIP are not read"));
        }
        let is_beside =
            Path::new(&name).file_name().is_some_and(|last| BESIDE.iter().any(|one| last == *one));
        let files = if is_beside { &mut self.files.beside } else { &mut self.files.rules };
        files.push(SourceFile { name, bytes });
        Ok(())
    }

    fn some_since(&self, before: usize, otherwise: &str) -> io::Result<()> {
        match self.files.rules.len() > before {
            true => Ok(()),
            false => Err(io::Error::new(ErrorKind::NotFound, otherwise)),
        }
    }
}

fn is_tar(file: &[u8]) -> bool {
    let (at, magic) = TAR;
    file.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

/// Whether two paths lead to one file.
fn is_one(file: &Path, other: &Path) -> bool {
    matches!((file.canonicalize(), other.canonicalize()), (Ok(file), Ok(other)) if file == other)
}

fn too_large() -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, "the sources are larger, unpacked, than --max-unpacked allows")
}
