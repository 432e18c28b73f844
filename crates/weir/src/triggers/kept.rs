//! The files of triggers in their directories.

use std::path::Path;
use std::{fs, io};
use weir_output::zone::rfc3339;

/// A time in UTC for the name of a file, without colons: `20261129T093000.123456Z`.
pub fn stamp(time: u64) -> String {
    let text = rfc3339(time);
    let mut stamp: String = text.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    // To the microsecond: nine digits of a fraction, then Z.
    stamp.truncate("20261129T093000.123456".len());
    stamp.push('Z');
    stamp
}

/// The time in the name of a file, in nanoseconds since the epoch.
pub fn time_of(file: &str) -> Option<u64> {
    let (_, rest) = file.strip_suffix(".pcapng")?.split_once('.')?;
    let (stamp, _) = rest.split_once('Z')?;
    let time: jiff::Timestamp = format!("{stamp}Z").parse().ok()?;
    u64::try_from(time.as_nanosecond()).ok()
}

/// What is kept of the files of a trigger beside a new one.
pub struct Kept {
    /// Maximum number of files, with the new one.
    pub files: usize,
    /// Maximum bytes of the others.
    pub bytes: Option<u64>,
}

/// The files of a trigger in its directory with their bytes, oldest first.
///
/// # Errors
/// The directory cannot be read.
pub fn files_of(directory: &Path, name: &str) -> io::Result<Vec<(String, u64)>> {
    let is_it = |file: &str| {
        let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest.ends_with(".pcapng") && rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Some(file) = entry.file_name().to_str().filter(|file| is_it(file)).map(str::to_owned) else {
            continue;
        };
        // A link or a pipe of such a name was not written by Weir.
        let metadata = entry.metadata()?;
        if metadata.is_file() {
            files.push((file, metadata.len()));
        }
    }
    // Names have the time: they are in its order.
    files.sort();
    Ok(files)
}

/// Files that were removed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Removed {
    /// Their number.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Removes the oldest files of a trigger, so that there is room for one more.
///
/// # Errors
/// The directory cannot be read, or a file cannot be removed.
pub fn remove_oldest(directory: &Path, name: &str, kept: &Kept) -> io::Result<Removed> {
    let files = files_of(directory, name)?;
    let surplus = (files.len() + 1).saturating_sub(kept.files);
    let mut bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let mut removed = Removed::default();
    for (at, (file, length)) in files.iter().enumerate() {
        if at >= surplus && kept.bytes.is_none_or(|most| bytes <= most) {
            break;
        }
        fs::remove_file(directory.join(file))?;
        bytes -= length;
        removed = Removed { files: removed.files + 1, bytes: removed.bytes + length };
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_time_in_utc() {
        for (time, expected) in [
            (1_795_225_568_985_123_456, "20261121T014608.985123Z"),
            (1_795_225_568_000_000_000, "20261121T014608.000000Z"),
        ] {
            assert_eq!(stamp(time), expected);
            for name in [format!("x-y.{expected}.pcapng"), format!("x-y.{expected}-2.pcapng")] {
                assert_eq!(time_of(&name), Some(time - time % 1_000), "{name}");
            }
        }
        assert_eq!(time_of("x.2026.pcapng"), None);
    }

    #[test]
    fn the_oldest_files_of_a_trigger_leave() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["x.20260101T000000.000000Z", "x.20260102T000000.000000Z", "x.20260103T000000.000000Z-2"];
        let others = ["y.20260101T000000.000000Z.pcapng", "x.pcapng", "x.notes"];
        let names: Vec<String> = names.iter().map(|name| format!("{name}.pcapng")).collect();
        names
            .iter()
            .map(String::as_str)
            .chain(others)
            .for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        let keep = |files, bytes| remove_oldest(folder.path(), "x", &Kept { files, bytes }).unwrap().files;
        assert_eq!(keep(3, None), 1);
        let is_there = |name: &str| folder.path().join(name).exists();
        assert_eq!(names.iter().map(|name| is_there(name)).collect::<Vec<_>>(), [false, true, true]);
        // Two files of ten bytes.
        names.iter().skip(1).for_each(|name| fs::write(folder.path().join(name), "0123456789").unwrap());
        assert_eq!(keep(9, Some(20)), 0);
        assert_eq!(keep(9, Some(19)), 1);
        assert_eq!(names.iter().map(|name| is_there(name)).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(keep(1, Some(100)), 1);
        assert!(!names.iter().any(|name| is_there(name)));
        assert!(others.iter().all(|name| is_there(name)));
    }
}
