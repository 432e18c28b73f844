//! Errors of writing packets.

use std::io;
use std::sync::Arc;

/// Why packets could not be written. All of them are output failures (exit code 4).
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The file could not be made.
    #[error("{path}: cannot create: {source}")]
    Create {
        /// The file.
        path: String,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// There is no room left.
    #[error(
        "{path}: no space left after {packets} packets ({source}); the file ends on a whole record, and writing resumes when there is room"
    )]
    Full {
        /// The file.
        path: String,
        /// Packets that it holds.
        packets: u64,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// Writing failed for another reason.
    #[error("{path}: cannot write after {packets} packets: {source}")]
    Write {
        /// The file.
        path: String,
        /// Packets that it holds.
        packets: u64,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// The reader of a pipe has gone.
    #[error("{path}: the reader has gone after {packets} packets")]
    Closed {
        /// The pipe.
        path: String,
        /// Packets that it took.
        packets: u64,
    },
    /// The finished file could not be given its name.
    #[error("cannot rename {from} to {path}: {source}")]
    Rename {
        /// The name that it should have.
        path: String,
        /// The name that it has.
        from: String,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// A classic pcap file holds packets of one link type only.
    #[error(
        "{path}: a packet of link type {found} does not fit into a pcap file of {expected}; a name that ends in .pcapng holds both"
    )]
    LinkType {
        /// The file.
        path: String,
        /// The packet's link type.
        found: String,
        /// The file's link type.
        expected: String,
    },
    /// The time in a file name cannot be written.
    #[error(
        "{pattern}: not a file name for -G: {reason}; expected strftime(3) conversions such as %Y%m%d-%H%M%S"
    )]
    Name {
        /// The name as it was given.
        pattern: String,
        /// The error.
        reason: String,
    },
}

impl WriteError {
    pub(super) fn while_writing(path: &str, packets: u64, source: io::Error) -> WriteError {
        let path = path.to_owned();
        let full = matches!(source.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG));
        let source = Arc::new(source);
        if full {
            WriteError::Full { path, packets, source }
        } else if source.kind() == io::ErrorKind::BrokenPipe {
            WriteError::Closed { path, packets }
        } else {
            WriteError::Write { path, packets, source }
        }
    }
}
