//! The fate of each packet. The parts of every stage add up to the output of the stage before.

use serde::Serialize;

/// The layers at which decoding can stop, in the order of [`DecodeErrors`].
pub const LAYERS: [&str; 4] = ["link", "network", "transport", "tunnel"];
/// The kinds of decoding error, in the order of [`DecodeErrors`].
pub const ERROR_KINDS: [&str; 4] = ["truncated", "malformed", "unknown link type", "too deep"];

/// Packets by layer and kind of their first decoding error.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct DecodeErrors(pub [[u64; 4]; 4]);

impl DecodeErrors {
    /// Sum over all layers and kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Packets of a link type that is not decoded: only their length is known.
    pub fn unknown_link(&self) -> u64 {
        let [[_, _, unknown, _], ..] = self.0;
        unknown
    }

    /// The nonzero counts with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        LAYERS.iter().zip(&self.0).flat_map(|(layer, kinds)| {
            ERROR_KINDS.iter().zip(kinds).filter(|(_, n)| **n > 0).map(move |(kind, n)| (*layer, *kind, *n))
        })
    }
}

/// Counts of the source, before a packet reaches a worker.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct CaptureCount {
    /// Packets that the source offered: caught and dropped. Packets that wait in a ring are counted when they are caught.
    pub offered: u64,
    /// Packets that the kernel dropped because the ring was full.
    pub dropped: u64,
    /// Packets that the interface dropped before the kernel saw them, if the interface reports it.
    pub interface_dropped: u64,
    /// Packets of captures outside of the time range of the run; they are not offered.
    pub outside: u64,
}

impl CaptureCount {
    /// Packets that were offered and not caught: dropped by the kernel or by the interface.
    pub fn lost(&self) -> u64 {
        self.dropped + self.interface_dropped
    }
}

/// The fate of each packet.
///
/// `caught = filtered + analysed`, and `analysed = flowed + unflowed`. A packet with a decoding error is analysed up
/// to its last valid layer, and is also counted in `errors`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Ledger {
    /// Counts of the source.
    pub capture: CaptureCount,
    /// Packets read from a file or taken from a ring.
    pub caught: u64,
    /// Bytes on the wire of the caught packets.
    pub bytes: u64,
    /// Captured bytes of the caught packets.
    pub captured_bytes: u64,
    /// Packets that the run's expression did not match.
    pub filtered: u64,
    /// Packets put through functions and flows.
    pub analysed: u64,
    /// Analysed packets that are part of a flow.
    pub flowed: u64,
    /// Analysed packets without a flow: not IP, or malformed before the addresses.
    pub unflowed: u64,
    /// Analysed packets whose decoding stopped early, by layer and kind.
    pub errors: DecodeErrors,
    /// Analysed packets with a checksum that was verified.
    pub checksums_verified: u64,
    /// Verified packets whose network or transport checksum was wrong, excluding offloaded ones.
    pub checksums_bad: u64,
    /// Verified packets whose transport checksum was offloaded to the sender's network card.
    pub checksums_offloaded: u64,
    /// Packets of captures that are more than a second older, or more than a day newer, than the packet before them.
    pub time_jumps: u64,
    /// Packets counted in another interval than the one of their time, because times went back too often.
    pub late: u64,
    /// Flow rows that the outputs were too slow to take.
    pub rows_shed: u64,
    /// Ticks of a worker that were added to its next tick because the collector was too slow.
    pub ticks_joined: u64,
    /// Matching packets that were not written because the packet file was too slow.
    pub packets_unwritten: u64,
}

impl Ledger {
    /// Adds the ledger of another worker or interval.
    pub fn add(&mut self, other: &Ledger) {
        self.capture.offered += other.capture.offered;
        self.capture.dropped += other.capture.dropped;
        self.capture.interface_dropped += other.capture.interface_dropped;
        self.capture.outside += other.capture.outside;
        self.caught += other.caught;
        self.bytes += other.bytes;
        self.captured_bytes += other.captured_bytes;
        self.filtered += other.filtered;
        self.analysed += other.analysed;
        self.flowed += other.flowed;
        self.unflowed += other.unflowed;
        for (mine, theirs) in self.errors.0.iter_mut().zip(&other.errors.0) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
        self.checksums_verified += other.checksums_verified;
        self.checksums_bad += other.checksums_bad;
        self.checksums_offloaded += other.checksums_offloaded;
        self.time_jumps += other.time_jumps;
        self.late += other.late;
        self.rows_shed += other.rows_shed;
        self.ticks_joined += other.ticks_joined;
        self.packets_unwritten += other.packets_unwritten;
    }

