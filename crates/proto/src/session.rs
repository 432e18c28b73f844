//! Who reads a flow: found by what is said in it.

use crate::{Expected, Heads, Out, PROTOCOLS, Parser, Probe, Protocol, Setup, Step, TCP};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Octets of both directions, in the order in which they came, by which a protocol is found; datagrams are looked at
/// whole.
const HEAD: usize = 1024;
/// Most datagrams that are kept until a protocol is found.
const DATAGRAMS: usize = 32;
/// The same of them, so that several that are large can follow each other, as those of media do.
const DATAGRAM_OCTETS: usize = 8 << 10;
/// How often a flow may turn into something else.
const TURNS: u8 = 8;

/// What is said in one flow, and who reads it.
pub struct Session {
    setup: Setup,
    state: State,
    /// Protocols that were found, the first one first.
    found: [Option<&'static Protocol>; 3],
    turns: u8,
}

enum State {
    /// Nobody has been found yet; what was said is kept.
    Probing(Vec<Piece>),
    /// It is read.
    Known(Box<dyn Parser>),
    /// Nobody can read it, or nobody can any more.
    Unknown,
}

/// A chunk that waits.
struct Piece {
    time: Time,
    direction: Direction,
    gap: u64,
    data: Vec<u8>,
}

impl Piece {
    fn of(chunk: &Chunk<'_>) -> Self {
        Self { time: chunk.time, direction: chunk.direction, gap: chunk.gap, data: chunk.data.to_vec() }
    }

    fn chunk(&self) -> Chunk<'_> {
        Chunk { time: self.time, direction: self.direction, gap: self.gap, data: &self.data }
    }
}

impl Session {
    /// Of a flow that nothing is known of.
    pub fn new(setup: Setup) -> Self {
        Self { setup, state: State::Probing(Vec::new()), found: [None; 3], turns: 0 }
    }

    /// Of a flow that was announced.
    pub fn expected(setup: Setup, expected: Expected) -> Self {
        let mut session = Self::new(setup);
        session.enter(expected.protocol, expected.parser);
        session
    }

