//! Salvages capture files that a crash or a full disk has truncated.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weir_files::Part;
use weir_wire::PacketBuf;

use super::name::Rotate;
use crate::file::{ByteSource, Compression, Files, Input, ReadError, ReadOptions};

/// The result of [`repair`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Repair {
    /// Packets in the file.
    pub packets: u64,
    /// Bytes of whole records that were kept, before compression.
    pub kept: u64,
    /// Whether the file was changed.
    pub changed: bool,
}

/// Truncates a capture file to its longest valid prefix, so that every reader accepts it. A complete file is not
/// changed. A compressed file is decompressed as far as possible and rewritten under a temporary name, which then
/// replaces it.
///
/// # Errors
///
/// The file cannot be read or written, or not even its file header is complete.
pub fn repair(path: &Path) -> Result<Repair, ReadError> {
    let mut files = Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default())?;
    let (mut chunk, mut packets) = (PacketBuf::default(), 0);
    let kept = loop {
        match files.fill(&mut chunk) {
            Ok(true) => packets += chunk.slots.len() as u64,
            Ok(false) => return Ok(Repair { packets, kept: files.position(), changed: false }),
            Err(ReadError::Truncated { offset, .. } | ReadError::Corrupt { offset, .. }) if offset > 0 => {
                // A record may begin before the offset at which a compressed member is corrupt.
                break offset.min(files.position());
            }
            Err(error) => return Err(error),
        }
    };
    let compression = files.describe().next().map(|info| info.compression).unwrap_or_default();
    let cut = match compression {
        Compression::None => OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(kept)),
        _ => rewrite(path, kept),
    };
    match cut {
        Ok(()) => Ok(Repair { packets, kept, changed: true }),
        Err(source) => {
            let input = path.display().to_string();
            Err(ReadError::Io { input, offset: kept, packets, source: source.into() })
        }
    }
}

/// Repairs an unfinished file, a [`Part`], and renames it to its final name. Returns that name and the result. If a
/// file with that name exists, both files are kept.
///
/// # Errors
///
/// The errors of [`repair`]; the name is not that of an unfinished file; the final name is taken.
pub fn salvage(part: &Path) -> Result<(PathBuf, Repair), ReadError> {
    let refused = |source: io::Error| {
        let input = part.display().to_string();
        ReadError::Open { input, source: source.into() }
    };
    let Some(path) = weir_files::part_of(part) else {
        let text = "expected a name like .NAME.0123456789abcdef.part";
        return Err(refused(io::Error::new(io::ErrorKind::InvalidInput, text)));
    };
    let repaired = repair(part)?;
    // Unlike rename(2), link(2) does not replace an existing file.
    fs::hard_link(part, &path).and_then(|()| fs::remove_file(part)).map_err(refused)?;
    Ok((path, repaired))
}

/// Salvages the files that killed writers of `pattern` have left, so that another writer does not take their names.
/// Each is truncated to its whole records and renamed to `NAME.1`, or with the next free number. A file without
/// packets is removed. A file of a running writer is left alone.
pub fn salvage_leftovers(pattern: &Path, rotate: &Rotate) -> Vec<Result<(PathBuf, Repair), ReadError>> {
    let is_meant = |path: &Path| super::name::may_be_named(pattern, rotate, path);
    // A missing folder has no files, and the writer reports it.
    let parts = weir_files::leftovers_like(pattern, is_meant).unwrap_or_default();
    parts.iter().filter_map(|part| salvage_beside(part).transpose()).collect()
}

/// Salvages one part. `None` if it has no packets, or another process salvages it.
fn salvage_beside(part: &Path) -> Result<Option<(PathBuf, Repair)>, ReadError> {
    let Ok(held) = File::open(part) else { return Ok(None) };
    if matches!(held.try_lock(), Err(fs::TryLockError::WouldBlock)) {
        return Ok(None);
    }
    let refused = |source: io::Error| {
        let input = part.display().to_string();
        ReadError::Open { input, source: source.into() }
    };
    let is_empty = held.metadata().is_ok_and(|data| data.len() == 0);
    let repaired = if is_empty { None } else { Some(repair(part)?) };
    let Some(repaired) = repaired.filter(|repaired| repaired.packets > 0) else {
        fs::remove_file(part).map_err(refused)?;
        return Ok(None);
    };
    let Some(path) = weir_files::part_of(part) else { return Ok(None) };
    let mut number = 1;
    let saved = loop {
        let mut name = path.clone().into_os_string();
        name.push(format!(".{number}"));
        let name = PathBuf::from(name);
        match fs::hard_link(part, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(refused(error)),
            Ok(()) => break name,
        }
    };
    fs::remove_file(part).map_err(refused)?;
    Ok(Some((saved, repaired)))
}

/// Rewrites the first `left` bytes of a compressed file.
fn rewrite(path: &Path, mut left: u64) -> io::Result<()> {
    let (mut bytes, compression) = ByteSource::new(File::open(path)?, None)?;
    let mut part = Part::create(path)?;
    let mut block = Vec::new();
    while left > 0 {
        block.clear();
        let max = usize::try_from(left).unwrap_or(usize::MAX).min(1 << 20);
        if bytes.read(&mut block, max)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= block.len() as u64;
        part.file().write_all(&super::outfile::pack(&block, compression)?)?;
    }
    part.finish()
}
