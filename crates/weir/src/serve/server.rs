//! Connections: limited in number and idle time, with or without TLS.

use super::counts::Counts;
use super::owner::Owners;
use super::rights::network;
use super::shares::{Share, Shares};
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Maximum connections, event streams excluded.
const CONNECTIONS: usize = 512;
/// Those of one address, counted before TLS and before a password is looked at.
const CONNECTIONS_OF_ONE: usize = 256;
/// How long a client may take to say what it wants, the handshake of TLS among it.
const HEAD: Duration = Duration::from_secs(10);
/// Time after which a client that does not read its answer is disconnected.
const UNREAD: Duration = Duration::from_secs(20);
/// Bytes of a request's head, and of an answer waiting for the client. The kernel buffers as much again.
const BUFFER: usize = 32 << 10;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A connection, as routes see it.
pub struct Connection {
    /// Its place among all connections and its part of the share of its address, until it becomes a stream.
    place: Mutex<Option<(OwnedSemaphorePermit, Share<IpAddr>)>>,
    peer: SocketAddr,
    own: Option<SocketAddr>,
    owner: OnceCell<Option<u32>>,
}

impl Connection {
    /// Events are read on it: its place is free for another one. Streams have limits of their own.
    pub fn is_stream(&self) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Where it comes from.
    pub fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// The user of this machine whose connection it is, where it is one of this machine. Found once.
    pub async fn owner(&self, owners: &Arc<Owners>) -> Option<u32> {
        let (peer, own) = (self.peer, self.own?);
        let find = || async {
            let owners = Arc::clone(owners);
            tokio::task::spawn_blocking(move || owners.of(peer, own)).await.ok().flatten()
        };
        *self.owner.get_or_init(find).await
    }
}

/// What all listeners share.
pub struct Room {
    /// Places of connections.
    places: Arc<Semaphore>,
    /// What one address may have of them.
    shares: Arc<Shares<IpAddr>>,
    /// Counts those that are refused.
    counts: Arc<Counts>,
}

impl Room {
    /// Room for all connections.
    pub fn new(counts: Arc<Counts>) -> Arc<Room> {
        Arc::new(Room {
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            shares: Shares::new(usize::MAX, CONNECTIONS_OF_ONE),
            counts,
        })
    }
}

/// Binds the port on both loopback addresses, or on one address.
///
/// # Errors
/// The error of the operating system.
pub fn bind(address: Option<IpAddr>, port: u16) -> io::Result<Vec<TcpListener>> {
    match address {
        Some(address) => Ok(vec![listen(SocketAddr::new(address, port))?]),
        None => {
            let first = listen((Ipv4Addr::LOCALHOST, port).into())?;
            // With port 0 the system has chosen one.
            let port = first.local_addr()?.port();
            match listen((Ipv6Addr::LOCALHOST, port).into()) {
                Ok(second) => Ok(vec![first, second]),
                // The machine may have no IPv6.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
                Err(_) => Ok(vec![first]),
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of an earlier run may still be closing.
    socket.set_reuseaddr(true)?;
    // An unread answer must not fill megabytes of kernel memory before it is noticed.
    socket.set_send_buffer_size(BUFFER as u32)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Takes connections until the runtime ends.
pub async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, pages: Router, room: Arc<Room>) {
    loop {
        let Ok(place) = Arc::clone(&room.places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => match room.shares.take(network(peer.ip())) {
                Ok(share) => {
                    let connection = Connection {
                        place: Mutex::new(Some((place, share))),
                        peer,
                        own: stream.local_addr().ok(),
                        owner: OnceCell::new(),
                    };
                    tokio::spawn(serve(stream, Arc::new(connection), tls.clone(), pages.clone()));
                }
                // Before TLS and before a byte is read: closing it is all that it costs.
                Err(_) => room.counts.refused_connections.one(),
            },
            // No descriptors left, or a client that has gone already.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve(stream: TcpStream, connection: Arc<Connection>, tls: Option<TlsAcceptor>, pages: Router) {
    let _ = stream.set_nodelay(true);
    let wire = Wire { stream, stalled: None };
    match tls {
        None => answer(wire, pages, connection).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HEAD, tls.accept(wire)).await {
                answer(stream, pages, connection).await;
            }
        }
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: S,
    pages: Router,
    connection: Arc<Connection>,
) {
    let pages = TowerToHyperService::new(pages);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&connection));
        pages.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER).max_headers(64);
    // An error ends only this connection.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

/// A connection that is closed when the client stops reading.
struct Wire {
    stream: TcpStream,
    /// Runs while the client does not read.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    fn watched<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled =
            self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + UNREAD)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watched(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
