//! The messages between a capture and its helper process (see `helper`), over pairs of SOCK_SEQPACKET sockets (unix(7)).
//!
//! A request has 5 bytes: its kind, and the position of an interface or the identifier of a ring. An answer begins with
//! its kind. Numbers are little-endian.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recv, recvmsg, send, sendmsg,
};
use weir_wire::LinkType;

use super::SockFilter;
use super::socket::KernelCounts;

/// Maximum length of an answer, in bytes.
const ANSWER: usize = 1024;
/// Maximum length of a message before the start: a filter has at most 4,096 instructions (BPF_MAXINSNS).
const SETUP: usize = 4 + 8 * 4096;

// First bytes of requests.
const OPEN: u8 = 0;
const ADMIT: u8 = 1;
const SHUT: u8 = 2;
const LOOK: u8 = 3;
const RELEASE: u8 = 4;

// First bytes of answers.
const DONE: u8 = 0;
const STATE: u8 = 1;
const ABSENT: u8 = 2;
const DENIED: u8 = 3;
const MEMORY: u8 = 4;
const FAILED: u8 = 5;

// First bytes of other messages.
const LINE: u8 = 0;
const FILTER: u8 = 1;
const START: u8 = 2;
const READY: u8 = 3;
const RING: u8 = 4;

/// What a worker wants of the helper.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Request {
    /// Rings for all workers on the interface at a position of the options. After [`Answer::Done`] they follow as
    /// [`Passed`] messages.
    Open(u32),
    /// Lets packets into a ring.
    Admit(u32),
    /// Lets no more packets into a ring.
    Shut(u32),
    /// The state of a ring: [`Answer::State`].
    Look(u32),
    /// Closes a ring. There is no answer.
    Release(u32),
}

impl Request {
    pub fn send(self, to: &OwnedFd) -> io::Result<()> {
        let (kind, number) = match self {
            Request::Open(position) => (OPEN, position),
            Request::Admit(ring) => (ADMIT, ring),
            Request::Shut(ring) => (SHUT, ring),
            Request::Look(ring) => (LOOK, ring),
            Request::Release(ring) => (RELEASE, ring),
        };
        let [a, b, c, d] = number.to_le_bytes();
        put(to, &[kind, a, b, c, d])
    }

    /// The request of a message; `None` if it is none.
    fn parse(message: &[u8]) -> Option<Self> {
        let [kind, a, b, c, d] = *message else { return None };
        let number = u32::from_le_bytes([a, b, c, d]);
        Some(match kind {
            OPEN => Request::Open(number),
            ADMIT => Request::Admit(number),
            SHUT => Request::Shut(number),
            LOOK => Request::Look(number),
            RELEASE => Request::Release(number),
            _ => return None,
        })
    }

    /// Receives a request; `None` if the other side has closed the socket.
    pub fn receive(from: &OwnedFd) -> io::Result<Option<Self>> {
        // One byte more than a request, so that a longer message is not taken for one.
        let mut bytes = [0; 6];
        let (length, _) = retry(|| recv(from, &mut bytes[..], RecvFlags::empty()))?;
        match bytes.get(..length) {
            None | Some([]) => Ok(None),
            Some(message) => Request::parse(message).map(Some).ok_or_else(invalid),
        }
    }
}

/// The state of a ring since the last look.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct State {
    /// Whether the interface is up; `None` if it does not exist any more.
    pub up: Option<bool>,
    /// Whether it went down.
    pub fell: bool,
    /// The kernel's counters.
    pub counts: KernelCounts,
}

/// What the helper answers.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    State(State),
    /// The interface does not exist.
    Absent,
    /// The helper may not open packet sockets.
    Denied,
    /// The kernel has no memory for a ring.
    Memory(io::Error),
    /// The text of another error.
    Failed(String),
}

impl Answer {
    pub fn send(&self, to: &OwnedFd) -> io::Result<()> {
        let message = match self {
            Answer::Done => vec![DONE],
            Answer::State(State { up, fell, counts }) => {
                let mut message = vec![STATE, up.map_or(2, u8::from), u8::from(*fell)];
                for number in [counts.packets, counts.drops, counts.freezes] {
                    message.extend(number.to_le_bytes());
                }
                message
            }
            Answer::Absent => vec![ABSENT],
            Answer::Denied => vec![DENIED],
            Answer::Memory(error) => {
                [&[MEMORY][..], &error.raw_os_error().unwrap_or(libc::ENOMEM).to_le_bytes()].concat()
            }
            Answer::Failed(text) => {
                let text = text.as_bytes();
                [&[FAILED], text.get(..ANSWER - 1).unwrap_or(text)].concat()
            }
        };
        put(to, &message)
    }

