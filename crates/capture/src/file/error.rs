//! Errors in capture files, and their severity.

use std::io;
use std::sync::Arc;

/// Severity of a [`ReadError`], from which the program's exit code is made.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Severity {
    /// Part of the input was read: results are partial (exit code 3).
    Partial,
    /// Nothing could be read: the file is missing, unreadable, or not a capture (exit code 2).
    Unreadable,
}

/// The reason why an input could not be read to its end. Each text names the error, its position (input and byte
/// offset in the capture, after decompression), and the values that would have been accepted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// No input was given, or only directories without captures.
    #[error(
        "{input}: no capture file in this directory; expected a file that starts as pcap, pcapng, gzip or zstd"
    )]
    NoCapture {
        /// The directory, or `input` if nothing was given.
        input: String,
    },
    /// The operating system refused to open or list the input.
    #[error("{input}: cannot open: {source}")]
    Open {
        /// The path.
        input: String,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// The input has no bytes, not even a file header.
    #[error("{input}: empty (0 bytes{}); expected a pcap or pcapng file header", if *.unpacked { " after decompression" } else { "" })]
    Empty {
        /// The input.
        input: String,
        /// Whether the input was compressed.
        unpacked: bool,
    },
    /// The first bytes belong to no supported format.
    #[error("{input}: not a capture: starts with {}; expected pcap (a1b2c3d4, a1b23c4d or a1b2cd34, either byte order), pcapng (0a0d0d0a), gzip (1f8b) or zstd (28b52ffd)", Hex(.found))]
    NotACapture {
        /// The input.
        input: String,
        /// Its first bytes, at most eight.
        found: Vec<u8>,
    },
    /// The format is supported, its version is not.
    #[error(
        "{input}: {format} version {major}.{minor} at byte {offset} is not supported; expected {expected}"
    )]
    Version {
        /// The input.
        input: String,
        /// `pcap` or `pcapng`.
        format: &'static str,
        /// Offset of the version, in bytes.
        offset: u64,
        /// Major version found.
        major: u16,
        /// Minor version found.
        minor: u16,
        /// Versions that are supported.
        expected: &'static str,
    },
    /// The input ends inside a header, a record or a compressed member.
    #[error("{input}: truncated at byte {offset}, after {packets} packets: {what}")]
    Truncated {
        /// The input.
        input: String,
        /// Offset of the incomplete record, in bytes.
        offset: u64,
        /// Packets before it, all returned.
        packets: u64,
        /// The part that was being read, its present length and its expected length.
        what: String,
    },
    /// A value contradicts the format.
    #[error("{input}: corrupt at byte {offset}, after {packets} packets: {what}")]
    Corrupt {
        /// The input.
        input: String,
        /// Offset of the corrupt record, in bytes.
        offset: u64,
        /// Packets before it, all returned.
        packets: u64,
        /// The value found, and what would be accepted.
        what: String,
    },
    /// The operating system failed to read on.
    #[error("{input}: cannot continue at byte {offset}, after {packets} packets: {source}")]
    Io {
        /// The input.
        input: String,
        /// Bytes read before.
        offset: u64,
        /// Packets before it, all returned.
        packets: u64,
        /// The system's message.
        source: Arc<io::Error>,
    },
}

impl ReadError {
    /// Severity of the error.
    pub fn severity(&self) -> Severity {
        match self {
            ReadError::NoCapture { .. }
            | ReadError::Open { .. }
            | ReadError::Empty { .. }
            | ReadError::NotACapture { .. }
            | ReadError::Version { .. } => Severity::Unreadable,
            // Opening a directory succeeds and the first read fails: nothing has been read.
            ReadError::Io { offset: 0, .. } => Severity::Unreadable,
            ReadError::Truncated { .. } | ReadError::Corrupt { .. } | ReadError::Io { .. } => {
                Severity::Partial
            }
        }
    }

    /// Whether reading ended at the user's request, which is not an error.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, ReadError::Io { source, .. } if super::idle::Stopped::is(source))
    }

    /// The input that the error is about.
    pub fn input(&self) -> &str {
        match self {
            ReadError::NoCapture { input }
            | ReadError::Open { input, .. }
            | ReadError::Empty { input, .. }
            | ReadError::NotACapture { input, .. }
            | ReadError::Version { input, .. }
            | ReadError::Truncated { input, .. }
            | ReadError::Corrupt { input, .. }
            | ReadError::Io { input, .. } => input,
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
