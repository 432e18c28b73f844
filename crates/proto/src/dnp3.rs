//! Distributed Network Protocol (IEEE 1815), over TCP and UDP: the headers of requests and responses of the application layer.
//!
//! Three layers are read. Frames of the link layer (clause 9) have a header of ten bytes and blocks of at most 16 bytes, each
//! with a check of two bytes. The transport function (clause 8) has one byte in front of each frame's data, and joins
//! the data of several frames to a fragment. A fragment of the application layer (clause 4) is a request or a response. Either
//! end of a flow may be the master, and an outstation may send responses that were not asked for. Objects are not read.

use crate::early::begin_transaction;
use crate::identified::{Frame, one_frame};
use crate::messages::{Length, Message, Reads, Rules, Sides};
use crate::sought::Begun;
use crate::work::looked_at;
use crate::{
    Anomaly, Buffer, Heads, Kind, Out, Parser, Probe, Protocol, Record, Span, Step, TCP, Table, Transport,
    Value, field, record,
};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "dnp3",
    help: "Distributed Network Protocol (IEEE 1815).",
    transport: Transport::Both,
    ports: &[20000],
    probe,
    parser: |setup| Box::new(Dnp3 { is_stream: setup.ip_proto == TCP, ..Dnp3::default() }),
    tables: &[&DNP3],
    buffers: &[&FUNCTION, &INDICATIONS],
};

static FUNCTION: Buffer =
    Buffer::number("dnp3.func", "Code of the function of a request or response, 0 to 255.");
static INDICATIONS: Buffer =
    Buffer::number("dnp3.ind", "Internal indications of a response: the first byte is the higher one.");

static DNP3: Table = Table {
    name: "dnp3",
    help: "A request with its response, or one of them alone; the time is that of the last.",
    zeek: "dnp3",
    eve: "",
    fields: &[
        field("fc_request", Kind::Word, "Function of the request, by the name of its code.")
            .zeek("fc_request"),
        field("fc_reply", Kind::Word, "Function of the response, by the name of its code.").zeek("fc_reply"),
        field("iin", Kind::Uint, "Internal indications of the response: the first byte is the higher one.")
            .zeek("iin"),
        field("master", Kind::Uint, "Link address of the station that asks, from 0 to 65535."),
        field("outstation", Kind::Uint, "Link address of the station that answers, from 0 to 65535."),
        field("sequence", Kind::Uint, "Sequence number of the application layer, from 0 to 15."),
        field("rtt", Kind::Duration, "Time from the request to the response, in seconds."),
    ],
};

/// First bytes of a frame.
const MARK: [u8; 2] = [0x05, 0x64];
/// Length in bytes of a frame's header with its check, of a block of data, and of a check (clause 9).
const HEADER: usize = 10;
const BLOCK: usize = 16;
const CHECK: usize = 2;
/// Number of bytes of the header that the frame's length counts; it counts no check.
const COUNTED: usize = 5;
/// Maximum length of a frame in bytes: 250 bytes of data, whose last block has ten.
const MAX_FRAME: usize = HEADER + 250 + 16 * CHECK;

/// Bit of a link's control byte: the frame is of a station that begins an exchange.
const PRIMARY: u8 = 0x40;
/// Its functions with data of the transport function: with and without a confirmation of the link layer.
const USER_DATA: [u8; 2] = [3, 4];
/// Addresses from this one on are of all outstations, which do not answer.
const BROADCAST: u16 = 0xfffd;

/// Bits of the transport function's byte: the last and the first frame of a fragment; the rest counts the frames (clause 8).
const FIN: u8 = 0x80;
const FIR: u8 = 0x40;
const TRANSPORT_SEQUENCE: u8 = 0x3f;

/// Maximum length of a fragment in bytes: that of the 64 full frames that the transport function numbers. Stations send at most
/// 2,048 bytes unless they are configured otherwise (clause 4).
const MAX_FRAGMENT: usize = 64 * 249;
/// Maximum number of fragments that are joined at a time, of both sides: each is of another pair of stations.
const MAX_FRAGMENTS: usize = 32;
/// Maximum number of requests whose responses are waited for: a pair of stations has one at a time (clause 4).
const MAX_WAITING: usize = 32;
/// Length in bytes of the application layer's header of a response (clause 4).
const MAX_HEAD: usize = 4;
/// Number of lost bytes that may hide 64 frames, after which the transport function counts from 0 again.
const MAX_LOST: u64 = 64 * (HEADER + 1 + CHECK) as u64;

