//! The helper's side: it holds the sockets of all rings, and does what the workers request.
//!
//! The capture may be under control of a stranger, because it reads packets. It therefore gets only what [`Request`]
//! names: rings on the interfaces of the options, their state, and whether packets enter them. A message of another form
//! ends the helper. No length or address of a message is used. The number of rings is limited.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::{Errno, write};
use weir_wire::LinkType;

use super::message::{Answer, Request, Setup, State, invalid, pass, send_ready};
use super::opener::Opener;
use super::program::NOTHING;
use super::socket::Socket;
use super::{LiveError, RingOptions};

/// Rings of one worker on one interface that may exist at a time: one that is read to its end after the removal of the
/// interface, one that waits for the worker, one that keeps the place of a stopped worker, and one more.
const GENERATIONS: usize = 4;
/// Events that are taken at a time.
const EVENTS: usize = 64;
/// What a ring adds to a worker's eventfd when a block is ready.
pub(super) const BLOCK: u64 = 1;
/// What a ring adds to a worker's eventfd when its socket has an error. Blocks never add up to it between two reads: the
/// worker would need to sleep through 4,294,967,296 of them.
pub(super) const ERROR: u64 = 1 << 32;

// What an event belongs to: the capture's socket, the line of a worker from `LINE` on, a ring from `RING` on.
const CAPTURE: u64 = 0;
const LINE: u64 = 1;
const RING: u64 = 1 << 32;

/// Serves the capture at the other end of `capture` until it closes one of its sockets.
///
/// # Errors
/// A call fails, or the capture sends a message of another form.
pub(super) fn serve(capture: &OwnedFd, options: &RingOptions, workers: usize) -> io::Result<()> {
    let mut options = options.clone();
    let mut lines = Vec::new();
    loop {
        match Setup::receive(capture)? {
            Setup::Line(socket, bell) => lines.push(Line { socket, bell }),
            Setup::Filter(link, program) => options.filters.push((link, program)),
            Setup::Start => break,
        }
    }
    if lines.len() != workers {
        return Err(invalid());
    }
    let mut keeper = Keeper::new(capture, &options, lines)?;
    send_ready(capture)?;
    match keeper.run() {
        // The capture has ended while an answer was sent.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            Ok(())
        }
        other => other,
    }
}

/// The helper's ends of what it shares with a worker.
#[derive(Debug)]
struct Line {
    /// Receives requests.
    socket: OwnedFd,
    /// The eventfd(2) on which the worker waits for blocks.
    bell: OwnedFd,
}

/// The socket of a ring.
#[derive(Debug)]
struct Kept {
    socket: Socket,
    position: u32,
    worker: usize,
    index: u32,
    link: LinkType,
}

struct Keeper<'c> {
    capture: &'c OwnedFd,
    epoll: OwnedFd,
    openers: Vec<Opener>,
    lines: Vec<Line>,
    rings: HashMap<u32, Kept>,
    next: u32,
}

impl<'c> Keeper<'c> {
    fn new(capture: &'c OwnedFd, options: &RingOptions, lines: Vec<Line>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let of = epoll::EventData::new_u64;
        epoll::add(&epoll, capture, of(CAPTURE), epoll::EventFlags::IN)?;
        for (worker, line) in lines.iter().enumerate() {
            epoll::add(&epoll, &line.socket, of(LINE + worker as u64), epoll::EventFlags::IN)?;
        }
        let openers = options.interfaces.iter().map(|name| Opener::new(options, name)).collect();
        Ok(Self { capture, epoll, openers, lines, rings: HashMap::new(), next: 0 })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            for epoll::Event { flags, data } in events.iter().copied() {
                match data.u64() {
                    // After the start the capture sends nothing on this socket: it has closed it.
                    CAPTURE => return Ok(()),
                    ring if ring >= RING => self.wake((ring - RING) as u32, flags)?,
                    line => {
                        let worker = (line - LINE) as usize;
                        let Some(at) = self.lines.get(worker) else { return Err(invalid()) };
                        let Some(request) = Request::receive(&at.socket)? else { return Ok(()) };
                        self.follow(worker, request)?;
                    }
                }
            }
        }
    }

    /// Wakes the worker of a ring.
    fn wake(&self, ring: u32, flags: epoll::EventFlags) -> io::Result<()> {
        let Some(line) = self.rings.get(&ring).and_then(|kept| self.lines.get(kept.worker)) else {
            // Released by a request of the same wait.
            return Ok(());
        };
        let mut reasons = 0;
        if flags.contains(epoll::EventFlags::IN) {
            reasons += BLOCK;
        }
        if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
            reasons += ERROR;
        }
        match write(&line.bell, &reasons.to_ne_bytes()) {
            // The counter is full, so that the worker is awake.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does what a worker requests, and answers.
    fn follow(&mut self, worker: usize, request: Request) -> io::Result<()> {
        let answer = match request {
            Request::Open(position) => return self.open(worker, position),
            Request::Release(ring) => return self.release(worker, ring),
            Request::Admit(ring) => self.of(worker, ring).and_then(|kept| {
                let opener = self.openers.get(kept.position as usize).ok_or_else(invalid)?;
                opener.let_in(&kept.socket, kept.link).map(|()| Answer::Done)
            }),
            Request::Shut(ring) => self
                .of(worker, ring)
                .and_then(|kept| Ok(kept.socket.filter(&NOTHING).map(|()| Answer::Done)?)),
            Request::Look(ring) => self.of(worker, ring).and_then(Kept::state),
        };
        self.answer(worker, &answer.unwrap_or_else(failure))
    }

    /// A ring of a worker.
    fn of(&self, worker: usize, ring: u32) -> Result<&Kept, LiveError> {
        let kept = self.rings.get(&ring).filter(|kept| kept.worker == worker);
        kept.ok_or_else(|| invalid().into())
    }

    fn answer(&self, worker: usize, answer: &Answer) -> io::Result<()> {
        self.lines.get(worker).map_or_else(|| Err(invalid()), |line| answer.send(&line.socket))
    }

    /// Opens rings for all workers, and passes them to the capture.
    fn open(&mut self, worker: usize, position: u32) -> io::Result<()> {
        let Some(opener) = self.openers.get(position as usize) else {
            return self.answer(worker, &failure(invalid().into()));
        };
        let present = self.rings.values().filter(|kept| kept.position == position).count();
        if present + self.lines.len() > GENERATIONS * self.lines.len() {
            let text = "the former rings of this interface are still in use";
            return self.answer(worker, &Answer::Failed(text.to_owned()));
        }
        let sockets = match opener.sockets(self.lines.len()) {
            Ok(sockets) => sockets,
            Err(error) => return self.answer(worker, &failure(error)),
        };
        self.answer(worker, &Answer::Done)?;
        for (of, open) in sockets.into_iter().enumerate() {
            let ring = self.next;
            self.next = self.next.wrapping_add(1);
            let reasons = epoll::EventFlags::IN | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(RING + u64::from(ring));
            // Edge-triggered: the socket is readable until the worker has read the block.
            epoll::add(&self.epoll, &open.socket, data, reasons)?;
            pass(self.capture, ring, open.link, open.socket.as_fd())?;
            let kept = Kept { socket: open.socket, position, worker: of, index: open.index, link: open.link };
            self.rings.insert(ring, kept);
        }
        Ok(())
    }

    fn release(&mut self, worker: usize, ring: u32) -> io::Result<()> {
        if self.of(worker, ring).is_ok()
            && let Some(kept) = self.rings.remove(&ring)
        {
            // The mapping keeps the socket alive, and with it the registration.
            epoll::delete(&self.epoll, &kept.socket)?;
        }
        Ok(())
    }
}

