//! The helper process that holds the sockets of all rings, and the capture's side of it.
//!
//! A packet socket can send: each write to it is a frame on its interface. The process that parses packets therefore
//! has no such socket. The helper process holds them, and that process has only the memory of the rings (see `blocks`),
//! through which blocks go back to the kernel too. For the rest it sends requests: it has the counters of a ring, the
//! state of its interface, the filter that lets nothing in, and new rings on an interface that exists again.
//!
//! Each worker has a line of its own, a pair of Unix sockets for requests and answers, and an eventfd(2) on which it waits
//! for blocks. Thus workers do not wait for each other. One more pair passes the sockets of new rings, because mmap(2)
//! needs a descriptor. Before the first packet is read, [`RingHelper::map_apart`] moves that pair into a thread with a
//! table of descriptors of its own, which maps rings and may do nothing else.
//!
//! The helper opens rings with CAP_NET_RAW, which the capture gives up. It reads no packets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use weir_wire::LinkType;

use super::blocks::{BLOCK_BYTES, Blocks, ring_blocks};
use super::keeper::{self, ERROR};
use super::message::{Answer, Passed, Request, Setup, State, ended, invalid, receive_ready};
use super::socket::{block_signals, leave_table};
use super::{LiveError, RingOptions};

/// Maximum time for an answer. The helper waits only for the kernel.
const PATIENCE: Duration = Duration::from_secs(30);

/// The capture's handle of the helper, which ends when the value and all rings are dropped.
#[derive(Debug)]
pub struct RingHelper {
    /// One for each worker.
    lines: Vec<Line>,
    /// Rings that the helper passes. Locked while rings are opened, so that they belong to the last request.
    arrivals: Mutex<Option<Arrivals>>,
    /// Blocks of a ring.
    blocks: usize,
    runner: Runner,
}

/// The capture's ends of what a worker shares with the helper.
#[derive(Debug)]
struct Line {
    /// Sends requests, and receives their answers.
    socket: Mutex<OwnedFd>,
    /// The eventfd(2) that the helper adds to.
    bell: OwnedFd,
}

/// Where new rings are mapped.
#[derive(Debug)]
enum Arrivals {
    Here(OwnedFd),
    Apart(Receiver<io::Result<Mapped>>),
}

/// What the helper runs in.
#[derive(Debug)]
enum Runner {
    Process(Child),
    /// A thread of this process, for captures that keep their rights.
    Thread(Option<JoinHandle<()>>),
}

/// A new ring. It is closed to packets.
#[derive(Debug)]
pub(super) struct Mapped {
    pub ring: u32,
    pub link: LinkType,
    pub blocks: Blocks,
}

impl RingHelper {
    /// Starts a command whose standard input is a socket for [`RingHelper::serve`], and waits until it is ready. It needs
    /// CAP_NET_RAW, the process of the caller does not.
    ///
    /// # Errors
    /// The command cannot be started, or ends before it is ready.
    pub fn start(command: &mut Command, options: &RingOptions, workers: usize) -> io::Result<Arc<Self>> {
        let (ours, theirs) = pair()?;
        let child = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn()?;
        // Only the child may hold the other end of the pair, and a `Command` keeps it until it is dropped.
        command.stdin(Stdio::null());
        Self::begin(ours, Runner::Process(child), options, workers)
    }

    /// Starts the helper in a thread of this process, which then is not free of packet sockets.
    pub(super) fn inside(options: &RingOptions, workers: usize) -> io::Result<Arc<Self>> {
        let (ours, theirs) = pair()?;
        let bare = RingOptions { filters: Vec::new(), ..options.clone() };
        let serve = move || {
            // A failure closes the lines, which the workers report.
            let _ = keeper::serve(&theirs, &bare, workers);
        };
        let thread = std::thread::Builder::new().name("rings".to_owned()).spawn(serve)?;
        Self::begin(ours, Runner::Thread(Some(thread)), options, workers)
    }

