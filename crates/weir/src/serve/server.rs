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

/// Maximum number of connections, excluding event streams.
const CONNECTIONS: usize = 512;
/// Maximum number of connections of one address, counted before TLS and authentication.
const CONNECTIONS_OF_ONE: usize = 256;
/// Maximum time for a client to send the head of a request, including the TLS handshake.
const HEAD: Duration = Duration::from_secs(10);
/// Time after which a client that does not read its answer is disconnected.
const UNREAD: Duration = Duration::from_secs(20);
/// Maximum size of a request's head, and of the buffered part of an answer. The kernel buffers as much again.
const BUFFER: usize = 32 << 10;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// The properties of a connection that routes use.
pub struct Connection {
    /// The connection's place among all connections, and in the limit of its address, until it becomes an event
    /// stream.
    place: Mutex<Option<(OwnedSemaphorePermit, Share<IpAddr>)>>,
    peer: SocketAddr,
    own: Option<SocketAddr>,
    owner: OnceCell<Option<u32>>,
}

impl Connection {
    /// Marks the connection as an event stream, which frees its place. Streams have separate limits.
    pub fn is_stream(&self) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Address of the client.
    pub fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// The local user of a connection from this machine, looked up once.
    pub async fn owner(&self, owners: &Arc<Owners>) -> Option<u32> {
        let (peer, own) = (self.peer, self.own?);
        let find = || async {
            let owners = Arc::clone(owners);
            tokio::task::spawn_blocking(move || owners.of(peer, own)).await.ok().flatten()
        };
        *self.owner.get_or_init(find).await
    }
}

/// Limits shared by all listeners.
pub struct Room {
    /// Free places of all connections.
    places: Arc<Semaphore>,
    /// Limits per address.
    shares: Arc<Shares<IpAddr>>,
    /// Counts refused connections.
    counts: Arc<Counts>,
}

impl Room {
    /// Limits without connections.
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
            // With port 0 the system has chosen the port.
            let port = first.local_addr()?.port();
            match listen((Ipv6Addr::LOCALHOST, port).into()) {
                Ok(second) => Ok(vec![first, second]),
                // The machine may lack IPv6.
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

/// Accepts connections until the runtime ends.
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
                // Closing the connection before TLS and before reading a byte is cheap.
                Err(_) => room.counts.refused_connections.one(),
            },
            // No descriptors are left, or the client has disconnected already.
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
