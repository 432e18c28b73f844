//! What carries the messages of a handshake.

/// The carrier of the messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Over {
    Stream,
    Datagrams,
    Quic,
}

impl Over {
    /// The first letter of JA4.
    pub fn letter(self) -> char {
        match self {
            Self::Stream => 't',
            Self::Datagrams => 'd',
            Self::Quic => 'q',
        }
    }
}