    /// Lost packets in percent of those offered.
    pub fn loss_percent(&self) -> f64 {
        let lost = self.capture.lost();
        let offered = self.caught + lost;
        if offered == 0 { 0.0 } else { 100.0 * lost as f64 / offered as f64 }
    }

    /// The first sum that does not hold, in words; `None` when every packet is accounted for. All sums hold for each tick,
    /// because packets in a ring count as offered only when they are caught.
    pub fn imbalance(&self) -> Option<String> {
        let sums = [
            ("caught", self.caught, "filtered + analysed", self.filtered + self.analysed),
            ("analysed", self.analysed, "in flows + outside flows", self.flowed + self.unflowed),
            ("offered", self.capture.offered, "caught + dropped", self.caught + self.capture.dropped),
        ];
        sums.iter()
            .find(|(_, whole, _, parts)| whole != parts)
            .map(|(name, whole, of, parts)| format!("{name} {whole} is not {of} {parts}"))
    }
}

/// Counts of the flow table.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct FlowCount {
    /// Flows that began.
    pub created: u64,
    /// Flows that ended, for any reason.
    pub ended: u64,
    /// Flows that began with late segments of a closed connection; included in `created`. They are no flow of their own in
    /// any count but those of the table.
    #[serde(skip_serializing_if = "is_zero")]
    pub followed: u64,
    /// Closed connections that were forgotten, because too many had closed, while late segments could still follow: those are
    /// flows of their own.
    #[serde(skip_serializing_if = "is_zero")]
    pub closed_shed: u64,
    /// Flows that were evicted before their end because the table was full.
    pub evicted: u64,
    /// IP fragments counted to the flow of their packet's first fragment.
    #[serde(skip_serializing_if = "is_zero")]
    pub fragments_joined: u64,
    /// IP fragments whose first fragment was not seen in time: counted to a flow without ports.
    #[serde(skip_serializing_if = "is_zero")]
    pub fragments_unmatched: u64,
    /// Fragmented packets removed from the full fragment table.
    #[serde(skip_serializing_if = "is_zero")]
    pub fragments_shed: u64,
    /// TCP streams whose gaps were not tracked because there were too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub holes_shed: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Zeek's names of the states of an ended flow (conn_state), in the order of their numbers.
pub const CONN_STATES: [&str; 13] =
    ["S0", "S1", "S2", "S3", "SF", "REJ", "RSTO", "RSTR", "RSTOS0", "RSTRH", "SH", "SHR", "OTH"];

/// The meaning of each of [`CONN_STATES`], in a few words. "Client" is the initiator, "server" the responder.
const STATE_WORDS: [&str; CONN_STATES.len()] = [
    "no answer",
    "not ended",
    "closed by client only",
    "closed by server only",
    "normal end",
    "refused",
    "reset by client",
    "reset by server",
    "no answer, reset by client",
    "only server seen, reset",
    "only client seen, closed",
    "only server seen, closed",
    "begun before",
];

/// The meaning of a state of [`CONN_STATES`] in a few words, such as `normal end` for `SF`; "" for another text.
pub fn state_words(state: &str) -> &'static str {
    let place = CONN_STATES.iter().position(|name| *name == state);
    place.and_then(|at| STATE_WORDS.get(at)).copied().unwrap_or_default()
}

impl FlowCount {
    /// Flows that began, without those of late segments: connections, for TCP.
    pub fn begun(&self) -> u64 {
        self.created.saturating_sub(self.followed)
    }

    /// Flows in the table, if the count covers a run from its beginning.
    pub fn active(&self) -> u64 {
        self.created.saturating_sub(self.ended)
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &FlowCount) {
        self.created += other.created;
        self.ended += other.ended;
        self.followed += other.followed;
        self.closed_shed += other.closed_shed;
        self.evicted += other.evicted;
        self.fragments_joined += other.fragments_joined;
        self.fragments_unmatched += other.fragments_unmatched;
        self.fragments_shed += other.fragments_shed;
        self.holes_shed += other.holes_shed;
    }
}