/// Bit of the application layer's control byte: the first fragment of a message. Its low four bits count.
const FIRST: u8 = 0x80;
const SEQUENCE: u8 = 0x0f;
/// Functions from this one on are of responses.
const RESPONSE: u8 = 0x80;
/// A response that was not asked for.
const UNSOLICITED: u8 = 0x82;
/// Functions of requests that are not answered: confirmations, those without acknowledgement, and errors of authentication.
const NOT_ANSWERED: [u8; 6] = [0x00, 0x06, 0x08, 0x0a, 0x0c, 0x21];

/// The check of a block: a CRC of 16 bits with the polynomial 0x3d65, the lowest bit first (9.2.4.3.2).
fn check(block: &[u8]) -> u16 {
    let each = |crc: u16, byte: &u8| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xa6bc } else { crc >> 1 })
    };
    !block.iter().fold(0, each)
}

/// The bytes before a check that is right; the check has its low byte first.
fn checked(block: &[u8]) -> Option<&[u8]> {
    let (data, sent) = block.split_last_chunk::<CHECK>()?;
    (check(data) == u16::from_le_bytes(*sent)).then_some(data)
}

/// Length of a frame, checks included.
fn length(head: &[u8]) -> Length {
    match head {
        [] => Length::Within(2),
        [first] if *first == MARK[0] => Length::Within(2),
        [first, second, ..] if [*first, *second] == MARK => {
            let Some(data) = head.get(2).map(|length| usize::from(*length).checked_sub(COUNTED)) else {
                return Length::Within(3);
            };
            match (data, head.first_chunk::<HEADER>()) {
                (None, _) => Length::Bad(3),
                (Some(_), None) => Length::Within(HEADER),
                (Some(_), Some(header)) if checked(header).is_none() => Length::Bad(HEADER),
                (Some(data), Some(_)) => Length::Is(HEADER + data + CHECK * data.div_ceil(BLOCK)),
            }
        }
        // As many bytes as were waited for.
        [first, ..] => Length::Bad(if *first == MARK[0] { 2 } else { 1 }),
    }
}

/// One whole frame decides, and all bytes of both sides must be frames.
fn probe(heads: &Heads<'_>) -> Probe {
    one_frame(heads, |bytes| match length(bytes) {
        Length::Is(length) => Frame::of(length, bytes),
        Length::Within(_) => Frame::Cut,
        Length::Bad(_) => Frame::No,
    })
}

/// How frames begin: both sides alike, and after missing bytes a header with its check is enough.
#[derive(Clone, Copy)]
struct Begins;

impl Rules for Begins {
    fn length(self, _: Direction, head: &[u8]) -> Length {
        length(head)
    }

    fn begun(self, _: Direction, _: usize, bytes: &[u8]) -> Begun {
        match length(bytes) {
            Length::Is(_) => Begun::Yes(HEADER),
            Length::Within(_) => Begun::Unknown,
            Length::Bad(_) => Begun::No,
        }
    }
}

/// The header of a frame. Addresses have their low byte first.
struct Link {
    control: u8,
    destination: u16,
    source: u16,
}

impl Link {
    fn read(frame: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(frame);
        reader.take(3)?;
        let control = reader.u8()?;
        let mut address = || Some(u16::from_le_bytes([reader.u8()?, reader.u8()?]));
        Some(Self { control, destination: address()?, source: address()? })
    }

    /// Whether the data are those of the transport function.
    fn has_user_data(&self) -> bool {
        self.control & PRIMARY != 0 && USER_DATA.contains(&(self.control & 0x0f))
    }
}

/// The data of a frame without their checks; `None` if one is wrong.
fn data(frame: &[u8]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    for block in frame.get(HEADER..)?.chunks(BLOCK + CHECK) {
        data.extend_from_slice(checked(block)?);
    }
    Some(data)
}

