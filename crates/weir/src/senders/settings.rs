//! What a process that sends needs to know. It arrives over its socket: arguments of processes can be seen by all users.

use crate::place::Place;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time for a connection, and for each message.
const PATIENCE: Duration = Duration::from_secs(10);

/// A destination, with all that a connection to it needs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Settings {
    /// Messages of syslog over TCP, counted by octets (RFC 6587, 3.4.1).
    Stream {
        /// The server.
        place: Place,
        /// For TLS (RFC 5425), the certificates that are trusted, in PEM format.
        roots: Option<String>,
        /// Maximum time of a connection's beginning, and of writing a message.
        patience: Duration,
    },
}

impl Settings {
    /// A server of syslog; over TLS if there are certificates.
    pub fn stream(place: Place, roots: Option<String>) -> Self {
        Self::Stream { place, roots, patience: PATIENCE }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        match self {
            Self::Stream { place, .. } => place.port,
        }
    }
}
