//! Sends events to a syslog server: the only packets that a run sends, and only if it is asked to.
//!
//! The socket is opened before the privileges are dropped. Sending never waits: a message that cannot be sent at once is
//! counted.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use weir_api::{Event, Snapshot};
use weir_output::Output;
use weir_output::syslog::message;

/// Its name among the outputs.
pub const NAME: &str = "syslog";

/// The port of syslog over UDP (RFC 5426).
const PORT: u16 = 514;

/// The destination of messages.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Destination {
    /// A server, `udp:HOST` or `udp:HOST:PORT`.
    Udp(String),
    /// A socket of this host, `unix:PATH`.
    Unix(PathBuf),
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(host) => write!(out, "udp:{host}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl std::str::FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: expected `udp:HOST`, `udp:HOST:PORT` or `unix:/dev/log`");
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("udp", host)) if !host.is_empty() => Ok(Self::Udp(host.to_owned())),
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
    /// Opens the socket. `is_anonymised` leaves the name of this host out.
    ///
    /// # Errors
    ///
    /// The name of the host is unknown, or a socket cannot be opened.
    pub fn open(destination: &Destination, is_anonymised: bool) -> io::Result<Self> {
        let socket = match destination {
            Destination::Udp(host) => {
                let server = address(host)?;
                let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(server)?;
                socket.set_nonblocking(true)?;
                Socket::Udp(socket)
            }
            Destination::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                Socket::Unix(socket, path.clone())
            }
        };
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if is_anonymised { String::new() } else { name.trim().to_owned() };
        Ok(Self { socket, host, lost: 0, failure: None, is_failing: false })
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
        Ok(Self { socket, host: self.host.clone(), lost: 0, failure: None, is_failing: false })
    }

    fn send(&self, text: &str) -> io::Result<usize> {
        match &self.socket {
            Socket::Udp(socket) => socket.send(text.as_bytes()),
            Socket::Unix(socket, path) => socket.send_to(text.as_bytes(), path),
        }
    }
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
        for wrong in ["", "udp:", "tcp:x", "/dev/log"] {
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
        let to = Destination::Udp(server.local_addr().unwrap().to_string());
        let mut syslog = Syslog::open(&to, true).unwrap().again().unwrap();
        syslog.event(&event).unwrap();
        let mut bytes = [0; 4096];
        let length = server.recv(&mut bytes).unwrap();
        assert_eq!(std::str::from_utf8(&bytes[..length]).unwrap(), message(&event, ""));
        syslog.finish().unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut syslog = Syslog::open(&Destination::Unix(path.clone()), true).unwrap();
        assert!(syslog.event(&event).unwrap_err().to_string().starts_with("syslog: "));
        syslog.event(&event).expect("it is reported once");
        // The server is started later.
        let server = UnixDatagram::bind(&path).unwrap();
        syslog.event(&event).unwrap();
        assert!(server.recv(&mut bytes).unwrap() > 100);
        assert!(syslog.finish().unwrap_err().to_string().starts_with("syslog: 2 messages were not sent"));
    }
}