/// Zeek's names of functions with their codes (IEEE 1815, clause 4). Rules name them so, too, in any case of letters.
pub static DNP3_FUNCTIONS: &[(&str, u64)] = &[
    ("CONFIRM", 0x00),
    ("READ", 0x01),
    ("WRITE", 0x02),
    ("SELECT", 0x03),
    ("OPERATE", 0x04),
    ("DIRECT_OPERATE", 0x05),
    ("DIRECT_OPERATE_NR", 0x06),
    ("IMMED_FREEZE", 0x07),
    ("IMMED_FREEZE_NR", 0x08),
    ("FREEZE_CLEAR", 0x09),
    ("FREEZE_CLEAR_NR", 0x0a),
    ("FREEZE_AT_TIME", 0x0b),
    ("FREEZE_AT_TIME_NR", 0x0c),
    ("COLD_RESTART", 0x0d),
    ("WARM_RESTART", 0x0e),
    ("INITIALIZE_DATA", 0x0f),
    ("INITIALIZE_APPL", 0x10),
    ("START_APPL", 0x11),
    ("STOP_APPL", 0x12),
    ("SAVE_CONFIG", 0x13),
    ("ENABLE_UNSOLICITED", 0x14),
    ("DISABLE_UNSOLICITED", 0x15),
    ("ASSIGN_CLASS", 0x16),
    ("DELAY_MEASURE", 0x17),
    ("RECORD_CURRENT_TIME", 0x18),
    ("OPEN_FILE", 0x19),
    ("CLOSE_FILE", 0x1a),
    ("DELETE_FILE", 0x1b),
    ("GET_FILE_INFO", 0x1c),
    ("AUTHENTICATE_FILE", 0x1d),
    ("ABORT_FILE", 0x1e),
    ("ACTIVATE_CONFIG", 0x1f),
    ("AUTHENTICATE_REQ", 0x20),
    ("AUTHENTICATE_ERR", 0x21),
    ("RESPONSE", 0x81),
    ("UNSOLICITED_RESPONSE", 0x82),
    ("AUTHENTICATE_RESP", 0x83),
];

/// The name of a function.
fn function(code: u8) -> String {
    let known = DNP3_FUNCTIONS.iter().find(|(_, known)| *known == u64::from(code));
    known.map_or_else(|| format!("unknown-{code}"), |(name, _)| (*name).to_owned())
}

/// A fragment that goes on: only its header is kept.
struct Fragment {
    /// Its side, and the addresses of source and destination.
    key: (Direction, u16, u16),
    /// Number of the frame that goes on with it.
    next: u8,
    /// The first bytes, of which `held` are known.
    head: [u8; MAX_HEAD],
    held: usize,
    /// Its length so far in bytes.
    length: usize,
    at: Span,
}

impl Fragment {
    fn new(key: (Direction, u16, u16), next: u8, at: Span) -> Self {
        Self { key, next, head: [0; MAX_HEAD], held: 0, length: 0, at }
    }

    /// Takes the data of its next frame.
    fn add(&mut self, part: &[u8], at: Span) {
        let free = self.head.iter_mut().skip(self.held);
        self.held += free.zip(part).map(|(place, byte)| *place = *byte).count();
        self.length += part.len();
        self.at.add(at);
    }

    fn head(&self) -> &[u8] {
        self.head.get(..self.held).unwrap_or_default()
    }

    /// Emits an anomaly of all its bytes.
    fn report(&self, name: &'static str, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let (direction, detail) = (chunk.direction, self.head());
        let anomaly = Anomaly { name, direction, detail, transaction: None };
        out.record(anomaly.record(chunk.time, &PROTOCOL).over(self.at));
    }
}

/// The stations of a request and its response, by their link addresses.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Stations {
    master: u16,
    outstation: u16,
}

/// A request that may have a response.
#[derive(Clone, Copy)]
struct Request {
    stations: Stations,
    sequence: u8,
    function: u8,
    /// Number of its transaction.
    number: u64,
    time: Time,
    at: Span,
}

impl Request {
    /// The row of a request without a response.
    fn row(&self) -> Record<'static> {
        let Self { stations, sequence, .. } = *self;
        record!(
            DNP3,
            self.time,
            fc_request = function(self.function),
            fc_reply = Value::None,
            iin = Value::None,
            master = stations.master,
            outstation = stations.outstation,
            sequence = sequence,
            rtt = Value::None,
        )
        .over(self.at)
    }
}

/// Emits the numbers of a message for rules.
fn emit_numbers(transaction: u64, function: u8, iin: Option<u16>, side: Direction, out: &mut dyn Out) {
    begin_transaction(side, transaction, out);
    out.emit_number(&FUNCTION, side, function.into());
    if let Some(iin) = iin {
        out.emit_number(&INDICATIONS, side, iin.into());
    }
    out.side_is_complete(side);
}

