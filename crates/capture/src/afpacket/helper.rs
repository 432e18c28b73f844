//! A helper process that opens rings after the capture process has given up its privileges.
//!
//! Opening a packet socket needs CAP_NET_RAW. The capture process drops that capability once its rings are open, so
//! that the code that reads packets has no privileges. An interface that is removed and created again needs new rings.
//! The helper process starts before the drop, keeps the capability, and opens them. It reads no packets: a ring is
//! closed to packets until the capture process opens it. Its only input is the position of an interface in the options
//! with which it was started.
//!
//! The two processes communicate over a pair of SOCK_SEQPACKET sockets (unix(7)). A request is the position of an
//! interface (4 bytes). The answer is one message per worker, each with the socket of a ring (SCM_RIGHTS), or a single
//! message with the reason of the failure.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, send, sendmsg, shutdown,
    socketpair,
};
use weir_wire::LinkType;

use super::ring::{OpenSocket, RingSource};
use super::socket::Socket;
use super::{LiveError, RingOptions};

/// Maximum length of a message, in bytes.
const MESSAGE: usize = 1024;
/// Maximum time for an answer. The helper waits only for the kernel.
const PATIENCE: Duration = Duration::from_secs(30);

/// First byte of a message: the helper is ready.
const READY: u8 = 0;
/// First byte of a message with a ring: link type (2 bytes) and index (4 bytes) of its interface, and its socket.
const RING: u8 = 1;
/// First byte of a message: the interface does not exist.
const ABSENT: u8 = 2;
/// First byte of a message: the rest is the text of an error.
const FAILED: u8 = 3;

/// The capture's handle of the helper process, which ends when the value is dropped.
#[derive(Debug)]
pub struct RingHelper {
    socket: Mutex<OwnedFd>,
    child: Child,
}

impl RingHelper {
    /// Starts a command whose standard input is a socket for [`RingHelper::serve`], and waits until it is ready.
    ///
    /// # Errors
    /// The command cannot be started, or ends before it is ready.
    pub fn start(command: &mut Command) -> io::Result<RingHelper> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))?;
        let child = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn()?;
        // Only the child may hold the other end of the pair, and a `Command` keeps it until it is dropped.
        command.stdin(Stdio::null());
        let helper = RingHelper { socket: Mutex::new(ours), child };
        let socket = helper.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = receive(&socket)?;
        drop(socket);
        match answer {
            Answer { kind: READY, .. } => Ok(helper),
            other => Err(other.into_error()),
        }
    }

    /// Process identifier (PID) of the helper.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Rings of all workers on the interface at a position of the options, closed to packets; `None` if the interface
    /// does not exist.
    pub(super) fn open(
        &self,
        source: &RingSource,
        workers: usize,
    ) -> Result<Option<Vec<OpenSocket>>, LiveError> {
        let refused = |error: io::Error| LiveError::Reopen {
            interface: source.name.clone(),
            reason: error.to_string(),
        };
        // The lock admits one request at a time, so that an answer belongs to the last request.
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        send(&*socket, &source.position().to_le_bytes(), SendFlags::NOSIGNAL)
            .map_err(|error| refused(error.into()))?;
        let mut made = Vec::new();
        while made.len() < workers {
            match receive(&socket).map_err(refused)? {
                Answer { kind: ABSENT, .. } => return Ok(None),
                answer => made.push(answer.into_ring().map_err(refused)?),
            }
        }
        Ok(Some(made))
    }

    /// Runs the helper process: opens rings on request until the capture closes its end of `socket`.
    ///
    /// # Errors
    /// The socket fails.
    pub fn serve(socket: &OwnedFd, options: &RingOptions, workers: usize) -> io::Result<()> {
        reply(socket, &[READY])?;
        let sources: Vec<RingSource> = (0..options.interfaces.len())
            .map(|position| RingSource::new(options, position, workers))
            .collect();
        let mut request = [0; 4];
        loop {
            let (length, _) = rustix::net::recv(socket, &mut request[..], RecvFlags::empty())?;
            if length == 0 {
                return Ok(());
            }
            match sources.get(u32::from_le_bytes(request) as usize).filter(|_| length == request.len()) {
                Some(source) => answer(socket, source.sockets(workers))?,
                None => send_failure(socket, "no interface has this position in the options")?,
            }
        }
    }
}

impl Drop for RingHelper {
    fn drop(&mut self) {
        let socket = self.socket.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The helper then reads the end of the socket. A failure means that it has ended already.
        let _ = shutdown(&*socket, Shutdown::Both);
        let _ = self.child.wait();
    }
}

fn answer(socket: &OwnedFd, made: Result<Vec<OpenSocket>, LiveError>) -> io::Result<()> {
    let made = match made {
        Ok(made) => made,
        Err(LiveError::UnknownInterface { .. }) => return reply(socket, &[ABSENT]),
        Err(error) => return send_failure(socket, &error.to_string()),
    };
    for ring in made {
        let mut message = vec![RING];
        message.extend(ring.link.0.to_le_bytes());
        message.extend(ring.index.to_le_bytes());
        let sockets = [ring.socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        sendmsg(socket, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

fn reply(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    send(socket, message, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn send_failure(socket: &OwnedFd, text: &str) -> io::Result<()> {
    let text = text.as_bytes().get(..MESSAGE - 1).unwrap_or(text.as_bytes());
    reply(socket, &[&[FAILED], text].concat())
}

/// A message of the helper.
struct Answer {
    kind: u8,
    rest: Vec<u8>,
    socket: Option<OwnedFd>,
}

fn receive(socket: &OwnedFd) -> io::Result<Answer> {
    let mut bytes = [0; MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let length = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    let Some((kind, rest)) = bytes.get(..length).and_then(<[u8]>::split_first) else {
        let text = "the process that opens interfaces has ended";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    };
    Ok(Answer { kind: *kind, rest: rest.to_vec(), socket: passed })
}

impl Answer {
    fn into_ring(self) -> io::Result<OpenSocket> {
        let Answer { kind: RING, rest, socket: Some(socket) } = self else { return Err(self.into_error()) };
        let (Some(link), Some(index)) =
            (rest.first_chunk::<2>(), rest.get(2..).and_then(<[u8]>::first_chunk::<4>))
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok(OpenSocket {
            socket: Socket::from(socket),
            link: LinkType(u16::from_le_bytes(*link)),
            index: u32::from_le_bytes(*index),
        })
    }

    fn into_error(self) -> io::Error {
        match self.kind {
            FAILED => io::Error::other(String::from_utf8_lossy(&self.rest).into_owned()),
            _ => io::ErrorKind::InvalidData.into(),
        }
    }
}
