//! Counts of flow payload: every flow with payload is inspected, or counted under the reason why it was not.

use crate::Counter;
use serde::Serialize;

/// Declares counts with their names, so that all code that shows or adds counts uses one list.
macro_rules! counts {
    (
        $(#[$about:meta])*
        $name:ident of $in:ident { $(
            $(#[doc = $doc:literal])*
            $field:ident in $unit:ident $(($lost:ident))? at $depth:literal: $label:literal,
        )* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: u64,)*
        }

        impl $name {
            /// Adds the counts of another worker or interval.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// The counts that a function returns, in the order of [`Self::named`].
            pub(crate) fn from_counts<E>(mut next: impl FnMut() -> Result<u64, E>) -> Result<Self, E> {
                Ok(Self { $($field: next()?,)* })
            }

            /// The increase since `before`, which is an earlier value of the same counts.
            pub fn since(&self, before: &Self) -> Self {
                Self { $($field: self.$field - before.$field,)* }
            }

            /// Depth, label and value of each count, in order: a count is part of the nearest one above it of less depth.
            pub fn named(&self) -> impl Iterator<Item = (usize, &'static str, u64)> {
                [$(($depth, $label, self.$field),)*].into_iter()
            }

            /// The counters of the registry, one for each count.
            pub const COUNTERS: &'static [Counter] = &[$(Counter {
                name: stringify!($field),
                label: $label,
                unit: stringify!($unit),
                help: concat!($($doc),*),
                depth: $depth,
                loss: !matches!(stringify!($($lost)?).as_bytes(), b""),
                of: |snapshot| snapshot.$in.$field,
            },)*];
        }
    };
}

counts! {
    /// Counts of the payload of flows: inspected, identified, reassembled, extracted, or the reason why not.
    ///
    /// Over a whole run `with_payload = skipped + sessions`, `sessions = identified + unidentified`, `datagrams =
    /// whole + timed_out + fragments_shed + fragments_bad`, `files = files_kept + files_skipped + files_crowded` and `file_bytes =
    /// file_bytes_kept + file_bytes_cut + file_bytes_shed`. Within an interval flows are still open, so that these
    /// sums hold only for a whole run.
    SessionCount of sessions {
        /// TCP and UDP flows with payload.
        with_payload in flows at 0: "flows with payload",
        /// Flows with payload that were not inspected: out of memory.
        skipped in flows (lost) at 1: "skipped: out of memory",
        /// Flows whose payload was inspected.
        sessions in flows at 1: "inspected",
        /// Ended flows in which a protocol was identified.
        identified in flows at 2: "identified",
        /// Ended flows in which no protocol was identified.
        unidentified in flows at 2: "unidentified",
        /// Flows whose payload was inspected only in part: out of memory.
        stopped in flows (lost) at 0: "inspected in part: out of memory",
        /// Records that protocol parsers emitted.
        records in records at 0: "records",
        /// Records that were not emitted: records of all flows of a worker are limited.
        records_refused in records (lost) at 0: "records not emitted: limit of all flows",
        /// Flows that another flow announced and that did not begin in time, or had no room in the table.
        expectation_expired in flows at 0: "expected flows expired",
        /// Packets of flows that were not measured: out of memory.
        unmeasured in packets (lost) at 0: "packets not measured: out of memory",
        /// Packets of flows that rules did not look at: out of memory.
        rules_unseen in packets (lost) at 0: "packets without rules: out of memory",
        /// Parts of rules that were taken as not matching when a limit of steps ended their tests.
        rules_given_up in parts (lost) at 0: "parts of rules not decided: limit of steps",
        /// Values, bits and other states of rules that were not kept or were truncated: limits of a flow.
        rules_cut in states (lost) at 0: "states of rules not kept: limits of a flow",
        /// TCP streams that began.
        streams in streams at 0: "TCP streams",
        /// Stream bytes handed to parsers, in order and once.
        stream_bytes in bytes at 1: "bytes in order",
        /// Segments that arrived ahead of missing bytes.
        reordered in segments at 1: "out-of-order segments",
        /// Stream bytes received more than once.
        retransmitted in bytes at 1: "retransmitted bytes",
        /// Retransmitted bytes that differ from the first copy.
        overlap_conflict in bytes at 2: "overlap conflicts",
        /// Urgent bytes, which are left out of the stream.
        urgent in bytes at 1: "urgent bytes",
        /// Bytes after the end of a stream.
        after_fin in bytes at 1: "bytes after FIN",
        /// Gaps in streams.
        gaps in gaps at 1: "gaps",
        /// Bytes missing in gaps.
        missing in bytes at 2: "missing bytes",
        /// Gaps abandoned before they could be filled: out of memory.
        abandoned in gaps (lost) at 2: "abandoned: out of memory",
        /// IP fragments.
        fragments in packets at 0: "IP fragments",
        /// Fragmented IP packets.
        datagrams in datagrams at 1: "fragmented packets",
        /// Fragmented packets that were reassembled.
        whole in datagrams at 2: "reassembled",
        /// Fragmented packets whose fragments did not all arrive in time.
        timed_out in datagrams at 2: "timed out",
        /// Fragmented packets dropped to make room.
        fragments_shed in datagrams (lost) at 2: "dropped: out of memory",
        /// Fragmented packets with contradictory, too many or too long fragments.
        fragments_bad in datagrams at 2: "invalid",
        /// Bytes made by decompression of content.
        inflated in bytes at 0: "decompressed bytes",
        /// Bodies that were not decompressed, or only in part: decompression of all flows of a worker is limited.
        inflation_refused in files (lost) at 1: "bodies not decompressed: limit of all flows",
        /// Packets of unidentified flows delivered for writing.
        unidentified_packets in packets at 0: "packets of unidentified flows",
        /// Packets of unidentified flows that were not written: no room while the protocol was still undecided, or
        /// lost on the way to the file.
        unidentified_packets_lost in packets (lost) at 0: "packets of unidentified flows lost",
        /// Files with content, if files are extracted.
        files in files at 0: "files",
        /// Files of which content was kept.
        files_kept in files at 1: "kept",
        /// Kept files that a limit truncated.
        files_cut in files at 2: "truncated: limits",
        /// Files of which nothing was kept because of a limit.
        files_skipped in files at 1: "skipped: limits",
        /// Files of which nothing was kept because their flow had too many.
        files_crowded in files at 1: "skipped: too many in a flow",
        /// Content bytes of all files.
        file_bytes in bytes at 1: "file bytes",
        /// Content bytes that were kept.
        file_bytes_kept in bytes at 2: "kept",
        /// Content bytes beyond the limits.
        file_bytes_cut in bytes at 2: "beyond the limits",
        /// Content bytes lost because the disk was too slow.
        file_bytes_shed in bytes (lost) at 2: "lost: disk too slow",
    }
}

