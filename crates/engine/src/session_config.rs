//! The memory for payload, and its limits.

use weir_flow::stream::Overlap;
use weir_proto::Inflation;

/// Bytes of records for each byte of packets, by default. DNS in small packets has 5 to 8.
pub const RECORD_RATIO: u32 = 16;

/// The memory for payload, and its limits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionConfig {
    /// Bytes of records that may be emitted for each byte of packets: see [`RECORD_RATIO`].
    pub record_ratio: u32,
    /// Bytes for waiting segments, waiting fragments and parsers together. A new flow is skipped and counted while
    /// there is no room.
    pub memory: usize,
    /// Which data is kept where segments or fragments overlap.
    pub overlap: Overlap,
    /// Whether urgent bytes are left out of streams.
    pub urgent_apart: bool,
    /// Maximum size in bytes of a file with checksums.
    pub max_file: u64,
    /// Limit of decompressed content.
    pub inflation: Inflation,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            record_ratio: RECORD_RATIO,
            memory: 256 << 20,
            overlap: Overlap::default(),
            urgent_apart: false,
            max_file: u64::MAX,
            inflation: Inflation::default(),
        }
    }
}
