//! The common part of both formats: walking over records in a buffer.

use weir_wire::LinkType;

/// The caller's limits for a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes kept of a packet.
    pub(crate) snaplen: u32,
    /// Packets that still may be pushed.
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
    /// The record at `at` is this long, and nothing of it is wanted.
    Skip(u64),
    /// As many packets as were asked for.
    Enough,
    /// The record at `at` contradicts the format: what was found, and what would be accepted.
    Bad(String),
    /// The section header at `at` has an unknown version (major, minor).
    Version(u16, u16),
}

/// The largest packet that libpcap accepts (its max_snaplen_for_dlt()): 256 KiB, and more on link types whose packets
/// are messages of another kind.
pub(crate) fn max_captured(link: LinkType) -> u32 {
    match link.0 {
        // D-Bus and USBPcap.
        231 | 249 => 128 << 20,
        // EBHSCR.
        279 => 8 << 20,
        _ => 256 << 10,
    }
}