impl SessionCount {
    /// Describes the first sum that does not hold over a whole run; `None` when all hold.
    pub fn imbalance(&self) -> Option<String> {
        let in_pieces = self.whole + self.timed_out + self.fragments_shed + self.fragments_bad;
        let bytes = self.file_bytes_kept + self.file_bytes_cut + self.file_bytes_shed;
        let sums = [
            ("flows with payload", self.with_payload, "skipped + inspected", self.skipped + self.sessions),
            (
                "inspected flows",
                self.sessions,
                "identified + unidentified",
                self.identified + self.unidentified,
            ),
            ("fragmented packets", self.datagrams, "reassembled + timed out + dropped + invalid", in_pieces),
            (
                "files",
                self.files,
                "kept + skipped + crowded",
                self.files_kept + self.files_skipped + self.files_crowded,
            ),
            ("file bytes", self.file_bytes, "kept + beyond the limits + lost", bytes),
        ];
        sums.iter()
            .find(|(_, whole, _, parts)| whole != parts)
            .map(|(name, whole, of, parts)| format!("{name} {whole} is not {of} {parts}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_gives_the_added_counts() {
        let before = SessionCount { with_payload: 3, gaps: 1, ..SessionCount::default() };
        let now = SessionCount { with_payload: 8, gaps: 1, whole: 2, ..SessionCount::default() };
        let mut sum = before;
        sum.add(&now.since(&before));
        assert_eq!(sum, now);
        assert_eq!(now.named().map(|(.., n)| n).sum::<u64>(), 11);
    }

    #[test]
    fn sums_that_do_not_hold_are_reported() {
        let good = SessionCount {
            with_payload: 5,
            skipped: 1,
            sessions: 4,
            identified: 3,
            unidentified: 1,
            ..Default::default()
        };
        assert_eq!(good.imbalance(), None);
        let lost = SessionCount { identified: 2, ..good };
        assert_eq!(lost.imbalance().as_deref(), Some("inspected flows 4 is not identified + unidentified 3"));
        let pieces = SessionCount { datagrams: 1, ..good };
        assert!(pieces.imbalance().is_some_and(|text| text.starts_with("fragmented packets 1")));
    }
}
