//! The parser of a flow, identified by payload.

use crate::early::begin_transaction;
use crate::elsewhere::may_be;
use crate::home::{Home, Kind};
use crate::identified::is_only_identified;
use crate::names::Names;
use crate::place::{Places, Placing};
use crate::turned::{self, Turned};
use crate::work::looked_at;
use crate::{
    ALONE, ANNOUNCING, ELSEWHERE, Expected, Heads, Out, PROTOCOLS, Parser, Probe, Protocol, Setup, Step, TCP,
    TURNING, Turning, UDP, Wants, stun, tls,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Number of bytes of both directions, in order of arrival, that identify a protocol; datagrams are read whole.
const HEAD: usize = 1024;
/// Maximum number of datagrams that are kept until a protocol is identified.
const DATAGRAMS: usize = 32;
/// Number of bytes of datagrams that identify a protocol, enough for several consecutive large ones, as in media.
const DATAGRAM_BYTES: usize = 8 << 10;
/// Maximum number of times that a flow may switch its protocol.
const TURNS: u8 = 8;
/// Number of bytes of an unidentified stream, of both directions together, in which a TLS handshake may begin: after the
/// negotiation of a protocol that is not parsed here, or after the header of a proxy.
const WATCHED: usize = 4 << 10;
/// Number of further datagrams of an unidentified flow that are probed for the protocols of its ports.
const TRIES: u8 = 8;

/// The parser of one flow, and its state.
///
/// There is one session for each flow, so that values needed only for identification are not stored: the caller passes
/// the same values at each call.
pub struct Session {
    state: State,
    pub(crate) found: Names,
    turns: u8,
    marks: Marks,
    places: Places,
}

/// What holds for a session: each flow has one, so that a mark takes a bit.
#[derive(Clone, Copy, Default)]
struct Marks(u8);

impl Marks {
    /// It is a part of a [`Home`]: it gets the datagrams of one kind.
    const PART: u8 = 1;
    /// The parser gets a stream: datagrams are messages.
    const STREAM: u8 = 2;
    /// The server is the initiator: see [`turned`].
    const TURNED: u8 = 4;
    /// The flow may announce flows between other hosts, unless it is unidentified or shared.
    const ANNOUNCES: u8 = 8;

    fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    fn set(&mut self, mark: u8, holds: bool) {
        self.0 = if holds { self.0 | mark } else { self.0 & !mark };
    }
}

enum State {
    /// Not identified yet; the payload is kept.
    Probing(Vec<Piece>),
    /// Identified and parsed.
    Identified(Box<dyn Parser>),
    /// Datagrams of protocols that share the ports.
    Shared(Box<Home>),
    /// A stream in which a TLS handshake may begin: unidentified, or of a protocol that is not parsed.
    Watched(Box<Watch>),
    /// Unidentified datagrams, and the number of further ones that are probed: each stands alone.
    Again(u8),
    /// Unidentified, not parsed any more, or not requested.
    Unknown,
}

/// A chunk that is kept for identification.
struct Piece {
    /// Bytes of each direction that had arrived before it.
    before: [u64; 2],
    time: Time,
    direction: Direction,
    gap: u64,
    data: Vec<u8>,
}

impl Piece {
    fn of(chunk: &Chunk<'_>, places: &Places) -> Self {
        let before = places.before(chunk.direction, chunk.data.len());
        Self {
            before,
            time: chunk.time,
            direction: chunk.direction,
            gap: chunk.gap,
            data: chunk.data.to_vec(),
        }
    }

    fn chunk(&self) -> Chunk<'_> {
        Chunk { time: self.time, direction: self.direction, gap: self.gap, data: &self.data }
    }
}

/// The search for a client hello in a stream, whichever side sends it.
struct Watch {
    /// Number of bytes that are still searched.
    left: usize,
    /// The last bytes of each direction, with which a client hello may begin.
    tails: [Vec<u8>; 2],
}

impl Default for Watch {
    fn default() -> Self {
        Self { left: WATCHED, tails: [Vec::new(), Vec::new()] }
    }
}

