//! Definitions for walking over the records in a buffer, common to both formats.

use weir_wire::LinkType;

/// The caller's limits for a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of bytes to keep of a packet.
    pub(crate) snaplen: u32,
    /// Number of packets that may still be added.
    pub(crate) packets: usize,
}

/// The end of a walk, and its reason.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Start of the first record that was not taken.
    pub(crate) at: usize,
    pub(crate) stop: Stop,
}

#[derive(Debug)]
pub(crate) enum Stop {
    /// The record at `at` needs this many bytes in all.
    More(usize),
    /// The record at `at` has this length and is not needed.
    Skip(u64),
    /// The requested number of packets is reached.
    Enough,
    /// The record at `at` contradicts the format: the value found, and the accepted values.
    Bad(String),
    /// The section header at `at` has an unsupported version (major, minor).
    Version(u16, u16),
}

/// The largest packet that libpcap accepts, in bytes (its max_snaplen_for_dlt()): 256 KiB, and more on link types that
/// carry large messages.
pub(crate) fn max_captured(link: LinkType) -> u32 {
    match link.0 {
        // D-Bus and USBPcap.
        231 | 249 => 128 << 20,
        // EBHSCR.
        279 => 8 << 20,
        _ => 256 << 10,
    }
}
