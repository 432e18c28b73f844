//! Values of options, from their text.

use weir_proto::Hashes;
use weir_store::Keep;

/// What an option names, and the expression after the first `=`. A name that contains `=` ends in one more.
pub fn named(text: &str) -> (&str, Option<&str>) {
    match text.strip_suffix('=') {
        Some(name) => (name, None),
        None => text.split_once('=').map_or((text, None), |(name, expression)| (name, Some(expression))),
    }
}

/// Nanoseconds of `30s`, `5m` or `1h`; a bare number is seconds.
pub fn interval(text: &str) -> Result<u64, String> {
    const WANTED: &str = "expected a time from 1s to 1h, e.g. 30s or 5m";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| WANTED)?;
    let seconds = match &text[digits.len()..] {
        "" | "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        _ => None,
    };
    match seconds {
        Some(seconds @ 1..=3600) => Ok(seconds * 1_000_000_000),
        _ => Err(WANTED.to_owned()),
    }
}

/// Nanoseconds of `30s`, `5m`, `1h` or `1d`; a bare number is seconds.
pub fn period(text: &str) -> Result<u64, String> {
    const WANTED: &str = "expected a time, e.g. 30s, 10m, 1h or 1d";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| WANTED)?;
    let unit = match text.get(digits.len()..) {
        Some("" | "s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        Some("d") => 86_400,
        _ => return Err(WANTED.to_owned()),
    };
    let nanoseconds = number.checked_mul(unit * 1_000_000_000);
    nanoseconds.filter(|time| *time > 0).ok_or_else(|| WANTED.to_owned())
}

/// Checksums by their names.
pub fn hashes(text: &str) -> Result<Hashes, String> {
    let mut hashes = Hashes::default();
    if text == "none" {
        return Ok(hashes);
    }
    for name in text.split(',') {
        match name {
            "md5" => hashes.md5 = true,
            "sha1" => hashes.sha1 = true,
            "sha256" => hashes.sha256 = true,
            _ => return Err("expected md5, sha1 and sha256, separated by commas, or none".to_owned()),
        }
    }
    Ok(hashes)
}

/// The limits of flows and records in --keep.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KeepLimits {
    /// Nanoseconds.
    pub age: Option<u64>,
    /// Maximum size of the store in bytes.
    pub bytes: Option<u64>,
    /// Bytes to leave free on the disk.
    pub free: Option<u64>,
}

impl KeepLimits {
    /// Overrides the limits of `keep` by the given ones.
    pub fn over(self, keep: Keep) -> Keep {
        Keep {
            age: self.age.unwrap_or(keep.age),
            bytes: self.bytes.unwrap_or(keep.bytes),
            free: self.free.unwrap_or(keep.free),
            ..keep
        }
    }
}

/// `30d,10G,free=1G`, in any order.
pub fn keep(text: &str) -> Result<KeepLimits, String> {
    const WANTED: &str = "expected an age, a size and a free size, separated by commas, e.g. 30d,10G,free=1G";
    let mut limits = KeepLimits::default();
    for part in text.split(',') {
        if let Some(size) = part.strip_prefix("free=") {
            limits.free = Some(if size == "0" { 0 } else { bytes(size).map_err(|_| WANTED)? });
        } else if part.ends_with(['h', 'd']) {
            limits.age = Some(period(part).map_err(|_| WANTED)?);
        } else if part.ends_with(['M', 'G', 'T']) {
            limits.bytes = Some(bytes(part).map_err(|_| WANTED)?);
        } else {
            return Err(WANTED.to_owned());
        }
    }
    Ok(limits)
}

/// Bytes of `100`, `64K`, `512M` or `2G`.
pub fn bytes(text: &str) -> Result<u64, String> {
    const WANTED: &str = "expected a size, e.g. 64K, 512M or 2G";
    let upper = text.trim().trim_end_matches("iB").trim_end_matches('B').to_ascii_uppercase();
    let digits = upper.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| WANTED)?;
    let shift = match upper.get(digits.len()..) {
        Some("") => 0,
        Some("K") => 10,
        Some("M") => 20,
        Some("G") => 30,
        Some("T") => 40,
        _ => return Err(WANTED.to_owned()),
    };
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(|| WANTED.to_owned())
}

/// Bytes of `512M` or `2G`.
pub fn size(text: &str) -> Result<usize, String> {
    let number = bytes(text).ok().filter(|bytes| *bytes >= 16 << 20);
    let number = number.and_then(|bytes| usize::try_from(bytes).ok());
    number.ok_or_else(|| "expected a size of at least 16M, e.g. 512M or 2G".to_owned())
}

/// Parses the size up to which content is decompressed, in bytes.
pub fn inflated(text: &str) -> Result<u32, String> {
    let number = bytes(text).ok().filter(|bytes| *bytes <= 1 << 30);
    let number = number.and_then(|bytes| u32::try_from(bytes).ok());
    number.ok_or_else(|| "expected a size of at most 1G, e.g. 64K or 1M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!((bytes("100"), bytes("64K")), (Ok(100), Ok(64 << 10)));
        assert!(bytes("0").is_err() && bytes("1X").is_err() && bytes("99999999T").is_err());
        assert!(size("1M").is_err() && size("12Q").is_err() && size("").is_err());
        assert_eq!((period("10m"), period("1d")), (Ok(600_000_000_000), Ok(86_400_000_000_000)));
        assert!(period("0").is_err() && period("1y").is_err() && period("m").is_err());
        assert_eq!(interval("30s"), Ok(30_000_000_000));
        let max = Keep { age: 2 * 86_400_000_000_000, bytes: 5 << 30, free: 0, ..Keep::default() };
        assert_eq!(keep("5G,free=0,2d").map(|limits| limits.over(Keep::default())), Ok(max));
        assert!(keep("5").is_err() && keep("").is_err() && keep("free=x").is_err() && keep("1d;2G").is_err());
        assert_eq!(interval("5m"), Ok(300_000_000_000));
        assert!(interval("0").is_err() && interval("2h").is_err() && interval("s").is_err());
    }
}
