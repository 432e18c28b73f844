//! The key of the hashes of a store's distinct counts.
//!
//! Counts of two runs can be merged only if their hashes are equal, so the key outlives the run that began the store. Whoever
//! knows it can send packets that bias the counts: its file is for the owner alone, whatever mode the other files of the store
//! have, and no answer, export or message has it.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::StoreError;
use weir_files::Part;

/// Its file in the folder of the store: 32 hexadecimal digits.
const FILE: &str = "seed";
/// Bytes of the file that are read.
const LIMIT: u64 = 64;

/// The key of the store in a folder; `None` without a file of one. A file that holds something else counts as none: later counts
/// have another key, and answers over both give bounds.
pub fn kept(folder: &Path) -> Option<u128> {
    let text = weir_files::read_named(folder, Path::new(FILE), LIMIT).ok()?;
    let text = std::str::from_utf8(&text).ok()?.trim_end();
    let is_whole = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// Keeps the key of the run that writes the store, unless the store has one.
///
/// # Errors
///
/// The file cannot be written.
pub(crate) fn keep(folder: &Path, seed: u128) -> Result<(), StoreError> {
    if kept(folder).is_some() {
        return Ok(());
    }
    let path = folder.join(FILE);
    let write = || {
        let mut part = Part::create(&path)?;
        part.file().set_permissions(Permissions::from_mode(0o600))?;
        part.file().write_all(format!("{seed:032x}\n").as_bytes())?;
        part.finish()
    };
    write().map_err(|error| StoreError::File { path: path.clone(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_stays_and_is_for_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(kept(folder.path()), None);
        for seed in [u128::MAX - 5, 7] {
            keep(folder.path(), seed).unwrap();
            assert_eq!(kept(folder.path()), Some(u128::MAX - 5));
        }
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for damaged in ["", "12", "+0000000000000000000000000000001", "zz"] {
            std::fs::write(folder.path().join(FILE), damaged).unwrap();
            assert_eq!(kept(folder.path()), None, "{damaged:?}");
        }
        keep(folder.path(), 7).unwrap();
        assert_eq!(kept(folder.path()), Some(7));
    }
}
