//! Servers of syslog, and sending to those that take datagrams.
//!
//! The socket is opened before the privileges are dropped. Sending never waits: a message that cannot be sent at once is
//! counted. Connections over TCP have a process of their own.

use crate::place::Place;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use weir_api::{Event, Snapshot};
use weir_output::Output;
use weir_output::syslog::message;

/// Its name among the outputs.
pub const NAME: &str = "syslog";

/// The port of syslog over UDP (RFC 5426).
const PORT: u16 = 514;

/// The port of syslog over TCP, for which none is registered: the one that servers listen on.
const TCP_PORT: u16 = 514;

/// The port of syslog over TLS (RFC 5425).
const TLS_PORT: u16 = 6514;

/// The destination of messages.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Destination {
    /// A server, `udp:HOST` or `udp:HOST:PORT`.
    Udp(String),
    /// A server, `tcp:HOST` or `tcp:HOST:PORT`.
    Tcp(Place),
    /// A server, `tls:HOST` or `tls:HOST:PORT`.
    Tls(Place),
    /// A socket of this host, `unix:PATH`.
    Unix(PathBuf),
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(host) => write!(out, "udp:{host}"),
            Self::Tcp(place) => write!(out, "tcp:{place}"),
            Self::Tls(place) => write!(out, "tls:{place}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl std::str::FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?}: expected `udp:HOST`, `tcp:HOST` or `tls:HOST`, each also with `:PORT`, or `unix:/dev/log`"
            )
        };
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("udp", host)) if !host.is_empty() => Ok(Self::Udp(host.to_owned())),
            Some(("tcp", host)) => Place::parse(host, TCP_PORT).map(Self::Tcp).ok_or_else(wrong),
            Some(("tls", host)) => Place::parse(host, TLS_PORT).map(Self::Tls).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

/// An open socket.
#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    /// The path is given with each message, so that a restarted server is found.
    Unix(UnixDatagram, PathBuf),
}

/// Sends each row of an event as a message.
#[derive(Debug)]
pub struct Syslog {
    socket: Socket,
    /// Name of this host.
    host: String,
    /// Messages that could not be sent, and the last reason.
    lost: u64,
    failure: Option<io::Error>,
    /// Whether the last message could not be sent.
    is_failing: bool,
}

impl Syslog {
    /// Opens the socket to a server over UDP. `host` is the name of this host in messages.
    ///
    /// # Errors
    ///
    /// The name of the server is unknown, or the socket cannot be opened.
    pub fn over_udp(server: &str, host: String) -> io::Result<Self> {
        let server = address(server)?;
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        socket.set_nonblocking(true)?;
        Ok(Self::over(Socket::Udp(socket), host))
    }

    /// Opens the socket to a server of this host, at a path. `host` is the name of this host in messages.
    ///
    /// # Errors
    ///
    /// The socket cannot be opened.
    pub fn over_unix(path: &Path, host: String) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self::over(Socket::Unix(socket, path.to_owned()), host))
    }

    fn over(socket: Socket, host: String) -> Self {
        Self { socket, host, lost: 0, failure: None, is_failing: false }
    }

    /// A second handle of the socket.
    ///
    /// # Errors
    ///
    /// The process has too many open files.
    pub fn again(&self) -> io::Result<Self> {
        let socket = match &self.socket {
            Socket::Udp(socket) => Socket::Udp(socket.try_clone()?),
            Socket::Unix(socket, path) => Socket::Unix(socket.try_clone()?, path.clone()),
        };
        Ok(Self::over(socket, self.host.clone()))
    }

    fn send(&self, text: &str) -> io::Result<usize> {
        match &self.socket {
            Socket::Udp(socket) => socket.send(text.as_bytes()),
            Socket::Unix(socket, path) => socket.send_to(text.as_bytes(), path),
        }
    }
}

/// The name of this host in messages; none if they are anonymised.
pub fn name_of_host(is_anonymised: bool) -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if is_anonymised { String::new() } else { name.trim().to_owned() }
}

/// The address of a server; without a port the one of syslog.
fn address(host: &str) -> io::Result<SocketAddr> {
    let whole = host.to_socket_addrs().ok().and_then(|mut found| found.next());
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match whole.or_else(|| (bare, PORT).to_socket_addrs().ok()?.next()) {
        Some(address) => Ok(address),
        None => Err(io::Error::new(io::ErrorKind::NotFound, format!("{host}: no address of that name"))),
    }
}

impl Output for Syslog {
    fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let sent = self.send(&message(event, &self.host));
        let was_failing = std::mem::replace(&mut self.is_failing, sent.is_err());
        let Err(error) = sent else { return Ok(()) };
        self.lost += 1;
        let text = format!("syslog: {error}");
        self.failure = Some(io::Error::new(error.kind(), text.clone()));
        if was_failing { Ok(()) } else { Err(io::Error::new(error.kind(), text)) }
    }

    fn finish(&mut self) -> io::Result<()> {
        match (self.lost, self.failure.take()) {
            (0, _) => Ok(()),
            (lost, why) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                Err(io::Error::other(format!("syslog: {lost} messages were not sent{why}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_api::Subject;
    use weir_api::event::CLOCK_LEAP;

    #[test]
    fn destinations_are_parsed() {
        assert_eq!("udp:192.0.2.1".parse(), Ok(Destination::Udp("192.0.2.1".to_owned())));
        assert_eq!("unix:/dev/log".parse(), Ok(Destination::Unix("/dev/log".into())));
        for (text, whole) in [("tcp:a", "tcp:a:514"), ("tcp:a:1", "tcp:a:1"), ("tls:[::1]", "tls:[::1]:6514")]
        {
            let destination: Destination = text.parse().unwrap();
            assert_eq!(destination.to_string(), whole);
        }
        for wrong in ["", "udp:", "tcp:", "tls:a:b", "/dev/log"] {
            assert!(wrong.parse::<Destination>().unwrap_err().contains("expected"), "{wrong}");
        }
        assert_eq!(address("127.0.0.1").unwrap(), "127.0.0.1:514".parse().unwrap());
        assert_eq!(address("[::1]:5514").unwrap(), "[::1]:5514".parse().unwrap());
        assert_eq!(address("::1").unwrap(), "[::1]:514".parse().unwrap());
    }

    #[test]
    fn messages_arrive_and_those_that_cannot_are_counted() {
        let event = Event::at(&CLOCK_LEAP, Subject::Sensor, 1);
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let to = server.local_addr().unwrap().to_string();
        let mut syslog = Syslog::over_udp(&to, String::new()).unwrap().again().unwrap();
        syslog.event(&event).unwrap();
        let mut bytes = [0; 4096];
        let length = server.recv(&mut bytes).unwrap();
        assert_eq!(std::str::from_utf8(&bytes[..length]).unwrap(), message(&event, ""));
        syslog.finish().unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut syslog = Syslog::over_unix(&path, String::new()).unwrap();
        assert!(syslog.event(&event).unwrap_err().to_string().starts_with("syslog: "));
        syslog.event(&event).expect("it is reported once");
        // The server is started later.
        let server = UnixDatagram::bind(&path).unwrap();
        syslog.event(&event).unwrap();
        assert!(server.recv(&mut bytes).unwrap() > 100);
        assert!(syslog.finish().unwrap_err().to_string().starts_with("syslog: 2 messages were not sent"));
    }
}
