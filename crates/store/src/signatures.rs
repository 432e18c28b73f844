//! Port signatures that runs have found: which are new, and when each was seen.

use crate::{StoreError, TimeRange};
use std::cmp::Reverse;
use weir_api::basis::Basis;
use weir_api::web::{PortSignatures, SignatureRow};

const SECOND: f64 = 1e9;

/// Maximum number of kept signatures. Of more, those that were seen last the longest time ago are forgotten, and are new when they are
/// seen again.
pub const MAX_SIGNATURES: usize = 10_000;

/// A port signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownSignature {
    /// Its ports, as they are shown.
    pub ports: String,
    /// Begin of the first interval with it, in nanoseconds since the epoch.
    pub first: u64,
    /// End of the last interval with it.
    pub last: u64,
    /// The most hosts that had it in an interval.
    pub hosts: u64,
    /// Number of intervals with it.
    pub intervals: u64,
    /// Number of runs that have found it.
    pub runs: u64,
}

impl KnownSignature {
    /// Whether it is new in a period that begins then: not seen before it, and not by an earlier run.
    pub fn is_new(&self, begin: u64) -> bool {
        self.first >= begin && self.runs <= 1
    }

    /// Whether it was seen in a time range.
    fn is_within(&self, span: TimeRange) -> bool {
        span.from.is_none_or(|from| self.last > from) && span.to.is_none_or(|to| self.first < to)
    }

    /// Its ports as numbers.
    fn numbers(&self) -> Vec<u16> {
        self.ports.split(',').filter_map(|port| port.parse().ok()).collect()
    }

    /// Its row in an answer about a period that begins then.
    fn row(&self, begin: u64) -> SignatureRow {
        let ports = self.numbers();
        let filter: Vec<String> = ports.iter().map(|port| format!("tcp dst port {port}")).collect();
        let seconds = |time: u64| time as f64 / SECOND;
        SignatureRow {
            filter: filter.join(" or "),
            new: self.is_new(begin),
            first: seconds(self.first),
            last: seconds(self.last),
            hosts: self.hosts,
            intervals: self.intervals,
            runs: self.runs,
            ports,
        }
    }
}

/// The signatures that were seen in a time range, at most `limit`: new ones first, then those that were seen last. Without a begin of
/// the range each one that a single run has found is new. The basis of the answer is empty.
pub fn seen_in(known: &[KnownSignature], span: TimeRange, limit: usize) -> PortSignatures {
    let begin = span.from.unwrap_or(0);
    let mut seen: Vec<&KnownSignature> = known.iter().filter(|one| one.is_within(span)).collect();
    seen.sort_by_key(|one| (!one.is_new(begin), Reverse(one.last), Reverse(one.hosts), &one.ports));
    let left_out = seen.len().saturating_sub(limit);
    let rows = seen.into_iter().take(limit).map(|one| one.row(begin)).collect();
    let partial =
        (left_out > 0).then(|| format!("further signatures of this time are not listed: {left_out}"));
    PortSignatures { rows, partial, basis: Basis { bound: Some(0), ..Basis::default() } }
}

/// The port signatures that runs with a store have found.
pub trait Signatures: Send {
    /// Notes the signatures of an interval, with the number of hosts of each. Returns those that were not known. `interval` is begin and end
    /// in nanoseconds since the epoch.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or a newer version of the program has written it: nothing is noted.
    fn see(&mut self, found: &[(String, u64)], interval: (u64, u64)) -> Result<Vec<String>, StoreError>;

    /// All signatures, by their ports.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a newer version of the program has written it.
    fn all(&self) -> Result<Vec<KnownSignature>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(ports: &str, (first, last): (u64, u64), runs: u64) -> KnownSignature {
        KnownSignature { ports: ports.to_owned(), first, last, hosts: 2, intervals: 3, runs }
    }

    #[test]
    fn an_answer_has_the_signatures_of_its_time_with_new_ones_first() {
        const S: u64 = 1_000_000_000;
        let all = [
            known("80", (S, 9 * S), 1),
            known("22,445", (5 * S, 6 * S), 1),
            known("23", (5 * S, 8 * S), 2),
            known("25", (S, 4 * S), 1),
            known("53", (20 * S, 21 * S), 1),
        ];
        let ports = |answer: &PortSignatures| -> Vec<Vec<u16>> {
            answer.rows.iter().map(|row| row.ports.clone()).collect()
        };
        let span = TimeRange { from: Some(4 * S), to: Some(20 * S) };
        let answer = seen_in(&all, span, 10);
        assert_eq!(ports(&answer), [vec![22, 445], vec![80], vec![23]]);
        let [first, second, third] = &answer.rows[..] else { panic!("{answer:?}") };
        assert_eq!((first.new, second.new, third.new), (true, false, false));
        assert_eq!(first.filter, "tcp dst port 22 or tcp dst port 445");
        assert_eq!((first.first, first.last, answer.partial), (5.0, 6.0, None));
        let some = seen_in(&all, TimeRange { from: None, to: None }, 4);
        assert_eq!(ports(&some), [vec![53], vec![80], vec![22, 445], vec![25]]);
        assert_eq!(some.partial.as_deref(), Some("further signatures of this time are not listed: 1"));
    }
}
