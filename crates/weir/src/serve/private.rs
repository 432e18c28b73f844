//! Files with secrets: refused when other users can read them, before anything of them is used.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The most bytes that a file of tokens, users or a key has.
const MAX_BYTES: u64 = 4 << 20;
/// What nobody but the owner may have.
const OTHERS: u32 = 0o077;
/// A file of root may be readable by one group, as that of a service: root alone can change who is in it.
const OTHERS_OF_ROOT: u32 = 0o037;

/// Reads a file with secrets. Its mode is that of the file that was opened, so that it cannot change in between.
///
/// # Errors
/// That it cannot be read, or that others can, with the command that mends it.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let file = File::open(path).map_err(failed)?;
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
    fn only_the_owner_and_a_group_of_root() {
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
