//! Files that are written under a random name until they are complete.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::mode::Mode;

/// Hexadecimal digits of the random part of a name.
const DIGITS: usize = 16;
/// Number of names to try. A name with 64 random bits is in use only if an attacker has guessed it.
const TRIES: usize = 8;

/// A file `dir/.NAME.RANDOM.part` that is renamed to `dir/NAME` when it is complete.
///
/// The file is always new: creation fails instead of following a link or opening an existing file. The file is locked
/// (flock(2)) until the value is dropped, so that [`leftovers`] does not mistake it for the file of a killed process.
#[derive(Debug)]
pub struct Part {
    file: File,
    written: PathBuf,
    path: PathBuf,
}

impl Part {
    /// Creates the part of the file `path`. If `path` is a symbolic link, the link's target is replaced later.
    ///
    /// # Errors
    /// The folder does not exist or is not writable.
    pub fn create(path: &Path) -> io::Result<Part> {
        let path = target(path);
        let mut tried = 0;
        loop {
            let written = part_name(&path, RandomState::new().hash_one(tried));
            match make(&written) {
                Ok(file) => return Ok(Part { file, written, path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < TRIES => tried += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// The file, opened for writing.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The temporary name, under which the file is written.
    pub fn written(&self) -> &Path {
        &self.written
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a file with the final name exists. [`Part::finish`] then waits for the disk.
    pub fn replaces(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }

    /// Renames the file to its final name. If that replaces a file, this one is synchronised to disk first.
    ///
    /// # Errors
    /// The file cannot be synchronised or renamed; the part remains.
    pub fn finish(self) -> io::Result<()> {
        put_in_place(&self.written, &self.path)
    }

    /// Renames the file to `path` instead of the name given to [`Part::create`].
    ///
    /// # Errors
    /// The errors of [`Part::finish`].
    pub fn finish_as(self, path: &Path) -> io::Result<()> {
        put_in_place(&self.written, path)
    }

    /// The file and its temporary name, for a writer that closes and reopens the file. Call [`put_in_place`] to finish
    /// it.
    pub fn into_file(self) -> (File, PathBuf) {
        (self.file, self.written)
    }

    /// Removes the file.
    pub fn discard(self) {
        // `leftovers` finds a file that could not be removed.
        let _ = fs::remove_file(&self.written);
    }
}

fn make(written: &Path) -> io::Result<File> {
    let options = &mut OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(Mode::PRIVATE.bits());
    let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(written)?;
    crate::give_mode(&file)?;
    // A file system may lack locks. The file may then be mistaken for a leftover, which must not stop a capture.
    let _ = file.try_lock();
    Ok(file)
}

/// The target of a symbolic link, or else the path itself.
pub fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The directory of a file: `.` for a name without one.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn part_name(path: &Path, random: u64) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{random:0DIGITS$x}.part"))
}

/// The final name of a part; `None` if `part` is not the name of a part. Includes names of the form `.NAME.part`,
/// which earlier versions used.
pub fn part_of(part: &Path) -> Option<PathBuf> {
    let name = part.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(".part")?;
    let random = |end: &&str| end.len() == DIGITS && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = match name.rsplit_once('.') {
        Some((name, end)) if random(&end) => name,
        _ => name,
    };
    (!name.is_empty()).then(|| part.with_file_name(name))
}

/// The parts of `path` that killed processes have left, sorted by name.
///
/// # Errors
/// The folder cannot be read.
pub fn leftovers(path: &Path) -> io::Result<Vec<PathBuf>> {
    let path = target(path);
    leftovers_like(&path, |of| of == path)
}

/// The parts that killed processes have left in the folder of `path`, if `is_meant` holds for their final names. A
/// sequence of file names may have several.
///
/// # Errors
/// The folder cannot be read.
pub fn leftovers_like(path: &Path, is_meant: impl Fn(&Path) -> bool) -> io::Result<Vec<PathBuf>> {
    let path = target(path);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let part = path.with_file_name(entry.file_name());
        let is_meant = part_of(&part).is_some_and(|of| is_meant(&of));
        if is_meant && entry.file_type()?.is_file() && !is_locked(&part) {
            found.push(part);
        }
    }
    found.sort();
    Ok(found)
}

fn is_locked(part: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(part);
    opened.is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

/// Renames a complete file to `path`. If that replaces a file, the new file is synchronised to disk before the rename,
/// and the folder after it.
///
/// # Errors
/// The file cannot be synchronised or renamed; it keeps its present name.
pub fn put_in_place(written: &Path, path: &Path) -> io::Result<()> {
    let replaces = fs::symlink_metadata(path).is_ok();
    if replaces {
        File::open(written)?.sync_all()?;
    }
    fs::rename(written, path)?;
    if replaces {
        sync_folder(path)?;
    }
    Ok(())
}

/// Synchronises the folder of a file, and thereby the file's name, to disk.
///
/// # Errors
/// The folder cannot be opened, or the disk fails.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(directory_of(path))?.sync_all() {
        // Some file systems do not synchronise folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_part_has_a_random_name_and_is_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        let mut one = Part::create(&path).unwrap();
        let two = Part::create(&path).unwrap();
        assert_ne!(one.written(), two.written());
        assert_eq!(part_of(one.written()), Some(path.clone()));
        assert_eq!(fs::metadata(one.written()).unwrap().permissions().mode() & 0o7777, 0o600);
        one.file().write_all(b"one").unwrap();
        one.finish().unwrap();
        two.discard();
        assert_eq!(names(folder.path()), ["x.pcap"]);
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn an_existing_link_or_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "keep").unwrap();
        let link = folder.path().join(".x.0.part");
        symlink(&victim, &link).unwrap();
        for path in [&link, &victim] {
            assert_eq!(make(path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&victim).unwrap(), b"keep");
    }

    #[test]
    fn a_symbolic_link_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        let mut part = Part::create(&link).unwrap();
        part.file().write_all(b"new").unwrap();
        part.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
    }

    #[test]
    fn leftovers_of_killed_processes_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let live = Part::create(&path).unwrap();
        for name in
            [".x.0123456789abcdef.part", ".x.part", ".y.0123456789abcdef.part", ".x.0123.part", "x.part"]
        {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found: Vec<_> = leftovers(&path).unwrap();
        let expected = [".x.0123456789abcdef.part", ".x.part"].map(|name| folder.path().join(name));
        assert_eq!(found, expected, "not {}", live.written().display());
        let written = live.written().to_owned();
        drop(live);
        assert!(leftovers(&path).unwrap().contains(&written));
        for (name, path) in [("x.part", None), (".part", None), (".x.0123.part", Some("x.0123"))] {
            assert_eq!(part_of(Path::new(name)), path.map(PathBuf::from), "{name}");
        }
    }
}
