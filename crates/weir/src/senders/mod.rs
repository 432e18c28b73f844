//! Sends events over connections that may hang, end and return: a queue in the run, and a process that connects.
//!
//! A run that has dropped its privileges makes no sockets. A process of its own therefore holds the connection of each
//! destination: it is started before the privileges are dropped, opens no output, and connects to the port of the destination
//! alone. A thread of the run passes it one message at a time and waits for the answer, so that neither packets nor other outputs
//! wait for a server.

mod frames;
mod process;
mod queue;
mod roots;
mod settings;
mod stream;
mod webhook;

pub use process::{Process, run};
pub use queue::{Sender, Tries};
pub use roots::roots;
pub use settings::Settings;

use serde::{Deserialize, Serialize};

/// What became of a message.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Answer {
    /// It has left. A server over TCP that fails right afterwards may not have read it.
    Sent,
    /// It could not be sent now, and may be sent later; with the reason.
    Failed(String),
    /// The server does not want it, now or later; with the reason.
    Refused(String),
}

/// A server, and the connection to it.
trait Destination {
    /// Sends a message, and waits for a limited time.
    fn send(&mut self, message: &[u8]) -> Answer;

    /// Ends the connection so that the server reads all that was sent.
    fn end(&mut self) {}
}

#[cfg(test)]
mod tests;