impl Kept {
    fn state(&self) -> Result<Answer, LiveError> {
        let fell = self.socket.take_error()? == Some(libc::ENETDOWN);
        let up = if self.index == 0 { Some(true) } else { self.socket.is_up(self.index)? };
        Ok(Answer::State(State { up, fell, counts: self.socket.take_counts()? }))
    }
}

/// The answer for an error.
fn failure(error: LiveError) -> Answer {
    match error {
        LiveError::UnknownInterface { .. } => Answer::Absent,
        LiveError::Privilege => Answer::Denied,
        LiveError::Memory { source, .. } => Answer::Memory(source),
        other => Answer::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::afpacket::message::receive_ready;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
    use std::thread::JoinHandle;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// A helper for two workers on an interface that does not exist, its socket, and the lines.
    fn started() -> (JoinHandle<io::Result<()>>, OwnedFd, Vec<OwnedFd>) {
        let (ours, theirs) = pair();
        let options = RingOptions { interfaces: vec!["weir-absent".to_owned()], ..RingOptions::default() };
        let helper = std::thread::spawn(move || serve(&theirs, &options, 2));
        let lines = (0..2).map(|_| {
            let (line, other) = pair();
            Setup::Line(other, eventfd(0, EventfdFlags::CLOEXEC).unwrap()).send(&ours).unwrap();
            line
        });
        let lines = lines.collect();
        Setup::Start.send(&ours).unwrap();
        receive_ready(&ours).unwrap();
        (helper, ours, lines)
    }

    #[test]
    fn a_request_for_what_a_worker_does_not_have_is_refused() {
        let (helper, ours, lines) = started();
        let ask = |line: usize, request: Request| {
            request.send(&lines[line]).unwrap();
            Answer::receive(&lines[line]).unwrap()
        };
        for number in [0, 1, 7, u32::MAX] {
            for request in [Request::Admit, Request::Shut, Request::Look] {
                assert!(matches!(ask(1, request(number)), Answer::Failed(_)));
            }
            Request::Release(number).send(&lines[0]).unwrap();
        }
        for position in [1, u32::MAX] {
            assert!(matches!(ask(0, Request::Open(position)), Answer::Failed(_)));
        }
        assert!(matches!(ask(0, Request::Open(0)), Answer::Absent | Answer::Denied));
        drop(ours);
        helper.join().unwrap().unwrap();
    }

    #[test]
    fn the_helper_ends_when_any_socket_is_closed() {
        let (helper, ours, mut lines) = started();
        lines.pop();
        helper.join().unwrap().unwrap();
        drop((ours, lines));
        let (helper, ours, lines) = started();
        drop(ours);
        helper.join().unwrap().unwrap();
        drop(lines);
    }

    #[test]
    fn other_bytes_end_the_helper() {
        for bytes in [&[9, 0, 0, 0, 0][..], &[0], &[0; 6], &[3; 4000]] {
            let (helper, _ours, lines) = started();
            send(&lines[1], bytes, SendFlags::NOSIGNAL).unwrap();
            assert_eq!(helper.join().unwrap().unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        // No lines, or too few.
        let (ours, theirs) = pair();
        Setup::Start.send(&ours).unwrap();
        assert!(serve(&theirs, &RingOptions::default(), 1).is_err());
    }
}