#[derive(Default)]
struct Dnp3 {
    is_stream: bool,
    sides: Sides,
    state: State,
}

/// Fragments that go on, and requests without a response.
#[derive(Default)]
struct State {
    fragments: Vec<Fragment>,
    waiting: Vec<Request>,
    /// Number of transactions of both sides: a request and its response, or one of them alone.
    transactions: u64,
}

impl State {
    /// Forgets fragments of a side after so long a gap that the numbers of frames do not show it.
    fn lose(&mut self, side: Direction, gap: u64) {
        if gap >= MAX_LOST {
            self.fragments.retain(|fragment| fragment.key.0 != side);
        }
    }

    /// Takes the data of a frame with the byte of the transport function.
    fn segment(&mut self, link: &Link, data: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        let Some((transport, part)) = data.split_first() else {
            PROTOCOL.emit_anomaly("len_too_small", chunk.direction, data, chunk.time, out);
            return;
        };
        let key = (chunk.direction, link.source, link.destination);
        let begun = self.fragments.iter().position(|fragment| fragment.key == key);
        let begun = begun.map(|place| self.fragments.remove(place));
        let (number, at) = (transport & TRANSPORT_SEQUENCE, out.here());
        let mut fragment = match begun {
            _ if transport & FIR != 0 => Fragment::new(key, number, at),
            Some(fragment) if fragment.next == number => fragment,
            // Frames before it are missing.
            _ => return,
        };
        fragment.add(part, at);
        fragment.next = number.wrapping_add(1) & TRANSPORT_SEQUENCE;
        if fragment.length > MAX_FRAGMENT {
            fragment.report("too_long_reassembly", chunk, out);
        } else if transport & FIN != 0 {
            self.fragment(&fragment, chunk, out);
        } else {
            if self.fragments.len() == MAX_FRAGMENTS {
                self.fragments.remove(0);
            }
            self.fragments.push(fragment);
        }
    }

    /// Takes a whole fragment.
    fn fragment(&mut self, fragment: &Fragment, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let (_, source, destination) = fragment.key;
        match *fragment.head() {
            [control, function, ..] if function < RESPONSE => {
                let stations = Stations { master: source, outstation: destination };
                let (sequence, time, at) = (control & SEQUENCE, chunk.time, fragment.at);
                let number = self.next_transaction();
                self.request(Request { stations, sequence, function, number, time, at }, out);
                emit_numbers(number, function, None, chunk.direction, out);
            }
            [control, function, high, low] => {
                let stations = Stations { master: destination, outstation: source };
                self.response(
                    stations,
                    [control, function],
                    u16::from_be_bytes([high, low]),
                    fragment.at,
                    chunk,
                    out,
                );
            }
            _ => fragment.report("len_too_small", chunk, out),
        }
    }

    /// The number of a transaction that begins.
    fn next_transaction(&mut self) -> u64 {
        let number = self.transactions;
        self.transactions += 1;
        number
    }

    /// Takes a request. The one before it of its stations, if it still waits, has no response.
    fn request(&mut self, request: Request, out: &mut dyn Out) {
        if NOT_ANSWERED.contains(&request.function) || request.stations.outstation >= BROADCAST {
            out.record(request.row());
            return;
        }
        let before = self.waiting.iter().position(|waiting| waiting.stations == request.stations);
        let before = before.or_else(|| (self.waiting.len() == MAX_WAITING).then_some(0));
        if let Some(place) = before {
            out.record(self.waiting.remove(place).row());
        }
        self.waiting.push(request);
    }

    /// Takes a response. Only the first fragment of one that was asked for has a request.
    fn response(
        &mut self,
        stations: Stations,
        [control, code]: [u8; 2],
        iin: u16,
        mut at: Span,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) {
        let sequence = control & SEQUENCE;
        let is_of = |waiting: &Request| waiting.stations == stations && waiting.sequence == sequence;
        let is_asked = code != UNSOLICITED && control & FIRST != 0;
        let place = self.waiting.iter().position(is_of).filter(|_| is_asked);
        let request = place.map(|place| self.waiting.remove(place));
        let number = request.map_or_else(|| self.next_transaction(), |request| request.number);
        emit_numbers(number, code, Some(iin), chunk.direction, out);
        if let Some(request) = request {
            let response = at;
            at = request.at;
            at.add(response);
        }
        let record = record!(
            DNP3,
            chunk.time,
            fc_request = request.map(|request| function(request.function)),
            fc_reply = function(code),
            iin = iin,
            master = stations.master,
            outstation = stations.outstation,
            sequence = sequence,
            rtt = request.map(|request| Value::Duration(chunk.time.since(request.time))),
        );
        out.record(record.over(at));
    }

