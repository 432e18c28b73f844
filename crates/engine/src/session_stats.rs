//! Counts of sessions.

use weir_api::SessionCount;
use weir_flow::defrag::DefragStats;
use weir_flow::stream::StreamStats;

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SessionStats {
    /// Flows with payload: inspected and skipped.
    pub with_payload: u64,
    /// Flows that are inspected, or were until they ended.
    pub sessions: u64,
    /// Inspected flows that have ended with an identified protocol.
    pub identified: u64,
    /// Inspected flows that have ended without an identified protocol.
    pub unidentified: u64,
    /// Flows that were skipped because there was no memory at their first payload.
    pub skipped: u64,
    /// Flows whose inspection stopped for lack of memory.
    pub stopped: u64,
    /// Records emitted.
    pub records: u64,
    /// Records that were not emitted because all flows together have reached their limit.
    pub records_refused: u64,
    /// Packets of flows that were not measured for lack of memory.
    pub unmeasured: u64,
    /// Expected flows that did not begin in time, or for which there was no room.
    pub expectation_expired: u64,
    /// Packets of unidentified flows that were emitted.
    pub unidentified_packets: u64,
    /// Packets of unidentified flows for which there was no room before the decision.
    pub unidentified_packets_lost: u64,
    /// Bytes that were made by decompression.
    pub inflated: u64,
    /// Bodies that were not decompressed, or only in part, because all flows together have reached their limit.
    pub inflation_refused: u64,
    /// Packets of flows that rules did not look at for lack of memory.
    pub rules_unseen: u64,
    /// Parts of rules whose tests a limit of steps ended.
    pub rules_given_up: u64,
    /// Values and states of rules that a limit of their flow left out or truncated.
    pub rules_cut: u64,
    /// Counts of streams.
    pub streams: StreamStats,
    /// Counts of fragments.
    pub fragments: DefragStats,
}

impl From<&SessionStats> for SessionCount {
    fn from(stats: &SessionStats) -> Self {
        let SessionStats { streams, fragments, .. } = stats;
        Self {
            with_payload: stats.with_payload,
            skipped: stats.skipped,
            stopped: stats.stopped,
            sessions: stats.sessions,
            identified: stats.identified,
            unidentified: stats.unidentified,
            records: stats.records,
            records_refused: stats.records_refused,
            expectation_expired: stats.expectation_expired,
            unmeasured: stats.unmeasured,
            rules_unseen: stats.rules_unseen,
            rules_given_up: stats.rules_given_up,
            rules_cut: stats.rules_cut,
            streams: streams.streams,
            stream_bytes: streams.bytes,
            reordered: streams.reordered,
            retransmitted: streams.retransmitted,
            overlap_conflict: streams.overlap_conflict,
            urgent: streams.urgent,
            after_fin: streams.after_fin,
            gaps: streams.gaps,
            missing: streams.missing,
            abandoned: streams.abandoned,
            fragments: fragments.fragments,
            datagrams: fragments.begun,
            whole: fragments.whole,
            timed_out: fragments.timed_out,
            fragments_shed: fragments.shed,
            fragments_bad: fragments.bad,
            unidentified_packets: stats.unidentified_packets,
            unidentified_packets_lost: stats.unidentified_packets_lost,
            inflated: stats.inflated,
            inflation_refused: stats.inflation_refused,
            // The writer of files counts these.
            ..Self::default()
        }
    }
}