    fn begin(ours: OwnedFd, runner: Runner, options: &RingOptions, workers: usize) -> io::Result<Arc<Self>> {
        let lines = set_up(&ours, options, workers);
        // Waits for the end of the helper if it was not set up.
        let mut helper = RingHelper {
            lines: Vec::new(),
            arrivals: Mutex::new(Some(Arrivals::Here(ours))),
            blocks: ring_blocks(options),
            runner,
        };
        helper.lines = lines?;
        Ok(Arc::new(helper))
    }

    /// Runs the helper: holds rings for the capture at the other end of `socket` until that closes one of its sockets. The
    /// filters of the options come from the capture.
    ///
    /// # Errors
    /// The capture sends a message that no capture sends, or a call fails.
    pub fn serve(socket: &OwnedFd, options: &RingOptions, workers: usize) -> io::Result<()> {
        keeper::serve(socket, options, workers)
    }

    /// Maps rings from now on in a thread that shares the memory of this process and not its descriptors. It runs
    /// `confine` first, which should leave it the calls `recvmsg`, `mmap`, `close` and those of memory and locks. No
    /// other thread can then use the socket of a ring. Call it while the process has one thread.
    ///
    /// # Errors
    /// The kernel has no table of descriptors for one thread (Linux before 5.9), the thread cannot be started, or `confine`
    /// fails. Rings are mapped nevertheless: in the thread if it has its table, otherwise as before.
    pub fn map_apart(&self, confine: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
        let mut arrivals = locked(&self.arrivals);
        let Some(Arrivals::Here(socket)) = &*arrivals else { return Ok(()) };
        let number = socket.as_raw_fd();
        let (to_this, from_mapper) = channel();
        let (to_workers, rings) = channel();
        let blocks = self.blocks;
        let mapper = move || {
            // A handler that writes to a descriptor finds none in this thread.
            block_signals();
            match leave_table(number) {
                Ok(socket) => {
                    let _ = to_this.send(Ok(confine()));
                    map_all(&socket, blocks, &to_workers);
                }
                Err(error) => {
                    let _ = to_this.send(Err(error));
                }
            }
        };
        std::thread::Builder::new().name("mapper".to_owned()).spawn(mapper)?;
        let is_confined = from_mapper.recv().map_err(|_| ended())??;
        // The socket in the table of this thread is closed, and the mapper's remains.
        *arrivals = Some(Arrivals::Apart(rings));
        is_confined
    }

    /// Process identifier (PID) of the helper process.
    pub fn process(&self) -> u32 {
        match &self.runner {
            Runner::Process(child) => child.id(),
            Runner::Thread(_) => std::process::id(),
        }
    }