    /// Takes the frames of a datagram, up to bytes that begin none.
    fn datagram(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let mut rest = chunk.data;
        while !rest.is_empty() {
            let size = length(rest);
            let frame = match size {
                Length::Is(length) => rest.split_at_checked(length),
                _ => None,
            };
            let Some((frame, next)) = frame else {
                let bytes = if let Length::Bad(bytes) = size { rest.get(..bytes) } else { None };
                self.malformed(bytes.unwrap_or(rest), chunk, out);
                return;
            };
            looked_at(frame.len());
            self.message(Message { bytes: frame, length: frame.len() }, chunk, out);
            rest = next;
        }
    }
}

impl Reads for State {
    type Rules = Begins;
    const MAX_HELD: usize = MAX_FRAME;

    fn rules(&self) -> Begins {
        Begins
    }

    fn message(&mut self, message: Message<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let Some(link) = Link::read(message.bytes) else { return Step::Next };
        match data(message.bytes) {
            Some(data) if link.has_user_data() => self.segment(&link, &data, chunk, out),
            Some(_) => {}
            None => {
                PROTOCOL.emit_anomaly("bad_transport_crc", chunk.direction, message.bytes, chunk.time, out)
            }
        }
        Step::Next
    }

    fn malformed(&mut self, bytes: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        let name = match bytes {
            [_, _, _] if bytes.starts_with(&MARK) => "len_too_small",
            _ if bytes.len() == HEADER && bytes.starts_with(&MARK) => "bad_link_crc",
            _ => "malformed_data",
        };
        PROTOCOL.emit_anomaly(name, chunk.direction, bytes, chunk.time, out);
    }
}