impl Watch {
    /// The bytes from a client hello on, if one begins in this chunk or at the end of the chunk before.
    fn hello(&mut self, chunk: &Chunk<'_>) -> Option<Vec<u8>> {
        let [forward, reverse] = &mut self.tails;
        let tail = if chunk.direction == Direction::Forward { forward } else { reverse };
        if chunk.gap > 0 {
            tail.clear();
        }
        let (searched, rest) = chunk.data.split_at(chunk.data.len().min(self.left));
        self.left -= searched.len();
        let mut bytes = std::mem::take(tail);
        bytes.extend_from_slice(searched);
        looked_at(searched.len());
        match tls::client_hello(&bytes, WATCHED) {
            tls::Hello::Whole(at) => {
                bytes.drain(..at);
                bytes.extend_from_slice(rest);
                Some(bytes)
            }
            tls::Hello::Perhaps(at) => {
                bytes.drain(..at);
                *tail = bytes;
                None
            }
        }
    }
}

impl Session {
    /// A session of a flow that is not identified yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A session of an expected flow.
    pub fn expected(expected: Expected, wants: Wants) -> Self {
        debug_assert!(
            crate::ANNOUNCED.iter().any(|known| known.name == expected.protocol.name),
            "not in ANNOUNCED"
        );
        let mut session = Self::new();
        session.enter(expected.protocol, expected.parser, wants, expected.ip_proto);
        session
    }

    /// A session of the datagrams of one kind.
    pub(crate) fn part() -> Self {
        Self { marks: Marks(Marks::PART), ..Self::default() }
    }

    /// Takes the next chunk of either direction; `setup` describes the flow.
    pub fn chunk(&mut self, chunk: &Chunk<'_>, setup: &dyn Fn() -> Setup, out: &mut dyn Out) {
        self.places.arrive(chunk.direction, chunk.gap, chunk.data.len());
        self.read(chunk, setup, out);
    }

    /// Takes a datagram of the flow before which these numbers of bytes of each direction had arrived.
    pub(crate) fn datagram(
        &mut self,
        before: [u64; 2],
        chunk: &Chunk<'_>,
        setup: &dyn Fn() -> Setup,
        out: &mut dyn Out,
    ) {
        self.places.go_to(before);
        self.chunk(chunk, setup, out);
    }

    /// Reads a chunk that has arrived.
    fn read(&mut self, chunk: &Chunk<'_>, setup: &dyn Fn() -> Setup, out: &mut dyn Out) {
        match &mut self.state {
            State::Identified(parser) => {
                if !self.marks.has(Marks::STREAM) {
                    self.places.message(chunk.direction, 0);
                }
                let side = Some(chunk.direction);
                match parser.chunk(
                    chunk,
                    &mut Placing { out, places: &mut self.places, side, found: &mut self.found },
                ) {
                    Step::Next => {}
                    Step::GiveUp => self.leave(chunk.time, out),
                    Step::SwitchTo { protocol, unread } => self.turn(protocol, unread, chunk, setup, out),
                }
            }
            State::Probing(_) => self.probe(chunk, setup, out),
            State::Shared(home) => {
                let before = self.places.before(chunk.direction, chunk.data.len());
                if home.chunk(before, chunk, setup, out) {
                    self.keep_found();
                }
            }
            State::Watched(watch) => match watch.hello(chunk) {
                Some(data) => {
                    self.enter(&tls::PROTOCOL, (tls::PROTOCOL.parser)(&setup()), setup().wants, TCP);
                    self.places.begin(chunk.direction, data.len());
                    self.read(&Chunk { gap: 0, data: &data, ..*chunk }, setup, out);
                }
                None if watch.left == 0 => self.state = State::Unknown,
                None => {}
            },
            State::Again(left) => {
                let (flow_ref, left) = (setup(), left.saturating_sub(1));
                match at_home(&flow_ref, chunk) {
                    Some(protocol) => {
                        let piece = Piece::of(chunk, &self.places);
                        self.begin(protocol, &[piece], &flow_ref, setup, out);
                    }
                    None if left == 0 => self.state = State::Unknown,
                    None => self.state = State::Again(left),
                }
            }
            State::Unknown => {}
        }
    }

