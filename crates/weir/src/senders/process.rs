//! The process that connects: it answers each message with what became of it.

use super::settings::Settings;
use super::stream::Stream;
use super::webhook::Webhook;
use super::{Answer, Destination, frames};
use crate::exit::{Exit, complain};
use crate::privileges::{Account, helper};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Name of the subcommand.
const NAME: &str = "event-sender";

/// The socket to a process that sends. The process ends with it.
#[derive(Debug)]
pub struct Process(UnixStream);

impl Process {
    /// Starts a process for a destination, while this one may still do so. It becomes `user`.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(settings: &Settings, user: Option<&Account>) -> io::Result<Self> {
        Self::begin(helper::start_sender(NAME, user)?, settings)
    }

    fn begin(socket: UnixStream, settings: &Settings) -> io::Result<Self> {
        frames::write(&mut &socket, &serde_json::to_vec(settings)?)?;
        Ok(Self(socket))
    }

    /// Starts a thread of this process in its place.
    #[cfg(test)]
    pub fn inside(settings: &Settings) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || serve(&theirs, &settings_from(&theirs).unwrap()));
        Self::begin(ours, settings).unwrap()
    }

    /// The other end of a socket in its place, to which nothing was sent.
    #[cfg(test)]
    pub fn of(socket: UnixStream) -> Self {
        Self(socket)
    }

    /// A second handle of the socket.
    ///
    /// # Errors
    /// This process has too many open files.
    pub fn again(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Has a message sent, and waits for the answer.
    ///
    /// # Errors
    /// The process has ended.
    pub fn send(&self, message: &[u8]) -> io::Result<Answer> {
        let mut socket = &self.0;
        frames::write(&mut socket, message)?;
        let answer = frames::read(&mut socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Lets the process end its connection, and waits until it has ended.
    pub fn end(&self) {
        let mut socket = &self.0;
        let _ = socket.shutdown(Shutdown::Write);
        let _ = frames::read(&mut socket);
    }

    /// Ends all waiting for the process, in any thread.
    pub fn leave(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Runs the process, which becomes the user of these numbers.
pub fn run(user: Option<(u32, u32)>) -> Exit {
    match attempt(user) {
        Ok(()) => Exit::Good,
        Err(error) => complain(Exit::Output, format!("{NAME}: {error}")),
    }
}

fn attempt(user: Option<(u32, u32)>) -> Result<(), String> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let socket = UnixStream::from(socket);
    let settings = settings_from(&socket)?;
    let user = user.map(|(uid, gid)| Account::alone(uid, gid));
    helper::confine_sender(user.as_ref(), settings.port())?;
    serve(&socket, &settings)
}

fn settings_from(mut socket: &UnixStream) -> Result<Settings, String> {
    let text = frames::read(&mut socket).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text.unwrap_or_default()).map_err(|error| error.to_string())
}

/// Sends what the run passes until the run closes the socket.
fn serve(mut socket: &UnixStream, settings: &Settings) -> Result<(), String> {
    let mut destination = open(settings)?;
    // A run that ends in the middle of a message needs no answer.
    while let Ok(Some(message)) = frames::read(&mut socket) {
        let answer = serde_json::to_vec(&destination.send(&message)).unwrap_or_default();
        if frames::write(&mut socket, &answer).is_err() {
            break;
        }
    }
    destination.end();
    Ok(())
}

fn open(settings: &Settings) -> Result<Box<dyn Destination>, String> {
    match settings {
        Settings::Stream { place, roots, patience } => {
            Ok(Box::new(Stream::new(place.clone(), roots.as_deref(), *patience)?))
        }
        Settings::Webhook { url, secret, roots, patience, .. } => {
            Ok(Box::new(Webhook::new(url.clone(), secret.clone(), roots.as_deref(), *patience)))
        }
    }
}
