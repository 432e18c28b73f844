//! Temporary folders that are removed when their process ends, even by a kill.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::mode::Mode;

/// Name of the file in each folder that its process keeps locked.
const LOCK: &str = ".lock";
/// Name of this file until it is locked.
const UNLOCKED: &str = ".unlocked";

/// A folder of mode 0700, by default in the folder for temporary files, removed when the value is dropped. The folder of a killed
/// process remains until the next [`TemporaryFolder::create`] removes it: a lock marks the folders in use.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Creates a folder whose name begins with `prefix`, and removes the folders with that prefix that killed
    /// processes of this user have left.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create(prefix: &str) -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir(), prefix, None)
    }

    /// Creates a folder that belongs to another user. Removes leftovers of that user, as [`TemporaryFolder::create`]
    /// does for this one. Needs the right to change owners.
    ///
    /// # Errors
    /// The folder cannot be created, or its owner cannot be changed.
    pub fn create_for(prefix: &str, user: u32, group: u32) -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir(), prefix, Some((user, group)))
    }

    /// Creates a folder in another folder than the one for temporary files, so that its files can be renamed into it. Removes
    /// leftovers there, as [`TemporaryFolder::create`] does.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create_within(place: &Path, prefix: &str) -> io::Result<Self> {
        Self::create_in(place, prefix, None)
    }

    fn create_in(place: &Path, prefix: &str, owner: Option<(u32, u32)>) -> io::Result<Self> {
        sweep(place, prefix, owner.map(|(user, _)| user));
        let mut random = RandomState::new().hash_one(0_u8);
        let path = loop {
            let path = place.join(format!("{prefix}{random:016x}"));
            match DirBuilder::new().mode(Mode::PRIVATE.folder()).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => random = random.wrapping_add(1),
                Err(error) => return Err(error),
            }
        };
        let made = Self::lock(&path, owner);
        made.inspect_err(|_| drop(fs::remove_dir_all(&path)))
    }

    fn lock(path: &Path, owner: Option<(u32, u32)>) -> io::Result<Self> {
        fs::set_permissions(path, Permissions::from_mode(Mode::PRIVATE.folder()))?;
        // A lock file that is not locked yet would be that of a killed process to another that starts now: it gets its name when
        // it is locked.
        let (unlocked, lock) = (path.join(UNLOCKED), path.join(LOCK));
        let file =
            OpenOptions::new().write(true).create_new(true).mode(Mode::PRIVATE.bits()).open(&unlocked)?;
        file.try_lock()?;
        fs::rename(&unlocked, &lock)?;
        if let Some((user, group)) = owner {
            for path in [&lock, path] {
                lchown(path, Some(user), Some(group))?;
            }
        }
        Ok(Self { path: path.to_owned(), _lock: file })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // The next process removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of processes that have ended. A folder that cannot be removed does not prevent the start.
fn sweep(place: &Path, prefix: &str, user: Option<u32>) {
    let me = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry
            .metadata()
            .is_ok_and(|data| data.is_dir() && (data.uid() == me || Some(data.uid()) == user));
        let name = entry.file_name();
        let is_named = name.to_str().and_then(|name| name.strip_prefix(prefix)).is_some_and(is_random);
        if is_ours && is_named && is_abandoned(&entry.path().join(LOCK)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_random(end: &str) -> bool {
    end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a lock file exists and no process holds it. A folder without a lock file is being created or was not made
/// by this module.
fn is_abandoned(lock: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(lock);
    opened.is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_removed_on_drop() {
        let place = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::create_in(place.path(), "weir-", None).unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
        fs::write(path.join("weir.db"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    /// Processes that start at the same moment remove no folder of each other.
    #[test]
    fn folders_that_are_being_created_are_not_removed() {
        let place = tempfile::tempdir().unwrap();
        let work = || {
            for _ in 0..300 {
                let folder = TemporaryFolder::create_in(place.path(), "weir-", None).unwrap();
                assert!(folder.path().join(LOCK).exists());
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    }

    #[test]
    fn the_next_process_removes_folders_of_killed_processes() {
        let place = tempfile::tempdir().unwrap();
        let make = || TemporaryFolder::create_in(place.path(), "weir-", None).unwrap();
        let (live, killed) = (make(), make());
        let left = killed.path().to_owned();
        // This is the state after a kill: the lock is released, the folder remains.
        let copy = place.path().join("copy");
        fs::rename(&left, &copy).unwrap();
        drop(killed);
        fs::rename(&copy, &left).unwrap();
        for name in ["weir-notes", "other-0123456789abcdef", "weir-0123456789abcdef"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        let next = make();
        assert!(!left.exists() && live.path().exists() && next.path().exists());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 5, "folders without a lock are kept");
    }
}