    /// Takes note that the payload so far belongs to no protocol, and looks at it and at what follows for one that begins
    /// later.
    fn miss(&mut self, pieces: &[Chunk<'_>], flow_ref: &Setup, setup: &dyn Fn() -> Setup, out: &mut dyn Out) {
        self.state = match flow_ref.ip_proto {
            TCP => State::Watched(Box::default()),
            _ if Homes::of_all().of_flow(flow_ref) != 0 => State::Again(TRIES),
            _ => State::Unknown,
        };
        if flow_ref.ip_proto == TCP {
            self.take_back(pieces.iter());
            pieces.iter().for_each(|piece| self.chunk(piece, setup, out));
        }
    }

    /// Ends the flow. Undecided payload goes to the protocol of the port.
    pub fn end(&mut self, time: Time, setup: &dyn Fn() -> Setup, out: &mut dyn Out) {
        if let State::Probing(pieces) = &mut self.state {
            let (pieces, flow_ref) = (std::mem::take(pieces), setup());
            let (forward, reverse) = payload_of(&pieces, head_of(&flow_ref));
            match self.decide(&flow_ref, &forward, &reverse, true) {
                Verdict::Found(protocol) => self.begin(protocol, &pieces, &flow_ref, setup, out),
                Verdict::Wait | Verdict::Unidentified => self.state = State::Unknown,
            }
        }
        if let State::Shared(home) = &mut self.state {
            home.end(time, setup, out);
            self.keep_found();
        }
        self.leave(time, out);
    }

    /// Takes over the protocols that the parts have found.
    fn keep_found(&mut self) {
        let State::Shared(home) = &self.state else { return };
        home.places().for_each(|place| self.found.add_place(place));
    }

    /// Ends the parsing before the flow ends: incomplete transactions are emitted and memory is released.
    pub fn stop(&mut self, time: Time, out: &mut dyn Out) {
        if let State::Shared(home) = &mut self.state {
            home.stop(time, out);
        }
        self.leave(time, out);
    }

    /// Whether the flow is known to be unidentified.
    pub fn is_unidentified(&self) -> bool {
        matches!(self.state, State::Unknown)
    }

    /// Whether the flow is, or may be, of a protocol that announces flows between other hosts.
    #[inline]
    pub fn may_announce(&self) -> bool {
        match &self.state {
            State::Probing(_) | State::Identified(_) => self.marks.has(Marks::ANNOUNCES),
            State::Shared(home) => home.may_announce(),
            State::Watched(_) | State::Again(_) | State::Unknown => false,
        }
    }

    /// Number of bytes of a side that have arrived, missing ones included: the position after them in a [`Span`](crate::Span).
    pub fn arrived(&self, side: Direction) -> u64 {
        self.places.arrived(side)
    }

    /// The identified protocols, in the order of identification.
    pub fn found(&self) -> impl Iterator<Item = &'static Protocol> {
        self.places().filter_map(|place| PROTOCOLS.get(usize::from(place) - 1)).copied()
    }

    /// The protocols as their positions in [`PROTOCOLS`], plus 1.
    pub fn places(&self) -> impl Iterator<Item = u8> + use<> {
        self.found.places()
    }

    /// Approximate heap memory in bytes.
    pub fn memory(&self) -> usize {
        match &self.state {
            State::Probing(pieces) => {
                pieces.iter().map(|piece| piece.data.capacity() + size_of::<Piece>()).sum()
            }
            State::Identified(parser) => size_of_val(&**parser) + parser.memory(),
            State::Shared(home) => size_of::<Home>() + home.memory(),
            State::Watched(watch) => {
                size_of::<Watch>() + watch.tails.iter().map(Vec::capacity).sum::<usize>()
            }
            State::Again(_) | State::Unknown => 0,
        }
    }

