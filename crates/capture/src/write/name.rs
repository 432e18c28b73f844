//! Names in a sequence of files, as tcpdump(1) forms them with -C, -G and -W.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use weir_wire::Time;

use super::encode::FileFormat;
use super::error::WriteError;
use crate::file::Compression;

/// When to begin a new file.
#[derive(Clone, Debug)]
pub struct Rotate {
    /// `-G`: the number of seconds after which a new file begins. The file name is then a strftime(3) pattern.
    pub seconds: Option<u64>,
    /// `-C`: a new file begins before a packet if the file has more bytes than this (before compression). tcpdump's
    /// unit is 1,000,000.
    pub bytes: Option<u64>,
    /// `-W`: with `bytes`, the number of files before the first one is overwritten; with `seconds` alone, the total
    /// number of files.
    pub files: Option<u32>,
    /// The zone of times in file names.
    pub zone: TimeZone,
}

impl Default for Rotate {
    fn default() -> Self {
        Self { seconds: None, bytes: None, files: None, zone: TimeZone::UTC }
    }
}

/// The writer's position in the sequence of files.
#[derive(Debug)]
pub(crate) struct Sequence {
    pattern: PathBuf,
    rotate: Rotate,
    /// Start of this file in whole seconds, as tcpdump counts them.
    started: u64,
    /// Number of the file in the sequence by size.
    number: u32,
    /// Number of files started by time.
    periods: u32,
}

impl Sequence {
    pub(crate) fn new(pattern: &Path, rotate: &Rotate, now: Time) -> Sequence {
        let (pattern, rotate) = (pattern.to_owned(), rotate.clone());
        Sequence { pattern, rotate, started: now.secs(), number: 0, periods: 0 }
    }

    /// Whether the file's period has ended; `Some(false)`: it has, and no other file follows.
    pub(crate) fn period_over(&mut self, now: Time) -> Option<bool> {
        let seconds = self.rotate.seconds?;
        if now.secs().saturating_sub(self.started) < seconds.max(1) {
            return None;
        }
        self.started = now.secs();
        self.periods += 1;
        self.number = 0;
        let last = self.rotate.bytes.is_none()
            && self.rotate.files.is_some_and(|files| self.periods >= files.max(1));
        Some(!last)
    }

    /// Whether the next packet belongs into the next file.
    pub(crate) fn size_over(&mut self, size: u64) -> bool {
        if self.rotate.bytes.is_none_or(|max| size <= max) {
            return false;
        }
        self.number += 1;
        if self.rotate.files.is_some_and(|files| self.number >= files.max(1)) {
            self.number = 0;
        }
        true
    }

    /// The name of the next file.
    pub(crate) fn name(&self) -> Result<PathBuf, WriteError> {
        let mut name = self.pattern.to_string_lossy().into_owned();
        if self.rotate.seconds.is_some() {
            let bad = |reason: String| WriteError::Name { pattern: name.clone(), reason };
            let second = i64::try_from(self.started).unwrap_or(i64::MAX);
            let time = Timestamp::from_second(second).map_err(|error| bad(error.to_string()))?;
            let zoned = time.to_zoned(self.rotate.zone.clone());
            name = jiff::fmt::strtime::format(&name, &zoned).map_err(|error| bad(error.to_string()))?;
        } else if self.rotate.bytes.is_none() {
            return Ok(self.pattern.clone());
        }
        let width = match (self.rotate.bytes, self.rotate.files) {
            (Some(_), Some(files)) => digits(files),
            _ => 0,
        };
        if self.number == 0 && width == 0 {
            return Ok(name.into());
        }
        // The number goes to the end of the name, but before .gz and .zst.
        let packed = [".gz", ".zst"].iter().find(|end| name.ends_with(**end)).copied().unwrap_or_default();
        let stem = name.strip_suffix(packed).unwrap_or(&name);
        Ok(format!("{stem}{:0width$}{packed}", self.number).into())
    }
}

/// Whether a pattern may have produced the name of a file: the literal parts of the name are equal.
pub(crate) fn may_be_named(pattern: &Path, rotate: &Rotate, path: &Path) -> bool {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (pattern, name) = (name(pattern), name(path));
    let packed = [".gz", ".zst"].into_iter().find(|end| pattern.ends_with(end)).unwrap_or_default();
    let Some(name) = name.strip_suffix(packed) else { return false };
    let pattern = pattern.strip_suffix(packed).unwrap_or(&pattern);
    let conversions = rotate.seconds.and(pattern.find('%').zip(pattern.rfind('%')));
    let (head, tail) = match conversions {
        Some((first, last)) => {
            // Flags, a width and the conversion letter follow the last `%`.
            let rest = pattern.get(last + 1..).unwrap_or_default();
            let is_letter = |c: char| c == '%' || c.is_ascii_alphabetic() && !matches!(c, 'E' | 'O');
            let tail = rest.find(is_letter).and_then(|at| rest.get(at + 1..)).unwrap_or_default();
            (pattern.get(..first).unwrap_or_default(), tail)
        }
        None => (pattern, ""),
    };
    let Some(rest) = name.strip_prefix(head) else { return false };
    let counted = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    let ends = |rest: &str| if conversions.is_some() { rest.ends_with(tail) } else { rest.is_empty() };
    ends(rest) || rotate.bytes.is_some() && ends(counted)
}

/// Number of digits for `files` files, counted from 0; tcpdump does not number a single file.
fn digits(files: u32) -> usize {
    let last = files.saturating_sub(1);
    if last == 0 { 0 } else { last.ilog10() as usize + 1 }
}

