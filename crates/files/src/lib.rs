//! Files that hold captured data: their permissions, and the safe replacement of one file by another.
//!
//! This crate creates every file and folder that Weir writes, and opens the files that texts name ([`read_named`]). For what is
//! written, three rules hold everywhere:
//!
//! * A file has mode 0600 and a folder 0700, regardless of the umask, unless [`set_mode`] sets another mode.
//! * A [`Part`] is a file that is written before it gets its final name. It is a new file under a random name: creating
//!   it neither follows a link nor opens an existing file.
//! * A file that replaces another is synchronised to disk before it gets the name, and the folder afterwards: after a
//!   power cut the name refers to the old file or to the complete new one.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! let folder = weir_files::TemporaryFolder::create("weir-example-")?;
//! weir_files::replace(&folder.path().join("mon.lite"), b"pkts: caught:1 : drops:0\n")?;
//! let part = weir_files::Part::create(&folder.path().join("x.pcap"))?;
//! assert!(part.written().exists() && !part.path().exists());
//! part.finish()?;
//! assert!(folder.path().join("x.pcap").exists());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod mode;
mod named;
mod part;
mod replace;
mod temporary;

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub use mode::{Mode, ModeError, mode, set_mode};
pub use named::{open_named, read_named};
pub use part::{Part, directory_of, leftovers, leftovers_like, part_of, put_in_place, sync_folder, target};
pub use replace::{replace, rewrite};
pub use temporary::TemporaryFolder;

/// Creates or truncates a file and opens it for writing. A symbolic link is followed.
///
/// # Errors
/// The file cannot be opened.
pub fn create(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Opens a file for reading and for appending. Writes go to the end of the file even after another process has
/// truncated it.
///
/// # Errors
/// The file cannot be opened.
pub fn append(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().read(true).append(true).create(true), path)
}

/// Opens a file for writing at any offset, and keeps its content.
///
/// # Errors
/// The file cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().write(true).create(true).truncate(false), path)
}

/// Writes two parts, one after the other: with one call in general, and without a copy.
///
/// # Errors
/// The file cannot be written.
pub fn write_both(file: &mut File, first: &[u8], second: &[u8]) -> io::Result<()> {
    let written = loop {
        match file.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => break done?,
        }
    };
    file.write_all(first.get(written..).unwrap_or_default())?;
    file.write_all(second.get(written.saturating_sub(first.len())..).unwrap_or_default())
}

/// Writes a whole file in place. Use [`replace`] for a file that other processes may read at any time.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    create(path)?.write_all(content)
}

fn private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(Mode::PRIVATE.bits()).open(path)?;
    give_mode(&file)?;
    Ok(file)
}

/// Gives an existing file the mode of the process, without opening it. A file of another owner keeps its mode.
///
/// # Errors
/// The file does not exist.
pub fn make_private(path: &Path) -> io::Result<()> {
    let data = std::fs::metadata(path)?;
    if data.is_file() && data.permissions().mode() & 0o7777 != mode().bits() {
        return may_refuse(std::fs::set_permissions(path, Permissions::from_mode(mode().bits())));
    }
    Ok(())
}

/// Gives a regular file the mode of the process. A file of another owner keeps its mode: this process may not change it.
fn give_mode(file: &File) -> io::Result<()> {
    let data = file.metadata()?;
    if !data.is_file() || data.permissions().mode() & 0o7777 == mode().bits() {
        return Ok(());
    }
    may_refuse(file.set_permissions(Permissions::from_mode(mode().bits())))
}

fn may_refuse(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::PermissionDenied { Ok(()) } else { Err(error) })
}

/// Creates a folder and its missing parents, and returns the created folders, the outermost first. An existing folder
/// keeps its mode.
///
/// # Errors
/// A folder cannot be created, or a file has its name.
pub fn make_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(Mode::PRIVATE.folder()).create(folder) {
            Ok(()) => {
                std::fs::set_permissions(folder, Permissions::from_mode(mode().folder()))?;
                made.push(folder.to_owned());
            }
            // Another process has created the folder in the meantime.
            Err(_) if folder.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn files_and_folders_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        let made = make_folders(&deep).unwrap();
        assert_eq!(made, ["a", "a/b", "a/b/c"].map(|name| folder.path().join(name)));
        assert!(made.iter().all(|folder| mode_of(folder) == 0o700));
        assert_eq!(make_folders(&deep).unwrap(), Vec::<PathBuf>::new());
        for (number, open) in [create, append, open].into_iter().enumerate() {
            let path = deep.join(number.to_string());
            open(&path).unwrap();
            assert_eq!(mode_of(&path), 0o600);
            // A file of an earlier version becomes private too.
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            open(&path).unwrap();
            assert_eq!(mode_of(&path), 0o600);
        }
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(make_folders(&folder.path().join("file/x")).is_err());
    }

    #[test]
    fn devices_keep_their_mode() {
        let before = mode_of(Path::new("/dev/null"));
        write(Path::new("/dev/null"), b"x").unwrap();
        assert_eq!(mode_of(Path::new("/dev/null")), before);
    }
}
