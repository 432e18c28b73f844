//! The servers that events of a run are sent to.

use super::Request;
use crate::collector::OpenOutput;
use crate::delivered::{DestinationKind, Destinations};
use crate::privileges::Account;
use crate::senders::{Process, Sender, Settings, roots};
use crate::syslog::{self, Destination, Syslog};
use std::io;
use weir_output::Output;
use weir_output::syslog::message;

/// What was opened before the privileges are dropped.
#[derive(Debug)]
pub struct Servers {
    syslog: Option<ServerOfSyslog>,
}

/// A server of syslog.
#[derive(Debug)]
enum ServerOfSyslog {
    /// For datagrams, which this process sends.
    Datagrams(Syslog),
    /// For a connection, which another process holds, with the name of this host in messages.
    Connection(Process, String),
}

impl Servers {
    /// Opens sockets, and starts the processes that send, as `user`. `is_anonymised` leaves the name of this host out of messages.
    ///
    /// # Errors
    /// A socket cannot be opened, a process cannot be started, or certificates cannot be read.
    pub fn open(request: &Request, user: Option<&Account>, is_anonymised: bool) -> Result<Self, String> {
        let syslog = request.syslog.as_ref().map(|server| {
            open_syslog(server, request, user, is_anonymised)
                .map_err(|error| format!("syslog {server}: {error}"))
        });
        Ok(Self { syslog: syslog.transpose()? })
    }

    /// The outputs, after the privileges are dropped.
    ///
    /// # Errors
    /// The process has too many open files or threads.
    pub fn outputs(&self, destinations: &Destinations) -> io::Result<Vec<OpenOutput>> {
        let mut opened = Vec::new();
        if let Some(server) = &self.syslog {
            let delivered = destinations.of(DestinationKind::OfRun, syslog::NAME);
            let output: Box<dyn Output> = match server {
                ServerOfSyslog::Datagrams(socket) => Box::new(socket.again()?),
                ServerOfSyslog::Connection(process, host) => {
                    let (host, counts) = (host.clone(), delivered.clone());
                    let message = move |event: &_| message(event, &host).into_bytes();
                    Box::new(Sender::start(syslog::NAME, process.again()?, message, counts)?)
                }
            };
            opened.push(OpenOutput::of_server(syslog::NAME, output, delivered));
        }
        Ok(opened)
    }
}

fn open_syslog(
    server: &Destination,
    request: &Request,
    user: Option<&Account>,
    is_anonymised: bool,
) -> Result<ServerOfSyslog, String> {
    let host = syslog::name_of_host(is_anonymised);
    let settings = match server {
        Destination::Udp(server) => return datagrams(Syslog::over_udp(server, host)),
        Destination::Unix(path) => return datagrams(Syslog::over_unix(path, host)),
        Destination::Tcp(place) => Settings::stream(place.clone(), None),
        Destination::Tls(place) => {
            Settings::stream(place.clone(), Some(roots(request.syslog_roots.as_deref())?))
        }
    };
    let process = Process::start(&settings, user).map_err(|error| error.to_string())?;
    Ok(ServerOfSyslog::Connection(process, host))
}

fn datagrams(socket: io::Result<Syslog>) -> Result<ServerOfSyslog, String> {
    socket.map(ServerOfSyslog::Datagrams).map_err(|error| error.to_string())
}
