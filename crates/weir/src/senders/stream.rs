//! Messages of syslog over TCP (RFC 6587) and TLS (RFC 5425): the number of bytes, a space, the message.

use super::roots;
use super::{Answer, Destination};
use crate::place::Place;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// Maximum time that the end of a connection waits for the server to close it.
const PARTING: Duration = Duration::from_secs(1);

/// A server of syslog. Its name is looked up again for each connection.
pub struct Stream {
    place: Place,
    /// For TLS.
    secure: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    patience: Duration,
    open: Option<Open>,
}

/// A connection.
enum Open {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Open {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Secure(stream) => &stream.sock,
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Secure(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Secure(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// Reads what has arrived, which means nothing. Returns whether the server has closed the connection: what is written to
    /// such a connection is lost without an error.
    fn is_closed(&mut self) -> bool {
        let mut bytes = [0; 4096];
        if self.socket().set_nonblocking(true).is_err() {
            return true;
        }
        let is_closed = loop {
            match self.read(&mut bytes) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error.kind() != io::ErrorKind::WouldBlock,
            }
        };
        is_closed || self.socket().set_nonblocking(false).is_err()
    }

    /// Says that nothing follows, and waits until the server closes the connection too: with unread bytes from the server the
    /// kernel would reset the connection, and what the server has not read yet would be lost.
    fn end(mut self) {
        if let Self::Secure(stream) = &mut self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Write);
        let _ = self.socket().set_read_timeout(Some(PARTING));
        let (mut socket, mut bytes) = (self.socket(), [0; 4096]);
        // A server that sends without end is not waited for.
        for _ in 0..64 {
            if !socket.read(&mut bytes).is_ok_and(|read| read > 0) {
                break;
            }
        }
    }
}

impl Stream {
    /// A server, without a connection yet; over TLS if there are certificates.
    ///
    /// # Errors
    /// The certificates cannot be read, or the host is none that a certificate can have.
    pub fn new(place: Place, roots: Option<&str>, patience: Duration) -> Result<Self, String> {
        let secure = match roots {
            Some(text) => {
                let name = ServerName::try_from(place.host.clone()).map_err(|error| error.to_string())?;
                Some((roots::client(text)?, name))
            }
            None => None,
        };
        Ok(Self { place, secure, patience, open: None })
    }

    /// Connects to the first address of the host that answers.
    fn connect(&self) -> io::Result<Open> {
        let addresses = (self.place.host.as_str(), self.place.port).to_socket_addrs()?;
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.patience) {
                Ok(socket) => return self.begin(socket),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn begin(&self, socket: TcpStream) -> io::Result<Open> {
        socket.set_write_timeout(Some(self.patience))?;
        socket.set_read_timeout(Some(self.patience))?;
        socket.set_nodelay(true)?;
        let Some((config, name)) = &self.secure else { return Ok(Open::Plain(socket)) };
        let connection = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Open::Secure(Box::new(stream)))
    }

    fn attempt(&mut self, message: &[u8]) -> io::Result<()> {
        if self.open.as_mut().is_some_and(Open::is_closed) {
            self.open = None;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect()?,
        };
        let mut frame = format!("{} ", message.len()).into_bytes();
        frame.extend_from_slice(message);
        // After a failure part of a message may have left: a new connection begins with a whole one.
        open.write(&frame)?;
        self.open = Some(open);
        Ok(())
    }
}

impl Destination for Stream {
    fn send(&mut self, message: &[u8]) -> Answer {
        match self.attempt(message) {
            Ok(()) => Answer::Sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Answer::Failed("the server does not read".to_owned())
            }
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    fn end(&mut self) {
        if let Some(open) = self.open.take() {
            open.end();
        }
    }
}