    pub fn receive(from: &OwnedFd) -> io::Result<Self> {
        let mut bytes = [0; ANSWER];
        let (length, _) = retry(|| recv(from, &mut bytes[..], RecvFlags::empty()))?;
        let (kind, rest) = bytes.get(..length).and_then(<[u8]>::split_first).ok_or_else(ended)?;
        match (*kind, rest) {
            (DONE, []) => Ok(Answer::Done),
            (STATE, [up, fell, numbers @ ..]) => {
                let number = |at: usize| u32_at(numbers, at).ok_or_else(invalid);
                let counts = KernelCounts { packets: number(0)?, drops: number(4)?, freezes: number(8)? };
                Ok(Answer::State(State { up: (*up < 2).then_some(*up == 1), fell: *fell == 1, counts }))
            }
            (ABSENT, []) => Ok(Answer::Absent),
            (DENIED, []) => Ok(Answer::Denied),
            (MEMORY, code) => {
                let code = u32_at(code, 0).ok_or_else(invalid)?;
                Ok(Answer::Memory(io::Error::from_raw_os_error(code as i32)))
            }
            (FAILED, text) => Ok(Answer::Failed(String::from_utf8_lossy(text).into_owned())),
            _ => Err(invalid()),
        }
    }
}

/// A ring whose socket is passed so that its memory can be mapped.
#[derive(Debug)]
pub(super) struct Passed {
    pub ring: u32,
    pub link: LinkType,
    pub socket: OwnedFd,
}

/// Sends the socket of a ring, which the sender keeps.
pub(super) fn pass(to: &OwnedFd, ring: u32, link: LinkType, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut message = vec![RING];
    message.extend(ring.to_le_bytes());
    message.extend(link.0.to_le_bytes());
    put_with(to, &message, &[socket])
}

impl Passed {
    pub fn receive(from: &OwnedFd) -> io::Result<Self> {
        let mut bytes = [0; 16];
        let (message, sockets) = take(from, &mut bytes)?;
        let ([RING, rest @ ..], Ok([socket])) = (message, <[OwnedFd; 1]>::try_from(sockets)) else {
            return Err(if message.is_empty() { ended() } else { invalid() });
        };
        let link = rest.get(4..).and_then(<[u8]>::first_chunk).ok_or_else(invalid)?;
        Ok(Passed {
            ring: u32_at(rest, 0).ok_or_else(invalid)?,
            link: LinkType(u16::from_le_bytes(*link)),
            socket,
        })
    }
}

/// What the capture sends to its helper before it starts, and before it reads a packet.
#[derive(Debug)]
pub(super) enum Setup {
    /// The helper's ends of a worker's line: the socket of its requests, and the eventfd(2) that wakes it.
    Line(OwnedFd, OwnedFd),
    /// The filter for a link type.
    Filter(LinkType, Vec<SockFilter>),
    /// All is sent. The helper answers with [`send_ready`].
    Start,
}

impl Setup {
    pub fn send(&self, to: &OwnedFd) -> io::Result<()> {
        use std::os::fd::AsFd;
        match self {
            Setup::Line(socket, bell) => put_with(to, &[LINE], &[socket.as_fd(), bell.as_fd()]),
            Setup::Filter(link, program) => {
                let mut message = vec![FILTER];
                message.extend(link.0.to_le_bytes());
                for SockFilter { code, jt, jf, k } in program {
                    message.extend(code.to_le_bytes());
                    message.extend([*jt, *jf]);
                    message.extend(k.to_le_bytes());
                }
                put(to, &message)
            }
            Setup::Start => put(to, &[START]),
        }
    }

    pub fn receive(from: &OwnedFd) -> io::Result<Self> {
        let mut bytes = vec![0; SETUP];
        let (message, sockets) = take(from, &mut bytes)?;
        match message {
            [LINE] => {
                let [socket, bell] = <[OwnedFd; 2]>::try_from(sockets).map_err(|_| invalid())?;
                Ok(Setup::Line(socket, bell))
            }
            [FILTER, a, b, instructions @ ..] => {
                let (instructions, rest) = instructions.as_chunks::<8>();
                let filter = instructions.iter().map(|[c, o, jt, jf, k @ ..]| SockFilter {
                    code: u16::from_le_bytes([*c, *o]),
                    jt: *jt,
                    jf: *jf,
                    k: u32::from_le_bytes(*k),
                });
                let filter = Setup::Filter(LinkType(u16::from_le_bytes([*a, *b])), filter.collect());
                if rest.is_empty() { Ok(filter) } else { Err(invalid()) }
            }
            [START] => Ok(Setup::Start),
            [] => Err(ended()),
            _ => Err(invalid()),
        }
    }
}