    /// Prefetches the memory that the next chunk needs. The returned value only keeps the compiler from removing the
    /// read.
    #[inline]
    pub fn touch(&self) -> u64 {
        match &self.state {
            State::Identified(parser) => parser.touch(),
            State::Shared(home) => home.touch(),
            _ => 0,
        }
    }

    fn probe(&mut self, chunk: &Chunk<'_>, setup: &dyn Fn() -> Setup, out: &mut dyn Out) {
        let flow_ref = setup();
        let is_stream = flow_ref.ip_proto == TCP;
        let max = if is_stream { HEAD } else { DATAGRAM_BYTES };
        let State::Probing(pieces) = &mut self.state else { return };
        let mut pieces = std::mem::take(pieces);
        if !is_stream && !self.marks.has(Marks::PART) && !pieces.is_empty() && stun::is_message(chunk.data) {
            // What came before shares the ports.
            pieces.push(Piece::of(chunk, &self.places));
            return self.begin(&stun::PROTOCOL, &pieces, &flow_ref, setup, out);
        }
        if pieces.is_empty() {
            // Most flows are identified by their first bytes, without a copy.
            let head = chunk.data.get(..head_of(&flow_ref)).unwrap_or(chunk.data);
            let (forward, reverse) = match chunk.direction {
                Direction::Forward => (head, &[][..]),
                Direction::Reverse => (&[][..], head),
            };
            match self.decide(&flow_ref, forward, reverse, chunk.data.len() >= max) {
                Verdict::Found(protocol) => {
                    self.enter_new(protocol, &flow_ref, out);
                    self.places.begin(chunk.direction, chunk.data.len());
                    return self.read(chunk, setup, out);
                }
                Verdict::Unidentified => return self.miss(&[*chunk], &flow_ref, setup, out),
                Verdict::Wait => {}
            }
        }
        match pieces.last_mut() {
            // Bytes of equal time are one piece, however they were cut.
            Some(last)
                if is_stream
                    && (last.direction, last.time) == (chunk.direction, chunk.time)
                    && chunk.gap == 0 =>
            {
                last.data.extend_from_slice(chunk.data);
            }
            _ => {
                // Usually there is only one.
                pieces.reserve_exact(usize::from(pieces.is_empty()));
                pieces.push(Piece::of(chunk, &self.places));
            }
        }
        let (forward, reverse) = payload_of(&pieces, head_of(&flow_ref));
        let bytes = forward.len() + reverse.len();
        looked_at(bytes);
        let is_full = bytes >= max || !is_stream && pieces.len() >= DATAGRAMS;
        match self.decide(&flow_ref, &forward, &reverse, is_full) {
            Verdict::Found(protocol) => self.begin(protocol, &pieces, &flow_ref, setup, out),
            Verdict::Unidentified => {
                let chunks: Vec<Chunk<'_>> = pieces.iter().map(Piece::chunk).collect();
                self.miss(&chunks, &flow_ref, setup, out);
            }
            Verdict::Wait => {
                let ports = [flow_ref.initiator.1, flow_ref.responder.1];
                let (ip_proto, forward, reverse) = (flow_ref.ip_proto, &forward, &reverse);
                let may_be = may_be(&Heads { forward, reverse, ports, ip_proto });
                self.marks.set(Marks::ANNOUNCES, may_be);
                self.state = State::Probing(pieces);
            }
        }
    }

    /// Creates a parser and passes the kept payload to it.
    fn begin(
        &mut self,
        protocol: &'static Protocol,
        pieces: &[Piece],
        flow_ref: &Setup,
        setup: &dyn Fn() -> Setup,
        out: &mut dyn Out,
    ) {
        self.enter_new(protocol, flow_ref, out);
        let arrived = self.places.before(Direction::Forward, 0);
        if self.marks.has(Marks::STREAM) {
            self.take_back(pieces.iter().map(Piece::chunk).collect::<Vec<_>>().iter());
            self.places.begin(Direction::Forward, 0);
        }
        for piece in pieces {
            if self.marks.has(Marks::STREAM) {
                self.chunk(&piece.chunk(), setup, out);
            } else {
                self.datagram(piece.before, &piece.chunk(), setup, out);
            }
        }
        if !self.marks.has(Marks::STREAM) {
            self.places.go_to(arrived);
        }
    }

