//! How rare literals are in traffic, by counts of pairs of bytes.
//!
//! A rule is found by its rarest literal: what is common makes it a candidate in packets that have nothing to do with it.

use std::fmt;
use std::sync::{Arc, LazyLock};

/// The number of pairs of bytes.
const PAIRS: usize = 1 << 16;
/// Units in which a rarity is stored, for one bit.
const UNITS: f64 = 8.0;
/// A literal of this rarity in bits is rare enough: then the longer one is better, which is searched for in greater steps.
const RARE: u32 = 40;
/// First bytes of a file of rarities. The number is that of its form.
const MARK: &[u8; 16] = b"weir pairs no 1\n";

/// Counts of pairs of bytes that follow each other in payload.
#[derive(Clone)]
pub struct PairCounts(Box<[u64]>);

impl Default for PairCounts {
    fn default() -> Self {
        Self(vec![0; PAIRS].into())
    }
}

/// The place of a pair.
fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

impl PairCounts {
    /// Counts the pairs of some bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for (first, second) in bytes.iter().zip(bytes.iter().skip(1)) {
            if let Some(count) = self.0.get_mut(pair(*first, *second)) {
                *count += 1;
            }
        }
    }

    /// The number of pairs that were counted.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How rare each byte is after each other one. Each pair counts as half a time more, so that none is impossible.
    pub fn rarity(&self) -> Rarity {
        let of_first = |counts: &[u64]| {
            let total = counts.iter().sum::<u64>() as f64 + 0.5 * counts.len() as f64;
            let bits = |count: &u64| (total / (*count as f64 + 0.5)).log2();
            counts
                .iter()
                .map(|count| (UNITS * bits(count)).round().clamp(0.0, 255.0) as u8)
                .collect::<Vec<u8>>()
        };
        Rarity(self.0.chunks(256).flat_map(of_first).collect())
    }
}

impl fmt::Debug for PairCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PairCounts").field(&self.total()).finish()
    }
}

/// How rare each byte is after each other one: the negative logarithm of its share, in eighths of a bit.
#[derive(Clone, Eq, PartialEq)]
pub struct Rarity(Arc<[u8]>);

/// The rarities of ordinary traffic, of the captures of this project:
/// `weir rules train testdata/*/*.pcap* testdata/sample -o crates/detect/src/rarity.bin`.
static ORDINARY: LazyLock<Rarity> = LazyLock::new(|| {
    Rarity::read(include_bytes!("rarity.bin")).unwrap_or_else(|_| PairCounts::default().rarity())
});

impl Default for Rarity {
    fn default() -> Self {
        ORDINARY.clone()
    }
}

impl Rarity {
    /// Reads a file of rarities, which [`Rarity::bytes`] makes.
    ///
    /// # Errors
    /// It is not such a file.
    pub fn read(file: &[u8]) -> Result<Self, String> {
        let bits = file.strip_prefix(MARK).ok_or("no file of `weir rules train`")?;
        match bits.len() == PAIRS {
            true => Ok(Self(bits.into())),
            false => Err(format!("{} bytes of {PAIRS}: the file is not whole", bits.len())),
        }
    }

    /// The file of the rarities: a mark, and a byte for each pair of bytes in their order.
    pub fn bytes(&self) -> Vec<u8> {
        [&MARK[..], &self.0].concat()
    }

    fn of_pair(&self, first: u8, second: u8) -> u32 {
        self.0.get(pair(first, second)).copied().unwrap_or_default().into()
    }

    /// How rare a literal is, in bits: the sum over its pairs, of the more common case of letters where case is ignored.
    pub fn of(&self, literal: &[u8], ignores_case: bool) -> u32 {
        let pairs = literal.iter().zip(literal.iter().skip(1));
        let units: u32 =
            pairs.map(|(first, second)| self.of_literal_pair(*first, *second, ignores_case)).sum();
        units / UNITS as u32
    }

    fn of_literal_pair(&self, first: u8, second: u8, ignores_case: bool) -> u32 {
        let cases = |byte: u8| match ignores_case {
            true => [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()],
            false => [byte; 2],
        };
        let pairs = cases(first).into_iter().flat_map(|first| cases(second).map(|second| (first, second)));
        pairs.map(|(first, second)| self.of_pair(first, second)).min().unwrap_or_default()
    }

    /// How good a literal finds a rule: a greater value is better.
    pub(crate) fn worth(&self, literal: &[u8], ignores_case: bool) -> (u32, usize) {
        (self.of(literal, ignores_case).min(RARE), literal.len())
    }
}

impl fmt::Debug for Rarity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rarity")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_common_is_not_rare() {
        let mut counts = PairCounts::default();
        for _ in 0..1_000 {
            counts.add(b"Mozilla/5.0 \0\0\0\0");
        }
        let rarity = counts.rarity();
        assert!(rarity.of(b"Mozilla", false) < 5, "{}", rarity.of(b"Mozilla", false));
        assert!(rarity.of(b"evil", false) > 12, "{}", rarity.of(b"evil", false));
        assert!(rarity.of(b"\0\0\0\0", false) < rarity.of(b"\0\x01\x87\x99", false));
        assert!(rarity.of(b"MOZILLA", true) < rarity.of(b"MOZILLA", false));
        // Of rare ones the longer one is better, of others the rarer one.
        assert!(rarity.worth(b"something evil", false) > rarity.worth(b"really evil", false));
        assert!(rarity.worth(b"evil", false) > rarity.worth(b"Mozilla/5.0", false));
        assert_eq!((rarity.of(b"", false), rarity.of(b"x", true)), (0, 0));
    }

    #[test]
    fn a_file_is_read_back() {
        let mut counts = PairCounts::default();
        counts.add(b"abc");
        assert_eq!(counts.total(), 2);
        let rarity = counts.rarity();
        assert_eq!(Rarity::read(&rarity.bytes()), Ok(rarity.clone()));
        assert!(Rarity::read(b"x").is_err());
        assert!(Rarity::read(&rarity.bytes()[..100]).is_err());
    }

    #[test]
    fn ordinary_traffic_is_known() {
        let rarity = Rarity::default();
        assert_ne!(rarity, PairCounts::default().rarity(), "the file of this crate is read");
        for (common, rare) in [
            (&b"\0\0\0\0"[..], &b"\0\x01\x87\x99"[..]),
            (b"HTTP/1.1 200 OK", b"cmd.exe?/c+dir"),
            (b"Mozilla/5.0 (", b"ZmEu-scanner-"),
        ] {
            assert!(rarity.of(common, false) < rarity.of(rare, false), "{common:?} {rare:?}");
        }
    }
}