/// Tells the capture that the helper has begun.
pub(super) fn send_ready(to: &OwnedFd) -> io::Result<()> {
    put(to, &[READY])
}

/// Waits until the helper has begun.
pub(super) fn receive_ready(from: &OwnedFd) -> io::Result<()> {
    let mut bytes = [0; 16];
    match take(from, &mut bytes)? {
        ([READY], _) => Ok(()),
        ([], _) => Err(ended()),
        _ => Err(invalid()),
    }
}

fn put(to: &OwnedFd, message: &[u8]) -> io::Result<()> {
    retry(|| send(to, message, SendFlags::NOSIGNAL)).map(drop)
}

fn put_with(to: &OwnedFd, message: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    retry(|| {
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(sockets));
        sendmsg(to, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)
    })
    .map(drop)
}

/// Receives a message and the descriptors in it. The message is empty if the other side has closed the socket.
fn take<'b>(from: &OwnedFd, bytes: &'b mut [u8]) -> io::Result<(&'b [u8], Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut passed = Vec::new();
    let length = retry(|| {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let received = recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(sockets) = message {
                passed.extend(sockets);
            }
        }
        Ok(received.bytes)
    })?;
    Ok((bytes.get(..length).unwrap_or_default(), passed))
}

/// Repeats a call that a signal interrupts. A socket with a time limit is not restarted by the kernel (signal(7)).
fn retry<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    Ok(rustix::io::retry_on_intr(call)?)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

/// The error of a message that the other side does not send.
pub(super) fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an unexpected message from the process that holds the rings")
}

/// The error of a closed socket.
pub(super) fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the process that holds the rings has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn requests_arrive_and_other_bytes_are_refused() {
        let (one, other) = pair();
        for request in [Request::Open, Request::Admit, Request::Shut, Request::Look, Request::Release] {
            for number in [0, 1, 0x0102_0304, u32::MAX] {
                request(number).send(&one).unwrap();
                assert_eq!(Request::receive(&other).unwrap(), Some(request(number)));
            }
        }
        for bytes in [&[0][..], &[0, 0, 0, 0], &[5, 0, 0, 0, 0], &[0; 6], &[0; 500], &[255; 5]] {
            put(&one, bytes).unwrap();
            assert_eq!(Request::receive(&other).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        drop(one);
        assert_eq!(Request::receive(&other).unwrap(), None);
    }

    #[test]
    fn answers_arrive() {
        let (one, other) = pair();
        for up in [None, Some(false), Some(true)] {
            let counts = KernelCounts { packets: u32::MAX, drops: 2, freezes: 0x0304_0506 };
            let state = State { up, fell: up.is_none(), counts };
            Answer::State(state).send(&one).unwrap();
            let answer = Answer::receive(&other).unwrap();
            assert!(matches!(answer, Answer::State(same) if same == state), "{answer:?}");
        }
        Answer::Failed("é".repeat(5000)).send(&one).unwrap();
        assert!(matches!(Answer::receive(&other), Ok(Answer::Failed(text)) if text.starts_with("éé")));
        Answer::Memory(io::Error::from_raw_os_error(libc::ENOMEM)).send(&one).unwrap();
        let answer = Answer::receive(&other).unwrap();
        assert!(matches!(&answer, Answer::Memory(e) if e.raw_os_error() == Some(libc::ENOMEM)), "{answer:?}");
        drop(one);
        assert!(Answer::receive(&other).unwrap_err().to_string().contains("has ended"));
    }

    #[test]
    fn a_filter_and_descriptors_arrive() {
        let (one, other) = pair();
        let program = vec![SockFilter { code: 0x1234, jt: 5, jf: 6, k: 0x789a_bcde }; 4096];
        Setup::Filter(LinkType::RAW, program.clone()).send(&one).unwrap();
        let got = Setup::receive(&other).unwrap();
        assert!(matches!(&got, Setup::Filter(LinkType::RAW, same) if *same == program));
        let (socket, bell) = pair();
        Setup::Line(socket, bell).send(&one).unwrap();
        let Setup::Line(socket, bell) = Setup::receive(&other).unwrap() else { panic!("a line was sent") };
        Request::Look(7).send(&socket).unwrap();
        assert_eq!(Request::receive(&bell).unwrap(), Some(Request::Look(7)));
        // A line without its descriptors.
        put(&one, &[LINE]).unwrap();
        assert_eq!(Setup::receive(&other).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
