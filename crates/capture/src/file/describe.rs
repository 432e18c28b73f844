//! Description of an input.

use weir_wire::{LinkType, Time};

use super::bytes::Compression;
use super::error::ReadError;

/// The format of a capture file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Classic pcap.
    Pcap {
        /// Byte order of its headers.
        big_endian: bool,
        /// Times have nanoseconds, not microseconds.
        nanoseconds: bool,
        /// Kuznetsov's variant, with record headers of 24 bytes.
        modified: bool,
    },
    /// pcapng.
    Pcapng,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Pcap { modified: true, .. } => "pcap (modified)",
            Format::Pcap { nanoseconds: true, .. } => "pcap (nanoseconds)",
            Format::Pcap { .. } => "pcap",
            Format::Pcapng => "pcapng",
        })
    }
}

/// Blocks of a pcapng file, by type.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Blocks {
    /// Section headers.
    pub sections: u64,
    /// Interface descriptions.
    pub interfaces: u64,
    /// Enhanced packets.
    pub enhanced: u64,
    /// Simple packets (no time, first interface).
    pub simple: u64,
    /// Packets in the obsolete Packet Block.
    pub obsolete: u64,
    /// Name resolution.
    pub names: u64,
    /// Interface statistics.
    pub statistics: u64,
    /// Custom blocks, to be copied.
    pub custom: u64,
    /// Custom blocks, not to be copied.
    pub custom_private: u64,
    /// All other types: skipped.
    pub other: u64,
}

/// The latest time of a packet: 2^63 nanoseconds after the epoch, in April 2262, less 40 days. Databases and other programs have signed
/// numbers of nanoseconds, and an interval that begins at this time, or the month around it, ends before they overflow.
pub const LATEST: Time = Time(i64::MAX as u64 - 40 * 24 * 3600 * 1_000_000_000);

/// The facts found so far about one input of a run.
#[derive(Clone, Debug, Default)]
pub struct InputInfo {
    /// Its path, or `-`.
    pub name: String,
    /// Format; `None` until its first bytes have been read, and if they are not a capture.
    pub format: Option<Format>,
    /// Compression.
    pub compression: Compression,
    /// Link types, in the order of their first occurrence.
    pub links: Vec<LinkType>,
    /// Packets read.
    pub packets: u64,
    /// Bytes of those packets in the file.
    pub captured_bytes: u64,
    /// Blocks read (pcapng only).
    pub blocks: Blocks,
    /// The capturing machine from section headers: hardware, operating system, program.
    pub machine: Vec<String>,
    /// Comments on sections and interfaces.
    pub comments: Vec<String>,
    /// Number of comments on packets. [`Files::comments`](crate::Files::comments) returns the comments themselves.
    pub packet_comments: u64,
    /// Texts that were not kept, because there were too many or they were too long.
    pub texts_dropped: u64,
    /// Number of times that reading recovered after a corrupt record (see `ReadOptions::recover`).
    pub resumed: u64,
    /// Bytes skipped in doing so.
    pub skipped_bytes: u64,
    /// Packets whose time is after [`LATEST`], which they have instead.
    pub times_clipped: u64,
    /// The error of the input, if any.
    pub problem: Option<ReadError>,
}

/// A capture interface, as described in a file. A classic pcap file has one interface.
#[derive(Clone, Debug, Default)]
pub struct InterfaceInfo {
    /// Index of the input, in the order of the described inputs.
    pub input: usize,
    /// Name, such as `eth0`.
    pub name: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Link type of its packets.
    pub link: LinkType,
    /// Bytes kept of a packet; 0 means all.
    pub snaplen: u32,
    /// Ticks per second of its time stamps; 0 if the number exceeds 64 bits.
    pub ticks_per_second: u64,
    /// Packets that the interface received, by its last statistics block.
    pub received: Option<u64>,
    /// Packets that the interface lost, by its last statistics block.
    pub dropped: Option<u64>,
}

/// Progress of reading.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Bytes read from the inputs, before decompression.
    pub bytes: u64,
    /// Bytes that the inputs hold in all; `None` when one of them is not a regular file.
    pub total: Option<u64>,
    /// Packets handed out.
    pub packets: u64,
}
