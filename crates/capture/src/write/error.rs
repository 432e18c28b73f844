//! Errors of writing packets.

use std::io;
use std::path::Path;
use std::sync::Arc;

/// The reason why packets could not be written. All are output failures (exit code 4).
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The file could not be created.
    #[error("{path}: cannot create: {source}")]
    Create {
        /// The file.
        path: String,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// The disk is full.
    #[error(
        "{path}: no space left after {packets} packets ({source}); the file ends with a whole record, and writing resumes when space is free"
    )]
    Full {
        /// The file.
        path: String,
        /// Packets in the file.
        packets: u64,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// Writing failed for another reason.
    #[error("{path}: cannot write after {packets} packets: {source}")]
    Write {
        /// The file.
        path: String,
        /// Packets in the file.
        packets: u64,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// The reader of a pipe has closed it.
    #[error("{path}: the reader closed the pipe after {packets} packets")]
    Closed {
        /// The pipe.
        path: String,
        /// Packets that the reader received.
        packets: u64,
    },
    /// The finished file could not be renamed.
    #[error("cannot rename {from} to {path}: {source}")]
    Rename {
        /// The final name.
        path: String,
        /// The present name.
        from: String,
        /// The system's message.
        source: Arc<io::Error>,
    },
    /// A classic pcap file holds packets of one link type only.
    #[error(
        "{path}: a packet of link type {found} does not fit into a pcap file of {expected}; a .pcapng file holds both"
    )]
    LinkType {
        /// The file.
        path: String,
        /// The packet's link type.
        found: String,
        /// The file's link type.
        expected: String,
    },
    /// The file name has an invalid time conversion.
    #[error(
        "{pattern}: not a file name for -G: {reason}; expected strftime(3) conversions such as %Y%m%d-%H%M%S"
    )]
    Name {
        /// The given name.
        pattern: String,
        /// The error.
        reason: String,
    },
}

impl WriteError {
    /// The file, or the given name of files.
    pub fn path(&self) -> &Path {
        match self {
            WriteError::Create { path, .. }
            | WriteError::Full { path, .. }
            | WriteError::Write { path, .. }
            | WriteError::Closed { path, .. }
            | WriteError::Rename { path, .. }
            | WriteError::LinkType { path, .. }
            | WriteError::Name { pattern: path, .. } => Path::new(path),
        }
    }

    /// Whether the disk is full, or the user may write no more on it.
    pub fn is_full(&self) -> bool {
        match self {
            WriteError::Full { .. } => true,
            WriteError::Create { source, .. } => is_full(source),
            _ => false,
        }
    }

    pub(super) fn while_writing(path: &str, packets: u64, source: io::Error) -> WriteError {
        let path = path.to_owned();
        let full = is_full(&source);
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

/// Whether an error means that there is no room for a file.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}
