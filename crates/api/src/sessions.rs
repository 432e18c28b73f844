//! What became of what was said in flows. Every flow that said something is read by somebody or is counted under the
//! name of why not.

use crate::Counter;
use serde::Serialize;

/// Counts with their names, so that whoever shows or adds them reads one list.
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
            /// Adds another worker's or interval's.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// What has come since it was `before`.
            pub fn since(&self, before: &Self) -> Self {
                Self { $($field: self.$field - before.$field,)* }
            }

            /// Each with its name for people, and how deep it is in the one above it.
            pub fn named(&self) -> impl Iterator<Item = (usize, &'static str, u64)> {
                [$(($depth, $label, self.$field),)*].into_iter()
            }

            /// A row of each.
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
    /// What became of what was said in flows.
    ///
    /// Over a whole run `said = refused + sessions`, `sessions = known + unknown` and `datagrams = whole + timed_out +
    /// fragments_shed + fragments_bad`, `files = files_kept + files_refused`, `file_bytes = file_bytes_kept +
    /// file_bytes_cut + file_bytes_shed`; within an interval flows are still open.
    SessionCount of sessions {
        /// TCP and UDP flows that said something.
        with_payload in flows at 0: "flows that said something",
        /// Of these, flows that were not read because there was no memory for it.
        refused in flows (lost) at 1: "not read: no memory",
        /// Of these, flows that were read.
        sessions in flows at 1: "read",
        /// Flows that have ended and in which a protocol was found.
        identified in flows at 2: "by a protocol",
        /// Flows that have ended and that no protocol knew.
        unidentified in flows at 2: "known to no protocol",
        /// Records that protocols told.
        records in records at 0: "records",
        /// Flows that were announced and did not come, or had no room.
        expectation_expired in flows at 0: "flows announced that did not come",
        /// Packets of flows that were not measured because there was no memory for it.
        unmeasured in packets (lost) at 0: "packets not measured: no memory",
        /// TCP streams that have begun.
        streams in streams at 0: "TCP streams",
        /// Bytes of theirs that were handed on, in order and once.
        stream_bytes in bytes at 1: "bytes in order",
        /// Segments that came before their time.
        reordered in segments at 1: "segments before their time",
        /// Bytes that came again.
        retransmitted in bytes at 1: "bytes again",
        /// Of those that came again, bytes that were different.
        overlap_conflict in bytes at 2: "that were different",
        /// Urgent bytes that were left out.
        urgent in bytes at 1: "urgent bytes left out",
        /// Bytes behind the end of a stream.
        after_fin in bytes at 1: "bytes behind the end",
        /// Holes in streams.
        gaps in gaps at 1: "holes",
        /// Bytes in them.
        missing in bytes at 2: "bytes missing in them",
        /// Holes that were given up because there was no memory to wait any longer.
        abandoned in gaps (lost) at 2: "given up: no memory",
        /// IP fragments.
        fragments in packets at 0: "fragments",
        /// Packets that they are parts of.
        datagrams in datagrams at 1: "of packets",
        /// Those put together.
        whole in datagrams at 2: "put together",
        /// Those whose fragments did not all come in time.
        timed_out in datagrams at 2: "not complete in time",
        /// Those dropped to make room.
        fragments_shed in datagrams (lost) at 2: "dropped: no memory",
        /// Those whose fragments contradict each other, or are too many or too long.
        fragments_bad in datagrams at 2: "contradictory",
        /// Packets of flows that no protocol knew which were handed on to be written.
        unidentified_packets in packets at 0: "packets of unknown flows handed on",
        /// Such packets for which there was no room while it was not yet clear whose they are, or that had no room on
        /// their way to the file.
        unidentified_packets_lost in packets (lost) at 0: "packets of unknown flows lost",
        /// Files of which content came, where it is to be kept.
        files in files at 0: "files to be kept",
        /// Those of which something was kept.
        files_kept in files at 1: "kept",
        /// Of these, files that were not kept whole.
        files_cut in files at 2: "not whole: limits",
        /// Those of which nothing was kept.
        files_refused in files at 1: "not kept: limits",
        /// Bytes of all of them.
        file_bytes in bytes at 1: "bytes",
        /// Bytes that were kept.
        file_bytes_kept in bytes at 2: "kept",
        /// Bytes beyond the limits.
        file_bytes_cut in bytes at 2: "beyond the limits",
        /// Bytes for which the disk was too slow.
        file_bytes_shed in bytes (lost) at 2: "not kept: the disk was too slow",
    }
}

impl SessionCount {
    /// The first sum that does not hold over a whole run, in words.
    pub fn imbalance(&self) -> Option<String> {
        let in_pieces = self.whole + self.timed_out + self.fragments_shed + self.fragments_bad;
        let bytes = self.file_bytes_kept + self.file_bytes_cut + self.file_bytes_shed;
        let sums = [
            ("flows that said something", self.with_payload, "refused + read", self.refused + self.sessions),
            ("flows read", self.sessions, "known + unknown", self.identified + self.unidentified),
            ("fragmented packets", self.datagrams, "whole + timed out + dropped + contradictory", in_pieces),
            ("files", self.files, "kept + refused", self.files_kept + self.files_refused),
            ("bytes of files", self.file_bytes, "kept + cut + shed", bytes),
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
    fn what_has_come_since_is_what_is_added() {
        let before = SessionCount { with_payload: 3, gaps: 1, ..SessionCount::default() };
        let now = SessionCount { with_payload: 8, gaps: 1, whole: 2, ..SessionCount::default() };
        let mut sum = before;
        sum.add(&now.since(&before));
        assert_eq!(sum, now);
        assert_eq!(now.named().map(|(.., n)| n).sum::<u64>(), 11);
    }

    #[test]
    fn sums_that_do_not_hold_are_told() {
        let good = SessionCount {
            with_payload: 5,
            refused: 1,
            sessions: 4,
            identified: 3,
            unidentified: 1,
            ..Default::default()
        };
        assert_eq!(good.imbalance(), None);
        let lost = SessionCount { identified: 2, ..good };
        assert_eq!(lost.imbalance().as_deref(), Some("flows read 4 is not known + unknown 3"));
        let pieces = SessionCount { datagrams: 1, ..good };
        assert!(pieces.imbalance().is_some_and(|text| text.starts_with("fragmented packets 1")));
    }
}