    /// Rings of all workers on the interface at a position of the options, requested by a worker; `None` if the interface
    /// does not exist.
    pub(super) fn open(
        &self,
        worker: usize,
        position: u32,
        name: &str,
    ) -> Result<Option<Vec<Mapped>>, LiveError> {
        let arrivals = locked(&self.arrivals);
        match self.ask(worker, Request::Open(position))? {
            Answer::Done => {}
            Answer::Absent => return Ok(None),
            Answer::Memory(source) => return Err(self.no_memory(name, source)),
            other => return Err(refusal(other)),
        }
        let next = || match &*arrivals {
            Some(Arrivals::Here(socket)) => map_next(socket, self.blocks),
            Some(Arrivals::Apart(rings)) => rings.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(ended())),
            None => Err(ended()),
        };
        let made = self.lines.iter().map(|_| next()).collect::<io::Result<Vec<_>>>();
        made.map(Some).map_err(|source| match source.raw_os_error() {
            Some(libc::ENOMEM) => self.no_memory(name, source),
            _ => source.into(),
        })
    }

    fn no_memory(&self, name: &str, source: io::Error) -> LiveError {
        LiveError::Memory { bytes: self.blocks * BLOCK_BYTES, interface: name.to_owned(), source }
    }

    fn ask(&self, worker: usize, request: Request) -> io::Result<Answer> {
        let socket = locked(&self.line(worker)?.socket);
        request.send(&socket).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ended(),
            _ => error,
        })?;
        Answer::receive(&socket).map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionReset => ended(),
            _ => error,
        })
    }

    fn line(&self, worker: usize) -> io::Result<&Line> {
        self.lines.get(worker).ok_or_else(invalid)
    }

    /// Waits at most `timeout` until a ring of a worker has a block. Returns whether a socket has an error: an interface
    /// went down.
    pub(super) fn wait(&self, worker: usize, timeout: Duration) -> io::Result<bool> {
        let bell = &self.line(worker)?.bell;
        let mut polls = [PollFd::new(bell, PollFlags::IN)];
        let limit = Timespec::try_from(timeout).ok();
        match poll(&mut polls, limit.as_ref()) {
            // A signal interrupted the call: the caller checks its flags and calls again.
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            other => other?,
        };
        let mut value = [0; 8];
        match read(bell, &mut value) {
            Ok(_) => Ok(u64::from_ne_bytes(value) >= ERROR),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for RingHelper {
    fn drop(&mut self) {
        // The helper then reads the end of a line, and the mapper that of its socket.
        self.lines.clear();
        locked(&self.arrivals).take();
        match &mut self.runner {
            Runner::Process(child) => drop(child.wait()),
            Runner::Thread(thread) => drop(thread.take().map(JoinHandle::join)),
        }
    }
}

/// A ring that the helper holds for a worker. It is released when the value is dropped.
#[derive(Debug)]
pub(super) struct Held {
    helper: Arc<RingHelper>,
    worker: usize,
    ring: u32,
}

impl Held {
    pub fn new(helper: &Arc<RingHelper>, worker: usize, ring: u32) -> Self {
        Self { helper: Arc::clone(helper), worker, ring }
    }

    /// The state of the ring since the last call.
    pub fn look(&self) -> Result<State, LiveError> {
        match self.helper.ask(self.worker, Request::Look(self.ring))? {
            Answer::State(state) => Ok(state),
            other => Err(refusal(other)),
        }
    }

    /// Lets packets in.
    pub fn admit(&self) -> Result<(), LiveError> {
        self.done(Request::Admit(self.ring))
    }

    /// Lets no more packets in.
    pub fn shut(&self) -> Result<(), LiveError> {
        self.done(Request::Shut(self.ring))
    }

    fn done(&self, request: Request) -> Result<(), LiveError> {
        match self.helper.ask(self.worker, request)? {
            Answer::Done => Ok(()),
            other => Err(refusal(other)),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Ok(line) = self.helper.line(self.worker) {
            // A failure means that the helper has ended, and all rings with it.
            let _ = Request::Release(self.ring).send(&locked(&line.socket));
        }
    }
}

/// Maps rings until the helper or the capture ends.
fn map_all(socket: &OwnedFd, blocks: usize, to: &Sender<io::Result<Mapped>>) {
    loop {
        match map_next(socket, blocks) {
            // No ring for a while.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return,
            mapped => {
                if to.send(mapped).is_err() {
                    return;
                }
            }
        }
    }
}

/// Sends the helper what it needs before it opens rings, and waits until it is ready.
fn set_up(capture: &OwnedFd, options: &RingOptions, workers: usize) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for _ in 0..workers {
        let (socket, theirs) = pair()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Setup::Line(theirs, bell.try_clone()?).send(capture)?;
        lines.push(Line { socket: Mutex::new(socket), bell });
    }
    for (link, filter) in &options.filters {
        Setup::Filter(*link, filter.clone()).send(capture)?;
    }
    Setup::Start.send(capture)?;
    receive_ready(capture)?;
    Ok(lines)
}

/// Receives a ring and maps it. Its socket is closed, and the mapping stays.
fn map_next(socket: &OwnedFd, blocks: usize) -> io::Result<Mapped> {
    let Passed { ring, link, socket } = Passed::receive(socket)?;
    Ok(Mapped { ring, link, blocks: Blocks::map(&socket, blocks)? })
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))?;
    Ok((ours, theirs))
}

/// The error of an answer other than the expected one.
fn refusal(answer: Answer) -> LiveError {
    match answer {
        Answer::Denied => LiveError::Privilege,
        Answer::Failed(text) => LiveError::Helper(text),
        _ => invalid().into(),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere cannot leave the state inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