    /// Takes the next chunk of either direction.
    pub fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) {
        match &mut self.state {
            State::Known(parser) => {
                let step = parser.chunk(chunk, out);
                self.follow(step, chunk, out);
            }
            State::Probing(_) => self.probe(chunk, out),
            State::Unknown => {}
        }
    }

    /// Ends the flow. What nobody was sure of is for whom the port belongs to.
    pub fn end(&mut self, time: Time, out: &mut dyn Out) {
        if let State::Probing(pieces) = &mut self.state {
            let pieces = std::mem::take(pieces);
            let (forward, reverse) = said(&pieces, self.head());
            match self.decide(&forward, &reverse, true) {
                Verdict::Found(protocol) => self.begin(protocol, &pieces, out),
                Verdict::Wait | Verdict::Nobody => self.state = State::Unknown,
            }
        }
        self.leave(time, out);
    }

    /// Whether it is clear that nobody reads the flow.
    pub fn is_unknown(&self) -> bool {
        matches!(self.state, State::Unknown)
    }

    /// The protocols that were found, in the order in which they were.
    pub fn found(&self) -> impl Iterator<Item = &'static Protocol> {
        self.found.into_iter().flatten()
    }

    /// Octets of heap memory that are held, roughly.
    pub fn memory(&self) -> usize {
        match &self.state {
            State::Probing(pieces) => {
                pieces.iter().map(|piece| piece.data.capacity() + size_of::<Piece>()).sum()
            }
            State::Known(parser) => parser.memory(),
            State::Unknown => 0,
        }
    }

    fn probe(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let is_stream = self.setup.ip_proto == TCP;
        let State::Probing(pieces) = &mut self.state else { return };
        let mut pieces = std::mem::take(pieces);
        if pieces.is_empty() {
            // Most flows say at once what they are: nothing is copied then.
            let head = chunk.data.get(..self.head()).unwrap_or(chunk.data);
            let (forward, reverse) = match chunk.direction {
                Direction::Forward => (head, &[][..]),
                Direction::Reverse => (&[][..], head),
            };
            match self.decide(forward, reverse, chunk.data.len() >= self.most()) {
                Verdict::Found(protocol) => {
                    self.enter(protocol, (protocol.parser)(&self.setup));
                    return self.chunk(chunk, out);
                }
                Verdict::Nobody => {
                    self.state = State::Unknown;
                    return;
                }
                Verdict::Wait => {}
            }
        }
        match pieces.last_mut() {
            // What came at one time is one piece, however it was cut.
            Some(last)
                if is_stream
                    && (last.direction, last.time) == (chunk.direction, chunk.time)
                    && chunk.gap == 0 =>
            {
                last.data.extend_from_slice(chunk.data);
            }
            _ => pieces.push(Piece::of(chunk)),
        }
        let (forward, reverse) = said(&pieces, self.head());
        let octets = forward.len() + reverse.len();
        let is_full = octets >= self.most() || !is_stream && pieces.len() >= DATAGRAMS;
        match self.decide(&forward, &reverse, is_full) {
            Verdict::Found(protocol) => self.begin(protocol, &pieces, out),
            Verdict::Nobody => self.state = State::Unknown,
            Verdict::Wait => self.state = State::Probing(pieces),
        }
    }

    /// Octets by which a protocol is found.
    fn head(&self) -> usize {
        if self.setup.ip_proto == TCP { HEAD } else { usize::MAX }
    }

    /// Octets beyond which no more are waited for.
    fn most(&self) -> usize {
        if self.setup.ip_proto == TCP { HEAD } else { DATAGRAM_OCTETS }
    }

    /// Who speaks so; `is_all`: nothing more will be known.
    fn decide(&self, forward: &[u8], reverse: &[u8], is_all: bool) -> Verdict {
        if forward.is_empty() && reverse.is_empty() {
            return Verdict::Wait;
        }
        let ports = [self.setup.initiator.1, self.setup.responder.1];
        let heads = Heads { forward, reverse, ports, ip_proto: self.setup.ip_proto };
        let spoken = PROTOCOLS.iter().filter(|protocol| protocol.transport.covers(self.setup.ip_proto));
        let (mut maybe, mut at_home) = (false, None);
        // Those whose port it is are asked first.
        let is_home = |protocol: &Protocol| ports.iter().any(|port| protocol.ports.contains(port));
        for home in [true, false] {
            for protocol in spoken.clone().filter(|protocol| is_home(protocol) == home) {
                match (protocol.probe)(&heads) {
                    Probe::Match => return Verdict::Found(protocol),
                    Probe::Maybe => {
                        maybe = true;
                        at_home = at_home.or(home.then_some(*protocol));
                    }
                    Probe::Reject => {}
                }
            }
        }
        match (maybe, is_all, at_home) {
            (true, false, _) => Verdict::Wait,
            (true, true, Some(protocol)) => Verdict::Found(protocol),
            _ => Verdict::Nobody,
        }
    }

    /// Lets a new parser read what was kept.
    fn begin(&mut self, protocol: &'static Protocol, pieces: &[Piece], out: &mut dyn Out) {
        self.enter(protocol, (protocol.parser)(&self.setup));
        for piece in pieces {
            self.chunk(&piece.chunk(), out);
        }
    }

    fn enter(&mut self, protocol: &'static Protocol, parser: Box<dyn Parser>) {
        let is_new = !self.found().any(|found| std::ptr::eq(found, protocol));
        if let Some(place) = self.found.iter_mut().find(|place| place.is_none()).filter(|_| is_new) {
            *place = Some(protocol);
        }
        self.state = State::Known(parser);
    }

    /// Ends the parser, if there is one.
    fn leave(&mut self, time: Time, out: &mut dyn Out) {
        if let State::Known(mut parser) = std::mem::replace(&mut self.state, State::Unknown) {
            parser.end(time, out);
        }
    }

    fn follow(&mut self, step: Step, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let (protocol, unread) = match step {
            Step::Next => return,
            Step::GiveUp => return self.leave(chunk.time, out),
            Step::Become { protocol, unread } => (protocol, unread),
        };
        self.leave(chunk.time, out);
        self.turns += 1;
        if self.turns > TURNS {
            return;
        }
        match protocol {
            Some(protocol) => self.enter(protocol, (protocol.parser)(&self.setup)),
            None => self.state = State::Probing(Vec::new()),
        }
        let read = chunk.data.len().saturating_sub(unread);
        if let Some(rest) = chunk.data.get(read..).filter(|rest| !rest.is_empty()) {
            self.chunk(&Chunk { gap: 0, data: rest, ..*chunk }, out);
        }
    }
}

/// Who speaks.
enum Verdict {
    Found(&'static Protocol),
    /// More has to be said.
    Wait,
    Nobody,
}

/// What each side has said, as far as it counts: however the stream was cut, that is the same.
fn said(pieces: &[Piece], most: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut forward, mut reverse) = (Vec::new(), Vec::new());
    for piece in pieces {
        let room = most - forward.len() - reverse.len();
        let head = piece.data.get(..room).unwrap_or(&piece.data);
        match piece.direction {
            Direction::Forward => forward.extend_from_slice(head),
            Direction::Reverse => reverse.extend_from_slice(head),
        }
    }
    (forward, reverse)
}