    /// Takes back chunks of a stream that will be read once more.
    fn take_back<'c>(&mut self, chunks: impl Iterator<Item = &'c Chunk<'c>>) {
        chunks.for_each(|chunk| {
            self.places.take_back(chunk.direction, chunk.gap + chunk.data.len() as u64);
        });
    }

    /// The protocol of the payload: see [`decide`]. Where it is none of the roles that the flow gives its sides, it may be one
    /// whose client is the responder.
    fn decide(&mut self, flow_ref: &Setup, forward: &[u8], reverse: &[u8], is_all: bool) -> Verdict {
        let verdict = decide(flow_ref, forward, reverse, is_all);
        let is_none = matches!(verdict, Verdict::Unidentified);
        // Where the responder alone has sent, a request is more than what may become something else, or is taken for it at the end.
        let is_open = matches!(verdict, Verdict::Wait) || is_all;
        if flow_ref.ip_proto != TCP || !(is_none || forward.is_empty() && is_open) {
            return verdict;
        }
        match turned_probe(flow_ref, forward, reverse) {
            Verdict::Found(protocol) => {
                self.marks.set(Marks::TURNED, true);
                Verdict::Found(protocol)
            }
            Verdict::Wait if is_none && !is_all => Verdict::Wait,
            _ => verdict,
        }
    }

    /// Begins to parse a protocol.
    fn enter_new(&mut self, protocol: &'static Protocol, flow_ref: &Setup, out: &mut dyn Out) {
        out.is_named(protocol);
        let parser: Box<dyn Parser> = if self.marks.has(Marks::TURNED) {
            out.is_turned();
            Box::new(Turned((protocol.parser)(&turned::setup(flow_ref))))
        } else {
            (protocol.parser)(flow_ref)
        };
        self.enter(protocol, parser, flow_ref.wants, flow_ref.ip_proto);
    }

    fn enter(
        &mut self,
        protocol: &'static Protocol,
        mut parser: Box<dyn Parser>,
        wants: Wants,
        ip_proto: u8,
    ) {
        self.marks.set(Marks::STREAM, ip_proto == TCP);
        if let Some(before) = self.found().last() {
            parser.follows(before);
        }
        self.found.add(protocol);
        let alone = ALONE.iter().position(|alone| std::ptr::eq(*alone, protocol));
        let announces = || ANNOUNCING.iter().any(|known| std::ptr::eq(*known, protocol));
        self.marks.set(Marks::ANNOUNCES, ELSEWHERE.iter().any(|known| std::ptr::eq(*known, protocol)));
        let is_unread =
            alone.is_some_and(|at| wants.unread >> at & 1 == 1) || wants.identifies && !announces();
        let shared = Kind::of_protocol(protocol).filter(|_| ip_proto != TCP && !self.marks.has(Marks::PART));
        self.state = match (shared, is_unread) {
            // If another of them is read, the flow may still have it.
            (Some(kind), _) if !is_unread || !wants.identifies && wants.reads_sharing() => {
                let mut part = Self::part();
                part.enter(protocol, parser, wants, ip_proto);
                State::Shared(Box::new(Home::with(kind, part)))
            }
            _ if self.marks.has(Marks::STREAM) && is_only_identified(protocol) => {
                State::Watched(Box::default())
            }
            (_, true) => State::Unknown,
            (_, false) => State::Identified(parser),
        };
    }

    /// Ends the parser, if there is one.
    fn leave(&mut self, time: Time, out: &mut dyn Out) {
        if let State::Identified(mut parser) = std::mem::replace(&mut self.state, State::Unknown) {
            parser.end(
                time,
                &mut Placing { out, places: &mut self.places, side: None, found: &mut self.found },
            );
        }
    }

    /// Passes the rest of the chunk and all later bytes to another protocol.
    fn turn(
        &mut self,
        protocol: Option<&'static Protocol>,
        unread: usize,
        chunk: &Chunk<'_>,
        setup: &dyn Fn() -> Setup,
        out: &mut dyn Out,
    ) {
        self.leave(chunk.time, out);
        self.turns += 1;
        if self.turns > TURNS {
            return;
        }
        match protocol {
            Some(protocol) => {
                self.enter_new(protocol, &setup(), out);
            }
            None => self.state = State::Probing(Vec::new()),
        }
        // The next protocol has its own numbers.
        for side in [Direction::Forward, Direction::Reverse] {
            begin_transaction(side, 0, out);
        }
        let read = chunk.data.len().saturating_sub(unread);
        let rest = chunk.data.get(read..).unwrap_or_default();
        self.places.begin(chunk.direction, rest.len());
        if !rest.is_empty() {
            self.read(&Chunk { gap: 0, data: rest, ..*chunk }, setup, out);
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self {
            state: State::Probing(Vec::new()),
            found: Names::default(),
            turns: 0,
            marks: Marks::default(),
            places: Places::default(),
        }
    }
}

