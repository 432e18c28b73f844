//! The servers that events of a run are sent to.

use super::Request;
use crate::collector::OpenOutput;
use crate::delivered::{DestinationKind, Destinations};
use crate::privileges::Account;
use crate::senders::{Process, Sender, Settings, Tries, roots};
use crate::syslog::{self, Destination, Syslog};
use crate::{private, webhook};
use std::io;
use weir_output::Output;
use weir_output::ndjson::event_line;
use weir_output::syslog::message;

/// What was opened before the privileges are dropped.
#[derive(Debug)]
pub struct Servers {
    syslog: Option<ServerOfSyslog>,
    webhook: Option<Process>,
}

/// How often an event is posted.
const POSTS: Tries = Tries::AtMost(3);

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
        let webhook = request.webhook.as_ref().map(|address| {
            open_webhook(address, request, user)
                .map_err(|error| format!("webhook {}: {error}", address.server()))
        });
        Ok(Self { syslog: syslog.transpose()?, webhook: webhook.transpose()? })
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
                    Box::new(Sender::start(syslog::NAME, process.again()?, Tries::All, message, counts)?)
                }
            };
            opened.push(OpenOutput::of_server(syslog::NAME, output, delivered));
        }
        if let Some(process) = &self.webhook {
            let delivered = destinations.of(DestinationKind::OfRun, webhook::NAME);
            let output =
                Sender::start(webhook::NAME, process.again()?, POSTS, event_line, delivered.clone())?;
            opened.push(OpenOutput::of_server(webhook::NAME, Box::new(output), delivered));
        }
        Ok(opened)
    }
}

fn open_webhook(
    address: &webhook::Address,
    request: &Request,
    user: Option<&Account>,
) -> Result<Process, String> {
    let secret = request.webhook_secret.as_ref().map(|path| {
        let bytes = private::read(path)?;
        // Editors end a file with a line break, which is not part of the key.
        let key = bytes.trim_ascii_end().to_vec();
        if key.is_empty() { Err(format!("{}: expected a key", path.display())) } else { Ok(key) }
    });
    let secret = secret.transpose()?;
    let trusted = address.is_secure().then(|| roots(request.webhook_roots.as_deref())).transpose()?;
    let settings = Settings::webhook(address.to_string(), address.place().port, secret, trusted);
    Process::start(&settings, user).map_err(|error| error.to_string())
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