/// The format by name: `.gz` and `.zst` are compressed; `.pcap`, `.cap` and `.dmp` before that are classic pcap; all
/// others are pcapng.
pub(crate) fn kind(path: &Path) -> (FileFormat, Compression) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (stem, compression) = if let Some(stem) = name.strip_suffix(".gz") {
        (stem, Compression::Gzip)
    } else if let Some(stem) = name.strip_suffix(".zst") {
        (stem, Compression::Zstd)
    } else {
        (name.as_str(), Compression::None)
    };
    let classic = [".pcap", ".cap", ".dmp"].iter().any(|end| stem.ends_with(end));
    (if classic { FileFormat::Pcap } else { FileFormat::Pcapng }, compression)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rotate: Rotate, pattern: &str, steps: usize) -> Vec<String> {
        let mut sequence = Sequence::new(Path::new(pattern), &rotate, Time(0));
        (0..steps)
            .map(|_| {
                let name = sequence.name().unwrap().display().to_string();
                sequence.size_over(u64::MAX);
                name
            })
            .collect()
    }

    #[test]
    fn file_numbers_equal_those_of_tcpdump() {
        let by_size = Rotate { bytes: Some(1), ..Rotate::default() };
        assert_eq!(names(by_size.clone(), "x", 3), ["x", "x1", "x2"]);
        assert_eq!(names(by_size.clone(), "x.pcap.gz", 3), ["x.pcap.gz", "x.pcap1.gz", "x.pcap2.gz"]);
        let ring = |files| Rotate { files: Some(files), ..by_size.clone() };
        assert_eq!(names(ring(3), "x", 4), ["x0", "x1", "x2", "x0"]);
        assert_eq!(names(ring(11), "x", 2), ["x00", "x01"]);
        assert_eq!(names(ring(10), "x", 2), ["x0", "x1"]);
        assert_eq!(names(ring(1), "x", 2), ["x", "x"]);
    }

    #[test]
    fn periods_follow_the_clock_that_is_passed_in() {
        let rotate = Rotate { seconds: Some(60), files: Some(3), ..Rotate::default() };
        let at = |secs: u64| Time(secs * 1_000_000_000);
        let mut sequence = Sequence::new(Path::new("a-%H%M%S.pcap"), &rotate, at(30));
        assert_eq!(sequence.name().unwrap(), Path::new("a-000030.pcap"));
        assert_eq!(sequence.period_over(at(89)), None);
        assert_eq!(sequence.period_over(at(90)), Some(true));
        assert_eq!(sequence.name().unwrap(), Path::new("a-000130.pcap"));
        assert_eq!(sequence.period_over(at(1_000)), Some(true));
        assert_eq!(sequence.period_over(at(1_060)), Some(false), "three files were requested");
        let mut back = Sequence::new(Path::new("a"), &rotate, at(100));
        assert_eq!(back.period_over(at(10)), None, "a clock that goes back starts no file");
    }

    #[test]
    fn names_of_a_pattern_are_recognised_by_their_literal_parts() {
        let plain = Rotate::default();
        let sized = Rotate { bytes: Some(1), ..plain.clone() };
        let timed = Rotate { seconds: Some(1), ..plain.clone() };
        let both = Rotate { bytes: Some(1), ..timed.clone() };
        for (pattern, rotate, name, expected) in [
            ("x.pcap", &plain, "x.pcap", true),
            ("x.pcap", &plain, "x.pcap1", false),
            ("x.pcap", &plain, "y.pcap", false),
            ("x.pcap", &sized, "x.pcap12", true),
            ("x.pcap", &sized, "x.pcap1a", false),
            ("x.pcap.gz", &sized, "x.pcap12.gz", true),
            ("x.pcap.gz", &sized, "x.pcap12", false),
            ("a-%Y%m%d.pcap", &timed, "a-20261123.pcap", true),
            ("a-%Y%m%d.pcap", &timed, "b-20261123.pcap", false),
            ("a-%Y%m%d.pcap", &timed, "a-20261123.pcapng", false),
            ("a-%Y%m%d.pcap", &both, "a-20261123.pcap7", true),
            ("a-%Y%m%d.pcap", &plain, "a-20261123.pcap", false),
            ("a-%Ey", &timed, "a-26", true),
        ] {
            assert_eq!(
                may_be_named(Path::new(pattern), rotate, Path::new(name)),
                expected,
                "{pattern} {name}"
            );
        }
        // Every name that a sequence produces matches its pattern.
        let at = Time(1_795_305_600_000_000_000);
        for rotate in [plain, sized, timed, both] {
            for pattern in ["d/x", "d/x-%H%M%S.pcap", "d/x-%s.pcap.zst"] {
                let mut sequence = Sequence::new(Path::new(pattern), &rotate, at);
                for _ in 0..3 {
                    let name = sequence.name().unwrap();
                    assert!(may_be_named(Path::new(pattern), &rotate, &name), "{pattern} {}", name.display());
                    sequence.size_over(u64::MAX);
                }
            }
        }
    }

    #[test]
    fn a_bad_pattern_is_an_error() {
        let rotate = Rotate { seconds: Some(60), ..Rotate::default() };
        let error = Sequence::new(Path::new("a-%!"), &rotate, Time(0)).name().unwrap_err();
        assert!(error.to_string().starts_with("a-%!: not a file name for -G"), "{error}");
    }
}