/// Number of bytes that identify a protocol.
fn head_of(setup: &Setup) -> usize {
    if setup.ip_proto == TCP { HEAD } else { usize::MAX }
}

/// The protocols of each port, as bits by their positions in [`PROTOCOLS`].
struct Homes {
    /// Protocols over TCP and over UDP.
    spoken: [u128; 2],
    /// Protocols by port, in order.
    ports: Vec<(u16, u128)>,
}

impl Homes {
    fn of_all() -> &'static Self {
        static HOMES: OnceLock<Homes> = OnceLock::new();
        HOMES.get_or_init(|| {
            // The number of protocols is at most the number of bits; a test checks it.
            let places = || PROTOCOLS.iter().zip(0..u128::BITS).map(|(protocol, at)| (*protocol, 1 << at));
            let spoken = |ip_proto| {
                places().filter(|(p, _)| p.transport.covers(ip_proto)).fold(0, |all, (_, bit)| all | bit)
            };
            let mut ports = BTreeMap::<u16, u128>::new();
            for (protocol, bit) in places() {
                for port in protocol.ports {
                    *ports.entry(*port).or_default() |= bit;
                }
            }
            Self { spoken: [spoken(TCP), spoken(UDP)], ports: ports.into_iter().collect() }
        })
    }

    /// The protocols of a flow's ports over its transport protocol.
    fn of_flow(&self, setup: &Setup) -> u128 {
        (self.at(setup.initiator.1) | self.at(setup.responder.1)) & self.over(setup.ip_proto)
    }

    /// The protocols over a transport protocol.
    fn over(&self, ip_proto: u8) -> u128 {
        let [tcp, udp] = self.spoken;
        match ip_proto {
            TCP => tcp,
            UDP => udp,
            _ => 0,
        }
    }

    /// The protocols of a port.
    fn at(&self, port: u16) -> u128 {
        let at = self.ports.binary_search_by_key(&port, |(known, _)| *known).ok();
        at.and_then(|at| self.ports.get(at)).map_or(0, |(_, protocol)| *protocol)
    }
}

/// The protocol of the payload if the responder is the client.
fn turned_probe(setup: &Setup, forward: &[u8], reverse: &[u8]) -> Verdict {
    let ports = [setup.responder.1, setup.initiator.1];
    let heads = Heads { forward: reverse, reverse: forward, ports, ip_proto: setup.ip_proto };
    for Turning { protocol, is_plain_request } in TURNING {
        if forward.is_empty() && !is_plain_request(reverse) {
            continue;
        }
        match (protocol.probe)(&heads) {
            Probe::Match => return Verdict::Found(protocol),
            Probe::Maybe => return Verdict::Wait,
            Probe::Reject => {}
        }
    }
    Verdict::Unidentified
}

