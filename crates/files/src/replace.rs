//! Atomic replacement of one file by another.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use crate::part::{Part, target};

/// Replaces an output file atomically: a reader sees the old content or the new content.
///
/// # Errors
/// The file cannot be written. The error names the path; the old file remains.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    exchange(path, content, |_| Ok(()))
}

/// Replaces a file that belongs to a user, such as a configuration. The new file has the mode and the owner of the old
/// one, and its group if the process may give files to that group; else the rights of the group are those of all others. A symbolic link is
/// kept and its target replaced.
///
/// # Errors
/// The file cannot be written or cannot get the same owner. The error names the path; the old file remains.
pub fn rewrite(path: &Path, content: &[u8]) -> io::Result<()> {
    exchange(path, content, |part| match fs::metadata(path) {
        Ok(old) => give_owner(part.file(), &old, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    })
}

fn exchange(
    path: &Path,
    content: &[u8],
    prepare: impl FnOnce(&mut Part) -> io::Result<()>,
) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut part = Part::create(path).map_err(named)?;
    let written = prepare(&mut part).and_then(|()| part.file().write_all(content));
    // The part would only occupy disk space.
    let name = part.written().to_owned();
    written.and_then(|()| part.finish()).map_err(|error| {
        let _ = fs::remove_file(name);
        named(error)
    })
}

fn give_owner(file: &File, old: &Metadata, path: &Path) -> io::Result<()> {
    let new = file.metadata()?;
    if new.uid() != old.uid() {
        fchown(file, Some(old.uid()), None).map_err(|error| {
            let (owner, me) = (old.uid(), new.uid());
            let text = format!(
                "the file belongs to user {owner} and would belong to user {me} ({error}); run `chown {me} {}` first",
                target(path).display()
            );
            io::Error::new(error.kind(), text)
        })?;
    }
    let mut mode = old.permissions().mode() & 0o7777;
    if new.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
        // A user gives files to its own groups only. The new group may do no more with the file than all others.
        mode &= !0o2070 | (mode & 0o007) << 3;
    }
    // The mode is set after the owner, because a change of the owner clears some of its bits.
    file.set_permissions(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn replace_makes_private_files_and_rewrite_keeps_mode_and_owner() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("weir.toml"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o664)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&real, Some(65534), Some(65534)).unwrap();
        }
        symlink(&real, &link).unwrap();
        rewrite(&link, b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(mode_of(&real), 0o664);
        if is_root {
            let data = fs::metadata(&real).unwrap();
            assert_eq!((data.uid(), data.gid()), (65534, 65534));
        }
        replace(&real, b"output").unwrap();
        assert_eq!((mode_of(&real), fs::read(&real).unwrap()), (0o600, b"output".to_vec()));
        rewrite(&folder.path().join("fresh.toml"), b"x").unwrap();
        assert_eq!(mode_of(&folder.path().join("fresh.toml")), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no part is left");
    }

    #[test]
    fn an_error_names_the_path_and_leaves_no_part() {
        let folder = tempfile::tempdir().unwrap();
        let error = replace(&folder.path().join("no/x"), b"").unwrap_err().to_string();
        assert!(error.contains("no/x: "), "{error}");
        fs::create_dir(folder.path().join("taken")).unwrap();
        assert!(replace(&folder.path().join("taken"), b"").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
