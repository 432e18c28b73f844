//! Files with secrets. They are refused if other users can read them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum size of a file of tokens, users or a key, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Mode bits that others than the owner may not have.
const OTHERS: u32 = 0o077;
/// Mode bits not allowed for a file of root. One group, such as that of a service, may read it, because only root can
/// change the group's members.
const OTHERS_OF_ROOT: u32 = 0o037;

/// Reads a file with secrets. The mode is checked on the open file, so that it cannot change in between.
///
/// # Errors
/// The file cannot be read, or others can read it. The message has the command that corrects the mode.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let file = open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if data.is_file() {
        check(path, data.mode(), data.uid())?;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{shown}: larger than {} MiB", MAX_BYTES >> 20));
    }
    Ok(bytes)
}

/// Opens a file that the command line or weir.toml names. Only a descriptor that whoever started the program handed to it, as
/// `--token-file <(pass weir)` does, may be a pipe.
///
/// # Errors
/// The file cannot be opened, or is no regular file.
pub fn open(path: &Path) -> std::io::Result<File> {
    match path.parent() {
        Some(folder) if folder == Path::new("/dev/fd") => File::open(path),
        _ => weir_files::open_named(Path::new(""), path),
    }
}

fn check(path: &Path, mode: u32, owner: u32) -> Result<(), String> {
    let refused = if owner == 0 { OTHERS_OF_ROOT } else { OTHERS };
    if mode & refused == 0 {
        return Ok(());
    }
    let (shown, mode) = (path.display(), mode & 0o777);
    Err(format!("{shown}: other users can read or change this file (mode {mode:04o}): chmod 600 {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_and_a_group_of_root_may_read_a_file() {
        let path = Path::new("/etc/weir/tokens");
        for mode in [0o600, 0o400, 0o700, 0o100600] {
            assert!(check(path, mode, 0).is_ok() && check(path, mode, 1000).is_ok(), "{mode:o}");
        }
        for mode in [0o640, 0o440] {
            assert!(check(path, mode, 0).is_ok() && check(path, mode, 1000).is_err(), "{mode:o}");
        }
        for mode in [0o644, 0o604, 0o660, 0o602, 0o601, 0o777] {
            for owner in [0, 1000] {
                let error = check(path, mode, owner).unwrap_err();
                assert!(error.ends_with("chmod 600 /etc/weir/tokens"), "{error}");
            }
        }
    }
}
