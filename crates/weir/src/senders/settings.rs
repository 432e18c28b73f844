//! What a process that sends needs to know. It arrives over its socket: arguments of processes can be seen by all users.

use crate::place::Place;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time for a connection, and for each message.
const PATIENCE: Duration = Duration::from_secs(10);

/// A destination, with all that a connection to it needs.
#[derive(Clone, Deserialize, Serialize)]
pub enum Settings {
    /// Messages of syslog over TCP, each after its length (RFC 6587, 3.4.1).
    Stream {
        /// The server.
        place: Place,
        /// For TLS (RFC 5425), the certificates that are trusted, in PEM format.
        roots: Option<String>,
        /// Maximum time of a connection's beginning, and of writing a message.
        patience: Duration,
    },
    /// Requests by POST.
    Webhook {
        /// The address.
        url: String,
        /// Its port.
        port: u16,
        /// Key of the signatures; without one there are none.
        secret: Option<Vec<u8>>,
        /// For HTTPS, the certificates that are trusted, in PEM format.
        roots: Option<String>,
        /// Maximum time of a request.
        patience: Duration,
    },
}

impl Settings {
    /// A server of syslog; over TLS if there are certificates.
    pub fn stream(place: Place, roots: Option<String>) -> Self {
        Self::Stream { place, roots, patience: PATIENCE }
    }

    /// A webhook, with the key of its signatures; over HTTPS if there are certificates.
    pub fn webhook(url: String, port: u16, secret: Option<Vec<u8>>, roots: Option<String>) -> Self {
        Self::Webhook { url, port, secret, roots, patience: PATIENCE }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        match self {
            Self::Stream { place, .. } => place.port,
            Self::Webhook { port, .. } => *port,
        }
    }
}