impl Parser for Dnp3 {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if !self.is_stream {
            self.state.datagram(chunk, out);
            return Step::Next;
        }
        self.state.lose(chunk.direction, chunk.gap);
        self.sides.read(chunk, out, &mut self.state)
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        for request in self.state.waiting.drain(..) {
            out.record(request.row());
        }
    }

    fn memory(&self) -> usize {
        self.sides.memory()
            + self.state.fragments.capacity() * size_of::<Fragment>()
            + self.state.waiting.capacity() * size_of::<Request>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ANOMALY;
    use crate::laws::{Collected, talks};
    use crate::talk::{Talk, Turn};
    use weir_wire::Direction::{Forward, Reverse};

    /// The values of a row's first three fields, its addresses and its sequence number, or the name of an anomaly.
    fn rows(emitted: &Collected) -> Vec<String> {
        let shown = |record: &Record<'_>, field: &str| match record.get(field) {
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Value::Uint(number) => number.to_string(),
            _ => "-".to_owned(),
        };
        let fields = ["fc_request", "fc_reply", "iin", "master", "outstation", "sequence"];
        let row = |record: &Record<'_>| match *record.table == ANOMALY {
            true => shown(record, "name"),
            false => fields.map(|field| shown(record, field)).join(" "),
        };
        emitted.records.iter().map(row).collect()
    }

    fn of_talk(name: &str) -> Vec<String> {
        let (_, talk) = talks("dnp3", 20000).into_iter().find(|(path, _)| path.ends_with(name)).unwrap();
        rows(&talk.emitted(|data| vec![data.to_vec()]))
    }

    /// A frame from station 1 to 10, or back.
    fn frame(side: Direction, data: &[u8]) -> Vec<u8> {
        let (control, addresses) =
            if side == Forward { (0xc4, [10, 0, 1, 0]) } else { (0x44, [1, 0, 10, 0]) };
        let mut frame = vec![MARK[0], MARK[1], (COUNTED + data.len()) as u8, control];
        frame.extend(addresses);
        frame.extend(check(&frame).to_le_bytes());
        for block in data.chunks(BLOCK) {
            frame.extend(block);
            frame.extend(check(block).to_le_bytes());
        }
        frame
    }

    /// The rows of a stream of frames, in pieces of a size.
    fn of_frames(frames: &[(Direction, Vec<u8>)], piece: usize) -> Vec<String> {
        let turns = frames.iter().map(|(side, bytes)| Turn::Data(*side, bytes.clone())).collect();
        let talk = Talk { ports: [49152, 20000], ip_proto: TCP, turns };
        rows(&talk.emitted(|data| data.chunks(piece).map(<[u8]>::to_vec).collect()))
    }

    const READ: &[u8] = &[0xc0, 0xc1, 0x01];
    const RESPONSE: &[u8] = &[0xc0, 0xc1, 0x81, 0x10, 0x02];
    const ROW: &str = "READ RESPONSE 4098 1 10 1";

    #[test]
    fn requests_are_joined_with_their_responses() {
        assert_eq!(
            of_talk("session.talk"),
            [
                "READ RESPONSE 512 1 10 1",
                "CONFIRM - - 1 10 1",
                "SELECT RESPONSE 0 1 10 2",
                "- UNSOLICITED_RESPONSE 4608 1 10 0",
                "CONFIRM - - 1 10 0",
                "OPERATE RESPONSE 4096 1 10 3",
                "DIRECT_OPERATE_NR - - 1 10 4",
                "DELAY_MEASURE RESPONSE 0 1 11 5",
                "DELAY_MEASURE RESPONSE 36864 1 10 5",
                "RECORD_CURRENT_TIME - - 1 65535 6",
                "COLD_RESTART - - 1 10 7",
                "unknown-112 RESPONSE 1 1 10 8",
                "AUTHENTICATE_REQ AUTHENTICATE_RESP 0 1 10 9",
            ]
        );
    }

    #[test]
    fn either_side_may_be_the_master() {
        assert_eq!(
            of_talk("outstation-begins.talk"),
            [
                "- UNSOLICITED_RESPONSE 36864 1 10 0",
                "CONFIRM - - 1 10 0",
                "READ RESPONSE 2048 1 10 1",
                "CONFIRM - - 1 10 1",
                "- RESPONSE 0 1 10 2",
                "CONFIRM - - 1 10 2",
                "ENABLE_UNSOLICITED RESPONSE 0 1 10 3",
            ]
        );
    }

    #[test]
    fn a_gap_costs_the_messages_that_it_hits() {
        assert_eq!(
            of_talk("gaps.talk"),
            [
                "READ - - 1 10 1",
                "READ - - 1 10 2",
                "READ - - 1 10 3",
                "READ RESPONSE 0 1 10 4",
                "WRITE - - 1 10 5",
                "READ RESPONSE 0 1 10 6",
                "READ RESPONSE 0 1 10 7",
            ]
        );
    }

    /// Bytes that begin no frame are named with equal bytes, however they are cut.
    #[test]
    fn what_begins_like_a_frame_is_malformed_in_any_cut() {
        for wrong in [&[5, 41][..], &[5, 41, 10], &[41, 5], &[5, 5, 0x64]] {
            let turns = vec![Turn::Data(Forward, frame(Forward, READ)), Turn::Data(Reverse, wrong.to_vec())];
            let talk = Talk { ports: [49152, 20000], ip_proto: TCP, turns };
            let whole = talk.emitted(|data| vec![data.to_vec()]).records;
            assert!(whole.iter().any(|record| record.table.name == "anomaly"), "{wrong:?}");
            for size in [1, 2] {
                let cut = talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect()).records;
                assert_eq!(cut, whole, "{wrong:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn wrong_frames_are_left_out_and_named() {
        assert_eq!(
            of_talk("malformed.talk"),
            [
                "bad_link_crc",
                "READ RESPONSE 0 1 10 1",
                "bad_transport_crc",
                "WRITE RESPONSE 0 1 10 2",
                "len_too_small",
                "READ RESPONSE 0 1 10 3",
                "malformed_data",
                "- RESPONSE 0 1 10 4",
                "len_too_small",
                "len_too_small",
                "len_too_small",
                "READ RESPONSE 32768 1 10 5",
            ]
        );
    }

    #[test]
    fn datagrams_have_whole_frames() {
        assert_eq!(
            of_talk("datagrams.talk"),
            [
                "READ RESPONSE 0 1 10 0",
                "- UNSOLICITED_RESPONSE 512 1 10 3",
                "CONFIRM - - 1 10 3",
                "WRITE RESPONSE 0 1 10 1",
                "malformed_data",
            ]
        );
    }

    #[test]
    fn every_piece_gives_the_rows_of_the_whole() {
        let frames = [(Forward, frame(Forward, READ)), (Reverse, frame(Reverse, RESPONSE))];
        for piece in [1, 2, 9, 10, 11, 1000] {
            assert_eq!(of_frames(&frames, piece), [ROW], "{piece}");
        }
    }

    #[test]
    fn each_truncation_leaves_the_request_alone() {
        let response = frame(Reverse, RESPONSE);
        for cut in 0..response.len() {
            let frames = [(Forward, frame(Forward, READ)), (Reverse, response[..cut].to_vec())];
            assert_eq!(of_frames(&frames, 1000), ["READ - - 1 10 1"], "{cut}");
        }
    }

    #[test]
    fn each_changed_byte_is_found() {
        let response = frame(Reverse, RESPONSE);
        for at in 0..response.len() {
            let mut wrong = response.clone();
            wrong[at] ^= 0x10;
            let frames = [
                (Forward, frame(Forward, READ)),
                (Reverse, response.clone()),
                (Reverse, wrong),
                (Forward, frame(Forward, READ)),
                (Reverse, response.clone()),
            ];
            let rows = of_frames(&frames, 7);
            let known = ["bad_link_crc", "bad_transport_crc", "len_too_small", "malformed_data"];
            assert!(rows.len() == 3 && known.contains(&&*rows[1]), "{at}: {rows:?}");
            assert!(rows[0] == ROW && rows[2] == ROW, "{at}: {rows:?}");
        }
    }

    /// A fragment's frames of 249 bytes each; the last one ends it.
    fn fragment(frames: usize, ends: bool) -> Vec<(Direction, Vec<u8>)> {
        let one = |number: usize| {
            let is_last = ends && number + 1 == frames;
            let first = if number == 0 { FIR } else { 0 } | if is_last { FIN } else { 0 };
            let mut data = vec![first | number as u8 & TRANSPORT_SEQUENCE];
            data.extend([RESPONSE, &[0; 245]].concat().iter().skip(1).take(249));
            (Reverse, frame(Reverse, &data))
        };
        (0..frames).map(one).collect()
    }

    #[test]
    fn fragments_have_a_limit() {
        let read = || (Forward, frame(Forward, READ));
        let with = |between: Vec<_>| {
            [vec![read()], between, vec![read(), (Reverse, frame(Reverse, RESPONSE))]].concat()
        };
        let within = MAX_FRAGMENT / 249;
        assert_eq!(of_frames(&[vec![read()], fragment(within, true)].concat(), 1448), [ROW]);
        for beyond in [within + 1, 200] {
            let expected = ["too_long_reassembly", "READ - - 1 10 1", ROW];
            assert_eq!(of_frames(&with(fragment(beyond, false)), 1448), expected, "{beyond}");
        }
        // Its end is no message.
        assert_eq!(of_frames(&with(fragment(within + 1, true)), 1448)[1..], ["READ - - 1 10 1", ROW]);
    }

    #[test]
    fn memory_does_not_grow_with_stations_that_never_end() {
        let (mut parser, mut out) = (Dnp3 { is_stream: true, ..Dnp3::default() }, Collected::default());
        let mut most = 0;
        for station in 0..20_000_u16 {
            // A request of one station, and a fragment of another that goes on.
            for transport in [0xc0, 0x40] {
                let mut data = vec![MARK[0], MARK[1], 8, 0xc4, 10, 0];
                data.extend(station.to_le_bytes());
                data.extend(check(&data).to_le_bytes());
                let part = [transport, 0xc1, 0x01];
                data.extend(part);
                data.extend(check(&part).to_le_bytes());
                let chunk = Chunk { time: Time(0), direction: Forward, gap: 0, data: &data };
                assert!(matches!(parser.chunk(&chunk, &mut out), Step::Next));
            }
            most = most.max(parser.memory());
        }
        assert!(most < 16 << 10, "{most}");
        parser.end(Time(0), &mut out);
        assert_eq!(out.records.len(), 20_000);
    }
}