/// The protocol of the payload; `is_all`: no more payload will arrive.
fn decide(setup: &Setup, forward: &[u8], reverse: &[u8], is_all: bool) -> Verdict {
    if forward.is_empty() && reverse.is_empty() {
        return Verdict::Wait;
    }
    let ports = [setup.initiator.1, setup.responder.1];
    let heads = Heads { forward, reverse, ports, ip_proto: setup.ip_proto };
    let homes = Homes::of_all();
    let (spoken, home) = (homes.over(setup.ip_proto), homes.of_flow(setup));
    let (mut maybe, mut at_home) = (false, None);
    // Protocols of the port are probed first.
    for (mut asked, is_home) in [(home, true), (spoken & !home, false)] {
        while asked != 0 {
            let protocol = PROTOCOLS.get(asked.trailing_zeros() as usize).copied();
            asked &= asked - 1;
            let Some(protocol) = protocol else { break };
            match (protocol.probe)(&heads) {
                Probe::Match => return Verdict::Found(protocol),
                Probe::Maybe => {
                    maybe = true;
                    at_home = at_home.or(is_home.then_some(protocol));
                }
                Probe::Reject => {}
            }
        }
    }
    match (maybe, is_all, at_home) {
        (true, false, _) => Verdict::Wait,
        (true, true, Some(protocol)) => Verdict::Found(protocol),
        _ => Verdict::Unidentified,
    }
}

/// The protocol of the flow's ports that a datagram belongs to.
fn at_home(setup: &Setup, chunk: &Chunk<'_>) -> Option<&'static Protocol> {
    let (forward, reverse) = match chunk.direction {
        Direction::Forward => (chunk.data, &[][..]),
        Direction::Reverse => (&[][..], chunk.data),
    };
    let heads =
        Heads { forward, reverse, ports: [setup.initiator.1, setup.responder.1], ip_proto: setup.ip_proto };
    let home = Homes::of_all().of_flow(setup);
    let asked = PROTOCOLS.iter().zip(0..u128::BITS).filter(|(_, at)| home >> at & 1 == 1);
    asked.map(|(protocol, _)| *protocol).find(|protocol| (protocol.probe)(&heads) == Probe::Match)
}

/// The identified protocol.
enum Verdict {
    Found(&'static Protocol),
    /// More payload is needed.
    Wait,
    Unidentified,
}

/// The payload of each side up to the limit, independent of how the stream was cut.
fn payload_of(pieces: &[Piece], max: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut forward, mut reverse) = (Vec::new(), Vec::new());
    for piece in pieces {
        let room = max - forward.len() - reverse.len();
        let head = piece.data.get(..room).unwrap_or(&piece.data);
        match piece.direction {
            Direction::Forward => forward.extend_from_slice(head),
            Direction::Reverse => reverse.extend_from_slice(head),
        }
    }
    (forward, reverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::talks;

    /// Records of a conversation of a protocol, delivered in pieces of this size.
    fn tables(protocol: &str, case: &str, size: usize) -> Vec<&'static str> {
        let (_, talk) = talks(protocol, 0).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
        let emitted = talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect());
        emitted.records.iter().map(|record| record.table.name).collect()
    }

    #[test]
    fn a_handshake_is_found_behind_a_negotiation() {
        for size in [1, 7, 40, 9999] {
            assert_eq!(tables("tls", "after-negotiation.talk", size), ["tls"], "pieces of {size}");
        }
    }

    #[test]
    fn datagrams_are_probed_again() {
        let found = tables("sip", "behind-others.talk", 9999);
        assert_eq!(found.iter().filter(|table| **table == "sip").count(), 1, "{found:?}");
    }

    #[test]
    fn protocols_fit_into_bits_and_sessions_are_small() {
        assert!(PROTOCOLS.len() <= 128 && ALONE.len() <= 8);
        assert!(size_of::<Session>() <= 80, "{}", size_of::<Session>());
        for (at, protocol) in PROTOCOLS.iter().enumerate() {
            let is_at_home = |port: &u16| Homes::of_all().at(*port) >> at & 1 == 1;
            assert!(protocol.ports.iter().all(is_at_home), "{}", protocol.name);
        }
    }
}
